"""Who moves next. A schedule answers every question that a kernel may not rely on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from syncverify.simulate.ptx.engines import Operation
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment, Warp
    from syncverify.simulate.ptx.types import Lanes


class Schedule(Protocol):
    """``records``: whether the machine keeps a log of (agent, line) for each instruction.

    ``lateness``: the chance that a strong load reads an older value where it may (``older_values``).
    """

    records: bool
    lateness: float
    in_lane_order: bool
    stops_at_changes: bool

    def pick(self, m: Machine, able: list[Fragment], engines: list[Operation]) -> Fragment | Operation:
        """One of those that can move; at least one list is not empty."""

    def burst(self, m: Machine) -> int:
        """How many instructions it executes at most before the next choice."""

    def reconverges(self, m: Machine) -> bool:
        """Whether lanes that part now will wait for each other where their paths meet."""

    def parts(self, m: Machine, f: Fragment) -> Lanes | None:
        """The lanes that stay behind, if the fragment parts before its next instruction."""

    def answers_early(self, m: Machine) -> bool:
        """Whether a try_wait whose phase is not over answers at once."""

    def leader(self, m: Machine, warp: Warp, mask: int, lanes: Lanes) -> int:
        """The lane that elect.sync chooses: the same for the same mask."""


class Random:
    """Random choices. ``laziness``: the chance that an engine moves rather than a warp."""

    stops_at_changes = False
    lateness = 0.0

    def __init__(
        self, seed: int, records: bool = False, laziness: float | None = None, any_leader: bool = False
    ) -> None:
        self.draw = np.random.default_rng(seed)
        self.records = records
        self.in_lane_order = False
        # Habits go round with the seed, so that a few successive seeds have tried each.
        turn = seed // 2
        self.early = (0.0, 0.9, 0.3)[turn % 3]
        self.laziness = (0.3, 0.02, 0.8)[turn // 3 % 3] if laziness is None else laziness
        self.mean = (16.0, 4.0, 64.0)[(turn + turn // 3) % 3]
        self.apart = (0.1, 0.0, 0.5)[(turn + turn // 9) % 3]
        self.any_leader = any_leader
        self.elected = -1  # the lane that elect.sync chooses where it can; -1: the lowest one
        self.leaders: dict[tuple[int, int, int], int] = {}

    def pick(self, m: Machine, able: list[Fragment], engines: list[Operation]) -> Fragment | Operation:
        if engines and (not able or self.draw.random() < self.laziness):
            return engines[int(self.draw.integers(len(engines)))]
        return able[int(self.draw.integers(len(able)))]

    def burst(self, m: Machine) -> int:
        return 1 + int(self.draw.exponential(self.mean))

    def reconverges(self, m: Machine) -> bool:
        return self.draw.random() >= self.apart

    def parts(self, m: Machine, f: Fragment) -> Lanes | None:
        return None

    def answers_early(self, m: Machine) -> bool:
        return bool(self.early) and self.draw.random() < self.early

    def leader(self, m: Machine, warp: Warp, mask: int, lanes: Lanes) -> int:
        if self.elected in lanes:
            return self.elected
        if not self.any_leader:
            return int(lanes[0])
        key = (warp.block.number, warp.number, mask)
        return self.leaders.setdefault(key, int(lanes[int(self.draw.integers(len(lanes)))]))


class Priorities(Random):
    """Probabilistic concurrency testing: the able one of highest priority moves, which drops at few points.

    Warps and engines have priorities; ``changes`` points within ``horizon`` bursts lower the running one's.
    """

    def __init__(self, seed: int, changes: int = 3, horizon: int = 2000, records: bool = False) -> None:
        super().__init__(seed, records)
        self.ranks: dict[object, float] = {}
        self.points = set(self.draw.integers(0, horizon, changes).tolist())
        self.turns = 0
        self.low = 0.0

    def _rank(self, x: object) -> float:
        if x not in self.ranks:
            self.ranks[x] = float(self.draw.random()) + 1.0
        return self.ranks[x]

    def pick(self, m: Machine, able: list[Fragment], engines: list[Operation]) -> Fragment | Operation:
        everyone: list[Fragment | Operation] = [*able, *engines]

        def rank(x: Fragment | Operation) -> float:
            # A fragment goes by its warp, so that lanes that part do not restart.
            return self._rank(getattr(x, "warp", x))

        best = max(everyone, key=rank)
        self.turns += 1
        if self.turns in self.points:
            self.low -= 1.0
            self.ranks[getattr(best, "warp", best)] = self.low
            best = max(everyone, key=rank)
        return best


class Holding(Random):
    """Random choices, but nobody executes one of some lines while another one can move.

    Example: all blocks come to the atomic by which they count themselves, and then count. A fence of each
    block is before all counts then, so that no order of the fences hides that the count acquires nothing.
    """

    def __init__(self, seed: int, lines: frozenset[int]) -> None:
        super().__init__(seed)
        self.lines = lines

    def pick(self, m: Machine, able: list[Fragment], engines: list[Operation]) -> Fragment | Operation:
        free = [f for f in able if f.code.lines[f.pc] not in self.lines]
        return super().pick(m, free if free or engines else able, engines)

    def burst(self, m: Machine) -> int:
        return 1


class Parting(Random):
    """Lanes of a warp part at some lines, and one part runs far ahead of the other.

    The fragment of the highest rank moves; now and then it gets another rank.
    """

    #: Parts of one warp, and chances: of parting at a line, of another rank.
    MOST, PARTS, CHANGES = 4, 0.5, 0.02

    def __init__(self, seed: int, lines: frozenset[int], lateness: float = 0.0) -> None:
        super().__init__(seed)
        self.lateness = lateness
        self.lines = lines
        self.ranks: dict[object, float] = {}

    def pick(self, m: Machine, able: list[Fragment], engines: list[Operation]) -> Fragment | Operation:
        everyone: list[Fragment | Operation] = [*able, *engines]
        for x in everyone:
            if x not in self.ranks or self.draw.random() < self.CHANGES:
                self.ranks[x] = float(self.draw.random())
        return max(everyone, key=self.ranks.__getitem__)

    def burst(self, m: Machine) -> int:
        return 1

    def parts(self, m: Machine, f: Fragment) -> Lanes | None:
        if f.code.lines[f.pc] not in self.lines or len(f.warp.fragments) >= self.MOST:
            return None
        if self.draw.random() >= self.PARTS:
            return None
        staying = self.draw.random(len(f.mask)) < 0.5
        return np.asarray(staying)


class Directed(Random):
    """Follows a sequence of (agent, line): each step runs that agent until it has executed the line.

    An agent is ``b0.w1`` or ``b0.w1.l3`` (a fragment with that lane), or an engine's name. Steps that cannot
    be made are listed in ``missed``; after the last one choices are random.
    """

    #: Looks in vain, at most, before waits wait.
    LOOKS = 1000

    def __init__(self, steps: Sequence[tuple[str, int]], seed: int = 0) -> None:
        super().__init__(seed, True, laziness=0.0)
        self.steps = list(steps)
        self.at = 0
        self.missed: list[tuple[str, int]] = []
        self.patience = 0
        self.apart = 0.0
        self.early = 0.0
        self.seen = 0

    def answers_early(self, m: Machine) -> bool:
        """A step that waits for nothing says when it is made, as long as it does not spin."""
        self.patience += self.at < len(self.steps)
        return self.at < len(self.steps) and self.patience < self.LOOKS

    def pick(self, m: Machine, able: list[Fragment], engines: list[Operation]) -> Fragment | Operation:
        self._advance(m)
        while self.at < len(self.steps):
            agent, _ = self.steps[self.at]
            for f in able:
                if _is_agent(f, agent):
                    return f
            for e in engines:
                if e.name == agent:
                    return e
            self.missed.append(self.steps[self.at])
            self.at += 1
        return super().pick(m, able, engines)

    def _advance(self, m: Machine) -> None:
        """Steps that the log shows as made."""
        while self.at < len(self.steps) and self.seen < len(m.log):
            name, line = m.log[self.seen]
            self.seen += 1
            agent, wanted = self.steps[self.at]
            if line == wanted and (name == agent or name.startswith(agent + ".")):
                self.at += 1

    def burst(self, m: Machine) -> int:
        return 1 if self.at < len(self.steps) else super().burst(m)


def _is_agent(f: Fragment, agent: str) -> bool:
    block, _, rest = agent.partition(".")
    warp, _, lane = rest.partition(".")
    if block != f"b{f.warp.block.number}" or warp != f"w{f.warp.number}":
        return False
    return not lane or bool(f.mask[int(lane[1:])])


class Choices(Random):
    """One branch of an exhaustive search: the first choices are given, the rest are the first ones possible.

    ``made`` lists (choice, how many there were) for the search to go on from.
    """

    stops_at_changes = True

    def __init__(self, given: Sequence[int]) -> None:
        super().__init__(0, False, laziness=0.0)
        self.given = list(given)
        self.made: list[tuple[int, int]] = []
        self.in_lane_order = True
        self.apart = self.early = 0.0

    def pick(self, m: Machine, able: list[Fragment], engines: list[Operation]) -> Fragment | Operation:
        everyone: list[Fragment | Operation] = [*able, *engines]
        if len(everyone) == 1:
            return everyone[0]
        n = len(self.made)
        choice = self.given[n] if n < len(self.given) else 0
        self.made.append((choice, len(everyone)))
        return everyone[choice]

    def burst(self, m: Machine) -> int:
        return 1 << 30
