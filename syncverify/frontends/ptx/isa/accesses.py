"""What an instruction does at its addresses: whether it reads there, writes, or both.

The effect of its row says so, which is the one list of what accesses memory: an analysis that asks here
cannot pass over an instruction that it does not know. What the table does not have, and an effect that is
not listed here, reads and writes at each address.

Example: ``wmma.load`` reads at its address, ``red`` reads and writes, ``prefetch`` does neither.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache

from syncverify.frontends.ptx.isa.addresses import GENERIC, addresses
from syncverify.frontends.ptx.isa.match import forms
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem
from syncverify.frontends.ptx.syntax.operands import is_poll, results


class Use(enum.Flag):
    """What becomes of the bytes at an address."""

    NONE = 0
    READS = 1
    WRITES = 2
    BOTH = 3


@dataclass(frozen=True, slots=True)
class Touch:
    """An address of an instruction, the state space that it is written for, and what is done there."""

    at: Mem
    space: str
    use: Use


UNKNOWN = "unknown"
#: By effect, what is done at each address; of a copy the first is the destination, the second the source.
_USES: dict[str, Use] = {
    "memory read": Use.READS,
    "texture read": Use.READS,
    "matrix read": Use.READS,
    "memory write": Use.WRITES,
    "matrix write": Use.WRITES,
    "memory atomic": Use.BOTH,
    "async store": Use.BOTH,
    "mbarrier": Use.BOTH,
    "hint": Use.NONE,
    "fence": Use.NONE,
}
_COPIES = ("async copy", "tensormap")
#: What makes its results of its operands, and of nothing else.
_COMPUTES = frozenset({"register", "data"})
#: What leaves nothing but values in registers, of the own thread or of its warp. Of control, what goes on in
#: the function.
_REGISTERS = _COMPUTES | {"warp", "matrix registers", "hint", "control"}
_LEAVES = frozenset({"call", "ret", "exit"})
#: Spaces of the own thread, and what nobody writes while the kernel runs.
_OWN_SPACES = frozenset({"local", "param", "const"})
#: What leaves nothing but values in the thread's own registers, or goes on at another instruction.
_SILENT = frozenset({"register", "data", "control", "hint", "texture read"})


def effects(i: Instr) -> frozenset[str]:
    """The effects of the rows that an instruction may be of, by its opcode and modifiers."""
    return _effects(i.op, i.mods)


@lru_cache(maxsize=1 << 12)
def _effects(opcode: str, mods: tuple[str, ...]) -> frozenset[str]:
    return frozenset(form.row.effect for form in forms(opcode, mods)) or frozenset({UNKNOWN})


def touches(i: Instr) -> tuple[Touch, ...]:
    """The addresses of an instruction in the order of the text, with what it does at each."""
    places = [x for x in i.operands if isinstance(x, Mem)]
    if not places:
        return ()
    spaces = [space for _, space in addresses(i)] or [GENERIC] * len(places)
    only = _only_space(i.op, i.mods)
    spaces = [only if space == GENERIC else space for space in spaces]
    uses = [_use(i, n) for n in range(len(places))]
    return tuple(map(Touch, places, spaces, uses))


@lru_cache(maxsize=1 << 12)
def _only_space(opcode: str, mods: tuple[str, ...]) -> str:
    """Where a generic address has to lead: to the one state space that the rows have, if it is one."""
    slots = [form.row.slot("SPACE") for form in forms(opcode, mods)]
    bases = {word.partition("::")[0] for s in slots if s is not None for word in s.words}
    return bases.pop() if len(bases) == 1 and all(slots) else GENERIC


def _use(i: Instr, n: int) -> Use:
    """What an instruction does at one of its addresses, by their order."""
    found = Use.NONE
    for effect in effects(i):
        copies = effect in _COPIES and "replace" not in i.mods
        found |= _copied(i, n) if copies else _USES.get(effect, Use.BOTH)
    return found


def _copied(i: Instr, n: int) -> Use:
    """Of a copy: behind destination and source stands its mbarrier. A reduction reads what it adds to."""
    if n == 0:
        return Use.BOTH if "reduce" in i.mods else Use.WRITES
    return Use.READS if n == 1 else Use.BOTH


def reads(i: Instr, *spaces: str) -> list[Mem]:
    """The addresses in some state spaces at which an instruction reads; a generic one may be in any."""
    return _places(i, Use.READS, spaces)


def writes(i: Instr, *spaces: str) -> list[Mem]:
    """The addresses in some state spaces at which an instruction writes; a generic one may be in any."""
    return _places(i, Use.WRITES, spaces)


def _places(i: Instr, use: Use, spaces: tuple[str, ...]) -> list[Mem]:
    return [t.at for t in touches(i) if use & t.use and t.space.partition("::")[0] in (*spaces, GENERIC)]


def computes(i: Instr) -> bool:
    """Whether the results of an instruction follow from its operands: special registers count among them."""
    return effects(i) <= _COMPUTES


def from_outside(i: Instr) -> bool:
    """Whether an instruction brings what no register of its warp held: words of memory, answers of barriers,
    what a function returns."""
    return bool(results(i)) and not effects(i) <= _COMPUTES | {"warp", "matrix registers"}


def stays_in_registers(i: Instr) -> bool:
    """Whether an instruction does nothing but write registers, by what others do not write meanwhile, or go
    on at another one of the function. One that elects a lane has an event of its own."""
    if i.op in _LEAVES or i.op == "elect":
        return False
    private = effects(i) == {"memory read"} and all(t.space in _OWN_SPACES for t in touches(i))
    return private or effects(i) <= _REGISTERS


def harmless(i: Instr) -> bool:
    """No effect beyond registers, apart from a poll."""
    return is_poll(i) or stays_in_registers(i)


def acts(i: Instr) -> bool:
    """Whether others may notice that an instruction is executed, or it looks at what they do."""
    return i.op == "call" or not effects(i) <= _SILENT


def passes_on(i: Instr) -> bool:
    """Whether other threads of the block, or of its cluster, may learn by an instruction of its operands."""
    meets = not effects(i).isdisjoint({"warp", "barrier", UNKNOWN})
    return meets or any(t.space != "global" and Use.WRITES & t.use for t in touches(i))


__all__ = [
    "UNKNOWN",
    "Touch",
    "Use",
    "acts",
    "computes",
    "effects",
    "from_outside",
    "harmless",
    "passes_on",
    "reads",
    "stays_in_registers",
    "touches",
    "writes",
]
