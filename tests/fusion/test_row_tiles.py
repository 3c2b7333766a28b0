"""Tiles of several rows that copies bring and take away, and rows that go through their steps abreast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.compiler.fusion_cases import fusion_of
from syncverify import gate
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.examples import rows as examples
from syncverify.fusion import Fusion, RowSchedule, row_menu
from syncverify.fusion.dataflow import abreast
from syncverify.fusion.functions import numpy_dtype
from syncverify.fusion.pipeline import build_rows
from syncverify.fusion.plan import launch_values
from syncverify.fusion.row_schedule import fitted
from syncverify.gate.prepared_launch import _rests
from syncverify.ir.expr import Int, Var
from syncverify.ir.nodes import (
    BarrierSync,
    BulkLoad,
    BulkStore,
    Compute,
    GlobalRegion,
    Kernel,
    LdGlobal,
    Let,
    StGlobal,
    Stmt,
    WarpSync,
)
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.passes.rewrite import walk
from syncverify.simulate import ir

ALL = [
    examples.rms_norm, examples.layer_norm, examples.softmax, examples.add_rms_norm, examples.cross_entropy,
    examples.row_sum,
]  # fmt: skip
TILES = "source=bulk warps=1 rows=8 stages=2 store=bulk"
#: Widths of odd, even and whole numbers of words, and how rows lie in tiles.
SHAPES = [
    (33, "warps=1 rows=2 unroll=2 source=direct"),
    (130, "warps=1 rows=2 unroll=3 source=direct peel=yes"),
    (36, "warps=1 rows=2 lanes=16 unroll=2 source=direct"),
    (33, "source=bulk warps=1 rows=8 stages=2"),
    (33, TILES),
    (34, f"{TILES} unroll=2"),
    (36, "source=bulk warps=1 rows=4 lanes=16 stages=3 store=bulk"),
    (512, "source=bulk warps=2 stages=2 store=bulk"),
    (33, "source=direct warps=1 rows=8 store=shared"),
    (70, "source=direct warps=1 rows=2 unroll=4 store=shared"),
    (36, "source=direct warps=1 rows=2 lanes=16 unroll=2 store=shared"),
]
#: Results through shared memory: rows of a block, and rows of a warp, that are a multiple of 16 bytes.
SHARED = ("source=direct warps=1 rows=8 store=shared", "source=direct warps=1 rows=2 unroll=8 store=shared")


def built(
    f: Fusion, width: int, settings: str, policy: Policy = Policy.PRACTICAL,
    without: frozenset[str] = frozenset(),
) -> Kernel:  # fmt: skip
    schedule = fitted(f, RowSchedule().with_settings(settings.split()), width)
    kernel = build_rows(f, schedule, width, policy, without=without)
    (read,) = parse(print_kernel(kernel), "k")  # so that the grammar takes part
    return read


def results(f: Fusion, kernel: Kernel, rows: int, width: int) -> list[tuple[Any, Any]]:
    """What the simulator makes over NaN, with ends that are tensors of their own; float64's."""
    given = f.random_inputs({"R": rows, "C": width})
    want = f.reference(given, np.float64)
    values = launch_values(f, kernel, {"R": rows, "C": width}, 2)
    out = {
        o.name: np.full(w.shape, np.nan, numpy_dtype(o.dtype)) for o, w in zip(f.outputs, want, strict=True)
    }
    got = ir.run(kernel, values, {**given, **out})
    for o in f.outputs:
        rest = got.get(f"{o.name}_rest")
        if rest is not None and rest.size:
            got[o.name].reshape(-1)[-rest.size :] = rest
    return [(np.asarray(got[o.name], np.float64), w) for o, w in zip(f.outputs, want, strict=True)]


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize(("width", "settings"), SHAPES)
def test_every_element_of_every_row(f: Fusion, width: int, settings: str) -> None:
    """Of whole tiles, each slot twice, and of the rows that are left over."""
    kernel = built(f, width, settings)
    tile = fitted(f, RowSchedule().with_settings(settings.split()), width).tile_rows
    for got, want in results(f, kernel, 9 * tile + tile // 2 + 1, width):
        assert np.allclose(got, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("settings", ["warps=1 rows=4 unroll=2 source=direct", f"{TILES} unroll=2", *SHARED])
def test_proved_for_every_number_of_rows(settings: str, policy: Policy) -> None:
    report = check_kernel(built(examples.rms_norm, 33, settings, policy), {}, policy, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize("without", ["handover-barriers", "bulk-groups", "proxy-fences", "empty-barriers"])
def test_without_a_pass_they_are_refuted(without: str) -> None:
    bare = built(examples.softmax, 33, TILES, without=frozenset({without}))
    assert check_kernel(bare, {}).verdict is Verdict.REFUTED


@pytest.mark.parametrize("settings", SHARED)
def test_results_in_shared_memory_are_refuted_without_barriers(settings: str) -> None:
    bare = built(examples.rms_norm, 33, settings, without=frozenset({"exchange-barriers"}))
    assert check_kernel(bare, {}).verdict is Verdict.REFUTED


@pytest.mark.parametrize(("settings", "meets"), [(SHARED[0], BarrierSync), (SHARED[1], WarpSync)])
def test_who_meets_before_results_leave_shared_memory(settings: str, meets: type[Stmt]) -> None:
    kernel = built(examples.rms_norm, 33, settings)
    found = [s for s in walk(kernel.body) if isinstance(s, BarrierSync | WarpSync)]
    assert [type(s) for s in found] == [meets, meets]  # after the last tile's reads, and before this one's
    stores = [s.dst.count for s in walk(kernel.body[-2:-1]) if isinstance(s, StGlobal)]
    assert set(stores) == {Int(8)}  # 16 bytes


def test_copies_move_whole_tiles_and_threads_the_rest() -> None:
    kernel = built(examples.rms_norm, 33, TILES)
    moved = [s for s in walk(kernel.body) if isinstance(s, BulkLoad | BulkStore)]
    regions = [s.src if isinstance(s, BulkLoad) else s.dst for s in moved]
    assert [r.count for r in regions if isinstance(r, GlobalRegion)] == [Int(8 * 33)] * 2
    assert {s.dst.tensor for s in walk(kernel.body) if isinstance(s, StGlobal)} == {"out_rest"}


def test_the_end_of_an_output_is_where_whole_tiles_end() -> None:
    kernel = built(examples.rms_norm, 33, TILES)
    values = launch_values(examples.rms_norm, kernel, {"R": 37, "C": 33}, 2)
    size = {t.name: t.dtype for t in kernel.tensors}["out"]
    assert values["rest"] == 5
    assert _rests(kernel, values) == {"out_rest": ("out", 32 * 33 * np.dtype(numpy_dtype(size)).itemsize)}


def test_the_gate_proves_runs_and_joins_both_parts() -> None:
    kernel = gate.compile(examples.softmax, RowSchedule(width=33).with_settings(TILES.split()))
    given = examples.softmax.random_inputs({"R": 21, "C": 33})
    (got,) = kernel.simulate(given, {"R": 21, "C": 33})
    (want,) = examples.softmax.reference(given, np.float64)
    assert np.allclose(np.asarray(got, np.float64), want, rtol=2e-2, atol=2e-2)
    assert kernel.ptx_report.verdict is Verdict.PROVED
    assert gate.run(kernel, {"R": 21, "C": 33}).equal


def test_rows_abreast_share_what_is_the_same_for_all() -> None:
    kernel = built(examples.rms_norm, 33, "warps=1 rows=4 unroll=4 source=direct operands=reload")
    (loop, *_) = [s for s in kernel.body if hasattr(s, "var")]
    vector = examples.rms_norm.inputs[1][0]
    loads = [s.src.tensor for s in walk((loop,)) if isinstance(s, LdGlobal)]
    assert loads.count(vector) == 2 and loads.count("x") == 8  # two groups: 32 elements, and one


def test_bodies_abreast() -> None:
    def body(row: int) -> tuple[Any, ...]:
        same = LdGlobal("w", GlobalRegion("w", Var("lane")))
        return Let("row", Int(row)), same, Compute("a", Var("row") + Var("w")), Compute("b", Var("a") * 2)

    found = abreast([body(0), body(1)])
    names = [s.name for s in found if isinstance(s, Let | LdGlobal | Compute)]
    assert names == ["row_0", "row_1", "w", "a_0", "a_1", "b_0", "b_1"]
    assert found[4] == Compute("a_1", Var("row_1") + Var("w"))
    assert abreast([body(3)]) == body(3)


@pytest.mark.parametrize(
    ("width", "settings", "message"),
    [
        (512, "warps=2 unroll=2", "unroll is for rows of one warp"),
        (33, "source=direct store=bulk", "store=bulk needs source=bulk"),
        (33, "source=bulk rows=4 store=bulk", "no multiple of 16 bytes"),
        (33, "unroll=9", "unroll must be 1 to 8"),
        (33, "source=bulk rows=8 store=shared", "store=shared needs source=direct"),
        (512, "warps=2 source=direct store=shared", "rows of one warp"),
        (133, "rows=8 source=direct peel=yes store=shared", "peel=no"),
        (33, "rows=4 source=direct store=shared", "has 264 bytes, no multiple of 16"),
    ],
)
def test_schedules_that_cannot_be(width: int, settings: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        built(fusion_of("rmsnorm", "f16"), width, settings)


@pytest.mark.parametrize(
    ("case", "dtype", "width", "rings"),
    [
        ("rmsnorm", "f16", 189, True),
        ("rmsnorm", "f16", 192, False),  # each row is a multiple of 16 bytes
        ("softmax", "bf16", 333, True),
        ("softmax", "bf16", 4097, False),  # more than the registers of one warp hold
        ("softmax", "f32", 333, False),  # memory sets the pace
    ],
)
def test_the_menu_has_tiles_where_one_row_is_no_multiple_of_16_bytes(
    case: str, dtype: str, width: int, rings: bool
) -> None:
    found = [s for s, _ in row_menu.launches(fusion_of(case, dtype), width) if s.source == "bulk"]
    assert bool(found) is rings and all(s.store == "bulk" for s in found)
    sums = [s for s, _ in row_menu.launches(fusion_of("row_sum", dtype), width) if s.source == "bulk"]
    assert bool(sums) is rings and all(s.store == "threads" for s in sums)


@pytest.mark.parametrize(
    ("case", "dtype", "width", "shared"),
    [
        ("rmsnorm", "f16", 270, True),
        ("rmsnorm", "f32", 270, True),
        ("rmsnorm", "f16", 272, False),  # each row is a multiple of 16 bytes
        ("row_sum", "f16", 270, False),  # no row is written
        ("rmsnorm", "f16", 4002, False),  # more than the registers of one warp hold
    ],
)
def test_the_menu_has_results_through_shared_memory_where_rows_are_ragged(
    case: str, dtype: str, width: int, shared: bool
) -> None:
    found = [s for s, _ in row_menu.launches(fusion_of(case, dtype), width) if s.store == "shared"]
    assert bool(found) is shared and all((s.warps, s.peel) == (1, "no") for s in found)
