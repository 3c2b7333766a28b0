"""Integer instructions beside Python's own integers, on edge values."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.simulate.ptx.support import apply

EDGES = {
    16: [0, 1, 2, 7, 15, 16, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF],
    32: [
        0,
        1,
        2,
        31,
        32,
        33,
        0x80,
        0xFFFF,
        0x10000,
        0x7FFFFFFF,
        0x80000000,
        0x80000001,
        0xFFFFFFFE,
        0xFFFFFFFF,
    ],
    64: [
        0,
        1,
        3,
        63,
        64,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 2,
        (1 << 64) - 1,
    ],
}


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def value(x: int, kind: str) -> int:
    return signed(x, int(kind[1:])) if kind[0] == "s" else x


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "mul.lo": lambda a, b, n: a * b,
    "mul.hi": lambda a, b, n: (a * b) >> n,
    "min": lambda a, b, n: min(a, b),
    "max": lambda a, b, n: max(a, b),
    "div": lambda a, b, n: quotient(a, b),
    "rem": lambda a, b, n: a - b * quotient(a, b),
}


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", BINARY)
def test_two_operands(op: str, kind: str) -> None:
    bits = int(kind[1:])
    rows = [[a, b] for a, b in itertools.product(EDGES[bits], repeat=2) if b or op not in ("div", "rem")]
    got = apply(f"{op}.{kind} D, A, B;", [bits, bits], bits, rows)
    mask = (1 << bits) - 1
    assert got == [BINARY[op](value(a, kind), value(b, kind), bits) & mask for a, b in rows]


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products(kind: str) -> None:
    bits = int(kind[1:])
    rows = [list(r) for r in itertools.product(EDGES[bits], repeat=2)]
    got = apply(f"mul.wide.{kind} D, A, B;", [bits, bits], 2 * bits, rows)
    assert got == [value(a, kind) * value(b, kind) & ((1 << 2 * bits) - 1) for a, b in rows]
    sums = [[a, b, 5] for a, b in rows]
    got = apply(f"mad.wide.{kind} D, A, B, C;", [bits, bits, 2 * bits], 2 * bits, sums)
    assert got == [(value(a, kind) * value(b, kind) + 5) & ((1 << 2 * bits) - 1) for a, b in rows]


@pytest.mark.parametrize("op", ["shl", "shr"])
@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_shifts_clamp(op: str, kind: str) -> None:
    bits = int(kind[1:])
    rows = [[a, n] for a in EDGES[bits] for n in (0, 1, 7, bits - 1, bits, bits + 1, 255, 0xFFFFFFFF)]
    name = f"shl.b{bits}" if op == "shl" else f"shr.{kind}"
    got = apply(f"{name} D, A, B;", [bits, 32], bits, rows)
    mask = (1 << bits) - 1
    for (a, n), x in zip(rows, got, strict=True):
        by = min(n, bits)
        assert x == ((a << by) if op == "shl" else value(a, kind) >> by) & mask, (a, n)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields(kind: str) -> None:
    bits = int(kind[1:])
    places = [0, 1, 15, 31, 32, 63, 64, 255, 256 + 3]
    rows = [[a, p, n] for a in EDGES[bits] for p in places for n in (0, 1, 8, 31, 32, 64, 255)]
    got = apply(f"bfe.{kind} D, A, B, C;", [bits, 32, 32], bits, rows)

    def field(a: int, p: int, n: int) -> int:
        p, n = p & 255, n & 255
        top = bits - 1
        sign = 0 if kind[0] == "u" or n == 0 else a >> min(p + n - 1, top) & 1
        return sum((a >> (p + i) & 1 if i < n and p + i <= top else sign) << i for i in range(bits))

    assert got == [field(*r) for r in rows]


@pytest.mark.parametrize("bits", [32, 64])
def test_insertion_of_fields(bits: int) -> None:
    rows = [
        [a, b, p, n]
        for a in EDGES[bits][::3]
        for b in EDGES[bits][::3]
        for p in (0, 5, 31, 40, 255)
        for n in (0, 1, 9, 64)
    ]
    got = apply(f"bfi.b{bits} D, A, B, C, E;", [bits, bits, 32, 32], bits, rows)

    def insert(a: int, b: int, p: int, n: int) -> int:
        for i in range(n):
            if p + i < bits:
                b = b & ~(1 << (p + i)) | (a >> i & 1) << (p + i)
        return b

    assert got == [insert(*r) for r in rows]


@pytest.mark.parametrize("bits", [32, 64])
def test_counts_of_bits(bits: int) -> None:
    rows = [[a] for a in EDGES[bits]]
    assert apply(f"popc.b{bits} D, A;", [bits], 32, rows) == [a.bit_count() for [a] in rows]
    assert apply(f"clz.b{bits} D, A;", [bits], 32, rows) == [bits - a.bit_length() for [a] in rows]
    reverse = [int(f"{a:0{bits}b}"[::-1], 2) for [a] in rows]
    assert apply(f"brev.b{bits} D, A;", [bits], bits, rows) == reverse
    for kind in (f"u{bits}", f"s{bits}"):
        found = [(~a & ((1 << bits) - 1) if value(a, kind) < 0 else a).bit_length() - 1 for [a] in rows]
        assert apply(f"bfind.{kind} D, A;", [bits], 32, rows) == [x & 0xFFFFFFFF for x in found]
        shift = [bits - 1 - x if x >= 0 else 0xFFFFFFFF for x in found]
        assert apply(f"bfind.shiftamt.{kind} D, A;", [bits], 32, rows) == shift


@pytest.mark.parametrize("mode", ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"])
def test_byte_permutes(mode: str) -> None:
    rows = [[0x03020180, 0x87064504, c] for c in (0, 1, 2, 3, 0x3210, 0x7654, 0xFEDC, 0x0123, 0x8F08, 0x4444)]
    got = apply(f"prmt.b32{mode} D, A, B, C;", [32, 32, 32], 32, rows)
    table = {
        ".f4e": lambda c: [(c + i) for i in range(4)],
        ".b4e": lambda c: [(c - i) % 8 for i in range(4)],
        ".rc8": lambda c: [c] * 4,
        ".ecl": lambda c: [max(i, c) for i in range(4)],
        ".ecr": lambda c: [min(i, c) for i in range(4)],
        ".rc16": lambda c: [2 * (c & 1) + (i & 1) for i in range(4)],
    }
    for (a, b, c), x in zip(rows, got, strict=True):
        data = [(b << 32 | a) >> 8 * k & 255 for k in range(8)]
        if mode:
            out = [data[k] for k in table[mode](c & 3)]
        else:
            out = []
            for i in range(4):
                pick = c >> 4 * i & 15
                byte = data[pick & 7]
                out.append((255 if byte & 128 else 0) if pick & 8 else byte)
        assert x == sum(v << 8 * i for i, v in enumerate(out)), (mode, hex(c))


def test_funnel_shifts() -> None:
    rows = [
        [a, b, n] for a in (0x12345678, 0x80000001) for b in (0xCAFEBABE, 1) for n in (0, 1, 31, 32, 33, 64)
    ]
    for side in "lr":
        for clamp in ("clamp", "wrap"):
            got = apply(f"shf.{side}.{clamp}.b32 D, A, B, C;", [32, 32, 32], 32, rows)
            for (a, b, n), x in zip(rows, got, strict=True):
                by = min(n, 32) if clamp == "clamp" else n & 31
                both = b << 32 | a
                assert x == ((both << by >> 32) if side == "l" else both >> by) & 0xFFFFFFFF


def test_three_input_logic() -> None:
    a, b, c = 0xF0F0CCAA, 0xCC33F00F, 0xAA55A5C3
    for table in (0x96, 0xE8, 0x80, 0xFE, 0x3A, 0x00, 0xFF):
        (x,) = apply(f"lop3.b32 D, A, B, C, {table};", [32, 32, 32], 32, [[a, b, c]])
        bits = [table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1 for i in range(32)]
        assert x == sum(v << i for i, v in enumerate(bits))


def test_carries_travel() -> None:
    rows = [[a, b, c] for a in EDGES[32][::2] for b in EDGES[32][::2] for c in (0, 0xFFFFFFFF)]
    got = apply("add.cc.u32 %r3, A, B;\naddc.u32 D, C, 1;", [32, 32, 32], 32, rows)
    assert got == [(c + 1 + (a + b >> 32)) & 0xFFFFFFFF for a, b, c in rows]
    got = apply("sub.cc.u32 %r3, A, B;\nsubc.u32 D, C, 1;", [32, 32, 32], 32, rows)
    assert got == [(c - 1 - (a < b)) & 0xFFFFFFFF for a, b, c in rows]


def test_saturation_and_sums_of_differences() -> None:
    rows = [[a, b] for a, b in itertools.product(EDGES[32], repeat=2)]
    got = apply("add.sat.s32 D, A, B;", [32, 32], 32, rows)
    exact = [max(-(2**31), min(2**31 - 1, signed(a, 32) + signed(b, 32))) & 0xFFFFFFFF for a, b in rows]
    assert got == exact
    got = apply("sad.s32 D, A, B, 7;", [32, 32], 32, rows)
    assert got == [(abs(signed(a, 32) - signed(b, 32)) + 7) & 0xFFFFFFFF for a, b in rows]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64", "u16", "s16"])
def test_comparisons(kind: str) -> None:
    bits = int(kind[1:])
    rows = [list(r) for r in itertools.product(EDGES[bits], repeat=2)]
    for how, of in {"lt": int.__lt__, "ge": int.__ge__, "eq": int.__eq__, "gt": int.__gt__}.items():
        got = apply(f"setp.{how}.{kind} D, A, B;", [bits, bits], 1, rows)
        assert got == [int(of(value(a, kind), value(b, kind))) for a, b in rows]


def test_second_predicates_are_negations_before_the_second_operand() -> None:
    rows = [[a, c] for a in (0, 5) for c in (0, 1)]
    text = "setp.lt.and.u32 %p2|%p3, A, 3, B;\nselp.u32 D, 1, 0, %p2;\n@%p3 add.u32 D, D, 2;"
    got = apply(text, [32, 1], 32, rows)
    assert got == [(1 if a < 3 and c else 0) + (2 if not a < 3 and c else 0) for a, c in rows]


def test_dot_products() -> None:
    a, b = 0x80FF7F01, 0x02FF8003
    for x_kind, y_kind in itertools.product(("u32", "s32"), repeat=2):
        (x,) = apply(f"dp4a.{x_kind}.{y_kind} D, A, B, 9;", [32, 32], 32, [[a, b]])

        def part(v: int, i: int, kind: str) -> int:
            byte = v >> 8 * i & 255
            return signed(byte, 8) if kind[0] == "s" else byte

        assert x == sum(part(a, i, x_kind) * part(b, i, y_kind) for i in range(4)) + 9 & 0xFFFFFFFF
