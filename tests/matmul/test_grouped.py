"""Grouped products: each group of rows has a right factor of its own, whose number memory holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, silu, trace
from syncverify.gate.matmul import CompiledMatmul, Matmul
from syncverify.ir.nodes import LoadIndex, TmaLoad
from syncverify.matmul import Problem, Schedule, grouped_product, product
from syncverify.matmul.choose import candidates, choose, menu
from syncverify.matmul.lower import launch_values
from syncverify.matmul.pipeline import build
from syncverify.passes.rewrite import bodies, walk
from syncverify.passes.running import mentioned
from syncverify.simulate import ir as simulate

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(12)
ONE = {"consumers": 1, "stages": 2}
#: Layout and schedule: one block, neighbours that share A, tiles that blocks take in turn, B along N.
FORMS: list[tuple[str, dict[str, Any]]] = [
    ("KK", {"tile_m": 64, "tile_n": 64, **ONE}),
    ("KN", {"tile_m": 64, "tile_n": 64, "store": "tma", "cluster": 2, "beside": True, **ONE}),
    ("MN", {"tile_m": 64, "tile_n": 64, "store": "tma", "persistent": True, **ONE}),
    ("KK", {"tile_m": 128, "tile_n": 64, "consumers": 2, "stages": 2, "persistent": True, "dependent": True}),
]
#: Five groups, the last one ragged; one factor twice, one never, and a group that has none.
EXPERTS = np.array([2, 0, -1, 2, 3], np.int32)
M, N, K, E = 4 * 128 + 72, 72, 72, 5


def factors() -> tuple[Any, Any]:
    return RNG.standard_normal((M, K)).astype(BF16), RNG.standard_normal((E, K, N)).astype(BF16)


def wanted(a: Any, b: Any) -> Any:
    found = np.zeros((M, N), np.float32)
    for g, e in enumerate(EXPERTS):
        rows = slice(g * 128, (g + 1) * 128)
        if 0 <= e < E:
            found[rows] = a[rows].astype(np.float32) @ b[e].astype(np.float32)
    return found


@pytest.mark.parametrize(("layout", "fields"), FORMS)
def test_each_group_is_multiplied_by_its_factor(layout: str, fields: dict[str, Any]) -> None:
    """And a group whose number no factor has is zero."""
    a, b = factors()
    problem, schedule = grouped_product(layout=layout), Schedule(**fields)
    values = launch_values(schedule, {"M": M, "N": N, "K": K, "E": E}, 4, 64)
    stored = {
        "a": a.T if problem.a_t else a, "b": b.swapaxes(1, 2) if problem.b_t else b, "experts": EXPERTS,
    }  # fmt: skip
    stored = {n: np.ascontiguousarray(x) for n, x in stored.items()}
    out = np.full((M, N), np.nan, BF16)
    got = simulate.run(build(problem, schedule), values, {**stored, "out": out})["out"]
    np.testing.assert_allclose(got.reshape(M, N).astype(np.float32), wanted(a, b), rtol=2**-7, atol=0.05)


@pytest.mark.parametrize(
    ("layout", "fields"),
    [FORMS[0], FORMS[2], *(pytest.param(*f, marks=pytest.mark.slow) for f in (FORMS[1], FORMS[3]))],
)
def test_one_proof_holds_for_all_sizes_and_numbers(layout: str, fields: dict[str, Any]) -> None:
    proofs = CompiledMatmul(grouped_product(layout=layout), Schedule(**fields)).proofs
    assert {stage: r.scope.kind for stage, r in proofs.items()} == dict.fromkeys(("ir", "ptx"), ScopeKind.ALL)


def test_without_barriers_for_free_slots_it_is_refuted() -> None:
    kernel = build(grouped_product(), Schedule(**FORMS[0][1]), without=frozenset({"empty-barriers"}))
    assert check_kernel(kernel, {}).verdict is Verdict.REFUTED


def test_the_number_is_a_coordinate_of_copies_and_nothing_else() -> None:
    kernel = build(grouped_product(), Schedule(**FORMS[2][1] | {"store": "direct"}))
    (load,) = [s for s in walk(kernel.body) if isinstance(s, LoadIndex)]
    users = [s for s in walk(kernel.body) if load.name in str(getattr(s, "coords", ""))]
    assert {type(s) for s in users} == {TmaLoad}
    assert {s.map for s in users if isinstance(s, TmaLoad)} == {"b_map"}


def test_calls_with_arrays_choose_prove_and_multiply() -> None:
    a, b = factors()
    (got,) = Matmul(grouped_product(layout="KN")).proved(
        {"M": M, "N": N, "K": K, "E": E}
    ).simulate(a, b, experts=EXPERTS)  # fmt: skip
    np.testing.assert_allclose(got.astype(np.float32), wanted(a, b), rtol=2**-7, atol=0.05)


def test_what_cannot_be_called() -> None:
    a, b = factors()
    call = CompiledMatmul(grouped_product(layout="KN"), Schedule(**FORMS[1][1])).simulate
    for given, message in (
        ({}, "matmul takes a, b, experts"),
        ({"experts": EXPERTS[:4]}, "584 rows are 5 groups"),
        ({"experts": EXPERTS.astype(np.int64)}, "experts has elements of type i64, expected i32"),
    ):
        with pytest.raises(InputError, match=message):
            call(a, b, **given)
    with pytest.raises(InputError, match="the right one of many"):
        Matmul(grouped_product(layout="KN"))(a, b[0], experts=EXPERTS)
    with pytest.raises(InputError, match="grouped products take factors"):
        Matmul(grouped_product(layout="KN"))(a[:, :71].copy(), b[:, :71].copy(), experts=EXPERTS)


def test_problems_and_schedules_that_cannot_be() -> None:
    with pytest.raises(InputError, match="grouped products are not batched"):
        replace(product(batched=True), grouped=True)
    taken = trace(
        lambda acc, experts: acc + experts,
        {"acc": Tensor("f32", ("M", "N")), "experts": Tensor("f32", ("N",))},
    )
    with pytest.raises(InputError, match="experts is a table of grouped products"):
        Problem("mine", "bf16", "KK", taken, grouped=True)
    wrong: list[dict[str, Any]] = [{"cluster": 2}, {"split_k": 2, "persistent": True}]
    for fields in (*wrong, {"tile_m": 256, "consumers": 2}):
        schedule = Schedule(**{"tile_m": 64, "tile_n": 64, **ONE, **fields})
        with pytest.raises(InputError, match="tiles of grouped products are whole"):
            build(grouped_product(), schedule)


def test_the_menu_has_what_groups_allow() -> None:
    problem, sizes = grouped_product(), {"M": 8192, "N": 2048, "K": 1024, "E": 8}
    found = menu(problem, sizes)
    assert choose(problem, sizes, 132) in [*found, *(s for s in candidates(problem, sizes, 132))]
    assert {s.tile_m for s in found} == {64, 128} and {s.cluster for s in found} >= {1, 2}
    assert all(s.split_k == 1 and s.sharing_b == 1 and not s.by_columns for s in found)


def test_gated_pairs_of_experts() -> None:
    pair = {n: Tensor("f32", ("M", "N")) for n in ("acc", "acc2")}
    gated = Problem(
        "gated", "bf16", "KN", trace(lambda acc, acc2: (silu(acc) * acc2).cast("bf16"), pair), grouped=True
    )
    a, b = factors()
    b2 = RNG.standard_normal((E, K, N)).astype(BF16)
    (got,) = CompiledMatmul(gated, Schedule(64, 64, stages=2, consumers=1)).simulate(
        a, b, b2=b2, experts=EXPERTS
    )
    x, y = wanted(a, b), wanted(a, b2)
    np.testing.assert_allclose(got.astype(np.float32), x / (1 + np.exp(-x)) * y, rtol=2**-6, atol=0.3)


#: First rows of A of five groups, of 304: one goes on behind the last row, one begins there, one before the
#: first one, and two overlap.
STARTS = np.array([200, 0, 304, -64, 172], np.int32)
LEFT = 304


def wanted_anywhere(a: Any, b: Any, experts: Any, starts: Any) -> Any:
    """By rows, and zeros where A or the factors have none."""
    found = np.zeros((len(experts) * 128, b.shape[2]), np.float32)
    for row in range(len(found)):
        e, at = experts[row // 128], starts[row // 128] + row % 128
        if 0 <= e < len(b) and 0 <= at < len(a):
            found[row] = a[at].astype(np.float32) @ b[e].astype(np.float32)
    return found


@pytest.mark.parametrize(("layout", "fields"), FORMS)
def test_groups_begin_anywhere(layout: str, fields: dict[str, Any]) -> None:
    a = RNG.standard_normal((LEFT, K)).astype(BF16)
    b = RNG.standard_normal((E, K, N)).astype(BF16)
    experts = np.array([2, 0, 1, 2, 3], np.int32)
    problem, schedule = grouped_product(layout=layout, anywhere=True), Schedule(**fields)
    values = launch_values(schedule, {"M": 640, "N": N, "K": K, "E": E, "L": LEFT}, 4, 64)
    stored = {
        "a": a.T if problem.a_t else a, "b": b.swapaxes(1, 2) if problem.b_t else b,
        "experts": experts, "starts": STARTS,
    }  # fmt: skip
    stored = {n: np.ascontiguousarray(x) for n, x in stored.items()}
    out = np.full((640, N), np.nan, BF16)
    got = simulate.run(build(problem, schedule), values, {**stored, "out": out})["out"]
    np.testing.assert_allclose(
        got.reshape(640, N).astype(np.float32), wanted_anywhere(a, b, experts, STARTS), rtol=2**-7, atol=0.05
    )


@pytest.mark.parametrize(
    ("layout", "fields"), [FORMS[0], *(pytest.param(*f, marks=pytest.mark.slow) for f in FORMS[1:])]
)
def test_one_proof_holds_for_all_first_rows(layout: str, fields: dict[str, Any]) -> None:
    proofs = CompiledMatmul(grouped_product(layout=layout, anywhere=True), Schedule(**fields)).proofs
    assert {stage: r.scope.kind for stage, r in proofs.items()} == dict.fromkeys(("ir", "ptx"), ScopeKind.ALL)


def test_groups_from_anywhere_without_barriers_for_free_slots_are_refuted() -> None:
    schedule, without = Schedule(**FORMS[0][1]), frozenset({"empty-barriers"})
    kernel = build(grouped_product(anywhere=True), schedule, without=without)
    assert check_kernel(kernel, {}).verdict is Verdict.REFUTED


def test_the_first_row_is_a_coordinate_of_copies_of_a_and_nothing_else() -> None:
    """So each group of C has its own rows, whatever memory holds: two groups may begin at one row."""
    kernel = build(grouped_product(anywhere=True), Schedule(**FORMS[2][1] | {"store": "direct"}))
    loads = {s.name for s in walk(kernel.body) if isinstance(s, LoadIndex)}
    maps = {"matrix": {"b_map"}, "start": {"a_map"}}
    assert loads == set(maps)
    for name in loads:
        users = [s for s in walk(kernel.body) if not bodies(s) and name in mentioned(s)]
        assert {s.map for s in users if isinstance(s, TmaLoad)} == maps[name]
        assert all(isinstance(s, TmaLoad) for s in users)


def test_a_call_of_groups_from_anywhere() -> None:
    a = RNG.standard_normal((LEFT, K)).astype(BF16)
    b = RNG.standard_normal((E, K, N)).astype(BF16)
    problem = grouped_product(layout="KN", anywhere=True)
    sizes = {"M": 640, "N": N, "K": K, "E": E, "L": LEFT}
    (got,) = Matmul(problem).proved(sizes).simulate(a, b, experts=EXPERTS, starts=STARTS)
    np.testing.assert_allclose(
        got.astype(np.float32), wanted_anywhere(a, b, EXPERTS, STARTS), rtol=2**-7, atol=0.05
    )
    call = CompiledMatmul(problem, Schedule(**FORMS[1][1])).simulate
    for given, message in (
        ({"experts": EXPERTS}, "matmul takes a, b, experts, starts"),
        ({"experts": EXPERTS[:4], "starts": STARTS}, "experts has shape .4,.; 640 rows are 5 groups"),
        ({"experts": EXPERTS, "starts": STARTS.astype(np.int64)}, "starts has elements of type i64"),
    ):
        with pytest.raises(InputError, match=message):
            call(a, b, **given)
    with pytest.raises(InputError, match="takes a, b, experts, starts"):
        Matmul(problem)(a, b, experts=EXPERTS)
    with pytest.raises(InputError, match="groups of rows that begin anywhere"):
        replace(product(), anywhere=True)
