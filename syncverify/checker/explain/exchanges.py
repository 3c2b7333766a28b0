"""Edits that exchange an operation for another of its kind: a poll for a wait, an arrival for one of copies.

They are ``edits`` for mistakes where hardly anything is missing. Worked example. A thread copies with
``cp.async`` and then arrives by itself: the arrival says nothing of its copies. With
``cp.async.mbarrier.arrive.noinc`` in its place the phase ends when they are complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from syncverify.base.source import Span
from syncverify.checker.explain.edits import ACCESSES, WAITS, Pairs, footprints
from syncverify.checker.explain.redundancy import MEETINGS, Passed, Place
from syncverify.model.events import Ev, Event, Flag, ThreadClass


@dataclass(frozen=True, slots=True)
class ArriveWithCopies:
    """Arrivals at ``place`` come when the ``cp.async`` copies of their threads are complete."""

    place: Span

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] == Ev.ARRIVE and event[3] == 1 and event[4] < 0:
            return ((Ev.CP_ARRIVE, event[1], event[2], 1),), None
        return (event,), None


@dataclass(frozen=True, slots=True)
class PollUntilTrue:
    """Polls at ``place`` are repeated until they are true."""

    place: Span

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] == Ev.POLL:
            return ((Ev.WAIT, *event[1:]),), None
        return (event,), None


@dataclass(frozen=True, slots=True)
class NextSlot:
    """Waits and arrivals at ``place`` are on the next barrier of ``array``, a tuple for each block."""

    place: Span
    array: tuple[tuple[int, ...], ...]

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] != self.place or event[0] not in (*WAITS, Ev.ARRIVE):
            return (event,), None
        own = next((array for array in self.array if event[2] in array), (event[2],))
        return ((*event[:2], own[(own.index(event[2]) + 1) % len(own)], *event[3:]),), None


@dataclass(frozen=True, slots=True)
class WaitOnce:
    """Before its first access at ``place`` an agent waits for the only copy into these bytes.

    ``barriers``: by footprint of the access, the barrier on which that copy completes.
    """

    place: Span
    barriers: Pairs

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if held or place[0] != self.place or event[0] not in (*ACCESSES, Ev.WGMMA):
            return (event,), held
        known = dict(self.barriers)
        barriers = dict.fromkeys(known[fp] for fp in footprints(event) if fp in known)
        return (*((Ev.WAIT, event[1], b, 0, 0) for b in barriers), event), bool(barriers) or None


@dataclass(frozen=True, slots=True)
class WaitInTurn:
    """Agents that come to ``place`` wait for a barrier of their block's array in turn, for parity ``first``
    at first.

    With 1 they go on at once then. ``arrays``: a tuple for each block of the cluster; of several, others may
    arrive, and the wait has their scope.
    """

    place: Span
    arrays: tuple[tuple[int, ...], ...]
    first: int = 1

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        n, inside = held or (0, False)
        if place[0] != self.place or event[0] == Ev.EXIT:
            return (event,), (n, False) if n else None
        if inside:
            return (event,), held
        array = self.arrays[cls.cta % len(self.arrays)]
        size = len(array)
        scope = Flag.CLUSTER if len(self.arrays) > 1 else Flag.NONE
        wait = (Ev.WAIT, event[1], array[n % size], (n // size + self.first) & 1, int(scope))
        return (wait, event), (n + 1, True)


@dataclass(frozen=True, slots=True)
class CommitEachTurn:
    """Before a wait for cp.async groups an agent commits, if it has not since the wait before."""

    place: Span

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if event[0] == Ev.CP_COMMIT:
            return (event,), None
        if event[0] != Ev.CP_WAIT:
            return (event,), held
        return ((Ev.CP_COMMIT, event[1]), event) if held else (event,), True


@dataclass(frozen=True, slots=True)
class HandOn:
    """Who waited at ``place`` arrives at the next barrier of ``array`` before it waits again, or ends."""

    place: Span
    array: tuple[tuple[int, ...], ...]

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        waits = place[0] == self.place and event[0] in WAITS
        new: tuple[Event, ...] = ()
        if held is not None and (waits or event[0] == Ev.EXIT):
            own = next((array for array in self.array if held in array), (held,))
            new = ((Ev.ARRIVE, event[1], own[(own.index(held) + 1) % len(own)], 1, -1, 0),)
        return (*new, event), event[2] if waits else None if new else held


@dataclass(frozen=True, slots=True)
class MeetAsElsewhere:
    """At ``place`` warps meet at the named barrier at which they meet elsewhere, too.

    ``barriers``: by warp of the block, the id and the threads. ``ahead``: before the first access there; else
    behind the accesses, before the agent meets others.
    """

    place: Span
    barriers: tuple[tuple[int, int, int], ...]
    ahead: bool = False

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        here = place[0] == self.place and event[0] in ACCESSES
        meeting = [(Ev.BARRIER_SYNC, event[1], id, n, 0) for warp, id, n in self.barriers if warp == cls.warp]
        if self.ahead:
            new = meeting if here and not held else []
            return (*new, event), here or (held and event[0] not in MEETINGS) or None
        if held and event[0] in MEETINGS:
            return (*meeting, event), None
        return (event,), True if here else held


__all__ = [
    "ArriveWithCopies",
    "CommitEachTurn",
    "HandOn",
    "MeetAsElsewhere",
    "NextSlot",
    "PollUntilTrue",
    "WaitInTurn",
    "WaitOnce",
]
