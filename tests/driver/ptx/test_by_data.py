"""Accesses that data from global memory decides on: one of them against one that is made anyway refutes."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{{ .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .shared .align 4 .b8 c[1024];
  ld.param.u64 %d1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d2, %r1, 4;
  add.s64 %d2, %d1, %d2;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, c;
  add.u32 %r3, %r3, %r2;
  ld.{space}.u32 %r4, [{where}];
  setp.eq.u32 %p1, %r4, 7;
  {first}
  @!%p1 bra OVER;
  {inside}
OVER:
  bar.sync 0;
  ret;
}}
"""
OWN = "st.shared.u32 [%r3], %r1;"
WORD = "st.shared.u32 [c+128], %r1;"
OTHERS = "ld.shared.u32 %r5, [c+128];"


def verdict(first: str, inside: str, space: str = "global", where: str = "%d2") -> Verdict:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "block": [64, 1, 1], "params": {"0": {"ptr": "A"}}}}}
    text = KERNEL.format(first=first, inside=inside, space=space, where=where)
    (report,) = syncverify.check(text, facts=facts, advice=False)
    return report.verdict


@pytest.mark.parametrize(
    ("first", "inside", "expected"),
    [
        (OWN, OTHERS, Verdict.REFUTED),  # some input lets a lane of the first warp read word 32
        (OWN, OWN, Verdict.PROVED),  # each lane has a word of its own
        (OWN, "bar.warp.sync -1;" + OTHERS, Verdict.REFUTED),  # some input parts the warp
        ("", WORD, Verdict.UNKNOWN),  # data may choose one lane
        (OWN + "bar.sync 0;", OTHERS, Verdict.PROVED),
    ],
)
def test_an_access_where_data_says_so(first: str, inside: str, expected: Verdict) -> None:
    assert verdict(first, inside) is expected


def test_what_lies_in_shared_memory_may_exclude_it() -> None:
    """Nobody knows what the word holds that decides: it may never be 7."""
    assert verdict(OWN, OTHERS, "shared", "c+512") is not Verdict.REFUTED


#: A row with an edge: threads behind it store zeros, and write nothing back.
GUARDED = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
.reqntid 256
{{ .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .shared .align 4 .b8 c[1024];
  ld.param.u64 %d1, [p]; ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x; mov.u32 %r8, %ctaid.x; shl.b32 %r8, %r8, 8; add.u32 %r7, %r8, %r1;
  setp.ge.s32 %p1, %r7, %r9;
  mul.wide.u32 %d2, %r7, 4; add.s64 %d2, %d1, %d2;
  shl.b32 %r2, %r1, 2; mov.u32 %r3, c; add.u32 %r3, %r3, %r2;
  xor.b32 %r5, %r2, 128; mov.u32 %r6, c; add.u32 %r5, %r5, %r6;
  mov.u32 %r4, 0;
  @%p1 bra ZERO;
  ld.global.u32 %r4, [%d2];
ZERO:
  st.shared.u32 [%r3], %r4;
  {meet}
  @%p1 bra OVER;
  ld.shared.u32 %r4, [%r5];
  st.global.u32 [%d2], %r4;
OVER:
  ret;
}}
"""  # fmt: skip


@pytest.mark.parametrize(("meet", "expected"), [("bar.sync 0;", Verdict.PROVED), ("", Verdict.REFUTED)])
def test_a_guard_by_an_open_size_up_to_the_end(meet: str, expected: Verdict) -> None:
    """Neither the grid nor the size is given; what is written to global memory has no events."""
    (report,) = syncverify.check(GUARDED.format(meet=meet), advice=False)
    assert report.verdict is expected


#: One side moves the address that both sides store through.
TWO_SIDES = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64
{{ .reg .pred %p<9>; .reg .b32 %r<20>; .shared .align 4 .b8 c[4096];
  ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, %r9;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, c;
  {own}
  @{sign}%p1 bra MOVED;
  st.shared.u32 [%r3], %r1;
  bra MEET;
MOVED:
  add.u32 %r3, %r3, %r2;
  add.u32 %r3, %r3, 2048;
  st.shared.u32 [%r3], %r1;
MEET:
  bar.sync 0;
  ret;
}}
"""


@pytest.mark.parametrize("sign", ["", "!"])
@pytest.mark.parametrize(
    ("own", "expected"), [("", Verdict.REFUTED), ("add.u32 %r3, %r3, %r2;", Verdict.PROVED)]
)
def test_neither_side_sees_what_the_other_writes(sign: str, own: str, expected: Verdict) -> None:
    (report,) = syncverify.check(TWO_SIDES.format(sign=sign, own=own), advice=False)
    assert report.verdict is expected


#: Each thread writes a row of its own, from one loaded word to the next: rows that overlap race.
ROWS = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q)
.reqntid 128
{ .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %d<9>; .shared .align 4 .b8 c[4096];
  ld.param.u64 %d1, [p]; ld.param.u64 %d3, [q];
  mov.u32 %r17, %tid.x; mul.wide.s32 %d2, %r17, 4; add.s64 %d4, %d1, %d2;
  ld.global.u32 %r1, [%d4+4]; ld.global.u32 %r2, [%d4];
  setp.le.s32 %p1, %r1, %r2;
  @%p1 bra MEET;
  sub.s32 %r18, %r1, %r2; and.b32 %r35, %r18, 3; setp.eq.s32 %p2, %r35, 0; mov.u32 %r36, %r2;
  @%p2 bra FOURS;
  shl.b32 %r19, %r2, 2; mov.u32 %r20, c; add.s32 %r33, %r20, %r19; mov.u32 %r36, %r2;
ONE:
  st.shared.u32 [%r33], %r36;
  add.s32 %r36, %r36, 1; add.s32 %r33, %r33, 4; add.s32 %r35, %r35, -1; setp.ne.s32 %p3, %r35, 0;
  @%p3 bra ONE;
FOURS:
  not.b32 %r21, %r2; add.s32 %r22, %r1, %r21; setp.lt.u32 %p4, %r22, 3;
  @%p4 bra MEET;
  shl.b32 %r23, %r36, 2; mov.u32 %r24, c; add.s32 %r37, %r24, %r23;
TURN:
  st.shared.u32 [%r37], %r36;
  st.shared.u32 [%r37+12], %r36;
  add.s32 %r37, %r37, 16; add.s32 %r36, %r36, 4; setp.lt.s32 %p5, %r36, %r1;
  @%p5 bra TURN;
MEET:
  bar.sync 0;
  mov.u32 %r31, c; shl.b32 %r30, %r17, 2; add.s32 %r32, %r31, %r30;
  ld.shared.u32 %r5, [%r32];
  add.s64 %d5, %d3, %d2;
  st.global.u32 [%d5], %r5;
  ret;
}
"""  # fmt: skip


def test_code_that_lanes_only_come_past_is_not_left_out() -> None:
    """Both sides of a branch on data are run as one: a class comes to their blocks, but to no label there."""
    (report,) = syncverify.check(ROWS, facts={"kernel": {"k": {"grid": [8, 1, 1]}}}, advice=False)
    assert report.verdict is Verdict.UNKNOWN
