"""Pure instructions as Python text: what they assign to the slots of their destinations.

Text of a register is ``r[slot]``. Names used by the text are those of ``NAMES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from syncverify.frontends.ptx import arith, lengths, sized
from syncverify.frontends.ptx.nodes import (
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
from syncverify.frontends.ptx.operands import float_product
from syncverify.frontends.ptx.turns import TURN
from syncverify.frontends.ptx.types import RANK, WINDOW, WINDOWS, kind, width
from syncverify.frontends.ptx.values import INTS

NAMES: Mapping[str, Any] = {
    "I": INTS,
    "below": sized.below,
    "ahead": lengths.ahead,
    "decided": lengths.decided,
    "chosen": lengths.chosen,
    "counted": sized.counted,
    "flipped": sized.flipped,
    "widened": sized.widened,
    **{
        name: getattr(arith, name)
        for name in (
            "udiv urem sdiv srem shl shr sar shf bfe bfi prmt lop3 brev bfind mul_hi umin umax smin smax "
            "popc clz sabs equal is_null float_test float_product select shfl vote match redux"
        ).split()
    },
}  # fmt: skip

_FLOAT_OPS = frozenset(
    "fma rcp sqrt rsqrt sin cos lg2 ex2 tanh copysign testp cvt_pack dp2a dp4a tex suld fns".split()
)
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


class NotPlain(Exception):  # noqa: N818 -- the destinations become unknown
    """An instruction whose result is data: floating point, or rare."""


class Expressions:
    """Writes pure instructions. ``slot`` gives a register's place, ``symbol`` that of an address."""

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
        self.carry = slot("%carry")

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

    # ------------------------------------------------------------ instructions

    def lines(self, i: Instr) -> list[tuple[str, str]]:
        """(register, text of its new value) for each destination. Raises NotPlain."""
        op = i.op
        if op in _FLOAT_OPS or not i.operands:
            raise NotPlain
        method = getattr(self, f"op_{op}", None)
        if method is None:
            raise NotPlain
        found: list[tuple[str, str]] = method(i)
        return found

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

    def op_mov(self, i: Instr) -> list[tuple[str, str]]:
        bits = width(i.mods[-1])
        d, a = i.operands[0], i.operands[1]
        if isinstance(d, Vector):
            part = bits // len(d.items)
            source = self.text(a, bits)
            mask = (1 << part) - 1
            return [(x.name, f"{source} >> {part * k} & {mask}")
                    for k, x in enumerate(d.items) if isinstance(x, Reg)]  # fmt: skip
        return self._one(i, self.text(a, bits))

    def _binary(self, i: Instr, sign: str) -> list[tuple[str, str]]:
        _, bits, mask = self._typed(i)
        if "sat" in i.mods:
            raise NotPlain
        a, b = self.text(i.operands[1], bits), self.text(i.operands[2], bits)
        total = f"{a} {sign} {b}" + (f" {sign} r[{self.carry}]" if i.op in ("addc", "subc") else "")
        if "cc" in i.mods:
            out = [("%carry", f"({total}) >> {bits} & 1")]
            return [*self._one(i, f"({total}) & {mask}"), *out] if i.op in ("add", "sub") else [
                ("%total", total), *self._one(i, f"r[{self.slot('%total')}] & {mask}"),
                ("%carry", f"r[{self.slot('%total')}] >> {bits} & 1"),
            ]  # fmt: skip
        return self._one(i, f"({total}) & {mask}")

    def op_add(self, i: Instr) -> list[tuple[str, str]]:
        return self._carrying(i, "+")

    def op_sub(self, i: Instr) -> list[tuple[str, str]]:
        return self._carrying(i, "-")

    op_addc, op_subc = op_add, op_sub

    def _carrying(self, i: Instr, sign: str) -> list[tuple[str, str]]:
        if "cc" not in i.mods and i.op in ("add", "sub"):
            return self._binary(i, sign)
        _, bits, mask = self._typed(i)
        total = f"{self.text(i.operands[1], bits)} {sign} {self.text(i.operands[2], bits)}"
        if i.op in ("addc", "subc"):
            total += f" {sign} r[{self.carry}]"
        t = f"r[{self.slot('%total')}]"
        out = [("%total", total), *self._one(i, f"{t} & {mask}")]
        return [*out, ("%carry", f"{t} >> {bits} & 1")] if "cc" in i.mods else out

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
            return (f"({x} * {y} >> {bits})" if k == "u" else f"mul_hi({x}, {y}, {bits}, 1)"), bits
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
        total = f"{text} + {self.text(i.operands[3], bits)}"
        mask = (1 << bits) - 1
        total += f" + r[{self.carry}]" if i.op == "madc" else ""
        if "cc" in i.mods:
            t = f"r[{self.slot('%total')}]"
            return [("%total", f"(({text}) & {mask}) + {self.text(i.operands[3], bits)}"
                     + (f" + r[{self.carry}]" if i.op == "madc" else "")),
                    *self._one(i, f"{t} & {mask}"), ("%carry", f"{t} >> {bits} & 1")]  # fmt: skip
        return self._one(i, f"({total}) & {mask}")

    op_madc = op_mad

    def op_mul24(self, i: Instr) -> list[tuple[str, str]]:
        k, _, _ = self._typed(i)
        if k == "s" or "hi" in i.mods:
            raise NotPlain
        a, b = (self.text(x, 32) for x in i.operands[1:3])
        total = f"({a} & 0xffffff) * ({b} & 0xffffff)"
        if i.op == "mad24":
            total += f" + {self.text(i.operands[3], 32)}"
        return self._one(i, f"({total}) & 0xffffffff")

    op_mad24 = op_mul24

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
        if len(i.mods) > 1:
            raise NotPlain
        a, b, c = (self.text(x, 32) for x in i.operands[1:4])
        return self._one(i, f"prmt({a}, {b}, {c})")

    def op_lop3(self, i: Instr) -> list[tuple[str, str]]:
        if len(i.mods) > 1:
            raise NotPlain
        a, b, c = (self.text(x, 32) for x in i.operands[1:4])
        return self._one(i, f"lop3({a}, {b}, {c}, {self.text(i.operands[4])}, 32)")

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

    def op_selp(self, i: Instr) -> list[tuple[str, str]]:
        bits = width(i.mods[-1])
        a, b, p = self.text(i.operands[1], bits), self.text(i.operands[2], bits), self.text(i.operands[3])
        if isinstance(i.operands[3], Reg) and i.operands[3].name in self.added:
            return self._one(i, f"counted({p})")
        if isinstance(i.operands[3], Reg) and i.operands[3].name in self.choosing:
            return self._one(i, f"chosen(r[{self.slot(TURN)}], {p}, {a}, {b})")
        return self._one(i, f"({a} if {p} else {b}) if ({p}).__class__ in I else select({p}, {a}, {b})")

    def op_slct(self, i: Instr) -> list[tuple[str, str]]:
        if i.mods[-1] != "s32":
            raise NotPlain
        bits = width(i.mods[0])
        a, b, c = self.text(i.operands[1], bits), self.text(i.operands[2], bits), self.text(i.operands[3], 32)
        return self._one(i, f"select({c} < {1 << 31}, {a}, {b})")

    def _test(self, i: Instr) -> str:
        """Text of the comparison of a setp or set."""
        compare, type_ = i.mods[0], i.mods[-1]
        bits, a, b = width(type_), i.operands[1], i.operands[2]
        if kind(type_) == "f":
            if type_ not in ("f16", "f32", "f64") or compare not in arith.FLOAT_TESTS:
                raise NotPlain
            return f"float_test({compare!r}, {self.text(a, bits)}, {self.text(b, bits)}, {bits})"
        if compare in ("eq", "ne"):
            name = "is_null" if bits == 64 else "equal"
            text = f"{name}({self.text(a, bits)}, {self.text(b, bits)})"
            return text if compare == "eq" else f"({text} ^ 1)"
        if compare not in _COMPARE:
            raise NotPlain
        if isinstance(i.operands[0], Reg) and i.operands[0].name in self.added | self.choosing:
            order = self.biased if kind(type_) == "s" else self.text
            less, more = (a, b) if _COMPARE[compare][0] == "<" else (b, a)
            test = "below" if i.operands[0].name in self.added else "ahead"
            return f"{test}({order(less, bits)}, {order(more, bits)}, {len(_COMPARE[compare]) == 1})"
        if kind(type_) == "s":
            return f"({self.biased(a, bits)} {_COMPARE[compare]} {self.biased(b, bits)})"
        return f"({self.text(a, bits)} {_COMPARE[compare]} {self.text(b, bits)})"

    def op_setp(self, i: Instr) -> list[tuple[str, str]]:
        test = self._test(i)
        combine = next((m for m in i.mods[1:-1] if m in ("and", "or", "xor")), None)
        names = [d if isinstance(d, Reg) else None for d in _both(i.operands[0])]
        out: list[tuple[str, str]] = []
        t = f"r[{self.slot('%test')}]"
        if len(names) > 1 or combine:
            out.append(("%test", test))
            test = t
        for name, text in zip(names, (test, f"({test} ^ 1)"), strict=False):
            if name is None:
                continue
            if combine:
                sign = {"and": "&", "or": "|", "xor": "^"}[combine]
                text = f"{text} {sign} {self.text(i.operands[3])}"
            out.append((name.name, text))
        return out

    def op_set(self, i: Instr) -> list[tuple[str, str]]:
        if kind(i.mods[-2]) == "f" or len(i.operands) > 3:
            raise NotPlain
        swapped = Instr(i.op, (i.mods[0], i.mods[-1]), i.operands, i.line)
        return self._one(i, f"({self._test(swapped)}) * {(1 << width(i.mods[-2])) - 1}")

    def op_cvt(self, i: Instr) -> list[tuple[str, str]]:
        if len(i.mods) < 2 or i.mods[0] == "pack" or "sat" in i.mods:
            raise NotPlain
        to, of = i.mods[-2], i.mods[-1]
        if "f" in (kind(to), kind(of)) or not isinstance(i.operands[0], Reg):
            raise NotPlain
        a = i.operands[1]
        bits, source = width(to), width(of)
        text = self.text(a, source)
        if isinstance(a, Reg) and width(self.types.get(a.name, of)) > source:
            text = f"({text} & {(1 << source) - 1})"
        if bits > source and kind(of) == "s":
            half = 1 << (source - 1)
            text = f"(({text} ^ {half}) - {half}) & {(1 << bits) - 1}"
        elif bits > source and isinstance(a, Reg):
            text = f"{text} if ({text}).__class__ is int else widened({text}, {source})"
        elif bits < source:
            text = f"({text}) & {(1 << bits) - 1}"
        held = width(self.types.get(i.operands[0].name, to))
        if held > bits and kind(to) == "s":
            half = 1 << (bits - 1)
            text = f"((({text}) ^ {half}) - {half}) & {(1 << held) - 1}"
        return self._one(i, text)

    def op_szext(self, i: Instr) -> list[tuple[str, str]]:
        raise NotPlain

    # ------------------------------------------------------------ addresses

    def op_cvta(self, i: Instr) -> list[tuple[str, str]]:
        space = i.mods[1] if i.mods[0] == "to" else i.mods[0]
        text = self.text(i.operands[1])
        if space not in WINDOWS:
            return self._one(i, text)
        if i.mods[0] == "to":
            return self._one(i, f"{text} & {(1 << WINDOW) - 1}")
        return self._one(i, f"{text} + {WINDOWS[space] << WINDOW}")

    def op_isspacep(self, i: Instr) -> list[tuple[str, str]]:
        return self._one(i, f"equal({self.text(i.operands[1])} >> {WINDOW}, {WINDOWS.get(i.mods[0], 0)}) & 1")

    def op_mapa(self, i: Instr) -> list[tuple[str, str]]:
        bits = width(i.mods[-1])
        keep = ((1 << bits) - 1) ^ (0xFF << RANK)
        a, b = self.text(i.operands[1], bits), self.text(i.operands[2], 32)
        return self._one(i, f"{a} & {keep} | {b} << {RANK}")

    def op_getctarank(self, i: Instr) -> list[tuple[str, str]]:
        return self._one(i, f"{self.text(i.operands[1])} >> {RANK} & 255")

    # ------------------------------------------------------------ across lanes

    def op_shfl(self, i: Instr) -> list[tuple[str, str]]:
        mode = i.mods[1] if i.mods[0] == "sync" else i.mods[0]
        a, b, c = (self.text(x, 32) for x in i.operands[1:4])
        both = f"r[{self.slot('%shfl')}]"
        out = [("%shfl", f"shfl({mode!r}, {a}, {b}, {c})")]
        for k, d in enumerate(_both(i.operands[0])):
            if isinstance(d, Reg):
                out.append((d.name, f"{both}[{k}]"))
        return out

    def op_vote(self, i: Instr) -> list[tuple[str, str]]:
        if i.mods[0] != "sync":
            raise NotPlain
        p, mask = self.text(i.operands[1]), self.text(i.operands[2], 32)
        return self._one(i, f"vote({i.mods[1]!r}, {p}, {mask}, {self.special('%@live')})")

    def op_match(self, i: Instr) -> list[tuple[str, str]]:
        a, mask = self.text(i.operands[1], width(i.mods[-1])), self.text(i.operands[2], 32)
        both = f"r[{self.slot('%match')}]"
        out = [("%match", f"match({i.mods[0]!r}, {a}, {mask}, {self.special('%@live')})")]
        for k, d in enumerate(_both(i.operands[0])):
            if isinstance(d, Reg):
                out.append((d.name, f"{both}[{k}]"))
        return out

    def op_redux(self, i: Instr) -> list[tuple[str, str]]:
        if kind(i.mods[-1]) == "f":
            raise NotPlain
        op = i.mods[1]
        name = f"{op}.{i.mods[-1]}" if op in ("min", "max") else op
        a, mask = (self.text(x, 32) for x in i.operands[1:3])
        return self._one(i, f"redux({name!r}, {a}, {mask}, {self.special('%@live')})")


def _both(op: Operand) -> list[Operand]:
    return [op.first, op.second] if isinstance(op, Pair) else [op]
