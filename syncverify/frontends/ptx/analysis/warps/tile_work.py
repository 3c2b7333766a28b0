"""Whether what the last warp of a tile does for all is the same from each
(``analysis.warps.tile_barriers``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from syncverify.frontends.ptx.analysis.registers.thread_values import RESERVED, Numbers
from syncverify.frontends.ptx.analysis.warps.reserved_words import BYTES, WORDS, Alone, ReservedWords
from syncverify.frontends.ptx.analysis.warps.tile_answers import Followed
from syncverify.frontends.ptx.syntax.nodes import Mem, Operand, Special
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.pure_operations import PURE


class Work:
    """What the last warp does for all, which has to be the same from whichever warp."""

    def __init__(self, of: ReservedWords, last: int, join: int, followed: Followed, end: Alone) -> None:
        self.of = of
        self.warps = followed.warps
        flow = of.flow
        poll, clear = flow.block_of[followed.poll], flow.block_of[followed.clear]
        stop = flow.block_of[end.branch]
        seen: set[int] = set()
        work = [last]
        while work:
            b = work.pop()
            if b not in seen and b != join:
                seen.add(b)
                work += [] if b == stop else flow.blocks[b].succ
        self.blocks = seen
        self.ends = stop in seen and poll not in seen and clear not in seen and flow.end not in seen
        self.end = end.branch
        self._asked: dict[int, bool] = {}

    def same_from_each(self) -> bool:
        """Whether no address, branch or stored value varies with the warp, and nothing but that is done."""
        flow = self.of.flow
        before = {p for n in self.blocks for p in flow.blocks[n].pred} & flow.reached
        every = [k for n in self.blocks for k in range(flow.blocks[n].lo, flow.blocks[n].hi) if k != self.end]
        entered = len(before - self.blocks) == 1
        return self.ends and entered and all(map(self._is_same, every)) and not self._kept(every)

    def _is_same(self, k: int) -> bool:
        i = self.of.body[k]
        if i.guard is not None and not self._alike(i.guard, k):
            return False
        if i.op == "ld" and "param" in i.mods:
            return True
        if i.op in ("ld", "st"):
            m = next((op for op in i.operands if isinstance(op, Mem)), None)
            plain = {"acquire", "relaxed", "release", "volatile"}.isdisjoint(i.mods)
            own = m is not None and not m.coords and self._in_slots(m, k)
            return (
                plain
                and own
                and (i.op == "ld" or all(self._alike(op, k) for op in i.operands if op is not m))
            )
        if i.op in ("shfl", "redux", "vote", "match"):
            return all(self._alike(op, k) for op in i.operands[1:])
        return i.op in PURE or i.op == "bra" or self.of.meets(k)

    def _in_slots(self, m: Mem, k: int) -> bool:
        """Whether an address is the same from each warp, and in reserved memory."""
        found = self.of.values.read(m.base, k)
        if found is None or not self._of_lanes(found):
            return False
        at = found.astype(np.int64) + m.offset - RESERVED
        return bool((at >= WORDS).all() and (at < BYTES).all())

    def _of_lanes(self, found: Numbers) -> bool:
        """Whether threads of a tile that are the same lanes of their warps hold one number."""
        values = self.of.values
        tile = values.warp // np.uint64(self.warps) * np.uint64(32) + values.lane
        first: dict[int, int] = {}
        return all(first.setdefault(t, n) == n for t, n in zip(tile.tolist(), found.tolist(), strict=True))

    def _alike(self, op: Operand, k: int) -> bool:
        """Whether a value does not vary with the warp that works."""
        return all(self._version_alike(self.of.flow.versions.read(name, k)) for name in registers(op))

    def _version_alike(self, v: int) -> bool:
        if v not in self._asked:
            self._asked[v] = True  # a loop that begins alike stays so
            self._asked[v] = self._found_alike(v)
        return self._asked[v]

    def _found_alike(self, v: int) -> bool:
        versions, flow = self.of.flow.versions, self.of.flow
        known = self.of.values.of_version(v)
        if known is not None:
            return self._of_lanes(known)
        merged = versions.merged(v)
        if merged:
            return all(self._version_alike(x) for _, x in merged)
        k = versions.writer[v]
        if k < 0:
            return False
        i = flow.body[k]
        if i.op == "ld" and "param" in i.mods:
            return True
        if flow.block_of[k] in self.blocks and i.op == "ld":
            return True
        exchanged = i.op in ("shfl", "redux", "vote", "match") and flow.block_of[k] in self.blocks
        pure = i.op in PURE and not any(isinstance(op, Special) for op in i.operands)
        return (exchanged or pure) and all(self._version_alike(versions.read(name, k)) for name in sources(i))

    def _kept(self, every: Sequence[int]) -> bool:
        """Whether a register that the work writes is read behind it."""
        flow, body = self.of.flow, self.of.body
        made = [(name, flow.versions.written(name, k)) for k in every for name in results(body[k])]
        rest = [k for k in self.of.reached() if flow.block_of[k] not in self.blocks]
        return any(name in sources(body[k]) and self.of.may_be(v, name, k) for name, v in made for k in rest)


__all__ = ["Work"]
