"""What threads of a block do between one of its barriers and the next, where all come to the same ones.

An *interval* begins at the kernel's entry or at a barrier of the whole block. It holds all instructions that
a path leads to from there past no such barrier. An example, with one from the entry and one from ``bar``:

    st.shared [a], x;  bar.sync 0;  ld.shared y, [b];

**Claim.** If ``intervals`` finds any, all threads of a block come to the same barriers one after the other.
What two threads do in different intervals, counted from the entry, is ordered by a barrier between. A version
that ``uniform`` holds is one value for both, each time that they come to where it is made.

*Proof.* By induction over the barriers. Branches that parameters, numbers of blocks and constants decide are
decided alike. The sides of any other branch come together again ahead of the next barrier, or one of them
leaves the kernel: then the thread has accessed no shared memory, and does not do so. What is merged where
such a branch decides is not uniform. ∎
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from syncverify.frontends.ptx.decode.memory import decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Special, Sym
from syncverify.frontends.ptx.syntax.operands import sources
from syncverify.frontends.ptx.syntax.pure_operations import PURE

#: What a kernel may be made of beside sums and products: anything else is not looked at.
_KNOWN = PURE | frozenset(
    "ld ldu st atom red bra ret exit trap brkpt bar barrier shfl vote match redux activemask membar fence "
    "nanosleep prefetch prefetchu pragma mma".split()
)
_SHARED_BY_BLOCK = ("%ntid", "%ctaid", "%nctaid", "%gridid")


@dataclass(frozen=True, slots=True)
class BarrierInterval:
    """``start``: the barrier, -1 at the entry. ``inside``: instructions that may be executed in it.
    ``begun``: blocks that may be entered in it."""

    start: int
    inside: frozenset[int]
    begun: frozenset[int]


class BarrierIntervals:
    """The intervals of a function between barriers of the block."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.barriers = frozenset(
            k for k, i in enumerate(flow.body) if of_block(i) and flow.block_of[k] in flow.reached
        )

    @cached_property
    def all(self) -> tuple[BarrierInterval, ...]:
        """The intervals; none where threads may come to different barriers."""
        flow = self.flow
        if flow.stops or not all(
            map(
                self._known,
                (
                    i
                    for b in flow.reached
                    if b < flow.end
                    for i in flow.body[flow.blocks[b].lo : flow.blocks[b].hi]
                ),
            )
        ):
            return ()
        here = set(map(flow.block_of.__getitem__, self.barriers))
        if any(not here.isdisjoint(flow.between(b)) for b in self._parting(self._differs[0])):
            return ()
        return () if self._leaves_late() else tuple(map(self.after, (-1, *sorted(self.barriers))))

    @cached_property
    def met_by_all(self) -> bool:
        """Whether all threads come to the same barriers, and none leaves ahead of one that others come to."""
        return bool(self.all) and all(self._left(b) is None for b in self._branches(self._differs[0]))

    def _known(self, i: Instr) -> bool:
        if i.op not in _KNOWN or "cluster" in i.mods:
            return False
        if not of_block(i):
            return True
        whole = "sync" in i.mods and "red" not in i.mods and tuple(i.operands) == (Imm(0),)
        return i.guard is None and whole

    def after(self, start: int, without: int = -1) -> BarrierInterval:
        """What paths from an instruction lead to past no barrier, and past no block ``without``."""
        first = (0, 0) if start < 0 else (self.flow.block_of[start], start + 1)
        return self._reach(start, first, without)

    def from_block(self, block: int) -> BarrierInterval:
        """What paths from where a block begins lead to past no barrier."""
        return self._reach(-1, (block, self.flow.blocks[block].lo), -1)

    def _reach(self, start: int, first: tuple[int, int], without: int) -> BarrierInterval:
        flow, inside, begun = self.flow, set[int](), set[int]()
        work = [first]
        while work:
            b, k = work.pop()
            hi = flow.blocks[b].hi
            while k < hi and k not in self.barriers:
                inside.add(k)
                k += 1
            if k < hi:
                continue
            for s in flow.blocks[b].succ:
                if s < flow.end and s != without and s not in begun:
                    begun.add(s)
                    work.append((s, flow.blocks[s].lo))
        return BarrierInterval(start, frozenset(inside), frozenset(begun))

    # ------------------------------------------------------------ what all threads hold alike

    def uniform(self, v: int) -> bool:
        """Whether a version is one value for all threads of a block."""
        return v in self._versions and v not in self._differs[0]

    @cached_property
    def _versions(self) -> frozenset[int]:
        flow, read = self.flow, self.flow.versions.read
        reached = (k for b in sorted(flow.reached) if b < flow.end
                   for k in range(flow.blocks[b].lo, flow.blocks[b].hi))  # fmt: skip
        return frozenset(behind(flow, [read(name, k) for k in reached for name in sources(flow.body[k])]))

    @cached_property
    def _differs(self) -> tuple[frozenset[int], frozenset[int]]:
        """Versions that may differ between threads, and blocks that not all come to as often, or where those
        meet that went different ways."""
        versions, parted = set[int](), frozenset[int]()
        grown = True
        while grown:
            more = {v for v in self._versions - versions if self._varies(v, versions, parted)}
            versions |= more
            wider = self._parted(versions)
            grown = bool(more) or wider != parted
            parted = wider
        return frozenset(versions), parted

    def _varies(self, v: int, differs: set[int], parted: frozenset[int]) -> bool:
        versions = self.flow.versions
        k = versions.writer[v]
        if k < 0:
            merged = versions.merged(v)
            return not merged or versions.block[v] in parted or any(x in differs for _, x in merged)
        i = self.flow.body[k]
        of_launch = launch_parameter(self.flow, i) is not None
        if not (i.op in PURE or of_launch):
            return True
        if any(isinstance(o, Special) and not o.name.startswith(_SHARED_BY_BLOCK) for o in i.operands):
            return True
        kept = () if i.guard is None else (versions.name[v],)
        return any(versions.read(name, k) in differs for name in (*kept, *sources(i)))

    def _parted(self, differs: set[int]) -> frozenset[int]:
        found = set[int]()
        for b in self._parting(differs):
            found |= self.flow.between(b) | {self.flow.join(b)}
        return frozenset(found)

    def _parting(self, differs: set[int] | frozenset[int]) -> Iterator[int]:
        """The same without those at which threads only leave."""
        return (b for b in self._branches(differs) if self._left(b) is None)

    def _branches(self, differs: set[int] | frozenset[int]) -> Iterator[int]:
        """Blocks at whose end threads may part."""
        flow = self.flow
        for b in sorted(flow.reached):
            if b < flow.end and len(flow.blocks[b].succ) > 1:
                last = flow.blocks[b].hi - 1
                guard = flow.body[last].guard
                if guard is None or flow.versions.read(guard.name, last) in differs:
                    yield b

    def _left(self, branch: int) -> frozenset[int] | None:
        """The instructions on the side of a branch that comes to no barrier, where the other one does."""
        sides = [self._onward[s] for s in self.flow.blocks[branch].succ]
        without = [x for x in sides if self.barriers.isdisjoint(x)]
        return without[0] if len(without) == 1 and len(sides) == 2 else None

    @cached_property
    def _onward(self) -> dict[int, frozenset[int]]:
        """By block, the instructions that paths from its beginning lead to."""
        flow = self.flow
        found: dict[int, frozenset[int]] = {flow.end: frozenset()}
        for b in flow.reached:
            if b < flow.end:
                seen, work = {b}, [b]
                while work:
                    more = [s for s in flow.blocks[work.pop()].succ if s < flow.end and s not in seen]
                    seen.update(more)
                    work += more
                found[b] = frozenset(k for x in seen for k in range(flow.blocks[x].lo, flow.blocks[x].hi))
        return found

    def _leaves_late(self) -> bool:
        """Whether a thread may leave that has accessed shared memory, while others go on to a barrier."""
        shared = {k for k, i in enumerate(self.flow.body) if (a := decode_place(i)) is not None
                  and a.space in ("shared", "generic")}  # fmt: skip
        for b in self._branches(self._differs[0]):
            side = self._left(b)
            if side is None:
                continue
            last = self.flow.blocks[b].hi - 1
            before = (k for k in shared if last in self._reached_from(k))
            if not shared.isdisjoint(side) or any(True for _ in before):
                return True
        return False

    def _reached_from(self, k: int) -> frozenset[int]:
        flow, b = self.flow, self.flow.block_of[k]
        here = frozenset(range(k + 1, flow.blocks[b].hi))
        return here.union(*(self._onward[s] for s in flow.blocks[b].succ))


def launch_parameter(flow: Flow, i: Instr) -> str | None:
    """The name for what an instruction loads of the kernel's own parameters, which are the launch's."""
    at = i.operands[1] if i.op == "ld" and i.mods[:1] == ("param",) else None
    if not isinstance(at, Mem) or not isinstance(at.base, Sym):
        return None
    if at.base.name not in {p.name for p in flow.function.params}:
        return None
    return f"param {at.base.name}+{at.base.offset + at.offset}:{'.'.join(i.mods[1:])}"


def of_block(i: Instr) -> bool:
    """Whether an instruction is a barrier of threads of a block."""
    return i.op in ("bar", "barrier") and "warp" not in i.mods


__all__ = ["BarrierIntervals", "BarrierInterval", "launch_parameter", "of_block"]
