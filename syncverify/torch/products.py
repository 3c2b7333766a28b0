"""Products of matrices that no other kernel took: candidates of their own, beside the library's call.

Inductor calls a library for a product and fuses nothing with it, unless it tunes products itself. So it is
timed alone, as both would be called: with a result that was planned before. Nothing is compiled for that.
Example: the gradient of a weight is one product; three layers have three alike, timed once.

A kernel of two products writes all that others need of both, which may cost more than it saves. Example: for
its gradient, SwiGLU writes both products and their combination. ``halves``: the first product alone, and a
kernel of the second one that reads the first one's result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any

import torch
from torch.fx import GraphModule, Node

from syncverify.torch import experts, operators, table
from syncverify.torch.candidate import Candidate, candidate
from syncverify.torch.choice import Run, SlowerError
from syncverify.torch.dims import UnfitError
from syncverify.torch.partition import Found
from syncverify.torch.region import Group, supported
from syncverify.torch.runners import Runner
from syncverify.torch.translate import translate


def products_alone(module: GraphModule, taken: Set[Node], runner: Runner) -> list[Candidate]:
    """The products of a graph that are not among the taken nodes, and that one kernel can compute."""
    plain = [
        candidate(found, runner)
        for node in module.graph.nodes
        if node.op == "call_function" and node.target in table.PRODUCTS and node not in taken
        for found in _found(node)
    ]
    return [*plain, *experts.of_experts(module, taken, runner)]


def _found(node: Node) -> Iterator[Found]:
    if supported(node) or node.kwargs or not all(isinstance(a, Node) for a in node.args):
        return
    try:
        group = Group.of([node])
        yield Found(group, translate(group))
    except UnfitError:
        return


def halves(candidates: Iterable[Candidate], runner: Runner) -> list[Candidate]:
    """Of each group of two products, the second one with what follows: the first one's result is read."""
    found: list[Candidate] = []
    for c in candidates:
        group = c.found.group
        if len(group.products) < 2:
            continue
        first = group.products[0]
        with contextlib.suppress(UnfitError):
            half = Group.of([n for n in group.operations if n is not first])
            found.append(candidate(Found(half, translate(half)), runner))
    return found


def library_call(c: Candidate) -> Run:
    """The product of a candidate by torch's library, into a tensor that is there; SlowerError."""
    if isinstance(c, experts.ExpertsCandidate):
        return experts.library_call(c)
    (node,) = c.found.group.operations
    function = getattr(torch, node.target.overloadpacket.__name__)
    return _planned(c, lambda given, out: function(*given, out=out), node.args)


def kernel_call(c: Candidate) -> Run:
    """The same by the candidate's kernel, whose operator has been made; SlowerError."""
    if isinstance(c, experts.ExpertsCandidate):
        return experts.kernel_call(c)
    fused = operators.fused_of(c.name)
    return _planned(c, lambda given, out: fused.into(*given, out=out), c.arguments)


def _planned(c: Candidate, call: Callable[[list[Any], Any], Any], wanted: Sequence[Any]) -> Run:
    value = c.found.translation.outputs[0].meta["val"]
    if not all(isinstance(n, int) for n in (*value.shape, *value.stride())):
        raise SlowerError("its sizes are symbols")
    shape, strides, dtype, device = tuple(value.shape), value.stride(), value.dtype, c.device
    places = [c.arguments.index(a) for a in wanted]

    def run(given: Sequence[Any]) -> Any:
        out = torch.empty_strided(shape, strides, dtype=dtype, device=device)
        call([given[k] for k in places], out)
        return out

    return run


__all__ = ["halves", "kernel_call", "library_call", "products_alone"]
