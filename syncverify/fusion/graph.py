"""Tracing: a Python function of tensor expressions becomes a graph of operations and reductions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any

import networkx as nx

from syncverify.base.source import UNKNOWN_SPAN, InputError, Span, of_author
from syncverify.fusion.functions import FUNCTIONS, REDUCTIONS, Kind, kind_of_dtype
from syncverify.fusion.names import DTYPES, FLOATS, check_name, check_tensor, full_dims, kernel_names
from syncverify.fusion.row_strides import pitch
from syncverify.fusion.traced import INDEX_DTYPES, ROTATIONS, Fusion, Node, Output, Tensor
from syncverify.fusion.tracing_errors import NoNumber

#: Dimensions of a reduction: one, several, or the innermost.
Along = str | tuple[str, ...] | None


class Value(NoNumber):
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
        if isinstance(o, (int, float)) and o in (1, 2, 3):
            return self if o == 1 else self * self if o == 2 else self * self * self
        return apply("pow", self, o)

    def __rpow__(self, o: float) -> Value:
        return apply("pow", o, self)

    def __and__(self, o: Value | int) -> Value:
        return apply("and" if self.kind == "bool" else "bit_and", self, o)

    def __or__(self, o: Value | int) -> Value:
        return apply("or" if self.kind == "bool" else "bit_or", self, o)

    def __xor__(self, o: Value | int) -> Value:
        return apply("xor" if self.kind == "bool" else "bit_xor", self, o)

    def __invert__(self) -> Value:
        return apply("not", self)

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

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions along which the expression varies, outermost first."""
        return self._trace.dims_of(self._id)

    @property
    def kind(self) -> Kind:
        """What its elements are: ``float``, ``int`` (32 bits) or ``bool``."""
        return self._trace.kind_of(self._id)

    def transpose(self) -> Value:
        """The last two dimensions of the fusion swapped; only as an output."""
        order = self._trace.order
        if len(order) < 2 or self.dims != order:
            raise InputError(
                f"transpose() swaps the last two of all dimensions ({', '.join(order)}); "
                f"this expression has {', '.join(self.dims) or 'none'}"
            )
        return Value(self._trace, self._trace.add(Node("transpose", (self._id,))))

    def sum(self, dim: Along = None) -> Value:
        """One number along ``dim`` (the innermost dimension by default), or along several."""
        return _reduced("reduce.add", self, dim)

    def max(self, dim: Along = None) -> Value:
        return _reduced("reduce.max", self, dim)

    def min(self, dim: Along = None) -> Value:
        return _reduced("reduce.min", self, dim)

    def mean(self, dim: Along = None) -> Value:
        return self.sum(dim) * (1.0 / _elements(self, dim))

    def var(self, dim: Along = None, correction: float = 0.0) -> Value:
        """The square of what is left without the mean: its sum, divided by the size - ``correction``."""
        rest = self - self.mean(dim)
        return (rest * rest).sum(dim) * (1.0 / (_elements(self, dim) - correction))

    def cast(self, dtype: str) -> Value:
        """Rounds to ``dtype``; an output that is a cast has that type. Types of 8 bits saturate."""
        if dtype not in DTYPES:
            raise InputError(f"cannot cast to {dtype}: use one of {', '.join(DTYPES)}")
        if kind_of_dtype(dtype) == self.kind != "float":
            return self
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
            self.graph.add_node(i, node=node, dims=self._dims(node), kind=self._kind(node))
            self.graph.add_edges_from((a, i) for a in node.args)
        return self.ids[node]

    def dims_of(self, i: int) -> tuple[str, ...]:
        dims: tuple[str, ...] = self.graph.nodes[i]["dims"]
        return dims

    def kind_of(self, i: int) -> Kind:
        kind: Kind = self.graph.nodes[i]["kind"]
        return kind

    def _kind(self, node: Node) -> Kind:
        if node.op == "input":
            return kind_of_dtype(self.inputs[node.name].dtype)
        if node.op == "integer":
            return "int"
        if node.op == "transpose":
            return self.kind_of(node.args[0])
        if node.op not in FUNCTIONS:
            return "float"
        gives = FUNCTIONS[node.op].gives
        return self.kind_of(node.args[-1]) if gives == "same" else gives

    def _dims(self, node: Node) -> tuple[str, ...]:
        if node.op == "input":
            return self.inputs[node.name].dims
        if node.op == "random":
            return self.order
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
    """Adds one operation to the fusion being traced; operands are converted to what it takes."""
    trace = _current(op)
    row = FUNCTIONS[op]
    if len(operands) != row.arity:
        raise InputError(f"{op} takes {row.arity} operands, not {len(operands)}")
    checked = [_operand(op, x, trace) for x in operands]
    condition = checked[:1] if op == "where" else []
    numbers = checked[len(condition) :]
    if condition and _kind(condition[0]) != "bool":
        raise InputError("where: the condition is no truth value; compare, as in x > 0")
    takes: str = row.takes
    if takes == "number":
        whole = all(_kind(x) == "int" or (isinstance(x, int)) for x in numbers)
        takes = "int" if whole and any(isinstance(x, Value) for x in numbers) else "float"
    args = [_converted(op, x, takes, trace) for x in numbers]
    return Value(trace, trace.add(Node(op, tuple(x._id for x in [*condition, *args]))))  # type: ignore[union-attr]


def _current(op: str) -> _Trace:
    if not _active:
        raise InputError(f"{op} is a tensor function: call it inside a @fusion function")
    return _active[-1]


def _operand(op: str, x: Value | float, trace: _Trace) -> Value | float:
    if isinstance(x, Value):
        if x._trace is not trace:
            raise InputError(f"{op}: an operand belongs to another fusion")
        if trace.graph.nodes[x._id]["node"].op == "transpose":
            raise InputError(f"{op}: a transposed expression can only be an output; transpose the result")
        return x
    if isinstance(x, Real) and not isinstance(x, bool):
        return x if isinstance(x, (int, float)) else x.item()
    raise InputError(f"{op}: an operand is neither a tensor expression nor a number: {x!r}")


def _kind(x: Value | float) -> Kind | None:
    return x.kind if isinstance(x, Value) else None


def _converted(op: str, x: Value | float, takes: str, trace: _Trace) -> Value:
    """An operand as an expression of the kind that the operation takes."""
    if not isinstance(x, Value):
        if takes == "int" and isinstance(x, int):
            return integer(x)
        if takes in ("int", "bool"):
            raise InputError(f"{op} takes {_WORDS[takes]}, not the number {x!r}")
        try:
            return Value(trace, trace.add(Node("const", value=float(x))))
        except OverflowError:
            raise InputError(f"{op}: an integer that no float holds") from None
    if takes in ("any", x.kind):
        return x
    if takes == "float":
        return Value(trace, trace.add(Node("float", (x._id,))))
    hint = {"bool": "compare, as in x > 0, or cast to bool", "int": "cast to i32"}[takes]
    raise InputError(f"{op} takes {_WORDS[takes]}, not {_WORDS[x.kind]}: {hint}")


_WORDS = {"float": "numbers", "int": "integers", "bool": "truth values"}


def integer(x: int) -> Value:
    """A whole number of at most 32 bits, or a seed of 64."""
    trace = _current("integer")
    if not -(2**63) <= x < 2**63:
        raise InputError(f"{x} does not fit 64 bits")
    return Value(trace, trace.add(Node("integer", value=int(x))))


def uniform(seed: Value | int, offset: Value | int) -> Value:
    """A random number in [0, 1) for each element: Philox 4x32-10 of its place, ``seed`` and ``offset``.

    Both are whole numbers, or scalar inputs of type i64 or i32.
    """
    trace = _current("uniform")
    args = []
    for name, x in (("seed", seed), ("offset", offset)):
        given = integer(x) if isinstance(x, int) else _operand("uniform", x, trace)
        if not isinstance(given, Value) or not _whole(trace, given):
            raise InputError(
                f"uniform: {name} must be a whole number or an input declared as Tensor('i64') or "
                "Tensor('i32'), without dimensions"
            )
        args.append(given._id)
    return Value(trace, trace.add(Node("random", tuple(args))))


def _whole(trace: _Trace, x: Value) -> bool:
    """Whether an expression is an integer of 64 bits, or a scalar input that holds one."""
    node: Node = trace.graph.nodes[x._id]["node"]
    scalars = [Tensor(t) for t in INDEX_DTYPES]
    return node.op == "integer" or (node.op == "input" and trace.inputs[node.name] in scalars)


def rotate(x: Value, style: str) -> Value:
    """Elements of each row changed for their partners, those that come first negated.

    ``style``: "pairs" (y[2i] = -x[2i+1], y[2i+1] = x[2i]) or "halves" (y = -upper half, lower half), along
    the innermost dimension.
    """
    op = f"rotate.{style}"
    trace = _current("rotate")
    if op not in ROTATIONS:
        raise InputError(f"rotate: style {style!r} is not one of pairs, halves")
    x = _converted("rotate", _operand("rotate", x, trace), "float", trace)
    if trace.order[-1] not in x.dims:
        raise InputError(f"rotate moves elements along {trace.order[-1]}, which the expression lacks")
    if any(trace.graph.nodes[i]["node"].op in ROTATIONS for i in nx.ancestors(trace.graph, x._id) | {x._id}):
        raise InputError("rotate of what is rotated already: rotate once")
    return Value(trace, trace.add(Node(op, (x._id,))))


def _along(x: Value, dim: str | None) -> str:
    """The dimension of a reduction; raises InputError for one that the expression lacks."""
    if not x.dims:
        raise InputError("a reduction of a scalar")
    if dim is not None and dim not in x.dims:
        raise InputError(f"a reduction along {dim} of an expression with dimensions {', '.join(x.dims)}")
    return x.dims[-1] if dim is None else dim


def _several(x: Value, dim: Along) -> list[str]:
    """The dimensions of a reduction, innermost first."""
    names = [dim] if dim is None or isinstance(dim, str) else [*dim] if isinstance(dim, tuple | list) else [0]
    if not all(isinstance(d, str | None) for d in names):
        raise InputError(f"a reduction along {dim!r}: dimensions are named, as in x.sum({x.dims[-1:]})")
    found = {_along(x, d) for d in names}
    if not names or len(found) < len(names):
        raise InputError(f"a reduction along {names}: name each dimension once")
    return [d for d in reversed(x.dims) if d in found]


def _reduced(op: str, x: Value, dim: Along) -> Value:
    for d in _several(x, dim):
        x = reduce(op, x, d)
    return x


def _elements(x: Value, dim: Along) -> Value:
    """How many elements a reduction takes, as a number."""
    first, *others = _several(x, dim)
    result = size(first)
    for d in others:
        result = result * size(d)
    return result


def reduce(op: str, x: Value, dim: str | None = None) -> Value:
    """Adds a reduction along one dimension to the fusion being traced."""
    trace = _current(op)
    x = _converted(op, _operand(op, x, trace), "float", trace)
    return Value(trace, trace.add(Node(op, (x._id,), dim=_along(x, dim))))


def take(x: Value, place: Value) -> Value:
    """The element of each row of ``x`` at ``place``, an index; 0 where ``place`` lies outside the row.

    What is computed element by element is computed of the elements that are taken. Example: of
    ``x - x.max()`` at a place only that element of ``x`` is read again, not the row.
    """
    dim = _along(x, None)
    found = _Taken(x._trace, place, dim).of(x._id)
    if found is None:
        return apply("where", apply("eq", index(dim), place), x, 0.0).sum(dim)
    value = Value(x._trace, found)
    if x._trace.graph.nodes[found]["node"].op == "take":
        return value
    return apply("where", apply("and", place >= 0, place < size(dim)), value, 0.0)


class _Taken:
    """Expressions of one element of each row, in the place of expressions of whole rows."""

    def __init__(self, trace: _Trace, place: Value, dim: str) -> None:
        self.trace = trace
        self.place = place
        self.dim = dim
        self.found: dict[int, int | None] = {}
        node: Node = trace.graph.nodes[place._id]["node"]
        self.known = node.op == "input" and trace.inputs[node.name].dtype in INDEX_DTYPES

    def of(self, i: int) -> int | None:
        """The expression of one element in place of one of whole rows; None where there is none."""
        if i not in self.found:
            self.found[i] = self._made(i) if self.known else None
        return self.found[i]

    def _made(self, i: int) -> int | None:
        node: Node = self.trace.graph.nodes[i]["node"]
        dims = self.trace.dims_of(i)
        if self.dim not in dims:
            return i
        if node.op == "input" and dims == (*self.place.dims, self.dim):
            return self.trace.add(Node("take", (i, self.place._id), dim=self.dim))
        if node.op not in FUNCTIONS:
            return None
        args = [self.of(a) for a in node.args]
        known = tuple(a for a in args if a is not None)
        return self.trace.add(replace(node, args=known)) if len(known) == len(args) else None


def size(dim: str) -> Value:
    """The extent of a dimension, as a number."""
    return _of_dim("size", dim)


def index(dim: str) -> Value:
    """The place along a dimension, from 0."""
    return _of_dim("index", dim)


def _of_dim(op: str, dim: str) -> Value:
    trace = _current(op)
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


def trace(function: Callable[..., Any], tensors: Mapping[str, Tensor], order: Sequence[str] = ()) -> Fusion:
    """Runs ``function`` once on symbolic tensors and returns what it computed.

    ``order``: dimensions, outermost first, where inputs alone leave it open: of a column and a row.
    """
    # a lambda has no name that a kernel could have
    name = function.__name__ if function.__name__.isidentifier() else "fused"
    span = _span(function)
    parameters = list(inspect.signature(function).parameters)
    if set(parameters) != set(tensors):
        raise InputError(
            f"fusion {name} declares {sorted(tensors)} but the function takes {parameters}", span
        )
    for n in parameters:
        check_tensor(name, n, tensors[n], span)
    called = kernel_names(parameters, "_in")
    dims = full_dims(name, {n: tensors[n] for n in parameters}, span, order)
    inputs = tuple((called[n], tensors[n]) for n in parameters)
    apart = {pitch(n, d) for n, t in inputs if t.apart for d in t.dims}
    for n in apart & {*dims, *dict(inputs)}:
        raise InputError(f"fusion {name}: kernels use the name {n} themselves", span)
    with _tracing(dims, dict(inputs)) as t, _located(name):
        result = function(**{n: Value(t, t.add(Node("input", name=called[n]))) for n in parameters})
    outputs = _outputs(name, result, t, inputs, span)
    _prune(t.graph, outputs)
    nodes = [t.graph.nodes[i]["node"] for i in t.graph.nodes]
    along = {n.dim for n in nodes if n.op in REDUCTIONS or n.op == "take"}
    missing = set(dims) - along - {d for o in outputs for d in o.dims}
    if missing:
        raise InputError(f"fusion {name}: no output depends on {', '.join(sorted(missing))}", span)
    return Fusion(name, inputs, outputs, dims, t.graph, span, tuple(called.items()))


@contextmanager
def _located(name: str) -> Iterator[None]:
    """Adds the author's line to what is wrong in a function that is traced."""
    try:
        yield
    except InputError as e:
        if e.span != UNKNOWN_SPAN:
            raise
        raise InputError(f"fusion {name}: {e.message}", of_author(e.__traceback__)) from e


def _prune(graph: nx.DiGraph, outputs: tuple[Output, ...]) -> None:
    """Takes away what no output needs, but for the inputs."""
    kept = {o.node for o in outputs}.union(*(nx.ancestors(graph, o.node) for o in outputs))
    graph.remove_nodes_from([i for i in graph if i not in kept and graph.nodes[i]["node"].op != "input"])


def _span(function: Callable[..., Any]) -> Span:
    code = getattr(function, "__code__", None)
    return Span(code.co_filename, code.co_firstlineno) if code else UNKNOWN_SPAN


def _outputs(
    name: str, result: Any, trace: _Trace, inputs: tuple[tuple[str, Tensor], ...], span: Span
) -> tuple[Output, ...]:
    if isinstance(result, Value):
        result = {"out": result}
    elif isinstance(result, (tuple, list)):
        result = {f"out{k}": v for k, v in enumerate(result)}
    if not isinstance(result, dict) or not result:
        raise InputError(f"fusion {name} returns no tensor expression", span)
    taken = {*trace.order, *(n for n, _ in inputs)}
    for n in result:
        if n in taken:
            raise InputError(f"fusion {name}: {n} names an output, and an input or a dimension", span)
        check_name(name, n, "an output", span)
    called = kernel_names(list(result), "_out", taken)
    kinds = {t.dtype for _, t in inputs if t.dtype in FLOATS}
    default = kinds.pop() if len(kinds) == 1 else "f32"
    outputs = []
    for n, v in result.items():
        if not isinstance(v, Value) or v._trace is not trace:
            raise InputError(f"fusion {name}: output {n} is not a tensor expression of its inputs", span)
        node: Node = trace.graph.nodes[v._id]["node"]
        made, dims = v._id, v.dims
        if node.op == "transpose":
            (made,) = node.args
            node, dims = trace.graph.nodes[made]["node"], (*dims[:-2], dims[-1], dims[-2])
        dtype = {"int": "i32", "bool": "bool"}.get(v.kind, default)
        dtype = node.op.removeprefix("cast.") if node.op.startswith("cast.") else dtype
        outputs.append(Output(called[n], made, dtype, dims))
    return tuple(outputs)


__all__ = [
    "DTYPES", "FLOATS", "INDEX_DTYPES", "ROTATIONS", "Fusion", "Node", "Output", "Tensor", "Value", "apply",
    "fusion", "index", "integer", "reduce", "rotate", "size", "take", "trace", "uniform",
]  # fmt: skip
