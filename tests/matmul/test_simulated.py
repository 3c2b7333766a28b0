"""Matrix products on the numeric simulator, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify.fusion import Tensor, gelu, trace
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.lower import launch_values
from syncverify.matmul.pipeline import build
from syncverify.simulate import ir

RNG = np.random.default_rng(7)
BF16 = ml_dtypes.bfloat16


def run(
    problem: Problem, schedule: Schedule, m: int, n: int, k: int, blocks: int = 4, **others: np.ndarray
) -> Any:
    """The kernel's results, and the exact product in f32."""
    a, b = (RNG.standard_normal(s).astype(BF16) for s in ((m, k), (k, n)))
    kernel = build(problem, schedule, vector=2 if n % 2 == 0 else 1)
    values = launch_values(schedule, {"M": m, "N": n, "K": k}, blocks, 64)
    out = np.full((m, n), np.nan, dtype=BF16)
    stored = {
        "a": np.ascontiguousarray(a.T if problem.a_t else a),
        "b": np.ascontiguousarray(b.T if problem.b_t else b),
    }
    got = ir.run(kernel, values, {**stored, **others, "out": out})["out"].reshape(m, n)
    return got.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32)


def close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got, want, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize("layout", ["KK", "KN", "MK", "MN"])
def test_every_layout(layout: str) -> None:
    close(*run(product(layout=layout), Schedule(stages=2), 136, 144, 200))


@pytest.mark.parametrize(("m", "n", "k"), [(1, 8, 8), (128, 128, 64), (129, 130, 72), (300, 17, 320)])
def test_ragged_sizes(m: int, n: int, k: int) -> None:
    close(*run(product(), Schedule(stages=3), m, n, k))


@pytest.mark.parametrize("consumers", [1, 2])
def test_persistent(consumers: int) -> None:
    schedule = Schedule(128, 64, consumers=consumers, stages=3, persistent=True, group=2)
    close(*run(product(), schedule, 600, 200, 136, blocks=3))


def test_one_group_in_flight() -> None:
    close(*run(product(), Schedule(stages=2, pending=1), 100, 64, 256))


def test_wide_tiles() -> None:
    close(*run(product(), Schedule(256, 128, stages=2), 260, 136, 128))


@pytest.mark.parametrize(
    ("layout", "tile_n", "persistent"),
    [
        ("KK", 128, True), ("MN", 128, False), ("KK", 64, False), ("MN", 64, True), ("KN", 192, False),
        ("KK", 160, False), ("KN", 160, True),
    ],
)  # fmt: skip
def test_clusters_share_a_factor(layout: str, tile_n: int, persistent: bool) -> None:
    """Its panels, or half of each where their number is odd; half of its columns if memory runs along K."""
    schedule = Schedule(128, tile_n, stages=2, store="tma", persistent=persistent, cluster=2, group=2)
    close(*run(product(layout=layout), schedule, 400, 136, 136, blocks=4))


@pytest.mark.parametrize(
    ("layout", "tile_m", "cluster", "persistent"),
    [("KK", 128, 2, True), ("MN", 64, 2, False), ("MK", 128, 2, True), ("KN", 64, 4, False)],
)
def test_clusters_beside_each_other_share_a(layout: str, tile_m: int, cluster: int, persistent: bool) -> None:
    """As above, of A: its panels, or a part of each where there are too few."""
    schedule = Schedule(
        tile_m, 64, consumers=1, stages=2, store="tma", persistent=persistent, cluster=cluster, beside=True
    )
    close(*run(product(layout=layout), schedule, 200, 400, 136, blocks=4))


@pytest.mark.parametrize(("tile_n", "persistent"), [(32, False), (96, True), (160, False)])
def test_half_rows_are_staged(tile_n: int, persistent: bool) -> None:
    close(*run(product(), Schedule(128, tile_n, stages=2, store="tma", persistent=persistent), 200, 200, 136))


def test_blocks_beside_each_other_on_an_sm_take_tiles_in_turn() -> None:
    schedule = Schedule(64, 64, consumers=1, store="tma", persistent=True, resident=2)
    values = launch_values(schedule, {"M": 640, "N": 64, "K": 64}, 4, 64)
    assert (values["blocks"], values["turns"]) == (8, 2)
    close(*run(product(), schedule, 600, 64, 136, blocks=4))


def test_epilogue() -> None:
    def bias_gelu_add(acc: Any, bias: Any, residual: Any) -> Any:
        return (gelu(acc + bias) + residual).cast("bf16")

    inputs = {
        "acc": Tensor("f32", ("M", "N")),
        "bias": Tensor("bf16", ("N",)),
        "residual": Tensor("bf16", ("M", "N")),
    }
    epilogue = trace(bias_gelu_add, inputs)
    bias, residual = RNG.standard_normal(72).astype(BF16), RNG.standard_normal((130, 72)).astype(BF16)
    problem = Problem("fused", "bf16", "KK", epilogue)
    got, acc = run(problem, Schedule(stages=2), 130, 72, 64, bias=bias, residual=residual)
    (want,) = epilogue.reference({"acc": acc, "bias": bias, "residual": residual})
    close(got, want.astype(np.float32))


@pytest.mark.parametrize(("tile", "persistent"), [((128, 128), True), ((128, 64), False), ((256, 128), True)])
def test_results_through_shared_memory(tile: tuple[int, int], persistent: bool) -> None:
    schedule = Schedule(*tile, stages=2, store="tma", persistent=persistent, group=2)
    close(*run(product(), schedule, 300, 136, 72, blocks=3))
