"""Circular buffers: every staged buffer gets slots, used in turn by the iterations of its loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from syncverify.ir.expr import Expr, Int, Var
from syncverify.ir.nodes import BarrierRef, BulkLoad, BulkStore, For, Kernel, LdShared, Region, Stmt, StShared
from syncverify.passes.rewrite import contains, flat_map


@dataclass(frozen=True)
class CircularBuffers:
    """Gives each buffer of ``stages`` that many slots; iteration i of the tile loop uses slot i % S.

    The mbarriers on which a buffer's copies complete get one object per slot.
    """

    stages: Mapping[str, int]
    name: str = "circular-buffers"

    def apply(self, kernel: Kernel) -> Kernel:
        rings: dict[str, int] = {}

        def in_loop(stmt: Stmt) -> tuple[Stmt, ...]:
            if not (isinstance(stmt, For) and contains(stmt, (BulkLoad, BulkStore))):
                return (stmt,)
            use = Var(stmt.var)
            return (replace(stmt, body=flat_map(stmt.body, lambda s: (self._slotted(s, use, rings),))),)

        body = flat_map(kernel.body, in_loop)
        return replace(
            kernel,
            body=body,
            shared=tuple(
                replace(s, shape=(Int(self.stages[s.name]), *s.shape)) if s.name in self.stages else s
                for s in kernel.shared
            ),
            barriers=tuple(replace(b, count=Int(rings.get(b.name, 1))) for b in kernel.barriers),
        )

    def _slotted(self, stmt: Stmt, use: Expr, rings: dict[str, int]) -> Stmt:
        match stmt:
            case BulkLoad(dst=dst, bar=bar):
                stages = self.stages.get(dst.buffer)
                if stages is None:
                    return stmt
                rings[bar.name] = stages
                return replace(stmt, dst=self._region(dst, use), bar=BarrierRef(bar.name, use % stages))
            case BulkStore(src=r) | LdShared(src=r):
                return replace(stmt, src=self._region(r, use))
            case StShared(dst=r):
                return replace(stmt, dst=self._region(r, use))
        return stmt

    def _region(self, region: Region, use: Expr) -> Region:
        stages = self.stages.get(region.buffer)
        return region if stages is None else replace(region, index=(use % stages, *region.index))
