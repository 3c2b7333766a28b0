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

from syncverify.frontends.ptx.analysis.blocks.block_places import StoreRows
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import reaches
from syncverify.frontends.ptx.analysis.registers.thread_values import Numbers
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
    table = _Table(_parts(rows))
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


#: A store by a thread: its instruction, its block, its number there, and which of the values of its place.
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


#: Rows of stores: places, instruction, block, thread and value.
_Part = tuple[list[Numbers], NDArray[Any], Numbers, Numbers, Numbers]


def _parts(rows: Sequence[tuple[int, StoreRows]]) -> list[_Part]:
    """The bytes that stores write. Where no value has a number, each differs from each other in all bytes:
    then two stores meet if they do in the first byte of one."""
    if any(word is not None for _, x in rows for word in x.words):
        unit = _unit([x for _, x in rows])
        return [_spread(n, x, unit) for n, x in rows]
    begins = np.unique(np.concatenate([x.places[0] for _, x in rows]))
    return [_begun(n, x, begins) for n, x in rows]


def _begun(n: int, x: StoreRows, begins: Numbers) -> _Part:
    """One row for each place at which a store begins, this one or another, among the bytes of a store."""
    at = x.places[0]
    low = np.searchsorted(begins, at)
    count = np.maximum(np.searchsorted(begins, at + np.uint64(x.size * len(x.words))) - low, 1)
    of = np.repeat(np.arange(len(at)), count)
    steps = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    behind = begins[low[of] + steps] - at[of]
    places = [p[of] + behind for p in x.places]
    return places, np.full(len(of), n), x.blocks[of], x.threads[of], _own(n, x)[of]


def _own(n: int, x: StoreRows) -> Numbers:
    """Numbers that no other thread has, and none for another instruction."""
    return (x.blocks * _THREADS + x.threads) * _MIXED[1] + np.array([n + 1], dtype=np.uint64) * _MIXED[2]


def _spread(n: int, x: StoreRows, unit: int) -> _Part:
    """One row for each unit of bytes that a store writes."""
    each = x.size // unit
    steps = np.arange(0, x.size * len(x.words), unit, dtype=np.uint64)
    places = [(at[:, None] + steps).ravel() for at in x.places]
    count = len(x.blocks)
    values = np.empty((count, len(steps)), dtype=np.uint64)
    own = _own(n, x)
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

    def __init__(self, parts: Sequence[_Part]) -> None:
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
        group = np.zeros(len(order), dtype=np.int64)
        group[1:] = np.cumsum((places[:, 1:] != places[:, :-1]).any(axis=0))
        who = [x[order].astype(np.int64) for x in self.rest[:3]]
        rows = _each_once([group, *who, _numbered(group, self.rest[3][order])])
        ends = np.flatnonzero(np.diff(rows[:, 0])) + 1
        seen = set[bytes]()
        for part in np.split(rows[:, 1:], ends):
            if part[0, 0] != part[-1, 0] and (shape := part.tobytes()) not in seen:
                seen.add(shape)
                yield [(a, b, c, d) for a, b, c, d in part.tolist()]

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


def _each_once(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The rows of some columns in their order, each once."""
    rows = np.stack(columns, axis=1)[np.lexsort(columns[::-1])]
    kept = np.ones(len(rows), dtype=bool)
    kept[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return np.ascontiguousarray(rows[kept])


def _numbered(group: NDArray[np.int64], values: Numbers) -> NDArray[np.int64]:
    """By row of sorted groups, the number of its value among those of its group."""
    order = np.lexsort((values, group))
    of, held = group[order], values[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = of[1:] != of[:-1]
    new = ~first
    new[1:] &= held[1:] != held[:-1]
    count = np.cumsum(new)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = count - np.repeat(count[first], np.diff(np.append(np.flatnonzero(first), len(order))))
    return found


__all__ = ["Meeting", "Orders", "meetings"]
