"""What agents and systems offer so that they can be explored with sizes that have no number.

Such a size is a ``AffineTerm``; the interface here is that of any front end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from syncverify.model.events import Agent, System
from syncverify.symbolic.context import NotConcrete as NotConcrete

#: The size that represents the number of a block group; and that of one of its clusters, of any block group.
BLOCK_GROUP = "block.group"
MEMBER = "block.member"


class SymbolicAgent(Agent, Protocol):
    """An agent whose registers may be looked at and replaced, and whose sizes may be terms.

    Registers hold ints, ``AffineTerm``, tuples of these (one per lane), or anything hashable but numbers.
    ``step`` may raise: ``LaneSplit``; ``NeedsDecision`` (an undecided branch: the agent is then back at a
    point from which the same ``step(answer)`` goes on, at best the latest such point, and shared data is as
    it was); ``NotConcrete`` (this path cannot be followed, with the reason). Events hold no terms: a
    value that reaches one goes through ``SymbolicContext.number``, and no memo may keep what was decided for
    a term.

    Nine attributes may be there. ``progress`` grows with every part of a step that is not done again after an
    interruption; without it, loops that have no event are not proved. ``input_registers``: registers that
    hold sizes as they were given; states in which other things are known of these are not mixed.
    ``boolean_registers``: registers of bits; states that differ in these are distinguished.
    ``loop_invariant_registers``: registers that no loop changes; states where they are other numbers are not
    mixed. ``rotation_invariant_registers``: registers that cycle through no ring of slots.
    ``may_take_another_iteration``: the agent asks whether it has a further iteration where iterations are
    distributed round-robin, and others ask first. ``iteration_counters``: registers that count turns.
    ``per_cluster_symbols``: for sizes that each cluster has for itself, the register, by name.
    ``lockstep_memo``: makes a note of a step, for agents of one class that take it after each other.
    """

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

    def iterations(self) -> Mapping[str, Any]:
        """For each size that it takes by ``SymbolicContext.fresh_per_iteration``: the turn of its next
        request.
        """


class SymbolicSystem(System, Protocol):
    """A system whose agents start with terms for sizes. ``refined`` keeps the space.

    May offer ``fork_agents(agents) -> list``: copies of all agents of one run, where they share mutable data
    (such data is part of ``live`` and ``put`` of exactly one of them); without it each agent is forked.
    """
