"""Registers that turns of a loop move on by a constant: from where, by how much, how often at most.

Example: ``mov i, 0; L: ...; add i, i, 1; setp.ne p, i, 8; @p bra L;`` moves ``i`` by 1 from 0, seven times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from syncverify.frontends.ptx.analysis.registers.branch_bounds import Bound, Bounds, BranchBounds
from syncverify.frontends.ptx.analysis.registers.interval_rules import WORD, Interval, Known, union
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Reg
from syncverify.frontends.ptx.syntax.types import width

#: Additions of constants that one turn is followed through.
_MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class Moved:
    """A version that a loop's turns move on: a merge at block ``head``. ``first``: the versions that it has
    in the first turn; ``back``: the blocks that come back, each with its version; ``step``: what a turn
    adds."""

    version: int
    head: int
    first: tuple[int, ...]
    back: tuple[tuple[int, int], ...]
    step: int


class Induction:
    """``number``: what is known of a version."""

    def __init__(self, flow: Flow, branches: BranchBounds, number: Callable[[int], Known]) -> None:
        self.flow, self.branches, self.number = flow, branches, number
        self.moved = cache(self._moved)
        self.counters = cache(self._counters)

    def interval(self, v: int, bounds: Bounds) -> Known:
        """What a version may be that the turns of a loop move on; ``bounds``: what holds where it is read."""
        moved = self.moved(v)
        first = None if moved is None else self._first(moved)
        if moved is None or first is None:
            return None
        turns = [n for c in self.counters(moved.head) if (n := self._turns(c, bounds)) is not None]
        if not turns:
            return None
        way = moved.step * min(turns)
        return first.plus(Interval(min(way, 0), max(way, 0), abs(moved.step) if way else 0))

    def _first(self, moved: Moved) -> Known:
        """What is known of a version in the first turn."""
        return union([self.number(v) for v in moved.first])

    def _moved(self, v: int) -> Moved | None:
        versions = self.flow.versions
        head = versions.block[v]
        if versions.writer[v] >= 0 or versions.is_unset(v):
            return None
        merged = versions.merged(v)
        back = tuple((b, w) for b, w in merged if b >= 0 and self.flow.dominates(head, b))
        first = tuple(w for b, w in merged if (b, w) not in back)
        steps = {self._distance(v, w) for _, w in back}
        step = steps.pop() if len(steps) == 1 else None
        return Moved(v, head, first, back, step) if step and first else None

    def _distance(self, v: int, w: int) -> int | None:
        """What has been added to one version to make another."""
        versions, added = self.flow.versions, 0
        for _ in range(_MOST_STEPS):
            if w == v:
                return added
            k = versions.writer[w]
            i = self.flow.body[k] if k >= 0 else None
            if i is None or i.guard is not None or i.op not in ("add", "sub", "mov") or "sat" in i.mods:
                return None
            a, b = (*i.operands[1:], Imm(0))[:2]
            if i.op == "add" and isinstance(a, Imm):
                a, b = b, a
            if not isinstance(a, Reg) or not isinstance(b, Imm):
                return None
            unit = 1 << width(i.mods[-1])
            step = b.value - unit if unit // 2 <= b.value < unit else b.value
            added += step if i.op == "add" else -step
            w = versions.read(a.name, k)
        return None

    def _counters(self, head: int) -> tuple[Moved, ...]:
        """What a loop moves on from a number."""
        versions, inside = self.flow.versions, set[int]().union(*(x for x in self.flow.loops if head in x))
        names = [name for name, blocks in versions.writes.items() if not inside.isdisjoint(blocks)]
        found = (self.moved(versions.entering(name, head)) for name in names)
        return tuple(m for m in found if m is not None and m.head == head)

    def _turns(self, counter: Moved, bounds: Bounds) -> int | None:
        """How many turns there are at most before one, as far as a counter bounds them."""
        first = self._first(counter)
        if first is None or first.low < 0 or first.high >= WORD // 2:
            return None
        behind = [self._last(counter, first, *edge) for edge in counter.back]
        ends = [
            x
            for b in bounds
            if b.version == counter.version and (None not in behind or self._in_each_turn(b, counter))
            if (x := _end(b, counter.step)) is not None
        ]
        if None not in behind:
            ends.append(_latest([x for x in behind if x is not None], counter.step))
        if not ends:
            return None
        far = min(ends) - first.low if counter.step > 0 else first.high - max(ends)
        return max(0, far) // abs(counter.step)

    def _in_each_turn(self, bound: Bound, counter: Moved) -> bool:
        """Whether no turn goes on where a bound does not hold: else the counter may wrap, and be as small as
        the bound says after many more turns."""
        return all(bound in self.branches.in_block(block) for block, _ in counter.back)

    def _last(self, counter: Moved, first: Interval, block: int, w: int) -> int | None:
        """The last number with which a counter comes back from a block."""
        flow, k, step = self.flow, self.flow.blocks[block].hi - 1, counter.step
        guard = flow.body[k].guard
        if guard is None or len(set(flow.blocks[block].succ)) != 2:
            return None
        holds = (flow.blocks[block].succ[0] == counter.head) != flow.body[k].negated
        ahead = {w: 0, counter.version: step}  # what is compared, and what is added to it
        found = [b for b in self.branches.of(guard, k, holds=holds) if b.version in ahead]
        ends = [x + ahead[b.version] for b in found if (x := _end(b, step)) is not None]
        alone = len(counter.back) == 1  # else another way back may pass the number
        until = self._until(guard, k, ahead, holds=holds) if alone else None
        if until is not None and first.low == first.high:
            turns, rest = divmod(until - first.low, step)
            if turns > 0 and not rest:
                ends.append(until - step)
        if not ends:
            return None
        return min(ends) if step > 0 else max(ends)

    def _until(self, p: Reg, k: int, ahead: Mapping[int, int], *, holds: bool) -> int | None:
        """The number at which a loop ends, and no sooner."""
        versions = self.flow.versions
        at = versions.writer[versions.read(p.name, k)]
        i = self.flow.body[at] if at >= 0 else None
        if i is None or i.guard is not None or i.op != "setp" or i.mods[:-1] != ("ne" if holds else "eq",):
            return None
        a, b = i.operands[1:3]
        if i.operands[0] != p or not isinstance(a, Reg) or not isinstance(b, Imm) or b.value >= WORD // 2:
            return None
        more = ahead.get(versions.read(a.name, at))
        return None if more is None else b.value + more


def _end(b: Bound, step: int) -> int | None:
    """The number that a bound lets a counter move on to; None where it is no end for one that moves so."""
    if b.bits < 32:
        return None
    if step > 0:
        return b.high if b.high < WORD // 2 else None
    return b.low if b.signed and b.low > -(WORD // 2) else None


def _latest(ends: list[int], step: int) -> int:
    """The end that is come to last."""
    return max(ends) if step > 0 else min(ends)


__all__ = ["Induction"]
