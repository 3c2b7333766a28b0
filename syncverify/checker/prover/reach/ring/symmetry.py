"""Rings of slots in shared memory, and their rotation by some places.

A pipeline of ``size`` slots uses barriers and bytes in turn. Count *places* modulo twice the size: place
``n`` is slot ``n % size``, in laps of even or odd number. A rotation moves everything on by some places:
barriers and bytes change slots, and those that go past the last slot change parity. A kernel cannot
distinguish the rotated run from the run, if its agents stand as many places further on as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from syncverify.checker.happens_before.access_merging import joined_footprint
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.shadow import Record
from syncverify.model.events import GLOBAL_MEMORY, Ev, Event, Footprint, SystemInfo
from syncverify.model.intervals import merge

#: Where events name barriers, and where footprints.
BARRIERS = {
    Ev.INIT: (2,), Ev.INVAL: (2,), Ev.ARRIVE: (2,), Ev.EXPECT_TX: (2,), Ev.COMPLETE_TX: (2,), Ev.WAIT: (2,),
    Ev.WAIT_TOKEN: (2,), Ev.POLL: (2,), Ev.POLL_TOKEN: (2,), Ev.CP_ARRIVE: (2,), Ev.BULK_COPY: (4,),
    Ev.ST_ASYNC: (3,),
}  # fmt: skip
FOOTPRINTS = {
    Ev.READ: (2,), Ev.WRITE: (2,), Ev.ATOMIC: (2,), Ev.CP_ASYNC: (2,), Ev.BULK_STORE: (2,),
    Ev.BULK_COPY: (2, 3), Ev.ST_ASYNC: (2,), Ev.WGMMA: (3, 5, 7, 8),
}  # fmt: skip
#: Events that name the parity of a phase.
PARITIES = frozenset({Ev.WAIT, Ev.POLL})
TOKENS = frozenset({Ev.WAIT_TOKEN, Ev.POLL_TOKEN})
#: Slots of a ring, at most.
MOST_SLOTS = 64

#: Accesses that fill no slots of a pipeline, as a rule: staged results may cycle through as many.
OTHERS = frozenset({Ev.READ, Ev.WRITE, Ev.ATOMIC, Ev.BULK_STORE})
#: A class, a site, what it does there, and where the event names a footprint.
Use = tuple[int, int, int, int]

#: Bytes of one slot: from, to, the slot, and how far on the next slot has the same.
Piece = tuple[int, int, int, int]


@dataclass(slots=True)
class Ring:
    """``size`` slots. ``barriers``: the slot of each barrier; ``groups``: its orbit in one CTA, by slot."""

    info: SystemInfo
    size: int
    barriers: dict[int, int]
    groups: dict[int, tuple[int, ...]]
    pieces: tuple[Piece, ...]
    _lows: list[int] = field(init=False)
    _moved: dict[tuple[int, int], int] = field(default_factory=dict)
    _joined: dict[tuple[int, int], int] = field(default_factory=dict)
    _intervals: dict[tuple[int, int, int], tuple[tuple[int, int], ...]] = field(default_factory=dict)
    _events: dict[tuple[Event, int], Event] = field(default_factory=dict)
    _numbers: dict[Footprint, int] = field(default_factory=dict)
    _numbered: int = 0

    def __post_init__(self) -> None:
        self._lows = [lo for lo, _, _, _ in self.pieces]

    @property
    def places(self) -> int:
        return 2 * self.size

    @property
    def offsets(self) -> tuple[tuple[int, ...], ...]:
        """Of the barriers of each group in CTA 0, by slot."""
        of = self.info.barriers
        return tuple([tuple([of[b].offset for b in g]) for g in {*self.groups.values()} if of[g[0]].cta == 0])

    def barrier(self, b: int, by: int) -> int:
        """The barrier that represents one, so many places further on."""
        slot = self.barriers.get(b)
        return b if slot is None else self.groups[b][(slot + by) % self.size]

    def flips(self, b: int, by: int) -> int:
        """1 if its parities are the other ones there."""
        slot = self.barriers.get(b)
        return 0 if slot is None else (slot + by) % self.places // self.size

    def interval(self, lo: int, hi: int, by: int) -> Iterator[tuple[int, int]]:
        """Where bytes of shared memory lie, so many places further on."""
        at = lo
        i = max(bisect_right(self._lows, lo) - 1, 0)
        while at < hi:
            while i < len(self.pieces) and self.pieces[i][1] <= at:
                i += 1
            if i == len(self.pieces) or self.pieces[i][0] >= hi:
                yield at, hi
                return
            first, end, slot, stride = self.pieces[i]
            if first > at:
                yield at, first
                at = first
            end = min(end, hi)
            move = ((slot + by) % self.size - slot) * stride
            yield at + move, end + move
            at = end

    def intervals(self, lo: int, hi: int, by: int) -> tuple[tuple[int, int], ...]:
        """The same, remembered."""
        key = lo, hi, by % self.size
        found = self._intervals.get(key)
        if found is None:
            found = self._intervals[key] = tuple(self.interval(lo, hi, by))
        return found

    def footprint(self, fp: int, by: int) -> int:
        """The footprint that represents one; equal bytes have one number."""
        found = self._moved.get((fp, by % self.size)) if fp >= 0 else fp
        if found is None:
            found = self._moved[fp, by % self.size] = self._number(self._there(fp, by))
        return found

    def joined_there(self, fp: int, by: int, parts: tuple[Record, ...]) -> int:
        """The same of a joined one; ``parts``: of what stands there."""
        key = fp, by % self.size
        found = self._joined.get(key)
        if found is None:
            far = self.info.footprints[fp].memory == GLOBAL_MEMORY
            found = self._joined[key] = fp if far else joined_footprint(self.info, [*parts])
        return found

    def _there(self, fp: int, by: int) -> Footprint:
        f = self.info.footprints[fp]
        if f.memory == GLOBAL_MEMORY or not self._touches(f):
            return f

        def moved(some: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
            return merge(p for lo, hi in some for p in self.interval(lo, hi, by))

        lanes = tuple(sorted((lo, hi, lane) for a, b, lane in f.lanes for lo, hi in self.interval(a, b, by)))
        return replace(f, intervals=moved(f.intervals), lanes=lanes, cover=moved(f.cover))

    def _touches(self, f: Footprint) -> bool:
        lo, hi = f.intervals[0][0] if f.intervals else 0, f.intervals[-1][1] if f.intervals else 0
        return any(a < hi and lo < b for a, b, _, _ in self.pieces)

    def _number(self, f: Footprint) -> int:
        table = self.info.footprints
        for i in range(self._numbered, len(table)):
            self._numbers.setdefault(table[i], i)
        self._numbered = len(table)
        found = self._numbers.get(f)
        if found is None:
            found = self._numbers[f] = len(table)
            table.append(f)
            self._numbered += 1
        return found

    def event(self, event: Event, by: int) -> Event:
        """The event that represents one."""
        if event[0] in TOKENS:  # tokens cannot be compared
            return self._event(event, by)
        key = event, by % self.places
        found = self._events.get(key)
        if found is None:
            found = self._events[key] = self._event(event, by)
        return found

    def _event(self, event: Event, by: int) -> Event:
        code = event[0]
        if code == Ev.BULK_LOAD:
            targets = tuple([(self.footprint(f, by), self.barrier(b, by), n) for f, b, n in event[2]])
            return (*event[:2], targets, *event[3:])
        barriers, footprints = BARRIERS.get(code, ()), FOOTPRINTS.get(code, ())
        if not barriers and not footprints:
            return event
        out: list[Any] = list(event)
        for i in barriers:
            out[i] = self.barrier(event[i], by)
        for i in footprints:
            if i < len(out):
                out[i] = self.footprint(event[i], by)
        if code in PARITIES:
            out[3] = event[3] ^ self.flips(event[2], by)
        return tuple(out)

    def point(self, point: tuple[Any, ...], by: int) -> tuple[Any, ...]:
        """Where an agent stands, with the events that it has queued there."""
        if len(point) < 2 or not point[1]:
            return point
        label, *events = point[1]
        return (point[0], (label, *(self.event(e, by) for e in events)), *point[2:])


# ------------------------------------------------------------------ finding one


def detect_ring(run: Run, whole: bool = False) -> Ring | None:
    """The ring of a run: that of the barriers on which copies arrive; None if none is seen in full.
    ``whole``: nor if some site may have yet to come to some slots."""
    info = run.info
    if sum(b.cta == 0 for b in info.barriers) < 2:
        return None  # a ring has several places
    barriers, uses, orders = _uses(run)
    groups, size = _rings_of_barriers(info, barriers, {b for order in orders for b in order})
    if not 1 < size <= MOST_SLOTS or not any(_is_cyclic_order(order, size) for order in orders):
        return None  # no ring, or not all of it was seen
    barred = {
        (a, a + 8, slot, _stride(at))
        for at in ([info.barriers[b].offset for b in g] for g in groups)
        for slot, a in enumerate(at)
    }
    slot_of = {b: slot for g in groups for slot, b in enumerate(g)}
    pieces = set(barred)
    for use, met in uses.items():
        if use[2] not in OTHERS or _has_constant_stride(met, slot_of, size):
            pieces |= _slots([info.footprints[f] for f in dict.fromkeys(f for f, _ in met)], size)
    if (whole or pieces == barred) and any(_in_part(use, met, size) for use, met in uses.items()):
        return None  # those who began the ring elsewhere have yet to come round
    disjoint = _disjoint(pieces)
    if disjoint is None:
        return None
    orbits = _in_all_blocks(info, groups)
    if orbits is None:
        return None
    slots = {b: slot for orbit in orbits.values() for slot, b in enumerate(orbit)}
    return Ring(info, size, {b: slots[b] for b in orbits}, orbits, disjoint)


def _rings_of_barriers(
    info: SystemInfo, used: list[set[int]], expected: set[int]
) -> tuple[list[list[int]], int]:
    """Barriers at a constant stride that sites use in turn, in the order of their slots, of the largest size
    that some barrier has on which copies arrive; and that size."""
    groups = [sorted(g, key=lambda b: info.barriers[b].offset) for g in _joined(used)]
    groups = [g for g in groups if _stride([info.barriers[b].offset for b in g])]
    size = max((len(g) for g in groups if not expected.isdisjoint(g)), default=0)
    return [g for g in groups if len(g) == size], size


def _in_all_blocks(info: SystemInfo, groups: list[list[int]]) -> dict[int, tuple[int, ...]] | None:
    """Each barrier of a ring, in any block, with the ring's barriers there by slot; None where one lacks."""
    here = {info.barriers[b].offset: g for g in groups for b in g}
    there = {(b.cta, b.offset): i for i, b in enumerate(info.barriers)}
    orbits: dict[int, tuple[int, ...]] = {}
    for (cta, offset), b in there.items():
        if offset in here:
            group = [(cta, info.barriers[o].offset) for o in here[offset]]
            if any(at not in there for at in group):
                return None
            orbits[b] = tuple([there[at] for at in group])
    return orbits


def _in_part(use: Use, met: Iterable[tuple[int, int]], size: int) -> bool:
    """Whether a site may have used the bytes of some slots, but not of all."""
    return use[2] not in OTHERS and 1 < len({f for f, _ in met}) < size


def _has_constant_stride(met: Iterable[tuple[int, int]], slot_of: dict[int, int], size: int) -> bool:
    """Whether the footprints of a site cycle as barriers do: as many belong to each slot alone."""
    slots: dict[int, set[int]] = {}
    for f, b in met:
        slots.setdefault(slot_of.get(b, -1), set()).add(f)
    numbers = {len(some) for some in slots.values()}
    once = sum(map(len, slots.values())) == len(set[int]().union(*slots.values()))
    return len(slots) == size and -1 not in slots and len(numbers) == 1 and once


def _uses(run: Run) -> tuple[list[set[int]], dict[Use, dict[tuple[int, int], None]], list[list[int]]]:
    """The barriers in CTA 0 that each class has used at each site; the footprints, each with the barrier that
    the class used last; and in which order each class has made barriers expect bytes."""
    info = run.info
    barriers: dict[tuple[int, int, int], set[int]] = {}
    footprints: dict[Use, dict[tuple[int, int], None]] = {}
    last: dict[int, int] = {}
    expected: dict[int, list[int]] = {}
    for cls, event in run.trace:
        if cls < 0 or event[0] in (Ev.INIT, Ev.INVAL):
            continue
        code, site = event[0], event[1]
        named = [b for _, b, _ in event[2]] if code == Ev.BULK_LOAD else []
        touched = [f for f, _, _ in event[2]] if code == Ev.BULK_LOAD else []
        named += [event[i] for i in BARRIERS.get(code, ())]
        touched += [event[i] for i in FOOTPRINTS.get(code, ()) if i < len(event)]
        for b in named:
            if b >= 0 and info.barriers[b].cta == 0:
                barriers.setdefault((cls, site, code), set()).add(b)
                last[cls] = b
                if code == Ev.EXPECT_TX or (code == Ev.ARRIVE and event[4] >= 0):
                    expected.setdefault(cls, []).append(b)
        for i, f in enumerate(touched):
            if f >= 0 and info.footprints[f].memory == 0:
                footprints.setdefault((cls, site, code, i), {}).setdefault((f, last.get(cls, -1)))
    return [*barriers.values()], footprints, [*expected.values()]


def _is_cyclic_order(order: list[int], size: int) -> bool:
    """Whether a ring of so many barriers comes round in this order."""
    seen = dict.fromkeys(order)
    if len(order) <= size or len(seen) % size:
        return False
    return all(a == b for a, b in zip(order, order[len(seen) :], strict=False)) and len(order) > len(seen)


def _joined(sets: Iterable[set[int]]) -> list[set[int]]:
    """Sets that share something are one; those of a single thing are left out."""
    out: list[set[int]] = []
    for new in sets:
        if len(new) < 2:
            continue
        apart = [s for s in out if s.isdisjoint(new)]
        out = [*apart, new.union(*(s for s in out if not s.isdisjoint(new)))]
    return out


def _stride(at: list[int]) -> int:
    """How far apart numbers are; 0 unless all are as far."""
    steps = {b - a for a, b in pairwise(at)}
    return steps.pop() if len(steps) == 1 else 0


def _slots(used: list[Footprint], size: int) -> set[Piece]:
    """The bytes of each slot, where footprints are the same in all slots."""
    if len(used) < size or len(used) % size or not all(f.intervals for f in used):
        return set()
    used = sorted(used, key=lambda f: f.intervals)
    each = len(used) // size
    first = used[:each]
    stride = used[each].intervals[0][0] - first[0].intervals[0][0]
    out: set[Piece] = set()
    for slot in range(size):
        for f, here in zip(first, used[slot * each : (slot + 1) * each], strict=True):
            move = slot * stride
            if here.intervals != tuple([(lo + move, hi + move) for lo, hi in f.intervals]):
                return set()
            out |= {(lo, hi, slot, stride) for lo, hi in here.intervals}
    return out if stride else set()


def _disjoint(pieces: set[Piece]) -> tuple[Piece, ...] | None:
    """Pieces merged by slot and stride; None if different slots share bytes."""
    by: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for lo, hi, slot, stride in pieces:
        by.setdefault((slot, stride), []).append((lo, hi))
    out = sorted((lo, hi, *key) for key, some in by.items() for lo, hi in merge(some))
    return None if any(a[1] > b[0] for a, b in pairwise(out)) else tuple(out)


__all__ = ["PARITIES", "TOKENS", "Ring", "detect_ring"]
