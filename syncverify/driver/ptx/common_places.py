"""Places in global memory to which several threads store: what a verdict takes for granted there, and stores
that certainly meet.

Which value stays there is not determined, and such stores have no events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from math import prod

from syncverify.driver.ptx.assumptions import LOADED, named_pointers
from syncverify.driver.ptx.input_loads import InputLoads
from syncverify.driver.ptx.launches_of_blocks import of_several_blocks
from syncverify.frontends.ptx.analysis.blocks.block_axes import left_out
from syncverify.frontends.ptx.analysis.blocks.block_places import (
    NOTHING,
    SAMPLES,
    BlockPlaces,
    Loaded,
    Shared,
    StoreRows,
)
from syncverify.frontends.ptx.analysis.blocks.store_pairs import Meeting, Orders, meetings
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import (
    reaches,
    read_by_the_last,
    used_counts,
)
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.registers.branch_bounds import BranchBounds
from syncverify.frontends.ptx.analysis.registers.uniformity import BLOCK, THREADS, Uniformity
from syncverify.frontends.ptx.analysis.warps.collectives import INTEGERS
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.decode.memory import Access, decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.nodes import Special
from syncverify.frontends.ptx.syntax.operands import registers, sources
from syncverify.ir.launch_grid import Dims


def of_common_places(facts: PtxFacts, program: Program) -> list[str]:
    """That threads do not store values of their own to a place that others store to: which value stays there
    is not determined, and such stores have no events. Nor where data says, or what a loop leaves behind."""
    if facts.block is None:
        return []
    flow, of_cluster = program.flow, program.uniformity(facts.block)
    of_grid = Uniformity(flow, facts.block, program.blocks_in_x, of_grid=True)
    followed = {} if program.handing is None else program.handing.accesses
    found = list[str]()

    def by_several(k: int, stored: Collection[str]) -> bool:
        """Whether blocks of different clusters store there."""
        if of_grid.placed(k) & BLOCK or not of_grid.read_at(k, stored) & BLOCK:
            return False
        return _by_rank(facts, program, of_grid, k) or not of_grid.decided_by(k) & BLOCK

    def of_an_axis(k: int, place: Collection[str], stored: Collection[str]) -> bool:
        """Whether all blocks do, or all along an axis."""
        if not of_cluster.read_at(k, stored) & BLOCK:
            return False
        apart = (of_cluster.placed(k) | of_cluster.decided_by(k)) & BLOCK
        return not apart or _of_several(facts, flow, k, place, stored)

    def of_two(k: int, access: Access, stored: Collection[str]) -> Shared:
        """Whether threads of two blocks do, where their numbers say so."""
        if not several or k in last:
            return Shared.NO
        found = places.shared_by_blocks(k, access, stored)  # cheaper than what values vary with
        return found if found is Shared.NO or of_cluster.read_at(k, stored) else Shared.NO

    def of_one(k: int, access: Access, stored: Collection[str]) -> Shared:
        """Whether two threads of one block do."""
        found = places.shared_by_threads(k, access, stored)
        return found if found is Shared.NO or of_cluster.read_at(k, stored) & THREADS else Shared.NO

    several, last, said = facts.grid != (1, 1, 1), by_the_last(program), set[int]()
    places = Places(facts, program, facts.block)
    for k, access in _global_stores(program):
        if k in followed:
            continue
        i = program.body[k]
        stored = [name for x in access.elements for name in registers(x)]
        place = registers(i.operands[0])
        sure = several and (by_several(k, stored) or of_an_axis(k, place, stored))
        two = Shared.YES if sure else of_two(k, access, stored)
        one = of_one(k, access, stored) if two < Shared.YES else Shared.NO
        line = program.module.span(i).line
        names = _stored_through(facts, program, k)
        if two >= Shared.YES or (one >= Shared.YES and two is not Shared.OPEN):
            who = "blocks" if two >= Shared.YES else "threads of a block"
            what = f"{who} store values of their own to one place of {names}"
            found.append(f"line {line}: {what}: which stays does not matter")
        elif Shared.OPEN in (one, two):
            found.append(f"line {line}: {_NO_TWO} {names}")
        if max(one, two) is not Shared.NO:
            said.add(k)
    pairs = _pairs_that_meet(program, places)
    more = (_said_of(facts, program, x) for x in pairs if _is_new(program, x, said))
    return list(dict.fromkeys((*found, *more)))


def _is_new(program: Program, pair: Meeting, said: Collection[int]) -> bool:
    """Whether no line of a store alone says what a pair needs: none is said, or memory holds one pointer."""
    one, two = pair.first, pair.second
    return (one not in said and two not in said) or _by_memory(program, one) != _by_memory(program, two)


def _by_memory(program: Program, k: int) -> bool:
    """Whether a store goes through a pointer that memory holds, or nobody knows."""
    return ANYWHERE in (program.origins.of(program.body[k].operands[0]) or {ANYWHERE})


def _said_of(facts: PtxFacts, program: Program, pair: Meeting) -> str:
    """The assumption that two stores which meet need."""
    line, other = (program.module.span(program.body[k]).line for k in (pair.first, pair.second))
    names = dict.fromkeys(_stored_through(facts, program, k) for k in (pair.first, pair.second))
    where = f"{' and '.join(names)} (line {other})"
    who = "blocks" if pair.of_blocks else "threads of a block"
    what = f"{who} store values of their own to one place of {where}: which stays does not matter"
    return f"line {line}: {_NO_TWO} {where}" if pair.perhaps else f"line {line}: {what}"


def _stored_through(facts: PtxFacts, program: Program, k: int) -> str:
    """The names of the pointers that a store goes by."""
    of = program.origins.of(program.body[k].operands[0])
    names = sorted(named_pointers(facts, program, of - {ANYWHERE}))
    more = ["another pointer"] if names and ANYWHERE in of else []
    return ", ".join([*names, *more]) or LOADED


#: Where it is open whether threads store values of their own to one place.
_NO_TWO = "no two threads store different values to one place of"


class Places:
    """Where stores of a launch go: by numbers, and where these say nothing, by inputs as well."""

    def __init__(self, facts: PtxFacts, program: Program, block: Dims, *, sizes: bool = True) -> None:
        self.facts, self.program, self.block, self.sizes = facts, program, block, sizes

    @cached_property
    def by_numbers(self) -> BlockPlaces:
        """Places that numbers of threads and parameters say."""
        return places_of_blocks(self.facts, self.program, self.block, Loaded(sizes=self.sizes))

    @cached_property
    def by_inputs(self) -> BlockPlaces:
        """Places that inputs say besides: those that are one are so whatever these hold."""
        stays = InputLoads(self.facts, self.program).stays
        loaded = Loaded(is_input=stays, sizes=self.sizes)
        return places_of_blocks(self.facts, self.program, self.block, loaded)

    def shared_by_blocks(self, k: int, access: Access, stored: Collection[str]) -> Shared:
        """Whether two blocks store values of their own to one place."""
        found = self.by_numbers.shared(k, access, stored)
        sure = self.by_inputs.shared(k, access, stored) if found is Shared.OPEN else Shared.NO
        return max(found, sure)

    def shared_by_threads(self, k: int, access: Access, stored: Collection[str]) -> Shared:
        """Whether two threads of one block do."""
        in_turn = _in_turn(self.program.flow, k)
        found = self.by_numbers.shared_by_threads(k, access, stored, in_turn=in_turn)
        if found is not Shared.OPEN:
            return found
        return max(found, self.by_inputs.shared_by_threads(k, access, stored, in_turn=in_turn))


def _pairs_that_meet(program: Program, places: Places) -> list[Meeting]:
    """The pairs of stores by which different threads store different values to one place in no order, or
    may, since a place has no number."""
    followed = {} if program.handing is None else program.handing.accesses
    last = by_the_last(program)
    stores = [(k, access) for k, access in _global_stores(program) if k not in followed and k not in last]
    if len(stores) < 2:
        return []
    found, orders = dict[tuple[int, int], Meeting](), Orders(program.flow)
    rows = {k: places.by_numbers.rows(k, access) for k, access in stores}
    without = {k for k in rows if None in rows[k]}
    for a, b in combinations(rows, 2):
        if not without.isdisjoint((a, b)) and _may_differ(program, a, b):
            found[a, b] = Meeting(a, b, of_blocks=True, certainly=False, perhaps=True)
    for pair in _meetings(rows, orders):
        found.setdefault((pair.first, pair.second), pair)
    if any(pair.perhaps for pair in found.values()):
        by_inputs = {k: places.by_inputs.rows(k, access) for k, access in stores}
        for pair in _meetings(by_inputs, orders):
            key = pair.first, pair.second
            if key in found and found[key].perhaps and not pair.perhaps:
                found[key] = pair
            elif key in found and pair.certainly and not found[key].certainly:
                found[key] = pair
    return list(found.values())


def _meetings(rows: Mapping[int, Sequence[StoreRows | None]], orders: Orders) -> Iterator[Meeting]:
    """The pairs of stores that meet in some sample."""
    for n in range(SAMPLES):
        yield from meetings([(k, x) for k, found in rows.items() if (x := found[n]) is not None], orders)


def _may_differ(program: Program, x: int, y: int) -> bool:
    """Whether two stores through one pointer, or of which one goes through a pointer from memory, may store
    different values: others, or in elements of another size, of which one begins inside of the other."""
    of = [program.origins.of(program.body[k].operands[0]) for k in (x, y)]
    sizes = {(a.size, len(a.elements)) for k in (x, y) if (a := decode_place(program.body[k])) is not None}
    one, other = (program.body[k].operands[1] for k in (x, y))
    versions = program.flow.versions
    same = one == other and all(versions.read(n, x) == versions.read(n, y) for n in registers(one))
    meet = _by_memory(program, x) or _by_memory(program, y) or bool(of[0] & of[1])
    return meet and not (same and len(sizes) == 1)


def by_the_last(program: Program) -> frozenset[int]:
    """The stores of the block alone that counts itself last, behind what that one reads."""
    flow = program.flow
    counted = read_by_the_last(flow, used_counts(flow), program.origins)
    above = flow.controllers() if counted else []
    return frozenset(
        k
        for k, _ in (_global_stores(program) if counted else ())
        for r, a in counted.items()
        if above[flow.block_of[r]] <= above[flow.block_of[k]] and reaches(flow, a, k, lambda _: False)
        if above[flow.block_of[k]] - above[flow.block_of[a]]
    )


def _in_turn(flow: Flow, k: int) -> bool:
    """Whether turns of a loop around an instruction are ordered by a barrier of the block."""
    return any(flow.block_of[k] in loop for loop in flow.loops) and Orders(flow).ordered(
        k, k, by_cluster=False
    )


def stored_by_several(facts: PtxFacts, program: Program) -> int | None:
    """A store by which threads of a launch certainly store different numbers to one place, in no order: a
    plain one, in a kernel whose blocks do not wait for each other. An open launch is asked in a few grids."""
    if facts.block is None or program.handing is not None:
        return None
    if next(_global_stores(program), None) is None:
        return None
    found = (_stored_at(launch, program, facts.block) for launch in of_several_blocks(facts, program))
    return next((k for k in found if k is not None), None)


def _stored_at(facts: PtxFacts, program: Program, block: Dims) -> int | None:
    """The same for one launch, whatever the sizes are of which nothing is said. Of places that parameters
    say it is asked of launches in numbers, and of blocks."""
    places, of_one_block = Places(facts, program, block, sizes=False), not others_wait(program)
    given = not facts.symbols() and all(isinstance(n, int) for n in facts.grid)
    of_inputs = set[int]()
    for k, access in _global_stores(program):
        if None in places.by_numbers.rows(k, access):
            of_inputs.add(k)
        in_a_loop = any(program.flow.block_of[k] in loop for loop in program.flow.loops)
        if in_a_loop or semantics(program.body[k]) or not (given or k in of_inputs):
            continue
        stored = [n for x in access.elements for n in registers(x)]
        if facts.grid != (1, 1, 1) and places.shared_by_blocks(k, access, stored) is Shared.CERTAINLY:
            return k
        one = of_one_block and k in of_inputs
        if one and places.shared_by_threads(k, access, stored) is Shared.CERTAINLY:
            return k
    for pair in _pairs_that_meet(program, places) if given or of_inputs else ():
        both = pair.first, pair.second
        plain = not any(semantics(program.body[k]) for k in both)
        asked = given or not of_inputs.isdisjoint(both)
        if pair.certainly and plain and asked and (pair.of_blocks or of_one_block):
            return pair.second
    return None


#: Instructions beside barriers by which threads of a block wait for each other, or learn of each other.
_WAITS = frozenset({"mbarrier", "elect", "atom", "shfl", "vote", "match", "redux", "activemask"})


def others_wait(program: Program) -> bool:
    """Whether threads of a block may wait for each other by other means than barriers of the block."""
    return bool(program.flags.waits) or any(
        i.op in _WAITS or (i.op in ("bar", "barrier") and ("warp" in i.mods or len(i.operands) > 1))
        for i in program.body
    )


def _global_stores(program: Program) -> Iterator[tuple[int, Access]]:
    """The stores to global memory."""
    return global_accesses(program, "st")


def global_accesses(program: Program, op: str) -> Iterator[tuple[int, Access]]:
    """The accesses to global memory by one opcode, by addresses that say so, or that come from parameters
    or memory alone."""
    index = {p.name for p in program.function.params}
    for k, i in enumerate(program.body):
        access = decode_place(i) if i.op == op and program.flow.block_of[k] in program.flow.reached else None
        if access is None or k in program.decoded:
            continue
        of = {place.rpartition("+")[0] for place in program.origins.of(access.address)}
        named = access.space == "generic" and of and of <= index
        loaded = access.space == "generic" and ANYWHERE in program.origins.of(access.address)
        if access.space == "global" or named or loaded:
            yield k, access


def places_of_blocks(facts: PtxFacts, program: Program, block: Dims, loaded: Loaded = NOTHING) -> BlockPlaces:
    """Where stores of the blocks go that a launch has. ``loaded``: what loads bring."""
    index = {p.name: n for n, p in enumerate(program.function.params)}

    def given(name: str, at: int, size: int) -> int | None:
        value = facts.leaf(index[name], at, size).value if name in index else None
        return value if isinstance(value, int) else None

    grid = [n if isinstance(n, int) else None for n in facts.grid]
    return BlockPlaces(program.flow, block, grid, facts.cluster, replace(loaded, given=given))


#: What says which block of its cluster a block is; or which row of its grid it is in.
_RANKS = ("%cluster_ctarank", "%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z")
_ROWS = ("%ctaid.y", "%ctaid.z")


def _by_rank(facts: PtxFacts, program: Program, values: Uniformity, k: int) -> bool:
    """Whether several blocks come to an instruction: they do by their place in their cluster, or by their row
    of the grid, and by nothing else that differs between blocks."""
    flow, body = program.flow, program.body
    work = [(p.name, at) for p, at, _ in BranchBounds(flow, lambda op, at: None).decisions(k)]
    seen, named = set(work), set[str]()
    while work:
        name, at = work.pop()
        if not values.read_at(at, [name]) & BLOCK:
            continue
        writer = flow.versions.writer[flow.versions.read(name, at)]
        if writer < 0 or body[writer].op not in INTEGERS:
            return False
        named |= {op.name for op in body[writer].operands if isinstance(op, Special)}
        more = {(x, writer) for x in sources(body[writer])} - seen
        seen |= more
        work += more
    where = named.intersection((*_RANKS, *_ROWS))
    if not where or any(x.startswith(("%ctaid", "%clusterid")) for x in named - where):
        return False
    numbers = [e for e in facts.grid if isinstance(e, int)]
    clusters = len(numbers) < len(facts.grid) or prod(numbers) > prod(facts.cluster or (1,))
    return facts.grid[0] != 1 if where.intersection(_ROWS) else clusters


def _of_several(facts: PtxFacts, flow: Flow, k: int, place: Iterable[str], stored: Iterable[str]) -> bool:
    """Whether some axis along which a stored value differs has several blocks, and does not say where."""
    axes = [axis for axis, extent in zip("xyz", facts.grid, strict=True) if extent != 1]
    return bool(left_out(flow, k, place, stored, axes))


__all__ = [
    "Places",
    "by_the_last",
    "global_accesses",
    "of_common_places",
    "others_wait",
    "places_of_blocks",
    "stored_by_several",
]
