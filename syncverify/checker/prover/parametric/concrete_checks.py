"""What a proof for every size takes to numbers: exact checks, smallest sizes, those that a path allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from syncverify.base.diagnostics import Verdict
from syncverify.base.source import InputError
from syncverify.ir import solver
from syncverify.ir.expr import Binary, Call, Expr, Int, Var, evaluate
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.inequalities import Sum
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.protocol import SymbolicSystem

#: Exact checks of small sizes, where nothing else was decided or a smaller refutation is looked for.
MOST_SMALL = 120
#: Those of them that are made while an exploration goes on.
MOST_EARLY = 30
#: Sizes that are looked at for them, most of which some fact may exclude.
MOST_ENUMERATED = 4_000
#: Exact checks of sizes just below those that a refutation was found for, and the sum of their sizes.
MOST_BELOW, MOST_BELOW_TOTAL = 60, 6_000
#: Begins the keys of quotients that paths know by what was asked of them only: how often loops turn.
TURNS = "turns "
#: Numbers that are tried for one failing run.
MOST_TRIED = 3


#: The least and the greatest value of each size; None: there is none.
Ranges = Mapping[str, tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel whose sizes have no number, whatever front end it came from.

    ``sizes``: the open ones, with their type's range. ``facts``: conditions over them and over nothing else.
    ``systems``: the systems that together represent every launch, given what represents each size (an int or
    a ``Term``) and the space that the terms live in; they may be asked for more than once. ``exact``: the
    verdict for numbers; it has the last word on every refutation. ``defaults``: numbers for sizes that do not
    matter. ``fixed``: what else ``exact`` is given. ``modular_systems``: systems of single clusters, where
    block groups of several share global memory.
    """

    sizes: Ranges
    facts: tuple[Expr, ...]
    systems: Callable[[Mapping[str, Any], SymbolicContext], Iterable[SymbolicSystem]]
    exact: Callable[[Mapping[str, int]], Verdict]
    defaults: Mapping[str, int] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)
    modular_systems: Callable[[Mapping[str, Any], SymbolicContext], Iterable[SymbolicSystem]] | None = None


def true_of(f: Expr, values: Mapping[str, int]) -> bool:
    """Whether a fact is true of some values, and says something of them."""
    try:
        return bool(evaluate(f, values))
    except (KeyError, ZeroDivisionError):
        return False


def total_of(values: Mapping[str, int]) -> int:
    return sum(map(abs, values.values()))


@dataclass(slots=True)
class ConcreteChecks:
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

    def proved(self, values: Mapping[str, int]) -> bool:
        """Whether there is such a launch, and it is proved."""
        try:
            return self.problem.exact({**self.problem.fixed, **values}) is Verdict.PROVED
        except InputError:
            return False

    def models_of_path(
        self, path: PathCondition, space: SymbolicContext, below: int | None = None
    ) -> Iterator[dict[str, int]]:
        """Small sizes that a path allows, of a total ``below`` that if it is given."""
        self.asked |= space.branched_sizes
        facts, sizes = _equations(path, space)
        facts += [*self.problem.facts]
        facts += [Binary("==", Var(k), Int(v)) for k, v in self.problem.fixed.items()]
        facts += [Binary("==", Var(name), s) for name, s in sizes.items()]
        facts += self.ranges()
        if below is not None:
            facts.append(Binary("<", self.total(), Int(below)))
        for _ in range(MOST_TRIED):
            values = self.least(facts, hard=below is None)
            if values is None:
                return
            yield values
            same: Expr = Int(1)
            for name, v in values.items():
                same = Binary("and", same, Binary("==", Var(name), Int(v)))
            facts.append(Binary("==", same, Int(0)))

    def ranges(self) -> list[Expr]:
        """That each size is in the range of its type."""
        facts: list[Expr] = []
        for name, (low, high) in self.problem.sizes.items():
            facts.append(Binary(">=", Var(name), Int(low)))
            facts += [] if high is None else [Binary("<=", Var(name), Int(high))]
        return facts

    def is_least(self, total: int) -> bool:
        """Whether it is known that no sizes that a launch may have are of a smaller total."""
        fixed = [Binary("==", Var(k), Int(v)) for k, v in self.problem.fixed.items()]
        less = Binary("<", self.total(), Int(total))
        return solver.satisfiable([*self.problem.facts, *fixed, *self.ranges(), less]) is False

    def total(self) -> Expr:
        total: Expr = Int(0)
        for name in self.problem.sizes:
            total = Binary("+", total, Call("abs", (Var(name),)))
        return total

    def least(self, facts: list[Expr], hard: bool) -> dict[str, int] | None:
        """Values of the sizes that keep the facts, their sum as small as is found; ``hard``: more is taken
        where the facts are too hard."""
        names_, total = list(self.problem.sizes), self.total()
        ways = _easier(facts) if hard else iter([()])
        tries = ((m, [*facts, *more]) for more in ways if (m := solver.model([*facts, *more])))
        best, facts = next(tries, (None, facts))
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

    def smallest_refutation(
        self, found: dict[str, int] | None, most: int = MOST_SMALL
    ) -> dict[str, int] | None:
        """Sizes that the exact check refutes; those found, if none of the few that are tried are smaller: the
        first of all, and those just below what is found."""
        steering = sorted(self.asked & set(self.problem.sizes)) or sorted(self.problem.sizes)
        low = sum(map(self.lowest, steering))
        last = low + 65 if found is None else min(low + 65, sum(abs(found[x]) for x in steering))
        tried = enumerated = 0
        total = low
        while total < last and tried < most and enumerated < MOST_ENUMERATED:
            for values in self.of_sum(total, steering, found):
                enumerated += 1
                if values is None:
                    continue
                tried += 1
                if self.check(values) is Verdict.REFUTED:
                    return values
                if tried >= most or enumerated >= MOST_ENUMERATED:
                    break
            total += 1
        return found if found is None else self.shrink(found, steering, total)

    def negative_sizes(self) -> dict[str, int] | None:
        """Small sizes, some of them negative, that the exact check refutes."""
        steering = sorted(self.asked & set(self.problem.sizes)) or sorted(self.problem.sizes)
        tried = enumerated = 0
        for total in range(1, MOST_EARLY):
            for amounts in _splits(total, len(steering)):
                for signs in product(*((-1, 1) if n else (1,) for n in amounts)):
                    enumerated += 1
                    if tried >= MOST_EARLY or enumerated >= MOST_ENUMERATED:
                        return None
                    chosen = {x: n * sign for x, n, sign in zip(steering, amounts, signs, strict=True)}
                    values = {x: self.problem.defaults.get(x, 1) for x in self.problem.sizes} | chosen
                    if min(signs) > 0 or not all(
                        true_of(f, {**self.problem.fixed, **values}) for f in self.problem.facts
                    ):
                        continue
                    tried += 1
                    if self.check(values) is Verdict.REFUTED:
                        return values
        return None

    def shrink(self, found: dict[str, int], steering: list[str], low: int) -> dict[str, int]:
        """The smallest sizes among those just below what is found, down to a sum."""
        tried = enumerated = 0
        total = sum(abs(found[x]) for x in steering)
        most = min(MOST_BELOW, MOST_BELOW_TOTAL // max(total, 1))
        while total > low:
            total -= 1
            for values in self.of_sum(total, steering, found):
                enumerated += 1
                if tried >= most or enumerated >= MOST_ENUMERATED:
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
            allowed = all(true_of(f, {**self.problem.fixed, **values}) for f in self.problem.facts)
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


def _easier(facts: list[Expr]) -> Iterator[tuple[Expr, ...]]:
    """What may be taken besides where the facts are too hard: small numbers for a factor of products."""
    yield ()
    factors = [x for f in facts for x in _multiplied(f)]
    for x in dict.fromkeys(factors):
        yield from ((Binary("==", x, Int(v)),) for v in range(1, MOST_TRIED))


def _multiplied(f: Expr) -> tuple[Expr, ...]:
    """The factors, where a fact says what a product is."""
    if isinstance(f, Binary) and f.op == "==" and isinstance(f.right, Binary) and f.right.op == "*":
        return f.right.left, f.right.right
    return ()


def _equations(path: PathCondition, space: SymbolicContext) -> tuple[list[Expr], dict[str, Expr]]:
    """A path as conditions, and its sizes as expressions, over one name for each atom."""

    def written(s: Sum) -> Expr:
        out: Expr = Int(s[0])
        for a, k in s[1]:
            out = Binary("+", out, Binary("*", Int(k), Var(f"atom {a}")))
        return out

    sizes = {name: written(space.of(v)) for name, v in path.sizes.items()}
    facts: list[Expr] = [Binary(">=", written((c, p)), Int(0)) for p, c in path.inequalities.items()]
    terms = [*path.sizes.values()]
    for key, q in path.memo.items():
        if key[0] == TURNS:
            x, m, q = key[1], key[2], space.resolved(q)
            facts += [Binary(">=", written(space.of(s)), Int(0)) for s in (x - q * m, q * m + m - 1 - x)]
            terms += [x, m, q, q * m]
    work = [a for s in [*path.inequalities, *(space.of(v)[1] for v in terms)] for a, _ in s]
    seen: set[int] = set()
    while work:
        a = work.pop()
        if a in seen:
            continue
        seen.add(a)
        low, high = path.interval(a)
        facts += [Binary(">=", Var(f"atom {a}"), Int(low))] if low is not None else []
        facts += [Binary("<=", Var(f"atom {a}"), Int(high))] if high is not None else []
        factors = space.symbols[a].factors
        if factors is not None:
            x, y = (written(path.resolve(0, ((f, 1),))) for f in factors)
            facts.append(Binary("==", Var(f"atom {a}"), Binary("*", x, y)))
            work += factors
    return facts, sizes


__all__ = ["MOST_EARLY", "ConcreteChecks", "Problem", "total_of", "true_of"]
