"""What a verdict on a PTX kernel takes for granted, as the report's ``assumptions`` say it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations
from math import prod
from typing import Any

from syncverify.base.diagnostics import Diagnostic, Policy, Severity
from syncverify.base.kernel_names import base_name
from syncverify.checker.kernel.exact.state import LEFT_ALONE
from syncverify.frontends.ptx.analysis.block_axes import left_out
from syncverify.frontends.ptx.analysis.block_places import SAMPLES, BlockPlaces, Shared, StoreRows
from syncverify.frontends.ptx.analysis.branch_bounds import BranchBounds
from syncverify.frontends.ptx.analysis.collectives import INTEGERS
from syncverify.frontends.ptx.analysis.counted_blocks import reaches, read_by_the_last, resets, used_counts
from syncverify.frontends.ptx.analysis.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.handover_detection import (
    bulk_copies,
    global_operand,
    through_one_map,
    written_again,
)
from syncverify.frontends.ptx.analysis.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.store_pairs import Meeting, Orders, meetings
from syncverify.frontends.ptx.analysis.tile_barriers import TileMeeting
from syncverify.frontends.ptx.analysis.uniformity import BLOCK, THREADS, Uniformity
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.effects import Beyond
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.decode.memory import Access, decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.warp_counts import counts_down
from syncverify.frontends.ptx.launch.facts import PtxFacts, text
from syncverify.frontends.ptx.syntax.nodes import Function, Module, Special
from syncverify.frontends.ptx.syntax.operands import registers, sources
from syncverify.ir.expr import Expr
from syncverify.ir.launch_grid import Dims
from syncverify.model.events import Undefined

#: Clusters that run together; so few have a place on the device at the same time.
MAX_TOGETHER = 16
#: What hands values of lanes to other lanes: those of a lane that has left are undefined.
_VALUES = frozenset({"shfl", "vote", "match", "redux"})
#: What holds of memory by which blocks synchronize.
ZERO_FLAGS = "flags and counters in global memory are zero at launch"
#: Where accesses stay whose places data says: in all of shared memory, or in an array.
PLACED_BY_DATA = "where data says, an access is aligned and stays inside"
_APART = "tensor maps and pointers of different names lead to different memory"


def of_hand_over(program: Program, clusters: int | None) -> list[str]:
    """What a verdict on data that blocks hand over through global memory rests on."""
    taken = f"line {program.unseen}: no other kernel takes data of bulk copies by what is released there"
    found = [] if program.unseen is None else [taken]
    if program.handing is None:
        return found
    found.append(_APART)
    if program.handing.spins or program.handing.locks:
        found.append(ZERO_FLAGS)
    if program.handing.together and clusters is not None and 1 < clusters <= MAX_TOGETHER:
        found.append(f"the {clusters} clusters of the grid run at the same time")
    elif program.handing.together and program.handing.spins:
        found.append("blocks start in the order of their numbers")
    return found


def of_shared_flags(program: Program) -> list[str]:
    """That threads which wait in shared memory keep nobody from going on."""
    lines = sorted({program.module.span(program.body[k]).line for k in program.flags.waits})
    return [f"line {line}: other threads of the block go on while one waits there" for line in lines]


def of_elections(program: Program, policy: Policy) -> list[str]:
    """Which lane is elected: PTX leaves the choice open, and where that is so every lane is tried."""
    matters = program.elections.matter and not tries_elections(program, policy)
    return ["elect.sync elects the lowest lane, as sm_90 does"] if matters else []


def tries_elections(program: Program, policy: Policy) -> bool:
    """Whether every lane is tried as the elected one.

    So it is in strict mode, and where a lane waits by its number for bulk groups: these belong to who
    commits them."""
    return policy is Policy.STRICT or program.elections.groups_by_number


def of_stores(program: Program) -> list[str]:
    """Accesses whose place is data; and what shows that lanes store one value."""
    data_lines = sorted({program.sites[s].span.line for s in program.seen.data_addressed})
    found = [f"line {line}: {PLACED_BY_DATA} shared memory" for line in data_lines]
    arrays = sorted({(program.sites[s].span.line, name) for s, name in program.seen.array_addressed.items()})
    found += [f"line {line}: {PLACED_BY_DATA} `{name}`" for line, name in arrays]
    steps = sorted({program.sites[s].span.line for s in program.seen.dynamic_addressed})
    found += [f"line {line}: an access stays inside dynamic shared memory" for line in steps]
    slots = sorted({program.sites[s].span.line for s in program.seen.unbounded_slots})
    found += [f"line {line}: atomics hand out fewer than 2**30 slots between two resets" for line in slots]
    ranks = sorted({program.sites[s].span.line for s in program.seen.ranks_of_floats})
    found += [f"line {line}: of the floats that are ranked for this place none is a NaN" for line in ranks]
    sized = sorted({(program.sites[s].span.line, x) for s, x in program.seen.placed_by_sizes.items()})
    wraps = "no number that places this access wraps or is divided by 0"
    less = {False: "", True: ", and no parameter is below 0"}
    found += [f"line {line}: {wraps}{less[x]}" for line, x in sized]
    leave = sorted({program.sites[s].span.line for s in program.seen.leaves})
    found += [f"line {line}: barriers do not wait for threads that leave there" for line in leave]
    if leave:
        hands = [i for i in program.body if i.op in _VALUES and "sync" in i.mods]
        at = sorted({program.module.span(i).line for i in hands})
        found += [f"line {line}: no lane that the mask names has left the kernel" for line in at]
    counts = sorted({program.module.span(i).line for i in program.body if counts_down(i)})
    found += [f"line {line}: lanes that count together have done what comes before" for line in counts]
    alike = sorted((program.module.span(program.body[k]).line, text) for k, text in program.rests_on)
    return [*found, *(f"line {line}: {text}" for line, text in alike)]


def of_dynamic(facts: PtxFacts) -> list[str]:
    """What is not shown where the bytes of dynamic shared memory depend on sizes."""
    if not isinstance(facts.dynamic_smem, Expr):
        return []
    whole = f"the {text(facts.dynamic_smem)} bytes of dynamic shared memory hold every access"
    return [f"{whole}: seen for the least and the largest sizes"]


def of_stops(program: Program, stopped: Mapping[int, str]) -> list[str]:
    """Where the kernel would stop itself, divide by 0, or leave a table of branches.

    ``stopped``: by line, what some sizes lead to.
    """
    data = {program.sites[s].span.line for s in program.seen.trusted}
    found = dict.fromkeys(data, "no assertion fails there")
    for k, i in enumerate(program.body):
        if i.op == "brx" and k not in program.slice.branches:
            found[program.module.span(i).line] = "the index of brx.idx lies in its table"
    for line, reason in stopped.items():
        by_zero = "what decides was not divided by 0" if isinstance(reason, Undefined) else ""
        too_large = "the dynamic shared memory holds what is accessed" if isinstance(reason, Beyond) else ""
        found[line] = too_large or by_zero or "no assertion fails there"
    return [f"line {line}: {text}" for line, text in sorted(found.items())]


def of_tiles(module: Module, entry: Function, meetings: Iterable[TileMeeting]) -> list[str]:
    """That a warp sees what its lane 0 acquires, where the last warp of a tile works for all."""
    lines = sorted({module.span(entry.body[m.at]).line for m in meetings if m.collective})
    return [f"line {line}: what lane 0 acquires its warp sees behind the shfl" for line in lines]


def of_fenced_signals(module: Module, entry: Function, signals: Iterable[int]) -> list[str]:
    """That fences of a block's threads ahead of a barrier publish what one thread tells of behind it."""
    lines = sorted({module.span(entry.body[k]).line for k in signals})
    return [f"line {n}: tells of what all threads fenced before the block's barrier (K26)" for n in lines]


def of_block_groups(facts: PtxFacts, program: Program, restores: bool) -> list[str]:
    """What a proof takes for granted where any block group represents all; ``restores``: flags are left as
    they are found."""
    if program.block_groups is None:
        return []
    index = {p.name: i for i, p in enumerate(program.function.params)}
    names = set()
    for x in program.block_groups.written:
        parameter, placed, offset = x.partition("+")
        if parameter in index:
            size = 8 if placed else program.function.params[index[parameter]].size
            x = facts.leaf(index[parameter], int(offset or 0), size).name or x
        names.add(x)
    found = ["every launch leaves the flags as it finds them"] if restores else []
    return found + ([f"no place of {', '.join(sorted(names))} is written twice"] if names else [])


def of_warnings(diagnostics: Iterable[Diagnostic]) -> list[str]:
    """The conditions that warnings name, with their lines: a proof in practical mode rests on them."""
    found = {
        f"line {d.span.line}: {d.condition}": None
        for d in diagnostics
        if d.severity is Severity.WARNING and d.condition is not None
    }
    return list(found)


def pointers_apart(facts: PtxFacts) -> bool:
    """Whether no pointer is given at two places."""
    named = [leaf.name for leaves in facts.params for leaf in leaves if leaf.kind == "ptr" and leaf.name]
    return len(named) == len(set(named))


_INTEGERS = frozenset({"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool"})


def numbers(facts: PtxFacts, function: Function) -> frozenset[str]:
    """The places ``parameter+offset`` that hold a number: no address is made of them."""
    return frozenset(
        f"{p.name}+{leaf.offset}"
        for p, leaves in zip(function.params, facts.params, strict=False)
        for leaf in leaves
        if leaf.given and leaf.kind in _INTEGERS
    )


def unwritten(facts: PtxFacts, function: Function) -> frozenset[str]:
    """The places ``parameter+offset`` of pointers, and the parameters that are tensor maps, that lead to
    nothing which the grid before writes."""
    return frozenset(
        p.name if leaf.kind == "tensormap" else f"{p.name}+{leaf.offset}"
        for p, leaves in zip(function.params, facts.params, strict=False)
        for leaf in leaves
        if not leaf.written_before
    )


def alignments(facts: PtxFacts) -> dict[tuple[str, int], int]:
    """What pointers and numbers of 8 bytes are multiples of, where the launch file or the text says it."""
    found: dict[tuple[str, int], int] = {}
    for parameter, leaves in zip(facts.variables, facts.params, strict=True):
        for leaf in leaves:
            if leaf.size == 8 and isinstance(leaf.value, int) and leaf.value:
                found[parameter.name, leaf.offset] = leaf.value & -leaf.value
            elif leaf.size == 8 and leaf.kind == "ptr" and leaf.align > 1:
                found[parameter.name, leaf.offset] = leaf.align
    return found


def holds(facts: PtxFacts) -> bool:
    """Whether the launch file says what some pointer leads to."""
    return any(leaf.holds for leaves in facts.params for leaf in leaves)


def of_memory(facts: PtxFacts, program: Program) -> list[str]:
    """That nobody changes what the launch file says of global memory, but for counters."""
    named = dict.fromkeys(leaf.name for leaves in facts.params for leaf in leaves if leaf.holds)
    counters = _counters(facts, program) & named.keys()
    found = [f"what {name} holds stays as the launch file says" for name in named
             if not program.reads_only and name not in counters]  # fmt: skip
    found += [f"{name} holds at launch what the launch file says, and only this grid counts there"
              for name in sorted(counters)]  # fmt: skip
    return [_APART, *found] if counters and program.handing is None else found


def of_words(facts: PtxFacts, program: Program) -> list[str]:
    """That nobody changes the words that were taken as sizes."""
    words = program.words & program.slice.pure
    names = sorted(_pointers(facts, program, words - program.variables))
    found = [f"what {name} leads to stays the same while the kernel runs" for name in names]
    held = {k for k in words & program.variables if "const" not in program.body[k].mods}
    alone = sorted(f"{name} stays the same while the kernel runs" for name in _pointers(facts, program, held))
    return [*([_APART, *found] if found else []), *alone]


def of_common(facts: PtxFacts, program: Program, asked: Iterable[tuple[Any, ...]]) -> list[str]:
    """That nobody changes the memory of which all threads compute what was asked."""
    if not any(isinstance(q[0], tuple) and q[0][0] == "common" for q in asked):
        return []
    names = sorted(_pointers(facts, program, {x.load for x in program.common.values()}))
    return [_APART, *(f"what {name} leads to stays the same while the kernel runs" for name in names)]


def of_overlaps(facts: PtxFacts, program: Program) -> list[str]:
    """That no thread reads what another one writes by accesses to global memory that have no events, but for
    the block that counts itself last; nor another block, where only those of one block are ordered."""
    handing, flow = program.handing, program.flow
    by_block = handing is not None and not (handing.together or program.alone)
    followed = handing.accesses if handing is not None and not by_block else {}
    index = {p.name for p in program.function.params}
    reads, writes, combines = dict[str, int](), dict[str, int](), dict[str, int]()
    uses = {"reads": reads, "writes": writes, "combines": combines}
    loaded = dict[str, int]()  # the first of each by a pointer that no parameter holds
    counts = used_counts(flow)
    counted = read_by_the_last(flow, counts, program.origins)
    last: dict[str, tuple[int, int]] = {}

    def line(k: int) -> int:
        return program.module.span(program.body[k]).line

    for k, i in enumerate(program.body):
        here = k not in followed and k not in counts and flow.block_of[k] in flow.reached
        use = used_in_global(i) if here else None
        places = program.origins.of(use[1]) if use is not None else frozenset[str]()
        if use is not None and ANYWHERE in places and k not in counted:
            loaded.setdefault(use[0], line(k))
        for place in places:
            if use is None or place.rpartition("+")[0] not in index:
                continue
            if k in counted:
                last.setdefault(place, (line(counted[k]), line(k)))
            else:
                uses[use[0]].setdefault(place, line(k))
    for (_, copies), of in zip(bulk_copies(flow), (writes, reads), strict=True):
        for k in copies if by_block else ():
            for place in program.origins.of(global_operand(program.body[k])):
                if place.rpartition("+")[0] in index:
                    of.setdefault(place, line(k))
    for place, at in _before_counts(program, counts):
        reads.setdefault(place, line(at))
    if not by_block:  # else the accesses that count are followed
        written = {x: at for x, at in combines.items() if x in reads and x not in writes}
        reads |= {x: at for x, at in combines.items() if x in writes and x not in reads}
        writes |= written
    nobody = [
        f"line {writes[x]}: no other thread reads (line {reads[x]}) what is written through {name} there"
        for x in writes
        if x in reads
        for name in _named(facts, program, [x])
    ]
    nobody += _by_loaded(loaded, reads, {at: _named(facts, program, [x]) for x, at in writes.items()})
    return [*(_through_maps(program) if by_block else ()), *nobody] + [
        f"line {writes[x]}: of other blocks, only the one that counts last (line {last[x][0]}) reads "
        f"(line {last[x][1]}) what is written through {name} there"
        for x in writes
        if x in last
        for name in _named(facts, program, [x])
    ]


def _by_loaded(
    loaded: Mapping[str, int], reads: Mapping[str, int], writes: Mapping[int, Collection[str]]
) -> Iterator[str]:
    """That nobody reads by another pointer what is written through one that is loaded, or the other way."""
    read = sorted({*(x for x in (loaded.get("reads"),) if x is not None), *reads.values()})
    lines = f"line{'s' if len(read) > 1 else ''} {', '.join(map(str, read))}"
    for at in (loaded.get("writes"), loaded.get("combines")):
        if at is not None and read:
            yield f"line {at}: no other thread reads ({lines}) what is written through {_LOADED} there"
    of_loaded = f"line {loaded.get('reads', 0)}"
    for at, names in writes.items() if "reads" in loaded else ():
        for name in names:
            yield f"line {at}: no other thread reads ({of_loaded}) what is written through {name} there"


def _before_counts(program: Program, counts: Collection[int]) -> Iterator[tuple[str, int]]:
    """Places that a thread writes ahead of an atomic there whose result is used, with that atomic; a counter
    that is set to 0 behind one is given back."""
    flow, body, origins = program.flow, program.body, program.origins
    for k, i in enumerate(body):
        use = used_in_global(i) if flow.block_of[k] in flow.reached and k not in counts else None
        if use is None or use[0] != "writes":
            continue
        for place in origins.of(use[1]):
            same = [a for a in sorted(counts) if place in origins.of(body[a].operands[1])]
            given_back = resets(i) and any(reaches(flow, a, k, lambda _: False) for a in same)
            ahead = (a for a in same if not given_back and reaches(flow, k, a, lambda _: False))
            yield from ((place, a) for a in ahead)


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
        if not several or k in last or not of_cluster.read_at(k, stored):
            return Shared.NO
        return places.shared(k, access, stored)

    def of_one(k: int, access: Access, stored: Collection[str]) -> Shared:
        """Whether two threads of one block do."""
        if not of_cluster.read_at(k, stored) & THREADS:
            return Shared.NO
        return places.shared_by_threads(k, access, stored, in_turn=_in_turn(flow, k))

    several, last, said = facts.grid != (1, 1, 1), _by_the_last(program), set[int]()
    places = places_of_blocks(facts, program, facts.block)
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
        if two >= Shared.YES or (one is Shared.YES and two is not Shared.OPEN):
            who = "blocks" if two >= Shared.YES else "threads of a block"
            what = f"{who} store values of their own to one place of {names}"
            found.append(f"line {line}: {what}: which stays does not matter")
        elif Shared.OPEN in (one, two):
            found.append(f"line {line}: {_NO_TWO} {names}")
        if max(one, two) is not Shared.NO:
            said.add(k)
    pairs = _pairs_that_meet(program, places)
    more = (
        _said_of(facts, program, x)
        for x in pairs
        if said.isdisjoint((x.first, x.second))
        or _by_memory(program, x.first) != _by_memory(program, x.second)
    )
    return list(dict.fromkeys((*found, *more)))


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
    names = sorted(_named(facts, program, of - {ANYWHERE}))
    more = ["another pointer"] if names and ANYWHERE in of else []
    return ", ".join([*names, *more]) or _LOADED


#: What a pointer is called that no parameter holds.
_LOADED = "a pointer"


#: Where it is open whether threads store values of their own to one place.
_NO_TWO = "no two threads store different values to one place of"


def _pairs_that_meet(program: Program, places: BlockPlaces) -> list[Meeting]:
    """The pairs of stores by which different threads store different values to one place in no order, or
    may, since a place has no number."""
    followed = {} if program.handing is None else program.handing.accesses
    last, stores = _by_the_last(program), list[tuple[int, list[StoreRows | None]]]()
    for k, access in _global_stores(program):
        if k not in followed and k not in last:
            stores.append((k, places.rows(k, access)))
    found, orders = dict[tuple[int, int], Meeting](), Orders(program.flow)
    without = {k for k, rows in stores if None in rows}
    for a, b in combinations([k for k, _ in stores], 2):
        if not without.isdisjoint((a, b)) and _may_differ(program, a, b):
            found[a, b] = Meeting(a, b, of_blocks=True, certainly=False, perhaps=True)
    for n in range(SAMPLES):
        some = [(k, x) for k, rows in stores if (x := rows[n]) is not None]
        for pair in meetings(some, orders):
            found.setdefault((pair.first, pair.second), pair)
    return list(found.values())


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


def _by_the_last(program: Program) -> frozenset[int]:
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
    """A store by which threads of a launch in numbers store different numbers to one place, in no order: a
    plain one, in a kernel whose blocks do not wait for each other."""
    numbers = not facts.symbols() and all(isinstance(n, int) for n in facts.grid)
    if facts.block is None or program.handing is not None or not numbers:
        return None
    places = places_of_blocks(facts, program, facts.block)
    for k, access in _global_stores(program):
        in_a_loop = any(program.flow.block_of[k] in loop for loop in program.flow.loops)
        if in_a_loop or semantics(program.body[k]):
            continue
        stored = [n for x in access.elements for n in registers(x)]
        if facts.grid != (1, 1, 1) and places.shared(k, access, stored) is Shared.CERTAINLY:
            return k
    for pair in _pairs_that_meet(program, places):
        plain = not any(semantics(program.body[k]) for k in (pair.first, pair.second))
        if pair.certainly and plain and (pair.of_blocks or not _others_wait(program)):
            return pair.second
    return None


#: Instructions beside barriers by which threads of a block wait for each other, or learn of each other.
_WAITS = frozenset({"mbarrier", "elect", "atom", "shfl", "vote", "match", "redux", "activemask"})


def _others_wait(program: Program) -> bool:
    """Whether threads of a block may wait for each other by other means than barriers of the block."""
    return bool(program.flags.waits) or any(
        i.op in _WAITS or (i.op in ("bar", "barrier") and ("warp" in i.mods or len(i.operands) > 1))
        for i in program.body
    )


def _global_stores(program: Program) -> Iterator[tuple[int, Access]]:
    """The stores to global memory, by addresses that say so, or that come from parameters alone."""
    index = {p.name for p in program.function.params}
    for k, i in enumerate(program.body):
        access = (
            decode_place(i) if i.op == "st" and program.flow.block_of[k] in program.flow.reached else None
        )
        if access is None or k in program.decoded:
            continue
        of = {place.rpartition("+")[0] for place in program.origins.of(access.address)}
        named = access.space == "generic" and of and of <= index
        loaded = access.space == "generic" and ANYWHERE in program.origins.of(access.address)
        if access.space == "global" or named or loaded:
            yield k, access


def places_of_blocks(facts: PtxFacts, program: Program, block: Dims) -> BlockPlaces:
    """Where stores of the blocks go that a launch has."""
    index = {p.name: n for n, p in enumerate(program.function.params)}

    def given(name: str, at: int, size: int) -> int | None:
        value = facts.leaf(index[name], at, size).value if name in index else None
        return value if isinstance(value, int) else None

    grid = [n if isinstance(n, int) else None for n in facts.grid]
    return BlockPlaces(program.flow, block, grid, facts.cluster, given)


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
    extents = dict(zip("xyz", facts.grid, strict=True))
    return any(extents[axis] != 1 for axis in left_out(flow, k, place, stored))


def of_copies_apart(program: Program) -> list[str]:
    """That bulk copies in flight write different places, where nothing but such copies writes there."""
    k = written_again(program.flow, program.origins)
    if k is None:
        return []
    line = program.module.span(program.body[k]).line
    return [f"line {line}: bulk copies that are in flight together write different places in global memory"]


def of_the_grid_before(program: Program) -> list[str]:
    """That accesses ahead of a wait for the grid before are not to what that grid writes, or reads."""
    lines = sorted({program.module.span(program.body[k]).line for k in program.before_the_wait})
    return [f"line {line}: {LEFT_ALONE}" for line in lines]


def _through_maps(program: Program) -> list[str]:
    """That no block loads what another one stores through the same tensor map."""
    store = through_one_map(program.flow)
    line = 0 if store is None else program.module.span(program.body[store]).line
    return [f"line {line}: no other block loads what is stored through the tensor map there"] if line else []


def _counters(facts: PtxFacts, program: Program) -> set[str]:
    """The names of pointers to counters whose numbers steer."""
    return _pointers(facts, program, program.takes & program.slice.pure)


def _pointers(facts: PtxFacts, program: Program, accesses: Iterable[int]) -> set[str]:
    """The names of the pointers that some accesses go by."""
    return _named(
        facts, program, {x for k in accesses for x in program.origins.of(program.body[k].operands[1])}
    )


def _named(facts: PtxFacts, program: Program, places: Iterable[str]) -> set[str]:
    """The names of the pointers at some places ``parameter+offset``."""
    index = {p.name: i for i, p in enumerate(program.function.params)}
    found = {x: x.rpartition("+") for x in places}
    variables = {base_name(x) for x, (name, _, _) in found.items() if name not in index}
    return variables | {
        facts.leaf(index[name], int(offset), 8).name for name, _, offset in found.values() if name in index
    }
