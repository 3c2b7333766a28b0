"""Gluon kernels: explicit mbarriers, TMA rings, cp.async, wgmma and warp-specialized partitions."""

import sys
from pathlib import Path

import triton
from emit import Emitter
from gluon_rows import add_specialized, copy_tile, cp_async_mbarrier, cp_async_rows, reduce_into, scale_rows
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton_trace import Tensor, Tracer


@gluon.jit
def matmul_blocking(a, b, c, K):
    BM: gl.constexpr = c.block_shape[0]
    BN: gl.constexpr = c.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    m = gl.program_id(0) * BM
    n = gl.program_id(1) * BN
    sa = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    sb = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [gl.num_warps(), 1], [16, BN, 256 // a.dtype.primitive_bitwidth]
    )
    acc = gl.zeros((BM, BN), gl.float32, layout)
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(bar, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [m, k], bar, sa)
        tma.async_load(b, [n, k], bar, sb)
        mbarrier.wait(bar, phase)
        phase ^= 1
        acc = warpgroup_mma(sa, sb.permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    mbarrier.invalidate(bar)
    out = gl.allocate_shared_memory(c.dtype, c.block_shape, c.layout)
    out.store(acc.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [m, n], out)
    tma.store_wait(pendings=0)


@gluon.jit
def matmul_ring(a, b, c, K, STAGES: gl.constexpr):
    BM: gl.constexpr = c.block_shape[0]
    BN: gl.constexpr = c.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    m = gl.program_id(0) * BM
    n = gl.program_id(1) * BN
    sa = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_shape, a.layout)
    sb = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_shape, b.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    for s in gl.static_range(STAGES):
        mbarrier.init(full.index(s), count=1)
    steps = gl.cdiv(K, BK)
    for s in gl.static_range(STAGES - 2):
        mbarrier.expect(full.index(s), a.block_type.nbytes + b.block_type.nbytes, pred=s < steps)
        tma.async_load(a, [m, s * BK], full.index(s), sa.index(s), pred=s < steps)
        tma.async_load(b, [n, s * BK], full.index(s), sb.index(s), pred=s < steps)
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [gl.num_warps(), 1], [16, BN, 256 // a.dtype.primitive_bitwidth]
    )
    acc = warpgroup_mma_init(gl.zeros((BM, BN), gl.float32, layout))
    for i in range(steps):
        ahead = i + STAGES - 2
        slot = ahead % STAGES
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes, pred=ahead < steps)
        tma.async_load(a, [m, ahead * BK], full.index(slot), sa.index(slot), pred=ahead < steps)
        tma.async_load(b, [n, ahead * BK], full.index(slot), sb.index(slot), pred=ahead < steps)
        mbarrier.wait(full.index(i % STAGES), (i // STAGES) & 1)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        acc = warpgroup_mma(sa.index(i % STAGES), sb.index(i % STAGES).permute((1, 0)), acc, is_async=True)
    acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    for s in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(s))
    out = gl.allocate_shared_memory(c.dtype, c.block_shape, c.layout)
    out.store(acc.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [m, n], out)
    tma.store_wait(pendings=0)


@gluon.jit
def load_partition(
    a,
    b,
    tiles,
    across,
    steps,
    sa,
    sb,
    full,
    empty,
    STAGES: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
):
    at = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        m = (tile // across) * BM
        n = (tile % across) * BN
        for k in range(steps):
            slot = at % STAGES
            mbarrier.wait(empty.index(slot), ((at // STAGES) & 1) ^ 1)
            mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
            tma.async_load(a, [m, k * BK], full.index(slot), sa.index(slot))
            tma.async_load(b, [n, k * BK], full.index(slot), sb.index(slot))
            at += 1


@gluon.jit
def mma_partition(
    c,
    tiles,
    across,
    steps,
    sa,
    sb,
    out,
    full,
    empty,
    STAGES: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
):
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [gl.num_warps(), 1], [16, BN, 256 // sa.dtype.primitive_bitwidth]
    )
    at = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        acc = gl.zeros((BM, BN), gl.float32, layout)
        for k in range(steps):
            slot = at % STAGES
            mbarrier.wait(full.index(slot), (at // STAGES) & 1)
            acc = warpgroup_mma(sa.index(slot), sb.index(slot).permute((1, 0)), acc, is_async=True)
            acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
            mbarrier.arrive(empty.index(slot), count=1)
            at += 1
        tma.store_wait(pendings=0)
        out.store(acc.to(c.dtype))
        fence_async_shared()
        tma.async_store(c, [(tile // across) * BM, (tile % across) * BN], out)
    tma.store_wait(pendings=0)


@gluon.jit
def matmul_specialized(a, b, c, M, N, K, STAGES: gl.constexpr, LOADERS: gl.constexpr = 1):
    BM: gl.constexpr = c.block_shape[0]
    BN: gl.constexpr = c.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    sa = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_shape, a.layout)
    sb = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_shape, b.layout)
    out = gl.allocate_shared_memory(c.dtype, c.block_shape, c.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    for s in gl.static_range(STAGES):
        mbarrier.init(full.index(s), count=1)
        mbarrier.init(empty.index(s), count=1)
    fence_async_shared()
    across = gl.cdiv(N, BN)
    tiles = gl.cdiv(M, BM) * across
    steps = gl.cdiv(K, BK)
    gl.warp_specialize(
        [
            (mma_partition, (c, tiles, across, steps, sa, sb, out, full, empty, STAGES, BM, BN)),
            (load_partition, (a, b, tiles, across, steps, sa, sb, full, empty, STAGES, BM, BN, BK)),
        ],
        [LOADERS],
        [24],
    )


@gluon.jit
def half_partition(
    c, m, n, steps, sa, sb, out, full, empty, STAGES: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr
):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BN, 16])
    acc = gl.zeros((BM, BN), gl.float32, layout)
    for k in range(steps):
        slot = k % STAGES
        mbarrier.wait(full.index(slot), (k // STAGES) & 1)
        acc = warpgroup_mma(sa.index(slot), sb.index(slot).permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        mbarrier.arrive(empty.index(slot), count=1)
    out.store(acc.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [m, n], out)
    tma.store_wait(pendings=0)


@gluon.jit
def halves_loader(
    a, b, m, n, steps, top, bottom, sb, full, empty, STAGES: gl.constexpr, BM: gl.constexpr, BK: gl.constexpr
):
    for k in range(steps):
        slot = k % STAGES
        mbarrier.wait(empty.index(slot), ((k // STAGES) & 1) ^ 1)
        mbarrier.expect(full.index(slot), 2 * a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [m, k * BK], full.index(slot), top.index(slot))
        tma.async_load(a, [m + BM, k * BK], full.index(slot), bottom.index(slot))
        tma.async_load(b, [n, k * BK], full.index(slot), sb.index(slot))


@gluon.jit
def matmul_two_consumers(a, b, c, K, STAGES: gl.constexpr, LOADERS: gl.constexpr = 1):
    BM: gl.constexpr = c.block_shape[0]
    BN: gl.constexpr = c.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    m = gl.program_id(0) * 2 * BM
    n = gl.program_id(1) * BN
    top = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_shape, a.layout)
    bottom = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_shape, a.layout)
    sb = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_shape, b.layout)
    out = gl.allocate_shared_memory(c.dtype, [2] + c.block_shape, c.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    for s in gl.static_range(STAGES):
        mbarrier.init(full.index(s), count=1)
        mbarrier.init(empty.index(s), count=2)
    fence_async_shared()
    steps = gl.cdiv(K, BK)
    gl.warp_specialize(
        [
            (half_partition, (c, m, n, steps, top, sb, out.index(0), full, empty, STAGES, BM, BN)),
            (half_partition, (c, m + BM, n, steps, bottom, sb, out.index(1), full, empty, STAGES, BM, BN)),
            (halves_loader, (a, b, m, n, steps, top, bottom, sb, full, empty, STAGES, BM, BK)),
        ],
        [4, LOADERS],
        [168, 24],
    )


@gluon.jit
def attention(q, k, v, o, length, scale, STAGES: gl.constexpr):
    BM: gl.constexpr = q.block_shape[0]
    D: gl.constexpr = q.block_shape[1]
    BN: gl.constexpr = k.block_shape[0]
    head = gl.program_id(1) * length
    m = head + gl.program_id(0) * BM
    sq = gl.allocate_shared_memory(q.dtype, q.block_shape, q.layout)
    sk = gl.allocate_shared_memory(k.dtype, [STAGES] + k.block_shape, k.layout)
    sv = gl.allocate_shared_memory(v.dtype, [STAGES] + v.block_shape, v.layout)
    q_full = mbarrier.allocate_mbarrier()
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    mbarrier.init(q_full, count=1)
    for s in gl.static_range(STAGES):
        mbarrier.init(full.index(s), count=1)
    steps = gl.cdiv(length, BN)
    mbarrier.expect(q_full, q.block_type.nbytes)
    tma.async_load(q, [m, 0], q_full, sq)
    for s in gl.static_range(STAGES - 1):
        mbarrier.expect(full.index(s), k.block_type.nbytes + v.block_type.nbytes, pred=s < steps)
        tma.async_load(k, [head + s * BN, 0], full.index(s), sk.index(s), pred=s < steps)
        tma.async_load(v, [head + s * BN, 0], full.index(s), sv.index(s), pred=s < steps)
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BN, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, D, 16])
    probs_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    acc = gl.zeros((BM, D), gl.float32, out_layout)
    top = gl.full((BM,), -float("inf"), gl.float32, gl.SliceLayout(1, scores_layout))
    total = gl.zeros((BM,), gl.float32, gl.SliceLayout(1, scores_layout))
    mbarrier.wait(q_full, 0)
    for i in range(steps):
        slot = i % STAGES
        mbarrier.wait(full.index(slot), (i // STAGES) & 1)
        scores = gl.zeros((BM, BN), gl.float32, scores_layout)
        scores = warpgroup_mma(sq, sk.index(slot).permute((1, 0)), scores, is_async=True)
        scores = warpgroup_mma_wait(num_outstanding=0, deps=(scores,)) * scale
        new = gl.maximum(top, gl.max(scores, 1))
        p = gl.exp2(scores - new[:, None])
        fade = gl.exp2(top - new)
        total = total * fade + gl.sum(p, 1)
        acc = acc * gl.convert_layout(fade, gl.SliceLayout(1, out_layout))[:, None]
        acc = warpgroup_mma(
            gl.convert_layout(p.to(gl.float16), probs_layout), sv.index(slot), acc, is_async=True
        )
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        top = new
        ahead = i + STAGES - 1
        into = ahead % STAGES
        mbarrier.expect(full.index(into), k.block_type.nbytes + v.block_type.nbytes, pred=ahead < steps)
        tma.async_load(k, [head + ahead * BN, 0], full.index(into), sk.index(into), pred=ahead < steps)
        tma.async_load(v, [head + ahead * BN, 0], full.index(into), sv.index(into), pred=ahead < steps)
    acc = acc / gl.convert_layout(total, gl.SliceLayout(1, out_layout))[:, None]
    so = gl.allocate_shared_memory(o.dtype, o.block_shape, o.layout)
    so.store(acc.to(o.dtype))
    fence_async_shared()
    tma.async_store(o, [m, 0], so)
    tma.store_wait(pendings=0)


TYPES = {
    "float16": gl.float16,
    "bfloat16": gl.bfloat16,
    "float32": gl.float32,
    "float8_e4m3fn": gl.float8e4nv,
}


def desc(shape, block, dtype="float16"):
    layout = gl.NVMMASharedLayout.get_default_for(block, TYPES[dtype])
    tensor = Tensor(shape, dtype)
    return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block, layout)


def operands(m, n, k, tile, dtype="float16", c_type="float16"):
    bm, bn, bk = tile
    return desc((m, k), [bm, bk], dtype), desc((n, k), [bn, bk], dtype), desc((m, n), [bm, bn], c_type)


def call_attention(length=256, dim=64, block=64, stages=3, **options):
    shape = (4 * length, dim)
    q, o = desc(shape, [64, dim]), desc(shape, [64, dim])
    k, v = desc(shape, [block, dim]), desc(shape, [block, dim])
    attention[(length // 64, 4)](q, k, v, o, length, 0.1, stages, **options)


def cases(tracer: Tracer, tiny: bool) -> None:
    case = tracer.case
    tile = desc((256, 256), [64, 64])
    rows = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    case("copy_tile", lambda: copy_tile[(4, 4)](tile, tile), ["tma"])
    case("scale_rows_s3", lambda: scale_rows[(4,)](tile, tile, 256, 3, rows), ["tma"])
    case(
        "matmul_specialized_s3",
        lambda: matmul_specialized[(2,)](*operands(256, 256, 256, (64, 128, 64)), 256, 256, 256, 3),
        ["tma", "warp-specialized", "persistent"],
    )
    if tiny:
        return
    case("scale_rows_s2", lambda: scale_rows[(4,)](tile, tile, 256, 2, rows), ["tma"])
    plain = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0])
    cp_rows = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    f32 = Tensor((256, 256), "float32")
    for stages in (2, 4):
        case(
            f"cp_async_rows_s{stages}",
            lambda s=stages: cp_async_rows[(8,)](f32, f32, 256, 32, 64, s, cp_rows, plain),
            ["cp.async"],
        )
    case(
        "cp_async_mbarrier",
        lambda: cp_async_mbarrier[(8,)](f32, f32, 256, 32, 64, cp_rows, plain),
        ["cp.async"],
    )
    case(
        "matmul_blocking",
        lambda: matmul_blocking[(4, 2)](*operands(256, 256, 256, (64, 128, 64)), 256),
        ["tma", "wgmma"],
    )
    case(
        "matmul_blocking_w8",
        lambda: matmul_blocking[(2, 2)](*operands(256, 256, 256, (128, 128, 64)), 256, num_warps=8),
        ["tma", "wgmma"],
    )
    case(
        "matmul_ring_s4",
        lambda: matmul_ring[(4, 2)](*operands(256, 256, 512, (64, 128, 64)), 512, 4),
        ["tma", "wgmma"],
    )
    case(
        "matmul_ring_s3_bf16",
        lambda: matmul_ring[(4, 2)](*operands(256, 256, 512, (64, 128, 64), "bfloat16", "bfloat16"), 512, 3),
        ["tma", "wgmma"],
    )
    case(
        "matmul_ring_s4_fp8",
        lambda: matmul_ring[(4, 2)](*operands(256, 256, 512, (64, 128, 128), "float8_e4m3fn"), 512, 4),
        ["tma", "wgmma", "fp8"],
    )
    case(
        "matmul_specialized_s4_w8",
        lambda: matmul_specialized[(2,)](
            *operands(256, 256, 512, (128, 128, 64)), 256, 256, 512, 4, num_warps=8
        ),
        ["tma", "warp-specialized", "persistent"],
    )
    case(
        "matmul_specialized_s2_f32",
        lambda: matmul_specialized[(2,)](
            *operands(256, 256, 256, (64, 64, 64), c_type="float32"), 256, 256, 256, 2
        ),
        ["tma", "warp-specialized", "persistent"],
    )
    case(
        "matmul_specialized_fp8",
        lambda: matmul_specialized[(2,)](
            *operands(256, 256, 512, (64, 128, 128), "float8_e4m3fn"), 256, 256, 512, 3
        ),
        ["tma", "warp-specialized", "fp8"],
    )
    case(
        "matmul_two_consumers",
        lambda: matmul_two_consumers[(2, 2)](*operands(256, 256, 256, (64, 128, 64)), 256, 3),
        ["tma", "warp-specialized"],
    )
    case(
        "add_specialized_s2",
        lambda: add_specialized[(4,)](tile, tile, tile, 256, 2, rows),
        ["tma", "warp-specialized"],
    )
    case(
        "add_specialized_s4",
        lambda: add_specialized[(4,)](tile, tile, tile, 256, 4, rows),
        ["tma", "warp-specialized"],
    )
    whole = ["tma", "warp-specialized", "whole warpgroups"]
    case(
        "matmul_specialized_loader4",
        lambda: matmul_specialized[(2,)](*operands(256, 256, 256, (64, 128, 64)), 256, 256, 256, 3, 4),
        whole,
    )
    case(
        "matmul_specialized_loader4_bf16",
        lambda: matmul_specialized[(2,)](
            *operands(256, 256, 512, (64, 256, 64), "bfloat16", "bfloat16"), 256, 256, 512, 3, 4
        ),
        whole,
    )
    case(
        "matmul_two_consumers_loader4",
        lambda: matmul_two_consumers[(2, 2)](*operands(256, 256, 256, (64, 128, 64)), 256, 3, 4),
        whole,
    )
    case("add_specialized_w4", lambda: add_specialized[(4,)](tile, tile, tile, 256, 3, rows, 4), whole)
    case(
        "reduce_into",
        lambda: reduce_into[(4,)](
            desc((256, 256), [64, 64], "float32"), desc((64, 256), [64, 64], "float32"), 4, rows
        ),
        ["tma", "reduce"],
    )
    case("attention_d64", lambda: call_attention(), ["tma", "attention"])
    case("attention_d128_s2", lambda: call_attention(dim=128, stages=2), ["tma", "attention"])


def main(out: Path, tiny: bool) -> None:
    emitter = Emitter(out, f"gluon {triton.__version__}")
    tracer = Tracer(emitter)
    tracer.install()
    cases(tracer, tiny)
    emitter.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--tiny" in sys.argv)
