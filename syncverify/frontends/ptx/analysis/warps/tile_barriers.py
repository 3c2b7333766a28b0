"""Meetings of the warps of a tile, as cooperative groups make them in reserved memory, as named barriers.

A tile of more than 32 threads (``cg::tiled_partition<64>``) has no barrier of the hardware. Its warps meet by
a word in the shared memory that the system reserves (``%reserved_smem_offset_1``), with a bit for each warp:

    bar.warp.sync -1;  @%other bra OUT;          // lane 0 alone
    atom.or.acq_rel.cta.b32 %old, [%w], %bit;    // this warp has come
    // the last to come: red.and.relaxed.cta.b32 [%w], ~%mask, for all bits of the tile
    // the others: LOOP: ld.acquire.cta.u32 %r, [%w], until the own bit is clear
    OUT: bar.warp.sync -1;

All accesses of a tile before are ordered before all of it after: the atomics form one chain of release and
acquire. So the branch becomes ``barrier.sync`` of the tile's threads, with a number of its own.

**Collectives** (``reduce``, ``any``, scans) let the last warp compute meanwhile. Lane 0 hands on by ``shfl``
what it got; the last warp reads what all have left in reserved memory, writes it, and clears the bits. That
becomes two meetings, with the work of the first warp in between. Which warp does it makes no difference, for
its work is the same from each: no address, branch or value in it varies with the warp
(``analysis.warps.tile_work``). Relied on beside: what lane 0 acquires its warp sees behind the ``shfl``,
which that does not promise.

**Nothing is taken by its look alone.** Which bits, words and branches they are is computed for each thread of
the block (``analysis.registers.thread_values``), and followed for each answer of the atomic: all, all but
one, none. Words have to be cleared first, before a barrier. Where any access to reserved memory is of
another kind, the function stays as it is, and such accesses are not followed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from syncverify.frontends.ptx.analysis.registers.thread_values import RESERVED
from syncverify.frontends.ptx.analysis.warps.reserved_words import (
    ALL_BITS,
    BYTES,
    WORD,
    WORDS,
    Alone,
    ReservedWords,
    is_atomic,
)
from syncverify.frontends.ptx.analysis.warps.tile_answers import Answers, Followed
from syncverify.frontends.ptx.analysis.warps.tile_work import Work
from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import (
    Function,
    Imm,
    Instr,
    Label,
    Mem,
    Reg,
    Special,
    Sym,
    Variable,
)
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.pure_operations import PURE
from syncverify.frontends.ptx.syntax.types import width
from syncverify.ir.launch_grid import Dims

#: What the reserved bytes are called as a variable.
_VARIABLE = "reserved_shared_memory"


@dataclass(frozen=True, slots=True)
class TileMeeting:
    """One meeting. ``at``: its atomic instruction; ``collective``: what lane 0 acquires others rely on."""

    at: int
    threads: int
    collective: bool


def with_tile_barriers(
    function: Function, block: Dims | None, *, by_lane_0: bool
) -> tuple[Function, tuple[TileMeeting, ...]]:
    """The function with meetings of tiles as barriers, and these; itself and none where they are not known.

    ``by_lane_0``: whether collectives are taken too.
    """
    uses = any(Special(WORD) in i.operands for i in function.body)
    if not uses or block is None:
        return function, ()
    found = _Tiles(function, block).meetings(by_lane_0=by_lane_0)
    if not found:
        return function, ()
    by: dict[int, Sequence[Instr]] = {}
    for m in found:
        by |= m.edits
    types = {name: "pred" for m in found for name in m.predicates}
    for k, i in enumerate(function.body):
        if Special(WORD) in i.operands:
            operands = tuple(Sym(_VARIABLE) if op == Special(WORD) else op for op in i.operands)
            by[k] = (replace(i, operands=operands),)
    variable = Variable(_VARIABLE, "shared", "b8", BYTES, 16)
    changed = replace(function, variables=(*function.variables, variable))
    return expanded(changed, by, types), tuple(m.meeting for m in found if m.meeting is not None)


def largest_tile(function: Function) -> int:
    """The threads of the largest tile whose meetings have become barriers; 0 if there is none."""
    tiles = (
        op.name for i in function.body if i.op == "barrier" for op in i.operands if isinstance(op, Special)
    )
    return max((int(name.partition(".")[2]) for name in tiles if name.startswith("%@tile.")), default=0)


@dataclass(frozen=True, slots=True)
class _Found:
    """What becomes of one use of a word. ``uses``: the instructions that access the word."""

    meeting: TileMeeting | None
    slot: int
    uses: frozenset[int]
    edits: Mapping[int, Sequence[Instr]]
    branch: int
    predicates: tuple[str, ...] = ()


class _Tiles(ReservedWords):
    """The meetings of tiles in one function."""

    def meetings(self, *, by_lane_0: bool) -> list[_Found]:
        """All uses of words, or none where one of them, or another access, is not known."""
        resets: list[_Found] = []
        met: list[_Found] = []
        for k in self.reached():
            i = self.body[k]
            if is_atomic(i, "red", "and", "release") and (reset := self._reset(k)) is not None:
                resets.append(reset)
            elif is_atomic(i, "atom", "or", "acq_rel"):
                meeting = self._sync(k) or (self._collective(k) if by_lane_0 else None)
                if meeting is None:
                    return []
                met.append(meeting)
        found = [*resets, *met]
        mine = {k for f in found for k in f.uses}
        one_size = len({(f.slot, _threads(f)) for f in met}) == len({f.slot for f in met})
        known = met and one_size and self._sound(mine) and all(self._cleared(f, resets, met) for f in met)
        return found if known else []

    # ------------------------------------------------------------ words

    def _reset(self, k: int) -> _Found | None:
        """The clearing of each warp's own bit, which does nothing unless the word was never written."""
        alone, slot = self.alone(k), self.slot(k)
        if alone is None or slot is None:
            return None
        cleared = self.at_leaders(self.body[k].operands[-1], k)
        quiet = self.only(alone, {k}) and self.synced_before(alone.branch)
        if cleared is None or not quiet or not np.array_equal(cleared, self.own_bits() ^ ALL_BITS):
            return None
        return _Found(None, slot, frozenset({k}), {k: ()}, alone.branch)

    def _cleared(self, f: _Found, resets: Sequence[_Found], met: Sequence[_Found]) -> bool:
        """Whether each warp has cleared its bit before a meeting, and a barrier of no smaller group came."""
        barriers = [k for k in self.reached() if _whole_barrier(self.body[k])]
        barriers += [m.branch for m in met if m is not f and _threads(m) >= _threads(f)]
        return any(
            self.comes_before(r.branch, b) and self.comes_before(b, f.branch)
            for r in resets
            if r.slot == f.slot
            for b in barriers
        )

    def _sound(self, mine: Collection[int]) -> bool:
        """Whether every other use of a reserved address is a plain access behind the words."""
        tainted = self._derived()
        for k in self.reached():
            i = self.body[k]
            if k in mine or tainted.isdisjoint(sources(i)):
                continue
            if i.op in PURE and not any(isinstance(op, Mem) for op in i.operands):
                continue
            if i.op == "bra" or not self._is_slot_access(k, tainted):
                return False
        return True

    def _derived(self) -> set[str]:
        found: set[str] = set()
        grown = True
        while grown:
            grown = False
            for i in self.body:
                made = i.op in PURE and (Special(WORD) in i.operands or not found.isdisjoint(sources(i)))
                if made and not found.issuperset(results(i)):
                    found |= set(results(i))
                    grown = True
        return found

    def _is_slot_access(self, k: int, tainted: set[str]) -> bool:
        i = self.body[k]
        if i.op not in ("ld", "st") or not {"acquire", "relaxed", "release", "volatile"}.isdisjoint(i.mods):
            return False
        m = next(op for op in i.operands if isinstance(op, Mem))
        if any(not tainted.isdisjoint(registers(op)) for op in i.operands if op is not m):
            return False
        found, size = self.values.read(m.base, k), width(i.mods[-1]) // 8
        if found is None or m.coords or any(x in i.mods for x in ("v2", "v4", "v8")):
            return False
        at = found.astype(np.int64) + m.offset - RESERVED
        return bool((at >= WORDS).all() and (at + size <= BYTES).all())

    # ------------------------------------------------------------ meetings

    def _sync(self, k: int) -> _Found | None:
        """A meeting that only lane 0 of each warp executes."""
        alone = self.alone(k)
        if alone is None or not self.synced_before(alone.branch) or not self.synced_after(alone.join):
            return None
        inside = self.flow.between(self.flow.block_of[alone.branch])
        followed = self._followed(k, None, alone.join)
        if followed is None:
            return None
        uses = {k, followed.poll, followed.clear}
        if not self.only(alone, uses) or self.escapes(inside):
            return None
        edit = self._barrier(alone.branch, followed.warps, alone.join)
        meeting = TileMeeting(k, followed.warps * 32, collective=False)
        return _Found(meeting, followed.slot, frozenset(uses), {alone.branch: edit}, alone.branch)

    def _collective(self, k: int) -> _Found | None:
        """A meeting whose last warp works for all before it lets them go."""
        alone = self.alone(k)
        if alone is None or not self.synced_before(alone.branch) or not self.only(alone, {k}):
            return None
        shfl = self._handed_on(k, alone.join)
        join = self.flow.join(alone.join)
        followed = None if shfl is None else self._followed(k, shfl, join)
        if followed is None or followed.last is None or followed.wait is None:
            return None
        end = self._let_go(followed, join)
        if end is None or not Work(self, followed.last, join, followed, end).same_from_each():
            return None
        name = f"%@first{k}"
        edits = {
            alone.branch: self._barrier(alone.branch, followed.warps, alone.join),
            followed.poll: self._barrier(followed.poll, followed.warps, join),
            end.branch: self._barrier(end.branch, followed.warps, join),
        }
        decision = self.flow.blocks[alone.join].hi - 1
        edits[decision] = self._first_warp(decision, name, followed, followed.last, followed.wait)
        uses = frozenset({k, followed.poll, followed.clear})
        meeting = TileMeeting(k, followed.warps * 32, collective=True)
        return _Found(meeting, followed.slot, uses, edits, alone.branch, (name,))

    def _let_go(self, followed: Followed, join: int) -> Alone | None:
        """How lane 0 of the last warp comes to clear the bits, which is all that it does alone there."""
        end = self.alone(followed.clear)
        if end is None or end.join != join or not self.only(end, {followed.clear}):
            return None
        left = {self.flow.block_of[followed.poll], self.flow.block_of[followed.clear]}
        return end if self.synced_before(end.branch) and not self.escapes(left) else None

    def _first_warp(self, k: int, name: str, followed: Followed, last: int, wait: int) -> tuple[Instr, ...]:
        """The branch by which the first warp of a tile goes to the work, and the others to wait."""
        jump = replace(self.body[k], guard=None, negated=False)
        rank = Special(f"%@tile_rank.{followed.warps * 32}")
        asked = replace(jump, op="setp", mods=("eq", "u32"), operands=(Reg(name), rank, Imm(0)))
        chosen = replace(jump, guard=Reg(name), operands=(self._label(last),))
        return asked, chosen, replace(jump, operands=(self._label(wait),))

    def _handed_on(self, k: int, join: int) -> int | None:
        """The ``shfl`` by which all lanes get what lane 0 has of the atomic, which nobody else reads, and
        which a branch follows."""
        block = self.flow.blocks[join]
        others = [j for j in range(block.lo, block.hi - 1) if self.body[j].op not in PURE]
        last = self.body[block.hi - 1]
        old = results(self.body[k])
        if len(others) != 1 or len(old) != 1 or last.op != "bra" or last.guard is None:
            return None
        (found,) = others
        if not self._from_lane_0(found, old[0]):
            return None
        mine = self.flow.versions.written(old[0], k)
        readers = [j for j in self.reached() if j != found and old[0] in sources(self.body[j])]
        return None if any(self.may_be(mine, old[0], j) for j in readers) else found

    def _from_lane_0(self, k: int, name: str) -> bool:
        """Whether an instruction brings all lanes what lane 0 has in a register."""
        i = self.body[k]
        if i.name != "shfl.sync.idx.b32" or i.guard is not None or i.operands[1] != Reg(name):
            return False
        numbers = [self.values.read(op, k) for op in i.operands[2:]]
        wanted = (0, 31, 0xFFFFFFFF)
        return all(
            n is not None and bool((n & ALL_BITS == np.uint64(w)).all())
            for n, w in zip(numbers, wanted, strict=True)
        )

    def _followed(self, k: int, shfl: int | None, join: int) -> Followed | None:
        """What follows from each answer of the atomic: the last warp clears the tile's bits, others wait for
        their own. ``shfl``: that hands the answer to the other lanes."""
        slot, own = self.slot(k), self.at_leaders(self.body[k].operands[-1], k)
        if slot is None or own is None or not np.array_equal(own & ALL_BITS, self.own_bits()):
            return None
        return Answers(self, k, shfl, join, slot).followed()

    def _label(self, block: int) -> Label:
        return Label("", self.flow.blocks[block].lo)

    def _barrier(self, k: int, warps: int, to: int) -> tuple[Instr, ...]:
        """A barrier of a tile in place of an instruction, and the way on."""
        at = replace(self.body[k], guard=None, negated=False)
        number = Special(f"%@tile.{warps * 32}")
        sync = replace(at, op="barrier", mods=("sync",), operands=(number, Imm(warps * 32)))
        return sync, replace(at, op="bra", mods=("uni",), operands=(self._label(to),))


def _threads(f: _Found) -> int:
    return 0 if f.meeting is None else f.meeting.threads


def _whole_barrier(i: Instr) -> bool:
    return i.op in ("bar", "barrier") and i.mods[:1] == ("sync",) and i.guard is None and len(i.operands) == 1


__all__ = ["TileMeeting", "largest_tile", "with_tile_barriers"]
