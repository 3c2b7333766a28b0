"""Grids whose blocks pass data on in small groups: which groups there are, and which of them are alike.

Every cluster is run alone, and all its waits pass. Its accesses to tracked global memory show with which
clusters it shares data. Two clusters share no byte that anyone writes: then they belong to different block
groups, and nothing that one group does reaches the other.

Two block groups are alike if both of these hold:

- their clusters, one by one, emit the same events;
- their accesses to global memory overlap in the same way: each stretch of memory that accesses of one group
  touch together lies elsewhere, but looks the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from syncverify.base.deadline import check as check_time
from syncverify.model.events import GLOBAL_MEMORY, Agent, Ev, Event, Flag, Footprint, LaneSplit, System

#: Events of one cluster that are looked at.
_MOST = 2_000_000
_MAX_SPLITS = 256
_POLLS = (Ev.POLL, Ev.POLL_TOKEN)
#: Where events name global memory, and whether they write it.
_PLACES = {
    Ev.CP_ASYNC: (3, False), Ev.BULK_LOAD: (3, False), Ev.BULK_STORE: (3, True),
    Ev.GLOBAL_READ: (2, False), Ev.GLOBAL_WRITE: (2, True), Ev.GLOBAL_ATOMIC: (2, True), Ev.SPIN: (2, False),
}  # fmt: skip


class NotDetermined(Exception):  # noqa: N818 -- an answer
    """What a cluster does is not known from a run of it alone; the text says why."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What one cluster does alone: its events, and the footprints that they name in turn, each once."""

    events: Hashable
    footprints: tuple[Footprint, ...]
    written: frozenset[int]  # which of them are written


def traced(system: System) -> Trace:
    """The trace of a system of one cluster. Raises NotDetermined."""
    for _ in range(_MAX_SPLITS):
        try:
            return _traced(system)
        except LaneSplit as split:
            system = system.refined(split)
    raise NotDetermined("lane classes kept splitting")


def _traced(system: System) -> Trace:
    order: dict[int, int] = {}
    written: set[int] = set()
    streams: list[Hashable] = [tuple(system.info.classes)]
    left = _MOST
    for agent in system.agents():
        # of the events as text: equal numbers of Python's own hash are no proof of equal events
        seen = blake2b(digest_size=16)
        event: Event | None = None
        while True:
            polled = event is not None and event[0] in _POLLS
            event = _passed(agent, event) if polled and event is not None else agent.step()
            left -= 1
            if not left & 255:
                check_time(256)
            if left < 0:
                raise NotDetermined(f"a cluster has more than {_MOST} events")
            _determined(event)
            if event[0] == Ev.EXIT:
                break
            place = _PLACES.get(event[0])
            if event[0] == Ev.SPIN and system.info.footprints[event[2]].memory != GLOBAL_MEMORY:
                place = None
            if place is not None and event[place[0]] >= 0:
                at, writes = place
                number = order.setdefault(event[at], len(order))
                if writes:
                    written.add(number)
                event = (*event[:at], "global", number, *event[at + 1 :])
            seen.update(repr(event).encode())
        streams.append(seen.digest())
    table = system.info.footprints
    return Trace(tuple(streams), tuple(table[f] for f in order), frozenset(written))


def _determined(event: Event) -> None:
    if event[0] == Ev.UNKNOWN:
        raise NotDetermined(event[2])
    if event[0] == Ev.ARRIVE and event[5] & Flag.TOKEN:
        raise NotDetermined("what a block does may depend on the number of a phase")


def _passed(agent: Agent, poll: Event) -> Event:
    """The event after a poll that is asked again until it is true, and does nothing else.

    A poll that is false leads to the same question, for ever in the same state; whenever it is true, it leads
    to one state.
    """
    again = agent.fork()
    asked = again.step(0)
    more = again.fork()
    after = again.fork()
    stays = more.step(0) == asked and more.normalize() == again.normalize()
    if not stays or (asked[0], *asked[2:]) != (poll[0], *poll[2:]):
        raise NotDetermined("what a block does depends on what it finds when it looks")
    later, event = after.step(1), agent.step(1)
    if later != event or after.normalize() != agent.normalize():
        raise NotDetermined("what a block does depends on when it looks")
    return event


def partition(traces: Sequence[Trace]) -> list[tuple[int, ...]]:
    """Clusters by number, those that may share data together."""
    parent = list(range(len(traces)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    runs = sorted(
        (lo, hi, c, n in t.written)
        for c, t in enumerate(traces)
        for n, f in enumerate(t.footprints)
        for lo, hi in f.intervals
    )
    for stretch in _stretches(runs):
        if any(r[3] for r in stretch):
            for r in stretch[1:]:
                parent[root(r[2])] = root(stretch[0][2])
    found: dict[int, list[int]] = {}
    for c in range(len(traces)):
        found.setdefault(root(c), []).append(c)
    return [tuple(x) for x in found.values()]


def _stretches(
    runs: Iterable[tuple[int, int, int, bool]],
) -> Iterator[list[tuple[int, int, int, bool]]]:
    """Sorted runs of bytes, those that overlap together."""
    group: list[tuple[int, int, int, bool]] = []
    end = 0
    for r in runs:
        if group and r[0] >= end:
            yield group
            group = []
        group.append(r)
        end = max(end, r[1]) if len(group) > 1 else r[1]
    if group:
        yield group


def shape(block_group: Sequence[Trace]) -> Hashable:
    """What block groups that are alike have in common."""
    # a footprint may come in traces of several clusters: it is the same memory there
    starts, ends = _places(f for t in block_group for f in t.footprints)
    numbers: dict[int, int] = {}

    def moved(lo: int, hi: int) -> tuple[int, int, int]:
        at = bisect_right(starts, lo) - 1
        assert at >= 0 and hi <= ends[at]
        return numbers.setdefault(at, len(numbers)), lo - starts[at], hi - starts[at]

    def form(f: Footprint) -> Hashable:
        lanes = tuple((*moved(lo, hi), lane) for lo, hi, lane in f.lanes)
        return tuple(moved(lo, hi) for lo, hi in f.intervals), lanes, f.overlap

    return tuple((t.events, tuple(form(f) for f in t.footprints)) for t in block_group)


def _places(footprints: Iterable[Footprint]) -> tuple[list[int], list[int]]:
    """Where each stretch of memory that footprints touch together starts and ends."""
    runs = sorted({(lo, hi, 0, False) for f in footprints for lo, hi in f.intervals})
    found = [(s[0][0], max(r[1] for r in s)) for s in _stretches(runs)]
    return [lo for lo, _ in found], [hi for _, hi in found]


def group_classes(traces: Sequence[Trace], most: int) -> list[tuple[int, ...]]:
    """A group of each kind, all of clusters in a row. Raises NotDetermined where block groups are
    too large.
    """
    kinds: dict[Hashable, tuple[int, ...]] = {}
    for block_group in partition(traces):
        if len(block_group) > most or block_group[-1] - block_group[0] + 1 != len(block_group):
            raise NotDetermined(
                f"{len(block_group)} clusters share data, at most {most} in a row are run together"
            )
        kinds.setdefault(shape([traces[c] for c in block_group]), block_group)
    return list(kinds.values())


__all__ = ["NotDetermined", "Trace", "group_classes", "shape", "partition", "traced"]
