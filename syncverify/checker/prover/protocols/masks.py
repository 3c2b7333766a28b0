"""What terms are worth in all samples at once: as columns of numbers, compared to masks of samples.

A *mask* is a number whose bit q says something of sample q.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from syncverify.checker.kernel.hops import Graph, Half, Step
from syncverify.checker.kernel.linear import ZERO, Term
from syncverify.checker.prover.protocols.sizes import Sample, column, executed

Column = tuple[int, ...]


@dataclass(slots=True)
class Masks:
    """Comparisons of steps in samples, each made once. Samples may gain names, but no other values."""

    g: Graph
    samples: list[Sample]
    numbers: dict[Term, int] = field(default_factory=dict)  # terms by number
    columns: list[Column] = field(default_factory=list)
    less: dict[tuple[int, int], int] = field(default_factory=dict)
    alike: dict[tuple[int, int], int] = field(default_factory=dict)
    there: dict[tuple[int, int, int], int] = field(default_factory=dict)
    met: dict[Term, int] = field(default_factory=dict)

    def number(self, t: Term) -> int:
        known = self.numbers.get(t)
        if known is None:
            known = self.numbers[t] = len(self.columns)
            self.columns.append(tuple(column(t, self.samples)))
        return known

    def column(self, t: Term) -> Column:
        return self.columns[self.number(t)]

    def below(self, a: int, b: int) -> int:
        """Where one term is less than another."""
        found = self.less.get((a, b))
        if found is None:
            both = zip(self.columns[a], self.columns[b], strict=True)
            found = self.less[a, b] = _mask(x < y for x, y in both)
        return found

    def equal(self, a: int, b: int) -> int:
        found = self.alike.get((a, b))
        if found is None:
            both = zip(self.columns[a], self.columns[b], strict=True)
            found = self.alike[a, b] = _mask(x == y for x, y in both)
        return found

    def inside(self, site: int, u: Term, n: Term) -> int:
        """Where the event (site, u, n) exists."""
        key = (site, self.number(u), self.number(n))
        found = self.there.get(key)
        if found is None:
            test = executed(self.g.sites[site].domain)
            us, ns = self.columns[key[1]], self.columns[key[2]]
            found = _mask(test(e, x, y) for e, x, y in zip(self.samples, us, ns, strict=True))
            self.there[key] = found
        return found

    def holds(self, constraints: Iterable[Term], among: int) -> int:
        """Where all constraints hold, among these samples."""
        for c in constraints:
            if not c.parts:
                if c.const < 0:
                    return 0
                continue
            found = self.met.get(c)
            if found is None:
                found = self.met[c] = _mask(x >= 0 for x in self.column(c))
            among &= found
            if not among:
                return 0
        return among

    def earlier(self, a: Step, b: Step) -> int:
        """Where a is before b in program order, and b exists."""
        x, y = self.g.sites[a.site], self.g.sites[b.site]
        if x.role != y.role:
            return 0
        p, q = x.position, y.position
        first = (p.place, a.half is not Half.IN)
        then = (q.place, b.half is not Half.IN)
        order = -1 if first < then else 0
        if p.segment != q.segment:
            order = -1 if p.segment < q.segment else 0
        else:
            order = self._before(a.n if p.loops else ZERO, b.n if q.loops else ZERO, order)
            if p.inner != q.inner:
                order = -1 if p.inner < q.inner else 0
            order = self._before(a.u if p.tiles else ZERO, b.u if q.tiles else ZERO, order)
        return order & self.inside(b.site, b.u, b.n) if order else 0

    def _before(self, a: Term, b: Term, rest: int) -> int:
        """Where one term is less than another, or equal where ``rest`` decides."""
        x, y = self.number(a), self.number(b)
        return rest if x == y else self.below(x, y) | (self.equal(x, y) & rest)

    def no_later(self, a: tuple[int, int], b: tuple[int, int]) -> int:
        """Where the counters (u, n) of one are at most those of another, by the numbers of their terms."""
        if a == b:
            return -1
        ns = self.below(a[1], b[1]) | self.equal(a[1], b[1])
        return self.below(a[0], b[0]) | (self.equal(a[0], b[0]) & ns)


def _mask(bits: Iterable[bool]) -> int:
    m, bit = 0, 1
    for x in bits:
        if x:
            m |= bit
        bit <<= 1
    return m


__all__ = ["Masks"]
