"""Triton kernels of further kinds: gathers, locks, searches, scans, moments, packed and paged operands."""

import sys
from pathlib import Path

import triton
import triton.language as tl
from emit import Emitter
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_trace import Tensor, Tracer


@triton.jit
def locked_sums(x, total, lock, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    row = tl.load(x + tl.program_id(0) * cols + at, mask=inside, other=0.0)
    while tl.atomic_cas(lock, 0, 1) != 0:
        pass
    tl.store(total + at, tl.load(total + at, mask=inside) + row, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def experts_matmul(
    a,
    b,
    c,
    ids,
    experts,
    N,
    K,
    nvalid,
    TOPK: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    pid = tl.program_id(0)
    nn = tl.cdiv(N, BN)
    pm = pid // nn
    pn = pid % nn
    rows = tl.load(ids + pm * BM + tl.arange(0, BM)).to(tl.int64)
    rmask = rows < nvalid
    e = tl.load(experts + pm).to(tl.int64)
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + (rows[:, None] // TOPK) * K + rk[None, :]
    pb = b + e * N * K + rk[:, None] + rn[None, :] * K
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        va = tl.load(pa, mask=rmask[:, None] & (rk[None, :] < K - k * BK), other=0.0)
        vb = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc += tl.dot(va, vb)
        pa += BK
        pb += BK
    on = pn * BN + tl.arange(0, BN)
    tl.store(
        c + rows[:, None] * N + on[None, :],
        acc.to(c.dtype.element_ty),
        mask=rmask[:, None] & (on[None, :] < N),
    )


@triton.jit
def paged_attention(
    q,
    kc,
    vc,
    tables,
    lens,
    out,
    scale,
    MAXB: tl.constexpr,
    PAGE: tl.constexpr,
    D: tl.constexpr,
    G: tl.constexpr,
):
    s = tl.program_id(0)
    h = tl.program_id(1)
    H = tl.num_programs(1)
    n = tl.load(lens + s)
    rg = tl.arange(0, G)
    rd = tl.arange(0, D)
    rp = tl.arange(0, PAGE)
    vq = tl.load(q + (s * H + h) * G * D + rg[:, None] * D + rd[None, :])
    top = tl.full((G,), -float("inf"), tl.float32)
    tot = tl.zeros((G,), tl.float32)
    acc = tl.zeros((G, D), tl.float32)
    for i in range(tl.cdiv(n, PAGE)):
        b = tl.load(tables + s * MAXB + i).to(tl.int64)
        base = (b * H + h) * PAGE * D
        k = tl.load(kc + base + rp[None, :] * D + rd[:, None])
        qk = tl.dot(vq, k) * scale
        qk = tl.where((i * PAGE + rp < n)[None, :], qk, -float("inf"))
        nt = tl.maximum(top, tl.max(qk, 1))
        p = tl.exp(qk - nt[:, None])
        al = tl.exp(top - nt)
        tot = tot * al + tl.sum(p, 1)
        v = tl.load(vc + base + rp[:, None] * D + rd[None, :])
        acc = acc * al[:, None] + tl.dot(p.to(v.dtype), v)
        top = nt
    tl.store(out + (s * H + h) * G * D + rg[:, None] * D + rd[None, :], acc / tot[:, None])


@triton.jit
def packed_weights_matmul(a, b, s, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        va = tl.load(a + rm[:, None] * K + k + rk[None, :])
        w = tl.load(b + ((k + rk[:, None]) // 8) * N + rn[None, :])
        sh = (rk[:, None] % 8) * 4
        f = ((w >> sh) & 0xF).to(tl.float16) - 8
        sc = tl.load(s + (k // 128) * N + rn)
        acc = tl.dot(va, f * sc[None, :], acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def convolution(
    x,
    w,
    y,
    C,
    H,
    W,
    K,
    OH,
    OW,
    R: tl.constexpr,
    S: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    m = pm * BM + tl.arange(0, BM)
    n = pn * BN + tl.arange(0, BN)
    im = m // (OH * OW)
    oh = (m // OW) % OH
    ow = m % OW
    acc = tl.zeros((BM, BN), tl.float32)
    for rs in range(R * S):
        r = rs // S
        t = rs % S
        for c in range(0, C, BK):
            rc = c + tl.arange(0, BK)
            px = x + ((im * H + oh + r) * W + ow + t)[:, None] * C + rc[None, :]
            va = tl.load(px, mask=rc[None, :] < C, other=0)
            vb = tl.load(
                w + (rs * C + rc)[:, None] * K + n[None, :],
                mask=(rc[:, None] < C) & (n[None, :] < K),
                other=0,
            )
            acc += tl.dot(va, vb)
    tl.store(y + m[:, None] * K + n[None, :], acc, mask=n[None, :] < K)


@triton.jit
def last_block_sum(x, part, out, sem, n, BLOCK: tl.constexpr, NB: tl.constexpr):
    p = tl.program_id(0)
    o = p * BLOCK + tl.arange(0, BLOCK)
    s = tl.sum(tl.load(x + o, mask=o < n, other=0.0), 0)
    tl.store(part + p, s)
    tl.debug_barrier()
    old = tl.atomic_add(sem, 1, sem="acq_rel")
    if old == tl.num_programs(0) - 1:
        v = tl.load(
            part + tl.arange(0, NB),
            mask=tl.arange(0, NB) < tl.num_programs(0),
            other=0.0,
            cache_modifier=".cg",
        )
        tl.store(out, tl.sum(v, 0))


@triton.jit
def search_sorted(keys, q, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(q + o)
    lo = tl.zeros((BLOCK,), tl.int32)
    hi = tl.zeros((BLOCK,), tl.int32) + n
    going = tl.max((lo < hi).to(tl.int32), 0)
    while going > 0:
        mid = (lo + hi) // 2
        k = tl.load(keys + mid, mask=mid < n, other=0)
        right = (k < v) & (lo < hi)
        lo = tl.where(right, mid + 1, lo)
        hi = tl.where(right, hi, mid)
        going = tl.max((lo < hi).to(tl.int32), 0)
    tl.store(out + o, lo)


@triton.jit
def merged_moments(m1, s1, n1, m2, s2, n2):
    d = m2 - m1
    n = n1 + n2
    f = tl.where(n == 0, 0.0, n2 / n)
    return m1 + d * f, s1 + s2 + d * d * n1 * f, n


@triton.jit
def moments(x, mean, var, R, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    m = tl.zeros((BM, BN), tl.float32)
    s = tl.zeros((BM, BN), tl.float32)
    n = tl.zeros((BM, BN), tl.float32)
    for c in range(0, R, BN):
        rc = c + tl.arange(0, BN)
        v = tl.load(x + rm[:, None] * R + rc[None, :], mask=(rc < R)[None, :], other=0.0)
        ok = (rc < R)[None, :] & (rm[:, None] >= 0)
        n2 = n + 1
        d = v - m
        m = tl.where(ok, m + d / n2, m)
        s = tl.where(ok, s + d * (v - m), s)
        n = tl.where(ok, n2, n)
    a, b, c2 = tl.reduce((m, s, n), 1, merged_moments)
    tl.store(mean + rm, a)
    tl.store(var + rm, b / c2)


@triton.jit
def composed(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def recurrence(a, b, out, T, D, BT: tl.constexpr, BD: tl.constexpr):
    rd = tl.program_id(0) * BD + tl.arange(0, BD)
    rt = tl.arange(0, BT)
    h = tl.zeros((BD,), tl.float32)
    for t in range(0, T, BT):
        va = tl.load(a + (t + rt)[:, None] * D + rd[None, :])
        vb = tl.load(b + (t + rt)[:, None] * D + rd[None, :])
        ca, cb = tl.associative_scan((va, vb), 0, composed)
        y = cb + ca * h[None, :]
        tl.store(out + (t + rt)[:, None] * D + rd[None, :], y)
        h = tl.sum(tl.where((rt == BT - 1)[:, None], y, 0.0), 0)


@triton.jit
def linear_attention(q, k, v, o, T, D: tl.constexpr, BT: tl.constexpr):
    rt = tl.arange(0, BT)
    rd = tl.arange(0, D)
    base = tl.program_id(0) * T * D
    S = tl.zeros((D, D), tl.float32)
    for t in range(0, T, BT):
        p = base + (t + rt)[:, None] * D + rd[None, :]
        vq = tl.load(q + p)
        vk = tl.load(k + p)
        vv = tl.load(v + p)
        att = tl.dot(vq, tl.trans(vk))
        att = tl.where(rt[:, None] >= rt[None, :], att, 0.0)
        y = tl.dot(att.to(vv.dtype), vv) + tl.dot(vq, S.to(vq.dtype))
        S += tl.dot(tl.trans(vk), vv)
        tl.store(o + p, y.to(o.dtype.element_ty))


@triton.jit
def largest(x, out, N: tl.constexpr, KK: tl.constexpr):
    r = tl.program_id(0)
    v = tl.load(x + r * N + tl.arange(0, N))
    t = tl.topk(v, KK)
    tl.store(out + r * KK + tl.arange(0, KK), t)


@triton.jit
def gathered(x, i, out, N: tl.constexpr, M: tl.constexpr):
    v = tl.load(x + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    j = tl.load(i + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    tl.store(out + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.gather(v, j, 0))


@triton.jit
def interleaved(x, y, out, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    z = tl.interleave(tl.load(x + o), tl.load(y + o))
    w = tl.reshape(tl.flip(z, 0), (2 * BLOCK // 32, 32))
    tl.store(out + tl.arange(0, 2 * BLOCK), tl.ravel(tl.trans(w)))


@triton.jit
def double_matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float64)
    for k in range(0, K, BK):
        acc = tl.dot(
            tl.load(a + rm[:, None] * K + k + rk[None, :]),
            tl.load(b + (k + rk)[:, None] * 256 + rn[None, :]),
            acc,
            out_dtype=tl.float64,
        )
    tl.store(c + rm[:, None] * 256 + rn[None, :], acc)


@triton.jit
def asserted_logs(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + o, mask=o < n, other=1.0)
    tl.device_assert(v > 0, "positive")
    s = tl.sum(tl.log(v), 0)
    tl.device_print("sum", s)
    tl.store(out + tl.program_id(0), s)


@triton.jit
def ordered_split_k(
    a, b, c, locks, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr
):
    tile = tl.program_id(0)
    s = tl.program_id(1)
    nn = tl.cdiv(N, BN)
    pm = tile // nn
    pn = tile % nn
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(s * BK, K, SPLIT * BK):
        acc = tl.dot(
            tl.load(a + rm[:, None] * K + k + rk[None, :]),
            tl.load(b + (k + rk)[:, None] * N + rn[None, :]),
            acc,
        )
    pc = c + rm[:, None] * N + rn[None, :]
    while tl.atomic_cas(locks + tile, s, s) != s:
        pass
    if s == 0:
        tl.store(pc, acc)
    else:
        tl.store(pc, tl.load(pc) + acc)
    tl.debug_barrier()
    tl.atomic_xchg(locks + tile, s + 1)


@triton.jit
def running_sums(x, out, N, BLOCK: tl.constexpr):
    carry = 0.0
    for c in tl.range(0, N, BLOCK, num_stages=3):
        o = c + tl.arange(0, BLOCK)
        v = tl.load(x + o, mask=o < N, other=0.0)
        y = tl.cumsum(v, 0) + carry
        carry += tl.sum(v, 0)
        tl.store(out + o, y, mask=o < N)


@triton.jit
def matmul_layer_norm(
    a_desc, b_desc, bias, w, c_desc, K, eps, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    pm = tl.program_id(0)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([pm * BM, k]), b_desc.load([k, 0]), acc)
    rn = tl.arange(0, BN)
    acc += tl.load(bias + rn)[None, :]
    mean = tl.sum(acc, 1) / BN
    d = acc - mean[:, None]
    var = tl.sum(d * d, 1) / BN
    y = d * tl.rsqrt(var + eps)[:, None] * tl.load(w + rn)[None, :]
    c_desc.store([pm * BM, 0], y.to(tl.float16))


def desc(tensor, block):
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(block))


def f32(*shape):
    return Tensor(shape, "float32")


def half(*shape):
    return Tensor(shape)


def words(*shape, values=None):
    return Tensor(shape, "int32", values=values)


def paged(pages, page, dim, lengths, **options):
    cache = half(64, 4, page, dim)
    paged_attention[(2, 4)](
        half(2, 4, 16, dim), cache, cache, words(2, pages), words(2, values=lengths), f32(2, 4, 16, dim),
        0.1, pages, page, dim, 16, **options,
    )  # fmt: skip


def experts(dtype, tile, **options):
    a, b, c = (Tensor(shape, dtype) for shape in ((64, 256), (4, 256, 256), (128, 256)))
    experts_matmul[(8,)](a, b, c, words(256), words(4), 256, 256, 128, 2, *tile, **options)


def cases(tracer: Tracer) -> None:
    case = tracer.case
    sums = f32(8, 1000)
    case("locked_sums", lambda: locked_sums[(8,)](sums, f32(1000), words(1, values=[0]), 1000, 1024))
    case("experts_matmul", lambda: experts("float16", (64, 128, 64), num_stages=4), ["wgmma"])
    case(
        "experts_matmul_w8", lambda: experts("bfloat16", (128, 128, 64), num_stages=3, num_warps=8), ["wgmma"]
    )
    case("paged_attention_16", lambda: paged(16, 16, 64, [37, 61]), ["attention"])
    case("paged_attention_32", lambda: paged(16, 32, 128, [70, 200], num_stages=4), ["attention"])
    case(
        "packed_weights_matmul",
        lambda: packed_weights_matmul[(2, 2)](
            half(128, 256), words(32, 256), half(2, 256), f32(128, 256), 128, 256, 256, 64, 128, 64
        ),
        ["cp.async"],
    )
    case(
        "convolution",
        lambda: convolution[(8, 1)](
            half(1, 18, 18, 64), half(9, 64, 128), f32(256, 128), 64, 18, 18, 128, 16, 16, 3, 3, 64, 128, 32
        ),
        ["cp.async"],
    )
    case(
        "last_block_sum",
        lambda: last_block_sum[(8,)](f32(8000), f32(8), f32(1), words(1, values=[0]), 8000, 1024, 8),
    )
    case("search_sorted", lambda: search_sorted[(2,)](f32(1000), f32(256), words(256), 1000, 128))
    case("moments", lambda: moments[(4,)](f32(16, 1000), f32(16), f32(16), 1000, 4, 256), ["reduction"])
    series = f32(256, 64)
    case("recurrence", lambda: recurrence[(2,)](series, series, series, 256, 64, 64, 32), ["reduction"])
    for dim, options in ((64, {}), (128, {"num_warps": 8, "num_stages": 2})):
        heads = half(2, 256, dim)
        case(
            f"linear_attention_{dim}",
            lambda h=heads, d=dim, o=options: linear_attention[(2,)](h, h, h, h, 256, d, 64, **o),
            ["attention"],
        )
    case("largest", lambda: largest[(4,)](f32(4, 1024), f32(4, 8), 1024, 8))
    table = f32(128, 64)
    case("gathered", lambda: gathered[(1,)](table, words(128, 64), table, 128, 64))
    case("interleaved", lambda: interleaved[(1,)](f32(512), f32(512), f32(1024), 512))
    a, b = (Tensor(shape, "float64") for shape in ((128, 128), (128, 256)))
    case("double_matmul", lambda: double_matmul[(2, 2)](a, b, b, 128, 64, 64, 32), ["cp.async"])
    case("asserted_logs", lambda: asserted_logs[(4,)](f32(4000), f32(4), 4000, 1024, debug=True))
    case(
        "ordered_split_k",
        lambda: ordered_split_k[(4, 2)](
            half(256, 256), half(256, 256), f32(256, 256), words(4, values=[0] * 4), 256, 256, 256,
            128, 128, 64, 2,
        ),
        ["split-k"],
    )  # fmt: skip
    case("running_sums", lambda: running_sums[(1,)](f32(5000), f32(5000), 5000, 1024))
    case(
        "matmul_layer_norm",
        lambda: matmul_layer_norm[(2,)](
            desc(half(256, 512), (128, 64)), desc(half(512, 256), (64, 256)), f32(256), f32(256),
            desc(half(256, 256), (128, 256)), 512, 1e-5, 128, 256, 64, num_warps=8, num_stages=3,
        ),
        ["tma", "wgmma"],
    )  # fmt: skip


def main(out: Path, tiny: bool) -> None:
    emitter = Emitter(out, f"triton {triton.__version__}")
    tracer = Tracer(emitter)
    tracer.install()
    if not tiny:
        cases(tracer)
    emitter.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--tiny" in sys.argv)
