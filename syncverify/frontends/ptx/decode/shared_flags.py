"""Flags and locks in shared memory as events: waits for them, and the accesses that may write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.decode.effects import Context, Effect, Opaque, Value
from syncverify.frontends.ptx.decode.global_access import GlobalSpin, Stored, scope_of, semantics, signed
from syncverify.frontends.ptx.decode.memory import Access, access_events
from syncverify.frontends.ptx.decode.parts import promised
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand
from syncverify.frontends.ptx.values.register_values import WARP, PerLane, per_lane
from syncverify.ir.footprints import Range, footprint
from syncverify.model.events import Ev, Event, Flag


@dataclass(frozen=True, slots=True)
class FlagAccess(Stored):
    """A store or an atomic that may write a flag in shared memory; ``elements``: what it stores or adds."""

    def events(self, ctx: Context, site: int, *rest: Any) -> list[Event]:
        """As ``memory.access_events``, with what is stored."""
        address, values, *_ = rest
        if self.flags and address.__class__ is PerLane and len(ctx.lanes) > 1:
            ctx.number(address, "the address of a flag")  # one of its own for each: classes apart
        return [self.as_signal(ctx, e, values) for e in access_events(self, ctx, site, *rest)]

    def as_signal(self, ctx: Context, e: Event, values: Sequence[Value]) -> Event:
        if e[0] not in (Ev.WRITE, Ev.ATOMIC) or not _is_word(ctx, e[2], self.size):
            return e
        return (Ev.SIGNAL, e[1], e[2], self.flags, int(self.scope), self.op, self.stored(values, ctx.lanes))


@dataclass(frozen=True, slots=True)
class LockWrite(FlagAccess):
    """One that may write a lock. What lets a lock go counts turns; ``lets_go``: behind what takes one."""

    lets_go: bool = False

    def as_signal(self, ctx: Context, e: Event, values: Sequence[Value]) -> Event:
        signal = FlagAccess.as_signal(self, ctx, e, values)
        if signal[0] != Ev.SIGNAL:
            _note(ctx, e)
            return signal
        *head, op, value = signal
        fp = ctx.footprints[signal[2]]
        places = sorted({lo for lo, *_ in fp.lanes or fp.intervals})
        if op or value is None:
            _note(ctx, e)
            return signal
        for x in places:
            ctx.shared_stored(fp.memory, x, value)
        if value:
            locks = [ctx.is_shared_lock(fp.memory, x) for x in places]
            return (*head, op, -1 if all(locks) else None) if any(locks) else signal
        if self.lets_go and fp.memory == ctx.cta:
            alone = len(ctx.lanes) == 1
            turns = [ctx.shared_free(x, e[1], alone=alone) for x in places]
            return signal if turns[0] is None else (*head, op, turns[0])
        return signal


@dataclass(frozen=True, slots=True)
class OtherAccess(Access):
    """One that may reach the word of a lock or flag, of several words or bytes of one, say."""

    def events(self, ctx: Context, site: int, *rest: Any) -> list[Event]:
        """As ``memory.access_events``, and remembered."""
        found = access_events(self, ctx, site, *rest)
        for e in found:
            _note(ctx, e)
            if e[0] == Ev.ATOMIC or (e[0] == Ev.WRITE and self.strong):
                fp = ctx.footprints[e[2]]
                for lo, hi in fp.intervals:
                    ctx.shared_poll(fp.memory, lo, hi - lo, polls=False)
        return found


def _note(ctx: Context, e: Event) -> None:
    """Remembers where an access reaches what may be a lock."""
    if e[0] in (Ev.READ, Ev.WRITE, Ev.ATOMIC):
        fp = ctx.footprints[e[2]]
        for lo, hi in fp.intervals:
            ctx.shared_word(fp.memory, lo, hi - lo)


def _is_word(ctx: Context, number: int, size: int) -> bool:
    """Whether each lane's place is known: one that is not is an interval, or several."""
    fp = ctx.footprints[number]
    places = fp.lanes or tuple((lo, hi, 0) for lo, hi in fp.intervals)
    return (bool(fp.lanes) or len(places) == 1) and all(hi - lo == size for lo, hi, _ in places)


def other_access(a: Access) -> OtherAccess:
    """An access as one that may reach the word of a lock or flag."""
    return OtherAccess(**{f.name: getattr(a, f.name) for f in fields(Access)})


def flag_access(i: Instr, a: Access, *, lets_go: bool | None = None) -> FlagAccess:
    """The access of an instruction as one that may write a flag; ``lets_go``: or a lock, and frees it."""
    same = {f.name: getattr(a, f.name) for f in fields(Access)}
    op = ""
    if i.op != "st":
        op = next((m for m in ("add", "exch") if m in i.mods), "other")
        at = next(n for n, x in enumerate(i.operands) if isinstance(x, Mem))
        same["elements"] = i.operands[at + 1 : at + 2]
    same |= {"flags": semantics(i), "op": "" if op == "exch" else op, "bits": 8 * a.size}
    return FlagAccess(**same) if lets_go is None else LockWrite(**same, lets_go=lets_go)


def shared_spin_effect(i: Instr, spin: GlobalSpin, a: Access) -> Effect:
    """A whole spin on a word of shared memory as one blocking event."""
    flags, scope = spin.flags(i), int(scope_of(i))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        cta, offset = _word(ctx, a, v[0])
        ctx.shared_word(cta, offset, a.size)
        ctx.shared_poll(cta, offset, a.size, polls=True)
        bound = signed(ctx.number(v[1], "the value that a thread waits for"), 8 * a.size)
        if spin.unsigned and bound < 0:
            raise Opaque("the value that a thread waits for is no small number")
        fp = ctx.footprint(footprint(cta, Range(offset, a.size), ctx.lanes))
        return ((Ev.SPIN, site, fp, flags, scope, spin.compare, bound),)

    return Effect(emit, (a.address, spin.bound), None, i.operands[:1])


def _word(ctx: Context, a: Access, at: Value) -> tuple[int, int]:
    """The CTA and the offset of the word that a class looks at again and again."""
    cta, offset = ctx.shared(ctx.number(at, "the address of a flag"), a.space, "the address of a flag")
    if cta != ctx.cta or offset % a.size or not ctx.shared_start <= offset <= ctx.shared_end - a.size:
        raise Opaque("a spin on a word that does not lie in the shared memory of its block")
    promised(ctx, offset, a.size, "the word")
    return cta, offset


def shared_lock_effect(i: Instr, spin: GlobalSpin, a: Access) -> Effect:
    """The loop in which one thread after the other finds a lock free, and takes it."""
    flags, scope = semantics(i) & ~int(Flag.RELEASE) | int(Flag.TAKE), int(scope_of(i))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        ctx.number(per_lane(range(WARP)), "the lane that takes a lock")  # each one is a class of its own
        cta, offset = _word(ctx, a, v[0])
        free = [ctx.number(x, "the value of a free lock") for x in v[1:-1]]
        if any(free) or not ctx.number(v[-1], "the value of a lock"):
            raise Opaque("a lock that is not free at zero")
        fp = ctx.footprint(footprint(cta, Range(offset, a.size), ctx.lanes))
        return ((Ev.SPIN, site, fp, flags, scope, "==", ctx.shared_lock(offset, a.size, site)),)

    return Effect(emit, (a.address, spin.bound, *i.operands[2:]), None, i.operands[:1])


@dataclass(frozen=True, slots=True)
class SharedTurn:
    """An atomic that a thread executes once. ``amount``: what a counter grows by, or None for a lock.
    ``most``: of so many turns it hands each one number, and then begins again. ``asked``: what alone its
    number is compared with, if that is known."""

    amount: int | None
    most: int | None = None
    asked: tuple[Operand, ...] = ()


def shared_turn_effect(i: Instr, k: int, turn: SharedTurn, a: Access) -> Effect:
    """An atomic that tries a lock once, or counts. Who finds the lock held has read it, and nothing is handed
    to it; a counter hands on all that was released by atomics before."""
    flags, scope = semantics(i), int(scope_of(i))
    once = Flag.ONCE if turn.amount is None else Flag.NONE
    take = flags & ~int(Flag.RELEASE) | int(Flag.TAKE | once)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        ctx.number(per_lane(range(WARP)), "the lane that takes a lock")  # each one is a class of its own
        cta, offset = _word(ctx, a, v[0])
        fp = ctx.footprint(footprint(cta, Range(offset, a.size), ctx.lanes))
        number = ctx.shared_turn(offset, a.size, k, turn.amount, turn.most)
        if turn.amount is not None:
            asked = [ctx.number(x, "what a counter's number is compared with") for x in v[1:]]
            ctx.shared_asked(offset, [signed(x, 32) for x in asked])
            if number is not None and not 0 <= number < 1 << 31:
                raise Opaque(Reason("a counter that goes below zero", Cause.SHARED_CONTENTS))
            counts = (Ev.SIGNAL, site, fp, flags & ~int(Flag.ACQUIRE), scope, "add", turn.amount)
            return (counts,) if number is None else ((Ev.SPIN, site, fp, take, scope, "==", number), counts)
        if not ctx.number(v[1], "the value of a lock"):
            raise Opaque(Reason("a lock that is not free at zero", Cause.SHARED_CONTENTS))
        if number is None:
            return ((Ev.SPIN, site, fp, int(Flag.STRONG), scope, ">=", -1 << a.size * 8),)
        return ((Ev.SPIN, site, fp, take, scope, "==", number),)

    more = i.operands[-1:] if turn.amount is None else turn.asked
    return Effect(emit, (a.address, *more), None, i.operands[:1])


#: What a counter never brings.
_NO_NUMBER = 1 << 31


def found_at_turn(k: int, turn: SharedTurn, a: Access) -> Callable[[Context, Value], int]:
    """What such an atomic brings; of a lock that is held, anything but zero, and of a counter, anything that
    is not asked for."""

    def found(ctx: Context, at: Value) -> int:
        number = ctx.shared_turn(_word(ctx, a, at)[1], a.size, k, turn.amount, turn.most)
        if turn.amount is None:
            return int(number is None)
        return _NO_NUMBER if number is None else number

    return found


__all__ = [
    "FlagAccess",
    "OtherAccess",
    "SharedTurn",
    "LockWrite",
    "flag_access",
    "found_at_turn",
    "other_access",
    "shared_lock_effect",
    "shared_spin_effect",
    "shared_turn_effect",
]
