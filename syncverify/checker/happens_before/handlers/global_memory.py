"""Global memory in a run: flags between blocks, tracked data, tensor maps and dependent grids (SV5xx).

Data is tracked only where blocks synchronize with each other (``info.tracks_global``); elsewhere whether
global indices are disjoint is not the checker's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from syncverify.base.diagnostics import Severity
from syncverify.base.reason import Cause, Reason
from syncverify.checker.happens_before.event_flags import ACQUIRE, ONCE, RELEASE, STRONG, TAKE, UNSIGNED
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.handlers.accesses import access, mutually_atomic, only_entered
from syncverify.checker.happens_before.handlers.flag_order import (
    COMPARE,
    SHARED,
    covered,
    first_true,
    held_before,
    key_of,
    newest_known,
    ordered_before,
    undecided,
)
from syncverify.checker.happens_before.run import DONE, RETRY, LaneClass, Run, Unmodelled, scope_between
from syncverify.checker.happens_before.shadow import Record
from syncverify.checker.happens_before.vector_clocks import HW, E, H, Matrix, across_blocks, matrix
from syncverify.model.events import Event
from syncverify.model.proxies import Access, Scope


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
    reach: int = Scope.CTA  # the scope that it hands this on to
    after: int = 0  # how many writes of the flag, from the first on, come before it in every execution
    weak: bool = False  # a plain store: whoever waits meanwhile races with it
    covers: frozenset[int] = frozenset()  # writes of which nothing is released that this one does not release

    def behind(self, gone: int) -> Write:
        """The same where so many writes are forgotten."""
        covers = frozenset(n - gone for n in self.covers if n >= gone)
        return replace(self, after=max(self.after - gone, 0), covers=covers)


@dataclass(frozen=True, slots=True)
class Spin:
    """One passed spin: its condition, and how many writes it needed in this run; ``start``: how many lie
    before those that it may have read."""

    cls: int
    time: int
    site: int
    compare: str
    value: int
    seen: int
    scope: int = 0
    start: int = 0
    races: bool = False  # with a write of the flag, by its scope or size
    takes: bool = False  # a lock: what passes is an atomic
    unsigned: bool = False  # compares without a sign: what numbers below zero end is not followed
    once: bool = False  # a lock that nobody waits for, which other stores may free


@dataclass(slots=True, eq=False)
class Location:
    """A flag or counter. Workspaces in global memory are taken to be zero at launch; what shared memory
    holds at launch is not known."""

    value: int | None = 0
    writes: list[Write] = field(default_factory=list)
    waiting: list[LaneClass] = field(default_factory=list)
    spins: list[Spin] = field(default_factory=list)
    launch: int | None = 0  # what it holds at launch


def location(run: Run, fp: int) -> Location:
    f = run.info.footprints[fp]
    return _at(run, key_of(f.memory, f.intervals[0][0]))


def _at(run: Run, key: int) -> Location:
    at = run.locations.get(key)
    if at is None:
        held = 0 if key < SHARED else None
        at = run.locations[key] = Location(held, launch=held)
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
    """A synchronizing write: its release (or the fence before it) is there for acquirers (A5, A6). A weak one
    only leaves its value.

    ``added``: what each lane adds; None for a store.
    """
    weak = not flags & (STRONG | RELEASE)
    if not weak:
        t.syncs.append(t.time)
        run.signals.append((t.cls, t.time, site))
    places = _places(run, fp, t.n)
    every = t.n == 1 or (added is not None and len(places) == 1)
    full, reach = (None, Scope.CTA) if weak else release(run, t, site, flags, scope)
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
        order = ordered_before(run, t, at), weak, covered(at, full, reach=reach)
        at.writes.append(Write(t.cls, t.time, at.value, amount, past, site, lanes, full, reach, *order))
        for o in at.waiting:
            run.wake(o)
        at.waiting = []


def release(run: Run, t: LaneClass, site: int, flags: int, scope: int) -> tuple[Matrix | None, int]:
    """What a synchronizing write hands on, and to what scope."""
    full: Matrix | None = None
    reach = scope
    if flags & RELEASE:
        full = matrix(run.columns)
        t.clock.hand(full)
        across_blocks(full)
    elif t.release_fence is not None:
        full, reach = t.release_fence, min(scope, t.release_scope)
    if full is not None and reach < Scope.GPU:
        run.narrow[t.cls, -1] = fence_site(t, site, flags)
    return full, reach


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
        return {key_of(f.memory, f.intervals[0][0]): lanes}
    found: dict[int, int] = {}
    for lo, _, _ in f.lanes:
        key = key_of(f.memory, lo)
        found[key] = found.get(key, 0) + 1
    return found


def fence_site(t: LaneClass, site: int, flags: int) -> int:
    """Where the scope is written that turned out too narrow: the release itself, or the fence before it."""
    return site if flags & RELEASE or t.release_site < 0 else t.release_site


def on_spin(run: Run, t: LaneClass, event: Event) -> int:
    """Spins on a strong load until the comparison holds; acquires what the writes released."""
    _, site, fp, *_ = event
    early(run, t, site, reads=True)
    if fp < 0:
        raise Unmodelled("a spin on global memory that is not tracked", site)
    if location(run, fp).value is None:
        raise Unmodelled("the value that this spin waits for is not known", site)
    return wait_for(run, t, event)


def wait_for(run: Run, t: LaneClass, event: Event) -> int:
    """Blocks until the comparison with what a flag holds is true; acquires what the writes released, and has
    read the flag, or taken the lock."""
    _, site, fp, flags, scope, *_ = event
    at, takes = location(run, fp), bool(flags & TAKE)
    kind = Access.GENERIC_WRITE if takes else Access.GENERIC_READ
    r = Record(kind, t.cls, t.time, fp, site, atomic=True, scope=scope)
    start, races = newest_known(run, t, at), _races(run, t, r)
    forced = t.waits_on == ("forced",)  # after a hang
    answer = _wait(run, t, event, start, races=races)
    if answer == DONE and not forced:
        only_signals(run, fp, site, start)
        r.used = t.time
        if takes:
            access(run, t, r)
        else:
            only_entered(run, r)
    return answer


def _races(run: Run, t: LaneClass, record: Record) -> bool:
    """Whether a wait races with a write that is on record: the scope of one leaves out the other's thread, or
    one of them is weak, or they are of other bytes."""
    return any(
        t.clock.knows(H, w.cls, own_lane=w.cls == t.cls) < w.time
        and not mutually_atomic(run, w, record, lo, hi)
        for lo, hi, w in written(run, record.fp)
    )


def written(run: Run, fp: int) -> Iterator[tuple[int, int, Record]]:
    """The writes that are on record of a footprint's bytes."""
    f = run.info.footprints[fp]
    for lo, hi in f.intervals:
        for s in run.shadow(f.memory).overlapping(lo, hi):
            yield from ((s.lo, s.hi, r) for r in s.reads.values() if r.kind.writes)
            if s.write is not None:
                yield s.lo, s.hi, s.write


def _wait(run: Run, t: LaneClass, event: Event, start: int, *, races: bool) -> int:
    _, site, fp, flags, scope, compare, value = event
    at = location(run, fp)
    held = at.value
    if held is None or not COMPARE[compare](held, value) or (flags & UNSIGNED and held < 0):
        if run.after_hang and t.waits_on == ("forced",):
            t.waits_on = ()
            return DONE
        t.waits_on = ("spin", site, fp)
        at.waiting.append(t)
        return RETRY
    t.waits_on = ()
    if flags & TAKE and any(s.takes and s.value == value for s in at.spins):
        raise Unmodelled("a lock is taken twice in one turn, or by threads that nothing distinguishes", site)
    if held_before(at, start) is None:
        text = "what this wait finds first is not known: no store of the flag comes before it"
        raise undecided(text, site, shared=True)
    if flags & UNSIGNED and (held_before(at, start) or 0) < 0:
        text = "this wait first finds more than its bound, as a number without a sign: that is not followed"
        raise undecided(text, site, shared=True)
    t.syncs.append(t.time)
    seen = first_true(at, compare, value, start)
    takes = bool(flags & TAKE)
    how = races, takes, bool(flags & UNSIGNED), bool(flags & ONCE)
    at.spins.append(Spin(t.cls, t.time, site, compare, value, seen, scope, start, *how))
    for w in at.writes[start:seen]:
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
    need = scope_between(run, run.threads[w.cls].info.cta, t.info.cta)
    if need == Scope.CTA or min(w.reach, scope) >= need:
        hand_over(run, t, released, flags, need)
        return
    np.maximum(m[HW], released[HW], out=m[HW])
    if w.reach >= need:
        run.narrow[t.cls, -1] = site


def hand_over(run: Run, t: LaneClass, released: Matrix, flags: int, scope: int = Scope.GPU) -> None:
    """What a strong load of the scope that it takes hands to a thread; a relaxed one, to a fence after it."""
    if flags & ACQUIRE:
        np.maximum(t.clock.m[H:], released[H:], out=t.clock.m[H:])
        return
    if scope == Scope.CLUSTER:
        if t.acquirable_far is None:
            t.acquirable_far = np.zeros_like(released)
        np.maximum(t.acquirable_far, released, out=t.acquirable_far)
        return
    if t.acquirable is None:
        t.acquirable = np.zeros_like(released)
    np.maximum(t.acquirable, released, out=t.acquirable)
    run.spun[t.cls] = max(run.spun.get(t.cls, 0), scope)


def _launch_order(run: Run, t: LaneClass, w: Write, site: int) -> None:
    """O9: a block waits for lower-numbered ones, or all blocks run at once (a cooperative launch)."""
    mine, other = t.info.cta // run.info.ctas, run.threads[w.cls].info.cta // run.info.ctas
    if other > mine and not run.info.cooperative:
        raise Unmodelled(
            f"block {mine} waits for block {other}, which may not be running: launch cooperatively", site
        )


#: What a lock holds that something else than a taker has put there: no number of turns.
HELD_AT_FIRST = -1
_NOT_TAKEN = (
    "the threads cannot take this lock in the order that was tried: it is free, and nobody comes for it"
)


def check_stuck(run: Run) -> None:
    """A spin that never ends may be ended by something that is no write of a flag: then nothing is known."""
    for t in run.blocked():
        if t.waits_on[:1] != ("spin",) or t.event is None:
            continue
        at = location(run, t.event[2])
        if at.value is None:
            raise Unmodelled("the value that this spin waits for is not known", t.event[1])
        held = at.value == HELD_AT_FIRST or any(s.takes and s.value == at.value for s in at.spins)
        if t.event[3] & TAKE and (t.event[3] & ONCE or not held):
            raise Unmodelled(Reason(_NOT_TAKEN, Cause.LOCK_ORDER), t.event[1])
        only_signals(run, t.event[2], t.event[1])


def only_signals(run: Run, fp: int, site: int, start: int = 0) -> None:
    """Whether all writes of a flag that are on record are signals, but for those before the store that a wait
    surely comes after; ``start``: how many signals lie before what it may read."""
    writes = location(run, fp).writes
    known = {(w.cls, w.time) for w in writes}
    known |= {(s.cls, s.time) for s in location(run, fp).spins if s.takes}
    for _, _, r in written(run, fp):
        over = start > 0 and writes[start - 1].past[r.cls] >= r.time
        if not over and (r.cls, r.time) not in known:
            raise Unmodelled("a write that is no signal may end this spin", site)


# ------------------------------------------------------------------ bulk copies of global memory


def bulk_read(run: Run, t: LaneClass, site: int, fp: int, column: int, value: int) -> Record | None:
    """A bulk load's read of global memory, through the async proxy."""
    early(run, t, site, reads=True)
    if fp < 0:
        return None
    r = Record(Access.ASYNC_READ, t.cls, t.time, fp, site, tag=column, tag_value=value)
    access(run, t, r)
    return r


def bulk_write(
    run: Run, t: LaneClass, site: int, fp: int, column: int, number: int, reduction: bool, source: int
) -> Record | None:
    """A bulk store's or reduction's write of global memory, complete with its full group wait; None where its
    place is not known. ``source``: the footprint of what it brings."""
    early(run, t, site)
    if fp < 0:
        return None
    write = Record(
        Access.ASYNC_WRITE, t.cls, t.time, fp, site,
        tag=column, tag_value=number, atomic=reduction, scope=Scope.GPU, source=source,
    )  # fmt: skip
    access(run, t, write)
    return write


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
