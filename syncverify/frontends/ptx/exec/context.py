"""What the instructions of a class of lanes see of its launch, and memory for code that loads and stores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from syncverify.base.reason import Cause, Reason, bare, has, reason_of
from syncverify.frontends.ptx.analysis.registers.interval_rules import Interval
from syncverify.frontends.ptx.analysis.registers.uniformity import LANES, agree
from syncverify.frontends.ptx.analysis.slots.slots import OF_SIZES, Slot
from syncverify.frontends.ptx.compile.state import LOCAL, SHARED, Disagreement
from syncverify.frontends.ptx.decode.effects import MapFacts, Opaque, Value
from syncverify.frontends.ptx.decode.global_access import box_footprint, global_footprint, signed
from syncverify.frontends.ptx.decode.memory import LOCAL_WINDOW, PARAM_WINDOW, Bytes, SharedContents
from syncverify.frontends.ptx.exec.tables import Tables
from syncverify.frontends.ptx.syntax.types import RANK, WINDOW
from syncverify.frontends.ptx.values.atomic_tickets import TicketDemand
from syncverify.frontends.ptx.values.register_values import (
    DECIDING,
    INTS,
    UNWRITTEN,
    WARP,
    PerLane,
    Unknown,
    lanes_of,
    per_lane,
)
from syncverify.frontends.ptx.values.residues import Residue
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.ir.footprints import Range
from syncverify.model.elected_lane import NOBODY, ElectedLane
from syncverify.model.events import Footprint

#: Places of one access by steps through dynamic shared memory, those of all lanes together.
MOST_STRIDED = 1 << 16


class ClassContext:
    """A class of lanes in a launch: ``effects.Context``, and memory for the code that loads and stores."""

    def __init__(self, tables: Tables, cta: int, warp: int, mask: int, warp_lanes: int) -> None:
        self.tables = tables
        self.ctas = tables.ctas
        self.cta = cta % tables.ctas
        self.first = cta - self.cta  # CTAs of the clusters before this one, where several run together
        self.warp = warp
        self.mask = mask
        self.lanes = tuple(i for i in range(WARP) if mask >> i & 1)
        self.warp_lanes = warp_lanes
        self.shared_start = tables.layout.start
        self.shared_end = tables.shared_end
        self.grows = tables.grows
        self.arrays = tables.layout.names
        self.declared = tables.layout.declared
        self.spaced = tables.layout.spaced
        self.crowded = tables.layout.crowded
        self.local_end = tables.layout.local_end
        self.footprints: Sequence[Footprint] = tables.footprint_table
        self._parts: dict[int, ClassContext] = {}
        self.partial = False  # it represents some lanes of a class, those for which a guard holds

    # ------------------------------------------------------------ effects.Context

    def variable(self, name: str) -> int:
        layout = self.tables.layout
        spaces = (layout.local, layout.params, layout.globals)
        return next(places[name] for places in spaces if name in places)

    def number(self, value: Value, what: str) -> int:
        if value.__class__ in INTS:
            return value  # type: ignore[no-any-return]
        if value.__class__ is PerLane:
            value = value.on(self.mask)
            if value.__class__ is PerLane:
                missing = value.unknown(self.mask)
                if missing is None:
                    raise Disagreement(tuple(value.parts(self.mask).values()))
                value = missing
        if isinstance(value, Unknown):
            answer = self.answer(value)
            if answer is None:
                why = _pointed(value.why) if what.startswith("the address of a") else value.why
                text = Reason(f"{what} depends on {why}", parts=(value.why,))
                raise Opaque(text, value.source == UNWRITTEN)
            return answer
        return value.number() if isinstance(value, SymbolicWord) else value

    def each(self, value: Value, what: str) -> tuple[int, ...]:
        if value.__class__ in INTS:
            return (value,) * len(self.lanes)
        if value.__class__ is PerLane:
            found = tuple([value.lanes[i] for i in self.lanes])
            if any(isinstance(v, SymbolicWord) for v in found):
                found = tuple([v.number() if isinstance(v, SymbolicWord) else v for v in found])
            for v in found:
                if v.__class__ not in INTS:
                    return (self.number(v, what),) * len(found)
            return found
        return (self.number(value, what),) * len(self.lanes)

    def shared(self, address: int, space: str, what: str) -> tuple[int, int]:
        if space == "generic":
            if address >> WINDOW != 1:
                raise Opaque(f"{what} lies outside shared memory")
            address &= (1 << WINDOW) - 1  # beyond 32 bits of it, where the window ends, no CTA has memory
        else:
            if address >> 33 > 0:  # a register of 32 bits and an offset may carry once
                raise Opaque(f"{what} lies outside the window of shared memory: cvta.to.shared is missing")
            address &= 0xFFFFFFFF
        return address >> RANK, address & (1 << RANK) - 1

    def barrier(self, cta: int, offset: int) -> int:
        return self.tables.barrier(self.first + cta, offset)

    def anywhere(self, site: int, address: Value, why: str, bits: int) -> Range | None:
        t = self.tables
        values = [address] if isinstance(address, Unknown) else [lanes_of(address)[i] for i in self.lanes]
        sources = {v.source for v in values if isinstance(v, Unknown)}
        if not sources <= DECIDING or t.certain:
            raise Opaque(why)
        found = self._bounded(site, bits, why)
        if found is None and sources != {"data"}:
            raise Opaque(why)  # what an open size places is not assumed to be inside
        t.doubt(site, why)
        array = t.array(site) if found is None else None
        if array is not None:
            t.array_addressed[site] = array[2]
        elif found is None or None in t.reached(site, self.warp).ranks:
            t.data_addressed.add(site)
        if found is None:
            start, end, _ = array or (self._least(site) or self.shared_start, self.shared_end, "")
            found = Range(start, end - start)
        return None if t.sure else found

    def _least(self, site: int) -> int | None:
        """Where an access lies at least: where its array begins, if sizes alone lead into it and nowhere
        below, and there is dynamic shared memory of no given size; else None."""
        t = self.tables
        found = t.between_barriers(site) if self.group(site) else None
        inside = found is not None and found.begins_inside and t.dynamic_start is not None
        return t.layout.shared[found.array] if found is not None and inside else None

    def apart(self, site: int) -> int:
        t = self.tables
        return 0 if site in t.any_iteration else t.reached(site, self.warp).apart

    def kept(self, site: int, which: int = 0) -> tuple[int, int, str] | None:
        return self.tables.kept(site, which)

    def slot(self, site: int, why: str, size: int) -> tuple[Range | None, int] | None:
        t = self.tables
        found = t.slots(site)
        if found is None or t.certain or self.ctas > 1:
            return None
        places = found.places
        start, end, _ = t.kept(site, 0) or (self.shared_start, self.shared_end, "")
        inside = start <= places.low and places.high + size <= end and self._in_arrays(site, places, size)
        array = None if inside or found.ranked else t.array(site)
        if not (inside or array) or places.low % size or places.step % size:
            return None
        if array is not None:
            _room(found, array, size, why)
            t.array_addressed[site] = array[2]
        t.doubt(site, why)
        if not found.bounded:
            t.unbounded_slots.add(site)
        if found.floats:
            t.ranks_of_floats.add(site)
        low, high = (places.low, places.high + size) if array is None else array[:2]
        reached = Range(low, high - low)
        return (None if t.sure else reached), found.group

    def slot_group(self, site: int) -> int:
        return 0 if self.tables.certain or self.ctas > 1 else self.tables.slots_of_numbers(site)

    def group(self, site: int) -> int:
        t = self.tables
        found = None if t.certain or self.ctas > 1 else t.between_barriers(site)
        if found is None:
            return 0
        t.placed_by_sizes[site] = found.positive
        return OF_SIZES + found.group

    def only_groups(self) -> bool:
        return self.tables.only_groups

    def in_its_array(self, site: int) -> bool:
        return len(self.tables.layout.names) == 1 or self.kept(site) is not None

    def strided(self, site: int, address: Value, why: str, size: int) -> list[Range] | None:
        t = self.tables
        start, end, array = t.dynamic_start, self.shared_end, t.array(site)
        if array is not None and array[0] == start:
            array = None  # it is all of dynamic shared memory
        lanes = [lanes_of(address)[i] for i in self.lanes]
        based = (t.reached if start is None else t.in_dynamic)(site, self.warp).based
        if t.certain or self.ctas > 1 or not (based or array):
            return None
        if start is None or array is not None:
            if any(x.__class__ is not Residue or x.source != "data" for x in lanes):
                return None  # what an open size places is not assumed to be inside
            start, end, _ = array or (self.shared_start, self.shared_end, "")
            bounds = t.reached(site, self.warp).places
            if bounds is not None and not start <= bounds.low <= bounds.high <= end - size:
                return None  # the kernel bounds it, and not to what it is taken to stay inside
        start = max(start, t.lowest(site) or start)
        found = []
        for x in lanes:
            if x.__class__ is not Residue or x.modulus % size or x.residue % size:
                return None
            first = start + (x.residue - start) % x.modulus
            rows = (end - first - size) // x.modulus + 1
            if rows < 1:
                return None  # it lies in none of them
            found.append(Range(first, size, rows, x.modulus))
        if sum(r.rows for r in found) > MOST_STRIDED:
            return None
        t.doubt(site, why)
        if array is not None:
            t.array_addressed[site] = array[2]
        else:
            (t.data_addressed if t.dynamic_start is None else t.dynamic_addressed).add(site)
        return [] if t.sure else found

    def _bounded(self, site: int, bits: int, why: str) -> Range | None:
        """Where an access may go that data places, as the kernel bounds it: aligned, and inside. Opaque where
        its bounds allow more, None where it has none."""
        found, size = self.tables.reached(site, self.warp), bits // 8
        if not found.based:
            raise Opaque(Reason(f"no shared variable is in the address: {why}", parts=(why,)))
        beyond = [r for r in found.ranks if r is not None and not 0 <= r.low <= r.high < self.ctas]
        if beyond:
            places = f"CTAs {beyond[0].low}..{beyond[0].high} of {self.ctas}"
            raise Opaque(Reason(f"data may place this access in {places}: {why}", parts=(why,)))
        reached = found.places
        if reached is None and found.one_sided and self._least(site) is None:
            raise Opaque(Reason(f"data places this access, bounded on one side only: {why}", parts=(why,)))
        if reached is None or not size:
            return None
        start, end, name = self.kept(site) or (self.shared_start, self.shared_end, "shared memory")
        aligned = not (reached.low % size or reached.step % size)
        inside = start <= reached.low and reached.high + size <= end and self._in_arrays(site, reached, size)
        if not (inside and aligned):
            places = f"{reached.low}..{reached.high + size - 1}, by {reached.step}"
            places = f"{places}, of {name}, {start}..{end - 1}"
            raise Opaque(Reason(f"data may place this access at bytes {places}: {why}", parts=(why,)))
        return Range(reached.low, reached.high + size - reached.low)

    def _in_arrays(self, site: int, reached: Interval, size: int) -> bool:
        """Whether an access lies in one shared variable at each of some places; true where it names one."""
        if self.kept(site) is not None or not (self.spaced or self.crowded):
            return True
        step = reached.step or 1
        first = [max(0, -((reached.low - low) // step)) for low, _, _ in self.arrays]
        last = [(min(reached.high, high - size) - reached.low) // step for _, high, _ in self.arrays]
        inside = sum(max(0, b - a + 1) for a, b in zip(first, last, strict=True))
        if self.spaced and inside == (reached.high - reached.low) // step + 1:
            return True
        found, laid = self.tables.into_arrays(site, self.warp), self.tables.layout
        ends = {low: high - low for low, high, _ in self.arrays}
        return found is not None and all(
            0 <= x.low and x.high + size <= ends.get(laid.shared[name], 0) for name, x in found.items()
        )

    def footprint(self, fp: Footprint) -> int:
        if self.first and fp.memory >= 0:
            fp = replace(fp, memory=self.first + fp.memory)
        return self.tables.footprints.add(fp)

    def one_value(self, site: int, lanes: Iterable[int]) -> bool:
        return agree(self.tables.varies(site), (WARP * self.warp + lane for lane in lanes))

    def vary(self, names: Iterable[str], site: int) -> int:
        return self.tables.spread(names, site)

    def differs(self, names: Iterable[str], since: int | None = None) -> bool:
        found = self.tables.spread(names, None) if since is None else self.tables.since(names, since)
        return bool(found & LANES)

    def global_bytes(self, value: Value, size: int, rows: int = 1, pitch: int = 0, element: int = 0) -> int:
        if not self.tables.tracks:
            return -1
        found = self._placed(value)
        if found is None:
            return -1
        addresses, step = found
        reached = global_footprint(addresses, size, self.lanes, self.partial, rows, pitch)
        if element:
            reached = replace(reached, element=element)
        if self.tables.places is not None:
            self.tables.places.keep_within(step, reached)
        return self.tables.footprints.add(reached)

    def flag(self, value: Value, size: int) -> int:
        if value.__class__ is PerLane:
            value = value.on(self.mask)
        if self.tables.places is None or value.__class__ is PerLane:
            value = self.number(value, "the address of a flag")
        found = self._placed(value)
        if found is None or found[0][0] >> WINDOW:
            raise Opaque("a spin on memory that is not global")
        self._zero_at_launch(value, size)
        return self.global_bytes(value, size)

    def _zero_at_launch(self, address: Value, size: int) -> None:
        """Flags, counters and locks are taken to be zero at launch: Opaque where one is known not to be."""
        found = self.tables.at_launch(address, size) if address.__class__ in INTS else 0
        if found:
            raise Opaque(f"a flag, counter or lock that is {found} at launch, where only zero is followed")

    def lock(self, address: int, size: int, *, free: bool) -> int:
        self._zero_at_launch(address, size)
        return self.tables.locks.place(address, size, self._holder(), free=free)

    def try_lock(self, address: int, size: int) -> int | None:
        return self.tables.locks.attempt(address, size, self._holder())

    def shared_lock(self, offset: int, size: int, site: int) -> int:
        turn = (self._holder(), site)
        return self.tables.shared_locks.take((self.first + self.cta, offset), size, turn)

    def shared_turn(self, offset: int, size: int, k: int, amount: int | None, most: int | None) -> int | None:
        locks, lock, mine = (
            self.tables.shared_locks,
            (self.first + self.cta, offset),
            (self._holder(), -1 - k),
        )
        if amount is None:
            return locks.attempt(lock, size, mine, most)
        return locks.count(lock, size, mine, amount, most)

    def shared_asked(self, offset: int, numbers: Sequence[int]) -> None:
        self.tables.shared_locks.ask((self.first + self.cta, offset), numbers)

    def shared_free(self, offset: int, site: int, *, alone: bool) -> int | None:
        lock = (self.first + self.cta, offset)
        return self.tables.shared_locks.free(lock, self._holder() if alone else None, site)

    def shared_stored(self, cta: int, offset: int, value: int) -> None:
        self.tables.shared_locks.stored.setdefault((self.first + cta, offset), set()).add(value)

    def is_shared_lock(self, cta: int, offset: int) -> bool:
        lock, locks = (self.first + cta, offset), self.tables.shared_locks
        return lock in locks.turns and lock not in locks.first

    def shared_word(self, cta: int, offset: int, size: int) -> None:
        self.tables.shared_locks.words.add(((self.first + cta, offset), size))

    def shared_poll(self, cta: int, offset: int, size: int, *, polls: bool) -> None:
        if self.tables.shared_locks.mixes((self.first + cta, offset), size, polls=polls):
            text = "a word that threads wait for is written together with others, or in part"
            raise Opaque(Reason(text, Cause.SHARED_CONTENTS))

    def _holder(self) -> tuple[int, int, int]:
        return (self.first + self.cta, self.warp, self.lanes[0])

    def wrote(self, addresses: Iterable[int], size: int) -> None:
        if self.tables.has_locks:
            self.tables.locks.written.update((a, size) for a in addresses)

    def addresses(self, value: Value) -> tuple[int, ...] | None:
        found = self._placed(value)
        return None if found is None else found[0]

    def _placed(self, value: Value) -> tuple[tuple[int, ...], int] | None:
        """Each lane's global address, and in a block group by how much it moves from group to group."""
        what = "the address of an access to global memory"
        try:
            if self.tables.places is not None and _sized(value, self.lanes):
                return self.tables.places.as_numbers(tuple([lanes_of(value)[i] for i in self.lanes]))
            return self.each(value, what), 0
        except Opaque as e:
            if self.tables.together or has(reason_of(e), Cause.BLOCK_PLACE):
                raise
            self.tables.unplaced.append(reason_of(e))
            return None

    def global_box(
        self, tensor_map: Value, coords: Sequence[Value], writes: bool = False, *, reduces: bool = False
    ) -> int:
        if not self.tables.tracks or self.tables.edits_maps:
            return -1
        number, facts = self.tables.map_at(self._one(tensor_map, "the address of a tensor map"))
        at, why = None, ""
        if facts.box is not None and facts.element is not None and len(facts.box) == len(coords):
            at, why = self._coordinates(coords)
        unknown = self.tables.maps_at_unknown_coordinates
        if writes:
            self.tables.written_maps.setdefault(number, number)
        elif at is None:
            unknown[number] = why
        if number in self.tables.written_maps and (at is None or number in unknown):
            of_block = why or unknown.get(number, "")
            if has(of_block, Cause.BLOCK_PLACE):
                raise Opaque(of_block)  # with a number for the block they are known
            raise Opaque(f"the boxes of tensor map {facts.name}, through which the kernel hands data over, "
                         "are not known")  # fmt: skip
        if at is None or facts.box is None or facts.element is None:
            return -1
        found = box_footprint(number, facts.box, facts.element, at)
        return self.tables.footprints.add(replace(found, element=facts.element) if reduces else found)

    def _coordinates(self, coords: Sequence[Value]) -> tuple[list[int] | None, str]:
        """The coordinates; or why they are not known."""
        try:
            return [signed(self.number(c, "a coordinate"), 32) for c in coords], ""
        except Opaque as e:
            return None, reason_of(e)

    def read_handle(self) -> int:
        return -1  # the caller puts it in

    def tensor_map(self, value: Value) -> MapFacts:
        return self.tables.map_at(self._one(value, "the address of a tensor map"))[1]

    def publish_map(self, value: Value, facts: MapFacts | None) -> None:
        self.tables.publish_map(self._one(value, "the address of a tensor map"), facts)

    def define_map(self, value: Value, facts: MapFacts) -> None:
        self.tables.define_map(self._one(value, "the address of a tensor map"), facts)

    def map_index(self, value: Value) -> int:
        return self.tables.map_at(self._one(value, "the address of a tensor map"))[0]

    def fragment(self, name: str) -> int:
        return self.tables.fragment(name)

    # ------------------------------------------------------------ for compiled code

    def _one(self, value: Value, what: str) -> Any:
        if value.__class__ is PerLane:
            value = value.on(self.mask)
        if isinstance(value, Unknown) and value.source == UNWRITTEN:
            return self.number(value, what)
        return value if isinstance(value, Unknown | SymbolicWord) else self.number(value, what)

    def answer(self, value: Unknown) -> int | None:
        """What the present run takes the answer to be, to a question that has one for all agents."""
        if value.key is None or value.key[0] != "choice":
            return None
        if value.key[1] == "ticket":
            assert self.tables.tickets is not None
            _, _, address, agent, n, limit, negated = value.key
            return self.tables.tickets.answer(("ticket", address, agent, n, limit)) ^ bool(negated)
        found = self.tables.answers.get(value.key[1:-1])
        if found is None:
            self.tables.asked.setdefault(value.key[1:-1], value.why)
            return None
        return found ^ bool(value.key[-1])

    def take(self, lane: int, n: int, address: Value, one: Value, last: Value, missing: Unknown,
             hearer: int = -1) -> Unknown:  # fmt: skip
        """What a lane's take ``n`` from a counter brings; ``hearer``: the first of those who hear of it."""
        tickets = self.tables.tickets
        if tickets is None:
            return missing
        first = None if address.__class__ not in INTS else self.tables.memory(address, 4)
        if first.__class__ is int and one == 1 and last.__class__ in INTS:
            agent = (self.cta, self.warp, lane)
            tickets.came[address, agent, hearer] = n + 1
            return tickets.take(address, agent, n, first, last & 0xFFFFFFFF, missing.why)
        tickets.lose(missing.why)
        why = f"{bare(missing.why)}: {first}" if isinstance(first, str) else missing.why
        return TicketDemand(Reason(why, parts=(missing.why,)))

    def part(self, active: Value) -> ClassContext | None:
        """The lanes of the class for which a guard holds."""
        if isinstance(active, Unknown):
            answer = self.answer(active)
            if answer is None:
                raise Opaque(Reason(f"a guard depends on {active.why}", parts=(active.why,)))
            return self if answer else None
        if not isinstance(active, PerLane):
            raise Opaque("a guard depends on an open size")
        mask = 0
        for i in self.lanes:
            v = active.lanes[i]
            if isinstance(v, Unknown):
                raise Opaque(Reason(f"a guard depends on {v.why}", parts=(v.why,)))
            mask |= bool(v) << i
        if mask == self.mask:
            return self
        if not mask:
            return None
        found = self._parts.get(mask)
        if found is None:
            found = self._parts[mask] = ClassContext(
                self.tables, self.first + self.cta, self.warp, mask, self.warp_lanes
            )
            found.partial = True
        return found

    def elect(self, mask: Value, elected: ElectedLane) -> tuple[int, Value]:
        """The lane that ``elect.sync`` chooses among ``mask``, and the predicate."""
        m = mask if mask.__class__ in INTS else 0xFFFFFFFF
        m = m & self.warp_lanes or self.warp_lanes
        if elected == NOBODY:
            return 0, 0
        if why := elected.unrepresented(self.mask):
            raise Opaque(why)
        if elected.of_one_mask and m != self.warp_lanes and not m >> elected.lane & 1:
            raise Opaque(Reason("parts of a warp elect lanes whose numbers matter", Cause.UNSUPPORTED))
        lane = elected.lane if m >> elected.lane & 1 else (m & -m).bit_length() - 1
        return lane, per_lane([int(i == lane) for i in range(WARP)])

    def load(self, r: list[Any], space: str, address: Value, size: int, missing: Unknown) -> Value:
        if address.__class__ is PerLane and self.tables.any_data:
            address = address.on(self.mask)
        found = self._held(r, space, address, size, missing)
        if found is missing and self.tables.any_data and address.__class__ is int:
            return self._word(r, space, address, size, missing)
        return _all_or_none(found, missing) if found.__class__ is PerLane and self.tables.any_data else found

    def held(self, r: list[Any], address: int, size: int) -> Value:
        """What is known to lie at a place in shared memory; nothing: no number."""
        return self._held(r, "shared", address, size, Unknown("what was stored there"))

    def _held(self, r: list[Any], space: str, address: Value, size: int, missing: Unknown) -> Value:
        if isinstance(address, Unknown):
            return missing
        if address.__class__ is PerLane:
            if space == "shared" and (r[SHARED] is None or r[SHARED].nothing()):
                return missing
            each = [self._held(r, space, a, size, missing) for a in address.lanes]
            return per_lane([lanes_of(v)[i] for i, v in enumerate(each)])
        if space == "generic":
            window, address = address >> WINDOW, address & (1 << WINDOW) - 1
            space = {1: "shared", LOCAL_WINDOW: "local", PARAM_WINDOW: "param", 0: "global"}.get(window, "")
        match space:
            case "shared":
                return self._contents(r, address).load(address & (1 << RANK) - 1, size, missing)
            case "local":  # what is not aligned is undefined
                return missing if address % size else r[LOCAL].load(address, size, missing)
            case "param":
                return self.tables.parameter_at(address, size, missing)
        return missing

    def _word(self, r: list[Any], space: str, address: int, size: int, missing: Unknown) -> Value:
        """A word that lies in shared memory and may be any. Who reads it first names it for all others:
        without a race they read the same until it is written again."""
        inside = space == "shared" or (space == "generic" and address >> WINDOW == 1)
        if not inside:
            return missing
        address &= (1 << WINDOW) - 1
        found = self._any(8 * size)
        self._contents(r, address).store(address & (1 << RANK) - 1, size, found)
        return found

    def _any(self, bits: int, most: int | None = None) -> SymbolicWord:
        """Any word of a width, up to ``most``."""
        assert self.tables.space is not None
        found = self.tables.space.symbol("data", 0, (1 << bits) - 1 if most is None else most)
        return SymbolicWord(found, bits)

    def arrived(self, r: list[Any], number: Value) -> None:
        """The class comes to a barrier whose value steers."""
        if self.tables.any_data and number.__class__ in INTS and r[SHARED] is not None:
            self._contents(r, self.cta << RANK).arrived(number, (self.warp, self.mask))

    def reduced(self, r: list[Any], number: Value, how: str, missing: Unknown) -> Value:
        """What ``bar.red`` brings: one word for all who met there, a number of threads or a bit."""
        if not self.tables.any_data or number.__class__ not in INTS or r[SHARED] is None:
            return missing
        most = self.tables.threads if how == "popc" else 1
        contents = self._contents(r, self.cta << RANK)
        return contents.brought(number, (self.warp, self.mask), lambda: self._any(32, most))

    def any_answer(
        self, r: list[Any], names: Iterable[str], site: int, *, each_time: bool
    ) -> SymbolicWord | int | None:
        """Any answer to what all lanes of a warp are known to decide alike; None where they are not.

        What all threads of a block decide alike has one answer for all, if all are asked ``each_time``.
        Behind locks the run says which.
        """
        if each_time and self.tables.has_locks and (behind := self._behind_locks(site)) is not None:
            return behind
        if self.tables.any_data and each_time and r[SHARED] is not None and self.tables.decided_alike(site):
            contents = self._contents(r, self.cta << RANK)
            who, threads = (self.warp, self.mask), self.tables.threads
            found: SymbolicWord | None = contents.answered(site, who, threads, lambda: self._any(1))
            return found
        alone = not self.mask & (self.mask - 1)
        agree_ = alone or not self.tables.spread(names, site) & LANES
        return self._any(1) if self.tables.any_data and agree_ else None

    def _behind_locks(self, site: int) -> int | None:
        """Which way a block goes that takes locks, once: all its threads, or the one that decides."""
        locks, block = self.tables.locks, self.first + self.cta
        if self.tables.decided_once(site):
            return locks.answer(site, block)
        if len(self.lanes) == 1 and self.tables.comes_once(site):
            return locks.answer(site, block, (self.warp, self.lanes[0]))
        return None

    def store(self, r: list[Any], space: str, address: Value, size: int, value: Value, active: Value) -> None:
        if active.__class__ in INTS and not active:
            return
        if space == "generic" and address.__class__ in INTS:
            window, address = address >> WINDOW, address & (1 << WINDOW) - 1
            space = {1: "shared", LOCAL_WINDOW: "local"}.get(window, "")
        if space == "generic" and address.__class__ is PerLane:
            windows = {a >> WINDOW if a.__class__ in INTS else None for a in address.lanes}
            if windows == {LOCAL_WINDOW}:
                space, address = "local", per_lane([a & (1 << WINDOW) - 1 for a in address.lanes])
            elif not windows.isdisjoint({LOCAL_WINDOW, None}):
                r[LOCAL] = Bytes()
        if isinstance(address, Unknown | SymbolicWord) or isinstance(active, Unknown):
            if space in ("local", "generic"):  # somewhere: nothing is known any more
                r[LOCAL] = Bytes()
            return
        if space == "local":
            self._store_local(r, address, size, value, active)
        elif space.startswith("shared") or space == "generic":
            addresses, values, on = lanes_of(address), lanes_of(value), lanes_of(active)
            if address.__class__ in INTS and active.__class__ in INTS:
                v = value.on(self.mask) if value.__class__ is PerLane else value
                if v.__class__ is PerLane:
                    v = Unknown("lanes that store different values")
                self._contents(r, address).store(address & (1 << RANK) - 1, size, v)
                return
            for i in self.lanes:
                if on[i].__class__ in INTS and on[i] and addresses[i].__class__ in INTS:
                    a = addresses[i] & (1 << WINDOW) - 1
                    self._contents(r, a).store(a & (1 << RANK) - 1, size, values[i])

    def _store_local(self, r: list[Any], address: Value, size: int, value: Value, active: Value) -> None:
        memory: Bytes = r[LOCAL]
        if address.__class__ in INTS and active.__class__ in INTS:
            memory.store(address, size, value)
            return
        addresses, values, on = lanes_of(address), lanes_of(value), lanes_of(active)
        missing = Unknown("local memory never written")
        for i in range(WARP):
            if addresses[i].__class__ not in INTS or on[i].__class__ not in INTS:
                r[LOCAL] = Bytes()
                return
            if on[i]:
                old = list(lanes_of(memory.load(addresses[i], size, missing)))
                old[i] = values[i]
                memory.store(addresses[i], size, per_lane(old))

    def _contents(self, r: list[Any], address: int) -> Bytes:
        rank = self.first + (address >> RANK & 0xFF)
        contents: SharedContents | None = r[SHARED]
        if contents is None or rank >= len(contents.of):
            return Bytes()
        return contents.of[rank]


def _room(slot: Slot, array: tuple[int, int, str], size: int, why: str) -> None:
    """Raises Opaque where slots leave their array, though it has room for as many, or no data decides it."""
    places, (start, end, name) = slot.places, array
    inside = start <= places.low and places.high + size <= end
    if inside or not (slot.all_come or places.high + size - places.low <= end - start):
        return
    reached = f"{places.low}..{places.high + size - 1}, by {places.step}, of {name}, {start}..{end - 1}"
    raise Opaque(Reason(f"slots place this access at bytes {reached}: {why}", parts=(why,)))


def _all_or_none(value: PerLane, missing: Unknown) -> Value:
    """What lanes load from several places: words without a number count where each lane has one."""
    words = any(isinstance(v, SymbolicWord) for v in value.lanes)
    return missing if words and any(isinstance(v, Unknown) for v in value.lanes) else value


def _pointed(why: str) -> str:
    """The same where what is asked for is a pointer."""
    return re.sub(r"\[\{[ui]64 = N, ", '[{ptr = "A", ', why.replace(" = N under", ' = {ptr = "A"} under'))


def _sized(value: Value, lanes: Sequence[int]) -> bool:
    """Whether all lanes hold numbers, or sizes without one."""
    return all(isinstance(v, int | SymbolicWord) for v in (lanes_of(value)[i] for i in lanes))


__all__ = ["ClassContext"]
