"""Multipliers that the search finds are held against the kernel's addition, and against numbers."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest

from syncverify.checker.kernel.linear import Sum, Term, follows, num, var
from syncverify.checker.prover.protocols import multipliers
from syncverify.checker.prover.protocols.multipliers import (
    Premises,
    absurd,
    entails,
    point_of,
    shown,
    solution,
    solved,
)

X, Y = var("x"), var("y")


def test_a_solution_is_one_with_no_negative_number() -> None:
    assert solution([[2], [3]], [6]) in ({0: Fraction(3)}, {1: Fraction(2)})
    assert solution([[2], [3]], [-1]) is None
    assert solution([], [0]) == {}
    assert solution([], [1]) is None


def test_what_follows_is_shown_by_a_sum_that_the_kernel_adds_up() -> None:
    premises = [X - 3, Y - X - 1]  # x >= 3, y > x
    found = shown(premises, Y - 4)
    assert found is not None
    by, absurdly = found
    assert not absurdly
    follows(premises, Y - 4, by)
    assert not entails(premises, Y - 5)


def test_integers_between_two_halves_are_not_guessed() -> None:
    """2x >= 1 gives x >= 1 only by rounding, which a sum with divisor 2 does."""
    found = shown([X * 2 - 1], X - 1)
    assert found is not None
    follows([X * 2 - 1], X - 1, found[0])


def test_premises_that_contradict_each_other_show_everything() -> None:
    premises = [X - 3, -X + 1]
    by = absurd(premises)
    assert isinstance(by, Sum)
    follows(premises, num(-1), by)
    found = shown(premises, Y)
    assert found is not None and found[1]
    assert absurd([X - 3, -X + 3]) is None


def _holds(term: Term, x: int, y: int) -> bool:
    return term.put({"x": num(x), "y": num(y)}).const >= 0


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_entailed_that_small_numbers_refute(seed: int) -> None:
    """Random premises on two numbers; whatever is entailed holds at every point that meets them."""
    draw = random.Random(seed)

    def term() -> Term:
        return X * draw.randint(-2, 2) + Y * draw.randint(-2, 2) + draw.randint(-4, 4)

    premises = [term() for _ in range(3)]
    points = [p for p in itertools.product(range(-9, 10), repeat=2) if all(_holds(h, *p) for h in premises)]
    for goal in (term() for _ in range(6)):
        if entails(premises, goal):
            assert all(_holds(goal, *p) for p in points)


@pytest.mark.parametrize("seed", range(60))
def test_premises_that_no_sum_can_use_change_no_answer(seed: int) -> None:
    """Absurd, whether all premises are columns of the problem or those alone that may add up."""
    draw = random.Random(seed)
    names = ("a", "b", "c", "d")
    premises = [
        Term(
            {x: draw.choice((-2, -1, 1, 2)) for x in draw.sample(names, draw.randint(0, 2))},
            draw.randint(-3, 3),
        )
        for _ in range(draw.randint(1, 7))
    ]
    columns = [[h.parts.get(x, 0) for x in names] + [h.const] for h in premises]
    by = absurd(premises)
    assert (by is None) == (solution(columns, [0, 0, 0, 0, -1]) is None)
    if by is not None:
        follows(premises, num(-1), by)


def test_where_no_sum_is_found_a_point_meets_all_premises() -> None:
    """Drawn columns: where no multipliers are found, the costs are those of a point, if one can be read."""
    draw, points = random.Random(3), 0
    for _ in range(400):
        rows = draw.randint(1, 4)
        columns = [
            [draw.choice((-2, -1, 0, 0, 1, 3)) for _ in range(rows)] + [draw.randint(-5, 5)]
            for _ in range(draw.randint(2, 8))
        ]
        found, costs = solved(columns, [0] * rows + [-1])
        if costs is None:
            assert found is not None
            continue
        assert found is None
        point = point_of(columns, costs)
        if point is not None:
            points += 1
            at, whole = point
            assert whole > 0
            for *parts, const in columns:
                assert const * whole + sum(k * x for k, x in zip(parts, at, strict=True)) >= 0
    assert points > 100


def test_a_kept_point_changes_no_answer() -> None:
    """Drawn premises are asked about with points of others at hand, and with none."""
    draw = random.Random(4)

    def term() -> Term:
        return X * draw.randint(-2, 2) + Y * draw.randint(-2, 2) + draw.randint(-6, 6)

    asked = [([term() for _ in range(4)], term()) for _ in range(300)]
    multipliers.POINTS.clear()
    first = [shown(*x) for x in asked]
    assert multipliers.POINTS
    multipliers._refuted.cache_clear()
    assert [shown(*x) for x in asked] == first


def test_a_kept_point_meets_all_premises_that_were_asked_of() -> None:
    """Those too that no sum can use: their atoms get numbers that are large enough."""
    draw, kept = random.Random(5), 0
    for _ in range(300):
        premises = [
            Term({x: draw.choice((-3, -1, 1, 2)) for x in draw.sample("abcde", draw.randint(1, 3))}, const)
            for const in (draw.randint(-4, 4) for _ in range(draw.randint(2, 9)))
        ]
        multipliers.POINTS.clear()
        multipliers._refuted.cache_clear()
        if absurd(premises) is None and multipliers.POINTS:
            kept += 1
            assert multipliers.meets(multipliers.POINTS[0], premises)
    assert kept > 20


def test_premises_with_more_are_asked_as_if_they_were_new() -> None:
    """What is kept of a list of premises, and of one that it begins with, changes no answer."""
    draw = random.Random(6)

    def term() -> Term:
        return Term({x: draw.choice((-2, -1, 1, 2)) for x in draw.sample("abcd", 2)}, draw.randint(-6, 6))

    for _ in range(100):
        some, goal, grown = [term() for _ in range(3)], term(), list[Sum | None]()
        for _ in range(4):
            some.append(term())
            grown.append(absurd(Premises(some)))
            fresh = shown(some, goal)
            assert shown(Premises(some), goal) == fresh
        multipliers._KEPT.clear()
        multipliers._refuted.cache_clear()
        multipliers.POINTS.clear()
        assert [absurd(some[: k + 4]) for k in range(4)] == grown
