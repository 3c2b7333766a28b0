"""Types of PTX as NumPy arrays of 32 lanes.

A register holds unsigned bits: ``uint8`` to ``uint64`` by its width, ``bool`` for predicates, and 32 by 2
``uint64`` for 128 bits. Arrays are never changed in place: an instruction makes a new one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

LANES = 32
Lanes = npt.NDArray[Any]

#: Bits of each type; packed types have the bits of the whole.
BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "u16x2": 32,
        "s16x2": 32, "tf32": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64, "f32x2": 64, "b128": 128,
    "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16,
}  # fmt: skip
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
INTEGERS = frozenset({"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "u16x2", "s16x2"})
FLOATS = frozenset({"f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2", "tf32"})


def is_signed(kind: str) -> bool:
    return kind[0] == "s"


def type_of(mods: tuple[str, ...]) -> str:
    """The last type among the modifiers, '' if there is none."""
    for word in reversed(mods):
        if word in BITS:
            return word
    return ""


def types_of(mods: tuple[str, ...]) -> list[str]:
    return [m for m in mods if m in BITS]


def filled(value: int, bits: int) -> Lanes:
    """One number in all lanes, cut to ``bits``."""
    if bits == 1:
        return np.full(LANES, bool(value & 1))
    if bits == 128:
        out = np.empty((LANES, 2), np.uint64)
        out[:, 0] = value & (2**64 - 1)
        out[:, 1] = (value >> 64) & (2**64 - 1)
        return out
    return np.full(LANES, value & ((1 << bits) - 1), UNSIGNED[bits])


def signed(a: Lanes) -> Lanes:
    """The same bits as two's complement."""
    return a.view(SIGNED[a.dtype.itemsize * 8])


def unsigned(a: Lanes) -> Lanes:
    return a.view(UNSIGNED[a.dtype.itemsize * 8])


def extend(a: Lanes, bits: int, sign: bool) -> Lanes:
    """The low ``bits`` of a wider register, or a narrower one extended by sign or zeros."""
    own = a.dtype.itemsize * 8
    if own == bits:
        return a
    if own > bits or not sign:
        return a.astype(UNSIGNED[bits])
    return a.view(SIGNED[own]).astype(SIGNED[bits]).view(UNSIGNED[bits])
