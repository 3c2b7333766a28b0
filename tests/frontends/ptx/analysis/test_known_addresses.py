"""Accesses at addresses of the text: those that constants place rightly are not judged when executed."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.known_addresses import known_addresses
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 8 .b8 p[64])
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
