"""Runs of a system: the canonical one, and schedules that show the harm of a broken obligation."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from random import Random

from syncverify.base.diagnostics import Claim, Policy, Severity, Witness
from syncverify.checker.explain.root_causes import FENCE, Group, group_by_root_cause
from syncverify.checker.explain.schedules import push, run_directed, run_random, truncate
from syncverify.checker.explain.witness import build
from syncverify.checker.happens_before.dispatch import HANDLERS
from syncverify.checker.happens_before.end_of_run import check_end
from syncverify.checker.happens_before.failure import HARM, Failure, Obligation
from syncverify.checker.happens_before.handlers import phases
from syncverify.checker.happens_before.run import Run, RunOptions, TooManyEvents, Unmodelled
from syncverify.checker.happens_before.vector_clocks import Columns
from syncverify.checker.outcome import Budget
from syncverify.model.events import Ev, LaneSplit, System

#: Failures that are undefined behaviour at once: a witness ends there.
ILLEGAL = frozenset({Obligation.UB, Obligation.OVERFLOW, Obligation.O5})
FEWEST_SCHEDULES = 4
FEWEST_WITH_OTHERS = 2  # where another mistake refutes the kernel anyway
#: Mistakes that no order of the barriers mends: a fence that is missing, work in flight at the end.
APART = FENCE | {"SV211"}
#: Classes of several lanes that are taken apart when no schedule of whole classes does harm.
MOST_SPLITS = 8


#: Options of a canonical run.
CANONICAL = RunOptions()


def canonical(
    system: System, budget: Budget, slack: int, options: RunOptions = CANONICAL
) -> tuple[Run, System]:
    """The canonical run, restarted whenever a class must split; ``slack``: columns of clocks beside those of
    classes and barriers."""
    while True:
        classes = len(system.info.classes)
        columns = Columns(classes, classes + len(system.info.barriers) + slack)
        run = Run(system, HANDLERS, phases.complete_async, columns, budget.max_events, options)
        try:
            run.run()
            return run, system
        except LaneSplit as split:
            system = system.refined(split)
        except TooManyEvents as e:
            e.run = run
            raise


def fresh(model: Run, budget: Budget) -> Run:
    """A new run of the same system whose clocks number the same entities alike."""
    options = RunOptions(
        completes_at_once=False,
        ignores_pool=model.options.ignores_pool,
        skips_unmodelled=model.options.skips_unmodelled,
    )
    return Run(model.system, HANDLERS, phases.complete_async, model.columns, budget.max_events, options)


def claim_of(f: Failure) -> Claim:
    if f.obligation == Obligation.O6 or f.rule == "SV302":
        return Claim.HANG
    stale = f.obligation == Obligation.RACE or f.rule in ("SV502", "SV503")
    return Claim.STALE_VALUE if stale else Claim.UB


def find_witness(
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
    found = search_schedule(model, g, policy, budget)
    if found is not None:
        return found
    # The canonical run is an execution: what races there does harm, whatever led to it.
    races = [o for o in g.consequences if o.obligation == Obligation.RACE and o.severity == Severity.ERROR]
    return _collision(model, min(races, key=lambda o: o.position), f, policy, budget) if races else None


def _collision(model: Run, f: Failure, root: Failure, policy: Policy, budget: Budget) -> Witness:
    """The canonical order up to the event, a completion it does not wait for held back until after it."""
    claim = claim_of(f)
    message = root.message if root is f else f"{root.message}; then {f.message}"
    if f.provoked:
        run = fresh(model, budget)
        if run_directed(run, model, f):
            push(run, run.threads[f.cls])
            return build(run, claim, root.rule, message, policy)
    late = f.first.issue if f.first is not None else -1
    for held in [late, -1] if late >= 0 else [-1]:
        run = fresh(model, budget)
        if truncate(run, model, f.position, held):
            return build(run, claim, root.rule, message, policy)
    return build(model, claim, root.rule, message, policy)


def search_schedule(
    model: Run, g: Group, policy: Policy, budget: Budget, split: bool = False
) -> Witness | None:
    """Directed schedules for the broken obligation, each continued in random orders until one does harm."""
    f = g.root
    attempts = _Attempts.of(model, g, policy, budget)
    shown = attempts.harm()
    if shown is not None:
        return shown
    if not split:
        found = _with_lanes_apart(model, f, policy, budget, attempts.known)
        if found is not None:
            return found
    if (attempts.in_any_order is not None or attempts.independent) and policy != Policy.STRICT:
        f.apart = True
        return attempts.in_any_order or build(model, claim_of(f), f.rule, f.message, policy)
    if policy == Policy.STRICT and not split:
        run = fresh(model, budget)
        if f.past is not None:
            run_directed(run, model, f)
        return build(run, Claim.ORDER_VIOLATION, f.rule, f.message, policy)
    return None


@dataclass(slots=True)
class _Attempts:
    """Schedules that are tried for one mistake.

    ``aims``: the failures that say what must come first. ``independent``: races that the canonical run shows
    anyway, ``known``: all mistakes that it shows. ``in_any_order``: a schedule that shows only such mistakes.
    """

    model: Run
    root: Failure
    aims: list[Failure]
    policy: Policy
    budget: Budget
    independent: set[tuple[object, ...]]
    known: set[tuple[object, ...]]
    in_any_order: Witness | None = None

    @classmethod
    def of(cls, model: Run, g: Group, policy: Policy, budget: Budget) -> _Attempts:
        """What is to be tried for a group of failures."""
        aims = [c for c in [g.root, *g.consequences] if c.past is not None]
        known = {mistake_key(model, o) for o in model.errors() if o.rule in APART}
        independent = independent_races(model, g, policy, budget)
        return cls(model, g.root, aims, policy, budget, independent, known | independent)

    def harm(self) -> Witness | None:
        """A schedule that does harm of its own; one that only leaves work in flight, if there is no other."""
        events = len(self.model.trace) + 1
        most = max(FEWEST_SCHEDULES, min(self.budget.schedules, self.budget.steps // events))
        in_flight: Witness | None = None
        for i in range(FEWEST_WITH_OTHERS if self.independent else most):
            run = self.schedule(i, min(self.budget.steps, 4 * events + 1000))
            if run is None:
                continue
            harms = self.new_harms(run)
            if harms:
                if _never_room(run, harms[0]):
                    self.root.cause = harms[0]
                shown = self.witness(run, harms[0])
                if harms[0].rule != "SV211":
                    return shown
                in_flight = in_flight or shown
            elif run.hung and not run.pending and not run.enabled():
                return build(run, Claim.HANG, self.root.rule, self.root.message, self.policy)
            elif self.in_any_order is None and (harms := run.harms()):
                self.in_any_order = self.witness(run, harms[0])
        return in_flight

    def schedule(self, i: int, steps: int) -> Run | None:
        """The i-th schedule, run to its end; None where the checker cannot follow it.

        Every fourth one is random from the start. The others run what must come before an aim first, and
        keep the aim's class back or not.
        """
        aim = self.aims[i // 2 % len(self.aims)] if self.aims and i % 4 != 3 else None
        starve = aim.cls if aim is not None and (aim.withheld or i % 2 == 0) else -1
        run = fresh(self.model, self.budget)
        if aim is not None and not run_directed(run, self.model, aim):
            # what comes before it cannot be followed alone: it may still come late
            run = fresh(self.model, self.budget)
        try:
            run_random(
                run, Random(self.budget.seed * 1000 + i), starve, lambda r: bool(self.new_harms(r)), steps
            )
            finish_if_over(run)
        except (LaneSplit, Unmodelled, TooManyEvents):
            return None  # this order leads where the checker cannot follow; others may do
        return run

    def new_harms(self, run: Run) -> list[Failure]:
        """Harms of a run that the canonical run does not show."""
        return [h for h in run.harms() if mistake_key(run, h) not in self.known]

    def witness(self, run: Run, harm: Failure) -> Witness:
        """The schedule as a witness of the mistake."""
        text = f"{self.root.message}; then {harm.message}"
        return build(run, claim_of(harm), self.root.rule, text, self.policy)


def mistake_key(run: Run, f: Failure) -> tuple[object, ...]:
    """What a failure is in the source, where loops that are unrolled have several sites on one line."""
    sites = run.info.sites
    if f.first is not None and f.second is not None:
        pair = frozenset(sites[r.site].span for r in (f.first, f.second))
        return f.obligation, f.rule in FENCE, pair, f.strict_only
    return f.obligation, f.rule, sites[f.site].span, f.barrier, f.strict_only


def independent_races(model: Run, g: Group, policy: Policy, budget: Budget) -> set[tuple[object, ...]]:
    """Races of the canonical run that stay where contributions do wait for the phase before theirs.

    They are mistakes of their own, not what an arrival in the wrong phase leads to: nobody who waits on that
    barrier takes part.
    """
    if g.root.obligation != Obligation.O1 or model.hung or policy == Policy.STRICT:
        return set()
    if not any(o.obligation == Obligation.RACE for o in g.consequences):
        return set()
    try:
        options = RunOptions(ignores_pool=model.options.ignores_pool, waits_for_previous_phase=True)
        run, _ = canonical(model.system, budget, model.columns.capacity, options)
    except (Unmodelled, TooManyEvents):
        return set()
    waits = (Ev.WAIT, Ev.WAIT_TOKEN, Ev.POLL, Ev.POLL_TOKEN)
    waiters = {c for c, e in model.trace if e and e[0] in waits and e[2] == g.root.barrier}
    here = {
        mistake_key(model, f)
        for f in model.errors()
        if f.first is not None and f.second is not None and not waiters & {f.first.cls, f.second.cls}
    }
    return {m for f in run.errors() if f.obligation == Obligation.RACE and (m := mistake_key(run, f)) in here}


def _never_room(run: Run, harm: Failure) -> bool:
    """Whether a class's very first arrival on a barrier was one too many: its count leaves no room for it."""
    if harm.obligation is not Obligation.OVERFLOW or harm.rule != "SV202":
        return False
    before = run.trace[: harm.position]
    arrivals = [c for c, e in before if e and e[0] == Ev.ARRIVE and e[2] == harm.barrier]
    return harm.cls not in arrivals


def _with_lanes_apart(
    model: Run, f: Failure, policy: Policy, budget: Budget, anyway: Container[object]
) -> Witness | None:
    """Lanes of a class need not keep together: tries again with one lane of each class on its own."""
    involved = {f.cls, *model.contributors.get(("wait", f.barrier), set())}
    wide = [model.threads[c].info for c in sorted(involved) if model.threads[c].n > 1][:MOST_SPLITS]
    if not wide:
        return None
    system = model.system
    for info in wide:
        low = info.lanes & -info.lanes
        system = system.refined(LaneSplit(system.info.classes.index(info), (low, info.lanes & ~low)))
    options = RunOptions(ignores_pool=model.options.ignores_pool)
    run, _ = canonical(system, budget, model.columns.capacity, options)
    if run.hung:
        return build(run, Claim.HANG, f.rule, f.message, policy)
    check_end(run)
    for g in group_by_root_cause(run, list(run.failures.values()), None):
        if mistake_key(run, g.root) in anyway:
            continue
        if g.root.obligation == Obligation.RACE:
            return _collision(run, g.root, f, policy, budget)
        if g.root.barrier == f.barrier:
            return search_schedule(run, g, policy, budget, split=True)
    return None


def finish_if_over(run: Run) -> None:
    """What only the end of a run shows, if it has ended."""
    if not run.hung:
        check_end(run)
