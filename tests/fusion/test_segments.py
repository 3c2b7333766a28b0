"""Fusions of several kernels: how they are cut, their results on the simulator, and their proofs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syncverify import gate
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, Value, index, layer_norm, logsumexp, rsqrt, size, softmax, trace
from syncverify.fusion.column_schedule import ColumnSchedule
from syncverify.fusion.columns import partial_tensor
from syncverify.fusion.functions import numpy_dtype
from syncverify.fusion.graph import Fusion
from syncverify.fusion.pipeline import build_columns, build_streamed
from syncverify.fusion.plan import ColumnPlan, RowPlan
from syncverify.fusion.reshape import merged
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.fusion.segments import cut, whole
from syncverify.fusion.streamed import StreamedRows
from syncverify.gate.sequence import compile_sequence
from syncverify.ir.nodes import BarrierSync, BulkStore, Kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.passes.rewrite import walk

X, F = Tensor("bf16", ("R", "C")), Tensor("f32", ("R", "C"))
ROW, COLUMN, SCALAR = Tensor("f32", ("R",)), Tensor("f32", ("C",)), Tensor("f32")
IMAGE = Tensor("f32", ("N", "C", "H", "W"))
MATRICES = Tensor("bf16", ("B", "R", "C"))


def batch_norm(x: Value, w: Value) -> Value:
    return (x - x.mean("R")) * rsqrt(x.var("R") + 1e-5) * w


def instance_norm(x: Value) -> Value:
    return (x - x.mean(("H", "W"))) * rsqrt(x.var(("H", "W")) + 1e-5)


def turned_places(x: Value) -> dict[str, Value]:
    return {"y": (x + index("C") * 0.1).transpose(), "z": (x * index("R")).transpose(), "s": x.sum()}


#: Name: the fusion, its kernels in order, sizes.
CASES: dict[str, tuple[Fusion, tuple[str, ...], dict[str, int]]] = {
    "column sum": (trace(lambda x: x.sum("R"), {"x": X}), ("columns",), {"R": 300, "C": 72}),
    "column extremes": (
        trace(lambda x: {"hi": x.max("R"), "lo": x.min("R")}, {"x": F}), ("columns",), {"R": 131, "C": 37},
    ),
    "column variance": (
        trace(lambda x: {"mean": x.mean("R"), "var": x.var("R")}, {"x": F}), ("columns",),
        {"R": 200, "C": 44},
    ),
    "weighted": (
        trace(lambda x, r: (x * r).sum("R"), {"x": X, "r": ROW}), ("columns",), {"R": 70, "C": 24},
    ),
    "batch norm": (
        trace(batch_norm, {"x": X, "w": COLUMN}), ("columns", "tiles"), {"R": 150, "C": 40},
    ),
    "column softmax": (trace(lambda x: softmax(x, "R"), {"x": F}), ("columns", "tiles"), {"R": 90, "C": 20}),
    "column logsumexp": (trace(lambda x: logsumexp(x, "R"), {"x": F}), ("columns",), {"R": 90, "C": 33}),
    "of all": (trace(lambda x: x.sum(("R", "C")), {"x": F}), ("rows", "rows"), {"R": 33, "C": 80}),
    "rows and columns": (
        trace(lambda x: {"y": softmax(x), "s": softmax(x).sum("R")}, {"x": F}), ("rows", "columns"),
        {"R": 60, "C": 64},
    ),
    "transposed": (
        trace(lambda x: layer_norm(x).transpose(), {"x": F}), ("rows", "tiles"), {"R": 50, "C": 64},
    ),
    "turned places": (
        trace(turned_places, {"x": F}),
        ("rows", "tiles", "tiles"), {"R": 24, "C": 40},
    ),
    "a number": (
        trace(lambda x, s: {"y": x * s, "n": s * s + size("R")}, {"x": F, "s": SCALAR}),
        ("tiles", "tiles"), {"R": 30, "C": 40},
    ),
    "a number of a sum": (
        trace(
            lambda x: {"y": x.sum() * 2.0, "n": x.sum(("R", "C")) * size("R"), "r": size("C") * 1.0},
            {"x": F},
        ),
        ("rows", "rows", "tiles"), {"R": 33, "C": 80},
    ),
    "turned table": (
        trace(lambda r, c: (r + c).transpose(), {"r": ROW, "c": COLUMN}), ("tiles", "tiles"),
        {"R": 33, "C": 12},
    ),
    "turned matrices": (
        trace(lambda x, y: (x + y).transpose(), {"x": MATRICES, "y": Tensor("f32", ("B", "R"))}),
        ("tiles", "tiles"), {"B": 2, "R": 17, "C": 24},
    ),
    "middle": (
        trace(lambda x: x.mean(("H", "W")), {"x": Tensor("bf16", ("N", "H", "W", "C"))}), ("columns",),
        {"N": 2, "H": 5, "W": 7, "C": 24},
    ),
    "instance norm": (
        trace(instance_norm, {"x": IMAGE}), ("rows",), {"N": 2, "C": 3, "H": 4, "W": 6},
    ),
}  # fmt: skip


def drawn(f: Fusion, sizes: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        n: (rng.standard_normal([sizes[d] for d in t.dims]) * 2 + 0.5).astype(numpy_dtype(t.dtype))
        for n, t in f.inputs
    }


def worst(got: Any, want: Any) -> float:
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


@pytest.mark.parametrize("name", CASES)
def test_kernels_and_results(name: str, unproved: None) -> None:
    f, kinds, sizes = CASES[name]
    assert tuple(s.kind for s in cut(f)) == kinds
    given = drawn(f, sizes)
    want = f.reference(given, np.float64)
    for processors in (1, 3):
        got = compile_sequence(f).simulate(given, sizes, processors)
        for o, g, w in zip(f.outputs, got, want, strict=True):
            assert worst(g, w) < (1e-5 if o.dtype == "f32" else 1e-2), (o.name, processors)


def test_several_strips_make_partial_results(unproved: None) -> None:
    f, _, sizes = CASES["column variance"]
    first, second = compile_sequence(f).stages
    assert first.partial and not second.partial
    kept = {o.name for o in first.writes}
    assert len(kept) == 4, "a sum, and what Welford's merge needs: how many, their mean, their squares"
    assert kept == set(second.reads) and all(n.startswith(partial_tensor("")) for n in kept)
    assert first.kernel.launch_values(sizes, 8)["strips"] > 1


GRADIENTS = trace(lambda x, r: {"mean": (x * r).mean("R"), "total": x.sum("R")}, {"x": X, "r": ROW})
BY_TMA = ColumnSchedule(across="tma")


@pytest.mark.parametrize("sizes", [{"R": 300, "C": 72}, {"R": 37, "C": 1000}, {"R": 150, "C": 77}])
def test_strips_add_their_sums_by_bulk_reductions(sizes: dict[str, int], unproved: None) -> None:
    given = drawn(GRADIENTS, sizes)
    want = GRADIENTS.reference(given, np.float64)
    sequence = compile_sequence(GRADIENTS, schedule=BY_TMA)
    first, second = sequence.stages
    assert first.added == tuple(o.name for o in first.writes) == second.reads and not second.added
    assert sum(isinstance(s, BulkStore) and s.reduce == "add" for s in walk(first.kernel.ir.body)) == 2
    for _ in range(2):  # what was added before is cleared
        got = sequence.simulate(given, sizes, 3)
        assert all(worst(g, w) < 1e-5 for g, w in zip(got, want, strict=True))


def test_sums_across_blocks_pass_both_checks_for_every_size(tmp_path: Any) -> None:
    sequence = gate.compile(GRADIENTS, BY_TMA, cache=Cache(tmp_path))
    assert len(sequence.reports) == 4
    for report in sequence.reports:
        assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize("without", ["fences", "groups"])
def test_sums_across_blocks_need_their_passes(without: str) -> None:
    plan = ColumnPlan(GRADIENTS, BY_TMA, True)
    kernel = build_columns(plan.kernel(plan.main), Policy.PRACTICAL, without=frozenset({without}))
    assert check_kernel(kernel, {}).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (CASES["column extremes"][0], "adds sums, and no other reductions"),
        (CASES["column variance"][0], "adds sums, and no other reductions"),
        (trace(lambda x: x.sum("R"), {"x": Tensor("f32", ("B", "R", "C"))}), "no dimensions outside of R"),
    ],
)
def test_what_bulk_reductions_cannot_add(f: Fusion, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compile_sequence(f, schedule=BY_TMA)


def test_one_kernel_where_one_is_enough() -> None:
    assert whole(trace(lambda x: softmax(x), {"x": X}))
    assert not whole(trace(lambda x: softmax(x, "R"), {"x": X}))
    assert not whole(trace(lambda x: softmax(x).transpose(), {"x": X}))


def test_neighbouring_dimensions_become_one() -> None:
    joined = merged(trace(instance_norm, {"x": IMAGE}))
    assert len(joined.fusion.dims) == 2
    assert joined.sizes({"N": 2, "C": 3, "H": 4, "W": 6})[joined.fusion.dims[-1]] == 24
    both = trace(lambda x, w: (x * w).sum("R"), {"x": Tensor("f32", ("R", "C", "D")), "w": COLUMN})
    assert len(merged(both).fusion.dims) == 3, "w has C and not D"


@pytest.mark.parametrize(
    ("f", "kinds"),
    [
        (lambda x, w: (x * w).sum("R"), ("tiles", "columns")),
        pytest.param(lambda x, w: x.sum("R") * w, ("columns", "tiles"), marks=pytest.mark.slow),
        (lambda x, w: {"y": x.sum("R").cast("bf16"), "z": x.sum("R") * w}, ("columns", "tiles")),
        (lambda x, w: (x + w).var("R"), ("tiles", "columns")),
        (lambda x, w: softmax(x * w, "R"), ("tiles", "columns", "tiles")),
        (lambda x, w: {"y": logsumexp(x * w, "R") * w, "m": x.max("R")}, ("tiles", "columns", "tiles")),
        (lambda x, w: softmax((x * w).sum("R")), ("tiles", "columns", "rows")),
        (lambda x, w: (x * index("D")).sum("R") + w, ("tiles", "columns", "tiles")),
    ],
)
def test_operands_of_some_inner_dimensions(f: Any, kinds: tuple[str, ...], tmp_path: Path) -> None:
    """What is reduced is stored first, or what is made of results comes later."""
    shapes = {"x": Tensor("f32", ("R", "C", "D")), "w": COLUMN}
    fusion = trace(f, shapes)
    assert tuple(s.kind for s in cut(fusion)) == kinds
    sizes = {"R": 35, "C": 6, "D": 20}
    kernel = gate.compile(fusion, cache=Cache(tmp_path))
    rng = np.random.default_rng(0)
    given = {n: rng.standard_normal([sizes[d] for d in t.dims]).astype(np.float32) for n, t in shapes.items()}
    for o, got, want in zip(
        fusion.outputs, kernel.simulate(given, sizes), fusion.reference(given, np.float64), strict=True
    ):
        close = 1e-2 if o.dtype == "bf16" else 1e-4
        assert np.allclose(np.asarray(got, np.float64), want, close, close)


def columns(f: Fusion, partial: bool, policy: Policy, without: frozenset[str] = frozenset()) -> Kernel:
    plan = ColumnPlan(f, ColumnSchedule(warps=2, rows=2), partial)
    kernel = build_columns(plan.kernel(plan.variant({f.dims[-1]: 32})), policy, without=without)
    # from its text, so that the grammar takes part
    (parsed,) = parse(print_kernel(kernel), "k")
    return parsed


def streamed(f: Fusion, policy: Policy, without: frozenset[str] = frozenset()) -> Kernel:
    schedule = RowPlan(f, RowSchedule(warps=2)).fitted(-4)
    return build_streamed(StreamedRows(f, schedule, 4), policy, without=without)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("partial", [True, False])
def test_columns_are_proved_for_every_size(policy: Policy, partial: bool) -> None:
    f, _, _ = CASES["column variance"]
    report = check_kernel(columns(f, partial, policy), {}, policy, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize("policy", list(Policy))
def test_streamed_rows_are_proved_for_every_size(policy: Policy) -> None:
    f = trace(lambda x: softmax(x), {"x": X})
    report = check_kernel(streamed(f, policy), {}, policy, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize("make", [
    lambda without: columns(CASES["column variance"][0], False, Policy.PRACTICAL, without),
    lambda without: streamed(trace(lambda x: softmax(x), {"x": X}), Policy.PRACTICAL, without),
])  # fmt: skip
def test_without_their_barriers_they_are_refuted(make: Any) -> None:
    full = make(frozenset())
    bare = make(frozenset({"exchange-barriers", "barriers"}))
    assert sum(isinstance(s, BarrierSync) for s in walk(full.body)) > 0
    assert not any(isinstance(s, BarrierSync) for s in walk(bare.body))
    assert check_kernel(bare, {}).verdict is Verdict.REFUTED


def test_the_gate_compiles_and_runs_a_sequence(tmp_path: Any) -> None:
    f, _, sizes = CASES["batch norm"]
    sequence = gate.compile(f, cache=Cache(tmp_path))
    assert [r.verdict for r in sequence.reports] == [Verdict.PROVED] * 2 * len(sequence.kernels)
    assert {r.scope.kind for r in sequence.reports} == {ScopeKind.ALL}
    assert sequence.source.count('extern "C"') == len(sequence.kernels) == 3
    result = gate.run(sequence, sizes)
    assert result.equal
