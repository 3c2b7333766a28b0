"""The functions a fusion may use: one row each, with its NumPy meaning and its kernel expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncverify.ir.expr import Binary, Call, Expr, Float, Unary

Array = Any


@dataclass(frozen=True, slots=True)
class Function:
    """One elementwise function: how NumPy computes it and how the kernel IR writes it."""

    name: str
    arity: int
    compute: Callable[..., Array]
    express: Callable[..., Expr]


def _call(name: str) -> Callable[..., Expr]:
    return lambda *args: Call(name, args)


def _binary(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: Binary(op, a, b)


_ROOT = math.sqrt(2.0 / math.pi)
_erf_object = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(_erf_object(x), dtype=np.float32)


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _gelu(x: Array) -> Array:
    return np.float32(0.5) * x * (np.float32(1.0) + _erf(x * np.float32(math.sqrt(0.5))))


def _gelu_expr(x: Expr) -> Expr:
    return Float(0.5) * x * (Float(1.0) + Call("erf", (x * Float(math.sqrt(0.5)),)))


def _gelu_tanh(x: Array) -> Array:
    inner = x * (np.float32(_ROOT) + np.float32(_ROOT * 0.044715) * (x * x))
    return np.float32(0.5) * x * (np.float32(1.0) + np.tanh(inner))


def _gelu_tanh_expr(x: Expr) -> Expr:
    inner = x * (Float(_ROOT) + Float(_ROOT * 0.044715) * (x * x))
    return Float(0.5) * x * (Float(1.0) + Call("tanh", (inner,)))


def _silu_expr(x: Expr) -> Expr:
    return x * Call("sigmoid", (x,))


def round_to(dtype: str, x: Array) -> Array:
    """Rounds to a storage type (to nearest even) and returns NumPy's array of that type."""
    return np.asarray(x, dtype=numpy_dtype(dtype))


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type of an IR element type; bfloat16 comes from ml_dtypes."""
    if dtype == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)  # type: ignore[no-any-return, unused-ignore]
    names = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i64": np.int64}
    return np.dtype(names[dtype])


def _cast(dtype: str) -> Callable[[Array], Array]:
    return lambda x: np.asarray(round_to(dtype, x), dtype=np.float32)


_ROWS = (
    Function("add", 2, lambda a, b: a + b, _binary("+")),
    Function("sub", 2, lambda a, b: a - b, _binary("-")),
    Function("mul", 2, lambda a, b: a * b, _binary("*")),
    Function("div", 2, lambda a, b: a / b, _binary("/")),
    Function("neg", 1, lambda a: -a, lambda a: Unary("-", a)),
    Function("lt", 2, lambda a, b: a < b, _binary("<")),
    Function("le", 2, lambda a, b: a <= b, _binary("<=")),
    Function("gt", 2, lambda a, b: a > b, _binary(">")),
    Function("ge", 2, lambda a, b: a >= b, _binary(">=")),
    Function("eq", 2, lambda a, b: a == b, _binary("==")),
    Function("ne", 2, lambda a, b: a != b, _binary("!=")),
    Function("where", 3, np.where, _call("select")),
    Function("exp", 1, np.exp, _call("exp")),
    Function("log", 1, np.log, _call("log")),
    Function("tanh", 1, np.tanh, _call("tanh")),
    Function("sqrt", 1, np.sqrt, _call("sqrt")),
    Function("rsqrt", 1, lambda a: np.float32(1.0) / np.sqrt(a), _call("rsqrt")),
    Function("abs", 1, np.abs, _call("abs")),
    Function("erf", 1, _erf, _call("erf")),
    Function("sigmoid", 1, _sigmoid, _call("sigmoid")),
    Function("relu", 1, lambda a: np.maximum(a, np.float32(0.0)), _call("relu")),
    Function("gelu", 1, _gelu, _gelu_expr),
    Function("gelu_tanh", 1, _gelu_tanh, _gelu_tanh_expr),
    Function("silu", 1, lambda a: a * _sigmoid(a), _silu_expr),
    Function("minimum", 2, np.minimum, _call("min")),
    Function("maximum", 2, np.maximum, _call("max")),
    Function("pow", 2, np.power, _call("pow")),
    Function("cast.f32", 1, lambda a: a, _call("cast.f32")),
    Function("cast.bf16", 1, _cast("bf16"), _call("cast.bf16")),
    Function("cast.f16", 1, _cast("f16"), _call("cast.f16")),
)

#: Every function by name.
FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}

#: Functions whose result is a truth value, usable only as the condition of ``where``.
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


@dataclass(frozen=True, slots=True)
class Reduction:
    """One number of many: NumPy's function of (array, axis), what it starts from, how two are combined."""

    compute: Callable[[Array, int], Array]
    identity: float
    combine: Callable[[Expr, Expr], Expr]


REDUCTIONS: dict[str, Reduction] = {
    "reduce.add": Reduction(lambda x, at: np.sum(x, at, keepdims=True), 0.0, _binary("+")),
    "reduce.max": Reduction(lambda x, at: np.max(x, at, keepdims=True), -math.inf, _call("max")),
    "reduce.min": Reduction(lambda x, at: np.min(x, at, keepdims=True), math.inf, _call("min")),
}
