"""Guesses which store in shared memory each load sees, where loads steer: from runs of agents one by one.

What a load finds is guessed to be what the store of the same number has left there. Not trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncverify.checker.induction.words import Span, Stored, found
from syncverify.model.events import Ev

#: Stores of one agent to bytes that steer, and rounds in which more of them are found.
MOST_STORES, MOST_ROUNDS = 16, 6
#: One load or store: its spans, and what a store wrote, if a number.
Access = tuple[Ev, tuple[tuple[Span, int | None], ...]]


def stored(number: int) -> int:
    """The version of the stores of a number; what is read behind these has the next."""
    return 2 * number + 2


@dataclass(slots=True)
class Listener:
    """Takes note of all that one agent loads and stores, as ``words.Held`` does of some bytes."""

    words: tuple[Stored, ...] = ()
    at: int = 0
    seen: list[tuple[Ev, Span, int | None]] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    loads: int = 0

    def load(self, memory: int, first: int, size: int) -> int | None:
        span = (memory, first, size)
        self.seen.append((Ev.READ, span, None))
        return found(self.words, stored(self.loads) + 1, span)

    def store(self, memory: int, first: int, size: int, value: Any) -> None:
        self.seen.append((Ev.WRITE, (memory, first, size), value if type(value) is int else None))

    def begin(self, at: int) -> None:
        self.at = at
        self.seen.clear()

    def note(self) -> None:
        """Behind a stretch of code that accessed shared memory."""
        kind = self.seen[0][0]
        self.accesses.append((kind, tuple(dict.fromkeys((s, x) for _, s, x in self.seen))))
        mine = {s for k, some in self.accesses if k is Ev.READ for s, _ in some}
        self.loads += kind is Ev.READ and any(s in mine and self._listed(s) for _, s, _ in self.seen)

    def _listed(self, span: Span) -> bool:
        return touching(self.words, span)


def touching(words: Iterable[Stored], span: Span) -> bool:
    return any(
        w.memory == span[0] and w.first < span[1] + span[2] and span[1] < w.first + w.size for w in words
    )


def listed(runs: Sequence[Sequence[Access]]) -> tuple[Stored, ...]:
    """What stores write to bytes that some agent loads; nothing where that is not the same for all agents."""
    loads = {s for run in runs for kind, some in run if kind is Ev.READ for s, _ in some}
    read = tuple(Stored(0, *s, 0) for s in loads)
    orders = []
    for run in runs:
        stores = [some for kind, some in run if kind is Ev.WRITE and any(touching(read, s) for s, _ in some)]
        if stores:
            orders.append(tuple(tuple((s, x) for s, x in some if touching(read, s)) for some in stores))
    longest = max(orders, key=len, default=())
    if len(longest) > MOST_STORES or any(x is None for some in longest for _, x in some):
        return ()
    return tuple(Stored(stored(k), *s, x or 0) for k, some in enumerate(longest) for s, x in some)


def versions(run: Sequence[Access], words: tuple[Stored, ...]) -> tuple[int, ...]:
    """The versions of an agent's accesses to the listed bytes."""
    count = {Ev.READ: 0, Ev.WRITE: 0}
    out = []
    for kind, some in run:
        if any(touching(words, s) for s, _ in some):
            out.append(stored(count[kind]) + (kind is Ev.READ))
            count[kind] += 1
    return tuple(out)


__all__ = ["Access", "Listener", "listed", "versions"]
