"""Memory and barriers of a launch that computes: what ``run`` reads, writes and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syncverify.base.source import InputError, Span
from syncverify.ir import nodes as n
from syncverify.simulate.ir.code import Env, compiled, uniform
from syncverify.simulate.ir.layout import Layout
from syncverify.simulate.ir.values import DTYPES, Array


@dataclass(slots=True, eq=False)
class Count:
    """An mbarrier: completed phases, arrivals missing, arrivals of a phase, bytes missing."""

    phase: int = 0
    pending: int = 0
    expected: int = 0
    tx: int = 0
    alive: bool = False

    def settle(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected


@dataclass(slots=True, eq=False)
class Cta:
    """One block: its shared memory and everything its threads meet at."""

    rank: int
    block: int
    memory: Array
    bars: dict[tuple[str, int], Count]
    named: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # id or warp -> arrived, rounds
    fragments: dict[tuple[int, str], Array] = field(default_factory=dict)  # (warpgroup, name)
    mma: dict[int, list[int]] = field(default_factory=dict)  # warpgroup -> lanes seen per wgmma
    live: int = 0


class Memory:
    """The arrays, and the bytes of regions in them."""

    def __init__(self, kernel: n.Kernel, layout: Layout, tensors: Mapping[str, Array]) -> None:
        self.kernel, self.layout, self.tensors = kernel, layout, tensors
        self.flat = {k: v.reshape(-1) for k, v in tensors.items()}
        self.maps = {m.name: m for m in kernel.maps}

    def region(self, r: n.Region, cta: Cta, env: Env, span: Span) -> Place:
        """The elements of a buffer that a region names."""
        b = self.layout.buffers[r.buffer]
        view = cta.memory[b.offset : b.offset + b.bytes].view(DTYPES[b.dtype])
        at: Any = 0
        rest = view.size
        for i, e in enumerate(r.index):
            ix = uniform(compiled(e)(env))
            if bool(np.any(ix < 0)) or bool(np.any(ix >= b.shape[i])):
                raise InputError(f"index {ix} is outside {b.name}", span)
            rest //= max(1, b.shape[i])
            at = at + ix * rest
        start = uniform(compiled(r.start)(env)) if r.start is not None else 0
        count = _one(r.count, env, rest if r.start is None else 1, span)
        rows = _one(r.rows, env, 1, span)
        pitch = _one(r.pitch, env, count, span)
        first = at + start
        end = first + (rows - 1) * pitch + count
        if bool(np.any(start < 0)) or bool(np.any(end > view.size)):
            raise InputError(f"elements {start} to {end} leave {b.name} ({view.size} elements)", span)
        return Place(view, elements(first, count, rows, pitch), isinstance(first, int))

    def window(self, g: n.GlobalRegion, env: Env, span: Span) -> Place:
        """The same for global memory."""
        flat = self.flat[g.tensor]
        start = uniform(compiled(g.start)(env))
        count = _one(g.count, env, 1, span)
        rows = _one(g.rows, env, 1, span)
        pitch = _one(g.pitch, env, count, span)
        end = start + (rows - 1) * pitch + count
        if bool(np.any(start < 0)) or bool(np.any(end > flat.size)):
            raise InputError(f"elements {start} to {end} leave {g.tensor} ({flat.size} elements)", span)
        return Place(flat, elements(start, count, rows, pitch), isinstance(start, int))

    def box(
        self, name: str, coords: list[int]
    ) -> tuple[Array, tuple[slice, ...], tuple[slice, ...], tuple[int, ...]]:
        """A tensor, the part of it inside a map's box, the same part of the box, and the box's shape."""
        m = self.maps[name]
        t = self.tensors[m.tensor]
        if len(m.box) != t.ndim or len(coords) != t.ndim:
            raise InputError(
                f"{name}: {len(coords)} coordinates and a box of {len(m.box)} for {t.ndim} dimensions", m.span
            )
        outer, inner = [], []
        for c, size, limit in zip(coords, m.box, t.shape, strict=True):
            lo, hi = min(max(c, 0), limit), max(min(c + size, limit), 0)
            outer.append(slice(lo, max(lo, hi)))
            inner.append(slice(lo - c, max(lo, hi) - c))
        return t, tuple(outer), tuple(inner), m.box


def _one(e: Any, env: Env, default: int, span: Span) -> int:
    if e is None:
        return default
    v = uniform(compiled(e)(env))
    if not isinstance(v, int) or v < 0:
        raise InputError("lanes disagree on a size, or it is negative", span)
    return v


def elements(first: Any, count: int, rows: int, pitch: int) -> Any:
    """Indices of a region: a slice where they are one run, else an array of (lanes or 1, elements)."""
    if isinstance(first, int):
        if rows == 1 or pitch == count:
            return slice(first, first + count * rows)
        return (first + (np.arange(rows)[:, None] * pitch + np.arange(count)).reshape(-1))[None, :]
    step = first[1] - first[0] if len(first) > 1 else count
    if rows == 1 and step == count and bool((np.diff(first) == step).all()):
        return slice(int(first[0]), int(first[-1]) + count)  # lanes side by side
    return first[:, None] + (np.arange(rows)[:, None] * pitch + np.arange(count)).reshape(-1)


@dataclass(frozen=True, slots=True)
class Place:
    """Elements of an array: a slice or (lanes or 1, count) indices. ``shared``: every lane names the same."""

    view: Array
    where: Any
    shared: bool

    def read(self, lanes: int) -> Array:
        """One row a lane, or one row for all."""
        x: Array = self.view[self.where]
        return x.reshape(1 if self.shared else lanes, -1) if isinstance(self.where, slice) else x

    def write(self, x: Any, lanes: int) -> None:
        """Writes rows of elements; a single column or row spreads, the last lane wins a shared place."""
        target = self.view[self.where]
        rows = 1 if self.shared else lanes
        shape = (rows, target.size // max(1, rows))
        x = np.asarray(x)
        if x.ndim == 2 and self.shared:
            x = x[-1:]
        try:
            full = np.broadcast_to(x, shape)
        except ValueError:
            raise InputError(f"a value of {x.shape[-1]} elements does not fit {shape[1]}") from None
        self.view[self.where] = full.reshape(target.shape)
