"""Fences, setmaxnreg, exit, and what agents report themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.event_flags import ACQUIRE, RELEASE, SC
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.handlers.execution_barriers import (
    cluster,
    end_cluster_generation,
    end_meeting,
    lanes_leave,
    lanes_leave_collective,
    lanes_leave_warp_sync,
    whole_warp_leaves,
)
from syncverify.checker.happens_before.run import (
    DONE,
    RETRY,
    LaneClass,
    ProxyFence,
    Run,
    Unmodelled,
    before,
)
from syncverify.checker.happens_before.vector_clocks import E, Mask, Matrix, across_blocks, matrix
from syncverify.model.automata.register_pool import legal
from syncverify.model.events import Event
from syncverify.model.proxies import Scope, Space

#: What to do about an operation that its own operands make wrong, by rule.
_FIX_OF_FAULT = {
    "SV208": "mend the address, its rank (mapa) or the mask: data and mbarrier lie in one block",
    "SV303": "let the mask name the lanes that execute this together, and no others",
}


def on_fence(run: Run, t: LaneClass, event: Event) -> int:
    """Orders generic accesses only; never bridges proxies (B60), but K1's practical reading looks at it.

    What it acquires it also releases: base causality passes through it (A7, A11).
    """
    _, _, flags, scope = event
    if flags & (ACQUIRE | SC) and t.acquirable is not None:
        if scope < run.spun.pop(t.cls, scope):
            raise Unmodelled("a fence of too small a scope after a relaxed spin on global memory", event[1])
        np.maximum(t.clock.m, t.acquirable, out=t.clock.m)
        t.acquirable = None
    if flags & (ACQUIRE | SC) and t.acquirable_far is not None and scope >= Scope.CLUSTER:
        np.maximum(t.clock.m, t.acquirable_far, out=t.clock.m)
        t.acquirable_far = None
    if flags & (RELEASE | SC):
        t.release_fence = matrix(run.columns)
        t.clock.hand(t.release_fence)
        across_blocks(t.release_fence)
        t.release_scope = scope
        t.release_site = event[1]
    if flags & SC or (flags & ACQUIRE and flags & RELEASE):
        t.fences.append(t.time)
        reads_over(t, remote=True)
    return DONE


def reads_over(t: LaneClass, remote: bool) -> None:
    """A fence comes after all earlier reads that it covers, whatever became of their values (K1)."""
    for r in t.unsure.values():
        if r.used <= 0 and (remote or r.column < 0):
            r.used = t.time
    t.unsure.clear()


def own_objects(run: Run, t: LaneClass) -> Mask:
    """Columns of accesses to this CTA's shared memory: all that a .shared::cta fence covers (C5, K20)."""
    covered = np.ones(run.columns.capacity, dtype=np.bool_)
    for o in run.threads:
        covered[o.cls] = o.info.cta == t.info.cta
    for c, key in run.columns.names().items():
        if key[0] == "remote":
            covered[c] = key[2] == t.info.cta
    return covered


def _objects_elsewhere(run: Run, t: LaneClass) -> Mask | None:
    """The columns of accesses to the shared memory of other CTAs than the own; None: there are none."""
    remote = [c for c, key in run.columns.names().items() if key[0] == "remote" and key[2] != t.info.cta]
    if not remote:
        return None
    elsewhere = np.zeros(run.columns.capacity, dtype=np.bool_)
    elsewhere[remote] = True
    return elsewhere


def on_proxy_fence(run: Run, t: LaneClass, event: Event) -> int:
    """Bridges generic and async accesses of the spaces it names (PTX ISA: fence.proxy.async)."""
    _, site, spaces, flags = event
    t.proxy_fences.append(ProxyFence(t.time, spaces, site, flags))
    if spaces & (Space.SHARED_CTA | Space.SHARED_CLUSTER):
        half = -1 if flags & RELEASE else 1 if flags & ACQUIRE else 0
        covered = None if spaces & Space.SHARED_CLUSTER or run.ctas == 1 else own_objects(run, t)
        t.clock.bridge_shared(run.columns.classes, half, covered, _objects_elsewhere(run, t))
        if half == 0:
            reads_over(t, remote=covered is None)
    if spaces & Space.GLOBAL:
        t.clock.bridge_global(run.columns.classes)
    return DONE


@dataclass(slots=True, eq=False)
class Request:
    """One warpgroup's setmaxnreg: what it takes (or gives back, if negative) from the pool."""

    cta: int
    group: int
    number: int  # which setmaxnreg of its warps, from 1
    site: int  # of the first warp to ask
    sites: dict[int, int]  # class -> its own
    registers: int
    need: int
    inc: bool
    pasts: dict[int, Matrix]
    times: dict[int, int]
    position: int


def on_setmaxnreg(run: Run, t: LaneClass, event: Event) -> int:
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
    forced = run.after_hang and t.waits_on == ("forced",)
    if run.options.ignores_pool or forced:
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


def note_request(run: Run, t: LaneClass, site: int, inc: int, registers: int, need: int) -> None:
    """Groups the warps of one warpgroup that ask for the same together, wherever each of them does."""
    group = t.info.warp // 4
    this = (t.info.cta, group, t.setmaxnregs, registers, bool(inc))
    for r in run.requests:
        if (r.cta, r.group, r.number, r.registers, r.inc) == this:
            r.sites[t.cls], r.pasts[t.cls], r.times[t.cls] = site, before(t), t.time
            return
    run.requests.append(
        Request(
            t.info.cta,
            group,
            t.setmaxnregs,
            site,
            {t.cls: site},
            registers,
            need,
            bool(inc),
            {t.cls: before(t)},
            {t.cls: t.time},
            len(run.trace),
        )
    )


def on_exit(run: Run, t: LaneClass, event: Event) -> int:
    """The lanes leave; source reads of bulk copies must be over, shared memory goes away (K21)."""
    t.done = True
    if t.bulk.issued and t.clock.knows(E, run.columns.of("bulk.read", t.cls), True) < t.bulk.issued:
        committed = t.bulk.committed[-1] if t.bulk.committed else 0
        bare = " that no commit_group follows" if committed < t.bulk.issued else ""
        run.report(
            Obligation.UB,
            "SV211",
            f"the threads leave while bulk stores{bare} still read shared memory",
            t,
            t.last_bulk,
            labels=[(event[1], "they leave here")] if event[1] >= 0 else [],
            fix="bulk.commit and bulk.wait.read 0 before the end",
        )
    if t.mma.issued and t.clock.knows(E, t.columns["mma"], True) < t.mma.issued:
        run.report(
            Obligation.UB,
            "SV211",
            "the threads leave while a wgmma is in flight",
            t,
            t.last_mma,
            severity=Severity.WARNING,
            strict_only=True,
            contested="K24",
            labels=[(event[1], "they leave here")] if event[1] >= 0 else [],
            fix="wgmma.commit and wgmma.wait 0 before the end",
        )
    past = t.clock.past()
    cta = t.info.cta
    known = run.exits.get(cta)
    run.exits[cta] = past if known is None else np.maximum(known, past)
    run.live[cta, t.info.warp] &= ~t.info.lanes
    live = run.live[cta, t.info.warp]
    t.exit_site = event[1]
    for (where, number), n in run.named.items():
        if where == cta and number >= 0 and not live:
            whole_warp_leaves(run, t, n)
        if where != cta or t.info.warp not in n.auto.arrived:
            continue
        if n.mask:
            lanes_leave_warp_sync(run, t, n)
        if n.collective:
            lanes_leave_collective(run, t, n)
        if number >= 0:
            lanes_leave(run, t, n, live)
        if number == -1 - t.info.warp and live and n.auto.arrived[t.info.warp] & live == live:
            end_meeting(run, n)
    state = cluster(run, cta)
    # what completes without its arrival does so after it left (PTX ISA: barrier.cluster)
    if not t.cluster_owed:
        t.clock.hand_row(E, state.gen.m[E])
    if state.auto.leave(t.cls):
        end_cluster_generation(run, state)
    return DONE


def on_fault(run: Run, t: LaneClass, event: Event) -> int:
    _, site, rule, message = event
    run.report(Obligation.UB, rule, message, t, site, fix=_FIX_OF_FAULT.get(rule))
    return DONE


def on_unknown(run: Run, t: LaneClass, event: Event) -> int:
    if run.options.skips_unmodelled:
        return RETRY
    raise Unmodelled(event[2], event[1])
