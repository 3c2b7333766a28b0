"""Tensor maps that a kernel makes of maps that are given: executions tell whether their boxes are right."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.driver.executions import sought
from syncverify.simulate.ptx.confirm import Confirmed
from tests.system.small_ptx import read

KERNELS = {k.name: k for k in read(Path(__file__).parents[2] / "system" / "small_ptx" / "made_maps.kernels")}


@pytest.mark.parametrize("name", ["as it should be", "bytes of another type"])
def test_where_nothing_is_executed_a_box_of_no_map_proves_nothing(name: str) -> None:
    """One is right and one is wrong, which an execution with the maps that are given shows."""
    k = KERNELS[name]
    (report,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, replay=False, advice=False)
    assert report.verdict is Verdict.UNKNOWN and "none was asked for" in str(report.reason)


def test_where_no_execution_ends_a_box_of_no_map_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    k = KERNELS["as it should be"]

    def said() -> KernelReport:
        (report,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, advice=False)
        return report

    assert said().verdict is Verdict.PROVED
    monkeypatch.setattr(sought, "confirm", lambda *_, **__: Confirmed(None, why="some instruction"))
    report = said()
    assert report.verdict is Verdict.UNKNOWN and "some instruction" in str(report.reason)
