"""Barriers in loops whose turns sizes count: places between them decide, and no search follows the turns."""

from __future__ import annotations

from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.driver.ptx import every_size
from syncverify.driver.ptx.task import CheckTask
from tests.frontends.ptx.analysis.barriers.test_places_between_barriers import (
    MEET,
    ODD_EVEN,
    PARTED,
    Statement,
    written,
)


def report(text: str) -> KernelReport:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "block": [64, 1, 1]}}}
    (found,) = syncverify.check(text, facts=facts, scope="all", advice=False)
    return found


@pytest.fixture(autouse=True)
def _by_places_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = every_size._tried

    def by_places(k: CheckTask, prove: Any = None) -> every_size.Attempt:
        return every_size.Attempt(k, None) if k.abstraction.barriers else tried(k, prove)

    monkeypatch.setattr(every_size, "_tried", by_places)


@pytest.mark.parametrize("statements", [ODD_EVEN, PARTED["a barrier by a size"][0]], ids=["turns", "branch"])
def test_a_barrier_that_a_size_decides_about(statements: list[Statement]) -> None:
    found = report(written(statements))
    assert found.verdict is Verdict.PROVED
    assert any("no number that places" in text for text in found.assumptions)


def test_a_mistake_is_not_proved() -> None:
    assert report(written(MEET["odd-even with one barrier"])).verdict is not Verdict.PROVED


def test_threads_that_leave_ahead_of_a_barrier() -> None:
    text = written(ODD_EVEN).replace(
        "mov.u32 %r6, 0;", "setp.gt.u32 %p1, %r0, 60; @%p1 bra L99; mov.u32 %r6, 0;"
    )
    task = report(text.replace("ret;", "L99:\nret;"))
    assert not any("no number that places" in text for text in task.assumptions)
