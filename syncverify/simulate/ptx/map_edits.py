"""Tensor maps that a kernel edits (PTX ISA: tensormap.replace, tensormap.cp_fenceproxy)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx import tensormaps
from syncverify.simulate.ptx.addressing import Part, address, note_read, note_write, parts, space_of
from syncverify.simulate.ptx.clocks import HAPPENS_BEFORE, OF_ANY_SCOPE
from syncverify.simulate.ptx.harm import Kind
from syncverify.simulate.ptx.matrix import full_warp
from syncverify.simulate.ptx.ordering import fence, scope_of
from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Instr
from syncverify.simulate.ptx.types import BITS, LANES, Lanes, types_of

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Fragment, Next, Step

_ONE = ("global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode")
_MANY = ("box_dim", "global_dim", "global_stride", "element_stride")
_COPY = frozenset(
    {"cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", "cta", "cluster", "gpu",
     "sys", "sync", "aligned"}
)  # fmt: skip
_LANE = np.arange(LANES)


@builder("tensormap", together=True)
def _tensormap(c: Context, i: Instr) -> Step:
    if i.mods[0] == "cp_fenceproxy":
        return _copy(c, i)
    if i.mods[0] != "replace":
        raise c.fail()
    return _replace(c, i)


def _replace(c: Context, i: Instr) -> Step:
    name = next(w for w in i.mods if w in _ONE or w in _MANY)
    for w in i.mods:
        if w not in ("replace", "tile", "b1024", name, "global", "shared", "shared::cta") and w not in BITS:
            raise c.fail(f"the modifier .{w}")
    where, space = address(c, i.operands[0]), space_of(i.mods)
    bits = BITS[types_of(i.mods)[-1]]
    order = c.source(i.operands[1], 32) if name in _MANY else None
    value = c.source(i.operands[-1], bits)

    def run(f: Fragment) -> Next:
        m, R = f.warp.machine, f.R
        for part in parts(m, f, space, where(R), f.mask, tensormaps.SIZE, 64):
            note_read(m, f, part, tensormaps.SIZE)
            note_write(m, f, part, tensormaps.SIZE)
            if part.space == "global":
                _unread(m, f, {int(at) for at in part.at}, f.warp.threads[part.lanes])
            for lane, at in zip(part.lanes.tolist(), part.at.tolist(), strict=True):
                raw = part.arena.bytes[at : at + tensormaps.SIZE]
                fields = tensormaps.decode(raw.tobytes())
                if fields is None and not raw.any():
                    fields = tensormaps.blank()
                if fields is None:
                    continue  # no map: who uses it will find that out
                number = 0 if order is None else int(R[order][lane])
                if not tensormaps.edit(fields, name, number, int(R[value][lane])):
                    raise m.undefined(f, f"{name} {number} is no field of a map", "tensormap.replace", lane)
                raw[:] = np.frombuffer(tensormaps.encode(fields), np.uint8)
        m.version += 1
        return None

    return run


def _copy(c: Context, i: Instr) -> Step:
    for w in i.mods:
        if w not in _COPY:
            raise c.fail(f"the modifier .{w}")
    to, source = address(c, i.operands[0]), address(c, i.operands[1])
    scope = scope_of(i.mods)

    def uniform(f: Fragment, a: Lanes) -> Lanes:
        if (a[f.mask] != a[int(np.argmax(f.mask))]).any():
            raise f.warp.machine.undefined(f, "lanes name different maps", "tensormap.cp_fenceproxy")
        return a

    def copy(f: Fragment) -> Next:
        m, warp = f.warp.machine, f.warp
        full_warp(m, f, i.name)
        (origin,) = parts(m, f, "shared::cta", uniform(f, source(f.R)), f.mask, tensormaps.SIZE, 128)
        (target,) = parts(m, f, "global", uniform(f, to(f.R)), f.mask, tensormaps.SIZE, 128)
        rows = warp.threads[f.mask]
        lanes = np.flatnonzero(f.mask)
        # The warp copies as one: each lane moves a word, and each knows what the others have moved.
        m.clocks.tick(rows)
        _each_word(m, f, origin, lanes, note_read)
        _each_word(m, f, target, lanes, note_write)
        _unread(m, f, {int(target.at[0])}, rows)
        begin, end = int(origin.at[0]), int(target.at[0])
        target.arena.bytes[end : end + tensormaps.SIZE] = origin.arena.bytes[begin : begin + tensormaps.SIZE]
        for row in (HAPPENS_BEFORE, OF_ANY_SCOPE):
            m.clocks.know[row][np.ix_(rows, rows)] = m.clocks.epoch[rows]
        m.clocks.tick(rows)
        fence(m, f, f.mask, True, False, scope)
        m.version += 1
        return None

    return lambda f: f.warp.machine.whole_warp(f, copy, f"{i.name} by a part of the warp")


def _unread(m: Any, f: Fragment, places: set[int], rows: Lanes) -> None:
    """Copies by a map at these places have read it, as one of the threads that edit it knows; else harm."""
    for at in places:
        for agent, epoch, line in m.map_reads.get(at, ()):
            if (m.clocks.know[HAPPENS_BEFORE, rows, agent] < epoch).all():
                detail = "an edit of a tensor map, in no order with a copy that reads it"
                raise m.harm(
                    Kind.RACE, m.here(f), detail, "tensormap.replace", m.agent_place(agent, line), "global"
                )


def _each_word(m: Any, f: Fragment, part: Part, lanes: Lanes, note: Any) -> None:
    word = Part(part.space, part.arena, part.at + 4 * lanes, lanes)
    note(m, f, word, 4)
