"""Sums over symbols and inequalities between them: combined, bounded, and eliminated (Fourier, Motzkin).

A sum ``c + sum(k * atom)`` is a number and ``parts``, sorted pairs (symbol, k). Inequalities are kept as
``parts -> the least c with c + parts >= 0``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import gcd

Parts = tuple[tuple[int, int], ...]
Sum = tuple[int, Parts]
Interval = tuple[int | None, int | None]  # no bound: None

#: Inequalities that one elimination may come to.
MOST_INEQUALITIES = 300
#: Eliminations whose outcome is remembered: paths that part go on knowing nearly the same.
REMEMBERED = 2048


def reduced(*ks: int) -> int:
    """The greatest common divisor."""
    return gcd(*ks)


def primitive(c: int, parts: Parts) -> Sum:
    """``sum >= 0`` divided by what its coefficients share; the number rounded down, as integers allow."""
    for _, k in parts:
        if k == 1 or k == -1:
            return c, parts
    g = gcd(*[k for _, k in parts])
    return (c, parts) if g <= 1 else (c // g, tuple([(a, k // g) for a, k in parts]))


def negated(parts: Parts) -> Parts:
    return tuple([(a, -k) for a, k in parts])


def combined(terms: Iterable[tuple[int, Sum]]) -> Sum:
    """A linear combination of sums."""
    total = 0
    out: dict[int, int] = {}
    for factor, (c, parts) in terms:
        total += factor * c
        for a, k in parts:
            out[a] = out.get(a, 0) + factor * k
    return total, tuple(sorted([x for x in out.items() if x[1]]))


@lru_cache(REMEMBERED)
def product_bounds(x: Interval, y: Interval) -> Interval:
    """Bounds of a product; no bound on one side is None there."""
    most = _greatest(x, y)
    least = _greatest(x, (None if y[1] is None else -y[1], None if y[0] is None else -y[0]))
    return None if least is None else -least, most


def _greatest(x: Interval, y: Interval) -> int | None:
    """The greatest product: at two ends, each as far as it goes if the other has its sign."""
    out = []
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        a, b = x[i], y[j]
        if a is not None and b is not None:
            out.append(a * b)
        elif a is None and b is None:
            if i == j:
                return None
        elif b is None:
            if _same_sign(a, j):
                return None
        elif _same_sign(b, i):
            return None
    return max(out, default=0)


def _same_sign(end: int | None, side: int) -> bool:
    """Whether a number times what has no bound on a side (0: below, 1: above) has none above."""
    return end is not None and (end < 0 if side == 0 else end > 0)


def replaced(s: Sum, atom: int, value: Sum) -> Sum:
    return combined(
        [(1, (s[0], tuple(p for p in s[1] if p[0] != atom))), *((k, value) for a, k in s[1] if a == atom)]
    )


def add(work: dict[Parts, int], c: int, parts: Parts) -> bool:
    """Adds an inequality; true if it cannot hold."""
    if not parts:
        return c < 0
    c, parts = primitive(c, parts)
    known = work.get(parts)
    if known is None or c < known:
        work[parts] = c
        opposite = work.get(negated(parts))
        return opposite is not None and c + opposite < 0
    return False


def eliminated(work: dict[Parts, int], atoms: set[int]) -> bool:
    """Whether inequalities contradict each other, by eliminating symbol after symbol (Fourier, Motzkin)."""
    known = work.get
    for p, c in work.items():
        opposite = known(negated(p))
        if opposite is not None and c + opposite < 0:
            return True
    return _left(frozenset(work.items()), frozenset(atoms), MOST_INEQUALITIES)[0]


def left(work: dict[Parts, int], atoms: set[int], most: int) -> tuple[bool, dict[Parts, int]]:
    """What is left once symbols are eliminated, the cheapest first, or until there are more inequalities than
    ``most``; and whether they contradict each other."""
    wrong, found = _left(frozenset(work.items()), frozenset(atoms), most)
    return wrong, dict(found)


@lru_cache(REMEMBERED)
def _left(
    inequalities: frozenset[tuple[Parts, int]], eliminate: frozenset[int], most: int
) -> tuple[bool, dict[Parts, int]]:
    work, atoms = dict(inequalities), set(eliminate)
    while atoms:
        sides: dict[int, list[int]] = {a: [0, 0] for a in atoms}
        for p in work:
            for a, k in p:
                if a in sides:
                    sides[a][k > 0] += 1
        a = min(atoms, key=lambda x: (sides[x][0] * sides[x][1], x))
        atoms.discard(a)
        wrong, work = without(work, a)
        if wrong:
            return True, work
        if len(work) > most:
            break
    return False, work


def without(work: dict[Parts, int], a: int) -> tuple[bool, dict[Parts, int]]:
    """The inequalities that follow for the other symbols; and whether they cannot hold."""
    above: list[tuple[int, Sum]] = []
    below: list[tuple[int, Sum]] = []
    out: dict[Parts, int] = {}
    for p, c in work.items():
        for b, k in p:
            if b == a:
                (above if k > 0 else below).append((k, (c, p)))
                break
        else:
            out[p] = c
    for k, upper in above:
        for j, lower in below:
            if add(out, *_both(-j, upper, k, lower)):
                return True, out
    return False, out


def _both(f: int, x: Sum, g: int, y: Sum) -> Sum:
    """``combined`` of two sums, with factors that are not 0."""
    out = {a: f * k for a, k in x[1]}
    for a, k in y[1]:
        both = out.get(a, 0) + g * k
        if both:
            out[a] = both
        else:
            del out[a]
    return f * x[0] + g * y[0], tuple(sorted(out.items()))
