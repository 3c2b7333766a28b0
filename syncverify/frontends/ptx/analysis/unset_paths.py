"""Accesses whose address is made of a register that some path to them leaves without a value.

An example, where ``%p`` holds in some threads and not in others:

    @%p add.u64 %rd2, %rd0, %rd1;  ld.global.u32 %r1, [%rd2];

A path is a way through the blocks on which the register is not written. It counts unless the predicates of
its branches and guards contradict each other. One version of a predicate (``flow/ssa.py``) has one value
until it is written again. Of those that numbers of threads decide, some thread of the block must have all.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

import numpy as np

from syncverify.frontends.ptx.analysis.thread_values import ThreadValues
from syncverify.frontends.ptx.flow.control_flow import Flow, read_early
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Not, Operand, Reg
from syncverify.frontends.ptx.syntax.operands import registers, results, sources

#: States of the search for one path; beyond them it is taken to exist.
_MOST_STATES = 4000
_TESTS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_BRANCHES = ("bra", "ret", "exit", "brx")
#: Instructions whose result is made of all that they read.
_MADE_OF = frozenset(
    "add sub mul mad mul24 mad24 and or xor not neg abs min max shl shr shf bfe bfi prmt lop3 cvt cvta mov "
    "mapa selp rem div popc clz bfind brev sad".split()
)


@dataclass(frozen=True, slots=True)
class UnsetPath:
    """Instruction ``k`` accesses memory at an address that is made of ``register``."""

    k: int
    register: str


def unset_paths(flow: Flow, threads: ThreadValues) -> Iterator[UnsetPath]:
    """The accesses of a function that a path comes to without a value of a register in the address."""
    names = _reached_by(flow, read_early(flow))
    if not names:
        return
    for k, i in enumerate(flow.body):
        bases = [op.base for op in i.operands if isinstance(op, Mem)]
        mine = dict.fromkeys(r for base in bases for r in registers(base) if r in names)
        if not mine or flow.block_of[k] not in flow.reached:
            continue
        chains = (c for name in mine for c in _chains(flow, k, name))
        found = next((c for c in chains if _Paths(flow, threads, c).exists()), None)
        if found is not None:
            yield UnsetPath(k, found[0].name)


def _reached_by(flow: Flow, names: frozenset[str]) -> frozenset[str]:
    """The registers that some others may go into, and these."""
    found, grown = set(names), bool(names)
    while grown:
        more = {
            r for i in flow.body if i.op in _MADE_OF and not found.isdisjoint(sources(i)) for r in results(i)
        }
        grown = not more <= found
        found |= more
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Use:
    """Instruction ``k`` reads a register, ``name``. ``chosen``: the predicate of a ``selp`` that picks it,
    and its value."""

    k: int
    name: str
    chosen: tuple[Operand, bool] | None = None


def _chains(flow: Flow, k: int, name: str) -> Iterator[tuple[_Use, ...]]:
    """The uses that lead from a register that may have no value to the address of an access, that last."""
    versions = flow.versions
    work: list[tuple[_Use, ...]] = [(_Use(k, name),)]
    seen = {(k, name)}
    while work:
        chain = work.pop()
        made, unset = _merged(flow, versions.read(chain[0].name, chain[0].k))
        if unset:
            yield chain
        for v in made:
            at = versions.writer[v]
            for use in _uses(flow.body[at], at):
                if (use.k, use.name) not in seen:
                    seen.add((use.k, use.name))
                    work.append((use, *chain))


def _merged(flow: Flow, v: int) -> tuple[set[int], bool]:
    """The written versions that a version may be, and whether it may be none."""
    versions, written, unset = flow.versions, set[int](), False
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
            before = [w for _, w in versions.merged(v)]
        work += [w for w in before if w not in seen]
        seen.update(before)
    return written, unset


def _uses(i: Instr, k: int) -> Iterator[_Use]:
    """The registers that the result of an instruction is made of."""
    if i.op not in _MADE_OF or _constant(i):
        return
    if i.op == "selp":
        for op, value in zip(i.operands[1:3], (True, False), strict=True):
            yield from (_Use(k, r, (i.operands[3], value)) for r in registers(op))
        return
    for op in i.operands[1:]:
        yield from (_Use(k, r) for r in registers(op))


def _constant(i: Instr) -> bool:
    """Whether the result is one number, whatever the operands are."""
    a, b = (*i.operands[1:3], None, None)[:2]
    if i.op in ("xor", "sub"):
        return isinstance(a, Reg) and a == b
    return i.op in ("and", "mul") and len(i.operands) == 3 and Imm(0) in (a, b)


#: What is known on a path: versions and their values.
_Known = frozenset[tuple[int, int]]


class _Paths:
    """The paths from the start of a function through uses in their order, on which none of their registers is
    written before its use."""

    def __init__(self, flow: Flow, threads: ThreadValues, chain: tuple[_Use, ...]) -> None:
        self.flow, self.chain = flow, chain
        self.truths = _Truths(flow, threads)
        self.counters = _Counters(flow)
        self.matters = _compared(flow, self.truths, chain)

    def exists(self) -> bool:
        start = (0, 0, _Known(), self.truths.everyone)
        work, seen = [start], {start}
        while work:
            if len(seen) > _MOST_STATES:
                return True
            for state in self._after(*work.pop()):
                if state is None:
                    return True
                if state not in seen:
                    seen.add(state)
                    work.append(state)
        return False

    def _after(
        self, block: int, use: int, known: _Known, who: bytes
    ) -> Iterator[tuple[int, int, _Known, bytes] | None]:
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
                if succ == self.flow.end:
                    continue
                found: tuple[_Known, bytes] | None = (known, who)
                if decided and last.guard is not None:
                    found = self._supposed(last.guard, b.hi - 1, known, who, holds=(n == 0) != last.negated)
                if found is not None:
                    yield succ, use, self._entered(block, succ, found[0]), found[1]

    def _executed(self, k: int, use: int, known: _Known, who: bytes) -> Iterator[tuple[int, _Known, bytes]]:
        """The states behind an instruction: it may be a use, and may write the register of one."""
        i, here = self.flow.body[k], self.chain[use]
        if here.k == k:
            found = self._read(here, i, known, who)
            if found is not None:
                yield use + 1, *self._written(k, *found)
        if here.name not in results(i):
            yield use, *self._written(k, known, who)
        elif i.guard is not None:
            passed = self._supposed(i.guard, k, known, who, holds=i.negated)
            if passed is not None:
                yield use, *passed

    def _read(self, here: _Use, i: Instr, known: _Known, who: bytes) -> tuple[_Known, bytes] | None:
        found: tuple[_Known, bytes] | None = (known, who)
        if i.guard is not None:
            found = self._supposed(i.guard, here.k, known, who, holds=not i.negated)
        if found is not None and here.chosen is not None:
            found = self._supposed(here.chosen[0], here.k, *found, holds=here.chosen[1])
        return found

    def _supposed(
        self, p: Operand, k: int, known: _Known, who: bytes, *, holds: bool
    ) -> tuple[_Known, bytes] | None:
        """What is known where a predicate has a value; None where it cannot have it."""
        for v, truth, mask in self.truths.of(p, k, holds=holds):
            if (v, not truth) in known:
                return None
            who = (np.frombuffer(who, dtype=np.bool_) & mask).tobytes() if mask is not None else who
            if v in self.matters:
                known |= {(v, truth)}
        return (known, who) if any(who) else None

    def _written(self, k: int, known: _Known, who: bytes) -> tuple[_Known, bytes]:
        made = {self.flow.versions.written(name, k) for name in results(self.flow.body[k])}
        kept = frozenset(x for x in known if x[0] not in made)
        test = self.counters.tests.get(k)
        return kept | test(known) if test is not None else kept, who

    def _entered(self, before: int, block: int, known: _Known) -> _Known:
        """What is known where merges of a block are made again."""
        versions = self.flow.versions
        kept = frozenset(x for x in known if versions.writer[x[0]] >= 0 or versions.block[x[0]] != block)
        return kept | self.counters.entering.get((before, block), frozenset())


class _Counters:
    """Numbers that merges have on some edges, and what they are compared with: 0 in a loop's first turn."""

    def __init__(self, flow: Flow) -> None:
        versions = flow.versions
        self.entering: dict[tuple[int, int], _Known] = {}
        self.tests: dict[int, Callable[[_Known], _Known]] = {}
        for k, i in enumerate(flow.body):
            if flow.block_of[k] not in flow.reached or i.op != "setp" or len(i.mods) != 2:
                continue
            d, a, b = i.operands[:3]
            test = _TESTS.get(i.mods[0])
            if test is None or not (isinstance(d, Reg) and isinstance(a, Reg) and _small(b)):
                continue
            merge = versions.read(a.name, k)
            for before, v in versions.merged(merge):
                number = _number(flow, v)
                if number is not None:
                    at = before, versions.block[merge]
                    self.entering[at] = self.entering.get(at, frozenset()) | {(merge, number)}
                    self.tests[k] = partial(_tested, versions.written(d.name, k), merge, test, b.value)


def _tested(result: int, merge: int, test: Callable[[int, int], bool], bound: int, known: _Known) -> _Known:
    """What a comparison of a merge brings, if its number is known."""
    return frozenset((result, int(test(number, bound))) for v, number in known if v == merge)


def _small(x: Operand) -> TypeGuard[Imm]:
    """Whether an operand is a number that is the same with a sign and without."""
    return isinstance(x, Imm) and 0 <= x.value < 1 << 15


def _number(flow: Flow, v: int) -> int | None:
    """The number that a version is."""
    k = flow.versions.writer[v]
    i = flow.body[k] if k >= 0 else None
    if i is None or i.op != "mov" or i.guard is not None or not _small(i.operands[1]):
        return None
    return i.operands[1].value


class _Truths:
    """What versions of predicates must be, where a predicate has a value."""

    def __init__(self, flow: Flow, threads: ThreadValues) -> None:
        self.flow, self.threads = flow, threads
        self.everyone = np.ones(threads.threads, dtype=np.bool_).tobytes()

    def of(self, p: Operand, k: int, *, holds: bool) -> Iterator[tuple[int, bool, np.ndarray | None]]:
        """By version its value, and the threads in which it has that, if their numbers decide."""
        if isinstance(p, Not):
            p, holds = p.reg, not holds
        if not isinstance(p, Reg):
            return
        v = self.flow.versions.read(p.name, k)
        at = self.flow.versions.writer[v]
        mine = self.threads.of_version(v)
        yield v, holds, None if mine is None else (mine & np.uint64(1)).astype(np.bool_) == holds
        i = self.flow.body[at] if at >= 0 else None
        if i is None or i.guard is not None:
            return
        if i.op in ("and", "or") and i.mods[-1] == "pred" and holds == (i.op == "and"):
            for x in i.operands[1:]:
                yield from self.of(x, at, holds=holds)
        elif i.op in ("mov", "not") and i.mods[-1] == "pred":
            yield from self.of(i.operands[1], at, holds=holds == (i.op == "mov"))
        elif i.op == "setp" and i.operands[0] == p and holds == ("and" in i.mods) and len(i.operands) == 4:
            if {"and", "or"} & {*i.mods}:
                yield from self.of(i.operands[3], at, holds=holds)


def _compared(flow: Flow, truths: _Truths, chain: tuple[_Use, ...]) -> frozenset[int]:
    """The versions of predicates that decide at several places: only these can contradict each other."""
    names = {use.name for use in chain}
    at = {use.k for use in chain}
    found: Counter[int] = Counter()
    for k, i in enumerate(flow.body):
        if flow.block_of[k] not in flow.reached:
            continue
        if i.guard is not None and (i.op in _BRANCHES or k in at or not names.isdisjoint(results(i))):
            found.update({v for value in (True, False) for v, _, _ in truths.of(i.guard, k, holds=value)})
    for p, k in ((use.chosen[0], use.k) for use in chain if use.chosen is not None):
        found.update({v for value in (True, False) for v, _, _ in truths.of(p, k, holds=value)})
    return frozenset(v for v, n in found.items() if n > 1)


__all__ = ["UnsetPath", "unset_paths"]
