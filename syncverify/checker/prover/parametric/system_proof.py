"""What explorations came to, and those of which a copy of this process tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from syncverify.base.diagnostics import Diagnostic
from syncverify.base.workers import apart
from syncverify.checker.prover.reach.analysis import ReachabilityAnalysis
from syncverify.checker.prover.reach.graph import Node, ReachabilityGraph
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.path_condition import PathCondition

#: Explorations that are worth a copy.
SEVERAL = 3


@dataclass(frozen=True, slots=True)
class SystemProof:
    """An exploration that came to its end; ``space`` is that of its paths, None in another process."""

    graph: ReachabilityGraph
    notes: dict[tuple[object, ...], Diagnostic]
    events: int
    stopped: dict[int, str]
    restores: bool
    ends: tuple[PathCondition, ...]
    space: SymbolicContext | None

    @classmethod
    def of(cls, e: ReachabilityAnalysis) -> SystemProof:
        return cls(
            e.graph,
            e.warnings,
            e.events,
            e.assumed_assertions,
            e.leaves_flags_zero,
            tuple(e.terminal_paths),
            e.space,
        )

    def as_data(self) -> SystemProof:
        """The same for another process: of the graph no more than how its nodes were settled."""
        nodes = [Node(n.number, n.parent, n.status) for n in self.graph.nodes]
        graph = ReachabilityGraph(nodes, asks_last=self.graph.asks_last, rotates=self.graph.rotates)
        return SystemProof(graph, self.notes, self.events, self.stopped, self.restores, (), None)


@contextmanager
def in_child_process(
    explore: Callable[[], Sequence[SystemProof] | None], several: int
) -> Iterator[Callable[[], Sequence[SystemProof] | None] | None]:
    """Explorations in a copy of this process beside the block, which gets a function that waits for what they
    came to; None where there is no copy, or it is not worth one. ``explore`` gives None where anything was
    met that all must know of, and assertions that fail count as such."""

    def work() -> list[SystemProof] | None:
        found = explore()
        if found is None or any(x.stopped for x in found):
            return None
        return [x.as_data() for x in found]

    if several < SEVERAL:
        yield None
        return
    with apart(work) as answer:
        yield answer


__all__ = ["SystemProof", "in_child_process"]
