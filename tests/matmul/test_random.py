"""Random products on the simulator, unproved.

``benchmarks/compiler/fuzz_matmuls.py`` draws and proves many more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest

from benchmarks.compiler.fuzz_matmuls import fields, tried
from syncverify import gate
from syncverify.base.source import InputError
from syncverify.fusion import Tensor, index, size, trace, uniform, where
from syncverify.gate.matmul import CompiledMatmul
from syncverify.ir.nodes import Elect, For, Let
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.named import kernel_name
from syncverify.matmul.pipeline import build
from syncverify.passes.rewrite import walk
from tests.sweeps import part_of

BF16 = ml_dtypes.bfloat16
SEEDS = range(12)
ACC = Tensor("f32", ("M", "N"))


@pytest.fixture
def unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate.Program, "require_proof", lambda self, values: None)


def _judge(seeds: Sequence[int]) -> None:
    rows = [tried(seed) for seed in seeds]
    counts = Counter(r["what"] for r in rows)
    assert set(counts) <= {"right", "refused"}, [r for r in rows if r["what"] not in ("right", "refused")]
    assert counts["right"] > len(seeds) // 3


def test_results(unproved: None) -> None:
    _judge(part_of(SEEDS, 3))


@pytest.mark.slow
def test_results_of_all(unproved: None) -> None:
    _judge(SEEDS)


def test_fields_of_all_schedules() -> None:
    assert fields(["split_k=2", "store=tma", "dependent=True"]) == {
        "split_k": 2, "store": "tma", "dependent": True,
    }  # fmt: skip
    with pytest.raises(TypeError):
        fields(["stage=2"])


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (lambda acc: acc - acc.max("N"), "elementwise; reduce.max"),
        (lambda acc: acc.sum("N"), "makes M, N matrices; out is M"),
        (lambda acc: acc.transpose(), "makes M, N matrices; out is N, M"),
        (lambda acc: acc + uniform(1, 2), "elementwise; random"),
    ],
)
def test_what_an_epilogue_cannot_be(output: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Problem("odd", "bf16", "KK", trace(output, {"acc": ACC}))


@pytest.mark.parametrize("store", ["direct", "tma"])
def test_places_of_elements(unproved: None, store: Literal["direct", "tma"]) -> None:
    """Scores that look back only, with a slope; the last columns and rows are ragged."""

    def masked(acc: Any) -> Any:
        return where(index("N") <= index("M"), acc + (index("N") + 1 - size("N")) * 0.25, -1e30).cast("f32")

    problem = Problem("masked", "bf16", "KK", trace(masked, {"acc": ACC}))
    a, b = (np.random.default_rng(2).standard_normal(s).astype(BF16) for s in ((130, 64), (72, 64)))
    schedule = Schedule(128, 64, stages=2, persistent=True, store=store)
    (got,) = CompiledMatmul(problem, schedule).simulate(a, b.T)
    rows, columns = np.indices(got.shape)
    want = np.where(columns <= rows, a.astype(np.float64) @ b.T + (columns - 71) * 0.25, -1e30)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("persistent", [True, False])
def test_tiles_as_wide_as_a_row_is_aligned(unproved: None, persistent: bool) -> None:
    """Sizes that a check starts from have columns, however narrow tiles of 8-bit results are."""
    problem = Problem("narrow", "bf16", "KK", trace(lambda acc: acc.cast("e4m3"), {"acc": ACC}))
    a, b = (np.random.default_rng(2).standard_normal(s).astype(BF16) for s in ((70, 64), (40, 64)))
    schedule = Schedule(64, 8, consumers=1, stages=2, persistent=persistent)
    (got,) = CompiledMatmul(problem, schedule).simulate(a, b.T)
    want = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=0.07, atol=0.01)


def test_names_that_kernels_use_themselves(unproved: None) -> None:
    """What the author calls an input is what a call takes."""

    def f(acc: Any, row: Any, tile: Any, stage: Any, t1: Any) -> Any:
        return {"steps": (acc + row) * tile + stage, "out": acc * t1}

    inputs = {n: Tensor("f32", d) for n, d in (("row", ("N",)), ("tile", ("M",)), ("stage", ()), ("t1", ()))}
    problem = Problem("named", "bf16", "KK", trace(f, {"acc": ACC, **inputs}))
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(BF16) for s in ((64, 64), (16, 64)))
    sizes = {"M": 64, "N": 16}
    given = {
        n: np.asarray(rng.standard_normal([sizes[d] for d in t.dims]), np.float32) for n, t in inputs.items()
    }
    compiled = CompiledMatmul(problem, Schedule(64, 16, consumers=1, stages=2))
    got, other = compiled.simulate(a, b.T, **given)
    acc = a.astype(np.float64) @ b.T
    np.testing.assert_allclose(
        got, (acc + given["row"]) * given["tile"][:, None] + given["stage"], 1e-3, 1e-3
    )
    np.testing.assert_allclose(other, acc * given["t1"], 1e-3, 1e-3)


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(128, 64), Schedule(128, 64, store="tma", persistent=True), Schedule(128, 64, split_k=3),
        Schedule(64, 64, pingpong=True, persistent=True),
        Schedule(128, 128, store="tma", cluster=2, split_k=2),
        Schedule(128, 64, split_k=3, shares="one", persistent=True),
        Schedule(128, 64, split_k=3, shares="any"),
    ],
)  # fmt: skip
def test_own_names_are_all_known(schedule: Schedule) -> None:
    kernel = build(product(), schedule)
    names = {s.name for s in walk(kernel.body) if isinstance(s, (Let, Elect))}
    names |= {s.var for s in walk(kernel.body) if isinstance(s, For)}
    names |= {
        x.name for x in (*kernel.params, *kernel.tensors, *kernel.shared, *kernel.barriers, *kernel.maps)
    }
    names |= {x.name for x in kernel.fragments}
    assert {n for n in names - {"out"} if kernel_name(n) == n} == set()


def test_accumulators_need_registers() -> None:
    with pytest.raises(InputError, match="128 > 102"):
        Schedule(192, 256, consumers=3).check()
    Schedule(128, 256).check()


@pytest.mark.parametrize(("split_k", "dim"), [(1, "M"), (2, "N")])
def test_odd_widths_are_proved_and_right(split_k: int, dim: str) -> None:
    """Stored element by element, with what the epilogue reads."""

    def biased(acc: Any, bias: Any) -> Any:
        return (acc + bias).cast("f32")

    epilogue = trace(biased, {"acc": ACC, "bias": Tensor("f32", (dim,))})
    schedule = Schedule(64, 32, consumers=1, stages=2, split_k=split_k)
    compiled = CompiledMatmul(Problem("odd", "bf16", "KK", epilogue), schedule, each_launch=True)
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(s).astype(BF16) for s in ((70, 136), (37, 136)))
    bias = rng.standard_normal(37 if dim == "N" else 70).astype(np.float32)
    (got,) = compiled.simulate(a, b.T, bias=bias)
    np.testing.assert_allclose(
        got, a.astype(np.float64) @ b.T + (bias if dim == "N" else bias[:, None]), 1e-3, 1e-3
    )
