"""From a group of nodes to a fusion: names for its dimensions, and its functions in the fusion's own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch.fx import Node

from syncverify.base.source import InputError
from syncverify.fusion import Fusion, Tensor, Value, size, take, trace
from syncverify.matmul.problem import BATCH, PRODUCT, SECOND, Problem
from syncverify.torch import losses, table
from syncverify.torch.dims import Axes, Axis, UnfitError, extent
from syncverify.torch.layouts import Layout, breaks, dense, layout
from syncverify.torch.region import (
    BarredError,
    Group,
    constant,
    factors,
    is_constant,
    is_item,
    is_view,
    outputs_of,
    small,
    value_of,
)

#: The most characters of a kernel's name.
_NAME = 60


@dataclass(frozen=True)
class Translation:
    """A group as a fusion: what it reads and writes, and the extents of its dimensions.

    ``inputs`` are the tensors in the order of the fusion's inputs; those of a product start with its factors,
    which are no inputs of ``fusion``, its epilogue. ``layouts``: of tensors whose rows lie apart, by
    their names in the fusion.
    """

    fusion: Fusion
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    extents: Mapping[str, Any]
    problem: Problem | None = None
    layouts: Mapping[str, Layout] = field(default_factory=dict)


def translate(group: Group) -> Translation:
    """The fusion of a group; BarredError names nodes without which it may be one, UnfitError none."""
    outputs = outputs_of(group)
    for node in outputs:
        _check_output(group, node)
    apart = _apart(group, outputs)
    dims = _dims(group, outputs, apart)
    names = {leaf: f"x{k}" for k, leaf in enumerate(group.leaves)}
    tensors = {
        names[leaf]: Tensor(_dtype(leaf), dims.of(group, group.axes[leaf]), leaf in apart)
        for leaf in group.leaves
    }
    of_products = dict.fromkeys((PRODUCT, SECOND)[: len(group.products)], Tensor("f32", ("M", "N")))
    tensors = {**of_products, **tensors}
    for node in outputs:
        dims.check_output(group, node)
    numbers = dims.unit and not any(dims.of(group, group.axes[n]) for n in outputs)
    if numbers and not small(group.space.size(dims.names[dims.reduced])):
        raise UnfitError("a reduction of a whole tensor")

    def body(**values: Value) -> dict[str, Value]:
        made = _Builder(group, dims).run({leaf: values[name] for leaf, name in names.items()}, values)
        return {f"y{k}": made[n].cast(_dtype(n)) for k, n in enumerate(outputs)}

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    body.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in tensors])  # type: ignore[attr-defined]
    body.__name__ = _name(group)
    try:
        fusion = trace(body, tensors, list(dims.names))
    except InputError as e:
        raise UnfitError(e.message) from e
    for o, node in zip(fusion.outputs, outputs, strict=True):
        if dims.own(o.dims) != dims.own(dims.of(group, group.axes[node])):
            raise BarredError("its dimensions are not the kernel's", [node])
    extents = {name: group.space.size(axis) for name, axis in dims.names.items()}
    if not group.products:
        made = zip(fusion.outputs, outputs, strict=True)
        fusion = replace(fusion, outputs=tuple(replace(o, apart=n in apart) for o, n in made))
        called = [*(n for n, _ in fusion.inputs), *(o.name for o in fusion.outputs)]
        nodes = zip(called, (*group.leaves, *outputs), strict=True)
        layouts = {name: _layout(group, n, dims) for name, n in nodes if n in apart}
        return Translation(fusion, tuple(group.leaves), tuple(outputs), extents, layouts=layouts)
    return _product(group, fusion, outputs, extents)


def _product(
    group: Group, fusion: Fusion, outputs: Sequence[Node], extents: Mapping[str, Any]
) -> Translation:
    a, b = factors(group.products[0])
    rights = [factors(p)[1] for p in group.products]
    layout = ("M" if transposed(a) else "K") + ("K" if transposed(b) else "N")
    dtype = table.DTYPES[value_of(a).dtype]
    try:
        problem = Problem(fusion.name, dtype, layout, fusion, batched=group.batch is not None)
    except InputError as e:
        raise UnfitError(e.message) from e
    *many, _, inner = map(extent, value_of(a).shape)
    sizes = {**dict(zip((BATCH,), many, strict=False)), **extents, "K": inner}
    return Translation(fusion, (a, *rights, *group.leaves), tuple(outputs), sizes, problem)


def transposed(node: Node) -> bool:
    """Whether a matrix, or each of many, lies column by column in memory."""
    x = value_of(node)
    rows, columns = map(extent, x.stride()[-2:])
    return bool(rows == 1 and columns != 1)


@dataclass(frozen=True)
class _Dims:
    """The dimensions of a kernel by name, outermost first; ``unit`` is one that no tensor has.

    ``batch``: the axis of a batched product's matrices, which the epilogue does not see.
    """

    names: Mapping[str, Axis]
    reduced: str = ""
    unit: str = ""
    batch: Axis = ()

    def of(self, group: Group, axes: Axes) -> tuple[str, ...]:
        """The names of a tensor's dimensions."""
        has = {a for axis in axes for a in group.space.resolve(axis)}
        found = tuple(n for n, atoms in self.names.items() if atoms and has.issuperset(atoms))
        return (self.unit, *found) if self.unit and found else found

    def own(self, names: Sequence[str]) -> tuple[str, ...]:
        """Dimensions without the one that no tensor has, which a result may be given."""
        return tuple(n for n in names if n != self.unit)

    def check_output(self, group: Group, node: Node) -> None:
        """Raises BarredError for a tensor that lacks a dimension other than the one that is reduced."""
        has = set(self.of(group, group.axes[node]))
        atoms = {a for axis in group.axes[node] for a in group.space.resolve(axis)}
        if not atoms.issuperset(self.batch):
            raise BarredError("its result is the same for each of many products", [node])
        if self.unit or has == set(self.names) or has == set(self.names) - {self.reduced}:
            return
        raise BarredError("its result has fewer dimensions than the kernel", [node])


def _apart(group: Group, outputs: Sequence[Node]) -> dict[Node, list[Axis]]:
    """The tensors that stay where they lie although they are not contiguous, and where they part."""
    if group.products:
        return {}
    reduced = group.space.resolve(group.reduced)
    tensors = (*group.leaves, *outputs)
    found = {n: breaks(group.space, group.axes[n], value_of(n), reduced) for n in tensors}
    for n in outputs:
        if not (found[n] or is_contiguous(value_of(n))):
            raise BarredError("its result is not contiguous", [n])
    return {n: ends for n, ends in found.items() if ends}


def _layout(group: Group, node: Node, dims: _Dims) -> Layout:
    axes = group.axes[node]
    return layout(group.space, axes, dims.names, [d for d in dims.of(group, axes) if d != dims.unit])


def _dims(group: Group, outputs: Sequence[Node], apart: Mapping[Node, list[Axis]]) -> _Dims:
    space, reduced = group.space, group.space.resolve(group.reduced)
    tensors = [group.axes[n] for n in (*group.leaves, *outputs)]
    # what parts in one tensor is no single dimension
    tensors += [tuple((a,) for a in end) for ends in apart.values() for end in ends]
    product: Axes = ()
    if group.products:
        product = space.resolved(group.axes[group.products[0]])
        tensors = [*tensors, *((axis,) for axis in product)]
    if reduced:
        tensors = [*tensors, (reduced,)]
    groups = space.merged(tensors)
    if not groups:
        raise UnfitError("numbers only")
    if product:
        *many, m, n = product
        if groups != (*filter(None, many), m, n):
            raise UnfitError("an epilogue of other dimensions than the product's")
        return _Dims({"M": m, "N": n}, batch=many[0] if many else ())
    if reduced and groups[-1] != reduced:
        raise UnfitError("a reduction along other dimensions than the innermost")
    rows = {f"r{k}": g for k, g in enumerate(groups[:-1])}
    if reduced and not rows:
        return _Dims({"r0": (), "c": groups[-1]}, "c", "r0")
    return _Dims({**rows, "c": groups[-1]}, "c" if reduced else "")


def _check_output(group: Group, node: Node) -> None:
    x = value_of(node)
    if x is None or x.dtype not in table.DTYPES:
        raise BarredError("its result is needed outside and no float", [node])
    if group.repeats(node):
        raise BarredError("its result repeats elements", [node])
    if not (is_contiguous(x) if group.products else dense(x)):
        raise BarredError("its result is not contiguous", [node])


def is_contiguous(x: Any) -> bool:
    """Whether a fake tensor's elements lie in order, without a guard on its sizes."""
    expected = extent(1)
    for length, stride in zip(map(extent, reversed(x.shape)), map(extent, reversed(x.stride())), strict=True):
        if length != 1 and stride != expected:
            return False
        expected = sympy.expand(expected * length)
    return True


def _dtype(node: Node) -> str:
    kinds = {**table.DTYPES, **table.INDEX_DTYPES}
    return kinds[value_of(node).dtype]


def _name(group: Group) -> str:
    words = dict.fromkeys(n.target.__name__.split(".")[0].strip("_") for n in group.operations)
    return "_".join(["fused", *words])[:_NAME].rstrip("_")


class _Builder:
    """Runs the nodes of a group on symbolic tensors."""

    def __init__(self, group: Group, dims: _Dims) -> None:
        self.group = group
        self.dims = dims
        self.made: dict[Node, Any] = {}

    def run(self, leaves: Mapping[Node, Value], values: Mapping[str, Value]) -> dict[Node, Any]:
        self.made = dict(leaves)
        for node in self.group.nodes:
            if node in self.group.products:
                name = (PRODUCT, SECOND)[self.group.products.index(node)]
                self.made[node] = self._product(node, values[name])
            else:
                self.made[node] = self._value(node)
        return self.made

    def _value(self, node: Node) -> Any:
        if is_constant(node):
            return constant(node)
        if is_view(node):
            return self.made[node.args[0]]
        if is_item(node):
            return self.made[node.args[0]][node.args[1]]
        if node.target in table.REDUCTIONS:
            return table.REDUCTIONS[node.target](self._number(node, node.args[0]), self.dims.reduced)
        if node.target in table.VARIANCES:
            return self._moments(node)
        if node.target is table.GATHER:
            return take(self._number(node, node.args[0]), self.made[node.args[2]])
        if node.target is losses.CHOSEN:
            x, target, ignored = node.args
            return losses.fused_chosen(self._number(node, x), self.made[target], ignored)
        if node.target is losses.PLACED:
            x, _, target, ignored = node.args
            return losses.fused_placed(self._number(node, x), self.made[target], ignored, self.dims.reduced)
        if node.target in table.CASTS:
            return self._cast(node)
        return self._elementwise(node)

    def _product(self, node: Node, acc: Value) -> Value:
        if node.target not in table.SUMS:
            return acc
        beta, alpha = (float(node.kwargs.get(k, 1)) for k in ("beta", "alpha"))
        other: Value = self._number(node, node.args[0])
        acc = acc if alpha == 1 else acc * alpha
        if not beta:  # torch does not look at what it adds then, which may be no number
            return acc
        return acc + (other if beta == 1 else other * beta)

    def _moments(self, node: Node) -> Any:
        x, along = self._number(node, node.args[0]), self.dims.reduced
        correction = node.kwargs.get("correction")
        variance = x.var(along, 1.0 if correction is None else float(correction))
        return (variance, x.mean(along)) if table.VARIANCES[node.target] else variance

    def _cast(self, node: Node) -> Value:
        x: Value = self._number(node, node.args[0])
        dtype = node.args[1] if len(node.args) > 1 else node.kwargs.get("dtype")
        # all arithmetic is in f32 already
        return x if dtype in (None, torch.float32) else x.cast(table.DTYPES[dtype])

    def _elementwise(self, node: Node) -> Value:
        row = table.POINTWISE[node.target]
        takes = row.takes.ljust(len(node.args), "n")
        given = [
            self._condition(node, a) if kind == "c" else self._number(node, a)
            for a, kind in zip(node.args, takes, strict=False)
        ]
        named = {k: v if isinstance(v, str) else self._number(node, v) for k, v in node.kwargs.items()}
        return row.build(*given, **named)

    def _number(self, node: Node, argument: Any) -> Any:
        """An argument as a number: a tensor of them, a constant, or the extent of a dimension."""
        if not isinstance(argument, Node):
            return float(argument) if isinstance(argument, (bool, int, float)) else argument
        if argument in self.made:
            made = self.made[argument]
            x = value_of(argument)
            is_bool = x is not None and x.dtype is torch.bool and not isinstance(made, float)
            return table.number(made) if is_bool else made
        symbol = getattr(argument.meta.get("val"), "node", None)
        for name, axis in self.dims.names.items():
            if symbol is not None and axis and self.group.space.size(axis) == extent(argument.meta["val"]):
                return size(name)
        raise BarredError("a number that is known at run time only", [node])

    def _condition(self, node: Node, argument: Any) -> Value:
        made = self.made[argument]
        x = value_of(argument)
        condition: Value = made if x is not None and x.dtype is torch.bool else made != 0.0
        return condition


__all__ = ["Translation", "is_contiguous", "translate", "transposed"]
