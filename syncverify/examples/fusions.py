"""Elementwise fusions, for the demo, the tests and the benchmarks: ``syncverify.examples.fusions:NAME``."""

from __future__ import annotations

from syncverify.fusion import Tensor, Value, fusion, gelu, relu, sigmoid, silu, where

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


@fusion(x=F32, row=Tensor("f32", ("R",)), column=Tensor("f32", ("C",)), shift=Tensor("f32"))
def normalize(x: Value, row: Value, column: Value, shift: Value) -> Value:
    """Every kind of broadcast: a factor per row, one per column, a scalar."""
    return x * row * column + shift


@fusion(x=F32, y=BF16)
def gate_pair(x: Value, y: Value) -> dict[str, Value]:
    """Two outputs of different types from two inputs of different types."""
    s = sigmoid(y)
    return {"gated": x * s, "half": (x + s).cast("bf16")}
