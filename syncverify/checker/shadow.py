"""Interval shadow memory: for every byte its last write and the reads since.

One write over a whole tile replaces all segments under it, so the cost stays linear in the accesses.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syncverify.model.events import Footprint
from syncverify.model.proxies import Access

#: ``tag_value`` of an asynchronous access whose completion has not happened yet.
IN_FLIGHT = 1 << 30
#: When the value of a read that nothing shows to have arrived is used.
LOST = -1


@dataclass(slots=True, eq=False)
class Record:
    """One access by one class. An asynchronous one is known once column ``tag`` reaches ``tag_value``."""

    kind: Access
    cls: int
    time: int
    fp: int
    site: int
    column: int = -1  # of a generic access to another CTA's memory; else the class is its column
    tag: int = -1
    tag_value: int = 0
    used: int = 0  # time by which a generic read's value had arrived; 0: not yet; LOST: nothing shows it
    atomic: bool = False
    scope: int = 0  # of an atomic
    barrier: int = -1  # it initializes or ends this mbarrier
    beside: bool = False  # rows of A that other warps multiply: read in strict mode only
    lane_free: bool = False  # by the warp as a whole: every lane's past precedes it
    fresh: bool = False  # a read of bytes that nobody had written yet
    over: Record | None = None  # the write that this one replaced
    position: int = 0  # index in the trace of its instruction
    issue: int = -1  # index of the asynchronous operation


class Segment:
    __slots__ = ("hi", "lo", "reads", "write")

    def __init__(
        self, lo: int, hi: int, write: Record | None, reads: dict[tuple[int, int, int], Record]
    ) -> None:
        self.lo = lo
        self.hi = hi
        self.write = write
        self.reads = reads


class Shadow:
    """The shadow of one memory."""

    __slots__ = ("_los", "_segments")

    def __init__(self) -> None:
        self._los: list[int] = []
        self._segments: list[Segment] = []

    def _split(self, at: int) -> None:
        i = bisect_right(self._los, at) - 1
        if i < 0:
            return
        s = self._segments[i]
        if s.lo < at < s.hi:
            self._segments.insert(i + 1, Segment(at, s.hi, s.write, dict(s.reads)))
            self._los.insert(i + 1, at)
            s.hi = at

    def overlapping(self, lo: int, hi: int) -> Iterator[Segment]:
        """Segments that touch ``lo..hi``, as they are."""
        i = max(0, bisect_right(self._los, lo) - 1)
        while i < len(self._segments) and self._segments[i].lo < hi:
            if self._segments[i].hi > lo:
                yield self._segments[i]
            i += 1

    def read(self, lo: int, hi: int, record: Record) -> None:
        """Adds a read to ``lo..hi``, splitting segments and filling gaps."""
        self._split(lo)
        self._split(hi)
        i = bisect_left(self._los, lo)
        key = (record.cls, record.kind, record.fp)
        at = lo
        while at < hi:
            s = self._segments[i] if i < len(self._segments) else None
            if s is None or s.lo > at:
                end = min(hi, s.lo) if s is not None else hi
                self._los.insert(i, at)
                self._segments.insert(i, Segment(at, end, None, {key: record}))
                at = end
            else:
                old = s.reads.get(key)
                if old is not None and old.tag != record.tag:
                    # Copies from one source that complete on different barriers do not stand for each other.
                    s.reads[(*key[:2], -(1 << 40) - old.tag)] = old
                if old is not None and old.kind == Access.GENERIC_READ and old.used <= 0:
                    # Its value has not arrived: what bridges the later read need not bridge this one (K1).
                    if old.used != LOST:
                        s.reads[(*key[:2], -1 - old.time)] = old
                    elif record.used != LOST:
                        s.reads[(*key[:2], LOST << 50)] = old
                s.reads[key] = record
                at = s.hi
            i += 1

    def write(self, lo: int, hi: int, record: Record) -> None:
        """``record`` becomes the last write of ``lo..hi``; earlier reads are forgotten."""
        self._split(lo)
        self._split(hi)
        i = bisect_left(self._los, lo)
        j = bisect_left(self._los, hi)
        self._los[i:j] = [lo]
        self._segments[i:j] = [Segment(lo, hi, record, {})]


#: By identity of the parts of a footprint: they, and the widest of them.
_WIDEST: dict[int, tuple[object, int]] = {}
_MOST_WIDEST = 1 << 14


def _widest(parts: Sequence[tuple[int, int, int]]) -> int:
    """The bytes of the widest part."""
    found = _WIDEST.get(id(parts))
    if found is None:
        if len(_WIDEST) >= _MOST_WIDEST:
            _WIDEST.clear()
        found = _WIDEST[id(parts)] = parts, max(b - a for a, b, _ in parts)
    return found[1]


def same_lanes(first: Footprint, second: Footprint, lo: int, hi: int) -> bool:
    """Whether every byte of ``lo..hi`` that both touch is touched by one and the same lane."""
    if not first.lanes or not second.lanes:
        return False
    widest = _widest(second.lanes)
    for flo, fhi, lane in first.lanes:
        flo, fhi = max(flo, lo), min(fhi, hi)
        if flo >= fhi:
            continue
        for i in range(bisect_left(second.lanes, (flo - widest,)), len(second.lanes)):
            slo, shi, other = second.lanes[i]
            if slo >= fhi:
                break
            if shi > flo and other != lane:
                return False
    return True
