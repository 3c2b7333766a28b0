"""Constant expressions as drawn trees: their text, and their values without parsing it.

The rules are those of the table in the PTX ISA (constant expressions), and what ptxas does instead of some.
"""

from __future__ import annotations

import ctypes
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass

LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"),
          ("+", "-"), ("*", "/", "%"))  # fmt: skip
_LEVEL = {op: n for n, ops in enumerate(LEVELS, 1) for op in ops}
_EDGES = (0, 1, 2, 3, 5, 7, 31, 32, 63, 64, 65, 255, 256, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1,
          2**63, 2**64 - 1)  # fmt: skip
_FORMS: tuple[Callable[[int], str], ...] = (str, str, hex, bin, lambda n: f"0{n:o}", "{}U".format)
_COMPARE = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
            ">=": operator.ge}  # fmt: skip
_PLAIN = {"+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_,
          "^": operator.xor}  # fmt: skip


class Undefined(Exception):  # noqa: N818 -- an answer
    """The expression has no value: a division by zero, or one that overflows."""


@dataclass(frozen=True)
class Value:
    """64 bits with their type."""

    number: int
    unsigned: bool

    def to(self, unsigned: bool) -> int:
        """The number in a type."""
        return (ctypes.c_uint64 if unsigned else ctypes.c_int64)(self.number).value


@dataclass(frozen=True)
class Tree:
    """``op``: empty for a literal, an operator, ``?`` or a cast."""

    op: str
    parts: tuple[Tree, ...] = ()
    literal: str = ""
    number: int = 0

    def text(self, around: int = 0) -> str:
        """With the parentheses that it needs inside an operator of a level."""
        if not self.op:
            return self.literal
        if self.op == "?":
            a, b, c = self.parts
            return _inside(f"{a.text(1)} ? {b.text()} : {c.text()}", around > 0)
        if len(self.parts) == 1:
            return f"{self.op} {self.parts[0].text(11)}"
        own = _LEVEL[self.op]
        a, b = self.parts
        return _inside(f"{a.text(own)} {self.op} {b.text(own + 1)}", own < around)

    def value(self, ptxas: bool) -> Value:
        """The value by the ISA, or for ptxas."""
        if not self.op:
            return Value(self.number, self.literal.endswith("U") or self.number >> 63 > 0)
        parts = [p.value(ptxas) for p in self.parts]
        if self.op == "?":
            side = parts[1] if parts[0].number else parts[2]
            return side if ptxas else _of(side.number, parts[1].unsigned or parts[2].unsigned)
        if len(parts) == 1:
            return _unary(self.op, parts[0])
        return _binary(self.op, parts[0], parts[1], ptxas)


def _inside(text: str, braced: bool) -> str:
    return f"({text})" if braced else text


def _of(number: int, unsigned: bool) -> Value:
    return Value(Value(number, unsigned).to(unsigned), unsigned)


def _unary(op: str, a: Value) -> Value:
    match op:
        case "-":
            return _of(-a.number, a.unsigned)
        case "~":
            return _of(~a.number, True)
        case "!":
            return Value(int(a.number == 0), False)
    return _of(a.number, a.unsigned if op == "+" else op == "(.u64)")


def _binary(op: str, a: Value, b: Value, ptxas: bool) -> Value:
    if op in ("&&", "||"):
        return Value(int((all if op == "&&" else any)((a.number, b.number))), False)
    if op in ("<<", ">>"):
        by = b.to(True) % 64 if ptxas else min(b.to(True), 64)
        return _of(a.number << by if op == "<<" else a.number >> by, a.unsigned)
    unsigned = a.unsigned or b.unsigned or op == "%" or (op in ("&", "|", "^") and not ptxas)
    x, y = a.to(unsigned), b.to(unsigned)
    if op in _COMPARE:
        return Value(int(_COMPARE[op](x, y)), False)
    if op in _PLAIN:
        return _of(_PLAIN[op](x, y), unsigned)
    if y == 0 or (x == -(2**63) and y == -1):
        raise Undefined
    if op == "%":
        return _of(x % y, ptxas)
    quotient = abs(x) // abs(y)
    return _of(quotient if x * y >= 0 else -quotient, unsigned)


def drawn(draw: random.Random, depth: int) -> Tree:
    """A tree of at most so many operators in a row."""
    if depth == 0 or draw.random() < 0.15:
        number = draw.choice(_EDGES) if draw.random() < 0.6 else draw.randrange(1, 1000)
        return Tree("", (), draw.choice(_FORMS)(number), number)
    kind = draw.random()
    if kind < 0.28:
        op = draw.choice(("-", "~", "!", "+", "-", "~", "(.s64)", "(.u64)"))
        return Tree(op, (drawn(draw, depth - 1),))
    if kind < 0.36:
        return Tree("?", tuple(drawn(draw, depth - 1) for _ in range(3)))
    return Tree(draw.choice(tuple(_LEVEL)), (drawn(draw, depth - 1), drawn(draw, depth - 1)))
