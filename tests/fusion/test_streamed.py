"""Rows that are gone through piece by piece: what a later step reads."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.compiler.fusion_cases import fusion_of
from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Fusion, RowSchedule
from syncverify.fusion.pipeline import build_streamed
from syncverify.fusion.plan import launch_values
from syncverify.fusion.row_schedule import peeled
from syncverify.fusion.streamed import fitted
from syncverify.ir.nodes import For, Kernel, LdGlobal
from syncverify.passes.rewrite import walk
from syncverify.simulate import ir

WIDTH = 261


def built(f: Fusion, peel: str = "no", without: frozenset[str] = frozenset()) -> Kernel:
    schedule = RowSchedule(width=WIDTH).with_settings(["stream=yes", "warps=1", f"peel={peel}"])
    return build_streamed(
        f, fitted(schedule, peeled(f, schedule, WIDTH)), 1 if peel == "no" else 4, without=without
    )


def read_last(kernel: Kernel) -> set[str]:
    """The tensors that the last pieces of a row read."""
    (rows,) = (s for s in kernel.body if isinstance(s, For))
    last = [s for s in rows.body if isinstance(s, For)][-1]
    return {s.src.tensor for s in walk((last,)) if isinstance(s, LdGlobal)}


@pytest.mark.parametrize(
    ("case", "dtype", "read"),
    [
        ("add+rmsnorm", "f32", {"h", "w"}),
        ("add+rmsnorm", "bf16", {"x", "r", "w"}),  # what is stored is rounded
        ("rmsnorm", "f32", {"x", "w"}),
    ],
)
def test_a_later_step_reads_what_an_earlier_one_stored_exactly(case: str, dtype: str, read: set[str]) -> None:
    assert read_last(built(fusion_of(case, dtype))) == read


@pytest.mark.parametrize("peel", ["no", "yes"])
def test_what_is_read_again_is_what_was_stored(peel: str) -> None:
    f = fusion_of("add+layernorm", "f32")
    kernel, sizes = built(f, peel), {"R": 5, "C": WIDTH}
    given = f.random_inputs(sizes)
    want = f.reference(given, np.float64)
    out = {o.name: np.full(w.shape, np.nan, np.float32) for o, w in zip(f.outputs, want, strict=True)}
    got = ir.run(kernel, launch_values(f, kernel, sizes, 2), {**given, **out})
    for o, w in zip(f.outputs, want, strict=True):
        assert np.allclose(np.asarray(got[o.name], np.float64).reshape(w.shape), w, atol=1e-4)


def test_the_lanes_at_the_end_of_a_row_need_the_barrier_of_its_step() -> None:
    """They read the last elements, which other threads stored; so do warps what others have reduced."""
    f = fusion_of("add+rmsnorm", "f32")
    report = check_kernel(built(f, "yes"), {}, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert check_kernel(built(f, "yes", frozenset({"exchange-barriers"})), {}).verdict is Verdict.REFUTED
