"""Loads by ``ld.global.nc`` and ``ldu`` of memory that the kernel writes.

They go by a cache that no store of the kernel reaches, and no fence or barrier changes that: what they read
has to stay the same while the kernel runs. ``ldu`` also has one address for all lanes of a warp.

*Example.* ``out[b] = sum; __threadfence(); if (atomicAdd(&done, 1) == last) total += __ldg(&out[i]);``.
"""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE, Origins
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import Use, effects, touches
from syncverify.frontends.ptx.isa.addresses import GENERIC
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem

_SPACES = ("global", GENERIC)


def written_load(flow: Flow, origins: Origins) -> tuple[int, int] | None:
    """A load that may not be of what the kernel writes, and a write by the same pointer."""
    writes = [(k, origins.of(_place(flow.body[k]))) for k in _writes(flow)]
    for k in _loads(flow):
        of = origins.of(_place(flow.body[k])) - {ANYWHERE}
        at = next((j for j, found in writes if of & found), None)
        if at is not None:
            return k, at
    return None


def loads_anywhere(flow: Flow, origins: Origins) -> list[int]:
    """Such loads of which no pointer says that they are not of what the kernel writes."""
    writes = [origins.of(_place(flow.body[k])) for k in _writes(flow)]
    open_ = any(not x or ANYWHERE in x for x in writes)
    loads = ((k, origins.of(_place(flow.body[k]))) for k in _loads(flow))
    return [k for k, of in loads if writes and (open_ or not of or ANYWHERE in of)]


def _loads(flow: Flow) -> Iterator[int]:
    return (k for k, i in _executed(flow) if _reads_only(i))


def _reads_only(i: Instr) -> bool:
    return i.op == "ldu" or (i.op == "ld" and "nc" in i.mods)


def _writes(flow: Flow) -> Iterator[int]:
    """What may write global memory, but for copies by tensor maps, which have a memory of their own."""
    return (k for k, i in _executed(flow) if may_write(i) and any(isinstance(x, Mem) for x in i.operands))


def may_write(i: Instr) -> bool:
    """Whether an instruction may write global memory; edits of tensor maps have rules of their own."""
    if "tensormap" in effects(i):
        return False
    return any(Use.WRITES & t.use and t.space in _SPACES and not t.at.coords for t in touches(i))


def _executed(flow: Flow) -> Iterator[tuple[int, Instr]]:
    return ((k, i) for k, i in enumerate(flow.body) if flow.block_of[k] in flow.reached)


def _place(i: Instr) -> Mem:
    return next(op for op in i.operands if isinstance(op, Mem))


__all__ = ["loads_anywhere", "may_write", "written_load"]
