"""Flags in shared memory: threads of a cluster that wait for what others store there.

A flag holds nothing known until a store that comes before the wait. Plain stores count as well as strong
ones, but release nothing; one that does not come before a wait, nor after it, races with it.
"""

from __future__ import annotations

from syncverify.checker.happens_before.event_flags import RELEASE, STRONG
from syncverify.checker.happens_before.handlers import global_memory, one_cluster
from syncverify.checker.happens_before.handlers.accesses import access, touch_barriers
from syncverify.checker.happens_before.handlers.flag_order import forget_settled, undecided
from syncverify.checker.happens_before.run import DONE, LaneClass, Run, Unmodelled
from syncverify.checker.happens_before.shadow import Record
from syncverify.model.events import GLOBAL_MEMORY, Event
from syncverify.model.proxies import Access


def on_signal(run: Run, t: LaneClass, event: Event) -> int:
    """A store to a word of shared memory that may be a flag, or an atomic."""
    _, site, fp, flags, scope, op, value = event
    strong = bool(flags & (STRONG | RELEASE))
    execution = 0 if strong else run.execution_of(t, site)
    r = Record(Access.GENERIC_WRITE, t.cls, t.time, fp, site, atomic=strong, scope=scope, execution=execution)
    access(run, t, r)
    touch_barriers(run, t, r)
    stored, added = (value, None) if not op else (None, value if op == "add" else None)
    global_memory.signal(run, t, site, fp, flags, scope, stored, added)
    return DONE


def on_spin(run: Run, t: LaneClass, event: Event) -> int:
    """A wait for a flag in shared memory reads it; one in global memory is looked at elsewhere."""
    _, site, fp, *_ = event
    memory = run.info.footprints[fp].memory if fp >= 0 else GLOBAL_MEMORY
    if memory == GLOBAL_MEMORY:
        return one_cluster.on_spin(run, t, event)
    if memory != t.info.cta:
        raise Unmodelled("a wait for a word in the shared memory of another CTA", site)
    at = global_memory.location(run, fp)
    if at.writes and at.value is None:
        raise undecided("the value that this spin waits for is not known", site, shared=True)
    answer = global_memory.wait_for(run, t, event)
    if answer == DONE:
        forget_settled(run, at)
    return answer


__all__ = ["on_signal", "on_spin"]
