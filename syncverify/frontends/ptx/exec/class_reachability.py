"""Code that a class of lanes never comes to, where sizes have no number.

What such a class computes for that code alone is left out, and with it questions about sizes that decide
nothing: lanes that elect no copies still count stages. The blocks are found by a look at each class alone;
those ahead of where it ends count as well, but what single lanes alone were seen to do only for these. That
may miss some: where an agent comes to one that it was taken never to come to, all restarts with the whole
code for every class.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncverify.base.deadline import check as check_time
from syncverify.frontends.ptx.compile.state import PC, START, Run
from syncverify.frontends.ptx.decode.effects import Opaque
from syncverify.model.events import Ev, LaneSplit
from syncverify.symbolic.context import NotConcrete, SymbolicContext, SymbolSplit, UndecidedBranch, mapped
from syncverify.symbolic.inequalities import negated
from syncverify.symbolic.loop_havoc import ITERATION
from syncverify.symbolic.path_condition import PathCondition

if TYPE_CHECKING:
    from syncverify.frontends.ptx.compile.program import Program
    from syncverify.frontends.ptx.exec.agent import PtxAgent

#: Events of a class that the look takes, and steps without one.
MOST_EVENTS, MOST_STEPS = 2_500, 25_000
#: And of one way at a time, before the others get their turn.
EVENTS_PER_BRANCH = 100
#: It ends after so many events that come to no code that is new.
NOTHING_NEW = 200
#: How often one question is answered with yes before no, and how often the other answer is looked at.
TURNS, OTHER_BRANCH_TRIES = 16, 2
_POLLS = (Ev.POLL, Ev.POLL_TOKEN)
#: A class of lanes: its CTA, warp and lanes.
Key = tuple[int, int, int]


@dataclass(slots=True)
class ClassPrograms:
    """The blocks that each class comes to, and programs without the others."""

    program: Program
    _stops: dict[Key, frozenset[int]] = field(default_factory=dict)
    _programs: dict[frozenset[int], Program] = field(default_factory=dict)

    def unknown(self, keys: Iterable[Key]) -> bool:
        """Whether there was no look at some class."""
        return any(key not in self._stops for key in keys)

    def explore_classes(self, space: SymbolicContext, agents: Iterable[tuple[Key, PtxAgent]]) -> None:
        """Finds the blocks, on a path that is dropped at the end."""
        path, questions, forgets = space.path, set(space.branched_sizes), space.havocs
        space.havocs = False
        content = frozenset(_with_content(self.program))
        renewals = self.program.renewals.values()
        if space.round_robin is not None and any(x.deal or x.advances_by_trips for x in renewals):
            space.round_robin.havocked_sizes.add(ITERATION)
            space.round_robin.roles_skip = any(x.deal is not None for x in renewals)
            # turns that numbers deal out are havocked one by one: there is no sum of two
            by_number = any(x.deal is not None and not x.deal.step for x in renewals)
            space.round_robin.by_prefix_sum = not by_number and any(
                x.advances_by_trips or x.deal is not None for x in renewals
            )
        found: dict[Key, tuple[set[int], set[int]] | None] = {}
        merged: dict[Key, set[int]] = {}
        try:
            for key, agent in agents:
                if key not in self._stops:
                    self.program.merged.clear()
                    found[key] = _labels(space, path.fork(), agent)
                    merged[key] = set(self.program.merged)
        finally:
            space.path, space.branched_sizes, space.havocs = path, questions, forgets
        blocks = {key: self._blocks(one[0]) | merged[key] for key, one in found.items() if one is not None}
        several = {b for key, some in blocks.items() if key[2].bit_count() > 1 for b in some}
        single = {b for key, some in blocks.items() if key[2].bit_count() == 1 for b in some} - several
        for key, one in found.items():
            ahead = set() if one is None else self._ahead(self._blocks(one[1]))
            ahead -= single if key[2].bit_count() > 1 else set()
            self._stops[key] = frozenset() if one is None else content - blocks[key] - ahead

    def _blocks(self, labels: Iterable[int]) -> set[int]:
        """The blocks that begin at labels."""
        end = START + 8 * len(self.program.body)
        return {self.program.flow.block_of[(x - START) // 8] for x in labels if START <= x < end}

    def _ahead(self, blocks: set[int]) -> set[int]:
        """The blocks that control may come to from some."""
        flow, found, work = self.program.flow, set(blocks), [*blocks]
        while work:
            for n in flow.blocks[work.pop()].succ:
                if n < flow.end and n not in found:
                    found.add(n)
                    work.append(n)
        return found

    def program_of(self, key: Key) -> Program:
        """The program of a class."""
        stops = self._stops.get(key, frozenset())
        found = self._programs.get(stops)
        if found is None:
            found = self.program.along(stops) if stops else self.program
            asked = {k for k in self.program.slice.branches if found.flow.block_of[k] in found.flow.reached}
            if asked <= found.slice.branches:
                found = self.program  # nothing is decided that was for other code only
            self._programs[stops] = found
        return found


def _with_content(p: Program) -> Iterator[int]:
    """The blocks with some instruction that counts, beside their last."""
    for n in p.flow.reached:
        b = p.flow.blocks[n]
        if any(k in p.decoded or k in p.touches or k in p.slice.pure for k in range(b.lo, b.hi - 1)):
            yield n


@dataclass(slots=True)
class ReachabilityCache:
    """Looks at systems that differ in their sizes only: what was found for some sizes is taken for those
    among them too."""

    program: Program
    _found: dict[Hashable, tuple[_Known, ClassPrograms]] = field(default_factory=dict)

    def ways(self, which: Hashable, space: SymbolicContext) -> ClassPrograms:
        """What is known of one of the systems for the sizes of a path."""
        here = _known(space)
        before = self._found.get(which)
        if before is not None and _among(here, before[0]):
            return before[1]
        found = ClassPrograms(self.program)
        self._found[which] = here, found
        return found


#: Of each size its bounds, and what else is said of them, as text.
_Known = tuple[dict[str, tuple[int | None, int | None]], frozenset[str]]


def _known(space: SymbolicContext) -> _Known:
    path = space.path
    ends = {name: space.bounds(value) for name, value in path.sizes.items()}
    return ends, frozenset(space.text(c, parts) for parts, c in path.inequalities.items())


def _among(here: _Known, there: _Known) -> bool:
    """Whether sizes are some of others, at a glance."""
    ends, said = there
    if ends.keys() != here[0].keys() or not said <= here[1]:
        return False
    return all(
        (low is None or (x is not None and x >= low)) and (high is None or (y is not None and y <= high))
        for (low, high), (x, y) in ((ends[name], here[0][name]) for name in ends)
    )


class _Seen(dict[int, Run]):
    """Compiled code that takes up the labels that control comes to."""

    def __init__(self, blocks: dict[int, Run]) -> None:
        super().__init__(blocks)
        self.labels: set[int] = set()

    def __getitem__(self, label: int) -> Run:
        self.labels.add(label)
        return super().__getitem__(label)


def _labels(space: SymbolicContext, path: PathCondition, agent: PtxAgent) -> tuple[set[int], set[int]] | None:
    """Labels that a class comes to alone, where every wait passes, and those from where it was not followed
    any further; None if its lanes part."""
    return _ClassExploration(space, agent).labels(_Path(agent, path))


@dataclass(slots=True)
class _Path:
    """One path of a class: it goes on with the answer to its last event."""

    agent: PtxAgent
    path: PathCondition
    answer: int = 0

    def forked(self, answer: int) -> _Path:
        """The same path, to be followed differently."""
        return _Path(_forked(self.agent), self.path.fork(), answer)


class _ClassExploration:
    """The paths of one class, each followed for some events at a time."""

    def __init__(self, space: SymbolicContext, agent: PtxAgent) -> None:
        self.space = space
        self.seen = agent.blocks = _Seen(agent.blocks)
        self.work: deque[_Path] = deque()
        self.taken: Counter[tuple[int, bool]] = Counter()
        self.events = self.steps = 0
        self.known = self.last = 0  # labels seen so far, and the events when the last was
        self.left: set[int] = set()

    def labels(self, first: _Path) -> tuple[set[int], set[int]] | None:
        """The labels that were seen, and those from where nobody went on; None if lanes part."""
        self.work.append(first)
        try:
            while self.work and self.events < MOST_EVENTS and self.steps < MOST_STEPS:
                b = self.work.popleft()
                self.space.path = b.path
                if not self._follow(b):
                    self.work.append(b)
                    break
        except LaneSplit:
            return None
        return self.seen.labels, self.left | {b.agent.r[PC] for b in self.work}

    def _follow(self, b: _Path) -> bool:
        """Follows one path until it ends or others have their turn; False if nothing new comes any more."""
        most = min(MOST_EVENTS, self.events + EVENTS_PER_BRANCH)
        while self.steps < MOST_STEPS:
            if len(self.seen.labels) > self.known:
                self.known, self.last = len(self.seen.labels), self.events
            if self.events - self.last > NOTHING_NEW:
                return False
            if self.events >= most:
                self.work.append(b)
                return True
            self.steps += 1
            check_time()
            if not self._step(b):
                return True
        self.left.add(b.agent.r[PC])
        return True

    def _step(self, b: _Path) -> bool:
        """One step of a path; False if it ends."""
        try:
            event = b.agent.step(b.answer)
        except SymbolSplit as e:
            b.path.substitute(e.atom, e.c, e.parts)
            _flush(self.space, b.agent)
            return True
        except UndecidedBranch as undecided:
            return self._branch(b, undecided)
        except (NotConcrete, Opaque):
            self.left.add(b.agent.r[PC])
            return False
        self.events += 1
        if event[0] in (Ev.EXIT, Ev.UNKNOWN):
            return False
        b.answer = int(event[0] in _POLLS)
        if b.answer and self._is_tried(b.agent.r[PC], answer=False):
            self.work.append(b.forked(0))
        return True

    def _branch(self, b: _Path, undecided: UndecidedBranch) -> bool:
        """Takes one side of an undecided branch and puts the other aside; False if no size takes this one."""
        label = b.agent.r[PC]
        yes = self.taken[label, True] < TURNS
        two = ((undecided.c, undecided.parts), (-undecided.c - 1, negated(undecided.parts)))
        if self._is_tried(label, answer=not yes):
            other = b.forked(b.answer)
            other.path.assume(*two[yes])
            if not other.path.dead:
                self.space.path = other.path
                _flush(self.space, other.agent)
                self.work.append(other)
                self.space.path = b.path
        self.taken[label, yes] += 1
        b.path.assume(*two[not yes])
        if b.path.dead:
            return False
        _flush(self.space, b.agent)
        return True

    def _is_tried(self, label: int, *, answer: bool) -> bool:
        """Whether the less likely answer is looked at once more."""
        self.taken[label, answer] += 1
        return self.taken[label, answer] <= OTHER_BRANCH_TRIES


def _forked(agent: PtxAgent) -> PtxAgent:
    new = agent.fork()
    new.blocks = agent.blocks
    return new


def _flush(space: SymbolicContext, agent: PtxAgent) -> None:
    """Brings registers up to what the path has rewritten."""
    resolved: Callable[[Any], Any] = space.resolved
    for slot, value in agent.live().items():
        new = mapped(value, resolved)
        if new is not value:
            agent.put(slot, new)


__all__ = ["ClassPrograms", "ReachabilityCache"]
