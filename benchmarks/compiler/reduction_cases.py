"""Reductions beyond rows that fit: long rows, columns, several dimensions, fusions of several kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from syncverify.fusion import (
    Fusion,
    Tensor,
    Value,
    cross_entropy,
    layer_norm,
    log_softmax,
    logsumexp,
    rms_norm,
    rsqrt,
    softmax,
    trace,
)


@dataclass(frozen=True)
class Case:
    """A fusion, the sizes at which its results are compared (ragged), and those at which it is timed."""

    function: Callable[..., Any]
    tensors: dict[str, Tensor]
    correct: tuple[dict[str, int], ...]
    timed: tuple[dict[str, int], ...]

    @property
    def fusion(self) -> Fusion:
        return trace(self.function, self.tensors)


X, F = Tensor("bf16", ("R", "C")), Tensor("f32", ("R", "C"))
V, ROW, TARGET = Tensor("f32", ("C",)), Tensor("f32", ("R",)), Tensor("i64", ("R",))
NCHW = Tensor("f32", ("N", "C", "H", "W"))
NHWC = Tensor("bf16", ("N", "H", "W", "C"))

LONG = ({"R": 1, "C": 65536}, {"R": 5, "C": 131080}, {"R": 3, "C": 262144}, {"R": 2, "C": 100003})
LONG_TIMED = ({"R": 2048, "C": 65536}, {"R": 1024, "C": 131072}, {"R": 512, "C": 262144})
TALL = ({"R": 1, "C": 264}, {"R": 1237, "C": 1000}, {"R": 20011, "C": 77})
TALL_TIMED = ({"R": 32768, "C": 4096}, {"R": 1 << 21, "C": 64})
SQUARE = ({"R": 3, "C": 264}, {"R": 517, "C": 1000}, {"R": 1031, "C": 2048})
SQUARE_TIMED = ({"R": 16384, "C": 4096},)


def batch_norm(x: Value, w: Value, b: Value) -> Value:
    return (x - x.mean("R")) * rsqrt(x.var("R") + 1e-5) * w + b


def group_norm(x: Value) -> Value:
    dims = ("H", "W")
    return (x - x.mean(dims)) * rsqrt(x.var(dims) + 1e-5)


def norm_gradients(dy: Value, x: Value, mean: Value, rstd: Value) -> dict[str, Value]:
    return {"weight": (dy * (x - mean) * rstd).sum("R"), "bias": dy.sum("R")}


CASES: dict[str, Case] = {
    "long softmax": Case(lambda x: softmax(x), {"x": X}, LONG, LONG_TIMED),
    "long log_softmax": Case(lambda x: log_softmax(x), {"x": F}, LONG, ()),
    "long logsumexp": Case(lambda x: logsumexp(x), {"x": X}, LONG, LONG_TIMED[1:2]),
    "long cross_entropy": Case(
        lambda x, t: cross_entropy(x, t), {"x": X, "t": TARGET}, LONG, LONG_TIMED
    ),
    "long layer_norm": Case(
        lambda x, w, b: layer_norm(x, w, b), {"x": X, "w": V, "b": V}, LONG, LONG_TIMED[1:2]
    ),
    "long rms_norm": Case(lambda x, w: rms_norm(x, w), {"x": X, "w": V}, LONG, LONG_TIMED[1:2]),
    "long var": Case(lambda x: {"mean": x.mean(), "var": x.var()}, {"x": F}, LONG, LONG_TIMED[1:2]),
    "column sum": Case(lambda x: x.sum("R"), {"x": X}, TALL, TALL_TIMED),
    "column max": Case(lambda x: {"hi": x.max("R"), "lo": x.min("R")}, {"x": F}, TALL, TALL_TIMED[:1]),
    "column var": Case(lambda x: {"mean": x.mean("R"), "var": x.var("R")}, {"x": X}, TALL, TALL_TIMED),
    "norm gradients": Case(
        norm_gradients, {"dy": X, "x": X, "mean": ROW, "rstd": ROW}, TALL, TALL_TIMED[:1]
    ),
    "batch norm": Case(batch_norm, {"x": X, "w": V, "b": V}, SQUARE, SQUARE_TIMED),
    "column softmax": Case(lambda x: softmax(x, "R"), {"x": F}, SQUARE, SQUARE_TIMED),
    "softmax and sum": Case(
        lambda x: {"y": softmax(x), "s": softmax(x).sum("R")}, {"x": F}, SQUARE, SQUARE_TIMED
    ),
    "softmax transposed": Case(lambda x: softmax(x).transpose(), {"x": F}, SQUARE, SQUARE_TIMED),
    "sum of all": Case(lambda x: x.sum(("R", "C")), {"x": F}, SQUARE, SQUARE_TIMED),
    "batch statistics": Case(
        lambda x: {"mean": x.mean(("N", "H", "W")), "var": x.var(("N", "H", "W"))}, {"x": NHWC},
        ({"N": 3, "H": 7, "W": 9, "C": 72}, {"N": 8, "H": 28, "W": 28, "C": 256}),
        ({"N": 64, "H": 56, "W": 56, "C": 256},),
    ),
    "middle mean": Case(
        lambda x: x.mean(("H", "W")), {"x": NHWC},
        ({"N": 3, "H": 7, "W": 9, "C": 72}, {"N": 8, "H": 28, "W": 28, "C": 256}),
        ({"N": 64, "H": 56, "W": 56, "C": 256},),
    ),
    "instance norm": Case(
        group_norm, {"x": NCHW},
        ({"N": 2, "C": 3, "H": 9, "W": 11}, {"N": 4, "C": 16, "H": 32, "W": 32}),
        ({"N": 64, "C": 256, "H": 64, "W": 64},),
    ),
}  # fmt: skip
