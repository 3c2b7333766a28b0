"""Tensor copies and edits of tensor maps as events (PTX ISA, cp.async.bulk.tensor, tensormap)."""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.frontends.ptx.effect_barriers import meeting
from syncverify.frontends.ptx.effect_copies import own_source, targets
from syncverify.frontends.ptx.effect_parts import (
    Decoded,
    effect,
    immediate,
    malformed,
    region,
    scope_of,
    spaces,
    window,
)
from syncverify.frontends.ptx.effects import Context, Opaque, Unsupported, Value
from syncverify.frontends.ptx.nodes import Instr, Mem, Operand, Vector
from syncverify.model.events import Ev, Event

#: PTX ISA, tensor copies: shared memory addresses are 128-byte aligned, with any swizzle.
_ALIGN = 128
MAP_BYTES = 128
_SM100 = ("tile::gather4", "tile::scatter4", "im2col::w", "im2col::w::128", "cta_group::1", "cta_group::2")


def decode_tensor(instr: Instr) -> Decoded:
    """``cp.async.bulk.tensor`` and ``cp.reduce.async.bulk.tensor``."""
    ways, ops = spaces(instr.mods), instr.operands
    newer = next((m for m in instr.mods if m in _SM100), None)
    if newer is not None:
        return Unsupported(f"{instr.name}: .{newer} is not of sm_90")
    if len(ways) != 2:
        return malformed(instr)
    if ways == ["global", "shared::cta"]:
        if len(ops) < 2 or not isinstance(ops[0], Mem) or not isinstance(ops[1], Mem):
            return malformed(instr)
        return _store(ops[0], ops[1], int(instr.mods[0] == "reduce"))
    if ways[0] in ("shared::cta", "shared::cluster") and ways[1] == "global" and len(ops) >= 3:
        to, source, bar = ops[:3]
        if isinstance(to, Mem) and isinstance(source, Mem) and isinstance(bar, Mem):
            rest = [o for o in ops[3:] if not isinstance(o, Vector)]  # without the offsets of im2col
            multicast = "multicast::cluster" in instr.mods
            if not multicast or rest:
                return _load(to, source, bar, rest[:1] if multicast else ())
    return malformed(instr)


def _box(ctx: Context, value: Value) -> int:
    facts = ctx.tensor_map(value)
    if facts.bytes is None:
        raise Opaque(f"the box of tensor map {facts.name} is not given")
    return facts.bytes


def _load(to: Mem, source: Mem, bar: Mem, mask: Sequence[Operand]) -> Decoded:
    n = len(source.coords)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = _box(ctx, v[1])
        here = region(ctx, site, faults, v[0], "shared", size, _ALIGN, "the destination")
        found = targets(ctx, site, faults, here, v[2], v[3] if mask else None, size)
        if not found:
            return faults
        tail = v[len(v) - n :] if n else ()
        event = (Ev.BULK_LOAD, site, found, ctx.global_box(v[1], tail), ctx.map_index(v[1]))
        return [*faults, event]

    return effect(emit, (to, _address(source), bar, *mask, *source.coords))


def _store(to: Mem, source: Mem, reduces: int) -> Decoded:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = _box(ctx, v[0])
        here = region(ctx, site, faults, v[1], "shared", size, _ALIGN, "the source")
        own_source(ctx, site, faults, here)
        number = ctx.map_index(v[0])
        event = (Ev.BULK_STORE, site, here.footprint(ctx), ctx.global_box(v[0], v[2:]), number, reduces)
        return [*faults, event]

    return effect(emit, (_address(to), source, *to.coords))


def _address(m: Mem) -> Mem:
    """The tensor map's address, without the coordinates."""
    return Mem(m.base, m.offset)


def decode_tensormap(instr: Instr) -> Decoded:
    """``tensormap.replace`` and ``tensormap.cp_fenceproxy``."""
    ops = instr.operands
    match instr.mods[0] if instr.mods else "":
        case "replace" if ops and isinstance(ops[0], Mem):
            return _replace(instr, ops[0])
        case "cp_fenceproxy" if len(ops) == 3 and isinstance(ops[0], Mem) and isinstance(ops[1], Mem):
            if immediate(ops[2]) != MAP_BYTES:
                return malformed(instr)
            return _cp_fence(ops[:2], int(scope_of(instr.mods, "gpu")))
        case "replace" | "cp_fenceproxy":
            return malformed(instr)
    return Unsupported(f"{instr.name} is not known")


def _replace(instr: Instr, at: Mem) -> Decoded:
    if "global" in instr.mods:

        def edit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
            return ((Ev.MAP_REPLACE, site, ctx.map_index(v[0]), 0),)

        return effect(edit, (at,))
    if window(instr.mods) == "generic":
        return Unsupported(f"{instr.name}: a tensor map at a generic address")

    def write(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        # PTX ISA, tensormap.replace: a weak write of the whole object.
        faults: list[Event] = []
        here = region(ctx, site, faults, v[0], "shared", MAP_BYTES, MAP_BYTES, "the tensor map")
        return [*faults, (Ev.WRITE, site, here.footprint(ctx))]

    return effect(write, (at,))


def _cp_fence(operands: Sequence[Operand], scope: int) -> Decoded:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        # The warp copies the edited map to global memory, which replaces the one there, and releases it.
        faults: list[Event] = []
        source = region(ctx, site, faults, v[1], "shared", MAP_BYTES, MAP_BYTES, "the tensor map")
        number = ctx.map_index(v[0])
        return [
            *faults,
            meeting(ctx, site),
            (Ev.READ, site, source.footprint(ctx), -1),
            (Ev.MAP_REPLACE, site, number, 1),
            (Ev.MAP_CP_FENCE, site, number, scope),
        ]

    return effect(emit, operands)
