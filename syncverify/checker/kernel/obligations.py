"""What a protocol owes: O1 to O6, hazards, waits for phases, enumerated from the protocol alone (rule R4).

An obligation has premises and a goal. A tree meets it: under the premises, each leaf's payload has needs that
follow. ``needs`` of a goal says which, and rejects a payload that cannot meet it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import NamedTuple
from typing import Protocol as Interface

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accounting import changes
from syncverify.checker.kernel.hops import (
    CONTRIBUTIONS,
    MEETINGS,
    Demand,
    Drained,
    Graph,
    Half,
    Same,
    Step,
    near,
)
from syncverify.checker.kernel.linear import RejectedError, Term, equal, num
from syncverify.checker.kernel.proof import Along, Follows, Payload, SameEvent
from syncverify.checker.kernel.protocol import N2, U2, Kind, Level, N, Piece, Touch, U
from syncverify.checker.kernel.trees import scoped
from syncverify.model.ordering import Hazard, Need, ordering

_LANDS = {True: MEETINGS, False: CONTRIBUTIONS}
_ASYNCHRONOUS = (Kind.COPY, Kind.ASYNC)


class Goal(Interface):
    """What a leaf of an obligation's tree owes."""

    def needs(self, payload: Payload, scope: frozenset[str]) -> Sequence[Term]: ...


class Constraints(NamedTuple):
    """These constraints follow."""

    terms: tuple[Term, ...]

    def needs(self, payload: Payload, scope: frozenset[str]) -> Sequence[Term]:
        if not isinstance(payload, Follows):
            raise RejectedError("no path is asked for")
        return self.terms


class Reaches(NamedTuple):
    """A path leads from ``start`` to ``goal``; or, without one, to an event of ``sites`` at ``half``, and
    of ``turn`` where that is not None.
    """

    graph: Graph
    start: Step
    demand: Demand
    goal: Step | None = None
    sites: tuple[int, ...] = ()
    half: Half = Half.IN
    turn: Term | None = None

    def needs(self, payload: Payload, scope: frozenset[str]) -> Sequence[Term]:
        if not isinstance(payload, Along) or payload.reverse:
            raise RejectedError("a path is asked for")
        return self.along(payload, scope)

    def along(self, payload: Along, scope: frozenset[str]) -> list[Term]:
        for how, step in payload.path:
            for s in (step, *how.commits) if isinstance(how, Drained) else (step,):
                scoped(self.graph.p, scope, s.u, s.n)
        needs, end = self.graph.path(self.start, payload.path, self.demand)
        if self.goal is not None:
            if end != self.goal:
                raise RejectedError("the path ends elsewhere")
            return needs
        if end.site not in self.sites or end.half is not self.half:
            raise RejectedError("the path ends at no event that is asked for")
        at = [] if self.turn is None else equal(self.graph.turn(end.site, end.u, end.n), self.turn)
        return [*needs, *at]


class Either(NamedTuple):
    """One of two events comes before the other, visibly; or they are one event, where ``same`` allows
    that.
    """

    forth: Reaches
    back: Reaches
    same: bool

    def needs(self, payload: Payload, scope: frozenset[str]) -> Sequence[Term]:
        match payload:
            case SameEvent() if self.same:
                return [*equal(U, U2), *equal(N, N2)]
            case Along(_, reverse):
                return (self.back if reverse else self.forth).along(payload, scope)
        raise RejectedError("no order of the two accesses")


class Observed(NamedTuple):
    """A path leads to ``goal`` from the leave of one of ``waits``, which means ``turn``: its first step."""

    graph: Graph
    waits: tuple[int, ...]
    turn: Term
    goal: Step

    def after(self, start: Step) -> Reaches:
        return Reaches(self.graph, start, Demand(), self.goal)

    def needs(self, payload: Payload, scope: frozenset[str]) -> Sequence[Term]:
        match payload:
            case Along(((Same(), Step(site, Half.OUT, u, n) as start), *path), False) if site in self.waits:
                g = self.graph
                scoped(g.p, scope, u, n)
                waited = [*g.exists(start), *equal(g.turn(site, u, n), self.turn)]
                return [*waited, *self.after(start).along(Along(tuple(path)), scope)]
        raise RejectedError("no path from a wait for the phase before")


class Owed(NamedTuple):
    """``key``: its name in a proof. ``sites``: whom it is about. ``optional``: a proof may leave it out."""

    key: str
    rule: str
    sites: tuple[int, ...]
    premises: tuple[Term, ...]
    goal: Goal
    optional: bool = False


def impossible(premises: Sequence[Term]) -> bool:
    """Whether a premise is a negative number: then nothing is owed."""
    return any(c.const < 0 and not c.parts for c in premises)


def owed(g: Graph, end: Mapping[str, Term]) -> Iterator[Owed]:
    """All obligations but those of accounting and of ranks."""
    for name in g.p.rings:
        yield from _turns(g, name, end[name])
        yield from _life(g, name)
    for name, depth in g.p.buffers.items():
        yield Owed(f"depth buffer {name}", "depth", (), (), Constraints((depth - 1,)))
    yield from _in_flight(g)
    yield from _apart(g)
    yield from _hazards(g)


# ---------------------------------------------------------------- turns


def _turns(g: Graph, ring: str, end: Term) -> Iterator[Owed]:
    """The range of turns, and O1 to O4."""
    r = g.p.rings[ring]
    yield Owed(f"depth {ring}", "depth", (), (), Constraints((r.depth - 1,)))
    lands, waits = g.of(ring, _LANDS[r.named]), g.of(ring, (Kind.WAIT,))
    here = {i: g.turn(i, U, N) for i in (*lands, *waits)}
    for i in lands:
        # who enters a generation that stays open never leaves
        top = end if g.sites[i].op.kind is Kind.SYNC else end + r.depth
        yield _one(g, "in", i, (), Constraints((here[i], top - here[i] - 1)))
    for i in waits:
        if (g.shift.get(i, 0) - g.sites[i].op.parity) % 2:
            raise RejectedError(f"a wait on {ring} names another parity than that of its turn")
        yield _one(g, "means", i, (), Constraints((here[i] + r.depth, end - here[i] - 1)))
    for i in lands:
        start = Step(i, _end(g, i), U, N)
        for rule, others in (("O1", lands), ("O2", waits)):
            for k in others:
                follows = equal(here[i] + r.depth, g.turn(k, U2, N2))
                # a barrier of each warp has its own arrivals
                demand = Demand(level=min(r.level, g.between(i, k)))
                yield _two(g, rule, i, k, follows, Reaches(g, start, demand, Step(k, Half.IN, U2, N2)))
        if g.sites[i].op.kind is Kind.EXPECT:
            arrivals = tuple(g.of(ring, (Kind.ARRIVE,)))
            goal = Reaches(g, Step(i, Half.OUT, U, N), Demand(), None, arrivals, Half.IN, here[i])
            yield _one(g, "O4", i, (end - here[i] - 1,), goal)
    for i in waits:
        after = here[i] + r.depth
        goal = Reaches(g, Step(i, Half.OUT, U, N), Demand(), None, tuple(lands), Half.IN, after)
        yield _one(g, "O3", i, (after, end - after - 1), goal)


def observed(g: Graph) -> Iterator[Owed]:
    """Strictly, somebody has waited for a phase before each arrival of the next one (contested: K14)."""
    strict = g.policy is Policy.STRICT
    for ring in (name for name, r in g.p.rings.items() if strict and not r.named):
        waits = tuple(g.of(ring, (Kind.WAIT,)))
        for i in g.of(ring, (Kind.ARRIVE,)):
            before = g.turn(i, U, N) - g.p.rings[ring].depth
            yield _one(g, "observed", i, (before,), Observed(g, waits, before, Step(i, Half.IN, U, N)))


def _end(g: Graph, site: int) -> Half:
    """The point from which on an event has happened."""
    kind = g.sites[site].op.kind
    return Half.DONE if kind in _ASYNCHRONOUS else Half.IN if kind in MEETINGS else Half.OUT


def _one(g: Graph, rule: str, i: int, more: Sequence[Term], goal: Goal) -> Owed:
    return Owed(f"{rule} {i}", rule, (i,), (*g.exists(Step(i, Half.IN, U, N)), *more), goal)


def _two(g: Graph, rule: str, i: int, k: int, more: Sequence[Term], goal: Goal) -> Owed:
    both = (*g.exists(Step(i, Half.IN, U, N)), *g.exists(Step(k, Half.IN, U2, N2)), *more)
    return Owed(f"{rule} {i} {k}", rule, (i, k), both, goal)


# ---------------------------------------------------------------- lives of barriers and of operations


def _life(g: Graph, ring: str) -> Iterator[Owed]:
    """O5: init before every use and every use before inval, visibly; no barrier is ended twice."""
    r = g.p.rings[ring]
    starts, ends = g.of(ring, (Kind.INIT,)), g.of(ring, (Kind.INVAL,))
    if starts and not r.initialized:
        raise RejectedError(f"{ring} exists from the start, and is initialized")
    uses = g.of(ring, (*CONTRIBUTIONS, Kind.WAIT))
    for i in (*starts, *ends):
        op = g.sites[i].op
        if len(g.threads(i)) > 1 or (op.kind is Kind.INIT and op.count != r.count):
            raise RejectedError(f"{ring}: several threads, or another count, at {op.kind.value}")
        slot = op.index
        yield _one(g, "slot", i, (), Constraints((slot, r.depth - slot - 1)))
    for firsts, seconds in ((starts, [*uses, *ends]), (uses, ends)):
        for i in firsts:
            for k in seconds:
                demand = Demand(causal=True, level=g.between(i, k))
                path = Reaches(g, Step(i, _end(g, i), U, N), demand, Step(k, Half.IN, U2, N2))
                yield _two(g, "O5", i, k, (), path)
    for a, i in enumerate(ends):
        for k in ends[a:]:
            same = equal(g.sites[i].op.index, g.sites[k].op.index.put({"u": U2, "n": N2}))
            alike = (*equal(U, U2), *equal(N, N2)) if i == k else (num(-1),)
            yield _two(g, "once", i, k, same, Constraints(alike))


def _in_flight(g: Graph) -> Iterator[Owed]:
    """O6: every asynchronous operation is over before some wait or drain is left."""
    waits = tuple(i for i, s in enumerate(g.sites) if s.op.kind in (Kind.WAIT, Kind.DRAIN))
    for i, s in enumerate(g.sites):
        if s.op.kind in _ASYNCHRONOUS:
            goal = Reaches(g, Step(i, Half.DONE, U, N), Demand(), None, waits, Half.OUT)
            yield _one(g, "O6", i, (), goal)


def _apart(g: Graph) -> Iterator[Owed]:
    """O8: the warps of a warpgroup meet between two changes of their registers; practically, unless the
    second one changes nothing.
    """
    every = changes(g)
    groups = [(x, y) for r, x in enumerate(every) for q, y in enumerate(every) if g.groups[r] & g.groups[q]]
    for i, k in ((i, k) for x, y in groups for i, k in zip(x, y[1:], strict=False)):
        if g.sites[i].op.count != g.sites[k].op.count or g.policy is Policy.STRICT:
            path = Reaches(
                g, Step(i, Half.OUT, U, N), Demand(level=g.between(i, k)), Step(k, Half.IN, U2, N2)
            )
            yield _two(g, "apart", i, k, (), path)


# ---------------------------------------------------------------- hazards


def _hazards(g: Graph) -> Iterator[Owed]:
    """Accesses to one slot, of which one writes: indices that are equal, or at least a depth apart."""
    peers: dict[str, list[tuple[int, int, Touch, tuple[float, float]]]] = {}  # of a buffer
    for i, s in enumerate(g.sites):
        for a, t in enumerate(s.op.touches):
            peers.setdefault(t.buffer, []).append((i, a, t, _extent(t)))
    for x, (i, a, first, (low, high)) in ((x, q) for some in peers.values() for x, q in enumerate(some)):
        for k, b, second, (start, end) in peers[first.buffer][x:]:
            if high <= start or end <= low:
                continue
            if ordering(first.access, second.access).hazard is Hazard.NONE:
                continue
            if (level := overlap(g, i, first, k, second)) is None:
                continue
            same = (i, a) == (k, b)
            depth = g.p.buffers[first.buffer]
            up = second.slot.put({"u": U2, "n": N2}) - first.slot
            forth = _conflict(g, (i, first, U, N), (k, second, U2, N2), level)
            back = _conflict(g, (k, second, U2, N2), (i, first, U, N), level)
            goal = _goal(g, first, second, Either(forth, back, same and level is Level.THREAD))
            if goal is None:
                continue
            apart = {"later": [up - depth], "earlier": [-up - depth], "equal": [up, -up]}
            for which, more in apart.items():
                if same and which == "earlier":
                    continue  # the same pair as later, with the events exchanged
                found = _two(g, f"hazard {which}", i, k, more, goal)
                yield found._replace(key=f"hazard {which} {i}.{a} {k}.{b}")


def _goal(g: Graph, x: Touch, y: Touch, either: Either) -> Goal | None:
    """Some order of two accesses; that of their versions; none, practically, of writes of one version."""
    if x.version is None or y.version is None:
        return either
    if x.version == y.version:
        alike = x.access.writes and y.access.writes and g.policy is Policy.PRACTICAL
        return None if alike else either
    return either.forth if x.version < y.version else either.back


_Access = tuple[int, Touch, Term, Term]


def _conflict(g: Graph, first: _Access, second: _Access, level: Level) -> Reaches:
    """The row of the ordering table as a path from the first access to the second."""
    (i, x, u, n), (k, y, v, m) = first, second
    row = ordering(x.access, y.access)
    # practically, cp.async needs no fence before accesses of the async proxy
    granted = row.contested == "K6" and g.policy is Policy.PRACTICAL
    bridge = row.need in (Need.BRIDGE, Need.COMPLETION_BRIDGE) and not granted
    demand = Demand(causal=True, level=level, bridge=bridge, by_use=row.contested == "K1")
    start = Step(i, Half.DONE if x.access.asynchronous else Half.OUT, u, n)
    return Reaches(g, start, demand, Step(k, Half.IN, v, m))


def _extent(t: Touch) -> tuple[float, float]:
    """From the first byte of a slot that is touched to the last."""
    lows, highs = ([q[x] for q in t.pieces] if t.pieces else [0] for x in (0, 1))
    return (-inf, inf) if t.pieces is None else (min(lows), max(highs))


def overlap(g: Graph, i: int, x: Touch, k: int, y: Touch) -> Level | None:
    """How near the threads are that share bytes inside the slot, at most; None if no bytes are shared."""
    most = g.between(i, k)
    return most if x.pieces is None or y.pieces is None else _overlap(x.pieces, y.pieces, most, g.p.warp)


@lru_cache(maxsize=4096)
def _overlap(x: tuple[Piece, ...], y: tuple[Piece, ...], most: Level, warp: int) -> Level | None:
    """The same of two sets of bytes; ``most``: how near all threads of both are."""
    found: Level | None = None
    live: tuple[list[_Span], ...] = ([], [])
    for low, high, first, last, side in sorted(_spans(x, 0) + _spans(y, 1)):
        others = live[1 - side]
        others[:] = [q for q in others if q[1] > low]
        for q in others:
            found = max(found or Level.THREAD, near(min(q[2], first), max(q[3], last), warp))
        if found is most:
            return found
        live[side].append((low, high, first, last, side))
    return found


#: Bytes from the first to the last, the first and last thread that touches them, and whose access it is.
_Span = tuple[int, int, int, int, int]


@lru_cache(maxsize=4096)
def _spans(pieces: tuple[Piece, ...], side: int) -> list[_Span]:
    """The pieces, one for equal bytes. Some threads of two spans are as far apart as the first and the last
    of all, and none are farther.
    """
    some: dict[tuple[int, int], list[int]] = {}
    for low, high, thread in pieces:
        some.setdefault((low, high), []).append(thread)
    return sorted((low, high, min(t), max(t), side) for (low, high), t in some.items())
