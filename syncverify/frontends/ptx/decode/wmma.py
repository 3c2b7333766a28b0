"""``wmma.load`` and ``wmma.store`` as events (PTX ISA, wmma): a warp reads or writes a whole matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from syncverify.frontends.ptx.decode.barriers import meeting
from syncverify.frontends.ptx.decode.effects import Context, Effect, Unsupported, Value
from syncverify.frontends.ptx.decode.parts import (
    Decoded,
    effect,
    fault,
    immediate,
    malformed,
    next_array,
    place,
    promised,
    registers,
    window,
    within_some_launch,
)
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem
from syncverify.model.events import Ev, Event, Footprint
from syncverify.model.intervals import merge
from syncverify.model.proxies import Scope

#: M, N and K by shape.
_SHAPES = {
    "m16n16k16": (16, 16, 16), "m8n32k16": (8, 32, 16), "m32n8k16": (32, 8, 16), "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4), "m8n8k32": (8, 8, 32), "m8n8k128": (8, 8, 128),
}  # fmt: skip
_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4,
    "b1": 1,
}  # fmt: skip

_MOST_ALIGNED = 16


def moves_matrix(i: Instr) -> bool:
    """Whether an instruction is a load or store of a matrix: the rest of ``wmma`` computes on registers."""
    return i.op == "wmma" and i.mods[:1] in (("load",), ("store",))


def stores_matrix(i: Instr) -> bool:
    return i.op == "wmma" and i.mods[:1] == ("store",)


def matrix_in_global(i: Instr) -> bool:
    """Whether it moves a matrix that the text places in global memory."""
    return moves_matrix(i) and "global" in i.mods


def _lines(i: Instr, shape: tuple[int, int, int]) -> tuple[int, int]:
    """How many runs of elements a matrix has in memory, and how many elements each has."""
    m, n, k = shape
    rows, columns = {"a": (m, k), "b": (k, n)}.get(i.mods[1], (m, n))
    return (rows, columns) if "row" in i.mods else (columns, rows)


def global_matrix(i: Instr) -> Effect | Unsupported:
    """A load or store of a matrix in global memory as events, where it matters what lies there.

    Which lane holds which element is not specified. Each line is taken to be one lane's: lanes of the warp do
    not race in one instruction, and which of them meets another block does not matter.
    """
    stores, ops = stores_matrix(i), i.operands
    shape = next((_SHAPES[m] for m in i.mods if m in _SHAPES), None)
    bits, at = _BITS.get(i.mods[-1]), next((x for x in ops if isinstance(x, Mem)), None)
    if shape is None or bits is None or at is None or not 2 <= len(ops) <= 3:
        return malformed(i)
    lines, length = _lines(i, shape)
    stride = ops[2] if len(ops) == 3 else Imm(length)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        given = immediate(stride)
        step = (ctx.number(v[1], "the stride of a matrix") if given is None else given) * bits // 8
        first = ctx.number(v[0], "the place of a matrix")
        code, rest = (Ev.GLOBAL_WRITE, (None,)) if stores else (Ev.GLOBAL_READ, ())
        found: list[Event] = [meeting(ctx, site)]
        for lane, n in _runs([x for x in ctx.lanes if x < lines]):
            number = ctx.global_bytes(first + lane * step, length * bits // 8, n, step)
            found.append((code, site, number, 0, int(Scope.GPU), *rest))
        return found

    asked = (at,) if isinstance(stride, Imm) else (at, stride)
    return effect(emit, asked, unknown=() if stores else registers(ops[0]))


def _runs(lanes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Lanes that follow each other: the first, and how many."""
    for _, run in groupby(enumerate(lanes), lambda x: x[1] - x[0]):
        (_, first), *rest = run
        yield first, 1 + len(rest)


def decode_wmma(instr: Instr) -> Decoded | None:
    """Which lane holds which element is not specified: every lane counts as touching all of them."""
    if not moves_matrix(instr) or "global" in instr.mods:
        return None
    stores = stores_matrix(instr)
    ops = instr.operands
    at = 0 if stores else 1
    shape = next((_SHAPES[m] for m in instr.mods if m in _SHAPES), None)
    bits = _BITS.get(instr.mods[-1])
    if shape is None or bits is None or not 2 <= len(ops) <= 3 or not isinstance(ops[at], Mem):
        return malformed(instr)
    lines, length = _lines(instr, shape)
    stride = ops[2] if len(ops) == 3 else Imm(length)
    space, what = window(instr.mods), "the destination" if stores else "the source"
    # PTX ISA, wmma.load: aligned as a fragment. CUDA asks 16 bytes of the pitch, so no row is held to more.
    unit = min(_MOST_ALIGNED, len(registers(ops[1 - at])) * max(bits, 32) // 8)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        cta, lo = place(ctx, v[0], space, what)
        given = immediate(stride)
        step = (ctx.number(v[1], "the stride of a matrix") if given is None else given) * bits // 8
        pieces = merge([(lo + j * step, lo + j * step + length * bits // 8) for j in range(lines)])
        within_some_launch(ctx, site, cta, (pieces[0][0], pieces[-1][1]))
        if cta != ctx.cta or pieces[0][0] < ctx.shared_start or pieces[-1][1] > ctx.shared_end:
            text = f"{what}, bytes {pieces[0][0]}..{pieces[-1][1] - 1}, leaves shared memory"
            return [meeting(ctx, site), fault(site, "SV114", f"{text}, which ends at {ctx.shared_end}")]
        wrong = next_array(ctx, site, pieces)
        if wrong is not None:
            return [meeting(ctx, site), fault(site, "SV114", f"{what}: {wrong}")]
        promised(ctx, pieces[0][0], unit, what)
        fp = ctx.footprint(Footprint(cta, pieces))
        access: Event = (Ev.WRITE, site, fp) if stores else (Ev.READ, site, fp, ctx.read_handle())
        return [meeting(ctx, site), access]

    asked = (ops[at],) if isinstance(stride, Imm) else (ops[at], stride)
    return effect(emit, asked, unknown=() if stores else registers(ops[0]))
