"""A function for one launch file: branches that what is known decides are none any more.

A kernel holds code for arguments that a launch does not give (a source matrix, arrays of pointers). In a
proof for every size, registers that only such code reads would be distinguished. Constants are propagated
along the edges that can be taken (Wegman and Zadeck); what differs between threads is no constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from syncverify.base.generated_code import compiled
from syncverify.frontends.ptx.analysis.slicing.lanes import ACROSS
from syncverify.frontends.ptx.compile.loads import Values
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.compile.state import SPACES
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.flow.control_flow import live_before
from syncverify.frontends.ptx.syntax.nodes import Function, Label, Mem, Reg, Sym
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.frontends.ptx.values.register_values import INTS, Unknown

_TOP = Unknown("a value that is no constant")
#: Instructions that do more than compute, or compute with more than their operands.
_OTHERWISE = ACROSS | frozenset("addc subc madc st call elect activemask atom red".split())

State = dict[str, int]  # the registers that hold a constant


def specialise(program: Program, launch: Launch) -> Function:
    """The function, in which branches that go one way in the whole launch are jumps."""
    body = list(program.body)
    for k, taken in _Propagation(program, launch).decided().items():
        i = body[k]
        to = i.operands if taken else (Label("", k + 1),)
        body[k] = replace(i, mods=(), operands=to, guard=None, negated=False)
    return replace(program.function, body=tuple(body))


class _Propagation:
    def __init__(self, program: Program, launch: Launch) -> None:
        self.p = program
        self.flow = program.flow
        self.body = program.body
        self.code = code(program)
        self.slots = program.slots
        reads = {k: sources(i) for k, i in enumerate(self.body) if k in self.code or i.op in ("bra", "brx")}
        names = frozenset(n for found in reads.values() for n in found)
        self.live = live_before(self.flow, lambda k: reads.get(k, ()), lambda k: results(self.body[k]), names)
        self.r: list[Any] = [_TOP] * program.size
        for name, slot in program.symbols.items():
            self.r[slot] = _plain(_given(name, launch))

    def decided(self) -> dict[int, bool]:
        """The branches that always go the same way, and whether they are taken."""
        if not self.body:
            return {}
        states: dict[int, State] = {0: {}}
        ways: dict[int, set[bool]] = {}
        work = {0}
        while work:
            n = min(work)
            work.discard(n)
            state = self._through(n, states[n])
            for s in self._next(n, state, ways):
                live = self.live[s]
                new = {x: v for x, v in state.items() if x in live}
                old = states.get(s)
                if old is not None:
                    new = {x: v for x, v in old.items() if new.get(x) == v}
                if old is None or new != old:
                    states[s] = new
                    work.add(s)
        return {k: next(iter(w)) for k, w in ways.items() if len(w) == 1}

    def _through(self, n: int, state: State) -> State:
        """What registers hold at the end of a block."""
        known = dict(state)
        b = self.flow.blocks[n]
        for k in range(b.lo, b.hi):
            i = self.body[k]
            run = self.code.get(k)
            names = results(i)
            if run is not None:
                for name in (*sources(i), *names):
                    if name in self.slots:
                        self.r[self.slots[name]] = known.get(name, _TOP)
                run(self.r, 0)
            for name in names:
                value: Any = self.r[self.slots[name]] if run is not None and name in self.slots else _TOP
                if value.__class__ in INTS:
                    known[name] = int(value)
                else:
                    known.pop(name, None)
        return known

    def _next(self, n: int, state: State, ways: dict[int, set[bool]]) -> list[int]:
        """The blocks that control may go on to."""
        b = self.flow.blocks[n]
        k = b.hi - 1
        i = self.body[k]
        after = [s for s in b.succ if s < self.flow.end]
        if i.op != "bra" or i.guard is None or len(b.succ) < 2:
            return after
        value = state.get(i.guard.name)
        if value is None:
            ways.setdefault(k, set()).update((True, False))
            return after
        taken = bool(value) != i.negated
        ways.setdefault(k, set()).add(taken)
        target = next(x.target for x in i.operands if isinstance(x, Label)) if taken else b.hi
        return [self.flow.block_of[target]] if target < len(self.body) else []


def _given(name: str, launch: Launch) -> Any:
    """What the code is given, if it is the same for all threads."""
    base, _, axis = name.partition(".")
    n = "xyz".index(axis) if axis and axis in "xyz" else 0
    if name.startswith("param "):
        place, type_ = name[6:].split(":")
        of, offset = place.rsplit("+", 1)
        return launch.parameter(of, int(offset), type_)
    match base:
        case "%ntid":
            return launch.block[n]
        case "%cluster_nctaid":
            return launch.cluster[n]
        case "%cluster_nctarank":
            return launch.ctas
        case "%cluster_ctarank" | "%cluster_ctaid" if launch.ctas == 1:
            return 0
        case "%is_explicit_cluster" if launch.ctas > 1:
            return 1
    return _TOP


def _plain(value: Any) -> Any:
    return value if value.__class__ in INTS else _TOP


def code(program: Program) -> dict[int, Callable[[list[Any], Any], None]]:
    """The instructions that make constants of constants, as functions of the slots."""
    writer = Values(program)
    chosen = [k for k in sorted(program.slice.pure) if _computes(program, k, writer.parameters)]
    for k in chosen:
        program.at = k
        writer._open(k)
        writer._pure(k)
        writer._text("return")
    exec(compiled("\n".join(writer.lines), f"<constants of {program.function.name}>"), writer.space)
    return {k: writer.space[f"b{k}"] for k in chosen}


def _computes(program: Program, k: int, parameters: Mapping[str, Sym]) -> bool:
    i = program.body[k]
    if k in program.spin_predicates:
        return False  # what ends a spin is not known before it
    if k in program.decoded or i.op in _OTHERWISE or "cc" in i.mods:
        return False
    if i.op in ("ld", "ldu"):
        base = i.operands[1].base if isinstance(i.operands[1], Mem) else None
        placed = isinstance(base, Sym) or (isinstance(base, Reg) and base.name in parameters)
        return placed and {m.split("::")[0] for m in i.mods} & SPACES == {"param"}
    return True
