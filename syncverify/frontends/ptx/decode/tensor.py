"""Tensor copies and edits of tensor maps as events (PTX ISA, cp.async.bulk.tensor, tensormap)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.decode.barriers import meeting
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
_SWIZZLE_MODES: dict[int | None, int] = {0: 0, 1: 32, 2: 64, 3: 128}
#: A field that is edited: its name, and of which dimension.
Field = tuple[str, int]
#: The least and the greatest value of a field, as it is written; what is not here may be anything.
_ANY = (1 << 64) - 1
_VALUES = {"rank": (0, 4), "box_dim": (1, 256), "element_stride": (1, 8), "fill_mode": (0, 1)}
#: What says together how large a box is.
_OF_THE_BOX = frozenset({"rank", "box_dim", "elemtype"})
#: Dimensions that a field has (PTX ISA, tensormap.replace: ``ord`` of a tensor of at most 5).
_ORDINALS = {"box_dim": 5, "global_dim": 5, "element_stride": 5, "global_stride": 4}
#: Fields whose value is an immediate, and the values that are modelled.
_MODES: dict[str, Collection[int | None]] = {
    "elemtype": _ELEMENTS.keys(), "swizzle_mode": _SWIZZLE_MODES.keys(), "interleave_layout": (0,)
}  # fmt: skip


def decode_tensor(instr: Instr) -> Decoded:
    """``cp.async.bulk.tensor`` and ``cp.reduce.async.bulk.tensor``."""
    ways, ops = spaces(instr.mods), instr.operands
    if len(ways) != 2:
        return malformed(instr)
    if ways == ["global", "shared::cta"]:
        if len(ops) < 2 or not isinstance(ops[0], Mem) or not isinstance(ops[1], Mem):
            return malformed(instr)
        return _store(ops[0], ops[1], reduces=instr.mods[0] == "reduce")
    if ways[0] in ("shared::cta", "shared::cluster") and ways[1] == "global" and len(ops) >= 3:
        to, source, bar = ops[:3]
        if isinstance(to, Mem) and isinstance(source, Mem) and isinstance(bar, Mem):
            rest = [o for o in ops[3:] if not isinstance(o, Vector)]  # without the offsets of im2col
            multicast = multicasts(instr.mods)
            if not multicast or rest:
                return _load(to, source, bar, rest[:1] if multicast else (), destination(ways[0]))
    return malformed(instr)


def _box(ctx: Context, site: int, faults: list[Event], value: Value, dimensions: int) -> int:
    """Bytes of a copy's box. Adds a fault where the map is not one for copies of so many dimensions."""
    facts = ctx.tensor_map(value)
    name = facts.name.removeprefix("tensor map ")
    if facts.dimensions not in (None, dimensions):
        # PTX ISA, cp.async.bulk.tensor: .dim is the dimension of the tensor that the map describes.
        text = f"a copy of {dimensions} dimensions by tensor map {name}, which has {facts.dimensions}"
        faults.append(fault(site, "SV701", text))
    if facts.unfit:
        faults.append(fault(site, "SV701", f"tensor map {name}: {facts.unfit}"))
    if faults:
        return facts.bytes or 0  # whatever is copied
    if facts.partly:
        why = "the kernel sets some of rank, elemtype and box_dim, and not all of them to constants"
        raise Opaque(Reason(f"tensor map {name}: {why}: give its dtype and box", Cause.MISSING_BOX))
    if facts.bytes is None:
        how = "give its dtype and box"
        if name.isidentifier():  # that of a parameter in the source
            how = f'write {name} = {{tensormap = "{name}", dtype = "f16", box = [64, 64]}}, or what it has, '
            how += "under params in a launch file"
        raise Opaque(Reason(f"the box of tensor map {name} is not given: {how}", Cause.MISSING_BOX))
    return facts.bytes


def _load(to: Mem, source: Mem, bar: Mem, mask: Sequence[Operand], space: str) -> Decoded:
    n = len(source.coords)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = _box(ctx, site, faults, v[1], n)
        here = region(ctx, site, faults, v[0], space, size, _ALIGN, "the destination")
        found = targets(ctx, site, faults, here, v[2], v[3] if mask else None, size, space)
        if not found:
            return faults
        tail = v[len(v) - n :] if n else ()
        event = (Ev.BULK_LOAD, site, found, ctx.global_box(v[1], tail), ctx.map_index(v[1]))
        return [*faults, event]

    return effect(emit, (to, _address(source), bar, *mask, *source.coords))


def _store(to: Mem, source: Mem, *, reduces: bool) -> Decoded:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = _box(ctx, site, faults, v[0], len(to.coords))
        here = region(ctx, site, faults, v[1], "shared", size, _ALIGN, "the source", 1)
        own_source(ctx, site, faults, here)
        number = ctx.map_index(v[0])
        box = ctx.global_box(v[0], v[2:], True, reduces=reduces)
        event = (Ev.BULK_STORE, site, here.footprint(ctx), box, number, int(reduces))
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
            return _replace(instr, ops[0], function)
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

    What is not edited, or not to constants, or differently on several paths, is not known (PTX ISA,
    tensormap.replace).
    """
    flow = Flow(function)
    at = next(k for k, i in enumerate(function.body) if i is instr)
    fields: dict[Field, set[int | None]] = {}
    seen: set[int] = set()
    work = [(flow.block_of[at], at, frozenset[Field]())]
    while work:
        n, end, later = work.pop()
        for i in reversed(function.body[flow.blocks[n].lo : end]):
            if i.op != "tensormap":
                continue
            if i.mods[0] == "cp_fenceproxy":
                break
            name = _field(i)
            if name not in later:
                fields.setdefault(name, set()).add(_constant(i.operands[-1], function))
                later |= {name}
        else:
            work += [(p, flow.blocks[p].hi, later) for p in flow.blocks[n].pred if p not in seen]
            seen.update(flow.blocks[n].pred)
    one = {name: next(iter(values)) if len(values) == 1 else None for name, values in fields.items()}
    return _as_built(one)


def _as_built(one: Mapping[Field, int | None]) -> MapFacts | None:
    """A map with these fields, of which the others are not known."""
    rank = one.get(("rank", 0))  # as written: one less
    kind, swizzle = one.get(("elemtype", 0)), one.get(("swizzle_mode", 0), 0)
    dimensions = None if rank is None else rank + 1
    element = _ELEMENTS.get(kind)
    mode = _SWIZZLE_MODES.get(swizzle)
    sides = [_side(one, n) for n in range(dimensions or 0)]
    box = tuple(side for side in sides if side is not None)
    unfit = _unfit(one, sides, element, mode)
    if dimensions is None or element is None or mode is None or len(box) < dimensions:
        partly = any(map(_sizes, one, one.values()))
        return MapFacts("", None, None, 0, None, dimensions, unfit, partly) if partly or unfit else None
    return MapFacts("", box, element, mode, prod(box) * element, dimensions, unfit)


def _side(one: Mapping[Field, int | None], n: int) -> int | None:
    """How many elements of a box there are along a dimension. The innermost one has no element stride, as no
    map is interleaved (CUDA driver API, cuTensorMapEncodeTiled)."""
    side, step = one.get(("box_dim", n)), one.get(("element_stride", n), 1) if n else 1
    return None if side is None or not step else -(-side // step)


def _sizes(field: Field, value: int | None) -> bool:
    """Whether an edit says how large a box is."""
    name, n = field
    return name in _OF_THE_BOX or (name == "element_stride" and n > 0 and value != 1)


def _unfit(
    one: Mapping[Field, int | None], sides: Sequence[int | None], element: int | None, swizzle: int | None
) -> str:
    """What is wrong with the fields of a map (PTX ISA, tensormap.replace; CUDA driver API,
    cuTensorMapEncodeTiled)."""
    for (name, n), value in one.items():
        low, high = _VALUES.get(name, (0, _ANY))
        if value is not None and not low <= value <= high:
            return f"{name} {n} is {value}, not between {low} and {high}"
        if value is not None and name == "global_stride" and value % 16:
            return f"global_stride {n} is {value} bytes, no multiple of 16"
    inner = sides[0] if sides else None
    if inner is None or element is None:
        return ""
    if inner * element % 16:
        return f"the inner side of the box is {inner * element} bytes, no multiple of 16"
    if swizzle and inner * element > swizzle:
        return f"the inner side of the box is {inner * element} bytes, more than the swizzle of {swizzle}"
    return ""


def _constant(o: Operand, function: Function) -> int | None:
    """The number that an operand always has: an immediate, or a register that is set to one once."""
    if isinstance(o, Imm):
        return o.value
    setters = [i for i in function.body if i.operands and i.operands[0] == o] if isinstance(o, Reg) else []
    if len(setters) == 1 and setters[0].op == "mov" and setters[0].guard is None:
        return immediate(setters[0].operands[1])
    return None


def _field(edit: Instr) -> Field:
    """What an edit sets."""
    return edit.mods[2], (immediate(edit.operands[1]) if len(edit.operands) > 2 else 0) or 0


def _replace(instr: Instr, at: Mem, function: Function) -> Decoded:
    field, value = _field(instr), _constant(instr.operands[-1], function)
    if not 0 <= field[1] < _ORDINALS.get(field[0], 1):
        return malformed(instr)
    if field[0] in _MODES and value not in _MODES[field[0]]:
        return Unsupported(f"{instr.name}: a tensor map with {field[0]} {value} is not modelled")
    if "global" in instr.mods:

        def edit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
            _edited(ctx, v[0], field, value)
            return ((Ev.MAP_REPLACE, site, ctx.map_index(v[0]), 0),)

        return effect(edit, (_address(at),))
    if window(instr.mods) == "generic":
        return Unsupported(f"{instr.name}: a tensor map at a generic address")

    def write(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        # PTX ISA, tensormap.replace: a weak write of the whole object.
        faults: list[Event] = []
        here = region(ctx, site, faults, v[0], OWN, MAP_BYTES, MAP_BYTES, "the tensor map")
        return [*faults, (Ev.WRITE, site, here.footprint(ctx))]

    return effect(write, (at,))


def _edited(ctx: Context, at: Value, field: Field, value: int | None) -> None:
    """An edit in place: what is known of the map has to stay what it is, for copies may have been made by it.

    Raises Opaque where the edit makes another box of it.
    """
    known = ctx.tensor_map(at)
    now: int | None
    match field[0]:
        case "rank":
            now = None if known.dimensions is None else known.dimensions - 1
        case "box_dim" if known.box is not None and field[1] < len(known.box):
            now = known.box[field[1]]
        case "elemtype" if known.element is not None:
            now, value = known.element, _ELEMENTS.get(value)
        case _:
            now = None
    if field[0] == "element_stride" and _sizes(field, value):
        raise Opaque(f"{known.name} is edited in place: its box may have fewer elements then")
    if now is not None and now != value:
        raise Opaque(f"{known.name} is edited in place: its {field[0]} is another one then")
    if field[0] == "rank" and value is not None and known.rank is None:
        ctx.define_map(at, replace(known, rank=value + 1))


def _cp_fence(operands: Sequence[Operand], scope: int, facts: MapFacts | None) -> Decoded:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        # The warp copies the edited map to global memory, which replaces the one there, and releases it.
        faults: list[Event] = []
        source = region(ctx, site, faults, v[1], OWN, MAP_BYTES, MAP_BYTES, "the tensor map", 1)
        number = ctx.map_index(v[0])
        ctx.publish_map(v[0], facts)
        # PTX ISA, tensormap.cp_fenceproxy: the warp copies, so that each lane may be the one that reads; what
        # one lane has edited, the others see only past a bar.warp.sync. All have read once the warp goes on.
        return [
            *faults,
            meeting(ctx, site),
            (Ev.READ, site, source.footprint(ctx), -1),
            (Ev.WARP_SYNC, site, ctx.warp_lanes),
            (Ev.MAP_REPLACE, site, number, 1),
            (Ev.MAP_CP_FENCE, site, number, scope),
        ]

    return effect(emit, operands)
