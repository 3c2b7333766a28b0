"""Who uses which shared buffer, in which order: sites, rings, segments, and what is to be handed over.

A *ring* is a buffer whose slots are used in turn: use ``e`` of ``S`` slots is ``buffer[e % S]``. A buffer
without slots is a ring of one. The uses of a ring are alike: its *segments*, runs of accesses by one group
of warps, follow each other in text order, and the first one of use ``e + S`` follows the last of use ``e``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from syncverify.base.source import InputError
from syncverify.ir.expr import Binary, Call, Expr, Int, Var, names
from syncverify.ir.layout import layout
from syncverify.ir.nodes import For, Kernel, Region, Role, Stmt
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access
from syncverify.passes.access import accesses
from syncverify.passes.edits import Path
from syncverify.passes.rewrite import Body, bodies

Warps = frozenset[int]
_UNIT_THREADS = {"threads": 1, "warps": 32, "warpgroups": 128}


@dataclass(frozen=True)
class Site:
    """An access in the program. ``home``: the warps of its outermost role; ``warps``: of its innermost."""

    path: Path
    stmt: Stmt
    access: Access
    region: Region
    home: Warps
    warps: Warps
    loops: tuple[tuple[Path, For], ...]


@dataclass(frozen=True)
class Segment:
    """Accesses of one use, one after the other, by one group of warps."""

    home: Warps
    sites: tuple[Site, ...]

    def __contains__(self, access: Access) -> bool:
        return any(s.access is access for s in self.sites)


@dataclass(frozen=True)
class Ring:
    """A buffer's uses. ``carriers``: the loops that go from use to use, none where there is one use only."""

    buffer: str
    slots: int
    carriers: frozenset[Path]
    segments: tuple[Segment, ...]
    uses: tuple[Expr, ...]  # of each segment
    #: For several buffers in one place: only what different ones do to each other matters here.
    shared_by: frozenset[str] = frozenset()

    @property
    def buffers(self) -> frozenset[str]:
        return self.shared_by or frozenset({self.buffer})

    @property
    def carrier(self) -> Path | None:
        """The one loop that goes from use to use; InputError where there are several."""
        if len(self.carriers) > 1:
            raise InputError(
                f"{self.buffer}: its uses are counted by several loops", self.segments[0].sites[0].stmt.span
            )
        return next(iter(self.carriers), None)

    @property
    def homes(self) -> frozenset[Warps]:
        return frozenset(s.home for s in self.segments)


@dataclass(frozen=True)
class Edge:
    """What ``source`` does must precede what ``target`` does, ``slots`` uses later if it ``wraps``."""

    source: int
    target: int
    wraps: bool


def role_warps(role: Role) -> Warps:
    """The warps of a role; InputError where its bounds are no numbers."""
    if not (isinstance(role.lo, Int) and isinstance(role.hi, Int)):
        raise InputError(f"role {role.name}: bounds must be numbers here", role.span)
    each = _UNIT_THREADS[role.unit]
    return frozenset(range(role.lo.value * each // 32, -(-role.hi.value * each // 32)))


def sites(kernel: Kernel) -> tuple[Site, ...]:
    """Every access to the block's own shared memory, in text order."""
    block = frozenset(range(-(-kernel.launch.threads // 32)))
    return tuple(_sites(kernel.body, (), block, None, ()))


def _sites(
    body: Body, at: Path, warps: Warps, home: Warps | None, loops: tuple[tuple[Path, For], ...]
) -> Iterator[Site]:
    for k, s in enumerate(body):
        here = (*at, k)
        for access, region in accesses(s):
            if region.rank is None:
                yield Site(here, s, access, region, warps if home is None else home, warps, loops)
        inner, outer, around = warps, home, loops
        if isinstance(s, Role):
            inner = role_warps(s)
            outer = inner if home is None else home
        elif isinstance(s, For):
            around = (*loops, (here, s))
        for branch, b in enumerate(bodies(s)):
            yield from _sites(b, (*here, branch), inner, outer, around)


def rings(kernel: Kernel) -> tuple[Ring, ...]:
    """Every buffer that is accessed, and every place where several buffers lie."""
    found: dict[str, list[Site]] = {}
    for s in sites(kernel):
        found.setdefault(s.region.buffer, []).append(s)
    own = [_ring(name, tuple(at)) for name, at in found.items()]
    shared = [
        _ring(min(group), tuple(sorted((s for b in group for s in found[b]), key=lambda s: s.path)), group)
        for group in aliases(kernel)
        if group <= found.keys()
    ]
    return (*own, *shared)


def aliases(kernel: Kernel) -> list[frozenset[str]]:
    """Sets of buffers that share bytes, directly or through others."""
    if not any(s.offset is not None for s in kernel.shared):
        return []
    values = {p.name: p.default for p in kernel.params if p.default is not None}
    groups: list[frozenset[str]] = []
    reach = -1
    for b in sorted(layout(kernel, values).buffers.values(), key=lambda b: b.offset):
        if b.offset < reach:
            groups[-1] |= {b.name}
        else:
            groups.append(frozenset({b.name}))
        reach = max(reach, b.end)
    return [g for g in groups if len(g) > 1]


def _ring(name: str, at: tuple[Site, ...], group: frozenset[str] = frozenset()) -> Ring:
    slotted = [_slot(s.region) for s in at]
    counts = {n for _, n in slotted}
    if len(counts) == 1 and None not in counts and not group:
        (slots,) = counts
        assert slots is not None
        carriers = {c for s, (e, _) in zip(at, slotted, strict=True) if (c := _carrier(s, e)) is not None}
        uses = {s.path: e for s, (e, _) in zip(at, slotted, strict=True)}
    else:
        slots = 1
        common = [p for p, _ in at[0].loops if all(any(p == q for q, _ in s.loops) for s in at)]
        carriers = set(common[-1:])
        uses = {s.path: _count(s, common[-1] if common else None) for s in at}
    runs = [tuple(run) for _, run in groupby(at, key=lambda s: (s.home, s.access is Access.ASYNC_WRITE))]
    segments = tuple(Segment(run[0].home, run) for run in runs)
    first_uses = tuple(uses[s.sites[0].path] for s in segments)
    return Ring(name, slots, frozenset(carriers), segments, first_uses, group)


def _slot(region: Region) -> tuple[Expr, int | None]:
    match region.index:
        case (Binary("%", use, Int(slots)), *_):
            return use, slots
    return Int(0), None


def _carrier(site: Site, use: Expr) -> Path | None:
    """The innermost loop that the use depends on."""
    inside = [p for p, loop in site.loops if loop.var in names(use)]
    return inside[-1] if inside else None


def _count(site: Site, carrier: Path | None) -> Expr:
    """The number of the use, counted by the loops down to the carrier."""
    use: Expr = Int(0)
    if carrier is None:
        return use
    for p, loop in site.loops:
        if len(p) > len(carrier):
            break
        trips: Expr = loop.hi if loop.lo == Int(0) else loop.hi - loop.lo
        number: Expr = Var(loop.var) if loop.lo == Int(0) else Var(loop.var) - loop.lo
        if loop.step != Int(1):
            trips, number = Call("cdiv", (trips, loop.step)), number // loop.step
        use = number if use == Int(0) else use * trips + number
    return use


# ---------------------------------------------------------------- what must be handed over


def hand_overs(ring: Ring, others: Sequence[Ring] = ()) -> tuple[Edge, ...]:
    """The fewest edges between groups of warps from which all that is needed follows.

    Within a group, only copies need one, to be seen complete. Program order within a group counts where every
    warp that accesses goes on to the later segment. Nearer edges are taken first, so that what they imply
    is not asked for again. For a place that several buffers share, ``others`` are the rings of each.
    """
    n = len(ring.segments)
    seen: list[Edge] = []
    spans = range(1, n + 1) if ring.carriers else range(1, n)
    for span in spans:
        for source in range(n):
            target, wraps = (source + span) % n, source + span >= n
            if wraps and not ring.carriers:
                continue
            a, b = ring.segments[source], ring.segments[target]
            if not _crosses(ring, a, b) or (a.home & b.home and wraps):
                continue
            if not wraps and _handed_over(a, b, others):
                continue
            if not _follows(ring, seen, source, source + span):
                seen.append(Edge(source, target, wraps))
    return tuple(seen)


def all_hand_overs(kernel: Kernel) -> tuple[tuple[Ring, tuple[Edge, ...]], ...]:
    """Every ring with its edges, without those that edges of other rings imply."""
    found = rings(kernel)
    own = [r for r in found if not r.shared_by]
    edges = [(r, hand_overs(r, own if r.shared_by else ())) for r in found]
    return tuple(_reduced(edges))


def need(a: Segment, b: Segment, ring: Ring) -> bool:
    """Whether some access of the second needs to know of one of the first (rows of the ordering table)."""
    return any(
        ordering(x.access, y.access).need is not Need.NOTHING
        for x in a.sites
        for y in b.sites
        if not ring.shared_by or x.region.buffer != y.region.buffer
    )


def _crosses(ring: Ring, a: Segment, b: Segment) -> bool:
    """Whether an order is needed that threads of one group cannot give each other by a barrier."""
    return need(a, b, ring) and (not a.home & b.home or Access.ASYNC_WRITE in a)


def _handed_over(a: Segment, b: Segment, others: Sequence[Ring]) -> bool:
    """Whether each buffer that the first accesses is handed to the second's warps anyway, use by use."""
    touched = {s.region.buffer for s in a.sites}
    handed = {
        r.buffer
        for r in others
        for e in hand_overs(r)
        if not e.wraps and r.segments[e.source].home == a.home and r.segments[e.target].home == b.home
    }
    return bool(others) and touched <= handed


def _follows(ring: Ring, edges: list[Edge], first: int, last: int) -> bool:
    """Whether a chain of edges leads from one segment to another, numbered on through the uses."""
    n = len(ring.segments)
    reached = {first}
    for at in range(first, last):
        if at not in reached:
            continue
        here = ring.segments[at % n]
        for e in edges:
            if e.source == at % n:
                reached.add(at + (e.target - e.source) % n if e.target != e.source else at + n)
        for later in range(at + 1, last + 1):
            there = ring.segments[later % n]
            if here.home == there.home and (at != first or _same_warps(here, there)):
                reached.add(later)
    return last in reached


def _same_warps(a: Segment, b: Segment) -> bool:
    return {s.warps for s in a.sites} == {s.warps for s in b.sites}


# ---------------------------------------------------------------- what other rings imply


def _reduced(found: list[tuple[Ring, tuple[Edge, ...]]]) -> list[tuple[Ring, tuple[Edge, ...]]]:
    """Without edges that a chain through other rings implies; those that free a slot are tried first.

    A path of segments is followed, with the rounds that it takes.
    """
    for wraps in (True, False):
        for k, (ring, edges) in enumerate(found):
            for e in edges:
                if e.wraps is wraps and len(ring.carriers) <= 1:
                    others = [(r, tuple(x for x in es if (r, x) != (ring, e))) for r, es in found]
                    if _implied(ring, e, others):
                        found[k] = others[k]
                        return _reduced(found)
    return found


@dataclass(frozen=True)
class _Known:
    """Who knows of what an edge orders: the warps that waited at a segment, or one lane of each."""

    ring: Ring
    segment: int
    rounds: int  # after the source

    @property
    def at(self) -> Segment:
        return self.ring.segments[self.segment]


def _implied(ring: Ring, edge: Edge, found: list[tuple[Ring, tuple[Edge, ...]]]) -> bool:
    """Whether what the edge orders is ordered by program order and other edges, no more rounds later."""
    alike = [(r, es) for r, es in found if _counted_alike(r, ring)]
    limit = ring.slots if edge.wraps else 0
    target = ring.segments[edge.target]
    queue = list(_notified(alike, ring, edge.source))
    seen: set[tuple[str, int, int]] = set()
    while queue:
        known = queue.pop()
        if known.rounds > limit or (key := (known.ring.buffer, known.segment, known.rounds)) in seen:
            continue
        seen.add(key)
        for r, es in alike:
            for j, there in enumerate(r.segments):
                if there.home != known.at.home:
                    continue
                rounds = known.rounds + (0 if known.at == there or _before(known.at, there) else 1)
                if rounds <= limit and (r, j) == (ring, edge.target) and _all_know(known.at, target):
                    return True
                if _warps(known.at) & _warps(there) and not _arrives_later(there):
                    queue += [_over(r, e, rounds) for e in es if e.source == j]
    return False


def _notified(found: list[tuple[Ring, tuple[Edge, ...]]], ring: Ring, source: int) -> Iterator[_Known]:
    """Who is told of a segment's accesses first: by its own edges, or by later ones of all its warps.

    Copies are complete only behind an edge of their own segment, which counts their bytes; bulk stores and
    wgmma are waited for where they are issued.
    """
    here = ring.segments[source]
    yield from (_over(ring, e, 0) for r, es in found if r == ring for e in es if e.source == source)
    if Access.ASYNC_WRITE in here or _arrives_later(here):
        return
    for r, es in found:
        for j, there in enumerate(r.segments):
            reaches = there.home == here.home and _warps(here) <= _warps(there)
            if reaches and (r, j) != (ring, source) and not _arrives_later(there):
                rounds = 0 if _before(here, there) else 1
                yield from (_over(r, e, rounds) for e in es if e.source == j)


def _arrives_later(segment: Segment) -> bool:
    """Whether the arrival is cp.async's own, which tells of those copies and of nothing else (B32)."""
    return all(s.access is Access.CPASYNC_WRITE for s in segment.sites)


def _over(ring: Ring, edge: Edge, rounds: int) -> _Known:
    return _Known(ring, edge.target, rounds + (ring.slots if edge.wraps else 0))


def _before(a: Segment, b: Segment) -> bool:
    return max(s.path for s in a.sites) < min(s.path for s in b.sites)


def _all_know(waited: Segment, target: Segment) -> bool:
    """Whether all threads of a segment waited at another one; of an issuer only one lane does."""
    issued = {Access.ASYNC_READ, Access.ASYNC_WRITE}
    one_lane = all(s.access in issued for s in waited.sites)
    return _warps(target) <= _warps(waited) and (
        not one_lane or all(s.access in issued for s in target.sites)
    )


def _counted_alike(a: Ring, b: Ring) -> bool:
    return not a.shared_by and a.carriers == b.carriers and len(set(a.uses) | set(b.uses)) == 1


def _warps(segment: Segment) -> Warps:
    return frozenset(w for s in segment.sites for w in s.warps)
