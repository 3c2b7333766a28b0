"""Proofs for every size of a kernel, and the smallest size that refutes it. See ``docs/symbolic.md``.

A front end poses a ``Problem``; ``prove`` explores it with terms for the open sizes. What fails there is
taken to numbers: a refutation is always one of the exact check, for the smallest sizes that it is found for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.checker.clocks import ColumnsExhausted
from syncverify.checker.engine import Unmodelled
from syncverify.checker.explore.anew import Slots
from syncverify.checker.explore.explorer import (
    Exceeded,
    Explorer,
    Failed,
    Limits,
    Unturned,
    allowed,
)
from syncverify.checker.explore.graph import Graph, Settled
from syncverify.checker.explore.limits import alone, rotates, without_rotations
from syncverify.checker.explore.traces import Groups
from syncverify.diagnostics import Diagnostic, Policy, Verdict
from syncverify.ir import solver
from syncverify.ir.execute_sized import launch_facts, open_systems
from syncverify.ir.execute_teams import in_rows, team_size
from syncverify.ir.expr import Binary, Expr, Int, Var, evaluate
from syncverify.ir.nodes import Kernel
from syncverify.model.deals import Asked, Deals, whole_laps
from syncverify.model.events import LaneSplit
from syncverify.model.path import Path
from syncverify.model.symbols import SizedSystem
from syncverify.model.terms import Space, Symbolic
from syncverify.sizes.assertions import always_stopped
from syncverify.sizes.early import answered, open_ended
from syncverify.sizes.found import Found, told_aside
from syncverify.sizes.lanes import alike, finer, refined
from syncverify.sizes.members import Joined
from syncverify.sizes.numbers import MOST_EARLY, Numbers, Problem, Ranges, total_of, true_of
from syncverify.source import InputError

#: Columns of clocks beyond the usual, after which an exploration gives up.
MOST_COLUMNS = 1_024
#: Class splits after which an exploration gives up.
MAX_RESTARTS = 256
#: How often an exploration begins anew with what was asked of a size too late; what ends takes three.
MOST_LATE = 8
#: Decisions that are explored beyond a refutation, for a smaller one.
MORE_NODES = 150
#: And after so many failing runs in a row of which no smaller sizes are found, no more are looked at.
MOST_LARGER = 10
#: The first look at sizes that are read again takes this part of the events, more while few are left.
BRIEF = 4
#: And those with one value for all turns: the first this part, the second, in which agents ask when no other
#: can go on, that.
SOON, LAST = 16, 2

#: What one exploration may cost.
LIMITS = Limits()
#: And the first look, in which agents ask only when no other can go on: states mostly repeat soonest then.
#: There are as many as places in a ring, so each barrier allows more decisions.
FIRST = Limits(events=200_000, nodes=400, soon=30_000, failures=0, asks_last=True)
FOR_BARRIER = 40
#: And the only look where blocks share global memory in teams, of two clusters, of three, or more.
TEAMS = Limits(events=600_000, nodes=3_000, failures=0, asks_last=True)
THREE_IN_A_TEAM = replace(TEAMS, events=1_500_000, nodes=8_000)
LARGER_TEAMS = replace(TEAMS, events=100_000, nodes=500)
#: And for one launch of such a kernel: one run, of any length.
LAUNCHED_TEAMS = replace(TEAMS, events=3_000_000, path=3_000_000, nodes=500)

#: A path with the systems that start on it; and whether some size has no number there.
Item = tuple[tuple[Path, list[SizedSystem]], bool]

_TYPES = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}


@dataclass(slots=True)
class Sized:
    """What is known of all sizes. ``values``: where the kernel is refuted; ``reason``: why it is unknown."""

    verdict: Verdict
    studied: str | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    stats: dict[str, int] = field(default_factory=dict)
    graphs: tuple[Graph, ...] = ()
    parts: tuple[tuple[Mapping[str, int], Sized], ...] = ()  # proofs that it rests on, each for fixed values
    stages: object = None  # a proof for every number of stages
    alone: bool = False  # of clusters of a team each by itself
    restores: bool = False  # flags in global memory are left as they were found
    stopped: Mapping[int, str] = field(default_factory=dict)  # lines that nobody is taken to stop at, and why
    launches: tuple[Mapping[str, int], ...] = ()  # that stand for all, each checked by itself


def all_sizes(
    kernel: Kernel,
    given: Mapping[str, int],
    policy: Policy,
    exact: Callable[[Mapping[str, int]], Verdict],
    limits: Limits = LIMITS,
) -> Sized:
    """Whether the kernel is right for all values of the parameters that ``given`` does not fix.

    ``exact`` is the exact check of the kernel; it has the last word on every refutation.
    """
    team = team_size(kernel)
    if team:
        problem = problem_of(kernel, given, exact)
        return any_size_of_teams(problem, policy, team // kernel.launch.ctas, small=True)
    barriers = sum(b.count.value for b in kernel.barriers if isinstance(b.count, Int))
    first = replace(FIRST, nodes=FIRST.nodes + FOR_BARRIER * barriers)
    return prove(problem_of(kernel, given, exact), policy, limits, first=first)


def any_size_of_teams(
    problem: Problem, policy: Policy, clusters: int, two: Limits = TEAMS, *, small: bool = False
) -> Sized:
    """The same where so many clusters share global memory as a team: there is one look. ``two``: what it may
    cost where they are two."""
    if problem.alone is not None and clusters > 1 and alone.get():
        found = each_alone(problem, policy)
        if found.verdict is not Verdict.UNKNOWN:
            return found
    first = {2: two, 3: THREE_IN_A_TEAM}.get(clusters, LARGER_TEAMS)
    return prove(problem, policy, small=small, first=first, once=True)


def each_alone(problem: Problem, policy: Policy) -> Sized:
    """The same with each cluster of a team explored by itself, and all put together."""
    assert problem.alone is not None
    each = replace(problem, systems=problem.alone)
    _, found = _look(each, policy, TEAMS, True, Numbers(problem), small=False)
    if found.verdict is Verdict.PROVED:
        return replace(found, alone=True)
    if found.verdict is Verdict.REFUTED:
        return found  # by the exact check of the whole
    return Sized(Verdict.UNKNOWN, reason=found.reason, stats=found.stats)


def any_team(kernel: Kernel, values: Mapping[str, int], policy: Policy) -> Sized:
    """Whether a launch is right whose blocks share global memory in teams, any of which stands for all; a
    verdict is a proof, or unknown."""
    problem = problem_of(kernel, values, lambda _: Verdict.UNKNOWN)
    return prove(problem, policy, small=False, first=LAUNCHED_TEAMS, once=True)


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
    limits: Limits = LIMITS,
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


def _first_look(problem: Problem, policy: Policy, limits: Limits, numbers: Numbers) -> tuple[_Attempt, Sized]:
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
) -> tuple[_Attempt, Sized]:
    """One exploration of a problem; where it led nowhere round a ring, one without."""
    early = set(early)
    for _ in range(MOST_LATE):
        space = Space(deals)
        space.early |= early
        attempt = _Attempt(problem, policy, limits, forgets, numbers, space=space, small=small)
        found = attempt.run()
        if space.late <= early or not (space.summing and deals is not None and deals.slots):
            break
        early |= space.late
        least = {(name, c if k == 1 else -c - 1) for name, k, c in space.late if abs(k) == 1}
        # the steps before the first that asks are asked of next
        early |= {(name, 1, c) for name, most in least for c in range(min(most, -deals.slots - 2), -1)}
    if attempt.unturned and not (deals is not None and deals.names):
        attempt = _Attempt(problem, policy, limits, forgets, numbers, small=small)
        with without_rotations():
            found = attempt.run()
    return attempt, found


@dataclass(slots=True)
class _Attempt:
    problem: Problem
    policy: Policy
    limits: Limits
    forgets: bool
    numbers: Numbers
    space: Space = field(default_factory=Space)
    small: bool = True
    explorers: list[Explorer] = field(default_factory=list)  # of the systems of one path
    found: list[Found] = field(default_factory=list)
    unconfirmed: int = 0
    reason: str | None = None
    exceeded: bool = False  # a limit was in the way
    further: bool = True  # on the path that is explored some size has no number
    restores: bool = True  # flags in global memory are left as they were found
    unturned: bool = False  # it has a ring, round which it could not be explored
    slots: int = 0  # of a ring that was found where turns are dealt out
    groups: Groups = ()  # and its barriers
    turns: bool = True  # where no size is taken anew, a ring is looked for

    def run(self) -> Sized:
        try:
            starts = self.starts()
            open_ = [open_ended(self.space, path) for path, _ in starts]
            items = [*zip(starts, open_, strict=True)]
            numbers = [x for x in items if not x[1]]
            several = len(numbers) if self.space.early and any(open_) else 0
            with told_aside(lambda: self.each_alone(numbers), several) as answer:
                refuted = self.all_of(items if answer is None else [x for x in items if x[1]])
                told = answer() if answer is not None and refuted is None else ()
            if told is None:
                refuted = self.all_of(numbers)
            if refuted is not None:
                return Sized(Verdict.REFUTED, values=refuted, stats=self.stats())
            self.found += told or ()
            self.reason = self.reason or always_stopped(self.found, self.numbers)
        except (Symbolic, Unmodelled) as e:
            self.reason = str(e)
            self.exceeded = isinstance(e, Exceeded)
            self.unturned = isinstance(e, Unturned)
        except InputError as e:
            self.reason = e.message
        except Slots as e:
            self.reason, self.slots, self.groups = "turns are dealt out", e.size, e.groups
        if self.reason is not None:
            return Sized(Verdict.UNKNOWN, reason=self.reason, stats=self.stats())
        notes = {k: d for e in self.found for k, d in e.notes.items()}
        graphs = tuple(e.graph for e in self.found)
        found = Sized(Verdict.PROVED, diagnostics=tuple(notes.values()), stats=self.stats(), graphs=graphs)
        found.stopped = {line: why for e in self.found for line, why in e.stopped.items()}
        return replace(found, restores=self.restores and all(e.restores for e in self.found))

    def all_of(self, items: Iterable[Item]) -> dict[str, int] | None:
        """Explores all systems; the smallest sizes that refute one, if one is refuted."""
        for (path, systems), self.further in items:
            self.explorers = []
            for system in systems:
                refuted = self.explored(path, system)
                if refuted is not None:
                    return refuted
            self.join(path, self.explorers)
        return None

    def each_alone(self, items: Iterable[Item]) -> list[Found] | None:
        """What some starts come to; None if anything but clean ends was met."""
        late = set(self.space.late)
        refuted = self.all_of(items)
        met = refuted is not None or self.reason is not None or self.unconfirmed or self.space.late != late
        return None if met or not self.restores else self.found

    def join(self, path: Path, explorers: list[Explorer]) -> None:
        """Puts clusters of a team that were explored alone together."""
        members = [x for x in explorers if x.system.info.member is not None]
        if not members or self.reason is not None:
            return
        joined = Joined(self.space)
        for x in members:
            joined.take(x.system.info.member, x.accounts)
        neighbours = members[0].system.info.neighbours
        if neighbours is not None:
            joined.spread(path, neighbours)
        self.reason = joined.wrong(path)
        self.restores &= joined.restores

    def starts(self) -> list[tuple[Path, list[SizedSystem]]]:
        """The paths that the facts leave, with the systems that start on them."""
        space, out = self.space, []
        path = space.path
        for name, (low, high) in self.problem.sizes.items():
            path.sizes[name] = space.atom(name, low, high, frozenset({name}))

        def holds(f: Expr) -> Callable[[], bool]:
            return lambda: bool(evaluate(f, {**self.problem.fixed, **space.path.sizes}))

        def build() -> bool:
            systems = list(self.problem.systems(dict(space.path.sizes), space))
            out.append((space.path, systems))
            return True

        names = set() if space.deals is None else space.deals.names & path.sizes.keys()
        laps = [lambda name=name: whole_laps(space, space.path.sizes[name]) for name in sorted(names)]
        asked = [lambda x=x: answered(space, x) for x in sorted(space.early)]
        allowed(space, path, [*map(holds, self.problem.facts), *laps, *asked, build])
        space.asked.clear()
        return out

    def explored(self, path: Path, system: SizedSystem) -> dict[str, int] | None:
        """As ``explore``; round a ring where no size is taken anew, if that does."""
        if self.further or not self.space.early:
            return self.explore(path, system)
        if self.turns and not (self.space.deals is not None and self.space.deals.skips):
            try:
                return self.explore(path.fork(), system)
            except Unturned:
                self.turns = False  # others of these sizes go round no better
        with without_rotations():
            return self.explore(path, system)

    def explore(self, path: Path, system: SizedSystem) -> dict[str, int] | None:
        """The smallest sizes that refute a system, if it is refuted."""
        slack = 64
        splits: list[tuple[int, tuple[int, ...]]] = []
        parted: set[tuple[int, ...]] = set()
        for _ in range(MAX_RESTARTS):
            space = self.space
            space.forgets, space.root, space.path = self.forgets and self.further, path, path
            explorer = Explorer(
                system=system, space=space, roots=[path], policy=self.policy, limits=self.limits, slack=slack
            )
            explorer.graph.splits, explorer.graph.asks_last = tuple(splits), self.limits.asks_last
            explorer.soon = space.forgets
            try:
                for failed in explorer.failures():
                    if failed is None:
                        self.numbers.asked |= space.asked
                        early = self.numbers.smallest(None, MOST_EARLY) if self.small else None
                        if early is not None:
                            return early
                        continue
                    if not failed.certain:
                        values = next(self.numbers.on(failed.path, self.space), None)
                        if values is not None and self.numbers.check(values) is Verdict.REFUTED:
                            return self.numbers.smallest(values)
                        continue
                    refuted = self.confirm(failed)
                    if refuted is not None:
                        return self.numbers.smallest(self.smaller(explorer, refuted))
                    if self.unconfirmed > (0 if self.forgets else self.limits.failures):
                        break
                self.explorers.append(explorer)
                self.found.append(Found.of(explorer))
                return None
            except ColumnsExhausted:
                slack *= 4
                if slack > MOST_COLUMNS:
                    raise Symbolic("too many synchronization objects") from None
            except LaneSplit as split:
                space.path = path
                split = finer(system, split)
                again = split.parts in parted  # soon those of other warps, most likely
                parted.add(split.parts)
                for one in alike(system, split) if again else [split]:
                    splits.append((one.cls, one.parts))
                    system = refined(system, one)
        raise Symbolic("lane classes did not settle")

    def smaller(self, explorer: Explorer, found: dict[str, int]) -> dict[str, int]:
        """The smallest sizes among what a little more exploration finds."""
        explorer.last = len(explorer.graph.nodes) + MORE_NODES
        explorer.limits = replace(explorer.limits, nodes=explorer.last)
        best, larger = found, 0
        try:
            while explorer.pending and larger < MOST_LARGER:
                failed = next(explorer.failures(), None)
                less = failed and self.confirm(failed, total_of(best))
                best, larger = less or best, 0 if less else larger + (failed is not None)
        except (Symbolic, Unmodelled, LaneSplit, ColumnsExhausted):
            pass
        return best

    def confirm(self, failed: Failed, below: int | None = None) -> dict[str, int] | None:
        """Sizes, of a total ``below`` that if it is given, for which the exact check fails as the run did."""
        for values in self.numbers.on(failed.path, self.space, below):
            if below is not None and total_of(values) >= below:
                continue
            verdict = self.numbers.check(values)
            if verdict is Verdict.REFUTED:
                return values
            if verdict is Verdict.UNKNOWN:
                shown = ", ".join(f"{k} = {v}" for k, v in values.items())
                self.reason = f"with {shown}: {failed.reason}"
        self.unconfirmed += 1
        self.reason = self.reason or f"no sizes were found for a run that fails: {failed.reason}"
        return None

    def stats(self) -> dict[str, int]:
        graphs = [e.graph for e in self.found]
        return {
            "nodes": sum(len(g.nodes) for g in graphs),
            "covered": sum(g.count(Settled.COVERED) for g in graphs),
            "widened": sum(g.count(Settled.WIDENED) for g in graphs),
            "events": sum(e.events for e in self.found),
            "exact_checks": len(self.numbers.known),
        }


__all__ = [
    "Limits",
    "Problem",
    "Sized",
    "all_sizes",
    "any_size_of_teams",
    "any_team",
    "each_alone",
    "problem_of",
    "prove",
]
