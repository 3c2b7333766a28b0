"""Whether a kernel hands data over through global memory, and where: only then global accesses have events.

A hand-over inside one kernel has somebody who waits, or decides by what others have written; without such a
consumer the order of global accesses is no business of the kernel's own synchronization. Bulk copies are
looked at besides where they meet other accesses to the memory that one parameter names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from syncverify.frontends.ptx.analysis.exclusion.locks import freed_by
from syncverify.frontends.ptx.analysis.exclusion.swap_loops import changes_one_word
from syncverify.frontends.ptx.analysis.global_memory.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE, Origins
from syncverify.frontends.ptx.analysis.registers.thread_numbers import ThreadNumbers
from syncverify.frontends.ptx.decode.global_access import (
    COMPARISONS,
    NEGATED,
    SWAPPED,
    GlobalAccess,
    GlobalSpin,
    decode_global,
    scope_of,
    semantics,
    space_of,
)
from syncverify.frontends.ptx.decode.parts import spaces
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import harmless, passes_on
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Label, Mem, Operand, Reg, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import width
from syncverify.model.events import Flag
from syncverify.model.proxies import Scope

_SWAPS = frozenset({"cas", "exch"})
_WIDE = ("cluster", "gl", "gpu", "sys")


@dataclass(frozen=True, slots=True)
class HandOver:
    """What a kernel does with global memory that other blocks, or its own async copies, may look at.

    ``accesses`` and ``spins``: by instruction. ``line``: where the first consumer stands, for reasons.
    ``together``: blocks may wait for each other, or combine atomics and bulk reductions.
    """

    accesses: Mapping[int, GlobalAccess]
    spins: Mapping[int, GlobalSpin]
    line: int
    together: bool
    # setp -> its predicate after a spin
    spin_predicates: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    polls: frozenset[int] = frozenset()  # atomics by which a whole block waits, turn by turn
    locks: Mapping[int, int] = field(default_factory=dict)  # those that take a lock -> what lets it go
    consumers: frozenset[int] = frozenset()  # what waits for, or decides by, what others have written
    waits: frozenset[int] = frozenset()  # atomics that a loop repeats until another thread's write suits it

    tickets: frozenset[int] = frozenset()  # atomics that count, for whose number spins wait
    tries: Mapping[int, int | None] = field(default_factory=dict)  # those that try a lock -> what lets it go
    unreleased: bool = False  # whether atomics decide, and nothing orders plain accesses by them
    released: bool = False  # whether something is released, in a kernel of which no part acquires it
    again: int | None = None  # a bulk copy to what bulk copies alone write, if nothing else is handed over

    @property
    def ordered(self) -> bool:
        """Whether blocks come to a place one after the other, in any order: to a lock, or for a ticket."""
        return bool(self.locks or self.tickets or self.tries)

    @property
    def waited(self) -> bool:
        """Whether some block waits for what others write."""
        return bool(self.spins or self.polls or self.locks or self.waits)


def hand_over(
    flow: Flow,
    generic: Mapping[int, bool],
    apart: bool = True,
    numbers: frozenset[str] = frozenset(),
    takes: frozenset[int] = frozenset(),
) -> HandOver | None:
    """The hand-over of a function; None where there is none.

    ``generic``: accesses without a state space, and whether their address may be in shared memory. ``apart``:
    pointers of different parameters lead to different memory. ``numbers``: places of parameters,
    ``name+offset``, that hold no pointer. ``takes``: atomics that hand out numbers of a counter: no polls.
    """
    body = flow.body
    places: Sequence[int] = [
        k for k, i in enumerate(body)
        if flow.block_of[k] in flow.reached and (space_of(i) == "global" or k in generic)
    ]  # fmt: skip
    spins = global_spins(flow, places)
    turns = [k for k in places if k not in spins and _block_poll(flow, k, places)]
    origins = Origins(flow, apart, numbers)
    locks = _locks(flow, turns, places, origins) if apart else {}
    polls = frozenset(k for k in turns if _same(flow.body[k]) or k in locks)
    tickets = _tickets(flow, places, spins) if apart else frozenset[int]()
    tried = _tried(flow, places) if apart else []
    reductions = _deciding_reductions(flow)
    consumers = sorted(
        {
            *spins,
            *polls,
            *tickets,
            *tried,
            *reductions,
            *_deciding(flow, places, takes, origins if apart else None),
        }
    )
    mixed = _mixed(flow, [k for k in places if not generic.get(k, False)], origins)
    decided = consumers or mixed is not None
    unreleased = [] if decided else _choosing_writers(flow, places, origins, apart=apart)
    consumers = consumers or unreleased
    again = None if consumers or mixed is not None else written_again(flow, origins)
    mixed = again if mixed is None else mixed
    if not consumers and mixed is None:
        return None
    if apart:
        places = _met(flow, places, consumers, origins)
    accesses = {k: a for k in places if (a := decode_global(body[k], generic.get(k, False))) is not None}
    settled = {s.decides: (s.predicate, s.passed) for s in spins.values()}
    line = body[consumers[0]].line if consumers else body[mixed or 0].line
    atomics = mixed is not None and any(body[k].op in ("atom", "red") for k in accesses)
    together = bool(consumers) or atomics
    waits = frozenset(
        k for k in consumers if body[k].op == "atom" and k not in spins and not _moves_on(flow, k)
    )
    rest = [k for k in consumers if k not in spins]
    tries = _tries(flow, rest, places, origins) if apart and not (turns or waits) else {}
    return HandOver(
        accesses, spins, line, together, settled, polls, locks, frozenset(consumers), waits, tickets, tries,
        bool(unreleased), again=again,
    )  # fmt: skip


def _deciding(
    flow: Flow, accesses: Collection[int], takes: Collection[int], origins: Origins | None
) -> list[int]:
    """Loads and atomics whose value decides what happens, where it may say what others have written."""
    body = flow.body
    fenced = any(wide_fence(i) for i in body)
    released = fenced or any(semantics(body[k]) & Flag.RELEASE for k in accesses)
    readers: dict[str, list[Instr]] = {}
    asked = _asked_again(flow) if any(body[k].op in ("ld", "atom") for k in accesses) else {}
    steered = _asked_again(flow, branches=True) if any(body[k].op == "atom" for k in accesses) else {}
    out = []
    for k in accesses:
        i = body[k]
        flags = semantics(i)
        acquires = flags & Flag.ACQUIRE and i.op in ("ld", "atom")
        strong = flags & Flag.STRONG and i.op in ("ld", "atom") and fenced
        if i.op == "ld" and flags & Flag.ACQUIRE:
            out.append(k)
        elif released and (acquires or strong) and _steers(flow, k, readers):
            out.append(k)
        elif i.op in ("ld", "atom") and k not in takes and _polled(flow, k, asked):
            if origins is None or not _swaps_alone(flow, k, accesses, origins, readers):
                out.append(k)
        elif i.op == "atom" and k not in takes and _polled(flow, k, steered) and not _moves_on(flow, k):
            out.append(k)
    return out


def _deciding_reductions(flow: Flow) -> list[int]:
    """Strong reads of the memory of several devices whose value steers: what they find is not followed."""
    readers: dict[str, list[Instr]] = {}
    return [
        k
        for k, i in enumerate(flow.body)
        if i.op == "multimem"
        and i.mods[:1] == ("ld_reduce",)
        and not {"relaxed", "acquire"}.isdisjoint(i.mods)
        and flow.block_of[k] in flow.reached
        and _steers(flow, k, readers)
    ]


def _choosing_writers(flow: Flow, places: Sequence[int], origins: Origins, *, apart: bool) -> list[int]:
    """Atomics whose value steers where plain accesses both write and read some memory: who finds what another
    block's atomic left may read what that block writes, though nothing releases it.

    Example: ``if (atomicOr(&taken, 1) == 0) sum = 5; else out[b] = sum;``.
    """
    body = flow.body
    atomics = [k for k in places if body[k].op == "atom"]
    if not atomics or not _read_back(flow, places, origins, apart=apart):
        return []
    readers: dict[str, list[Instr]] = {}
    return [k for k in atomics if _steers(flow, k, readers, selects=True) and not _repeats(flow, k, readers)]


def _read_back(flow: Flow, places: Sequence[int], origins: Origins, *, apart: bool) -> bool:
    """Whether some plain load may find what another thread left there: all but loads of a place that the same
    threads store to, where no others store. A ``cas`` is left out, before which such a load often stands."""
    body = flow.body
    loads = [k for k in places if body[k].op in ("ld", "ldu") and not semantics(body[k]) & Flag.STRONG]
    stores = [k for k in places if body[k].op in _WRITERS and "cas" not in body[k].mods]
    names = {k: origins.of(_address(flow.body[k])) or frozenset({ANYWHERE}) for k in (*loads, *stores)}
    others = list(_other_uses(flow, origins))
    copied = {x for use, of in others if use != "writes" for x in of}
    if copied and any(copied & names[j] or ANYWHERE in names[j] | copied for j in stores):
        return True
    stored = {x for use, of in others if use != "reads" for x in of}
    if stored and any(stored & names[j] or ANYWHERE in names[j] | stored for j in loads):
        return True
    for k in loads:
        met = [j for j in stores if not apart or names[j] & names[k] or ANYWHERE in names[j] | names[k]]
        own = any(_one_access(flow, j, k) for j in met)
        if met and not (own and all(_same_threads(flow, j, k) for j in met)):
            return True
    return False


_WRITERS = frozenset({"st", "discard", "red", "atom"})


def _one_access(flow: Flow, j: int, k: int) -> bool:
    """Whether two accesses of a thread have one address, by its text and the registers' versions."""
    one, other = _address(flow.body[j]), _address(flow.body[k])
    read = flow.versions.read
    return one == other and all(read(name, j) == read(name, k) for name in registers(one))


def _same_threads(flow: Flow, j: int, k: int) -> bool:
    """Whether the threads that execute one of two unguarded instructions are those that execute the other."""
    here, there = flow.block_of[j], flow.block_of[k]
    if flow.body[j].guard is not None or flow.body[k].guard is not None:
        return False
    above = flow.controllers()
    alike = flow.dominates(here, there) or flow.dominates(there, here)
    return here == there or (alike and above[here] == above[there])


def _repeats(flow: Flow, k: int, readers: Mapping[str, list[Instr]]) -> bool:
    """Whether a ``cas`` that moves on in a loop steers only that loop, which accesses no other memory."""
    loop = innermost(flow, k)
    if loop is None or "cas" not in flow.body[k].mods or not _moves_on(flow, k):
        return False
    turns = _body_of(flow, loop)
    alone = all(x is flow.body[k] or harmless(x) for x in turns)
    inside = {id(x) for x in turns}
    users = _users(results(flow.body[k]), readers)
    return alone and all(id(x) in inside for x in users if _is_steered(x, selects=True))


def _swaps_alone(
    flow: Flow, k: int, places: Collection[int], origins: Origins, readers: dict[str, list[Instr]]
) -> bool:
    """Whether a loop is a change of one word by a ``cas``, of which nothing else hears. What it finds decides
    that loop alone, and all accesses to this memory are strong ones of one size, so that none is a race."""
    loop = innermost(flow, k)
    if loop is None or not changes_one_word(flow, k, loop):
        return False
    if _steers(flow, k, readers, selects=True) and not _repeats(flow, k, readers):
        return False
    own = origins.of(_address(flow.body[k]))
    copies = (global_operand(flow.body[j]) for _, found in bulk_copies(flow) for j in found)
    others = [*(origins.of(at) for at in copies), *(of for _, of in _other_uses(flow, origins))]
    return (
        bool(own)
        and ANYWHERE not in own
        and not any(_meet(own, names) for names in others)
        and all(_strong_like(flow, j, k) for j in places if _meet(own, origins.of(_address(flow.body[j]))))
    )


def _meet(own: frozenset[str], names: frozenset[str]) -> bool:
    return not names or ANYWHERE in names or not own.isdisjoint(names)


def _strong_like(flow: Flow, j: int, k: int) -> bool:
    """Whether two accesses to the memory of one pointer never race: both strong for all, of one size."""
    one, other = flow.body[j], flow.body[k]
    wide = all(semantics(i) & Flag.STRONG and scope_of(i) >= Scope.GPU for i in (one, other))
    single = not {"v2", "v4", "v8"}.intersection((*one.mods, *other.mods))
    return wide and single and width(one.mods[-1]) == width(other.mods[-1])


def wide_fence(i: Instr) -> bool:
    return orders_memory(i) and any(m in _WIDE for m in i.mods)


def orders_memory(i: Instr) -> bool:
    """Whether an instruction is a fence of the generic proxy."""
    return i.op in ("fence", "membar") and i.mods[0] not in ("proxy", "mbarrier_init")


def _steers(flow: Flow, k: int, readers: dict[str, list[Instr]], *, selects: bool = False) -> bool:
    """Whether a value comes to a guard, or to shared memory where others may decide by it; ``selects``: also
    to what selects."""
    if not readers:
        for i in flow.body:
            for name in sources(i):
                readers.setdefault(name, []).append(i)
    return any(_is_steered(i, selects=selects) for i in _users(results(flow.body[k]), readers))


def _is_steered(i: Instr, *, selects: bool) -> bool:
    if i.op in ("bra", "brx", "exit", "ret") or i.guard is not None:
        return True
    if selects and i.op in ("selp", "slct"):
        return True
    return passes_on(i)


def _users(start: Collection[str], readers: Mapping[str, list[Instr]]) -> list[Instr]:
    """The instructions that use some registers, or what is computed from them."""
    seen, work = set(start), list(start)
    out: list[Instr] = []
    while work:
        for i in readers.get(work.pop(), ()):
            out.append(i)
            for name in results(i):
                if name not in seen:
                    seen.add(name)
                    work.append(name)
    return out


def _asked_again(flow: Flow, *, branches: bool = False) -> Mapping[frozenset[int], Collection[str]]:
    """For each loop, the registers that say in it whether it is left; ``branches``: also those that decide
    which of its blocks write them."""
    out = {}
    above = flow.controllers() if branches else []
    for loop in flow.loops:
        body = _body_of(flow, loop)
        found = {g.name for g in _exit_guards(flow, loop) if g is not None}
        grown = True
        while grown:
            new = {r for x in body if found.intersection(results(x)) for r in sources(x)} - found
            if branches:
                new |= _choosing(flow, loop, above, found) - found
            grown = bool(new)
            found |= new
        out[loop] = found
    return out


def _choosing(flow: Flow, loop: frozenset[int], above: Sequence[set[int]], found: set[str]) -> set[str]:
    """The guards of a loop's branches that decide whether some registers are written in it."""
    writing = {
        b
        for b in loop
        for x in flow.body[flow.blocks[b].lo : flow.blocks[b].hi]
        if not found.isdisjoint(results(x))
    }
    deciding = {c for b in writing for c in above[b] if c in loop}
    guards = (flow.body[flow.blocks[c].hi - 1].guard for c in deciding)
    return {g.name for g in guards if g is not None}


def _moves_on(flow: Flow, k: int) -> bool:
    """Whether an atomic that a loop repeats changes what it asks for itself: it counts, or compares with what
    its turn before brought. One that does not waits for another thread.

    Example: ``cas(lock, 0, 1)`` waits; ``old = cas(sum, old, old + x)`` and ``add(next, 1)`` move on.
    """
    i, loop = flow.body[k], innermost(flow, k)
    if loop is None:
        return True
    if "cas" in i.mods:
        made = {r for x in _body_of(flow, loop) for r in results(x)}
        value = set(results(i))
        asked = set(registers(i.operands[2]))
        return not asked.isdisjoint(_reached_by(value, _body_of(flow, loop)) & made)
    counts = not {"add", "inc", "dec", "sub"}.isdisjoint(i.mods)
    return counts and not _is_zero(flow, i.operands[2])


def _reached_by(start: Collection[str], body: Sequence[Instr]) -> set[str]:
    """Registers, and what instructions compute from them."""
    found, grown = set(start), True
    while grown:
        more = {r for x in body if found.intersection(sources(x)) for r in results(x)} - found
        grown = bool(more)
        found |= more
    return found


def _adds_one(flow: Flow, i: Instr) -> bool:
    counts = i.op == "atom" and "add" in i.mods and i.mods[-1] in ("u32", "s32") and i.guard is None
    return counts and len(i.operands) == 3 and _is_number(flow, i.operands[2], 1)


def _is_zero(flow: Flow, op: Operand) -> bool:
    return _is_number(flow, op, 0)


def _is_number(flow: Flow, op: Operand, number: int) -> bool:
    """Whether an operand is a number, also by way of one ``mov``."""
    return constant(flow, op) == number


def constant(flow: Flow, op: Operand) -> int | None:
    """The constant that an operand is, also by way of one ``mov``."""
    if isinstance(op, Reg):
        makers = [x for x in flow.body if op.name in results(x)]
        op = makers[0].operands[1] if len(makers) == 1 and makers[0].op == "mov" else op
    return op.value if isinstance(op, Imm) else None


def _polled(flow: Flow, k: int, asked: Mapping[frozenset[int], Collection[str]]) -> bool:
    """Whether a loop looks at one place again and again, and is left by what it finds there."""
    loop = innermost(flow, k)
    if loop is None or not set(results(flow.body[k])).intersection(asked[loop]):
        return False
    written = {r for x in _body_of(flow, loop) for r in results(x)}
    return not written.intersection(registers(_address(flow.body[k])))


def innermost(flow: Flow, k: int) -> frozenset[int] | None:
    """The smallest loop that an instruction is in."""
    inside = [loop for loop in flow.loops if flow.block_of[k] in loop]
    return min(inside, key=len) if inside else None


def _body_of(flow: Flow, loop: Collection[int]) -> list[Instr]:
    return [flow.body[k] for b in sorted(loop) for k in range(flow.blocks[b].lo, flow.blocks[b].hi)]


def _exit_guards(flow: Flow, loop: Collection[int]) -> list[Reg | None]:
    return [flow.body[flow.blocks[b].hi - 1].guard for b in loop if set(flow.blocks[b].succ) - set(loop)]


# ---------------------------------------------------------------- spins


def global_spins(flow: Flow, accesses: Collection[int]) -> dict[int, GlobalSpin]:
    """Strong loads, or atomics that change nothing, in loops that end by one comparison of their value alone;
    and the same load and comparison before such a loop (its first turn)."""
    out: dict[int, GlobalSpin] = {}
    for k in sorted(accesses):
        i = flow.body[k]
        if (
            not (i.op == "ld" or _only_reads(flow, i))
            or not semantics(i) & Flag.STRONG
            or i.guard is not None
        ):
            continue
        spin = spin_of(flow, k)
        if spin is not None:
            out[k] = spin
    for k in sorted(accesses):
        if k not in out and flow.body[k].op == "ld":
            peeled = next((p for s in list(out.values()) if (p := first_turn(flow, k, s)) is not None), None)
            if peeled is not None:
                out[k] = peeled
    return out


def _only_reads(flow: Flow, i: Instr) -> bool:
    """Whether an atomic leaves what it finds: an addition of zero, zero by ``or``, a ``cas`` of a value with
    itself."""
    if i.op != "atom":
        return False
    zero = not {"add", "or"}.isdisjoint(i.mods) and _is_zero(flow, i.operands[2])
    return zero or ("cas" in i.mods and _same(i))


def spin_of(flow: Flow, k: int) -> GlobalSpin | None:
    """The wait that a loop is: it does nothing but load, or one atomic, and fence, until one comparison of
    the value ends it."""
    loop = innermost(flow, k)
    if loop is None:
        return None
    body = _body_of(flow, loop)
    load = flow.body[k]
    if not all(x is load or harmless(x) or orders_memory(x) for x in body) or flow.counts(loop, load):
        return None
    moving = flow.moving(loop, load)
    if moving.intersection(registers(load.operands[1])):
        return None
    exits = [b for b in loop if set(flow.blocks[b].succ) - set(loop)]
    leaving = [b for b in exits if not all(flow.gives_up(s) for s in flow.blocks[b].succ if s not in loop)]
    if len(leaving) != 1:
        return None
    (last,) = leaving
    taken = _taken(flow, last)
    if taken is None or not _fences_alike(flow, loop, last):
        return None
    spin = _decided_by(flow, k, flow.blocks[last].hi - 1, taken not in loop)
    if spin is None or moving.intersection(registers(spin.bound)):
        return None
    decides = flow.block_of[spin.decides]
    if sum(spin.predicate in results(x) for x in body) != 1 or decides not in loop:
        return None
    inside = flow.dominates(flow.block_of[k], decides) and flow.dominates(decides, last)
    return spin if inside and (flow.block_of[k] != decides or k < spin.decides) else None


def _fences_alike(flow: Flow, loop: Collection[int], last: int) -> bool:
    """Whether every turn of a loop that block ``last`` ends executes all fences in it.

    The turns are one event, and its fences are executed once. Those of the turns before the last one order
    less: between them the thread only looks.
    """
    return all(
        x.guard is None and flow.dominates(b, last)
        for b in loop
        for x in flow.instructions(b)
        if orders_memory(x)
    )


def _taken(flow: Flow, block: int) -> int | None:
    """The block that a guarded branch at the end of a block goes to."""
    i = flow.body[flow.blocks[block].hi - 1]
    target = next((o.target for o in i.operands if isinstance(o, Label)), None)
    if i.op != "bra" or i.guard is None or target is None or target >= len(flow.body):
        return None
    return flow.block_of[target]


def _decided_by(flow: Flow, k: int, branch: int, leaves: bool) -> GlobalSpin | None:
    """The comparison of the load ``k`` that a branch asks; ``leaves``: taken, the branch ends the spin."""
    guard = flow.body[branch].guard
    assert guard is not None
    setters = [j for j, x in enumerate(flow.body) if guard.name in results(x)]
    at = [j for j in setters if flow.block_of[j] == flow.block_of[branch] and j < branch]
    at = at or [j for j in setters if len(setters) == 1]
    if not at:
        return None
    j = at[-1]
    i = flow.body[j]
    value = results(flow.body[k])
    if i.op != "setp" or i.guard is not None or len(i.operands) != 3 or len(i.mods) != 2 or len(value) != 1:
        return None
    compare, (d, a, b) = COMPARISONS.get(i.mods[0]), i.operands
    if compare is None or not isinstance(d, Reg):
        return None
    if isinstance(b, Reg) and b.name == value[0]:
        compare, a, b = SWAPPED[compare], b, a
    if not isinstance(a, Reg) or a.name != value[0] or not isinstance(b, Reg | Imm) or b == a:
        return None
    if not _brought(flow, k, a.name, j):
        return None
    passed = int(leaves != flow.body[branch].negated)
    unsigned = i.mods[0] not in ("eq", "ne") and i.mods[1][0] in "ub"
    return GlobalSpin(k, compare if passed else NEGATED[compare], b, unsigned, j, d.name, passed)


def _brought(flow: Flow, k: int, name: str, j: int) -> bool:
    """Whether what ``j`` reads in a register is what ``k`` has brought, and nothing made of it.

    Example: in ``ld r; and r, r, 2; setp r, 0`` it is not.
    """
    return flow.versions.writer[flow.versions.read(name, j)] == k


def first_turn(flow: Flow, k: int, spin: GlobalSpin) -> GlobalSpin | None:
    """A load before a spin's loop that asks the same: it is passed, or the loop goes on to ask."""
    here, there = flow.body[k], flow.body[spin.load]
    same = here.operands[1] == there.operands[1] or _converted(flow, k) == _converted(flow, spin.load)
    if here.mods != there.mods or not same or here.guard is not None:
        return None
    block = flow.block_of[k]
    last = flow.blocks[block].hi - 1
    loop = innermost(flow, spin.load)
    taken = _taken(flow, block)
    if loop is None or taken is None or len(flow.blocks[block].succ) != 2 or block in loop:
        return None
    exits = {s for b in loop for s in flow.blocks[b].succ if s not in loop and not flow.gives_up(s)}
    other = next((s for s in flow.blocks[block].succ if s != taken), taken)
    ways = {way: ahead for way in (taken, other) if (ahead := _ahead_of(flow, way, loop)) is not None}
    if len(ways) != 1 or not {taken, other} - ways.keys() <= exits:
        return None
    ((_, ahead),) = ways.items()
    turns = {r for b in (*ahead, *loop) for x in flow.instructions(b) if x is not there for r in results(x)}
    apart = set[str]() if results(here) == results(there) else {*results(here), *results(there)}
    if any(not (turns | apart).isdisjoint(flow.live_at(s)) for s in exits):
        return None  # what the turns have written is looked at, and a passed first look leaves it out
    both = list(zip(here.operands[2:], there.operands[2:], strict=True))
    if not all(x == y if (n := constant(flow, x)) is None else n == constant(flow, y) for x, y in both):
        return None  # an atomic that puts another value there, or puts it where it finds another one
    moving = (x for x in here.operands[2:] if constant(flow, x) is None)
    asked = {r for op in (here.operands[1], *moving, spin.bound) for r in registers(op)}
    if asked & turns:
        return None
    found = _decided_by(flow, k, last, taken not in ways)
    if found is None or (found.compare, found.bound, found.unsigned) != (
        spin.compare, spin.bound, spin.unsigned
    ):  # fmt: skip
        return None
    between = {r for x in flow.body[k : last + 1] for r in results(x)}
    if between & asked:
        return None
    return found if k < found.decides and flow.block_of[found.decides] == block else None


def _ahead_of(flow: Flow, block: int, loop: Collection[int]) -> tuple[int, ...] | None:
    """The blocks that lead from one to a loop, and nowhere else, and wait for nothing; None: it leads to
    something else."""
    found: list[int] = []
    while block not in loop:
        if block == flow.end or block in found or len(flow.blocks[block].succ) != 1:
            return None
        if not all(map(harmless, flow.instructions(block))) or len(flow.blocks[block].pred) != 1:
            return None
        found.append(block)
        (block,) = flow.blocks[block].succ
    return tuple(found)


def _converted(flow: Flow, k: int) -> tuple[object, ...]:
    """The place that a load reads, by what ``cvta`` makes its address of; the load itself where none does."""
    at, versions = flow.body[k].operands[1], flow.versions
    if isinstance(at, Mem) and isinstance(at.base, Reg):
        w = versions.writer[versions.read(at.base.name, k)]
        i = flow.body[w] if w >= 0 else None
        if i is not None and i.op == "cvta" and i.guard is None and isinstance(i.operands[1], Reg):
            return i.mods, versions.read(i.operands[1].name, w), at.offset
    return (k,)


def _block_poll(flow: Flow, k: int, places: Collection[int]) -> bool:
    """Whether an atomic ``cas`` is what the turns of a loop are for: who asks does nothing else there, or
    shared memory tells the others, and barriers of the whole block frame it."""
    i = flow.body[k]
    if i.op != "atom" or "cas" not in i.mods or len(i.operands) != 4:
        return False
    loop = innermost(flow, k)
    if loop is None or sum(flow.block_of[p] in loop for p in places) != 1:
        return False
    body = _body_of(flow, loop)
    met = [x for x in body if x.op in ("bar", "barrier")]
    shared = [x for x in body if x.op in ("ld", "st") and any(m.startswith("shared") for m in x.mods)]
    rest = [x for x in body if x is not i and x not in met and x not in shared]
    whole = all("sync" in x.mods and len(x.operands) == 1 for x in met)
    fixed = _changing(body, rest).intersection(sources(i))
    alike = not flow.counts(loop, i) and _alike(flow, loop, k, shared)
    apart = bool(met) or not shared
    return apart and whole and all(map(harmless, rest)) and not fixed and alike


def _alike(flow: Flow, loop: Collection[int], k: int, shared: Sequence[Instr]) -> bool:
    """Whether all turns in vain of a loop around an atomic do the same, and hand nothing on to later ones."""
    body = _body_of(flow, loop)
    turned = flow.by_turns(loop, flow.body[k])
    for x in body:
        decides = x.guard is not None and x.guard.name in turned
        if decides or (not turned.isdisjoint(sources(x)) and not harmless(x)):
            return False
    loaded = {r for x in shared if x.op == "ld" for r in results(x)}
    before = any(x.op == "ld" for x in flow.body[:k] if any(x is y for y in shared))
    grown = True
    while grown:
        more = {r for x in body if loaded.intersection(sources(x)) for r in results(x)}
        grown = not more <= loaded
        loaded |= more
    kept = {r for x in shared if x.op == "st" for o in x.operands[1:] for r in registers(o)}
    return not before and not kept & loaded


def _changing(body: Sequence[Instr], rest: Sequence[Instr]) -> set[str]:
    """The registers that turns of a loop may change; ``rest``: what computes from registers alone."""
    changing = {r for x in body for r in results(x)}
    while True:
        moved = {
            r
            for x in body
            if x not in rest or x.guard or changing.intersection(sources(x))
            for r in results(x)
        }
        if moved == changing:
            return changing
        changing = moved


def _same(i: Instr) -> bool:
    """Whether a ``cas`` changes nothing: it compares with the value that it would store."""
    return i.operands[2] == i.operands[3]


def _locks(flow: Flow, turns: Sequence[int], places: Sequence[int], origins: Origins) -> dict[int, int]:
    """The lock of a kernel that has one and waits for nothing else: what takes it, and what lets it go."""
    if len(turns) != 1 or _same(flow.body[turns[0]]):
        return {}
    names = {k: origins.of(_address(flow.body[k])) for k in places}
    if any(not x or ANYWHERE in x for x in names.values()):
        return {}
    (take,) = turns
    others = [k for k in places if k != take and names[k] & names[take]]
    bulk = {x for _, of in bulk_copies(flow) for k in of for x in origins.of(global_operand(flow.body[k]))}
    free = freed_by(flow, take, others)
    return {} if free is None or bulk & names[take] or ANYWHERE in bulk else {take: free}


def _tickets(flow: Flow, places: Sequence[int], spins: Mapping[int, GlobalSpin]) -> frozenset[int]:
    """Relaxed atomics that count by one, once, and bring the number that a spin waits to equal.

    Example: ``t = atomicAdd(&next, 1); while (serving != t) {}``.
    """
    asked = {s.bound.name for s in spins.values() if s.compare == "==" and isinstance(s.bound, Reg)}
    return frozenset(
        k
        for k in places
        if _adds_one(flow, i := flow.body[k])
        and semantics(i) == int(Flag.STRONG)
        and not asked.isdisjoint(results(i))
        and innermost(flow, k) is None
    )


def _tried(flow: Flow, places: Collection[int]) -> list[int]:
    """Atomics outside of loops that put something at one place, if zero is there, and steer; swaps put it
    there in any case, which changes nothing where it is there already."""
    readers: dict[str, list[Instr]] = {}
    return [
        k
        for k in places
        if (i := flow.body[k]).op == "atom"
        and not _SWAPS.isdisjoint(i.mods)
        and i.guard is None
        and innermost(flow, k) is None
        and _is_zero(flow, i.operands[2]) == ("cas" in i.mods)
        and _one_place(flow, _address(i))
        and _steers(flow, k, readers)
    ]


def _one_place(flow: Flow, op: Operand) -> bool:
    """Whether an address is that of a variable, or what a parameter holds, and a constant."""
    base = op.base if isinstance(op, Mem) else op
    for _ in flow.body:
        if not isinstance(base, Reg):
            return isinstance(base, Sym)
        made = [x for x in flow.body if base.name in results(x)]
        if len(made) != 1 or made[0].guard is not None:
            return False
        (i,) = made
        if i.op == "ld":
            return "param" in i.mods
        if i.op not in ("mov", "cvta") and (i.op != "add" or not isinstance(i.operands[2], Imm)):
            return False
        base = i.operands[1]
    return False


def asked_if_zero(flow: Flow, k: int) -> bool:
    """Whether what an instruction brings is only compared with zero."""
    users = [i for i in flow.body if not set(results(flow.body[k])).isdisjoint(sources(i))]
    return all(
        i.op == "setp" and i.mods[0] in ("eq", "ne") and any(_is_zero(flow, x) for x in i.operands[1:])
        for i in users
    )


def _tries(
    flow: Flow, consumers: Collection[int], places: Sequence[int], origins: Origins
) -> dict[int, int | None]:
    """The lock that each block tries once, by a ``cas`` of 0 or a swap outside of loops, and what lets it go;
    nothing where data decides by something else too, or where blocks may find each other's numbers there.

    Example: ``if (atomicCAS(&lock, 0, 1) == 0) { ...; atomicExch(&lock, 0); }``.
    """
    body, tried = flow.body, _tried(flow, consumers)
    if len(consumers) != 1 or not tried:
        return {}
    (take,) = tried
    swaps = "exch" in body[take].mods
    names = {k: origins.of(_address(body[k])) for k in places}
    if any(not x or ANYWHERE in x for x in names.values()) or any(of for _, of in bulk_copies(flow)):
        return {}
    alike = constant(flow, body[take].operands[-1]) is not None or asked_if_zero(flow, take)
    if len(body[take].operands) != (3 if swaps else 4) or not alike:
        return {}
    others = [k for k in places if k != take and names[k] & names[take]]
    free = freed_by(flow, take, others, tried=True)
    if swaps and others not in ([], [free]):
        return {}  # who finds the lock held writes it too
    return {take: free} if free is not None or not others else {}


# ---------------------------------------------------------------- bulk copies beside other accesses


def bulk_copies(flow: Flow) -> tuple[tuple[str, list[int]], tuple[str, list[int]]]:
    """Bulk copies to global memory, and from there; those through tensor maps left out."""
    found: dict[str, list[int]] = {"to": [], "from": []}
    for k, i in enumerate(flow.body):
        if i.op == "cp" and "bulk" in i.mods and not {"prefetch", "tensor"}.intersection(i.mods):
            ways = spaces(i.mods)
            if flow.block_of[k] in flow.reached and "global" in ways:
                found["to" if ways[0] == "global" else "from"].append(k)
    return ("to", found["to"]), ("from", found["from"])


def _mixed(flow: Flow, accesses: Collection[int], origins: Origins) -> int | None:
    """A bulk write of memory that the kernel accesses in another way too, or loads again; a bulk load of what
    it writes otherwise."""
    (_, writes), (_, loads) = bulk_copies(flow)
    if not writes and not loads:
        return through_one_map(flow)
    seen = {k: origins.of(global_operand(flow.body[k])) for k in writes}
    others = [(k, origins.of(_address(flow.body[k]))) for k in accesses]
    others += [(k, origins.of(global_operand(flow.body[k]))) for k in loads]
    for k in writes:
        if any(seen[k] & (o - {ANYWHERE}) for _, o in others):
            return k
    for k in loads:
        of = origins.of(global_operand(flow.body[k])) - {ANYWHERE}
        if any(of & o for j, o in others if flow.body[j].op in ("st", "discard", "red", "atom")):
            return k
    return through_one_map(flow)


def written_again(flow: Flow, origins: Origins) -> int | None:
    """A bulk copy to memory that another one writes, or itself in the next turn of a loop or by another
    thread: copies in flight have no order. Reductions beside reductions of one size are atomic (A3)."""
    (_, writes), _ = bulk_copies(flow)
    copies = {k: origins.of(global_operand(flow.body[k])) for k in writes}
    numbers = ThreadNumbers(flow)
    for k, of in copies.items():
        if "reduce" in flow.body[k].mods:
            unlike = (j for j in copies if _reduces_otherwise(flow.body[j], flow.body[k]))
            if any(of & copies[j] - {ANYWHERE} for j in unlike):
                return k
            continue
        if not of - {ANYWHERE}:
            continue
        if any(of & o - {ANYWHERE} and j != k for j, o in copies.items()):
            return k
        turns = any(flow.block_of[k] in loop for loop in flow.loops)
        if turns or numbers.several_issue(k):
            return k
    return None


def _reduces_otherwise(one: Instr, other: Instr) -> bool:
    """Whether two bulk reductions are of elements of two sizes: each is atomic for its own alone."""
    both = "reduce" in one.mods and "reduce" in other.mods and "tensor" not in (*one.mods, *other.mods)
    return both and width(one.mods[-1]) != width(other.mods[-1])


def through_one_map(flow: Flow) -> int | None:
    """A copy that writes through a tensor map by which the kernel loads, too. Maps at different places of
    parameters lead to different memory."""
    stores, loads = tensor_copies(flow)
    read = {at for _, at in loads if at is not None}
    return next((k for k, at in stores if at in read), None)


#: Copies through tensor maps, each with the parameter in which its map lies and the byte; None: not known.
TensorCopies = list[tuple[int, tuple[str, int] | None]]


def tensor_copies(flow: Flow) -> tuple[TensorCopies, TensorCopies]:
    """Those to global memory, and those from there."""
    found: dict[bool, TensorCopies] = {True: [], False: []}
    for k, i in enumerate(flow.body):
        if i.op == "cp" and "tensor" in i.mods and "prefetch" not in i.mods:
            at = next((o for o in i.operands if isinstance(o, Mem) and o.coords), None)
            if at is not None and flow.block_of[k] in flow.reached:
                found[spaces(i.mods)[:1] == ["global"]].append((k, in_parameter(flow, k, at)))
    return found[True], found[False]


def in_parameter(flow: Flow, k: int, op: Mem) -> tuple[str, int] | None:
    """Where in which parameter an address leads that an instruction reads."""
    base, offset = op.base, op.offset
    for _ in flow.body:
        if not isinstance(base, Reg):
            break
        k = flow.versions.writer[flow.versions.read(base.name, k)]
        i = flow.body[k] if k >= 0 else None
        if i is None or i.guard is not None or i.op not in ("mov", "cvt", "cvta", "add"):
            return None
        rest = i.operands[2] if i.op == "add" else Imm(0)
        if not isinstance(rest, Imm):
            return None
        base, offset = i.operands[1], offset + rest.value
    named = {p.name for p in flow.function.params}
    return (base.name, base.offset + offset) if isinstance(base, Sym) and base.name in named else None


def _address(i: Instr) -> Operand:
    return next(o for o in i.operands if isinstance(o, Mem))


def global_operand(i: Instr) -> Operand:
    memory = [o for o in i.operands if isinstance(o, Mem)]
    return memory[0] if spaces(i.mods)[:1] == ["global"] else memory[1]


def _met(flow: Flow, places: Sequence[int], consumers: Collection[int], origins: Origins) -> Sequence[int]:
    """Accesses without those to parameters' memory that the kernel only reads, only writes, or only combines
    atomically: nothing is handed over there."""
    names = {k: origins.of(_address(flow.body[k])) for k in places}
    bulk = {x for _, of in bulk_copies(flow) for k in of for x in origins.of(global_operand(flow.body[k]))}
    others = list(_other_uses(flow, origins))
    if not all(names.values()) or any(
        ANYWHERE in x for x in (bulk, *names.values(), *(x for _, x in others))
    ):
        return places
    group = {x: x for found in names.values() for x in found}

    def head(x: str) -> str:
        while group[x] != x:
            x = group[x]
        return x

    for found in names.values():
        first, *rest = found
        for x in rest:
            group[head(x)] = head(first)
    uses: dict[str, set[str]] = {}
    for k in places:
        of = uses.setdefault(head(next(iter(names[k]))), set())
        of.add(_USES[flow.body[k].op])
        if k in consumers:
            of.add("decides")
    for x in bulk & group.keys():
        uses[head(x)].add("bulk")
    for use, places_of in others:
        for x in places_of & group.keys():
            uses[head(x)].add(use)
    kept = {x for x, of in uses.items() if len(of - {"decides"}) > 1 or of == {"combines", "decides"}}
    return [k for k in places if head(next(iter(names[k]))) in kept]


def _other_uses(flow: Flow, origins: Origins) -> Iterator[tuple[str, frozenset[str]]]:
    """What copies by threads, matrices, and accesses to several devices do with memory of which pointers."""
    for k, i in enumerate(flow.body):
        found = used_in_global(i) if i.op not in _USES and flow.block_of[k] in flow.reached else None
        if found is not None:
            yield found[0], origins.of(found[1]) or frozenset({ANYWHERE})


_USES = {
    "ld": "reads",
    "ldu": "reads",
    "st": "writes",
    "discard": "writes",
    "atom": "combines",
    "red": "combines",
}
