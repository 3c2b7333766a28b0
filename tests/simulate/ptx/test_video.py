"""Video instructions and ``clmad`` beside Python's own integers (PTX ISA, scalar and SIMD video instructions)."""

from __future__ import annotations

import pytest

from tests.simulate.ptx.support import apply

A, B, C = 0x80FF7F01, 0xFFFE0180, 0x11223344


def result(instruction: str, a: int = A, b: int = B, c: int = C, bits: int = 32) -> int:
    (found,) = apply(instruction, [bits] * 3, bits, [[a, b, c]])
    return found


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("vadd.s32.s32.s32 D, A, B;", (A + B) & 0xFFFFFFFF),
        ("vadd.u32.u32.u32.sat D, A, B;", 0xFFFFFFFF),
        ("vadd.s32.s32.s32.sat D, A, B;", 0x80FD8081),
        ("vsub.u32.u32.u32.sat D, A, B;", 0),
        ("vsub.s32.u32.u32 D, A.b2, B.b0;", 0xFF - 0x80),
        ("vsub.s32.s32.s32 D, A.b2, B.b0;", -1 + 128),
        ("vabsdiff.s32.s32.s32 D, A.h1, B.h1;", 0x7F01 - 2),  # -32513 and -2
        ("vmin.s32.s32.s32 D, A.b3, B.b0;", -128 & 0xFFFFFFFF),
        ("vmax.u32.u32.u32 D, A.b3, B.b1;", 0x80),
        ("vadd.s32.u32.u32.max D, A.b0, B.b1, C;", C),
        ("vadd.s32.u32.u32.add D, A.b0, B.b1, C;", C + 2),
        ("vadd.u32.u32.u32 D.b1, A.b0, B.b1, C;", 0x11220244),
        ("vadd.u32.u32.u32.sat D.b3, A.b2, B.b0, C;", 0xFF223344),
        ("vadd.s32.s32.s32.sat D.h1, A.h0, B.h0, C;", 0x7FFF3344),
        ("vshl.u32.u32.u32.clamp D, A, B.b0;", 0),
        ("vshl.u32.u32.u32.wrap D, A, B.b1;", A << 1 & 0xFFFFFFFF),
        ("vshr.s32.s32.u32.clamp D, A, B.b0;", 0xFFFFFFFF),
        ("vshr.u32.u32.u32.wrap D, A, B.b1;", A >> 1),
        ("vset.s32.s32.lt D, A.b3, B.b1;", 1),
        ("vset.u32.u32.lt.add D, A.b3, B.b1, C;", C),
        ("vmad.s32.s32.u32 D, A.b3, B.b1, C;", C - 128),
        ("vmad.u32.u32.u32.sat D, A, B, C;", 0xFFFFFFFF),
        ("vmad.u32.u32.u32.po.shr7 D, A.b0, B.b1, C;", (C + 2) >> 7),
    ],
)
def test_one_part_of_each_source(instruction: str, expected: int) -> None:
    assert result(instruction) == expected


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("vadd2.u32.u32.u32 D, A, B, C;", 0x80FD8081),
        ("vadd2.u32.u32.u32.sat D, A, B, C;", 0xFFFF8081),
        ("vadd4.s32.s32.s32.sat D, A, B, C;", 0x80FD7F81),
        ("vsub4.u32.u32.u32.sat D, A, B, C;", 0x00017E00),
        ("vavrg4.u32.u32.u32 D, A, B, C;", 0xC0FF4041),
        ("vabsdiff4.u32.u32.u32.add D, A, B, C;", C + 0x7F + 1 + 0x7E + 0x7F),
        ("vmin4.s32.s32.s32 D, A, B, C;", 0x80FE0180),
        ("vset4.u32.u32.gt D, A, B, C;", 0x00010100),
        ("vset2.s32.s32.lt.add D, A, B, C;", C + 1),
    ],
)
def test_several_parts_at_once(instruction: str, expected: int) -> None:
    assert result(instruction) == expected


def product(a: int, b: int) -> int:
    out = 0
    for n in range(64):
        out ^= (a << n) * (b >> n & 1)
    return out


@pytest.mark.parametrize(("a", "b"), [(3, 3), (A << 32 | B, B << 31 | A), ((1 << 64) - 1, (1 << 64) - 1)])
def test_products_without_carries(a: int, b: int) -> None:
    low, high = product(a, b) & ((1 << 64) - 1), product(a, b) >> 64
    assert result("clmad.lo.u64 D, A, B, C;", a, b, C, 64) == low ^ C
    assert result("clmad.hi.u64 D, A, B, C;", a, b, C, 64) == high ^ C
