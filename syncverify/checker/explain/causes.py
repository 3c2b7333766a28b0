"""The class of the mistake behind a finding: what kind of thing its author has to change.

A rule says what breaks; most rules have one kind of cause. Of the others the run tells: a hang before
anybody has moved is a wrong initial parity, bytes that do not add up are bytes, and so on. A class only
chooses words; where a repair was found and checked, its class counts instead (``repairs``).
"""

from __future__ import annotations

from syncverify.base.diagnostics import Mistake
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.handlers.mbarriers import Barrier
from syncverify.checker.happens_before.handlers.waits import waits_by_token
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.shadow import Record
from syncverify.model.events import GLOBAL_MEMORY, Ev
from syncverify.model.proxies import Access

_BY_RULE = {
    "SV101": Mistake.MISSING_FENCE,
    "SV102": Mistake.MISPLACED_FENCE,
    "SV103": Mistake.MISPLACED_FENCE,
    "SV104": Mistake.MISSING_WAIT,
    "SV105": Mistake.MISSING_FENCE,
    "SV114": Mistake.PLACE,
    "SV115": Mistake.SCOPE,
    "SV201": Mistake.PARITY,
    "SV202": Mistake.COUNT,
    "SV203": Mistake.BYTES,
    "SV205": Mistake.LIFETIME,
    "SV206": Mistake.MISSING_WAIT,
    "SV207": Mistake.MISSING_WAIT,
    "SV208": Mistake.LIFETIME,
    "SV209": Mistake.MISSING_WAIT,
    "SV211": Mistake.MISSING_WAIT,
    "SV212": Mistake.BYTES,
    "SV301": Mistake.COUNT,
    "SV302": Mistake.DIVERGENCE,
    "SV303": Mistake.DIVERGENCE,
    "SV304": Mistake.REGISTERS,
    "SV401": Mistake.MISSING_WAIT,
    "SV402": Mistake.MISSING_FENCE,
    "SV403": Mistake.MISPLACED_WAIT,
    "SV501": Mistake.MISSING_WAIT,
    "SV502": Mistake.MISSING_FENCE,
    "SV503": Mistake.MISSING_WAIT,
    "SV504": Mistake.MISSING_BARRIER,
    "SV701": Mistake.PLACE,
}
_COPIES = (Access.ASYNC_WRITE, Access.CPASYNC_WRITE)


def cause(run: Run, f: Failure) -> Mistake | None:
    """The class of a failure's mistake."""
    if f.mistake is not None:
        return f.mistake
    if f.rule == "SV204":
        s: Barrier | None = run.barriers.get(f.barrier)
        return Mistake.MISSING_BARRIER if s is not None and s.inits else Mistake.MISSING_INIT
    if f.rule == "SV201" and f.obligation is Obligation.O3:
        return Mistake.MISSING_ARRIVE  # nobody waits for this waiter before the phase after its own
    if f.rule == "SV201" and (f.obligation is Obligation.UB or waits_by_token(run, f.site)):
        # Only a token makes a wait undefined; with a past, its arrival may come in the phase before.
        return Mistake.TOKEN if f.past is None else Mistake.MISSING_WAIT
    if f.rule == "SV202" and f.barrier >= 0 and announced_twice(run.barriers[f.barrier]):
        return Mistake.SECOND_PRODUCER
    if f.rule == "SV210":
        return _of_hang(run, f)
    if f.rule in ("SV110", "SV111", "SV112"):
        return _of_race(run, f)
    if f.rule == "SV211" and f.provoked and f.barrier < 0:
        return Mistake.MISSING_BARRIER  # a block leaves while others of its cluster still reach into it
    if f.rule == "SV203" and f.past is not None and f.barrier >= 0 and _balanced(run.barriers[f.barrier]):
        return Mistake.MISSING_WAIT  # the bytes are right, and may come too early
    if f.rule == "SV114" and run.trace[f.position : f.position + 1] and not _is_fault(run, f.position):
        return Mistake.MISSING_BARRIER  # another block may not run yet
    if f.rule == "SV206" and f.barrier >= 0 and not _balanced(run.barriers[f.barrier]):
        return Mistake.BYTES
    return _BY_RULE.get(f.rule)


def _is_fault(run: Run, position: int) -> bool:
    """Whether what is executed there is no more than known to be wrong."""
    return bool(run.trace[position][1][0] == Ev.FAULT)


def _balanced(s: Barrier) -> bool:
    """Whether as many bytes were announced as came."""
    return s.bytes_expected == s.bytes_completed


def _of_hang(run: Run, f: Failure) -> Mistake:
    """A phase that bytes or arrivals keep open, or one that the code does not mean."""
    if f.barrier < 0:
        return Mistake.MISSING_ARRIVE
    s: Barrier = run.barriers[f.barrier]
    if not s.arrivals:
        return Mistake.MISSING_ARRIVE
    waits = sum(who == f.cls and e[:1] + e[2:3] == (Ev.WAIT, f.barrier) for who, e in run.trace[: f.position])
    if not waits:
        return Mistake.FIRST_PARITY if f.phase == 0 else Mistake.LATER_PARITY
    # Who waited for each phase in turn means this one: what ends it does not come.
    return Mistake.MISSING_ARRIVE if f.phase in (waits - 1, waits) else Mistake.LATER_PARITY


def _of_race(run: Run, f: Failure) -> Mistake:
    """Accesses without an order: what a copy or a wgmma has to do with, or threads alone."""
    first, second = f.first, f.second
    if first is None or second is None:
        return Mistake.MISSING_BARRIER
    if reaches_other_block(run, second) and second.kind in _COPIES:
        return Mistake.MISSING_ARRIVE
    if first.kind in _COPIES and second.kind in _COPIES:
        return Mistake.SECOND_PRODUCER if first.cls != second.cls else Mistake.MISSING_WAIT
    if first.kind.asynchronous:
        return Mistake.MISSING_WAIT
    if second.kind in _COPIES:
        return (
            Mistake.EARLY_RELEASE if _released_before(run, first.cls, first.time) else Mistake.MISSING_ARRIVE
        )
    in_vain = any(s.arrivals and not s.waiters for s in run.barriers.values())
    return Mistake.MISSING_WAIT if in_vain else Mistake.MISSING_BARRIER


def announced_twice(s: Barrier) -> bool:
    """Whether several threads announce bytes, in one statement, on a barrier that is for one of them."""
    threads = sum(n for c, n in s.lanes.items() if c >= 0)
    return s.auto.count == 1 < threads and s.bytes_expected > 0 and len(s.arrivals) == 1


def reaches_other_block(run: Run, r: Record) -> bool:
    """Whether an access is to the shared memory of another block of its author's cluster."""
    memory = run.info.footprints[r.fp].memory
    return memory not in (GLOBAL_MEMORY, run.threads[r.cls].info.cta)


def _released_before(run: Run, cls: int, time: int) -> bool:
    """Whether a class arrives on an mbarrier before the access of that time, and on none behind it."""
    times: list[int] = []
    now = 0
    for who, event in run.trace:
        now += who == cls
        if who == cls and event[0] == Ev.ARRIVE:
            times.append(now)
    return bool(times) and times[0] <= time


__all__ = ["announced_twice", "cause", "reaches_other_block"]
