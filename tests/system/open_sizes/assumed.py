"""Whether numbers break what a proof for every size says it assumes: ``NO_WRAP``, word for word.

A kernel is executed at the numbers, thread by thread, with two values for each register: its bits, and the
number that sums and products make without end. The assumption is broken where

- a sum or product of open sizes leaves its register: it fits neither the signed nor the unsigned range,
- a sum or product is read as signed, or its highest bit is cut out, and it is 2**31 (2**63) or more,
- a size of 64 bits that is cut to 32 fits no 32 bits.

What is not executed here (``None``) is no excuse: a contradiction then counts as a wrong proof. An example:
``shl r, n, 1; shr s, r, 31`` reads the highest bit of a product. 1,500,000,000 breaks the assumption,
and 100 does not.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Not, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.frontends.ptx.syntax.types import kind, width

#: Instructions of one thread.
_MOST = 5_000
#: A shift left by fewer bits is a product; by more it cuts.
_CUTS = 8


class _NotExecutedError(Exception):
    """An instruction that this page does not know."""


@dataclass(frozen=True)
class _Value:
    """``bits``: unsigned; ``number``: without end; ``open``: of open sizes; ``made``: a sum or product."""

    bits: int
    number: int
    open: bool = False
    made: bool = False


def breaks_assumption(text: str, values: Mapping[str, int]) -> bool | None:
    """Whether the numbers break the assumption in some thread; None: not known. Parameters have the names of
    the sizes."""
    function = parse(text).entries[0]
    threads = function.directives.get("reqntid", (1,))[0]
    unknown = False
    for t in range(threads):
        try:
            if _Thread(function, values, t, threads).run():
                return True
        except _NotExecutedError:
            unknown = True
    return None if unknown else False


@dataclass
class _Thread:
    function: Function
    values: Mapping[str, int]
    number: int
    threads: int
    held: dict[str, _Value] = field(default_factory=dict)
    broken: bool = False

    def run(self) -> bool:
        body, at = self.function.body, 0
        for _ in range(_MOST):
            if at >= len(body) or self.broken:
                return self.broken
            i = body[at]
            holds = i.guard is None or bool(self.of(i.guard, "pred").bits) != i.negated
            if i.op in ("ret", "exit") and holds:
                return self.broken
            if i.op == "bra" and holds:
                (target,) = i.operands
                at = self.function.labels[target.name]  # type: ignore[union-attr]
                continue
            if holds and i.op not in ("bra", "ret", "exit", "bar", "st"):
                self.execute(i)
            at += 1
        raise _NotExecutedError

    def of(self, op: Operand, type_: str) -> _Value:
        """What an operand is, to an instruction of a type."""
        w = width(type_)
        match op:
            case Imm(value):
                bits = value & (1 << w) - 1
                return _Value(bits, value if kind(type_) == "s" or value < 0 else bits)
            case Reg(name) if name in self.held:
                return self.held[name]
            case Not(Reg(name)) if name in self.held:
                return _Value(1 - self.held[name].bits, 1 - self.held[name].bits)
            case Special("%tid.x"):
                return _Value(self.number, self.number)
            case Special("%ntid.x"):
                return _Value(self.threads, self.threads)
            case Sym():
                return _Value(1024, 1024)
        raise _NotExecutedError

    def execute(self, i: Instr) -> None:
        if i.op == "ld":
            self.load(i)
            return
        make = _OPERATIONS.get(i.op)
        if make is None or not isinstance(i.operands[0], Reg) or {"cc", "sat", "hi"} & {*i.mods}:
            raise _NotExecutedError
        self.held[i.operands[0].name] = make(self, i)

    def load(self, i: Instr) -> None:
        to, at = i.operands
        if not isinstance(to, Reg) or not isinstance(at, Mem):
            raise _NotExecutedError
        if "param" in i.mods and isinstance(at.base, Sym):
            value = self.values[at.base.name]
            self.held[to.name] = _Value(value & (1 << width(i.mods[-1])) - 1, value, open=True)
        elif "shared" in i.mods:
            self.held.pop(to.name, None)  # data
        else:
            raise _NotExecutedError

    def read(self, op: Operand, type_: str) -> int:
        """A number that an instruction looks at, in its type."""
        x, w = self.of(op, type_), width(type_)
        if kind(type_) != "s":
            return x.bits & (1 << w) - 1
        self.look(x, w)
        return signed(x.bits, w)

    def look(self, x: _Value, w: int) -> None:
        """The sign or the highest bit of a value is read."""
        self.broken |= x.open and x.made and x.number >= 1 << w - 1

    def made(self, number: int, w: int, *parts: _Value) -> _Value:
        """A sum or product."""
        is_open = any(p.open for p in parts)
        self.broken |= is_open and not -(1 << w - 1) <= number < 1 << w
        return _Value(number & (1 << w) - 1, number, is_open, made=True)

    def plain(self, bits: int, w: int, *parts: _Value, type_: str = "u32") -> _Value:
        """What is no sum or product: its number is what its bits say."""
        bits &= (1 << w) - 1
        number = signed(bits, w) if kind(type_) == "s" else bits
        return _Value(bits, number, any(p.open for p in parts))


def signed(bits: int, w: int) -> int:
    return (bits & (1 << w) - 1 ^ 1 << w - 1) - (1 << w - 1)


def _sum(t: _Thread, i: Instr, f: Callable[[int, int], int]) -> _Value:
    type_ = i.mods[-1]
    a, b = (t.of(x, type_) for x in i.operands[1:3])
    return t.made(f(a.number, b.number), width(type_), a, b)


def _product(t: _Thread, i: Instr) -> _Value:
    type_ = i.mods[-1]
    w = width(type_) * (2 if "wide" in i.mods else 1)
    a, b = (t.of(x, type_) for x in i.operands[1:3])
    if "wide" in i.mods:
        x, y = (t.read(op, type_) for op in i.operands[1:3])
        product = x * y
    else:
        product = a.number * b.number
    if i.op == "mul":
        return t.made(product, w, a, b)
    c = t.of(i.operands[3], type_)
    return t.made(product + c.number, w, a, b, c)


def _shift(t: _Thread, i: Instr) -> _Value:
    type_, w = i.mods[-1], width(i.mods[-1])
    a, n = t.of(i.operands[1], type_), t.of(i.operands[2], "u32")
    if i.op == "shl":
        if n.bits < _CUTS and not n.open:
            return t.made(a.number << n.bits, w, a)
        return t.plain(a.bits << min(n.bits, w), w, a, n)
    if n.bits == w - 1:
        t.look(a, w)
    return t.plain(t.read(i.operands[1], type_) >> min(n.bits, w), w, a, n, type_=type_)


def _bitwise(f: Callable[[int, int], int]) -> Callable[[_Thread, Instr], _Value]:
    def make(t: _Thread, i: Instr) -> _Value:
        type_ = i.mods[-1]
        a, b = (t.of(x, type_) for x in i.operands[1:3])
        return t.plain(f(a.bits, b.bits), width(type_), a, b)

    return make


def _numbers(f: Callable[[int, int], int]) -> Callable[[_Thread, Instr], _Value]:
    def make(t: _Thread, i: Instr) -> _Value:
        type_ = i.mods[-1]
        a, b = (t.read(x, type_) for x in i.operands[1:3])
        if i.op in ("div", "rem") and b == 0:
            raise _NotExecutedError
        return t.plain(f(a, b), width(type_), *(t.of(x, type_) for x in i.operands[1:3]), type_=type_)

    return make


def _quotient(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _converted(t: _Thread, i: Instr) -> _Value:
    to, of = i.mods[-2:]
    x = t.of(i.operands[1], of)
    if width(to) < width(of):
        if width(of) == 64 and width(to) == 32 and x.open:
            t.broken |= not -(1 << 31) <= x.number < 1 << 32
        return (
            _Value(x.bits & (1 << width(to)) - 1, x.number, x.open, x.made)
            if width(to) == 32
            else t.plain(t.read(i.operands[1], of), width(to), x, type_=to)
        )
    return t.plain(t.read(i.operands[1], of), width(to), x, type_=to if kind(of) == "s" else "u64")


def _copied(t: _Thread, i: Instr) -> _Value:
    return t.of(i.operands[1], i.mods[-1])


def _chosen(t: _Thread, i: Instr) -> _Value:
    p = t.of(i.operands[3], "pred")
    return t.of(i.operands[1 if p.bits else 2], i.mods[-1])


def _compared(t: _Thread, i: Instr) -> _Value:
    test = _TESTS.get(i.mods[0])
    if test is None or len(i.mods) != 2 or kind(i.mods[1]) not in ("s", "u", "b"):
        raise _NotExecutedError
    same = i.mods[0] in ("eq", "ne")
    a, b = (t.of(x, i.mods[1]).bits if same else t.read(x, i.mods[1]) for x in i.operands[1:3])
    return t.plain(int(test(a, b)), 1)


def _negated(t: _Thread, i: Instr) -> _Value:
    x = t.of(i.operands[1], i.mods[-1])
    return t.made(-x.number, width(i.mods[-1]), x)


_TESTS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_OPERATIONS: Mapping[str, Callable[[_Thread, Instr], _Value]] = {
    "add": lambda t, i: _sum(t, i, operator.add),
    "sub": lambda t, i: _sum(t, i, operator.sub),
    "mul": _product,
    "mad": _product,
    "shl": _shift,
    "shr": _shift,
    "and": _bitwise(operator.and_),
    "or": _bitwise(operator.or_),
    "xor": _bitwise(operator.xor),
    "min": _numbers(min),
    "max": _numbers(max),
    "div": _numbers(_quotient),
    "rem": _numbers(lambda a, b: a - _quotient(a, b) * b),
    "cvt": _converted,
    "cvta": _copied,
    "mov": _copied,
    "neg": _negated,
    "selp": _chosen,
    "setp": _compared,
}

__all__ = ["breaks_assumption"]
