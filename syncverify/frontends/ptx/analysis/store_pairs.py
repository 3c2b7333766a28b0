"""Pairs of stores of one function that meet: different threads, by different instructions, store different
values to one place of global memory, and nothing orders the two.

    setp.eq.u32 %p, %ctaid.x, 0;  @%p st.u32 [out], 1;  @!%p st.u32 [out], 2;

Two blocks are ordered by nothing here, but blocks of one cluster by its barrier. Two threads of one block are
ordered by a barrier of the block that lies on each way from one instruction to the other. Numbers are those
of ``block_places.py``. A value without a number is taken to be one that nobody else stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncverify.frontends.ptx.analysis.block_places import StoreRows
from syncverify.frontends.ptx.analysis.counted_blocks import reaches
from syncverify.frontends.ptx.analysis.thread_values import Numbers
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr

#: By which numbers of several draws become one.
_MIXED = (np.uint64(1), np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
#: More than the threads of a block: a block and a thread as one number.
_THREADS = np.uint64(1 << 20)


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two stores that meet. ``of_blocks``: of two blocks, else of two threads of one. ``certainly``: each of
    one thread of its block, of numbers that differ. ``perhaps``: an atomic says who stores, or nothing says
    where."""

    first: int
    second: int
    of_blocks: bool
    certainly: bool
    perhaps: bool


class Orders:
    """Which instructions of one function barriers order, for threads of one block, and of one cluster."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._known: dict[tuple[int, int, bool], bool] = {}

    def ordered(self, a: int, b: int, *, by_cluster: bool) -> bool:
        """Whether each way between two instructions comes by a barrier of all threads, and there is one."""
        key = a, b, by_cluster
        if key not in self._known:
            stops = _of_cluster if by_cluster else _of_block
            ways = [(x, y) for x, y in ((a, b), (b, a)) if reaches(self.flow, x, y, lambda _: False)]
            body = self.flow.body
            self._known[key] = bool(ways) and not any(
                reaches(self.flow, x, y, lambda j: stops(body[j])) for x, y in ways
            )
        return self._known[key]


def _of_block(i: Instr) -> bool:
    """Whether all threads of the block wait for each other there, in whatever numbers these are."""
    few = "warp" in i.mods or "arrive" in i.mods or i.guard is not None
    number = i.operands[1:] if "red" in i.mods else i.operands
    if i.op not in ("bar", "barrier") or few:
        return False
    return "cluster" in i.mods or all(isinstance(op, Imm) for op in number[:1])


def _of_cluster(i: Instr) -> bool:
    return i.op == "barrier" and "cluster" in i.mods and "wait" in i.mods and i.guard is None


def meetings(stores: Sequence[tuple[int, StoreRows]], orders: Orders) -> Iterator[Meeting]:
    """The pairs of some stores that meet, each once."""
    rows = [(n, x) for n, (_, x) in enumerate(stores) if len(x.blocks)]
    if len(rows) < 2:
        return
    cluster = {b: c for _, x in rows for b, c in zip(x.blocks.tolist(), x.clusters.tolist(), strict=True)}
    unit = _unit([x for _, x in rows])
    table = _Table([_spread(n, x, unit) for n, x in rows])
    found: dict[tuple[int, int, bool], bool] = {}
    for group in table.groups():
        for a, b in _pairs(group):
            if (a[0], b[0], a[1] != b[1]) in found:
                continue
            of_blocks = a[1] != b[1]
            j, k = stores[a[0]][0], stores[b[0]][0]
            alike = of_blocks and cluster[a[1]] == cluster[b[1]]
            if (not of_blocks or alike) and orders.ordered(j, k, by_cluster=alike):
                continue
            found[a[0], b[0], of_blocks] = _alone(group)
    for (m, n, of_blocks), alone in found.items():
        (j, x), (k, y) = stores[m], stores[n]
        numbers = None not in x.words and None not in y.words
        sure = alone and numbers and x.certain and y.certain
        yield Meeting(j, k, of_blocks, sure, x.elected or y.elected)


#: A store by a thread: its instruction, its block, its number there, and what it stores.
_Row = tuple[int, int, int, int]


def _pairs(group: Sequence[_Row]) -> Iterator[tuple[_Row, _Row]]:
    """Of one place the rows of different instructions, by different threads, with different values."""
    by: dict[int, list[_Row]] = {}
    for row in group:
        by.setdefault(row[0], []).append(row)
    names = sorted(by)
    for n, x in enumerate(names):
        for y in names[n + 1 :]:
            both = ((a, b) for a in by[x] for b in by[y] if a[1:3] != b[1:3] and a[3] != b[3])
            seen = set[bool]()
            for a, b in both:
                if (a[1] != b[1]) not in seen:
                    seen.add(a[1] != b[1])
                    yield a, b
                if len(seen) == 2:
                    break


def _alone(group: Sequence[_Row]) -> bool:
    """Whether of each block and instruction one thread stores to a place."""
    return len({row[:2] for row in group}) == len({row[:3] for row in group})


def _unit(some: Sequence[StoreRows]) -> int:
    """Bytes of which all stores write some."""
    sizes = [np.uint64(x.size) for x in some]
    return int(np.gcd.reduce([*sizes, *(np.gcd.reduce(at) for x in some for at in x.places)]))


def _spread(n: int, x: StoreRows, unit: int) -> tuple[list[Numbers], NDArray[Any], Numbers, Numbers, Numbers]:
    """One row for each unit of bytes that a store writes: places, instruction, block, thread and value."""
    each = x.size // unit
    steps = np.arange(0, x.size * len(x.words), unit, dtype=np.uint64)
    places = [(at[:, None] + steps).ravel() for at in x.places]
    count = len(x.blocks)
    values = np.empty((count, len(steps)), dtype=np.uint64)
    own = (x.blocks * _THREADS + x.threads) * _MIXED[1] + np.array([n + 1], dtype=np.uint64) * _MIXED[2]
    mask = np.uint64((1 << 8 * min(unit, 8)) - 1)
    for m, word in enumerate(x.words):
        for j in range(each):
            if word is None or unit > 8 or x.size > 8:
                values[:, m * each + j] = own
                continue
            part = [draw >> np.uint64(8 * unit * j) & mask for draw in word]
            values[:, m * each + j] = _joined(part)
    blocks, threads = (np.repeat(y, len(steps)) for y in (x.blocks, x.threads))
    return places, np.full(count * len(steps), n), blocks, threads, values.ravel()


def _joined(draws: Sequence[Numbers]) -> Numbers:
    """The numbers of several draws as one."""
    found = np.zeros_like(draws[0])
    for draw in reversed(draws):
        found = found * _MIXED[1] + draw
    return found


class _Table:
    """The rows of all stores."""

    def __init__(
        self, parts: Sequence[tuple[list[Numbers], NDArray[Any], Numbers, Numbers, Numbers]]
    ) -> None:
        self.places = [np.concatenate(x) for x in zip(*(p[0] for p in parts), strict=True)]
        self.rest = [np.concatenate([p[1 + n] for p in parts]) for n in range(4)]

    def groups(self) -> Iterator[list[_Row]]:
        """By place the rows, each once, where several instructions, threads and values come together."""
        for draw in range(len(self.places)):  # the places that are one in every draw
            self._keep(self.places[draw])
            if not len(self.rest[0]):
                return
        order = np.lexsort(self.places)
        places = np.stack([x[order] for x in self.places])
        rows = np.stack([x[order].astype(np.uint64) for x in self.rest])
        ends = np.flatnonzero((places[:, 1:] != places[:, :-1]).any(axis=0)) + 1
        seen = set[frozenset[_Row]]()
        for part in np.split(rows, ends, axis=1):
            group = {(int(a), int(b), int(c), int(d)) for a, b, c, d in part.T}
            number = {d: n for n, d in enumerate(sorted({d for *_, d in group}))}
            shape = frozenset((a, b, c, number[d]) for a, b, c, d in group)
            if len({a for a, *_ in group}) > 1 and shape not in seen:
                seen.add(shape)
                yield sorted(group)

    def _keep(self, at: Numbers) -> None:
        """Leaves out the rows at whose place no two instructions, threads or values come together."""
        order = np.argsort(at, kind="stable")
        sorted_, starts = at[order], np.ones(len(at), dtype=bool)
        starts[1:] = sorted_[1:] != sorted_[:-1]
        first = np.flatnonzero(starts)
        kept = np.ones(len(first), dtype=bool)
        instruction, block, thread, value = self.rest
        for column in (instruction, block * _THREADS + thread, value):
            x = column[order]
            kept &= np.minimum.reduceat(x, first) != np.maximum.reduceat(x, first)
        rows = np.sort(order[np.repeat(kept, np.diff(np.append(first, len(at))))])
        self.places = [x[rows] for x in self.places]
        self.rest = [x[rows] for x in self.rest]


__all__ = ["Meeting", "Orders", "meetings"]
