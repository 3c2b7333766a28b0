"""Pure instructions as Python text: what they assign to the slots of their destinations.

Names used by the text are those of ``NAMES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncverify.frontends.ptx.analysis.slicing.iteration_havoc import TURN
from syncverify.frontends.ptx.compile.arith import Arithmetic
from syncverify.frontends.ptx.compile.operands import NotPlain
from syncverify.frontends.ptx.syntax.nodes import FloatImm, Instr, Operand, Pair, Reg, Vector
from syncverify.frontends.ptx.syntax.operands import float_conversion
from syncverify.frontends.ptx.syntax.types import RANK, WINDOW, WINDOWS, kind, width
from syncverify.frontends.ptx.values import arith, float_conversions, length_choices, symbolic_words
from syncverify.frontends.ptx.values.float_conversions import FORMATS, ROUNDINGS, TO_INTEGER, Conversion
from syncverify.frontends.ptx.values.register_values import INTS

NAMES: Mapping[str, Any] = {
    "I": INTS,
    "below": symbolic_words.below,
    "ahead": length_choices.ahead,
    "decided": length_choices.decided,
    "chosen": length_choices.chosen,
    "counted": symbolic_words.counted,
    "flipped": symbolic_words.flipped,
    "widened": symbolic_words.widened,
    "extended": symbolic_words.extended,
    "full": symbolic_words.full,
    "unsigned": symbolic_words.unsigned,
    "carried": symbolic_words.carried,
    "float_test": symbolic_words.float_test,
    "Conversion": Conversion,
    "to_integer": float_conversions.to_integer,
    "from_integer": float_conversions.from_integer,
    "between": float_conversions.between,
    "flushed": float_conversions.flushed,
    "tested": float_conversions.tested,
    "packed": float_conversions.packed,
    "halves": float_conversions.halves,
    **{
        name: getattr(arith, name)
        for name in (
            "udiv urem sdiv srem shl shr sar shf bfe bfi prmt lop3 brev bfind mul_hi umin umax smin smax "
            "popc clz sabs sad mul24 bmsk fns szext dot saturated clamped equal is_null float_product select "
            "rank_byte in_window shfl vote match redux"
        ).split()
    },
}  # fmt: skip

_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


class Expressions(Arithmetic):
    """Writes pure instructions: those of ``Arithmetic``, and moves, choices, tests, conversions, addresses
    and what crosses lanes."""

    def lines(self, i: Instr) -> list[tuple[str, str]]:
        """(register, text of its new value) for each destination. Raises NotPlain."""
        op = i.op
        if not i.operands:
            raise NotPlain
        method = getattr(self, f"op_{op}", None)
        if method is None:
            raise NotPlain
        found: list[tuple[str, str]] = method(i)
        return found

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
            if type_ not in FORMATS or compare not in arith.FLOAT_TESTS:
                raise NotPlain
            x, y = (self._compared(op, type_, flushed="ftz" in i.mods) for op in (a, b))
            return f"float_test({compare!r}, {x}, {y}, {max(bits, 32) if type_ == 'bf16' else bits})"
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

    def _compared(self, op: Operand, type_: str, *, flushed: bool) -> str:
        """The bits of a floating-point operand of a comparison; those of bf16 are the upper ones of f32."""
        text = self.text(op, width(type_))
        if type_ == "bf16":
            return f"({text}) << 16"
        return f"flushed({text}, {width(type_)})" if flushed and type_ in ("f16", "f32") else text

    def op_setp(self, i: Instr) -> list[tuple[str, str]]:
        test = self._test(i)
        combine = next((m for m in i.mods[1:-1] if m in ("and", "or", "xor")), None)
        names = [d if isinstance(d, Reg) else None for d in _both(i.operands[0])]
        out: list[tuple[str, str]] = []
        t = f"r[{self.slot('%test')}]"
        if len(names) > 1 or combine:
            out.append(("%test", test))
            test = t
        tests = [test, f"({test} ^ 1)"]
        if combine:
            sign, with_ = {"and": "&", "or": "|", "xor": "^"}[combine], self.text(i.operands[3])
            if len(names) > 1:  # the first result may be written over the operand of the second
                out.append(("%total", with_))
                with_ = f"r[{self.slot('%total')}]"
            tests = [f"{text} {sign} {with_}" for text in tests]
        return out + [(d.name, text) for d, text in zip(names, tests, strict=False) if d is not None]

    def op_set(self, i: Instr) -> list[tuple[str, str]]:
        if kind(i.mods[-2]) == "f" or len(i.operands) > 3:
            raise NotPlain
        own = "ftz" in i.mods
        swapped = Instr(i.op, (i.mods[0], *["ftz"] * own, i.mods[-1]), i.operands, i.line)
        return self._one(i, f"({self._test(swapped)}) * {(1 << width(i.mods[-2])) - 1}")

    def op_cvt(self, i: Instr) -> list[tuple[str, str]]:
        if len(i.mods) < 2 or not isinstance(i.operands[0], Reg):
            raise NotPlain
        if i.mods[0] == "pack":
            return self._packed(i)
        to, of = i.mods[-2], i.mods[-1]
        if "f" in (kind(to), kind(of)):
            return self._float_conversion(i)
        a = i.operands[1]
        bits, source = width(to), width(of)
        text = self.text(a, source)
        if isinstance(a, Reg) and width(self.types.get(a.name, of)) > source:
            text = f"({text} & {(1 << source) - 1})"
        if "sat" in i.mods:
            held = width(self.types.get(i.operands[0].name, to))
            return self._one(i, f"saturated({text}, {source}, {_s(of)}, {bits}, {_s(to)}, {held})")
        if bits > source and kind(of) == "s" and source < 32:
            text = f"extended({text}, {source}, {bits}, True)"
        elif bits > source and kind(of) == "s":
            half = 1 << (source - 1)
            text = f"(({text} ^ {half}) - {half}) & {(1 << bits) - 1}"
        elif bits > source and isinstance(a, Reg):
            text = f"{text} if ({text}).__class__ is int else widened({text}, {source})"
        elif bits < source:
            text = f"({text}) & {(1 << bits) - 1}"
        held = width(self.types.get(i.operands[0].name, to))
        if held > bits and kind(to) == "s" and bits < 32:
            text = f"extended({text}, {bits}, {held}, True)"
        elif held > bits and kind(to) == "s":
            half = 1 << (bits - 1)
            text = f"((({text}) ^ {half}) - {half}) & {(1 << held) - 1}"
        return self._one(i, text)

    def _packed(self, i: Instr) -> list[tuple[str, str]]:
        to, of = i.mods[2], i.mods[3]
        if width(to) not in (8, 16):
            raise NotPlain
        a, b = (self.text(x, 32) for x in i.operands[1:3])
        c = self.text(i.operands[3], 32) if len(i.operands) > 3 else "0"
        return self._one(i, f"packed({(to, of)}, {a}, {b}, {c})")

    def _float_conversion(self, i: Instr) -> list[tuple[str, str]]:
        """A conversion from or to floating point, with the roundings that have one result."""
        if not float_conversion(i):
            raise NotPlain
        to, of = i.mods[-2], i.mods[-1]
        a, given = i.operands[1], next((m for m in i.mods if m[:2] in ROUNDINGS), "rn")
        rounding = TO_INTEGER.get(given, given)
        if isinstance(a, FloatImm) and a.width != width(of):
            raise NotPlain
        text = self.narrowed(a, width(of))
        how = (Conversion(rounding, of, to, given in TO_INTEGER, "ftz" in i.mods),)
        if of not in FORMATS:
            return self._one(i, f"from_integer({how}, {text})")
        if to in FORMATS:
            return self._one(i, f"between({how}, {text})")
        assert isinstance(i.operands[0], Reg)
        return self._one(i, self.extended(i.operands[0].name, to, f"to_integer({how}, {text})"))

    def op_testp(self, i: Instr) -> list[tuple[str, str]]:
        return self._one(i, f"tested({i.mods}, {self.text(i.operands[1], width(i.mods[-1]))})")

    # ------------------------------------------------------------ addresses

    def op_cvta(self, i: Instr) -> list[tuple[str, str]]:
        space = i.mods[1] if i.mods[0] == "to" else i.mods[0]
        text = self.text(i.operands[1])
        if space not in WINDOWS:
            return self._one(i, text)
        if i.mods[0] == "to":
            inside = f"{text} & {(1 << WINDOW) - 1}"
            return self._one(i, f"in_window({inside})" if WINDOWS[space] == WINDOWS["shared"] else inside)
        return self._one(i, f"{text} + {WINDOWS[space] << WINDOW}")

    def op_mapa(self, i: Instr) -> list[tuple[str, str]]:
        bits = width(i.mods[-1])
        keep = ((1 << bits) - 1) ^ (0xFF << RANK)
        a, b = self.text(i.operands[1], bits), self.text(i.operands[2], 32)
        return self._one(i, f"{a} & {keep} | rank_byte({b}) << {RANK}")

    def op_getctarank(self, i: Instr) -> list[tuple[str, str]]:
        return self._one(i, f"{self.text(i.operands[1])} >> {RANK} & 255")

    # ------------------------------------------------------------ across lanes

    def op_shfl(self, i: Instr) -> list[tuple[str, str]]:
        mode = i.mods[1] if i.mods[0] == "sync" else i.mods[0]
        b, c = (self.text(x, 32) for x in i.operands[2:4])
        a = self._among(i.operands[1], 32, i.operands[4] if len(i.operands) > 4 else None)
        both = f"r[{self.slot('%shfl')}]"
        out = [("%shfl", f"shfl({mode!r}, {a}, {b}, {c})")]
        for k, d in enumerate(_both(i.operands[0])):
            if isinstance(d, Reg):
                out.append((d.name, f"{both}[{k}]"))
        return out

    def _among(self, x: Operand, bits: int = 64, mask: Operand | None = None) -> str:
        """What lanes give of an operand: that of lanes which take part."""
        named = "-1" if mask is None else self.text(mask, 32)
        return f"AMONG(r, {self.text(x, bits)}, {self.special('%@live')}, {named})"

    def op_vote(self, i: Instr) -> list[tuple[str, str]]:
        if i.mods[0] != "sync":
            raise NotPlain
        p, mask = self._among(i.operands[1]), self.text(i.operands[2], 32)
        return self._one(i, f"vote({i.mods[1]!r}, {p}, {mask}, {self.special('%@live')})")

    def op_match(self, i: Instr) -> list[tuple[str, str]]:
        a, mask = self._among(i.operands[1], width(i.mods[-1])), self.text(i.operands[2], 32)
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
        a, mask = self._among(i.operands[1], 32), self.text(i.operands[2], 32)
        return self._one(i, f"redux({name!r}, {a}, {mask}, {self.special('%@live')})")


def _s(type_: str) -> int:
    return int(kind(type_) == "s")


def _both(op: Operand) -> list[Operand]:
    return [op.first, op.second] if isinstance(op, Pair) else [op]
