"""What instructions do with global memory, as far as they name a place there."""

from __future__ import annotations

from syncverify.frontends.ptx.isa.accesses import Use, effects, touches
from syncverify.frontends.ptx.isa.addresses import GENERIC
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem

_WORDS = {Use.READS: "reads", Use.WRITES: "writes", Use.BOTH: "combines"}
_SPACES = ("global", GENERIC)


def used_in_global(i: Instr) -> tuple[str, Mem] | None:
    """Whether an instruction reads, writes or combines words that may lie in global memory, and where; None
    for other instructions, for bulk copies, and for edits of tensor maps, which have rules of their own."""
    if "bulk" in i.mods or "tensormap" in effects(i):
        return None
    found = (t for t in touches(i) if t.use and t.space in _SPACES)
    return next(((_WORDS[t.use], t.at) for t in found), None)


__all__ = ["used_in_global"]
