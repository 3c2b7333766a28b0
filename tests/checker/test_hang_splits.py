"""Lanes that part only behind a hang, in a class that the run itself has made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Verdict
from syncverify.checker.exact_check import check
from syncverify.model.events import Ev, Event, LaneSplit
from tests.fixtures.events import ListAgent, ListSystem, system


class PartingAgent(ListAgent):
    """Lane 0 parts from the others at once, and these from each other behind their wait."""

    __slots__ = ("lanes",)

    def step(self, answer: int = 0) -> Event:
        low = self.lanes & -self.lanes
        parts = self._pc == 0 if self.lanes & 1 else self._events[self._pc - 1][0] == Ev.WAIT
        if self.lanes != low and parts:
            raise LaneSplit(self.cls, (low, self.lanes & ~low))
        return super().step(answer)


@dataclass
class PartingSystem(ListSystem):
    """A launch of such agents."""

    def agents(self) -> Sequence[PartingAgent]:
        agents = []
        for i, events in enumerate(self.lists):
            agents.append(PartingAgent(i, events))
            agents[-1].lanes = self.info.classes[i].lanes
        return agents

    def refined(self, split: LaneSplit) -> PartingSystem:
        finer = super().refined(split)
        return PartingSystem(finer.info, finer.lists, finer.locations)


def test_a_split_behind_a_hang_is_of_the_run_that_hangs() -> None:
    """The run begins with one class. Its second one parts after it was let through the wait."""
    plain = system("w(b,0) ld(x)")
    plain.info.classes = [replace(plain.info.classes[0], lanes=7)]
    parting = PartingSystem(plain.info, plain.lists, plain.locations)
    outcome = check(parting)
    assert outcome.verdict is Verdict.REFUTED
    assert outcome.diagnostics[0].rule == check(plain).diagnostics[0].rule
