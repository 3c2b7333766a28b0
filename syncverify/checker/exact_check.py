"""The checker: events to verdict. It knows agents and their events, no IR.

``check`` runs the canonical execution, tests the obligations, and where one fails looks for a schedule that
does harm. See ``docs/theory.md``.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from syncverify.base.diagnostics import Diagnostic, Policy, Severity, Verdict, Witness
from syncverify.base.reason import Cause, Reason, caused
from syncverify.checker.explain.branching_polls import try_poll_orders
from syncverify.checker.explain.counterexample import canonical, find_witness
from syncverify.checker.explain.hang import hang_failure, release_blocked, stuck
from syncverify.checker.explain.root_causes import Group, diagnostic, distinct, group_by_root_cause, warnings
from syncverify.checker.happens_before.end_of_run import check_end
from syncverify.checker.happens_before.failure import HARM, IMMEDIATE, Failure
from syncverify.checker.happens_before.race_findings import (
    between_blocks,
    some_between_blocks,
    some_in_global,
)
from syncverify.checker.happens_before.run import (
    AFTER_HARM,
    BranchingPoll,
    Livelock,
    Run,
    RunOptions,
    TooManyEvents,
    Unmodelled,
)
from syncverify.checker.happens_before.vector_clocks import ColumnsExhausted
from syncverify.checker.outcome import Budget, Outcome
from syncverify.model.events import LaneSplit, System

__all__ = ["Budget", "Outcome", "check"]

#: Blocked classes let through after a hang, to find independent mistakes.
FORCED_RELEASES = 10_000
#: Consequences listed under one error.
MOST_NOTES = 8


class _FinerSystem(Exception):  # noqa: N818 -- control flow, not an error
    """Classes that were let through after a hang disagree: the system to judge instead."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self.system = system


def check(system: System, policy: Policy = Policy.PRACTICAL, budget: Budget = Budget()) -> Outcome:  # noqa: B008
    """The verdict on one system for its launch values."""
    start = time.perf_counter()
    slack = 32
    try:
        while True:
            try:
                run, system = canonical(system, budget, slack)
                events = len(run.trace)
                lanes = sum(run.threads[w].n if w >= 0 else 1 for w, _ in run.trace)
                outcome = _judge(run, policy, budget, slack)
                break
            except ColumnsExhausted:
                slack *= 2
            except _FinerSystem as finer:
                system = finer.system
    except (Unmodelled, TooManyEvents) as e:
        outcome = _undecided(system, e, budget, time.perf_counter() - start)
        if isinstance(e, TooManyEvents):
            return outcome if e.run is None else _harm_of(e.run, outcome, policy, budget)
        return _harm_so_far(system, outcome, policy, budget, slack, isinstance(e, BranchingPoll))
    stats = {
        **outcome.stats,
        "events": events,
        "thread_events": lanes,
        "seconds": time.perf_counter() - start,
    }
    return Outcome(outcome.verdict, outcome.diagnostics, outcome.witness, outcome.reason, stats)


def _undecided(system: System, e: Exception, budget: Budget, seconds: float) -> Outcome:
    if isinstance(e, Unmodelled):
        span = system.info.sites[e.site].span
        d = Diagnostic("SV901", Severity.WARNING, e.reason, span)
        inner = caused(e.reason, Cause.UNSUPPORTED)
        reason = Reason(f"{span}: {inner}", parts=(inner,))
        return Outcome(Verdict.UNKNOWN, (d,), None, reason, {"seconds": seconds})
    if isinstance(e, Livelock):
        span = system.info.sites[e.site].span
        d = Diagnostic("SV902", Severity.WARNING, str(e), span)
        reason = Reason(f"{span}: {e}", Cause.UNDECIDED)
        return Outcome(Verdict.UNKNOWN, (d,), None, reason, {"seconds": seconds})
    run = e.run if isinstance(e, TooManyEvents) else None
    most = budget.max_events if run is None else len(run.trace)
    reason = Reason(f"the run exceeds {most} events", Cause.BUDGET)
    d = Diagnostic("SV902", Severity.WARNING, reason)
    return Outcome(Verdict.UNKNOWN, (d,), None, reason, {"seconds": seconds})


def _harm_so_far(
    system: System, undecided: Outcome, policy: Policy, budget: Budget, slack: int, forked: bool
) -> Outcome:
    """A refutation by what happens while the classes that nobody can follow stand still, if there is one."""
    try:
        run, _ = canonical(system, budget, slack, RunOptions(skips_unmodelled=True))
    except ColumnsExhausted:
        return _harm_so_far(system, undecided, policy, budget, 2 * slack, forked)
    except (Unmodelled, TooManyEvents):
        return undecided
    shown = _harm_of(run, undecided, policy, budget)
    return try_poll_orders(run, undecided, policy, budget) if forked and shown is undecided else shown


def _harm_of(run: Run, undecided: Outcome, policy: Policy, budget: Budget) -> Outcome:
    """A refutation by a run that did not come to its end: it begins an execution, so a race in it is one."""
    harms = [f for f in run.failures.values() if f.obligation in IMMEDIATE]
    found: list[Diagnostic] = []
    witness: Witness | None = None
    for g in group_by_root_cause(run, _judged(harms, policy), None):
        shown = find_witness(run, g, None, policy, budget, None)
        if shown is not None:
            found.append(diagnostic(run, g.root))
            found += [
                diagnostic(run, f, Severity.NOTE) for f in distinct(g.consequences, g.root)[:MOST_NOTES]
            ]
            witness = witness or shown
    if witness is None:
        return undecided
    stats = {
        **undecided.stats,
        "exchange": between_blocks(run, harms),
        "some exchange": some_between_blocks(run, harms),
        "some global race": some_in_global(run, harms),
    }
    return Outcome(Verdict.REFUTED, (*found, *undecided.diagnostics), witness, None, stats)


def _judged(failures: list[Failure], policy: Policy) -> list[Failure]:
    """What the policy makes of them: strict takes its own findings for errors."""
    if policy == Policy.STRICT:
        for f in failures:
            if f.strict_only:
                f.severity = Severity.ERROR
    return failures


def _harmless(g: Group) -> list[Failure]:
    """The failures of a group whose root does no harm, but for what is wrong in any order."""
    if not g.root.apart:
        return []
    return [f for f in (g.root, *g.consequences) if f.past is not None and f.obligation not in HARM]


def _judge(run: Run, policy: Policy, budget: Budget, slack: int, starved: Run | None = None) -> Outcome:
    """``starved``: the run that hung on the register pool, if ``run`` ignores it."""
    hang: Failure | None = None
    model = run
    check_end(run)
    if run.hung and any(f.rule == "SV304" for f in run.failures.values()) and not run.options.ignores_pool:
        # The pool is no guide when setmaxnreg itself is broken: look at what else is wrong without it.
        other = canonical(run.system, budget, slack, RunOptions(ignores_pool=True))[0]
        return _judge(other, policy, budget, slack, run)
    if run.hung and not budget.explains:
        return Outcome(Verdict.UNKNOWN, reason=Reason("the run hangs", Cause.UNDECIDED))
    if run.hung:
        options = RunOptions(ignores_pool=run.options.ignores_pool)
        model = canonical(run.system, budget, slack, options)[0]
        hang = _let_through(run)
    failures = _judged(list(run.failures.values()), policy)

    def tried(groups: list[Group]) -> list[tuple[Group, Witness | None]]:
        return [(g, find_witness(model, g, hang, policy, budget, starved)) for g in groups]

    groups = group_by_root_cause(run, failures, hang)
    pairs = tried(groups)
    undecided: list[Failure] = []
    harmless = [f for g in groups for f in _harmless(g)]
    if harmless:
        # What harms is wrong in any order: that is the mistake, beside an order that changes nothing.
        rest = [f for f in failures if f not in harmless]
        instead = tried(group_by_root_cause(run, rest, hang, again=True))
        if any(w is not None for _, w in instead):
            pairs, undecided = instead, harmless
    return _outcome(run, failures, pairs, undecided)


def _let_through(run: Run) -> Failure | None:
    """What a run hangs on, once its blocked classes were let through to find mistakes of their own."""
    end, waiting = len(run.trace), stuck(run)
    run.met_alone = {w.cls for w in waiting if w.kind == "meet"}
    run.max_events = min(run.max_events, end + AFTER_HARM)
    with suppress(Unmodelled, TooManyEvents):  # let through, they may come to what nobody can follow
        try:
            release_blocked(run, FORCED_RELEASES)
        except LaneSplit as split:  # of the classes of this run, which may be more than the caller's
            raise _FinerSystem(run.system.refined(split)) from None
    check_end(run)
    return hang_failure(run, waiting, end)


def _outcome(
    run: Run,
    failures: list[Failure],
    pairs: list[tuple[Group, Witness | None]],
    undecided: list[Failure],
) -> Outcome:
    """The verdict by what does harm, in order: mistakes with a witness, those without, and warnings."""
    undecided = undecided + [g.root for g, shown in pairs if shown is None]
    shown = [(g, w) for g, w in pairs if w is not None]
    found = [d for g, _ in shown for d in _mistake(run, g)]
    found += [diagnostic(run, f, Severity.WARNING) for f in undecided]
    found += [diagnostic(run, f) for f in distinct(warnings(failures, bool(found)))]
    if shown:
        roots = [g.root for g, _ in shown]
        stats: dict[str, Any] = {
            "obligation": _first_cause(roots[0]).obligation.name,
            "exchange": between_blocks(run, roots),
            "some exchange": some_between_blocks(run, roots),
            "some global race": some_in_global(run, roots),
        }
        return Outcome(Verdict.REFUTED, tuple(found), shown[0][1], None, stats)
    if undecided:
        f = undecided[0]
        text = f"{run.info.sites[f.site].span}: {f.message}; no schedule that was tried does harm"
        reason = Reason(text, Cause.NO_PROOF)
        return Outcome(Verdict.UNKNOWN, tuple(found), None, reason, {"obligation": None})
    return Outcome(Verdict.PROVED, tuple(found), stats={"obligation": None})


def _first_cause(root: Failure) -> Failure:
    """The mistake that only a schedule brought out, if the root follows from one."""
    return root if root.cause is None else root.cause


def _mistake(run: Run, g: Group) -> list[Diagnostic]:
    """An error, and notes of what follows from it."""
    root = _first_cause(g.root)
    others = g.consequences if root is g.root else (g.root, *g.consequences)
    return [
        diagnostic(run, root),
        *(diagnostic(run, f, Severity.NOTE) for f in distinct(others, root)[:MOST_NOTES]),
    ]
