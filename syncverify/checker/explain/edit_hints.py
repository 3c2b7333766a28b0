"""How a change of the events is brought about in the text, where one can say it.

A hint names the kind of edit, its number, the mbarrier, and lines of the same file that do the like: who
edits the text has statements to go by. Worked example. ``WaitBefore`` a read of ``in`` becomes a wait for
``full`` ahead of the read; the waits of the file are its models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from syncverify.base.diagnostics import EditHint, EditKind
from syncverify.base.source import Span
from syncverify.checker.explain.edits import (
    OF_WARP,
    WAITS,
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
from syncverify.checker.explain.redundancy import Change
from syncverify.checker.explain.survey import Survey, array_name
from syncverify.checker.explain.turns import ArriveOnce, OtherParityOfGroup, by_group, hint_of_turn
from syncverify.model.events import Ev, SystemInfo

#: Lines that are named as models.
_MODELS = 6
_COMMIT, _READS = "cp.async.bulk.commit_group", "cp.async.bulk.wait_group.read 0"
_LANES = 32
_OF_GROUP = "15 - threadIdx.x / 128"
_CP_COMMIT = "cp.async.commit_group"
_INDEX = re.compile(r"\[(\d+)\]$")
#: Edits that need no more than the kind of change.
_ALONE: dict[type, EditHint] = {
    OtherParity: EditHint(EditKind.OTHER_PARITY),
    PollUntilTrue: EditHint(EditKind.UNTIL_TRUE),
    DropAt: EditHint(EditKind.REMOVE),
    DropCopy: EditHint(EditKind.REMOVE),
    ArriveBehind: EditHint(EditKind.LATER),
    BarrierBehindInit: EditHint(EditKind.BARRIER, 0, at_end=True),
}
_CLUSTER = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire"


def hint(change: Change, info: SystemInfo, survey: Survey, place: Span) -> EditHint | None:
    """The edit of the text that may do what ``change`` does at ``place``."""
    found = _hint(change, info, survey, place)
    meant = _meant(change, survey, place)
    return replace(found, apart=_apart(info, survey, place, meant)) if found and meant else found


def _meant(change: Change, survey: Survey, place: Span) -> set[int]:
    """The mbarriers on which a change adds an operation."""
    match change:
        case WaitBefore(barriers=pairs) | WaitOnce(barriers=pairs) | Release(barriers=pairs):
            return {b for _, b in pairs}
        case WaitForFree(barriers=pairs):
            return {b for announced, b in pairs if announced in survey.barriers[place]}
        case InitToo(counts=pairs):
            return {b for b, _ in pairs}
        case WaitInTurn(arrays=(array, *_)):
            return {*array}
        case Announce():
            return {b for b in survey.bytes if place in survey.copies_on(b)}
    return set()


def _apart(info: SystemInfo, survey: Survey, place: Span, meant: set[int]) -> tuple[tuple[int, int], ...]:
    """Lines of the file of ``place`` that name as many mbarriers, all so many bytes before those meant."""
    of_copies: dict[Span, set[int]] = {}
    for b in survey.bytes:
        for copy in survey.copies_on(b):
            of_copies.setdefault(copy, set()).add(b)
    goal = _offsets(info, meant)
    found: list[tuple[int, int]] = []
    for span, barriers in (*survey.barriers.items(), *of_copies.items()):
        own = _offsets(info, barriers)
        by = {there - here for here, there in zip(own, goal, strict=False)}
        if span.file == place.file and len(own) == len(goal) and len(by) == 1:
            found.append((span.line, by.pop()))
    return tuple(sorted(found, key=lambda x: (abs(x[0] - place.line), x)))[:_MODELS]


def _offsets(info: SystemInfo, barriers: Iterable[int]) -> list[int]:
    """Where mbarriers lie in the first block that has some of them."""
    some = [info.barriers[b] for b in barriers]
    first = min((b.cta for b in some), default=0)
    return sorted(b.offset for b in some if b.cta == first)


def _hint(change: Change, info: SystemInfo, survey: Survey, place: Span) -> EditHint | None:
    """The edit without what lies apart.

    Of a release, ``number`` threads are those of which one arrives; none: all do.
    """
    simple = _simple(change) or _exchanged(change, info, survey, place)
    if simple is not None:
        return simple
    names = tuple(dict.fromkeys(array_name(b.name) for b in info.barriers))
    waits = _lines(survey, place, *WAITS)
    match change:
        case CountedParity():
            size = _ring(info, survey, min(survey.barriers[place]))
            return EditHint(EditKind.PARITY_OF_USE, models=waits, names=names, size=size)
        case WaitBefore(barriers=pairs):
            name, size = array_name(info.barriers[pairs[0][1]].name), _ring(info, survey, pairs[0][1])
            return EditHint(EditKind.WAIT, ahead=True, name=name, models=waits, names=names, size=size)
        case WaitForFree(barriers=pairs):
            name, size = array_name(info.barriers[pairs[0][1]].name), _ring(info, survey, pairs[0][1])
            return EditHint(EditKind.WAIT, 1, ahead=True, name=name, models=waits, names=names, size=size)
        case Release(barriers=pairs, fence=fence, of_warps=of_warps):
            models = _lines(survey, place, Ev.ARRIVE)
            name = array_name(info.barriers[pairs[0][1]].name)
            number = _LANES if of_warps else None
            return EditHint(EditKind.ARRIVE, number, fenced=fence, name=name, models=models, names=names)
        case Announce():
            models = _lines(survey, place, Ev.ARRIVE, Ev.EXPECT_TX)
            moved = [
                (b, n) for b, copies in survey.bytes.items() for (at, _), n in copies.items() if at == place
            ]
            if not moved:
                return None
            name = array_name(info.barriers[moved[0][0]].name)
            number = moved[0][1]
            return EditHint(EditKind.ANNOUNCE, number, ahead=True, name=name, models=models, names=names)
        case InitToo(counts=pairs):
            missing = info.barriers[pairs[0][0]].name
            name, index = array_name(missing), _INDEX.search(missing)
            at = int(index[1]) if index is not None else 0
            return EditHint(EditKind.INIT, pairs[0][1], name=name, models=(place.line,), names=names, size=at)
        case Insert():
            return _barrier(survey, place, change)
        case SlotOfUse() | SlotOfLastWait() | OtherArray():
            return _slot(change, info, survey, place, names)
        case AnnounceWithCopy(place=once) if once.file == place.file:
            return EditHint(EditKind.INTO_LOOP, models=(once.line,), names=names)
    return _of_threads(change, survey, place)


def _of_threads(change: Change, survey: Survey, place: Span) -> EditHint | None:
    """The edit of a change of barriers of threads."""
    match change:
        case BarrierCount(threads=pairs):
            ids = {id for id, _ in pairs}
            return EditHint(EditKind.NUMBER, pairs[0][1], models=_meetings(survey, place, pairs[0][0], ids))
        case ArriveToo(number=number):
            return EditHint(EditKind.ARRIVE_TOO, number, models=_meetings(survey, place, number))
        case OtherId(number=number):
            own = min(survey.ids[place]) if Ev.BARRIER_ARRIVE in survey.places[place] else 0
            return EditHint(EditKind.BARRIER_ID, number, models=_meetings(survey, place, number), size=own)
        case InsertOperation(code=Ev.BARRIER_SYNC, operands=(number, *_), ahead=ahead, text=text):
            models = _meetings(survey, place, number)
            return EditHint(EditKind.INSTRUCTION, ahead=ahead, name=text, models=models)
        case OwnBarriers(number=number):
            models = _meetings(survey, place, number)
            return EditHint(EditKind.BARRIER_ID, name=_OF_GROUP, models=models)
    return None


def _exchanged(change: Change, info: SystemInfo, survey: Survey, place: Span) -> EditHint | None:
    """The edit of a change that exchanges an operation, or adds one in turn (``exchanges``)."""
    names = tuple(dict.fromkeys(array_name(b.name) for b in info.barriers))
    waits = _lines(survey, place, *WAITS)
    match change:
        case WaitOnce(barriers=pairs):
            name = array_name(info.barriers[pairs[0][1]].name)
            return EditHint(EditKind.WAIT, ahead=True, name=name, models=waits, names=names, size=1)
        case ArriveWithCopies():
            return EditHint(EditKind.WITH_COPIES, names=names)
        case CommitEachTurn():
            alone = {span.line for span in survey.commits.waits_alone if span.file == place.file}
            return EditHint(EditKind.OUT_OF_BLOCK, name=_CP_COMMIT, models=tuple(sorted(alone)))
        case WaitInTurn(arrays=((one, *_), *_), first=first):
            name, size = array_name(info.barriers[one].name), _ring(info, survey, one)
            return EditHint(EditKind.WAIT, first, ahead=True, name=name, models=waits, names=names, size=size)
        case HandOn(array=array):
            name = array_name(info.barriers[array[0][0]].name)
            return EditHint(EditKind.HAND_ON, name=name, names=(name,), size=len(array[0]))
        case NextSlot():
            return replace(_slot(change, info, survey, place, names), ahead=True)
        case MeetAsElsewhere(barriers=met, ahead=ahead):
            ids = {number for _, number, _ in met}
            lines = tuple(n for number in sorted(ids) for n in _meetings(survey, place, number, ids))
            models = tuple(dict.fromkeys(lines))
            return EditHint(EditKind.BARRIER, met[0][2], ahead, name=by_group(met), models=models)
        case ArriveOnce() | OtherParityOfGroup():
            return hint_of_turn(change)
    return None


def _simple(change: Change) -> EditHint | None:
    """The edit of a change that says all that there is to it."""
    if isinstance(change, OtherParity) and change.also:
        return None  # of several lines
    if type(change) in _ALONE:
        return _ALONE[type(change)]
    match change:
        case InitCounts(counts=pairs) | ExpectBytes(bytes=pairs) if len({n for _, n in pairs}) == 1:
            return EditHint(EditKind.NUMBER, pairs[0][1])
        case FewerPending(pending=number):
            return EditHint(EditKind.NUMBER, number)
        case Insert(fence=True, warps=warps, ahead=ahead) if not warps:
            return EditHint(EditKind.FENCE, ahead=ahead)
        case Insert(lanes=True, ahead=ahead):
            return EditHint(EditKind.INSTRUCTION, ahead=ahead, name=OF_WARP)
        case Insert(cluster=True, ahead=ahead):
            return EditHint(EditKind.INSTRUCTION, ahead=ahead, name=_CLUSTER)
        case ArriveLater(fence=fence):
            return EditHint(EditKind.LATER, fenced=fence)
        case InsertOperation(code=code, ahead=ahead, text=text) if code != Ev.BARRIER_SYNC:
            return EditHint(EditKind.INSTRUCTION, ahead=ahead, name=text)
        case CommitStores():
            return EditHint(EditKind.INSTRUCTION, name=_COMMIT)
        case WaitReads():
            return EditHint(EditKind.INSTRUCTION, name=_READS)
        case DrainAtEnd():
            return EditHint(EditKind.INSTRUCTION, at_end=True, name=_READS)
        case ClusterBarrierAtEnd() | ClusterBarrierBehindInit():
            return EditHint(EditKind.INSTRUCTION, at_end=True, name=_CLUSTER)
    return None


def _meetings(survey: Survey, place: Span, number: int, others: Iterable[int] = ()) -> tuple[int, ...]:
    """Lines of the file of ``place`` where threads meet at a barrier of this number, or of ``others``."""
    mine = {span.line for span, ids in survey.ids.items() if ids <= {number, *others}}
    return tuple(n for n in _lines(survey, place, Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE) if n in mine)


def _ring(info: SystemInfo, survey: Survey, barrier: int) -> int:
    """How many barriers the array of one has."""
    return len(survey.arrays(info)[array_name(info.barriers[barrier].name)][0])


def _slot(
    change: SlotOfUse | SlotOfLastWait | OtherArray | NextSlot,
    info: SystemInfo,
    survey: Survey,
    place: Span,
    names: tuple[str, ...],
) -> EditHint:
    """Another index of the same array, or the name of another array."""
    models = _lines(survey, place, *WAITS, Ev.ARRIVE, Ev.BULK_LOAD)
    if isinstance(change, (SlotOfUse, NextSlot)):
        name = array_name(info.barriers[change.array[0][0]].name)
        size = len(change.array[0])
        return EditHint(EditKind.SLOT, name=name, models=models, names=names, size=size)
    if isinstance(change, SlotOfLastWait):
        name = array_name(info.barriers[change.barriers[0][1]].name)
        return EditHint(EditKind.SLOT, name=name, models=models, names=names)
    one, other = (array_name(info.barriers[b].name) for b in change.barriers[0])
    return EditHint(EditKind.SLOT, number=1, name=other, models=models, names=(one,))


def _barrier(survey: Survey, place: Span, change: Insert) -> EditHint:
    """A barrier of the warps of a block: of all of it, or like another one of the same warps."""
    here = {warp for cta, warp in change.warps if cta == min(change.warps)[0]}
    block = {warp for warps in survey.warps.values() for _, warp in warps}
    number = 0 if block <= here else 32 * len(here)
    alike = {id for id, met in survey.meeting.items() if {warp for _, warp in met} == here}
    models = tuple(
        line
        for line in _lines(survey, place, Ev.BARRIER_SYNC)
        if any(span.line == line and ids & alike for span, ids in survey.ids.items())
    )
    return EditHint(EditKind.BARRIER, number, change.ahead, change.fence, models=models)


def _lines(survey: Survey, place: Span, *codes: Ev) -> tuple[int, ...]:
    """Lines of the file of ``place`` with such events, the nearest first."""
    found = {p.line for p, seen in survey.places.items() if p.file == place.file and {*codes} & {*seen}}
    return tuple(sorted(found, key=lambda line: (abs(line - place.line), line)))[:_MODELS]


__all__ = ["hint"]
