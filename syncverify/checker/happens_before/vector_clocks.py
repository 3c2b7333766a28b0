"""Clocks: what a class knows of every other entity, as one small integer matrix.

Columns are entities: classes (time = number of their events), mbarriers (completed phases), generations of
named and cluster barriers, and group counters. Rows are kinds of knowledge:

- ``E`` enablement: what has happened in every execution before this point;
- ``H`` causality: accesses that the memory model makes visible here; ``SH`` the same under the strict
  reading; ``HW`` the same if every synchronization had the scope it needs (only for explanations);
- ``A`` generic accesses bridged to the async proxy for shared memory; ``SA`` under the strict reading,
  where ``SP`` holds those that only a release half has passed; ``AG`` for global memory. There the strict
  reading has ``SG``, accesses that their own threads have fenced, and ``XG``: all that a fence of this block
  has bridged, which no other block is handed (K3, K16).

Every join is one element-wise maximum. A class of several lanes keeps its own progress apart (``own``): a
lane knows its own past, but that of its sibling lanes only through a barrier that they joined too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

E, H, SH, HW, A, SA, AG, SP, SG, XG = range(10)
ROWS = 10
#: Rows that an entity's own progress advances.
PROGRESS = slice(E, HW + 1)
ADVANCED = HW + 1 - E
#: Rows that a phase of an mbarrier passes on to the next one in practical mode.
INHERITED = (H, HW, A, AG)

Matrix = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class ColumnsExhausted(Exception):  # noqa: N818 -- control flow: run again with a larger matrix
    """More entities than columns."""


class Columns:
    """Numbers the entities; classes come first."""

    def __init__(self, classes: int, capacity: int) -> None:
        self.capacity = capacity
        self.classes = classes
        self._index: dict[tuple[Any, ...], int] = {}

    def of(self, *key: Any) -> int:
        """The column of an entity, new if it was never asked for."""
        found = self._index.get(key)
        if found is None:
            found = self.classes + len(self._index)
            if found >= self.capacity:
                raise ColumnsExhausted
            self._index[key] = found
        return found

    def known(self, *key: Any) -> int | None:
        """The column of an entity that was asked for before."""
        return self._index.get(key)

    def names(self) -> dict[int, tuple[Any, ...]]:
        """Column to entity, for those that are not classes."""
        return {v: k for k, v in self._index.items()}


def matrix(columns: Columns) -> Matrix:
    return np.zeros((ROWS, columns.capacity), dtype=np.int32)


class Clock:
    """The knowledge of one class.

    ``m`` is the joined knowledge. ``own`` maps a column that this class itself advances to its rows as a
    lane sees its own progress. For a single lane the two coincide, and ``own`` is empty; ``columns``: which.
    """

    __slots__ = ("cls", "columns", "m", "multi", "own")

    def __init__(self, columns: Columns, cls: int, lanes: int) -> None:
        self.cls = cls
        self.multi = lanes > 1
        self.m = matrix(columns)
        self.own: dict[int, list[int]] = {}
        self.columns: set[int] = set()
        self.owns(cls)

    def owns(self, column: int) -> None:
        """From now on the class advances a column."""
        if column not in self.columns:
            self.columns.add(column)
            if self.multi:
                self.own[column] = [0] * ROWS

    def advance(self, column: int, value: int) -> None:
        """This class's lanes have got to ``value`` on an entity of their own."""
        if column not in self.columns:
            self.owns(column)
        if self.multi:
            v = self.own[column]
            if value > v[E]:
                v[PROGRESS] = [value] * ADVANCED
        elif value > self.m.item(E, column):
            self.m[PROGRESS, column] = value

    def hand(self, into: Matrix) -> None:
        """Joins all of this class's knowledge, own progress included, into ``into``."""
        np.maximum(into, self.m, out=into)
        for column, v in self.own.items():
            np.maximum(into[:, column], v, out=into[:, column])

    def hand_row(self, row: int, into: Matrix) -> None:
        """Joins one row into a vector."""
        np.maximum(into, self.m[row], out=into)
        self._hand_own(row, into)

    def _hand_own(self, row: int, into: Matrix) -> None:
        for column, v in self.own.items():
            if v[row] > into.item(column):
                into[column] = v[row]

    def past(self) -> Matrix:
        """The E row with own progress: the events before this point in every execution."""
        v: Matrix = self.m[E].copy()
        self._hand_own(E, v)
        return v

    def knows(self, row: int, column: int, own_lane: bool) -> int:
        """How far the entity of ``column`` is known; ``own_lane``: as the same lane sees itself."""
        k: int = self.m.item(row, column)
        if own_lane:
            v = self.own.get(column)
            if v is not None and v[row] > k:
                return v[row]
        return k

    def bridge_shared(
        self, classes: int, half: int, covered: Mask | None, elsewhere: Mask | None = None
    ) -> None:
        """fence.proxy.async on shared memory (PTX ISA: membar/fence; K2).

        ``half``: -1 for the release half, 1 for the acquire half: strict needs both, in this order, also for
        accesses of the thread itself (K3). ``covered``: the columns whose accesses it names; None: all.
        ``elsewhere``: those of accesses to other CTAs, of which a whole fence says nothing by the strict
        reading.
        """
        inside = np.True_ if elsewhere is None else ~elsewhere[classes:]
        where = np.True_ if covered is None else covered
        np.maximum(self.m[A], self.m[H], out=self.m[A], where=where)
        if not half:
            # Strict: a thread bridges its own accesses, and completions that it knows of.
            seen = self.m[SA, classes:]
            np.maximum(seen, self.m[SH, classes:], out=seen, where=inside)
        if half > 0:
            np.maximum(self.m[SA], self.m[SP], out=self.m[SA])
        row, past = (SP if half < 0 else SA), (SP if half > 0 else SH)
        for column in self.columns:
            if covered is not None and not covered[column]:
                continue
            if self.multi:
                v = self.own[column]
                v[A] = max(v[A], v[H])
            if not half and elsewhere is not None and elsewhere[column]:
                continue
            if self.multi:
                v[row] = max(v[row], v[past])
            else:
                self.m[row, column] = max(self.m[row, column], self.m[past, column])

    def bridge_global(self, classes: int) -> None:
        """fence.proxy.async on global memory."""
        m = self.m
        np.maximum(m[AG], m[H], out=m[AG])
        np.maximum(m[XG], m[SH], out=m[XG])
        np.maximum(m[SG, classes:], m[SH, classes:], out=m[SG, classes:])
        for column in self.columns:
            if self.multi:
                v = self.own[column]
                v[AG], v[SG], v[XG] = max(v[AG], v[H]), max(v[SG], v[SH]), max(v[XG], v[SH])
            else:
                m[SG, column] = max(m[SG, column], m[SH, column])


def across_blocks(knowledge: Matrix) -> None:
    """Leaves of what is handed on what another block may be handed."""
    knowledge[XG] = 0
