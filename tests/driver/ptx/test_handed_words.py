"""Words that a block hands on through shared memory: they say how often all turn around barriers."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

#: Threads meet, read ``handed``, and exchange their words in each turn of a loop that it bounds.
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{{ .reg .pred %p<5>; .reg .b32 %r<12>; .reg .b64 %d<4>;
  .shared .align 16 .b8 arr[512];
  .shared .align 16 .b8 handed[16];
  mov.u32 %r0, %tid.x;
  ld.param.u64 %d1, [p];
  mul.wide.u32 %d2, %r0, 4;
  add.s64 %d3, %d1, %d2;
  mov.u32 %r2, arr;
  mad.lo.u32 %r2, %r0, 4, %r2;
  {hand}
  {meet}
  ld.shared.u32 %r3, [handed];
  {bound}
  mov.u32 %r5, 0;
TURN:
  setp.ge.s32 %p2, %r5, %r3;
  @%p2 bra END;
  st.shared.u32 [%r2], %r0;
  bar.sync 0;
  xor.b32 %r7, %r2, 128;
  ld.shared.u32 %r8, [%r7];
  {again}
  add.s32 %r5, %r5, 1;
  bra TURN;
END:
  bar.sync 0;
  st.shared.u32 [%r2], %r0;
  ret;
}}
"""
ONE = "setp.ne.u32 %p1, %r0, {}; @%p1 bra H; {} H:"
LOADED = ONE.format(42, "ld.global.u32 %r4, [%d1]; st.shared.u32 [handed], %r4;")
GREATEST = (
    ONE.format(0, "st.shared.u32 [handed], 0;")
    + "bar.sync 0; ld.global.u32 %r4, [%d3]; mov.u32 %r9, handed; atom.shared.max.s32 %r10, [%r9], %r4;"
)
BAR = "bar.sync 0;"


def verdict(hand: str, meet: str = BAR, bound: str = "", again: str = BAR, seconds: float = 30) -> Verdict:
    text = TEXT.format(hand=hand, meet=meet, bound=bound, again=again)
    facts = {"kernel": {"k": {"block": [64, 1, 1], "grid": [1, 1, 1]}}}
    (found,) = syncverify.check(text, facts=facts, timeout=seconds, replay=False, advice=False)
    return found.verdict


@pytest.mark.parametrize("hand", [LOADED, GREATEST])
@pytest.mark.parametrize("bound", ["", "add.s32 %r3, %r3, -1;", "setp.eq.s32 %p3, %r3, 7; @%p3 bra END;"])
def test_what_all_read_bounds_a_loop(hand: str, bound: str) -> None:
    assert verdict(hand, bound=bound) is Verdict.PROVED


@pytest.mark.parametrize("hand", [LOADED, GREATEST])
@pytest.mark.parametrize(
    ("meet", "bound", "again"),
    [
        ("", "", BAR),  # read before it is there
        (BAR, "", ""),  # stored again while others read
        (BAR, "shr.u32 %r9, %r0, 5; add.u32 %r3, %r3, %r9;", BAR),  # the second warp turns once more
        (BAR, "setp.lt.u32 %p3, %r0, 32; @%p3 add.s32 %r3, %r3, 1;", BAR),
        (BAR, "setp.ge.s32 %p3, %r3, 0; @%p3 bra TURN; st.shared.u32 [arr], %r0;", BAR),  # below 0 a race
        # it wraps at the greatest number, and then all store to one place
        (
            BAR,
            "add.s32 %r9, %r3, 1; setp.gt.s32 %p3, %r9, %r3; @%p3 bra L; st.shared.u32 [arr], %r0; L:",
            BAR,
        ),
    ],
)
def test_wrong_twins_are_not_proved(hand: str, meet: str, bound: str, again: str) -> None:
    """A proof would take less than a second; an input that does harm is sought longer."""
    assert verdict(hand, meet, bound, again, seconds=2) is not Verdict.PROVED
