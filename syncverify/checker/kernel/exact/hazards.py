"""Accesses to shared memory in one run, pair by pair: each rests on a row of ``model/ordering.py``.

Every access is kept, by its bytes; nothing is forgotten but what a later write over the same bytes, ordered
after it, represents.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from syncverify.checker.kernel.exact.data import RejectedError
from syncverify.checker.kernel.exact.knowledge import Epoch, LaneClass
from syncverify.model.events import Footprint, SystemInfo
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access

WRITES = frozenset(f for f in Access if f.writes)


class NotJudgedError(Exception):
    """An event that only the checker judges."""


@dataclass(slots=True, eq=False)
class Touch:
    """One access. ``done``: the mark and value that show the completion of an asynchronous one, once there
    is one; ``used``: when a read was shown to be over, 0 if it was not, -1 if no use will; ``any_lane``: the
    warp does it as one."""

    kind: Access
    cls: int
    time: int
    fp: Footprint
    site: int
    done: tuple[Epoch, int] | None = None
    used: int = 0
    any_lane: bool = False
    atomic: bool = False


class Memory:
    """The accesses to the shared memory of each CTA."""

    def __init__(self, info: SystemInfo, fences: list[list[int]]) -> None:
        self.info = info
        self.fences = fences  # per class, the times of its acq_rel fences
        self.touches: dict[int, list[tuple[int, int, Touch]]] = {}
        self.products: set[int] = set()  # classes that have issued wgmmas

    def access(self, lanes: LaneClass, touch: Touch, at: str) -> None:
        """Judges an access against all before it, then keeps it. Raises RejectedError."""
        fp = touch.fp
        count = self.info.classes[touch.cls].count
        if touch.kind.writes and not touch.atomic and count > 1 and _own_overlap(touch, count):
            raise RejectedError(at, f"{self.text(touch)}: lanes write the same bytes")
        kept = self.touches.setdefault(fp.memory, [])
        left: list[tuple[int, int, Touch]] = []
        if not touch.kind.writes:  # two reads need no order
            left, kept = kept, [x for x in kept if x[2].kind in WRITES]
        starts, ends = zip(*fp.intervals, strict=True) if fp.intervals else ((), ())
        for lo, hi, first in kept:
            i, k = bisect_right(ends, lo), bisect_left(starts, hi)  # sorted and disjoint
            pieces = [(max(lo, a), min(hi, b)) for a, b in fp.intervals[i:k]]
            if not pieces:
                if touch.kind.writes:
                    left.append((lo, hi, first))
                continue
            row = ordering(first.kind, touch.kind)
            # K6 in practical mode: cp.async needs no fence before wgmma and bulk stores, but on sm_100.
            fenceless = row.contested == "K6" and not self.info.strict_copies
            need = Need.COMPLETION if fenceless else row.need
            if need is not Need.NOTHING:
                for a, b in pieces:
                    if first.atomic and touch.atomic and _same_words(first.fp, fp, a, b):
                        continue
                    if not self.met(lanes, first, touch, need, a, b):
                        if first.kind is Access.GENERIC_READ and first.cls in self.products:
                            raise NotJudgedError("reads that a wgmma may hand on (K8)")
                        if self.may_be_one_value(first, touch):
                            raise NotJudgedError("stores of one instruction, perhaps of one value")
                        raise RejectedError(
                            at, f"{self.text(touch)}: {need.value} of {self.text(first)} is not shown"
                        )
            if touch.kind.writes and not touch.atomic:
                left += [(a, b, first) for a, b in _without(lo, hi, pieces)]
            elif touch.kind.writes:
                left.append((lo, hi, first))
        left += [(a, b, touch) for a, b in fp.intervals]
        self.touches[fp.memory] = left

    def may_be_one_value(self, first: Touch, second: Touch) -> bool:
        """Whether one store instruction makes both, and something is known of its values."""
        return first.site == second.site and second.kind.writes and self.info.varies is not None

    def met(self, lanes: LaneClass, first: Touch, second: Touch, need: Need, lo: int, hi: int) -> bool:
        """Whether a row's need is met for the bytes ``lo..hi``."""
        same = first.cls == second.cls and (
            lanes.alone or first.any_lane or second.any_lane or _same_lanes(first.fp, second.fp, lo, hi)
        )
        if first.kind.asynchronous:
            if first.done is None:
                return False
            mark, value = first.done
            known = lanes.visible(mark, same) >= value
            if not known and first.kind is Access.MMA_READ:  # K8: any warp of the warpgroup hands it on
                cta, warp = mark[2]
                known = any(
                    lanes.visible((mark[0], mark[1], (cta, w))) >= value
                    for w in range(warp // 4 * 4, warp // 4 * 4 + 4)
                )
            return known and (need is not Need.COMPLETION_BRIDGE or lanes.bridged(mark, same) >= value)
        mark = ("t", first.cls)
        if not same and lanes.visible(mark) < first.time:
            return False
        if need is not Need.BRIDGE or lanes.bridged(mark, same) >= first.time:
            return True
        return first.kind is Access.GENERIC_READ and self.read_is_over(lanes, first, same)

    def read_is_over(self, lanes: LaneClass, first: Touch, same: bool) -> bool:
        """K1 in practical mode: it was shown to be over, or a fence passed, before what made it known."""
        seen = lanes.visible(("t", first.cls), same)
        return (first.used > 0 and seen >= first.used) or any(
            first.time < f <= seen for f in self.fences[first.cls]
        )

    def text(self, touch: Touch) -> str:
        return f"line {self.info.sites[touch.site].span.line}, {touch.kind.name.lower()}"


def _own_overlap(touch: Touch, count: int) -> bool:
    """Whether lanes of one access write the same bytes: values that may differ, or copies of their own."""
    fp = touch.fp
    if touch.kind.asynchronous and not touch.any_lane:
        return not fp.lanes or sum(b - a for a, b, _ in fp.lanes) > sum(b - a for a, b in fp.intervals)
    return fp.overlap


def _same_words(first: Footprint, second: Footprint, lo: int, hi: int) -> bool:
    """Whether accesses that meet in ``lo..hi`` are to the same words there (A3)."""
    mine, theirs = _words(first, lo, hi), _words(second, lo, hi)
    return all(w == v for w in mine for v in theirs if w[0] < v[1] and v[0] < w[1])


def _words(fp: Footprint, lo: int, hi: int) -> set[tuple[int, int]]:
    found = {(a, b) for a, b, *_ in fp.lanes or fp.intervals if a < hi and lo < b}
    if not fp.element:
        return found
    return {(x, x + fp.element) for a, b in found for x in range(a, b, fp.element)}


def _same_lanes(first: Footprint, second: Footprint, lo: int, hi: int) -> bool:
    """Whether each byte of ``lo..hi`` is touched by one lane only in both accesses together."""
    if not first.lanes or not second.lanes:
        return False
    owner: dict[int, int] = {}
    for a, b, lane in (*first.lanes, *second.lanes):
        for byte in range(max(a, lo), min(b, hi)):
            if owner.setdefault(byte, lane) != lane:
                return False
    return True


def _without(lo: int, hi: int, pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of ``lo..hi`` outside some sorted, disjoint pieces of it."""
    out = []
    for a, b in pieces:
        if lo < a:
            out.append((lo, a))
        lo = b
    if lo < hi:
        out.append((lo, hi))
    return out
