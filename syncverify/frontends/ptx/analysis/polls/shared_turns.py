"""Atomics in shared memory that say who comes when: locks that are tried once, and counters.

Each thread executes such an atomic at most once, and what it brings decides. A lock holds zero while it is
free: who finds zero takes it, and who does not goes another way. A counter brings how many came before.
Atomics of one word have one order, and each acquires what all before it released (PTX ISA: release
patterns). Where the orders that there may be are tried, what each atomic brings is a number.

Example: ``if (atomicExch(&taken, 1) == 0)``, ``if (atomicAdd(&done, 1) == warps - 1)``, and
``t = atomicAdd(&next, 1); while (serving != t) {}``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from syncverify.frontends.ptx.analysis.handover.handover_detection import asked_if_zero, constant, innermost
from syncverify.frontends.ptx.decode.shared_flags import SharedTurn
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import harmless
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand, Reg
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import width


def shared_turns(flow: Flow, named: Collection[int]) -> Mapping[int, SharedTurn]:
    """Those among accesses to shared memory."""
    found = {k: _turn(flow, k) for k in named if _executed_once(flow, k)}
    return {k: turn for k, turn in found.items() if turn is not None}


def _executed_once(flow: Flow, k: int) -> bool:
    i = flow.body[k]
    if i.op != "atom" or i.guard is not None or innermost(flow, k) is not None or len(results(i)) != 1:
        return False
    return set(results(i)).isdisjoint(registers(i.operands[1]))  # where it lies is asked behind it


def _turn(flow: Flow, k: int) -> SharedTurn | None:
    i = flow.body[k]
    given, mods = constant(flow, i.operands[-1]), set(i.mods)
    if i.mods[-1][0] not in "bus" or width(i.mods[-1]) > 64:
        return None
    signed, narrow = i.mods[-1].startswith("s"), i.mods[-1] in ("u32", "s32")
    counts = narrow and given is not None and not mods.isdisjoint({"add", "inc"})
    most = given + 1 if "inc" in mods and given is not None else None
    if asked_if_zero(flow, k):
        grows = counts and given is not None and ("inc" in mods or 0 < given < _SMALL)
        swaps = "exch" in mods or ("cas" in mods and constant(flow, i.operands[2]) == 0)
        combines = "or" in mods or ("max" in mods and not signed)
        return SharedTurn(None, most) if given != 0 and (grows or swaps or combines) else None
    if not counts or given is None or not (most or 0 < abs(given) < _SMALL) or not _compared(flow, k):
        return None
    return SharedTurn(1 if most else given, most, _asked(flow, k))


#: What a counter grows by at most: no number of threads makes its word start again.
_SMALL = 1 << 16


def _compared(flow: Flow, k: int) -> bool:
    """Whether a number, and what is computed from it, is only asked for equality, or stored as a value: where
    numbers are places, or bounds, any of them may do."""
    seen, work = set(results(flow.body[k])), list(results(flow.body[k]))
    while work:
        name = work.pop()
        for i in flow.body:
            if name not in sources(i) or _asks_equality(i) or _stores_value(i, name):
                continue
            if not harmless(i) or i.op in ("setp", "set", "selp", "slct") or i.guard is not None:
                return False
            work += [x for x in results(i) if x not in seen]
            seen.update(results(i))
    return True


def _asked(flow: Flow, k: int) -> tuple[Operand, ...]:
    """What alone a number is compared with, where nothing is computed from it: operands that hold the same
    when the atomic is executed."""
    value, found = results(flow.body[k])[0], []
    for j, i in enumerate(flow.body):
        if value not in sources(i):
            continue
        others = [op for op in i.operands[1:] if not (isinstance(op, Reg) and op.name == value)]
        if (
            not _asks_equality(i)
            or len(others) != 1
            or not all(_kept(flow, r, k, j) for r in registers(others[0]))
        ):
            return ()
        found += others
    return tuple(found)


def _kept(flow: Flow, name: str, k: int, j: int) -> bool:
    return flow.versions.read(name, k) == flow.versions.read(name, j)


def _asks_equality(i: Instr) -> bool:
    return i.op in ("setp", "set") and i.mods[0] in ("eq", "ne")


def _stores_value(i: Instr, name: str) -> bool:
    memory = [op for op in i.operands if isinstance(op, Mem)]
    return i.op in ("st", "atom") and all(name not in registers(op) for op in memory)


__all__ = ["shared_turns"]
