"""Proofs for every size of a kernel, and the smallest size that refutes it. See ``docs/symbolic.md``.

A front end poses a ``Problem``; ``prove`` explores it with terms for the open sizes. What fails there is
taken to numbers: a refutation is always one of the exact check, for the smallest sizes that it is found for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.checker.prover.budget import modular_enabled, symmetry_enabled, without_rotations
from syncverify.checker.prover.parametric.attempt import Attempt
from syncverify.checker.prover.parametric.concrete_checks import (
    MOST_EARLY,
    ConcreteChecks,
    Problem,
)
from syncverify.checker.prover.parametric.result import ParametricResult
from syncverify.checker.prover.reach.analysis import ExplorationBudget
from syncverify.checker.prover.strategy import EFFORTS, Effort, Entry
from syncverify.frontends.ir.block_groups import group_size
from syncverify.frontends.ir.open_kernel import open_kernel
from syncverify.ir.expr import Int
from syncverify.ir.nodes import Kernel
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.round_robin import PresplitQuestion, RoundRobin

#: How often an exploration restarts with what was asked of a size too late; what ends takes three.
MAX_PRESPLIT_ROUNDS = 8
#: The first attempt at sizes that are read again takes this part of the events, more while few are left.
ROUND_ROBIN_DIVISOR = 4
#: And those with one value for all iterations: the first this part, the second, in which agents ask when no
#: other can go on, that.
FIRST_PASS_DIVISOR, SECOND_PASS_DIVISOR = 16, 2


def all_sizes(
    kernel: Kernel,
    given: Mapping[str, int],
    policy: Policy,
    exact: Callable[[Mapping[str, int]], Verdict],
    effort: Effort = EFFORTS[Entry.IR],
) -> ParametricResult:
    """Whether the kernel is right for all values of the parameters that ``given`` does not fix.

    ``exact`` is the exact check of the kernel; it has the last word on every refutation.
    """
    problem = problem_of(kernel, given, exact)
    block_group = group_size(kernel)
    barriers = sum(b.count.value for b in kernel.barriers if isinstance(b.count, Int))
    return decide(problem, policy, effort, block_group // kernel.launch.ctas if block_group else 0, barriers)


def decide(
    problem: Problem, policy: Policy, effort: Effort, clusters: int = 0, barriers: int = 0
) -> ParametricResult:
    """The verdict for all sizes of a problem, for no more than an effort.

    ``clusters``: that share global memory as a block group; of these there is one attempt. ``barriers``:
    mbarriers that are known to be there, each of which allows more decisions of the first attempt.
    """
    if not effort.refutes:
        problem = replace(problem, exact=lambda values: Verdict.UNKNOWN)
    if clusters:
        most = effort.block_group(clusters)
        if most is None:
            why = Reason("no proof for any block group was found", Cause.NO_PROOF)
            return ParametricResult(Verdict.UNKNOWN, reason=why)
        if (
            problem.modular_systems is not None
            and clusters > 1
            and modular_enabled.get()
            and effort.each is not None
        ):
            found = each_cluster_alone(problem, policy, effort.each)
            if found.verdict is not Verdict.UNKNOWN:
                return found
        return prove(problem, policy, small=effort.small, first=most, once=True)
    first = effort.first
    if first is not None:
        first = replace(first, max_nodes=first.max_nodes + effort.for_barrier * barriers)
    if effort.rest is None:
        return prove(problem, policy, small=effort.small, first=first, once=True)
    return prove(problem, policy, effort.rest, small=effort.small, first=first)


def each_cluster_alone(
    problem: Problem, policy: Policy, most: ExplorationBudget | None = None
) -> ParametricResult:
    """The same with each cluster of a block group explored by itself, and all put together.

    ``most``: its cost; None: that of a check.
    """
    assert problem.modular_systems is not None
    most = most or EFFORTS[Entry.IR].each or ExplorationBudget()
    each = replace(problem, systems=problem.modular_systems)
    _, found = _attempt(each, policy, most, True, ConcreteChecks(problem), small=False)
    if found.verdict is Verdict.PROVED:
        return replace(found, alone=True)
    if found.verdict is Verdict.REFUTED:
        return found  # by the exact check of the whole
    return ParametricResult(Verdict.UNKNOWN, reason=found.reason, stats=found.stats)


def any_group(kernel: Kernel, values: Mapping[str, int], policy: Policy) -> ParametricResult:
    """Whether a launch is right whose blocks share global memory in block groups, any of which represents
    all; a
    verdict is a proof, or unknown."""
    problem = problem_of(kernel, values, lambda _: Verdict.UNKNOWN)
    return decide(problem, policy, EFFORTS[Entry.IR_GROUP_LAUNCH])


def problem_of(
    kernel: Kernel, given: Mapping[str, int], exact: Callable[[Mapping[str, int]], Verdict]
) -> Problem:
    """A kernel of the IR with the parameters that ``given`` does not fix left open."""
    k = open_kernel(kernel, given)
    return Problem(k.sizes, k.facts, k.systems, exact, k.defaults, k.fixed, k.alone)


def prove(
    problem: Problem,
    policy: Policy,
    limits: ExplorationBudget = ExplorationBudget(),  # noqa: B008
    *,
    small: bool = True,
    first: ExplorationBudget | None = None,
    once: bool = False,
) -> ParametricResult:
    """The verdict for all sizes of a problem; ``small``: small sizes are tried where nothing was decided.
    ``first``: what a look before all others may cost, of which only a proof or a refutation counts; ``once``:
    there is no other.

    Sizes that a loop reads in every iteration are first explored with any value in every iteration, which is
    soonest over or not at all; then with the same value, first so that agents ask only when no other can go
    on; and where limits were in the way of the first, once more with any: a failure that no sizes confirm may
    come of states that were widened with the same value.
    """
    search = ConcreteChecks(problem)
    found: ParametricResult | None = None
    brief = replace(
        limits,
        events=limits.events // ROUND_ROBIN_DIVISOR,
        extension_factor=limits.short_attempt_divisor * limits.extension_factor,
    )
    if first is not None:
        attempt, again = _round_robin_attempt(problem, policy, first, search)
        if again.verdict is not Verdict.UNKNOWN:
            return again
        if once:
            search.asked |= attempt.space.branched_sizes
            values = search.smallest_refutation(None, MOST_EARLY) if small else None
            return again if values is None else ParametricResult(Verdict.REFUTED, values=values)
    last = replace(
        limits,
        events=limits.events // SECOND_PASS_DIVISOR,
        branch_when_nobody_else_can_run=True,
        max_unconfirmed_failures=0,
        extension_factor=SECOND_PASS_DIVISOR,
    )
    soon = replace(limits, events=limits.events // FIRST_PASS_DIVISOR, max_unconfirmed_failures=0)
    looks = [(True, brief), (False, soon), (False, last), (False, limits), (True, limits)]
    while looks:
        forgets, most = looks.pop(0)
        attempt, again = _attempt(problem, policy, most, forgets, search, small=small)
        if again.verdict is not Verdict.UNKNOWN:
            return again
        found = again if found is None or not found.values else found
        values = search.smallest_refutation(None) if small else None
        if small and values is None and search.asked:
            # questions about quotients do not name all that they come from
            asked, search.asked = search.asked, set(problem.sizes)
            values = search.smallest_refutation(None)
            search.asked = asked
        if small and values is None:
            values = search.negative_sizes()
        if values is not None:
            return ParametricResult(Verdict.REFUTED, values=values)
        if most is brief and not attempt.exceeded:
            looks.pop()  # with more of it there is no other answer
        if not attempt.space.havocked:
            looks = [x for x in looks if x[0] is forgets]  # there is nothing to forget
    assert found is not None
    return found


def _round_robin_attempt(
    problem: Problem, policy: Policy, limits: ExplorationBudget, numbers: ConcreteChecks
) -> tuple[Attempt, ParametricResult]:
    """The look in which iterations are distributed round-robin, if some are and that leads somewhere; else
    one as any other.
    """
    round_robin = RoundRobin() if symmetry_enabled.get() else None
    attempt, found = _attempt(problem, policy, limits, True, numbers, small=False, round_robin=round_robin)
    if round_robin is None or not round_robin.havocked_sizes:
        return attempt, found
    if attempt.slots:
        round_robin = RoundRobin(
            attempt.slots,
            round_robin.havocked_sizes,
            round_robin.by_prefix_sum,
            round_robin.havocked_names,
            attempt.groups,
        )
        attempt, found = _attempt(
            problem, policy, limits, True, numbers, False, round_robin, attempt.space.presplit
        )
    if found.verdict is not Verdict.UNKNOWN:
        return attempt, found
    return _attempt(problem, policy, limits, True, numbers, small=False)


def _attempt(
    problem: Problem,
    policy: Policy,
    limits: ExplorationBudget,
    forgets: bool,
    numbers: ConcreteChecks,
    small: bool,
    round_robin: RoundRobin | None = None,
    early: Iterable[PresplitQuestion] = (),
) -> tuple[Attempt, ParametricResult]:
    """One exploration of a problem; where it led nowhere round a ring, one without."""
    early = set(early)
    for _ in range(MAX_PRESPLIT_ROUNDS):
        space = SymbolicContext(round_robin)
        space.presplit |= early
        attempt = Attempt(problem, policy, limits, forgets, numbers, space=space, small=small)
        found = attempt.run()
        if space.split_too_late <= early or not (
            space.has_prefix_sums and round_robin is not None and round_robin.slots
        ):
            break
        early |= space.split_too_late
        least = {(name, c if k == 1 else -c - 1) for name, k, c in space.split_too_late if abs(k) == 1}
        # the steps before the first that asks are asked of next
        early |= {(name, 1, c) for name, most in least for c in range(min(most, -round_robin.slots - 2), -1)}
    if attempt.symmetry_failed and not (round_robin is not None and round_robin.havocked_sizes):
        for most in alternated(limits):
            attempt = Attempt(problem, policy, most, forgets, numbers, small=small)
            with without_rotations():
                found = attempt.run()
            if found.verdict is not Verdict.UNKNOWN or (
                most.branch_when_nobody_else_can_run and not attempt.exceeded
            ):
                break
    return attempt, found


def alternated(limits: ExplorationBudget) -> tuple[ExplorationBudget, ...]:
    """What explorations may cost one after the other, until one ends by itself.

    Where agents ask only when no other can go on, limits may be stretched many times. Before that happens
    agents ask at once, for no more than the plain limits: which of the two meets its states again soonest
    depends on how the loops of the roles were unrolled.
    """
    if not limits.branch_when_nobody_else_can_run or limits.extension_factor == 1:
        return (limits,)
    plain = replace(limits, extension_factor=1)
    at_once = replace(plain, branch_when_nobody_else_can_run=False, first_cover_within_events=limits.events)
    return plain, at_once, limits


__all__ = [
    "ExplorationBudget",
    "ParametricResult",
    "Problem",
    "all_sizes",
    "any_group",
    "decide",
    "each_cluster_alone",
    "problem_of",
    "prove",
]
