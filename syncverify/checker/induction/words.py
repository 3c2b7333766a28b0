"""Words of shared memory that steer: a claim says which store each read of them sees. TRUSTED.

A claim gives every access to such bytes a *version*, and lists what the stores of each version write. A read
of version ``v`` finds in each byte what the last version below ``v`` has stored there. The kernel shows that
accesses come in the order of their versions. ``Steered`` shows that all stores are as listed, and executed.
Example: a byte that the first warps set to 0 (version 2) and to 1 (version 4), and that others read in
between (version 3) and at the end (version 5), to branch on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncverify.checker.induction.refusal import NotReadError
from syncverify.model.events import Ev, Event

Byte = tuple[int, int]  # its memory, its place there
Span = tuple[int, int, int]  # memory, first byte, number of bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """What the stores of a version write to some bytes."""

    version: int
    memory: int
    first: int
    size: int
    value: int

    def has(self, memory: int, at: int) -> bool:
        return memory == self.memory and self.first <= at < self.first + self.size


@dataclass(frozen=True, slots=True)
class Version:
    """Stands behind an event's operands: the version of its access, and the bytes whose values were asked."""

    number: int
    spans: frozenset[Span]


def found(words: Sequence[Stored], version: int, span: Span) -> int | None:
    """What a read of a version finds; None where nothing is listed for some byte."""
    memory, first, size = span
    total = 0
    for at in range(first, first + size):
        before = [w for w in words if w.version < version and w.has(memory, at)]
        if not before:
            return None
        last = max(before, key=lambda w: w.version)
        total |= (last.value >> 8 * (at - last.first) & 0xFF) << 8 * (at - first)
    return total


@dataclass(slots=True)
class Held:
    """Shared memory as an agent sees it by a claim. ``versions``: of its accesses to the listed bytes, in
    turn. ``at``: how many there were before the present stretch of code, whose accesses are in ``seen``.
    """

    words: tuple[Stored, ...]
    versions: tuple[int, ...]
    at: int = 0
    seen: list[tuple[Ev, Span, Any]] = field(default_factory=list)

    def load(self, memory: int, first: int, size: int) -> int | None:
        """What a load brings; None: that is not known."""
        span = (memory, first, size)
        if not self.lists(span):
            return None
        value = found(self.words, self.versions[self.at], span) if self.at < len(self.versions) else None
        self.seen.append((Ev.READ, span, value))
        return value

    def store(self, memory: int, first: int, size: int, value: Any) -> None:
        span = (memory, first, size)
        if self.lists(span):
            self.seen.append((Ev.WRITE, span, value))

    def lists(self, span: Span) -> bool:
        return any(w.has(span[0], at) for w in self.words for at in range(span[1], span[1] + span[2]))

    def begin(self, at: int) -> None:
        """Before a stretch of code."""
        self.at = at
        self.seen.clear()

    def attributed(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """The events, the last with a version, where the stretch of code behind it accessed the words."""
        if not self.seen:
            return events
        kinds = {kind for kind, _, _ in self.seen}
        if not events or kinds != {events[-1][0]} or isinstance(events[-1][-1], Version):
            raise NotReadError("a word in shared memory that steers, and no load or store of it alone")
        if self.at >= len(self.versions):
            raise NotReadError("a word in shared memory steers, of which too little is claimed")
        version = self.versions[self.at]
        for kind, span, value in self.seen:
            right = Stored(version, *span, value) in self.words if type(value) is int else False
            if kind is Ev.WRITE and not right:
                raise NotReadError("a word in shared memory that steers is stored as another number")
        return (*events[:-1], (*events[-1], Version(version, frozenset(s for _, s, _ in self.seen))))


def version_of(events: Iterable[Event]) -> Version | None:
    """The version of an access, the same in all its turns."""
    versions = {e[-1] if isinstance(e[-1], Version) else None for e in events}
    if len(versions) != 1:
        raise NotReadError("a word in shared memory that steers is accessed in some turns alone")
    return versions.pop()


@dataclass(slots=True)
class Steered:
    """The accesses to the words of one kernel. ``sites``: by version, of its stores; ``sure``: the listed
    stores that are made in straight code under no condition.
    """

    words: tuple[Stored, ...]
    sites: dict[int, int] = field(default_factory=dict)
    sure: set[Stored] = field(default_factory=set)
    reads: set[int] = field(default_factory=set)

    def write(self, touched: Iterable[Byte], version: Version | None, site: int, *, always: bool) -> None:
        """Takes note of a store; NotReadError where it might write something else than is listed."""
        asked = self.asked(touched, version)
        if {b for b in touched if any(w.has(*b) for w in self.words)} - asked:
            raise NotReadError("a word in shared memory that steers is stored as no known number")
        if version is None:
            return
        if self.sites.setdefault(version.number, site) != site:
            raise NotReadError("two stores of one version")
        if always:
            mine = [w for w in self.words if w.version == version.number]
            self.sure |= {w for w in mine if (w.memory, w.first, w.size) in version.spans}

    def read(self, touched: Iterable[Byte], version: Version | None) -> None:
        """Takes note of a read."""
        self.asked(touched, version)
        if version is not None:
            self.reads.add(version.number)

    def asked(self, touched: Iterable[Byte], version: Version | None) -> set[Byte]:
        """The bytes whose values were asked for, or told: some of those that are accessed."""
        spans = () if version is None else version.spans
        found = {(m, at) for m, first, size in spans for at in range(first, first + size)}
        if not found <= set(touched):
            raise NotReadError("a word in shared memory is asked for beside its access")
        return found

    def check(self) -> None:
        """Accepts the list: every store in it is made, and no version is both stored and read."""
        if set(self.words) - self.sure or self.reads & {w.version for w in self.words}:
            raise NotReadError("a word in shared memory that steers may not be stored")
        every = [(w.version, w.memory, w.first + i) for w in self.words for i in range(w.size)]
        if len(set(every)) < len(every):
            raise NotReadError("two numbers of one word in shared memory")


__all__ = ["Held", "Steered", "Stored", "Version", "found", "version_of"]
