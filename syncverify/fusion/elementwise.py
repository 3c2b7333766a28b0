"""The elementwise functions by name, as a fusion's Python function calls them."""

from __future__ import annotations

import math
from typing import Literal

from syncverify.base.source import InputError
from syncverify.fusion.graph import Value, apply

Operand = Value | float


def exp(x: Value) -> Value:
    return apply("exp", x)


def exp2(x: Value) -> Value:
    return apply("exp2", x)


def expm1(x: Value) -> Value:
    return apply("expm1", x)


def log(x: Value) -> Value:
    return apply("log", x)


def log2(x: Value) -> Value:
    return apply("log2", x)


def log10(x: Value) -> Value:
    return apply("log", x) * (1.0 / math.log(10.0))


def log1p(x: Value) -> Value:
    return apply("log1p", x)


def sin(x: Value) -> Value:
    return apply("sin", x)


def cos(x: Value) -> Value:
    return apply("cos", x)


def tanh(x: Value) -> Value:
    return apply("tanh", x)


def sqrt(x: Value) -> Value:
    return apply("sqrt", x)


def rsqrt(x: Value) -> Value:
    return apply("rsqrt", x)


def square(x: Value) -> Value:
    return x * x


def reciprocal(x: Value) -> Value:
    return 1.0 / x


def pow(x: Operand, y: Operand) -> Value:
    return x**y if isinstance(x, Value) else apply("pow", x, y)


def floor(x: Value) -> Value:
    return apply("floor", x)


def ceil(x: Value) -> Value:
    return apply("ceil", x)


def round(x: Value) -> Value:
    """To the nearest integer, to even between two."""
    return apply("round", x)


def trunc(x: Value) -> Value:
    return apply("trunc", x)


def sign(x: Value) -> Value:
    """-1, 0 or 1; NaN of NaN."""
    return apply("sign", x)


def erf(x: Value) -> Value:
    return apply("erf", x)


def sigmoid(x: Value) -> Value:
    return apply("sigmoid", x)


def relu(x: Value) -> Value:
    return apply("relu", x)


def leaky_relu(x: Value, slope: float = 0.01) -> Value:
    return where(x > 0.0, x, x * slope)


def elu(x: Value, alpha: float = 1.0) -> Value:
    return where(x > 0.0, x, apply("expm1", x) * alpha)


def gelu(x: Value, approximate: Literal["none", "tanh"] = "none") -> Value:
    """The exact form with erf, or its approximation with tanh."""
    if approximate not in ("none", "tanh"):
        raise InputError(f"gelu: approximate is none or tanh, not {approximate!r}")
    return apply("gelu_tanh" if approximate == "tanh" else "gelu", x)


def silu(x: Value) -> Value:
    return apply("silu", x)


def softplus(x: Value, beta: float = 1.0) -> Value:
    """log(1 + exp(beta x)) / beta, without overflow."""
    return apply("softplus", x) if beta == 1.0 else apply("softplus", x * beta) * (1.0 / beta)


def mish(x: Value) -> Value:
    return apply("mish", x)


def hardsigmoid(x: Value) -> Value:
    return apply("hardsigmoid", x)


def hardswish(x: Value) -> Value:
    return apply("hardswish", x)


def minimum(a: Operand, b: Operand) -> Value:
    return apply("minimum", a, b)


def maximum(a: Operand, b: Operand) -> Value:
    return apply("maximum", a, b)


def clamp(x: Value, least: Operand | None = None, most: Operand | None = None) -> Value:
    """Between two bounds, or beyond one of them; NaN of NaN."""
    if least is None and most is None:
        raise InputError("clamp: give a least or a most value")
    x = x if least is None else apply("maximum", x, least)
    return x if most is None else apply("minimum", x, most)


def where(condition: Value, a: Operand, b: Operand) -> Value:
    return apply("where", condition, a, b)


def logical_and(a: Value, b: Value) -> Value:
    return apply("and", a, b)


def logical_or(a: Value, b: Value) -> Value:
    return apply("or", a, b)


def logical_xor(a: Value, b: Value) -> Value:
    return apply("xor", a, b)


def logical_not(a: Value) -> Value:
    return apply("not", a)


def isnan(x: Value) -> Value:
    return apply("ne", x, x)


def isinf(x: Value) -> Value:
    return apply("eq", apply("abs", x), math.inf)


def isfinite(x: Value) -> Value:
    return apply("lt", apply("abs", x), math.inf)
