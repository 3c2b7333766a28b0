"""Execution barriers in a run: named ones, those of a cluster, and lanes of a warp that meet."""

from __future__ import annotations

from collections.abc import Container

from syncverify.checker.kernel.exact.hazards import NotJudgedError
from syncverify.checker.kernel.exact.knowledge import Epoch, Knowledge
from syncverify.checker.kernel.exact.state import Meeting, ReplayedAgent, State
from syncverify.model.automata.named_barrier import exists
from syncverify.model.events import Flag
from syncverify.model.proxies import Scope


class Meetings(State):
    """The rules of execution barriers."""

    def on_barrier(self, a: ReplayedAgent, waits: bool, number: int, threads: int, flags: int) -> bool:
        total = -(-self.info.threads // 32) * 32
        want = threads or total
        m = self.meetings.setdefault(("n", a.info.cta, number), Meeting())
        if not a.entered:
            if not exists(number) or want % 32 or want > total:
                raise self.reject(a, "the barrier's number or count is out of range")
            if m.arrived and m.threads != want:
                raise self.reject(a, f"the barrier is active with {m.threads} threads")
            if a.lanes.cls in m.arrived and not self.counts_twice(a, m, flags, waits=waits):
                return False
            m.threads = want
            self.enter(a, m, ("n", a.info.cta, number))
            m.counted = m.counted or bool(threads)
            m.sites.add(a.event[1] if a.event is not None else -1)
            self.full(a.info.cta, number, m)
        return self.out(a, m, waits)

    def counts_twice(self, a: ReplayedAgent, m: Meeting, flags: int, *, waits: bool) -> bool:
        """A warp that has arrived and now waits counts twice (practical mode: ordered pipelines begin so).
        Both are of one generation in every execution: without them it is not complete. Lanes that come before
        the rest of their warp has arrived wait for it: all execute the instruction together.
        """
        if not waits or not flags & Flag.ALIGNED or a.lanes.cls in m.again:
            raise NotJudgedError("classes that arrive twice at a named barrier")
        if not self.whole(a.info.cta, a.info.warp, m.arrived):
            return False
        m.again.add(a.lanes.cls)
        return True

    def full(self, cta: int, number: int, m: Meeting) -> None:
        """Completes the generation if all have come. A barrier without a count does not wait for warps that
        have left (K22), unless they ran past it to the end."""
        warps = {self.info.classes[c].warp for c in m.arrived}
        whole = {w for w in warps if self.whole(cta, w, m.arrived)}
        left = set()
        if not m.counted:
            there = {o.info.warp for o in self.actors if o.info.cta == cta and not o.gone}
            left = {o.info.warp for o in self.actors if o.info.cta == cta} - there - warps
        again = {self.info.classes[c].warp for c in m.again}
        twice = {w for w in again if self.whole(cta, w, m.again)}
        if not warps or (len(whole | left) + len(twice)) * 32 != m.threads:
            return
        if whole != warps or twice != again:
            raise NotJudgedError("warps of which some lanes come to a barrier alone")
        for o in self.actors:
            if o.info.cta == cta and o.info.warp in left:
                if any(self.info.passes(o.exit_site, site, True) for site in m.sites):
                    raise self.reject(o, "it runs past a barrier of the whole block to the end")
        self.leave(m, ("n", cta, number))

    def enter(self, a: ReplayedAgent, m: Meeting, mark: Epoch, release: bool = True) -> None:
        """Arrives in the open generation; the one before must be complete (O1)."""
        row = a.lanes.joined.happened
        if row.get(mark, 0) < m.number and any(row.get(("t", c), 0) < t for c, t in m.previous.items()):
            raise self.reject(a, "the generation before may still be open")
        m.arrived[a.lanes.cls] = a.lanes.time
        a.lanes.hand(m.knowledge) if release else a.lanes.hand_happened(m.knowledge.happened)
        a.entered, a.leaving, a.meets = True, m.number, mark

    def leave(self, m: Meeting, mark: Epoch) -> None:
        """The generation is complete."""
        m.number += 1
        m.knowledge.mark(mark, m.number)
        m.knowledge.share()
        m.previous, m.released = m.arrived, m.knowledge
        m.arrived, m.knowledge, m.counted, m.sites, m.again = {}, Knowledge(), False, set(), set()

    def out(self, a: ReplayedAgent, m: Meeting, waits: bool) -> bool:
        if not waits:
            return True
        if m.number == a.leaving:
            return False
        if m.number > a.leaving + 1:
            raise NotJudgedError("generations that pass a class by")
        a.lanes.joined.join(m.released)
        return True

    def whole(self, cta: int, warp: int, arrived: Container[int]) -> bool:
        """Whether all lanes of a warp that still run have arrived."""
        return all(
            a.gone or a.lanes.cls in arrived for a in self.actors if (a.info.cta, a.info.warp) == (cta, warp)
        )

    def on_sync(self, a: ReplayedAgent, number: int, threads: int, flags: int) -> bool:
        return self.on_barrier(a, True, number, threads, flags)

    def on_arrive_only(self, a: ReplayedAgent, number: int, threads: int, flags: int) -> bool:
        return self.on_barrier(a, False, number, threads, flags)

    def on_warp_sync(self, a: ReplayedAgent, mask: int) -> bool:
        return self.together(a, mask, memory=True, leaves=True)

    def on_elect(self, a: ReplayedAgent, mask: int = 0) -> bool:
        return self.together(a, 0, memory=False)

    def on_collective(self, a: ReplayedAgent, mask: int, kind: int, whole: int = 0) -> bool:
        return self.together(a, mask, memory=False, kind=kind + 1, leaves=not whole)

    def mates(self, a: ReplayedAgent) -> list[ReplayedAgent]:
        """The classes of its warp, itself among them."""
        return [self.actors[c] for c in self.warps[a.lanes.cls]]

    def together(
        self, a: ReplayedAgent, mask: int, *, memory: bool, kind: int = 0, leaves: bool = False
    ) -> bool:
        """Lanes of a warp that execute something as one; ``memory``: it orders their accesses; ``kind``: what
        they execute, one more than its event says: odd where they may come to several instructions (K27);
        ``leaves``: it waits for no lane that has left (K22, K23), and none has run past it to the end.
        """
        assert a.event is not None
        mates = self.mates(a)
        lanes = sum(o.info.lanes for o in mates)
        mask = mask & lanes if mask else lanes
        gone = [o for o in mates if o.gone and o.info.lanes & mask]
        short = gone and (
            not leaves or any(self.info.passes(o.exit_site, a.event[1], whole=False) for o in gone)
        )
        if a.info.lanes & ~mask or (not a.entered and short):
            raise self.reject(a, "not all lanes that it needs come to it")
        if len(mates) == 1:
            if memory:
                a.lanes.gather()
            else:
                a.lanes.joined.happened.advance_to(("t", a.lanes.cls), a.lanes.time)
            return True
        mark = ("w", a.info.cta, a.info.warp, mask, memory, kind, leaves)
        m = self.meetings.setdefault(mark, Meeting())
        if not a.entered:
            m.arrived[a.lanes.cls] = a.lanes.time
            m.sites.add(a.event[1])
            a.lanes.hand(m.knowledge) if memory else a.lanes.hand_happened(m.knowledge.happened)
            a.entered, a.leaving, a.meets = True, m.number, mark
            if m.threads not in (0, a.event[1] + 1) and not memory and not kind % 2:
                raise self.reject(a, "lanes of the warp execute another instruction")
            m.threads = a.event[1] + 1
            self.met(m, mark, gone)
        return self.out(a, m, True)

    def met(self, m: Meeting, mark: Epoch, gone: list[ReplayedAgent]) -> None:
        """Lets lanes of a warp go on if all have come, but those that left."""
        came = sum(self.info.classes[c].lanes for c in m.arrived) | sum(o.info.lanes for o in gone)
        if came & mark[3] == mark[3]:
            self.leave(m, mark)
            m.threads = 0

    def left_behind(self, a: ReplayedAgent, m: Meeting, mark: Epoch) -> None:
        """Lanes leave while others of their warp wait."""
        if not a.info.lanes & mark[3]:
            return
        if not mark[-1]:
            raise NotJudgedError("lanes that leave while others of their warp wait for them")
        if any(self.info.passes(a.exit_site, site, whole=False) for site in m.sites):
            raise self.reject(a, "it runs past what lanes of its warp wait for to the end")
        self.met(m, mark, [o for o in self.mates(a) if o.gone])

    def on_cluster_arrive(self, a: ReplayedAgent, flags: int) -> bool:
        m = self.meetings.setdefault(("c",), Meeting())
        if self.info.clusters > 1:
            raise NotJudgedError("the cluster barrier of one of several clusters")
        if a.owes_wait:
            raise self.reject(a, "it arrives twice on the cluster barrier")
        self.enter(a, m, ("c",), release=not flags & Flag.RELAXED)
        if flags & Flag.RELAXED:
            fenced = ("init", a.lanes.cls)
            m.knowledge.visible.advance_to(fenced, a.lanes.visible(fenced, True))
            if a.released is not None and a.scope >= Scope.CLUSTER:
                m.knowledge.join(a.released)
        a.owes_wait, a.entered = True, False
        self.cluster_full(m)
        return True

    def cluster_full(self, m: Meeting) -> None:
        if m.arrived and all(o.gone or o.lanes.cls in m.arrived for o in self.actors):
            self.leave(m, ("c",))

    def on_cluster_wait(self, a: ReplayedAgent, flags: int) -> bool:
        m = self.meetings.setdefault(("c",), Meeting())
        if not a.owes_wait:
            raise self.reject(a, "it waits on the cluster barrier without an arrival")
        if a.lanes.cls in m.arrived:
            return False
        a.owes_wait = False
        a.lanes.joined.join(m.released)
        return True
