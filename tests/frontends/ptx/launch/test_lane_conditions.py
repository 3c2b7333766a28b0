"""Accesses that a size decides about lane by lane count as made, in the first attempt for every size."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

#: for (b = 0; b < n; b += 64) { if (b + t < n) s[t] = 1; SYNC if (b + t < n) read s[63 - t]; END }
KERNEL = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 p)
{ .reg .b32 %r<20>; .reg .pred %p<9>; .shared .align 4 .b8 s[256];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  shl.b32 %r3, %r2, 2;
  mov.u32 %r4, s;
  add.s32 %r5, %r4, %r3;
  xor.b32 %r6, %r3, 252;
  add.s32 %r7, %r4, %r6;
  mov.u32 %r8, 0;
  setp.lt.s32 %p1, %r1, 1;
  @%p1 bra OUT;
LOOP:
  add.s32 %r9, %r8, %r2;
  setp.ge.s32 %p2, %r9, %r1;
  @%p2 bra A;
  st.shared.u32 [%r5], %r9;
A:
  SYNC
  @%p2 bra B;
  ld.shared.u32 %r10, [%r7];
B:
  END
  add.s32 %r8, %r8, 64;
  setp.lt.s32 %p3, %r8, %r1;
  @%p3 bra LOOP;
OUT: ret; }
"""
SYNC = "bar.sync 0;"


def verdict(text: str, **values: int) -> Verdict:
    facts = {"block": [64], "grid": [1], "params": {"0": {"i32": "n"}}}
    (report,) = syncverify.check(text, facts=facts, values=values, advice=False)
    return report.verdict


@pytest.mark.parametrize(
    "sync, end, expected",
    [(SYNC, SYNC, Verdict.PROVED), ("", SYNC, Verdict.REFUTED), (SYNC, "", Verdict.REFUTED)],
)
def test_a_tail_that_lanes_leave_out(sync: str, end: str, expected: Verdict) -> None:
    text = KERNEL.replace("SYNC", sync).replace("END", end)
    assert verdict(text) is expected
    each = {verdict(text, n=n) for n in (1, 63, 64, 65, 130)}  # as for numbers, where each lane is asked
    assert (each == {Verdict.PROVED}) == (expected is Verdict.PROVED)
    assert Verdict.UNKNOWN not in each


def test_what_a_condition_brings_to_control_is_asked() -> None:
    """The barrier stands behind the condition too."""
    text = KERNEL.replace("SYNC", SYNC).replace("END", SYNC)
    inside = text.replace("  st.shared.u32 [%r5], %r9;\n", f"  st.shared.u32 [%r5], %r9; {SYNC}\n")
    assert verdict(inside) is not Verdict.PROVED
