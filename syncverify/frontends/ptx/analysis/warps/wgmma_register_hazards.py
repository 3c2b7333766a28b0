"""Where instructions other than wgmma touch the registers of a wgmma too early.

Compilers copy accumulators from register to register with ``mov`` at will, also while a wgmma is in flight:
that renames them and touches nothing. So registers are followed through copies along all paths. Of every
other instruction it is known then whether it may read or write the registers of a wgmma that no wait covers,
or touch what a wgmma takes without a fence between (a read asks for the fence as a write does: PTX ISA,
wgmma.fence). Only those instructions get events; the checker judges them in the run. Nearly all kernels have
none.

A ``mov`` into a register of a wgmma in flight overwrites what the wgmma still uses, unless it brings back the
accumulator itself. The text forbids it; an assembler that gives the new value a register of its own makes it
harmless. It is contested (K25) and has an event that says so.

Between a fence and a wgmma no instruction may access what that takes, and no other wgmma but one of the same
shape that accumulates in the same registers (PTX ISA, wgmma.fence). A ``mov`` behind the fence is contested
too: nvcc moves constants there, and the assembler sees who defines an accumulator.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from syncverify.frontends.ptx.decode.matrix import Matrices, matrices
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Reg
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.model.events import MOVED, PLACED, TAKEN, Ev

#: Groups older than any wait leaves pending are all alike (PTX ISA, wgmma.wait_group: N is a small constant).
_OLDEST = 64

T = TypeVar("T")

#: An event and its fragment; a third part, MOVED, PLACED or TAKEN, says how it is written.
Touch = tuple[Ev, str] | tuple[Ev, str, int]
FragmentEvents = Mapping[int, tuple[Touch, ...]]


@dataclass(slots=True)
class _State:
    """Per register, what may hold on some path to here.

    ``flight``: fragment -> age of the youngest wgmma in flight that owns the register as its accumulator (0:
    not committed, n: in the n-th newest group); ``held``: the same as its A operand; ``dirty``: instructions
    that touched it since the last fence, ``k`` where it was written and ``~k`` where it was read; ``placed``:
    the copies into it and the wgmmas that took it since then, each as the instruction whose event tells of it
    and how it was taken; ``same``: registers whose value it is a copy of, still in them.
    """

    flight: dict[str, dict[str, int]] = field(default_factory=dict)
    held: dict[str, dict[str, int]] = field(default_factory=dict)
    dirty: dict[str, frozenset[int]] = field(default_factory=dict)
    placed: dict[str, frozenset[tuple[int, str]]] = field(default_factory=dict)
    same: dict[str, frozenset[str]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(
            {r: dict(v) for r, v in self.flight.items()},
            {r: dict(v) for r, v in self.held.items()},
            dict(self.dirty),
            dict(self.placed),
            dict(self.same),
        )

    def join(self, other: _State) -> bool:
        """Adds what another path brings; true if that is news."""
        news = False
        for mine, theirs in ((self.flight, other.flight), (self.held, other.held)):
            for r, ages in theirs.items():
                here = mine.setdefault(r, {})
                for name, age in ages.items():
                    if here.get(name, _OLDEST + 1) > age:
                        here[name] = age
                        news = True
        news |= _joined(self.dirty, other.dirty) | _joined(self.placed, other.placed)
        return _joined(self.same, other.same) | news

    def commit(self) -> None:
        for table in (self.flight, self.held):
            for ages in table.values():
                for name, age in ages.items():
                    ages[name] = min(age + 1, _OLDEST)

    def wait(self, pending: int) -> None:
        for table in (self.flight, self.held):
            for r, ages in list(table.items()):
                left = {name: age for name, age in ages.items() if not age or age <= pending}
                if left:
                    table[r] = left
                else:
                    del table[r]


#: How a register is taken, besides as an accumulator of a shape.
_COPY, _OPERAND = "mov", "A"


def _place(state: _State, register: str, k: int, how: str, *, perhaps: bool) -> None:
    """``perhaps``: it is not known to be executed, so what was there may stay."""
    before = state.placed.get(register, frozenset()) if perhaps else frozenset()
    state.placed[register] = before | {(k, how)}


def _joined(mine: dict[str, frozenset[T]], theirs: Mapping[str, frozenset[T]]) -> bool:
    """Adds to each register's set what the other path has in it; true if that is news."""
    news = False
    for r, more in theirs.items():
        old = mine.get(r, frozenset())
        if not more <= old:
            mine[r] = old | more
            news = True
    return news


def fragment_events(function: Function, flow: Flow | None = None) -> FragmentEvents:
    """Per number of an instruction: the events that come before it, with names of fragments."""
    if not any(i.op == "wgmma" and i.mods[:1] == ("mma_async",) for i in function.body):
        return {}
    return _Analysis(function, flow or Flow(function)).run()


class _Analysis:
    """A forward data-flow analysis over the blocks."""

    def __init__(self, function: Function, flow: Flow) -> None:
        self.body = function.body
        self.flow = flow
        self.found: dict[int, dict[Touch, None]] = {}
        self.sizes: dict[str, set[int]] = {}  # how many registers accumulators have that start with one
        self.owned: dict[str, set[str]] = {}  # by fragment, the registers that wgmmas name
        copies = [(d, s) for i in self.body if i.op == "mov" for d, s in copied(i)]
        takes: set[str] = set()
        owns: set[str] = set()
        for i in self.body:
            m = matrices(i) if i.op == "wgmma" and i.mods[:1] == ("mma_async",) else None
            if m is not None:
                owns.update(r.name for r in m.acc)
                takes.update(r.name for r in (*m.acc, *m.a_registers))
                for some in (m.acc, m.a_registers):
                    if some:
                        self.owned.setdefault(some[0].name, set()).update(r.name for r in some)
        #: registers that a wgmma takes, through copies, and those that hold what it produced
        self.taken = _closure(takes, ((s, d) for d, s in copies))
        self.named = frozenset(takes)
        self.tracked = self.taken | _closure(owns, copies)
        self.steps = {b: self._relevant(lo.lo, lo.hi) for b, lo in enumerate(flow.blocks)}

    def _relevant(self, lo: int, hi: int) -> list[int]:
        out = []
        for k in range(lo, hi):
            i = self.body[k]
            if i.op == "wgmma" or not self.tracked.isdisjoint(results(i) + sources(i)):
                out.append(k)
        return out

    def run(self) -> FragmentEvents:
        entry: dict[int, _State] = {0: _State()}
        work = deque([0])
        while work:
            b = work.popleft()
            if b == self.flow.end:
                continue
            state = entry[b].copy()
            for k in self.steps[b]:
                self._step(state, k)
            for s in self.flow.blocks[b].succ:
                if s not in entry:
                    entry[s] = state.copy()
                elif not entry[s].join(state):
                    continue
                if s not in work:
                    work.append(s)
        return {k: tuple(events) for k, events in sorted(self.found.items())}

    def _step(self, state: _State, k: int) -> None:
        i = self.body[k]
        if i.op == "wgmma":
            self._wgmma(state, k, i)
        elif i.op == "mov":
            self._copy(state, k, i)
        else:
            self._other(state, k, i)

    def _copy(self, state: _State, k: int, i: Instr) -> None:
        self._overwritten(state, k, i)
        for d in self.named.intersection(results(i)):
            _place(state, d, k, _COPY, perhaps=i.guard is not None)
        flight: dict[str, dict[str, int]] = {}
        dirty: dict[str, frozenset[int]] = {}
        same: dict[str, frozenset[str]] = {}
        for d, s in copied(i):
            if s in state.flight:
                flight.setdefault(d, {}).update(state.flight[s])
            if s in state.dirty and d in self.taken:
                dirty[d] = dirty.get(d, frozenset()) | state.dirty[s]
            same[d] = same.get(d, frozenset()) | state.same.get(s, frozenset()) | ({s} & self.taken)
        for d in results(i):
            if i.guard is not None:  # the old value may stay
                for name, age in state.flight.get(d, {}).items():
                    new = flight.setdefault(d, {})
                    new[name] = min(age, new.get(name, age))
                if d in state.dirty:
                    dirty[d] = dirty.get(d, frozenset()) | state.dirty[d]
                same[d] = same.get(d, frozenset()) | state.same.get(d, frozenset())
            state.flight.pop(d, None)
            state.dirty.pop(d, None)
            if i.guard is None:
                state.held.pop(d, None)
        if i.guard is None:
            _renewed(state, results(i))
        state.flight |= flight
        state.dirty |= dirty
        state.same |= {d: found - {d} for d, found in same.items() if found - {d}}

    def _overwritten(self, state: _State, k: int, i: Instr) -> None:
        """What a ``mov`` writes over, but for values of the very wgmma that owns the register."""
        brought: dict[str, set[str]] = {}
        for d, s in copied(i):
            brought.setdefault(d, set()).update(state.flight.get(s, ()))
        for d in results(i):
            owners = {**state.flight.get(d, {}), **state.held.get(d, {})}
            for name in owners.keys() - brought.get(d, set()):
                if d in self.owned.get(name, ()):
                    self.found.setdefault(k, {})[Ev.FRAG_WRITE, name, MOVED] = None

    def _wgmma(self, state: _State, k: int, i: Instr) -> None:
        if i.guard is not None and i.mods[0] != "mma_async":
            return  # it may not be executed
        match i.mods[0]:
            case "fence":
                state.dirty.clear()
                state.placed.clear()
            case "commit_group":
                state.commit()
            case "wait_group":
                pending = getattr(i.operands[0], "value", 0) if i.operands else 0
                state.wait(pending)
            case "mma_async":
                m = matrices(i)
                if m is None:
                    return
                name = m.acc[0].name
                self._claimed(state, k, m.acc, m.a_registers)
                self._retaken(state, k, m)
                self.sizes.setdefault(name, set()).add(len(m.acc))
                for r in m.acc:
                    self._taken(state, r.name, name)
                    state.flight[r.name] = {name: 0}
                _renewed(state, [r.name for r in m.acc])
                for r in m.a_registers:
                    self._taken(state, r.name, m.a_registers[0].name)
                    state.held.setdefault(r.name, {})[m.a_registers[0].name] = 0

    def _claimed(self, state: _State, k: int, acc: Sequence[Reg], a: Sequence[Reg]) -> None:
        """A wgmma takes registers that one in flight owns: as the very same accumulator it may."""
        for r in a:
            for name in state.flight.get(r.name, ()):
                self._note(k, Ev.FRAG_READ, name)
        for r in acc:
            for name in state.held.get(r.name, ()):
                self._note(k, Ev.FRAG_WRITE, name)
        held = Counter(name for r in acc for name in state.flight.get(r.name, ()))
        for name, count in held.items():
            if count != len(acc) or count not in self.sizes.get(name, {count}):
                self._note(k, Ev.FRAG_WRITE, name)

    def _retaken(self, state: _State, k: int, m: Matrices) -> None:
        """A wgmma takes registers that a copy wrote or another wgmma took since the last fence."""
        shape = f"m64n{m.n}k{m.k}"
        for some, as_before in ((m.acc, (shape,)), (m.a_registers, (_OPERAND,))):
            for r in some:
                for at, how in state.placed.get(r.name, ()):
                    if how not in as_before:
                        code = PLACED if how == _COPY else TAKEN
                        self.found.setdefault(at, {})[Ev.FRAG_WRITE, some[0].name, code] = None
        perhaps = self.body[k].guard is not None
        for r in m.a_registers:
            _place(state, r.name, k + 1, _OPERAND, perhaps=perhaps)
        for r in m.acc:
            _place(state, r.name, k + 1, shape, perhaps=perhaps)

    def _taken(self, state: _State, register: str, fragment: str) -> None:
        for k in state.dirty.pop(register, ()):
            self._note(max(k, ~k), Ev.FRAG_WRITE if k >= 0 else Ev.FRAG_READ, fragment)

    def _other(self, state: _State, k: int, i: Instr) -> None:
        for r in sources(i):
            for name in state.flight.get(r, ()):
                self._note(k, Ev.FRAG_READ, name)
            for own in state.same.get(r, frozenset()) | ({r} & self.taken):
                # On every path through here this read is one: those before it need not be told too.
                before = state.dirty.get(own, frozenset()) if i.guard is not None else frozenset()
                state.dirty[own] = before | {~k}
        for r in results(i):
            for table in (state.flight, state.held):
                for name in table.get(r, ()):
                    self._note(k, Ev.FRAG_WRITE, name)
            state.flight.pop(r, None)
            if r in self.taken:
                state.dirty[r] = frozenset((k,))
            if i.guard is None:
                state.placed.pop(r, None)
        if i.guard is None:
            _renewed(state, results(i))

    def _note(self, k: int, code: Ev, fragment: str) -> None:
        self.found.setdefault(k, {})[code, fragment] = None


def _renewed(state: _State, written: Sequence[str]) -> None:
    """Registers get new values: they are no copies any more, and copies of them keep the old ones."""
    gone = frozenset(written)
    for d, found in list(state.same.items()):
        if d in gone:
            del state.same[d]
        elif not found.isdisjoint(gone):
            left = found - gone
            if left:
                state.same[d] = left
            else:
                del state.same[d]


def copied(i: Instr) -> list[tuple[str, str]]:
    """(destination, source) of a ``mov``; packing and unpacking copy every part."""
    if len(i.operands) != 2:
        return []
    return [(d, s) for d in registers(i.operands[0]) for s in registers(i.operands[1])]


def _closure(start: Iterable[str], edges: Iterable[tuple[str, str]]) -> set[str]:
    """What is reached from ``start`` along edges (to, from)."""
    out: dict[str, list[str]] = {}
    for to, source in edges:
        out.setdefault(source, []).append(to)
    seen = set(start)
    work = list(seen)
    while work:
        for to in out.get(work.pop(), ()):
            if to not in seen:
                seen.add(to)
                work.append(to)
    return seen
