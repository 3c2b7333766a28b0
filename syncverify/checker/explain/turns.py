"""Edits that may mend the order in which warpgroups take turns.

Two groups that use one buffer in turn hand it over in both directions, by named barriers or by mbarriers.
What authors miss there concerns one group alone: nobody has come before the first one, so the other must
arrive once at the beginning, or the first one's wait must pass at once. Each group waits where the others
arrive.

Worked example. Group 0 waits at barrier 2 and arrives at 3, group 1 the other way round. If group 1 does not
arrive at 2 before its loop, both wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from syncverify.base.diagnostics import EditHint, EditKind, Mistake
from syncverify.base.source import Span
from syncverify.checker.explain.attempt import Attempt
from syncverify.checker.explain.edits import WAITS, WARPS_OF_GROUP, OtherParity
from syncverify.checker.explain.exchanges import MeetAsElsewhere
from syncverify.checker.explain.redundancy import Passed, Place
from syncverify.checker.explain.survey import Survey
from syncverify.model.events import Ev, Event, ThreadClass

_LANES = 32
_NAMED = (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE)


@dataclass(frozen=True, slots=True)
class ArriveOnce:
    """Each warp of ``group`` arrives at a barrier of threads before it first comes to a named one."""

    number: int
    threads: int
    group: int

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        mine = cls.warp // WARPS_OF_GROUP == self.group
        if held or not mine or event[0] not in _NAMED or not event[2]:
            return (event,), held
        return ((Ev.BARRIER_ARRIVE, event[1], self.number, self.threads, 0), event), True


@dataclass(frozen=True, slots=True)
class OtherParityOfGroup:
    """Waits of one warpgroup at ``place`` ask for the other parity."""

    place: Span
    group: int

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        if place[0] == self.place and event[0] in WAITS and cls.warp // WARPS_OF_GROUP == self.group:
            event = (*event[:3], event[3] ^ 1, *event[4:])
        return (event,), None


def turns_of_groups(survey: Survey, near: list[Span], rule: str) -> Iterator[Attempt]:
    """What one group may lack of those that take turns at the places."""
    every = {warp // WARPS_OF_GROUP for warps in survey.warps.values() for _, warp in warps}
    for place in near:
        groups = sorted({warp // WARPS_OF_GROUP for _, warp in survey.warps.get(place, ())})
        if rule == "SV210" and len(every) > 1 and _is_of_turns(survey, place):
            yield from () if len(groups) > 1 else (_all_pass_first(place),)  # others may not have come yet
            yield from (_passes_first(place, group) for group in groups)
        if len(groups) < 2:
            continue
        if rule == "SV301":
            yield from _arrivals_at_first(survey, place, groups)
        mapping = _where_others_arrive(survey, place) if rule in ("SV110", "SV111", "SV112") else ()
        if mapping:
            text = "each group waits before this at the barrier that the others arrive at"
            yield Attempt(Mistake.MISSING_BARRIER, MeetAsElsewhere(place, mapping, ahead=True), place, text)


def _is_of_turns(survey: Survey, place: Span) -> bool:
    """Whether threads wait at a place for barriers without copies, at which nobody else arrives."""
    mine = survey.barriers.get(place, set())
    arriving = {(cta, warp) for b in mine for cta, warp, _ in survey.arriving.get(b, ())}
    copied = {b for _, b in survey.copied} | survey.of_copies
    waits = {*WAITS} & {*survey.places.get(place, ())}
    return bool(waits) and not mine & copied and arriving <= survey.warps[place]


def _warps(group: int) -> str:
    return f"warps {WARPS_OF_GROUP * group} to {WARPS_OF_GROUP * group + WARPS_OF_GROUP - 1}"


def _all_pass_first(place: Span) -> Attempt:
    return Attempt(Mistake.FIRST_PARITY, OtherParity(place), place, "wait for the other parity here")


def _passes_first(place: Span, group: int) -> Attempt:
    text = f"{_warps(group)} wait for the other parity here: nobody has had a turn before theirs"
    return Attempt(Mistake.FIRST_PARITY, OtherParityOfGroup(place, group), place, text)


def _arrivals_at_first(survey: Survey, place: Span, groups: list[int]) -> Iterator[Attempt]:
    """An arrival before its first turn, of a group that fills a barrier at which another one waits."""
    for number in sorted(survey.ids.get(place, ())):
        coming = {warp for _, warp in survey.coming[number]}
        asked = survey.asked(number)
        missing = [g for g in groups if not {w // WARPS_OF_GROUP for w in coming} & {g}]
        if not number or len(asked) != 1 or min(asked) != _LANES * (len(coming) + WARPS_OF_GROUP):
            continue
        for group in missing:
            text = f"{_warps(group)} arrive once at barrier {number} before their first turn: "
            text += f"bar.arrive {number}, {min(asked)}"
            yield Attempt(Mistake.MISSING_ARRIVE, ArriveOnce(number, min(asked), group), place, text)


def _where_others_arrive(survey: Survey, place: Span) -> tuple[tuple[int, int, int], ...]:
    """The barrier, and its threads, that each warp of a place may wait at; none if not one for each."""
    here = {warp for _, warp in survey.warps[place]}
    found: dict[int, tuple[int, int]] = {}
    for number, threads in survey.given.items():
        arriving = {warp for _, warp in survey.coming[number]}
        waiting = here - arriving
        if number in survey.meeting or waiting & found.keys() or _LANES * len(waiting | arriving) != threads:
            return ()
        found |= dict.fromkeys(waiting, (number, threads))
    whole = found.keys() == here and len({number for number, _ in found.values()}) > 1
    return tuple((w, *found[w]) for w in sorted(found)) if whole else ()


def hint_of_turn(change: ArriveOnce | OtherParityOfGroup) -> EditHint:
    """The edit of such a change: for the threads of one group."""
    if isinstance(change, OtherParityOfGroup):
        return EditHint(EditKind.OTHER_PARITY, change.group)
    name = f"bar.arrive {change.number}, {change.threads}"
    return EditHint(EditKind.INSTRUCTION, change.group, ahead=True, name=name)


def by_group(met: tuple[tuple[int, int, int], ...]) -> str:
    """The barrier of each of two groups, as an expression of CUDA; empty: it is none of the group alone."""
    of_groups: dict[int, set[int]] = {}
    for warp, number, _ in met:
        of_groups.setdefault(warp // WARPS_OF_GROUP, set()).add(number)
    if len(of_groups) != 2 or any(len(numbers) > 1 for numbers in of_groups.values()):
        return ""
    (first, (one, *_)), (_, (other, *_)) = sorted(of_groups.items())
    return f"threadIdx.x / {_LANES * WARPS_OF_GROUP} == {first} ? {one} : {other}"


__all__ = ["ArriveOnce", "OtherParityOfGroup", "by_group", "hint_of_turn", "turns_of_groups"]
