"""Execution barriers, warp-wide meetings, register pool and dependent launch as events."""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.frontends.ptx.decode.effects import Context, Effect, Unsupported, Value
from syncverify.frontends.ptx.decode.parts import (
    MAX_NAMED,
    Decoded,
    constant,
    effect,
    fault,
    malformed,
    registers,
)
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand, Special
from syncverify.frontends.ptx.syntax.operands import registers as named
from syncverify.frontends.ptx.values.register_values import lanes_of
from syncverify.model.events import Ev, Event, Flag


def decode_barrier(instr: Instr) -> Decoded:
    """``bar.*`` and ``barrier.*``; ``bar`` is the aligned form of ``barrier`` (PTX ISA, bar)."""
    mods = tuple(m for m in instr.mods if m != "cta")
    kind = mods[0] if mods else ""
    if kind == "warp":
        return _warp_sync(instr.operands[0]) if len(instr.operands) == 1 else malformed(instr)
    aligned = int(Flag.ALIGNED if instr.op == "bar" or "aligned" in mods else 0)
    if kind == "cluster":
        return _cluster(instr, aligned)
    ops = instr.operands
    match kind:
        case "sync" if 1 <= len(ops) <= 2:
            return _named(Ev.BARRIER_SYNC, ops, aligned)
        case "arrive" if len(ops) == 2:
            return _named(Ev.BARRIER_ARRIVE, ops, aligned)
        case "red" if 3 <= len(ops) <= 4:
            result = registers(ops[0])
            return _named(Ev.BARRIER_SYNC, ops[1:-1], aligned | _reduction(mods), result)
        case "sync" | "arrive" | "red":
            return malformed(instr)
    return Unsupported(f"{instr.name} is not known")


def _reduction(mods: Sequence[str]) -> int:
    """Which reduction a ``bar.red`` makes, as flags."""
    return int(Flag.RED | (Flag.COUNT if "popc" in mods else Flag.OR if "or" in mods else Flag.NONE))


def _named(code: Ev, operands: Sequence[Operand], flags: int, unknown: Sequence[Operand] = ()) -> Effect:
    first = operands[0]
    of_tile = isinstance(first, Special) and first.name.startswith("%@tile.")
    fixed = len(operands) == 1 and isinstance(first, Imm) and 0 <= first.value <= MAX_NAMED
    if fixed and not unknown:
        assert isinstance(first, Imm)
        return constant(code, first.value, 0, flags)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        number = ctx.number(v[0], "the number of a barrier")
        threads = ctx.number(v[1], "the thread count of a barrier") if len(v) > 1 else 0
        if not of_tile and not 0 <= number <= MAX_NAMED:
            return [fault(site, "SV301", f"there is no barrier {number}; ids are 0..15")]
        if len(v) > 1 and (threads <= 0 or threads % 32):
            # PTX ISA, bar: the thread count is a non-zero multiple of the warp size.
            text = f"{threads} threads are no positive multiple of 32"
            threads = max(-(-threads // 32), 1) * 32
            return [fault(site, "SV301", text), (code, site, number, threads, flags)]
        return ((code, site, number, threads, flags),)

    return effect(emit, operands, unknown=unknown)


def decode_uniform(instr: Instr) -> Effect:
    """``uniform``: the lanes of a warp hold one value (``flow.uniform_branches``)."""
    names = named(instr.operands[0])

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        held = lanes_of(v[0])
        numbers = {held[lane] for lane in ctx.lanes if isinstance(held[lane], int)}
        if len(numbers) > 1:
            text = "a part of the active lanes takes what .uni says that all take"
            return [fault(site, "SV303", text), (Ev.EXIT, site)]
        if len(ctx.lanes) < ctx.warp_lanes.bit_count() and ctx.differs(names):
            why = "lanes that have parted come here, and .uni says that all of them decide alike"
            return [(Ev.UNKNOWN, site, why)]
        return ()

    return effect(emit, instr.operands)


def _warp_sync(mask: Operand) -> Effect:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        m = ctx.number(v[0], "the mask of bar.warp.sync") & 0xFFFFFFFF
        outside = [lane for lane in ctx.lanes if not m >> lane & 1]
        if outside:
            # PTX ISA, bar.warp.sync: the executing thread is in the mask.
            text = f"lane {outside[0]} executes bar.warp.sync with mask {m:#x}, which leaves it out"
            return [fault(site, "SV303", text)]
        return ((Ev.WARP_SYNC, site, m & ctx.warp_lanes),)

    return effect(emit, (mask,))


def _cluster(instr: Instr, aligned: int) -> Decoded:
    match instr.mods[1] if len(instr.mods) > 1 else "":
        case "arrive":
            relaxed = int(Flag.RELAXED if "relaxed" in instr.mods else 0)
            return constant(Ev.CLUSTER_ARRIVE, aligned | relaxed)
        case "wait":
            return constant(Ev.CLUSTER_WAIT, aligned)
    return Unsupported(f"{instr.name} is not known")


def meeting(ctx: Context, site: int) -> Event:
    """Every lane of the warp executes a ``.sync.aligned`` instruction together."""
    return (Ev.ELECT, site, ctx.warp_lanes)


#: The kind of an election by some lanes of a warp, among collectives.
_ELECTION = 1


def decode_elect(instr: Instr) -> Decoded:
    """``elect.sync``: who is elected is the agent's business."""
    if instr.mods[:1] != ("sync",) or len(instr.operands) != 2:
        return malformed(instr)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        m = ctx.number(v[0], "the mask of elect.sync") & 0xFFFFFFFF
        outside = [lane for lane in ctx.lanes if not m >> lane & 1]
        if outside:
            # PTX ISA, elect.sync: the executing thread is in the mask.
            text = f"lane {outside[0]} executes elect.sync with mask {m:#x}, which leaves it out"
            return [fault(site, "SV303", text)]
        named = m & ctx.warp_lanes
        if named == ctx.warp_lanes:
            return ((Ev.ELECT, site, named),)
        alone = sum(1 << lane for lane in ctx.lanes) == named
        return () if alone else ((Ev.COLLECTIVE, site, named, _ELECTION, 1),)

    return effect(emit, instr.operands[1:])


def decode_setmaxnreg(instr: Instr) -> Decoded:
    """``setmaxnreg.{inc,dec}``."""
    count = instr.operands[0] if instr.operands else None
    if not isinstance(count, Imm) or instr.mods[:1] not in (("inc",), ("dec",)):
        return malformed(instr)
    c, inc = count.value, int(instr.mods[0] == "inc")
    if 24 <= c <= 256 and c % 8 == 0:
        return constant(Ev.SETMAXNREG, inc, c)
    text = f"{c} registers: a multiple of 8 in 24..256 is needed"  # PTX ISA, setmaxnreg

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        return (fault(site, "SV304", text), (Ev.SETMAXNREG, site, inc, c))

    return effect(emit, ())


def decode_griddepcontrol(instr: Instr) -> Decoded:
    """``griddepcontrol.{wait,launch_dependents}``."""
    match instr.mods:
        case ("wait",):
            return constant(Ev.GRID_WAIT)
        case ("launch_dependents",):
            return constant(Ev.GRID_LAUNCH)
    return Unsupported(f"{instr.name} is not known")
