"""Which explorations are tried for a problem, and with how many events."""

from __future__ import annotations

import pytest

from syncverify import sizes
from syncverify.diagnostics import Policy, Verdict
from syncverify.sizes import Limits, Problem, Sized, prove

BRIEF, WHOLE = 10, 10 * sizes.BRIEF


def tried(
    monkeypatch: pytest.MonkeyPatch, exceeded: list[bool], forgotten: bool, last: Verdict = Verdict.UNKNOWN
) -> list[tuple[bool, int]]:
    """Whether each attempt took any value in every turn, and its events; ``exceeded``: how each one ends."""
    seen: list[tuple[bool, int]] = []

    def run(self: sizes._Attempt) -> Sized:
        self.exceeded = exceeded[len(seen)]
        seen.append((self.forgets, self.limits.events))
        if forgotten:
            self.space.forgotten.add("K")
        return Sized(last if len(seen) == len(exceeded) else Verdict.UNKNOWN, reason="not shown")

    monkeypatch.setattr(sizes._Attempt, "run", run)
    problem = Problem({"K": (0, 9)}, (), lambda *_: [], lambda _: Verdict.PROVED)
    found = prove(problem, Policy.PRACTICAL, Limits(events=WHOLE), small=False)
    assert found.verdict is last
    return seen


def test_any_value_in_every_turn_is_looked_at_briefly_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, [True, True, True], True) == [(True, BRIEF), (False, WHOLE), (True, WHOLE)]


def test_what_fails_with_one_value_is_not_tried_with_any(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, [True, False], True) == [(True, BRIEF), (False, WHOLE)]


def test_a_failing_run_is_not_followed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, [False, True], True) == [(True, BRIEF), (False, WHOLE)]


def test_where_nothing_is_read_again_only_the_limit_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, [True, True], False) == [(True, BRIEF), (True, WHOLE)]
    assert tried(monkeypatch, [False], False) == [(True, BRIEF)]


def test_a_verdict_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, [False], True, Verdict.PROVED) == [(True, BRIEF)]
    assert tried(monkeypatch, [True, False], True, Verdict.PROVED) == [(True, BRIEF), (False, WHOLE)]
