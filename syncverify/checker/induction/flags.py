"""Words of global memory by which blocks hand on: each is an mbarrier of one phase. TRUSTED.

Adds of a word are its arrivals, and a thread that spins until the word is at least the number of all of
them waits for its phase. The kernel counts the adds, so that no later phase is ever begun. Example: three
blocks that each add 1, and a fourth that spins until the word is 3. The one who waits may store 0 for the
next launch: whoever adds has done so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from syncverify.checker.induction.stepping import NotReadError
from syncverify.model.events import GLOBAL_MEMORY, Ev, Event, Flag, SystemInfo, ThreadClass
from syncverify.model.proxies import Scope

#: Bytes of a word that can be added to at once.
_WORD = 8
Bytes = tuple[int, int]


@dataclass(slots=True)
class Flags:
    """``counts``: what is waited for, by the bytes of a word. ``waiting``: how many of which class wait."""

    info: SystemInfo
    counts: dict[Bytes, int] = field(default_factory=dict)
    waiting: dict[Bytes, list[tuple[ThreadClass, Any]]] = field(default_factory=dict)
    adding: dict[Bytes, list[ThreadClass]] = field(default_factory=dict)
    passed: list[tuple[Bytes, ThreadClass]] = field(default_factory=list)

    def word(self, fp: int) -> Bytes | None:
        """The word that an access is to; None where it touches none."""
        f = self.info.footprints[fp]
        near = [w for w in self.counts if any(lo < w[1] and w[0] < hi for lo, hi in f.intervals)]
        if f.memory != GLOBAL_MEMORY or not near:
            return None
        if f.intervals != (near[0],):
            raise NotReadError("a word that blocks wait for, and other accesses to its bytes")
        return near[0]

    def spins(self, c: ThreadClass, e: Event, guards: Any, where: str) -> None:
        """Takes note of a wait."""
        _, _, fp, _, scope, compared, value = e
        found = self.info.footprints[fp] if fp >= 0 else None
        if found is None or found.memory != GLOBAL_MEMORY or len(found.intervals) != 1:
            raise NotReadError("a wait for an unknown word of global memory")
        (word,) = found.intervals
        if word[1] - word[0] > _WORD or c.count != 1 or where != "straight" or scope < Scope.GPU:
            raise NotReadError(
                "a wait for a word of global memory in a loop, by several lanes, or of no gpu scope"
            )
        if (compared, value) == ("!=", 0):
            compared, value = ">=", 1  # it begins as 0, and what is added is positive
        if compared not in (">=", "==") or type(value) is not int or value < 1:
            raise NotReadError("a wait for a word of global memory to be anything but a number at least")
        if self.counts.setdefault(word, value) != value:
            raise NotReadError("a word of global memory that is waited for with different numbers")
        self.waiting.setdefault(word, []).append((c, guards))

    def adds(self, c: ThreadClass, e: Event, where: str) -> tuple[Bytes, int, bool]:
        """The word of an addition, how much it is, and whether it releases."""
        _, _, fp, flags, scope, op, value, *_ = e
        word = self.word(fp) if fp >= 0 else None
        if word is None or op != "add" or type(value) is not int or value < 1:
            raise NotReadError("an atomic access to global memory that is no arrival")
        if where != "straight" or c.count != 1 or scope < Scope.GPU:
            raise NotReadError(
                "an arrival at a word of global memory in a loop, by several lanes, or of no gpu scope"
            )
        self.adding.setdefault(word, []).append(c)
        return word, value, bool(flags & Flag.RELEASE)

    def passes(self, c: ThreadClass, e: Event) -> Bytes:
        """The word of a wait, in the order of the text."""
        word = self.word(e[2])
        assert word is not None
        self.passed.append((word, c))
        return word

    def ends(self, c: ThreadClass, e: Event, guards: Any) -> None:
        """A store to a word: 0, by the only one who waits for it, behind its wait."""
        word = self.word(e[2])
        assert word is not None
        only = self.waiting[word] == [(c, guards)] and (word, c) in self.passed
        if len(e) < 6 or e[5] != 0 or not only:
            raise NotReadError("a store to a word of global memory that blocks wait for")

    def in_order(self) -> None:
        """Nobody waits for a block that begins later: it may begin when this one has left."""
        for word, some in self.waiting.items():
            last = max((c.cta // self.info.ctas for c in self.adding.get(word, ())), default=0)
            if not self.info.cooperative and any(c.cta // self.info.ctas < last for c, _ in some):
                raise NotReadError("a block waits for one that may begin later")


def collected(info: SystemInfo, met: Iterable[tuple[ThreadClass, Event, Any, str]]) -> Flags:
    """The words that are waited for; each event with its class, guards, and what it stands in."""
    found = Flags(info)
    for c, e, guards, where in met:
        if e[0] == Ev.SPIN:
            found.spins(c, e, guards, where)
    return found


__all__ = ["Flags", "collected"]
