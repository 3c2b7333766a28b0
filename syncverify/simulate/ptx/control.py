"""Branches, calls and the ends of threads (PTX ISA, 9.7.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.harm import Kind
from syncverify.simulate.ptx.program import Compiled, Context, builder
from syncverify.simulate.ptx.state import GONE, Frame
from syncverify.simulate.ptx.syntax import Imm, Instr, Label, Reg, Sym, Vector
from syncverify.simulate.ptx.types import BITS, LANES, UNSIGNED, Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Fragment, Next, Step

#: Functions of the system that kernels call: what they do here.
_SYSTEM = frozenset({"vprintf", "__assertfail", "__assert_fail"})
_DEEPEST = 32


@builder("bra")
def _bra(c: Context, i: Instr) -> Step:
    label = i.operands[0]
    if not isinstance(label, Label):
        raise c.fail("expected a label")
    target, at, place = label.target, c.at, c.joins.get(c.at)
    guard = c.guard()
    if guard is None:
        return lambda f: target

    def run(f: Fragment) -> Next:
        taken = guard(f.R)
        if len(set(taken[f.mask].tolist())) > 1:
            _check_promise(f, i)
        return f.warp.machine.branch(f, taken, target, at, place)

    return run


@builder("brx")
def _brx(c: Context, i: Instr) -> Step:
    table = i.operands[1]
    if not isinstance(table, Sym):
        raise c.fail("expected a table")
    targets = [c.function.labels[name] for name in c.function.tables[table.name]]
    index = c.source(i.operands[0], 32)
    at, place = c.at, c.joins.get(c.at)

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        values = f.R[index]
        if (values[on] >= len(targets)).any():
            raise m.undefined(
                f, f"brx.idx by {int(values[on].max())} in a table of {len(targets)}", "brx.idx"
            )
        chosen = np.unique(values[on])
        if len(chosen) == 1 and np.array_equal(on, f.mask):
            return targets[int(chosen[0])]
        for value in chosen:
            after = m.branch(f, on & (values == value), targets[int(value)], at, place)
            if after is not None and np.array_equal(f.mask, f.mask & on & (values == value)):
                return after
            f.pc = at
        return at + 1 if f.mask.any() else GONE

    return c.masked(run)


@builder("exit")
def _exit(c: Context, i: Instr) -> Step:
    return c.masked(lambda f, on: f.warp.machine.exit_lanes(f, on))


@builder("ret")
def _ret(c: Context, i: Instr) -> Step:
    guard = None if i.guard is None else c.guard()
    at = c.at

    def run(f: Fragment) -> Next:
        on = f.mask if guard is None else f.mask & guard(f.R)
        if not on.any():
            return None
        m = f.warp.machine
        if not np.array_equal(on, f.mask):
            _check_promise(f, i)
        if not f.frames:
            return m.exit_lanes(f, on)
        if not np.array_equal(on, f.mask):
            rest = f.split(f.mask & ~on)
            rest.pc = at + 1
        return _leave(f)

    return run


def _leave(f: Fragment) -> Next:
    """Back to the caller: registers, then results."""
    frame = f.frames.pop()
    results = {name: f.params.get(name) for name, _ in frame.results}
    registers = {name: f.R[f.code.slots[name]] for name, _ in frame.results if name in f.code.slots}
    f.code, f.R, f.params, f.local = frame.code, frame.registers, frame.params, frame.local
    f.joins = [j for j in f.joins if j.depth <= len(f.frames)]
    for name, target in frame.results:
        if isinstance(target, Sym):
            value = results[name]
            if value is not None:
                f.params[target.name] = value
        elif isinstance(target, Reg):
            f.R[f.code.slots[target.name]] = registers[name]
    f.pc = frame.place
    return frame.place


@builder("trap", "brkpt")
def _trap(c: Context, i: Instr) -> Step:
    def run(f: Fragment, on: Lanes) -> Next:
        lane = int(np.argmax(on))
        raise f.warp.machine.harm(Kind.TRAP, f.warp.machine.here(f, lane), f"{i.op} was executed", i.op)

    return c.masked(run)


@builder("nanosleep", "pmevent")
def _nothing(c: Context, i: Instr) -> Step:
    return lambda f: None


@builder("call")
def _call(c: Context, i: Instr) -> Step:
    results, callee, arguments = i.operands[:3]
    if not isinstance(results, Vector) or not isinstance(arguments, Vector):
        raise c.fail()
    name = ""
    if isinstance(callee, Sym):
        name = c.module.aliases.get(callee.name, callee.name)
    if name in _SYSTEM:
        return _system_call(c, i, name, results)
    pointer = c.source(callee, 64) if isinstance(callee, Reg) else None
    at = c.at

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        if not np.array_equal(on, f.mask):
            _check_promise(f, i)
            rest = f.split(f.mask & ~on)
            rest.pc = at + 1
        target: Compiled | None
        if pointer is None:
            target = m.loaded.functions.get(name)
        else:
            values = f.R[pointer]
            first = values[int(np.argmax(f.mask))]
            same = f.mask & (values == first)
            if not np.array_equal(same, f.mask):
                f.split(f.mask & ~same)
            target = m.loaded.by_address.get(int(first))
        if target is None:
            raise c.__class__.fail(_at(c, i), f"{name or 'a function by pointer'} has no body")
        return _enter(f, target, results, arguments, at)

    return c.masked(run)


def _at(c: Context, i: Instr) -> Context:
    c.instr = i
    return c


def _check_promise(f: Fragment, i: Instr) -> None:
    """What a part of the lanes takes is no branch, call or return of ``.uni`` (PTX ISA, bra)."""
    if "uni" in i.mods:
        raise f.warp.machine.undefined(f, f"{i.op}.uni taken by a part of the lanes", i.op)


def _enter(f: Fragment, target: Compiled, results: Vector, arguments: Vector, at: int) -> Next:
    m = f.warp.machine
    if len(f.frames) >= _DEEPEST:
        raise m.undefined(f, f"calls nested deeper than {_DEEPEST}", "call")
    function = target.function
    params: dict[str, Lanes] = {}
    local = f.local + f.code.local_size
    if local + target.local_size > m.loaded.local_size:
        raise m.undefined(f, "the stack of local memory is spent", "call")
    R = m.frame(f.warp, target, local)
    for v, given in zip(function.params, arguments.items, strict=True):
        bits = BITS.get(v.type, 8)
        if v.space == "reg":
            R[target.slots[v.name]] = _value(f, given, bits)
        elif isinstance(given, Sym):
            own = f.params.get(given.name)
            raw = np.zeros((LANES, v.size), np.uint8)
            if own is not None:
                n = min(own.shape[1], v.size)
                raw[:, :n] = own[:, :n]
            params[v.name] = raw
        else:
            params[v.name] = _value(f, given, bits).view(np.uint8).reshape(LANES, bits // 8)
    pairs = tuple((v.name, x) for v, x in zip(function.results, results.items, strict=True))
    f.frames.append(Frame(f.code, at + 1, f.R, f.params, pairs, f.local, list(f.joins)))
    f.code, f.R, f.params, f.local = target, R, params, local
    f.pc = 0
    return 0


def _value(f: Fragment, operand: object, bits: int) -> Lanes:
    if isinstance(operand, Reg):
        return np.ascontiguousarray(f.R[f.code.slots[operand.name]])
    if isinstance(operand, Imm):
        return np.full(LANES, operand.value & ((1 << bits) - 1), UNSIGNED[bits])
    raise TypeError(operand)


def _system_call(c: Context, i: Instr, name: str, results: Vector) -> Step:
    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        if name != "vprintf":
            raise m.harm(Kind.TRAP, m.here(f, int(np.argmax(on))), "an assertion failed", "call")
        for x in results.items:
            if isinstance(x, Sym):
                f.params[x.name] = np.zeros((LANES, 4), np.uint8)
        return None

    return c.masked(run)
