"""Graphs with operators in the place of groups: shared, put in, sorted, and losses taken apart."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Graph, Node

from syncverify.torch.dims import UnfitError
from syncverify.torch.losses import PLAIN
from syncverify.torch.region import is_view, value_of

#: An argument that no operator has: it tells draws apart while equal nodes are joined.
_DRAW = "syncverify_draw"


def shared(graph: Graph) -> Graph:
    """A copy in which equal nodes are one, but for those that draw random numbers: each draws its own.

    Torch's own list of such operators is shorter than what has their tag. Example: ``torch.normal(x, x)``.
    """
    from torch._functorch.compile_utils import fx_graph_cse

    random = [n for n in graph.nodes if torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ())]
    for k, node in enumerate(random):
        node.kwargs = {**node.kwargs, _DRAW: k}
    try:
        found = fx_graph_cse(graph)
    finally:
        for node in random:
            node.kwargs = _without_draw(node)
    for node in found.nodes:
        if _DRAW in node.kwargs:
            node.kwargs = _without_draw(node)
    return found


def _without_draw(node: Node) -> dict[str, Any]:
    return {k: a for k, a in node.kwargs.items() if k != _DRAW}


def replace(
    graph: Graph,
    group: Sequence[Node],
    arguments: Sequence[Node],
    outputs: Sequence[Node],
    op: Any,
    moved: dict[Node, Node],
    copies: Mapping[Node, Node] | None = None,
) -> None:
    """Puts an operator into the place of a group. ``moved``: what represents the results of earlier ones.

    ``copies``: what became of the nodes in a graph other than their own.
    """

    def own(node: Node) -> Node:
        return node if copies is None else copies[node]

    nodes = {own(n) for n in group}
    given = [moved.get(own(a), own(a)) for a in arguments]
    with graph.inserting_before(own(group[0])):
        single = len(outputs) == 1
        value = value_of(outputs[0]) if single else tuple(map(value_of, outputs))
        call = call_of(graph, op, given, value)
    for k, node in enumerate(outputs):
        item = call
        if not single:
            with graph.inserting_after(call):
                item = graph.call_function(operator.getitem, (call, k))
            item.meta["val"] = value_of(node)
        moved[own(node)] = item
        for user in list(own(node).users):
            if user not in nodes or is_view(user):
                user.replace_input_with(own(node), item)


def call_of(graph: Graph, op: Any, given: Sequence[Node], value: Any) -> Node:
    """A call of an operator, where the graph's next node is put, with what it makes."""
    call = graph.call_function(op, tuple(given))
    call.meta["eager_input_vals"] = (tuple(a.meta["val"] for a in given), {})
    call.meta["val"] = value
    return call


def inserted(graph: Graph, function: Callable[..., Any], tensors: Sequence[Node]) -> list[Node]:
    """The results of a function of torch, as nodes where the graph's next node is put."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._guards import detect_fake_mode
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    values = [a.meta["val"] for a in tensors]
    mode: Any = detect_fake_mode(values)
    with mode, enable_python_dispatcher():
        trace: Any = make_fx(function, decomposition_table=select_decomp_table())
        parts = trace(*values)
    copies = dict(zip((n for n in parts.graph.nodes if n.op == "placeholder"), tensors, strict=True))
    for part in parts.graph.nodes:
        if part.op == "call_function":
            copies[part] = graph.node_copy(part, copies.__getitem__)
        elif part.op == "get_attr":
            raise UnfitError("a function with tensors of its own")
    (made,) = (n.args[0] for n in parts.graph.nodes if n.op == "output")
    return [copies[n] for n in ((made,) if isinstance(made, Node) else made)]


def expand(graph: Graph) -> None:
    """Takes apart the operators of losses that no kernel holds: Inductor compiles their parts."""
    for node in [n for n in graph.nodes if n.target in PLAIN]:
        tensors = [a for a in node.args if isinstance(a, Node)]
        places = {k: tensors.index(a) for k, a in enumerate(node.args) if isinstance(a, Node)}

        def function(*given: Any, node: Node = node, places: dict[int, int] = places) -> Any:
            args = [given[places[k]] if k in places else a for k, a in enumerate(node.args)]
            return PLAIN[node.target](*args)

        with graph.inserting_before(node):
            made = inserted(graph, function, tensors)
        if isinstance(node.meta["val"], torch.Tensor):
            node.replace_all_uses_with(made[0])
        else:
            for item in list(node.users):
                item.replace_all_uses_with(made[item.args[1]])
                graph.erase_node(item)
        graph.erase_node(node)


def sort(graph: Graph) -> None:
    """Puts every node behind its arguments, and changes the order no more than that.

    What writes to an argument stays behind all that came before it. What is done in order (``in_order``)
    stays in it, as far as arguments allow.
    """
    order = list(graph.nodes)
    waits = {n: set(n.all_input_nodes) for n in order}
    for k, node in enumerate(order):
        if node.op == "output" or _writes(node):
            waits[node] |= set(order[:k])
    chain = {later: {one} | waits[later] for one, later in pairwise(filter(in_order, order))}
    found = _sorted(order, {**waits, **chain}) or _sorted(order, waits)
    if found is None:
        raise RuntimeError("a cycle in a graph with kernels: please report it")
    for one, later in pairwise(found):
        one.append(later)


def in_order(node: Node) -> bool:
    """Whether what a node does depends on how many such nodes are before it.

    Operators that draw random numbers go on where the last one ended. Collective operators meet those of
    other processes, which may have taken other kernels: in each they have to come in one order.
    """
    if node.op != "call_function":
        return False
    tags, namespace = getattr(node.target, "tags", ()), getattr(node.target, "namespace", "")
    return torch.Tag.nondeterministic_seeded in tags or (isinstance(namespace, str) and "c10d" in namespace)


def _sorted(order: Sequence[Node], waits: Mapping[Node, Set[Node]]) -> list[Node] | None:
    """The nodes, each behind those that it waits for, and else in their order; None where they go round."""
    place = {n: k for k, n in enumerate(order)}
    needed: dict[Node, list[Node]] = {n: [] for n in order}
    for node, others in waits.items():
        for other in others:
            needed[other].append(node)
    left = {n: len(others) for n, others in waits.items()}
    free = [place[n] for n in order if not left[n]]
    heapq.heapify(free)
    found: list[Node] = []
    while free:
        node = order[heapq.heappop(free)]
        found.append(node)
        for user in needed[node]:
            left[user] -= 1
            if not left[user]:
                heapq.heappush(free, place[user])
    return None if any(left.values()) else found


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return bool(node.op == "call_function" and schema is not None and schema.is_mutable)


__all__ = ["call_of", "expand", "in_order", "inserted", "replace", "shared", "sort"]
