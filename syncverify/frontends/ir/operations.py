"""What each statement emits: its operands, and how their values become events and faults.

Control flow, integer registers and value registers are ``code``'s; this file knows the rest.
An ``Op`` is a pure function of its operands and of the class's place, so its events are memoized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from syncverify.base.absent_blocks import AbsentBlock
from syncverify.frontends.ir.tables import Tables
from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr, Int, Var, names
from syncverify.ir.footprints import (
    Place,
    Range,
    Shifted,
    Value,
    footprint,
    locate,
    locate_shifted,
)
from syncverify.model.events import GLOBAL_MEMORY, TENSOR_SHIFT, Ev, Event, Flag
from syncverify.model.proxies import Scope
from syncverify.symbolic.context import NotConcrete
from syncverify.symbolic.protocol import BLOCK_GROUP, MEMBER

SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}
#: Places and numbers of them beyond this are not looked at where global memory has windows.
FARTHEST = 1 << 28
_MAX_TX = 2**20 - 1  # PTX ISA, mbarrier: range of tx-count and of the arrival count


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a class: its CTA (numbered over all clusters of the system), its lanes, and the mask
    of the lanes that its warp has at all."""

    cta: int
    lanes: tuple[int, ...]
    warp_mask: int


Build = Callable[[Where, Sequence[Value]], list[Event]]


@dataclass(slots=True)
class Op:
    """Operands, those of them that lanes may disagree on, and the function to events."""

    operands: list[Expr] = field(default_factory=list)
    varying: set[int] = field(default_factory=set)
    build: Build = lambda where, v: []
    addresses: set[int] = field(default_factory=set)  # operands that are global addresses only
    by_class: bool = False  # the events depend on the class's lanes or warp beyond the operands
    ahead: tuple[int, ...] = ()  # an operand, and the block's number, from which it is told
    places: tuple[
        tuple[int, int], ...
    ] = ()  # places determined by that of a block: these, and how far it moves them

    def add(self, e: Expr, varying: bool = False) -> int:
        self.operands.append(e)
        if varying:
            self.varying.add(len(self.operands) - 1)
        return len(self.operands) - 1

    def maybe(self, e: Expr | None, varying: bool = False) -> int:
        """The operand's position, or -1 if the source gives none."""
        return -1 if e is None else self.add(e, varying)


@dataclass(frozen=True, slots=True)
class _RegionAt:
    """Operand positions of a shared region."""

    buffer: str
    index: tuple[int, ...]
    start: int
    count: int
    rows: int
    pitch: int
    rank: int


@dataclass(frozen=True, slots=True)
class _BarAt:
    name: str
    index: int
    rank: int


@dataclass(slots=True)
class _Region:
    """A resolved region: its CTA, its ranges (one, or one per lane), bytes per lane (None: they differ)."""

    cta: int
    ranges: Range | Shifted | list[Range]
    bytes: int | None
    faults: list[Event]

    def starts(self) -> list[int]:
        if isinstance(self.ranges, Shifted):
            return list(self.ranges.los)
        return [self.ranges.lo] if isinstance(self.ranges, Range) else [r.lo for r in self.ranges]


def _far(v: Value) -> bool:
    """Whether a place, or what it is counted in, does not fit a window."""
    return any(abs(x) >= FARTHEST for x in (v if isinstance(v, tuple) else (v,)))


def _int(v: Value) -> int:
    assert isinstance(v, int)
    return v


def _pick(v: Sequence[Value], at: int, lane: int) -> int | None:
    if at < 0:
        return None
    x = v[at]
    return x if isinstance(x, int) else x[lane]


class Ops:
    """Builds the ``Op`` of each statement against the tables of one launch."""

    def __init__(self, tables: Tables) -> None:
        self.t = tables

    # ------------------------------------------------------------ operands

    def _region(self, op: Op, r: n.Region, varying: bool = True, sized: bool = False) -> _RegionAt:
        """``varying``: lanes may name different places; ``sized``: but only of the same size."""
        return _RegionAt(
            r.buffer,
            tuple(op.add(e, varying) for e in r.index),
            op.maybe(r.start, varying),
            op.maybe(r.count, varying and not sized),
            op.maybe(r.rows, varying and not sized),
            op.maybe(r.pitch, varying),
            op.maybe(r.rank),
        )

    def _bar(self, op: Op, b: n.BarrierRef) -> _BarAt:
        return _BarAt(b.name, op.maybe(b.index), op.maybe(b.rank))

    def fault(self, site: int, rule: str, message: str) -> Event:
        return (Ev.FAULT, site, rule, message)

    def _resolve(self, site: int, at: _RegionAt, where: Where, v: Sequence[Value]) -> _Region:
        buffer = self.t.buffers[at.buffer]
        faults: list[Event] = []
        cta = where.cta
        if at.rank >= 0:
            rank = _int(v[at.rank])
            if not 0 <= rank < self.t.ctas:
                faults.append(self.fault(site, "SV114", AbsentBlock(rank, self.t.ctas)))
            else:
                cta = self.t.cta_of(where.cta, rank)

        def place(lane: int) -> Place:
            index = [x for x in (_pick(v, i, lane) for i in at.index) if x is not None]
            return locate(buffer, index, _pick(v, at.start, lane), _pick(v, at.count, lane),
                          _pick(v, at.rows, lane), _pick(v, at.pitch, lane))  # fmt: skip

        used = (*at.index, at.start, at.count, at.rows, at.pitch)
        if all(i < 0 or isinstance(v[i], int) for i in used):
            one = place(0)
            if one.problem is not None:
                faults.append(self.fault(site, "SV114", one.problem))
            return _Region(cta, one.range, one.bytes, faults)
        if all(i < 0 or isinstance(v[i], int) for i in (*at.index, at.count, at.rows, at.pitch)):
            starts = v[at.start]
            assert isinstance(starts, tuple)
            index = [_int(v[i]) for i in at.index]
            sizes = (_pick(v, at.count, 0), _pick(v, at.rows, 0), _pick(v, at.pitch, 0))
            shifted = locate_shifted(buffer, index, starts, *sizes)
            if shifted is not None:
                return _Region(cta, shifted, shifted.each.bytes, faults)
        places = [place(j) for j in range(len(where.lanes))]
        bad = next(
            ((lane, p.problem) for lane, p in zip(where.lanes, places, strict=True) if p.problem), None
        )
        if bad is not None:
            faults.append(self.fault(site, "SV114", f"lane {bad[0]}: {bad[1]}"))
        each = {p.bytes for p in places}
        return _Region(cta, [p.range for p in places], each.pop() if len(each) == 1 else None, faults)

    def _fp(self, region: _Region, where: Where, varying: bool = False) -> int:
        many = len(where.lanes) > 1
        return self.t.footprints.add(
            footprint(region.cta, region.ranges, where.lanes, varying=varying, many=many)
        )

    def _aligned(self, site: int, region: _Region, unit: int, what: str) -> None:
        bad = next((lo for lo in region.starts() if lo % unit), None)
        if bad is not None:
            region.faults.append(
                self.fault(site, "SV701", f"{what} at byte {bad} of shared memory is not {unit}-byte aligned")
            )

    def _barrier(
        self, site: int, at: _BarAt, where: Where, v: Sequence[Value], local: str = ""
    ) -> tuple[int, list[Event]]:
        """The barrier's number, or -1 and why not. ``local``: the operation, if it may not be remote."""
        index = 0 if at.index < 0 else _int(v[at.index])
        count = self.t.barrier_counts[at.name]
        if not 0 <= index < count:
            return -1, [
                self.fault(site, "SV208", f"{at.name}[{index}] does not exist; {at.name} has {count}")
            ]
        cta = where.cta
        if at.rank >= 0:
            rank = _int(v[at.rank])
            if not 0 <= rank < self.t.ctas:
                text = f"{at.name} @ {rank} is not mapped: the cluster has {self.t.ctas}"
                return -1, [self.fault(site, "SV208", text)]
            cta = self.t.cta_of(where.cta, rank)
            if local and cta != where.cta:
                text = f"{local} works only on the CTA's own barriers, not on {at.name} @ {rank}"
                return -1, [self.fault(site, "SV208", text)]
        return self.t.barrier_number(cta, at.name, index), []

    def _bytes(self, site: int, what: str, x: int) -> list[Event]:
        if 0 <= x <= _MAX_TX:
            return []
        return [self.fault(site, "SV203", f"{what} of {x} bytes; the transaction count ranges to {_MAX_TX}")]

    def _global(self, op: Op, g: n.GlobalRegion) -> Callable[[Where, Sequence[Value]], int]:
        """Adds what the global footprint needs (nothing where global memory is not tracked)."""
        if not self.t.tracks_global or self.t.tensors[g.tensor][0] in self.t.untracked:
            return lambda where, v: -1
        start, count = op.add(g.start, True), op.add(g.count, True)
        rows, pitch = op.maybe(g.rows, True), op.maybe(g.pitch, True)
        sizes = {i for i in (start, count, rows, pitch) if i >= 0}
        op.addresses |= sizes
        tensor, el = self.t.tensors[g.tensor]
        each = bool(self.t.of_each & names(g.start))
        number = (MEMBER if each else BLOCK_GROUP) if self.t.block_group else "block"
        moved = op.add(Var(number)) if self.t.flag_chain or self.t.block_group else -1
        op.places = ((start, moved),) if moved >= 0 else ()

        def build(where: Where, v: Sequence[Value]) -> int:
            base, low = tensor << TENSOR_SHIFT, 0
            if self.t.block_group:
                base, low = base + self.t.ahead(_int(v[moved]) * el, each), -FARTHEST
            elif moved >= 0 and v[moved]:
                base, low = self.t.window(tensor, where.cta, _int(v[moved]) * el), -FARTHEST

            def one(lane: int) -> Range:
                s, c = _pick(v, start, lane) or 0, _pick(v, count, lane) or 0
                if rows < 0:
                    return Range(base + max(s, low) * el, max(c, 0) * el)
                r, p = _pick(v, rows, lane) or 0, _pick(v, pitch, lane) or 0
                return Range(base + max(s, low) * el, max(c, 0) * el, max(r, 0), max(p, 0) * el)

            if moved >= 0 and any(_far(v[i]) for i in sizes):
                raise NotConcrete("places in global memory that are far apart")

            alike = all(isinstance(v[i], int) for i in sizes)
            ranges = one(0) if alike else [one(j) for j in range(len(where.lanes))]
            found = footprint(GLOBAL_MEMORY, ranges, where.lanes)
            if self.t.block_group:
                self.t.keep_within(tensor, _int(v[moved]) * el, each, found)
            return self.t.footprints.add(found)

        return build

    def _global_aligned(
        self, op: Op, g: n.GlobalRegion, unit: int
    ) -> Callable[[int, Sequence[Value]], list[Event]]:
        """Checks the global address of a copy; tensors themselves start aligned."""
        el = self.t.tensors[g.tensor][1]
        if el % unit == 0:
            return lambda site, v: []
        at = op.add((g.start * el) % unit, True)

        def check(site: int, v: Sequence[Value]) -> list[Event]:
            x = v[at]
            worst = x if isinstance(x, int) else max(x)
            if worst == 0:
                return []
            text = f"the global address is {worst} bytes past a multiple of {unit}"
            return [self.fault(site, "SV701", text)]

        return check

    # ------------------------------------------------------------ mbarrier

    def mbarrier_init(self, s: n.MbarrierInit, site: int) -> Op:
        op = Op()
        bar, count = self._bar(op, s.bar), op.add(s.count)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            b, faults = self._barrier(site, bar, where, v, "mbarrier.init")
            c = _int(v[count])
            if not 1 <= c <= _MAX_TX:
                faults.append(self.fault(site, "SV202", f"count {c} is outside 1..{_MAX_TX}"))
                c = min(max(c, 1), _MAX_TX)
            return faults if b < 0 else [*faults, (Ev.INIT, site, b, c)]

        op.build = build
        return op

    def mbarrier_inval(self, s: n.MbarrierInval, site: int) -> Op:
        op = Op()
        bar = self._bar(op, s.bar)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            b, faults = self._barrier(site, bar, where, v, "mbarrier.inval")
            return faults if b < 0 else [(Ev.INVAL, site, b)]

        op.build = build
        return op

    def mbarrier_arrive(self, s: n.MbarrierArrive, site: int) -> Op:
        op = Op()
        bar, count, expect = self._bar(op, s.bar), op.add(s.count), op.maybe(s.expect)
        flags = _sem_flags(s.sem, s.scope) | (Flag.DROP if s.drop else 0)
        flags |= (Flag.NO_COMPLETE if s.no_complete else 0) | (Flag.TOKEN if s.token else 0)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            b, faults = self._barrier(site, bar, where, v)
            c, x = _int(v[count]), -1 if expect < 0 else _int(v[expect])
            if not 1 <= c <= _MAX_TX:
                faults.append(self.fault(site, "SV202", f"an arrival of {c}; it must lie in 1..{_MAX_TX}"))
                return faults
            if expect >= 0:
                faults += self._bytes(site, "an expectation", x)
                x = max(x, 0)
            if b < 0:
                return faults
            if s.token and self.t.barriers[b].cta != where.cta:
                # PTX ISA, mbarrier.arrive: the shared::cluster form returns no state.
                faults.append(
                    self.fault(site, "SV208", "an arrival on another CTA's barrier returns no token")
                )
            return [*faults, (Ev.ARRIVE, site, b, c, x, int(flags))]

        op.build = build
        return op

    def _tx(self, code: Ev, s: n.MbarrierExpectTx | n.MbarrierCompleteTx, site: int) -> Op:
        op = Op()
        bar, size = self._bar(op, s.bar), op.add(s.bytes)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            b, faults = self._barrier(site, bar, where, v)
            x = _int(v[size])
            faults += self._bytes(site, "an update", x)
            return faults if b < 0 else [*faults, (code, site, b, max(x, 0))]

        op.build = build
        return op

    def mbarrier_expect_tx(self, s: n.MbarrierExpectTx, site: int) -> Op:
        return self._tx(Ev.EXPECT_TX, s, site)

    def mbarrier_complete_tx(self, s: n.MbarrierCompleteTx, site: int) -> Op:
        return self._tx(Ev.COMPLETE_TX, s, site)

    def _waiting(self, s: n.MbarrierWait | n.MbarrierTest, site: int, code: Ev, flags: int, what: str) -> Op:
        op = Op()
        bar, phase = self._bar(op, s.bar), op.add(s.phase)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            b, faults = self._barrier(site, bar, where, v, what)
            p = _int(v[phase])
            if not s.token and p not in (0, 1):
                # PTX ISA, mbarrier.test_wait: a phase parity is 0 or 1.
                faults.append(self.fault(site, "SV208", f"parity {p} is neither 0 nor 1"))
                p &= 1
            return faults if b < 0 else [*faults, (code, site, b, p, flags)]

        op.build = build
        return op

    def mbarrier_wait(self, s: n.MbarrierWait, site: int) -> Op:
        code = Ev.WAIT_TOKEN if s.token else Ev.WAIT
        return self._waiting(s, site, code, _sem_flags(s.sem, s.scope), "a wait")

    def mbarrier_test(self, s: n.MbarrierTest, site: int) -> Op:
        code = Ev.POLL_TOKEN if s.token else Ev.POLL
        flags = _sem_flags(s.sem, s.scope) | (Flag.MAY_SUSPEND if s.may_suspend else 0)
        return self._waiting(s, site, code, int(flags), "a poll")

    # ------------------------------------------------------------ execution barriers, warp

    def _named(self, code: Ev, ident: Expr, count: Expr | None, flags: int, site: int) -> Op:
        op = Op()
        i, c = op.add(ident), op.maybe(count)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            faults: list[Event] = []
            number, threads = _int(v[i]), 0 if c < 0 else _int(v[c])
            if not 0 <= number <= 15:
                return [self.fault(site, "SV301", f"there is no barrier {number}; ids are 0..15")]
            if c >= 0 and (threads <= 0 or threads % 32):
                # PTX ISA, bar: the thread count is a non-zero multiple of the warp size.
                faults.append(self.fault(site, "SV301", f"{threads} threads are no positive multiple of 32"))
                threads = max(-(-threads // 32), 1) * 32
            return [*faults, (code, site, number, threads, flags)]

        op.build = build
        return op

    def barrier_sync(self, s: n.BarrierSync, site: int) -> Op:
        flags = (Flag.ALIGNED if s.aligned else 0) | (Flag.RED if s.red else 0)
        return self._named(Ev.BARRIER_SYNC, s.id, s.count, int(flags), site)

    def barrier_arrive(self, s: n.BarrierArrive, site: int) -> Op:
        return self._named(Ev.BARRIER_ARRIVE, s.id, s.count, int(Flag.ALIGNED if s.aligned else 0), site)

    def warp_sync(self, s: n.WarpSync, site: int) -> Op:
        op = Op(by_class=True)
        at = op.add(Int(0xFFFFFFFF) if s.mask is None else s.mask)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            mask = _int(v[at]) & 0xFFFFFFFF
            outside = [lane for lane in where.lanes if not mask >> lane & 1]
            if outside:
                # PTX ISA, bar.warp.sync: the executing thread is in the mask.
                text = f"lane {outside[0]} executes warp.sync with mask {mask:#x}, which leaves it out"
                return [self.fault(site, "SV303", text)]
            return [(Ev.WARP_SYNC, site, mask & where.warp_mask)]

        op.build = build
        return op

    def setmaxnreg(self, s: n.SetMaxNReg, site: int) -> Op:
        op = Op()
        at = op.add(s.count)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            c = _int(v[at])
            faults = []
            if not 24 <= c <= 256 or c % 8:  # PTX ISA, setmaxnreg
                faults.append(
                    self.fault(site, "SV304", f"{c} registers: a multiple of 8 in 24..256 is needed")
                )
            return [*faults, (Ev.SETMAXNREG, site, int(s.direction == "inc"), c)]

        op.build = build
        return op

    def elect(self, site: int) -> Op:
        # PTX ISA, elect.sync: every lane of the mask executes it; the text form names the whole warp.
        return Op(by_class=True, build=lambda where, v: [(Ev.ELECT, site, where.warp_mask)])

    def constant(self, *event: object) -> Op:
        """An op whose event never changes."""
        return Op(build=lambda where, v: [tuple(event)])


def _sem_flags(sem: str, scope: str) -> int:
    return (Flag.RELAXED if sem == "relaxed" else 0) | (Flag.CLUSTER if scope == "cluster" else 0)
