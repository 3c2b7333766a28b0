"""Walking and rewriting statements and the expressions inside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, substitute
from syncverify.ir.nodes import (
    Assign,
    BarrierRef,
    For,
    GlobalRegion,
    If,
    Kernel,
    Let,
    Region,
    Role,
    Stmt,
)

Body = tuple[Stmt, ...]


def bodies(stmt: Stmt) -> tuple[Body, ...]:
    """The statement lists directly inside a statement."""
    match stmt:
        case For(body=b) | Role(body=b):
            return (b,)
        case If(then=t, orelse=o):
            return (t, o)
    return ()


def walk(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement, parents first."""
    for stmt in body:
        yield stmt
        for inner in bodies(stmt):
            yield from walk(inner)


def unused(kernel: Kernel, name: str) -> str:
    """The name, or a longer one where a tensor, a parameter, a buffer or a register has it.

    A register of that name may differ between lanes. A loop that the elected lane goes through would seem to.
    """
    taken = {t.name for t in kernel.tensors} | {p.name for p in kernel.params}
    taken |= {s.name for s in kernel.shared} | {b.name for b in kernel.barriers}
    taken |= {s.name for s in walk(kernel.body) if isinstance(s, Let | Assign)}
    while name in taken:
        name += "_"
    return name


def contains(stmt: Stmt, kind: type | tuple[type, ...]) -> bool:
    return any(isinstance(s, kind) for s in walk((stmt,)))


def with_bodies(stmt: Stmt, f: Callable[[Body], Body]) -> Stmt:
    """The statement with every list directly inside it rewritten; empty conditionals keep their place."""
    match stmt:
        case For(body=b) | Role(body=b):
            return replace(stmt, body=f(b))
        case If(then=t, orelse=o):
            return replace(stmt, then=f(t), orelse=f(o) if o else ())
    return stmt


def flat_map(body: Body, f: Callable[[Stmt], Iterable[Stmt]]) -> Body:
    """Every statement replaced by ``f`` of it, inner ones first."""
    result: list[Stmt] = []
    for stmt in body:
        result.extend(f(with_bodies(stmt, lambda b: flat_map(b, f))))
    return tuple(result)


def keep(body: Body, wanted: Callable[[Stmt], bool]) -> Body:
    """The leaves for which ``wanted`` holds, with what encloses them; empty loops and guards vanish."""

    def choose(stmt: Stmt) -> Iterable[Stmt]:
        inner = bodies(stmt)
        if inner:
            return (stmt,) if any(inner) else ()
        return (stmt,) if wanted(stmt) else ()

    return flat_map(body, choose)


def replaced(stmt: Stmt, values: Mapping[str, Expr]) -> Stmt:
    """The statement with names replaced in all its expressions."""
    rewritten: Stmt = _substituted(stmt, values)
    return rewritten


def _substituted(x: Any, values: Mapping[str, Expr]) -> Any:
    if isinstance(x, Expr):
        return substitute(x, values)
    if isinstance(x, (Stmt, Region, BarrierRef, GlobalRegion)):
        return replace(x, **{f.name: _substituted(getattr(x, f.name), values) for f in fields(x)})
    if isinstance(x, tuple):
        return tuple(_substituted(y, values) for y in x)
    return x


def replaced_expr(stmt: Stmt, old: Expr, new: Expr) -> Stmt:
    """The statement with one expression replaced wherever it stands in it."""

    def rewritten(x: Any) -> Any:
        if isinstance(x, Expr):
            return _replaced_in(x, old, new)
        if isinstance(x, (Stmt, Region, BarrierRef, GlobalRegion)):
            return replace(x, **{f.name: rewritten(getattr(x, f.name)) for f in fields(x)})
        if isinstance(x, tuple):
            return tuple(rewritten(y) for y in x)
        return x

    result: Stmt = rewritten(stmt)
    return result


def _replaced_in(e: Expr, old: Expr, new: Expr) -> Expr:
    if e == old:
        return new
    match e:
        case Unary(op, a):
            return Unary(op, _replaced_in(a, old, new))
        case Binary(op, a, b):
            return Binary(op, _replaced_in(a, old, new), _replaced_in(b, old, new))
        case Call(name, args):
            return Call(name, tuple(_replaced_in(a, old, new) for a in args))
    return e


def use_of(slot: Expr | None) -> tuple[Expr, int]:
    """``(e, S)`` of a slot index ``e % S``: the use of the ring, and its number of slots."""
    match slot:
        case Binary("%", use, Int(stages)):
            return use, stages
    raise ValueError(f"not a slot of a circular buffer: {slot}")


def parity(slot: Expr | None, offset: int = 0) -> Expr:
    """The parity of the phase that use ``e`` of the slot ``e % S`` belongs to."""
    use, stages = use_of(slot)
    generation = use // stages
    return (generation + offset if offset else generation) % 2


def plus(e: Expr, n: int) -> Expr:
    """``e + n``, without a useless ``+ 0``."""
    return e if n == 0 else (e + n if n > 0 else e - (-n))
