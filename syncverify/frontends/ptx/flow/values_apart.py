"""A name of its own for each value that shares a register with others.

A register may hold one thing after another: hand-written text uses few of them, and a compiler that has
allocated them does so everywhere. What looks at registers by their names would take these values for one.

An example: ``ld r, [x]; and r, r, 2; setp p, r, 0`` becomes ``ld r, [x]; and r~2, r, 2; setp p, r~2, 0``.

**Why that changes nothing.** Versions of a register that some instruction may read as one stay together: what
a block merges, and what a guarded write may leave. A register of an asynchronous operation (``wgmma``,
``tcgen05``) keeps its name, for what is written to it meanwhile is a hazard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.ssa import Versions
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem, Not, Operand, Pair, Reg, Vector
from syncverify.frontends.ptx.syntax.operands import registers, results, sources

_ASYNCHRONOUS = ("wgmma", "tcgen05")


def with_values_apart(f: Function) -> Function:
    """The function, in which a register that holds several values is one register for each."""
    if not f.body:
        return f
    flow = Flow(f)
    shared = _written_again(flow)
    if not shared:
        return f
    values = _Values(flow, shared)
    body = list(f.body)
    for k in _reached(flow):
        i = body[k]
        if not shared.isdisjoint((*results(i), *sources(i))):
            body[k] = _renamed(i, partial(values.read, k), partial(values.written, k))
    types = {new: f.registers[old] for new, old in values.made.items() if old in f.registers}
    return replace(f, body=tuple(body), registers={**f.registers, **types})


def _reached(flow: Flow) -> list[int]:
    return [k for n in sorted(flow.reached) for k in range(flow.blocks[n].lo, flow.blocks[n].hi)]


def _written_again(flow: Flow) -> frozenset[str]:
    """Registers that several instructions write, and no asynchronous operation uses."""
    writers: dict[str, int] = {}
    kept = set[str]()
    for k in _reached(flow):
        i = flow.body[k]
        for name in set(results(i)):
            writers[name] = writers.get(name, 0) + 1
        if i.op in _ASYNCHRONOUS:
            kept.update(name for op in i.operands for name in registers(op))
    return frozenset(name for name, n in writers.items() if n > 1) - kept


class _Values:
    """The values of some registers: versions that are read as one. The first in the text keeps the name."""

    def __init__(self, flow: Flow, shared: frozenset[str]) -> None:
        self.versions: Versions = flow.versions
        self.head: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.made: dict[str, str] = {}  # new name -> old one
        self.count: dict[str, int] = {}
        self.shared = shared
        seen = set[int]()
        for k in _reached(flow):
            i = flow.body[k]
            for name in shared.intersection(sources(i)):
                self._join_merged(self.versions.read(name, k), seen)
            if i.guard is not None:
                for name in shared.intersection(results(i)):
                    before = self.versions.read(name, k)
                    self._join(self.versions.written(name, k), before)
                    self._join_merged(before, seen)

    def read(self, k: int, name: str) -> str:
        return self._named(name, self.versions.read(name, k)) if name in self.shared else name

    def written(self, k: int, name: str) -> str:
        return self._named(name, self.versions.written(name, k)) if name in self.shared else name

    def _named(self, name: str, version: int) -> str:
        head = self._find(version)
        if head not in self.names:
            n = self.count[name] = self.count.get(name, 0) + 1
            new = self.names[head] = name if n == 1 else f"{name}~{n}"
            if n > 1:
                self.made[new] = name
        return self.names[head]

    def _join_merged(self, version: int, seen: set[int]) -> None:
        """Joins what a version merges, and what that merges."""
        work = [version]
        while work:
            v = work.pop()
            if v in seen:
                continue
            seen.add(v)
            for _, x in self.versions.merged(v):
                self._join(v, x)
                work.append(x)

    def _find(self, v: int) -> int:
        while self.head.get(v, v) != v:
            v = self.head[v]
        return v

    def _join(self, v: int, other: int) -> None:
        self.head[self._find(v)] = self._find(other)


def _renamed(i: Instr, read: Callable[[str], str], written: Callable[[str], str]) -> Instr:
    """An instruction with other registers where it reads and where it writes them."""
    first = written if results(i) else read
    operands = tuple(_named(op, read if n else first) for n, op in enumerate(i.operands))
    guard = i.guard if i.guard is None else Reg(read(i.guard.name))
    return replace(i, operands=operands, guard=guard)


def _named(op: Operand, name: Callable[[str], str]) -> Operand:
    match op:
        case Reg(old):
            return replace(op, name=name(old))
        case Mem(base, _, coords):
            return replace(op, base=_named(base, name), coords=tuple(_named(x, name) for x in coords))
        case Vector(items):
            return Vector(tuple(_named(x, name) for x in items))
        case Not(reg):
            return Not(replace(reg, name=name(reg.name)))
        case Pair(first, second):
            return Pair(_named(first, name), _named(second, name))
    return op


__all__ = ["with_values_apart"]
