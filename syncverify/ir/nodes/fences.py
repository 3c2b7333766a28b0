"""Fences, and tensor maps that a kernel edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncverify.ir.expr import Expr
from syncverify.ir.nodes.base import MemScope, Stmt


@dataclass(frozen=True, slots=True)
class Fence(Stmt):
    """``fence.SEM.SCOPE``; ``sync_restrict`` is the shared-memory form for relaxed mbarrier ends."""

    sem: Literal["acq_rel", "sc", "acquire", "release"]
    scope: MemScope
    sync_restrict: bool = False


@dataclass(frozen=True, slots=True)
class FenceMbarrierInit(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class FenceProxyAsync(Stmt):
    """``fence.proxy.async[.space]``; ``half`` is the unidirectional sync_restrict form."""

    space: Literal["all", "global", "shared_cta", "shared_cluster"] = "all"
    half: Literal["release", "acquire"] | None = None


@dataclass(frozen=True, slots=True)
class FenceProxyTensormap(Stmt):
    """Release (by the writer), or acquire of ``map`` (by each CTA that will use it)."""

    sem: Literal["release", "acquire"]
    scope: MemScope
    map: str | None = None


@dataclass(frozen=True, slots=True)
class TensormapReplace(Stmt):
    map: str
    field: str
    value: Expr


@dataclass(frozen=True, slots=True)
class TensormapCpFence(Stmt):
    """``tensormap.cp_fenceproxy``: publishes a descriptor edited in shared memory; whole warp."""

    map: str
    scope: MemScope = "gpu"
