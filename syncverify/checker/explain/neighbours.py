"""What the same threads do right before and right behind each place of the source.

An operation that is to be added has two neighbours: it comes behind the one and before the other. Worked
example. A commit lacks behind the copy of line 203, and its threads copy on in line 210: the repair shows
both lines, so that its author sees where it may stand. Neighbours only help to read a repair.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from syncverify.base.source import Span
from syncverify.checker.explain.edits import (
    Announce,
    CommitStores,
    Insert,
    InsertOperation,
    Release,
    WaitBefore,
    WaitForFree,
    WaitReads,
)
from syncverify.checker.explain.exchanges import MeetAsElsewhere, WaitInTurn, WaitOnce
from syncverify.checker.explain.redundancy import MEETINGS, Change
from syncverify.model.events import ThreadClass

_FROM = "the fix may stand anywhere behind this statement of the same threads"
_TO = "the fix may stand anywhere before this statement of the same threads"
#: Changes that always add something ahead of their place.
_AHEAD = (WaitBefore, WaitForFree, WaitInTurn, WaitOnce, Announce)
_Places = dict[Span, set[Span]]


@dataclass(slots=True)
class Neighbours:
    """By place, the places that some thread comes from and goes to next.

    ``meeting``: where it meets others next. ``codes``: the kinds of events at a place.
    """

    before: _Places = field(default_factory=dict)
    behind: _Places = field(default_factory=dict)
    meeting: _Places = field(default_factory=dict)
    codes: dict[Span, set[int]] = field(default_factory=dict)
    _last: dict[ThreadClass, Span] = field(default_factory=dict)
    _open: dict[ThreadClass, set[Span]] = field(default_factory=dict)

    def note(self, code: int, span: Span, cls: ThreadClass) -> None:
        """One event of a thread."""
        self.codes.setdefault(span, set()).add(code)
        last = self._last.get(cls)
        if last is not None and last != span:
            self.behind.setdefault(last, set()).add(span)
            self.before.setdefault(span, set()).add(last)
        self._last[cls] = span
        waiting = self._open.setdefault(cls, set())
        if code in MEETINGS:
            for place in waiting - {span}:
                self.meeting.setdefault(place, set()).add(span)
            waiting.clear()
        waiting.add(span)

    def have(self, places: Iterable[Span], code: int) -> list[Span]:
        """Those of some places with an event of a kind."""
        return [p for p in places if code in self.codes.get(p, ())]


def other_end(change: Change, place: Span, around: Neighbours) -> tuple[Span, str] | None:
    """The other neighbour of what a change adds at ``place``, and what to say of it, if it adds something."""
    match change:
        case Insert(ahead=True) | InsertOperation(ahead=True) | MeetAsElsewhere(ahead=True):
            found, said = _nearest(around.before.get(place, ()), place, above=True), _FROM
        case Insert() | WaitReads() | MeetAsElsewhere() | Release():
            found, said = _nearest(around.meeting.get(place, ()), place, above=False), _TO
        case InsertOperation() | CommitStores():
            found, said = _nearest(around.behind.get(place, ()), place, above=False), _TO
        case _ if isinstance(change, _AHEAD):
            found, said = _nearest(around.before.get(place, ()), place, above=True), _FROM
        case _:
            return None
    return None if found is None else (found, said)


def _nearest(places: Iterable[Span], place: Span, *, above: bool) -> Span | None:
    """The nearest place above or below in the same file; what a loop comes to from its other end last."""
    here = [p for p in places if p.file == place.file and p.line != place.line]
    turned = {p: (p.line < place.line) is not above for p in here}
    return min(here, key=lambda p: (turned[p], abs(p.line - place.line)), default=None)


__all__ = ["Neighbours", "other_end"]
