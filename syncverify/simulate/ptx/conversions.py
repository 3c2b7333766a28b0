"""``cvt`` (PTX ISA, 9.7.9.21): between integers, between floats, and across."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from syncverify.simulate.ptx.rounding import E4M3, FORMATS, flushed, from_bits, odd, rounded, to_bits
from syncverify.simulate.ptx.types import BITS, INTEGERS, SIGNED, UNSIGNED, Lanes, extend, is_signed, signed

Operation = Callable[..., Lanes]
#: Types that are parts of a byte, which only ``cvt.pack`` has: their bits.
NARROW = {"u2": 2, "s2": 2, "u4": 4, "s4": 4}
_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def bounds(kind: str) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    bits = NARROW.get(kind) or BITS[kind]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(kind) else (0, (1 << bits) - 1)


def saturated_integer(a: Lanes, source: str, target: str) -> Lanes:
    """An integer clamped to the range of another type; the result has the target's width."""
    low, high = bounds(target)
    own_low, own_high = bounds(source)
    x = signed(a) if is_signed(source) else a
    low, high = max(low, own_low), min(high, own_high)
    out = np.clip(x, x.dtype.type(low), x.dtype.type(high))
    return extend(out.view(a.dtype), BITS[target], is_signed(source))


def _float_to_integer(source: str, target: str, mods: tuple[str, ...]) -> Operation | None:
    how = next((m for m in mods if m in _TO_INTEGER), None)
    if how is None:
        return None
    low, high = bounds(target)
    ftz = "ftz" in mods
    dtype = np.dtype((SIGNED if is_signed(target) else UNSIGNED)[BITS[target]])

    def run(a: Lanes) -> Lanes:
        x = from_bits(a, source)
        if ftz:
            x = flushed(x, source)
        whole = _TO_INTEGER[how](np.where(np.isnan(x), 0.0, x))
        # NaN is zero, but the middle of the range where either side has 64 bits.
        nothing = 1 << (BITS[target] - 1) if source == "f64" or BITS[target] == 64 else 0
        # The bounds of 64-bit types are no doubles: what lies at or beyond them is set by hand.
        below, above = whole <= float(low), whole >= float(high)
        safe = np.where(below | above, 0.0, whole).astype(dtype)
        out = np.where(above, np.array(high, dtype), np.where(below, np.array(low, dtype), safe))
        bits = out.astype(dtype).view(UNSIGNED[BITS[target]])
        return np.where(np.isnan(x), np.array(nothing, bits.dtype), bits)

    return run


def _integer_to_float(source: str, target: str, mods: tuple[str, ...]) -> Operation | None:
    mode = next((m for m in mods if m in ("rn", "rz", "rm", "rp")), None)
    if mode is None:
        return None
    form = FORMATS[target]

    def run(a: Lanes) -> Lanes:
        x = signed(a) if is_signed(source) else a
        if BITS[source] < 64:
            return to_bits(rounded(x.astype(np.float64), form, mode), target)
        # 64 bits: two exact halves, added once.
        upper = (x >> x.dtype.type(32)).astype(np.float64) * 2.0**32
        lower = (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)
        total = upper + lower
        error = lower - (total - upper)
        if target == "f64":
            if mode == "rn":
                return to_bits(total, target)
            toward = {"rz": 0.0, "rm": -np.inf, "rp": np.inf}[mode]
            wrong = (error != 0) & ((error > 0) if mode == "rp" else (error < 0) if mode == "rm" else
                                    ((error < 0) == (total > 0)))  # fmt: skip
            return to_bits(np.where(wrong, np.nextafter(total, toward), total), target)
        return to_bits(rounded(odd(total, error), form, mode), target)

    return run


def _float_to_float(source: str, target: str, mods: tuple[str, ...]) -> Operation:
    mode = next((m for m in mods if m in ("rn", "rna", "rz", "rm", "rp")), "")
    whole = next((m for m in mods if m in _TO_INTEGER), "")
    form = FORMATS[target]
    ftz, sat, relu = "ftz" in mods, "sat" in mods, "relu" in mods
    satfinite = "satfinite" in mods

    def run(a: Lanes) -> Lanes:
        x = from_bits(a, source)
        if ftz and source == "f32":
            x = flushed(x, source)
        if whole:
            x = np.copysign(_TO_INTEGER[whole](x), x)
        if relu:
            x = np.where(x <= 0, 0.0, x)
        out = x if not mode and BITS[target] >= BITS[source] else rounded(x, form, mode or "rn")
        if satfinite or form is E4M3:
            over = np.abs(out) > form.largest
            out = np.where(over & ~np.isnan(out), np.copysign(form.largest, out), out)
        if ftz and target == "f32":
            out = flushed(out, target)
        if sat:
            out = np.where(np.isnan(out), 0.0, np.clip(out, 0.0, 1.0) + 0.0)  # of both zeros the positive
        return to_bits(out, target)

    return run


def single(target: str, source: str, mods: tuple[str, ...]) -> Operation | None:
    """One value to one value. Operand and result have the widths of their types."""
    if target in INTEGERS and source in INTEGERS:
        if "sat" in mods:
            low, high = bounds(target)
            least, most = bounds(source)
            if low <= least and most <= high:
                return None  # nothing to saturate: no instruction
            return lambda a: saturated_integer(a, source, target)
        return lambda a: extend(a, BITS[target], is_signed(source))
    if target in INTEGERS:
        return _float_to_integer(source, target, mods) if source in FORMATS else None
    if source in INTEGERS:
        return _integer_to_float(source, target, mods) if target in FORMATS else None
    if target in FORMATS and source in FORMATS:
        return _float_to_float(source, target, mods)
    return None


#: Packed results of two values: the element and the bits of a half.
_PACKED = {"f16x2": "f16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2"}


def pair(target: str, source: str, mods: tuple[str, ...]) -> Operation | None:
    """``cvt.f16x2.f32 d, a, b``: a goes to the upper half."""
    if target not in _PACKED or source != "f32":
        return None
    one = _float_to_float(source, _PACKED[target], mods)
    bits = BITS[target]
    kind = UNSIGNED[bits]

    def run(a: Lanes, b: Lanes) -> Lanes:
        return (one(a).astype(kind) << kind(bits // 2)) | one(b).astype(kind)

    return run


def unpacked(target: str, source: str, mods: tuple[str, ...]) -> Operation | None:
    """``cvt.f16x2.e4m3x2 d, a`` and back: element by element."""
    if target not in _PACKED or source not in _PACKED:
        return None
    one = _float_to_float(_PACKED[source], _PACKED[target], mods)
    half = BITS[source] // 2
    kind = UNSIGNED[BITS[target]]
    part = UNSIGNED[half]

    def run(a: Lanes) -> Lanes:
        low, high = a.astype(part), (a >> a.dtype.type(half)).astype(part)
        return (one(high).astype(kind) << kind(BITS[target] // 2)) | one(low).astype(kind)

    return run


def pack(kind: str, source: str) -> Operation:
    """``cvt.pack.sat.kind.s32 d, a, b{, c}``: c moves up, b is the lowest part, a the next."""
    bits = NARROW.get(kind) or BITS[kind]
    low, high = bounds(kind)
    least, most = bounds(source)
    ones = np.uint32((1 << bits) - 1)

    def part(a: Lanes) -> Lanes:
        x = signed(a) if is_signed(source) else a
        cut = np.clip(x, x.dtype.type(max(low, least)), x.dtype.type(min(high, most)))
        return cut.view(np.uint32) & ones

    def run(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        out = part(b) | (part(a) << np.uint32(bits))
        return out if bits == 16 else out | (c << np.uint32(2 * bits))

    return run
