"""wmma beside NumPy, and what its unspecified layout means for reads behind it; textures."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from syncverify.simulate.ptx import Kind, Launch, buffer, first_harm, run
from tests.simulate.ptx.support import kernel

#: Shape, types of D, A and C, registers of A, B and C (PTX ISA, matrix fragments for wmma).
PRODUCTS = [
    ("m16n16k16", "f32", "f16", 8, 8, 8),
    ("m8n32k16", "f32", "f16", 8, 8, 8),
    ("m32n8k16", "f16", "f16", 8, 8, 4),
    ("m32n8k16", "f32", "bf16", 8, 2, 8),
    ("m8n32k16", "s32", "s8", 1, 4, 8),
    ("m16n16k16", "s32", "u8", 2, 2, 8),
    ("m16n16k8", "f32", "tf32", 4, 4, 8),
    ("m8n8k4", "f64", "f64", 1, 1, 2),
]
STORED = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "s8": np.int8, "u8": np.uint8, "tf32": np.float32,
          "f32": np.float32, "s32": np.int32, "f64": np.float64}  # fmt: skip


def registers(kind: str, first: int, count: int) -> str:
    name = {"f64": "%fd", "f32": "%f"}.get(kind, "%r")
    return "{" + ", ".join(f"{name}{first + j}" for j in range(count)) + "}"


@pytest.mark.parametrize(("shape", "d", "ab", "na", "nb", "nc"), PRODUCTS)
@pytest.mark.parametrize(("row", "col"), [("row", "col"), ("col", "row")])
def test_products(shape: str, d: str, ab: str, na: int, nb: int, nc: int, row: str, col: str) -> None:
    m, n, k = (int(x) for x in shape.replace("m", "").replace("n", " ").replace("k", " ").split())
    draw = np.random.default_rng(3)
    low = 0 if ab == "u8" else -4
    a, b, c = (draw.integers(low, 5, size) for size in ((m, k), (k, n), (m, n)))
    step = 3 if d == "f64" else 10
    A, B, C = registers(ab, step, na), registers(ab, 2 * step, nb), registers(d, 3 * step, nc)
    types = f"{d}.{d}" if ab == "f16" else f"{d}.{ab}.{ab}.{d}"
    text = f"""ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b]; ld.param.u64 %rd4, [c];
    wmma.load.a.sync.aligned.{row}.{shape}.global.{ab} {A}, [%rd2];
    wmma.load.b.sync.aligned.{col}.{shape}.global.{ab} {B}, [%rd3];
    wmma.load.c.sync.aligned.row.{shape}.global.{d} {C}, [%rd4], {n};
    wmma.mma.sync.aligned.{row}.{col}.{shape}.{types} {C}, {A}, {B}, {C};
    wmma.store.d.sync.aligned.col.{shape}.global.{d} [%rd1], {C};"""
    out = buffer(np.zeros(m * n, STORED[d]))
    values = [np.ascontiguousarray(x if how == "row" else x.T).astype(STORED[t]).reshape(-1)
              for x, how, t in ((a, row, ab), (b, col, ab), (c, "row", d))]  # fmt: skip
    launch = Launch((32, 1, 1), params=(out, *map(buffer, values)))
    params = ".param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c"
    result = run(kernel(text, params), "k", launch, seed=5)
    assert result.harm is None
    found = result.memory(out).view(STORED[d]).reshape(n, m).T
    assert np.array_equal(found, (a @ b + c).astype(STORED[d]))


STORE = """.shared .align 128 .b8 s[2048]; mov.u32 %r4, s; mad.lo.u32 %r6, %r1, {step}, %r4;
mov.f32 %f1, 0f00000000; and.b32 %r7, %r1, {other}; shl.b32 %r7, %r7, 6; add.u32 %r5, %r4, %r7;
wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r5], {{%f1, %f1, %f1, %f1, %f1, %f1, %f1, %f1}};
{meet} ld.shared.u32 %r9, [%r6];"""


@pytest.mark.parametrize(
    ("meet", "other", "kind"),
    [("", 0, Kind.RACE), ("bar.warp.sync 0xffffffff;", 0, None), ("", 1, Kind.UNDEFINED)],
    ids=["no barrier", "barrier of the warp", "two addresses"],
)
def test_which_lane_holds_what_is_not_said(meet: str, other: int, kind: Kind | None) -> None:
    launch = Launch((32, 1, 1), params=(buffer(np.zeros(8, np.uint32)),))
    found = first_harm(kernel(STORE.format(meet=meet, other=other, step=4)), "k", launch, range(4))
    assert (None if found is None else found.kind) is kind


def test_texels_and_properties_are_zero() -> None:
    text = """ld.param.u64 %rd2, [map]; mov.u32 %r5, 7; mov.f32 %f5, 0f3f800000;
    tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd2, {%f5, %f5}]; txq.width.b32 %r5, [%rd2];
    mov.b32 %r6, %f3; add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, 3; st.global.u32 [%rd1], %r5;"""
    out = buffer(np.zeros(1, np.uint32))
    launch = Launch((1, 1, 1), params=(out, 1))
    result = run(kernel(text, ".param .u64 out, .param .u64 map"), "k", launch, seed=1)
    assert result.harm is None and result.memory(out).view(np.uint32)[0] == 3
