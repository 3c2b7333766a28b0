"""Where the numbers of an instruction come from: lines in which a mistake in its address, its guard, its
count or its bytes may stand.

A finding shows the instruction that does harm. What its author has to change often stands above it: the mask
in an address, the comparison behind a guard, the initial value of a count. Definitions are followed back from
each operand, the nearest first. Only those count that bring something in: a constant, a comparison, a choice.

Worked example. Of ``shl.b32 %r2, %r1, 2; add.s32 %r3, %r2, %r9; mov.b32 %r4, %r3; st.shared.u32 [%r4], %r5``
the store's address is made in the first instruction. The sum of two registers and the copy say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cached_property

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import effects, reads
from syncverify.frontends.ptx.syntax.nodes import FloatImm, Imm, Instr, Mem, Not, Operand, Reg
from syncverify.frontends.ptx.syntax.operands import registers, results, sources


class Role(StrEnum):
    """What a number is of an instruction."""

    ADDRESS = "address"
    OPERAND = "operand"  # a count, a parity, a mask, a size
    GUARD = "guard"
    PATH = "path"  # whether control comes to it


#: The operands of what has these effects are data, which nothing here is about.
_OF_DATA = frozenset({
    "memory read", "memory write", "memory atomic", "texture read", "matrix read", "matrix write",
    "matrix registers", "async store",
})  # fmt: skip
_CHOICES = frozenset({"setp", "selp", "set"})


class OperandOrigins:
    """The origins of the numbers of a function's instructions."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    @cached_property
    def _controllers(self) -> list[set[int]]:
        return self.flow.controllers()

    def of(self, k: int, role: Role) -> Iterator[int]:
        """The instructions that the numbers of one role of instruction ``k`` come from, the nearest first."""
        i = self.flow.body[k]
        match role:
            case Role.ADDRESS if i.op == "wgmma":  # by descriptors
                found = self._made_of(k, _numbers(i))
            case Role.ADDRESS:
                found = self._made_of(k, (r for op in i.operands for r in _address(op)))
            case Role.OPERAND:
                found = self._made_of(k, _numbers(i))
            case Role.GUARD:
                found = self._made_of(k, [] if i.guard is None else [i.guard.name])
            case Role.PATH:
                found = self._path(k)
        seen = set[int]()
        for at in found:
            if at not in seen:
                seen.add(at)
                yield at

    def _path(self, k: int) -> Iterator[int]:
        """The branches that decide whether control comes to an instruction, the nearest first, each with what
        its predicate comes from."""
        ends = (self.flow.blocks[b].hi - 1 for b in self._controllers[self.flow.block_of[k]])
        for branch in sorted(ends, key=lambda at: (at >= k, abs(k - at))):
            yield branch
            guard = self.flow.body[branch].guard
            if guard is not None:
                yield from self._made_of(branch, [guard.name])

    def _made_of(self, k: int, names: Iterable[str]) -> Iterator[int]:
        """The instructions that registers which ``k`` reads are computed by and that bring something in."""
        versions, seen = self.flow.versions, set[int]()
        work = [versions.read(name, k) for name in names]
        while work:
            behind: list[int] = []
            for v in work:
                if v in seen:
                    continue
                seen.add(v)
                at = versions.writer[v]
                if at < 0:
                    behind += [*(x for _, x in versions.merged(v)), *self._chosen_by(v)]
                    continue
                i = self.flow.body[at]
                if _brings(i):
                    yield at
                if not reads(i):  # what a load brings stands elsewhere
                    behind += [versions.read(name, at) for name in sources(i)]
            work = behind

    def _chosen_by(self, v: int) -> list[int]:
        """What decides which of the versions that a block merges there is: the branch above it."""
        flow, block = self.flow, self.flow.versions.block[v]
        sides = [b for b, _ in flow.versions.merged(v)]
        if any(b < 0 or flow.dominates(block, b) for b in sides):
            return []  # the head of a loop: a turn decides
        branch = flow.blocks[flow.idom[block]].hi - 1
        guard = flow.body[branch].guard
        return [] if guard is None else [flow.versions.read(guard.name, branch)]


def _address(op: Operand) -> tuple[str, ...]:
    return registers(op.base) if isinstance(op, Mem) else ()


def _numbers(i: Instr) -> list[str]:
    """The registers of an instruction's counts, parities, masks, sizes and descriptors."""
    if effects(i) <= _OF_DATA:
        return []
    read = i.operands[1:] if results(i) and i.op != "wgmma" else i.operands
    return [r for op in read if isinstance(op, Reg | Not) for r in registers(op)]


def _brings(i: Instr) -> bool:
    """Whether an instruction brings a constant or a choice into what it computes."""
    return i.op in _CHOICES or any(isinstance(op, Imm | FloatImm) for op in i.operands[1:])


__all__ = ["OperandOrigins", "Role"]
