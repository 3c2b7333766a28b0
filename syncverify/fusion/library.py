"""Functions made of the traced operations: normalizations, softmax, losses, dropout, rotary embedding.

``dim`` is the innermost dimension of ``x`` where it is not given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from syncverify.base.source import InputError
from syncverify.fusion.graph import Value, apply, rotate, take, uniform


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


@dataclass(frozen=True)
class Dropped:
    """What dropout made, and which elements it kept."""

    value: Value
    mask: Value


def dropout(x: Value, p: float, seed: Value | int, offset: Value | int) -> Dropped:
    """Each element is 0 with probability ``p``, else divided by 1 - p.

    An element is kept where ``uniform(seed, offset)`` is at least ``p``: by its place alone, whatever the
    schedule. Fusions that use one seed draw other numbers under another offset.
    """
    if not 0.0 <= p < 1.0:
        raise InputError(f"dropout: p must be at least 0 and below 1, not {p}")
    # a multiple of the step of the random numbers: exact in f32, and the same elements are kept
    least = math.ceil(p * 2**24) / 2**24
    mask = uniform(seed, offset) >= least
    return Dropped(apply("where", mask, x * (1.0 / (1.0 - p)), 0.0), mask)


def rotary(x: Value, cos: Value, sin: Value, style: Literal["pairs", "halves"] = "halves") -> Value:
    """Rotary position embedding along the innermost dimension: ``x * cos + rotate(x, style) * sin``.

    ``cos`` and ``sin`` have the innermost dimension in full: each angle twice, for neighbours ("pairs") or
    for elements half a row apart ("halves").
    """
    return x * cos + rotate(x, style) * sin
