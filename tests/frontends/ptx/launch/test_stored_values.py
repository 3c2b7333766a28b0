"""Numbers that lanes count up and only store are data, in an attempt for every size."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

#: for (i = 0, v = 0; i < n; ++i, v += STEP) { s[WORD] = v; SYNC read s[63 - t]; USE END }
KERNEL = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 p)
{ .reg .b32 %r<20>; .reg .pred %p<9>; .shared .align 4 .b8 s[256];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  WORD
  shl.b32 %r3, %r11, 2;
  mov.u32 %r4, s;
  add.s32 %r5, %r4, %r3;
  xor.b32 %r6, %r3, 252;
  add.s32 %r7, %r4, %r6;
  STEP
  mov.u32 %r8, 0;
  mov.u32 %r9, %r8;
  setp.lt.s32 %p1, %r1, 1;
  @%p1 bra OUT;
LOOP:
  st.shared.u32 [%r5], %r9;
  SYNC
  ld.shared.u32 %r10, [%r7];
  USE
  END
  add.s32 %r9, %r9, %r12;
  add.s32 %r8, %r8, 1;
  setp.lt.s32 %p3, %r8, %r1;
  @%p3 bra LOOP;
OUT: ret; }
"""
OWN, PAIR = "mov.u32 %r11, %r2;", "and.b32 %r11, %r2, 62;"
BY_LANE, BY_PAIR = "mov.u32 %r12, %r2;", "and.b32 %r12, %r2, 62;"
SYNC = "bar.sync 0;"


def verdict(
    word: str = OWN, step: str = BY_LANE, sync: str = SYNC, use: str = "", end: str = SYNC
) -> Verdict:
    text = KERNEL
    for name, part in {"WORD": word, "STEP": step, "SYNC": sync, "USE": use, "END": end}.items():
        text = text.replace(f"  {name}\n", f"  {part}\n")
    facts = {"block": [64], "grid": [1], "params": {"0": {"i32": "n"}}}
    (report,) = syncverify.check(text, facts=facts, advice=False)
    return report.verdict


def test_a_number_that_each_lane_counts_up_is_stored() -> None:
    assert verdict() is Verdict.PROVED


@pytest.mark.parametrize("missing", ["sync", "end"])
def test_a_barrier_that_is_missing(missing: str) -> None:
    assert verdict(**{missing: ""}) is Verdict.REFUTED


def test_two_lanes_that_store_to_one_word() -> None:
    assert verdict(word=PAIR) is not Verdict.PROVED
    assert verdict(word=PAIR, step=BY_PAIR) is not Verdict.REFUTED  # they store one value


def test_a_number_that_is_loaded_again_and_decides() -> None:
    """Lane 63 - t counts by its own step: from the second turn on lanes decide differently."""
    use = f"setp.gt.u32 %p4, %r10, 31; @%p4 bra A; {SYNC} A:"
    assert verdict(use=use) is not Verdict.PROVED
