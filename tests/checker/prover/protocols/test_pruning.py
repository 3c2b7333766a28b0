"""Pruned trees: the kernel accepts them where it accepts the trees themselves, and they hold nothing idle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncverify.checker.kernel.linear import ZERO, RejectedError, Sum, Term, apply, var
from syncverify.checker.kernel.proof import Follows
from syncverify.checker.kernel.trees import (
    Absurd,
    Instance,
    Leaf,
    Monotone,
    Residues,
    Split,
    Tile,
    Tree,
    check,
)
from syncverify.checker.prover.protocols.pruning import pruned, without
from tests.checker.kernel.families import persistent

X, Y, V = var("x"), var("y"), var("%1")
P = replace(persistent(), prefix=("P",), schemas=(var("x"),), parameters=frozenset({"x", "y"}))
#: x >= 2, y >= x.
GIVEN = [X - 2, Y - X]


def accepted(tree: Tree, goal: Term) -> bool:
    try:
        check(P, GIVEN, tree, lambda _, __, ___: [goal], frozenset({"x", "y"}))
    except RejectedError:
        return False
    return True


def by(*numbers: int) -> Sum:
    return Sum(1, tuple((i, 1) for i in numbers))


def leaf(*numbers: int) -> Leaf:
    return Leaf(Follows(), (by(*numbers),))


def rising(kid: Tree) -> Tree:
    """With P(x) <= P(y)."""
    return Monotone("P", X, Y, by(1), kid)


#: Trees for a goal, and what is left of them.
CASES: list[tuple[Term, Tree, Tree]] = [
    (Y - 2, rising(leaf(0, 1)), leaf(0, 1)),
    (Y - 2, rising(Instance(0, X, leaf(0, 1))), leaf(0, 1)),
    (apply("P", Y) - apply("P", X), Instance(0, X, rising(leaf(3))), rising(leaf(2))),
    (Y - 2, Split(X - 5, leaf(0, 1), rising(leaf(0, 1))), leaf(0, 1)),
    (Y - 2, Split(X - 5, leaf(2, 1), leaf(0, 1)), leaf(0, 1)),  # the other case does without
    (
        Y - 2,
        rising(Split(X - 2, leaf(1, 3), Absurd(by(0, 3)))),
        Split(X - 2, leaf(1, 2), Absurd(by(0, 2))),
    ),
    (
        Y - 2,
        rising(Residues(X, "%1", (rising(leaf(0, 1)), leaf(0, 1)))),
        Residues(X, "%1", (leaf(0, 1), leaf(0, 1))),
    ),
]


@pytest.mark.parametrize(("goal", "tree", "left"), CASES)
def test_what_is_idle_is_left_out(goal: Term, tree: Tree, left: Tree) -> None:
    assert pruned(tree, len(GIVEN)) == left
    assert pruned(left, len(GIVEN)) == left
    assert accepted(left, goal)
    if not isinstance(tree, Split):  # whose cases use what is true in one of them
        assert accepted(tree, goal)


def test_a_wrong_sum_stays_wrong() -> None:
    assert not accepted(pruned(rising(leaf(0)), len(GIVEN)), Y - 2)


def test_a_tile_keeps_its_name() -> None:
    tile = Tile("P", ZERO, ZERO, "%1", (by(), by(), by()), rising(leaf(0, 1)))
    assert pruned(tile, len(GIVEN)) == replace(tile, kid=leaf(0, 1))


def test_a_case_that_does_without_its_constraint_is_all_of_a_split() -> None:
    """The number of what the split adds, 2 here, is free again."""
    assert without(leaf(0, 1), 2) == leaf(0, 1)
    assert without(leaf(2, 1), 2) is None
    assert without(rising(leaf(0, 3)), 2) == rising(leaf(0, 2))
