"""Rows that are gone through piece by piece: what a later step reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.compiler.fusion_cases import fusion_of
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Fusion, RowSchedule
from syncverify.fusion.pipeline import build_streamed
from syncverify.fusion.plan import RowPlan, launch_values
from syncverify.fusion.row_schedule import peeled
from syncverify.fusion.schedule import shared_per_block
from syncverify.fusion.streamed import StreamedRows, fitted
from syncverify.ir.expr import Binary, Var
from syncverify.ir.layout import layout
from syncverify.ir.nodes import For, Kernel, LdGlobal, LdShared, Stmt
from syncverify.passes.rewrite import walk, with_bodies
from syncverify.simulate import ir

WIDTH = 261


def built(f: Fusion, peel: str = "no", without: frozenset[str] = frozenset()) -> Kernel:
    schedule = RowSchedule(width=WIDTH).with_settings(["stream=yes", "warps=1", f"peel={peel}"])
    rows = StreamedRows(f, fitted(schedule, peeled(f, schedule, WIDTH)), 1 if peel == "no" else 4)
    return build_streamed(rows, without=without)


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


#: Six pieces of a warp, in f32 or where two inputs of 16 bits are read, and a ragged end.
KEPT_WIDTH = 1597


def keeping(f: Fusion, peel: str, warps: int = 1) -> tuple[RowPlan, Kernel]:
    """The plan and the kernel of rows whose first pieces stay in shared memory."""
    settings = ("stream=yes", "reread=shared", f"warps={warps}", "blocks_per_sm=1", f"peel={peel}")
    plan = RowPlan(f, RowSchedule(width=KEPT_WIDTH * warps).with_settings(settings))
    return plan, plan.build(plan.main, Policy.PRACTICAL)


@pytest.mark.parametrize("peel", ["no", "yes"])
@pytest.mark.parametrize(
    ("case", "dtype", "buffers"),
    [
        ("softmax", "f32", {"kept_x"}),
        ("add+rmsnorm", "bf16", {"kept_x", "kept_r"}),
        ("add+layernorm", "f32", {"kept_h"}),  # what a step stored exactly stays, and not what it is made of
    ],
)
def test_pieces_that_stay_in_shared_memory(case: str, dtype: str, buffers: set[str], peel: str) -> None:
    f = fusion_of(case, dtype)
    kernel = keeping(f, peel)[1]
    assert {s.name for s in kernel.shared if s.name.startswith("kept")} == buffers
    report = check_kernel(kernel, {}, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    sizes = {"R": 5, "C": KEPT_WIDTH}
    given = f.random_inputs(sizes)
    want = f.reference(given, np.float64)
    got = ir.run(kernel, launch_values(f, kernel, sizes, 2), given)
    for o, w in zip(f.outputs, want, strict=True):
        off = np.abs(np.asarray(got[o.name], np.float64).reshape(w.shape) - w).max()
        assert off < (1e-4 if dtype == "f32" else 3e-2)


def test_pieces_of_another_thread_are_refuted() -> None:
    """The pass puts no barrier between them, so the checker has to see that they are each thread's own."""
    kernel = keeping(fusion_of("softmax", "f32"), "yes", warps=2)[1]

    def shifted(s: Stmt) -> Stmt:
        if isinstance(s, LdShared) and s.src.buffer == "kept_x":
            other = (Var("tid") + 1) % 64 * 4
            return replace(s, src=replace(s.src, start=other))
        return with_bodies(s, lambda b: tuple(map(shifted, b)))

    assert check_kernel(kernel, {}).verdict is Verdict.PROVED
    wrong = replace(kernel, body=tuple(map(shifted, kernel.body)))
    assert check_kernel(wrong, {}).verdict is Verdict.REFUTED


def test_a_kernel_keeps_as_many_pieces_as_rows_have() -> None:
    f = fusion_of("softmax", "f32")
    plan, kernel = keeping(f, "yes")
    wider, narrower = (plan.variant({"R": 1, "C": c}) for c in (1 << 17, 300))
    assert len({wider, narrower, plan.main}) == 3
    chunks = next(a for a in kernel.assumes if isinstance(a, Binary) and a.left == Var("chunks"))
    assert chunks == (Var("chunks") >= 6)
    assert shared_bytes(plan.build(wider, Policy.PRACTICAL)) <= shared_per_block(1)
    assert plan.fitted(wider).warps == 1 == plan.fitted(narrower).blocks_per_sm


def shared_bytes(kernel: Kernel) -> int:
    return layout(kernel, {}).size
