"""One run to its end, with answers at random, before all others: where lanes part there, all begins anew, and
soon. The runs that are followed first go on in loops for long. Nothing else is told from it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from syncverify.checker.engine import Thread
from syncverify.checker.explore.explorer import Explorer, Failed
from syncverify.checker.explore.rotations import Unequal
from syncverify.checker.explore.settle import Found, KnowsTooLittle, Requested, Slots
from syncverify.checker.explore.states import State
from syncverify.model.inequalities import negated
from syncverify.model.terms import Open, Symbolic

#: Answers after which the run is given up.
MOST = 60


def probe(e: Explorer) -> None:
    """Follows one run of what is to be explored. Raises LaneSplit, ColumnsExhausted, Unmodelled."""
    Probe(
        system=e.system, space=e.space, roots=e.roots, policy=e.policy, limits=e.limits, slack=e.slack
    ).run()


@dataclass(slots=True, kw_only=True)
class Probe(Explorer):
    """The same system, of which one run is followed."""

    random: Random = field(default_factory=lambda: Random(1))
    answers: int = 0
    next: State | None = None

    def run(self) -> None:
        path, forgotten = self.space.path, set(self.space.forgotten)
        self.next = self.start(self.roots[0])
        try:
            with suppress(Symbolic, Unequal, Found, Slots, KnowsTooLittle, Requested):
                while self.next is not None and self.answers < MOST:
                    state, self.next = self.next, None
                    self.follow(state)
        finally:
            self.space.path, self.space.forgotten = path, forgotten

    def settle(self, state: State, t: Thread, o: Open) -> bool:
        self.answers += 1
        sums = [(o.c, o.parts), (-o.c - 1, negated(o.parts))]
        self.random.shuffle(sums)
        for c, parts in sums:
            path = self.space.path = state.path.fork()
            path.answer(c, parts)
            if not path.dead:
                break
        state.path = path
        state.flush()
        state.asked_after = None if state.asked_after is None else {}
        self.next = state
        return False

    def end(self, state: State) -> Failed | None:
        return None


__all__ = ["probe"]
