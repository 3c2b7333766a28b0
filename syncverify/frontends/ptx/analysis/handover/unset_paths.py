"""Accesses and decisions that are made of a register which some path to them leaves without a value.

An example, where ``%p`` holds in some threads and not in others:

    @%p add.u64 %rd2, %rd0, %rd1;  ld.global.u32 %r1, [%rd2];

A decision is the guard, or the index, of a branch around a collective, a barrier or the like, or the guard
of one of these itself. Each lane may take another way there, for a register without a value holds anything.

A value is made of what its instruction reads, and of what decides which one it is: the predicate of a
``selp``, the guard of the instruction that writes it, the branches ahead of where paths meet.

A path is a way through the blocks on which the register is not written. It counts unless the predicates of
its branches and guards contradict each other. One version of a predicate (``flow/ssa.py``) has one value
until it is written again. Of those that numbers of threads decide, some thread of the block must have all.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from syncverify.frontends.ptx.analysis.handover.path_conditions import ALWAYS, Flags, Known, Number, Truths
from syncverify.frontends.ptx.analysis.registers.thread_values import ThreadValues
from syncverify.frontends.ptx.flow.control_flow import Flow, read_early
from syncverify.frontends.ptx.isa.accesses import computes, effects
from syncverify.frontends.ptx.isa.participants import by_lanes
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Vector
from syncverify.frontends.ptx.syntax.operands import CARRIED, CARRY, registers, results, sources
from syncverify.frontends.ptx.syntax.types import kind, width

#: States of the search for one path; beyond them it is taken to exist.
_MOST_STATES = 4000
#: Searches for one path; beyond them it is taken to exist.
_MOST_FOLLOWED = 60
_BRANCHES = ("bra", "ret", "exit", "brx")
#: Effects of what a thread does alone.
_ALONE = frozenset(
    {"register", "data", "control", "hint", "memory read", "memory write", "memory local", "texture read"}
)


@dataclass(frozen=True, slots=True)
class UnsetPath:
    """The address of an access ``k``, or the guard of a decision ``k``, is made of ``register``."""

    k: int
    register: str


def unset_paths(flow: Flow, threads: ThreadValues) -> Iterator[UnsetPath]:
    """The accesses of a function that a path comes to without a value of a register in the address."""
    names = _reached_by(flow, read_early(flow))
    if not names:
        return
    search = _Search(flow, threads, names)
    for k, i in enumerate(flow.body):
        bases = [op.base for op in i.operands if isinstance(op, Mem)]
        mine = dict.fromkeys(r for base in bases for r in registers(base) if r in names)
        if not mine or flow.block_of[k] not in flow.reached:
            continue
        yield from search.unset(k, mine)


def unset_decisions(flow: Flow, threads: ThreadValues, number: Number | None = None) -> Iterator[UnsetPath]:
    """The decisions of a function that a path comes to without a value of a register that decides.
    ``number``: of a parameter's bytes."""
    names = _reached_by(flow, read_early(flow))
    if not names:
        return
    search = _Search(flow, threads, names, number)
    for k in _decisions(flow):
        yield from search.unset(k, [name for name in _deciding(flow.body[k]) if name in names])


def _deciding(i: Instr) -> list[str]:
    """The registers that say whether an instruction is executed, who takes part, or where a branch leads."""
    asked = [r for op in _who_takes_part(i) for r in registers(op)]
    return [*asked, *([] if i.guard is None else [i.guard.name])]


def _decisions(flow: Flow) -> list[int]:
    """The instructions whose guards decide who comes to what threads do together."""
    meet = [k for k, i in enumerate(flow.body) if flow.block_of[k] in flow.reached and _together(i)]
    controllers, around = flow.controllers(), set[int]()
    work = [flow.block_of[k] for k in meet]
    while work:
        new = controllers[work.pop()] - around
        around |= new
        work += new
    return sorted({*meet, *(flow.blocks[b].hi - 1 for b in around)})


def _who_takes_part(i: Instr) -> list[Operand]:
    """The operands of a collective or a barrier that say who takes part, or how long it waits; the index of a
    branch."""
    if i.op == "brx":
        return list(i.operands[:1])
    if i.op in ("shfl", "vote", "match", "redux", "elect") and "sync" in i.mods:
        return list(i.operands[-1:])
    if i.op in ("bar", "barrier") and "red" not in i.mods:
        return list(i.operands)
    if i.op == "mbarrier" and {"test_wait", "try_wait"} & {*i.mods}:
        return list(i.operands[2:3])
    return []


def _together(i: Instr) -> bool:
    """Whether an instruction is more than arithmetic, control, and an access of one thread."""
    return i.op == "call" or by_lanes(i) or not effects(i) <= _ALONE


class _Search:
    """Uses of registers without a value in one function."""

    def __init__(
        self, flow: Flow, threads: ThreadValues, names: frozenset[str], number: Number | None = None
    ) -> None:
        self.flow = flow
        self.made_of = _MadeOf(flow, names)
        self.truths = Truths(flow, threads) if number is None else Truths(flow, threads, number)
        self.flags = Flags(flow, threads)
        self._found: dict[tuple[_Use, ...], bool] = {}
        self._followed: dict[str, set[int]] = {}

    def unset(self, k: int, names: Iterable[str]) -> Iterator[UnsetPath]:
        """The first of some registers that a path to an instruction leaves without a value."""
        chains = (c for name in names for c in self.made_of.chains(k, name))
        found = next((c for c in chains if self._exists(c[:1]) and self._exists(c)), None)
        if found is not None:
            yield UnsetPath(k, found[0].name)

    def _exists(self, chain: tuple[_Use, ...]) -> bool:
        """Whether a path leads through some uses; of several decisions the first ones are often the same."""
        if chain not in self._found:
            followed = self._followed.setdefault(chain[0].name, {ALWAYS})
            self._found[chain] = _Paths(self.truths, self.flags, chain).exists(followed)
        return self._found[chain]


def _reached_by(flow: Flow, names: frozenset[str]) -> frozenset[str]:
    """The registers that some others may go into, or decide about, and these."""
    controllers = flow.controllers() if names else []
    found, decided, grown = set(names), set[int](), bool(names)
    while grown:
        before = len(found) + len(decided)
        for k, i in enumerate(flow.body):
            read = {*sources(i), *_deciding(i)}
            if flow.block_of[k] in decided or (computes(i) and not found.isdisjoint(read)):
                found.update(results(i))
        asked = {n for n, b in enumerate(flow.blocks) if not found.isdisjoint(_deciding(flow.body[b.hi - 1]))}
        decided |= {n for n, by in enumerate(controllers) if not by.isdisjoint(asked | decided)}
        grown = len(found) + len(decided) > before
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Use:
    """Instruction ``k`` reads a register, ``name``. ``chosen``: the predicate that makes it count, as that of
    a ``selp`` does, and its value. ``decides``: a branch by which the next use finds one value or another, so
    that its register may be written between the two. ``part``: of so many equal parts, which one counts."""

    k: int
    name: str
    chosen: tuple[Operand, bool] | None = None
    decides: bool = False
    part: tuple[int, int] | None = None


class _MadeOf:
    """What values are made of. ``names``: the registers that may be made of one without a value."""

    def __init__(self, flow: Flow, names: frozenset[str]) -> None:
        self.flow, self.names = flow, names
        self.controllers = flow.controllers()

    def chains(self, k: int, name: str) -> Iterator[tuple[_Use, ...]]:
        """The uses that lead from a register that may have no value to an instruction, and that one's last.
        Where they part, only those before: these all have in common."""
        versions = self.flow.versions
        last = _Use(k, name)
        behind: dict[_Use, list[_Use]] = {last: []}
        work, unset = [last], list[_Use]()
        while work:
            use = work.pop()
            made, merges, open_ = _merged(self.flow, versions.read(use.name, use.k))
            if open_:
                unset.append(use)
            found = [u for v in made for u in self._written(versions.writer[v], use)]
            found += [u for v in merges for u in self._met(versions.block[v], versions.merged(v))]
            for before in dict.fromkeys(found):
                if before.name in self.names:
                    if before not in behind:
                        behind[before] = []
                        work.append(before)
                    behind[before].append(use)
        for use in unset:
            chain = [use]
            while len(behind[chain[-1]]) == 1 and behind[chain[-1]][0] not in chain:
                chain += behind[chain[-1]]
            yield tuple(chain)

    def _written(self, k: int, asked: _Use) -> Iterator[_Use]:
        i = self.flow.body[k]
        yield from _uses(i, k) if (found := _part_of(i, k, asked)) is None else found
        if i.guard is not None:
            yield _Use(k, i.guard.name)

    def _met(self, block: int, merged: Iterable[tuple[int, int]]) -> Iterator[_Use]:
        """What the branches ask that decide by which way a block is come to."""
        flow = self.flow
        found = {b for b, _ in merged if b >= 0}
        work = list(found)
        while work:
            new = self.controllers[work.pop()] - found
            found |= new
            work += new
        for b in found:
            k = flow.blocks[b].hi - 1
            ahead = flow.dominates(b, block) and b not in (block, flow.idom[block])
            if len(flow.blocks[b].succ) > 1 and not ahead:
                yield from (_Use(k, name, decides=True) for name in _deciding(flow.body[k]))


def _merged(flow: Flow, v: int) -> tuple[set[int], set[int], bool]:
    """The written versions that a version may be, those of blocks where paths meet, and whether it may be
    none."""
    versions, written, merges, unset = flow.versions, set[int](), set[int](), False
    work, seen = [v], {v}
    while work:
        v = work.pop()
        k = versions.writer[v]
        before = []
        if k >= 0:
            written.add(v)
            if flow.body[k].guard is not None:
                before = [versions.read(versions.name[v], k)]
        elif versions.is_unset(v):
            unset = True
        else:
            merges.add(v)
            before = [w for _, w in versions.merged(v)]
        work += [w for w in before if w not in seen]
        seen.update(before)
    return written, merges, unset


def _uses(i: Instr, k: int) -> Iterator[_Use]:
    """The registers that the result of an instruction is made of."""
    if not computes(i) or _constant(i):
        return
    joined = "and" in (i.op, *i.mods)
    if i.op in ("and", "or") and i.mods[-1] == "pred":  # one decides alone where it is false, or true
        a, b = i.operands[1:3]
        for x, other in ((a, b), (b, a)):
            yield from (_Use(k, r, (other, joined)) for r in registers(x))
        return
    if i.op == "setp" and len(i.operands) == 4 and {"and", "or"} & {*i.mods}:
        third = i.operands[3]
        yield from (_Use(k, r, (third, joined)) for x in i.operands[1:3] for r in registers(x))
        yield from (_Use(k, r) for r in registers(third))
        return
    if i.op == "selp":
        for op, value in zip(i.operands[1:3], (True, False), strict=True):
            yield from (_Use(k, r, (i.operands[3], value)) for r in registers(op))
        yield from (_Use(k, r) for r in registers(i.operands[3]))
        return
    for op in i.operands[1:]:
        yield from (_Use(k, r) for r in registers(op))
    if i.op in CARRIED:
        yield _Use(k, CARRY)


def _part_of(i: Instr, k: int, asked: _Use) -> list[_Use] | None:
    """The registers that one part of a result is made of, where others are not: halves that are put together,
    taken apart, copied or cut off; None for other instructions. ``asked``: who reads the result."""
    if i.op not in ("mov", "cvt") or len(i.operands) != 2:
        return None
    into, of = i.operands
    if isinstance(into, Vector) and isinstance(of, Reg) and i.op == "mov":
        at = [n for n, r in enumerate(into.items) if isinstance(r, Reg) and r.name == asked.name]
        return [_Use(k, of.name, part=(n, len(into.items))) for n in at] if asked.part is None else None
    if isinstance(of, Vector) and asked.part is not None and asked.part[1] == len(of.items) and i.op == "mov":
        return [_Use(k, r) for r in registers(of.items[asked.part[0]])]
    if isinstance(into, Reg) and isinstance(of, Reg) and i.op == "mov" and asked.part is not None:
        return [_Use(k, of.name, part=asked.part)]
    if isinstance(of, Reg) and i.op == "cvt" and asked.part is None and (n := _low_part(i)):
        return [_Use(k, of.name, part=(0, n))]
    return None


def _low_part(i: Instr) -> int:
    """Of how many parts a conversion takes the lowest; 0: it does something else."""
    if len(i.mods) != 2 or any(kind(m) not in ("u", "s", "b") for m in i.mods):
        return 0
    into, of = (width(m) for m in i.mods)
    return of // into if into < of else 0


def _constant(i: Instr) -> bool:
    """Whether the result is one number, whatever the operands are."""
    a, b = (*i.operands[1:3], None, None)[:2]
    if i.op in ("xor", "sub"):
        return isinstance(a, Reg) and a == b
    return i.op in ("and", "mul") and len(i.operands) == 3 and Imm(0) in (a, b)


class _Paths:
    """The paths from the start of a function through uses in their order, on which none of their registers is
    written before its use.

    A path is sought with nothing known of predicates at first. What contradicts itself on the one that is
    found is followed in the next search, until a path holds or there is none.
    """

    def __init__(self, truths: Truths, flags: Flags, chain: tuple[_Use, ...]) -> None:
        self.flow, self.chain = truths.flow, chain
        self.truths, self.flags = truths, flags
        self.matters = _compared(self.flow, self.truths, chain)
        self.leading = [_leading_to(self.flow, self.flow.block_of[use.k]) for use in chain]
        self.contradicts = set[int]()

    def exists(self, followed: set[int]) -> bool:
        """Whether there is one. ``followed``: what paths are known to need; more of it is added."""
        for _ in range(_MOST_FOLLOWED):
            path = self._path(followed)
            if path is None:
                return False
            more = self._contradiction(path) - followed if path else set[int]()
            if not more:
                return True
            followed |= more
        return True

    def _path(self, followed: set[int]) -> list[int] | None:
        """The blocks of a path; None if there is none, and no blocks where too many are looked at."""
        start: _State = (0, 0, Known({(ALWAYS, True)}), self.truths.everyone)
        before: dict[_State, _State | None] = {start: None}
        work = deque([start])
        while work and 0 in self.leading[0]:
            if len(before) > _MOST_STATES:
                return []
            here = work.popleft()
            for found in self._after(*here):
                if found is None:
                    return _blocks(here, before)
                state = (*found[:2], frozenset(x for x in found[2] if x[0] in followed), found[3])
                if state not in before:
                    before[state] = here
                    work.append(state)
        return None

    def _contradiction(self, path: list[int]) -> set[int]:
        """What the predicates of a path contradict each other by; nothing if they do not."""
        states: set[_State] = {(0, 0, Known({(ALWAYS, True)}), self.truths.everyone)}
        for after in (*path[1:], None):
            self.contradicts.clear()
            found = [x for state in states for x in self._after(*state)]
            if after is None and None in found:
                return set()
            states = {x for x in found if x is not None and x[0] == after}
            if not states:
                return {x for v in self.contradicts for x in self.flags.made_of(v)}
        return set()

    def _after(self, block: int, use: int, known: Known, who: bytes) -> Iterator[_State | None]:
        """The states behind a block; None: the last use is come to."""
        b = self.flow.blocks[block]
        states = [(use, known, who)]
        for k in range(b.lo, b.hi):
            if not states:
                return
            states = [s for state in states for s in self._executed(k, *state)]
            if any(use == len(self.chain) for use, _, _ in states):
                yield None
                return
        last = self.flow.body[b.hi - 1]
        for use, known, who in states:
            decided = len(b.succ) == 2 and last.guard is not None and b.succ[0] != b.succ[1]
            for n, succ in enumerate(b.succ):
                if succ not in self.leading[use]:
                    continue
                found: tuple[Known, bytes] | None = (known, who)
                if decided and last.guard is not None:
                    found = self._supposed(last.guard, b.hi - 1, known, who, holds=(n == 0) != last.negated)
                if found is not None:
                    yield succ, use, self._entered(block, succ, found[0]), found[1]

    def _executed(self, k: int, use: int, known: Known, who: bytes) -> Iterator[tuple[int, Known, bytes]]:
        """The states behind an instruction: it may be a use, and may write the register of one."""
        i, here = self.flow.body[k], self.chain[use]
        if here.k == k:
            found = self._read(here, i, known, who)
            if found is not None:
                yield use + 1, *self._written(k, *found)
        if here.name not in results(i) or (use and self.chain[use - 1].decides):
            yield use, *self._written(k, known, who)
        elif i.guard is not None:
            passed = self._supposed(i.guard, k, known, who, holds=i.negated)
            if passed is not None:
                yield use, *passed

    def _read(self, here: _Use, i: Instr, known: Known, who: bytes) -> tuple[Known, bytes] | None:
        found: tuple[Known, bytes] | None = (known, who)
        if i.guard is not None and i.guard.name != here.name:  # it is read whether it holds or not
            found = self._supposed(i.guard, here.k, known, who, holds=not i.negated)
        if found is not None and here.chosen is not None:
            found = self._supposed(here.chosen[0], here.k, *found, holds=here.chosen[1])
        return found

    def _supposed(
        self, p: Operand, k: int, known: Known, who: bytes, *, holds: bool
    ) -> tuple[Known, bytes] | None:
        """What is known where a predicate has a value; None where it cannot have it."""
        for v, truth, mask in self.truths.of(p, k, holds=holds):
            if (v, not truth) in known:
                self.contradicts.add(v)
                return None
            who = (np.frombuffer(who, dtype=np.bool_) & mask).tobytes() if mask is not None else who
            if v in self.matters:
                known |= {(v, truth)}
        return (known, who) if any(who) else None

    def _written(self, k: int, known: Known, who: bytes) -> tuple[Known, bytes]:
        made = {self.flow.versions.written(name, k) for name in results(self.flow.body[k])}
        gone = self._with_comparisons(made)
        kept = frozenset(x for x in known if x[0] not in gone)
        return kept | self.flags.made(k, known), who

    def _entered(self, before: int, block: int, known: Known) -> Known:
        """What is known where merges of a block are made again."""
        versions = self.flow.versions
        gone = self._with_comparisons(
            {v for v in self._held(known) if versions.writer[v] < 0 and versions.block[v] == block}
        )
        kept = frozenset(x for x in known if x[0] not in gone)
        return kept | self.flags.entering(before, block, known)

    def _held(self, known: Known) -> set[int]:
        """The versions of registers that something is known of."""
        return {v for v, _ in known if v >= 0} | set(self.truths.comparing)

    def _with_comparisons(self, made: set[int]) -> set[int]:
        """Versions that are made again, and what their comparisons with numbers are known by."""
        return made.union(*(self.truths.comparing.get(v, ()) for v in made))


#: A block, the number of the next use, what is known, and the threads that may be on the path.
_State = tuple[int, int, Known, bytes]


def _blocks(last: _State, before: dict[_State, _State | None]) -> list[int]:
    """The blocks on the way to a state."""
    found = list[int]()
    at: _State | None = last
    while at is not None:
        found.append(at[0])
        at = before[at]
    return found[::-1]


def _leading_to(flow: Flow, block: int) -> set[int]:
    """The blocks from which one may come to a block, and itself."""
    found, work = {block}, [block]
    while work:
        new = {p for p in flow.blocks[work.pop()].pred if p in flow.reached} - found
        found |= new
        work += new
    return found


def _asking(flow: Flow, truths: Truths, chain: tuple[_Use, ...]) -> Iterator[tuple[int, int]]:
    """The blocks whose branches, or guards of what a path looks at, ask a predicate; each with what it is."""
    names = {use.name for use in chain}
    at = {use.k for use in chain}
    for k, i in enumerate(flow.body):
        if flow.block_of[k] in flow.reached and i.guard is not None:
            if i.op in _BRANCHES or k in at or not names.isdisjoint(results(i)):
                yield from ((flow.block_of[k], v) for v in truths.either(i.guard, k))
    for use in chain:
        if use.chosen is not None:
            yield from ((flow.block_of[use.k], v) for v in truths.either(use.chosen[0], use.k))


def _compared(flow: Flow, truths: Truths, chain: tuple[_Use, ...]) -> frozenset[int]:
    """What is asked at several places: only this can contradict itself."""
    found = Counter(v for _, v in _asking(flow, truths, chain))
    return frozenset(v for v, n in found.items() if n > 1)


__all__ = ["UnsetPath", "unset_decisions", "unset_paths"]
