"""Global memory by which blocks hand over: words that they signal by (``words.py``), and data behind these.

What is not of the plain kind that is judged raises NotJudgedError, and so does an order of data that is not
shown: nothing here rejects.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

from syncverify.base.certificate_data import RejectedError
from syncverify.checker.kernel.exact.hazards import NotJudgedError, Touch
from syncverify.checker.kernel.exact.knowledge import Knowledge
from syncverify.checker.kernel.exact.state import ReplayedAgent, State
from syncverify.checker.kernel.exact.words import COMPARE, Signal, Word, WordWait
from syncverify.model.events import GLOBAL_MEMORY, Flag
from syncverify.model.proxies import Access, Scope

#: What a signal may be marked with.
_SIGNALS = Flag.RELEASE | Flag.ACQUIRE | Flag.STRONG | Flag.RELAXED | Flag.RED


class GlobalMemory(State):
    """The rules of words of global memory, and of data that blocks hand over."""

    def touch_global(self, a: ReplayedAgent, kind: Access, number: int, **more: Any) -> Touch | None:
        """An access to data, judged; None for one that is not tracked."""
        if number < 0:
            return None
        fp = self.info.footprints[number]
        if fp.memory != GLOBAL_MEMORY or fp.slots or fp.word or fp.cover:
            raise NotJudgedError("an access to global memory at places of data")
        assert a.event is not None
        made = Touch(kind, a.lanes.cls, a.lanes.time, fp, a.event[1], used=-1, **more)
        if not kind.asynchronous:
            made.far = ("r", made.cls, GLOBAL_MEMORY)
            a.lanes.own.mark(made.far, made.time)
        self.data.update(fp.intervals)
        try:
            self.memory.access(a.lanes, made, partial(self.at, a), self.left)
        except RejectedError as e:
            raise NotJudgedError(f"hand-over through global memory: {e.what}") from e
        return made

    def word(self, number: int, scope: int) -> Word:
        """The word that all lanes of a class access, with a scope that has all blocks."""
        if number < 0 or scope < Scope.GPU:
            raise NotJudgedError("synchronization through global memory that is not tracked, or of a block")
        fp = self.info.footprints[number]
        if fp.memory != GLOBAL_MEMORY or len(fp.intervals) != 1:
            raise NotJudgedError("a wait for a word of shared memory, or signals to several words")
        (place,) = fp.intervals
        if fp.slots or fp.word or fp.cover or any((lo, hi) != place for lo, hi, _ in fp.lanes):
            raise NotJudgedError("signals to words that data selects")
        return self.words.setdefault(place, Word())

    def signal(self, a: ReplayedAgent, word: Word, flags: int, value: Any, *, adds: bool) -> None:
        """A write of a word: it hands on what its release, or the fence before it, does (A5)."""
        lanes = a.info.count
        if flags & ~_SIGNALS or not flags & (Flag.STRONG | Flag.RELEASE) or not isinstance(value, int):
            raise NotJudgedError("a write of a word of global memory that is no plain signal")
        if lanes > 1 and not adds:
            raise NotJudgedError("a store to a word of global memory by several lanes")
        known = a.lanes.handed()
        given = Knowledge(happened=known.happened)
        if flags & Flag.RELEASE:
            given.visible.join(known.visible)
        elif a.released is not None and a.scope >= Scope.GPU:
            given.visible.join(a.released.visible)
        past = a.lanes.joined.happened.copy()
        word.signals.append(Signal(a.lanes.cls, a.lanes.time, value * lanes, lanes, adds, past, given))

    def on_global_read(self, a: ReplayedAgent, fp: int, flags: int, *_: Any) -> bool:
        if flags:
            raise NotJudgedError("a strong load of global memory whose value may be used")
        self.touch_global(a, Access.GENERIC_READ, fp)
        return True

    def on_global_write(self, a: ReplayedAgent, fp: int, flags: int, scope: int, value: Any) -> bool:
        if flags:
            self.signal(a, self.word(fp, scope), flags, value, adds=False)
        else:
            self.touch_global(a, Access.GENERIC_WRITE, fp)
        return True

    def on_global_atomic(self, a: ReplayedAgent, fp: int, flags: int, scope: int, *what: Any) -> bool:
        op, value = what
        if flags:
            if op != "add":
                raise NotJudgedError("an atomic access to global memory that adds nothing")
            self.signal(a, self.word(fp, scope), flags, value, adds=True)
        elif fp >= 0:
            raise NotJudgedError("a weak atomic access to global memory")
        return True

    def on_spin(self, a: ReplayedAgent, fp: int, flags: int, scope: int, *condition: Any) -> bool:
        """A wait for a word: it acquires what the signals hand on that it needs."""
        compare, value = condition
        word = self.word(fp, scope)
        if not flags & Flag.ACQUIRE or flags & (Flag.TAKE | Flag.ONCE) or not isinstance(value, int):
            raise NotJudgedError("a wait for a word of global memory that acquires nothing, or takes a lock")
        if compare not in COMPARE:
            raise NotJudgedError("a wait for a word of global memory by another comparison")
        seen = word.seen(compare, value)
        if seen is None:
            return False
        if seen == 0:
            raise NotJudgedError("a wait for a word of global memory that holds at launch")
        block = a.info.cta // self.info.ctas
        for s in word.signals[:seen]:
            later = self.info.classes[s.cls].cta // self.info.ctas > block
            if later and not self.info.cooperative:
                raise NotJudgedError("a block that waits for a later one, which may not run")
            a.lanes.joined.join(s.given)
        word.waits.append(WordWait(a.lanes.cls, a.lanes.time, compare, value, seen))
        return True

    def decided(self) -> None:
        """What only the end of a run shows: waits end by the same signals in every execution, and nothing
        else touches the bytes of a word.
        """
        places = sorted(self.words)
        if any(first[1] > second[0] for first, second in pairwise(places)):
            raise NotJudgedError("words of global memory that overlap")
        if any(lo < end and begin < hi for begin, end in places for lo, hi in self.data):
            raise NotJudgedError("a word of global memory that is accessed as data")
        for word in self.words.values():
            if why := word.undecided():
                raise NotJudgedError(why)


__all__ = ["GlobalMemory"]
