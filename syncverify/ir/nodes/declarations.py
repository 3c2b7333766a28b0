"""What a kernel declares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from syncverify.base.source import UNKNOWN_SPAN, Span
from syncverify.ir.expr import Expr, Int
from syncverify.ir.nodes.base import Stmt


@dataclass(frozen=True, slots=True)
class Param:
    """An integer kernel parameter; ``default`` is the value of an exact check that gives no other."""

    name: str
    dtype: Literal["i32", "i64", "u32", "u64"] = "i64"
    default: int | None = None
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A global array; ``shape`` in elements, contiguous, outermost first."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    mode: Literal["in", "out", "inout"]
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A TMA descriptor: ``box`` elements per dimension (outermost first) of ``tensor``."""

    name: str
    tensor: str
    box: tuple[int, ...]
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Shared:
    """A shared buffer; ``shape`` outermost (stages) first. ``offset`` fixes its byte offset (may alias)."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    align: int = 128
    offset: Expr | None = None
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Barrier:
    """``mbarrier name[count]``: an array of mbarrier objects, 8 bytes each."""

    name: str
    count: Expr = Int(1)
    offset: Expr | None = None
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A register fragment of a warpgroup (accumulator or A operand), ``shape`` = (M, N) or (M, K)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Launch:
    """``grid`` may be symbolic; ``block`` and ``cluster`` are numbers. ``registers``: per thread at entry.

    ``dependent``: the grid before may still run, so global memory has to wait for it (``griddep.wait``).
    """

    grid: tuple[Expr, Expr, Expr] = (Int(1), Int(1), Int(1))
    block: tuple[int, int, int] = (128, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    registers: int | None = None
    cooperative: bool = False
    dependent: bool = False
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def ctas(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    launch: Launch = Launch()
    params: tuple[Param, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    shared: tuple[Shared, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    assumes: tuple[Expr, ...] = ()
    body: tuple[Stmt, ...] = ()
    arch: str = "sm_90a"
    #: Where the first of ``assumes`` stand; those that were added by code have no place.
    assume_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)
