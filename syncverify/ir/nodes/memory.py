"""Loads, stores, atomics, and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncverify.ir.expr import Expr
from syncverify.ir.nodes.base import GlobalRegion, MemScope, Reduce, Region, Sem, Stmt


@dataclass(frozen=True, slots=True)
class LdShared(Stmt):
    """``ld.shared x, region``: value register ``x`` gets ``count`` elements per thread."""

    name: str
    src: Region


@dataclass(frozen=True, slots=True)
class StShared(Stmt):
    dst: Region
    value: Expr


@dataclass(frozen=True, slots=True)
class AtomShared(Stmt):
    """``[x =] atom.shared.OP[.scope] region, v``: relaxed atomic on shared memory (``red`` if no name)."""

    op: Reduce
    dst: Region
    value: Expr
    name: str | None = None
    scope: MemScope = "cta"


@dataclass(frozen=True, slots=True)
class LdGlobal(Stmt):
    name: str
    src: GlobalRegion
    sem: Sem = "weak"
    scope: MemScope = "gpu"


@dataclass(frozen=True, slots=True)
class StGlobal(Stmt):
    dst: GlobalRegion
    value: Expr
    sem: Sem = "weak"
    scope: MemScope = "gpu"


@dataclass(frozen=True, slots=True)
class AtomGlobal(Stmt):
    """``[x =] atom.global.OP.SEM.SCOPE dst, v`` (``red`` if no name)."""

    op: Reduce
    dst: GlobalRegion
    value: Expr
    name: str | None = None
    sem: Sem = "relaxed"
    scope: MemScope = "gpu"


@dataclass(frozen=True, slots=True)
class SpinGlobal(Stmt):
    """``spin.global.SEM.SCOPE src CMP e``: loops on a strong load until the comparison holds."""

    src: GlobalRegion
    cmp: Literal[">=", "==", ">", "!=", "<=", "<"]
    value: Expr
    sem: Sem = "acquire"
    scope: MemScope = "gpu"


@dataclass(frozen=True, slots=True)
class Multimem(Stmt):
    """``multimem.{ld_reduce,st,red}`` on a multicast global address."""

    kind: Literal["ld_reduce", "st", "red"]
    target: GlobalRegion
    name: str | None = None
    value: Expr | None = None
    op: Reduce = "add"
    sem: Sem = "weak"
    scope: MemScope = "sys"


@dataclass(frozen=True, slots=True)
class Compute(Stmt):
    """``compute y = value expression``: elementwise over value registers; uses what it names.

    ``reduce.add(v)``, ``reduce.max(v)`` and ``reduce.min(v)`` make one element of a register's elements.
    ``pairs(v)`` changes neighbours for each other, the first of two negated. ``philox(seed, offset, first,
    count, rows, pitch)`` makes random numbers in [0, 1) for places: ``rows`` runs of ``count`` places each,
    from ``first`` on.
    """

    name: str
    value: Expr
