"""Where threads meet again that went different ways at a branch.

Threads that go different ways at a branch may bring different versions of a register to a block; there a
merge depends on the branch. A label says by which way a block was come to; where two labels meet, the block
*joins* them (Karrenberg and Hack, 2012; Rosemann, Moll and Hack, 2021). Threads are compared in the same
iteration of each loop that both are in: a jump back is the end of an iteration. Where a branch makes some
threads leave a loop and others stay, what the loop leaves behind comes from different iterations
(*temporal* divergence), and all its exits are joins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from syncverify.frontends.ptx.flow.graph import dominators, with_exits
from syncverify.frontends.ptx.flow.spin_blocks import spin_blocks

if TYPE_CHECKING:
    from syncverify.frontends.ptx.flow.control_flow import Flow


@dataclass(frozen=True, slots=True)
class Parting:
    """What a branch parts: the blocks at which its sides meet, and the loops (by number) that threads leave
    in different iterations."""

    joins: frozenset[int]
    loops: frozenset[int]


class Divergence:
    """The partings of a function's branches."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._known: dict[int, Parting] = {}

    def parting(self, branch: int) -> Parting:
        """What the branch that ends a block parts."""
        found = self._known.get(branch)
        if found is None:
            found = self._known[branch] = self._part(branch)
        return found

    @cached_property
    def branches(self) -> list[int]:
        """The blocks that end with a branch of several sides, but for spins that part nobody."""
        return [n for n in sorted(self.flow.reached - self.spins) if len(set(self.flow.blocks[n].succ)) > 1]

    @cached_property
    def spins(self) -> frozenset[int]:
        """The blocks whose jumps to themselves change nothing."""
        return spin_blocks(self.flow)

    @cached_property
    def joined_by(self) -> Mapping[int, tuple[int, ...]]:
        """By block, the branches whose sides meet there."""
        found: dict[int, list[int]] = {}
        for b in self.branches:
            for j in self.parting(b).joins:
                found.setdefault(j, []).append(b)
        return {j: tuple(some) for j, some in found.items()}

    @cached_property
    def left_by(self) -> Mapping[int, tuple[int, ...]]:
        """By loop, the branches by which threads leave it in different iterations."""
        found: dict[int, list[int]] = {}
        for b in self.branches:
            for loop in self.parting(b).loops:
                found.setdefault(loop, []).append(b)
        return {loop: tuple(some) for loop, some in found.items()}

    def deciding(self, loop: int, block: int) -> frozenset[int]:
        """The branches that decide whether, or how often, an iteration of a loop comes to a block: those that
        it is control dependent on where the end of the iteration is the end of the graph."""
        controllers = self._controllers(loop)
        found: set[int] = set()
        work = [block]
        while work:
            for b in controllers.get(work.pop(), ()):
                if b not in found:
                    found.add(b)
                    work.append(b)
        return frozenset(found)

    # ------------------------------------------------------------

    def _controllers(self, loop: int) -> Mapping[int, set[int]]:
        """By block of a loop's iteration, the branches that it is control dependent on."""
        found = self._decided.get(loop)
        if found is not None:
            return found
        inside = sorted(self.flow.loops[loop])
        number = {b: n for n, b in enumerate(inside)}
        end = len(inside)
        head = next(b for b, n in self._heads.items() if n == loop)
        succ = [
            list(
                dict.fromkeys(
                    end if s == head else number.get(s, end)
                    for s in self.flow.blocks[b].succ
                    if s != b or b not in self.spins
                )
            )
            for b in inside
        ] + [[]]
        pred: list[list[int]] = [[] for _ in succ]
        for n, out in enumerate(succ):
            for s in out:
                pred[s].append(n)
        after = dominators(end, with_exits(pred, succ, end), succ)
        found = self._decided[loop] = {}
        for n, b in enumerate(inside):
            for s in succ[n] if len(succ[n]) > 1 else ():
                while s not in (after[n], end) and s >= 0:
                    found.setdefault(inside[s], set()).add(b)
                    s = after[s]
        return found

    @cached_property
    def _decided(self) -> dict[int, Mapping[int, set[int]]]:
        return {}

    @cached_property
    def _heads(self) -> dict[int, int]:
        """The loops by their first block."""
        flow = self.flow
        found: dict[int, int] = {}
        for n, loop in enumerate(flow.loops):
            head = next((b for b in loop if all(flow.dominates(b, x) for x in loop)), -1)
            found[head] = n
        return found

    @cached_property
    def _rank(self) -> dict[int, int]:
        """The reverse post-order of the blocks."""
        blocks = self.flow.blocks
        order: list[int] = []
        seen = {0}
        stack = [(0, iter(blocks[0].succ))] if blocks else []
        while stack:
            b, rest = stack[-1]
            for s in rest:
                if s < len(blocks) and s not in seen:
                    seen.add(s)
                    stack.append((s, iter(blocks[s].succ)))
                    break
            else:
                order.append(b)
                stack.pop()
        return {b: n for n, b in enumerate(reversed(order))}

    @cached_property
    def irreducible(self) -> bool:
        """Whether a jump back leads to no loop's first block: then there are no iterations to compare in."""
        rank = self._rank
        return any(
            s in rank and rank[s] <= rank[b] and not self.flow.dominates(s, b)
            for b in rank
            for s in self.flow.blocks[b].succ
        )

    def _part(self, branch: int) -> Parting:
        if self.irreducible:
            return Parting(frozenset(self.flow.reached), frozenset(range(len(self.flow.loops))))
        forced: set[int] = set()
        loops: set[int] = set()
        while True:
            joins, ends = self._labels(branch, forced)
            more = {n for n, labels in ends.items() if len(labels) > 1} - loops
            if not more:
                return Parting(frozenset(joins), frozenset(loops))
            loops |= more
            forced |= {
                s
                for n in more
                for b in self.flow.loops[n]
                for s in self.flow.blocks[b].succ
                if s not in self.flow.loops[n] and s != self.flow.end
            }

    def _labels(self, branch: int, forced: set[int]) -> tuple[set[int], dict[int, set[int]]]:
        """The blocks where ways meet, and by loop around the branch the labels that its iteration ends with.
        ``forced``: exits of loops that are left in different iterations."""
        found = _Labels(self.flow, self._rank, self._heads, branch, forced)
        found.spread()
        return found.joins, found.ends


class _Labels:
    """By which way blocks are come to from a branch, taken in their order."""

    def __init__(
        self, flow: Flow, rank: Mapping[int, int], heads: Mapping[int, int], branch: int, forced: set[int]
    ) -> None:
        self.flow, self.rank, self.heads, self.branch = flow, rank, heads, branch
        self.label: dict[int, int] = {}
        self.joins = set(forced)
        self.ends: dict[int, set[int]] = {}
        self.jumps: dict[int, set[int]] = {}  # by loop, the labels that come to its first block again
        self._around = [n for n, loop in enumerate(flow.loops) if branch in loop]
        self._work: list[tuple[int, int]] = []
        self._done: set[int] = set()
        for b in sorted(forced):
            self._mark(b, b)
        for s in dict.fromkeys(flow.blocks[branch].succ):
            self._arrive(branch, s, s)

    def spread(self) -> None:
        """Labels all blocks that are come to; the one at which all come together is taken last."""
        stop = self.flow.join(self.branch)
        self._spread_until(stop)
        # who has begun another iteration comes there later than others
        if stop in self.label and any(stop in self.flow.loops[n] for n in self.jumps):
            self._work.append((self.rank[stop], stop))
            self._spread_until(None)

    def _spread_until(self, stop: int | None) -> None:
        """Goes on from the blocks that wait, but from ``stop``."""
        while self._work:
            _, b = heappop(self._work)
            if b in self._done or b == stop:
                continue
            self._done.add(b)
            for s in self.flow.blocks[b].succ:
                self._arrive(b, s, self.label[b])

    def _arrive(self, source: int, block: int, by: int) -> None:
        """A label comes along an edge."""
        if block == self.flow.end:
            return
        if self.rank[block] <= self.rank[source]:
            self._jump_back(block, by)
            return
        for n in self._around:
            if source in self.flow.loops[n] and block not in self.flow.loops[n]:
                self.ends.setdefault(n, set()).add(by)
        if block not in self.label:
            self._mark(block, by)
        elif self.label[block] != by:
            self.label[block] = block
            self.joins.add(block)

    def _jump_back(self, block: int, by: int) -> None:
        """An iteration of a loop ends; one around the branch may be ended by several ways."""
        loop = self.heads[block]
        if self.branch in self.flow.loops[loop]:
            self.ends.setdefault(loop, set()).add(by)
            self.jumps.setdefault(loop, set()).add(by)
            if len(self.jumps[loop]) > 1:
                self.joins.add(block)

    def _mark(self, block: int, by: int) -> None:
        """A block that is come to for the first time."""
        self.label[block] = by
        heappush(self._work, (self.rank[block], block))


__all__ = ["Divergence", "Parting"]
