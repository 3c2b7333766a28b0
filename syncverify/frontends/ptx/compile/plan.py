"""What is compiled of a function: its instructions that count, decoded, and the slots that they use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property

from syncverify.base.kernel_names import base_name
from syncverify.base.source import Span
from syncverify.frontends.ptx.analysis.arrays.address_ranges import (
    ANYWHERE,
    AddressRanges,
    Reached,
    warp_of,
)
from syncverify.frontends.ptx.analysis.arrays.array_places import OUTSIDE_SHARED, ArrayPlace, array_places
from syncverify.frontends.ptx.analysis.arrays.chosen_arrays import ChosenArrays
from syncverify.frontends.ptx.analysis.arrays.foreign_addresses import foreign_addresses
from syncverify.frontends.ptx.analysis.arrays.known_addresses import KnownAddress, known_addresses
from syncverify.frontends.ptx.analysis.arrays.lowest_places import LowestPlaces
from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.analysis.arrays.shared_pointers import names_shared, shared_pointers
from syncverify.frontends.ptx.analysis.arrays.space_tests import space_answer
from syncverify.frontends.ptx.analysis.arrays.unset_addresses import unset_addresses
from syncverify.frontends.ptx.analysis.barriers.barrier_intervals import of_block
from syncverify.frontends.ptx.analysis.barriers.places_between_barriers import (
    PlacesBetweenBarriers,
    SizedAccess,
    places_between_barriers,
)
from syncverify.frontends.ptx.analysis.blocks.block_groups import BlockGroups, without_address
from syncverify.frontends.ptx.analysis.exclusion.locks import (
    free_effect,
    lock_effect,
    ticket_effect,
    try_effect,
)
from syncverify.frontends.ptx.analysis.global_memory.copy_addresses import (
    NOTHING_SAID,
    Multiples,
    copy_addresses,
    hidden,
    misplaced,
    numbered,
)
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import only_counts
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import Origins
from syncverify.frontends.ptx.analysis.handover.atomic_counters import (
    adds_one,
    counting,
    loads_word,
    unwritten,
)
from syncverify.frontends.ptx.analysis.handover.dependent_launch import early_accesses, reads_unwritten
from syncverify.frontends.ptx.analysis.handover.external_releases import exchanged, released_unseen
from syncverify.frontends.ptx.analysis.handover.first_guesses import first_guesses
from syncverify.frontends.ptx.analysis.handover.handover_detection import HandOver, hand_over
from syncverify.frontends.ptx.analysis.polls.shared_polls import NO_TURNS, shared_flags
from syncverify.frontends.ptx.analysis.polls.shared_turns import shared_turns
from syncverify.frontends.ptx.analysis.polls.strong_words import strong_words
from syncverify.frontends.ptx.analysis.registers.interval_rules import Interval
from syncverify.frontends.ptx.analysis.registers.uniform_values import common_values
from syncverify.frontends.ptx.analysis.registers.uniformity import EVERY, THREADS, Uniformity
from syncverify.frontends.ptx.analysis.slicing.access_runs import joined
from syncverify.frontends.ptx.analysis.slicing.conditional_lengths import Lengths, chosen_lengths
from syncverify.frontends.ptx.analysis.slicing.drop_global_effects import untracked
from syncverify.frontends.ptx.analysis.slicing.iteration_havoc import (
    KEPT,
    HavocLoop,
    RoundRobinLoop,
    asks_at,
    havoc_loops,
)
from syncverify.frontends.ptx.analysis.slicing.lanes import ACROSS, Elections, crossing, elections
from syncverify.frontends.ptx.analysis.slicing.load_arrival import unarrived_loads
from syncverify.frontends.ptx.analysis.slicing.slice import Slice, slice_of
from syncverify.frontends.ptx.analysis.slots.distinct_places import distinct_places, placed_by_data
from syncverify.frontends.ptx.analysis.slots.slots import OF_RANKS, Slot, Slots
from syncverify.frontends.ptx.analysis.warps.collectives import Collectives, is_collective
from syncverify.frontends.ptx.analysis.warps.early_returns import early_returns
from syncverify.frontends.ptx.analysis.warps.lane_ranks import LaneRanks
from syncverify.frontends.ptx.analysis.warps.run_past import BARRIERS, NOTHING, Passed, RunPast
from syncverify.frontends.ptx.analysis.warps.wgmma_register_hazards import fragment_events
from syncverify.frontends.ptx.compile.observations import LaunchObservations
from syncverify.frontends.ptx.compile.state import FIRST, SIZED, SPACES, START, Decoded
from syncverify.frontends.ptx.compile.wgmma_runs import Together
from syncverify.frontends.ptx.decode.effects import Context, Effect, Unsupported, Value
from syncverify.frontends.ptx.decode.global_access import GlobalAccess, Stored, poll_effect, spin_effect
from syncverify.frontends.ptx.decode.map_addresses import MapAddresses
from syncverify.frontends.ptx.decode.matrix import ADDRESS, descriptor
from syncverify.frontends.ptx.decode.memory import Access, decode_access
from syncverify.frontends.ptx.decode.parts import spaces, window
from syncverify.frontends.ptx.decode.shared_flags import (
    SharedTurn,
    flag_access,
    found_at_turn,
    other_access,
    shared_lock_effect,
    shared_spin_effect,
    shared_turn_effect,
)
from syncverify.frontends.ptx.decode.table import decode, refused
from syncverify.frontends.ptx.decode.wmma import (
    global_matrix,
    matrix_in_global,
    moves_matrix,
    stores_matrix,
)
from syncverify.frontends.ptx.flow.asserts import SILENT, called, stops
from syncverify.frontends.ptx.flow.carries import loses_carries
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Module, Reg, Special
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.printer import instruction_text
from syncverify.frontends.ptx.syntax.types import RANK, width
from syncverify.model.events import NEVER, NO_ARRIVAL_NEEDED, Ev, Event, Site, StrongWord


class Plan:
    """What of a function is compiled, and to which slots. ``sites`` grows as it is compiled, then stays.

    ``apart``: pointers of different parameters lead to different memory. ``numbers``: places of parameters,
    ``name+offset``, that hold no pointer. ``holds``: the launch file says what lies in some global memory.
    ``words``: what is loaded from memory that the kernel does not write may be a size without a number.
    ``block_groups``: blocks share global memory in groups, any of which represents all. ``contents``: what
    lies in shared memory may steer; else it is data. ``followed``: plain accesses to global memory are, where
    something is released, and nothing waits for it. ``dependent``: the grid before may still run. ``inputs``:
    places of parameters that lead to nothing which it writes. ``any_data``: what shared memory holds, what
    barriers bring and what decides for whole warps are words, any of which they may be. ``aligned``: what
    pointers in parameters are multiples of, if not of 16; copies whose alignment the text shows then need no
    address. ``blocks_in_x``: of the grid, where that is a number. ``turns``: atomics in shared memory whose
    orders are tried. ``copies_apart``: bulk copies in flight write different places. ``barriers``: those of
    the block are events; else they are left out, as by their places accesses race with none between two.
    """

    def __init__(
        self,
        module: Module,
        function: Function,
        apart: bool = True,
        numbers: frozenset[str] = frozenset(),
        holds: bool = False,
        words: bool = False,
        block_groups: BlockGroups | None = None,
        contents: bool = True,
        followed: bool = False,
        dependent: bool = False,
        inputs: frozenset[str] = frozenset(),
        *,
        any_data: bool = False,
        aligned: Multiples = NOTHING_SAID,
        blocks_in_x: int | None = None,
        alone: bool = False,
        given: bool = False,
        turns: Mapping[int, SharedTurn] = NO_TURNS,
        copies_apart: bool = False,
        barriers: bool = True,
    ) -> None:
        self.copies_apart = copies_apart
        self.barriers = barriers
        self.alone = alone  # the grid is one block
        self.given = given  # all sizes of the launch have numbers
        self.blocks_in_x = blocks_in_x
        self.turns = turns
        self.aligned = aligned
        self.module = module
        self.function = function
        self.flow = self.whole_flow = Flow(function)
        self.body = function.body
        #: whether nothing but bulk copies writes global memory: what is read there is the same at any time
        writers = [{m.split("::")[0] for m in i.mods} for i in self.body if _writes(i)]
        self.reads_only = all(SPACES & mods - {"global"} for mods in writers)
        self.holds = holds
        self.contents = contents
        self.any_data = any_data
        self.renews = True  # turns of loops may read sizes again
        self.apart = apart
        self.dependent = dependent
        self.inputs = inputs
        self.block_groups = block_groups
        self.numbers = numbers
        self.spins = self.flow.spins
        self.decoded: dict[int, Decoded] = {}
        #: accesses without a space, and whether they may reach shared memory
        self._generic: dict[int, bool] = {}
        #: matrices in global memory, where the text leaves the state space out
        self._outside: set[int] = set()
        self._decode()
        self._exchanges_of_blocks(followed=followed)
        self._loads_of_what_nobody_writes(words)
        self._global_accesses()
        self._loops_without_an_end()
        self.decoded = dict(sorted(self.decoded.items()))
        loads = [k for k, e in self.decoded.items() if _reads_shared(e, self.body[k])]
        self.uses = unarrived_loads(self.flow, loads)
        #: products that are one event
        self.together = Together()
        #: blocks that agents of this program are taken not to come to
        self.stops: frozenset[int] = frozenset()
        #: blocks between branches and their joins that agents came past as one class
        self.merged: set[int] = set()
        self.reads = holds or words  # what lies in global memory may be known wherever it is read
        self._write(self._what_is_followed(), sized=False)

    def _decode(self) -> None:
        """Effects of instructions, each by itself."""
        pointers = shared_pointers(self.function)
        foreign = {**foreign_addresses(self.flow, self.module), **unset_addresses(self.function)}
        lost = loses_carries(self.flow)
        for k, i in enumerate(self.body):
            if self.leaves_out(k):
                continue
            access = decode_access(i) if refused(i, self.function) is None else None
            if access is not None and access.space == "generic":
                self._generic[k] = bool(pointers.intersection(registers(access.address))) or names_shared(
                    access.address, self.function, self.module
                )
                access = access if self._generic[k] else None
            found = foreign.get(k) or access or decode(i, self.function)
            if (
                k not in foreign
                and moves_matrix(i)
                and isinstance(found, Effect)
                and self._leaves(i, pointers)
            ):
                self._outside.add(k)
                found = None
            if found is None and (i.op == "call" or stops(i)):
                found = _stop(i) if k not in lost else Unsupported(_LOST)
            if found is not None:
                self.decoded[k] = found
        self._shared_flags()

    def _shared_flags(self) -> None:
        """Waits for words of shared memory, and the accesses that may write these words."""
        accesses = {k: e for k, e in self.decoded.items() if isinstance(e, Access)}
        #: what an atomic brings that tries a lock there once, or counts
        self.found_at_turn: dict[int, Callable[[Context, Value], int]] = {}
        #: flags in shared memory
        self.flags = shared_flags(self.flow, accesses, self.turns)
        self.may_be_turns = shared_turns(self.flow, accesses)
        for k, spin in self.flags.spins.items():
            self.decoded[k] = shared_spin_effect(self.body[k], spin, accesses[k])
        for k, spin in self.flags.locks.items():
            self.decoded[k] = shared_lock_effect(self.body[k], spin, accesses[k])
        for k, turn in self.flags.turns.items():
            self.decoded[k] = shared_turn_effect(self.body[k], k, turn, accesses[k])
            self.found_at_turn[k] = found_at_turn(k, turn, accesses[k])
        takes = self.flags.locks or self.flags.turns
        for k in self.flags.writes:
            lets_go = k in self.flags.frees if takes else None
            self.decoded[k] = flag_access(self.body[k], accesses[k], lets_go=lets_go)
        for k in self.flags.others:
            self.decoded[k] = other_access(accesses[k])

    @property
    def deciding_turns(self) -> Mapping[int, SharedTurn]:
        """Atomics in shared memory that each thread executes once, and what these bring is asked for."""
        wanted = self.slice.registers
        return {k: x for k, x in self.may_be_turns.items() if not wanted.isdisjoint(results(self.body[k]))}

    @cached_property
    def spin_predicates(self) -> Mapping[int, tuple[str, int]]:
        """By ``setp`` its predicate, and what that holds after a spin in global or shared memory."""
        return {**(self.handing.spin_predicates if self.handing is not None else {}), **self.flags.predicates}

    def _exchanges_of_blocks(self, *, followed: bool) -> None:
        """What the kernel's blocks tell each other through global memory: hand-overs, flags, counters."""
        some = self.apart and any(map(adds_one, self.body))
        counts = counting(self.flow, self._generic, self.origins) if some else frozenset()
        #: what the kernel's blocks hand over through global memory; None: its accesses have no events
        self.handing = hand_over(self.flow, self._generic, self.apart, self.numbers, counts)
        if self.copies_apart and self.handing is not None and self.handing.again is not None:
            self.handing = None
        if self.alone and self.handing is not None and self.handing.unreleased:
            self.handing = None  # no other block writes or reads
        #: atomics by which blocks count themselves, where nothing else is handed over
        self.counted = frozenset[int]()
        if self.any_data and self.handing is not None and self.only_counts(self.handing):
            self.counted = frozenset(k for k in self.handing.consumers if self.body[k].op == "atom")
            self.handing = None
        #: whether what is handed over is followed to refute the kernel, and for no proof
        self.refutes = followed and self.exchanges is not None
        if self.refutes:
            self.handing = self.exchanges
        #: a flag for other kernels: where it is released after bulk copies
        waited = self.handing is not None and self.handing.again is None
        self.unseen = None if waited else released_unseen(self.flow)
        #: atomics that hand out numbers of a counter
        whence = {k: self.origins.of(self.body[k].operands[1]) for k in sorted(counts)}
        read = frozenset(name for i in self.body for name in sources(i))
        asked = {
            whence[k] for k in counts if not read.isdisjoint(results(self.body[k]))
        }  # the others are sums
        self.takes = frozenset(k for k in counts if whence[k] in asked and self.handing is None)
        whence = {k: x for k, x in whence.items() if k in self.takes}
        #: of each take the first one at the same counter
        self.counter = {k: next(j for j in whence if whence[j] == whence[k]) for k in whence}

    def _loops_without_an_end(self) -> None:
        """Loops that no path leads out of, and in which there are no events."""
        for block in self.flow.endless():
            lines = range(self.flow.blocks[block].lo, self.flow.blocks[block].hi)
            if not self.decoded.keys() & set(lines):
                self.decoded[lines[0]] = Unsupported("a loop that no path leads out of")

    def _loads_of_what_nobody_writes(self, words: bool) -> None:
        """Loads whose values no thread of the kernel changes, and those of them that may be sizes."""
        fixed = frozenset[int]()
        if self.apart and self.handing is None and any(map(_loads_global, self.body)):
            fixed = unwritten(self.flow, self._generic, self.origins)
        #: loads of variables that the kernel does not write
        self.variables = frozenset(k for k, i in enumerate(self.body) if i.op == "ld" and "const" in i.mods)
        self.variables |= {k for k in fixed if self._loads_variable(self.body[k])}
        fixed |= self.variables
        whole = frozenset(k for k in fixed if loads_word(self.body[k]))
        #: loads whose values are sizes, where nothing else is known of them
        self.words = whole if words else frozenset()
        #: what all threads compute alike of others, where the launch file says nothing of memory
        self.common = {} if self.holds else common_values(self.flow, fixed - whole)

    def _global_accesses(self) -> None:
        """Accesses to global memory as far as they matter, and what is known of the places of copies."""
        copies = copy_addresses(self.function, self.aligned, self.module.variables)
        if self.handing is not None:
            self._hand_over(self.handing)
        else:
            if any(i.op == "cp" and spaces(i.mods)[:1] == ["global"] for i in self.body):
                self._refuse_matrices()
            judged = copies.judged.keys() - copies.aligned
            for k, e in self.decoded.items():
                if isinstance(e, Effect) and k not in judged:
                    self.decoded[k] = untracked(self.body[k], e)
        for k in copies.judged.keys() - copies.aligned - copies.off.keys():
            copy = self.decoded.get(k)
            if isinstance(copy, Effect):
                self.decoded[k] = numbered(copy, copies.judged[k])
        for k, (at, off, unit) in copies.off.items():
            copy = self.decoded.get(k)
            if isinstance(copy, Effect):
                self.decoded[k] = misplaced(copy, at, off, unit)
        for k in copies.hidden:
            copy = self.decoded.get(k)
            if isinstance(copy, Effect):
                self.decoded[k] = hidden(copy)
        if self.dependent:
            self.decoded.update(self._early())

    def _early(self) -> Mapping[int, Effect | Access]:
        """Accesses to global memory that may come before the wait for the grid before."""
        names = frozenset(v.name for v in self.module.variables if v.space == "global")
        return early_accesses(self.flow, self._generic, self.decoded, self.origins, names, self.inputs)

    @property
    def before_the_wait(self) -> Collection[int]:
        """The plain ones of these in a kernel that waits, where nobody says that a grid before may run."""
        waits = any(i.op == "griddepcontrol" and "wait" in i.mods for i in self.body)
        return () if self.dependent or not waits else [k for k in self._early() if k not in self.decoded]

    def _hand_over(self, handing: HandOver) -> None:
        """Spins, polls and locks of blocks that wait for each other in global memory."""
        self.decoded.update(handing.accesses)
        for k, spin in handing.spins.items():
            outside = "a loop waits for what nothing in this kernel writes"
            mine = k in handing.accesses
            self.decoded[k] = spin_effect(self.body[k], spin) if mine else Unsupported(outside)
        for k in handing.polls & handing.accesses.keys():
            locks = handing.locks
            self.decoded[k] = (lock_effect if k in locks else poll_effect)(self.body[k])
            if k in locks and locks[k] in handing.accesses:
                self.decoded[locks[k]] = free_effect(self.body[locks[k]])
        self.decoded.update({k: ticket_effect(self.body[k]) for k in handing.tickets})
        for k, free in handing.tries.items():
            self.decoded[k] = try_effect(self.body[k])
            if free is not None and free in handing.accesses:
                self.decoded[free] = free_effect(self.body[free])
        self._refuse_matrices()
        self.decoded = dict(sorted(self.decoded.items()))
        if self.block_groups is not None:
            self._leave_out(self.block_groups)

    def _what_is_followed(self) -> Slice:
        """The instructions that matter; and what registers and collectives bring where they are used."""
        wgmma = any(i.op == "wgmma" for i in self.body)
        fragments = fragment_events(self.function, self.flow) if wgmma else {}
        #: per instruction the events that its registers bring: (code, handle or name of a fragment, more)
        self.touches: dict[int, list[tuple[Ev, int | str] | tuple[Ev, str, int]]] = {
            k: list(e) for k, e in fragments.items()
        }
        for k, handles in self.uses.at.items():
            self.touches.setdefault(k, []).extend((Ev.USE, h) for h in handles)
        needed = self._slice(fragments)
        known = known_addresses(self.flow, self.module, needed.branches)
        if not known.keys() <= self.decoded.keys():
            self.decoded = dict(sorted({**known, **self.decoded}.items()))
            needed = self._slice(fragments)
        rows = Collectives(self.flow, self.decoded, needed.branches, self._outside)
        #: by branch that is not decided, the collectives behind it
        self.gathers = rows.apart(needed.registers)
        #: collectives that some lanes execute, of which data says which
        self.behind_data = rows.behind_data()
        for k in self.gathers:
            self.touches.setdefault(k, [])
        more = rows.followed(needed.registers)
        #: where registers bring events, and what decides about them is followed
        self.asked = frozenset(fragments) | {k for k in self.uses.at if rows.decided_by(k, needed.registers)}
        if more or len(self.asked) > len(fragments):
            met = {k: _met_first(e, self.decoded.get(k)) for k, e in more.items()}
            self.decoded = dict(sorted({**self.decoded, **met}.items()))
            needed = self._slice(self.asked)
        return needed

    def _slice(self, asked: Iterable[int]) -> Slice:
        effects = {k: _as_effect(e) for k, e in self.decoded.items()}
        return slice_of(
            self.flow,
            effects,
            asked,
            holds=self.reads,
            takes=self.takes,
            contents=self.contents,
            arrays=self._arrays_of(self.flow),
        )

    def _arrays_of(self, flow: Flow) -> NamedArrays:
        """The shared arrays that accesses name."""
        variables = (*self.module.variables, *self.function.variables)
        return NamedArrays(flow, {v.name: 1 << RANK for v in variables if v.space == "shared"})

    def _leave_out(self, block_groups: BlockGroups) -> None:
        """Leaves nothing of accesses whose place in global memory does not matter but what else they do."""
        self.decoded = dict(sorted({**self.decoded, **block_groups.more}.items()))
        for k in block_groups.quiet & self.decoded.keys():
            e = self.decoded[k]
            if isinstance(e, Effect):
                self.decoded[k] = without_address(self.body[k], e)
            elif isinstance(e, GlobalAccess) and e.inside is not None:
                self.decoded[k] = e.inside
            elif isinstance(e, GlobalAccess):
                del self.decoded[k]
        self.decoded = joined(self.flow, self.decoded)

    def _without(self, stops: frozenset[int]) -> Slice:
        """What matters to agents that never come to some blocks, and whether they do; of what is stored all
        that is known otherwise."""
        flow = Flow(self.function, stops)
        known = frozenset() if self.stores_data else self.slice.registers
        effects = {k: _as_effect(e, known) for k, e in self.decoded.items() if flow.block_of[k] not in stops}
        asked = [k for k in self.asked if flow.block_of[k] not in stops]
        also = [*asked, *(flow.blocks[b].lo for b in stops)]
        found = slice_of(
            flow,
            effects,
            also,
            holds=self.reads,
            takes=self.takes,
            contents=self.contents,
            stored=not self.stores_data,
            arrays=self._arrays_of(flow),
        )
        self.flow, self.stops = flow, stops
        return found.steering or found

    #: branches of which nobody asks how they are decided: their accesses count as made
    perhaps: frozenset[int] = frozenset()
    #: what is only stored in shared memory is data
    stores_data = False

    def _unasked(self, branches: frozenset[int]) -> Slice:
        """What matters if nobody asks how some branches are decided."""
        return self._again(branches, stored=True)

    def _unstored(self) -> Slice:
        """What matters if what is only stored in shared memory is data."""
        return self._again(frozenset(), stored=False)

    def _again(self, unasked: frozenset[int], *, stored: bool) -> Slice:
        known = self.slice.registers if stored else frozenset()
        effects = {k: _as_effect(e, known) for k, e in self.decoded.items()}
        found = slice_of(
            self.flow,
            effects,
            self.asked,
            holds=self.reads,
            takes=self.takes,
            contents=self.contents,
            unasked=unasked,
            stored=stored,
            arrays=self._arrays_of(self.flow),
        )
        return found.steering or found

    @cached_property
    def elections(self) -> Elections:
        """What the code says about the choice of elected lanes: few ask, and it goes through all of it."""
        return elections(self.flow, self.slice, self.decoded)

    def _write(self, needed: Slice, sized: bool) -> None:
        """Begins again, with nothing compiled of what is needed; ``sized``: for sizes without a number."""
        self.slice = needed
        self.sized = sized
        self.__dict__.pop("elections", None)
        self.crossing: Slice = crossing(self.flow, self.slice)
        self.assumptions: list[str] = []
        self.sites: list[Site] = []
        self.left: dict[int, Passed] = {}  # sites of exits -> what who leaves there has run past
        self.slots: dict[str, int] = {}
        self.at = 0  # the instruction that is being compiled
        self.constants: dict[int, set[str]] = {}  # what of the launch's sizes instructions read
        self.symbols: dict[str, int] = {}  # special registers, addresses and parameters that the code reads
        self.size = FIRST
        self.steers = bool({"shared"} & self.slice.spaces) or (
            self.any_data and (self._reduces() or self._decides_barriers())
        )
        #: whether something is decided, or placed, by what other threads hand on
        self.hands_on = self.steers or any(self.body[k].op in ACROSS for k in self.slice.pure)
        self.text = ""
        self.classes = 0  # numbered so far
        self.site_of: dict[int, int] = {}
        self.stores: dict[int, bool] = {}  # sites of stores, and whether of numbers in the text alone
        self.seen = LaunchObservations()

    def only_counts(self, handing: HandOver) -> bool:
        """Whether nobody waits for others: blocks count themselves
        (``analysis.global_memory.counted_blocks``)."""
        others = handing.waited or handing.unreleased or self.moves
        return not others and only_counts(self.flow, handing.consumers)

    def _reduces(self) -> bool:
        """Whether a barrier brings a value that steers."""
        wanted = self.slice.registers
        return any(i.op in BARRIERS and wanted.intersection(results(i)) for i in self.body)

    def _decides_barriers(self) -> bool:
        """Whether a branch decides about a barrier: what it decides may be kept for all of a block."""
        controllers = self.flow.controllers()
        return any(i.op in BARRIERS and controllers[self.flow.block_of[k]] for k, i in enumerate(self.body))

    @cached_property
    def run_past(self) -> RunPast:
        """Who has run past a barrier, or a collective, when it leaves."""
        return RunPast(
            self.whole_flow, self._may_part, together=self.is_collective, met=self.decoded.__contains__
        )

    def leaves_out(self, k: int) -> bool:
        """Whether an instruction is a barrier of the block that is no event here."""
        return not self.barriers and of_block(self.body[k])

    def is_collective(self, k: int) -> bool:
        """Whether lanes execute an instruction together, and it has no other event."""
        return is_collective(self.body[k]) or k in self._outside

    def _may_part(self, k: int) -> int:
        """What the guard of an instruction varies with, in a block of any shape."""
        named = {op.name for i in self.body for op in i.operands if isinstance(op, Special)}
        if not named.isdisjoint(("%tid.y", "%tid.z", "%tid")):
            return EVERY  # the shape of a block says which threads are a warp
        i = self.body[k]
        names = sources(i) if i.guard is None else [i.guard.name]
        return self.uniformity((1024, 1, 1)).in_block(k, names)

    def skips(self, left: int, barrier: int, whole: bool) -> bool:
        """Whether who leaves at one site has run past the barrier at another. Of a whole warp (``whole``)
        accesses to global memory alone do not show it: compilers let early returns share them."""
        passed = self.left.get(left, NOTHING)
        return any(self.site_of.get(k) == barrier and (more or not whole) for k, more in passed)

    def varies(self, block: Sequence[int]) -> Callable[[int], int]:
        """By the site of a store, what its value varies with in blocks of a shape."""
        found = self.uniformity(block)

        def of(site: int) -> int:
            k = self._instruction(site)
            return EVERY if k is None else found.stored(k)

        return cache(of)

    def shared_slots(self, block: Sequence[int], shared: Mapping[str, int]) -> Callable[[int], Slot | None]:
        """By the site of an access to shared memory, its slot that an atomic hands out, or a rank."""
        found = Slots(
            self.flow, LaneRanks(Collectives(self.flow, (), ()).masks, self.uniformity(block)), shared
        )
        ranks = distinct_places(self.flow, block, shared)

        @cache
        def of(site: int) -> Slot | None:
            k = self._instruction(site)
            slot = None if k is None else found.of(k)
            rank = None if k is None or slot is not None else ranks.of(k)
            if rank is None:
                return slot
            return Slot(OF_RANKS + rank.group, rank.places, bounded=True, floats=rank.floats)

        return of

    def slots_of_numbers(self, slots: Callable[[int], Slot | None]) -> Callable[[int], int]:
        """By the site of a store whose place has a number, the group of its slot; 0: it has none."""
        placed = placed_by_data(self.body)

        @cache
        def of(site: int) -> int:
            found = slots(site) if self._instruction(site) in placed else None
            return 0 if found is None else found.group

        return of

    def between_barriers(
        self, block: Sequence[int], shared: Mapping[str, int]
    ) -> Callable[[int], SizedAccess | None]:
        """By the site of an access to shared memory, its group of those that do not race
        (``places_between_barriers``)."""
        found = self._between_barriers(block, shared)

        @cache
        def of(site: int) -> SizedAccess | None:
            k = self._instruction(site)
            return None if k is None else found.of(k, every=not self.barriers)

        return of

    def placed_by_sizes(self, block: Sequence[int], shared: Mapping[str, int]) -> bool:
        """Whether sizes place accesses, and all those to the same arrays race with none of them."""
        return self._between_barriers(block, shared).covers

    def apart_by_places(self, block: Sequence[int], shared: Mapping[str, int]) -> bool:
        """Whether all threads come to the same barriers of the block, and no accesses to shared memory race
        between two of these."""
        return not self._generic_shared and self._between_barriers(block, shared).covers_all

    @property
    def _generic_shared(self) -> bool:
        return any(self._generic.values())

    def _between_barriers(self, block: Sequence[int], shared: Mapping[str, int]) -> PlacesBetweenBarriers:
        return places_between_barriers(self.flow, block, shared.keys())

    def reached(
        self, block: Sequence[int], shared: Mapping[str, int], *, parameters: bool
    ) -> Callable[[int, int], Reached]:
        """By the site of an access to shared memory and the warp, what is known of where it may begin.
        ``parameters``: whether one that a parameter places may be bounded on one side only."""
        ranges = cache(lambda warp: AddressRanges(self.flow, shared, block, warp_of(warp, block)))
        sided = cache(lambda k: ranges(0).one_sided(k, parameters=parameters))
        ranks = cache(lambda: LaneRanks(Collectives(self.flow, (), ()).masks, self.uniformity(block)))

        @cache
        def of(site: int, warp: int) -> Reached:
            k = self._instruction(site)
            if k is None:
                return ANYWHERE
            found = ranges(warp).reached(k)
            return replace(found, apart=ranks().apart(k), one_sided=found.places is None and sided(k))

        return of

    def into_arrays(
        self, block: Sequence[int], shared: Mapping[str, int]
    ) -> Callable[[int, int], Mapping[str, Interval] | None]:
        """By the site of an access to shared memory and the warp, how far into which variables it leads."""
        named = NamedArrays(self.flow, dict.fromkeys(shared, 1 << RANK))

        @cache
        def of(site: int, warp: int) -> Mapping[str, Interval] | None:
            k = self._instruction(site)
            ranges = AddressRanges(self.flow, shared, block, warp_of(warp, block))
            return None if k is None else ChosenArrays(named, ranges).of(k)

        return of

    def lowest(self, shared: Mapping[str, int]) -> Callable[[int], int | None]:
        """By the site of an access to shared memory the least that its place may be."""
        found = LowestPlaces(self.flow, shared)

        @cache
        def of(site: int) -> int | None:
            k = self._instruction(site)
            return None if k is None else found.of(k)

        return of

    def outside_shared(self, block: Sequence[int]) -> Iterator[ArrayPlace]:
        """The accesses that data decides about, of arrays outside of shared memory that they may leave."""
        judged = {k for k, e in self.decoded.items() if isinstance(e, KnownAddress)}
        return array_places(self.flow, self.module, block, judged)

    def beyond_bounds(self, block: Sequence[int]) -> Iterator[ArrayPlace]:
        """The accesses of arrays, in any space, that leave them where data takes what the kernel allows."""
        places = array_places(self.flow, self.module, block, (), ("shared", *OUTSIDE_SHARED))
        return (place for place in places if place.beyond is not None)

    def names_array(self, sizes: Mapping[str, int]) -> Callable[[int, int], str | None]:
        """By the site of an access to shared memory, the variable that one of its addresses names."""
        found = NamedArrays(self.flow, sizes)

        @cache
        def of(site: int, which: int) -> str | None:
            k = self._instruction(site)
            if k is None or self.body[k].op != "wgmma":
                return None if k is None else found.of(k, which)
            # products that are one event: B and A of each, in the order of the text
            at = [n for n in range(k, len(self.body)) if descriptor(self.body[n], 0) is not None][which // 2]
            x = descriptor(self.body[at], which % 2)
            return None if x is None else found.behind(x, at)

        return of

    @cached_property
    def room_for_arrays(self) -> int:
        """Over how many bytes shared variables are spread, where the text leaves open which of them some
        address is in; 0 where it does not. A matrix descriptor names fewer than an address."""
        if not self.open_arrays:
            return 0
        return ADDRESS + 1 << 4 if any(i.op == "wgmma" for i in self.body) else 1 << RANK

    @cached_property
    def open_arrays(self) -> frozenset[str]:
        """The shared variables that an address may name which may be in several. A matrix may be in any of
        them where memory, or more than one, is behind its descriptor."""
        variables = (*self.function.variables, *self.module.variables)
        sizes = {v.name: 1 << RANK for v in variables if v.space == "shared"}
        if len(sizes) < 2:
            return frozenset()
        named = NamedArrays(self.flow, sizes)
        reached = [k for k in range(len(self.body)) if self.flow.block_of[k] in self.flow.reached]
        matrices = ((descriptor(self.body[k], which), k) for k in reached for which in range(2))
        if any(x is not None and named.behind(x, k) is None for x, k in matrices):
            return frozenset(sizes)
        return frozenset().union(*map(named.left_open, reached))

    def space_answer(self, k: int) -> bool | None:
        """What an ``isspacep`` answers; None where that is not known."""
        variables = (*self.function.params, *self.function.variables, *self.module.variables)
        return space_answer(self.flow, k, variables)

    @cached_property
    def first_guesses(self) -> frozenset[int]:
        """The loads whose value is only what a loop that repeats a ``cas`` compares with first."""
        return first_guesses(self.flow)

    def strong_words(self, block: Sequence[int]) -> dict[int, StrongWord]:
        """By site, the strong loads and stores of shared memory whose values are used."""
        placed = self.uniformity(block).placed
        return {self.site(k): word for k, word in strong_words(self.flow, placed).items()}

    def spread(self, block: Sequence[int]) -> Callable[[Iterable[str], int | None], int]:
        """What registers vary with, in blocks of a shape, where the block of a site reads them."""
        found = self.uniformity(block)

        @cache
        def of(names: tuple[str, ...], site: int | None) -> int:
            k = None if site is None else self._instruction(site)
            return found.of(names) if k is None else found.in_block(k, names)

        return lambda names, site: of(tuple(names), site)

    def since(self, block: Sequence[int]) -> Callable[[Iterable[str], int], int]:
        """What registers vary with, in blocks of a shape, among threads that came together to an
        instruction."""
        found = self.uniformity(block)

        @cache
        def of(names: tuple[str, ...], k: int) -> int:
            return found.since(k, names)

        return lambda names, k: of(tuple(names), k)

    def places(self, block: Sequence[int]) -> Callable[[int], int]:
        """What the place of a load varies with, in blocks of a shape, by instruction."""
        found = self.uniformity(block)

        @cache
        def of(k: int) -> int:
            return found.read_at(k, [r for op in self.body[k].operands[1:] for r in registers(op)])

        return of

    def _instruction(self, site: int) -> int | None:
        return next((k for k, s in self.site_of.items() if s == site), None)

    def decided_alike(self, block: Sequence[int]) -> Callable[[int], bool]:
        """Whether all threads of a block of a shape decide alike, each time, by the site of a branch."""
        return self._alike(block, unwritten(self.flow, self._generic, self.origins))

    def decided_once(self, block: Sequence[int]) -> Callable[[int], bool]:
        """Whether all threads of a block come to a branch behind a lock, by its site, at most once and decide
        alike: races in the memory that blocks share are looked for."""
        if self.handing is None:
            return lambda site: False
        alike = self._alike(block, frozenset(self.handing.accesses))
        return cache(lambda site: self.comes_once(site) and alike(site))

    def comes_once(self, site: int) -> bool:
        """Whether a branch is no part of a loop, in a kernel whose blocks take locks."""
        if self.handing is None or not self.handing.locks:
            return False
        k = self._instruction(site)
        return k is not None and not any(self.flow.block_of[k] in x for x in self.flow.loops)

    def _alike(self, block: Sequence[int], followed: frozenset[int]) -> Callable[[int], bool]:
        found = self.uniformity(block)

        @cache
        def of(site: int) -> bool:
            k = self._instruction(site)
            return k is not None and found.decided_alike(k, followed)

        return of

    def reads_only_inputs(self, site: int) -> bool:
        """Whether an instruction reads global memory that the grid before does not write, if it reads any."""
        k = self._instruction(site)
        return k is not None and reads_unwritten(self.body[k], self.origins, self.inputs, self.function)

    def uniformity(self, block: Sequence[int]) -> Uniformity:
        """What values vary with in blocks of a shape."""
        found = self._uniformity.get(tuple(block))
        if found is None:
            found = self._uniformity[tuple(block)] = Uniformity(self.flow, block, self.blocks_in_x)
        return found

    def elects_in_parts(self, block: Sequence[int]) -> bool:
        """Whether a part of a warp may elect a lane by itself."""
        whole = self.uniformity(block).whole
        return any(not whole(i.operands[1], k) for k, i in self._elects())

    def elects_by_several_masks(self, block: Sequence[int]) -> bool:
        """Whether parts of a warp, or a part and all of it, may elect lanes that differ."""
        masks = {i.operands[1] for _, i in self._elects()}
        alike = len(masks) == 1 and all(isinstance(m, Imm) for m in masks)
        return self.elects_in_parts(block) and not alike

    def _elects(self) -> Iterator[tuple[int, Instr]]:
        """The elections that are reached."""
        for b in self.flow.reached:
            span = range(self.flow.blocks[b].lo, self.flow.blocks[b].hi)
            yield from ((k, self.flow.body[k]) for k in span if self.flow.body[k].op == "elect")

    @property
    def rests_on(self) -> frozenset[tuple[int, str]]:
        """What was assumed, by instruction, where lanes were shown to hold one value."""
        return frozenset(x for u in self._uniformity.values() for x in u.rests_on)

    @cached_property
    def _uniformity(self) -> dict[tuple[int, ...], Uniformity]:
        return {}

    @cached_property
    def moves(self) -> bool:
        """Whether engines beside the threads access shared memory, or wait for threads."""
        return any(
            i.op in ("wgmma", "mbarrier")
            or (i.op == "cp" and "bulk" in i.mods)
            or (i.op in ("st", "red") and "async" in i.mods)
            for i in self.body
        )

    @property
    def early(self) -> Mapping[int, int]:
        """Branches past which threads leave ahead of all events: what the guard holds where one stays.

        Where threads hand on what decides, only those at which all of a block leave, or none: what one that
        has left would have handed on is missing.
        """
        return self._leaves_together if self.hands_on else self._leaves_early

    @cached_property
    def _leaves_early(self) -> Mapping[int, int]:
        if self.moves or self.handing is not None:
            return {}
        return early_returns(self.flow, {*self.decoded, *self.touches})

    @cached_property
    def _leaves_together(self) -> Mapping[int, int]:
        named = {op.name for i in self.body for op in i.operands if isinstance(op, Special)}
        if not named.isdisjoint(("%tid.y", "%tid.z")):
            return {}  # the shape of a block says which threads are a warp
        varies = self.uniformity((1024, 1, 1)).decided_by
        return {k: stays for k, stays in self._leaves_early.items() if not varies(k) & THREADS}

    @cached_property
    def origins(self) -> Origins:
        """Which parameters addresses in global memory come from."""
        return Origins(self.flow, True, self.numbers)

    def _loads_variable(self, i: Instr) -> bool:
        """Whether a load is of one variable in global memory."""
        names = {v.name for v in (*self.module.variables, *self.function.variables) if v.space == "global"}
        return self.origins.of(i.operands[1]) <= names

    @cached_property
    def map_addresses(self) -> MapAddresses:
        """What addresses of tensor maps are made of."""
        return MapAddresses(self.flow)

    @cached_property
    def exchanges(self) -> HandOver | None:
        """What of a kernel that waits for nobody is followed in a second attempt."""
        if not self.apart:
            return None
        return exchanged(self.flow, self._generic, self.handing, self.origins, sized=self.given)

    @cached_property
    def lengths(self) -> Lengths:
        """How long loops inside others go on, where blocks in block groups choose it in each turn."""
        return (
            chosen_lengths(self.flow, self.slice, self.decoded)
            if self.block_groups is not None
            else Lengths()
        )

    @cached_property
    def renewals(self) -> dict[int, HavocLoop]:
        """By header, the loops whose turns read sizes again."""
        if not self.renews:
            return {}
        held = frozenset(self.slots)
        found = havoc_loops(self.flow, self.slice, self.constants, held, self.lengths.chosen)
        return {x.header: replace(x, deal=self._round_robin(x)) for x in found}

    def _round_robin(self, x: HavocLoop) -> RoundRobinLoop | None:
        """How the turns of a loop are distributed round-robin, if they are."""
        deal = x.deal
        if deal is None or self.block_groups is not None or deal.counter not in self.slots:
            return None
        if deal.step:
            return deal if deal.step in self.slots else None
        block = None if deal.early is None else self.flow.blocks[deal.early]
        quiet = block is not None and not any(k in self.decoded for k in range(block.lo, block.hi))
        return deal if quiet else replace(deal, early=None)

    @cached_property
    def begins(self) -> Span:
        """Where the kernel's code begins."""
        place = self.module.entry_place(self.function)
        first = next((i.line for i in self.body if i.line), place.line)
        return replace(place, line=first) if place.line == self.function.line else place

    @cached_property
    def hesitant(self) -> frozenset[int]:
        """Where it is asked whether there is a further turn, of loops whose iterations are distributed
        round-robin.
        """
        blocks = self.flow.blocks
        asked: set[int] = set()
        for x in self.renewals.values():
            if x.deal is not None and x.deal.step:
                asked |= {x.deal.asked, *x.deal.first}
            elif x.deal is not None:
                first = x.header if x.deal.early is None else x.deal.early
                asked |= {x.deal.asked, *(b for b in blocks[first].pred if b not in x.blocks)}
        found = (asks_at(self.flow, b) for b in asked)
        return frozenset(8 * k + START for k in found if k is not None)

    def read_handle(self, k: int) -> int:
        """What a USE calls the read of instruction ``k``; its number, or that none will or need."""
        if k not in self.uses.late:
            return NO_ARRIVAL_NEEDED
        return NEVER if k in self.uses.lost else k

    def site(self, k: int) -> int:
        """The site of an instruction."""
        found = self.site_of.get(k)
        if found is None:
            i = self.body[k]
            found = self.site_of[k] = len(self.sites)
            callers = self.module.places(i)[1:]
            span = self.module.span(i)
            line = 0 if span == Span(self.module.path, i.line) else i.line
            operand = self.module.barrier_names.get(i.line) or self.module.data_names.get(i.line, "")
            site = Site(span, instruction_text(i), callers, self.module.wrapped(i), line, operand)
            self.sites.append(site)
        return found

    def slot(self, name: str) -> int:
        """The place of a register or of a constant of the agent."""
        found = self.slots.get(name)
        if found is None:
            found = self.slots[name] = self.size
            self.size += 1
        return found

    def constant_slot(self, name: str) -> int:
        """The place of something that the agent is given: ``%tid.x``, ``&variable``, ``param name+8:u32``."""
        found = self.slot(name)
        self.symbols[name] = found
        if name.startswith(SIZED):
            self.constants.setdefault(self.at, set()).add(name)
        return found

    def _leaves(self, i: Instr, pointers: frozenset[str]) -> bool:
        """Whether a matrix whose state space the text leaves out lies in global memory."""
        at = next(op for op in i.operands if isinstance(op, Mem))
        inside = pointers.intersection(registers(at)) or names_shared(at, self.function, self.module)
        return not inside and window(i.mods) == "generic"

    def _refuse_matrices(self) -> None:
        """Matrices in global memory are not followed where it matters what lies there."""
        for k, i in enumerate(self.body):
            if self.refutes and matrix_in_global(i):
                self.decoded[k] = global_matrix(i)
            elif moves_matrix(i) and k not in self.decoded:
                why = (
                    "is not followed in global memory, where the kernel hands data over or bulk copies write"
                )
                self.decoded[k] = Unsupported(f"{i.name} {why}")

    @cached_property
    def bits(self) -> dict[int, int]:
        """The width of each slot that holds a register, or what a parameter gives it."""
        types = dict(self.function.registers)
        held = {s: name.removeprefix(KEPT) for name, s in self.slots.items()}
        types |= {name: name.rpartition(":")[2] for name in held.values() if name.startswith("param ")}
        return {s: width(types[name]) for s, name in held.items() if name in types}


def _writes(i: Instr) -> bool:
    return i.op in ("st", "red", "atom") or stores_matrix(i)


def _loads_global(i: Instr) -> bool:
    return i.op == "ld" and "global" in i.mods


def _reads_shared(e: Decoded, i: Instr) -> bool:
    matrix = i.op == "ldmatrix" or (moves_matrix(i) and not stores_matrix(i))
    return matrix or (isinstance(e, Access) and e.code == Ev.READ)


def _as_effect(e: Decoded, known: frozenset[str] = frozenset()) -> Effect | Unsupported:
    """``known``: registers of which what is stored is known."""
    if isinstance(e, Access):
        stored = e.elements if isinstance(e, Stored) and e.signals else ()
        stored = stored or tuple(op for op in e.elements if isinstance(op, Reg) and op.name in known)
        return Effect(lambda ctx, site, v: (), (e.address, *stored))
    return e


def _met_first(row: Effect, own: Decoded | None) -> Decoded:
    """What an instruction does whose lanes meet before it does what is known of it."""
    if own is None:
        return row
    if not isinstance(own, Effect):
        return own
    n, then = len(row.operands), own

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        return [*row.emit(ctx, site, v[:n]), *then.emit(ctx, site, v[n:])]

    return replace(own, emit=emit, operands=(*row.operands, *own.operands))


#: Why nothing is said of a kernel with some calls.
_LOST = "the call does not keep the carry that is read behind it"


def _stop(i: Instr) -> Unsupported | None:
    if i.op == "trap":
        return Unsupported("the kernel traps")
    if i.op == "brkpt":
        return Unsupported("the kernel comes to a breakpoint")
    name = called(i) or "a function pointer"
    if name in SILENT:
        return None
    if name == "__assertfail":
        return Unsupported("an assertion of the kernel fails")
    return Unsupported(f"a call of {base_name(name)}")
