"""Ranks that grow along every edge of enablement: no cycle, so no deadlock (rule R5).

The edges are those of which all others are composed. They stand between neighbouring places of the code, not
between guarded events: a guard costs nothing, and there are about as many as operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from syncverify.checker.kernel.accounting import changes, increases
from syncverify.checker.kernel.hops import CONTRIBUTIONS, MEETINGS, Demand, Graph, Half, Step
from syncverify.checker.kernel.linear import RejectedError, Term, equal, lexicographic, num
from syncverify.checker.kernel.obligations import Owed, Reaches, impossible
from syncverify.checker.kernel.proof import Grows, Payload
from syncverify.checker.kernel.protocol import N2, U2, Group, Kind, N, U

Ranks = Mapping[tuple[int, bool], tuple[Term, ...]]


class Higher(NamedTuple):
    """The second rank is lexicographically larger."""

    low: tuple[Term, ...]
    high: tuple[Term, ...]

    def needs(self, payload: Payload, scope: frozenset[str]) -> Sequence[Term]:
        if not isinstance(payload, Grows):
            raise RejectedError("a level is asked for")
        return list(lexicographic(self.low, self.high, payload.level))


class Around(NamedTuple):
    """A request for registers waits for another change, which ranks lower; or the change comes after it."""

    waits: Higher
    after: Reaches

    def needs(self, payload: Payload, scope: frozenset[str]) -> Sequence[Term]:
        return (self.waits if isinstance(payload, Grows) else self.after).needs(payload, scope)


def asynchronous(g: Graph) -> list[int]:
    """Sites whose events complete on their own."""
    return [i for i, s in enumerate(g.sites) if s.op.kind in (Kind.COPY, Kind.ASYNC)]


def growing(g: Graph, ranks: Ranks) -> Iterator[Owed]:
    """That the rank grows along each edge."""
    wanted = {(i, False) for i in range(len(g.sites))} | {(i, True) for i in asynchronous(g)}
    if set(ranks) != wanted or len({len(r) for r in ranks.values()}) > 1:
        raise RejectedError("ranks of other sites, or of different lengths")
    names, functions = {"u", "n"} | g.p.parameters, {*g.p.prefix, *g.p.marks}
    for terms in ranks.values():
        for t in terms:
            if not t.names() <= names or not t.functions() <= functions:
                raise RejectedError(f"the rank {t} is no function of the event")

    @cache
    def rank(s: Step) -> tuple[Term, ...]:
        # leaving an operation comes right after entering it
        own = ranks[s.site, s.half is Half.DONE]
        if s.u is not U or s.n is not N:
            own = tuple(t.put({"u": s.u, "n": s.n}) for t in own)
        return (*own, num(1 if s.half is Half.OUT else 0))

    def edge(key: str, sites: tuple[int, ...], given: Sequence[Term], a: Step, b: Step) -> Owed:
        return Owed(f"rank {key}", "rank", sites, tuple(given), Higher(rank(a), rank(b)))

    for number, flow in enumerate(g.flows):
        (i, u, n), (k, v, m) = flow.start, flow.goal
        yield edge(f"flow {number}", (i, k), flow.given, Step(i, Half.OUT, u, n), Step(k, Half.IN, v, m))
    for i in asynchronous(g):
        out, done = Step(i, Half.OUT, U, N), Step(i, Half.DONE, U, N)
        yield edge(f"issue {i}", (i,), g.exists(out), out, done)
    for i, k in _meeting(g):
        a, b = Step(i, _contributes(g, i), U, N), Step(k, Half.OUT, U2, N2)
        given = (*g.exists(a), *g.exists(b), *equal(g.turn(i, U, N), g.turn(k, U2, N2)))
        yield edge(f"turn {i} {k}", (i, k), given, a, b)
    yield from (
        edge(f"drain {i} {t} {k} {lev}", (i, k), given, a, b) for i, t, k, lev, given, a, b in _drains(g)
    )
    for i, k in pool(g):
        a, b = Step(i, Half.IN, U, N), Step(k, Half.OUT, U2, N2)
        after = Reaches(g, b, Demand(level=g.between(i, k)), a)
        given, goal = (*g.exists(a), *g.exists(b)), Around(Higher(rank(a), rank(b)), after)
        yield Owed(f"registers {i} {k}", "registers", (i, k), given, goal, optional=True)


def _meeting(g: Graph) -> Iterator[tuple[int, int]]:
    """Contributions and waits of one ring, arrivals and leaves of one barrier."""
    for i, x in enumerate(g.sites):
        for k in g.of(x.op.ring, (Kind.WAIT, Kind.SYNC)) if x.op.ring else ():
            waits = x.op.kind in CONTRIBUTIONS and g.sites[k].op.kind is Kind.WAIT
            # who enters itself leaves later anyway
            leaves = x.op.kind in MEETINGS and g.sites[k].op.kind is Kind.SYNC and i != k
            if waits or leaves:
                yield i, k


def _contributes(g: Graph, site: int) -> Half:
    kind = g.sites[site].op.kind
    return Half.DONE if kind is Kind.COPY else Half.IN if kind in MEETINGS else Half.OUT


def _drains(g: Graph) -> Iterator[tuple[int, int, int, int, list[Term], Step, Step]]:
    """Every completion comes before every later drain of its groups: more edges than there are."""
    drains: dict[tuple[int, Group | None], list[int]] = {}
    for k, y in enumerate(g.sites):
        if y.op.kind is Kind.DRAIN:
            drains.setdefault((y.role, y.op.group), []).append(k)
    called: dict[str, list[int]] = {}
    for t, y in enumerate(g.sites):
        called.setdefault(y.op.label, []).append(t)
    for i, x in enumerate(g.sites):
        if x.op.kind is not Kind.ASYNC:
            continue
        # warps of one warpgroup execute one wgmma, which is over when all have committed it
        twins = [t for t in called[x.op.label] if x.op.label and g.groups[x.role] & g.groups[g.sites[t].role]]
        for t in sorted({i, *twins}) if x.op.group is Group.WGMMA else [i]:
            for k in drains.get((g.sites[t].role, x.op.group), ()):
                done, drain = Step(i, Half.DONE, U, N), Step(k, Half.OUT, U2, N2)
                low, high = g.position(Step(t, Half.OUT, U, N)), g.position(drain)
                for level in range(len(low)):
                    even = [c for a, b in zip(low[:level], high[:level], strict=True) for c in equal(a, b)]
                    given = [*g.exists(done), *g.exists(drain), *even, high[level] - low[level] - 1]
                    if not impossible(given):
                        yield i, t, k, level, given, done, drain


def pool(g: Graph) -> Iterator[tuple[int, int]]:
    """Every other change of registers, with each that asks for more."""
    every = [i for some in changes(g) for i in some]
    yield from ((i, k) for k in increases(g) for i in every if i != k)
