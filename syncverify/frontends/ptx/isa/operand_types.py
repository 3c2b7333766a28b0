"""Whether operands fit a row: their number, their kinds and the types of registers (PTX ISA, operand types).

A type of bits fits every register of its width, integers of one width fit each other, floats only floats.
Packed types, bf16 and tf32 fit registers of bits alone, or of their own type; ``b16x1`` and ``b32x1`` mean
bits alone. What these types and f16 take is in registers: never a constant. A register of two halves also
fits an integer whose type the instruction names.
Loads, stores and conversions also take wider registers (PTX ISA, operand size exceeding instruction type
size).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from syncverify.frontends.ptx.isa.fragments import elements, lengths
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
    Selected,
    Sink,
    Special,
    Sym,
    Vector,
)
from syncverify.frontends.ptx.syntax.types import width

_WIDE_SPECIALS = ("%clock64", "%globaltimer", "%gridid", "%pm64", "%current_graph_exec")
_VECTOR = {"v2": 2, "v4": 4, "v8": 8, "v16": 16}
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
    types = elements(row, mods)
    if types is not None and not all(map(partial(_fragment, registers), vectors, types)):
        return False
    expected = lengths(row, mods)
    return expected is None or sizes == expected


def _packs(vector: Operand, bits: int, registers: Mapping[str, str]) -> bool:
    """Whether the elements of a vector make up a word (PTX ISA, mov: pack and unpack)."""
    if not isinstance(vector, Vector) or len(vector.items) not in (2, 4):
        return False
    known = [width(registers[x.name]) for x in vector.items if isinstance(x, Reg)]
    return all(n * len(vector.items) == bits for n in known)


def _fragment(registers: Mapping[str, str], vector: Operand, type_: str) -> bool:
    """Whether registers may hold a part of a matrix whose registers are of a type; ``any32``: of 32 bits."""
    assert isinstance(vector, Vector)
    types = [registers[x.name] for x in vector.items if isinstance(x, Reg)]
    if type_ == "any32":
        return all(t != "pred" and width(t) == 32 for t in types)
    return all(agrees(type_, t) for t in types)


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
    """Whether an operand is of a kind, and of its type."""
    if (shape := _SHAPES.get(k.kind)) is not None:
        return shape(o)
    match k.kind:
        case "d" | "u":
            return _written(o, k, words, registers)
        case "s" | "r" | "m" | "M" | "x":
            return _read(o, k, words, registers)
        case "h":
            return not isinstance(o, Sym) and _source(o, "u64", False, registers)
        case "L" | "S" | "U":
            return (k.kind == "U" and isinstance(o, Sink)) or _moved(o, k, words, registers)
        case "P":
            both = (o.first, o.second) if isinstance(o, Pair) else (o,)
            return all(_one(x, _P, words, registers) for x in both)
        case "D" | "E":
            return _with_predicate(o, k, words, registers)
    return _condition(o, k.kind, registers)


#: Kinds that ask nothing of types.
_SHAPES: Mapping[str, Callable[[Operand], bool]] = {
    "a": lambda o: isinstance(o, Mem) and not o.coords,
    "t": lambda o: isinstance(o, Mem) and bool(o.coords),
    "i": lambda o: isinstance(o, Imm),
    "v": lambda o: isinstance(o, Vector),
    "l": lambda o: isinstance(o, Label | Sym | Reg),
    "_": lambda o: isinstance(o, Sink),
}


def _type_of(k: OperandKind, words: Mapping[str, str]) -> str:
    """The type of a kind: that of a slot, twice as wide after ``2``, or the one that the row names."""
    return _DOUBLE[words[k.type[1:]]] if k.type.startswith("2") else words.get(k.type, k.type)


def _written(o: Operand, k: OperandKind, words: Mapping[str, str], registers: Mapping[str, str]) -> bool:
    """Whether an operand is a register to write; of kind ``u`` it may be left out."""
    if isinstance(o, Selected):
        return False  # parts of registers are operands of video instructions alone
    if isinstance(o, Reg):
        return agrees(_type_of(k, words), registers[o.name], k.wider, named=k.type in words)
    return k.kind == "u" and isinstance(o, Sink)


def _read(o: Operand, k: OperandKind, words: Mapping[str, str], registers: Mapping[str, str]) -> bool:
    """Whether an operand is a value: a register alone, or also a constant, an address, a special register."""
    type_ = _type_of(k, words)
    if isinstance(o, Special):
        return k.kind in "Mx" and _special(o, type_)
    allowed = k.kind in "mM" if isinstance(o, Sym) else k.kind != "r" or isinstance(o, Reg)
    return allowed and _source(o, type_, k.wider, registers, named=k.type in words)


def _condition(o: Operand, kind: str, registers: Mapping[str, str]) -> bool:
    """Whether an operand is a predicate, negated where the kind lets it, or what may stand in its place."""
    if _predicate(o.reg if isinstance(o, Not) and kind in ("q", "Q", "k") else o, registers):
        return True
    match kind:
        case "p" | "Q":
            return False
        case "o":
            return isinstance(o, Sink)
        case "q":
            return isinstance(o, Imm)
        case "k":
            return _source(o, "u32", False, registers)
    raise AssertionError(kind)


_P = OperandKind("o")


def _with_predicate(
    o: Operand, k: OperandKind, words: Mapping[str, str], registers: Mapping[str, str]
) -> bool:
    """A word and a predicate to write, ``d|p``; of kind ``D`` the predicate may lack or be ``_``."""
    word = OperandKind("u", k.type)
    if not isinstance(o, Pair):
        return k.kind == "D" and _one(o, word, words, registers)
    second = isinstance(o.second, Sink) if k.kind == "D" else False
    return _one(o.first, word, words, registers) and (second or _predicate(o.second, registers))


def _predicate(o: Operand, registers: Mapping[str, str]) -> bool:
    if isinstance(o, Reg):
        return registers[o.name] == "pred"
    return isinstance(o, Special) and o.name == "%is_explicit_cluster"


def _source(
    o: Operand, type_: str, wider: bool, registers: Mapping[str, str], *, named: bool = False
) -> bool:
    match o:
        case Selected():
            return False
        case Reg(name):
            return agrees(type_, registers[name], wider, named=named)
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


def _moved(o: Operand, k: OperandKind, words: Mapping[str, str], registers: Mapping[str, str]) -> bool:
    """Whether an operand may be loaded (of kind ``L`` or ``U``) or stored: a vector where a word says so."""
    type_, vector = words.get(k.type, k.type), words.get("VEC")
    if vector is None:
        items: Sequence[Operand] = o.items if isinstance(o, Vector) and len(o.items) == 1 else (o,)
    elif isinstance(o, Vector) and len(o.items) == _VECTOR[vector]:
        items = o.items
    else:
        return False
    if k.kind == "S":
        plain = not any(isinstance(x, Special | Sym) for x in items)
        return plain and all(_source(x, type_, k.wider, registers, named=True) for x in items)
    into = [x for x in items if not (isinstance(x, Sink) and isinstance(o, Vector))]
    return all(isinstance(x, Reg) and agrees(type_, registers[x.name], k.wider, named=True) for x in into)


def _family(type_: str) -> str:
    """``b`` bits, ``i`` an integer, ``f`` a float."""
    if type_[0] in "us" and type_[1:2].isdigit():
        return "i"
    return "b" if type_[0] == "b" and type_[1:2].isdigit() else "f"


def agrees(type_: str, register: str, wider: bool = False, *, named: bool = False) -> bool:
    """Whether a register fits the type of an instruction; ``wider``: also if it is wider; ``named``: the
    instruction's name has this type."""
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
        return register == type_ or (named and register == "f16x2" and _integers(type_))
    kind, other = _family(type_), _family(register)
    if kind == "b" or (named and kind == "i" and register == "f16x2"):
        return True
    if mine != theirs:
        return kind != "f" and other != "f"
    return register == type_ if kind == "f" else kind == other


def _integers(type_: str) -> bool:
    """Whether a packed type is of two 16-bit integers."""
    return type_ in ("u16x2", "s16x2")
