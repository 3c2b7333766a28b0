"""Results of several sizes of element that leave through shared memory: proved, and right against float64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.fusion import Tensor, trace
from syncverify.gate.matmul import CompiledMatmul
from syncverify.matmul import Problem, Schedule
from syncverify.matmul.choose import menu

NUMPY: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn, "f16": np.float16,
}  # fmt: skip
CLOSE = {"bf16": 1e-2, "f32": 1e-4, "f16": 1e-3, "e4m3": 0.08}


def problem(*types: str, biased: bool = False) -> Problem:
    def results(x: Any) -> dict[str, Any]:
        return {f"y{k}": (x * (0.25 * (k + 1))).cast(t) for k, t in enumerate(types)}

    acc = Tensor("f32", ("M", "N"))
    bias = Tensor("f32", ("N",))
    with_bias = trace(lambda acc, bias: results(acc + bias), {"acc": acc, "bias": bias})
    return Problem(
        "several", "bf16", "KK", with_bias if biased else trace(lambda acc: results(acc), {"acc": acc})
    )


@pytest.mark.parametrize(
    ("types", "biased", "schedule", "swizzles"),
    [
        (("bf16", "f32"), False, Schedule(128, 64, stages=2), ("64B", "128B")),
        pytest.param(
            ("f32", "bf16"), True, Schedule(128, 128, stages=2, persistent=True), ("128B", "64B"),
            marks=pytest.mark.slow,  # the schedule of two turns is persistent, too
        ),
        (("bf16", "e4m3"), False, Schedule(64, 64, consumers=1, stages=2), ("128B", "64B")),
        (("e4m3", "f32", "f16"), True, Schedule(128, 64, stages=2), ("32B", "128B", "64B")),
        pytest.param(
            ("bf16", "f32"), False, Schedule(128, 64, stages=2, split_k=2), ("64B", "128B"),
            marks=pytest.mark.slow,  # test_split.py has such sums
        ),
        (("f16", "f32"), False, Schedule(64, 64, stages=2, persistent=True, pingpong=True), ("64B", "128B")),
        (("bf16", "f32"), False, Schedule(128, 128, stages=2, cluster=2), ("64B", "128B")),
    ],
)  # fmt: skip
def test_proved_and_right(
    types: tuple[str, ...], biased: bool, schedule: Schedule, swizzles: tuple[str, ...], tmp_path: Path
) -> None:
    staged = replace(schedule, store="tma")
    compiled = CompiledMatmul(problem(*types, biased=biased), staged, cache=Cache(tmp_path), each_launch=True)
    shared = {b.name: b.swizzle for b in compiled.ir.shared}
    assert tuple(shared[f"{o.name}_tile"] for o in compiled.problem.epilogue.outputs) == swizzles
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(NUMPY["bf16"]) for s in ((150, 144), (80, 144)))
    bias = rng.standard_normal(80).astype(np.float32) * biased
    out = tuple(np.full((150, 80), 3, NUMPY[t]) for t in types)
    got = compiled.simulate(a, b.T, out=out, multiprocessors=2, **({"bias": bias} if biased else {}))
    for k, (t, y) in enumerate(zip(types, got, strict=True)):
        want = (a.astype(np.float64) @ b.T + bias) * (0.25 * (k + 1))
        np.testing.assert_allclose(np.asarray(y, np.float64), want, CLOSE[t], CLOSE[t])


def test_rows_of_the_widest_fill_a_part() -> None:
    Schedule(128, 32, stages=2, store="tma").staging([2, 4])
    assert Schedule(128, 32, stages=2, store="tma").staging([2, 1]) == 2 * 64 * (64 + 32)
    with pytest.raises(InputError, match="tile_n of whole rows of 128 bytes"):
        Schedule(128, 24, stages=2, store="tma").staging([2, 1])
    with pytest.raises(InputError, match="tile_n of whole rows of 128 bytes"):
        Schedule(128, 80, stages=2, store="tma").staging([2, 1])
    assert Schedule(128, 48, stages=2, store="tma").staging([2]) == 2 * 64 * 24 * 2 * 2
    assert Schedule(128, 64, store="tma").staging([2, 4]) == 2 * 64 * (64 + 128) * 2


@pytest.mark.parametrize(("width", "store"), [(4096, "tma"), (4104, "direct")])
def test_the_menu_stages_them(width: int, store: str) -> None:
    """Rows of the narrowest are multiples of 16 bytes, or nothing is staged."""
    sizes = {"M": 4096, "N": width, "K": 1024}
    assert {s.store for s in menu(problem("e4m3", "bf16"), sizes) if s.tile_n % 64 == 0} == {store}
