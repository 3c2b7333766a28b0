"""Where buffers and barriers lie in a CTA's shared memory, worked out again from the IR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syncverify.base.source import InputError, Span
from syncverify.ir.expr import Expr, evaluate
from syncverify.ir.nodes import DTYPE_BYTES, Kernel

BARRIER_BYTES = 8  # PTX ISA, mbarrier: an opaque 64-bit object, 8-byte aligned


@dataclass(frozen=True, slots=True)
class Buffer:
    """One shared buffer: its first byte, shape in elements and element size."""

    name: str
    offset: int
    shape: tuple[int, ...]
    item: int
    dtype: str

    @property
    def bytes(self) -> int:
        n = self.item
        for d in self.shape:
            n *= d
        return n


@dataclass(frozen=True, slots=True)
class Slots:
    """One array of mbarriers: its first byte and how many."""

    name: str
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Layout:
    buffers: Mapping[str, Buffer]
    barriers: Mapping[str, Slots]
    bytes: int


def number(e: Expr, values: Mapping[str, int], span: Span, what: str) -> int:
    """An integer from an expression over launch values, or a clear error."""
    try:
        return evaluate(e, values)
    except KeyError as err:
        raise InputError(f"{what} needs a value for {err.args[0]!r}", span) from err
    except ZeroDivisionError as err:
        raise InputError(f"{what} divides by zero", span) from err
    except TypeError as err:
        raise InputError(f"{what} is not an integer expression", span) from err


def _aligned(x: int, align: int) -> int:
    return -(-x // align) * align


def layout(kernel: Kernel, values: Mapping[str, int]) -> Layout:
    """Explicit offsets as given, the rest one after another: buffers first, then barriers."""
    top = 0
    buffers: dict[str, Buffer] = {}
    for s in kernel.shared:
        shape = tuple(number(d, values, s.span, f"the shape of {s.name}") for d in s.shape)
        if s.offset is not None:
            start = number(s.offset, values, s.span, f"the offset of {s.name}")
        else:
            start = _aligned(top, max(1, s.align))
        buf = Buffer(s.name, start, shape, DTYPE_BYTES[s.dtype], s.dtype)
        buffers[s.name] = buf
        top = max(top, start + buf.bytes)
    barriers: dict[str, Slots] = {}
    for b in kernel.barriers:
        count = number(b.count, values, b.span, f"the count of {b.name}")
        if b.offset is not None:
            start = number(b.offset, values, b.span, f"the offset of {b.name}")
        else:
            start = _aligned(top, BARRIER_BYTES)
        barriers[b.name] = Slots(b.name, start, count)
        top = max(top, start + BARRIER_BYTES * count)
    return Layout(buffers, barriers, top)
