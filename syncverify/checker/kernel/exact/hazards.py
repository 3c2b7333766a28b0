"""Accesses to memory in one run, pair by pair: each rests on a row of ``model/ordering.py``.

Every access is kept, by its bytes; nothing is forgotten but what a later write over the same bytes, ordered
after it, represents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from syncverify.base.certificate_data import RejectedError
from syncverify.checker.kernel.exact.knowledge import Epoch, LaneClass
from syncverify.model.events import (
    EACH_BLOCK,
    EACH_TIME,
    GLOBAL_MEMORY,
    Footprint,
    StrongWord,
    SystemInfo,
    ThreadClass,
    of_one_element,
)
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access, Scope

WRITES = frozenset(f for f in Access if f.writes)


class NotJudgedError(Exception):
    """An event that only the checker judges."""


@dataclass(slots=True, eq=False)
class Touch:
    """One access. ``done``: the mark and value that show the completion of an asynchronous one, once there
    is one; ``used``: when a read was shown to be over, 0 if it was not, -1 if no use will; ``any_lane``: the
    warp does it as one; ``scope``: of an atomic; ``execution``: how often the class has executed its store
    before, where the value may depend on it (or ``UNCOUNTED``); ``far``: what a fence bridges of one in
    another CTA; ``drained``: when the class had waited for all its bulk groups since, -1 once it has
    committed them; ``barrier``: it begins or ends one in these bytes.
    """

    kind: Access
    cls: int
    time: int
    fp: Footprint
    site: int
    done: tuple[Epoch, int] | None = None
    used: int = 0
    any_lane: bool = False
    atomic: bool = False
    scope: int = Scope.CTA
    execution: int = 0
    far: Epoch | None = None
    drained: int = 0
    barrier: bool = False


@dataclass(slots=True)
class _Judged:
    """An access while it is judged. ``together``: others may write beside it; ``known``: the accesses before
    it, by identity, and whether every lane knows what it needs of them; ``over``: whether it represents them.
    """

    lanes: LaneClass
    touch: Touch
    at: Callable[[], str]
    together: bool
    left: Callable[[], Sequence[LaneClass]]
    known: dict[int, bool] = field(default_factory=dict)
    over: dict[int, bool] = field(default_factory=dict)


#: The execution of a store by a class that had none when states were compared in which others had some.
UNCOUNTED = -1
#: Memory is looked at block by block, of so many bytes.
BLOCK = 512
#: A CTA, a block of its memory, and whether it is written there.
Block = tuple[int, int, bool]
#: Bytes that an access touches, and the access.
Piece = tuple[int, int, Touch]


class Memory:
    """The accesses to the shared memory of each CTA and to tracked global memory: reads, writes by block."""

    def __init__(self, info: SystemInfo, fences: list[list[int]]) -> None:
        self.info = info
        self.fences = fences  # per class, the times of its acq_rel fences
        self.touches: dict[Block, list[Piece]] = {}
        self.pieces = 0  # that are kept
        self.products: set[int] = set()  # classes that have issued wgmmas
        #: footprints by identity, and their bytes by block
        self.blocks: dict[int, tuple[Footprint, dict[int, list[tuple[int, int]]]]] = {}

    def access(
        self, lanes: LaneClass, touch: Touch, at: Callable[[], str], left: Callable[[], Sequence[LaneClass]]
    ) -> None:
        """Judges an access against all before it, then keeps it. ``at``: names its place; ``left``: the
        classes that have not ended. Raises RejectedError.
        """
        count = self.info.classes[touch.cls].count
        if touch.kind.writes and not touch.atomic and count > 1 and _own_overlap(touch, count):
            raise RejectedError(at(), f"{self.text(touch)}: lanes write the same bytes")
        judged = _Judged(lanes, touch, at, touch.kind.writes and self.may_meet(touch), left)
        fp, writes = touch.fp, touch.kind.writes
        if id(fp) not in self.blocks:
            self.blocks[id(fp)] = fp, _blocks(fp.intervals)
        for block, spans in self.blocks[id(fp)][1].items():
            for written in (True, False) if writes else (True,):  # two reads need no order
                key = fp.memory, block, written
                if key in self.touches:
                    rest = self.access_block(judged, self.touches[key], spans)
                    if writes:
                        self.keep(key, rest)
            self.pieces += len(spans)
            self.touches.setdefault((fp.memory, block, writes), []).extend([(a, b, touch) for a, b in spans])

    def keep(self, block: Block, kept: list[Piece]) -> None:
        """Replaces what is kept of a block."""
        self.pieces += len(kept) - len(self.touches[block])
        self.touches[block] = kept

    def access_block(self, judged: _Judged, kept: list[Piece], spans: list[tuple[int, int]]) -> list[Piece]:
        """The same against what is kept of one block; what of that a write leaves there."""
        touch, known, over = judged.touch, judged.known, judged.over
        writes = touch.kind.writes
        left: list[Piece] = []
        for lo, hi, first in kept:
            if not writes and known.get(id(first)):
                continue
            pieces = _common(lo, hi, spans)
            if not pieces:
                if writes:
                    left.append((lo, hi, first))
                continue
            if id(first) not in known:
                need = self.need(first, touch)
                known[id(first)] = need is Need.NOTHING or self.met(judged.lanes, first, need, same=False)
            if not known[id(first)]:
                for piece in pieces:
                    self.judge(judged, first, piece)
            if not writes:
                continue
            if id(first) not in over:
                over[id(first)] = _again(first, touch) or self.represents(judged, first)
            left += (
                [(a, b, first) for a, b in _without(lo, hi, pieces)] if over[id(first)] else [(lo, hi, first)]
            )
        return left

    def represents(self, judged: _Judged, first: Touch) -> bool:
        """Whether who follows a write follows what it comes after: who may write beside it does too if all
        classes know of that.
        """
        need = self.need(first, judged.touch)
        return not judged.together or all(self.met(x, first, need, same=False) for x in judged.left())

    def need(self, first: Touch, touch: Touch) -> Need:
        """What a row asks for. K6 in practical mode: cp.async needs no fence before wgmma and bulk stores,
        but on sm_100.
        """
        row = ordering(first.kind, touch.kind)
        fenceless = row.contested == "K6" and not self.info.strict_copies
        return Need.COMPLETION if fenceless else row.need

    def judge(self, judged: _Judged, first: Touch, piece: tuple[int, int]) -> None:
        """One pair of accesses to a piece, whose order not every lane knows."""
        lanes, touch, at = judged.lanes, judged.touch, judged.at
        need = self.need(first, touch)
        same = first.cls == touch.cls and (
            lanes.alone or first.any_lane or touch.any_lane or _same_lanes(first.fp, touch.fp, *piece)
        )
        if (same and self.met(lanes, first, need, same=True)) or self.one_value(first, touch, *piece):
            return
        if self.mutually_atomic(first, touch) and _same_words(first.fp, touch.fp, *piece):
            if self.decides(first, touch):
                raise NotJudgedError("strong accesses in no order, one of which reads a value that is used")
            return
        if first.kind is Access.GENERIC_READ and first.cls in self.products:
            raise NotJudgedError("reads that a wgmma may hand on (K8)")
        raise RejectedError(at(), f"{self.text(touch)}: {need.value} of {self.text(first)} is not shown")

    def mutually_atomic(self, first: Touch, second: Touch) -> bool:
        """Whether both are strong, of one proxy, and their scopes include each other's thread (A3)."""
        if not (first.atomic and second.atomic) or first.kind.proxy != second.kind.proxy:
            return False
        one, other = self.info.classes[first.cls].cta, self.info.classes[second.cls].cta
        return one == other or min(first.scope, second.scope) >= Scope.CLUSTER

    def decides(self, first: Touch, second: Touch) -> bool:
        """Whether a strong load reads an exchange that no order decides, or a volatile word of its warp."""
        store, load = (first, second) if first.kind.writes else (second, first)
        if load.kind.writes or load.site not in self.info.strong_words:
            return False
        words = self.info.strong_words.get(store.site, StrongWord(0))
        one, other = self.info.classes[first.cls], self.info.classes[second.cls]
        near = (one.cta, one.warp) == (other.cta, other.warp)
        if (StrongWord.OF_EACH_LANE if near else StrongWord.OF_EACH_THREAD) in words:
            return True
        return near and StrongWord.VOLATILE in words | self.info.strong_words[load.site]

    def may_meet(self, touch: Touch) -> bool:
        """Whether others may write beside it, unordered: atomics, and stores of one instruction whose values
        may be equal. Then it does not represent what it comes after: they need not.
        """
        info = self.info
        if touch.barrier or touch.fp.memory == GLOBAL_MEMORY:
            return False
        if touch.atomic or touch.site in info.equal_stores or info.varies is None:
            return touch.atomic or touch.site in info.equal_stores
        every = (1 << (info.threads - 1).bit_length()) - 1 | (EACH_BLOCK if info.ctas > 1 else 0)
        return touch.kind is Access.GENERIC_WRITE and info.varies(touch.site) & every != every

    def one_value(self, first: Touch, second: Touch, lo: int, hi: int) -> bool:
        """Whether two stores of one instruction leave the same value in each byte of ``lo..hi``."""
        info = self.info
        if first.barrier or second.barrier or first.atomic or second.atomic:
            return False
        if first.fp.memory == GLOBAL_MEMORY:
            return False
        if first.site != second.site or first.kind is not Access.GENERIC_WRITE or second.kind != first.kind:
            return False
        if first.site in info.equal_stores or info.varies is None:
            return first.site in info.equal_stores
        mask = info.varies(first.site)
        one, other = info.classes[first.cls], info.classes[second.cls]
        if mask & EACH_TIME and UNCOUNTED in (first.execution, second.execution):
            raise NotJudgedError("stores in a loop that a class comes to late")
        if (mask & EACH_TIME and first.execution != second.execution) or (
            mask & EACH_BLOCK and one.cta != other.cta
        ):
            return False
        return all(
            a == b and not (n ^ m) & mask & EACH_TIME - 1
            for a, n in _stored(first.fp, one, lo, hi)
            for b, m in _stored(second.fp, other, lo, hi)
            if a[0] < b[1] and b[0] < a[1]
        )

    def met(self, lanes: LaneClass, first: Touch, need: Need, *, same: bool) -> bool:
        """Whether a row's need is met, for the lane that made the first access or for every lane."""
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
        if need is not Need.BRIDGE or lanes.bridged(first.far or mark, same) >= first.time:
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


def _blocks(intervals: Sequence[tuple[int, int]]) -> dict[int, list[tuple[int, int]]]:
    """Intervals, cut at the ends of blocks."""
    found: dict[int, list[tuple[int, int]]] = {}
    for lo, hi in intervals:
        for block in range(lo // BLOCK, -(-hi // BLOCK)):
            span = max(lo, block * BLOCK), min(hi, (block + 1) * BLOCK)
            found.setdefault(block, []).append(span)
    return found


def _own_overlap(touch: Touch, count: int) -> bool:
    """Whether lanes of one access write the same bytes: values that may differ, or copies of their own."""
    fp = touch.fp
    if touch.kind.asynchronous and not touch.any_lane:
        return not fp.lanes or sum(b - a for a, b, _ in fp.lanes) > sum(b - a for a, b in fp.intervals)
    return fp.overlap


def _again(first: Touch, second: Touch) -> bool:
    """Whether a store is another execution of an earlier one by the same lanes, with a value of that kind."""
    if first.atomic or second.atomic or first.execution != second.execution:
        return False
    return (first.site, first.cls, first.kind) == (second.site, second.cls, second.kind) and (
        first.fp is second.fp
    )


def _stored(fp: Footprint, c: ThreadClass, lo: int, hi: int) -> list[tuple[tuple[int, int], int]]:
    """The words of ``lo..hi`` that threads of a class store, and the numbers of these in their block."""
    lanes = fp.lanes or [(a, b, lane) for a, b in fp.intervals for lane in range(32) if c.lanes >> lane & 1]
    return [
        ((x, x + (fp.element or b - a)), 32 * c.warp + lane)
        for a, b, lane in lanes
        if a < hi and lo < b
        for x in range(a, b, fp.element or b - a)
    ]


def _same_words(first: Footprint, second: Footprint, lo: int, hi: int) -> bool:
    """Whether accesses that meet in ``lo..hi`` are to the same words there (A3)."""
    if of_one_element(first, second):
        return True
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
    owner, end = -1, lo
    for a, b, lane in sorted((*first.lanes, *second.lanes)):
        if a >= hi or b <= lo:
            continue
        if max(a, lo) < end and lane != owner:
            return False
        owner, end = lane, max(end, b)
    return True


def _common(lo: int, hi: int, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of ``lo..hi`` that lie in some sorted, disjoint spans."""
    if spans[0][0] <= lo and hi <= spans[0][1]:
        return [(lo, hi)]
    return [(max(lo, a), min(hi, b)) for a, b in spans if a < hi and lo < b]


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
