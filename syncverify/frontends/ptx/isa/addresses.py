"""The addresses among the operands of an instruction, and the state space that each lies in.

The rows of the table say both: of a copy the slots ``TO`` and ``FROM``, of other instructions the slot
``SPACE``; where that is left out, the address is generic. What follows the two addresses of a copy is its
mbarrier, in the destination's space (PTX ISA, cp.async.bulk).

Example: of ``cp.async.bulk.global.shared::cta`` the first address lies in global memory, the second in shared
memory.
"""

from __future__ import annotations

from functools import lru_cache

from syncverify.frontends.ptx.isa.match import Form, forms
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem

GENERIC = "generic"
TENSOR_MEMORY = "tensor memory"
#: Instructions of tensor memory whose address is one of shared memory.
_SIGNALS = ("alloc", "commit")
#: Kinds of operands that are addresses: one, and a tensor map with coordinates.
ADDRESSES = ("a", "t")


def addresses(i: Instr) -> tuple[tuple[Mem, str], ...]:
    """The addresses of an instruction in the order of the text, and the state space of each, as it is
    written. None for what the table does not have, or whose operands its row leaves open."""
    found = _spaces(i.op, i.mods)
    places = [x for x in i.operands if isinstance(x, Mem)]
    return tuple(zip(places, found, strict=True)) if len(places) == len(found) else ()


def address_spaces(form: Form) -> tuple[str, ...]:
    """The state space of each address of a form."""
    count = sum(k.kind in ADDRESSES for k in form.row.operands)
    to, source = form.slots.get("TO"), form.slots.get("FROM")
    if source is not None:
        return (source,) if to is None else (to, source, to)[:count]
    if form.row.opcode == "tcgen05" and form.row.head[0] not in _SIGNALS:
        return (TENSOR_MEMORY,) * count
    return (form.slots.get("SPACE", GENERIC),) * count


@lru_cache(maxsize=1 << 12)
def _spaces(opcode: str, mods: tuple[str, ...]) -> tuple[str, ...]:
    """The same of an opcode and modifiers: forms that share them have the same addresses."""
    return max((address_spaces(form) for form in forms(opcode, mods)), key=len, default=())


__all__ = ["ADDRESSES", "GENERIC", "TENSOR_MEMORY", "address_spaces", "addresses"]
