"""Sets of register values ``rows = c + A x`` with x limited by a path, and inclusion.

Rows are the registers of all agents at one point of the run, each a sum over the path's atoms. Two points
of one shape have the same rows. ``is_subset`` looks for a substitution of symbols that turns the earlier rows
into the later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.inequalities import Parts, Sum, combined
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.product_facts import known_symbols, residues

Rows = Sequence[Sum]


def is_subset(
    space: SymbolicContext, rows: Rows, path: PathCondition, later: Rows, there: PathCondition
) -> bool:
    """Whether every value of the later rows is one of the earlier rows."""
    for begun in _substitutions(rows, later):
        found = _complete_substitution(space, begun, there)
        if found is None or not all(_holds(found, s, there) for s in known_symbols(path, found.keys())):
            continue
        if all(_divides(found, s, m, there) for s, m in residues(path, found.keys())):
            return True
    return False


def _divides(found: dict[int, Sum], s: Sum, m: int, there: PathCondition) -> bool:
    value = apply_substitution(there.space, found, s)
    if value is None:
        return False
    c, parts = there.resolve(*value)
    return c % m == 0 and all(k % m == 0 for _, k in parts)


def _holds(found: dict[int, Sum], s: Sum, there: PathCondition) -> bool:
    value = apply_substitution(there.space, found, s)
    return value is not None and there.implies(*there.resolve(*value))


def replaced(found: dict[int, Sum], s: Sum) -> Sum:
    """A sum with symbols replaced."""
    return combined([(1, (s[0], ())), *((k, found[a]) for a, k in s[1])])


def apply_substitution(space: SymbolicContext, found: dict[int, Sum], s: Sum) -> Sum | None:
    """A sum with symbols replaced, products of them by products; None if some are missing."""
    terms: list[tuple[int, Sum]] = [(1, (s[0], ()))]
    for a, k in s[1]:
        value = translated_atom(space, found, a)
        if value is None:
            return None
        terms.append((k, value))
    return combined(terms)


def translated_atom(space: SymbolicContext, found: dict[int, Sum], a: int) -> Sum | None:
    if a in found:
        return found[a]
    values = [translated_atom(space, found, f) for f in factors(space, a)]
    x, y = values or (None, None)
    return None if x is None or y is None else space.times(x, y)


def _complete_substitution(
    space: SymbolicContext, begun: dict[int, Sum], there: PathCondition
) -> dict[int, Sum] | None:
    """The substitution with the factors that products need; None if a product is not that of its factors.

    A product of which the rows show one factor needs the other: once the one is known to be a number, the
    product is written as a multiple of the other. A product of which they show no factor is like any other
    symbol: nothing that is asked of the rows tells anything of its factors.
    """
    found = dict(begun)
    checked: set[int] = set()
    while True:
        shown = [a for a in found if a not in checked and any(f in found for f in factors(space, a))]
        if not shown:
            return found
        for a in shown:
            x, y = factors(space, a)
            if x not in found:
                x, y = y, x
            if y not in found:
                ratio = _ratio(space, found[a], found[x], there)
                if ratio is None:
                    return None
                found[y] = ratio
            if _times(space, found[x], found[y], there) != there.resolve(*found[a]):
                return None
            checked.add(a)


def factors(space: SymbolicContext, a: int) -> tuple[int, ...]:
    return space.symbols[a].factors or ()


def _times(space: SymbolicContext, x: Sum, y: Sum, path: PathCondition) -> Sum:
    before, space.path = space.path, path
    try:
        return space.of(space.term(*path.resolve(*x)) * space.term(*path.resolve(*y)))
    finally:
        space.path = before


def _ratio(space: SymbolicContext, p: Sum, x: Sum, path: PathCondition) -> Sum | None:
    """A sum whose product with x is p, if one is seen: a multiple of a number, of x, or of a factor in p."""
    (c, parts), x = path.resolve(*p), path.resolve(*x)
    if not x[1]:
        k = x[0]
        even = k and c % k == 0 and all(j % k == 0 for _, j in parts)
        return (c // k, tuple((a, j // k) for a, j in parts)) if even else None
    for b, k in x[1]:
        for a, j in parts:
            pair = factors(space, a)
            if j % k == 0 and b in pair:
                other = pair[pair[0] == b]
                ratio = path.resolve(0, ((other, j // k),))
            elif j % k == 0 and a == b:
                ratio = (j // k, ())
            else:
                continue
            if _times(space, x, ratio, path) == (c, parts):
                return ratio
    return (0, ()) if (c, parts) == (0, ()) else None


def substitution(rows: Rows, later: Rows) -> dict[int, Sum] | None:
    """Symbols of the rows in terms of symbols of the later ones; None if there is no such
    whole-numbered way.
    """
    return next(_substitutions(rows, later), None)


def _substitutions(rows: Rows, later: Rows) -> Iterator[dict[int, Sum]]:
    """As ``substitution``: where symbols that both have stay themselves, then another."""
    both = {a for _, parts in rows for a, _ in parts} & {a for _, parts in later for a, _ in parts}
    for same in (both, set()) if both else (both,):
        found = _solved(rows, later, {a: (0, ((a, 1),)) for a in same})
        if found is not None and all(replaced(found, r) == s for r, s in set(zip(rows, later, strict=True))):
            yield found


def _solved(rows: Rows, later: Rows, found: dict[int, Sum]) -> dict[int, Sum] | None:
    """The substitution that completes ``found``, which has some of the symbols; None if there is none."""
    work: dict[Parts, Sum] = {}
    for (c, parts), s in zip(rows, later, strict=True):
        rest = (s[0] - c, s[1])
        if work.setdefault(parts, rest) != rest:
            return None
    if work.pop((), (0, ())) != (0, ()):
        return None
    while work:
        left: dict[Parts, Sum] = {}
        progress = False
        for parts, rest in work.items():
            unknown = tuple((a, k) for a, k in parts if a not in found)
            rest = combined([(1, rest), *((-k, found[a]) for a, k in parts if a in found)])
            if len(unknown) == 1:
                ((a, k),) = unknown
                if rest[0] % k or any(j % k for _, j in rest[1]):
                    return None
                found[a] = rest[0] // k, tuple((b, j // k) for b, j in rest[1])
                progress = True
            elif not unknown:
                if rest != (0, ()):
                    return None
            else:
                left[unknown] = rest
        if left and not progress:
            eliminated = _eliminate(left)
            if eliminated is None:
                return None
            left = eliminated
        work = left
    return found


def _eliminate(equations: dict[Parts, Sum]) -> dict[Parts, Sum] | None:
    """One symbol eliminated from all equations but one, which waits for the others; None if they differ."""
    items = sorted(equations.items(), key=lambda e: (len(e[0]), min(abs(k) for _, k in e[0])))
    first, value = items[0]
    a, k = min(first, key=lambda p: abs(p[1]))
    if len(items) > 1 and not any(a == b for parts, _ in items[1:] for b, _ in parts):
        # nothing else speaks of it: another of the equation may be anything, so take 0
        free = next(b for b, _ in first if b != a)
        return {**equations, ((free, 1),): (0, ())}
    if len(items) == 1:
        # one equation with several unknowns: all but one may be anything, so take 0
        rest: dict[Parts, Sum] = {((b, 1),): (0, ()) for b, _ in first if b != a}
        return {((a, k),): value, **rest}
    out: dict[Parts, Sum] = {}
    for parts, right in items[1:]:
        j = dict(parts).get(a, 0)
        _, new = combined([(k, (0, parts)), (-j, (0, first))])
        rhs = combined([(k, right), (-j, value)])
        if out.setdefault(new, rhs) != rhs:
            return None
    out[first] = value
    return out


__all__ = [
    "Rows",
    "apply_substitution",
    "factors",
    "is_subset",
    "replaced",
    "substitution",
    "translated_atom",
]
