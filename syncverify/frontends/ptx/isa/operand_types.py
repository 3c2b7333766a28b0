"""Whether operands fit a row: their number, their kinds and the types of registers (PTX ISA, operand types).

A type of bits fits every register of its width, integers of one width fit each other, floats only floats.
Packed types, bf16 and tf32 fit registers of bits alone, or of their own type; ``b16x1`` and ``b32x1`` mean
bits alone. What these types and f16 take is in registers: never a constant.
Loads, stores and conversions also take wider registers (PTX ISA, operand size exceeding instruction type
size).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syncverify.frontends.ptx.isa.fragments import lengths
from syncverify.frontends.ptx.isa.rows import OperandKind, Row
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Imm,
    Label,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Vector,
)
from syncverify.frontends.ptx.syntax.types import width

_WIDE_SPECIALS = ("%clock64", "%globaltimer", "%gridid", "%pm64", "%current_graph_exec")
_VECTOR = {"v2": 2, "v4": 4, "v8": 8, "v16": 16}
#: Words of instructions on matrices some of whose vectors may be of floats alone.
_MAY_BE_FLOATS = {"f32", "m8n8", "m16n16", "m8n16", "m16n8"}
_DOUBLE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def fits(
    operands: Sequence[Operand],
    row: Row,
    words: Mapping[str, str],
    mods: Sequence[str],
    registers: Mapping[str, str],
) -> bool:
    """Whether operands fit a row whose slots hold ``words``; ``mods``: all modifiers."""
    kinds = _taken(operands, row.operands, words, registers)
    if kinds is None:
        return False
    vectors = [o for o, k in zip(operands, kinds, strict=False) if k.kind == "v"]
    if not vectors:
        return True
    sizes = tuple(len(o.items) for o in vectors if isinstance(o, Vector))
    if row.opcode == "mov":
        return _packs(vectors[0], width(words["T"]), registers)
    if row.effect == "matrix" and not all(_fragment(o, mods, registers) for o in vectors):
        return False
    expected = lengths(row, mods)
    return expected is None or sizes == expected


def _packs(vector: Operand, bits: int, registers: Mapping[str, str]) -> bool:
    """Whether the elements of a vector make up a word (PTX ISA, mov: pack and unpack)."""
    if not isinstance(vector, Vector) or len(vector.items) not in (2, 4):
        return False
    known = [width(registers[x.name]) for x in vector.items if isinstance(x, Reg)]
    return all(n * len(vector.items) == bits for n in known)


def _fragment(vector: Operand, mods: Sequence[str], registers: Mapping[str, str]) -> bool:
    """Whether registers may hold a part of a matrix: 64-bit floats or words; floats for sums of floats."""
    assert isinstance(vector, Vector)
    types = [registers[x.name] for x in vector.items if isinstance(x, Reg)]
    floats = bool(types) and all(t == "f32" for t in types)
    bits = 64 if "f64" in mods else 32
    return all(t != "pred" and width(t) == bits for t in types) and (
        not floats or _MAY_BE_FLOATS & {*mods} != set()
    )


def _taken(
    operands: Sequence[Operand],
    kinds: Sequence[OperandKind],
    words: Mapping[str, str],
    registers: Mapping[str, str],
) -> tuple[OperandKind, ...] | None:
    """The kind of each operand, without the optional ones that are left out; None if they do not fit."""
    if not kinds:
        return None if operands else ()
    first, rest = kinds[0], kinds[1:]
    if first.kind == "*":
        return ()
    if first.kind == "h" and "HINT" not in words:
        return _taken(operands, rest, words, registers)
    if operands and _one(operands[0], first, words, registers):
        found = _taken(operands[1:], rest, words, registers)
        if found is not None:
            return (first, *found)
    return _taken(operands, rest, words, registers) if first.optional else None


def _one(o: Operand, k: OperandKind, words: Mapping[str, str], registers: Mapping[str, str]) -> bool:
    type_ = words.get(k.type, k.type)
    if k.type.startswith("2"):
        type_ = _DOUBLE[words[k.type[1:]]]
    match k.kind:
        case "d":
            return isinstance(o, Reg) and agrees(type_, registers[o.name], k.wider)
        case "u":
            return isinstance(o, Sink) or (isinstance(o, Reg) and agrees(type_, registers[o.name]))
        case "s" | "r" | "m" | "M" | "x":
            if isinstance(o, Special):
                return k.kind in "Mx" and _special(o, type_)
            allowed = k.kind in "mM" if isinstance(o, Sym) else k.kind != "r" or isinstance(o, Reg)
            return allowed and _source(o, type_, k.wider, registers)
        case "h":
            return _source(o, "b64", False, registers)
        case "L" | "S":
            return _moved(o, type_, words.get("VEC"), k.kind == "L", registers)
        case "p":
            return isinstance(o, Sink) or _predicate(o, registers)
        case "P":
            both = (o.first, o.second) if isinstance(o, Pair) else (o,)
            return all(_one(x, _P, words, registers) for x in both)
        case "D":
            if isinstance(o, Pair):
                return _one(o.first, _WORD, words, registers) and _one(o.second, _P, words, registers)
            return _one(o, _WORD, words, registers)
        case "q":
            return isinstance(o, Imm) or _predicate(o.reg if isinstance(o, Not) else o, registers)
        case "a":
            return isinstance(o, Mem) and not o.coords
        case "t":
            return isinstance(o, Mem) and bool(o.coords)
        case "i":
            return isinstance(o, Imm)
        case "k":
            guard = _predicate(o.reg if isinstance(o, Not) else o, registers)
            return guard or _source(o, "u32", False, registers)
        case "v":
            return isinstance(o, Vector)
        case "l":
            return isinstance(o, Label | Sym | Reg)
        case "_":
            return isinstance(o, Sink)
    raise AssertionError(k.kind)


_P = OperandKind("p")
_WORD = OperandKind("u", "b32")


def _predicate(o: Operand, registers: Mapping[str, str]) -> bool:
    if isinstance(o, Reg):
        return registers[o.name] == "pred"
    return isinstance(o, Special) and o.name == "%is_explicit_cluster"


def _source(o: Operand, type_: str, wider: bool, registers: Mapping[str, str]) -> bool:
    match o:
        case Reg(name):
            return agrees(type_, registers[name], wider)
        case Imm():
            return type_ in ("a", "pred") or (_family(type_) != "f" and "x" not in type_)
        case FloatImm():
            return type_ in ("f32", "f64") or type_ == f"b{o.width}"
        case Sym():  # an address
            return _family(type_) != "f" and width(type_) in (32, 64)
    return False


def _special(o: Special, type_: str) -> bool:
    """Whether a special register, which only moves and conversions of integers read, has a type's width."""
    bits = 64 if o.name.startswith(_WIDE_SPECIALS) else 32
    return _family(type_) != "f" and width(type_) in (bits, 16 if bits == 32 else bits)


def _moved(o: Operand, type_: str, vector: str | None, loads: bool, registers: Mapping[str, str]) -> bool:
    if vector is None:
        items: Sequence[Operand] = o.items if isinstance(o, Vector) and len(o.items) == 1 else (o,)
    elif isinstance(o, Vector) and len(o.items) == _VECTOR[vector]:
        items = o.items
    else:
        return False
    if not loads:
        plain = not any(isinstance(x, Special | Sym) for x in items)
        return plain and all(_source(x, type_, True, registers) for x in items)
    into = [x for x in items if not isinstance(x, Sink)]
    return all(isinstance(x, Reg) and agrees(type_, registers[x.name], True) for x in into)


def _family(type_: str) -> str:
    """``b`` bits, ``i`` an integer, ``f`` a float."""
    if type_[0] in "us" and type_[1:2].isdigit():
        return "i"
    return "b" if type_[0] == "b" and type_[1:2].isdigit() else "f"


def agrees(type_: str, register: str, wider: bool = False) -> bool:
    """Whether a register fits the type of an instruction; ``wider``: also if it is wider."""
    if "pred" in (type_, register):
        return type_ == register
    if type_ == "a":
        return width(register) in (32, 64) and _family(register) != "f"
    mine, theirs = width(type_), width(register)
    if mine != theirs and not (wider and theirs > mine and type_ != "bf16"):
        return False
    if register[0] == "b" and register[1:2].isdigit():
        return True
    if "x" in type_ or type_ in ("bf16", "tf32"):
        return register == type_
    kind, other = _family(type_), _family(register)
    if mine != theirs:
        return kind != "f" and other != "f"
    return kind == "b" or (register == type_ if kind == "f" else kind == other)
