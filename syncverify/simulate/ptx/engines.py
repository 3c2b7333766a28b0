"""Asynchronous operations: they go on in pieces, in any order, at any time until someone waits for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.clocks import HAPPENS_BEFORE, OF_ANY_SCOPE, ROWS, Clock, Stamp
from syncverify.simulate.ptx.harm import Place

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Block

Piece = Callable[[], None]


@dataclass(eq=False)
class Operation:
    """``stages`` are executed one after the other, the pieces of each in any order.

    ``ends`` holds what happens at the end of each stage (completion of reads, of writes).
    """

    machine: Machine
    name: str
    where: Place
    stages: list[list[Piece]]
    ends: list[Piece]
    stage: int = 0
    stamps: list[Stamp] = field(default_factory=list)  # of its reads, of its writes
    home: Block | None = None  # the block whose shared memory it writes

    @property
    def line(self) -> int:
        return self.where.line

    @property
    def finished(self) -> bool:
        return self.stage >= len(self.stages)

    def start(self) -> None:
        self.machine.engines.append(self)

    def step(self) -> None:
        """One piece, chosen by the machine's draw."""
        if self.finished:
            return
        pieces = self.stages[self.stage]
        if pieces:
            n = int(self.machine.draw.integers(len(pieces))) if len(pieces) > 1 else 0
            pieces.pop(n)()
        if not pieces:
            self.ends[self.stage]()
            self.stage += 1
            if self.finished:
                self.machine.engines.remove(self)

    def run_stage(self, last: int) -> None:
        """Executes up to the end of a stage."""
        while self.stage <= last and not self.finished:
            self.step()

    def run_all(self) -> None:
        self.run_stage(len(self.stages) - 1)


def nothing() -> None:
    """The end of a stage that nobody waits for."""


def chunks(n: int, machine: Machine) -> list[slice]:
    """A range of n in one to four runs."""
    if n < 2:
        return [slice(0, n)]
    count = int(machine.draw.integers(1, min(4, n) + 1))
    cuts = sorted({0, n, *(int(x) for x in machine.draw.integers(1, n, count - 1))})
    return [slice(a, b) for a, b in pairwise(cuts)]


def only(stamp: Stamp) -> Clock:
    """A clock that knows of one operation's completion."""
    agent, epoch = stamp
    clock = np.zeros((ROWS, agent + 1), np.int32)
    clock[[HAPPENS_BEFORE, OF_ANY_SCOPE], agent] = epoch
    return clock
