"""What a verdict on a PTX kernel takes for granted, as the report's ``assumptions`` say it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from syncverify.base.diagnostics import Diagnostic, Policy, Severity
from syncverify.base.kernel_names import base_name
from syncverify.checker.kernel.exact.state import LEFT_ALONE
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import (
    reaches,
    read_by_the_last,
    resets,
    used_counts,
)
from syncverify.frontends.ptx.analysis.global_memory.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.handover.handover_detection import (
    bulk_copies,
    global_operand,
    through_one_map,
    written_again,
)
from syncverify.frontends.ptx.analysis.warps.tile_barriers import TileMeeting
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.effects import Beyond
from syncverify.frontends.ptx.flow.warp_counts import counts_down
from syncverify.frontends.ptx.launch.facts import PtxFacts, text
from syncverify.frontends.ptx.syntax.nodes import Function, Module
from syncverify.ir.expr import Expr
from syncverify.model.events import Undefined

#: Clusters that run together; so few have a place on the device at the same time.
MAX_TOGETHER = 16
#: What hands values of lanes to other lanes: those of a lane that has left are undefined.
_VALUES = frozenset({"shfl", "vote", "match", "redux"})
#: What holds of memory by which blocks synchronize.
ZERO_FLAGS = "flags and counters in global memory are zero at launch"
#: Where accesses stay whose places data says: in all of shared memory, or in an array.
#: What a pointer is called that no parameter holds.
LOADED = "a pointer"
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


def of_first_guesses(module: Module, entry: Function, guesses: Iterable[int]) -> list[str]:
    """That a plain load of a word which others change meanwhile may bring anything, for a ``cas`` decides."""
    lines = sorted({module.span(entry.body[k]).line for k in guesses})
    return [f"line {n}: a first guess by a plain load, and the cas of the loop decides (K28)" for n in lines]


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


def holds_at(facts: PtxFacts, program: Program, places: Iterable[str]) -> bool:
    """Whether it says what the pointer at one of some places ``parameter+offset`` leads to."""
    held = {leaf.name for leaves in facts.params for leaf in leaves if leaf.holds}
    return bool(held) and not held.isdisjoint(named_pointers(facts, program, places))


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
        for name in named_pointers(facts, program, [x])
    ]
    nobody += _by_loaded(loaded, reads, {at: named_pointers(facts, program, [x]) for x, at in writes.items()})
    return [*(_through_maps(program) if by_block else ()), *nobody] + [
        f"line {writes[x]}: of other blocks, only the one that counts last (line {last[x][0]}) reads "
        f"(line {last[x][1]}) what is written through {name} there"
        for x in writes
        if x in last
        for name in named_pointers(facts, program, [x])
    ]


def _by_loaded(
    loaded: Mapping[str, int], reads: Mapping[str, int], writes: Mapping[int, Collection[str]]
) -> Iterator[str]:
    """That nobody reads by another pointer what is written through one that is loaded, or the other way."""
    read = sorted({*(x for x in (loaded.get("reads"),) if x is not None), *reads.values()})
    lines = f"line{'s' if len(read) > 1 else ''} {', '.join(map(str, read))}"
    for at in (loaded.get("writes"), loaded.get("combines")):
        if at is not None and read:
            yield f"line {at}: no other thread reads ({lines}) what is written through {LOADED} there"
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
    return named_pointers(
        facts, program, {x for k in accesses for x in program.origins.of(program.body[k].operands[1])}
    )


def named_pointers(facts: PtxFacts, program: Program, places: Iterable[str]) -> set[str]:
    """The names of the pointers at some places ``parameter+offset``."""
    index = {p.name: i for i, p in enumerate(program.function.params)}
    found = {x: x.rpartition("+") for x in places}
    variables = {base_name(x) for x, (name, _, _) in found.items() if name not in index}
    return variables | {
        facts.leaf(index[name], int(offset), 8).name for name, _, offset in found.values() if name in index
    }
