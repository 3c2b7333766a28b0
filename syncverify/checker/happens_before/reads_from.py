"""Writes that somebody is known to have read: what comes after such a read comes after the write, too.

PTX ISA, Causality Order: X precedes Y if X precedes some Z in observation order, and Z precedes Y in base
causality order. The write itself is ordered so, also where nothing is released with it; nothing else of its
author's is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncverify.checker.happens_before.handlers.flag_order import key_of, knows_of
from syncverify.checker.happens_before.run import LaneClass, Run, scope_between
from syncverify.checker.happens_before.shadow import Record
from syncverify.model.proxies import Access

if TYPE_CHECKING:
    from syncverify.checker.happens_before.handlers.global_memory import Location, Spin


def is_read_by_ordered_access(run: Run, t: LaneClass, first: Record, second: Record) -> bool:
    """Whether the thread knows of a wait that has read what a strong write left in a flag, before it accesses
    the flag again."""
    fp = run.info.footprints[first.fp]
    if not run.locations or not first.atomic or first.kind != Access.GENERIC_WRITE:
        return False
    if second.kind.asynchronous or run.info.footprints[second.fp].intervals != fp.intervals:
        return False
    at = run.locations.get(key_of(fp.memory, fp.intervals[0][0]))
    return (
        at is not None
        and len(fp.intervals) == 1
        and any(knows_of(t, s) and _has_read(run, at, s, first) for s in at.spins)
    )


def _has_read(run: Run, at: Location, s: Spin, first: Record) -> bool:
    """Whether a wait has read a write, or an atomic after it: each reads what the one before left."""
    a, b = (run.threads[x.cls].info.cta for x in (first, s))
    if min(first.scope, s.scope) < scope_between(run, a, b):
        return False  # not morally strong
    seen = at.writes[: s.seen]
    return any(
        (w.cls, w.time) == (first.cls, first.time) and all(x.added is not None for x in seen[i + 1 :])
        for i, w in enumerate(seen)
    )
