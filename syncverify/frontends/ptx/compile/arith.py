"""Arithmetic on integers and their bits as Python text."""

from __future__ import annotations

from syncverify.frontends.ptx.compile.operands import NotPlain, Operands
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand, Pair, Reg
from syncverify.frontends.ptx.syntax.operands import CARRY, float_product
from syncverify.frontends.ptx.syntax.types import width
from syncverify.frontends.ptx.values.arith import PRMT_MODES

#: Types of two numbers in a word.
_IN_HALVES = ("u16x2", "s16x2")


class Arithmetic(Operands):
    """Writes sums, products, quotients, shifts and what else integers are computed with."""

    def _halves(self, i: Instr) -> list[tuple[str, str]]:
        """An operation on each half of a word."""
        if {*i.mods[:-1]} - {"relu"}:
            raise NotPlain
        a, b = (self.text(x, 32) for x in i.operands[1:3])
        return self._one(i, f"halves({('.'.join((i.op, *i.mods[:-1])), i.mods[-1])}, {a}, {b})")

    def _binary(self, i: Instr, sign: str) -> list[tuple[str, str]]:
        _, bits, mask = self._typed(i)
        if "sat" in i.mods:
            x, y = (self.text(op, 32) for op in i.operands[1:3])
            return self._one(i, f"clamped({x}, {y}, {sign}1)")
        a, b = self.text(i.operands[1], bits), self.text(i.operands[2], bits)
        return self._one(i, f"({a} {sign} {b}) & {mask}")

    def op_add(self, i: Instr) -> list[tuple[str, str]]:
        return self._carrying(i, "+")

    def op_sub(self, i: Instr) -> list[tuple[str, str]]:
        return self._carrying(i, "-")

    op_addc, op_subc = op_add, op_sub

    def _carrying(self, i: Instr, sign: str) -> list[tuple[str, str]]:
        if i.mods[-1] in _IN_HALVES and i.op == "add":
            return self._halves(i)
        if "cc" not in i.mods and i.op in ("add", "sub"):
            return self._binary(i, sign)
        _, bits, mask = self._typed(i)
        a, b = self.text(i.operands[1], bits), self.text(i.operands[2], bits)
        more = f" {sign} r[{self.carry}]" if i.op in ("addc", "subc") else ""
        if "cc" in i.mods:
            total = f"unsigned({a}, {bits}) {sign} unsigned({b}, {bits}){more}"
            return self._with_carry(i, total, bits, sign)
        return self._one(i, f"({a} {sign} {b}{more}) & {mask}")

    def _with_carry(self, i: Instr, total: str, bits: int, sign: str = "+") -> list[tuple[str, str]]:
        """The lower bits of a total of unsigned numbers, and what is carried or borrowed: neither is taken
        to fit."""
        t = f"r[{self.slot('%total')}]"
        low = self._one(i, f"unsigned({t}, {bits})")
        return [("%total", total), *low, (CARRY, f"carried({t}, {bits}, {sign}1)")]

    def _product(self, i: Instr) -> tuple[str, int]:
        """Text of a mul's or mad's product, and the bits of the result."""
        k, bits, _ = self._typed(i)
        a, b = i.operands[1], i.operands[2]
        if "wide" in i.mods:
            if k == "s":
                return f"{self.signed(a, bits)} * {self.signed(b, bits)}", 2 * bits
            return f"{self._wide(a, bits)} * {self._wide(b, bits)}", 2 * bits
        if "hi" in i.mods:
            x, y = self.text(a, bits), self.text(b, bits)
            return (
                f"(full({x}) * full({y}) >> {bits})" if k == "u" else f"mul_hi({x}, {y}, {bits}, 1)"
            ), bits
        return f"{self.text(a, bits)} * {self.text(b, bits)}", bits

    def _wide(self, op: Operand, bits: int) -> str:
        """An unsigned factor of a wider product."""
        text = self.text(op, bits)
        return (
            f"({text} if ({text}).__class__ is int else widened({text}, {bits}))"
            if isinstance(op, Reg)
            else text
        )

    def op_mul(self, i: Instr) -> list[tuple[str, str]]:
        if float_product(i):
            x, y = (self.text(op, 32) for op in i.operands[1:])
            return self._one(i, f"float_product({x}, {y}, {'ftz' in i.mods})")
        text, bits = self._product(i)
        return self._one(i, f"({text}) & {(1 << bits) - 1}")

    def op_mad(self, i: Instr) -> list[tuple[str, str]]:
        if "sat" in i.mods:
            raise NotPlain
        text, bits = self._product(i)
        c = self.text(i.operands[3], bits)
        more = f" + r[{self.carry}]" if i.op == "madc" else ""
        if "cc" in i.mods:
            if "lo" in i.mods:
                x, y = (f"unsigned({self.text(op, bits)}, {bits})" for op in i.operands[1:3])
                text = f"{x} * {y}"
            return self._with_carry(i, f"unsigned({text}, {bits}) + unsigned({c}, {bits}){more}", bits)
        return self._one(i, f"({text} + {c}{more}) & {(1 << bits) - 1}")

    op_madc = op_mad

    def op_mul24(self, i: Instr) -> list[tuple[str, str]]:
        if "sat" in i.mods:
            raise NotPlain
        k, _, _ = self._typed(i)
        a, b = (self.text(x, 32) for x in i.operands[1:3])
        c = self.text(i.operands[3], 32) if i.op == "mad24" else "0"
        return self._one(i, f"mul24({a}, {b}, {c}, {int('hi' in i.mods)}, {int(k == 's')})")

    op_mad24 = op_mul24

    def op_sad(self, i: Instr) -> list[tuple[str, str]]:
        k, bits, _ = self._typed(i)
        a, b, c = (self.text(x, bits) for x in i.operands[1:4])
        return self._one(i, f"sad({a}, {b}, {c}, {bits}, {int(k == 's')})")

    def _division(self, i: Instr, plain: str, name: str) -> list[tuple[str, str]]:
        k, bits, _ = self._typed(i)
        a, b = i.operands[1], i.operands[2]
        if k == "u" and isinstance(b, Imm) and b.value & (1 << bits) - 1:
            return self._one(i, f"{self.text(a, bits)} {plain} {self.text(b, bits)}")
        args = f"{self.text(a, bits)}, {self.text(b, bits)}"
        return self._one(i, f"u{name}({args})" if k == "u" else f"s{name}({args}, {bits})")

    def op_div(self, i: Instr) -> list[tuple[str, str]]:
        return self._division(i, "//", "div")

    def op_rem(self, i: Instr) -> list[tuple[str, str]]:
        return self._division(i, "%", "rem")

    def op_abs(self, i: Instr) -> list[tuple[str, str]]:
        _, bits, _ = self._typed(i)
        return self._one(i, f"sabs({self.text(i.operands[1], bits)}, {bits})")

    def op_neg(self, i: Instr) -> list[tuple[str, str]]:
        _, bits, mask = self._typed(i)
        return self._one(i, f"(0 - {self.text(i.operands[1], bits)}) & {mask}")

    def _extreme(self, i: Instr) -> list[tuple[str, str]]:
        if i.mods[-1] in _IN_HALVES:
            return self._halves(i)
        k, bits, _ = self._typed(i)
        a, b = self.text(i.operands[1], bits), self.text(i.operands[2], bits)
        found = f"s{i.op}({a}, {b}, {bits})" if k == "s" else f"u{i.op}({a}, {b})"
        if "relu" in i.mods:
            if i.mods[-1] != "s32":
                raise NotPlain
            found = f"smax({found}, 0, {bits})"
        return self._one(i, found)

    op_min = op_max = _extreme

    def _bits(self, i: Instr) -> list[tuple[str, str]]:
        sign, bits = {"and": "&", "or": "|", "xor": "^"}[i.op], width(i.mods[-1])
        a, b = i.operands[1:3]
        text = f"{self.text(a, bits)} {sign} {self.text(b, bits)}"
        keeps = isinstance(b, Imm) and b.value & (1 << bits) - 1 != 1 << bits - 1
        return self._one(i, text if keeps or bits == 1 or sign != "^" else f"flipped({text}, {bits})")

    op_and = op_or = op_xor = _bits

    def op_not(self, i: Instr) -> list[tuple[str, str]]:
        return self._one(i, f"{self.text(i.operands[1], b := width(i.mods[-1]))} ^ {(1 << b) - 1}")

    def op_cnot(self, i: Instr) -> list[tuple[str, str]]:
        return self._one(i, f"equal({self.text(i.operands[1])}, 0) & 1")

    def op_shl(self, i: Instr) -> list[tuple[str, str]]:
        bits = width(i.mods[-1])
        a, n = i.operands[1], i.operands[2]
        if isinstance(n, Imm):
            text = f"({self.text(a, bits)} << {n.value}) & {(1 << bits) - 1}"
            return self._one(i, text if 0 <= n.value < bits else "0")
        return self._one(i, f"shl({self.text(a, bits)}, {self.text(n, 32)}, {bits})")

    def op_shr(self, i: Instr) -> list[tuple[str, str]]:
        k, bits, mask = self._typed(i)
        a, n = i.operands[1], i.operands[2]
        if k == "s":
            if isinstance(n, Imm) and n.value >= 0:
                return self._one(i, f"({self.signed(a, bits)} >> {min(n.value, bits)}) & {mask}")
            return self._one(i, f"sar({self.text(a, bits)}, {self.text(n, 32)}, {bits})")
        if isinstance(n, Imm) and n.value >= 0:
            return self._one(i, f"{self.text(a, bits)} >> {min(n.value, 64)}")
        return self._one(i, f"shr({self.text(a, bits)}, {self.text(n, 32)}, {bits})")

    def op_shf(self, i: Instr) -> list[tuple[str, str]]:
        a, b, n = (self.text(x, 32) for x in i.operands[1:4])
        return self._one(i, f"shf({a}, {b}, {n}, {int('l' in i.mods)}, {int('wrap' in i.mods)})")

    def op_bfe(self, i: Instr) -> list[tuple[str, str]]:
        k, bits, _ = self._typed(i)
        a, pos, count = i.operands[1:4]
        if k == "u" and isinstance(pos, Imm) and isinstance(count, Imm):
            return self._one(
                i, f"{self.text(a, bits)} >> {pos.value & 255} & {(1 << (count.value & 255)) - 1}"
            )
        return self._one(
            i, f"bfe({self.text(a, bits)}, {self.text(pos)}, {self.text(count)}, {bits}, {int(k == 's')})"
        )

    def op_bfi(self, i: Instr) -> list[tuple[str, str]]:
        bits = width(i.mods[-1])
        a, b = (self.text(x, bits) for x in i.operands[1:3])
        return self._one(i, f"bfi({a}, {b}, {self.text(i.operands[3])}, {self.text(i.operands[4])}, {bits})")

    def op_prmt(self, i: Instr) -> list[tuple[str, str]]:
        a, b, c = (self.text(x, 32) for x in i.operands[1:4])
        if len(i.mods) > 1 and i.mods[1] not in PRMT_MODES:
            raise NotPlain
        mode = PRMT_MODES.index(i.mods[1]) if len(i.mods) > 1 else -1
        return self._one(i, f"prmt({a}, {b}, {c}, {mode})")

    def op_bmsk(self, i: Instr) -> list[tuple[str, str]]:
        a, b = (self.text(x, 32) for x in i.operands[1:3])
        return self._one(i, f"bmsk({a}, {b}, {int('wrap' in i.mods)})")

    def op_fns(self, i: Instr) -> list[tuple[str, str]]:
        mask, base, offset = (self.text(x, 32) for x in i.operands[1:4])
        return self._one(i, f"fns({mask}, {base}, {offset})")

    def op_szext(self, i: Instr) -> list[tuple[str, str]]:
        a, n = (self.text(x, 32) for x in i.operands[1:3])
        return self._one(i, f"szext({a}, {n}, {int('s32' in i.mods)}, {int('wrap' in i.mods)})")

    def _dot(self, i: Instr) -> list[tuple[str, str]]:
        values = ", ".join(self.text(x, 32) for x in i.operands[1:4])
        half = -1 if i.op == "dp4a" else int("hi" in i.mods)
        signs = sum(bit for bit, m in zip((1, 2), i.mods[-2:], strict=True) if m == "s32")
        return self._one(i, f"dot({values}, {half}, {signs})")

    op_dp4a = op_dp2a = _dot

    def op_lop3(self, i: Instr) -> list[tuple[str, str]]:
        a, b, c = (self.text(x, 32) for x in i.operands[1:4])
        found = f"lop3({a}, {b}, {c}, {self.text(i.operands[4])}, 32)"
        if len(i.mods) == 1:
            return self._one(i, found)
        to, t = i.operands[0], f"r[{self.slot('%test')}]"
        if not isinstance(to, Pair) or not isinstance(to.second, Reg) or i.mods[0] not in ("or", "and"):
            raise NotPlain
        sign = "|" if i.mods[0] == "or" else "&"
        test = f"(equal({t}, 0) ^ 1) {sign} {self.text(i.operands[5])}"
        return [("%test", found), (to.second.name, test), *((n, t) for n in self.targets(to.first))]

    def _count(self, i: Instr) -> list[tuple[str, str]]:
        k, bits, _ = self._typed(i)
        a = self.text(i.operands[1], bits)
        match i.op:
            case "popc":
                return self._one(i, f"popc({a})")
            case "clz" | "brev":
                return self._one(i, f"{i.op}({a}, {bits})")
        return self._one(i, f"bfind({a}, {bits}, {int(k == 's')}, {int('shiftamt' in i.mods)})")

    op_popc = op_clz = op_brev = op_bfind = _count


__all__ = ["Arithmetic"]
