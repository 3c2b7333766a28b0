"""The state of every mbarrier along a trace: what a report shows beside each step.

The checker judges phases while it runs; a witness is only a list of events. This module runs the automaton of
``model.automata.mbarrier`` over that list once more.

Worked example. ``init b, 1``; ``arrive.expect_tx b, 256``; the copy's completion. The states after the three
steps are (phase 0, 1 pending, 0 bytes), (phase 0, 0 pending, 256 bytes) and (phase 1, 1 pending, 0 bytes).
"""

from __future__ import annotations

from collections import defaultdict

from syncverify.base.diagnostics import BarrierState, StepKind
from syncverify.checker.happens_before.handlers.mbarriers import NOINC
from syncverify.checker.happens_before.run import AsyncOperation, Run
from syncverify.model.automata.mbarrier import Mbarrier
from syncverify.model.events import Ev, Event, Flag

KIND_OF = {
    Ev.READ: StepKind.READ,
    Ev.GLOBAL_READ: StepKind.READ,
    Ev.FRAG_READ: StepKind.READ,
    Ev.WRITE: StepKind.WRITE,
    Ev.ATOMIC: StepKind.WRITE,
    Ev.SIGNAL: StepKind.WRITE,
    Ev.GLOBAL_WRITE: StepKind.WRITE,
    Ev.GLOBAL_ATOMIC: StepKind.WRITE,
    Ev.FRAG_WRITE: StepKind.WRITE,
    Ev.INIT: StepKind.INIT,
    Ev.INVAL: StepKind.INVAL,
    Ev.ARRIVE: StepKind.ARRIVE,
    Ev.EXPECT_TX: StepKind.EXPECT,
    Ev.COMPLETE_TX: StepKind.ARRIVE,
    Ev.CP_ARRIVE: StepKind.ISSUE,
    Ev.WAIT: StepKind.WAIT,
    Ev.WAIT_TOKEN: StepKind.WAIT,
    Ev.POLL: StepKind.WAIT,
    Ev.POLL_TOKEN: StepKind.WAIT,
    Ev.SPIN: StepKind.WAIT,
    Ev.BARRIER_SYNC: StepKind.SYNC,
    Ev.BARRIER_ARRIVE: StepKind.SYNC,
    Ev.WARP_SYNC: StepKind.SYNC,
    Ev.CLUSTER_ARRIVE: StepKind.SYNC,
    Ev.CLUSTER_WAIT: StepKind.SYNC,
    Ev.INIT_FENCE: StepKind.FENCE,
    Ev.FENCE: StepKind.FENCE,
    Ev.PROXY_FENCE: StepKind.FENCE,
    Ev.WGMMA_FENCE: StepKind.FENCE,
    Ev.CP_ASYNC: StepKind.ISSUE,
    Ev.BULK_LOAD: StepKind.ISSUE,
    Ev.BULK_STORE: StepKind.ISSUE,
    Ev.BULK_COPY: StepKind.ISSUE,
    Ev.ST_ASYNC: StepKind.ISSUE,
    Ev.WGMMA: StepKind.ISSUE,
    Ev.CP_COMMIT: StepKind.GROUP,
    Ev.CP_WAIT: StepKind.GROUP,
    Ev.BULK_COMMIT: StepKind.GROUP,
    Ev.BULK_WAIT: StepKind.GROUP,
    Ev.WGMMA_COMMIT: StepKind.GROUP,
    Ev.WGMMA_WAIT: StepKind.GROUP,
}


class BarrierStates:
    """The mbarriers of one run, moved on event by event."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._barriers: dict[int, Mbarrier] = defaultdict(Mbarrier)

    def state(self, barrier: int) -> BarrierState:
        """How a barrier stands now."""
        m = self._barriers[barrier]
        return BarrierState(m.phase, m.pending, m.count, m.tx)

    def event(self, cls: int, event: Event) -> int | None:
        """Applies an event of class ``cls``; returns the barrier that it moved, if any."""
        lanes = self._run.threads[cls].info.count
        match event:
            case (Ev.INIT, _, barrier, count, *_):
                self._barriers[barrier].init(count)
            case (Ev.INVAL, _, barrier, *_):
                self._barriers[barrier].inval()
            case (Ev.ARRIVE, _, barrier, count, bytes_, flags, *_):
                if bytes_ >= 0:
                    self._barriers[barrier].expect(bytes_ * lanes)
                self._arrive(barrier, count * lanes, bool(flags & Flag.DROP))
            case (Ev.EXPECT_TX, _, barrier, bytes_, *_):
                self._barriers[barrier].expect(bytes_ * lanes)
            case (Ev.COMPLETE_TX, _, barrier, bytes_, *_):
                self._complete(barrier, bytes_ * lanes)
            case (Ev.CP_ARRIVE, _, barrier, noinc, *_):
                if not noinc:
                    self._barriers[barrier].pending += lanes
            case (Ev.WAIT | Ev.WAIT_TOKEN | Ev.POLL | Ev.POLL_TOKEN, _, barrier, *_):
                pass
            case _:
                return None
        return int(event[2])

    def completion(self, op: AsyncOperation) -> int | None:
        """Applies the completion of an asynchronous operation; returns the first barrier that it moved."""
        if op.number <= NOINC and op.arrivals:
            barrier = op.arrivals >> 32
            self._arrive(barrier, op.arrivals & 0xFFFFFFFF, False)
            return barrier
        for barrier, bytes_, _ in op.targets:
            if barrier >= 0:
                self._complete(barrier, bytes_)
        return next((barrier for barrier, _, _ in op.targets if barrier >= 0), None)

    def _arrive(self, barrier: int, arrivals: int, drop: bool) -> None:
        """Arrivals beyond the pending ones fall into the phases that follow."""
        m = self._barriers[barrier]
        while arrivals > 0 and m.pending > 0:
            now = min(arrivals, m.pending)
            arrivals -= now
            if m.arrive(now, drop):
                m.advance()

    def _complete(self, barrier: int, bytes_: int) -> None:
        m = self._barriers[barrier]
        if m.complete_tx(bytes_):
            m.advance()
