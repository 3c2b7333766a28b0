"""Threads that leave the kernel before they share anything, where data or an open size decides.

Barriers of the whole block do not wait for threads that have left (K22). Where these are all that orders a
kernel, who leaves ahead of the first access takes accesses away and no order: a kernel that is right if
everyone stays is right whoever leaves. For a proof everyone is taken to stay, which costs no case for each
number of threads. Where a thread polls for what others do, who leaves may be who it waits for: then nobody is
taken to stay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import Use, from_outside, touches
from syncverify.frontends.ptx.isa.participants import by_all_lanes
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.operands import computed_from, is_poll, results, sources

#: Loads that say that others write meanwhile.
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})


def early_returns(flow: Flow, eventful: Collection[int]) -> Mapping[int, int]:
    """By branch past which threads leave ahead of all events, what its guard holds where a thread stays.
    ``eventful``: instructions with events."""
    if not all(map(_orders_whole_blocks, flow.body)) or any(_waits(flow, loop) for loop in flow.loops):
        return {}
    before = _before(flow, {flow.block_of[k] for k in eventful})
    found: dict[int, int] = {}
    for n in flow.reached:
        b = flow.blocks[n]
        last = flow.body[b.hi - 1]
        if len(b.succ) != 2 or last.guard is None or n in before or any(b.lo <= k < b.hi for k in eventful):
            continue
        ends = [_ends(flow, s, eventful) for s in b.succ]
        if ends.count(True) == 1:
            jumps = int(not last.negated)  # what the guard holds where control goes to the first successor
            found[b.hi - 1] = 1 - jumps if ends[0] else jumps
    return found


def _orders_whole_blocks(i: Instr) -> bool:
    if i.op in ("bar", "barrier"):
        return "cluster" not in i.mods and "warp" not in i.mods and "arrive" not in i.mods and (
            len(i.operands) == 1
        )  # fmt: skip
    return i.op != "elect" and not by_all_lanes(i)


def _waits(flow: Flow, loop: Collection[int]) -> bool:
    """Whether what others write meanwhile may decide how often a loop turns."""
    body = [flow.body[k] for b in sorted(loop) for k in range(flow.blocks[b].lo, flow.blocks[b].hi)]
    polled = [name for i in body if _is_polled(i) for name in results(i)]
    if not polled:
        return False
    dependent = computed_from(polled, body)
    return any(i.op in ("bra", "brx", "ret", "exit") and not dependent.isdisjoint(sources(i)) for i in body)


def _is_polled(i: Instr) -> bool:
    answers = any(t.use is Use.BOTH for t in touches(i)) or not _STRONG.isdisjoint(i.mods)
    return is_poll(i) or (from_outside(i) and answers)


def _before(flow: Flow, blocks: Collection[int]) -> set[int]:
    """The blocks that some may lead to, by one edge or more."""
    seen: set[int] = set()
    work = [s for b in blocks if b in flow.reached for s in flow.blocks[b].succ]
    while work:
        b = work.pop()
        if b != flow.end and b not in seen:
            seen.add(b)
            work += flow.blocks[b].succ
    return seen


def _ends(flow: Flow, block: int, eventful: Collection[int]) -> bool:
    """Whether nothing happens from a block on to the end."""
    for _ in range(len(flow.blocks) + 1):
        if block == flow.end:
            return True
        b = flow.blocks[block]
        stops = any(flow.body[k].op in ("trap", "brkpt") for k in range(b.lo, b.hi))
        if len(b.succ) != 1 or stops or any(b.lo <= k < b.hi for k in eventful):
            return False
        block = b.succ[0]
    return False


__all__ = ["early_returns"]
