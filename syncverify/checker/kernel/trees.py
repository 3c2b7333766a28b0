"""Case trees: how a proof splits the integers until every leaf's needs follow by a sum.

``check`` walks a tree with a growing list of premises. For every integer valuation of the premises at the
root there are values of the fresh names such that some leaf's needs hold (rule R2, docs/kernel.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from syncverify.checker.kernel.linear import RejectedError, Sum, Term, apply, equal, follows, num, var
from syncverify.checker.kernel.protocol import Protocol


@dataclass(frozen=True, slots=True)
class Split:
    """``term >= 0`` in ``yes``, ``-term - 1 >= 0`` in ``no``."""

    term: Term
    yes: Tree
    no: Tree


@dataclass(frozen=True, slots=True)
class Residues:
    """``term = w + len(kids) * name`` in ``kids[w]``: division with remainder."""

    term: Term
    name: str
    kids: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """``f(name) <= term < f(name + 1)`` and ``0 <= name < top``.

    Given ``0 <= term < f(top)`` and ``0 <= top``, which ``by`` shows: some such number exists, since f(0) =
    0.
    """

    function: str
    term: Term
    top: Term
    name: str
    by: tuple[Sum, Sum, Sum]
    kid: Tree


@dataclass(frozen=True, slots=True)
class Monotone:
    """``f(low) <= f(high)``, since ``low <= high``."""

    function: str
    low: Term
    high: Term
    by: Sum
    kid: Tree


@dataclass(frozen=True, slots=True)
class Congruent:
    """``f(a) = f(b)``, since ``a <= b`` and ``b <= a``."""

    function: str
    a: Term
    b: Term
    by: tuple[Sum, Sum]
    kid: Tree


@dataclass(frozen=True, slots=True)
class Instance:
    """A schema of the protocol at a term."""

    schema: int
    term: Term
    kid: Tree


@dataclass(frozen=True, slots=True)
class Absurd:
    """The premises contradict each other."""

    by: Sum


@dataclass(frozen=True, slots=True)
class Leaf:
    """The obligation is met by ``payload``; its needs follow, by one sum each."""

    payload: Any
    by: tuple[Sum, ...]


Tree = Split | Residues | Tile | Monotone | Congruent | Instance | Absurd | Leaf
#: What a leaf owes: the constraints that its payload needs, under the premises there and the names in scope.
Needs = Callable[[Any, list[Term], frozenset[str]], Sequence[Term]]


def check(p: Protocol, premises: list[Term], tree: Tree, needs: Needs, scope: frozenset[str]) -> None:
    """Accepts a tree for an obligation, or RejectedError.

    ``scope``: names that have a value here. A term of the proof may name no others: a name that is introduced
    later would otherwise be constrained before it exists, differently in each branch.
    """

    def below(more: Sequence[Term], kid: Tree, names: frozenset[str] = scope) -> None:
        check(p, [*premises, *more], kid, needs, names)

    match tree:
        case Leaf(payload, by_all):
            owed = needs(payload, premises, scope)
            if len(owed) != len(by_all):
                raise RejectedError("a leaf with sums for other needs")
            _all_follow(premises, owed, by_all)
        case Split(term, yes, no):
            scoped(p, scope, term)
            below([term], yes)
            below([-term - 1], no)
        case Residues(term, name, kids):
            scoped(p, scope, term)
            names = _fresh(name, scope)
            if not kids:
                raise RejectedError("no residue")
            for w, kid in enumerate(kids):
                below(equal(term, var(name) * len(kids) + w), kid, names)
        case Tile(f, term, top, name, by, kid):
            scoped(p, scope, term, top)
            names = _fresh(name, scope)
            _prefix(p, f)
            _all_follow(premises, (term, apply(f, top) - term - 1, top), by)
            v = var(name)
            below([term - apply(f, v), apply(f, v + 1) - term - 1, v, top - v - 1], kid, names)
        case Monotone(f, low, high, by_, kid):
            scoped(p, scope, low, high)
            _prefix(p, f)
            follows(premises, high - low, by_)
            below([apply(f, high) - apply(f, low)], kid)
        case Congruent(f, a, b, by_both, kid):
            scoped(p, scope, a, b)
            if f not in p.prefix and f not in p.marks:
                raise RejectedError(f"{f} is no function")
            _all_follow(premises, (b - a, a - b), by_both)
            below(equal(apply(f, a), apply(f, b)), kid)
        case Instance(schema, term, kid):
            scoped(p, scope, term)
            if not 0 <= schema < len(p.schemas):
                raise RejectedError("no such schema")
            below([p.schemas[schema].put({"x": term})], kid)
        case Absurd(by_):
            follows(premises, num(-1), by_)


def _all_follow(premises: list[Term], goals: Sequence[Term], by: Sequence[Sum]) -> None:
    for goal, shown in zip(goals, by, strict=True):
        if goal.parts or shown.multipliers or shown.divisor != 1 or goal.const < 0:
            follows(premises, goal, shown)


def scoped(p: Protocol, scope: frozenset[str], *terms: Term) -> None:
    """Terms of a proof name what has a value, and functions that are declared."""
    for t in terms:
        if t.parts.keys() <= scope:
            continue
        if not t.names() <= scope:
            raise RejectedError(f"{min(t.names() - scope)} has no value here")
        if not t.functions() <= {*p.prefix, *p.marks}:
            raise RejectedError(f"{t} names a function that is not declared")


def _fresh(name: str, scope: frozenset[str]) -> frozenset[str]:
    if not name.startswith("%") or name in scope:
        raise RejectedError(f"{name} is not fresh")
    return scope | {name}


def _prefix(p: Protocol, f: str) -> None:
    if f not in p.prefix:
        raise RejectedError(f"{f} is not known to grow")
