"""How many registers the vectors of an instruction have, and of what types (PTX ISA, the fragments of each
matrix; which types of registers hold them is as ptxas 13 takes it)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from syncverify.frontends.ptx.isa.rows import Row

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4,
    "b1": 1, "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 8,
}  # fmt: skip
_NUMBER = {"x1": 1, "x2": 2, "x4": 4}
_WARP, _WARPGROUP = 32, 128
#: Registers of a wmma fragment of f16, whatever the shape: A and B hold elements twice.
_WMMA_HALF = 8


def lengths(row: Row, mods: Sequence[str]) -> tuple[int, ...] | None:
    """How many elements each vector of an instruction has, in the order of its operands; None: any."""
    match row.opcode:
        case "ldmatrix":
            number = next(_NUMBER[m] for m in mods if m in _NUMBER)
            return (2 * number if "m16n16" in mods else number,)
        case "stmatrix":
            return (next(_NUMBER[m] for m in mods if m in _NUMBER),)
        case "mma":
            return _mma(mods)
        case "wmma":
            return _wmma(row, mods)
        case "wgmma" if row.head[:1] == ("mma_async",):
            return _wgmma(row, mods)
        case "cp" if "im2col" in mods:
            rank = next(int(m[0]) for m in mods if m[1:] == "d")
            return (max(rank - 2, 0),)
    return None


def _shape(mods: Sequence[str]) -> tuple[int, int, int]:
    m, n, k = next(found.groups() for found in map(_SHAPE.fullmatch, mods) if found)
    return int(m), int(n), int(k)


def _registers(elements: int, type_: str, bits: int | None = None) -> int:
    return max(elements * (bits or _BITS[type_]) // (64 if type_ == "f64" else 32), 1)


def _mma(mods: Sequence[str]) -> tuple[int, ...]:
    m, n, k = _shape(mods)
    d, a, b, c = [x for x in mods if x in _BITS][:4]
    if (m, n, k) == (8, 8, 4) and a == "f16":  # four products of quarters of the warp
        sums = {"f16": 4, "f32": 8}
        return sums[d], 2, 2, sums[c]
    sparse = 2 if any(x.startswith("sp") for x in mods) else 1
    packed = 4 if a == "e2m1" and any(x in mods for x in ("kind::mxf4", "kind::mxf4nvf4")) else None
    found = (
        _registers(m * n // _WARP, d),
        _registers(m * k // sparse // _WARP, a, packed),
        _registers(k * n // _WARP, b, packed),
        _registers(m * n // _WARP, c),
    )
    return (*found, 2, 2) if "block_scale" in mods else found


def _wmma(row: Row, mods: Sequence[str]) -> tuple[int, ...]:
    m, n, k = _shape(mods)

    def operand(which: str, type_: str) -> int:
        if which in "cd":
            return _registers(m * n // _WARP, type_)
        if type_ == "f16":
            return _WMMA_HALF
        return _registers((m if which == "a" else n) * k // _WARP, type_)

    types = [x for x in mods if x in _BITS]
    if row.head[0] != "mma":
        return (operand(row.head[1], types[-1]),)
    if len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    d, a, b, c = types
    return operand("d", d), operand("a", a), operand("b", b), operand("c", c)


def _wgmma(row: Row, mods: Sequence[str]) -> tuple[int, ...]:
    m, n, _ = _shape(mods)
    d = next(x for x in mods if x in _BITS)
    found = _registers(m * n // _WARPGROUP, d)
    return (found, 4) if row.operands[1].kind == "v" else (found,)


def elements(row: Row, mods: Sequence[str]) -> tuple[str, ...] | None:
    """The type of the registers of each vector of an instruction, in the order of its operands; ``any32``:
    of any type of 32 bits; None: the vectors are no parts of matrices."""
    types = [x for x in mods if x in _BITS]
    match row.opcode:
        case "ldmatrix" | "stmatrix":
            return ("any32",)
        case "mma":
            d, a, b, c = types[:4]
            scaled = "block_scale" in mods
            left, right = (_packed(x, scaled=scaled) for x in (a, b))
            return _sum(d), left, right, _sum(c), "u16", "u16"
        case "wmma" if row.head[0] != "mma":
            return (_sum(types[-1]),)
        case "wmma":
            d, a, b, c = (types[0], "f16", "f16", types[1]) if len(types) == 2 else types
            return _sum(d), _sum(a), _sum(b), _sum(c)
        case "wgmma" if row.head[:1] == ("mma_async",):
            return _sum(types[0]), "any32" if _BITS[types[1]] < 16 and types[1][0] in "sub" else "f16x2"
    return None


def _sum(type_: str) -> str:
    """The type of the registers of a sum, and of all parts of matrices of wmma."""
    if type_ in ("f16", "bf16", "tf32"):
        return "f16x2" if type_ == "f16" else "b32x1"
    return type_ if type_ in ("f32", "f64") else "u32"


def _packed(type_: str, *, scaled: bool) -> str:
    """The type of the registers of a factor of mma."""
    if type_ == "f64":
        return "b64"
    if type_ == "f16":
        return "f16x2"
    return "b32x1" if scaled or type_ in ("bf16", "tf32") else "any32"
