"""mbarrier instructions as events (PTX ISA, mbarrier; defaults: release or acquire at cta scope)."""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.frontends.ptx.decode.effects import Context, Effect, Opaque, Unsupported, Value
from syncverify.frontends.ptx.decode.parts import (
    MAX_COUNT,
    Decoded,
    barrier_at,
    effect,
    fault,
    malformed,
    registers,
    sem_flags,
    split_at_address,
    window,
)
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand
from syncverify.model.events import Ev, Event, Flag


def decode_mbarrier(instr: Instr) -> Decoded:
    """``mbarrier.*``."""
    kind = instr.mods[0] if instr.mods else ""
    if kind == "pending_count":
        return effect(_nothing, (), unknown=registers(*instr.operands[:1]))
    found = split_at_address(instr)
    if found is None:
        return malformed(instr)
    into, address, rest = found
    space = window(instr.mods)
    match kind:
        case "init" if len(rest) == 1:
            return _init(address, rest[0], space)
        case "inval" if not rest:
            return _inval(address, space)
        case "expect_tx" if len(rest) == 1:
            return _transactions(Ev.EXPECT_TX, address, rest[0], space)
        case "complete_tx" if len(rest) == 1:
            return _transactions(Ev.COMPLETE_TX, address, rest[0], space)
        case "arrive" | "arrive_drop" if len(rest) <= 1:
            return _arrive(instr, into, address, rest, space)
        case "test_wait" | "try_wait" if into is not None and 1 <= len(rest) <= 2:
            return _poll(instr, into, address, rest[0], space)
        case "init" | "inval" | "expect_tx" | "complete_tx" | "arrive" | "arrive_drop":
            return malformed(instr)
        case "test_wait" | "try_wait":
            return malformed(instr)
    return Unsupported(f"{instr.name} is not known")


def blocking(event: Event) -> Event:
    """The wait that a poll in a spin amounts to."""
    code, site, bar, phase, flags = event
    wait = Ev.WAIT if code == Ev.POLL else Ev.WAIT_TOKEN
    return (wait, site, bar, phase, flags & ~int(Flag.MAY_SUSPEND))


def _nothing(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
    return ()


def _init(address: Mem, count: Operand, space: str) -> Effect:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        b, _, _ = barrier_at(ctx, site, faults, v[0], space, "mbarrier.init")
        c = ctx.number(v[1], "the count of an mbarrier")
        if not 1 <= c <= MAX_COUNT:
            faults.append(fault(site, "SV202", f"count {c} is outside 1..{MAX_COUNT}"))
            c = min(max(c, 1), MAX_COUNT)
        return faults if b < 0 else [*faults, (Ev.INIT, site, b, c)]

    return effect(emit, (address, count))


def _inval(address: Mem, space: str) -> Effect:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        b, _, _ = barrier_at(ctx, site, faults, v[0], space, "mbarrier.inval")
        return faults if b < 0 else [*faults, (Ev.INVAL, site, b)]

    return effect(emit, (address,))


def _bytes(site: int, faults: list[Event], what: str, x: int) -> int:
    """A number of bytes within the range of the transaction count, or a fault."""
    if not 0 <= x <= MAX_COUNT:
        text = f"{what} of {x} bytes; the transaction count ranges to {MAX_COUNT}"
        faults.append(fault(site, "SV203", text))
    return max(x, 0)


def _transactions(code: Ev, address: Mem, size: Operand, space: str) -> Effect:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        b, _, _ = barrier_at(ctx, site, faults, v[0], space)
        x = _bytes(site, faults, "an update", ctx.number(v[1], "a number of bytes"))
        return faults if b < 0 else [*faults, (code, site, b, x)]

    return effect(emit, (address, size))


def _arrive(instr: Instr, into: Operand | None, address: Mem, rest: Sequence[Operand], space: str) -> Decoded:
    mods = instr.mods
    drop, quiet, expects = mods[0] == "arrive_drop", "noComplete" in mods, "expect_tx" in mods
    if (expects or quiet) and not rest:
        return malformed(instr)
    flags = sem_flags(mods) | (Flag.DROP if drop else 0) | (Flag.NO_COMPLETE if quiet else 0)
    flags = int(flags | (Flag.TOKEN if into is not None else 0))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        b, cta, _ = barrier_at(ctx, site, faults, v[0], space)
        c, x = 1, -1
        if expects:
            x = _bytes(site, faults, "an expectation", ctx.number(v[1], "the bytes that an arrival expects"))
        elif rest:
            c = ctx.number(v[1], "the count of an arrival")
            if not 1 <= c <= MAX_COUNT:
                text = f"an arrival of {c}; it must lie in 1..{MAX_COUNT}"
                return [*faults, fault(site, "SV202", text)]
        if b < 0:
            return faults
        if into is not None and cta != ctx.cta:
            # PTX ISA, mbarrier.arrive: the shared::cluster form returns no state.
            faults.append(fault(site, "SV208", "an arrival on another CTA's barrier returns no token"))
        return [*faults, (Ev.ARRIVE, site, b, c, x, flags)]

    return effect(emit, (address, *rest), into)


def _poll(instr: Instr, into: Operand, address: Mem, phase: Operand, space: str) -> Effect:
    parity = "parity" in instr.mods
    code = Ev.POLL if parity else Ev.POLL_TOKEN
    flags = int(sem_flags(instr.mods) | (Flag.MAY_SUSPEND if instr.mods[0] == "try_wait" else 0))
    what = "the parity of a wait" if parity else "the token of a wait"

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        b, _, _ = barrier_at(ctx, site, faults, v[0], space, "a wait")
        try:
            p = ctx.number(v[1], what)
        except Opaque as e:
            if parity or not e.unwritten:
                raise
            # PTX ISA, test_wait: the state operand comes from an arrive on the same barrier.
            return [*faults, fault(site, "SV201", "a wait by a token that no arrival has given")]
        if parity:
            # PTX ISA, test_wait: 0 or 1. Compilers pass a complement too: the lowest bit counts.
            p &= 1
        return faults if b < 0 else [*faults, (code, site, b, p, flags)]

    return effect(emit, (address, phase), into)
