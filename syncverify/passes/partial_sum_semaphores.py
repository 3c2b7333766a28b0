"""Partial sums that blocks hand over through global memory: plain stores, and a semaphore.

What is needed follows from the ordering table: the stores of a warpgroup and the reads of another one, in
another block (*order*: a barrier of the warpgroup, then a release by one thread that one thread of the other
acquires, and a barrier there).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.ir.expr import Int, Var
from syncverify.ir.nodes import (
    AtomGlobal,
    BarrierSync,
    BulkWait,
    For,
    GlobalRegion,
    If,
    Kernel,
    LdGlobal,
    SpinGlobal,
    StGlobal,
    Stmt,
)
from syncverify.passes.rewrite import flat_map
from syncverify.passes.staging import GROUP, ISSUER


@dataclass(frozen=True)
class HandOver:
    """Orders what one warpgroup leaves in ``sums``, and what another one, in another block, reads there.

    ``left``, ``added``: the semaphores of what a warpgroup leaves, and of what it reads, 0 at launch and
    afterwards; ``parts``: how many leave that. ``staged``: results leave by copies of the same thread.
    """

    sums: str
    left: GlobalRegion
    added: GlobalRegion
    parts: int
    staged: bool = False
    unaligned: bool = False
    name: str = "hand-over"

    def apply(self, kernel: Kernel) -> Kernel:
        return replace(kernel, body=flat_map(kernel.body, self._around))

    def _around(self, stmt: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(stmt, For):
            return (stmt,)
        if any(isinstance(s, StGlobal) and s.dst.tensor == self.sums for s in stmt.body):
            tell = AtomGlobal("add", self.left, Int(1), sem="release", scope="gpu")
            return (stmt, self._sync(), If(ISSUER, (tell,)))
        # a loop over those who left something, around one over its parts
        if any(isinstance(s, For) and any(map(self._reads, s.body)) for s in stmt.body):
            reset = StGlobal(self.added, Int(0), sem="relaxed", scope="gpu")
            spin = SpinGlobal(self.added, ">=", Int(self.parts))
            return (If(ISSUER, (*self._stored(), spin, reset)), self._sync(), stmt)
        return (stmt,)

    def _stored(self) -> tuple[Stmt, ...]:
        """By the way: nobody has to remember then what an earlier tile has stored."""
        return (BulkWait(Int(0), read=True),) if self.staged else ()

    def _reads(self, stmt: Stmt) -> bool:
        return isinstance(stmt, LdGlobal) and stmt.src.tensor == self.sums

    def _sync(self) -> BarrierSync:
        return BarrierSync(Var("wg") + 1, Int(GROUP), aligned=not self.unaligned)


__all__ = ["HandOver"]
