"""Mbarriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncverify.ir.expr import Expr, Int
from syncverify.ir.nodes.base import BarrierRef, Stmt


@dataclass(frozen=True, slots=True)
class MbarrierInit(Stmt):
    bar: BarrierRef
    count: Expr


@dataclass(frozen=True, slots=True)
class MbarrierInval(Stmt):
    bar: BarrierRef


@dataclass(frozen=True, slots=True)
class MbarrierArrive(Stmt):
    """``[let t =] mbarrier.arrive[.expect_tx][.drop][.no_complete][.relaxed][.cluster] b[, n][, count c]``"""

    bar: BarrierRef
    expect: Expr | None = None
    count: Expr = Int(1)
    sem: Literal["release", "relaxed"] = "release"
    scope: Literal["cta", "cluster"] = "cta"
    drop: bool = False
    no_complete: bool = False
    token: str | None = None


@dataclass(frozen=True, slots=True)
class MbarrierExpectTx(Stmt):
    bar: BarrierRef
    bytes: Expr


@dataclass(frozen=True, slots=True)
class MbarrierCompleteTx(Stmt):
    """Simulates the completion of a copy of ``bytes``; moves no data."""

    bar: BarrierRef
    bytes: Expr


@dataclass(frozen=True, slots=True)
class MbarrierWait(Stmt):
    """Spins on try_wait until true. ``phase`` is a parity, or a token's register if ``token``."""

    bar: BarrierRef
    phase: Expr
    token: bool = False
    sem: Literal["acquire", "relaxed"] = "acquire"
    scope: Literal["cta", "cluster"] = "cta"


@dataclass(frozen=True, slots=True)
class MbarrierTest(Stmt):
    """``p = mbarrier.test b, parity`` or ``mbarrier.try``: one poll; ``p`` is 1 if the phase is complete."""

    name: str
    bar: BarrierRef
    phase: Expr
    token: bool = False
    may_suspend: bool = False
    sem: Literal["acquire", "relaxed"] = "acquire"
    scope: Literal["cta", "cluster"] = "cta"
