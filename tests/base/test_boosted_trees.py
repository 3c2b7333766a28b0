"""Sums of trees whose levels ask one question each."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.hardware.boosting import Boosting
from syncverify.base.boosted_trees import BoostedTrees
from syncverify.base.source import InputError

#: One tree: is the first column over 0.5, is the second over 10; and a tree that asks the second alone.
TREES = BoostedTrees(
    ("x", "y"), np.array([[0, 1], [1, 1]]), np.array([[0.5, 10.0], [0.0, 5.0]]),
    np.array([[0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0]]),
)  # fmt: skip


def by_hand(x: float, y: float) -> float:
    first = {(False, False): 0.1, (False, True): 0.2, (True, False): 0.3, (True, True): 0.4}[x > 0.5, y > 10]
    second = {(False, False): 1.0, (False, True): 2.0, (True, False): 3.0, (True, True): 4.0}[y > 0, y > 5]
    return first + second


def test_answers_are_the_bits_of_a_leaf() -> None:
    rows = [(x, y) for x in (0.5, 0.6) for y in (-1.0, 0.0, 3.0, 6.0, 10.0, 11.0)]
    assert TREES(np.array(rows)).tolist() == pytest.approx([by_hand(*r) for r in rows])


def test_a_file_has_the_same_trees() -> None:
    again = BoostedTrees.parse(TREES.text(), ("x", "y"))
    x = np.random.default_rng(0).normal(size=(50, 2)) * 8
    assert again(x) == pytest.approx(TREES(x), abs=1e-4)


def test_trees_of_other_columns_are_refused() -> None:
    with pytest.raises(InputError, match="other columns"):
        BoostedTrees.parse(TREES.text(), ("y", "x"))


def test_what_is_fitted_holds_for_rows_that_were_held_out() -> None:
    g = np.random.default_rng(1)
    x = g.uniform(-1, 1, size=(1200, 4))
    y = np.where(x[:, 0] > 0.2, 0.5, -0.2) * np.where(x[:, 2] > -0.3, 1, -1)
    trees = Boosting(trees=60, depth=3, rate=0.2).fit(("a", "b", "c", "d"), x[:800], y[:800], np.ones(800))
    assert np.abs(trees(x[800:]) - y[800:]).mean() < 0.05 < np.abs(y).mean()


def test_rows_without_weight_teach_nothing() -> None:
    x = np.arange(100.0)[:, None]
    y, weight = np.where(x[:, 0] < 50, 1.0, -1.0), np.where(x[:, 0] < 50, 1.0, 0.0)
    trees = Boosting(trees=40, depth=2, rate=0.3, rows=1.0, part=1.0).fit(("a",), x, y, weight)
    assert trees(x)[:40].min() > 0.8 and trees(x).min() > -0.1
