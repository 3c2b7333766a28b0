"""An access that does not know of another: which rule it breaks, and its words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.event_flags import ACQUIRE, RELEASE
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.run import LaneClass, Run, Unmodelled
from syncverify.checker.happens_before.shadow import IN_FLIGHT, Record
from syncverify.checker.happens_before.vector_clocks import HW, A, H
from syncverify.model.events import EACH_BLOCK, EACH_TIME, GLOBAL_MEMORY, SystemInfo, of_one_element
from syncverify.model.ordering import Ordering
from syncverify.model.proxies import Access, Space


def report_race(
    run: Run, t: LaneClass, first: Record, second: Record, row: Ordering, ordered: bool, lo: int, hi: int
) -> None:
    """A pair of accesses to ``lo..hi`` that is not ordered, or not bridged, becomes a failure."""
    strict_rows = first.strict_rows_only or second.strict_rows_only
    pair = (-1 - first.site if strict_rows else first.site, second.site, False)
    alike = _one_value(run, first, second, lo, hi) and not _hides(t, first)
    note = (-1 - first.site, -1 - second.site, False)  # met as a note, which hides no mistake
    if pair in run.judged or (alike and note in run.judged and not narrow_scope(t, first)):
        return
    finding = _classified(run, t, first, second, row, ordered, lo, hi)
    if not ordered and _between_halves(run, t, first, second):
        raise Unmodelled(_HALVES, second.site)
    if finding.strict_only and not strict_rows:
        pair = (first.site, -1 - second.site, False)  # met as a warning, which hides no error
        if pair in run.judged:
            return
    if strict_rows:
        condition = "each warp reads no more than its own 16 rows of A"
        finding = replace(
            finding, severity=Severity.WARNING, contested="K8", strict_only=True, condition=condition,
            message=f"{finding.message}: right only if {condition}",
        )  # fmt: skip
    equal = finding.rule == "SV112" and alike
    run.judged.add(note if equal else pair)
    if equal:
        # Compilers let every thread that holds a value store it.
        severity = Severity.NOTE if second.site in run.info.equal_stores else Severity.WARNING
        text = f"{finding.message}: both store the same value"
        finding = replace(finding, severity=severity, strict_only=True, message=text)
    site, message = _blamed(run, t, first, second, finding)
    run.fail(
        Failure(
            Obligation.RACE,
            finding.rule,
            message,
            site,
            t.cls,
            t.time,
            len(run.trace),
            severity=finding.severity,
            contested=finding.contested,
            strict_only=finding.strict_only,
            first=first,
            second=second,
            condition=finding.condition,
            fix=_ACQUIRE if not ordered and _seen_relaxed(t, first) else None,
        )
    )


#: PTX ISA, fence.proxy: a release half can form a release sequence, which an acquire half synchronizes with.
_HALVES = "the release half of a proxy fence may synchronize with the acquire half before this access"


def _between_halves(run: Run, t: LaneClass, first: Record, second: Record) -> bool:
    """Whether a generic access and an async one lie around the two halves of a proxy fence.

    A relaxed arrival between the halves then orders the accesses. The clocks do not know of such sequences,
    so the pair is no mistake that is shown.
    """
    if first.kind.asynchronous or not second.kind.asynchronous or t.cls == first.cls:
        return False
    released = any(f.half & RELEASE and f.time >= first.time for f in run.threads[first.cls].proxy_fences)
    return released and any(f.half & ACQUIRE for f in t.proxy_fences)


@dataclass(frozen=True, slots=True)
class _Finding:
    """What is said of a pair of accesses."""

    rule: str
    message: str
    severity: Severity = Severity.ERROR
    contested: str | None = None
    strict_only: bool = False
    condition: str | None = None


def _classified(
    run: Run, t: LaneClass, first: Record, second: Record, row: Ordering, ordered: bool, lo: int, hi: int
) -> _Finding:
    """The rule that a pair breaks, and how sure that is."""
    found = (
        _unbridged(run, t, first, second, row) if ordered else _unordered(run, t, first, second, row, lo, hi)
    )
    if max(first.barrier, second.barrier) >= 0 and found.rule != "SV115":
        return replace(found, rule="SV205")  # data and the life of a barrier share bytes
    return found


def _unbridged(run: Run, t: LaneClass, first: Record, second: Record, row: Ordering) -> _Finding:
    """An ordered pair through two proxies without the fence between them."""
    rule = fence_rule(run, t, first, row.unbridged)
    message = f"{what(run, second)} comes after {what(run, first)}, but no proxy fence covers that"
    if row.contested == "K6" and not run.info.strict_copies:
        # Practical mode, but on sm_100: what ships and never failed on hardware.
        return _Finding(rule, message, Severity.WARNING, row.contested, strict_only=True)
    return _Finding(rule, message, contested=row.contested)


def _unordered(
    run: Run, t: LaneClass, first: Record, second: Record, row: Ordering, lo: int, hi: int
) -> _Finding:
    """A pair without order: atomics, synchronization of too narrow a scope, or any other pair."""
    message = f"{what(run, second)} is not ordered after {what(run, first)}"
    whole = first.atomic and second.atomic and overlaps_whole(run, first, second, lo, hi)
    if whole and first.kind.proxy == second.kind.proxy:
        run.narrow.setdefault((first.cls, t.info.cta), second.site)
        return _Finding("SV115", message)
    if narrow_scope(t, first):
        across = run.threads[first.cls].info.cta != t.info.cta
        local = run.info.footprints[first.fp].memory != GLOBAL_MEMORY
        return _Finding("SV115", message, contested="K4" if across and local else None)
    unfinished = first.kind == Access.ASYNC_WRITE and _unfinished(run, first)
    return _Finding("SV501" if unfinished else row.unordered, message)


def _blamed(run: Run, t: LaneClass, first: Record, second: Record, finding: _Finding) -> tuple[int, str]:
    """Where a mistake lies, and its words: at a release or a synchronization before the second access."""
    site = second.site
    if finding.rule == "SV501":
        released = next((x for c, time, x in run.signals if c == first.cls and time > first.time), -1)
        if released >= 0 or first.cls != t.cls:
            text = f"the flag is released before the bulk write is complete: {finding.message}"
            return released if released >= 0 else site, text
    elif finding.rule == "SV115":
        site = run.narrow.get((first.cls, t.info.cta), next(reversed(run.narrow.values()), site))
    return site, finding.message


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


def some_between_blocks(run: Run, failures: Iterable[Failure]) -> bool:
    """Whether some of what goes wrong is that two blocks access a word in global memory in no order, and one
    of them writes it, whatever else does."""
    return any(f.rule in _RACES and _of_two_blocks(run, f) for f in failures)


def some_in_global(run: Run, failures: Iterable[Failure]) -> bool:
    """Whether some of what goes wrong is that two threads access a word in global memory in no order, and one
    of them writes what the other one reads, as atomics do, whatever else does.

    A word that all lanes of an instruction store is left out: nobody asks which lane's value stays there.
    """
    return any(
        f.rule in _RACES
        and f.first is not None
        and _in_global(run, f.first)
        and (f.rule != "SV112" or (f.second is not None and f.first.atomic != f.second.atomic))
        and not any(_stored_by_many(run, r) for r in (f.first, f.second) if r is not None)
        for f in failures
    )


def _stored_by_many(run: Run, r: Record) -> bool:
    """Whether several lanes store to one place by a plain instruction."""
    several = run.threads[r.cls].n > 1 and not run.info.footprints[r.fp].lanes
    return several and r.kind.writes and not r.atomic and not r.kind.asynchronous


#: Rules of accesses in no order, one of which writes.
_RACES = ("SV110", "SV111", "SV112", "SV115")


def _exchanges(run: Run, f: Failure) -> bool:
    return f.rule in ("SV110", "SV111", "SV501") and _of_two_blocks(run, f)


def _of_two_blocks(run: Run, f: Failure) -> bool:
    """Whether what goes wrong is of accesses to global memory by two blocks."""
    if f.first is None or f.second is None:
        return False
    one, other = (run.threads[r.cls].info.cta for r in (f.first, f.second))
    return one != other and _in_global(run, f.first)


def _in_global(run: Run, access: Record) -> bool:
    return run.info.footprints[access.fp].memory == GLOBAL_MEMORY


def _seen_relaxed(t: LaneClass, first: Record) -> bool:
    """Whether a relaxed wait or load has seen what would order the first access, if it had acquired."""
    column, value = (first.tag, first.tag_value) if first.kind.asynchronous else (first.cls, first.time)
    if column < 0 or value >= IN_FLIGHT:
        return False
    seen = [m for m in (t.acquirable, t.acquirable_far) if m is not None]
    return any(max(int(m[H, column]), int(m[A, column])) >= value for m in seen)


def stores_one_value(info: SystemInfo, site: int) -> bool:
    """Whether a store is known to store the same value, whichever thread executes it."""
    if site in info.equal_stores:
        return True
    return info.varies is not None and not info.varies(site) & EACH_TIME - 1


def may_store_one_value(info: SystemInfo, site: int) -> bool:
    """Whether two threads may be known to store the same value there."""
    if site in info.equal_stores or info.varies is None:
        return site in info.equal_stores
    every = (1 << (info.threads - 1).bit_length()) - 1
    every |= EACH_BLOCK if info.ctas * info.clusters > 1 else 0
    return info.varies(site) & every != every


def _hides(t: LaneClass, first: Record) -> bool:
    """Whether a store stands over another one by its own class, which a class does not know of."""
    below = first.over
    if below is None or below.cls != first.cls or below.site == first.site or below.kind != first.kind:
        return False
    return int(t.clock.m[H, below.cls]) < below.time


def _one_value(run: Run, first: Record, second: Record, lo: int, hi: int) -> bool:
    """Whether two accesses are by one store instruction, and store one value to each byte of ``lo..hi``."""
    info, site = run.info, second.site
    if site != first.site or info.varies is None or second.kind.asynchronous:
        return False
    if site in info.equal_stores:
        return True
    mask = info.varies(site)
    if mask & EACH_TIME and first.execution != second.execution:
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
    fps = run.info.footprints
    if first.fp == second.fp or of_one_element(fps[first.fp], fps[second.fp]):
        return True
    return all(whole for whole, _, _ in _meeting(run, first, second, lo, hi))


def _meeting(run: Run, first: Record, second: Record, lo: int, hi: int) -> Iterator[tuple[bool, int, int]]:
    """The pairs of threads that access a common byte of ``lo..hi``: whether they access the same word, and
    who."""
    others = accessing(run, second, lo, hi)
    words = run.info.footprints[first.fp].word, run.info.footprints[second.fp].word
    for at, size, one in accessing(run, first, lo, hi):
        for there, n, other in others:
            if at < there + n and there < at + size:
                yield _same_word((at, size), (there, n), words), one, other


def _same_word(one: tuple[int, int], other: tuple[int, int], words: tuple[int, int]) -> bool:
    """Whether two accesses that meet are to the same word: by first byte and bytes, and by the bytes of an
    access of which data says where it goes. Both are aligned."""
    (_, size), (_, n) = one, other
    if not any(words):
        return one == other or max(size, n) > _SOMEWHERE
    beyond = max(0 if w else s for s, w in zip((size, n), words, strict=True))
    return (words[0] or size) == (words[1] or n) or beyond > _SOMEWHERE


#: Bytes beyond which an interval without ``Footprint.word`` is no word, but places that a copy goes to.
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


def fence_rule(run: Run, t: LaneClass, first: Record, missing: str) -> str:
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
    near = [f for f in author.proxy_fences if since < f.time <= max(until, first.time)]
    late = [f for f in author.proxy_fences if f.time > first.time]
    mine = [f for f in t.proxy_fences if f.time > last_before(t.syncs, t.time)] if t is not author else []
    if any(not f.spaces & shared for f in [*near, *mine]):
        return "SV103"
    if any(f.spaces & shared for f in [*near, *late]):
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
    where = place(run, fp.memory, fp.intervals[0][0], r.site) if fp.intervals else "nothing"
    who = run.threads[r.cls].info.name
    return f"the {_NOUN[r.kind]} of {where} by {who}"


def place(run: Run, memory: int, byte: int, site: int) -> str:
    """The buffer a shared byte lies in, for reports, and what the source calls the part of it there."""
    if memory == GLOBAL_MEMORY:
        return "global memory"
    said = run.info.sites[site].operand
    for lo, hi, buffer in run.info.smem_names:
        if lo <= byte < hi:
            name = buffer if not said else said if said.startswith(f"{buffer}.") else f"{said} ({buffer})"
            return name if run.info.ctas == 1 else f"{name} of cta{memory}"
    return f"shared byte {byte}"
