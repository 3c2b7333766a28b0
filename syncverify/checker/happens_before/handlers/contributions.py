"""Contributions of threads to mbarrier phases: arrivals, expect-tx, complete-tx (O1)."""

from __future__ import annotations

import numpy as np

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.event_flags import CLUSTER, DROP, NO_COMPLETE, RELAXED
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.handlers.mbarriers import (
    Barrier,
    Expect,
    Phase,
    barrier,
    knows_phase,
    name,
    use,
)
from syncverify.checker.happens_before.handlers.phases import (
    check_range,
    complete_phase,
    drained,
    landed,
    surplus_arrival,
)
from syncverify.checker.happens_before.run import DONE, LaneClass, Run, before
from syncverify.checker.happens_before.vector_clocks import (
    AG,
    SA,
    SG,
    SH,
    A,
    E,
    H,
    Matrix,
    across_blocks,
    matrix,
)
from syncverify.model.events import Event
from syncverify.model.proxies import Scope
from syncverify.symbolic.phase_tokens import given


def contribute(run: Run, t: LaneClass, s: Barrier, site: int, what: str) -> Phase:
    """O1 for a thread's contribution to the open phase, which it enters."""
    k = s.auto.phase
    if k >= 1 and not knows_phase(run, t.clock.m[E], s, k - 1) and run.options.waits_for_previous_phase:
        np.maximum(t.clock.m, s.phases[1].m, out=t.clock.m)
    elif k >= 1 and not knows_phase(run, t.clock.m[E], s, k - 1):
        previous = s.phases[1].con if len(s.phases) > 1 else {}
        again = previous.get(t.cls, t.time) < t.time and what != "cp"
        merged = s.phases[1].again if len(s.phases) > 1 else None
        f = run.report(
            Obligation.O1,
            "SV206" if again else "SV202",
            f"this {_CONTRIBUTION[what]} lands in phase {k} of {name(run, s.index)}, but nothing makes "
            "sure that "
            f"phase {k - 1} is complete",
            t,
            site,
            barrier=s.index,
            phase=k,
            past=before(t),
        )
        f.again = merged
    p = s.phases[0]
    if k >= 1 and what == "arrive" and run.options.records_observers:
        phase_nobody_waits_for(run, t, s, site, k)
    if what != "arrive":
        s.last_tx = k
    elif p.con.get(t.cls, t.time) < t.time and p.again is None:
        p.again = (t.cls, t.time, site)
    p.con[t.cls] = t.time
    return p


def phase_nobody_waits_for(run: Run, t: LaneClass, s: Barrier, site: int, k: int) -> None:
    """Strict: some wait for phase k - 1 precedes every arrival of phase k (B20, K14)."""
    if any(t.clock.knows(E, c, True) >= w[0] for c, w in s.waits.items()):
        return
    run.report(
        Obligation.O1,
        "SV207",
        f"nobody has waited for phase {k - 1} of {name(run, s.index)} before this arrival of phase {k}",
        t,
        site,
        barrier=s.index,
        phase=k,
        past=before(t),
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


def release(run: Run, t: LaneClass, s: Barrier, p: Phase, flags: int, site: int) -> None:
    """Hands on what an arrival releases; a relaxed one only enables (PTX ISA: mbarrier.arrive)."""
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
        across_blocks(full)
    p.remote = True
    if p.far is None:
        p.far = matrix(run.columns)
    if wide:
        np.maximum(p.far, full, out=p.far)
    else:
        run.narrow[t.cls, cta] = site
    np.maximum(p.m, narrowed(run, full), out=p.m)


def narrowed(run: Run, full: Matrix) -> Matrix:
    """What crosses CTAs at cta scope: enablement; in practical mode completed async accesses too (K4)."""
    part = full.copy()
    part[H, : run.columns.classes] = 0
    part[A] = part[AG] = part[SH] = part[SA] = part[SG] = 0
    return part


def on_arrive(run: Run, t: LaneClass, event: Event) -> int:
    _, site, b, count, nbytes, flags = event
    s = barrier(run, b)
    t.syncs.append(t.time)
    if not use(run, t, s, site):
        return DONE
    t.answer = given(s.auto.phase, b)
    s.lanes[t.cls] = max(s.lanes.get(t.cls, 0), count * t.n)
    if nbytes >= 0 and t.n > 1:
        for _ in range(t.n):  # each lane announces, then arrives: the phase may end between two lanes
            expect(run, t, s, site, nbytes)
            arrive(run, t, s, site, 1, count, flags)
        return DONE
    if nbytes >= 0:
        expect(run, t, s, site, nbytes)
    arrive(run, t, s, site, t.n, count, flags)
    return DONE


def arrive(run: Run, t: LaneClass, s: Barrier, site: int, lanes: int, count: int, flags: int) -> None:
    """``lanes`` arrivals of ``count`` each; lanes beyond the pending count arrive in the next phase.

    One arrival never spans two phases: a count above the pending one is out of range (B17).
    """
    s.arrivals[site] = s.arrivals.get(site, 0) + lanes * count
    s.lanes[t.cls] = max(s.lanes.get(t.cls, 0), lanes * count)
    run.contributors.setdefault(("wait", s.index), set()).add(t.cls)
    while lanes > 0:
        fit = min(lanes, s.auto.pending // count) if count > 0 else 0
        if fit == 0:
            surplus_arrival(run, t, s, site)
            return
        p = contribute(run, t, s, site, "arrive")
        take = fit * count
        lanes -= fit
        after_silent_phase(t, p, each=take == t.n * count)
        release(run, t, s, p, flags, site)
        p.arrived[t.cls] = p.arrived.get(t.cls, 0) + take
        p.sites[site] = p.sites.get(site, 0) + take
        if count != 1 or flags & (NO_COMPLETE | DROP):
            s.uneven = True
        if flags & NO_COMPLETE:
            p.quiet.append([t.cls, t.time, site, 0])
        if flags & NO_COMPLETE and take == s.auto.pending and s.auto.tx == 0:
            run.report(
                Obligation.UB,
                "SV202",
                f"arrive.noComplete completes phase {s.auto.phase} of {name(run, s.index)}",
                t,
                site,
                barrier=s.index,
            )
        if flags & DROP and s.auto.count <= take:
            run.report(
                Obligation.UB,
                "SV202",
                f"arrive.drop leaves {name(run, s.index)} without any expected arrival",
                t,
                site,
                barrier=s.index,
            )
        if s.auto.arrive(take, bool(flags & DROP)):
            complete_phase(run, s, t.cls, t.time, site)
        elif s.auto.pending == 0:
            drained(run, s, site)


def after_silent_phase(t: LaneClass, p: Phase, *, each: bool) -> None:
    """O4 (d): notes that this arrival comes after an arrive.noComplete of its phase. ``each``: all lanes of
    the class arrive, so that each lane's own arrival comes after its own arrive.noComplete."""
    for q in p.quiet:
        if (q[0] == t.cls and each) or t.clock.knows(E, q[0], q[0] == t.cls and t.n == 1) >= q[1]:
            q[3] = 1


def expect(run: Run, t: LaneClass, s: Barrier, site: int, nbytes: int) -> None:
    """The expect-tx operation: a relaxed contribution that never completes a phase."""
    p = contribute(run, t, s, site, "expect")
    t.clock.hand_row(E, p.tx)
    s.auto.expect(nbytes)
    s.bytes_expected += nbytes
    s.expect_sites[site] = s.expect_sites.get(site, 0) + 1
    p.sum_expect += nbytes
    p.expects.append(Expect(t.cls, t.time, nbytes, site, before(t)))
    check_range(run, t, s, p, site)


def on_expect_tx(run: Run, t: LaneClass, event: Event) -> int:
    _, site, b, nbytes = event
    s = barrier(run, b)
    if use(run, t, s, site):
        expect(run, t, s, site, nbytes * t.n)
    return DONE


def on_complete_tx(run: Run, t: LaneClass, event: Event) -> int:
    """complete_tx by a thread: counts bytes as a copy would (PTX ISA: mbarrier.complete_tx)."""
    _, site, b, nbytes = event
    s = barrier(run, b)
    if use(run, t, s, site):
        p = contribute(run, t, s, site, "complete")
        t.clock.hand_row(E, p.tx)
        landed(run, s, p, nbytes * t.n, t.clock.m[E].copy(), site, t)
    return DONE
