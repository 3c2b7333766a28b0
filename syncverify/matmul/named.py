"""What kernels of products call the inputs and results of an epilogue: not as they call their own things."""

from __future__ import annotations

import re
from dataclasses import replace

import networkx as nx

from syncverify.fusion.graph import Fusion

#: Registers, parameters, tensors and barriers of the lowering and of the passes behind it.
OWN = frozenset(
    """
    acc acc2 a b b2 experts B E M N K steps tiles_m tiles_n turns share teams blocks full empty order final
    begin behind c col count end first follow h high i inner_c inner_r inside j join k last number ours p
    part phase r row s skip slot stage sum team theirs tile turn wg whole sums semaphore partial_sums a_frag
    elected consumed each more matrix tiles
    """.split()
)
#: Buffers, tensor maps and registers of inputs, and numbered registers.
_DERIVED = re.compile(r"\w+_(tile|map|v|slot|phase|parity)\d*|[a-z]+_?\d+")


def kernel_name(name: str) -> str:
    return f"{name}_" if name in OWN or _DERIVED.fullmatch(name) else name


def renamed(f: Fusion, kept: tuple[str, ...]) -> Fusion:
    """The epilogue under names that its kernel can have; ``kept``: the products."""
    taken = [*dict(f.inputs), *(o.name for o in f.outputs)]
    called: dict[str, str] = {}
    for n in taken:
        inner = n if n in kept else kernel_name(n)
        while inner != n and (inner in taken or inner in called.values()):
            inner += "_"
        called[n] = inner
    if all(n == inner for n, inner in called.items()):
        return f
    graph = nx.DiGraph()
    graph.add_nodes_from((i, dict(f.graph.nodes[i])) for i in f.graph)
    graph.add_edges_from(f.graph.edges)
    for i in graph:
        node = graph.nodes[i]["node"]
        if node.op == "input":
            graph.nodes[i]["node"] = replace(node, name=called[node.name])
    return replace(
        f,
        inputs=tuple((called[n], t) for n, t in f.inputs),
        outputs=tuple(replace(o, name=called[o.name]) for o in f.outputs),
        graph=graph,
        called=tuple((n, called[inner]) for n, inner in f.called),
    )


__all__ = ["OWN", "renamed"]
