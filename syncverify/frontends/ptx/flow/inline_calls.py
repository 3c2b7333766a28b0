"""Calls of functions of the same file, replaced by their bodies.

Each call gets registers and labels of its own, and the parameters that it passes become registers. Example:
the call

    st.param.b32 [p], %r1;  call.uni f, (p);

of an ``f`` that reads ``ld.param.u32 %r2, [f_p]`` becomes ``mov.b32 %p@0, %r1`` and ``mov.b32 %r2@1, %p@0``.

A parameter whose parts overlap, a byte and its word say, becomes a variable in local memory. A call by a
register that nothing but a ``mov`` of one function writes is a call of that function. What does not fit stays
a call, which the analysis stops at: recursion, other function pointers, jump tables of the function, and
carries from one side of a call to the other.

A variable of a function in local memory is one for each call. One in shared memory is one for the block,
whoever calls: it keeps its name, and its calls stay if another variable of the file has that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from syncverify.frontends.ptx.flow.carries import loses_carries, reads_a_carry_of_its_caller
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Function,
    Imm,
    Instr,
    Label,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Sym,
    Variable,
    Vector,
)
from syncverify.frontends.ptx.syntax.operands import CARRIED, results
from syncverify.frontends.ptx.syntax.types import width

#: Instructions of a function with all its calls inlined.
MOST_INSTRUCTIONS = 20_000
_TYPES = frozenset(f"{kind}{width}" for kind in "busf" for width in (8, 16, 32, 64)) - {"f8", "f16"}


class _StaysError(Exception):
    """A call, or what it passes, is not of the simple form."""


def inlined(module: Module, entry: str) -> Module:
    """The module with the calls of one entry inlined, where that can be done."""
    everything = (module.variables, *(f.variables for f in module.functions))
    names = Counter(v.name for variables in everything for v in variables if v.space == "shared")
    callees = [f for f in module.functions if not f.entry and f.body and _alone(f, names)]
    if not callees:
        return module
    own = {f.name for f in callees}
    known = {f.name: _by_scalars(_by_name(f, own)) for f in callees}
    functions = tuple(
        _whole(_by_scalars(_by_name(f, own)), known, ()) if f.name == entry else f for f in module.functions
    )
    return replace(module, functions=functions)


def _by_name(f: Function, callees: Collection[str]) -> Function:
    """The function with calls by a register, which only a ``mov`` of one function writes, as calls of it."""
    if not any(map(_by_register, f.body)):
        return f
    written = Counter(name for i in f.body for name in results(i))
    named = {
        i.operands[0].name: i.operands[1]
        for i in f.body
        if i.op == "mov" and i.guard is None and len(i.operands) == 2
        if isinstance(i.operands[0], Reg) and written[i.operands[0].name] == 1
        if isinstance(i.operands[1], Sym) and i.operands[1].name in callees
    }
    body = tuple(
        replace(i, operands=(i.operands[0], named[r], i.operands[2]))
        if (r := _by_register(i)) in named
        else i
        for i in f.body
    )
    return replace(f, body=body)


def _by_register(i: Instr) -> str:
    """The register that an indirect call takes its function from."""
    if i.op != "call" or len(i.operands) != 4 or not isinstance(i.operands[1], Reg):
        return ""
    return i.operands[1].name


def _alone(f: Function, names: Mapping[str, int]) -> bool:
    """Whether the variables of a function in shared memory have their names alone."""
    return all(names[v.name] == 1 for v in f.variables if v.space == "shared")


def _by_scalars(f: Function) -> Function:
    """The function with one load or store for each part of a vector of parameters."""
    by = {k: parts for k, i in enumerate(f.body) if (parts := _scalars(i))}
    return expanded(f, by, {}) if by else f


def _scalars(i: Instr) -> list[Instr]:
    if i.op not in ("st", "ld") or i.mods[:1] != ("param",) or len(i.operands) != 2:
        return []
    place, value = i.operands if i.op == "st" else i.operands[::-1]
    if len(i.mods) != 3 or not isinstance(place, Mem) or not isinstance(value, Vector):
        return []
    if i.op == "ld" and place.base in value.items:
        return []
    size = width(i.mods[2]) // 8
    out = []
    for n, item in enumerate(value.items):
        at = replace(place, offset=place.offset + size * n)
        out.append(replace(i, mods=("param", i.mods[2]), operands=(at, item) if i.op == "st" else (item, at)))
    return out


def _whole(f: Function, known: Mapping[str, Function], within: tuple[str, ...]) -> Function:
    """A function without calls, or as it is."""
    if not any(_callee(i) in known for i in f.body):
        return f
    try:
        return _Caller(f, known, within).run()
    except _StaysError:
        return f


def _callee(i: Instr) -> str:
    if i.op != "call" or len(i.operands) != 3 or not isinstance(i.operands[1], Sym):
        return ""
    return i.operands[1].name


def _move(callee: Function, p: Variable, given: Operand) -> tuple[str]:
    """The modifiers of a ``mov`` between a parameter in a register and what is given for it."""
    bits = callee.registers.get(p.name, "").lstrip("busf")
    if bits not in ("16", "32", "64") or not isinstance(given, Reg | Imm):
        raise _StaysError
    return (f"b{bits}",)


def _unguarded(i: Instr, mods: tuple[str], to: Operand, value: Operand) -> Instr:
    """A ``mov`` in the place of a call; a branch over it does what the call's guard did."""
    return replace(i, op="mov", mods=mods, operands=(to, value), guard=None, negated=False)


@dataclass
class _Caller:
    """One function while calls are put into it. ``cells``: parameters of calls, which become registers."""

    f: Function
    known: Mapping[str, Function]
    within: tuple[str, ...]
    out: list[Instr] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    extents: dict[str, set[tuple[int, int]]] = field(default_factory=dict)  # of parameters, by their bytes
    in_memory: frozenset[str] = frozenset()  # parameters that become variables in local memory

    def run(self) -> Function:
        f = self.f
        if any(i.op in CARRIED for i in f.body) and loses_carries(Flow(f)):
            raise _StaysError
        self.registers |= f.registers
        self.variables += (replace(v, space="local") if v.name in self.in_memory else v for v in f.variables)
        calls = [i for i in f.body if _callee(i) in self.known]
        passed = {x.name for i in calls for v in (i.operands[0], i.operands[2]) for x in _items(v)
                  if isinstance(x, Sym)}  # fmt: skip
        if not passed <= {v.name for v in f.variables if v.space == "param"}:
            raise _StaysError
        cells = dict.fromkeys(passed, "")
        places: list[int] = []
        own: list[int] = []  # instructions of the function itself: their labels are to move
        for number, i in enumerate(f.body):
            places.append(len(self.out))
            if _callee(i) in self.known:
                self._call(i, number)
            else:
                own.append(len(self.out))
                self.out.append(self._passed(i, {name: name for name in cells}))
        places.append(len(self.out))
        for k in own:
            self.out[k] = _mapped(self.out[k], lambda op: _moved(op, lambda at: places[at]))
        self.labels |= {name: places[at] for name, at in f.labels.items()}
        if len(self.out) > MOST_INSTRUCTIONS:
            raise _StaysError
        apart = frozenset(name for name, extents in self.extents.items() if _overlap(extents))
        if apart:
            return _Caller(f, self.known, self.within, in_memory=self.in_memory | apart).run()
        return replace(
            f,
            registers=self.registers,
            variables=tuple(self.variables),
            body=tuple(self.out),
            labels=self.labels,
        )

    def _call(self, i: Instr, number: int) -> None:
        """The body of the function that an instruction calls, in its place."""
        callee = self._callee_of(i)
        mark = f"@{number}"
        begin = len(self.out)
        if i.guard is not None:
            self.out.append(i)  # becomes a branch over the call
        cells = self._hand_over(i, callee, mark)
        self._body(callee, cells, mark)
        self._take_results(i, callee, mark)
        if i.guard is not None:
            self.labels[f"over{mark}"] = len(self.out)
            self.out[begin] = replace(
                i, op="bra", mods=(), negated=not i.negated, operands=(Label(f"over{mark}", len(self.out)),)
            )

    def _callee_of(self, i: Instr) -> Function:
        """The function that is called, its own calls inlined; _StaysError where it cannot be put in."""
        name = _callee(i)
        if name in (*self.within, self.f.name) or reads_a_carry_of_its_caller(self.known[name]):
            raise _StaysError
        callee = _whole(self.known[name], self.known, (*self.within, self.f.name))
        fits = len(_items(i.operands[0])) == len(callee.results)
        if callee.tables or not fits or len(_items(i.operands[2])) != len(callee.params):
            raise _StaysError
        if any(v.space not in ("param", "local", "shared") for v in callee.variables):
            raise _StaysError
        return callee

    def _hand_over(self, i: Instr, callee: Function, mark: str) -> dict[str, str]:
        """Moves arguments into the callee's registers. Returns what its parameters in memory are here."""
        cells: dict[str, str] = {}
        given = (*_items(i.operands[2]), *_items(i.operands[0]))
        for number, (p, x) in enumerate(zip((*callee.params, *callee.results), given, strict=True)):
            if p.space != "reg":
                if not isinstance(x, Sym):
                    raise _StaysError
                cells[p.name] = x.name
                continue
            mov = _move(callee, p, x)
            if number < len(callee.params):
                self.out.append(_unguarded(i, mov, Reg(p.name + mark), x))
        return cells

    def _body(self, callee: Function, cells: Mapping[str, str], mark: str) -> None:
        """The callee's instructions, registers, variables and labels, by names of this call."""
        own = [v for v in callee.variables if v.space != "shared"]
        local = {v.name for v in own}
        base = len(self.out)
        end = base + len(callee.body)
        self.registers |= {r + mark: kind for r, kind in callee.registers.items()}
        self.variables += [replace(v, name=v.name + mark) for v in own]
        self.variables += [v for v in callee.variables if v.space == "shared" and v not in self.variables]
        for k in callee.body:
            if k.op == "ret":
                self.out.append(replace(_mapped(k, lambda op: _renamed(op, mark, local)), op="bra", mods=(),
                                        operands=(Label(f"end{mark}", end),)))  # fmt: skip
                continue
            k = self._passed(k, cells, mark)
            k = _mapped(k, lambda op: _moved(op, lambda at: base + at, mark))
            self.out.append(k)
        self.labels |= {f"{x}{mark}": base + at for x, at in callee.labels.items()}
        self.labels[f"end{mark}"] = end

    def _take_results(self, i: Instr, callee: Function, mark: str) -> None:
        """Moves results that are in registers to where the caller wants them."""
        for p, x in zip(callee.results, _items(i.operands[0]), strict=True):
            if p.space != "reg":
                continue
            if not isinstance(x, Reg):
                raise _StaysError
            self.out.append(_unguarded(i, _move(callee, p, x), x, Reg(p.name + mark)))

    def _passed(self, i: Instr, cells: Mapping[str, str], mark: str = "") -> Instr:
        """An instruction of a body; one that stores or loads a parameter of ``cells`` becomes a ``mov``."""
        names = {op.name for op in _parts(i.operands) if isinstance(op, Sym)} & set(cells)
        local = {v.name for v in self.known_variables(mark)}
        if not names:
            return _mapped(i, lambda op: _renamed(op, mark, local)) if mark else i
        if i.op not in ("st", "ld") or len(i.operands) != 2 or len(i.mods) != 2 or i.mods[0] != "param":
            raise _StaysError
        place, value = i.operands if i.op == "st" else i.operands[::-1]
        if (
            isinstance(place, Mem)
            and isinstance(place.base, Sym)
            and cells[place.base.name] in self.in_memory
        ):
            there = replace(place, base=replace(place.base, name=cells[place.base.name]))
            other = _mapped(i, lambda op: _renamed(op, mark, local)) if mark else i
            both = (there, other.operands[1]) if i.op == "st" else (other.operands[0], there)
            return replace(other, mods=("local", i.mods[1]), operands=both)
        if i.mods[1] not in _TYPES or not isinstance(place, Mem) or not isinstance(place.base, Sym):
            raise _StaysError
        values = Reg if i.op == "ld" else Reg | Imm | FloatImm
        if place.coords or not isinstance(value, values):
            raise _StaysError
        byte = i.mods[1].endswith("8")
        kind = "b16" if byte else f"b{i.mods[1][1:]}"
        at = place.base.offset + place.offset
        cell = f"%{cells[place.base.name]}@{at}{'b' * byte}"
        self.extents.setdefault(cells[place.base.name], set()).add((at, at + width(i.mods[1]) // 8))
        self.registers.setdefault(cell, kind)
        value = _renamed(value, mark, local) if mark else value
        moved = (Reg(cell), value) if i.op == "st" else (value, Reg(cell))
        guard = i.guard if i.guard is None or not mark else Reg(i.guard.name + mark)
        if byte:
            return replace(i, **_of_byte(i, value, self.registers), operands=moved, guard=guard)
        mods = (f"f{kind[1:]}" if isinstance(value, FloatImm) else kind,)
        return replace(i, op="mov", mods=mods, operands=moved, guard=guard)

    def known_variables(self, mark: str) -> list[Variable]:
        """The variables of the function that is being put in, by their own names."""
        return [replace(v, name=v.name.removesuffix(mark)) for v in self.variables
                if mark and v.name.endswith(mark)]  # fmt: skip


def _of_byte(i: Instr, value: Operand, types: Mapping[str, str]) -> dict[str, Any]:
    """The opcode of what passes a byte: a parameter holds it without its sign, and a load extends it."""
    if i.op == "st":
        return {"op": "cvt", "mods": ("u16", "u8")}
    assert isinstance(value, Reg)
    sign = "s" if i.mods[1] == "s8" else "u"
    return {"op": "cvt", "mods": (f"{sign}{width(types[value.name])}", f"{sign}8")}


def _overlap(extents: Iterable[tuple[int, int]]) -> bool:
    """Whether parts of a parameter overlap: then no register can hold each of them."""
    return any(a[1] > b[0] for a, b in pairwise(sorted(extents)))


def _items(op: Operand) -> tuple[Operand, ...]:
    return op.items if isinstance(op, Vector) else (op,)


def _parts(operands: tuple[Operand, ...]) -> list[Operand]:
    out: list[Operand] = []
    for op in operands:
        out.append(op)
        if isinstance(op, Vector):
            out += _parts(op.items)
        elif isinstance(op, Mem):
            out += _parts((op.base, *op.coords))
    return out


def _mapped(i: Instr, f: Callable[[Operand], Operand]) -> Instr:
    guard = i.guard if i.guard is None else f(i.guard)
    assert guard is None or isinstance(guard, Reg)
    return replace(i, operands=tuple(map(f, i.operands)), guard=guard)


def _renamed(op: Operand, mark: str, local: set[str]) -> Operand:
    """An operand of a function with the registers and the local variables of one of its calls."""

    def again(x: Operand) -> Operand:
        return _renamed(x, mark, local)

    match op:
        case Reg(name):
            return replace(op, name=name + mark)
        case Sym(name) if name in local:
            return replace(op, name=name + mark)
        case Mem(base, _, coords):
            return replace(op, base=again(base), coords=tuple(map(again, coords)))
        case Vector(items):
            return Vector(tuple(map(again, items)))
        case Not(reg):
            renamed = again(reg)
            assert isinstance(renamed, Reg)
            return Not(renamed)
        case Pair(first, second):
            return Pair(again(first), again(second))
    return op


def _moved(op: Operand, place: Callable[[int], int], mark: str = "") -> Operand:
    return Label(op.name + mark, place(op.target)) if isinstance(op, Label) else op


__all__ = ["inlined"]
