"""From regions of the IR to bytes: intervals per group, and which lane touches which."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from syncverify.ir import nodes as n
from syncverify.simulate.ir.code import Env, Value, compiled, uniform
from syncverify.simulate.ir.layout import Buffer


@dataclass(frozen=True, slots=True)
class Foot:
    """Bytes of one access. ``lanes`` is None if every lane touches all of them; ``bytes`` is per lane."""

    intervals: tuple[tuple[int, int], ...]
    lanes: tuple[tuple[int, int, int], ...] | None
    bytes: int
    overlap: bool  # two lanes touch a common byte
    starts: tuple[int, ...]  # first byte of every lane


class OutOfBounds(Exception):  # noqa: N818 -- becomes a harm
    """The region leaves its buffer, or the barrier or CTA does not exist; ``rule`` is what that breaks."""

    def __init__(self, message: str, rule: str = "SV114") -> None:
        super().__init__(message)
        self.rule = rule


def merged(pieces: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted, disjoint intervals."""
    out: list[tuple[int, int]] = []
    for lo, hi in sorted(pieces):
        if out and lo <= out[-1][1]:
            if hi > out[-1][1]:
                out[-1] = (out[-1][0], hi)
        elif lo < hi:
            out.append((lo, hi))
    return tuple(out)


def whole(x: Value) -> int:
    """A value on which the lanes agree."""
    v = uniform(x)
    if not isinstance(v, int):
        raise OutOfBounds("lanes disagree on a size")
    return v


def region_foot(r: n.Region, buf: Buffer, env: Env, lanes: tuple[int, ...]) -> Foot:
    """The bytes of ``r`` in its CTA's shared memory."""
    if len(r.index) > len(buf.shape):
        raise OutOfBounds(f"{buf.name} has {len(buf.shape)} dimensions, not {len(r.index)}")
    at: Value = 0
    for i, e in enumerate(r.index):
        ix = compiled(e)(env)
        if bool(np.any(ix < 0)) or bool(np.any(ix >= buf.shape[i])):
            raise OutOfBounds(f"index {ix} is outside {buf.name}'s dimension of {buf.shape[i]}")
        stride = 1
        for d in buf.shape[i + 1 :]:
            stride *= d
        at = at + ix * stride
    rest = 1
    for d in buf.shape[len(r.index) :]:
        rest *= d
    start = compiled(r.start)(env) if r.start is not None else 0
    count = whole(compiled(r.count)(env)) if r.count is not None else (rest if r.start is None else 1)
    rows = whole(compiled(r.rows)(env)) if r.rows is not None else 1
    pitch = whole(compiled(r.pitch)(env)) if r.pitch is not None else count
    last = start + (rows - 1) * pitch + count
    if count < 0 or rows < 0 or bool(np.any(start < 0)) or bool(np.any(last > rest)):
        raise OutOfBounds(f"elements {start} to {last} leave {buf.name} ({rest} elements)")
    if pitch == count:
        count, rows, pitch = count * rows, 1, count * rows
    lo = buf.offset + (at + start) * buf.item
    return spread(lo, count * buf.item, rows, pitch * buf.item, lanes)


def spread(lo: Value, size: int, rows: int, pitch: int, lanes: tuple[int, ...]) -> Foot:
    """``rows`` pieces of ``size`` bytes, ``pitch`` apart, from ``lo`` (an address, or one per lane)."""
    lo = uniform(lo)
    if isinstance(lo, int):
        return Foot(
            merged([(lo + k * pitch, lo + k * pitch + size) for k in range(rows)]),
            None,
            size * rows,
            len(lanes) > 1 and size * rows > 0,
            (lo,),
        )
    starts = [int(x) for x in lo]
    pieces = [
        (a + k * pitch, a + k * pitch + size, lane)
        for a, lane in zip(starts, lanes, strict=True)
        for k in range(rows)
        if size
    ]
    pieces.sort()
    overlap = any(p[1] > q[0] for p, q in pairwise(pieces))
    return Foot(merged([p[:2] for p in pieces]), tuple(pieces), size * rows, overlap, tuple(starts))


def lanes_clash(
    a: tuple[tuple[int, int, int], ...] | None,
    b: tuple[tuple[int, int, int], ...] | None,
    ia: tuple[tuple[int, int], ...],
    ib: tuple[tuple[int, int], ...],
) -> bool:
    """Whether some byte is touched by one lane in the first access and by another in the second."""
    if a is None or b is None:
        return any(lo < h and l2 < hi for lo, hi in ia for l2, h in ib)
    if a == b:
        return any(p[1] > q[0] for p, q in pairwise(a))
    i = j = 0
    live: list[tuple[int, int]] = []  # (hi, lane) of a's pieces that may still reach
    while j < len(b):
        lo, hi, lane = b[j]
        while i < len(a) and a[i][0] < hi:
            live.append((a[i][1], a[i][2]))
            i += 1
        if any(end > lo and other != lane for end, other in live):
            return True
        live = [(end, other) for end, other in live if end > lo]
        j += 1
    return False
