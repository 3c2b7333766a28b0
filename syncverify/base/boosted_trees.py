"""Boosted regression trees: the sum of many small trees, each of which asks the same questions of all rows.

Level d of such a tree (an oblivious tree) compares one column with one cut: ``x > cut``. The answers are the
bits of a leaf's number, the first level's the highest; the tree adds that leaf's value.

Example: a tree of depth 2 with columns (0, 3), cuts (0.5, 10) and values (a, b, c, d) adds c to a row whose
column 0 is 0.7 and whose column 3 is 4.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from syncverify.base.source import InputError

#: Values are stored as whole multiples of this.
UNIT = 1e-4
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """``names`` of the columns; ``column`` and ``cut``: of each tree's levels; ``value``: of its leaves."""

    names: tuple[str, ...]
    column: Array
    cut: Array
    value: Array

    def __call__(self, x: Array) -> Array:
        """The sum for each row of ``x``, whose columns are those of ``names``."""
        answers = x[:, self.column] > self.cut
        leaf = answers @ (1 << np.arange(self.column.shape[1])[::-1])
        found: Array = self.value[np.arange(len(self.value)), leaf].sum(axis=1)
        return found

    def text(self) -> str:
        """As a file has it: a line of JSON for each tree."""
        lines = [json.dumps(list(self.names))]
        for column, cut, value in zip(self.column, self.cut, self.value, strict=True):
            whole = [int(v) for v in np.rint(value / UNIT)]
            lines.append(json.dumps([column.tolist(), [float(f"{c:.5g}") for c in cut], whole]))
        return "\n".join(lines) + "\n"

    @staticmethod
    def parse(text: str, names: Sequence[str]) -> BoostedTrees:
        """What ``text`` wrote; InputError if it is of other columns."""
        first, *rest = text.splitlines()
        if json.loads(first) != list(names):
            raise InputError("boosted trees of other columns: fit them again")
        trees = [json.loads(line) for line in rest]
        column, cut, value = (np.array([t[i] for t in trees]) for i in range(3))
        return BoostedTrees(tuple(names), column, cut, value * UNIT)


@lru_cache(maxsize=8)
def read(path: Path, names: tuple[str, ...]) -> BoostedTrees:
    """The trees of a file."""
    return BoostedTrees.parse(path.read_text(encoding="utf-8"), names)


__all__ = ["BoostedTrees", "read"]
