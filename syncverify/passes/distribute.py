"""One loop for each role, instead of one loop that all roles share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from syncverify.ir.expr import Binary, Expr, Int, names
from syncverify.ir.nodes import BarrierRef, For, GlobalRegion, Kernel, Let, Region, Role, Stmt
from syncverify.passes.rewrite import Body, flat_map, walk
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
    if not isinstance(s, For) or not all(isinstance(x, Role | Let) for x in s.body):
        return [s]
    roles: dict[object, Role] = {}
    for x in s.body:
        if isinstance(x, Role):
            key = (x.name, x.unit, x.lo, x.hi)
            old = roles.get(key)
            roles[key] = x if old is None else replace(old, body=old.body + x.body)
    if not roles:
        return [s]
    lets = tuple(x for x in s.body if isinstance(x, Let))
    return [replace(r, body=(replace(s, body=(*_read(lets, r.body), *r.body)),)) for r in roles.values()]


def _read(lets: tuple[Let, ...], body: Body) -> tuple[Let, ...]:
    """The registers that a body reads, and those that they are made of."""
    wanted = set().union(*[read_names(s) for s in walk(body)])
    kept: list[Let] = []
    for x in reversed(lets):
        if x.name in wanted:
            kept.append(x)
            wanted |= names(x.value)
    return tuple(reversed(kept))


def read_names(x: Any) -> set[str]:
    """Every name in the expressions of one statement."""
    from dataclasses import fields

    found: set[str] = set()
    if isinstance(x, Expr):
        return set(names(x))
    if isinstance(x, Stmt | Region | BarrierRef | GlobalRegion):
        for f in fields(x):
            found |= read_names(getattr(x, f.name))
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

        def tidied(s: Stmt) -> tuple[Stmt, ...]:
            return (_rewritten(s, single),)

        return replace(kernel, body=flat_map(kernel.body, tidied))


def _rewritten(x: Any, single: set[str]) -> Any:
    from dataclasses import fields

    if isinstance(x, Expr):
        return folded(x)
    if isinstance(x, BarrierRef) and x.name in single and x.index is not None and folded(x.index) == Int(0):
        return replace(x, index=None, rank=None if x.rank is None else folded(x.rank))
    if isinstance(x, Stmt | Region | BarrierRef | GlobalRegion):
        changed = {f.name: _rewritten(getattr(x, f.name), single) for f in fields(x) if f.name != "span"}
        return replace(x, **changed)
    if isinstance(x, tuple):
        return tuple(_rewritten(y, single) for y in x)
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
