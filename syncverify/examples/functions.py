"""Elementwise functions by name, each a function of one tensor, and fusions that compute many at once."""

from __future__ import annotations

from collections.abc import Callable

from syncverify import fusion as f
from syncverify.fusion import Fusion, Tensor, Value, trace

FUNCTIONS: dict[str, Callable[[Value], Value]] = {
    "exp_": f.exp,
    "exp2_": f.exp2,
    "expm1_": f.expm1,
    "log_": lambda x: f.log(abs(x)),
    "log2_": lambda x: f.log2(abs(x)),
    "log10_": lambda x: f.log10(abs(x)),
    "log1p_": lambda x: f.log1p(abs(x)),
    "sin_": f.sin,
    "cos_": f.cos,
    "tanh_": f.tanh,
    "erf_": f.erf,
    "power": lambda x: f.pow(abs(x), 1.7),
    "powers": lambda x: f.pow(2.0, x),
    "squares": lambda x: x**2 + f.square(x) * x**3,
    "reciprocal": lambda x: f.reciprocal(x + 8.0),
    "roots": lambda x: f.sqrt(abs(x)) + f.rsqrt(abs(x) + 1.0),
    "floor_": f.floor,
    "ceil_": f.ceil,
    "round_": f.round,
    "trunc_": f.trunc,
    "sign": f.sign,
    "clamp": lambda x: f.clamp(x, -1.0, 2.0),
    "clamp_below": lambda x: f.clamp(x, least=0.5),
    "relu": f.relu,
    "leaky_relu": lambda x: f.leaky_relu(x, 0.2),
    "elu": lambda x: f.elu(x, 1.5),
    "gelu": f.gelu,
    "gelu_tanh": lambda x: f.gelu(x, "tanh"),
    "silu": f.silu,
    "sigmoid_": f.sigmoid,
    "softplus": lambda x: f.softplus(x),
    "softplus_beta": lambda x: f.softplus(x, 2.0),
    "mish": f.mish,
    "hardsigmoid": f.hardsigmoid,
    "hardswish": f.hardswish,
    "finite": lambda x: f.where(f.isfinite(x) & ~(f.isnan(x) | f.isinf(x)), x, 0.0),
}


def many(dtype: str, names: tuple[str, ...] = tuple(FUNCTIONS)) -> Fusion:
    """One fusion with an output for each function."""
    return trace(lambda x: {n: FUNCTIONS[n](x) for n in names}, {"x": Tensor(dtype, ("R", "C"))})
