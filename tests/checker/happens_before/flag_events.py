"""Programs with flags as events: the checker's part that judges flags, without the front end."""

from __future__ import annotations

from syncverify.base.source import UNKNOWN_SPAN
from syncverify.checker.explain.counterexample import canonical
from syncverify.checker.happens_before.end_of_run import check_end
from syncverify.checker.happens_before.run import TooManyEvents, Unmodelled
from syncverify.checker.outcome import Budget
from syncverify.model.events import (
    END,
    GLOBAL_MEMORY,
    Ev,
    Event,
    Flag,
    Footprint,
    Site,
    SystemInfo,
    ThreadClass,
)
from syncverify.model.proxies import Scope
from tests.checker.happens_before.flag_model import Op
from tests.checker.happens_before.flag_programs import Program
from tests.fixtures.events import ListSystem

#: Bytes of the data, behind those of the flags.
_DATA = 64


def events(p: Program) -> ListSystem:
    """What the front end makes of a program's PTX: each thread a warp of one lane, or a block."""
    n = len(p.threads)
    blocks, shared = p.place == "blocks", p.place == "shared"
    flags_in, data_in = 0 if shared else GLOBAL_MEMORY, GLOBAL_MEMORY if blocks else 0
    footprints = [Footprint(flags_in, ((4 * k, 4 * k + 4),)) for k in range(2)]
    footprints += [Footprint(data_in, ((_DATA + 4 * k, _DATA + 4 * k + 4),)) for k in range(2)]
    lists = [
        [_event(op, p.place, 100 * (k + 1) + i) for i, op in enumerate(ops)]
        for k, ops in enumerate(p.threads)
    ]
    if shared:
        zeros: list[Event] = [(Ev.SIGNAL, 0, k, 0, int(Scope.GPU), "", 0) for k in range(2)]
        for k, ops in enumerate(lists):
            ops[:0] = [*(zeros if k == 0 else []), (Ev.BARRIER_SYNC, 0, 0, 32 * n, int(Flag.ALIGNED))]
    for ops in lists:
        ops.append((Ev.EXIT, 0))
    info = SystemInfo(
        name="flags", file="<flags>", values={}, block=(0, 0, 0), ctas=1, warps=1 if blocks else n,
        threads=32 if blocks else 32 * n, registers=None,
        classes=[ThreadClass(k if blocks else 0, 0 if blocks else k, 1) for k in range(n)],
        footprints=footprints, sites=[Site(UNKNOWN_SPAN, END)] * (100 * (n + 1)), cooperative=True,
        tracks_global=not shared, clusters=n if blocks else 1,
    )  # fmt: skip
    return ListSystem(info, lists)


def _event(op: Op, place: str, site: int) -> Event:
    scope = int(Scope.CTA if place == "shared" or op.narrow else Scope.GPU)
    strong = int(Flag.STRONG | (Flag.RELEASE if op.release else 0) | (Flag.ACQUIRE if op.acquire else 0))
    if op.kind == "fence":
        return (Ev.FENCE, site, int(Flag.ACQUIRE | Flag.RELEASE), scope)
    if op.kind in ("read", "write"):
        if place == "blocks":
            code = Ev.GLOBAL_READ if op.kind == "read" else Ev.GLOBAL_WRITE
            return (code, site, 2 + op.at, 0, int(Scope.GPU), *([] if op.kind == "read" else [None]))
        return (Ev.READ, site, 2 + op.at, -1) if op.kind == "read" else (Ev.WRITE, site, 2 + op.at)
    if op.kind == "wait":
        return (Ev.SPIN, site, op.at, strong, scope, op.compare, op.value)
    added = "add" if op.kind == "add" else ""
    flags, scope = (0, int(Scope.GPU)) if op.kind == "plain" else (strong, scope)
    if place == "shared":
        return (Ev.SIGNAL, site, op.at, flags, scope, added, op.value)
    if added:
        return (Ev.GLOBAL_ATOMIC, site, op.at, flags, scope, added, op.value)
    return (Ev.GLOBAL_WRITE, site, op.at, flags, scope, op.value)


def proved(p: Program) -> bool:
    """Whether the canonical run ends, breaks no obligation and leaves nothing undecided."""
    try:
        run, _ = canonical(events(p), Budget(), 32)
        check_end(run)
    except (Unmodelled, TooManyEvents):
        return False
    return not run.hung and not run.errors()


def hangs(p: Program) -> bool:
    """Whether even the canonical run does not end."""
    try:
        return canonical(events(p), Budget(), 32)[0].hung
    except (Unmodelled, TooManyEvents):
        return False


__all__ = ["events", "hangs", "proved"]
