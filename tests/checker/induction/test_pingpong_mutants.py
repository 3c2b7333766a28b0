"""CUTLASS's ping-pong product at every size is accepted, and no mistake in it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.parametric.strategy import ParametricResult
from syncverify.checker.prover.protocols import NotFoundError
from syncverify.checker.prover.rings.by_induction import NotReadError, shown_cases
from syncverify.driver.files import read_source
from syncverify.driver.ptx.check import Checker, kernel_task, reports_of
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import read_facts
from tests.checker.induction.pingpong_mutants import RIGHT, WRONG, changed
from tests.system.real.cache import Kernel, kernels

#: This one is found soonest.
QUICK = ("full barriers wait for 128",)


def _pingpong() -> Kernel:
    found = [k for k in kernels() if k.label == "cutlass/pingpong"]
    if not found:
        pytest.skip("the real kernels are not there")
    return found[0]


def judged(path: Path, facts: Path, scope: ScopeKind, checker: Checker) -> Verdict:
    """What the checks of a kernel say, with what proves it for every size."""
    source = read_source(path)
    assert source.module is not None
    (entry,) = source.module.entries
    task = kernel_task(
        source.module, entry, read_facts(facts), Policy.PRACTICAL, checker, {}, source.hash,
        scope is ScopeKind.ALL,
    )  # fmt: skip
    return list(reports_of(task, scope))[-1].verdict


def by_protocols(sizes: Any, given: Any, systems: Any, exact: Any, *rest: Any) -> ParametricResult:
    """Proved if the kernel accepts a proof of each protocol."""
    try:
        shown_cases(Problem(sizes, given, systems, exact, modular_systems=rest[-1]), Policy.PRACTICAL)
    except (NotReadError, NotFoundError) as e:
        return ParametricResult(Verdict.UNKNOWN, reason=str(e))
    return ParametricResult(Verdict.PROVED)


def _changed(what: str, folder: Path) -> Path:
    path = folder / "changed.ptx"
    path.write_text(changed(_pingpong().ptx.read_text(), (RIGHT | WRONG)[what]))
    return path


def _parameters(some: Any) -> list[Any]:
    return [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in some]


@pytest.mark.parametrize("what", _parameters(RIGHT | WRONG))
def test_a_launch_shows_what_is_wrong(what: str, tmp_path: Path) -> None:
    found = judged(
        _changed(what, tmp_path), _pingpong().facts("exact"), ScopeKind.EXACT, Checker(run_system, None)
    )
    assert found is (Verdict.PROVED if what in RIGHT else Verdict.REFUTED)


@pytest.mark.slow
@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_not_accepted(what: str, tmp_path: Path) -> None:
    checker = Checker(run_system, by_protocols)
    found = judged(_changed(what, tmp_path), _pingpong().facts("all"), ScopeKind.ALL, checker)
    assert found is not Verdict.PROVED


@pytest.mark.slow
def test_every_size_is_accepted(tmp_path: Path) -> None:
    checker = Checker(run_system, by_protocols)
    found = judged(_changed("nothing", tmp_path), _pingpong().facts("all"), ScopeKind.ALL, checker)
    assert found is Verdict.PROVED
