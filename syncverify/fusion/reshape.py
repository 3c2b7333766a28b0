"""Neighbouring dimensions that a fusion only uses together become one: the arrays lie in memory alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import networkx as nx

from syncverify.fusion.functions import REDUCTIONS
from syncverify.fusion.graph import Fusion, Node, Tensor

#: Operations that name a place along a dimension.
_PLACES = ("index", "take", "rotate.pairs", "rotate.halves")


@dataclass(frozen=True)
class Merged:
    """A fusion of fewer dimensions. ``pairs``: new dimension, and the two that it is made of, in order.

    One that is made of none (``""``) has one place: a number has a kernel so.
    """

    fusion: Fusion
    pairs: tuple[tuple[str, str, str], ...] = ()

    def sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The extents of all dimensions, the new ones included."""
        known = dict(sizes)
        for new, a, b in self.pairs:
            known[new] = prod(known[d] for d in (a, b) if d)
        return known


def merged(fusion: Fusion) -> Merged:
    """The fusion with all pairs of dimensions merged that can be."""
    pairs: list[tuple[str, str, str]] = []
    while True:
        # the innermost first, as sizes are multiplied
        neighbours = list(zip(fusion.dims, fusion.dims[1:], strict=False))[::-1]
        found = next((p for p in neighbours if _alike(fusion, *p)), None)
        if found is None:
            return Merged(fusion, tuple(pairs))
        new = "_".join(found)
        while new in fusion.dims or new in dict(fusion.inputs):
            new += "_"
        pairs.append((new, *found))
        fusion = _joined(fusion, *found, new)


def _alike(fusion: Fusion, a: str, b: str) -> bool:
    """Whether two neighbouring dimensions occur together, and are reduced together."""
    shapes = [t.dims for _, t in fusion.inputs] + [o.dims for o in fusion.outputs]
    for dims in shapes:
        if (a in dims) != (b in dims) or (a in dims and dims.index(b) != dims.index(a) + 1):
            return False
    nodes = {i: fusion.node(i) for i in fusion.graph}
    if any(n.op in _PLACES and (n.dim in (a, b) or n.op.startswith("rotate")) for n in nodes.values()):
        return False
    inner = [i for i, n in nodes.items() if n.op in REDUCTIONS and n.dim == b]
    if inner and fusion.dims == (a, b):
        return False  # one row of everything: a single block would reduce it
    outer = [i for i, n in nodes.items() if n.op in REDUCTIONS and n.dim == a]
    stored = {o.node for o in fusion.outputs}
    for i in inner:
        users = list(fusion.graph.successors(i))
        if i in stored or len(users) != 1 or users[0] not in outer or nodes[users[0]].op != nodes[i].op:
            return False
    return all(nodes[i].args[0] in inner for i in outer)


def _joined(fusion: Fusion, a: str, b: str, new: str) -> Fusion:
    def dims(old: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new if d == b else d for d in old if d != a)

    nodes = {i: fusion.node(i) for i in fusion.graph}
    dropped = {i for i, n in nodes.items() if n.op in REDUCTIONS and n.dim == b}
    changed: dict[int, Node] = {}
    for i, n in nodes.items():
        if n.op in REDUCTIONS and n.dim == a:
            changed[i] = replace(n, args=nodes[n.args[0]].args, dim=new)
        elif n.op == "mul" and {nodes[x] for x in n.args} == {Node("size", dim=a), Node("size", dim=b)}:
            changed[i] = Node("size", dim=new)
        elif i not in dropped:
            changed[i] = n
    graph: Any = nx.DiGraph()
    for i, n in changed.items():
        graph.add_node(i, **{**fusion.graph.nodes[i], "node": n, "dims": dims(fusion.dims_of(i))})
        graph.add_edges_from((x, i) for x in n.args)
    inputs = tuple((name, Tensor(t.dtype, dims(t.dims))) for name, t in fusion.inputs)
    outputs = tuple(replace(o, dims=dims(o.dims)) for o in fusion.outputs)
    return Fusion(fusion.name, inputs, outputs, dims(fusion.dims), graph, fusion.span)


__all__ = ["Merged", "merged"]
