"""Finds the multipliers of a sum that shows one inequality from others: Farkas by an exact simplex.

Where there are none, some rational point meets all premises. The latest such points are kept: premises that
one of them meets have no multipliers either. Nothing here is trusted: ``kernel.linear.follows`` adds up what
is found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile
from math import gcd, lcm

from syncverify.checker.kernel.linear import Atom, Sum, Term

#: Pivots by the largest coefficient; afterwards by the smallest index, which cannot cycle.
GREEDY, MOST = 60, 300
#: Numerators by atom, and their denominator.
Point = tuple[dict[Atom, int], int]
#: Points that are kept, the latest first.
POINTS: deque[Point] = deque(maxlen=12)
#: Lists of premises whose strongest ones are kept, and by how many premises they are made longer at once.
MOST_KEPT, STEPS = 2_000, (1, 2, 4)


class Premises(tuple[Term, ...]):
    """Premises that are asked about more than once: their hash is computed once."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = tuple.__hash__(self)
        return self._hash

    @classmethod
    def of(cls, some: Sequence[Term]) -> Premises:
        return some if isinstance(some, Premises) else cls(some)


def solution(columns: Sequence[Sequence[int]], right: Sequence[int]) -> dict[int, Fraction] | None:
    """Numbers that are not negative and whose sum of columns is ``right``; None where none were found."""
    return solved(columns, right)[0]


def solved(
    columns: Sequence[Sequence[int]], right: Sequence[int]
) -> tuple[dict[int, Fraction] | None, tuple[int, ...] | None]:
    """The same, and where there is no solution the last row of costs: no column has a positive one."""
    rows, n = len(right), len(columns)
    table: list[list[int]] = []
    for row in map(list, zip(*columns, right, strict=True)):
        table.append([-x for x in row] if row[-1] < 0 else row)
    scale = [1] * rows  # row r represents table[r] / scale[r]
    goal = list(map(sum, zip(*table, strict=True))) or [0] * (n + 1)
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
        g = gcd(*goal)
        goal = goal if g < 2 else [x // g for x in goal]
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


#: A premise with its number, and its atoms as bits: 2 i and 2 i + 1 for the signs of atom i.
_Signed = tuple[int, Term, int]


@dataclass(slots=True)
class _Strongest:
    """Premises that no other one with the same atoms implies, by these atoms. ``met``: points that meet them
    all; ``newest``: the last point that was looked at.
    """

    least: dict[frozenset[tuple[Atom, int]], _Signed] = field(default_factory=dict)
    bits: dict[Atom, int] = field(default_factory=dict)
    met: list[Point] = field(default_factory=list)
    newest: Point | None = None

    def take(self, i: int, h: Term) -> None:
        """Takes note of premise ``i``."""
        if not h.parts and h.const >= 0:
            return
        key = frozenset(h.parts.items())
        known = self.least.get(key)
        if known is None:
            signs = 0
            for a, k in h.parts.items():
                signs |= (1 if k > 0 else 2) << self.bits.setdefault(a, 2 * len(self.bits))
            self.least[key] = (i, h, signs)
        elif h.const < known[1].const:
            self.least[key] = (i, h, known[2])

    def and_more(self, i: int, some: Sequence[Term]) -> _Strongest:
        """The same with more, from number ``i`` on, and the points that meet these, too."""
        met = [x for x in self.met if meets(x, some)]
        found = _Strongest(dict(self.least), dict(self.bits), met, self.newest)
        for k, h in enumerate(some):
            found.take(i + k, h)
        return found

    def and_one(self, i: int, h: Term) -> _Strongest:
        """The same with one more."""
        found = _Strongest(dict(self.least), dict(self.bits))
        found.take(i, h)
        return found

    def balanced(self) -> tuple[list[_Signed], list[list[_Signed]]]:
        """Those that a sum without atoms may use: each of their atoms has both signs among them. And the
        others, in the order in which they lack that.
        """
        some, gone = list(self.least.values()), list[list[_Signed]]()
        low = (1 << 2 * len(self.bits)) // 3  # of each atom, the bit of one sign
        while True:
            had = 0
            for _, _, signs in some:
                had |= signs
            lone = had & ~((had & low) << 1 | had >> 1 & low)
            if not lone:
                return some, gone
            gone.append([x for x in some if x[2] & lone])
            some = [x for x in some if not x[2] & lone]

    def are_met(self, last: Term | None) -> bool:
        """Whether a point that is kept meets all of them, and the last one."""
        newest, self.newest = self.newest, POINTS[0] if POINTS else None
        if self.newest is not newest:
            every = [h for _, h, _ in self.least.values()][::-1]  # what was added last is met by the fewest
            fresh = takewhile(lambda point: point is not newest, POINTS)
            self.met = [*(x for x in fresh if meets(x, every)), *self.met][: POINTS.maxlen]
        return any(last is None or meets(point, [last]) for point in self.met)


def meets(point: Point, some: Sequence[Term]) -> bool:
    """Whether a point meets constraints; not where it has no number for one of their atoms."""
    numbers, whole = point
    try:
        for h in some:
            if h.const * whole + sum([k * numbers[a] for a, k in h.parts.items()]) < 0:
                return False
    except KeyError:
        return False
    return True


def widened(point: Point, gone: Sequence[Sequence[_Signed]]) -> Point:
    """The point with numbers for all other atoms, so that it meets the premises that are ``gone``, too.

    Each of the last ones has an atom of one sign among them and those that the point meets: it may be as
    large as needed.
    """
    numbers, whole = dict(point[0]), point[1]
    for some in reversed(gone):
        signs: dict[Atom, set[bool]] = {}
        for _, h, _ in some:
            for a, k in h.parts.items():
                if a not in numbers:
                    signs.setdefault(a, set()).add(k > 0)
        lone = {a: k.pop() for a, k in signs.items() if len(k) == 1}
        numbers |= dict.fromkeys(signs, 0)
        most = 0
        for _, h, _ in some:
            most = max(most, -h.const * whole - sum([k * numbers[a] for a, k in h.parts.items()]))
        for a, up in lone.items():
            numbers[a] = most if up else -most
    return numbers, whole


_KEPT: dict[tuple[Term, ...], _Strongest] = {}


def _strongest(premises: Premises) -> _Strongest:
    found = _KEPT.get(premises)
    if found is None:
        begun = ((k, _KEPT.get(premises[:-k])) for k in STEPS)
        k, known = next(((k, x) for k, x in begun if x is not None), (len(premises), _Strongest()))
        at = len(premises) - k
        found = known.and_more(at, premises[at:])
        if len(_KEPT) >= MOST_KEPT:
            _KEPT.clear()
        _KEPT[premises] = found
    return found


@lru_cache(maxsize=200_000)
def _refuted(premises: Premises, last: Term | None = None) -> tuple[tuple[int, Fraction], ...] | None:
    """Multipliers by which the premises, and the last one if there is one, add up to -1."""
    known = _strongest(premises)
    if known.are_met(last):
        return None
    some, gone = (known if last is None else known.and_one(len(premises), last)).balanced()
    if all(h.const >= 0 for _, h, _ in some):
        return None
    atoms: dict[Atom, int] = {}
    for _, h, _ in some:
        for a in h.parts:
            atoms.setdefault(a, len(atoms))
    columns: list[tuple[int, ...]] = []
    for _, h, _ in some:
        column = [0] * (len(atoms) + 1)
        for a, k in h.parts.items():
            column[atoms[a]] = k
        column[-1] = h.const
        columns.append(tuple(column))
    found, costs = _of_numbers(tuple(columns))
    if found is None:
        point = None if costs is None else point_of(columns, costs)
        if point is not None:
            POINTS.appendleft(widened((dict(zip(atoms, point[0], strict=True)), point[1]), gone))
        return None
    return tuple((some[i][0], m) for i, m in found.items())


@lru_cache(maxsize=50_000)
def _of_numbers(
    columns: tuple[tuple[int, ...], ...],
) -> tuple[dict[int, Fraction] | None, tuple[int, ...] | None]:
    """Multipliers by which columns add up to 0, and their last numbers to -1; or the last costs. Many
    premises differ in names alone.
    """
    return solved(columns, [0] * (len(columns[0]) - 1) + [-1])


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
    found = _refuted(Premises.of(premises))
    return None if found is None else _sum(dict(found), None)


def shown(premises: Sequence[Term], goal: Term) -> tuple[Sum, bool] | None:
    """A sum for the goal, or, marked by True, one for a contradiction of the premises alone; None if none
    was found.
    """
    if not goal.parts and goal.const >= 0:
        return Sum(1, ()), False
    known = Premises.of(premises)
    least = _strongest(known).least.get(frozenset(goal.parts.items()))
    if least is not None and least[1].const <= goal.const:
        parts, most = goal.parts, goal.const
        i = next(i for i, h in enumerate(known) if h.const <= most and h.parts == parts)
        return Sum(1, ((i, 1),)), False
    found = _refuted(known, -goal - 1)
    if found is None:
        return None
    k = len(premises)
    return _sum(dict(found), k), k not in dict(found)


def entails(premises: Sequence[Term], goal: Term) -> bool:
    return shown(premises, goal) is not None
