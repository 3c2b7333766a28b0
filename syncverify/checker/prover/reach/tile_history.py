"""The history of where tiles began, as far as the last phases of a ring's barriers know it.

In round-robin loops tiles begin anywhere in a ring. The last phase of each slot knows what was known when
it was over: who had waited for its iteration, whose copies were out. So for a lap it shows on which side
of the slot the last tile began. No obligation asks for that. It is therefore forgotten wherever states are
compared.

What one slot does not know of the ring itself the others come to miss as well, each after another tile. So
it is forgotten of the whole orbit at once, each threshold rotated as its slot is, and from then on of all
states.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from syncverify.checker.happens_before.run import LATER, Run
from syncverify.checker.happens_before.vector_clocks import E, Matrix
from syncverify.checker.prover.reach.state.snapshot import flat
from syncverify.checker.prover.reach.threshold_abstraction import SLICES, Place, ThresholdAbstraction
from syncverify.checker.prover.reach.thresholds import ORDER

#: Offsets of barriers in their CTA, by slot, of each group that cycles through a ring.
Groups = tuple[tuple[int, ...], ...]
#: A threshold, and rows that are to miss it.
DroppedThreshold = tuple[Place, list[int]]
#: What last phases of a group's barriers do not know: their group, whether of other CTAs, the group that is
#: asked for, and how many places further on.
OrbitWeakening = tuple[int, bool, int, int]


class RingBarriers:
    """The barriers of a run that cycle through a ring."""

    def __init__(self, run: Run, groups: Groups) -> None:
        self.run = run
        at = {(b.cta, b.offset): i for i, b in enumerate(run.info.barriers)}
        self.size = len(groups[0]) if groups else 0
        #: barrier -> its orbit in its CTA by slot, and its slot
        self.orbits: dict[int, tuple[tuple[int, ...], int]] = {}
        #: barrier -> its group, and by group the orbit in its CTA
        self.group: dict[int, int] = {}
        self.others: dict[int, dict[int, tuple[int, ...]]] = {}
        for cta in range(run.ctas):
            others: dict[int, tuple[int, ...]] = {}
            for group, offsets in enumerate(groups):
                orbit = tuple([at.get((cta, offset), -1) for offset in offsets])
                if all(b in run.barriers for b in orbit):
                    self.orbits |= {b: (orbit, slot) for slot, b in enumerate(orbit)}
                    self.group |= dict.fromkeys(orbit, group)
                    self.others |= dict.fromkeys(orbit, others)
                    others[group] = orbit
        self.columns = {run.barriers[b].column: b for b in self.orbits}

    def place(self, b: int) -> int:
        """The place of a barrier's last phase, laps counted."""
        _, slot = self.orbits[b]
        phase: int = self.run.barriers[b].auto.phase
        return (phase - 1) * self.size + slot

    def moved(self, column: int, value: int, by: int) -> tuple[int, int]:
        """What a threshold is so many places further on."""
        b = self.columns.get(column)
        if b is None:
            return column, value
        orbit, slot = self.orbits[b]
        value, slot = divmod(value * self.size + slot + by, self.size)
        return self.run.barriers[orbit[slot]].column, value

    def distance(self, b: int, column: int, value: int) -> tuple[int, int] | None:
        """The group of a threshold in the CTA of a barrier, and how far from its last phase it is."""
        asked = self.columns.get(column, -1)
        if asked < 0 or self.others[asked] is not self.others[b]:
            return None
        return self.group[asked], value * self.size + self.orbits[asked][1] - self.place(b)

    def beyond(self, b: int, group: int, distance: int) -> tuple[int, int]:
        """The threshold of a group so far from the last phase of a barrier."""
        value, slot = divmod(self.place(b) + distance, self.size)
        return self.run.barriers[self.others[b][group][slot]].column, value

    def last(self, b: int) -> Iterator[tuple[Matrix, bool]]:
        """What the last phase of a barrier knows, and what of it comes from other CTAs."""
        for p in self.run.barriers[b].phases[1:2]:
            yield p.m, False
            if p.far is not None:
                yield p.far, True


def forget_tile_history(run: Run, groups: Groups, lacks: Iterable[OrbitWeakening] = ()) -> None:
    """Makes the last phases of a ring's barriers know of nothing but the ring, in every execution, but for
    what all agents know: of classes no more than their waits and expects there. What is known of requests
    for registers stays. ``lacks``: what they are not to know of the ring either."""
    slots = RingBarriers(run, groups)
    left = [t.clock.m[E] for t in run.threads if not t.done and t.waits_on != LATER]
    if not slots.orbits or not left:
        return
    least = np.min(left, axis=0)
    less = _lowered(run, slots, least)
    for b in slots.orbits:
        s = run.barriers[b]
        lost = [
            (far, *slots.beyond(b, group, distance))
            for of, far, group, distance in lacks
            if of == slots.group[b] and group in slots.others[b]
        ]
        for p in s.phases[1:2]:
            m = less(p.m, [(c, v) for far, c, v in lost if not far])
            far = None if p.far is None else less(p.far, [(c, v) for far, c, v in lost if far])
            if m is not p.m or far is not p.far:
                s.phases = [s.phases[0], flat(p, m=m, far=far), *s.phases[2:]]


def _lowered(
    run: Run, slots: RingBarriers, least: Matrix
) -> Callable[[Matrix, list[tuple[int, int]]], Matrix]:
    """What makes a matrix know so little, and miss thresholds of the ring where it does not know more;
    ``least``: what all agents know."""
    asked: dict[int, list[int]] = {c: [v] for c, v in enumerate(least.tolist()) if c < run.columns.classes}
    for request in run.requests:
        for column, value in request.times.items():
            asked.setdefault(column, []).append(value)
    for b in slots.orbits:
        for c, w in run.barriers[b].waits.items():
            asked[c].append(w[0])
        for e in run.barriers[b].phases[0].expects:
            asked[e.cls].append(e.time)
    times = {column: sorted(values) for column, values in asked.items()}
    ring = list(slots.columns)

    def less(m: Matrix, lost: list[tuple[int, int]]) -> Matrix:
        row = np.minimum(m[E], least)
        row[ring] = m[E, ring]
        for column, value in lost:
            if row[column] == value > least[column]:
                row[column] = value - 1
        for column, values in times.items():
            i = bisect_right(values, int(m[E, column]))
            row[column] = max(int(row[column]), values[i - 1]) if i else row[column]
        if (row == m[E]).all():
            return m
        new = m.copy()
        new[E] = row
        return new

    return less


def orbit_weakenings_of(
    thresholds: ThresholdAbstraction, groups: Groups, missed: Iterable[DroppedThreshold]
) -> set[OrbitWeakening]:
    """What of the ring last phases are to miss, wherever in it they are."""
    slots = RingBarriers(thresholds.run, groups)
    last = {id(m): (b, far) for b in slots.orbits for m, far in slots.last(b)}
    found: set[OrbitWeakening] = set()
    for (kind, number), rows in missed:
        for row in rows if kind == ORDER else ():
            here = last.get(id(thresholds.matrices[row])) if row < len(thresholds.matrices) else None
            to = slots.distance(here[0], *thresholds.value((kind, number))) if here is not None else None
            if here is not None and to is not None:
                found.add((slots.group[here[0]], here[1], *to))
    return found


def extend_to_orbit(
    thresholds: ThresholdAbstraction, groups: Groups, missed: Iterable[DroppedThreshold]
) -> list[DroppedThreshold]:
    """What else is to be missed: by the last phases of other slots what one of them misses."""
    slots = RingBarriers(thresholds.run, groups)
    rows_of: dict[int, list[int]] = {}  # by identity of the matrix
    for i, m in enumerate(thresholds.matrices):
        rows_of.setdefault(id(m), []).append(i)
    last = {id(m): (b, far) for b in slots.orbits for m, far in slots.last(b)}
    found: dict[Place, set[int]] = {}
    for (kind, number), rows in missed:
        width = SLICES[kind].stop - SLICES[kind].start
        for row in rows:
            i, k = divmod(row, width)
            here = last.get(id(thresholds.matrices[i])) if i < len(thresholds.matrices) else None
            for b in slots.orbits[here[0]][0] if here is not None else ():
                by = slots.place(b) - slots.place(here[0]) if here is not None else 0
                there = thresholds.asked[kind].get(slots.moved(*thresholds.value((kind, number)), by))
                if there is None or not by:
                    continue
                some = found.setdefault((kind, there), set())
                for m, far in slots.last(b):
                    if here is not None and far == here[1]:
                        some.update(j * width + k for j in rows_of.get(id(m), ()))
    return [(place, sorted(rows)) for place, rows in found.items()]


__all__ = ["Groups", "OrbitWeakening", "extend_to_orbit", "forget_tile_history", "orbit_weakenings_of"]
