"""Asynchronous copies, fences and the tensor core, as events of one lane group (docs/model.md B.3 to B.6)."""

from __future__ import annotations

import numpy as np

from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr
from syncverify.simulate.ir.code import compiled
from syncverify.simulate.ir.layout import number
from syncverify.simulate.ir.program import GLOBAL, VIRTUAL, Access, Kind, Op
from syncverify.simulate.ir.regions import Foot, merged, region_foot
from syncverify.simulate.ir.trace import Thread, Tracer, Unsupported, async_op, flags, handles
from syncverify.simulate.ir.trace_ops import LEVELS, access_event

# ---------------------------------------------------------------- asynchronous copies


def aligned16(tr: Tracer, what: str, foot: Foot, to: int = 16) -> None:
    """PTX ISA, cp.async.bulk: 16-byte addresses and sizes; 128 bytes for tensor copies."""
    if any(a % to for a in foot.starts):
        tr.harm("ub", "SV701", f"{what}: the address is not a multiple of {to}")
    if foot.bytes % 16:
        tr.harm("ub", "SV701", f"{what}: {foot.bytes} bytes are not a multiple of 16")


def piece(
    tr: Tracer, t: Thread, kind: Kind, cta: int, foot: Foot, text: str, value: int | None = None
) -> int:
    tr.times_here = t.times[tr.pc]
    return tr.access(kind, cta, foot, text, value=value)


def issue_load(
    tr: Tracer,
    t: Thread,
    dst: n.Region,
    bar: n.BarrierRef,
    multicast: Expr | None,
    text: str,
    map_bit: tuple[int, ...],
    source: tuple[int, ...],
    align: int,
    size: int | None,
) -> None:
    """A copy into the shared memory of one or several CTAs, each completing on its own barrier."""
    p, own = tr.ctx.program, tr.group.cta
    first = own - own % p.cluster_size
    if multicast is not None:
        mask = tr.num(multicast, t)
        targets = [first + r for r in range(16) if mask >> r & 1]
        if any(c >= first + p.cluster_size for c in targets) or not targets:
            tr.harm(
                "ub",
                "SV208",
                f"{text}: the multicast mask {mask:#x} names no CTA, or one outside the cluster",
            )
            targets = [c for c in targets if c < first + p.cluster_size]
    else:
        targets = [tr.cta_of(dst.rank, t)]
    foot = region_foot(dst, tr.ctx.layout.buffers[dst.buffer], t.env, tr.lanes)
    aligned16(tr, text, foot, align)
    if size is not None and size != foot.bytes:
        tr.harm("ub", "SV701", f"{text}: the box has {size} bytes, the region {foot.bytes}")
        foot = Foot(foot.intervals, foot.lanes, size, foot.overlap, foot.starts)
    ref = n.BarrierRef(bar.name, bar.index, None if multicast is not None else bar.rank)
    local = p.bars[tr.bar(ref, t)]
    index = tr.num(bar.index, t) if bar.index is not None else 0
    bits: list[int] = [*map_bit, *source]
    ops: list[int] = []
    for c in targets:
        bit = piece(tr, t, Kind.AW, c, foot, text)
        where = tr.ctx.bar_index[c, bar.name, index] if multicast is not None else tr.bar(ref, t)
        if p.bars[where].cta != c:
            tr.harm("ub", "SV208", f"{text}: {local.name} does not lie in the destination's CTA")
        ops.append(async_op(tr, t, where, foot.bytes * len(tr.lanes), (bit, *map_bit, *source), c, text))
        bits.append(bit)
    tr.emit(Op.ISSUE, text, bits=tuple(bits), asyncs=tuple(ops))
    t.seq += 1


@handles(n.BulkLoad)
def bulk_load(tr: Tracer, s: n.BulkLoad, t: Thread) -> None:
    text = f"bulk.load {s.dst.buffer}"
    need_grid(tr, text)
    size = tr.num(s.src.count, t) * item(tr, s.src.tensor)
    if (compiled(s.src.start)(t.env) * item(tr, s.src.tensor) % 16 != 0) is not False:
        start = compiled(s.src.start)(t.env) * item(tr, s.src.tensor)
        if bool(np.any(start % 16 != 0)):
            tr.harm("ub", "SV701", f"{text}: the global address is not a multiple of 16")
    issue_load(tr, t, s.dst, s.bar, s.multicast, text, (), tr.tracked(Kind.AR, s.src, t, text), 16, size)


@handles(n.TmaLoad)
def tma_load(tr: Tracer, s: n.TmaLoad, t: Thread) -> None:
    text = f"tma.load {s.dst.buffer}"
    need_grid(tr, text)
    issue_load(
        tr,
        t,
        s.dst,
        s.bar,
        s.multicast,
        text,
        map_use(tr, t, s.map, text),
        map_source(tr, t, Kind.AR, s.map, s.coords, text),
        128,
        box_bytes(tr, s.map),
    )


def need_grid(tr: Tracer, text: str) -> None:
    if tr.ctx.needs_grid_wait:
        tr.emit(Op.NEED, text, rule="SV503")


def item(tr: Tracer, tensor: str) -> int:
    return next(n.DTYPE_BYTES[x.dtype] for x in tr.ctx.kernel.tensors if x.name == tensor)


def map_of(tr: Tracer, name: str) -> tuple[int, n.TensorMap]:
    return next((i, m) for i, m in enumerate(tr.ctx.kernel.maps) if m.name == name)


def box_bytes(tr: Tracer, name: str) -> int:
    """The full box counts, whatever lies outside the tensor (docs/model.md K12)."""
    _, m = map_of(tr, name)
    size = item(tr, m.tensor)
    for d in m.box:
        size *= d
    return size


def map_source(
    tr: Tracer, t: Thread, kind: Kind, name: str, coords: tuple[Expr, ...], text: str
) -> tuple[int, ...]:
    """The global side of a tensor copy, where that tensor is followed: the part of the box inside it."""
    _, m = map_of(tr, name)
    if m.tensor not in tr.ctx.tracked:
        return ()
    index, tensor = next((i, x) for i, x in enumerate(tr.ctx.kernel.tensors) if x.name == m.tensor)
    shape = [number(d, tr.ctx.values, tensor.span, f"the shape of {tensor.name}") for d in tensor.shape]
    size = n.DTYPE_BYTES[tensor.dtype]
    runs = [(0, 1)]  # start and length in elements, of the dimensions so far
    for at, box, whole in zip((tr.num(c, t) for c in coords), m.box, shape, strict=True):
        lo, hi = max(at, 0), min(at + box, whole)
        if lo >= hi:
            return ()
        runs = [((s + k) * whole + lo, hi - lo) for s, length in runs for k in range(length)]
    base = index << 44
    pieces = merged([(base + s * size, base + (s + length) * size) for s, length in runs])
    tr.times_here = t.times[tr.pc]
    return (tr.access(kind, GLOBAL, Foot(pieces, None, 0, False, (base,)), text),)


def map_foot(index: int) -> Foot:
    at = (1 << 60) + index * 128
    return Foot(((at, at + 128),), None, 128, False, (at,))


def map_use(tr: Tracer, t: Thread, name: str, text: str) -> tuple[int, ...]:
    """The descriptor fetch, where the kernel edits descriptors (PTX ISA, tensormap proxy)."""
    if name not in tr.ctx.program.edited_maps:
        return ()
    return (piece(tr, t, Kind.MU, GLOBAL, map_foot(map_of(tr, name)[0]), text),)


@handles(n.BulkStore, n.TmaStore)
def store(tr: Tracer, s: n.BulkStore | n.TmaStore, t: Thread) -> None:
    reduce = s.reduce is not None
    kind = Kind.RD if reduce else Kind.AW
    if isinstance(s, n.BulkStore):
        text = f"bulk.{'reduce' if reduce else 'store'} {s.src.buffer}"
        bit, foot, memory = tr.shared(Kind.AR, s.src, t, text)
        aligned16(tr, text, foot)
        named = tr.num(s.dst.count, t) * item(tr, s.dst.tensor)
        if named != foot.bytes:
            tr.harm("ub", "SV701", f"{text}: {foot.bytes} bytes into {named}")
        target = tr.tracked(kind, s.dst, t, text)
        maps: tuple[int, ...] = ()
    else:
        text = f"tma.{'reduce' if reduce else 'store'} {s.src.buffer}"
        bit, foot, memory = tr.shared(Kind.AR, s.src, t, text)
        aligned16(tr, text, foot, 128)
        size = box_bytes(tr, s.map)
        if size != foot.bytes:
            tr.harm("ub", "SV701", f"{text}: the box has {size} bytes, the region {foot.bytes}")
        target = map_source(tr, t, kind, s.map, s.coords, text)
        maps = map_use(tr, t, s.map, text)
    if memory != tr.group.cta:
        tr.harm("ub", "SV208", f"{text}: the source lies in another CTA")
    need_grid(tr, text)
    tr.ctx.program.sources |= 1 << bit
    tr.emit(Op.ISSUE, text, bits=(bit, *maps, *target))
    t.seq += 1
    read = 1 << bit
    for m in maps:
        read |= 1 << m
    full = read
    for b in target:
        full |= 1 << b
    t.bulk_open = (t.bulk_open[0] | read, t.bulk_open[1] | full)


@handles(n.BulkCommit)
def bulk_commit(tr: Tracer, s: n.BulkCommit, t: Thread) -> None:
    t.bulk_groups = (*t.bulk_groups, t.bulk_open)
    t.bulk_open = (0, 0)
    tr.emit(Op.LEARN, "bulk.commit", mask=0)


@handles(n.BulkWait)
def bulk_wait(tr: Tracer, s: n.BulkWait, t: Thread) -> None:
    """PTX ISA, cp.async.bulk.wait_group: sources read (.read), or also written and visible to this thread."""
    keep = tr.num(s.pending, t)
    done = t.bulk_groups[: max(0, len(t.bulk_groups) - keep)]
    mask = 0
    for read, full in done:
        mask |= read if s.read else full
        t.drained |= read
    tr.emit(Op.LEARN, f"bulk.wait{'.read' if s.read else ''} {keep}", mask=mask)


@handles(n.BulkCopy)
def bulk_copy(tr: Tracer, s: n.BulkCopy, t: Thread) -> None:
    text = f"bulk.copy {s.dst.buffer}"
    src, foot, memory = tr.shared(Kind.AR, s.src, t, text)
    dst, to, other = tr.shared(Kind.AW, s.dst, t, text)
    aligned16(tr, text, foot)
    aligned16(tr, text, to)
    bar = tr.bar(s.bar, t)
    if other == tr.group.cta or memory != tr.group.cta or tr.ctx.program.bars[bar].cta != other:
        tr.harm(
            "ub", "SV208", f"{text}: the destination and its barrier must lie in another CTA, the source here"
        )
    if foot.bytes != to.bytes:
        tr.harm("ub", "SV701", f"{text}: {foot.bytes} bytes into {to.bytes}")
    op = async_op(tr, t, bar, to.bytes * len(tr.lanes), (src, dst), other, text)
    tr.emit(Op.ISSUE, text, bits=(src, dst), asyncs=(op,))
    t.seq += 1


@handles(n.StAsync)
def st_async(tr: Tracer, s: n.StAsync, t: Thread) -> None:
    text = f"{'red' if s.reduce else 'st'}.async {s.dst.buffer}"
    tr.use(s.value, t)
    bit, foot, other = tr.shared(Kind.SW, s.dst, t, text, atomic=1 if s.reduce else -1)
    bar = tr.bar(s.bar, t)
    p = tr.ctx.program
    if p.cluster_size < 2 or (s.reduce and other == tr.group.cta) or p.bars[bar].cta != other:
        tr.harm("ub", "SV208", f"{text}: needs a cluster, and its barrier beside its destination")
    op = async_op(tr, t, bar, foot.bytes * len(tr.lanes), (bit,), other, text)
    tr.emit(Op.ISSUE, text, bits=(bit,), asyncs=(op,))
    t.seq += 1


@handles(n.CpAsync)
def cp_async(tr: Tracer, s: n.CpAsync, t: Thread) -> None:
    text = f"cp.async {s.dst.buffer}"
    need_grid(tr, text)
    source = tr.tracked(Kind.GR, s.src, t, text)
    bit, foot, memory = tr.shared(Kind.CW, s.dst, t, text)
    if foot.bytes not in (4, 8, 16) or any(a % foot.bytes for a in foot.starts):
        tr.harm("ub", "SV701", f"{text}: {foot.bytes} bytes, or a misaligned address")
    if memory != tr.group.cta:
        tr.harm("ub", "SV208", f"{text}: the destination lies in another CTA")
    tr.emit(Op.ISSUE, text, bits=(bit, *source))
    t.seq += 1
    t.cp_open |= 1 << bit
    t.own_copies |= 1 << bit


@handles(n.CpAsyncCommit)
def cp_commit(tr: Tracer, s: n.CpAsyncCommit, t: Thread) -> None:
    t.cp_groups = (*t.cp_groups, t.cp_open)
    t.cp_open = 0
    tr.emit(Op.LEARN, "cp.async.commit", mask=0)


@handles(n.CpAsyncWait)
def cp_wait(tr: Tracer, s: n.CpAsyncWait, t: Thread) -> None:
    keep = tr.num(s.pending, t) if s.pending is not None else 0
    mask = t.cp_open if s.pending is None else 0
    for g in t.cp_groups[: max(0, len(t.cp_groups) - keep)]:
        mask |= g
    tr.emit(Op.LEARN, "cp.async.wait", mask=mask)


@handles(n.CpAsyncMbarrierArrive)
def cp_arrive(tr: Tracer, s: n.CpAsyncMbarrierArrive, t: Thread) -> None:
    """Arrives once all earlier cp.async of the thread are done (PTX ISA, cp.async.mbarrier.arrive)."""
    bar = tr.bar(s.bar, t)
    info = tr.ctx.program.bars[bar]
    if info.cta != tr.group.cta:
        tr.harm("ub", "SV208", f"cp.async.mbarrier.arrive {info.name}: the object lies in another CTA")
        return
    if not s.noinc:
        tr.emit(Op.PEND, f"cp.async.mbarrier.arrive {info.name}", bar=bar, n=len(tr.lanes))
    mask, bits = t.own_copies, []
    while mask:
        low = mask & -mask
        bits.append(low.bit_length() - 1)
        mask ^= low
    op = async_op(
        tr, t, bar, 0, tuple(bits), info.cta, f"cp.async.mbarrier.arrive {info.name}", len(tr.lanes)
    )
    tr.emit(Op.ISSUE, f"cp.async.mbarrier.arrive {info.name}", asyncs=(op,), bar=bar)


# ---------------------------------------------------------------- fences


@handles(n.Fence)
def fence(tr: Tracer, s: n.Fence, t: Thread) -> None:
    acquire = s.sem in ("acq_rel", "sc", "acquire")
    release = s.sem in ("acq_rel", "sc", "release")
    # Rulebook K1: in practice reads before an acq_rel fence have happened.
    settles = t.own_reads if acquire and release and tr.ctx.practical and not s.sync_restrict else 0
    tr.emit(
        Op.FENCE,
        f"fence.{s.sem}.{s.scope}",
        flags=flags(acquire=acquire, release=release),
        mask=settles,
        key=LEVELS[s.scope],
    )


@handles(n.FenceMbarrierInit)
def fence_init(tr: Tracer, s: n.FenceMbarrierInit, t: Thread) -> None:
    """Releases this thread's earlier inits only (PTX ISA, fence.mbarrier_init)."""
    tr.emit(Op.FENCE, "fence.mbarrier_init", flags=flags(init=True), own=t.own_generic, key=LEVELS["cluster"])


@handles(n.FenceProxyAsync)
def proxy_fence(tr: Tracer, s: n.FenceProxyAsync, t: Thread) -> None:
    own = t.own_generic | t.own_copies
    half = s.half or ""
    if tr.ctx.practical:
        half = ""  # docs/model.md K3: either side suffices
    mark = 0
    if half == "release":
        mark = 1 << virtual(tr, "fence.proxy.async.release")
        tr.ctx.program.halves.append((mark, own))
    tr.emit(
        Op.PROXY_FENCE,
        "fence.proxy.async",
        token=s.space,
        own=own,
        mask=mark,
        flags=flags(own_only=not tr.ctx.practical, acquire=half == "acquire", release=half == "release"),
    )


def virtual(tr: Tracer, text: str) -> int:
    """A bit of knowledge that represents an event, not for bytes."""
    p = tr.ctx.program
    bit = len(p.accesses)
    p.accesses.append(Access(bit, tr.number, Kind.GW, VIRTUAL, (), None, tr.span, text))
    p.pinned |= 1 << bit
    return bit


def edits(tr: Tracer, name: str | None) -> tuple[int, ...]:
    """Maps that a fence or an edit names; None means all that the kernel edits."""
    all_maps = tr.ctx.program.edited_maps
    return tuple(map_of(tr, m)[0] for m in sorted(all_maps) if name is None or m == name)


@handles(n.TensormapReplace)
def map_replace(tr: Tracer, s: n.TensormapReplace, t: Thread) -> None:
    text = f"tensormap.replace {s.map}"
    value = tr.value_of(s.value, t)
    bit = piece(tr, t, Kind.MW, GLOBAL, map_foot(map_of(tr, s.map)[0]), text, value)
    a, b, c = (1 << virtual(tr, text) for _ in LEVELS if _ != "sys")
    pairs = tr.ctx.program.map_pairs.setdefault(map_of(tr, s.map)[0], [])
    pairs.append((1 << bit, tr.group.cta, (a, b, c)))
    access_event(tr, t, bit, text)


@handles(n.FenceProxyTensormap, n.TensormapCpFence)
def map_fence(tr: Tracer, s: n.FenceProxyTensormap | n.TensormapCpFence, t: Thread) -> None:
    release = isinstance(s, n.TensormapCpFence) or s.sem == "release"
    if isinstance(s, n.TensormapCpFence):
        tr.aligned.append(tr.pc)
    op = Op.MAP_RELEASE if release else Op.MAP_ACQUIRE
    tr.emit(op, "fence.proxy.tensormap", maps=edits(tr, s.map), key=LEVELS[s.scope])


# ---------------------------------------------------------------- tensor core


@handles(n.WgmmaFence)
def wgmma_fence(tr: Tracer, s: n.WgmmaFence, t: Thread) -> None:
    tr.aligned.append(tr.pc)
    t.fenced = frozenset(f.name for f in tr.ctx.kernel.fragments)
    tr.emit(Op.LEARN, "wgmma.fence", mask=0)


@handles(n.Wgmma)
def wgmma(tr: Tracer, s: n.Wgmma, t: Thread) -> None:
    tr.aligned.append(tr.pc)
    tr.wgmma_ops.append(tr.pc)
    group = len(t.mma_groups)
    text = f"wgmma.mma {s.acc}"
    busy = {f for f, _, role in t.mma_frags if role == "acc"}
    if s.acc not in t.fenced and s.acc not in busy:
        tr.harm("ub", "SV402", f"{text}: registers of {s.acc} touched since the last wgmma.fence")
    bits = []
    tr.use(s.acc, t)
    if isinstance(s.a, str):
        tr.use(s.a, t)
        if s.a not in t.fenced:
            tr.harm("ub", "SV402", f"{text}: registers of {s.a} touched since the last wgmma.fence")
        t.mma_frags = (*t.mma_frags, (s.a, group, "a"))
    else:
        bits.append(tr.shared(Kind.MR, s.a, t, text)[0])
    bits.append(tr.shared(Kind.MR, s.b, t, text)[0])
    for b in bits:
        t.mma_open |= 1 << b
        tr.ctx.program.sources |= 1 << b
    t.mma_frags = (*t.mma_frags, (s.acc, group, "acc"))
    tr.emit(Op.ISSUE, text, bits=tuple(bits))
    t.seq += 1


@handles(n.WgmmaCommit)
def wgmma_commit(tr: Tracer, s: n.WgmmaCommit, t: Thread) -> None:
    tr.aligned.append(tr.pc)
    t.mma_groups = (*t.mma_groups, t.mma_open)
    t.mma_open = 0
    tr.emit(Op.WGMMA_COMMIT, "wgmma.commit", mask=t.mma_groups[-1], count=len(t.mma_groups))


@handles(n.WgmmaWait)
def wgmma_wait(tr: Tracer, s: n.WgmmaWait, t: Thread) -> None:
    tr.aligned.append(tr.pc)
    done = max(0, len(t.mma_groups) - tr.num(s.pending, t))
    mask = 0
    for g in t.mma_groups[:done]:
        mask |= g
    t.mma_frags = tuple(x for x in t.mma_frags if x[1] >= done)
    tr.emit(Op.WGMMA_WAIT, f"wgmma.wait {tr.num(s.pending, t)}", mask=mask, count=done)


@handles(n.LoadIndex)
def load_index(tr: Tracer, s: n.LoadIndex, t: Thread) -> None:
    raise Unsupported("control that depends on loaded data is not explored", s.span)
