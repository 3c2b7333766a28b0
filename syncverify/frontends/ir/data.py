"""What the statements that move data emit: copies, fences, wgmma, shared and global accesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from syncverify.frontends.ir.operations import SCOPES, Op, Ops, Where, _BarAt, _int, _Region, _RegionAt
from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr, Int, Var
from syncverify.ir.footprints import Range, Value, box_ranges, footprint, matrix_footprint
from syncverify.model.events import GLOBAL_MEMORY, TENSOR_SHIFT, BlockRelative, Ev, Event, Flag, Footprint
from syncverify.model.proxies import Space

_SEM_FLAGS = {
    "weak": Flag.NONE,
    "relaxed": Flag.STRONG,
    "acquire": Flag.STRONG | Flag.ACQUIRE,
    "release": Flag.STRONG | Flag.RELEASE,
    "acq_rel": Flag.STRONG | Flag.ACQUIRE | Flag.RELEASE,
    "sc": Flag.STRONG | Flag.ACQUIRE | Flag.RELEASE | Flag.SC,
}
#: A shared_cluster fence covers the CTA's own shared memory, not conversely (docs/model.md K20).
_SPACES = {
    "all": Space.ALL,
    "global": Space.GLOBAL,
    "shared_cta": Space.SHARED_CTA,
    "shared_cluster": Space.SHARED_CTA | Space.SHARED_CLUSTER,
}
#: Pattern of a swizzled TMA box in shared memory repeats at these addresses (docs/model.md B43).
_SWIZZLE_ALIGN = {"none": 128, "32B": 256, "64B": 512, "128B": 1024}


class DataOps(Ops):
    """The ops that touch data."""

    # ------------------------------------------------------------ bulk copies and TMA

    def _sized(self, site: int, region: _Region, faults: list[Event]) -> int:
        """Bytes of a bulk copy, checked (PTX ISA, cp.async.bulk: 16-byte multiples)."""
        size = region.bytes
        if size is None:
            faults.append(self.fault(site, "SV701", "lanes copy different numbers of bytes in one operation"))
            return 0
        if size % 16 or size <= 0:
            faults.append(self.fault(site, "SV701", f"{size} bytes are no positive multiple of 16"))
        return max(size, 0)

    def _targets(self, site: int, where: Where, v: Sequence[Value], dst: _RegionAt, bar: _BarAt,
                 multicast: int, unit: int,
                 size: int | None) -> tuple[list[Event], tuple[Event, ...]]:  # fmt: skip
        """Where a load lands: (footprint, barrier, bytes) for its CTA, or for each CTA of the mask."""
        region = self._resolve(site, dst, where, v)
        self._aligned(site, region, unit, "the destination")
        faults = list(region.faults)
        if size is None:
            size = self._sized(site, region, faults)
        elif region.bytes != size:
            faults.append(
                self.fault(site, "SV701", f"the box has {size} bytes, the destination {region.bytes}")
            )
        number, problems = self._barrier(site, bar, where, v)
        faults += problems
        if number < 0:
            return faults, ()
        if multicast < 0:
            if self.t.barriers[number].cta != region.cta:
                text = "the barrier lies in another CTA than the destination"
                return [*faults, self.fault(site, "SV208", text)], ()
            return faults, ((self._fp(region, where), number, size),)
        mask = _int(v[multicast])
        if mask <= 0 or mask >> self.t.ctas:
            text = f"multicast mask {mask:#x} names CTAs that the cluster of {self.t.ctas} does not have"
            faults.append(self.fault(site, "SV208", text))
        info = self.t.barriers[number]
        name, index = self.t.barrier_of(number)
        targets = []
        for rank in range(self.t.ctas):
            if mask >> rank & 1:
                # PTX ISA, cp.async.bulk: data and signal go to the same CTA-relative offsets.
                cta = self.t.cta_of(info.cta, rank)
                there = _Region(cta, region.ranges, region.bytes, [])
                targets.append((self._fp(there, where), self.t.barrier_number(cta, name, index), size))
        return faults, tuple(targets)

    def bulk_load(self, s: n.BulkLoad, site: int) -> Op:
        op = Op()
        dst, bar, multicast = self._region(op, s.dst, sized=True), self._bar(op, s.bar), op.maybe(s.multicast)
        aligned, src = self._global_aligned(op, s.src, 16), self._global(op, s.src)
        other = self._other_bytes(op, s.src)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            faults, targets = self._targets(site, where, v, dst, bar, multicast, 16, None)
            faults += aligned(site, v)
            named = other(v, targets[0][2]) if targets else None
            if named is not None:
                text = f"the source has {named} bytes, the destination {targets[0][2]}"
                faults.append(self.fault(site, "SV701", text))
            return [*faults, (Ev.BULK_LOAD, site, targets, src(where, v), -1)] if targets else faults

        op.build = build
        return op

    def _other_bytes(self, op: Op, g: n.GlobalRegion) -> Callable[[Sequence[Value], int], int | None]:
        """How many bytes of a tensor a bulk copy names, where they are not as many as in shared memory."""
        count, element = op.add(g.count, varying=True), self.t.tensors[g.tensor][1]

        def other(v: Sequence[Value], size: int) -> int | None:
            lanes = v[count]
            every = (lanes,) if isinstance(lanes, int) else lanes
            return next((x * element for x in every if x * element != size), None)

        return other

    def tma_load(self, s: n.TmaLoad, site: int) -> Op:
        op = Op()
        m = self.t.maps[s.map]
        dst, bar, multicast = self._region(op, s.dst, sized=True), self._bar(op, s.bar), op.maybe(s.multicast)
        src = self._box(op, s.map, s.coords)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            unit = _SWIZZLE_ALIGN[m.swizzle]
            faults, targets = self._targets(site, where, v, dst, bar, multicast, unit, m.box_bytes)
            return [*faults, (Ev.BULK_LOAD, site, targets, src(where, v), m.number)] if targets else faults

        op.build = build
        return op

    def _box(self, op: Op, name: str, coords: tuple[Expr, ...]) -> Callable[[Where, Sequence[Value]], int]:
        """The box's global footprint; -1 where it is not tracked, or the map's rank is not the tensor's."""
        m = self.t.maps[name]
        tracked = self.t.tracks_global and m.tensor not in self.t.untracked
        if not tracked or not len(coords) == len(m.shape) == len(m.box):
            return lambda where, v: -1
        at = [op.add(c, True) for c in coords]
        op.addresses |= set(at)

        def build(where: Where, v: Sequence[Value]) -> int:
            runs: list[tuple[int, int]] = []
            base = m.tensor << TENSOR_SHIFT
            varies = any(not isinstance(v[i], int) for i in at)
            for lane in range(len(where.lanes) if varies else 1):
                here = [x if isinstance(x := v[i], int) else x[lane] for i in at]
                for r in box_ranges(m.shape, m.box, here, m.element):
                    runs.append((base + r.lo, base + r.lo + r.size))
            return self.t.footprints.add(Footprint(GLOBAL_MEMORY, _merged(runs)))

        return build

    def _store(self, op: Op, site: int, src: _RegionAt, dst: Callable[[Where, Sequence[Value]], int],
               number: int, unit: int, size: int | None, reduce: bool,
               aligned: Callable[[int, Sequence[Value]], list[Event]],
               other: Callable[[Sequence[Value], int], int | None] = lambda v, size: None) -> Op:  # fmt: skip
        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            region = self._resolve(site, src, where, v)
            self._aligned(site, region, unit, "the source")
            faults = region.faults
            if region.cta != where.cta:
                # PTX ISA, cp.async.bulk and cp.reduce.async.bulk: the source is the executing CTA's.
                faults.append(self.fault(site, "SV701", "the source of a bulk store lies in another CTA"))
            if size is None:
                self._sized(site, region, faults)
            elif region.bytes != size:
                faults.append(
                    self.fault(site, "SV701", f"the box has {size} bytes, the source {region.bytes}")
                )
            if (named := other(v, region.bytes or 0)) is not None:
                text = f"the destination has {named} bytes, the source {region.bytes}"
                faults.append(self.fault(site, "SV701", text))
            faults += aligned(site, v)
            event = (Ev.BULK_STORE, site, self._fp(region, where), dst(where, v), number, int(reduce))
            return [*faults, event]

        op.build = build
        return op

    def bulk_store(self, s: n.BulkStore, site: int) -> Op:
        op = Op()
        src, aligned = self._region(op, s.src, sized=True), self._global_aligned(op, s.dst, 16)
        other = self._other_bytes(op, s.dst)
        return self._store(
            op, site, src, self._global(op, s.dst), -1, 16, None, s.reduce is not None, aligned, other
        )

    def tma_store(self, s: n.TmaStore, site: int) -> Op:
        op = Op()
        m = self.t.maps[s.map]
        src, dst = self._region(op, s.src, sized=True), self._box(op, s.map, s.coords)
        unit = _SWIZZLE_ALIGN[m.swizzle]
        return self._store(
            op, site, src, dst, m.number, unit, m.box_bytes, s.reduce is not None, lambda site, v: []
        )

    def bulk_copy(self, s: n.BulkCopy, site: int) -> Op:
        op = Op()
        src, dst, bar = (
            self._region(op, s.src, sized=True),
            self._region(op, s.dst, sized=True),
            self._bar(op, s.bar),
        )

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            a, b = self._resolve(site, src, where, v), self._resolve(site, dst, where, v)
            self._aligned(site, a, 16, "the source")
            self._aligned(site, b, 16, "the destination")
            faults = a.faults + b.faults
            size = self._sized(site, a, faults)
            if b.bytes != size:
                faults.append(self.fault(site, "SV701", f"{size} bytes are copied onto {b.bytes}"))
            number, problems = self._barrier(site, bar, where, v)
            faults += problems
            faults += self._remote(site, b.cta, number, where, "bulk.copy")
            if number < 0 or self.t.barriers[number].cta != b.cta:
                return faults
            return [*faults, (Ev.BULK_COPY, site, self._fp(a, where), self._fp(b, where), number, size)]

        op.build = build
        return op

    def _remote(self, site: int, cta: int, bar: int, where: Where, what: str) -> list[Event]:
        """A push needs its barrier beside the data, and another CTA: st.async is content with a cluster of
        several (PTX ISA, st.async, red.async, cp.async.bulk)."""
        if self.t.ctas == 1 or (cta == where.cta and what != "st.async"):
            return [self.fault(site, "SV208", f"{what} into the executing CTA's own shared memory")]
        if bar >= 0 and self.t.barriers[bar].cta != cta:
            return [self.fault(site, "SV208", f"{what}: data and barrier lie in different CTAs")]
        return []

    def st_async(self, s: n.StAsync, site: int) -> Op:
        op = Op()
        dst, bar = self._region(op, s.dst, sized=True), self._bar(op, s.bar)
        what = "red.async" if s.reduce else "st.async"

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            region = self._resolve(site, dst, where, v)
            faults = region.faults
            size = region.bytes or 0
            if size not in (4, 8, 16):  # PTX ISA, st.async: one, two or four b32/b64 elements
                faults.append(
                    self.fault(site, "SV701", f"{what} of {region.bytes} bytes; 4, 8 or 16 are possible")
                )
            else:
                self._aligned(site, region, size, "the destination")
            number, problems = self._barrier(site, bar, where, v)
            faults += problems
            faults += self._remote(site, region.cta, number, where, what)
            if number < 0 or self.t.barriers[number].cta != region.cta:
                return faults
            return [*faults, (Ev.ST_ASYNC, site, self._fp(region, where), number, size, int(bool(s.reduce)))]

        op.build = build
        return op

    def bulk_wait(self, s: n.BulkWait, site: int) -> Op:
        return self._pending(Ev.BULK_WAIT, s.pending, site, int(s.read))

    def _pending(self, code: Ev, pending: Expr | None, site: int, *rest: int) -> Op:
        """A group wait: how many groups may stay pending (-1: none at all, and uncommitted ones too)."""
        op = Op()
        at = op.add(Int(-1) if pending is None else pending)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            k = _int(v[at])
            if k < 0 and pending is not None:
                return [(Ev.UNKNOWN, site, f"a wait for all but {k} groups; the number cannot be negative")]
            return [(code, site, k, *rest)]

        op.build = build
        return op

    # ------------------------------------------------------------ cp.async

    def cp_async(self, s: n.CpAsync, site: int) -> Op:
        op = Op()
        dst = self._region(op, s.dst, sized=True)
        src = self._global(op, s.src)
        el = self.t.tensors[s.src.tensor][1]
        count = op.add(s.src.count, True)
        start = op.add((s.src.start * el) % 16, True)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            region = self._resolve(site, dst, where, v)
            faults = region.faults
            size = region.bytes or 0
            if size not in (4, 8, 16):  # PTX ISA, cp.async: cp-size
                faults.append(
                    self.fault(site, "SV701", f"cp.async of {region.bytes} bytes; 4, 8 or 16 are possible")
                )
            else:
                self._aligned(site, region, size, "the destination")
                source = v[start]
                worst = [x for x in ([source] if isinstance(source, int) else source) if x % size]
                if worst:
                    faults.append(self.fault(site, "SV701", f"the global address is not {size}-byte aligned"))
            copied = v[count]
            if (copied if isinstance(copied, int) else max(copied)) * el > size:
                # PTX ISA, cp.async: src-size greater than cp-size is undefined.
                faults.append(
                    self.fault(site, "SV701", f"{copied} source elements are more than {size} bytes")
                )
            return [*faults, (Ev.CP_ASYNC, site, self._fp(region, where), src(where, v))]

        op.build = build
        return op

    def cp_wait(self, s: n.CpAsyncWait, site: int) -> Op:
        return self._pending(Ev.CP_WAIT, s.pending, site)

    def cp_arrive(self, s: n.CpAsyncMbarrierArrive, site: int) -> Op:
        op = Op()
        bar = self._bar(op, s.bar)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            b, faults = self._barrier(site, bar, where, v, "cp.async.mbarrier.arrive")
            return faults if b < 0 else [(Ev.CP_ARRIVE, site, b, int(s.noinc))]

        op.build = build
        return op

    # ------------------------------------------------------------ fences and tensor maps

    def fence(self, s: n.Fence, site: int) -> Op:
        flags = _SEM_FLAGS[s.sem] & ~Flag.STRONG
        if s.sync_restrict:
            flags |= Flag.SYNC_RESTRICT
        return self.constant(Ev.FENCE, site, int(flags), int(SCOPES[s.scope]))

    def proxy_fence(self, s: n.FenceProxyAsync, site: int) -> Op:
        if s.half is None:
            return self.constant(Ev.PROXY_FENCE, site, int(_SPACES[s.space]), 0)
        # PTX ISA, fence.proxy.async sync_restrict: release for shared::cta, acquire for shared::cluster.
        space, flag = (
            ("shared_cta", Flag.RELEASE) if s.half == "release" else ("shared_cluster", Flag.ACQUIRE)
        )
        return self.constant(Ev.PROXY_FENCE, site, int(_SPACES[space]), int(flag))

    def map_fence(self, s: n.FenceProxyTensormap, site: int) -> Op:
        scope = int(SCOPES[s.scope])
        if s.sem == "release":
            return self.constant(Ev.MAP_RELEASE, site, scope)
        return self.constant(Ev.MAP_ACQUIRE, site, -1 if s.map is None else self.t.maps[s.map].number, scope)

    def map_cp_fence(self, s: n.TensormapCpFence, site: int) -> Op:
        return self.constant(Ev.MAP_CP_FENCE, site, self.t.maps[s.map].number, int(SCOPES[s.scope]))

    # ------------------------------------------------------------ tensor core

    def wgmma(self, s: n.Wgmma, site: int) -> Op:
        op = Op()
        a = None if isinstance(s.a, str) else self._region(op, s.a, varying=False)
        b, accumulate = self._region(op, s.b, varying=False), op.add(s.accumulate)
        fragment = self.t.fragments[s.a] if isinstance(s.a, str) else -1
        acc = self.t.fragments[s.acc]

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            regions = [self._resolve(site, at, where, v) for at in (a, b) if at is not None]
            faults = [f for r in regions for f in r.faults]
            fps = [self._fp(r, where) for r in regions]
            left, right = fps if a is not None else (-1, fps[0])
            return [*faults, (Ev.WGMMA, site, acc, left, fragment, right, int(bool(_int(v[accumulate]))), -1)]

        op.build = build
        return op

    def wgmma_wait(self, s: n.WgmmaWait, site: int) -> Op:
        return self._pending(Ev.WGMMA_WAIT, s.pending, site)

    # ------------------------------------------------------------ shared and global accesses

    def read(self, r: n.Region, site: int, handle: int) -> Op:
        """A generic read; ``handle``: what its use names, -1 where the value is used at once."""
        op = Op()
        src = self._region(op, r)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            region = self._resolve(site, src, where, v)
            return [*region.faults, (Ev.READ, site, self._fp(region, where), handle)]

        op.build = build
        return op

    def write(self, r: n.Region, site: int, varying: bool) -> Op:
        """A generic write; ``varying``: lanes may write different values."""
        op = Op()
        dst = self._region(op, r)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            region = self._resolve(site, dst, where, v)
            return [*region.faults, (Ev.WRITE, site, self._fp(region, where, varying))]

        op.build = build
        return op

    def write_matrix(self, r: n.Region, site: int) -> Op:
        """A warp's collective write: the lanes write disjoint parts of a region that is the same for all."""
        op = Op()
        dst = self._region(op, r)
        element = self.t.buffers[r.buffer].element

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            region = self._resolve(site, dst, where, v)
            one = region.ranges if isinstance(region.ranges, Range) else None
            parts = one and matrix_footprint(region.cta, one, element, where.lanes)
            number = self.t.footprints.add(parts) if parts else self._fp(region, where)
            return [*region.faults, (Ev.WRITE, site, number)]

        op.build = build
        return op

    def atomic(self, s: n.AtomShared, site: int) -> Op:
        op = Op()
        dst = self._region(op, s.dst)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            region = self._resolve(site, dst, where, v)
            return [*region.faults, (Ev.ATOMIC, site, self._fp(region, where), int(SCOPES[s.scope]))]

        op.build = build
        return op

    def ld_global(self, s: n.LdGlobal, site: int) -> Op:
        return self._global_access(Ev.GLOBAL_READ, s.src, s.sem, s.scope, site, None, ())

    def st_global(self, s: n.StGlobal, site: int, value: Expr | None) -> Op:
        return self._global_access(Ev.GLOBAL_WRITE, s.dst, s.sem, s.scope, site, value, ())

    def atom_global(self, s: n.AtomGlobal, site: int, value: Expr | None) -> Op:
        return self._global_access(Ev.GLOBAL_ATOMIC, s.dst, s.sem, s.scope, site, value, (s.op,))

    def multimem(self, s: n.Multimem, site: int, value: Expr | None) -> Op:
        code, extra = {
            "ld_reduce": (Ev.GLOBAL_READ, ()),
            "st": (Ev.GLOBAL_WRITE, ()),
            "red": (Ev.GLOBAL_ATOMIC, (s.op,)),
        }[s.kind]
        return self._global_access(code, s.target, s.sem, s.scope, site, value, extra)

    def _global_access(self, code: Ev, g: n.GlobalRegion, sem: str, scope: str, site: int, value: Expr | None,
                       extra: tuple[str, ...]) -> Op:  # fmt: skip
        op = Op()
        fp = self._global(op, g)
        flags, level = int(_SEM_FLAGS[sem]), int(SCOPES[scope])
        stored = op.maybe(value if self.t.tracks_global else None, varying=True)
        op.addresses |= {stored}
        if code == Ev.GLOBAL_WRITE and stored >= 0 and flags & (Flag.STRONG | Flag.RELEASE):
            self._from_block(op, stored)

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            head = (code, site, fp(where, v), flags, level)
            if code == Ev.GLOBAL_READ:
                return [head]
            x = v[stored] if stored >= 0 else None
            return [(*head, *extra, x if isinstance(x, int | BlockRelative) else None)]

        op.build = build
        return op

    def _from_block(self, op: Op, at: int) -> None:
        """Where blocks hand on flags, what one holds or is compared with follows from the block's number."""
        if self.t.flag_chain:
            op.ahead = at, op.add(Var("block"))

    def spin(self, s: n.SpinGlobal, site: int) -> Op:
        op = Op()
        fp, value = self._global(op, s.src), op.add(s.value)
        self._from_block(op, value)
        flags, level = int(_SEM_FLAGS[s.sem]), int(SCOPES[s.scope])

        def build(where: Where, v: Sequence[Value]) -> list[Event]:
            return [(Ev.SPIN, site, fp(where, v), flags, level, s.cmp, v[value])]

        op.build = build
        return op


def _merged(runs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    ranges = [Range(a, b - a) for a, b in runs]
    return footprint(GLOBAL_MEMORY, ranges, [0] * len(ranges)).intervals
