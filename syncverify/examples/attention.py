"""What stands around attention's products: ``syncverify.examples.attention:NAME``."""

from __future__ import annotations

from syncverify.fusion import (
    Tensor,
    Value,
    dropout,
    fusion,
    index,
    rms_norm,
    rotary,
    softmax,
    tanh,
    where,
)

#: Scores of each head: places of queries and keys.
SCORES = Tensor("bf16", ("H", "Q", "K"))
HEADS = Tensor("bf16", ("T", "H", "D"))
ANGLES = Tensor("bf16", ("T", "D"))
BELOW = float("-inf")


@fusion(s=SCORES)
def causal_softmax(s: Value) -> Value:
    """No key behind its query counts."""
    return softmax(where(index("K") <= index("Q"), s * 0.125, BELOW))


@fusion(s=SCORES)
def window_softmax(s: Value) -> Value:
    """Only the last keys count."""
    behind = index("Q") - index("K")
    return softmax(where((behind >= 0) & (behind < 128), s, BELOW))


@fusion(s=SCORES, keep=Tensor("bool", ("Q", "K")))
def masked_softmax(s: Value, keep: Value) -> Value:
    return softmax(where(keep, s, BELOW))


@fusion(s=SCORES, slope=Tensor("f32", ("H",)))
def alibi_softmax(s: Value, slope: Value) -> Value:
    """Each head falls off with distance in its own way."""
    return softmax(s + slope * (index("K") - index("Q"))).cast("bf16")


@fusion(s=SCORES)
def capped_softmax(s: Value) -> Value:
    """Scores are kept within 30."""
    return softmax(30.0 * tanh(s * (0.125 / 30.0)))


@fusion(s=SCORES, seed=Tensor("i64"))
def dropped_softmax(s: Value, seed: Value) -> dict[str, Value]:
    """A tenth of the weights dropped, and which were kept."""
    dropped = dropout(softmax(s), 0.1, seed, 0)
    return {"weights": dropped.value, "mask": dropped.mask}


@fusion(q=HEADS, weight=Tensor("bf16", ("D",)), cos=ANGLES, sin=ANGLES)
def norm_rotary(q: Value, weight: Value, cos: Value, sin: Value) -> Value:
    """Every head normalized, then turned: two kernels."""
    return rotary(rms_norm(q, weight), cos, sin)


@fusion(q=HEADS, k=Tensor("bf16", ("T", "D")), cos=ANGLES, sin=ANGLES)
def rotary_shared_key(q: Value, k: Value, cos: Value, sin: Value) -> dict[str, Value]:
    """Queries of many heads and the key that they share: a kernel for each."""
    return {"turned_q": rotary(q, cos, sin), "turned_k": rotary(k, cos, sin)}
