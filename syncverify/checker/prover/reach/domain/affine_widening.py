"""Rows that subsume two sets of register values: over the smallest lattice around both.

See ``lattice`` for rows. Of the inequalities those are kept that hold in both sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import combinations, permutations, product
from math import gcd

from syncverify.checker.prover.reach.domain.affine_sets import (
    Rows,
    apply_substitution,
    factors,
    replaced,
    translated_atom,
)
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.inequalities import Parts, Sum, combined, negated, primitive
from syncverify.symbolic.path_condition import PathCondition

#: Rows that differ are compared pairwise up to this many.
MOST_PAIRED = 24
#: Bounds of sums of several symbols are not kept beyond this.
FAR = 1 << 20
#: New symbols with no more values than this, beyond the first, are related to each other, up to so many.
MOST_FEW, MOST_TOGETHER = 8, 5
#: Turns that a role may be ahead of another, at most.
FAR_AHEAD = 8
#: Bounds that a widening may weaken others to.
THRESHOLDS = (1, 0)
#: And where registers were moved to other places of a ring, which moves their ends: those of 32 bits.
FAR_THRESHOLDS = (1, 0, 1 - (1 << 31))
#: And where words are exact, which these bounds keep from wrapping.
WORD_THRESHOLDS = (1, 0, 1 - (1 << 31), -(1 << 31), 1 - (1 << 32))


class AffineWidening:
    """New rows over new symbols, and how the symbols represent both old sets.

    Both sets are written as ``b + sum(x v)`` with vectors of one number for each row and *unit*: 1, or an
    symbol that stands in both sets and that no widening made. Such symbols stay what they are. The lattice
    around both gets new symbols; one times a unit is a product. So ``t = 1, i = K`` and ``t = 2, i = 2K``
    become ``t = 1 + u, i = K + uK``.
    """

    def __init__(
        self,
        space: SymbolicContext,
        rows: Rows,
        path: PathCondition,
        later: Rows,
        there: PathCondition,
        *,
        ends: bool = False,
        fixed: Set[int] = frozenset(),
        numbers: Sequence[int] = (),
        shifted: bool = False,
        ring: int = 0,
        least: int = 0,
        counts: Set[int] = frozenset(),
        totals: Set[int] = frozenset(),
        also: Sequence[tuple[Rows, PathCondition]] = (),
    ) -> None:
        """``ends``: nothing is kept that only the later path speaks of, so that chains of
        widenings end.
        ``fixed``: symbols that may be units though a widening made them; ``numbers``: of sizes; ``shifted``:
        the earlier rows were moved to another place of a ring. Where stages go on by sums, ``ring``: slots of
        theirs; ``least``: steps of a tile at least; ``counts``: rows that count turns; ``totals``: that say
        how many there are."""
        self.thresholds: tuple[int, ...] = FAR_THRESHOLDS if shifted else THRESHOLDS
        if space.exact_words:
            self.thresholds = WORD_THRESHOLDS
        self.ring = ring
        self.least = least
        self.space = space
        self.drop_new_constraints = ends
        self.numbers = numbers
        self.paths = (path, there, *(p for _, p in also))
        self.turning: tuple[set[int], set[int]] = set(), set()  # what counts turns; and how many there are
        # sums that say how far registers for places of a ring stay below its end
        self.ring_index_bounds: set[Sum] = set()
        self.base: list[int]
        self.basis: list[list[int]]
        sets = [*zip(rows, later, *(more for more, _ in also), strict=True)]
        pairs = list(dict.fromkeys(sets))
        # new symbols are what the simplest rows count
        pairs.sort(key=lambda p: sum(len(row[1]) for row in p[:2]))
        self.index = {p: i for i, p in enumerate(pairs)}
        self.counts = {self.index[sets[i]] for i in counts if ring}
        self.totals_at = {self.index[sets[i]] for i in totals if ring}
        known, moved = self._generate(
            [*zip(*pairs, strict=True)] if pairs else [() for _ in self.paths], fixed
        )
        if ring:
            self.basis = self._completed(pairs, self.basis, 2 * ring)
        self.moving = [
            space.of(space.symbol(f"u{len(space.symbols)}", widened=True))[1][0][0] for _ in self.basis
        ]
        self.values = [
            self._along([(x, ()) for x in _coordinates(self.basis, away)], vectors)
            for away, (_, vectors) in zip(moved, known, strict=True)
        ]
        self.rows = [self.row(i) for i in range(len(pairs))]
        #: what the rows have become
        self.result = [self.rows[self.index[s]] for s in sets]
        if ring:
            self.ring_index_bounds = self._ring_bounds(2 * ring)
        self._add_products()
        self.path = self._path()

    def _generate(
        self, sides: Sequence[Sequence[Sum]], fixed: Set[int]
    ) -> tuple[list[tuple[list[int], dict[int, list[int]]]], list[list[int]]]:
        """The lattice around all sides, as a base and a basis; the sides as vectors, and how far their bases
        lie from the first one's."""
        space = self.space
        columns = [_columns(side) for side in sides]
        both = [a for a in columns[0] if a in columns[1] and (a in fixed or not space.symbols[a].widened)]
        both += [a for a in {**columns[0], **columns[1]} if a not in both and _made_of(space, a, both)]
        same = [a for a in both if columns[0].get(a) == columns[1].get(a)]
        for kept in (both, same):
            #: symbols that stay what they are, so that products keep their factors
            self.kept = kept
            self.units = {a: 1 + i for i, a in enumerate(kept)}
            known = [self._vectors(side) for side in sides]
            self.base = known[0][0]
            moved = [[y - x for x, y in zip(self.base, there, strict=True)] for there, _ in known]
            self.basis = _basis([*(v for _, vectors in known for v in vectors.values()), *moved])
            if kept == same or all(self._counts(v) for v in self.basis):
                break
        return known, moved

    def _ring_bounds(self, most: int) -> set[Sum]:
        """Rows, and their opposites, that say a place of a ring on both sides."""
        within = [
            self.rows[i]
            for sides, i in self.index.items()
            if i not in self.counts and self._within(sides, most)
        ]
        return {x for c, parts in within for x in ((c, parts), (-c, negated(parts))) if parts}

    def _add_products(self) -> None:
        """Products of a new symbol and one that stays are symbols of the new set too."""
        shown = _atoms(self.rows)
        self.products = [a for a in shown if a not in self.moving and a not in self.units]
        for value in self.values:
            value |= {
                a: apply_substitution(self.space, value, (0, ((a, 1),))) or (0, ()) for a in self.products
            }
        self.atoms = [*self.moving, *self.products, *self.kept]

    def _completed(self, pairs: list[tuple[Sum, ...]], basis: list[list[int]], most: int) -> list[list[int]]:
        """A basis with vectors along which one register that says a place of a ring moves alone, and others
        by whole numbers."""
        small = [
            i
            for i, sides in enumerate(pairs)
            if i not in self.counts and any(v[i] for v in basis) and self._within(sides, most)
        ]
        order = [*small, *(i for i in range(len(basis[0]) if basis else 0) if i not in set(small))]
        sorted_ = _basis([[v[i] for i in order] for v in basis])
        tails = [v for v in sorted_ if not any(v[: len(small)])]
        whole: list[list[int]] = []
        for v in reversed([v for v in sorted_ if any(v[: len(small)])]):
            for w in whole:
                at = next(i for i, x in enumerate(w) if x)
                if w[at] == 1 and v[at]:
                    v = [x - v[at] * y for x, y in zip(v, w, strict=True)]
            whole.insert(0, _divided(v, tails))
        back = [order.index(i) for i in range(len(order))]
        return _basis([*basis, *([v[j] for j in back] for v in whole)])

    def _within(self, sides: tuple[Sum, ...], most: int) -> bool:
        """Whether a row lies between 0 and ``most`` on both sides."""
        ends = [p.bounds(*p.resolve(*s)) for p, s in zip(self.paths, sides, strict=True)]
        return all(low is not None and high is not None and 0 <= low <= high < most for low, high in ends)

    def _vectors(self, rows: Rows) -> tuple[list[int], dict[int, list[int]]]:
        """The fixed part of rows, and what each other symbol adds to them."""
        width = len(rows)
        base = [0] * (width * (1 + len(self.kept)))
        out: dict[int, list[int]] = {}
        for i, (c, parts) in enumerate(rows):
            base[i] = c
            for a, k in parts:
                if a in self.units:
                    base[i + width * self.units[a]] = k
                    continue
                x, unit = next(
                    (
                        (x, self.units[y])
                        for x, y in permutations(factors(self.space, a), 2)
                        if y in self.units
                    ),
                    (a, 0),
                )
                out.setdefault(x, [0] * len(base))[i + width * unit] = k
        return base, out

    def _counts(self, vector: list[int]) -> bool:
        """Whether a vector with units counts in some row how often it is taken."""
        width = len(self.index)
        return not any(vector[width:]) or any(
            vector[i] and not any(vector[i + width :: width]) for i in range(width)
        )

    def row(self, i: int) -> Sum:
        """Row i over the new atoms."""
        return combined([(1, self._fixed(self.base, i)), *(
            (1, self.space.times((0, ((a, 1),)), self._fixed(v, i)))
            for a, v in zip(self.moving, self.basis, strict=True)
        )])  # fmt: skip

    def _fixed(self, vector: list[int], i: int) -> Sum:
        """What a vector says of a row."""
        width = len(self.index)
        parts = ((a, vector[i + width * unit]) for a, unit in self.units.items())
        return vector[i], tuple(sorted((a, k) for a, k in parts if k))

    def _along(self, start: list[Sum], vectors: dict[int, list[int]]) -> dict[int, Sum]:
        """The new symbols, and those that stay, in terms of old ones."""
        out = start
        for a, vector in vectors.items():
            out = [
                combined([(1, s), (k, (0, ((a, 1),)))])
                for s, k in zip(out, _coordinates(self.basis, vector), strict=True)
            ]
        return dict(zip(self.moving, out, strict=True)) | {a: (0, ((a, 1),)) for a in self.kept}

    def _path(self) -> PathCondition:
        path = PathCondition(self.space)
        free = self._free()
        self.facts: list[Sum] = [s for a in self.kept for s in _inborn(self.space, a)]
        known = self._known()
        known = [s for s in known if not free(s)]
        for s in [*known, *self._below(), *self._lap_multiples()]:
            if self._hold(s) and not path.implies(*path.resolve(*s)):
                path.assume(*s)
                self.facts.append(s)
        for s in [*known, *self._candidates()]:
            if free(s):
                continue
            bound = self._bound(s, weaker=self._ends(s[1]))
            if bound is None or (len(s[1]) > 1 and abs(bound) > FAR):
                continue  # how far apart the ends of ranges are says nothing
            c, parts = primitive(s[0] - bound, s[1])
            if not _said(path, *path.resolve(c, parts)):
                path.assume(c, parts)
                self.facts.append((c, parts))
        return path

    def _ends(self, parts: Parts) -> bool:
        """Whether less than both sets keep says something: of one symbol; or of several that move by the same
        numbers, or by such as tell places of a ring. Between rounds of two loops it holds by chance."""
        atoms, by = {a for a, _ in parts}, {abs(k) for _, k in parts}
        return len(atoms) == 1 or (not atoms & set(self.kept) and (len(by) == 1 or gcd(*by) == 1))

    def _free(self) -> Callable[[Sum], bool]:
        """Which sums nothing is to be known of where stages go on by sums: places of a ring come together
        with anything, and turns are compared with how many there are alone."""
        placed = {a for s in self.ring_index_bounds for a, _ in s[1]} - self.units.keys()
        alone = {p for row in self.rows for p in (row[1], negated(row[1]))}
        turns = {a for i in self.counts for a, _ in self.rows[i][1]} - self.units.keys()
        ends = {a for i in self.totals_at for a, _ in self.rows[i][1]} | turns
        self.turning = turns, ends

        def free(s: Sum) -> bool:
            atoms = {a for a, _ in s[1]}
            if atoms & placed:
                return s[1] not in alone or (atoms <= placed and s not in self.ring_index_bounds)
            if atoms <= turns:
                return all(k < 0 for _, k in s[1])
            return bool(atoms & turns) and not atoms <= ends and s[1] not in alone

        return free

    def _bound(self, s: Sum, weaker: bool = True) -> int | None:
        """A number that both sets keep the sum above: the earlier one's, or (``weaker``) one of few, so that
        chains end."""
        lows: list[int] = []
        for p, v in zip(self.paths, self.values, strict=True):
            low = p.bounds(*p.resolve(*(apply_substitution(self.space, v, s) or (0, ()))))[0]
            if low is None:
                return None
            lows.append(low)
        earlier, later = lows[0], min(lows[1:])
        if s in self.ring_index_bounds:
            return next((t for t in (0, -1, 1 - self.ring) if min(earlier, later) >= t), 1 - 2 * self.ring)
        if later >= earlier:
            return earlier
        turns, ends = self.turning
        if turns and turns & (atoms := {a for a, _ in s[1]}) and atoms <= ends:
            return later if later > -FAR_AHEAD else None
        return next((t for t in self.thresholds if later >= t), None) if weaker else None

    def _candidates(self) -> Iterator[Sum]:
        """Further sums that may be bounded: rows, and differences of rows."""
        moving = list(dict.fromkeys(r for r in self.rows if r[1]))
        shown: list[Sum] = [(0, ((a, 1),)) for a in self.atoms]
        for c, p in dict.fromkeys([*moving, *shown]):
            yield c, p
            yield -c, negated(p)
        yield from self._joint_bounds()
        for i, j in product(self.totals_at, self.counts):  # how many iterations there are, and have been
            yield combined([(1, self.rows[i]), (-1, self.rows[j])])
        seen: set[Parts] = set()
        for r, s in combinations(map(self._octagonal, moving[:MOST_PAIRED]), 2):
            for sign in (1, -1):
                c, p = combined([(sign, r), (-sign, s)])
                if p and p not in seen:
                    seen.add(p)
                    yield c, p

    def _octagonal(self, row: Sum) -> Sum:
        """A row that is never above 0 counts down to what another says (``-u + N != 0``): its negative."""
        both = zip(self.paths, self.values, strict=True)
        highs = [
            p.bounds(*p.resolve(*(apply_substitution(self.space, v, row) or (1, ()))))[1] for p, v in both
        ]
        if any(high is None or high > 0 for high in highs):
            return row
        return -row[0], negated(row[1])

    def _known(self) -> list[Sum]:
        """What the paths say of several atoms."""
        out: list[Sum] = []
        for path, values in list(zip(self.paths, self.values, strict=True))[
            : 1 if self.drop_new_constraints else 2
        ]:
            inverse = self._swapped(values)
            for p, c in path.inequalities.items():
                fact = apply_substitution(self.space, inverse, (c, p))
                if fact is not None and fact[1]:
                    out.append(primitive(*fact))
        return list(dict.fromkeys(out))

    def _below(self) -> Iterator[Sum]:
        """That a row that moves stays below a size that is a number, or does not exceed it."""
        for (c, p), end in product(dict.fromkeys(r for r in self.rows if r[1]), self.numbers):
            yield primitive(end - 1 - c, negated(p))
            yield primitive(end - c, negated(p))

    def _lap_multiples(self) -> Iterator[Sum]:
        """That sizes, and pairs of them, are of more than a lap."""
        for c, p in dict.fromkeys(r for r in self.rows if r[1]) if self.least else ():
            for end in (2 * self.least, self.least, self.least - 1):
                yield primitive(c - end, p)

    def _hold(self, s: Sum) -> bool:
        """Whether a sum is 0 or more in both sets."""
        both = zip(self.paths, self.values, strict=True)
        return all(
            p.implies(*p.resolve(*(apply_substitution(self.space, v, s) or (-1, ())))) for p, v in both
        )

    def _joint_bounds(self) -> Iterator[Sum]:
        """Sums that say which values of new symbols with few values come together."""
        few: list[tuple[int, int, int]] = []
        for a in self.moving:
            ends = [p.bounds(*p.resolve(*v[a])) for p, v in zip(self.paths, self.values, strict=True)]
            lows = [low for low, _ in ends if low is not None]
            highs = [high for _, high in ends if high is not None]
            if len(lows) == len(highs) == len(self.paths) and max(highs) - min(lows) <= MOST_FEW:
                few.append((a, min(lows), max(highs)))
        for x, y in permutations(few[:MOST_TOGETHER], 2):
            for one, other in product(_from_ends(*x), _from_ends(*y)):
                yield combined([(x[2] - x[1], other), (-1, one)])
                yield combined([(1, other), (-1, one)])

    def _swapped(self, values: dict[int, Sum]) -> dict[int, Sum]:
        """Old symbols by rows: those that a row shows, and then those that it shows beside known ones."""
        out: dict[int, Sum] = {a: (0, ((a, 1),)) for a in self.kept}
        single: list[Sum] = [(0, ((a, 1),)) for a in self.atoms]
        work = [(row, replaced(values, row)) for row in [*self.rows, *single]]
        found = True
        while found:
            found = False
            for row, (c, p) in work:
                new = [(a, k) for a, k in p if translated_atom(self.space, out, a) is None]
                if len(new) == 1 and abs(new[0][1]) == 1:
                    ((a, k),) = new
                    rest = apply_substitution(self.space, out, (c, tuple(x for x in p if x[0] != a))) or (
                        0,
                        (),
                    )
                    out[a] = combined([(k, row), (-k, rest)])
                    found = True
        return out


def _said(path: PathCondition, c: int, parts: Parts) -> bool:
    """Whether a path says that a sum is 0 or more; bounds of one symbol must be said as such, for what is
    told
    of sizes at a glance is by these."""
    if len(parts) == 1:
        low, _ = path.bounds(c, parts)
        return low is not None and low >= 0
    return path.implies(c, parts)


def _from_ends(a: int, low: int, high: int) -> tuple[Sum, Sum]:
    """How far a symbol is from its ends."""
    return (-low, ((a, 1),)), (high, ((a, -1),))


def _inborn(space: SymbolicContext, a: int) -> Iterator[Sum]:
    """What a symbol keeps on every path."""
    low, high = space.symbols[a].low, space.symbols[a].high
    if low is not None:
        yield -low, ((a, 1),)
    if high is not None:
        yield high, ((a, -1),)


def _atoms(rows: Rows) -> dict[int, None]:
    """All symbols of rows, in order."""
    return dict.fromkeys(a for _, parts in rows for a, _ in parts)


def _columns(rows: Rows) -> dict[int, list[int]]:
    out: dict[int, list[int]] = {}
    for i, (_, parts) in enumerate(rows):
        for a, k in parts:
            out.setdefault(a, [0] * len(rows))[i] = k
    return out


def _coordinates(basis: list[list[int]], vector: list[int]) -> list[int]:
    """A vector of the lattice by its basis."""
    out = []
    rest = list(vector)
    for b in basis:
        pivot = next(i for i, x in enumerate(b) if x)
        k = rest[pivot] // b[pivot]
        if k:
            rest = [x - k * y for x, y in zip(rest, b, strict=True)]
        out.append(k)
    assert not any(rest)
    return out


def _basis(vectors: list[list[int]]) -> list[list[int]]:
    """The basis in Hermite's normal form of the lattice that integer vectors span: one for each lattice."""
    work = [v for v in vectors if any(v)]
    out: list[list[int]] = []
    for i in range(len(work[0]) if work else 0):
        here = [v for v in work if v[i]]
        work = [v for v in work if not v[i]]
        while len(here) > 1:
            here.sort(key=lambda v: abs(v[i]))
            small = here[0]
            rest = [[x - v[i] // small[i] * y for x, y in zip(v, small, strict=True)] for v in here[1:]]
            here = [small, *(v for v in rest if v[i])]
            work += [v for v in rest if not v[i] and any(v)]
        if here:
            (v,) = here
            v = v if v[i] > 0 else [-x for x in v]
            out = [[x - b[i] // v[i] * y for x, y in zip(b, v, strict=True)] for b in out]
            out.append(v)
    return out


def _divided(v: list[int], tails: list[list[int]]) -> list[int]:
    """A vector divided by its first number, where multiples of others make that possible: the shortest."""
    k = next(x for x in v if x)
    out = v
    for t in tails if k > 1 else ():
        at = next(i for i, x in enumerate(t) if x)
        steps = [j for j in range(-k, k) if (out[at] + j * t[at]) % k == 0]
        if not steps:
            return v
        best = min(steps, key=lambda j: abs(out[at] + j * t[at]))
        out = [x + best * y for x, y in zip(out, t, strict=True)]
    return [x // k for x in out] if all(x % k == 0 for x in out) else v


def _made_of(space: SymbolicContext, a: int, atoms: Sequence[int]) -> bool:
    basic = space.basic(a)
    return bool(basic) and basic <= set(atoms)


__all__ = ["AffineWidening"]
