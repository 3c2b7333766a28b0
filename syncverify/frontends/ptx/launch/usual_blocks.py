"""Blocks that kernels are often launched with, of as many dimensions as the text reads.

A heuristic: which blocks are named proves nothing, for each is checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Operand, Reg, Special
from syncverify.frontends.ptx.syntax.operands import results
from syncverify.frontends.ptx.syntax.types import width

Block = tuple[int, ...]

#: By the dimensions that the text reads, in the order in which they are tried. Thread ranks of
#: cooperative groups read all three, and most of their blocks have one.
_USUAL: dict[int, tuple[Block, ...]] = {
    1: ((256,), (128,), (512,), (1024,), (64,), (32,)),
    2: ((32, 8), (16, 16), (32, 32), (32, 4), (8, 8)),
    3: ((256, 1, 1), (8, 8, 4), (8, 8, 8), (32, 4, 2)),
}
#: Blocks of half a warp and less, which a kernel may be meant for though none is usual.
_FEW: dict[int, tuple[Block, ...]] = {
    1: ((16,), (8,), (4,), (2,)),
    2: ((16, 2), (8, 4), (4, 4), (2, 2)),
    3: ((4, 4, 4), (4, 4, 2), (2, 2, 2)),
}
#: Lengths of blocks of one row, for a text that reads ``%tid.y`` too: whole warps, and more than one.
_ROWS = (256, 128, 64)
#: What lanes do together that a mask, the last operand, names.
_MASKED = frozenset({"shfl", "vote", "match", "redux", "bar"})
_ALL_LANES = 0xFFFFFFFF
_BARRIERS = frozenset({"bar", "barrier"})
#: The least threads of a row: blocks of narrower ones are not launched.
_LEAST_ROW = 4
_PRODUCTS = frozenset({"mul", "mad"})
#: What adds numbers of a thread up that are compared with 0.
_SUMS = frozenset({"or", "add", "sub", "neg"})


def dimensions(function: Function) -> int:
    """The dimensions of a block that a kernel reads: 1, 2 or 3."""
    named = {o.name for i in function.body for o in i.operands if isinstance(o, Special)}
    return max((n for n, d in ((2, "y"), (3, "z")) if named & {f"%tid.{d}", f"%ntid.{d}"}), default=1)


def reads_thread_numbers(function: Function) -> bool:
    """Whether a kernel asks which of a block's threads one is."""
    asks = ("%tid", "%laneid", "%warpid", "%lanemask")
    return any(
        i.op == "elect" or any(isinstance(o, Special) and o.name.startswith(asks) for o in i.operands)
        for i in function.body
    )


def asks_extents(function: Function) -> bool:
    """Whether a kernel asks how many threads a block has; else it is written for some number of them."""
    return any(
        isinstance(o, Special) and o.name.startswith("%ntid") for i in function.body for o in i.operands
    )


def names_fewer_lanes(function: Function) -> bool:
    """Whether a mask of lanes in a text may be of fewer than all: blocks of few threads may be meant."""
    masked = (i for i in function.body if i.op in _MASKED and "sync" in i.mods and i.operands)
    masks = (i.operands[-1] for i in masked if i.op != "bar" or "warp" in i.mods)
    return any(not isinstance(m, Imm) or m.value & _ALL_LANES != _ALL_LANES for m in masks)


def most_counted(function: Function) -> int:
    """The most threads that a text names at a barrier of its own; 0 where it names none."""
    bars = (i.operands[1] for i in function.body if i.op in _BARRIERS and len(i.operands) == 2)
    return max((n.value for n in bars if isinstance(n, Imm)), default=0)


def multiplies_by(function: Function, number: int) -> bool:
    """Whether a text multiplies something by a number, as it does by the bytes of a row to come to one."""
    power = number.bit_length() - 1 if number & (number - 1) == 0 else None
    return any(
        (i.op in ("mul", "mad") and Imm(number) in i.operands[1:3])
        or (i.op == "shl" and power is not None and i.operands[2] == Imm(power))
        for i in function.body
    )


def usual_blocks(function: Function) -> tuple[Block, ...]:
    """Blocks to try for a kernel whose block nothing gives."""
    return _USUAL[dimensions(function)]


def few_threads(function: Function) -> tuple[Block, ...]:
    """Blocks of few threads, for a kernel that goes wrong with the usual ones."""
    return _FEW[dimensions(function)]


def blocks_of_one_row(function: Function) -> tuple[Block, ...]:
    """Blocks of one row for a kernel that reads ``%tid.y``, perhaps for the ranks of threads alone; none
    where it reads no row, or asks how many there are."""
    more = dimensions(function) - 1
    if not more or asks_for_rows(function):
        return ()
    return tuple((n, *[1] * more) for n in _ROWS)


def asks_for_rows(function: Function) -> bool:
    """Whether a kernel asks how many rows a block has, as a loop over them does; a rank or an index that
    multiplies by the number does not."""
    rows = _Named(("%ntid.y", "%ntid.z"))
    for i in function.body:
        if i.op == "mov":
            rows.follow(i)
        elif i.op not in _PRODUCTS and any(map(rows.holds, i.operands)):
            return True
    return False


def blocks_of(threads: int) -> tuple[Block, ...]:
    """Blocks of one or two dimensions with so many threads: the nearest to a square first, the row last."""
    high = [y for y in range(2, threads // _LEAST_ROW + 1) if threads % y == 0]
    high.sort(key=lambda y: (abs(threads // y - y), -(threads // y)))
    return (*((threads // y, y) for y in high), (threads,))


def blocks_in_words(blocks: Sequence[Sequence[int]]) -> str:
    """Blocks in words: ``32 x 8 or 16 x 16``."""
    named = [" x ".join(map(str, block)) for block in blocks]
    return " or ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def reads_rows(function: Function) -> bool:
    """Whether a kernel does more with ``%tid.y`` and ``%tid.z`` than a block of one row needs.

    The rank of a thread, ``(z * %ntid.y + y) * %ntid.x + x``, is written for any block, and so is whether it
    is the first of all, as ``x | y | z`` or ``x + y + z`` beside 0 say.
    """
    rows, widths = _Named(("%tid.y", "%tid.z")), _Named(("%ntid.x", "%ntid.y"))
    columns = _Named(("%tid.x",))

    def whole(xs: Sequence[Operand]) -> bool:
        return all(rows.holds(x) or columns.holds(x) or widths.holds(x) or x == Imm(0) for x in xs)

    for i in function.body:
        if i.op == "mov":
            for named in (rows, widths, columns):
                named.follow(i)
        elif not any(map(rows.holds, i.operands)):
            continue
        elif i.op == "mad" and whole(i.operands[1:]) and any(map(widths.holds, i.operands[1:3])):
            if not columns.holds(i.operands[3]):  # z * %ntid.y + y
                rows.registers.update(results(i))
        elif i.op in _SUMS and whole(i.operands[1:]):
            rows.registers.update(results(i))
        elif i.op != "setp" or i.mods[:1] not in (("eq",), ("ne",)) or not whole(i.operands[1:]):
            return True
    return False


def narrowest_shared(function: Function) -> int:
    """The bytes of the narrowest access to shared memory in a text; a vector is one access."""
    found = [
        max(width(i.mods[-1]) // 8, 1) * next((int(m[1:]) for m in i.mods if m in ("v2", "v4", "v8")), 1)
        for i in function.body
        if i.op in ("ld", "st", "atom", "red") and {"shared", "shared::cta"} & set(i.mods)
    ]
    return min(found, default=1)


class _Named:
    """The registers that hold some special registers."""

    def __init__(self, special: tuple[str, ...]) -> None:
        self.special, self.registers = special, set[str]()

    def holds(self, x: Operand) -> bool:
        if isinstance(x, Special):
            return x.name in self.special
        return isinstance(x, Reg) and x.name in self.registers

    def follow(self, i: Instr) -> None:
        if any(map(self.holds, i.operands[1:])):
            self.registers.update(results(i))


__all__ = [
    "Block",
    "asks_extents",
    "asks_for_rows",
    "blocks_of",
    "blocks_of_one_row",
    "dimensions",
    "few_threads",
    "blocks_in_words",
    "most_counted",
    "multiplies_by",
    "names_fewer_lanes",
    "narrowest_shared",
    "reads_rows",
    "reads_thread_numbers",
    "usual_blocks",
]
