"""Rows that the blocks of a cluster share: results, proofs, and what happens without their barriers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.compiler.fusion_cases import fusion_of
from syncverify import gate
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.driver.ir import check_kernel
from syncverify.examples import rows as examples
from syncverify.fusion import Fusion, RowSchedule, rows
from syncverify.fusion.plan import plan_of
from syncverify.gate import ptx_check
from syncverify.ir.expr import Int
from syncverify.ir.nodes import ClusterArrive, ClusterWait, Kernel, Stmt, StShared
from syncverify.passes.rewrite import walk, with_bodies
from tests.fusion.test_row_tiles import ALL, built, results

#: Whole vectors, some left over, peeled rows; rows that stay in registers, and that are read again.
SHAPES = [
    (512, "warps=2 cluster=2"), (532, "warps=2 cluster=4"), (1027, "warps=2 cluster=2 reread=yes"),
    (260, "warps=4 cluster=2"),
]  # fmt: skip


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize(("width", "settings"), SHAPES)
def test_results(f: Fusion, width: int, settings: str) -> None:
    for got, want in results(f, built(f, width, settings), 5, width):
        assert np.allclose(got, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("name", ["rmsnorm", "add+layernorm"])
def test_proved_for_every_number_of_rows(name: str, policy: Policy) -> None:
    kernel = built(fusion_of(name, "f32"), 532, "warps=2 cluster=2", policy)
    report = check_kernel(kernel, {}, policy, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def test_parts_go_to_all_blocks_with_a_cluster_barrier_for_each_sum() -> None:
    kernel = built(examples.rms_norm, 512, "warps=2 cluster=4")
    stores = [s for s in walk(kernel.body) if isinstance(s, StShared)]
    assert stores and all(s.dst.rank is not None for s in stores)
    waits = [s for s in walk(kernel.body) if isinstance(s, ClusterWait)]
    assert len(waits) == 2 and isinstance(kernel.body[1], ClusterWait)


@pytest.mark.parametrize(
    ("f", "settings", "slots", "waits"),
    [(examples.rms_norm, "warps=2 cluster=4", 2, 2), (examples.rms_norm, "warps=8 cluster=8", 1, 2),
     (examples.softmax, "warps=8 cluster=8", 1, 3)],
)  # fmt: skip
def test_many_warps_that_exchange_once_meet_twice(f: Fusion, settings: str, slots: int, waits: int) -> None:
    """Where memory takes turns, proofs take minutes; results are the same. The first meeting of a row tells
    that all blocks have begun, too."""
    kernel = built(f, 8208, settings)
    assert {s.shape[0] for s in kernel.shared} == {Int(slots)}
    assert len([s for s in walk(kernel.body) if isinstance(s, ClusterWait)]) == waits
    for got, want in results(f, kernel, 3, 8208):
        assert np.allclose(got, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())


def test_without_the_second_meeting_the_next_row_writes_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "SOON", 2)
    kernel = built(examples.rms_norm, 516, "warps=2 cluster=2")
    met: list[Stmt] = []

    def strip(stmt: Stmt) -> Stmt:
        """Without the first meeting of a row, that is before what is written."""
        return with_bodies(stmt, lambda b: tuple(strip(s) for s in b if not first(s)))

    def first(stmt: Stmt) -> bool:
        met.extend([stmt] if isinstance(stmt, (ClusterArrive, ClusterWait)) else [])
        return bool(met) and met[-1] is stmt and len(met) <= 2

    bare = replace(kernel, body=tuple(map(strip, kernel.body)))
    assert check_kernel(bare, {}).verdict is Verdict.REFUTED
    assert check_kernel(kernel, {}).verdict is Verdict.PROVED


@pytest.mark.slow
@pytest.mark.parametrize(("cluster", "warps", "width"), [(8, 8, 78144), (8, 8, 78145), (4, 16, 56028)])
def test_many_warps_that_exchange_once_are_proved(
    tmp_path: Path, cluster: int, warps: int, width: int
) -> None:
    schedule = RowSchedule(width=width).with_settings([f"warps={warps}", f"cluster={cluster}"])
    compiled = gate.compile(fusion_of("rmsnorm", "f32"), schedule, cache=Cache(tmp_path))
    assert isinstance(compiled, gate.CompiledKernel)
    reports = compiled.report, compiled.ptx_report
    assert {(r.verdict, r.scope.kind) for r in reports} == {(Verdict.PROVED, ScopeKind.ALL)}


def dropped(kernel: Kernel, kind: type[Stmt], inside: bool) -> Kernel:
    """Without such statements, inside of loops or before them."""
    found = tuple(s for s in kernel.body if inside or not isinstance(s, kind))

    def strip(stmt: Stmt) -> Stmt:
        return with_bodies(stmt, lambda b: tuple(strip(s) for s in b if not isinstance(s, kind)))

    return replace(kernel, body=tuple(map(strip, found)) if inside else found)


@pytest.mark.parametrize("inside", [True, False])
def test_without_a_cluster_barrier_they_are_refuted(inside: bool) -> None:
    kernel = built(examples.rms_norm, 512, "warps=2 cluster=2")
    bare = dropped(dropped(kernel, ClusterArrive, inside), ClusterWait, inside)
    assert bare != kernel and check_kernel(bare, {}).verdict is Verdict.REFUTED


def test_their_code_is_proved_and_refuted_without_a_wait(tmp_path: Path) -> None:
    schedule = RowSchedule(width=512).with_settings(["warps=2", "cluster=2"])
    compiled = gate.compile(fusion_of("rmsnorm", "f32"), schedule, cache=Cache(tmp_path))
    assert isinstance(compiled, gate.CompiledKernel)
    assert {r.verdict for r in (compiled.report, compiled.ptx_report)} == {Verdict.PROVED}
    assert compiled.ptx_report.scope.kind is ScopeKind.ALL
    first, last = "barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"
    at = compiled.ptx.rindex(first)
    bare = compiled.ptx[:at] + compiled.ptx[at:].replace(first, "").replace(last, "")
    program = compiled.programs[compiled.plan.main]
    report = ptx_check.check_ptx(
        program.kernel, bare, Policy.PRACTICAL, compiled.launch_values({"R": 9, "C": 512})
    )
    assert report.verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    "settings", ["cluster=3 warps=2", "cluster=2 warps=1", "cluster=2 source=bulk", "cluster=2 stream=yes"]
)
def test_what_a_cluster_cannot_do(settings: str) -> None:
    with pytest.raises(InputError, match="cluster"):
        schedule = RowSchedule(width=512).with_settings(settings.split())
        plan_of(examples.rms_norm, schedule).main  # noqa: B018
        plan_of(examples.rms_norm, schedule).build(512, Policy.PRACTICAL)
