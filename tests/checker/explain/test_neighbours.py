"""What the same threads do around a place: between which two an operation may be added."""

from __future__ import annotations

from syncverify.base.source import Span
from syncverify.checker.explain.edits import DropAt, Insert, InsertOperation
from syncverify.checker.explain.neighbours import Neighbours, other_end
from syncverify.model.events import Ev, ThreadClass

A, B, C, D = (Span("k.cu", line) for line in (10, 20, 30, 40))
ONE = ThreadClass(0, 0, 0xFFFFFFFF)


def _noted(*events: tuple[int, Span]) -> Neighbours:
    found = Neighbours()
    for code, span in events:
        found.note(code, span, ONE)
    return found


def test_a_commit_comes_behind_its_copies_and_before_what_follows() -> None:
    around = _noted((Ev.CP_ASYNC, A), (Ev.CP_ASYNC, A), (Ev.READ, B), (Ev.CP_WAIT, C))
    commit = InsertOperation(A, Ev.CP_COMMIT, (), "cp.async.commit_group")
    assert (other_end(commit, A, around) or [None])[0] == B


def test_a_wait_ahead_of_a_read_comes_behind_what_was_before() -> None:
    around = _noted((Ev.CP_ASYNC, A), (Ev.READ, C))
    wait = InsertOperation(C, Ev.CP_WAIT, (0,), "cp.async.wait_group 0", ahead=True)
    assert (other_end(wait, C, around) or [None])[0] == A


def test_a_barrier_behind_an_access_comes_before_the_next_meeting() -> None:
    around = _noted((Ev.WRITE, A), (Ev.READ, B), (Ev.ARRIVE, C))
    assert (other_end(Insert(A, fence=True), A, around) or [None])[0] == C


def test_in_a_loop_what_comes_below_counts_before_its_head() -> None:
    around = _noted((Ev.WAIT, A), (Ev.READ, C), (Ev.WAIT, A), (Ev.READ, C), (Ev.ARRIVE, D))
    commit = InsertOperation(C, Ev.CP_COMMIT, (), "cp.async.commit_group")
    assert (other_end(commit, C, around) or [None])[0] == D


def test_what_adds_nothing_has_no_neighbours() -> None:
    assert other_end(DropAt(A, Ev.ARRIVE), A, _noted((Ev.ARRIVE, A), (Ev.READ, B))) is None
