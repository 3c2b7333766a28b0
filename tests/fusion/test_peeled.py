"""Rows that are no multiple of 16 bytes: threads access aligned vectors, and the ends of a row apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.examples import rows as examples
from syncverify.fusion import Fusion, RowSchedule, Tensor, index, rms_norm, trace
from syncverify.fusion.functions import numpy_dtype
from syncverify.fusion.pipeline import build_rows, build_streamed
from syncverify.fusion.plan import RowPlan, launch_values
from syncverify.fusion.row_schedule import fitted
from syncverify.fusion.streamed import StreamedRows
from syncverify.ir.expr import Int
from syncverify.ir.nodes import BarrierSync, GlobalRegion, Kernel, LdGlobal, StGlobal
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.passes.rewrite import walk
from syncverify.simulate import ir

ALL = [
    examples.rms_norm, examples.layer_norm, examples.softmax, examples.add_rms_norm, examples.cross_entropy,
    examples.row_variance,
]  # fmt: skip
PLACES = trace(lambda x, w: x * w + index("C"), {"x": Tensor("f32", ("R", "C")), "w": Tensor("f32", ("C",))})
#: Lengths by their remainders, and how rows are read; the last are gone through piece by piece.
SHAPES = [
    (129, "warps=1 rows=2"),
    (301, "warps=1 rows=3 lanes=16"),
    (519, "warps=2"),
    (519, "warps=3"),
    (1022, "warps=2 rows=2 reread=yes"),
    (1028, "warps=4"),
    (257, "stream=yes warps=1"),
    (2051, "stream=yes warps=2"),
]


def built(f: Fusion, width: int, settings: str, policy: Policy = Policy.PRACTICAL) -> Kernel:
    plan = RowPlan(f, RowSchedule(width=width).with_settings(settings.split()))
    (kernel,) = parse(print_kernel(plan.build(plan.main, policy)), "k")
    return kernel


def results(f: Fusion, kernel: Kernel, rows: int, width: int) -> list[tuple[Any, Any]]:
    """What the simulator makes over NaN, and float64's."""
    rng = np.random.default_rng(width)
    given = f.random_inputs({"R": rows, "C": width})
    for name, t in f.inputs:
        if t.dtype in ("f32", "bf16"):
            given[name] = rng.standard_normal(given[name].shape).astype(numpy_dtype(t.dtype))
    want = f.reference(given, np.float64)
    out = {
        o.name: np.full(w.shape, np.nan, numpy_dtype(o.dtype)) for o, w in zip(f.outputs, want, strict=True)
    }
    values = launch_values(f, kernel, {"R": rows, "C": width}, 2)
    got = ir.run(kernel, values, {**given, **out})
    return [(np.asarray(got[o.name], np.float64), w) for o, w in zip(f.outputs, want, strict=True)]


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize(("width", "settings"), SHAPES)
def test_every_element_of_every_row(f: Fusion, width: int, settings: str) -> None:
    """Nine rows begin at each of eight places of a vector."""
    kernel = built(f, width, settings)
    for got, want in results(f, kernel, 9, width):
        assert np.allclose(got, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())


@pytest.mark.parametrize("settings", ["warps=2", "stream=yes warps=1"])
def test_places_and_operands_of_single_elements(settings: str) -> None:
    f = trace(lambda x, w: rms_norm(x, w) + index("C"), dict(PLACES.inputs))
    for got, want in results(f, built(f, 519, settings), 5, 519):
        assert np.allclose(got, want, 1e-4, 1e-4)


@pytest.mark.parametrize("settings", ["warps=2", "warps=1 rows=2", "stream=yes warps=1"])
def test_vectors_of_rows_are_aligned(settings: str) -> None:
    """Of 16 bytes; nothing else is accessed along rows but single elements."""
    f = examples.softmax
    accesses = [s for s in walk(built(f, 1021, settings).body) if isinstance(s, LdGlobal | StGlobal)]
    regions = [s.src if isinstance(s, LdGlobal) else s.dst for s in accesses]
    assert {r.count for r in regions if isinstance(r, GlobalRegion)} == {Int(8), Int(1)}


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize(
    "settings", ["warps=1 rows=2", "warps=2", "warps=2 rows=2", "stream=yes warps=2", "warps=2 reread=yes"]
)
def test_proved_for_every_number_of_rows(settings: str, policy: Policy) -> None:
    kernel = built(examples.layer_norm, 1021, settings, policy)
    report = check_kernel(kernel, {}, policy, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize("pieces", [False, True])
def test_without_their_barriers_they_are_refuted(pieces: bool) -> None:
    f, without = examples.softmax, frozenset({"exchange-barriers"})
    if pieces:
        plan = RowPlan(f, RowSchedule(stream="yes", warps=2, width=1021))
        bare = build_streamed(StreamedRows(f, plan.fitted(plan.main), 8), without=without)
    else:
        bare = build_rows(f, fitted(f, RowSchedule(warps=2), 1021), 1021, without=without)
    assert not any(isinstance(s, BarrierSync) for s in walk(bare.body))
    assert check_kernel(bare, {}).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("width", "settings", "peel"),
    [
        (1024, "", "no"), (1021, "", "yes"), (1020, "", "yes"), (127, "", "no"), (1021, "peel=no", "no"),
        (333, "lanes=8 warps=1", "no"),
    ],
)  # fmt: skip
def test_which_rows_are_peeled(width: int, settings: str, peel: str) -> None:
    schedule = RowSchedule().with_settings(settings.split())
    assert fitted(examples.softmax, schedule, width).peel == peel


def test_rows_that_cannot_be_peeled() -> None:
    with pytest.raises(InputError, match="peel=yes needs source=direct, 16 lanes"):
        fitted(examples.softmax, RowSchedule(peel="yes", lanes=8, warps=1), 333)
