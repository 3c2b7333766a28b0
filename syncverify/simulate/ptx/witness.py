"""A witness of the checker, stepped through on the text.

A witness lists the visible steps of an execution: an agent (lanes of a warp, ``cta0.warp3.lanes0-31``, or
an asynchronous operation of theirs, ``....async2``) and a line. Between them agents execute what leads there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncverify.simulate.ptx.execute import Result, run_loaded
from syncverify.simulate.ptx.harm import Kind
from syncverify.simulate.ptx.launch import Launch
from syncverify.simulate.ptx.loading import load
from syncverify.simulate.ptx.schedules import Random
from syncverify.simulate.ptx.syntax import Module

if TYPE_CHECKING:
    from syncverify.simulate.ptx.engines import Operation
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment

_AGENT = re.compile(r"cta(\d+)\.warp(\d+)\.lanes(\d+)[\d,-]*(\.async\d+)?")
#: Instructions that one step may take to get to its line.
_PATIENCE = 20_000


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a witness: a lane of a warp, or (``engine``) an operation that it has issued."""

    block: int
    warp: int
    lane: int
    line: int
    engine: bool


@dataclass(frozen=True)
class Replayed:
    """``reproduced``: the execution did the harm that is claimed. ``missed``: steps it could not make."""

    reproduced: bool
    result: Result
    missed: tuple[Step, ...]


class Stepping(Random):
    """Follows the steps of a witness, then goes on at random."""

    def __init__(self, steps: Sequence[Step], seed: int = 0) -> None:
        super().__init__(seed, False, laziness=0.0)
        self.apart = self.early = 0.0
        self.in_lane_order = True
        self.steps = list(steps)
        self.at = 0
        self.missed: list[Step] = []
        self.visits: dict[tuple[int, int, int, int], int] = {}  # block, warp, lane, line
        self.needed: dict[tuple[int, int, int, int], int] = {}
        self.asked = -1
        self.last: tuple[Fragment, int] | None = None
        self.counted: set[Fragment] = set()
        self.engine: Operation | None = None
        self.patience = _PATIENCE

    def pick(self, m: Machine, able: list[Fragment], engines: list[Operation]) -> Fragment | Operation:
        self._note()
        while self.at < len(self.steps):
            step = self.steps[self.at]
            chosen = self._engine(step, engines) if step.engine else self._thread(step, able)
            if chosen is None:
                continue
            return chosen
        return super().pick(m, able, engines)

    def burst(self, m: Machine) -> int:
        return 1 if self.at < len(self.steps) else super().burst(m)

    def _next(self) -> None:
        self.at += 1
        self.patience = _PATIENCE

    def _engine(self, step: Step, engines: list[Operation]) -> Operation | None:
        """Runs one operation of the line to its end."""
        if self.engine is not None:
            if not self.engine.finished:
                return self.engine
            self.engine = None
            self._next()
            return None
        fitting = (e for e in engines if e.line == step.line and e.where.block == step.block)
        self.engine = next((e for e in fitting if e.where.warp == step.warp), None)
        if self.engine is None:
            # A wait may have brought it to its end already.
            self._next()
        return self.engine

    def _thread(self, step: Step, able: list[Fragment]) -> Fragment | None:
        """Moves the lane until it has executed the line once more."""
        key = (step.block, step.warp, step.lane, step.line)
        if self.asked != self.at:
            self.asked = self.at
            self.needed[key] = self.needed.get(key, 0) + 1
        if self.visits.get(key, 0) >= self.needed[key]:
            self._next()
            return None
        self.patience -= 1
        for f in able:
            if f.warp.block.number == step.block and f.warp.number == step.warp and f.mask[step.lane]:
                if self.patience <= 0:
                    break
                self.last = (f, f.code.lines[f.pc])
                return f
        # Lanes that wait for others of their warp: these go first.
        for f in able:
            if f.warp.block.number == step.block and f.warp.number == step.warp and self.patience > 0:
                self.last = (f, f.code.lines[f.pc])
                return f
        self.missed.append(step)
        self._next()
        return None

    def _note(self) -> None:
        """Counts the line that the last move has left, or is blocked at."""
        if self.last is None:
            return
        f, line = self.last
        self.last = None
        gone = f not in f.warp.fragments
        blocked = not gone and f.ready is not None and not f.polls
        now = None if gone else f.code.lines[f.pc]
        if f in self.counted and not gone and now == line:
            return
        if blocked and now == line and f not in self.counted:
            self.counted.add(f)
        elif now == line:
            return
        elif f in self.counted:
            self.counted.discard(f)
            return
        lanes = [i for i in range(32) if gone or f.mask[i]]
        for lane in lanes:
            key = (f.warp.block.number, f.warp.number, lane, line)
            self.visits[key] = self.visits.get(key, 0) + 1


def step_of(agent: str, line: int) -> Step:
    """A step by the name of its agent and its line of PTX. ValueError for an agent of another form."""
    m = _AGENT.fullmatch(agent)
    if m is None:
        raise ValueError(f"{agent} is no agent of a PTX kernel")
    return Step(int(m[1]), int(m[2]), int(m[3]), line, m[4] is not None)


def steps_of(witness: Mapping[str, Any]) -> list[Step]:
    """The steps of a witness as JSON data. ValueError for an agent of another form."""
    return [step_of(s["agent"], int(s.get("code_line") or s["line"])) for s in witness["steps"]]


#: The harm that each claim may show as: what is undefined or races hangs in one execution and not in another.
_CLAIMS = {
    "hang": {Kind.HANG, Kind.UNDEFINED, Kind.RACE},
    "stale-value": {Kind.RACE, Kind.STALE, Kind.UNDEFINED},
    "ub": {Kind.UNDEFINED, Kind.RACE, Kind.STALE, Kind.HANG, Kind.TRAP},
    "order-violation": {Kind.RACE, Kind.STALE, Kind.UNDEFINED, Kind.HANG},
}


def replay(
    module: Module, witness: Mapping[str, Any], launch: Launch, seed: int = 0, limit: int = 500_000
) -> Replayed:
    """Steps a witness through the text, and lets the kernel end afterwards.

    Lines are those of the PTX file: a witness whose lines are of a source behind ``.loc`` cannot be followed.
    """
    loaded = load(module, str(witness["kernel"]), launch, seed)
    schedule = Stepping(steps_of(witness), seed)
    result = run_loaded(loaded, launch, schedule, limit, seed)
    kinds = _CLAIMS[str(witness["claim"])]
    return Replayed(result.harm is not None and result.harm.kind in kinds, result, tuple(schedule.missed))
