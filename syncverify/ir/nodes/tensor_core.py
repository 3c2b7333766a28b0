"""Warpgroup matrix products, their fragments, and matrices between registers and shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from syncverify.ir.expr import Expr, Int
from syncverify.ir.nodes.base import Region, Stmt


@dataclass(frozen=True, slots=True)
class WgmmaFence(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class Wgmma(Stmt):
    """``wgmma.mma[.a_t][.b_t] acc, A, B``: A from shared memory or a fragment, B from shared memory.

    A's region holds M x K elements and B's K x N; ``a_t``: K x M, ``b_t``: N x K. Rows longer than the
    buffer's swizzle span come in panels of that width.
    """

    acc: str
    a: Region | str
    b: Region
    accumulate: Expr = Int(1)
    a_t: bool = False
    b_t: bool = False


@dataclass(frozen=True, slots=True)
class WgmmaCommit(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class WgmmaWait(Stmt):
    pending: Expr


@dataclass(frozen=True, slots=True)
class FragRead(Stmt):
    """``frag.read x, acc``: the executing threads' share of a fragment, as a value.

    A thread's share of 64 rows (PTX ISA, wgmma: Register Fragments) follows that of the 64 before;
    ``count`` of its elements from ``start`` on, or all.
    """

    name: str
    frag: str
    start: Expr | None = None
    count: Expr | None = None


@dataclass(frozen=True, slots=True)
class FragWrite(Stmt):
    """``frag.write acc, value[, start e]``: the threads' share, or a run of it from ``start`` on."""

    frag: str
    value: Expr
    start: Expr | None = None


@dataclass(frozen=True, slots=True)
class LdMatrix(Stmt):
    """Warp-collective load of a shared region into a value register or a fragment."""

    name: str
    src: Region


@dataclass(frozen=True, slots=True)
class StMatrix(Stmt):
    """Warp-collective store. A region of 16 rows gets the warp's part of a fragment, element for element."""

    dst: Region
    value: Expr
