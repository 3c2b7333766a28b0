"""Equations that leave different remainders contradict each other: a split that the kernel checks."""

from __future__ import annotations

import itertools

from syncverify.checker.kernel.linear import Term, equal, num, var
from syncverify.checker.kernel.protocol import Protocol
from syncverify.checker.kernel.trees import check
from syncverify.checker.prover.protocols.search import remainders

J, Q, R = var("j"), var("q"), var("r")
EMPTY = Protocol((), {}, {})


def _checked(premises: list[Term]) -> bool:
    """Whether a contradiction is found; the kernel accepts each that is."""
    tree = remainders(premises)
    if tree is None:
        return False
    check(EMPTY, premises, tree, lambda *_: (num(-1),), frozenset({"j", "q", "r"}))
    return True


def test_a_number_leaves_one_remainder() -> None:
    assert _checked([*equal(J, Q * 16 + 3), R, *equal(J, R * 16 + 5)])
    assert not _checked([*equal(J, Q * 16 + 3), R, *equal(J, R * 16 + 3)])
    assert not _checked([J - Q * 16 - 3, *equal(J, R * 16 + 5)])  # no equation


def test_what_is_found_holds_for_no_numbers() -> None:
    for a, b, c, d in itertools.product((2, 3, 4, 6), (2, 4, 9), range(-2, 3), range(3)):
        found = _checked([*equal(J, Q * a + c), *equal(J, R * b + d)])
        near = range(-20, 21)
        assert not found or all(x * a + c != y * b + d for x in near for y in near)
