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

    SPLIT = "both answers are followed"
    COVERED = "all its values are among those of an earlier node"
    WIDENED = "replaced by a node with more values"
    TERMINAL = "the run ends, clean"
    ASSUMED_UNREACHABLE = "an assertion of the kernel fails"
    ERROR = "the run fails"


@dataclass(slots=True)
class Node:
    """``branch_taken``: the one of the parent that led here. ``branch_condition``: the sum that may be 0 or
    more, or less.

    ``target``: what covers or replaces the node; ``less``: the target may know less, and what replaces the
    node knows no more than the target. ``valuation`` of a widened node are those that replace it,
    ``constraints`` what is known of them, in order, ``substitution`` each of their symbols in terms of those
    before; one that stays is itself.
    """

    number: int
    parent: int
    status: NodeStatus
    key: Hashable = None
    branching_class: int = -1
    branch_condition: Sum | None = None
    valuation: tuple[Sum, ...] = ()
    path: PathCondition | None = None
    target: int = -1
    less: int = -1
    events: int = 0
    branch_taken: bool | None = None
    substitution: tuple[tuple[int, Sum], ...] = ()
    constraints: tuple[Sum, ...] = ()

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
    rotates: bool = False  # states represent others at other places of a ring

    def add(self, parent: int, settled: NodeStatus, key: Hashable = None, **more: object) -> Node:
        node = Node(len(self.nodes), parent, settled, key, **more)  # type: ignore[arg-type]
        self.nodes.append(node)
        return node

    def ancestors_of(self, number: int) -> set[int]:
        """A node and those that it comes from."""
        found: set[int] = set()
        while number >= 0:
            found.add(number)
            number = self.nodes[number].parent
        return found

    def count(self, settled: NodeStatus) -> int:
        return sum(n.status is settled for n in self.nodes)
