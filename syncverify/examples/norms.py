"""Normalizations over rows, channels and groups: ``syncverify.examples.norms:NAME``."""

from __future__ import annotations

from syncverify.fusion import (
    Tensor,
    Value,
    dropout,
    fusion,
    layer_norm,
    log1p,
    maximum,
    rms_norm,
    rsqrt,
    silu,
    where,
)

X = Tensor("bf16", ("R", "C"))
WEIGHT = Tensor("bf16", ("C",))
#: The largest number of type e4m3.
LARGEST = 448.0


@fusion(x=X, weight=WEIGHT)
def rms_norm_fp8(x: Value, weight: Value) -> dict[str, Value]:
    """To 8 bits, by a scale for each row."""
    y = rms_norm(x, weight)
    scale = maximum(abs(y).max(), 1e-12) * (1.0 / LARGEST)
    return {"small": (y / scale).cast("e4m3"), "scale": scale.cast("f32")}


@fusion(x=X, residual=X, weight=WEIGHT, seed=Tensor("i64"))
def dropout_add_rms_norm(x: Value, residual: Value, weight: Value, seed: Value) -> dict[str, Value]:
    total = dropout(x, 0.1, seed, 0).value + residual
    return {"total": total, "normalized": rms_norm(total, weight)}


@fusion(x=X, gate=X, weight=WEIGHT)
def gated_rms_norm(x: Value, gate: Value, weight: Value) -> Value:
    return rms_norm(x * silu(gate), weight)


@fusion(x=X)
def l2_normalize(x: Value) -> Value:
    return x * rsqrt(maximum((x * x).sum(), 1e-12))


@fusion(x=X, weight=WEIGHT, bias=WEIGHT)
def layer_norm_transposed(x: Value, weight: Value, bias: Value) -> Value:
    """Two kernels: a mean and a deviation of each row, then tiles."""
    return layer_norm(x, weight, bias).transpose()


@fusion(
    x=Tensor("f32", ("N", "G", "D", "S")), weight=Tensor("f32", ("G", "D")), bias=Tensor("f32", ("G", "D"))
)
def group_norm(x: Value, weight: Value, bias: Value) -> Value:
    """Over the channels of each group and all their places."""
    dims = ("D", "S")
    return (x - x.mean(dims)) * rsqrt(x.var(dims) + 1e-5) * weight + bias


@fusion(x=Tensor("bf16", ("N", "C", "S")), weight=WEIGHT, bias=WEIGHT)
def instance_norm(x: Value, weight: Value, bias: Value) -> Value:
    return layer_norm(x, weight, bias, dim="S")


@fusion(x=Tensor("f32", ("N", "C", "S")), weight=Tensor("f32", ("C",)), bias=Tensor("f32", ("C",)))
def channel_norm(x: Value, weight: Value, bias: Value) -> Value:
    """Along the middle dimension."""
    return layer_norm(x, weight, bias, dim="C")


@fusion(x=Tensor("bf16", ("B", "T", "D")), keep=Tensor("bool", ("B", "T")))
def masked_mean_pool(x: Value, keep: Value) -> Value:
    """The mean over the places of a sequence that are kept."""
    return where(keep, x, 0.0).sum("T") / maximum(where(keep, 1.0, 0.0).sum("T"), 1.0)


@fusion(x=Tensor("f32", ("B", "T", "M")))
def log_mel(x: Value) -> Value:
    """Logarithms of energies, normalized for each band."""
    y = log1p(maximum(x, 1e-10))
    return (y - y.mean("T")) * rsqrt(y.var("T") + 1e-5)
