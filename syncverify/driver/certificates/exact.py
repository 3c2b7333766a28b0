"""Proofs for numbers: every system once, its events, and the phase of every contribution and wait.

The run is taken in an order of its own: turn by turn, every agent as far as it can go. Which order is taken
does not matter (docs/theory.md, section 5). ``judge`` judges it, and where it cannot, the checker does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from syncverify.base.certificate_data import RejectedError, listed, number, same, take
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
from syncverify.checker.kernel.exact import Follower, NotJudgedError
from syncverify.checker.kernel.exact.data import compressed, plain
from syncverify.driver.certificates.met import Met
from syncverify.model.events import Ev, Event, LaneSplit, System, SystemInfo, Unanalysable

MOST_EVENTS = 5_000_000
Splits = list[tuple[int, tuple[int, ...]]]
#: Why nothing is judged in strict mode.
STRICT = "strict mode"

_GIVES = (Ev.ARRIVE, Ev.EXPECT_TX, Ev.COMPLETE_TX)
_TAKES = (Ev.WAIT, Ev.WAIT_TOKEN, Ev.POLL, Ev.POLL_TOKEN)


def failures_under(run: Run, policy: Policy) -> list[Failure]:
    """The failures that count under a policy."""
    strict = policy == Policy.STRICT
    return [f for f in run.failures.values() if f.severity == Severity.ERROR or (strict and f.strict_only)]


def failure_text(run: Run, f: Failure) -> str:
    """A failure with its place."""
    return f"{run.info.sites[f.site].span}: {f.message}"


def described(whole: System, policy: Policy, met: Met | None = None) -> dict[str, Any]:
    """What is claimed of one system: all of it is derived from the system alone.

    Raises RejectedError where an obligation fails. The kernel's judge binds where ``met`` is asked for: what
    it rejects is rejected; why it does not judge, and what it assumes, is added there. Without, the checker
    has the last word.
    """
    system, splits = whole, Splits()
    slack = 32
    own = policy is Policy.PRACTICAL
    if not own and met is not None:
        met.reasons.append(STRICT)
    while True:
        try:
            if own:
                try:
                    claims, assumed = _judged(system)
                    if met is not None:
                        met.assumed |= assumed
                    return {"judge": "own", "splits": plain(splits), **claims}
                except NotJudgedError as e:
                    own, splits, system = False, [], whole
                    if met is not None:
                        met.reasons.append(str(e))
                except RejectedError:
                    if met is not None:
                        raise
                    own, splits, system = False, [], whole
            return {"judge": "checker", "splits": plain(splits), **_followed(system, policy, slack)}
        except LaneSplit as split:
            splits.append((split.cls, split.parts))
            system = system.refined(split)
        except ColumnsExhausted:
            slack *= 2
        except (Unmodelled, TooManyEvents) as e:
            raise RejectedError(system.info.name, reason_of(e) or "the run does not end") from None


class _Recorder:
    """Runs one system and keeps which phase each contribution and each wait belongs to."""

    def __init__(self, system: System, slack: int) -> None:
        classes = len(system.info.classes)
        columns = Columns(classes, classes + len(system.info.barriers) + slack)
        self.run = Run(system, HANDLERS, self.land, columns, MOST_EVENTS)
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


def _followed(system: System, policy: Policy, slack: int) -> dict[str, Any]:
    r = _Recorder(system, slack)
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
    return _claims(info, trace, r.phases)


def _judged(system: System) -> tuple[dict[str, Any], dict[str, None]]:
    """What is claimed of a system that the judge accepts, and what it assumes."""
    f = Follower.of(system)
    f.judge(MOST_EVENTS)
    return _claims(f.info, f.trace, f.phases), f.inputs


def _claims(
    info: SystemInfo, trace: list[list[Event]], phases: dict[tuple[int, int], tuple[list[Any], list[Any]]]
) -> dict[str, Any]:
    """A run as a certificate has it."""
    table: dict[Any, int] = {}
    steps = [[table.setdefault(event, len(table)) for event in events] for events in trace]
    return {
        "classes": [[c.cta, c.warp, c.lanes] for c in info.classes],
        "barriers": [[b.cta, b.offset, b.name] for b in info.barriers],
        "footprints": [_footprint(f) for f in info.footprints],
        "sites": [[s.span.line, s.text] for s in info.sites],
        "events": [[Ev(e[0]).name.lower(), *plain(e[1:])] for e in table],
        "steps": _shared([compressed(s) for s in steps]),
        "phases": [[b, phase, *sides] for (b, phase), sides in sorted(phases.items())],
    }


def _footprint(f: Any) -> list[Any]:
    out = [f.memory, plain(f.intervals)]
    return [*out, plain(f.lanes)] if f.lanes else out


def _shared(lists: list[list[Any]]) -> list[Any]:
    """Equal lists once: then the number of the first one."""
    first: dict[str, int] = {}
    out: list[Any] = []
    for i, x in enumerate(lists):
        at = first.setdefault(repr(x), i)
        out.append(x if at == i else at)
    return out


def written(systems: Iterable[System | Unanalysable], policy: Policy) -> dict[str, Any]:
    """The proof of all systems of a launch. Raises RejectedError where there is none."""
    parts = []
    for s in systems:
        if isinstance(s, Unanalysable):
            raise RejectedError(str(s.span), s.reason)
        parts.append(described(s, policy))
    if not parts:
        raise RejectedError("", "the launch has no block")
    return {"kind": "exact", "systems": parts}


def recheck(proof: Any, systems: Iterable[System | Unanalysable], policy: Policy, where: str) -> Met:
    """Derives all systems again; RejectedError at the first that is not as claimed, or that the kernel's
    judge rejects. How many were judged by it, and how many it does not judge.
    """
    met = Met()
    _, parts = take(proof, where, "kind", "systems")
    parts = listed(parts, f"{where}.systems")
    count = 0
    for s in systems:
        here = f"{where}.systems[{count}]"
        if isinstance(s, Unanalysable):
            raise RejectedError(here, f"{s.span}: {s.reason}")
        if count >= len(parts):
            raise RejectedError(f"{where}.systems", f"system {count} of the launch is left out")
        found = described(s, policy, met)
        same(found, parts[count], here)
        met.add("systems")
        count += 1
    number(count, where, 1)
    if count != len(parts):
        raise RejectedError(f"{where}.systems", f"{len(parts)} systems, but the launch has {count}")
    return met
