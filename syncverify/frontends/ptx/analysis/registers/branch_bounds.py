"""What comparisons say of registers where they have come out one way: behind a branch, or in a selection.

An example: behind ``setp.ge.u32 p, x, 32; @p bra OUT;`` the register ``x`` holds 31 or less. The version that
the comparison has read is meant (``flow/ssa.py``). Every way from where that is written leads through the
comparison and the branch, for each of the three dominates the next. So what was compared last is still held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache

from syncverify.frontends.ptx.analysis.registers.interval_rules import WORD, Interval, Known
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Not, Operand, Pair, Reg
from syncverify.frontends.ptx.syntax.types import kind, width

#: Comparisons of one order and of the other, and whether equal numbers meet them.
_LESS = {"lt": False, "lo": False, "le": True, "ls": True}
_MORE = {"gt": False, "hi": False, "ge": True, "hs": True}


class Side(Enum):
    """From which side a comparison bounds a number."""

    BELOW = "below"
    ABOVE = "above"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Bound:
    """A version lies between two numbers, both included, in the order of a type of so many bits. ``side``:
    what the comparison says, also where it compares with what is not known."""

    version: int
    low: int
    high: int
    signed: bool
    bits: int
    side: Side


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

    def keeps(self, found: Interval, low: int, high: int) -> bool:
        """Whether the numbers of an interval that are not from ``low`` to ``high`` are not in the order.

        A number less than 0, as a difference may be, is a great one of an order without signs. With signs a
        great one is less than 0.
        """
        if found.high >= 1 << self.bits:
            return False
        if self.signed:
            return found.low >= self.least and (low >= 0 or found.high <= self.most)
        return found.low >= 0 or found.low + (1 << self.bits) > high


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
        order = _Order(signed, min(b.bits for b in mine))
        if found is None:
            small = 0 <= low <= high < min(1 << order.bits - 1, WORD // 2)
            found = Interval(low, high, int(low < high)) if small else None
        elif order.keeps(found, low, high):
            found = found.within(low, high)
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
        found: set[Bound] = set()
        for p, k, holds in self._branches(block):
            found |= self.of(p, k, holds=holds)
        return frozenset(found)

    def decisions(self, k: int) -> Iterator[tuple[Reg, int, bool]]:
        """The predicates, where they are read, that lead to an instruction if they hold, or do not."""
        i = self.flow.body[k]
        if i.guard is not None:
            yield i.guard, k, not i.negated
        yield from self._branches(self.flow.block_of[k])

    def _branches(self, block: int) -> Iterator[tuple[Reg, int, bool]]:
        """The decisions of branches that lead to a block on every path."""
        flow = self.flow
        while block > 0 and block in flow.reached:
            before = [p for p in flow.blocks[block].pred if p in flow.reached]
            if len(before) == 1 and len(set(flow.blocks[before[0]].succ)) == 2:
                k = flow.blocks[before[0]].hi - 1
                i = flow.body[k]
                if i.op in ("bra", "ret", "exit") and i.guard is not None:
                    taken = flow.blocks[before[0]].succ[0] == block
                    yield i.guard, k, taken != i.negated
            if flow.idom[block] in (block, -1):
                break
            block = flow.idom[block]

    def truth(self, p: Operand, k: int) -> bool | None:
        """What a predicate is where instruction ``k`` reads it, if intervals decide."""
        if isinstance(p, Not):
            found = self.truth(p.reg, k)
            return None if found is None else not found
        at = self.flow.versions.writer[self.flow.versions.read(p.name, k)] if isinstance(p, Reg) else -1
        i = self.flow.body[at] if at >= 0 else None
        if i is None or i.guard is not None or i.mods[-1:] == ():
            return None
        if i.op == "setp":
            return self._setp(i, at, p)
        if i.mods[-1] != "pred" or i.op not in ("and", "or", "not", "mov"):
            return None
        parts = [self.truth(x, at) for x in i.operands[1:]]
        if i.op in ("and", "or"):
            return _joined(i.op, parts)
        return parts[0] if i.op == "mov" or parts[0] is None else not parts[0]

    def _setp(self, i: Instr, at: int, p: Operand) -> bool | None:
        """What ``setp`` brings, if it has one result."""
        joined = [m for m in i.mods[1:-1] if m in ("and", "or", "xor")]
        found = self._holds(i, at) if i.operands[0] == p else None
        if not joined:
            return found
        return _joined(joined[0], [found, self.truth(i.operands[3], at)]) if joined[0] != "xor" else None

    def _holds(self, i: Instr, at: int) -> bool | None:
        """Whether a comparison holds, if the intervals of its operands decide."""
        test, type_ = i.mods[0], i.mods[-1]
        if kind(type_) not in ("u", "s", "b"):
            return None
        order = _Order(kind(type_) == "s", width(type_))
        (low, high), (least, most) = (self._ends(x, at, order) for x in i.operands[1:3])
        if test in ("eq", "ne"):
            apart, same = high < least or most < low, low == high == least == most
            return (test == "ne") == apart if apart or same else None
        if test in _MORE:
            low, high, least, most, including = least, most, low, high, _MORE[test]
        elif test in _LESS:
            including = _LESS[test]
        else:
            return None
        if high < least + including:
            return True
        return False if low >= most + including else None

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
                yield from self._bound(a, at, order, self._ends(b, at, order), Side.BOTH)
                yield from self._bound(b, at, order, self._ends(a, at, order), Side.BOTH)
            return
        if not holds:  # not a < b: b <= a
            a, b, including = b, a, not including
        low, _ = self._ends(a, at, order)
        _, high = self._ends(b, at, order)
        gap = int(not including)
        yield from self._bound(a, at, order, (order.least, high - gap), Side.ABOVE)
        yield from self._bound(b, at, order, (low + gap, order.most), Side.BELOW)

    def _bound(
        self, x: Operand, at: int, order: _Order, ends: tuple[int, int], side: Side
    ) -> Iterator[Bound]:
        low, high = ends
        if isinstance(x, Reg) and order.least <= low <= high <= order.most:
            yield Bound(self.flow.versions.read(x.name, at), low, high, order.signed, order.bits, side)

    def _ends(self, y: Operand, at: int, order: _Order) -> tuple[int, int]:
        """The least and the greatest number that an operand may be, in the order of a type."""
        if isinstance(y, Imm):
            n = y.value & (1 << order.bits) - 1
            n -= (1 << order.bits) if n > order.most else 0
            return n, n
        found = self.number(y, at)
        known = found is not None and found.low >= 0 and found.high <= order.most
        return (found.low, found.high) if found is not None and known else (order.least, order.most)


def _joined(op: str, parts: list[bool | None]) -> bool | None:
    """``and`` or ``or`` of what may not be known."""
    decides = op == "or"
    if decides in parts:
        return decides
    return None if None in parts else not decides


__all__ = ["NOTHING", "BranchBounds", "Bounds", "bounded"]
