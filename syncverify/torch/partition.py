"""Which nodes of a torch graph become kernels: groups grow along the graph while one fusion can hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torch.fx import Graph, Node

from syncverify.torch import table
from syncverify.torch.dims import UnfitError
from syncverify.torch.graphs import in_order
from syncverify.torch.region import (
    BarredError,
    Group,
    fusible,
    is_constant,
    is_view,
    size_of,
    source_of,
    supported,
    value_of,
)
from syncverify.torch.translate import Translation, translate

#: Searches that start again without a node that stood in the way.
_ROUNDS = 40


@dataclass(frozen=True)
class Found:
    """A group that became a fusion."""

    group: Group
    translation: Translation


@dataclass(frozen=True)
class Partition:
    """The groups, and the other nodes with the reason why each is left to torch."""

    found: tuple[Found, ...]
    left: Mapping[Node, str] = field(default_factory=dict)


def partition(graph: Graph, least: int = 2, *, products: bool = False, reductions: bool = False) -> Partition:
    """The groups of a graph with at least ``least`` operations each; ``products``: also products alone.

    ``reductions``: those of rows count for two, so that one alone is a group, where it is timed.
    """
    found: tuple[Found, ...] = ()
    left: dict[Node, str] = {}
    nodes = [n for n in graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
    for node in nodes:
        reason = supported(node)
        if reason:
            left[node] = reason
    fresh: set[Node] = set()
    behind: set[tuple[Node, Node]] = set()
    grown = _Grown()
    for _ in range(_ROUNDS):
        search = _Search(nodes, left, fresh, behind, grown)
        groups = search.groups()
        apart = {n for group in groups for n in surplus(group)} - fresh
        cut = {(p, n) for group in groups for p in group.products for n in better_behind(group)}
        if apart or cut:
            fresh |= apart
            behind |= cut
            continue
        small = {
            id(g)
            for g in groups
            if _weight(g, reductions=reductions) < least and not (products and g.products)
        }
        found, barred = _round(search, [g for g in groups if id(g) not in small])
        alone = [n for g in groups if id(g) in small for n in g.operations]
        left |= barred | dict.fromkeys(alone, "alone: torch does it as well")
        if not barred and not alone:
            break
    inside = {n for f in found for n in f.group.nodes}
    views = {n: "a view, which is done for nothing" for n in nodes if is_view(n) or is_constant(n)}
    return Partition(found, {n: r for n, r in {**views, **left}.items() if n not in inside})


def _weight(group: Group, *, reductions: bool) -> int:
    """The operations of a group, and its reductions once more if they count for two."""
    return len(group.operations) + sum(reductions and n.target in table.REDUCTIONS for n in group.operations)


def _round(search: _Search, groups: Iterable[Group]) -> tuple[tuple[Found, ...], dict[Node, str]]:
    """What the groups became, and the nodes that have to be left out of the next search."""
    found: list[Found] = []
    barred: dict[Node, str] = {}
    for group in groups:
        made = search.grown.translated(group)
        if isinstance(made, Translation):
            found.append(Found(group, made))
        else:
            nodes = made.nodes if isinstance(made, BarredError) else group.operations
            barred |= dict.fromkeys(nodes, str(made))
    alone = {n: r for n, r in search.reasons.items() if n not in search.home}
    return tuple(found), {**alone, **barred}


def surplus(group: Group) -> set[Node]:
    """The nodes that should start another kernel: it would read them, and could read what they are made of.

    Such as a tensor that is only widened, for what another kernel reduces.
    """
    kept = dict.fromkeys(group.operations)
    dropped: list[Node] = []
    again = True
    while again and len(kept) > 1:
        again = False
        for node in reversed(list(kept)):
            if _cheaper_outside(node, kept):
                del kept[node]
                dropped.append(node)
                again = True
    return {n for n in dropped if any(source_of(a) in kept for a in n.all_input_nodes)}


def _cheaper_outside(node: Node, kept: Mapping[Node, None]) -> bool:
    """Whether only other kernels read a result, and could as well read what it is made of."""
    if node.target not in table.POINTWISE and node.target not in table.CASTS:
        return False
    readers = list(_readers(node))
    if not readers or any(r in kept or not _computes(r) for r in readers):
        return False
    made_of = [source_of(a) for a in node.all_input_nodes if value_of(a) is not None and not is_constant(a)]
    return all(
        a in kept and any(r is not node and r not in kept for r in _readers(a)) for a in made_of
    ) and sum(map(size_of, made_of)) <= size_of(node)


def better_behind(group: Group) -> list[Node]:
    """The operations that a product had better not do itself: less goes through memory without them.

    Example: a product's result enters the gradient of a norm. In the kernel of the product there is no sum
    along rows, so it would write three tensors in f32 for the sum; alone it writes one in bf16.
    """
    if not group.products:
        return []
    order = group.operations
    first = max(order.index(p) for p in group.products) + 1
    options = range(len(order), first - 1, -1)
    best = min(options, key=lambda k: _traffic(order[:k], order[k:]))
    return order[best:]


def _traffic(kept: Sequence[Node], rest: Sequence[Node]) -> int:
    """Bytes of results of a product's kernel, written and read, and of what is made behind it.

    Nothing of the rest is written for readers that make it themselves.
    """
    inside, total = set(kept), 0
    for node in kept:
        readers = [r for r in _readers(node) if r not in inside]
        if readers:
            total += size_of(node) * (2 if any(map(fusible, readers)) else 1)
    for node in rest:
        if not all(map(fusible, _readers(node))):
            total += size_of(node)
    return total


def _computes(node: Node) -> bool:
    """Whether a kernel that reads a tensor for this node could make the tensor itself."""
    return node.op == "call_function" and node.target not in table.PRODUCTS and not supported(node)


def _readers(node: Node) -> Iterator[Node]:
    """What reads a result, through views of it."""
    for user in node.users:
        if is_view(user):
            yield from _readers(user)
        else:
            yield user


class _Step:
    """What was made of some nodes in their order: a group, why there is none, or neither yet.

    ``further``: the same with one more node.
    """

    __slots__ = ("found", "further")

    def __init__(self) -> None:
        self.found: Group | str | None = None
        self.further: dict[Node, _Step] = {}


class _Grown:
    """Groups by what they were made of, and what they became: a search that starts again meets most of them
    again. A group that is here is not changed any more.

    Where some nodes do not fit, they do not fit with others behind them: two groups that cannot be one are
    tried again for every node that reads both.
    """

    def __init__(self) -> None:
        self._first = _Step()
        self._first.found = Group.empty()
        self._steps: dict[int, _Step] = {}
        self._translated: dict[int, Translation | UnfitError] = {}

    def with_node(self, group: Group, node: Node) -> Group:
        """A group of this one's nodes and another; UnfitError if one kernel cannot hold it."""
        return self._made(self._steps[id(group)], (node,))

    def of(self, nodes: Sequence[Node]) -> Group:
        """The group of these nodes, in this order; UnfitError."""
        return self._made(self._first, nodes)

    def _made(self, step: _Step, nodes: Sequence[Node]) -> Group:
        """What a step's group becomes with more nodes; what was made of the first of them is not again."""
        known, done = step.found, 0
        path: list[_Step] = []
        for node in nodes:
            step = step.further.setdefault(node, _Step())
            path.append(step)
            if isinstance(step.found, str):
                raise UnfitError(step.found)
            if step.found is not None:
                known, done = step.found, len(path)
        assert isinstance(known, Group)
        if done < len(nodes):
            known = known.copy()
            for node, step in zip(nodes[done:], path[done:], strict=True):
                try:
                    known.add(node)
                except UnfitError as e:
                    step.found = str(e)
                    raise UnfitError(step.found) from None
            step.found = known
            self._steps[id(known)] = step
        return known

    def translated(self, group: Group) -> Translation | UnfitError:
        """The fusion of a group that is here, or why there is none."""
        found = self._translated.get(id(group))
        if found is None:
            try:
                found = translate(group)
            except UnfitError as e:
                found = e
            self._translated[id(group)] = found
        return found


class _Search:
    """One pass over the graph: every node joins the groups of its arguments if that makes one kernel.

    ``fresh`` nodes do not, and start one of their own. ``behind``: products, and what is not in their group.
    ``grown``: groups that searches before this one made.
    ``needs`` holds, as bits by place, all that a node depends on, where a group depends on what any of its
    nodes does, and what is done in order on what is before it.
    """

    def __init__(
        self,
        nodes: list[Node],
        left: Mapping[Node, str],
        fresh: set[Node],
        behind: set[tuple[Node, Node]],
        grown: _Grown,
    ) -> None:
        self.nodes = nodes
        self.grown = grown
        self.fresh = fresh
        self.behind = behind
        self.left = left
        self.reasons: dict[Node, str] = {}
        self.place = {n: k for k, n in enumerate(nodes)}
        self.needs: dict[Node, int] = {}
        self.home: dict[Node, int] = {}
        self.members: dict[int, Group] = {}

    def groups(self) -> list[Group]:
        last: Node | None = None
        for k, node in enumerate(self.nodes):
            self.needs[node] = 1 << k
            for argument in node.all_input_nodes:
                self.needs[node] |= self.needs.get(argument, 0)
            if in_order(node):
                if last is not None:
                    self.needs[node] |= self.needs[last]
                last = node
            if node not in self.left and not is_view(node) and not is_constant(node):
                self._place(node)
        return list(self.members.values())

    def _place(self, node: Node) -> None:
        near = [] if node in self.fresh else self._near(node)
        options = [near, *([one] for one in near)] if len(near) > 1 else [near] if near else []
        for option in [*options, []]:
            try:
                group = self._joined(node, option)
            except UnfitError as e:
                self.reasons[node] = str(e)
                continue
            self._merge_homes(node, group, option)
            return

    def _near(self, node: Node) -> list[int]:
        """The groups of the arguments, the largest first."""
        found = {self.home[s] for s in map(source_of, node.all_input_nodes) if s in self.home}
        return sorted(found, key=lambda g: (-len(self.members[g].nodes), g))

    def _joined(self, node: Node, homes: list[int]) -> Group:
        """The group of a node and of those groups; UnfitError if one kernel cannot hold it."""
        if len(homes) == 1:
            group = self.grown.with_node(self.members[homes[0]], node)
        else:
            own = [n for g in homes for n in self.members[g].nodes if self.home.get(n) == g]
            group = self.grown.of(sorted([*own, node], key=self.place.__getitem__))
        if any((p, n) in self.behind for p in group.products for n in group.nodes):
            raise UnfitError("less goes through memory behind the product's kernel")
        bits = self._bits(group, node)
        for n in group.nodes:
            if any(self.needs.get(a, 0) & bits for a in n.all_input_nodes if a not in group.nodes):
                raise UnfitError("what it needs needs the kernel")
        return group

    def _bits(self, group: Group, node: Node) -> int:
        return sum(1 << self.place[n] for n in group.nodes if n in self.home or n is node)

    def _merge_homes(self, node: Node, group: Group, homes: Sequence[int]) -> None:
        number = self.place[node]
        for g in homes:
            for n in self.members.pop(g).nodes:
                if self.home.get(n) == g:
                    self.home[n] = number
        self.members[number] = group
        self.home[node] = number
        if not homes:  # nothing needs it yet
            return
        bits = self._bits(group, node)
        needs = 0
        for n in group.nodes:
            needs |= self.needs[n]
        for n, has in self.needs.items():
            if has & bits:
                self.needs[n] = has | needs


__all__ = ["Found", "Partition", "partition"]
