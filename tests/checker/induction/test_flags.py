"""Blocks that hand on through words of global memory: right ones are accepted, wrong ones are not."""

from __future__ import annotations

import pytest

from tests.checker.induction.test_read import accepted, accepted_with, posed

PAIR = """kernel pair {
  launch grid [2, T] block [32]
  param T : i32 = 3
  param B : i32 = 6
  assume T >= 1
  assume B == T * 2
  tensor sums : f32[B * 32] inout
  tensor words : u32[B] inout
  tensor out : f32[B * 32] out

  elect p
  let number = block.x
  let team = block.y
  let ours = team * 2 + number
  if number < 1 {
    st.global sums[ours * 32 + lane : 1], 1.0
    warp.sync
    if p {
      atom.global.add.release.gpu words[team], 1
    }
  } else {
    if p {
      spin.global.acquire.gpu words[team] >= 1
      st.global.relaxed.gpu words[team], 0
    }
    warp.sync
    ld.global x, sums[(ours - 1) * 32 + lane : 1]
    st.global out[ours * 32 + lane : 1], x
  }
}
"""
NOT_ZERO = PAIR.replace("words[team] >= 1", "words[team] != 0")
MISTAKES = {
    "nobody adds": ("      atom.global.add.release.gpu words[team], 1\n", ""),
    "two are waited for, and one is added": (">= 1\n      st", ">= 2\n      st"),
    "the addition does not release": ("add.release.gpu", "add.relaxed.gpu"),
    "the wait does not acquire": ("spin.global.acquire", "spin.global.relaxed"),
    "the sum is read before the wait": (
        "    if p {\n      spin",
        "    ld.global y, sums[(ours - 1) * 32 + lane : 1]\n    if p {\n      spin",
    ),
    "the word is reset before the wait": (
        "      spin.global.acquire.gpu words[team] >= 1\n      st.global.relaxed.gpu words[team], 0\n",
        "      st.global.relaxed.gpu words[team], 0\n      spin.global.acquire.gpu words[team] >= 1\n",
    ),
    "it is reset to another number": ("words[team], 0", "words[team], 1"),
    "the sums of a warp are added before all lanes stored": ("1.0\n    warp.sync\n", "1.0\n"),
    "the other lanes do not wait": ("0\n    }\n    warp.sync\n", "0\n    }\n"),
    "two add to the same word": (
        "words[team], 1\n",
        "words[team], 1\n      atom.global.add.release.gpu words[team], 1\n",
    ),
    "the first block waits for the second": ("if number < 1 {", "if number >= 1 {"),
}


def test_a_block_that_waits_for_another_is_accepted() -> None:
    assert accepted(posed(PAIR))
    assert accepted(posed(NOT_ZERO))


@pytest.mark.parametrize("wanted", ["!= 1", "!= 2", "< 1"])
def test_a_word_that_is_not_one_number_may_be_any_other(wanted: str) -> None:
    assert not accepted(posed(PAIR.replace("words[team] >= 1", f"words[team] {wanted}")))


def test_two_adds_are_not_waited_for_by_a_word_that_is_not_zero() -> None:
    old, new = MISTAKES["two add to the same word"]
    assert not accepted(posed(NOT_ZERO.replace(old, new)))


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_not_accepted(what: str) -> None:
    old, new = MISTAKES[what]
    assert not accepted_with(PAIR, old, new)
