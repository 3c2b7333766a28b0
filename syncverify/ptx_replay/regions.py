"""Bytes of one event as regions of the one buffer that is a CTA's shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Call, Expr, Int, Var
from syncverify.model.events import Footprint
from syncverify.ptx_replay.places import Unfit

BUFFER = "smem"
MOST_PIECES = 64  # regions of one event
SWIZZLE_ATOM = 1024  # bytes after which every swizzle repeats

Piece = tuple[int, int]


def regions(fp: Footprint, lanes: int, cta: int) -> list[n.Region]:
    """Regions that together are exactly a footprint, for the lanes of a class of a CTA."""
    rank = None if fp.memory == cta else Int(fp.memory)
    if not fp.lanes:
        found = [_region(Int(lo), rows, size, pitch, rank) for lo, rows, size, pitch in _runs(fp.intervals)]
    else:
        found = _by_lane(fp, lanes, rank)
    if not 0 < len(found) <= MOST_PIECES:
        raise Unfit(f"it touches {len(found)} separate ranges of bytes at once")
    return found


def _by_lane(fp: Footprint, lanes: int, rank: Expr | None) -> list[n.Region]:
    mine: dict[int, list[Piece]] = {i: [] for i in range(32) if lanes >> i & 1}
    for lo, hi, lane in fp.lanes:
        mine.setdefault(lane, []).append((lo, hi))
    if not all(mine.values()):
        raise Unfit("some of its lanes touch no bytes")
    shapes = {tuple((lo - p[0][0], hi - p[0][0]) for lo, hi in p) for p in mine.values()}
    if len(shapes) == 1:
        start = _table({i: p[0][0] for i, p in mine.items()})
        return [
            _region(Binary("+", start, Int(lo)) if lo else start, rows, size, pitch, rank)
            for lo, rows, size, pitch in _runs(shapes.pop())
        ]
    unit = gcd(*(hi - lo for p in mine.values() for lo, hi in p))
    chopped = {i: [at for lo, hi in p for at in range(lo, hi, unit)] for i, p in mine.items()}
    most = max(map(len, chopped.values()))
    return [
        _region(_table({i: p[min(k, len(p) - 1)] for i, p in chopped.items()}), 1, unit, unit, rank)
        for k in range(most)
    ]


def _region(start: Expr, rows: int, size: int, pitch: int, rank: Expr | None) -> n.Region:
    return n.Region(BUFFER, (), start, Int(size), Int(rows), Int(pitch), rank)


def _runs(pieces: Sequence[Piece]) -> list[tuple[int, int, int, int]]:
    """Pieces as (start, rows, size, pitch): neighbours, or those at one place of each swizzle atom."""
    straight = _progressions(pieces)
    if len(straight) <= MOST_PIECES // 8:
        return straight
    places: dict[tuple[int, int], list[Piece]] = {}
    for lo, hi in pieces:
        places.setdefault((lo % SWIZZLE_ATOM, hi - lo), []).append((lo, hi))
    swizzled = [run for same in places.values() for run in _progressions(same)]
    return min(straight, swizzled, key=len)


def _progressions(pieces: Sequence[Piece]) -> list[tuple[int, int, int, int]]:
    out: list[tuple[int, int, int, int]] = []
    i = 0
    while i < len(pieces):
        lo, hi = pieces[i]
        size, rows, pitch = hi - lo, 1, hi - lo
        while i + rows < len(pieces):
            a, b = pieces[i + rows]
            step = pieces[i + 1][0] - lo
            if b - a != size or a != lo + rows * step:
                break
            rows, pitch = rows + 1, step
        out.append((lo, rows, size, pitch))
        i += rows
    return out


def _table(by_lane: dict[int, int]) -> Expr:
    """An expression in ``lane`` with these values."""
    lanes = sorted(by_lane)
    first = by_lane[lanes[0]]
    if len(lanes) == 1:
        return Int(first)
    step, rest = divmod(by_lane[lanes[1]] - first, lanes[1] - lanes[0])
    if not rest and all(by_lane[i] == first + step * (i - lanes[0]) for i in lanes):
        if step == 0:
            return Int(first)
        return Binary("+", Int(first - step * lanes[0]), Binary("*", Var("lane"), Int(step)))
    out: Expr = Int(by_lane[lanes[-1]])
    for i in reversed(lanes[:-1]):
        out = Call("select", (Binary("==", Var("lane"), Int(i)), Int(by_lane[i]), out))
    return out
