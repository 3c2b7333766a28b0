"""Which open sizes a proof needs as terms: those that decide more than whether shared memory is accessed.

``if (i < n) out[i] = tile[t];`` decides about one read. That the read is made by every lane is a proof for
each ``n``, so ``n`` may be data; only what decides about barriers, trip counts and places has to be a term.
``for (i = tid; i < n; i += 128) tile[i] = in[i];`` decides about places too. As data, ``n`` lets each thread
store anywhere, any number of times: then only what decides about barriers has to be a term.
``if (r >= m || c >= n) return;`` ahead of all accesses needs no term either: who leaves is taken to stay.
The choice is a heuristic: a proof without a term is one for every value of it, and none leads to the
attempt with all sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeGuard

from syncverify.frontends.ptx.analysis.arrays.known_addresses import KnownAddress
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.symbolic_launch import parameter_leaf
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Special, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.ir.expr import Expr, names

_AXES = "xyz"
#: Special registers that say where a block lies, or how many there are.
_PLACES = ("%ctaid", "%nctaid", "%clusterid", "%nclusterid")
#: Special registers that are numbers in each launch of a block.
_NUMBERS = ("%tid", "%ntid", "%laneid")
#: Instructions that other lanes see, or that end a thread.
_SEEN = frozenset("call shfl vote redux match elect activemask exit trap brx brkpt bar barrier".split())


def steering_sizes(
    facts: PtxFacts, program: Program, sizes: Mapping[str, tuple[int, int | None]]
) -> frozenset[str]:
    """Of the open sizes, those that decide more than whether accesses are made."""
    return _sizes_in(facts, program, _needed(program), sizes)


def _sizes_in(
    facts: PtxFacts, program: Program, needed: frozenset[str], sizes: Mapping[str, tuple[int, int | None]]
) -> frozenset[str]:
    """The open sizes that some registers are computed of."""
    wanted: set[str] = set()
    for i in program.body:
        if needed.isdisjoint(results(i)):
            continue
        for leaf in _parameters(i):
            found = parameter_leaf(facts, program.function, leaf)
            if found is not None and isinstance(found.value, Expr):
                wanted |= names(found.value)
        for special in (op.name for op in i.operands if isinstance(op, Special)):
            base, _, axis = special.partition(".")
            if base in _PLACES and axis in _AXES:
                extent = facts.grid[_AXES.index(axis)]
                wanted |= names(extent) if isinstance(extent, Expr) else frozenset()
    return frozenset(wanted & sizes.keys())


def meeting_sizes(
    facts: PtxFacts, program: Program, sizes: Mapping[str, tuple[int, int | None]]
) -> frozenset[str]:
    """Of the open sizes, those that decide more than which accesses are made, how often, and where."""
    regions = {k: _between(program, k) for k in program.slice.branches - program.early.keys()}
    skipped = {
        k: region
        for k, region in regions.items()
        if _keeps_from_failing(program, k) or not any(_seen(program, j) for j in region)
    }
    needed = {
        guard.name for k in regions.keys() - skipped.keys() if (guard := program.body[k].guard) is not None
    }
    for k, effect in program.decoded.items():
        if not _accesses(effect):
            i = program.body[k]
            needed.update((*sources(i), *((i.guard.name,) if i.guard is not None else ())))
    return _sizes_in(facts, program, _closed(program, needed, skipped), sizes)


def lane_conditions(program: Program) -> frozenset[int]:
    """Branches that decide lane by lane whether accesses to shared memory are made, and nothing more."""
    return frozenset(
        k
        for k in program.slice.branches
        if (region := _accesses_only(program, k))
        and any(j in program.decoded for j in region)
        and (guard := program.body[k].guard) is not None
        and _of_lanes(program, guard.name)
    )


def _of_lanes(program: Program, name: str) -> bool:
    """Whether a register is computed of a thread's number in its block, and of more than such numbers."""
    needed = _closed(program, {name}, {})
    made = [(k, i) for k, i in enumerate(program.body) if not needed.isdisjoint(results(i))]
    specials = {op.name for _, i in made for op in i.operands if isinstance(op, Special)}
    more = any(k not in program.slice.pure or i.op == "ld" for k, i in made)
    if not more and all(x.startswith(_NUMBERS) for x in specials):
        return False  # ``if (threadIdx.x == 0)`` says which lanes access what
    return any(x.startswith(("%tid", "%laneid")) for x in specials)


def _parameters(i: Instr) -> Iterator[str]:
    """Names, as compiled code has them, of what an instruction loads of the parameters."""
    if i.op == "ld" and "param" in i.mods and isinstance(i.operands[1], Mem):
        base = i.operands[1].base
        if isinstance(base, Sym):
            yield f"param {base.name}+{i.operands[1].offset}:{i.mods[-1]}"


def _needed(program: Program) -> frozenset[str]:
    """Registers that decide about more than accesses, or where these lie."""
    regions = {
        k: () if _keeps_from_failing(program, k) else _accesses_only(program, k)
        for k in program.slice.branches - program.early.keys()
    }
    skipped = {k: region for k, region in regions.items() if region is not None}
    needed = {
        guard.name for k in regions.keys() - skipped.keys() if (guard := program.body[k].guard) is not None
    }
    for k, effect in program.decoded.items():
        i = program.body[k]
        needed.update(registers(effect.address) if _accesses(effect) else sources(i))
        needed.update((i.guard.name,) if i.guard is not None else ())
    return _closed(program, needed, skipped)


def _closed(program: Program, needed: set[str], skipped: Mapping[int, Iterable[int]]) -> frozenset[str]:
    """With all that they are computed of, and what decides which of several values they hold."""
    size = -1
    while size != len(needed):
        size = len(needed)
        for k in program.slice.pure:
            i = program.body[k]
            if not needed.isdisjoint(results(i)):
                needed.update(sources(i))
        for k, region in skipped.items():
            guard = program.body[k].guard
            if guard is not None and any(not needed.isdisjoint(results(program.body[j])) for j in region):
                needed.add(guard.name)
    return frozenset(needed)


def _keeps_from_failing(program: Program, k: int) -> bool:
    """Whether one side of a branch is a failed assertion: where nothing is known, the other one is taken."""
    flow = program.flow
    return len({s in flow.failing for s in flow.blocks[flow.block_of[k]].succ}) == 2


def _accesses_only(program: Program, k: int) -> tuple[int, ...] | None:
    """The instructions that a branch decides about, if all that others see of them is accesses."""
    flow = program.flow
    block = flow.block_of[k]
    if block in flow.between(block):
        return None
    region = _between(program, k)
    return None if any(_seen(program, j) for j in region) else region


def _between(program: Program, k: int) -> tuple[int, ...]:
    """The instructions that a branch decides about; of a loop all of its own."""
    flow = program.flow
    between = flow.between(flow.block_of[k])
    return tuple(j for b in between for j in range(flow.blocks[b].lo, flow.blocks[b].hi))


def _accesses(effect: object) -> TypeGuard[Access]:
    """Whether all of an effect is an access, to shared memory or, at an address of the text, to another."""
    return type(effect) is Access or type(effect) is KnownAddress


def _seen(program: Program, j: int) -> bool:
    """Whether an instruction does more than write registers and access memory."""
    if j in program.decoded:
        return not _accesses(program.decoded[j])
    if program.leaves_out(j):
        return False
    return j in program.touches or j in program.takes or program.body[j].op in _SEEN


__all__ = ["lane_conditions", "meeting_sizes", "steering_sizes"]
