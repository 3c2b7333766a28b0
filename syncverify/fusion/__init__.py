"""Fusions: tensor expressions and reductions along rows, and the schedules that turn them into kernels."""

from __future__ import annotations

from typing import Literal

from syncverify.fusion.graph import Fusion, Tensor, Value, apply, fusion, index, size, take, trace
from syncverify.fusion.library import (
    cross_entropy,
    layer_norm,
    log_softmax,
    logsumexp,
    rms_norm,
    softmax,
)
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.fusion.schedule import Schedule


def exp(x: Value) -> Value:
    return apply("exp", x)


def log(x: Value) -> Value:
    return apply("log", x)


def tanh(x: Value) -> Value:
    return apply("tanh", x)


def sqrt(x: Value) -> Value:
    return apply("sqrt", x)


def rsqrt(x: Value) -> Value:
    return apply("rsqrt", x)


def erf(x: Value) -> Value:
    return apply("erf", x)


def sigmoid(x: Value) -> Value:
    return apply("sigmoid", x)


def relu(x: Value) -> Value:
    return apply("relu", x)


def gelu(x: Value, approximate: Literal["none", "tanh"] = "none") -> Value:
    """The exact form with erf, or its approximation with tanh."""
    return apply("gelu_tanh" if approximate == "tanh" else "gelu", x)


def silu(x: Value) -> Value:
    return apply("silu", x)


def minimum(a: Value | float, b: Value | float) -> Value:
    return apply("minimum", a, b)


def maximum(a: Value | float, b: Value | float) -> Value:
    return apply("maximum", a, b)


def where(condition: Value, a: Value | float, b: Value | float) -> Value:
    return apply("where", condition, a, b)


__all__ = [
    "Fusion", "RowSchedule", "Schedule", "Tensor", "Value", "cross_entropy", "erf", "exp", "fusion", "gelu",
    "index", "layer_norm", "log", "log_softmax", "logsumexp", "maximum", "minimum", "relu", "rms_norm",
    "rsqrt", "sigmoid", "silu", "size", "softmax", "sqrt", "take", "tanh", "trace", "where",
]  # fmt: skip
