"""Attempts at a proof for every size: what each of them rests on is printed, whichever proves the kernel."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict

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
    (found,) = syncverify.check(HANDED.replace("TRIPS", TRIPS[trips]), scope="all")
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
