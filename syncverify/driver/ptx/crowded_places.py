"""Stores at places of data of which there are fewer than values: two threads certainly store different ones
to one place, whatever the input holds.

    ld.global.u32 x, [a];  and.b32 i, x, 63;  st.global.u32 [p + 4 i], %tid.x;     // by 128 threads

The places are all that are reached: a signed remainder, or a comparison, leaves others besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from syncverify.driver.ptx.common_places import (
    by_the_last,
    global_accesses,
    others_wait,
    places_of_blocks,
)
from syncverify.driver.ptx.launches_of_blocks import of_several_blocks
from syncverify.frontends.ptx.analysis.blocks.block_places import BlockPlaces, Loaded
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.nodes import Mem, Reg


def crowded_store(facts: PtxFacts, program: Program) -> int | None:
    """Such a store: a plain one, of a launch whose threads do not wait for each other but at barriers. An
    open launch is asked in a few grids."""
    if facts.block is None or program.handing is not None or others_wait(program):
        return None
    stores = list(_stores(program))
    for launch in of_several_blocks(facts, program) if stores else ():
        places = places_of_blocks(launch, program, facts.block, Loaded(sizes=False))
        found = next((k for k, access in stores if _crowded(places, k, access)), None)
        if found is not None:
            return found
    return None


def _stores(program: Program) -> Iterator[tuple[int, Access]]:
    """The plain stores of what registers hold."""
    last = by_the_last(program)
    for k, access in global_accesses(program, "st"):
        held = any(isinstance(x, Reg) for x in access.elements)
        if held and k not in last and not semantics(program.body[k]):
            yield k, access


def _crowded(places: BlockPlaces, k: int, access: Access) -> bool:
    """Whether threads that certainly store have more values than there are places."""
    values = [
        places.touched(k, replace(access, address=Mem(x), elements=()))
        for x in access.elements
        if isinstance(x, Reg)
    ]
    mask = np.uint64((1 << 8 * min(access.size, 8)) - 1)
    for n, reach in enumerate(places.reached(k, access, lambda _: True)):
        if reach is None or not reach[0].exact:
            continue
        count = (reach[0].high - reach[0].low) // reach[0].step + 1
        for begin in np.unique(np.stack(reach[0].begin), axis=1).T:
            here = (np.stack(reach[0].begin) == begin[:, None]).all(axis=0)
            words = [x.places for value in values if (x := value[n]) is not None]
            if any(all(len(np.unique(x[here] & mask)) > count for x in draws) for draws in words):
                return True
    return False


__all__ = ["crowded_store"]
