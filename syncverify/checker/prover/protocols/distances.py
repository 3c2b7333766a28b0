"""How many hops lead at least from each operation to where a path has to come, whatever the counters are.

Operations follow each other if their places allow it at all, and hand on to whoever may wait for them.
Counters are not looked at, so that a distance is never too large. Paths that cannot arrive are left, and
those that may arrive soon are followed first.
"""

from __future__ import annotations

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
#: The distance from where paths never arrive.
NEVER = 255
_NUMBER = {Half.IN: 0, Half.OUT: 1, Half.DONE: 2}
_IN, _OUT, _DONE = range(3)


def place(site: int, half: Half, *, ready: bool) -> int:
    """The number of a place: a half of a site, and whether a path has gone through a fence that counts."""
    return 6 * site + 2 * _NUMBER[half] + ready


@dataclass(slots=True)
class Distances:
    """Distances in one graph, by where paths have to come. ``before``: by three times the number of a site
    and that of its half, from where one hop that is no program order may lead there.
    """

    g: Graph
    before: list[list[int]] = field(default_factory=list)
    known: dict[Hashable, bytearray] = field(default_factory=dict)
    earlier: list[int] = field(default_factory=list)
    of_role: list[list[int]] = field(default_factory=list)  # the sites of each role

    def to(self, goal: Reaches) -> bytearray:
        """The least number of hops from each place."""
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

    def _found(self, goal: Reaches, fences: frozenset[Kind]) -> bytearray:
        sites, before = self.g.sites, self._before()
        out = bytearray([NEVER]) * (6 * len(sites))
        queue: list[int] = []  # by distance, the least first
        earlier = self._earlier()
        # sites from which program order has led nowhere yet, without and with a fence, as bits
        open_ = [(1 << len(sites)) - 1] * 2

        def reach(there: int, hops: int) -> None:
            if out[there] == NEVER:
                out[there] = hops
                queue.append(there)

        def lead(k: int, ready: int, hops: int) -> None:
            """From what is before a site in program order."""
            some = open_[ready] & earlier[k]
            open_[ready] ^= some
            while some:
                i = (some & -some).bit_length() - 1
                some &= some - 1
                reach(6 * i + 2 * _IN + ready, hops)
                reach(6 * i + 2 * _OUT + ready, hops)

        for ready in (1,) if goal.demand.bridge else (0, 1):
            if goal.goal is None and goal.half is Half.OUT:
                for i in goal.sites:
                    reach(6 * i + 2 * _OUT + ready, 0)
        for ready in (1,) if goal.demand.bridge else (0, 1):
            for end in goal.sites if goal.goal is None else (goal.goal.site,):
                reach(6 * end + 2 * _IN + ready, 1)
                lead(end, ready, 1)
        for there in queue:  # which grows
            node, bridged = divmod(there, 2)
            site, half = divmod(node, 3)
            kind, hops = sites[site].op.kind, min(out[there] + 1, NEVER - 1)
            for ready in (0, 1) if bridged and kind in fences else (bridged,):
                for x in before[node]:
                    reach(2 * x + ready, hops)
                if kind in LEADS and half == (_IN if kind in (Kind.SYNC, Kind.JOIN) else _OUT):
                    lead(site, ready, hops)
        return out

    def _earlier(self) -> list[int]:
        """For each site, as bits, those of its role that may come before it in program order."""
        if not self.earlier:
            self.earlier = [0] * len(self.g.sites)
            for some in self._sites():
                places = [(1 << i, self.g.sites[i].position) for i in some]
                for k in some:
                    at = self.g.sites[k].position
                    self.earlier[k] = sum(bit for bit, x in places if may_precede(x, at))
        return self.earlier

    def _before(self) -> list[list[int]]:
        if not self.before:
            self.before = [[] for _ in range(3 * len(self.g.sites))]
            for i in range(len(self.g.sites)):
                for a, b in self._hops(i):
                    self.before[b].append(a)
        return self.before

    def _hops(self, i: int) -> Iterator[tuple[int, int]]:
        g, op, at = self.g, self.g.sites[i].op, 3 * i
        yield at + _IN, at + _OUT
        if op.kind in (Kind.COPY, Kind.ASYNC):
            yield at + _OUT, at + _DONE
        if op.kind in (Kind.ARRIVE, Kind.EXPECT, Kind.COPY):
            half = _DONE if op.kind is Kind.COPY else _OUT
            yield from ((at + half, 3 * k + _OUT) for k in g.of(op.ring, (Kind.WAIT,)))
        if op.kind in (Kind.SYNC, Kind.JOIN):
            yield from ((at + _IN, 3 * k + _OUT) for k in g.of(op.ring, (Kind.SYNC,)))
        if op.kind is Kind.ASYNC:
            warps = g.warps[g.sites[i].role]
            for role, some in enumerate(self._sites()):
                for k in some if g.warps[role] == warps else ():
                    if (g.sites[k].op.kind, g.sites[k].op.group) == (Kind.DRAIN, op.group):
                        yield at + _DONE, 3 * k + _OUT

    def _sites(self) -> list[list[int]]:
        """The sites of each role."""
        if not self.of_role:
            self.of_role = [[] for _ in self.g.p.roles]
            for i, s in enumerate(self.g.sites):
                self.of_role[s.role].append(i)
        return self.of_role


def may_precede(x: Position, y: Position) -> bool:
    """Whether an event of one place may come before one of another in program order."""
    if x.segment != y.segment:
        return x.segment < y.segment
    if x.tiles:
        return True
    if x.inner != y.inner:
        return x.inner < y.inner
    return x.loops or x.place <= y.place


__all__ = ["LEADS", "NEVER", "Distances", "may_precede", "place"]
