"""One group of nodes of a torch graph that a kernel may hold: which axes of its tensors are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from syncverify.torch import table
from syncverify.torch.dims import Axes, Axis, Space, UnfitError, extent
from syncverify.torch.losses import CHOSEN, PLACED

#: The most tensors of a group that are read or written as a whole: each takes shared memory.
MOST_TENSORS = 12
#: Bytes that readers may read to make a tensor again, by its own: it would be written and read, twice in all.
_AGAIN = 2.1
#: The most elements that are reduced by a kernel of a single row: one block does all of it.
MOST_OF_ONE_ROW = 32768


class BarredError(UnfitError):
    """A group that cannot be compiled while it holds certain nodes."""

    def __init__(self, reason: str, nodes: Iterable[Node]) -> None:
        super().__init__(reason)
        self.nodes = tuple(nodes)


def value_of(node: Node) -> Any:
    """The fake tensor that a node makes, or None."""
    found = node.meta.get("val")
    return found if isinstance(found, torch.Tensor) else None


def tensor_args(node: Node) -> list[Node]:
    """The arguments of a node that are tensors, or that are made of one number."""
    return [a for a in node.all_input_nodes if isinstance(a.meta.get("val"), (torch.Tensor, tuple, list))]


def is_constant(node: Node) -> bool:
    return node.op == "call_function" and constant(node) is not None


def constant(node: Node) -> float | None:
    """The number that a node fills its tensor with."""
    at = table.CONSTANTS.get(node.target)
    if at is None or len(node.args) <= at or value_of(node) is None:
        return None
    number = node.args[at]
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    return float(number) if value_of(node).dtype in table.DTYPES else None


def is_view(node: Node) -> bool:
    """Whether a node is its first argument's elements in their order."""
    return node.op == "call_function" and node.target in table.VIEWS


def is_item(node: Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem"


#: Operators that end in a call of a library, or that Inductor does not fuse: their tensors are in memory.
_APART = (
    "mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "_scaled_mm", "_grouped_mm",
    "scatter", "index_put", "sort", "topk", "cumsum", "embedding_dense_backward", "copy_",
)  # fmt: skip


def fusible(node: Node) -> bool:
    """Whether Inductor makes loops of a node, and so could fuse it with others."""
    if node.op != "call_function" or is_item(node) or is_constant(node) or is_view(node):
        return False
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace not in ("aten", "prims"):
        return False
    name = target._schema.name.split("::")[1]
    return name not in _APART and "attention" not in name


def supported(node: Node) -> str:
    """Why no kernel can hold this node, or an empty string."""
    if node.op != "call_function":
        return "no function"
    target = node.target
    if is_item(node):
        source = node.args[0]
        return "" if isinstance(source, Node) and source.target in table.PAIRS else "part of a tuple"
    known = (
        target in table.POINTWISE or target in table.REDUCTIONS or target in table.PAIRS
        or target in table.PRODUCTS or target in table.CASTS or target in (table.GATHER, PLACED)
        or is_view(node)
    )  # fmt: skip
    if not known:
        return "" if is_constant(node) else "fusions have no such function"
    result = node.meta.get("val")
    results = result if isinstance(result, (tuple, list)) else [result]
    for r in results:
        if not isinstance(r, torch.Tensor):
            return "its result is no tensor"
        if r.dtype not in table.DTYPES and not (r.dtype is torch.bool and target in table.POINTWISE):
            return f"its result is {str(r.dtype).removeprefix('torch.')}"
    return _odd(node)


def _odd(node: Node) -> str:
    """What of a known function's arguments a kernel does not do."""
    if node.target in table.PRODUCTS:
        factors = [value_of(a) for a in node.args[-2:] if isinstance(a, Node)]
        if any(f is None or f.dtype not in (torch.bfloat16, torch.float16) for f in factors):
            return "products are of bf16 or f16"
        if not all(isinstance(node.kwargs.get(k, 1), (int, float)) for k in ("beta", "alpha")):
            return "a factor of a sum that is known at run time only"
    if node.target in table.POINTWISE:
        row = table.POINTWISE[node.target]
        if (row.gives == "c") != (value_of(node).dtype is torch.bool):
            return "arithmetic of booleans"
    if node.target in table.CASTS or node.target in table.ALIASES:
        source = value_of(node.args[0]) if isinstance(node.args[0], Node) else None
        if source is None or source.device != value_of(node).device:
            return "a copy to another device"
        if node.kwargs.get("memory_format") not in (None, torch.preserve_format, torch.contiguous_format):
            return "a copy to another memory format"
    return ""


def _each(axes: Any) -> Iterable[Axes]:
    """The axes of a node's results, of which there may be several."""
    return axes if isinstance(axes, list) else [axes]


@dataclass
class FlatTensors:
    """The kinds of a group's tensors, as atoms outermost first: kept while a group grows node by node.

    ``splits`` and ``count``: how many atoms were split, and how many nodes had axes, when they were found.
    """

    tensors: dict[Axis, None] = field(default_factory=dict)
    splits: int = 0
    count: int = 0
    reduced: Axis = ()

    def copy(self) -> FlatTensors:
        return FlatTensors(dict(self.tensors), self.splits, self.count, self.reduced)

    def update(self, space: Space, axes: dict[Node, Any], reduced: Axis) -> bool:
        """Takes in what is new; whether there was a new kind of tensor, or of reduction."""
        before = len(self.tensors)
        split = space.splits != self.splits
        if split:
            self.tensors, self.count, self.splits = {}, 0, space.splits
        for node_axes in islice(axes.values(), self.count, None):
            self.tensors.update(dict.fromkeys(map(space.flat, _each(node_axes))))
        changed = split or len(self.tensors) != before or reduced != self.reduced
        self.count, self.reduced = len(axes), reduced
        return changed


@dataclass
class Group:
    """Nodes that were found to fit together.

    ``axes`` holds those of nodes and leaves; a leaf is a tensor that comes from outside. ``reduced`` is what
    rows are reduced along, ``products`` the matrix product that it starts from, or two of one left factor.
    """

    space: Space
    axes: dict[Node, Any]
    leaves: dict[Node, None]
    nodes: dict[Node, None]
    reduced: Axis = ()
    products: tuple[Node, ...] = ()
    _flat: FlatTensors = field(default_factory=FlatTensors, repr=False)

    @classmethod
    def empty(cls) -> Group:
        return cls(Space(), {}, {}, {})

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Group:
        group = cls.empty()
        for node in nodes:
            group.add(node)
        return group

    def copy(self) -> Group:
        axes, leaves, nodes = dict(self.axes), dict(self.leaves), dict(self.nodes)
        return Group(self.space.copy(), axes, leaves, nodes, self.reduced, self.products, self._flat.copy())

    @property
    def operations(self) -> list[Node]:
        """The nodes that compute something."""
        return [n for n in self.nodes if not (is_view(n) or is_constant(n) or is_item(n))]

    def add(self, node: Node) -> None:
        """Takes a node in; raises UnfitError, and is then of no use any more."""
        device = value_of(node).device if value_of(node) is not None else None
        for other in tensor_args(node):
            x = value_of(other)
            if x is not None and device is not None and x.device != device and not is_constant(other):
                raise UnfitError("tensors on several devices")
        if node in self.axes:  # a view that was seen through before
            self._flat = FlatTensors()
        self.axes[node] = self._typed(node)
        self.nodes[node] = None
        reduced = self.space.resolve(self.reduced)
        if self._flat.update(self.space, self.axes, reduced):
            self.space.order((flat,) for flat in self._flat.tensors)
            for flat in self._flat.tensors:
                self._reduced_last(flat, reduced)
        self._same_for_each_matrix()
        if len(self.leaves) > MOST_TENSORS:
            raise UnfitError(f"more than {MOST_TENSORS} tensors are read")

    def tensors(self) -> list[Axes]:
        """The axes of all tensors of the group."""
        return [one for axes in self.axes.values() for one in _each(axes)]

    def _reduced_last(self, flat: Axis, reduced: Axis) -> None:
        """What is reduced lies innermost in every tensor that has all of it."""
        if reduced and set(reduced) <= set(flat) and flat[-len(reduced) :] != reduced:
            raise UnfitError("a reduction along other dimensions than the innermost")

    @property
    def batch(self) -> Axis | None:
        """The axis of a batched product's matrices; None without one."""
        if not self.products or self.products[0].target not in table.BATCHED:
            return None
        return self.space.resolve(self.axes[self.products[0]][0])

    def _same_for_each_matrix(self) -> None:
        """What a kernel of many products reads beside their factors has no dimension of matrices."""
        batch = set(self.batch or ())
        for leaf in self.leaves if batch else ():
            if any(batch.intersection(self.space.resolve(axis)) for axis in self.axes[leaf]):
                raise UnfitError("a tensor with other elements for each of many products")

    def _operand(self, node: Any, *, index: bool = False) -> Axes:
        """The axes of an argument; one from outside becomes a leaf."""
        if not isinstance(node, Node):
            raise UnfitError("an argument is no tensor")
        if node not in self.axes:
            if is_constant(node):
                self.axes[node] = ((),) * value_of(node).dim()
                self.nodes[node] = None
            elif not index and self._seen_through(node):
                self.axes[node] = self._viewed(node)
                self.nodes[node] = None
            else:
                self._leaf(node, index)
        axes: Axes = self.axes[node]
        return axes

    def _seen_through(self, node: Node) -> bool:
        """Whether a tensor is a view of one that is here already, or of a smaller one."""
        source = node
        while is_view(source) and isinstance(source.args[0], Node) and not supported(source):
            if source.target in table.EXPANDS:
                return True
            source = source.args[0]
            if source in self.axes and source not in self.leaves:
                return True
        return False

    def _leaf(self, node: Node, index: bool) -> None:
        x = value_of(node)
        if x is None:
            raise UnfitError("an argument is no tensor")
        kinds = table.INDEX_DTYPES if index else table.DTYPES
        if x.dtype not in kinds:
            raise UnfitError(f"an argument is {str(x.dtype).removeprefix('torch.')}")
        self.leaves[node] = None
        self.axes[node] = self.space.axes(x.shape)

    def _typed(self, node: Node) -> Any:
        target = node.target
        if is_item(node):
            pair = self.axes.get(node.args[0])
            if pair is None:
                raise UnfitError("part of a tuple of another kernel")
            return pair[node.args[1]]
        if is_constant(node):
            return ((),) * value_of(node).dim()
        if target in table.PRODUCTS:
            return self._multiplied(node)
        if target in table.REDUCTIONS or target in table.VARIANCES:
            return self._row(node)
        if target is table.GATHER:
            return self._gathered(node)
        if target is CHOSEN:
            x, places = (self._operand(a, index=bool(k)) for k, a in enumerate(node.args[:2]))
            return [self._row_by_row(x, places)] * 2
        if target is PLACED:
            return self._placed(node)
        return self._elementwise(node)

    def _elementwise(self, node: Node) -> Axes:
        operands = [self._operand(a) for a in node.all_input_nodes if value_of(a) is not None]
        axes = self.space.broadcast(operands)
        self._row_again(axes)
        missing: Axes = ((),) * (value_of(node).dim() - len(axes))
        return missing + self.space.resolved(axes)

    def _row_again(self, axes: Axes) -> None:
        """Where a row's number meets a tensor with rows of that length, they are the same dimension."""
        reduced = self.space.resolve(self.reduced)
        if not reduced or not axes or not axes[-1]:
            return
        inner: Axis = ()
        for axis in reversed(axes):
            inner = self.space.resolve(axis) + inner
            if self.space.size(inner) == self.space.size(reduced):
                break
        else:
            return
        for tensor in self.tensors():
            if {*inner, *reduced} <= {a for axis in tensor for a in self.space.resolve(axis)}:
                return
        self.reduced = self.space.unify(self.reduced, inner)

    def _multiplied(self, node: Node) -> Axes:
        if self.reduced or len(self.products) > 1:
            raise UnfitError("three products, or a product of rows, in one kernel")
        if any(source_of(factor) in self.nodes for factor in factors(node)):
            raise UnfitError("a product of what the kernel makes")
        axes = self.space.axes(value_of(node).shape)
        for other in self.products:
            if (other.target in table.BATCHED) != (node.target in table.BATCHED) or not _paired(other, node):
                raise UnfitError("two products of different left factors in one kernel")
            axes = self.space.broadcast([self.axes[other], axes])
        self.products = (*self.products, node)
        if node.target in table.SUMS:
            return self.space.broadcast([axes, self._operand(node.args[0])])
        return axes

    def _reduce(self, axis: Axis) -> None:
        if self.products:
            raise UnfitError("a reduction of a product")
        if not axis:
            raise UnfitError("a reduction along a dimension of one element")
        self.reduced = self.space.unify(self.reduced, axis) if self.reduced else axis

    def _row(self, node: Node) -> Any:
        axes = self._operand(node.args[0])
        dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        keep = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
        along = _dims(dims, len(axes))
        if self._repeated(node.args[0], along):
            raise UnfitError("a reduction along a dimension that repeats elements")
        taken = tuple(a for d in along for a in self.space.resolve(axes[d]))
        others = [a for d, axis in enumerate(axes) if d not in along for a in self.space.resolve(axis)]
        if len(axes) > 1 and not others and not small(self.space.size(taken)):
            raise UnfitError("a reduction of a whole tensor")
        if node.target in table.VARIANCES:
            self._demand_freedom(node, taken)
        self._reduce(taken)
        kept = tuple(() if d in along else axis for d, axis in enumerate(axes) if keep or d not in along)
        return [kept, kept] if table.VARIANCES.get(node.target) else kept

    def _demand_freedom(self, node: Node, taken: Axis) -> None:
        """UnfitError for a variance that divides by nothing, or by less, which torch makes nothing of."""
        correction = node.kwargs.get("correction")
        number, size = 1 if correction is None else correction, self.space.size(taken)
        if not isinstance(number, (int, float)) or (number > 1 and not size.is_Integer):
            raise UnfitError("a variance with a correction that is known at run time only")
        if size.is_Integer and int(size) <= number:
            raise UnfitError("a variance of no more elements than its correction")

    def _gathered(self, node: Node) -> Axes:
        x, dim, index = node.args[:3]
        axes = self._operand(x)
        places = self._operand(index, index=True)
        if len(axes) != len(places) or _dims([dim], len(axes)) != (len(axes) - 1,) or places[-1]:
            raise UnfitError("a gather of more than one element of each row")
        if self.space.resolve(places[-1]) or extent(value_of(index).shape[-1]) != 1:
            raise UnfitError("a gather of more than one element of each row")
        rows = self.space.broadcast([axes[:-1], places[:-1]])
        if self.space.resolved(places[:-1]) != rows:
            raise UnfitError("a gather of rows that are repeated")
        self._reduce(self.space.resolve(axes[-1]))
        return (*rows, ())

    def _row_by_row(self, axes: Axes, places: Axes) -> Axes:
        """The axes of a number of each row, where there is an index for each."""
        rows = self.space.broadcast([axes[:-1], places])
        if self.space.resolved(places) != rows:
            raise UnfitError("an index of rows that are repeated")
        self._reduce(self.space.resolve(axes[-1]))
        return rows

    def _placed(self, node: Node) -> Axes:
        x, like, target = node.args[:3]
        axes = self.space.axes(value_of(like).shape)  # of its shape alone: nothing of it is read
        self._row_by_row(axes, self._operand(target, index=True))
        return self.space.broadcast([axes, self._operand(x)])

    def _viewed(self, node: Node) -> Axes:
        axes = self._operand(node.args[0])
        shape = value_of(node).shape
        if node.target in table.ALIASES:
            return axes
        if node.target in table.EXPANDS:
            return ((),) * (len(shape) - len(axes)) + axes
        return self.space.view(axes, shape)

    def repeats(self, node: Node) -> bool:
        """Whether a node's tensor is larger than what the kernel would store of it."""
        return self._repeated(node, range(len(self.axes[node])))

    def _repeated(self, node: Node, dims: Iterable[int]) -> bool:
        """Whether a tensor has the same element in several places along some of its dimensions."""
        shape, axes = value_of(node).shape, self.axes[node]
        return any(extent(shape[d]) != self.space.size(self.space.resolve(axes[d])) for d in dims)


def factors(product: Node) -> tuple[Node, Node]:
    """Both factors of a matrix product."""
    a, b = (n for n in product.args[-2:] if isinstance(n, Node))
    return a, b


def _paired(one: Node, other: Node) -> bool:
    """Whether two products have one left factor, and right factors of one shape that lie alike in memory."""
    if value_of(one).dtype != value_of(other).dtype:
        return False
    (a, b), (a2, b2) = factors(one), factors(other)
    same = _elements_of(a) is _elements_of(a2) and _placed(a) == _placed(a2)
    return same and _placed(b)[:2] == _placed(b2)[:2]


def _elements_of(node: Node) -> Node:
    """The first tensor that has the same elements in the same order, each as often.

    What is expanded is another one: rows that are copies of a tensor and columns that are have one source,
    and once they are copied they lie alike in memory.
    """
    while is_view(node) and node.target not in table.EXPANDS and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def source_of(node: Node) -> Node:
    """What a tensor is a view of."""
    while is_view(node) and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def _placed(node: Node) -> tuple[Any, ...]:
    """Where a tensor's elements lie: two views of one tensor with the same answer are the same."""
    x = value_of(node)
    return tuple(map(extent, x.shape)), tuple(map(extent, x.stride())), extent(x.storage_offset())


def size_of(node: Node) -> int:
    """Bytes of a tensor in memory; of symbols, at the call that is compiled for."""
    x = value_of(node)
    if x is None:
        return 0
    count = 1
    for size, stride in zip(x.shape, x.stride(), strict=True):
        if isinstance(stride, int) and not stride:
            continue  # one element, seen many times
        hint = getattr(getattr(size, "node", None), "hint", size)
        count *= int(hint) if hint is not None else 1
    return int(count * x.element_size())


def small(size: Any) -> bool:
    """Whether that many elements may be one row of a kernel that has no other."""
    return bool(size.is_Integer) and int(size) <= MOST_OF_ONE_ROW


def _dims(dims: Any, rank: int) -> tuple[int, ...]:
    """The dimensions of a reduction, from 0 on."""
    if isinstance(dims, int):
        dims = [dims]
    if not dims:
        return tuple(range(rank))
    return tuple(sorted(int(d) % max(rank, 1) for d in dims))


def outputs_of(group: Group) -> list[Node]:
    """The nodes of a group whose tensors others need: through views of them, which are made outside."""
    members = group.nodes
    needed: dict[Node, None] = {}

    def need(node: Node) -> None:
        if is_constant(node):
            return
        if is_view(node):
            source = node.args[0]
            if isinstance(source, Node) and source in members:
                need(source)
            return
        needed[node] = None

    for node in members:
        if any(u not in members for u in node.users):
            need(node)
    again = [n for n in needed if _made_again(group, n)]
    kept = [n for n in group.nodes if n in needed and n not in again]
    return kept or [n for n in group.nodes if n in needed]


def _made_again(group: Group, node: Node) -> bool:
    """Whether readers of a result make it from what the kernel reads, for no more traffic.

    Example: the gradient of a norm's weight sums ``g * x`` in f32 over rows. Inductor's loop of the sum reads
    g and x, both in bf16, as fast as it would read the product, which then nobody has to write.
    """
    if not group.reduced and not group.products:
        return False
    readers = [r for r in readers_of([node]) if r not in group.nodes]
    if not readers or not all(map(fusible, readers)):
        return False
    found: dict[Node, None] = {}
    pending = [node]
    while pending:
        one = pending.pop()
        if one in found or is_constant(one):
            continue
        found[one] = None
        if one not in group.nodes:
            continue
        if not (one.target in table.POINTWISE or one.target in table.CASTS or is_view(one)):
            return False
        pending += one.all_input_nodes
    made_of = {source_of(n) for n in found if n not in group.nodes}
    return sum(map(size_of, made_of)) <= _AGAIN * size_of(node)


def readers_of(nodes: Iterable[Node]) -> Iterator[Node]:
    """What reads tensors, through views of them."""
    for node in nodes:
        for user in node.users:
            if is_view(user) or is_item(user):
                yield from readers_of([user])
            else:
                yield user


__all__ = [
    "BarredError", "Group", "constant", "factors", "fusible", "is_constant", "is_item", "is_view",
    "outputs_of", "readers_of", "size_of", "small", "source_of", "supported", "tensor_args", "value_of",
]  # fmt: skip
