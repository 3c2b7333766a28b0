"""Who knows of what: vector clocks of threads and of asynchronous operations.

There is a component for each thread and for each asynchronous operation in flight. ``know[0]`` is
happens-before. ``know[1]`` and ``know[2]`` are what a proxy fence has made visible to the async proxy, in
shared and in global memory: a generic access that lies in them may be followed by one of the async proxy.
``know[3]`` is happens-before if every synchronization had the widest scope: what arrivals and waits of scope
cta bring from other blocks stands there alone. One operation of the async proxy may follow another by it.
``know[4]`` is happens-before of reads alone, where it is more: who knows that a wgmma is complete knows that
all four warps have issued it, after what they have read. The ISA does not say so; what ships relies on it.

A component of an asynchronous operation is used again by a thread that knows of its completion: the new
operation then happens after the old one, so that who knows of the new knows of the old.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Clock = npt.NDArray[np.int32]
#: A component and an epoch of it.
Stamp = tuple[int, int]
Rows = Any  # a slice or an array of thread numbers

HAPPENS_BEFORE, ASYNC_SHARED, ASYNC_GLOBAL, OF_ANY_SCOPE, READS = 0, 1, 2, 3, 4
ROWS = 5


@dataclass(slots=True)
class Slot:
    """What a component of an asynchronous operation represents. ``generic``: by the generic proxy."""

    line: int
    block: int
    warp: int
    lane: int
    what: str
    generic: bool


class Clocks:
    """The clocks of all threads of a launch."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.agents = threads
        capacity = threads + 64
        self.know = np.zeros((ROWS, threads, capacity), np.int32)
        self.every = np.arange(threads)
        self.know[0, self.every, self.every] = self.know[3, self.every, self.every] = 1
        self.epoch = np.ones(capacity, np.int32)
        self.epoch[threads:] = 0
        self.generic = np.ones(capacity, bool)  # by agent: whether it accesses by the generic proxy
        self.done = np.ones(capacity, bool)  # by agent: whether the operation is complete
        self.slots: dict[int, Slot] = {}
        self.blocks: dict[int, list[int]] = {}  # by warp: first components of runs of 32

    def _grow(self, least: int) -> None:
        old = self.know.shape[2]
        new = max(old + old // 2, least)
        know = np.zeros((ROWS, self.threads, new), np.int32)
        know[:, :, :old] = self.know
        self.know = know
        for name, fill in (("epoch", 0), ("generic", True), ("done", True)):
            array = getattr(self, name)
            wider = np.full(new, fill, array.dtype)
            wider[:old] = array
            setattr(self, name, wider)

    def slot(self, issuer: int, info: Slot) -> int:
        """A component for a new operation of a thread."""
        first, last = self.threads, self.agents
        free = np.flatnonzero(
            self.done[first:last]
            & (self.know[0, issuer, first:last] >= self.epoch[first:last])
            & (self.generic[first:last] == info.generic)
        )
        if free.size:
            agent = first + int(free[0])
        else:
            agent = self.agents
            self.agents += 1
            if agent >= self.know.shape[2]:
                self._grow(agent + 1)
            self.generic[agent] = info.generic
        self.epoch[agent] += 1
        self.done[agent] = False
        self.slots[agent] = info
        return agent

    def outsider(self, info: Slot) -> int:
        """A component for somebody outside of the launch, of whom no thread knows."""
        agent = self.agents
        self.agents += 1
        self.epoch[agent], self.done[agent], self.slots[agent] = 1, False, info
        return agent

    def block(self, warp: int, rows: npt.NDArray[np.int64], info: Slot) -> int:
        """32 components for an operation of each lane of a warp; the first one's number."""
        for first in self.blocks.setdefault(warp, []):
            own = np.arange(first, first + 32)[: len(rows)]
            if self.done[own].all() and (self.know[0, rows, own] >= self.epoch[own]).all():
                break
        else:
            first = self.agents
            self.agents += 32
            if self.agents > self.know.shape[2]:
                self._grow(self.agents)
            self.blocks[warp].append(first)
            self.generic[first : first + 32] = info.generic
        self.epoch[first : first + 32] += 1
        self.done[first : first + 32] = False
        for agent in range(first, first + 32):
            self.slots[agent] = info
        return first

    def snapshot(self, rows: Rows) -> Clock:
        """What these threads know together; later accesses of theirs are not covered."""
        out: Clock = self.know[:, rows].max(axis=1)
        self.tick(rows)
        return out

    def tick(self, rows: Rows) -> None:
        """The threads' next accesses are of a new epoch."""
        own = self.every[rows]
        self.epoch[own] += 1
        self.know[0, own, own] = self.know[3, own, own] = self.epoch[own]

    def join(self, rows: Rows, clock: Clock) -> None:
        """The threads know what a clock knows."""
        n = clock.shape[1]
        self.know[:, rows, :n] = np.maximum(self.know[:, rows, :n], clock[:, None, :])

    def learn(self, rows: Rows, agent: int, epoch: int) -> None:
        """The threads know of an operation's completion; its component may have been used again since."""
        for row in (HAPPENS_BEFORE, OF_ANY_SCOPE):
            self.know[row, rows, agent] = np.maximum(self.know[row, rows, agent], epoch)

    def handed(self, rows: Rows) -> npt.NDArray[np.int32]:
        """What these threads have read by now, and know of reads, as a row; later reads are not covered."""
        out = np.maximum(self.know[HAPPENS_BEFORE, rows], self.know[READS, rows]).max(axis=0)
        self.tick(rows)
        return out

    def know_reads(self, rows: Rows, row: npt.NDArray[np.int32]) -> None:
        """The threads know of the reads of a row."""
        n = len(row)
        self.know[READS, rows, :n] = np.maximum(self.know[READS, rows, :n], row)

    def stamp(self, agent: int) -> Stamp:
        """A component and its epoch now: what represents one operation for ever."""
        return agent, int(self.epoch[agent])

    def bridge(self, rows: Rows, shared: bool, outside: bool) -> None:
        """A proxy fence: what the threads know of becomes visible to the async proxy."""
        known = self.know[0, rows]
        if shared:
            self.know[1, rows] = np.maximum(self.know[1, rows], known)
        if outside:
            self.know[2, rows] = np.maximum(self.know[2, rows], known)
        self.tick(rows)

    def empty(self) -> Clock:
        return np.zeros((ROWS, self.know.shape[2]), np.int32)


def too_narrow(clock: Clock) -> Clock:
    """What a clock brings by a synchronization whose scope does not hold the other thread."""
    out = np.zeros_like(clock)
    out[OF_ANY_SCOPE] = clock[OF_ANY_SCOPE]
    return out


def merged(a: Clock | None, b: Clock) -> Clock:
    """The join of two clocks, of which one may be older and shorter."""
    if a is None:
        return b
    if a.shape[1] > b.shape[1]:
        a, b = b, a
    out = b.copy()
    np.maximum(out[:, : a.shape[1]], a, out=out[:, : a.shape[1]])
    return out
