"""One run of a system, judged on its own: the obligations of docs/theory.md, section 4, and nothing searched.

Nothing here is shared with the checker but the events, the table of hazards and the arithmetic of register
pools. What it does not judge raises NotJudgedError: the obligations of such a system rest on the checker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from syncverify.base.certificate_data import RejectedError
from syncverify.checker.kernel.exact.hazards import NotJudgedError
from syncverify.checker.kernel.exact.knowledge import VectorClock
from syncverify.checker.kernel.exact.operations import Operations
from syncverify.checker.kernel.exact.polls import use_of
from syncverify.checker.kernel.exact.registers import RegisterPools
from syncverify.checker.kernel.exact.state import LEFT_ALONE, Meeting, ReplayedAgent
from syncverify.model.events import Ev, Event, Flag, System


class Follower(Operations, RegisterPools):
    """Follows a system to its end; ``judge`` raises RejectedError at the first obligation that is not met."""

    @classmethod
    def of(cls, system: System) -> Follower:
        """One that runs the agents of a system itself."""
        return cls(system.info, system.agents())

    def judge(self, most: int) -> None:
        """Runs everything; ``most``: events after which it gives up."""
        self.equal_stores, moved = frozenset(self.info.equal_stores), True
        while moved:
            moved = False
            for a in self.actors:
                while not a.gone and self.step(a):
                    moved = True
                    self.events += 1
                    if self.events > most:
                        raise RejectedError(self.info.name, "the run does not end")
        self.end()

    def end(self) -> None:
        """What only the end of the run shows."""
        for a in self.actors:
            if not a.gone:
                raise RejectedError(self.at(a), f"{a.info.name} waits for ever")
        for b in self.barriers.values():
            self.open_phase(b)
        for m in self.maps.values():
            self.all_over(m)
        self.pool()
        self.collectives()
        self.decided()
        if not self.grid_waits and not self.info.has_to_wait:
            self.inputs.clear()
        elif self.early:
            raise self.early
        for a in self.actors:
            for cta, time in a.far.items():
                if self.exits[cta].get(("t", a.lanes.cls), 0) < time:
                    raise RejectedError(
                        self.info.name, f"cta{cta} may have left when {a.info.name} reaches it"
                    )
            for (mark, value), cta in a.copies:
                if self.exits[cta].get(mark, 0) < value:
                    raise RejectedError(self.info.name, f"a copy of {a.info.name} may outlive its CTA")

    def is_of(self, system: System) -> bool:
        """Whether this run is one of another system as well: its agents say the same to the same questions,
        in tables that are equal then, and stores that were taken for equal are so there: of these, less is
        left the more is seen. Where its block lies is asked by nothing here. Raises LaneSplit.
        """
        if system.info.classes != self.info.classes:
            return False
        agents = system.agents()
        stands: dict[int, Event] = {}
        for cls, answer, said in self.asked:
            if answer is not None:
                stands[cls] = agents[cls].step(answer)
            if said != (stands[cls] if answer is not None else use_of(agents[cls], stands[cls])):
                return False
        equal = self.equal_stores == system.info.equal_stores
        return equal and replace(system.info, block=self.info.block) == self.info

    def step(self, a: ReplayedAgent) -> bool:
        """One event of a class, unless it has to wait."""
        if a.event is None:
            assert a.agent is not None
            answer, a.event, a.answer = a.answer, a.agent.step(a.answer), 0
            self.asked.append((a.lanes.cls, answer, a.event))
            a.lanes.advance()
        return self.execute(a)

    def execute(self, a: ReplayedAgent) -> bool:
        """The event at which a class stands, unless it has to wait."""
        assert a.event is not None
        if a.event[0] in _GLOBAL and not self.early:
            self.after_grid(a)
        handler = _HANDLERS.get(a.event[0])
        if handler is None:
            raise NotJudgedError(Ev(a.event[0]).name.lower())
        if not handler(self, a, *a.event[2:]):
            return False
        self.keep(a, a.event)
        if a.event[0] in _MEET or (a.event[0] in _BARRIERS and a.event[-1] & Flag.ALIGNED):
            a.collectives.append((a.event[1], a.event[0], self.operands(a.event)))
        a.event, a.entered, a.leaving = None, False, -1
        return True

    def operands(self, event: Event) -> tuple[int, ...]:
        """What the warps of a warpgroup must say alike of a wgmma: its descriptors, and whether it adds.
        Where a run has no numbers, what is not declared is shown by the flow of data.
        """
        if event[0] != Ev.WGMMA or not (self.numbers or event[8:]):
            return ()
        return event[5], int(event[6]), *event[8:]

    def on_grid_wait(self, a: ReplayedAgent) -> bool:
        self.grid_waits.append((a.lanes.cls, a.lanes.time))
        return True

    def after_grid(self, a: ReplayedAgent) -> None:
        """An access to global memory: a wait for the grid before has to have happened, if there is any. What
        the launch file says to be input may be read before.
        """
        if not any(a.lanes.happened(("t", cls), same_lane=True) >= time for cls, time in self.grid_waits):
            assert a.event is not None
            reads, inputs = a.event[0] in _GLOBAL_READS, self.info.reads_only_inputs
            if reads and inputs is not None and inputs(a.event[1]):
                return
            if reads and self.info.assumes_inputs and self.info.dependent_launch:
                line = self.info.sites[a.event[1]].span.line
                self.inputs[f"line {line}: {LEFT_ALONE}"] = None
            else:
                self.early = self.reject(a, "the grid before may still run when it accesses global memory")

    def keep(self, a: ReplayedAgent, event: Event) -> None:
        """Enters an event into what a certificate says of the run."""
        self.trace[a.lanes.cls].append(event)

    def on_exit(self, a: ReplayedAgent) -> bool:
        # K24: a wgmma may be in flight; only strict mode, which is not judged here, forbids it
        mark, g = self.group(a, "bulk.read")
        if a.lanes.happened(mark, True) < g.issued:
            raise self.reject(a, "it leaves while bulk stores are in flight")
        a.gone = True
        a.lanes.hand_happened(self.exits.setdefault(a.info.cta, VectorClock()))
        a.exit_site = a.event[1] if a.event is not None else -1
        for mark, m in self.meetings.items():
            if mark[0] == "n" and mark[1] == a.info.cta:
                self.full(a.info.cta, mark[2], m)
            elif mark[0] == "w" and m.arrived and mark[1:3] == (a.info.cta, a.info.warp):
                self.left_behind(a, m, mark)
        self.cluster_full(self.meetings.setdefault(("c",), Meeting()))
        return True

    def collectives(self) -> None:
        """Aligned operations: all lanes of a warp execute the same, for wgmma all of a warpgroup."""
        products = [[c for c in a.collectives if c[1] >= Ev.WGMMA_FENCE] for a in self.actors]
        for i, a in enumerate(self.actors):
            if any(a.collectives != o.collectives for o in self.mates(a)):
                raise NotJudgedError("lanes of a warp that execute different aligned operations")
            others = self.warpgroups[i]
            if products[i] and len({self.info.classes[o].warp for o in others}) != 4:
                raise RejectedError(self.info.name, "wgmma by less than four warps")
            if any(products[o] != products[i] for o in others):
                raise RejectedError(self.info.name, "warps of a warpgroup execute different wgmmas")

    def on_fault(self, a: ReplayedAgent, rule: str, message: str) -> bool:
        raise self.reject(a, message)

    def nothing(self, a: ReplayedAgent, *_: Any) -> bool:
        return True


#: Accesses to global memory.
_GLOBAL_READS = frozenset({Ev.GLOBAL_READ, Ev.BULK_LOAD, Ev.CP_ASYNC, Ev.SPIN})
_GLOBAL = _GLOBAL_READS | {Ev.GLOBAL_WRITE, Ev.GLOBAL_ATOMIC, Ev.BULK_STORE}
#: What a warp executes as one: always, or where the event says that it is aligned.
_MEET = frozenset({Ev.ELECT, Ev.WGMMA_FENCE, Ev.WGMMA, Ev.WGMMA_COMMIT, Ev.WGMMA_WAIT})
_BARRIERS = frozenset({Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE, Ev.CLUSTER_ARRIVE, Ev.CLUSTER_WAIT})
_F = Follower
_HANDLERS: dict[int, Callable[..., bool]] = {
    Ev.EXIT: _F.on_exit,
    Ev.FAULT: _F.on_fault,
    Ev.READ: _F.on_read,
    Ev.WRITE: _F.on_write,
    Ev.ATOMIC: _F.on_atomic,
    Ev.USE: _F.on_use,
    Ev.INIT: _F.on_init,
    Ev.INVAL: _F.on_inval,
    Ev.ARRIVE: _F.arrive,
    Ev.EXPECT_TX: _F.on_expect,
    Ev.WAIT: _F.on_wait,
    Ev.WAIT_TOKEN: _F.on_wait_token,
    Ev.POLL: _F.on_poll,
    Ev.POLL_TOKEN: _F.on_poll,
    Ev.MAP_REPLACE: _F.on_map_replace,
    Ev.MAP_RELEASE: _F.on_map_release,
    Ev.MAP_ACQUIRE: _F.on_map_acquire,
    Ev.MAP_CP_FENCE: _F.on_map_cp_fence,
    Ev.GRID_WAIT: _F.on_grid_wait,
    Ev.GRID_LAUNCH: _F.nothing,
    Ev.INIT_FENCE: _F.on_init_fence,
    Ev.BARRIER_SYNC: _F.on_sync,
    Ev.BARRIER_ARRIVE: _F.on_arrive_only,
    Ev.WARP_SYNC: _F.on_warp_sync,
    Ev.CLUSTER_ARRIVE: _F.on_cluster_arrive,
    Ev.CLUSTER_WAIT: _F.on_cluster_wait,
    Ev.ELECT: _F.on_elect,
    Ev.COLLECTIVE: _F.on_collective,
    Ev.FENCE: _F.on_fence,
    Ev.PROXY_FENCE: _F.on_proxy_fence,
    Ev.GLOBAL_READ: _F.on_global_read,
    Ev.GLOBAL_WRITE: _F.on_global_write,
    Ev.GLOBAL_ATOMIC: _F.on_global_atomic,
    Ev.SPIN: _F.on_spin,
    Ev.SETMAXNREG: _F.on_setmaxnreg,
    Ev.COMPLETE_TX: _F.on_complete_tx,
    Ev.CP_ASYNC: _F.on_cp_async,
    Ev.CP_COMMIT: lambda f, a: f.commit(a, "cp"),
    Ev.CP_WAIT: _F.on_cp_wait,
    Ev.CP_ARRIVE: _F.on_cp_arrive,
    Ev.BULK_LOAD: _F.on_bulk_load,
    Ev.BULK_STORE: _F.on_bulk_store,
    Ev.BULK_COPY: _F.on_bulk_copy,
    Ev.ST_ASYNC: _F.on_st_async,
    Ev.BULK_COMMIT: lambda f, a: f.commit(a, "bulk.read"),
    Ev.BULK_WAIT: _F.on_bulk_wait,
    Ev.WGMMA_FENCE: _F.on_wgmma_fence,
    Ev.WGMMA: _F.on_wgmma,
    Ev.WGMMA_COMMIT: _F.on_wgmma_commit,
    Ev.WGMMA_WAIT: _F.on_wgmma_wait,
    Ev.FRAG_READ: _F.on_fragment,
    Ev.FRAG_WRITE: _F.on_fragment,
}
