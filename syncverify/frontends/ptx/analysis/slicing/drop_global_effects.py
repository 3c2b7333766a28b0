"""Effects of a kernel whose accesses to global memory have no events: where in global memory is not asked."""

from __future__ import annotations

from dataclasses import replace

from syncverify.frontends.ptx.decode.effects import Effect
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand

_NOWHERE = Imm(0)


def untracked(i: Instr, effect: Effect) -> Effect:
    """The effect of a copy without its global address, and without the coordinates in a tensor."""
    if i.op != "cp" or len(i.operands) < 2:
        return effect
    if "tensor" in i.mods:
        n = max((len(o.coords) for o in i.operands if isinstance(o, Mem)), default=0)
        kept = effect.operands[: len(effect.operands) - n]
        return replace(effect, operands=(*kept, *[_NOWHERE] * n))
    if i.mods[0] != "async" or "bulk" in i.mods or len(effect.operands) < 2:
        return effect
    operands: tuple[Operand, ...] = (effect.operands[0], _NOWHERE, *effect.operands[2:])
    return replace(effect, operands=operands)
