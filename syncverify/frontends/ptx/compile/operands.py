"""Operands as Python text: text of a register is ``r[slot]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Imm,
    Instr,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Vector,
)
from syncverify.frontends.ptx.syntax.operands import CARRY
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.frontends.ptx.values import arith


class NotPlain(Exception):  # noqa: N818 -- the destinations become unknown
    """An instruction whose result is data: floating point, or rare."""


class Operands:
    """Writes operands. ``slot`` gives a register's place, ``symbol`` that of an address."""

    def __init__(
        self,
        slot: Callable[[str], int],
        special: Callable[[str], str],
        symbol: Callable[[str], str],
        types: Mapping[str, str],
        wanted: Callable[[str], bool],
        added: frozenset[str] = frozenset(),
        choosing: frozenset[str] = frozenset(),
    ) -> None:
        self.slot = slot
        self.special = special
        self.symbol = symbol
        self.types = types
        self.wanted = wanted
        self.added = added  # predicates of comparisons that are only added
        self.choosing = choosing  # and of those that choose how long loops go on
        self.carry = slot(CARRY)

    # ------------------------------------------------------------ operands

    def text(self, op: Operand, bits: int = 64) -> str:
        """The unsigned bits of a source operand."""
        match op:
            case Reg(name):
                return f"r[{self.slot(name)}]"
            case Imm(value):
                return str(value & (1 << bits) - 1)
            case FloatImm(value, _):
                return str(value)
            case Not(Reg(name)):
                return f"(r[{self.slot(name)}] ^ 1)"
            case Special(name):
                return self.special(name)
            case Sym(name, offset):
                base = self.symbol(name)
                return f"({base} + {offset})" if offset else base
            case Vector(items):
                part = bits // len(items)
                parts = [f"{self.text(x, part)} << {part * i}" if i else self.text(x, part)
                         for i, x in enumerate(items) if not isinstance(x, Sink)]  # fmt: skip
                return "(" + " | ".join(parts) + ")"
        raise NotPlain

    def signed(self, op: Operand, bits: int) -> str:
        """Its two's complement value."""
        if isinstance(op, Imm):
            return f"({arith.signed(op.value & (1 << bits) - 1, bits)})"
        half = 1 << (bits - 1)
        return f"(({self.text(op, bits)} ^ {half}) - {half})"

    def biased(self, op: Operand, bits: int) -> str:
        """Its bits with the sign flipped: unsigned order is then signed order."""
        half = 1 << (bits - 1)
        if isinstance(op, Imm):
            return str((op.value & (1 << bits) - 1) ^ half)
        return f"({self.text(op, bits)} ^ {half})"

    def extended(self, register: str, type_: str, text: str) -> str:
        """What a load of a type leaves in a register that may be wider (PTX ISA, operand size exceeding
        instruction-type size): signed types are sign-extended, all others zero-extended."""
        bits, held = width(type_), width(self.types.get(register, type_))
        return text if held <= bits else f"extended({text}, {bits}, {held}, {kind(type_) == 's'})"

    def narrowed(self, op: Operand, bits: int) -> str:
        """The bits that a store of so many takes of an operand: the lower ones of a wider register."""
        text = self.text(op, bits)
        if isinstance(op, Reg) and width(self.types.get(op.name, f"b{bits}")) > bits:
            return f"({text}) & {(1 << bits) - 1}"
        return text

    def targets(self, op: Operand) -> list[str]:
        """Names of the registers of a destination."""
        match op:
            case Reg(name):
                return [name]
            case Vector(items):
                return [n for x in items for n in self.targets(x)]
            case Pair(a, b):
                return self.targets(a) + self.targets(b)
        return []

    def _one(self, i: Instr, text: str) -> list[tuple[str, str]]:
        (name,) = self.targets(i.operands[0]) or ("%sink",)
        return [(name, text)]

    def _typed(self, i: Instr) -> tuple[str, int, int]:
        """Kind and bits of the instruction's type, and the mask of its bits."""
        t = i.mods[-1]
        k = kind(t)
        if k == "f":
            raise NotPlain
        return k, width(t), (1 << width(t)) - 1


__all__ = ["NotPlain", "Operands"]
