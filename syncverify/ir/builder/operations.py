"""The builder's operations, one method per mnemonic, in the order of docs/syncir.md."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from syncverify.ir import nodes
from syncverify.ir.builder import handles as h
from syncverify.ir.expr import ExprLike, Var

ArriveSem = Literal["release", "relaxed"]
WaitSem = Literal["acquire", "relaxed"]
BarrierScope = Literal["cta", "cluster"]


class Operations(ABC):
    """Everything that is one line of text. ``KernelBuilder`` gives the blocks and the declarations."""

    @abstractmethod
    def add(self, stmt: nodes.Stmt) -> None:
        """Appends a statement to the open block."""

    @abstractmethod
    def fresh(self, name: str | None, prefix: str) -> str:
        """The name, or an unused one."""

    # control and integers

    def exit(self) -> None:
        self.add(nodes.Exit(span=h.caller()))

    def let(self, name: str, value: ExprLike) -> Var:
        self.add(nodes.Let(self.fresh(name, "r"), h.expression(value), span=h.caller()))
        return Var(name)

    def assign(self, name: Var | str, value: ExprLike) -> None:
        text = name.name if isinstance(name, Var) else name
        self.add(nodes.Assign(text, h.expression(value), span=h.caller()))

    def load(self, source: nodes.GlobalRegion, name: str | None = None) -> Var:
        """``let name = load a[i]``."""
        name = self.fresh(name, "n")
        self.add(nodes.LoadIndex(name, h.global_region(source), span=h.caller()))
        return Var(name)

    # execution barriers and warp level

    def bar_sync(self, id: ExprLike, threads: ExprLike | None = None) -> None:
        self.add(nodes.BarrierSync(h.expression(id), h.optional(threads), span=h.caller()))

    def bar_red(self, id: ExprLike, threads: ExprLike | None = None) -> None:
        self.add(nodes.BarrierSync(h.expression(id), h.optional(threads), red=True, span=h.caller()))

    def bar_arrive(self, id: ExprLike, threads: ExprLike) -> None:
        self.add(nodes.BarrierArrive(h.expression(id), h.expression(threads), span=h.caller()))

    def barrier_sync(self, id: ExprLike, threads: ExprLike | None = None) -> None:
        self.add(nodes.BarrierSync(h.expression(id), h.optional(threads), aligned=False, span=h.caller()))

    def barrier_red(self, id: ExprLike, threads: ExprLike | None = None) -> None:
        stmt = nodes.BarrierSync(
            h.expression(id), h.optional(threads), aligned=False, red=True, span=h.caller()
        )
        self.add(stmt)

    def barrier_arrive(self, id: ExprLike, threads: ExprLike) -> None:
        self.add(nodes.BarrierArrive(h.expression(id), h.expression(threads), aligned=False, span=h.caller()))

    def warp_sync(self, mask: ExprLike | None = None) -> None:
        self.add(nodes.WarpSync(h.optional(mask), span=h.caller()))

    def cluster_arrive(self, sem: ArriveSem = "release", aligned: bool = False) -> None:
        self.add(nodes.ClusterArrive(sem, aligned, span=h.caller()))

    def cluster_wait(self, aligned: bool = False) -> None:
        self.add(nodes.ClusterWait(aligned, span=h.caller()))

    def elect(self, name: str | None = None) -> Var:
        name = self.fresh(name, "p")
        self.add(nodes.Elect(name, span=h.caller()))
        return Var(name)

    def setmaxnreg_inc(self, count: ExprLike) -> None:
        self.add(nodes.SetMaxNReg("inc", h.expression(count), span=h.caller()))

    def setmaxnreg_dec(self, count: ExprLike) -> None:
        self.add(nodes.SetMaxNReg("dec", h.expression(count), span=h.caller()))

    def griddep_wait(self) -> None:
        self.add(nodes.GridDepWait(span=h.caller()))

    def griddep_launch(self) -> None:
        self.add(nodes.GridDepLaunch(span=h.caller()))

    # mbarrier

    def mbarrier_init(self, bar: h.BarrierLike, count: ExprLike) -> None:
        self.add(nodes.MbarrierInit(h.barrier(bar), h.expression(count), span=h.caller()))

    def mbarrier_inval(self, bar: h.BarrierLike) -> None:
        self.add(nodes.MbarrierInval(h.barrier(bar), span=h.caller()))

    def mbarrier_arrive(
        self,
        bar: h.BarrierLike,
        *,
        expect_tx: ExprLike | None = None,
        count: ExprLike = 1,
        sem: ArriveSem = "release",
        scope: BarrierScope = "cta",
        drop: bool = False,
        no_complete: bool = False,
        token: str | None = None,
    ) -> Var | None:
        """An arrival; with ``token`` a name, the token of the phase it arrived in."""
        if token is not None:
            token = self.fresh(token, "t")
        stmt = nodes.MbarrierArrive(
            h.barrier(bar), h.optional(expect_tx), h.expression(count), sem, scope, drop, no_complete, token,
            span=h.caller(),
        )  # fmt: skip
        self.add(stmt)
        return None if token is None else Var(token)

    def mbarrier_expect_tx(self, bar: h.BarrierLike, bytes: ExprLike) -> None:
        self.add(nodes.MbarrierExpectTx(h.barrier(bar), h.expression(bytes), span=h.caller()))

    def mbarrier_complete_tx(self, bar: h.BarrierLike, bytes: ExprLike) -> None:
        self.add(nodes.MbarrierCompleteTx(h.barrier(bar), h.expression(bytes), span=h.caller()))

    def mbarrier_wait(
        self, bar: h.BarrierLike, phase: ExprLike, *, token: bool = False, sem: WaitSem = "acquire",
        scope: BarrierScope = "cta",
    ) -> None:  # fmt: skip
        """Waits for a parity, or with ``token=True`` for the phase of a token."""
        stmt = nodes.MbarrierWait(h.barrier(bar), h.expression(phase), token, sem, scope, span=h.caller())
        self.add(stmt)

    def mbarrier_test(
        self, bar: h.BarrierLike, phase: ExprLike, name: str | None = None, *, token: bool = False,
        sem: WaitSem = "acquire", scope: BarrierScope = "cta",
    ) -> Var:  # fmt: skip
        return self._poll(False, bar, phase, name, token, sem, scope)

    def mbarrier_try(
        self, bar: h.BarrierLike, phase: ExprLike, name: str | None = None, *, token: bool = False,
        sem: WaitSem = "acquire", scope: BarrierScope = "cta",
    ) -> Var:  # fmt: skip
        return self._poll(True, bar, phase, name, token, sem, scope)

    def _poll(
        self, suspend: bool, bar: h.BarrierLike, phase: ExprLike, name: str | None, token: bool, sem: WaitSem,
        scope: BarrierScope,
    ) -> Var:  # fmt: skip
        name = self.fresh(name, "done")
        ref, parity = h.barrier(bar), h.expression(phase)
        self.add(nodes.MbarrierTest(name, ref, parity, token, suspend, sem, scope, span=h.caller()))
        return Var(name)

    # asynchronous copies

    def cp_async(self, dst: h.RegionLike, src: nodes.GlobalRegion) -> None:
        self.add(nodes.CpAsync(h.region(dst), h.global_region(src), span=h.caller()))

    def cp_async_commit(self) -> None:
        self.add(nodes.CpAsyncCommit(span=h.caller()))

    def cp_async_wait(self, pending: ExprLike) -> None:
        self.add(nodes.CpAsyncWait(h.expression(pending), span=h.caller()))

    def cp_async_wait_all(self) -> None:
        self.add(nodes.CpAsyncWait(None, span=h.caller()))

    def cp_async_mbarrier_arrive(self, bar: h.BarrierLike, noinc: bool = False) -> None:
        self.add(nodes.CpAsyncMbarrierArrive(h.barrier(bar), noinc, span=h.caller()))

    def bulk_load(
        self,
        dst: h.RegionLike,
        src: nodes.GlobalRegion,
        bar: h.BarrierLike,
        multicast: ExprLike | None = None,
    ) -> None:
        d, s, b = h.region(dst), h.global_region(src), h.barrier(bar)
        self.add(nodes.BulkLoad(d, s, b, h.optional(multicast), span=h.caller()))

    def bulk_store(self, dst: nodes.GlobalRegion, src: h.RegionLike) -> None:
        self.add(nodes.BulkStore(h.global_region(dst), h.region(src), span=h.caller()))

    def bulk_reduce(self, op: nodes.Reduce, dst: nodes.GlobalRegion, src: h.RegionLike) -> None:
        self.add(nodes.BulkStore(h.global_region(dst), h.region(src), op, span=h.caller()))

    def bulk_copy(self, dst: h.RegionLike, src: h.RegionLike, bar: h.BarrierLike) -> None:
        self.add(nodes.BulkCopy(h.region(dst), h.region(src), h.barrier(bar), span=h.caller()))

    def bulk_prefetch(self, src: nodes.GlobalRegion) -> None:
        self.add(nodes.BulkPrefetch(h.global_region(src), span=h.caller()))

    def tma_load(
        self, dst: h.RegionLike, box: h.Box, bar: h.BarrierLike, multicast: ExprLike | None = None
    ) -> None:
        d, s, b = h.region(dst), h.box(box), h.barrier(bar)
        self.add(nodes.TmaLoad(d, s.map, s.coords, b, h.optional(multicast), span=h.caller()))

    def tma_store(self, box: h.Box, src: h.RegionLike) -> None:
        d = h.box(box)
        self.add(nodes.TmaStore(d.map, d.coords, h.region(src), span=h.caller()))

    def tma_reduce(self, op: nodes.Reduce, box: h.Box, src: h.RegionLike) -> None:
        d = h.box(box)
        self.add(nodes.TmaStore(d.map, d.coords, h.region(src), op, span=h.caller()))

    def tma_prefetch(self, box: h.Box) -> None:
        s = h.box(box)
        self.add(nodes.TmaPrefetch(s.map, s.coords, span=h.caller()))

    def bulk_commit(self) -> None:
        self.add(nodes.BulkCommit(span=h.caller()))

    def bulk_wait(self, pending: ExprLike = 0, read: bool = False) -> None:
        self.add(nodes.BulkWait(h.expression(pending), read, span=h.caller()))

    def st_async(self, dst: h.RegionLike, value: ExprLike, bar: h.BarrierLike) -> None:
        self.add(nodes.StAsync(h.region(dst), h.expression(value), h.barrier(bar), span=h.caller()))

    def red_async(self, op: nodes.Reduce, dst: h.RegionLike, value: ExprLike, bar: h.BarrierLike) -> None:
        self.add(nodes.StAsync(h.region(dst), h.expression(value), h.barrier(bar), op, span=h.caller()))

    # fences and tensor maps

    def fence(
        self, sem: Literal["acq_rel", "sc", "acquire", "release"] = "acq_rel", scope: nodes.MemScope = "cta"
    ) -> None:
        self.add(nodes.Fence(sem, scope, span=h.caller()))

    def fence_sync_restrict(self, sem: Literal["acquire", "release"]) -> None:
        self.add(nodes.Fence(sem, "cluster", True, span=h.caller()))

    def fence_mbarrier_init(self) -> None:
        self.add(nodes.FenceMbarrierInit(span=h.caller()))

    def fence_proxy_async(
        self,
        space: Literal["all", "global", "shared_cta", "shared_cluster"] = "all",
        half: Literal["release", "acquire"] | None = None,
    ) -> None:
        self.add(nodes.FenceProxyAsync(space, half, span=h.caller()))

    def fence_proxy_tensormap(
        self, sem: Literal["release", "acquire"], map: h.Named | None = None, scope: nodes.MemScope = "gpu"
    ) -> None:
        name = None if map is None else h.name_of(map)
        self.add(nodes.FenceProxyTensormap(sem, scope, name, span=h.caller()))

    def tensormap_replace(self, map: h.Named, field: str, value: ExprLike) -> None:
        self.add(nodes.TensormapReplace(h.name_of(map), field, h.expression(value), span=h.caller()))

    def tensormap_cp_fence(self, map: h.Named, scope: nodes.MemScope = "gpu") -> None:
        self.add(nodes.TensormapCpFence(h.name_of(map), scope, span=h.caller()))

    # tensor core

    def wgmma_fence(self) -> None:
        self.add(nodes.WgmmaFence(span=h.caller()))

    def wgmma_mma(
        self, acc: h.Named, a: h.RegionLike | h.FragmentHandle, b: h.RegionLike, scale_d: ExprLike = 1,
        *, a_t: bool = False, b_t: bool = False,
    ) -> None:  # fmt: skip
        left = a.name if isinstance(a, h.FragmentHandle) else h.region(a)
        scale = h.expression(scale_d)
        self.add(nodes.Wgmma(h.name_of(acc), left, h.region(b), scale, a_t, b_t, span=h.caller()))

    def wgmma_commit(self) -> None:
        self.add(nodes.WgmmaCommit(span=h.caller()))

    def wgmma_wait(self, pending: ExprLike = 0) -> None:
        self.add(nodes.WgmmaWait(h.expression(pending), span=h.caller()))

    def frag_read(
        self, frag: h.Named, name: str | None = None, *, start: ExprLike | None = None,
        count: ExprLike | None = None,
    ) -> Var:  # fmt: skip
        name = self.fresh(name, "v")
        part = (h.optional(start), h.optional(count))
        self.add(nodes.FragRead(name, h.name_of(frag), *part, span=h.caller()))
        return Var(name)

    def shfl(
        self, value: ExprLike, lane: ExprLike, mode: Literal["bfly", "idx"] = "bfly", name: str | None = None
    ) -> Var:
        name = self.fresh(name, "v")
        self.add(nodes.Shuffle(name, h.expression(value), h.expression(lane), mode, span=h.caller()))
        return Var(name)

    def frag_write(self, frag: h.Named, value: ExprLike, start: ExprLike | None = None) -> None:
        place = None if start is None else h.expression(start)
        self.add(nodes.FragWrite(h.name_of(frag), h.expression(value), place, span=h.caller()))

    def ldmatrix(self, src: h.RegionLike, name: h.Named | None = None) -> Var:
        """Into a value register, or into a fragment if one is given."""
        text = self.fresh(None, "v") if name is None else h.name_of(name)
        self.add(nodes.LdMatrix(text, h.region(src), span=h.caller()))
        return Var(text)

    def stmatrix(self, dst: h.RegionLike, value: ExprLike) -> None:
        self.add(nodes.StMatrix(h.region(dst), h.expression(value), span=h.caller()))

    # generic memory and values

    def ld_shared(self, src: h.RegionLike, name: str | None = None) -> Var:
        name = self.fresh(name, "v")
        self.add(nodes.LdShared(name, h.region(src), span=h.caller()))
        return Var(name)

    def st_shared(self, dst: h.RegionLike, value: ExprLike) -> None:
        self.add(nodes.StShared(h.region(dst), h.expression(value), span=h.caller()))

    def atom_shared(
        self, op: nodes.Reduce, dst: h.RegionLike, value: ExprLike, name: str | None = None,
        scope: nodes.MemScope = "cta",
    ) -> None:  # fmt: skip
        self.add(nodes.AtomShared(op, h.region(dst), h.expression(value), name, scope, span=h.caller()))

    def ld_global(
        self, src: nodes.GlobalRegion, name: str | None = None, sem: nodes.Sem = "weak",
        scope: nodes.MemScope = "gpu",
    ) -> Var:  # fmt: skip
        name = self.fresh(name, "v")
        self.add(nodes.LdGlobal(name, h.global_region(src), sem, scope, span=h.caller()))
        return Var(name)

    def st_global(
        self, dst: nodes.GlobalRegion, value: ExprLike, sem: nodes.Sem = "weak", scope: nodes.MemScope = "gpu"
    ) -> None:
        self.add(nodes.StGlobal(h.global_region(dst), h.expression(value), sem, scope, span=h.caller()))

    def atom_global(
        self, op: nodes.Reduce, dst: nodes.GlobalRegion, value: ExprLike, name: str | None = None,
        sem: nodes.Sem = "relaxed", scope: nodes.MemScope = "gpu",
    ) -> None:  # fmt: skip
        d, v = h.global_region(dst), h.expression(value)
        self.add(nodes.AtomGlobal(op, d, v, name, sem, scope, span=h.caller()))

    def spin_global(
        self, src: nodes.GlobalRegion, cmp: Literal[">=", "==", ">", "!=", "<=", "<"], value: ExprLike,
        sem: nodes.Sem = "acquire", scope: nodes.MemScope = "gpu",
    ) -> None:  # fmt: skip
        s, v = h.global_region(src), h.expression(value)
        self.add(nodes.SpinGlobal(s, cmp, v, sem, scope, span=h.caller()))

    def multimem_ld_reduce(
        self, op: nodes.Reduce, src: nodes.GlobalRegion, name: str | None = None, sem: nodes.Sem = "weak",
        scope: nodes.MemScope = "sys",
    ) -> Var:  # fmt: skip
        name = self.fresh(name, "v")
        s = h.global_region(src)
        self.add(nodes.Multimem("ld_reduce", s, name, None, op, sem, scope, span=h.caller()))
        return Var(name)

    def multimem_st(
        self, dst: nodes.GlobalRegion, value: ExprLike, sem: nodes.Sem = "weak", scope: nodes.MemScope = "sys"
    ) -> None:
        d, v = h.global_region(dst), h.expression(value)
        self.add(nodes.Multimem("st", d, None, v, "add", sem, scope, span=h.caller()))

    def multimem_red(
        self, op: nodes.Reduce, dst: nodes.GlobalRegion, value: ExprLike, sem: nodes.Sem = "weak",
        scope: nodes.MemScope = "sys",
    ) -> None:  # fmt: skip
        d, v = h.global_region(dst), h.expression(value)
        self.add(nodes.Multimem("red", d, None, v, op, sem, scope, span=h.caller()))

    def compute(self, value: ExprLike, name: str | None = None) -> Var:
        """``compute name = value``."""
        name = self.fresh(name, "v")
        self.add(nodes.Compute(name, h.expression(value), span=h.caller()))
        return Var(name)
