"""How phases of mbarriers end: completions of copies, the accounting (O4), and lapping (O3)."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import numpy as np

from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.handlers.mbarriers import (
    NOINC,
    Barrier,
    Phase,
    barrier,
    knows_phase,
    name,
)
from syncverify.checker.happens_before.handlers.waits import waits_by_token
from syncverify.checker.happens_before.run import AsyncOperation, LaneClass, Run, before
from syncverify.checker.happens_before.vector_clocks import HW, INHERITED, E, H, Matrix
from syncverify.model.automata.mbarrier import LIMIT


def surplus_arrival(run: Run, t: LaneClass, s: Barrier, site: int) -> None:
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


def check_range(run: Run, t: LaneClass, s: Barrier, p: Phase, site: int) -> None:
    """O4 (c): the transaction count stays in range, in this order and in every other (PTX ISA: tx-count)."""
    over = abs(s.auto.tx) > LIMIT
    if over or max(p.sum_expect, p.sum_complete) > LIMIT:
        run.report(
            Obligation.OVERFLOW if over else Obligation.O4,
            "SV203",
            f"the transaction count of {name(run, s.index)} {'exceeds' if over else 'may exceed'} {LIMIT}",
            t,
            site,
            barrier=s.index,
            phase=s.auto.phase,
            past=before(t),
        )


def complete_async(run: Run, op: AsyncOperation) -> None:
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
        if k >= 1 and not knows_phase(run, op.known, s, k - 1):
            run.report(
                Obligation.O1,
                "SV203",
                f"this copy may complete in phase {k} or {k - 1} of {name(run, b)}: nothing puts it behind "
                f"the end of phase {k - 1}",
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
            run.landed[record.tag, run.info.barriers[b].cta] = k + 1
        landed(run, s, p, nbytes, op.known, op.site, t)
    if op.arrivals:
        _land_arrival(run, op)
    if not op.landed:
        op.landed = [(r.tag, r.tag_value) for r in op.records]


def _land_arrival(run: Run, op: AsyncOperation) -> None:
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
            surplus_arrival(run, op.thread, s, op.site)
            return
        if k >= 1 and not knows_phase(run, op.known, s, k - 1):
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
        # The net-zero form is no arrival that could hold its own increment back.
        row = p.m[E] if op.number == NOINC else p.tx
        np.maximum(row, op.past, out=row)
        p.m[H : HW + 1, column] = np.maximum(p.m[H : HW + 1, column], value)
        p.asynchronous = True
        s.async_phase = k
        op.landed.append((s.column, k + 1))
        take = min(n, s.auto.pending)
        p.arrived[op.thread.cls] = p.arrived.get(op.thread.cls, 0) + take
        if s.auto.arrive(take):
            complete_phase(run, s, op.thread.cls, op.thread.time, op.site)
        elif s.auto.pending == 0:
            drained(run, s, op.site)
        n -= take


def landed(run: Run, s: Barrier, p: Phase, nbytes: int, past: Matrix, site: int, t: LaneClass) -> None:
    """Bytes count down; the phase may end."""
    s.bytes_completed += nbytes
    p.sum_complete += nbytes
    p.completions.append((nbytes, past, site, t.n))
    check_range(run, t, s, p, site)
    if s.auto.complete_tx(nbytes):
        complete_phase(run, s, t.cls, t.time, site)


def drained(run: Run, s: Barrier, site: int) -> None:
    """The last arrival came while bytes are outstanding."""
    s.phases[0].drained = True


def check_accounting(run: Run, s: Barrier, p: Phase, k: int) -> None:
    """O4 (a): every expect precedes some arrival of its phase, or the phase is held open meanwhile."""
    arrivals = p.m[E]
    held = sum(e.bytes for e in p.expects if arrivals[e.cls] >= e.time)
    known: dict[int, tuple[list[int], list[int]]] = {}  # by class: what copies know of it; bytes up to there
    for e in p.expects:
        if arrivals[e.cls] >= e.time:
            continue
        if e.cls not in known:
            order = sorted((int(past[e.cls]), n) for n, past, _, _ in p.completions)
            known[e.cls] = [time for time, _ in order], [0, *accumulate(n for _, n in order)]
        times, sums = known[e.cls]
        if held > sums[bisect_left(times, e.time)]:
            continue
        t = run.threads[e.cls]
        f = run.report(
            Obligation.O4,
            "SV206",
            f"phase {k} of {name(run, s.index)} can complete before these {e.bytes} bytes are announced: "
            "no arrival "
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


def complete_phase(run: Run, s: Barrier, cls: int, time: int, site: int) -> None:
    """A phase completes: O4 and O3, then the next phase opens and waiters go on."""
    k = s.auto.phase
    p = s.phases[0]
    if p.expects:
        check_accounting(run, s, p, k)
    for who, when, where, followed in p.quiet:
        if not followed and who != cls:
            f = run.report(
                Obligation.O4,
                "SV202",
                f"this arrive.noComplete may be what completes phase {k} of {name(run, s.index)}: "
                "no other arrival of the phase comes after it",
                run.threads[who],
                where,
                barrier=s.index,
                phase=k,
                past=p.m[E].copy(),
                withheld=True,
            )
            f.time = when
    np.maximum(p.m[E], p.tx, out=p.m[E])
    acc = p.m[E]
    for c, (when, wsite, past) in s.waits.items():
        if acc[c] < when:
            w = run.threads[c]
            both = np.maximum(past, acc)
            both[c] = min(int(both[c]), when - 1)
            both[s.column] = max(int(both[s.column]), k + 1)  # copies that complete the phase, too
            meant = f"phase {k - 1} of {name(run, s.index)}"
            if k == 0:
                meant = f"the phase before phase 0 of {name(run, s.index)}, which is over from the start"
            seen = "it would then see the same parity again and sleep"
            if waits_by_token(run, wsite):
                seen = "its token is then of a phase before the last, which no wait may ask for"
            f = run.report(
                Obligation.O3,
                "SV201",
                f"{w.info.name} waits for {meant}, but phase {k} can complete before it looks: {seen}",
                w,
                wsite,
                barrier=s.index,
                phase=k - 1,
                past=both,
                labels=[(site, f"completes phase {k}")] if site not in (-1, wsite) else [],
                fix="let every waiter arrive on a barrier that the next phase needs, after its wait, "
                "or let only those wait that do",
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
