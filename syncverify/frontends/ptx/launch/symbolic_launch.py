"""What a proof for every size needs of a PTX kernel: its open sizes, and systems that hold terms for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from syncverify.checker.prover.modular.group_positions import any_member, members, one_group
from syncverify.checker.prover.modular.group_strides import Strides
from syncverify.frontends.ptx.analysis.blocks.block_groups import Places
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.class_reachability import ReachabilityCache
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.parameters import Leaf
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem, Reg
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.frontends.ptx.syntax.types import width
from syncverify.frontends.ptx.values.register_values import Unknown
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord, size
from syncverify.ir.expr import Binary, Expr, Int, evaluate, names
from syncverify.model.elected_lane import PAIRS, ElectedLane
from syncverify.model.events import ANY
from syncverify.symbolic.context import AffineTerm, NotConcrete, SymbolicContext
from syncverify.symbolic.protocol import BLOCK_GROUP, MEMBER

_PLACES = ("%ctaid", "%clusterid")
_EXTENTS = ("%nctaid", "%nclusterid")
_AXES = "xyz"
#: Grids of no more clusters are taken cluster by cluster: sizes are not multiplied by places then.
FEW_CLUSTERS = 4
#: Uses that show an integer, and those that show an address.
_INTEGER = frozenset("mul mad div rem shr shl setp min max cvt sub bfe and".split())


def open_sizes(facts: PtxFacts, program: Program) -> dict[str, tuple[int, int | None]]:
    """The open sizes that control, addresses or synchronization may depend on, with their ranges."""
    known = facts.symbols()
    wanted: set[str] = set()
    for name in program.symbols:
        if name.startswith("param "):
            leaf = parameter_leaf(facts, program.function, name)
            if leaf is not None and isinstance(leaf.value, Expr) and is_integer(leaf, name, program):
                wanted |= names(leaf.value)
        base, _, axis = name.partition(".")
        if base in (*_PLACES, *_EXTENTS) and axis in _AXES:
            extent = facts.grid[_AXES.index(axis)]
            wanted |= names(extent) if isinstance(extent, Expr) else frozenset()
    if program.block_groups is not None:  # a whole number of block groups
        across = frozenset[str]().union(*(names(e) for e in facts.grid if isinstance(e, Expr)))
        wanted |= across.union(*(names(c) for c in facts.constraints() if names(c) & across))
    found: dict[str, tuple[int, int | None]] = {name: known[name] for name in sorted(wanted) if name in known}
    if program.block_groups is not None and not program.block_groups.rows:
        # see ``sizes.unbounded``; numbers that may be negative stay what they are
        ends = {name: high if high is not None and high >> 31 else None for name, (_, high) in found.items()}
        found = {name: (low, ends[name]) for name, (low, _) in found.items()}
    return found


def parameter_leaf(facts: PtxFacts, function: Function, name: str) -> Leaf | None:
    """The leaf behind ``param name+offset:type``, as compiled code asks for it."""
    place, type_ = name[6:].split(":")
    base, offset = place.rsplit("+", 1)
    index = next((i for i, p in enumerate(function.params) if p.name == base), None)
    return None if index is None else facts.leaf(index, int(offset), width(type_) // 8)


def is_integer(leaf: Leaf, name: str, program: Program) -> bool:
    """Whether an open leaf is used as a number: one of 64 bits may as well be a pointer."""
    if leaf.given or leaf.size < 8:
        return leaf.kind not in ("ptr", "f16", "bf16", "f32", "f64")
    if leaf.kind == "ptr" or leaf.kind.startswith("f"):
        return False
    place = name[6:].split(":")[0]
    held: set[str] = set()
    for i in program.body:
        if _loads(i, place):
            held.update(results(i))
        elif i.op in ("mov", "cvta") and held.intersection(sources(i)):
            held.update(results(i))
    used = [i for i in program.body if held.intersection(sources(i))]
    if any(i.op == "cvta" or any(_addresses(i, r) for r in held) for i in used):
        return False
    return any(i.op in _INTEGER for i in used)


def _loads(i: Instr, place: str) -> bool:
    m = i.operands[1] if i.op == "ld" and len(i.operands) > 1 else None
    return isinstance(m, Mem) and f"{getattr(m.base, 'name', '')}+{m.offset}" == place


def _addresses(i: Instr, register: str) -> bool:
    return any(
        isinstance(op, Mem) and isinstance(op.base, Reg) and op.base.name == register for op in i.operands
    )


def _elect_apart(systems: Iterable[PtxSystem]) -> None:
    """NotConcrete where it matters which lanes several warps elect together."""
    if any(x.elects_in_pairs for x in systems):
        raise NotConcrete(PAIRS)


def open_systems(
    program: Program,
    launch: Launch,
    facts: PtxFacts,
    elected: Iterable[ElectedLane],
    source_hash: str,
    asked: dict[Any, str],
    apart: bool = False,
    alone: bool = False,
) -> Callable[[Mapping[str, Any], SymbolicContext], list[PtxSystem]]:
    """Makes the systems for what represents each size: a number or a term. ``asked``: takes up questions
    that have one answer for all agents (``Tables.asked``). ``apart``: each class has code of
    its own. ``alone``: clusters of a block group each by itself."""
    elected = list(elected)
    every = program
    caches: dict[int, ReachabilityCache] = {}

    def systems(sizes: Mapping[str, Any], space: SymbolicContext) -> list[PtxSystem]:
        program = every if space.may_havoc else every.read_once
        reachable = caches.setdefault(id(program), ReachabilityCache(program))
        space.exact_words = program.any_data

        def value(e: Any) -> Any:
            if not isinstance(e, Expr):
                return e
            if not names(e) <= sizes.keys():
                return None
            if isinstance(e, Binary) and e.op == "%" and e.right == Int(1 << 32):
                return _word(evaluate(e.left, sizes), space)
            return evaluate(e, sizes)

        def parameter(name: str, offset: int, type_: str) -> Any:
            leaf = parameter_leaf(facts, program.function, f"param {name}+{offset}:{type_}")
            found = value(leaf.value) if leaf is not None else None
            if found is not None and not isinstance(found, bytes):
                return size(found, width(type_))
            return launch.parameter(name, offset, type_)

        extents = [value(e) for e in facts.grid]
        read = {n.partition(".")[0] for n in program.symbols}
        opened = replace(
            launch, parameter=parameter, bytes_of=_Bytes(launch.bytes_of, parameter), space=space
        )
        launches, clusters = [opened], 1
        if program.block_groups is not None:
            clusters = program.block_groups.size // launch.ctas
            block_group, rows = program.block_groups.size, program.block_groups.rows
            if alone and rows:
                launches = [_any_member(opened, extents, block_group, space)]
            else:
                whole = _one_group(opened, extents, block_group, space, rows)
                each = members(whole.places, launch.ctas) if alone else [whole.places]
                launches = [replace(whole, places=places) for places in each]
        elif read.intersection((*_PLACES, *_EXTENTS)):
            a, b, c = (None if e is None else size(e, 32) for e in extents)
            across = (a, b, c)
            placed = _placed(extents, launch, space) if read.intersection(_PLACES) else [{}]
            launches = [replace(opened, extents=across, places=places) for places in placed]
        count = 1 if alone else clusters
        found = [
            PtxSystem.fresh(program, one, None, lane, source_hash, asked=asked, clusters=count)
            for one in launches
            for lane in elected
        ]
        _elect_apart(found)
        if alone:
            found = [modular_system(x, i // len(elected), clusters) for i, x in enumerate(found)]
        for x in found:
            x.agents()  # parts of sizes ask which they are: here, where answers part the paths
        if not apart:
            return found
        out = [x.apart(reachable.ways((len(found), i), space)) for i, x in enumerate(found)]
        for x in out:
            x.agents()
        return out

    return systems


def modular_system(system: PtxSystem, number: int, clusters: int) -> PtxSystem:
    """The system of one cluster of a block group of several."""
    places = system.launch.block_group
    anyone = None if places is None else places.anyone
    number = number if anyone is None else ANY
    info = replace(
        system.info,
        clusters_run_sequentially=False,
        modular_cluster=(number, clusters),
        group_footprint=anyone,
    )
    return replace(system, info=info)


def _word(x: Any, space: SymbolicContext) -> Any:
    """A size modulo ``2**32``: one unknown where it may be below zero, no question."""
    x = space.resolved(x)
    low, high = space.bounds(x) if isinstance(x, AffineTerm) else (0, None)
    if low is None or low >= 0 or low < -(1 << 31) or high is None or high >= 1 << 32:
        return x % (1 << 32)

    def unknown() -> Any:
        found = space.symbol("word", 0, (1 << 32) - 1)
        space.path.assume(*space.of(found - x))
        space.path.assume(*space.of(x + (1 << 32) - found))
        return found

    return space.path.memo_symbol(("word", x), unknown)


class _Bytes(dict[int, Any]):
    """The parameter space, for loads through a register: ``offset << 8 | size`` to values."""

    def __init__(self, closed: Any, parameter: Callable[[str, int, str], Any]) -> None:
        super().__init__()
        self.closed = closed
        self.parameter = parameter

    def base_of(self, address: int) -> int | None:
        """Where the memory begins that some pointer leads to, an address in it given."""
        found: int | None = self.closed.base_of(address)
        return found

    def get(self, key: int, default: Any = None) -> Any:
        place = self.closed.place(key)
        if place is None:
            return default
        found = self.parameter(*place)
        # what a size is now is known of registers only
        return (
            Unknown("a size in a parameter that is read through a pointer")
            if isinstance(found, SymbolicWord)
            else found
        )


def _one_group(launch: Launch, extents: list[Any], size_: int, space: SymbolicContext, rows: bool) -> Launch:
    """The launch of any block group of so many blocks, which may be one of the ``rows`` of the grid."""
    if any(e is None for e in extents):
        raise NotConcrete("blocks synchronize through global memory, in a grid that is not known")
    blocks, alone = one_group(extents, size_, space, rows)
    places = as_registers(blocks)
    number = size(blocks[0][BLOCK_GROUP], 32)
    a, b, c = (size(e, 32) for e in extents)
    block_group = Places(space, launch.bytes_of.base_of, alone, number)  # type: ignore[attr-defined]
    return replace(launch, extents=(a, b, c), places=places, block_group=block_group)


def _any_member(launch: Launch, extents: list[Any], size_: int, space: SymbolicContext) -> Launch:
    """The launch of any cluster of any block group of so many blocks, which is a row of the grid."""
    if any(e is None for e in extents):
        raise NotConcrete("blocks synchronize through global memory, in a grid that is not known")
    blocks = any_member(size_, launch.ctas, space)
    base_of = launch.bytes_of.base_of  # type: ignore[attr-defined]
    number, member = (size(blocks[0][x], 32) for x in (BLOCK_GROUP, MEMBER))
    a, b, c = (size(e, 32) for e in extents)
    block_group = Places(space, base_of, False, number, 0, {}, member, Strides(size_ // launch.ctas, base_of))
    return replace(launch, extents=(a, b, c), places=as_registers(blocks), block_group=block_group)


def as_registers(blocks: Mapping[int, Mapping[str, Any]]) -> dict[int, tuple[Any, Any, Any]]:
    """The places of blocks as registers hold them."""
    return {cta: (size(at["block.x"], 32), size(at["block.y"], 32), 0) for cta, at in blocks.items()}


def _placed(
    extents: list[Any], launch: Launch, space: SymbolicContext
) -> list[dict[int, tuple[Any, Any, Any]]]:
    """Where the blocks of each cluster of a grid of few are, or those of any cluster."""
    if all(e.__class__ is int for e in extents):
        counts = [e // c for e, c in zip(extents, launch.cluster, strict=True)]
        if 1 < prod(counts) <= FEW_CLUSTERS:
            firsts = [[i * c for i in range(n)] for n, c in zip(counts, launch.cluster, strict=True)]
            return [_inside(list(first), launch) for first in product(*firsts)]
    return [_places(extents, launch, space)]


def _places(extents: list[Any], launch: Launch, space: SymbolicContext) -> dict[int, tuple[Any, Any, Any]]:
    """Where the blocks of any cluster of the grid are."""
    first: list[Any] = []
    for axis, extent, c in zip(_AXES, extents, launch.cluster, strict=True):
        if extent is None or (isinstance(extent, int) and extent == c):
            first.append(None if extent is None else 0)
            continue
        most = space.bounds(extent)[1] if isinstance(extent, AffineTerm) else extent
        last = None if most is None else most // c - 1
        at = space.symbol(f"ctaid.{axis}" if c == 1 else f"clusterid.{axis}", 0, last)
        space.path.assume(*space.of(extent - c - at * c))
        first.append(at * c)
    return _inside(first, launch)


def _inside(first: list[Any], launch: Launch) -> dict[int, tuple[Any, Any, Any]]:
    """Where the blocks of the cluster are whose first block is at ``first``."""
    out = {}
    for cta in range(launch.ctas):
        x, y, _ = launch.cluster
        inner = (cta % x, cta // x % y, cta // (x * y))
        a, b, z = (None if f is None else size(f + i, 32) for f, i in zip(first, inner, strict=True))
        out[cta] = (a, b, z)
    return out
