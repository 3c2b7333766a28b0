"""What one of several warpgroups may lack that take turns."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import EditKind, Mistake
from syncverify.base.source import Span
from syncverify.checker.explain.edits import OtherParity
from syncverify.checker.explain.exchanges import MeetAsElsewhere
from syncverify.checker.explain.survey import Survey
from syncverify.checker.explain.turns import (
    ArriveOnce,
    OtherParityOfGroup,
    by_group,
    hint_of_turn,
    turns_of_groups,
)
from syncverify.model.events import Ev, Event, ThreadClass

HERE, THERE = Span("k.cu", 7), Span("k.cu", 9)


def _warp(n: int) -> ThreadClass:
    return ThreadClass(0, n, 32)


def _survey(*events: tuple[range, Span, Event]) -> Survey:
    survey = Survey()
    for warps, place, event in events:
        for n in warps:
            survey.apply(event, (place, ""), None, _warp(n))
    return survey


FIRST, SECOND = range(4), range(4, 8)


def _at(code: Ev, number: int) -> Event:
    return (code, 0, number, 256, 0)


def test_each_group_waits_where_the_others_arrive() -> None:
    write: Event = (Ev.WRITE, 0, 0)
    survey = _survey(
        (FIRST, HERE, write), (SECOND, HERE, write),
        (FIRST, THERE, _at(Ev.BARRIER_ARRIVE, 3)), (SECOND, THERE, _at(Ev.BARRIER_ARRIVE, 2)),
    )  # fmt: skip
    (found,) = turns_of_groups(survey, [HERE], "SV112")
    assert isinstance(found.change, MeetAsElsewhere) and found.mistake is Mistake.MISSING_BARRIER
    assert {(w, n) for w, n, _ in found.change.barriers} == {(w, 2 if w < 4 else 3) for w in range(8)}
    assert by_group(found.change.barriers) == "threadIdx.x / 128 == 0 ? 2 : 3"
    survey.apply(_at(Ev.BARRIER_SYNC, 2), (THERE, ""), None, _warp(0))  # somebody waits there
    assert list(turns_of_groups(survey, [HERE], "SV112")) == []


def test_the_first_turn_is_handed_over_by_who_does_not_wait_for_it() -> None:
    survey = _survey((FIRST, HERE, _at(Ev.BARRIER_SYNC, 2)), (SECOND, HERE, _at(Ev.BARRIER_SYNC, 3)))
    found = [a.change for a in turns_of_groups(survey, [HERE], "SV301")]
    assert found == [ArriveOnce(2, 256, 1), ArriveOnce(3, 256, 0)]
    held, out = None, []
    for event in (_at(Ev.BARRIER_SYNC, 0), _at(Ev.BARRIER_SYNC, 3), _at(Ev.BARRIER_SYNC, 3)):
        events, held = found[0].apply(event, (HERE, ""), held, _warp(5))
        out += [(e[0], e[2]) for e in events]
    assert out == [(Ev.BARRIER_SYNC, 0), (Ev.BARRIER_ARRIVE, 2), (Ev.BARRIER_SYNC, 3), (Ev.BARRIER_SYNC, 3)]
    assert found[0].apply(_at(Ev.BARRIER_SYNC, 2), (HERE, ""), None, _warp(1))[0] == (
        _at(Ev.BARRIER_SYNC, 2),
    )


@pytest.mark.parametrize(("warp", "parity"), [(1, 0), (5, 1)])
def test_one_group_waits_for_the_other_parity(warp: int, parity: int) -> None:
    wait: Event = (Ev.WAIT, 0, 4, 0, 0)
    survey = _survey((FIRST, HERE, wait), (SECOND, HERE, wait))
    first, second = (a.change for a in turns_of_groups(survey, [HERE], "SV210"))
    assert second == OtherParityOfGroup(HERE, 1) and first == OtherParityOfGroup(HERE, 0)
    ((_, _, _, asked, _),), _ = second.apply(wait, (HERE, ""), None, _warp(warp))
    assert asked == parity
    assert hint_of_turn(second).kind is EditKind.OTHER_PARITY and hint_of_turn(second).number == 1


def test_one_group_alone_takes_no_turns() -> None:
    survey = _survey((FIRST, HERE, (Ev.WAIT, 0, 4, 0, 0)))
    assert list(turns_of_groups(survey, [HERE], "SV210")) == []
    for n in SECOND:  # it may wait here in another launch
        survey.apply((Ev.WAIT, 0, 5, 0, 0), (THERE, ""), None, _warp(n))
    found = [a.change for a in turns_of_groups(survey, [HERE], "SV210")]
    assert found == [OtherParity(HERE), OtherParityOfGroup(HERE, 0)]
    assert by_group(((0, 2, 256), (4, 3, 256), (8, 4, 256))) == ""
    assert by_group(((0, 2, 256), (1, 3, 256), (4, 3, 256))) == ""
