"""Accesses to a shared array of which no two by different threads race, whatever open sizes are.

    s[t + r] = x;  if (t < r) { s[t] = y;  s[t + r + 128] = z; }  __syncthreads();

The three stores fall into one interval between barriers (``barrier_intervals``). Of each two, by threads
``t`` and ``u``, it is shown that they share no byte: ``t < r`` and ``t = u + r`` exclude each other for any
``u`` from 0 on.

**Claim.** Two accesses of a group by different threads touch no common byte, or a barrier lies between them.

*Proof.* Two threads come to the same barriers. So two accesses with no barrier between are in one interval,
from one barrier on. What ``thread_terms`` says of the places holds of both threads there, with one name for
what both hold alike: parameters, numbers of blocks, and what merged before the interval, or once in it. That
these places meet is refuted by the solver for each pair, one of which stores.

A loop that the interval enters again, by its branches back alone, has gone round once more since than
before. A join that it enters once was come to from a block that ends in it. ∎

That no number which places an access wraps, or is divided by 0, is assumed. Where more accesses
come apart if no parameter is below 0, so is that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import combinations, combinations_with_replacement
from math import gcd

from syncverify.frontends.ptx.analysis.barriers.barrier_intervals import BarrierInterval, BarrierIntervals
from syncverify.frontends.ptx.analysis.barriers.thread_terms import (
    Facts,
    ThreadTerms,
    all_of,
    either,
    written,
)
from syncverify.frontends.ptx.decode.memory import Access, decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.values.polynomials import Polynomial, Product
from syncverify.ir.expr import Expr, Int, Unary, Var, names
from syncverify.model.events import Ev

#: Accesses to one array, pairs that are asked about, and lemmas on products for one of them, at most.
_ACCESSES, _PAIRS, _LEMMAS = 120, 400, 60
#: What one question may cost.
_RLIMIT = 200_000


@dataclass(frozen=True, slots=True)
class SizedAccess:
    """An access of a group, from 1 on, to ``array``. ``positive``: that is because no parameter is below 0;
    ``begins_inside``: no thread makes it below the array."""

    group: int
    array: str
    positive: bool
    begins_inside: bool = False


@dataclass(frozen=True, slots=True)
class _At:
    """An access in an interval, by one of two threads."""

    place: Polynomial
    given: tuple[Expr, ...]


class PlacesBetweenBarriers:
    """The groups of accesses of a function, in a block of one shape."""

    def __init__(self, flow: Flow, block: Sequence[int], shared: Collection[str]) -> None:
        self.flow, self.block, self.shared = flow, block, shared
        self._intervals = BarrierIntervals(flow)
        self._asked: dict[int, SizedAccess | None] = {}
        self._groups: dict[str, dict[int, SizedAccess]] = {}
        self._positive = False

    def of(self, k: int, *, every: bool = False) -> SizedAccess | None:
        """The group of an access, where sizes place some to its array, or anyway (``every``)."""
        if not every and k not in self._found:
            return None
        if k not in self._asked:
            found = self._of_all.get(k)
            if found is not None:
                self._positive = found.positive
                here = (i for i in self._intervals.all if k in i.inside)
                found = replace(found, begins_inside=all(self._begins_inside(i, k) for i in here))
            self._asked[k] = found
        return self._asked[k]

    def _begins_inside(self, interval: BarrierInterval, k: int) -> bool:
        facts = Facts()
        at = self._at(interval, k, "1", facts)
        (array,) = (name for name in at.place.names if name.startswith("&"))
        return self._contradict(facts, [*at.given, written(at.place) < Var(array)])

    @property
    def covers(self) -> bool:
        """Whether there are arrays in which sizes place accesses, and all accesses to them are in groups."""
        _, sized = self._by_array
        return bool(sized) and all(map(self._whole, sized))

    @property
    def covers_all(self) -> bool:
        """Whether all accesses to shared memory are in groups, and all threads come to the same barriers."""
        shared = {
            k
            for k, i in enumerate(self.flow.body)
            if self.flow.block_of[k] in self.flow.reached and "shared" in {m.split("::")[0] for m in i.mods}
        }
        by_array, _ = self._by_array
        known = {k for accesses in by_array.values() for k in accesses}
        return self._intervals.met_by_all and shared == known and all(map(self._whole, by_array))

    @cached_property
    def _accesses(self) -> dict[int, Access]:
        found = {k: a for k, i in enumerate(self.flow.body)
                 if self.flow.block_of[k] in self.flow.reached and (a := decode_place(i)) is not None
                 and a.space == "shared" and not a.strong and a.code != Ev.ATOMIC}  # fmt: skip
        return found if len(found) <= _ACCESSES else {}

    @cached_property
    def _by_array(self) -> tuple[dict[str, list[int]], frozenset[str]]:
        """The accesses of arrays, and the arrays in which sizes place some; none where threads may part."""
        by_array: dict[str, list[int]] = {}
        sized = set[str]()
        if not self._accesses or not self._intervals.all:
            return {}, frozenset()
        for k, a in self._accesses.items():
            place = ThreadTerms(self.flow, self.block, "1", lambda v: None, Facts()).of(a.address.base, k)
            arrays = [n for n in place.names if n.startswith("&")]
            if len(arrays) == 1 and place.terms.get((arrays[0],)) == 1 and arrays[0][1:] in self.shared:
                by_array.setdefault(arrays[0], []).append(k)
                if not place.names <= {arrays[0], "1.x", "1.y", "1.z"}:
                    sized.add(arrays[0])
        return dict(sorted(by_array.items())), frozenset(sized)

    @cached_property
    def _found(self) -> dict[int, SizedAccess]:
        _, sized = self._by_array
        return {k: x for name in sorted(sized) for k, x in self._grouped(name).items()}

    @cached_property
    def _of_all(self) -> dict[int, SizedAccess]:
        return {k: x for name in self._by_array[0] for k, x in self._grouped(name).items()}

    def _whole(self, name: str) -> bool:
        """Whether all accesses to an array are in its group."""
        return len(self._grouped(name)) == len(self._by_array[0][name])

    def _grouped(self, name: str) -> dict[int, SizedAccess]:
        """The accesses to an array that are in its group."""
        if name not in self._groups:
            accesses = self._by_array[0][name]
            apart = self._apart(accesses, positive=False)
            more = apart if len(apart) == len(accesses) else self._apart(accesses, positive=True)
            positive = len(more) > len(apart)
            group = SizedAccess(1 + list(self._by_array[0]).index(name), name[1:], positive)
            self._groups[name] = dict.fromkeys(more if positive else apart, group)
        return self._groups[name]

    def _apart(self, accesses: Sequence[int], *, positive: bool) -> list[int]:
        """Those of some accesses to one array that are shown to race with none of them; ``positive``: where
        no parameter is below 0."""
        pairs = {(a, b) for i in self._intervals.all for a, b in self._pairs(accesses, i)}
        if len(pairs) > _PAIRS:
            return []
        self._positive = positive
        bad = [(a, b) for a, b in sorted(pairs) if not self._never_meet(a, b)]
        left = list(accesses)
        while bad:
            worst, _ = Counter(k for pair in bad for k in set(pair)).most_common(1)[0]
            left.remove(worst)
            bad = [pair for pair in bad if worst not in pair]
        return left

    def _pairs(self, accesses: Sequence[int], interval: BarrierInterval) -> Iterator[tuple[int, int]]:
        here = [k for k in accesses if k in interval.inside]
        for a, b in combinations_with_replacement(here, 2):
            if Ev.WRITE in (self._accesses[a].code, self._accesses[b].code):
                yield a, b

    def _never_meet(self, a: int, b: int) -> bool:
        """Whether two threads share no byte by two accesses, in any interval."""
        here = (i for i in self._intervals.all if {a, b} <= i.inside)
        return all(self._never_meet_in(i, a, b) for i in here)

    def _never_meet_in(self, interval: BarrierInterval, a: int, b: int) -> bool:
        facts = Facts()
        one, other = (self._at(interval, k, tag, facts) for k, tag in ((a, "1"), (b, "2")))
        x, y = written(one.place), written(other.place)
        meet = [x < y + self._accesses[b].bytes, y < x + self._accesses[a].bytes]
        axes = [n for n in range(3) if self.block[n] > 1]
        if not axes:
            return True
        differ = either(*(Var(f"1.{'xyz'[n]}").ne(Var(f"2.{'xyz'[n]}")) for n in axes))
        for tag in ("1", "2"):
            for n in axes:
                ThreadTerms(self.flow, self.block, tag, lambda v: None, facts).thread(n)
        rows = [*_rows(one.place, other.place), *self._next_turns(interval, facts)]
        return self._contradict(facts, [*one.given, *other.given, differ, *meet, *rows])

    def _leads_on(self, interval: BarrierInterval, block: int) -> bool:
        """Whether a thread may come to the end of a block in an interval, which may begin there."""
        last = self.flow.blocks[block].hi - 1
        return last in interval.inside or last == interval.start

    def _next_turns(self, interval: BarrierInterval, facts: Facts) -> Iterator[Expr]:
        """Of loops that the interval enters again, and not from outside: there is one turn more since."""
        flow = self.flow
        for v, block in enumerate(flow.versions.block):
            since, before = f"turns since {v}", f"turns before {v}"
            if not (facts.said(since) and facts.said(before)):
                continue
            way = self._intervals.after(interval.start, block)
            ways = [p for p in flow.blocks[block].pred if self._leads_on(way, p)]
            if interval.start >= 0 and ways and all(flow.dominates(block, p) for p in ways):
                yield Var(since).eq(Var(before) + 1)

    def _contradict(self, facts: Facts, given: Sequence[Expr]) -> bool:
        """Whether nothing holds of the names that is given."""
        from syncverify.ir.solver import satisfiable  # the solver knows the IR, which few checks of PTX ask

        known = [*facts.holds, *given]
        parts = {name for e in known for whole in names(e) for name in whole.split("*")}
        if self._positive:
            known += [Var(name) >= 0 for name in sorted(parts) if name.startswith("param ")]
        known += _lemmas(facts, known)
        return satisfiable(known, _RLIMIT) is False

    def _at(self, interval: BarrierInterval, k: int, tag: str, facts: Facts) -> _At:
        def named(v: int) -> str | None:
            if not self._intervals.uniform(v):
                return None
            when = self._merged_when(interval.start, self.flow.versions.block[v], k)
            return None if when is None else f"{when} {v}"

        def led(block: int, join: int) -> bool:
            here = self._leads_on(interval, block)
            return here or self._merged_when(interval.start, join, k) != "since"

        terms = ThreadTerms(self.flow, self.block, tag, named, facts).arrived(self.flow.block_of[k], led)
        address = self._accesses[k].address
        place = terms.of(address.base, k) + Polynomial.of(address.offset)
        return _At(place, tuple(terms.given(k)))

    @cached_property
    def _merged_when(self):  # type: ignore[no-untyped-def]
        """By where an interval starts, a block and an access: whether what the block merges was merged
        before the interval, or once in it; None where it may be either."""

        @cache
        def of(start: int, block: int, k: int) -> str | None:
            every = self._intervals.after(start)
            entered = block in every.begun or (start < 0 and block == 0)
            onward = self._intervals.from_block(block)
            if not entered or k not in onward.inside:
                return "before"
            if block in onward.begun or k in self._intervals.after(start, block).inside:
                return None
            return "since"

        return of


class _Text:
    """A function as its text and what does not come to its end: flows of one text are one key."""

    def __init__(self, flow: Flow) -> None:
        f = flow.function
        self.flow = flow
        self.key = flow.body, f.params, f.labels, f.tables, f.registers, flow.stops
        self.hash = hash((flow.body, flow.stops))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Text) and self.key == other.key


def places_between_barriers(
    flow: Flow, block: Sequence[int], shared: Collection[str]
) -> PlacesBetweenBarriers:
    """The groups of accesses of a function, in a block of one shape; once for all attempts at a proof."""
    return _places_between_barriers(_Text(flow), tuple(block), frozenset(shared))


@lru_cache(maxsize=16)
def _places_between_barriers(
    text: _Text, block: tuple[int, ...], shared: frozenset[str]
) -> PlacesBetweenBarriers:
    return PlacesBetweenBarriers(text.flow, block, shared)


def _lemmas(facts: Facts, known: Sequence[Expr]) -> list[Expr]:
    """how products and quotients compare, which the solver takes for any numbers."""
    found: list[Expr] = []
    for (one, (a, n)), (other, (b, m)) in combinations(sorted(facts.quotients.items()), 2):
        if n.key == m.key:
            x, y, v, w = written(a), written(b), Var(one), Var(other)
            positive = [x >= 0, y >= 0, written(n) > 0]
            found += [_implied([*positive, x <= y], v <= w), _implied([*positive, y <= x], w <= v)]
    products = sorted({tuple(name.split("*")) for e in known for name in names(e) if "*" in name})
    two = [p for p in products if len(p) == 2]
    for p in two:
        x, y, w = Var(p[0]), Var(p[1]), Var("*".join(p))
        found += [
            _implied([x >= 0, y >= 0], w >= 0),
            _implied([x >= 1, y >= 0], w >= y),
            _implied([y >= 1, x >= 0], w >= x),
            either(x.ne(0), w.eq(0)),
            either(y.ne(0), w.eq(0)),
        ]
    for p, q in combinations(two, 2):
        for factor in sorted(set(p) & set(q)):
            found += _compared(p, q, factor)
    return found[: _LEMMAS * 4]


def _rows(a: Polynomial, b: Polynomial) -> Iterator[Expr]:
    """How the rows of two places compare: what a size is multiplied by in each, which are sums.

    With ``a = 2 (t + 16 u) r + x`` they are ``t + 16 u``: in a row above, ``2 r`` is added once more.
    """
    for factor in sorted(name for name in a.names & b.names if not name.startswith(("1.", "2.", "&"))):
        one, other = (_times(x, factor) for x in (a, b))
        if not one.names and not other.names:
            continue
        by = gcd(*one.terms.values(), *other.terms.values())
        x, y = (written(Polynomial({p: k // by for p, k in r.terms.items()})) for r in (one, other))
        v, w = (written(r * Polynomial.of(factor)) for r in (one, other))
        n = Var(factor)
        yield _implied([n >= 0, x + 1 <= y], v + Int(by) * n <= w)
        yield _implied([n >= 0, y + 1 <= x], w + Int(by) * n <= v)
        yield _implied([x.eq(y)], v.eq(w))


def _times(x: Polynomial, factor: str) -> Polynomial:
    """What a name is multiplied by in a place."""
    rows: dict[Product, int] = {}
    for p, k in x.terms.items():
        if p.count(factor) == 1 and len(p) > 1:
            rest = tuple(name for name in p if name != factor)
            rows[rest] = rows.get(rest, 0) + k
    return Polynomial(rows)


def _compared(p: Product, q: Product, factor: str) -> list[Expr]:
    """How two products with a common factor compare."""
    x, y, n = Var(_rest(p, factor)), Var(_rest(q, factor)), Var(factor)
    v, w = Var("*".join(p)), Var("*".join(q))
    return [
        _implied([n >= 0, x + 1 <= y], v + n <= w),
        _implied([n >= 0, y + 1 <= x], w + n <= v),
        _implied([x.eq(y)], v.eq(w)),
    ]


def _rest(p: Product, factor: str) -> str:
    return p[1] if p[0] == factor else p[0]


def _implied(given: Sequence[Expr], then: Expr) -> Expr:
    return either(Unary("not", all_of(given)), then)


__all__ = ["PlacesBetweenBarriers", "places_between_barriers"]
