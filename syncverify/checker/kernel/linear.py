"""Linear terms over the integers, and sums with multipliers that show one inequality from others.

A *constraint* is a term that is at least 0. Nothing here searches: whoever claims that a constraint
follows names the multipliers, and ``follows`` adds them up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple


class RejectedError(Exception):
    """A proof is not accepted. The message says what does not hold."""


class Apply(NamedTuple):
    """An integer function applied to a term. Two applications are one atom iff their terms are equal."""

    function: str
    argument: Term


#: What a coefficient multiplies: a name (a parameter or a counter), or the value of a function.
Atom = str | Apply


class Term:
    """``const + sum(coefficient * atom)``; no coefficient is 0. Immutable."""

    __slots__ = ("_hash", "const", "parts")
    parts: dict[Atom, int]
    const: int

    def __init__(self, parts: dict[Atom, int] | None = None, const: int = 0) -> None:
        self.parts = parts or {}
        self.const = const
        self._hash: int | None = None

    def plus(self, other: Term, k: int) -> Term:
        """This term and ``k`` times another."""
        parts = dict(self.parts)
        for atom, c in other.parts.items():
            parts[atom] = parts.get(atom, 0) + c * k
        return Term(_nonzero(parts), self.const + other.const * k)

    def __add__(self, other: Term | int) -> Term:
        return Term(self.parts, self.const + other) if isinstance(other, int) else self.plus(other, 1)

    def __sub__(self, other: Term | int) -> Term:
        if other is self:
            return ZERO
        return Term(self.parts, self.const - other) if isinstance(other, int) else self.plus(other, -1)

    def __mul__(self, k: int) -> Term:
        return Term({a: c * k for a, c in self.parts.items()} if k else None, self.const * k)

    def __neg__(self) -> Term:
        return self * -1 if self is not ZERO else self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Term) and self.const == other.const and self.parts == other.parts

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.parts.items()), self.const))
        return self._hash

    def put(self, values: Mapping[str, Term]) -> Term:
        """The term with names replaced by terms, in arguments of functions too."""
        parts: dict[Atom, int] = {}
        const, same = self.const, True
        for atom, k in self.parts.items():
            if isinstance(atom, Apply):
                argument = atom.argument.put(values)
                if argument is not atom.argument:
                    atom, same = Apply(atom.function, argument), False
            elif atom in values:
                put, same = values[atom], False
                const += put.const * k
                for a, c in put.parts.items():
                    parts[a] = parts.get(a, 0) + c * k
                continue
            parts[atom] = parts.get(atom, 0) + k
        return self if same else Term(_nonzero(parts), const)

    def names(self) -> set[str]:
        """All names in the term, those inside arguments of functions included."""
        return {x for a in self.parts for x in (a.argument.names() if isinstance(a, Apply) else (a,))}

    def functions(self) -> set[str]:
        return {f for a in self.parts if isinstance(a, Apply) for f in (a.function, *a.argument.functions())}

    def __str__(self) -> str:
        ordered = sorted(self.parts.items(), key=lambda p: (p[1] < 0, str(p[0])))
        shown = "".join(_shown(k, a) for a, k in ordered)
        if not shown:
            return str(self.const)
        tail = f" {'+' if self.const > 0 else '-'} {abs(self.const)}" if self.const else ""
        return shown.removeprefix(" + ").strip() + tail

    __repr__ = __str__


def _nonzero(parts: dict[Atom, int]) -> dict[Atom, int]:
    return parts if all(parts.values()) else {a: k for a, k in parts.items() if k}


def _shown(k: int, atom: Atom) -> str:
    name = f"{atom.function}({atom.argument})" if isinstance(atom, Apply) else atom
    return f" {'+' if k > 0 else '-'} {'' if abs(k) == 1 else f'{abs(k)}*'}{name}"


def var(name: str) -> Term:
    return Term({name: 1})


@lru_cache(4096, typed=True)
def num(value: int) -> Term:
    return Term(None, value)


def apply(function: str, argument: Term) -> Term:
    return Term({Apply(function, argument): 1})


ZERO = num(0)


def equal(a: Term, b: Term) -> list[Term]:
    """The two constraints that make two terms equal."""
    apart = a - b
    return [apart, -apart]


@dataclass(frozen=True, slots=True)
class Sum:
    """A claim that ``goal >= 0`` follows: ``divisor * goal`` less the sum of ``m * premise[i]`` is a number.

    That number must be at least ``1 - divisor``. Then ``divisor * goal > -divisor``, hence ``goal > -1``, and
    an integer above -1 is at least 0.
    """

    divisor: int
    multipliers: tuple[tuple[int, int], ...]  # (number of the premise, how often it is added)


def follows(premises: Sequence[Term], goal: Term, by: Sum) -> None:
    """Accepts that the goal follows from the premises for all integers (rule R1), or RejectedError."""
    if type(by.divisor) is not int or by.divisor < 1:
        raise RejectedError("a sum's divisor is not positive")
    parts, const = goal.parts, goal.const
    if by.multipliers or by.divisor != 1:
        parts, const = {a: k * by.divisor for a, k in parts.items()}, const * by.divisor
    for i, m in by.multipliers:
        if type(i) is not int or type(m) is not int or m < 0 or not 0 <= i < len(premises):
            raise RejectedError("a sum's multiplier is negative, or of no premise")
        const -= premises[i].const * m
        for a, k in premises[i].parts.items():
            parts[a] = parts.get(a, 0) - k * m
    if (parts and any(parts.values())) or const < 1 - by.divisor:
        raise RejectedError(f"{goal} >= 0 does not follow")


def lexicographic(low: Sequence[Term], high: Sequence[Term], level: int) -> Iterator[Term]:
    """Constraints that put ``low`` before ``high`` in lexicographic order, decided at ``level`` at the
    latest.
    """
    if not 0 <= level < min(len(low), len(high)):
        raise RejectedError("no such level of an order")
    yield from (ZERO if a is b else b - a for a, b in zip(low[:level], high[:level], strict=True))
    yield high[level] - low[level] - 1
