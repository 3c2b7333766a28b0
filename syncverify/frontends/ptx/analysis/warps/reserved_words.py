"""Words in reserved shared memory, and code that lane 0 of each warp executes alone.

Cooperative groups keep words there that the warps of a tile meet by (``analysis.warps.tile_barriers``).
Which word an instruction accesses, which bits it names and which threads take a branch is computed for each
thread of a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from syncverify.frontends.ptx.analysis.registers.thread_values import RESERVED, Numbers, ThreadValues
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Label, Mem, Operand
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.frontends.ptx.syntax.pure_operations import PURE
from syncverify.frontends.ptx.syntax.types import width
from syncverify.ir.launch_grid import Dims

WORD = "%reserved_smem_offset_1"
#: The bytes that are reserved, and those of them that are words.
BYTES, WORDS = 288, 32
ALL_BITS = np.uint64(0xFFFFFFFF)
_SPACES = frozenset({"shared", "shared::cta"})


@dataclass(frozen=True, slots=True)
class Alone:
    """A block that lane 0 of each warp executes alone: the branch before it, and where all meet again."""

    branch: int
    join: int


class ReservedWords:
    """The words of one function in blocks of one shape."""

    def __init__(self, function: Function, block: Dims) -> None:
        self.function = function
        self.body = function.body
        self.flow = Flow(function)
        self.values = ThreadValues(self.flow, block)
        self.leaders = self.values.lane == 0

    def reached(self) -> list[int]:
        return [
            k
            for n in sorted(self.flow.reached)
            for k in range(self.flow.blocks[n].lo, self.flow.blocks[n].hi)
        ]

    def own_bits(self) -> Numbers:
        """The bit of each warp, at its lane 0."""
        bits: Numbers = np.left_shift(np.uint64(1), self.values.warp[self.leaders])
        return bits

    def at_leaders(self, op: Operand, k: int, given: Mapping[int, Numbers] | None = None) -> Numbers | None:
        found = self.values.read(op, k, given)
        return None if found is None else found[self.leaders]

    def slot(self, k: int) -> int | None:
        """Which word an instruction accesses, by its bytes."""
        m = next(op for op in self.body[k].operands if isinstance(op, Mem))
        found = self.values.read(m.base, k)
        if found is None or m.coords or len(set(found.tolist())) != 1:
            return None
        at = int(found[0]) + m.offset - RESERVED
        return at if 0 <= at < WORDS - 12 and at % 4 == 0 else None

    def warps_of(self, k: int, mask: Numbers) -> int | None:
        """How many warps a tile has, if the bits of a mask are those of aligned tiles of a power of two."""
        warps = int(mask[0]).bit_count()
        if warps not in (2, 4, 8, 16):
            return None
        first = self.values.warp[self.leaders] // np.uint64(warps) * np.uint64(warps)
        return warps if np.array_equal(mask, np.uint64((1 << warps) - 1) << first) else None

    def alone(self, k: int) -> Alone | None:
        """How lane 0 of each warp, and it alone, comes to the block of an instruction."""
        block = self.flow.block_of[k]
        before = [p for p in self.flow.blocks[block].pred if p in self.flow.reached]
        if len(before) != 1 or len(set(self.flow.blocks[before[0]].succ)) != 2:
            return None
        branch = self.flow.blocks[before[0]].hi - 1
        taken = self.taken(branch)
        target = self.target(branch)
        if taken is None or target is None:
            return None
        inside = taken if target == block else ~taken
        join = self.flow.join(before[0])
        if join == self.flow.end or block == join or not np.array_equal(inside, self.leaders):
            return None
        return Alone(branch, join)

    def taken(self, branch: int, given: Mapping[int, Numbers] | None = None) -> NDArray[np.bool_] | None:
        """Which threads take a branch."""
        i = self.body[branch]
        if i.op != "bra":
            return None
        if i.guard is None:
            return np.ones(self.values.threads, np.bool_)
        found = self.values.read(i.guard, branch, given)
        return None if found is None else (found != 0) != i.negated

    def target(self, branch: int) -> int | None:
        i = self.body[branch]
        labels = [op for op in i.operands if isinstance(op, Label)]
        return (
            self.flow.block_of[labels[0].target]
            if len(labels) == 1 and labels[0].target < len(self.body)
            else None
        )

    def only(self, alone: Alone, uses: set[int]) -> bool:
        """Whether nothing but these and pure instructions is executed by lane 0 alone."""
        inside = self.flow.between(self.flow.block_of[alone.branch])
        every = [k for n in inside for k in range(self.flow.blocks[n].lo, self.flow.blocks[n].hi)]
        entered = {p for n in inside for p in self.flow.blocks[n].pred} & self.flow.reached
        plain = all(k in uses or self.body[k].op in PURE or self.body[k].op == "bra" for k in every)
        return plain and entered <= inside | {self.flow.block_of[alone.branch]} and uses <= set(every)

    def escapes(self, inside: set[int]) -> bool:
        """Whether a register that these blocks write is read elsewhere."""
        every = [k for n in inside for k in range(self.flow.blocks[n].lo, self.flow.blocks[n].hi)]
        made = [(name, self.flow.versions.written(name, k)) for k in every for name in results(self.body[k])]
        rest = [k for k in self.reached() if self.flow.block_of[k] not in inside]
        return any(
            name in sources(self.body[k]) and self.may_be(v, name, k) for name, v in made for k in rest
        )

    def synced_before(self, branch: int) -> bool:
        """Whether the warp meets right before a branch."""
        lo = self.flow.blocks[self.flow.block_of[branch]].lo
        for k in range(branch - 1, lo - 1, -1):
            if self.body[k].op not in PURE:
                return self.meets(k)
        return False

    def synced_after(self, block: int) -> bool:
        """Whether the warp meets first in a block."""
        for k in range(self.flow.blocks[block].lo, self.flow.blocks[block].hi):
            if self.body[k].op not in PURE:
                return self.meets(k)
        return False

    def meets(self, k: int) -> bool:
        i = self.body[k]
        if i.op != "bar" or i.mods != ("warp", "sync") or i.guard is not None:
            return False
        mask = self.values.read(i.operands[0], k)
        return mask is not None and bool((mask & ALL_BITS == ALL_BITS).all())

    def may_be(self, v: int, name: str, k: int) -> bool:
        """Whether an instruction may read one version of a register."""
        work, seen = [self.flow.versions.read(name, k)], set()
        while work:
            at = work.pop()
            if at == v:
                return True
            if at not in seen:
                seen.add(at)
                work += [x for _, x in self.flow.versions.merged(at)]
        return False

    def comes_before(self, a: int, b: int) -> bool:
        """Whether one instruction comes first on every path to the other."""
        at, to = self.flow.block_of[a], self.flow.block_of[b]
        return a < b if at == to else self.flow.dominates(at, to)


def is_atomic(i: Instr, op: str, *mods: str) -> bool:
    """Whether an instruction is of this kind, without a guard, on 32 bits in the block."""
    rest = set(i.mods) - _SPACES - {"b32", "u32"}
    return i.op == op and i.guard is None and rest == {*mods, "cta"} and width(i.mods[-1]) == 32


__all__ = ["ALL_BITS", "BYTES", "WORD", "WORDS", "Alone", "ReservedWords", "is_atomic"]
