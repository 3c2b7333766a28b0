"""Low bits of values: each operator beside all numbers that a residue stands for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

from syncverify.frontends.ptx.values.register_values import PerLane, Unknown, lanes_of, per_lane
from syncverify.frontends.ptx.values.residues import MOST, Residue, joined, known

SOURCE = Unknown("a size", "param")


def stands_for(value: object, number: int) -> bool:
    """Whether a number is one of those that a value may be."""
    if isinstance(value, Residue):
        return number % value.modulus == value.residue
    return isinstance(value, Unknown) or value == number


@pytest.mark.parametrize(
    "apply",
    [
        *[operator.add, operator.sub, operator.mul, operator.lshift, operator.rshift],
        *[operator.and_, operator.or_, operator.xor],
    ],
)
@pytest.mark.parametrize("constant", [0, 1, 3, 6, 8, 31, 255])
@pytest.mark.parametrize("modulus", [2, 8, 256])
def test_operators_hold_for_every_number(
    apply: Callable[[Any, Any], Any], constant: int, modulus: int
) -> None:
    for residue in {0, 1, modulus - 1}:
        value = known("a size", "param", residue, modulus)
        for number in range(residue, residue + 5 * modulus, modulus):
            assert stands_for(apply(value, constant), apply(number, constant))
            if apply not in (operator.lshift, operator.rshift):
                assert stands_for(apply(constant, value), apply(constant, number))


def test_an_address_of_a_thread() -> None:
    counter = joined(5, 5 + 256, SOURCE)
    address = ((counter << 2) & 0xFFFFFFFF) + 1024
    assert (address.residue, address.modulus) == (20, 1024)


def test_a_mask_within_the_low_bits_is_a_number() -> None:
    assert known("a size", "param", 37, 64) & 15 == 5


@pytest.mark.parametrize(("a", "b"), [(5, 5), (5, 7), (5, 261), (0, MOST), (1, 2)])
def test_joined_values_stand_for_both(a: int, b: int) -> None:
    found = joined(a, b, SOURCE)
    assert stands_for(found, a)
    assert stands_for(found, b)


def test_lanes_join_one_by_one() -> None:
    before, after = per_lane(range(32)), per_lane(range(256, 288))
    found = joined(before, after, SOURCE)
    assert isinstance(found, PerLane)
    assert [x.residue for x in lanes_of(found)] == list(range(32))


def test_what_nothing_is_known_of_stays_so() -> None:
    data = Unknown("data")
    assert joined(5, data, SOURCE) is joined(data, 5, SOURCE) is data
    assert joined(5, Unknown("n", "param"), SOURCE) is SOURCE
    assert not isinstance(known("a size", "param", 4, 8).derived(), Residue)
