"""Attempts at a proof for every size: what each of them rests on is printed, whichever proves the kernel."""

from __future__ import annotations

from typing import Literal

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.frontends.ptx.values.symbolic_words import NO_WRAP

#: A thread hands an element to its neighbour as often as ``TRIPS`` says, and writes the one that it has read.
HANDED = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 row, .param .u64 counts, .param .u32 n)
.reqntid 64, 1, 1
{
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<10>;
  .shared .align 4 .b8 buf[256];
  ld.param.u64 %d1, [row];
  ld.param.u64 %d2, [counts];
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mov.u32 %r1, %tid.x;
  TRIPS
  mov.u32 %r3, 0;
  mov.u32 %r4, buf;
  mad.lo.u32 %r5, %r1, 4, %r4;
  xor.b32 %r6, %r1, 1;
  mad.lo.u32 %r7, %r6, 4, %r4;
  mul.wide.u32 %d3, %r1, 4;
  add.u64 %d4, %d1, %d3;
TURN:
  setp.ge.u32 %p1, %r3, %r2;
  @%p1 bra END;
  ld.global.u32 %r8, [%d4];
  st.shared.u32 [%r5], %r8;
  bar.sync 0;
  ld.shared.u32 %r9, [%r7];
  st.global.u32 [%d4], %r9;
  bar.sync 0;
  add.u32 %r3, %r3, 1;
  bra TURN;
END:
  ret;
}
"""
TRIPS = {
    "a number": "mov.u32 %r2, 3;",
    "a size": "ld.param.u32 %r2, [n];",
    "what is loaded": "ld.global.u32 %r2, [%d2];",
}


def report(trips: str) -> KernelReport:
    (found,) = syncverify.check(HANDED.replace("TRIPS", TRIPS[trips]), scope="all", advice=False)
    return found


@pytest.mark.parametrize("trips", TRIPS)
def test_every_attempt_says_that_nobody_else_reads_what_is_written(trips: str) -> None:
    found = report(trips)
    assert found.verdict is Verdict.PROVED
    assert any("no other thread reads" in text and "through param0" in text for text in found.assumptions)


def test_an_attempt_with_loads_as_sizes_says_that_they_stay_the_same() -> None:
    stays = "what param1 leads to stays the same while the kernel runs"
    assert stays in report("what is loaded").assumptions
    assert stays not in report("a size").assumptions


#: A block that meets unless ``p`` holds, and reads what others have stored.
MET = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 big)
.reqntid 64, 1, 1
{
  .reg .pred %p, %q; .reg .b32 %n, %x, %t, %s, %v; .reg .b64 %b;
  .shared .align 4 .b8 slot[256];
  ld.param.u32 %n, [n];
  ld.param.u64 %b, [big];
  mov.u32 %t, %tid.x;
  mov.u32 %s, slot;
  mad.lo.u32 %s, %t, 4, %s;
  st.shared.u32 [%s], %t;
  CONDITION
  @%p bra LATE;
  bar.sync 0;
LATE:
  xor.b32 %s, %s, 4;
  ld.shared.u32 %v, [%s];
  ret;
}
"""
#: Conditions that no size meets unless arithmetic wraps, with sizes that meet them.
WRAPS = {
    "a sum": ("add.u32 %x, %n, 1; setp.lt.u32 %p, %x, 1;", {"n": 2**32 - 1}),
    "a product": ("shl.b32 %x, %n, 2; setp.lt.u32 %p, %x, %n;", {"n": 2**30}),
    "a signed sum": ("add.s32 %x, %n, 1; setp.lt.s32 %p, %x, 1;", {"n": 2**31 - 1}),
    "a highest bit": ("shl.b32 %x, %n, 1; shr.u32 %x, %x, 31; setp.ne.u32 %p, %x, 0;", {"n": 2**30}),
    "a cut": (
        "cvt.u32.u64 %x, %b; setp.eq.u32 %p, %x, 5; setp.gt.and.u64 %p, %b, 5, %p;",
        {"big": 2**32 + 5},
    ),
}
#: Conditions on a size itself, and on one that facts bound.
EXACT = {
    "a borrow": ("sub.cc.u32 %x, 57, %n; subc.u32 %x, 0, 0; setp.ne.u32 %p, %x, 0;", ()),
    "a carry": ("add.cc.u32 %x, %n, 1; addc.u32 %x, 0, 0; setp.ne.u32 %p, %x, 0;", ()),
    "a carry of a product": (
        "mad.lo.cc.u32 %x, %n, 65536, 0xffff0000; addc.u32 %x, 0, 0; setp.ne.u32 %p, %x, 0;",
        ("n >= 0", "n <= 1"),
    ),
    "a carry into the upper half": (
        "mov.b64 {%x, %v}, %b; add.cc.u32 %x, %x, 16; addc.u32 %x, %v, 0; setp.ne.u32 %p, %x, 0;",
        ("big >= 0", "big <= 4294967280"),
    ),
    "a signed size": ("setp.lt.s32 %p, %n, 0;", ()),
    "a product of what is cut": (
        "cvt.u32.u64 %x, %b; mul.lo.u32 %x, %x, 3; setp.eq.u32 %p, %x, 6; setp.gt.and.u64 %p, %b, 5, %p;",
        ("big >= 0", "big <= 8589934592"),
    ),
    "a bit that is left of any": (
        "shl.b32 %x, %n, 31; setp.ge.s32 %p, %x, 0;",
        ("n >= 3", "n <= 4"),
    ),
    "a cut below a bound": (WRAPS["a cut"][0], ("big >= 0", "big <= 1099511627776")),
}


def met(condition: str, assume: tuple[str, ...] = (), values: dict[str, int] | None = None) -> KernelReport:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": {"0": "n", "1": "big"}, "assume": list(assume)}}}
    text = MET.replace("CONDITION", condition)
    scope: Literal["all", "exact"] = "all" if values is None else "exact"
    (found,) = syncverify.check(text, facts=facts, values=values, scope=scope, advice=False, replay=False)
    return found


@pytest.mark.parametrize("what", WRAPS)
def test_a_proof_says_that_arithmetic_on_sizes_fits(what: str) -> None:
    condition, sizes = WRAPS[what]
    found = met(condition)
    assert found.verdict is Verdict.PROVED
    assert found.assumptions[0] == NO_WRAP  # text reports show the first few
    assert met(condition, values={"n": 1, "big": 1} | sizes).verdict is Verdict.REFUTED


#: Bounds with which no size meets one of these.
KEPT = {
    "a borrow": ("n <= 57",),
    "a carry": ("n <= 4294967294",),
    "a carry of a product": ("n >= 0", "n <= 0"),
    "a carry into the upper half": ("big >= 0", "big <= 4294967279"),
    "a signed size": ("n < 2147483648",),
    "a product of what is cut": ("big >= 0", "big <= 4294967297"),
    "a bit that is left of any": ("n >= 3", "n <= 3"),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_is_read_exactly_is_proved_where_bounds_exclude_it(what: str) -> None:
    assert met(EXACT[what][0], KEPT[what]).verdict is Verdict.PROVED


@pytest.mark.parametrize("what", EXACT)
def test_a_size_that_is_read_exactly_rests_on_nothing(what: str) -> None:
    condition, assume = EXACT[what]
    assert met(condition, assume).verdict is Verdict.REFUTED


MANY_BLOCKS = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k()
{
.reg .pred %p<4>; .reg .b32 %r<8>;
.shared .align 4 .b32 s;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r0, 0;
@%p1 st.shared.u32 [s], 0;
bar.sync 0;
shl.b32 %r2, %r1, 15; add.s32 %r2, %r2, %r0; setp.lt.s32 %p2, %r2, -2147483647;
@%p2 st.shared.u32 [s], %r0;
ld.shared.u32 %r3, [s];
ret;
}
"""


@pytest.mark.parametrize(("blocks", "proved"), [(65_536, True), (70_000, False)])
def test_numbers_of_blocks_that_leave_their_register_are_not_taken_to_fit(blocks: int, proved: bool) -> None:
    # 65536 << 15 is -2**31: the first thread of that block stores beside the loads
    facts = {"kernel": {"k": {"block": [32], "grid": [blocks]}}}
    (report,) = syncverify.check(MANY_BLOCKS, facts=facts, replay=False, advice=False)
    assert (str(report.verdict) == "proved") is proved
