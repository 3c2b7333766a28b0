"""Which functions of torch a fusion can hold, and what each is in a fusion's own functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch

from syncverify.fusion import Value, gelu, maximum, minimum, where
from syncverify.fusion.functions import FUNCTIONS
from syncverify.fusion.graph import apply
from syncverify.torch import embeddings, losses

aten = torch.ops.aten

#: torch's element types in the project's spelling; others stay outside of fusions.
DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
INDEX_DTYPES = {torch.int32: "i32", torch.int64: "i64"}

Operand = Value | float


@dataclass(frozen=True, slots=True)
class Row:
    """One elementwise function: its value of operands that are numbers (n) or conditions (c)."""

    build: Callable[..., Value]
    takes: str = "nnn"
    gives: str = "n"


def number(condition: Value) -> Value:
    """1 and 0 for a condition."""
    return where(condition, 1.0, 0.0)


def _plain(name: str) -> Callable[..., Value]:
    return lambda *args: apply(name, *args)


def _add(a: Operand, b: Operand, alpha: float = 1) -> Value:
    return apply("add", a, b if alpha == 1 else apply("mul", b, float(alpha)))


def _sub(a: Operand, b: Operand, alpha: float = 1) -> Value:
    return apply("sub", a, b if alpha == 1 else apply("mul", b, float(alpha)))


def _rsub(a: Operand, b: Operand, alpha: float = 1) -> Value:
    return _sub(b, a, alpha)


def _pow(a: Operand, b: Operand) -> Value:
    if isinstance(b, Value):
        return apply("pow", a, b)
    if b == 2:
        return apply("mul", a, a)
    if b == 3:
        return apply("mul", apply("mul", a, a), a)
    if b == 1:
        return apply("mul", a, 1.0)
    if b == -1:
        return apply("div", 1.0, a)
    if b in (0.5, -0.5):
        return apply("sqrt" if b == 0.5 else "rsqrt", a)
    return apply("pow", a, b)


def _clamp(x: Value, low: Operand | None = None, high: Operand | None = None) -> Value:
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


def _either(a: Value, b: Value) -> Value:
    return apply("ne", where(a, 1.0, number(b)), 0.0)


def _both(a: Value, b: Value) -> Value:
    return apply("ne", where(a, number(b), 0.0), 0.0)


def _not(a: Value) -> Value:
    return apply("eq", number(a), 0.0)


_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
#: Functions of the same name and meaning on both sides.
_SAME = (
    "mul", "div", "neg", "abs", "exp", "log", "tanh", "sqrt", "rsqrt", "erf", "sigmoid", "relu", "silu",
    "minimum", "maximum", "sin", "cos", "exp2", "log2", "log1p", "expm1", "floor", "ceil", "trunc",
)  # fmt: skip
_ROWS: dict[str, Row] = {
    **{name: Row(_plain(name)) for name in _SAME if name in FUNCTIONS},
    **{name: Row(_plain(name), gives="c") for name in _COMPARISONS},
    "add": Row(_add),
    "sub": Row(_sub),
    "rsub": Row(_rsub),
    "pow": Row(_pow),
    "clamp": Row(_clamp),
    "clamp_min": Row(_clamp),
    "clamp_max": Row(lambda x, high: _clamp(x, None, high)),
    "gelu": Row(lambda x, approximate="none": gelu(x, approximate)),
    "reciprocal": Row(lambda x: apply("div", 1.0, x)),
    "where": Row(where, "cnn"),
    "masked_fill": Row(lambda x, mask, value: where(mask, value, x), "ncn"),
    "logical_not": Row(_not, "c", "c"),
    "bitwise_not": Row(_not, "c", "c"),
    "logical_and": Row(_both, "cc", "c"),
    "bitwise_and": Row(_both, "cc", "c"),
    "logical_or": Row(_either, "cc", "c"),
    "bitwise_or": Row(_either, "cc", "c"),
    "isnan": Row(lambda x: apply("ne", x, x), gives="c"),
    "isinf": Row(lambda x: apply("eq", apply("abs", x), math.inf), gives="c"),
}
_OVERLOADS = (
    "default", "Tensor", "Scalar", "self", "Tensor_Tensor", "Tensor_Scalar", "ScalarSelf", "ScalarOther",
)  # fmt: skip


def _pointwise() -> dict[Any, Row]:
    packets = [(getattr(aten, name), row) for name, row in _ROWS.items()]
    return {getattr(p, o): row for p, row in packets for o in p.overloads() if o in _OVERLOADS}


#: Elementwise functions.
POINTWISE: dict[Any, Row] = _pointwise()

#: Functions that make one number of each row.
REDUCTIONS: dict[Any, Callable[[Value, str], Value]] = {
    aten.sum.dim_IntList: lambda x, dim: x.sum(dim),
    aten.sum.default: lambda x, dim: x.sum(dim),
    aten.mean.dim: lambda x, dim: x.mean(dim),
    aten.mean.default: lambda x, dim: x.mean(dim),
    aten.amax.default: lambda x, dim: x.max(dim),
    aten.amin.default: lambda x, dim: x.min(dim),
}
#: The same with a correction: variances, and both moments at once.
VARIANCES = {aten.var.correction: False, aten.var_mean.correction: True}
#: Operators with several results, each an item of its own.
PAIRS = frozenset({*VARIANCES, losses.CHOSEN})

#: The same elements in another shape.
RESHAPES = frozenset(
    {
        aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default,
        aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
    }
)  # fmt: skip
#: The same tensor.
ALIASES = frozenset({aten.alias.default, aten.detach.default, aten.clone.default})
EXPANDS = frozenset({aten.expand.default})
VIEWS = RESHAPES | EXPANDS | ALIASES
#: What makes tensors of one number.
CONSTANTS = {
    aten.scalar_tensor.default: 0, aten.full.default: 1, aten.full_like.default: 1,
}  # fmt: skip
#: Products of many matrices; those that add a tensor; all.
BATCHED = frozenset({aten.bmm.default, aten.baddbmm.default})
SUMS = frozenset({aten.addmm.default, aten.baddbmm.default})
PRODUCTS = frozenset({aten.mm.default}) | BATCHED | SUMS
#: Rows of experts, which may be of different sizes.
GROUPED = attrgetter("_grouped_mm.default")(aten)
CASTS = frozenset({aten._to_copy.default, torch.ops.prims.convert_element_type.default})
GATHER = aten.gather.default


def decompositions() -> dict[Any, Any]:
    """Inductor's own, but for losses of chosen classes, which stay operators of rows, and for gradients of
    embeddings with few rows."""
    from torch._inductor.decomposition import select_decomp_table

    found: dict[Any, Any] = dict(select_decomp_table())
    for ours, theirs in (
        (losses.forward, aten.nll_loss_forward.default),
        (losses.backward, aten.nll_loss_backward.default),
        (embeddings.backward, aten.embedding_dense_backward.default),
    ):
        found[theirs] = _or(ours, found[theirs])
    return found


def _or(ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    """The first of two decompositions that takes the arguments."""

    def decomposed(*args: Any, **kwargs: Any) -> Any:
        made = ours(*args, **kwargs)
        return theirs(*args, **kwargs) if made is NotImplemented else made

    return decomposed


__all__ = [
    "ALIASES", "BATCHED", "CASTS", "CONSTANTS", "DTYPES", "EXPANDS", "GATHER", "GROUPED", "INDEX_DTYPES",
    "PAIRS", "POINTWISE", "PRODUCTS", "REDUCTIONS", "RESHAPES", "SUMS", "VARIANCES", "VIEWS", "Row", "aten",
    "decompositions", "number",
]  # fmt: skip
