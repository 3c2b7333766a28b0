"""Sums ``t * K + k`` of two loops as what they are: how many turns the inner loop has had.

``for t in 0..T { for k in 0..K { .. t * K + k .. } }`` runs through 0, 1, 2, ...: a register that counts says
the same, without a product of sizes, and whatever K is in each iteration of the outer loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from syncverify.ir import nodes as n
from syncverify.ir.evaluate import expressions, once_named, statements, terms
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var, children, names, substitute, walk

Body = tuple[n.Stmt, ...]


def with_flat_counters(kernel: n.Kernel) -> n.Kernel:
    """The kernel with registers instead of such sums, where more than data in global memory depends on them.

    As it is where other products of sizes are left: these would not be related to the counts.
    """
    body = _Counted(kernel).of(kernel.body)
    sizes = {p.name for p in kernel.params}
    every = list(statements(body))
    read = frozenset[str]().union(*(names(e) for s in every for e in _steering(s)))
    steering = (e for s in every if not isinstance(s, n.Let) or s.name in read for e in _steering(s))
    return (
        kernel if any(_product(x, sizes) for e in steering for x in walk(e)) else replace(kernel, body=body)
    )


def _product(e: Expr, sizes: set[str]) -> bool:
    """Whether a size is multiplied by something else than numbers."""
    return (
        isinstance(e, Binary)
        and e.op == "*"
        and bool(names(e) & sizes)
        and min(map(len, map(names, children(e)))) > 0
    )


@dataclass(frozen=True, slots=True)
class _Flat:
    """One such sum: of an outer variable, an inner one and the inner loop's end."""

    outer: str
    inner: str
    size: Expr
    count: str
    known: Mapping[str, Expr]  # what names represent that the outer loop gives a value

    def of(self, e: Expr) -> Expr:
        """An expression with the count in place of the sum."""
        if not names(e) & ({self.outer} | self.known.keys()):
            return e
        parts = [*terms(substitute(e, self.known), 1)]
        for factor in {f for f, x in parts if x == Var(self.inner)}:
            for product in self.products():
                if (factor, product) in parts:
                    parts.remove((factor, product))
                    parts.remove((factor, Var(self.inner)))
                    return _total([(factor, Var(self.count)), *((f, self.of(x)) for f, x in parts)])
        match e:
            case Unary(op, a):
                return Unary(op, self.of(a))
            case Binary(op, a, b):
                return Binary(op, self.of(a), self.of(b))
            case Call(name, args):
                return Call(name, tuple(map(self.of, args)))
        return e

    def products(self) -> tuple[Expr, Expr]:
        return Binary("*", Var(self.outer), self.size), Binary("*", self.size, Var(self.outer))


@dataclass(slots=True)
class _Counted:
    """Rewrites the loops of a kernel, from outside."""

    kernel: n.Kernel
    counts: int = 0

    def of(self, body: Body) -> Body:
        out: list[n.Stmt] = []
        for s in body:
            if isinstance(s, n.For):
                found, s = self.loop(s)
                out += found
            out.append(_within(s, self.of))
        return tuple(out)

    def loop(self, outer: n.For) -> tuple[list[n.Stmt], n.For]:
        """A loop, its inner loops rewritten, and what goes before it."""
        before: list[n.Stmt] = []
        if not _from_zero(outer):
            return before, outer
        body: list[n.Stmt] = []
        for i, s in enumerate(outer.body):
            if isinstance(s, n.For) and self.fits(outer, s):
                known = self.known(outer, i)
                flat = _Flat(outer.var, s.var, s.hi, f"{outer.var} {s.var} {self.counts}", known)
                if any(flat.of(e) != e for x in statements(s.body) for e in _steering(x)):
                    self.counts += 1
                    step = n.Assign(flat.count, Var(flat.count) + 1, span=s.span)
                    before.append(n.Let(flat.count, Int(0), span=outer.span))
                    s = replace(s, body=(*_rewritten(s.body, flat.of), step))
            body.append(s)
        return before, replace(outer, body=tuple(body))

    def known(self, outer: n.For, before: int) -> dict[str, Expr]:
        """Names that the outer loop gives a value before a statement, of its variable and parameters."""
        once, allowed = once_named(self.kernel.body), self.parameters | {outer.var}
        lets = [s for s in outer.body[:before] if isinstance(s, n.Let)]
        return {s.name: s.value for s in lets if s.name in once and names(s.value) <= allowed}

    def fits(self, outer: n.For, inner: n.For) -> bool:
        """Whether the inner loop has as many iterations in each iteration of the outer one: a size."""
        given = [getattr(x, "name", None) for x in statements(inner.body)]
        given += [x.var for x in statements(inner.body) if isinstance(x, n.For)]
        sizes = names(inner.hi)
        return (
            _from_zero(inner)
            and bool(sizes)
            and sizes <= self.parameters
            and outer.var != inner.var
            and not {outer.var, inner.var} & set(given)
            and not {outer.var} & {getattr(x, "name", None) for x in statements(outer.body)}
        )

    @property
    def parameters(self) -> frozenset[str]:
        """Parameters whose names nothing else has."""
        taken = {getattr(s, "name", None) for s in statements(self.kernel.body)}
        taken |= {s.var for s in statements(self.kernel.body) if isinstance(s, n.For)}
        return frozenset(p.name for p in self.kernel.params) - taken


def _from_zero(loop: n.For) -> bool:
    return loop.lo == Int(0) and loop.step == Int(1)


def _total(parts: list[tuple[int, Expr]]) -> Expr:
    """A sum, written plainly."""
    out: Expr | None = None
    for factor, x in parts:
        one = (
            Int(factor * x.value) if isinstance(x, Int) else x if factor == 1 else Binary("*", x, Int(factor))
        )
        out = one if out is None else Binary("+", out, one)
    return out or Int(0)


def _steering(s: n.Stmt) -> Iterator[Expr]:
    """The expressions of one statement that more than data depends on."""
    if isinstance(s, n.Compute):
        return
    for f in fields(s):
        if f.name not in ("coords", "body", "then", "orelse"):
            yield from expressions(getattr(s, f.name), (n.GlobalRegion,))


def _within(s: n.Stmt, f: Callable[[Body], Body]) -> n.Stmt:
    """A statement with the statements in it rewritten."""
    if isinstance(s, n.If):
        return replace(s, then=f(s.then), orelse=f(s.orelse))
    return replace(s, body=f(s.body)) if isinstance(s, n.For | n.Role) else s


def _rewritten(body: Body, f: Callable[[Expr], Expr]) -> Body:
    """Statements with every expression in them rewritten."""

    def of(x: Any) -> Any:
        if isinstance(x, Expr):
            return f(x)
        if isinstance(x, tuple):
            return tuple(map(of, x))
        if isinstance(x, n.Stmt | n.Region | n.BarrierRef | n.GlobalRegion):
            return replace(x, **{i.name: of(getattr(x, i.name)) for i in fields(x)})
        return x

    return tuple(map(of, body))


__all__ = ["with_flat_counters"]
