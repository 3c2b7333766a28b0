"""Loops that wait in shared memory for what another thread writes: flags that are polled, spin locks.

Such a wait is no event: whether it ends rests on the other threads going on, and the value that ends it on
what they have stored. So a kernel with one is not proved.

Example: ``while (flag == 0) {}`` with a volatile ``flag``, or ``while (atomicCAS(&lock, 0, 1) != 0) {}``.
"""

from __future__ import annotations

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem
from syncverify.frontends.ptx.syntax.operands import harmless, registers, results, sources


def shared_polls(flow: Flow) -> list[int]:
    """Loads and atomics of shared memory at one place, in a loop that does nothing else and that their value
    ends."""
    return _polls(flow, "shared")


def global_polls(flow: Flow) -> list[int]:
    """The same of global memory, by generic addresses as well."""
    return _polls(flow, "global")


def _polls(flow: Flow, space: str) -> list[int]:
    found = []
    for k, i in enumerate(flow.body):
        inside = [loop for loop in flow.loops if flow.block_of[k] in loop]
        if not inside or not _asks(i, space):
            continue
        loop = min(inside, key=len)
        body = [flow.body[j] for b in loop for j in range(flow.blocks[b].lo, flow.blocks[b].hi)]
        moved = {name for x in body for name in results(x)}
        still = moved.isdisjoint(name for op in i.operands if isinstance(op, Mem) for name in registers(op))
        if still and all(x is i or harmless(x) for x in body) and _ends(flow, loop, i, body):
            found.append(k)
    return found


def _asks(i: Instr, space: str) -> bool:
    if _space(i) != space:
        return False
    if i.op == "atom":
        return "add" not in i.mods or any(isinstance(op, Imm) and op.value == 0 for op in i.operands[2:])
    return i.op == "ld"


def _space(i: Instr) -> str:
    """The state space that an access names; global memory where it names none."""
    named = (m.split("::")[0] for m in i.mods)
    return next((m for m in named if m in ("shared", "local", "const", "param")), "global")


def _ends(flow: Flow, loop: frozenset[int], i: Instr, body: list[Instr]) -> bool:
    """Whether a value decides about a way out of a loop."""
    made = set(results(i))
    for _ in body:
        made |= {name for x in body if made.intersection(sources(x)) for name in results(x)}
    leaving = [b for b in loop if any(s not in loop for s in flow.blocks[b].succ)]
    guards = [flow.body[flow.blocks[b].hi - 1].guard for b in leaving]
    return any(g is not None and g.name in made for g in guards)


__all__ = ["global_polls", "shared_polls"]
