"""Every elementwise function: proved, and executed on arrays beside its meaning in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from syncverify.base.diagnostics import Policy
from syncverify.examples.functions import FUNCTIONS, many
from syncverify.fusion import Fusion, Schedule, Tensor
from syncverify.fusion.lower import rests
from syncverify.fusion.plan import launch_values, plan_of
from syncverify.simulate import ir

SMALL = Schedule(tile=512, compute_warps=4, stages=2)
X = Tensor("f32", ("R", "C"))

#: What each function of ``examples.functions`` is in NumPy.
MEANING: dict[str, Callable[[Any], Any]] = {
    "exp_": np.exp,
    "exp2_": np.exp2,
    "expm1_": np.expm1,
    "log_": lambda x: np.log(np.abs(x)),
    "log2_": lambda x: np.log2(np.abs(x)),
    "log10_": lambda x: np.log10(np.abs(x)),
    "log1p_": lambda x: np.log1p(np.abs(x)),
    "sin_": np.sin,
    "cos_": np.cos,
    "tanh_": np.tanh,
    "erf_": np.vectorize(math.erf),
    "power": lambda x: np.abs(x) ** 1.7,
    "powers": lambda x: 2.0**x,
    "squares": lambda x: x**2 + x**5,
    "reciprocal": lambda x: 1 / (x + 8),
    "roots": lambda x: np.sqrt(np.abs(x)) + 1 / np.sqrt(np.abs(x) + 1),
    "floor_": np.floor,
    "ceil_": np.ceil,
    "round_": np.rint,
    "trunc_": np.trunc,
    "sign": np.sign,
    "clamp": lambda x: np.clip(x, -1, 2),
    "clamp_below": lambda x: np.maximum(x, 0.5),
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "elu": lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid_": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "softplus_beta": lambda x: np.logaddexp(0, 2 * x) / 2,
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "finite": lambda x: x,
}


def run(fusion: Fusion, inputs: dict[str, Any], schedule: Schedule = SMALL) -> tuple[Any, ...]:
    """The kernel's results on arrays, by the simulator."""
    sizes = fusion.sizes(inputs)
    plan = plan_of(fusion, schedule)
    kernel = plan.build(plan.variant(sizes), Policy.PRACTICAL)
    values = launch_values(fusion, kernel, sizes, 2)
    found = ir.run(kernel, values, inputs)
    for name, rest in rests(kernel).items():
        if values["rest"]:
            found[name].reshape(-1)[-values["rest"] :] = found[rest]
    return tuple(found[o.name] for o in fusion.outputs)


def sample(shape: tuple[int, ...], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, shape)
    x.flat[:8] = [0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 1e-3]
    return x.astype(np.float32)


def test_every_function_beside_its_meaning() -> None:
    assert FUNCTIONS.keys() == MEANING.keys()
    traced = many("f32")
    x = sample((3, 400))
    exact = traced.reference([x], np.float64)
    for name, got, want in zip(FUNCTIONS, run(traced, {"x": x}), exact, strict=True):
        wanted = MEANING[name](x.astype(np.float64))
        np.testing.assert_allclose(want, wanted, rtol=1e-6, atol=1e-7, err_msg=name)
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6, err_msg=name)
