"""Which sums a carry comes from (PTX ISA, extended-precision integer arithmetic: CC.CF).

The carry is a register without a name: ``addc``, ``subc`` and ``madc`` read what the last instruction with
``.cc`` left. It is followed within a block of the code; calls do not keep it.
"""

from __future__ import annotations

from syncverify.frontends.ptx.flow.control_flow import Flow

#: Instructions that read the carry.
CARRIED = frozenset({"addc", "subc", "madc"})


def carried_from(flow: Flow, k: int) -> tuple[int, ...] | None:
    """The instructions whose operands make what ``k`` computes, itself first; None where the carry comes
    from another block, a call, or under a guard."""
    found = [k]
    body, first = flow.body, flow.blocks[flow.block_of[k]].lo
    at = k
    while body[at].op in CARRIED:
        at -= 1
        while at >= first and "cc" not in body[at].mods and body[at].op != "call":
            at -= 1
        if at < first or body[at].op == "call" or body[at].guard is not None:
            return None
        found.append(at)
    return tuple(found)


__all__ = ["CARRIED", "carried_from"]
