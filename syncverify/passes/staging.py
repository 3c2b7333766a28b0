"""Results that leave through shared memory: a warpgroup writes a buffer of its own, one thread stores it.

Which pairs of accesses need something is asked of the ordering table: generic writes and the tensor copy
that reads them (*bridge*: a fence by every writer, then a barrier to the issuer), that copy and the next
writes into the slot (*completion*: the issuer waits for its groups, then a barrier to the writers).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from syncverify.ir.expr import Binary, Expr, Int, Var
from syncverify.ir.nodes import (
    BarrierSync,
    BulkCommit,
    BulkWait,
    FenceProxyAsync,
    For,
    If,
    Kernel,
    Role,
    Shared,
    StMatrix,
    Stmt,
    StShared,
    TmaStore,
)
from syncverify.model.ordering import Need
from syncverify.model.proxies import Access
from syncverify.passes.access import needed
from syncverify.passes.rewrite import Body, contains, flat_map, walk, with_bodies

#: Threads of a warpgroup, which shares one staging buffer.
GROUP = 128
#: The one thread of a warpgroup that issues its copies.
ISSUER: Expr = Binary("and", (Var("warp") % 4).eq(0), Var("elected"))


@dataclass(frozen=True)
class StagedStores:
    """Gives each warpgroup's staging buffer ``slots`` slots, and orders its writes and its tensor copies.

    A slot is ``p % slots`` in the loop over the parts of a tile, of which there are a multiple of ``slots``.
    ``unaligned``: the barrier form that PTX allows in role branches (K13).
    """

    slots: int
    unaligned: bool = False
    name: str = "staged-stores"

    def apply(self, kernel: Kernel) -> Kernel:
        stores = [s for s in walk(kernel.body) if isinstance(s, TmaStore)]
        if not stores:
            return kernel
        buffers = {s.src.buffer for s in stores}
        written = needed(kernel, Access.GENERIC_WRITE, Access.ASYNC_READ)
        reused = needed(kernel, Access.ASYNC_READ, Access.GENERIC_WRITE)
        body = flat_map(kernel.body, lambda s: (self._slotted(s, buffers),))
        body = self._within(body, written, reused, False)
        if any(reused.get(b) is Need.COMPLETION for b in buffers):
            body = tuple(self._drained(s) for s in body)
        shared = tuple(self._widened(s) if s.name in buffers else s for s in kernel.shared)
        return replace(kernel, body=body, shared=shared)

    def _widened(self, s: Shared) -> Shared:
        groups, *rest = s.shape
        return replace(s, shape=(groups, Int(self.slots), *rest))

    def _slotted(self, stmt: Stmt, buffers: set[str]) -> Stmt:
        """In the loop over parts: the slot comes after the warpgroup's index."""
        if not _parts(stmt):
            return stmt
        assert isinstance(stmt, For)
        slot = Var(stmt.var) % self.slots if self.slots > 1 else Int(0)

        def at_slot(s: Stmt) -> Iterable[Stmt]:
            match s:
                case StShared(dst=r) | StMatrix(dst=r) if r.buffer in buffers:
                    return (replace(s, dst=replace(r, index=(r.index[0], slot, *r.index[1:]))),)
                case TmaStore(src=r):
                    return (replace(s, src=replace(r, index=(r.index[0], slot, *r.index[1:]))),)
            return (s,)

        return replace(stmt, body=flat_map(stmt.body, at_slot))

    def _within(self, body: Body, written: dict[str, Need], reused: dict[str, Need], again: bool) -> Body:
        """``again``: a loop goes through the parts of several tiles."""
        return tuple(
            self._ordered(s, written, reused, again)
            if _parts(s)
            else with_bodies(s, lambda b, s=s: self._within(b, written, reused, again or isinstance(s, For)))  # type: ignore[misc]
            for s in body
        )

    def _ordered(self, stmt: Stmt, written: dict[str, Need], reused: dict[str, Need], again: bool) -> Stmt:
        assert isinstance(stmt, For) and isinstance(stmt.hi, Int)
        again = again or stmt.hi.value > self.slots
        at = next(k for k, s in enumerate(stmt.body) if isinstance(s, TmaStore))
        stores = tuple(s for s in stmt.body if isinstance(s, TmaStore))
        buffers = {s.src.buffer for s in stores if isinstance(s, TmaStore)}
        before: tuple[Stmt, ...] = ()
        if again and any(reused.get(b) is Need.COMPLETION for b in buffers):
            before = (If(ISSUER, (BulkWait(Int(self.slots - 1), read=True),)), self._sync())
        fences: tuple[Stmt, ...] = ()
        if any(written.get(b) is Need.BRIDGE for b in buffers):
            fences = (FenceProxyAsync("shared_cta"),)
        issue = If(ISSUER, (*stores, BulkCommit()))
        rest = tuple(s for s in stmt.body[at:] if not isinstance(s, TmaStore))
        return replace(stmt, body=(*before, *stmt.body[:at], *fences, self._sync(), issue, *rest))

    def _sync(self) -> BarrierSync:
        # a named barrier for each warpgroup; 0 is the block's
        return BarrierSync(Var("wg") + 1, Int(GROUP), aligned=not self.unaligned)

    def _drained(self, stmt: Stmt) -> Stmt:
        """Nothing may be in flight when the block's shared memory ends (K21)."""
        if isinstance(stmt, Role) and contains(stmt, TmaStore):
            return replace(stmt, body=(*stmt.body, If(ISSUER, (BulkWait(Int(0), read=True),))))
        return stmt


def _parts(stmt: Stmt) -> bool:
    """The loop over the parts of a tile: a tensor store stands in it, and not in a loop inside."""
    return isinstance(stmt, For) and any(isinstance(s, TmaStore) for s in stmt.body)


__all__ = ["ISSUER", "StagedStores"]
