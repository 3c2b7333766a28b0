"""cvt beside exact fractions, on edge values."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from tests.simulate.ptx.support import apply

INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
WIDTH = {"u8": 16, "s8": 16}
FLOATS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    127.5,
    255.9,
    65504.0,
    3e9,
    -3e9,
    1e19,
    -1e19,
    1e-42,
    math.inf,
    -math.inf,
]


def f32(x: float) -> int:
    with np.errstate(all="ignore"):
        return int(np.float32(x).view(np.uint32))


def bounds(kind: str) -> tuple[int, int]:
    n = int(kind[1:])
    return (-(1 << n - 1), (1 << n - 1) - 1) if kind[0] == "s" else (0, (1 << n) - 1)


def value(x: int, kind: str) -> int:
    n = int(kind[1:])
    x &= (1 << n) - 1
    return x - (1 << n) if kind[0] == "s" and x >> n - 1 else x


@pytest.mark.parametrize("sat", ["", ".sat"])
@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integer_to_integer(target: str, source: str, sat: str) -> None:
    if sat and bounds(target)[0] <= bounds(source)[0] and bounds(source)[1] <= bounds(target)[1]:
        pytest.skip("nothing to saturate: no instruction")
    own, to = WIDTH.get(source, int(source[1:])), WIDTH.get(target, int(target[1:]))
    n = int(source[1:])
    rows = [
        [x & ((1 << own) - 1)]
        for x in (0, 1, 0x7F, 0x80, 0xFF, 0x1FF, 0x7FFF, 0x8000, 1 << n - 1, (1 << n) - 1)
    ]
    got = apply(f"cvt{sat}.{target}.{source} D, A;", [own], to, rows)
    low, high = bounds(target)
    for [x], y in zip(rows, got, strict=True):
        exact = value(x, source)
        wanted = max(low, min(high, exact)) if sat else value(exact, target)
        assert y == wanted & ((1 << to) - 1), (target, source, hex(x))


@pytest.mark.parametrize("how", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("target", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_float_to_integer_clamps(target: str, how: str) -> None:
    bits = int(target[1:])
    got = apply(f"cvt.{how}.{target}.f32 D, A;", [32], bits, [[f32(x)] for x in [*FLOATS, math.nan]])
    low, high = bounds(target)
    of = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[how]
    for x, y in zip(FLOATS, got, strict=False):
        exact = float(np.float32(x))
        whole = (high if exact > 0 else low) if math.isinf(exact) else max(low, min(high, of(exact)))
        assert y == whole & ((1 << bits) - 1), (target, how, x)
    assert got[-1] == (1 << 63 if bits == 64 else 0)


def nearest(x: Fraction, mode: str) -> int:
    """The bits of the float32 that a fraction rounds to, by bisection over all finite floats."""
    low, high = -0x7F7FFFFF, 0x7F7FFFFF  # ordered like the numbers

    def number(k: int) -> Fraction:
        return Fraction(struct.unpack("<f", struct.pack("<I", k if k >= 0 else 0x80000000 - k))[0])

    while low < high:
        middle = (low + high + 1) // 2
        if number(middle) <= x:
            low = middle
        else:
            high = middle - 1
    below = low
    if number(below) == x:
        pick = below
    else:
        gap = number(below + 1) - x - (x - number(below))
        up = {"rn": gap < 0 or (gap == 0 and (below & 1) == 1), "rz": x < 0, "rm": False, "rp": True}[mode]
        pick = below + up
    return pick if pick >= 0 else 0x80000000 - pick


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["u32", "s32", "u64", "s64"])
def test_integer_to_float_rounds_once(source: str, mode: str) -> None:
    n = int(source[1:])
    numbers = [
        0,
        1,
        (1 << 24) + 1,
        (1 << 25) + 3,
        (1 << n - 1) - 1,
        (1 << n - 1) + 1,
        (1 << n) - 1,
        (1 << n - 1) + (1 << n - 25),
    ]
    numbers += [(1 << n - 2) + (1 << n - 26), (1 << n - 2) + (1 << n - 26) + 1]
    got = apply(f"cvt.{mode}.f32.{source} D, A;", [n], 32, [[x] for x in numbers])
    assert got == [nearest(Fraction(value(x, source)), mode) for x in numbers]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_float_arithmetic_rounds_once(op: str, mode: str) -> None:
    draw = np.random.default_rng(3)
    raw = draw.integers(0, 1 << 32, (300, 3), np.uint64)
    raw[:100, 1] = raw[:100, 0] ^ 0x80000000 ^ draw.integers(0, 16, 100, np.uint64)
    rows = [[int(v) for v in r] for r in raw]
    numbers = np.array(rows, np.uint64).astype(np.uint32).view(np.float32)
    rows = [r for r, x in zip(rows, numbers, strict=True) if np.isfinite(x).all()]
    operands = "A, B, C" if op == "fma" else "A, B"
    got = apply(f"{op}.{mode}.f32 D, {operands};", [32, 32, 32], 32, rows)
    most = Fraction(float(np.finfo(np.float32).max))
    for r, y in zip(rows, got, strict=True):
        a, b, c = (Fraction(struct.unpack("<f", struct.pack("<I", v))[0]) for v in r)
        exact = {"add": a + b, "mul": a * b, "fma": a * b + c}[op]
        if exact == 0 or abs(exact) > most:
            continue
        wanted = nearest(exact, mode)
        assert y == wanted or (y ^ wanted == 0x80000000 and not y & 0x7FFFFFFF), (
            op,
            mode,
            [hex(v) for v in r],
        )


def test_halves_and_brain_floats() -> None:
    rows = [
        [f32(x), f32(y)] for x, y in [(1.0, 2.0), (65519.9, 65520.0), (-1e-8, 6e-8), (1.0009765, 3.3895e38)]
    ]
    got = apply("cvt.rn.f16x2.f32 D, A, B;", [32, 32], 32, rows)
    with np.errstate(all="ignore"):
        for (a, b), y in zip(rows, got, strict=True):
            x, z = np.array([a, b], np.uint32).view(np.float32).astype(np.float16).view(np.uint16)
            assert y == int(x) << 16 | int(z)
    # A tie goes to even in the last of 8 bits.
    got = apply(
        "cvt.rn.bf16x2.f32 D, A, B;", [32, 32], 32, [[0x3F808000, 0x3F818000], [0x3F808001, 0x7F7FFFFF]]
    )
    assert got == [0x3F803F82, 0x3F817F80]


def test_small_floats_saturate() -> None:
    rows = [[f32(449.0), f32(-1000.0)], [f32(0.0019), f32(17.0)]]
    got = apply("cvt.rn.satfinite.e4m3x2.f32 %rs1, A, B;\ncvt.u32.u16 D, %rs1;", [32, 32], 32, rows)
    assert got == [0x7EFE, 0x0158]


@pytest.mark.parametrize(
    ("text", "widths", "result", "row", "wanted"),
    [
        # As an H200 gives them (benchmarks/hardware/ptx_bits.py).
        ("cvt.rni.u8.f64 D, A;", [64], 16, [0x7FFFFFFFFFFFFFFF], 0x80),
        ("cvt.rni.s64.f32 D, A;", [32], 64, [0x7FC00000], 1 << 63),
        ("cvt.rni.s32.f32 D, A;", [32], 32, [0x7FC00000], 0),
        ("cvt.rn.sat.f16.f32 D, A;", [32], 16, [0x80000000], 0),
        ("cvt.rn.relu.bf16.f32 D, A;", [32], 16, [0x80000000], 0),
        ("add.rm.f32 D, A, B;", [32, 32], 32, [0, 0x80000000], 0x80000000),
        ("sub.rm.f32 D, A, B;", [32, 32], 32, [0x3F800000, 0x3F800000], 0x80000000),
        ("fma.rm.f32 D, A, B, C;", [32, 32, 32], 32, [0, 0x20, 0x80000000], 0x80000000),
        ("add.rn.sat.f32 D, A, B;", [32, 32], 32, [0x80000000, 0x80000000], 0),
        ("testp.normal.f32 D, A;", [32], 1, [0], 1),
        # By the definition of directed rounding.
        ("mul.rz.f64 D, A, B;", [64, 64], 64, [0x7FE0000000000000, 0x7FE0000000000000], 0x7FEFFFFFFFFFFFFF),
        ("mul.rp.f64 D, A, B;", [64, 64], 64, [1, 1], 1),
        ("add.rm.f64 D, A, B;", [64, 64], 64, [0x7FEFFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF], 0x7FEFFFFFFFFFFFFF),
        ("div.rz.f64 D, A, B;", [64, 64], 64, [0x7FEFFFFFFFFFFFFF, 1], 0x7FEFFFFFFFFFFFFF),
    ],
)
def test_corners(text: str, widths: list[int], result: int, row: list[int], wanted: int) -> None:
    assert apply(text, widths, result, [row]) == [wanted]
