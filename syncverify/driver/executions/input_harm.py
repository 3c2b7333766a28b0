"""Which harm of an execution some input explains: what data decides, and where it places accesses.

An execution on an input that was drawn shows harm. It is no counterexample where an input that nobody gives
may be behind it: an access outside its memory, a word that all threads of a block read (a mode, an entry of
a table: a launch file may give what it holds), two accesses of which data decides for each thread by itself
(they may exclude each other), a number of threads or bytes that was loaded.

Where data places one of two accesses, or says where a row ends, the answer is a set of contracts
(``drawn_launch.Contract``). Data may be bounded, unique or sorted, and its author knows. Harm counts if it
comes under each of them.

Example: ``h[32 * warp + bin[i]]`` beside a neighbour's ``h[t] = 0`` races for a bin of 40. With all bins 0 it
does not, so that bins below 32 may be the contract: nothing is refuted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from syncverify.driver.executions.drawn_launch import Contract, Numbers
from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import counting_alone
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.handover.unset_paths import unset_paths
from syncverify.frontends.ptx.analysis.registers.thread_values import ThreadValues
from syncverify.frontends.ptx.analysis.registers.uniformity import LANES, THREADS
from syncverify.frontends.ptx.analysis.warps.collectives import combined_by_warps
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.tables import layout
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.operands import computed_from, registers, results, sources
from syncverify.frontends.ptx.syntax.pure_operations import PURE
from syncverify.frontends.ptx.syntax.types import RANK, kind, width
from syncverify.simulate.ptx import Harm
from syncverify.simulate.ptx.harm import Kind
from syncverify.simulate.ptx.loading import reached_functions

#: Collectives of a warp: whatever value they exchange, who takes part is what counts.
_COLLECTIVE = frozenset({"shfl", "vote", "match", "redux", "activemask"})
_EXCHANGES = _COLLECTIVE - {"activemask"}
_BARRIERS = frozenset({"bar", "barrier"})
_STORES = frozenset({"st", "atom", "red", "stmatrix"})
#: What else may write global memory.
_OTHER_WRITES = frozenset({"cp", "multimem", "tensormap", "call", "discard", "wmma"})
#: Spaces that loads of the host's memory do not name.
_HOST = frozenset({"shared", "local", "param"})
_SHARED = frozenset({"shared", "shared::cta", "shared::cluster"})
#: What a constant is added by, and what combines predicates.
_STEPS = frozenset({"add", "sub", "mov", "cvt"})
_LOGIC = frozenset({"and", "or", "xor", "not", "setp", "selp", "mov"})
#: Contracts by what data decides: a place, the place of a count (which repeats), the end of a row that lanes
#: access, that of a row in which threads meet, nothing.
_PLACES = frozenset({Contract.BOUNDED, Contract.UNIQUE, Contract.SORTED})
_COUNTS = frozenset({Contract.BOUNDED})
_ROWS = frozenset({Contract.SORTED, Contract.SHORT})
_PADDED = frozenset({Contract.PADDED})
_NONE = frozenset[Contract]()


@dataclass
class Inputs:
    """Which harm some input explains."""

    program: Program
    block: tuple[int, int, int]
    apart: dict[int, frozenset[str]] = field(default_factory=dict)  # what is known of registers, by bits

    def contracts(self, harm: Harm) -> frozenset[Contract] | None:
        """The contracts under each of which harm has to come, so that it counts; None: it does not."""
        here = self._at(harm.where.line)
        match harm.kind:
            case Kind.TRAP:
                return None
            case Kind.OUTSIDE:
                return _NONE if any(map(self._misplaced, here)) else None
            case Kind.HANG:
                return _PADDED if any(map(self._bounded_by_data, here)) else _NONE
            case Kind.UNDEFINED:
                if harm.before_a_block or harm.behind_a_block:
                    return self._of_an_absent_block(here)
                if harm.space and any(map(self._misplaced, here)):
                    return _NONE
                if harm.space in _SHARED and self._of_no_input(here, _addressing):
                    return _NONE
                if harm.space or not here or any(map(self._operates_on_data, here)):
                    return None
                return _PADDED if any(map(self._bounded_by_data, here)) else _NONE
        if harm.other is None and harm.space in _SHARED and self._of_no_input(here, sources):
            return _NONE
        if harm.space not in _SHARED or harm.other is None:
            return None
        there = self._at(harm.other.line)
        one, two = harm.where, harm.other
        bits = LANES if (one.block, one.warp) == (two.block, two.warp) else THREADS
        placed = self._placed(here, there, bits)
        changed = self._changes(here, there)
        if changed is not None:
            return _NONE if not placed else _COUNTS if changed else _PLACES
        both = [here, there]
        alone = all(any(self._by_data(k, bits) for k in some) for some in both)
        if not all(both) or (alone and not (bits == LANES and self._decided_by_warps({*here, *there}))):
            return None
        along = any(self._bounded_by_data(k) and self._moves(k) for k in (*here, *there))
        return (_PLACES if placed else _NONE) | (_ROWS if along else _NONE)

    def _of_no_input(self, here: Collection[int], read: Callable[[Instr], Iterable[str]]) -> bool:
        """Whether some registers of each instruction, and what decides whether it is executed, are made of
        constants and of numbers of lanes and threads alone, with what lanes exchange.

        Example: ``shfl.sync.idx.b32 %r4, %r6, 20, 31, -1; st.shared.u32 [%r4], %r0;`` where lane 20 has a
        constant in ``%r6``, whichever line it comes from.
        """
        module = self.program.module
        if not here or any(v.space == "shared" and not v.size for v in module.variables):
            return False  # how many bytes an array of no size has, the launch says
        work = [name for k in here for name in (*read(self.program.body[k]), *self._deciders(k))]
        seen = set(work)
        while work:
            made = {j for k in self._makers.get(work.pop(), ()) for j in self._bring(k)}
            if not made or not all(_of_own_numbers(self.program.body[k]) for k in made):
                return False
            more = {x for k in made for x in (*sources(self.program.body[k]), *self._deciders(k))} - seen
            seen |= more
            work += more
        return True

    def _bring(self, k: int) -> Iterable[int]:
        """An instruction, with those by which other lanes may bring what it exchanges (K27)."""
        body = self.program.body
        op = body[k].op
        return [j for j, i in enumerate(body) if i.op == op] if op in _EXCHANGES else [k]

    @cached_property
    def _makers(self) -> dict[str, list[int]]:
        """The instructions that write each register."""
        found: dict[str, list[int]] = {}
        for k, i in enumerate(self.program.body):
            for name in results(i):
                found.setdefault(name, []).append(k)
        return found

    def _of_an_absent_block(self, here: Iterable[int]) -> frozenset[Contract] | None:
        """The contracts for an access to a block that may not run yet, or has exited. Which block that is
        data may say; whether there is an access, it must not say.

        Example: a histogram over a cluster adds to the block that an element's upper bits name. Whatever they
        are, nothing may be added to a block before it runs, so a cluster barrier has to stand in front.
        That all data names the own block is no contract: nothing would have to be reached then.
        """
        if not here or any(self._decided(k, THREADS) for k in here):
            return None
        return _PLACES if any(map(self._placed_by_data, here)) else _NONE

    def places_some(self, lines: Iterable[int]) -> bool:
        """Whether data places an access of some lines."""
        return any(self._placed_by_data(k) for line in lines for k in self._at(line))

    @property
    def leave_arrays(self) -> bool:
        """Whether accesses may leave the array that they name."""
        return bool(self._beyond_arrays)

    def of_the_host(self) -> list[Instr]:
        """Loads of words that all threads of a block read and that steer: a mode, a number, an entry of a
        table. Of such a word an author may know more; that threads read different ones is for all to see."""
        body, u = self.program.body, self.program.uniformity(self.block)
        guards = {i.guard.name for i in body if i.guard is not None}
        return [
            i
            for k, i in enumerate(body)
            if i.op in ("ld", "ldu")
            and _of_host(i)
            and not u.placed(k) & THREADS
            and not guards.isdisjoint(computed_from(set(results(i)), body))
        ]

    @cached_property
    def host_steers(self) -> bool:
        """Whether what the host leaves in memory decides a branch, or places an access. What the kernel
        writes is flags and counters, unless such data goes there; so are variables that it waits for.
        Variables that other kernels of the module name are the host's: they may have been set before."""
        body = self.program.body
        writes = [k for k, i in enumerate(body) if i.op in _STORES]
        reads = [k for k, i in enumerate(body) if _loads(i)]
        if any(i.op == "cp" or "const" in i.mods for i in body):
            return True
        of = {k: self._memory_of(k) for k in (*writes, *reads)}
        variables = self._variables
        waits = self.program.handing.spins if self.program.handing is not None else ()
        own = frozenset[str]().union(*(of[k] for k in writes), *(of[k] & variables for k in waits if k in of))
        own -= self._named_elsewhere
        data = {k for k in reads if not of[k] <= own or ANYWHERE in of[k]}
        while True:
            held = computed_from({name for k in data for name in results(body[k])}, body)
            tainted = {x for k in writes if not held.isdisjoint(_stored(body[k])) for x in of[k]}
            more = {k for k in reads if ANYWHERE in tainted or of[k] & tainted} - data
            if not more:
                break
            data |= more
        return self._steers(data)

    def read_alone(self, names: Mapping[str, str]) -> frozenset[str]:
        """The parameters that lead to what the kernel reads alone. ``names``: of memory, by parameter: what
        has one name is one memory."""
        body = self.program.body
        if any(i.op in _OTHER_WRITES for i in body):
            return frozenset()
        written = set[str]().union(*(self._memory_of(k) for k, i in enumerate(body) if i.op in _STORES))
        if ANYWHERE in written:
            return frozenset()
        read = set[str]().union(*(self._memory_of(k) for k, i in enumerate(body) if _loads(i))) - {ANYWHERE}
        shared = {names[x] for x in written if x in names}
        return frozenset(x for x in read - written if names.get(x) not in shared)

    @cached_property
    def pointers_steer(self) -> bool:
        """Whether words behind pointers of the host's decide a branch, or place an access."""
        body = self.program.body
        return self._steers(k for k, i in enumerate(body) if _loads(i) and self._may_be_behind(k))

    def _may_be_behind(self, k: int) -> bool:
        """Whether an access may be of memory that a pointer of the host's leads to. Counters are none: they
        begin with zero, as flags do."""
        if k in self._global_counters:
            return False
        return _of_host(self.program.body[k]) and not self._memory_of(k) <= self._variables

    @cached_property
    def _global_counters(self) -> frozenset[int]:
        return counting_alone(self.program.flow, self.program.origins)

    def _steers(self, loads: Iterable[int]) -> bool:
        """Whether what some loads bring decides a branch, or places an access."""
        body = self.program.body
        held = computed_from({name for k in loads for name in results(body[k])}, body)
        asked = {i.guard.name for i in body if i.guard is not None}
        return not held.isdisjoint(asked.union(*map(_addressing, body)))

    @cached_property
    def _variables(self) -> frozenset[str]:
        """Variables in global memory."""
        return frozenset(v.name for v in self.program.module.variables if v.space == "global")

    @cached_property
    def _named_elsewhere(self) -> frozenset[str]:
        """Variables that other kernels of the module name: they may write them before, or meanwhile."""
        module, own = self.program.module, self.program.function.name
        others = [f for f in module.functions if f.entry and f.name != own]
        return frozenset[str]().union(*(reached_functions(module, f)[1] for f in others))

    def _memory_of(self, k: int) -> frozenset[str]:
        """The memory that an access may be of: parameters and variables, by their names."""
        i = self.program.body[k]
        at = _at_of(i)
        if at is None or not _of_host(i):
            return frozenset({self._arrays.of(k) or ANYWHERE})
        return self.program.origins.of(at) or frozenset({ANYWHERE})

    @cached_property
    def _arrays(self) -> NamedArrays:
        laid = layout(self.program.module, self.program.function, None)
        return NamedArrays(self.program.flow, dict.fromkeys(laid.shared, 1 << RANK))

    def only_bounds(self, loads: Iterable[Instr]) -> bool:
        """Whether loads bring ends of rows and indices alone, and no modes."""
        places = [self.program.origins.of(i.operands[1]) for i in loads]
        return all(place and place <= self.numbers.keys() for place in places)

    def in_one_row(self, harm: Harm) -> bool:
        """Whether a race is one of turns of a loop whose end data says: any row of some length has it."""
        if harm.other is None or self.contracts(harm) is None:
            return False
        both = [*self._at(harm.where.line), *self._at(harm.other.line)]
        at = self.program.flow.block_of
        loops = [x for x in self.program.flow.loops if all(at[k] in x for k in both)]
        return bool(loops) and bool(both) and all(map(self._bounded_by_data, both))

    def _changes(self, here: Iterable[int], there: Iterable[int]) -> bool | None:
        """Whether a load and a store of one block change one place by a constant, as counts do; None if they
        are of no one place."""
        p = self.program
        at = p.flow.block_of
        pairs = [(j, k) for j in here for k in there if at[j] == at[k]]
        found = [pair for pair in pairs if self._loads_and_stores(*pair)]
        return all(self._counts(*pair) for pair in found) if found else None

    def _loads_and_stores(self, one: int, two: int) -> bool:
        """Whether two instructions of a block are a load and a store of one place: their addresses are one
        text, whose registers hold the same."""
        i, o = (self.program.body[k] for k in (one, two))
        if {i.op, o.op} != {"ld", "st"} or _at_of(i) != _at_of(o):
            return False
        return all(self._made_before(one, x) == self._made_before(two, x) for x in _addressing(i))

    def _counts(self, one: int, two: int) -> bool:
        """Whether what is stored is what was loaded and a constant."""
        body = self.program.body
        load, k = (one, two) if body[one].op == "ld" else (two, one)
        name = next(iter(registers(body[k].operands[-1])), "")
        for _ in body:
            made = self._made_before(k, name)
            if made is None or made == load:
                return made is not None
            i, k = body[made], made
            rest = [op for op in i.operands[1:] if not isinstance(op, Imm)]
            if i.op not in _STEPS or len(rest) != 1 or not isinstance(rest[0], Reg) or i.guard is not None:
                return False
            name = rest[0].name
        return False

    def _made_before(self, k: int, name: str) -> int | None:
        """The instruction whose value of a register another instruction reads: the last one ahead of it in
        its block, else the only one there is; None if that is not known."""
        body, flow = self.program.body, self.program.flow
        made = [j for j, i in enumerate(body) if name in results(i)]
        near = [j for j in made if flow.blocks[flow.block_of[k]].lo <= j < k]
        return near[-1] if near else made[0] if len(made) == 1 else None

    def _at(self, line: int) -> list[int]:
        return [k for k, i in enumerate(self.program.body) if i.line == line]

    def _placed(self, here: Iterable[int], there: Iterable[int], bits: int) -> bool:
        """Whether data places one of two accesses of threads that differ in some bits of their numbers beside
        the other: data that they share, and that places both, does not."""
        if any(self._differs(k, bits) for k in (*here, *there)):
            return True
        return len({self._placing(k) for k in (*here, *there)}) > 1

    def _placing(self, k: int) -> frozenset[int]:
        """The loads that an access's place is computed of."""
        body, found = self.program.body, set(_addressing(self.program.body[k]))
        grows = True
        while grows:
            more = {x for i in body if found.intersection(results(i)) for x in sources(i)} - found
            found |= more
            grows = bool(more)
        return frozenset(
            j
            for j, i in enumerate(body)
            if _loads(i) and j not in self._counts_of_its_own and found.intersection(results(i))
        )

    def _differs(self, k: int, bits: int) -> bool:
        """Whether an access goes where data says that threads may have loaded from different places."""
        return not self._apart(bits).isdisjoint(_addressing(self.program.body[k]))

    def _by_data(self, k: int, bits: int) -> bool:
        """Whether data says where an access goes, or decides whether it is made, for threads that differ in
        some bits of their numbers by themselves."""
        return self._differs(k, bits) or self._decided(k, bits)

    def _placed_by_data(self, k: int) -> bool:
        return not self._loaded.isdisjoint(_addressing(self.program.body[k]))

    def _bounded_by_data(self, k: int) -> bool:
        """Whether a comparison of data with what is no constant decides about an instruction: the end of a
        row, a length."""
        return not self._bounds.isdisjoint(self._deciders(k))

    def _moves(self, k: int) -> bool:
        """Whether an access moves on from turn to turn of a loop."""
        flow, body = self.program.flow, self.program.body
        for loop in (x for x in flow.loops if flow.block_of[k] in x):
            inside = [body[j] for b in loop for j in range(flow.blocks[b].lo, flow.blocks[b].hi)]
            names = {name for i in inside for name in results(i)}
            steps = {name for name in names if name in _made_of(name, inside)}
            if not computed_from(steps, inside).isdisjoint(_addressing(body[k])):
                return True
        return False

    @cached_property
    def _bounds(self) -> frozenset[str]:
        """Predicates of comparisons of data with other registers, and what is computed of them."""
        body = self.program.body
        asks = [i for i in body if i.op == "setp" and not any(isinstance(op, Imm) for op in i.operands)]
        found = {name for i in asks if self._loaded.intersection(sources(i)) for name in results(i)}
        return computed_from(found, [i for i in body if i.op in _LOGIC])

    @cached_property
    def numbers(self) -> Numbers:
        """Data that places accesses to shared memory, or bounds loops: of which contracts speak."""
        body, p = self.program.body, self.program
        wanted: set[str] = set()
        for k, i in enumerate(body):
            if k in p.decoded and not _of_host(i):
                wanted.update(_addressing(i))
            if i.op == "setp" and not any(isinstance(op, Imm) for op in i.operands):
                wanted.update(sources(i))
        found: dict[str, int] = {}
        for i in body:
            if not _loads(i) or kind(i.mods[-1]) == "f" or not _of_host(i):
                continue
            if wanted.isdisjoint(computed_from(set(results(i)), body)) and not self._through_shared(wanted):
                continue
            size = max(width(i.mods[-1]) // 8, 1)
            for place in p.origins.of(i.operands[1]):
                found[place] = min(size, found.get(place, size))
        return found

    def _through_shared(self, wanted: set[str]) -> bool:
        """Whether some data comes through shared memory."""
        body = self.program.body
        kept = {name for i in body if _loads(i) and not _of_host(i) for name in results(i)}
        return not wanted.isdisjoint(computed_from(kept, body))

    def _misplaced(self, k: int) -> bool:
        """Whether data may lead to an access whose place is wrong by itself: it leaves its array by what the
        kernel allows, or comes from a register without a value."""
        own = self._loaded.isdisjoint(_addressing(self.program.body[k]))
        return (
            k in self._without_value
            or self._beyond_arrays.get(k, False)
            or (own and k in self._beyond_arrays)
        )

    @cached_property
    def _without_value(self) -> frozenset[int]:
        """Accesses whose address has no value on some path."""
        flow = self.program.flow
        return frozenset(path.k for path in unset_paths(flow, ThreadValues(flow, self.block)))

    @cached_property
    def _beyond_arrays(self) -> dict[int, bool]:
        """Accesses that may leave the array that they name, and whether the kernel bounds them so."""
        return {place.k: place.bounded for place in self.program.beyond_bounds(self.block)}

    def _operates_on_data(self, k: int) -> bool:
        i = self.program.body[k]
        if i.op in _COLLECTIVE or (i.op in _BARRIERS and "red" in i.mods):
            return False
        named = {name for op in i.operands for name in registers(op)} - set(results(i))
        return not self._loaded.isdisjoint(named)

    @cached_property
    def _loaded(self) -> frozenset[str]:
        """Registers that may hold what was computed of loaded data."""
        body = self.program.body
        return computed_from({name for i in body if _loads(i) for name in results(i)}, body)

    @cached_property
    def _counts_of_its_own(self) -> frozenset[int]:
        """Atomics on words of shared memory into which no loaded data goes: what they bring is no input.
        Where a word has several, data must not choose between them either.

        Example: the number of ``atomicAdd(&n, 1)``, where ``n`` begins with 0.
        """
        body = self.program.body
        loaded = {name for i in body if _loads(i) and i.op != "atom" for name in results(i)}
        data = computed_from(loaded, body)
        writers: dict[str, list[int]] = {}
        for k, i in enumerate(body):
            if i.op in ("st", "atom", "red") and not _of_host(i):
                writers.setdefault(self._word(i), []).append(k)
        found: set[int] = set()
        for word, some in writers.items():
            atomics = [k for k in some if body[k].op == "atom"]
            chosen = len(atomics) > 1 and any(self._chosen(k, data) for k in atomics)
            if word and not chosen and all(data.isdisjoint(sources(body[k])) for k in some):
                found.update(atomics)
        return frozenset(found)

    def _chosen(self, k: int, data: frozenset[str]) -> bool:
        """Whether a branch or a guard of some registers decides about an instruction."""
        return not data.isdisjoint(self._deciders(k))

    def _word(self, i: Instr) -> str:
        """The variable at whose beginning an instruction accesses shared memory; empty if none is seen."""
        at = _at_of(i)
        base: object = at.base if at is not None and not at.offset else None
        if isinstance(base, Reg):
            made = [j for j in self.program.body if base.name in results(j)]
            base = made[0].operands[1] if len(made) == 1 and made[0].op == "mov" else None
        return base.name if isinstance(base, Sym) and not base.offset else ""

    def _decided(self, k: int, bits: int) -> bool:
        """Whether a branch on data that threads may answer differently decides about an instruction."""
        return not self._apart(bits).isdisjoint(self._deciders(k))

    def _decided_by_warps(self, some: Collection[int]) -> bool:
        """Whether whole warps decide about some accesses, by what their lanes have combined. Who makes one
        makes all of them, so no data makes them exclude each other.

        Example: ``if (__any_sync(-1, x > 0)) { s[t] = x; y = s[t ^ 1]; }``.
        """
        body = self.program.body
        asked = {(body[k].guard, frozenset(self._deciding(k))) for k in some}
        if len(asked) != 1 or any(self._differs(k, LANES) for k in some):
            return False
        rest = [i for i in body if not combined_by_warps(i)]
        apart = computed_from(self._brought_apart(LANES), rest)
        (of,) = {frozenset(self._deciders(k)) for k in some}
        return apart.isdisjoint(of)

    def _deciders(self, k: int) -> set[str]:
        """The predicates that decide whether an instruction is executed."""
        p = self.program
        guards = [p.body[j].guard for j in (k, *(p.flow.blocks[c].hi - 1 for c in self._deciding(k)))]
        return {g.name for g in guards if g is not None}

    def _deciding(self, k: int) -> set[int]:
        """The blocks whose branches decide whether an instruction is executed."""
        p = self.program
        work, seen = [p.flow.block_of[k]], set[int]()
        while work:
            more = p.flow.controllers()[work.pop()] - seen
            seen |= more
            work += more
        return seen

    def _apart(self, bits: int) -> frozenset[str]:
        """The same of data that threads which differ in some bits of their numbers may have loaded from
        different places, and have not combined at a barrier."""
        if bits not in self.apart:
            rest = [i for i in self.program.body if i.op not in _BARRIERS]
            self.apart[bits] = computed_from(self._brought_apart(bits), rest)
        return self.apart[bits]

    def _brought_apart(self, bits: int) -> set[str]:
        """What threads which differ in some bits of their numbers may load from different places."""
        body, u = self.program.body, self.program.uniformity(self.block)

        def differs(k: int, i: Instr) -> bool:
            if i.op == "atom":
                return k not in self._counts_of_its_own
            return bool(u.placed(k) & bits)

        return {name for k, i in enumerate(body) if _loads(i) and differs(k, i) for name in results(i)}


def _of_own_numbers(i: Instr) -> bool:
    """Whether an instruction computes, or exchanges with other lanes, and reads beside registers nothing but
    constants and the numbers of lanes and threads."""
    read = {op.name for op in i.operands if isinstance(op, Special)}
    own = all(name.startswith(("%tid.", "%laneid", "%lanemask_")) for name in read)
    return own and (i.op in PURE or (i.op in _EXCHANGES and "sync" in i.mods))


def _made_of(name: str, body: Sequence[Instr]) -> frozenset[str]:
    """All that is computed of a register."""
    return computed_from({x for i in body if name in sources(i) for x in results(i)}, body)


def _stored(i: Instr) -> list[str]:
    """The registers that an instruction writes to memory."""
    return [n for op in i.operands if not isinstance(op, Mem) for n in registers(op) if n not in results(i)]


def _at_of(i: Instr) -> Mem | None:
    return next((op for op in i.operands if isinstance(op, Mem)), None)


def _loads(i: Instr) -> bool:
    """Whether an instruction brings data from memory."""
    return i.op in ("ld", "ldu", "atom", "ldmatrix", "tex") and "param" not in i.mods


def _of_host(i: Instr) -> bool:
    """Whether an access is of memory that the host may have filled."""
    return _HOST.isdisjoint(m.split("::")[0] for m in i.mods)


def _addressing(i: Instr) -> Iterable[str]:
    """The registers that say where an instruction accesses memory."""
    return [name for op in i.operands if isinstance(op, Mem) for name in registers(op)]


__all__ = ["Inputs"]
