"""Loops over registers that keep a value of the launch, or move by one: how often they turn is a name."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.checker.induction.claims import ANY, KEPT, MOVES, Claim, Header
from syncverify.checker.induction.claims_text import read
from syncverify.checker.induction.program import Claimed
from syncverify.checker.induction.strides import Turns
from syncverify.checker.kernel.linear import var
from syncverify.checker.prover.protocols.written import claims as write
from syncverify.checker.prover.rings.by_induction import by_induction
from tests.checker.induction.test_read import RING, accepted, accepted_with, posed

#: Each block takes every B-th step.
STRIDED = (
    RING.replace(
        "for i in 0..N {\n        mbarrier.wait empty",
        "for r in block..N step B {\n        mbarrier.wait empty",
    )
    .replace("a[i * 64 : 64]", "a[r * 64 : 64]")
    .replace(
        "    for i in 0..N {\n      mbarrier.wait full",
        "    let i = 0\n    for r in block..N step B {\n      mbarrier.wait full",
    )
    .replace("      mbarrier.arrive empty[i % 3]\n", "      mbarrier.arrive empty[i % 3]\n      i = i + 1\n")
)
MISTAKES = {
    "the loader begins one later": (
        "for r in block..N step B {\n        mbarrier",
        "for r in block + 1..N step B {\n        mbarrier",
    ),
    "the readers take other steps": (
        "for r in block..N step B {\n      mbarrier",
        "for r in block..N step B + 1 {\n      mbarrier",
    ),
    "the readers end one later": (
        "for r in block..N step B {\n      mbarrier",
        "for r in block..N + 1 step B {\n      mbarrier",
    ),
    "the other parity": ("phase ^ 1\n        mbarrier.arrive", "phase\n        mbarrier.arrive"),
    "no release": ("      mbarrier.arrive empty[i % 3]\n", ""),
    "a count off by one": ("empty[s], 32", "empty[s], 33"),
    "the slot is not counted on": ("      i = i + 1\n", ""),
}


def test_blocks_that_take_every_so_many_steps_are_accepted() -> None:
    found = by_induction(posed(STRIDED), Policy.PRACTICAL)
    assert any(x.startswith("turns_") for s in found for x in s.protocol.parameters)


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_not_accepted(what: str) -> None:
    old, new = MISTAKES[what]
    assert not accepted_with(STRIDED, old, new)


def test_certificates_keep_what_is_claimed() -> None:
    forms = {(0, 0): {1: KEPT, 2: MOVES, 3: ANY}}
    claimed = Claimed((Claim(1, 1, (Header(2, False, None, False, forms),)),))
    assert read(write(claimed)) == claimed


def test_a_question_about_a_later_turn_is_one_about_the_number_of_turns() -> None:
    turns = Turns()
    first, step = var("R") - var("b") - 1, -var("g")
    t = turns.of(first, step)
    assert turns.of(first, step) == t and turns.of(first + 1, step) != t
    assert turns.asked(first + step * 2, step) == t - 3
    assert turns.asked(-first - 1, -step) == -t
    assert turns.asked(first + 1, step * 2) is None
    assert turns.asked(first - step, step) is None and turns.asked(step - first - 1, -step) is None
    assert turns.sized(first + step) == t - 2 and turns.sized(var("R")) == var("R")


@pytest.mark.parametrize("gap", range(1, 6))
@pytest.mark.parametrize("have", range(-3, 9))
def test_the_number_of_turns_is_that_of_the_loop(have: int, gap: int) -> None:
    turns = Turns()
    name = str(turns.of(var("q"), -var("g")))
    count = sum(1 for _ in range(0, max(have + 1, 0), gap))
    facts = turns.facts(
        {name}, lambda t: t.const + sum({"q": have, "g": gap}[str(a)] * k for a, k in t.parts.items()) >= 0
    )
    assert all(f.const + f.parts[name] * count >= 0 for f in facts)


#: A loop over columns, three at a time: two warps exchange a tile.
BY_3 = """kernel columns {
  launch grid [2] block [64]
  param N : i32 = 7
  assume N >= 1
  tensor out : f32[128] out
  shared tile : f32[64] align 128

  for c in 0..N step 3 {
    st.shared tile[][tid : 1], 1.0
    bar.sync 0
    ld.shared x, tile[][63 - tid : 1]
    bar.sync 0
    st.global out[block * 64 + tid : 1], x
  }
}
"""


def test_steps_of_three_are_counted_by_a_name() -> None:
    (shown,) = by_induction(posed(BY_3), Policy.PRACTICAL)
    assert any(x.startswith("turns_") for x in shown.protocol.parameters)
    assert not accepted(posed(BY_3.replace("1.0\n    bar.sync 0\n", "1.0\n")))
    assert not accepted(
        posed(BY_3.replace("x, tile[][63 - tid : 1]\n    bar.sync 0\n", "x, tile[][63 - tid : 1]\n"))
    )
