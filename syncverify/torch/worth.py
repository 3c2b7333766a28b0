"""Which contexts are worth a trial: what their kernels may gain, beside what their graph takes.

A trial compiles a context several times. Example: a context of 20 us in a graph of 20 ms gains at most
7 us, which nobody will see; one of the loss takes 400 us. Both numbers are estimates, from bytes and
operations alone. They decide what is tried, and in which order, never what is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from torch.fx import Graph, Node

from syncverify.torch import table
from syncverify.torch.context import Context
from syncverify.torch.region import Group, fusible, is_constant, is_item, is_view, size_of, value_of

#: Operations that a GPU does in a microsecond in products of bf16, and in attention.
_PRODUCTS, _ATTENTION = 600e6, 350e6
#: Parts of the time that a context's bytes take which kernels may save: most of it in long rows, which
#: Inductor reads twice; next to nothing in loops that only go over their elements.
_LONG_ROWS, _ROWS, _LOOPS = 1.0, 0.35, 0.05
#: The part of a product's time that a kernel for it alone may save.
_PRODUCT_ALONE = 0.06
#: The same of products of experts.
_EXPERTS = 0.3
#: From which number of elements on rows are long.
_LONG = 8192
#: What a context has to gain at best, as a part of its graph's time.
LEAST = 0.002
#: The same where proofs are late: a first compilation waits for them a while.
LATE = 0.03
#: What all of those of a graph that were missed have to gain at best: a process that calls the graph often
#: compiles it again for them.
LATER = 0.03
#: The same of kernels whose proofs came while Inductor compiled their graph, as timed. Then it is compiled
#: again at once, and Inductor finds most of its kernels in caches.
AGAIN = 0.01


def time_of(graph: Graph, bytes_per_us: float) -> float:
    """Microseconds of a graph: its products and attentions, and what lies in memory written and read."""
    total = 0.0
    for node in graph.nodes:
        if node.op == "output" or is_view(node) or is_item(node) or is_constant(node):
            continue
        total += _operations(node)
        if not fusible(node) or any(not fusible(user) for user in node.users):
            total += 2 * size_of(node) / bytes_per_us
    return total


def _operations(node: Node) -> float:
    """Microseconds of a node's own arithmetic, where that is much."""
    name = str(getattr(node.target, "__name__", ""))
    tensors = [x for x in map(value_of, node.all_input_nodes) if x is not None]
    if node.target == table.GROUPED and len(tensors) > 1:
        # the second factor is one for each expert, or is divided among them as the first one is
        result, inner = value_of(node), tensors[1].shape[-2]
        return 2.0 * _count(result.shape[1 - tensors[1].dim() :]) * _count([inner]) / _PRODUCTS
    if node.target in table.PRODUCTS or name.startswith("bmm"):
        result = value_of(node)
        return 2.0 * _count(result.shape) * _count(tensors[-1].shape[-2:-1]) / _PRODUCTS if tensors else 0.0
    if "attention" in name and len(tensors) > 2:
        often = 10.0 if "backward" in name else 4.0
        return often * _count(tensors[1].shape) * _count(tensors[0].shape[-2:-1]) / _ATTENTION
    return 0.0


def _count(shape: Sequence[Any]) -> int:
    return prod(
        int(hint) for n in shape if (hint := getattr(getattr(n, "node", None), "hint", n)) is not None
    )


def gain_of(context: Context, groups: Sequence[Group], bytes_per_us: float) -> float:
    """Microseconds that kernels for a context's groups may save at best."""
    if len(context.nodes) == 1 and context.nodes[0].target == table.GROUPED:
        return _EXPERTS * _operations(context.nodes[0])
    if len(context.nodes) == 1 and context.nodes[0].target in table.PRODUCTS:
        return _PRODUCT_ALONE * max(_operations(context.nodes[0]), _bytes(context) / bytes_per_us)
    traffic = _bytes(context)
    traffic += 2 * sum(size_of(p) for g in groups for p in g.products)
    share = _LOOPS if _added_anyway(groups) else max(map(_share, groups))
    return share * traffic / bytes_per_us


def _added_anyway(groups: Sequence[Group]) -> bool:
    """Whether all that groups save is a sum behind a product that rows read: Inductor's loop of the rows
    adds, too, and writes the sum once.

    Example: a block's last product, its residual and the next norm. Of 13 such contexts of five models none
    was faster with kernels.
    """
    sums, rows = [g for g in groups if g.products], [g for g in groups if not g.products]
    return bool(sums and rows) and all(map(_only_adds, sums)) and all(map(_reads_one, rows))


def _only_adds(group: Group) -> bool:
    known = {*table.PRODUCTS, *table.CASTS, table.aten.add.Tensor}
    return all(n.target in known or is_view(n) for n in group.operations)


def _reads_one(group: Group) -> bool:
    """Whether a group reads one large tensor: a gradient of a norm reads two."""
    sizes = [size_of(leaf) for leaf in group.leaves]
    return sum(2 * size > max(sizes) for size in sizes) == 1


def _bytes(context: Context) -> int:
    return sum(map(size_of, (*context.arguments, *context.outputs)))


def _share(group: Group) -> float:
    rows = [n for n in group.operations if n.target in table.REDUCTIONS or n.target in table.PAIRS]
    lengths = [_row(n) for n in rows]
    if lengths and max(lengths) >= _LONG:
        return _LONG_ROWS
    return _ROWS if rows or group.products else _LOOPS


def _row(node: Node) -> float:
    """Elements that become one of a node's result."""
    result = node.meta.get("val")
    first = result[0] if isinstance(result, (tuple, list)) else result
    source = next((x for x in map(value_of, node.all_input_nodes) if x is not None), None)
    return 0.0 if source is None or first is None else _count(source.shape) / max(1, _count(first.shape))


__all__ = ["AGAIN", "LATE", "LATER", "LEAST", "gain_of", "time_of"]
