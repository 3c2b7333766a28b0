"""What of an event a protocol speaks of. TRUSTED.

An event that means nothing to a protocol has no essence. What a protocol cannot express is an NotReadError.
"""

from __future__ import annotations

from typing import Any

from syncverify.model.events import Ev, Event

#: Events that order nothing between threads and touch no shared memory. A fence only ever adds order.
SILENT = frozenset(
    {
        Ev.FENCE, Ev.WGMMA_FENCE, Ev.FRAG_READ, Ev.FRAG_WRITE, Ev.GRID_WAIT, Ev.GRID_LAUNCH,
    }
)  # fmt: skip


def essence(e: Event) -> Event | None:
    """The event without what no protocol speaks of; None for nothing at all."""
    if e[0] in SILENT or (e[0] in (Ev.GLOBAL_READ, Ev.GLOBAL_WRITE) and e[2] < 0 and not e[3]):
        return None
    if e[0] == Ev.WGMMA:
        return (Ev.WGMMA, e[1], e[3], e[5])
    if e[0] == Ev.BULK_STORE:
        return (Ev.BULK_STORE, e[1], e[2])
    if e[0] == Ev.BULK_LOAD:
        return (Ev.BULK_LOAD, e[1], e[2])
    return e


__all__ = ["SILENT", "Any", "essence"]
