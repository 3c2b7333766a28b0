"""What Inductor could fuse with a region: the nodes around it, as a graph of their own.

A kernel that takes the place of a region cuts it off from its neighbours. So it is timed inside its context:
all nodes that Inductor might put into one loop with it. Example: ``rms_norm(x).neg()`` is one loop of
Inductor's. A kernel for the norm alone leaves the negation to a loop of its own, and the context shows what
that costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node

from syncverify.torch.region import Group, fusible, is_constant, is_item, is_view, size_of

#: The most nodes of a context.
_MOST_NODES = 160


@dataclass(frozen=True)
class Context:
    """Some nodes in their order, the tensors that they need, and those that others need of them.

    ``members``: the numbers of the regions that lie in it. No node outside lies between two nodes of it.
    """

    nodes: tuple[Node, ...]
    arguments: tuple[Node, ...]
    outputs: tuple[Node, ...]
    members: tuple[int, ...]

    def rest(self, groups: Sequence[Group]) -> int:
        """The fewest bytes that kernels for the nodes outside of some groups write: the context's results."""
        inside = {n for g in groups for n in g.nodes}
        return sum(size_of(n) for n in self.outputs if n not in inside and not _free(n))


def _free(node: Node) -> bool:
    return is_view(node) or is_item(node) or is_constant(node)


class _Order:
    """Which nodes depend on which, as bits by place in the graph."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = list(graph.nodes)
        self.place = {n: k for k, n in enumerate(self.nodes)}
        self.before = [0] * len(self.nodes)
        self.behind = [0] * len(self.nodes)
        for k, node in enumerate(self.nodes):
            for argument in node.all_input_nodes:
                at = self.place[argument]
                self.before[k] |= self.before[at] | 1 << at
        for k in range(len(self.nodes) - 1, -1, -1):
            for user in self.nodes[k].users:
                at = self.place[user]
                self.behind[k] |= self.behind[at] | 1 << at


class _Grown:
    """Nodes that grow while nothing outside lies between them."""

    def __init__(self, order: _Order) -> None:
        self.order = order
        self.bits = self.before = self.behind = 0

    def copy(self) -> _Grown:
        found = _Grown(self.order)
        found.bits, found.before, found.behind = self.bits, self.before, self.behind
        return found

    def add(self, node: Node) -> None:
        at = self.order.place[node]
        self.bits |= 1 << at
        self.before |= self.order.before[at]
        self.behind |= self.order.behind[at]

    def join(self, other: _Grown) -> None:
        self.bits |= other.bits
        self.before |= other.before
        self.behind |= other.behind

    @property
    def whole(self) -> bool:
        return not self.before & self.behind & ~self.bits

    def fill(self) -> None:
        """Takes in the views and constants that lie between."""
        between = self.before & self.behind & ~self.bits
        for node in self._of(between):
            if _free(node):
                self.add(node)

    def __contains__(self, node: Node) -> bool:
        return bool(self.bits >> self.order.place[node] & 1)

    def _of(self, bits: int) -> list[Node]:
        found = []
        while bits:
            low = bits & -bits
            found.append(self.order.nodes[low.bit_length() - 1])
            bits ^= low
        return found

    @property
    def nodes(self) -> list[Node]:
        return self._of(self.bits)


def contexts(graph: Graph, groups: Sequence[Group], templates: bool = False) -> list[Context]:
    """The contexts of groups. Groups that Inductor might fuse with each other share one.

    ``templates``: Inductor may make a product itself, with what follows it.
    """
    order = _Order(graph)
    found: list[tuple[_Grown, list[int]]] = []
    for number, group in enumerate(groups):
        grown = _around(order, group, templates)
        members = [number]
        for other in list(found):
            if not grown.bits & other[0].bits:
                continue
            both = grown.copy()
            both.join(other[0])
            both.fill()
            if both.whole and both.bits.bit_count() <= _MOST_NODES:
                grown, members = both, [*other[1], *members]
                found.remove(other)
        found.append((grown, members))
    return [_context(grown, sorted(members)) for grown, members in found]


def _around(order: _Order, group: Group, templates: bool) -> _Grown:
    grown = _Grown(order)
    for node in group.nodes:
        grown.add(node)
    grown.fill()
    pending = deque(grown.nodes)
    while pending:
        node = pending.popleft()
        near_by = node.users if templates and node in group.products else _neighbours(node)
        for near in near_by:
            if near in grown or not _joins(near, group):
                continue
            larger = grown.copy()
            larger.add(near)
            larger.fill()
            if larger.whole and larger.bits.bit_count() <= _MOST_NODES:
                grown = larger
                pending.append(near)
    return grown


def _neighbours(node: Node) -> Iterator[Node]:
    """What Inductor might fuse with a node."""
    if fusible(node) or _free(node):
        yield from node.all_input_nodes
        yield from node.users


def _joins(node: Node, group: Group) -> bool:
    if not (fusible(node) or (_free(node) and node.op == "call_function")):
        return False
    if is_item(node) and not all(map(fusible, node.all_input_nodes)):
        return False  # of several results of a library
    device = next(iter(group.operations)).meta["val"]
    found = node.meta.get("val")
    first = found[0] if isinstance(found, (tuple, list)) and found else found
    like = device[0] if isinstance(device, (tuple, list)) else device
    if not isinstance(first, torch.Tensor) or first.device != like.device:
        return False
    return all(a.meta.get("val") is not None for a in node.all_input_nodes)


def _context(grown: _Grown, members: list[int]) -> Context:
    nodes = grown.nodes
    inside = set(nodes)
    arguments = dict.fromkeys(a for n in nodes for a in n.all_input_nodes if a not in inside)
    outputs = [n for n in nodes if any(u not in inside for u in n.users)]
    return Context(tuple(nodes), tuple(arguments), tuple(outputs), tuple(members))


def alone(
    owner: torch.nn.Module, nodes: Iterable[Node], arguments: Sequence[Node], outputs: Sequence[Node]
) -> tuple[GraphModule, dict[Node, Node]]:
    """Nodes as a module of their own, and which node of it each became."""
    graph, copies = copied(nodes, arguments, outputs)
    return GraphModule(owner, graph), copies


def copied(
    nodes: Iterable[Node], arguments: Sequence[Node], outputs: Sequence[Node]
) -> tuple[Graph, dict[Node, Node]]:
    """Nodes as a graph of their own, and which node of it each became."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in arguments:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta.update(node.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[n] for n in outputs))
    return graph, copies


__all__ = ["Context", "alone", "contexts", "copied"]
