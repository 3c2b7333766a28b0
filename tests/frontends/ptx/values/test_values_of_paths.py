"""What is computed of sizes without a number belongs to one path of one exploration."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

from syncverify.frontends.ptx.values.register_values import lanes_of, per_lane
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord, size
from syncverify.symbolic.context import SymbolicContext, UndecidedBranch
from syncverify.symbolic.path_condition import PathCondition

LANES = per_lane(list(range(32)))


def _on(path: PathCondition, compute: Callable[[], Any]) -> Any:
    """The value on a path; what is asked there is answered with yes."""
    path.space.path = path
    while True:
        try:
            return compute()
        except UndecidedBranch as o:
            path.assume(o.c, o.parts)


@pytest.mark.parametrize(
    ("compare", "all_lanes", "one_lane"),
    [
        (operator.lt, (True,) * 32, (True,) + (False,) * 31),
        (operator.ge, (False,) * 32, (False,) + (True,) * 31),
    ],
)
def test_lanes_are_compared_with_a_size_on_each_path(
    compare: Callable[..., Any], all_lanes: tuple[bool, ...], one_lane: tuple[bool, ...]
) -> None:
    space = SymbolicContext()
    n = size(space.symbol("n", 1, 100), 32)
    many, one = space.path.fork(), space.path.fork()
    many.assume(*space.of(n.term - 100))
    one.assume(*space.of(1 - n.term))
    for _ in range(2):
        assert lanes_of(_on(many, lambda: compare(LANES, n))) == all_lanes
        assert lanes_of(_on(one, lambda: compare(LANES, n))) == one_lane


def test_lanes_of_two_explorations_are_not_one() -> None:
    spaces = SymbolicContext(), SymbolicContext()
    first, second = (LANES + size(s.symbol("n", 0), 32) for s in spaces)
    assert first is not second
    for space, lanes in zip(spaces, (first, second), strict=True):
        sizes = [v for v in lanes.lanes if isinstance(v, SymbolicWord)]
        assert len(sizes) == 32 and all(v.term.space is space for v in sizes)


def test_equal_sizes_of_one_exploration_ask_nothing() -> None:
    space = SymbolicContext()
    n = space.symbol("n", 0, (1 << 32) - 1)
    assert size(n, 32) == size(n, 32) and size(n, 32) != size(SymbolicContext().symbol("n", 0), 32)
    assert LANES + size(n, 32) is LANES + size(n, 32)
