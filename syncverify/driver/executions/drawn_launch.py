"""A launch for the second reader from the facts of a refutation; what they leave open is drawn.

Sizes without a number get one that the facts allow, other ones in each draw. Each pointer leads to memory of
its own, in every second draw as aligned as is known of it and no more. Behind it lies what the facts say, and
else random words, some of them constants that the kernel compares with. A tensor map has the box that is
given; where only its bytes are known, any rank will do.

Example: ``params.0 = {ptr = "a"}``, ``params.1 = {i32 = "N"}`` with ``assume = ["N % 8 == 0"]`` becomes a
buffer of random words and N = 16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any

import numpy as np

from syncverify.frontends.ptx.decode.effects import MapFacts
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.launch.facts import PtxFacts, Size
from syncverify.frontends.ptx.launch.parameters import Leaf
from syncverify.frontends.ptx.syntax.nodes import FloatImm, Function, Imm, Module, Variable
from syncverify.frontends.ptx.syntax.parameter_names import parameter_text
from syncverify.ir.expr import Expr, Int, evaluate, names, substitute
from syncverify.ir.launch_grid import Grid
from syncverify.simulate.ptx import AnyMap, Buffer, Launch, Struct, TensorMap
from syncverify.simulate.ptx.loading import reached_functions
from syncverify.simulate.ptx.parameter_uses import pointers

#: Numbers for sizes that are open, in the order in which they are tried; one row for each draw.
_SIZES = (
    (16, 8, 4, 32, 64, 128, 256, 512, 1024, 4096, 2, 1, 3, 0),
    (64, 128, 256, 32, 512, 1024, 4096, 16, 8, 4, 2, 1, 3, 0),
    (3, 5, 1, 2, 6, 7, 12, 24, 48, 96, 192, 8, 16, 64, 128, 1024, 0),
    (0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096),
)
#: How many draws differ; of inputs fewer, so that sizes and the kinds of contents come in all pairs.
DRAWS = len(_SIZES)
_OF_INPUTS = 3
#: Of so many inputs one has an element for each thread of a cluster, so that all of its blocks take part.
_FULL = 7
#: How many words in memory are constants that the kernel compares with, by draw.
_CONSTANTS = (0.5, 1.0, 0.0, 0.5)
_LOW = 0xFFFFFFFF
#: Bytes behind a pointer of which nothing is said, and the most that a tensor gets.
_MEMORY, _TENSOR = 1 << 16, 1 << 20
#: Where tensor maps may lie behind a pointer: at multiples, and not farther.
_MAP_UNIT, _FARTHEST = 64, 1 << 20
_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_WARP = 32
#: Kinds of contents of a buffer.
_KINDS = 4
_WORD, _MAP, _SHARED = 8, 128, 227 * 1024
#: Alignment of memory of which nothing is said, and at least of all in a kernel that edits tensor maps.
_ALIGN, _ALIGN_OF_MAPS = 16, 128


class Contract(Enum):
    """What hosts keep to in data that kernels use as numbers of places; element ``i`` of a block's ``n``."""

    BOUNDED = "bounded"  # below any bound: all are 0
    UNIQUE = "unique"  # a permutation: neighbours change places
    SORTED = "sorted"  # ascending, with repetitions: 0, 0, 2, 2, 4, 4
    SHORT = "short"  # small numbers: 0 to 3, again and again
    LONG = "long"  # offsets of rows of 2048, 3072, 4096 elements
    PADDED = "padded"  # offsets of rows, whose lengths are multiples of 32 and differ


#: Data that numbers places: by the parameter that leads to it, the bytes of an element.
Numbers = Mapping[str, int]
#: Rows of which the length differs; the others are empty.
_ROWS = 9


class NoLaunchError(Exception):
    """No launch that is drawn meets the facts."""


@dataclass(slots=True)
class _Draw:
    facts: PtxFacts
    maps: Mapping[str, MapFacts]
    values: Mapping[str, int]
    random: np.random.Generator
    misaligns: bool  # pointers are as aligned as is known, and no more
    align: int  # that each pointer has at least, in bytes
    words: np.ndarray[tuple[int], np.dtype[np.uint32]]  # that the kernel compares with
    constants: float  # how many of the words in memory are such
    zeros: bool  # flags and counters, which are zero at launch, may lie in memory
    mixed: bool = False  # memory holds words that kernels tell apart
    number: int = 0  # of the draw
    contract: Contract | None = None  # that ``numbers`` keep to
    numbers: Numbers = field(default_factory=dict)
    threads: int = 1  # of a block
    flags: np.ndarray[tuple[int], np.dtype[np.uint32]] | None = None  # what flags may be at launch
    data: Collection[str] = ()  # pointers to what is no zero in every second draw
    buffers: dict[str, Buffer] = field(default_factory=dict)


def drawn_launch(
    module: Module, function: Function, facts: PtxFacts, system: PtxSystem, number: int
) -> Launch:
    """The launch of a refuted system, with what its facts leave open drawn for the ``number``-th time."""
    return _launch(_Source(module, function, facts, system), number, None)


def launch_with_data(
    module: Module, function: Function, facts: PtxFacts, system: PtxSystem, data: Collection[str]
) -> Callable[[int], Launch]:
    """``drawn_launch`` by number. ``data``: parameters that lead to what is read alone. Flags are zero, and
    in every second draw such words are others."""
    return lambda number: _launch(_Source(module, function, facts, system), number, None, data=data)


def set_by_the_host(
    module: Module, function: Function, facts: PtxFacts, system: PtxSystem, number: int
) -> Launch:
    """The launch of number 0, but each word behind a pointer is zero or a number that the kernel names, drawn
    for the ``number``-th time: the host may have set flags and counters that lie there."""
    return _launch(_Source(module, function, facts, system), number * DRAWS, None, flags=True)


def drawn_input(
    module: Module, function: Function, facts: PtxFacts, system: PtxSystem, number: int
) -> Launch:
    """The same with inputs that kernels tell apart: each buffer holds zeros, one constant, or several."""
    return _launch(_Source(module, function, facts, system), number, Keeping())


@dataclass(frozen=True, slots=True)
class Keeping:
    """An input that keeps to a contract in the data that numbers places."""

    contract: Contract | None = None
    numbers: Numbers = field(default_factory=dict)


def input_keeping(
    module: Module, function: Function, facts: PtxFacts, system: PtxSystem, keeping: Keeping
) -> Callable[[int], Launch]:
    """``drawn_input`` by number, with data that keeps to a contract."""
    return lambda number: _launch(_Source(module, function, facts, system), number, keeping)


@dataclass(frozen=True, slots=True)
class _Source:
    module: Module
    function: Function
    facts: PtxFacts
    system: PtxSystem


def _launch(
    source: _Source,
    number: int,
    keeping: Keeping | None,
    *,
    flags: bool = False,
    data: Collection[str] | None = None,
) -> Launch:
    """``keeping``: buffers hold what kernels tell apart. ``flags``: or what flags may be at launch.
    ``data``: as for ``launch_with_data``. With either, races in global memory are asked for."""
    mixed = keeping is not None
    handed = source.system.info.tracks_global or flags or data is not None
    module, function, facts, system = source.module, source.function, source.facts, source.system
    row = number % (_OF_INPUTS if mixed else DRAWS)
    values = _values(
        facts, _guesses(row, prod(system.launch.block) * system.launch.ctas, number if mixed else 0)
    )
    draw = _Draw(
        facts,
        system.launch.maps,
        values,
        np.random.default_rng(number),
        number % 2 == 1,
        _ALIGN_OF_MAPS if _edits_maps(source.module, function) else 1,
        _compared(function, prod(_grid(facts, values))),
        _CONSTANTS[row],
        handed,
        mixed,
        number,
        None if keeping is None else keeping.contract,
        {} if keeping is None else keeping.numbers,
        prod(system.launch.block),
        _of_flags(function, prod(_grid(facts, values))) if flags else None,
        data=data or (),
    )
    leads = pointers(function)
    params = [_parameter(draw, i, v, leads) for i, v in enumerate(function.params)]
    grid, block, cluster = _grid(facts, values), system.launch.block, system.launch.cluster
    places, ctas = Grid(grid, block, cluster), system.launch.ctas
    first = ctas * _cluster(system, prod(grid) // ctas, number)
    blocks = range(first, first + system.info.ctas * system.info.clusters)
    chosen = [places.coordinates(places.block_of(*divmod(n, ctas))) for n in blocks]
    _, named = reached_functions(module, function)
    variables = (*module.variables, *function.variables)
    shared = [v for v in variables if v.space == "shared" and v.name in named]
    most = max(_SHARED - sum(v.size + v.align for v in shared), 0) // 1024 * 1024
    if facts.dynamic_smem is not None:
        dynamic = _number(facts.dynamic_smem, values)
    else:  # as much as there is, for a kernel that names some; others have none
        dynamic = most if any(v.extern or not v.size for v in shared) else 0
    return Launch(
        block=block,
        grid=grid,
        cluster=cluster,
        shared=dynamic,
        params=params,
        registers=system.launch.registers or 0,
        watches=frozenset({"shared", "global" if handed and not mixed else "maps"}),
        variables=_variables(module, function, facts),
        chosen=chosen,
        boundless=True,
        dependent="all" if system.info.has_to_wait else "writes" if system.info.dependent_launch else "",
    )


def _cluster(system: PtxSystem, clusters: int, number: int) -> int:
    """The first cluster that runs: the system's; in other draws the last and a middle one, since harm in any
    block is harm."""
    if system.info.clusters > 1:
        return system.cluster or 0
    return (system.cluster or 0, clusters - 1, clusters // 2)[number % 3]


def _compared(function: Function, blocks: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """The constants that a kernel compares with: what it loads may have to be one for harm to come. The last
    number of so many ``blocks`` is one."""
    found = {0, 1, blocks - 1}
    for i in function.body:
        if i.op in ("setp", "set"):
            found |= {x.value & _LOW for x in i.operands if isinstance(x, Imm)}
            found |= {x.bits & _LOW for x in i.operands if isinstance(x, FloatImm)}
    return np.array(sorted(found, key=lambda x: (x != blocks - 1, x)), np.uint32)


#: What writes constants to memory, or to registers that are written there.
_WRITTEN = frozenset({"st", "atom", "mov", "selp"})


def _of_flags(function: Function, blocks: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """What flags and counters may be at launch: zero half of the time, else a number that the kernel compares
    with or writes, or that of its blocks."""
    written = [x for i in function.body if i.op in _WRITTEN for x in i.operands if isinstance(x, Imm)]
    named = {*_compared(function, blocks).tolist(), blocks, *(x.value & _LOW for x in written)} - {0}
    return np.array([*sorted(named), *[0] * len(named)], np.uint32)


# ---------------------------------------------------------------- sizes


def _guesses(row: int, threads: int, number: int) -> tuple[int, ...]:
    """What is tried for sizes, in this order. ``threads``: of a cluster; ``number``: of an input, else 0."""
    return (threads, *_SIZES[row]) if number % _FULL == _FULL - 1 else _SIZES[row]


def _values(facts: PtxFacts, guesses: Iterable[int]) -> dict[str, int]:
    """A number for each open size, one after the other, that what is known by then allows."""
    symbols, constraints = facts.symbols(), facts.constraints()
    least = dict(zip(("grid.x", "grid.y", "grid.z"), facts.cluster or (1, 1, 1), strict=True))
    found: dict[str, int] = {}
    for name, (low, high) in symbols.items():
        first = [least[name]] if name in least else []
        tried = (*first, *guesses, low, high)
        value = next((v for v in tried if low <= v <= high and _allowed(constraints, found, name, v)), None)
        if value is None:
            raise NoLaunchError(f"no number that is tried for {name} meets the facts")
        found[name] = value
    return found


def _allowed(constraints: Iterable[Expr], values: Mapping[str, int], name: str, value: int) -> bool:
    put = {**values, name: value}
    asked = [c for c in constraints if name in names(c) and names(c) <= put.keys()]
    try:
        return all(evaluate(c, put) for c in asked)
    except ZeroDivisionError:
        return False


def _number(size: Size, values: Mapping[str, int]) -> int:
    return (
        size
        if isinstance(size, int)
        else evaluate(substitute(size, {n: Int(v) for n, v in values.items()}), {})
    )


def _grid(facts: PtxFacts, values: Mapping[str, int]) -> tuple[int, int, int]:
    x, y, z = (_number(e, values) for e in facts.grid)
    return x, y, z


# ---------------------------------------------------------------- parameters


def _parameter(
    draw: _Draw, index: int, v: Variable, leads: frozenset[tuple[str, int]]
) -> Struct | TensorMap | AnyMap:
    """One parameter: the leaves that are given, and of the others those that the kernel loads."""
    data = bytearray(v.size)
    places: dict[int, Buffer | TensorMap | AnyMap] = {}
    whole = draw.maps.get(parameter_text(draw.facts.variables, index))
    if whole is not None and v.size == _MAP:
        return _map(draw, whole)
    covered: list[Leaf] = list(draw.facts.params[index])
    for offset, size in draw.facts.loads[index]:
        if not any(p.offset < offset + size and offset < p.end for p in covered):
            covered.append(draw.facts.leaf(index, offset, size))
    for leaf in covered:
        name = parameter_text(draw.facts.variables, index, leaf.offset)
        if leaf.kind == "tensormap":
            if name in draw.maps:
                places[leaf.offset] = _map(draw, draw.maps[name])
            continue
        known = isinstance(leaf.value, int | bytes)
        leads_on = leaf.kind == "ptr" or (leaf.size == _WORD and (v.name, leaf.offset) in leads)
        if leads_on and not known:
            of = f"{v.name}+{leaf.offset}"
            places[leaf.offset] = _memory(draw, leaf, name, draw.numbers.get(of), is_data=of in draw.data)
            continue
        data[leaf.offset : leaf.end] = _bytes(draw, leaf)
    for offset in range(0, v.size - _MAP + 1, 64):  # maps by value whose parameter has no facts
        fact = draw.maps.get(parameter_text(draw.facts.variables, index, offset))
        if fact is not None:
            places.setdefault(offset, _map(draw, fact))
    return Struct(bytes(data), places)


def _bytes(draw: _Draw, leaf: Leaf) -> bytes:
    value = leaf.value
    if isinstance(value, bytes):
        return value
    if isinstance(value, Expr):
        value = _number(value, draw.values)
    if value is None:  # a float that is not given
        one = {2: 0x3C00, 4: 0x3F800000, 8: 0x3FF0000000000000}
        value = one.get(leaf.size, 1)
    return (value & (1 << 8 * leaf.size) - 1).to_bytes(leaf.size, "little")


def _memory(
    draw: _Draw, leaf: Leaf, place: str, number: int | None = None, *, is_data: bool = False
) -> Buffer:
    """The memory behind a pointer: pointers of one name lead to the same. ``number``: bytes of an element, if
    these number places. ``is_data``: no flags lie there."""
    known = draw.buffers.get(leaf.name or place)
    if known is not None:
        return known
    places: dict[int, Buffer | TensorMap | AnyMap] = {}
    maps = _maps_behind(draw, place)
    size = max([_MEMORY, *(part.end for part in leaf.holds), *(at + _MAP for at in maps)])
    words = draw.random.integers(0, 1 << 10, size // 4 + 1).astype(np.uint32)
    is_constant = draw.random.random(words.size) < draw.constants
    words[is_constant] = draw.random.choice(draw.words, int(is_constant.sum()))
    if draw.contract is not None and number is not None:
        words = kept(draw.contract, words.size * 4 // number, number, draw.threads)
    elif draw.mixed:
        words = _words(draw, words.size)
    elif draw.flags is not None:
        words = draw.random.choice(draw.flags, words.size)
    elif draw.zeros and is_data and draw.number % 2:
        words = draw.random.integers(1, 1 << 10, words.size).astype(np.uint32)
    elif draw.zeros:
        words[:] = 0
    raw = words.view(np.uint8)
    for part in leaf.holds:
        if part.kind == "ptr" and part.value is None:
            places[part.offset] = _memory(draw, part, f"{place}+{part.offset}")
        else:
            raw[part.offset : part.end] = np.frombuffer(_bytes(draw, part), np.uint8)
    for at, fact in maps.items():
        places[at] = _map(draw, fact)
    align = max(leaf.align or _ALIGN, draw.align)
    misalign = align if draw.misaligns and align < 256 and not places else 0
    found = Buffer(words, misalign, places, not leaf.written_before)
    draw.buffers[leaf.name or place] = found
    return found


def _maps_behind(draw: _Draw, place: str) -> dict[int, MapFacts]:
    """The tensor maps behind a pointer, by their offsets: one that lay outside of the memory that is drawn
    would have no last writer, and never be stale."""
    found: dict[int, MapFacts] = {}
    for name, fact in draw.maps.items():
        offset, _, of = name.rpartition(" bytes behind ")
        at = int(offset) if offset.isdecimal() else 0
        if of == place and at % _MAP_UNIT == 0 and at <= _FARTHEST:
            found[at] = fact
    return found


def _edits_maps(module: Module, function: Function) -> bool:
    """Whether a kernel makes tensor maps in memory, which have to be aligned."""
    functions, _ = reached_functions(module, function)
    return any(i.op == "tensormap" for f in functions for i in f.body)


#: Words that kernels tell apart: small numbers, two beyond a warp, -1, and 1, -1 and 100 as floats.
_APART = np.array([0, 0, 1, 2, 3, 40, 100, _LOW, 0x3F800000, 0xBF800000, 0x42C80000], np.uint32)


def _words(draw: _Draw, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """The words of a buffer: zeros, another one for all, one for each, or one for each warp."""
    kind = (draw.number + len(draw.buffers)) % _KINDS
    if kind < 2:
        constant = draw.words[draw.number // _KINDS % len(draw.words)]
        return np.full(count, constant if kind else 0, np.uint32)
    some = draw.random.choice(np.concatenate([draw.words, draw.words + 1, draw.words - 1, _APART]), count)
    return some if kind == 2 else np.repeat(some, _WARP)[:count]


def kept(contract: Contract, count: int, width: int, threads: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Elements of ``width`` bytes that keep to a contract."""
    at = np.arange(count) % threads
    rows = np.minimum(np.arange(count), _ROWS)
    values = {
        Contract.BOUNDED: 0 * at,
        Contract.UNIQUE: at ^ 1,
        Contract.SORTED: at & ~1,
        Contract.SHORT: at & 3,
        Contract.LONG: 1024 * (rows + 1) * (rows + 2) // 2,
        Contract.PADDED: _WARP * rows * (rows + 1) // 2,
    }
    raw = values[contract].astype(f"<u{width}").view(np.uint8)
    return np.concatenate([raw, np.zeros(-len(raw) % 4, np.uint8)]).view(np.uint32)


def _map(draw: _Draw, fact: MapFacts) -> TensorMap | AnyMap:
    """A tensor map with a box as it is given."""
    if fact.box is None or fact.element is None:
        return AnyMap(fact.bytes or 16)
    wide = [1] * len(fact.box)
    for d in range(len(wide)):
        if prod(fact.box) * fact.element * prod(wide) * 4 <= _TENSOR:
            wide[d] = 4
    dims = tuple(b * w for b, w in zip(fact.box, wide, strict=True))
    strides = tuple(-(-prod(dims[:d]) * fact.element // 16) * 16 for d in range(1, len(dims)))
    size = (strides[-1] if strides else fact.element) * dims[-1] + 16
    data = Buffer(draw.random.integers(0, 256, size).astype(np.uint8))
    return TensorMap(data, dims, strides, fact.box, _TYPES[fact.element], fact.swizzle)


def _variables(
    module: Module, function: Function, facts: PtxFacts
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    """What is given of variables in constant and global memory, over their initializers."""
    out = {}
    for v in (*module.variables, *function.variables):
        image = facts.images.get(v.name)
        if image and (v.initial is None or v.init is not None):
            data = np.zeros(max(v.size, max(image) + 1), np.uint8)
            if v.init is not None:
                data[: len(v.init)] = np.frombuffer(v.init, np.uint8)
            data[list(image)] = list(image.values())
            out[v.name] = data[: v.size]
    return out


__all__ = [
    "DRAWS",
    "Contract",
    "Keeping",
    "NoLaunchError",
    "Numbers",
    "drawn_input",
    "drawn_launch",
    "input_keeping",
    "kept",
    "launch_with_data",
    "set_by_the_host",
]
