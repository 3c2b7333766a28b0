"""Whether threads that load by one instruction read one state of memory.

Two threads that load from one address by one instruction read the same, unless the word is written between
their loads. Such a write follows one load and precedes the other, and all of this may be in order, so that
nobody races. Example, for the warps A, B and C:

    A: v = s;  barrier 1 with C;                      w = v;
    C:         barrier 1 with A;  s = 9;  barrier 2 with B;
    B:                                    barrier 2 with C;  v = s;  w = v;

Both stores to ``w`` are one instruction, as both loads are, and their values differ.

Let A load first, and let the stores of A and B be in no order. Then A releases to the writer after its load
and before its store: were the store before the release, it would be before B's load and B's store too. So
only what may release on the way from a load to a store matters:

- A barrier of a whole group of threads, all of which come to it the same number of times, is *aligned*. B's
  load is before it as A's is. So what A releases after it comes after both loads. What A and B store may
  differ with the bits of their numbers that tell the groups apart, and with the block if it is of a block.
- Whatever else may release before such a barrier makes the values differ with the warp, and with the lane too
  where lanes go different ways to it.
- A barrier of a warp hands on to its other lanes. What any of them may release after it, wherever they go,
  makes the values differ with the warp.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from syncverify.frontends.ptx.syntax.nodes import Instr, Sym
from syncverify.frontends.ptx.syntax.pure_operations import PURE
from syncverify.model.events import EACH_BLOCK, EACH_TIME

if TYPE_CHECKING:
    from syncverify.frontends.ptx.analysis.registers.uniformity import Uniformity

_THREADS = EACH_TIME - 1
_LANES = 31
_EVERY = _THREADS | EACH_TIME | EACH_BLOCK
#: Instructions, beside pure ones, by which no thread hands on what it has read or written.
_NO_RELEASE = frozenset({
    "bra", "brx", "ret", "exit", "trap", "brkpt", "nanosleep", "ld", "ldu", "shfl", "vote", "match", "redux",
    "elect", "activemask", "ldmatrix", "stmatrix", "mma", "wgmma", "fence", "membar", "prefetch", "prefetchu",
    "applypriority", "discard", "isspacep", "setmaxnreg", "tex", "tld4", "suld",
})  # fmt: skip
#: What a thread does with an mbarrier that nobody waits for.
_MBARRIER = frozenset({"init", "inval", "try_wait", "test_wait", "pending_count"})
#: Functions of the system that print, or end the kernel.
_PRINTS = frozenset({"vprintf", "__assertfail"})
#: Stores of these kinds may be waited for.
_STRONG = frozenset({"volatile", "relaxed", "release", "mmio", "async"})


def releases(i: Instr) -> bool:
    """Whether others may wait for an instruction, as far as its name tells: fails closed."""
    if i.op in PURE or i.op in _NO_RELEASE:
        return False
    if i.op == "st":
        return not _STRONG.isdisjoint(i.mods)
    if i.op == "mbarrier":
        return _MBARRIER.isdisjoint(i.mods)
    if i.op == "griddepcontrol":
        return "wait" not in i.mods
    if i.op == "cp" and "async" in i.mods:  # its own thread alone waits for a group
        return "mbarrier" in i.mods or any(m.startswith("mbarrier::") for m in i.mods)
    return not (i.op == "call" and any(isinstance(op, Sym) and op.name in _PRINTS for op in i.operands))


class LoadAgreement:
    """What the values of loads vary with because memory changes between them, in blocks of one shape."""

    def __init__(self, uniformity: Uniformity) -> None:
        self._uniformity = uniformity
        self._flow = uniformity.flow
        flow = self._flow
        self._releases = frozenset(
            k for k, i in enumerate(flow.body) if flow.block_of[k] in flow.reached and releases(i)
        )
        self._mask = cache(self._of_release)
        self._is_aligned = cache(self._meets_its_group)
        self._first_releases = cache(self._walk)
        self._after = cache(self._blocks_after)

    def varies(self, k: int, names: Iterable[str]) -> int:
        """What registers vary with, where instruction ``k`` stores them, beside what data flow says."""
        if not any(self._mask(r) & _THREADS for r in self._releases):
            return EACH_BLOCK if self._releases else 0
        found = 0
        for at in self._uniformity.loads_behind(k, names):
            for r, by_warp in self._first_releases(at):
                if by_warp or self._precedes(r, k):
                    found |= self._mask(r) & (~_LANES if by_warp else _EVERY)
        return found

    def apart(self, k: int, names: Iterable[str]) -> int:
        """What registers vary with, where instruction ``k`` reads them, since one thread may hand on what it
        has loaded before another has loaded it: the first to load may release before all have met."""
        found = 0
        for at in self._uniformity.loads_behind(k, names):
            for r, _ in self._first_releases(at):
                found |= self._mask(r)
        return found

    def _walk(self, load: int) -> frozenset[tuple[int, bool]]:
        """The instructions that may release after a load, with no aligned barrier of several warps between;
        and whether one of a warp is between."""
        flow = self._flow
        met: set[tuple[int, bool]] = set()
        seen: set[tuple[int, bool]] = set()
        work = [(flow.block_of[load], load + 1, False)]
        while work:
            block, start, by_warp = work.pop()
            for k in range(start, flow.blocks[block].hi):
                aligned = k in self._releases and self._is_aligned(k)
                if aligned and "warp" in flow.body[k].mods:
                    by_warp = True
                elif k in self._releases:
                    met.add((k, by_warp))
                    if aligned:
                        break
            else:
                after = {(n, by_warp) for n in flow.blocks[block].succ if n >= 0 and n != flow.end} - seen
                seen |= after
                work += [(n, flow.blocks[n].lo, by) for n, by in after]
        return frozenset(met)

    def _of_release(self, k: int) -> int:
        """What values vary with that are loaded before an instruction and stored after it."""
        found = self._uniformity.decided_by(k) & ~EACH_TIME
        if self._is_aligned(k):
            return found if "cluster" in self._flow.body[k].mods else found | EACH_BLOCK
        return _EVERY if found & _LANES else _EVERY & ~_LANES

    def _meets_its_group(self, k: int) -> bool:
        """Whether an instruction is a barrier of whole groups of threads."""
        i = self._flow.body[k]
        guards = self._uniformity.decided_by(k)
        if i.op not in ("bar", "barrier"):
            return False
        if "warp" in i.mods:
            return self._uniformity.whole(i.operands[0], k) and not guards & _LANES
        if "cluster" in i.mods:
            return not guards & ~EACH_TIME
        return "sync" in i.mods and self._is_of_groups(k, i, guards & _THREADS)

    def _is_of_groups(self, k: int, i: Instr, guards: int) -> bool:
        """Whether a barrier is one of whole groups of threads that the bits of ``guards`` tell apart.

        Smaller groups than that may not make up one together, nor may others come to it by another
        instruction.
        """
        x, y, z = (*self._uniformity.block, 1, 1)[:3]
        sizes = Counter(n & guards for n in range(x * y * z)).values()
        largest = max(sizes)
        number, *counts = [self._uniformity.constant(op, k) for op in i.operands]
        count = counts[0] if counts else x * y * z
        whole = count == largest and sum(n for n in sizes if n < largest) < largest
        alone = largest == x * y * z or all(self._of_one_group(k, j) for j in self._barriers(number))
        return number is not None and whole and alone

    def _barriers(self, number: int | None) -> list[int]:
        """The barriers of threads that may have a number."""
        some = [
            (k, self._uniformity.constant(i.operands[0], k))
            for k, i in enumerate(self._flow.body)
            if k in self._releases and i.op in ("bar", "barrier") and not {"warp", "cluster"} & set(i.mods)
        ]
        return [k for k, found in some if found in (number, None)]

    def _of_one_group(self, one: int, other: int) -> bool:
        """Whether who comes to an instruction came to another one before, or the other way round."""
        a, b = self._flow.block_of[one], self._flow.block_of[other]
        return a == b or self._flow.dominates(a, b) or self._flow.dominates(b, a)

    def _precedes(self, one: int, other: int) -> bool:
        """Whether an instruction may be executed after another one by a thread."""
        a, b = self._flow.block_of[one], self._flow.block_of[other]
        return (a == b and one < other) or b in self._after(a)

    def _blocks_after(self, block: int) -> frozenset[int]:
        seen: set[int] = set()
        work = list(self._flow.blocks[block].succ)
        while work:
            at = work.pop()
            if at >= 0 and at != self._flow.end and at not in seen:
                seen.add(at)
                work += self._flow.blocks[at].succ
        return frozenset(seen)


__all__ = ["LoadAgreement", "releases"]
