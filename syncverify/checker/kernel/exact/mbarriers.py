"""mbarriers in a run: O1 to O5 of docs/theory.md, section 4."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from syncverify.base.certificate_data import RejectedError
from syncverify.checker.kernel.exact.hazards import NotJudgedError, Touch
from syncverify.checker.kernel.exact.knowledge import Epoch, Knowledge, VectorClock
from syncverify.checker.kernel.exact.polls import Use, use_of
from syncverify.checker.kernel.exact.state import Barrier, Phase, ReplayedAgent, State
from syncverify.model.events import Ev, Event, Flag, Footprint
from syncverify.model.proxies import Access, Scope

#: The largest transaction count and the largest count of arrivals (PTX ISA: mbarrier).
LARGEST = (1 << 20) - 1
#: Bits of a token that hold the phase; above them lies the number of the barrier, plus one.
TOKEN_BITS = 32


class Mbarriers(State):
    """The rules of mbarriers."""

    def use(self, a: ReplayedAgent, index: int) -> Barrier:
        """A barrier that is alive, in every execution, when the class uses it (O5)."""
        b = self.barriers.get(index)
        if b is None:
            raise self.reject(a, "the barrier is not alive")
        if self.info.barriers[index].cta != a.info.cta:
            if self.info.clusters > 1:
                raise NotJudgedError("a barrier of another cluster")
            a.far[self.info.barriers[index].cta] = a.lanes.time
        self.initialized(a, b)
        b.uses[a.lanes.cls] = a.lanes.time
        return b

    def initialized(self, a: ReplayedAgent, b: Barrier) -> None:
        """Every init of the barrier comes before."""
        for cls, time in b.inits:
            own = cls == a.lanes.cls and a.lanes.alone
            if not self.seen(a, (cls, time)) and a.lanes.visible(("init", cls), own) < time:
                raise self.reject(a, "the init is not ordered before this use")

    def complete(self, row: VectorClock, b: Barrier, k: int) -> bool:
        """Whether the completion of phase ``k`` happened before a point."""
        if k < 0 or row.get(b.mark, 0) > k:
            return True
        p = b.last if k == b.done - 1 else b.before if k == b.done - 2 else None
        return p is not None and not p.copies and all(row.get(("t", c), 0) >= t for c, t in p.threads.items())

    def contribute(self, a: ReplayedAgent, b: Barrier) -> Phase:
        """O1 for a contribution of the class to the open phase."""
        if not self.complete(a.lanes.joined.happened, b, b.done - 1):
            raise self.reject(a, f"phase {b.done - 1} may still be open")
        b.phase.threads[a.lanes.cls] = a.lanes.time
        return b.phase

    def expect(self, a: ReplayedAgent, b: Barrier, nbytes: int) -> None:
        p = self.contribute(a, b)
        self.note(b, b.done, "expect_tx", a, nbytes)
        a.lanes.hand_happened(p.others)
        p.expected += nbytes
        p.expects.append((a.lanes.cls, a.lanes.time, nbytes))
        self.in_range(a, p)

    def in_range(self, a: ReplayedAgent, p: Phase) -> None:
        if max(p.expected, p.completed) > LARGEST:
            raise self.reject(a, "the transaction count may leave its range")

    def arrive(self, a: ReplayedAgent, index: int, count: int, nbytes: int, flags: int) -> bool:
        b = self.use(a, index)
        a.answer = b.done + (index + 1 << TOKEN_BITS)
        if flags & Flag.NO_COMPLETE:
            raise NotJudgedError("arrivals that must not complete a phase")
        rounds = a.info.count if nbytes >= 0 else 1
        for _ in range(rounds):
            if nbytes >= 0:
                self.expect(a, b, nbytes)
            self.arrivals(a, b, a.info.count // rounds, count, flags)
        return True

    def arrivals(self, a: ReplayedAgent, b: Barrier, lanes: int, count: int, flags: int) -> None:
        """Arrivals of some lanes; those beyond the pending count arrive in the next phase (B17)."""
        while lanes > 0:
            fit = min(lanes, b.pending // count) if count > 0 else 0
            if fit == 0:
                raise self.reject(a, "no arrival is pending")
            p = self.contribute(a, b)
            self.note(b, b.done, "arrive", a, fit * count)
            handed = a.lanes.handed()
            p.by_arrivals.join(handed.happened)
            self.release(a, b, p, handed, flags)
            if flags & Flag.DROP:
                b.count -= fit * count
                if b.count <= 0:
                    raise self.reject(a, "no arrival is left to expect")
            lanes -= fit
            b.pending -= fit * count
            self.close(b)

    def release(self, a: ReplayedAgent, b: Barrier, p: Phase, handed: Knowledge, flags: int) -> None:
        """What an arrival makes visible to the waits of its phase."""
        given, wide = handed, bool(flags & Flag.CLUSTER)
        if flags & Flag.RELAXED:
            if a.released is None:
                return
            given, wide = a.released, a.scope >= Scope.CLUSTER
        if self.info.barriers[b.index].cta == a.info.cta:
            p.knowledge.join(given)
            return
        if wide:
            p.far.join(given)
        # At cta scope completions alone cross the CTAs, in practical mode (K4).
        crosses = {m: v for m, v in given.visible.items() if m[0] not in "tr"}
        p.knowledge.visible.join(VectorClock(beyond=crosses))

    def close(self, b: Barrier) -> None:
        """The phase completes if it is full: O4 (a) and O3."""
        p = b.phase
        if b.pending or p.tx:
            return
        where = f"phase {b.done} of {self.info.barriers[b.index].name}"
        self.accounted(p, where)
        p.others.join(p.by_arrivals)
        for cls, time in b.waits.items():
            if p.others.get(("t", cls), 0) < time:
                raise RejectedError(
                    where, f"{self.info.classes[cls].name} may not have looked at the one before"
                )
        p.knowledge.happened.join(p.others)
        b.done += 1
        p.knowledge.mark(b.mark, b.done)
        p.far.mark(b.mark, b.done)
        p.knowledge.share()
        # Practical mode: what an earlier phase made visible stays so for who waits for a later one (K14).
        heir = Knowledge(visible=p.knowledge.visible.copy(), bridged=p.knowledge.bridged.copy())
        b.before, b.last, b.phase = b.last, p, Phase(knowledge=heir)
        b.pending, b.waits = b.count, {}

    def accounted(self, p: Phase, where: str) -> None:
        """O4 (a): each expect precedes some arrival, or the phase is held open without it."""
        for cls, time, nbytes in p.expects:
            if p.by_arrivals.get(("t", cls), 0) >= time:
                continue
            held = sum(n for c, t, n in p.expects if p.by_arrivals.get(("t", c), 0) >= t)
            spent = sum(n for n, past in p.landed if past.get(("t", cls), 0) < time)
            if held <= spent:
                raise RejectedError(where, f"it may complete before {nbytes} bytes are announced")

    def open_phase(self, b: Barrier) -> None:
        """O4 for a phase that the end leaves open."""
        p = b.phase
        if b.pending == 0:
            where = f"phase {b.done} of {self.info.barriers[b.index].name}"
            self.accounted(p, where)
            if p.tx or p.expects or p.landed:
                raise RejectedError(where, "its bytes never balance")

    def land(self, a: ReplayedAgent, index: int, nbytes: int) -> tuple[Epoch, int]:
        """A copy completes on a barrier; returns what shows it."""
        b = self.barriers.get(index)
        if b is None:
            raise self.reject(a, "the copy meets a barrier that is not alive")
        past = a.lanes.hand_happened(VectorClock())
        if not self.complete(a.lanes.joined.happened, b, b.done - 1):
            raise self.reject(a, f"its bytes may land in phase {b.done - 1}")
        p, k = b.phase, b.done
        self.note(b, k, "copy", a, nbytes)
        p.copies, b.copies = True, b.done
        p.others.join(past)
        p.completed += nbytes
        p.landed.append((nbytes, a.lanes.joined.happened.copy()))
        self.in_range(a, p)
        self.close(b)
        return b.mark, k + 1

    def wait(self, a: ReplayedAgent, index: int, passes: Callable[[Barrier], bool], flags: int) -> bool:
        b = self.use(a, index)
        if not passes(b):
            return False
        past, polled = a.polled.pop(index, (a.lanes.joined.happened, flags))
        flags = (flags | polled) & Flag.RELAXED | flags & polled & Flag.CLUSTER  # what both looks give
        if not self.complete(past, b, b.done - 2):
            raise self.reject(a, f"phase {b.done - 2} may still be open: the wait may pass on the one before")
        b.waits[a.lanes.cls] = a.lanes.time
        self.note(b, b.done - 1, "wait", a)
        if b.done:
            if flags & Flag.RELAXED:
                a.lanes.joined.happened.join(b.last.knowledge.happened)
                a.received = a.received or Knowledge()
                a.received.join(b.last.knowledge)
            else:
                a.lanes.joined.join(b.last.knowledge)
                if flags & Flag.CLUSTER:
                    a.lanes.joined.join(b.last.far)
        return True

    def on_wait(self, a: ReplayedAgent, index: int, parity: int, flags: int) -> bool:
        return self.wait(a, index, lambda b: b.done % 2 != parity, flags)

    def on_wait_token(self, a: ReplayedAgent, index: int, token: int, flags: int) -> bool:
        origin, phase = divmod(token, 1 << TOKEN_BITS)

        def passes(b: Barrier) -> bool:
            if origin != index + 1:
                raise self.reject(a, "the token is of no arrival on this barrier")
            if b.life > 1:
                raise NotJudgedError("tokens of a barrier that has been initialized twice")
            if b.done > phase + 1:
                raise self.reject(a, f"the token is of phase {phase}, {b.done} are complete")
            return b.done == phase + 1

        return self.wait(a, index, passes, flags)

    def on_poll(self, a: ReplayedAgent, index: int, phase: int, flags: int) -> bool:
        """A look that is repeated until it is true is a wait. One that only says whether the wait behind it
        is needed is that wait, which may look as early as here.
        """
        assert a.event is not None
        match self.use_of(a, a.event):
            case Use.LOOP:
                wait = self.on_wait if a.event[0] == Ev.POLL else self.on_wait_token
                a.answer = int(wait(a, index, phase, flags))
                return bool(a.answer)
            case Use.GUARD:
                self.use(a, index)
                a.polled[index] = (a.lanes.joined.happened.copy(), flags)
                return True
        raise NotJudgedError("poll")

    def use_of(self, a: ReplayedAgent, event: Event) -> Use | None:
        """What the answer of a look is for."""
        assert a.agent is not None
        use = use_of(a.agent, event)
        self.asked.append((a.lanes.cls, None, use))
        return use

    def on_init(self, a: ReplayedAgent, index: int, count: int) -> bool:
        assert a.event is not None
        site, here = a.event[1], (a.lanes.cls, a.lanes.time)
        b = self.barriers.get(index)
        if b is not None and self.alike(a, b, site, count):
            self.initialize_alike(index)
            b.inits = (*b.inits, here)
            return True
        if b is not None or not 1 <= count <= LARGEST:
            raise self.reject(a, "the barrier is alive, or the init has no count")
        life = self.lives[index] = self.lives.get(index, 0) + 1
        if index in self.ended and not self.seen(a, self.ended[index]):
            raise self.reject(a, "the barrier's invalidation is not ordered before")
        self.claim(a, index)
        self.barriers[index] = Barrier(index, life, count, (here,), count, site)
        return True

    def claim(self, a: ReplayedAgent, index: int) -> None:
        """Init and inval write the barrier's bytes: data there is ordered with them (B10, B12)."""
        place = self.info.barriers[index]
        fp = Footprint(place.cta, ((place.offset, place.offset + 8),))
        if place.cta != a.info.cta:
            raise NotJudgedError("a barrier that another CTA begins or ends")
        assert a.event is not None
        if a.info.count > 1:
            self.initialize_alike(index)
        touch = Touch(Access.GENERIC_WRITE, a.lanes.cls, a.lanes.time, fp, a.event[1], barrier=True)
        self.memory.access(a.lanes, touch, partial(self.at, a), self.left)

    def initialize_alike(self, index: int) -> None:
        """Several lanes initialize a barrier, each with its own order to data in its bytes."""
        if index in self.overlays:
            raise NotJudgedError("data in the bytes of a barrier that several lanes initialize")
        self.shared_inits.add(index)

    def alike(self, a: ReplayedAgent, b: Barrier, site: int, count: int) -> bool:
        """An init that other lanes of the warp have executed as well, before any use: it changes nothing."""
        classes = {cls for cls, _ in b.inits}
        warps = {(self.info.classes[cls].cta, self.info.classes[cls].warp) for cls in classes}
        return (
            (b.site, b.count, b.life) == (site, count, 1)
            and warps == {(a.info.cta, a.info.warp)}
            and a.lanes.cls not in classes
            and not self.seen(a, b.inits[0])
            and not b.uses
            and b.copies < 0
        )

    def on_inval(self, a: ReplayedAgent, index: int) -> bool:
        """The end of a barrier's life: every use of it, copies included, happened before (O5)."""
        b = self.barriers.pop(index, None)
        if b is None or a.info.count > 1:
            raise self.reject(a, "the barrier is not alive, or several lanes invalidate it")
        if len(b.inits) > 1:
            self.initialized(a, b)
        for cls, time in b.uses.items():
            if a.lanes.happened(("t", cls), cls == a.lanes.cls and a.lanes.alone) < time:
                raise self.reject(a, f"{self.info.classes[cls].name} may still use the barrier")
        if b.copies >= 0 and a.lanes.joined.happened.get(b.mark, 0) <= b.copies:
            raise self.reject(a, "a copy may still complete on the barrier")
        self.open_phase(b)
        self.claim(a, index)
        self.ended[index] = (a.lanes.cls, a.lanes.time)
        return True

    def on_expect(self, a: ReplayedAgent, index: int, nbytes: int) -> bool:
        self.expect(a, self.use(a, index), nbytes * a.info.count)
        return True

    def on_complete_tx(self, a: ReplayedAgent, index: int, nbytes: int) -> bool:
        b = self.use(a, index)
        p = self.contribute(a, b)
        self.note(b, b.done, "complete_tx", a, nbytes * a.info.count)
        a.lanes.hand_happened(p.others)
        p.completed += nbytes * a.info.count
        p.landed.append((nbytes * a.info.count, a.lanes.joined.happened.copy()))
        self.in_range(a, p)
        self.close(b)
        return True

    def on_init_fence(self, a: ReplayedAgent) -> bool:
        a.lanes.own.mark(("init", a.lanes.cls), a.lanes.time)
        return True
