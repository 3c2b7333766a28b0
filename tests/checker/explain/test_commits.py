"""Commits that a thread's events seem to lack, and arrivals at a cluster's barrier without a wait."""

from __future__ import annotations

import pytest

from syncverify.base.source import Span
from syncverify.checker.explain.commits import ClusterArrivals, Commits
from syncverify.model.events import Ev, ThreadClass

ME = ThreadClass(0, 0, 1)


def _at(line: int) -> Span:
    return Span("k.cu", line)


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        ("a1 c a2 c w", set()),
        ("a1 a2 c a3 a4 c w", set()),  # as many in each
        ("a1 a2 c a3 c a4 c w", {1}),  # the first group is two
        ("a1 a2 a3 a4 c a5 a6 c a7 a8 c", {2}),
        ("a1 a2 a3 c a4 a5 c a6 a7 a8 a9 a10 c a11 a12 a13 c a14 a15 c", {8}),  # 3 and 2 in turn, once 5
        ("a1 w c", {1}),  # the wait comes before the commit
        ("c c a1 c", set()),  # empty groups are no measure
        ("", set()),
    ],
)
def test_a_commit_lacks_where_groups_have_run_together(events: str, lines: set[int]) -> None:
    codes = {"a": Ev.CP_ASYNC, "c": Ev.CP_COMMIT, "w": Ev.CP_WAIT}
    commits = Commits()
    for event in events.split():
        commits.note(codes[event[0]], _at(int(event[1:] or 0)), ME)
    assert commits.lacking(Ev.CP_COMMIT) == {_at(n) for n in lines}
    assert commits.lacking(Ev.WGMMA_COMMIT) == set()


@pytest.mark.parametrize(("events", "lines"), [("a1 w a3 w", set()), ("a1 a2 w", {1}), ("a1", set())])
def test_an_arrival_of_the_cluster_is_waited_for_before_the_next(events: str, lines: set[int]) -> None:
    codes = {"a": Ev.CLUSTER_ARRIVE, "w": Ev.CLUSTER_WAIT}
    arrivals = ClusterArrivals()
    for event in events.split():
        arrivals.note(codes[event[0]], _at(int(event[1:] or 0)), ME)
    assert arrivals.unwaited == {_at(n) for n in lines}
