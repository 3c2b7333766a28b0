"""Asynchronous operations in a run: cp.async, bulk and TMA copies, st.async, wgmma, and their groups."""

from __future__ import annotations

import numpy as np

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before import access_merging as groups
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.handlers.accesses import (
    access,
    only_judged,
    overlapping_copies,
    touch_barriers,
)
from syncverify.checker.happens_before.handlers.contributions import contribute
from syncverify.checker.happens_before.handlers.execution_barriers import meet
from syncverify.checker.happens_before.handlers.global_memory import bulk_read, bulk_write, early
from syncverify.checker.happens_before.handlers.mbarriers import NET_ZERO, NOINC, Expect, barrier, use
from syncverify.checker.happens_before.handlers.tensor_maps import use_map
from syncverify.checker.happens_before.run import (
    DONE,
    RETRY,
    AsyncOperation,
    LaneClass,
    Run,
    before,
)
from syncverify.checker.happens_before.shadow import IN_FLIGHT, Record
from syncverify.checker.happens_before.vector_clocks import PROGRESS, E, Matrix
from syncverify.model.automata.async_groups import Groups
from syncverify.model.events import MOVED, PLACED, TAKEN, Event
from syncverify.model.proxies import Access, Scope


def column(run: Run, t: LaneClass, kind: str) -> int:
    """The clock column of a class's group counter."""
    c = t.columns.get(kind)
    if c is None:
        # wgmma groups belong to the warp as a whole, the others to each thread.
        key = (t.info.cta, t.info.warp) if kind == "mma" else (t.cls,)
        c = t.columns[kind] = run.columns.of(kind, *key)
        t.clock.owns(c)
    return c


def start(
    run: Run,
    t: LaneClass,
    site: int,
    records: tuple[Record, ...],
    targets: list[tuple[int, int, Record | None]],
    past: Matrix | None = None,
) -> AsyncOperation:
    """Puts an operation in flight. ``past``: what comes before it, if that is known."""
    past = t.clock.past() if past is None else past
    op = AsyncOperation(0, t, t.asyncs, site, past, t.clock.m[E].copy(), targets, records=records)
    t.asyncs += 1
    return op


def _access(run: Run, t: LaneClass, r: Record) -> None:
    access(run, t, r)
    touch_barriers(run, t, r)


# ------------------------------------------------------------------ bulk and TMA


def on_bulk_load(run: Run, t: LaneClass, event: Event) -> int:
    """Global to shared: an async-proxy write that completes on a barrier beside its destination."""
    _, site, copies, source, number = event
    records: list[Record] = []
    targets: list[tuple[int, int, Record | None]] = []
    early(run, t, site, reads=True)
    for fp, b, nbytes in copies:
        s = barrier(run, b)
        use(run, t, s, site)
        r = Record(Access.ASYNC_WRITE, t.cls, t.time, fp, site, tag=s.column, tag_value=IN_FLIGHT)
        if fp >= 0:
            _access(run, t, r)
            records.append(r)
        targets.append((b, nbytes * t.n, r))
    if source >= 0:
        targets.append((-1, 0, bulk_read(run, t, site, source, records[0].tag, IN_FLIGHT)))
    if records:
        use_map(run, t, site, number, records[0])
    run.launch(start(run, t, site, tuple(records), targets))
    return DONE


def on_bulk_store(run: Run, t: LaneClass, event: Event) -> int:
    """Shared to global: reads its source until a bulk group's read completion."""
    _, site, fp, target, descriptor, reduction = event
    number = t.bulk.issue()
    t.last_bulk = site
    r = Record(Access.ASYNC_READ, t.cls, t.time, fp, site, tag=column(run, t, "bulk.read"), tag_value=number)
    _access(run, t, r)
    use_map(run, t, site, descriptor, r)
    write = bulk_write(run, t, site, target, column(run, t, "bulk.full"), number, bool(reduction), fp)
    sources = run.info.footprints[fp].lanes if fp >= 0 else ()
    # lanes that copy one source to one place write the same values
    if write is not None and t.n > 1 and sources and not reduction and not run.info.footprints[target].lanes:
        overlapping_copies(run, t, write)
    run.launch(start(run, t, site, (r,), []))
    return DONE


def on_bulk_copy(run: Run, t: LaneClass, event: Event) -> int:
    """Shared to another CTA's shared memory; only the barrier there tells of its end (C4)."""
    _, site, source, target, b, nbytes, *reduction = event
    s = barrier(run, b)
    use(run, t, s, site)
    read = Record(Access.ASYNC_READ, t.cls, t.time, source, site, tag=s.column, tag_value=IN_FLIGHT)
    _access(run, t, read)
    write = Record(Access.ASYNC_WRITE, t.cls, t.time, target, site, tag=s.column, tag_value=IN_FLIGHT)
    write.atomic, write.scope = bool(reduction), Scope.CLUSTER  # its elements are relaxed (B47)
    _access(run, t, write)
    run.launch(start(run, t, site, (read, write), [(b, nbytes * t.n, write), (-1, 0, read)]))
    return DONE


def on_bulk_commit(run: Run, t: LaneClass, event: Event) -> int:
    t.bulk.commit()
    return DONE


def on_bulk_wait(run: Run, t: LaneClass, event: Event) -> int:
    """Source reads of the covered groups are done; without .read their writes too (PTX ISA: wait_group)."""
    _, site, pending, read = event
    _idle(t, t.bulk, "bulk", site)
    covered = t.bulk.covered(pending)
    t.clock.advance(column(run, t, "bulk.read"), covered)
    if not read:
        t.clock.advance(column(run, t, "bulk.full"), covered)
    t.syncs.append(t.time)
    return DONE


def _idle(t: LaneClass, groups: Groups, kind: str, site: int) -> None:
    t.group_waits.setdefault(kind, set()).add(site)
    if groups.issued == 0:
        t.idle_waits.setdefault(kind, site)


# ------------------------------------------------------------------ cp.async, st.async


def on_cp_async(run: Run, t: LaneClass, event: Event) -> int:
    _, site, fp, source = event
    early(run, t, site, reads=True)
    if source >= 0:
        access(run, t, Record(Access.GENERIC_READ, t.cls, t.time, source, site, used=t.time))
    r = Record(
        Access.CPASYNC_WRITE, t.cls, t.time, fp, site, tag=column(run, t, "cp"), tag_value=t.cp.issue()
    )
    _access(run, t, r)
    run.launch(start(run, t, site, (r,), []))
    return DONE


def on_cp_commit(run: Run, t: LaneClass, event: Event) -> int:
    t.cp.commit()
    return DONE


def on_cp_wait(run: Run, t: LaneClass, event: Event) -> int:
    _idle(t, t.cp, "cp", event[1])
    t.clock.advance(column(run, t, "cp"), t.cp.covered(event[2]))
    t.syncs.append(t.time)
    return DONE


def on_cp_arrive(run: Run, t: LaneClass, event: Event) -> int:
    """An arrival once this thread's cp.asyncs are done; the default form first adds to the pending count."""
    _, site, b, noinc = event
    s = barrier(run, b)
    if not use(run, t, s, site):
        return DONE
    if not noinc:
        p = contribute(run, t, s, site, "cp")
        t.clock.hand_row(E, p.tx)
        s.auto.pending += t.n
        s.net_zero += t.n
        p.expects.append(Expect(t.cls, t.time, 0, site, before(t)))
    op = AsyncOperation(
        0,
        t,
        NOINC if noinc else NET_ZERO,
        site,
        t.clock.past(),
        t.clock.m[E].copy(),
        [],
        arrivals=b << 32 | t.n,
        covers=(column(run, t, "cp"), t.cp.issued),
    )
    run.launch(op)
    return DONE


def on_st_async(run: Run, t: LaneClass, event: Event) -> int:
    """A store into another CTA that completes on a barrier there; generic proxy (B52)."""
    _, site, fp, b, nbytes, reduction = event
    s = barrier(run, b)
    use(run, t, s, site)
    r = Record(Access.STASYNC_WRITE, t.cls, t.time, fp, site, tag=s.column, tag_value=IN_FLIGHT)
    r.atomic, r.scope = bool(reduction), Scope.CLUSTER  # red.async is relaxed.cluster (B52)
    _access(run, t, r)
    run.launch(start(run, t, site, (r,), [(b, nbytes * t.n, r)]))
    return DONE


# ------------------------------------------------------------------ wgmma


def siblings(run: Run, t: LaneClass) -> list[LaneClass]:
    """The other classes of the warpgroup that issue wgmmas."""
    others = [run.threads[c] for c in run.warpgroups[t.cls] if c != t.cls]
    return [o for o in others if not (o.done and not o.issues)]


def on_wgmma_fence(run: Run, t: LaneClass, event: Event) -> int:
    """Orders the registers touched so far before the next wgmma; nothing in shared memory (K7)."""
    if meet(run, t, event) == RETRY:
        return RETRY
    t.fenced = True
    for state in t.fragments.values():
        state[1] = 0
    return DONE


def on_wgmma(run: Run, t: LaneClass, event: Event) -> int:
    """An asynchronous matrix product: reads through the async proxy, owns its registers until a wait."""
    _, site, acc, fp_a, frag_a, fp_b, accumulates, others, *declared = event
    if meet(run, t, event) == RETRY:
        return RETRY
    number = t.mma.issue()
    past = t.clock.past()
    t.issues.append(past)
    shown = run.options.merges_equivalent_accesses and not declared  # by data flow
    _same_operands(run, t, number, site, () if shown else (fp_b, int(accumulates), *declared))
    before_it, t.last_mma = t.last_mma, site
    tag = column(run, t, "mma")
    records = tuple(
        [
            Record(Access.MMA_READ, t.cls, t.time, fp, site, tag=tag, tag_value=number, lane_free=True)
            for fp in (fp_a, fp_b, others)
            if fp >= 0
        ]
    )
    if others >= 0:
        records[-1].strict_rows_only = True
    late = run.options.merges_equivalent_accesses and all(
        run.info.footprints[r.fp].memory == t.info.cta for r in records
    )
    if late:
        run.late.setdefault(t.cls, len(t.products))
    for r in records:
        (only_judged if late else access)(run, t, r)
        touch_barriers(run, t, r)
    if run.options.merges_equivalent_accesses:
        t.products += records
    for frag in (acc, frag_a):
        if frag < 0:
            continue
        state = t.fragments.setdefault(frag, [0, 0])
        if state[1] or not t.fenced:
            copied = t.fenced and state[1] == _COPIED
            how = "copied to" if copied else "touched"
            fragment = run.info.fragments[frag] if frag < len(run.info.fragments) else str(frag)
            run.report(
                Obligation.UB,
                "SV402",
                f"registers of {fragment} were {how} since the last wgmma.fence"
                if t.fenced
                else "the first wgmma needs a wgmma.fence before it",
                t,
                site,
                severity=Severity.WARNING if copied else Severity.ERROR,
                strict_only=copied,
                contested="K25" if copied else None,
                labels=[(before_it, "the last wgmma before it")] if before_it not in (-1, site) else [],
                fix="wgmma.fence before it",
            )
            state[1] = 0
        state[0] = number
    if not run.options.merges_equivalent_accesses:  # or else nobody asks for one of a group
        run.launch(start(run, t, site, records, [], past))
    return DONE


def _same_operands(run: Run, t: LaneClass, number: int, site: int, operands: tuple[int, ...]) -> None:
    """The threads of a warpgroup execute one wgmma with the same descriptors, and add to the accumulator or
    not alike (PTX ISA: wgmma.mma_async)."""
    t.operands.append(operands)
    for c in run.warpgroups[t.cls]:
        o = run.threads[c]
        if o is not t and len(o.operands) >= number and o.operands[number - 1] != operands:
            run.report(
                Obligation.UB,
                "SV303",
                f"{t.info.name} and {o.info.name} execute one wgmma with different descriptors or scale-d",
                t,
                site,
                fix="make them of values that are the same in all four warps, by shfl.sync.idx for example",
            )
            return


def uncompared_operands(run: Run, t: LaneClass) -> tuple[tuple[int, ...], ...]:
    """What the wgmmas of a class name that some other class of its warpgroup has yet to execute."""
    others = [run.threads[c] for c in run.warpgroups[t.cls] if c != t.cls]
    left = [len(o.operands) for o in others if not o.done]
    return tuple(t.operands[min(left) :]) if left else ()


def on_wgmma_commit(run: Run, t: LaneClass, event: Event) -> int:
    if meet(run, t, event) == RETRY:
        return RETRY
    t.mma.commit()
    groups.merge_operand_reads(run, t)
    for o in siblings(run, t):
        if o.waits_on[:1] == ("mma",):
            run.wake(o)
    return DONE


def on_wgmma_wait(run: Run, t: LaneClass, event: Event) -> int:
    """The covered groups are complete for every thread that waits (PTX ISA: wgmma.wait_group).

    A wgmma is one operation of four warps: it completes only after all of them have issued and committed it.
    """
    _, site, pending = event
    if meet(run, t, event) == RETRY:
        return RETRY
    _idle(t, t.mma, "mma", site)
    c = column(run, t, "mma")
    covered = t.mma.covered(pending)
    if len(t.mma.committed) > pending and not run.after_hang:
        others = siblings(run, t)
        needed = len(t.mma.committed) - pending
        if any(len(o.mma.committed) < needed and not o.done for o in others):
            t.waits_on = ("mma", covered)
            return RETRY
        for o in others:
            if 0 < covered <= len(o.issues):
                np.maximum(t.clock.m[E], o.issues[covered - 1], out=t.clock.m[E])
    t.clock.advance(c, covered)
    rows = t.clock.m[PROGRESS, c]
    np.maximum(rows, covered, out=rows)  # a warp-wide wait: every lane's knowledge
    t.syncs.append(t.time)
    return DONE


#: What befell the registers of a wgmma since the last fence: copies wrote them, or there was another access.
_COPIED, _TOUCHED = 2, 1


def _touch_fragment(run: Run, t: LaneClass, site: int, frag: int, verb: str, how: int = 0) -> int:
    """``how``: MOVED and PLACED are copies, which an assembler may leave out or order by itself (K25)."""
    state = t.fragments.setdefault(frag, [0, 0])
    if how in (PLACED, TAKEN):
        state[1] = _COPIED if how == PLACED and state[1] != _TOUCHED else _TOUCHED
        return DONE
    moved = how == MOVED
    waited = t.clock.knows(E, column(run, t, "mma"), True)
    if state[0] > waited:
        label = run.info.fragments[frag] if frag < len(run.info.fragments) else str(frag)
        run.report(
            Obligation.UB,
            "SV401",
            f"{label} is {verb} while a wgmma that owns its registers is in flight",
            t,
            site,
            severity=Severity.WARNING if moved else Severity.ERROR,
            strict_only=moved,
            contested="K25" if moved else None,
            labels=[(t.last_mma, "in flight from here on")] if t.last_mma >= 0 else [],
            fix="wgmma.wait before it",
        )
    if not moved:
        state[1] = _TOUCHED
    return DONE


def on_frag_read(run: Run, t: LaneClass, event: Event) -> int:
    return _touch_fragment(run, t, event[1], event[2], "read")


def on_frag_write(run: Run, t: LaneClass, event: Event) -> int:
    return _touch_fragment(run, t, event[1], event[2], "written", *event[3:])
