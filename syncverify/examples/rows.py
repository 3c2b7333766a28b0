"""Fusions of whole rows, for the tests and the benchmarks: ``syncverify.examples.rows:NAME``."""

from __future__ import annotations

from syncverify.fusion import (
    Tensor,
    Value,
    fusion,
)
from syncverify.fusion import cross_entropy as _cross_entropy
from syncverify.fusion import layer_norm as _layer_norm
from syncverify.fusion import log_softmax as _log_softmax
from syncverify.fusion import rms_norm as _rms_norm
from syncverify.fusion import softmax as _softmax

BF16, F32 = Tensor("bf16", ("R", "C")), Tensor("f32", ("R", "C"))
WEIGHT = Tensor("bf16", ("C",))


@fusion(x=BF16, weight=WEIGHT)
def rms_norm(x: Value, weight: Value) -> Value:
    return _rms_norm(x, weight)


@fusion(x=BF16, weight=WEIGHT, bias=WEIGHT)
def layer_norm(x: Value, weight: Value, bias: Value) -> Value:
    return _layer_norm(x, weight, bias)


@fusion(x=BF16)
def softmax(x: Value) -> Value:
    return _softmax(x)


@fusion(x=F32)
def log_softmax(x: Value) -> Value:
    return _log_softmax(x)


@fusion(x=BF16, residual=BF16, weight=WEIGHT)
def add_rms_norm(x: Value, residual: Value, weight: Value) -> dict[str, Value]:
    """Two outputs: the normalized sum, and the sum."""
    total = x + residual
    return {"normalized": _rms_norm(total, weight), "total": total}


@fusion(x=BF16, target=Tensor("i64", ("R",)))
def cross_entropy(x: Value, target: Value) -> Value:
    return _cross_entropy(x, target)


@fusion(x=BF16)
def row_sum(x: Value) -> Value:
    return x.sum()


@fusion(x=F32)
def row_variance(x: Value) -> dict[str, Value]:
    """Two numbers of each row."""
    return {"mean": x.mean(), "variance": x.var()}
