"""Boxes of tensor maps that a kernel makes itself from maps of its host: an execution tells what they are.

Where a launch file says nothing of a map, its box is taken from the bytes that its phase expects
(``launch.tensormap_boxes``). A kernel that copies a map of its parameters to memory, edits and publishes it
(``tensormap.cp_fenceproxy``) has another source: the copy has the box of the map that was copied. Where the
bytes expected are those of no map that is given, the kernel is executed with these maps. A hang refutes.

Example: the map of a parameter has a box of 1024 bytes. A copy of it, edited to the next tensor, is loaded
where 896 bytes are announced: the phase never completes.
"""

from __future__ import annotations

from syncverify.driver.ptx.task import CheckTask, compiled
from syncverify.frontends.ptx.syntax.parameter_names import parameter_text


def made_otherwise(k: CheckTask) -> bool:
    """Whether a kernel publishes maps, and a box that was inferred of one in memory is no other map's."""
    p = k.code.compiled
    if p is None or k.boxes is None or k.facts.block is None or not k.boxes.latest.known:
        return False
    if not all(isinstance(e, int) for e in k.facts.grid):
        return False
    if not any(i.op == "tensormap" and i.mods[:1] == ("cp_fenceproxy",) for i in p.body):
        return False
    launch, _ = compiled(k)
    pointers = {
        parameter_text(k.facts.variables, index, leaf.offset)
        for index, leaves in enumerate(k.facts.params)
        for leaf in leaves
        if leaf.kind == "ptr"
    }
    inferred = {n for n in k.boxes.latest.known if n.rpartition(" bytes behind ")[2] in pointers}
    others = {m.bytes for n, m in launch.maps.items() if n not in inferred and m.bytes is not None}
    return bool(others) and not {k.boxes.latest.known[n].bytes for n in inferred} <= others


__all__ = ["made_otherwise"]
