"""mma of elements of four bits and of one, beside NumPy, by the fragments that the PTX ISA shows."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import Launch, buffer, run
from tests.simulate.ptx.support import kernel

#: Rows of A, columns of A, type of the elements, and how they are multiplied.
PRODUCTS = [
    (8, 32, "s4", ""), (16, 32, "u4", ""), (16, 64, "s4", ".satfinite"),
    (8, 128, "b1", ".xor.popc"), (16, 128, "b1", ".and.popc"), (16, 256, "b1", ".xor.popc"),
]  # fmt: skip


def packed(matrix: np.ndarray, bits: int) -> np.ndarray:
    """Rows of elements as words of 32 bits, the first element lowest."""
    each = 32 // bits
    parts = (matrix & ((1 << bits) - 1)).reshape(matrix.shape[0], -1, each).astype(np.uint64)
    found: np.ndarray = (parts << np.arange(0, 32, bits, dtype=np.uint64)).sum(axis=2).astype(np.uint32)
    return found


@pytest.mark.parametrize(("m", "k", "kind", "how"), PRODUCTS)
def test_products(m: int, k: int, kind: str, how: str) -> None:
    bits = {"s4": 4, "u4": 4, "b1": 1}[kind]
    draw, low = np.random.default_rng(7), -8 if kind == "s4" else 0
    a, b = draw.integers(low, low + (1 << bits), (m, k)), draw.integers(low, low + (1 << bits), (k, 8))
    c = draw.integers(-99, 99, (m, 8))
    rows, columns = packed(a, bits), packed(b.T, bits)
    deep, high = k * bits // 128, m // 8
    # word 4 x + t of a row is held by thread t of a group; halves of the rows alternate
    held = [
        [rows[lane // 4 + 8 * h, 4 * x + lane % 4] for x in range(deep) for h in range(high)]
        for lane in range(32)
    ]
    of_b = [[columns[lane // 4, 4 * x + lane % 4] for x in range(deep)] for lane in range(32)]
    of_c = [
        [c[lane // 4 + 8 * h, 2 * (lane % 4) + j] for h in range(high) for j in range(2)]
        for lane in range(32)
    ]
    words = np.array([[*x, *y, *z] for x, y, z in zip(held, of_b, of_c, strict=True)]).astype(np.int64)
    width = words.shape[1]
    A, B, C = (
        "{" + ", ".join(f"%r{10 + n}" for n in part) + "}"
        for part in (
            range(len(held[0])),
            range(len(held[0]), width - 2 * high),
            range(width - 2 * high, width),
        )
    )
    loads = "".join(f"ld.global.u32 %r{10 + n}, [%rd2+{4 * n}]; " for n in range(width))
    stores = "".join(
        f"st.global.u32 [%rd1+{4 * n}], %r{10 + width - 2 * high + n}; " for n in range(2 * high)
    )
    saturates, popc = ("", how) if kind == "b1" else (how, "")
    text = f"""ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, {4 * width}; add.s64 %rd2, %rd2, %rd3;
    mul.wide.u32 %rd3, %r1, {8 * high}; add.s64 %rd1, %rd1, %rd3; {loads}
    mma.sync.aligned.m{m}n8k{k}.row.col{saturates}.s32.{kind}.{kind}.s32{popc} {C}, {A}, {B}, {C}; {stores}"""
    out, given = buffer(np.zeros((32, 2 * high), np.int32)), buffer(words.astype(np.uint32))
    result = run(
        kernel(text, ".param .u64 out, .param .u64 in"), "k", Launch((32, 1, 1), params=(out, given)), seed=1
    )
    assert result.harm is None
    product = (a[:, :, None] != b[None]).sum(axis=1) if "xor" in how else a @ b
    found = result.memory(out).view(np.int32).reshape(32, high, 2)
    for lane in range(32):
        for h in range(high):
            for j in range(2):
                row, column = lane // 4 + 8 * h, 2 * (lane % 4) + j
                assert found[lane, h, j] == product[row, column] + c[row, column]
