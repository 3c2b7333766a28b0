"""Intervals of what one instruction makes of intervals: numbers from a least to a greatest, by a step.

Of 32-bit words also single bits are followed: those that a value may have, and those that it has in any case.
An example: ``shl r, x, 2`` leaves the lower two bits 0, whatever ``x`` is, and ``and r, r, 127`` the upper
ones: so ``r`` is one of 0, 4, ... 124.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.types import kind, width

WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers ``low``, ``low + step``, ... up to ``high``; ``step`` 0: one number."""

    low: int
    high: int
    step: int = 1

    def plus(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high, gcd(self.step, other.step))

    def times(self, n: int) -> Interval:
        return Interval(self.low * n, self.high * n, self.step * n)

    def united(self, other: Interval) -> Interval:
        step = gcd(gcd(self.step, other.step), abs(self.low - other.low))
        return Interval(min(self.low, other.low), max(self.high, other.high), step)

    def within(self, low: int, high: int) -> Interval:
        """Those of its numbers that lie in a range; itself where none does, for then nobody gets there."""
        step = self.step or 1
        first = self.low + max(0, -(-(low - self.low) // step)) * step
        last = self.high if self.high <= high else first + (high - first) // step * step
        if first > last:
            return self
        return Interval(first, last, 0 if first == last else step)


Known = Interval | None
#: The bits that a value may have, and those that it has in any case.
_Bits = tuple[int, int]


def one(n: int) -> Interval:
    """The interval of one number."""
    return Interval(n, n, 0)


def union(some: Sequence[Known]) -> Known:
    """What holds the numbers of all of them."""
    found: Known = some[0] if some else None
    for x in some[1:]:
        found = None if found is None or x is None else found.united(x)
    return found


def result(i: Instr, xs: list[Known]) -> Known:
    """What an instruction makes of its sources; None where nothing is known of it."""
    type_ = i.mods[-1] if i.mods else ""
    rule = _RULES.get(i.op)
    if rule is None or kind(type_) not in ("u", "s", "b"):
        return None
    if kind(type_) == "b" or (kind(type_) == "u" and (i.op in _ORDERING or "wide" in i.mods)):
        whole, sums = one(1 << width(type_)), 2 if "wide" in i.mods else len(xs)  # what is added is wide
        xs = [x.plus(whole) if x is not None and x.high < 0 and n < sums else x for n, x in enumerate(xs)]
    limit = 1 << (width(type_) - (kind(type_) == "s"))
    if i.op != "cvt" and any(x is not None and x.high >= limit for x in xs):
        return _multiples(i, xs)  # it is another number to this instruction
    found = rule(i, xs)
    holds = i.op == "cvt" or "wide" in i.mods or (found is not None and found.high < limit)
    return found if holds else _multiples(i, xs)


def _number(x: Known) -> int | None:
    return x.low if x is not None and x.low == x.high else None


def _multiples(i: Instr, xs: list[Known]) -> Known:
    """What is known of a product of a word that may leave its 32 bits: the powers of two in it stay."""
    n = _number(xs[1]) if i.op in ("mul", "shl") and width(i.mods[-1]) == 32 else None
    if n is None or n <= 0 or (n > 31 if i.op == "shl" else "lo" not in i.mods):
        return None
    step = 1 << n if i.op == "shl" else min(n & -n, WORD // 2)
    return Interval(0, WORD - step, step) if step > 1 else None


# ---------------------------------------------------------------- bits


def _bits(x: Known, w: int) -> _Bits:
    """The bits of the numbers of an interval, of ``w`` bits."""
    if x is None or x.low < 0:
        return (1 << w) - 1, 0
    upper = (1 << (x.low ^ x.high).bit_length()) - 1  # from here on all numbers agree
    lower = (x.step & -x.step) - 1 if x.step else upper  # and up to here
    open_ = upper & ~lower
    return x.low | open_, x.low & ~open_


def _of_bits(may: int, must: int) -> Interval:
    open_ = may & ~must
    return Interval(must, may, open_ & -open_)


def _logic(table: int, xs: Sequence[Known], w: int) -> Interval:
    """A function of single bits, by its truth table (PTX ISA, ``lop3``): bits that may and that must be 1."""
    all_ = (1 << w) - 1
    can = [(all_ & ~must, may) for may, must in (_bits(x, w) for x in xs)]  # be 0, be 1
    ones = zeros = 0
    for n in range(1 << len(xs)):
        met = reduce(int.__and__, (can[k][n >> len(xs) - 1 - k & 1] for k in range(len(xs))))
        ones, zeros = (ones | met, zeros) if table >> n & 1 else (ones, zeros | met)
    return _of_bits(ones, all_ & ~zeros)


def _masked(i: Instr, xs: list[Known]) -> Known:
    found = _logic(0b1000, xs, width(i.mods[-1]))
    highs = [x.high for x in xs if x is not None and x.low >= 0]
    return found.within(0, min(highs)) if highs else None


def _exclusive(i: Instr, xs: list[Known]) -> Known:
    return _logic(0b0110, xs, width(i.mods[-1]))


def _either(i: Instr, xs: list[Known]) -> Known:
    """``or``: the sum where no bit is of both."""
    x, y = xs
    if x is not None and y is not None:
        for a, b in ((x, y), (y, x)):
            lowest = gcd(a.step, a.low)
            if b.high < (lowest & -lowest if lowest else WORD):
                return a.plus(b)
    return _logic(0b1110, xs, width(i.mods[-1]))


def _of_three(i: Instr, xs: list[Known]) -> Known:
    """``lop3``, without a predicate."""
    table = _number(xs[3]) if len(xs) == 4 else None
    return None if table is None else _logic(table, xs[:3], 32)


def _opposite(i: Instr, xs: list[Known]) -> Known:
    """``not`` of a word."""
    x = xs[0]
    if x is None or i.mods[-1:] != ("b32",):
        return None
    return Interval(WORD - 1 - x.high, WORD - 1 - x.low, x.step)


def _inserted(i: Instr, xs: list[Known]) -> Known:
    """``bfi`` of a word: the lower bits of one in those of another."""
    place, count = _number(xs[2]), _number(xs[3])
    if place is None or count is None or i.mods[-1] != "b32":
        return None
    field = ((1 << (count & 255)) - 1 << (place & 255)) & WORD - 1
    (may, must), (may_, must_) = _bits(xs[0], 32), _bits(xs[1], 32)
    shift = place & 255
    return _of_bits(may << shift & field | may_ & ~field, must << shift & field | must_ & ~field)


def _permuted(i: Instr, xs: list[Known]) -> Known:
    """``prmt`` with a constant that picks bytes."""
    picks = _number(xs[2])
    if picks is None or i.mods != ("b32",):
        return None
    both = [low | high << 32 for low, high in zip(_bits(xs[0], 32), _bits(xs[1], 32), strict=True)]
    out = [0, 0]
    for n in range(4):
        pick = picks >> 4 * n & 15
        for k in range(2):
            byte = both[k] >> 8 * (pick & 7) & 255
            out[k] |= (byte if pick < 8 else 255 if byte & 128 else 0) << 8 * n
    return _of_bits(*out)


def _funnel(i: Instr, xs: list[Known]) -> Known:
    n = _number(xs[2])
    if n is None or i.mods[-1] != "b32":
        return None
    n = n & 31 if "wrap" in i.mods else min(n & WORD - 1, 32)
    shift = 32 - n if "l" in i.mods else n
    may, must = (low | high << 32 for low, high in zip(_bits(xs[0], 32), _bits(xs[1], 32), strict=True))
    return _of_bits(may >> shift & WORD - 1, must >> shift & WORD - 1)


def _counted(i: Instr, xs: list[Known]) -> Known:
    """``popc``: of numbers up to 2**n - 1 it is at most n, of those below that less."""
    x = xs[0]
    if x is None or x.low < 0:
        return Interval(0, width(i.mods[-1]))
    return Interval(int(x.low > 0), max(int(x.low > 0), (x.high + 1).bit_length() - 1))


def _leading(i: Instr, xs: list[Known]) -> Known:
    """``clz``: zeros above the greatest bit."""
    x, w = xs[0], width(i.mods[-1])
    if x is None or x.low < 0:
        return Interval(0, w)
    return Interval(w - x.high.bit_length(), w - x.low.bit_length())


def _greatest_bit(i: Instr, xs: list[Known]) -> Known:
    """``bfind`` of an unsigned number that is not 0."""
    x, w = xs[0], width(i.mods[-1])
    if x is None or x.low <= 0 or kind(i.mods[-1]) != "u":
        return None
    low, high = x.low.bit_length() - 1, x.high.bit_length() - 1
    return Interval(w - 1 - high, w - 1 - low) if "shiftamt" in i.mods else Interval(low, high)


def _reversed(i: Instr, xs: list[Known]) -> Known:
    w = width(i.mods[-1])
    may, must = (int(f"{x:0{w}b}"[::-1], 2) for x in _bits(xs[0], w))
    some = int(xs[0] is not None and xs[0].low > 0)
    return Interval(max(must, some), may, 1) if some else _of_bits(may, must)


def _own_lane(i: Instr, xs: list[Known]) -> Known:
    """``match.any`` and ``activemask``: lanes, the own one among them."""
    return Interval(1, WORD - 1) if i.op == "activemask" or "any" in i.mods else None


# ---------------------------------------------------------------- numbers


def _moved(i: Instr, xs: list[Known]) -> Known:
    """``mov``, ``cvta``, and ``cvt``, which cuts what its types do not hold. The bits of a float are not the
    number that it is, and ``cvt.pack`` joins several."""
    x = xs[0]
    if i.op == "cvt" and (len(xs) != 1 or any(map(_is_of_floats, i.mods))):
        return None
    if i.op != "cvt":
        negative = x is not None and x.low < 0 and width(i.mods[-1]) == 32
        return x.plus(one(WORD)) if x is not None and negative else x
    types = [m for m in i.mods if m[:1] in "usb" and m[1:].isdigit()]
    high = x.high if x is not None else WORD
    if any(kind(m) == "s" and high >> (width(m) - 1) for m in types):
        return None
    narrow = min((width(m) for m in types if kind(m) != "s"), default=64)
    if x is not None and not high >> narrow:
        return x
    return Interval(0, (1 << narrow) - 1) if narrow < 32 else None


def _is_of_floats(modifier: str) -> bool:
    return kind(modifier) == "f" and modifier[-1:].isdigit()


def _sum(_: Instr, xs: list[Known]) -> Known:
    return None if xs[0] is None or xs[1] is None else xs[0].plus(xs[1])


def _difference(_: Instr, xs: list[Known]) -> Known:
    x, y = xs
    return None if x is None or y is None else x.plus(Interval(-y.high, -y.low, y.step))


def _product(x: Known, y: Known) -> Known:
    for n, other in ((_number(x), y), (_number(y), x)):
        if n is not None and n >= 0 and other is not None:
            return other.times(n)
    return None


def _multiplied(i: Instr, xs: list[Known]) -> Known:
    if i.mods[0] == "hi":
        return _upper_half(i, xs)
    return _product(xs[0], xs[1]) if i.mods[0] in ("lo", "wide") else None


def _upper_half(i: Instr, xs: list[Known]) -> Known:
    """``mul.hi.u32``; of what is not known it is less than the other factor."""
    if i.mods[-1] != "u32":
        return None
    x, y = (v if v is not None and v.low >= 0 else Interval(0, WORD - 1) for v in xs[:2])
    return Interval(x.low * y.low >> 32, x.high * y.high >> 32)


def _added(i: Instr, xs: list[Known]) -> Known:
    found = _product(xs[0], xs[1]) if i.mods[0] in ("lo", "wide") else None
    return None if found is None or xs[2] is None else found.plus(xs[2])


def _left(i: Instr, xs: list[Known]) -> Known:
    x, by = xs
    if x is None or by is None or by.low < 0 or by.high > 31:
        return None
    n = _number(x)
    if by.low == by.high or n is None:
        return x.times(1 << by.low) if by.low == by.high else None
    if n == WORD - 1 and i.mods[-1] == "b32":  # the bits from one place on
        return Interval(WORD - (1 << by.high), WORD - (1 << by.low))
    return Interval(n << by.low, n << by.high)


def _right(i: Instr, xs: list[Known]) -> Known:
    n = _number(xs[1])
    if n is None or not 0 <= n < 32:
        return None
    if xs[0] is not None:
        return Interval(xs[0].low >> n, xs[0].high >> n)
    unsigned = kind(i.mods[-1]) != "s" and width(i.mods[-1]) == 32
    return Interval(0, (WORD - 1) >> n) if unsigned else None


def _field(i: Instr, xs: list[Known]) -> Known:
    n = _number(xs[2])
    return Interval(0, (1 << n) - 1) if n is not None and 0 < n < 32 and kind(i.mods[-1]) == "u" else None


def _least(i: Instr, xs: list[Known]) -> Known:
    if kind(i.mods[-1]) == "s" and (xs[0] is None or xs[1] is None):
        return None  # what is not known may be less than 0
    some = [x for x in xs if x is not None]
    if not some or any(x.low < 0 for x in some):
        return None
    return Interval(min(x.low for x in some) if len(some) == 2 else 0, min(x.high for x in some))


def _greatest(i: Instr, xs: list[Known]) -> Known:
    """``max``: of signed numbers at least one must be 0 or more."""
    some = [x for x in xs if x is not None and x.low >= 0]
    if not some:
        return None
    most = (1 << width(i.mods[-1]) - (kind(i.mods[-1]) == "s")) - 1
    high = max(x.high for x in some) if None not in xs else most
    return Interval(max(x.low for x in some), high)


def _quotient(i: Instr, xs: list[Known]) -> Known:
    n, x = _number(xs[1]), xs[0]
    if x is None and i.mods[-1] == "u32":
        x = Interval(0, WORD - 1)
    return None if n is None or n <= 0 or x is None or x.low < 0 else Interval(x.low // n, x.high // n)


def _remainder(i: Instr, xs: list[Known]) -> Known:
    n = _number(xs[1])
    if n is None or n <= 0 or (kind(i.mods[-1]) == "s" and xs[0] is None):
        return None
    return Interval(0, n - 1 if xs[0] is None else min(n - 1, xs[0].high))


#: Instructions to which the order of unsigned numbers matters: -1 is the greatest.
_ORDERING = frozenset({"min", "max", "div", "rem"})
_RULES: dict[str, Callable[[Instr, list[Known]], Known]] = {
    "mov": _moved, "cvt": _moved, "cvta": _moved, "and": _masked, "add": _sum, "sub": _difference,
    "mul": _multiplied, "mad": _added, "shl": _left, "shr": _right, "bfe": _field, "min": _least,
    "max": _greatest, "div": _quotient, "rem": _remainder, "selp": lambda _, xs: union(xs[:2]), "or": _either,
    "xor": _exclusive, "lop3": _of_three, "not": _opposite, "bfi": _inserted, "prmt": _permuted,
    "shf": _funnel, "popc": _counted, "clz": _leading, "bfind": _greatest_bit, "brev": _reversed,
    "match": _own_lane, "activemask": _own_lane, "mapa": lambda _, xs: xs[0],
}  # fmt: skip

__all__ = ["WORD", "Interval", "Known", "one", "result", "union"]
