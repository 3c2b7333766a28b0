"""Counters of which only the low bits are known place accesses: right loops and wrong ones beside them."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

#: Each thread stores to ``row`` by its counter ``%r4``, from its own number on, while that is below a size.
TEXT = """.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 row[];
.visible .entry k(.param .u32 n, .param .u64 data)
{{ .reg .pred %p<9>; .reg .b16 %h<3>; .reg .b32 %r<40>; .reg .b64 %d<9>;
  mov.u32 %r3, %tid.x;
  ld.param.u32 %r1, [n];
  ld.param.u64 %d1, [data];
  ld.global.u32 %r9, [%d1];
  mov.u32 %r7, row;
  mov.u32 %r4, %r3;
  cvt.u64.u32 %d4, %r3;
  setp.eq.u32 %p2, %r9, 3;
  {before}
W:
  setp.ge.u32 %p1, %r4, %r1;
  @%p1 bra E;
  mov.u32 %r11, %r4;
  {place}
  shl.b32 %r5, %r11, 2;
  add.u32 %r6, %r7, %r5;
  st.shared.u32 [%r6], %r3;
  {step}
  bra W;
E:
  ret;
}}
"""
BY_64 = "add.u32 %r4, %r4, 64;"
BY_256 = "add.u32 %r4, %r4, 256;"


def verdict(place: str = "", step: str = BY_64, before: str = "") -> Verdict:
    text = TEXT.format(place=place, step=step, before=before)
    facts = {"kernel": {"k": {"block": [64, 1, 1], "grid": [1, 1, 1]}}}
    (found,) = syncverify.check(text, facts=facts, advice=False)
    return found.verdict


@pytest.mark.parametrize(
    ("place", "step", "before"),
    [
        ("and.b32 %r11, %r4, 63;", BY_64, ""),
        ("not.b32 %r11, %r4; and.b32 %r11, %r11, 63;", BY_64, ""),
        ("shr.s32 %r11, %r4, 2;", BY_256, "shl.b32 %r4, %r4, 2;"),
        ("", "add.u32 %r4, %r4, 0x40000000;", ""),  # it wraps
        ("cvt.u16.u32 %h1, %r4; cvt.u32.u16 %r11, %h1;", "add.u32 %r4, %r4, 32768;", ""),
        ("cvt.u32.u64 %r11, %d4;", "add.u64 %d4, %d4, 0x100000000;" + BY_64, ""),
    ],
)
def test_places_of_their_own_are_proved(place: str, step: str, before: str) -> None:
    assert verdict(place, step, before) is Verdict.PROVED


@pytest.mark.parametrize(
    ("place", "step", "before"),
    [
        ("and.b32 %r11, %r4, 63;", "add.u32 %r4, %r4, 32;", ""),
        ("shr.u32 %r11, %r4, 2;", BY_64, ""),
        ("shr.u64 %d5, %d4, 32; cvt.u32.u64 %r11, %d5;", "add.u64 %d4, %d4, 0x100000000;" + BY_64, ""),
        ("redux.sync.add.u32 %r11, %r4, -1;", BY_64, ""),
        ("or.b32 %r11, %r4, 1;", BY_64, ""),
        ("", BY_64 + "@%p2 add.u32 %r4, %r4, 1;", ""),  # data rewrites it
        ("", "@!%p2 bra M; add.u32 %r4, %r4, 32; M: add.u32 %r4, %r4, 32;", "@%p2 bra M;"),  # entered twice
    ],
)
def test_places_that_threads_share_are_not(place: str, step: str, before: str) -> None:
    assert verdict(place, step, before) is not Verdict.PROVED


#: What a warp makes of a value of all its lanes decides whether all of them store to one place.
COLLECTIVE = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 data)
{{ .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<3>; .shared .align 4 .b8 s[4];
  mov.u32 %r3, %tid.x;
  ld.param.u32 %r1, [n];
  ld.param.u64 %d1, [data];
  setp.lt.u32 %p1, %r1, 100000;
  setp.eq.u64 %p2, %d1, 0;
  {text}
  @%p4 bra END;
  st.shared.u32 [s], %r3;
END:
  ret;
}}
"""


@pytest.mark.parametrize(
    "text",
    [
        "redux.sync.add.u32 %r2, %r1, -1; setp.eq.or.u32 %p4, %r2, %r1, %p1;",
        "redux.sync.xor.b32 %r2, %r1, -1; setp.eq.or.u32 %p4, %r2, %r1, %p1;",
        "vote.sync.ballot.b32 %r2, %p2, -1; setp.ne.u32 %p4, %r2, -1;",
        "vote.sync.uni.pred %p3, %p2, -1; not.pred %p3, %p3; or.pred %p4, %p3, %p2;",
    ],
)
def test_what_a_warp_makes_of_one_value_is_another(text: str) -> None:
    """The first two go wrong at sizes that the few small ones do not show, the others by a pointer."""
    facts = {"kernel": {"k": {"block": [32, 1, 1], "grid": [1, 1, 1]}}}
    (found,) = syncverify.check(COLLECTIVE.format(text=text), facts=facts, advice=False)
    assert found.verdict is not Verdict.PROVED
