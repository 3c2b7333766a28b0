"""mbarriers in a run: contributions, waits, phases, and the obligations O1 to O5 that they carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syncverify.checker.clocks import AG, HW, INHERITED, SA, SH, A, Columns, E, H, Matrix, matrix
from syncverify.checker.engine import DONE, RETRY, Async, Run, Thread
from syncverify.checker.failure import Obligation
from syncverify.checker.flags import CLUSTER, DROP, NO_COMPLETE, RELAXED
from syncverify.diagnostics import Severity
from syncverify.model.automata.mbarrier import LIMIT, Mbarrier
from syncverify.model.events import Event
from syncverify.model.proxies import Scope

#: ``Async.number`` of cp.async arrivals, which witnesses do not number: the form that counts, the net-zero one.
NOINC, NET_ZERO = -1, -2


@dataclass(slots=True, eq=False)
class Expect:
    """An announcement of bytes (or of a pending arrival) and who made it when."""

    cls: int
    time: int
    bytes: int
    site: int
    past: Matrix


class Phase:
    """What one phase has gathered: released knowledge, enablement, and its bookkeeping."""

    __slots__ = (
        "again",
        "arrived",
        "asynchronous",
        "completions",
        "con",
        "drained",
        "expects",
        "far",
        "m",
        "remote",
        "sites",
        "sum_complete",
        "sum_expect",
        "tx",
        "waited",
    )

    def __init__(self, columns: Columns) -> None:
        self.m = matrix(columns)  # E: of arrivals only until the phase closes, then of every contribution
        self.tx = np.zeros(columns.capacity, dtype=np.int32)  # E of expects and completions
        self.far: Matrix | None = None  # what only cluster-scope waits receive
        self.con: dict[int, int] = {}
        self.asynchronous = False
        self.expects: list[Expect] = []
        self.completions: list[tuple[int, Matrix, int, int]] = []  # bytes, E at issue, site, lanes
        self.sum_expect = 0
        self.sum_complete = 0
        self.arrived: dict[int, int] = {}  # class -> arrivals
        self.sites: dict[int, int] = {}  # site -> arrivals
        self.drained = False
        self.waited = False
        self.remote = False
        self.again: tuple[int, int, int] | None = (
            None  # a class that arrived a second time: class, time, site
        )


@dataclass(slots=True, eq=False)
class Barrier:
    """An mbarrier of a run. ``phases`` holds the open phase and the three before it, newest first."""

    index: int
    column: int
    auto: Mbarrier
    phases: list[Phase]
    init_cls: int = -1
    init_time: int = 0
    init_site: int = -1
    inits: int = 0
    inval_site: int = -1
    ready: set[int] = field(default_factory=set)
    waits: dict[int, tuple[int, int, Matrix]] = field(default_factory=dict)  # class -> time, site, E
    blocked: list[Thread] = field(default_factory=list)
    last_use: dict[int, tuple[int, int]] = field(default_factory=dict)
    async_phase: int = -1  # last phase with a completion
    touched: list[tuple[int, int, int, int]] = field(default_factory=list)  # class, time, site, position
    last_position: int = 0  # in the trace, of its newest use
    bytes_expected: int = 0
    bytes_completed: int = 0
    copies: int = 0
    no_complete: bool = False  # an arrive.noComplete was used
    net_zero: int = 0  # cp.async arrivals of the default form
    arrivals: dict[int, int] = field(default_factory=dict)  # site -> arrivals over the whole run
    expect_sites: dict[int, int] = field(default_factory=dict)
    waiters: set[int] = field(default_factory=set)  # sites of waits
    last_waited: int = -2  # newest phase that a passed wait means
    final_waits: dict[int, int] = field(default_factory=dict)  # who waited for it, when
    last_tx: int = -1  # newest phase with bytes
    lanes: dict[int, int] = field(default_factory=dict)  # class -> arrivals per event


def barrier(run: Run, b: int) -> Barrier:
    """The state of a barrier, dead until its init."""
    state = run.barriers.get(b)
    if state is None:
        column = run.columns.of("bar", b)
        state = run.barriers[b] = Barrier(b, column, Mbarrier(), [Phase(run.columns)])
    assert isinstance(state, Barrier)
    return state


def name(run: Run, b: int) -> str:
    """The barrier's name in reports."""
    info = run.info.barriers[b]
    return info.name if run.info.ctas == 1 else f"{info.name} of cta{info.cta}"


# ------------------------------------------------------------------ lifetime


def use(run: Run, t: Thread, s: Barrier, site: int) -> bool:
    """O5: the barrier is alive and its init is known here; false if it is dead."""
    s.last_use[t.cls] = (t.time, site)
    s.last_position = len(run.trace)
    if not s.auto.live:
        if s.inits:
            run.report(
                Obligation.O5,
                "SV205",
                f"{name(run, s.index)} is used after its invalidation",
                t,
                site,
                barrier=s.index,
                labels=[(s.inval_site, "invalidated here")],
            )
        else:
            run.report(
                Obligation.O5,
                "SV204",
                f"{name(run, s.index)} is used before any init",
                t,
                site,
                barrier=s.index,
            )
        return False
    if t.cls not in s.ready:
        s.ready.add(t.cls)
        if not init_known(run, t, s):
            run.report(
                Obligation.O5,
                "SV204",
                f"the init of {name(run, s.index)} is not ordered before this use",
                t,
                site,
                barrier=s.index,
                past=t.clock.past(),
                labels=[(s.init_site, "initialized here")],
            )
    remote = run.info.barriers[s.index].cta != t.info.cta
    if remote:
        run.remote_uses[t.cls, run.info.barriers[s.index].cta] = (t.time, site, before(t))
    return True


def init_known(run: Run, t: Thread, s: Barrier) -> bool:
    """Init is a generic write by one thread; fence.mbarrier_init lets a relaxed cluster barrier carry it."""
    if t.clock.knows(H, s.init_cls, s.init_cls == t.cls and t.n == 1) >= s.init_time:
        return True
    return t.clock.knows(H, run.columns.of("init", s.init_cls), s.init_cls == t.cls) >= s.init_time


def on_init(run: Run, t: Thread, event: Event) -> int:
    _, site, b, count = event
    s = barrier(run, b)
    if s.auto.live:
        run.report(
            Obligation.O5,
            "SV205",
            f"{name(run, b)} is initialized again while it is alive",
            t,
            site,
            barrier=b,
            labels=[(s.init_site, "initialized here")],
            fix="mbarrier.inval before it",
        )
    if not 1 <= count <= LIMIT:
        run.report(
            Obligation.UB,
            "SV202",
            f"count {count} of {name(run, b)} is outside 1..{LIMIT}",
            t,
            site,
            barrier=b,
        )
    if t.n > 1:
        run.report(Obligation.UB, "SV205", f"{t.n} threads initialize {name(run, b)}", t, site, barrier=b)
    s.auto.init(count)
    s.phases = [Phase(run.columns)]
    s.init_cls, s.init_time, s.init_site = t.cls, t.time, site
    s.inits += 1
    s.ready = set()
    s.last_use = {}
    s.waits = {}
    s.async_phase = -1
    return DONE


def on_inval(run: Run, t: Thread, event: Event) -> int:
    """Every use must be over, in every execution, before the bytes may be reused (PTX ISA: mbarrier.inval)."""
    _, site, b = event
    s = barrier(run, b)
    if not s.auto.live:
        why = "is invalidated twice" if s.inits else "is invalidated before any init"
        run.report(
            Obligation.O5, "SV205" if s.inits else "SV204", f"{name(run, b)} {why}", t, site, barrier=b
        )
        return DONE
    late = [(c, u) for c, u in s.last_use.items() if t.clock.knows(E, c, c == t.cls and t.n == 1) < u[0]]
    if late or (s.async_phase >= 0 and t.clock.m[E, s.column] <= s.async_phase):
        where = late[0][1][1] if late else s.init_site
        run.report(
            Obligation.O5,
            "SV205",
            f"{name(run, b)} is invalidated while other threads may still use it",
            t,
            site,
            barrier=b,
            past=t.clock.past(),
            labels=[(where, "not ordered before the invalidation")],
            fix="put a barrier of all its users before the invalidation",
        )
    s.auto.inval()
    s.inval_site = site
    return DONE


def on_init_fence(run: Run, t: Thread, event: Event) -> int:
    """fence.mbarrier_init releases this thread's own earlier inits (PTX ISA: fence; B24)."""
    column = run.columns.of("init", t.cls)
    v = t.clock.owns(column)
    v[E : HW + 1] = t.time
    return DONE


# ------------------------------------------------------------------ contributions


def knows_phase(t: Thread, s: Barrier, k: int) -> bool:
    """Whether the completion of phase ``k`` is in every past of this point (THEORY: knows(E, b, k))."""
    if k < 0 or t.clock.m[E, s.column] > k:
        return True
    back = s.auto.phase - k
    if back >= len(s.phases):
        return False
    p = s.phases[back]
    if p.asynchronous:
        return False
    row = t.clock.m[E]
    return all(row[c] >= time for c, time in p.con.items())


def past_knows_phase(past: Matrix, s: Barrier, k: int) -> bool:
    """The same for the issue point of an asynchronous operation."""
    if k < 0 or past[s.column] > k:
        return True
    back = s.auto.phase - k
    if back >= len(s.phases) or s.phases[back].asynchronous:
        return False
    return all(past[c] >= time for c, time in s.phases[back].con.items())


def contribute(run: Run, t: Thread, s: Barrier, site: int, what: str) -> Phase:
    """O1 for a thread's contribution to the open phase, which it enters."""
    k = s.auto.phase
    if k >= 1 and not knows_phase(t, s, k - 1):
        previous = s.phases[1].con if len(s.phases) > 1 else {}
        again = previous.get(t.cls, t.time) < t.time and what != "cp"
        merged = s.phases[1].again if len(s.phases) > 1 else None
        f = run.report(
            Obligation.O1,
            "SV206" if again else "SV202",
            f"this {_CONTRIBUTION[what]} lands in phase {k} of {name(run, s.index)}, but nothing makes sure that "
            f"phase {k - 1} is complete",
            t,
            site,
            barrier=s.index,
            phase=k,
            past=before(t),
        )
        f.again = merged
    p = s.phases[0]
    if k >= 1 and what == "arrive":
        unobserved(run, t, s, site, k)
    if what != "arrive":
        s.last_tx = k
    elif p.con.get(t.cls, t.time) < t.time and p.again is None:
        p.again = (t.cls, t.time, site)
    p.con[t.cls] = t.time
    return p


def unobserved(run: Run, t: Thread, s: Barrier, site: int, k: int) -> None:
    """Strict: some wait for phase k - 1 precedes every arrival of phase k (B20, K14)."""
    row = t.clock.m[E]
    if any(row[c] >= w[0] for c, w in s.waits.items()):
        return
    run.report(
        Obligation.O1,
        "SV207",
        f"nobody has waited for phase {k - 1} of {name(run, s.index)} before this arrival of phase {k}",
        t,
        site,
        barrier=s.index,
        phase=k,
        severity=Severity.WARNING,
        contested="K14",
        strict_only=True,
    )


_CONTRIBUTION = {
    "arrive": "arrival",
    "expect": "expect-tx",
    "complete": "complete-tx",
    "cp": "cp.async arrival",
}


def before(t: Thread) -> Matrix:
    """E just before the event that ``t`` executes now."""
    v = t.clock.past()
    v[t.cls] = t.time - 1
    return v


def release(run: Run, t: Thread, s: Barrier, p: Phase, flags: int, site: int) -> None:
    """Hands on what an arrival releases; a relaxed one enables but publishes nothing (PTX ISA: mbarrier.arrive)."""
    cta = run.info.barriers[s.index].cta
    local = cta == t.info.cta
    if flags & RELAXED:
        t.clock.hand_row(E, p.m[E])
        if t.release_fence is None:
            return
        full, wide = t.release_fence, t.release_scope >= Scope.CLUSTER  # fence, then relaxed arrive (A5)
        if local:
            np.maximum(p.m, full, out=p.m)
            return
    elif local:
        t.clock.hand(p.m)
        return
    else:
        full, wide = matrix(run.columns), bool(flags & CLUSTER)
        t.clock.hand(full)
    p.remote = True
    if p.far is None:
        p.far = matrix(run.columns)
    if wide:
        np.maximum(p.far, full, out=p.far)
    else:
        run.narrow[t.cls, cta] = site
    np.maximum(p.m, narrowed(run, full), out=p.m)


def narrowed(run: Run, full: Matrix) -> Matrix:
    """What crosses CTAs at cta scope: enablement, and in practical mode completed async accesses only (K4)."""
    part = full.copy()
    part[H, : run.columns.classes] = 0
    part[A] = part[AG] = part[SH] = part[SA] = 0
    return part


def over_arrival(run: Run, t: Thread, s: Barrier, site: int) -> None:
    run.report(
        Obligation.OVERFLOW,
        "SV202",
        f"an arrival on {name(run, s.index)} finds no arrival pending while bytes are outstanding "
        f"(phase {s.auto.phase}, count {s.auto.count})",
        t,
        site,
        barrier=s.index,
        phase=s.auto.phase,
    )


def on_arrive(run: Run, t: Thread, event: Event) -> int:
    _, site, b, count, nbytes, flags = event
    s = barrier(run, b)
    t.syncs.append(t.time)
    if not use(run, t, s, site):
        return DONE
    t.answer = s.auto.phase
    s.lanes[t.cls] = max(s.lanes.get(t.cls, 0), count * t.n)
    if nbytes >= 0 and t.n > 1:
        for _ in range(t.n):  # each lane announces, then arrives: the phase may end between two lanes
            expect(run, t, s, site, nbytes)
            arrive(run, t, s, site, count, flags)
        return DONE
    if nbytes >= 0:
        expect(run, t, s, site, nbytes)
    arrive(run, t, s, site, count * t.n, flags)
    return DONE


def arrive(run: Run, t: Thread, s: Barrier, site: int, n: int, flags: int) -> None:
    """``n`` arrivals; those beyond the pending count go to the next phase."""
    s.arrivals[site] = s.arrivals.get(site, 0) + n
    s.lanes[t.cls] = max(s.lanes.get(t.cls, 0), n)
    run.contributors.setdefault(("wait", s.index), set()).add(t.cls)
    while n > 0:
        if s.auto.pending == 0:
            over_arrival(run, t, s, site)
            return
        p = contribute(run, t, s, site, "arrive")
        take = min(n, s.auto.pending)
        release(run, t, s, p, flags, site)
        p.arrived[t.cls] = p.arrived.get(t.cls, 0) + take
        p.sites[site] = p.sites.get(site, 0) + take
        s.no_complete |= bool(flags & NO_COMPLETE)
        if flags & NO_COMPLETE and take == s.auto.pending and s.auto.tx == 0:
            run.report(
                Obligation.UB,
                "SV202",
                f"arrive.noComplete completes phase {s.auto.phase} of {name(run, s.index)}",
                t,
                site,
                barrier=s.index,
            )
        if s.auto.arrive(take, bool(flags & DROP)):
            close(run, s, t.cls, t.time, site)
        elif s.auto.pending == 0:
            drained(run, s, site)
        n -= take


def expect(run: Run, t: Thread, s: Barrier, site: int, nbytes: int) -> None:
    """The expect-tx operation: a relaxed contribution that never completes a phase."""
    p = contribute(run, t, s, site, "expect")
    t.clock.hand_row(E, p.tx)
    s.auto.expect(nbytes)
    s.bytes_expected += nbytes
    s.expect_sites[site] = s.expect_sites.get(site, 0) + 1
    p.sum_expect += nbytes
    p.expects.append(Expect(t.cls, t.time, nbytes, site, before(t)))
    check_range(run, t, s, p, site)


def check_range(run: Run, t: Thread, s: Barrier, p: Phase, site: int) -> None:
    """O4 (c): the transaction count stays in range in every order (PTX ISA: tx-count)."""
    if abs(s.auto.tx) > LIMIT or max(p.sum_expect, p.sum_complete) > LIMIT:
        run.report(
            Obligation.OVERFLOW,
            "SV203",
            f"the transaction count of {name(run, s.index)} exceeds {LIMIT}",
            t,
            site,
            barrier=s.index,
            phase=s.auto.phase,
        )


def on_expect_tx(run: Run, t: Thread, event: Event) -> int:
    _, site, b, nbytes = event
    s = barrier(run, b)
    if use(run, t, s, site):
        expect(run, t, s, site, nbytes * t.n)
    return DONE


def on_complete_tx(run: Run, t: Thread, event: Event) -> int:
    """complete_tx by a thread: counts bytes as a copy would (PTX ISA: mbarrier.complete_tx)."""
    _, site, b, nbytes = event
    s = barrier(run, b)
    if use(run, t, s, site):
        p = contribute(run, t, s, site, "complete")
        t.clock.hand_row(E, p.tx)
        landed(run, s, p, nbytes * t.n, t.clock.past(), site, t)
    return DONE


def land(run: Run, op: Async) -> None:
    """A copy's completion: one contribution per target barrier, judged by the knowledge at its issue."""
    t = op.thread
    for b, nbytes, record in op.targets:
        if b < 0:  # the source of a copy to another CTA: known with the write that came before it in the list
            assert record is not None
            record.tag_value = op.records[-1].tag_value
            continue
        s = barrier(run, b)
        s.copies += 1
        if not s.auto.live:
            run.report(
                Obligation.O5,
                "SV205" if s.inits else "SV204",
                f"a copy completes on {name(run, b)}, which is not alive",
                t,
                op.site,
                barrier=b,
            )
            continue
        k = s.auto.phase
        s.last_tx = k
        run.contributors.setdefault(("wait", b), set()).add(t.cls)
        if k >= 1 and not past_knows_phase(op.past, s, k - 1):
            run.report(
                Obligation.O1,
                "SV203",
                f"this copy may complete in phase {k} or {k - 1} of {name(run, b)}",
                t,
                op.site,
                barrier=b,
                phase=k,
                past=op.past,
            )
        p = s.phases[0]
        np.maximum(p.tx, op.past, out=p.tx)
        p.asynchronous = True
        s.async_phase = k
        op.landed.append((s.column, k + 1))
        if record is not None:
            record.tag_value = k + 1
        landed(run, s, p, nbytes, op.past, op.site, t)
    if op.arrivals:
        _land_arrival(run, op)
    if not op.landed:
        op.landed = [(r.tag, r.tag_value) for r in op.records]


def _land_arrival(run: Run, op: Async) -> None:
    """cp.async.mbarrier.arrive triggers: carries the copies before it, nothing else (PTX ISA; B32)."""
    b, n = op.arrivals >> 32, op.arrivals & 0xFFFFFFFF
    s = barrier(run, b)
    if not s.auto.live:
        run.report(
            Obligation.O5,
            "SV205",
            f"a cp.async arrival meets {name(run, b)} after its end",
            op.thread,
            op.site,
        )
        return
    column, value = op.covers
    s.arrivals[op.site] = s.arrivals.get(op.site, 0) + n
    if op.number == NOINC:
        s.lanes[-1 - op.thread.cls] = n  # beside what the class's plain arrivals count
    run.contributors.setdefault(("wait", b), set()).add(op.thread.cls)
    while n > 0:
        k = s.auto.phase
        if s.auto.pending == 0:
            over_arrival(run, op.thread, s, op.site)
            return
        if k >= 1 and not past_knows_phase(op.past, s, k - 1):
            run.report(
                Obligation.O1,
                "SV202",
                f"this cp.async arrival may land in phase {k} or {k - 1} of {name(run, b)}",
                op.thread,
                op.site,
                barrier=b,
                phase=k,
                past=op.past,
            )
        p = s.phases[0]
        np.maximum(p.m[E], op.past, out=p.m[E])
        p.m[H : HW + 1, column] = np.maximum(p.m[H : HW + 1, column], value)
        p.asynchronous = True
        s.async_phase = k
        op.landed.append((s.column, k + 1))
        take = min(n, s.auto.pending)
        p.arrived[op.thread.cls] = p.arrived.get(op.thread.cls, 0) + take
        if s.auto.arrive(take):
            close(run, s, op.thread.cls, op.thread.time, op.site)
        elif s.auto.pending == 0:
            drained(run, s, op.site)
        n -= take


def landed(run: Run, s: Barrier, p: Phase, nbytes: int, past: Matrix, site: int, t: Thread) -> None:
    """Bytes count down; the phase may end."""
    s.bytes_completed += nbytes
    p.sum_complete += nbytes
    p.completions.append((nbytes, past, site, t.n))
    check_range(run, t, s, p, site)
    if s.auto.complete_tx(nbytes):
        close(run, s, t.cls, t.time, site)


# ------------------------------------------------------------------ phases end


def drained(run: Run, s: Barrier, site: int) -> None:
    """The last arrival came while bytes are outstanding."""
    s.phases[0].drained = True


def check_accounting(run: Run, s: Barrier, p: Phase, k: int) -> None:
    """O4 (a): every expect precedes some arrival of its phase, or the phase is held open meanwhile."""
    arrivals = p.m[E]
    for e in p.expects:
        if arrivals[e.cls] >= e.time:
            continue
        held = sum(o.bytes for o in p.expects if arrivals[o.cls] >= o.time)
        spent = sum(n for n, past, _, _ in p.completions if past[e.cls] < e.time)
        if held > spent:
            continue
        t = run.threads[e.cls]
        f = run.report(
            Obligation.O4,
            "SV206",
            f"phase {k} of {name(run, s.index)} can complete before these {e.bytes} bytes are announced: no arrival "
            "of the phase comes after the expect-tx",
            t,
            e.site,
            barrier=s.index,
            phase=k,
            past=arrivals.copy(),
            withheld=True,
            fix="announce the bytes before an arrival of the same phase (mbarrier.arrive.expect_tx)",
        )
        f.time = e.time


def close(run: Run, s: Barrier, cls: int, time: int, site: int) -> None:
    """A phase completes: O4 and O3, then the next phase opens and waiters go on."""
    k = s.auto.phase
    p = s.phases[0]
    if p.expects:
        check_accounting(run, s, p, k)
    np.maximum(p.m[E], p.tx, out=p.m[E])
    acc = p.m[E]
    for c, (when, wsite, past) in s.waits.items():
        if acc[c] < when:
            w = run.threads[c]
            both = np.maximum(past, acc)
            both[c] = min(int(both[c]), when - 1)
            f = run.report(
                Obligation.O3,
                "SV201",
                f"{w.info.name} waits for phase {k - 1} of {name(run, s.index)}, but phase {k} can complete before it "
                "looks: it would then see the same parity again and sleep",
                w,
                wsite,
                barrier=s.index,
                phase=k - 1,
                past=both,
                fix="let every waiter arrive on a barrier that the next phase needs, after its wait",
            )
            f.time = when
    p.m[E : HW + 1, s.column] = k + 1
    if p.far is not None:
        p.far[E : HW + 1, s.column] = k + 1
    s.waits = {}
    s.auto.advance()
    following = Phase(run.columns)
    for row in INHERITED:
        following.m[row] = p.m[row]
    s.phases = [following, *s.phases[:3]]
    for t in s.blocked:
        run.wake(t)
    s.blocked = []


# ------------------------------------------------------------------ waits


def on_wait(run: Run, t: Thread, event: Event) -> int:
    _, site, b, parity, flags = event
    s = barrier(run, b)
    if not use(run, t, s, site):
        return DONE
    if not s.auto.passes(parity):
        if run.forced and t.waits_on == ("forced",):
            return _pass_forced(run, t, s)
        return _block(t, s, ("wait", b, parity))
    return _pass(run, t, s, site, flags)


def on_wait_token(run: Run, t: Thread, event: Event) -> int:
    _, site, b, phase, flags = event
    s = barrier(run, b)
    if not use(run, t, s, site):
        return DONE
    if s.auto.phase <= phase:
        if run.forced and t.waits_on == ("forced",):
            return _pass_forced(run, t, s)
        return _block(t, s, ("token", b, phase))
    return _pass(run, t, s, site, flags)


def _block(t: Thread, s: Barrier, on: tuple[Any, ...]) -> int:
    t.waits_on = on
    s.blocked.append(t)
    return RETRY


def _pass(run: Run, t: Thread, s: Barrier, site: int, flags: int) -> int:
    """O2 on the predecessor, then the joins."""
    c = s.auto.phase
    past = before(t)
    if c >= 2 and not knows_phase(t, s, c - 2):
        with_earlier = past.copy()
        if len(s.phases) > 3:
            np.maximum(with_earlier, s.phases[3].m[E], out=with_earlier)
        run.report(
            Obligation.O2,
            "SV201",
            f"this wait means phase {c - 1} of {name(run, s.index)}, but it may come while phase {c - 3} is the "
            "last complete one, which has the same parity"
            if c >= 3
            else f"this wait means phase {c - 1} of {name(run, s.index)}, but phase {c - 2} may still be open when it "
            "looks, and the parity then passes at once",
            t,
            site,
            barrier=s.index,
            phase=c - 1,
            past=past,
        )
    if t.seen.get(b := s.index) == c:
        run.suspects.append((len(run.trace), t.cls, t.time, site, b))  # it waited for this phase before
    t.suspect = (t.time, len(run.trace), site, b) if c == 0 else None
    t.seen[b] = c
    if c - 1 > s.last_waited:
        s.last_waited = c - 1
        s.final_waits = {}
    if c - 1 == s.last_waited:
        s.final_waits[t.cls] = t.time
    s.waits[t.cls] = (t.time, site, past)
    s.waiters.add(site)
    t.syncs.append(t.time)
    if c >= 1:
        join(t, s, flags)
    t.waits_on = ()
    return DONE


def join(t: Thread, s: Barrier, flags: int) -> None:
    """A passed wait receives its phase (PTX ISA: mbarrier.test_wait; acquire unless relaxed)."""
    p = s.phases[1]
    p.waited = True
    m = t.clock.m
    if flags & RELAXED:
        np.maximum(m[E], p.m[E], out=m[E])
        if t.acquirable is None:
            t.acquirable = np.zeros_like(p.m)
        np.maximum(t.acquirable, p.m, out=t.acquirable)
        return
    np.maximum(m, p.m, out=m)
    if p.far is not None and flags & CLUSTER:
        np.maximum(m, p.far, out=m)


def _pass_forced(run: Run, t: Thread, s: Barrier) -> int:
    """After a hang: go on as if the phase had completed, knowing all that its contributors know by now."""
    m = t.clock.m
    for p in s.phases:
        for c in p.con:
            run.threads[c].clock.hand(m)
        np.maximum(m, p.m, out=m)
    t.waits_on = ()
    return DONE
