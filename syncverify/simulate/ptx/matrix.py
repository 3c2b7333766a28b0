"""ldmatrix, stmatrix, movmatrix and mma: products and moves of one warp (PTX ISA, 9.7.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx import fragments
from syncverify.simulate.ptx.addressing import (
    Part,
    address,
    barrier_free,
    differing,
    note_read,
    note_write,
    parts,
    space_of,
)
from syncverify.simulate.ptx.floats import mode_of
from syncverify.simulate.ptx.loads import bytes_of
from syncverify.simulate.ptx.memory import Arena
from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Instr, Vector
from syncverify.simulate.ptx.types import Lanes, types_of

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment, Next, Step

_LANE = np.arange(32)


def _matrices(c: Context, i: Instr) -> int:
    count = next((n for w, n in (("x1", 1), ("x2", 2), ("x4", 4)) if w in i.mods), 0)
    for w in i.mods:
        if w not in ("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta", "b16"):
            raise c.fail(f"the modifier .{w}")
    if not count:
        raise c.fail()
    return count


@builder("ldmatrix", together=True)
def _ldmatrix(c: Context, i: Instr) -> Step:
    count = _matrices(c, i)
    d = i.operands[0]
    targets = d.items if isinstance(d, Vector) else (d,)
    if len(targets) != count:
        raise c.fail(f"expected {count} destinations")
    writers = [c.writer(x, 32) for x in targets]
    where, space, trans = address(c, i.operands[1]), space_of(i.mods), "trans" in i.mods

    def load(f: Fragment) -> Next:
        m = f.warp.machine
        full_warp(m, f, i.name)
        arena, starts = _rows(m, f, space, where(f.R), 8 * count)
        for n, write in enumerate(writers):
            words = []
            for at, size in _elements(starts[8 * n : 8 * n + 8], trans):
                note_read(m, f, Part("shared", arena, at, _LANE), size)
                words.append(arena.load(at, 8 * size))
            value = words[0] if not trans else words[0].astype(np.uint32) | (words[1].astype(np.uint32) << 16)
            write(f, value, f.mask)
        return None

    return lambda f: f.warp.machine.whole_warp(f, load, f"{i.name} by a part of the warp")


def _rows(m: Machine, f: Fragment, space: str, a: Lanes, count: int) -> tuple[Arena, Lanes]:
    """The bytes where the rows begin that the first ``count`` lanes name."""
    found = parts(m, f, space, a, _LANE < count, 16, 16)
    starts = np.zeros(count, np.int64)
    for part in found:
        if part.space != "shared":
            raise m.undefined(f, "a matrix lies in shared memory", "ldmatrix, stmatrix")
        barrier_free(m, f, part, 16)
        starts[part.lanes] = part.at
    return found[0].arena, starts


def _elements(starts: Lanes, trans: bool) -> list[tuple[Lanes, int]]:
    """The bytes of one matrix that belong to each lane: a word of its row, or two elements of its column."""
    if not trans:
        return [(starts[_LANE >> 2] + 4 * (_LANE & 3), 4)]
    return [(starts[2 * (_LANE & 3) + k] + 2 * (_LANE >> 2), 2) for k in range(2)]


def full_warp(m: Machine, f: Fragment, name: str) -> None:
    """Undefined behaviour unless all lanes of the warp are there."""
    if not f.mask.all():
        raise m.undefined(f, f"{name} by a warp of which lanes have exited", name)


@builder("stmatrix", together=True)
def _stmatrix(c: Context, i: Instr) -> Step:
    count = _matrices(c, i)
    s = i.operands[1]
    sources = [c.source(x, 32) for x in (s.items if isinstance(s, Vector) else (s,))]
    if len(sources) != count:
        raise c.fail(f"expected {count} sources")
    where, space, trans = address(c, i.operands[0]), space_of(i.mods), "trans" in i.mods

    def store(f: Fragment) -> Next:
        m = f.warp.machine
        full_warp(m, f, i.name)
        arena, starts = _rows(m, f, space, where(f.R), 8 * count)
        written = []
        for n, slot in enumerate(sources):
            word = f.R[slot]
            for half, (at, size) in enumerate(_elements(starts[8 * n : 8 * n + 8], trans)):
                part = Part("shared", arena, at, _LANE)
                value = word if size == 4 else (word >> np.uint32(16 * half)).astype(np.uint16)
                note_write(m, f, part, size, data=bytes_of([value], size))
                arena.store(at, 8 * size, value)
                written.append((part, 8 * size, value))
        for part, bits, value in written:  # rows that share bytes are written in no order
            differing(m, f, part, bits, value)
        m.version += 1
        return None

    return lambda f: f.warp.machine.whole_warp(f, store, f"{i.name} by a part of the warp")


@builder("movmatrix", together=True)
def _movmatrix(c: Context, i: Instr) -> Step:
    s, write = c.source(i.operands[1], 32), c.writer(i.operands[0], 32)
    if "trans" not in i.mods:
        raise c.fail()

    def move(f: Fragment) -> Next:
        full_warp(f.warp.machine, f, i.name)
        matrix = np.ascontiguousarray(f.R[s]).view(np.uint16).reshape(8, 8)
        write(f, np.ascontiguousarray(matrix.T).view(np.uint32).reshape(32), f.mask)
        return None

    return lambda f: f.warp.machine.whole_warp(f, move, f"{i.name} by a part of the warp")


@builder("mma", together=True)
def _mma(c: Context, i: Instr) -> Step:
    shape = next((w for w in i.mods if w.startswith(("m16n8k", "m8n8k"))), None)
    kinds = [m for m in i.mods if m in fragments.PARTS or m in types_of(i.mods)]
    if shape is None or len(kinds) != 4:
        raise c.fail()
    d_kind, a_kind, b_kind, c_kind = kinds
    if (
        not {a_kind, b_kind} <= fragments.ELEMENTS.keys() | fragments.PARTS.keys()
        or (a_kind == "b1") != ("popc" in i.mods and not {"xor", "and"}.isdisjoint(i.mods))
        or d_kind not in ("f32", "f16", "s32", "f64")
        or (shape.startswith("m8") and d_kind not in ("s32", "f64"))
    ):
        raise c.fail()
    for w in i.mods:
        if (
            w not in ("sync", "aligned", "row", "col", "satfinite", "rn", "xor", "and", "popc", shape)
            and w not in kinds
            and not (d_kind == "f64" and w in fragments.MODES)
        ):
            raise c.fail(f"the modifier .{w}")
    d, a, b, e = i.operands[:4]
    if not all(isinstance(x, Vector) for x in (d, a, b, e)):
        raise c.fail()
    bits, mode = 64 if d_kind == "f64" else 32, mode_of(i.mods)
    A, B, C = ([c.source(x, bits) for x in v.items] for v in (a, b, e))  # type: ignore[union-attr]
    writers = [c.writer(x, bits) for x in d.items]  # type: ignore[union-attr]

    def multiply(f: Fragment) -> Next:
        full_warp(f.warp.machine, f, i.name)
        R = f.R
        rows = fragments.rows_of_a([R[s] for s in A], a_kind)
        columns = fragments.columns_of_b([R[s] for s in B], b_kind)
        start = fragments.matrix_of([R[s] for s in C], c_kind)
        if d_kind == "f64":
            total = fragments.fused(rows, columns, start, mode)
        else:
            product = fragments.different_bits(rows, columns) if "xor" in i.mods else rows @ columns
            total = product + start
        if d_kind == "s32":
            total = fragments.integers(total, clamps="satfinite" in i.mods)
        for write, value in zip(writers, fragments.registers_of(total, d_kind)[: len(writers)], strict=True):
            write(f, value, f.mask)
        return None

    return lambda f: f.warp.machine.whole_warp(f, multiply, f"{i.name} by a part of the warp")
