"""Regions of shared and global memory as footprints: bytes, per lane, with what leaves its bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import TYPE_CHECKING

from syncverify.model.events import Footprint
from syncverify.model.intervals import merge

if TYPE_CHECKING:
    from syncverify.ir.layout import BufferLayout

#: An operand: one integer for all lanes of a class, or one per lane.
Value = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of one lane: ``rows`` runs of ``size`` bytes, ``pitch`` bytes apart, from ``lo``."""

    lo: int
    size: int
    rows: int = 1
    pitch: int = 0

    @property
    def bytes(self) -> int:
        return self.size * self.rows

    def runs(self) -> list[tuple[int, int]]:
        if self.size <= 0 or self.rows <= 0:
            return []
        if self.rows == 1 or self.pitch == self.size:
            return [(self.lo, self.lo + self.bytes)]
        return [(self.lo + i * self.pitch, self.lo + i * self.pitch + self.size) for i in range(self.rows)]


@dataclass(frozen=True, slots=True)
class Place:
    """One lane's region: its bytes inside the buffer, and what is wrong with it, if anything."""

    range: Range
    bytes: int
    problem: str | None = None


def locate(buffer: BufferLayout, index: Sequence[int], start: int | None, count: int | None,
           rows: int | None, pitch: int | None) -> Place:  # fmt: skip
    """The bytes of ``buffer[index][start : count rows R pitch P]``, clipped to the buffer."""
    problem: str | None = None
    rest = 1
    for d in buffer.shape[len(index) :]:
        rest *= d
    flat = 0
    for i, d in zip(index, buffer.shape, strict=False):
        if not 0 <= i < d and problem is None:
            problem = f"index {i} leaves {buffer.name}, which has {d}"
        flat = flat * d + i
    first = 0 if start is None else start
    n = rest - first if count is None else count
    k = 1 if rows is None else rows
    step = n if pitch is None else pitch
    last = first + max(k - 1, 0) * step + n
    if problem is None and (n < 0 or k < 0 or step < 0):
        problem = f"negative count, rows or pitch ({n}, {k}, {step}) in a region of {buffer.name}"
    if problem is None and (first < 0 or last > rest):
        part = buffer.name + "".join(f"[{i}]" for i in index)
        problem = f"elements {first}..{last - 1} leave {part}, which has {rest}"
    el = buffer.element
    found = Range(buffer.offset + (flat * rest + first) * el, max(n, 0) * el, max(k, 0), max(step, 0) * el)
    if problem is None:
        touched = found if step else Range(found.lo, found.size, min(found.rows, 1))
        return Place(touched, found.bytes)
    return Place(_clip(found, buffer.offset, buffer.offset + buffer.size), found.bytes, problem)


def _clip(r: Range, lo: int, hi: int) -> Range:
    """What of the range lies inside the buffer: all of it, its first inside run, or nothing."""
    if r.lo >= lo and r.lo + max(r.rows - 1, 0) * r.pitch + r.size <= hi:
        return r
    # the first run that ends beyond the buffer's start; later ones only lie further on
    first = max(-(-(lo - r.lo - r.size + 1) // r.pitch), 0) if r.pitch > 0 else 0
    a = max(r.lo + first * r.pitch, lo)
    b = min(r.lo + first * r.pitch + r.size, hi)
    return Range(a, b - a) if first < r.rows and a < b else Range(lo, 0)


@dataclass(frozen=True, slots=True)
class Shifted:
    """The same range at another place for each lane."""

    los: tuple[int, ...]
    each: Range

    def ranges(self) -> list[Range]:
        return [Range(lo, self.each.size, self.each.rows, self.each.pitch) for lo in self.los]


def locate_shifted(buffer: BufferLayout, index: Sequence[int], starts: Sequence[int], count: int | None,
                   rows: int | None, pitch: int | None) -> Shifted | None:  # fmt: skip
    """``locate`` for lanes that differ only in ``start``; None where some lane leaves the buffer."""
    low, high = (locate(buffer, index, s, count, rows, pitch) for s in (min(starts), max(starts)))
    if low.problem or high.problem:
        return None
    base = low.range.lo - min(starts) * buffer.element
    return Shifted(tuple([base + s * buffer.element for s in starts]), low.range)


def footprint(
    memory: int,
    ranges: Range | Shifted | Sequence[Range],
    lanes: Sequence[int],
    *,
    varying: bool = False,
    many: bool = False,
) -> Footprint:
    """The footprint of one range for all lanes, or of one range per lane.

    ``varying``: it is a write whose value differs between lanes; ``many``: more than one lane writes a
    range that is the same for all.
    """
    if isinstance(ranges, Range):
        runs = merge(ranges.runs())
        return Footprint(memory, runs, (), varying and many and bool(runs))
    if isinstance(ranges, Shifted):
        size = ranges.each.size
        if ranges.each.rows == 1 and size > 0 and all(a + size <= b for a, b in pairwise(ranges.los)):
            apart = tuple([(lo, lo + size, lane) for lo, lane in zip(ranges.los, lanes, strict=True)])
            return Footprint(memory, merge([(a, b) for a, b, _ in apart]), apart)
        ranges = ranges.ranges()
    # Then no two runs of one lane touch each other.
    alone = len(set(lanes)) == len(lanes) and all(r.pitch > r.size > 0 for r in ranges)
    pieces = sorted([piece for r, lane in zip(ranges, lanes, strict=True) for piece in _pieces(r, lane)])
    overlap = varying and any(p[1] > q[0] and p[2] != q[2] for p, q in _neighbours(pieces))
    by_lane = tuple(pieces) if alone else _merge_lanes(pieces)
    return Footprint(memory, merge([(a, b) for a, b, _ in pieces]), by_lane, overlap)


def _pieces(r: Range, lane: int) -> Iterable[tuple[int, int, int]]:
    """The runs of a range, each with its lane."""
    if r.rows > 1 and r.pitch > r.size > 0:
        los = range(r.lo, r.lo + r.rows * r.pitch, r.pitch)
        return zip(los, range(r.lo + r.size, r.lo + r.size + r.rows * r.pitch, r.pitch), repeat(lane))
    return [(a, b, lane) for a, b in r.runs()]


def matrix_footprint(memory: int, at: Range, element: int, lanes: Sequence[int]) -> Footprint | None:
    """What lanes of a warp touch of a region that it moves as 8 x 8 matrices: their parts of a fragment.

    The region is 16 rows of eights of elements (PTX ISA, stmatrix); None for any other.
    """
    if at.rows != 1 or at.size <= 0 or at.size % (128 * element):
        return None
    row, pair = at.size // 16, 2 * element
    pieces = sorted(
        (lo, lo + pair, lane)
        for lane in lanes
        for r in (lane // 4, lane // 4 + 8)
        for lo in range(at.lo + r * row + lane % 4 * pair, at.lo + (r + 1) * row, 4 * pair)
    )
    return Footprint(memory, merge([(a, b) for a, b, _ in pieces]), _merge_lanes(pieces))


def _neighbours(
    pieces: list[tuple[int, int, int]],
) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Each piece with the one before it that reaches farthest."""
    out = []
    reach = pieces[0] if pieces else (0, 0, 0)
    for p in pieces[1:]:
        out.append((reach, p))
        if p[1] > reach[1]:
            reach = p
    return out


def _merge_lanes(pieces: list[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Adjacent pieces of one lane joined."""
    last: dict[int, tuple[int, int, int]] = {}
    out = []
    for a, b, lane in pieces:
        p = last.get(lane)
        if p is not None and a <= p[1]:
            last[lane] = (p[0], max(p[1], b), lane)
            continue
        if p is not None:
            out.append(p)
        last[lane] = (a, b, lane)
    return tuple(sorted([*out, *last.values()]))


class Footprints:
    """The interned footprints of a launch; grows the table that events refer to."""

    def __init__(self, table: list[Footprint]) -> None:
        self.table = table
        self._index: dict[Footprint, int] = {}

    def add(self, fp: Footprint) -> int:
        i = self._index.get(fp)
        if i is None:
            i = self._index[fp] = len(self.table)
            self.table.append(fp)
        return i


def box_ranges(shape: Sequence[int], box: Sequence[int], coords: Sequence[int], element: int) -> list[Range]:
    """The bytes of a TMA box in its tensor; what lies outside takes no part."""
    los = [max(c, 0) for c in coords]
    his = [min(c + b, s) for c, b, s in zip(coords, box, shape, strict=True)]
    if any(lo >= hi for lo, hi in zip(los, his, strict=True)):
        return []
    starts = [0]
    for lo, hi, s in zip(los[:-1], his[:-1], shape[:-1], strict=True):
        starts = [a * s + i for a in starts for i in range(lo, hi)]
    width = his[-1] - los[-1]
    return [Range((a * shape[-1] + los[-1]) * element, width * element) for a in starts]
