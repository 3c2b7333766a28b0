"""A traced fusion: its inputs, its graph of operations, and its results as NumPy computes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import networkx as nx
import numpy as np

from syncverify.base.source import UNKNOWN_SPAN, InputError, Span
from syncverify.fusion.functions import FUNCTIONS, REDUCTIONS, Kind, kind_of_dtype, numpy_dtype, round_to

#: Element types of inputs that are indices, counters and seeds.
INDEX_DTYPES = ("i32", "i64")


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input: element type and the names of its dimensions, outermost first; ``()`` is a scalar.

    ``apart``: elements along the last dimension are neighbours, all others are as far apart as a call says.
    """

    dtype: str
    dims: tuple[str, ...] = ()
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: ``input`` (``name``), ``const`` (``value``) or a row of ``FUNCTIONS`` over ``args``.

    A row of ``REDUCTIONS`` makes one number along ``dim``; ``size`` is the extent of ``dim``, ``index`` the
    place along it. ``take`` is the element of the first argument at the place that the second one says.
    ``integer`` is a ``const`` that is no float. ``random`` is uniform in [0, 1), by seed and offset (its
    arguments) and the element's place. A row of ``ROTATIONS`` moves elements along the innermost dimension.
    """

    op: str
    args: tuple[int, ...] = ()
    name: str = ""
    value: float | int = 0.0
    dim: str = ""


#: Half of a row's elements go where the other half was, negated, as rotary embeddings need it: neighbours
#: (y[2i] = -x[2i+1], y[2i+1] = x[2i]), or the row's halves (y = -upper, lower).
ROTATIONS = ("rotate.pairs", "rotate.halves")


@dataclass(frozen=True, slots=True)
class Output:
    """One result: its name, the node that computes it, the type it is rounded to and its dimensions.

    Dimensions may come in another order than the fusion's: the last two swapped. ``apart``: as in ``Tensor``;
    whoever calls the kernel sees to it that no two elements share a place.
    """

    name: str
    node: int
    dtype: str
    dims: tuple[str, ...]
    apart: bool = False


@dataclass(frozen=True)
class Fusion:
    """A traced fusion. ``graph``'s nodes are ints with attributes ``node``, ``dims`` and ``kind``; edges go
    to users.

    ``dims`` are all dimensions, outermost first. ``along``: those along which it reduces. ``called``: what
    the author calls the inputs, and what kernels do.
    """

    name: str
    inputs: tuple[tuple[str, Tensor], ...]
    outputs: tuple[Output, ...]
    dims: tuple[str, ...]
    graph: nx.DiGraph = field(compare=False)
    span: Span = field(default=UNKNOWN_SPAN, compare=False)
    called: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @cached_property
    def streamed(self) -> tuple[str, ...]:
        """Inputs of the full shape: each element is read once."""
        return tuple(n for n, t in self.inputs if t.dims == self.dims and n in self._read)

    @cached_property
    def broadcast(self) -> tuple[str, ...]:
        """Inputs that lack some dimension: elements are read again and again."""
        return tuple(n for n, t in self.inputs if t.dims != self.dims and n in self._read)

    @cached_property
    def _read(self) -> frozenset[str]:
        """Inputs whose elements outputs need, and not only those that indices name."""
        needed = self.needed(o.node for o in self.outputs)
        users = [self.node(i) for i in needed if self.node(i).op != "take"]
        made = {a for u in users for a in u.args} | {o.node for o in self.outputs}
        return frozenset(self.node(i).name for i in made if self.node(i).op == "input")

    def node(self, i: int) -> Node:
        node: Node = self.graph.nodes[i]["node"]
        return node

    def dims_of(self, i: int) -> tuple[str, ...]:
        """The dimensions along which a node varies, outermost first."""
        dims: tuple[str, ...] = self.graph.nodes[i]["dims"]
        return dims

    def kind_of(self, i: int) -> Kind:
        """What a node's elements are computed as."""
        kind: Kind = self.graph.nodes[i]["kind"]
        return kind

    @property
    def transposed(self) -> tuple[str, ...]:
        """Outputs whose last two dimensions are swapped."""
        swapped = (*self.dims[:-2], *self.dims[:-3:-1])
        return tuple(o.name for o in self.outputs if o.dims == swapped and len(self.dims) > 1)

    def ops(self) -> set[str]:
        """The operations that occur."""
        return {self.node(i).op for i in self.graph}

    @property
    def along(self) -> frozenset[str]:
        """The dimensions along which it reduces, or takes elements."""
        return frozenset(
            self.node(i).dim for i in self.graph if self.node(i).op in REDUCTIONS or self.node(i).op == "take"
        )

    @property
    def reduced(self) -> str | None:
        """The innermost dimension along which it reduces, or whose extent or places it computes with.

        That of all, where it computes with the extent of a dimension that it lacks.
        """
        named = {self.node(i).dim for i in self.graph} - {""}
        return next((d for d in reversed(self.dims) if d in named), self.dims[-1] if named else None)

    def order(self) -> list[int]:
        """All nodes, arguments before users; the same for every run."""
        return list(self._order)

    def needed(self, nodes: Iterable[int]) -> set[int]:
        """Nodes, and all that they are made of."""
        found: set[int] = set()
        for i in nodes:
            if i not in self._made_of:
                self._made_of[i] = frozenset(nx.ancestors(self.graph, i)) | {i}
            found |= self._made_of[i]
        return found

    @cached_property
    def _made_of(self) -> dict[int, frozenset[int]]:
        return {}

    @cached_property
    def _order(self) -> tuple[int, ...]:
        return tuple(nx.lexicographical_topological_sort(self.graph))

    def sizes(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """The extent of every dimension, from the arrays' shapes; raises InputError where they disagree."""
        sizes: dict[str, int] = {}
        for name, tensor in self.inputs:
            shape = tuple(int(s) for s in arrays[name].shape)
            if len(shape) != len(tensor.dims):
                raise InputError(
                    f"{self.name}: {name} has shape {shape}, expected dimensions {tensor.dims}", self.span
                )
            for dim, extent in zip(tensor.dims, shape, strict=True):
                if sizes.setdefault(dim, extent) != extent:
                    raise InputError(
                        f"{self.name}: dimension {dim} of {name} is {extent}, elsewhere {sizes[dim]}",
                        self.span,
                    )
        return sizes

    def reference(
        self, arrays: Mapping[str, Any] | Sequence[Any], precision: Any = np.float32
    ) -> tuple[Any, ...]:
        """The results computed by NumPy: arithmetic of one ``precision``, rounded once at the end.

        With ``precision`` np.float64 they are not rounded.
        """
        given = self.bind(arrays)
        sizes = self.sizes(given)
        values: dict[int, Any] = {}
        with np.errstate(all="ignore"):
            for i in self.order():
                values[i] = self._value(self.node(i), values, given, sizes, precision)
            results = []
            for o in self.outputs:
                shape = tuple(sizes[d] if d in o.dims else 1 for d in self.dims)
                x = np.broadcast_to(values[o.node], shape)
                own = [d for d in self.dims if d in o.dims]
                x = x.reshape([sizes[d] for d in own]).transpose([own.index(d) for d in o.dims])
                exact = precision is np.float64 and x.dtype == np.float64
                results.append(np.array(x) if exact else np.array(round_to(o.dtype, x)))
            return tuple(results)

    def _value(
        self, node: Node, values: Mapping[int, Any], given: Mapping[str, Any], sizes: Mapping[str, int],
        precision: Any,
    ) -> Any:  # fmt: skip
        args = [values[a] for a in node.args]
        if node.op == "input":
            return self._input(np.asarray(given[node.name]), dict(self.inputs)[node.name], precision)
        if node.op == "const":
            return precision(node.value)
        if node.op == "integer":
            return np.int64(node.value) if abs(node.value) >= 2**31 else np.int32(node.value)
        if node.op == "float":
            return np.asarray(args[0]).astype(precision)
        if node.op == "random":
            shape = tuple(sizes[d] for d in self.dims)
            seed, offset = (given[n.name] if n.name else n.value for n in map(self.node, node.args))
            places = np.arange(prod(shape), dtype=np.int64).reshape(shape)
            from syncverify.simulate.ir.philox import uniform  # the simulator: only references need it

            return uniform(places, seed, offset).astype(precision)
        if node.op in ROTATIONS:
            shape = tuple(sizes[d] if d in self.dims_of(node.args[0]) else 1 for d in self.dims)
            return rotated(node.op, np.broadcast_to(args[0], shape))
        if node.op == "size":
            return precision(sizes[node.dim])
        if node.op == "index":
            return self._aligned(np.arange(sizes[node.dim]), Tensor("i64", (node.dim,)), precision)
        if node.op == "take":
            return taken(*args)
        if node.op == "transpose":
            return args[0]  # outputs say in which order they come
        if node.op in REDUCTIONS:
            shape = tuple(sizes[d] if d in self.dims_of(node.args[0]) else 1 for d in self.dims)
            at = self.dims.index(node.dim)
            return REDUCTIONS[node.op].compute(np.broadcast_to(args[0], shape), at)
        return FUNCTIONS[node.op].compute(*args)

    def bind(self, arrays: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """Arrays by input name, from a mapping or in order; raises InputError if some are missing."""
        names = [n for n, _ in self.inputs]
        inner = dict(self.called)
        given = (
            {inner.get(n, n): a for n, a in arrays.items()}
            if isinstance(arrays, Mapping)
            else dict(zip(names, arrays, strict=False))
        )
        if (not isinstance(arrays, Mapping) and len(arrays) != len(names)) or set(given) != set(names):
            got = ", ".join(map(str, arrays)) if isinstance(arrays, Mapping) else f"{len(arrays)} arrays"
            raise InputError(f"{self.name} takes {', '.join(names)}; got {got}", self.span)
        return given

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raises InputError if a dimension has no size."""
        missing = [d for d in self.dims if d not in sizes]
        if missing:
            raise InputError(f"{self.name}: no size given for {', '.join(missing)}", self.span)

    def random_inputs(self, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
        """Inputs for a trial run: values in (0.5, 2), which every function accepts."""
        self.check_sizes(sizes)
        rng = np.random.default_rng(seed)
        most = sizes[self.reduced] if self.reduced else 1000

        def random(t: Tensor) -> Any:
            shape = tuple(sizes[d] for d in t.dims)
            if t.dtype == "bool":
                return np.asarray(rng.integers(0, 2, shape)).astype(np.bool_)
            x = rng.integers(0, most, shape) if t.dtype in INDEX_DTYPES else rng.uniform(0.5, 2.0, shape)
            return np.asarray(x).astype(numpy_dtype(t.dtype))

        return {name: random(t) for name, t in self.inputs}

    def _input(self, array: Any, tensor: Tensor, precision: Any) -> Any:
        whole = kind_of_dtype(tensor.dtype) != "float"
        return self._aligned(array, tensor, array.dtype if whole else precision)

    def _aligned(self, array: Any, tensor: Tensor, precision: Any) -> Any:
        index = tuple(slice(None) if d in tensor.dims else np.newaxis for d in self.dims)
        return np.asarray(array, dtype=precision)[index]


def rotated(op: str, x: Any) -> Any:
    """A row of ``ROTATIONS`` in NumPy, along the last axis."""
    width = x.shape[-1]
    if width % 2:
        raise InputError(f"{op}: rows of {width} elements have no halves; the extent must be even")
    if op == "rotate.pairs":
        pairs = x.reshape(*x.shape[:-1], width // 2, 2)
        return np.stack([-pairs[..., 1], pairs[..., 0]], axis=-1).reshape(x.shape)
    return np.concatenate([-x[..., width // 2 :], x[..., : width // 2]], axis=-1)


def taken(x: Any, place: Any) -> Any:
    """``take`` in NumPy, along the last axis."""
    width = x.shape[-1]
    at = np.clip(np.nan_to_num(place), 0, width - 1).astype(np.int64)
    return np.where((place >= 0) & (place < width), np.take_along_axis(x, at, -1), 0)
