"""What comparisons say of registers where they have come out one way: behind a branch, or in a selection.

An example: behind ``setp.ge.u32 p, x, 32; @p bra OUT;`` the register ``x`` holds 31 or less. The version that
the comparison has read is meant (``flow/ssa.py``). Every way from where that is written leads through the
comparison and the branch, for each of the three dominates the next. So what was compared last is still held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from syncverify.frontends.ptx.analysis.interval_rules import WORD, Interval, Known
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Not, Operand, Pair, Reg
from syncverify.frontends.ptx.syntax.types import kind, width

#: Comparisons of one order and of the other, and whether equal numbers meet them.
_LESS = {"lt": False, "lo": False, "le": True, "ls": True}
_MORE = {"gt": False, "hi": False, "ge": True, "hs": True}


@dataclass(frozen=True, slots=True)
class Bound:
    """A version lies between two numbers, both included, in the order of a type of so many bits."""

    version: int
    low: int
    high: int
    signed: bool
    bits: int


@dataclass(frozen=True, slots=True)
class _Order:
    """The order of a type: of signed numbers or not, of so many bits."""

    signed: bool
    bits: int

    @property
    def least(self) -> int:
        return -(1 << self.bits - 1) if self.signed else 0

    @property
    def most(self) -> int:
        return (1 << self.bits - self.signed) - 1


Bounds = frozenset[Bound]
NOTHING: Bounds = frozenset()


def bounded(found: Known, version: int, bounds: Bounds) -> Known:
    """An interval of a version, with what is said of it.

    Of what has no other bound, half the order is none: a least number alone bounds nothing.
    """
    for signed in (False, True):
        mine = [b for b in bounds if b.version == version and b.signed == signed]
        if not mine:
            continue
        low, high = max(b.low for b in mine), min(b.high for b in mine)
        half = 1 << min(b.bits for b in mine) - 1
        if found is None:
            small = 0 <= low <= high < min(half, WORD // 2) - signed
            found = Interval(low, high, int(low < high)) if small else None
        elif not signed or low >= 0 or found.high < half:
            found = found.within(max(low, 0), max(high, 0))
    return found


class BranchBounds:
    """``number``: what is known of an operand of an instruction, wherever that stands."""

    def __init__(self, flow: Flow, number: Callable[[Operand, int], Known]) -> None:
        self.flow, self.number = flow, number
        self.in_block = cache(self._in_block)

    def at(self, k: int) -> Bounds:
        """What holds where an instruction is executed."""
        guard = self.flow.body[k].guard
        found = self.in_block(self.flow.block_of[k])
        if guard is None:
            return found
        return found | self.of(guard, k, holds=not self.flow.body[k].negated)

    def of(self, p: Operand, k: int, *, holds: bool) -> Bounds:
        """What holds where a predicate that instruction ``k`` reads is true, or is false."""
        return frozenset(self._of(p, k, holds=holds))

    def _in_block(self, block: int) -> Bounds:
        flow, found = self.flow, set[Bound]()
        while block > 0 and block in flow.reached:
            before = [p for p in flow.blocks[block].pred if p in flow.reached]
            if len(before) == 1 and len(set(flow.blocks[before[0]].succ)) == 2:
                k = flow.blocks[before[0]].hi - 1
                i = flow.body[k]
                if i.op in ("bra", "ret", "exit") and i.guard is not None:
                    taken = flow.blocks[before[0]].succ[0] == block
                    found |= self.of(i.guard, k, holds=taken != i.negated)
            if flow.idom[block] in (block, -1):
                break
            block = flow.idom[block]
        return frozenset(found)

    def _of(self, p: Operand, k: int, *, holds: bool) -> Iterator[Bound]:
        if isinstance(p, Not):
            p, holds = p.reg, not holds
        if not isinstance(p, Reg):
            return
        at = self.flow.versions.writer[self.flow.versions.read(p.name, k)]
        i = self.flow.body[at] if at >= 0 else None
        if i is None or i.guard is not None:
            return
        if i.op == "setp":
            yield from self._compared(i, at, p, holds=holds)
        elif i.op in ("and", "or") and i.mods[-1] == "pred" and holds == (i.op == "and"):
            for x in i.operands[1:]:
                yield from self._of(x, at, holds=holds)
        elif i.op in ("mov", "not") and i.mods[-1] == "pred":
            yield from self._of(i.operands[1], at, holds=holds == (i.op == "mov"))

    def _compared(self, i: Instr, at: int, p: Reg, *, holds: bool) -> Iterator[Bound]:
        """``setp``: its first result is the comparison, its second the opposite; each may be combined."""
        d = i.operands[0]
        opposite = isinstance(d, Pair) and d.first != p
        joined = next((m for m in i.mods[1:-1] if m in ("and", "or", "xor")), None)
        if joined is not None and holds != (joined == "and"):
            return
        if joined == "xor" or (isinstance(d, Pair) and d.first == d.second):
            return
        if joined is not None:
            yield from self._of(i.operands[3], at, holds=holds)
        yield from self._ordered(i, at, holds=holds != opposite)

    def _ordered(self, i: Instr, at: int, *, holds: bool) -> Iterator[Bound]:
        test, type_, a, b = i.mods[0], i.mods[-1], i.operands[1], i.operands[2]
        if kind(type_) not in ("u", "s", "b"):
            return
        order = _Order(kind(type_) == "s", width(type_))
        if test in _MORE:
            a, b, including = b, a, _MORE[test]
        elif test in _LESS:
            including = _LESS[test]
        else:
            if test == ("eq" if holds else "ne"):
                yield from self._bound(a, at, order, self._ends(b, at, order))
                yield from self._bound(b, at, order, self._ends(a, at, order))
            return
        if not holds:  # not a < b: b <= a
            a, b, including = b, a, not including
        low, _ = self._ends(a, at, order)
        _, high = self._ends(b, at, order)
        gap = int(not including)
        yield from self._bound(a, at, order, (order.least, high - gap))
        yield from self._bound(b, at, order, (low + gap, order.most))

    def _bound(self, x: Operand, at: int, order: _Order, ends: tuple[int, int]) -> Iterator[Bound]:
        low, high = ends
        if isinstance(x, Reg) and order.least <= low <= high <= order.most:
            yield Bound(self.flow.versions.read(x.name, at), low, high, order.signed, order.bits)

    def _ends(self, y: Operand, at: int, order: _Order) -> tuple[int, int]:
        """The least and the greatest number that an operand may be, in the order of a type."""
        if isinstance(y, Imm):
            n = y.value & (1 << order.bits) - 1
            n -= (1 << order.bits) if n > order.most else 0
            return n, n
        found = self.number(y, at)
        known = found is not None and found.low >= 0 and found.high <= order.most
        return (found.low, found.high) if found is not None and known else (order.least, order.most)


__all__ = ["NOTHING", "BranchBounds", "Bounds", "bounded"]
