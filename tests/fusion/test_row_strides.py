"""Inputs whose rows lie apart in memory: parts of wider rows, heads, what is repeated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify import gate
from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.driver import ir
from syncverify.fusion import (
    Fusion,
    RowSchedule,
    Schedule,
    Tensor,
    Value,
    cross_entropy,
    layer_norm,
    rms_norm,
    silu,
    trace,
)
from syncverify.fusion.pipeline import build_rows
from syncverify.fusion.plan import plan_of
from syncverify.fusion.row_schedule import fitted
from syncverify.fusion.row_strides import pitch

APART = Tensor("bf16", ("R", "C"), apart=True)
HEADS = Tensor("bf16", ("B", "H", "C"), apart=True)
VECTOR = Tensor("bf16", ("C",))


def gated(a: Value, b: Value) -> Value:
    return silu(a) * b


def shifted(a: Value, b: Value) -> Value:
    return a * 2.0 + b


def norm(a: Value, b: Value) -> Value:
    return rms_norm(a, b, 1e-6)


def whole_norm(a: Value, b: Value) -> Value:
    return layer_norm(a + b, eps=1e-6)


def loss(a: Value, b: Value) -> Value:
    return cross_entropy(a, b)


def drawn(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(ml_dtypes.bfloat16)


def strided(fusion: Fusion, arrays: dict[str, Any]) -> dict[str, int]:
    """The sizes of arrays, and how far their rows lie apart."""
    sizes = fusion.sizes(arrays)
    for name, t in fusion.inputs:
        if t.apart:
            a = arrays[name]
            steps = zip(t.dims[:-1], a.strides, strict=False)
            sizes |= {pitch(name, d): s // a.itemsize for d, s in steps}
    return sizes


WIDE = drawn((37, 3 * 1024))
PACKED = drawn((5, 7, 3 * 256))
LONG = drawn((3, 2 * 40960))


@pytest.mark.parametrize(
    ("function", "tensors", "arrays", "schedule"),
    [
        (gated, (APART, APART), (WIDE[:, :1000], WIDE[:, 1024:2024]), None),
        (gated, (APART, Tensor("bf16", ("R", "C"))), (WIDE[:, 8:1008], drawn((37, 1000))), None),
        # rows that do not start at multiples of an access: narrower ones
        (gated, (APART, APART), (drawn((37, 1004))[:, :1000], WIDE[:, :1000]), None),
        (shifted, (HEADS, Tensor("bf16", ("H", "C"), apart=True)),
         (PACKED[:, :, 256:512], PACKED[0, :, 512:]), None),
        # the same row again and again
        (shifted, (APART, VECTOR), (np.broadcast_to(WIDE[1, :64], (9, 64)), WIDE[2, :64]), None),
        (norm, (APART, VECTOR), (WIDE[:, 1024:2048], WIDE[0, :1024]), RowSchedule(width=1024)),
        (norm, (HEADS, VECTOR), (PACKED[:, :, 64:128], WIDE[0, :64]), RowSchedule(width=64)),
        (norm, (HEADS, VECTOR),
         (PACKED.transpose(1, 0, 2)[:, :, :256], WIDE[0, :256]), RowSchedule(width=256)),
        (whole_norm, (HEADS, Tensor("bf16", ("B", "H"), apart=True)),
         (PACKED[:, :, :256], PACKED[:, 0, :7]), RowSchedule(width=256)),
        (norm, (APART, VECTOR), (LONG[:, 40960:], LONG[0, :40960]), RowSchedule(width=40960)),
        (loss, (APART, Tensor("i32", ("R",))),
         (WIDE[:, 512:1024], np.arange(37, dtype=np.int32)), RowSchedule(width=512)),
        (loss, (HEADS, Tensor("i32", ("B", "H"), apart=True)),
         (PACKED[:, :, 256:], np.arange(60, dtype=np.int32).reshape(5, 12)[:, 3:10]), RowSchedule(width=512)),
    ],
)  # fmt: skip
def test_rows_are_read_where_they_lie(
    function: Callable[..., Any], tensors: Any, arrays: Any, schedule: Any, tmp_path: Path
) -> None:
    fusion = trace(function, dict(zip("ab", tensors, strict=True)))
    kernel = gate.compile(fusion, schedule, cache=Cache(tmp_path))
    assert isinstance(kernel, gate.CompiledKernel)
    for report in (kernel.report, kernel.ptx_report):
        assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    given = dict(zip("ab", arrays, strict=True))
    sizes = strided(fusion, given)
    for got, want in zip(kernel.simulate(given, sizes), fusion.reference(given), strict=True):
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=2e-2, atol=1e-2)


def test_accesses_are_as_wide_as_rows_allow() -> None:
    plan = plan_of(trace(gated, {"a": APART, "b": APART}))
    sizes = {"R": 9, "C": 1000, pitch("b", "R"): 2048}
    assert plan.variant(sizes) == plan.variant({**sizes, pitch("a", "R"): 1008}) == 8
    assert plan.variant({**sizes, pitch("a", "R"): 1004}) == 4
    assert plan.variant({**sizes, pitch("a", "R"): 1001}) == 1


def test_a_launch_whose_rows_start_elsewhere_is_refused(tmp_path: Path) -> None:
    fusion = trace(norm, {"a": APART, "b": VECTOR})
    kernel = gate.compile(fusion, RowSchedule(width=64), cache=Cache(tmp_path))
    assert isinstance(kernel, gate.CompiledKernel)
    sizes = {"R": 9, "C": 64, pitch("a", "R"): 68}
    with pytest.raises(InputError, match="a_R_apart = 68"):
        kernel.program(sizes).require_proof(kernel.launch_values(sizes))


def test_what_rows_span_has_to_fit_an_index() -> None:
    plan = plan_of(trace(gated, {"a": APART, "b": APART}))
    sizes = {"R": 4096, "C": 4096}
    plan.check_extent({**sizes, pitch("a", "R"): 2**18})
    with pytest.raises(InputError, match="a spans 2146963456"):
        plan.check_extent({**sizes, pitch("a", "R"): 2**19})


def test_an_exchange_without_its_barrier_is_refuted() -> None:
    fusion = trace(norm, {"a": APART, "b": VECTOR})
    schedule = fitted(fusion, RowSchedule(width=4096), 4096)
    good, bad = (
        build_rows(fusion, schedule, 4096, without=without)
        for without in (frozenset(), frozenset({"exchange-barriers"}))
    )
    assert ir.check_kernel(good, {}).verdict is Verdict.PROVED
    assert ir.check_kernel(bad, {}).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("function", "schedule"),
    [
        (gated, Schedule(stages=3)),
        (norm, RowSchedule(source="bulk")),
        (norm, RowSchedule(stages=2)),
        (lambda a, b: silu(a * b).transpose(), None),
        (lambda a, b: (a * b).sum("R"), None),
    ],
)
def test_what_needs_rows_that_lie_together_says_so(function: Any, schedule: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rows of a lie apart"):
        gate.compile(trace(function, {"a": APART, "b": VECTOR}), schedule, cache=Cache(tmp_path))


def test_names_that_kernels_use_themselves() -> None:
    with pytest.raises(InputError, match="a_R_apart"):
        trace(lambda a, a_R_apart: a + a_R_apart, {"a": APART, "a_R_apart": VECTOR})
