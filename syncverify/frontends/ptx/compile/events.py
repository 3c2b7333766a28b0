"""Instructions with events as Python text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from syncverify.base.reason import Cause, Reason, caused
from syncverify.frontends.ptx.analysis.blocks.block_groups import BLOCK_GROUP, MEMBER, address_only, sized
from syncverify.frontends.ptx.analysis.exclusion.locks import found_at_lock, number_of_ticket
from syncverify.frontends.ptx.analysis.warps.collectives import at_branch
from syncverify.frontends.ptx.analysis.warps.run_past import BARRIERS
from syncverify.frontends.ptx.compile.loads import Values
from syncverify.frontends.ptx.compile.runtime import (
    arrived,
    counted_on,
    elected,
    hand,
    keep,
    overwritten,
    reduced,
    without_token,
)
from syncverify.frontends.ptx.compile.state import (
    AFTER,
    CONTEXT,
    DECIDE,
    EVENT,
    PASSED,
    SETTLED,
    Decoded,
    Registers,
)
from syncverify.frontends.ptx.decode.effects import Context, Effect, Unsupported
from syncverify.frontends.ptx.decode.global_access import Stored
from syncverify.frontends.ptx.decode.mbarrier import blocking
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.flow.warp_counts import counts_down
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand, Pair, Reg, Vector
from syncverify.frontends.ptx.syntax.operands import registers, results
from syncverify.frontends.ptx.syntax.types import RANK, width
from syncverify.frontends.ptx.values.register_values import INTS, Unknown, lanes_of
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.model.events import NO_ARRIVAL_NEEDED, Ev, Event, Trap
from syncverify.symbolic.phase_tokens import Token

POLLS = (Ev.POLL, Ev.POLL_TOKEN)
#: A store: its site, the cluster whose thread executes it, and the blocks whose memory it writes.
StoredAt = tuple[int, int, frozenset[int]]
#: What a value that is not known was made of; all threads that make it so in one launch get the same.
_OF_THE_LAUNCH = ("ctaid", "grid", "param")


class Effects(Values):
    """Writes the events of instructions, and what their destinations hold after them."""

    def _effect(self, k: int) -> None:
        i = self.body[k]
        found = self.p.decoded[k]
        label = 8 * k + EVENT
        after = 8 * k + AFTER
        self._goto(label)
        self._text("return None")
        self._open(label)
        site = self._site(self.p.together.first.get(k, k))
        keyed = ["r[2]"]
        if i.guard is not None:
            self._text(f"v = r[{self.p.slot(i.guard.name)}]")
            self._text("if v.__class__ in I:")
            self._text(f"    if {'' if i.negated else 'not '}v:")
            self._text(f"        r[0] = {after if not self._answered(found) else self._skip(k)}")
            self._text("        return None")
            if isinstance(found, Access) and not _hands_on(found):
                self._text("    v = 1")
                self._text("elif v.__class__ is not int: v = v" + (" ^ 1" if i.negated else ""))
            else:
                self._text("else:")
                self._text(f"    v = agreed(r, v, 'the guard at line {i.line}')")
                self._text(f"    if {'' if i.negated else 'not '}v:")
                self._text(f"        r[0] = {after if not self._answered(found) else self._skip(k)}")
                self._text("        return None")
                self._text("v = 1")
        self._note(self.p.run_past.executed(k))
        if isinstance(found, Unsupported):
            reason = caused(Reason(f"{found.reason} (line {i.line})"), Cause.UNSUPPORTED)
            fails = self.flow.block_of[k] in self.flow.failing
            event = (Ev.UNKNOWN, site, Trap(reason) if fails else reason)
            self._text(f"return {self._constant(event)}")
        elif isinstance(found, Access):
            self._access(k, i, found, site, after)
        else:
            keyed += [self._operand(op) for op in found.operands]
            keyed += self._stored_by([self.expr.text(op) for op in self._fragments(k, i)])
            keyed += self._block_group(k)
            if self._is_block_poll(k):
                self._missed_turn(k, i)
            if self._brings(i):
                self.space["A"] = arrived
                self._text(f"A(r, {self._operand(i.operands[1])})")
            self._emit(k, found, site, keyed, after)
        self._open(after)
        self._answer(k, i, found)
        if self._skip_needed(k):
            skip = self._skip(k)
            self._goto(skip)
            self._text("return None")
            self._open(skip)

    def _note(self, after: Sequence[int]) -> None:
        """Notes who goes round a barrier: by the number of the state before, that of the state after."""
        if after:
            self._text(f"r[{PASSED}] = {self._constant(after)}[r[{PASSED}]]")

    def _before(self, k: int) -> Callable[[Context], list[Event]]:
        """The events that registers of instruction ``k`` bring before its own."""
        touches = self.p.touches.get(k)
        if touches is None:
            return lambda ctx: []
        site = self._site(k)
        behind = [(self._site(x.row.at[0]), x) for x in self.p.gathers.get(k, ())]

        def events(ctx: Any) -> list[Event]:
            found: list[Event] = [
                (code, site, ctx.fragment(what) if isinstance(what, str) else what, *more)
                for code, what, *more in touches
            ]
            for at, x in behind:
                found += at_branch(ctx, at, x, self.body[x.row.at[0]])
            return found

        return events

    def _touch(self, k: int) -> None:
        """An instruction that only touches registers."""
        label, after = 8 * k + EVENT, 8 * k + AFTER
        self._goto(label)
        self._text("return None")
        self._open(label)
        touch = self._constant(self._before(k))
        self.space["H"] = hand
        self._text(f"return H(r, {touch}(r[{CONTEXT}]), {after})")
        self._open(after)

    def _answered(self, found: Decoded) -> bool:
        return isinstance(found, Effect)

    def _block_group(self, k: int) -> list[str]:
        """The number of the block group, for an access to what its blocks share."""
        block_groups = self.p.block_groups
        if block_groups is None or k not in block_groups.tracked:
            return []
        return [f"r[{self.p.constant_slot(MEMBER if k in block_groups.each else BLOCK_GROUP)}]"]

    def _skip(self, k: int) -> int:
        return 8 * k + DECIDE

    def _skip_needed(self, k: int) -> bool:
        guarded = self.body[k].guard is not None and self._answered(self.p.decoded[k])
        return guarded or self._is_block_poll(k)

    def _is_block_poll(self, k: int) -> bool:
        return self.p.handing is not None and k in self.p.handing.polls and k in self.p.handing.accesses

    def _missed_turn(self, k: int, i: Instr) -> None:
        """A block's first poll finds another value: its loop is run twice, as its accesses may meet.

        Barriers of the whole block frame each turn, so that more turns, or one, order nothing else.
        """
        turn = self.p.slot(f"%turn{k}")
        self._text(f"if not r[{turn}]:")
        self._text(f"    r[{turn}] = 1")
        for name in results(i):
            self._text(f"    r[{self.p.slot(name)}] = {self._other(k, i)}")
        self._text(f"    r[0] = {self._skip(k)}")
        self._text("    return None")
        self._text(f"r[{turn}] = 0")

    def _other(self, k: int, i: Instr) -> str:
        """What a poll in vain finds."""
        assert self.p.handing is not None
        if k in self.p.handing.locks:
            return self._operand(i.operands[3])
        return f"{self._operand(i.operands[2])} ^ 1"

    def _emit(self, k: int, e: Effect, site: int, keyed: list[str], after: int) -> None:
        memo: dict[Any, Any] = {}
        spin = k in self.p.spins
        handle = self.p.read_handle(k)
        unasked = not (isinstance(e.answer, Reg) and e.answer.name in self.wanted)
        before = self._before(k)

        block_groups, each = (
            bool(self._block_group(k)),
            self.p.block_groups is not None and k in self.p.block_groups.each,
        )
        i, at = self.body[k], 1 + len(e.operands)
        first, values = at + 1, len(self._fragments(k, i))
        if i.op == "stmatrix":
            self._found_store(site, numbers=False)

        def slow(r: Registers, key: tuple[Any, ...]) -> Event | None:
            if block_groups:
                r[CONTEXT].tables.places.note_unit(key[-1], each)
            if values:
                place = (site, key[at], _blocks(key[1]))
                self._stores(place, _stored(i), list(key[first : first + values]), r[CONTEXT].tables.space)
            events = [*before(r[CONTEXT]), *e.emit(r[CONTEXT], site, key[1:at])]
            if handle != NO_ARRIVAL_NEEDED:
                events = [(*x[:3], handle) if x[0] == Ev.READ else x for x in events]
            if spin and events and events[-1][0] in POLLS:
                events[-1] = blocking(events[-1])
            if unasked:
                events = [without_token(x) for x in events]
            found = events[0] if len(events) == 1 and events[0][0] > Ev.UNKNOWN else events
            if not any(map(sized, key)):
                memo[key] = found  # what holds for a size may not hold elsewhere
            return hand(r, found, after)

        self._remembered(memo, slow, keyed, after, True)

    def _remembered(
        self,
        memo: dict[Any, Any],
        slow: Callable[..., Event | None],
        keyed: list[str],
        after: int,
        writes: bool | str,
    ) -> None:
        """The events that are remembered for a key; ``slow`` makes those of a new one. ``writes``: whether
        they write, or the text of what an atomic leaves, asked before and kept after them."""
        m, f = self._constant(memo), self._constant(slow)
        added = writes if isinstance(writes, str) else ""
        if added:
            self._text(f"c = {added}")
        self._text(f"k = ({', '.join(keyed)},)")
        self._text(f"e = {m}.get(k)")
        found = f"{f}(r, k) if e is None else H(r, e, {after})"
        self._text(
            f"if e is None or e.__class__ is list: return {f'keep(r, c, {found})' if added else found}"
        )
        self.space["H"] = hand
        self._text(f"r[0] = {after}")
        if self.p.steers and writes:
            self.space["W"] = overwritten
            self._text("W(r, e)")
        self._text("return keep(r, c, e)" if added else "return e")

    def _access(self, k: int, i: Instr, a: Access, site: int, after: int) -> None:
        memo: dict[Any, Any] = {}
        writes = a.code != Ev.READ
        # what steers is read as if nobody wrote it meanwhile, which only a weak read shows
        weak = a.strong and not writes and self.p.steers and k in self.p.slice.pure
        weak = weak and k not in self.p.first_guesses
        access = replace(a, strong=False) if weak else a
        followed = writes and self._compared(k)
        values = [op for op in a.elements if followed and isinstance(op, Reg) and op.name in self.wanted]
        keyed = ["r[2]", self._operand(a.address)]
        keyed.append("v" if i.guard is not None else "1")
        keyed += self._stored_by([self.expr.narrowed(op, 8 * a.size) for op in values])
        keyed += self._block_group(k)
        block_groups, each = (
            bool(self._block_group(k)),
            self.p.block_groups is not None and k in self.p.block_groups.each,
        )
        handle = self.p.read_handle(k)
        before = self._before(k)
        if a.code == Ev.WRITE:
            self._found_store(site, numbers=all(isinstance(op, Imm) for op in a.elements))

        def slow(r: Registers, key: tuple[Any, ...]) -> Event | None:
            _, address, active, *stored = key
            ctx = r[CONTEXT]
            if block_groups:
                ctx.tables.places.note_unit(stored.pop(), each)
            part = ctx
            if active.__class__ not in INTS:
                part = ctx.part(active)
            events = before(ctx)
            if stored:
                cluster = stored.pop(0)
                self._stores((site, cluster, _blocks(address)), a.elements, stored, ctx.tables.space)
            if part is not None:
                events += access.events(part, site, address, stored, handle, part is not ctx or ctx.partial)
            found = events[0] if len(events) == 1 and events[0][0] > Ev.UNKNOWN else events
            if not any(map(sized, key)) or (block_groups and address_only(key)):
                memo[key] = found
            return hand(r, found, after)

        self._remembered(memo, slow, keyed, after, self._added(k, i, a) or writes)

    def _added(self, k: int, i: Instr, a: Access) -> str:
        """The text of what an atomic leaves in shared memory where that is followed; empty if it is not."""
        adds, down = "add" in i.mods and i.mods[-1] in ("u32", "s32", "u64"), counts_down(i)
        followed = adds and self.p.steers and k in self.p.slice.pure and "shared" in i.mods
        if a.code != Ev.ATOMIC or not (followed or down):
            return ""
        self.space["counted_on"], self.space["keep"] = counted_on, keep
        amount = "-1" if down else self.expr.narrowed(i.operands[-1], 8 * a.size)
        active = "v" if i.guard is not None else "1"
        place = f"({self._operand(a.address)}, {a.size})"
        return f"counted_on(r, {place}, {amount}, {active}, {i.line if down else None})"

    def _compared(self, k: int) -> bool:
        """Whether what a store writes is followed, and compared among lanes."""
        return not self.p.stores_data or (k in self.p.slice.pure and k not in self.p.slice.aside)

    def _fragments(self, k: int, i: Instr) -> list[Reg]:
        """The registers of a store of matrices whose values are computed."""
        stored = _stored(i) if i.op == "stmatrix" and self._compared(k) else ()
        return [op for op in stored if isinstance(op, Reg) and op.name in self.wanted]

    def _found_store(self, site: int, numbers: bool) -> None:
        """A store of one value, unless another is seen; ``numbers``: of numbers in the text alone."""
        if site not in self.p.stores:  # what was seen to differ does so for all code
            self.p.stores[site] = numbers
            self.p.seen.found_store(site, numbers=numbers)

    def _stored_by(self, values: list[str]) -> list[str]:
        """Values that are stored, if any, after the cluster that stores them: others may store others."""
        return [f"r[{self.p.constant_slot('%@cluster')}]", *values] if values else []

    def _stores(self, place: StoredAt, elements: Sequence[Operand], stored: list[Any], space: Any) -> None:
        """Takes note of the values that a store was seen to store; sizes are compared on one path alone."""
        site = place[0]
        before = self.p.seen.stored.get(place, stored)
        if any(isinstance(v, SymbolicWord) and v.term.space is not space for v in before):
            self.p.seen.stored[place] = stored
        tokens = any(isinstance(v, Token) for v in stored)  # of other phases each time
        if tokens or not all(map(_may_equal, self.p.seen.stored.setdefault(place, stored), stored)):
            self.p.seen.one_value.discard(site)
            self.p.seen.equal_value.discard(site)
        elif (
            all(v.__class__ in INTS for v in stored)
            and site in self.p.seen.one_value
            and len(stored) == len([op for op in elements if not isinstance(op, Imm)])
        ):
            self.p.seen.equal_value.add(site)

    def _answer(self, k: int, i: Instr, found: Decoded) -> None:
        """What the destinations hold after the events."""
        if isinstance(found, Access):
            if k in self.p.slice.pure:
                self._accessed(k, i)
            return
        if not isinstance(found, Effect):
            return
        if self.p.is_collective(k) and k in self.p.slice.pure:
            self._pure(k)
        if i.op == "elect":
            self._elected(i)
        if isinstance(found.answer, Reg) and found.answer.name in self.wanted:
            value = "1" if k in self.p.spins else "a"
            self._text(f"r[{self.p.slot(found.answer.name)}] = {value}")
        if i.op == "st" and k in self.p.slice.pure:
            self._pure(k)  # the payload of an st.async
        self._undetermined(k, i, found)
        if self._brings(i):
            self._goto(8 * k + SETTLED)
            self._text("return None")
            self._open(8 * k + SETTLED)

    def _accessed(self, k: int, i: Instr) -> None:
        """The value of a plain load; that of another access is not known."""
        if i.op in ("ld", "ldu", "st"):
            self._pure(k)
            return
        for name in results(i):
            if name in self.wanted:
                self._text(f"r[{self.p.slot(name)}] = {self._unknown(k)}")

    def _elected(self, i: Instr) -> None:
        """The lane that ``elect`` chooses, and whether it is this one."""
        into = i.operands[0]
        first, second = (into.first, into.second) if isinstance(into, Pair) else (None, into)
        self.space["ELECT"] = elected
        mask = self._operand(i.operands[1])
        chosen = f"ELECT(r, {mask}, r[{self.p.constant_slot('%@elected')}])"
        for d, at in ((first, 0), (second, 1)):
            if isinstance(d, Reg) and d.name in self.wanted:
                self._text(f"r[{self.p.slot(d.name)}] = {chosen}[{at}]")

    def _undetermined(self, k: int, i: Instr, found: Effect) -> None:
        """The registers whose value the effect leaves open."""
        for op in found.unknown:
            for name in registers(op):
                if name in self.wanted:
                    value = self._operand(i.operands[2]) if self._is_block_poll(k) else self._number(k, i)
                    self._text(f"r[{self.p.slot(name)}] = {self._reduced(k, i, value)}")

    def _number(self, k: int, i: Instr) -> str:
        """The number of a ticket, or what is found at a lock; what else comes is not known."""
        handing = self.p.handing
        if k in self.p.found_at_turn:
            return f"{self._constant(self.p.found_at_turn[k])}(r[{CONTEXT}], {self._operand(i.operands[1])})"
        if handing is not None and k in handing.tries:
            self.space["found_at_lock"] = found_at_lock
            at, held = self._operand(i.operands[1]), self._operand(i.operands[-1])
            return f"found_at_lock(r[{CONTEXT}], {at}, {width(i.mods[-1]) // 8}, {held})"
        if handing is None or k not in handing.tickets:
            return self._unknown(k)
        self.space["ticket"] = number_of_ticket
        return f"ticket(r[{CONTEXT}], {self._operand(i.operands[1])}, {width(i.mods[-1]) // 8})"

    def _brings(self, i: Instr) -> bool:
        """Whether an instruction is a barrier whose value steers, and may be any."""
        return self.p.any_data and i.op in BARRIERS and bool(self.wanted.intersection(results(i)))

    def _reduced(self, k: int, i: Instr, missing: str) -> str:
        """What a barrier brings, where that may be any word."""
        if not self._brings(i):
            return missing
        self.space["Q"] = reduced
        how = "popc" if "popc" in i.mods else "pred"
        return f"Q(r, {self._operand(i.operands[1])}, {how!r}, {missing})"


def _hands_on(e: Access) -> bool:
    """Whether others may acquire what a write releases: each lane that makes it releases its own past."""
    return isinstance(e, Stored) and e.signals


def _stored(i: Instr) -> tuple[Operand, ...]:
    """The registers that a store of matrices writes."""
    held = i.operands[1]
    return held.items if isinstance(held, Vector) else (held,)


def _blocks(address: Any) -> frozenset[int]:
    """The blocks of the cluster whose memory an access reaches; none where its place is not known."""
    return frozenset(x >> RANK for x in lanes_of(address) if x.__class__ in INTS)


def _may_equal(a: Any, b: Any) -> bool:
    """Whether two values that one store stores may be one."""
    if isinstance(a, Unknown) and isinstance(b, Unknown) and a.source in _OF_THE_LAUNCH:
        return (a.source, a.why) == (b.source, b.why)
    return bool(a == b)
