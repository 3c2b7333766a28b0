"""Kernels without any synchronization, each for what the passes have to find in it."""

from __future__ import annotations

from syncverify.ir.builder.kernel_builder import KernelBuilder, block, grid, lane, rank, tid, warp
from syncverify.ir.expr import Call, Var
from syncverify.ir.nodes import Kernel


def chained() -> Kernel:
    """Two chained async roles: copies in, threads convert in shared memory, a third role copies out."""
    k = KernelBuilder("chained", grid=2, block=192)
    n = k.param("N", "i32", default=7)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [2 * n * 512], "in")
    out = k.tensor("out", "bf16", [2 * n * 512], "out")
    raw, cooked = k.shared("raw", "f32", [3, 512]), k.shared("cooked", "bf16", [2, 512])
    full = k.mbarrier("full")
    with k.for_("i", 0, n) as i:
        with k.role("load", warps=(4, 5)):
            k.bulk_load(raw[i % 3], a[(block * n + i) * 512 : 512], full)
        with k.role("convert", warps=(0, 4)):
            x = k.ld_shared(raw[i % 3][tid * 4 : 4], "x")
            k.st_shared(cooked[i % 2][tid * 4 : 4], x * 0.5)
        with k.role("store", warps=(5, 6)):
            k.bulk_store(out[(block * n + i) * 512 : 512], cooked[i % 2])
    return k.build()


def three_depths() -> Kernel:
    """Three async roles whose rings have different depths: two loaders and a role that stores."""
    k = KernelBuilder("three_depths", grid=2, block=224)
    n = k.param("N", "i32", default=9)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [2 * n * 512], "in")
    b = k.tensor("b", "bf16", [2 * n * 512], "in")
    out = k.tensor("out", "f32", [2 * n * 512], "out")
    ta, tb = k.shared("ta", "f32", [4, 512]), k.shared("tb", "bf16", [1, 512])
    to = k.shared("to", "f32", [2, 512])
    fa, fb = k.mbarrier("full_a"), k.mbarrier("full_b")
    with k.for_("i", 0, n) as i:
        at = (block * n + i) * 512
        with k.role("load_a", warps=(4, 5)):
            k.bulk_load(ta[i % 4], a[at:512], fa)
        with k.role("load_b", warps=(5, 6)):
            k.bulk_load(tb[i % 1], b[at:512], fb)
        with k.role("add", warps=(0, 4)):
            x = k.ld_shared(ta[i % 4][tid * 4 : 4], "x")
            y = k.ld_shared(tb[i % 1][tid * 4 : 4], "y")
            k.st_shared(to[i % 2][tid * 4 : 4], x + y)
        with k.role("store", warps=(6, 7)):
            k.bulk_store(out[at:512], to[i % 2])
    return k.build()


def batched() -> Kernel:
    """Two loads of one role that the same threads read: one barrier, the bytes added up."""
    k = KernelBuilder("batched", grid=2, block=160)
    n = k.param("N", "i32", default=7)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [2 * n * 256], "in")
    b = k.tensor("b", "f32", [2 * n * 256], "in")
    out = k.tensor("out", "f32", [2 * n * 256], "out")
    ta, tb = k.shared("ta", "f32", [3, 256]), k.shared("tb", "f32", [3, 256])
    fa, fb = k.mbarrier("full_a"), k.mbarrier("full_b")
    with k.for_("i", 0, n) as i:
        at = (block * n + i) * 256
        with k.role("load", warps=(4, 5)):
            k.bulk_load(ta[i % 3], a[at:256], fa)
            k.bulk_load(tb[i % 3], b[at:256], fb)
        with k.role("multiply", warps=(0, 4)):
            x = k.ld_shared(ta[i % 3][tid * 2 : 2], "x")
            y = k.ld_shared(tb[i % 3][tid * 2 : 2], "y")
            k.st_global(out[at + tid * 2 : 2], x * y)
    return k.build()


def staged_store() -> Kernel:
    """One role that writes a tile, two slots in turn, and issues its bulk store itself."""
    k = KernelBuilder("staged_store", grid=2, block=128)
    n = k.param("N", "i32", default=7)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [2 * n * 512], "in")
    out = k.tensor("out", "f32", [2 * n * 512], "out")
    tile = k.shared("tile", "f32", [2, 512])
    with k.for_("i", 0, n) as i:
        x = k.ld_global(a[(block * n + i) * 512 + tid * 4 : 4], "x")
        k.st_shared(tile[i % 2][tid * 4 : 4], x * 2.0)
        with k.role("store", warps=(0, 1)):
            k.bulk_store(out[(block * n + i) * 512 : 512], tile[i % 2])
    return k.build()


def single_slot_store() -> Kernel:
    """The same with one slot: nothing may be pending when it is written again."""
    k = KernelBuilder("single_slot_store", grid=2, block=128)
    n = k.param("N", "i32", default=5)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [2 * n * 512], "in")
    out = k.tensor("out", "f32", [2 * n * 512], "out")
    tile = k.shared("tile", "f32", [512])
    with k.for_("i", 0, n) as i:
        x = k.ld_global(a[(block * n + i) * 512 + tid * 4 : 4], "x")
        k.st_shared(tile[tid * 4 : 4], x * 2.0)
        with k.role("store", warps=(0, 1)):
            k.bulk_store(out[(block * n + i) * 512 : 512], tile)
    return k.build()


def partial_sums(slots: int = 1) -> Kernel:
    """Partial values of each warp through shared memory, in every round of a loop: RAW and WAR barriers."""
    k = KernelBuilder(f"partial_sums{slots}", grid=2, block=160)
    n = k.param("N", "i32", default=6)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [2 * n * 128], "in")
    out = k.tensor("out", "f32", [2 * n * 128], "out")
    part = k.shared("part", "f32", [slots, 4])
    with k.role("compute", warps=(0, 4)), k.for_("i", 0, n) as i:
        x = k.ld_global(a[(block * n + i) * 128 + tid], "x")
        with k.if_(lane.eq(0)):
            k.st_shared(part[i % slots][warp:1], x)
        p, q = (k.ld_shared(part[i % slots][j:1], f"p{j}") for j in (0, 3))
        k.st_global(out[(block * n + i) * 128 + tid], x + p + q)
    return k.build()


def two_slot_partial_sums() -> Kernel:
    """With two slots the barrier for RAW serves WAR as well."""
    return partial_sums(2)


def warp_exchange() -> Kernel:
    """Lanes of a warp exchange values through shared memory of their own."""
    k = KernelBuilder("warp_exchange", grid=1, block=128)
    n = k.param("N", "i32", default=4)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [n * 128], "in")
    out = k.tensor("out", "f32", [n * 128], "out")
    mine = k.shared("mine", "f32", [4, 32])
    with k.for_("i", 0, n) as i:
        x = k.ld_global(a[i * 128 + tid], "x")
        k.st_shared(mine[warp][lane:1], x)
        y = k.ld_shared(mine[warp][31 - lane : 1], "y")
        k.st_global(out[i * 128 + tid], y)
    return k.build()


def cp_async_ring() -> Kernel:
    """cp.async two rounds ahead, three slots, everybody copies and everybody reads: groups."""
    k = KernelBuilder("cp_async_ring", grid=2, block=128)
    n = k.param("N", "i32", default=7)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [2 * n * 512], "in")
    out = k.tensor("out", "f32", [2 * n * 512], "out")
    tile = k.shared("tile", "f32", [3, 512])
    with k.for_("q", 0, 2) as q, k.if_(q < n):
        k.cp_async(tile[q % 3][tid * 4 : 4], a[(block * n + q) * 512 + tid * 4 : 4])
    with k.for_("i", 0, n) as i:
        with k.if_(i + 2 < n):
            k.cp_async(tile[(i + 2) % 3][tid * 4 : 4], a[(block * n + i + 2) * 512 + tid * 4 : 4])
        x = k.ld_shared(tile[i % 3][508 - tid * 4 : 4], "x")
        k.st_global(out[(block * n + i) * 512 + tid * 4 : 4], x + 1.0)
    return k.build()


def cp_async_roles() -> Kernel:
    """cp.async by one role, read by another: mbarriers that the copies arrive on."""
    k = KernelBuilder("cp_async_roles", grid=2, block=256)
    n = k.param("N", "i32", default=7)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [2 * n * 512], "in")
    out = k.tensor("out", "f32", [2 * n * 512], "out")
    tile = k.shared("tile", "f32", [2, 512])
    with k.for_("i", 0, n) as i:
        at = (block * n + i) * 512
        with k.role("load", warps=(4, 8)):
            k.cp_async(tile[i % 2][(tid - 128) * 4 : 4], a[at + (tid - 128) * 4 : 4])
        with k.role("compute", warps=(0, 4)):
            x = k.ld_shared(tile[i % 2][tid * 4 : 4], "x")
            k.st_global(out[at + tid * 4 : 4], x * 2.0)
    return k.build()


def converted_operand() -> Kernel:
    """A synchronous producer feeds wgmma: one role converts quantized weights, another multiplies."""
    k = KernelBuilder("converted_operand", grid=2, block=288)
    n = k.param("K", "i32", default=5)
    k.assume(n >= 1)
    a = k.tensor("a", "bf16", [128, n * 64], "in")
    q = k.tensor("q", "i8", [n * 4096], "in")
    c = k.tensor("c", "f32", [128, 64], "out")
    ma = k.tensormap("A", a, [64, 64], "128B")
    sa = k.shared("sa", "bf16", [2, 64, 64], align=1024, swizzle="128B")
    sq = k.shared("sq", "i8", [2, 4096])
    sb = k.shared("sb", "bf16", [2, 64, 64], align=1024, swizzle="128B")
    raw, full = k.mbarrier("raw"), k.mbarrier("full")
    acc = k.fragment("acc", "f32", [64, 64])
    with k.for_("i", 0, n) as i:
        with k.role("load", warps=(8, 9)):
            k.bulk_load(sq[i % 2], q[i * 4096 : 4096], raw)
            k.tma_load(sa[i % 2], ma[block * 64, i * 64], full)
        with k.role("convert", warps=(4, 8)):
            with k.for_("j", 0, 4, unroll=4) as j:
                x = k.ld_shared(sq[i % 2][(j * 128 + tid % 128) * 8 : 8], "x")
                k.st_shared(sb[i % 2][(j * 128 + tid % 128) * 8 : 8], x * 0.0625)
        with k.role("math", warps=(0, 4)):
            k.wgmma_mma(acc, sa[i % 2], sb[i % 2], i > 0)
    with k.role("math", warps=(0, 4)):
        y = k.frag_read(acc, "y")
        k.st_global(c[block * 4096 + tid * 32 : 32], y)
    return k.build()


def matrix_store() -> Kernel:
    """Warps write a tile with stmatrix, one of them issues its TMA store; two slots in turn."""
    k = KernelBuilder("matrix_store", grid=2, block=128)
    n = k.param("N", "i32", default=5)
    k.assume(n >= 0)
    a = k.tensor("a", "bf16", [2 * n * 4096], "in")
    out = k.tensor("out", "bf16", [2 * n * 64, 64], "out")
    mo = k.tensormap("O", out, [64, 64])
    tile = k.shared("tile", "bf16", [2, 64, 64], align=1024)
    with k.for_("i", 0, n) as i:
        with k.for_("j", 0, 4) as j:
            x = k.ld_global(a[(block * n + i) * 4096 + (j * 128 + tid) * 8 : 8], "x")
            k.stmatrix(tile[i % 2][(j * 128 + tid) * 8 : 8], x)
        with k.role("store", warps=(0, 1)):
            k.tma_store(mo[(block * n + i) * 64, 0], tile[i % 2])
    return k.build()


def two_phases() -> Kernel:
    """One buffer lives until the second is written: they can lie in the same place."""
    k = KernelBuilder("two_phases", grid=2, block=160)
    n = k.param("N", "i32", default=4)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [2 * n * 512], "in")
    out = k.tensor("out", "f32", [2 * n * 512], "out")
    first, second = k.shared("first", "f32", [512]), k.shared("second", "f32", [512])
    full = k.mbarrier("full")
    with k.for_("i", 0, n) as i:
        at = (block * n + i) * 512
        with k.role("load", warps=(4, 5)):
            k.bulk_load(first, a[at:512], full)
        with k.role("compute", warps=(0, 4)):
            x = k.ld_shared(first[tid * 4 : 4], "x")
            y = k.ld_shared(first[508 - tid * 4 : 4], "y")
            k.st_shared(second[tid * 4 : 4], x + y)
            with k.role("store", warps=(0, 1)):
                k.bulk_store(out[at:512], second)
    return k.build()


def cluster_sum() -> Kernel:
    """Four blocks of a cluster push the values of their warps' leaders into the first, round by round."""
    k = KernelBuilder("cluster_sum", grid=4, block=128, cluster=4)
    n = k.param("N", "i32", default=3)
    k.assume(n >= 0)
    a = k.tensor("a", "f32", [4 * n * 128], "in")
    out = k.tensor("out", "f32", [n], "out")
    part = k.shared("part", "f32", [4, 4])
    full = k.mbarrier("full")
    with k.for_("i", 0, n) as i:
        x = k.ld_global(a[(i * 4 + rank) * 128 + tid], "x")
        with k.if_(lane.eq(0)):
            k.st_async(part[rank][warp:1].on(0), x, full.on(0))
        with k.if_(rank.eq(0)):
            p = [k.ld_shared(part[r][2:1], f"p{r}") for r in range(4)]
            with k.if_(tid.eq(0)):
                k.st_global(out[i], p[0] + p[1] + p[2] + p[3])
    return k.build()


def reduced() -> Kernel:
    """Blocks add their squares to one workspace by bulk reductions; the last takes the root of the sum."""
    k = KernelBuilder("reduced", grid=Var("B"), block=128)
    b = k.param("B", "i32", default=3)
    k.assume(b >= 1)
    k.assume(b <= 8)
    a = k.tensor("a", "f32", [b * 256], "in")
    ws = k.tensor("ws", "f32", [256], "inout")
    out = k.tensor("out", "f32", [256], "out")
    part = k.shared("part", "f32", [256])
    x = k.ld_global(a[block * 256 + tid * 2 : 2], "x")
    k.st_shared(part[tid * 2 : 2], x * x)
    with k.role("store", warps=(0, 1)):
        k.bulk_reduce("add", ws[0:256], part)
    with k.if_(block.eq(grid - 1)):
        y = k.ld_global(ws[tid * 2 : 2], "y")
        k.st_global(out[tid * 2 : 2], Call("sqrt", (y,)))
    return k.build()


def multiply_and_stage() -> Kernel:
    """Tiles in a loop around the products: operands by TMA, the epilogue through memory of the operands."""
    k = KernelBuilder("multiply_and_stage", grid=2, block=160)
    tiles = k.param("T", "i32", default=3)
    n = k.param("K", "i32", default=3)
    k.assume(tiles >= 0)
    k.assume(n >= 1)
    a = k.tensor("a", "bf16", [2 * tiles * 64, n * 64], "in")
    b = k.tensor("b", "bf16", [n * 64, 64], "in")
    c = k.tensor("c", "f32", [2 * tiles * 4096], "out")
    ma, mb = k.tensormap("A", a, [64, 64], "128B"), k.tensormap("B", b, [64, 64], "128B")
    sa = k.shared("sa", "bf16", [2, 64, 64], align=1024, swizzle="128B")
    sb = k.shared("sb", "bf16", [2, 64, 64], align=1024, swizzle="128B")
    sc = k.shared("sc", "f32", [4096])
    full_a, full_b = k.mbarrier("full_a"), k.mbarrier("full_b")
    acc = k.fragment("acc", "f32", [64, 64])
    with k.for_("t", 0, tiles) as t:
        tile = t * 2 + block
        with k.for_("i", 0, n) as i:
            with k.role("load", warps=(4, 5)):
                k.tma_load(sa[(t * n + i) % 2], ma[tile * 64, i * 64], full_a)
                k.tma_load(sb[(t * n + i) % 2], mb[i * 64, 0], full_b)
            with k.role("math", warps=(0, 4)):
                k.wgmma_mma(acc, sa[(t * n + i) % 2], sb[(t * n + i) % 2], i > 0)
        with k.role("math", warps=(0, 4)):
            x = k.frag_read(acc, "x")
            k.st_shared(sc[tid * 32 : 32], x)
            with k.role("store", warps=(0, 1)):
                k.bulk_store(c[tile * 4096 : 4096], sc)
    return k.build()
