"""Global memory used for one thing alone: counters that hand out numbers, and what is only read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE, Origins
from syncverify.frontends.ptx.analysis.handover.handover_detection import global_operand
from syncverify.frontends.ptx.decode.global_access import semantics, space_of
from syncverify.frontends.ptx.decode.parts import spaces
from syncverify.frontends.ptx.decode.wmma import matrix_in_global
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import Use, effects, touches
from syncverify.frontends.ptx.isa.addresses import GENERIC
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand, Vector


def counting(flow: Flow, generic: Collection[int], origins: Origins) -> frozenset[int]:
    """The atomics that alone touch the memory of one parameter, and add one there, all in the same way.

    ``generic``: accesses without a state space. Pointers of different parameters lead to different memory.
    """
    names = _origins(flow, generic, origins)
    written = _written(flow, names)
    if written is None:
        return frozenset()
    uses = Counter(x for found in names.values() for x in found)
    whole = {p.name for p in flow.function.params}
    asking: dict[str, list[int]] = {}
    for k in written:
        if adds_one(flow.body[k]) and len(names[k]) == 1:
            asking.setdefault(next(iter(names[k])), []).append(k)
    return frozenset(
        k
        for x, found in asking.items()
        if uses[x] == len(found) and x.rpartition("+")[0] in whole
        for k in found
        if len({(flow.body[j].mods, flow.body[j].operands[2]) for j in found}) == 1
    )


def unwritten(flow: Flow, generic: Collection[int], origins: Origins) -> frozenset[int]:
    """The plain loads whose memory, that of one parameter, the kernel does not write."""
    names = _origins(flow, generic, origins)
    written = _written(flow, names)
    if written is None:
        return frozenset()
    touched = {x for k in written for x in names[k]}
    return frozenset(k for k, found in names.items() if _loads(flow.body[k]) and len(found) == 1
                     and ANYWHERE not in found and not found & touched)  # fmt: skip


def _loads(i: Instr) -> bool:
    """Whether an instruction loads from global memory, and no flag that others may write meanwhile."""
    return i.op == "ld" and "global" in i.mods and not semantics(i)


def loads_word(i: Instr) -> bool:
    """Whether it loads one integer."""
    one = not isinstance(i.operands[0], Vector) or len(i.operands[0].items) == 1
    return one and i.mods[-1] in ("b32", "u32", "s32", "b64", "u64", "s64")


def _origins(flow: Flow, generic: Collection[int], origins: Origins) -> dict[int, frozenset[str]]:
    """Where the addresses of the accesses to global memory come from."""
    return {
        k: origins.of(_address(i))
        for k, i in enumerate(flow.body)
        if flow.block_of[k] in flow.reached
        and (space_of(i) == "global" or k in generic or _bulk(i) or matrix_in_global(i) or edits_map(i))
    }


def _written(flow: Flow, names: Mapping[int, frozenset[str]]) -> list[int] | None:
    """Accesses that may write; None where some may write anywhere."""
    written = [k for k in names if any(Use.WRITES & t.use for t in touches(flow.body[k]))]
    lost = any(not names[k] or ANYWHERE in names[k] for k in written)
    others = (k for k in range(len(flow.body)) if k not in names and flow.block_of[k] in flow.reached)
    return None if lost or any(_unfollowed(flow.body[k]) for k in others) else written


def _unfollowed(i: Instr) -> bool:
    """Whether an instruction may write global memory where nobody looks: not a load or store without a state
    space that leads to shared memory, nor a copy by a tensor map."""
    if i.op == "call":
        return True
    if space_of(i) == GENERIC or (i.op == "cp" and "tensor" in i.mods):
        return False
    return any(Use.WRITES & t.use and t.space in ("global", GENERIC) for t in touches(i))


def edits_map(i: Instr) -> bool:
    """Whether an instruction writes a tensor map that may lie in global memory."""
    found = touches(i) if "tensormap" in effects(i) else ()
    return any(Use.WRITES & t.use and t.space in ("global", GENERIC) for t in found)


def _bulk(i: Instr) -> bool:
    """Whether a bulk copy without a tensor map writes or reads global memory."""
    return i.op == "cp" and "bulk" in i.mods and "global" in spaces(i.mods) and "tensor" not in i.mods


def _address(i: Instr) -> Operand:
    return global_operand(i) if i.op == "cp" else next(o for o in i.operands if isinstance(o, Mem))


def adds_one(i: Instr) -> bool:
    """Whether an atomic may hand out the numbers of a counter, by its form."""
    counts = bool({"inc", "add"}.intersection(i.mods)) and i.mods[-1] in ("u32", "s32")
    return i.op == "atom" and counts and len(i.operands) == 3 and isinstance(i.operands[1], Mem)
