"""Blocks that spin and begin a loop at once: how often they spin changes no register that is read later.

A compiler lets the head of a loop and the spin on an mbarrier behind it be one block, which jumps to itself:

    LOOP:  shl.b32 %addr, %slot, 3;  mbarrier.try_wait... %p, [%addr];  @!%p bra LOOP;  ...;  @%q bra LOOP;

Both jumps lead to one block, so that the spin looks like an iteration of the loop. It is none for data flow:
each turn computes the same from what the loop hands on. Threads that spin more or less often do not part
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Special, Sym
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.frontends.ptx.syntax.pure_operations import IN_SPINS

if TYPE_CHECKING:
    from syncverify.frontends.ptx.flow.control_flow import Flow


def spin_blocks(flow: Flow) -> frozenset[int]:
    """The blocks that jump to themselves, begin a larger loop too, and do nothing in a turn but look."""
    return frozenset(n for n in flow.reached if _begins_a_loop(flow, n) and _only_looks(flow, n))


def _begins_a_loop(flow: Flow, n: int) -> bool:
    """Whether control comes back to a block by its own jump, and by another one."""
    back = [p for p in flow.blocks[n].pred if p in flow.reached and flow.dominates(n, p)]
    return n in back and len(back) > 1


def _only_looks(flow: Flow, n: int) -> bool:
    block, versions = flow.blocks[n], flow.versions
    polls: set[tuple[str, int]] = set()
    for k in range(block.lo, block.hi - 1):
        i = flow.body[k]
        if i.guard is not None or not (_plain(i) or _polls(i)):
            return False
        for name in sources(i):
            v = versions.read(name, k)
            changed = versions.writer[v] < 0 and versions.block[v] == n and (n, v) not in versions.merged(v)
            if changed:
                return False  # a turn reads what the turn before has changed
        if _polls(i):
            polls.update((name, k) for name in results(i))
    return all(_read_inside(flow, n, name, k) for name, k in polls)


def _plain(i: Instr) -> bool:
    if i.op == "ld" and "param" in i.mods:
        return all(isinstance(op.base, Sym) for op in i.operands if isinstance(op, Mem))
    return i.op in IN_SPINS and "cc" not in i.mods and not any(isinstance(op, Special) for op in i.operands)


def _polls(i: Instr) -> bool:
    return i.op == "mbarrier" and bool({"try_wait", "test_wait"}.intersection(i.mods))


def _read_inside(flow: Flow, n: int, name: str, writer: int) -> bool:
    """Whether the answer of a poll is read in its own block alone."""
    versions = flow.versions
    return not any(
        name in sources(i)
        and flow.block_of[k] != n
        and flow.block_of[k] in flow.reached
        and versions.writer[versions.read(name, k)] in (writer, -1)
        for k, i in enumerate(flow.body)
    )


__all__ = ["spin_blocks"]
