"""What each statement of the IR does, as events of one lane group (rulebook B)."""

from __future__ import annotations

import numpy as np

from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr, Var
from syncverify.simulate.code import compiled
from syncverify.simulate.layout import BARRIER_BYTES
from syncverify.simulate.program import GLOBAL, Access, Kind, Op
from syncverify.simulate.regions import Foot
from syncverify.simulate.trace import Thread, Tracer, Unsupported, async_op, flags, handles, register

LEVELS = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 2}
MAX_BYTES = (1 << 20) - 1  # PTX ISA, mbarrier: tx-count and pending-count range


def learn(tr: Tracer, mask: int, text: str) -> None:
    if mask:
        tr.emit(Op.LEARN, text, mask=mask)


def access_event(tr: Tracer, t: Thread, bit: int, text: str) -> None:
    t.own_generic |= 1 << bit
    tr.emit(Op.ACCESS, text, bits=(bit,))


# ---------------------------------------------------------------- generic memory and values


@handles(n.LdShared, n.LdMatrix)
def ld_shared(tr: Tracer, s: n.LdShared | n.LdMatrix, t: Thread) -> None:
    text = f"ld.shared {s.src.buffer}"
    if isinstance(s, n.LdMatrix):
        text = f"ldmatrix {s.src.buffer}"
        tr.aligned.append(tr.pc)
        fragment_write(tr, t, s.name)
    bit, foot, memory = tr.shared(Kind.GR, s.src, t, text)
    access_event(tr, t, bit, text)
    whole = isinstance(s, n.LdMatrix)  # every lane gets its own part
    tr.loaded(s.name, bit, t, tr.unique(t) if whole else tr.read_value(t, memory, foot))


@handles(n.StShared, n.StMatrix)
def st_shared(tr: Tracer, s: n.StShared | n.StMatrix, t: Thread) -> None:
    matrix = isinstance(s, n.StMatrix)
    text = f"{'stmatrix' if matrix else 'st.shared'} {s.dst.buffer}"
    if matrix:
        tr.aligned.append(tr.pc)
    tr.use(s.value, t)
    # Lanes of one stmatrix write parts of one region between them, never the same byte.
    bit, _, _ = tr.shared(Kind.GW, s.dst, t, text, value=0 if matrix else tr.value_of(s.value, t))
    access_event(tr, t, bit, text)


@handles(n.AtomShared)
def atom_shared(tr: Tracer, s: n.AtomShared, t: Thread) -> None:
    text = f"atom.shared.{s.op} {s.dst.buffer}"
    tr.use(s.value, t)
    bit, _, _ = tr.shared(Kind.AT, s.dst, t, text)
    access_event(tr, t, bit, text)
    if s.name is not None:
        tr.loaded(s.name, bit, t, tr.unique(t))


@handles(n.Compute)
def compute(tr: Tracer, s: n.Compute, t: Thread) -> None:
    if isinstance(s.value, Var):  # a move: the value is still on its way
        t.pend[s.name] = t.pend.get(s.value.name, 0)
    else:
        tr.use(s.value, t)
        t.pend[s.name] = 0
    known = tr.value_of(s.value, t)
    t.source[s.name] = known if known is not None else tr.unique(t)


@handles(n.FragRead)
def frag_read(tr: Tracer, s: n.FragRead, t: Thread) -> None:
    if any(f == s.frag and role == "acc" for f, _, role in t.mma_frags):
        tr.harm("ub", "SV401", f"{s.frag} is read while a wgmma that writes it is in flight")
    t.fenced = t.fenced - {s.frag}
    t.pend[s.name] = t.pend.get(s.frag, 0)
    t.source[s.name] = tr.unique(t)


def fragment_write(tr: Tracer, t: Thread, frag: str) -> None:
    if any(f == frag for f, _, _ in t.mma_frags):
        tr.harm("ub", "SV401", f"{frag} is written while a wgmma that uses it is in flight")
    t.fenced = t.fenced - {frag}


@handles(n.FragWrite)
def frag_write(tr: Tracer, s: n.FragWrite, t: Thread) -> None:
    tr.use(s.value, t)
    fragment_write(tr, t, s.frag)
    t.pend[s.frag] = 0


# ---------------------------------------------------------------- global memory


def global_access(tr: Tracer, t: Thread, kind: Kind, g: n.GlobalRegion, text: str) -> None:
    if tr.ctx.needs_grid_wait:
        tr.emit(Op.NEED, text, rule="SV503")
    for bit in tr.tracked(kind, g, t, text):
        access_event(tr, t, bit, text)


@handles(n.LdGlobal)
def ld_global(tr: Tracer, s: n.LdGlobal, t: Thread) -> None:
    t.pend[s.name] = 0
    t.source[s.name] = tr.read_value(t, GLOBAL, tr.global_foot(s.src, t))
    if s.src.tensor in tr.ctx.flags:
        tr.emit(Op.FLAG_READ, f"ld.global.{s.sem} {s.src.tensor}", key=flag(tr, s.src, t),
                flags=order_flags(s.sem, s.scope))  # fmt: skip
    else:
        global_access(tr, t, Kind.GR, s.src, f"ld.global {s.src.tensor}")


@handles(n.StGlobal)
def st_global(tr: Tracer, s: n.StGlobal, t: Thread) -> None:
    tr.use(s.value, t)
    if s.dst.tensor in tr.ctx.flags:
        flag_write(tr, t, s.dst, s.value, s.sem, s.scope, "st")
    else:
        global_access(tr, t, Kind.GW, s.dst, f"st.global {s.dst.tensor}")


@handles(n.AtomGlobal)
def atom_global(tr: Tracer, s: n.AtomGlobal, t: Thread) -> None:
    tr.use(s.value, t)
    if s.name is not None:
        t.pend[s.name] = 0
        t.source[s.name] = tr.unique(t)
    if s.dst.tensor in tr.ctx.flags:
        flag_write(tr, t, s.dst, s.value, s.sem, s.scope, s.op)
    else:
        global_access(tr, t, Kind.AT, s.dst, f"atom.global.{s.op} {s.dst.tensor}")


@handles(n.Multimem)
def multimem(tr: Tracer, s: n.Multimem, t: Thread) -> None:
    if s.value is not None:
        tr.use(s.value, t)
    if s.name is not None:
        t.pend[s.name] = 0
        t.source[s.name] = tr.unique(t)
    kind = {"ld_reduce": Kind.GR, "st": Kind.GW, "red": Kind.AT}[s.kind]
    if s.target.tensor in tr.ctx.flags:
        raise Unsupported("multimem on a word that a block spins on is not simulated", s.span)
    global_access(tr, t, kind, s.target, f"multimem.{s.kind} {s.target.tensor}")


def flag(tr: Tracer, g: n.GlobalRegion, t: Thread) -> int:
    """The index of a word that somebody spins on."""
    word = f"{g.tensor}[{tr.num(g.start, t)}]"
    table = tr.ctx.program.flags
    if word not in table:
        table.append(word)
    return table.index(word)


def order_flags(sem: str, scope: str) -> frozenset[str]:
    return frozenset({sem, scope})


def flag_write(tr: Tracer, t: Thread, g: n.GlobalRegion, value: Expr, sem: str, scope: str, op: str) -> None:
    from syncverify.simulate.code import BadExpression
    from syncverify.simulate.literals import literal

    try:
        v = tr.agreed(compiled(literal(value))(t.env))
    except BadExpression as err:
        raise Unsupported(f"the value of a word that a block spins on must be an integer: {err}", tr.span) from err
    tr.emit(Op.FLAG_WRITE, f"{op}.global.{sem} {g.tensor}", key=flag(tr, g, t), count=v, n=len(tr.lanes),
            token=op, flags=order_flags(sem, scope))  # fmt: skip


@handles(n.SpinGlobal)
def spin(tr: Tracer, s: n.SpinGlobal, t: Thread) -> None:
    tr.emit(Op.SPIN, f"spin.global {s.src.tensor} {s.cmp}", key=flag(tr, s.src, t), count=tr.num(s.value, t),
            token=s.cmp, flags=order_flags(s.sem, s.scope))  # fmt: skip


@handles(n.GridDepWait)
def grid_wait(tr: Tracer, s: n.GridDepWait, t: Thread) -> None:
    foot = Foot((), None, 0, False, ())
    bit = tr.access(Kind.GW, GLOBAL, foot, "griddep.wait")
    tr.ctx.program.pinned |= 1 << bit
    tr.ctx.program.grid_marks |= 1 << bit
    tr.emit(Op.MARK, "griddep.wait", mask=1 << bit)


@handles(n.GridDepLaunch, n.BulkPrefetch, n.TmaPrefetch)
def hint(tr: Tracer, s: n.Stmt, t: Thread) -> None:
    """No effect on this launch (PTX ISA, griddepcontrol; prefetches are hints)."""


# ---------------------------------------------------------------- execution barriers


@handles(n.BarrierSync)
def bar_sync(tr: Tracer, s: n.BarrierSync, t: Thread) -> None:
    ident = tr.num(s.id, t)
    threads = tr.num(s.count, t) if s.count is not None else 0
    if s.aligned:
        tr.aligned.append(tr.pc)
    bad_barrier(tr, ident, threads)
    tr.emit(Op.BAR_SYNC, f"bar.sync {ident}", key=ident, n=threads, flags=flags(red=s.red))


@handles(n.BarrierArrive)
def bar_arrive(tr: Tracer, s: n.BarrierArrive, t: Thread) -> None:
    ident, threads = tr.num(s.id, t), tr.num(s.count, t)
    if s.aligned:
        tr.aligned.append(tr.pc)
    bad_barrier(tr, ident, threads or 1)
    tr.emit(Op.BAR_ARRIVE, f"bar.arrive {ident}", key=ident, n=threads)


def bad_barrier(tr: Tracer, ident: int, threads: int) -> None:
    if not 0 <= ident < 16:
        tr.harm("ub", "SV301", f"barrier id {ident} is not in 0..15")
    if threads % 32 or threads < 0:
        tr.harm("ub", "SV301", f"a barrier of {threads} threads: not a multiple of 32")


@handles(n.WarpSync)
def warp_sync(tr: Tracer, s: n.WarpSync, t: Thread) -> None:
    mask = tr.num(s.mask, t) & 0xFFFFFFFF if s.mask is not None else 0xFFFFFFFF
    if tr.group.lanes & ~mask:
        if tr.group.lanes & mask:
            tr.agreed(np.array([mask >> lane & 1 for lane in tr.lanes]))
        tr.harm("ub", "SV303", "a lane executes warp.sync with a mask that does not name it")
        return
    tr.emit(Op.WARP_SYNC, "warp.sync", key=mask)


@handles(n.ClusterArrive)
def cluster_arrive(tr: Tracer, s: n.ClusterArrive, t: Thread) -> None:
    if s.aligned:
        tr.aligned.append(tr.pc)
    tr.emit(Op.CLUSTER_ARRIVE, "cluster.arrive", flags=flags(relaxed=s.sem == "relaxed"))


@handles(n.ClusterWait)
def cluster_wait(tr: Tracer, s: n.ClusterWait, t: Thread) -> None:
    if s.aligned:
        tr.aligned.append(tr.pc)
    tr.emit(Op.CLUSTER_WAIT, "cluster.wait")


@handles(n.Elect)
def elect(tr: Tracer, s: n.Elect, t: Thread) -> None:
    tr.aligned.append(tr.pc)
    hit = tr.elected in tr.lanes
    if hit and len(tr.lanes) > 1:
        t.env[s.name] = np.array([int(lane == tr.elected) for lane in tr.lanes], dtype=np.int64)
    else:
        t.env[s.name] = int(hit)


@handles(n.SetMaxNReg)
def setmaxnreg(tr: Tracer, s: n.SetMaxNReg, t: Thread) -> None:
    tr.aligned.append(tr.pc)
    tr.register_ops.append(tr.pc)
    count = tr.num(s.count, t)
    if not 24 <= count <= 256 or count % 8:
        tr.harm("ub", "SV304", f"setmaxnreg {count}: not a multiple of 8 from 24 to 256")
        return
    tr.emit(Op.REGISTERS, f"setmaxnreg.{s.direction} {count}", key=int(s.direction == "inc"), n=count,
            count=len(tr.register_ops))  # fmt: skip


# ---------------------------------------------------------------- mbarrier


@handles(n.MbarrierInit, n.MbarrierInval)
def init(tr: Tracer, s: n.MbarrierInit | n.MbarrierInval, t: Thread) -> None:
    bar = tr.bar(s.bar, t)
    info = tr.ctx.program.bars[bar]
    starts = isinstance(s, n.MbarrierInit)
    text = f"mbarrier.{'init' if starts else 'inval'} {info.name}"
    if info.cta != tr.group.cta:
        tr.harm("ub", "SV208", f"{text}: the object lies in another CTA")
        return
    foot = Foot(((info.offset, info.offset + BARRIER_BYTES),), None, BARRIER_BYTES, len(tr.lanes) > 1, ())
    tr.times_here = t.times[tr.pc]
    bit = tr.access(Kind.GW, info.cta, foot, text, value=0)
    t.own_generic |= 1 << bit
    tr.ctx.program.pinned |= 1 << bit
    count = tr.num(s.count, t) if isinstance(s, n.MbarrierInit) else 0
    if isinstance(s, n.MbarrierInit) and not 1 <= count <= MAX_BYTES:
        tr.harm("ub", "SV202", f"{text} with count {count}")
        count = 1
    tr.emit(Op.INIT if starts else Op.INVAL, text, bar=bar, count=count, bits=(bit,), n=len(tr.lanes))


@handles(n.MbarrierArrive)
def arrive(tr: Tracer, s: n.MbarrierArrive, t: Thread) -> None:
    bar = tr.bar(s.bar, t)
    expect = tr.num(s.expect, t) if s.expect is not None else -1
    count = tr.num(s.count, t)
    name = f"mbarrier.arrive{'.expect_tx' if expect >= 0 else ''} {tr.ctx.program.bars[bar].name}"
    if count < 1 or expect > MAX_BYTES or (s.expect is not None and expect < 0):
        tr.harm("ub", "SV202" if count < 1 else "SV203", f"{name}: count {count}, {expect} bytes")
        return
    remote = tr.ctx.program.bars[bar].cta != tr.group.cta
    if remote and s.token:
        tr.harm("ub", "SV208", f"{name}: a remote arrive gives no token")
    tr.emit(Op.ARRIVE, name, bar=bar, n=len(tr.lanes), count=count, bytes=expect, token=s.token or "",
            flags=flags(relaxed=s.sem == "relaxed", cluster=s.scope == "cluster", drop=s.drop,
                        no_complete=s.no_complete))  # fmt: skip


@handles(n.MbarrierExpectTx, n.MbarrierCompleteTx)
def transactions(tr: Tracer, s: n.MbarrierExpectTx | n.MbarrierCompleteTx, t: Thread) -> None:
    bar, size = tr.bar(s.bar, t), tr.num(s.bytes, t)
    expect = isinstance(s, n.MbarrierExpectTx)
    name = f"mbarrier.{'expect_tx' if expect else 'complete_tx'} {tr.ctx.program.bars[bar].name}"
    if not 0 <= size <= MAX_BYTES:
        tr.harm("ub", "SV203", f"{name}: {size} bytes")
        return
    tr.emit(Op.EXPECT if expect else Op.COMPLETE, name, bar=bar, bytes=size, n=len(tr.lanes))


@handles(n.MbarrierWait)
def wait(tr: Tracer, s: n.MbarrierWait, t: Thread) -> None:
    bar = tr.bar(s.bar, t)
    info = tr.ctx.program.bars[bar]
    if info.cta != tr.group.cta:
        tr.harm("ub", "SV208", f"mbarrier.wait {info.name}: the object lies in another CTA")
        return
    key, token = (0, register(s.phase)) if s.token else (tr.num(s.phase, t), "")
    if not s.token and key not in (0, 1):
        tr.harm("ub", "SV201", f"mbarrier.wait {info.name}: parity {key} is neither 0 nor 1")
        key &= 1
    tr.emit(Op.WAIT_TOKEN if s.token else Op.WAIT, f"mbarrier.wait {info.name}", bar=bar, key=key, token=token,
            flags=flags(relaxed=s.sem == "relaxed", cluster=s.scope == "cluster"))  # fmt: skip


# ---------------------------------------------------------------- asynchronous copies


def aligned16(tr: Tracer, what: str, foot: Foot, to: int = 16) -> None:
    """PTX ISA, cp.async.bulk: 16-byte addresses and sizes; 128 bytes for tensor copies."""
    if any(a % to for a in foot.starts):
        tr.harm("ub", "SV701", f"{what}: the address is not a multiple of {to}")
    if foot.bytes % 16:
        tr.harm("ub", "SV701", f"{what}: {foot.bytes} bytes are not a multiple of 16")


def piece(tr: Tracer, t: Thread, kind: Kind, cta: int, foot: Foot, text: str) -> int:
    tr.times_here = t.times[tr.pc]
    return tr.access(kind, cta, foot, text)


def issue_load(tr: Tracer, t: Thread, dst: n.Region, bar: n.BarrierRef, multicast: Expr | None, text: str,
               map_bit: tuple[int, ...], source: tuple[int, ...], align: int, size: int | None) -> None:  # fmt: skip
    """A copy into the shared memory of one or several CTAs, each completing on its own barrier."""
    from syncverify.simulate.regions import region_foot

    p, own = tr.ctx.program, tr.group.cta
    first = own - own % p.cluster_size
    if multicast is not None:
        mask = tr.num(multicast, t)
        targets = [first + r for r in range(16) if mask >> r & 1]
        if any(c >= first + p.cluster_size for c in targets) or not targets:
            tr.harm("ub", "SV208", f"{text}: the multicast mask {mask:#x} names no CTA, or one outside the cluster")
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
    issue_load(tr, t, s.dst, s.bar, s.multicast, text, map_use(tr, t, s.map, text),
               map_source(tr, Kind.AR, s.map, text), 128, box_bytes(tr, s.map))  # fmt: skip


def need_grid(tr: Tracer, text: str) -> None:
    if tr.ctx.needs_grid_wait:
        tr.emit(Op.NEED, text, rule="SV503")


def item(tr: Tracer, tensor: str) -> int:
    return next(n.DTYPE_BYTES[x.dtype] for x in tr.ctx.kernel.tensors if x.name == tensor)


def map_of(tr: Tracer, name: str) -> tuple[int, n.TensorMap]:
    return next((i, m) for i, m in enumerate(tr.ctx.kernel.maps) if m.name == name)


def box_bytes(tr: Tracer, name: str) -> int:
    """The full box counts, whatever lies outside the tensor (rulebook K12)."""
    _, m = map_of(tr, name)
    size = item(tr, m.tensor)
    for d in m.box:
        size *= d
    return size


def map_source(tr: Tracer, kind: Kind, name: str, text: str) -> tuple[int, ...]:
    """The global side of a tensor copy: the whole tensor, where global memory is followed."""
    _, m = map_of(tr, name)
    if m.tensor not in tr.ctx.tracked:
        return ()
    at = next(i for i, x in enumerate(tr.ctx.kernel.tensors) if x.name == m.tensor) << 44
    return (tr.access(kind, GLOBAL, Foot(((at, at + (1 << 43)),), None, 0, False, (at,)), text),)


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
        target = tr.tracked(kind, s.dst, t, text)
        maps: tuple[int, ...] = ()
    else:
        text = f"tma.{'reduce' if reduce else 'store'} {s.src.buffer}"
        bit, foot, memory = tr.shared(Kind.AR, s.src, t, text)
        aligned16(tr, text, foot, 128)
        size = box_bytes(tr, s.map)
        if size != foot.bytes:
            tr.harm("ub", "SV701", f"{text}: the box has {size} bytes, the region {foot.bytes}")
        target = map_source(tr, kind, s.map, text)
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
        tr.harm("ub", "SV208", f"{text}: the destination and its barrier must lie in another CTA, the source here")
    if foot.bytes != to.bytes:
        tr.harm("ub", "SV701", f"{text}: {foot.bytes} bytes into {to.bytes}")
    op = async_op(tr, t, bar, to.bytes * len(tr.lanes), (src, dst), other, text)
    tr.emit(Op.ISSUE, text, bits=(src, dst), asyncs=(op,))
    t.seq += 1


@handles(n.StAsync)
def st_async(tr: Tracer, s: n.StAsync, t: Thread) -> None:
    text = f"{'red' if s.reduce else 'st'}.async {s.dst.buffer}"
    tr.use(s.value, t)
    bit, foot, other = tr.shared(Kind.SW, s.dst, t, text)
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
    op = async_op(tr, t, bar, 0, tuple(bits), info.cta, f"cp.async.mbarrier.arrive {info.name}", len(tr.lanes))
    tr.emit(Op.ISSUE, f"cp.async.mbarrier.arrive {info.name}", asyncs=(op,), bar=bar)


# ---------------------------------------------------------------- fences


@handles(n.Fence)
def fence(tr: Tracer, s: n.Fence, t: Thread) -> None:
    acquire = s.sem in ("acq_rel", "sc", "acquire")
    release = s.sem in ("acq_rel", "sc", "release")
    # Rulebook K1: in practice reads before an acq_rel fence have happened.
    settles = t.own_reads if acquire and release and tr.ctx.practical and not s.sync_restrict else 0
    tr.emit(Op.FENCE, f"fence.{s.sem}.{s.scope}", flags=flags(acquire=acquire, release=release), mask=settles,
            key=LEVELS[s.scope])  # fmt: skip


@handles(n.FenceMbarrierInit)
def fence_init(tr: Tracer, s: n.FenceMbarrierInit, t: Thread) -> None:
    """Releases this thread's earlier inits only (PTX ISA, fence.mbarrier_init)."""
    tr.emit(Op.FENCE, "fence.mbarrier_init", flags=flags(init=True), own=t.own_generic, key=LEVELS["cluster"])


@handles(n.FenceProxyAsync)
def proxy_fence(tr: Tracer, s: n.FenceProxyAsync, t: Thread) -> None:
    strict_half = s.half == "acquire" and not tr.ctx.practical
    own = 0 if strict_half else t.own_generic | t.own_copies
    tr.emit(Op.PROXY_FENCE, "fence.proxy.async", token=s.space, own=own,
            flags=flags(own_only=not tr.ctx.practical))  # fmt: skip


def edits(tr: Tracer, name: str | None) -> tuple[int, ...]:
    """Maps that a fence or an edit names; None means all that the kernel edits."""
    all_maps = tr.ctx.program.edited_maps
    return tuple(map_of(tr, m)[0] for m in sorted(all_maps) if name is None or m == name)


@handles(n.TensormapReplace)
def map_replace(tr: Tracer, s: n.TensormapReplace, t: Thread) -> None:
    text = f"tensormap.replace {s.map}"
    bit = piece(tr, t, Kind.MW, GLOBAL, map_foot(map_of(tr, s.map)[0]), text)
    p = tr.ctx.program
    released = len(p.accesses)
    p.accesses.append(Access(released, tr.number, Kind.GW, GLOBAL, (), None, s.span, text))
    p.pinned |= 1 << released
    p.map_pairs.setdefault(map_of(tr, s.map)[0], []).append((1 << bit, 1 << released))
    access_event(tr, t, bit, text)


@handles(n.FenceProxyTensormap, n.TensormapCpFence)
def map_fence(tr: Tracer, s: n.FenceProxyTensormap | n.TensormapCpFence, t: Thread) -> None:
    release = isinstance(s, n.TensormapCpFence) or s.sem == "release"
    if isinstance(s, n.TensormapCpFence):
        tr.aligned.append(tr.pc)
    tr.emit(Op.MAP_RELEASE if release else Op.MAP_ACQUIRE, "fence.proxy.tensormap", maps=edits(tr, s.map))


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
