"""Global memory in a run: flags between blocks, tracked data, tensor maps and dependent grids (SV5xx).

Data is tracked only where blocks synchronize with each other (``info.tracks_global``); elsewhere whether
global indices are disjoint is not the checker's business.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import numpy as np

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.event_flags import ACQUIRE, RELEASE, STRONG
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.handlers.accesses import access
from syncverify.checker.happens_before.run import DONE, RETRY, LaneClass, Run, Unmodelled
from syncverify.checker.happens_before.shadow import Record
from syncverify.checker.happens_before.vector_clocks import HW, E, H, Matrix, matrix
from syncverify.model.events import GLOBAL_MEMORY, Event
from syncverify.model.proxies import Access, Scope

COMPARE = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(slots=True, eq=False)
class Write:
    """One synchronizing write: the value it leaves, what it adds, and what happened before it."""

    cls: int
    time: int
    value: int | None
    added: int | None  # of an atomic add; None for a store
    past: Matrix
    site: int
    lanes: int
    released: Matrix | None = None  # what it hands on to those who acquire it
    wide: bool = False  # to other CTAs as well


@dataclass(frozen=True, slots=True)
class Spin:
    """One passed spin: its condition, and how many writes it needed in this run."""

    cls: int
    time: int
    site: int
    compare: str
    value: int
    seen: int
    scope: int = 0


@dataclass(slots=True, eq=False)
class Location:
    """A flag or counter in global memory. Workspaces are taken to be zero at launch."""

    value: int | None = 0
    writes: list[Write] = field(default_factory=list)
    waiting: list[LaneClass] = field(default_factory=list)
    spins: list[Spin] = field(default_factory=list)


def location(run: Run, fp: int) -> Location:
    return _at(run, run.info.footprints[fp].intervals[0][0])


def _at(run: Run, key: int) -> Location:
    at = run.locations.get(key)
    if at is None:
        at = run.locations[key] = Location()
    assert isinstance(at, Location)
    return at


def touch(run: Run, t: LaneClass, kind: Access, fp: int, site: int, atomic: bool, scope: int) -> None:
    """An access to global memory, where it is tracked."""
    early(run, t, site, reads=kind == Access.GENERIC_READ)
    if fp >= 0:
        r = Record(kind, t.cls, t.time, fp, site, atomic=atomic, scope=scope)
        r.used = t.time
        access(run, t, r)


# ------------------------------------------------------------------ reads, writes, atomics


def on_read(run: Run, t: LaneClass, event: Event) -> int:
    _, site, fp, flags, scope = event
    if fp >= 0 and flags & ACQUIRE:
        raise Unmodelled(
            "control or data may depend on one acquire load of a flag; only spins are analysed", site
        )
    touch(run, t, Access.GENERIC_READ, fp, site, bool(flags & STRONG), scope)
    return DONE


def on_write(run: Run, t: LaneClass, event: Event) -> int:
    _, site, fp, flags, scope, value = event
    strong = bool(flags & (STRONG | RELEASE))
    touch(run, t, Access.GENERIC_WRITE, fp, site, strong, scope)
    if fp >= 0 and strong:
        signal(run, t, site, fp, flags, scope, value, None)
    return DONE


def on_atomic(run: Run, t: LaneClass, event: Event) -> int:
    """A strong read-modify-write (PTX ISA: atom, red); as a semaphore it adds."""
    _, site, fp, flags, scope, op, value = event
    touch(run, t, Access.GENERIC_WRITE, fp, site, True, scope)
    if fp >= 0 and flags & (STRONG | RELEASE):
        signal(run, t, site, fp, flags, scope, None, None if op != "add" else value)
    return DONE


def signal(
    run: Run, t: LaneClass, site: int, fp: int, flags: int, scope: int, value: int | None, added: int | None
) -> None:
    """A synchronizing write: its release (or the fence before it) is there for acquirers (A5, A6).

    ``added``: what each lane adds; None for a store.
    """
    t.syncs.append(t.time)
    run.signals.append((t.cls, t.time, site))
    places = _places(run, fp, t.n)
    every = t.n == 1 or (added is not None and len(places) == 1)
    full, wide = release(run, t, site, flags, scope)
    past = t.clock.past()
    if not every:
        full, past = of_any_lane(t, full), t.clock.m[E].copy()
    for key, lanes in places.items():
        at = _at(run, key)
        if added is not None:
            at.value = None if at.value is None else at.value + added * lanes
        else:
            at.value = value
        amount = None if added is None else added * lanes
        at.writes.append(Write(t.cls, t.time, at.value, amount, past, site, lanes, full, wide))
        for o in at.waiting:
            run.wake(o)
        at.waiting = []


def release(run: Run, t: LaneClass, site: int, flags: int, scope: int) -> tuple[Matrix | None, bool]:
    """What a synchronizing write hands on, and whether to other CTAs as well."""
    full: Matrix | None = None
    width = scope
    if flags & RELEASE:
        full = matrix(run.columns)
        t.clock.hand(full)
    elif t.release_fence is not None:
        full, width = t.release_fence, min(scope, t.release_scope)
    wide = full is not None and width >= Scope.GPU
    if full is not None and not wide:
        run.narrow[t.cls, -1] = fence_site(t, site, flags)
    return full, wide


def of_any_lane(t: LaneClass, full: Matrix | None) -> Matrix | None:
    """What the write of one lane of a class hands on of ``full``, which all of them do together: what that
    lane knows of the others, not what they have done meanwhile.

    Lanes that have met since a fence say nothing of when they met before it.
    """
    if full is None:
        return None
    found = full.copy()
    for column in t.clock.own:
        met = t.clock.m[:, column]
        found[:, column] = np.where(met <= full[:, column], met, 0)
    return found


def _places(run: Run, fp: int, lanes: int) -> dict[int, int]:
    """The locations of a footprint, and how many lanes write each."""
    f = run.info.footprints[fp]
    if not f.lanes:
        return {f.intervals[0][0]: lanes}
    found: dict[int, int] = {}
    for lo, _, _ in f.lanes:
        found[lo] = found.get(lo, 0) + 1
    return found


def fence_site(t: LaneClass, site: int, flags: int) -> int:
    """Where the scope is written that turned out too narrow: the release itself, or the fence before it."""
    return site if flags & RELEASE or t.release_site < 0 else t.release_site


def on_spin(run: Run, t: LaneClass, event: Event) -> int:
    """Spins on a strong load until the comparison holds; acquires what the writes released."""
    _, site, fp, flags, scope, compare, value = event
    early(run, t, site, reads=True)
    if fp < 0:
        raise Unmodelled("a spin on global memory that is not tracked", site)
    at = location(run, fp)
    if at.value is None:
        raise Unmodelled("the value that this spin waits for is not known", site)
    if not COMPARE[compare](at.value, value):
        if run.after_hang and t.waits_on == ("forced",):
            t.waits_on = ()
            return DONE
        t.waits_on = ("spin", site, fp)
        at.waiting.append(t)
        return RETRY
    t.waits_on = ()
    t.syncs.append(t.time)
    seen = first_true(at, compare, value)
    at.spins.append(Spin(t.cls, t.time, site, compare, value, seen, scope))
    for w in at.writes[:seen]:
        if w.added is not None or w is at.writes[seen - 1]:
            np.maximum(t.clock.m[E], w.past, out=t.clock.m[E])
            acquire(run, t, w, scope, site, flags)
        _launch_order(run, t, w, site)
    return DONE


def acquire(run: Run, t: LaneClass, w: Write, scope: int, site: int, flags: int) -> None:
    """What a release hands to an acquire: both scopes must contain the other thread (A3, A10).

    A relaxed load acquires nothing, and only a fence after it does (A5).
    """
    m, released = t.clock.m, w.released
    if released is None:
        return
    inside = run.threads[w.cls].info.cta == t.info.cta
    if inside or (w.wide and scope >= Scope.GPU):
        hand_over(run, t, released, flags, Scope.CTA if inside else Scope.GPU)
        return
    np.maximum(m[HW], released[HW], out=m[HW])
    if w.wide:
        run.narrow[t.cls, -1] = site


def hand_over(run: Run, t: LaneClass, released: Matrix, flags: int, scope: int = Scope.GPU) -> None:
    """What a strong load of the scope that it takes hands to a thread; a relaxed one, to a fence after it."""
    if flags & ACQUIRE:
        np.maximum(t.clock.m[H:], released[H:], out=t.clock.m[H:])
        return
    if t.acquirable is None:
        t.acquirable = np.zeros_like(released)
    np.maximum(t.acquirable, released, out=t.acquirable)
    run.spun[t.cls] = scope


def first_true(at: Location, compare: str, value: int) -> int:
    """How many writes the condition needed in this run."""
    if COMPARE[compare](0, value):
        return 0
    for i, w in enumerate(at.writes):
        if w.value is not None and COMPARE[compare](w.value, value):
            return i + 1
    return len(at.writes)


def _launch_order(run: Run, t: LaneClass, w: Write, site: int) -> None:
    """O9: a block waits for lower-numbered ones, or all blocks run at once (a cooperative launch)."""
    mine, other = t.info.cta // run.info.ctas, run.threads[w.cls].info.cta // run.info.ctas
    if other > mine and not run.info.cooperative:
        raise Unmodelled(
            f"block {mine} waits for block {other}, which may not be running: launch cooperatively", site
        )


def check_stuck(run: Run) -> None:
    """A spin that never ends may be ended by something that is no write of a flag: then nothing is known."""
    for t in run.blocked():
        if t.waits_on[:1] != ("spin",) or t.event is None:
            continue
        fp = run.info.footprints[t.event[2]]
        at = location(run, t.event[2])
        known = {(w.cls, w.time) for w in at.writes}
        for lo, hi in fp.intervals:
            for s in run.shadow(GLOBAL_MEMORY).overlapping(lo, hi):
                if s.write is not None and (s.write.cls, s.write.time) not in known:
                    raise Unmodelled("a write that is no signal may end this spin", t.event[1])


def check_spins(run: Run) -> None:
    """The writes a spin was joined with must be the ones it needs in every execution (O1 to O3 for flags)."""
    for at in run.locations.values():
        for spin in at.spins:
            if spin.seen and not decided(at, spin):
                raise Unmodelled(
                    "several writes may end this spin: which one comes first is not decided", spin.site
                )


def decided(at: Location, spin: Spin) -> bool:
    """Whether the spin ends by the same writes in every execution."""
    early = [w for w in at.writes if w.past[spin.cls] < spin.time]  # those that need not wait for the spin
    if all(w.added is not None for w in early):
        return _sum_decided(at, spin, early)
    last = at.writes[spin.seen - 1]
    holds = COMPARE[spin.compare]
    for i, w in enumerate(at.writes):
        satisfies = w.value is not None and holds(w.value, spin.value)
        later = w.past[spin.cls] >= spin.time or (i >= spin.seen and bool(w.past[last.cls] >= last.time))
        if w is not last and satisfies and not later:
            return False
        if w.added is not None and w in early:
            return False  # adds and stores mix: the value depends on their order
        if i >= spin.seen and not satisfies and w in early:
            return False  # it may overwrite the value before the spin looks
    return True


def _sum_decided(at: Location, spin: Spin, early: list[Write]) -> bool:
    """A counter: every add the spin was joined with, each lane of it, is needed for the value."""
    compare = ">" if (spin.compare, spin.value) == ("!=", 0) else spin.compare  # it was 0, and only grows
    holds = COMPARE[compare]
    if compare not in (">=", ">", "==") or any((w.added or 0) < 0 for w in early):
        return False
    if compare == "==" and sum(w.added or 0 for w in early) != spin.value:
        return False  # it may be passed over
    for w in at.writes[: spin.seen]:
        others = sum(o.added or 0 for o in early if o is not w and o.past[w.cls] < w.time)
        own = w.added or 0
        if holds(others + own - own // w.lanes, spin.value):
            return False
    return True


# ------------------------------------------------------------------ bulk copies of global memory


def bulk_read(run: Run, t: LaneClass, site: int, fp: int, column: int, value: int) -> Record | None:
    """A bulk load's read of global memory, through the async proxy."""
    early(run, t, site, reads=True)
    if fp < 0:
        return None
    r = Record(Access.ASYNC_READ, t.cls, t.time, fp, site, tag=column, tag_value=value)
    access(run, t, r)
    return r


def bulk_write(run: Run, t: LaneClass, site: int, fp: int, column: int, number: int, reduction: bool) -> None:
    """A bulk store's or reduction's write of global memory, complete with its full group wait."""
    early(run, t, site)
    if fp >= 0:
        access(
            run,
            t,
            Record(
                Access.ASYNC_WRITE,
                t.cls,
                t.time,
                fp,
                site,
                tag=column,
                tag_value=number,
                atomic=reduction,
                scope=Scope.GPU,
            ),
        )


# ------------------------------------------------------------------ dependent grids


def early(run: Run, t: LaneClass, site: int, *, reads: bool = False) -> None:
    """Remembers a global access before griddepcontrol.wait is known (PTX ISA: griddepcontrol)."""
    if reads and run.info.reads_only_inputs is not None and run.info.reads_only_inputs(site):
        return
    lenient = reads and run.info.assumes_inputs
    known = run.early.get(t.cls)
    sooner = run.info.dependent_launch and not run.all_waited
    if not sooner or (known is not None and (lenient or not known[3])):
        return
    row = t.clock.past()
    if not any(row[c] >= time for c, time in run.grid_waits):
        run.early[t.cls] = (t.time, site, len(run.trace), lenient)


def on_grid_wait(run: Run, t: LaneClass, event: Event) -> int:
    """Once all have waited, nobody can be too early, and no wait has to be remembered."""
    if not run.all_waited:
        run.grid_waits.append((t.cls, t.time))
        if {cls for cls, _ in run.grid_waits} == {x.cls for x in run.threads}:
            run.all_waited = True
            run.grid_waits.clear()
    return DONE


def forget_waits(run: Run) -> None:
    """Forgets the waits for the grid before once whoever still runs knows of one: then nobody is early."""
    live = [t.clock.past() for t in run.threads if not t.done] if run.grid_waits else []
    if live and all(any(row[c] >= time for c, time in run.grid_waits) for row in live):
        run.all_waited = True
        run.grid_waits.clear()


def check_early(run: Run) -> None:
    """A kernel that waits for the grid before it, or has to, must not touch global memory sooner (E70).

    What it reads sooner may be known to be no output of that grid: then that is assumed, and said.
    """
    if not (run.grid_waits or run.all_waited or run.info.has_to_wait):
        return
    order = sorted(run.early.items(), key=lambda x: (x[1][3], x[1][2]))
    for cls, (_, site, position, lenient) in order[:1]:
        text = "global memory is accessed before griddep.wait: the grid before may still be writing it"
        condition = "the grid before leaves it alone" if lenient else None
        if lenient:
            text = f"global memory is read before griddep.wait: right only if {condition}"
        f = run.report(
            Obligation.UB,
            "SV503",
            text,
            run.threads[cls],
            site,
            fix="move griddep.wait before it",
            severity=Severity.WARNING if lenient else Severity.ERROR,
            strict_only=lenient,
            condition=condition,
        )
        f.position = position
