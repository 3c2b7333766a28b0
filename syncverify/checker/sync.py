"""Execution barriers, fences, polls, registers and exit in a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from syncverify.checker.barriers import barrier, before, use
from syncverify.checker.clocks import HW, SH, E, H, Matrix, matrix
from syncverify.checker.engine import DONE, PARKED, RETRY, YIELD, Run, Thread, Unmodelled
from syncverify.checker.failure import Obligation
from syncverify.checker.flags import ACQUIRE, ALIGNED, RELAXED, RELEASE, SC
from syncverify.diagnostics import Severity
from syncverify.model.automata.cluster_barrier import ClusterBarrier
from syncverify.model.automata.named_barrier import NamedBarrier
from syncverify.model.automata.register_pool import legal
from syncverify.model.events import Agent, Ev, Event
from syncverify.model.proxies import Scope, Space


@dataclass(slots=True, eq=False)
class Generation:
    """What the arrivals of one generation of an execution barrier hand on."""

    m: Matrix
    con: dict[int, int] = field(default_factory=dict)
    previous: dict[int, int] = field(default_factory=dict)
    waiting: list[Thread] = field(default_factory=list)
    sites: dict[int, int] = field(default_factory=dict)  # class -> site
    pasts: dict[int, Matrix] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Named:
    auto: NamedBarrier
    column: int
    gen: Generation
    last: Matrix


def named(run: Run, cta: int, number: int) -> Named:
    n = run.named.get((cta, number))
    if n is None:
        m = matrix(run.columns)
        n = Named(NamedBarrier(), run.columns.of("named", cta, number), Generation(m), m)
        run.named[cta, number] = n
    assert isinstance(n, Named)
    return n


def knows_generation(t: Thread, gen: Generation, column: int, number: int) -> bool:
    """O1 for generations: the previous one is complete in every past of this arrival."""
    row = t.clock.m[E]
    return bool(row[column] >= number) or all(row[c] >= time for c, time in gen.previous.items())


def _arrive(run: Run, t: Thread, event: Event, waits: bool) -> int:
    _, site, number, threads, flags = event
    cta, warp = t.info.cta, t.info.warp
    if flags & ALIGNED:
        t.collectives.append((site, event[0], len(run.trace)))
    run.contributors.setdefault(("named", cta, number), set()).add(t.cls)
    total = -(-run.info.threads // 32) * 32
    want = threads or total
    t.syncs.append(t.time)
    if not 0 <= number <= 15:
        run.report(Obligation.UB, "SV301", f"barrier id {number} is outside 0..15", t, site)
        return DONE
    if want % 32 or want > total:
        why = "is no multiple of 32" if want % 32 else f"exceeds the block's {run.info.threads}"
        run.report(Obligation.UB, "SV301", f"the thread count {want} of barrier {number} {why}", t, site)
        if want % 32:
            return DONE
    n = named(run, cta, number)
    if n.auto.mismatch(want):
        other = next(iter(n.gen.sites.values()))
        run.report(
            Obligation.UB,
            "SV301",
            f"barrier {number} is active with {n.auto.threads} threads, here {want}",
            t,
            site,
            labels=[(other, f"{n.auto.threads} threads here")],
        )
    if n.auto.twice(warp, t.info.lanes):
        run.report(
            Obligation.UB,
            "SV301",
            f"warp {warp} arrives twice on barrier {number} before it completes",
            t,
            site,
        )
    elif not knows_generation(t, n.gen, n.column, n.auto.generation):
        run.report(
            Obligation.O1,
            "SV301",
            f"this arrival counts in generation {n.auto.generation} of barrier {number}, but nothing makes sure "
            "that the one before it is complete",
            t,
            site,
            past=before(t),
        )
    t.clock.hand(n.gen.m)
    n.gen.con[t.cls] = t.time
    n.gen.sites[t.cls] = site
    if n.auto.arrive(warp, t.info.lanes, run.live[cta, warp], want):
        end_generation(run, n)
        if waits:
            np.maximum(t.clock.m, n.last, out=t.clock.m)
        return DONE
    if waits:
        n.gen.waiting.append(t)
        t.waits_on = ("named", number, want, threads)
        return PARKED
    return DONE


def end_generation(run: Run, n: Named) -> None:
    """All arrivals are in: those that wait leave, knowing them all."""
    gen = n.gen
    n.auto.reset()
    gen.m[E : HW + 1, n.column] = n.auto.generation
    n.last = gen.m
    for t in gen.waiting:
        np.maximum(t.clock.m, gen.m, out=t.clock.m)
        run.wake(t)
    n.gen = Generation(matrix(run.columns), previous=gen.con)


def on_barrier_sync(run: Run, t: Thread, event: Event) -> int:
    """Arrives and waits (PTX ISA: bar.sync); covers every lane's past when it leaves."""
    return _arrive(run, t, event, True)


def on_barrier_arrive(run: Run, t: Thread, event: Event) -> int:
    return _arrive(run, t, event, False)


def on_warp_sync(run: Run, t: Thread, event: Event) -> int:
    """All lanes of the mask meet; their memory is ordered (PTX ISA: bar.warp.sync)."""
    _, site, mask = event
    cta, warp = t.info.cta, t.info.warp
    lanes = run.lanes[cta, warp]
    mask &= lanes
    if t.info.lanes & ~mask:
        run.report(Obligation.UB, "SV303", "a lane outside the mask executes bar.warp.sync", t, site)
        return DONE
    if mask & ~run.live[cta, warp]:
        run.report(Obligation.SYNC, "SV302", "bar.warp.sync names lanes that have left the kernel", t, site)
    if t.info.lanes == mask:
        for c, v in t.clock.own.items():
            np.maximum(t.clock.m[:, c], v, out=t.clock.m[:, c])
        return DONE
    key = (cta, -(1 << 40) - warp * (1 << 33) - mask)
    n = named(run, *key)
    n.auto.arrived[warp] = n.auto.arrived.get(warp, 0) | t.info.lanes
    t.clock.hand(n.gen.m)
    n.gen.con[t.cls] = t.time
    n.gen.sites[t.cls] = site
    if n.auto.arrived[warp] & mask == mask:
        end_generation(run, n)
        np.maximum(t.clock.m, n.last, out=t.clock.m)
        return DONE
    n.gen.waiting.append(t)
    t.waits_on = ("warp", mask)
    return PARKED


# ------------------------------------------------------------------ cluster


@dataclass(slots=True, eq=False)
class Cluster:
    """The barrier of one cluster: its open generation and the one before."""

    auto: ClusterBarrier
    column: int
    gen: Generation
    last: Generation | None = None


def cluster(run: Run, cta: int) -> Cluster:
    number = cta // run.info.ctas
    c = run.clusters.get(number)
    if c is None:
        members = {t.cls for t in run.threads if t.info.cta // run.info.ctas == number and not t.done}
        c = Cluster(
            ClusterBarrier(members), run.columns.of("cluster", number), Generation(matrix(run.columns))
        )
        run.clusters[number] = c
    assert isinstance(c, Cluster)
    return c


def on_cluster_arrive(run: Run, t: Thread, event: Event) -> int:
    """Release at cluster scope unless relaxed; a relaxed one carries fenced barrier inits only (B4, B24)."""
    _, site, flags = event
    state = cluster(run, t.info.cta)
    g = state.gen
    t.syncs.append(t.time)
    run.contributors.setdefault(("cluster",), set()).add(t.cls)
    if flags & ALIGNED:
        t.collectives.append((site, event[0], len(run.trace)))
    if t.cluster_owed:
        run.report(
            Obligation.UB,
            "SV302",
            "the same threads arrive twice on the cluster barrier without a wait",
            t,
            site,
        )
    elif not knows_generation(t, g, state.column, state.auto.generation):
        run.report(
            Obligation.O1,
            "SV301",
            "this cluster arrival may come before the previous generation is complete",
            t,
            site,
            past=before(t),
        )
    if flags & RELAXED:
        t.clock.hand_row(E, g.m[E])
        c = run.columns.of("init", t.cls)
        for row in (H, SH, HW):
            g.m[row, c] = max(int(g.m[row, c]), t.clock.knows(row, c, True))
        if t.release_fence is not None and t.release_scope >= Scope.CLUSTER:
            np.maximum(g.m, t.release_fence, out=g.m)
    else:
        t.clock.hand(g.m)
    g.con[t.cls] = t.time
    g.sites[t.cls] = site
    t.cluster_owed = 1
    if state.auto.arrive(t.cls):
        end_cluster_generation(run, state)
    return DONE


def end_cluster_generation(run: Run, state: Cluster) -> None:
    last = state.gen
    state.auto.reset()
    last.m[E : HW + 1, state.column] = state.auto.generation
    state.gen = Generation(matrix(run.columns), previous=last.con)
    state.last = last
    for t in last.waiting:
        run.wake(t)


def on_cluster_wait(run: Run, t: Thread, event: Event) -> int:
    """Waits for the generation this thread arrived in (PTX ISA: barrier.cluster.wait)."""
    state = cluster(run, t.info.cta)
    if t.cls in state.auto.arrived:
        if not run.forced or t.waits_on != ("forced",):
            t.waits_on = ("cluster",)
            if t not in state.gen.waiting:
                state.gen.waiting.append(t)
            return RETRY
        t.waits_on = ()
        t.cluster_owed = 0
        return DONE
    last = state.last
    t.syncs.append(t.time)
    t.waits_on = ()
    if event[2] & ALIGNED:
        t.collectives.append((event[1], event[0], len(run.trace)))
    if last is None or not t.cluster_owed:
        run.report(
            Obligation.UB,
            "SV302",
            "barrier.cluster.wait without an arrive of these threads before it",
            t,
            event[1],
        )
        return DONE
    t.cluster_owed = 0
    np.maximum(t.clock.m, last.m, out=t.clock.m)
    return DONE


# ------------------------------------------------------------------ fences


def on_fence(run: Run, t: Thread, event: Event) -> int:
    """Orders generic accesses only; never bridges proxies (B60), but K1's practical reading looks at it."""
    _, _, flags, scope = event
    if flags & (RELEASE | SC):
        t.release_fence = matrix(run.columns)
        t.clock.hand(t.release_fence)
        t.release_scope = scope
        t.release_site = event[1]
    if flags & (ACQUIRE | SC) and t.acquirable is not None:
        np.maximum(t.clock.m, t.acquirable, out=t.clock.m)
        t.acquirable = None
    if flags & SC or (flags & ACQUIRE and flags & RELEASE):
        t.fences.append(t.time)
    return DONE


def on_proxy_fence(run: Run, t: Thread, event: Event) -> int:
    """Bridges generic and async accesses of the spaces it names (PTX ISA: fence.proxy.async)."""
    _, site, spaces, _ = event
    t.proxy_fences.append((t.time, spaces, site))
    if spaces & (Space.SHARED_CTA | Space.SHARED_CLUSTER):
        t.clock.bridge_shared()
    if spaces & Space.GLOBAL:
        t.clock.bridge_global()
    return DONE


# ------------------------------------------------------------------ warp-wide operations


def on_elect(run: Run, t: Thread, event: Event) -> int:
    """Every lane of the mask must execute it together (PTX ISA: elect.sync); no memory is ordered."""
    return meet(run, t, event)


def meet(run: Run, t: Thread, event: Event) -> int:
    """A warp-wide ``.sync`` operation: it starts once every lane of the warp has come to one.

    Enablement only: no memory is ordered among the lanes (PTX ISA: elect.sync, wgmma: .sync).
    """
    if t.met != t.time:
        t.met = t.time
        t.collectives.append((event[1], event[0], len(run.trace)))
    elif not t.meeting:
        return DONE
    cta, warp = t.info.cta, t.info.warp
    if t.info.lanes == run.lanes[cta, warp]:
        v = t.clock.own[t.cls]
        t.clock.m[E, t.cls] = v[E]
        return DONE
    n = named(run, cta, -1 - warp)
    if not t.meeting:
        t.meeting = True
        n.auto.arrived[warp] = n.auto.arrived.get(warp, 0) | t.info.lanes
        t.clock.hand_row(E, n.gen.m[E])
        n.gen.con[t.cls] = t.time
        n.gen.sites[t.cls] = event[1]
    live = run.live[cta, warp]
    if n.auto.arrived[warp] & live != live:
        if run.forced and t.waits_on == ("forced",):
            t.meeting = False
            t.waits_on = ()
            return DONE
        t.waits_on = ("meet", event[1])
        if t not in n.gen.waiting:
            n.gen.waiting.append(t)
        return RETRY
    end_meeting(run, n)
    t.meeting = False
    np.maximum(t.clock.m[E], n.last[E], out=t.clock.m[E])
    return DONE


def end_meeting(run: Run, n: Named) -> None:
    """Everybody is there: enablement joins, each class runs its operation."""
    gen = n.gen
    n.auto.reset()
    n.last = gen.m
    n.gen = Generation(matrix(run.columns), previous=gen.con)
    for t in gen.waiting:
        t.meeting = False
        np.maximum(t.clock.m[E], gen.m[E], out=t.clock.m[E])
        run.wake(t)
        run.met.append(t)


@dataclass(slots=True, eq=False)
class Request:
    """One warpgroup's setmaxnreg: what it takes (or gives back, if negative) from the pool."""

    cta: int
    group: int
    number: int  # which setmaxnreg of its warps, from 1
    site: int
    registers: int
    need: int
    inc: bool
    pasts: dict[int, Matrix]
    times: dict[int, int]
    position: int


def on_setmaxnreg(run: Run, t: Thread, event: Event) -> int:
    """Gives registers back at once, or blocks until the pool can serve (PTX ISA: setmaxnreg)."""
    _, site, inc, registers = event
    group = t.info.warp // 4
    pool = run.pool(t.info.cta)
    if t.met != t.time:
        t.met = t.time
        t.setmaxnregs += 1
        held = pool.held[group]
        if not legal(registers):
            run.report(
                Obligation.O8, "SV304", f"setmaxnreg {registers}: not a multiple of 8 in 24..256", t, site
            )
        elif t.setmaxnregs > pool.served[group] and (registers < held if inc else registers > held):
            verb = "inc" if inc else "dec"
            run.report(
                Obligation.O8,
                "SV304",
                f"setmaxnreg.{verb} {registers} by a warpgroup that holds {held}",
                t,
                site,
            )
        note_request(run, t, site, inc, registers, pool.need(group, registers))
    forced = run.forced and t.waits_on == ("forced",)
    if run.ignores_pool or forced:
        pool.held[group] = registers
        pool.served[group] = max(pool.served[group], t.setmaxnregs)
        t.waits_on = ()
        return DONE
    if not pool.grant(group, t.setmaxnregs, registers):
        t.waits_on = ("registers", registers)
        return RETRY
    for o in run.threads:
        if o.blocked and o.waits_on[:1] == ("registers",):
            run.wake(o)
    t.waits_on = ()
    return DONE


def note_request(run: Run, t: Thread, site: int, inc: int, registers: int, need: int) -> None:
    """Groups the warps of one warpgroup that execute one setmaxnreg together."""
    group = t.info.warp // 4
    for r in run.requests:
        if (r.cta, r.group, r.number, r.site) == (t.info.cta, group, t.setmaxnregs, site):
            r.pasts[t.cls], r.times[t.cls] = before(t), t.time
            return
    run.requests.append(
        Request(
            t.info.cta,
            group,
            t.setmaxnregs,
            site,
            registers,
            need,
            bool(inc),
            {t.cls: before(t)},
            {t.cls: t.time},
            len(run.trace),
        )
    )


# ------------------------------------------------------------------ polls


def on_poll(run: Run, t: Thread, event: Event) -> int:
    """One test_wait or try_wait. A poll that only guards a wait is one wait with it; see ``classify``."""
    code, site, b, phase, flags = event
    s = barrier(run, b)
    if not use(run, t, s, site):
        return DONE
    use_of = classify(t, event)
    if use_of == "loop":
        blocking = Ev.WAIT if code == Ev.POLL else Ev.WAIT_TOKEN
        result = run.handlers[blocking](run, t, (blocking, site, b, phase, flags))
        t.answer = 1 if result == DONE else 0
        return result
    if use_of == "guard":
        t.answer = 0  # false is always a legal answer (B19); the wait that follows carries the joins
        return DONE
    if use_of == "ignored":
        run.report(
            Obligation.POLL,
            "SV209",
            "the result of this poll is never looked at: what follows does not wait",
            t,
            site,
            barrier=b,
            severity=Severity.WARNING,
            fix="loop until it is true",
        )
        run.ignored_polls.add(site)
        t.answer = 0
        return YIELD
    raise Unmodelled("control depends on the result of a single poll", site)


LOOKAHEAD = 64


def classify(t: Thread, event: Event) -> str:
    """What the result of a poll is for, by running both answers side by side for a while."""
    code, _, b, phase, _ = event
    no, yes = t.agent.fork(), t.agent.fork()
    e_no, e_yes = no.step(0), yes.step(1)
    wait = Ev.WAIT if code == Ev.POLL else Ev.WAIT_TOKEN
    if e_no == event and e_yes != event:
        return "loop"
    for _ in range(LOOKAHEAD):
        if e_no == e_yes and no.normalize() == yes.normalize():
            return "ignored"
        if e_no[0] == wait and e_no[2:4] == (b, phase) and e_no != e_yes:
            return "guard" if _rejoins(no, yes, e_yes) else "other"
        if e_no != e_yes or e_no[0] in (Ev.EXIT, Ev.POLL, Ev.POLL_TOKEN, Ev.UNKNOWN):
            return "other"
        e_no, e_yes = no.step(0), yes.step(0)
    return "other"


def _rejoins(no: Agent, yes: Agent, e_yes: Event) -> bool:
    """After its wait, the path that waited must do what the other one does."""
    for _ in range(LOOKAHEAD):
        e_no = no.step(0)
        if e_no != e_yes:
            return False
        if no.normalize() == yes.normalize() or e_no[0] == Ev.EXIT:
            return True
        e_yes = yes.step(0)
    return True


# ------------------------------------------------------------------ the end


def on_exit(run: Run, t: Thread, event: Event) -> int:
    """The lanes leave; source reads of bulk copies must be over, shared memory goes away (K21)."""
    t.done = True
    if t.bulk.issued and t.clock.knows(E, run.columns.of("bulk.read", t.cls), True) < t.bulk.issued:
        run.report(
            Obligation.UB,
            "SV211",
            "the threads leave while bulk stores still read shared memory",
            t,
            t.last_bulk,
            fix="bulk.commit and bulk.wait.read 0 before the end",
        )
    if t.mma.issued and t.clock.knows(E, t.columns["mma"], True) < t.mma.issued:
        run.report(
            Obligation.UB,
            "SV211",
            "the threads leave while a wgmma is in flight",
            t,
            t.last_mma,
            fix="wgmma.commit and wgmma.wait 0 before the end",
        )
    past = t.clock.past()
    cta = t.info.cta
    known = run.exits.get(cta)
    run.exits[cta] = past if known is None else np.maximum(known, past)
    run.live[cta, t.info.warp] &= ~t.info.lanes
    live = run.live[cta, t.info.warp]
    for (where, number), n in run.named.items():
        # A warp counts once all its lanes that still run have arrived.
        if where != cta or t.info.warp not in n.auto.arrived:
            continue
        if number >= 0 and n.auto.leave(t.info.warp, live):
            end_generation(run, n)
        if number == -1 - t.info.warp and live and n.auto.arrived[t.info.warp] & live == live:
            end_meeting(run, n)
    state = cluster(run, cta)
    if state.auto.leave(t.cls):
        end_cluster_generation(run, state)
    return DONE


def on_fault(run: Run, t: Thread, event: Event) -> int:
    _, site, rule, message = event
    run.report(Obligation.UB, rule, message, t, site)
    return DONE


def on_unknown(run: Run, t: Thread, event: Event) -> int:
    raise Unmodelled(event[2], event[1])
