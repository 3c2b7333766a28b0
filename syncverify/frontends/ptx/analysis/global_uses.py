"""What instructions do with global memory, as far as they name a place there."""

from __future__ import annotations

from syncverify.frontends.ptx.decode.global_access import space_of
from syncverify.frontends.ptx.decode.wmma import moves_matrix, stores_matrix
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem

_USES = {
    "ld": "reads",
    "ldu": "reads",
    "st": "writes",
    "discard": "writes",
    "atom": "combines",
    "red": "combines",
}


def used_in_global(i: Instr) -> tuple[str, Mem] | None:
    """Whether an instruction reads, writes or combines words that may lie in global memory, and where; None
    for other instructions, and for bulk copies."""
    places = [op for op in i.operands if isinstance(op, Mem)]
    if not places:
        return None
    if i.op in _USES:
        return (_USES[i.op], places[0]) if space_of(i) else None
    if moves_matrix(i):
        inside = any(m.startswith("shared") for m in i.mods)
        return None if inside else ("writes" if stores_matrix(i) else "reads", places[0])
    by_thread = i.op == "cp" and i.mods[:1] == ("async",) and "bulk" not in i.mods and len(places) > 1
    return ("reads", places[1]) if by_thread else None


__all__ = ["used_in_global"]
