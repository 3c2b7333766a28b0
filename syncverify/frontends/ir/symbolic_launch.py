"""Systems of a kernel whose sizes have no number, at any place of a grid of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from syncverify.checker.prover.modular.group_positions import any_member, members, one_group
from syncverify.checker.prover.modular.group_strides import Strides
from syncverify.frontends.ir.block_groups import group_size, in_rows, position_from_block, tracked
from syncverify.frontends.ir.cluster_classes import features, representatives
from syncverify.frontends.ir.code import Program
from syncverify.frontends.ir.flag_chain import Moved, flag_tensors, placed, two_blocks, written
from syncverify.frontends.ir.flatten_counters import with_flat_counters
from syncverify.frontends.ir.lane_classes import elections
from syncverify.frontends.ir.slice_silent import sliced
from syncverify.frontends.ir.systems import IrSystem, elected_lanes
from syncverify.frontends.ir.tables import Tables, synchronizes_globally, tables
from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Expr, Int, evaluate, names
from syncverify.ir.launch_grid import Grid
from syncverify.model.elected_lane import PAIRS
from syncverify.model.events import ANY, TENSOR_SHIFT
from syncverify.symbolic.context import AffineTerm, NotConcrete, SymbolicContext
from syncverify.symbolic.protocol import BLOCK_GROUP, MEMBER

#: Clusters of a grid with a number that are run one by one.
MOST_BLOCKS = 8
#: Blocks of a grid with a number that share global memory and are run together; of more, two represent all.
MOST_TOGETHER = 4
_AXES = ("x", "y", "z")


def launch_facts(kernel: n.Kernel) -> list[Expr]:
    """What a launch needs of its grid: at least one block, and whole clusters."""
    out: list[Expr] = []
    for e, c in zip(kernel.launch.grid, kernel.launch.cluster, strict=True):
        if names(e):
            out.append(Binary(">=", e, Int(c)))
            out += [Binary("==", Binary("%", e, Int(c)), Int(0))] if c > 1 else []
    return out


def open_systems(
    kernel: n.Kernel,
    values: Mapping[str, int],
    sizes: Mapping[str, Any],
    space: SymbolicContext,
    alone: bool = False,
) -> Iterator[IrSystem]:
    """The systems for every value that the path allows to ``sizes``, which are terms or numbers.

    ``values`` has a number for every parameter: fixed ones keep it, the others only lend it to declarations
    that do not matter. ``alone``: clusters of a block group each by itself. Raises NotConcrete where numbers
    would matter.
    """
    block_group = group_size(kernel)
    kernel = with_flat_counters(sliced(kernel, tracked(kernel) if block_group else None))
    _declarations(kernel, set(sizes))
    launch = _OpenLaunch.of(kernel, values, sizes, space, block_group)
    flags = flag_tensors(kernel)
    if block_group:
        yield from launch.block_groups(block_group, alone=alone)
    elif not synchronizes_globally(kernel):
        yield from launch.two_of_a_chain(flags) if flags else launch.any_cluster(len(sizes))
    elif not flags or launch.grid.ctas > 1:
        raise NotConcrete("blocks synchronize through global memory")
    elif launch.is_small:
        yield from launch.whole_grid()
    else:
        yield from launch.two_of_a_chain(flags)


@dataclass(frozen=True)
class _OpenLaunch:
    """A kernel and its grid, some of whose sizes have no number.

    ``across``: blocks along each axis, numbers or terms. ``known``: parameters with a number; ``builtins``
    those of the grid. ``symbols``: what has none, by name; ``named``: with what says where a block is.
    """

    kernel: n.Kernel
    values: dict[str, int]
    space: SymbolicContext
    grid: Grid
    across: list[Any]
    known: dict[str, int]
    builtins: dict[str, int]
    symbols: dict[str, Any]
    named: dict[str, Any]

    @classmethod
    def of(
        cls,
        kernel: n.Kernel,
        values: Mapping[str, int],
        sizes: Mapping[str, Any],
        space: SymbolicContext,
        block_group: int,
    ) -> _OpenLaunch:
        """The launch for sizes that are terms or numbers."""
        numbers = {**values, **{name: v for name, v in sizes.items() if isinstance(v, int)}}
        grid = Grid.of(kernel, numbers)
        known = {name: v for name, v in numbers.items() if name not in sizes}
        symbols: dict[str, Any] = dict(sizes)
        builtins: dict[str, int] = dict(grid.sizes())
        across: list[Any] = [evaluate(e, {**known, **sizes}) for e in kernel.launch.grid]
        if any(isinstance(x, AffineTerm) for x in across):
            total = across[0] * across[1] * across[2]
            for name, value in [*zip((f"grid.{a}" for a in _AXES), across, strict=True), ("grid", total)]:
                del builtins[name]
                symbols[name] = value
        placing = ("block", *(f"block.{a}" for a in _AXES), *([BLOCK_GROUP, MEMBER] if block_group else []))
        named = symbols | dict.fromkeys(placing)
        return cls(kernel, numbers, space, grid, across, known, builtins, symbols, named)

    def program(self, laid: Tables) -> Program:
        """The code of all agents, with what it reaches laid out so."""
        return Program(self.kernel, self.known | self.builtins, laid, self.named, self.space)

    def systems_at(
        self, program: Program, here: dict[int, dict[str, Any]], cluster: int = 0
    ) -> Iterator[IrSystem]:
        """One system for each choice of elected lane, of blocks that are ``here``."""
        choice = elections(self.kernel, self.known, self.grid)
        if choice.pairs:
            raise NotConcrete(PAIRS)
        for lane in elected_lanes(program, self.grid, cluster, choice, self.symbols, here):
            yield IrSystem.fresh(program, self.grid, dict(self.values), cluster, lane, "", self.symbols, here)

    @property
    def is_small(self) -> bool:
        """Whether the grid is a number of few blocks."""
        return all(isinstance(x, int) for x in self.across) and self.grid.clusters <= MOST_TOGETHER

    def whole_grid(self) -> Iterator[IrSystem]:
        """All blocks of a grid of few, which share global memory."""
        laid = tables(
            self.kernel, self.values, self.grid.clusters, tracks_global=True, only=written(self.kernel)
        )
        here = [_placed(self.grid, cluster)[0] for cluster in range(self.grid.clusters)]
        yield from self.systems_at(self.program(laid), dict(enumerate(here)))

    def two_of_a_chain(self, flags: Iterable[str]) -> Iterator[IrSystem]:
        """Two blocks that represent all which hand on flags, each to the next."""
        for blocks in two_blocks(self.across, self.space):
            laid = tables(self.kernel, self.values, len(blocks), True, written(self.kernel))
            laid.flag_chain = tuple(laid.range_of(name) for name in sorted(flags))
            laid.moved = Moved(laid, self.space, blocks)
            yield from self.systems_at(self.program(laid), placed(self.space, blocks))

    def block_groups(self, block_group: int, *, alone: bool) -> Iterator[IrSystem]:
        """One block group that represents all, or each of its clusters ``alone``."""
        clusters = block_group // self.grid.ctas
        rows = in_rows(self.kernel) > 0
        laid = tables(self.kernel, self.values, 1 if alone else clusters, True, tracked(self.kernel))
        laid.block_group = True
        if alone and rows:
            laid.anyone, laid.of_each = Strides(clusters, _tensor_of), position_from_block(self.kernel)
            each = [(ANY, any_member(block_group, self.grid.ctas, self.space))]
        else:
            here, laid.alone = one_group(self.across, block_group, self.space, rows)
            each = list(enumerate(members(here, self.grid.ctas) if alone else [here]))
        program = self.program(laid)
        for i, some in each:
            for system in self.systems_at(program, some):
                yield _modular(system, (i, clusters), laid.anyone) if alone else system

    def any_cluster(self, sizes: int) -> Iterator[IrSystem]:
        """Clusters that do not share global memory: those whose control differs, or one at any place."""
        program = self.program(tables(self.kernel, self.values, 1, False))
        control = program.code(several_lanes=True).control
        firsts: list[int] | None = [0]
        places: dict[int, dict[str, Any]] = {}
        if features(control, self.grid):
            firsts = None if len(self.symbols) > sizes else representatives(control, self.grid)
            if firsts is None or len(firsts) > MOST_BLOCKS:
                places = _anywhere(self.grid, self.across, self.space)
        for cluster in [0] if places or firsts is None else firsts:
            yield from self.systems_at(program, places or _placed(self.grid, cluster), cluster)


def _modular(system: IrSystem, member: tuple[int, int], footprint: Strides | None) -> IrSystem:
    """A system of one cluster of a block group, whose proof is composed with those of the others."""
    info = replace(
        system.info, clusters_run_sequentially=False, modular_cluster=member, group_footprint=footprint
    )
    return replace(system, info=info)


def _tensor_of(address: int) -> int:
    """Where the tensor starts that an address lies in."""
    return address >> TENSOR_SHIFT << TENSOR_SHIFT


def _placed(grid: Grid, cluster: int) -> dict[int, dict[str, Any]]:
    """Where the blocks of one cluster are."""
    out: dict[int, dict[str, Any]] = {}
    for cta in range(grid.ctas):
        block = grid.block_of(cluster, cta)
        at = zip((f"block.{a}" for a in _AXES), grid.coordinates(block), strict=True)
        out[cta] = {"block": block, **dict(at)}
    return out


def _anywhere(grid: Grid, across: list[Any], space: SymbolicContext) -> dict[int, dict[str, Any]]:
    """Where the blocks of any cluster of the grid are."""
    clusters: list[Any] = []
    for a, size, c in zip(_AXES, across, grid.cluster, strict=True):
        if isinstance(size, int) and size == c:
            clusters.append(0)
            continue
        at = space.symbol(f"block.{a}" if c == 1 else f"cluster.{a}", 0, None)
        space.path.assume(*space.of(size - c - at * c))
        clusters.append(at)
    out: dict[int, dict[str, Any]] = {}
    for cta in range(grid.ctas):
        inner = Grid(grid.cluster, grid.block, (1, 1, 1)).coordinates(cta)
        x, y, z = (at * c + i for at, c, i in zip(clusters, grid.cluster, inner, strict=True))
        block = x + across[0] * (y + across[1] * z)
        out[cta] = {"block": block, "block.x": x, "block.y": y, "block.z": z}
    return out


def _declarations(kernel: n.Kernel, unknown: set[str]) -> None:
    """Shared memory and barriers must have their sizes."""
    sized: list[Expr] = []
    for s in kernel.shared:
        sized += [*s.shape, *([s.offset] if s.offset is not None else [])]
    for b in kernel.barriers:
        sized += [b.count, *([b.offset] if b.offset is not None else [])]
    found = sorted(frozenset[str]().union(*map(names, sized)) & unknown)
    if found:
        raise NotConcrete(f"the layout of shared memory depends on {', '.join(found)}")


__all__ = ["launch_facts", "open_systems"]
