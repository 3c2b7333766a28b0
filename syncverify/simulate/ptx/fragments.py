"""Which lane holds which element of a matrix (PTX ISA, 9.7.14 and 9.7.15), and products of such matrices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt

from syncverify.simulate.ptx.floats import arithmetic
from syncverify.simulate.ptx.types import Lanes

_LANE = np.arange(32)
GROUP, IN_GROUP = _LANE >> 2, _LANE & 3

#: Element types: NumPy type of the stored bits, elements in a register (of 32 bits, of f64 in 64).
ELEMENTS = {
    "f16": (np.float16, 2), "bf16": (ml_dtypes.bfloat16, 2), "tf32": (np.float32, 1), "s8": (np.int8, 4),
    "u8": (np.uint8, 4), "e4m3": (ml_dtypes.float8_e4m3fn, 4), "e5m2": (ml_dtypes.float8_e5m2, 4),
    "f64": (np.float64, 1),
}  # fmt: skip
#: Elements of less than a byte: bits, and whether they have a sign.
PARTS = {"s4": (4, True), "u4": (4, False), "b1": (1, False)}


#: How products of f64 round.
MODES = frozenset({"rn", "rz", "rm", "rp"})
#: NumPy type of the elements of C and D that are no halves.
_NUMBERS = {"f32": np.float32, "s32": np.int32, "f64": np.float64}


def values(words: Lanes, kind: str) -> npt.NDArray[np.float64]:
    """Elements of 32-bit words as numbers, along a last axis."""
    if kind in PARTS:
        bits, signed = PARTS[kind]
        found = (words[..., None].astype(np.int64) >> np.arange(0, 32, bits)) & ((1 << bits) - 1)
        return (found - ((found >> bits - 1) << bits if signed else 0)).astype(np.float64)
    dtype, count = ELEMENTS[kind]
    if kind == "tf32":
        words = words & np.uint32(0xFFFFE000)
    out = np.ascontiguousarray(words).view(dtype).astype(np.float64)
    return out.reshape(*words.shape, count)


def count_of(kind: str) -> int:
    """Elements in a register."""
    return ELEMENTS[kind][1] if kind in ELEMENTS else 32 // PARTS[kind][0]


def rows_of_a(registers: list[Lanes], kind: str) -> npt.NDArray[np.float64]:
    """A (16 rows) from its registers, of which there are 2, 4 or 8, or 1 for 8 rows: the others are zeros."""
    count = count_of(kind)
    columns = 4 * count * max(len(registers) // 2, 1)
    out = np.zeros((16, columns))
    for r, register in enumerate(registers):
        row, found = GROUP + 8 * (r & 1), values(register, kind)
        for j in range(count):
            out[row, count * IN_GROUP + (r >> 1) * 4 * count + j] = found[:, j]
    return out


def columns_of_b(registers: list[Lanes], kind: str) -> npt.NDArray[np.float64]:
    """B (8 columns) from its registers."""
    count = count_of(kind)
    out = np.zeros((4 * count * len(registers), 8))
    for r, register in enumerate(registers):
        found = values(register, kind)
        for j in range(count):
            out[count * IN_GROUP + r * 4 * count + j, GROUP] = found[:, j]
    return out


def matrix_of(registers: list[Lanes], kind: str) -> Lanes:
    """C or D: 16 rows, from 32-bit elements, or from packed f16."""
    if kind == "f16":
        out = np.zeros((16, 4 * len(registers)))
        for i, register in enumerate(registers):
            pair = np.ascontiguousarray(register).view(np.float16).reshape(32, 2)
            for j in range(2):
                out[GROUP + 8 * (i & 1), 8 * (i >> 1) + 2 * IN_GROUP + j] = pair[:, j]
        return out
    dtype = _NUMBERS[kind]
    exact = np.zeros((16, max(2 * len(registers), 8)), dtype)
    for i, register in enumerate(registers):
        exact[GROUP + 8 * ((i >> 1) & 1), 8 * (i >> 2) + 2 * IN_GROUP + (i & 1)] = register.view(dtype)
    return exact


def registers_of(matrix: Lanes, kind: str) -> list[Lanes]:
    """The inverse of ``matrix_of``."""
    out: list[Lanes] = []
    if kind == "f16":
        half = matrix.astype(np.float16)
        for i in range(matrix.shape[1] // 4):
            row = GROUP + 8 * (i & 1)
            column = 8 * (i >> 1) + 2 * IN_GROUP
            out.append(
                np.stack([half[row, column], half[row, column + 1]], axis=1).view(np.uint32).reshape(32)
            )
        return out
    whole = matrix.astype(_NUMBERS[kind])
    bits = np.uint64 if kind == "f64" else np.uint32
    for i in range(matrix.shape[1] // 2):
        out.append(whole[GROUP + 8 * ((i >> 1) & 1), 8 * (i >> 2) + 2 * IN_GROUP + (i & 1)].view(bits))
    return out


def fused(a: Lanes, b: Lanes, start: Lanes, mode: str) -> Lanes:
    """``a b + start`` of f64: a multiply-add for each ``k``, of which each rounds once, by this mode. In
    which order they come is not specified; here it is that of ``k``."""
    of = arithmetic("fma", "f64", (mode,))
    assert of is not None
    total = np.ascontiguousarray(start)
    for k in range(a.shape[1]):
        each = (np.broadcast_to(x, total.shape) for x in (a[:, k : k + 1], b[k]))
        total = of(*(np.ascontiguousarray(x).view(np.uint64) for x in (*each, total))).view(np.float64)
    return total


def different_bits(a: Lanes, b: Lanes) -> Lanes:
    """How many bits of each row of one matrix differ from those of each column of another."""
    return a.sum(axis=1)[:, None] + b.sum(axis=0)[None, :] - 2 * (a @ b)


def integers(total: Lanes, *, clamps: bool) -> Lanes:
    """Sums as integers of 32 bits: the nearest that there is (``.satfinite``), or what is left of them."""
    if clamps:
        return np.clip(total, -(2.0**31), 2.0**31 - 1).astype(np.int32)
    return (total.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
