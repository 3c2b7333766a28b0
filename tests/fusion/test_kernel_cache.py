"""Kernels that passes made are kept, under all that they follow from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.prover.budget import symmetry_enabled
from syncverify.codegen.cache import Cache
from syncverify.examples import fusions, norms, rows
from syncverify.fusion import Fusion, RowSchedule, Schedule, Tensor, trace
from syncverify.fusion import plan as plans
from syncverify.fusion.kernel_cache import _identity, built
from syncverify.fusion.plan import plan_of
from syncverify.fusion.transpose import TransposePlan
from syncverify.gate import compiler
from syncverify.gate import fusions as gate


@pytest.mark.parametrize("f", [fusions.scale, rows.row_sum, fusions.transposed, norms.channel_norm])
def test_a_hit_runs_no_pass(
    f: Fusion, unproved: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    before: Any = compiler.compile(f, cache=cache)

    def build(*_: object) -> None:
        raise AssertionError("built again")

    for kind in (plans.TilePlan, plans.RowPlan, plans.ColumnPlan, TransposePlan):
        monkeypatch.setattr(kind, "build", build)
    after: Any = compiler.compile(f, cache=cache)
    for a, b in zip(getattr(before, "stages", [before]), getattr(after, "stages", [after]), strict=True):
        assert getattr(a, "ir", None) == getattr(b, "ir", None)
    with pytest.raises(AssertionError, match="built again"):
        compiler.compile(f, cache=Cache(tmp_path / "other"))


def test_what_a_kernel_follows_from_names_it(tmp_path: Path) -> None:
    two = {"a": Tensor("f32", ("R", "C")), "b": Tensor("f32", ("R", "C"))}
    functions = [
        lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a * b * 2.0, lambda a, b: a * b * 2.5,
        lambda a, b: b * a,
    ]  # fmt: skip
    found = {_identity(plan := plan_of(trace(f, two)), plan.main, Policy.PRACTICAL) for f in functions}
    found |= {_identity(plan_of(fusions.mul, Schedule(stages=k)), 4, Policy.PRACTICAL) for k in (2, 3)}
    found |= {_identity(plan_of(rows.softmax, RowSchedule()), w, Policy.PRACTICAL) for w in (4096, 8192)}
    found.add(_identity(plan_of(rows.softmax, RowSchedule()), 8192, Policy.STRICT))
    assert len(found) == len(functions) + 5


def test_what_is_kept_is_what_is_built(tmp_path: Path) -> None:
    plan, cache = plan_of(rows.softmax, RowSchedule(width=4096)), Cache(tmp_path)
    kernel = plan.build(4096, Policy.PRACTICAL)
    assert built(plan, 4096, Policy.PRACTICAL, cache) == built(plan, 4096, Policy.PRACTICAL, cache) == kernel
    (file,) = tmp_path.glob("*.kernel")
    file.write_bytes(b"[]")
    assert built(plan, 4096, Policy.PRACTICAL, cache) == kernel


def test_states_stand_for_themselves_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(fusions.mul, Schedule(stages=3))
    program = gate.Program(plan.build(plan.main, Policy.PRACTICAL), Policy.PRACTICAL, cache=Cache(tmp_path))
    asked: list[bool] = []
    plain = gate.Program._check

    def check(self: gate.Program, stage: str, values: Any) -> Any:
        asked.append(symmetry_enabled.get())
        report = plain(self, stage, values)
        return report if symmetry_enabled.get() else gate.replace(report, verdict=Verdict.UNKNOWN)

    monkeypatch.setattr(gate.Program, "_check", check)
    assert program.check("ir").verdict is Verdict.PROVED and asked == [False, True]
