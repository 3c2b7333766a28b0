"""Calls that a carry would have to outlive: none does (PTX ISA, extended-precision integer arithmetic).

    add.cc.u32 %r1, %r1, %r2;  call.uni f, ();  addc.u32 %r3, %r3, 0;

What the last sum adds there is not determined, also where ``f`` is a function of the same file.
"""

from __future__ import annotations

from syncverify.frontends.ptx.flow.asserts import stops
from syncverify.frontends.ptx.flow.control_flow import Flow, live_before, read_early
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.frontends.ptx.syntax.operands import CARRIED, CARRY, results, sources


def loses_carries(flow: Flow) -> frozenset[int]:
    """The calls behind which some way reads a carry that is older than they are."""
    body = flow.body
    calls = [k for k, i in enumerate(body) if i.op == "call" and not stops(i)]
    if not calls or not any(i.op in CARRIED for i in body):
        return frozenset()
    kept = frozenset({CARRY})
    live = live_before(flow, lambda k: sources(body[k]), lambda k: results(body[k]), kept)
    return frozenset(k for k in calls if flow.block_of[k] in flow.reached and _read_behind(flow, live, k))


def _read_behind(flow: Flow, live: list[frozenset[str]], k: int) -> bool:
    """Whether some way from an instruction reads the carry that it finds."""
    b = flow.blocks[flow.block_of[k]]
    for i in flow.body[k + 1 : b.hi]:
        if CARRY in sources(i):
            return True
        if CARRY in results(i) and i.guard is None:
            return False
    return any(CARRY in live[s] for s in b.succ if s < flow.end)


def reads_a_carry_of_its_caller(f: Function) -> bool:
    """Whether some way through a function reads the carry that it begins with."""
    return any(i.op in CARRIED for i in f.body) and CARRY in read_early(Flow(f))


__all__ = ["loses_carries", "reads_a_carry_of_its_caller"]
