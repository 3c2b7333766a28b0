"""Proofs for every size of a kernel, and the smallest size that refutes it. See ``docs/symbolic.md``.

A front end poses a ``Problem``; ``prove`` explores it with terms for the open sizes. What fails there is
taken to numbers: a refutation is always one of the exact check, for the smallest sizes that it is found for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.checker.prover.budget import alone, rotates, without_rotations
from syncverify.checker.prover.parametric.attempt import Attempt
from syncverify.checker.prover.parametric.concrete_checks import MOST_EARLY, Numbers, Problem, Ranges, true_of
from syncverify.checker.prover.parametric.result import Sized
from syncverify.checker.prover.reach.analysis import Limits
from syncverify.checker.prover.strategy import EFFORTS, Effort, Entry
from syncverify.frontends.ir.block_groups import in_rows, team_size
from syncverify.frontends.ir.symbolic_launch import launch_facts, open_systems
from syncverify.ir import solver
from syncverify.ir.expr import Binary, Expr, Int, Var
from syncverify.ir.nodes import Kernel
from syncverify.symbolic.context import Space
from syncverify.symbolic.protocol import SizedSystem
from syncverify.symbolic.round_robin import Asked, Deals

#: How often an exploration begins anew with what was asked of a size too late; what ends takes three.
MOST_LATE = 8
#: The first look at sizes that are read again takes this part of the events, more while few are left.
BRIEF = 4
#: And those with one value for all turns: the first this part, the second, in which agents ask when no other
#: can go on, that.
SOON, LAST = 16, 2

_TYPES = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}


def all_sizes(
    kernel: Kernel,
    given: Mapping[str, int],
    policy: Policy,
    exact: Callable[[Mapping[str, int]], Verdict],
    effort: Effort = EFFORTS[Entry.IR],
) -> Sized:
    """Whether the kernel is right for all values of the parameters that ``given`` does not fix.

    ``exact`` is the exact check of the kernel; it has the last word on every refutation.
    """
    problem = problem_of(kernel, given, exact)
    team = team_size(kernel)
    barriers = sum(b.count.value for b in kernel.barriers if isinstance(b.count, Int))
    return decide(problem, policy, effort, team // kernel.launch.ctas if team else 0, barriers)


def decide(problem: Problem, policy: Policy, effort: Effort, clusters: int = 0, barriers: int = 0) -> Sized:
    """The verdict for all sizes of a problem, for no more than an effort.

    ``clusters``: that share global memory as a team; of these there is one look. ``barriers``: mbarriers
    that are known to be there, each of which allows more decisions of the first look.
    """
    if not effort.refutes:
        problem = replace(problem, exact=lambda values: Verdict.UNKNOWN)
    if clusters:
        most = effort.team(clusters)
        if most is None:
            why = Reason("no proof for any team of blocks was found", Cause.NO_PROOF)
            return Sized(Verdict.UNKNOWN, reason=why)
        if problem.alone is not None and clusters > 1 and alone.get() and effort.each is not None:
            found = each_alone(problem, policy, effort.each)
            if found.verdict is not Verdict.UNKNOWN:
                return found
        return prove(problem, policy, small=effort.small, first=most, once=True)
    first = effort.first
    if first is not None:
        first = replace(first, nodes=first.nodes + effort.for_barrier * barriers)
    if effort.rest is None:
        return prove(problem, policy, small=effort.small, first=first, once=True)
    return prove(problem, policy, effort.rest, small=effort.small, first=first)


def each_alone(problem: Problem, policy: Policy, most: Limits | None = None) -> Sized:
    """The same with each cluster of a team explored by itself, and all put together.

    ``most``: its cost; None: that of a check.
    """
    assert problem.alone is not None
    most = most or EFFORTS[Entry.IR].each or Limits()
    each = replace(problem, systems=problem.alone)
    _, found = _look(each, policy, most, True, Numbers(problem), small=False)
    if found.verdict is Verdict.PROVED:
        return replace(found, alone=True)
    if found.verdict is Verdict.REFUTED:
        return found  # by the exact check of the whole
    return Sized(Verdict.UNKNOWN, reason=found.reason, stats=found.stats)


def any_team(kernel: Kernel, values: Mapping[str, int], policy: Policy) -> Sized:
    """Whether a launch is right whose blocks share global memory in teams, any of which stands for all; a
    verdict is a proof, or unknown."""
    problem = problem_of(kernel, values, lambda _: Verdict.UNKNOWN)
    return decide(problem, policy, EFFORTS[Entry.IR_TEAM_LAUNCH])


def problem_of(
    kernel: Kernel, given: Mapping[str, int], exact: Callable[[Mapping[str, int]], Verdict]
) -> Problem:
    """A kernel of the IR with the parameters that ``given`` does not fix left open."""
    open_: Ranges = {p.name: _TYPES[p.dtype] for p in kernel.params if p.name not in given}
    if team_size(kernel) and not in_rows(kernel):
        open_ = unbounded(open_)
    facts = (*kernel.assumes, *launch_facts(kernel))
    defaults = {p.name: p.default for p in kernel.params if p.default is not None}
    values = {p.name: defaults.get(p.name, 1) for p in kernel.params} | dict(given)
    values = settled(values, facts, given) or values

    def systems(sizes: Mapping[str, Any], space: Space) -> Iterable[SizedSystem]:
        return open_systems(kernel, values, sizes, space)

    def each(sizes: Mapping[str, Any], space: Space) -> Iterable[SizedSystem]:
        return open_systems(kernel, values, sizes, space, alone=True)

    return Problem(open_, facts, systems, exact, defaults, dict(given), each if team_size(kernel) else None)


def unbounded(sizes: Ranges) -> Ranges:
    """Ranges without an end, where blocks share global memory in teams: what a size leaves of its end would
    tell states apart once it is dropped with its cluster."""
    return {name: (low, None) for name, (low, _) in sizes.items()}


def settled(
    values: Mapping[str, int], facts: Iterable[Expr], given: Mapping[str, int]
) -> dict[str, int] | None:
    """Values that keep all facts, changed where they must be; None if none were found."""
    facts = list(facts)
    if all(true_of(f, values) for f in facts):
        return dict(values)
    known = [Binary("==", Var(k), Int(v)) for k, v in given.items()]
    model = solver.model([*facts, *known])
    return None if model is None else {**values, **{k: v for k, v in model.items() if k in values}}


def prove(
    problem: Problem,
    policy: Policy,
    limits: Limits = Limits(),  # noqa: B008
    *,
    small: bool = True,
    first: Limits | None = None,
    once: bool = False,
) -> Sized:
    """The verdict for all sizes of a problem; ``small``: small sizes are tried where nothing was decided.
    ``first``: what a look before all others may cost, of which only a proof or a refutation counts; ``once``:
    there is no other.

    Sizes that a loop reads in every turn are first explored with any value in every turn, which is soonest
    over or not at all; then with the same value, first so that agents ask only when no other can go on; and
    where limits were in the way of the first, once more with any: a failure that no sizes confirm may come of
    states that were widened with the same value.
    """
    search = Numbers(problem)
    found: Sized | None = None
    brief = replace(limits, events=limits.events // BRIEF, stretch=limits.brief * limits.stretch)
    if first is not None:
        attempt, again = _first_look(problem, policy, first, search)
        if again.verdict is not Verdict.UNKNOWN:
            return again
        if once:
            search.asked |= attempt.space.asked
            values = search.smallest(None, MOST_EARLY) if small else None
            return again if values is None else Sized(Verdict.REFUTED, values=values)
    last = replace(limits, events=limits.events // LAST, asks_last=True, failures=0, stretch=LAST)
    soon = replace(limits, events=limits.events // SOON, failures=0)
    looks = [(True, brief), (False, soon), (False, last), (False, limits), (True, limits)]
    while looks:
        forgets, most = looks.pop(0)
        attempt, again = _look(problem, policy, most, forgets, search, small=small)
        if again.verdict is not Verdict.UNKNOWN:
            return again
        found = again if found is None or not found.values else found
        values = search.smallest(None) if small else None
        if small and values is None and search.asked:
            # questions about quotients do not name all that they come from
            asked, search.asked = search.asked, set(problem.sizes)
            values = search.smallest(None)
            search.asked = asked
        if small and values is None:
            values = search.below_zero()
        if values is not None:
            return Sized(Verdict.REFUTED, values=values)
        if most is brief and not attempt.exceeded:
            looks.pop()  # with more of it there is no other answer
        if not attempt.space.forgotten:
            looks = [x for x in looks if x[0] is forgets]  # there is nothing to forget
    assert found is not None
    return found


def _first_look(problem: Problem, policy: Policy, limits: Limits, numbers: Numbers) -> tuple[Attempt, Sized]:
    """The look in which turns are dealt out, if some are and that leads somewhere; else one as any other."""
    deals = Deals() if rotates.get() else None
    attempt, found = _look(problem, policy, limits, True, numbers, small=False, deals=deals)
    if deals is None or not deals.names:
        return attempt, found
    if attempt.slots:
        deals = Deals(attempt.slots, deals.names, deals.sums, deals.taken, attempt.groups)
        attempt, found = _look(problem, policy, limits, True, numbers, False, deals, attempt.space.early)
    if found.verdict is not Verdict.UNKNOWN:
        return attempt, found
    return _look(problem, policy, limits, True, numbers, small=False)


def _look(
    problem: Problem,
    policy: Policy,
    limits: Limits,
    forgets: bool,
    numbers: Numbers,
    small: bool,
    deals: Deals | None = None,
    early: Iterable[Asked] = (),
) -> tuple[Attempt, Sized]:
    """One exploration of a problem; where it led nowhere round a ring, one without."""
    early = set(early)
    for _ in range(MOST_LATE):
        space = Space(deals)
        space.early |= early
        attempt = Attempt(problem, policy, limits, forgets, numbers, space=space, small=small)
        found = attempt.run()
        if space.late <= early or not (space.summing and deals is not None and deals.slots):
            break
        early |= space.late
        least = {(name, c if k == 1 else -c - 1) for name, k, c in space.late if abs(k) == 1}
        # the steps before the first that asks are asked of next
        early |= {(name, 1, c) for name, most in least for c in range(min(most, -deals.slots - 2), -1)}
    if attempt.unturned and not (deals is not None and deals.names):
        attempt = Attempt(problem, policy, limits, forgets, numbers, small=small)
        with without_rotations():
            found = attempt.run()
    return attempt, found


__all__ = [
    "Limits",
    "Problem",
    "Sized",
    "all_sizes",
    "any_team",
    "decide",
    "each_alone",
    "problem_of",
    "prove",
]
