"""The operations of one warp's statements: which barrier and slot, which bytes, which iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from syncverify.checker.prover.rings.counters import Counters
from syncverify.checker.prover.rings.expressions import multiple, parity
from syncverify.checker.prover.rings.linear import Facts, Lin, OutsideError, linear, num, var
from syncverify.checker.prover.rings.program import BEFORE, BEHIND, FIRST, TILE, Op, Piece, Ring, Touch
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import fold, statements
from syncverify.ir.expr import Binary, Expr, Int, names
from syncverify.ir.footprints import locate
from syncverify.ir.layout import SWIZZLE_ALIGN, BufferLayout
from syncverify.ir.text.printed_expressions import print_expr
from syncverify.ir.value_uses import reaching_memory
from syncverify.model.proxies import Access

#: An operation of which nothing is said yet.
_BLANK = Op("", (), 0, 0, ())


@dataclass(slots=True)
class Lanes:
    """What one warp knows at a point of the text; makes the operation of a statement.

    ``lanes``: for each operation so far, which lanes execute it. ``conditions``: for each lane, how guards
    decided. ``chosen``: the elected lane.
    """

    kernel: n.Kernel
    warp: int
    numbers: Mapping[int, int]
    depths: Mapping[str, Lin]
    fixed: frozenset[str]
    facts: Facts
    chosen: int
    ops: list[Op] = field(default_factory=list)
    lanes: list[frozenset[int]] = field(default_factory=list)
    env: dict[str, Expr] = field(default_factory=dict)
    elected: set[str] = field(default_factory=set)
    declared: dict[str, tuple[frozenset[int], tuple[Lin, ...]]] = field(default_factory=dict)
    conditions: list[tuple[Expr, ...]] = field(default_factory=lambda: [()] * 32)
    segment: int = 0
    bounds: dict[int, tuple[Lin, ...]] = field(default_factory=dict)  # of the loops, by segment
    tiled: bool = False  # loops in loops are tiles
    region: int | None = None  # the tiles that are being walked
    regions: dict[int, int] = field(default_factory=dict)  # of segments inside tiles
    tiles: dict[int, Expr] = field(default_factory=dict)  # how many, by region
    trips: dict[int, Expr] = field(default_factory=dict)  # of the loop inside, by region
    loop: str | None = None
    copy: tuple[int, ...] = ()
    domain: tuple[Lin, ...] = (var(FIRST), num(0) - var(FIRST))
    reads: dict[str, frozenset[int]] = field(default_factory=dict)
    threads: list[dict[str, Expr]] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    reaching: frozenset[str] = frozenset()  # registers whose values come to memory

    def __post_init__(self) -> None:
        x, y, _ = self.kernel.launch.block
        self.reaching = reaching_memory(self.kernel.body)
        self.env |= {"warp": Int(self.warp), "wg": Int(self.warp // 4), "rank": Int(0)}
        for lane in range(32):
            t = 32 * self.warp + lane
            place = {"tid": t, "tid.x": t % x, "tid.y": t // x % y, "tid.z": t // (x * y), "lane": lane}
            self.threads.append({k: Int(v) for k, v in place.items()})

    # ------------------------------------------------------------ values

    def opaque(self, e: Expr) -> bool:
        """A part that no counter and no lane decides may be any number."""
        return not names(e) & {FIRST, TILE, BEFORE, BEHIND, *self.threads[0], *self.elected}

    def value(self, e: Expr) -> Expr:
        return fold(e, self.env)

    def on(self, e: Expr, lane: int) -> Expr:
        """A value with the lane's own numbers."""
        own = self.threads[lane] | {p: Int(int(lane == self.chosen)) for p in self.elected}
        return fold(e, own)

    def shared_by(self, e: Expr, mask: frozenset[int]) -> Expr:
        """A value that must be the same in all lanes."""
        e = self.value(e)
        # any lane may be the elected one
        anyone = bool(self.elected) and not names(e).isdisjoint(self.threads[0])
        found = {self.on(e, lane) for lane in (self.any_of(mask) if anyone else mask)}
        if len(found) != 1:
            raise OutsideError(f"{print_expr(e)} differs between lanes")
        return found.pop()

    def any_of(self, mask: frozenset[int]) -> frozenset[int]:
        """The lanes that may be meant: the elected one represents all that guards do not tell from it."""
        if not self.elected:
            return mask
        return mask | {x for x in range(32) if self.conditions[x] == self.conditions[self.chosen]}

    def number(self, e: Expr, mask: frozenset[int], what: str) -> int:
        e = self.shared_by(e, mask)
        if not isinstance(e, Int):
            raise OutsideError(f"{what} is no number: {print_expr(e)}")
        return e.value

    # ------------------------------------------------------------ operations

    def made(self, s: n.Stmt, mask: frozenset[int]) -> Op | None:
        """The operation of a statement, its place left open; None for what is not modelled."""
        return self._on_mbarrier(s, mask) or self._copy(s, mask) or self._in_a_warpgroup(s, mask)

    def _on_mbarrier(self, s: n.Stmt, mask: frozenset[int]) -> Op | None:
        match s:
            case n.MbarrierInit(bar, arrivals):
                ring, index = self.barrier(bar, mask)
                count = self.number(arrivals, mask, "a count")
                return replace(_BLANK, kind="init", ring=ring, index=index, count=count)
            case n.MbarrierInval(bar):
                ring, index = self.barrier(bar, mask)
                return replace(_BLANK, kind="inval", ring=ring, index=index)
            case n.MbarrierArrive() if not (s.drop or s.no_complete or s.token) and s.sem == "release":
                ring, index = self.barrier(s.bar, mask)
                count = self.number(s.count, mask, "a count")
                size = 0 if s.expect is None else self.number(s.expect, mask, "a byte count")
                return replace(_BLANK, kind="arrive", ring=ring, index=index, count=count, bytes=size)
            case n.MbarrierExpectTx(bar, size_):
                ring, index = self.barrier(bar, mask)
                size = self.number(size_, mask, "a byte count")
                return replace(_BLANK, kind="expect", ring=ring, index=index, bytes=size)
            case n.MbarrierWait() if not s.token and s.sem == "acquire":
                ring, index = self.barrier(s.bar, mask)
                return self.wait(_BLANK, s, ring, index, mask)
        return None

    def _copy(self, s: n.Stmt, mask: frozenset[int]) -> Op | None:
        """Of a bulk copy, or of a group of them."""
        match s:
            case n.BulkLoad() if s.multicast is None:
                ring, index = self.barrier(s.bar, mask)
                touch = self.touch(Access.ASYNC_WRITE, s.dst, mask, 16)
                self.source(s.src, mask, copied(touch))
                return replace(
                    _BLANK, kind="copy", ring=ring, index=index, bytes=copied(touch), touches=(touch,)
                )
            case n.TmaLoad() if s.multicast is None:
                ring, index = self.barrier(s.bar, mask)
                touch = self.touch(Access.ASYNC_WRITE, s.dst, mask, self.tma(s.map))
                self.box(s.map, copied(touch))
                return replace(
                    _BLANK, kind="copy", ring=ring, index=index, bytes=copied(touch), touches=(touch,)
                )
            case n.BulkStore():
                touch = self.touch(Access.ASYNC_READ, s.src, mask, 16)
                self.source(s.dst, mask, copied(touch))
                return replace(_BLANK, kind="store", touches=(touch,))
            case n.TmaStore():
                touch = self.touch(Access.ASYNC_READ, s.src, mask, self.tma(s.map))
                self.box(s.map, copied(touch))
                return replace(_BLANK, kind="store", touches=(touch,))
            case n.BulkCommit():
                return replace(_BLANK, kind="commit")
            case n.BulkWait(pending):
                return replace(_BLANK, kind="drain", index=linear(self.shared_by(pending, mask), self.opaque))
        return None

    def _in_a_warpgroup(self, s: n.Stmt, mask: frozenset[int]) -> Op | None:
        """Of a wgmma, of a barrier or fence of threads, or of a plain access."""
        match s:
            case n.Wgmma():
                regions = [r for r in (s.a, s.b) if isinstance(r, n.Region)]
                touches = tuple(self.touch(Access.MMA_READ, r, mask, 16) for r in regions)
                return replace(_BLANK, kind="mma", touches=touches)
            case n.WgmmaCommit():
                return replace(_BLANK, kind="mma_commit")
            case n.WgmmaWait(pending):
                index = linear(self.shared_by(pending, mask), self.opaque)
                return replace(_BLANK, kind="mma_drain", index=index)
            case n.BarrierSync(id_, count_):
                number = self.number(id_, mask, "a barrier id")
                threads = self.kernel.launch.threads
                count = threads if count_ is None else self.number(count_, mask, "a count of threads")
                return replace(_BLANK, kind="meet", lag=number, count=count)
            case n.WarpSync(None):
                return replace(_BLANK, kind="warp_meet")
            case n.FenceProxyAsync(space, None) if space in ("all", "shared_cta"):
                return replace(_BLANK, kind="fence")
            case n.LdShared(_, src) | n.LdMatrix(_, src):
                return replace(_BLANK, kind="touch", touches=(self.touch(Access.GENERIC_READ, src, mask, 1),))
            case n.StShared(dst) | n.StMatrix(dst):
                touch = self.touch(Access.GENERIC_WRITE, dst, mask, 1)
                return replace(_BLANK, kind="touch", touches=(touch,))
        return None

    def barrier(self, ref: n.BarrierRef, mask: frozenset[int]) -> tuple[Ring, Lin]:
        if ref.rank is not None:
            raise OutsideError("a barrier of another block")
        index = Int(0) if ref.index is None else self.shared_by(ref.index, mask)
        return (ref.name, None), self.slot(index, ref.name)

    def slot(self, e: Expr, array: str) -> Lin:
        """The ring index whose remainder by the array's depth is ``e``."""
        depth = self.depths[array]
        match e:
            case Binary("%", a, d) if linear(d, self.opaque) == depth:
                return linear(a, self.opaque)
        index = linear(e, self.opaque)
        if not self.facts.entails(self.domain, [(index, depth - index - 1)]):
            raise OutsideError(f"{print_expr(e)} may not lie in {array}")
        return index

    def wait(self, blank: Op, s: n.MbarrierWait, ring: Ring, index: Lin, mask: frozenset[int]) -> Op:
        """``lag``: the parity waited for, less that of the turn ``index div depth``, modulo 2."""
        depth = self.depths[ring[0]]
        base, per, odd = parity(self.shared_by(s.phase, mask), self.opaque)
        if per == depth and base is not None:
            turns = multiple(base - index, depth)
            if turns is not None:
                return replace(blank, kind="wait", ring=ring, index=index, lag=(odd + turns) % 2)
        if base is None and self.facts.entails(self.domain, [(index, depth - index - 1)]):
            return replace(blank, kind="wait", ring=ring, index=index, lag=odd % 2, of=-2)
        if per == num(1) and base is not None and not index.coefficient(FIRST):
            # one barrier, waited for once in every iteration: the turn itself is its index
            return replace(blank, kind="wait", ring=(ring[0], index.const), index=base, lag=odd % 2, of=-3)
        raise OutsideError(f"the parity {print_expr(s.phase)} does not follow the slots of {ring[0]}")

    def tma(self, name: str) -> int:
        swizzle = next(m.swizzle for m in self.kernel.maps if m.name == name)
        return max(128, SWIZZLE_ALIGN[swizzle])

    def box(self, name: str, size: int) -> None:
        """A map's box has as many bytes as are copied."""
        m = next(m for m in self.kernel.maps if m.name == name)
        if prod(m.box) * self.element(m.tensor) != size:
            raise OutsideError(f"the box of {name} has other bytes than shared memory")

    def element(self, tensor: str) -> int:
        return n.DTYPE_BYTES[next(t.dtype for t in self.kernel.tensors if t.name == tensor)]

    def source(self, g: n.GlobalRegion, mask: frozenset[int], size: int) -> None:
        """As many bytes of global memory as are copied; their alignment, where the number of stages decides
        the place.
        """
        element = self.element(g.tensor)
        if self.number(g.count, mask, "a number of elements") * element != size:
            raise OutsideError(f"a copy of {size} bytes names others of {g.tensor}")
        start = self.shared_by(g.start, mask)
        if not names(start) & self.fixed:
            return
        at = linear(start, self.opaque)
        if any(k * element % 16 for _, k in at.terms) or at.const * element % 16:
            raise OutsideError("a copy's place in global memory may not be aligned")

    def touch(self, access: Access, r: n.Region, mask: frozenset[int], align: int) -> Touch:
        if r.rank is not None:
            raise OutsideError("shared memory of another block")
        s = next(b for b in self.kernel.shared if b.name == r.buffer)
        element = n.DTYPE_BYTES[s.dtype]
        if r.index:
            inner = tuple(d.value for d in s.shape[1:] if isinstance(d, Int))
            index = self.slot(self.shared_by(r.index[0], mask), s.name)
        else:
            if not all(isinstance(d, Int) for d in s.shape):
                raise OutsideError(f"all slots of {s.name} at once")
            inner, index = tuple(d.value for d in s.shape if isinstance(d, Int)), num(0)
            if inner[0] > 1 and self.depths[s.name] != num(1):
                self.whole(s)
        place = BufferLayout(s.name, 0, inner, element)
        slot = element * prod(inner)
        pieces: set[Piece] = set()
        bytes_: set[int] = set()
        for lane in sorted(self.any_of(mask)):
            found = self.located(place, r, lane)
            bytes_.add(found[1])
            for lo, hi in found[0]:
                if lo % align:
                    raise OutsideError(f"a place in {s.name} that is not aligned to {align} bytes")
                pieces.add((lo, hi, 32 * self.warp + lane))
        base = max(s.align, element, SWIZZLE_ALIGN[s.swizzle])
        if base % align or (slot % align and self.depths[s.name] != num(1)):
            raise OutsideError(
                f"slots of {s.name} are not aligned to {align} bytes for every number of stages"
            )
        if len(bytes_) != 1:
            raise OutsideError("lanes that touch different numbers of bytes")
        return Touch(access, s.name, index, tuple(sorted(pieces)))

    def whole(self, s: n.Shared) -> None:
        """A buffer touched as a whole must always be."""
        for x in statements(self.kernel.body):
            for name in ("dst", "src", "a", "b"):
                r = getattr(x, name, None)
                if isinstance(r, n.Region) and r.buffer == s.name and r.index:
                    raise OutsideError(f"{s.name} is touched by slots and as a whole")

    def located(self, b: BufferLayout, r: n.Region, lane: int) -> tuple[list[tuple[int, int]], int]:
        def get(e: Expr | None) -> int | None:
            if e is None:
                return None
            found = self.on(self.value(e), lane)
            if not isinstance(found, Int):
                raise OutsideError(f"a place inside a slot that changes: {print_expr(found)}")
            return found.value

        index = [get(e) or 0 for e in r.index[1:]]
        place = locate(b, index, get(r.start), get(r.count), get(r.rows), get(r.pitch))
        if place.problem:
            raise OutsideError(place.problem)
        return place.range.runs(), place.bytes


def copied(t: Touch) -> int:
    """The bytes of one thread's copy."""
    first = t.pieces[0][2]
    return sum(hi - lo for lo, hi, thread in t.pieces if thread == first)
