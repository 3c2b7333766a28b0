"""Accesses to memory, fences, copies and matrix products in a run."""

from __future__ import annotations

from functools import partial
from typing import Any

from syncverify.checker.kernel.exact.execution_barriers import Meetings
from syncverify.checker.kernel.exact.global_memory import GlobalMemory
from syncverify.checker.kernel.exact.hazards import UNCOUNTED, NotJudgedError, Touch
from syncverify.checker.kernel.exact.knowledge import Epoch, VectorClock
from syncverify.checker.kernel.exact.mbarriers import LARGEST, Mbarriers
from syncverify.checker.kernel.exact.state import ReplayedAgent
from syncverify.checker.kernel.exact.tensor_maps import TensorMaps
from syncverify.model.events import (
    EACH_TIME,
    GLOBAL_MEMORY,
    MOVED,
    NEVER,
    NO_ARRIVAL_NEEDED,
    PLACED,
    TAKEN,
    Flag,
    Footprint,
)
from syncverify.model.proxies import Access, Scope, Space

#: Memory that blocks of a cluster reach.
_SHARED = Space.SHARED_CTA | Space.SHARED_CLUSTER


class Operations(Mbarriers, Meetings, TensorMaps, GlobalMemory):
    """The rules of what reads and writes."""

    def touch(self, a: ReplayedAgent, kind: Access, number: int, **more: Any) -> Touch:
        """An access by all lanes of a class, judged."""
        fp: Footprint = self.info.footprints[number]
        for index in self.over_barriers(number, fp):
            self.overlaid(a, index)
        assert a.event is not None
        made = Touch(kind, a.lanes.cls, a.lanes.time, fp, a.event[1], **more)
        if fp.memory != a.info.cta:
            self.reach(a, made)
        self.memory.access(a.lanes, made, partial(self.at, a), self.left)
        return made

    def over_barriers(self, number: int, fp: Footprint) -> tuple[int, ...]:
        """Barriers whose bytes a footprint of the table touches; remembered while no barrier is added."""
        key = number, len(self.info.barriers)
        if key not in self.under:
            self.under[key] = tuple(
                i
                for i, b in enumerate(self.info.barriers)
                if b.cta == fp.memory and any(lo < b.offset + 8 and b.offset < hi for lo, hi in fp.intervals)
            )
        return self.under[key]

    def overlaid(self, a: ReplayedAgent, index: int) -> None:
        """Data in the bytes of a barrier: only while that is not alive (B10)."""
        if index in self.barriers:
            raise self.reject(a, f"data in the bytes of {self.info.barriers[index].name}, which is alive")
        if index in self.shared_inits:
            raise NotJudgedError("data in the bytes of a barrier that several lanes initialize")
        self.overlays.add(index)

    def reach(self, a: ReplayedAgent, made: Touch) -> None:
        """An access to another CTA of the cluster: it runs by then (B25), and what is generic has a mark of
        its own, since a fence of the own CTA's memory does not bridge it (C5).
        """
        cta = made.fp.memory
        if self.info.clusters > 1:
            raise NotJudgedError("shared memory of another cluster")
        row = a.lanes.joined.happened
        if not any(row.get(("t", o.lanes.cls), 0) for o in self.actors if o.info.cta == cta):
            raise self.reject(a, f"nothing shows that cta{cta} runs")
        a.far[cta] = made.time
        if not made.kind.asynchronous:
            made.far = ("r", made.cls, cta)
            a.lanes.own.mark(made.far, made.time)

    def on_read(self, a: ReplayedAgent, fp: int, register: int, scope: int | None = None) -> bool:
        """``scope``: of a strong read (A3)."""
        made = self.touch(a, Access.GENERIC_READ, fp, atomic=scope is not None, scope=scope or Scope.CTA)
        if register == NO_ARRIVAL_NEEDED:
            made.used = a.lanes.time
            return True
        if register == NEVER:
            made.used = -1
        else:
            overtaken = a.registers.get(register)
            if overtaken is not None and overtaken.used == 0:
                overtaken.used = -1
            a.registers[register] = made
        a.unsure[fp] = made
        return True

    def reads_over(self, a: ReplayedAgent, *, far: bool = True) -> None:
        """A fence comes after all reads before it, used or not; ``far``: those of other CTAs as well."""
        for made in a.unsure.values():
            if made.used <= 0 and (far or made.far is None):
                made.used = a.lanes.time
        a.unsure.clear()

    def on_use(self, a: ReplayedAgent, register: int) -> bool:
        made = a.registers.pop(register, None)
        if made is not None and made.used == 0:
            made.used = a.lanes.time
        return True

    def on_write(self, a: ReplayedAgent, fp: int) -> bool:
        assert a.event is not None
        site, varies = a.event[1], self.info.varies
        execution = 0
        if varies is not None and varies(site) & EACH_TIME:
            execution = a.executions.get(site, 0)
            execution += execution != UNCOUNTED
            a.executions[site] = execution
        self.touch(a, Access.GENERIC_WRITE, fp, execution=execution)
        return True

    def on_atomic(self, a: ReplayedAgent, fp: int, scope: int) -> bool:
        self.touch(a, Access.GENERIC_WRITE, fp, atomic=True, scope=scope)
        return True

    def on_fence(self, a: ReplayedAgent, flags: int, scope: int) -> bool:
        if flags & (Flag.RELEASE | Flag.SC):
            a.released, a.scope = a.lanes.handed(), scope
        if flags & (Flag.ACQUIRE | Flag.SC) and a.received is not None:
            a.lanes.joined.join(a.received)
            a.received = None
        if flags & Flag.SC or (flags & Flag.ACQUIRE and flags & Flag.RELEASE):
            self.fences[a.lanes.cls].append(a.lanes.time)
            self.reads_over(a)
        return True

    def on_proxy_fence(self, a: ReplayedAgent, spaces: int, flags: int) -> bool:
        """What is visible is bridged, of the memory that the fence names (C5)."""
        for know in {id(k): k for k in (a.lanes.joined, a.lanes.own)}.values():
            for mark, value in know.visible.items():
                if self.names(a, spaces, flags, mark):
                    know.bridged.advance_to(mark, value)
        if spaces & _SHARED and not flags:
            self.reads_over(a, far=bool(spaces & Space.SHARED_CLUSTER) or self.info.ctas == 1)
        return True

    def names(self, a: ReplayedAgent, spaces: int, flags: int, mark: Epoch) -> bool:
        """Whether a proxy fence is of the memory of what a mark counts. Of global memory both halves are
        needed in one place."""
        memory = mark[2] if mark[0] == "r" else a.info.cta
        if mark[0] == "t":
            memory = self.info.classes[mark[1]].cta
        if memory == GLOBAL_MEMORY:
            return bool(spaces & Space.GLOBAL) and not flags
        near = memory == a.info.cta
        return bool(spaces & (_SHARED if near else Space.SHARED_CLUSTER)) and (
            near or self.info.clusters == 1
        )

    def issue(self, a: ReplayedAgent, kind: str) -> tuple[Epoch, int]:
        mark, g = self.group(a, kind)
        g.issued += 1
        return mark, g.issued

    def commit(self, a: ReplayedAgent, kind: str) -> bool:
        _, g = self.group(a, kind)
        g.committed.append(g.issued)
        if kind == "bulk.read":
            self.drain(a, commits=True)
        return True

    def on_bulk_load(
        self, a: ReplayedAgent, copies: tuple[tuple[int, int, int], ...], source: int, number: int
    ) -> bool:
        made = []
        if source >= 0 and len(copies) != 1:
            raise NotJudgedError("copies from tracked global memory to several places")
        read = self.touch_global(a, Access.ASYNC_READ, source)
        for fp, index, nbytes in copies:
            self.use(a, index)
            made.append((self.touch(a, Access.ASYNC_WRITE, fp) if fp >= 0 else None, index, nbytes))
        first = next((touch for touch, _, _ in made if touch is not None), None)
        if first is not None:
            self.use_map(a, number, first)
        for touch, index, nbytes in made:
            done = self.land(a, index, nbytes * a.info.count)
            for one in (touch, read):
                if one is not None:
                    one.done = done
            cta = self.info.barriers[index].cta if touch is None else touch.fp.memory
            a.copies.append((done, cta))
        return True

    def on_st_async(self, a: ReplayedAgent, fp: int, index: int, nbytes: int, reduces: int) -> bool:
        """A store into another CTA that completes on a barrier there; reductions are of its scope (B52)."""
        self.use(a, index)
        made = self.touch(a, Access.STASYNC_WRITE, fp, atomic=bool(reduces), scope=Scope.CLUSTER)
        made.done = self.land(a, index, nbytes * a.info.count)
        a.copies.append((made.done, made.fp.memory))
        return True

    def on_bulk_copy(self, a: ReplayedAgent, source: int, target: int, index: int, nbytes: int,
                     *reduction: int) -> bool:  # fmt: skip
        """A copy to another CTA: only the barrier there tells of its end, of both sides (C4)."""
        if reduction:
            raise NotJudgedError("a bulk reduction into another CTA's shared memory")
        self.use(a, index)
        made = [self.touch(a, Access.ASYNC_READ, source), self.touch(a, Access.ASYNC_WRITE, target)]
        done = self.land(a, index, nbytes * a.info.count)
        for touch in made:
            touch.done = done
            a.copies.append((done, touch.fp.memory))
        return True

    def on_bulk_store(self, a: ReplayedAgent, fp: int, target: int, number: int, reduces: int) -> bool:
        mark, issued = self.issue(a, "bulk.read")
        self.use_map(a, number, self.touch(a, Access.ASYNC_READ, fp, done=(mark, issued)))
        if target >= 0 and reduces:
            raise NotJudgedError("a bulk reduction into tracked global memory")
        self.touch_global(a, Access.ASYNC_WRITE, target, done=(("g", "bulk", a.lanes.cls), issued))
        return True

    def on_bulk_wait(self, a: ReplayedAgent, pending: int, read: int) -> bool:
        mark, g = self.group(a, "bulk.read")
        a.lanes.own.mark(mark, g.covered(pending))
        if not read and self.data:
            a.lanes.own.mark(("g", "bulk", a.lanes.cls), g.covered(pending))
        if pending == 0:
            self.drain(a, commits=False)
        return True

    def on_cp_async(self, a: ReplayedAgent, fp: int, source: int) -> bool:
        if source >= 0:
            raise NotJudgedError("cp.async from tracked global memory")
        self.touch(a, Access.CPASYNC_WRITE, fp, done=self.issue(a, "cp"))
        return True

    def on_cp_wait(self, a: ReplayedAgent, pending: int) -> bool:
        mark, g = self.group(a, "cp")
        a.lanes.own.mark(mark, g.covered(pending))
        return True

    def on_cp_arrive(self, a: ReplayedAgent, index: int, noinc: int) -> bool:
        """An arrival of each lane when its cp.asyncs are done. The default form adds to the pending count
        first, and must do so before the phase can end, as an expect-tx must (O4); its own arrival is none
        that could hold the phase open until then.
        """
        b = self.use(a, index)
        mark, g = self.group(a, "cp")
        left = a.info.count
        if not noinc:
            p = self.contribute(a, b)
            a.lanes.hand_happened(p.others)
            p.expects.append((a.lanes.cls, a.lanes.time, 0))
            b.pending += left
            if b.pending > LARGEST:
                raise self.reject(a, "the pending count may leave its range")
        while left > 0:
            if not b.pending:
                raise self.reject(a, "no arrival is pending")
            if not self.complete(a.lanes.joined.happened, b, b.done - 1):
                raise self.reject(a, f"it may land in phase {b.done - 1}")
            p = b.phase
            a.lanes.hand_happened(p.by_arrivals if noinc else p.others)
            p.knowledge.visible.advance_to(mark, g.issued)
            p.copies, b.copies = True, b.done
            take = min(left, b.pending)
            self.note(b, b.done, "cp_arrive", a, take)
            b.pending -= take
            left -= take
            self.close(b)
        return True

    def on_wgmma_fence(self, a: ReplayedAgent) -> bool:
        if not self.together(a, 0, memory=False):
            return False
        a.fenced = True
        for state in a.fragments.values():
            state[1] = 0
        return True

    def on_wgmma(
        self,
        a: ReplayedAgent,
        acc: int,
        fp_a: int,
        frag_a: int,
        fp_b: int,
        adds: int,
        others: int,
        *declared: int,
    ) -> bool:
        if not self.together(a, 0, memory=False):
            return False
        done = self.issue(a, "mma")
        a.issues.append(a.lanes.hand_happened(VectorClock()))
        self.memory.products.add(a.lanes.cls)
        for fp in (fp_a, fp_b):
            if fp >= 0:
                self.touch(a, Access.MMA_READ, fp, done=done, any_lane=True)
        for frag in (acc, frag_a):
            if frag >= 0:
                state = a.fragments.setdefault(frag, [0, 0])
                if state[1] or not a.fenced:
                    raise self.reject(a, "registers were touched since the last wgmma.fence")
                state[0] = done[1]
        return True

    def on_wgmma_commit(self, a: ReplayedAgent) -> bool:
        return self.together(a, 0, memory=False) and self.commit(a, "mma")

    def on_wgmma_wait(self, a: ReplayedAgent, pending: int) -> bool:
        """A wgmma is one operation of four warps: it completes when all have issued and committed it."""
        if a.leaving != -2 and not self.together(a, 0, memory=False):
            return False
        mark, g = self.group(a, "mma")
        need = len(g.committed) - pending
        mates = [self.actors[c] for c in self.warpgroups[a.lanes.cls] if c != a.lanes.cls]
        if need > 0:
            a.leaving = -2  # the warp has met
            if any(len(self.group(o, "mma")[1].committed) < need and not o.gone for o in mates):
                return False
        covered = g.covered(pending)
        for o in mates:
            if 0 < covered <= len(o.issues):
                a.lanes.joined.happened.join(o.issues[covered - 1])
        a.lanes.own.mark(mark, covered)
        a.lanes.joined.mark(mark, covered)
        return True

    def on_fragment(self, a: ReplayedAgent, frag: int, how: int = 0) -> bool:
        # K25: only strict mode, which is not judged here, takes a copy for a write
        if how in (MOVED, PLACED):
            return True
        state = a.fragments.setdefault(frag, [0, 0])
        if how != TAKEN and state[0] > a.lanes.happened(("g", "mma", (a.info.cta, a.info.warp)), True):
            raise self.reject(a, "a wgmma owns these registers")
        state[1] = 1
        return True
