"""Kernels that the answer of one poll steers: there is no one run, so executions are tried for harm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from syncverify.base.diagnostics import Claim, Policy, Verdict, Witness
from syncverify.checker.explain.counterexample import claim_of, finish_if_over, fresh
from syncverify.checker.explain.hang import hang_failure, stuck
from syncverify.checker.explain.root_causes import diagnostic, group_by_root_cause
from syncverify.checker.explain.schedules import run_directed, run_random
from syncverify.checker.explain.witness import build
from syncverify.checker.happens_before.failure import Failure
from syncverify.checker.happens_before.run import YIELD, Run, TooManyEvents, Unmodelled
from syncverify.checker.happens_before.vector_clocks import ColumnsExhausted
from syncverify.checker.outcome import Budget, Outcome
from syncverify.model.events import Ev, LaneSplit

#: Broken obligations whose schedules are tried before others.
MOST_AIMS = 4


def try_poll_orders(model: Run, undecided: Outcome, policy: Policy, budget: Budget) -> Outcome:
    """A refutation by an execution in which each poll is answered as its barrier stands, or ``undecided``."""
    for run, aim in _executions(model, budget):
        harm, witness = _harm(run, aim, policy)
        if harm is not None:
            found = (diagnostic(run, harm), *undecided.diagnostics)
            return Outcome(Verdict.REFUTED, found, witness, None, undecided.stats)
    return undecided


def _executions(model: Run, budget: Budget) -> Iterator[tuple[Run, Failure | None]]:
    """Runs up to their first harm or the end, ``steps`` events together, and which obligation they aim at.

    First those that break an obligation which the model breaks, then one that hurries to each polled
    barrier, then random ones.
    """
    rng = Random(budget.seed)
    aims = [f for f in model.errors() if f.past is not None][:MOST_AIMS]
    left = budget.steps
    for aim in [*aims, *model.forks, *[None] * budget.schedules]:
        if left <= 0:
            return
        run = fresh(model, budget)
        limit = min(left, 8 * len(model.trace) + 1000)
        try:
            if isinstance(aim, int):
                _hurry(run, aim, model.forks[aim], limit)
            elif aim is None:
                run_random(run, rng, -1, lambda r: bool(r.harms()), limit)
            else:
                run_directed(run, model, aim)  # as far as it goes
                _in_turn(run, limit)
            finish_if_over(run)
        except (LaneSplit, Unmodelled, TooManyEvents, ColumnsExhausted):
            continue
        finally:
            left -= len(run.trace)
        yield run, aim if isinstance(aim, Failure) else None


def _in_turn(run: Run, limit: int) -> None:
    """Goes on in canonical order: who polls in vain lets the others run first."""
    for op in list(run.pending.values()):
        run.complete(op)
    run.options = replace(run.options, completes_at_once=True)
    run.max_events = min(run.max_events, len(run.trace) + limit)
    run.run()


def _hurry(run: Run, barrier: int, askers: set[int], limit: int) -> None:
    """Those who poll the barrier go first, the copies that it counts land last."""
    passed_over = -1  # who has just polled in vain
    for _ in range(limit):
        threads, pending = run.enabled(), list(run.pending.values())
        if threads:
            t = min(threads, key=lambda t: (t.cls == passed_over, t.cls not in askers))
            passed_over = t.cls if run.step(t) == YIELD else -1
        elif pending:
            run.complete(min(pending, key=lambda op: any(b == barrier for b, _, _ in op.targets)))
        else:
            return
        if run.harms():
            return


def _harm(run: Run, aim: Failure | None, policy: Policy) -> tuple[Failure | None, Witness | None]:
    harms = run.harms()
    if harms:
        f = group_by_root_cause(run, harms, None)[0].root
        return f, build(run, claim_of(f), f.rule, f.message, policy)
    over = not run.pending and not run.enabled()
    if run.hung and over and all(t.event is not None and t.event[0] != Ev.UNKNOWN for t in run.blocked()):
        f = aim or hang_failure(run, stuck(run), len(run.trace))
        return f, build(run, Claim.HANG, f.rule, f.message, policy)
    return None, None
