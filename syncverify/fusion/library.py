"""Functions of whole rows that are made of the traced operations: normalizations, softmax, losses.

``dim`` is the innermost dimension of ``x`` where it is not given.
"""

from __future__ import annotations

from syncverify.fusion.graph import Value, apply, take


def logsumexp(x: Value, dim: str | None = None) -> Value:
    m = x.max(dim)
    return m + apply("log", apply("exp", x - m).sum(dim))


def softmax(x: Value, dim: str | None = None) -> Value:
    e = apply("exp", x - x.max(dim))
    return e * (1.0 / e.sum(dim))


def log_softmax(x: Value, dim: str | None = None) -> Value:
    shifted = x - x.max(dim)
    return shifted - apply("log", apply("exp", shifted).sum(dim))


def rms_norm(x: Value, weight: Value | None = None, eps: float = 1e-6, dim: str | None = None) -> Value:
    y = x * apply("rsqrt", (x * x).mean(dim) + eps)
    return y if weight is None else y * weight


def layer_norm(
    x: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    dim: str | None = None,
) -> Value:
    rest = x - x.mean(dim)
    y = rest * apply("rsqrt", (rest * rest).mean(dim) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def cross_entropy(x: Value, target: Value, dim: str | None = None) -> Value:
    """The loss of every row: ``logsumexp(x) - x[target]``."""
    return logsumexp(x, dim) - take(x, target)
