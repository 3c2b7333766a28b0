"""Execution barriers in a run: named barriers, warp syncs, cluster barriers, warp-wide meetings."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from syncverify.base.diagnostics import Severity
from syncverify.base.reason import Cause, Reason
from syncverify.checker.happens_before.event_flags import ALIGNED, REDUCTION, RELAXED
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.run import DONE, PARKED, RETRY, LaneClass, Run, Unmodelled, before
from syncverify.checker.happens_before.vector_clocks import HW, SH, E, H, Matrix, across_blocks, matrix
from syncverify.model.automata.cluster_barrier import ClusterBarrier
from syncverify.model.automata.named_barrier import NamedBarrier, exists
from syncverify.model.events import Event, lane_ranges
from syncverify.model.proxies import Scope


@dataclass(slots=True, eq=False)
class Generation:
    """What the arrivals of one generation of an execution barrier hand on."""

    m: Matrix
    con: dict[int, int] = field(default_factory=dict)
    previous: dict[int, int] = field(default_factory=dict)
    waiting: list[LaneClass] = field(default_factory=list)
    sites: dict[int, int] = field(default_factory=dict)  # class -> site
    pasts: dict[int, Matrix] = field(default_factory=dict)
    near: dict[int, Matrix] = field(default_factory=dict)  # block -> what its threads hand on to each other


@dataclass(slots=True, eq=False)
class Named:
    auto: NamedBarrier
    column: int
    gen: Generation
    last: Matrix
    red: int = 0  # the form of the open generation's first participants
    partial: dict[int, Generation] = field(default_factory=dict)  # warps of which only some lanes have come
    ahead: list[LaneClass] = field(
        default_factory=list
    )  # who comes a second time, before the rest of its warp
    mask: int = 0  # of a bar.warp.sync
    collective: int = 0  # the mask of a shfl, vote, match or redux

    def met(self, warp: int, live: int) -> bool:
        """Whether all lanes of the mask that have not left are at a bar.warp.sync."""
        named = self.mask & live
        return self.mask != 0 and self.auto.arrived.get(warp, 0) & named == named


def named(run: Run, cta: int, number: int) -> Named:
    n = run.named.get((cta, number))
    if n is None:
        m = matrix(run.columns)
        n = Named(NamedBarrier(), run.columns.of("named", cta, number), Generation(m), m)
        run.named[cta, number] = n
    assert isinstance(n, Named)
    return n


def knows_generation(run: Run, row: Matrix, gen: Generation, column: int, number: int) -> bool:
    """O1 for generations: the previous one is complete in every past of this arrival; ``row``: what has
    happened before it."""
    if run.options.weak_completion_knowledge:
        return bool(row[column] >= number)
    return bool(row[column] >= number) or all(row[c] >= time for c, time in gen.previous.items())


def _comes_ahead(run: Run, t: LaneClass, n: Named) -> bool:
    """Whether lanes come to an aligned barrier again before others of their warp: these have still to come
    the first time, or the second."""
    warp, lanes = t.info.warp, t.info.lanes
    if n.auto.ahead(warp, lanes):
        return True
    if warp not in n.auto.marked or not n.auto.twice(warp, lanes):
        return False
    here = (t.info.cta, warp)
    for o in n.ahead:
        lanes |= o.info.lanes if (o.info.cta, o.info.warp) == here else 0
    return bool(run.live[here] & ~lanes)


def _arrive(run: Run, t: LaneClass, event: Event, waits: bool) -> int:
    _, site, number, threads, flags = event
    cta, warp = t.info.cta, t.info.warp
    early = run.named.get((cta, number))
    if flags & ALIGNED and early is not None and _comes_ahead(run, t, early):
        # The rest of the warp has still to come, and all execute the instruction together.
        t.waits_on = ("warp", number)
        if all(o is not t for o in early.ahead):  # a hang may be followed past it: it then comes here again
            early.ahead.append(t)
        return RETRY
    if flags & ALIGNED:
        t.collectives.append((site, event[0], len(run.trace)))
    run.contributors.setdefault(("named", cta, number), set()).add(t.cls)
    want = threads or _rounded_threads(run)
    t.syncs.append(t.time)
    if not _is_possible(run, t, site, number, want):
        return DONE
    n = named(run, cta, number)
    _check_form(run, t, site, number, want, flags & REDUCTION)
    second = _check_second_arrival(run, t, site, number, waits)
    part = n.partial.setdefault(warp, Generation(matrix(run.columns)))
    t.clock.hand(part.m)
    # A warp counts once, when its last lanes come: what any of them knows has happened by then.
    comes = not run.live[cta, warp] & ~(n.auto.arrived.get(warp, 0) | t.info.lanes)
    if comes and not knows_generation(run, part.m[E], n.gen, n.column, n.auto.generation):
        run.report(
            Obligation.O1,
            "SV301",
            f"this arrival counts in generation {n.auto.generation} of barrier {number}, but nothing "
            "makes sure "
            "that the one before it is complete",
            t,
            site,
            past=before(t),
        )
    part.con[t.cls] = t.time
    part.sites[t.cls] = site
    full = n.auto.arrive(
        warp, t.info.lanes, run.live[cta, warp], want, -1 if threads else len(left_without(run, n, cta))
    )
    marked = warp in n.auto.marked
    if marked:
        warp_arrives(n, warp)
    if marked or second:  # lanes of the warp that came ahead for the second arrival count now, too
        for other in n.ahead:
            run.wake(other)
        n.ahead = []
    if full:
        judge_left(run, t, n, cta)
        end_generation(run, n)
        if waits:
            np.maximum(t.clock.m, n.last, out=t.clock.m)
        return DONE
    if waits:
        (n.gen if marked else part).waiting.append(t)
        t.waits_on = ("named", number, want, threads)
        return PARKED
    return DONE


def _rounded_threads(run: Run) -> int:
    """The block's threads, counted in whole warps."""
    return -(-run.info.threads // 32) * 32


def _is_possible(run: Run, t: LaneClass, site: int, number: int, want: int) -> bool:
    """Whether there is such a barrier with such a count; reports it if not."""
    if not exists(number):
        run.report(Obligation.UB, "SV301", f"barrier id {number} is outside 0..15", t, site)
        return False
    if want % 32:
        text = f"the thread count {want} of barrier {number} is no multiple of 32"
        run.report(Obligation.UB, "SV301", text, t, site)
        return False
    if want > _rounded_threads(run):  # filled by warps that count twice, or by nobody, which is a hang
        run.report(
            Obligation.UB,
            "SV301",
            f"the thread count {want} of barrier {number} exceeds the block's {run.info.threads}",
            t,
            site,
            severity=Severity.WARNING,
            strict_only=True,
        )
    return True


def _check_form(run: Run, t: LaneClass, site: int, number: int, want: int, red: int) -> None:
    """Whoever meets at a barrier executes one form of it, with one count of threads."""
    n = named(run, t.info.cta, number)
    if n.auto.arrived and n.red != red:
        what = "two reductions" if n.red and red else "bar.red and another form"
        run.report(Obligation.UB, "SV301", f"{what} meet on barrier {number}", t, site)
    n.red = red
    if n.auto.mismatch(want):
        there = [*n.gen.sites.values(), *(s for part in n.partial.values() for s in part.sites.values())]
        other = there[0] if there else site
        run.report(
            Obligation.UB,
            "SV301",
            f"barrier {number} is active with {n.auto.threads} threads, here {want}",
            t,
            site,
            labels=[(other, f"{n.auto.threads} threads here")],
        )


def _check_second_arrival(run: Run, t: LaneClass, site: int, number: int, waits: bool) -> bool:
    """Whether a warp that has arrived now waits too, and so counts twice; any other second arrival is an
    error."""
    n, warp = named(run, t.info.cta, number), t.info.warp
    if waits and warp in n.auto.marked and all(o.info.warp != warp for o in n.gen.waiting):
        # It arrived before and now waits: the hardware counts both, ordered pipelines begin so (quack, FA4).
        run.report(
            Obligation.UB,
            "SV301",
            f"warp {warp} arrives and then waits on barrier {number} before it completes: it counts twice",
            t,
            site,
            severity=Severity.WARNING,
            strict_only=True,
        )
        n.auto.count_again(warp)
        return True
    if n.auto.twice(warp, t.info.lanes):
        run.report(
            Obligation.UB,
            "SV301",
            f"warp {warp} arrives twice on barrier {number} before it completes",
            t,
            site,
        )
    return False


def warp_arrives(n: Named, warp: int) -> None:
    """All live lanes of a warp have come: now the warp counts (B1)."""
    part = n.partial.pop(warp, None)
    if part is None:
        return
    np.maximum(n.gen.m, part.m, out=n.gen.m)
    n.gen.con.update(part.con)
    n.gen.sites.update(part.sites)
    n.gen.waiting += part.waiting


def lanes_leave(run: Run, t: LaneClass, n: Named, live: int) -> None:
    """Lanes exit: a warp counts once all its lanes that still run have arrived."""
    cta, warp = t.info.cta, t.info.warp
    full = n.auto.leave(warp, live, len(left_without(run, n, cta)))
    if warp in n.auto.marked:
        warp_arrives(n, warp)
    if full:
        judge_left(run, t, n, cta)
        end_generation(run, n)


def left_without(run: Run, n: Named, cta: int) -> list[int]:
    """Warps of a CTA that have left the kernel and have not arrived at the open generation of a barrier."""
    return [w for (c, w), live in run.live.items() if c == cta and not live and w not in n.auto.arrived]


def whole_warp_leaves(run: Run, t: LaneClass, n: Named) -> None:
    """The last lanes of a warp exit: a barrier without a count no longer waits for it (K22)."""
    warp = t.info.warp
    if warp in n.auto.arrived or not n.auto.leave_whole(len(left_without(run, n, t.info.cta))):
        return
    judge_left(run, t, n, t.info.cta)
    end_generation(run, n)


def judge_left(run: Run, t: LaneClass, n: Named, cta: int) -> None:
    """A barrier of the whole CTA is complete without warps that have left. Those that have run past it,
    through what its own warps execute after it, were to come to it (SV302); others have left early (K22)."""
    gone = set(left_without(run, n, cta)) if n.auto.whole else set()
    for o in run.threads:
        if o.info.cta != cta or o.info.warp not in gone:
            continue
        site = next((b for b in n.gen.sites.values() if run.info.passes(o.exit_site, b, True)), -1)
        if site >= 0:
            run.report(
                Obligation.SYNC,
                "SV302",
                f"{o.info.name} runs past this barrier of the whole block to the end, and never comes to it",
                t,
                site,
                fix="move it out of the branch: all threads of the block have to come to it",
            )
            return


def end_generation(run: Run, n: Named, whole: bool = False) -> None:
    """All arrivals are in: those that wait leave, knowing them all."""
    gen = n.gen
    (n.auto.clear if whole else n.auto.reset)()
    gen.m[E : HW + 1, n.column] = n.auto.generation
    n.last = gen.m
    for t in gen.waiting:
        np.maximum(t.clock.m, gen.m, out=t.clock.m)
        run.wake(t)
    for t in n.ahead:
        run.wake(t)
    n.ahead = []
    n.gen = Generation(matrix(run.columns), previous=gen.con)


def on_barrier_sync(run: Run, t: LaneClass, event: Event) -> int:
    """Arrives and waits (PTX ISA: bar.sync); covers every lane's past when it leaves."""
    return _arrive(run, t, event, True)


def on_barrier_arrive(run: Run, t: LaneClass, event: Event) -> int:
    return _arrive(run, t, event, False)


def on_warp_sync(run: Run, t: LaneClass, event: Event) -> int:
    """All lanes of the mask meet; their memory is ordered (PTX ISA: bar.warp.sync)."""
    _, site, mask = event
    cta, warp = t.info.cta, t.info.warp
    lanes = run.lanes[cta, warp]
    mask &= lanes
    if t.info.lanes & ~mask:
        run.report(Obligation.UB, "SV303", "a lane outside the mask executes bar.warp.sync", t, site)
        return DONE
    if mask & ~run.live[cta, warp]:
        _names_left(run, t, site)
    if t.info.lanes == mask & run.live[cta, warp]:
        for c, v in t.clock.own.items():
            np.maximum(t.clock.m[:, c], v, out=t.clock.m[:, c])
        return DONE
    key = (cta, -(1 << 40) - warp * (1 << 33) - mask)
    n = named(run, *key)
    n.auto.arrived[warp] = n.auto.arrived.get(warp, 0) | t.info.lanes
    t.clock.hand(n.gen.m)
    n.gen.con[t.cls] = t.time
    n.gen.sites[t.cls] = site
    n.mask = mask
    if n.met(warp, run.live[cta, warp]):
        end_generation(run, n, whole=True)
        np.maximum(t.clock.m, n.last, out=t.clock.m)
        return DONE
    n.gen.waiting.append(t)
    t.waits_on = ("warp", mask)
    return PARKED


def _names_left(run: Run, t: LaneClass, site: int) -> None:
    """A bar.warp.sync names lanes that have left: early (K22), or past it to the kernel's end."""
    mates = [o for o in run.threads if (o.info.cta, o.info.warp) == (t.info.cta, t.info.warp) and o.done]
    past = any(run.info.passes(o.exit_site, site, False) for o in mates)
    run.report(
        Obligation.SYNC,
        "SV302",
        "bar.warp.sync names lanes that have left the kernel",
        t,
        site,
        severity=Severity.ERROR if past else Severity.WARNING,
        strict_only=not past,
        contested=None if past else "K22",
    )


def lanes_leave_warp_sync(run: Run, t: LaneClass, n: Named) -> None:
    """Lanes exit that others of their warp wait for in a bar.warp.sync, which does not wait for them any
    more."""
    live = run.live[t.info.cta, t.info.warp]
    if live and n.met(t.info.warp, live):
        for o in n.gen.waiting[:1]:
            _names_left(run, o, n.gen.sites[o.cls])
        end_generation(run, n, whole=True)


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


def on_cluster_arrive(run: Run, t: LaneClass, event: Event) -> int:
    """Release at cluster scope unless relaxed; a relaxed one carries fenced barrier inits (B4, B24), and what
    a fence has released (A5)."""
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
    elif not knows_generation(run, t.clock.m[E], g, state.column, state.auto.generation):
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
        if t.release_fence is not None:
            wide = t.release_scope >= Scope.CLUSTER
            to = g.m if wide else g.near.setdefault(t.info.cta, matrix(run.columns))
            np.maximum(to, t.release_fence, out=to)
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
    across_blocks(last.m)
    state.gen = Generation(matrix(run.columns), previous=last.con)
    state.last = last
    for t in last.waiting:
        run.wake(t)


def on_cluster_wait(run: Run, t: LaneClass, event: Event) -> int:
    """Waits for the generation this thread arrived in (PTX ISA: barrier.cluster.wait)."""
    state = cluster(run, t.info.cta)
    if t.cls in state.auto.arrived:
        if not run.after_hang or t.waits_on != ("forced",):
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
    if t.info.cta in last.near:
        np.maximum(t.clock.m, last.near[t.info.cta], out=t.clock.m)
    return DONE


def on_elect(run: Run, t: LaneClass, event: Event) -> int:
    """Every lane of the mask must execute it together (PTX ISA: elect.sync); no memory is ordered."""
    return meet(run, t, event)


def on_collective(run: Run, t: LaneClass, event: Event) -> int:
    """Lanes that the mask names come together, each class to an operation of the same kind (PTX ISA:
    shfl.sync); it orders no memory. It waits for no lane that has left (K23), unless it is of the whole
    warp. An odd kind: what lanes bring each other matters, and is not followed from two instructions."""
    _, site, mask, kind, *more = event
    cta, warp = t.info.cta, t.info.warp
    gone = mask & ~run.live[cta, warp]
    if gone:
        short = any(more) or run_past(run, t, site, gone)
        lanes_left(run, t, site, gone, short)
        if short or t.info.lanes & mask == mask & ~gone:
            return DONE
    n = named(run, cta, -(1 << 80) - (((warp << 32) + mask) << 32) - kind)
    apart = kind & 1 and any(other != site for other in n.gen.sites.values())
    if apart and not run.options.skips_unmodelled:
        why = "lanes of a warp meet at two instructions: what they bring each other there is not followed"
        raise Unmodelled(Reason(why, Cause.DATA), site)
    n.auto.arrived[warp] = n.auto.arrived.get(warp, 0) | t.info.lanes
    t.clock.hand_row(E, n.gen.m[E])
    n.gen.con[t.cls] = t.time
    n.gen.sites[t.cls] = site
    if n.auto.arrived[warp] & mask == mask & ~gone:
        end_generation(run, n, whole=True)
        np.maximum(t.clock.m[E], n.last[E], out=t.clock.m[E])
        return DONE
    n.collective = 0 if any(more) else mask
    n.gen.waiting.append(t)
    t.waits_on = ("meet", site)
    return PARKED


def run_past(run: Run, t: LaneClass, site: int, lanes: int) -> bool:
    """Whether lanes that have left were to come to a collective: they have run past it to the end, through
    what lanes execute after it."""
    return any(
        (o.info.cta, o.info.warp) == (t.info.cta, t.info.warp)
        and o.info.lanes & lanes
        and run.info.passes(o.exit_site, site, False)
        for o in run.threads
    )


def lanes_left(run: Run, t: LaneClass, site: int, gone: int, short: bool) -> None:
    """The mask of a collective names lanes that have left; ``short``: it needs them."""
    named = f"the mask names lanes {lane_ranges(gone)}, which have left the kernel"
    run.report(
        Obligation.UB,
        "SV303",
        named if short else f"{named}: a value taken from them is undefined",
        t,
        site,
        severity=Severity.ERROR if short else Severity.WARNING,
        contested="K23",
        fix="name only lanes that execute it, or let all lanes of the warp stay until then",
    )


def lanes_leave_collective(run: Run, t: LaneClass, n: Named) -> None:
    """Lanes exit: a collective starts if the others of its mask have come."""
    warp = t.info.warp
    needed = n.collective & run.live[t.info.cta, warp]
    gone = n.collective & ~needed
    if not gone & t.info.lanes or n.auto.arrived[warp] & needed != needed or not n.gen.waiting:
        return
    other = n.gen.waiting[-1]
    site = n.gen.sites[other.cls]
    lanes_left(run, other, site, gone, run_past(run, other, site, gone))
    end_generation(run, n, whole=True)


def meet(run: Run, t: LaneClass, event: Event) -> int:
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
        if t.clock.multi:
            t.clock.m[E, t.cls] = t.clock.own[t.cls][E]
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
        if run.after_hang and t.waits_on == ("forced",):
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
    n.auto.clear()
    n.last = gen.m
    n.gen = Generation(matrix(run.columns), previous=gen.con)
    for t in gen.waiting:
        t.meeting = False
        np.maximum(t.clock.m[E], gen.m[E], out=t.clock.m[E])
        run.wake(t)
        run.met.append(t)
