"""What an exploration came to, in plain data: each point at which a question was open, and how it ended."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum

from syncverify.symbolic.inequalities import Sum
from syncverify.symbolic.path_condition import PathCondition


class NodeStatus(Enum):
    """How a node was settled."""

    ASKED = "both answers are followed"
    COVERED = "all its values are among those of an earlier node"
    WIDENED = "replaced by a node with more values"
    ENDED = "the run ends, clean"
    STOPPED = "an assertion of the kernel fails"
    FAILED = "the run fails"


@dataclass(slots=True)
class Node:
    """``answer``: the one of the parent that led here. ``question``: the sum that may be 0 or more, or less.

    ``target``: what covers or replaces the node; ``less``: the target may know less, and what replaces the
    node knows no more than the target. ``rows`` of a widened node are those that replace it, ``facts`` what
    is known of them, in order, ``found`` each of their symbols in terms of those before; one that stays is
    itself.
    """

    number: int
    parent: int
    settled: NodeStatus
    key: Hashable = None
    asker: int = -1
    question: Sum | None = None
    rows: tuple[Sum, ...] = ()
    path: PathCondition | None = None
    target: int = -1
    less: int = -1
    events: int = 0
    answer: bool | None = None
    found: tuple[tuple[int, Sum], ...] = ()
    facts: tuple[Sum, ...] = ()

    @property
    def digest(self) -> str:
        """Equal for points that may be compared."""
        return "" if self.key is None else hashlib.sha256(repr(self.key).encode()).hexdigest()[:16]


@dataclass(slots=True)
class ReachabilityGraph:
    """All nodes, by number. ``parent`` links and ``target`` links make up the graph."""

    nodes: list[Node] = field(default_factory=list)
    splits: tuple[tuple[int, tuple[int, ...]], ...] = ()  # of lane classes, in order, before it all started
    asks_last: bool = False  # an agent asks only when no other can go on
    rotates: bool = False  # states stand for others at other places of a ring

    def add(self, parent: int, settled: NodeStatus, key: Hashable = None, **more: object) -> Node:
        node = Node(len(self.nodes), parent, settled, key, **more)  # type: ignore[arg-type]
        self.nodes.append(node)
        return node

    def above(self, number: int) -> set[int]:
        """A node and those that it comes from."""
        found: set[int] = set()
        while number >= 0:
            found.add(number)
            number = self.nodes[number].parent
        return found

    def count(self, settled: NodeStatus) -> int:
        return sum(n.settled is settled for n in self.nodes)
