"""Constants out of the range that an instruction takes (PTX ISA, the operands of each): ptxas refuses them.

Ids and counts of barriers and of registers are not here: the model has rules for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand

_BIT = (0, 1)
_SIGNS = (-1, 1)
_BYTE = range(256)
_FEW_BYTES, _ALL_BYTES = (4, 8, 16), (16,)
_LINE = (128,)  # bytes of a cache line
_MASK = range(1 << 16)
_BULK = range(0, 1 << 20, 16)
_EVENTS = range(16)
_MOST = (1 << 63) - 1
_COUNT = range(1, _MOST)
#: How many groups of threads may hold the metadata of a sparse product, by the type of A and the shape; one
#: where no number is here. A sum's type stands before A's.
_SELECTORS: dict[str, dict[str, int]] = {
    "f16": {"m16n8k16": 4, "m16n8k32": 4}, "bf16": {"m16n8k16": 4, "m16n8k32": 2},
    "tf32": {"m16n8k8": 4, "m16n8k16": 2}, "f32": {}, "s32": {},
    "s8": {"m16n8k32": 2}, "u8": {"m16n8k32": 2}, "s4": {"m16n8k64": 2}, "u4": {"m16n8k64": 2},
}  # fmt: skip


def out_of_range(i: Instr) -> str | None:
    """What is wrong with the first constant that is out of range, in words; None if none is."""
    for n, allowed in _ranges(i):
        value = _number(i.operands[n])
        if value is not None and value not in allowed:
            return f"{i.name}: operand {n + 1} is {value}: {_listed(allowed)} is expected"
    return None


def _listed(allowed: Sequence[int]) -> str:
    """The values in words."""
    if not isinstance(allowed, range) or len(allowed) < 3:
        *most, last = map(str, allowed)
        return f"{', '.join(most)} or {last}" if most else last
    step = allowed[1] - allowed[0]
    kind = "" if step == 1 else f"a multiple of {step} from "
    return f"{kind}{allowed[0]} to {allowed[-1]}"


def _ranges(i: Instr) -> Iterator[tuple[int, Sequence[int]]]:
    """The places of operands that may be constants, each with the values it takes."""
    last = len(i.operands) - 1
    match i.op:
        case "mbarrier" if "parity" in i.mods:
            yield 2, _BIT
        case "mbarrier" if i.mods[0] in ("arrive", "arrive_drop") and "expect_tx" not in i.mods and last == 2:
            yield 2, _COUNT
        case "bfe" | "bfi":
            yield from ((n, _BYTE) for n in (last - 1, last))
        case "wgmma" if i.mods[0] == "mma_async":
            yield from _product(i)
        case "wgmma" if i.mods[0] == "wait_group":
            yield 0, range(_MOST)
        case "mma":
            yield from _sparse(i)
        case "applypriority" | "discard" if "async" not in i.mods:
            yield 1, _LINE
        case "fence" if last == 1:
            yield 1, _LINE
        case "tensormap" if "cp_fenceproxy" in i.mods:
            yield 2, _LINE
        case "pmevent" if "mask" not in i.mods:
            yield 0, _EVENTS
        case "st" if "bulk" in i.mods:
            yield from ((1, range(0, (1 << 24) + 1, 8)), (2, (0,)))
        case "cp" if i.mods[1] in ("ca", "cg"):
            yield from _copy(i)
        case "cp" if "prefetch" in i.mods and "tensor" not in i.mods:
            yield 1, _BULK
        case "cp" if "multicast::cluster" in i.mods:
            yield last - ("L2::cache_hint" in i.mods), _MASK


def _copy(i: Instr) -> Iterator[tuple[int, Sequence[int]]]:
    """Of ``cp.async.ca`` and ``cp.async.cg``: the bytes that are written, and those that the source gives."""
    yield 2, _ALL_BYTES if "cg" in i.mods else _FEW_BYTES
    written = _number(i.operands[2])
    if written in _FEW_BYTES and len(i.operands) > 3 + ("L2::cache_hint" in i.mods):
        yield 3, range(written + 1)


def _product(i: Instr) -> Iterator[tuple[int, Sequence[int]]]:
    """Of ``wgmma.mma_async``: whether there is something to add to; then signs, then orders."""
    add = 5 if "sp" in i.mods else 3
    if "sp" in i.mods:
        yield add - 1, _BIT if {"f16", "bf16", "tf32"} & set(i.mods[-2:]) else (0,)
    for n in range(add, len(i.operands)):
        yield n, _SIGNS if n in (add + 1, add + 2) else _BIT


def _sparse(i: Instr) -> Iterator[tuple[int, Sequence[int]]]:
    """Of ``mma.sp``: which threads hold the metadata (PTX ISA, sparse matrix storage)."""
    if not any(m.startswith("sp") for m in i.mods):
        return
    factors = [m for m in i.mods if m in _SELECTORS]
    shape = next(m for m in i.mods if m.startswith("m16n8"))
    allowed = _SELECTORS[factors[1]].get(shape, 1) if len(factors) > 2 else 1
    yield 5, range(allowed)


def _number(o: Operand) -> int | None:
    """The value of a constant, as a signed one of 64 bits."""
    if not isinstance(o, Imm):
        return None
    value = o.value & ((1 << 64) - 1)
    return value - (1 << 64) if value >> 63 else value


__all__ = ["out_of_range"]
