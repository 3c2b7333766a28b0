"""Where a kernel stops itself: traps and failed assertions, and the branches that keep it from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from syncverify.frontends.ptx.isa.accesses import harmless
from syncverify.frontends.ptx.syntax.nodes import Instr, Sym
from syncverify.frontends.ptx.syntax.operands import is_poll

if TYPE_CHECKING:
    from syncverify.frontends.ptx.flow.control_flow import Flow

#: Blocks that a way to a trap may lead through.
MOST_BLOCKS = 8
#: Functions of the device runtime that do nothing that anybody waits for.
SILENT = frozenset({"vprintf", "free", "malloc", "cudaGetParameterBufferV2"})

#: Instructions that lanes of a warp execute together.
_MEETS = frozenset({"shfl", "vote", "redux", "match", "activemask"})


def called(i: Instr) -> str | None:
    """The function that an instruction calls, if that is known."""
    callee = i.operands[1] if i.op == "call" and len(i.operands) > 1 else None
    return callee.name if isinstance(callee, Sym) else None


def stops(i: Instr) -> bool:
    """Whether the kernel ends with an error there."""
    return i.op in ("trap", "brkpt") or called(i) == "__assertfail"


def failing(flow: Flow) -> dict[int, int]:
    """The blocks that lead to such an end and nowhere else, without a wait, as after a failed assertion, and
    the instruction there.

    Not those at which a loop that polls gives up: it has waited for something.
    """
    found = {b: k for b in flow.reached if (k := _end(flow, b)) is not None}
    polls = {flow.block_of[k] for k, i in enumerate(flow.body) if is_poll(i) and k not in flow.spins}
    watched = [loop for loop in flow.loops if not polls.isdisjoint(loop)]
    entered = {b: [p for p in flow.blocks[b].pred if p not in found] for b in found}
    waits = {b for b in found if any(p in loop for loop in watched for p in entered[b])}
    while more := {b for b in found.keys() - waits if not waits.isdisjoint(flow.blocks[b].pred)}:
        waits |= more
    return {b: k for b, k in found.items() if b not in waits}


def _end(flow: Flow, block: int) -> int | None:
    for k in _straight(flow, block):
        i = flow.body[k]
        if stops(i) and i.guard is None:
            return k
        if not _neither_waits_nor_releases(i):
            return None
    return None


def _straight(flow: Flow, block: int) -> Iterator[int]:
    """The instructions from a block on, as far as there is one way."""
    for _ in range(MOST_BLOCKS):
        if block == flow.end:
            return
        b = flow.blocks[block]
        yield from range(b.lo, b.hi)
        if len(b.succ) != 1:
            return
        block = b.succ[0]


def _neither_waits_nor_releases(i: Instr) -> bool:
    """Whether a thread that executes an instruction waits for no other, and hands nothing on."""
    if i.op in ("ld", "st"):
        return "async" not in i.mods
    return called(i) in SILENT or (harmless(i) and i.op not in _MEETS and not is_poll(i))
