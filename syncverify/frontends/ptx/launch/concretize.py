"""Launch facts of a kernel into the launch that its agents see."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from syncverify.base.diagnostics import ScopeKind
from syncverify.frontends.ptx.decode.parts import multicasts
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.launch.facts import VARIABLE, PtxFacts
from syncverify.frontends.ptx.launch.parameter_values import Parameters
from syncverify.frontends.ptx.syntax.nodes import Function, Imm
from syncverify.ir.expr import Var
from syncverify.model.automata.register_pool import most_registers

_CLUSTER_OPS = ("mapa", "getctarank")


def uses_clusters(f: Function) -> bool:
    return any(
        i.op in _CLUSTER_OPS or (i.op == "barrier" and "cluster" in i.mods) or multicasts(i.mods)
        for i in f.body
    )


def numbers_of(facts: PtxFacts) -> dict[str, int]:
    """The numbers that the facts give: parameters by place, and the grid."""
    out: dict[str, int] = {}
    for axis, extent in zip("xyz", facts.grid, strict=True):
        if isinstance(extent, int):
            out[f"grid.{axis}"] = extent
    for i, leaves in enumerate(facts.params):
        for leaf in leaves:
            counts = leaf.kind == "open" or (leaf.kind[0] in "iub" and leaf.kind != "bf16")
            if leaf.given and isinstance(leaf.value, int) and counts:
                part = f"+{leaf.offset}" if len(leaves) > 1 or leaf.offset else ""
                out[f"params.{i}{part}"] = leaf.value
    for name, image in facts.images.items():
        if sorted(image) == list(range(len(image))) and len(image) <= 8:
            out[f"{VARIABLE}{name}"] = int.from_bytes(bytes(image[n] for n in range(len(image))), "little")
    return out


def sizes_at(facts: PtxFacts, values: Mapping[str, int]) -> dict[str, int]:
    """The numbers of the sizes that the facts leave open, by ``values`` of their places."""
    open_ = facts.symbols()
    places: dict[str, object] = {f"grid.{axis}": e for axis, e in zip("xyz", facts.grid, strict=True)}
    for i, given in enumerate(facts.params):
        for leaf in (*given, *(facts.leaf(i, *load) for load in facts.loads[i])):
            places[f"params.{i}+{leaf.offset}"] = leaf.value
            if not leaf.offset:
                places[f"params.{i}"] = leaf.value
    return {
        e.name: values[place]
        for place, e in places.items()
        if isinstance(e, Var) and e.name in open_ and place in values
    }


def covered(facts: PtxFacts) -> ScopeKind:
    """Whether the caller fixed no size, some, or all of them."""
    numbers = numbers_of(facts)
    if not facts.symbols():
        return ScopeKind.EXACT
    return ScopeKind.PARTIAL if numbers else ScopeKind.ALL


def launch_from(
    facts: PtxFacts,
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
    f: Function,
    *,
    sizes_as_data: bool = False,
) -> Launch:
    """The launch that the facts describe; what they leave open is a value that nobody knows."""
    x, y, z = facts.grid
    grid = (x, y, z) if isinstance(x, int) and isinstance(y, int) and isinstance(z, int) else None
    dynamic = facts.dynamic_smem
    reader = Parameters(facts, f, sizes_as_data=sizes_as_data)
    return Launch(
        block=block,
        cluster=cluster,
        grid=grid,
        dynamic=dynamic if isinstance(dynamic, int) else None,
        registers=facts.registers or entry_registers(f, prod(block)),
        parameter=reader.load,
        maps=reader.maps(),
        bytes_of=reader,
        memory=reader.held,
        map_place=reader.map_place,
        values=numbers_of(facts),
        images=facts.images,
        chosen=facts.chosen,
    )


def entry_registers(f: Function, threads: int) -> int | None:
    """Registers per thread at entry where no launch file gives them: the most that the block and the kernel's
    own directives allow and any ``setmaxnreg.inc`` asks for, as ptxas (13.0, 13.4) decides.

    None for a kernel that never asks for others.
    """
    asked = [(i.mods[0], i.operands[0].value) for i in f.body
             if i.op == "setmaxnreg" and i.operands and isinstance(i.operands[0], Imm)]  # fmt: skip
    if not asked:
        return None
    most = most_registers(threads)
    cap = min(most, *(f.directives.get("maxnreg") or (most,))[:1])
    found = min(cap, max((n for mode, n in asked if mode == "inc"), default=cap))
    return found if all(n <= found for mode, n in asked if mode == "dec") else cap
