"""Losses and distances of rows: ``syncverify.examples.losses:NAME``."""

from __future__ import annotations

from syncverify.fusion import (
    Tensor,
    Value,
    cross_entropy,
    exp,
    fusion,
    log_softmax,
    logsumexp,
    sqrt,
    take,
)

X = Tensor("bf16", ("R", "C"))
TARGET = Tensor("i64", ("R",))


@fusion(x=X, target=TARGET)
def label_smoothing(x: Value, target: Value) -> Value:
    """A tenth of the target is spread over all classes."""
    chances = log_softmax(x)
    return -0.9 * take(chances, target) - 0.1 * chances.mean()


@fusion(x=X, target=TARGET)
def focal_loss(x: Value, target: Value) -> Value:
    chance = take(log_softmax(x), target)
    return -((1.0 - exp(chance)) ** 2) * chance


@fusion(x=X, target=TARGET)
def z_loss(x: Value, target: Value) -> dict[str, Value]:
    z = logsumexp(x)
    return {"loss": z - take(x, target) + 1e-4 * z * z, "z": z}


@fusion(x=X, target=TARGET)
def mean_cross_entropy(x: Value, target: Value) -> Value:
    """One number: a kernel of rows, and one of what they make."""
    return cross_entropy(x, target).mean("R")


@fusion(x=X, y=X)
def kl_divergence(x: Value, y: Value) -> Value:
    p, q = log_softmax(x), log_softmax(y)
    return (exp(p) * (p - q)).sum()


@fusion(x=X)
def entropy(x: Value) -> Value:
    p = log_softmax(x)
    return -(exp(p) * p).sum()


@fusion(x=X, y=X)
def cosine_similarity(x: Value, y: Value) -> Value:
    return (x * y).sum() / sqrt((x * x).sum() * (y * y).sum())


@fusion(x=X, y=X)
def mean_squares(x: Value, y: Value) -> Value:
    return ((x - y) * (x - y)).mean(("R", "C"))
