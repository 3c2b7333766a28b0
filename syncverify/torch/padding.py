"""Tensors that a graph pads: one padded copy for all products that need one.

Inductor pads factors whose rows are no multiple of 16 bytes, each product for itself, and leaves some as they
are. Example: the gradient ``g`` of 30522 logits is ``constant_pad_nd(g, [0, 6, 0, 0])`` for one product, and
``permute(g)`` for another, whose kernel would copy it once more. The second one takes the padded tensor, too,
and the first 30522 rows of its result. A padded ``permute(g)`` becomes the ``permute`` of the padded tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from syncverify.torch.graphs import sort
from syncverify.torch.layouts import ALIGNMENT
from syncverify.torch.table import aten

_PAD, _TURN, _SLICE = aten.constant_pad_nd.default, aten.permute.default, aten.slice.Tensor
_TURNS = frozenset({_TURN, aten.t.default, aten.transpose.int})


def padded_once(graph: Graph) -> int:
    """Lets products share padded tensors; how many nodes read another one's now."""
    longer = {n.args[0]: n for n in graph.nodes if n.target is _PAD and _lengthened(n)}
    count = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or not node.args:
            continue
        source = _turned(node.args[0])
        twin = None if source is None else longer.get(source)
        if twin is None:
            continue
        if _is_turned(node, twin):
            node.replace_all_uses_with(_call(graph, node, _TURN, twin, [1, 0]))
        elif node.target is aten.mm.default and not node.kwargs:
            _by_rows(graph, node, twin)
        else:
            continue
        graph.erase_node(node)
        count += 1
    if count:
        sort(graph)
        graph.eliminate_dead_code()
    return count


def _by_rows(graph: Graph, node: Node, twin: Node) -> None:
    """The first rows of the product of a longer left factor, in the place of a product."""
    rows = node.meta["val"].shape[0]
    left = _call(graph, node, _TURN, twin, [1, 0])
    product = _call(graph, node, aten.mm.default, left, node.args[1])
    node.replace_all_uses_with(_call(graph, node, _SLICE, product, 0, 0, rows))


def _is_turned(node: Node, twin: Node) -> bool:
    """Whether a node is the transpose of a padded tensor, and only products read it: it lies otherwise."""
    below, right, value = _amounts(twin)
    same = node.target is _PAD and _amounts(node) == (right, below, value)
    return same and all(user.target is aten.mm.default for user in node.users)


def _lengthened(pad: Node) -> bool:
    """Whether a matrix gets longer rows, and nothing else, so that they are multiples of 16 bytes."""
    values = [n.meta.get("val") for n in (pad.args[0], pad) if isinstance(n, Node)]
    tensors = [x for x in values if isinstance(x, torch.Tensor) and x.dim() == 2]
    if len(tensors) < 2 or not all(isinstance(n, int) for x in tensors for n in x.shape):
        return False
    if not _amounts(pad):
        return False
    below, right = _amounts(pad)[:2]
    units = [x.shape[1] * x.element_size() % ALIGNMENT for x in tensors]
    return bool(below == 0 < right and units[0] and not units[1])


def _amounts(pad: Node) -> tuple[Any, ...]:
    """Rows below, columns to the right, and what is put there; nothing where a matrix grows at other ends."""
    ends = pad.args[1] if len(pad.args) > 1 else ()
    if not isinstance(ends, Sequence) or not all(isinstance(n, int) for n in ends):
        return ()
    left, right, above, below = (*ends, *(0,) * (4 - len(ends)))[:4]
    return (below, right, _value(pad)) if len(ends) <= 4 and left == above == 0 else ()


def _value(pad: Node) -> Any:
    return pad.args[2] if len(pad.args) > 2 else pad.kwargs.get("value", 0)


def _turned(x: Any) -> Node | None:
    """The matrix whose rows are the columns of a tensor, if the graph says so."""
    if not isinstance(x, Node) or x.target not in _TURNS or not isinstance(x.args[0], Node):
        return None
    value = x.args[0].meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() != 2:
        return None
    if x.target is aten.t.default:
        return x.args[0]
    axes = x.args[1:] if x.target is aten.transpose.int else x.args[1]
    places = [int(a) % 2 for a in axes]
    return x.args[0] if places == [1, 0] or (x.target is aten.transpose.int and places == [0, 1]) else None


def _call(graph: Graph, before: Node, target: Any, *args: Any) -> Node:
    """A new node in front of another, with what it computes for tensors without elements."""
    with graph.inserting_before(before):
        made = graph.call_function(target, args)
    made.meta["val"] = target(*(a.meta["val"] if isinstance(a, Node) else a for a in args))
    return made


__all__ = ["padded_once"]
