"""Simulated products whose blocks share tiles, beside NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from syncverify.matmul import Problem, Schedule
from syncverify.matmul.lower import launch_values
from syncverify.matmul.pipeline import build
from syncverify.simulate import ir

RNG = np.random.default_rng(11)
BF16 = ml_dtypes.bfloat16


def run(
    problem: Problem, schedule: Schedule, m: int, cols: int, k: int, sms: int, **others: np.ndarray
) -> Any:
    """The arrays after the kernel, the exact product, and the launch's parameters."""
    a, b = (RNG.standard_normal(s).astype(BF16) for s in ((m, k), (k, cols)))
    kernel = build(problem, schedule, vector=2 if cols % 2 == 0 else 1)
    values = launch_values(schedule, {"M": m, "N": cols, "K": k}, sms, 64)
    stored = {
        "a": np.ascontiguousarray(a.T if problem.a_t else a),
        "b": np.ascontiguousarray(b.T if problem.b_t else b),
    }
    out = np.full((m, cols), np.nan, dtype=BF16)
    got = ir.run(kernel, values, {**stored, **others, "out": out})
    return got, a.astype(np.float32) @ b.astype(np.float32), values


def close(got: dict[str, np.ndarray], want: np.ndarray) -> None:
    out = got["out"].reshape(want.shape).astype(np.float32)
    np.testing.assert_allclose(out, want, rtol=2**-7, atol=1e-2)
