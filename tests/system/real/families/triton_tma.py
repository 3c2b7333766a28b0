"""Triton kernels with tensor descriptors: by value, made on the device, persistent, clusters, reductions."""

import sys
from pathlib import Path

import triton
import triton.language as tl
from emit import Emitter
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_trace import Tensor, Tracer


@triton.jit
def copy_tiles(src, dst, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    dst.store([m, n], src.load([m, n]))


@triton.jit
def copy_rows(src, dst, cols, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    for n in range(0, cols, BN):
        dst.store([m, n], src.load([m, n]) * 2)


@triton.jit
def row_sums(src, out, cols, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM,), tl.float32)
    for n in range(0, cols, BN):
        acc += tl.sum(src.load([m, n]).to(tl.float32), axis=1)
    tl.store(out + m + tl.arange(0, BM), acc)


@triton.jit
def matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, B_ROWS: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        ta = a.load([m, k * BK])
        if B_ROWS:
            acc = tl.dot(ta, b.load([n, k * BK]).T, acc)
        else:
            acc = tl.dot(ta, b.load([k * BK, n]), acc)
    c.store([m, n], acc.to(c.dtype))


@triton.jit
def split_k_reduce(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.program_id(2), tl.cdiv(K, BK), SPLIT):
        acc = tl.dot(a.load([m, k * BK]), b.load([k * BK, n]), acc)
    c.atomic_add([m, n], acc)


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
    FLAT: tl.constexpr,
    SUBTILE: tl.constexpr,
):
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, SMS, flatten=FLAT):
        m = (tile // across) * BM
        n = (tile % across) * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
        if SUBTILE:
            halves = tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            c.store([m, n], left.to(c.dtype))
            c.store([m, n + BN // 2], right.to(c.dtype))
        else:
            c.store([m, n], acc.to(c.dtype))


@triton.jit
def device_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr):
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, SMS):
        m = (tile // across) * BM
        n = (tile % across) * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(da.load([m, k * BK]), db.load([n, k * BK]).T, acc)
        dc.store([m, n], acc.to(dc.dtype))


@triton.jit
def device_copy(src, dst, M, N, BM: tl.constexpr, BN: tl.constexpr):
    ds = tl.make_tensor_descriptor(src, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    dd = tl.make_tensor_descriptor(dst, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m = tl.program_id(0) * BM
    for n in range(0, N, BN):
        dd.store([m, n], ds.load([m, n]))


@triton.jit
def grouped_matmul(
    sizes, pa, pb, pc, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr
):
    tile = tl.program_id(0)
    first = 0
    for g in range(groups):
        M = tl.load(sizes + 3 * g)
        N = tl.load(sizes + 3 * g + 1)
        K = tl.load(sizes + 3 * g + 2)
        across = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * across
        if tile >= first and tile < first + tiles:
            a = tl.load(pa + g).to(tl.pointer_type(tl.float16))
            b = tl.load(pb + g).to(tl.pointer_type(tl.float16))
            c = tl.load(pc + g).to(tl.pointer_type(tl.float16))
            da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
            db = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
            dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
            while tile >= first and tile < first + tiles:
                m = ((tile - first) // across) * BM
                n = ((tile - first) % across) * BN
                acc = tl.zeros((BM, BN), tl.float32)
                for k in range(tl.cdiv(K, BK)):
                    acc = tl.dot(da.load([m, k * BK]), db.load([n, k * BK]).T, acc)
                dc.store([m, n], acc.to(tl.float16))
                tile += SMS
        first += tiles


@triton.jit
def attention(
    q, k, v, out, scale, length, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):
    head = tl.program_id(1) * length
    start = tl.program_id(0) * BM
    tq = q.load([head + start, 0])
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    end = start + BM if CAUSAL else length
    for at in range(0, end, BN):
        scores = tl.dot(tq, k.load([head + at, 0]).T) * scale
        if CAUSAL:
            row = start + tl.arange(0, BM)
            scores = tl.where(row[:, None] >= (at + tl.arange(0, BN))[None, :], scores, -float("inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new[:, None])
        fade = tl.exp2(top - new)
        acc = tl.dot(p.to(tq.dtype), v.load([head + at, 0]), acc * fade[:, None])
        total = total * fade + tl.sum(p, 1)
        top = new
    out.store([head + start, 0], (acc / total[:, None]).to(out.dtype))


def desc(tensor, block):
    return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block)


def operands(m, n, k, tile, dtype="float16", b_rows=True, c_type="float16", c_block=None):
    bm, bn, bk = tile
    a = desc(Tensor((m, k), dtype), [bm, bk])
    b = desc(Tensor((n, k), dtype), [bn, bk]) if b_rows else desc(Tensor((k, n), dtype), [bk, bn])
    return a, b, desc(Tensor((m, n), c_type), c_block or [bm, bn])


def call_matmul(
    m=256, n=256, k=256, tile=(128, 128, 64), dtype="float16", b_rows=True, c_type="float16", **options
):
    a, b, c = operands(m, n, k, tile, dtype, b_rows, c_type)
    matmul[(m // tile[0], n // tile[1])](a, b, c, k, *tile, b_rows, **options)


def call_persistent(
    m=256, n=256, k=256, tile=(128, 128, 64), dtype="float16", flat=False, subtile=False, **options
):
    block = [tile[0], tile[1] // 2] if subtile else None
    a, b, c = operands(m, n, k, tile, dtype, c_block=block)
    persistent_matmul[(2,)](a, b, c, m, n, k, *tile, 2, flat, subtile, **options)


def call_attention(dim, length=256, tile=(128, 64), causal=False, dtype="float16", **options):
    shape = (4 * length, dim)
    q, o = (desc(Tensor(shape, dtype), [tile[0], dim]) for _ in range(2))
    k, v = (desc(Tensor(shape, dtype), [tile[1], dim]) for _ in range(2))
    attention[(length // tile[0], 4)](q, k, v, o, 0.1, length, dim, *tile, causal, **options)


def cases(tracer: Tracer, tiny: bool) -> None:
    case = tracer.case
    half = Tensor((256, 256))
    tile = desc(half, [64, 64])
    case("copy_tiles", lambda: copy_tiles[(4, 4)](tile, tile, 64, 64), ["tma"])
    case("matmul_s3", lambda: call_matmul(num_stages=3), ["tma", "wgmma"])
    case("persistent_s3", lambda: call_persistent(num_stages=3), ["tma", "persistent"])
    if tiny:
        return
    case("copy_rows", lambda: copy_rows[(4,)](tile, tile, 256, 64, 64), ["tma"])
    case("copy_rows_s4", lambda: copy_rows[(4,)](tile, tile, 256, 64, 64, num_stages=4, num_warps=8), ["tma"])
    case(
        "row_sums",
        lambda: row_sums[(4,)](tile, Tensor((256,), "float32"), 256, 64, 64, num_stages=3),
        ["tma"],
    )
    case("matmul_s1", lambda: call_matmul(num_stages=1), ["tma", "wgmma"])
    case("matmul_s2_columns", lambda: call_matmul(b_rows=False, num_stages=2), ["tma", "wgmma"])
    case(
        "matmul_s4_w8_bf16",
        lambda: call_matmul(
            tile=(128, 256, 64), dtype="bfloat16", c_type="bfloat16", num_stages=4, num_warps=8
        ),
        ["tma", "wgmma"],
    )
    case("matmul_s6_64", lambda: call_matmul(tile=(64, 64, 32), num_stages=6), ["tma", "wgmma"])
    case(
        "matmul_fp8",
        lambda: call_matmul(tile=(128, 128, 128), k=512, dtype="float8_e4m3fn", num_stages=3),
        ["tma", "wgmma", "fp8"],
    )
    case(
        "matmul_tf32",
        lambda: call_matmul(tile=(64, 64, 32), dtype="float32", c_type="float32", num_stages=3),
        ["tma", "wgmma"],
    )
    case("matmul_f32_out", lambda: call_matmul(c_type="float32", num_stages=3), ["tma", "wgmma"])
    case("matmul_cluster2", lambda: call_matmul(num_stages=3, num_ctas=2), ["tma", "cluster"])
    case(
        "matmul_cluster4",
        lambda: call_matmul(m=512, n=512, tile=(256, 128, 64), num_stages=3, num_ctas=4),
        ["tma", "cluster"],
    )
    case(
        "persistent_w8_s3",
        lambda: call_persistent(tile=(128, 256, 64), num_stages=3, num_warps=8),
        ["tma", "persistent"],
    )
    case("persistent_flat", lambda: call_persistent(flat=True, num_stages=3), ["tma", "persistent"])
    case(
        "persistent_subtile",
        lambda: call_persistent(flat=True, subtile=True, num_stages=4, num_warps=8),
        ["tma", "persistent"],
    )
    case(
        "persistent_fp8",
        lambda: call_persistent(
            k=512, tile=(128, 256, 128), dtype="float8_e4m3fn", flat=True, num_stages=3, num_warps=8
        ),
        ["tma", "persistent", "fp8"],
    )
    f32 = desc(Tensor((256, 256), "float32"), [128, 128])
    a, b, _ = operands(256, 256, 256, (128, 128, 64), b_rows=False)
    case(
        "split_k_reduce",
        lambda: split_k_reduce[(2, 2, 2)](a, b, f32, 256, 128, 128, 64, 2),
        ["tma", "reduce"],
    )
    case(
        "device_matmul",
        lambda: device_matmul[(2,)](half, half, half, 256, 256, 256, 128, 128, 64, 2),
        ["tma", "persistent", "device descriptor"],
    )
    case("device_copy", lambda: device_copy[(4,)](half, half, 256, 256, 64, 64), ["tma", "device descriptor"])
    sizes = Tensor((9,), "int32", values=(256, 128, 192, 128, 128, 64, 200, 256, 128))
    pointers = Tensor((4,), "int64")
    case(
        "grouped_matmul",
        lambda: grouped_matmul[(2,)](sizes, pointers, pointers, pointers, 3, 128, 128, 64, 2),
        ["tma", "grouped", "device descriptor"],
    )
    case("attention_d64", lambda: call_attention(64, num_stages=3), ["tma", "attention"])
    case("attention_d128", lambda: call_attention(128, num_stages=2, num_warps=8), ["tma", "attention"])
    case("attention_d64_causal", lambda: call_attention(64, causal=True, num_stages=3), ["tma", "attention"])
    case(
        "attention_d128_fp8",
        lambda: call_attention(128, tile=(128, 128), dtype="float8_e5m2", num_stages=3, num_warps=8),
        ["tma", "attention", "fp8"],
    )


def main(out: Path, tiny: bool) -> None:
    emitter = Emitter(out, f"triton {triton.__version__}")
    tracer = Tracer(emitter)
    tracer.install()
    cases(tracer, tiny)
    emitter.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--tiny" in sys.argv)
