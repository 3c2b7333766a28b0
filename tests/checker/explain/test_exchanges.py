"""Edits of an agent's events that exchange an operation, or add it in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from syncverify.base.source import Span
from syncverify.checker.explain.exchanges import (
    ArriveWithCopies,
    CommitEachTurn,
    HandOn,
    NextSlot,
    PollUntilTrue,
    WaitInTurn,
    WaitOnce,
)
from syncverify.checker.explain.redundancy import Change
from syncverify.model.events import Ev, Event, Flag, ThreadClass

HERE, ELSEWHERE = Span("k.cu", 1), Span("k.cu", 2)
ONE = ThreadClass(0, 0, 0xFFFFFFFF)
RING = ((4, 5),)


def _changed(change: Change, events: Sequence[tuple[Span, Event]]) -> list[tuple[int, ...]]:
    """What an agent does with a change: codes and operands, without sites."""
    held: Any = None
    found: list[tuple[int, ...]] = []
    for span, event in events:
        new, held = change.apply(event, (span, ""), held, ONE)
        found += [(e[0], *e[2:]) for e in new]
    return found


def test_an_arrival_of_a_thread_becomes_one_of_its_copies() -> None:
    arrive: Event = (Ev.ARRIVE, 0, 4, 1, -1, 0)
    announce: Event = (Ev.ARRIVE, 0, 4, 1, 64, 0)
    changed = _changed(ArriveWithCopies(HERE), [(HERE, arrive), (HERE, announce), (ELSEWHERE, arrive)])
    assert changed[0] == (Ev.CP_ARRIVE, 4, 1)
    assert changed[1:] == [(Ev.ARRIVE, 4, 1, 64, 0), (Ev.ARRIVE, 4, 1, -1, 0)]


def test_a_poll_becomes_a_wait() -> None:
    assert _changed(PollUntilTrue(HERE), [(HERE, (Ev.POLL, 0, 4, 1, 0))]) == [(Ev.WAIT, 4, 1, 0)]


def test_the_slot_behind_the_last_is_the_first() -> None:
    waits: list[tuple[Span, Event]] = [(HERE, (Ev.WAIT, 0, b, 0, 0)) for b in (4, 5)]
    assert [w[1] for w in _changed(NextSlot(HERE, RING), waits)] == [5, 4]


def test_the_first_lap_of_waits_in_turn_passes_at_once() -> None:
    write: Event = (Ev.WRITE, 0, 9)
    laps = [(HERE, write), (HERE, write), (ELSEWHERE, write)] * 3
    waits = [e for e in _changed(WaitInTurn(HERE, ((4, 5),)), laps) if e[0] == Ev.WAIT]
    assert waits == [(Ev.WAIT, 4, 1, 0), (Ev.WAIT, 5, 1, 0), (Ev.WAIT, 4, 0, 0)]


def test_a_block_of_a_cluster_waits_for_its_own_barrier_at_the_scope_of_the_cluster() -> None:
    change = WaitInTurn(HERE, ((4,), (7,)))
    (wait, _), _ = change.apply((Ev.ST_ASYNC, 0, 9, 5, 4), (HERE, ""), None, replace(ONE, cta=1))
    assert wait == (Ev.WAIT, 0, 7, 1, int(Flag.CLUSTER))


def test_who_waited_hands_on_before_the_next_wait_and_at_the_end() -> None:
    wait: Event = (Ev.WAIT, 0, 4, 0, 0)
    changed = _changed(HandOn(HERE, RING), [(HERE, wait), (HERE, wait), (ELSEWHERE, (Ev.EXIT, 0))])
    turn = [(Ev.WAIT, 4), (Ev.ARRIVE, 5)]
    assert [e[:2] for e in changed] == [*turn, *turn, (Ev.EXIT,)]


def test_a_turn_without_a_commit_gets_one() -> None:
    wait: Event = (Ev.CP_WAIT, 0, 1)
    turns = [(ELSEWHERE, (Ev.CP_COMMIT, 0)), (HERE, wait), (HERE, wait)]
    assert [e[0] for e in _changed(CommitEachTurn(HERE), turns)] == [
        Ev.CP_COMMIT, Ev.CP_WAIT, Ev.CP_COMMIT, Ev.CP_WAIT,
    ]  # fmt: skip


def test_the_only_copy_is_waited_for_once() -> None:
    read: Event = (Ev.READ, 0, 9, 0)
    changed = _changed(WaitOnce(HERE, ((9, 4),)), [(HERE, read), (HERE, read)])
    assert [e[0] for e in changed] == [Ev.WAIT, Ev.READ, Ev.READ]
