"""Votes, matches, reductions and shuffles of values without a number: beside all numbers they may be."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.frontends.ptx.values.arith import equal, match, redux, shfl, vote
from syncverify.frontends.ptx.values.register_values import Unknown, choice, lanes_of, per_lane
from syncverify.frontends.ptx.values.residues import Residue, known
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.symbolic.context import SymbolicContext

ALL = (1 << 32) - 1
COUNTER = known("a size", "param", 4, 8)
OTHER = known("a size", "param", 1, 8)
NULL = choice("a pointer", "param", ("p", "null", 0, 64, False))


def size(name: str = "n") -> SymbolicWord:
    return SymbolicWord(SymbolicContext().symbol(name, 0, 1 << 20), 32)


def one_lane(value: Any, rest: Any) -> Any:
    return per_lane([value, *[rest] * 31])


def nothing_known(value: Any) -> bool:
    return all(type(x) is Unknown and x.key is None for x in lanes_of(value))


def test_a_counter_of_which_low_bits_are_known_is_no_result() -> None:
    """What lanes make of it has other low bits."""
    assert nothing_known(redux("add", COUNTER, ALL, ALL))
    assert nothing_known(redux("min.u32", one_lane(COUNTER, OTHER), ALL, ALL))
    assert all(nothing_known(x) for x in match("any", COUNTER, ALL, ALL))
    assert all(nothing_known(x) for x in shfl("idx", per_lane(range(32)), COUNTER, 31))
    assert nothing_known(vote("ballot", 1, COUNTER, ALL))


def test_a_shuffle_hands_the_low_bits_over() -> None:
    received, _ = shfl("idx", one_lane(COUNTER, OTHER), 0, 31)
    assert isinstance(received, Residue)
    assert (received.residue, received.modulus) == (4, 8)


@pytest.mark.parametrize("step", [size(), Unknown("data")])
def test_a_shuffle_by_an_unknown_step_brings_no_limit(step: Any) -> None:
    received, inside = shfl("idx", per_lane(range(32)), step, 31)
    assert nothing_known(received)
    assert nothing_known(inside)


@pytest.mark.parametrize(("mode", "found"), [("any", NULL), ("all", NULL), ("uni", 1)])
def test_votes_on_one_choice_of_all_lanes(mode: str, found: Any) -> None:
    assert vote(mode, NULL, ALL, ALL) is found or vote(mode, NULL, ALL, ALL) == found


def test_a_ballot_on_a_choice_is_a_mask_and_no_bit() -> None:
    """It may equal all ones."""
    assert nothing_known(equal(vote("ballot", NULL, ALL, ALL), ALL))


@pytest.mark.parametrize(
    ("mode", "rest", "found"), [("any", 0, NULL), ("all", 1, NULL), ("any", 1, 1), ("all", 0, 0)]
)
def test_lanes_with_numbers_may_leave_it_to_the_choice(mode: str, rest: int, found: Any) -> None:
    assert vote(mode, one_lane(NULL, rest), ALL, ALL) is found


@pytest.mark.parametrize("mode", ["any", "all", "uni", "ballot"])
def test_votes_on_several_choices_are_not_told(mode: str) -> None:
    other = choice("another", "param", ("q", "null", 0, 64, False))
    assert nothing_known(vote(mode, one_lane(other, NULL), ALL, ALL))


def test_reductions_of_a_size_that_all_lanes_hold() -> None:
    n = size()
    total = redux("add", n, ALL, ALL)
    assert repr(total) == repr(n * 32)
    assert repr(redux("add", n, 7, ALL)) == repr(n * 3)
    assert redux("xor", n, ALL, ALL) == 0
    assert redux("xor", n, 7, ALL) is n
    assert all(redux(op, n, ALL, ALL) is n for op in ("and", "or", "min.u32", "max.s32"))


def test_sizes_that_lanes_hold_apart_are_not_told() -> None:
    n = size()
    assert nothing_known(redux("min.u32", one_lane(n + 1, n), ALL, ALL))
    assert all(nothing_known(x) for x in match("any", one_lane(n + 1, n), ALL, ALL))
    assert match("any", n, 7, ALL) == (7, 1)
    assert match("all", n, ALL, 0xFFFF) == (0xFFFF, 1)


def test_lanes_outside_of_the_mask_are_not_asked() -> None:
    data = Unknown("data", "data")
    assert vote("ballot", one_lane(data, 1), ALL - 1, ALL) == ALL - 1
