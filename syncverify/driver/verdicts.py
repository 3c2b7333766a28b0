"""What turns systems into one verdict, whatever front end they come from."""

from __future__ import annotations

from dataclasses import replace

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.reason import Cause, caused
from syncverify.base.source import Span
from syncverify.checker.outcome import Budget, Outcome
from syncverify.driver.reports.outcomes import merge, text_hash, undecided
from syncverify.model.events import LaneSplit, System, Unanalysable

#: A class splits at most once per lane and reason; more restarts than this means an agent keeps asking.
MAX_RESTARTS = 4096
#: Events of a launch that is checked briefly.
BRIEF = 20_000


def run_system(
    system: System,
    policy: Policy = Policy.PRACTICAL,
    budget: Budget = Budget(),  # noqa: B008
) -> Outcome:
    """Checks one system; where the lanes of a class disagree, splits the class and starts again."""
    # loaded where something is checked: who follows certificates alone needs none of it
    from syncverify.checker.exact_check import check

    for _ in range(MAX_RESTARTS):
        try:
            outcome = check(system, policy, budget)
            return replace(outcome, system=system) if outcome.verdict is Verdict.REFUTED else outcome
        except LaneSplit as split:
            system = system.refined(split)
    return undecided(f"lane classes of {system.info.name} did not settle", Span(system.info.file))


def run_briefly(system: System, policy: Policy) -> Outcome:
    """The same for a small launch: what takes more events is unknown."""
    return run_system(system, policy, Budget(max_events=BRIEF))


def outcome_of(system: System | Unanalysable, policy: Policy) -> Outcome:
    """The outcome of one system, or why there is none."""
    if isinstance(system, Unanalysable):
        return undecided(caused(system.reason, Cause.UNSUPPORTED), system.span, "SV901")
    return run_system(system, policy)


__all__ = ["merge", "outcome_of", "run_briefly", "run_system", "text_hash", "undecided"]
