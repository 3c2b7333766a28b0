"""Lark's callbacks for declarations, kernels and the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from syncverify.ir import nodes
from syncverify.ir.expr import Expr, Int
from syncverify.ir.text.forms import did_you_mean
from syncverify.ir.text.statements import Option, StatementBuild

if TYPE_CHECKING:
    from lark import Token

    Child = Any


class _Item(NamedTuple):
    """A header item; ``field`` is the field of Kernel that it belongs to."""

    field: str
    token: Token
    value: Any


class KernelBuild(StatementBuild):
    """The rules above statements."""

    def shape(self, c: list[Child]) -> tuple[Expr, ...]:
        return tuple(c)

    def align(self, c: list[Child]) -> Option:
        return Option("align", self.integer(c[0]))

    def offset(self, c: list[Child]) -> Option:
        return Option("offset", c[0])

    def swizzle(self, c: list[Child]) -> Option:
        return Option("swizzle", str(c[0]))

    def dims(self, c: list[Child]) -> Option:
        word, sizes = c[0], c[1:]
        if len(sizes) > 3:
            raise self.error(f"{word} takes one to three numbers", word)
        padded = tuple(sizes) + (Int(1),) * (3 - len(sizes))
        return Option(str(word), padded if word == "grid" else self._numbers(padded, word))

    def registers(self, c: list[Child]) -> Option:
        return Option("registers", self.integer(c[1]))

    def arch(self, c: list[Child]) -> _Item:
        return _Item("arch", c[0], str(c[1]))

    def launch(self, c: list[Child]) -> _Item:
        parts = [x if isinstance(x, Option) else Option(str(x), True) for x in c[1:]]
        return _Item("launch", c[0], nodes.Launch(**self._options(parts, c[0]), span=self.span(c[0])))

    def param(self, c: list[Child]) -> _Item:
        default = None
        if len(c) == 4:
            if not isinstance(c[3], Int):
                raise self.error(f"the value of parameter {c[1]} must be a number", c[1])
            default = c[3].value
        dtype: Any = str(c[2])
        if dtype not in ("i32", "i64", "u32", "u64"):
            raise self.error(f"a parameter is of type i32, i64, u32 or u64, not {dtype}", c[2])
        return _Item("params", c[1], nodes.Param(self.declared(c[1]), dtype, default, span=self.span(c[0])))

    def assume(self, c: list[Child]) -> _Item:
        return _Item("assumes", c[0], c[1])

    def tensor(self, c: list[Child]) -> _Item:
        mode: Any = str(c[4])
        t = nodes.Tensor(self.declared(c[1]), self._dtype(c[2]), c[3], mode, span=self.span(c[0]))
        return _Item("tensors", c[1], t)

    def tensormap(self, c: list[Child]) -> _Item:
        box = self._numbers(c[3], c[1])
        options = self._options(c[4:], c[1])
        m = nodes.TensorMap(self.declared(c[1]), str(c[2]), box, **options, span=self.span(c[0]))
        return _Item("maps", c[1], m)

    def shared(self, c: list[Child]) -> _Item:
        options = self._options(c[4:], c[1])
        s = nodes.Shared(self.declared(c[1]), self._dtype(c[2]), c[3], **options, span=self.span(c[0]))
        return _Item("shared", c[1], s)

    def mbarrier(self, c: list[Child]) -> _Item:
        rest = list(c[2:])
        count: Expr = Int(1)
        if rest and not isinstance(rest[0], Option):
            shape = rest.pop(0)
            if len(shape) != 1:
                raise self.error("a barrier array has one dimension", c[1])
            count = shape[0]
        options = self._options(rest, c[1])
        return _Item(
            "barriers", c[1], nodes.Barrier(self.declared(c[1]), count, **options, span=self.span(c[0]))
        )

    def fragment(self, c: list[Child]) -> _Item:
        shape = self._numbers(c[3], c[1])
        self.fragments.add(str(c[1]))
        f = nodes.Fragment(self.declared(c[1]), self._dtype(c[2]), shape, span=self.span(c[0]))
        return _Item("fragments", c[1], f)

    def _dtype(self, name: Token) -> str:
        if name not in nodes.DTYPE_BYTES:
            hint = did_you_mean(name, list(nodes.DTYPE_BYTES))
            raise self.error(f"there is no type {name}{hint}", name)
        return str(name)

    def _numbers(self, exprs: tuple[Expr, ...], at: Token) -> tuple[int, ...]:
        out: list[int] = []
        for e in exprs:
            if not isinstance(e, Int):
                raise self.error(f"the sizes of {at} must be numbers", at)
            out.append(e.value)
        return tuple(out)

    def _options(self, options: list[Option], at: Token) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for o in options:
            if o.word in out:
                raise self.error(f"{o.word} is given twice", at)
            out[o.word] = o.value
        return out

    # ------------------------------------------------------------ kernels

    def kernel(self, c: list[Child]) -> tuple[Token, nodes.Kernel]:
        first, name, last = c[0], c[1], c[-1]
        body: list[nodes.Stmt] = []
        lists: dict[str, list[Any]] = {}
        single: dict[str, Any] = {}
        declared: dict[str, Token] = {}
        for x in c[2:-1]:
            if isinstance(x, nodes.Stmt):
                body.append(x)
                continue
            if body:
                raise self.error("a declaration stands before the first statement of its kernel", x.token)
            if x.field in ("arch", "launch"):
                if x.field in single:
                    raise self.error(f"{x.field} is given twice", x.token)
                single[x.field] = x.value
                continue
            if x.field == "assumes":
                lists.setdefault("assume_spans", []).append(self.span(x.token))
            else:
                if x.token in declared:
                    raise self.error(f"{x.token} is declared twice", x.token)
                declared[x.token] = x.token
            lists.setdefault(x.field, []).append(x.value)
        groups: dict[str, Any] = {k: tuple(v) for k, v in lists.items()}
        span = self.block_span(first, last)
        self.fragments = set()
        return name, nodes.Kernel(str(name), body=tuple(body), **groups, **single, span=span)

    def start(self, c: list[Child]) -> tuple[nodes.Kernel, ...]:
        seen: set[str] = set()
        for name, k in c:
            if k.name in seen:
                raise self.error(f"there are two kernels named {name}", name)
            seen.add(k.name)
        return tuple(k for _, k in c)
