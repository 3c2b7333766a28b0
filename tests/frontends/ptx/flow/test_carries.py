"""Carries that would have to outlive a call: nothing is proved of a kernel that reads one."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.frontends.ptx.flow.carries import loses_carries, reads_a_carry_of_its_caller
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.func f()
{{
.reg .b32 %x<4>;
mov.u32 %x0, 7;
{called}
ret;
}}
.visible .entry k(.param .u32 n)
{{
.reg .pred %p<4>;
.reg .b32 %r<9>;
.param .b32 back;
.param .b64 one;
.param .b64 two;
ld.param.u32 %r0, [n];
setp.eq.u32 %p0, %r0, 3;
{body}
setp.eq.u32 %p1, %r3, 0;
@!%p1 bra E;
bar.sync 0;
E:
bar.sync 1;
ret;
}}
"""
SUM, READ, CALL = "add.cc.u32 %r1, %r0, 1;", "addc.u32 %r3, 0, 0;", "call.uni f, ();"
PRINT = "call.uni (back), vprintf, (one, two);"
OF_ITS_OWN = "add.cc.u32 %x1, %x0, 1;"
#: What the function does, what the kernel does, whether a carry is lost, and whether the function reads one.
CASES = [
    ("", f"{SUM} {READ}", False, False),
    ("", f"{SUM} {CALL} {READ}", True, False),
    ("", f"{SUM} @%p0 {CALL} {READ}", True, False),
    ("", f"{CALL} {SUM} {READ}", False, False),
    ("", f"{CALL} @%p0 {SUM} {READ}", True, False),
    ("", f"{SUM} {PRINT} {READ}", True, False),
    ("", f"{PRINT} {SUM} {READ}", False, False),
    ("", f"mov.u32 %r4, 0; {SUM} L: {READ} {CALL} add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3; @%p2 bra L;",
     True, False),
    (OF_ITS_OWN, f"{CALL} {READ}", True, False),
    (OF_ITS_OWN, f"{SUM} {READ} {CALL}", False, False),
    ("addc.u32 %x1, %x0, 1;", f"{SUM} {CALL} mov.u32 %r3, 0;", False, True),
    (f"{OF_ITS_OWN} addc.u32 %x1, %x0, 1;", f"{SUM} {READ} {CALL}", False, False),
]  # fmt: skip


@pytest.mark.parametrize(("called", "body", "lost", "read"), CASES)
def test_no_carry_outlives_a_call(called: str, body: str, lost: bool, read: bool) -> None:
    text = TEXT.format(called=called, body=body)
    f, k = (next(g for g in parse(text).functions if g.name == name) for name in ("f", "k"))
    assert bool(loses_carries(Flow(k))) is lost
    assert reads_a_carry_of_its_caller(f) is read
    facts = {"kernel": {"k": {"block": [64], "grid": [1], "params": {"0": 3}}}}
    (report,) = syncverify.check(text, facts=facts, timeout=60, advice=False)
    assert str(report.verdict) == ("unknown" if lost or read else "proved")
