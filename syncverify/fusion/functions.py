"""The functions a fusion may use: one row each, with its NumPy meaning and its kernel expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from syncverify.ir.expr import Binary, Call, Expr, Float, Unary

Array = Any


#: What an element is: a number in f32, one in i32, or a truth value.
Kind = Literal["float", "int", "bool"]


@dataclass(frozen=True, slots=True)
class Function:
    """One elementwise function: how NumPy computes it and how the kernel IR writes it.

    ``takes``: the kind of its arguments; "number" is "int" where all are, else "float". ``gives``: the kind
    of its result; "same" as its arguments.
    """

    name: str
    arity: int
    compute: Callable[..., Array]
    express: Callable[..., Expr]
    takes: Literal["number", "float", "int", "bool", "any"] = "float"
    gives: Literal["same", "float", "int", "bool"] = "same"


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
    # (1 + tanh(u)) / 2 is sigmoid(2u), without the difference of 1 and what is nearly 1
    twice = x * (Float(2 * _ROOT) + Float(2 * _ROOT * 0.044715) * (x * x))
    return x * Call("sigmoid", (twice,))


def _silu_expr(x: Expr) -> Expr:
    return x * Call("sigmoid", (x,))


#: The largest finite number of types to which conversions saturate.
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}


def round_to(dtype: str, x: Array) -> Array:
    """Converts to a storage type and returns NumPy's array of that type.

    To nearest even; numbers beyond the range of an 8-bit type become its largest. Integers are truncated.
    """
    if dtype in LARGEST:
        x = np.clip(x, -LARGEST[dtype], LARGEST[dtype])
    return np.asarray(x).astype(numpy_dtype(dtype))


#: Types that come from ml_dtypes.
_ML_DTYPES = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
_NUMPY_DTYPES = {
    "f32": np.float32, "f16": np.float16, "i32": np.int32, "i64": np.int64, "bool": np.bool_,
}  # fmt: skip


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type of an element type; bfloat16 and the 8-bit ones come from ml_dtypes."""
    if dtype in _ML_DTYPES:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype]))
        return found
    return np.dtype(_NUMPY_DTYPES[dtype])


def kind_of_dtype(dtype: str) -> Kind:
    """What elements of a type are computed as; 64-bit indices as f32."""
    kinds: dict[str, Kind] = {"i32": "int", "bool": "bool"}
    return kinds.get(dtype, "float")


def _cast(dtype: str) -> Callable[[Array], Array]:
    return lambda x: np.asarray(round_to(dtype, x), dtype=np.float32)


def _softplus(x: Array) -> Array:
    return np.maximum(x, np.float32(0.0)) + np.log1p(np.exp(-np.abs(x)))


def _softplus_expr(x: Expr) -> Expr:
    return Call("max", (x, Float(0.0))) + Call("log1p", (Call("exp", (-Call("abs", (x,)),)),))


def _sign(x: Array) -> Array:
    # of -0 and NaN: themselves
    return np.where(x > 0, np.float32(1.0), np.where(x < 0, np.float32(-1.0), x))


def _sign_expr(x: Expr) -> Expr:
    below = Call("select", (x < 0.0, Float(-1.0), x))
    return Call("select", (x > 0.0, Float(1.0), below))


def _hard(x: Array) -> Array:
    return np.clip(x + np.float32(3.0), np.float32(0.0), np.float32(6.0)) * np.float32(1 / 6)


def _hard_expr(x: Expr) -> Expr:
    return Call("min", (Call("max", (x + Float(3.0), Float(0.0))), Float(6.0))) * Float(1 / 6)


def _float_row(name: str, compute: Callable[[Array], Array], call: str = "") -> Function:
    return Function(name, 1, compute, _call(call or name))


def _number_row(
    name: str, arity: int, compute: Callable[..., Array], express: Callable[..., Expr]
) -> Function:
    return Function(name, arity, compute, express, "number")


def _comparison(name: str, op: str, compute: Callable[..., Array]) -> Function:
    return Function(name, 2, compute, _binary(op), "number", "bool")


def _logical(name: str, arity: int, compute: Callable[..., Array], express: Callable[..., Expr]) -> Function:
    return Function(name, arity, compute, express, "bool", "bool")


def _bitwise(name: str, op: str, compute: Callable[..., Array]) -> Function:
    return Function(name, 2, compute, _binary(op), "int", "int")


_ROWS = (
    _number_row("add", 2, lambda a, b: a + b, _binary("+")),
    _number_row("sub", 2, lambda a, b: a - b, _binary("-")),
    _number_row("mul", 2, lambda a, b: a * b, _binary("*")),
    _number_row("neg", 1, lambda a: -a, lambda a: Unary("-", a)),
    _number_row("abs", 1, np.abs, _call("abs")),
    _number_row("minimum", 2, np.minimum, _call("min")),
    _number_row("maximum", 2, np.maximum, _call("max")),
    Function("div", 2, lambda a, b: a / b, _binary("/")),
    Function("pow", 2, np.power, _call("pow")),
    _comparison("lt", "<", lambda a, b: a < b),
    _comparison("le", "<=", lambda a, b: a <= b),
    _comparison("gt", ">", lambda a, b: a > b),
    _comparison("ge", ">=", lambda a, b: a >= b),
    _comparison("eq", "==", lambda a, b: a == b),
    _comparison("ne", "!=", lambda a, b: a != b),
    _logical("and", 2, np.logical_and, _binary("and")),
    _logical("or", 2, np.logical_or, _binary("or")),
    _logical("xor", 2, np.logical_xor, _binary("!=")),
    _logical("not", 1, np.logical_not, lambda a: Unary("not", a)),
    _bitwise("bit_and", "&", np.bitwise_and),
    _bitwise("bit_or", "|", np.bitwise_or),
    _bitwise("bit_xor", "^", np.bitwise_xor),
    Function("where", 3, np.where, _call("select"), "number"),
    _float_row("exp", np.exp),
    _float_row("exp2", np.exp2),
    _float_row("expm1", np.expm1),
    _float_row("log", np.log),
    _float_row("log2", np.log2),
    _float_row("log1p", np.log1p),
    _float_row("sin", np.sin),
    _float_row("cos", np.cos),
    _float_row("tanh", np.tanh),
    _float_row("sqrt", np.sqrt),
    _float_row("rsqrt", lambda a: np.float32(1.0) / np.sqrt(a)),
    _float_row("floor", np.floor),
    _float_row("ceil", np.ceil),
    _float_row("round", np.rint),
    _float_row("trunc", np.trunc),
    _float_row("erf", _erf),
    _float_row("sigmoid", _sigmoid),
    _float_row("relu", lambda a: np.maximum(a, np.float32(0.0))),
    Function("sign", 1, _sign, _sign_expr),
    Function("gelu", 1, _gelu, _gelu_expr),
    Function("gelu_tanh", 1, _gelu_tanh, _gelu_tanh_expr),
    Function("silu", 1, lambda a: a * _sigmoid(a), _silu_expr),
    Function("softplus", 1, _softplus, _softplus_expr),
    Function(
        "mish", 1, lambda a: a * np.tanh(_softplus(a)), lambda a: a * Call("tanh", (_softplus_expr(a),))
    ),
    Function("hardsigmoid", 1, _hard, _hard_expr),
    Function("hardswish", 1, lambda a: a * _hard(a), lambda a: a * _hard_expr(a)),
    # of numbers that are no floats; the reference knows its precision
    Function("float", 1, lambda a: a, _call("cast.f32"), "any", "float"),
    Function("cast.f32", 1, lambda a: a, _call("cast.f32")),
    Function("cast.bf16", 1, _cast("bf16"), _call("cast.bf16")),
    Function("cast.f16", 1, _cast("f16"), _call("cast.f16")),
    Function("cast.e4m3", 1, _cast("e4m3"), _call("cast.e4m3")),
    Function("cast.e5m2", 1, _cast("e5m2"), _call("cast.e5m2")),
    Function("cast.i32", 1, lambda a: round_to("i32", a), _call("cast.i32"), "any", "int"),
    Function("cast.bool", 1, lambda a: a != 0, lambda a: a.ne(0), "any", "bool"),
)

#: Every function by name.
FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}

#: Functions that compare two numbers.
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
