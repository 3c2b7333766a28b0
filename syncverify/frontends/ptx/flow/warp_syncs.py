"""``bar.warp.sync`` among lanes that data chooses, as a meeting that orders no memory.

A barrier of a warp is an event, so a branch around it has to be decided. Where data decides, the barrier may
be looked at as a vote among the lanes of its mask instead: they still have to come together, and what is
proved without its order holds with it. What goes wrong without it says nothing.

Example: in ``if (x[t] > 0) { ...; __syncwarp(mask); }`` the mask may be that of a ballot about ``x[t] > 0``.
"""

from __future__ import annotations

from dataclasses import replace

from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Reg

#: The result of such a vote, which nobody reads.
_NOBODY = "%@met"


def without_warp_order(function: Function) -> Function:
    """The function with a vote for each ``bar.warp.sync`` whose mask is no number in the text; itself where
    there is none."""
    if not any(map(_by_register, function.body)):
        return function
    body = tuple(_vote(i) if _by_register(i) else i for i in function.body)
    return replace(function, body=body, registers={**function.registers, _NOBODY: "pred"})


def _by_register(i: Instr) -> bool:
    return i.op == "bar" and i.mods == ("warp", "sync") and isinstance(i.operands[0], Reg)


def _vote(i: Instr) -> Instr:
    return replace(i, op="vote", mods=("sync", "any", "pred"), operands=(Reg(_NOBODY), Imm(1), *i.operands))


__all__ = ["without_warp_order"]
