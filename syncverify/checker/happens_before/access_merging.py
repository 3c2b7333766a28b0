"""Accesses that nothing can distinguish as one, where runs are compared with each other
(``RunOptions.merges_equivalent_accesses``).

*Reads of a group of wgmmas.* All of a committed group are over at once, for a wait covers whole groups
(PTX ISA: wgmma.wait_group): whoever knows that one of them is over knows it of all.

*Stores in a row.* Others learn what a class has done by what it does to synchronize. Of stores between which
it only reads, stores, elects and computes, whoever knows of one knows of all.

What is judged against them one by one, and said of them, stays the same; what is kept is less by far: each
wgmma reads a slice of its tiles, and a tile is stored in many slices.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from syncverify.checker.happens_before.shadow import Record, Shadow
from syncverify.model.events import GLOBAL_MEMORY, Ev, Footprint, SystemInfo
from syncverify.model.intervals import merge

if TYPE_CHECKING:
    from syncverify.checker.happens_before.run import LaneClass, Run

Intervals = tuple[tuple[int, int], ...]
#: What others learn of no access by: an elect.sync tells them that a lane is there, and orders no memory.
SILENT = frozenset({Ev.READ, Ev.WRITE, Ev.USE, Ev.FRAG_READ, Ev.FRAG_WRITE, Ev.ELECT, Ev.COLLECTIVE})


def merge_stores(
    info: SystemInfo, shadows: dict[int, Shadow], records: list[Record], late: bool = False
) -> None:
    """Joins records of one class and kind, apart for each memory, and for rows of A that other warps
    multiply; each record then represents the newest. ``late``: they are not entered yet."""
    kinds: dict[tuple[int, bool], dict[int, Record]] = {}
    for r in records:
        kinds.setdefault((info.footprints[r.fp].memory, r.strict_rows_only), {})[r.fp] = r
    for (memory, strict_only), by_footprint in kinds.items():
        parts = list(by_footprint.values())
        if len(parts) < 2 or (parts[0].kind.writes and _overlap(info, parts)):
            for lo, hi in entered(info, parts[0]) if late else ():
                shadows[memory].read(lo, hi, parts[0])
            continue
        last = records[-1]
        # copies: runs that part share what is on record
        stand = tuple([r.at(last.time, last.tag_value) for r in parts])
        fp = joined_footprint(info, parts)
        new = Record(last.kind, last.cls, last.time, fp, parts[0].site, tag=last.tag)
        new.tag_value, new.lane_free, new.strict_rows_only = last.tag_value, last.lane_free, strict_only
        new.position, new.issue, new.parts = last.position, last.issue, stand
        if late:
            for lo, hi in entered(info, new):
                shadows[memory].read(lo, hi, new)
                shadows[memory].merge(lo, hi)
        else:
            _enter(info, shadows[memory], parts, new)


def merge_operand_reads(run: Run, t: LaneClass) -> None:
    """Joins the reads of the wgmmas that a class commits."""
    records, t.products = t.products, []
    first = run.late.pop(t.cls, len(records))
    if first:
        _enter_each(run, records[first:])
    merge_stores(run.info, run.memory, records, late=not first)


def commit_pending_reads(run: Run) -> None:
    """Enters the reads of wgmmas that were left for later: of a group that is committed before anybody looks
    those are entered as one."""
    late, run.late = run.late, {}
    for cls, first in late.items():
        _enter_each(run, run.threads[cls].products[first:])


def _enter_each(run: Run, records: Iterable[Record]) -> None:
    for r in records:
        shadow = run.memory.get(run.info.footprints[r.fp].memory)
        if shadow is None:
            continue  # its CTA is gone
        for lo, hi in entered(run.info, r):
            shadow.read(lo, hi, r)


def _enter(info: SystemInfo, shadow: Shadow, parts: list[Record], new: Record) -> None:
    """Puts what was joined in the place of its parts."""
    every = entered(info, new)
    for lo, hi in every:
        shadow.split(lo)
        shadow.split(hi)
    for part in parts:
        for lo, hi in entered(info, part):
            shadow.put(lo, hi, part, new)
    for lo, hi in every:
        shadow.merge(lo, hi)


def joinable(info: SystemInfo, r: Record) -> bool:
    """Whether a store is a plain one to the class's own shared memory. One at slots does not represent what
    it lies over."""
    fp = info.footprints[r.fp]
    return r.column < 0 and not r.atomic and r.barrier < 0 and fp.memory != GLOBAL_MEMORY and not fp.slots


def judged(info: SystemInfo, joined: Record, lo: int, hi: int, judge: Callable[[Record], bool]) -> bool:
    """Judges the parts of an access that touch ``lo..hi``; others may be touched elsewhere."""
    for part in joined.parts:
        if _meets(entered(info, part), lo, hi):
            judge(part)
    return False


def entered(info: SystemInfo, r: Record) -> Intervals:
    """The bytes by which an access is on record."""
    fp = info.footprints[r.fp]
    return fp.cover or fp.intervals


def _meets(intervals: Intervals, lo: int, hi: int) -> bool:
    i = bisect_right(intervals, (lo, 1 << 62))
    return (i > 0 and intervals[i - 1][1] > lo) or (i < len(intervals) and intervals[i][0] < hi)


def _overlap(info: SystemInfo, parts: list[Record]) -> bool:
    """Whether one has taken the place of another."""
    intervals = sorted(i for r in parts for i in entered(info, r))
    return any(a[1] > b[0] for a, b in pairwise(intervals))


def joined_footprint(info: SystemInfo, parts: list[Record]) -> int:
    """The number of the bytes of all parts."""
    key = tuple(sorted([r.fp for r in parts]))
    found = info.joined.get(key)
    if found is None:
        found = info.joined[key] = len(info.footprints)
        memory = info.footprints[parts[0].fp].memory
        every = merge(i for r in parts for i in info.footprints[r.fp].intervals)
        cover = merge(i for r in parts for i in entered(info, r))
        info.footprints.append(Footprint(memory, every, cover=() if cover == every else cover))
    return found


__all__ = ["SILENT", "entered", "joinable", "joined_footprint", "judged", "merge_stores"]
