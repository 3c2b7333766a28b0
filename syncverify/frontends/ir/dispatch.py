"""From a statement to its op: one row per statement type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncverify.base.source import InputError
from syncverify.frontends.ir.data import DataOps
from syncverify.frontends.ir.operations import Op
from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr
from syncverify.model.events import Ev, Flag


def operation(ops: DataOps, s: n.Stmt, site: int, known: Expr | None, differs: bool) -> Op | None:
    """The statement's op; None where it emits nothing (a prefetch is a hint).

    ``known``: the stored value, if the agent knows it; ``differs``: whether lanes may store different ones.
    Reads into value registers are left to the caller, who numbers their handles.
    """
    simple = _SIMPLE.get(type(s))
    if simple is not None:
        return simple(ops, s, site)
    constant = _CONSTANT.get(type(s))
    if constant is not None:
        return ops.constant(constant, site)
    maps, fragments = ops.t.maps, ops.t.fragments
    match s:
        case n.ClusterArrive():
            flags = (Flag.RELAXED if s.sem == "relaxed" else 0) | (Flag.ALIGNED if s.aligned else 0)
            return ops.constant(Ev.CLUSTER_ARRIVE, site, int(flags))
        case n.ClusterWait():
            return ops.constant(Ev.CLUSTER_WAIT, site, int(Flag.ALIGNED if s.aligned else 0))
        case n.TensormapReplace(name):
            return ops.constant(Ev.MAP_REPLACE, site, maps[name].number, 0)
        case n.FragRead(_, frag):
            return ops.constant(Ev.FRAG_READ, site, fragments[frag])
        case n.FragWrite(frag):
            return ops.constant(Ev.FRAG_WRITE, site, fragments[frag])
        case n.StShared(dst):
            return ops.write(dst, site, differs)
        case n.StMatrix(dst):
            return ops.write_matrix(dst, site)
        case n.StGlobal():
            return ops.st_global(s, site, known)
        case n.AtomGlobal():
            return ops.atom_global(s, site, known)
        case n.Multimem():
            return ops.multimem(s, site, known)
        case n.BulkPrefetch() | n.TmaPrefetch():
            return None
    raise InputError(f"{type(s).__name__} cannot be executed", s.span)


_SIMPLE: dict[type[n.Stmt], Callable[[DataOps, Any, int], Op]] = {
    n.MbarrierInit: DataOps.mbarrier_init,
    n.MbarrierInval: DataOps.mbarrier_inval,
    n.MbarrierArrive: DataOps.mbarrier_arrive,
    n.MbarrierTest: DataOps.mbarrier_test,
    n.MbarrierExpectTx: DataOps.mbarrier_expect_tx,
    n.MbarrierCompleteTx: DataOps.mbarrier_complete_tx,
    n.MbarrierWait: DataOps.mbarrier_wait,
    n.BarrierSync: DataOps.barrier_sync,
    n.BarrierArrive: DataOps.barrier_arrive,
    n.WarpSync: DataOps.warp_sync,
    n.SetMaxNReg: DataOps.setmaxnreg,
    n.CpAsync: DataOps.cp_async,
    n.CpAsyncWait: DataOps.cp_wait,
    n.CpAsyncMbarrierArrive: DataOps.cp_arrive,
    n.BulkLoad: DataOps.bulk_load,
    n.BulkStore: DataOps.bulk_store,
    n.BulkCopy: DataOps.bulk_copy,
    n.TmaLoad: DataOps.tma_load,
    n.TmaStore: DataOps.tma_store,
    n.BulkWait: DataOps.bulk_wait,
    n.StAsync: DataOps.st_async,
    n.Fence: DataOps.fence,
    n.FenceProxyAsync: DataOps.proxy_fence,
    n.FenceProxyTensormap: DataOps.map_fence,
    n.TensormapCpFence: DataOps.map_cp_fence,
    n.Wgmma: DataOps.wgmma,
    n.WgmmaWait: DataOps.wgmma_wait,
    n.AtomShared: DataOps.atomic,
    n.LdGlobal: DataOps.ld_global,
    n.SpinGlobal: DataOps.spin,
}

_CONSTANT: dict[type[n.Stmt], Ev] = {
    n.FenceMbarrierInit: Ev.INIT_FENCE,
    n.CpAsyncCommit: Ev.CP_COMMIT,
    n.BulkCommit: Ev.BULK_COMMIT,
    n.WgmmaFence: Ev.WGMMA_FENCE,
    n.WgmmaCommit: Ev.WGMMA_COMMIT,
    n.GridDepWait: Ev.GRID_WAIT,
    n.GridDepLaunch: Ev.GRID_LAUNCH,
}
