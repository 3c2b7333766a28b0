"""Control, integers, and barriers whose objects are no memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncverify.ir.expr import Expr
from syncverify.ir.nodes.base import GlobalRegion, Stmt


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """``for var in lo..hi step step { body }``; bounds are evaluated once, at entry."""

    var: str
    lo: Expr
    hi: Expr
    step: Expr
    body: tuple[Stmt, ...]
    unroll: int | None = None


@dataclass(frozen=True, slots=True)
class If(Stmt):
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Role(Stmt):
    """``role NAME UNIT lo..hi { body }``: threads whose ``tid``, ``warp`` or ``wg`` is in lo..hi-1."""

    name: str
    unit: Literal["threads", "warps", "warpgroups"]
    lo: Expr
    hi: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Let(Stmt):
    """Declares an integer register (``let r = e``)."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    """Sets an integer register declared before (``r = e``)."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class LoadIndex(Stmt):
    """``let r = load t[i]``: an integer from read-only global memory (data-dependent control)."""

    name: str
    source: GlobalRegion


@dataclass(frozen=True, slots=True)
class Exit(Stmt):
    """The executing threads leave the kernel."""


# execution barriers and warp-level


@dataclass(frozen=True, slots=True)
class BarrierSync(Stmt):
    """``bar.sync``/``barrier.sync id[, threads]`` (and ``.red``); no count means the whole CTA."""

    id: Expr
    count: Expr | None = None
    aligned: bool = True
    red: bool = False


@dataclass(frozen=True, slots=True)
class BarrierArrive(Stmt):
    id: Expr
    count: Expr
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class WarpSync(Stmt):
    """``warp.sync [mask]``; no mask means all 32 lanes."""

    mask: Expr | None = None


@dataclass(frozen=True, slots=True)
class ClusterArrive(Stmt):
    sem: Literal["release", "relaxed"] = "release"
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class ClusterWait(Stmt):
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class Elect(Stmt):
    """``elect p``: integer register ``p`` is 1 in one unspecified lane of the warp, 0 in the others."""

    name: str


@dataclass(frozen=True, slots=True)
class Shuffle(Stmt):
    """``shfl.bfly x, v, m``: the value of lane ``lane ^ m``; ``shfl.idx x, v, l``: that of lane ``l``.

    All 32 lanes execute it together; it orders no memory accesses.
    """

    name: str
    value: Expr
    lane: Expr
    mode: Literal["bfly", "idx"] = "bfly"


@dataclass(frozen=True, slots=True)
class SetMaxNReg(Stmt):
    direction: Literal["inc", "dec"]
    count: Expr


@dataclass(frozen=True, slots=True)
class GridDepWait(Stmt):
    """``griddep.wait``: earlier grids of a programmatic launch are complete and visible."""


@dataclass(frozen=True, slots=True)
class GridDepLaunch(Stmt):
    pass
