"""Interval shadow memory: for every byte its last write and the reads since.

One write over a whole tile replaces all segments under it, so the cost stays linear in the accesses.

An atomic replaces nothing: the next one need not follow it, so it does not represent what it follows itself.
Example: a thread stores 0 and counts. Another count may come beside the first one, but not beside the
store. So under an atomic earlier writes stay on record beside the reads, until a plain write. The same holds
under a store of a value that another thread may store at the same time, also for what came before it by other
instructions, as long as some class does not know of that.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from syncverify.model.events import Footprint
from syncverify.model.proxies import Access

#: ``tag_value`` of an asynchronous access whose completion has not happened yet.
IN_FLIGHT = 1 << 30
#: When the value of a read that nothing shows to have arrived is used.
LOST = -1


#: Who reads, how, and which bytes.
Key = tuple[int, int, int]


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
    strict_rows_only: bool = False  # rows of A that other warps multiply: read in strict mode only
    lane_free: bool = False  # by the warp as a whole: every lane's past precedes it
    fresh: bool = False  # a read of bytes that nobody had written yet
    over: Record | None = None  # the write that this one replaced
    position: int = 0  # index in the trace of its instruction
    issue: int = -1  # index of the asynchronous operation
    execution: int = 0  # of a store whose value depends on it: how often its class had executed it
    parts: tuple[Record, ...] = ()  # accesses that it represents: see ``access_merging``
    source: int = -1  # the footprint that a bulk copy to global memory brings there

    @property
    def key(self) -> Key:
        """By what a segment holds it, if it is a read."""
        return self.cls, self.kind + 64 * self.atomic, self.fp

    def at(self, time: int, tag_value: int) -> Record:
        """A copy that counts from another time on."""
        return Record(
            self.kind, self.cls, time, self.fp, self.site, self.column, self.tag, tag_value, self.used,
            self.atomic, self.scope, self.barrier, self.strict_rows_only, self.lane_free, self.fresh,
            self.over,
            self.position, self.issue, self.execution, self.parts, self.source,
        )  # fmt: skip

    @property
    def written(self) -> Key:
        """By what a segment holds it, if it is a write under a later one that need not follow it."""
        site = 0 if self.atomic else (self.site + 1) << 16
        return self.cls, self.kind + 64 * self.atomic + 128 * (self.scope + 1) + site, self.fp

    def elsewhere(self, fp: int, tag: int, barrier: int, parts: tuple[Record, ...]) -> Record:
        """A copy that accesses other bytes."""
        return Record(
            self.kind, self.cls, self.time, fp, self.site, self.column, tag, self.tag_value, self.used,
            self.atomic, self.scope, barrier, self.strict_rows_only, self.lane_free, self.fresh,
            self.over,
            self.position, self.issue, self.execution, parts, self.source,
        )  # fmt: skip


class Segment:
    __slots__ = ("hi", "lo", "reads", "write")

    def __init__(self, lo: int, hi: int, write: Record | None, reads: dict[Key, Record]) -> None:
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

    def split(self, at: int) -> int:
        """The index of the first segment that begins at ``at`` or later; none reaches across it any more."""
        los = self._los
        i = bisect_left(los, at)
        if i:
            s = self._segments[i - 1]
            if s.hi > at:
                self._segments.insert(i, Segment(at, s.hi, s.write, s.reads.copy()))
                los.insert(i, at)
                s.hi = at
        return i

    def overlapping(self, lo: int, hi: int) -> list[Segment]:
        """Segments that touch ``lo..hi``, as they are."""
        los, segments = self._los, self._segments
        i, j = bisect_right(los, lo) - 1, bisect_left(los, hi)
        if i < 0 or segments[i].hi <= lo:
            i += 1
        return segments[i:j]

    def read(self, lo: int, hi: int, record: Record) -> None:
        """Adds a read to ``lo..hi``, splitting segments and filling gaps."""
        i = self.split(lo)
        los, segments = self._los, self._segments
        key = record.key
        at = lo
        while at < hi:
            s = segments[i] if i < len(segments) else None
            if s is None or s.lo > at:
                end = min(hi, s.lo) if s is not None else hi
                los.insert(i, at)
                segments.insert(i, Segment(at, end, None, {key: record}))
                at = end
            else:
                if s.hi > hi:
                    self.split(hi)
                reads = s.reads
                old = reads.setdefault(key, record)
                if old is not record:
                    _succeed(reads, key, old, record)
                    reads[key] = record
                at = s.hi
            i += 1

    def write(self, lo: int, hi: int, record: Record, same_value: bool = False) -> None:
        """``record`` becomes the last write of ``lo..hi``; what it replaces is forgotten, unless it is an
        atomic, or lies ``same_value`` a write of the same value."""
        if record.atomic or same_value:
            self._amend(lo, hi, record)
            return
        i = bisect_left(self._los, lo)
        if i < len(self._los) and self._los[i] == lo and self._segments[i].hi == hi:
            self._segments[i] = Segment(lo, hi, record, {})  # most
            return
        i = self.split(lo)
        j = self.split(hi)
        self._los[i:j] = [lo]
        self._segments[i:j] = [Segment(lo, hi, record, {})]

    def _amend(self, lo: int, hi: int, record: Record) -> None:
        """``record`` becomes the last write of ``lo..hi``; what is on record stays."""
        i, j = self.split(lo), self.split(hi)
        made: list[Segment] = []
        at = lo
        for s in self._segments[i:j]:
            if at < s.lo:
                made.append(Segment(at, s.lo, record, {}))
            reads = s.reads
            w = s.write
            if w is not None and w.written != record.written:
                reads = {**reads, w.written: w}
            made.append(Segment(s.lo, s.hi, record, reads))
            at = s.hi
        if at < hi:
            made.append(Segment(at, hi, record, {}))
        self._segments[i:j] = made
        self._los[i:j] = [s.lo for s in made]

    def put(self, lo: int, hi: int, old: Record, record: Record) -> None:
        """``record`` takes the place of ``old`` in ``lo..hi``, where that is on record."""
        if old.kind.writes:
            for s in self.overlapping(lo, hi):
                if s.write is old:
                    s.write = record
                if s.reads.get(old.written) is old:
                    del s.reads[old.written]
                    s.reads[record.written] = record
            return
        before, key = old.key, record.key
        for s in self.overlapping(lo, hi):
            reads = s.reads
            if reads.get(before) is old:
                del reads[before]
                reads[key] = record

    def merge(self, lo: int, hi: int) -> None:
        """Neighbours in ``lo..hi``, where no segment reaches across, that hold the same become one."""
        i, j = bisect_left(self._los, lo), bisect_left(self._los, hi)
        out: list[Segment] = self._segments[i - 1 : i] if i else []
        first = i - len(out)
        for s in self._segments[i:j]:
            last = out[-1] if out else None
            if last is not None and last.hi == s.lo and last.write is s.write and last.reads == s.reads:
                last.hi = s.hi
            else:
                out.append(s)
        self._segments[first:j] = out
        self._los[first:j] = [s.lo for s in out]


def _succeed(reads: dict[Key, Record], key: Key, old: Record, record: Record) -> None:
    """A read takes the place of an earlier one, which is kept if it represents more."""
    if old.tag != record.tag:
        # Copies from one source that complete on different barriers do not represent each other.
        reads[(*key[:2], -(1 << 40) - old.tag)] = old
    if old.kind == Access.GENERIC_READ and old.used <= 0:
        # Its value has not arrived: what bridges the later read need not bridge this one (K1).
        if old.used != LOST:
            reads[(*key[:2], -1 - old.time)] = old
        elif record.used != LOST:
            reads[(*key[:2], LOST << 50)] = old


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
    parts, others = first.lanes, second.lanes
    widest, start = _widest(others), 0
    for k in range(bisect_left(parts, (lo - _widest(parts),)), len(parts)):
        a, b, lane = parts[k]
        if a >= hi:
            break
        a = lo if a < lo else a
        b = hi if b > hi else b
        if a >= b:
            continue
        start = bisect_left(others, (a - widest,), start)
        for i in range(start, len(others)):
            c, d, other = others[i]
            if c >= b:
                break
            if d > a and other != lane:
                return False
    return True
