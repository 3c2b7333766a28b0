"""What of an event a protocol speaks of. TRUSTED.

An event that means nothing to a protocol has no essence. What a protocol cannot express is an NotReadError.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from syncverify.model.events import Ev, Event

#: Events that order nothing between threads and touch no shared memory. A fence only ever adds order.
SILENT = frozenset(
    {
        Ev.FENCE, Ev.FRAG_READ, Ev.FRAG_WRITE, Ev.GRID_WAIT, Ev.GRID_LAUNCH,
    }
)  # fmt: skip
#: Accesses to global memory.
_GLOBAL = frozenset(
    {Ev.BULK_LOAD, Ev.BULK_STORE, Ev.CP_ASYNC, Ev.GLOBAL_READ, Ev.GLOBAL_WRITE, Ev.GLOBAL_ATOMIC, Ev.SPIN}
)
#: What a thread owes something for by itself (``alone``).
_OWN = _GLOBAL | {
    Ev.WGMMA, Ev.WGMMA_COMMIT, Ev.WGMMA_WAIT, Ev.WGMMA_FENCE, Ev.FRAG_READ, Ev.FRAG_WRITE, Ev.GRID_WAIT,
}  # fmt: skip


def essence(e: Event) -> Event | None:
    """The event without what no protocol speaks of; None for nothing at all."""
    if e[0] in SILENT or (e[0] in (Ev.GLOBAL_READ, Ev.GLOBAL_WRITE) and e[2] < 0 and not e[3]):
        return None
    if e[0] == Ev.WGMMA:
        return (Ev.WGMMA, e[1], e[3], e[5], e[7])
    if e[0] in (Ev.BULK_STORE, Ev.BULK_LOAD):
        return (e[0], e[1], e[2], e[3])
    return e


def own(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events of a way that a thread owes something for by itself, without their sites."""
    found = [(e[0],) if e[0] in _GLOBAL else (e[0], *e[2:]) for e in events if e[0] in _OWN]
    # an access to global memory like the one before it says nothing new
    return tuple(e for i, e in enumerate(found) if not i or len(e) > 1 or found[i - 1] != e)


def operand_key(e: Event) -> int:
    """What the warps of a warpgroup have to say alike of a wgmma, besides the bytes of B: its descriptors and
    whether it accumulates.
    """
    return int(e[8]) if len(e) > 8 else int(e[6])


__all__ = ["SILENT", "Any", "essence", "operand_key", "own"]
