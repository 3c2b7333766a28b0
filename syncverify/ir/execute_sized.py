"""Systems of a kernel whose sizes have no number: one under study, the others known by remainders only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from syncverify.ir import nodes as n
from syncverify.ir.execute import IrSystem, elected_lanes
from syncverify.ir.execute_blocks import Grid
from syncverify.ir.execute_code import Program
from syncverify.ir.execute_expr import statements
from syncverify.ir.execute_groups import representatives
from syncverify.ir.execute_lanes import elections
from syncverify.ir.execute_tables import synchronizes_globally, tables
from syncverify.ir.expr import Expr, names
from syncverify.model.symbols import Asked, Linear, Matters, Multiple, Symbolic


def sized_systems(
    kernel: n.Kernel, values: Mapping[str, int], study: str | None, free: tuple[str, ...], period: int = 1
) -> Iterator[IrSystem]:
    """The systems for every value of ``study`` and of the ``free`` parameters.

    ``values`` has a number for every parameter: fixed ones keep it, the others only lend it to declarations
    that do not matter. Raises Symbolic where numbers would matter, Matters where a free one does.
    """
    unknown = {*free, *([study] if study else [])}
    _declarations(kernel, unknown)
    if synchronizes_globally(kernel):
        raise Symbolic("blocks synchronize through global memory")
    if any(isinstance(s, n.TensormapReplace | n.TensormapCpFence) for s in statements(kernel.body)):
        raise Symbolic("tensor maps are edited")
    grid = Grid.of(kernel, values)
    sizes: dict[str, int] = dict(grid.sizes())
    symbols: dict[str, Any] = {}
    if study:
        symbols[study] = Linear(Asked(large=True), 0, 0, period)
    symbols |= {name: Multiple(0, 1, name) for name in free}
    open_grid = [names(e) & unknown for e in kernel.launch.grid]
    for axis, sources in zip("xyz", open_grid, strict=True):
        if sources:
            for builtin in (f"grid.{axis}", "grid"):
                sizes.pop(builtin, None)
                symbols[builtin] = Multiple(0, 1, min(sources))
    known = {name: v for name, v in values.items() if name not in unknown}
    program = Program(kernel, known | sizes, tables(kernel, values, 1, False), symbols)
    control = program.code(several_lanes=True).control
    firsts = representatives(control, grid) if not any(open_grid) else _any_block(control, grid)
    if firsts is None:
        raise Symbolic("the control of the grid's blocks differs in too many ways")
    choice = elections(kernel, known, grid)
    for cluster in firsts:
        for lane in elected_lanes(program, grid, cluster, choice, symbols):
            yield IrSystem.fresh(program, grid, dict(values), cluster, lane, "", symbols)


def _any_block(control: Any, grid: Grid) -> list[int]:
    """Any block stands for all, if none differs."""
    from syncverify.ir.execute_groups import features

    if features(control, grid):
        raise Symbolic("what a block does depends on its place in a grid of any size")
    return [0]


def _declarations(kernel: n.Kernel, unknown: set[str]) -> None:
    """Shared memory and barriers must have their sizes."""
    sized: list[Expr] = []
    for s in kernel.shared:
        sized += [*s.shape, *([s.offset] if s.offset is not None else [])]
    for b in kernel.barriers:
        sized += [b.count, *([b.offset] if b.offset is not None else [])]
    found = sorted(frozenset[str]().union(*map(names, sized)) & unknown)
    if found:
        raise Symbolic(f"the layout of shared memory depends on {', '.join(found)}")


__all__ = ["Matters", "sized_systems"]
