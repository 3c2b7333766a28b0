"""Rows of registers as certificates write them, and the test that one set of them includes another.

Symbols have no numbers of their own there: the rows of a point name them, in the order in which they appear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from syncverify.base.certificate_data import RejectedError, digest, listed, number
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.inequalities import Parts, Sum, combined
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.product_facts import known_symbols, residues


def order(rows: Iterable[Sum]) -> list[int]:
    """The symbols of rows, in the order of their appearance."""
    return list(dict.fromkeys(a for _, parts in rows for a, _ in parts))


def plain(s: Sum, atoms: Sequence[int]) -> list[Any]:
    """A sum over symbols as ``[number, [atom, factor], ...]``."""
    at = {a: i for i, a in enumerate(atoms)}
    return [s[0], *(list(p) for p in sorted((at[a], k) for a, k in s[1]))]


def read(data: Any, atoms: Sequence[int], where: str) -> Sum:
    """What ``plain`` wrote."""
    c, *pairs = listed(data, where) or [None]
    parts: dict[int, int] = {}
    last = -1
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise RejectedError(where, "not a sum")
        i, k = number(pair[0], where, 0), number(pair[1], where)
        if not last < i < len(atoms) or atoms[i] in parts or not k:
            raise RejectedError(where, "not a sum of these atoms, in order")
        last = i
        parts[atoms[i]] = k
    return number(c, where), tuple(sorted(parts.items()))


def replaced(found: dict[int, Sum], s: Sum) -> Sum:
    """A sum with all its symbols replaced."""
    return combined([(1, (s[0], ())), *((k, found[a]) for a, k in s[1])])


def question(space: SymbolicContext, s: Sum) -> str:
    """A question as text; unknowns without a name of their own are numbered as they appear."""
    seen: dict[str, str] = {}

    def renamed(m: re.Match[str]) -> str:
        return seen.setdefault(m[0], f"u{len(seen)}")

    return re.sub(r"\bu\d+\b", renamed, space.text(*s)) + " >= 0"


def state(rows: Sequence[Sum], path: PathCondition) -> str:
    """A short hash of registers and of all that is known of them."""
    names = order(rows)
    more = order((0, p) for p in path.inequalities)
    atoms = [*names, *(a for a in more if a not in names)]
    known = sorted(plain((c, p), atoms) for p, c in path.inequalities.items())
    return digest([[plain(r, atoms) for r in rows], known, [path.interval(a) for a in names]])[:16]


def products(space: SymbolicContext, made: Sequence[int], names: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Which of some symbols are products of others of them, or of those with names; and of which."""
    out: dict[int, tuple[int, int]] = {}
    whole = [a for a in made if space.symbols[a].factors is None]
    for a in made:
        factors = space.symbols[a].factors
        if factors is not None and all(f in whole or f in names or f in out for f in factors):
            out[a] = factors
    return out


def needed(space: SymbolicContext, rows: Sequence[Sum], facts: Sequence[Sum]) -> list[Sum]:
    """The facts without which less would be known of the rows."""
    whole, kept = _effect(space, rows, facts), list(facts)
    for s in facts:
        fewer = [x for x in kept if x != s]
        if _effect(space, rows, fewer) == whole:
            kept = fewer
    return kept


def _effect(space: SymbolicContext, rows: Sequence[Sum], facts: Sequence[Sum]) -> str:
    path = PathCondition(space)
    for s in facts:
        path.assume(*s)
    resolved = [path.resolve(*r) for r in rows]
    path.eliminate({a for _, parts in resolved for a, _ in parts})
    return state(resolved, path)


def includes(
    space: SymbolicContext,
    rows: Sequence[Sum],
    path: PathCondition,
    later: Sequence[Sum],
    there: PathCondition,
    found: dict[int, Sum],
) -> str | None:
    """Why ``found`` does not show that the earlier point subsumes the later; None if it does.

    ``found``: the symbols of the earlier rows as sums of the later ones. The rows must then be equal, and all
    that the earlier path knows must follow from what the later knows. What it knows of the other factor of a
    product has to follow, too, where the rows show one factor alone.
    """
    if len(rows) != len(later):
        return "other registers are live"
    if any(replaced(found, r) != s for r, s in set(zip(rows, later, strict=True))):
        return "the substitution does not give the registers"
    whole = _with_other_factors(space, found, there)
    if whole is None:
        return "a product is not that of its factors"
    found = whole
    for s in known_symbols(path, found.keys()):
        value = _translated(space, found, s)
        if value is None or not there.implies(*there.resolve(*value)):
            return "what the other state knows does not follow"
    for s, m in residues(path, found.keys()):
        value = _translated(space, found, s)
        c, parts = (1, ()) if value is None else there.resolve(*value)
        if any(k % m for k in (c, *(k for _, k in parts))):
            return "what the other state knows does not follow"
    return None


def _translated(space: SymbolicContext, found: dict[int, Sum], s: Sum) -> Sum | None:
    """A sum with its symbols replaced; a product without a value of its own is that of its factors."""
    terms: list[tuple[int, Sum]] = [(1, (s[0], ()))]
    for a, k in s[1]:
        value = found.get(a)
        if value is None:
            values = [_translated(space, found, (0, ((f, 1),))) for f in space.symbols[a].factors or ()]
            x, y = values or (None, None)
            value = None if x is None or y is None else space.times(x, y)
        if value is None:
            return None
        terms.append((k, value))
    return combined(terms)


def _with_other_factors(
    space: SymbolicContext, found: dict[int, Sum], there: PathCondition
) -> dict[int, Sum] | None:
    """The substitution with the other factor of each product of which it has one; None if a product is not
    that of its factors."""
    out = dict(found)
    todo = list(found)
    while todo:
        a = next((a for a in todo if any(f in out for f in space.symbols[a].factors or ())), None)
        if a is None:  # a product of which nothing shows a factor is like any other symbol
            return out
        todo.remove(a)
        x, y = space.symbols[a].factors or (a, a)
        if x not in out:
            x, y = y, x
        if y not in out:
            quotients = _quotients(space, there.resolve(*out[a]), there.resolve(*out[x]))
            value = next((q for q in quotients if _is_product(space, out[a], out[x], q, there)), None)
            if value is None:
                return None
            out[y] = value
            todo.append(y)
        elif not _is_product(space, out[a], out[x], out[y], there):
            return None
    return out


def _quotients(space: SymbolicContext, p: Sum, x: Sum) -> Iterator[Sum]:
    """Sums that may give ``p`` if they are multiplied by ``x``."""
    if not x[1] and x[0]:
        yield p[0] // x[0], tuple((a, j // x[0]) for a, j in p[1])
    for b, k in x[1]:
        whole = ((space.symbols[a].factors or (-1, -1), a, j // k) for a, j in p[1])
        terms = [
            (j, (1, ()) if a == b else (0, ((pair[pair[0] == b], 1),)))
            for pair, a, j in whole
            if a == b or b in pair
        ]
        yield combined(terms)


def _is_product(space: SymbolicContext, p: Sum, x: Sum, y: Sum, there: PathCondition) -> bool:
    path, space.path = space.path, there
    first, second = (space.term(*there.resolve(*s)) for s in (x, y))
    both = space.resolved(first * second)
    space.path = path
    return bool(space.of(both) == there.resolve(*p))


__all__ = ["Parts", "includes", "order", "plain", "question", "read", "replaced"]
