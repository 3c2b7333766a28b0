"""Proofs for every size of a kernel, and the smallest size that refutes it. See ``docs/symbolic.md``.

A front end poses a ``Problem``; ``prove`` explores it with terms for the open sizes. What fails there is
taken to numbers: a refutation is always one of the exact check, for the smallest sizes that it is found for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.checker.clocks import ColumnsExhausted
from syncverify.checker.engine import Unmodelled
from syncverify.checker.explore.explorer import Exceeded, Explorer, Failed, Limits, allowed
from syncverify.checker.explore.graph import Graph, Settled
from syncverify.diagnostics import Diagnostic, Policy, Verdict
from syncverify.ir import solver
from syncverify.ir.execute_sized import launch_facts, open_systems
from syncverify.ir.expr import Binary, Call, Expr, Int, Var, evaluate
from syncverify.ir.nodes import Kernel
from syncverify.model.events import LaneSplit
from syncverify.model.inequalities import Sum
from syncverify.model.path import Path
from syncverify.model.symbols import SizedSystem
from syncverify.model.terms import Space, Symbolic
from syncverify.source import InputError

#: Columns of clocks beyond the usual, after which an exploration gives up.
MOST_COLUMNS = 256
#: Class splits after which an exploration gives up.
MAX_RESTARTS = 256
#: Exact checks of small sizes, where nothing else was decided or a smaller refutation is looked for.
MOST_SMALL = 120
#: Those of them that are made while an exploration goes on.
MOST_EARLY = 30
#: Sizes that are looked at for them, most of which some fact may exclude.
MOST_LOOKED = 4_000
#: Exact checks of sizes just below those that a refutation was found for, and the sum of their sizes.
MOST_BELOW, MOST_BELOW_TOTAL = 60, 6_000
#: Decisions that are explored beyond a refutation, for a smaller one.
MORE_NODES = 150
#: Numbers that are tried for one failing run.
MOST_TRIED = 3

#: The first look at sizes that are read again takes this part of the events.
BRIEF = 8

#: What one exploration may cost.
LIMITS = Limits()

_TYPES = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel whose sizes have no number, whatever front end it came from.

    ``sizes``: the open ones, with their type's range. ``facts``: conditions over them and over nothing else.
    ``systems``: the systems that together stand for every launch, given what stands for each size (an int or
    a ``Term``) and the space that the terms live in; they may be asked for more than once. ``exact``: the
    verdict for numbers; it has the last word on every refutation. ``defaults``: numbers for sizes that do not
    matter. ``fixed``: what else ``exact`` is given.
    """

    sizes: Mapping[str, tuple[int, int]]
    facts: tuple[Expr, ...]
    systems: Callable[[Mapping[str, Any], Space], Iterable[SizedSystem]]
    exact: Callable[[Mapping[str, int]], Verdict]
    defaults: Mapping[str, int] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)


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
    return prove(problem_of(kernel, given, exact), policy, limits)


def problem_of(
    kernel: Kernel, given: Mapping[str, int], exact: Callable[[Mapping[str, int]], Verdict]
) -> Problem:
    """A kernel of the IR with the parameters that ``given`` does not fix left open."""
    open_ = {p.name: _TYPES[p.dtype] for p in kernel.params if p.name not in given}
    facts = (*kernel.assumes, *launch_facts(kernel))
    defaults = {p.name: p.default for p in kernel.params if p.default is not None}
    values = {p.name: defaults.get(p.name, 1) for p in kernel.params} | dict(given)
    values = settled(values, facts, given) or values

    def systems(sizes: Mapping[str, Any], space: Space) -> Iterable[SizedSystem]:
        return open_systems(kernel, values, sizes, space)

    return Problem(open_, facts, systems, exact, defaults, dict(given))


def settled(
    values: Mapping[str, int], facts: Iterable[Expr], given: Mapping[str, int]
) -> dict[str, int] | None:
    """Values that keep all facts, changed where they must be; None if none were found."""
    facts = list(facts)
    if all(_true(f, values) for f in facts):
        return dict(values)
    known = [Binary("==", Var(k), Int(v)) for k, v in given.items()]
    model = solver.model([*facts, *known])
    return None if model is None else {**values, **{k: v for k, v in model.items() if k in values}}


def _true(f: Expr, values: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(f, values))
    except (KeyError, ZeroDivisionError):
        return False


# ---------------------------------------------------------------- proving


def prove(problem: Problem, policy: Policy, limits: Limits = LIMITS, *, small: bool = True) -> Sized:
    """The verdict for all sizes of a problem; ``small``: small sizes are tried where nothing was decided.

    Sizes that a loop reads in every turn are first explored with any value in every turn, which is soonest
    over or not at all; then with the same value; and where only limits were in the way, once more with any.
    """
    search = _Numbers(problem)
    found: Sized | None = None
    brief = replace(limits, events=limits.events // BRIEF)
    work = [(True, brief), (False, limits), (True, limits)]
    while work:
        forgets, most = work.pop(0)
        attempt = _Attempt(problem, policy, most, forgets, search, small=small)
        again = attempt.run()
        if again.verdict is not Verdict.UNKNOWN:
            return again
        found = again if found is None or not found.values else found
        values = search.smallest(None) if small else None
        if small and values is None and search.asked:
            # questions about quotients do not name all that they come from
            asked, search.asked = search.asked, set(problem.sizes)
            values = search.smallest(None)
            search.asked = asked
        if values is not None:
            return Sized(Verdict.REFUTED, values=values)
        if not forgets and not attempt.exceeded:
            break  # any value in every turn allows more, and would fail as well
        again_any = attempt.exceeded and most is brief
        work = [w for w in work if w[0] is not forgets or again_any]
        if not attempt.space.forgotten:
            work = [w for w in work if w[0] is forgets]  # there is nothing to forget
    assert found is not None
    return found


@dataclass(slots=True)
class _Attempt:
    problem: Problem
    policy: Policy
    limits: Limits
    forgets: bool
    numbers: _Numbers
    space: Space = field(default_factory=Space)
    small: bool = True
    explorers: list[Explorer] = field(default_factory=list)
    unconfirmed: int = 0
    reason: str | None = None
    exceeded: bool = False  # a limit was in the way

    def run(self) -> Sized:
        try:
            for path, systems in self.starts():
                for system in systems:
                    refuted = self.explore(path, system)
                    if refuted is not None:
                        return Sized(Verdict.REFUTED, values=refuted, stats=self.stats())
        except (Symbolic, Unmodelled) as e:
            self.reason = str(e)
            self.exceeded = isinstance(e, Exceeded)
        except InputError as e:
            self.reason = e.message
        if self.reason is not None:
            return Sized(Verdict.UNKNOWN, reason=self.reason, stats=self.stats())
        notes = {k: d for e in self.explorers for k, d in e.notes.items()}
        graphs = tuple(e.graph for e in self.explorers)
        return Sized(Verdict.PROVED, diagnostics=tuple(notes.values()), stats=self.stats(), graphs=graphs)

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

        allowed(space, path, [*map(holds, self.problem.facts), build])
        space.asked.clear()
        return out

    def explore(self, path: Path, system: SizedSystem) -> dict[str, int] | None:
        """The smallest sizes that refute a system, if it is refuted."""
        slack = 64
        splits: list[tuple[int, tuple[int, ...]]] = []
        for _ in range(MAX_RESTARTS):
            space = self.space
            space.forgets, space.root, space.path = self.forgets, path, path
            explorer = Explorer(system, space, [path], self.policy, self.limits, slack)
            explorer.graph.splits = tuple(splits)
            try:
                for failed in explorer.failures():
                    if failed is None:
                        self.numbers.asked |= space.asked
                        early = self.numbers.smallest(None, MOST_EARLY) if self.small else None
                        if early is not None:
                            return early
                        continue
                    refuted = self.confirm(failed)
                    if refuted is not None:
                        return self.numbers.smallest(self.smaller(explorer, refuted))
                    if self.unconfirmed > (0 if self.forgets else self.limits.failures):
                        break
                self.explorers.append(explorer)
                return None
            except ColumnsExhausted:
                slack *= 4
                if slack > MOST_COLUMNS:
                    raise Symbolic("too many synchronization objects") from None
            except LaneSplit as split:
                space.path = path
                splits.append((split.cls, split.parts))
                system = _refined(space, system, split)
        raise Symbolic("lane classes did not settle")

    def smaller(self, explorer: Explorer, found: dict[str, int]) -> dict[str, int]:
        """The smallest sizes among what a little more exploration finds."""
        explorer.limits = replace(explorer.limits, nodes=len(explorer.graph.nodes) + MORE_NODES)
        best = found
        try:
            while explorer.pending:
                failed = next(explorer.failures(), None)
                best = (failed and self.confirm(failed, _total(best))) or best
        except (Symbolic, Unmodelled, LaneSplit, ColumnsExhausted):
            pass
        return best

    def confirm(self, failed: Failed, below: int | None = None) -> dict[str, int] | None:
        """Sizes, of a total ``below`` that if it is given, for which the exact check fails as the run did."""
        for values in self.numbers.on(failed.path, self.space, below):
            if below is not None and _total(values) >= below:
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
        graphs = [e.graph for e in self.explorers]
        return {
            "nodes": sum(len(g.nodes) for g in graphs),
            "covered": sum(g.count(Settled.COVERED) for g in graphs),
            "widened": sum(g.count(Settled.WIDENED) for g in graphs),
            "events": sum(e.events for e in self.explorers),
            "exact_checks": len(self.numbers.known),
        }


def _total(values: Mapping[str, int]) -> int:
    return sum(map(abs, values.values()))


def _refined(space: Space, system: SizedSystem, split: LaneSplit) -> SizedSystem:
    return system.refined(split)


# ---------------------------------------------------------------- numbers


@dataclass(slots=True)
class _Numbers:
    """Exact checks, each made once, and the search for the numbers to check."""

    problem: Problem
    known: dict[tuple[int, ...], Verdict] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def check(self, values: Mapping[str, int]) -> Verdict:
        """The exact verdict; PROVED for launches that there are not."""
        key = tuple(values[name] for name in self.problem.sizes)
        if key not in self.known:
            try:
                self.known[key] = self.problem.exact({**self.problem.fixed, **values})
            except InputError:
                self.known[key] = Verdict.PROVED
        return self.known[key]

    def on(self, path: Path, space: Space, below: int | None = None) -> Iterator[dict[str, int]]:
        """Small sizes that a path allows, of a total ``below`` that if it is given."""
        self.asked |= space.asked
        facts, sizes = _equations(path, space)
        facts += [*self.problem.facts]
        facts += [Binary("==", Var(k), Int(v)) for k, v in self.problem.fixed.items()]
        facts += [Binary("==", Var(name), s) for name, s in sizes.items()]
        for name, (low, high) in self.problem.sizes.items():
            facts += [Binary(">=", Var(name), Int(low)), Binary("<=", Var(name), Int(high))]
        if below is not None:
            facts.append(Binary("<", self.total(), Int(below)))
        for _ in range(MOST_TRIED):
            values = self.least(facts)
            if values is None:
                return
            yield values
            same: Expr = Int(1)
            for name, v in values.items():
                same = Binary("and", same, Binary("==", Var(name), Int(v)))
            facts.append(Binary("==", same, Int(0)))

    def total(self) -> Expr:
        total: Expr = Int(0)
        for name in self.problem.sizes:
            total = Binary("+", total, Call("abs", (Var(name),)))
        return total

    def least(self, facts: list[Expr]) -> dict[str, int] | None:
        """Values of the sizes that keep the facts, their sum as small as is found."""
        names_, total = list(self.problem.sizes), self.total()
        best = solver.model(facts)
        if best is None:
            return None
        low, high = 0, sum(abs(best[x]) for x in names_)
        while low < high:
            middle = (low + high) // 2
            found = solver.model([*facts, Binary("<=", total, Int(middle))])
            if found is None:
                low = middle + 1
            else:
                best, high = found, sum(abs(found[x]) for x in names_)
        return {name: best[name] for name in names_}

    def smallest(self, found: dict[str, int] | None, most: int = MOST_SMALL) -> dict[str, int] | None:
        """Sizes that the exact check refutes; those found, if none of the few that are tried are smaller: the
        first of all, and those just below what is found."""
        steering = sorted(self.asked & set(self.problem.sizes)) or sorted(self.problem.sizes)
        low = sum(map(self.lowest, steering))
        last = low + 65 if found is None else min(low + 65, sum(abs(found[x]) for x in steering))
        tried = looked = 0
        total = low
        while total < last and tried < most and looked < MOST_LOOKED:
            for values in self.of_sum(total, steering, found):
                looked += 1
                if values is None:
                    continue
                tried += 1
                if self.check(values) is Verdict.REFUTED:
                    return values
                if tried >= most or looked >= MOST_LOOKED:
                    break
            total += 1
        return found if found is None else self.below(found, steering, total)

    def below(self, found: dict[str, int], steering: list[str], low: int) -> dict[str, int]:
        """The smallest sizes among those just below what is found, down to a sum."""
        tried = looked = 0
        total = sum(abs(found[x]) for x in steering)
        most = min(MOST_BELOW, MOST_BELOW_TOTAL // max(total, 1))
        while total > low:
            total -= 1
            for values in self.of_sum(total, steering, found):
                looked += 1
                if tried >= most or looked >= MOST_LOOKED:
                    return found
                if values is None:
                    continue
                tried += 1
                if self.check(values) is Verdict.REFUTED:
                    found = values
                    break
        return found

    def of_sum(
        self, total: int, steering: list[str], found: dict[str, int] | None
    ) -> Iterator[dict[str, int] | None]:
        """Sizes whose steering ones, none below its lowest, have this sum; None for what a fact excludes."""
        sizes, lows = self.problem.sizes, [self.lowest(name) for name in steering]
        given = self.problem.defaults if found is None else {**self.problem.defaults, **found}
        for extra in _splits(total - sum(lows), len(steering)):
            values = {x: given.get(x, 1) for x in sizes}
            values |= {x: low + e for x, low, e in zip(steering, lows, extra, strict=True)}
            allowed = all(_true(f, {**self.problem.fixed, **values}) for f in self.problem.facts)
            yield values if allowed else None

    def lowest(self, name: str) -> int:
        """The least value that is looked at: what the facts on it alone say, else 0."""
        low = max(self.problem.sizes[name][0], 0)
        for f in self.problem.facts:
            for g in conjuncts(f):
                match g:
                    case Binary(">=", Var(x), Int(v)) if x == name:
                        low = max(low, v)
                    case Binary(">", Var(x), Int(v)) if x == name:
                        low = max(low, v + 1)
        return low


def conjuncts(f: Expr) -> Iterator[Expr]:
    """A fact taken apart at ``and``."""
    if isinstance(f, Binary) and f.op == "and":
        yield from conjuncts(f.left)
        yield from conjuncts(f.right)
    else:
        yield f


def _splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a sum of so many that are not negative."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for others in _splits(total - first, parts - 1):
            yield (first, *others)


def _equations(path: Path, space: Space) -> tuple[list[Expr], dict[str, Expr]]:
    """A path as conditions, and its sizes as expressions, over one name for each atom."""

    def written(s: Sum) -> Expr:
        out: Expr = Int(s[0])
        for a, k in s[1]:
            out = Binary("+", out, Binary("*", Int(k), Var(f"atom {a}")))
        return out

    sizes = {name: written(space.of(v)) for name, v in path.sizes.items()}
    facts: list[Expr] = [Binary(">=", written((c, p)), Int(0)) for p, c in path.cons.items()]
    work = [a for s in [*path.cons, *(space.of(v)[1] for v in path.sizes.values())] for a, _ in s]
    seen: set[int] = set()
    while work:
        a = work.pop()
        if a in seen:
            continue
        seen.add(a)
        low, high = path.interval(a)
        facts += [Binary(">=", Var(f"atom {a}"), Int(low))] if low is not None else []
        facts += [Binary("<=", Var(f"atom {a}"), Int(high))] if high is not None else []
        factors = space.atoms[a].factors
        if factors is not None:
            x, y = (written(path.resolve(0, ((f, 1),))) for f in factors)
            facts.append(Binary("==", Var(f"atom {a}"), Binary("*", x, y)))
            work += factors
    return facts, sizes


__all__ = ["Limits", "Problem", "Sized", "all_sizes", "problem_of", "prove"]
