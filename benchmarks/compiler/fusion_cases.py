"""The memory-bound fusions that the benchmarks run: as traced functions, and which schedules they try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncverify.fusion import (
    Fusion,
    RowSchedule,
    Schedule,
    Tensor,
    Value,
    cross_entropy,
    gelu,
    layer_norm,
    log_softmax,
    rms_norm,
    sigmoid,
    silu,
    softmax,
    tanh,
    trace,
)

EPS = 1e-6


def _rmsnorm(x: Value, w: Value) -> Value:
    return rms_norm(x, w, EPS)


def _layernorm(x: Value, w: Value, b: Value) -> Value:
    return layer_norm(x, w, b, EPS)


def _add_rmsnorm(x: Value, r: Value, w: Value) -> dict[str, Value]:
    h = x + r
    return {"y": rms_norm(h, w, EPS), "h": h}


def _add_layernorm(x: Value, r: Value, w: Value, b: Value) -> dict[str, Value]:
    h = x + r
    return {"y": layer_norm(h, w, b, EPS), "h": h}


def _bias_gelu(x: Value, b: Value) -> Value:
    return gelu(x + b, "tanh")


def _swiglu(g: Value, u: Value) -> Value:
    return silu(g) * u


def _pointwise8(x: Value, r: Value) -> Value:
    y = tanh(x * 1.25 + r) * sigmoid(r)
    return y * x + 0.5


#: Name: the function, and its inputs: X rows, V a vector of the row's length, T an index for each row.
CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "rmsnorm": (_rmsnorm, "XV"),
    "layernorm": (_layernorm, "XVV"),
    "softmax": (lambda x: softmax(x), "X"),
    "row_sum": (lambda x: x.sum(), "X"),
    "add+rmsnorm": (_add_rmsnorm, "XXV"),
    "add+layernorm": (_add_layernorm, "XXVV"),
    "row_max": (lambda x: x.max(), "X"),
    "cross_entropy": (lambda x, t: cross_entropy(x, t), "XT"),
    "log_softmax": (lambda x: log_softmax(x), "X"),
    "bias+gelu": (_bias_gelu, "XV"),
    "swiglu": (_swiglu, "XX"),
    "pointwise8": (_pointwise8, "XX"),
}
REDUCING = (
    "rmsnorm", "layernorm", "softmax", "row_sum", "row_max", "add+rmsnorm", "add+layernorm", "cross_entropy",
    "log_softmax",
)  # fmt: skip
DTYPES = {"bf16": "bf16", "fp32": "f32", "f32": "f32", "f16": "f16"}


def fusion_of(case: str, dtype: str) -> Fusion:
    """The traced fusion of a case; ``dtype``: bf16, f16 or f32."""
    function, kinds = CASES[case]
    kind = DTYPES[dtype]
    tensors = {
        "X": Tensor(kind, ("R", "C")),
        "V": Tensor(kind, ("C",)),
        "T": Tensor("i64", ("R",)),
    }
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    fusion = trace(function, {n: tensors[k] for n, k in zip(names, kinds, strict=True)})
    return fusion


def schedules(case: str, width: int) -> dict[str, RowSchedule | Schedule]:
    """The schedules that are tried, by name; the first is the default."""
    rows: dict[str, RowSchedule | Schedule] = {"rows": RowSchedule(width=width)}
    return rows if case in REDUCING else {"tiles": Schedule(), **rows}
