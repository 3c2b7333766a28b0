"""Gluon kernels that go through rows: copies by TMA and cp.async, rings, reductions, partitions."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.ampere import mbarrier as ampere_mbarrier
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
)


@gluon.jit
def copy_tile(src, dst):
    m = gl.program_id(0) * src.block_shape[0]
    n = gl.program_id(1) * src.block_shape[1]
    tile = gl.allocate_shared_memory(src.dtype, src.block_shape, src.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, src.block_type.nbytes)
    tma.async_load(src, [m, n], bar, tile)
    mbarrier.wait(bar, phase=0)
    mbarrier.invalidate(bar)
    tma.async_store(dst, [m, n], tile)
    tma.store_wait(pendings=0)


@gluon.jit
def scale_rows(src, dst, cols, STAGES: gl.constexpr, layout: gl.constexpr):
    BN: gl.constexpr = src.block_shape[1]
    m = gl.program_id(0) * src.block_shape[0]
    ring = gl.allocate_shared_memory(src.dtype, [STAGES] + src.block_shape, src.layout)
    out = gl.allocate_shared_memory(dst.dtype, dst.block_shape, dst.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    for s in gl.static_range(STAGES):
        mbarrier.init(full.index(s), count=1)
    tiles = gl.cdiv(cols, BN)
    for s in gl.static_range(STAGES - 1):
        mbarrier.expect(full.index(s), src.block_type.nbytes, pred=s < tiles)
        tma.async_load(src, [m, s * BN], full.index(s), ring.index(s), pred=s < tiles)
    for i in range(tiles):
        ahead = i + STAGES - 1
        slot = ahead % STAGES
        mbarrier.expect(full.index(slot), src.block_type.nbytes, pred=ahead < tiles)
        tma.async_load(src, [m, ahead * BN], full.index(slot), ring.index(slot), pred=ahead < tiles)
        mbarrier.wait(full.index(i % STAGES), (i // STAGES) & 1)
        value = ring.index(i % STAGES).load(layout)
        tma.store_wait(pendings=0)
        out.store(value * 2)
        fence_async_shared()
        tma.async_store(dst, [m, i * BN], out)
    tma.store_wait(pendings=0)
    for s in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(s))


@gluon.jit
def cp_async_rows(
    src,
    dst,
    cols,
    BM: gl.constexpr,
    BN: gl.constexpr,
    STAGES: gl.constexpr,
    layout: gl.constexpr,
    shared: gl.constexpr,
):
    rm = gl.program_id(0) * BM + gl.arange(0, BM, gl.SliceLayout(1, layout))
    rn = gl.arange(0, BN, gl.SliceLayout(0, layout))
    ring = gl.allocate_shared_memory(gl.float32, [STAGES, BM, BN], shared)
    where = rm[:, None] * cols + rn[None, :]
    tiles = gl.cdiv(cols, BN)
    for s in gl.static_range(STAGES - 1):
        async_copy.async_load(ring.index(s), src + where + s * BN, mask=(s * BN + rn < cols)[None, :])
        async_copy.commit_group()
    for i in range(tiles):
        ahead = i + STAGES - 1
        async_copy.async_load(
            ring.index(ahead % STAGES), src + where + ahead * BN, mask=(ahead * BN + rn < cols)[None, :]
        )
        async_copy.commit_group()
        async_copy.wait_group(STAGES - 1)
        gl.store(
            dst + where + i * BN,
            ring.index(i % STAGES).load(layout) + 1.0,
            mask=(i * BN + rn < cols)[None, :],
        )
    async_copy.wait_group(0)


@gluon.jit
def cp_async_mbarrier(
    src, dst, cols, BM: gl.constexpr, BN: gl.constexpr, layout: gl.constexpr, shared: gl.constexpr
):
    rm = gl.program_id(0) * BM + gl.arange(0, BM, gl.SliceLayout(1, layout))
    rn = gl.arange(0, BN, gl.SliceLayout(0, layout))
    tile = gl.allocate_shared_memory(gl.float32, [BM, BN], shared)
    bar = ampere_mbarrier.allocate_mbarrier()
    ampere_mbarrier.init(bar, count=gl.num_warps() * 32)
    where = rm[:, None] * cols + rn[None, :]
    phase = 0
    for start in range(0, cols, BN):
        async_copy.async_load(tile, src + where + start)
        async_copy.mbarrier_arrive(bar, increment_count=False)
        ampere_mbarrier.wait(bar, phase)
        phase ^= 1
        gl.store(dst + where + start, tile.load(layout) * 3.0)
    ampere_mbarrier.invalidate(bar)


@gluon.jit
def add_loader(x, y, m, cols, sx, sy, full, empty, STAGES: gl.constexpr, BN: gl.constexpr):
    for i in range(gl.cdiv(cols, BN)):
        slot = i % STAGES
        mbarrier.wait(empty.index(slot), ((i // STAGES) & 1) ^ 1)
        mbarrier.expect(full.index(slot), x.block_type.nbytes + y.block_type.nbytes)
        tma.async_load(x, [m, i * BN], full.index(slot), sx.index(slot))
        tma.async_load(y, [m, i * BN], full.index(slot), sy.index(slot))


@gluon.jit
def adder(
    cols, sx, sy, so, full, empty, ready, free, STAGES: gl.constexpr, BN: gl.constexpr, layout: gl.constexpr
):
    for i in range(gl.cdiv(cols, BN)):
        slot = i % STAGES
        mbarrier.wait(full.index(slot), (i // STAGES) & 1)
        total = sx.index(slot).load(layout) + sy.index(slot).load(layout)
        mbarrier.arrive(empty.index(slot), count=1)
        mbarrier.wait(free.index(i % 2), ((i // 2) & 1) ^ 1)
        so.index(i % 2).store(total)
        fence_async_shared()
        mbarrier.arrive(ready.index(i % 2), count=1)


@gluon.jit
def add_storer(z, m, cols, so, ready, free, BN: gl.constexpr):
    for i in range(gl.cdiv(cols, BN)):
        mbarrier.wait(ready.index(i % 2), (i // 2) & 1)
        tma.async_store(z, [m, i * BN], so.index(i % 2))
        tma.store_wait(pendings=0)
        mbarrier.arrive(free.index(i % 2), count=1)


@gluon.jit
def add_specialized(x, y, z, cols, STAGES: gl.constexpr, layout: gl.constexpr, WARPS: gl.constexpr = 1):
    BN: gl.constexpr = x.block_shape[1]
    m = gl.program_id(0) * x.block_shape[0]
    sx = gl.allocate_shared_memory(x.dtype, [STAGES] + x.block_shape, x.layout)
    sy = gl.allocate_shared_memory(y.dtype, [STAGES] + y.block_shape, y.layout)
    so = gl.allocate_shared_memory(z.dtype, [2] + z.block_shape, z.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    ready = mbarrier.allocate_mbarrier(batch=2)
    free = mbarrier.allocate_mbarrier(batch=2)
    for s in gl.static_range(STAGES):
        mbarrier.init(full.index(s), count=1)
        mbarrier.init(empty.index(s), count=1)
    for s in gl.static_range(2):
        mbarrier.init(ready.index(s), count=1)
        mbarrier.init(free.index(s), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (adder, (cols, sx, sy, so, full, empty, ready, free, STAGES, BN, layout)),
            (add_loader, (x, y, m, cols, sx, sy, full, empty, STAGES, BN)),
            (add_storer, (z, m, cols, so, ready, free, BN)),
        ],
        [WARPS, WARPS],
        [24, 24],
    )


@gluon.jit
def reduce_into(src, dst, count, layout: gl.constexpr):
    BN: gl.constexpr = src.block_shape[1]
    n = gl.program_id(0) * BN
    tile = gl.allocate_shared_memory(src.dtype, src.block_shape, src.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    for i in range(count):
        mbarrier.expect(bar, src.block_type.nbytes)
        tma.async_load(src, [i * src.block_shape[0], n], bar, tile)
        mbarrier.wait(bar, i & 1)
        tma.async_atomic_add(dst, [0, n], tile)
        tma.store_wait(pendings=0)
    mbarrier.invalidate(bar)
