"""wgmma, ldmatrix and stmatrix as events (PTX ISA, wgmma, ldmatrix, stmatrix)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from zlib import crc32

from syncverify.frontends.ptx.decode.barriers import meeting
from syncverify.frontends.ptx.decode.descriptors import ATOM_ROW, K_BYTES, operand_bytes
from syncverify.frontends.ptx.decode.effects import Context, Effect, Opaque, Unsupported, Value
from syncverify.frontends.ptx.decode.parts import (
    Decoded,
    constant,
    effect,
    fault,
    immediate,
    malformed,
    next_array,
    promised,
    registers,
    window,
    within_some_launch,
)
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Vector
from syncverify.frontends.ptx.values.register_values import INTS, lanes_of
from syncverify.model.events import Ev, Event, Footprint
from syncverify.model.intervals import merge

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_M = 64
#: Bits of a thread's number that tell the threads of one warpgroup apart.
WARPGROUP = 127
#: The bits of a matrix descriptor that hold where the matrix begins (PTX ISA: matrix descriptor format).
ADDRESS = 0x3FFF
#: A warp multiplies its own rows of A (PTX ISA, wgmma: Register Fragments). For A in shared memory the text
#: says so nowhere, so in strict mode the other rows count as read too.
_WARP_ROWS = 16
_ROW_BYTES = 16  # of a matrix that ldmatrix and stmatrix move
_MATRICES = {"x1": 1, "x2": 2, "x4": 4}


def decode_wgmma(instr: Instr) -> Decoded:
    """``wgmma.*``."""
    match instr.mods[0] if instr.mods else "":
        case "fence":
            return constant(Ev.WGMMA_FENCE)
        case "commit_group":
            return constant(Ev.WGMMA_COMMIT)
        case "wait_group":
            pending = immediate(instr.operands[0]) if instr.operands else None
            return malformed(instr) if pending is None or pending < 0 else constant(Ev.WGMMA_WAIT, pending)
        case "mma_async":
            m = matrices(instr)
            return malformed(instr) if m is None else _mma(m)
    return Unsupported(f"{instr.name} is not known")


@dataclass(frozen=True, slots=True)
class Matrices:
    """A ``wgmma.mma_async``: accumulator registers, A (a descriptor, or registers), B's descriptor, the
    predicate or number that makes it accumulate, columns and depth, bytes along K, and which operands are
    MN-major."""

    acc: tuple[Reg, ...]
    a: Operand
    a_registers: tuple[Reg, ...]
    b: Operand
    scale: Operand
    n: int
    k: int
    a_bytes: int
    b_bytes: int
    a_transposed: bool
    b_transposed: bool


def matrices(instr: Instr) -> Matrices | None:
    """The operands of a ``wgmma.mma_async``; None if they are not understood."""
    ops, mods = instr.operands, instr.mods
    shape = next((m for m in map(_SHAPE.fullmatch, mods) if m), None)
    sparse = "sp" in mods
    if shape is None or len(ops) < (6 if sparse else 4) or not isinstance(ops[0], Vector):
        return None
    acc = tuple(r for r in ops[0].items if isinstance(r, Reg))
    if len(acc) != len(ops[0].items) or not acc:
        return None
    a, b = ops[1], ops[2]
    a_registers = tuple(r for r in registers(a) if isinstance(r, Reg)) if isinstance(a, Vector) else ()
    if sparse and isinstance(ops[3], Reg):
        a_registers = (*a_registers, ops[3])  # the metadata
    scale, *rest = ops[5 if sparse else 3 :]
    flags = [o.value for o in rest if isinstance(o, Imm)]
    if len(flags) != len(rest):
        return None
    # imm-scale-a, imm-scale-b, then imm-trans of each operand in shared memory (16-bit types alone)
    transposes = [bool(x) for x in flags[2:]]
    if transposes and len(transposes) != (1 if isinstance(a, Vector) else 2):
        return None
    a_transposed = bool(len(transposes) == 2 and transposes[0])
    b_transposed = bool(transposes and transposes[-1])
    # A dense operand is 32 bytes along K. A sparse A is packed to that; its B is twice as deep.
    return Matrices(
        acc, a, a_registers, b, scale, int(shape[1]), int(shape[2]), K_BYTES, K_BYTES * (2 if sparse else 1),
        a_transposed, b_transposed,
    )  # fmt: skip


def _mma(m: Matrices) -> Decoded:
    return products([m])


def products(some: Sequence[Matrices]) -> Effect:
    """One product, or several that follow each other, of matrices in shared memory, as one event: it
    accumulates if the last does."""
    last = some[-1]
    a_shared, named = not isinstance(last.a, Vector), last.acc[0].name
    held = last.a_registers[0].name if last.a_registers else None
    asked = (last.scale, *(m.b for m in some), *((m.a for m in some) if a_shared else ()))
    names = tuple(r.name for r in registers(*asked) if isinstance(r, Reg))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        row = ctx.warp % 4 * _WARP_ROWS
        own, rest = (row, row + _WARP_ROWS), (0, row, row + _WARP_ROWS, _M)
        bits = [ctx.number(x, "a matrix descriptor") for x in v[1:]]
        right = [
            _operand(ctx.cta, b, (0, m.n), m.b_bytes, m.b_transposed)
            for m, b in zip(some, bits[: len(some)], strict=True)
        ]
        firsts = [*zip(some, bits[len(some) :], strict=True)] if a_shared else []
        left, others, whole = (
            [_operand(ctx.cta, b, rows, m.a_bytes, m.a_transposed) for m, b in firsts]
            for rows in (own, rest, (0, _M))
        )
        accumulate = int(ctx.number(v[0], "scale-d") != 0)
        fragment = ctx.fragment(held) if held is not None else -1
        a, b, c = (ctx.footprint(_all_of(x)) if x else -1 for x in (left, right, others))
        if c in (a, b):  # rows of all warps that lie at one place are the own ones
            c = -1
        event: Event = (Ev.WGMMA, site, ctx.fragment(named), a, fragment, b, accumulate, c)
        if ctx.vary(names, site) & WARPGROUP:
            all_rows = ctx.footprint(_all_of(whole)) if whole else -1
            event = (*event, all_rows, crc32(repr([x & ~ADDRESS for x in bits]).encode()))
        # else data flow shows that all threads of a warpgroup name the same
        return (*_outside(ctx, site, (right, left)), event)

    return effect(emit, asked, unknown=last.acc)


def descriptor(instr: Instr, side: int) -> Operand | None:
    """The descriptor of B (0) or A (1) of a product; None where there is none."""
    m = matrices(instr) if instr.op == "wgmma" and instr.mods[:1] == ("mma_async",) else None
    found = None if m is None else (m.b, m.a)[side]
    return None if isinstance(found, Vector) else found


def _outside(ctx: Context, site: int, operands: Sequence[Sequence[Footprint]]) -> tuple[Event, ...]:
    """A fault for an operand whose descriptor leads out of shared memory, or of its array. ``operands``: B of
    each product, and A, if it is in shared memory."""
    for n, side, f in ((n, side, f) for side, some in enumerate(operands) for n, f in enumerate(some)):
        lo, hi = f.intervals[0][0], f.intervals[-1][1]
        within_some_launch(ctx, site, ctx.cta, (lo, hi), 2 * n + side)
        if lo < ctx.shared_start or hi > ctx.shared_end:
            where = f"{ctx.shared_start}..{ctx.shared_end - 1}"
            text = f"bytes {lo}..{hi - 1}, which a matrix descriptor names, leave shared memory, {where}"
            return (fault(site, "SV114", text),)
        wrong = next_array(ctx, site, f.intervals, 2 * n + side)
        if wrong is not None:
            return (fault(site, "SV114", f"a matrix descriptor: {wrong}"),)
        promised(ctx, lo, _ROW_BYTES, "what a matrix descriptor names")
    return ()


def _all_of(some: Sequence[Footprint]) -> Footprint:
    """The bytes of several operands."""
    if len(some) == 1:
        return some[0]
    found = merge([piece for f in some for piece in f.intervals])
    return Footprint(some[0].memory, found, cover=_cover(found))


@lru_cache(maxsize=4096)
def _operand(cta: int, bits: int, rows: tuple[int, ...], k_bytes: int, transposed: bool) -> Footprint:
    stretches = [range(a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    found = merge([piece for r in stretches for piece in operand_bytes(bits, r, k_bytes, transposed)])
    return Footprint(cta, found, cover=_cover(found))


def _cover(intervals: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The intervals without the gaps that other steps along K fill; none if that is no gain."""
    out: list[tuple[int, int]] = []
    for lo, hi in intervals:
        if out and lo - out[-1][1] < 2 * ATOM_ROW:  # swizzled, neighbours move apart
            out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    return tuple(out) if len(out) < len(intervals) else ()


def decode_ldmatrix(instr: Instr) -> Decoded:
    """``ldmatrix``: rows of 16 bytes at the addresses of the first lanes; data flows to every lane."""
    ops, n = instr.operands, _rows(instr)
    if n is None or len(ops) != 2 or not isinstance(ops[1], Mem):
        return _unknown_shape(instr)
    space, trans = window(instr.mods), "trans" in instr.mods

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        fp = _matrix_rows(ctx, site, faults, v[0], space, n, trans, "the source")
        return [*faults, meeting(ctx, site), (Ev.READ, site, ctx.footprint(fp), ctx.read_handle())]

    return effect(emit, (ops[1],), unknown=registers(ops[0]))


def decode_stmatrix(instr: Instr) -> Decoded:
    """``stmatrix``: every lane writes its share of rows of 16 bytes."""
    ops, n = instr.operands, _rows(instr)
    if n is None or len(ops) != 2 or not isinstance(ops[0], Mem):
        return _unknown_shape(instr)
    space, trans = window(instr.mods), "trans" in instr.mods

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        fp = _matrix_rows(ctx, site, faults, v[0], space, n, trans, "the destination")
        # rows that share bytes are written in no order
        twice = sum(hi - lo for lo, hi, _ in fp.lanes) > fp.bytes
        return [*faults, meeting(ctx, site), (Ev.WRITE, site, ctx.footprint(replace(fp, overlap=twice)))]

    return effect(emit, (ops[0],))


def _rows(instr: Instr) -> int | None:
    """How many lanes give the address of a row; None for a shape that sm_90 lacks."""
    count = next((_MATRICES[m] for m in instr.mods if m in _MATRICES), None)
    return None if count is None or "m8n8" not in instr.mods else 8 * count


def _unknown_shape(instr: Instr) -> Unsupported:
    if "m8n8" in instr.mods:
        return malformed(instr)
    return Unsupported(f"{instr.name}: this shape is not modelled")


def _matrix_rows(ctx: Context, site: int, faults: list[Event], value: Value, space: str, rows: int,
                 trans: bool, what: str) -> Footprint:  # fmt: skip
    """The footprint of the rows: each lane's are the bytes of its own fragment, whoever gave the address."""
    addresses = lanes_of(value)[:rows]
    if not all(a.__class__ in INTS for a in addresses):
        ctx.each(value, f"the addresses of {what}")
        raise Opaque(f"an address of {what} comes from a lane that took another path")
    places = [ctx.shared(a, space, what) for a in addresses]
    bad = next((lo for _, lo in places if lo % _ROW_BYTES), None)
    if bad is not None:
        text = f"{what} at byte {bad} of shared memory is not {_ROW_BYTES}-byte aligned"
        faults.append(fault(site, "SV701", text))
    for _, lo in places if bad is None else ():
        promised(ctx, lo, _ROW_BYTES, f"each row of {what}")
    reached = [lo for _, lo in places]
    within_some_launch(ctx, site, places[0][0], (min(reached), max(reached) + _ROW_BYTES))
    least, most = ctx.shared_start, ctx.shared_end - _ROW_BYTES
    outside = next((lo for _, lo in places if not least <= lo <= most), None)
    if outside is not None:
        faults.append(fault(site, "SV114", f"{what} at byte {outside} leaves shared memory, "
                                           f"which ends at {ctx.shared_end}"))  # fmt: skip
    rows_of = [(lo, lo + _ROW_BYTES) for _, lo in places]
    wrong = None if outside is not None else next_array(ctx, site, rows_of)
    if wrong is not None:
        faults.append(fault(site, "SV114", f"{what}: {wrong}"))
    if any(cta != ctx.cta for cta, _ in places):
        faults.append(fault(site, "SV114", f"{what} lies in another CTA's shared memory"))
    mine = frozenset(ctx.lanes)
    pieces = sorted(
        p for i, (_, lo) in enumerate(places) for p in _fragments(lo, i % 8, trans) if p[2] in mine
    )
    whole = merge([(lo, hi) for lo, hi, _ in pieces])
    return Footprint(ctx.cta, whole, tuple(pieces))


def _fragments(lo: int, row: int, trans: bool) -> list[tuple[int, int, int]]:
    """The bytes of one row of 8 elements by the lane that holds them (PTX ISA, ldmatrix: fragment layout)."""
    if trans:
        return [(lo + 2 * c, lo + 2 * c + 2, 4 * c + row // 2) for c in range(8)]
    return [(lo + 4 * j, lo + 4 * j + 4, 4 * row + j) for j in range(4)]
