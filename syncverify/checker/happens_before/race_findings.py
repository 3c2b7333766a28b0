"""An access that does not know of another: which rule it breaks, and its words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import partial

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.run import LaneClass, Run
from syncverify.checker.happens_before.shadow import IN_FLIGHT, Record
from syncverify.checker.happens_before.vector_clocks import HW, A, H
from syncverify.model.events import EACH_BLOCK, EACH_TIME, GLOBAL_MEMORY
from syncverify.model.ordering import Ordering
from syncverify.model.proxies import Access, Space


def report_race(
    run: Run, t: LaneClass, first: Record, second: Record, row: Ordering, ordered: bool, lo: int, hi: int
) -> None:
    """A pair of accesses to ``lo..hi`` that is not ordered, or not bridged, becomes a failure."""
    beside = first.strict_rows_only or second.strict_rows_only
    pair = (-1 - first.site if beside else first.site, second.site, False)
    alike = _one_value(run, first, second, lo, hi)
    lesser = (-1 - first.site, -1 - second.site, False)  # met as a note, which hides no mistake
    if pair in run.judged or (alike and lesser in run.judged and not narrow_scope(t, first)):
        return
    rule = row.unbridged if ordered else row.unordered
    severity, contested = Severity.ERROR, None
    strict_only, condition = False, None
    whole = first.atomic and second.atomic and overlaps_whole(run, first, second, lo, hi)
    if not ordered and whole and first.kind.proxy == second.kind.proxy:
        rule = "SV115"
        run.narrow.setdefault((first.cls, t.info.cta), second.site)
    elif not ordered and narrow_scope(t, first):
        rule = "SV115"
        across = run.threads[first.cls].info.cta != t.info.cta
        if across and run.info.footprints[first.fp].memory != GLOBAL_MEMORY:
            contested = "K4"
    if ordered:
        rule = fence_rule(run, t, first, second, rule)
        contested = row.contested
        if row.contested == "K6" and not run.info.strict_copies:
            # Practical mode, but on sm_100: what ships and never failed on hardware.
            severity, strict_only = Severity.WARNING, True
    elif rule != "SV115" and first.kind == Access.ASYNC_WRITE and _unfinished(run, first):
        rule = "SV501"
    if max(first.barrier, second.barrier) >= 0 and rule != "SV115":
        rule = "SV205"  # data and the life of a barrier share bytes
    message = f"{what(run, second)} is not ordered after {what(run, first)}"
    if ordered:
        message = f"{what(run, second)} comes after {what(run, first)}, but no proxy fence covers that"
    if beside:
        severity, contested, strict_only = Severity.WARNING, "K8", True
        condition = "each warp reads no more than its own 16 rows of A"
        message += f": right only if {condition}"
    site = second.site
    run.judged.add(lesser if rule == "SV112" and alike else pair)
    if rule == "SV112" and alike:
        # Compilers let every thread that holds a value store it.
        same = site in run.info.equal_stores
        severity, strict_only = Severity.NOTE if same else Severity.WARNING, True
        message += ": both store the same value"
    if rule == "SV501":
        released = next((x for c, time, x in run.signals if c == first.cls and time > first.time), -1)
        if released >= 0 or first.cls != t.cls:
            site = released if released >= 0 else site
            message = f"the flag is released before the bulk write is complete: {message}"
    elif rule == "SV115":
        site = run.narrow.get((first.cls, t.info.cta), next(reversed(run.narrow.values()), site))
    f = Failure(
        Obligation.RACE,
        rule,
        message,
        site,
        t.cls,
        t.time,
        len(run.trace),
        severity=severity,
        contested=contested,
        strict_only=strict_only,
        first=first,
        second=second,
        condition=condition,
        fix=_ACQUIRE if not ordered and _seen_relaxed(t, first) else None,
    )
    run.fail(f)


_ACQUIRE = (
    "the wait before it is .relaxed, which acquires nothing: leave .relaxed out, or let fence.acq_rel follow"
)


def between_blocks(run: Run, failures: Iterable[Failure]) -> bool:
    """Whether all that goes wrong is that a block reads in global memory what another one writes, unordered,
    and none writes there what others do."""
    found = list(failures)
    return (
        bool(found)
        and all(map(partial(_exchanges, run), found))
        and not any(f.rule == "SV112" for f in run.failures.values())
    )


def _exchanges(run: Run, f: Failure) -> bool:
    if f.rule not in ("SV110", "SV111", "SV501") or f.first is None or f.second is None:
        return False
    one, other = (run.threads[r.cls].info.cta for r in (f.first, f.second))
    return one != other and run.info.footprints[f.first.fp].memory == GLOBAL_MEMORY


def _seen_relaxed(t: LaneClass, first: Record) -> bool:
    """Whether a relaxed wait or load has seen what would order the first access, if it had acquired."""
    column, value = (first.tag, first.tag_value) if first.kind.asynchronous else (first.cls, first.time)
    if t.acquirable is None or column < 0 or value >= IN_FLIGHT:
        return False
    return max(int(t.acquirable[H, column]), int(t.acquirable[A, column])) >= value


def _one_value(run: Run, first: Record, second: Record, lo: int, hi: int) -> bool:
    """Whether two accesses are by one store instruction, and store one value to each byte of ``lo..hi``."""
    info, site = run.info, second.site
    if site != first.site or info.varies is None or second.kind.asynchronous:
        return False
    if site in info.equal_stores:
        return True
    mask = info.varies(site)
    if mask & EACH_TIME and first.turn != second.turn:
        return False
    a, b = run.threads[first.cls].info, run.threads[second.cls].info
    if mask & EACH_BLOCK and a.cta != b.cta:
        return False
    if not mask & EACH_TIME - 1 and first.fp == second.fp:
        return True
    return all(
        whole and not (one ^ other) & mask & EACH_TIME - 1
        for whole, one, other in _meeting(run, first, second, lo, hi)
    )


def overlaps_whole(run: Run, first: Record, second: Record, lo: int, hi: int) -> bool:
    """Whether threads that access a common byte of ``lo..hi`` access the same word there (A3)."""
    return first.fp == second.fp or all(whole for whole, _, _ in _meeting(run, first, second, lo, hi))


def _meeting(run: Run, first: Record, second: Record, lo: int, hi: int) -> Iterator[tuple[bool, int, int]]:
    """The pairs of threads that access a common byte of ``lo..hi``: whether they access the same word, and
    who."""
    others = accessing(run, second, lo, hi)
    for at, size, one in accessing(run, first, lo, hi):
        for there, n, other in others:
            if at < there + n and there < at + size:
                yield (at, size) == (there, n) or _SOMEWHERE < max(size, n), one, other


#: Bytes beyond which an interval is no word, but all places that an access may go to.
_SOMEWHERE = 128


def accessing(run: Run, r: Record, lo: int, hi: int) -> list[tuple[int, int, int]]:
    """The threads that access ``lo..hi``, word by word: first byte, bytes, and the thread's number in its
    block."""
    fp, c = run.info.footprints[r.fp], run.threads[r.cls].info
    if not fp.lanes:
        every = [32 * c.warp + lane for lane in range(32) if c.lanes >> lane & 1]
        found = [(a, b, n) for a, b in fp.intervals if a < hi and lo < b for n in every]
    else:
        found = [(a, b, 32 * c.warp + lane) for a, b, lane in fp.lanes if a < hi and lo < b]
    if not fp.element:
        return [(a, b - a, n) for a, b, n in found]
    return [
        (at, fp.element, n)
        for a, b, n in found
        for at in range(a, b, fp.element)
        if at < hi and lo < at + fp.element
    ]


def _unfinished(run: Run, first: Record) -> bool:
    """Whether a bulk write of global memory was not known to be complete at any signal (E44)."""
    if run.info.footprints[first.fp].memory != GLOBAL_MEMORY:
        return False
    signals = (w for at in run.locations.values() for w in at.writes)
    return not any(w.past[first.tag] >= first.tag_value for w in signals)


def narrow_scope(t: LaneClass, first: Record) -> bool:
    """Whether the accesses would be ordered if every synchronization had the scope it needs."""
    column, value = (first.tag, first.tag_value) if first.kind.asynchronous else (first.cls, first.time)
    return column >= 0 and value < IN_FLIGHT and int(t.clock.m[HW, column]) >= value


def fence_rule(run: Run, t: LaneClass, first: Record, second: Record, missing: str) -> str:
    """Which fence mistake it is: none (SV101), at the wrong place (SV102), for the wrong space (SV103)."""
    if missing != "SV101":
        return missing
    author = run.threads[first.cls]
    shared = Space.SHARED_CTA | Space.SHARED_CLUSTER
    memory = run.info.footprints[first.fp].memory
    if memory == GLOBAL_MEMORY:
        shared = Space.GLOBAL
    elif memory != author.info.cta:
        shared = Space.SHARED_CLUSTER  # the author's own fence must reach the other CTA (B61, K20)
    since = last_before(author.syncs, first.time)
    until = first_after(author.syncs, first.time)
    near = [f for f in author.proxy_fences if since < f[0] <= max(until, first.time)]
    late = [f for f in author.proxy_fences if f[0] > first.time]
    mine = [f for f in t.proxy_fences if f[0] > last_before(t.syncs, t.time)] if t is not author else []
    if any(not f[1] & shared for f in [*near, *mine]):
        return "SV103"
    if any(f[1] & shared for f in [*near, *late]):
        return "SV102"
    return missing


def last_before(times: list[int], at: int) -> int:
    i = bisect_right(times, at - 1)
    return times[i - 1] if i else 0


def first_after(times: list[int], at: int) -> int:
    i = bisect_right(times, at)
    return times[i] if i < len(times) else 1 << 30


_GROUP_KIND = {Access.ASYNC_READ: "bulk", Access.CPASYNC_WRITE: "cp"}


def _issued(t: LaneClass, kind: str) -> int:
    return {"bulk": t.bulk, "cp": t.cp}.get(kind, t.mma).issued


def idle_wait(run: Run, first: Record) -> int | None:
    """Where threads that never issued anything wait for the group of ``first`` (E41, E65)."""
    kind = _GROUP_KIND.get(first.kind, "mma")
    for o in run.threads:
        if kind not in o.idle_waits or o.cls == first.cls or _issued(o, kind):
            continue
        site = o.idle_waits[kind]
        if not any(site in i.group_waits.get(kind, ()) for i in run.threads if _issued(i, kind)):
            return site
    return None


_NOUN = {
    Access.GENERIC_READ: "read",
    Access.GENERIC_WRITE: "write",
    Access.ASYNC_READ: "bulk copy's read",
    Access.ASYNC_WRITE: "bulk copy's write",
    Access.MMA_READ: "wgmma operand read",
    Access.CPASYNC_WRITE: "cp.async write",
    Access.STASYNC_WRITE: "st.async write",
}


def what(run: Run, r: Record) -> str:
    """An access, with its line."""
    return f"{access(run, r)} (line {run.info.sites[r.site].span.line})"


def access(run: Run, r: Record) -> str:
    """Which access, to what, by whom."""
    fp = run.info.footprints[r.fp]
    where = place(run, fp.memory, fp.intervals[0][0]) if fp.intervals else "nothing"
    who = run.threads[r.cls].info.name
    return f"the {_NOUN[r.kind]} of {where} by {who}"


def place(run: Run, memory: int, byte: int) -> str:
    """The buffer a shared byte lies in, for reports."""
    if memory == GLOBAL_MEMORY:
        return "global memory"
    for lo, hi, name in run.info.smem_names:
        if lo <= byte < hi:
            return name if run.info.ctas == 1 else f"{name} of cta{memory}"
    return f"shared byte {byte}"
