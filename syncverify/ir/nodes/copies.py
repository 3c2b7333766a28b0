"""Copies that threads start and do not carry out."""

from __future__ import annotations

from dataclasses import dataclass

from syncverify.ir.expr import Expr
from syncverify.ir.nodes.base import BarrierRef, GlobalRegion, Reduce, Region, Stmt


@dataclass(frozen=True, slots=True)
class CpAsync(Stmt):
    """Each thread copies its own ``dst`` (4, 8 or 16 bytes) from global memory; generic proxy."""

    dst: Region
    src: GlobalRegion


@dataclass(frozen=True, slots=True)
class CpAsyncCommit(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class CpAsyncWait(Stmt):
    """``cp.async.wait n``: all but the newest ``n`` groups; None is ``wait_all``."""

    pending: Expr | None


@dataclass(frozen=True, slots=True)
class CpAsyncMbarrierArrive(Stmt):
    bar: BarrierRef
    noinc: bool = False


@dataclass(frozen=True, slots=True)
class BulkLoad(Stmt):
    """1-D bulk copy global to shared; completes ``dst``'s bytes on ``bar``. ``multicast``: CTA mask."""

    dst: Region
    src: GlobalRegion
    bar: BarrierRef
    multicast: Expr | None = None


@dataclass(frozen=True, slots=True)
class BulkStore(Stmt):
    """1-D bulk copy shared to global, or a reduction into it; completion by bulk group."""

    dst: GlobalRegion
    src: Region
    reduce: Reduce | None = None


@dataclass(frozen=True, slots=True)
class BulkCopy(Stmt):
    """Bulk copy from own shared memory into another CTA's; completes on a barrier there."""

    dst: Region
    src: Region
    bar: BarrierRef


@dataclass(frozen=True, slots=True)
class BulkPrefetch(Stmt):
    src: GlobalRegion


@dataclass(frozen=True, slots=True)
class TmaLoad(Stmt):
    """Tensor copy of the map's box at ``coords`` (innermost last) into shared memory."""

    dst: Region
    map: str
    coords: tuple[Expr, ...]
    bar: BarrierRef
    multicast: Expr | None = None


@dataclass(frozen=True, slots=True)
class TmaStore(Stmt):
    map: str
    coords: tuple[Expr, ...]
    src: Region
    reduce: Reduce | None = None


@dataclass(frozen=True, slots=True)
class TmaPrefetch(Stmt):
    map: str
    coords: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class BulkCommit(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class BulkWait(Stmt):
    """``bulk.wait[.read] n``: all but the newest n bulk groups of this thread."""

    pending: Expr
    read: bool = False


@dataclass(frozen=True, slots=True)
class StAsync(Stmt):
    """``st.async``/``red.async``: a store into another CTA's shared memory; completes on ``bar`` there."""

    dst: Region
    value: Expr
    bar: BarrierRef
    reduce: Reduce | None = None
