"""What the builder hands out for declared names, written in Python as in the text form.

``tile[s]``, ``tile[s][start:count]``, ``full[s].on(rank)``, ``a[start:count]``, ``A[c0, c1]``: after
the colon stands a *count*, as in ``.syncir``, not an end.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from syncverify.base.source import UNKNOWN_SPAN, InputError, Span
from syncverify.ir import nodes
from syncverify.ir.expr import Expr, ExprLike, Int, as_expr

_BUILDER_MODULES = frozenset(
    f"syncverify.ir.builder.{m}" for m in ("handles", "kernel_builder", "operations")
)

Index = ExprLike | tuple[ExprLike, ...] | slice


@dataclass(frozen=True, slots=True)
class RegionHandle:
    """A shared region; ``region[start:count]`` narrows it, ``rows`` repeats it, ``on`` names the CTA."""

    region: nodes.Region

    def __getitem__(self, at: slice) -> RegionHandle:
        if self.region.start is not None:
            raise misuse(f"{self.region.buffer} already has a range")
        start, count = _range(at, self.region.buffer)
        return RegionHandle(replace(self.region, start=start, count=count))

    def rows(self, rows: ExprLike, pitch: ExprLike) -> RegionHandle:
        """The range, repeated ``rows`` times every ``pitch`` elements."""
        if self.region.start is None:
            raise misuse(f"rows of {self.region.buffer} need a range first")
        return RegionHandle(replace(self.region, rows=as_expr(rows), pitch=as_expr(pitch)))

    def on(self, rank: ExprLike) -> RegionHandle:
        """The same bytes in another CTA of the cluster."""
        return RegionHandle(replace(self.region, rank=as_expr(rank)))


@dataclass(frozen=True, slots=True)
class SharedHandle:
    """A shared buffer: ``tile[s]``, ``tile[i, j]``; ``tile[start:count]`` if it has no leading index."""

    name: str

    def __getitem__(self, at: Index) -> RegionHandle:
        if isinstance(at, slice):
            return RegionHandle(nodes.Region(self.name))[at]
        index = at if isinstance(at, tuple) else (at,)
        return RegionHandle(nodes.Region(self.name, tuple(map(as_expr, index))))

    def on(self, rank: ExprLike) -> RegionHandle:
        return RegionHandle(nodes.Region(self.name)).on(rank)


@dataclass(frozen=True, slots=True)
class BarrierHandle:
    """An mbarrier array, or one of it: ``full[s]``, ``full[s].on(rank)``."""

    ref: nodes.BarrierRef

    def __getitem__(self, index: ExprLike) -> BarrierHandle:
        if self.ref.index is not None:
            raise misuse(f"mbarrier {self.ref.name} has one index")
        return BarrierHandle(replace(self.ref, index=as_expr(index)))

    def on(self, rank: ExprLike) -> BarrierHandle:
        return BarrierHandle(replace(self.ref, rank=as_expr(rank)))


@dataclass(frozen=True, slots=True)
class TensorHandle:
    """A global array: ``a[i]`` is one element, ``a[start:count]`` a range of the flattened array."""

    name: str

    def __getitem__(self, at: ExprLike | slice) -> nodes.GlobalRegion:
        if isinstance(at, slice):
            return nodes.GlobalRegion(self.name, *_range(at, self.name))
        return nodes.GlobalRegion(self.name, as_expr(at), Int(1))


@dataclass(frozen=True, slots=True)
class Box:
    """A tensor map at coordinates, outermost first."""

    map: str
    coords: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MapHandle:
    """A TMA descriptor: ``A[c0, c1]`` is its box there."""

    name: str

    def __getitem__(self, coords: ExprLike | tuple[ExprLike, ...]) -> Box:
        return Box(self.name, tuple(map(as_expr, coords if isinstance(coords, tuple) else (coords,))))


@dataclass(frozen=True, slots=True)
class FragmentHandle:
    name: str


RegionLike = RegionHandle | SharedHandle | nodes.Region
BarrierLike = BarrierHandle | nodes.BarrierRef
Named = FragmentHandle | MapHandle | str


def caller() -> Span:
    """The author's line: the nearest frame outside the builder."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in _BUILDER_MODULES:
        if frame.f_back is None:
            return UNKNOWN_SPAN
        frame = frame.f_back
    return Span(frame.f_code.co_filename, frame.f_lineno)


def misuse(message: str) -> InputError:
    """An error at the author's line."""
    return InputError(message, caller())


def region(x: RegionLike) -> nodes.Region:
    match x:
        case RegionHandle(r):
            return r
        case SharedHandle(name):
            return nodes.Region(name)
        case nodes.Region():
            return x
    raise misuse(f"expected a shared region, found {describe(x)}")


def barrier(x: BarrierLike) -> nodes.BarrierRef:
    match x:
        case BarrierHandle(ref):
            return ref
        case nodes.BarrierRef():
            return x
    raise misuse(f"expected an mbarrier, found {describe(x)}")


def global_region(x: nodes.GlobalRegion) -> nodes.GlobalRegion:
    if isinstance(x, nodes.GlobalRegion):
        return x
    raise misuse(f"expected a global region such as a[start:count], found {describe(x)}")


def box(x: Box) -> Box:
    if isinstance(x, Box):
        return x
    raise misuse(f"expected a tensor map at coordinates such as A[c0, c1], found {describe(x)}")


def expression(x: ExprLike) -> Expr:
    if isinstance(x, Expr | int | float):
        return as_expr(x)
    raise misuse(f"expected an expression, found {describe(x)}")


def optional(x: ExprLike | None) -> Expr | None:
    return None if x is None else expression(x)


def name_of(x: Named) -> str:
    match x:
        case FragmentHandle(name) | MapHandle(name) | str(name):
            return name
    raise misuse(f"expected a fragment or a tensor map, found {describe(x)}")


def describe(x: object) -> str:
    """What a wrong operand is, in a message."""
    match x:
        case SharedHandle(name):
            return f"shared buffer {name}"
        case RegionHandle(r):
            return f"a region of shared buffer {r.buffer}"
        case BarrierHandle(ref):
            return f"mbarrier {ref.name}"
        case TensorHandle(name):
            return f"tensor {name} without an index"
        case nodes.GlobalRegion(name):
            return f"a region of tensor {name}"
        case MapHandle(name) | Box(name):
            return f"tensor map {name}"
        case FragmentHandle(name):
            return f"fragment {name}"
        case Expr():
            return "an expression"
    return f"{type(x).__name__} {x!r}"


def _range(at: slice, name: str) -> tuple[Expr, Expr]:
    if not isinstance(at, slice) or at.start is None or at.stop is None or at.step is not None:
        raise misuse(f"a range of {name} is [start:count]")
    return expression(at.start), expression(at.stop)
