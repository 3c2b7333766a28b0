"""Tensor copies and edits of tensor maps as events (PTX ISA, cp.async.bulk.tensor, tensormap)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.decode.copies import destination, own_source, targets
from syncverify.frontends.ptx.decode.effects import Context, MapFacts, Opaque, Unsupported, Value
from syncverify.frontends.ptx.decode.map_addresses import MAP_BYTES, MapAddress
from syncverify.frontends.ptx.decode.parts import (
    OWN,
    Decoded,
    effect,
    fault,
    immediate,
    malformed,
    multicasts,
    region,
    scope_of,
    spaces,
    window,
)
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Operand, Reg, Vector
from syncverify.model.events import Ev, Event

#: PTX ISA, tensor copies: shared memory addresses are 128-byte aligned, with any swizzle.
_ALIGN = 128
#: Bytes of an element by the value of ``.elemtype``, and of a swizzle by ``.swizzle_mode`` (PTX ISA,
#: tensormap.replace, new_val validity).
_ELEMENTS: dict[int | None, int] = dict(enumerate((1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)))
#: The largest value of a field, and the largest number of a dimension (PTX ISA, tensormap.replace).
_MOST = {"rank": 4, "elemtype": 15, "interleave_layout": 2, "swizzle_mode": 4, "fill_mode": 1}
_DIMENSIONS = {"box_dim": 4, "global_dim": 4, "global_stride": 3, "element_stride": 4}
_SWIZZLE_MODES: dict[int | None, int] = {0: 0, 1: 32, 2: 64, 3: 128}


def decode_tensor(instr: Instr) -> Decoded:
    """``cp.async.bulk.tensor`` and ``cp.reduce.async.bulk.tensor``."""
    ways, ops = spaces(instr.mods), instr.operands
    if len(ways) != 2:
        return malformed(instr)
    if ways == ["global", "shared::cta"]:
        if len(ops) < 2 or not isinstance(ops[0], Mem) or not isinstance(ops[1], Mem):
            return malformed(instr)
        return _store(ops[0], ops[1], int(instr.mods[0] == "reduce"), _dimensions(instr))
    if ways[0] in ("shared::cta", "shared::cluster") and ways[1] == "global" and len(ops) >= 3:
        to, source, bar = ops[:3]
        if isinstance(to, Mem) and isinstance(source, Mem) and isinstance(bar, Mem):
            rest = [o for o in ops[3:] if not isinstance(o, Vector)]  # without the offsets of im2col
            multicast = multicasts(instr.mods)
            if not multicast or rest:
                form = destination(ways[0]), _dimensions(instr)
                return _load((to, source, bar), rest[:1] if multicast else (), *form)
    return malformed(instr)


def _dimensions(instr: Instr) -> int:
    """Of the tensor that a tiled copy names; 0 for other forms, whose boxes count otherwise."""
    other = any(m.startswith(("im2col", "tile::")) for m in instr.mods)
    named = next((m for m in instr.mods if m in ("1d", "2d", "3d", "4d", "5d")), "0")
    return 0 if other else int(named[0])


def _box(ctx: Context, value: Value, site: int, dimensions: int, faults: list[Event]) -> int:
    """Bytes of a map's box; adds a fault where a copy of so many dimensions names a map of another rank."""
    facts = ctx.tensor_map(value)
    if dimensions and facts.dimensions not in (0, dimensions):
        # PTX ISA, cp.async.bulk.tensor: .dim is the dimension of the tensor that tensorMap describes.
        name = facts.name.removeprefix("tensor map ") or "that the kernel edits"
        text = f"the copy names {dimensions} dimensions, and tensor map {name} has {facts.dimensions}"
        faults.append(fault(site, "SV701", text))
    if facts.bytes is None:
        name = facts.name.removeprefix("tensor map ")
        raise Opaque(
            Reason(f"the box of tensor map {name} is not given: give its dtype and box", Cause.MISSING_BOX)
        )
    return facts.bytes


def _load(ends: tuple[Mem, Mem, Mem], mask: Sequence[Operand], space: str, dimensions: int) -> Decoded:
    to, source, bar = ends
    n = len(source.coords)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = _box(ctx, v[1], site, dimensions, faults)
        here = region(ctx, site, faults, v[0], space, size, _ALIGN, "the destination")
        found = targets(ctx, site, faults, here, v[2], v[3] if mask else None, size, space)
        if not found:
            return faults
        tail = v[len(v) - n :] if n else ()
        event = (Ev.BULK_LOAD, site, found, ctx.global_box(v[1], tail), ctx.map_index(v[1]))
        return [*faults, event]

    return effect(emit, (to, _address(source), bar, *mask, *source.coords))


def _store(to: Mem, source: Mem, reduces: int, dimensions: int) -> Decoded:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = _box(ctx, v[0], site, dimensions, faults)
        here = region(ctx, site, faults, v[1], "shared", size, _ALIGN, "the source")
        own_source(ctx, site, faults, here)
        number = ctx.map_index(v[0])
        event = (Ev.BULK_STORE, site, here.footprint(ctx), ctx.global_box(v[0], v[2:], True), number, reduces)
        return [*faults, event]

    return effect(emit, (_address(to), source, *to.coords))


def _address(m: Mem) -> MapAddress:
    """The tensor map's address, without the coordinates."""
    return MapAddress(m.base, m.offset)


def decode_tensormap(instr: Instr, function: Function) -> Decoded:
    """``tensormap.replace`` and ``tensormap.cp_fenceproxy``."""
    ops = instr.operands
    match instr.mods[0] if instr.mods else "":
        case "replace" if ops and isinstance(ops[0], Mem):
            return _replace(instr, ops[0], _invalid(instr, function))
        case "cp_fenceproxy" if len(ops) == 3 and isinstance(ops[0], Mem) and isinstance(ops[1], Mem):
            if immediate(ops[2]) != MAP_BYTES:
                return malformed(instr)
            facts = built_map(instr, function)
            return _cp_fence((_address(ops[0]), ops[1]), int(scope_of(instr.mods, "gpu")), facts)
        case "replace" | "cp_fenceproxy":
            return malformed(instr)
    return Unsupported(f"{instr.name} is not known")


def built_map(instr: Instr, function: Function) -> MapFacts | None:
    """What a ``tensormap.cp_fenceproxy`` publishes: the edits since the one before it, on all paths.

    None where the box is not edited, or not to constants, or paths differ (PTX ISA, tensormap.replace).
    """
    flow = Flow(function)
    at = next(k for k, i in enumerate(function.body) if i is instr)
    fields: dict[tuple[str, int], set[int | None]] = {}
    seen: set[int] = set()
    work = [(flow.block_of[at], at, frozenset[tuple[str, int]]())]
    while work:
        n, end, later = work.pop()
        for i in reversed(function.body[flow.blocks[n].lo : end]):
            if i.op != "tensormap":
                continue
            if i.mods[0] == "cp_fenceproxy":
                break
            name = i.mods[2], (immediate(i.operands[1]) if len(i.operands) > 2 else 0) or 0
            if name not in later:
                fields.setdefault(name, set()).add(_constant(i.operands[-1], function))
                later |= {name}
        else:
            work += [(p, flow.blocks[p].hi, later) for p in flow.blocks[n].pred if p not in seen]
            seen.update(flow.blocks[n].pred)
    one = {name: next(iter(values)) if len(values) == 1 else None for name, values in fields.items()}
    rank = one.get(("rank", 0))  # as written: one less
    kind, swizzle = one.get(("elemtype", 0)), one.get(("swizzle_mode", 0), 0)
    if rank is None or kind not in _ELEMENTS or swizzle not in _SWIZZLE_MODES:
        return None
    element = _ELEMENTS[kind]
    box = tuple(one.get(("box_dim", n)) or 0 for n in range(rank + 1))
    if not all(box):
        return MapFacts("", None, None, 0, None, rank + 1)
    return MapFacts("", box, element, _SWIZZLE_MODES[swizzle], prod(box) * element)


def _constant(o: Operand, function: Function) -> int | None:
    """The number that an operand always has: an immediate, or a register that is set to one once."""
    if isinstance(o, Imm):
        return o.value
    setters = [i for i in function.body if i.operands and i.operands[0] == o] if isinstance(o, Reg) else []
    if len(setters) == 1 and setters[0].op == "mov" and setters[0].guard is None:
        return immediate(setters[0].operands[1])
    return None


def _invalid(instr: Instr, function: Function) -> str:
    """What is wrong with the number that a field of a map is set to, or with that of its dimension."""
    name = next((m for m in instr.mods if m in _MOST or m in _DIMENSIONS), "")
    value = _constant(instr.operands[-1], function) if name in _MOST else None
    if value is not None and not 0 <= value <= _MOST[name]:
        return f"{value} is no {name} of a tensor map: 0 to {_MOST[name]} are"
    number = _constant(instr.operands[1], function) if name in _DIMENSIONS else None
    if number is not None and not 0 <= number <= _DIMENSIONS[name]:
        return f"a tensor map has no {name} {number}: 0 to {_DIMENSIONS[name]} are"
    return ""


def _replace(instr: Instr, at: Mem, invalid: str) -> Decoded:
    if "global" in instr.mods:

        def edit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
            wrong = [fault(site, "SV701", invalid)] if invalid else []
            return (*wrong, (Ev.MAP_REPLACE, site, ctx.map_index(v[0]), 0))

        return effect(edit, (_address(at),))
    if window(instr.mods) == "generic":
        return Unsupported(f"{instr.name}: a tensor map at a generic address")

    def write(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        # PTX ISA, tensormap.replace: a weak write of the whole object.
        faults = [fault(site, "SV701", invalid)] if invalid else []
        here = region(ctx, site, faults, v[0], OWN, MAP_BYTES, MAP_BYTES, "the tensor map")
        return [*faults, (Ev.WRITE, site, here.footprint(ctx))]

    return effect(write, (at,))


def _cp_fence(operands: Sequence[Operand], scope: int, facts: MapFacts | None) -> Decoded:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        # The warp copies the edited map to global memory, which replaces the one there, and releases it.
        faults: list[Event] = []
        source = region(ctx, site, faults, v[1], OWN, MAP_BYTES, MAP_BYTES, "the tensor map")
        number = ctx.map_index(v[0])
        if facts is not None:
            ctx.define_map(v[0], facts)
        # PTX ISA, tensormap.cp_fenceproxy: the warp copies, so that each lane may be the one that reads; what
        # one lane has edited, the others see only past a bar.warp.sync. All have read once the warp goes on.
        return [
            *faults,
            (Ev.READ, site, source.footprint(ctx), -1),
            (Ev.WARP_SYNC, site, ctx.warp_lanes),
            (Ev.MAP_REPLACE, site, number, 1),
            (Ev.MAP_CP_FENCE, site, number, scope),
        ]

    return effect(emit, operands)
