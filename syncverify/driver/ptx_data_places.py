"""Accesses at places of data beside those of other blocks: some input places both on one word.

    if (block == 0) bins[thread] = 0;   atomicAdd(&bins[x & 63], 1);       // nothing orders the two
    a[x & 63] = 1;   y = a[thread];                                        // nor these

Only what certainly is executed at a known place counts on one side, and on the other what the kernel bounds
(``analysis/data_places.py``). Blocks of one cluster are left out: its barrier may order them. A launch that
is open in some sizes includes launches in numbers: one of those in which the two meet is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

from syncverify.base.source import InputError
from syncverify.driver.ptx_assumptions import holds, places_of_blocks
from syncverify.frontends.ptx.analysis.block_places import BlockPlaces
from syncverify.frontends.ptx.analysis.counted_blocks import used_counts
from syncverify.frontends.ptx.analysis.data_places import Touched, covered
from syncverify.frontends.ptx.analysis.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.read_only_loads import may_write
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.decode.memory import Access, decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.launch.deciding_sizes import deciding_sizes
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.meant_launches import (
    along_meant_axes,
    asked_launches,
    asks_places,
    with_others,
)
from syncverify.frontends.ptx.launch.small_sizes import few_sizes
from syncverify.frontends.ptx.syntax.nodes import Mem
from syncverify.ir.expr import Expr, Var, names

#: Bytes of a parameter that may be a pointer.
_POINTER = 8
#: Of launches with small numbers: sizes that get one, launches, blocks.
_MOST_SIZES, _MOST_LAUNCHES, _MOST_BLOCKS = 3, 80, 12


@dataclass(frozen=True, slots=True)
class PlacedOn:
    """An access that some input places on what another block accesses, in no order: one of them writes, and
    one is plain. ``seen``: in which launch they meet, beyond what the facts say of it."""

    placed: int
    other: int
    seen: str


def placed_on_others(facts: PtxFacts, program: Program) -> PlacedOn | None:
    """Such an access, of a launch whose blocks do not wait for each other."""
    if facts.block is None or program.handing is not None or facts.grid == (1, 1, 1) or holds(facts):
        return None
    pairs = _pairs(program)
    if not pairs or _polls(program):
        return None
    is_input = _Inputs(program)
    atomics = [x for x in pairs if program.body[x[0][0]].op != "st" and program.body[x[0][0]].op != "ld"]
    for launches, of in ((_launches, pairs), (_small_launches, atomics)):
        follows = False
        for launch in launches(facts, program) if of else ():
            met = _Met(places_of_blocks(launch, program, facts.block), is_input)
            pair = met.first(of)
            if pair is not None:
                return PlacedOn(*pair, _in_words(facts, launch))
            follows = follows or met.follows
        if not follows:
            return None
    return None


#: An access, and those that it conflicts with where both are at one place.
_Pair = tuple[tuple[int, Access], list[tuple[int, Access]]]


def _pairs(program: Program) -> list[_Pair]:
    """Accesses by one pointer that conflict. Two plain stores may store the same: they are left out."""
    body, found = program.body, list[_Pair]()
    every = [(x, program.origins.of(x[1].address)) for x in _accesses(program, *_WRITERS, "ld")]
    for one, of in every:
        strong, writes = bool(semantics(body[one[0]])), body[one[0]].op in _WRITERS
        others = [
            other
            for other, by in every
            if of & by
            and (writes or body[other[0]].op in _WRITERS)
            and not (strong and semantics(body[other[0]]))
            and not body[one[0]].op == body[other[0]].op == "st"
        ]
        if others:
            found.append((one, others))
    return found


_WRITERS = ("atom", "red", "st")


def _launches(facts: PtxFacts, program: Program) -> Iterator[PtxFacts]:
    """The launch; of an open one a few of several blocks. What nothing is said of has no number there, but
    for what decides and places nothing: that is small as well."""
    small = _small(facts, program)
    for n, one in enumerate(of_several_blocks(facts, program)):
        yield one
        for values in small if n == 0 else ():
            try:
                yield one.bind(values)
            except InputError:
                continue


def of_several_blocks(facts: PtxFacts, program: Program) -> Iterator[PtxFacts]:
    """The launch; of an open one a few of several blocks. What nothing is said of has no number there."""
    free = _free(facts)
    numbers = all(isinstance(n, int) for n in facts.grid)
    if numbers and facts.symbols().keys() == free:
        yield facts
        return
    meant = facts
    if not numbers and not asks_places(program.function):
        several = with_others(facts, program.function)
        if several is None:  # it may be meant for one block
            return
        meant = several
    for one in asked_launches(meant, program.function, free):
        extents = [n for n in one.grid if isinstance(n, int)]
        if len(extents) == len(one.grid) and prod(extents) > 1 and one.symbols().keys() <= free:
            yield one


def _small(facts: PtxFacts, program: Program) -> list[dict[str, int]]:
    """Numbers for free sizes that place nothing: of all together, and of each beside large ones."""
    free, sizes = _free(facts), dict[str, tuple[int, ...]]()
    for (name, offset), numbers in deciding_sizes(program.function).items():
        index = [n for n, p in enumerate(program.function.params) if p.name == name]
        value = facts.leaf(index[0], offset, 4).value if index else None
        if isinstance(value, Var) and value.name in free:
            sizes[value.name] = numbers
    together = [{name: x[min(n, len(x) - 1)] for name, x in sizes.items()} for n in range(_TOGETHER)]
    alone = [{name: n} for name, x in sizes.items() for n in x]
    found = [*(together if len(sizes) > 1 else ()), *alone]
    return found[:_MOST_SMALL]


#: Choices of small numbers: of all sizes together, and in all.
_TOGETHER, _MOST_SMALL = 2, 16


def _small_launches(facts: PtxFacts, program: Program) -> Iterator[PtxFacts]:
    """Launches of a few blocks with small numbers for the sizes of which the facts say something: slices may
    meet in some of them alone."""
    free = _free(facts)
    meant = along_meant_axes(facts, program.function)
    named = sorted(meant.symbols().keys() - free)
    if not asks_places(program.function) or not 1 <= len(named) <= _MOST_SIZES:
        return
    for numbers in islice(few_sizes(meant, named), _MOST_LAUNCHES):
        try:
            one = meant.bind(numbers)
        except InputError:  # sizes that do not go together
            continue
        extents = [n for n in one.grid if isinstance(n, int)]
        if len(extents) == len(one.grid) and 1 < prod(extents) <= _MOST_BLOCKS:
            yield one


def _free(facts: PtxFacts) -> frozenset[str]:
    """The symbols that are one place of a parameter, and of which nothing else is said."""
    values = [leaf.value for leaves in facts.params for leaf in leaves]
    values += [facts.leaf(n, *load).value for n, loads in enumerate(facts.loads) for load in loads
               if not facts.leaf(n, *load).given]  # fmt: skip
    alone = Counter(e.name for e in values if isinstance(e, Var))
    made = [e for e in (*values, facts.dynamic_smem) if isinstance(e, Expr) and not isinstance(e, Var)]
    said = frozenset[str]().union(*map(names, made), *map(names, facts.assume))
    said |= frozenset[str]().union(*(names(e) for e in facts.grid if isinstance(e, Expr)))
    return frozenset(name for name, n in alone.items() if n == 1) - said


def _in_words(facts: PtxFacts, launch: PtxFacts) -> str:
    """What a launch in which the two meet has beyond the facts: its grid and its sizes."""
    found = [f"grid = {list(launch.grid)}"] if launch.grid != facts.grid else []
    named = {(n, x.offset): x.value for n, leaves in enumerate(facts.params) for x in leaves}
    for n, leaves in enumerate(launch.params):
        for leaf in leaves:
            value = named.get((n, leaf.offset), Var(leaf.name))
            if isinstance(value, Var) and isinstance(leaf.value, int):
                found.append(f"{value.name} = {leaf.value}")
    opened = [launch.leaf(n, *load) for n, loads in enumerate(launch.loads) for load in loads]
    large = any(isinstance(x.value, Var) and x.size < _POINTER for x in opened)
    return ", ".join([*found, *(["all other sizes large"] if large else [])])


class _Met:
    """Which accesses data places on what other blocks touch in one launch. ``follows``: whether the place of
    some could be followed."""

    def __init__(self, places: BlockPlaces, is_input: _Inputs) -> None:
        self.places, self.is_input = places, is_input
        self.follows = False

    def first(self, pairs: Sequence[_Pair]) -> tuple[int, int] | None:
        """The first of some accesses that data places on what another block touches, and that access."""
        touched = dict[int, list[Touched | None]]()
        for (k, access), others in pairs:
            for n, reach in enumerate(self.places.reached(k, access, self.is_input)):
                if reach is None:
                    continue
                self.follows = True
                for j, other in others:
                    if j not in touched:
                        touched[j] = self.places.touched(j, other)
                    at = touched[j][n]
                    if at is not None and covered(reach[0], access.bytes, reach[1], at):
                        return k, j
        return None


def _polls(program: Program) -> bool:
    """Whether a loop asks what others write: blocks may wait there, in whatever form."""
    flow, counts = program.flow, used_counts(program.flow)
    inside = (k for k, i in enumerate(program.body) if i.op in ("ld", "atom") and _in_a_loop(flow, k))
    return any(k in counts or (program.body[k].op == "ld" and semantics(program.body[k])) for k in inside)


def _in_a_loop(flow: Flow, k: int) -> bool:
    return any(flow.block_of[k] in loop for loop in flow.loops)


class _Inputs:
    """Whether a load brings what no part of the kernel writes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        writes = [
            next((x for x in i.operands if isinstance(x, Mem)), None) for i in program.body if may_write(i)
        ]
        self.written = frozenset[str]().union(
            *(program.origins.of(x) or {ANYWHERE} for x in writes if x is not None)
        )

    def __call__(self, k: int) -> bool:
        used = used_in_global(self.program.body[k])
        of = self.program.origins.of(used[1]) if used is not None else frozenset()
        return bool(of) and ANYWHERE not in of | self.written and not of & self.written


def _accesses(program: Program, *ops: str) -> Iterator[tuple[int, Access]]:
    """The accesses to global memory by some instructions, of which one pointer is known."""
    for k, i in enumerate(program.body):
        if i.op not in ops or program.flow.block_of[k] not in program.flow.reached:
            continue
        access, used = decode_place(i), used_in_global(i)
        if access is not None and used is not None and ANYWHERE not in program.origins.of(used[1]):
            yield k, access


__all__ = ["PlacedOn", "of_several_blocks", "placed_on_others"]
