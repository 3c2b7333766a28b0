"""Remainders as compilers write them: a number less its quotient's multiple, the quotient by a reciprocal.

    mul.wide.u32 %rd1, %r1, 0xAAAAAAAB;  shr.u64 %rd2, %rd1, 33;  cvt.u32.u64 %r2, %rd2;
    mad.lo.s32 %r3, %r2, -3, %r1;        // %r1 % 3

With ``factor * divisor = 2**shift + e`` and ``0 < e <= 2**(shift - 32)`` the quotient is exact for all
numbers of 32 bits. A power of two needs no such product. A factor of 33 bits is written without its first:

    mul.hi.u32 %r2, %r1, 0x24924925;  sub.s32 %r3, %r1, %r2;  shr.u32 %r4, %r3, 1;
    add.s32 %r5, %r4, %r2;  shr.u32 %r6, %r5, 2;                   // %r1 / 7, by 0x124924925 and 35
"""

from __future__ import annotations

from dataclasses import dataclass

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand, Reg

_BITS = 32
_MASK = (1 << _BITS) - 1


def exact_divisor(factor: int, shift: int) -> int | None:
    """The number of which ``x * factor >> shift`` is the quotient of ``x``, for all ``x`` of 32 bits."""
    if not (0 < factor <= 2 * _MASK + 1 and shift >= _BITS):
        return None
    unit = 1 << shift
    divisor = unit // factor + 1
    e = factor * divisor - unit
    return divisor if 0 < e <= unit >> _BITS and divisor <= _MASK else None


@dataclass(frozen=True, slots=True)
class Remainder:
    """The unsigned remainder of a register by a number, ``of`` its version."""

    of: int
    divisor: int


def remainder_by(flow: Flow, i: Instr, k: int) -> Remainder | None:
    """Which remainder an instruction makes; None: none."""
    return _Block(flow, k).remainder(i)


@dataclass(frozen=True, slots=True)
class _Block:
    """What stands before an instruction in its basic block: each register is what it was there."""

    flow: Flow
    k: int

    def remainder(self, i: Instr) -> Remainder | None:
        match i:
            case Instr(op="mad", mods=("lo", "s32" | "u32"), operands=(_, q, Imm(n), x)):
                return self._of_quotient(q, self.k, -n & _MASK, x)
            case Instr(op="sub", mods=("s32" | "u32",), operands=(_, x, product)):
                match self._maker(product, self.k):
                    case (at, Instr(op="mul", mods=("lo", "s32" | "u32"), operands=(_, q, Imm(n)))):
                        return self._of_quotient(q, at, n & _MASK, x)
        return None

    def _of_quotient(self, q: Operand, at: int, divisor: int, x: Operand) -> Remainder | None:
        """The remainder, where ``q`` at an instruction is the quotient by its divisor of what ``x`` is at
        ``k``."""
        found = self._product(q, at)
        if found is None:
            return None
        place, of, factor, shift = found
        if not isinstance(of, Reg) or not isinstance(x, Reg) or exact_divisor(factor, shift) != divisor:
            return None
        v = self._read(x, self.k)
        return Remainder(v, divisor) if self._read(of, place) == v else None

    def _product(self, q: Operand, at: int) -> tuple[int, Operand, int, int] | None:
        """Where a product is made whose upper bits a quotient is; of what, by what, and how far down."""
        shift = 0
        while (made := self._maker(q, at)) is not None:
            at, i = made
            match i:
                case Instr(op="shr", mods=("u32",), operands=(_, inner, Imm(n))) if 0 <= n < _BITS:
                    q, shift = inner, shift + n
                case Instr(op="mul", mods=("hi", "u32"), operands=(_, x, Imm(m))):
                    return at, x, m & _MASK, _BITS + shift
                case Instr(op="add", mods=("s32" | "u32",), operands=(_, a, b)):
                    return self._longer(a, b, at, shift) or self._longer(b, a, at, shift)
                case Instr(op="cvt", mods=("u32", "u64"), operands=(_, inner)):
                    return self._wide(inner, at, shift)
                case _:
                    return None
        return None

    def _longer(
        self, half: Operand, high: Operand, at: int, shift: int
    ) -> tuple[int, Operand, int, int] | None:
        """The same of ``half + high``, by a factor of 33 bits: ``high`` is the product by the lower 32, and
        ``half`` is half of what the number has more."""
        match self._product(high, at), self._maker(half, at):
            case (w, Reg() as x, m, 32), (h, Instr(op="shr", mods=("u32",), operands=(_, rest, Imm(1)))):
                match self._maker(rest, h):
                    case (r, Instr(op="sub", mods=("s32" | "u32",), operands=(_, Reg() as y, Reg() as z))):
                        read = isinstance(high, Reg) and self._read(z, r) == self._read(high, at)
                        if read and m <= _MASK and self._read(y, r) == self._read(x, w):
                            return w, x, m + _MASK + 1, _BITS + 1 + shift
        return None

    def _wide(self, q: Operand, at: int, shift: int) -> tuple[int, Operand, int, int] | None:
        """The same of a product of 64 bits."""
        match self._maker(q, at):
            case (at, Instr(op="shr", mods=("u64",), operands=(_, inner, Imm(n)))) if n >= _BITS:
                match self._maker(inner, at):
                    case (at, Instr(op="mul", mods=("wide", "u32"), operands=(_, x, Imm(m)))):
                        return at, x, m & _MASK, n + shift
        return None

    def _maker(self, x: Operand, at: int) -> tuple[int, Instr] | None:
        """The instruction of the block, without a guard, that writes a register as ``at`` reads it."""
        if not isinstance(x, Reg):
            return None
        k = self.flow.versions.writer[self._read(x, at)]
        if not 0 <= k < at or self.flow.block_of[k] != self.flow.block_of[self.k]:
            return None
        i = self.flow.body[k]
        return (k, i) if i.guard is None and i.operands[:1] == (x,) else None

    def _read(self, x: Reg, at: int) -> int:
        return self.flow.versions.read(x.name, at)


__all__ = ["Remainder", "exact_divisor", "remainder_by"]
