"""Who executes an instruction together, as its rows of the table say (``mask=``).

Example: ``shfl.sync`` is executed by the lanes that its mask names, ``wmma.mma`` by all lanes of a warp.
"""

from __future__ import annotations

from functools import lru_cache

from syncverify.frontends.ptx.isa.match import forms
from syncverify.frontends.ptx.syntax.nodes import Instr

#: The lanes that an operand names; all lanes of a warp; all of four warps.
NAMED, WARP, WARPGROUP = "operand", "warp", "warpgroup"


@lru_cache(maxsize=1 << 12)
def _participants(opcode: str, mods: tuple[str, ...]) -> frozenset[str]:
    found = forms(opcode, mods)
    return frozenset(form.row.mask for form in found if form.row.mask) if found else frozenset({WARP})


def by_lanes(i: Instr) -> bool:
    """Whether lanes of one warp execute an instruction together. What the table does not have counts."""
    return not _participants(i.op, i.mods).isdisjoint((NAMED, WARP))


def by_all_lanes(i: Instr) -> bool:
    """Whether no lane of the warp may be missing."""
    return not _participants(i.op, i.mods).isdisjoint((WARP, WARPGROUP))


__all__ = ["by_all_lanes", "by_lanes"]
