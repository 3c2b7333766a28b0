"""Which threads of a block hold the same value: what registers vary with, by data flow.

A mask says what a value may vary with: bit ``i`` below ``TIME`` is bit ``i`` of the thread's number in its
block (``x + X * (y + Y * z)``), so that the low five are the lane's; ``TIME`` that it may be another one each
time the instruction is executed; ``BLOCK`` that CTAs of a cluster may hold different ones. Two threads whose
numbers agree in all bits of a mask hold one value. Registers whose bits are moved about one by one (the
number of a thread, masked and shifted) have one mask for each of their bits.

Registers are looked at by their versions (``flow.ssa``). Where versions are merged, the result also varies
with the branches whose sides meet there, and what a loop leaves behind with the branches by which threads
leave it in different iterations (``flow.divergence``). A word of memory is taken to be the same for all that
read it by one instruction: if it is written meanwhile, that is a race of its own, or what is stored of it
varies with more (``analysis.registers.load_agreement``).

A step of a butterfly, such as ``x + shfl.bfly(x, 4)``, takes a bit of the lane away: both lanes add the same
two (``analysis.registers.butterflies``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from syncverify.frontends.ptx.analysis.registers.butterflies import Butterflies
from syncverify.frontends.ptx.analysis.registers.load_agreement import LoadAgreement
from syncverify.frontends.ptx.analysis.registers.thread_values import ThreadValues
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.divergence import Divergence
from syncverify.frontends.ptx.flow.ssa import Versions
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Function,
    Imm,
    Instr,
    Mem,
    Not,
    Operand,
    Reg,
    Special,
    Sym,
    Vector,
)
from syncverify.frontends.ptx.syntax.operands import CARRIED, CARRY, registers, results, sources
from syncverify.frontends.ptx.syntax.pure_operations import PURE
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.model.events import EACH_BLOCK, EACH_TIME

#: See ``model.events``; the bits below are those of a thread's number.
TIME, BLOCK = EACH_TIME, EACH_BLOCK
THREADS = TIME - 1
LANES = 31
WARPGROUP = 127
#: Values of lanes differ by rounding: for a store they are one value, for all else they vary with the lane.
ROUNDED = BLOCK << 1
#: Nothing is known.
EVERY = THREADS | TIME | BLOCK
_ALL_LANES = 0xFFFFFFFF

#: The least number that is below zero in a register of 32 bits.
_SIGN = 1 << 31

#: What goes into a number beside constants.
_OF_SIZES, _OF_THREADS = 1, 2
#: As many blocks there are, and turns of a loop that adds a constant: more are sizes that wrap.
_MANY = (1 << 16) - 1
#: What a grid may have along x, for those who do not know it.
MOST_BLOCKS = (1 << 31) - 1
_MOST_WARPS = 63
#: Registers of which a bound is looked for, at most, and how deep.
_MOST_BOUNDS, _DEEPEST_BOUND = 20_000, 150
_BOUNDED = frozenset(
    {"mov", "add", "mul", "mad", "shl", "shr", "cvt", "min", "max", "div", "rem", "or", "and"}
)
#: Instructions whose result depends on each of their operands.
_COUNTS = frozenset({"mov", "add", "sub", "mul", "mad", "shl", "shr", "xor", "not", "neg", "cvt"})

#: Instructions in a row that are followed to show that a value does not change in a loop.
_DEEPEST = 12

#: One mask for all bits of a register, or one for each.
_Bits = int | tuple[int, ...]

#: Instructions whose results are what memory holds.
_LOADS = frozenset({"ld", "ldu", "ldmatrix", "wgmma", "atom"})
#: Of these, those that nobody writes while the kernel runs.
_FIXED_SPACES = frozenset({"param", "param::entry", "param::func", "const"})
_CONSTANT = _FIXED_SPACES | {"nc"}
#: Loads that say that others write meanwhile.
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})
_FIXED = (
    "%ntid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_nctaid", "%cluster_nctarank", "%envreg",
    "%gridid", "%nwarpid", "%nsmid", "%total_smem", "%dynamic_smem", "%aggr_smem", "WARP_SZ",
)  # fmt: skip
_OF_BLOCK = ("%ctaid", "%cluster_ctaid", "%cluster_ctarank", "%smid", "%is_explicit_cluster")


def agree(mask: int, numbers: Iterable[int]) -> bool:
    """Whether threads with these numbers, of one block, hold one value."""
    return len({n & mask & THREADS for n in numbers}) < 2


class Uniformity:
    """What the values of one function vary with, in blocks of one shape."""

    def __init__(
        self, flow: Flow, block: Sequence[int], blocks_in_x: int | None = None, *, of_grid: bool = False
    ) -> None:
        """``blocks_in_x``: of the grid, if that is a number. ``of_grid``: blocks of other clusters may hold
        different values as well."""
        self.flow = flow
        self.of_grid = of_grid
        self.blocks_in_x = blocks_in_x
        self.body = flow.body
        self.function: Function = flow.function
        self.block = tuple(block)
        self.versions: Versions = flow.versions
        self.divergence: Divergence = flow.divergence
        self._held: dict[int, _Bits] = {}
        self._stored: dict[int, int] = {}
        self._bounds: dict[str, _Most] = {}
        self._asked = set[str]()
        self._steps = 0
        self._rests_on: dict[int, tuple[tuple[int, str], ...]] = {}
        self._signs_asked: set[str] = set()  # of registers whose bits are asked for their own sign
        self._definitions: dict[str, list[int]] = {}
        self._readers: dict[str, list[int]] = {}
        for k, i in enumerate(self.body):
            if flow.block_of[k] in flow.reached:
                for name in results(i):
                    self._definitions.setdefault(name, []).append(k)
                for name in sources(i):
                    self._readers.setdefault(name, []).append(k)
        self._parameters = frozenset(p.name for p in self.function.params)

    def of(self, names: Iterable[str]) -> int:
        """What some registers vary with, taken together, wherever they are read; at the end of the function
        if nothing reads them."""
        return _union(
            [self.read_at(k, [name]) for name in names for k in self._readers.get(name, self._ends)]
        )

    def read_at(self, k: int, names: Iterable[str]) -> int:
        """What some registers vary with, taken together, where instruction ``k`` reads them: if threads agree
        in these bits, they read the same the n-th time that they come to it, whatever its guard."""
        return _union([_apart(self._read_at(k, names))])

    def placed(self, k: int) -> int:
        """What the address of an access varies with, among the executions in which its guard holds."""
        names = [name for op in self.body[k].operands if isinstance(op, Mem) for name in registers(op)]
        found = self.read_at(k, names)
        return found | self._own_guard(k) if found & TIME else found

    def _read_at(self, k: int, names: Iterable[str]) -> int:
        wanted = list(names)
        asked = {self.versions.read(name, k) for name in wanted}
        left = {b for v in asked for b in self._left_by(v, self.flow.block_of[k])}
        self._solve(asked.union(*map(self._guards, left)))
        found = _union([self._value(name, k) for name in wanted])
        return found | self._times(k) if found & TIME else found

    def since(self, k: int, names: Iterable[str]) -> int:
        """What some registers vary with, taken together, wherever they are read, among threads that have come
        to instruction ``k`` together and went the same ways from there."""
        found = 0
        for name in names:
            for j in self._readers.get(name, self._ends):
                self.read_at(j, [name])
                found |= _union([_apart(self._value(name, j))])
        return found | self._times(k) if found & TIME else found

    def in_block(self, k: int, names: Iterable[str]) -> int:
        """The same where the block of an instruction reads them."""
        b = self.flow.blocks[self.flow.block_of[k]]
        wanted = set(names)
        reads = [(j, wanted.intersection(sources(self.body[j]))) for j in range(b.lo, b.hi)]
        missing = wanted.difference(*[some for _, some in reads])
        return _union([self.read_at(j, some) for j, some in reads if some] + [self.of(missing)])

    def stored(self, k: int) -> int:
        """What the values that an instruction stores vary with."""
        found = self._stored.get(k)
        if found is None:
            values = [op for op in self.body[k].operands if not isinstance(op, Mem)]
            found = self._read_at(k, [name for op in values for name in registers(op)]) & ~ROUNDED
            if any(isinstance(op, Special) for op in values):
                found |= _union([self._operand(op, 64, k) for op in values])
            if found & TIME:  # else it rests on no memory that changes
                found |= self._loads.varies(k, [name for op in values for name in registers(op)])
                found |= self._own_guard(k)
            self._stored[k] = found
        return found

    def decided_alike(self, k: int, unwritten: Collection[int]) -> bool:
        """Whether all threads of a block come to a branch, and decide alike the n-th time that they do.

        Nobody looks for races in global memory: of there only what ``unwritten`` loads bring may decide, also
        those that say by ``nc`` that nobody writes there.
        """
        names = sources(self.body[k])
        loads = self.loads_behind(k, names, _FIXED_SPACES)
        if not all(at in unwritten or _in_shared(self.body[at]) for at in loads):
            return False
        varies = self.decided_by(k) | self.read_at(k, names) | self._loads.apart(k, names)
        return not varies & THREADS

    @cached_property
    def _loads(self) -> LoadAgreement:
        return LoadAgreement(self)

    def loads_behind(self, k: int, names: Iterable[str], but: Collection[str] = _CONSTANT) -> frozenset[int]:
        """The loads of memory that others may write, which registers rest on where instruction ``k`` reads
        them; also those that decide which values come to it. ``but``: without loads that say one of these."""
        work = [self.versions.read(name, k) for name in names]
        work += [v for x in work for b in self._left_by(x, self.flow.block_of[k]) for v in self._guards(b)]
        seen: set[int] = set()
        expanded: set[int] = set()
        while work:
            v = work.pop()
            if v not in seen:
                seen.add(v)
                needs = self._needs(v)
                if id(needs) not in expanded:  # the results of one instruction share theirs
                    expanded.add(id(needs))
                    work += needs
        writers = {self.versions.writer[v] for v in seen} - {-1}
        return frozenset(
            at for at in writers if self.body[at].op in _LOADS and {*but}.isdisjoint(self.body[at].mods)
        )

    def decided_by(self, k: int) -> int:
        """What it varies with whether, and how often, a thread comes to an instruction."""
        i = self.body[k]
        branches = self._controlling(self.flow.block_of[k])
        guard = [] if i.guard is None else [self.versions.read(i.guard.name, k)]
        self._solve([*guard, *(v for b in branches for v in self._guards(b))])
        return _union([*(self._held[v] for v in guard), *map(self._guarded, branches)])

    @cached_property
    def _ends(self) -> list[int]:
        blocks = self.flow.blocks
        return [blocks[n].hi - 1 for n in sorted(self.flow.reached) if self.flow.end in blocks[n].succ]

    # ------------------------------------------------------------ the least solution

    def _solve(self, wanted: Iterable[int]) -> None:
        """Finds the least masks that all versions of registers, and what they need, agree with."""
        users: dict[int, list[int]] = {}
        new: list[int] = []
        seen: set[int] = set()
        work = [v for v in wanted if v not in self._held]
        while work:
            v = work.pop()
            if v in seen:
                continue
            seen.add(v)
            new.append(v)
            for x in self._needs(v):
                if x not in self._held:
                    users.setdefault(x, []).append(v)
                    work.append(x)
        for v in new:
            self._held[v] = 0
        todo = deque(reversed(new))
        queued = set(new)
        while todo:
            v = todo.popleft()
            queued.discard(v)
            old = self._held[v]
            found = _join(old, self._defined(v), self._width(self.versions.name[v]))
            if found != old:
                self._held[v] = found
                for user in users.get(v, ()):
                    if user not in queued:
                        queued.add(user)
                        todo.append(user)

    def _needs(self, v: int) -> frozenset[int]:
        """The versions that one depends on."""
        found = self._all_needs.get(v)
        if found is None:
            k = self.versions.writer[v]
            found = self._read_by(k) if k >= 0 else self._merged_in(v)
            if k >= 0 and self.body[k].guard is not None:
                found |= self._brought(
                    [(self.versions.read(self.versions.name[v], k), self.flow.block_of[k])]
                )
            if self._exchanges and (more := self._butterflies.needs(v)):
                found |= more
            self._all_needs[v] = found
        return found

    def _read_by(self, k: int) -> frozenset[int]:
        """The versions on which all results of an instruction depend."""
        found = self._all_read.get(k)
        if found is None:
            here = self.flow.block_of[k]
            found = self._brought([(self.versions.read(name, k), here) for name in sources(self.body[k])])
            if self.body[k].op == "shfl":
                found |= set(self.leaving(k))
            self._all_read[k] = found
        return found

    def _merged_in(self, v: int) -> frozenset[int]:
        """The versions that come to a merge, and those that decide which of them a thread brings."""
        here = self.versions.block[v]
        some = [(x, at) for b, x in self.versions.merged(v) for at in (b, here) if at >= 0]
        guards = [x for b in self.divergence.joined_by.get(here, ()) for x in self._guards(b)]
        return self._brought(some).union(guards)

    def _brought(self, some: Iterable[tuple[int, int]]) -> frozenset[int]:
        """Versions that blocks read, and those that decide in which iteration their loops were left."""
        found: set[int] = set()
        for x, at in some:
            found.add(x)
            for b in self._left_by(x, at):
                found.update(self._guards(b))
        return frozenset(found)

    @cached_property
    def _all_needs(self) -> dict[int, frozenset[int]]:
        return {}

    @cached_property
    def _all_read(self) -> dict[int, frozenset[int]]:
        return {}

    def _defined(self, v: int) -> _Bits:
        """What a version may vary with by what makes it, without the bit of a step of a butterfly."""
        found = self._made(v)
        step = self._butterflies.symmetric(v) if self._exchanges else None
        if step is None:
            self._rests_on.pop(v, None)
            return found
        self._rests_on[v] = step.rests_on
        taken, more = ~step.bit, ROUNDED if step.rounded else 0
        return found & taken | more if isinstance(found, int) else tuple([x & taken | more for x in found])

    @cached_property
    def _exchanges(self) -> bool:
        return any(i.op == "shfl" and "bfly" in i.mods for i in self.body)

    @cached_property
    def _butterflies(self) -> Butterflies:
        return Butterflies(self)

    @property
    def rests_on(self) -> frozenset[tuple[int, str]]:
        """What is assumed of instructions, by what was asked so far."""
        return frozenset(x for some in self._rests_on.values() for x in some)

    def held(self, v: int) -> int:
        """What a version varies with, as far as is known yet."""
        return _union([_apart(self._held.get(v, EVERY))])

    def special(self, name: str) -> int:
        """What a special register varies with."""
        return _union([self._special(name)])

    def width_of(self, v: int) -> int:
        """The bits of a version."""
        return self._width(self.versions.name[v])

    def _made(self, v: int) -> _Bits:
        k = self.versions.writer[v]
        name = self.versions.name[v]
        if k < 0:
            return self._met(v)
        i = self.body[k]
        found = self._result(k, i, name)
        if not _keeps_rounding(i):
            found = _apart(found)
        if i.guard is None:
            return found
        old = self.versions.read(name, k)
        more = _union([self._value(i.guard.name, k)])
        if not self.versions.is_unset(old):
            found = _join(found, self._used(old, self.flow.block_of[k]), self._width(name))
            more |= TIME
        return found | more if isinstance(found, int) else tuple([x | more for x in found])

    def _met(self, v: int) -> _Bits:
        """What a merge varies with: what comes to it, and the branches whose sides meet there. What a
        register holds that nothing has written is read by nobody who gets anything else; a predicate that
        nothing may have written decides by itself, though, and differently for each thread. So does a number
        that a loop counts on from there."""
        name, here = self.versions.name[v], self.versions.block[v]
        merged = self.versions.merged(v)
        some = [(b, x) for b, x in merged if not self.versions.is_unset(x)]
        is_predicate = self.flow.function.registers.get(name) == "pred"
        if not some or (len(some) < len(merged) and (is_predicate or self._counts_from_nothing(v))):
            return EVERY
        found: _Bits = 0
        for b, x in some:
            for at in {b, here}:
                found = _join(found, self._used(x, at), self._width(name))
        parted = [b for b in self.divergence.joined_by.get(here, ()) if self._brings_several(b, here, some)]
        more = TIME | _union([self._guarded(b) for b in parted])
        return found | more if isinstance(found, int) else tuple([x | more for x in found])

    def _counts_from_nothing(self, v: int) -> bool:
        """Whether a register without a value before a loop gets none in it: each turn computes its next
        value from the one before."""
        dominates, head = self.flow.dominates, self.versions.block[v]
        turns = {b: x for b, x in self.versions.merged(v) if b >= 0 and dominates(head, b)}
        outside = [x for b, x in self.versions.merged(v) if b not in turns]
        unset = all(map(self.versions.is_unset, outside))
        return bool(turns) and unset and all(self._made_of(x, v, frozenset()) for x in turns.values())

    def _made_of(self, x: int, v: int, seen: frozenset[int]) -> bool:
        """Whether a version is computed from another one, by whatever path."""
        if x == v or x in seen:
            return True
        k, more = self.versions.writer[x], seen | {x}
        if len(seen) > _DEEPEST:
            return False
        if k < 0:
            return all(self._made_of(y, v, more) for _, y in self.versions.merged(x))
        i = self.body[k]
        if i.op not in _COUNTS or (
            i.guard is not None and not self._made_of(self.versions.read(self.versions.name[x], k), v, more)
        ):
            return False
        names = {name for op in i.operands[1:] for name in registers(op)}
        return any(self._made_of(self.versions.read(name, k), v, more) for name in names)

    def _brings_several(self, branch: int, here: int, merged: Sequence[tuple[int, int]]) -> bool:
        """Whether threads that part at a branch may come to a merge with different versions: a branch around
        what does not write the register brings one, by both of its sides."""
        sides = set(self.flow.blocks[branch].succ)
        after = {branch} if here in sides else set[int]()
        after.update(*(self._reachable(side, here) for side in sides - {here}))
        return len({x for b, x in merged if b in after}) > 1

    def _used(self, v: int, block: int) -> _Bits:
        """What a version varies with where a block reads it: also with the branches by which threads left
        loops, in different iterations, that made it."""
        found = self._held[v]
        more = _union([self._guarded(b) for b in self._left_by(v, block)])
        if not more:
            return found
        return found | more if isinstance(found, int) else tuple([x | more for x in found])

    def _value(self, name: str, k: int) -> _Bits:
        """What a register varies with where an instruction reads it."""
        return self._used(self.versions.read(name, k), self.flow.block_of[k])

    # ------------------------------------------------------------ branches

    def _guards(self, block: int) -> list[int]:
        """The versions that decide at the end of a block."""
        last = self.flow.blocks[block].hi - 1
        return [self.versions.read(name, last) for name in sources(self.body[last])]

    def _guarded(self, block: int) -> int:
        """What a decision at the end of a block varies with."""
        return _union([_apart(self._held[v]) for v in self._guards(block)])

    def _left_by(self, v: int, block: int) -> list[int]:
        """The branches by which threads leave, in different iterations, a loop that makes a version which a
        block reads."""
        loops = self.flow.loops
        left = self._left_between(self.versions.block[v], block)
        if not left:
            return left
        return [b for n in left if not self._invariant(v, loops[n]) for b in self.divergence.left_by[n]]

    def _left_between(self, made: int, block: int) -> list[int]:
        """The loops around one block, but not around another, that threads leave in different iterations."""
        found = self._all_left.get((made, block))
        if found is None:
            loops, left_by = self.flow.loops, self.divergence.left_by
            found = [n for n in left_by if made in loops[n] and block not in loops[n]]
            self._all_left[made, block] = found
        return found

    @cached_property
    def _all_left(self) -> dict[tuple[int, int], list[int]]:
        return {}

    def _times(self, k: int) -> int:
        """What it varies with how often an instruction has been executed before: the branches that decide
        whether an iteration of a loop comes to it. Who always decides alike has left a branch by one side
        alone, if the others lead to the instruction only past the branch again."""
        here = self.flow.block_of[k]
        found = 0
        for b in self._deciding(here) | (self.divergence.spins & {here}):
            self._solve(self._guards(b))
            guard = self._guarded(b)
            again = guard & TIME or b == here or self.divergence.irreducible
            past = self.flow.end if again else b
            if sum(here in self._reachable(side, past) for side in set(self.flow.blocks[b].succ)) > 1:
                found |= guard
        return found

    def _own_guard(self, k: int) -> int:
        """What an instruction's guard varies with, if it may hold in some iterations alone. Where it also
        varies with the lane, how often some lanes of a warp execute the instruction says nothing of one."""
        guard = self.body[k].guard
        if guard is None:
            return 0
        version = self.versions.read(guard.name, k)
        left = self._left_by(version, self.flow.block_of[k])
        self._solve([version, *(v for b in left for v in self._guards(b))])
        found = _union([_apart(self._value(guard.name, k))])
        if not found & TIME:
            return 0
        return EVERY if found & LANES else found

    def _deciding(self, block: int) -> frozenset[int]:
        """The branches that decide whether, or how often, an iteration of a loop comes to a block."""
        found = self._all_deciding.get(block)
        if found is None:
            divergence = self.divergence
            found = frozenset(divergence.branches)
            if not divergence.irreducible:
                around = [n for n, loop in enumerate(self.flow.loops) if block in loop]
                found = frozenset[int]().union(*(divergence.deciding(n, block) for n in around))
            self._all_deciding[block] = found
        return found

    @cached_property
    def _all_deciding(self) -> dict[int, frozenset[int]]:
        return {}

    def _reachable(self, block: int, past: int) -> frozenset[int]:
        """The blocks that can follow a block, itself included, without another one."""
        found = self._all_reachable.get((block, past))
        if found is None:
            seen: set[int] = set()
            work = [block]
            while work:
                at = work.pop()
                if at >= 0 and at != self.flow.end and at not in seen and at != past:
                    seen.add(at)
                    work += self.flow.blocks[at].succ
            found = self._all_reachable[block, past] = frozenset(seen)
        return found

    @cached_property
    def _all_reachable(self) -> dict[tuple[int, int], frozenset[int]]:
        return {}

    def _invariant(self, v: int, loop: Collection[int], depth: int = 0) -> bool:
        """Whether a version is the same in each iteration: it is made of what the loop leaves alone."""
        if self.versions.block[v] not in loop:
            return True
        k = self.versions.writer[v]
        if k < 0 or depth > _DEEPEST:
            return self.versions.is_unset(v)
        i = self.body[k]
        fixed = i.guard is None and i.op in PURE and "cc" not in i.mods
        return fixed and all(self._invariant(self.versions.read(x, k), loop, depth + 1) for x in sources(i))

    def leaving(self, k: int) -> list[int]:
        """The versions that decide about an instruction, where threads may leave the kernel early."""
        return [v for b in self._leaving(k) for v in self._guards(b)]

    def _leaving(self, k: int) -> list[int]:
        """The blocks whose branches decide about an instruction, where threads may leave the kernel early."""
        ends = [b for b in self._ends if not self.flow.gives_up(self.flow.block_of[b])]
        return [
            b
            for b in self._controlling(self.flow.block_of[k])
            if len(ends) > 1 or any(map(self._only_ends, self.flow.blocks[b].succ))
        ]

    def _only_ends(self, block: int) -> bool:
        """Whether a thread that comes to a block leaves the kernel, and does nothing before."""
        seen = set[int]()
        while block != self.flow.end and block not in seen:
            seen.add(block)
            b = self.flow.blocks[block]
            if len(b.succ) != 1 or any(i.op not in ("ret", "exit", "bra") for i in self.body[b.lo : b.hi]):
                return False
            block = b.succ[0]
        return block == self.flow.end

    def together(self, k: int) -> bool:
        """Whether no lane of a warp has left before the others come to an instruction, as far as is known
        yet."""
        return not any(self.held(v) & LANES for v in self.leaving(k))

    def _stays(self, lane: int, k: int) -> bool:
        """Whether one lane of each warp is still there if others come to an instruction: numbers of threads
        alone decide who has left, and it stays wherever one of its warp does."""
        values = self._thread_values
        left = np.zeros(values.threads, bool)
        for b in self._leaving(k):
            if not any(self.held(v) & LANES for v in self._guards(b)):
                continue
            last = self.flow.blocks[b].hi - 1
            guard = self.body[last].guard
            ends = [self._only_ends(s) for s in self.flow.blocks[b].succ]
            held = None if guard is None else values.read(guard, last)
            if held is None or ends.count(True) != 1 or not self.flow.dominates(b, self.flow.block_of[k]):
                return False
            jumps = (held & np.uint64(1)).astype(bool) ^ self.body[last].negated
            left |= jumps if ends[0] else ~jumps
        warps = [left[n : n + LANES + 1] for n in range(0, len(left), LANES + 1)]
        return all(bool(w.all()) or (lane < len(w) and not w[lane]) for w in warps)

    @cached_property
    def _thread_values(self) -> ThreadValues:
        x, y, z = (*self.block, 1, 1)[:3]
        return ThreadValues(self.flow, (x, y, z))

    def _controlling(self, block: int) -> frozenset[int]:
        """The branches that decide whether a block is executed, and those that decide about them."""
        found: set[int] = set()
        work = [block]
        while work:
            for b in self._controllers[work.pop()]:
                if b not in found:
                    found.add(b)
                    work.append(b)
        return frozenset(found)

    @cached_property
    def _controllers(self) -> list[set[int]]:
        return self.flow.controllers()

    # ------------------------------------------------------------ instructions

    def _result(self, k: int, i: Instr, name: str) -> _Bits:
        mods, ops = i.mods, i.operands
        if i.op in PURE and "cc" not in mods:
            return self._computed(k, i, name)
        if i.op in CARRIED or "cc" in mods:
            carry = [self._value(CARRY, k)] if i.op in CARRIED else []
            return _union([*(self._operand(op, 64, k) for op in ops[1:]), *carry])
        match i.op:
            case "ld" | "ldu":
                return self._loaded(k, i)
            case "shfl":
                pred = self.function.registers.get(name) == "pred"
                return self._in_range(k, i) if pred else self._shuffled(k, i)
            case "vote" | "redux" | "match" if "sync" in mods and len(ops) > 2:
                whole = self.whole(ops[-1], k)
                found = self._read(sources(i), k)
                uniform = whole and not (i.op == "match" and "any" in mods)
                return found & ~LANES if uniform else found | LANES
            case "elect" if self.whole(ops[1], k):
                return LANES if self.function.registers.get(name) == "pred" else 0
            case "ldmatrix" | "mma":
                return self._of_warp(k, i, LANES)
            case "wgmma" if "mma_async" in mods:
                return self._of_warp(k, i, WARPGROUP)
        return EVERY

    def _of_warp(self, k: int, i: Instr, together: int) -> int:
        """Results that all lanes of a warp, or of a warpgroup, make of all that they bring."""
        found = self._all_that_is_read(k)
        memory = 0 if i.op == "mma" else TIME | BLOCK
        return found & ~together | together | memory

    def _loaded(self, k: int, i: Instr) -> _Bits:
        at = i.operands[1]
        if not isinstance(at, Mem) or not _STRONG.isdisjoint(i.mods) or "local" in i.mods:
            return EVERY
        space = next((m.split("::")[0] for m in i.mods if m.split("::")[0] in _SPACES), "generic")
        if space == "param" and not self._of_parameter(at.base, k):
            return EVERY
        if space == "generic" and self._has_local_memory:
            return EVERY  # equal addresses may lead each thread to its own memory
        found = self._read(registers(at), k)
        if isinstance(at.base, Special):
            found |= _union([self._special(at.base.name)])
        if space in ("param", "const") or "nc" in i.mods:
            return found
        if space == "shared":
            return found | TIME | BLOCK
        return found | TIME | (BLOCK if space == "generic" else 0)

    @cached_property
    def _has_local_memory(self) -> bool:
        """Whether a generic address may be one of local memory."""
        named = any(v.space == "local" for v in self.function.variables)
        return named or any(i.op == "alloca" or "local" in i.mods for i in self.body)

    def _of_parameter(self, base: object, k: int) -> bool:
        """Whether an address is a kernel's parameter by name, or a register that one was moved into."""
        if isinstance(base, Reg):
            at = self.versions.writer[self.versions.read(base.name, k)]
            i = self.body[at] if at >= 0 else None
            if i is None or i.op != "mov" or i.guard is not None or len(i.operands) != 2:
                return False
            base = i.operands[1]
        return isinstance(base, Sym) and base.name in self._parameters

    def _shuffled(self, k: int, i: Instr) -> _Bits:
        """PTX ISA, shfl.sync: ``c`` holds the clamp in bits 0..4, the mask of segments in bits 8..12."""
        mode = next((m for m in i.mods if m in ("up", "down", "bfly", "idx")), "")
        ops = i.operands
        clamp = self.constant(ops[3], k) if len(ops) > 4 and "sync" in i.mods else None
        if clamp is None or not self.whole(ops[4], k):
            return self._read(sources(i), k) | LANES
        if not self.together(k):
            of = self.constant(ops[2], k) if mode == "idx" and clamp == LANES else None
            if of is None or not self._stays(of & LANES, k):
                return self._read(sources(i), k) | LANES
        bits, lane = self._operand(ops[1], 32, k), _union([_apart(self._read(registers(ops[2]), k))])
        segments = clamp >> 8 & LANES
        if mode == "idx" and clamp & LANES == LANES:  # each bit is that of another lane
            return tuple([x & (~LANES | segments) | lane for x in _spread(bits, 32)])
        distance = self.constant(ops[2], k) if mode == "bfly" else None
        if distance is not None and clamp & LANES == LANES and not distance & segments:
            return bits  # across segments, lanes of the lower one keep their own
        value = _union([bits])
        return value | lane | (LANES if value & LANES or lane else 0)

    def _in_range(self, k: int, i: Instr) -> int:
        """What it varies with whether the source lane of a ``shfl`` is in the segment of the own one."""
        clamp = self.constant(i.operands[3], k)
        always = clamp == LANES and not {"idx", "bfly"}.isdisjoint(i.mods)
        return 0 if always else self._read(sources(i), k) | LANES

    def _computed(self, k: int, i: Instr, name: str) -> _Bits:
        ops = i.operands
        if isinstance(ops[0], Vector):  # mov.b64 {lo, hi}, x
            parts = [*registers(ops[0])]
            n = self._width(parts[0])
            held = _spread(self._operand(ops[1], n * len(ops[0].items), k), n * len(ops[0].items))
            at = next((j for j, x in enumerate(ops[0].items) if isinstance(x, Reg) and x.name == name), 0)
            return held[at * n : (at + 1) * n]
        size = self._width(name)
        plain = len(i.mods) == 0 or i.mods[-1][:1] in "bus" or i.mods[-1] == "pred"
        if not plain:
            return self._read(sources(i), k) | _union([self._operand(op, 1, k) for op in ops[1:]])
        return self._moved(k, i, ops[1:], size)

    def _moved(self, k: int, i: Instr, ops: Sequence[Operand], size: int) -> _Bits:
        """Integer instructions that move bits about."""
        args = [self._operand(op, size, k) for op in ops]
        amount = ops[1].value if len(ops) > 1 and isinstance(ops[1], Imm) else None
        if amount is not None and i.op in ("shl", "shr"):
            amount &= _ALL_LANES
        match i.op:
            case "mov" | "cvta" | "not" if len(ops) == 1:
                return args[0]
            case "cvt" if len(ops) == 1 and i.mods[-2][:1] in "us" and "sat" not in i.mods:
                return self._converted(k, i, ops[0], size)
            case "and" if amount is not None:
                held = _spread(args[0], size)
                return tuple([x if amount >> n & 1 else 0 for n, x in enumerate(held)])
            case "or" if amount is not None:
                held = _spread(args[0], size)
                return tuple([0 if amount >> n & 1 else x for n, x in enumerate(held)])
            case "and" | "or" | "xor" if len(ops) == 2:
                a, b = _spread(args[0], size), _spread(args[1], size)
                return tuple([x | y for x, y in zip(a, b, strict=True)])
            case "shl" | "shr" if amount is not None:
                return self._shifted(i, ops[0], args[0], amount, size)
            case "bfe" if amount is not None and isinstance(ops[2], Imm) and i.mods[-1][0] == "u":
                held = _spread(args[0], size)[amount : amount + ops[2].value]
                return (*held, *[0] * (size - len(held)))
            case "setp" if len(ops) == 2 and isinstance(ops[1], Imm) and i.mods[-1][:1] in "us":
                n = width(i.mods[-1])
                return _union(_spread(args[0], n)[min(_deciding(i.mods[0], ops[1].value), n - 1) :])
            case "add" | "sub" | "mul" | "mad" if "hi" not in i.mods and "sat" not in i.mods:
                return self._sum_or_product(i, ops, args, size)
        return _union(args)

    def _converted(self, k: int, i: Instr, op: Operand, size: int) -> _Bits:
        """Another width: the upper bits are the sign's, or none; those of a wider register than its type's,
        too."""
        found: tuple[int, ...] = ()
        types = (i.mods[-1], i.mods[-2], f"{i.mods[-2][0]}{size}")
        for n, (type_, wider) in enumerate(pairwise(types)):
            taken = width(type_)
            low = _spread(found if n else self._operand(op, taken, k), taken)[: width(wider)]
            fill = low[-1] if type_[0] == "s" else 0
            found = (*low, *[fill] * (width(wider) - len(low)))
        return found[:size]

    def _shifted(self, i: Instr, op: Operand, arg: _Bits, amount: int, size: int) -> _Bits:
        """A shift by a constant. Of what is never negative the sign is the same in all lanes."""
        held = _spread(arg, size)
        if i.op == "shl":
            return (*[0] * min(amount, size), *held)[:size]
        signed = i.mods[-1][0] == "s"
        fill = held[-1] if signed and not self._positive(op) else 0
        if signed and amount >= size - 1 and not fill:
            return 0
        return (*held[amount:], *[fill] * min(amount, size))[:size]

    def _sum_or_product(self, i: Instr, ops: Sequence[Operand], args: Sequence[_Bits], size: int) -> _Bits:
        """Sums, differences and products: a bit depends on those below it, as far as carries reach."""
        if "wide" in i.mods and i.mods[-1][0] == "s":
            return _union(args)  # the sign fills the upper half
        spread = [_spread(a, size) for a in args]
        maybe = [self._maybe(op) for op in ops]
        if i.op in ("mul", "mad"):
            product = _product(spread[:2], maybe[:2], size)
            if i.op == "mul":
                return product
            spread, maybe = [product, spread[2]], [_multiples(*maybe[:2]), maybe[2]]
        if i.op == "sub" and maybe[1]:
            return _carried(spread, size, 0)
        return _carried(spread, size, _lowest(maybe[0] & maybe[1]))

    def _operand(self, op: Operand, size: int, k: int) -> _Bits:
        match op:
            case Imm() | FloatImm() | Sym():
                return 0
            case Special(name):
                return self._special(name)
            case Vector(items):
                each = size // max(len(items), 1)
                return tuple([x for item in items for x in _spread(self._operand(item, each, k), each)])
            case Not(reg):
                return self._value(reg.name, k)
            case Reg(name):
                return self._value(name, k)
        return self._read(registers(op), k)

    def _read(self, names: Iterable[str], k: int) -> int:
        return _union([self._value(name, k) for name in names])

    def _all_that_is_read(self, k: int) -> int:
        """The same of all sources of an instruction, which may be many, and read for each of its results."""
        if k not in self._sources:
            some = {self.versions.read(name, k) for name in sources(self.body[k])}
            left = {b for v in some for b in self._left_by(v, self.flow.block_of[k])}
            self._sources[k] = some, left
        some, left = self._sources[k]
        return _union([self._held[v] for v in some]) | _union(map(self._guarded, left))

    @cached_property
    def _sources(self) -> dict[int, tuple[set[int], set[int]]]:
        return {}

    def _width(self, name: str) -> int:
        kind = self.function.registers.get(name, "b32")
        return 1 if kind == "pred" else width(kind)

    def constant(self, op: Operand, k: int) -> int | None:
        """The number that an instruction reads: in the text, or moved into the register."""
        if isinstance(op, Imm):
            return op.value
        at = self.versions.writer[self.versions.read(op.name, k)] if isinstance(op, Reg) else -1
        if at < 0:
            return None
        i = self.body[at]
        found = self.constant(i.operands[1], at) if i.op == "mov" and i.guard is None else None
        into = i.operands[0]
        if found is None or not isinstance(into, Vector):
            return found
        size = width(i.mods[-1]) // len(into.items)
        return found >> size * into.items.index(op) & (1 << size) - 1

    def _maybe(self, op: Operand, depth: int = 0) -> int:
        """The bits of an integer that may be set."""
        if isinstance(op, Imm):
            return op.value & _ALL_BITS
        if isinstance(op, Special):
            return self._maybe_special(op.name)
        if not isinstance(op, Reg) or depth > 12:
            return _ALL_BITS
        found: Sequence[int] = self._definitions.get(op.name, ())
        i = self.body[found[0]] if len(found) == 1 else None
        if i is None or i.guard is not None or i.op not in PURE or isinstance(i.operands[0], Vector):
            return _ALL_BITS
        if "sat" in i.mods or not _of_integers(i):
            return _ALL_BITS
        ops = i.operands[1:]
        held = [self._maybe(x, depth + 1) for x in ops]
        amount = self.constant(ops[1], found[0]) if len(ops) > 1 else None
        if amount is not None and i.op in ("shl", "shr"):
            amount = min(amount & _ALL_LANES, 64)
        match i.op:
            case "mov" | "cvta" if len(ops) == 1:
                return held[0]
            case "cvt":
                return self._maybe_converted(i, held[0])
            case "and" if len(ops) == 2:
                return held[0] & held[1]
            case "or" | "xor" if len(ops) == 2:
                return held[0] | held[1]
            case "shl" if amount is not None:
                return held[0] << amount & _ALL_BITS
            case "shr" if amount is not None and (i.mods[-1][:1] != "s" or self._positive_once(ops[0])):
                return (held[0] & (1 << width(i.mods[-1])) - 1) >> amount
            case "add":
                return held[0] | held[1] if not held[0] & held[1] else _from(_lowest(held[0] | held[1]))
            case "mul" | "mad" if "hi" not in i.mods:
                found_bits = _multiples(held[0], held[1])
                return found_bits if i.op == "mul" else _from(_lowest(found_bits | held[2]))
        return _ALL_BITS

    def _maybe_converted(self, i: Instr, held: int) -> int:
        """The same of a conversion: a sign fills the upper bits."""
        to, of = i.mods[-2:]
        sizes, source = (width(of), width(to)), i.operands[1]
        own = isinstance(source, Reg) and self._width(source.name) == sizes[0]
        whole = own and self._positive_once(source)
        for type_, size in zip((of, to), sizes, strict=True):
            held &= (1 << size) - 1
            if type_[0] == "s" and held >> size - 1 and not (whole and type_ is of):
                return _ALL_BITS
        return held

    def _maybe_special(self, name: str) -> int:
        axis = "xyz".find(name[-1]) if name[-2:-1] == "." else -1
        own = (*self.block, 1, 1)[axis] if axis >= 0 else 0
        if name.startswith("%tid.") and own:
            return (1 << (own - 1).bit_length()) - 1
        if name.startswith("%ntid.") and own:
            return own
        return 31 if name == "%laneid" else _ALL_BITS

    def _positive_once(self, op: Operand) -> bool:
        """The same of an operand whose bits are asked for; not where these are asked for its own sign, as in
        a loop that halves a number: ``shr.s32 %r1, %r1, 1``."""
        name = op.name if isinstance(op, Reg) else ""
        if name in self._signs_asked:
            return False
        self._signs_asked.add(name)
        try:
            return self._positive(op)
        finally:
            self._signs_asked.discard(name)

    def _positive(self, op: Operand, assumed: frozenset[str] = frozenset()) -> bool:
        """Whether an integer is not below zero, if sums and products of numbers of threads, blocks and sizes
        do not wrap (an assumption of all that is said of sizes)."""
        if isinstance(op, Imm):
            return 0 <= op.value < _SIGN
        if isinstance(op, Special):
            return op.name.startswith(("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid"))
        if not isinstance(op, Reg):
            return False
        if op.name in assumed:
            return True
        found = self._definitions.get(op.name, ())
        return 0 < len(found) < 4 and len(assumed) < 12 and all(
            self._made_positive(k, assumed | {op.name}) for k in found
        )  # fmt: skip

    def _made_positive(self, k: int, assumed: frozenset[str]) -> bool:
        i = self.body[k]
        if i.op == "shr" and i.mods[-1][:1] in "ub":
            amount = self.constant(i.operands[2], k)
            return amount is not None and amount > 0
        if i.op == "and" and any(isinstance(x, Imm) and 0 <= x.value < _SIGN for x in i.operands[1:]):
            return True
        computes = i.op in ("mov", "add", "mul", "mad", "shl", "shr", "cvt", "min", "max", "div", "rem", "or")
        if not computes or "hi" in i.mods or not _of_one_integer(i) or self._leaves_its_type(k):
            return False
        return all(self._positive(x, assumed) for x in i.operands[1:])

    def _leaves_its_type(self, k: int) -> bool:
        """Whether an instruction may cut or set the sign bit of what numbers of threads and constants give
        it: no size is to blame for that."""
        i = self.body[k]
        types = [m for m in i.mods if kind(m) in ("u", "s", "b") and m[1:].isdigit()]
        if not types:
            return False
        if i.op == "cvt":
            held = min([width(types[0]), *(width(m) for m in types if kind(m) == "s")])
            most = self._greatest(i.operands[1]).most
        else:
            held = width(types[-1]) * (2 if "wide" in i.mods else 1)
            most = self._result_of(i).most
        if isinstance(i.operands[0], Vector):  # its parts are numbers of their own
            held = min(map(self._width, registers(i.operands[0])), default=held)
        return most is None or most >> held - 1 > 0

    def _greatest(self, op: Operand) -> _Most:
        """The greatest number that numbers of threads and constants make an operand. What a loop makes of
        itself is 1 there, and of it only sums are followed."""
        if isinstance(op, Imm):
            return _Most(op.value & _ALL_BITS)
        if isinstance(op, Special):
            bits = self._maybe_special(op.name)
            if bits < 2 * _SIGN:
                return _Most(bits, 0 if op.name.startswith("%ntid") else _OF_THREADS)
            if op.name == "%warpid":
                return _Most(_MOST_WARPS, _OF_THREADS)
            return _Most(self._most_blocks(op.name), _OF_SIZES)
        if not isinstance(op, Reg):
            return _Most(None)
        name = op.name
        if name in self._bounds:
            return self._bounds[name]
        if name in self._asked:
            return _Most(1, _OF_SIZES, frozenset({name}))
        if self._steps > _MOST_BOUNDS or len(self._asked) > _DEEPEST_BOUND:
            return _Most(None)
        self._steps += 1
        self._asked.add(name)
        found = [self._result_of(self.body[k]) for k in self._definitions.get(name, ())]
        self._asked.remove(name)
        met = frozenset[str]().union(*(x.met for x in found))
        some = [x.most for x in found if x.most is not None]
        most = None if not some or len(some) < len(found) else sum(some) if name in met else max(some)
        made = _Most(most, max((x.of for x in found), default=_OF_THREADS), met - {name})
        if not made.met:
            self._bounds[name] = made
        return made

    def _most_blocks(self, name: str) -> int:
        """The greatest number that a place in the grid, or an extent of it, may be; of one that is open, an
        assumption on sizes."""
        if self.blocks_in_x is None or not name.endswith(".x"):
            return _MANY
        return self.blocks_in_x - 1 if name == "%ctaid.x" else self.blocks_in_x

    def _result_of(self, i: Instr) -> _Most:
        """The same of what an instruction makes."""
        if i.op not in _BOUNDED or not _of_one_integer(i) or not {"hi", "sat"}.isdisjoint(i.mods):
            return _Most(None)
        numbers = [x.value for x in i.operands[1:] if isinstance(x, Imm) and x.value >= 0]
        if i.op == "and" and numbers:
            return _Most(min(numbers), _OF_THREADS)
        if i.op == "rem" and isinstance(i.operands[2], Imm) and i.mods[-1][:1] == "u":
            return _Most(max(i.operands[2].value - 1, 0), _OF_THREADS)
        ops = [self._greatest(x) for x in i.operands[1:]]
        of, met = max(x.of for x in ops), frozenset[str]().union(*(x.met for x in ops))
        by = numbers[-1] if i.op == "shr" and isinstance(i.operands[2], Imm) and numbers else 0
        if i.op in ("shr", "cvt") and ops[0].most is None:
            whole = (1 << width(i.mods[-1])) - 1 if kind(i.mods[-1]) in ("u", "b") else None
            return _Most(None if whole is None else whole >> min(by, 64), _OF_THREADS)
        some = [x.most for x in ops if x.most is not None]
        signs = [width(m) for m in i.mods[-2:] if kind(m) == "s" and m[1:].isdigit()]
        if len(some) < len(ops) or not some or (signs and max(some) >> min(signs) - 1 > 0):
            return _Most(None)
        match i.op:
            case "add":
                return _sum(*ops)
            case "mul" | "mad":
                product = _Most(some[0] * some[1], max(x.of for x in ops[:2]))
                if ops[0].met or ops[1].met:
                    return _Most(None)
                return product if i.op == "mul" else _sum(product, ops[2])
            case "shl":
                return _Most(None if ops[0].met or ops[1].met else some[0] << min(some[1], 64), of)
            case "or":
                return _Most((1 << max(some).bit_length()) - 1, of, met)
            case "shr":
                return _Most(some[0] >> min(by, 64), of, met)
            case "mov" | "cvt" | "div" | "rem":
                return _Most(some[0], of, met)
        return _Most(max(some), of, met)

    def whole(self, mask: Operand, k: int) -> bool:
        """Whether a mask names all lanes."""
        found = self.constant(mask, k)
        return found is not None and found & _ALL_LANES == _ALL_LANES

    # ------------------------------------------------------------ threads

    def _special(self, name: str) -> _Bits:
        """What a special register varies with."""
        if name.startswith("%tid."):
            return self._thread(name[-1])
        if name == "%laneid":
            return tuple([1 << n if n < 5 else 0 for n in range(32)])
        if name.startswith("%lanemask"):
            return LANES
        if name == "%warpid":
            return EVERY & ~LANES
        if name.startswith("%@tile"):
            return THREADS & ~LANES
        if name.startswith("%clusterid") and self.of_grid:
            return BLOCK
        if name.startswith(_FIXED):
            return 0
        return BLOCK if name.startswith(_OF_BLOCK) else EVERY

    def _thread(self, axis: str) -> _Bits:
        """The bits of a thread's number that each bit of ``%tid`` along an axis is made of."""
        x, y, z = (*self.block, 1, 1)[:3]
        n = "xyz".find(axis)
        if n < 0:
            return EVERY
        before, own = (1, x, x * y)[n], (x, y, z)[n]
        after = (x * y * z) // (before * own)
        lowest = before.bit_length() - 1
        if own == 1:
            return 0
        if before & before - 1 == 0 and (after == 1 or own & own - 1 == 0):
            bits = (own - 1).bit_length()
            return tuple([1 << lowest + b if b < bits else 0 for b in range(32)])
        if before % 32 == 0:
            return THREADS & ~LANES
        if n == 0 and own % 32 == 0:
            return tuple([1 << b if b < 5 else THREADS & ~LANES for b in range(32)])
        return THREADS


@dataclass(frozen=True, slots=True)
class _Most:
    """A bound of a number; None: there is none. ``of``: what goes into it. ``met``: registers of loops that
    it is made of, from the turn before."""

    most: int | None
    of: int = 0
    met: frozenset[str] = frozenset()


def _sum(one: _Most, two: _Most) -> _Most:
    """The bound of a sum. What a loop adds in each turn is no number of a thread, and if it is one of the
    text, it is added many times; numbers of blocks are sizes."""
    if one.most is None or two.most is None or (one.met and two.met):
        return _Most(None)
    of, met = max(one.of, two.of), one.met | two.met
    if not met:
        return _Most(one.most + two.most, of)
    moved, by = (one, two) if one.met else (two, one)
    if by.of == _OF_THREADS or moved.most is None or by.most is None:
        return _Most(None)
    return _Most(moved.most + by.most * (1 if by.of == _OF_SIZES else _MANY), of, met)


def _of_integers(i: Instr) -> bool:
    """Whether the types of an instruction are whole numbers or bits."""
    return not any(m.startswith(_FLOAT_TYPES) and m[-1].isdigit() for m in i.mods)


def _of_one_integer(i: Instr) -> bool:
    """The same, where they are of one number, and of no halves."""
    return bool(i.mods) and i.mods[0] != "pack" and kind(i.mods[-1]) in ("u", "s", "b") and _of_integers(i)


def _keeps_rounding(i: Instr) -> bool:
    """Whether values that differ by rounding make such values again: by sums, choices and packing."""
    if i.op == "cvt":
        return i.mods[-2].startswith(_FLOAT_TYPES)
    if i.op in _MOVES_BITS:
        return True
    computes = i.op in PURE and i.op not in ("set", "setp", "testp")
    return computes and bool(i.mods) and i.mods[-1].startswith(_FLOAT_TYPES)


def _apart(bits: _Bits) -> _Bits:
    """The same where a difference by rounding counts."""
    if isinstance(bits, int):
        return bits & ~ROUNDED | LANES if bits & ROUNDED else bits
    return tuple([x & ~ROUNDED | LANES if x & ROUNDED else x for x in bits])


def _in_shared(i: Instr) -> bool:
    return i.op in ("ld", "ldmatrix") and not {"shared", "shared::cta"}.isdisjoint(i.mods)


_FLOAT_TYPES = ("f", "bf")
_MOVES_BITS = frozenset({"mov", "selp", "shfl", "prmt", "shl", "shr", "and", "or", "lop3", "bfi"})
_SPACES = frozenset({"global", "shared", "const", "param", "local"})


def _union(held: Iterable[_Bits]) -> int:
    found = 0
    for bits in held:
        if isinstance(bits, int):
            found |= bits
        else:
            for x in bits:
                found |= x
    return found


def _spread(bits: _Bits, size: int) -> tuple[int, ...]:
    """One mask for each of ``size`` bits."""
    if isinstance(bits, int):
        return (bits,) * size
    return bits[:size] if len(bits) >= size else (*bits, *[0] * (size - len(bits)))


def _carried(held: Sequence[tuple[int, ...]], size: int, lowest: int) -> tuple[int, ...]:
    """Sums: each bit is made of its own in all operands, and of those below from ``lowest`` on, where a carry
    may begin."""
    out: list[int] = []
    found = 0
    for n in range(size):
        here = 0
        for bits in held:
            here |= bits[n]
        out.append(here | found)
        if n >= lowest:
            found |= here
    return tuple(out)


def _product(held: Sequence[tuple[int, ...]], maybe: Sequence[int], size: int) -> tuple[int, ...]:
    """Products: by a power of two, bits move; else each bit is made of those that may come to it."""
    for one, other in ((0, 1), (1, 0)):
        if maybe[other] and maybe[other] & maybe[other] - 1 == 0 and not _union([held[other]]):
            by = maybe[other].bit_length() - 1
            return (*[0] * min(by, size), *held[one])[:size]
    return _carried(held, size, 0)


_ALL_BITS = (1 << 64) - 1


def _deciding(comparison: str, number: int) -> int:
    """The lowest bit that a comparison with a number depends on: ``x < 96`` is ``x / 32 < 3``."""
    if comparison in ("le", "gt", "ls", "hi"):
        number += 1
    elif comparison not in ("lt", "ge", "lo", "hs"):
        return 0
    return _lowest(number & _ALL_BITS)


def _lowest(bits: int) -> int:
    """The number of the lowest bit set; 64 for none."""
    return (bits & -bits).bit_length() - 1 if bits else 64


def _from(n: int) -> int:
    """All bits from one on."""
    return _ALL_BITS >> n << n if n < 64 else 0


def _multiples(a: int, b: int) -> int:
    """The bits that may be set in a product."""
    return _from(_lowest(a) + _lowest(b)) if a and b else 0


def _join(a: _Bits, b: _Bits, size: int) -> _Bits:
    if isinstance(a, int) and isinstance(b, int):
        return a | b
    return tuple([x | y for x, y in zip(_spread(a, size), _spread(b, size), strict=True)])


__all__ = ["BLOCK", "EVERY", "LANES", "MOST_BLOCKS", "THREADS", "TIME", "Uniformity", "agree"]
