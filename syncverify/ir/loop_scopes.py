"""Loop variables with names of their own, for analyses that look at names alone.

A register may have the name of a loop elsewhere: ``let s = lane`` in one role, ``for s in 0..4`` in another.
In the loop's body the name is the loop's variable, which nothing sets there. Behind the loop the register may
hold the variable's last value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from syncverify.ir.evaluate import bodies, expressions, statements
from syncverify.ir.expr import Expr, Var, names, substitute
from syncverify.ir.nodes import (
    Assign,
    BarrierRef,
    Elect,
    For,
    GlobalRegion,
    If,
    Kernel,
    Let,
    LoadIndex,
    Region,
    Role,
    Stmt,
)

Body = tuple[Stmt, ...]


def with_own_loops(kernel: Kernel) -> Kernel:
    """The kernel with new names for loop variables that share theirs with registers; itself where none does.

    Its text is for analyses of names, not to be run.
    """
    loops = {s.var for s in statements(kernel.body) if isinstance(s, For)}
    registers = {name for s in statements(kernel.body) for name in _set_by(s)}
    shared = frozenset(loops & registers)
    if not shared:
        return kernel
    kept = frozenset(_left_over(kernel.body, shared, frozenset()))
    return replace(kernel, body=_Renaming(shared, kept).body(kernel.body, {}))


def _set_by(s: Stmt) -> tuple[str, ...]:
    """Names that a statement may set; too many are none too few."""
    found = (getattr(s, "name", None), getattr(s, "token", None))
    return () if isinstance(s, Role) else tuple(x for x in found if isinstance(x, str))


def _left_over(body: Body, shared: frozenset[str], set_before: frozenset[str]) -> set[str]:
    """The names that are read where no block around has set them: a loop may have left a value in them."""
    found: set[str] = set()
    for s in body:
        read = {x for f in fields(s) for e in expressions(getattr(s, f.name), (Stmt,)) for x in names(e)}
        found |= (read & shared) - set_before
        inside = set_before
        match s:
            case For(var=var):
                found |= {var} & set_before & shared
                inside = set_before | {var}
            case Let(name=name) | LoadIndex(name=name) | Elect(name=name):
                set_before |= {name}
        for inner in bodies(s):
            found |= _left_over(inner, shared, inside)
    return found


@dataclass
class _Renaming:
    """Gives new names to loops that share theirs with a register.

    ``kept``: names whose register is given the loop's last value behind it, as it may be read there.
    """

    shared: frozenset[str]
    kept: frozenset[str]
    count: int = 0

    def body(self, body: Body, own: Mapping[str, Expr]) -> Body:
        """``own``: what the variables of the loops around are called."""
        return tuple(x for s in body for x in self._statement(s, own))

    def _statement(self, s: Stmt, own: Mapping[str, Expr]) -> Body:
        match s:
            case For(var=var) if var in self.shared:
                self.count += 1
                name = f"{var}'{self.count}"  # no name in a text has such a mark
                inner = self.body(s.body, {**own, var: Var(name)})
                loop = replace(_put(replace(s, body=()), own), var=name, body=inner)
                return (loop, Assign(var, Var(name), span=s.span)) if var in self.kept else (loop,)
            case For() | Role():
                return (replace(_put(replace(s, body=()), own), body=self.body(s.body, own)),)
            case If():
                head = _put(replace(s, then=(), orelse=()), own)
                return (replace(head, then=self.body(s.then, own), orelse=self.body(s.orelse, own)),)
        return (_put(s, own),)


def _put(x: Any, own: Mapping[str, Expr]) -> Any:
    """A statement, or a part of one, that names the loops around by their own names."""
    if not own:
        return x
    if isinstance(x, Expr):
        return substitute(x, own)
    if isinstance(x, Stmt | Region | BarrierRef | GlobalRegion):
        return replace(x, **{f.name: _put(getattr(x, f.name), own) for f in fields(x)})
    if isinstance(x, tuple):
        return tuple(_put(y, own) for y in x)
    return x


__all__ = ["with_own_loops"]
