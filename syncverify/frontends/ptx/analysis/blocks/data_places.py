"""Places of data that a kernel bounds: each number of an interval is the place for some input.

    ld.global.u32 x, [a];  and.b32 i, x, 63;  red.global.add.u32 [p + 4 i], 1;     // each of 64 words

What is here is a part of what may be reached, never more: an instruction that is not followed leaves
nothing. One number of data goes into a place, of memory that the kernel does not write, beside numbers of
blocks and threads. A sum that may wrap, two numbers of data, or a value that a loop makes of itself are not
followed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from syncverify.frontends.ptx.analysis.registers.remainders import remainder_by
from syncverify.frontends.ptx.analysis.registers.thread_values import Numbers
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand, Reg
from syncverify.frontends.ptx.syntax.types import kind, width

#: The numbers of an upper part of a word that are few enough to be places by themselves.
_FEW = 1 << 16
_WORD, _LONG = 1 << 32, 1 << 64


@dataclass(frozen=True, slots=True)
class Reach:
    """``begin`` in each thread, by draw, and ``low``, ``low + step``, ... ``high`` on top of it. ``bounded``:
    the kernel bounds them, not the type of what was loaded alone. ``word``: the address of the data in each
    thread, by draw; None where it has no number. ``of``: the version of a register of which these places are
    products and sums. ``exact``: no other places are reached."""

    begin: Sequence[Numbers]
    low: int
    high: int
    step: int
    bounded: bool
    word: Sequence[Numbers] | None = None
    of: int = -1
    exact: bool = True

    @property
    def alone(self) -> bool:
        """Whether nothing is added to the data."""
        return not any(x.any() for x in self.begin)

    @property
    def end(self) -> int:
        return max(int(x.max()) for x in self.begin) + self.high

    def within(self, low: int, high: int) -> Reach | None:
        """Those of its numbers that lie in a range, if nothing is added; None where there are none."""
        first = self.low + max(0, -(-(low - self.low) // self.step)) * self.step
        last = self.low + (min(self.high, high) - self.low) // self.step * self.step
        if not self.alone or first > last:
            return None
        bounded = self.bounded or high < _WORD // 2 - 1
        return replace(self, low=first, high=last, bounded=bounded, exact=False)


class DrawnNumbers(Protocol):
    """Numbers of registers in some threads, by draw."""

    @property
    def threads(self) -> int: ...
    @property
    def draws(self) -> int: ...
    def numbers(self, op: Operand, k: int) -> list[Numbers] | None:
        """What an instruction reads; None where it has no number."""


class DataPlaces:
    """Intervals of versions of registers in one turn of the loops around. ``values``: numbers of registers.
    ``is_input``: whether a load brings what the kernel does not write. ``bounds``: by version, what it is
    compared with."""

    def __init__(
        self,
        flow: Flow,
        values: DrawnNumbers,
        is_input: Callable[[int], bool],
        bounds: Mapping[int, tuple[int, int]],
    ) -> None:
        self.flow, self.values, self.is_input, self.bounds = flow, values, is_input, bounds
        self.seen = set[int]()

    def of_place(self, place: Mem, k: int) -> Reach | None:
        """The first bytes that an access of ``k`` reaches; None where that is not followed."""
        found = self._operand(place.base, k)
        if found is None or not found.bounded or not self.bounds.keys() <= self.seen:
            return None
        offset = np.uint64(place.offset & _LONG - 1)
        return replace(found, begin=[x + offset for x in found.begin])

    def _operand(self, op: Operand, k: int) -> Reach | None:
        return self._version(self.flow.versions.read(op.name, k)) if isinstance(op, Reg) else None

    def _version(self, v: int) -> Reach | None:
        k = self.flow.versions.writer[v]
        if k < 0 or v in self.seen:
            return None
        self.seen.add(v)
        i = self.flow.body[k]
        found = self._made(i, k)
        if found is not None and (i.op not in _LINEAR or remainder_by(self.flow, i, k) is not None):
            found = replace(found, of=v)
        bound = self.bounds.get(v)
        return found if found is None or bound is None else found.within(*bound)

    def _made(self, i: Instr, k: int) -> Reach | None:
        if i.guard is not None or not i.mods:
            return None
        if i.op == "ld":
            return self._loaded(i, k)
        rest = remainder_by(self.flow, i, k)
        if rest is not None:
            of = self._version(rest.of)
            found = None if of is None else _below(of, rest.divisor)
            return None if found is None else replace(found, exact=False)
        numbers = [self.values.numbers(op, k) for op in i.operands[1:]]
        data = [n for n, x in enumerate(numbers) if x is None]
        if i.op == "selp":
            return self._chosen(i, k, data)
        if len(data) != 1:
            return None
        (n,) = data
        found = self._operand(i.operands[1 + n], k)
        rule = _RULES.get(i.op)
        if found is None or rule is None or kind(i.mods[-1]) not in ("u", "s", "b"):
            return None
        return rule(i, found, n, [x for x in numbers if x is not None])

    def _loaded(self, i: Instr, k: int) -> Reach | None:
        type_ = i.mods[-1]
        signed = kind(type_) == "s" and width(type_) not in (32, 64)
        if kind(type_) not in ("u", "s", "b") or signed or not self.is_input(k):
            return None
        into = i.operands[0]
        if kind(type_) == "s":  # a wider register would hold its sign
            held = self.flow.function.registers.get(into.name, "") if isinstance(into, Reg) else ""
            if not held or width(held) != width(type_):
                return None
        zero = [np.zeros(self.values.threads, dtype=np.uint64)] * self.values.draws
        word = self.values.numbers(i.operands[1].base, k) if isinstance(i.operands[1], Mem) else None
        if word is not None and isinstance(i.operands[1], Mem):
            word = [x + np.uint64(i.operands[1].offset & _LONG - 1) for x in word]
        return Reach(zero, 0, (1 << width(type_)) - 1, 1, bounded=width(type_) < 32, word=word)

    def _chosen(self, i: Instr, k: int, data: Collection[int]) -> Reach | None:
        """``selp`` by a comparison of what it takes with a number."""
        p = i.operands[3]
        sides = [n for n in (0, 1) if n in data]
        if len(sides) != 1 or not isinstance(p, Reg) or not isinstance(i.operands[1 + sides[0]], Reg):
            return None
        at = self.flow.versions.writer[self.flow.versions.read(p.name, k)]
        taken = i.operands[1 + sides[0]]
        bound = None if at < 0 else compared(self.flow, self.values, at, holds=sides[0] == 0)
        v = self.flow.versions.read(taken.name, k) if isinstance(taken, Reg) else -1
        if bound is None or bound[0] != v:
            return None
        found = self._version(v)
        return None if found is None else found.within(*bound[1])


def compared(flow: Flow, values: DrawnNumbers, k: int, *, holds: bool) -> tuple[int, tuple[int, int]] | None:
    """The version that a ``setp`` compares with one number, and a range in which the answer is ``holds``."""
    i = flow.body[k]
    if i.op != "setp" or i.guard is not None or len(i.mods) != 2 or width(i.mods[1]) not in (32, 64):
        return None
    x, y = i.operands[1:3]
    n = _one(values.numbers(y, k))
    if not isinstance(x, Reg) or n is None or kind(i.mods[1]) not in ("u", "s", "b"):
        return None
    bits = width(i.mods[1]) - (kind(i.mods[1]) == "s")
    n, most = (
        n & (1 << width(i.mods[1])) - 1,
        (1 << bits) - 1,
    )  # of signed numbers, those that are not below 0
    test = i.mods[0] if holds else _OTHERS.get(i.mods[0], "")
    below, above = {"lt": n - 1, "lo": n - 1, "le": n, "ls": n}, {"gt": n + 1, "hi": n + 1, "ge": n, "hs": n}
    if n > most:
        return None
    v = flow.versions.read(x.name, k)
    if test in below:
        return v, (0, below[test])
    return (v, (above[test], most)) if test in above else None


_OTHERS = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "lo": "hs", "hs": "lo", "ls": "hi", "hi": "ls"}


def _one(found: Sequence[Numbers] | None) -> int | None:
    """The number that all threads hold in all draws."""
    if not found or not all(len(x) for x in found):
        return None
    first = found[0][0]
    return int(first) if all((x == first).all() for x in found) else None


_Others = list[list[Numbers]]


def _limit(i: Instr) -> int:
    """Above the numbers that mean the same with and without a sign."""
    return 1 << width(i.mods[-1]) - (kind(i.mods[-1]) == "s")


def _same(i: Instr, x: Reach, _: int, __: _Others) -> Reach | None:
    of = i.mods[-1]
    to = i.mods[-2] if i.op == "cvt" and len(i.mods) > 1 else of
    fits = x.end < min(1 << width(to), 1 << width(of) - (kind(of) == "s"))
    same = i.op == "mov" or i.op == "cvta" or (kind(to) in ("u", "s", "b") and "sat" not in i.mods and fits)
    return x if same and x.end < 1 << width(to) else None


def _masked(i: Instr, x: Reach, _: int, others: _Others) -> Reach | None:
    c = _one(others[0])
    if c is None or not x.alone or x.low or x.step & x.step - 1:
        return None
    c &= (1 << width(i.mods[-1])) - x.step
    unit = c & -c
    covered = c and c + unit & c == 0 and (x.high + x.step) % (c + unit) == 0
    return replace(x, high=c, step=unit, bounded=True) if covered else None


def _rest(i: Instr, x: Reach, at: int, others: _Others) -> Reach | None:
    m = _one(others[0])
    found = None if at or m is None or not 0 < m < _limit(i) else _below(x, m)
    return found if found is None or kind(i.mods[-1]) == "u" else replace(found, exact=False)


def _below(x: Reach, m: int) -> Reach | None:
    """The remainders of numbers by ``m``."""
    whole = x.alone and not x.low and x.step == 1 and x.high >= m - 1
    return replace(x, high=m - 1, bounded=True) if whole else None


def _right(i: Instr, x: Reach, at: int, others: _Others) -> Reach | None:
    n, limit = _one(others[0]), _limit(i)
    if at or n is None or n >= width(i.mods[-1]) or not x.alone or x.step != 1:
        return None
    high = min(x.high, limit - 1)
    found = replace(x, low=x.low >> n, high=high >> n, step=1, exact=x.exact and high == x.high)
    return None if high < x.low else replace(found, bounded=x.bounded or found.high < _FEW)


def _part(i: Instr, x: Reach, at: int, others: _Others) -> Reach | None:
    """``bfe.u32``."""
    first, count = (_one(y) for y in others)
    if at or first is None or count is None or i.mods != ("u32",) or not x.alone or x.low or x.step != 1:
        return None
    whole = x.high == _WORD - 1 and 0 < count and first + count <= 32
    return replace(x, high=(1 << count) - 1, bounded=True) if whole else None


def _extreme(i: Instr, x: Reach, _: int, others: _Others) -> Reach | None:
    n, limit = _one(others[0]), _limit(i)
    if n is None or not x.alone or x.step != 1 or len(i.mods) != 1:
        return None
    n &= (1 << width(i.mods[-1])) - 1
    low, high = x.low, min(x.high, limit - 1)
    x = replace(x, exact=x.exact and high == x.high)
    if n >= limit or high < low:
        return None
    if i.op == "min":
        return replace(x, low=min(low, n), high=min(high, n), bounded=True)
    return replace(x, low=max(low, n), high=max(high, n))


#: Operations that keep sums and products of one number such.
_LINEAR = frozenset({"mov", "cvt", "cvta", "add", "or", "mul", "mad"})
#: Products of which 32 bits are kept.
_LOW = (("lo", "u32"), ("lo", "s32"))


def _scaled(i: Instr, x: Reach, at: int, others: _Others) -> Reach | None:
    """A product with one number, and with ``mad`` a sum; or a shift to the left."""
    wide = "wide" in i.mods
    n, limit = _one(others[0]), 1 << width(i.mods[-1]) * (1 + wide)
    if not {"hi", "sat", "cc"}.isdisjoint(i.mods) or (i.op == "shl" and at == 1):
        return None
    if i.op == "mad" and at == 2:
        product = [a * b & np.uint64(_WORD - 1) for a, b in zip(*others, strict=True)]
        return _moved(x, product, limit) if i.mods in _LOW else None
    if n is None or (wide and x.end >= _limit(i)):
        return None
    by = 1 << n if i.op == "shl" and n < 64 else n
    whole = x.alone and not x.low and x.step == 1 and x.high == limit - 1
    if i.op == "shl" and n < width(i.mods[-1]) and whole:
        return replace(x, high=limit - by, step=by)  # the upper bits of a whole word go
    if not 0 < by < _limit(i) or (i.op == "shl" and n >= 64) or x.end * by >= limit:
        return None
    begin = [y * np.uint64(by) for y in x.begin]
    found = replace(x, begin=begin, low=x.low * by, high=x.high * by, step=x.step * by)
    return found if i.op != "mad" else _moved(found, others[1], limit)


def _added(i: Instr, x: Reach, _: int, others: _Others) -> Reach | None:
    plain = not {"sat", "cc"} & {*i.mods}
    return _moved(x, others[0], 1 << width(i.mods[-1])) if plain else None


def _joined(i: Instr, x: Reach, _: int, others: _Others) -> Reach | None:
    """``or`` of bits that do not meet."""
    above = np.uint64((1 << x.high.bit_length()) - 1)
    apart = x.alone and not any((y & above).any() for y in others[0])
    return _moved(x, others[0], 1 << width(i.mods[-1])) if apart else None


def _moved(x: Reach, by: Sequence[Numbers], limit: int) -> Reach | None:
    most = [int(y.max()) + int(b.max()) for y, b in zip(x.begin, by, strict=True)]
    if max(most) + x.high >= limit:
        return None
    return replace(x, begin=[y + b for y, b in zip(x.begin, by, strict=True)])


_RULES: Mapping[str, Callable[[Instr, Reach, int, _Others], Reach | None]] = {
    "mov": _same, "cvt": _same, "cvta": _same, "and": _masked, "rem": _rest, "shr": _right, "bfe": _part,
    "min": _extreme, "max": _extreme, "mul": _scaled, "mad": _scaled, "shl": _scaled, "add": _added,
    "or": _joined,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Touched:
    """What threads touch by an instruction: first bytes by draw, ``size`` bytes, and their clusters.
    ``by``: what data places them, which is at its lowest there; else None."""

    places: Sequence[Numbers]
    clusters: Numbers
    size: int
    by: Reach | None = None


#: Beginnings of intervals that are looked at.
_MOST = 256


def _words_of_both(one: Reach, other: Reach | None) -> list[tuple[Numbers, Numbers]]:
    """The addresses, by draw, of the data of two accesses, which go equally far for equal numbers there; none
    where they may not."""
    if other is None or one.word is None or other.word is None:
        return []
    alike = (one.of, one.low, one.step) == (other.of, other.low, other.step)
    return list(zip(one.word, other.word, strict=True)) if alike else []


def covered(reach: Reach, size: int, clusters: Numbers, others: Touched) -> bool:
    """Whether some input places an access of ``size`` bytes on what a thread of another cluster touches. A
    word that places both alike is one number for both."""
    if not len(clusters) or not len(others.clusters):
        return False
    words = _words_of_both(reach, others.by)
    rows = np.stack([*reach.begin, clusters, *(x for x, _ in words)])
    draws = len(reach.begin)
    for row in np.unique(rows, axis=1).T[:_MOST].tolist():
        met: NDArray[np.bool_] = others.clusters != np.uint64(row[draws])
        of_one = np.full(len(met), bool(words))
        for (_, x), own in zip(words, row[draws + 1 :], strict=True):
            of_one &= x == np.uint64(own)
        for at, first in zip(others.places, row[:draws], strict=True):
            # the bytes by which the other access is behind the first place, as a signed number
            behind = (at - np.uint64(first)).view(np.int64) - np.int64(reach.low)
            near = -(-(behind - size + 1) // reach.step) * reach.step  # the first place that reaches there
            near = np.maximum(near, 0)
            met &= (near < behind + others.size) & (near <= reach.high - reach.low) & (near > behind - size)
            met &= ~of_one | ((0 < behind + others.size) & (0 > behind - size))
        if met.any():
            return True
    return False


__all__ = ["DataPlaces", "Reach", "Touched", "compared", "covered"]
