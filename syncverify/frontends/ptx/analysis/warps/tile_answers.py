"""What the answers of the atomic lead to by which the warps of a tile meet
(``analysis.warps.tile_barriers``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from syncverify.frontends.ptx.analysis.registers.thread_values import Numbers
from syncverify.frontends.ptx.analysis.warps.reserved_words import ALL_BITS, ReservedWords, is_atomic
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.operands import results
from syncverify.frontends.ptx.syntax.pure_operations import PURE

_LONGEST = 64


@dataclass(frozen=True, slots=True)
class Followed:
    """What the answers of an atomic lead to. ``clear``, ``poll``: the instructions that clear the tile's bits
    and that look at the own one; ``last``, ``wait``: of a collective, the blocks that the last warp and the
    others go to."""

    slot: int
    warps: int
    clear: int
    poll: int
    last: int | None
    wait: int | None


class Answers:
    """Follows the answers of one atomic instruction."""

    def __init__(self, of: ReservedWords, k: int, shfl: int | None, join: int, slot: int) -> None:
        self.of = of
        self.k, self.shfl, self.join, self.slot = k, shfl, join, slot
        self.start = k if shfl is None else shfl
        self.old = of.flow.versions.written(results(of.body[self.start])[0], self.start)
        self.own = np.uint64(1) << of.values.warp
        self.lanes = of.leaders if shfl is None else np.ones_like(of.leaders)

    def followed(self) -> Followed | None:
        mask = self._mask()
        warps = None if mask is None else self.of.warps_of(self.k, mask[self.of.leaders])
        if mask is None or warps is None:
            return None
        here = mask & ~self.own
        junk = [np.uint64(0), ALL_BITS]
        full = {self._last(here | (~mask & ALL_BITS & j)) for j in junk}
        missing = [here & ~_turned(self.own, mask, warps, d) for d in range(1, warps)]
        waits = {
            self._waits(x | (~mask & ALL_BITS & j)) for x in (*missing, np.zeros_like(mask)) for j in junk
        }
        if len(full) != 1 or len(waits) != 1:
            return None
        last, wait = full.pop(), waits.pop()
        if last is None or wait is None:
            return None
        clear = self._clear(last)
        if clear is None or not self._clears(clear, mask):
            return None
        by_all = self.shfl is not None
        return Followed(
            self.slot, warps, clear, wait[1], last if by_all else None, wait[0] if by_all else None
        )

    def _mask(self) -> Numbers | None:
        """The mask that the answer is compared with."""
        of = self.of
        block = of.flow.blocks[of.flow.block_of[self.start]]
        for k in range(self.start + 1, block.hi):
            i = of.body[k]
            if i.op == "and" and self._reads_old(i, k):
                found = [of.values.read(op, k) for op in i.operands[1:]]
                known = [f for f in found if f is not None]
                return known[0] & ALL_BITS if len(known) == 1 else None
        return None

    def _reads_old(self, i: Instr, k: int) -> bool:
        """Whether an instruction reads the answer, or what is made of it."""
        given = {self.old: self.of.values.all(0)}
        return any(
            self.of.values.read(op, k) is None and self.of.values.read(op, k, given) is not None
            for op in i.operands[1:]
        )

    def _last(self, old: Numbers) -> int | None:
        """Where the last warp goes: the instruction that clears the bits, or of a collective the block."""
        found = self._walk(self.start + 1, {self.old: old})
        if self.shfl is not None:
            return found[1] if found is not None and found[0] == "goes" else None
        return found[1] if found is not None and found[0] == "clears" else None

    def _waits(self, old: Numbers) -> tuple[int, int] | None:
        """Where another warp goes, and the load that it looks at its bit with."""
        given = {self.old: old}
        found = self._walk(self.start + 1, given)
        block = -1
        if self.shfl is not None:
            if found is None or found[0] != "goes":
                return None
            block = found[1]
            found = self._walk(self.of.flow.blocks[block].lo, given)
        if found is None or found[0] != "polls" or self.of.slot(found[1]) != self.slot:
            return None
        poll = found[1]
        seen = self.of.flow.versions.written(results(self.of.body[poll])[0], poll)
        for junk in (np.uint64(0), ALL_BITS):
            still = self._walk(poll + 1, given | {seen: self.own | self.of.values.all(int(junk))})
            freed = self._walk(poll + 1, given | {seen: ~self.own & junk & ALL_BITS})
            if still != ("polls", poll) or freed != ("joins", self.join):
                return None
        return block, poll

    def _walk(self, k: int, given: Mapping[int, Numbers]) -> tuple[str, int] | None:
        """The next instruction that does more than compute, or how the walk ends."""
        of = self.of
        for _ in range(_LONGEST):
            if k >= len(of.body):
                return None
            if k == of.flow.blocks[of.flow.block_of[k]].lo and of.flow.block_of[k] == self.join:
                return "joins", self.join
            i = of.body[k]
            if is_atomic(i, "ld", "acquire"):
                return "polls", k
            if is_atomic(i, "red", "and", "relaxed") or is_atomic(i, "red", "and", "release"):
                return "clears", k
            if i.op == "bra":
                taken = of.taken(k, given)
                ways = set() if taken is None else set(taken[self.lanes].tolist())
                target = of.target(k)
                if len(ways) != 1 or target is None:
                    return None
                there = of.flow.blocks[target].lo if ways.pop() else k + 1
                if (
                    self.shfl is not None
                    and self.shfl < k
                    and of.flow.block_of[k] == of.flow.block_of[self.shfl]
                ):
                    return ("goes", of.flow.block_of[there]) if there < len(of.body) else None
                k = there
            elif i.op in PURE:
                k += 1
            else:
                return None
        return None

    def _clear(self, last: int) -> int | None:
        """The instruction by which the last warp clears the tile's bits."""
        if self.shfl is None:
            return last
        of = self.of
        inside = of.flow.between(of.flow.block_of[self.shfl])
        found = [
            k
            for k in of.reached()
            if of.flow.block_of[k] in inside and is_atomic(of.body[k], "red", "and", "release")
        ]
        return found[0] if len(found) == 1 else None

    def _clears(self, k: int, mask: Numbers) -> bool:
        """Whether an instruction clears the bits of the tile, and only these."""
        value = self.of.at_leaders(self.of.body[k].operands[-1], k)
        wanted = (~mask & ALL_BITS)[self.of.leaders]
        if value is None or self.of.slot(k) != self.slot or not np.array_equal(value & ALL_BITS, wanted):
            return False
        if self.shfl is not None:
            return True
        return self._walk(k + 1, {}) == ("joins", self.join)


def _turned(own: Numbers, mask: Numbers, warps: int, by: int) -> Numbers:
    """The bit of the warp that comes ``by`` after each in its tile."""
    ahead = own << np.uint64(by)
    return np.where(ahead & mask, ahead, ahead >> np.uint64(warps))


__all__ = ["Answers", "Followed"]
