"""Kernels from Python: blocks are ``with`` statements, methods are mnemonics, places are the caller's lines.

k = KernelBuilder("copy", block=128)
a = k.tensor("a", "f32", [128], "in")
tile, full = k.shared("tile", "f32", [128]), k.mbarrier("full")
with k.if_(tid.eq(0)):
    k.mbarrier_init(full, 1)
k.bar_sync(0)
...
kernel = k.build()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Generic, Literal, TypeVar

from syncverify.base.source import InputError
from syncverify.ir import nodes
from syncverify.ir.builder import handles as h
from syncverify.ir.builder.operations import Operations
from syncverify.ir.check.rules import usable
from syncverify.ir.check.wait_cycles import reject_cyclic_waits
from syncverify.ir.check.well_formed import verify
from syncverify.ir.expr import Call, Expr, ExprLike, Int, Var, as_expr

tid, warp, lane, wg, rank, block, grid = map(Var, ("tid", "warp", "lane", "wg", "rank", "block", "grid"))

T = TypeVar("T")
Swizzle = Literal["none", "32B", "64B", "128B"]


def cdiv(a: ExprLike, b: ExprLike) -> Expr:
    """The quotient rounded up."""
    return Call("cdiv", (as_expr(a), as_expr(b)))


def select(condition: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """``a`` where the condition holds, else ``b``."""
    return Call("select", (as_expr(condition), as_expr(a), as_expr(b)))


class Block(Generic[T]):
    """A ``with`` block; leaving it adds its statement to the block around it."""

    def __init__(self, builder: KernelBuilder, what: str, stmt: nodes.Stmt, value: T) -> None:
        self._builder = builder
        self._value = value
        self.what = what
        self.stmt = stmt
        self.body: list[nodes.Stmt] = []

    def __enter__(self) -> T:
        self._builder._enter(self)
        return self._value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._builder._leave(self, failed=kind is not None)


class KernelBuilder(Operations):
    """Collects one kernel; ``build`` verifies it."""

    def __init__(
        self,
        name: str,
        *,
        grid: ExprLike | Sequence[ExprLike] = 1,
        block: int | Sequence[int] = 128,
        cluster: int | Sequence[int] = 1,
        registers: int | None = None,
        cooperative: bool = False,
        dependent: bool = False,
        arch: str = "sm_90a",
    ) -> None:
        wide = grid if isinstance(grid, Sequence) else [grid]
        g = [h.expression(x) for x in wide]
        b = list(block) if isinstance(block, Sequence) else [block]
        c = list(cluster) if isinstance(cluster, Sequence) else [cluster]
        if len(g) > 3 or len(b) > 3 or len(c) > 3:
            raise h.misuse("grid, block and cluster have one to three sizes")
        pad = Int(1)
        launch = nodes.Launch(
            (g[0], g[1] if len(g) > 1 else pad, g[2] if len(g) > 2 else pad),
            (b[0], b[1] if len(b) > 1 else 1, b[2] if len(b) > 2 else 1),
            (c[0], c[1] if len(c) > 1 else 1, c[2] if len(c) > 2 else 1),
            registers,
            cooperative,
            dependent,
            span=h.caller(),
        )
        self._kernel = nodes.Kernel(name, launch, arch=arch, span=h.caller())
        self._body: list[nodes.Stmt] = []
        self._open: list[Block[object]] = []
        self._unentered: Block[object] | None = None
        self._names: set[str] = set()

    # ------------------------------------------------------------ declarations

    def param(
        self, name: str, dtype: Literal["i32", "i64", "u32", "u64"] = "i64", default: int | None = None
    ) -> Var:
        """An integer parameter; ``default`` is its value in an exact check that gives no other."""
        p = nodes.Param(self._declare(name), dtype, default, span=h.caller())
        self._kernel = replace(self._kernel, params=(*self._kernel.params, p))
        return Var(name)

    def assume(self, fact: ExprLike) -> None:
        self._kernel = replace(self._kernel, assumes=(*self._kernel.assumes, h.expression(fact)))

    def tensor(
        self, name: str, dtype: str, shape: Sequence[ExprLike], mode: Literal["in", "out", "inout"]
    ) -> h.TensorHandle:
        t = nodes.Tensor(self._declare(name), dtype, tuple(map(h.expression, shape)), mode, span=h.caller())
        self._kernel = replace(self._kernel, tensors=(*self._kernel.tensors, t))
        return h.TensorHandle(name)

    def tensormap(
        self, name: str, tensor: h.TensorHandle, box: Sequence[int], swizzle: Swizzle = "none"
    ) -> h.MapHandle:
        if not isinstance(tensor, h.TensorHandle):
            raise h.misuse(f"a tensor map is of a tensor, not of {h.describe(tensor)}")
        m = nodes.TensorMap(self._declare(name), tensor.name, tuple(box), swizzle, span=h.caller())
        self._kernel = replace(self._kernel, maps=(*self._kernel.maps, m))
        return h.MapHandle(name)

    def shared(
        self,
        name: str,
        dtype: str,
        shape: Sequence[ExprLike],
        *,
        align: int = 128,
        offset: ExprLike | None = None,
        swizzle: Swizzle = "none",
    ) -> h.SharedHandle:
        sizes = tuple(map(h.expression, shape))
        s = nodes.Shared(
            self._declare(name), dtype, sizes, align, h.optional(offset), swizzle, span=h.caller()
        )
        self._kernel = replace(self._kernel, shared=(*self._kernel.shared, s))
        return h.SharedHandle(name)

    def mbarrier(self, name: str, count: ExprLike = 1, *, offset: ExprLike | None = None) -> h.BarrierHandle:
        b = nodes.Barrier(self._declare(name), h.expression(count), h.optional(offset), span=h.caller())
        self._kernel = replace(self._kernel, barriers=(*self._kernel.barriers, b))
        return h.BarrierHandle(nodes.BarrierRef(name))

    def fragment(self, name: str, dtype: str, shape: Sequence[int]) -> h.FragmentHandle:
        f = nodes.Fragment(self._declare(name), dtype, tuple(shape), span=h.caller())
        self._kernel = replace(self._kernel, fragments=(*self._kernel.fragments, f))
        return h.FragmentHandle(name)

    # ------------------------------------------------------------ blocks

    def for_(
        self, name: str, lo: ExprLike, hi: ExprLike, step: ExprLike = 1, unroll: int | None = None
    ) -> Block[Var]:
        """A loop: ``with k.for_("i", 0, n) as i:``."""
        bounds = h.expression(lo), h.expression(hi), h.expression(step)
        stmt = nodes.For(self._register(name), *bounds, (), unroll, span=h.caller())
        return self._block(Block(self, f"for {name}", stmt, Var(name)))

    def if_(self, condition: ExprLike) -> Block[None]:
        stmt = nodes.If(h.expression(condition), (), span=h.caller())
        return self._block(Block(self, "if", stmt, None))

    def else_(self) -> Block[None]:
        """Follows the ``with`` block of an ``if_`` directly."""
        self._check_entered()
        body = self._here()
        last = body[-1] if body else None
        if not isinstance(last, nodes.If) or last.orelse:
            raise h.misuse("else_ follows the block of an if_")
        return self._block(Block(self, "else", last, None))

    def role(
        self,
        name: str,
        *,
        threads: tuple[ExprLike, ExprLike] | None = None,
        warps: tuple[ExprLike, ExprLike] | None = None,
        warpgroups: tuple[ExprLike, ExprLike] | None = None,
    ) -> Block[None]:
        """``with k.role("producer", warps=(4, 5)):``; the end is not part of the range."""
        units: dict[Literal["threads", "warps", "warpgroups"], tuple[ExprLike, ExprLike] | None] = {
            "threads": threads, "warps": warps, "warpgroups": warpgroups,
        }  # fmt: skip
        given = [(unit, x) for unit, x in units.items() if x is not None]
        if len(given) != 1:
            raise h.misuse("a role is a range of threads, of warps or of warpgroups")
        unit, (lo, hi) = given[0]
        stmt = nodes.Role(name, unit, h.expression(lo), h.expression(hi), (), span=h.caller())
        return self._block(Block(self, f"role {name}", stmt, None))

    # ------------------------------------------------------------ the result

    def build(self, check_waits: bool = True) -> nodes.Kernel:
        """The verified kernel. ``check_waits=False`` lets waits pass that evidently wait for each other."""
        self._check_entered()
        if self._open:
            at = self._open[-1]
            message = f"the block of {at.what} is not closed; build after its with block"
            raise InputError(message, at.stmt.span)
        kernel = replace(self._kernel, body=tuple(self._body))
        verify(kernel)
        if check_waits:
            reject_cyclic_waits(kernel)
        return kernel

    # ------------------------------------------------------------ for Operations and Block

    def add(self, stmt: nodes.Stmt) -> None:
        """Appends a statement to the open block."""
        self._check_entered()
        self._here().append(stmt)

    def fresh(self, name: str | None, prefix: str) -> str:
        """The name, or the first unused one of the prefix."""
        if name is not None:
            return self._register(name)
        number = 0
        while (made := f"{prefix}{number}") in self._names:
            number += 1
        return self._register(made)

    def _here(self) -> list[nodes.Stmt]:
        return self._open[-1].body if self._open else self._body

    def _register(self, name: str) -> str:
        if not isinstance(name, str) or not usable(name):
            raise h.misuse(f"{name!r} cannot be a name here")
        self._names.add(name)
        return name

    def _declare(self, name: str) -> str:
        if self._body or self._open:
            raise h.misuse(f"declare {name} before the first statement")
        if name in self._names:
            raise h.misuse(f"{name} is declared twice")
        return self._register(name)

    def _block(self, block: Block[T]) -> Block[T]:
        self._check_entered()
        self._unentered = block  # type: ignore[assignment]
        return block

    def _check_entered(self) -> None:
        at = self._unentered
        if at is not None:
            message = f"the block of {at.what} was never entered; it needs a with statement"
            raise InputError(message, at.stmt.span)

    def _enter(self, block: Block[T]) -> None:
        self._unentered = None
        self._open.append(block)  # type: ignore[arg-type]

    def _leave(self, block: Block[T], failed: bool) -> None:
        if not failed:
            self._check_entered()
        self._open.pop()
        if failed:
            return
        body = tuple(block.body)
        match block.stmt:
            case nodes.If() as s if block.what == "else":
                self._here()[-1] = replace(s, orelse=body)
            case nodes.If() as s:
                self._here().append(replace(s, then=body))
            case nodes.For() | nodes.Role() as s:
                self._here().append(replace(s, body=body))
