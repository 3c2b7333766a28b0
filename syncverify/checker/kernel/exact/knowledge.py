"""What a class of lanes knows of the others in one run, for the judge of certificates.

A mark is a named counter that only grows: ``("t", class)`` the events of a class, ``("b", barrier, life)``
the completed phases of an mbarrier, ``("g", kind, owner)`` the asynchronous operations whose group is
complete, ``("n", ...)`` generations of execution barriers. Knowledge maps marks to how far they are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Epoch = tuple[Any, ...]
VectorClock = dict[Epoch, int]


def advance_to(row: VectorClock, mark: Epoch, value: int) -> None:
    """The mark is known to be at ``value`` at least."""
    if value > row.get(mark, 0):
        row[mark] = value


def join(into: VectorClock, other: VectorClock) -> None:
    """Everything known there is known here too."""
    if not into:
        into.update(other)
        return
    known = into.get
    for mark, value in other.items():
        if value > known(mark, 0):
            into[mark] = value


@dataclass(slots=True)
class Knowledge:
    """Three relations of docs/theory.md: ``happened`` (enablement), ``visible`` (H), ``bridged`` (A)."""

    happened: VectorClock = field(default_factory=dict)
    visible: VectorClock = field(default_factory=dict)
    bridged: VectorClock = field(default_factory=dict)

    def join(self, other: Knowledge) -> None:
        join(self.happened, other.happened)
        join(self.visible, other.visible)
        join(self.bridged, other.bridged)

    def mark(self, mark: Epoch, value: int) -> None:
        """A counter reached a value, visibly."""
        advance_to(self.happened, mark, value)
        advance_to(self.visible, mark, value)

    def copy(self) -> Knowledge:
        return Knowledge(dict(self.happened), dict(self.visible), dict(self.bridged))


class LaneClass:
    """The knowledge of one class. ``joined`` came through synchronization; ``own`` is each lane's progress,
    of which its sibling lanes know nothing: for a class of one lane there is no difference."""

    __slots__ = ("alone", "cls", "joined", "own", "time")

    def __init__(self, cls: int, lanes: int) -> None:
        self.cls = cls
        self.alone = lanes == 1
        self.joined = Knowledge()
        self.own = self.joined if self.alone else Knowledge()
        self.time = 0

    def advance(self) -> None:
        """The class comes to its next event."""
        self.time += 1
        self.own.mark(("t", self.cls), self.time)

    def hand(self, into: Knowledge) -> None:
        """What they release hands on all that the lanes know together."""
        into.join(self.joined)
        if not self.alone:
            into.join(self.own)

    def handed(self) -> Knowledge:
        """All that the lanes know together."""
        found = Knowledge()
        self.hand(found)
        return found

    def hand_happened(self, into: VectorClock) -> VectorClock:
        """The same of what happened alone; the row into which it went."""
        join(into, self.joined.happened)
        if not self.alone:
            join(into, self.own.happened)
        return into

    def happened(self, mark: Epoch, same_lane: bool = False) -> int:
        found = self.joined.happened.get(mark, 0)
        return max(found, self.own.happened.get(mark, 0)) if same_lane else found

    def visible(self, mark: Epoch, same_lane: bool = False) -> int:
        found = self.joined.visible.get(mark, 0)
        return max(found, self.own.visible.get(mark, 0)) if same_lane else found

    def bridged(self, mark: Epoch, same_lane: bool = False) -> int:
        found = self.joined.bridged.get(mark, 0)
        return max(found, self.own.bridged.get(mark, 0)) if same_lane else found

    def gather(self) -> None:
        """All lanes of the class have met: what each did is known to each."""
        if not self.alone:
            self.joined.join(self.own)
