"""Bytes that an address of shared memory may reach, where data makes it and the kernel bounds the data.

Of shared memory of a cluster the bytes are those of some CTA: ``mapa`` keeps them.

An interval of a value follows from masks, narrow loads, shifts, remainders, minima, and arithmetic on these
with constants. Nothing is known of a value that may leave its 32 bits on the way, or that a loop makes of
itself. An example: of ``and r, x, 31; shl r, r, 2; mov b, bins; add r, r, b`` the interval is that of 32
words from ``bins`` on, whatever ``x`` is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.operands import sources
from syncverify.frontends.ptx.syntax.types import kind, width

_WORD = 1 << 32
#: The place of a shared variable, among versions.
_PLACE = -1


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


Known = Interval | None


@dataclass(frozen=True, slots=True)
class Reached:
    """The ``places`` that an address may be, as far as the kernel bounds them. ``based``: it is made of the
    place of a shared variable, among other things. ``apart``: by how many bytes the places of lanes of one
    access differ at least; 0: not known. ``ranks``: of the CTA, by each ``mapa`` on the way."""

    places: Known
    based: bool
    apart: int = 0
    ranks: tuple[Known, ...] = ()


#: Of an access of which nothing is known.
ANYWHERE = Reached(None, based=True)


def _one(n: int) -> Interval:
    return Interval(n, n, 0)


#: The lanes on one side of the own one.
_LANEMASKS = {
    "%lanemask_lt": Interval(0, _WORD // 2 - 1),
    "%lanemask_le": Interval(1, _WORD - 1),
    "%lanemask_gt": Interval(0, _WORD - 2),
    "%lanemask_ge": Interval(_WORD // 2, _WORD - 1),
    "%lanemask_eq": Interval(1, _WORD // 2),
}


class AddressRanges:
    """Intervals of a function's registers in one warp, or in all of a block. ``shared``: the places of its
    variables. ``block``: its shape."""

    def __init__(
        self, flow: Flow, shared: Mapping[str, int], block: Sequence[int], warp: int | None = None
    ) -> None:
        self.flow, self.shared = flow, shared
        wide, high, deep = block
        every = wide * high * deep
        threads = range(every) if warp is None else range(32 * warp, min(32 * warp + 32, every))
        places = [(t % wide, t // wide % high, t // (wide * high)) for t in threads]
        self.specials = {
            f"%tid.{axis}": Interval(min(at), max(at))
            for axis, at in zip("xyz", zip(*places, strict=True), strict=True)
        }
        self.specials["%laneid"] = Interval(0, min(len(threads), 32) - 1)
        self.specials |= _LANEMASKS
        self._versions: dict[int, Known] = {}

    def reached(self, k: int) -> Reached:
        """Where an access to shared memory may begin."""
        place = next((x for x in self.flow.body[k].operands if isinstance(x, Mem)), None)
        if place is None:
            return ANYWHERE
        base = self._of(place.base, k)
        places = None if base is None else base.plus(_one(place.offset))
        return Reached(places, self._holds_place(place.base, k), ranks=self._ranks(place.base, k))

    def operand(self, x: Operand, k: int) -> Known:
        """What an operand may be where an instruction reads it."""
        return self._of(x, k)

    def _ranks(self, x: Operand, k: int) -> tuple[Known, ...]:
        """The ranks that the ``mapa`` of an address may name."""
        if not isinstance(x, Reg):
            return ()
        made = self._makers(self.flow.versions.read(x.name, k))
        at = sorted({w for v in made if (w := self.flow.versions.writer[v]) >= 0})
        maps = [j for j in at if self.flow.body[j].op == "mapa"]
        return tuple(self._of(self.flow.body[j].operands[2], j) for j in maps)

    def _holds_place(self, x: Operand, k: int) -> bool:
        """Whether a value is made of a variable's place on each path (the greatest solution)."""
        if isinstance(x, Sym):
            return x.name in self.shared
        if not isinstance(x, Reg):
            return False
        first = self.flow.versions.read(x.name, k)
        made = self._makers(first)
        holds = dict.fromkeys(made, True)
        changed = True
        while changed:
            before = dict(holds)
            for v, (of, each) in made.items():
                holds[v] = (all if each else any)(holds.get(m, m == _PLACE) for m in of)
            changed = holds != before
        return holds[first]

    def _makers(self, first: int) -> dict[int, tuple[list[int], bool]]:
        """By version what it is made of, ``_PLACE`` for a variable's place; and whether it is one of them."""
        versions, found, work = self.flow.versions, {}, [first]
        while work:
            v = work.pop()
            if v in found:
                continue
            k = versions.writer[v]
            if k < 0:
                merged = [m for _, m in versions.merged(v)]
                found[v] = merged, bool(merged)  # what nobody wrote is no place
            elif self.flow.body[k].op == "ld":  # what was kept in local memory may be such a place
                outside = {"global", "shared", "shared::cta", "shared::cluster"} & set(self.flow.body[k].mods)
                found[v] = [] if outside else [_PLACE], False
            else:
                i = self.flow.body[k]
                named = any(isinstance(y, Sym) and y.name in self.shared for y in i.operands[1:])
                found[v] = [_PLACE] if named else [versions.read(name, k) for name in sources(i)], False
            work += [m for m in found[v][0] if m != _PLACE]
        return found

    def _of(self, x: Operand, k: int) -> Known:
        match x:
            case Imm(value):
                return _one(value)
            case Sym(name, offset) if name in self.shared:
                return _one(self.shared[name] + offset)
            case Special(name):
                return self.specials.get(name)
            case Reg(name):
                return self._version(self.flow.versions.read(name, k))
        return None

    def _version(self, v: int) -> Known:
        if v in self._versions:
            return self._versions[v]
        self._versions[v] = None  # of what it makes itself, nothing is known
        self._versions[v] = found = self._made(v)
        return found

    def _made(self, v: int) -> Known:
        versions = self.flow.versions
        k = versions.writer[v]
        if k < 0:
            return None if versions.is_unset(v) else _union([self._version(x) for _, x in versions.merged(v)])
        i = self.flow.body[k]
        found = self._result(i, k) if i.operands[:1] == (Reg(versions.name[v]),) else None
        if i.guard is not None:
            found = _union([found, self._version(versions.read(versions.name[v], k))])
        return found if found is not None and 0 <= found.low and found.high < _WORD else None

    def _result(self, i: Instr, k: int) -> Known:
        type_ = i.mods[-1] if i.mods else ""
        if i.op in ("ld", "ldu"):
            narrow = kind(type_) in "ub" and width(type_) < 32
            return Interval(0, (1 << width(type_)) - 1) if narrow else None
        rule = _RULES.get(i.op)
        if rule is None or kind(type_) not in ("u", "s", "b"):
            return None
        xs = [self._of(x, k) for x in i.operands[1:]]
        if type_ == "b32":
            xs = [x.plus(_one(_WORD)) if x is not None and x.high < 0 else x for x in xs]
        limit = 1 << (width(type_) - (kind(type_) == "s"))
        if i.op != "cvt" and any(x is not None and x.high >= limit for x in xs):
            return None  # it is another number to this instruction
        found = rule(i, xs)
        holds = found is None or i.op == "cvt" or "wide" in i.mods or found.high < limit
        return found if holds else None


def _union(some: Sequence[Known]) -> Known:
    found: Known = some[0] if some else None
    for x in some[1:]:
        found = None if found is None or x is None else found.united(x)
    return found


def _number(x: Known) -> int | None:
    return x.low if x is not None and x.low == x.high else None


def _moved(i: Instr, xs: list[Known]) -> Known:
    """``mov``, ``cvta``, and ``cvt``, which cuts what its types do not hold."""
    x = xs[0]
    if i.op != "cvt":
        negative = x is not None and x.low < 0 and width(i.mods[-1]) == 32
        return x.plus(_one(_WORD)) if x is not None and negative else x
    types = [m for m in i.mods if m[:1] in "usb" and m[1:].isdigit()]
    high = x.high if x is not None else _WORD
    if any(kind(m) == "s" and high >> (width(m) - 1) for m in types):
        return None
    narrow = min((width(m) for m in types if kind(m) != "s"), default=64)
    if x is not None and not high >> narrow:
        return x
    return Interval(0, (1 << narrow) - 1) if narrow < 32 else None


def _masked(_: Instr, xs: list[Known]) -> Known:
    for mask, x in ((_number(xs[1]), xs[0]), (_number(xs[0]), xs[1])):
        if mask is not None and mask >= 0:
            high = mask if x is None else min(mask, x.high)
            return Interval(0, high, mask & -mask)
    highs = [x.high for x in xs if x is not None and x.low >= 0]
    return Interval(0, min(highs)) if highs else None


def _counted(i: Instr, xs: list[Known]) -> Known:
    """``popc``: of numbers up to 2**n - 1 it is at most n, of those below that less."""
    x = xs[0]
    return Interval(0, width(i.mods[-1]) if x is None or x.low < 0 else (x.high + 1).bit_length() - 1)


def _opposite(i: Instr, xs: list[Known]) -> Known:
    """``not`` of a word."""
    x = xs[0]
    if x is None or i.mods[-1:] != ("b32",):
        return None
    return Interval(_WORD - 1 - x.high, _WORD - 1 - x.low, x.step)


def _sum(_: Instr, xs: list[Known]) -> Known:
    return None if xs[0] is None or xs[1] is None else xs[0].plus(xs[1])


def _difference(_: Instr, xs: list[Known]) -> Known:
    n = _number(xs[1])
    return None if xs[0] is None or n is None else xs[0].plus(_one(-n))


def _product(x: Known, y: Known) -> Known:
    for n, other in ((_number(x), y), (_number(y), x)):
        if n is not None and n >= 0 and other is not None:
            return other.times(n)
    return None


def _multiplied(i: Instr, xs: list[Known]) -> Known:
    return _product(xs[0], xs[1]) if i.mods[0] in ("lo", "wide") else None


def _added(i: Instr, xs: list[Known]) -> Known:
    found = _multiplied(i, xs)
    return None if found is None or xs[2] is None else found.plus(xs[2])


def _left(i: Instr, xs: list[Known]) -> Known:
    x, by = xs
    if x is None or by is None or by.high > 31:
        return None
    n = _number(x)
    if by.low == by.high or n is None:
        return x.times(1 << by.low) if by.low == by.high else None
    if n == _WORD - 1 and i.mods[-1] == "b32":  # the bits from one place on
        return Interval(_WORD - (1 << by.high), _WORD - (1 << by.low))
    return Interval(n << by.low, n << by.high)


def _right(i: Instr, xs: list[Known]) -> Known:
    n = _number(xs[1])
    if n is None or n > 31:
        return None
    if xs[0] is not None:
        return Interval(xs[0].low >> n, xs[0].high >> n)
    unsigned = kind(i.mods[-1]) != "s" and width(i.mods[-1]) == 32
    return Interval(0, (_WORD - 1) >> n) if unsigned else None


def _field(i: Instr, xs: list[Known]) -> Known:
    n = _number(xs[2])
    return Interval(0, (1 << n) - 1) if n is not None and 0 < n < 32 and kind(i.mods[-1]) == "u" else None


def _least(i: Instr, xs: list[Known]) -> Known:
    if kind(i.mods[-1]) == "s" and (xs[0] is None or xs[1] is None):
        return None  # what is not known may be less than 0
    highs = [x.high for x in xs if x is not None]
    return Interval(0, min(highs)) if highs else None


def _remainder(i: Instr, xs: list[Known]) -> Known:
    n = _number(xs[1])
    if n is None or n <= 0 or (kind(i.mods[-1]) == "s" and xs[0] is None):
        return None
    return Interval(0, n - 1)


def _chosen(_: Instr, xs: list[Known]) -> Known:
    return _union(xs[:2])


def _either(_: Instr, xs: list[Known]) -> Known:
    """``or``: the sum where no bit is of both, else less than the next power of two."""
    if xs[0] is None or xs[1] is None:
        return None
    for x, y in ((xs[0], xs[1]), (xs[1], xs[0])):
        lowest = gcd(x.step, x.low)
        if y.high < (lowest & -lowest if lowest else _WORD):
            return x.plus(y)
    return Interval(0, (1 << max(xs[0].high, xs[1].high).bit_length()) - 1)


_RULES: dict[str, Callable[[Instr, list[Known]], Known]] = {
    "mov": _moved, "cvt": _moved, "cvta": _moved, "and": _masked, "add": _sum, "sub": _difference,
    "mul": _multiplied, "mad": _added, "shl": _left, "shr": _right, "bfe": _field, "min": _least,
    "rem": _remainder, "selp": _chosen, "or": _either, "popc": _counted, "not": _opposite,
    "mapa": lambda _, xs: xs[0],
}  # fmt: skip

__all__ = ["ANYWHERE", "AddressRanges", "Interval", "Reached"]
