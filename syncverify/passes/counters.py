"""Uses of rings that go on from one round of an outer loop to the next, counted in a register of the role."""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.ir.expr import Binary, Expr, Int, Var
from syncverify.ir.nodes import Assign, For, If, Kernel, Let, Role, Stmt
from syncverify.passes.rewrite import Body, replaced_expr, with_bodies


@dataclass(frozen=True)
class CountUses:
    """``t * K + i`` in a loop over ``i`` of ``K`` rounds, inside one over ``t``, becomes a register.

    It is raised by one at the end of each inner round: a multiplication less, and a loop in a form that is
    proved for every size, for nothing is left that is not linear.
    """

    register: str = "use"
    name: str = "count-uses"

    def apply(self, kernel: Kernel) -> Kernel:
        return replace(kernel, body=tuple(self._in_role(s) for s in kernel.body))

    def _in_role(self, s: Stmt) -> Stmt:
        if not isinstance(s, Role):
            return s
        body = self._counted(s.body, None)
        return s if body == s.body else replace(s, body=(Let(self.register, Int(0)), *body))

    def _counted(self, body: Body, outer: For | None) -> Body:
        result: list[Stmt] = []
        for s in body:
            match s:
                case For():
                    inner = replace(s, body=self._counted(s.body, s))
                    number = None if outer is None else _number(outer, s)
                    counted = inner if number is None else _replaced(inner, number, Var(self.register))
                    if counted != inner:
                        more = Assign(self.register, Var(self.register) + 1)
                        counted = replace(counted, body=(*counted.body, more))
                    result.append(counted)
                case If():
                    result.append(with_bodies(s, lambda b: self._counted(b, outer)))
                case _:
                    result.append(s)
        return tuple(result)


def _number(outer: For, inner: For) -> Expr | None:
    """The number of an inner round, counted over all outer ones, where both loops count from 0 by 1."""
    plain = all(x.lo == Int(0) and x.step == Int(1) for x in (outer, inner))
    return Binary("+", Binary("*", Var(outer.var), inner.hi), Var(inner.var)) if plain else None


def _replaced(loop: For, old: Expr, new: Expr) -> For:
    changed = replaced_expr(loop, old, new)
    assert isinstance(changed, For)
    return changed
