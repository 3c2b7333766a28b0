"""What instructions read and write."""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.frontends.ptx.nodes import Instr, Mem, Not, Operand, Pair, Reg, Vector

_POLLS = ("mbarrier.test_wait", "mbarrier.try_wait")
#: Instructions whose first operand is no destination.
_NO_RESULT = frozenset(
    "st red bar barrier fence membar bra brx ret exit trap call nanosleep prefetch prefetchu cp wgmma "
    "stmatrix setmaxnreg griddepcontrol discard applypriority tensormap pmevent brkpt".split()
)


def registers(op: Operand | None) -> Iterator[str]:
    """The registers that an operand names."""
    match op:
        case Reg(name) | Not(Reg(name)):
            yield name
        case Mem(base, _, coords):
            yield from registers(base)
            for c in coords:
                yield from registers(c)
        case Vector(items):
            for x in items:
                yield from registers(x)
        case Pair(a, b):
            yield from registers(a)
            yield from registers(b)


def results(i: Instr) -> tuple[str, ...]:
    """The registers that an instruction writes."""
    if not i.operands:
        return ()
    if i.op in _NO_RESULT:
        if i.op == "wgmma" and i.mods and i.mods[0] == "mma_async":
            return tuple(registers(i.operands[0]))
        if i.op == "bar" or i.op == "barrier":
            return tuple(registers(i.operands[0])) if "red" in i.mods else ()
        if i.op == "call":
            return tuple(registers(i.operands[0]))
        return ()
    if i.op == "mbarrier" and i.mods[0] in ("init", "inval", "expect_tx", "complete_tx"):
        return ()
    if i.op in ("multimem", "tensormap", "clusterlaunchcontrol") and not i.name.startswith("multimem.ld"):
        return () if i.name != "clusterlaunchcontrol.query_cancel" else tuple(registers(i.operands[0]))
    first = i.operands[0]
    return () if isinstance(first, Mem) else tuple(registers(first))


def sources(i: Instr) -> tuple[str, ...]:
    """The registers that an instruction reads, its guard included."""
    out = [i.guard.name] if i.guard is not None else []
    written = bool(results(i))
    for k, op in enumerate(i.operands):
        if not (k == 0 and written) or (i.op == "wgmma" and k == 0):
            out += registers(op)
    return tuple(out)


def is_poll(i: Instr) -> bool:
    """Whether the instruction looks once whether a phase has completed."""
    return i.op == "mbarrier" and i.name.startswith(_POLLS)


def harmless(i: Instr) -> bool:
    """No effect beyond registers, apart from a poll."""
    if i.op in (
        "st",
        "red",
        "atom",
        "bar",
        "barrier",
        "cp",
        "wgmma",
        "fence",
        "membar",
        "call",
        "ret",
        "exit",
    ):
        return False
    if i.op in (
        "ld",
        "ldmatrix",
        "stmatrix",
        "elect",
        "setmaxnreg",
        "tensormap",
        "multimem",
        "griddepcontrol",
    ):
        return i.op == "ld" and i.mods[0] in ("param", "local", "const")
    return i.op != "mbarrier" or is_poll(i)
