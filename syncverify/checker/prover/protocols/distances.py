"""How many hops lead at least from each operation to where a path has to come, whatever the counters are.

Operations follow each other if their places allow it at all, and hand on to whoever may wait for them.
Counters are not looked at, so that a distance is never too large. Paths that cannot arrive are left, and
those that may arrive soon are followed first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from syncverify.checker.kernel.hops import Graph, Half
from syncverify.checker.kernel.obligations import Reaches
from syncverify.checker.kernel.protocol import Kind, Position

#: Operations that program order may lead on to.
LEADS = frozenset(
    {
        Kind.ARRIVE, Kind.SYNC, Kind.JOIN, Kind.EXPECT, Kind.COPY, Kind.INIT_FENCE, Kind.FENCE, Kind.USE,
    }
)  # fmt: skip
#: A site, and which half of it.
Node = tuple[int, Half]
#: The same, and whether a path has gone through a fence that counts, where it needs one.
Place = tuple[int, Half, bool]


@dataclass(slots=True)
class Distances:
    """Distances in one graph, by where paths have to come."""

    g: Graph
    before: dict[Node, list[Node]] | None = None
    known: dict[Hashable, dict[Place, int]] = field(default_factory=dict)
    of_role: list[list[int]] = field(default_factory=list)  # the sites of each role

    def to(self, goal: Reaches) -> dict[Place, int]:
        """The least number of hops from each place; those that are not there never arrive."""
        at = goal.goal and (goal.goal.site, goal.goal.half)
        fences = self.fences(goal)
        key = (at, goal.sites, goal.half, goal.turn is None, fences, goal.demand.bridge)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._found(goal, fences)
        return found

    def fences(self, goal: Reaches) -> frozenset[Kind]:
        """What a path goes through one of if it has to, or if that makes inits visible."""
        if self.g.sites[goal.start.site].op.kind is Kind.INIT:
            return frozenset({Kind.INIT_FENCE})
        if not goal.demand.bridge:
            return frozenset()
        return frozenset({Kind.FENCE, Kind.USE} if goal.demand.by_use else {Kind.FENCE})

    def _found(self, goal: Reaches, fences: frozenset[Kind]) -> dict[Place, int]:
        sites, before = self.g.sites, self._before()
        out: dict[Place, int] = {}
        queue: deque[Place] = deque()  # by distance, the least first
        # sites of each role from which program order has led nowhere yet, with and without a fence
        open_ = {x: [list(some) for some in self._sites()] for x in (True, False)}

        def reach(place: Place, hops: int) -> None:
            if place not in out:
                out[place] = hops
                queue.append(place)

        def lead(k: int, hops: int, *, ready: bool) -> None:
            """From what is before a site in program order."""
            at, role = sites[k].position, sites[k].role
            left: list[int] = []
            for i in open_[ready][role]:
                if may_precede(sites[i].position, at):
                    reach((i, Half.IN, ready), hops)
                    reach((i, Half.OUT, ready), hops)
                else:
                    left.append(i)
            open_[ready][role] = left

        ready = (True,) if goal.demand.bridge else (True, False)
        if goal.goal is None and goal.half is Half.OUT:
            for i in goal.sites:
                for x in ready:
                    reach((i, Half.OUT, x), 0)
        for end in goal.sites if goal.goal is None else (goal.goal.site,):
            for x in ready:
                reach((end, Half.IN, x), 1)
                lead(end, 1, ready=x)
        while queue:
            place = queue.popleft()
            site, half, bridged = place
            kind, hops = sites[site].op.kind, out[place] + 1
            for x in (True, False) if bridged and kind in fences else (bridged,):
                for node in before.get((site, half), ()):
                    reach((*node, x), hops)
                if kind in LEADS and half is _entered(kind):
                    lead(site, hops, ready=x)
        return out

    def _before(self) -> dict[Node, list[Node]]:
        """Places from which one hop that is no program order may lead to each."""
        if self.before is None:
            self.before = {}
            for i in range(len(self.g.sites)):
                for a, b in self._hops(i):
                    self.before.setdefault(b, []).append(a)
        return self.before

    def _hops(self, i: int) -> Iterator[tuple[Node, Node]]:
        g, op = self.g, self.g.sites[i].op
        yield (i, Half.IN), (i, Half.OUT)
        if op.kind in (Kind.COPY, Kind.ASYNC):
            yield (i, Half.OUT), (i, Half.DONE)
        if op.kind in (Kind.ARRIVE, Kind.EXPECT, Kind.COPY):
            half = Half.DONE if op.kind is Kind.COPY else Half.OUT
            yield from (((i, half), (k, Half.OUT)) for k in g.of(op.ring, (Kind.WAIT,)))
        if op.kind in (Kind.SYNC, Kind.JOIN):
            yield from (((i, Half.IN), (k, Half.OUT)) for k in g.of(op.ring, (Kind.SYNC,)))
        if op.kind is Kind.ASYNC:
            drains = (k for k, y in enumerate(g.sites) if (y.op.kind, y.op.group) == (Kind.DRAIN, op.group))
            yield from (((i, Half.DONE), (k, Half.OUT)) for k in drains)

    def _sites(self) -> list[list[int]]:
        """The sites of each role."""
        if not self.of_role:
            self.of_role = [[] for _ in self.g.p.roles]
            for i, s in enumerate(self.g.sites):
                self.of_role[s.role].append(i)
        return self.of_role


def _entered(kind: Kind) -> Half:
    """The half of an operation that program order leads on to."""
    return Half.IN if kind in (Kind.SYNC, Kind.JOIN) else Half.OUT


def may_precede(x: Position, y: Position) -> bool:
    """Whether an event of one place may come before one of another in program order."""
    if x.segment != y.segment:
        return x.segment < y.segment
    if x.tiles:
        return True
    if x.inner != y.inner:
        return x.inner < y.inner
    return x.loops or x.place <= y.place


__all__ = ["LEADS", "Distances", "Node", "Place", "may_precede"]
