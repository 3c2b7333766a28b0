"""Functions as users write them: what kernels they become, and their results on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syncverify import gate
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.examples import attention, losses, norms
from syncverify.fusion import Fusion, RowSchedule, Schedule, Tensor, index, rms_norm, rotary, softmax, trace
from syncverify.fusion.functions import LARGEST, numpy_dtype
from syncverify.fusion.plan import plan_of

EXAMPLES = [f for m in (attention, norms, losses) for f in vars(m).values() if isinstance(f, Fusion)]
SIZES = {
    "R": 13, "C": 72, "H": 3, "Q": 11, "K": 40, "T": 17, "D": 32, "N": 2, "G": 2, "S": 24, "B": 2, "M": 20
}  # fmt: skip
#: Examples of several kernels; the others are one.
SEVERAL = {
    "norm_rotary", "rotary_shared_key", "layer_norm_transposed", "group_norm", "channel_norm",
    "masked_mean_pool", "log_mel", "mean_cross_entropy", "mean_squares",
}  # fmt: skip


def drawn(f: Fusion) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    given = {}
    for n, t in f.inputs:
        shape = [SIZES[d] for d in t.dims]
        if t.dtype == "i64":
            x: Any = rng.integers(0, SIZES[f.dims[-1]], shape)
        elif t.dtype == "bool":
            x = rng.random(shape) < 0.6
            x[..., 0] = True  # no row without any element
        else:
            x = rng.standard_normal(shape) + 0.3
        given[n] = np.asarray(x).astype(numpy_dtype(t.dtype))
    return given


@pytest.mark.parametrize("f", EXAMPLES, ids=lambda f: f.name)
def test_results(f: Fusion, unproved: None) -> None:
    kernel = gate.compile(f)
    assert (f.name in SEVERAL) == (not isinstance(kernel, gate.CompiledKernel))
    given = drawn(f)
    want = f.reference(given, np.float64)
    got = kernel.simulate(given, {d: SIZES[d] for d in f.dims})
    for o, g, w in zip(f.outputs, got, want, strict=True):
        w = np.clip(w, -LARGEST[o.dtype], LARGEST[o.dtype]) if o.dtype in LARGEST else np.asarray(w)
        g = np.asarray(g, np.float64)
        assert g.shape == w.shape
        limit = {"f32": 1e-5, "bool": 0.0}.get(o.dtype, 2.0**-4 if o.dtype in LARGEST else 1e-2)
        assert np.linalg.norm(g - w) <= limit * np.linalg.norm(w.astype(np.float64))


@pytest.mark.parametrize(
    "f", [attention.causal_softmax, attention.dropped_softmax, norms.rms_norm_fp8], ids=lambda f: f.name
)
def test_new_operations_in_rows_pass_both_checks_for_every_size(f: Fusion, tmp_path: Any) -> None:
    kernel = gate.compile(f, RowSchedule(width=256), cache=Cache(tmp_path))
    for report in (kernel.report, kernel.ptx_report):
        assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


PLACES = (
    attention.causal_softmax, attention.window_softmax, attention.alibi_softmax, attention.dropped_softmax
)  # fmt: skip


@pytest.mark.parametrize("f", PLACES, ids=lambda f: f.name)
def test_code_for_rows_of_any_length_compiles(f: Fusion, tmp_path: Any) -> None:
    plan = plan_of(f, RowSchedule())
    for width in (77, 96, 1000):
        kernel = plan.build(plan.variant({f.dims[-1]: width}), Policy.PRACTICAL)
        assert f".entry {f.name}" in gate.Program(kernel, Policy.PRACTICAL, cache=Cache(tmp_path)).ptx


def test_what_is_dropped_does_not_depend_on_the_kernel(unproved: None) -> None:
    """One seed drops the same elements, whatever way rows are gone through."""
    f = attention.dropped_softmax
    given, sizes = drawn(f), {d: SIZES[d] for d in f.dims}
    masks = [
        gate.compile(f, schedule).simulate(given, sizes)[1]
        for schedule in (RowSchedule(), RowSchedule(warps=2, source="direct"), RowSchedule(stream="yes"))
    ]
    assert 0 < np.mean(masks[0]) < 1
    assert all(np.array_equal(m, masks[0]) for m in masks)


def test_a_schedule_for_a_fusion_of_several_kernels_is_refused() -> None:
    for f in (norms.layer_norm_transposed, trace(lambda x: softmax(x).transpose(), {"x": norms.X})):
        with pytest.raises(InputError, match="takes several kernels"):
            plan_of(f, RowSchedule())
    turned = trace(lambda x: x.transpose(), {"x": norms.X})
    with pytest.raises(InputError, match="takes a Schedule, not a RowSchedule"):
        plan_of(turned, RowSchedule())
    assert plan_of(turned, Schedule()).fusion is turned


def test_reductions_of_what_is_rotated_are_refused() -> None:
    tensors = {"x": attention.HEADS, "c": attention.ANGLES, "s": attention.ANGLES}
    f = trace(lambda x, c, s: rms_norm(rotary(x, c, s)), tensors)
    with pytest.raises(InputError, match="reduces what is rotated"):
        gate.compile(f)


def test_places_along_dimensions_outside_of_columns() -> None:
    x = Tensor("f32", ("A", "B", "R", "C"))
    f = trace(lambda x: (x * index("B")).sum("R"), {"x": x})
    with pytest.raises(InputError, match=r"index\('B'\) beside a reduction along R"):
        gate.compile(f)
