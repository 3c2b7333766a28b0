"""Elementwise fusions, for the demo, the tests and the benchmarks: ``syncverify.examples.fusions:NAME``."""

from __future__ import annotations

from syncverify.fusion import Tensor, Value, dropout, fusion, gelu, relu, rotary, sigmoid, silu, where

F32 = Tensor("f32", ("R", "C"))
BF16 = Tensor("bf16", ("R", "C"))


@fusion(a=F32)
def scale(a: Value) -> Value:
    """One input: half of a, plus one."""
    return a * 0.5 + 1.0


@fusion(a=F32, b=F32)
def mul(a: Value, b: Value) -> Value:
    return a * b


@fusion(a=BF16, b=BF16)
def mul_bf16(a: Value, b: Value) -> Value:
    return a * b


@fusion(a=F32, x=F32, y=F32)
def scale_add(a: Value, x: Value, y: Value) -> Value:
    """Three inputs: a * x + y."""
    return a * x + y


@fusion(a=F32, b=F32, c=F32, d=F32)
def select4(a: Value, b: Value, c: Value, d: Value) -> Value:
    """Four inputs: the larger of a and b decides between c and d."""
    return where(a > b, c, d)


@fusion(x=BF16, bias=Tensor("bf16", ("C",)))
def bias_gelu(x: Value, bias: Value) -> Value:
    return gelu(x + bias)


@fusion(x=F32, bias=Tensor("f32", ("C",)))
def bias_relu(x: Value, bias: Value) -> Value:
    return relu(x + bias)


@fusion(gate=BF16, up=BF16)
def swiglu(gate: Value, up: Value) -> Value:
    return silu(gate) * up


@fusion(x=F32, rows=Tensor("f32", ("R",)), column=Tensor("f32", ("C",)), shift=Tensor("f32"))
def normalize(x: Value, rows: Value, column: Value, shift: Value) -> Value:
    """Every kind of broadcast: a factor per row, one per column, a scalar."""
    return x * rows * column + shift


@fusion(x=F32, y=BF16)
def gate_pair(x: Value, y: Value) -> dict[str, Value]:
    """Two outputs of different types from two inputs of different types."""
    s = sigmoid(y)
    return {"gated": x * s, "half": (x + s).cast("bf16")}


@fusion(x=BF16, scale=Tensor("f32"))
def quantize(x: Value, scale: Value) -> Value:
    """To 8 bits, by a factor for all elements; what is too large becomes the largest number."""
    return (x * scale).cast("e4m3")


@fusion(x=Tensor("e4m3", ("R", "C")), y=Tensor("e5m2", ("R", "C")), scale=Tensor("f32", ("R",)))
def dequantize(x: Value, y: Value, scale: Value) -> Value:
    """A product of 8-bit numbers, by a factor for each row."""
    return (x * y * scale).cast("bf16")


@fusion(x=BF16, seed=Tensor("i64"), offset=Tensor("i64"))
def dropout_mask(x: Value, seed: Value, offset: Value) -> dict[str, Value]:
    """A tenth of the elements dropped, and which were kept."""
    dropped = dropout(x, 0.1, seed, offset)
    return {"out": dropped.value, "mask": dropped.mask}


@fusion(x=F32, residual=F32, seed=Tensor("i32"))
def dropout_add(x: Value, residual: Value, seed: Value) -> Value:
    return dropout(x, 0.5, seed, 7).value + residual


@fusion(x=BF16, cos=Tensor("bf16", ("C",)), sin=Tensor("bf16", ("C",)))
def rotary_pairs(x: Value, cos: Value, sin: Value) -> Value:
    return rotary(x, cos, sin, "pairs")


@fusion(x=Tensor("i32", ("R", "C")), keep=Tensor("bool", ("R", "C")))
def masked_count(x: Value, keep: Value) -> dict[str, Value]:
    """Integers and truth values: what is kept, and where it is large or odd."""
    kept = where(keep, x * 3 - 1, 0)
    return {"kept": kept, "marked": (kept > 100) | ((kept & 1).cast("bool") & ~keep)}


HEADS = ("T", "H", "D")
ANGLES = Tensor("bf16", ("T", "D"))


@fusion(x=Tensor("bf16", HEADS), cos=ANGLES, sin=ANGLES)
def rotary_halves(x: Value, cos: Value, sin: Value) -> Value:
    return rotary(x, cos, sin, "halves")


@fusion(x=BF16)
def transposed(x: Value) -> Value:
    return x.transpose()


@fusion(x=F32, bias=Tensor("f32", ("C",)), scale=Tensor("f32", ("R",)))
def bias_relu_transposed(x: Value, bias: Value, scale: Value) -> Value:
    return (relu(x + bias) * scale).transpose()


@fusion(x=BF16, scale=Tensor("f32"))
def quantize_both(x: Value, scale: Value) -> dict[str, Value]:
    """To 8 bits, as it is and transposed: what a product and its gradient need."""
    small = (x * scale).cast("e4m3")
    return {"small": small, "turned": small.transpose()}


@fusion(x=Tensor("bf16", ("B", "R", "C")))
def batch_transposed(x: Value) -> Value:
    return silu(x).transpose()
