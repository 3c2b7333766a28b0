"""Triton kernels whose loops the compiler splits into producer and consumer warps.

Release 3.9 splits tiles of 64 rows into one producer and one consumer. It refuses two consumers of a tile of
128 rows (each would load half of what the descriptor's box holds); 3.6 emits them all the same.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl
from emit import Emitter
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_trace import Tensor, Tracer


@triton.jit
def matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
        acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
    c.store([m, n], acc.to(c.dtype))


@triton.jit
def matmul_columns(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
        acc = tl.dot(a.load([m, k * BK]), b.load([k * BK, n]), acc)
    c.store([m, n], acc.to(c.dtype))


@triton.jit
def matmul_bias_gelu(a, b, bias, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
        acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
    acc += tl.load(bias + n + tl.arange(0, BN)).to(tl.float32)[None, :]
    c.store([m, n], (0.5 * acc * (1 + tl.erf(acc * 0.70710678))).to(c.dtype))


@triton.jit
def pointer_epilogue(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
        acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
    rm = m + tl.arange(0, BM)
    rn = n + tl.arange(0, BN)
    tl.store(
        c + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm < M)[:, None] & (rn < N)[None, :]
    )


@triton.jit
def pointer_persistent(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr
):
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, SMS):
        m = (tile // across) * BM
        n = (tile % across) * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
            acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
        rm = m + tl.arange(0, BM)
        rn = n + tl.arange(0, BN)
        tl.store(
            c + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm < M)[:, None] & (rn < N)[None, :]
        )


@triton.jit
def two_outputs(a, b, d, c, e, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    left = tl.zeros((BM, BN), tl.float32)
    right = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
        ta = a.load([m, k * BK])
        left = tl.dot(ta, b.load([n, k * BK]).T, left)
        right = tl.dot(ta, d.load([n, k * BK]).T, right)
    c.store([m, n], left.to(c.dtype))
    e.store([m, n], (left * tl.sigmoid(right)).to(e.dtype))


@triton.jit
def persistent_matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SMS: tl.constexpr,
    OUTER: tl.constexpr,
):
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, SMS, warp_specialize=OUTER):
        m = (tile // across) * BM
        n = (tile % across) * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(tl.cdiv(K, BK), warp_specialize=not OUTER):
            acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
        c.store([m, n], acc.to(c.dtype))


@triton.jit
def attention(q, k, v, out, scale, length, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * length
    start = tl.program_id(0) * BM
    tq = q.load([head + start, 0])
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for at in tl.range(0, length, BN, warp_specialize=True):
        scores = tl.dot(tq, k.load([head + at, 0]).T) * scale
        new = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new[:, None])
        fade = tl.exp2(top - new)
        acc = tl.dot(p.to(tq.dtype), v.load([head + at, 0]), acc * fade[:, None])
        total = total * fade + tl.sum(p, 1)
        top = new
    out.store([head + start, 0], (acc / total[:, None]).to(out.dtype))


def desc(tensor, block):
    return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block)


def operands(m, n, k, tile, dtype="float16", b_rows=True, c_type="float16"):
    bm, bn, bk = tile
    a = desc(Tensor((m, k), dtype), [bm, bk])
    b = desc(Tensor((n, k), dtype), [bn, bk]) if b_rows else desc(Tensor((k, n), dtype), [bk, bn])
    return a, b, desc(Tensor((m, n), c_type), [bm, bn])


def call(
    kernel, m=256, n=256, k=512, tile=(64, 128, 64), dtype="float16", b_rows=True, c_type="float16", **options
):
    a, b, c = operands(m, n, k, tile, dtype, b_rows, c_type)
    grid = (m // tile[0], n // tile[1])
    if kernel is matmul_bias_gelu:
        kernel[grid](a, b, Tensor((n,)), c, k, *tile, **options)
    elif kernel is pointer_epilogue:
        kernel[grid](a, b, Tensor((m, n)), m, n, k, *tile, **options)
    elif kernel is two_outputs:
        kernel[grid](a, b, b, c, c, k, *tile, **options)
    else:
        kernel[grid](a, b, c, k, *tile, **options)


def call_persistent(outer, m=256, n=256, k=512, tile=(64, 128, 64), dtype="float16", **options):
    a, b, c = operands(m, n, k, tile, dtype)
    persistent_matmul[(2,)](a, b, c, m, n, k, *tile, 2, outer, **options)


def call_attention(dim, length=256, tile=(64, 64), dtype="float16", **options):
    shape = (4 * length, dim)
    q, o = (desc(Tensor(shape, dtype), [tile[0], dim]) for _ in range(2))
    k, v = (desc(Tensor(shape, dtype), [tile[1], dim]) for _ in range(2))
    attention[(length // tile[0], 4)](q, k, v, o, 0.1, length, dim, *tile, **options)


def cases(tracer: Tracer, tiny: bool) -> None:
    def case(name, call):
        tracer.case(name, call, ["tma", "warp-specialized"])

    case("matmul_s3", lambda: call(matmul, num_stages=3))
    case("matmul_s5_64", lambda: call(matmul, tile=(64, 64, 64), num_stages=5))
    if tiny:
        return
    case("matmul_s2", lambda: call(matmul, num_stages=2))
    case("matmul_bf16", lambda: call(matmul, dtype="bfloat16", c_type="bfloat16", num_stages=3))
    case("matmul_fp8", lambda: call(matmul, tile=(64, 128, 128), dtype="float8_e4m3fn", num_stages=3))
    case("matmul_columns", lambda: call(matmul_columns, b_rows=False, num_stages=3))
    case("matmul_bias_gelu", lambda: call(matmul_bias_gelu, num_stages=3))
    case("pointer_epilogue", lambda: call(pointer_epilogue, num_stages=3))
    case("two_outputs", lambda: call(two_outputs, tile=(64, 64, 64), num_stages=3))
    case("persistent_inner", lambda: call_persistent(False, num_stages=3))
    case(
        "persistent_inner_fp8",
        lambda: call_persistent(False, tile=(64, 128, 128), dtype="float8_e4m3fn", num_stages=3),
    )
    case("attention_d64", lambda: call_attention(64, num_stages=3))
    case("attention_d128", lambda: call_attention(128, num_stages=2))


def two_consumers(tracer: Tracer) -> None:
    def case(name, call):
        tracer.case(name, call, ["tma", "warp-specialized", "two consumers"])

    wide = (128, 128, 64)
    case("two_consumers_s3", lambda: call(pointer_epilogue, tile=wide, num_stages=3))
    a, b, _ = operands(256, 256, 512, wide)
    c = Tensor((256, 256))
    case(
        "two_consumers_persistent",
        lambda: pointer_persistent[(2,)](a, b, c, 256, 256, 512, *wide, 2, num_stages=3),
    )


def main(out: Path, tiny: bool) -> None:
    emitter = Emitter(out, f"triton {triton.__version__}", "triton_ws")
    tracer = Tracer(emitter)
    tracer.install()
    if triton.__version__.startswith("3.6."):
        two_consumers(tracer)
    else:
        cases(tracer, tiny)
    emitter.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--tiny" in sys.argv)
