"""Places that lanes choose by their ranks, and lanes that come alone: no two of one access have one place.

The rank of a lane is how many lanes of a mask lie below it (or above it). Lanes of the mask have different
ranks. So have the lanes that come to an access where the mask names all of these
(``analysis.warps.lane_masks``). An example, the compaction of what a ballot names:

    vote.sync.ballot.b32 %m, %p, -1;  @!%p bra OVER;
    mov.u32 %l, %lanemask_lt;  and.b32 %n, %m, %l;  popc.b32 %k, %n;
    mad.lo.u32 %a, %k, 4, %base;  st.shared.u32 [%a], %x;          // lanes are 4 bytes apart or more

A lane comes alone where its number is compared with what all lanes of the warp hold alike:

    bfind.u32 %l, %m;  setp.ne.u32 %q, %laneid, %l;  @%q bra OVER;  st.shared.u32 [%a], %x;

Lanes may come in *groups*, each with a mask of its own (``activemask``, ``match.any``, a ballot). One lane
of each comes where its number is compared with the lowest or the highest of its mask, or where no lane of its
mask lies below it.

What else the place is made of has to be one value in the warp. Sums may wrap: so do their differences, which
are far less than the range of a register.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from syncverify.frontends.ptx.analysis.registers.thread_values import Numbers, ThreadValues
from syncverify.frontends.ptx.analysis.registers.uniformity import LANES, Uniformity
from syncverify.frontends.ptx.analysis.warps.lane_masks import LaneMasks
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Special
from syncverify.frontends.ptx.syntax.operands import registers

#: The most that a rank is multiplied by: 32 of it are far from the range of a register.
_MOST = 1 << 20
#: More than any two places differ: no two lanes come.
ALONE = 1 << 40
#: Instructions between a rank and an address, at most.
_DEEPEST = 12
_WHOLE = frozenset({"u32", "s32", "b32", "u64", "s64", "b64"})
#: What else an instruction on the way may say: results that saturate need not differ where ranks do.
_MODIFIERS = frozenset({"lo", "wide", "to", "global", "shared", "shared::cta", "shared::cluster"})
#: Masks of the lanes on one side of the own one: 1 with it, 0 without.
_SIDES = {"%lanemask_lt": 0, "%lanemask_le": 1, "%lanemask_gt": 0, "%lanemask_ge": 1}
#: What is shifted left by the lane's number, and what then makes a mask of the lanes below it.
_ONES: Mapping[int | None, int] = {0xFFFFFFFF: 0, 0xFFFFFFFE: 1}
_LESS_ONE = {("add", -1), ("add", 0xFFFFFFFF), ("sub", 1)}


@dataclass(frozen=True, slots=True)
class Leader:
    """The lowest lane of each mask that instruction ``made`` makes for a group of lanes, or the highest."""

    made: int
    lowest: bool


@dataclass(frozen=True)
class LaneRanks:
    """The ranks that places are made of. ``masks``: the masks of the function."""

    masks: LaneMasks
    uniformity: Uniformity

    def apart(self, k: int) -> int:
        """By how many bytes the places of any two lanes differ that come to an access; 0: not known."""
        return ALONE if self._alone(k) else self._by_rank(k)

    def _alone(self, k: int) -> bool:
        """Whether one lane at most comes to an instruction: its number equals what all lanes hold alike."""
        return any(
            (self.is_lane(one, at) or self._is_thread(one, at)) and self.alike(other, at)
            for at, *ops in self.masks.equal(k)
            for one, other in (ops, ops[::-1])
        )

    def _by_rank(self, k: int) -> int:
        place = next((x for x in self._body[k].operands if isinstance(x, Mem)), None)
        return 0 if place is None else self._step(place.base, k, k, 1, _DEEPEST)

    @property
    def _body(self) -> Sequence[Instr]:
        return self.uniformity.body

    def _step(self, op: Operand, at: int, access: int, scale: int, depth: int) -> int:
        """By how much an operand, times ``scale``, differs between lanes."""
        k = self._writer(op, at)
        if k is None or not depth or scale > _MOST:
            return 0
        i = self._body[k]
        if i.op == "popc":
            return scale if self._ranks(i.operands[1], k, access) else 0
        types = {m for m in i.mods if m[:1] in "usb" and m[1:].isdigit()}
        if not types <= _WHOLE or not set(i.mods) <= types | _MODIFIERS:
            return 0
        ops = i.operands[1:]
        if i.op in ("mov", "cvt", "cvta"):
            return self._step(ops[0], k, access, scale, depth - 1)
        if i.op in ("add", "sub"):
            return self._sum(ops, k, access, scale, depth)
        if i.op == "mad" and i.mods[0] in ("lo", "wide") and all(self.alike(op, k) for op in ops[:2]):
            return self._step(ops[2], k, access, scale, depth - 1)
        factor = self._factor(i, k)
        if factor <= 0 or (i.op == "mad" and not self.alike(ops[2], k)):
            return 0
        return self._step(ops[0], k, access, scale * factor, depth - 1)

    def _sum(self, ops: tuple[Operand, ...], k: int, access: int, scale: int, depth: int) -> int:
        for one, other in (ops, ops[::-1]):
            if self.alike(other, k):
                return self._step(one, k, access, scale, depth - 1)
        return 0

    def _factor(self, i: Instr, k: int) -> int:
        """What an instruction multiplies its first operand by; 0: it does something else."""
        if i.op == "shl" or (i.op in ("mul", "mad") and i.mods[0] in ("lo", "wide")):
            n = self.uniformity.constant(i.operands[2], k)
            if n is not None and 0 <= n <= _MOST:
                return n if i.op != "shl" else 1 << n if n < 32 else 0
        return 0

    def alike(self, op: Operand, k: int) -> bool:
        """Whether an operand is one value in the lanes of a warp that execute an instruction together."""
        names = tuple(registers(op))
        if isinstance(op, Special):
            return not self.uniformity.special(op.name) & LANES
        return not names or not self.uniformity.read_at(k, names) & LANES

    def _writer(self, op: Operand, at: int) -> int | None:
        """The one instruction that writes what an operand holds; it does so in each lane."""
        if not isinstance(op, Reg):
            return None
        versions = self.uniformity.versions
        k = versions.writer[versions.read(op.name, at)]
        return k if k >= 0 and self._body[k].guard is None and self._body[k].operands[0] == op else None

    # ------------------------------------------------------------ groups

    def led(self, k: int) -> Leader | None:
        """Who comes to an instruction where one lane of each mask at most does."""
        return next((made for x in self.masks.equal(k) if (made := self.led_by(*x)) is not None), None)

    def led_by(self, at: int, one: Operand, other: Operand) -> Leader | None:
        """The same where two operands of a ``setp`` are equal in each lane that comes."""
        for own, named in ((one, other), (other, one)):
            found = self.chosen(named, at) if self.is_lane(own, at) else self._none_below(own, named, at)
            if found is not None:
                return found
        return None

    def chosen(self, op: Operand, at: int) -> Leader | None:
        """The lane of a mask that an operand is, in each lane of the mask's group that comes to an
        instruction."""
        lane = self.masks.values.chosen_lane(op, at)
        made = None if lane is None or lane.from_last else self._made(lane.mask, lane.at, at)
        if lane is None or made is None:
            return None
        return Leader(made, lowest=self._body[lane.at].op == "brev")

    def _none_below(self, op: Operand, zero: Operand, at: int) -> Leader | None:
        """The lowest lane of a mask, where an operand has the lanes of the mask below the own one and is
        compared with 0."""
        k = self._writer(op, at)
        if k is None or self._body[k].name != "and.b32" or self.uniformity.constant(zero, at) != 0:
            return None
        one, other = self._body[k].operands[1:]
        for mask, side in ((one, other), (other, one)):
            if self._is_below(side, k) and isinstance(mask, Reg):
                made = self._made(mask, k, at)
                return None if made is None else Leader(made, lowest=True)
        return None

    def _is_below(self, op: Operand, at: int) -> bool:
        """Whether an operand is the mask of the lanes below the own one."""
        if isinstance(op, Special):
            return op.name == "%lanemask_lt"
        k = self._writer(op, at)
        return k is not None and self._body[k].op == "mov" and self._is_below(self._body[k].operands[1], k)

    def _made(self, mask: Reg, read: int, at: int) -> int | None:
        """What makes a mask that one instruction reads, if it names the lanes of its group that come to
        another one behind it."""
        made = self.masks.values.origin(mask, read)
        deciding = None if made is None else self.masks.of_groups(made, at)
        if made is None or deciding is None or not self.masks.values.before(read, at):
            return None
        return None if self.uniformity.since(self.masks.met(read, mask), deciding) & LANES else made

    # ------------------------------------------------------------ ranks

    def rank(self, op: Operand, at: int, access: int, *, groups: bool = False) -> tuple[int, int] | None:
        """Of the bits on one side of each lane, of a mask of the lanes at an access: what makes the mask, and
        how many of the bits there are at least, 1 where the own lane is among them. ``groups``: the lanes
        may have masks of several groups."""
        k = self._writer(op, at)
        if k is None or self._body[k].op != "and":
            return None
        one, other = self._body[k].operands[1:]
        for mask, side in ((one, other), (other, one)):
            first = self._side(side, k)
            if first is None or not isinstance(mask, Reg):
                continue
            made = self._made(mask, k, access) if groups else self._of_one_vote(mask, k, access)
            if made is not None:
                return made, first
        return None

    def _ranks(self, op: Operand, at: int, access: int) -> bool:
        """Whether an operand has the bits on one side of each lane, of a mask of the lanes at an access."""
        return self.rank(op, at, access) is not None

    def _of_one_vote(self, mask: Reg, at: int, access: int) -> int | None:
        """What makes a mask that an instruction reads, if it names the lanes that come to an access, and all
        lanes of the warp have one."""
        made = self.masks.values.origin(mask, at)
        deciding = None if made is None else self.masks.of_one_vote(made, access)
        if made is None or deciding is None:
            return None
        return None if self.uniformity.since(self.masks.met(at, mask), deciding) & LANES else made

    def _side(self, op: Operand, at: int) -> int | None:
        """Whether an operand is the mask of the lanes on one side of the own one: 1 with it, 0 without."""
        if isinstance(op, Special):
            return _SIDES.get(op.name)
        k = self._writer(op, at)
        i = None if k is None else self._body[k]
        if k is None or i is None or len(i.operands) < 2:
            return None
        if i.op == "mov":
            return self._side(i.operands[1], k)
        if i.op == "not":
            return _ONES.get(self._shifted(i.operands[1], k))
        less = i.op in ("add", "sub") and (i.op, self.uniformity.constant(i.operands[2], k)) in _LESS_ONE
        return {1: 0, 2: 1}.get(self._shifted(i.operands[1], k) or 0) if less else None

    def _shifted(self, op: Operand, at: int) -> int | None:
        """The number that is shifted left by the lane's number."""
        k = self._writer(op, at)
        if k is None or self._body[k].name != "shl.b32" or not self.is_lane(self._body[k].operands[2], k):
            return None
        n = self.uniformity.constant(self._body[k].operands[1], k)
        return None if n is None else n & 0xFFFFFFFF

    def is_lane(self, op: Operand, at: int) -> bool:
        """Whether an operand is the lane's number."""
        x, y, z = self.uniformity.block
        if isinstance(op, Special):
            return op.name == "%laneid" or (op.name == "%tid.x" and x <= 32 and y * z == 1)
        k = self._writer(op, at)
        if k is None:
            return False
        i = self._body[k]
        if i.op == "and" and i.operands[2] == Imm(31) and self._is_thread(i.operands[1], k):
            return True
        if i.op in ("mov", "cvt") and _WHOLE.issuperset(i.mods) and self.is_lane(i.operands[1], k):
            return True
        numbers = self._numbers.read(op, at)  # ``t % 32`` of a signed number, and other ways
        return numbers is not None and bool((numbers == self._lanes).all())

    @cached_property
    def _numbers(self) -> ThreadValues:
        x, y, z = self.uniformity.block
        return ThreadValues(self.masks.flow, (x, y, z))

    @cached_property
    def _lanes(self) -> Numbers:
        return np.arange(self._numbers.threads, dtype=np.uint64) % np.uint64(32)

    def _is_thread(self, op: Operand, at: int) -> bool:
        """Whether the low five bits of an operand are those of the thread's number in its block."""
        x, y, z = self.uniformity.block
        if isinstance(op, Special):
            return op.name == "%tid.x" and (x % 32 == 0 or y * z == 1)
        k = self._writer(op, at)
        return k is not None and self._body[k].op == "mov" and self._is_thread(self._body[k].operands[1], k)


__all__ = ["ALONE", "LaneRanks", "Leader"]
