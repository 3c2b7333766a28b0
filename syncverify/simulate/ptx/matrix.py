"""ldmatrix, stmatrix, mma and wgmma (PTX ISA, 9.7.14 and 9.7.15)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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
from syncverify.simulate.ptx.clocks import Stamp
from syncverify.simulate.ptx.copies import mark, new_agent
from syncverify.simulate.ptx.engines import Operation
from syncverify.simulate.ptx.memory import Arena
from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Imm, Instr, Reg, Vector
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
        _full_warp(m, f, i.name)
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


def _full_warp(m: Machine, f: Fragment, name: str) -> None:
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
        _full_warp(m, f, i.name)
        arena, starts = _rows(m, f, space, where(f.R), 8 * count)
        written = []
        for n, slot in enumerate(sources):
            word = f.R[slot]
            for half, (at, size) in enumerate(_elements(starts[8 * n : 8 * n + 8], trans)):
                part = Part("shared", arena, at, _LANE)
                note_write(m, f, part, size)
                value = word if size == 4 else (word >> np.uint32(16 * half)).astype(np.uint16)
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
        _full_warp(f.warp.machine, f, i.name)
        matrix = np.ascontiguousarray(f.R[s]).view(np.uint16).reshape(8, 8)
        write(f, np.ascontiguousarray(matrix.T).view(np.uint32).reshape(32), f.mask)
        return None

    return lambda f: f.warp.machine.whole_warp(f, move, f"{i.name} by a part of the warp")


@builder("mma", together=True)
def _mma(c: Context, i: Instr) -> Step:
    shape = next((w for w in i.mods if w.startswith("m16n8k")), None)
    kinds = types_of(i.mods)
    if shape is None or len(kinds) != 4:
        raise c.fail()
    d_kind, a_kind, b_kind, c_kind = kinds
    if (
        a_kind not in fragments.ELEMENTS
        or b_kind not in fragments.ELEMENTS
        or d_kind not in ("f32", "f16", "s32")
    ):
        raise c.fail()
    for w in i.mods:
        if w not in ("sync", "aligned", "row", "col", "satfinite", shape) and w not in kinds:
            raise c.fail(f"the modifier .{w}")
    if "satfinite" in i.mods:
        raise c.fail(".satfinite")
    d, a, b, e = i.operands[:4]
    if not all(isinstance(x, Vector) for x in (d, a, b, e)):
        raise c.fail()
    A, B, C = ([c.source(x, 32) for x in v.items] for v in (a, b, e))  # type: ignore[union-attr]
    writers = [c.writer(x, 32) for x in d.items]  # type: ignore[union-attr]

    def multiply(f: Fragment) -> Next:
        _full_warp(f.warp.machine, f, i.name)
        R = f.R
        product = fragments.rows_of_a([R[s] for s in A], a_kind) @ fragments.columns_of_b(
            [R[s] for s in B], b_kind
        )
        total = product + fragments.matrix_of([R[s] for s in C], c_kind)
        if d_kind == "s32":
            total = ((total.astype(np.int64)) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
        for write, value in zip(writers, fragments.registers_of(total, d_kind), strict=True):
            write(f, value, f.mask)
        return None

    return lambda f: f.warp.machine.whole_warp(f, multiply, f"{i.name} by a part of the warp")


# -- wgmma ------------------------------------------------------------------------------------------------

_SECTION = "wgmma"


@dataclass(eq=False, slots=True)
class Product:
    """One wgmma of a warpgroup: who has issued it, and what its parts have brought."""

    line: int
    descriptors: tuple[int, int]
    agent: int
    stamp: Stamp
    adds: bool  # scale-d
    issued: set[int] = field(default_factory=set)
    handed: dict[int, Any] = field(default_factory=dict)  # by warp: what it had read when it issued this
    parts: dict[int, Operation] = field(default_factory=dict)  # by warp
    results: dict[int, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Warpgroup:
    """Four warps and the wgmma that they have issued, by number."""

    products: list[Product] = field(default_factory=list)


@builder("wgmma", together=True)
def _wgmma(c: Context, i: Instr) -> Step:
    match i.mods[0]:
        case "fence":
            then: Callable[[Fragment], Next] = _fence
        case "commit_group":
            then = _commit
        case "wait_group":
            operand = i.operands[0]
            if not isinstance(operand, Imm):
                raise c.fail("the number of groups is no constant")
            left = operand.value

            def wait(f: Fragment) -> Next:
                return _wait(f, left)

            then = wait
        case "mma_async":
            then = _multiply(c, i)
        case _:
            raise c.fail()
    return lambda f: f.warp.machine.whole_warp(f, then, f"{i.name} by a part of the warp")


def _fence(f: Fragment) -> Next:
    f.warp.touched.clear()
    f.warp.fenced = True
    return None


def _commit(f: Fragment) -> Next:
    f.warp.matrix_groups.append(f.warp.matrix_open)
    f.warp.matrix_open = []
    return None


def _group(f: Fragment) -> Warpgroup:
    return f.warp.block.warpgroups.setdefault(f.warp.number // 4, Warpgroup())


def _team(f: Fragment) -> list[Any]:
    return [w for w in f.warp.block.warps if w.number // 4 == f.warp.number // 4]


def _wait(f: Fragment, left: int) -> Next:
    m, warp, group = f.warp.machine, f.warp, _group(f)
    groups = warp.matrix_groups
    done = groups[: max(len(groups) - left, 0)]
    numbers = [n for g in done for n in g]
    team = {w.number for w in _team(f)}

    def ready() -> bool:
        return all(group.products[n].issued >= team for n in numbers)

    def resume() -> Next:
        for n in numbers:
            product = group.products[n]
            for op in product.parts.values():
                op.run_all()
            apply = product.results.pop(warp.number)
            apply(f)
            rows = slice(warp.first_thread, warp.first_thread + warp.count)
            m.clocks.learn(rows, *product.stamp)
            for reads in product.handed.values():
                m.clocks.know_reads(rows, reads)
            if m.clocks.epoch[product.agent] == product.stamp[1]:
                m.clocks.done[product.agent] = True
        del groups[: len(done)]
        _in_flight(f)
        m.version += 1
        return f.pc + 1

    if ready():
        return resume()
    return f.block(ready, resume)


def _in_flight(f: Fragment) -> None:
    warp = f.warp
    numbers = {n for g in (*warp.matrix_groups, warp.matrix_open) for n in g}
    warp.accumulators = {
        r: key for r, key in warp.accumulators.items() if numbers & set(warp.flights.get(key, ()))
    }
    warp.operands = {r: n for r, n in warp.operands.items() if n in numbers}
    warp.in_flight = frozenset(warp.accumulators) | frozenset(warp.operands)


_SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}


@lru_cache(maxsize=4096)
def operand_bytes(descriptor: int, rows: int, columns: int, width: int, transposed: bool) -> Lanes:
    """Shared byte of each element of a matrix (rows are M or N, columns K), before the block's base.

    ``width``: bytes of an element. ``transposed``: rows follow each other in memory (MN-major).
    """
    start = (descriptor & 0x3FFF) << 4
    leading = ((descriptor >> 16) & 0x3FFF) << 4
    stride = ((descriptor >> 32) & 0x3FFF) << 4
    swizzle = _SWIZZLE[(descriptor >> 62) & 3]
    r, k = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    if not transposed:
        at = k * width
        if swizzle:
            out = start + (r // 8) * stride + (r % 8) * swizzle + at
        else:
            out = start + (r // 8) * stride + (at // 16) * leading + (r % 8) * 16 + at % 16
    else:
        at = r * width
        if swizzle:
            out = start + (at // swizzle) * leading + (k // 8) * stride + (k % 8) * swizzle + at % swizzle
        else:
            out = start + (at // 16) * stride + (k // 8) * leading + (k % 8) * 16 + at % 16
    if swizzle:
        bits = {32: 1, 64: 3, 128: 7}[swizzle]
        out = out ^ (((out >> 7) & bits) << 4)
    return out


_WIDTH = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1, "e4m3": 1, "e5m2": 1}


def _multiply(c: Context, i: Instr) -> Callable[[Fragment], Next]:
    shape = next(w for w in i.mods if w.startswith("m64n"))
    columns, depth = (int(x) for x in shape[4:].split("k"))
    kinds = types_of(i.mods)
    d_kind, a_kind, b_kind = kinds
    for w in i.mods:
        if w not in ("mma_async", "sync", "aligned", shape) and w not in kinds:
            raise c.fail(f"the modifier .{w}")
    d, a, b, *rest = i.operands
    if not isinstance(d, Vector) or a_kind not in _WIDTH or b_kind not in _WIDTH:
        raise c.fail()
    slots = tuple(c.source(x, 32) for x in d.items)
    a_slots = tuple(c.source(x, 32) for x in a.items) if isinstance(a, Vector) else ()
    a_at = None if a_slots else c.source(a, 64)
    b_at = c.source(b, 64)
    scale = rest.pop(0)
    scale_of = c.predicate(scale) if isinstance(scale, Reg) else None
    constant = isinstance(scale, Imm) and scale.value != 0
    signs = [x.value for x in rest if isinstance(x, Imm)]
    if len(signs) != len(rest):
        raise c.fail("a factor or a major-ness that is no constant")
    negate_a, negate_b = (signs[0], signs[1]) if len(signs) >= 2 else (1, 1)
    majors = signs[2:]
    trans_a = bool(majors[0]) if not a_slots and majors else False
    trans_b = bool(majors[-1]) if majors else False
    width = _WIDTH[a_kind]
    key = slots

    def issue(f: Fragment) -> Next:
        m, warp = f.warp.machine, f.warp
        _full_warp(m, f, i.name)
        if len(_team(f)) < 4:
            raise m.undefined(f, "a warpgroup of fewer than four warps", _SECTION)
        if not warp.fenced:
            raise m.undefined(f, "a wgmma with no wgmma.fence before it", "wgmma.fence")
        if warp.touched & {*slots, *a_slots}:
            raise m.undefined(
                f, "registers of this wgmma were written since the last wgmma.fence", "wgmma.fence"
            )
        for s in slots:
            if warp.accumulators.get(s, key) != key or s in warp.operands:
                raise m.undefined(
                    f, "accumulators of two wgmma in flight share a register", "wgmma.wait_group"
                )
        for s in a_slots:
            if s in warp.accumulators:
                raise m.undefined(f, "an accumulator in flight is an operand", "wgmma.wait_group")
        R = f.R
        descriptors = (_same(m, f, R[a_at]) if a_at is not None else 0, _same(m, f, R[b_at]))
        factors = scale_of(R) if scale_of is not None else np.full(32, constant)
        if factors.any() != factors.all():
            raise m.undefined(f, "lanes give different values of scale-d", _SECTION)
        group, number = _group(f), warp.matrix_count
        warp.matrix_count += 1
        if number == len(group.products):
            agent = new_agent(m, f, 0, "a wgmma's")
            stamp = m.clocks.stamp(agent)
            group.products.append(Product(m.line(f), descriptors, agent, stamp, bool(factors[0])))
        product = group.products[number]
        if product.line != m.line(f):
            raise m.undefined(
                f, f"warps of one warpgroup execute different wgmma (line {product.line})", _SECTION
            )
        if product.descriptors != descriptors:
            raise m.undefined(f, "warps of one warpgroup give different descriptors", _SECTION)
        if product.adds != bool(factors[0]):
            raise m.undefined(f, "warps of one warpgroup give different values of scale-d", _SECTION)
        product.issued.add(warp.number)
        own = slice(warp.first_thread, warp.first_thread + warp.count)
        product.handed[warp.number] = m.clocks.handed(own)
        _start(m, f, product, descriptors, factors[0])
        warp.matrix_open.append(number)
        for s in slots:
            warp.accumulators[s] = key
        for s in a_slots:
            warp.operands[s] = number
        warp.flights.setdefault(key, []).append(number)
        warp.in_flight = frozenset(warp.accumulators) | frozenset(warp.operands)
        m.version += 1
        return None

    def _start(m: Machine, f: Fragment, product: Product, descriptors: tuple[int, int], add: bool) -> None:
        warp = f.warp
        know = m.clocks.know[:, warp.first_thread : warp.first_thread + warp.count].max(axis=1)
        b_bytes = _operand(m, f, descriptors[1], columns, depth, width, trans_b)
        mark_matrix(m, f, b_bytes, product.agent, know, (descriptors[1], columns, depth, width, trans_b, -1))
        if a_at is not None:
            whole = operand_bytes(descriptors[0], 64, depth, width, trans_a)
            row = 16 * (warp.number % 4)
            a_bytes = _placed(m, f, whole[row : row + 16])
            mark_matrix(m, f, a_bytes, product.agent, know, (descriptors[0], 64, depth, width, trans_a, row))
        else:
            held = fragments.rows_of_a([f.R[s] for s in a_slots], a_kind)
        out: list[Any] = []

        def read() -> None:
            left = _read(m, a_bytes, a_kind) if a_at is not None else held
            right = _read(m, b_bytes, b_kind)
            out.append((negate_a * left) @ (negate_b * right).T)

        def apply(now: Fragment) -> None:
            total = out[0]
            if add:
                total = total + fragments.matrix_of([now.R[s] for s in slots], d_kind)
            if d_kind == "s32":
                total = (total.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
            for s, value in zip(slots, fragments.registers_of(total, d_kind), strict=True):
                now.R[s] = value

        op = Operation(m, f"wgmma line {m.line(f)}", m.here(f), [[read]], [lambda: None])
        product.parts[warp.number] = op
        product.results[warp.number] = apply
        op.start()

    return issue


def _same(m: Machine, f: Fragment, values: Lanes) -> int:
    if (values != values[0]).any():
        raise m.undefined(f, "lanes give different descriptors", _SECTION)
    return int(values[0])


def _operand(
    m: Machine, f: Fragment, descriptor: int, rows: int, columns: int, width: int, trans: bool
) -> Lanes:
    return _placed(m, f, operand_bytes(descriptor, rows, columns, width, trans))


def _placed(m: Machine, f: Fragment, at: Lanes) -> Lanes:
    """Bytes in the arena; outside of the block's memory is undefined."""
    block = f.warp.block
    inside = at - (block.shared_base & 0x3FFFF)
    if int(inside.min()) < 0 or int(inside.max()) >= block.shared_size:
        raise m.undefined(f, "a wgmma operand lies outside of shared memory", "matrix descriptors")
    return inside + block.arena


def mark_matrix(
    m: Machine, f: Fragment, at: Lanes, agent: int, know: Lanes, layout: tuple[int | bool, ...]
) -> None:
    """Notes the bytes of an operand as read by the async proxy. ``layout`` tells it from all others."""
    shadow = m.shared.arena.shadow
    assert shadow is not None
    index = _distinct(m, at, shadow.granule, (f.warp.block.arena, *layout))
    if m.shared.barrier[index * shadow.granule >> 3].any():
        raise m.undefined(f, "a wgmma operand covers a live mbarrier object", "mbarrier")
    mark(m, f, m.shared.arena, index, agent, False, "shared", know)


def _distinct(m: Machine, at: Lanes, granule: int, key: tuple[int | bool, ...]) -> Lanes:
    """The granules of an operand, remembered by its layout."""
    found = m.operands.get(key)
    if found is None:
        found = m.operands[key] = np.unique(at // granule)
    return found


def _read(m: Machine, at: Lanes, kind: str) -> Lanes:
    width = _WIDTH[kind]
    raw = m.shared.arena.load(at.ravel(), 8 * width)
    if kind == "tf32":
        raw = raw & np.uint32(0xFFFFE000)
    return raw.view(fragments.ELEMENTS[kind][0]).astype(np.float64).reshape(at.shape)
