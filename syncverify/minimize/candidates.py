"""What can be taken out of a kernel: single synchronizing statements, and protocols of several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from syncverify.ir import nodes as n
from syncverify.ir.expr import Int
from syncverify.passes.edits import Path, numbered, without
from syncverify.passes.rewrite import Body, bodies, walk

#: Statements that do nothing but synchronize: without one, a kernel computes the same or goes wrong.
SYNC = (
    n.BarrierSync, n.BarrierArrive, n.WarpSync, n.ClusterArrive, n.ClusterWait,
    n.MbarrierInit, n.MbarrierInval, n.MbarrierArrive, n.MbarrierExpectTx, n.MbarrierCompleteTx,
    n.MbarrierWait, n.CpAsyncCommit, n.CpAsyncWait, n.CpAsyncMbarrierArrive, n.BulkCommit, n.BulkWait,
    n.Fence, n.FenceMbarrierInit, n.FenceProxyAsync, n.FenceProxyTensormap,
    n.WgmmaFence, n.WgmmaCommit, n.WgmmaWait, n.GridDepWait, n.SpinGlobal,
)  # fmt: skip
_COPIES = (n.BulkLoad, n.TmaLoad, n.BulkCopy, n.StAsync, n.CpAsyncMbarrierArrive)
_ON_MBARRIER = (n.MbarrierInit, n.MbarrierInval, n.MbarrierArrive, n.MbarrierWait)
#: Operations of a whole warp, which its lanes must reach together.
WARP_COLLECTIVE = (
    n.Elect, n.LdMatrix, n.StMatrix, n.SetMaxNReg, n.WgmmaFence, n.Wgmma, n.WgmmaCommit, n.WgmmaWait,
)  # fmt: skip


def synchronizing(body: Body) -> dict[Path, n.Stmt]:
    """Every synchronizing statement with its place. One whose token is read counts as data."""
    return {
        p: s
        for p, s in numbered(body)
        if isinstance(s, SYNC) and not (isinstance(s, n.MbarrierArrive) and s.token is not None)
    }


def protocols(body: Body) -> Iterator[frozenset[Path]]:
    """Statements that are only of use together, largest first: one alone would hang or go wrong."""
    placed = list(numbered(body))
    for name in sorted({s.bar.name for _, s in placed if isinstance(s, _ON_MBARRIER)}):
        on = [(p, s) for p, s in placed if _names(s, name)]
        if all(isinstance(s, _ON_MBARRIER) and getattr(s, "token", None) in (None, False) for _, s in on):
            yield frozenset(p for p, _ in on)
    for number in range(16):
        at = [
            (p, s)
            for p, s in placed
            if isinstance(s, n.BarrierSync | n.BarrierArrive) and s.id == Int(number)
        ]
        if len(at) > 1:
            yield frozenset(p for p, _ in at)
    yield from _cluster_pairs(placed)


def _names(s: n.Stmt, barrier: str) -> bool:
    bar = getattr(s, "bar", None)
    return isinstance(bar, n.BarrierRef) and bar.name == barrier


def _cluster_pairs(placed: list[tuple[Path, n.Stmt]]) -> Iterator[frozenset[Path]]:
    """Each cluster arrival with the next wait of the same body."""
    for p, s in placed:
        if isinstance(s, n.ClusterArrive):
            later = [q for q, t in placed if isinstance(t, n.ClusterWait) and q[:-1] == p[:-1] and q > p]
            if later:
                yield frozenset({p, min(later)})


def taken_out(kernel: n.Kernel, gone: frozenset[Path]) -> n.Kernel:
    """The kernel without statements, the blocks they leave empty, and barriers that nobody names any more."""
    body = without(kernel.body, gone)
    named = {s.bar.name for s in walk(body) if isinstance(getattr(s, "bar", None), n.BarrierRef)}  # type: ignore[attr-defined]
    left = tuple(b for b in kernel.barriers if b.name in named)
    return replace(kernel, body=body, barriers=left)


def joins_lanes(body: Body, path: Path) -> bool:
    """Whether a warp barrier stands between a branch over lanes and an operation of the whole warp."""
    at: Body = body
    for k, branch in zip(path[:-1:2], path[1::2], strict=True):
        at = bodies(at[k])[branch]
    before, after = at[: path[-1]], at[path[-1] + 1 :]
    return (
        isinstance(at[path[-1]], n.WarpSync)
        and bool(before)
        and isinstance(before[-1], n.If)
        and bool(after)
        and isinstance(after[0], WARP_COLLECTIVE)
    )
