"""Batched products: many matrices of one shape, whose tiles are counted through."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, trace
from syncverify.gate.matmul import CompiledMatmul, Matmul
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.choose import choose, menu, predicted
from syncverify.matmul.lower import computed as of_kernel
from syncverify.matmul.lower import launch_values
from syncverify.matmul.pipeline import build
from syncverify.simulate import ir as simulate

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(11)
ONE = {"consumers": 1, "stages": 2}
#: Layout, schedule, B, M, N, K: the ends of every matrix are ragged, so the next one begins inside a box.
MANY: list[tuple[str, dict[str, Any], tuple[int, int, int, int]]] = [
    ("KK", {"tile_m": 64, "tile_n": 64, **ONE}, (3, 72, 40, 72)),
    ("MN", {"tile_m": 64, "tile_n": 64, "store": "tma", **ONE}, (3, 72, 72, 40)),
    ("KN", {"tile_m": 64, "tile_n": 64, "store": "tma", "cluster": 2, **ONE}, (2, 136, 72, 72)),
    ("MK", {"tile_m": 64, "tile_n": 64, "store": "tma", "persistent": True, **ONE}, (2, 136, 136, 72)),
    ("KK", {"tile_m": 64, "tile_n": 24, "store": "tma", "by_columns": True, **ONE}, (3, 20, 72, 72)),
]


def turned(x: Any) -> Any:
    return x.swapaxes(-2, -1)


def factors(b: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    x, y = (RNG.standard_normal(s).astype(BF16) for s in ((b, m, k), (b, k, n)))
    return x, y


def computed(problem: Problem, fields: dict[str, Any], a: Any, b: Any, **others: Any) -> Any:
    """The results by the simulator, on four multiprocessors."""
    schedule = Schedule(**fields)
    p = problem.computed(schedule.by_columns)
    sizes = {"B": a.shape[0], "M": a.shape[1], "N": b.shape[2], "K": a.shape[2]}
    values = launch_values(schedule, of_kernel(schedule, sizes), 4, 64)
    stored = {"a": turned(a) if problem.a_t else a, "b": turned(b) if problem.b_t else b, **others}
    if schedule.by_columns:
        stored |= {"a": stored["b"], "b": stored["a"]}
    stored = {n: np.ascontiguousarray(x) for n, x in stored.items()}
    out = np.full((a.shape[0], a.shape[1], b.shape[2]), np.nan, dtype=BF16)
    found = simulate.run(build(p, schedule), values, {**stored, "out": out})["out"]
    return found.reshape(out.shape).astype(np.float32)


@pytest.mark.parametrize(("layout", "fields", "sizes"), MANY)
def test_each_matrix_is_a_product_of_its_own(
    layout: str, fields: dict[str, Any], sizes: tuple[int, int, int, int]
) -> None:
    a, b = factors(*sizes)
    got = computed(product(layout=layout, batched=True), fields, a, b)
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=2**-7, atol=0.05)


@pytest.mark.parametrize(
    ("layout", "fields"),
    [MANY[2][:2], *(pytest.param(*x[:2], marks=pytest.mark.slow) for x in (*MANY[:2], *MANY[3:]))],
)
def test_one_proof_holds_for_every_number_of_matrices(layout: str, fields: dict[str, Any]) -> None:
    compiled = CompiledMatmul(product(layout=layout, batched=True), Schedule(**fields))
    proofs = compiled.program(1 if fields.get("by_columns") else 2).proofs
    assert {stage: r.scope.kind for stage, r in proofs.items()} == dict.fromkeys(("ir", "ptx"), ScopeKind.ALL)


def test_without_barriers_for_free_slots_it_is_refuted() -> None:
    schedule = Schedule(64, 64, consumers=1, stages=2, store="tma")
    bare = build(product(batched=True), schedule, without=frozenset({"empty-barriers"}))
    assert check_kernel(bare, {}).verdict is Verdict.REFUTED


def test_an_epilogue_is_the_same_for_every_matrix() -> None:
    plain = {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("bf16", ("N",))}
    f = trace(lambda acc, bias: (acc + bias).cast("bf16"), plain)
    a, b = factors(2, 72, 40, 40)
    bias = RNG.standard_normal(40).astype(BF16)
    got = computed(Problem("biased", "bf16", "KK", f, batched=True), {"tile_m": 64, **ONE}, a, b, bias=bias)
    want = a.astype(np.float32) @ b.astype(np.float32) + bias.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=2**-7, atol=0.05)


@pytest.mark.parametrize(
    "sizes", [(8, 2048, 2048, 256), (512, 64, 128, 64), (2, 300, 304, 30000), (3, 1, 4096, 128)]
)
def test_the_menu_has_whole_tiles_alone(sizes: tuple[int, int, int, int]) -> None:
    problem, given = product(batched=True), dict(zip("BMNK", sizes, strict=True))
    found = menu(problem, given)
    assert found and all(s.split_k == 1 for s in found)
    first = choose(problem, given, 132)
    for s in (first, *(s for s in found if s.persistent)):
        values = launch_values(s, of_kernel(s, given), 132, 64)
        assert not s.persistent or values["blocks"] <= 132 * s.resident
    # as long as one product of as many rows, where these are whole tiles
    if sizes[1] % 256 == 0:
        plain = predicted(product(), first, {"M": sizes[0] * sizes[1], "N": sizes[2], "K": sizes[3]}, 132)
        assert predicted(problem, first, given, 132) == pytest.approx(plain, rel=0.1)


def test_tiles_are_counted_through_all_matrices() -> None:
    values = launch_values(Schedule(128, 128), {"B": 8, "M": 100, "N": 200, "K": 64}, 132, 64)
    assert (values["tiles"], values["blocks"]) == (2, 16)
    persistent = Schedule(128, 128, persistent=True)
    values = launch_values(persistent, {"B": 100, "M": 100, "N": 200, "K": 64}, 132, 64)
    assert (values["tiles"], values["blocks"], values["turns"]) == (2, 132, 2)


def test_splits_of_many_matrices_are_refused() -> None:
    with pytest.raises(InputError, match="whole"):
        build(product(batched=True), Schedule(split_k=2, shares="one", store="tma"))


@pytest.mark.parametrize("shape", [(8, 8), (2, 8, 8, 8)])
def test_factors_have_three_dimensions(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, BF16)
    with pytest.raises(InputError, match="an array of many"):
        Matmul(product(batched=True))(x, x)
