"""What agents come to miss of one slot of a ring, and would of the others one step after the other.

States that represent all places of a ring are widened where they know less than one before. What is missed is
of one slot; a step later it is of the next one. So it is forgotten of its orbit in all slots at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.vector_clocks import Matrix
from syncverify.checker.prover.reach.threshold_abstraction import SLICES, Place, ThresholdAbstraction
from syncverify.checker.prover.reach.tile_history import DroppedThreshold, Groups, RingBarriers

#: What barriers know, by the part of them that does.
OPEN, TX, LAST, FAR = range(4)


def _width(kind: int) -> int:
    """How many rows of a matrix are asked for thresholds of a kind."""
    return SLICES[kind].stop - SLICES[kind].start


def orbit_of_access_weakening(
    thresholds: ThresholdAbstraction, lost: list[DroppedThreshold], holders: dict[Place, list[int]]
) -> list[DroppedThreshold]:
    """What agents are to miss: of accesses that nothing but their bytes distinguishes what they miss of one
    of
    them."""
    orbits: dict[Hashable, list[int]] = {}
    for j, (name, _) in enumerate(thresholds.records):
        orbits.setdefault(_but_bytes(name), []).append(j)
    agents = {id(t.clock.m) for t in thresholds.run.threads}
    found: dict[Place, set[int]] = {}
    for (kind, number), rows in lost:
        width = _width(kind)
        some = [
            row
            for row in rows
            if row // width < len(thresholds.matrices) and id(thresholds.matrices[row // width]) in agents
        ]
        for j in holders.get((kind, number), ()) if some else ():
            name, places = thresholds.records[j]
            at = places.index((kind, number))
            for other in orbits[_but_bytes(name)]:
                found.setdefault(thresholds.records[other][1][at], set()).update(some)
    return [(place, sorted(rows)) for place, rows in found.items()]


def _but_bytes(name: Hashable) -> Hashable:
    """What tells an access from others, but for its bytes (see ``ThresholdAbstraction.apart``)."""
    assert isinstance(name, tuple)
    return name[:2], name[3:]


def orbit_of_barrier_weakening(
    thresholds: ThresholdAbstraction, groups: Groups, lost: list[DroppedThreshold]
) -> list[DroppedThreshold]:
    """What barriers are to miss of those of their ring, and of who has waited for these: what one of them
    misses, as many slots further on."""
    slots = RingWaits(thresholds.run, groups)
    parts = {id(m): (b, part) for b in slots.orbits for m, part in slots.parts(b)}
    of_rows = [parts.get(id(m)) for m in thresholds.matrices]
    rows_of: dict[tuple[int, int], list[int]] = {}
    for i, of in enumerate(of_rows):
        if of is not None:
            rows_of.setdefault(of, []).append(i)
    missed = [
        (*of, kind, number, row % _width(kind))
        for (kind, number), rows in lost
        for row in rows
        if row < len(of_rows) * _width(kind) and (of := of_rows[row // _width(kind)]) is not None
    ]
    found: dict[Place, set[int]] = {}
    for b, part, kind, number, k in missed:
        for like in slots.orbits[b][0]:
            by = slots.place(like) - slots.place(b)
            moved = slots.rotated_threshold(*thresholds.value((kind, number)), by) if by else None
            there = None if moved is None else thresholds.asked[kind].get(moved)
            if there is not None:
                rows = rows_of.get((like, part), ())
                found.setdefault((kind, there), set()).update(_width(kind) * i + k for i in rows)
    return [(place, sorted(rows)) for place, rows in found.items()]


class RingWaits(RingBarriers):
    """The barriers of a run that cycle through a ring, and when each class has waited for their
    last phases.
    """

    def __init__(self, run: Run, groups: Groups) -> None:
        super().__init__(run, groups)
        self.waited = {(c, w[0]): b for b in self.orbits for c, w in run.barriers[b].waits.items()}

    def place(self, b: int) -> int:
        """The place of a barrier's last phase, before that which is filled next: runs that were moved on keep
        their numbers of phases, and tell laps by parities."""
        s = self.run.barriers[b]
        even = (s.auto.phase + s.flip) % 2
        return int(self.orbits[b][1] - self.size * (1 + even))

    def moved(self, column: int, value: int, by: int) -> tuple[int, int]:
        """What a threshold is so many places further on."""
        b = self.columns[column]
        since = value - self.run.barriers[b].auto.phase  # laps
        place = self.place(b) + self.size * since + by
        like = self.run.barriers[self.orbits[b][0][place % self.size]]
        return like.column, like.auto.phase + (place - self.place(like.index)) // self.size

    def parts(self, b: int) -> Iterator[tuple[Matrix, int]]:
        """What the phases of a barrier know."""
        p, *over = self.run.barriers[b].phases[:2]
        yield p.m, OPEN
        for last in over:
            yield last.m, LAST
            if last.far is not None:
                yield last.far, FAR

    def rotated_threshold(self, column: int, value: int, by: int) -> tuple[int, int] | None:
        """What a threshold is so many places further on; None if it is not of the ring, or nothing there."""
        if column in self.columns:
            return self.moved(column, value, by)
        b = self.waited.get((column, value))
        if b is None:
            return None
        orbit, slot = self.orbits[b]
        like = orbit[(slot + by) % self.size]
        wait = self.run.barriers[like].waits.get(column)
        return None if wait is None or self.place(like) - self.place(b) != by else (column, wait[0])


__all__ = ["RingWaits", "orbit_of_access_weakening", "orbit_of_barrier_weakening"]
