"""Warpgroup matrix products and fragments, on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncverify.base.source import InputError
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int
from syncverify.simulate.ir.device import Cta
from syncverify.simulate.ir.numeric_memory import evaluated, register, store
from syncverify.simulate.ir.numeric_ops import SPANS, WARPGROUP, handles, num
from syncverify.simulate.ir.values import DTYPES, Array, widen

if TYPE_CHECKING:
    from syncverify.simulate.ir.numeric import Agent, _Launch


def fragment(run: _Launch, cta: Cta, group: int, name: str) -> Array:
    key = (group, name)
    if key not in cta.fragments:
        f = run.fragments[name]
        dtype = DTYPES[f.dtype]
        cta.fragments[key] = np.zeros(f.shape, np.float32 if dtype.kind != "i" else dtype)
    return cta.fragments[key]


@handles(n.Wgmma)
def wgmma(run: _Launch, a: Agent, s: n.Wgmma) -> None:
    """Happens when the last of the warpgroup's threads issues it."""
    run.agreed(a.tids // WARPGROUP)
    group = int(a.tids[0] // WARPGROUP)
    keep = num(run, a, s.accumulate)
    seen = a.cta.mma.setdefault(group, [])
    at = int(run.agreed(a.env.get("%mma", 0)))
    a.env["%mma"] = at + 1
    if len(seen) <= at:
        seen.append(0)
    seen[at] += a.lanes
    if seen[at] < WARPGROUP:
        return
    acc = fragment(run, a.cta, group, s.acc)
    m, cols = acc.shape
    if isinstance(s.a, str):
        left = fragment(run, a.cta, group, s.a)
    else:
        left = _operand(run, a, s.a, m, s.a_t, s)
    right = _operand(run, a, s.b, cols, not s.b_t, s)
    if left.shape != (m, right.shape[1]):
        raise InputError(f"wgmma: {left.shape} by {right.T.shape} does not give {acc.shape}", s.span)
    product = left.astype(acc.dtype) @ right.T.astype(acc.dtype)
    acc[...] = acc + product if keep else product


def _operand(run: _Launch, a: Agent, r: n.Region, rows: int, along: bool, s: n.Wgmma) -> Array:
    """An operand in shared memory, ``rows`` along M or N by K. ``along``: its memory runs along M or N."""
    found = widen(run.memory.region(r, a.cta, a.env, s.span).read(a.lanes)[-1])
    buffer = run.shared[r.buffer]
    span = SPANS[buffer.swizzle] // n.DTYPE_BYTES[buffer.dtype] or rows
    width = span if buffer.shape[-1] == Int(span) else min(rows, span)
    # of the last panel a part may be multiplied
    held = -(-rows // width) * width if along else rows
    if found.size % held:
        raise InputError(f"wgmma: {found.size} elements of {r.buffer} are no {held} rows", s.span)
    if not along:
        return found.reshape(rows, -1)
    panels = found.reshape(held // width, -1, width)
    return panels.transpose(0, 2, 1).reshape(held, -1)[:rows]


@handles(n.WgmmaWait)
def wgmma_wait(run: _Launch, a: Agent, s: n.WgmmaWait) -> None:
    goal = int(run.agreed(a.env.get("%mma", 0)))
    if goal:
        a.waits = ("mma", a.cta, [int(g) for g in np.unique(a.tids // WARPGROUP)], goal)


def shares(run: _Launch, a: Agent, name: str) -> tuple[Array, Array]:
    """A fragment of the agent's warpgroup, and which of its elements each thread holds."""
    run.agreed(a.tids // WARPGROUP)
    f = fragment(run, a.cta, int(a.tids[0] // WARPGROUP), name)
    rows, columns = f.shape
    i, lane, warp = np.arange(f.size // WARPGROUP), a.tids[:, None] % 32, a.tids[:, None] % WARPGROUP // 32
    if rows % 64 or columns % 8:  # no shape of wgmma: any layout will do
        return f.reshape(-1), (a.tids % WARPGROUP)[:, None] * i.size + i
    # PTX ISA, wgmma: Register Fragments; the same for D and for 16-bit A
    block, i = i // (columns // 2), i % (columns // 2)
    row = 64 * block + 16 * warp + lane // 4 + i // 2 % 2 * 8
    return f.reshape(-1), row * columns + i // 4 * 8 + lane % 4 * 2 + i % 2


@handles(n.FragRead)
def frag_read(run: _Launch, a: Agent, s: n.FragRead) -> None:
    f, at = shares(run, a, s.frag)
    start, count = num(run, a, s.start), num(run, a, s.count, at.shape[1])
    if not 0 <= start <= start + count <= at.shape[1]:
        raise InputError(f"elements {start}..{start + count - 1} of a share of {at.shape[1]}", s.span)
    register(a, s.name, f[at[:, start : start + count]])


@handles(n.FragWrite)
def frag_write(run: _Launch, a: Agent, s: n.FragWrite) -> None:
    f, at = shares(run, a, s.frag)
    x = np.asarray(evaluated(run, a, s.value))
    if s.start is not None:
        start, count = num(run, a, s.start), x.shape[-1] if x.ndim else 1
        if not 0 <= start <= start + count <= at.shape[1]:
            raise InputError(f"elements {start}..{start + count - 1} of a share of {at.shape[1]}", s.span)
        at = at[:, start : start + count]
    f[at] = np.broadcast_to(_as_held(x, run.fragments[s.frag].dtype), at.shape)


def _as_held(x: Array, dtype: str) -> Array:
    """Rounded to what registers of a narrow fragment hold; products are made of f32 here."""
    return x.astype(DTYPES[dtype]).astype(np.float32) if DTYPES[dtype].itemsize < 4 else x


def warp_part(a: Agent, size: int) -> Array:
    """Which elements of a region belong to each lane, for the warp-collective copies.

    16 rows of eights of elements are four or more matrices of 8 x 8 (PTX ISA, stmatrix), in the order of a
    fragment; a smaller region is cut into equal parts.
    """
    lane, i = a.tids[:, None] % 32, np.arange(size // 32)
    row = lane // 4 + i // 2 % 2 * 8
    found: Array = row * (size // 16) + i // 4 * 8 + lane % 4 * 2 + i % 2
    return lane * i.size + i if size % 128 else found


@handles(n.LdMatrix)
def ldmatrix(run: _Launch, a: Agent, s: n.LdMatrix) -> None:
    run.agreed(a.tids // 32)
    place = run.memory.region(s.src, a.cta, a.env, s.span)
    rows = widen(place.read(a.lanes))
    mine = rows[0][warp_part(a, rows.shape[1])] if place.shared else rows
    if s.name in run.fragments:
        f, at = shares(run, a, s.name)
        f[at] = np.broadcast_to(mine, at.shape)
    else:
        register(a, s.name, mine.copy())


@handles(n.StMatrix)
def stmatrix(run: _Launch, a: Agent, s: n.StMatrix) -> None:
    run.agreed(a.tids // 32)
    place = run.memory.region(s.dst, a.cta, a.env, s.span)
    x = np.asarray(evaluated(run, a, s.value)).astype(place.view.dtype)
    if not place.shared:
        store(place, x, a, s)
        return
    flat = np.arange(place.view.size)[place.where].reshape(-1)
    at = flat[warp_part(a, flat.size)]
    place.view[at] = np.broadcast_to(x, at.shape)
