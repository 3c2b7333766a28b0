"""The machine: which events are private, which can happen now, and what happens then."""

from __future__ import annotations

from syncverify.simulate.ir.meetings import COMPARE, Meetings
from syncverify.simulate.ir.memory import fenced_in
from syncverify.simulate.ir.program import Event, Op
from syncverify.simulate.ir.state import END, NOTHING, Bar, Found, Named, State


class Machine(Meetings):
    """The rules of one program. Harms go to ``found``, executed events to ``log`` if it is a list."""

    def initial(self, settled: bool = True) -> State:
        """Everybody at the kernel's entry; ``settled``: past what comes before the first visible event."""
        p, s = self.p, State()
        count = len(p.groups)
        s.node = list(p.start)
        s.H, s.O, s.A, s.AO = [0] * count, [0] * count, [0] * count, [0] * count
        s.released, s.acquired = [NOTHING] * count, [NOTHING] * count
        s.tokens, s.commits = [()] * count, [0] * count
        s.bars = [Bar()] * len(p.bars)
        for g, mark in p.marks.items():
            s.H[g] = mark
        s.cw, s.cr = [0] * p.cells, [0] * p.cells
        s.pool = [0] * p.ctas
        s.flags = [(0, ())] * len(p.flags)
        if settled:
            self.settle(s, range(count))
        return s

    def settle(self, s: State, groups: range | list[int]) -> None:
        """Runs groups up to the next event whose moment others can see."""
        work = list(groups)
        while work and not self.stopped:
            g = work.pop()
            while s.node[g] != END:
                e = self.p.events[s.node[g]]
                if e.op <= Op.EXIT and not e.remote:
                    self.private(s, g, e, work)
                elif not self.eager(s, g, e) or not self.can(s, g):
                    break
                elif self.visible(s, g, 0, work) is False:
                    break
                if self.stopped:
                    break

    def eager(self, s: State, g: int, e: Event) -> bool:
        """Others cannot tell when this happens: fixed participants, or only ever enabling."""
        op = e.op
        if op is Op.BAR_SYNC:
            return (self.p.groups[g].cta, e.key) in self.p.eager_bars
        if op is Op.REGISTERS:
            return not e.key or self.enough(s, g, e)
        return op in (Op.WARP_SYNC, Op.CLUSTER_ARRIVE, Op.CLUSTER_WAIT, Op.WGMMA_WAIT)

    def enough(self, s: State, g: int, e: Event) -> bool:
        """Whether the pool covers all that the CTA's warpgroups may still ask for, or this is granted."""
        p = self.p
        cta = p.groups[g].cta
        if p.pool_is_void or e.count <= s.wgs.get((cta, p.groups[g].warp // 4), (0, 0))[1]:
            return True
        need = 0
        for (c, wg), most in p.demand.items():
            if c == cta:
                need += max(0, most - s.wgs.get((c, wg), (p.registers, 0))[0])
        return need * 128 <= s.pool[cta]

    def private(self, s: State, g: int, e: Event, work: list[int]) -> None:
        op, p = e.op, self.p
        node = s.node[g]
        if op is Op.ACCESS or op is Op.ISSUE:
            self.accesses(s, g, e)
        elif op is Op.LEARN:
            self.learn(s, g, e)
        elif op is Op.SETTLE:
            if not p.strict:
                self.bridge(s, g, e.mask)
        elif op is Op.FENCE:
            self.fence(s, g, e)
        elif op is Op.PROXY_FENCE:
            self.proxy_fence(s, g, e)
        elif op is Op.HARM:
            self.harm(next(iter(e.flags)), e.rule, e.message, e, g)
        elif op is Op.MARK:
            s.H[g] |= e.mask
        elif op is Op.NEED:
            if not (s.H[g] | s.O[g]) & p.grid_marks:
                self.harm("stale-value", e.rule, f"{e.text} before griddepcontrol.wait", e, g)
        elif op is Op.MAP_RELEASE or op is Op.MAP_ACQUIRE:
            self.map_fence(s, g, e)
        elif op is Op.WGMMA_COMMIT:
            s.commits[g] = e.count
            work.extend(x for x in self.cta_groups[p.groups[g].cta] if x != g and s.node[x] != END)
        elif op is Op.EXIT:
            self.leave(s, g, e, work)
            return
        self.wrote(g, node)
        self.next(s, g)

    def learn(self, s: State, g: int, e: Event) -> None:
        """What the group itself did is ordered: before all of it, or lane by lane."""
        if self.single[g]:
            s.H[g] |= e.mask
        else:
            s.O[g] |= e.mask & ~s.H[g]

    def proxy_fence(self, s: State, g: int, e: Event) -> None:
        """What is ordered before the fence, in its state space, is bridged to the async proxy."""
        p = self.p
        space = self.spaces[e.token, p.groups[g].cta] & p.generic
        if "release" in e.flags:
            s.H[g] |= e.mask
        elif "acquire" in e.flags:
            for mark, own in p.halves:
                if s.H[g] & mark:
                    self.bridge(s, g, own & space & s.H[g])
        elif "own_only" in e.flags:
            cta = p.groups[g].cta
            self.bridge(s, g, e.own & space & ~self.elsewhere[cta] & (p.generic_sync | s.H[g] | s.O[g]))
            s.A[g] |= fenced_in(p, cta, s.H[g] & self.spaces[e.token, cta])
        else:
            s.A[g] |= s.H[g] & space
            s.AO[g] |= s.O[g] & space & ~s.A[g]

    def leave(self, s: State, g: int, e: Event, work: list[int]) -> None:
        p = self.p
        group = p.groups[g]
        if e.mask:
            first = (e.mask & -e.mask).bit_length() - 1
            a = p.accesses[first]
            self.found.append(
                Found("ub", "SV211", f"{a.text} may still read its source when its thread leaves", a.span, g)
            )
        self.wrote(g, s.node[g])
        s.node[g] = END
        if self.gone(s, group.cta):
            self.abandoned(s, group.cta, g)
        for key in [k for k in s.named if k[1] == group.cta]:
            self.complete_named(s, key, work)
        self.complete_cluster(s, group.cta // p.cluster_size, work)

    def can(self, s: State, g: int) -> bool:
        """Whether the group's next event can happen now."""
        e = self.p.events[s.node[g]]
        op = e.op
        if op is Op.WAIT or op is Op.WAIT_TOKEN:
            # Asking about an object that this thread may not use is undefined at once, whatever the answer.
            b = s.bars[e.bar]
            return not b.alive or bool(b.init & ~s.H[g]) or self.complete_for(s, g, e)
        if op is Op.BAR_SYNC:
            n = s.named.get((0, self.p.groups[g].cta, e.key, 0))
            if n is None or not n.arrived >> g & 1:
                return True
            # Its warp executes the instruction together, once its other lanes have arrived the first time.
            early = "aligned" in e.flags and not self.p.strict and not self.whole(s, g, n)
            return not (n.waiting >> g & 1 or early)
        if op is Op.WARP_SYNC:
            group = self.p.groups[g]
            return not self.is_waiting(s, g, (1, group.cta, group.warp, e.key))
        if op is Op.CLUSTER_WAIT:
            c = self.p.groups[g].cta // self.p.cluster_size
            state = s.cluster.get(c)
            return state is None or bool(state[1] >> g & 1) or not state[0] >> g & 1
        if op is Op.REGISTERS and e.key:
            group = self.p.groups[g]
            current, done = s.wgs.get((group.cta, group.warp // 4), (self.p.registers, 0))
            return self.p.pool_is_void or e.count <= done or (e.n - current) * 128 <= s.pool[group.cta]
        if op is Op.SPIN:
            return COMPARE[e.token](s.flags[e.key][0], e.count)
        if op is Op.WGMMA_WAIT:
            return all(s.commits[x] >= e.count or s.node[x] == END for x in e.bits)
        return True

    def wait(self, s: State, g: int, e: Event) -> bool:
        """A wait for a phase that is complete; False if the object is used wrongly and the execution ends."""
        if not self.check_bar(s, g, e.bar, e):
            return True
        if not self.complete_for(s, g, e):
            self.stopped = True
            self.found[-1].stops = True
            return False
        token = dict(s.tokens[g]).get(e.token, -1)
        if e.op is Op.WAIT_TOKEN and token < s.bars[e.bar].phase - 1:
            # Only the current and the preceding phase may be asked about (PTX ISA, test_wait).
            self.harm("ub", "SV201", f"{e.text}: the token's phase is long over", e, g)
        self.passed(s, g, e, s.bars[e.bar].phase - 1 if e.op is Op.WAIT else token)
        return True

    def visible(self, s: State, g: int, answer: int, work: list[int]) -> bool:
        """Performs the group's next event; False if the group now blocks."""
        e = self.p.events[s.node[g]]
        op = e.op
        if op is Op.ARRIVE:
            self.arrive(s, g, e)
        elif op in (Op.EXPECT, Op.COMPLETE, Op.PEND):
            self.transactions(s, g, e)
        elif op is Op.WAIT or op is Op.WAIT_TOKEN:
            if not self.wait(s, g, e):
                return False
        elif op in (Op.POLL, Op.POLL_TOKEN):
            if self.check_bar(s, g, e.bar, e) and answer:
                self.passed(s, g, e, s.bars[e.bar].phase - 1)
            self.next(s, g, answer)
            return True
        elif op is Op.INIT or op is Op.INVAL:
            self.lifetime(s, g, e)
        elif op is Op.BAR_SYNC or op is Op.BAR_ARRIVE:
            return self.named_barrier(s, g, e, work)
        elif op is Op.WARP_SYNC:
            group = self.p.groups[g]
            key = (1, group.cta, group.warp, e.key)
            return self.meet(s, g, key, Named(), work, True)
        elif op is Op.CLUSTER_ARRIVE:
            self.cluster_arrive(s, g, e, work)
        elif op is Op.CLUSTER_WAIT:
            self.cluster_wait(s, g, e)
        elif op is Op.REGISTERS:
            self.registers(s, g, e, work)
        elif op <= Op.EXIT:  # an access to another CTA, which may be gone
            self.private(s, g, e, work)
            return True
        elif op is Op.WGMMA_WAIT:
            s.H[g] |= e.mask
            self.wrote(g, s.node[g])
        else:
            self.global_word(s, g, e)
        self.next(s, g)
        return True
