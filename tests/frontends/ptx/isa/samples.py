"""Instructions made of the rows of the table: the text that a row describes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from syncverify.frontends.ptx.isa.fragments import lengths
from syncverify.frontends.ptx.isa.match import forms
from syncverify.frontends.ptx.isa.rows import OperandKind, Row, Slot, table
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.frontends.ptx.syntax.types import width

#: What registers are declared as, by the letters before their number.
TYPES = {"p": "pred", "c": "b8", "h": "b16", "r": "b32", "rd": "b64", "q": "b128", "f": "f32", "d": "f64"}
_NAMES = {8: "%c", 16: "%h", 32: "%r", 64: "%rd", 128: "%q"}
_DOUBLE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
#: Numbers that instructions ask for.
_NUMBERS = {"st": 0, "setmaxnreg": 64, "applypriority": 128, "discard": 128, "fence": 128}
Words = tuple[tuple[Slot, str], ...]


def choices(row: Row, most: int = 40) -> Iterator[Words]:
    """The modifiers of a row: the fewest, then with each other word in one slot; of long slots a few."""
    least = tuple((s, s.words[0]) for s in row.slots if not s.optional)
    if fits(row, least):
        yield least
    for s in row.slots:
        step = max(1, len(s.words) // most + 1)
        for word in s.words[:: step if len(s.words) > most else 1]:
            words = tuple((x, word if x is s else x.words[0]) for x in row.slots if not x.optional or x is s)
            if words != least and fits(row, words):
                yield words


def fits(row: Row, words: Words) -> bool:
    """Whether modifiers that each have a slot go together, and name this row."""
    return any(f.row is row for f in forms(row.opcode, (*row.head, *(w for _, w in words))))


def text(row: Row, words: Words, optional: bool = False) -> str | None:
    """An instruction of a row; ``optional``: with all operands. None where the row takes any operands."""
    mods = (*row.head, *(w for _, w in words))
    slots = {s.name: w for s, w in words}
    if any(k.kind == "*" for k in row.operands):
        return None
    vectors = list(lengths(row, mods) or ()) if any(k.kind == "v" for k in row.operands) else []
    out: list[str] = []
    for n, k in enumerate(row.operands, 2):
        if (k.optional and not optional) or (k.kind == "h" and "HINT" not in slots):
            continue
        out.append(_operand(row, k, n, slots, mods, vectors, len(out)))
    return f"{'.'.join((row.opcode, *mods))} {', '.join(out)};"


def _operand(row: Row, k: OperandKind, n: int, slots: dict[str, str], mods: tuple[str, ...],
             vectors: list[int], place: int) -> str:  # fmt: skip
    type_ = slots.get(k.type, k.type)
    if k.type.startswith("2"):
        type_ = _DOUBLE[slots[k.type[1:]]]
    match k.kind:
        case "h":
            return "%rd7"
        case "d" | "s" | "m" | "M" | "x" | "u" | "r":
            return _register("b64" if type_ == "a" else type_, n)
        case "L" | "S" | "U" if "VEC" in slots:
            items = [_register(type_, n + j) for j in range(int(slots["VEC"][1:]))]
            return "{" + ", ".join(items) + "}"
        case "L" | "S" | "U":
            return _register(type_, n)
        case "p" | "o" | "q" | "Q":
            return f"%p{n % 8}"
        case "P":
            return "%p1|%p2" if slots["T"].endswith("x2") else "%p1"
        case "D" | "E":
            return "%r1|%p1"
        case "a":
            tensor_memory = row.opcode == "tcgen05" and row.head[0] not in ("alloc", "commit")
            return f"[%r{n}]" if tensor_memory else f"[%rd{n}]"
        case "t":
            rank = next(int(m[0]) for m in mods if m[1:] == "d")
            return "[%rd8, {" + ", ".join(f"%r{j + 1}" for j in range(rank)) + "}]"
        case "i":
            return str(_number(row, place))
        case "k":
            return "%r3"
        case "v":
            return _vector(row, slots, mods, vectors, place)
        case "l":
            return "L"
        case "_":
            return "_"
    raise AssertionError(k.kind)


def _number(row: Row, place: int) -> int:
    if row.opcode == "wgmma":
        return 0 if place == 4 and "sp" in row.head else 1
    if row.name.startswith(("cp.async.ca", "cp.async.cg")):
        return 16
    if row.name.startswith("tensormap.cp"):
        return 128
    return 0 if row.opcode == "mma" else _NUMBERS.get(row.opcode, 1)


def _vector(row: Row, slots: dict[str, str], mods: tuple[str, ...], vectors: list[int], place: int) -> str:
    count, type_ = (vectors.pop(0) if vectors else 2), "b32"
    types = [m for m in mods if m in ("f16", "f32", "f64", "s32", "bf16", "tf32", "s8", "u8")]
    if row.opcode == "mov":
        type_ = {16: "b8", 32: "b16", 64: "b32", 128: "b64"}[width(slots["T"])]
    elif row.opcode == "cp" or ("block_scale" in mods and place > 4):
        type_ = "b16"
    elif "f64" in types:
        type_ = "f64"
    elif row.opcode in ("mma", "wmma", "wgmma") and types:
        moves = row.head[:1] in (("load",), ("store",))
        if (place == 0 or moves) and types[0] == "f32":
            type_ = "f32"
        elif place == 3 and types[-1] == "f32":
            type_ = "f32"
    elif row.opcode == "clusterlaunchcontrol":
        count = 4
    return "{" + ", ".join(_register(type_, j + 1) for j in range(count)) + "}"


def _register(type_: str, n: int) -> str:
    if type_ == "pred":
        return f"%p{n}"
    if type_ in ("f32", "f64"):
        return f"%{'f' if type_ == 'f32' else 'd'}{n}"
    return f"{_NAMES[width(type_)]}{n}"


def registers_of(lines: str) -> str:
    """Declarations of the registers that instructions name."""
    used = sorted(set(re.findall(r"%([a-z]+)([0-9]+)", lines)))
    return " ".join(f".reg .{TYPES[of]} %{of}{n};" for of, n in used if of in TYPES)


def function(line: str, target: str = "sm_107a") -> Function:
    """An entry with one instruction before ``ret``."""
    head = f".version 9.4\n.target {target}\n.address_size 64\n"
    module = parse(f"{head}.visible .entry k()\n{{\n{registers_of(line)}\n{line}\nL: ret;\n}}\n", "t.ptx")
    return module.entries[0]


def all_rows() -> list[Row]:
    return [row for rows in table().values() for row in rows]
