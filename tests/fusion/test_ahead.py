"""First tiles that come to L2 while their blocks wait for the grid before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from syncverify import gate
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.driver.ir import check_kernel
from syncverify.examples import fusions, rows
from syncverify.fusion import Fusion, RowSchedule, Schedule, Tensor, trace
from syncverify.fusion.plan import launch_values, plan_of
from syncverify.fusion.row_schedule import fitted
from syncverify.ir import nodes as n
from syncverify.ir.expr import evaluate
from syncverify.passes.rewrite import walk

SUMS = RowSchedule(width=1024)
MUL = Schedule()


def kernel_of(f: Fusion, schedule: Schedule | RowSchedule, sizes: dict[str, int]) -> n.Kernel:
    plan = plan_of(f, schedule)
    return plan.build(plan.variant(sizes), Policy.PRACTICAL)


def prefetches(kernel: n.Kernel) -> list[n.BulkPrefetch]:
    return [s for s in walk(kernel.body) if isinstance(s, n.BulkPrefetch)]


@pytest.mark.parametrize(
    ("f", "schedule", "hint"),
    [
        (rows.row_sum, RowSchedule(width=2048), ""),
        (rows.row_sum, RowSchedule(width=4096), ""),
        (rows.cross_entropy, RowSchedule(width=4096), ".L2::cache_hint"),
        (fusions.mul, MUL, ""),
    ],
)
def test_proved_for_every_size(
    f: Fusion, schedule: Schedule | RowSchedule, hint: str, tmp_path: Path
) -> None:
    kernel = gate.compile(f, schedule, cache=Cache(tmp_path))
    assert isinstance(kernel, gate.CompiledKernel)
    assert kernel.report.scope.kind is kernel.ptx_report.scope.kind is ScopeKind.ALL
    before, _, behind = kernel.ptx.partition("griddepcontrol.wait")
    copy = f"cp.async.bulk.prefetch.L2.global{hint} ["
    assert before.count(copy) == len(f.streamed) and "prefetch" not in behind


def test_a_load_in_its_place_is_early() -> None:
    kernel = kernel_of(rows.row_sum, SUMS, {"R": 9, "C": 1024})
    (guard,) = (s for s in kernel.body if isinstance(s, n.If) and any(prefetches(replace(kernel, body=(s,)))))
    (prefetch,) = prefetches(kernel)
    load = n.LdGlobal("early", n.GlobalRegion(prefetch.src.tensor, prefetch.src.start))
    body = tuple(replace(s, then=(load,)) if s is guard else s for s in kernel.body)
    assert check_kernel(kernel, scope=ScopeKind.ALL).verdict is Verdict.PROVED
    report = check_kernel(replace(kernel, body=body), scope=ScopeKind.ALL)
    assert report.verdict is Verdict.REFUTED and "SV503" in {d.rule for d in report.diagnostics}


@pytest.mark.parametrize(
    ("f", "schedule"),
    [(rows.row_sum, SUMS), (rows.row_sum, RowSchedule(width=1024, warps=2, rows=6)), (fusions.mul, MUL)],
)
def test_only_whole_tiles_are_fetched_and_few_of_them(f: Fusion, schedule: Schedule | RowSchedule) -> None:
    for count in (1, 7, 8, 9, 100, 5000, 70_001):
        sizes = {"R": count, "C": 1024}
        kernel = kernel_of(f, schedule, sizes)
        plan = plan_of(f, schedule)
        values = launch_values(f, kernel, sizes, plan.most_blocks(plan.variant(sizes), 300))
        fetched = 0
        for s in kernel.body:
            if not (isinstance(s, n.If) and prefetches(replace(kernel, body=(s,)))):
                continue
            for block in range(values["blocks"]):
                at = {**values, "block": block, "tid": 0, "grid": values["blocks"]}
                if not evaluate(s.cond, at):
                    continue
                for p in s.then:
                    assert isinstance(p, n.BulkPrefetch)
                    start, elements = evaluate(p.src.start, at), evaluate(p.src.count, at)
                    assert 0 <= start and start + elements <= count * 1024
                    fetched += elements
        assert fetched * 2 <= 16 << 20 and (fetched > 0) == (values["each"] + values["more"] > 0)


def test_who_has_tiles_fetched() -> None:
    assert [fitted(f, RowSchedule(), 4096).ahead for f in (rows.row_sum, rows.softmax)] == ["yes", "no"]
    long = trace(lambda x: x.sum(), {"x": Tensor("f32", ("R", "C"))})
    assert [fitted(long, RowSchedule(), w).ahead for w in (4096, 16384, 32768)] == ["yes", "no", "no"]
    assert fitted(long, RowSchedule(ahead="yes"), 16384).ahead == "yes"
    asked = fitted(rows.softmax, RowSchedule(ahead="yes"), 4096)
    assert asked.dependent == asked.ahead == "yes"
    chosen = [plan_of(f).schedule for f in (fusions.mul, fusions.bias_gelu)]
    assert [s.ahead for s in chosen if isinstance(s, Schedule)] == ["yes", "no"]
    with pytest.raises(InputError, match="ahead=yes needs dependent=yes"):
        fitted(rows.row_sum, RowSchedule(ahead="yes", dependent="no"), 4096)


def test_rows_that_lie_apart_are_not_fetched() -> None:
    apart = trace(lambda x: x.sum(), {"x": Tensor("f32", ("R", "C"), apart=True)})
    assert not prefetches(kernel_of(apart, RowSchedule(width=4096), {"R": 9, "C": 4096}))
