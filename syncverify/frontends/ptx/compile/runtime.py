"""What compiled code calls while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.compile.state import (
    CONTEXT,
    ENDED,
    MASK,
    PARTED,
    PASSED,
    PC,
    QUEUE,
    QUEUED,
    SHARED,
    Registers,
    Run,
)
from syncverify.frontends.ptx.decode.effects import Opaque
from syncverify.frontends.ptx.decode.memory import written
from syncverify.frontends.ptx.values.atomic_tickets import Ticket
from syncverify.frontends.ptx.values.register_values import (
    INTS,
    WARP,
    PerLane,
    Unknown,
    lanes_of,
    per_lane,
    restrict,
)
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.frontends.ptx.values.symbolic_words import size as sized
from syncverify.model.elected_lane import ElectedLane
from syncverify.model.events import EACH_BLOCK, Ev, Event, Flag
from syncverify.symbolic.context import AffineTerm

#: What may say that an assertion fails and nobody knows: where a block is in a grid of known size is known.
_TRUSTED = ("data", "param", "grid")
_WARP_LANES = (1 << WARP) - 1
NOT_ENTERED = Unknown("a loop that was not entered")


def entry(targets: tuple[int, ...], index: int, line: int) -> int:
    """Where ``brx.idx`` at a line goes (PTX ISA: an index outside the table is undefined)."""
    if not 0 <= index < len(targets):
        text = f"brx.idx at line {line} takes entry {index} of a table of {len(targets)}: undefined"
        raise Opaque(Reason(text, Cause.DATA))
    return targets[index]


def without_token(event: Event) -> Event:
    """An arrival whose phase nobody looks at."""
    if event[0] != Ev.ARRIVE:
        return event
    return (*event[:5], event[5] & ~Flag.TOKEN, *event[6:])


def exiting(events: Sequence[Event]) -> Run:
    """Leaves the kernel; ``events``: by the state that says what was run past, or one for all."""

    def run(r: Registers, a: Any) -> Event:
        r[PC] = ENDED
        return events[r[PASSED]] if len(events) > 1 else events[0]

    return run


def hand(r: Registers, found: Any, after: int) -> Event | None:
    """Hands an event out, or the first of several; none at all: goes on."""
    if found.__class__ is not list:
        r[PC] = after
        if r[SHARED] is not None:
            overwritten(r, found)
        return found  # type: ignore[no-any-return]
    r[PC], r[QUEUE] = (QUEUED, (after, *found)) if found else (after, ())
    if r[SHARED] is not None:
        for event in found:
            overwritten(r, event)
    return None


def rejoin(r: Registers, block: int) -> None:
    """Lanes come together: of what was written since they parted, the other lanes' values are not known."""
    for join, slots in r[PARTED]:
        if join == block:
            for s in slots:
                r[s] = restrict(r[s], r[MASK])
    r[PARTED] = tuple(x for x in r[PARTED] if x[0] != block)


def among(r: Registers, v: Any, live: int, mask: Any = -1) -> Any:
    """What lanes give to an exchange with each other: nothing is known of those of the warp that went another
    way or have left, nor of those that ``mask`` does not name. ``live``: the lanes of the warp."""
    apart = r[PARTED] or r[MASK] != r[CONTEXT].mask
    come = (r[MASK] if apart else live) & (mask if mask.__class__ in INTS else _WARP_LANES)
    return v if come == _WARP_LANES else restrict(v, come)


def overwritten(r: Registers, event: Event) -> None:
    """What the event writes is no longer known, nor what an mbarrier holds that begins or ends; contents that
    are put aside are told later."""
    numbers, contents = written(event), r[SHARED]
    if numbers and contents is not None:
        contents.overwritten(r[CONTEXT].footprints, numbers)
    if event[0] in (Ev.INIT, Ev.INVAL) and contents is not None:
        info = r[CONTEXT].tables.barriers[event[2]]
        contents.of[info.cta].forget(info.offset, info.offset + 8)


def counted_on(r: Registers, place: tuple[Any, int], amount: Any, active: Any, down: int | None) -> Any:
    """Where an atomic of this agent adds, how many bytes, and what is there then; None: nothing known.

    ``place``: address and bytes; ``amount``: what each lane adds, modulo the word; ``down``: the line, if it
    takes one of a count that holds enough. Raises Opaque where that is not shown. Atomics of other agents do
    not come between: the sum is the same in every order, and a load that is not ordered after them is a race.
    """
    ctx, on, (address, size) = r[CONTEXT], lanes_of(active), place
    asking = [on[i] for i in ctx.lanes if r[MASK] >> i & 1]
    known = all(x.__class__ in INTS for x in (address, amount, *asking))
    old: Any = ctx.held(r, address, size) if known and r[SHARED] is not None else None
    if old.__class__ not in INTS:
        if down is not None and (not known or any(asking)):
            raise Opaque(f"what the count at line {down} counts down from is not known")
        return None
    lanes = sum(map(bool, asking))
    if down is not None and old < lanes:
        raise Opaque(f"the count at line {down} goes below zero: {old} are left, {lanes} lanes count")
    return address, size, (old + lanes * amount) & (1 << 8 * size) - 1


def keep(r: Registers, added: Any, event: Event | None) -> Event | None:
    """Keeps what an atomic left, once its event has been handed out."""
    if added is not None:
        r[CONTEXT].store(r, "shared", *added, 1)
    return event


def elected(r: Registers, mask: Any, elected: ElectedLane) -> tuple[int, Any]:
    ctx = r[CONTEXT]
    return ctx.elect(mask, elected)  # type: ignore[no-any-return]


def load(r: Registers, space: str, address: Any, size: int, missing: Unknown) -> Any:
    """The value of a load whose contents are kept."""
    return r[CONTEXT].load(r, space, address, size, missing)


def arrived(r: Registers, number: Any) -> None:
    """Takes note of who comes to a barrier that brings a value."""
    r[CONTEXT].arrived(r, number)


def reduced(r: Registers, number: Any, how: str, missing: Unknown) -> Any:
    """The value that a barrier brings."""
    return r[CONTEXT].reduced(r, number, how, missing)


def read_global(r: Registers, address: Any, size: int, missing: Unknown) -> Any:
    """The value of a load from global memory that the kernel does not write."""
    return r[CONTEXT].tables.behind(address, size, missing)


def read_held(r: Registers, address: Any, size: int, missing: Unknown) -> Any:
    """The same in a kernel that writes global memory: what the launch file says."""
    return r[CONTEXT].tables.held(address, size, missing)


def read_variable(r: Registers, address: Any, size: int, missing: Unknown) -> Any:
    """The value of a load from a variable that the kernel does not write."""
    return r[CONTEXT].tables.variable_bytes(address, size, missing)


def read_word(r: Registers, address: Any, size: int, signed: bool, found: Any) -> Any:
    """The same of a word that nobody writes: where it has no number it is a size, one for each place."""
    space = r[CONTEXT].tables.space
    if space is None or not isinstance(found, Unknown):
        return found
    place = address.term if isinstance(address, SymbolicWord) else address
    if not isinstance(place, int | AffineTerm):
        return found
    bits = 8 * size
    low = -(1 << bits - 1) if signed else 0
    return sized(space.memory_symbol(("memory", place, size), low, low + (1 << bits) - 1, "word"), bits)


def read_alike(r: Registers, k: int, size: int, kind: str, found: Any) -> Any:
    """A word that nobody writes, at a place without a number that is one for all threads of a block and all
    turns: a size, one for the block. ``k``: the load; ``kind``: the part of it, and how it is extended."""
    ctx = r[CONTEXT]
    space = ctx.tables.space
    if space is None or not isinstance(found, Unknown):
        return found
    varies = ctx.tables.load_places(k)
    if varies & ~EACH_BLOCK:
        return found
    bits = 8 * size
    low = -(1 << bits - 1) if kind[0] != "u" else 0
    key = ("alike", k, kind, ctx.cta if varies else 0)
    return sized(space.memory_symbol(key, low, low + (1 << bits) - 1, "word"), bits)


def taken(r: Registers, count: int, address: Any, one: Any, last: Any, active: Any, old: Any,
          missing: Unknown) -> Any:  # fmt: skip
    """The number that an atomic hands to a lane; ``count``: the slot that counts what the agent has taken.

    ``one``: what the atomic adds; ``last``: the counter's last number, -1 for that of its type.
    """
    ctx, on = r[CONTEXT], lanes_of(active)
    lanes = [i for i in ctx.lanes if r[MASK] >> i & 1]
    asking = [i for i in lanes if on[i].__class__ not in INTS or on[i]]
    if not asking:
        return _heard(r, count, address, one, last, on, old, missing)
    value = missing
    if len(asking) == 1 and on[asking[0]].__class__ in INTS:
        (lane,) = asking
        given = [lanes_of(x)[lane] for x in (address, one, last)]
        value = ctx.take(lane, r[count], *given, missing)
        r[count] += value.__class__ is Ticket
    elif ctx.tables.tickets is not None:
        ctx.tables.tickets.lose(Reason(f"several lanes count at once: {missing.why}", parts=(missing.why,)))
    if len(asking) == len(lanes):
        return value
    return per_lane([value if i in asking else x for i, x in enumerate(lanes_of(old))])


def _heard(r: Registers, count: int, address: Any, one: Any, last: Any, on: Any, old: Any,
           missing: Unknown) -> Any:  # fmt: skip
    """The same for lanes that take nothing, while one lane of another class takes beside them."""
    ctx = r[CONTEXT]
    asking = [i for i, x in enumerate(on) if x.__class__ in INTS and x]
    if len(asking) != 1 or r[PARTED] or r[MASK] != ctx.mask or any(x.__class__ not in INTS for x in on):
        return old
    (lane,) = asking
    given = [lanes_of(x)[lane] for x in (address, one, last)]
    value = ctx.take(lane, r[count], *given, missing, hearer=ctx.lanes[0])
    r[count] += value.__class__ is Ticket
    return per_lane([value if i == lane else x for i, x in enumerate(lanes_of(old))])


def store(r: Registers, space: str, address: Any, size: int, value: Any, active: Any) -> None:
    """Keeps a stored value."""
    r[CONTEXT].store(r, space, address, size, value, active)


def trusting(r: Registers, value: Any, safe: int) -> Any:
    """A guard with ``safe``, where no assertion fails, for each lane of which data or a parameter decides."""
    if isinstance(value, Unknown):
        return safe if value.source in _TRUSTED else value
    if value.__class__ is not PerLane:
        return value
    lanes = (trusting(r, v, safe) if r[MASK] >> i & 1 else v for i, v in enumerate(value.lanes))
    return per_lane(tuple(lanes))
