"""Agents: a class of lanes that runs compiled code, and what its instructions see of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from syncverify.frontends.ptx.compile import Program
from syncverify.frontends.ptx.compile_state import (
    CLASS,
    CONTEXT,
    ENDED,
    LOCAL,
    MASK,
    PARTED,
    PC,
    QUEUE,
    QUEUED,
    SHARED,
    SIZED,
    START,
    Disagreement,
    agreed,
)
from syncverify.frontends.ptx.effects import MapFacts, Opaque, Value
from syncverify.frontends.ptx.global_access import box_footprint, global_footprint, signed
from syncverify.frontends.ptx.memory import LOCAL_WINDOW, PARAM_WINDOW, Bytes, SharedContents
from syncverify.frontends.ptx.sized import Size, exposed, restored
from syncverify.frontends.ptx.tables import Tables
from syncverify.frontends.ptx.tickets import Wanted
from syncverify.frontends.ptx.turns import TURN
from syncverify.frontends.ptx.types import RANK, WINDOW
from syncverify.frontends.ptx.values import INTS, UNWRITTEN, WARP, Unknown, Vec, lanes_of, vec
from syncverify.model.events import Ev, Event, Footprint, LaneSplit
from syncverify.model.terms import AGAIN, Interrupted, Symbolic, Term

#: Steps without an event after which an agent gives up.
MAX_JUMPS = 2_000_000
#: Slots from here on are places in memories: which memory, address, size.
_KEPT = 1 << 60
SIZED_JUMPS = 20_000  # where a size has no number, and a loop need not end


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
        self.shared_end = tables.shared_end
        self.footprints: Sequence[Footprint] = tables.footprint_table
        self._parts: dict[int, ClassContext] = {}

    # ------------------------------------------------------------ effects.Context

    def number(self, value: Value, what: str) -> int:
        if value.__class__ in INTS:
            return value  # type: ignore[no-any-return]
        if value.__class__ is Vec:
            value = value.on(self.mask)
            if value.__class__ is Vec:
                missing = value.unknown(self.mask)
                if missing is None:
                    raise Disagreement(tuple(value.parts(self.mask).values()))
                value = missing
        if isinstance(value, Unknown):
            answer = self.answer(value)
            if answer is None:
                raise Opaque(f"{what} depends on {value.why}", value.source == UNWRITTEN)
            return answer
        return value.number() if isinstance(value, Size) else value

    def each(self, value: Value, what: str) -> tuple[int, ...]:
        if value.__class__ in INTS:
            return (value,) * len(self.lanes)
        if value.__class__ is Vec:
            found = tuple([value.lanes[i] for i in self.lanes])
            if any(isinstance(v, Size) for v in found):
                found = tuple([v.number() if isinstance(v, Size) else v for v in found])
            for v in found:
                if v.__class__ not in INTS:
                    return (self.number(v, what),) * len(found)
            return found
        return (self.number(value, what),) * len(self.lanes)

    def shared(self, address: int, space: str, what: str) -> tuple[int, int]:
        if space == "generic":
            if address >> WINDOW != 1:
                raise Opaque(f"{what} lies outside shared memory")
            address &= (1 << WINDOW) - 1
        address &= 0xFFFFFFFF
        return address >> RANK, address & (1 << RANK) - 1

    def barrier(self, cta: int, offset: int) -> int:
        return self.tables.barrier(self.first + cta, offset)

    def anywhere(self, site: int, address: Value, why: str, bits: int) -> None:
        t = self.tables
        values = [address] if isinstance(address, Unknown) else list(lanes_of(address))
        data = all(v.source == "data" for v in values if isinstance(v, Unknown))
        t.widths.add(bits)
        if not data or t.certain or self.ctas > 1 or len(t.widths) > 1:
            raise Opaque(why)
        t.perhaps.setdefault(site, why)
        t.loose.add(site)

    def footprint(self, fp: Footprint) -> int:
        if self.first and fp.memory >= 0:
            fp = replace(fp, memory=self.first + fp.memory)
        return self.tables.footprints.add(fp)

    def take_alike(self, site: int) -> None:
        self.tables.alike.add(site)

    def global_bytes(self, value: Value, size: int) -> int:
        if not self.tables.tracks:
            return -1
        addresses = self.addresses(value)
        if addresses is None:
            return -1
        return self.tables.footprints.add(global_footprint(addresses, size, self.lanes))

    def lock(self, address: int, free: bool) -> int:
        holder = (self.first + self.cta, self.warp, self.lanes[0])
        return self.tables.locks.place(address, holder, free)

    def addresses(self, value: Value) -> tuple[int, ...] | None:
        what = "the address of an access to global memory"
        try:
            return self.each(value, what)
        except Opaque as e:
            if self.tables.together or "%ctaid." in str(e) or "%clusterid." in str(e):
                raise
            self.tables.unplaced.append(str(e))
            return None

    def global_box(self, tensor_map: Value, coords: Sequence[Value], writes: bool = False) -> int:
        if not self.tables.tracks or self.tables.edits_maps:
            return -1
        number, facts = self.tables.map_at(self._one(tensor_map, "the address of a tensor map"))
        if facts.box is None or facts.element is None or len(facts.box) != len(coords):
            at = None
        else:
            at = self._coordinates(coords)
        if writes:
            self.tables.written_maps.setdefault(number, number)
        elif at is None:
            self.tables.loose_maps.add(number)
        if number in self.tables.written_maps and (at is None or number in self.tables.loose_maps):
            raise Opaque(f"the boxes of tensor map {facts.name}, through which the kernel hands data over, "
                         "are not known")  # fmt: skip
        if at is None or facts.box is None or facts.element is None:
            return -1
        return self.tables.footprints.add(box_footprint(number, facts.box, facts.element, at))

    def _coordinates(self, coords: Sequence[Value]) -> list[int] | None:
        try:
            return [signed(self.number(c, "a coordinate"), 32) for c in coords]
        except Opaque:
            return None

    def read_handle(self) -> int:
        return -1  # the caller puts it in

    def tensor_map(self, value: Value) -> MapFacts:
        return self.tables.map_at(self._one(value, "the address of a tensor map"))[1]

    def define_map(self, value: Value, facts: MapFacts) -> None:
        self.tables.define_map(self._one(value, "the address of a tensor map"), facts)

    def map_index(self, value: Value) -> int:
        return self.tables.map_at(self._one(value, "the address of a tensor map"))[0]

    def fragment(self, name: str) -> int:
        return self.tables.fragment(name)

    # ------------------------------------------------------------ for compiled code

    def _one(self, value: Value, what: str) -> Any:
        return value if isinstance(value, Unknown | Size) else self.number(value, what)

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

    def take(self, lane: int, n: int, address: Value, one: Value, last: Value, missing: Unknown) -> Unknown:
        """What a lane's take number ``n`` from a counter brings."""
        tickets = self.tables.tickets
        if tickets is None:
            return missing
        first = None if address.__class__ not in INTS else self.tables.memory(address, 4)
        if first.__class__ is int and one == 1 and last.__class__ in INTS:
            agent = (self.cta, self.warp, lane)
            return tickets.take(address, agent, n, first, last & 0xFFFFFFFF, missing.why)
        tickets.lose(missing.why)
        why = f"{missing.why.split(': give ')[0]}: {first}" if isinstance(first, str) else missing.why
        return Wanted(why)

    def part(self, active: Value) -> ClassContext | None:
        """The lanes of the class for which a guard holds."""
        if isinstance(active, Unknown):
            answer = self.answer(active)
            if answer is None:
                raise Opaque(f"a guard depends on {active.why}")
            return self if answer else None
        mask = 0
        for i in self.lanes:
            v = active.lanes[i]
            if isinstance(v, Unknown):
                raise Opaque(f"a guard depends on {v.why}")
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
        return found

    def elect(self, mask: Value, elected: int) -> tuple[int, Value]:
        """The lane that ``elect.sync`` chooses among ``mask``, and the predicate."""
        m = mask if mask.__class__ in INTS else 0xFFFFFFFF
        m = m & self.warp_lanes or self.warp_lanes
        if elected >= WARP:
            return 0, 0  # nobody
        lane = elected if m >> elected & 1 else (m & -m).bit_length() - 1
        return lane, vec([int(i == lane) for i in range(WARP)])

    def load(self, r: list[Any], space: str, address: Value, size: int, missing: Unknown) -> Value:
        if isinstance(address, Unknown):
            return missing
        if address.__class__ is Vec:
            each = [self.load(r, space, a, size, missing) for a in address.lanes]
            return vec([lanes_of(v)[i] for i, v in enumerate(each)])
        if space == "generic":
            window, address = address >> WINDOW, address & (1 << WINDOW) - 1
            space = {1: "shared", LOCAL_WINDOW: "local", PARAM_WINDOW: "param", 0: "global"}.get(window, "")
        match space:
            case "shared":
                return self._contents(r, address).load(address & (1 << RANK) - 1, size, missing)
            case "local":
                return r[LOCAL].load(address, size, missing)
            case "param":
                return self.tables.parameter_bytes(address, size, missing)
            case "global" | "const":
                return self.tables.constant_bytes(address, size, missing)
        return missing

    def store(self, r: list[Any], space: str, address: Value, size: int, value: Value, active: Value) -> None:
        if active.__class__ in INTS and not active:
            return
        if space == "generic" and address.__class__ in INTS:
            window, address = address >> WINDOW, address & (1 << WINDOW) - 1
            space = {1: "shared", LOCAL_WINDOW: "local"}.get(window, "")
        if space == "generic" and address.__class__ is Vec:
            windows = {a >> WINDOW if a.__class__ in INTS else None for a in address.lanes}
            if windows == {LOCAL_WINDOW}:
                space, address = "local", vec([a & (1 << WINDOW) - 1 for a in address.lanes])
            elif not windows.isdisjoint({LOCAL_WINDOW, None}):
                r[LOCAL] = Bytes()
        if isinstance(address, Unknown | Size) or isinstance(active, Unknown):
            if space in ("local", "generic"):  # somewhere: nothing is known any more
                r[LOCAL] = Bytes()
            return
        if space == "local":
            self._store_local(r, address, size, value, active)
        elif space.startswith("shared") or space == "generic":
            addresses, values, on = lanes_of(address), lanes_of(value), lanes_of(active)
            if address.__class__ in INTS and active.__class__ in INTS:
                v = value.on(self.mask) if value.__class__ is Vec else value
                if v.__class__ is Vec:
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
                memory.store(addresses[i], size, vec(old))

    def _contents(self, r: list[Any], address: int) -> Bytes:
        rank = self.first + (address >> RANK & 0xFF)
        contents: SharedContents | None = r[SHARED]
        if contents is None or rank >= len(contents.of):
            return Bytes()
        return contents.of[rank]


class PtxAgent:
    """One class of lanes: slots and a program counter; see ``model.events.Agent``."""

    __slots__ = ("blocks", "cls", "program", "r", "sized", "ticks")

    def __init__(self, cls: int, program: Program, r: list[Any], sized: bool = False) -> None:
        self.sized = sized  # some registers hold sizes without a number
        self.ticks = 0  # blocks run while they do
        self.cls = cls
        self.program = program
        self.blocks: dict[int, Callable[[list[Any], Any], Event | None]] = program.blocks
        self.r = r

    def step(self, answer: int = 0) -> Event:
        """Runs to the next event. Raises LaneSplit."""
        if self.sized:
            return self._sized_step(answer)
        r = self.r
        blocks = self.blocks
        try:
            event = blocks[r[0]](r, answer)
            if event is not None:
                return event
            for _ in range(MAX_JUMPS):
                event = blocks[r[0]](r, 0)
                if event is not None:
                    return event
        except Disagreement as d:
            raise LaneSplit(self.cls, d.masks) from None
        except Opaque as e:
            return self._stop(str(e))
        return self._stop(f"no event within {MAX_JUMPS} steps")

    def _sized_step(self, answer: int) -> Event:
        """The same where sizes have no number; an open question leaves the agent where it asked."""
        r = self.r
        event: Event | None
        try:
            for _ in range(SIZED_JUMPS):
                before = r[:]
                try:
                    event = self.blocks[r[PC]](r, answer)
                except Interrupted:
                    r[:] = before
                    raise
                except Symbolic as e:
                    raise Symbolic(self._located(str(e))) from None
                self.ticks += 1
                if event is not None:
                    if event[0] == Ev.EXIT and r[SHARED] is not None:
                        r[SHARED].ended.add(self.cls)
                    return event
                answer = 0
        except Disagreement as d:
            raise LaneSplit(self.cls, d.masks) from None
        except Opaque as e:
            return self._stop(str(e))
        return self._stop(f"no event within {SIZED_JUMPS} steps")

    @property
    def size_slots(self) -> frozenset[int]:
        """Where sizes are kept until they are used."""
        found = self.program.symbols.items()
        return frozenset(
            s for name, s in found if name.startswith(SIZED) and isinstance(self.r[s], int | Size)
        )

    def turns(self) -> dict[str, Any]:
        """The next turn of a loop whose turns take sizes anew."""
        if not self.program.again(self._pc()):
            return {}
        turn = self.r[self.program.slots[TURN]]
        return {AGAIN: turn.term if isinstance(turn, Size) else turn}

    def _located(self, reason: str) -> str:
        """A reason with the line where the agent stands."""
        label = self.r[PC]
        if label < START:
            return reason
        line = self.program.body[(label - START) // 8].line
        return reason if f"line {line}" in reason else f"{reason} (line {line})"

    def _stop(self, reason: str) -> Event:
        label = self.r[PC]
        site = self.program.site((label - START) // 8) if START <= label else 0
        reason = self._located(reason)
        event = (Ev.UNKNOWN, site, reason)
        self.r[PC], self.r[QUEUE] = QUEUED, (QUEUED, event)
        return event

    def narrowed(self, cls: int, class_id: int, context: ClassContext) -> PtxAgent:
        """A copy at the same point that stands for some of the lanes only."""
        agent = self.fork()
        agent.cls = cls
        agent.r[CLASS], agent.r[CONTEXT], agent.r[MASK] = class_id, context, context.mask
        return agent

    def fork(self) -> PtxAgent:
        """An independent copy at the same point; what it stores, the others do not see."""
        r = self.r[:]
        if r[LOCAL].cells:
            r[LOCAL] = r[LOCAL].copy()
        if r[SHARED] is not None:
            r[SHARED] = r[SHARED].copy()
        new = PtxAgent(self.cls, self.program, r, self.sized)
        new.ticks = self.ticks
        return new

    def _pc(self) -> int:
        r = self.r
        return r[PC] if r[PC] != QUEUED or not r[QUEUE] else r[QUEUE][0]  # type: ignore[no-any-return]

    def point(self) -> tuple[Any, ...]:
        """Program counter and queued events; where sizes have no number, also what is kept of memories."""
        r = self.r
        if not self.sized:
            return (r[PC], r[QUEUE])
        return (r[PC], r[QUEUE], r[PARTED], tuple([m.shape() for m in self._memories()]))

    def _shown(self) -> list[Bytes]:
        """The memories whose numbers are among this agent's registers: one agent shows what all share."""
        shared: SharedContents | None = self.r[SHARED]
        return self._memories() if shared is None or shared.first() == self.cls else [self.r[LOCAL]]

    def _memories(self) -> list[Bytes]:
        shared: SharedContents | None = self.r[SHARED]
        return [self.r[LOCAL]] if shared is None else [self.r[LOCAL], *shared.of]

    def live(self) -> dict[int, Any]:
        """The slots that may be read before they are written, and numbers in memories."""
        bits, pc = self.program.bits, self._pc()
        found = {s: exposed(self.r[s], bits.get(s, 64)) for s in self.program.live_at(pc)}
        if self.program.sized:
            for slot, kept in self.program.stale.get(pc, ()):
                if self.r[kept].__class__ is not Unknown:
                    found.pop(slot, None)  # the turn that begins writes it
        for i, memory in enumerate(self._shown() if self.sized else ()):
            for a, n, value in memory.numbers():
                found[_KEPT | i << 48 | a << 8 | n] = exposed(value, 8 * n)
        return found

    def put(self, slot: int, value: Any) -> None:
        """Replaces a slot."""
        if slot >= _KEPT:
            size = slot & 0xFF
            cells = self._memories()[slot >> 48 & 0xFF].cells
            cells[slot >> 8 & (1 << 40) - 1] = (size, restored(value, 8 * size))
            return
        self.r[slot] = restored(value, self.program.bits.get(slot, 64))

    def snapshot(self) -> Hashable:
        """Program counter, queue, every slot and what is kept of memories."""
        r = self.r
        return (self.cls, r[PC], r[QUEUE], r[PARTED], *map(_frozen, r[MASK:]), *map(_cells, self._memories()))

    def normalize(self) -> Hashable:
        """The snapshot without slots that are written before they are read."""
        r = self.r
        kept = self.program.live_at(self._pc())
        where = (self.cls, r[PC], r[QUEUE], r[PARTED])
        return (*where, *[_frozen(r[s]) for s in kept], *map(_cells, self._memories()))


def _frozen(value: Any) -> Hashable:
    """Equal for values that are the same; sums over sizes are one object each, what holds them is not."""
    if value.__class__ is Size and isinstance(value.term, Term):
        return ("size", id(value.term), value.bits, value.kind)
    return value if value.__class__ in INTS else ("", id(value))


def _cells(memory: Bytes) -> Hashable:
    return frozenset((a, n, _frozen(v)) for a, (n, v) in memory.cells.items()) if memory.cells else 0


__all__ = ["ENDED", "ClassContext", "PtxAgent", "agreed"]
