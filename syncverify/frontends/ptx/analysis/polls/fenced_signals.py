"""Signals of one thread that tell of what its block has fenced before a barrier (K26).

    part[t] = x;  __threadfence();  __syncthreads();  if (t == 0) atomicExch(flag, 1);

By the text of the memory model the exchange releases only what came before a fence of its own thread. The
accesses of the other threads are performed for the device at their fences, and the barrier comes after
these. So in practical mode such a signal counts as a release: nothing that it may tell of stands behind the
last fence.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import is_barrier, is_wide_fence, reaches
from syncverify.frontends.ptx.analysis.polls.shared_polls import shared_polls
from syncverify.frontends.ptx.decode.global_access import scope_of, semantics
from syncverify.frontends.ptx.decode.wmma import moves_matrix, stores_matrix
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem
from syncverify.model.events import Flag
from syncverify.model.proxies import Scope

_OWN = frozenset({"shared", "shared::cta"})
#: What only loads, and what no other thread notices, beside what makes no access to memory.
_LOADS = frozenset({"ld", "ldu", "ldmatrix"})
_SILENT = frozenset({"prefetch", "prefetchu", "applypriority", "fence", "membar"})
_WAITS = frozenset({"test_wait", "try_wait", "pending_count"})
_SCOPES = {Scope.GPU: "gpu", Scope.SYS: "sys"}
_SEMANTICS = ("relaxed", "volatile", "mmio", "acquire", "gpu", "sys", "global")


def with_fenced_signals(function: Function) -> tuple[Function, list[int]]:
    """The function with such signals as releases, and which instructions these are."""
    body = function.body
    wide = [k for k, i in enumerate(body) if is_wide_fence(i)]
    every = [k for k, i in enumerate(body) if _is_fence(i)]
    barriers = [k for k, i in enumerate(body) if is_barrier(i)]
    if not every or not barriers or not any(map(_signals, body)):
        return function, []
    flow = Flow(function)
    waited = bool(shared_polls(flow))  # somebody looks at what is told in shared memory
    found = [
        k for k, i in enumerate(body)
        if _signals(i) and flow.block_of[k] in flow.reached and (waited or "global" in i.mods)
        and _covered(flow, k, wide if "global" in i.mods else every, barriers)
    ]  # fmt: skip
    if not found:
        return function, []
    changed = tuple(_released(i) if k in found else i for k, i in enumerate(body))
    return replace(function, body=changed), found


def _is_fence(i: Instr) -> bool:
    orders = i.op in ("fence", "membar") and i.mods[0] not in ("proxy", "mbarrier_init")
    return orders and i.guard is None and "acquire" not in i.mods  # such a one publishes nothing


def _signals(i: Instr) -> bool:
    """Whether a write may tell others of something, and releases nothing by itself: those who share the
    memory, the device or the block."""
    flags = semantics(i)
    strong = i.op in ("st", "red", "atom") and flags & Flag.STRONG and not flags & Flag.RELEASE
    shared = not _OWN.isdisjoint(i.mods) and len(i.operands) > 1
    return bool(strong) and (("global" in i.mods and scope_of(i) in _SCOPES) or shared)


def _covered(flow: Flow, signal: int, fences: Collection[int], barriers: Collection[int]) -> bool:
    """Whether a barrier stands between fences and a signal, and no access comes to it past all fences."""
    body = flow.body

    def fence(k: int) -> bool:
        return k in fences

    framed = any(
        reaches(flow, b, signal, fence) and any(reaches(flow, f, b, lambda k: False) for f in fences)
        for b in barriers
    )
    accesses = (
        k for k, i in enumerate(body)
        if k != signal and _may_be_read(i) and flow.block_of[k] in flow.reached
    )  # fmt: skip
    return framed and not any(reaches(flow, k, signal, fence) for k in accesses)


def _may_be_read(i: Instr) -> bool:
    """Whether a signal may tell of an instruction: an access to memory that its readers share, but for loads
    of the block's own; or a call."""
    if i.op in ("cp", "call", "wgmma"):
        return True
    if not any(isinstance(op, Mem) for op in i.operands) or i.op in _SILENT:
        return False
    own = not _OWN.isdisjoint(i.mods)
    private = not {"local", "param", "const"}.isdisjoint(i.mods)
    loads = i.op in _LOADS or (moves_matrix(i) and not stores_matrix(i))
    waits = i.op == "mbarrier" and not _WAITS.isdisjoint(i.mods)
    return not (private or waits or (own and loads))


def _released(i: Instr) -> Instr:
    rest = tuple(m for m in i.mods if m not in _SEMANTICS)
    order = "acq_rel" if i.op == "atom" and "acquire" in i.mods else "release"
    if "global" in i.mods:
        return replace(i, mods=(order, _SCOPES[scope_of(i)], "global", *rest))
    return replace(i, mods=(order, "cta", "shared", *(m for m in rest if m not in (*_OWN, "cta", "cluster"))))


__all__ = ["with_fenced_signals"]
