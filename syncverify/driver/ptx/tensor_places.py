"""Elements of tensors to which several blocks copy: what a verdict takes for granted there, and copies that
certainly meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from syncverify.driver.ptx.common_places import global_accesses, places_of_blocks
from syncverify.driver.ptx.launches_of_blocks import of_several_blocks
from syncverify.frontends.ptx.analysis.blocks.block_places import Loaded
from syncverify.frontends.ptx.analysis.blocks.tensor_places import (
    Tensor,
    TensorPlaces,
    TensorStore,
    elections,
)
from syncverify.frontends.ptx.analysis.handover.handover_detection import tensor_copies
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.parameters import Leaf
from syncverify.frontends.ptx.syntax.nodes import Mem
from syncverify.ir.launch_grid import Dims

#: Bytes of a tensor map.
_MAP = 128


def of_tensor_places(facts: PtxFacts, program: Program) -> list[str]:
    """That no two blocks copy different values to one place of a tensor, where their boxes meet, or may."""
    handing = program.handing
    if facts.block is None or facts.grid == (1, 1, 1) or (handing is not None and handing.together):
        return []
    copies = list(_copies(facts, program))
    if not copies:
        return []
    places, names = _places(facts, program, facts.block), {c.at: _name(facts, program, c) for c in copies}
    found = list[str]()
    for pair in places.shared(copies, sure=False):
        line, other = (program.module.span(program.body[k]).line for k in (pair.first, pair.second))
        where = names[pair.first] if line == other else f"{names[pair.first]} (line {other})"
        found.append(f"line {line}: no two blocks store different values to one place of {where}")
    return list(dict.fromkeys(found))


def copied_by_several(facts: PtxFacts, program: Program) -> int | None:
    """A copy by which two blocks of a launch certainly store different values to one place of a tensor. An
    open launch is asked in a few grids."""
    if facts.block is None or program.handing is not None or not tensor_copies(program.flow)[0]:
        return None
    for launch in of_several_blocks(facts, program):
        if launch.grid == (1, 1, 1):
            continue
        copies = list(_copies(launch, program))
        found = next(_places(launch, program, facts.block, sizes=False).shared(copies, sure=True), None)
        if found is not None:
            return found.second
    return None


def _places(facts: PtxFacts, program: Program, block: Dims, *, sizes: bool = True) -> TensorPlaces:
    loaded, flow = Loaded(sizes=sizes), program.flow
    elected = replace(loaded, held=elections(flow))
    contents = places_of_blocks(facts, program, block, loaded)
    places = places_of_blocks(facts, program, block, elected) if elected.held else contents
    return TensorPlaces(flow, places, contents, {k for k, _ in global_accesses(program, "st")})


def _copies(facts: PtxFacts, program: Program) -> Iterator[TensorStore]:
    """The copies to tensors, with what the facts say of these."""
    for k, parameter in tensor_copies(program.flow)[0]:
        i = program.body[k]
        place = next(x for x in i.operands if isinstance(x, Mem) and x.coords)
        source = next((x for x in i.operands if isinstance(x, Mem) and not x.coords), None)
        if source is None:
            continue
        leaf = _leaf(facts, parameter) if parameter is not None else None
        tensor = _tensor(leaf, parameter or tuple(sorted(program.origins.of(Mem(place.base, place.offset)))))
        if not {"tile"}.issuperset(m for m in i.mods if m.startswith(("im2col", "tile"))):
            tensor = Tensor(tensor.key)
        bare = Mem(place.base, place.offset)
        yield TensorStore(k, tensor, bare, place.coords, source, "reduce" in i.mods)


def _leaf(facts: PtxFacts, at: tuple[str, int]) -> Leaf | None:
    """What the facts say of the map at a place of a parameter."""
    index = [n for n, p in enumerate(facts.variables) if p.name == at[0]]
    return facts.leaf(index[0], at[1], _MAP) if index else None


def _tensor(leaf: Leaf | None, key: tuple[object, ...]) -> Tensor:
    known = None if leaf is None else leaf.map
    if leaf is None or known is None:
        return Tensor(key)
    return Tensor(leaf.name or key, known.box, known.element, known.bytes, known.swizzle)


def _name(facts: PtxFacts, program: Program, c: TensorStore) -> str:
    at = next(at for k, at in tensor_copies(program.flow)[0] if k == c.at)
    leaf = _leaf(facts, at) if at is not None else None
    return f"tensor map {leaf.name}" if leaf is not None and leaf.name else "a tensor map"


__all__ = ["copied_by_several", "of_tensor_places"]
