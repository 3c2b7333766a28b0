"""Partial sums that blocks leave for one another in global memory: bulk copies, and a semaphore.

What is needed follows from the ordering table: generic writes of the staging buffer and the bulk copy that
reads it (*bridge*: a fence by every writer, then a barrier to the issuer), the copy and what another block
does with the sums (*completion*: the issuer waits for its groups in full, for reads alone say nothing of
what was written; then a release that the other block acquires, and a barrier to its other threads), and one
block's sums before another bulk reduction into them (the same, and a fence from the acquire to the async
proxy).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.ir.expr import Expr, Int, Var
from syncverify.ir.layout import layout
from syncverify.ir.nodes import (
    AtomGlobal,
    BarrierSync,
    BulkCommit,
    BulkStore,
    BulkWait,
    FenceProxyAsync,
    For,
    GlobalRegion,
    If,
    Kernel,
    LdGlobal,
    Region,
    SpinGlobal,
    StGlobal,
    Stmt,
    StShared,
)
from syncverify.model.ordering import Need
from syncverify.model.proxies import Access
from syncverify.passes.access import needed
from syncverify.passes.rewrite import flat_map, walk
from syncverify.passes.staging import GROUP, ISSUER


@dataclass(frozen=True)
class PartialSums:
    """Orders what one warpgroup leaves of its tile, and what another one, in another block, adds to its own.

    ``cell``: the semaphore of what they share, 0 at launch and afterwards. ``behind``: how many partial sums
    come before this one. ``ordered``: each is added after the one before it. ``alias``: a buffer of the same
    size that is used at other times, or none.

    The fence behind an acquire is for the async proxies of two blocks, which may be two (K5).
    """

    cell: GlobalRegion
    behind: Expr
    ordered: bool
    slots: int = 2
    alias: str | None = None
    unaligned: bool = False
    name: str = "partial-sums"

    def apply(self, kernel: Kernel) -> Kernel:
        buffers = {s.src.buffer for s in walk(kernel.body) if isinstance(s, BulkStore)}
        if not buffers:
            return kernel
        bridges = needed(kernel, Access.GENERIC_WRITE, Access.ASYNC_READ)
        fenced = any(bridges.get(b) is Need.BRIDGE for b in buffers)

        def around(stmt: Stmt) -> tuple[Stmt, ...]:
            if isinstance(stmt, For) and _leaves(stmt):
                return self._left(stmt, fenced)
            if isinstance(stmt, If) and any(isinstance(s, BulkStore) for s in walk(stmt.then)):
                reads = any(isinstance(s, LdGlobal) for s in walk(stmt.orelse))
                return (replace(stmt, orelse=(*self._awaited(), *stmt.orelse)),) if reads else (stmt,)
            return (stmt,)

        shared = tuple(
            replace(s, shape=(s.shape[0], Int(self.slots), *s.shape[1:])) if s.name in buffers else s
            for s in kernel.shared
        )
        changed = replace(kernel, body=flat_map(kernel.body, around), shared=shared)
        return changed if self.alias is None else _laid_over(changed, buffers, self.alias)

    def _left(self, loop: For, fenced: bool) -> tuple[Stmt, ...]:
        """The parts one by one, through slots of a buffer; then the others hear of it."""
        slot = Var(loop.var) % self.slots if self.slots > 1 else Int(0)

        def at_slot(r: Region) -> Region:
            return replace(r, index=(r.index[0], slot, *r.index[1:]))

        def slotted(s: Stmt) -> tuple[Stmt, ...]:
            match s:
                case BulkStore(src=r):
                    return (replace(s, src=at_slot(r)),)
                case StShared(dst=r):
                    return (replace(s, dst=at_slot(r)),)
            return (s,)

        body = flat_map(loop.body, slotted)
        at = next(k for k, s in enumerate(body) if any(isinstance(x, BulkStore) for x in walk((s,))))
        free: tuple[Stmt, ...] = ()
        if not isinstance(loop.hi, Int) or loop.hi.value > self.slots:
            free = (If(ISSUER, (BulkWait(Int(self.slots - 1), read=True),)), self._sync())
        fence: tuple[Stmt, ...] = (FenceProxyAsync("shared_cta"),) if fenced else ()
        issue = If(ISSUER, (*body[at:], BulkCommit()))
        parts = replace(loop, body=(*free, *body[:at], *fence, self._sync(), issue))
        tell = If(
            ISSUER, (BulkWait(Int(0)), AtomGlobal("add", self.cell, Int(1), sem="release", scope="gpu"))
        )
        if not self.ordered:
            return (parts, tell)
        turn = (SpinGlobal(self.cell, ">=", self.behind), FenceProxyAsync("global"))
        return (If(ISSUER, (If(self.behind > 0, turn),)), parts, tell)

    def _awaited(self) -> tuple[Stmt, ...]:
        """Until all others have left their sums; the semaphore is ready for the next launch."""
        reset = StGlobal(self.cell, Int(0), sem="relaxed", scope="gpu")
        wait = If(ISSUER, (SpinGlobal(self.cell, ">=", self.behind), reset))
        return (If(self.behind > 0, (wait, self._sync())),)

    def _sync(self) -> BarrierSync:
        return BarrierSync(Var("wg") + 1, Int(GROUP), aligned=not self.unaligned)


def _leaves(loop: For) -> bool:
    """The innermost loop around bulk stores."""
    inside = list(walk(loop.body))
    return any(isinstance(s, BulkStore) for s in inside) and not any(isinstance(s, For) for s in inside)


def _laid_over(kernel: Kernel, buffers: set[str], alias: str) -> Kernel:
    """The kernel with some buffers at the place of another one."""
    without = replace(kernel, shared=tuple(s for s in kernel.shared if s.name not in buffers))
    at = Int(layout(without, {}).buffers[alias].offset)
    shared = tuple(replace(s, offset=at) if s.name in {*buffers, alias} else s for s in kernel.shared)
    return replace(kernel, shared=shared)


__all__ = ["PartialSums"]
