"""Accesses through a register that nothing in the kernel writes: they go anywhere, which is undefined.

Example: ``st.u32 [%rd2], %r1;`` where no instruction has ``%rd2`` as its result. Shared addresses need no
rule here: they are followed, and a register without a value stops the run.
"""

from __future__ import annotations

from collections.abc import Mapping

from syncverify.frontends.ptx.analysis.arrays.foreign_addresses import undefined
from syncverify.frontends.ptx.decode.effects import Effect
from syncverify.frontends.ptx.syntax.nodes import Function, Mem, Reg
from syncverify.frontends.ptx.syntax.operands import results

_ACCESSES = ("ld", "ldu", "st", "atom", "red")
_FOLLOWED = frozenset({"shared", "shared::cta", "shared::cluster"})


def unset_addresses(function: Function) -> Mapping[int, Effect]:
    """The accesses, by index, outside of the shared space whose address nobody computes."""
    written = {name for i in function.body for name in results(i)}
    return {
        k: undefined(f"the address is register {op.base.name}, which nothing writes")
        for k, i in enumerate(function.body)
        if i.op in _ACCESSES and _FOLLOWED.isdisjoint(i.mods)
        for op in i.operands
        if isinstance(op, Mem) and isinstance(op.base, Reg) and op.base.name not in written
    }


__all__ = ["unset_addresses"]
