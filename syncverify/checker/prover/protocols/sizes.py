"""Small sizes of a protocol, as samples for the search: which events exist, what terms are worth.

A sample gives a number to every parameter and a table to every function. What holds in all samples may still
be wrong: the kernel has the last word.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from syncverify.checker.kernel.linear import Apply, Term
from syncverify.checker.kernel.protocol import Block, Loop, Protocol, Site, Tiles, places

#: Values of names, and functions from numbers to numbers.
Sample = dict[str, Any]
#: The counters of loops, and of tiles, are looked for below these.
MOST_STEPS, MOST_TILES = 44, 8
#: Values of one parameter at which guards change.
MOST_THRESHOLDS = 5


@lru_cache(maxsize=100_000)
def compiled(t: Term) -> Callable[[Sample], int]:
    """The term as a function of a sample."""
    return eval(f"lambda e: {_source(t)}")  # type: ignore[no-any-return]


@lru_cache(maxsize=20_000)
def executed(domain: tuple[Term, ...]) -> Callable[[Sample, int, int], bool]:
    """Constraints as a function of a sample and the counters of an event."""
    shown = " and ".join(f"{_source(c, {'u': 'u', 'n': 'n'})} >= 0" for c in domain)
    return eval(f"lambda e, u, n: {shown or 'True'}")  # type: ignore[no-any-return]


def _source(t: Term, local: Mapping[str, str] = MappingProxyType({})) -> str:
    """The term as an expression. ``local``: names that are variables of their own."""
    parts = [str(t.const)]
    for a, k in t.parts.items():
        if isinstance(a, Apply):
            what = f"e[{a.function!r}]({_source(a.argument, local)})"
        elif a in local:
            what = local[a]
        else:
            what = f"e[{a!r}]"
        parts.append(f"{k} * {what}" if k != 1 else what)
    return " + ".join(parts)


def value(t: Term, e: Sample) -> int:
    """The value of a term in a sample."""
    return compiled(t)(e) if t.parts else t.const


def column(t: Term, some: Sequence[Sample]) -> list[int]:
    """The value of a term in each of some samples."""
    if not t.parts:
        return [t.const] * len(some)
    of = compiled(t)
    return [of(e) for e in some]


def holds(constraints: Iterable[Term], e: Sample) -> bool:
    for c in constraints:
        if (compiled(c)(e) if c.parts else c.const) < 0:
            return False
    return True


def bounded(constraints: Iterable[Term], v: str) -> tuple[list[tuple[int, Term]], list[Term]]:
    """Constraints as bounds of one name: its coefficient and the rest; and those that are no bounds."""
    bounds: list[tuple[int, Term]] = []
    rest: list[Term] = []
    for c in constraints:
        k = c.parts.get(v, 0)
        other = c - Term({v: k})
        if k and v not in other.names():
            bounds.append((k, other))
        else:
            rest.append(c)
    return bounds, rest


#: Values of counters in one sample that are looked at.
MOST_SOLUTIONS = 24
#: Counters that a solution gives a number to; those that nothing constrains get 0.
ALL_COUNTERS = ("u", "n", "u'", "n'", "j")


@dataclass(frozen=True, slots=True)
class Plan:
    """Constraints, in the order in which counters get numbers. ``still``: those without counters.

    ``solutions``: for a sample and bounds of tiles and steps, the first values of all counters that meet the
    constraints.
    """

    still: tuple[Callable[[Sample], int], ...]
    solutions: Callable[[Sample, int, int], list[Sample]]

    @classmethod
    def of(cls, given: Sequence[Term], counters: Sequence[str]) -> Plan:
        names = [(h, h.names()) for h in given]
        later = set(counters)
        still = tuple(compiled(h) for h, some in names if not some & later)
        local = {v: f"x{k}" for k, v in enumerate(counters)}
        head, tail = ["def solutions(e, tiles, steps):", " found = []"], list[str]()
        pad = " "
        for v in counters:
            later.discard(v)
            x = local[v]
            bounds, rest = bounded([h for h, some in names if v in some and not some & later], v)
            low = ["0", *(f"-(({_source(t, local)}) // {c})" for c, t in bounds if c > 0)]
            top = "tiles" if v[0] == "u" else "steps - 1"
            high = [top, *(f"({_source(t, local)}) // {-c}" for c, t in bounds if c < 0)]
            head.append(f"{pad}for {x} in range({_of('max', low)}, {_of('min', high)} + 1):")
            tail.append(f"{pad} if len(found) > {MOST_SOLUTIONS}: break")
            pad += " "
            head += [f"{pad}if {_source(c, local)} < 0: continue" for c in rest]
        kept = ", ".join(f"{v!r}: {x}" for v, x in local.items())
        zero = ", ".join(f"{v!r}: 0" for v in ALL_COUNTERS)
        head.append(f"{pad}found.append({{{zero}, **e, {kept}}})")
        return cls(still, _made("\n".join([*head, *reversed(tail), " return found"])))


def _of(what: str, some: Sequence[str]) -> str:
    return f"{what}({', '.join(some)})" if len(some) > 1 else some[0]


@lru_cache(maxsize=10_000)
def _made(source: str) -> Callable[[Sample, int, int], list[Sample]]:
    """The function that a plan is, compiled once for all plans that differ in nothing."""
    names: dict[str, Any] = {}
    exec(source, names)
    found: Callable[[Sample, int, int], list[Sample]] = names["solutions"]
    return found


def prefix(steps: Sequence[int]) -> Callable[[int], int]:
    """The prefix sums of trip counts; below 0 the identity, behind the last constant."""
    table = [0, *itertools.accumulate(steps)]
    return lambda a: table[a] if 0 <= a < len(table) else (a if a < 0 else table[-1])


def mark(seed: int) -> Callable[[int], int]:
    """Some function of which nothing is known."""
    return lambda a: (a * 7 + seed * 13 + (a * a) % 5) % 5 - 1


@dataclass(frozen=True, slots=True)
class Shape:
    """Which parameters of a protocol are which: depths stay small, numbers of tiles too."""

    names: tuple[str, ...]
    depths: frozenset[str]
    tiles: frozenset[str]
    counts: tuple[Term, ...]  # of tiles


def shape(p: Protocol) -> Shape:
    loops = [part for r in p.roles for part in r.body if isinstance(part, Tiles)]
    depths = {x for t in (*(r.depth for r in p.rings.values()), *p.buffers.values()) for x in t.names()}
    tiles = {x for t in loops for x in t.count.names()}
    return Shape(
        tuple(sorted(p.parameters)), frozenset(depths), frozenset(tiles),
        tuple(dict.fromkeys(t.count for t in loops)),
    )  # fmt: skip


def samples(p: Protocol, rnd: random.Random, many: int) -> list[Sample]:
    """Sizes that meet the facts: small ones, some without any step, some wide ones."""
    s = shape(p)
    found: list[Sample] = []
    bounds = _bounds(p)
    at = _thresholds(p, s, bounds)
    small = [_with(bounds.range(n, s, 3), at[n]) for n in s.names]
    total = 1
    for r in small:
        total *= len(r)
    if total <= 4000:
        picks: list[tuple[int, ...]] = list(itertools.product(*small))
        rnd.shuffle(picks)
    else:
        picks = [tuple(rnd.choice(r) for r in small) for _ in range(2500)]
    for values in picks:
        for kind in range(2):
            e = _sample(p, s, values, rnd, 0 if kind == 0 and rnd.random() < 0.2 else 3)
            if e is not None:
                found.append(e)
        if len(found) >= 3 * many:
            break
    small_ones = len(found)
    spans = (6 if n in s.tiles else 3 if n in s.depths else 9 for n in s.names)
    wide = [_with(bounds.range(n, s, x), at[n]) for n, x in zip(s.names, spans, strict=True)]
    for _ in range(many * 40):
        if len(found) >= 4 * many:
            break
        e = _sample(p, s, tuple(rnd.choice(r) for r in wide), rnd, 7)
        if e is not None:
            found.append(e)
    order = sorted(range(len(found)), key=lambda k: (k if k < small_ones else 3 * (k - small_ones), k))
    return [found[k] for k in order]  # wide ones among the small ones, for not all are always looked at


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the facts say of parameters one by one."""

    least: dict[str, int]
    most: dict[str, int]

    def allows(self, name: str, value: int) -> bool:
        return self.least.get(name, value) <= value <= self.most.get(name, value)

    def range(self, name: str, s: Shape, span: int) -> range:
        """Values to sample a parameter from."""
        low, high = self.least.get(name), self.most.get(name)
        if low is None and high is None:
            low = 1 if name in s.depths else 0 if name in s.tiles else -1
        if low is None:
            assert high is not None
            low = high - span
        top = low + span
        return range(low, (top if high is None else min(top, high)) + 1)


def _bounds(p: Protocol) -> Bounds:
    out = Bounds({}, {})
    for f in p.facts:
        if len(f.parts) != 1:
            continue
        ((a, k),) = f.parts.items()
        if isinstance(a, str):
            if k > 0:
                out.least[a] = max(out.least.get(a, -(10**6)), -(f.const // k))
            else:
                out.most[a] = min(out.most.get(a, 10**6), f.const // -k)
    return out


def _with(some: range, more: Sequence[int]) -> list[int]:
    return [*some, *(x for x in more if x not in some)]


def _thresholds(p: Protocol, s: Shape, bounds: Bounds) -> dict[str, list[int]]:
    """Values of parameters from which on guards on sizes hold, others being as small as they may be: some
    for each parameter, the largest among them, so that a small size executes what is guarded so.
    """
    least = {n: bounds.range(n, s, 0)[0] for n in s.names}
    found: dict[str, set[int]] = {n: set() for n in s.names}
    guards = {c for r in p.roles for ops in _blocks(r.body) for op in ops for c in op.guard}
    for c in guards:
        if c.functions() or not c.names() <= least.keys():
            continue
        here = value(c, least)
        for a, k in c.parts.items():
            if isinstance(a, str) and a not in s.depths and here * k < 0:
                found[a].add(least[a] + -(here // abs(k)) * (1 if k > 0 else -1))
    return {a: _some(sorted(x for x in xs if bounds.allows(a, x))) for a, xs in found.items()}


def _some(values: Sequence[int]) -> list[int]:
    """At most so many, the first and the last among them."""
    if len(values) <= MOST_THRESHOLDS:
        return list(values)
    return [values[i * (len(values) - 1) // (MOST_THRESHOLDS - 1)] for i in range(MOST_THRESHOLDS)]


def _blocks(body: Iterable[Any]) -> Iterator[Block]:
    """The straight code of a role, that of loops included."""
    for part in body:
        if isinstance(part, Loop):
            yield part.body
        elif isinstance(part, Tiles):
            yield from _blocks(part.body)
        else:
            yield part


def _sample(p: Protocol, s: Shape, values: Sequence[int], rnd: random.Random, most: int) -> Sample | None:
    e: Sample = dict(zip(s.names, values, strict=True))
    if not holds((f for f in p.facts if not f.functions()), e):
        return None
    tiles = max([1, *(value(c, e) for c in s.counts)])
    full, fewer = _full(p), _fewer(p)

    def counted(steps: Callable[[bool], Sequence[int]]) -> Sample:
        """Tables of functions; those of fewer steps follow others."""
        own = {f: steps(f in full) for f in p.prefix if f not in fewer}
        own |= {f: [max(k - by, 0) for k in own[g]] for f, (g, by) in fewer.items()}
        return {f: prefix(own[f]) for f in p.prefix}

    e |= counted(lambda some: [rnd.randint(int(some), max(int(some), most)) for _ in range(tiles)])
    for f in p.marks:
        e[f] = mark(rnd.randint(0, 9))
    if any(value(t, e) < 1 for t in (*(r.depth for r in p.rings.values()), *p.buffers.values())):
        return None
    behind = [q.hi for r in p.roles for q in r.body if isinstance(q, Loop) and q.hi.functions()]
    # where schemas fix the trip counts, tables of one number are the likely ones
    tables = [None, *range(most + 3)] if p.schemas else [None]
    for steps in tables:
        if steps is not None:
            e |= counted(lambda _, steps=steps: [steps] * tiles)  # type: ignore[misc]
        every = (value(c, {**e, "x": t}) >= 0 for c in p.schemas for t in range(tiles))
        short = all(e[f](tiles) < MOST_STEPS - 4 for f in p.prefix) and all(
            value(c, e) < MOST_STEPS - 4 for c in behind
        )
        if short and holds((f for f in p.facts if f.functions()), e) and all(every):
            return e
    return None


def _full(p: Protocol) -> set[str]:
    """Functions whose tiles a schema says to have a step at least."""
    x = Term({"x": 1})
    return {f for f in p.prefix if Term({Apply(f, x + 1): 1, Apply(f, x): -1}, -1) in p.schemas}


def _fewer(p: Protocol) -> dict[str, tuple[str, int]]:
    """Functions that schemas make those of others less a number for each tile."""
    x, found = Term({"x": 1}), dict[str, tuple[str, int]]()
    for f, g in itertools.permutations(p.prefix, 2):
        step = Term({Apply(f, x + 1): 1, Apply(f, x): -1, Apply(g, x + 1): -1, Apply(g, x): 1})
        by = [c.const for c in p.schemas if c.parts == step.parts and -c in p.schemas and c.const > 0]
        if by and g not in found:
            found[f] = (g, by[0])
    return found


def events(s: Site, e: Sample) -> list[tuple[int, int]]:
    """All (u, n) of a site in a sample."""
    found: list[tuple[int, int]] = []
    there = executed(s.domain)
    for u in range(MOST_TILES) if s.position.tiles else (0,):
        for n in range(MOST_STEPS) if s.position.loops else (0,):
            if there(e, u, n):
                found.append((u, n))
    return found


def loops(p: Protocol) -> list[Loop]:
    """All loops of a protocol."""
    parts = [q for r in p.roles for b in r.body for q in (b.body if isinstance(b, Tiles) else (b,))]
    return [q for q in parts if isinstance(q, Loop)]


def all_events(p: Protocol, sizes: Sequence[Sample]) -> list[list[list[tuple[int, int]]]]:
    """All (u, n) of each site, in each sample; sites of one domain share the list."""
    sites = places(p)[0]
    out: list[list[list[tuple[int, int]]]] = []
    for e in sizes:
        known: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for s in sites:
            key = (s.domain, s.position.tiles, s.position.loops)
            if key not in known:
                known[key] = events(s, e)
        out.append([known[s.domain, s.position.tiles, s.position.loops] for s in sites])
    return out
