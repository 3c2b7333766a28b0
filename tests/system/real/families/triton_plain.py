"""Triton kernels without tensor descriptors: pointwise, reductions, matmuls by cp.async, attention."""

import math
import sys
from pathlib import Path

import triton
import triton.language as tl
from emit import Emitter
from triton_rows import (
    axpy,
    column_sums,
    cross_entropy,
    gated_gelu,
    gather_rows,
    histogram_of,
    layer_norm,
    online_softmax,
    rms_norm_backward,
    row_argmax,
    row_softmax,
    scan_rows,
    sort_rows,
    transpose,
)
from triton_trace import Tensor, Tracer


@triton.jit
def matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    ACT: tl.constexpr,
):
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    band = pid // (GROUP * across)
    height = min(tl.cdiv(M, BM) - band * GROUP, GROUP)
    pm = band * GROUP + (pid % (GROUP * across)) % height
    pn = (pid % (GROUP * across)) // height
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :] * sak
    pb = b + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32)
    for k in range(tl.cdiv(K, BK)):
        ta = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        tb = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(ta, tb, acc)
        pa += BK * sak
        pb += BK * sbk
    if ACT == "silu":
        acc = acc * tl.sigmoid(acc)
    om = pm * BM + tl.arange(0, BM)
    on = pn * BN + tl.arange(0, BN)
    tl.store(
        c + om[:, None] * scm + on[None, :] * scn,
        acc.to(c.dtype.element_ty),
        mask=(om < M)[:, None] & (on < N)[None, :],
    )


@triton.jit
def split_k_matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.program_id(2) * BK + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK * SPLIT)):
        left = K - k * BK * SPLIT
        ta = tl.load(a + rm[:, None] * K + rk[None, :], mask=rk[None, :] < left, other=0.0)
        tb = tl.load(b + rk[:, None] * N + rn[None, :], mask=rk[:, None] < left, other=0.0)
        acc = tl.dot(ta, tb, acc)
        a += BK * SPLIT
        b += BK * SPLIT * N
    tl.atomic_add(
        c + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :], sem="relaxed"
    )


@triton.jit
def stream_k_matmul(
    a, b, c, locks, partial, M, N, K, per_program, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    pid = tl.program_id(0)
    steps = tl.cdiv(K, BK)
    at = pid * per_program
    end = min(at + per_program, tl.cdiv(M, BM) * tl.cdiv(N, BN) * steps)
    while at < end:
        tile = at // steps
        stop = min(end, (tile + 1) * steps)
        pm = tile // tl.cdiv(N, BN)
        pn = tile % tl.cdiv(N, BN)
        rm = pm * BM + tl.arange(0, BM)
        rn = pn * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(at - tile * steps, stop - tile * steps):
            rk = k * BK + tl.arange(0, BK)
            ta = tl.load(a + rm[:, None] * K + rk[None, :], mask=rk[None, :] < K, other=0.0)
            tb = tl.load(b + rk[:, None] * N + rn[None, :], mask=rk[:, None] < K, other=0.0)
            acc = tl.dot(ta, tb, acc)
        where = c + rm[:, None] * N + rn[None, :]
        live = (rm < M)[:, None] & (rn < N)[None, :]
        if at == tile * steps:
            if stop != (tile + 1) * steps:
                while tl.atomic_cas(locks + tile, 1, 1) != 1:
                    pass
                acc += tl.load(
                    partial + tile * BM * BN + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
                )
            tl.store(where, acc.to(c.dtype.element_ty), mask=live)
        else:
            tl.store(
                partial + tile * BM * BN + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc
            )
            tl.debug_barrier()
            tl.atomic_xchg(locks + tile, 1)
        at = stop


@triton.jit
def persistent_matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr
):
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, SMS):
        rm = (tile // across) * BM + tl.arange(0, BM)
        rn = (tile % across) * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            rk = k * BK + tl.arange(0, BK)
            ta = tl.load(a + rm[:, None] * K + rk[None, :], mask=rk[None, :] < K, other=0.0)
            tb = tl.load(b + rk[:, None] * N + rn[None, :], mask=rk[:, None] < K, other=0.0)
            acc = tl.dot(ta, tb, acc)
        tl.store(
            c + rm[:, None] * N + rn[None, :],
            acc.to(c.dtype.element_ty),
            mask=(rm < M)[:, None] & (rn < N)[None, :],
        )


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
        while tile >= first and tile < first + tiles:
            a = tl.load(pa + g).to(tl.pointer_type(tl.float16))
            b = tl.load(pb + g).to(tl.pointer_type(tl.float16))
            c = tl.load(pc + g).to(tl.pointer_type(tl.float16))
            rm = ((tile - first) // across) * BM + tl.arange(0, BM)
            rn = ((tile - first) % across) * BN + tl.arange(0, BN)
            rk = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(tl.cdiv(K, BK)):
                ta = tl.load(a + rm[:, None] * K + (k * BK + rk)[None, :])
                tb = tl.load(b + (k * BK + rk)[:, None] * N + rn[None, :])
                acc = tl.dot(ta, tb, acc)
            tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16))
            tile += SMS
        first += tiles


@triton.jit
def batched_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    z = tl.program_id(2)
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ta = tl.load(a + z * M * K + rm[:, None] * K + (k + rk)[None, :])
        tb = tl.load(b + z * K * N + (k + rk)[:, None] * N + rn[None, :])
        acc += tl.dot(ta, tb)
    tl.store(c + z * M * N + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def quantized_matmul(a, b, scales, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ta = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        packed = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        scale = tl.load(scales + (k // BK) * N + rn)
        acc = tl.dot(ta, (packed.to(tl.float16) * scale[None, :]).to(tl.float16), acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16))


@triton.jit
def chained_dots(a, b, d, c, M, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BD: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rk = tl.arange(0, BK)
    rd = tl.arange(0, BD)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(
            tl.load(a + rm[:, None] * K + (k + rk)[None, :]),
            tl.load(b + (k + rk)[:, None] * BN + rn[None, :]),
            acc,
        )
    out = tl.dot(acc.to(tl.float16), tl.load(d + rn[:, None] * BD + rd[None, :]))
    tl.store(c + rm[:, None] * BD + rd[None, :], out)


@triton.jit
def attention(
    q,
    k,
    v,
    out,
    scale,
    length,
    stride_h,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    start = tl.program_id(0) * BM
    base = tl.program_id(1) * stride_h
    rm = start + tl.arange(0, BM)
    rd = tl.arange(0, D)
    tq = tl.load(q + base + rm[:, None] * D + rd[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    end = start + BM if CAUSAL else length
    for at in range(0, end, BN):
        rn = at + tl.arange(0, BN)
        tk = tl.load(k + base + rn[None, :] * D + rd[:, None])
        scores = tl.dot(tq, tk) * scale
        if CAUSAL:
            scores = tl.where(rm[:, None] >= rn[None, :], scores, -float("inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new[:, None])
        fade = tl.exp2(top - new)
        acc = acc * fade[:, None]
        tv = tl.load(v + base + rn[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), tv, acc)
        total = total * fade + tl.sum(p, 1)
        top = new
    tl.store(out + base + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def attention_backward_kv(
    q, k, v, do, lse, delta, dk, dv, scale, length, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rd = tl.arange(0, D)
    tk = tl.load(k + rn[:, None] * D + rd[None, :])
    tv = tl.load(v + rn[:, None] * D + rd[None, :])
    gk = tl.zeros((BN, D), tl.float32)
    gv = tl.zeros((BN, D), tl.float32)
    for at in range(0, length, BM):
        rm = at + tl.arange(0, BM)
        tq = tl.load(q + rm[:, None] * D + rd[None, :])
        to = tl.load(do + rm[:, None] * D + rd[None, :])
        p = tl.exp2(tl.dot(tk, tl.trans(tq)) * scale - tl.load(lse + rm)[None, :])
        gv = tl.dot(p.to(tl.float16), to, gv)
        ds = p * (tl.dot(tv, tl.trans(to)) - tl.load(delta + rm)[None, :])
        gk = tl.dot(ds.to(tl.float16), tq, gk)
    tl.store(dk + rn[:, None] * D + rd[None, :], gk * scale)
    tl.store(dv + rn[:, None] * D + rd[None, :], gv)


@triton.jit
def decode_attention(
    q, k, v, out, table, lengths, scale, D: tl.constexpr, PAGE: tl.constexpr, H: tl.constexpr
):
    seq = tl.program_id(0)
    length = tl.load(lengths + seq)
    rd = tl.arange(0, D)
    rh = tl.arange(0, H)
    tq = tl.load(q + seq * H * D + rh[:, None] * D + rd[None, :])
    acc = tl.zeros((H, D), tl.float32)
    top = tl.full((H,), -float("inf"), tl.float32)
    total = tl.zeros((H,), tl.float32)
    for page in range(tl.cdiv(length, PAGE)):
        where = tl.load(table + seq * 64 + page)
        rn = tl.arange(0, PAGE)
        tk = tl.load(k + where * PAGE * D + rn[None, :] * D + rd[:, None])
        scores = tl.where((page * PAGE + rn < length)[None, :], tl.dot(tq, tk) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new[:, None])
        fade = tl.exp2(top - new)
        tv = tl.load(v + where * PAGE * D + rn[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), tv, acc * fade[:, None])
        total = total * fade + tl.sum(p, 1)
        top = new
    tl.store(out + seq * H * D + rh[:, None] * D + rd[None, :], acc / total[:, None])


def call_matmul(
    m=256, n=256, k=256, tile=(128, 128, 64), dtype="float16", act="", transposed=False, **options
):
    bm, bn, bk = tile
    sbk, sbn = (1, k) if transposed else (n, 1)
    out = {"float8_e4m3fn": "float16", "int8": "int32"}.get(dtype, dtype)
    grid = (math.ceil(m / bm) * math.ceil(n / bn),)
    a, b, c = Tensor((m, k), dtype), Tensor((k, n), dtype), Tensor((m, n), out)
    matmul[grid](a, b, c, m, n, k, k, 1, sbk, sbn, n, 1, bm, bn, bk, 4, act, **options)


def cases(tracer: Tracer, tiny: bool) -> None:
    case = tracer.case
    rows = Tensor((8, 1000))
    f32 = Tensor((8, 1000), "float32")
    index = Tensor((1024,), "int32")
    case("axpy", lambda: axpy[(4,)](f32, f32, f32, 4000, 0.5, 1024))
    case("row_softmax", lambda: row_softmax[(8,)](rows, rows, 1000, 1000, 1024), ["reduction"])
    case("matmul_s3", lambda: call_matmul(num_stages=3, num_warps=4), ["cp.async", "wgmma"])
    if tiny:
        return
    case("gated_gelu", lambda: gated_gelu[(8,)](rows, rows, 8, 500, 256))
    case("row_softmax_w8", lambda: row_softmax[(8,)](f32, f32, 4000, 4000, 4096, num_warps=8), ["reduction"])
    case("online_softmax", lambda: online_softmax[(8,)](rows, rows, 1000, 1000, 256), ["reduction"])
    case(
        "layer_norm",
        lambda: layer_norm[(8,)](rows, rows, f32, f32, f32, f32, 1000, 1000, 1e-5, 256, num_warps=8),
        ["reduction"],
    )
    case(
        "rms_norm_backward",
        lambda: rms_norm_backward[(8,)](rows, rows, rows, f32, rows, f32, index, 8, 1000, 4, 1024),
        ["atomics"],
    )
    case("column_sums", lambda: column_sums[(4,)](f32, f32, 128, 1000, 32, 64), ["reduction"])
    case("row_argmax", lambda: row_argmax[(8,)](f32, f32, index, 1000, 1024), ["reduction"])
    case("scan_rows", lambda: scan_rows[(8,)](f32, f32, 1000, 256), ["scan"])
    case("sort_rows", lambda: sort_rows[(8,)](f32, f32, 512), ["sort"])
    case("histogram", lambda: histogram_of[(4,)](index, index, 1000, 256, 64), ["atomics"])
    case("transpose", lambda: transpose[(4, 4)](rows, rows, 256, 256, 64, 64))
    case("gather_rows", lambda: gather_rows[(8, 4)](rows, index, rows, 1000, 256))
    case("cross_entropy", lambda: cross_entropy[(8,)](rows, index, f32, 1000, 256), ["reduction"])
    case("matmul_s1", lambda: call_matmul(num_stages=1), ["wgmma"])
    case("matmul_s2_w8", lambda: call_matmul(num_stages=2, num_warps=8), ["cp.async", "wgmma"])
    case(
        "matmul_s4_w8_silu",
        lambda: call_matmul(tile=(128, 256, 64), num_stages=4, num_warps=8, act="silu"),
        ["cp.async", "wgmma"],
    )
    case("matmul_s5_64", lambda: call_matmul(tile=(64, 64, 32), num_stages=5), ["cp.async", "wgmma"])
    case(
        "matmul_bf16_transposed",
        lambda: call_matmul(dtype="bfloat16", transposed=True, num_stages=3),
        ["cp.async", "wgmma"],
    )
    case(
        "matmul_fp8",
        lambda: call_matmul(
            tile=(128, 128, 128), k=512, dtype="float8_e4m3fn", transposed=True, num_stages=3
        ),
        ["cp.async", "wgmma", "fp8"],
    )
    case(
        "matmul_tf32",
        lambda: call_matmul(tile=(64, 64, 32), dtype="float32", num_stages=3),
        ["cp.async", "wgmma"],
    )
    case(
        "matmul_int8",
        lambda: call_matmul(tile=(64, 64, 64), dtype="int8", transposed=True, num_stages=3),
        ["cp.async"],
    )
    case(
        "matmul_mma_small",
        lambda: call_matmul(m=64, n=64, tile=(16, 32, 64), num_stages=3, num_warps=2),
        ["cp.async", "mma"],
    )
    case("matmul_ragged", lambda: call_matmul(m=200, n=136, k=264, num_stages=3), ["cp.async", "wgmma"])
    case("matmul_cluster2", lambda: call_matmul(num_stages=3, num_ctas=2), ["cluster"])
    half = Tensor((256, 256))
    case(
        "split_k_matmul",
        lambda: split_k_matmul[(2, 2, 2)](half, half, f32, 256, 256, 256, 128, 128, 32, 2),
        ["split-k"],
    )
    case(
        "stream_k_matmul",
        lambda: stream_k_matmul[(3,)](half, half, half, index, f32, 256, 256, 256, 6, 128, 128, 64),
        ["stream-k"],
    )
    case(
        "persistent_matmul",
        lambda: persistent_matmul[(2,)](half, half, half, 256, 256, 256, 128, 128, 64, 2),
        ["persistent"],
    )
    case(
        "persistent_matmul_w8",
        lambda: persistent_matmul[(2,)](
            half, half, half, 256, 256, 256, 128, 128, 64, 2, num_warps=8, num_stages=4
        ),
        ["persistent"],
    )
    pointers = Tensor((4,), "int64")
    sizes = Tensor((9,), "int32", values=(128, 64, 96, 64, 64, 32, 200, 128, 64))
    lengths = Tensor((4,), "int32", values=(40, 1, 64, 100))
    case(
        "grouped_matmul",
        lambda: grouped_matmul[(2,)](sizes, pointers, pointers, pointers, 3, 64, 64, 32, 2),
        ["grouped"],
    )
    case(
        "batched_matmul",
        lambda: batched_matmul[(2, 2, 4)](half, half, f32, 256, 256, 256, 128, 128, 32),
        ["cp.async"],
    )
    case(
        "quantized_matmul",
        lambda: quantized_matmul[(2, 2)](
            half, Tensor((256, 256), "int8"), half, half, 256, 256, 256, 128, 128, 64
        ),
        ["cp.async"],
    )
    case(
        "chained_dots", lambda: chained_dots[(2,)](half, half, half, f32, 256, 256, 64, 64, 64, 64), ["wgmma"]
    )
    for causal in (False, True):
        for dim, options in (
            (64, {"num_warps": 4, "num_stages": 3}),
            (128, {"num_warps": 8, "num_stages": 2}),
        ):
            name = f"attention_d{dim}{'_causal' if causal else ''}"
            case(
                name,
                lambda d=dim, c=causal, o=options: attention[(2, 4)](
                    half, half, half, half, 0.1, 256, 256 * d, d, 128, 64, c, **o
                ),
                ["attention"],
            )
    case(
        "attention_backward_kv",
        lambda: attention_backward_kv[(2,)](
            half, half, half, half, f32, f32, f32, f32, 0.1, 256, 64, 64, 128
        ),
        ["attention"],
    )
    case(
        "decode_attention",
        lambda: decode_attention[(4,)](half, half, half, half, index, lengths, 0.1, 64, 64, 16),
        ["attention"],
    )


def main(out: Path, tiny: bool) -> None:
    emitter = Emitter(out, f"triton {triton.__version__}")
    tracer = Tracer(emitter)
    tracer.install()
    cases(tracer, tiny)
    emitter.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--tiny" in sys.argv)
