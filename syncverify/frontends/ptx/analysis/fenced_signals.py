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

from syncverify.frontends.ptx.analysis.counted_blocks import is_barrier, is_wide_fence, reaches
from syncverify.frontends.ptx.decode.global_access import scope_of, semantics
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Instr
from syncverify.model.events import Flag
from syncverify.model.proxies import Scope

_ACCESSES = ("st", "red", "atom", "ld")
_SCOPES = {Scope.GPU: "gpu", Scope.SYS: "sys"}
_SEMANTICS = ("relaxed", "volatile", "mmio", "acquire", "gpu", "sys", "global")


def with_fenced_signals(function: Function) -> tuple[Function, list[int]]:
    """The function with such signals as releases, and which instructions these are."""
    body = function.body
    fences = [k for k, i in enumerate(body) if is_wide_fence(i)]
    barriers = [k for k, i in enumerate(body) if is_barrier(i)]
    if not fences or not barriers or not any(map(_signals, body)):
        return function, []
    flow = Flow(function)
    found = [
        k for k, i in enumerate(body)
        if _signals(i) and flow.block_of[k] in flow.reached and _covered(flow, k, fences, barriers)
    ]  # fmt: skip
    if not found:
        return function, []
    changed = tuple(_released(i) if k in found else i for k, i in enumerate(body))
    return replace(function, body=changed), found


def _signals(i: Instr) -> bool:
    """Whether a write to global memory may tell others of something, and releases nothing by itself."""
    flags = semantics(i)
    strong = i.op in ("st", "red", "atom") and flags & Flag.STRONG and not flags & Flag.RELEASE
    return bool(strong) and "global" in i.mods and scope_of(i) in _SCOPES


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
    if i.op in ("cp", "call"):
        return True
    own = not {"shared", "shared::cta"}.isdisjoint(i.mods)
    private = not {"local", "param", "const"}.isdisjoint(i.mods)
    return i.op in _ACCESSES and not private and not (own and i.op == "ld")


def _released(i: Instr) -> Instr:
    rest = tuple(m for m in i.mods if m not in _SEMANTICS)
    order = "acq_rel" if i.op == "atom" and "acquire" in i.mods else "release"
    return replace(i, mods=(order, _SCOPES[scope_of(i)], "global", *rest))


__all__ = ["with_fenced_signals"]
