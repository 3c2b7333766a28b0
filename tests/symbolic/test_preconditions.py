"""Paths that preconditions leave: a fact may divide by zero, what is built on a path may not."""

from __future__ import annotations

import pytest

from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.preconditions import split_on_preconditions


def test_a_fact_that_divides_by_zero_does_not_hold() -> None:
    space = SymbolicContext()
    n = space.symbol("n", 0, 3)
    built: list[object] = []
    split_on_preconditions(
        space, space.path, [lambda: 6 // space.number(n) >= 3], lambda: built.append(space.path)
    )
    assert len(built) == 2  # 1 and 2


def test_no_path_is_left_out_for_what_is_built_on_it() -> None:
    space = SymbolicContext()
    n = space.symbol("n", 0, 3)
    with pytest.raises(ZeroDivisionError):
        split_on_preconditions(space, space.path, [lambda: n >= 0], lambda: 6 // 0)
