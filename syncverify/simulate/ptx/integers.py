"""Integer, logic, shift and bit-field instructions on arrays of unsigned bits (PTX ISA, 9.7.1, 9.7.2, 9.7.8).

Each function takes operands of the instruction's type and gives its result. Wrapping is NumPy's own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from syncverify.simulate.ptx.types import BITS, SIGNED, UNSIGNED, Lanes, is_signed, signed, unsigned

Operation = Callable[..., Lanes]

_WIDER = {8: 16, 16: 32, 32: 64}


def add(a: Lanes, b: Lanes) -> Lanes:
    return a + b


def sub(a: Lanes, b: Lanes) -> Lanes:
    return a - b


def add_saturated(a: Lanes, b: Lanes) -> Lanes:
    total = signed(a).astype(np.int64) + signed(b).astype(np.int64)
    return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32).view(np.uint32)


def sub_saturated(a: Lanes, b: Lanes) -> Lanes:
    total = signed(a).astype(np.int64) - signed(b).astype(np.int64)
    return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32).view(np.uint32)


def mul_lo(a: Lanes, b: Lanes) -> Lanes:
    return a * b


def _high64(a: Lanes, b: Lanes) -> Lanes:
    """The upper half of an unsigned product of 64 bits, by halves."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> shift, b & low, b >> shift
    cross = a1 * b0 + ((a0 * b0) >> shift)
    middle = a0 * b1 + (cross & low)
    return a1 * b1 + (cross >> shift) + (middle >> shift)


def mul_hi(kind: str) -> Operation:
    bits, sign = BITS[kind], is_signed(kind)

    def high(a: Lanes, b: Lanes) -> Lanes:
        if bits == 64:
            out = _high64(a, b)
            if sign:
                zero = np.uint64(0)
                out = out - np.where(signed(a) < 0, b, zero) - np.where(signed(b) < 0, a, zero)
            return out
        wide = mul_wide(kind)(a, b)
        return (wide >> wide.dtype.type(bits)).astype(UNSIGNED[bits])

    return high


def mul_wide(kind: str) -> Operation:
    bits, sign = BITS[kind], is_signed(kind)
    target = (SIGNED if sign else UNSIGNED)[_WIDER[bits]]

    def wide(a: Lanes, b: Lanes) -> Lanes:
        if sign:
            a, b = signed(a), signed(b)
        return unsigned(a.astype(target) * b.astype(target))

    return wide


def mul24(kind: str, high: bool) -> Operation:
    def product(a: Lanes, b: Lanes) -> Lanes:
        x, y = (a & np.uint32(0xFFFFFF)).astype(np.int64), (b & np.uint32(0xFFFFFF)).astype(np.int64)
        if is_signed(kind):
            x, y = x - ((x >> 23) << 24), y - ((y >> 23) << 24)
        value = x * y
        return ((value >> 16 if high else value) & 0xFFFFFFFF).astype(np.uint32)

    return product


def divide(kind: str) -> Operation:
    bits = BITS[kind]

    def quotient(a: Lanes, b: Lanes) -> Lanes:
        zero = b == 0
        safe = np.where(zero, b.dtype.type(1), b)
        if is_signed(kind):
            x, y = signed(a), signed(safe)
            q = np.abs(x).view(UNSIGNED[bits]) // np.abs(y).view(UNSIGNED[bits])
            out = np.where((x < 0) != (y < 0), (~q) + q.dtype.type(1), q)
        else:
            out = a // safe
        # The result of a division by zero is not specified; hardware gives all ones.
        return np.where(zero, ~np.zeros_like(a), out)

    return quotient


def remainder(kind: str) -> Operation:
    quotient = divide(kind)

    def rest(a: Lanes, b: Lanes) -> Lanes:
        return np.where(b == 0, a, a - quotient(a, b) * b)

    return rest


def absolute(a: Lanes) -> Lanes:
    return unsigned(np.abs(signed(a)))


def negate(a: Lanes) -> Lanes:
    return (~a) + a.dtype.type(1)


def minimum(kind: str) -> Operation:
    if is_signed(kind):
        return lambda a, b: unsigned(np.minimum(signed(a), signed(b)))
    return np.minimum


def maximum(kind: str) -> Operation:
    if is_signed(kind):
        return lambda a, b: unsigned(np.maximum(signed(a), signed(b)))
    return np.maximum


def relu(of: Operation) -> Operation:
    def clamped(a: Lanes, b: Lanes) -> Lanes:
        return unsigned(np.maximum(signed(of(a, b)), 0))

    return clamped


def halves(of: Operation) -> Operation:
    """An operation on two halves of 16 bits each."""

    def packed(*operands: Lanes) -> Lanes:
        views = [np.ascontiguousarray(x).view(np.uint16) for x in operands]
        return np.ascontiguousarray(of(*views)).view(np.uint32)

    return packed


def sad(kind: str) -> Operation:
    def total(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        x, y = (signed(a), signed(b)) if is_signed(kind) else (a, b)
        return np.where(x < y, b - a, a - b) + c

    return total


def popc(a: Lanes) -> Lanes:
    return np.bitwise_count(a).astype(np.uint32)


def _highest(a: Lanes) -> Lanes:
    """The place of the highest one, -1 for zero."""
    out = np.full(a.shape, -1, np.int64)
    x = a.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        more = x >> np.uint64(step) != 0
        x = np.where(more, x >> np.uint64(step), x)
        out = out + np.where(more, step, 0)
    return np.where(a != 0, out + 1, -1)


def clz(a: Lanes) -> Lanes:
    return (a.dtype.itemsize * 8 - 1 - _highest(a)).astype(np.uint32)


def bfind(kind: str, shiftamt: bool) -> Operation:
    bits = BITS[kind]

    def find(a: Lanes) -> Lanes:
        x = np.where(signed(a) < 0, ~a, a) if is_signed(kind) else a
        at = _highest(x)
        out = bits - 1 - at if shiftamt else at
        return np.where(at < 0, np.uint32(0xFFFFFFFF), out.astype(np.int32).view(np.uint32))

    return find


def brev(a: Lanes) -> Lanes:
    bits = a.dtype.itemsize * 8
    one = a.dtype.type(1)
    out = np.zeros_like(a)
    for i in range(bits):
        out |= ((a >> a.dtype.type(i)) & one) << a.dtype.type(bits - 1 - i)
    return out


def fns(mask: Lanes, base: Lanes, offset: Lanes) -> Lanes:
    """The place of the n-th one of a mask, from a base upwards or downwards."""
    out = np.full(mask.shape, 0xFFFFFFFF, np.uint32)
    for lane in range(mask.shape[0]):
        m, b, n = int(mask[lane]), int(base[lane]), int(signed(offset)[lane])
        if b > 31:
            continue
        places = range(b, 32) if n >= 0 else range(b, -1, -1)
        count = 1 if n == 0 else abs(n)
        ones = [i for i in (places if n else range(b, b + 1)) if m >> i & 1]
        if len(ones) >= count:
            out[lane] = ones[count - 1]
    return out


def shl(a: Lanes, n: Lanes) -> Lanes:
    """Amounts of the width and above give zero."""
    bits = a.dtype.itemsize * 8
    by = np.minimum(n, np.uint32(bits - 1)).astype(a.dtype)
    return np.where(n >= bits, a.dtype.type(0), a << by)


def shr(kind: str) -> Operation:
    sign = is_signed(kind)

    def shift(a: Lanes, n: Lanes) -> Lanes:
        bits = a.dtype.itemsize * 8
        by = np.minimum(n, np.uint32(bits - 1)).astype(a.dtype)
        if sign:
            x = signed(a)
            return unsigned(x >> by.view(x.dtype))
        return np.where(n >= bits, a.dtype.type(0), a >> by)

    return shift


def shf(left: bool, clamp: bool) -> Operation:
    def funnel(low: Lanes, high: Lanes, n: Lanes) -> Lanes:
        by = (np.minimum(n, np.uint32(32)) if clamp else n & np.uint32(31)).astype(np.uint64)
        both = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        if left:
            return np.where(by == 32, low, ((both << by) >> np.uint64(32)).astype(np.uint32))
        return (both >> by).astype(np.uint32)

    return funnel


def _mask(length: Lanes, bits: int) -> Lanes:
    """``length`` ones."""
    kind = np.dtype(UNSIGNED[bits])
    by = np.minimum(length, bits - 1).astype(kind)
    ones = np.array((1 << bits) - 1, kind)
    return np.where(length >= bits, ones, (np.array(1, kind) << by) - np.array(1, kind))


def bfe(kind: str) -> Operation:
    bits = BITS[kind]

    def extract(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        at = (b & np.uint32(0xFF)).astype(np.int64)
        length = (c & np.uint32(0xFF)).astype(np.int64)
        kind_ = a.dtype.type
        shifted = np.where(at >= bits, kind_(0), a >> np.minimum(at, bits - 1).astype(a.dtype))
        mask = _mask(length, bits)
        out = shifted & mask
        if is_signed(kind):
            top = np.clip(at + length - 1, 0, bits - 1)
            sign = ((a >> top.astype(a.dtype)) & kind_(1)).astype(bool) & (length > 0)
            # What lies above the field, or above the register, is the sign.
            here = _mask(np.clip(np.minimum(length, bits - at), 0, bits), bits)
            out = np.where(sign, (out & here) | ~here, out & here)
        return out

    return extract


def bfi(bits: int) -> Operation:
    def insert(a: Lanes, b: Lanes, c: Lanes, d: Lanes) -> Lanes:
        at = (c & np.uint32(0xFF)).astype(np.int64)
        length = (d & np.uint32(0xFF)).astype(np.int64)
        kind = b.dtype.type
        by = np.minimum(at, bits - 1).astype(b.dtype)
        mask = np.where(at >= bits, kind(0), _mask(length, bits) << by)
        return (b & ~mask) | ((a << by) & mask)

    return insert


def bmsk(wrap: bool) -> Operation:
    def make(a: Lanes, b: Lanes) -> Lanes:
        if wrap:
            a, b = a & np.uint32(31), b & np.uint32(31)
        return shl(_mask(np.minimum(b, np.uint32(32)).astype(np.int64), 32), a)

    return make


def szext(kind: str, wrap: bool) -> Operation:
    def stretch(a: Lanes, b: Lanes) -> Lanes:
        length = (b & np.uint32(31) if wrap else np.minimum(b, np.uint32(32))).astype(np.int64)
        mask = _mask(length, 32)
        out = a & mask
        if is_signed(kind):
            top = np.clip(length - 1, 0, 31).astype(np.uint32)
            sign = ((a >> top) & np.uint32(1)).astype(bool) & (length > 0)
            out = np.where(sign, out | ~mask, out)
        return out

    return stretch


def lop3(table: int) -> Operation:
    def look_up(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        out = np.zeros_like(a)
        for row in range(8):
            if table >> row & 1:
                x = a if row & 4 else ~a
                y = b if row & 2 else ~b
                z = c if row & 1 else ~c
                out |= x & y & z
        return out

    return look_up


#: Byte selectors of the modes of prmt, by the low two bits of the control.
_MODES = {
    "f4e": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
    "b4e": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
    "rc16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
}


def prmt(mode: str) -> Operation:
    def permute(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
        out = np.zeros_like(a)
        table = np.array(_MODES[mode]) if mode else None
        for i in range(4):
            if table is not None:
                # b4e is written for the order 3, 2, 1, 0 as the others are, byte 3 first
                pick = table[(c & np.uint32(3)).astype(np.int64), 3 - i].astype(np.uint64)
                replicate = np.zeros(a.shape, bool)
            else:
                nibble = (c >> np.uint32(4 * i)) & np.uint32(15)
                pick = (nibble & np.uint32(7)).astype(np.uint64)
                replicate = (nibble & np.uint32(8)) != 0
            byte = ((both >> (pick * np.uint64(8))) & np.uint64(0xFF)).astype(np.uint32)
            spread = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
            out |= np.where(replicate, spread, byte) << np.uint32(8 * i)
        return out

    return permute


def dot4(a_kind: str, b_kind: str) -> Operation:
    def dot(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        x = np.ascontiguousarray(a).view(np.int8 if is_signed(a_kind) else np.uint8).reshape(-1, 4)
        y = np.ascontiguousarray(b).view(np.int8 if is_signed(b_kind) else np.uint8).reshape(-1, 4)
        total = (x.astype(np.int64) * y.astype(np.int64)).sum(axis=1)
        return ((total + c.astype(np.int64)) & 0xFFFFFFFF).astype(np.uint32)

    return dot


def dot2(a_kind: str, b_kind: str, high: bool) -> Operation:
    def dot(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        x = np.ascontiguousarray(a).view(np.int16 if is_signed(a_kind) else np.uint16).reshape(-1, 2)
        y = np.ascontiguousarray(b).view(np.int8 if is_signed(b_kind) else np.uint8).reshape(-1, 4)
        y = y[:, 2:] if high else y[:, :2]
        total = (x.astype(np.int64) * y.astype(np.int64)).sum(axis=1)
        return ((total + c.astype(np.int64)) & 0xFFFFFFFF).astype(np.uint32)

    return dot


def add_carry(a: Lanes, b: Lanes, carry: Lanes) -> tuple[Lanes, Lanes]:
    """Sum and carry out."""
    first = a + b
    total = first + carry.astype(a.dtype)
    return total, (first < a) | (total < first)


def sub_borrow(a: Lanes, b: Lanes, borrow: Lanes) -> tuple[Lanes, Lanes]:
    """Difference and borrow out."""
    first = a - b
    total = first - borrow.astype(a.dtype)
    return total, (a < b) | (first < borrow.astype(a.dtype))


#: Comparisons of integers; lo, ls, hi and hs are the unsigned ones.
COMPARISONS: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def compare(kind: str, how: str) -> Operation:
    of = COMPARISONS[how]
    if is_signed(kind) and how not in ("lo", "ls", "hi", "hs"):
        return lambda a, b: of(signed(a), signed(b))
    return of
