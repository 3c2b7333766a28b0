"""How far into which shared variables an access may lead whose address is in one of several.

    selp.b32 a, s, t, p;  and.b32 i, x, 15;  mad.lo.u32 a, i, 4, a;  st.shared.u32 [a], ...

leads up to 60 bytes into ``s`` or into ``t``. One interval of both would have all that lies between them.
"""

from __future__ import annotations

from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges
from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.analysis.registers.branch_bounds import NOTHING, Bounds
from syncverify.frontends.ptx.analysis.registers.interval_rules import Interval, Known
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand, Reg, Sym
from syncverify.frontends.ptx.syntax.types import width

#: Steps back that are taken from one address.
_MOST = 256
#: What hands a place on unchanged; its operands that may hold the place.
_SAME = {"mov": (1,), "cvt": (1,), "cvta": (1,), "selp": (1, 2)}
#: Sums, and which of their operands holds the place.
_PLACED = {"add": 0, "sub": 0, "mad": 2}
#: The bits of a place in shared memory: fewer do not hold it.
_PLACE_BITS = 32
#: A variable's symbol, or a version of a register that may hold a place.
_Value = Sym | int
#: Such a value, how far the access is from there, and what is known of registers.
_Step = tuple[_Value, Interval, Bounds]


class ChosenArrays:
    """The offsets of accesses of a function. ``named``: what its addresses name."""

    def __init__(self, named: NamedArrays, ranges: AddressRanges) -> None:
        self.named, self.ranges, self.flow = named, ranges, named.flow

    def of(self, k: int) -> dict[str, Interval] | None:
        """By variable where an access may begin in it, counted from its first byte; None: not known."""
        place = next((x for x in self.flow.body[k].operands if isinstance(x, Mem)), None)
        first = None if place is None else self._value(place.base, k)
        if place is None or first is None:
            return None
        found, seen = dict[str, Interval](), set[tuple[_Value, Interval]]()
        work: list[_Step] = [(first, _one(place.offset), self.ranges.branches.at(k))]
        while work:
            x, more, bounds = work.pop()
            if isinstance(x, Sym):
                here = more.plus(_one(x.offset))
                found[x.name] = here.united(found.get(x.name, here))
            elif (x, more) not in seen:
                seen.add((x, more))
                before = self._before(x, more, bounds)
                if before is None or len(seen) > _MOST:
                    return None
                work += before
        return found

    def _value(self, x: Operand, k: int) -> _Value | None:
        """An operand of instruction ``k`` that may hold a place."""
        if isinstance(x, Sym) and x.name in self.named.sizes:
            return x
        return self.flow.versions.read(x.name, k) if isinstance(x, Reg) else None

    def _before(self, v: int, more: Interval, bounds: Bounds) -> list[_Step] | None:
        """What a version may be made of by one step. Where paths meet, what was compared may be of another
        turn."""
        versions = self.flow.versions
        k = versions.writer[v]
        if k < 0:
            return None if versions.is_unset(v) else [(x, more, NOTHING) for _, x in versions.merged(v)]
        i = self.flow.body[k]
        if i.guard is not None or i.operands[:1] != (Reg(versions.name[v]),):
            return None
        if i.op in _SAME and not (i.op == "cvt" and width(i.mods[-2]) < _PLACE_BITS):
            found = [(self._value(i.operands[n], k), more) for n in _SAME[i.op]]
        else:
            found = self._sum(i, k, more, bounds)
        made = [(x, far, bounds) for x, far in found if x is not None]
        return made if len(made) == len(found) else None

    def _sum(self, i: Instr, k: int, more: Interval, bounds: Bounds) -> list[tuple[_Value | None, Interval]]:
        """The same of a sum, one operand of which holds a place."""
        at = _PLACED.get(i.op)
        xs = list(i.operands[1:])
        if i.op == "add" and not self.named.holds(xs[0], k):
            xs.reverse()
        placed = [n for n, x in enumerate(xs) if self.named.holds(x, k)]
        if at is None or placed != [at] or not {"hi", "cc"}.isdisjoint(i.mods):
            return [(None, more)]
        place = xs.pop(at)
        far = _added(i.op, [self.ranges.operand(x, k, bounds) for x in xs])
        return [(None, more)] if far is None else [(self._value(place, k), more.plus(far))]


def _added(op: str, xs: list[Known]) -> Known:
    """What a sum adds to a place."""
    known = [x for x in xs if x is not None]
    if len(known) < len(xs):
        return None
    if op == "mad":
        number, rest = sorted(known, key=lambda x: x.high - x.low)
        return rest.times(number.low) if number.low == number.high else None
    return Interval(-known[0].high, -known[0].low, known[0].step) if op == "sub" else known[0]


def _one(n: int) -> Interval:
    return Interval(n, n, 0)


__all__ = ["ChosenArrays"]
