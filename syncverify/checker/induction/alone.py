"""What each thread owes by itself: registers of the tensor core, and global memory before the grid before has
ended. TRUSTED.

Neither order between threads nor turns matter for these, so that they are followed along every way through
the text: each region has the sequences of such events on its ways, loops are gone through until nothing new
is found. Example: ``wgmma; commit; wait 0; read`` is right, ``wgmma; commit; wait 1; read`` is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Policy
from syncverify.checker.induction.read import LoopText, StraightText, Text, TilesText
from syncverify.checker.induction.stepping import NotReadError
from syncverify.model.events import MOVED, PLACED, TAKEN, Ev, Event

#: Groups behind a wgmma that are distinguished; no kernel leaves as many pending.
_OLDEST = 64


@dataclass(frozen=True, slots=True)
class State:
    """What holds at a place on every way there.

    ``flying``: by fragment of which a wgmma may be in flight, the fewest commits since. ``touched``: those
    that may have been accessed since the last wgmma.fence. ``fenced``: there was one. ``waited``: the grid
    before has ended.
    """

    flying: Mapping[int, int]
    touched: frozenset[int] = frozenset()
    fenced: bool = False
    waited: bool = False

    def joined(self, other: State) -> State:
        both = {**other.flying, **self.flying}
        return State(
            {f: min(s.flying[f] for s in (self, other) if f in s.flying) for f in both},
            self.touched | other.touched,
            self.fenced and other.fenced,
            self.waited and other.waited,
        )

    def product(self, *fragments: int) -> State:
        """A wgmma with these registers."""
        if not self.fenced or self.touched & {*fragments}:
            raise NotReadError("registers of a wgmma were touched since the last wgmma.fence")
        return replace(self, flying={**self.flying, **{f: 0 for f in fragments if f >= 0}})

    def committed(self) -> State:
        return replace(self, flying={f: min(k + 1, _OLDEST) for f, k in self.flying.items()})

    def drained(self, pending: int) -> State:
        """Groups are complete but for the newest ``pending``."""
        if pending >= _OLDEST:
            return self
        return replace(self, flying={f: k for f, k in self.flying.items() if k <= pending})

    def accessed(self, fragment: int) -> State:
        if fragment in self.flying:
            raise NotReadError("registers are accessed while a wgmma that owns them is in flight")
        return self.taken(fragment)

    def taken(self, fragment: int) -> State:
        return replace(self, touched=self.touched | {fragment})


@dataclass(frozen=True, slots=True)
class Alone:
    """The walk. ``waits``: accesses to global memory have to come after a wait for the grid before."""

    policy: Policy
    waits: bool

    def event(self, s: State, e: Event) -> State:
        match e[0]:
            case Ev.WGMMA_FENCE:
                return replace(s, fenced=True, touched=frozenset())
            case Ev.WGMMA:
                return s.product(e[1], e[3])
            case Ev.WGMMA_COMMIT:
                return s.committed()
            case Ev.WGMMA_WAIT:
                return s.drained(e[1])
            case Ev.FRAG_READ | Ev.FRAG_WRITE:
                how = e[2] if len(e) > 2 else 0
                if how in (MOVED, PLACED) and self.policy is Policy.PRACTICAL:
                    return s  # practically, a copy into a register is none (K25)
                return s.taken(e[1]) if how in (PLACED, TAKEN) else s.accessed(e[1])
            case Ev.GRID_WAIT:
                return replace(s, waited=True)
        if self.waits and not s.waited:
            raise NotReadError("global memory is accessed before the grid before is known to have ended")
        return s

    def region(self, s: State, r: StraightText) -> State:
        ends = []
        for way in r.ways:
            end = s
            for e in way:
                end = self.event(end, e)
            ends.append(end)
        out = ends[0] if ends else s
        for end in ends[1:]:
            out = out.joined(end)
        return out

    def again(self, s: State, body: Sequence[StraightText | LoopText]) -> State:
        """Any number of times."""
        while True:
            end = s
            for part in body:
                end = (
                    self.region(end, part)
                    if isinstance(part, StraightText)
                    else self.again(end, (part.body,))
                )
            end = s.joined(end)
            if end == s:
                return s
            s = end

    def text(self, text: Text) -> None:
        """NotReadError where a thread may break an obligation of its own."""
        s = State({})
        for part in text:
            if isinstance(part, StraightText):
                s = self.region(s, part)
            else:
                s = self.again(s, part.body if isinstance(part, TilesText) else (part.body,))


def waits_for_grid(texts: Iterable[Text]) -> bool:
    """Whether some thread waits for the grid before."""
    return any(e[0] == Ev.GRID_WAIT for text in texts for r in regions(text) for way in r.ways for e in way)


def regions(text: Text) -> Iterable[StraightText]:
    """All straight code of a text."""
    for part in text:
        for x in part.body if isinstance(part, TilesText) else (part,):
            yield x if isinstance(x, StraightText) else x.body
