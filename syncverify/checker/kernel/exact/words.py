"""Words of global memory by which blocks signal: what was written to one, who waited, and by what waits end.

A word is 0 at launch. It is judged if it only grows, by atomic additions, or is stored to once. A wait for it
then ends by the same signals in every execution: by those without any one of which its condition is false,
whatever else may come first (docs/certificates.md).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

from syncverify.checker.kernel.exact.knowledge import Knowledge, VectorClock

#: The largest number that a word may hold: up to it, numbers with and without a sign compare alike.
LARGEST = (1 << 31) - 1
#: The conditions of waits.
COMPARE = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
#: Those that stay true where a word grows.
UPWARDS = (">=", ">")


@dataclass(frozen=True, slots=True)
class Signal:
    """A write of a word. ``amount``: what its lanes add together, or what the one lane stores; ``past``: what
    had happened before it for each lane; ``given``: what it hands on.
    """

    cls: int
    time: int
    amount: int
    lanes: int
    adds: bool
    past: VectorClock
    given: Knowledge

    def after(self, cls: int, time: int) -> bool:
        """Whether it comes after an event of a class in every execution."""
        return self.past.get(("t", cls)) >= time


@dataclass(frozen=True, slots=True)
class WordWait:
    """A wait that has passed. ``seen``: so many signals it was joined with, the first ones of the word."""

    cls: int
    time: int
    compare: str
    value: int
    seen: int


@dataclass(slots=True)
class Word:
    """A word and its history."""

    signals: list[Signal] = field(default_factory=list)
    waits: list[WordWait] = field(default_factory=list)

    def copy(self) -> Word:
        return Word(list(self.signals), list(self.waits))

    def seen(self, compare: str, value: int) -> int | None:
        """After how many signals a condition is true, 0 of what is there at launch; None: it is not yet."""
        held, holds = 0, COMPARE[compare]
        for n, s in enumerate((None, *self.signals)):
            if s is not None:
                held = held + s.amount if s.adds else s.amount
            if holds(held, value):
                return n
        return None

    def undecided(self) -> str:
        """What of its history may be otherwise in another execution; nothing: it is the same in all."""
        adds = [s for s in self.signals if s.adds]
        if len(adds) < len(self.signals) and len(self.signals) > 1:
            return "a word that is stored to beside other signals"
        if any(s.amount < 0 for s in self.signals) or sum(s.amount for s in self.signals) > LARGEST:
            return "a word that does not only grow, or beyond its range"
        for w in self.waits:
            if adds and w.compare not in UPWARDS:
                return "a wait for a word that does not stay true where it grows"
            if any(not self.needs(w, s) for s in self.signals[: w.seen]):
                return "a wait for a word that several sets of signals may end"
        return ""

    def needs(self, wait: WordWait, signal: Signal) -> bool:
        """Whether a wait does not pass without each lane of a signal: its condition is false for all others
        together that may come before it without that.
        """
        others = sum(
            s.amount
            for s in self.signals
            if s is not signal and not s.after(signal.cls, signal.time) and not s.after(wait.cls, wait.time)
        )
        rest = signal.amount - signal.amount // signal.lanes
        return not COMPARE[wait.compare](others + rest if signal.adds else 0, wait.value)


__all__ = ["COMPARE", "LARGEST", "UPWARDS", "Signal", "Word", "WordWait"]
