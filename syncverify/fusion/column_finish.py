"""The second kernel of a reduction over rows: what strips of them made, reduced, and its results."""

from __future__ import annotations

from typing import Any

import networkx as nx

from syncverify.fusion import online
from syncverify.fusion.columns import ColumnKernel, partial_tensor
from syncverify.fusion.functions import REDUCTIONS
from syncverify.fusion.graph import Fusion, Node, Tensor
from syncverify.fusion.lower import stored_node

#: The dimension that counts strips.
STRIPS = "strips_"


def finish(kernel: ColumnKernel) -> Fusion | None:
    """The fusion of what the strips made; None where no output needs it."""
    f, flow = kernel.fusion, kernel.flow
    outputs = [o for o in f.outputs if flow.depth[stored_node(f, o)] > 0]
    if not outputs:
        return None
    builder = _Builder(f, kernel)
    for s in kernel.steps.get(0, []):
        builder.statistic(s)
    for i in flow.live:
        if f.node(i).op not in REDUCTIONS and not flow.wide(i):
            builder.copy(i)
    targets = {o.node for o in outputs}
    for o in outputs:
        if o.node not in builder.graph:
            builder.copy(o.node)
    needed = targets.union(*(nx.ancestors(builder.graph, t) for t in targets))
    graph = builder.graph.subgraph(needed).copy()
    names = {graph.nodes[i]["node"].name for i in graph}
    kept = [(n, t) for n, t in builder.inputs if n in names]
    dims = builder.dims
    return Fusion(f"{f.name}_strips", tuple(kept), tuple(outputs), dims, graph, f.span)


class _Builder:
    """The graph of the second kernel; nodes of the first one keep their numbers."""

    def __init__(self, fusion: Fusion, kernel: ColumnKernel) -> None:
        self.fusion, self.kernel = fusion, kernel
        self.graph: Any = nx.DiGraph()
        self.inputs = list(fusion.inputs)
        self.next: int = max(fusion.graph) + 1
        strips = () if kernel.adding else (STRIPS,)
        self.dims = (*kernel.batch, *strips, kernel.inner)

    def copy(self, i: int) -> None:
        node = self.fusion.node(i)
        self.graph.add_node(i, **self.fusion.graph.nodes[i])
        self.graph.add_edges_from((a, i) for a in node.args)

    def add(self, op: str, *args: int, at: int | None = None, **fields: Any) -> int:
        """A node, as number ``at`` if given."""
        i = self.next if at is None else at
        self.next += at is None
        node = Node(op, args, **fields)
        found = {d for a in args for d in self.graph.nodes[a]["dims"]} - {node.dim}
        dims = tuple(d for d in self.dims if d in found)
        self.graph.add_node(i, node=node, dims=dims, kind="bool" if op == "eq" else "float")
        self.graph.add_edges_from((a, i) for a in args)
        return i

    def partial(self, register: str, at: int | None = None) -> int:
        """What the strips made of a register, as an input; as node number ``at`` if given."""
        name = partial_tensor(register)
        self.inputs.append((name, Tensor("f32", self.dims)))
        i = self.next if at is None else at
        self.next += at is None
        self.graph.add_node(i, node=Node("input", name=name), dims=self.dims, kind="float")
        return i

    def total(self, op: str, of: int, at: int | None = None) -> int:
        return self.add(op, of, at=at, dim=STRIPS)

    def statistic(self, s: online.Statistic) -> None:
        if self.kernel.adding:
            (register,), (made,) = s.registers, s.nodes
            self.partial(register, made)
            return
        parts = [self.partial(r) for r in s.registers]
        match s:
            case online.One(node, op):
                self.total(op, parts[0], node)
            case online.Exponentials(largest, total):
                m = self.total("reduce.max", parts[0], largest)
                infinite = self.add("eq", m, self.add("const", value=float("-inf")))
                base = self.add("where", infinite, self.add("const", value=0.0), m)
                scaled = self.add("mul", parts[1], self.add("exp", self.add("sub", parts[0], base)))
                found = self.total("reduce.add", scaled)
                self.add("add", found, self.add("sub", m, m), at=total)
            case online.Squares(total, squares):
                sums, seen, means, about = parts
                self.total("reduce.add", sums, total)
                count = self.total("reduce.add", seen)
                mean = self.add("div", self.total("reduce.add", self.add("mul", seen, means)), count)
                away = self.add("sub", means, mean)
                more = self.add("mul", self.add("mul", seen, away), away)
                self.total("reduce.add", self.add("add", about, more), squares)


__all__ = ["STRIPS", "finish"]
