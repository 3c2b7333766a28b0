"""Accesses at places of data beside those of other blocks: some input places both on one word.

    if (block == 0) bins[thread] = 0;   atomicAdd(&bins[x & 63], 1);       // nothing orders the two
    a[x & 63] = 1;   y = a[thread];                                        // nor these

Only what certainly is executed at a known place counts on one side, and on the other what the kernel bounds
(``analysis/blocks/data_places.py``). Blocks of one cluster are left out: its barrier may order them. A
launch that is open in some sizes includes launches in numbers: one of those in which the two meet is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from syncverify.driver.ptx.common_places import places_of_blocks
from syncverify.driver.ptx.input_loads import InputLoads
from syncverify.driver.ptx.launches_of_blocks import in_words, launches_of_blocks, small_launches
from syncverify.frontends.ptx.analysis.blocks.block_places import BlockPlaces
from syncverify.frontends.ptx.analysis.blocks.data_places import Touched, covered
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import used_counts
from syncverify.frontends.ptx.analysis.global_memory.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.decode.memory import Access, decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.nodes import Imm
from syncverify.frontends.ptx.syntax.operands import computed_from, registers, results


@dataclass(frozen=True, slots=True)
class PlacedOn:
    """An access that some input places on what another block accesses, in no order: one of them writes, and
    one is plain. ``seen``: in which launch they meet, beyond what the facts say of it."""

    placed: int
    other: int
    seen: str


def placed_on_others(facts: PtxFacts, program: Program) -> PlacedOn | None:
    """Such an access, of a launch whose blocks do not wait for each other."""
    if facts.block is None or program.handing is not None or facts.grid == (1, 1, 1):
        return None
    pairs = _pairs(program)
    if not pairs or _polls(program):
        return None
    is_input = InputLoads(facts, program)
    atomics = [x for x in pairs if program.body[x[0][0]].op != "st" and program.body[x[0][0]].op != "ld"]
    for launches, of in ((launches_of_blocks, pairs), (small_launches, atomics)):
        asked = follows = False
        for launch in launches(facts, program) if of else ():
            asked = True
            met = _Met(program, places_of_blocks(launch, program, facts.block), is_input)
            pair = met.first(of)
            if pair is not None:
                return PlacedOn(*pair, in_words(facts, launch))
            follows = follows or met.follows
        if asked and not follows:
            return None
    return None


#: An access, and those that it conflicts with where both are at one place.
_Pair = tuple[tuple[int, Access], list[tuple[int, Access]]]


def _pairs(program: Program) -> list[_Pair]:
    """Accesses by one pointer that conflict. Two plain stores may store the same: they are left out, but for
    constants that differ."""
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
            and (not body[one[0]].op == body[other[0]].op == "st" or _differ(one[1], other[1]))
        ]
        if others:
            found.append((one, others))
    return found


_WRITERS = ("atom", "red", "st")


def _differ(one: Access, other: Access) -> bool:
    """Whether two stores of one size store constants that differ."""
    pairs = list(zip(one.elements, other.elements, strict=False))
    constants = all(isinstance(x, Imm) for pair in pairs for x in pair)
    return constants and one.size == other.size and any(x != y for x, y in pairs)


def _both_placed(program: Program, one: int, other: int) -> bool:
    """Whether inputs may place both of two accesses that conflict: of stores, and of a load and a store of
    what is made of it, as an update is. Authors of others know more of their data."""
    body = program.body
    ops = body[one].op, body[other].op
    if ops == ("st", "st"):
        return True
    if ops not in (("ld", "st"), ("st", "ld")):
        return False
    load, store = (body[k] for k in ((one, other) if ops[0] == "ld" else (other, one)))
    made = computed_from(set(results(load)), body)
    return load.operands[1] == store.operands[0] and not made.isdisjoint(registers(store.operands[1]))


class _Met:
    """Which accesses data places on what other blocks touch in one launch. ``follows``: whether the place of
    some could be followed."""

    def __init__(self, program: Program, places: BlockPlaces, is_input: InputLoads) -> None:
        self.program, self.places, self.is_input = program, places, is_input
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
                    if at is None and _both_placed(self.program, k, j):
                        at = self._lowest(j, other, n)
                    if at is not None and covered(reach[0], access.bytes, reach[1], at):
                        return k, j
        return None

    def _lowest(self, k: int, access: Access, n: int) -> Touched | None:
        """What an access touches in one sample where its data is as low as it may be."""
        reach = self.places.reached(k, access, self.is_input)[n]
        if reach is None:
            return None
        places = [x + np.uint64(reach[0].low) for x in reach[0].begin]
        return Touched(places, reach[1], access.bytes, reach[0])


def _polls(program: Program) -> bool:
    """Whether a loop asks what others write: blocks may wait there, in whatever form."""
    flow, counts = program.flow, used_counts(program.flow)
    inside = (k for k, i in enumerate(program.body) if i.op in ("ld", "atom") and _in_a_loop(flow, k))
    return any(k in counts or (program.body[k].op == "ld" and semantics(program.body[k])) for k in inside)


def _in_a_loop(flow: Flow, k: int) -> bool:
    return any(flow.block_of[k] in loop for loop in flow.loops)


def _accesses(program: Program, *ops: str) -> Iterator[tuple[int, Access]]:
    """The accesses to global memory by some instructions, of which one pointer is known."""
    for k, i in enumerate(program.body):
        if i.op not in ops or program.flow.block_of[k] not in program.flow.reached:
            continue
        access, used = decode_place(i), used_in_global(i)
        if access is not None and used is not None and ANYWHERE not in program.origins.of(used[1]):
            yield k, access


__all__ = ["PlacedOn", "placed_on_others"]
