"""Which atomics hand out numbers of a counter in global memory that the kernel uses for nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from syncverify.frontends.ptx.effect_parts import spaces
from syncverify.frontends.ptx.flow import Flow
from syncverify.frontends.ptx.global_access import space_of
from syncverify.frontends.ptx.global_detect import ANYWHERE, Origins, global_operand
from syncverify.frontends.ptx.nodes import Instr, Mem, Operand

#: Instructions that write global memory in ways that are not followed.
_ELSEWHERE = frozenset({"multimem", "sust", "sured", "call"})


def counting(flow: Flow, generic: Collection[int], origins: Origins) -> frozenset[int]:
    """The atomics that alone touch the memory of one parameter, and add one there.

    ``generic``: accesses without a state space. Pointers of different parameters lead to different memory.
    """
    reached = {k: i for k, i in enumerate(flow.body) if flow.block_of[k] in flow.reached}
    names = {
        k: origins.of(_address(i))
        for k, i in reached.items()
        if space_of(i) == "global" or k in generic or _bulk(i)
    }
    written = [k for k in names if flow.body[k].op not in ("ld", "ldu")]
    lost = any(not names[k] or ANYWHERE in names[k] for k in written)
    if lost or any(i.op in _ELSEWHERE for i in reached.values()):
        return frozenset()
    uses = Counter(x for found in names.values() for x in found)
    whole = {p.name for p in flow.function.params}
    return frozenset(
        k
        for k in written
        if adds_one(flow.body[k])
        and len(names[k]) == 1
        and all(uses[x] == 1 and x.rpartition("+")[0] in whole for x in names[k])
    )


def _bulk(i: Instr) -> bool:
    """Whether a bulk copy without a tensor map writes or reads global memory."""
    return i.op == "cp" and "bulk" in i.mods and "global" in spaces(i.mods) and "tensor" not in i.mods


def _address(i: Instr) -> Operand:
    return global_operand(i) if i.op == "cp" else next(o for o in i.operands if isinstance(o, Mem))


def adds_one(i: Instr) -> bool:
    """Whether an atomic may hand out the numbers of a counter, by its form."""
    counts = bool({"inc", "add"}.intersection(i.mods)) and i.mods[-1] in ("u32", "s32")
    return i.op == "atom" and counts and len(i.operands) == 3 and isinstance(i.operands[1], Mem)
