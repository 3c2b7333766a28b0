"""wmma: matrices of a warp, whose elements lie in its lanes as no text says (PTX ISA, wmma).

The second reader gives each execution a layout of its own: element ``k`` of a fragment's lane ``t`` is number
``(t + turn) * n + k`` of the matrix, by lines, over and over where a fragment has room for more.

Example: a lane that reads with ``ld.shared`` what ``wmma.store.d`` has just written meets, in some execution,
the element of another lane; without a barrier of the warp between them that is a race. Of elements of less
than a byte it is the words that lie so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from syncverify.simulate.ptx import fragments
from syncverify.simulate.ptx.addressing import address, barrier_free, note_read, note_write, parts, space_of
from syncverify.simulate.ptx.floats import mode_of
from syncverify.simulate.ptx.loads import bytes_of
from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Instr, Operand, Vector
from syncverify.simulate.ptx.types import LANES, Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Fragment, Next, Step

#: M, N and K by shape.
_SHAPES = {
    "m16n16k16": (16, 16, 16), "m8n32k16": (8, 32, 16), "m32n8k16": (32, 8, 16), "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4), "m8n8k32": (8, 8, 32), "m8n8k128": (8, 8, 128),
}  # fmt: skip
_STORED = {k: v[0] for k, v in fragments.ELEMENTS.items()} | {
    "f32": np.float32,
    "s32": np.int32,
    "f64": np.float64,
    **dict.fromkeys(fragments.PARTS, np.uint32),
}
#: What a product may say besides its shape, its types and how it rounds.
_WORDS = frozenset({"mma", "sync", "aligned", "row", "col", "satfinite", "xor", "and", "popc"})
_NUMBERS = npt.NDArray[np.float64]
_LANE = np.arange(LANES)


def _shape(c: Context, i: Instr) -> tuple[int, int, int]:
    found = next((_SHAPES[w] for w in i.mods if w in _SHAPES), None)
    if found is None:
        raise c.fail("a shape that is not known")
    return found


def _registers(c: Context, operand: Operand) -> tuple[Operand, ...]:
    if not isinstance(operand, Vector):
        raise c.fail("expected the registers of a matrix")
    return tuple(operand.items)


def _width(kind: str) -> int:
    """Bits of the registers that hold elements of a type."""
    return 64 if kind == "f64" else 32


def _packed(kind: str) -> int:
    """How many elements a register holds."""
    return _width(kind) // (8 * np.dtype(_STORED[kind]).itemsize)


def _numbers(f: Fragment, held: int, count: int) -> Lanes:
    """By lane and place in its fragment, the number of the element or word."""
    turn = f.warp.machine.turn
    return ((_LANE[:, None] + turn) % LANES * held + np.arange(held)) % count


def _held(f: Fragment, slots: list[int], kind: str) -> Lanes:
    """The elements of every lane, as they are stored."""
    words = np.stack([f.R[s] for s in slots], axis=1)
    return np.ascontiguousarray(words).view(_STORED[kind]).reshape(LANES, -1)


def _gathered(f: Fragment, slots: list[int], kind: str, rows: int, columns: int) -> Lanes:
    """A matrix from the registers of its fragment."""
    held = _held(f, slots, kind)
    flat = np.zeros(rows * columns, held.dtype)
    flat[_numbers(f, held.shape[1], rows * columns)] = held
    return flat.reshape(rows, columns)


@builder("wmma", together=True)
def _wmma(c: Context, i: Instr) -> Step:
    match i.mods[0]:
        case "load":
            return _moved(c, i, 1, i.mods[1])
        case "store":
            return _moved(c, i, 0, "d")
        case "mma":
            return _product(c, i)
    raise c.fail()


def _moved(c: Context, i: Instr, at: int, which: str) -> Step:
    """A load or a store: ``at`` is the number of the operand that is the address."""
    m, n, k = _shape(c, i)
    kind = i.mods[-1]
    if kind not in _STORED:
        raise c.fail(f"elements of the type .{kind}")
    rows, columns = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    length = columns if "row" in i.mods else rows
    size = np.dtype(_STORED[kind]).itemsize
    bits = fragments.PARTS[kind][0] if kind in fragments.PARTS else 8 * size
    rows, columns = _in_words(kind, which, rows, columns)
    where, space = address(c, i.operands[at]), space_of(i.mods)
    apart = c.source(i.operands[2], 32) if len(i.operands) > 2 else c.constant(length, 32)
    named = _registers(c, i.operands[1 - at])
    held = len(named) * _packed(kind)
    if held * LANES % (rows * columns):
        raise c.fail(f"{len(named)} registers for a matrix of {rows} by {columns}")
    slots = [] if at else [c.source(x, _width(kind)) for x in named]
    writers = [c.writer(x, _width(kind)) for x in named] if at else []

    def places(f: Fragment) -> Lanes:
        """By lane and place in its fragment, the address of the element."""
        machine = f.warp.machine
        if not f.mask.all():
            raise machine.undefined(f, f"{i.name} by a warp of which lanes have exited", "wmma")
        base, step = where(f.R), f.R[apart]
        if (base != base[0]).any() or (step != step[0]).any():
            raise machine.undefined(f, "lanes of one warp name different matrices", "wmma")
        number = _numbers(f, held, rows * columns)
        line = number // columns if "row" in i.mods else number % columns
        within = number % columns if "row" in i.mods else number // columns
        offset = line * int(step[0]) * bits // 8 + within * size
        return base[:, None] + offset.astype(np.uint64)

    def load(f: Fragment) -> Next:
        machine, at_each = f.warp.machine, places(f)
        out = np.zeros((LANES, held), f"u{size}")
        for e in range(held):
            for part in parts(machine, f, space, at_each[:, e], f.mask, size, size):
                barrier_free(machine, f, part, size)
                note_read(machine, f, part, size)
                out[part.lanes, e] = part.arena.load(part.at, 8 * size)
        words = np.ascontiguousarray(out).view(f"u{_width(kind) // 8}").reshape(LANES, -1)
        for j, write in enumerate(writers):
            write(f, words[:, j], f.mask)
        return None

    def store(f: Fragment) -> Next:
        machine, at_each = f.warp.machine, places(f)
        value = _held(f, slots, kind).view(f"u{size}")
        for e in range(held):
            for part in parts(machine, f, space, at_each[:, e], f.mask, size, size):
                barrier_free(machine, f, part, size)
                some = value[part.lanes, e]
                note_write(machine, f, part, size, data=bytes_of([some], size))
                part.arena.store(part.at, 8 * size, some)
        machine.version += 1
        return None

    then = load if at else store
    return lambda f: f.warp.machine.whole_warp(f, then, f"{i.name} by a part of the warp")


def _in_words(kind: str, which: str, rows: int, columns: int) -> tuple[int, int]:
    """The size of a matrix, in words along K where elements have less than a byte."""
    if kind not in fragments.PARTS:
        return rows, columns
    per = fragments.count_of(kind)
    return (rows, columns // per) if which == "a" else (rows // per, columns)


def _elements(matrix: Lanes, kind: str, which: str) -> Lanes:
    """The elements of a matrix as numbers, of one whose words lie along K too."""
    if kind not in fragments.PARTS:
        return matrix.astype(np.float64)
    if which == "b":
        return _elements(np.ascontiguousarray(matrix.T), kind, "a").T
    return fragments.values(matrix, kind).reshape(matrix.shape[0], -1)


def _product(c: Context, i: Instr) -> Step:
    """D = A * B + C, each of the layout that loads give it."""
    m, n, k = _shape(c, i)
    kinds = [w for w in i.mods if w in _STORED]
    if len(kinds) == 2:  # of f16, with the types of D and C alone
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    if len(kinds) != 4:
        raise c.fail()
    modes = fragments.MODES if kinds[0] == "f64" else frozenset[str]()
    for w in i.mods:
        if w not in _WORDS and w not in _SHAPES and w not in kinds and w not in modes:
            raise c.fail(f"the modifier .{w}")
    if (kinds[1] == "b1") != ("popc" in i.mods):
        raise c.fail()
    named = list(zip(("a", "b", "c"), kinds[1:], ((m, k), (k, n), (m, n)), strict=True))
    sizes = [_in_words(kind, which, *size) for which, kind, size in named]
    taken = [[c.source(r, _width(t)) for r in _registers(c, x)]
             for x, t in zip(i.operands[1:4], kinds[1:], strict=True)]  # fmt: skip
    writers = [c.writer(r, _width(kinds[0])) for r in _registers(c, i.operands[0])]
    held = len(writers) * _packed(kinds[0])

    def multiply(f: Fragment) -> Next:
        if not f.mask.all():
            raise f.warp.machine.undefined(f, f"{i.name} by a warp of which lanes have exited", "wmma")
        a, b, add = (
            _elements(_gathered(f, slots, kind, *size), kind, which)
            for slots, (which, kind, _), size in zip(taken, named, sizes, strict=True)
        )
        if kinds[0] == "f64":
            whole = fragments.fused(a, b, add, mode_of(i.mods))
        else:
            total: _NUMBERS = (fragments.different_bits(a, b) if "xor" in i.mods else a @ b) + add
            whole = (
                fragments.integers(total, clamps="satfinite" in i.mods)
                if kinds[0] == "s32"
                else total.astype(_STORED[kinds[0]])
            )
        mine = whole.reshape(-1)[_numbers(f, held, m * n)]
        words = np.ascontiguousarray(mine).view(f"u{_width(kinds[0]) // 8}").reshape(LANES, -1)
        for j, write in enumerate(writers):
            write(f, words[:, j], f.mask)
        return None

    return lambda f: f.warp.machine.whole_warp(f, multiply, f"{i.name} by a part of the warp")
