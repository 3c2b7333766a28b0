"""Well-formed declarations: launch shape, names, types, tensor maps, fragments."""

from __future__ import annotations

from collections.abc import Iterable

from syncverify.base.source import Span
from syncverify.ir import nodes
from syncverify.ir.check.rules import (
    CLUSTER_LIMIT,
    REGISTER_FILE,
    THREAD_LIMIT,
    TMA_BOX,
    TMA_RANK,
    Checks,
    constant,
    usable,
)
from syncverify.ir.expr import BUILTINS, Expr, names

ARCHS = ("sm_90", "sm_90a")
BLOCK_LIMITS = (1024, 1024, 64)
GRID_LIMITS = (2**31 - 1, 65535, 65535)
SWIZZLES = ("none", "32B", "64B", "128B")


def check(c: Checks) -> None:
    """Everything before the first statement."""
    k = c.kernel
    if k.arch not in ARCHS:
        c.error(f"kernel {k.name} is for {k.arch}; known are {' and '.join(ARCHS)}", k.span)
    if not k.name.isidentifier() or not k.name.isascii():
        c.error(f"{k.name!r} cannot be the name of a kernel", k.span)
    _names(c)
    for p in k.params:
        c.registers[p.name] = "integer"
    _launch(c, k.launch)
    for fact in k.assumes:
        c.integer(fact, k.span)
    for t in k.tensors:
        _tensor(c, t)
    for m in k.maps:
        _map(c, m)
    for s in k.shared:
        _shared(c, s)
    for b in k.barriers:
        _barrier(c, b)
    for f in k.fragments:
        _fragment(c, f)


def _below(sizes: Iterable[Expr], least: int) -> bool:
    """Whether some size is a number, and a smaller one."""
    return any((size := constant(e)) is not None and size < least for e in sizes)


def _tensor(c: Checks, t: nodes.Tensor) -> None:
    _dtype(c, t.dtype, t.span)
    for e in t.shape:
        c.integer(e, t.span)
    if not t.shape:
        c.error(f"tensor {t.name} has no dimension", t.span)
    if _below(t.shape, 0):
        c.error(f"the sizes of tensor {t.name} must not be negative", t.span)


def _shared(c: Checks, s: nodes.Shared) -> None:
    _dtype(c, s.dtype, s.span)
    _swizzle(c, s.swizzle, s.span)
    if not s.shape:
        c.error(f"shared {s.name} has no dimension", s.span)
    for e in (*s.shape, *([] if s.offset is None else [s.offset])):
        _uniform(c, e, f"shared {s.name}", s.span)
    if _below(s.shape, 1):
        c.error(f"the sizes of shared {s.name} must be at least 1", s.span)
    if s.align < 1 or s.align & (s.align - 1):
        c.error(f"the alignment of shared {s.name} must be a power of two, not {s.align}", s.span)


def _barrier(c: Checks, b: nodes.Barrier) -> None:
    for e in (b.count, *([] if b.offset is None else [b.offset])):
        _uniform(c, e, f"mbarrier {b.name}", b.span)
    if _below([b.count], 1):
        c.error(f"the count of mbarrier {b.name} must be at least 1", b.span)


def _fragment(c: Checks, f: nodes.Fragment) -> None:
    _dtype(c, f.dtype, f.span)
    if len(f.shape) != 2 or min(f.shape) < 1:
        c.error(f"fragment {f.name} has two sizes, each at least 1", f.span)


def _names(c: Checks) -> None:
    k = c.kernel
    groups: tuple[tuple[str, tuple[nodes.Param | nodes.Tensor | nodes.TensorMap | nodes.Shared | nodes.Barrier
                                   | nodes.Fragment, ...]], ...] = (
        ("parameter", k.params), ("tensor", k.tensors), ("tensor map", k.maps),
        ("shared buffer", k.shared), ("mbarrier", k.barriers), ("fragment", k.fragments),
    )  # fmt: skip
    for what, items in groups:
        for x in items:
            if not usable(x.name):
                c.error(f"{x.name!r} cannot be the name of a {what}", x.span)
            if x.name in c.declared:
                c.error(f"{x.name} is declared twice, as a {c.declared[x.name]} and as a {what}", x.span)
            c.declared[x.name] = what


def _launch(c: Checks, at: nodes.Launch) -> None:
    for size, limit, axis in zip(at.block, BLOCK_LIMITS, "xyz", strict=True):
        if not 1 <= size <= limit:
            c.error(f"block {axis} must be 1 to {limit}, not {size}", at.span)
    if at.threads > THREAD_LIMIT:
        c.error(f"a block has at most {THREAD_LIMIT} threads, not {at.threads}", at.span)
    if min(at.cluster) < 1 or at.ctas > CLUSTER_LIMIT:
        c.error(f"a cluster has 1 to {CLUSTER_LIMIT} blocks, not {at.ctas}", at.span)
    for e, size, limit, axis in zip(at.grid, at.cluster, GRID_LIMITS, "xyz", strict=True):
        _uniform(c, e, "the grid", at.span)
        n = constant(e)
        if n is not None and not 1 <= n <= limit:
            c.error(f"grid {axis} must be 1 to {limit}, not {n}", at.span)
        elif n is not None and size > 0 and n % size:
            c.error(f"grid {axis} is {n}, which is not a multiple of cluster {axis}, {size}", at.span)
    if at.registers is not None:
        if not 1 <= at.registers <= 255:
            c.error(f"a thread has 1 to 255 registers, not {at.registers}", at.span)
        elif at.registers * at.threads > REGISTER_FILE:
            c.error(f"{at.threads} threads of {at.registers} registers exceed {REGISTER_FILE}", at.span)


def _map(c: Checks, m: nodes.TensorMap) -> None:
    _swizzle(c, m.swizzle, m.span)
    if not 1 <= len(m.box) <= TMA_RANK:
        c.error(f"tensor map {m.name} has 1 to {TMA_RANK} dimensions, not {len(m.box)}", m.span)
    if any(not 1 <= n <= TMA_BOX for n in m.box):
        c.error(f"each size of the box of {m.name} must be 1 to {TMA_BOX}", m.span)
    if not c.known(m.tensor, c.tensors, "tensor", m.span):
        return
    rank = len(c.tensors[m.tensor].shape)
    if rank != len(m.box):
        c.error(f"the box of {m.name} has {len(m.box)} sizes, tensor {m.tensor} has {rank}", m.span)


def _uniform(c: Checks, e: Expr, what: str, span: Span) -> None:
    """The same for all threads: parameters and numbers only."""
    c.integer(e, span)
    if names(e) & BUILTINS:
        c.error(f"the sizes of {what} depend on numbers and parameters only", span)


def _dtype(c: Checks, dtype: str, span: Span) -> None:
    if dtype not in nodes.DTYPE_BYTES:
        c.error(f"there is no type {dtype}", span)


def _swizzle(c: Checks, swizzle: str, span: Span) -> None:
    if swizzle not in SWIZZLES:
        c.error(f"there is no swizzle {swizzle}; one of {', '.join(SWIZZLES)}", span)
