"""Where shared buffers and barriers lie: byte offsets for given launch values.

Explicit offsets are kept, overlaps included (aliasing is the author's choice); everything else is
placed in declaration order, buffers before barriers, at the lowest aligned place that is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from syncverify.base.source import InputError, Span
from syncverify.ir import nodes
from syncverify.ir.expr import Expr, evaluate

#: Shared memory that one block of sm_90 may opt in to (227 KiB).
SHARED_LIMIT = 232448
BARRIER_BYTES = 8
#: Repeat of each swizzle pattern, which a tile's address must be a multiple of (PTX ISA, tensor copies).
SWIZZLE_ALIGN = {"none": 1, "32B": 256, "64B": 512, "128B": 1024}


@dataclass(frozen=True, slots=True)
class BufferLayout:
    """A shared buffer in place: ``strides`` in bytes per dimension, ``element`` and ``size`` in bytes."""

    name: str
    offset: int
    shape: tuple[int, ...]
    element: int

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.element * prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    @property
    def size(self) -> int:
        return self.element * prod(self.shape)

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class BarrierLayout:
    """An array of mbarrier objects in place."""

    name: str
    offset: int
    count: int

    @property
    def size(self) -> int:
        return self.count * BARRIER_BYTES

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class Layout:
    """Shared memory of one block; ``size`` is what the launch asks for, in bytes."""

    buffers: Mapping[str, BufferLayout] = field(default_factory=dict)
    barriers: Mapping[str, BarrierLayout] = field(default_factory=dict)
    size: int = 0


def launch_values(kernel: nodes.Kernel, values: Mapping[str, int]) -> dict[str, int]:
    """The given values over the parameters' defaults."""
    return {p.name: p.default for p in kernel.params if p.default is not None} | dict(values)


def layout(kernel: nodes.Kernel, values: Mapping[str, int] | None = None) -> Layout:
    """Places every buffer and barrier; InputError for what no block can have."""
    env = launch_values(kernel, values or {})
    wanted = [_wanted_buffer(s, env) for s in kernel.shared]
    wanted += [_wanted_barrier(b, env) for b in kernel.barriers]
    taken = sorted((w.offset, w.offset + w.size) for w in wanted if w.offset is not None)
    cursor = 0
    placed: dict[str, int] = {}
    for w in wanted:
        if w.offset is not None:
            placed[w.name] = w.offset
            continue
        at = _align(cursor, w.align)
        for lo, hi in taken:
            if at < hi and lo < at + w.size:
                at = _align(hi, w.align)
        placed[w.name] = at
        cursor = at + w.size
    buffers = {w.name: BufferLayout(w.name, placed[w.name], w.shape, w.element) for w in wanted if w.element}
    barriers = {w.name: BarrierLayout(w.name, placed[w.name], w.shape[0]) for w in wanted if not w.element}
    size = max((placed[w.name] + w.size for w in wanted), default=0)
    if size > SHARED_LIMIT:
        biggest = max(wanted, key=lambda w: placed[w.name] + w.size)
        raise InputError(
            f"kernel {kernel.name} needs {size} bytes of shared memory; "
            f"a block of sm_90 has at most {SHARED_LIMIT}",
            biggest.span,
        )
    return Layout(buffers, barriers, size)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A request for space; ``element`` is 0 for barriers."""

    name: str
    shape: tuple[int, ...]
    element: int
    size: int
    align: int
    offset: int | None
    span: Span


def _wanted_buffer(s: nodes.Shared, env: Mapping[str, int]) -> _Wanted:
    shape = tuple(_positive(e, env, f"a size of shared {s.name}", s.span) for e in s.shape)
    if s.dtype not in nodes.DTYPE_BYTES:
        raise InputError(f"there is no type {s.dtype}", s.span)
    if s.align < 1 or s.align & (s.align - 1):
        raise InputError(f"the alignment of shared {s.name} must be a power of two, not {s.align}", s.span)
    element = nodes.DTYPE_BYTES[s.dtype]
    align = max(s.align, element, SWIZZLE_ALIGN[s.swizzle])
    offset = _offset(s.offset, env, f"shared {s.name}", s.span)
    if offset is not None and offset % align:
        why = f" (swizzle {s.swizzle} repeats every {align})" if align == SWIZZLE_ALIGN[s.swizzle] else ""
        raise InputError(f"offset {offset} of shared {s.name} is not a multiple of {align}{why}", s.span)
    return _Wanted(s.name, shape, element, element * prod(shape), align, offset, s.span)


def _wanted_barrier(b: nodes.Barrier, env: Mapping[str, int]) -> _Wanted:
    count = _positive(b.count, env, f"the count of mbarrier {b.name}", b.span)
    offset = _offset(b.offset, env, f"mbarrier {b.name}", b.span)
    if offset is not None and offset % BARRIER_BYTES:
        # PTX ISA, mbarrier: an object is 8-byte aligned
        raise InputError(f"offset {offset} of mbarrier {b.name} is not a multiple of {BARRIER_BYTES}", b.span)
    return _Wanted(b.name, (count,), 0, count * BARRIER_BYTES, BARRIER_BYTES, offset, b.span)


def _number(e: Expr, env: Mapping[str, int], what: str, span: Span) -> int:
    try:
        return evaluate(e, env)
    except KeyError as error:
        raise InputError(f"{what} needs a value for {error.args[0]}", span) from None
    except (ZeroDivisionError, ValueError, TypeError, OverflowError):
        raise InputError(f"{what} cannot be computed", span) from None


def _positive(e: Expr, env: Mapping[str, int], what: str, span: Span) -> int:
    n = _number(e, env, what, span)
    if n < 1:
        raise InputError(f"{what} must be at least 1, not {n}", span)
    return n


def _offset(e: Expr | None, env: Mapping[str, int], what: str, span: Span) -> int | None:
    if e is None:
        return None
    n = _number(e, env, f"the offset of {what}", span)
    if n < 0:
        raise InputError(f"the offset of {what} must not be negative, and is {n}", span)
    return n


def _align(offset: int, align: int) -> int:
    return -(-offset // align) * align
