"""How many hops lead at least from each operation to where a path has to come, whatever the counters are.

Operations follow each other if their places allow it at all, and hand on to whoever may wait for them.
Counters are not looked at, so that a distance is never too large. Paths that cannot arrive are left, and
those that may arrive soon are followed first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
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
    leading: list[list[int]] = field(default_factory=list)  # sites of each role that may be led on to

    def to(self, goal: Reaches) -> dict[Place, int]:
        """The least number of hops from each place; those that are not there never arrive."""
        at = goal.goal and (goal.goal.site, goal.goal.half)
        fences = self.fences(goal)
        key = (at, goal.sites, goal.half, goal.turn is None, fences)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._found(goal, fences)
        return found

    def fences(self, goal: Reaches) -> frozenset[Kind]:
        """What a path has to go through one of; nothing, if it needs no fence."""
        if self.g.sites[goal.start.site].op.kind is Kind.INIT:
            return frozenset({Kind.INIT_FENCE}) if goal.demand.bridge else frozenset()
        if not goal.demand.bridge:
            return frozenset()
        return frozenset({Kind.FENCE, Kind.USE} if goal.demand.by_use else {Kind.FENCE})

    def _found(self, goal: Reaches, fences: frozenset[Kind]) -> dict[Place, int]:
        before = self._before()
        front: list[Place] = []
        ready = (True,) if fences else (True, False)
        out: dict[Place, int] = {}
        if goal.goal is None and goal.half is Half.OUT:
            front = [(i, Half.OUT, x) for i in goal.sites for x in ready]
            out = dict.fromkeys(front, 0)
        ends = goal.sites if goal.goal is None else (goal.goal.site,)
        some = {(*node, x) for end in ends for node in self._earlier(end) for x in ready}
        last = some - out.keys()
        out |= dict.fromkeys(last, 1)
        queue = deque([*front, *last])  # by distance, the least first
        while queue:
            place = queue.popleft()
            site, half, bridged = place
            fenced = bridged and self.g.sites[site].op.kind in fences
            for node in before.get((site, half), ()):
                for x in (True, False) if fenced else (bridged,):
                    if (*node, x) not in out:
                        out[*node, x] = out[place] + 1
                        queue.append((*node, x))
        return out

    def _earlier(self, end: int) -> Iterator[Node]:
        """Places from which program order may lead to a site, and the other half of the site itself."""
        y = self.g.sites[end]
        yield end, Half.IN
        for i, x in enumerate(self.g.sites):
            if x.role == y.role and may_precede(x.position, y.position):
                yield i, Half.IN
                yield i, Half.OUT

    def _before(self) -> dict[Node, list[Node]]:
        """Places from which one hop may lead to each."""
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
        for k in self._leading(g.sites[i].role):
            if may_precede(g.sites[i].position, g.sites[k].position):
                into = Half.IN if g.sites[k].op.kind in (Kind.SYNC, Kind.JOIN) else Half.OUT
                yield (i, Half.IN), (k, into)
                yield (i, Half.OUT), (k, into)
        if op.kind in (Kind.ARRIVE, Kind.EXPECT, Kind.COPY):
            half = Half.DONE if op.kind is Kind.COPY else Half.OUT
            yield from (((i, half), (k, Half.OUT)) for k in g.of(op.ring, (Kind.WAIT,)))
        if op.kind in (Kind.SYNC, Kind.JOIN):
            yield from (((i, Half.IN), (k, Half.OUT)) for k in g.of(op.ring, (Kind.SYNC,)))
        if op.kind is Kind.ASYNC:
            drains = (k for k, y in enumerate(g.sites) if (y.op.kind, y.op.group) == (Kind.DRAIN, op.group))
            yield from (((i, Half.DONE), (k, Half.OUT)) for k in drains)

    def _leading(self, role: int) -> Sequence[int]:
        if not self.leading:
            self.leading.extend([] for _ in self.g.p.roles)
            for k, y in enumerate(self.g.sites):
                if y.op.kind in LEADS:
                    self.leading[y.role].append(k)
        return self.leading[role]


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
