"""Video instructions (PTX ISA, scalar and SIMD) and ``clmad``: integers of words, halves and bytes.

A scalar one takes a part of each source, computes without a limit of bits, cuts or saturates to the type of
the result, and merges it into the third operand or computes with that:

    vadd.s32.u32.s32.sat.max d, a.h1, b.b0, c;    d = max(clamp(a's upper half + b's lowest byte), c)

The others compute on two halves or four bytes at once; ``.add`` adds what they give to the third operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Instr, Operand, Selected
from syncverify.simulate.ptx.types import Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Step

#: One number for each lane, wider than what the instructions compute with.
Wide = npt.NDArray[np.int64]
_PLACES = {"b0": (0, 8), "b1": (8, 8), "b2": (16, 8), "b3": (24, 8), "h0": (0, 16), "h1": (16, 16)}
_COMPARE: dict[str, Callable[[Wide, Wide], npt.NDArray[np.bool_]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
_SECOND: dict[str, Callable[[Wide, Wide], Wide]] = {"add": np.add, "min": np.minimum, "max": np.maximum}


def _absolute_difference(a: Wide, b: Wide) -> Wide:
    return np.abs(a - b)


def _average(a: Wide, b: Wide) -> Wide:
    """Rounded away from minus infinity, as the ISA says for sums of either sign."""
    total = a + b
    return (total + (total >= 0)) >> 1


_OF: dict[str, Callable[[Wide, Wide], Wide]] = {
    "vadd": np.add, "vsub": np.subtract, "vabsdiff": _absolute_difference, "vmin": np.minimum,
    "vmax": np.maximum, "vavrg": _average,
}  # fmt: skip


def extended(x: Lanes, at: int, bits: int, kind: str) -> Wide:
    """``bits`` bits from bit ``at`` on, as a number of a type."""
    cut = (x.astype(np.int64) >> at) & ((1 << bits) - 1)
    return np.where(cut >> (bits - 1) & 1, cut - (1 << bits), cut) if kind == "s32" else cut


def clamped(x: Wide, bits: int, kind: str) -> Wide:
    """The nearest numbers that so many bits of a type hold."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "s32" else (0, (1 << bits) - 1)
    return np.clip(x, low, high)


def _word(x: Wide) -> Lanes:
    return (x & 0xFFFFFFFF).astype(np.uint32)


def _selection(x: Operand) -> tuple[int, int]:
    """The first bit and the number of bits of the part that an operand names."""
    return _PLACES[x.part] if isinstance(x, Selected) else (0, 32)


@builder("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset")
def _scalar(c: Context, i: Instr) -> Step:
    sets = i.op == "vset"
    result, kinds = ("u32", i.mods[:2]) if sets else (i.mods[0], i.mods[1:3])
    words = i.mods[2 if sets else 3 :]
    second = next((m for m in words if m in _SECOND), "")
    into = _selection(i.operands[0])
    merges = into != (0, 32)
    if (len(i.operands) == 4) != bool(second or merges) or (second and merges):
        raise c.fail("a third operand, and what becomes of it")
    of = _COMPARE[next(m for m in words if m in _COMPARE)] if sets else _operation(i)
    reads = [c.reader(x, 32) for x in i.operands[1:]]
    parts = [_selection(x) for x in i.operands[1:3]]

    def compute(R: list[Lanes]) -> Lanes:
        a, b = (extended(read(R), *part, kind) for read, part, kind in zip(reads, parts, kinds, strict=False))
        x: Wide = of(a, b).astype(np.int64)
        if "sat" in words:
            x = clamped(x, into[1], result)
        if second:
            return _word(_SECOND[second](_as(x, result), extended(reads[2](R), 0, 32, result)))
        if merges:
            at, bits = into
            hole = ((1 << bits) - 1) << at
            return _word((x << at & hole) | (reads[2](R).astype(np.int64) & ~hole))
        return _word(x)

    return c.pure(i.operands[0], compute, 32)


def _as(x: Wide, kind: str) -> Wide:
    """The low word of a number, as one of a type."""
    return extended(_word(x), 0, 32, kind)


def _operation(i: Instr) -> Callable[[Wide, Wide], Wide]:
    if i.op not in ("vshl", "vshr"):
        return _OF[i.op]
    wraps, left = "wrap" in i.mods, i.op == "vshl"

    def shifted(a: Wide, b: Wide) -> Wide:
        n = b & 31 if wraps else np.minimum(b, 32)
        # 31 bits and 32 more fit, but for the sign: a shift that leaves the word saturates or is cut alike
        return np.where(n < 32, a << np.minimum(n, 31), (a << 31) * 2) if left else a >> n

    return shifted


@builder("vmad")
def _multiply(c: Context, i: Instr) -> Step:
    result, kinds, words = i.mods[0], i.mods[1:3], i.mods[3:]
    signed = "s32" in kinds
    shift = 7 if "shr7" in words else 15 if "shr15" in words else 0
    reads = [c.reader(x, 32) for x in i.operands[1:]]
    parts = [_selection(x) for x in i.operands[1:3]]

    def compute(R: list[Lanes]) -> Lanes:
        a, b = (extended(read(R), *part, kind) for read, part, kind in zip(reads, parts, kinds, strict=False))
        added = extended(reads[2](R), 0, 32, "s32" if signed else "u32")
        out = np.zeros(len(a), np.uint32)
        for n, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), added.tolist(), strict=True)):
            total = (x * y + z + ("po" in words)) >> shift
            if "sat" in words:
                low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
                total = min(max(total, low), high)
            out[n] = total & 0xFFFFFFFF
        return out

    if result not in ("u32", "s32"):
        raise c.fail()
    return c.pure(i.operands[0], compute, 32)


def _several(op: str) -> tuple[str, int]:
    """The operation of an instruction on several parts, and the bits of each."""
    return op[:-1], 16 if op.endswith("2") else 8


@builder(*(f"{op}{n}" for op in (*_OF, "vset") for n in (2, 4)))
def _parts(c: Context, i: Instr) -> Step:
    op, bits = _several(i.op)
    sets = op == "vset"
    result, kinds = ("u32", i.mods[:2]) if sets else (i.mods[0], i.mods[1:3])
    words = i.mods[2 if sets else 3 :]
    if len(i.operands) != 4:
        raise c.fail("expected d, a, b, c")
    of = _COMPARE[next(m for m in words if m in _COMPARE)] if sets else _OF[op]
    reads = [c.reader(x, 32) for x in i.operands[1:]]

    def compute(R: list[Lanes]) -> Lanes:
        a, b, third = (read(R) for read in reads)
        out = extended(third, 0, 32, result) if "add" in words else np.zeros(len(a), np.int64)
        for at in range(0, 32, bits):
            x = of(extended(a, at, bits, kinds[0]), extended(b, at, bits, kinds[1])).astype(np.int64)
            if "sat" in words:
                x = clamped(x, bits, result)
            out = out + x if "add" in words else out | (x & ((1 << bits) - 1)) << at
        return _word(out)

    return c.pure(i.operands[0], compute, 32)


@builder("clmad")
def _carryless(c: Context, i: Instr) -> Step:
    """A product of polynomials over two elements, half of it, and a sum without carries."""
    a, b, added = (c.reader(x, 64) for x in i.operands[1:])
    high = "hi" in i.mods

    def compute(R: list[Lanes]) -> Lanes:
        x, y = a(R), b(R)
        out = np.zeros(len(x), np.uint64)
        for n in range(64):
            bit = (y >> np.uint64(n)) & np.uint64(1)
            if high and not n:
                continue
            moved = x >> np.uint64(64 - n) if high else x << np.uint64(n)
            out ^= moved * bit
        return out ^ added(R)

    return c.pure(i.operands[0], compute, 64)


__all__ = ["clamped", "extended"]
