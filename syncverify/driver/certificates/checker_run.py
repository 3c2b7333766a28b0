"""The run of one system with the checker's handlers, whose word stands where the kernel does not judge."""

from __future__ import annotations

from typing import Any

from syncverify.base.certificate_data import RejectedError
from syncverify.base.diagnostics import Policy, Severity
from syncverify.base.reason import reason_of
from syncverify.checker.happens_before.dispatch import HANDLERS
from syncverify.checker.happens_before.end_of_run import check_end
from syncverify.checker.happens_before.failure import Failure
from syncverify.checker.happens_before.handlers import phases
from syncverify.checker.happens_before.run import (
    YIELD,
    AsyncOperation,
    LaneClass,
    Run,
    TooManyEvents,
    Unmodelled,
)
from syncverify.checker.happens_before.vector_clocks import Columns, ColumnsExhausted
from syncverify.model.events import Ev, Event, System, SystemInfo

#: A system, the events of each of its classes, and what each phase of a barrier got and let go on.
Followed = tuple[SystemInfo, list[list[Event]], dict[tuple[int, int], tuple[list[Any], list[Any]]]]
_GIVES = (Ev.ARRIVE, Ev.EXPECT_TX, Ev.COMPLETE_TX)
_TAKES = (Ev.WAIT, Ev.WAIT_TOKEN, Ev.POLL, Ev.POLL_TOKEN)


def failures_under(run: Run, policy: Policy) -> list[Failure]:
    """The failures that count under a policy."""
    strict = policy == Policy.STRICT
    return [f for f in run.failures.values() if f.severity == Severity.ERROR or (strict and f.strict_only)]


def failure_text(run: Run, f: Failure) -> str:
    """A failure with its place."""
    return f"{run.info.sites[f.site].span}: {f.message}"


class _Recorder:
    """Runs one system and keeps which phase each contribution and each wait belongs to."""

    def __init__(self, system: System, slack: int, most: int) -> None:
        classes = len(system.info.classes)
        columns = Columns(classes, classes + len(system.info.barriers) + slack)
        self.run = Run(system, HANDLERS, self.land, columns, most)
        self.phases: dict[tuple[int, int], tuple[list[Any], list[Any]]] = {}
        self.moved = False

    def entry(self, b: int, phase: int) -> tuple[list[Any], list[Any]]:
        return self.phases.setdefault((b, phase), ([], []))

    def open(self, b: int) -> int:
        s = self.run.barriers.get(b)
        return -1 if s is None else int(s.auto.phase)

    def land(self, run: Run, op: AsyncOperation) -> None:
        for b, nbytes, _ in op.targets:
            if b >= 0:
                self.entry(b, self.open(b))[0].append(["copy", op.thread.cls, op.number, nbytes])
        phases.complete_async(run, op)

    def step(self, t: LaneClass) -> int:
        """One event, or another attempt at it."""
        kept = len(self.run.trace)
        before = {b: int(s.auto.phase) for b, s in self.run.barriers.items()}
        result = self.run.step(t)
        for cls, event in self.run.trace[kept:]:
            if cls < 0:
                continue
            time = self.run.threads[cls].time
            if event[0] in _GIVES and event[2] in before:
                self.entry(event[2], before[event[2]])[0].append([Ev(event[0]).name.lower(), cls, time])
            elif event[0] in _TAKES:
                self.entry(event[2], self.open(event[2]) - 1)[1].append([cls, time])
        self.moved = self.moved or len(self.run.trace) > kept
        return result

    def all(self) -> None:
        """Every agent in turn, as far as it can go, until nobody moves."""
        run = self.run
        self.moved = True
        while self.moved:
            self.moved = False
            for t in run.threads:
                while not t.done and not t.blocked:
                    if self.step(t) == YIELD:
                        break


def followed(system: System, policy: Policy, most: int) -> Followed:
    """The run of a system, of at most so many events, whose obligations the checker holds for met."""
    slack = 256  # a run that needs more is begun again, and a wide clock costs little
    while True:
        try:
            return _followed(system, policy, slack, most)
        except ColumnsExhausted:
            slack *= 4
        except (Unmodelled, TooManyEvents) as e:
            raise RejectedError(system.info.name, reason_of(e) or "the run does not end") from None


def _followed(system: System, policy: Policy, slack: int, most: int) -> Followed:
    r = _Recorder(system, slack, most)
    r.all()
    run, info = r.run, system.info
    if run.hung:
        raise RejectedError(info.name, "the run hangs")
    check_end(run)
    for f in failures_under(run, policy):
        raise RejectedError(info.name, failure_text(run, f))
    trace: list[list[Event]] = [[] for _ in info.classes]
    for cls, event in run.trace:
        if cls >= 0:
            trace[cls].append(event)
    return info, trace, r.phases


__all__ = ["failure_text", "failures_under", "followed"]
