"""Agents: a class of lanes that runs compiled code, and what its instructions see of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from syncverify.base.reason import Cause, Reason, has, reason_of
from syncverify.frontends.ptx.analysis.slicing.iteration_havoc import TURN
from syncverify.frontends.ptx.compile.lockstep_memo import StepMemo
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.compile.state import (
    CLASS,
    CONTEXT,
    ENDED,
    LOCAL,
    MASK,
    PARTED,
    PASSED,
    PC,
    QUEUE,
    QUEUED,
    SHARED,
    SIZED,
    START,
    Disagreement,
    agreed,
)
from syncverify.frontends.ptx.decode.effects import Beyond, Opaque
from syncverify.frontends.ptx.decode.memory import Bytes, SharedContents, StatedContents
from syncverify.frontends.ptx.exec.context import ClassContext
from syncverify.frontends.ptx.exec.register_rows import exposed, lanes_apart, restored, stay_apart
from syncverify.frontends.ptx.values.length_choices import CHOICES
from syncverify.frontends.ptx.values.register_values import INTS, PerLane, Unknown
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.model.events import LANES_APART, Ev, Event, LaneSplit, Undefined
from syncverify.symbolic.context import AffineTerm, NeedsDecision, NotConcrete
from syncverify.symbolic.loop_havoc import ITERATION
from syncverify.symbolic.protocol import SymbolicAgent, Teller

#: Steps without an event after which an agent gives up.
MAX_JUMPS = 2_000_000
#: Slots from here on are places in memories: which memory, address, size.
_KEPT = 1 << 60
#: Words that nobody names are taken not to be 0 where something is divided by them.
BY_WORD = "what decides was divided by 0"
SIZED_JUMPS = 20_000  # where a size has no number, and a loop need not end


class PtxAgent(SymbolicAgent):
    """One class of lanes: slots and a program counter; see ``model.events.Agent``."""

    __slots__ = ("blocks", "cls", "program", "progress", "r", "sized")

    def __init__(self, cls: int, program: Program, r: list[Any], sized: bool = False) -> None:
        self.sized = sized  # some registers hold sizes without a number
        self.progress = 0  # blocks run while they do
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
            return self._astray(e.reason) if e.unwritten and e.address else self._stop(e.reason)
        return self._stop(f"no event within {MAX_JUMPS} steps")

    @staticmethod
    def lockstep_memo() -> StepMemo:
        """What agents of one class that hold the same but for a place in a ring note of a step."""
        return StepMemo()

    def step_in_lockstep(self, answer: int, memo: StepMemo) -> Event:
        """The same among agents of its class that hold the same but for a place in a ring.

        ``memo``: what code did to the registers of some of them, on the same path.
        """
        alone = not self.sized or self.r[SHARED] is not None or bool(self.r[LOCAL].cells)
        return self.step(answer) if alone else self._sized_step(answer, memo)

    def _sized_step(self, answer: int, steps: StepMemo | None = None) -> Event:
        """The same where sizes have no number; an open question leaves the agent where it asked."""
        r, blocks, saved = self.r, self.blocks, self.program.saved
        event: Event | None
        try:
            for _ in range(SIZED_JUMPS):
                label = r[PC]
                some = saved.get(label)
                before = r[:] if some is None else some[1](r)
                try:
                    parts = () if steps is None else self.program.lockstep.at(label)
                    if steps is None or not parts:
                        event = blocks[label](r, answer)
                    else:
                        for part in parts:
                            event = steps.run(part, r, answer)
                except NeedsDecision:
                    for slot, value in zip(range(len(r)) if some is None else some[0], before, strict=True):
                        r[slot] = value
                    raise
                except NotConcrete as e:
                    raise NotConcrete(self._located(_asking(reason_of(e)))) from None
                self.progress += 1
                if event is not None:
                    if event[0] == Ev.EXIT and r[SHARED] is not None:
                        r[SHARED].ended.add(self.cls)
                    return event
                answer = 0
        except Disagreement as d:
            raise LaneSplit(self.cls, d.masks) from None
        except Opaque as e:
            by_zero = self.program.words and has(e.reason, Cause.ZERO_DIVISOR)
            return self._stop(BY_WORD if by_zero else e.reason)
        return self._stop(f"no event within {SIZED_JUMPS} steps")

    def move(self, answer: int = 0) -> Event | None:
        """One stretch of code, where sizes may have no number: an event, or None where it only jumps."""
        r, label = self.r, self.r[PC]
        some = self.program.saved.get(label)
        before = r[:] if some is None else some[1](r)
        try:
            return self.blocks[label](r, answer)
        except NeedsDecision:
            for slot, value in zip(range(len(r)) if some is None else some[0], before, strict=True):
                r[slot] = value
            raise
        except NotConcrete as e:
            raise NotConcrete(self._located(_asking(reason_of(e)))) from None
        except Disagreement as d:
            raise LaneSplit(self.cls, d.masks) from None
        except Opaque as e:
            by_zero = self.program.words and has(e.reason, Cause.ZERO_DIVISOR)
            return self._stop(BY_WORD if by_zero else e.reason)

    @property
    def shares(self) -> bool:
        """Whether it sees numbers that other agents have stored in shared memory."""
        return self.r[SHARED] is not None

    def hear(self, teller: Teller) -> None:
        """From here on ``teller`` says what lies in shared memory."""
        if self.r[SHARED] is not None:
            self.r[SHARED] = StatedContents(len(self.r[SHARED].of), teller)

    @property
    def input_registers(self) -> frozenset[int]:
        """Where sizes are kept until they are used."""
        found = self.program.symbols.items()
        return frozenset(
            s for name, s in found if name.startswith(SIZED) and isinstance(self.r[s], int | SymbolicWord)
        )

    @property
    def iteration_counters(self) -> frozenset[int]:
        """What counts turns."""
        return frozenset({self.program.slots[TURN]} if TURN in self.program.slots else ())

    @property
    def boolean_registers(self) -> frozenset[int]:
        """Predicates of blocks in block groups: what they were determined by may have changed since."""
        return frozenset(s for s in self.program.predicates if self.r[s].__class__ in INTS)

    @property
    def loop_invariant_registers(self) -> frozenset[int]:
        """Registers of blocks in block groups that no loop changes: they say who shares what with whom."""
        return self.program.steady

    @property
    def may_take_another_iteration(self) -> bool:
        """Whether it asks for a turn of its own where iterations are distributed round-robin."""
        return self.r[PC] in self.program.hesitant

    def iterations(self) -> dict[str, Any]:
        """The next turn of a loop whose turns take sizes again."""
        if not self.program.again(self._pc()):
            return {}
        iteration = self.r[self.program.slots[TURN]]
        now = iteration.term if isinstance(iteration, SymbolicWord) else iteration
        return {ITERATION: now, CHOICES: now} if self.program.lengths.chosen else {ITERATION: now}

    def _located(self, reason: str) -> str:
        """A reason with the line where the agent stands."""
        label = self.r[PC]
        if label < START:
            return reason
        line = self.program.body[(label - START) // 8].line
        if f"line {line}" in reason:
            return reason
        return Reason(f"{reason} (line {line})", parts=(reason,))

    def _stop(self, reason: str) -> Event:
        label = self.r[PC]
        site = self.program.site((label - START) // 8) if START <= label else 0
        where = self._located(reason)
        if isinstance(reason, Beyond):
            where = Beyond(where)
        event = (Ev.UNKNOWN, site, Undefined(where) if reason == BY_WORD else where)
        self.r[PC], self.r[QUEUE] = QUEUED, (QUEUED, event)
        return event

    def _astray(self, reason: str) -> Event:
        """An access at an address that nobody has made: it lies anywhere. The agent ends there."""
        label = self.r[PC]
        site = self.program.site((label - START) // 8) if START <= label else 0
        self.r[PC], self.r[QUEUE] = ENDED, ()
        return Ev.FAULT, site, "SV114", f"{reason}: it may lie anywhere"

    def narrowed(self, cls: int, class_id: int, context: ClassContext) -> PtxAgent:
        """A copy at the same point that represents some of the lanes only."""
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
        new.progress = self.progress
        return new

    def _pc(self) -> int:
        r = self.r
        return r[PC] if r[PC] != QUEUED or not r[QUEUE] else r[QUEUE][0]  # type: ignore[no-any-return]

    def point(self) -> tuple[Any, ...]:
        """Program counter and queued events; where sizes have no number, also what is kept of memories."""
        r = self.r
        if not self.sized:
            return (r[PC], r[QUEUE])
        return (r[PC], r[QUEUE], r[PARTED], r[PASSED], tuple([m.shape() for m in self._memories()]))

    def place(self) -> int:
        """The program counter."""
        return self.r[PC]  # type: ignore[no-any-return]

    def _shown(self) -> list[Bytes]:
        """The memories whose numbers are among this agent's registers: one agent shows what all share."""
        shared: SharedContents | None = self.r[SHARED]
        return self._memories() if shared is None or shared.first() == self.cls else [self.r[LOCAL]]

    def _memories(self) -> list[Bytes]:
        shared: SharedContents | None = self.r[SHARED]
        return [self.r[LOCAL]] if shared is None else [self.r[LOCAL], *shared.of]

    def live(self) -> dict[Any, Any]:
        """The slots that may be read before they are written, and numbers in memories."""
        r, pc = self.r, self._pc()
        found: dict[Any, Any] = {}
        for slot, bits, half in self.program.shown_at(pc):
            value = r[slot]
            apart = lanes_apart(value) if value.__class__ is PerLane else None
            if apart is not None:
                found[slot], found[LANES_APART, slot] = value.lanes[0].term, apart
                continue
            found[slot] = (value ^ half) - half if value.__class__ is int else exposed(value, bits)
        if self.program.sized:
            for slot, kept in self.program.stale.get(pc, ()):
                if r[kept].__class__ is not Unknown:
                    found.pop(slot, None)  # the turn that begins writes it
        for i, memory in enumerate(self._shown() if self.sized else ()):
            for a, n, value in memory.numbers():
                found[_KEPT | i << 48 | a << 8 | n] = exposed(value, 8 * n)
        return found

    def name(self, slot: Any) -> Any:
        """What a slot is called in every program of the function: by its register, if it holds one."""
        if slot.__class__ is tuple:
            return (slot[0], self.program.names.get(slot[1], slot[1]))
        return self.program.names.get(slot, slot)

    def put(self, slot: Any, value: Any) -> None:
        """Replaces a slot."""
        if slot.__class__ is tuple:
            of, bits = slot[1], self.program.bits.get(slot[1], 64)
            if not stay_apart(self.r[of], value, bits):  # no state may represent others there
                raise NotConcrete("how far lanes are apart changes")
            return
        if slot >= _KEPT:
            size = slot & 0xFF
            cells = self._memories()[slot >> 48 & 0xFF].cells
            cells[slot >> 8 & (1 << 40) - 1] = (size, restored(value, 8 * size))
            return
        bits, old = self.program.bits.get(slot, 64), self.r[slot]
        apart = lanes_apart(old) if old.__class__ is PerLane and value.__class__ is not tuple else None
        if apart is not None:
            value = tuple([value + by for by in apart])
        self.r[slot] = restored(value, bits)

    def snapshot(self) -> Hashable:
        """Program counter, queue, every slot and what is kept of memories."""
        r = self.r
        return (self.cls, r[PC], r[QUEUE], r[PARTED], *map(_frozen, r[MASK:]), *map(_cells, self._memories()))

    def normalize(self) -> Hashable:
        """The snapshot without slots that are written before they are read."""
        r = self.r
        kept = self.program.live_at(self._pc())
        where = (self.cls, r[PC], r[QUEUE], r[PARTED], r[PASSED])
        return (*where, *[_frozen(r[s]) for s in kept], *map(_cells, self._memories()))


def _asking(reason: str) -> str:
    """A reason that asks for a number, with how to give it."""
    if not has(reason, Cause.NEEDS_NUMBER):
        return reason
    what = "grid" if has(reason, Cause.BLOCK_PLACE) else "one, by --param NAME=VALUE for example"
    return Reason(f"{reason}: give {what}", parts=(reason,))


def _frozen(value: Any) -> Hashable:
    """Equal for values that are the same; sums over sizes are one object each, what holds them is not."""
    if value.__class__ is SymbolicWord and isinstance(value.term, AffineTerm):
        return ("size", id(value.term), value.bits, value.kind)
    return value if value.__class__ in INTS else ("", id(value))


def _cells(memory: Bytes) -> Hashable:
    return frozenset((a, n, _frozen(v)) for a, (n, v) in memory.cells.items()) if memory.cells else 0


__all__ = ["ENDED", "ClassContext", "PtxAgent", "agreed"]
