"""Repairs: small edits of a refuted kernel with which it is proved.

A finding says what breaks; the mistake may be elsewhere. So the likely edits are tried out: at one place of
the source the events of all agents are changed, and the changed system is checked. An edit that makes the
check succeed is a repair: a fix that was applied, and the place where the author has to change something.

Worked example. A producer waits for parity ``(i // 2) % 2`` of ``empty[i % 2]`` and hangs. The other parity
at that place lets the kernel be proved, so the report says: wait for the other parity here.

Edits only choose words: no verdict depends on them. A repair holds for the launch values of the witness.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from syncverify.base.diagnostics import Diagnostic, Mistake, Repair, Verdict
from syncverify.base.reason import Cause, has
from syncverify.base.source import Span
from syncverify.checker.explain.edit_hints import hint
from syncverify.checker.explain.edits import (
    ACCESSES,
    GROUP_WAITS,
    ISSUES,
    WAITS,
    WARPS_OF_GROUP,
    Announce,
    ArriveLater,
    BarrierBehindInit,
    BarrierCount,
    ClusterBarrierAtEnd,
    CommitStores,
    CountedParity,
    DrainAtEnd,
    DropAt,
    ExpectBytes,
    FewerPending,
    InitCounts,
    InitToo,
    Insert,
    InsertOperation,
    OtherParity,
    OwnBarriers,
    Release,
    WaitBefore,
    WaitForFree,
    WaitReads,
)
from syncverify.checker.explain.redundancy import Change, Changed
from syncverify.checker.explain.survey import Survey
from syncverify.checker.outcome import Outcome
from syncverify.model.events import Ev, System, SystemInfo

#: Events that all tries together may take, and how many tries there may be; counts, so that runs agree.
MAX_EVENTS = 300_000
MAX_TRIES = 120
#: A mended kernel may run on for so many events more than twice what the refuted one did.
LONGER = 10_000
#: No try begins later than this, in seconds of processor time.
MAX_SECONDS = 5.0
#: Classes that the rule says more exactly than an edit does.
_SAID_BY_RULE = (Mistake.MISPLACED_FENCE, Mistake.MISPLACED_WAIT, Mistake.DIVERGENCE)
#: Repairs that are handed on to be tried in the text.
MOST_UNTOLD = 4


def _copy_barriers(info: SystemInfo, survey: Survey, accessed: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """For each footprint accessed, the barrier of the copies into its bytes, where there is one only."""
    out: list[tuple[int, int]] = []
    copied = set(survey.copied)
    for fp in accessed:
        mine = info.footprints[fp]
        found = {b for other, b in copied if other >= 0 and _overlap(mine, info.footprints[other])}
        if len(found) == 1:
            out.append((fp, found.pop()))
    return tuple(out)


def _overlap(a: Any, b: Any) -> bool:
    return a.memory == b.memory and any(
        lo < other_hi and other_lo < hi for lo, hi in a.intervals for other_lo, other_hi in b.intervals
    )


# ---------------------------------------------------------------- the search


@dataclass(frozen=True, slots=True)
class _Try:
    mistake: Mistake
    change: Change
    place: Span
    text: str


@dataclass(frozen=True, slots=True)
class Mended:
    """What the search for a repair came to.

    ``untold``: repairs that the events alone cannot confirm, since the kernel comes to a tensor map whose box
    is not known yet. They count once their text was checked.
    """

    repair: Repair | None = None
    untold: tuple[Repair, ...] = ()


def repair(system: System, found: Diagnostic, judge: Callable[[System, int, bool], Outcome]) -> Mended:
    """The first edit with which ``system`` is proved, if there is one.

    ``found``: the finding to mend. ``judge`` checks a system within a number of events: an edit may make a
    kernel that loops for ever. Its last argument: whether a hang is followed on, past who is blocked.
    """
    start = time.thread_time()
    survey = Survey()
    judge(Changed(system, (survey,)), MAX_EVENTS, True)
    most, left = 2 * survey.events + LONGER, MAX_EVENTS
    named = {found.span, *(label.span for label in found.related)}
    untold: list[Repair] = []
    for attempt in islice(_attempts(system.info, survey, named, found.rule), MAX_TRIES):
        if left <= 0 or time.thread_time() - start > MAX_SECONDS:
            break
        outcome = judge(Changed(system, (attempt.change,)), most, False)
        left -= outcome.stats.get("events", most if outcome.verdict is Verdict.UNKNOWN else survey.events)
        mistake = found.cause if found.cause in _SAID_BY_RULE else attempt.mistake
        proposed = Repair(
            mistake, attempt.place, attempt.text, hint(attempt.change, system.info, survey, attempt.place)
        )
        if outcome.verdict is Verdict.PROVED:
            return Mended(proposed)
        if has(outcome.reason, Cause.MISSING_BOX) and proposed.hint is not None:
            untold.append(proposed)
    return Mended(None, tuple(untold[:MOST_UNTOLD]))


def _attempts(info: SystemInfo, survey: Survey, named: set[Span], rule: str) -> Iterator[_Try]:
    """Edits worth trying: at the places that the finding names first, those that remove something last."""
    near = [p for p in survey.places if p in named]
    barriers = {b for p in near for b in survey.barriers.get(p, ())}
    same = [p for p in survey.places if p not in near and survey.barriers.get(p, set()) & barriers]
    rest = [p for p in survey.places if p not in near and p not in same]
    orders = [_edits(info, survey, p, rule) for p in (*near, *same, *rest)]
    tries = [t for edits in orders for t in edits]
    yield from (t for t in tries if t.mistake is not Mistake.SURPLUS)
    if rule == "SV211":
        yield from _at_end(survey, near)
        return
    yield from (t for t in tries if t.mistake is Mistake.SURPLUS)


def _at_end(survey: Survey, near: list[Span]) -> Iterator[_Try]:
    """What is still in flight at the end is committed, waited for, or met by all blocks of the cluster."""
    stores = [p for p in near if Ev.BULK_STORE in survey.places[p]]
    bare = set().union(*survey.open_stores.values())
    for place in stores:
        if place in bare:
            text = "commit this bulk store behind it: cp.async.bulk.commit_group"
            yield _Try(Mistake.MISSING_COMMIT, CommitStores(place), place, text)
        text = "wait for the reads of all bulk stores before the end: cp.async.bulk.wait_group.read 0"
        yield _Try(Mistake.MISSING_WAIT, DrainAtEnd(), place, text)
    if not stores and len({cta for warps in survey.warps.values() for cta, _ in warps}) > 1:
        text = "a barrier of the cluster before the end: barrier.cluster.arrive, barrier.cluster.wait"
        yield from (_Try(Mistake.MISSING_BARRIER, ClusterBarrierAtEnd(), p, text) for p in near[:1])


def _edits(info: SystemInfo, survey: Survey, place: Span, rule: str) -> list[_Try]:
    """Edits at one place, the likeliest first."""
    codes = set(survey.places[place])
    out: list[_Try] = []
    if codes & {*WAITS}:
        out.append(_Try(Mistake.FIRST_PARITY, OtherParity(place), place, "wait for the other parity here"))
        for first, what in ((0, "n % 2"), (1, "(n + 1) % 2")):
            text = f"wait for parity {what} at use n of the barrier, counted from 0 by each waiter"
            out.append(_Try(Mistake.LATER_PARITY, CountedParity(place, first), place, text))
        out.append(_Try(Mistake.SURPLUS, DropAt(place, Ev.WAIT), place, "this wait is one too many"))
    if Ev.INIT in codes:
        out += _counts(info, survey, place)
        out += _inits(info, survey, place)
        if rule == "SV204":
            text = "a barrier of the whole block behind the initialization"
            out.append(_Try(Mistake.MISSING_BARRIER, BarrierBehindInit(), place, text))
    if codes & {Ev.ARRIVE, Ev.EXPECT_TX}:
        out += _bytes(survey, place)
    if Ev.ARRIVE in codes:
        for fence, what in ((False, ""), (True, ", and behind a fence.proxy.async.shared::cta")):
            text = f"release only after the accesses that follow here{what}"
            out.append(_Try(Mistake.EARLY_RELEASE, ArriveLater(place, fence), place, text))
        out += _slot_waits(info, survey, place)
        out.append(_Try(Mistake.SURPLUS, DropAt(place, Ev.ARRIVE), place, "this arrival is one too many"))
    if codes & {*GROUP_WAITS} and survey.pending[place] > 0:
        for pending in dict.fromkeys((survey.pending[place] - 1, 0)):
            groups = "1 group" if pending == 1 else f"{pending} groups"
            text = f"leave {groups} pending here, not {survey.pending[place]}"
            out.append(_Try(Mistake.LAX_WAIT, FewerPending(place, pending), place, text))
    if codes & {*ACCESSES, Ev.WGMMA}:
        barriers = _copy_barriers(info, survey, sorted(survey.accessed.get(place, ())))
        if barriers:
            name = info.barriers[barriers[0][1]].name
            text = f"wait for the phase of the copy before this access (mbarrier {name})"
            out.append(_Try(Mistake.MISSING_WAIT, WaitBefore(place, barriers), place, text))
        out += _releases(info, survey, place)
    if Ev.BULK_LOAD in codes:
        text = "announce the bytes of this copy before it: mbarrier.arrive.expect_tx"
        out.append(_Try(Mistake.BYTES, Announce(place), place, text))
    if Ev.BULK_STORE in codes:
        text = "before the next barrier its issuer waits for its reads: cp.async.bulk.wait_group.read 0"
        out.append(_Try(Mistake.MISSING_WAIT, WaitReads(place), place, text))
    out += _of_groups(place, codes, rule)
    if codes & {*ACCESSES, *ISSUES} and rule in _UNORDERED:
        out += _orders(survey, place)
    if Ev.BARRIER_ARRIVE in codes:
        text = "arrive only after the accesses that follow here"
        out.append(_Try(Mistake.EARLY_RELEASE, ArriveLater(place, fence=False), place, text))
    if Ev.BARRIER_SYNC in codes and len(survey.ids[place]) == 1:
        out += _named(survey, place, min(survey.ids[place]))
    return out


def _of_groups(place: Span, codes: set[int], rule: str) -> list[_Try]:
    """Commits and waits for the groups of a thread's own operations, and the fence of a wgmma."""
    tries: list[tuple[Mistake, Ev, tuple[int, ...], str, bool]] = []
    if Ev.CP_ASYNC in codes and rule == "SV110":
        tries.append((Mistake.MISSING_COMMIT, Ev.CP_COMMIT, (), "cp.async.commit_group", False))
    if codes & {Ev.READ, Ev.WGMMA, Ev.WRITE, Ev.BULK_STORE} and rule in ("SV110", "SV112"):
        tries.append((Mistake.MISSING_WAIT, Ev.CP_WAIT, (0,), "cp.async.wait_group 0", True))
    if Ev.WGMMA in codes and rule == "SV402":
        tries.append((Mistake.MISSING_FENCE, Ev.WGMMA_FENCE, (), "wgmma.fence.sync.aligned", True))
    if Ev.WGMMA in codes and rule in _OF_WGMMA:
        tries.append((Mistake.MISSING_COMMIT, Ev.WGMMA_COMMIT, (), "wgmma.commit_group.sync.aligned", False))
    if codes & {Ev.FRAG_READ, Ev.ARRIVE, Ev.BARRIER_SYNC} and rule in _OF_WGMMA:
        tries.append((Mistake.MISSING_WAIT, Ev.WGMMA_WAIT, (0,), "wgmma.wait_group.sync.aligned 0", True))
    return [
        _Try(mistake, InsertOperation(place, code, operands, text, ahead), place, _said(text, ahead=ahead))
        for mistake, code, operands, text, ahead in tries
    ]


def _said(instruction: str, *, ahead: bool) -> str:
    return f"{instruction} {'before' if ahead else 'behind'} this"


#: Rules that a missing commit of a wgmma, or a missing wait for it, breaks.
_OF_WGMMA = frozenset({"SV401", "SV111", "SV110"})


def _named(survey: Survey, place: Span, number: int) -> list[_Try]:
    """A named barrier for each warpgroup that fills it alone, or one that counts all who come."""
    out: list[_Try] = []
    warps = survey.meeting[number]
    groups = {(cta, warp // WARPS_OF_GROUP) for cta, warp in warps}
    if number and len(groups) > 1 and survey.sizes[number] == {32 * len(warps) // len(groups)}:
        text = (
            f"a barrier id for each of the {len(groups)} warpgroups here: each fills barrier {number} alone"
        )
        out.append(_Try(Mistake.COUNT, OwnBarriers(number), place, text))
    threads = 32 * len(warps)
    text = f"let barrier {number} count {threads} threads: so many come"
    return [*out, _Try(Mistake.COUNT, BarrierCount(number, threads), place, text)]


#: Rules of accesses that a fence or a barrier may order.
_UNORDERED = frozenset({"SV101", "SV102", "SV103", "SV104", "SV105", "SV110", "SV111", "SV112"})


def _counts(info: SystemInfo, survey: Survey, place: Span) -> list[_Try]:
    """As many arrivals as come, for those barriers of a place whose count is another."""
    arrivers = {b: sum(survey.arriving.get(b, {}).values()) for b in sorted(survey.barriers[place])}
    if not all(arrivers.values()):
        return []
    wrong = {b: n for b, n in arrivers.items() if n != survey.counts.get(b)}
    if not wrong:
        return []
    first = min(wrong)
    which = "" if len(wrong) == len(arrivers) else f" {info.barriers[first].name}"
    text = f"initialize{which} with {wrong[first]}: so many arrivals come in a phase"
    change = InitCounts(place, tuple(wrong.items()))
    return [_Try(Mistake.COUNT, change, place, text)]


def _bytes(survey: Survey, place: Span) -> list[_Try]:
    moved = {b: sum(survey.bytes.get(b, {}).values()) for b in sorted(survey.barriers.get(place, ()))}
    if not moved or not all(moved.values()):
        return []
    amount = next(iter(moved.values()))
    text = f"announce {amount} bytes: so many do the copies of a phase move"
    return [_Try(Mistake.BYTES, ExpectBytes(place, tuple(moved.items())), place, text)]


def _inits(info: SystemInfo, survey: Survey, place: Span) -> list[_Try]:
    """Barriers that are used and never initialized, with the arrivals that come as their count."""
    used = (survey.waited | set(survey.arriving)) - set(survey.counts)
    if not used:
        return []
    known = max(survey.counts.values())
    counts = {b: sum(survey.arriving.get(b, {}).values()) or known for b in sorted(used)}
    first = min(counts)
    text = (
        f"initialize {info.barriers[first].name}, too, with {counts[first]}: so many arrivals come in a phase"
    )
    return [_Try(Mistake.MISSING_INIT, InitToo(place, tuple(counts.items())), place, text)]


def _slot_waits(info: SystemInfo, survey: Survey, place: Span) -> list[_Try]:
    """A wait for the slot before it is announced that a copy fills it."""
    pairs = survey.free_barriers
    free = {pairs[b] for b in survey.barriers.get(place, ()) if b in pairs}
    if not free or free & survey.waited:
        return []
    text = f"wait before this until the slot is free ({info.barriers[min(free)].name}), parity 1 first"
    return [_Try(Mistake.MISSING_WAIT, WaitForFree(place, tuple(pairs.items())), place, text)]


def _releases(info: SystemInfo, survey: Survey, place: Span) -> list[_Try]:
    """An arrival behind the accesses of a slot, on the barrier that its next copy waits for."""
    pairs = survey.free_barriers
    copies = _copy_barriers(info, survey, sorted(survey.accessed.get(place, ())))
    freed = tuple((fp, pairs[b]) for fp, b in copies if b in pairs and pairs[b] not in survey.arriving)
    if not freed:
        return []
    name = info.barriers[freed[0][1]].name
    text = f"arrive behind this access on the barrier that the next copy waits for ({name})"
    return [
        _Try(Mistake.MISSING_ARRIVE, Release(place, freed, fence), place, text) for fence in (False, True)
    ]


def _orders(survey: Survey, place: Span) -> list[_Try]:
    """A proxy fence, a barrier of the warps that come here, or both."""
    fence = "fence.proxy.async.shared::cta behind this access, by every thread, before the hand-over"
    out = [_Try(Mistake.MISSING_FENCE, Insert(place, True), place, fence)]
    groups = {frozenset(warps) for p, warps in survey.warps.items() if warps >= survey.warps[place]}
    for warps in sorted(groups, key=lambda g: (len(g), sorted(g))):
        if len(warps) < 2:
            continue
        who = f"the {len(warps)} warps that share it"
        for ahead, where in ((False, "behind"), (True, "before")):
            text = f"a barrier of {who} {where} this access"
            out.append(_Try(Mistake.MISSING_BARRIER, Insert(place, False, warps, ahead), place, text))
        text = f"a proxy fence and then a barrier of {who} behind this access"
        out.append(_Try(Mistake.MISSING_BARRIER, Insert(place, True, warps), place, text))
    return out
