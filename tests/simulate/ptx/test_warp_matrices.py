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


SMALL = [("m8n8k32", "s4", ""), ("m8n8k32", "u4", ""), ("m8n8k32", "s4", "satfinite"), ("m8n8k128", "b1", "xor.popc"),
         ("m8n8k128", "b1", "and.popc")]  # fmt: skip


@pytest.mark.parametrize(("shape", "kind", "how"), SMALL)
def test_products_of_elements_of_less_than_a_byte(shape: str, kind: str, how: str) -> None:
    """Rows of A and columns of B lie 64 elements, or twice K, apart; elements of a byte from the least bit on."""
    k, bits = int(shape[5:]), int(kind[1:])
    apart = max(64, 2 * k)
    draw = np.random.default_rng(4)
    low, high = (-8, 8) if kind == "s4" else (0, 1 << bits)
    a, b, c = draw.integers(low, high, (8, k)), draw.integers(low, high, (k, 8)), draw.integers(-9, 9, (8, 8))
    c[0] = 2**31 - 5

    def packed(lines: np.ndarray) -> np.ndarray:
        numbers = [sum((int(x) & (1 << bits) - 1) << bits * n for n, x in enumerate(line)) for line in lines]
        return np.frombuffer(b"".join(x.to_bytes(apart * bits // 8, "little") for x in numbers), np.uint32)

    popc, sat = (f".{how}", "") if "popc" in how else ("", f".{how}" if how else "")
    text = f"""ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b]; ld.param.u64 %rd4, [c]; mov.u32 %r9, {apart};
    wmma.load.a.sync.aligned.row.{shape}.global.{kind} {{%r10}}, [%rd2], %r9;
    wmma.load.b.sync.aligned.col.{shape}.global.{kind} {{%r11}}, [%rd3], %r9;
    wmma.load.c.sync.aligned.col.{shape}.global.s32 {{%r12, %r13}}, [%rd4];
    wmma.mma{popc}.sync.aligned.row.col.{shape}.s32.{kind}.{kind}.s32{sat} {{%r14, %r15}}, {{%r10}}, {{%r11}}, {{%r12, %r13}};
    wmma.store.d.sync.aligned.row.{shape}.global.s32 [%rd1], {{%r14, %r15}};"""
    out = buffer(np.zeros(64, np.int32))
    given = (packed(a), packed(b.T), np.ascontiguousarray(c.T).astype(np.int32).reshape(-1))
    params = ".param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c"
    for seed in (1, 6):
        r = run(kernel(text, params), "k", Launch((32, 1, 1), params=(out, *map(buffer, given))), seed=seed)
        assert r.harm is None
        product = (a[:, :, None] ^ b[None]).sum(axis=1) if "xor" in how else a @ b
        wanted = product + c
        wanted = np.clip(wanted, -(2**31), 2**31 - 1) if sat else wanted.astype(np.int32)
        assert np.array_equal(r.memory(out).view(np.int32).reshape(8, 8), wanted)


def test_sums_of_bytes_saturate_if_they_say_so() -> None:
    text = """ld.param.u64 %rd2, [a]; ld.param.u64 %rd4, [c];
    wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%r10, %r11}, [%rd2];
    wmma.load.b.sync.aligned.col.m16n16k16.global.s8 {%r12, %r13}, [%rd2];
    wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}, [%rd4];
    wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32.satfinite {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27},
      {%r10, %r11}, {%r12, %r13}, {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27};
    wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%rd1], {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27};"""
    a = np.random.default_rng(2).integers(-128, 128, (16, 16))
    c = np.full((16, 16), 2**31 - 9000)
    out = buffer(np.zeros(256, np.int32))
    params = ".param .u64 out, .param .u64 a, .param .u64 c"
    given = (buffer(a.astype(np.int8).reshape(-1)), buffer(c.astype(np.int32).reshape(-1)))
    r = run(kernel(text, params), "k", Launch((32, 1, 1), params=(out, *given)), seed=2)
    wanted = np.minimum(a @ a.T + c, 2**31 - 1)
    assert r.harm is None and np.array_equal(r.memory(out).view(np.int32).reshape(16, 16), wanted)
    assert (wanted == 2**31 - 1).any() and (wanted < 2**31 - 1).any()


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
