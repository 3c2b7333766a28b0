"""Constants out of the range that an instruction takes (PTX ISA, the operands of each): ptxas refuses them.

Ids and counts of barriers and of registers are not here: the model has rules for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand

_BIT = (0, 1)
_SIGNS = (-1, 1)
_BYTE = range(256)


def out_of_range(i: Instr) -> str | None:
    """What is wrong with the first constant that is out of range, in words; None if none is."""
    for n, allowed in _ranges(i):
        value = _number(i.operands[n])
        if value is not None and value not in allowed:
            expected = (
                " or ".join(map(str, allowed)) if len(allowed) < 3 else f"{min(allowed)} to {max(allowed)}"
            )
            return f"{i.name}: operand {n + 1} is {value}: {expected} is expected"
    return None


def _ranges(i: Instr) -> Iterator[tuple[int, Collection[int]]]:
    """The places of operands that may be constants, each with the values it takes."""
    if i.op == "mbarrier" and "parity" in i.mods:
        yield 2, _BIT
    elif i.op in ("bfe", "bfi"):
        last = len(i.operands)
        yield from ((n, _BYTE) for n in (last - 2, last - 1))
    elif i.op == "wgmma" and i.mods[0] == "mma_async":
        add = 5 if "sp" in i.mods else 3  # whether there is something to add to; then signs, then orders
        for n in range(add, len(i.operands)):
            yield n, _SIGNS if n in (add + 1, add + 2) else _BIT


def _number(o: Operand) -> int | None:
    """The value of a constant, as a signed one of 64 bits."""
    if not isinstance(o, Imm):
        return None
    value = o.value & ((1 << 64) - 1)
    return value - (1 << 64) if value >> 63 else value


__all__ = ["out_of_range"]
