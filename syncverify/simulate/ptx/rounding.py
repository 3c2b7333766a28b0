"""Rounding to the floating-point formats of PTX, in all modes, from ``float64``.

A value that ``float64`` cannot hold (a sum or product of two ``float32``) is first rounded to odd: its last
bit then says that something was lost, and a second rounding to at most 51 bits is as if there had been one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from syncverify.simulate.ptx.types import Lanes


@dataclass(frozen=True, slots=True)
class Format:
    """``precision``: significant bits with the leading one. ``least``/``most``: exponents of normal numbers.

    ``largest`` is the largest finite number; ``infinite`` whether the format has infinities.
    """

    bits: int
    precision: int
    least: int
    most: int
    largest: float
    dtype: Any
    infinite: bool = True


F64 = Format(64, 53, -1022, 1023, float(np.finfo(np.float64).max), np.float64)
F32 = Format(32, 24, -126, 127, float(np.finfo(np.float32).max), np.float32)
F16 = Format(16, 11, -14, 15, 65504.0, np.float16)
BF16 = Format(16, 8, -126, 127, (2 - 2.0**-7) * 2.0**127, ml_dtypes.bfloat16)
TF32 = Format(32, 11, -126, 127, float((2 - 2.0**-10) * 2.0**127), np.float32)
E4M3 = Format(8, 4, -6, 8, 448.0, ml_dtypes.float8_e4m3fn, infinite=False)
E5M2 = Format(8, 3, -14, 15, 57344.0, ml_dtypes.float8_e5m2)
FORMATS = {"f64": F64, "f32": F32, "f16": F16, "bf16": BF16, "tf32": TF32, "e4m3": E4M3, "e5m2": E5M2}

#: The NaN that arithmetic gives.
NAN_BITS = {"f64": 0x7FF8000000000000, "f32": 0x7FFFFFFF, "f16": 0x7FFF, "bf16": 0x7FFF, "tf32": 0x7FFFFFFF,
            "e4m3": 0x7F, "e5m2": 0x7F}  # fmt: skip


def odd(total: Lanes, error: Lanes) -> Lanes:
    """``total + error`` rounded to odd; ``error`` is what the nearest rounding lost."""
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    move = (error != 0) & even & np.isfinite(total)
    return np.where(move, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """A sum of ``float64`` and its exact error."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    overflow = np.isinf(total) & np.isfinite(a) & np.isfinite(b)
    return total, np.where(overflow, -np.sign(total), np.where(np.isfinite(error), error, 0.0))


def rounded(x: Lanes, to: Format, mode: str) -> Lanes:
    """``float64`` values of the format; ``mode``: rn (to even), rna (away), rz, rm, rp."""
    finite = np.isfinite(x)
    value = np.where(finite, x, 0.0)
    _, exponent = np.frexp(value)
    quantum = np.maximum(exponent - 1, to.least) - (to.precision - 1)
    if to is F64:
        return x
    scaled = np.ldexp(value, -quantum)
    if mode == "rn":
        whole = np.rint(scaled)
    elif mode == "rz":
        whole = np.trunc(scaled)
    elif mode == "rm":
        whole = np.floor(scaled)
    elif mode == "rp":
        whole = np.ceil(scaled)
    elif mode == "rna":
        whole = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    else:
        raise ValueError(mode)
    out = np.copysign(np.ldexp(whole, quantum), value)
    over = np.abs(out) > to.largest
    if over.any():
        keep = (mode == "rz") | ((mode == "rm") & (value > 0)) | ((mode == "rp") & (value < 0))
        out = np.where(over, np.copysign(np.where(keep, to.largest, np.inf), value), out)
    return np.where(finite, out, x)


def to_bits(x: Lanes, kind: str) -> Lanes:
    """The bits of values that the format holds; NaN becomes the canonical one."""
    to = FORMATS[kind]
    kind_bits = np.dtype(f"u{to.bits // 8}")
    if to is E4M3:
        out = x.astype(np.float32).astype(to.dtype).view(np.uint8)
    else:
        out = x.astype(to.dtype).view(kind_bits)
    return np.where(np.isnan(x), kind_bits.type(NAN_BITS[kind]), out)


def from_bits(a: Lanes, kind: str) -> Lanes:
    """The values of bits as ``float64``."""
    return np.ascontiguousarray(a).view(FORMATS[kind].dtype).astype(np.float64)


def flushed(a: Lanes, kind: str) -> Lanes:
    """Subnormal numbers of the format as zeros of their sign (``.ftz``)."""
    return np.where(np.abs(a) < 2.0 ** FORMATS[kind].least, np.copysign(0.0, a), a)
