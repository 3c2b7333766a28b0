"""One loop for each role, instead of one loop that all roles share."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import is_
from typing import Any

from syncverify.ir.expr import Binary, Expr, Int, names
from syncverify.ir.nodes import BarrierRef, For, GlobalRegion, Kernel, Let, Region, Role, Stmt
from syncverify.passes.rewrite import Body, walk
from syncverify.passes.roles import merge_roles


@dataclass(frozen=True)
class Distribute:
    """A loop of nothing but roles goes into each of them, with the registers that the role reads."""

    name: str = "distribute"

    def apply(self, kernel: Kernel) -> Kernel:
        body: list[Stmt] = []
        for s in kernel.body:
            body += _distributed(s)
        return replace(kernel, body=merge_roles(tuple(body)))


def _distributed(s: Stmt) -> list[Stmt]:
    if not isinstance(s, For):
        return [s]
    roles = _roles(s.body)
    if not roles:
        return [s]
    return [replace(r, body=(_share(s, key),)) for key, r in roles.items()]


def _key(r: Role) -> object:
    return r.name, r.unit, r.lo, r.hi


def _roles(body: Body) -> dict[object, Role]:
    """The outermost roles of a body; none where something but loops and registers stands beside them."""
    found: dict[object, Role] = {}
    for x in body:
        match x:
            case Role():
                found.setdefault(_key(x), x)
            case For(body=inner):
                deeper = _roles(inner)
                if not deeper:
                    return {}
                found = {**deeper, **found}
            case Let():
                pass
            case _:
                return {}
    return found


def _share(loop: For, key: object) -> For:
    """The loop with what one role does in it, and the registers that this reads."""
    body: list[Stmt] = []
    for x in loop.body:
        match x:
            case Role() if _key(x) == key:
                body += x.body
            case For():
                inner = _share(x, key)
                if any(not isinstance(y, Let) for y in inner.body):
                    body.append(inner)
            case Let():
                body.append(x)
    return replace(loop, body=_read(tuple(body)))


def _read(body: Body) -> Body:
    """Without the registers of this body that nothing in it reads."""
    wanted: set[str] = set()
    kept: list[Stmt] = []
    for x in reversed(body):
        if isinstance(x, Let) and x.name not in wanted:
            continue
        kept.append(x)
        wanted |= set().union(*[read_names(s) for s in walk((x,))])
    return tuple(reversed(kept))


def read_names(x: Any) -> set[str]:
    """Every name in the expressions of one statement."""
    found: set[str] = set()
    if isinstance(x, Expr):
        return set(names(x))
    if isinstance(x, Stmt | Region | BarrierRef | GlobalRegion):
        for name in _fields(x):
            found |= read_names(getattr(x, name))
    elif isinstance(x, tuple):
        for y in x:
            found |= read_names(y)
    return found


@dataclass(frozen=True)
class Tidy:
    """Slots of rings of one, and of rings that are used once, without arithmetic that comes to nothing."""

    name: str = "tidy"

    def apply(self, kernel: Kernel) -> Kernel:
        single = {b.name for b in kernel.barriers if b.count == Int(1)}
        return replace(kernel, body=_rewritten(kernel.body, single))


_FIELDS: dict[Any, tuple[str, ...]] = {}


def _fields(x: Any) -> tuple[str, ...]:
    """The fields of a node that may hold expressions."""
    found = _FIELDS.get(type(x))
    if found is None:
        found = _FIELDS[type(x)] = tuple(f.name for f in fields(x) if f.name != "span")
    return found


def _rewritten(x: Any, single: set[str]) -> Any:
    if isinstance(x, Expr):
        return folded(x)
    if isinstance(x, BarrierRef) and x.name in single and x.index is not None and folded(x.index) == Int(0):
        return replace(x, index=None, rank=None if x.rank is None else folded(x.rank))
    if isinstance(x, Stmt | Region | BarrierRef | GlobalRegion):
        old = {name: getattr(x, name) for name in _fields(x)}
        new = {name: _rewritten(value, single) for name, value in old.items()}
        changed = {name: value for name, value in new.items() if value is not old[name]}
        return replace(x, **changed) if changed else x
    if isinstance(x, tuple):
        each = tuple(_rewritten(y, single) for y in x)
        return x if all(map(is_, x, each)) else each
    return x


def folded(e: Expr) -> Expr:
    """The expression with quotients and remainders by one, and arithmetic of numbers, worked out."""
    match e:
        case Binary(op, a, b):
            left, right = folded(a), folded(b)
            match op, left, right:
                case "%", _, Int(1):
                    return Int(0)
                case "//", _, Int(1):
                    return left
                case "+" | "-" | "*" | "//" | "%", Int(x), Int(y) if y or op in "+-*":
                    return Int(
                        {"+": x + y, "-": x - y, "*": x * y}.get(
                            op, 0 if not y else (x // y if op == "//" else x % y)
                        )
                    )
                case "+", Int(0), _:
                    return right
                case "+", _, Int(0):
                    return left
            return e if (left, right) == (a, b) else Binary(op, left, right)
    return e
