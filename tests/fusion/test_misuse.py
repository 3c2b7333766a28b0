"""Arguments that nobody can use: one clear error, and not whatever Python meets first."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify import gate
from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.fusion import Schedule, Tensor, trace
from syncverify.gate import matmul
from syncverify.matmul import product

BF16 = ml_dtypes.bfloat16
DOUBLED = trace(lambda x: x * 2.0, {"x": Tensor("f32", ("R",))})


@pytest.mark.parametrize(
    ("fusion", "options", "said"),
    [
        (lambda x: x, {}, "is no fusion"),
        (DOUBLED, {"schedule": "fast"}, "'fast' is no schedule"),
        (DOUBLED, {"schedule": Schedule(stages="3")}, "stages is '3': use a whole number"),  # type: ignore[arg-type]
        (DOUBLED, {"schedule": Schedule(stages=True)}, "stages is True: use a whole number"),
        (DOUBLED, {"schedule": Schedule(store="dma")}, "store is 'dma': use 'direct' or 'tma' or 'role'"),  # type: ignore[arg-type]
        (DOUBLED, {"schedule": Schedule(registers=(24,))}, "registers is"),  # type: ignore[arg-type]
        (DOUBLED, {"policy": "lax"}, "policy is 'lax': use 'practical' or 'strict'"),
    ],
)
def test_what_compile_cannot_take(fusion: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        gate.compile(fusion, **options)


def test_policies_by_name() -> None:
    assert gate.compile(DOUBLED, policy="strict").policy is Policy.STRICT  # type: ignore[arg-type]


def test_every_size_is_asked_for() -> None:
    kernel = gate.compile(DOUBLED)
    with pytest.raises(InputError, match="no size given for R"):
        kernel.simulate({"x": np.ones(4, np.float32)}, {})
    with pytest.raises(InputError, match="takes x; got 2 arrays"):
        kernel(np.ones(4, np.float32), np.ones(4, np.float32))


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"x": "f32"}, "x is 'f32': declare it as Tensor"),
        ({"x": Tensor("f32", ("R", 4))}, "give names in a tuple"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_tensor(tensors: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        trace(lambda x: x * 2, tensors)


def test_results_that_are_no_numbers_equal_the_reference() -> None:
    both = trace(lambda x: {"a": x * float("nan"), "b": x / 0.0}, {"x": Tensor("f32", ("R",))})
    assert gate.run(gate.compile(both), {"R": 33}).equal


@pytest.mark.parametrize("m", [0, 8])
def test_a_product_of_nothing_has_nothing_to_prove(m: int) -> None:
    a, b = np.ones((m, 16), BF16), np.ones((8 - m, 16), BF16)
    ours = matmul.Matmul(product("bf16", "KK"))
    assert ours(a, b.T).shape == (m, 8 - m)
    compiled = ours.compiled({"M": 64, "N": 64, "K": 64})
    assert compiled.simulate(a, b.T)[0].shape == (m, 8 - m)
    with pytest.raises(InputError, match="multiplies two matrices"):
        ours([[1.0]], b)
