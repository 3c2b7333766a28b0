"""Where masks of lanes, and predicates, come from: the instruction whose result a register holds.

A result goes through copies that leave it as it is, in each lane that has it:

- ``mov``; ``selp`` of a predicate that numbers decide; the complement of a complement;
- ``shfl.idx`` from a lane of the mask of a ballot by the same lanes, which all hold one number.

    vote.sync.ballot.b32 %m, %p, %a;
    brev.b32 %b, %a;  clz.b32 %l, %b;  shfl.sync.idx.b32 %n, %m, %l, 31, %a;   // %n is %m
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand, Pair, Reg

ALL_LANES = 0xFFFFFFFF
#: Copies in a row, at most.
_DEEPEST = 24
#: The last lane; also the segments and clamp of a ``shfl`` that takes from any lane of the warp.
_LAST = 31
#: Comparisons of numbers below 2**31, signed or not.
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChosenLane:
    """A lane of a mask, and the instruction that reads the mask for it. ``from_last``: by how much its number
    is less than 31."""

    mask: Reg
    at: int
    from_last: bool = False


@dataclass(frozen=True, slots=True)
class MaskValues:
    """``definitions``: by register, the instructions that write it. ``constant``: the number that an operand
    always is. ``whole``: whether all lanes of a warp come to an instruction, so that none has left."""

    flow: Flow
    definitions: Mapping[str, Sequence[int]]
    constant: Callable[[Operand], int | None]
    whole: Callable[[int], bool]

    def origin(self, op: Reg, at: int) -> int | None:
        """The instruction that the value of a register at an instruction comes from, through copies. Each is
        the last one that writes its register, the others stand in its block, and all lanes execute it."""
        found = self.source(op, at)
        return None if found is None else found[1]

    def source(self, op: Reg, at: int) -> tuple[Reg, int] | None:
        """The same, with the register that it writes."""
        for _ in range(_DEEPEST):
            last = self._written(op, at)
            if last is None:
                return None
            copied = self._copied(last)
            if copied is None:
                return op, last
            op, at = copied
        return None

    def ballot(self, op: Operand, at: int, *, negated: bool = False) -> int | None:
        """The vote whose ballot an operand is at an instruction, or of whose ballot it has the other bits."""
        k = self.origin(op, at) if isinstance(op, Reg) else None
        if k is None:
            return None
        i = self.flow.body[k]
        if negated:
            of = self._complemented(i)
            return None if of is None else self.ballot(of, k)
        return k if i.op == "vote" and "ballot" in i.mods else None

    def alike(self, one: Operand, other: Operand, first: int, second: int) -> bool:
        """Whether two instructions read the same by two operands."""
        if self.all_lanes(one) and self.all_lanes(other):
            return True
        return isinstance(one, Reg) and one == other and self.keeps(one, first, second)

    def all_lanes(self, op: Operand) -> bool:
        """Whether an operand names all lanes."""
        found = self.constant(op)
        return found is not None and found & ALL_LANES == ALL_LANES

    def keeps(self, op: Operand, one: int, other: int) -> bool:
        """Whether an operand is the same at two instructions: a number; a register that one instruction
        writes, before both; or two instructions of a block with no write between."""
        if not isinstance(op, Reg) or op.name not in self.definitions:
            return True
        writes = self.definitions[op.name]
        if len(writes) == 1 and self.before(writes[0], one) and self.before(writes[0], other):
            return True
        low, high = min(one, other), max(one, other)
        near = self.flow.block_of[low] == self.flow.block_of[high]
        return near and not any(low <= k < high for k in writes)

    def before(self, one: int, other: int) -> bool:
        """Whether every path to an instruction goes through another one."""
        a, b = self.flow.block_of[one], self.flow.block_of[other]
        return one < other if a == b else self.flow.dominates(a, b)

    def chosen_lane(self, op: Operand, at: int) -> ChosenLane | None:
        """The mask of which an operand is the lowest lane, or the highest."""
        k = self._written(op, at) if isinstance(op, Reg) else None
        if k is None:
            return None
        i = self.flow.body[k]
        of = i.operands[-1]
        if i.op in ("sub", "xor") and self._is_last(i.operands[1], k):
            found = self.chosen_lane(of, k)
            return None if found is None else replace(found, from_last=not found.from_last)
        if not isinstance(of, Reg) or i.name not in ("bfind.u32", "clz.b32", "bfind.shiftamt.u32"):
            return None
        turned = None if i.name == "bfind.u32" else self._written(of, k)
        if turned is None or self.flow.body[turned].name != "brev.b32":
            return ChosenLane(of, k, from_last=i.name != "bfind.u32")
        of = self.flow.body[turned].operands[1]
        return ChosenLane(of, turned) if isinstance(of, Reg) else None

    def bit(self, op: Operand, at: int) -> int | None:
        """The number that an operand is at an instruction where it is not 0, if that has one bit."""
        k = self._written(op, at) if isinstance(op, Reg) else None
        if k is None:
            return None
        i = self.flow.body[k]
        if i.op == "and" and "pred" not in i.mods:
            bits = [x.value for x in i.operands[1:] if isinstance(x, Imm) and x.value > 0]
            return next((x for x in bits if x & (x - 1) == 0), None)
        return 1 if i.name in ("shr.u32", "shr.b32") and i.operands[2] == Imm(_LAST) else None

    # ------------------------------------------------------------

    def _written(self, op: Reg, at: int) -> int | None:
        """The instruction that writes what a register holds at another one."""
        found = self.definitions.get(op.name, ())
        blocks = {self.flow.block_of[k] for k in found}
        if len(blocks) != 1 or any(self.flow.body[k].guard is not None for k in found):
            return None
        near = self.flow.block_of[at] in blocks
        last = max((k for k in found if k < at or not near), default=at)
        return last if self.before(last, at) else None

    def _is_last(self, op: Operand, at: int) -> bool:
        """Whether an operand is the number of the last lane."""
        k = self._written(op, at) if isinstance(op, Reg) else None
        if k is None:
            return op == Imm(_LAST)
        i = self.flow.body[k]
        return i.name in ("mov.u32", "mov.s32", "mov.b32") and i.operands[1] == Imm(_LAST)

    def _copied(self, k: int) -> tuple[Reg, int] | None:
        """The register that an instruction copies, and where that is read."""
        i = self.flow.body[k]
        if i.op == "shfl":
            return self._shuffled(i, k)
        if not isinstance(i.operands[0], Reg):
            return None
        source: Operand | None = i.operands[1] if i.op == "mov" else None
        if i.op == "selp":
            source = self._chosen(i, k)
        of = self._complemented(i)
        at = k if of is None else self._written(of, k)
        if of is not None and at is not None:
            source = self._complemented(self.flow.body[at])
        return (source, at) if at is not None and isinstance(source, Reg) else None

    def _complemented(self, i: Instr) -> Reg | None:
        """The register of which an instruction makes the other bits."""
        of: Operand | None = None
        if i.name == "not.b32":
            of = i.operands[1]
        elif i.name == "xor.b32":
            one, other = i.operands[1:]
            of = other if self.all_lanes(one) else one if self.all_lanes(other) else None
        return of if isinstance(of, Reg) else None

    def _chosen(self, i: Instr, k: int) -> Operand | None:
        """What ``selp`` copies, where numbers decide its predicate."""
        predicate = i.operands[3]
        at = self._written(predicate, k) if isinstance(predicate, Reg) else None
        holds = None if at is None else self._decided(self.flow.body[at])
        return None if holds is None else i.operands[1 if holds else 2]

    def _decided(self, i: Instr) -> bool | None:
        """Whether a comparison holds, if numbers decide it."""
        if i.op != "setp" or len(i.mods) != 2 or not isinstance(i.operands[0], Reg):
            return None
        a, b = map(self.constant, i.operands[1:3])
        if b == 0 and i.mods in (("ge", "u32"), ("lt", "u32")):
            return i.mods[0] == "ge"
        if a is None or b is None or not 0 <= min(a, b) <= max(a, b) < 1 << 31:
            return None
        test = _COMPARED.get(i.mods[0]) if i.mods[1] in ("u32", "s32", "b32") else None
        return None if test is None else test(a, b)

    def _shuffled(self, i: Instr, k: int) -> tuple[Reg, int] | None:
        """What ``shfl`` brings, where all lanes that execute it hold the same: they have voted together."""
        value, source, clamp, mask = i.operands[1:]
        if i.mods != ("sync", "idx", "b32") or self.constant(clamp) != _LAST:
            return None
        if isinstance(i.operands[0], Pair) or not isinstance(value, Reg):
            return None
        lane, vote = self.chosen_lane(source, k), self.ballot(value, k)
        if lane is None or lane.from_last or vote is None:
            return None
        asked = self.flow.body[vote].operands[-1]
        named = self.alike(lane.mask, mask, lane.at, k) and self.alike(asked, mask, vote, k)
        # of lanes that a number names one may have left, and what it brings is then anything
        named = named and (self.whole(k) or self.constant(mask) is None)
        return (value, k) if named else None


__all__ = ["ALL_LANES", "ChosenLane", "MaskValues"]
