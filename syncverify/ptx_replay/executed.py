"""What each class does in the checker's fair run, for kernels that loads from shared memory steer."""

from __future__ import annotations

from contextlib import suppress

from syncverify.checker.explain.hang import release_blocked
from syncverify.checker.happens_before.dispatch import HANDLERS
from syncverify.checker.happens_before.handlers import phases
from syncverify.checker.happens_before.run import Handlers, LaneClass, Run, RunOptions, Unmodelled
from syncverify.checker.happens_before.vector_clocks import Columns, ColumnsExhausted
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.model.events import Ev, Event, Flag
from syncverify.ptx_replay.places import Unfit

MOST_EVENTS = 1_000_000
MOST_RELEASES = 10_000
_AS_WAIT = {Ev.POLL: Ev.WAIT, Ev.POLL_TOKEN: Ev.WAIT_TOKEN}


def executed(system: PtxSystem) -> list[list[Event]]:
    """The events of each class; the token of an arrival is its number among the class's tokens.

    A poll that passes is a wait, one that fails is left out. Raises LaneSplit, and Unfit for a token that
    another class got.
    """
    slack = 32
    while True:
        try:
            return _Recorder(system, slack).sequences()
        except ColumnsExhausted:
            slack *= 2


class _Recorder:
    """One run, and the phase that each arrival's token is of."""

    def __init__(self, system: PtxSystem, slack: int) -> None:
        self.tokens: dict[int, int] = {}  # position of an arrival -> the phase of its token
        classes = len(system.info.classes)
        columns = Columns(classes, classes + len(system.info.barriers) + slack)
        handlers: Handlers = HANDLERS | {Ev.ARRIVE: self.arrive}
        options = RunOptions(skips_unmodelled=True)
        self.run = Run(system, handlers, phases.complete_async, columns, MOST_EVENTS, options)

    def arrive(self, run: Run, t: LaneClass, event: Event) -> int:
        position, result = len(run.trace), HANDLERS[Ev.ARRIVE](run, t, event)
        self.tokens[position] = t.answer
        return result

    def sequences(self) -> list[list[Event]]:
        run = self.run
        run.run()
        if run.hung:
            with suppress(Unmodelled):
                release_blocked(run, MOST_RELEASES)
        found: list[list[Event]] = [[] for _ in run.threads]
        held: list[dict[tuple[int, int], int]] = [{} for _ in run.threads]  # barrier and phase -> token
        tokens = [0] * len(run.threads)
        for position, (cls, event) in enumerate(run.trace):
            if cls < 0:
                continue
            if event[0] == Ev.ARRIVE and event[5] & Flag.TOKEN:
                held[cls][event[2], self.tokens[position]] = tokens[cls]
                tokens[cls] += 1
            found[cls] += self.event(position, event, held[cls])
        for t in run.blocked():
            if t.event is not None and t.event[0] == Ev.UNKNOWN:
                found[t.cls].append(t.event)
        return found

    def event(self, position: int, event: Event, held: dict[tuple[int, int], int]) -> list[Event]:
        code = event[0]
        if code in _AS_WAIT:
            if position not in self.run.saw:
                return []
            event = (_AS_WAIT[code], *event[1:])
        if event[0] == Ev.WAIT_TOKEN:
            token = held.get((event[2], event[3]))
            if token is None:
                raise Unfit("a token that other lanes got")
            event = (*event[:3], token, *event[4:])
        return [event]
