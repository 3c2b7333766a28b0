"""What the events of one launch refer to: where variables lie, barriers by place, footprints, tensor maps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from syncverify.base.kernel_names import base_name
from syncverify.base.reason import Cause, Reason, bare, causes_of, has
from syncverify.frontends.ptx.analysis.arrays.address_ranges import ANYWHERE, Reached
from syncverify.frontends.ptx.analysis.barriers.places_between_barriers import SizedAccess
from syncverify.frontends.ptx.analysis.blocks.block_groups import Places
from syncverify.frontends.ptx.analysis.exclusion.locks import Locks
from syncverify.frontends.ptx.analysis.exclusion.shared_locks import SharedLocks
from syncverify.frontends.ptx.analysis.registers.interval_rules import Interval
from syncverify.frontends.ptx.analysis.registers.uniformity import EVERY
from syncverify.frontends.ptx.analysis.slots.slots import Slot
from syncverify.frontends.ptx.decode.effects import SHARED_BASE, MapFacts, Opaque
from syncverify.frontends.ptx.decode.map_addresses import Address, apart, indices
from syncverify.frontends.ptx.decode.memory import PARAM_WINDOW
from syncverify.frontends.ptx.isa.targets import shared_bytes
from syncverify.frontends.ptx.syntax.nodes import (
    Function,
    Imm,
    Module,
    Variable,
)
from syncverify.frontends.ptx.syntax.operands import registers, symbols
from syncverify.frontends.ptx.syntax.parameter_names import parameter_text
from syncverify.frontends.ptx.syntax.types import WINDOW
from syncverify.frontends.ptx.values.atomic_tickets import Tickets
from syncverify.frontends.ptx.values.register_values import PLACES, PerLane, Unknown, per_lane
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.frontends.ptx.values.symbolic_words import size as sized
from syncverify.ir.footprints import Footprints
from syncverify.model.events import EACH_TIME, BarrierInfo, Footprint
from syncverify.symbolic.context import AffineTerm, NotConcrete, SymbolicContext

#: Tensor maps at places without a number: with more they are likely to be new ones turn by turn.
MOST_MAPS = 32
#: What mangled names of variables inside functions begin with (Itanium C++ ABI).
_IN_A_FUNCTION = "_ZZ"
#: Entries of tables by value are looked at up to here, in bytes; of these many bytes one may be a number.
_MOST_BYTES, _WORD = 4096, 4
#: Between shared variables that are laid out apart: more than a block has, and low bits stay as they are.
_GAP = 1 << 18
_GLOBALS = 1 << 48  # where variables in global and constant memory are put


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offsets of variables, by name: shared, local, parameters; global and constant by address."""

    shared: Mapping[str, int]
    local: Mapping[str, int]
    params: Mapping[str, int]
    globals: Mapping[str, int]
    names: tuple[tuple[int, int, str], ...]  # of shared bytes
    #: of static shared variables: first byte, end, name and the alignment that is declared
    declared: tuple[tuple[int, int, str, int], ...]
    spaced: bool  # what lies in no variable is in none of these bytes
    crowded: bool  # there should be room between the variables, and is none
    start: int  # of the first shared variable that the kernel names
    end: int  # of static and dynamic shared memory
    static: int  # bytes of static shared memory
    local_end: int  # byte offset behind the last variable in local memory


def layout(module: Module, function: Function, dynamic: int | None, *, spaced: int = 0) -> Layout:
    """Lays a kernel's memory out; ``dynamic``: bytes of dynamic shared memory, if known; ``spaced``: bytes
    over which shared variables are spread, so that what leaves one lies in none; 0: they are close."""
    used = {name for i in function.body for op in i.operands for name in symbols(op)}
    everything = [*function.variables, *(v for v in module.variables)]
    shared: dict[str, int] = {}
    names: list[tuple[int, int, str]] = []
    declared: list[tuple[int, int, str, int]] = []
    at = SHARED_BASE
    late = [v for v in everything if v.space == "shared"]
    named = [v for v in late if v.name in used]
    gap = _gap(named, spaced, shared_bytes(module.target), dynamic)
    for v in late:
        if v.size and not v.extern and v.name in used:
            at = _up(at, v.align)
            shared[v.name] = at
            names.append((at, at + v.size, base_name(v.name)))
            declared += [] if v.placed else [(*names[-1], v.align)]
            at += v.size + gap
    static = at - SHARED_BASE - gap * len(names)
    limit = at - static + shared_bytes(module.target)
    dynamic_variables = [v for v in late if v.extern or not v.size]
    if first := next((v for v in dynamic_variables if v.name in used), None):
        for v in dynamic_variables:  # each aligned where the one before begins, as ptxas has them
            at = _up(at, max(16, v.align))
            if v.name in used:
                shared[v.name] = at
        end = limit if dynamic is None else at + dynamic
        names.append((shared[first.name], end, base_name(first.name)))
    else:
        end = at - (gap if names else 0) if dynamic is None else at + dynamic
    counts = Counter(name for _, _, name in names)
    mangled = {at: name for name, at in shared.items()}
    names = [(a, b, name if counts[name] == 1 else mangled[a]) for a, b, name in names]
    local, here = {}, 16
    for v in everything:
        if v.space == "local":
            here = _up(here, v.align)
            local[v.name] = here
            here += v.size
    params = parameter_offsets(function)
    places = {
        v.name: _GLOBALS + (i << 32) for i, v in enumerate(everything) if v.space in ("global", "const")
    }
    start = min(shared.values(), default=SHARED_BASE)
    return Layout(
        shared,
        local,
        params,
        places,
        tuple(sorted(names)),
        tuple(declared),
        gap > 0,
        bool(spaced) and not gap and len(named) > 1,
        start,
        end,
        static,
        here,
    )


def _gap(variables: Sequence[Variable], spread: int, most: int, dynamic: int | None) -> int:
    """How far apart variables can be laid out over so many bytes; ``most``: that a block has; ``dynamic``:
    of these, dynamic ones, if known."""
    taken = sum(v.size + max(16, v.align) for v in variables) + (dynamic or 0)
    if dynamic is None and any(v.extern or not v.size for v in variables):
        taken = most
    room = max(0, spread - SHARED_BASE - taken) // max(1, len(variables))
    return min(_GAP, room) // SHARED_BASE * SHARED_BASE


def parameter_offsets(function: Function) -> dict[str, int]:
    """Byte offsets of a kernel's parameters in their space."""
    out, at = {}, 0
    for p in function.params:
        unit = p.align if p.ptr is None else min(p.size, 8)
        at = _up(at, max(unit, 1))
        out[p.name] = at
        at += p.size
    return out


def _up(at: int, align: int) -> int:
    return -(-at // max(align, 1)) * max(align, 1)


@dataclass(slots=True)
class Tables:
    """Grows while agents run; shared by all runs of a launch."""

    module: Module
    function: Function
    layout: Layout
    ctas: int
    maps: Mapping[str, MapFacts]  # by name
    parameters: Mapping[int, Any]  # what is known of the parameter space: (offset << 8 | size) -> value
    #: questions with one answer for all agents: what this run takes it to be; those that came up besides
    answers: Mapping[tuple[Any, ...], int] = field(default_factory=dict)
    asked: dict[tuple[Any, ...], str] = field(default_factory=dict)
    tracks: bool = False  # accesses to global memory have footprints
    edits_maps: bool = False  # the kernel edits tensor maps: their boxes then say little of the memory behind
    together: bool = False  # blocks may wait for each other: every address must be known
    unplaced: list[str] = field(default_factory=list)  # else: why addresses are not known
    #: by site, why an access need not be made, or not where its footprint says: nothing is refuted by it
    perhaps: dict[int, str] = field(default_factory=dict)
    any_iteration: set[int] = field(default_factory=set)  # sites that represent all iterations of a loop
    doubts: dict[int, set[Cause]] = field(default_factory=dict)  # the causes of all that was said of a site
    sure: bool = False  # such accesses are left out
    stays: bool = False  # who may leave ahead of all events is taken to stay
    granted: frozenset[int] = frozenset()  # but for those of these sites
    data_addressed: set[int] = field(default_factory=set)  # sites of those
    #: sites that are taken to stay inside the array that they name: its name
    array_addressed: dict[int, str] = field(default_factory=dict)
    #: by site the array that an access is taken to stay inside: its first byte, its end and its name
    array: Callable[[int], tuple[int, int, str] | None] = field(default=lambda site: None)
    #: the same of accesses that numbers place, which must not leave it
    kept: Callable[[int, int], tuple[int, int, str] | None] = field(default=lambda site, which: None)
    dynamic_addressed: set[int] = field(default_factory=set)  # sites whose steps lead through dynamic memory
    unbounded_slots: set[int] = field(default_factory=set)  # sites whose slots comparisons alone limit
    placed_by_sizes: dict[int, bool] = field(default_factory=dict)  # sites of such; whether of sizes >= 0
    ranks_of_floats: set[int] = field(default_factory=set)  # sites whose slots are ranks among floats
    dynamic_start: int | None = None  # where dynamic shared memory begins, if nobody gave its bytes
    grows: dict[tuple[int, int, int], int] | None = None  # ``Context.grows``
    #: of it only, by site and warp
    in_dynamic: Callable[[int, int], Reached] = field(default=lambda site, warp: ANYWHERE)
    certain: bool = True  # all accesses must be certain
    any_data: bool = False  # what memory holds may be any word
    threads: int = 0  # of a block
    #: what registers vary with where the block of a site reads them, or anywhere
    spread: Callable[[Iterable[str], int | None], int] = field(default=lambda names, site: EVERY)
    decided_alike: Callable[[int], bool] = field(default=lambda site: False)  # by all of a block, each time
    #: in a kernel whose blocks take locks: by all of a block alike, at most once
    decided_once: Callable[[int], bool] = field(default=lambda site: False)
    comes_once: Callable[[int], bool] = field(default=lambda site: False)  # a thread does, at most, there
    has_locks: bool = False  # in global memory
    #: the same anywhere, among threads that came together to an instruction
    since: Callable[[Iterable[str], int], int] = field(default=lambda names, k: EVERY)
    #: what the places of loads vary with, by instruction
    load_places: Callable[[int], int] = field(default=lambda k: EVERY)
    varies: Callable[[int], int] = field(default=lambda site: EVERY)  # the same of what stores store, by site
    reached: Callable[[int, int], Reached] = field(default=lambda site, warp: ANYWHERE)  # by site and warp
    #: the same by variable, counted from its first byte
    into_arrays: Callable[[int, int], Mapping[str, Interval] | None] = field(default=lambda site, warp: None)
    lowest: Callable[[int], int | None] = field(default=lambda site: None)  # the least place, by site
    slots: Callable[[int], Slot | None] = field(default=lambda site: None)  # by site
    slots_of_numbers: Callable[[int], int] = field(default=lambda site: 0)  # groups, by site
    only_groups: bool = False  # all accesses to shared memory are in groups of ``between_barriers``
    #: by site: of accesses that sizes place, those that do not race
    between_barriers: Callable[[int], SizedAccess | None] = field(default=lambda site: None)
    written_maps: dict[int, int] = field(default_factory=dict)  # maps that copies store through
    # maps of loads at coordinates that are not known, and why
    maps_at_unknown_coordinates: dict[int, str] = field(default_factory=dict)
    barriers: list[BarrierInfo] = field(default_factory=list)
    footprint_table: list[Footprint] = field(default_factory=list)
    fragments: list[str] = field(default_factory=list)
    map_names: list[str] = field(default_factory=list)
    footprints: Footprints = field(init=False)
    _barriers: dict[tuple[int, int], int] = field(default_factory=dict)
    _fragments: dict[str, int] = field(default_factory=dict)
    #: what the launch file says of global memory, or what to write there
    memory: Callable[[int, int], int | str | None] = lambda address, size: None
    holds: bool = False  # whether it says anything of it
    images: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # ``PtxFacts.images``
    map_place: Callable[[int], str | None] = lambda address: None  # which parameter points to a tensor map
    locks: Locks = field(default_factory=Locks)  # in global memory
    shared_locks: SharedLocks = field(default_factory=SharedLocks)
    space: SymbolicContext | None = None  # of sizes without a number
    places: Places | None = None  # that blocks in block groups reach
    tickets: Tickets | None = None  # what atomics hand out; None: nothing is followed
    _behind: dict[tuple[Any, int], Unknown] = field(default_factory=dict)
    _wanted: dict[tuple[str, str], Unknown] = field(default_factory=dict)
    _maps: dict[Any, tuple[int, MapFacts]] = field(default_factory=dict)
    #: By number of a map, the boxes that it is published with; True: a part of what makes one; None: nothing.
    _published: dict[int, set[tuple[int, ...] | bool | None]] = field(default_factory=dict, init=False)
    _nowhere: dict[int, Any] = field(
        default_factory=dict
    )  # boxes of maps that the kernel builds, no place known

    def __post_init__(self) -> None:
        self.footprints = Footprints(self.footprint_table)

    @property
    def shared_end(self) -> int:
        return self.layout.end

    @property
    def placed_by_data(self) -> set[int]:
        """The sites of accesses whose places data says, whatever they are taken to stay inside."""
        return self.data_addressed | self.dynamic_addressed | self.array_addressed.keys()

    def vary_with(self, of: Callable[[int], int]) -> None:
        """What stores store varies with what ``of`` says by site. Of loops that are run once for all of their
        iterations these are not compared one by one."""
        self.varies = lambda site: EVERY if site in self.any_iteration and of(site) & EACH_TIME else of(site)

    def doubt(self, site: int, why: str) -> None:
        """An access need not be made, or not where its footprint says."""
        if site not in self.perhaps or has(self.perhaps[site], Cause.BLOCK_PLACE):
            self.perhaps[site] = why  # of a block that has a number by now, the place is no reason any more
        self.doubts.setdefault(site, set()).update(causes_of(why))

    def barrier(self, cta: int, offset: int) -> int:
        found = self._barriers.get((cta, offset))
        if found is None:
            found = self._barriers[cta, offset] = len(self.barriers)
            self.barriers.append(BarrierInfo(cta, offset, *self._barrier_name(offset)))
        return found

    def _barrier_name(self, offset: int) -> tuple[str, bool]:
        """The name of a barrier, and whether it only says where the barrier lies."""
        for lo, hi, name in self.layout.names:
            if lo <= offset < hi:
                if hi - lo == 8:
                    return name, False
                if hi - lo <= 256 and (offset - lo) % 8 == 0:
                    return f"{name}[{(offset - lo) // 8}]", False
                return f"{name}+{offset - lo}", True
        return f"mbarrier at {offset}", True

    def fragment(self, name: str) -> int:
        found = self._fragments.get(name)
        if found is None:
            found = self._fragments[name] = len(self.fragments)
            self.fragments.append(name)
        return found

    def know_the_block(self) -> None:
        """Forgets where copies went in a run in which the block had no number."""
        unknown = self.maps_at_unknown_coordinates
        for number in [n for n, why in unknown.items() if has(why, Cause.BLOCK_PLACE)]:
            del unknown[number]

    def map_at(self, address: Any) -> tuple[int, MapFacts]:
        """Number and facts of the tensor map at an address (or behind a value that is not known)."""
        key = self._map_key(address)
        found = self._maps.get(key)
        if found is None:
            name = self._map_name(address)
            facts = self.maps.get(name) or MapFacts(name, None, None, 0, None)
            found = self._maps[key] = (len(self.map_names), facts)
            self.map_names.append(name)
        return found

    def _map_key(self, address: Any) -> Any:
        """What tells a tensor map from others: places without a number are the same, or known to be apart."""
        if isinstance(address, Address):
            return self._unnamed(address)
        if not isinstance(address, SymbolicWord):
            return address if isinstance(address, int) else id(address)
        space, here = address.term.space, address.term
        for known in self._maps:
            if isinstance(known, Address) and known.parameter is not None:
                continue
            if not isinstance(known, AffineTerm):
                raise NotConcrete("tensor maps at places with and without a number")
            apart = space.resolved(here - known)
            if isinstance(apart, AffineTerm):
                raise NotConcrete("which of several tensor maps is meant depends on sizes")
            if not apart:
                return known
        if len(self._maps) >= MOST_MAPS:
            raise NotConcrete(f"more than {MOST_MAPS} tensor maps at places without a number")
        return here

    def _unnamed(self, address: Address) -> Address:
        """The same for an address that is no number: maps that the kernel edits have to be distinguished."""
        for known in self._maps if self.edits_maps else ():
            if isinstance(known, Address) and apart(address, known) is None:
                names = f"that at {address.name()} may be that at {known.name()}"
                raise Opaque(f"which of the kernel's tensor maps is meant: {names}")
        return address

    def publish_map(self, address: Any, facts: MapFacts | None) -> None:
        """A map that the kernel publishes, with what it makes of it; None: nothing that is followed.

        Agents are looked at one after the other, so that a copy may be looked at after a later publication.
        What is known of the box has to be so at all of them, unless the launch file gives it.
        """
        number, known = self.map_at(address)
        given = self.maps.get(known.name)
        made = self._published.setdefault(number, set())
        made.add(None if facts is None else facts.box or facts.partly)
        if (given is None or given.box is None) and len(made) > 1 and any(isinstance(x, tuple) for x in made):
            why = "the kernel publishes it with its box, and elsewhere without or with another one"
            raise Opaque(Reason(f"{known.name}: {why}: give its dtype and box", Cause.MISSING_BOX))
        if facts is not None:
            self.define_map(address, facts)

    def define_map(self, address: Any, facts: MapFacts) -> None:
        """Facts of a map that the kernel builds; given ones win."""
        number, known = self.map_at(address)
        if isinstance(address, Unknown) and not isinstance(address, Address):
            box = self._nowhere.setdefault(number, facts.box)
            if box != facts.box:  # of maps at several places one may be meant, or another
                text = f"which of the kernel's tensor maps is meant depends on {address.why}"
                raise Opaque(Reason(text, parts=(address.why,)))
        if facts.box is not None and known.box not in (None, facts.box):
            raise Opaque(
                f"the kernel makes a map with another box of {known.name}, of which {known.box} is known"
            )
        if facts.box is None or known.box is not None:  # what is known of the box stays
            partly = facts.partly and known.box is None
            facts = replace(known, rank=facts.rank or known.rank, unfit=facts.unfit, partly=partly)
        if isinstance(address, int | SymbolicWord | Address):
            self._maps[self._map_key(address)] = (number, replace(facts, name=known.name))

    def facts_of(self, number: int) -> MapFacts:
        """The facts of the tensor map of a number."""
        return next(facts for n, facts in self._maps.values() if n == number)

    def _map_name(self, address: Any) -> str:
        if isinstance(address, Address):
            index = {p.name: i for i, p in enumerate(self.function.params)}
            place = indices(index, address)
            if place is None:
                name = f"tensor map at {address.name()}"
                return name if name not in self.map_names else f"tensor map at {address.name(whole=True)}"
            return parameter_text(self.function.params, *place)
        if isinstance(address, Unknown):
            if address.source == "param" and address.key is not None and address.key[0] == "param":
                index, offset = address.key[1:3]
                return parameter_text(self.function.params, index, offset)
            return f"tensor map ({address.why})"
        if isinstance(address, SymbolicWord):
            return f"tensor map {len(self.map_names)}"
        if address >> WINDOW in (0, PARAM_WINDOW):
            offset = address & (1 << WINDOW) - 1
            for i, p in enumerate(self.function.params):
                start = self.layout.params[p.name]
                if start <= offset < start + p.size:
                    return parameter_text(self.function.params, i, offset - start)
        return self.map_place(address) or f"tensor map at {address:#x}"

    def held(self, address: Any, size: int, missing: Unknown) -> Any:
        """What the launch file says that lies at a global address; ``missing``, with what to say there."""
        if address.__class__ is PerLane and self.holds:
            return per_lane([self.held(a, size, missing) for a in address.lanes])
        if address.__class__ is not int:
            return address.derived() if self._placed(address) else missing
        found = self.memory(address, size)
        if not isinstance(found, str):
            return missing if found is None else found
        key = (found, missing.why)
        if key not in self._wanted:
            text = f"{bare(missing.why)}: {found}"
            self._wanted[key] = Unknown(Reason(text, Cause.MISSING_FACT, parts=(missing.why,)))
        return self._wanted[key]

    def _placed(self, address: Any) -> bool:
        """Whether where the block is in the grid decides which of the given contents an address leads to."""
        return self.holds and isinstance(address, Unknown) and address.source in PLACES

    def behind(self, address: Any, size: int, missing: Unknown) -> Any:
        """What lies at a global address that nobody writes."""
        if address.__class__ is PerLane:
            return self.held(address, size, missing)
        if address.__class__ is int:
            known = self.held(address, size, missing)
            if known.__class__ is int:
                return known
            missing = known
        if isinstance(address, Unknown):
            if self._placed(address):
                return address.derived()
            if address.key is None or address.key[0] == "choice":
                return missing
            place: Any = address.key
        elif isinstance(address, int):
            place = address
        else:
            return missing
        found = self._behind.get((place, size))
        if found is None:
            found = self._behind[place, size] = Unknown(missing.why, "data", ("memory", place, size))
        return found

    def parameter_at(self, address: Any, size: int, missing: Unknown) -> Any:
        """Bytes of a parameter that is read through a pointer, as an entry of a table by value is.

        For every size an entry is one more size: of a place without a number one for that place, between the
        least and the greatest of those that the launch file gives.
        """
        found = missing
        if not isinstance(address, SymbolicWord):
            found = self.parameter_bytes(address, size, missing)
        if self.space is None or not isinstance(found, Unknown):
            return found
        place = address.term if isinstance(address, SymbolicWord) else address
        given = self._entries(place, size) if isinstance(place, AffineTerm) else None
        if given is None and size > _WORD:
            return missing  # a pointer, more likely than not
        ends = (0, (1 << 8 * size) - 1) if given is None else (min(given), max(given))
        return sized(self.space.memory_symbol(("entry", place, size), *ends, "entry"), 8 * size)

    def _entries(self, place: AffineTerm, size: int) -> list[int] | None:
        """The numbers at all places of a parameter that a sum may mean; None where one is not given."""
        pitch = gcd(*(factor for _, factor in place.parts))
        for p in self.function.params:
            start = self.layout.params[p.name]
            if start <= place.c < start + p.size <= start + _MOST_BYTES:
                first = start + (place.c - start) % pitch
                ends = range(first, start + p.size - size + 1, pitch)
                found = [self.parameters.get(at << 8 | size) for at in ends]
                numbers = [x for x in found if x.__class__ is int]
                return numbers if numbers and len(numbers) == len(found) else None
        return None

    def parameter_bytes(self, offset: int, size: int, missing: Unknown) -> Any:
        return self.parameters.get(offset << 8 | size, missing)

    def at_launch(self, address: int, size: int) -> int:
        """What a flag in global memory is at launch: what the launch file says, else the initializer, else
        zero."""
        for v in (*self.module.variables, *self.function.variables):
            at = address - self.layout.globals.get(v.name, address + 1)
            if v.space == "global" and 0 <= at <= v.size - size:
                image = dict(enumerate(v.init or b"")) | dict(self.images.get(v.name, {}))
                return int.from_bytes(bytes(image.get(at + n, 0) for n in range(size)), "little")
        found = self.memory(address, size)
        return found if isinstance(found, int) else 0

    def variable_bytes(self, address: Any, size: int, missing: Unknown) -> Any:
        """Bytes of a variable in constant or global memory that the kernel does not write.

        The host may set it before the launch, whatever its initializer says. It is known where the launch
        file gives it, and where it stands inside a function, so that the host has no name for it.
        """
        if address.__class__ is PerLane:
            return per_lane([self.variable_bytes(a, size, missing) for a in address.lanes])
        if address.__class__ is not int:
            return address.derived() if isinstance(address, Unknown) else missing
        for v in (*self.module.variables, *self.function.variables):
            at = address - self.layout.globals.get(v.name, address + 1)
            if v.space not in ("const", "global") or not 0 <= at <= v.size - size:
                continue
            image = self.images.get(v.name, {})
            if v.init is not None and v.name.startswith(_IN_A_FUNCTION):
                image = dict(enumerate(v.init.ljust(v.size, b"\0"))) | dict(image)
            data = [image.get(at + n) for n in range(size)]
            if None not in data:
                return int.from_bytes(bytes(b for b in data if b is not None), "little")
        return self.behind(address, size, missing)


def shared_variables(module: Module, function: Function) -> tuple[Variable, ...]:
    """The shared variables that a function may use."""
    return tuple(v for v in (*function.variables, *module.variables) if v.space == "shared")


__all__ = ["SHARED_BASE", "Imm", "Layout", "Tables", "layout", "parameter_offsets", "registers"]
