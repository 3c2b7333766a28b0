"""Finds the multipliers of a sum that shows one inequality from others: Farkas by an exact simplex.

Where there are none, some rational point meets all premises. The latest such points are kept: premises that
one of them meets have no multipliers either. Nothing here is trusted: ``kernel.linear.follows`` adds up what
is found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

from syncverify.checker.kernel.linear import Atom, Sum, Term

#: Pivots by the largest coefficient; afterwards by the smallest index, which cannot cycle.
GREEDY, MOST = 60, 300
#: Points that are kept, the latest first: numerators by atom, and their denominator.
POINTS: deque[tuple[dict[Atom, int], int]] = deque(maxlen=12)


def solution(columns: Sequence[Sequence[int]], right: Sequence[int]) -> dict[int, Fraction] | None:
    """Numbers that are not negative and whose sum of columns is ``right``; None where none were found."""
    return solved(columns, right)[0]


def solved(
    columns: Sequence[Sequence[int]], right: Sequence[int]
) -> tuple[dict[int, Fraction] | None, tuple[int, ...] | None]:
    """The same, and where there is no solution the last row of costs: no column has a positive one."""
    rows, n = len(right), len(columns)
    table: list[list[int]] = []
    for r in range(rows):
        row = [c[r] for c in columns] + [right[r]]
        table.append([-x for x in row] if row[-1] < 0 else row)
    scale = [1] * rows  # row r represents table[r] / scale[r]
    goal = [sum(table[r][j] for r in range(rows)) for j in range(n + 1)]
    basis = [-1] * rows
    for turn in range(MOST):
        if goal[-1] == 0:
            break
        j = _entering(goal, n, turn)
        if j < 0:
            return None, tuple(goal)
        r = _leaving(table, basis, j)
        if r < 0:
            return None, None
        _pivot(table, scale, r, j)
        f, p = goal[j], table[r][j]
        goal = [x * p - f * y for x, y in zip(goal, table[r], strict=True)]
        g = gcd(*goal) or 1
        goal = [x // g for x in goal]
        basis[r] = j
    if goal[-1] != 0:
        return None, None
    found = {b: Fraction(table[r][-1], table[r][b]) for r, b in enumerate(basis) if b >= 0}
    return {b: x for b, x in found.items() if x}, None


def _entering(goal: Sequence[int], n: int, turn: int) -> int:
    if turn >= GREEDY:
        return next((j for j in range(n) if goal[j] > 0), -1)
    most = max(goal[:n], default=0)
    return goal.index(most) if most > 0 else -1


def _leaving(table: Sequence[Sequence[int]], basis: Sequence[int], j: int) -> int:
    best, least = -1, (0, 1)
    for r, row in enumerate(table):
        if row[j] <= 0:
            continue
        here = row[-1] * least[1]
        there = least[0] * row[j]
        if best < 0 or here < there or (here == there and basis[r] < basis[best]):
            best, least = r, (row[-1], row[j])
    return best


def _pivot(table: list[list[int]], scale: list[int], r: int, j: int) -> None:
    by = table[r]
    p = by[j]
    scale[r] = p
    for q, row in enumerate(table):
        f = row[j]
        if q == r or not f:
            continue
        new = [x * p - f * y for x, y in zip(row, by, strict=True)]
        g = gcd(*new, scale[q] * p)
        table[q] = new if g == 1 else [x // g for x in new]
        scale[q] = scale[q] * p // g


def _strongest(premises: Sequence[Term]) -> dict[int, Term]:
    """By number, the premises that no other one with the same atoms implies."""
    least: dict[frozenset[tuple[Atom, int]], int] = {}
    for i, h in enumerate(premises):
        if h.parts or h.const < 0:
            key = frozenset(h.parts.items())
            if key not in least or h.const < premises[least[key]].const:
                least[key] = i
    return {i: premises[i] for i in least.values()}


def _balanced(some: dict[int, Term]) -> dict[int, Term]:
    """The premises that a sum without atoms may use: each of their atoms has both signs among them."""
    users: dict[tuple[Atom, bool], set[int]] = {}
    for i, h in some.items():
        for a, k in h.parts.items():
            users.setdefault((a, k > 0), set()).add(i)
    gone: set[int] = set()
    lone = [x for x in users if (x[0], not x[1]) not in users]
    while lone:
        for i in users[lone.pop()] - gone:
            gone.add(i)
            for a, k in some[i].parts.items():
                here = users[a, k > 0]
                here.discard(i)
                if not here and users.get((a, k < 0)):
                    lone.append((a, k < 0))
    return {i: h for i, h in some.items() if i not in gone} if gone else some


@lru_cache(maxsize=200_000)
def _refuted(premises: tuple[Term, ...]) -> tuple[tuple[int, Fraction], ...] | None:
    """Multipliers by which the premises add up to -1."""
    some = _balanced(_strongest(premises))
    if all(h.const >= 0 for h in some.values()) or _met(some):
        return None
    atoms: dict[Atom, int] = {}
    for h in some.values():
        for a in h.parts:
            atoms.setdefault(a, len(atoms))
    columns: list[tuple[int, ...]] = []
    for h in some.values():
        column = [0] * (len(atoms) + 1)
        for a, k in h.parts.items():
            column[atoms[a]] = k
        column[-1] = h.const
        columns.append(tuple(column))
    who = list(some)
    found, costs = _of_numbers(tuple(columns))
    if found is None:
        point = None if costs is None else point_of(columns, costs)
        if point is not None:
            POINTS.appendleft((dict(zip(atoms, point[0], strict=True)), point[1]))
        return None
    return tuple((who[i], m) for i, m in found.items())


@lru_cache(maxsize=50_000)
def _of_numbers(
    columns: tuple[tuple[int, ...], ...],
) -> tuple[dict[int, Fraction] | None, tuple[int, ...] | None]:
    """Multipliers by which columns add up to 0, and their last numbers to -1; or the last costs. Many
    premises differ in names alone.
    """
    return solved(columns, [0] * (len(columns[0]) - 1) + [-1])


def _met(some: Mapping[int, Term]) -> bool:
    """Whether a point that is kept meets the premises; the last of them, which is asked for, first."""
    for point, whole in POINTS:
        try:
            for h in reversed(list(some.values())):
                if h.const * whole + sum([k * point[a] for a, k in h.parts.items()]) < 0:
                    break
            else:
                return True
        except KeyError:
            continue
    return False


def point_of(columns: Sequence[Sequence[int]], costs: Sequence[int]) -> tuple[list[int], int] | None:
    """A point that meets all premises: numerators in the order of rows, and their denominator. None: one
    coordinate after the other does not give it.

    The last costs are a combination of the rows: less its cost, by the cost of the right side, is what a
    premise is worth there.
    """
    whole, rows, scale = costs[-1], len(columns[0]) - 1, 1
    found: dict[int, int] = {}  # by ``whole`` and ``scale``
    worth = [-x - c[-1] * whole for c, x in zip(columns, costs, strict=False)]
    left = [[(a, k) for a, k in enumerate(c[:-1]) if k] for c in columns]
    while len(found) < rows:
        before = len(found)
        for value, parts in zip(worth, left, strict=True):
            new = [(a, k) for a, k in parts if a not in found]
            if len(new) != 1:
                continue
            ((a, k),) = new
            rest = value * scale - sum([q * found[b] for b, q in parts if b != a])
            if rest % k:
                scale, rest = scale * abs(k), rest * abs(k)
                found = {b: x * abs(k) for b, x in found.items()}
            found[a] = rest // k
        if len(found) == before:
            return None
    return [found[a] for a in range(rows)], whole * scale


def _sum(multipliers: Mapping[int, Fraction], goal: int | None) -> Sum:
    scale = lcm(*(m.denominator for m in multipliers.values()))
    whole = {i: int(m * scale) for i, m in multipliers.items()}
    divisor = whole.pop(goal, 0) if goal is not None else scale
    return Sum(divisor or scale, tuple(sorted(whole.items())))


def absurd(premises: Sequence[Term]) -> Sum | None:
    """That the premises contradict each other."""
    found = _refuted(tuple(premises))
    return None if found is None else _sum(dict(found), None)


def shown(premises: Sequence[Term], goal: Term) -> tuple[Sum, bool] | None:
    """A sum for the goal, or, marked by True, one for a contradiction of the premises alone; None if none
    was found.
    """
    if not goal.parts and goal.const >= 0:
        return Sum(1, ()), False
    for i, h in enumerate(premises):
        if h.const <= goal.const and h.parts == goal.parts:
            return Sum(1, ((i, 1),)), False
    found = _refuted((*premises, -goal - 1))
    if found is None:
        return None
    k = len(premises)
    return _sum(dict(found), k), k not in dict(found)


def entails(premises: Sequence[Term], goal: Term) -> bool:
    return shown(premises, goal) is not None
