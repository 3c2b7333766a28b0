"""Edits that may mend a refuted kernel, at each place of its source, the likeliest first.

What is likely depends on what agents did at a place (``survey``) and on the rule that broke. Each attempt is
an edit of events, with the class of the mistake that it would mend and a sentence for the author.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from syncverify.base.diagnostics import Mistake
from syncverify.base.source import Span
from syncverify.checker.explain.attempt import Attempt
from syncverify.checker.explain.edits import (
    ACCESSES,
    GROUP_WAITS,
    ISSUES,
    WAITS,
    WARPS_OF_GROUP,
    Announce,
    AnnounceWithCopy,
    ArriveBehind,
    ArriveLater,
    ArriveToo,
    BarrierBehindInit,
    BarrierCount,
    ClusterBarrierAtEnd,
    ClusterBarrierBehindInit,
    CommitStores,
    CountedParity,
    DrainAtEnd,
    DropAt,
    DropCopy,
    ExpectBytes,
    FewerPending,
    InitCounts,
    InitToo,
    Insert,
    InsertOperation,
    OtherArray,
    OtherId,
    OtherParity,
    OwnBarriers,
    Release,
    SlotOfLastWait,
    SlotOfUse,
    WaitBefore,
    WaitForFree,
    WaitReads,
)
from syncverify.checker.explain.exchanges import (
    ArriveWithCopies,
    CommitEachTurn,
    HandOn,
    MeetAsElsewhere,
    NextSlot,
    PollUntilTrue,
    WaitInTurn,
    WaitOnce,
)
from syncverify.checker.explain.survey import Survey
from syncverify.checker.explain.turns import OtherParityOfGroup, turns_of_groups
from syncverify.model.events import Ev, Flag, SystemInfo

#: Rules of accesses that a fence or a barrier may order.
_UNORDERED = frozenset({"SV101", "SV102", "SV103", "SV104", "SV105", "SV110", "SV111", "SV112"})
#: Rules that a missing commit of a wgmma, or a missing wait for it, breaks.
_OF_WGMMA = frozenset({"SV401", "SV111", "SV110"})
#: Rules of barriers of threads.
_OF_THREADS = frozenset({"SV301", "SV302", "SV303"})
#: Rules that an operation on another slot, or on another barrier, may break.
_OF_SLOTS = frozenset({"SV110", "SV111", "SV112", "SV201", "SV202", "SV203", "SV206", "SV210", "SV212"})
#: Changes that may let a wait pass for which nobody arrives.
_NO_WAIT = (OtherParity, OtherParityOfGroup, CountedParity, DropAt)
#: Waits beside one that may ask for the other parity with it.
_MATES = 3
_LATER = "arrive only after the accesses that follow here"
#: Rules that who does not wait until something is there may break.
_OF_FILLS = frozenset({"SV110", "SV401"})
#: Rules that who does not wait until something is free may break.
_OF_TURNS = frozenset({"SV111", "SV112", "SV201", "SV202", "SV203", "SV206"})


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


def attempts(info: SystemInfo, survey: Survey, named: set[Span], rule: str) -> Iterator[Attempt]:
    """Edits worth trying: at the places that the finding names first, those that remove something last.

    Where a place waits for an mbarrier at which nobody arrives, its arrivals are what lacks: with the other
    parity, or none, the wait would be for nothing.
    """
    silent = {p for p in named if survey.barriers.get(p, set()) & survey.never_arrived}
    if rule == "SV210" and silent:
        reading = [p for p in survey.accessed if not {*ISSUES} - {Ev.WGMMA} & {*survey.places.get(p, ())}]
        yield from (t for p in reading for t in _releases(info, survey, p))
    for t in _in_order(info, survey, named, rule):
        if t.place not in silent or not isinstance(t.change, _NO_WAIT):
            yield t


def _in_order(info: SystemInfo, survey: Survey, named: set[Span], rule: str) -> Iterator[Attempt]:
    """Edits at the places that the finding names first, those that remove something last."""
    near = [p for p in survey.places if p in named]
    barriers = {b for p in near for b in survey.barriers.get(p, ())}
    same = [p for p in survey.places if p not in near and survey.barriers.get(p, set()) & barriers]
    rest = [p for p in survey.places if p not in near and p not in same]
    orders = [_edits(info, survey, p, rule) for p in (*near, *same, *rest)]
    tries = _likeliest([t for edits in orders for t in edits], survey, {*near, *same})
    yield from _between_arrivals(survey)
    heard = not _in_vain(info, survey, 1)
    yield from _behind_reads(survey, rule) if heard else ()
    yield from _released_late(survey, near, rule)
    yield from _handed_on(info, survey, near, rule)
    yield from _behind_commits(survey, near, rule)
    yield from _before_meetings(survey, near, rule)
    yield from _commits_in_turn(survey, rule)
    turns = list(turns_of_groups(survey, near, rule))
    yield from (
        turns if rule not in _OF_THREADS else ()
    )  # where others arrive already, they may do so here, too
    if rule == "SV211":
        of_groups = [t for t in tries if t.mistake in (Mistake.LAX_WAIT, Mistake.MISSING_COMMIT)]
        yield from (*of_groups, *_at_end(survey, near))
        yield from (t for t in tries if t not in of_groups and t.mistake is not Mistake.SURPLUS)
        return
    yield from (t for t in tries if t.mistake is not Mistake.SURPLUS)
    yield from _parities_alike(survey, near, rule)
    yield from turns if rule in _OF_THREADS else ()
    yield from (t for t in tries if t.mistake is Mistake.SURPLUS)


def _likeliest(tries: list[Attempt], survey: Survey, near: set[Span]) -> list[Attempt]:
    """The tries, where near waits may be for too few groups: what no other number mends comes before.

    A stricter wait, or one more commit, may hide that a barrier or another commit lacks. A barrier of threads
    completes no group, so where it mends the kernel the numbers are right. A commit lacks where the survey
    says so; elsewhere it comes last.
    """
    first: list[Attempt] = []
    last: list[Attempt] = []
    lax = any(t.mistake is Mistake.LAX_WAIT and t.place in near for t in tries)
    of_reads = any(
        t.mistake is Mistake.LAX_WAIT and survey.around.have([t.place], Ev.BULK_WAIT) for t in tries
    )
    for t in tries:
        inserted = t.change
        if isinstance(inserted, InsertOperation) and _behind_lax(survey, t.place, inserted.code):
            last.append(t)
            continue
        if isinstance(inserted, WaitReads) and of_reads:  # a wait is there
            last.append(t)
            continue
        if isinstance(inserted, InsertOperation) and t.mistake is Mistake.MISSING_COMMIT:
            lacks = t.place in survey.commits.lacking(inserted.code)
            (first if lacks else last).append(t)
        elif lax and t.place in near and isinstance(inserted, Insert) and not inserted.fence:
            first.append(t)
    first.sort(key=lambda t: t.mistake is not Mistake.MISSING_COMMIT)
    others = [t for t in tries if t not in first and t not in last]
    return [*first, *others, *last]


def _behind_lax(survey: Survey, place: Span, code: int) -> bool:
    """Whether a wait for groups that leaves some of them pending comes right before a place each time: then
    its number is wrong, not the lack of a second wait."""
    waits = survey.around.have(survey.around.before.get(place, ()), code) if code in GROUP_WAITS else []
    return any(survey.pending.get(w, 0) and 2 * survey.turns[place] > survey.turns[w] for w in waits)


def _is_only_wait(survey: Survey, place: Span) -> bool:
    """Whether nobody else waits for the barriers that a place waits for. Then another barrier is hardly meant
    there: what arrives on them, or should, would be for nobody."""
    mine = survey.barriers.get(place, set())
    waiting = [p for p, codes in survey.places.items() if {*WAITS} & {*codes}]
    others = (survey.barriers[p] for p in waiting if p != place)
    return place in waiting and not any(mine & of_other for of_other in others)


def _between_arrivals(survey: Survey) -> Iterator[Attempt]:
    """A wait behind an arrival at the cluster's barrier that has none."""
    text = "barrier.cluster.wait.acquire.aligned"
    for place in sorted(survey.cluster.unwaited, key=lambda p: (p.file, p.line)):
        change = InsertOperation(place, Ev.CLUSTER_WAIT, (0,), text)
        yield Attempt(Mistake.MISSING_WAIT, change, place, _said(text, ahead=False))


def _behind_reads(survey: Survey, rule: str) -> Iterator[Attempt]:
    """A barrier of the cluster behind what its blocks read of what they send to each other."""
    exchanged = survey.sent and rule in _UNORDERED | _OF_TURNS
    for place in survey.around.have(survey.places, Ev.READ) if exchanged else ():
        yield from _of_cluster(survey, place)


def _released_late(survey: Survey, near: list[Span], rule: str) -> Iterator[Attempt]:
    """An arrival at a barrier of threads that comes right before an access: behind it instead."""
    before = (
        {p for place in near for p in survey.around.before.get(place, ())} if rule in _UNORDERED else set()
    )
    for place in survey.around.have(survey.places, Ev.BARRIER_ARRIVE):
        if place in before:
            yield Attempt(Mistake.EARLY_RELEASE, ArriveLater(place, fence=False), place, _LATER)


def _handed_on(info: SystemInfo, survey: Survey, near: list[Span], rule: str) -> Iterator[Attempt]:
    """Who waits for its turn on a barrier of an array passes it on to the next one: arrivals at the array are
    on the wrong barrier, or there are none."""
    waits = survey.around.have(near, Ev.WAIT) if rule == "SV210" else []
    for name, copies in survey.arrays(info).items():
        mine = {b for array in copies for b in array}
        arriving = [p for p in survey.around.have(survey.places, Ev.ARRIVE) if survey.barriers[p] <= mine]
        at = [p for p in waits if survey.barriers[p] <= mine]
        if not at or len(copies[0]) < 2 or mine & {b for _, b in survey.copied} or mine & survey.of_copies:
            continue
        for place in arriving:
            text = f"use n of the ring, counted from 0, is on {name}[n % {len(copies[0])}]"
            yield Attempt(Mistake.OTHER_BARRIER, SlotOfUse(place, copies), place, text)
            text = f"the next barrier of {name} is meant here"
            yield Attempt(Mistake.OTHER_BARRIER, NextSlot(place, copies), place, text)
        text = f"pass the turn on: arrive at the next barrier of {name} before the next wait here"
        if not arriving:
            yield Attempt(Mistake.MISSING_ARRIVE, HandOn(at[0], copies), at[0], text)


def _behind_commits(survey: Survey, near: list[Span], rule: str) -> Iterator[Attempt]:
    """A wait behind the commit of a wgmma, where every other commit that is waited for has it there."""
    around = survey.around
    waits = around.have(around.codes, Ev.WGMMA_WAIT)
    follow = all(around.have(around.before.get(w, ()), Ev.WGMMA_COMMIT) for w in waits)
    if rule not in _OF_WGMMA or not waits or not follow:
        return
    text = "wgmma.wait_group.sync.aligned 0"
    for place in around.have(near, Ev.WGMMA):
        commits = around.have(around.codes, Ev.WGMMA_COMMIT)
        below = [c for c in commits if c.file == place.file and c.line >= place.line]
        first = min(below, key=lambda c: c.line, default=place)
        if first != place and not around.have(around.behind.get(first, ()), Ev.WGMMA_WAIT):
            change = InsertOperation(first, Ev.WGMMA_WAIT, (0,), text)
            yield Attempt(Mistake.MISSING_WAIT, change, first, _said(text, ahead=False))


def _before_meetings(survey: Survey, near: list[Span], rule: str) -> Iterator[Attempt]:
    """A wait for a wgmma before the barrier of threads ahead of who reads what it computes; a wait for copies
    before a barrier of threads, where the other barriers behind copies have one."""
    around = survey.around
    text = "wgmma.wait_group.sync.aligned 0"
    for read in near if rule == "SV401" else ():
        for place in around.have(around.before.get(read, ()), Ev.BARRIER_SYNC):
            if _behind_lax(survey, place, Ev.WGMMA_WAIT):
                continue
            change = InsertOperation(place, Ev.WGMMA_WAIT, (0,), text, ahead=True)
            yield Attempt(Mistake.MISSING_WAIT, change, place, _said(text, ahead=True))
    text = "cp.async.wait_group 0"
    for place in around.have(near, Ev.BARRIER_SYNC) if rule in ("SV110", "SV112") else ():
        others = [p for p in around.have(around.codes, Ev.BARRIER_SYNC) if p != place]
        waited = [p for p in others if around.have(around.before.get(p, ()), Ev.CP_WAIT)]
        if waited and not around.have(around.before.get(place, ()), Ev.CP_WAIT):
            change = InsertOperation(place, Ev.CP_WAIT, (0,), text, ahead=True)
            yield Attempt(Mistake.MISSING_WAIT, change, place, _said(text, ahead=True))


def _at_end(survey: Survey, near: list[Span]) -> Iterator[Attempt]:
    """What is still in flight at the end is committed, waited for, or met by all blocks of the cluster."""
    stores = [p for p in near if Ev.BULK_STORE in survey.places[p]]
    bare = set().union(*survey.open_stores.values())
    for place in stores:
        if place in bare:
            text = "commit this bulk store behind it: cp.async.bulk.commit_group"
            yield Attempt(Mistake.MISSING_COMMIT, CommitStores(place), place, text)
        text = "wait for the reads of all bulk stores before the end: cp.async.bulk.wait_group.read 0"
        yield Attempt(Mistake.MISSING_WAIT, DrainAtEnd(), place, text)
    if not stores and len({cta for warps in survey.warps.values() for cta, _ in warps}) > 1:
        text = "a barrier of the cluster before the end: barrier.cluster.arrive, barrier.cluster.wait"
        yield from (Attempt(Mistake.MISSING_BARRIER, ClusterBarrierAtEnd(), p, text) for p in near[:1])


def _edits(info: SystemInfo, survey: Survey, place: Span, rule: str) -> list[Attempt]:
    """Edits at one place, the likeliest first."""
    codes = set(survey.places[place])
    out: list[Attempt] = []
    if rule == "SV209" and Ev.POLL in codes:
        out.append(Attempt(Mistake.MISSING_WAIT, PollUntilTrue(place), place, "repeat this until it is true"))
    if codes & {*WAITS}:
        out += _waits(survey, place)
    if Ev.INIT in codes:
        out += _counts(info, survey, place)
        out += _inits(info, survey, place)
        out += _behind_inits(survey, place) if rule == "SV204" else []
    if codes & {Ev.ARRIVE, Ev.EXPECT_TX}:
        out += _bytes(survey, place)
    if Ev.ARRIVE in codes:
        out += _with_copies(survey, place, rule)
        out += _arrivals(info, survey, place, rule)
    if codes & {*WAITS, Ev.ARRIVE, Ev.BULK_LOAD} and rule in _OF_SLOTS:
        out += _slots(info, survey, place)
    if codes & {*GROUP_WAITS} and survey.pending[place] > 0:
        out += _lax(survey, place)
    if codes & {*ACCESSES, Ev.WGMMA}:
        out += _accesses(info, survey, place)
    if codes & {Ev.WRITE, Ev.ARRIVE, Ev.CP_ASYNC, Ev.BULK_LOAD, Ev.ST_ASYNC} and rule in _OF_TURNS:
        out += _waits_in_turn(info, survey, place, first=1)
    if codes & {Ev.READ, Ev.WGMMA} and rule in _OF_FILLS:
        out += _waits_in_turn(info, survey, place, first=0)
    out += _of_copies(place, codes)
    out += _of_groups(survey, place, codes, rule)
    if codes & {*ACCESSES, *ISSUES} and rule in _UNORDERED | _OF_THREADS:
        out += _unheard(survey, place)
    if codes & {*ACCESSES, *ISSUES} and rule in _UNORDERED:
        out += _orders(survey, place)
    if codes & {*ACCESSES} and rule in _UNORDERED | _OF_TURNS:
        out += _of_cluster(survey, place)
    if codes & {*ACCESSES} and rule == "SV114":
        out += _of_cluster(survey, place, ahead=True)
    return out + _of_threads(survey, place, codes, rule)


def _of_threads(survey: Survey, place: Span, codes: set[int], rule: str) -> list[Attempt]:
    """What a barrier of threads may be meant for, or where."""
    out: list[Attempt] = []
    if Ev.BARRIER_ARRIVE in codes:
        out.append(Attempt(Mistake.EARLY_RELEASE, ArriveLater(place, fence=False), place, _LATER))
    if Ev.BARRIER_SYNC in codes and len(survey.ids[place]) == 1:
        out += _named(survey, place, min(survey.ids[place]))
    elif Ev.BARRIER_SYNC in codes and rule in _OF_THREADS:
        out += _one_count(survey, place, sorted(survey.ids[place]))
    if Ev.BARRIER_ARRIVE in codes and rule in _OF_THREADS:
        out += _arrivals_too(survey, place)
    if codes & {Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE} and rule in _OF_THREADS:
        out += _ids(survey, place)
    return out


def _waits(survey: Survey, place: Span) -> list[Attempt]:
    """Waits for another parity, or none."""
    later = any(first != place for (_, b), first in survey.first.items() if b in survey.barriers[place])
    other = Mistake.LATER_PARITY if later else Mistake.FIRST_PARITY
    out = [Attempt(other, OtherParity(place), place, "wait for the other parity here")]
    for first, what in ((0, "n % 2"), (1, "(n + 1) % 2")):
        text = f"wait for parity {what} at use n of the barrier, counted from 0 by each waiter"
        out.append(Attempt(Mistake.LATER_PARITY, CountedParity(place, first), place, text))
    return [*out, Attempt(Mistake.SURPLUS, DropAt(place, Ev.WAIT), place, "this wait is one too many")]


def _behind_inits(survey: Survey, place: Span) -> list[Attempt]:
    """A barrier of all that the initialized barriers are for."""
    text = "a barrier of the whole block behind the initialization"
    out = [Attempt(Mistake.MISSING_BARRIER, BarrierBehindInit(), place, text)]
    if len(survey.blocks) > 1:
        text = "a barrier of the cluster behind the initialization"
        out.append(Attempt(Mistake.MISSING_BARRIER, ClusterBarrierBehindInit(), place, text))
    return out


def _arrivals(info: SystemInfo, survey: Survey, place: Span, rule: str) -> list[Attempt]:
    """Arrivals elsewhere, or none."""
    out: list[Attempt] = []
    for fence, what in ((False, ""), (True, ", and behind a fence.proxy.async.shared::cta")):
        text = f"release only after the accesses that follow here{what}"
        out.append(Attempt(Mistake.EARLY_RELEASE, ArriveLater(place, fence), place, text))
    for n, which in ((1, "next"), (2, "second")) if rule in _UNORDERED else ():
        text = f"release only behind the {which} barrier of threads from here"
        out.append(Attempt(Mistake.EARLY_RELEASE, ArriveBehind(place, n), place, text))
    out += _slot_waits(info, survey, place)
    out += _announcements(survey, place)
    out.append(Attempt(Mistake.SURPLUS, DropAt(place, Ev.ARRIVE), place, "this arrival is one too many"))
    return out


def _with_copies(survey: Survey, place: Span, rule: str) -> list[Attempt]:
    """An arrival of cp.async copies in the place of one of their threads."""
    copies = any(Ev.CP_ASYNC in codes for codes in survey.places.values())
    if not copies or rule not in _UNORDERED or place in survey.announcing:
        return []
    text = "arrive when the copies are complete: cp.async.mbarrier.arrive.noinc"
    return [Attempt(Mistake.MISSING_WAIT, ArriveWithCopies(place), place, text)]


def _lax(survey: Survey, place: Span) -> list[Attempt]:
    """Waits for more groups."""
    out: list[Attempt] = []
    for pending in dict.fromkeys((survey.pending[place] - 1, 0)):
        groups = "1 group" if pending == 1 else f"{pending} groups"
        text = f"leave {groups} pending here, not {survey.pending[place]}"
        out.append(Attempt(Mistake.LAX_WAIT, FewerPending(place, pending), place, text))
    return out


def _accesses(info: SystemInfo, survey: Survey, place: Span) -> list[Attempt]:
    """A wait before an access, or a release behind it."""
    barriers = _copy_barriers(info, survey, sorted(survey.accessed.get(place, ())))
    if not barriers:
        return _releases(info, survey, place)
    name = info.barriers[barriers[0][1]].name
    text = f"wait for the phase of the copy before this access (mbarrier {name})"
    waits = [
        Attempt(Mistake.MISSING_WAIT, WaitBefore(place, barriers, with_others), place, text)
        for with_others in _counted_ways(survey, barriers)
    ]
    unheard = tuple((fp, b) for fp, b in barriers if b not in survey.waited)
    text = "wait for the only phase of the copy before this (mbarrier {}), for whose barrier nobody waits"
    once = [
        Attempt(Mistake.MISSING_WAIT, WaitOnce(place, unheard), place, text.format(info.barriers[b].name))
        for _, b in unheard[:1]
    ]
    return [*waits, *once, *_releases(info, survey, place)]


def _of_copies(place: Span, codes: set[int]) -> list[Attempt]:
    """What a bulk copy may lack: its bytes announced, or a wait for its reads."""
    out: list[Attempt] = []
    if Ev.BULK_LOAD in codes and codes & {Ev.ARRIVE, Ev.EXPECT_TX}:
        out.append(Attempt(Mistake.SURPLUS, DropCopy(place), place, "this copy is one too many"))
    if Ev.BULK_LOAD in codes:
        text = "announce the bytes of this copy before it: mbarrier.arrive.expect_tx"
        out.append(Attempt(Mistake.BYTES, Announce(place), place, text))
    if Ev.BULK_STORE in codes:
        text = "before it hands over next, its issuer waits for its reads: cp.async.bulk.wait_group.read 0"
        out.append(Attempt(Mistake.MISSING_WAIT, WaitReads(place), place, text))
    return out


def _slots(info: SystemInfo, survey: Survey, place: Span) -> list[Attempt]:
    """A wait or an arrival on another barrier of its array, or on another array."""
    arrays = survey.arrays(info)
    copied = {b for b in survey.bytes if place in survey.copies_on(b)}
    mine = survey.barriers.get(place, set()) or copied
    own = [name for name, copies in arrays.items() if mine & {b for array in copies for b in array}]
    if len(own) != 1:
        return []
    name = own[0]
    out: list[Attempt] = []
    waits = {*WAITS} & {*survey.places[place]}
    if len(arrays[name][0]) > 1 and mine is not copied:
        text = f"use n of the ring, counted from 0, is on {name}[n % {len(arrays[name][0])}]"
        out.append(Attempt(Mistake.OTHER_BARRIER, SlotOfUse(place, arrays[name]), place, text))
        text = f"the next barrier of {name} is meant here"
        out.append(Attempt(Mistake.OTHER_BARRIER, NextSlot(place, arrays[name]), place, text))
    for other, copies in arrays.items() if not _is_only_wait(survey, place) else ():
        if other != name and [*map(len, copies)] == [*map(len, arrays[name])]:
            pairs = zip((b for a in arrays[name] for b in a), (b for a in copies for b in a), strict=True)
            text = f"{other} is meant here, not {name}"
            both = tuple(pairs)
            out.append(Attempt(Mistake.OTHER_BARRIER, OtherArray(place, both), place, text))
            if mine is not copied and not waits:
                text = f"the slot of {name} is meant that was waited for in {other}"
                change = SlotOfLastWait(place, tuple((b, a) for a, b in both))
                out.append(Attempt(Mistake.OTHER_BARRIER, change, place, text))
    return out


def _ids(survey: Survey, place: Span) -> list[Attempt]:
    """Another barrier of threads that the kernel has."""
    own = survey.ids[place]
    every = sorted({number for ids in survey.ids.values() for number in ids} - own)
    return [
        Attempt(Mistake.OTHER_BARRIER, OtherId(place, n), place, f"barrier {n} is meant here")
        for n in every
        if len(own) == 1
    ]


def _arrivals_too(survey: Survey, place: Span) -> list[Attempt]:
    """At another barrier of threads, too, the first time that threads arrive at one here."""
    own = survey.ids[place]
    asked = {n: survey.asked(n) for n in sorted(survey.coming) if n not in own and len(own) == 1}
    return [
        Attempt(Mistake.MISSING_ARRIVE, ArriveToo(place, n, threads), place, text)
        for n, (threads, *others) in asked.items()
        if n and not others
        for text in (f"arrive at barrier {n}, too, here: bar.arrive {n}, {threads}",)
    ]


def _announcements(survey: Survey, place: Span) -> list[Attempt]:
    """Announcements that are made once, where each phase of copies needs one."""
    mine = {b for b in survey.barriers.get(place, ()) if b in survey.bytes}
    if place not in survey.announcing or not mine:
        return []
    first = {survey.copies_on(b)[0] for b in mine}
    if len(first) != 1:
        return []
    amounts = tuple((b, survey.moved(b)[0]) for b in survey.bytes)
    text = f"announce {amounts[0][1]} bytes with the copies of each phase, not once"
    change = AnnounceWithCopy(place, first.pop(), amounts)
    return [Attempt(Mistake.BYTES, change, change.copy, text)]


def _of_groups(survey: Survey, place: Span, codes: set[int], rule: str) -> list[Attempt]:
    """Commits and waits for the groups of a thread's own operations, and the fence of a wgmma."""
    tries: list[tuple[Mistake, Ev, tuple[int, ...], str, bool]] = []
    if Ev.CP_ASYNC in codes and rule == "SV110":
        tries.append((Mistake.MISSING_COMMIT, Ev.CP_COMMIT, (), "cp.async.commit_group", False))
    if codes & {Ev.READ, Ev.WGMMA, Ev.WRITE, Ev.BULK_STORE} and rule in ("SV110", "SV112"):
        tries.append((Mistake.MISSING_WAIT, Ev.CP_WAIT, (0,), "cp.async.wait_group 0", True))
    hands_over = codes & {Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE, Ev.ARRIVE}
    if hands_over and rule in ("SV110", "SV112") and survey.commits.groups.get(Ev.CP_COMMIT):
        tries.append((Mistake.MISSING_WAIT, Ev.CP_WAIT, (0,), "cp.async.wait_group 0", True))
    if Ev.BULK_STORE in codes and rule == "SV104":
        tries.append((Mistake.MISSING_COMMIT, Ev.BULK_COMMIT, (), "cp.async.bulk.commit_group", False))
    if Ev.WGMMA in codes and rule == "SV402":
        tries.append((Mistake.MISSING_FENCE, Ev.WGMMA_FENCE, (), "wgmma.fence.sync.aligned", True))
    if Ev.WGMMA in codes and rule in _OF_WGMMA:
        tries.append((Mistake.MISSING_COMMIT, Ev.WGMMA_COMMIT, (), "wgmma.commit_group.sync.aligned", False))
    if codes & {Ev.FRAG_READ, Ev.ARRIVE, Ev.BARRIER_SYNC} and rule in _OF_WGMMA:
        tries.append((Mistake.MISSING_WAIT, Ev.WGMMA_WAIT, (0,), "wgmma.wait_group.sync.aligned 0", True))
    return [
        Attempt(mistake, InsertOperation(place, code, operands, text, ahead), place, _said(text, ahead=ahead))
        for mistake, code, operands, text, ahead in tries
    ]


def _said(instruction: str, *, ahead: bool) -> str:
    return f"{instruction} {'before' if ahead else 'behind'} this"


def _named(survey: Survey, place: Span, number: int) -> list[Attempt]:
    """A named barrier for each warpgroup that fills it alone, or one that counts all who come."""
    out: list[Attempt] = []
    warps = survey.meeting[number]
    groups = {(cta, warp // WARPS_OF_GROUP) for cta, warp in warps}
    if number and len(groups) > 1 and survey.sizes[number] == {32 * len(warps) // len(groups)}:
        text = (
            f"a barrier id for each of the {len(groups)} warpgroups here: each fills barrier {number} alone"
        )
        out.append(Attempt(Mistake.COUNT, OwnBarriers(number), place, text))
    threads = survey.threads(number)
    text = f"let barrier {number} count {threads} threads: so many come"
    out.append(Attempt(Mistake.COUNT, BarrierCount(((number, threads),)), place, text))
    return out + _one_count(survey, place, [number])


def _one_count(survey: Survey, place: Span, numbers: list[int]) -> list[Attempt]:
    """All barriers to which as many come as to one of some, and that say another count."""
    wrong = [n for n in numbers if n and survey.asked(n) != {survey.threads(n)}]
    threads = survey.threads(wrong[0]) if wrong else 0
    every = [n for n in sorted(survey.coming) if n and survey.threads(n) == threads]
    pairs = tuple((n, threads) for n in every if survey.asked(n) != {threads})
    if len(pairs) < 2:
        return []
    which = f"{', '.join(str(n) for n, _ in pairs[:-1])} and {pairs[-1][0]}"
    text = f"let barriers {which} count {threads} threads: so many come to each"
    return [Attempt(Mistake.COUNT, BarrierCount(pairs), place, text)]


def _counts(info: SystemInfo, survey: Survey, place: Span) -> list[Attempt]:
    """As many arrivals as come, for those barriers of a place whose count is another."""
    arrivers = {b: sum(survey.arriving.get(b, {}).values()) for b in sorted(survey.barriers[place])}
    seen = {n for n in arrivers.values() if n}
    if not seen or (len(seen) > 1 and not all(arrivers.values())):
        return []
    arrivers = {b: n or max(seen) for b, n in arrivers.items()}  # who has not come yet will be as many
    out: list[Attempt] = []
    for share in _shares(survey, set(arrivers)):
        wanted = {b: n if share == 1 else n // share for b, n in arrivers.items()}
        wrong = {b: n for b, n in wanted.items() if n != survey.counts.get(b)}
        if wrong:
            first = min(wrong)
            which = "" if len(wrong) == len(wanted) else f" {info.barriers[first].name}"
            text = f"initialize{which} with {wrong[first]}: so many arrivals come in a phase"
            out.append(Attempt(Mistake.COUNT, InitCounts(place, tuple(wrong.items())), place, text))
    return out + _counts_alike(info, survey, place, arrivers)


def _counts_alike(info: SystemInfo, survey: Survey, place: Span, arrivers: dict[int, int]) -> list[Attempt]:
    """The count of a barrier of a place for others as well that have the same wrong one: a loop that is
    unrolled, or a helper, initializes them elsewhere."""
    come = {b: sum(survey.arriving.get(b, {}).values()) for b in survey.counts}
    wrong = {b: n for b, n in come.items() if n and n != survey.counts[b]}
    mine = [b for b in arrivers if b in wrong]
    alike = {b: n for b, n in wrong.items() if mine and n == wrong[mine[0]]}
    if not alike.keys() - arrivers.keys():
        return []
    more = f"{info.barriers[mine[0]].name} and {len(alike) - 1} more"
    text = f"initialize {more} with {alike[mine[0]]}: so many arrivals come in a phase"
    change = InitCounts(place, tuple(alike.items()), anywhere=True)
    return [Attempt(Mistake.COUNT, change, place, text)]


def _parities_alike(survey: Survey, near: list[Span], rule: str) -> Iterator[Attempt]:
    """Another parity for several waits of the same warps: a helper may wait for all of them."""
    waits = [p for p, codes in survey.places.items() if {*WAITS} & {*codes}]
    copied = {b for _, b in survey.copied}
    for place in near if rule in ("SV201", "SV210") else ():
        if place not in waits:
            continue
        of_copies = survey.barriers[place] <= copied
        mates = [
            p
            for p in waits
            if p != place
            and survey.warps[p] == survey.warps[place]
            and (survey.barriers[p] <= copied) is of_copies
        ]
        groups = [tuple(mates), *(tuple(p for p in mates if p != other) for other in mates)]
        for also in dict.fromkeys(g for g in groups if g and len(mates) <= _MATES):
            lines = " and ".join(f"line {p.line}" for p in also)
            text = f"wait for the other parity here and at {lines}"
            yield Attempt(Mistake.FIRST_PARITY, OtherParity(place, also), place, text)


def _shares(survey: Survey, barriers: set[int]) -> tuple[int, ...]:
    """In how many parts the arrivals on some barriers may come: at once, or by warpgroups in turn."""
    groups = {(cta, w // WARPS_OF_GROUP) for b in barriers for cta, w, _ in survey.arriving.get(b, {})}
    sums = {
        sum(n for (cta, w, _), n in survey.arriving[b].items() if (cta, w // WARPS_OF_GROUP) == group)
        for b in barriers
        for group in groups
        if b in survey.arriving
    }
    return (1, len(groups)) if len(groups) > 1 and len(sums) == 1 else (1,)


def _waits_in_turn(info: SystemInfo, survey: Survey, place: Span, first: int) -> list[Attempt]:
    """A wait for barriers that others arrive at in vain, for parity ``first`` at first: until they have taken
    what was there (1: the first time at once), or have brought it."""
    found = [
        copies
        for copies in _in_vain(info, survey, first)
        if not {(c, w) for b in _all(copies) for c, w, _ in survey.arriving.get(b, ())} & survey.warps[place]
    ]
    if len(found) != 1:
        return []
    name = info.barriers[found[0][0][0]].name
    until = "free" if first else "filled"
    text = f"wait before this until it is {until} ({name}), parity {first} first"
    return [Attempt(Mistake.MISSING_WAIT, WaitInTurn(place, found[0], first), place, text)]


def _in_vain(info: SystemInfo, survey: Survey, first: int) -> list[tuple[tuple[int, ...], ...]]:
    """Arrays of barriers that threads arrive at and nobody waits for, in any block; none of copies into
    slots, and, where what is waited for is free at first, none of other copies."""
    copied = {b for _, b in survey.copied} | (survey.of_copies if first else set())
    return [
        copies
        for copies in survey.arrays(info).values()
        if _all(copies) & {*survey.arriving} and not _all(copies) & (survey.waited | copied)
    ]


def _all(copies: tuple[tuple[int, ...], ...]) -> set[int]:
    """The barriers of an array, of all blocks."""
    return {b for array in copies for b in array}


def _commits_in_turn(survey: Survey, rule: str) -> Iterator[Attempt]:
    """Commits also in the turns that copy nothing: a wait counts the groups of all turns."""
    around = survey.around
    lacks = [w for w in around.have(around.codes, Ev.CP_WAIT) if survey.commits.waits_alone & {w}]
    commits = [p for p in around.have(around.codes, Ev.CP_COMMIT) if p.file in {w.file for w in lacks}]
    if rule not in _UNORDERED or not lacks or not commits:
        return
    place = max(commits, key=lambda p: p.line)
    text = "commit in every turn, also where nothing is copied: the waits count these groups"
    yield Attempt(Mistake.MISSING_COMMIT, CommitEachTurn(place), place, text)


def _bytes(survey: Survey, place: Span) -> list[Attempt]:
    moved = {b: survey.moved(b) for b in sorted(survey.barriers.get(place, ()))}
    if not moved or not all(amounts[0] for amounts in moved.values()):
        return []
    out: list[Attempt] = []
    for n in range(max(len(amounts) for amounts in moved.values())):
        pairs = tuple((b, amounts[min(n, len(amounts) - 1)]) for b, amounts in moved.items())
        text = _announced([amount for _, amount in pairs])
        out.append(Attempt(Mistake.BYTES, ExpectBytes(place, pairs), place, text))
    return out


def _announced(amounts: list[int]) -> str:
    """What to announce where copies move so many bytes, by barrier."""
    some = dict.fromkeys(amounts)
    if len(some) == 1:
        return f"announce {amounts[0]} bytes: so many do the copies of a phase move"
    said = " and ".join(map(str, some))
    return f"the copies of a phase move {said} bytes into different blocks: announce those, or copy to all"


def _inits(info: SystemInfo, survey: Survey, place: Span) -> list[Attempt]:
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
    return [Attempt(Mistake.MISSING_INIT, InitToo(place, tuple(counts.items())), place, text)]


def _slot_waits(info: SystemInfo, survey: Survey, place: Span) -> list[Attempt]:
    """A wait for the slot before it is announced that a copy fills it."""
    pairs = survey.free_barriers
    free = {pairs[b] for b in survey.barriers.get(place, ()) if b in pairs}
    if not free:
        return []
    text = f"wait before this until the slot is free ({info.barriers[min(free)].name}), parity 1 first"
    scope = int(Flag.CLUSTER if len(survey.blocks) > 1 else Flag.NONE)
    return [
        Attempt(
            Mistake.MISSING_WAIT, WaitForFree(place, tuple(pairs.items()), with_others, scope), place, text
        )
        for with_others in _counted_ways(survey, pairs.items())
    ]


def _counted_ways(survey: Survey, pairs: Iterable[tuple[int, int]]) -> tuple[bool, ...]:
    """Whether a new wait counts the uses of its place, and, where others wait, those of all places."""
    return (False, True) if survey.waited & {b for _, b in pairs} else (False,)


def _releases(info: SystemInfo, survey: Survey, place: Span) -> list[Attempt]:
    """An arrival behind the accesses of a slot, on the barrier that its next copy waits for."""
    pairs = survey.free_barriers
    copies = _copy_barriers(info, survey, sorted(survey.accessed.get(place, ())))
    freed = tuple((fp, pairs[b]) for fp, b in copies if b in pairs and pairs[b] not in survey.arriving)
    if not freed:
        return []
    name = info.barriers[freed[0][1]].name
    of_warps = {survey.counts.get(b) for _, b in freed} == {len(survey.warps[place]) // len(survey.blocks)}
    who = "one lane of each warp arrives" if of_warps else "arrive"
    at, what = (
        (place, "access") if (end := _read_by(survey, place)) is None else (end, "wait for its readers")
    )
    text = f"{who} behind this {what} on the barrier that the next copy waits for ({name})"
    return [
        Attempt(Mistake.MISSING_ARRIVE, Release(place, freed, fence, of_warps), at, text)
        for fence in (False, True)
    ]


def _read_by(survey: Survey, place: Span) -> Span | None:
    """Where threads wait for a wgmma of a place: before that it may read on."""
    below = [p for p in survey.ends.at.get(place, ()) if p.file == place.file and p.line > place.line]
    return min(below, key=lambda p: p.line, default=None)


def _unheard(survey: Survey, place: Span) -> list[Attempt]:
    """A meeting at a named barrier that others arrive at, and that nobody waits at."""
    return [
        Attempt(
            Mistake.MISSING_BARRIER,
            InsertOperation(place, Ev.BARRIER_SYNC, (number, threads, 0), text, ahead=True),
            place,
            f"{_said(text, ahead=True)}: others arrive at barrier {number}, and nobody waits at it",
        )
        for number, threads in survey.given.items()
        if number not in survey.meeting
        for text in (f"bar.sync {number}, {threads}",)
    ]


def _orders(survey: Survey, place: Span) -> list[Attempt]:
    """A proxy fence, a barrier of the warps that come here, or both."""
    fence = "fence.proxy.async.shared::cta behind this access, by every thread, before the hand-over"
    out = [Attempt(Mistake.MISSING_FENCE, Insert(place, fence=True), place, fence)]
    if place in survey.parted:
        text = "a barrier of each warp's lanes behind this access: bar.warp.sync"
        out.append(Attempt(Mistake.MISSING_BARRIER, Insert(place, fence=False, lanes=True), place, text))
    elsewhere = _met_elsewhere(survey, place)
    for ahead, where in ((False, "behind"), (True, "before")) if elsewhere else ():
        text = f"the named barrier at which these warps meet elsewhere, {where} this access"
        out.append(Attempt(Mistake.MISSING_BARRIER, MeetAsElsewhere(place, elsewhere, ahead), place, text))
    groups = {frozenset(warps) for p, warps in survey.warps.items() if warps >= survey.warps[place]}
    for warps in sorted(groups, key=lambda g: (len(g), sorted(g))):
        if len(warps) < 2:
            continue
        who = f"the {len(warps)} warps that share it"
        for ahead, where in ((False, "behind"), (True, "before")):
            text = f"a barrier of {who} {where} this access"
            out.append(
                Attempt(
                    Mistake.MISSING_BARRIER, Insert(place, warps=warps, ahead=ahead, fence=False), place, text
                )
            )
        text = f"a proxy fence and then a barrier of {who} behind this access"
        out.append(Attempt(Mistake.MISSING_BARRIER, Insert(place, fence=True, warps=warps), place, text))
    return out


def _of_cluster(survey: Survey, place: Span, *, ahead: bool = False) -> list[Attempt]:
    """A barrier of the cluster behind accesses of all its warps, or before them."""
    every = set().union(*survey.warps.values())
    if len(survey.blocks) < 2 or survey.warps[place] != every:
        return []
    where = "before" if ahead else "behind"
    text = f"a barrier of the cluster {where} this access: barrier.cluster.arrive, barrier.cluster.wait"
    change = Insert(place, fence=False, ahead=ahead, cluster=True)
    return [Attempt(Mistake.MISSING_BARRIER, change, place, text)]


def _met_elsewhere(survey: Survey, place: Span) -> tuple[tuple[int, int, int], ...]:
    """The named barrier, and its threads, of each warp that comes to a place; none if not all have one, or if
    it is one and the same."""
    here = {warp for _, warp in survey.warps[place]}
    found: dict[int, tuple[int, int]] = {}
    for number, met in survey.meeting.items():
        sizes = survey.sizes[number]
        if number and len(sizes) == 1 and {32 * len({w for _, w in met})} == sizes:
            found |= {w: (number, min(sizes)) for _, w in met if w in here}
    whole = len(found) == len(here) and len({number for number, _ in found.values()}) > 1
    return tuple((w, *found[w]) for w in sorted(found)) if whole else ()
