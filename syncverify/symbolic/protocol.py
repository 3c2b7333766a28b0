"""What agents and systems offer so that they can be explored with sizes that have no number.

Such a size is a ``AffineTerm``; the interface here is that of any front end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from syncverify.model.events import Agent, Event, LaneSplit, System
from syncverify.symbolic.context import NotConcrete as NotConcrete

#: The size that represents the number of a block group; and that of one of its clusters, of any block group.
BLOCK_GROUP = "block.group"
MEMBER = "block.member"


_NONE: frozenset[Any] = frozenset()


class Teller(Protocol):
    """Says what lies in shared memory, in place of the stores of a run."""

    def load(self, memory: int, first: int, size: int) -> int | None:
        """What a load of some bytes of a CTA's memory finds; None: no number that is known."""

    def store(self, memory: int, first: int, size: int, value: Any) -> None:
        """An agent has stored a value."""


class SymbolicAgent(Agent, Protocol):
    """An agent whose registers may be looked at and replaced, and whose sizes may be terms.

    Registers hold ints, ``AffineTerm``, tuples of these (one per lane), or anything hashable but numbers.
    ``step`` may raise: ``LaneSplit``; ``NeedsDecision`` (an undecided branch: the agent is then back at a
    point from which the same ``step(answer)`` goes on, at best the latest such point, and shared data is as
    it was); ``NotConcrete`` (this path cannot be followed, with the reason). Events hold no terms: a
    value that reaches one goes through ``SymbolicContext.number``, and no memo may keep what was decided for
    a term.

    The prover reads no attribute of an agent that is not declared here. A front end derives from this class
    and overrides what its registers need; the defaults say that nothing of the kind is known.
    """

    __slots__ = ()

    #: Grows with every part of a step that is not done again after an interruption. Loops that have no event
    #: are proved only where it does.
    progress: int

    def point(self) -> tuple[Any, ...]:
        """Where it stands, without any register; the first entry is its ``place``."""

    def place(self) -> int:
        """A number that grows along its code."""

    def live(self) -> dict[Any, Any]:
        """The registers that anything later may depend on, by slot."""

    def put(self, slot: Any, value: Any) -> None:
        """Replaces a register that ``live`` named."""

    def fork(self) -> SymbolicAgent:
        """An independent copy at the same point."""

    def move(self, answer: int = 0) -> Event | None:
        """One stretch of code: an event, or None where it only jumps. Raises what ``step`` raises."""

    def iterations(self) -> Mapping[str, Any]:
        """For each size that it takes by ``SymbolicContext.fresh_per_iteration``: the turn of its next
        request.
        """

    @property
    def input_registers(self) -> AbstractSet[Any]:
        """Registers that hold sizes as they were given; states in which other things are known of these are
        not mixed."""
        return _NONE

    @property
    def boolean_registers(self) -> AbstractSet[Any]:
        """Registers of bits; states that differ in these are distinguished."""
        return _NONE

    @property
    def loop_invariant_registers(self) -> AbstractSet[Any]:
        """Registers that no loop changes; states where they are other numbers are not mixed."""
        return _NONE

    @property
    def rotation_invariant_registers(self) -> AbstractSet[Any]:
        """Registers that cycle through no ring of slots."""
        return _NONE

    @property
    def iteration_counters(self) -> AbstractSet[Any]:
        """Registers that count iterations."""
        return _NONE

    @property
    def per_cluster_symbols(self) -> Mapping[str, Any]:
        """Of sizes that each cluster has for itself: the register, by name."""
        return {}

    @property
    def may_take_another_iteration(self) -> bool:
        """Whether it is about to ask for a further iteration of a round-robin loop: others ask first."""
        return False

    @property
    def shares(self) -> bool:
        """Whether it sees numbers that other agents have stored in shared memory."""
        return False

    def hear(self, teller: Teller) -> None:
        """From here on ``teller`` says what lies in shared memory, where that matters."""
        return None

    def lockstep_memo(self) -> Any | None:
        """A memo of one step, for agents of its class that take it one after the other; None: it has none."""
        return None

    def step_in_lockstep(self, answer: int, memo: Any) -> Event:
        """``step`` with such a memo."""
        return self.step(answer)


class SymbolicSystem(System, Protocol):
    """A system whose agents start with terms for sizes. ``refined`` keeps the space."""

    def refined(self, split: LaneSplit) -> SymbolicSystem:
        """The same launch with one class split."""

    def fork_agents(self, agents: Sequence[Any]) -> Sequence[Any]:
        """Independent copies of all agents of one run.

        Where agents share mutable data, the copies share a copy of it; such data is part of ``live`` and
        ``put`` of exactly one of them.
        """
        return [a.fork() for a in agents]

    def agent(self, cls: int) -> SymbolicAgent:
        """A fresh agent of one class alone."""
