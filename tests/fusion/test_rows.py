"""Fusions that reduce along rows: results on the simulator, proofs, and what their passes insert."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syncverify import gate
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.examples import rows as examples
from syncverify.fusion import (
    Fusion,
    RowSchedule,
    Schedule,
    Tensor,
    Value,
    exp,
    fusion,
    index,
    silu,
    size,
    softmax,
    take,
    trace,
)
from syncverify.fusion.functions import numpy_dtype
from syncverify.fusion.pipeline import build_rows
from syncverify.fusion.plan import launch_values, plan_of
from syncverify.fusion.row_schedule import fitted
from syncverify.ir.nodes import BarrierSync, FenceProxyAsync, Kernel, LdGlobal, Shuffle, StGlobal
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.passes.rewrite import walk
from syncverify.simulate import ir

ALL = [
    examples.rms_norm, examples.layer_norm, examples.softmax, examples.log_softmax, examples.add_rms_norm,
    examples.cross_entropy, examples.row_sum, examples.row_variance,
]  # fmt: skip
F32_SUM = trace(lambda x: x.sum(), {"x": Tensor("f32", ("R", "C"))})
#: Width and settings: a warp for each row, rows that warps share, rows that do not fill their threads, ...
SHAPES = [
    (256, "rows=2 stages=2"),
    (264, "rows=3 stages=2"),
    (512, "warps=2 stages=2"),
    (1032, "warps=4 stages=3"),
    (1032, "warps=2 stages=1 split=yes"),
    (512, "warps=2 source=direct"),
    (77, "rows=2 source=direct"),
    (512, "warps=2 stages=2 operands=reload"),
    (512, "warps=2 stages=2 arrive=thread"),
    (24, "rows=2"),
    (64, "rows=1"),
    (96, "rows=3 lanes=8"),
    (64, "rows=2 lanes=32 reread=yes"),
    (512, "warps=2 rows=3"),
    (264, "warps=2 rows=2"),
    (1024, "warps=4 rows=2 reread=yes"),
    (512, "warps=2 rows=4 grid=persistent operands=registers"),
]


def built(f: Fusion, width: int, settings: str = "", policy: Policy = Policy.PRACTICAL) -> Kernel:
    schedule = fitted(f, RowSchedule().with_settings(settings.split()), width)
    # from its text, so that the grammar takes part
    (kernel,) = parse(print_kernel(build_rows(f, schedule, width, policy)), "k")
    return kernel


def inputs(f: Fusion, rows: int, width: int) -> dict[str, Any]:
    """Random numbers of both signs, and indices."""
    rng = np.random.default_rng(rows)
    given = f.random_inputs({"R": rows, "C": width})
    for name, t in f.inputs:
        if t.dtype in ("f32", "bf16"):
            given[name] = rng.standard_normal(given[name].shape).astype(numpy_dtype(t.dtype))
    return given


def worst_row(got: Any, want: Any) -> float:
    got = np.asarray(got, np.float64)
    if want.ndim == 1:
        return float(np.max(np.abs(got - want)) / np.sqrt(np.mean(want * want)))
    norms = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    return float(np.max(norms))


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize(("width", "settings"), SHAPES)
def test_results_on_the_simulator(f: Fusion, width: int, settings: str) -> None:
    kernel = built(f, width, settings)
    rows = 7
    given = inputs(f, rows, width)
    want = f.reference(given, np.float64)
    out = {
        o.name: np.full(w.shape, np.nan, numpy_dtype(o.dtype)) for o, w in zip(f.outputs, want, strict=True)
    }
    values = launch_values(f, kernel, {"R": rows, "C": width}, 2)
    results = ir.run(kernel, values, {**given, **out})
    for o, w in zip(f.outputs, want, strict=True):
        assert worst_row(results[o.name], w) < (1e-5 if o.dtype == "f32" else 1e-2)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize(
    "settings",
    ["rows=2 stages=2", "warps=2 stages=2", "warps=2 source=direct", "rows=2 lanes=8", "warps=2 rows=3"],
)
def test_proved_for_every_number_of_rows(settings: str, policy: Policy) -> None:
    kernel = built(examples.softmax, 512, settings, policy)
    report = check_kernel(kernel, {}, policy, scope=ScopeKind.ALL)
    assert report.verdict is Verdict.PROVED and report.scope.kind is ScopeKind.ALL


def test_rows_in_chunks_are_proved() -> None:
    kernel = built(examples.row_variance, 2048, "warps=2 stages=1 split=yes")
    assert len(kernel.barriers) == 4 and "x_tile1" in {s.name for s in kernel.shared}
    report = check_kernel(kernel, {}, scope=ScopeKind.ALL)
    assert report.verdict is Verdict.PROVED


def fences(f: Fusion, policy: Policy) -> int:
    kernel = built(f, 512, "warps=2 stages=2", policy)
    return sum(isinstance(s, FenceProxyAsync) for s in walk(kernel.body))


def test_a_ring_leaves_room_for_the_warp_that_copies() -> None:
    found = fitted(examples.rms_norm, RowSchedule(source="bulk"), 32768)
    assert found.compute_warps == 16
    assert plan_of(examples.rms_norm, RowSchedule(width=32768, source="bulk")).build(
        32768, Policy.PRACTICAL
    ).launch.block == (544, 1, 1)


@pytest.mark.parametrize("policy", list(Policy))
def test_readers_whose_sums_stay_in_registers_fence(policy: Policy) -> None:
    """A sum holds back no release (K1)."""
    assert fences(examples.rms_norm, policy) == 1


@pytest.mark.parametrize(
    ("f", "settings", "barriers"),
    [
        (examples.rms_norm, "warps=2 stages=2", 1),  # one exchange takes turns between two slots
        (examples.layer_norm, "warps=2 stages=2", 2),  # each separates the other's rounds
        (examples.softmax, "warps=2 source=direct", 2),
        (examples.softmax, "rows=2 stages=2", 0),  # a warp for each row needs none
    ],
)
def test_barriers_of_a_row(f: Fusion, settings: str, barriers: int) -> None:
    found = [s for s in walk(built(f, 512, settings).body) if isinstance(s, BarrierSync)]
    once = 0 if "direct" in settings else 1  # after the mbarriers' initialization
    assert len(found) - once == barriers


@pytest.mark.parametrize("without", ["exchange-barriers", "full-barriers", "empty-barriers"])
def test_a_kernel_without_a_pass_is_refuted(without: str) -> None:
    f = examples.rms_norm
    schedule = fitted(f, RowSchedule(warps=2, stages=2), 512)
    kernel = build_rows(f, schedule, 512, without=frozenset({without}))
    assert check_kernel(kernel, {}).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("settings", "groups", "waits"),
    [
        ("warps=4 blocks_per_sm=8", 2, False),
        ("warps=4 blocks_per_sm=12", 2, True),
        ("warps=2 blocks_per_sm=8", 4, True),
    ],
)
def test_no_load_of_a_row_waits_for_a_store_where_registers_hold_it(
    settings: str, groups: int, waits: bool
) -> None:
    body = walk(built(examples.rms_norm, 4096, f"{settings} reread=yes").body)
    order = [
        s.src.tensor if isinstance(s, LdGlobal) else "store"
        for s in body
        if isinstance(s, LdGlobal | StGlobal)
    ]
    assert order.count("store") == groups and order.count("x") == 2 * groups
    assert ("x" in order[order.index("store") :]) == waits


def test_rows_side_by_side_without_their_barrier_are_refuted() -> None:
    f = examples.softmax
    schedule = fitted(f, RowSchedule(warps=2, rows=3), 512)
    kernel = build_rows(f, schedule, 512, without=frozenset({"exchange-barriers"}))
    assert check_kernel(kernel, {}).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("settings", "barriers"),
    [
        ("warps=2", 1),
        ("warps=4 reread=yes", 1),
        ("warps=2 rows=2", 1),
        ("warps=1 rows=2", 0),
        ("warps=1 rows=1 lanes=16", 0),
    ],
)
@pytest.mark.parametrize("width", [1024, 2048])
def test_a_variance_is_made_in_the_step_of_its_mean(settings: str, barriers: int, width: int) -> None:
    f, rows = examples.layer_norm, 5
    width //= 2 if barriers == 0 else 1
    kernel = built(f, width, f"{settings} source=direct")
    assert len([s for s in walk(kernel.body) if isinstance(s, BarrierSync)]) == barriers
    given = inputs(f, rows, width)
    # means far from zero, and halves of rows far from each other
    given["x"] = (given["x"].astype(np.float32) + 100.0).astype(given["x"].dtype)
    given["x"][1, : width // 2] = (given["x"][1, : width // 2].astype(np.float32) - 1e4).astype(
        given["x"].dtype
    )
    want = f.reference(given, np.float64)[0]
    got = ir.run(kernel, launch_values(f, kernel, {"R": rows, "C": width}, 2), given)["out"]
    assert worst_row(got, want) < 1e-2
    assert check_kernel(kernel, {}, scope=ScopeKind.ALL).verdict is Verdict.PROVED


def test_a_variance_without_its_barrier_is_refuted() -> None:
    f = examples.layer_norm
    schedule = fitted(f, RowSchedule().with_settings(["warps=2", "source=direct"]), 1024)
    kernel = build_rows(f, schedule, 1024, without=frozenset({"exchange-barriers"}))
    assert check_kernel(kernel, {}).verdict is Verdict.REFUTED


def test_threads_that_hold_unlike_parts_make_it_in_two_steps() -> None:
    kernel = built(examples.layer_norm, 1032, "warps=2 source=direct")
    assert len([s for s in walk(kernel.body) if isinstance(s, BarrierSync)]) == 2


def test_reductions_of_one_step_share_their_barrier() -> None:
    f = trace(lambda x: {"low": x.min(), "high": x.max()}, {"x": Tensor("f32", ("R", "C"))})
    kernel = built(f, 512, "warps=2 stages=2")
    assert [s.name for s in kernel.shared if s.name.startswith("part")] == ["part0"]
    assert sum(isinstance(s, Shuffle) for s in walk(kernel.body)) == 10


def test_several_leading_dimensions_are_rows() -> None:
    f = trace(lambda x: softmax(x), {"x": Tensor("f32", ("A", "B", "C"))})
    kernel = built(f, 128, "rows=2 stages=2")
    x = np.random.default_rng(0).standard_normal((3, 5, 128)).astype(np.float32)
    values = launch_values(f, kernel, {"A": 3, "B": 5, "C": 128}, 2)
    (want,) = f.reference([x], np.float64)
    np.testing.assert_allclose(ir.run(kernel, values, {"x": x})["out"], want, rtol=1e-5)


def test_infinities_and_nans_go_where_float64_has_them() -> None:
    f = examples.log_softmax
    kernel = built(f, 256, "rows=2 stages=2")
    x = np.zeros((3, 256), np.float32)
    x[0, 3], x[1, 5], x[2, :] = -np.inf, np.nan, 1e4
    with np.errstate(all="ignore"):
        (want,) = f.reference([x], np.float64)
        got = ir.run(kernel, launch_values(f, kernel, {"R": 3, "C": 256}, 2), {"x": x})["out"]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_an_index_outside_its_row_takes_nothing() -> None:
    f = examples.cross_entropy
    kernel = built(f, 256, "rows=2 stages=2")
    given = inputs(f, 4, 256)
    given["target"] = np.array([0, 255, 256, -100])
    (want,) = f.reference(given, np.float64)
    got = ir.run(kernel, launch_values(f, kernel, {"R": 4, "C": 256}, 2), given)["out"]
    assert worst_row(got, want) < 1e-2


@pytest.mark.parametrize("settings", ["rows=2 stages=2", "warps=2 source=direct"])
def test_of_what_is_computed_only_the_elements_that_are_taken_count(settings: str) -> None:
    """A place outside its row takes 0 also where the function of 0 is not."""
    tensors = {"x": Tensor("f32", ("R", "C")), "s": Tensor("f32", ("R",)), "target": Tensor("i64", ("R",))}
    f = trace(lambda x, s, target: take((exp(x - x.max()) * 2.0 + s).cast("bf16"), target), tensors)
    assert [f.node(k).op for k in f.order()].count("reduce.add") == 0
    kernel = built(f, 256, settings)
    rng = np.random.default_rng(5)
    x, s = rng.standard_normal((5, 256)).astype(np.float32), rng.standard_normal(5).astype(np.float32)
    places = np.array([0, 255, 256, -100, 31])
    values = launch_values(f, kernel, {"R": 5, "C": 256}, 2)
    got = ir.run(kernel, values, {"x": x, "s": s, "target": places})["out"]
    rows = np.exp(x.astype(np.float64) - x.max(1, keepdims=True)) * 2 + s[:, None]
    want = [rows[r, p] if 0 <= p < 256 else 0.0 for r, p in enumerate(places)]
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=1e-2)


def test_what_depends_on_places_is_searched_for() -> None:
    tensors = {"x": Tensor("f32", ("R", "C")), "i": Tensor("i64", ("R",))}
    f = trace(lambda x, i: take(x + index("C"), i), tensors)
    assert [f.node(k).op for k in f.order()].count("reduce.add") == 1


def test_the_gate_compiles_a_kernel_for_each_width() -> None:
    kernel = gate.compile(examples.row_sum, RowSchedule(width=256, rows=2, stages=2))
    assert kernel.report.scope.kind is kernel.ptx_report.scope.kind is ScopeKind.ALL
    for width in (256, 264):
        assert gate.run(kernel, {"R": 9, "C": width}).equal
    assert sorted(kernel.programs) == [256, 264]


def test_elementwise_fusions_may_run_by_rows() -> None:
    f = trace(lambda x, b: x * 2.0 + b, {"x": Tensor("f32", ("R", "C")), "b": Tensor("f32", ("C",))})
    kernel = built(f, 256, "rows=2 stages=2")
    x, b = np.ones((5, 256), np.float32), np.arange(256, dtype=np.float32)
    values = launch_values(f, kernel, {"R": 5, "C": 256}, 2)
    np.testing.assert_array_equal(ir.run(kernel, values, {"x": x, "b": b})["out"], x * 2 + b)


def test_sizes_and_places_along_other_dimensions() -> None:
    f = trace(lambda x: x.sum() * size("R") + index("R"), {"x": Tensor("f32", ("R", "C"))})
    for settings in ("rows=2 stages=2", "warps=2 source=direct"):
        kernel = built(f, 256, settings)
        x = np.random.default_rng(0).standard_normal((5, 256)).astype(np.float32)
        values = launch_values(f, kernel, {"R": 5, "C": 256}, 2)
        (want,) = f.reference([x], np.float64)
        np.testing.assert_allclose(ir.run(kernel, values, {"x": x})["out"], want, rtol=1e-5)


def test_a_reduction_along_a_dimension_that_is_not_there() -> None:
    with pytest.raises(InputError, match="along D of an expression with dimensions R, C"):
        trace(lambda x: x.sum("D"), {"x": Tensor("f32", ("R", "C"))})


def test_a_schedule_of_tiles_for_a_fusion_of_rows() -> None:
    with pytest.raises(InputError, match="takes a RowSchedule"):
        plan_of(examples.softmax, Schedule())


@pytest.mark.parametrize("settings", ["rows=2 stages=2", "warps=2 source=direct", "stream=yes warps=2"])
def test_operands_may_lack_any_dimensions(settings: str) -> None:
    @fusion(
        x=Tensor("f32", ("A", "B", "C")), y=Tensor("f32", ("B", "C")), z=Tensor("f32", ("B",)),
        w=Tensor("f32", ("A",)),
    )  # fmt: skip
    def f(x: Value, y: Value, z: Value, w: Value) -> Value:
        return (x * y).sum() * z + w

    plan = plan_of(f, RowSchedule(width=256).with_settings(settings.split()))
    kernel = plan.build(plan.main, Policy.PRACTICAL)
    sizes = {"A": 3, "B": 5, "C": 256}
    given = f.random_inputs(sizes)
    (want,) = f.reference(given, np.float64)
    got = ir.run(kernel, launch_values(f, kernel, sizes, 2), given)["out"]
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "blocks"),
    [
        ("warps=2 source=direct", 7),
        ("rows=2 source=direct", 3),  # the last one takes the row that is left over
        ("warps=2 rows=2", 3),
        ("warps=2 rows=8", 1),
        ("warps=2 rows=3 grid=persistent", 2),
        ("warps=2 stages=2 grid=tiles", 7),
        ("warps=2 source=direct grid=persistent", 5),
        ("warps=2 stages=2", 5),
    ],
)
def test_blocks_of_a_grid(settings: str, blocks: int) -> None:
    f = examples.log_softmax
    plan = plan_of(f, RowSchedule(width=256).with_settings(settings.split()))
    kernel = plan.build(256, Policy.PRACTICAL)
    sizes = {"R": 7, "C": 256}
    values = launch_values(f, kernel, sizes, plan.most_blocks(256, 5))
    assert values["blocks"] == blocks
    assert check_kernel(kernel, values).verdict is Verdict.PROVED
    given = inputs(f, 7, 256)
    (want,) = f.reference(given, np.float64)
    got = ir.run(kernel, values, {**given, "out": np.full((7, 256), np.nan, np.float32)})
    assert worst_row(got["out"], want) < 1e-5


def test_a_launch_has_a_block_for_each_row() -> None:
    kernel = gate.compile(examples.row_sum, RowSchedule(width=4096))
    assert kernel.report.scope.kind is kernel.ptx_report.scope.kind is ScopeKind.ALL
    values = kernel.launch_values({"R": 100_000, "C": 4096})
    assert (values["blocks"], values["each"], values["more"]) == (100_000, 1, 0)


@pytest.mark.parametrize(
    ("f", "width", "expected"),
    [
        (examples.softmax, 4096, ("direct", "tiles", "held", "reload")),
        (examples.softmax, 2048, ("direct", "tiles", "normal", "reload")),
        (examples.log_softmax, 32768, ("direct", "tiles", "normal", "reload")),  # f32
        (examples.layer_norm, 16384, ("direct", "tiles", "held", "reload")),
        (examples.layer_norm, 32768, ("direct", "tiles", "held", "reload")),
        (examples.rms_norm, 32768, ("direct", "tiles", "held", "reload")),
        (examples.rms_norm, 8192, ("direct", "tiles", "kept", "reload")),
        (examples.row_sum, 4096, ("direct", "tiles", "past", "reload")),
        (F32_SUM, 4096, ("direct", "tiles", "past", "reload")),
        (F32_SUM, 8192, ("direct", "tiles", "loads", "reload")),
        (examples.cross_entropy, 16384, ("direct", "tiles", "loads", "reload")),
        (examples.cross_entropy, 32761, ("direct", "tiles", "loads", "reload")),  # no multiple of 16 bytes
    ],
)
def test_what_a_schedule_leaves_open(f: Fusion, width: int, expected: tuple[str, ...]) -> None:
    found = fitted(f, RowSchedule(), width)
    assert (found.source, found.grid, found.cache, found.operands) == expected


@pytest.mark.parametrize(
    ("told", "last"),
    [("auto", "ld.global.L1::evict_first.L2::cache_hint.v4"), ("normal", "ld.global.L1::evict_first.v4")],
)
@pytest.mark.parametrize("f", [examples.layer_norm, examples.softmax, examples.cross_entropy])
def test_rows_may_be_read_again_for_every_step(f: Fusion, told: str, last: str) -> None:
    schedule = RowSchedule(width=256).with_settings(["warps=2", "reread=yes", f"cache={told}"])
    kernel = gate.compile(f, schedule)
    assert kernel.report.scope.kind is kernel.ptx_report.scope.kind is ScopeKind.ALL
    assert last in kernel.ptx
    sizes = {"R": 5, "C": 256}
    given = inputs(f, 5, 256)
    for name, want in zip((o.name for o in f.outputs), f.reference(given, np.float64), strict=True):
        got = ir.run(kernel.ir, kernel.launch_values(sizes, 2), given)[name]
        np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("without", [frozenset[str](), frozenset({"exchange-barriers"})])
@pytest.mark.parametrize(("width", "hint"), [(4096, "held"), (8192, "kept")])
def test_the_check_of_ptx_sees_past_what_caches_are_told(
    width: int, hint: str, without: frozenset[str]
) -> None:
    schedule = fitted(examples.rms_norm, RowSchedule(), width)
    kernel = build_rows(examples.rms_norm, schedule, width, without=without)
    program = gate.Program(kernel, Policy.PRACTICAL, schedule.blocks_per_sm, schedule.hint)
    assert schedule.hint == hint and ".L2::cache_hint" in program.ptx
    expected = Verdict.REFUTED if without else Verdict.PROVED
    assert program.check("ir").verdict is program.check("ptx").verdict is expected


def test_what_is_read_once_is_not_held() -> None:
    rows = Tensor("f32", ("R", "C"))
    gated = trace(lambda x, y: softmax(x) * y, {"x": rows, "y": rows})
    kernel = gate.compile(gated, RowSchedule(width=256).with_settings(["warps=2", "reread=yes"]))
    assert isinstance(kernel, gate.CompiledKernel)
    assert "load_held(x_v0" in kernel.source and "load_over(x_v0" in kernel.source
    assert "load(y_v0" in kernel.source


@pytest.mark.parametrize(
    ("width", "expected"), [(4096, (8, 6, "yes", "held")), (8192, (16, 4, "no", "kept"))]
)
def test_what_was_measured_together_is_chosen_as_a_whole(width: int, expected: tuple[object, ...]) -> None:
    chosen = fitted(examples.rms_norm, RowSchedule(), width)
    assert (chosen.warps, chosen.blocks_per_sm, chosen.reread, chosen.hint) == expected
    for settings in ("reread=no", "warps=8", "blocks_per_sm=2", "source=bulk", "stages=2"):
        own = fitted(examples.rms_norm, RowSchedule().with_settings(settings.split()), width)
        assert own.reread == "no" and own.warps in (4, 8) and own.hint in ("normal", "streaming")


def test_what_is_dear_or_too_much_for_the_caches_is_read_once() -> None:
    # what is dear to compute, or does not fit the caches with others
    three = {n: Tensor("bf16", ("R", "C")) for n in "abc"}
    dear = trace(lambda a: softmax(silu(a)), {"a": three["a"]})
    wide = trace(lambda a, b, c: softmax(a + b + c), three)
    assert [fitted(f, RowSchedule(), 8192).reread for f in (examples.softmax, dear, wide)] == [
        "yes",
        "no",
        "no",
    ]


def test_a_ring_is_read_once() -> None:
    with pytest.raises(InputError, match="a ring is read once"):
        fitted(examples.softmax, RowSchedule().with_settings(["source=bulk", "reread=yes"]), 4096)


@pytest.mark.parametrize(
    ("f", "load"), [(examples.row_sum, "ld.global.L1::no_allocate"), (examples.cross_entropy, "ld.global.cs")]
)
def test_rows_that_become_numbers_are_loaded_once(f: Fusion, load: str) -> None:
    ptx = gate.compile(f, RowSchedule(width=4096)).ptx
    assert f"{load}.v4" in ptx and "ld.global.nc" not in ptx


@pytest.mark.parametrize(
    ("width", "lanes"), [(1, 1), (8, 1), (64, 8), (96, 16), (128, 16), (77, 32), (4096, 32)]
)
def test_short_rows_leave_no_lanes_idle(width: int, lanes: int) -> None:
    f = examples.rms_norm
    chosen = fitted(f, RowSchedule(), width)
    assert chosen.lanes == lanes and fitted(f, RowSchedule(stages=2), 128).lanes == 32
    assert chosen.tile_rows == (8 * 32 // lanes if chosen.warps == 1 else 1)


def test_who_asks_for_slots_gets_a_ring() -> None:
    for settings in ("stages=2", "warps=4 split=yes", "source=bulk"):
        assert fitted(examples.softmax, RowSchedule().with_settings(settings.split()), 4096).source == "bulk"
    assert fitted(examples.softmax, RowSchedule(stages=2), 4095).source == "direct"


@pytest.mark.parametrize("width", [1, 77, 512, 1024, 2048, 4096, 8192, 16384, 32768])
def test_threads_hold_what_their_registers_can(width: int) -> None:
    for f in ALL:
        found = fitted(f, RowSchedule(), width)
        threads = found.compute_warps * 32 + (32 if found.source == "bulk" else 0)
        assert -(-width // (found.warps * 32)) <= 64
        # the compiler is left at least 56 registers for each thread that keeps a part of a row
        few = found.reread == "yes" or found.cache == "kept" or f is examples.row_sum
        assert threads * found.blocks_per_sm <= (2048 if few else 1152)


@pytest.mark.parametrize(
    ("width", "settings", "message"),
    [
        (32768, "warps=2", "more than 2 warps"),
        (77, "source=bulk rows=2", "no multiple of 16 bytes"),
        (4096, "stages=30", "exceed"),
        (256, "rows=2 split=yes", "split=yes needs"),
        (512, "warps=2 lanes=8", "lanes are for rows of one warp"),
        (256, "store=bulk", "store=bulk needs source=bulk"),
        (1024, "warps=1 lanes=8", "to stay in registers"),
        (512, "warps=2 rows=2 stages=2", "several rows of several warps"),
        (4096, "warps=8 rows=5", "up to 32 warps"),
        (32768, "warps=32 stages=1", "room for 31 warps"),
    ],
)
def test_schedules_that_cannot_be(width: int, settings: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        built(examples.softmax, width, settings)
