"""What each statement of the IR does, as events of one lane group (docs/model.md B)."""

from __future__ import annotations

import numpy as np

from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr, names
from syncverify.simulate.ir.code import compiled
from syncverify.simulate.ir.layout import BARRIER_BYTES
from syncverify.simulate.ir.program import GLOBAL, LANES, NO_MEMORY, Kind, Op
from syncverify.simulate.ir.regions import Foot
from syncverify.simulate.ir.trace import Thread, Tracer, Unsupported, flags, handles, new_token, token_of

LEVELS = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 2}
MAX_BYTES = (1 << 20) - 1  # PTX ISA, mbarrier: tx-count and pending-count range


def learn(tr: Tracer, mask: int, text: str) -> None:
    if mask:
        tr.emit(Op.LEARN, text, mask=mask)


def access_event(tr: Tracer, t: Thread, bit: int, text: str) -> None:
    t.own_generic |= 1 << bit
    tr.emit(Op.ACCESS, text, bits=(bit,), remote=tr.ctx.program.accesses[bit].remote)


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
    bit, _, _ = tr.shared(Kind.AT, s.dst, t, text, atomic=LEVELS[s.scope])
    access_event(tr, t, bit, text)
    if s.name is not None:
        tr.loaded(s.name, bit, t, tr.unique(t))


@handles(n.Compute)
def compute(tr: Tracer, s: n.Compute, t: Thread) -> None:
    t.pend[s.name] = tr.awaited(t, *names(s.value))
    known = tr.value_of(s.value, t)
    t.source[s.name] = known if known is not None else tr.unique(t)


@handles(n.Shuffle)
def shuffle(tr: Tracer, s: n.Shuffle, t: Thread) -> None:
    tr.aligned.append(tr.pc)
    t.pend[s.name] = tr.awaited(t, *names(s.value))
    t.source[s.name] = tr.unique(t)


@handles(n.FragRead)
def frag_read(tr: Tracer, s: n.FragRead, t: Thread) -> None:
    if any(f == s.frag and role == "acc" for f, _, role in t.mma_frags):
        tr.harm("ub", "SV401", f"{s.frag} is read while a wgmma that writes it is in flight")
    t.fenced = t.fenced - {s.frag}
    t.pend[s.name] = tr.awaited(t, s.frag)
    t.source[s.name] = tr.unique(t)


def fragment_write(tr: Tracer, t: Thread, frag: str) -> None:
    if any(f == frag for f, _, _ in t.mma_frags):
        tr.harm("ub", "SV401", f"{frag} is written while a wgmma that uses it is in flight")
    t.fenced = t.fenced - {frag}


@handles(n.FragWrite)
def frag_write(tr: Tracer, s: n.FragWrite, t: Thread) -> None:
    fragment_write(tr, t, s.frag)
    rest = () if s.start is None else (s.frag,)  # its other parts stay
    t.pend[s.frag] = tr.awaited(t, *names(s.value), *rest)


# ---------------------------------------------------------------- global memory


def global_access(tr: Tracer, t: Thread, kind: Kind, g: n.GlobalRegion, text: str, atomic: int = -1) -> None:
    if tr.ctx.needs_grid_wait:
        tr.emit(Op.NEED, text, rule="SV503")
    for bit in tr.tracked(kind, g, t, text, atomic):
        access_event(tr, t, bit, text)


@handles(n.LdGlobal)
def ld_global(tr: Tracer, s: n.LdGlobal, t: Thread) -> None:
    t.pend[s.name] = 0
    t.source[s.name] = tr.read_value(t, GLOBAL, tr.global_foot(s.src, t))
    if s.src.tensor in tr.ctx.flags:
        tr.emit(
            Op.FLAG_READ,
            f"ld.global.{s.sem} {s.src.tensor}",
            key=flag(tr, s.src, t),
            flags=order_flags(s.sem, s.scope),
        )
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
        global_access(tr, t, Kind.AT, s.dst, f"atom.global.{s.op} {s.dst.tensor}", LEVELS[s.scope])


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
    level = LEVELS[s.scope] if s.kind == "red" else -1
    global_access(tr, t, kind, s.target, f"multimem.{s.kind} {s.target.tensor}", level)


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
    from syncverify.simulate.ir.code import BadExpression
    from syncverify.simulate.ir.literals import literal

    try:
        v = tr.agreed(compiled(literal(value))(t.env))
    except BadExpression as err:
        raise Unsupported(
            f"the value of a word that a block spins on must be an integer: {err}", tr.span
        ) from err
    tr.emit(
        Op.FLAG_WRITE,
        f"{op}.global.{sem} {g.tensor}",
        key=flag(tr, g, t),
        count=v,
        n=len(tr.lanes),
        token=op,
        flags=order_flags(sem, scope),
    )


@handles(n.SpinGlobal)
def spin(tr: Tracer, s: n.SpinGlobal, t: Thread) -> None:
    tr.emit(
        Op.SPIN,
        f"spin.global {s.src.tensor} {s.cmp}",
        key=flag(tr, s.src, t),
        count=tr.num(s.value, t),
        token=s.cmp,
        flags=order_flags(s.sem, s.scope),
    )


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
    how = flags(red=s.red, aligned=s.aligned)
    tr.emit(Op.BAR_SYNC, f"bar.sync {ident}", key=ident, n=threads, flags=how)


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
    if threads > tr.ctx.program.warps * 32 and not tr.ctx.practical:  # warps may count twice
        tr.harm("ub", "SV301", f"a barrier of {threads} threads in a block of {tr.ctx.program.threads}")
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
    threads = tr.ctx.program.threads - tr.group.warp * LANES
    tr.emit(Op.WARP_SYNC, "elect", key=NO_MEMORY | (1 << min(LANES, threads)) - 1)


@handles(n.SetMaxNReg)
def setmaxnreg(tr: Tracer, s: n.SetMaxNReg, t: Thread) -> None:
    tr.aligned.append(tr.pc)
    tr.register_ops.append(tr.pc)
    count = tr.num(s.count, t)
    tr.registers_asked.append((s.direction, count))
    if not 24 <= count <= 256 or count % 8:
        tr.harm("ub", "SV304", f"setmaxnreg {count}: not a multiple of 8 from 24 to 256")
        return
    text = f"setmaxnreg.{s.direction} {count}"
    bit = tr.access(Kind.GR, GLOBAL, Foot((), None, 0, False, ()), text)
    tr.ctx.program.pinned |= 1 << bit
    tr.emit(
        Op.REGISTERS, text, key=int(s.direction == "inc"), n=count, count=len(tr.register_ops), mask=1 << bit
    )


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
    count = tr.num(s.count, t) if isinstance(s, n.MbarrierInit) else 0
    bit = tr.access(Kind.GW, info.cta, foot, text, value=count)
    t.own_generic |= 1 << bit
    tr.ctx.program.pinned |= 1 << bit
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
    if s.token:
        t.env[s.token] = new_token(s.token, t)
    tr.emit(
        Op.ARRIVE,
        name,
        bar=bar,
        n=len(tr.lanes),
        count=count,
        bytes=expect,
        token=t.env[s.token].place if s.token else "",
        flags=flags(
            relaxed=s.sem == "relaxed", cluster=s.scope == "cluster", drop=s.drop, no_complete=s.no_complete
        ),
    )


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
    key, token = (0, token_of(s.phase, t)) if s.token else (tr.num(s.phase, t), "")
    if not s.token and key not in (0, 1):
        tr.harm("ub", "SV201", f"mbarrier.wait {info.name}: parity {key} is neither 0 nor 1")
        key &= 1
    tr.emit(
        Op.WAIT_TOKEN if s.token else Op.WAIT,
        f"mbarrier.wait {info.name}",
        bar=bar,
        key=key,
        token=token,
        flags=flags(relaxed=s.sem == "relaxed", cluster=s.scope == "cluster"),
    )
