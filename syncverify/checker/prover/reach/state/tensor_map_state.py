"""Tensor maps that a kernel edits, as later verdicts see them.

An edit of a map asks of its earlier uses: are they over, and has their class drained what it copied? If
both hold of the newest use by a class in a column of clocks, they hold of the older ones. What every agent
knows to be over is over for every later edit, and is forgotten. Of edits, releases and acquires the state
keeps who knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

from syncverify.checker.happens_before.handlers.tensor_maps import Map, drain, over
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.shadow import IN_FLIGHT, Record
from syncverify.symbolic.context import NotConcrete

At = Callable[[int, int], Hashable]


def thresholds(run: Run) -> Iterator[tuple[int, int]]:
    """The times that later comparisons are with: columns and values."""
    for m in run.maps.values() if run.info.edits_maps else ():
        for use in (*newest(left(run, m)), *newest(m.open)):
            if use.tag >= 0:
                yield use.tag, use.tag_value
            _, time = drain(run, use)
            if time is not None:
                yield use.cls, time
        yield from m.edits
        if m.edits:
            yield from ((cls, time) for cls, time, _ in m.released)
            yield from ((cls, time) for _, cls, time in m.acquired)


def form(run: Run, at: At) -> Hashable:
    """The state of all maps. Raises NotConcrete for edits in kernels that are not known to make any."""
    if not run.info.edits_maps:
        if any(m.edits for m in run.maps.values()):
            raise NotConcrete("tensor maps are edited")
        return ()
    return tuple((number, _map(run, m, at)) for number, m in sorted(run.maps.items()))


def _map(run: Run, m: Map, at: At) -> Hashable:
    uses = tuple(frozenset(_use(run, r, at) for r in newest(some)) for some in (left(run, m), m.open))
    if not m.edits:
        return uses  # the next edit makes all else again
    return (
        uses,
        frozenset(at(*e) for e in m.edits),
        (m.edit_site, m.whole, frozenset(cls for cls, _ in m.edits)),
        frozenset((at(cls, time), cls, scope) for cls, time, scope in m.released),
        frozenset((at(cls, time), cls, cta) for cta, cls, time in m.acquired),
    )


def left(run: Run, m: Map) -> list[tuple[Record, int]]:
    """The uses that some agent which may edit does not know to be over."""
    threads = [t for t in run.threads if not t.done]
    return [u for u in m.uses if not all(over(t, u[0]) for t in threads)]


def newest(uses: Iterable[tuple[Record, int]]) -> list[Record]:
    """The newest use of each class in each column."""
    found: dict[tuple[int, int], Record] = {}
    for r, _ in uses:
        old = found.get((r.cls, r.tag))
        if old is None or (r.tag_value, r.time) >= (old.tag_value, old.time):
            found[r.cls, r.tag] = r
    return list(found.values())


def _use(run: Run, r: Record, at: At) -> Hashable:
    if r.tag_value >= IN_FLIGHT:
        raise NotConcrete("a copy through a tensor map that may be edited is in flight")
    committed, time = drain(run, r)
    drained = committed if time is None else at(r.cls, time)
    return (r.cls, at(r.tag, r.tag_value) if r.tag >= 0 else None, drained)


__all__ = ["form", "newest", "thresholds"]
