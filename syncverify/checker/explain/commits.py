"""Which commit, or which wait for the cluster, a run seems to lack: notes of what each thread does in turn.

Worked example. A loop copies four pieces and commits them, each time; once eight pieces form one group. Then
a commit seems to lack behind the fourth of these. Where two kinds of pieces are committed in turn, four and
two, and later six at once, one lacks behind the fourth of the six. Notes only choose what is tried first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from syncverify.base.source import Span
from syncverify.model.events import Ev, Event, ThreadClass

#: Operations that are waited for in groups, by the event that commits them; the commits, and their waits.
_OF_COMMIT: dict[int, int] = {
    Ev.CP_ASYNC: Ev.CP_COMMIT,
    Ev.WGMMA: Ev.WGMMA_COMMIT,
    Ev.BULK_STORE: Ev.BULK_COMMIT,
}
_COMMITS = frozenset(_OF_COMMIT.values())
_COMMIT_OF_WAIT: dict[int, int] = {
    Ev.CP_WAIT: Ev.CP_COMMIT,
    Ev.WGMMA_WAIT: Ev.WGMMA_COMMIT,
    Ev.BULK_WAIT: Ev.BULK_COMMIT,
}

_Spans = tuple[Span, ...]


@dataclass(slots=True)
class Commits:
    """Operations by the groups that commits make of them.

    ``groups``: by kind of commit. ``too_late``: operations whose commit comes behind the thread's next wait.
    ``in_turn``: the sizes of two groups of a thread that follow each other.
    """

    groups: dict[int, list[_Spans]] = field(default_factory=dict)
    too_late: dict[int, set[Span]] = field(default_factory=dict)
    waits_alone: set[Span] = field(default_factory=set)  # of cp.async, that follow a wait and no commit
    in_turn: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    _last: dict[tuple[ThreadClass, int], int] = field(default_factory=dict)
    _waited: set[ThreadClass] = field(default_factory=set)
    _open: dict[tuple[ThreadClass, int], _Spans] = field(default_factory=dict)

    def note(self, code: int, span: Span, cls: ThreadClass) -> None:
        """One event of a thread."""
        if code in _OF_COMMIT:
            key = (cls, _OF_COMMIT[code])
            self._open[key] = (*self._open.get(key, ()), span)
        elif code in _COMMITS:
            group = self._open.pop((cls, code), ())
            self.groups.setdefault(code, []).append(group)
            self.in_turn.setdefault(code, set()).add((self._last.get((cls, code), 0), len(group)))
            self._last[cls, code] = len(group)
        if code == Ev.CP_COMMIT:
            self._waited.discard(cls)
        elif code == Ev.CP_WAIT:
            if cls in self._waited:
                self.waits_alone.add(span)
            self._waited.add(cls)
        if code in _COMMIT_OF_WAIT:
            kind = _COMMIT_OF_WAIT[code]
            self.too_late.setdefault(kind, set()).update(self._open.get((cls, kind), ()))

    def lacking(self, kind: int) -> frozenset[Span]:
        """Operations behind which a commit of that kind seems to lack."""
        whole = [group for group in self.groups.get(kind, ()) if group]
        return frozenset((self._in_turn(kind, whole) or _merged(whole)) | self.too_late.get(kind, set()))

    def _in_turn(self, kind: int, whole: list[_Spans]) -> set[Span]:
        """The ends of first parts, of groups as large as two that followed each other."""
        return {
            group[first - 1]
            for first, second in self.in_turn.get(kind, ())
            for group in whole
            if first and second and first != second and first + second == len(group)
        }


def _merged(whole: list[_Spans]) -> set[Span]:
    """Where groups would end that are at least twice as large as most."""
    sizes = Counter(map(len, whole))
    usual = max(sizes, key=lambda size: (sizes[size], -size), default=0)
    return {group[usual - 1] for group in whole if len(group) >= 2 * usual}


@dataclass(slots=True)
class WgmmaEnds:
    """Where threads know that a wgmma of a place is complete.

    That is their first wait that leaves fewer groups pending than were committed since.
    """

    at: dict[Span, set[Span]] = field(default_factory=dict)
    _groups: dict[ThreadClass, list[set[Span]]] = field(default_factory=dict)  # the last one is open

    def note(self, event: Event, span: Span, cls: ThreadClass) -> None:
        """One event of a thread."""
        groups = self._groups.setdefault(cls, [set()])
        if event[0] == Ev.WGMMA:
            groups[-1].add(span)
        elif event[0] == Ev.WGMMA_COMMIT:
            groups.append(set())
        elif event[0] == Ev.WGMMA_WAIT:
            complete = max(len(groups) - 1 - event[2], 0)
            for place in set().union(*groups[:complete]):
                self.at.setdefault(place, set()).add(span)
            del groups[:complete]


@dataclass(slots=True)
class ClusterArrivals:
    """Arrivals at the cluster's barrier. ``unwaited``: those that the thread's next one follows at once."""

    unwaited: set[Span] = field(default_factory=set)
    _open: dict[ThreadClass, Span] = field(default_factory=dict)

    def note(self, code: int, span: Span, cls: ThreadClass) -> None:
        """One event of a thread."""
        if code == Ev.CLUSTER_WAIT:
            self._open.pop(cls, None)
        elif code == Ev.CLUSTER_ARRIVE:
            if cls in self._open:
                self.unwaited.add(self._open[cls])
            self._open[cls] = span


__all__ = ["ClusterArrivals", "Commits", "WgmmaEnds"]
