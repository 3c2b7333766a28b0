"""Linear integer forms over a kernel's parameters and one loop counter, and what follows from them.

A *constraint* is a form that is at least 0. ``entails`` asks whether a disjunction of conjunctions of
constraints follows from others: by combination where that is enough, else by z3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncverify.ir import solver
from syncverify.ir.expr import Binary, Expr, Int, Unary, Var
from syncverify.ir.text.printed_expressions import print_expr

#: z3 resource units of one question.
RLIMIT = 4_000_000


class OutsideError(Exception):
    """The kernel is not of the class that this package analyses; the message says why."""


@dataclass(frozen=True, slots=True)
class Lin:
    """``const`` plus the sum of ``coefficient * name``; names sorted, no coefficient is 0."""

    terms: tuple[tuple[str, int], ...] = ()
    const: int = 0

    def __add__(self, o: Lin | int) -> Lin:
        if isinstance(o, int):
            return Lin(self.terms, self.const + o)
        found = dict(self.terms)
        for name, k in o.terms:
            found[name] = found.get(name, 0) + k
        return _lin(found, self.const + o.const)

    def __sub__(self, o: Lin | int) -> Lin:
        return self + (-o if isinstance(o, int) else o.scaled(-1))

    def scaled(self, k: int) -> Lin:
        return _lin({n: c * k for n, c in self.terms}, self.const * k)

    def coefficient(self, name: str) -> int:
        return dict(self.terms).get(name, 0)

    def put(self, values: Mapping[str, Lin]) -> Lin:
        """The form with names replaced by forms."""
        out = Lin((), self.const)
        for n, k in self.terms:
            out = out + (values[n].scaled(k) if n in values else Lin(((n, k),)))
        return out

    def at(self, values: Mapping[str, int]) -> int:
        return self.const + sum(k * values[n] for n, k in self.terms)

    def names(self) -> frozenset[str]:
        return frozenset(n for n, _ in self.terms)

    def expr(self) -> Expr:
        return _joined("+", [Binary("*", Int(k), Var(n)) for n, k in self.terms], Int(self.const))

    def __str__(self) -> str:
        return " + ".join([*(f"{k}*{n}" for n, k in self.terms), str(self.const)])


def _lin(terms: Mapping[str, int], const: int) -> Lin:
    return Lin(tuple(sorted((n, k) for n, k in terms.items() if k)), const)


def var(name: str) -> Lin:
    return Lin(((name, 1),))


def num(value: int) -> Lin:
    return Lin((), value)


def linear(e: Expr, opaque: Callable[[Expr], bool] | None = None) -> Lin:
    """An expression as a form. What is not linear is a name of its own where ``opaque`` allows."""
    match e:
        case Int(v):
            return num(v)
        case Var(n):
            return var(n)
        case Unary("-", a):
            return linear(a, opaque).scaled(-1)
        case Binary("+", a, b):
            return linear(a, opaque) + linear(b, opaque)
        case Binary("-", a, b):
            return linear(a, opaque) - linear(b, opaque)
        case Binary("*", a, b):
            x, y = linear(a, opaque), linear(b, opaque)
            if not x.terms:
                return y.scaled(x.const)
            if not y.terms:
                return x.scaled(y.const)
    if opaque is not None and opaque(e):
        return var(f"<{print_expr(e)}>")
    raise OutsideError(f"{print_expr(e)} is not linear")


def comparison(e: Expr, opaque: Callable[[Expr], bool] | None = None) -> tuple[Lin, ...] | None:
    """A condition as constraints that all hold; None if it is not a conjunction of linear comparisons."""
    match e:
        case Int(v):
            return () if v else (num(-1),)
        case Binary("and", a, b):
            x, y = comparison(a, opaque), comparison(b, opaque)
            return None if x is None or y is None else x + y
        case Binary("<" | "<=" | ">" | ">=" | "==" as op, a, b):
            try:
                d = linear(b, opaque) - linear(a, opaque)
            except OutsideError:
                return None
            return {
                "<": (d - 1,),
                "<=": (d,),
                ">": (d.scaled(-1) - 1,),
                ">=": (d.scaled(-1),),
                "==": (d, d.scaled(-1)),
            }[op]
        case Unary("not", Binary(op, a, b)) if op in _NOT:
            return comparison(Binary(_NOT[op], a, b), opaque)
        case Unary("not", Binary("or", a, b)):
            return comparison(Binary("and", Unary("not", a), Unary("not", b)), opaque)
        case Unary("not", Unary("not", a)):
            return comparison(a, opaque)
    return None


_NOT = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "=="}


@dataclass(slots=True)
class Facts:
    """What holds of the parameters, and the answers found so far; ``questions`` went to z3."""

    always: tuple[Lin, ...]
    questions: int = 0
    _known: dict[object, bool] = field(default_factory=dict)

    def entails(self, given: Iterable[Lin], cases: Sequence[tuple[Lin, ...]]) -> bool:
        """Whether under ``given`` all constraints of some case hold, for all integers."""
        hyps = tuple(dict.fromkeys((*self.always, *given)))
        wanted = [tuple(g for g in dict.fromkeys(case) if not _combined(g, hyps)) for case in cases]
        if any(not case for case in wanted):
            return True
        key = (frozenset(hyps), frozenset(frozenset(c) for c in wanted))
        if key not in self._known:
            self._known[key] = self.holds(_disjunction([conjunction(case) for case in wanted]), given)
        return self._known[key]

    def holds(self, claim: Expr, given: Iterable[Lin] = ()) -> bool:
        """Whether a condition follows from the constraints, for all integers."""
        hyps = tuple(dict.fromkeys((*self.always, *given)))
        key = (claim, frozenset(hyps))
        if key not in self._known:
            self.questions += 1
            self._known[key] = solver.prove(claim, [h.expr() >= 0 for h in hyps], rlimit=RLIMIT) is True
        return self._known[key]

    def impossible(self, given: Iterable[Lin]) -> bool:
        """Whether no integers meet the constraints."""
        return self.entails(given, [(num(-1),)])

    def counterexample(self, given: Iterable[Lin], cases: Sequence[tuple[Lin, ...]]) -> dict[str, int] | None:
        """Values that meet ``given`` and no case, if some are found."""
        hyps = [h.expr() >= 0 for h in (*self.always, *given)]
        claim = _disjunction([conjunction(case) for case in cases])
        found = solver.counterexample(claim, hyps, rlimit=RLIMIT)
        return None if found is None else dict(found)


def _combined(goal: Lin, hyps: Sequence[Lin]) -> bool:
    """Whether the goal is a multiple of one hypothesis, plus perhaps another, plus a number not negative."""
    if not goal.terms:
        return goal.const >= 0
    by_terms: dict[tuple[tuple[str, int], ...], int] = {}
    for h in hyps:
        by_terms[h.terms] = min(h.const, by_terms.get(h.terms, h.const))
    if goal.terms in by_terms and goal.const >= by_terms[goal.terms]:
        return True
    for h in hyps:
        if not h.terms:
            continue
        name, k = h.terms[0]
        times = goal.coefficient(name) // k
        for factor in {times, 1} if times > 0 else {1}:
            rest = goal - h.scaled(factor)
            if rest.const >= (by_terms.get(rest.terms, rest.const + 1) if rest.terms else 0):
                return True
    return False


def conjunction(case: Sequence[Lin]) -> Expr:
    return _joined("and", [c.expr() >= 0 for c in case], Int(1))


def _disjunction(cases: Sequence[Expr]) -> Expr:
    return _joined("or", cases, Int(0))


def _joined(op: str, parts: Sequence[Expr], start: Expr) -> Expr:
    for part in parts:
        start = Binary(op, start, part)
    return start


def plain_form(f: Lin) -> dict[str, int]:
    """A form as plain data."""
    return {"": f.const, **dict(f.terms)}


def form(data: Mapping[str, Any]) -> Lin:
    """The form that plain data is; ValueError for what is none."""
    total = num(0)
    for name, k in data.items():
        total = total + (var(name).scaled(integer(k)) if name else num(integer(k)))
    return total


def integer(x: Any) -> int:
    """A whole number of plain data; ValueError for what is none."""
    if type(x) is not int:
        raise ValueError(f"{x!r} is no integer")
    return x
