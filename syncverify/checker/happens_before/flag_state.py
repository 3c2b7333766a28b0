"""Flags and counters, as later verdicts see them: what was written to one, and who looked.

A spin acquires what the writes that it needed have released, and the end of a run asks which of them come
before it in every execution, by the times of both. A later access asks who is known to have seen a write,
which must be the one that shadow memory holds (``observed``): by what is seen to be over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from syncverify.checker.happens_before.handlers.flag_order import SHARED
from syncverify.checker.happens_before.handlers.global_memory import Location, Spin, Write
from syncverify.checker.happens_before.run import LaneClass, Run
from syncverify.checker.happens_before.vector_clocks import Matrix

At = Callable[[Write | Spin], Hashable]
Keep = Callable[[Matrix | None], int]


def thresholds(run: Run) -> Iterator[tuple[int, int]]:
    """The times that later comparisons of both kinds are with: of writes and of spins."""
    for at in run.locations.values():
        yield from ((w.cls, w.time) for w in at.writes)
        yield from ((s.cls, s.time) for s in at.spins)


def form(run: Run, at: At, keep: Keep) -> Hashable:
    """What flags hold, who has written them and who has seen what."""
    return tuple((key, _location(x, at, keep)) for key, x in sorted(run.locations.items()))


def _location(x: Location, at: At, keep: Keep) -> Hashable:
    writes = tuple(_write(w, at, keep) for w in x.writes)
    spins = tuple((at(s), s.compare, s.value, s.seen, s.scope, s.start, s.races, s.takes) for s in x.spins)
    return (x.value, x.launch, writes, spins, tuple(sorted(t.cls for t in x.waiting)))


def _write(w: Write, at: At, keep: Keep) -> Hashable:
    order = (w.after, w.weak, tuple(sorted(w.covers)))
    return (at(w), w.value, w.added, w.lanes, w.reach, order, keep(w.past), keep(w.released))


def flags_are_restored(run: Run) -> bool:
    """Whether all flags in global memory are 0 again at the end of a run, whatever the order: the last write
    of each, which leaves 0, comes after all others."""
    return all(restored_at(x) for key, x in run.locations.items() if x.writes and key < SHARED)


def restored_at(x: Location) -> bool:
    """The same of one flag."""
    *others, last = x.writes
    return last.value == 0 and last.added is None and all(last.past[w.cls] >= w.time for w in others)


def copied(locations: Mapping[int, Location], threads: Mapping[int, LaneClass]) -> dict[int, Location]:
    """Copies for another run; ``threads``: its own, by the identities of those that they are copies of."""
    return {
        key: Location(x.value, list(x.writes), [threads[id(t)] for t in x.waiting], list(x.spins), x.launch)
        for key, x in locations.items()
    }


__all__ = ["copied", "flags_are_restored", "form", "restored_at", "thresholds"]
