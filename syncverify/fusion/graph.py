"""Tracing: a Python function of tensor expressions becomes a graph of operations and reductions."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np

from syncverify.codegen.names import RESERVED as CPP_RESERVED
from syncverify.fusion.functions import COMPARISONS, FUNCTIONS, REDUCTIONS, numpy_dtype, round_to
from syncverify.ir.expr import BUILTINS
from syncverify.source import UNKNOWN_SPAN, InputError, Span

#: Element types a fusion may store; arithmetic is always in f32.
DTYPES = ("f32", "bf16", "f16")
#: Element types of inputs that are indices.
INDEX_DTYPES = ("i32", "i64")

#: Names that the lowering uses itself.
RESERVED = (
    frozenset({"i", "j", "k", "n", "p", "q", "base", "each", "more", "rest", "blocks"})
    | BUILTINS
    | CPP_RESERVED
)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input: element type and the names of its dimensions, outermost first; ``()`` is a scalar."""

    dtype: str
    dims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: ``input`` (``name``), ``const`` (``value``) or a row of ``FUNCTIONS`` over ``args``.

    A row of ``REDUCTIONS`` makes one number along ``dim``; ``size`` is the extent of ``dim``, ``index`` the
    place along it. ``take`` is the element of the first argument at the place that the second one says.
    """

    op: str
    args: tuple[int, ...] = ()
    name: str = ""
    value: float = 0.0
    dim: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """One result: its name, the node that computes it, the type it is rounded to and its dimensions."""

    name: str
    node: int
    dtype: str
    dims: tuple[str, ...]


@dataclass(frozen=True)
class Fusion:
    """A traced fusion. ``graph``'s nodes are ints with attributes ``node`` and ``dims``; edges go to users.

    ``dims`` are all dimensions, outermost first. ``reduced`` is the one along which it reduces, if any.
    """

    name: str
    inputs: tuple[tuple[str, Tensor], ...]
    outputs: tuple[Output, ...]
    dims: tuple[str, ...]
    graph: nx.DiGraph = field(compare=False)
    span: Span = field(default=UNKNOWN_SPAN, compare=False)

    @property
    def streamed(self) -> tuple[str, ...]:
        """Inputs of the full shape: each element is read once."""
        return tuple(n for n, t in self.inputs if t.dims == self.dims)

    @property
    def broadcast(self) -> tuple[str, ...]:
        """Inputs that lack some dimension: elements are read again and again."""
        return tuple(n for n, t in self.inputs if t.dims != self.dims)

    def node(self, i: int) -> Node:
        node: Node = self.graph.nodes[i]["node"]
        return node

    def dims_of(self, i: int) -> tuple[str, ...]:
        """The dimensions along which a node varies, outermost first."""
        dims: tuple[str, ...] = self.graph.nodes[i]["dims"]
        return dims

    @property
    def reduced(self) -> str | None:
        found = {self.node(i).dim for i in self.graph.nodes if self.node(i).dim}
        return next(iter(found), None)

    def order(self) -> list[int]:
        """All nodes, arguments before users; the same for every run."""
        return list(nx.lexicographical_topological_sort(self.graph))

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
                x = np.broadcast_to(values[o.node], shape).reshape([sizes[d] for d in o.dims])
                results.append(np.array(x) if precision is np.float64 else round_to(o.dtype, x))
            return tuple(results)

    def _value(
        self, node: Node, values: Mapping[int, Any], given: Mapping[str, Any], sizes: Mapping[str, int],
        precision: Any,
    ) -> Any:  # fmt: skip
        args = [values[a] for a in node.args]
        if node.op == "input":
            return self._aligned(np.asarray(given[node.name]), dict(self.inputs)[node.name], precision)
        if node.op == "const":
            return precision(node.value)
        if node.op == "size":
            return precision(sizes[node.dim])
        if node.op == "index":
            return self._aligned(np.arange(sizes[node.dim]), Tensor("i64", (node.dim,)), precision)
        if node.op == "take":
            return _taken(*args)
        if node.op in REDUCTIONS:
            shape = tuple(sizes[d] if d in self.dims_of(node.args[0]) else 1 for d in self.dims)
            at = self.dims.index(node.dim)
            return REDUCTIONS[node.op].compute(np.broadcast_to(args[0], shape), at)
        return FUNCTIONS[node.op].compute(*args)

    def bind(self, arrays: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """Arrays by input name, from a mapping or in order; raises InputError if some are missing."""
        names = [n for n, _ in self.inputs]
        given = dict(arrays) if isinstance(arrays, Mapping) else dict(zip(names, arrays, strict=False))
        if (not isinstance(arrays, Mapping) and len(arrays) != len(names)) or set(given) != set(names):
            raise InputError(f"{self.name} takes {', '.join(names)}; got {len(given)} arrays", self.span)
        return given

    def random_inputs(self, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
        """Inputs for a trial run: values in (0.5, 2), which every function accepts."""
        missing = [d for d in self.dims if d not in sizes]
        if missing:
            raise InputError(f"{self.name}: no size given for {', '.join(missing)}", self.span)
        rng = np.random.default_rng(seed)
        most = sizes[self.reduced] if self.reduced else 1

        def random(t: Tensor) -> Any:
            shape = tuple(sizes[d] for d in t.dims)
            x = rng.integers(0, most, shape) if t.dtype in INDEX_DTYPES else rng.uniform(0.5, 2.0, shape)
            return np.asarray(x).astype(numpy_dtype(t.dtype))

        return {name: random(t) for name, t in self.inputs}

    def _aligned(self, array: Any, tensor: Tensor, precision: Any) -> Any:
        index = tuple(slice(None) if d in tensor.dims else np.newaxis for d in self.dims)
        return np.asarray(array, dtype=precision)[index]


class Value:
    """A tensor expression while a fusion is traced; operators and ``fusion``'s functions build more."""

    __slots__ = ("_id", "_trace")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: _Trace, node: int) -> None:
        self._trace = trace
        self._id = node

    def __add__(self, o: Value | float) -> Value:
        return apply("add", self, o)

    def __radd__(self, o: float) -> Value:
        return apply("add", o, self)

    def __sub__(self, o: Value | float) -> Value:
        return apply("sub", self, o)

    def __rsub__(self, o: float) -> Value:
        return apply("sub", o, self)

    def __mul__(self, o: Value | float) -> Value:
        return apply("mul", self, o)

    def __rmul__(self, o: float) -> Value:
        return apply("mul", o, self)

    def __truediv__(self, o: Value | float) -> Value:
        return apply("div", self, o)

    def __rtruediv__(self, o: float) -> Value:
        return apply("div", o, self)

    def __pow__(self, o: Value | float) -> Value:
        return apply("pow", self, o)

    def __neg__(self) -> Value:
        return apply("neg", self)

    def __abs__(self) -> Value:
        return apply("abs", self)

    def __lt__(self, o: Value | float) -> Value:
        return apply("lt", self, o)

    def __le__(self, o: Value | float) -> Value:
        return apply("le", self, o)

    def __gt__(self, o: Value | float) -> Value:
        return apply("gt", self, o)

    def __ge__(self, o: Value | float) -> Value:
        return apply("ge", self, o)

    def __eq__(self, o: object) -> Value:  # type: ignore[override]
        return apply("eq", self, o)  # type: ignore[arg-type]

    def __ne__(self, o: object) -> Value:  # type: ignore[override]
        return apply("ne", self, o)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        raise InputError("a fusion cannot branch on a tensor's value: use where(condition, a, b)")

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions along which the expression varies, outermost first."""
        return self._trace.dims_of(self._id)

    def sum(self, dim: str | None = None) -> Value:
        """One number along ``dim`` (the innermost dimension by default)."""
        return reduce("reduce.add", self, dim)

    def max(self, dim: str | None = None) -> Value:
        return reduce("reduce.max", self, dim)

    def min(self, dim: str | None = None) -> Value:
        return reduce("reduce.min", self, dim)

    def mean(self, dim: str | None = None) -> Value:
        return self.sum(dim) * (1.0 / size(_along(self, dim)))

    def var(self, dim: str | None = None, correction: float = 0.0) -> Value:
        """The square of what is left without the mean: its sum, divided by the size - ``correction``."""
        rest = self - self.mean(dim)
        return (rest * rest).sum(dim) * (1.0 / (size(_along(self, dim)) - correction))

    def cast(self, dtype: str) -> Value:
        """Rounds to ``dtype``; an output that is a cast has that type."""
        if dtype not in DTYPES:
            raise InputError(f"cannot cast to {dtype}: use one of {', '.join(DTYPES)}")
        return apply(f"cast.{dtype}", self)


class _Trace:
    """The graph under construction; equal operations are one node.

    ``order``: all dimensions, outermost first.
    """

    def __init__(self, order: tuple[str, ...], inputs: Mapping[str, Tensor]) -> None:
        self.graph = nx.DiGraph()
        self.ids: dict[Node, int] = {}
        self.order = order
        self.inputs = inputs

    def add(self, node: Node) -> int:
        if node not in self.ids:
            i = self.ids[node] = len(self.ids)
            self.graph.add_node(i, node=node, dims=self._dims(node))
            self.graph.add_edges_from((a, i) for a in node.args)
        return self.ids[node]

    def dims_of(self, i: int) -> tuple[str, ...]:
        dims: tuple[str, ...] = self.graph.nodes[i]["dims"]
        return dims

    def _dims(self, node: Node) -> tuple[str, ...]:
        if node.op == "input":
            return self.inputs[node.name].dims
        if node.op == "index":
            return (node.dim,)
        found = {d for a in node.args for d in self.dims_of(a)}
        if node.op == "take" or node.op in REDUCTIONS:
            found.discard(node.dim)
        return tuple(d for d in self.order if d in found)


_active: list[_Trace] = []


@contextmanager
def _tracing(order: tuple[str, ...], inputs: Mapping[str, Tensor]) -> Iterator[_Trace]:
    trace = _Trace(order, inputs)
    _active.append(trace)
    try:
        yield trace
    finally:
        _active.pop()


def apply(op: str, *operands: Value | float) -> Value:
    """Adds one operation to the fusion being traced."""
    if not _active:
        raise InputError(f"{op} is a tensor function: call it inside a @fusion function")
    trace = _active[-1]
    args: list[int] = []
    for position, x in enumerate(operands):
        if isinstance(x, Value):
            if x._trace is not trace:
                raise InputError(f"{op}: an operand belongs to another fusion")
            args.append(x._id)
        elif isinstance(x, (int, float)) and not isinstance(x, bool):
            args.append(trace.add(Node("const", value=float(x))))
        else:
            raise InputError(f"{op}: an operand is neither a tensor expression nor a number: {x!r}")
        is_condition = trace.graph.nodes[args[-1]]["node"].op in COMPARISONS
        if is_condition != (op == "where" and position == 0):
            raise InputError(f"{op}: comparisons are conditions of where(), and of nothing else")
    return Value(trace, trace.add(Node(op, tuple(args))))


def _along(x: Value, dim: str | None) -> str:
    """The dimension of a reduction; raises InputError for one that the expression lacks."""
    if not x.dims:
        raise InputError("a reduction of a scalar")
    if dim is not None and dim not in x.dims:
        raise InputError(f"a reduction along {dim} of an expression with dimensions {', '.join(x.dims)}")
    return x.dims[-1] if dim is None else dim


def reduce(op: str, x: Value, dim: str | None = None) -> Value:
    """Adds a reduction along one dimension to the fusion being traced."""
    if not _active or x._trace is not _active[-1]:
        raise InputError(f"{op} is a tensor function: call it inside a @fusion function")
    if x._trace.graph.nodes[x._id]["node"].op in COMPARISONS:
        raise InputError(f"{op}: comparisons are conditions of where(), and of nothing else")
    return Value(x._trace, x._trace.add(Node(op, (x._id,), dim=_along(x, dim))))


def take(x: Value, place: Value) -> Value:
    """The element of each row of ``x`` at ``place``, an index; 0 where ``place`` lies outside the row."""
    dim, node = _along(x, None), x._trace.graph.nodes
    inputs = [node[v._id]["node"].name for v in (x, place) if node[v._id]["node"].op == "input"]
    kinds = x._trace.inputs
    if len(inputs) == 2 and kinds[inputs[1]].dtype in INDEX_DTYPES and x.dims == (*place.dims, dim):
        return Value(x._trace, x._trace.add(Node("take", (x._id, place._id), dim=dim)))
    return apply("where", apply("eq", index(dim), place), x, 0.0).sum(dim)


def _taken(x: Any, place: Any) -> Any:
    """``take`` in NumPy, along the last axis."""
    width = x.shape[-1]
    at = np.clip(np.nan_to_num(place), 0, width - 1).astype(np.int64)
    return np.where((place >= 0) & (place < width), np.take_along_axis(x, at, -1), 0)


def size(dim: str) -> Value:
    """The extent of a dimension, as a number."""
    return _of_dim("size", dim)


def index(dim: str) -> Value:
    """The place along a dimension, from 0."""
    return _of_dim("index", dim)


def _of_dim(op: str, dim: str) -> Value:
    if not _active:
        raise InputError(f"{op} is a tensor function: call it inside a @fusion function")
    trace = _active[-1]
    if dim not in trace.order:
        raise InputError(f"{op}: no input has a dimension {dim}")
    return Value(trace, trace.add(Node(op, dim=dim)))


def fusion(**tensors: Tensor) -> Callable[[Callable[..., Any]], Fusion]:
    """Declares a fusion: ``@fusion(a=Tensor("f32", ("R", "C")), ...)`` on a function of those names.

    The function returns one expression, a tuple of them, or a dict from output name to expression.
    """

    def decorate(function: Callable[..., Any]) -> Fusion:
        return trace(function, tensors)

    return decorate


def trace(function: Callable[..., Any], tensors: Mapping[str, Tensor]) -> Fusion:
    """Runs ``function`` once on symbolic tensors and returns what it computed."""
    # a lambda has no name that a kernel could have
    name = function.__name__ if function.__name__.isidentifier() else "fused"
    span = _span(function)
    parameters = list(inspect.signature(function).parameters)
    if set(parameters) != set(tensors):
        raise InputError(
            f"fusion {name} declares {sorted(tensors)} but the function takes {parameters}", span
        )
    inputs = tuple((p, tensors[p]) for p in parameters)
    for n, tensor in inputs:
        _check_tensor(name, n, tensor, span)
    dims = _full_dims(name, inputs, span)
    with _tracing(dims, dict(inputs)) as t:
        result = function(**{n: Value(t, t.add(Node("input", name=n))) for n, _ in inputs})
    outputs = _outputs(name, result, t, inputs, span)
    along = sorted({t.graph.nodes[i]["node"].dim for i in t.graph.nodes} - {""})
    if along and along != [dims[-1]]:
        raise InputError(
            f"fusion {name} reduces along {', '.join(along)}; only {dims[-1]}, the innermost dimension, "
            "can be reduced",
            span,
        )
    taken = {n for n, _ in inputs} | set(dims)
    for o in outputs:
        if o.name in taken or not _good_name(o.name):
            raise InputError(f"fusion {name}: output cannot be called {o.name}", span)
        missing = set(dims) - set(o.dims) - set(along)
        if missing:
            raise InputError(
                f"fusion {name}: output {o.name} does not depend on {', '.join(sorted(missing))}", span
            )
    return Fusion(name, inputs, outputs, dims, t.graph, span)


def _span(function: Callable[..., Any]) -> Span:
    code = getattr(function, "__code__", None)
    return Span(code.co_filename, code.co_firstlineno) if code else UNKNOWN_SPAN


def _good_name(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and name not in RESERVED


def _check_tensor(name: str, n: str, t: Tensor, span: Span) -> None:
    if t.dtype not in (*DTYPES, *INDEX_DTYPES):
        raise InputError(f"fusion {name}: {n} has type {t.dtype}; use one of {', '.join(DTYPES)}", span)
    for x in (n, *t.dims):
        if not _good_name(x):
            raise InputError(f"fusion {name}: {x!r} cannot be used as a name", span)
    if len(set(t.dims)) != len(t.dims):
        raise InputError(f"fusion {name}: {n} names a dimension twice", span)


def _full_dims(name: str, inputs: tuple[tuple[str, Tensor], ...], span: Span) -> tuple[str, ...]:
    """All dimensions in one order that agrees with every input."""
    order: nx.DiGraph = nx.DiGraph()
    for _, t in inputs:
        order.add_nodes_from(t.dims)
        order.add_edges_from(zip(t.dims, t.dims[1:], strict=False))
    first = {d: i for i, d in enumerate(dict.fromkeys(d for _, t in inputs for d in t.dims))}
    if not first:
        raise InputError(f"fusion {name}: every input is a scalar; give one a dimension", span)
    clash = first.keys() & {n for n, _ in inputs}
    if clash:
        raise InputError(
            f"fusion {name}: {', '.join(sorted(clash))} names both an input and a dimension", span
        )
    try:
        return tuple(nx.lexicographical_topological_sort(order, key=lambda d: first[d]))
    except nx.NetworkXUnfeasible:
        raise InputError(
            f"fusion {name}: inputs order their dimensions differently (no transposes)", span
        ) from None


def _outputs(
    name: str, result: Any, trace: _Trace, inputs: tuple[tuple[str, Tensor], ...], span: Span
) -> tuple[Output, ...]:
    if isinstance(result, Value):
        result = {"out": result}
    elif isinstance(result, (tuple, list)):
        result = {f"out{k}": v for k, v in enumerate(result)}
    if not isinstance(result, dict) or not result:
        raise InputError(f"fusion {name} returns no tensor expression", span)
    kinds = {t.dtype for _, t in inputs} - set(INDEX_DTYPES)
    default = kinds.pop() if len(kinds) == 1 else "f32"
    outputs = []
    for n, v in result.items():
        if not isinstance(v, Value) or v._trace is not trace:
            raise InputError(f"fusion {name}: output {n} is not a tensor expression of its inputs", span)
        node: Node = trace.graph.nodes[v._id]["node"]
        if node.op in COMPARISONS:
            raise InputError(f"fusion {name}: output {n} is a comparison; use where()", span)
        dtype = node.op.removeprefix("cast.") if node.op.startswith("cast.") else default
        outputs.append(Output(n, v._id, dtype, v.dims))
    return tuple(outputs)
