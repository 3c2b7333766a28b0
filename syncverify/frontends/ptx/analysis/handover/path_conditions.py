"""What is known on one path through a function: values of predicates, and of registers that are flags.

A branch that is taken tells the value of its predicate, until that is written again. Two predicates that
compare one word of the launch's parameters with one number have one value on every path. So have those that
compare one version of a register with one number, until that version is made again. A flag is a register into
which a path puts a number that the text or the launch gives: what compares it afterwards is known there.

    ld.param.u64 %rd1, [k+8];  setp.ne.s64 %p1, %rd1, 0;  mov.u16 %f, 0;  @%p1 bra J;  mov.u16 %f, 1;
    J:  ld.param.u64 %rd2, [k+8];  setp.eq.s64 %p2, %rd2, 0;  setp.eq.s16 %p3, %f, 0;

Whoever jumps to ``J`` has ``%p2`` false and ``%p3`` true there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeGuard

import numpy as np

from syncverify.frontends.ptx.analysis.handover.handover_detection import in_parameter
from syncverify.frontends.ptx.analysis.registers.thread_values import Numbers, ThreadValues, as_type, cut
from syncverify.frontends.ptx.flow.control_flow import Flow, read_early
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Not, Operand, Reg
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.ir.launch_grid import Dims

#: What is known on a path: versions of registers, or comparisons of parameters (below 0), and their values.
Known = frozenset[tuple[int, int]]
_TESTS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
#: The comparison that one is, or whose opposite it is.
_SAME = {"eq": ("eq", True), "ne": ("eq", False), "lt": ("lt", True), "ge": ("lt", False), "le": ("le", True),
         "gt": ("le", False)}  # fmt: skip


#: The number of a parameter's bytes, by its name, their offset and count; None: the launch gives none.
Number = Callable[[str, int, int], int | None]
#: What is known by this holds on every path.
ALWAYS = -1


#: What an operand is known by: a number, a word of a parameter by its name and offset, or a version.
_Fixed = tuple[int] | tuple[str, int] | tuple[None, int]
#: A test, its type, and what it compares.
_Comparison = tuple[str, int | str, _Fixed, _Fixed]


def _no_number(_name: str, _offset: int, _size: int) -> int | None:
    return None


class LaunchValues(ThreadValues):
    """The values of registers in a block, where the launch's parameters are numbers too."""

    def __init__(self, flow: Flow, block: Dims, number: Number) -> None:
        super().__init__(flow, block)
        self.number = number

    def _made(self, i: Instr, k: int, known: dict[int, Numbers | None]) -> Numbers | None:
        into, place = (*i.operands[:2], None, None)[:2]
        if i.op != "ld" or i.guard is not None or len(i.mods) != 2 or i.mods[0] != "param":
            return super()._made(i, k, known)
        if not isinstance(into, Reg) or not isinstance(place, Mem) or kind(i.mods[1]) not in ("u", "s", "b"):
            return None
        found, bits = in_parameter(self.flow, k, place), width(i.mods[1])
        number = None if found is None else self.number(*found, bits // 8)
        if number is None:
            return None
        held = width(self.flow.function.registers.get(into.name, i.mods[1]))
        return cut(as_type(self.all(number), i.mods[1]), max(held, bits))


class Truths:
    """What versions of predicates must be, where a predicate has a value."""

    def __init__(self, flow: Flow, threads: ThreadValues, number: Number = _no_number) -> None:
        self.flow, self.threads, self.number = flow, threads, number
        self.everyone = np.ones(threads.threads, dtype=np.bool_).tobytes()
        self._early = read_early(flow)
        self._compared: dict[_Comparison, int] = {}
        self._keys: dict[int, tuple[int, bool]] = {}
        #: by version, what its comparisons with numbers are known by
        self.comparing: dict[int, set[int]] = {}

    def of(self, p: Operand, k: int, *, holds: bool) -> Iterator[tuple[int, bool, np.ndarray | None]]:
        """By version, or comparison, its value, and the threads in which it has that, if their numbers
        decide."""
        if isinstance(p, Not):
            p, holds = p.reg, not holds
        if not isinstance(p, Reg):
            return
        v = self.flow.versions.read(p.name, k)
        at = self.flow.versions.writer[v]
        mine = self.threads.of_version(v)
        key, same = self._key(v)
        yield key, holds == same, None if mine is None else (mine & np.uint64(1)).astype(np.bool_) == holds
        if key != v:
            yield v, holds, None  # flags may give it
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
        elif i.op == "setp" and i.operands[0] == p and len(i.mods) == 2:
            yield from self._of_choice(i, at, holds=holds)

    def _of_choice(self, i: Instr, k: int, *, holds: bool) -> Iterator[tuple[int, bool, np.ndarray | None]]:
        """What a comparison says of the predicate that chooses one of two numbers, which it compares."""
        steps = list[Callable[[int], int | None]]()
        while True:
            step = _step(i) if i.guard is None else None
            if step is None:
                break
            source, make = step
            steps.append(make)
            k = self.flow.versions.writer[self.flow.versions.read(source.name, k)]
            if k < 0:
                return
            i = self.flow.body[k]
        if i.op != "selp" or i.guard is not None or not steps:
            return
        answers = [_through(steps[::-1], x.value) if _small(x) else None for x in i.operands[1:3]]
        if None not in answers and answers[0] != answers[1]:
            yield from self.of(i.operands[3], k, holds=holds == bool(answers[0]))

    def either(self, p: Operand, k: int) -> set[int]:
        """The versions and comparisons that a predicate tells of, by one value or the other."""
        return {v for value in (True, False) for v, _, _ in self.of(p, k, holds=value)}

    def _key(self, v: int) -> tuple[int, bool]:
        """What a version of a predicate is known by, and whether it has that value or the opposite one."""
        if v not in self._keys:
            found = self._comparison(v)
            if found is None:
                self._keys[v] = v, True
            else:
                what, same = found
                key = ALWAYS if what is None else self._compared.setdefault(what, -2 - len(self._compared))
                for x in what[2:] if what is not None else ():
                    if x[0] is None:
                        self.comparing.setdefault(x[1], set()).add(key)
                self._keys[v] = key, same
        return self._keys[v]

    def _comparison(self, v: int) -> tuple[_Comparison | None, bool] | None:
        """The comparison of parameters and numbers that a version is the result of, or its opposite. Without
        a parameter whose number is open: whether it holds."""
        k = self.flow.versions.writer[v]
        i = self.flow.body[k] if k >= 0 else None
        if i is None or i.op != "setp" or i.guard is not None or len(i.mods) != 2 or i.mods[0] not in _SAME:
            return None
        if not isinstance(i.operands[0], Reg) or kind(i.mods[1]) not in ("u", "s", "b"):
            return None
        a: _Fixed | None
        a, b = (self._fixed(x, k, width(i.mods[1])) for x in i.operands[1:3])
        if a is None and b is not None and isinstance(i.operands[1], Reg):
            a = self._version(i.operands[1].name, k)
        if a is None or b is None:
            return None
        name, same = _SAME[i.mods[0]]
        numbers = [_as(x[0], i.mods[1]) for x in (a, b) if isinstance(x[0], int)]
        if len(numbers) == 2:
            return None, _TESTS[i.mods[0]](*numbers)
        return (name, width(i.mods[1]) if name == "eq" else i.mods[1], a, b), same

    def _version(self, name: str, k: int) -> tuple[None, int] | None:
        """The version of a register that holds one number until it is made again; one without a value may
        hold another at each read."""
        return None if name in self._early else (None, self.flow.versions.read(name, k))

    def _fixed(self, op: Operand, k: int, bits: int) -> _Fixed | None:
        """What an operand is in every thread at all times: a number, or a word of the parameters."""
        if isinstance(op, Imm):
            return (op.value & (1 << bits) - 1,)
        at = self.flow.versions.writer[self.flow.versions.read(op.name, k)] if isinstance(op, Reg) else -1
        i = self.flow.body[at] if at >= 0 else None
        if i is None or i.guard is not None:
            return None
        if i.op == "mov" and isinstance(i.operands[1], Imm) and width(i.mods[-1]) == bits:
            return self._fixed(i.operands[1], at, bits)
        place = i.operands[1] if i.op == "ld" and len(i.mods) == 2 and i.mods[0] == "param" else None
        if not isinstance(place, Mem) or not isinstance(i.operands[0], Reg) or width(i.mods[1]) != bits:
            return None
        found = in_parameter(self.flow, at, place)
        number = None if found is None else self.number(*found, bits // 8)
        return found if number is None else (number & (1 << bits) - 1,)


class Flags:
    """Numbers that merges have on some edges, and what is made of them: 0 in a loop's first turn."""

    def __init__(self, flow: Flow, threads: ThreadValues) -> None:
        self.flow, self.threads = flow, threads
        #: by instruction its result, what that is made of, and how
        self._steps: dict[int, tuple[int, int, Callable[[int], int | None]]] = {}
        self._merges: dict[int, list[int]] = {}
        self._sources: dict[int, set[int]] = {}
        for k, i in enumerate(flow.body):
            into = i.operands[0] if i.operands and flow.block_of[k] in flow.reached else None
            step = _step(i) if isinstance(into, Reg) and i.guard is None else None
            if step is not None and isinstance(into, Reg):
                source, make = step
                self._steps[k] = flow.versions.written(into.name, k), flow.versions.read(source.name, k), make
        self._follow([made for k, (made, _, _) in self._steps.items() if flow.body[k].op == "setp"])

    def _follow(self, work: list[int]) -> None:
        """The merges that have numbers, among some and those that come into them."""
        versions, users, numbered = self.flow.versions, dict[int, set[int]](), list[int]()
        seen = set(work)
        while work:
            v = work.pop()
            made = self._steps.get(versions.writer[v])
            for x in [made[1]] if made is not None else [x for _, x in versions.merged(v)]:
                users.setdefault(x, set()).add(v)
                self._sources.setdefault(v, set()).add(x)
                if x not in seen:
                    seen.add(x)
                    work.append(x)
            if self._number(v) is not None:
                numbered.append(v)
        found = set[int]()
        while numbered:
            for v in users.get(numbered.pop(), set()) - found:
                found.add(v)
                numbered.append(v)
        for v in sorted(found):
            if versions.writer[v] < 0:
                self._merges.setdefault(versions.block[v], []).append(v)

    def entering(self, before: int, block: int, known: Known) -> Known:
        """The numbers of a block's merges where a path comes from another block."""
        if block not in self._merges:
            return Known()
        numbers, found = dict(known), set[tuple[int, int]]()
        for merge in self._merges[block]:
            for b, v in self.flow.versions.merged(merge):
                number = self._number(v) if b == before else None
                if b == before and number is None:
                    number = numbers.get(v)
                if number is not None:
                    found.add((merge, number))
        return frozenset(found)

    def _number(self, v: int) -> int | None:
        """The number that a version is in all threads."""
        found = self.threads.of_version(v)
        if found is None or np.any(found != found[0]) or not 0 <= found[0] < 1 << 15:
            return None
        return int(found[0])

    def made_of(self, v: int) -> set[int]:
        """A version, and those that its number is made of."""
        found, work = {v}, [v]
        while work:
            new = self._sources.get(work.pop(), set()) - found
            found |= new
            work += new
        return found

    def made(self, k: int, known: Known) -> Known:
        """What an instruction brings where the number that it takes is known."""
        if k not in self._steps:
            return Known()
        result, source, make = self._steps[k]
        made = {(result, make(number)) for v, number in known if v == source}
        return frozenset((v, number) for v, number in made if number is not None)


def _step(i: Instr) -> tuple[Reg, Callable[[int], int | None]] | None:
    """The register of which an instruction makes a number, with numbers of the text alone, and how."""
    a, b = (*i.operands[1:3], None, None)[:2]
    if not isinstance(a, Reg) or not i.mods or kind(i.mods[-1]) not in ("u", "s", "b"):
        return None
    if i.op == "setp" and len(i.mods) == 2 and i.mods[0] in _TESTS and _small(b):
        return a, partial(_tested, _TESTS[i.mods[0]], b.value)
    if i.op == "and" and _small(b):
        return a, b.value.__and__
    if i.op in ("mov", "cvt") and len(i.mods) in (1, 2) and all(kind(m) in ("u", "s", "b") for m in i.mods):
        return a, _kept
    return None


def _tested(test: Callable[[int, int], bool], bound: int, number: int) -> int:
    return int(test(number, bound))


def _kept(number: int) -> int | None:
    """A number in any other type."""
    return number if number < 1 << 7 else None


def _as(number: int, type_: str) -> int:
    """A number of so many bits as one of a type."""
    low = kind(type_) == "s" and number >> (width(type_) - 1)
    return number - (1 << width(type_)) if low else number


def _small(x: Operand | None) -> TypeGuard[Imm]:
    """Whether an operand is a number that is the same with a sign and without."""
    return isinstance(x, Imm) and 0 <= x.value < 1 << 15


def _through(steps: Sequence[Callable[[int], int | None]], number: int) -> int | None:
    """What some steps make of a number."""
    found: int | None = number
    for step in steps:
        found = None if found is None else step(found)
    return found


__all__ = ["ALWAYS", "Flags", "Known", "LaunchValues", "Number", "Truths"]
