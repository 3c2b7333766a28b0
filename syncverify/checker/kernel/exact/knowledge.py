"""What a class of lanes knows of the others in one run, for the judge of certificates.

A mark is a named counter that only grows: ``("t", class)`` the events of a class, ``("b", barrier, life)``
the completed phases of an mbarrier, ``("g", kind, owner)`` the asynchronous operations whose group is
complete, ``("n", ...)`` generations of execution barriers. Knowledge maps marks to how far they are known.
"""

from __future__ import annotations

from collections.abc import ItemsView, Mapping
from dataclasses import dataclass, field
from typing import Any

Epoch = tuple[Any, ...]
#: So many marks beyond what is shared are not worth sharing.
FEW = 16


class VectorClock:
    """How far marks are known. ``shared`` may be of several rows, and never changes; ``beyond`` are the marks
    that are known further than there. Rows that share the same are joined by the rest alone.
    """

    __slots__ = ("beyond", "shared")

    def __init__(self, shared: Mapping[Epoch, int] = {}, beyond: Mapping[Epoch, int] = {}) -> None:
        self.shared = shared
        self.beyond = dict(beyond)

    def get(self, mark: Epoch, default: int = 0) -> int:
        value = self.beyond.get(mark)
        return self.shared.get(mark, default) if value is None else value

    def items(self) -> ItemsView[Epoch, int]:
        return {**self.shared, **self.beyond}.items()

    def advance_to(self, mark: Epoch, value: int) -> None:
        """The mark is known to be at ``value`` at least."""
        if value > self.get(mark):
            self.beyond[mark] = value

    def join(self, other: VectorClock) -> None:
        """Everything known there is known here too."""
        more: ItemsView[Epoch, int] = other.beyond.items()
        if other.shared is not self.shared:
            if len(other.shared) >= len(self.shared):
                known, own = other.shared.get, (*self.shared.items(), *self.beyond.items())
                self.shared = other.shared
                self.beyond = {mark: value for mark, value in own if value > known(mark, 0)}
            else:
                more = other.items()
        elif not self.beyond:
            self.beyond.update(more)
            return
        beyond, further, shared = self.beyond, self.beyond.get, self.shared.get
        for mark, value in more:
            if value > (further(mark) or shared(mark, 0)):
                beyond[mark] = value

    def share(self) -> None:
        """Makes what is known the part that other rows can share, unless little is new."""
        if len(self.beyond) > max(FEW, len(self.shared) // 2):
            self.shared, self.beyond = dict(self.items()), {}

    def copy(self) -> VectorClock:
        return VectorClock(self.shared, self.beyond)


@dataclass(slots=True)
class Knowledge:
    """Three relations of docs/theory.md: ``happened`` (enablement), ``visible`` (H), ``bridged`` (A)."""

    happened: VectorClock = field(default_factory=VectorClock)
    visible: VectorClock = field(default_factory=VectorClock)
    bridged: VectorClock = field(default_factory=VectorClock)

    def join(self, other: Knowledge) -> None:
        self.happened.join(other.happened)
        self.visible.join(other.visible)
        self.bridged.join(other.bridged)

    def mark(self, mark: Epoch, value: int) -> None:
        """A counter reached a value, visibly."""
        self.happened.advance_to(mark, value)
        self.visible.advance_to(mark, value)

    def share(self) -> None:
        """What many classes are about to be handed is shared by their rows."""
        for row in (self.happened, self.visible, self.bridged):
            row.share()

    def copy(self) -> Knowledge:
        return Knowledge(self.happened.copy(), self.visible.copy(), self.bridged.copy())


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
        into.join(self.joined.happened)
        if not self.alone:
            into.join(self.own.happened)
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
