"""Places in global memory at which several blocks make tensor maps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from syncverify.driver.ptx.common_places import places_of_blocks
from syncverify.driver.ptx.launches_of_blocks import of_several_blocks
from syncverify.frontends.ptx.analysis.blocks.block_places import Loaded
from syncverify.frontends.ptx.analysis.blocks.data_places import Touched
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.nodes import Imm, Mem
from syncverify.model.events import Ev

#: Bytes of a tensor map.
_MAP = 128


def map_of_several(facts: PtxFacts, program: Program) -> int | None:
    """An instruction by which two blocks, of different clusters, certainly write one tensor map. What one
    makes there another one may use, or change while it does. An open launch is asked in a few grids."""
    writes = list(_map_writes(program))
    if facts.block is None or program.handing is not None or not writes:
        return None
    for launch in of_several_blocks(facts, program):
        places = places_of_blocks(launch, program, facts.block, Loaded(sizes=False))
        for k, access in writes:
            if launch.grid != (1, 1, 1) and any(map(_by_several, places.touched(k, access))):
                return k
    return None


def _map_writes(program: Program) -> Iterator[tuple[int, Access]]:
    """What writes tensor maps in global memory: copies out of shared memory, and edits."""
    for k, i in enumerate(program.body):
        writes = i.op == "tensormap" and ("cp_fenceproxy" in i.mods or "global" in i.mods)
        if writes and program.flow.block_of[k] in program.flow.reached and isinstance(i.operands[0], Mem):
            yield k, Access(Ev.WRITE, i.operands[0], (Imm(0),), _MAP, "global")


def _by_several(found: Touched | None) -> bool:
    """Whether two clusters touch one place, whatever the drawn numbers are."""
    if found is None or len(found.clusters) == 0:
        return False
    places = np.unique(np.stack([found.clusters, *found.places]), axis=1)[1:]
    return bool(np.unique(places, axis=1).shape[1] < places.shape[1])


__all__ = ["map_of_several"]
