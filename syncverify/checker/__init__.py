"""The checker: events to verdict. It knows agents and their events, no IR.

``check`` runs the canonical execution, tests the obligations, and where one fails looks for a schedule that
does harm. See ``docs/theory.md``.
"""

from __future__ import annotations

import time
from random import Random

from syncverify.checker import phases
from syncverify.checker.clocks import Columns, ColumnsExhausted
from syncverify.checker.diagnose import Group, diagnostic, distinct, group, warnings
from syncverify.checker.engine import Run, TooManyEvents, Unmodelled
from syncverify.checker.events import HANDLERS
from syncverify.checker.failure import HARM, Failure, Obligation
from syncverify.checker.final import finish
from syncverify.checker.hang import force, hang_failure, stuck
from syncverify.checker.outcome import Budget, Outcome
from syncverify.checker.schedule import explore, provoke, push, truncate
from syncverify.checker.witness import build
from syncverify.diagnostics import Claim, Diagnostic, Policy, Severity, Verdict, Witness
from syncverify.model.events import LaneSplit, System

__all__ = ["Budget", "Outcome", "check"]

#: Blocked classes let through after a hang, to find independent mistakes.
FORCED_RELEASES = 10_000
#: Failures that are undefined behaviour at once: a witness ends there.
ILLEGAL = frozenset({Obligation.UB, Obligation.OVERFLOW, Obligation.O5})
#: Consequences listed under one error.
MOST_NOTES = 8


def check(system: System, policy: Policy = Policy.PRACTICAL, budget: Budget = Budget()) -> Outcome:  # noqa: B008
    """The verdict on one system for its launch values."""
    start = time.perf_counter()
    slack = 32
    try:
        while True:
            try:
                run, system = _canonical(system, budget, slack)
                events = len(run.trace)
                lanes = sum(run.threads[w].n if w >= 0 else 1 for w, _ in run.trace)
                outcome = _judge(run, policy, budget, slack)
                break
            except ColumnsExhausted:
                slack *= 2
    except (Unmodelled, TooManyEvents) as e:
        return _undecided(system, e, budget, time.perf_counter() - start)
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
        return Outcome(Verdict.UNKNOWN, (d,), None, f"{span}: {e.reason}", {"seconds": seconds})
    reason = f"the run exceeds {budget.max_events} events"
    d = Diagnostic("SV902", Severity.WARNING, reason)
    return Outcome(Verdict.UNKNOWN, (d,), None, reason, {"seconds": seconds})


def _canonical(system: System, budget: Budget, slack: int, ignore_pool: bool = False) -> tuple[Run, System]:
    """The canonical run, restarted whenever a class must split."""
    while True:
        classes = len(system.info.classes)
        columns = Columns(classes, classes + len(system.info.barriers) + slack)
        run = Run(system, HANDLERS, phases.land, columns, budget.max_events)
        run.ignores_pool = ignore_pool
        try:
            run.run()
            return run, system
        except LaneSplit as split:
            system = system.refined(split)


def _fresh(model: Run, budget: Budget) -> Run:
    """A new run of the same system whose clocks number the same entities alike."""
    run = Run(model.system, HANDLERS, phases.land, model.columns, budget.max_events, eager=False)
    run.ignores_pool = model.ignores_pool
    return run


def _judge(run: Run, policy: Policy, budget: Budget, slack: int, starved: Run | None = None) -> Outcome:
    """``starved``: the run that hung on the register pool, if ``run`` ignores it."""
    hang: Failure | None = None
    model = run
    finish(run)
    if run.hung and any(f.rule == "SV304" for f in run.failures.values()) and not run.ignores_pool:
        # The pool is no guide when setmaxnreg itself is broken: look at what else is wrong without it.
        other = _canonical(run.system, budget, slack, ignore_pool=True)[0]
        return _judge(other, policy, budget, slack, run)
    if run.hung:
        model = _canonical(run.system, budget, slack, run.ignores_pool)[0]
        end, waiting = len(run.trace), stuck(run)
        run.met_alone = {w.cls for w in waiting if w.kind == "meet"}
        force(run, FORCED_RELEASES)
        finish(run)
        hang = hang_failure(run, waiting, end)
    failures = list(run.failures.values())
    if policy == Policy.STRICT:
        for f in failures:
            if f.strict_only:
                f.severity = Severity.ERROR
    found: list[Diagnostic] = []
    witness: Witness | None = None
    undecided: list[Failure] = []
    obligation: str | None = None
    for g in group(run, failures, hang):
        shown = _witness(model, g, hang, policy, budget, starved)
        if shown is None:
            undecided.append(g.root)
            continue
        obligation = obligation or g.root.obligation.name
        found.append(diagnostic(run, g.root))
        found += [diagnostic(run, f, Severity.NOTE) for f in distinct(g.consequences, g.root)[:MOST_NOTES]]
        witness = witness or shown
    found += [diagnostic(run, f, Severity.WARNING) for f in undecided]
    found += [diagnostic(run, f) for f in distinct(warnings(failures, bool(found)))]
    stats = {"obligation": obligation}
    if witness is not None:
        return Outcome(Verdict.REFUTED, tuple(found), witness, None, stats)
    if undecided:
        f = undecided[0]
        return Outcome(
            Verdict.UNKNOWN,
            tuple(found),
            None,
            f"{run.info.sites[f.site].span}: {f.message}; no schedule that was tried does harm",
            stats,
        )
    return Outcome(Verdict.PROVED, tuple(found), stats=stats)


def _claim(f: Failure) -> Claim:
    if f.obligation == Obligation.O6 or f.rule == "SV302":
        return Claim.HANG
    stale = f.obligation == Obligation.RACE or f.rule in ("SV502", "SV503")
    return Claim.STALE_VALUE if stale else Claim.UB


def _witness(
    model: Run, g: Group, hang: Failure | None, policy: Policy, budget: Budget, starved: Run | None
) -> Witness | None:
    """A schedule that shows the group's harm; None if none was found."""
    f = g.root
    hangs = hang is not None and (hang is f or hang in g.consequences)
    if starved is not None and (hangs or f.rule == "SV304"):
        return build(starved, Claim.HANG, f.rule, f.message, policy)
    illegal = [o for o in (f, *g.consequences) if o.obligation in ILLEGAL and o.severity == Severity.ERROR]
    if illegal and (hangs or f in illegal):
        first = min(illegal, key=lambda o: o.position)
        return _collision(model, first, f, policy, budget)
    if hangs:
        return build(model, Claim.HANG, f.rule, f.message, policy)
    if f.obligation in HARM or (f.obligation == Obligation.O8 and f.past is None):
        return _collision(model, f, f, policy, budget)
    return _search(model, g, policy, budget)


def _collision(model: Run, f: Failure, root: Failure, policy: Policy, budget: Budget) -> Witness:
    """The canonical order up to the event, a completion it does not wait for held back until after it."""
    claim = _claim(f)
    message = root.message if root is f else f"{root.message}; then {f.message}"
    if f.provoked:
        run = _fresh(model, budget)
        if provoke(run, model, f):
            push(run, run.threads[f.cls])
            return build(run, claim, root.rule, message, policy)
    late = f.first.issue if f.first is not None else -1
    for held in [late, -1] if late >= 0 else [-1]:
        run = _fresh(model, budget)
        if truncate(run, model, f.position, held):
            return build(run, claim, root.rule, message, policy)
    return build(model, claim, root.rule, message, policy)


def _search(model: Run, g: Group, policy: Policy, budget: Budget) -> Witness | None:
    """Directed schedules for the broken obligation, each continued in random orders until one does harm."""
    f = g.root
    aims = [c for c in [f, *g.consequences] if c.past is not None]
    for i in range(budget.schedules):
        rng = Random(budget.seed * 1000 + i)
        run = _fresh(model, budget)
        aim = (
            aims[i // 2 % len(aims)] if aims and i % 4 != 3 else None
        )  # every fourth is random from the start
        if aim is not None and not provoke(run, model, aim):
            run, aim = _fresh(model, budget), None
        starve = aim.cls if aim is not None and (aim.withheld or i % 2 == 0) else -1
        explore(run, rng, starve, lambda r: bool(r.harms()), budget.steps)
        finish_if_over(run)
        harms = run.harms()
        if harms:
            return build(run, _claim(harms[0]), f.rule, f"{f.message}; then {harms[0].message}", policy)
        if run.hung and not run.pending and not run.enabled():
            return build(run, Claim.HANG, f.rule, f.message, policy)
    if policy == Policy.STRICT:
        run = _fresh(model, budget)
        if f.past is not None:
            provoke(run, model, f)
        return build(run, Claim.ORDER_VIOLATION, f.rule, f.message, policy)
    return None


def finish_if_over(run: Run) -> None:
    """What only the end of a run shows, if it has ended."""
    if not run.hung:
        finish(run)
