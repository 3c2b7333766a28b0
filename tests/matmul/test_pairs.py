"""Two products of one A: simulated against NumPy, proved, and refuted where the second goes unguarded."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, Value, silu, trace
from syncverify.gate.matmul import CompiledMatmul
from syncverify.ir.expr import Int
from syncverify.ir.nodes import If, MbarrierArrive, Stmt, TmaLoad, Wgmma
from syncverify.matmul import Problem, Schedule
from syncverify.matmul.choose import candidates, choose
from syncverify.matmul.lower import launch_values, whole
from syncverify.matmul.pipeline import build
from syncverify.passes.rewrite import flat_map, walk
from syncverify.simulate import ir

BF16 = ml_dtypes.bfloat16
C = Tensor("f32", ("M", "N"))


def swiglu(acc: Value, acc2: Value) -> Value:
    return (silu(acc) * acc2).cast("bf16")


def scaled(acc: Value, acc2: Value, bias: Value, residual: Value) -> Value:
    return (silu(acc + bias) * acc2 + residual).cast("bf16")


def pair(layout: str = "KK") -> Problem:
    return Problem("swiglu", "bf16", layout, trace(swiglu, {"acc": C, "acc2": C}))


def with_others() -> Problem:
    others = {"bias": Tensor("bf16", ("N",)), "residual": Tensor("bf16", ("M", "N"))}
    return Problem("scaled", "bf16", "KK", trace(scaled, {"acc": C, "acc2": C, **others}))


SCHEDULES = {
    "direct": Schedule(128, 64, stages=2),
    "staged": Schedule(128, 64, stages=3, store="tma"),
    "one in flight": Schedule(64, 64, consumers=1, stages=3, pending=1),
    "persistent": Schedule(128, 64, stages=3, persistent=True, store="tma", group=2),
    "ping-pong": Schedule(64, 64, stages=2, persistent=True, pingpong=True),
    "cluster": Schedule(128, 128, stages=2, store="tma", cluster=2),
}


def run(problem: Problem, schedule: Schedule, m: int, n: int, k: int, **others: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    a, b, b2 = (rng.standard_normal(s).astype(BF16) for s in ((m, k), (k, n), (k, n)))
    kernel = build(problem, schedule, vector=2 if n % 2 == 0 else 1)
    values = launch_values(schedule, {"M": m, "N": n, "K": k}, 4, 64, whole(problem, schedule))
    stored = {
        "a": np.ascontiguousarray(a.T if problem.a_t else a),
        **{x: np.ascontiguousarray(v.T if problem.b_t else v) for x, v in (("b", b), ("b2", b2))},
    }
    out = np.full((m, n), np.nan, dtype=BF16)
    got = ir.run(kernel, values, {**stored, **others, "out": out})["out"].reshape(m, n)
    wide = [x.astype(np.float32) for x in (a, b, b2)]
    (want,) = problem.epilogue.reference({"acc": wide[0] @ wide[1], "acc2": wide[0] @ wide[2], **others})
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2**-6, atol=5e-2)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=list(SCHEDULES))
def test_values(schedule: Schedule) -> None:
    run(pair(), schedule, 200, 136, 200)


@pytest.mark.parametrize("layout", ["KN", "MK", "MN"])
def test_values_in_every_layout(layout: str) -> None:
    run(pair(layout), SCHEDULES["direct"], 136, 144, 136)


@pytest.mark.parametrize("store", ["direct", "tma"])
def test_values_with_more_inputs(store: str) -> None:
    rng = np.random.default_rng(5)
    others = {
        "bias": rng.standard_normal(136).astype(BF16),
        "residual": rng.standard_normal((70, 136)).astype(BF16),
    }
    run(with_others(), Schedule(128, 64, stages=2, store=store), 70, 136, 72, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 17])
def test_columns_that_are_odd_in_number(n: int) -> None:
    run(pair(), SCHEDULES["direct"], 65, n, 72)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=list(SCHEDULES))
def test_proved(schedule: Schedule) -> None:
    assert check_kernel(build(pair(), schedule)).verdict is Verdict.PROVED


def test_both_proofs_hold_for_every_size() -> None:
    proofs = CompiledMatmul(pair(), SCHEDULES["direct"]).proofs
    assert {(r.verdict, r.scope.kind) for r in proofs.values()} == {(Verdict.PROVED, ScopeKind.ALL)}


def test_bytes_of_the_second_factor_that_are_not_announced_are_refuted() -> None:
    kernel = build(pair(), SCHEDULES["direct"])

    def fewer(s: Stmt) -> tuple[Stmt, ...]:
        if isinstance(s, MbarrierArrive) and isinstance(s.expect, Int):
            return (replace(s, expect=Int(s.expect.value - 64 * 128)),)
        return (s,)

    assert check_kernel(replace(kernel, body=flat_map(kernel.body, fewer))).verdict is Verdict.REFUTED


def test_a_second_product_behind_the_release_of_its_slot_is_refuted() -> None:
    kernel = build(pair(), SCHEDULES["direct"])
    loads = [s for s in walk(kernel.body) if isinstance(s, TmaLoad)]
    products = [s for s in walk(kernel.body) if isinstance(s, Wgmma)]
    assert len(loads) == 3 and len(products) == 2

    def early(s: Stmt) -> tuple[Stmt, ...]:
        return () if s is products[1] else (s,)

    def late(s: Stmt) -> tuple[Stmt, ...]:
        return (s, products[1]) if _frees(s) else (s,)

    body = flat_map(flat_map(kernel.body, early), late)
    assert check_kernel(replace(kernel, body=body)).verdict is Verdict.REFUTED


def _frees(s: Stmt) -> bool:
    return isinstance(s, If) and any(isinstance(x, MbarrierArrive) and x.bar.name == "empty" for x in s.then)


def test_a_missing_factor_is_named() -> None:
    a = np.zeros((64, 64), BF16)
    with pytest.raises(InputError, match="takes a, b, b2"):
        CompiledMatmul(pair(), SCHEDULES["direct"])(a, a)


def test_a_pair_takes_half_as_many_columns() -> None:
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    assert choose(pair(), sizes, 132).tile_n <= 128
    for s in candidates(pair(), sizes, 132):
        s.check(2)
        assert s.split_k == 1


def test_a_pair_has_accumulators_for_two() -> None:
    with pytest.raises(InputError, match="registers"):
        build(pair(), Schedule(128, 256))
