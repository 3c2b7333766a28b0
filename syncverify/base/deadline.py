"""An end for work that may take too long or too much memory.

``within`` bounds the processor time of a proof, ``guarded`` the wall time and memory of a kernel's check; the
loops of the checker call ``check``, which raises where one of them is over. Counts of events and decisions
end a check first, so that verdicts repeat. These are guards: what they end is undecided, never proved.
``within_steps`` is such a count for work that has none of its own, such as edits that are tried out.

In the main thread a timer stands behind ``guarded``: it raises a second later where no loop has asked. An
import that has begun is not interrupted, for half a module would stay behind for all that follows.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType

from syncverify.base.reason import Cause, Reason

#: Seconds of processor time for one proof of the gate: of one stage, for every launch or for one.
PROOF_SECONDS = 120.0
#: Seconds that the check of one kernel may take, unless the caller says otherwise.
CHECK_SECONDS = 600.0
#: Of the machine's memory, what the checks side by side may take.
_SHARE = 0.75
#: The timer's interval, and how long after the end it raises.
_TICK, _GRACE = 0.25, 1.0
#: Calls of ``check`` from one look at the memory to the next.
_SELDOM = 256
_MIB = 1 << 20
#: The file of Python's own frames of an import.
_IMPORTS = "<frozen importlib._bootstrap>"


class OutOfBudgetError(Exception):
    """The work took more than it may; nothing is known of what it was to find."""

    reason: Reason


class OutOfTimeError(OutOfBudgetError):
    """It took longer."""

    def __init__(self, seconds: float, what: str = "seconds of processor time") -> None:
        self.reason = Reason(f"it takes more than {seconds:g} {what}", Cause.TIMEOUT)
        super().__init__(self.reason)
        self.seconds = seconds


class OutOfStepsError(OutOfBudgetError):
    """It took more steps."""

    def __init__(self, steps: int) -> None:
        self.reason = Reason(f"it takes more than {steps} steps", Cause.BUDGET)
        super().__init__(self.reason)
        self.steps = steps


class OutOfMemoryError(OutOfBudgetError):
    """It took more memory."""

    def __init__(self, mebibytes: int) -> None:
        self.reason = Reason(f"it takes more than {mebibytes} MiB of memory", Cause.MEMORY)
        super().__init__(self.reason)
        self.mebibytes = mebibytes


@dataclass(frozen=True, slots=True)
class Guard:
    """What the check of one kernel may take; None: there is no end. ``mebibytes``: what it adds."""

    seconds: float | None = CHECK_SECONDS
    mebibytes: int | None = None


@dataclass(slots=True)
class _Watch:
    guard: Guard
    ends: float | None  # of the clock that never goes back
    most: int | None  # bytes of this process
    calls: int = 0

    def ask(self, grace: float = 0.0) -> None:
        if self.ends is not None and self.guard.seconds is not None and time.monotonic() > self.ends + grace:
            raise OutOfTimeError(self.guard.seconds, "seconds")
        if self.most is not None and self.guard.mebibytes is not None and resident() > self.most:
            raise OutOfMemoryError(self.guard.mebibytes)


@dataclass(slots=True)
class _Limit:
    """``ends``: the processor time of this thread at which the work in it is to end, ``seconds``: how long it
    may take. ``not_before``: until then, by the clock that never goes back, it cannot be over.

    To ask for a thread's time is a call of the system. No thread's time goes faster than that clock.
    """

    ends: float
    seconds: float
    not_before: float = 0.0

    def ask(self) -> None:
        now = time.monotonic()
        if now >= self.not_before:
            left = self.ends - time.thread_time()
            if left < 0:
                raise OutOfTimeError(self.seconds)
            self.not_before = now + left


_end: ContextVar[_Limit | None] = ContextVar("end", default=None)
_watch: ContextVar[_Watch | None] = ContextVar("watch", default=None)


@dataclass(slots=True)
class _Steps:
    most: int
    left: int


_steps: ContextVar[tuple[_Steps, ...]] = ContextVar("steps", default=())


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Work that may take so many seconds of this thread's processor time; no longer than any around it."""
    ends, around = time.thread_time() + seconds, _end.get()
    token = _end.set(around if around is not None and around.ends < ends else _Limit(ends, seconds))
    try:
        yield
    finally:
        _end.reset(token)


@contextmanager
def within_steps(steps: int) -> Iterator[None]:
    """Work that may take so many steps, as ``check`` counts them, and no more than any around it.

    Two runs of one text spend the same steps, on any machine, so what such work finds repeats.
    """
    token = _steps.set((*_steps.get(), _Steps(steps, steps)))
    try:
        yield
    finally:
        _steps.reset(token)


@contextmanager
def guarded(guard: Guard) -> Iterator[None]:
    """Work that ends where a guard says so, by OutOfTimeError or OutOfMemoryError."""
    ends = None if guard.seconds is None else time.monotonic() + guard.seconds
    most = None if guard.mebibytes is None else resident() + guard.mebibytes * _MIB
    if ends is None and most is None:
        yield
        return
    watch = _Watch(guard, ends, most)
    token = _watch.set(watch)
    try:
        with _timer(watch):
            yield
    finally:
        _watch.reset(token)


@contextmanager
def _timer(watch: _Watch) -> Iterator[None]:
    """Asks now and then, whatever the work does; only the main thread can be interrupted so."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, None):
        yield  # the timer is somebody else's
        return

    outside = _imports(inspect.currentframe())

    def tick(_signal: int, frame: FrameType | None) -> None:
        if _imports(frame) == outside:
            watch.ask(_GRACE)

    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _imports(frame: FrameType | None) -> int:
    """How many frames of imports a frame lies in."""
    found = 0
    while frame is not None:
        found += frame.f_code.co_filename == _IMPORTS
        frame = frame.f_back
    return found


def check(steps: int = 1) -> None:
    """Raises OutOfBudgetError where steps, time or memory are over; ``steps``: made since the last call."""
    for budget in _steps.get():
        budget.left -= steps
        if budget.left < 0:
            raise OutOfStepsError(budget.most)
    limit = _end.get()
    if limit is not None:
        limit.ask()
    watch = _watch.get()
    if watch is not None:
        watch.calls += 1
        if watch.calls % _SELDOM == 0:
            watch.ask()
        elif watch.ends is not None and watch.guard.seconds is not None and time.monotonic() > watch.ends:
            raise OutOfTimeError(watch.guard.seconds, "seconds")


def ask_guard() -> None:
    """Raises OutOfBudgetError where the check of the kernel has taken what its guard grants."""
    watch = _watch.get()
    if watch is not None:
        watch.ask()


def resident() -> int:
    """The bytes of memory that this process holds; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        pass
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine_mebibytes() -> int | None:
    """The memory of this machine, in MiB; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MIB
    except (OSError, ValueError, AttributeError):
        return None


def check_guard(seconds: float | None, mebibytes: int | None, jobs: int = 1) -> Guard:
    """What the check of one kernel may take, of so many side by side; 0: there is no end.

    ``mebibytes``: None for three quarters of the machine's memory, divided by the jobs. ``jobs``: 0 for one
    for each processor.
    """
    most = mebibytes
    if most is None and (whole := machine_mebibytes()) is not None:
        most = int(whole * _SHARE / max(jobs or os.cpu_count() or 1, 1))
    return Guard(seconds or None, most or None)


__all__ = [
    "CHECK_SECONDS",
    "PROOF_SECONDS",
    "Guard",
    "OutOfBudgetError",
    "OutOfMemoryError",
    "OutOfStepsError",
    "OutOfTimeError",
    "ask_guard",
    "check",
    "check_guard",
    "guarded",
    "resident",
    "within",
    "within_steps",
]
