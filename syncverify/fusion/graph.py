"""Tracing: a Python function of tensor expressions becomes a graph of elementwise operations."""

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
from syncverify.fusion.functions import COMPARISONS, FUNCTIONS, numpy_dtype, round_to
from syncverify.ir.expr import BUILTINS
from syncverify.source import UNKNOWN_SPAN, InputError, Span

#: Element types a fusion may store; arithmetic is always in f32.
DTYPES = ("f32", "bf16", "f16")

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
    """One operation: ``input`` (``name``), ``const`` (``value``) or a row of ``FUNCTIONS`` over ``args``."""

    op: str
    args: tuple[int, ...] = ()
    name: str = ""
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Output:
    """One result: its name, the node that computes it and the type it is rounded to."""

    name: str
    node: int
    dtype: str


@dataclass(frozen=True)
class Fusion:
    """A traced fusion. ``graph``'s nodes are ints with attribute ``node``; edges point to the user.

    ``dims`` are the dimensions of every output, outermost first.
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

    def reference(self, arrays: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
        """The results computed by NumPy: f32 arithmetic, rounded once at the end."""
        given = self.bind(arrays)
        shape = tuple(self.sizes(given)[d] for d in self.dims)
        values: dict[int, Any] = {}
        with np.errstate(all="ignore"):
            for i in self.order():
                node = self.node(i)
                if node.op == "input":
                    tensor = dict(self.inputs)[node.name]
                    values[i] = self._aligned(np.asarray(given[node.name]), tensor)
                elif node.op == "const":
                    values[i] = np.float32(node.value)
                else:
                    values[i] = FUNCTIONS[node.op].compute(*(values[a] for a in node.args))
            return tuple(round_to(o.dtype, np.broadcast_to(values[o.node], shape)) for o in self.outputs)

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
        return {
            name: rng.uniform(0.5, 2.0, tuple(sizes[d] for d in t.dims)).astype(numpy_dtype(t.dtype))
            for name, t in self.inputs
        }

    def _aligned(self, array: Any, tensor: Tensor) -> Any:
        index = tuple(slice(None) if d in tensor.dims else np.newaxis for d in self.dims)
        return np.asarray(array, dtype=np.float32)[index]


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

    def cast(self, dtype: str) -> Value:
        """Rounds to ``dtype``; an output that is a cast has that type."""
        if dtype not in DTYPES:
            raise InputError(f"cannot cast to {dtype}: use one of {', '.join(DTYPES)}")
        return apply(f"cast.{dtype}", self)


class _Trace:
    """The graph under construction; equal operations are one node."""

    def __init__(self) -> None:
        self.graph = nx.DiGraph()
        self.ids: dict[Node, int] = {}

    def add(self, node: Node) -> int:
        if node not in self.ids:
            i = self.ids[node] = len(self.ids)
            self.graph.add_node(i, node=node)
            self.graph.add_edges_from((a, i) for a in node.args)
        return self.ids[node]


_active: list[_Trace] = []


@contextmanager
def _tracing() -> Iterator[_Trace]:
    trace = _Trace()
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
    with _tracing() as t:
        result = function(**{n: Value(t, t.add(Node("input", name=n))) for n, _ in inputs})
    outputs = _outputs(name, result, t, inputs, span)
    taken = {n for n, _ in inputs} | set(dims)
    for o in outputs:
        if o.name in taken or not _good_name(o.name):
            raise InputError(f"fusion {name}: output cannot be called {o.name}", span)
        reached = {t.graph.nodes[i]["node"].name for i in nx.ancestors(t.graph, o.node) | {o.node}}
        missing = set(dims) - {d for n, x in inputs if n in reached for d in x.dims}
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
    if t.dtype not in DTYPES:
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
    kinds = {t.dtype for _, t in inputs}
    default = kinds.pop() if len(kinds) == 1 else "f32"
    outputs = []
    for n, v in result.items():
        if not isinstance(v, Value) or v._trace is not trace:
            raise InputError(f"fusion {name}: output {n} is not a tensor expression of its inputs", span)
        node: Node = trace.graph.nodes[v._id]["node"]
        if node.op in COMPARISONS:
            raise InputError(f"fusion {name}: output {n} is a comparison; use where()", span)
        dtype = node.op.removeprefix("cast.") if node.op.startswith("cast.") else default
        outputs.append(Output(n, v._id, dtype))
    return tuple(outputs)
