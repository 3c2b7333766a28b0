"""Order among blocks and among launches: semaphores in global memory, programmatic dependent launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from syncverify.base.source import InputError
from syncverify.ir.expr import LANE_BUILTINS, Expr, Int, Var, names
from syncverify.ir.nodes import (
    AtomGlobal,
    BarrierSync,
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
    CpAsync,
    For,
    GlobalRegion,
    GridDepLaunch,
    GridDepWait,
    If,
    Kernel,
    LdGlobal,
    LoadIndex,
    Role,
    SpinGlobal,
    StGlobal,
    Stmt,
    Tensor,
    TmaLoad,
    TmaStore,
)
from syncverify.passes.edits import Edits, Path, enclosing, numbered, statement
from syncverify.passes.rewrite import walk

_STORES = (BulkStore, TmaStore)


@dataclass(frozen=True)
class GridSemaphores:
    """Bulk stores or reductions into a tensor that blocks read later in the same kernel.

    The issuer waits for its group in full, for reads alone say nothing of what was written, and raises
    ``counter`` with release. A reader waits, by one thread, until all blocks have, and tells its block by a
    barrier. With ``serial`` blocks write in the order of their numbers, each after the one before it: then
    the sum does not depend on who comes first. Blocks wait for each other, so all must run at once.
    """

    counter: str = "semaphore"
    serial: bool = False
    name: str = "grid-semaphores"

    def apply(self, kernel: Kernel) -> Kernel:
        exchanged = _exchanged(kernel)
        if not exchanged:
            return kernel
        edits = Edits()
        writes = [p for p, s in numbered(kernel.body) if _written(kernel, s) in exchanged]
        reads = [p for p, s in numbered(kernel.body) if _read(kernel, s) in exchanged]
        for p in writes:
            if not isinstance(statement(kernel.body, p), _STORES):
                raise InputError("blocks exchange what bulk stores write", statement(kernel.body, p).span)
        cell = GlobalRegion(self.counter, Int(0))
        issuer = _issuer(kernel, writes)
        last = (*issuer, 0, max(p[len(issuer) + 1] for p in writes))
        first = (*issuer, 0, min(p[len(issuer) + 1] for p in writes))
        if self.serial:
            edits.put_before(first, SpinGlobal(cell, ">=", Var("block")))
        raised = AtomGlobal("add", cell, Int(1), sem="release", scope="gpu")
        edits.put_after(last, BulkCommit(), BulkWait(Int(0)), raised)
        waiting = Role("acquire", "warps", Int(0), Int(1), (_elected(SpinGlobal(cell, ">=", Var("grid"))),))
        at = _before_reads(kernel, reads)
        edits.put_before(at, waiting, BarrierSync(Int(0)))
        semaphore = Tensor(self.counter, "u32", (Int(1),), "inout")
        launch = replace(kernel.launch, cooperative=True)
        body = edits.apply(kernel.body)
        return replace(kernel, body=body, tensors=(*kernel.tensors, semaphore), launch=launch)


def _elected(s: Stmt) -> Stmt:
    return If(Var("lane").eq(0), (s,))


def _issuer(kernel: Kernel, writes: list[Path]) -> Path:
    """The one role, outside all loops, that issues the stores."""
    roles = {
        next((q for q in reversed(list(enclosing(p))) if isinstance(statement(kernel.body, q), Role)), ())
        for p in writes
    }
    (role,) = roles if len(roles) == 1 else {()}
    if not role or any(isinstance(statement(kernel.body, q), For) for q in enclosing(role)):
        raise InputError("what blocks exchange is stored once, by one role", kernel.span)
    return role


def _before_reads(kernel: Kernel, reads: list[Path]) -> Path:
    """The first read, outside loops and conditions over threads; all its block's threads are there."""
    at = min(reads)
    while len(at) > 2:
        around = statement(kernel.body, at[:-2])
        if isinstance(around, If) and not _over_threads(around.cond):
            break
        at = at[:-2]
    return at


def _over_threads(e: Expr) -> bool:
    return not names(e).isdisjoint(LANE_BUILTINS | {"warp", "wg"})


def _exchanged(kernel: Kernel) -> set[str]:
    """Tensors that are both written and read."""
    written = {_written(kernel, s) for s in walk(kernel.body)}
    read = {_read(kernel, s) for s in walk(kernel.body)}
    return {t for t in written & read if t is not None}


def _written(kernel: Kernel, s: Stmt) -> str | None:
    match s:
        case BulkStore(dst=g) | StGlobal(dst=g) | AtomGlobal(dst=g):
            return g.tensor
        case TmaStore(map=name):
            return next(m.tensor for m in kernel.maps if m.name == name)
    return None


def _read(kernel: Kernel, s: Stmt) -> str | None:
    match s:
        case LdGlobal(src=g) | BulkLoad(src=g) | CpAsync(src=g) | LoadIndex(source=g):
            return g.tensor
        case TmaLoad(map=name):
            return next(m.tensor for m in kernel.maps if m.name == name)
    return None


@dataclass(frozen=True)
class DependentLaunch:
    """Programmatic dependent launch: before the first access to global memory, of whatever proxy, every
    thread waits for the kernels in front; barriers are set up earlier. Behind the last one others may start.

    ``launch``: where dependents are let go, ``end`` or ``start``; they wait for our end either way.
    """

    launch: Literal["start", "end"] = "end"
    name: str = "dependent-launch"

    def apply(self, kernel: Kernel) -> Kernel:
        tops = [k for k, s in enumerate(kernel.body) if any(_global(kernel, (s,)))]
        if not tops:
            return kernel
        body = list(kernel.body)
        if self.launch == "end":
            body.insert(tops[-1] + 1, GridDepLaunch())
        body.insert(tops[0], GridDepWait())
        if self.launch == "start":
            body.insert(tops[0] + 1, GridDepLaunch())
        return replace(kernel, body=tuple(body), launch=replace(kernel.launch, dependent=True))


def _global(kernel: Kernel, body: tuple[Stmt, ...]) -> Iterator[str]:
    for s in walk(body):
        touched = _written(kernel, s) or _read(kernel, s)
        if touched is not None:
            yield touched
