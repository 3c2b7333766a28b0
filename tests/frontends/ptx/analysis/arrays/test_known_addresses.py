"""Accesses at addresses of the text: those that constants place rightly are not judged when executed."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.frontends.ptx.analysis.arrays.known_addresses import known_addresses
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 16 .b8 p[64])
{{
.reg .pred %p<2>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
.local .align 8 .b8 a[32];
mov.u32 %r0, %tid.x;
setp.eq.u32 %p0, %r0, 0;
mov.b64 %rd1, p;
mov.b64 %rd5, a;
add.s64 %rd2, %rd1, 48;
mul.wide.u32 %rd4, %r0, 4;
{body}
ret;
}}
"""


def _judged(body: str) -> list[str]:
    """The opcodes of the accesses that are judged where they are made."""
    module = parse(KERNEL.format(body=body), "k.ptx")
    flow = Flow(module.entries[0])
    return [flow.body[k].op for k in known_addresses(flow, module, ())]


@pytest.mark.parametrize(
    "body",
    [
        "ld.param.u64 %rd3, [%rd2+8];",
        "ld.param.u32 %r1, [%rd2+-48];",
        "@%p0 ld.param.u32 %r1, [%rd2+12];",
        "sub.s64 %rd3, %rd2, 16;\nld.param.v2.u64 {%rd6, %rd7}, [%rd3+16];",
        "st.local.u32 [%rd5+28], %r0;",
        "st.local.u32 [a+28], %r0;",
    ],
)
def test_constants_inside_of_a_variable(body: str) -> None:
    assert _judged(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "ld.param.u64 %rd3, [%rd2+16];",  # behind the parameter
        "ld.param.u64 %rd3, [%rd2+12];",  # across its end
        "ld.param.u32 %r1, [%rd2+-52];",  # before it
        "ld.param.u64 %rd3, [%rd2+4];",  # not aligned
        "@%p0 ld.param.u64 %rd3, [%rd2+16];",
        "@%p0 add.s64 %rd2, %rd2, 16;\nld.param.u64 %rd3, [%rd2];",  # in one thread
        "add.s64 %rd3, %rd2, %rd4;\nld.param.u32 %r1, [%rd3];",  # by thread
        "cvt.u8.u64 %rd3, %rd2;\nld.param.u32 %r1, [%rd3];",
        "mad.lo.s64 %rd3, %rd2, 2, 0;\nld.param.u32 %r1, [%rd3];",
        "ld.local.u32 %r1, [%rd2];",  # another space
        "st.local.u32 [%rd5+32], %r0;",
        "st.local.u64 [a+28], %rd1;",
    ],
)
def test_other_addresses(body: str) -> None:
    assert _judged(body) == ["st" if "st." in body else "ld"]


AMONG = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q)
{{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
.local .align 4 .b8 a[16]; .local .align 4 .b8 b[64];
mov.u32 %r0, %tid.x;
setp.eq.u32 %p0, %r0, 3;
mov.u64 %rd1, a;
mov.u64 %rd2, b;
mov.u64 %rd3, p;
mov.u64 %rd4, q;
{body}
ret;
}}
"""
CONVERTED = "cvta.local.u64 %rd1, %rd1;\ncvta.local.u64 %rd2, %rd2;\n"
BY_DATA = "ld.param.u64 %rd6, [p];\nld.global.u32 %r2, [%rd6];\nsetp.eq.u32 %p0, %r2, 3;\n"
TURNS = """mov.u32 %r1, 0;
L: st.local.u32 [%rd1+{at}], %r0;
mov.u64 %rd5, %rd1; mov.u64 %rd1, %rd2; mov.u64 %rd2, %rd5;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p1, %r1, 4;
@%p1 bra L;"""


@pytest.mark.parametrize(("at", "proved"), [(12, True), (16, False)])
@pytest.mark.parametrize(
    "body",
    [
        "@%p0 mov.u64 %rd2, %rd1;\nadd.u64 %rd2, %rd2, {at};\nst.local.u32 [%rd2], %r0;",
        "selp.b64 %rd2, %rd1, %rd2, %p0;\nst.local.u32 [%rd2+{at}], %r0;",
        "mov.u64 %rd5, b+60;\n@!%p0 bra J;\nadd.u64 %rd5, %rd1, {at};\nJ: st.local.u32 [%rd5], %r0;",
        TURNS,
        "selp.b64 %rd3, %rd3, %rd4, %p0;\nld.param.u32 %r1, [%rd3+{at}+-8];",
        CONVERTED + "selp.b64 %rd2, %rd1, %rd2, %p0;\nst.u32 [%rd2+{at}], %r0;",
        BY_DATA + "selp.b64 %rd2, %rd1, %rd2, %p0;\nst.local.u32 [%rd2+{at}], %r0;",
        BY_DATA + CONVERTED + "@%p0 mov.u64 %rd2, %rd1;\nst.u32 [%rd2+{at}], %r0;",
    ],
    ids=["guard", "selp", "branch", "turns", "param", "generic", "data", "generic by data"],
)
def test_choices_between_variables(body: str, at: int, proved: bool) -> None:
    """With the larger offset, one of the variables is left, and the place may lie in the other one."""
    body = body.replace("{at}+-8", str(at - 8)).replace("{at}", str(at))
    facts = {"kernel": {"k": {"grid": [1], "block": [32], "params": {"0": "ptr"}}}}
    (report,) = syncverify.check(AMONG.format(body=body), facts=facts, replay=False, advice=False)
    assert str(report.verdict) == ("proved" if proved else "unknown")
