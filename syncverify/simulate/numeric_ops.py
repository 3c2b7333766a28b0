"""What each statement does to arrays, shared memory and counters when a kernel is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr
from syncverify.simulate.code import compiled, uniform
from syncverify.simulate.device import Count, Cta, Place
from syncverify.simulate.meetings import COMPARE
from syncverify.simulate.values import DTYPES, Array, combine, value, widen
from syncverify.source import InputError

if TYPE_CHECKING:
    from syncverify.simulate.numeric import Agent, _Launch

Handler = Callable[["_Launch", "Agent", Any], None]
HANDLERS: dict[type[n.Stmt], Handler] = {}
WARPGROUP = 128
#: Bytes of a row of each swizzle pattern; 0: rows of any length.
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


def handles(*kinds: type[n.Stmt]) -> Callable[[Handler], Handler]:
    def add(h: Handler) -> Handler:
        for k in kinds:
            HANDLERS[k] = h
        return h

    return add


def num(run: _Launch, a: Agent, e: Expr | None, default: int = 0) -> int:
    """A number on which the agent's threads agree; else the agent parts."""
    return default if e is None else run.agreed(compiled(e)(a.env))


def cta_of(run: _Launch, a: Agent, rank: Expr | None) -> Cta:
    if rank is None:
        return a.cta
    ctas = run.clusters[id(a.cta)]
    r = num(run, a, rank)
    if not 0 <= r < len(ctas):
        raise InputError(f"rank {r} is not in the cluster", run.stmt(a).span)
    return ctas[r]


def bar_of(run: _Launch, a: Agent, b: n.BarrierRef, cta: Cta | None = None) -> tuple[int, Count]:
    index = num(run, a, b.index)
    bars = (cta or cta_of(run, a, b.rank)).bars
    if (b.name, index) not in bars:
        raise InputError(f"{b.name}[{index}] does not exist", run.code[a.pc].stmt.span)  # type: ignore[union-attr]
    return index, bars[b.name, index]


def warps_of(a: Agent) -> Array:
    return np.unique(a.tids // 32)


def ready(run: _Launch, a: Agent) -> bool:
    """Whether what an agent waits for has happened."""
    match a.waits:
        case ("mbarrier", _, _, count, parity):
            return bool(count.phase % 2 != parity)
        case ("token", _, _, count, phase):
            return bool(count.phase > phase)
        case ("rounds", counter, goal):
            return bool(counter[1] >= goal)
        case ("mma", cta, groups, goal):
            return all(len(cta.mma.get(g, ())) >= goal and cta.mma[g][goal - 1] >= WARPGROUP for g in groups)
        case ("spin", place, compare, wanted):
            return bool(COMPARE[compare](int(place.view[place.where].reshape(-1)[0]), wanted))
    return True


# ---------------------------------------------------------------- memory and values


def register(a: Agent, name: str, x: Any) -> None:
    a.values[name] = np.atleast_2d(np.asarray(x))


def evaluated(run: _Launch, a: Agent, e: Expr) -> Any:
    return value(e, a.values, a.env, run.code[a.pc].stmt.span)  # type: ignore[union-attr]


@handles(n.LdShared)
def ld_shared(run: _Launch, a: Agent, s: n.LdShared) -> None:
    place = run.memory.region(s.src, cta_of(run, a, s.src.rank), a.env, s.span)
    register(a, s.name, widen(place.read(a.lanes)).copy())


@handles(n.StShared)
def st_shared(run: _Launch, a: Agent, s: n.StShared) -> None:
    place = run.memory.region(s.dst, cta_of(run, a, s.dst.rank), a.env, s.span)
    store(place, evaluated(run, a, s.value), a, s)


def store(place: Place, x: Any, a: Agent, s: n.Stmt) -> None:
    try:
        place.write(np.asarray(x).astype(place.view.dtype), a.lanes)
    except InputError as err:
        raise InputError(err.message, s.span) from err


@handles(n.LdGlobal)
def ld_global(run: _Launch, a: Agent, s: n.LdGlobal) -> None:
    register(a, s.name, widen(run.memory.window(s.src, a.env, s.span).read(a.lanes)).copy())


@handles(n.StGlobal)
def st_global(run: _Launch, a: Agent, s: n.StGlobal) -> None:
    store(run.memory.window(s.dst, a.env, s.span), evaluated(run, a, s.value), a, s)


@handles(n.AtomShared, n.AtomGlobal)
def atom(run: _Launch, a: Agent, s: n.AtomShared | n.AtomGlobal) -> None:
    """Lane by lane, so that lanes on one word follow each other."""
    if isinstance(s, n.AtomShared):
        place = run.memory.region(s.dst, cta_of(run, a, s.dst.rank), a.env, s.span)
    else:
        place = run.memory.window(s.dst, a.env, s.span)
    x = np.asarray(evaluated(run, a, s.value)).astype(place.view.dtype)
    old = reduce_into(place, x, s.op, a.lanes)
    if s.name is not None:
        register(a, s.name, widen(old))


def reduce_into(place: Place, x: Array, op: str, lanes: int) -> Array:
    at = np.arange(place.view.size)[place.where]
    at = np.broadcast_to(
        at.reshape(1 if place.shared else lanes, -1), (lanes, at.size // (1 if place.shared else lanes))
    )
    x = np.broadcast_to(x, at.shape)
    old = np.empty(at.shape, place.view.dtype)
    if np.unique(at).size == at.size:
        old[:] = place.view[at]
        place.view[at] = combine(op, old, x)
        return old
    for i in range(lanes):
        old[i] = place.view[at[i]]
        place.view[at[i]] = combine(op, old[i], x[i])
    return old


@handles(n.Multimem)
def multimem(run: _Launch, a: Agent, s: n.Multimem) -> None:
    """One device: the multicast address has one copy."""
    place = run.memory.window(s.target, a.env, s.span)
    if s.kind == "ld_reduce" and s.name is not None:
        register(a, s.name, widen(place.read(a.lanes)).copy())
    elif s.value is not None:
        x = np.asarray(evaluated(run, a, s.value)).astype(place.view.dtype)
        if s.kind == "st":
            store(place, x, a, s)
        else:
            reduce_into(place, x, s.op, a.lanes)


@handles(n.Compute)
def compute(run: _Launch, a: Agent, s: n.Compute) -> None:
    register(a, s.name, evaluated(run, a, s.value))


@handles(n.Shuffle)
def shuffle(run: _Launch, a: Agent, s: n.Shuffle) -> None:
    if any(int((a.tids // 32 == w).sum()) != needed_lanes(run, int(w), 0xFFFFFFFF) for w in warps_of(a)):
        raise InputError("a shuffle by some lanes of a warp", s.span)
    x = np.atleast_2d(np.asarray(evaluated(run, a, s.value)))
    x = np.broadcast_to(x, (a.lanes, x.shape[1]))
    lane = compiled(s.lane)(a.env)
    source = a.tids ^ lane if s.mode == "bfly" else a.tids // 32 * 32 + lane
    register(a, s.name, x[np.searchsorted(a.tids, source)])


@handles(n.LoadIndex)
def load_index(run: _Launch, a: Agent, s: n.LoadIndex) -> None:
    x = run.memory.window(s.source, a.env, s.span).read(a.lanes).astype(np.int64)
    a.env[s.name] = uniform(np.broadcast_to(x[:, 0], (a.lanes,)))


@handles(n.SpinGlobal)
def spin(run: _Launch, a: Agent, s: n.SpinGlobal) -> None:
    wanted = num(run, a, s.value)
    run.agreed(compiled(s.src.start)(a.env))
    a.waits = ("spin", run.memory.window(s.src, a.env, s.span), s.cmp, wanted)


# ---------------------------------------------------------------- barriers


@handles(n.BarrierSync, n.BarrierArrive)
def named(run: _Launch, a: Agent, s: n.BarrierSync | n.BarrierArrive) -> None:
    ident = num(run, a, s.id)
    threads = num(run, a, s.count) or run.kernel.launch.threads
    meet(a, ident, a.lanes, threads, isinstance(s, n.BarrierSync))


def meet(a: Agent, ident: int, lanes: int, needed: int, blocks: bool, kind: int = 0) -> None:
    """Adds arrivals to a barrier of the block; its round ends with the last one."""
    counter = a.cta.named.setdefault((kind, ident), [0, 0])
    goal = counter[1] + 1
    counter[0] += lanes
    if counter[0] >= needed:
        counter[0] -= needed
        counter[1] += 1
    if blocks:
        a.waits = ("rounds", counter, goal)


@handles(n.WarpSync)
def warp_sync(run: _Launch, a: Agent, s: n.WarpSync) -> None:
    mask = num(run, a, s.mask) & 0xFFFFFFFF if s.mask is not None else 0xFFFFFFFF
    warps = warps_of(a)
    if len(warps) > 1:
        counts = [int((a.tids // 32 == w).sum()) for w in warps]
        if all(c == needed_lanes(run, int(w), mask) for c, w in zip(counts, warps, strict=True)):
            return  # whole warps, at one place already
        run.agreed(a.tids // 32)
    w = int(warps[0])
    meet(a, w << 32 | mask, a.lanes, needed_lanes(run, w, mask), True, 1)


def needed_lanes(run: _Launch, warp: int, mask: int) -> int:
    live = min(32, run.kernel.launch.threads - warp * 32)
    return (mask & ((1 << live) - 1)).bit_count()


@handles(n.ClusterArrive)
def cluster_arrive(run: _Launch, a: Agent, s: n.ClusterArrive) -> None:
    ctas = run.clusters[id(a.cta)]
    counter = run.cluster_round[id(ctas)]
    a.env["%round"] = counter[1] + 1
    counter[0] += a.lanes
    settle_cluster(ctas, counter)


def settle_cluster(ctas: list[Cta], counter: list[int]) -> None:
    """All live threads of the cluster have arrived (PTX ISA, barrier.cluster)."""
    if counter[0] >= sum(c.live for c in ctas):
        counter[0] = 0
        counter[1] += 1


@handles(n.ClusterWait)
def cluster_wait(run: _Launch, a: Agent, s: n.ClusterWait) -> None:
    ctas = run.clusters[id(a.cta)]
    a.waits = ("rounds", run.cluster_round[id(ctas)], int(run.agreed(a.env.get("%round", 1))))


@handles(n.Elect)
def elect(run: _Launch, a: Agent, s: n.Elect) -> None:
    """The first lane of each warp."""
    a.env[s.name] = uniform((a.tids % 32 == 0).astype(np.int64))


@handles(
    n.SetMaxNReg,
    n.GridDepWait,
    n.GridDepLaunch,
    n.Fence,
    n.FenceMbarrierInit,
    n.FenceProxyAsync,
    n.FenceProxyTensormap,
    n.TensormapCpFence,
    n.BulkPrefetch,
    n.TmaPrefetch,
    n.BulkCommit,
    n.BulkWait,
    n.CpAsyncCommit,
    n.CpAsyncWait,
    n.WgmmaFence,
    n.WgmmaCommit,
)
def nothing(run: _Launch, a: Agent, s: n.Stmt) -> None:
    """No effect on values here: copies land at once, and every agent sees every write."""


@handles(n.TensormapReplace)
def replace(run: _Launch, a: Agent, s: n.TensormapReplace) -> None:
    raise InputError("editing a tensor map is not run on arrays", s.span)


# ---------------------------------------------------------------- mbarriers


@handles(n.MbarrierInit)
def init(run: _Launch, a: Agent, s: n.MbarrierInit) -> None:
    _, bar = bar_of(run, a, s.bar)
    count = num(run, a, s.count)
    bar.phase, bar.pending, bar.expected, bar.tx, bar.alive = 0, count, count, 0, True


@handles(n.MbarrierInval)
def inval(run: _Launch, a: Agent, s: n.MbarrierInval) -> None:
    bar_of(run, a, s.bar)[1].alive = False


@handles(n.MbarrierArrive)
def arrive(run: _Launch, a: Agent, s: n.MbarrierArrive) -> None:
    _, bar = bar_of(run, a, s.bar)
    expect, count = num(run, a, s.expect), num(run, a, s.count, 1)
    if s.token is not None:
        a.env[s.token] = bar.phase
    if bar.pending > count * a.lanes and not s.drop:
        bar.tx += expect * a.lanes
        bar.pending -= count * a.lanes
        return
    for _ in range(a.lanes):
        bar.tx += expect
        bar.pending -= count
        if s.drop:
            bar.expected -= count
        bar.settle()


@handles(n.MbarrierExpectTx)
def expect_tx(run: _Launch, a: Agent, s: n.MbarrierExpectTx) -> None:
    _, bar = bar_of(run, a, s.bar)
    bar.tx += num(run, a, s.bytes) * a.lanes


@handles(n.MbarrierCompleteTx)
def complete_tx(run: _Launch, a: Agent, s: n.MbarrierCompleteTx) -> None:
    _, bar = bar_of(run, a, s.bar)
    bar.tx -= num(run, a, s.bytes) * a.lanes
    bar.settle()


@handles(n.MbarrierWait)
def wait(run: _Launch, a: Agent, s: n.MbarrierWait) -> None:
    index, bar = bar_of(run, a, s.bar)
    phase = num(run, a, s.phase)
    a.waits = ("token" if s.token else "mbarrier", s.bar.name, index, bar, phase)


@handles(n.MbarrierTest)
def test(run: _Launch, a: Agent, s: n.MbarrierTest) -> None:
    _, bar = bar_of(run, a, s.bar)
    phase = num(run, a, s.phase)
    a.env[s.name] = int(bar.phase > phase if s.token else bar.phase % 2 != phase)


# ---------------------------------------------------------------- copies


def land(bar: Count, size: int) -> None:
    bar.tx -= size
    bar.settle()


def targets(run: _Launch, a: Agent, multicast: Expr | None, rank: Expr | None) -> list[Cta]:
    if multicast is None:
        return [cta_of(run, a, rank)]
    mask = num(run, a, multicast)
    return [c for c in run.clusters[id(a.cta)] if mask >> c.rank & 1]


@handles(n.BulkLoad)
def bulk_load(run: _Launch, a: Agent, s: n.BulkLoad) -> None:
    num(run, a, s.bar.index)
    ctas = targets(run, a, s.multicast, s.dst.rank)
    data = run.memory.window(s.src, a.env, s.span).read(a.lanes)
    for cta in ctas:
        place = run.memory.region(s.dst, cta, a.env, s.span)
        store(place, data, a, s)
        bar = bar_of(run, a, s.bar, cta if s.multicast is not None else None)[1]
        land(bar, data.shape[1] * data.dtype.itemsize * a.lanes)


@handles(n.BulkStore)
def bulk_store(run: _Launch, a: Agent, s: n.BulkStore) -> None:
    data = run.memory.region(s.src, a.cta, a.env, s.span).read(a.lanes)
    place = run.memory.window(s.dst, a.env, s.span)
    if s.reduce is None:
        store(place, data, a, s)
    else:
        reduce_into(place, data.astype(place.view.dtype), s.reduce, a.lanes)


@handles(n.BulkCopy)
def bulk_copy(run: _Launch, a: Agent, s: n.BulkCopy) -> None:
    _, bar = bar_of(run, a, s.bar)
    data = run.memory.region(s.src, a.cta, a.env, s.span).read(a.lanes)
    store(run.memory.region(s.dst, cta_of(run, a, s.dst.rank), a.env, s.span), data, a, s)
    land(bar, data.shape[1] * data.dtype.itemsize * a.lanes)


def coordinates(run: _Launch, a: Agent, coords: tuple[Expr, ...]) -> list[int]:
    return [num(run, a, c) for c in coords]


@handles(n.TmaLoad)
def tma_load(run: _Launch, a: Agent, s: n.TmaLoad) -> None:
    """The box at the coordinates; what lies outside the tensor arrives as zeros (PTX ISA, tensor copies)."""
    coords = coordinates(run, a, s.coords)
    num(run, a, s.bar.index)
    ctas = targets(run, a, s.multicast, s.dst.rank)
    tensor, outer, inner, shape = run.memory.box(s.map, coords)
    box = np.zeros(shape, tensor.dtype)
    box[inner] = tensor[outer]
    for cta in ctas:
        store(run.memory.region(s.dst, cta, a.env, s.span), box.reshape(1, -1), a, s)
        bar = bar_of(run, a, s.bar, cta if s.multicast is not None else None)[1]
        land(bar, box.nbytes * a.lanes)


@handles(n.TmaStore)
def tma_store(run: _Launch, a: Agent, s: n.TmaStore) -> None:
    """What lies outside the tensor is dropped."""
    tensor, outer, inner, shape = run.memory.box(s.map, coordinates(run, a, s.coords))
    place = run.memory.region(s.src, a.cta, a.env, s.span)
    box = place.read(a.lanes)[-1]
    if box.size != int(np.prod(shape)):
        raise InputError(f"{s.map}'s box has {int(np.prod(shape))} elements, the region {box.size}", s.span)
    part = box.reshape(shape)[inner]
    tensor[outer] = part if s.reduce is None else combine(s.reduce, tensor[outer], part)


@handles(n.CpAsync)
def cp_async(run: _Launch, a: Agent, s: n.CpAsync) -> None:
    data = run.memory.window(s.src, a.env, s.span).read(a.lanes)
    store(run.memory.region(s.dst, a.cta, a.env, s.span), data, a, s)


@handles(n.CpAsyncMbarrierArrive)
def cp_arrive(run: _Launch, a: Agent, s: n.CpAsyncMbarrierArrive) -> None:
    """Without .noinc the pending count goes up by one and down again (PTX ISA, cp.async.mbarrier.arrive)."""
    _, bar = bar_of(run, a, s.bar)
    for _ in range(a.lanes if s.noinc else 0):
        bar.pending -= 1
        bar.settle()


@handles(n.StAsync)
def st_async(run: _Launch, a: Agent, s: n.StAsync) -> None:
    _, bar = bar_of(run, a, s.bar)
    place = run.memory.region(s.dst, cta_of(run, a, s.dst.rank), a.env, s.span)
    x = np.asarray(evaluated(run, a, s.value)).astype(place.view.dtype)
    if s.reduce is None:
        store(place, x, a, s)
    else:
        reduce_into(place, x, s.reduce, a.lanes)
    each = place.view[place.where].size // (1 if place.shared else a.lanes)
    land(bar, each * place.view.dtype.itemsize * a.lanes)


# ---------------------------------------------------------------- tensor core


def fragment(run: _Launch, cta: Cta, group: int, name: str) -> Array:
    key = (group, name)
    if key not in cta.fragments:
        f = run.fragments[name]
        dtype = DTYPES[f.dtype]
        cta.fragments[key] = np.zeros(f.shape, np.float32 if dtype.kind != "i" else dtype)
    return cta.fragments[key]


@handles(n.Wgmma)
def wgmma(run: _Launch, a: Agent, s: n.Wgmma) -> None:
    """Happens when the last of the warpgroup's threads issues it."""
    run.agreed(a.tids // WARPGROUP)
    group = int(a.tids[0] // WARPGROUP)
    keep = num(run, a, s.accumulate)
    seen = a.cta.mma.setdefault(group, [])
    at = int(run.agreed(a.env.get("%mma", 0)))
    a.env["%mma"] = at + 1
    if len(seen) <= at:
        seen.append(0)
    seen[at] += a.lanes
    if seen[at] < WARPGROUP:
        return
    acc = fragment(run, a.cta, group, s.acc)
    m, cols = acc.shape
    if isinstance(s.a, str):
        left = fragment(run, a.cta, group, s.a)
    else:
        left = _operand(run, a, s.a, m, s.a_t, s)
    right = _operand(run, a, s.b, cols, not s.b_t, s)
    if left.shape != (m, right.shape[1]):
        raise InputError(f"wgmma: {left.shape} by {right.T.shape} does not give {acc.shape}", s.span)
    product = left.astype(acc.dtype) @ right.T.astype(acc.dtype)
    acc[...] = acc + product if keep else product


def _operand(run: _Launch, a: Agent, r: n.Region, rows: int, along: bool, s: n.Wgmma) -> Array:
    """An operand in shared memory, ``rows`` along M or N by K. ``along``: its memory runs along M or N."""
    found = widen(run.memory.region(r, a.cta, a.env, s.span).read(a.lanes)[-1])
    if found.size % rows:
        raise InputError(f"wgmma: {found.size} elements of {r.buffer} are no {rows} rows", s.span)
    if not along:
        return found.reshape(rows, -1)
    buffer = run.shared[r.buffer]
    width = min(rows, SPANS[buffer.swizzle] // n.DTYPE_BYTES[buffer.dtype] or rows)
    panels = found.reshape(rows // width, -1, width)
    return panels.transpose(0, 2, 1).reshape(rows, -1)


@handles(n.WgmmaWait)
def wgmma_wait(run: _Launch, a: Agent, s: n.WgmmaWait) -> None:
    goal = int(run.agreed(a.env.get("%mma", 0)))
    if goal:
        a.waits = ("mma", a.cta, [int(g) for g in np.unique(a.tids // WARPGROUP)], goal)


def shares(run: _Launch, a: Agent, name: str) -> tuple[Array, Array]:
    """A fragment of the agent's warpgroup, and which of its elements each thread holds."""
    run.agreed(a.tids // WARPGROUP)
    f = fragment(run, a.cta, int(a.tids[0] // WARPGROUP), name)
    rows, columns = f.shape
    i, lane, warp = np.arange(f.size // WARPGROUP), a.tids[:, None] % 32, a.tids[:, None] % WARPGROUP // 32
    if rows % 64 or columns % 8:  # no shape of wgmma: any layout will do
        return f.reshape(-1), (a.tids % WARPGROUP)[:, None] * i.size + i
    # PTX ISA, wgmma: Register Fragments; the same for D and for 16-bit A
    block, i = i // (columns // 2), i % (columns // 2)
    row = 64 * block + 16 * warp + lane // 4 + i // 2 % 2 * 8
    return f.reshape(-1), row * columns + i // 4 * 8 + lane % 4 * 2 + i % 2


@handles(n.FragRead)
def frag_read(run: _Launch, a: Agent, s: n.FragRead) -> None:
    f, at = shares(run, a, s.frag)
    start, count = num(run, a, s.start), num(run, a, s.count, at.shape[1])
    if not 0 <= start <= start + count <= at.shape[1]:
        raise InputError(f"elements {start}..{start + count - 1} of a share of {at.shape[1]}", s.span)
    register(a, s.name, f[at[:, start : start + count]])


@handles(n.FragWrite)
def frag_write(run: _Launch, a: Agent, s: n.FragWrite) -> None:
    f, at = shares(run, a, s.frag)
    f[at] = np.broadcast_to(np.asarray(evaluated(run, a, s.value)), at.shape)


def warp_part(a: Agent, size: int) -> Array:
    """Which elements of a region belong to each lane, for the warp-collective copies.

    16 rows of eights of elements are four or more matrices of 8 x 8 (PTX ISA, stmatrix), in the order of a
    fragment; a smaller region is cut into equal parts.
    """
    lane, i = a.tids[:, None] % 32, np.arange(size // 32)
    row = lane // 4 + i // 2 % 2 * 8
    found: Array = row * (size // 16) + i // 4 * 8 + lane % 4 * 2 + i % 2
    return lane * i.size + i if size % 128 else found


@handles(n.LdMatrix)
def ldmatrix(run: _Launch, a: Agent, s: n.LdMatrix) -> None:
    run.agreed(a.tids // 32)
    place = run.memory.region(s.src, a.cta, a.env, s.span)
    rows = widen(place.read(a.lanes))
    mine = rows[0][warp_part(a, rows.shape[1])] if place.shared else rows
    if s.name in run.fragments:
        f, at = shares(run, a, s.name)
        f[at] = np.broadcast_to(mine, at.shape)
    else:
        register(a, s.name, mine.copy())


@handles(n.StMatrix)
def stmatrix(run: _Launch, a: Agent, s: n.StMatrix) -> None:
    run.agreed(a.tids // 32)
    place = run.memory.region(s.dst, a.cta, a.env, s.span)
    x = np.asarray(evaluated(run, a, s.value)).astype(place.view.dtype)
    if not place.shared:
        store(place, x, a, s)
        return
    flat = np.arange(place.view.size)[place.where].reshape(-1)
    at = flat[warp_part(a, flat.size)]
    place.view[at] = np.broadcast_to(x, at.shape)
