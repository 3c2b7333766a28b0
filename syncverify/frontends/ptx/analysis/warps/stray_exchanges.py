"""Shuffles whose lanes take values from lanes alone that their mask leaves out.

What a lane takes from one that is not in the mask is undefined (PTX ISA, shfl.sync). A tree of sums does so
in its upper lanes, whose sums nobody needs. Where no lane takes another's value of the mask, the shuffle
brings nothing.

Example: ``shfl.sync.bfly.b32 %r, %a, 16, 31, 0x0000ffff``. Each of lanes 0 to 15 asks one of 16 to 31.
"""

from __future__ import annotations

from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Operand, Reg
from syncverify.frontends.ptx.syntax.operands import results
from syncverify.frontends.ptx.values.arith import source_lane
from syncverify.frontends.ptx.values.register_values import WARP


def stray_exchanges(function: Function) -> list[tuple[Instr, int, int]]:
    """Those of a function whose mask and lanes are numbers: the instruction, a lane, the one it asks."""
    shuffles = [i for i in function.body if i.op == "shfl" and "sync" in i.mods]
    if not shuffles:
        return []
    numbers = _numbers(function)
    return [(i, *asks) for i in shuffles if (asks := _astray(i, numbers)) is not None]


def _numbers(function: Function) -> dict[str, int]:
    """Registers that hold one number of the text."""
    once: dict[str, Instr | None] = {}
    for i in function.body:
        for name in results(i):
            once[name] = None if name in once else i
    return {
        name: i.operands[1].value
        for name, i in once.items()
        if i is not None and i.op == "mov" and i.guard is None and isinstance(i.operands[1], Imm)
    }


def _astray(i: Instr, numbers: dict[str, int]) -> tuple[int, int] | None:
    def number(op: Operand) -> int | None:
        if isinstance(op, Imm):
            return op.value
        return numbers.get(op.name) if isinstance(op, Reg) else None

    step, limit, mask = map(number, i.operands[-3:])
    if step is None or limit is None or mask is None:
        return None
    mode = next(m for m in i.mods if m in ("up", "down", "bfly", "idx"))
    named = [lane for lane in range(WARP) if mask >> lane & 1]
    asked = {lane: source_lane(mode, lane, step & 31, limit) for lane in named}
    others = {lane: j for lane, (j, inside) in asked.items() if inside and j != lane}
    if not others or any(mask >> j & 1 for j in others.values()):
        return None
    return next(iter(others.items()))


__all__ = ["stray_exchanges"]
