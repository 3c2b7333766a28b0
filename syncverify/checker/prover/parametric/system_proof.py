"""What explorations came to, and those of which a copy of this process tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from syncverify.base.diagnostics import Diagnostic
from syncverify.base.workers import apart
from syncverify.checker.prover.reach.analysis import Explorer
from syncverify.checker.prover.reach.graph import Graph, Node
from syncverify.symbolic.context import Space
from syncverify.symbolic.path_condition import Path

#: Explorations that are worth a copy.
SEVERAL = 3


@dataclass(frozen=True, slots=True)
class Found:
    """An exploration that came to its end; ``space`` is that of its paths, None in another process."""

    graph: Graph
    notes: dict[tuple[object, ...], Diagnostic]
    events: int
    stopped: dict[int, str]
    restores: bool
    ends: tuple[Path, ...]
    space: Space | None

    @classmethod
    def of(cls, e: Explorer) -> Found:
        return cls(e.graph, e.notes, e.events, e.stopped, e.restores, tuple(e.ends), e.space)

    def told(self) -> Found:
        """The same for another process: of the graph no more than how its nodes were settled."""
        nodes = [Node(n.number, n.parent, n.settled) for n in self.graph.nodes]
        graph = Graph(nodes, asks_last=self.graph.asks_last, rotates=self.graph.rotates)
        return Found(graph, self.notes, self.events, self.stopped, self.restores, (), None)


@contextmanager
def told_aside(
    explore: Callable[[], Sequence[Found] | None], several: int
) -> Iterator[Callable[[], Sequence[Found] | None] | None]:
    """Explorations in a copy of this process beside the block, which gets a function that waits for what they
    came to; None where there is no copy, or it is not worth one. ``explore`` gives None where anything was
    met that all must know of, and assertions that fail count as such."""

    def work() -> list[Found] | None:
        found = explore()
        if found is None or any(x.stopped for x in found):
            return None
        return [x.told() for x in found]

    if several < SEVERAL:
        yield None
        return
    with apart(work) as answer:
        yield answer


__all__ = ["Found", "told_aside"]
