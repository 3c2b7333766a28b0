"""mbarriers between groups of warps: for each hand-over of a ring a phase that ends when it is due.

A *ready* barrier tells that a use is written, a *free* barrier that a slot may be used again. Rings that the
same warps hand over in the same way share one: their copies complete on one barrier, one arrival is for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from syncverify.base.source import InputError
from syncverify.ir.expr import Expr, Int, Var
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    Barrier,
    BarrierRef,
    BulkCommit,
    BulkLoad,
    BulkWait,
    CpAsyncMbarrierArrive,
    If,
    Kernel,
    MbarrierArrive,
    MbarrierWait,
    Role,
    Stmt,
    TmaLoad,
    WarpSync,
)
from syncverify.model.proxies import Access
from syncverify.passes.edits import Edits, Path, enclosing, replaced_at, statement
from syncverify.passes.rewrite import parity
from syncverify.passes.rings import Edge, Ring, Segment, Site, Warps, all_hand_overs, rings
from syncverify.passes.trace import ISSUED


@dataclass
class _Channel:
    """One array of mbarriers: which segments arrive on it, and which wait."""

    name: str
    slots: int
    use: dict[Warps, Expr] = field(default_factory=dict)  # of each group that arrives or waits
    sources: list[tuple[Ring, Segment]] = field(default_factory=list)
    targets: list[tuple[Ring, Segment]] = field(default_factory=list)
    wraps: bool = False

    def add(self, ring: Ring, edge: Edge) -> None:
        for at, ends in ((edge.source, self.sources), (edge.target, self.targets)):
            end = (ring, ring.segments[at])
            if end not in ends:
                ends.append(end)

    def slot(self, use: Expr) -> Expr:
        return use % self.slots


@dataclass(frozen=True)
class Channels:
    """Puts an mbarrier under every hand-over between groups of warps that run apart.

    The source arrives when its accesses are complete: a copy by its bytes, cp.async by its own arrival, an
    issuer after its group, threads after a warp barrier by one lane (or each, as ``arrive`` says). The
    target waits before its first access of the use. Both stand outside all loops that the use is constant in.
    """

    arrive: Literal["warp", "thread"] = "warp"
    name: str = "channels"

    def apply(self, kernel: Kernel) -> Kernel:
        channels = _planned(all_hand_overs(kernel))
        edits = Edits()
        placed = _Placer(kernel, self.arrive, edits)
        for c in channels:
            placed.waits(c)
        for c in channels:
            placed.announcement(c)
        placed.releases(channels)
        body = edits.apply(replaced_at(kernel.body, placed.renamed))
        named = {c.name for c in channels}
        copied = {s.bar.name for s in placed.copies()}
        old = tuple(b for b in kernel.barriers if b.name not in named | copied)
        new = tuple(Barrier(c.name, Int(c.slots)) for c in channels)
        return replace(kernel, body=body, barriers=(*old, *new))


def _planned(handed: tuple[tuple[Ring, tuple[Edge, ...]], ...]) -> list[_Channel]:
    """A channel for each set of edges that may share one."""
    planned: dict[object, _Channel] = {}
    found = tuple(r for r, _ in handed)
    for ring, edges in handed:
        for at, segment in enumerate(ring.segments):
            ready = [e for e in edges if e.source == at and not e.wraps]
            free = [e for e in edges if e.target == at and e.wraps]
            if Access.ASYNC_WRITE in segment and not ready and not ring.shared_by:
                raise InputError(
                    f"nobody reads what this copy brings into {ring.buffer}", segment.sites[0].stmt.span
                )
            for group, others in ((ready, [e.target for e in ready]), (free, [e.source for e in free])):
                if not group:
                    continue
                wraps = group[0].wraps
                homes = frozenset(ring.segments[k].home for k in others)
                copies = Access.ASYNC_WRITE in segment
                key = (wraps, ring.carrier, ring.slots, segment.home, copies, homes, str(ring.uses[at]))
                if key in planned and not _adjacent(planned[key], segment, found):
                    key = (*key, ring.buffer)  # type: ignore[assignment]
                channel = planned.setdefault(
                    key, _Channel(_named(ring, segment, wraps), ring.slots, wraps=wraps)
                )
                for e in group:
                    channel.add(ring, e)
                    for end in (e.source, e.target):
                        channel.use[ring.segments[end].home] = ring.uses[end]
    return _distinct(list(planned.values()))


def _named(ring: Ring, segment: Segment, wraps: bool) -> str:
    """After the barrier of the copies: full and empty; else after the buffer."""
    full = next((s.stmt.bar.name for s in segment.sites if isinstance(s.stmt, BulkLoad | TmaLoad)), None)
    if full is None:
        return f"{ring.buffer}_{'free' if wraps else 'ready'}"
    if not wraps:
        return full
    return "empty" + full.removeprefix("full") if full.startswith("full") else f"{full}_free"


def _distinct(channels: list[_Channel]) -> list[_Channel]:
    taken: set[str] = set()
    for c in channels:
        base, n = c.name, 1
        while c.name in taken:
            n += 1
            c.name = f"{base}{n}"
        taken.add(c.name)
    return channels


def _adjacent(channel: _Channel, segment: Segment, found: tuple[Ring, ...]) -> bool:
    """Whether the group that all hand-overs of a channel have in common does nothing else in between.

    Otherwise one barrier could make it wait for what only its own later arrival brings about.
    """
    ends = channel.targets if channel.wraps else channel.sources
    joined = {id(s) for _, g in ends for s in g.sites} | {id(s) for s in segment.sites}
    paths = [s.path for g in (*[g for _, g in ends], segment) for s in g.sites]
    others = [s for r in found if len(r.homes) > 1 for g in r.segments for s in g.sites]
    return not any(
        s.home == segment.home and min(paths) < s.path < max(paths) and id(s) not in joined for s in others
    )


@dataclass
class _Placer:
    """Where arrivals and waits stand."""

    kernel: Kernel
    arrive: str
    edits: Edits
    renamed: dict[Path, Stmt] = field(default_factory=dict)

    def copies(self) -> Iterator[BulkLoad | TmaLoad]:
        yield from (
            s
            for s in (statement(self.kernel.body, p) for p in self.renamed)
            if isinstance(s, BulkLoad | TmaLoad)
        )

    def within_role(self, site: Path, head: Path, *stmts: Stmt) -> tuple[Stmt, ...]:
        """The statements, in the outermost role around a site unless the place ``head`` is inside it."""
        entered = any(isinstance(statement(self.kernel.body, p), Role) for p in enclosing(head) if p != head)
        for p in enclosing(site):
            role = statement(self.kernel.body, p)
            if len(p) >= len(head) and isinstance(role, Role) and not entered:
                return (replace(role, body=stmts),)
        return stmts

    def span(self, ends: list[tuple[Ring, Segment]]) -> dict[Warps, tuple[Path, Path]]:
        """For each group: the first and the last statement around its accesses, at the level of the uses."""
        found: dict[Warps, tuple[Path, Path]] = {}
        for home in dict.fromkeys(g.home for _, g in ends):
            at = [s.path for _, g in ends if g.home == home for s in g.sites]
            carrier = ends[0][0].carrier
            found[home] = (self.level(min(at), at, carrier), self.level(max(at), at, carrier))
        return found

    def level(self, path: Path, all_paths: list[Path], carrier: Path | None) -> Path:
        """The statement around ``path`` in the carrier's body, or in the role inside it that holds all paths.

        One role of the group is always entered: only its threads take part.
        """
        depth = 1 if carrier is None else len(carrier) + 2
        entered = any(
            isinstance(statement(self.kernel.body, p), Role) for p in enclosing(path) if len(p) < depth
        )
        while True:
            head = path[:depth]
            s = statement(self.kernel.body, head)
            together = all(p[: depth + 1] == path[: depth + 1] for p in all_paths)
            if not isinstance(s, Role) or (entered and not together):
                return head
            entered = True
            depth += 2

    # ------------------------------------------------------------ waits

    def waits(self, c: _Channel) -> None:
        for home, (first, _) in self.span(c.targets).items():
            slot = c.slot(c.use[home])
            wait = MbarrierWait(BarrierRef(c.name, slot), parity(slot, int(c.wraps)))
            at = min(s.path for _, g in c.targets if g.home == home for s in g.sites)
            self.edits.put_before(first, *self.within_role(at, first, wait))

    # ------------------------------------------------------------ arrivals

    def announcement(self, c: _Channel) -> None:
        """The bytes of all copies that complete on the channel, announced in front of the first one."""
        sites = [s for _, g in c.sources for s in g.sites if s.access is Access.ASYNC_WRITE]
        if not sites or c.wraps:
            return
        homes = {s.home for s in sites}
        if len(homes) > 1:
            raise InputError("copies of different roles cannot complete on one barrier", sites[0].stmt.span)
        carrier = c.sources[0][0].carrier
        at = self.level(min(s.path for s in sites), [s.path for s in sites], carrier)
        bar = BarrierRef(c.name, c.slot(c.use[homes.pop()]))
        total = sum(self.bytes(s, at) for s in sites)
        arrive = MbarrierArrive(bar, expect=Int(total))
        self.edits.put_before(at, *self.within_role(min(s.path for s in sites), at, arrive))
        for s in sites:
            assert isinstance(s.stmt, BulkLoad | TmaLoad)
            self.renamed[s.path] = replace(s.stmt, bar=bar)

    def bytes(self, site: Site, level: Path) -> int:
        """What the copies of one statement bring in one use."""
        times = 1
        for p, loop in site.loops:
            if len(p) >= len(level):
                if not (isinstance(loop.lo, Int) and isinstance(loop.hi, Int) and isinstance(loop.step, Int)):
                    raise InputError("the copies of one use must be a fixed number", loop.span)
                times *= len(range(loop.lo.value, loop.hi.value, loop.step.value))
        if any(
            isinstance(statement(self.kernel.body, p), If)
            for p in enclosing(site.path)
            if len(p) >= len(level)
        ):
            raise InputError("a copy under a condition inside a use", site.stmt.span)
        return times * copy_bytes(self.kernel, site.stmt)

    def releases(self, channels: list[_Channel]) -> None:
        """Completions first, then arrivals: those of one group at one place are joined."""
        done: set[Path] = set()
        single: dict[Path, list[Stmt]] = {}
        each: dict[Path, list[Stmt]] = {}
        collective: dict[Path, bool] = {}  # whether only wgmma reads, which waits for the whole warp
        for c in channels:
            for home, (_, last) in self.span(c.sources).items():
                collective.setdefault(last, True)
                kinds = {s.access for _, g in c.sources if g.home == home for s in g.sites}
                if kinds == {Access.ASYNC_WRITE}:
                    continue
                bar = BarrierRef(c.name, c.slot(c.use[home]))
                if Access.ASYNC_READ in kinds and last not in done:
                    done.add(last)
                    stores = [s for _, g in c.sources for s in g.sites if s.access is Access.ASYNC_READ]
                    self.complete(max(s.path for s in stores if s.home == home), last)
                if kinds <= ISSUED:
                    single.setdefault(last, []).append(MbarrierArrive(bar))
                elif kinds == {Access.CPASYNC_WRITE}:
                    single.setdefault(last, []).append(CpAsyncMbarrierArrive(bar, noinc=True))
                else:
                    each.setdefault(last, []).append(MbarrierArrive(bar))
                    collective[last] &= kinds == {Access.MMA_READ}
        for ring, segment in self.stores_without_arrival(channels):
            last = self.level(segment[-1], list(segment), ring.carrier)
            if last not in done:
                done.add(last)
                self.complete(segment[-1], last)
        for at, arrivals in single.items():
            self.edits.put_after(at, *arrivals)
        for at, arrivals in each.items():
            if self.arrive == "thread":
                self.edits.put_after(at, *arrivals)
            else:
                joined = () if collective[at] else (WarpSync(),)
                self.edits.put_after(at, *joined, If(Var("lane").eq(0), tuple(arrivals)))

    def stores_without_arrival(self, channels: list[_Channel]) -> Iterator[tuple[Ring, tuple[Path, ...]]]:
        """Bulk stores of what other groups write again, where an arrival for something else tells of them."""
        waited = {(r.buffer, g) for c in channels for r, g in c.sources}
        for ring in rings(self.kernel):
            for g in ring.segments:
                stores = tuple(s.path for s in g.sites if s.access is Access.ASYNC_READ)
                others = (x for x in ring.segments if not x.home & g.home)
                again = ring.carriers and any(s.access.writes for x in others for s in x.sites)
                if stores and again and (ring.buffer, g) not in waited and not ring.shared_by:
                    yield ring, stores

    def complete(self, store: Path, level: Path) -> None:
        """The group of bulk stores, committed and waited for by those who issued it, in their role."""
        at = store
        while len(at) > len(level) and not isinstance(statement(self.kernel.body, at[:-2]), Role):
            at = at[:-2]
        self.edits.put_after(at, BulkCommit(), BulkWait(Int(0), read=True))


def copy_bytes(kernel: Kernel, copy: Stmt) -> int:
    """The bytes that one copy brings: its region's, or its map's whole box (K12)."""
    if isinstance(copy, TmaLoad):
        tensor_map = next(m for m in kernel.maps if m.name == copy.map)
        dtype = next(t.dtype for t in kernel.tensors if t.name == tensor_map.tensor)
        return prod(tensor_map.box) * DTYPE_BYTES[dtype]
    assert isinstance(copy, BulkLoad)
    shared = next(s for s in kernel.shared if s.name == copy.dst.buffer)
    if isinstance(copy.src.count, Int):
        return copy.src.count.value * DTYPE_BYTES[shared.dtype]
    raise InputError("a bulk copy of variable size", copy.span)
