"""Steps from event to event, and paths of them: the edges of the run that the turns describe.

The graph of that run is never enumerated. A path names its steps by terms; ``Graph.path`` gives the
constraints under which its hops are edges (rule R3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.linear import ZERO, RejectedError, Term, equal, lexicographic, num
from syncverify.checker.kernel.protocol import Flow, Group, Kind, Level, Protocol, Site, exists, places

#: What lands in a phase of an mbarrier.
CONTRIBUTIONS = (Kind.ARRIVE, Kind.EXPECT, Kind.COPY)
#: What lands in a generation of an execution barrier.
MEETINGS = (Kind.SYNC, Kind.JOIN)


class Half(Enum):
    """A point of an event: entered, left, and for an asynchronous one, complete."""

    __hash__ = object.__hash__

    IN = "in"
    OUT = "out"
    DONE = "done"


class Step(NamedTuple):
    """A point of the event (site, u, n)."""

    site: int
    half: Half
    u: Term
    n: Term


@dataclass(frozen=True, slots=True)
class Program:
    """Program order, decided at this level of the position."""

    level: int


@dataclass(frozen=True, slots=True)
class Same:
    """From a point of an event to a later one of it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """From a contribution to a wait of its turn, or from an arrival to a leave of its generation."""


@dataclass(frozen=True, slots=True)
class Drained:
    """From a completion to the drain that waits for its group.

    ``commits``: as many commits as the drain leaves pending, and one more, between issue and drain;
    ``levels`` of program order from the issue to the first, and so on to the drain. ``twin``: the site of
    the same collective instruction in the role that drains.
    """

    commits: tuple[Step, ...]
    levels: tuple[int, ...]
    twin: int | None = None


How = Program | Same | Turn | Drained
Path = tuple[tuple[How, Step], ...]


class Demand(NamedTuple):
    """What a path must be. ``level``: which threads it must reach. ``bridge``: through a proxy fence, or,
    where ``by_use``, from the first use of what was read.
    """

    causal: bool = False
    level: Level = Level.THREAD
    bridge: bool = False
    by_use: bool = False


def near(a: int, b: int, warp: int) -> Level:
    """The level of two threads: the smallest unit that holds both. ``warp``: lanes of one."""
    if a == b:
        return Level.THREAD
    if a // warp == b // warp:
        return Level.WARP
    return Level.WARPGROUP if a // (4 * warp) == b // (4 * warp) else Level.ALL


class Graph:
    """A protocol's events under the turns of a proof. ``shift``: by site, depths that are added to the
    index of a contribution, or taken off that of a wait.
    """

    def __init__(self, p: Protocol, shift: Mapping[int, int], policy: Policy = Policy.PRACTICAL) -> None:
        self.p = p
        self.policy = policy
        self.shift = shift
        self.sites: tuple[Site, ...]
        self.flows: tuple[Flow, ...]
        self.sites, self.flows = places(p)
        self.ends = [(min(r.threads), max(r.threads)) for r in p.roles]
        self.warps = [frozenset(t // p.warp for t in r.threads) for r in p.roles]
        self.groups = [frozenset(w // 4 for w in some) for some in self.warps]
        self.on: dict[str, list[int]] = {}
        for i, s in enumerate(self.sites):
            self.on.setdefault(s.op.ring, []).append(i)
        self.there: dict[tuple[int, Term, Term], tuple[Term, ...]] = {}  # what makes events exist
        self.turns: dict[tuple[int, Term, Term], Term] = {}

    # ---------------------------------------------------------------- events

    def of(self, ring: str, kinds: Iterable[Kind]) -> list[int]:
        return [i for i in self.on.get(ring, ()) if self.sites[i].op.kind in kinds]

    def exists(self, step: Step) -> tuple[Term, ...]:
        key = (step.site, step.u, step.n)
        found = self.there.get(key)
        if found is None:
            found = self.there[key] = tuple(exists(self.sites[step.site], step.u, step.n))
        return found

    def turn(self, site: int, u: Term, n: Term) -> Term:
        """The turn that a contribution lands in or a wait means: phase ``turn div depth`` of its slot."""
        key = (site, u, n)
        if key not in self.turns:
            op, depths = self.sites[site].op, self.shift.get(site, 0)
            moved = -depths if op.kind is Kind.WAIT else depths
            self.turns[key] = op.index.put({"u": u, "n": n}) + self.p.rings[op.ring].depth * moved
        return self.turns[key]

    def threads(self, site: int) -> tuple[int, ...]:
        return self.p.roles[self.sites[site].role].threads

    def position(self, step: Step) -> list[Term]:
        at = self.sites[step.site].position
        return [
            num(at.segment), step.u if at.tiles else ZERO, num(at.inner), step.n if at.loops else ZERO,
            num(at.place), num(0 if step.half is Half.IN else 1),
        ]  # fmt: skip

    def between(self, a: int, b: int) -> Level:
        """The level that holds every pair of a thread of one site and one of another."""
        (first, last), (start, end) = self.ends[self.sites[a].role], self.ends[self.sites[b].role]
        low, high = min(first, start), max(last, end)
        return Level.THREAD if low == high else max(Level.WARP, near(low, high, self.p.warp))

    # ---------------------------------------------------------------- hops

    def order(self, a: Step, b: Step, level: int) -> list[Term]:
        """When a is before b in program order, and b exists."""
        if Half.DONE in (a.half, b.half) or self.sites[a.site].role != self.sites[b.site].role:
            raise RejectedError("no program order between these")
        return [*lexicographic(self.position(a), self.position(b), level), *self.exists(b)]

    def hop(self, a: Step, b: Step, how: How, reach: Level, causal: bool) -> tuple[list[Term], Level]:
        """When the hop is an edge, and which threads of the role of ``b`` it reaches.

        ``reach``: the threads of the role of ``a`` that the path holds for: those in one unit with the thread
        that it starts with. ``causal``: it must make accesses visible.
        """
        match how:
            case Program(level):
                return self.order(a, b, level), reach
            case Same():
                return self._same(a, b, causal), reach
            case Turn() if self.sites[b.site].op.kind is Kind.WAIT:
                return self._waited(a, b, causal), Level.ALL
            case Turn():
                return self._met(a, b, causal), max(reach, self.p.rings[self.sites[b.site].op.ring].level)
            case Drained():
                return self._drained(a, b, how, reach)

    def _same(self, a: Step, b: Step, causal: bool) -> list[Term]:
        # a causal path comes to no completion: one shows its own accesses only, as the start of a path
        issued = self.sites[a.site].op.kind in (Kind.COPY, Kind.ASYNC) and not causal
        allowed = [(Half.IN, Half.OUT)] + [(Half.OUT, Half.DONE)] * issued
        if a.site != b.site or (a.half, b.half) not in allowed:
            raise RejectedError("not the same event")
        return [*equal(a.u, b.u), *equal(a.n, b.n)]

    def _waited(self, a: Step, b: Step, causal: bool) -> list[Term]:
        x, y = self.sites[a.site].op, self.sites[b.site].op
        ends = Half.DONE if x.kind is Kind.COPY else Half.OUT
        if x.kind not in CONTRIBUTIONS or x.ring != y.ring or (a.half, b.half) != (ends, Half.OUT):
            raise RejectedError("no contribution to the wait's ring")
        if causal and (x.kind is Kind.EXPECT or not x.synchronizes or not y.synchronizes):
            raise RejectedError("the wait makes nothing of this visible")
        return [*self.exists(b), *equal(self.turn(a.site, a.u, a.n), self.turn(b.site, b.u, b.n))]

    def _met(self, a: Step, b: Step, causal: bool) -> list[Term]:
        x, y = self.sites[a.site].op, self.sites[b.site].op
        if x.kind not in MEETINGS or y.kind is not Kind.SYNC or x.ring != y.ring:
            raise RejectedError("no arrival at the barrier that is left")
        if (a.half, b.half) != (Half.IN, Half.OUT):
            raise RejectedError("a barrier orders from its arrivals to its leaves")
        ring = self.p.rings[x.ring]
        if causal and not (ring.visible and x.synchronizes and y.synchronizes):
            raise RejectedError("this barrier makes nothing visible")
        if ring.level is not Level.ALL and not self._warps_equal(a.site, b.site):
            raise RejectedError("the roles are not of the same warps")
        return [*self.exists(b), *equal(self.turn(a.site, a.u, a.n), self.turn(b.site, b.u, b.n))]

    def _drained(self, a: Step, b: Step, how: Drained, reach: Level) -> tuple[list[Term], Level]:
        x, y = self.sites[a.site].op, self.sites[b.site].op
        if x.kind is not Kind.ASYNC or y.kind is not Kind.DRAIN or x.group is not y.group:
            raise RejectedError("no drain of the operation's group")
        if (a.half, b.half) != (Half.DONE, Half.OUT):
            raise RejectedError("a drain shows completions only, and those of its own groups")
        issued = a.site
        if how.twin is not None:
            issued = how.twin
            self._twins(a.site, issued)
        chain = [Step(issued, Half.OUT, a.u, a.n), *how.commits, b]
        of_group = (Kind.COMMIT, Half.OUT, x.group)
        for c in how.commits:
            op = self.sites[c.site].op
            if (op.kind, c.half, op.group) != of_group:
                raise RejectedError("no commit of the operation's group")
        if len(how.commits) != y.count + 1 or len(how.levels) != len(chain) - 1:
            raise RejectedError("another number of groups than the drain leaves pending")
        needs: list[Term] = []
        for s, t, level in zip(chain, chain[1:], how.levels, strict=False):
            needs += self.order(s, t, level)
        if x.group is Group.WGMMA:
            # the warps of a warpgroup execute one wgmma: strictly, each waits for its own part
            reach = max(reach, Level.WARP if self.policy is Policy.STRICT else Level.WARPGROUP)
        return needs, reach

    def _twins(self, a: int, b: int) -> None:
        x, y = self.sites[a], self.sites[b]
        if not x.op.label or x.op.label != y.op.label or x.op.group is not Group.WGMMA:
            raise RejectedError("not the same collective instruction")
        if y.op.kind is not Kind.ASYNC or y.op.group is not x.op.group or not self._warps_equal(a, b):
            raise RejectedError("not the same warps")

    def _warps_equal(self, a: int, b: int) -> bool:
        return self.warps[self.sites[a].role] == self.warps[self.sites[b].role]

    # ---------------------------------------------------------------- paths

    def path(self, start: Step, path: Path, demand: Demand) -> tuple[list[Term], Step]:
        """When the path is one of edges that meets the demand, and where it ends."""
        needs: list[Term] = []
        reach, here = Level.THREAD, start
        # whether the path is still at its first thread, and whether a fence there has released its inits
        own, released = True, False
        bridged = not demand.bridge or (
            demand.by_use and self.policy is Policy.PRACTICAL and self._used(start, path)
        )
        for how, step in path:
            if not 0 <= step.site < len(self.sites):
                raise RejectedError("no such site")
            if demand.causal and not self.hands_on(start, here, how):
                raise RejectedError("a release of block scope shows another block no generic accesses")
            causal = demand.causal and not (own and released and self._meets(here, step, how))
            more, reach = self.hop(here, step, how, reach, causal)
            needs += more
            own &= isinstance(how, Program | Same)
            released |= own and self._releases(start, step)
            fence = self.sites[step.site].op.kind is Kind.FENCE and step.half is Half.OUT
            # strictly, a fence bridges what its own thread did; one of a block's memory, what happened there
            near = own if self.sites[step.site].op.narrow else self.policy is Policy.PRACTICAL
            bridged |= fence and (reach is Level.THREAD or near)
            here = step
        if reach < demand.level:
            raise RejectedError("the path does not lead from every thread to every thread")
        if not bridged:
            raise RejectedError("no proxy fence on the path")
        return needs, here

    def hands_on(self, start: Step, a: Step, how: How) -> bool:
        """Whether an arrival that the path leaves may make the start's accesses visible (contested: K4)."""
        practical = self.policy is Policy.PRACTICAL and start.half is Half.DONE
        return practical or not (isinstance(how, Turn) and self.sites[a.site].op.narrow)

    def _meets(self, a: Step, b: Step, how: How) -> bool:
        x, y = self.sites[a.site].op, self.sites[b.site].op
        both = x.kind is Kind.SYNC and y.kind is Kind.SYNC and x.ring == y.ring
        return isinstance(how, Turn) and both and self.p.rings[x.ring].visible

    def _releases(self, start: Step, step: Step) -> bool:
        kinds = self.sites[start.site].op.kind, self.sites[step.site].op.kind
        return kinds == (Kind.INIT, Kind.INIT_FENCE) and step.half is Half.OUT

    def _used(self, start: Step, path: Path) -> bool:
        """Whether the path begins at the first use of what the accesses of ``start`` read (contested: K1)."""
        if not path or start.half is not Half.OUT:
            return False
        how, step = path[0]
        x, y = self.sites[start.site], self.sites[step.site]
        same = x.role == y.role and (start.u, start.n) == (step.u, step.n)
        uses = y.op.kind is Kind.USE and bool(x.op.label) and x.op.label == y.op.label
        return isinstance(how, Program) and same and uses and step.half is Half.OUT
