"""An end for work that may take too long: ``within`` sets it, and ``check`` in its loops raises."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Seconds of processor time for one proof of the gate: of one stage, for every launch or for one.
PROOF_SECONDS = 120.0
#: The processor time of this thread at which the work in it is to end, and how long it may take.
_end: ContextVar[tuple[float, float] | None] = ContextVar("end", default=None)


class OutOfTimeError(Exception):
    """The work took longer than it may; nothing is known of what it was to find."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it takes more than {seconds:g} seconds of processor time")
        self.seconds = seconds


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Work that may take so many seconds of this thread's processor time; no longer than any around it."""
    ends, around = time.thread_time() + seconds, _end.get()
    token = _end.set(around if around is not None and around[0] < ends else (ends, seconds))
    try:
        yield
    finally:
        _end.reset(token)


def check() -> None:
    """Raises OutOfTimeError where the time is over."""
    limit = _end.get()
    if limit is not None and time.thread_time() > limit[0]:
        raise OutOfTimeError(limit[1])


__all__ = ["PROOF_SECONDS", "OutOfTimeError", "check", "within"]
