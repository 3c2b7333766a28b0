"""Accesses to shared memory: what each must know of the ones before it, as the ordering table says."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before import access_merging, effect_log, footprint_partition
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.race_findings import (
    may_store_one_value,
    overlaps_whole,
    place,
    report_race,
    what,
)
from syncverify.checker.happens_before.reads_from import is_read_by_ordered_access
from syncverify.checker.happens_before.run import DONE, LaneClass, Run, before, scope_between
from syncverify.checker.happens_before.shadow import IN_FLIGHT, LOST, Record, Shadow, same_lanes
from syncverify.checker.happens_before.undetermined import (
    lanes_store_differently,
    report_undetermined,
    words_matter,
)
from syncverify.checker.happens_before.vector_clocks import AG, SA, SG, SH, XG, A, E, H
from syncverify.model.events import GLOBAL_MEMORY, NEVER, NO_ARRIVAL_NEEDED, Event, Footprint
from syncverify.model.ordering import Need, Ordering, ordering
from syncverify.model.proxies import Access

GR, GW = Access.GENERIC_READ, Access.GENERIC_WRITE


def access(run: Run, t: LaneClass, record: Record) -> None:
    """Judges an access against the shadow, then enters it."""
    fp = run.info.footprints[record.fp]
    shadow = run.shadow(fp.memory)
    if run.info.flag_chain and fp.memory == GLOBAL_MEMORY:
        footprint_partition.check(run, record, lambda first: _follows(run, t, first, record))
    if run.info.modular_cluster and fp.memory == GLOBAL_MEMORY:
        effect_log.tracked_access(run, t, record)
    record.position = len(run.trace)
    meet = _overwrite if record.kind.writes else _read
    clean: set[Record] = set()  # accesses that come before this one wherever they meet
    for lo, hi in fp.cover or fp.intervals:
        meet(run, t, record, shadow, lo, hi, clean)
    if fp.memory not in (GLOBAL_MEMORY, t.info.cta):
        run.remote_uses[t.cls, fp.memory] = (t.time, record.site, before(t))
        must_have_started(run, t, fp.memory, record.site)
        if not record.kind.asynchronous:
            record.column = run.columns.of("remote", t.cls, fp.memory)
            t.clock.advance(record.column, t.time)
    if record.fresh and t.suspect is not None and fp.memory != GLOBAL_MEMORY:
        record_early_access(run, t)
    if record.kind.writes and record.atomic and fp.overlap:
        lanes_store_differently(run, t, record)
    if not record.kind.writes or record.atomic:
        return
    shared = fp.memory != GLOBAL_MEMORY or bool(
        fp.lanes
    )  # elsewhere it depends on their sources: on_bulk_store
    if record.kind.asynchronous and t.n > 1 and shared and lanes_overlap(fp):
        overlapping_copies(run, t, record)
    elif fp.overlap:
        run.report(
            Obligation.RACE,
            "SV112",
            "lanes of one instruction write different values to the same bytes",
            t,
            record.site,
            second=record,
            fix="give each lane bytes of its own, or let one lane store",
        )
    elif fp.alike:
        run.report(
            Obligation.RACE,
            "SV112",
            "lanes of one instruction write the same bytes: with one value, but still unordered",
            t,
            record.site,
            severity=Severity.NOTE if record.site in run.info.equal_stores else Severity.WARNING,
            strict_only=True,
            second=record,
            fix="let one lane store it",
        )


def only_judged(run: Run, t: LaneClass, record: Record) -> None:
    """Judges a read of the class's own shared memory, and leaves it to be entered later."""
    fp = run.info.footprints[record.fp]
    shadow = run.memory.get(fp.memory) or run.shadow(fp.memory)
    record.position = len(run.trace)
    clean: set[Record] = set()
    for lo, hi in fp.cover or fp.intervals:
        _look(run, t, record, shadow, lo, hi, clean)
    if record.fresh and t.suspect is not None:
        record_early_access(run, t)


def only_entered(run: Run, record: Record) -> None:
    """Enters a read for what comes after it: the writes before it are judged elsewhere."""
    fp = run.info.footprints[record.fp]
    record.position = len(run.trace)
    for lo, hi in fp.intervals:
        run.shadow(fp.memory).read(lo, hi, record)


def _read(
    run: Run, t: LaneClass, record: Record, shadow: Shadow, lo: int, hi: int, clean: set[Record]
) -> None:
    """Judges a read of ``lo..hi``, then enters it."""
    _look(run, t, record, shadow, lo, hi, clean)
    shadow.read(lo, hi, record)


def _look(
    run: Run, t: LaneClass, record: Record, shadow: Shadow, lo: int, hi: int, clean: set[Record]
) -> None:
    """Judges a read of ``lo..hi`` against the writes there."""
    written = 0
    for s in shadow.overlapping(lo, hi):
        w = s.write
        if w is not None:
            a, b = s.lo, s.hi
            if a < lo:
                a = lo
            if b > hi:
                b = hi
            written += b - a
            if w not in clean and judge(run, t, w, record, a, b):
                clean.add(w)
            if w.atomic or run.info.footprints[w.fp].slots:
                for r in s.reads.values():
                    if r.kind.writes and r not in clean and judge(run, t, r, record, a, b):
                        clean.add(r)
    record.fresh = record.fresh or written < hi - lo


def _overwrite(
    run: Run, t: LaneClass, record: Record, shadow: Shadow, lo: int, hi: int, clean: set[Record]
) -> None:
    """Judges a write of ``lo..hi`` against all accesses there, then enters it."""
    same_store = run.info.footprints[record.fp].slots != 0  # it follows not all that it lies over
    for s in shadow.overlapping(lo, hi):
        a, b = max(s.lo, lo), min(s.hi, hi)
        w = s.write
        if w is not None:
            record.over = w
            same_store = same_store or _may_store_together(run, t, w, record)
            if w not in clean and judge(run, t, w, record, a, b):
                clean.add(w)
        for r in s.reads.values():
            same_store = same_store or _may_store_together(run, t, r, record)
            if r not in clean and judge(run, t, r, record, a, b):
                clean.add(r)
    shadow.write(lo, hi, record, same_store)


def _may_store_together(run: Run, t: LaneClass, first: Record, second: Record) -> bool:
    """Whether a store leaves an earlier access on record, since it does not represent it.

    Two lanes may execute one store at the same time: with one value that is taken for no race. So a third
    one that executes it need not follow what the second one follows, unless all know of that.
    """
    if first.site != second.site:
        return (
            second.kind == GW and may_store_one_value(run.info, second.site) and not _known_to_all(run, first)
        )
    return first.kind == second.kind == GW and not _plainly_known(run, t, first, Need.ORDER)


def _known_to_all(run: Run, first: Record) -> bool:
    """Whether no class may store beside an access any more, other lanes of its own class included."""
    need = ordering(first.kind, GW).need
    return need is Need.NOTHING or all(_plainly_known(run, o, first, need) for o in run.threads)


def must_have_started(run: Run, t: LaneClass, cta: int, site: int) -> None:
    """Another CTA's shared memory exists once some thread there is known to run (B25)."""
    row = t.clock.m[E]
    if not any(row[o.cls] for o in run.threads if o.info.cta == cta):
        run.report(
            Obligation.UB,
            "SV114",
            f"the shared memory of cta{cta} may not exist yet: nothing shows that it runs",
            t,
            site,
            fix="a cluster barrier before the first access to another CTA's shared memory",
        )


def overlapping_copies(run: Run, t: LaneClass, record: Record) -> None:
    """Reports lanes that each start a copy to common bytes."""
    fp = run.info.footprints[record.fp]
    run.report(
        Obligation.RACE,
        "SV112",
        f"{t.n} lanes each start this copy, and their writes overlap in "
        f"{place(run, fp.memory, fp.intervals[0][0], record.site)}",
        t,
        record.site,
        second=record,
        fix="let one elected lane issue it",
    )


def lanes_overlap(fp: Footprint) -> bool:
    """Whether two lanes touch a common byte."""
    return not fp.lanes or sum(hi - lo for lo, hi, _ in fp.lanes) > fp.bytes


def record_early_access(run: Run, t: LaneClass) -> None:
    """The last wait of this class let it through without any phase, and it relied on it."""
    assert t.suspect is not None
    time, position, site, b = t.suspect
    run.suspects.append((position, t.cls, time, site, b))
    t.suspect = None


def judge(run: Run, t: LaneClass, first: Record, second: Record, lo: int, hi: int) -> bool:
    """One pair of accesses to ``lo..hi``; true if they may meet anywhere else too."""
    row = ordering(first.kind, second.kind)
    if (
        row.need is Need.NOTHING
        or (_plainly_known(run, t, first, row.need) and not _needs_fence_here(run, t, first, second))
        or ((strong := mutually_atomic(run, first, second, lo, hi)) and not words_matter(run, first, second))
    ):
        return True
    if _at_slots(run, first, second):
        return True
    if first.parts:
        return access_merging.judged(
            run.info, first, lo, hi, lambda part: judge(run, t, part, second, lo, hi)
        )
    if first.barrier >= 0 and run.barriers[first.barrier].auto.live and second.barrier < 0:
        return True  # data over a live barrier is reported as such
    own = first.cls == t.cls
    anywhere = True
    if own and t.clock.multi and not second.lane_free and not first.lane_free:
        own = anywhere = _lanes_agree(run, first.fp, second.fp)
        if not own:
            fps = run.info.footprints
            own = same_lanes(fps[first.fp], fps[second.fp], lo, hi)
    if _one_copy(run, t, first, second):
        return False
    if _mixed_atomics(run, t, first, second, own):
        return False
    ordered, bridged = known(run, t, first, row.need, own, strict=False)
    if strong:
        if not ordered and really_meet(run, first, second, lo, hi):
            report_undetermined(run, t, first, second)
        return ordered and anywhere
    if ordered and bridged:
        return _judge_strict(run, t, first, second, row, own, lo, hi) and anywhere
    if really_meet(run, first, second, lo, hi) and not is_read_by_ordered_access(run, t, first, second):
        ordered = ordered or (row.need is Need.BRIDGE and _before_product(run, t, first))
        report_race(run, t, first, second, row, ordered, lo, hi)
    return False


def _at_slots(run: Run, first: Record, second: Record) -> bool:
    """Whether two accesses by different threads meet nowhere, or are ordered where they meet; those of one
    thread are in any case."""
    slots = run.info.footprints[first.fp].slots
    return slots != 0 and slots == run.info.footprints[second.fp].slots


def _before_product(run: Run, t: LaneClass, first: Record) -> bool:
    """Whether a wgmma that its warpgroup executed after a read is known to be complete, and the value of
    the read may still be on its way: then the fence that is missing orders it too (K1, K8)."""
    author = run.threads[first.cls]
    number, arrived = product_after(run, first)
    if arrived or not number:
        return False
    issued = int(author.issues[number - 1][first.cls])
    after = [x for x in author.syncs if x > issued]  # first the wait for the product
    then = after[1] if len(after) > 1 else author.time + 1
    if any(first.time < f.time < then for f in author.proxy_fences):
        return False  # it has fenced behind its wait for the product, but nobody knows
    return any(t.clock.m[H, c] >= number for c in mma_siblings(run, first.cls))


def _follows(run: Run, t: LaneClass, first: Record, second: Record) -> bool:
    """Whether an access comes after another, if they meet, or need not, for strict mode as well."""
    need = ordering(first.kind, second.kind).need
    return (
        need is Need.NOTHING
        or mutually_atomic(run, first, second, -(1 << 62), 1 << 62)
        or (
            known(run, t, first, need, False, strict=False)
            == known(run, t, first, need, False, strict=True)
            == (True, True)
            and not _needs_fence_here(run, t, first, second)
        )
    )


def _plainly_known(run: Run, t: LaneClass, first: Record, need: Need) -> bool:
    """Whether every lane knows all that even strict mode asks for: nearly always so, and cheap to see."""
    value = t.clock.m.item
    if need is Need.COMPLETION:
        return first.tag >= 0 and value(SH, first.tag) >= first.tag_value
    if need is Need.ORDER:
        return value(SH, first.cls) >= first.time
    if need is Need.BRIDGE and run.info.footprints[first.fp].memory != GLOBAL_MEMORY:
        column = first.cls if first.column < 0 else first.column
        return value(SH, first.cls) >= first.time and value(SA, column) >= first.time
    return False


def _lanes_agree(run: Run, first: int, second: int) -> bool:
    """Whether every byte that both footprints touch is touched by one and the same lane."""
    known = run.info.lanes_agree
    agree = known.get((first, second))
    if agree is None:
        a, b = run.info.footprints[first], run.info.footprints[second]
        agree = known[first, second] = same_lanes(a, b, -(1 << 62), 1 << 62)
    return agree


def really_meet(run: Run, first: Record, second: Record, lo: int, hi: int) -> bool:
    """Whether two accesses that were entered by covers touch a common byte of ``lo..hi``."""
    a, b = run.info.footprints[first.fp], run.info.footprints[second.fp]
    if not a.cover and not b.cover:
        return True
    return _common_byte(a.intervals, b.intervals, lo, hi)


def _common_byte(some: access_merging.Intervals, others: access_merging.Intervals, lo: int, hi: int) -> bool:
    """Whether intervals, sorted and disjoint each, have a byte of ``lo..hi`` in common."""
    i, j = (max(bisect_right(x, (lo, hi)) - 1, 0) for x in (some, others))
    while i < len(some) and j < len(others):
        (a, b), (c, d) = some[i], others[j]
        if a >= hi or c >= hi:
            return False
        if max(a, c, lo) < min(b, d, hi):
            return True
        if b < d:
            i += 1
        else:
            j += 1
    return False


def _one_copy(run: Run, t: LaneClass, first: Record, second: Record) -> bool:
    """One bulk store that several lanes of a warp start of one source, in classes apart: they write the same
    bytes with the same values (warps issue such copies as a whole).

    One that is started behind the other may find something else in its source.
    """
    if first.kind != Access.ASYNC_WRITE or second.kind != first.kind or first.site != second.site:
        return False
    fps, a, b = run.info.footprints, run.threads[first.cls].info, run.threads[second.cls].info
    if fps[first.fp].memory != GLOBAL_MEMORY or fps[first.fp].intervals != fps[second.fp].intervals:
        return False
    if first.cls == second.cls or (a.cta, a.warp) != (b.cta, b.warp):
        return False
    return _one_source(run, first, second) and t.clock.knows(H, first.cls, own_lane=False) < first.time


def _one_source(run: Run, first: Record, second: Record) -> bool:
    """Whether all lanes that start two copies bring the same bytes of one source."""
    if min(first.source, second.source) < 0:
        return False
    one, other = run.info.footprints[first.source], run.info.footprints[second.source]
    alike = one.memory == other.memory and one.intervals == other.intervals
    return alike and not one.lanes and not other.lanes


def _mixed_atomics(run: Run, t: LaneClass, first: Record, second: Record, own: bool) -> bool:
    """SV504: a generic atomic and a bulk reduction are never mutually atomic (A3); true if judged."""
    if not (first.atomic and second.atomic) or first.kind.proxy == second.kind.proxy:
        return False
    if not known(run, t, first, Need.ORDER, own, strict=False)[0]:
        run.report(
            Obligation.RACE,
            "SV504",
            f"{what(run, second)} and {what(run, first)} are atomic each in its own "
            "proxy only: an update may be lost",
            t,
            second.site,
            first=first,
            second=second,
        )
    return True


def mutually_atomic(run: Run, first: Record, second: Record, lo: int, hi: int) -> bool:
    """Two strong accesses of one proxy to whole words, whose scopes include each other's thread (A3)."""
    if not (first.atomic and second.atomic) or first.kind.proxy != second.kind.proxy:
        return False
    a, b = run.threads[first.cls].info.cta, run.threads[second.cls].info.cta
    wide = min(first.scope, second.scope) >= scope_between(run, a, b)
    return wide and overlaps_whole(run, first, second, lo, hi)


def known(run: Run, t: LaneClass, first: Record, need: Need, own: bool, *, strict: bool) -> tuple[bool, bool]:
    """Whether the first access is ordered before this point, and whether it is bridged to the async proxy."""
    clock = t.clock
    h, a = (SH, SA) if strict else (H, A)
    if run.info.footprints[first.fp].memory == GLOBAL_MEMORY:
        a = (XG if _of_another_block(run, t, first) else SG) if strict else AG
    if first.kind.asynchronous:
        ordered = completion_known(run, t, first, h, own, strict)
        if need != Need.COMPLETION_BRIDGE or not ordered:
            return ordered, True
        return True, first.tag_value <= clock.knows(a, first.tag, own)
    ordered = own or clock.knows(h, first.cls, False) >= first.time
    # loose states are compared without what hands reads on
    plain = not (strict or run.options.weak_completion_knowledge)
    if plain and not ordered and first.kind == GR and _handed_by_product(run, t, first, need):
        return True, True
    if need != Need.BRIDGE or not ordered:
        return ordered, True
    if clock.knows(a, first.cls if first.column < 0 else first.column, own) >= first.time:
        return True, True
    return True, not strict and first.kind == GR and _used_before(run, t, first, own)


def _of_another_block(run: Run, t: LaneClass, first: Record) -> bool:
    return run.threads[first.cls].info.cta != t.info.cta


def _needs_fence_here(run: Run, t: LaneClass, first: Record, second: Record) -> bool:
    """K16, strict: whether an asynchronous access lacks a proxy fence of its own block, made once it knew
    that an asynchronous write of global memory by another block is complete."""
    if first.kind is not Access.ASYNC_WRITE or not second.kind.asynchronous:
        return False
    if run.info.footprints[first.fp].memory != GLOBAL_MEMORY or not _of_another_block(run, t, first):
        return False
    return first.tag < 0 or t.clock.knows(XG, first.tag, own_lane=False) < first.tag_value


def product_after(run: Run, first: Record) -> tuple[int, bool]:
    """The number of the first wgmma that its author issued after a read, 0 if none, and whether the value had
    arrived by then."""
    issues = run.threads[first.cls].issues
    if first.kind != GR or not issues or run.info.footprints[first.fp].memory == GLOBAL_MEMORY:
        return 0, False
    number = 1 + bisect_right(issues, first.time, key=lambda row: int(row[first.cls]))
    if number > len(issues):
        return 0, False
    issued = int(issues[number - 1][first.cls])
    fences = run.threads[first.cls].fences
    return number, 0 < first.used < issued or any(first.time < f < issued for f in fences)


def _handed_by_product(run: Run, t: LaneClass, first: Record, need: Need) -> bool:
    """K8, practical: who knows that a wgmma is complete knows that all four warps have issued it, so that
    their earlier reads were made; for a write of the other proxy, values must have arrived by then."""
    number, arrived = product_after(run, first)
    if not number or (need is Need.BRIDGE and not arrived):
        return False
    column = t.clock.m[H]
    return any(column[c] >= number for c in mma_siblings(run, first.cls))


def completion_known(run: Run, t: LaneClass, first: Record, row: int, own: bool, strict: bool) -> bool:
    """Whether the completion of an asynchronous access is known (its barrier's phase, or its group)."""
    if first.tag < 0 or first.tag_value >= IN_FLIGHT:
        return False
    if t.clock.knows(row, first.tag, own) >= first.tag_value:
        return True
    if first.kind != Access.MMA_READ or strict:
        return False
    # wgmma groups complete for the warpgroup as a whole (K8): any of its warps may hand the completion on.
    column = t.clock.m[row]
    return any(column[c] >= first.tag_value for c in mma_siblings(run, first.cls))


def mma_siblings(run: Run, cls: int) -> list[int]:
    """The wgmma group columns of the warpgroup's classes."""
    threads = run.threads
    return [threads[c].columns["mma"] for c in run.warpgroups[cls] if "mma" in threads[c].columns]


def _used_before(run: Run, t: LaneClass, first: Record, own: bool) -> bool:
    """K1, practical: the value read reached memory, or an acq_rel fence passed, before the hand-over."""
    seen = t.clock.knows(H, first.cls, own)
    if first.used > 0 and seen >= first.used:
        return True
    fences = run.threads[first.cls].fences
    i = bisect_right(fences, first.time)
    return i < len(fences) and seen >= fences[i]


def _judge_strict(
    run: Run, t: LaneClass, first: Record, second: Record, row: Ordering, own: bool, lo: int, hi: int
) -> bool:
    """Warns of what strict mode does not accept; true if there is nothing to say of other bytes either."""
    pair = (first.site, second.site, True)
    if pair in run.judged:
        return True
    ordered, bridged = known(run, t, first, row.need, own, strict=True)
    near = not _needs_fence_here(run, t, first, second)
    if ordered and bridged and near:
        return True
    if not really_meet(run, first, second, lo, hi):
        return False
    run.judged.add(pair)
    rule = row.unbridged if ordered else row.unordered
    if ordered and bridged:
        rule, contested = "SV101", "K16"
        text = "no proxy fence in the block of the second one, after the first is complete"
    elif ordered:
        across = _of_another_block(run, t, first)
        contested = "K1" if first.kind == GR else "K3" if across else "K2"
        text = "no proxy fence by the thread that made the first access"
    elif first.kind == Access.MMA_READ or _handed_by_product(run, t, first, row.need):
        contested, text = "K8", "only some warps of the warpgroup hand the completed reads on"
    elif (first.cls, t.info.cta) in run.narrow:
        contested, text = "K4", "the order rests on an arrival at cta scope from another CTA"
    else:
        contested, text = row.contested or "K14", "the order rests on arrivals of an earlier phase"
    message = f"{what(run, first)} and {what(run, second)}: {text}"
    run.report(
        Obligation.RACE,
        rule,
        message,
        t,
        second.site,
        severity=Severity.WARNING,
        contested=contested,
        strict_only=True,
        first=first,
        second=second,
    )
    return True


def on_read(run: Run, t: LaneClass, event: Event) -> int:
    _, site, fp, reg, *scope = event
    r = Record(GR, t.cls, t.time, fp, site, atomic=bool(scope), scope=scope[0] if scope else 0)
    if reg == NO_ARRIVAL_NEEDED:
        r.used = t.time
    elif reg == NEVER:
        r.used = LOST
    else:
        overtaken = t.registers.get(reg)
        if overtaken is not None and not overtaken.used:
            overtaken.used = LOST
        t.registers[reg] = r
    if reg != NO_ARRIVAL_NEEDED:
        t.unsure[fp] = r
    access(run, t, r)
    touch_barriers(run, t, r)
    return DONE


def on_write(run: Run, t: LaneClass, event: Event) -> int:
    r = Record(GW, t.cls, t.time, event[2], event[1], execution=run.execution_of(t, event[1]))
    access(run, t, r)
    touch_barriers(run, t, r)
    if run.options.merges_equivalent_accesses and access_merging.joinable(run.info, r):
        t.stores.append(r)
    return DONE


def on_atomic(run: Run, t: LaneClass, event: Event) -> int:
    r = Record(GW, t.cls, t.time, event[2], event[1], atomic=True, scope=event[3])
    access(run, t, r)
    touch_barriers(run, t, r)
    return DONE


def on_use(run: Run, t: LaneClass, event: Event) -> int:
    r = t.registers.pop(event[2], None)
    if r is not None and not r.used:
        r.used = t.time
    return DONE


def touch_barriers(run: Run, t: LaneClass, record: Record) -> None:
    """Data accesses to the bytes of a live mbarrier are undefined (PTX ISA: mbarrier; B10)."""
    if not run.info.barriers:
        return
    found = run.barrier_bytes.get(record.fp)
    for b in barrier_bytes(run, record.fp) if found is None else found:
        state = run.barriers.get(b)
        if state is not None and state.auto.live:
            state.touched.append((record.cls, record.time, record.site, len(run.trace)))


def overlaps_bytes(intervals: Sequence[tuple[int, int]], lo: int, size: int) -> bool:
    """Whether one of some sorted, disjoint intervals has bytes in common with ``size`` bytes at ``lo``."""
    after = bisect_left(intervals, (lo + size,))
    return after > 0 and intervals[after - 1][1] > lo


def barrier_bytes(run: Run, fp: int) -> tuple[int, ...]:
    """Barriers whose object a footprint overlaps (remembered per footprint)."""
    found = run.barrier_bytes.get(fp)
    if found is None:
        f = run.info.footprints[fp]
        found = tuple(
            i
            for i, b in enumerate(run.info.barriers)
            if b.cta == f.memory and overlaps_bytes(f.intervals, b.offset, 8)
        )
        run.barrier_bytes[fp] = found
    return found


__all__ = ["AG", "SH", "access", "judge", "on_atomic", "on_read", "on_use", "on_write"]
