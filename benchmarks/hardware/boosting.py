"""Fits boosted trees (``syncverify.base.boosted_trees``): each tree to what those before it leave.

Every tree sees a random part of the rows and of the columns. Its levels are chosen one after the other: the
question (a column and a cut) that lowers the weighted squares most, asked in all leaves so far. Cuts are
quantiles. Needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncverify.base.boosted_trees import BoostedTrees

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Boosting:
    """``rate``: what each tree takes of a step; ``held``: weight that holds a leaf at 0; ``bins`` of a
    column; ``rows``, ``part``: shares of the rows and columns that a tree sees."""

    trees: int = 800
    depth: int = 6
    rate: float = 0.06
    held: float = 1.5
    bins: int = 32
    rows: float = 0.7
    part: float = 0.6
    seed: int = 0

    def fit(self, names: Sequence[str], x: Array, y: Array, weight: Array) -> BoostedTrees:
        """Trees for ``y``, whose rows weigh so much."""
        g = np.random.default_rng(self.seed)
        cuts, binned = _binned(x, self.bins)
        valid = np.array([[b < len(c) for b in range(self.bins)] for c in cuts])
        left, made = y.astype(float), []
        for _ in range(self.trees):
            seen = g.random(len(y)) < self.rows
            some = np.flatnonzero((g.random(x.shape[1]) < self.part) & valid[:, 0])
            if not len(some):
                continue
            column, cut, value = self._tree(
                binned[np.ix_(seen, some)], (left * weight)[seen], weight[seen], some, cuts, valid[some]
            )
            leaf = (x[:, column] > cut) @ (1 << np.arange(self.depth)[::-1])
            left = left - value[leaf]
            made.append((column, cut, value))
        column, cut, value = (np.array([m[i] for m in made]) for i in range(3))
        return BoostedTrees(tuple(names), column, cut, value)

    def _tree(
        self, binned: Array, gradient: Array, weight: Array, some: Array, cuts: list[Array], valid: Array
    ) -> tuple[Array, Array, Array]:
        count, leaf = len(some), np.zeros(len(gradient), np.int64)
        place = binned + np.arange(count) * self.bins
        both = [np.repeat(v, count) for v in (gradient, weight)]
        asked = []
        for level in range(self.depth):
            shape = (1 << level, count, self.bins)
            code = (leaf[:, None] * (count * self.bins) + place).ravel()
            below, heavy = (np.bincount(code, v, int(np.prod(shape))).reshape(shape).cumsum(2) for v in both)
            above, rest = below[:, :, -1:] - below, heavy[:, :, -1:] - heavy
            gain = (below**2 / (heavy + self.held) + above**2 / (rest + self.held)).sum(0)
            gain[~valid] = -1
            at, bin_ = divmod(int(gain.argmax()), self.bins)
            asked.append((some[at], cuts[some[at]][bin_]))
            leaf = leaf * 2 + (binned[:, at] > bin_)
        size = 1 << self.depth
        found = np.bincount(leaf, gradient, size) / (np.bincount(leaf, weight, size) + self.held)
        return np.array([a for a, _ in asked]), np.array([b for _, b in asked]), self.rate * found


def _binned(x: Array, bins: int) -> tuple[list[Array], Array]:
    """The cuts of each column, and how many of them each value is above."""
    cuts, found = [], np.empty(x.shape, np.int64)
    for n, column in enumerate(x.T):
        seen = np.unique(column)
        inner = (seen[1:] + seen[:-1]) / 2
        if len(seen) > bins:
            inner = np.unique(np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1]))
        cuts.append(np.array([float(f"{c:.5g}") for c in inner]))
        found[:, n] = np.searchsorted(cuts[-1], column, side="left")
    return cuts, found


__all__ = ["Boosting"]
