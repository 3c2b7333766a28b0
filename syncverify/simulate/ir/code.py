"""Kernel bodies as flat code: jumps, integer assignments and operations, with compiled expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from syncverify.base.source import InputError
from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var

#: An integer, or one integer per lane of a group.
Value = Any
Env = dict[str, Value]
Fn = Callable[[Env], Value]


class BadExpression(Exception):  # noqa: N818 -- becomes a harm or an InputError where the span is known
    """An index expression without a value (division by zero, unknown name)."""


class Opaque(BadExpression):
    """An expression computes with a token; only copies of one have a meaning."""


@dataclass(frozen=True, slots=True)
class Token:
    """What an arrival gave, in a register: under which name its lane group keeps it."""

    place: str


def _floor(op: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    def apply(a: Value, b: Value) -> Value:
        if (b == 0) if isinstance(b, int) else bool(np.any(b == 0)):
            raise BadExpression("division by zero")
        return op(a, b)

    return apply


def _logic(both: bool) -> Callable[[Value, Value], Value]:
    def apply(a: Value, b: Value) -> Value:
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            x, y = np.asarray(a) != 0, np.asarray(b) != 0
            return ((x & y) if both else (x | y)).astype(np.int64)
        return int(bool(a) and bool(b)) if both else int(bool(a) or bool(b))

    return apply


def _compare(op: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    def apply(a: Value, b: Value) -> Value:
        r = op(a, b)
        return r.astype(np.int64) if isinstance(r, np.ndarray) else int(r)

    return apply


_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "//": _floor(operator.floordiv), "%": _floor(operator.mod),
    "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "==": _compare(operator.eq), "!=": _compare(operator.ne),
    "<": _compare(operator.lt), "<=": _compare(operator.le),
    ">": _compare(operator.gt), ">=": _compare(operator.ge),
    "and": _logic(True), "or": _logic(False),
}  # fmt: skip


def _not(a: Value) -> Value:
    return (a == 0).astype(np.int64) if isinstance(a, np.ndarray) else int(not a)


def _least(xs: list[Value]) -> Value:
    r = xs[0]
    for x in xs[1:]:
        r = np.minimum(r, x) if isinstance(r, np.ndarray) or isinstance(x, np.ndarray) else min(r, x)
    return r


def _most(xs: list[Value]) -> Value:
    return -_least([-x for x in xs])


def _select(c: Value, a: Value, b: Value) -> Value:
    if isinstance(c, np.ndarray):
        return np.where(c != 0, a, b)
    return a if c else b


def _lookup(name: str) -> Fn:
    def get(env: Env) -> Value:
        try:
            found = env[name]
        except KeyError:
            raise BadExpression(f"{name!r} has no value here") from None
        if isinstance(found, Token):
            raise Opaque(f"{name!r} holds a token, and a token is no number")
        return found

    return get


def copied(e: Expr) -> Fn:
    """Like ``compiled``, and a register's token is handed on as it is."""
    match e:
        case Var(name):
            get = _lookup(name)
            return lambda env: env[name] if isinstance(env.get(name), Token) else get(env)
        case Call("select", (c, a, b)):
            condition, yes, no = compiled(c), copied(a), copied(b)

            def choose(env: Env) -> Value:
                chosen = uniform(condition(env))
                if isinstance(chosen, int):
                    return yes(env) if chosen else no(env)
                a, b = yes(env), no(env)
                if isinstance(a, Token) or isinstance(b, Token):
                    raise Opaque("lanes of one warp choose between tokens")
                return _select(chosen, a, b)

            return choose
    return compiled(e)


@lru_cache(maxsize=65536)
def compiled(e: Expr) -> Fn:
    """The expression as a function of an environment of integers and per-lane vectors."""
    match e:
        case Int(v):
            return lambda env: v
        case Var(name):
            return _lookup(name)
        case Unary("-", a):
            f = compiled(a)
            return lambda env: -f(env)
        case Unary("not", a):
            g = compiled(a)
            return lambda env: _not(g(env))
        case Unary("~", a):
            h = compiled(a)
            return lambda env: ~h(env)
        case Binary(op, a, b) if op in _BINARY:
            fn, x, y = _BINARY[op], compiled(a), compiled(b)
            if isinstance(b, Int) and b.value != 0:
                k = b.value
                raw = {"//": operator.floordiv, "%": operator.mod}.get(op, fn)
                return lambda env: raw(x(env), k)
            return lambda env: fn(x(env), y(env))
        case Call("min", args):
            fs = [compiled(a) for a in args]
            return lambda env: _least([f(env) for f in fs])
        case Call("max", args):
            gs = [compiled(a) for a in args]
            return lambda env: _most([g(env) for g in gs])
        case Call("abs", (a,)):
            k1 = compiled(a)
            return lambda env: abs(k1(env))
        case Call("cdiv", (a, b)):
            p, q = compiled(a), compiled(b)
            div = _BINARY["//"]
            return lambda env: -div(-p(env), q(env))
        case Call("select", (c, a, b)):
            cond, yes, no = compiled(c), compiled(a), compiled(b)
            return lambda env: _select(cond(env), yes(env), no(env))
    raise BadExpression("this is not an integer expression")


@dataclass(frozen=True, slots=True)
class Set:
    """``name := fn``."""

    name: str
    fn: Fn
    stmt: n.Stmt


@dataclass(frozen=True, slots=True)
class Branch:
    """Goes on if ``fn`` is not 0, else to ``target``."""

    fn: Fn
    target: int
    stmt: n.Stmt


@dataclass(frozen=True, slots=True)
class Jump:
    target: int
    leaves: bool = False  # an ``exit``


@dataclass(frozen=True, slots=True)
class Do:
    """One operation of the IR."""

    stmt: n.Stmt


Instr = Set | Branch | Jump | Do

UNIT = {"threads": "tid", "warps": "warp", "warpgroups": "wg"}


def expression(e: Expr, stmt: n.Stmt, meaning: Callable[[Expr], Fn] = compiled) -> Fn:
    """``compiled``, or another meaning, with the statement's place in the error."""
    try:
        return meaning(e)
    except BadExpression as err:
        raise InputError(str(err), stmt.span) from err


def flatten(body: tuple[n.Stmt, ...]) -> list[Instr]:
    """The body as flat code; its end is one past the last instruction."""
    code: list[Instr] = []
    exits: list[int] = []

    def patch(at: int, target: int) -> None:
        old = code[at]
        code[at] = (
            Branch(old.fn, target, old.stmt)
            if isinstance(old, Branch)
            else Jump(target, old.leaves if isinstance(old, Jump) else False)
        )

    def block(stmts: tuple[n.Stmt, ...]) -> None:
        for s in stmts:
            one(s)

    def guarded(cond: Expr, then: tuple[n.Stmt, ...], orelse: tuple[n.Stmt, ...], s: n.Stmt) -> None:
        test = len(code)
        code.append(Branch(expression(cond, s), -1, s))
        block(then)
        if orelse:
            end = len(code)
            code.append(Jump(-1))
            patch(test, len(code))
            block(orelse)
            patch(end, len(code))
        else:
            patch(test, len(code))

    def one(s: n.Stmt) -> None:
        match s:
            case n.For():
                depth = len(code)
                hi, step = f"%hi{depth}", f"%step{depth}"
                code.append(Set(hi, expression(s.hi, s), s))
                code.append(Set(step, expression(s.step, s), s))
                code.append(Set(s.var, expression(s.lo, s), s))
                left = Binary("*", Binary("-", Var(hi), Var(s.var)), Var(step))
                head = len(code)
                code.append(Branch(expression(Binary(">", left, Int(0)), s), -1, s))
                block(s.body)
                code.append(Set(s.var, expression(Binary("+", Var(s.var), Var(step)), s), s))
                code.append(Jump(head))
                patch(head, len(code))
            case n.If():
                guarded(s.cond, s.then, s.orelse, s)
            case n.Role():
                unit = Var(UNIT[s.unit])
                inside = Binary("and", Binary(">=", unit, s.lo), Binary("<", unit, s.hi))
                guarded(inside, s.body, (), s)
            case n.Let() | n.Assign():
                code.append(Set(s.name, expression(s.value, s, copied), s))
            case n.Exit():
                exits.append(len(code))
                code.append(Jump(-1, True))
            case _:
                code.append(Do(s))

    block(body)
    for at in exits:
        patch(at, len(code))
    return code


def registers(body: tuple[n.Stmt, ...]) -> list[str]:
    """The integer registers that statements declare."""
    names: list[str] = []
    for s in body:
        match s:
            case n.Let() | n.LoadIndex() | n.Elect() | n.MbarrierTest():
                names.append(s.name)
            case n.For():
                names += [s.var, *registers(s.body)]
            case n.Role():
                names += registers(s.body)
            case n.If():
                names += [*registers(s.then), *registers(s.orelse)]
    return names


def thread_env(
    kernel: n.Kernel,
    values: Mapping[str, int],
    lanes: tuple[int, ...],
    cta: int,
    block: int,
    grid: tuple[int, int, int],
) -> Env:
    """The builtins of some threads (linear ids in their CTA), and the parameters.

    ``block`` is the CTA's linear number in the grid, ``cta`` its rank in the cluster.
    """
    bx, by, _ = kernel.launch.block
    tid: Value = lanes[0] if len(lanes) == 1 else np.array(lanes, dtype=np.int64)
    # Registers start at 0, also where another role or branch declares them.
    env: Env = dict.fromkeys(registers(kernel.body), 0)
    env |= values
    env |= {
        "tid": tid, "tid.x": tid % bx, "tid.y": tid // bx % by, "tid.z": tid // (bx * by),
        "warp": tid // 32, "lane": tid % 32, "wg": tid // 128, "rank": cta,
        "block": block, "block.x": block % grid[0], "block.y": block // grid[0] % grid[1],
        "block.z": block // (grid[0] * grid[1]),
        "grid": grid[0] * grid[1] * grid[2], "grid.x": grid[0], "grid.y": grid[1], "grid.z": grid[2],
    }  # fmt: skip
    return {k: uniform(v) for k, v in env.items()}


def uniform(v: Value) -> Value:
    """A vector whose lanes agree, as one integer; a token as it is."""
    if isinstance(v, Token):
        return v
    if isinstance(v, np.ndarray):
        first = v.flat[0]
        if (v == first).all():
            return int(first)
        return v
    return int(v)
