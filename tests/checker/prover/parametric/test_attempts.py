"""Which explorations are tried for a problem, and with how many events."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.prover.parametric import strategy
from syncverify.checker.prover.parametric.attempt import Attempt
from syncverify.checker.prover.parametric.concrete_checks import ConcreteChecks, Ranges
from syncverify.checker.prover.parametric.strategy import ExplorationBudget, ParametricResult, Problem, prove
from syncverify.ir.expr import Expr, Var

WHOLE = 160
BRIEF, SOON, LAST = (
    WHOLE // part
    for part in (strategy.ROUND_ROBIN_DIVISOR, strategy.FIRST_PASS_DIVISOR, strategy.SECOND_PASS_DIVISOR)
)


def tried(
    monkeypatch: pytest.MonkeyPatch, exceeded: list[bool], forgotten: bool, last: Verdict = Verdict.UNKNOWN
) -> list[tuple[bool, int]]:
    """Whether each attempt took any value in every iteration, and its events; ``exceeded``: how each one
    ends.
    """
    seen: list[tuple[bool, int]] = []

    def run(self: Attempt) -> ParametricResult:
        self.exceeded = exceeded[len(seen)]
        seen.append((self.forgets, self.limits.events))
        if forgotten:
            self.space.havocked.add("K")
        return ParametricResult(last if len(seen) == len(exceeded) else Verdict.UNKNOWN, reason="not shown")

    monkeypatch.setattr(Attempt, "run", run)
    problem = Problem({"K": (0, 9)}, (), lambda *_: [], lambda _: Verdict.PROVED)
    found = prove(problem, Policy.PRACTICAL, ExplorationBudget(events=WHOLE), small=False)
    assert found.verdict is last
    return seen


def test_any_value_in_every_turn_is_looked_at_briefly_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, [True] * 5, True) == [
        (True, BRIEF), (False, SOON), (False, LAST), (False, WHOLE), (True, WHOLE),
    ]  # fmt: skip


def test_the_brief_look_goes_on_while_few_states_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would restart with the same states. So it is in PTX; in the IR it is over soon."""
    limits = ExplorationBudget(events=WHOLE, short_attempt_divisor=strategy.ROUND_ROBIN_DIVISOR)
    seen: list[ExplorationBudget] = []

    def run(self: Attempt) -> ParametricResult:
        seen.append(self.limits)
        return ParametricResult(Verdict.PROVED)

    monkeypatch.setattr(Attempt, "run", run)
    prove(Problem({}, (), lambda *_: [], lambda _: Verdict.PROVED), Policy.PRACTICAL, limits)
    (brief,) = seen
    assert (brief.events, brief.events * brief.extension_factor) == (BRIEF, WHOLE)
    assert brief.allows(strategy.ROUND_ROBIN_DIVISOR, 10, 200)
    assert not brief.allows(1.1, 100, 200)
    assert not brief.allows(strategy.ROUND_ROBIN_DIVISOR + 0.1, 10, 200)


def test_one_value_is_looked_at_in_two_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that no sizes confirm may come of the order in which agents go on."""
    looks = [(False, SOON), (False, LAST), (False, WHOLE)]
    assert tried(monkeypatch, [False] * 4, True) == [(True, BRIEF), *looks]


def test_where_nothing_is_read_again_only_the_limit_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, [True, True], False) == [(True, BRIEF), (True, WHOLE)]
    assert tried(monkeypatch, [False], False) == [(True, BRIEF)]


def test_a_verdict_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, [False], True, Verdict.PROVED) == [(True, BRIEF)]
    assert tried(monkeypatch, [True, False], True, Verdict.PROVED) == [(True, BRIEF), (False, SOON)]


def test_before_limits_are_stretched_agents_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a ring. A look that ends by itself has no other after it; the last may take all."""
    first = ExplorationBudget(events=WHOLE, branch_when_nobody_else_can_run=True, extension_factor=16)
    seen: list[tuple[bool, int]] = []

    def run(self: Attempt) -> ParametricResult:
        seen.append((self.limits.branch_when_nobody_else_can_run, self.limits.extension_factor))
        self.symmetry_failed = self.exceeded = True
        return ParametricResult(Verdict.UNKNOWN, reason="not shown")

    monkeypatch.setattr(Attempt, "run", run)
    problem = Problem({}, (), lambda *_: [], lambda _: Verdict.PROVED)
    prove(problem, Policy.PRACTICAL, first=first, once=True, small=False)
    assert seen[:4] == [(True, 16), (True, 1), (False, 1), (True, 16)]


@pytest.mark.parametrize(
    ("facts", "total", "least"),
    [
        ((), 0, True),
        ((), 1, False),
        ((Var("N") >= 2,), 5, True),
        ((Var("N") >= 2,), 6, False),
        ((Var("N") + Var("M") > 6,), 7, True),
        ((Var("N") * Var("M") > 16,), 9, False),
    ],
)
def test_what_no_launch_goes_below(facts: tuple[Expr, ...], total: int, least: bool) -> None:
    """``M`` is 3 or more where a fact is given, and ``N`` of any sign."""
    sizes: Ranges = {"N": (-(2**31), 2**31 - 1), "M": (3 if facts else 0, None)}
    checks = ConcreteChecks(Problem(sizes, facts, lambda *_: (), lambda _: Verdict.PROVED))
    assert checks.is_least(total) is least
