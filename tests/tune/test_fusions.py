"""The tuner with a timer that only pretends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from syncverify import gate
from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.examples import fusions
from syncverify.examples import rows as examples
from syncverify.fusion.plan import plan_of, with_settings
from syncverify.tune import fusions as tune

SIZES = {"R": 1000, "C": 256}
FIXED = ("rows=2", "stages=2")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "_ROWS", ("", "source=direct", "split=yes"))


class Timer:
    """Says that direct loads are faster, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, kernel: gate.CompiledKernel, sizes: Mapping[str, int]) -> float:
        self.calls += 1
        assert kernel.report.verdict.value == "proved"
        return 1.0 if kernel.program(sizes).kernel.barriers else 0.5


def test_the_fastest_proved_schedule_is_chosen_and_remembered(few: None, tmp_path: Path) -> None:
    cache, timer = Cache(tmp_path), Timer()
    tuned = tune.tune(examples.row_sum, SIZES, timer, settings=FIXED, cache=cache)
    assert tuned.settings == "width=256 rows=2 stages=2 source=direct"
    assert [t.seconds for t in tuned.trials] == [1.0, 0.5, None]
    assert "split=yes needs" in tuned.trials[2].reason  # tried, impossible, never timed
    again = tune.tune(examples.row_sum, SIZES, timer, settings=FIXED, cache=cache)
    assert again.schedule == tuned.schedule and again.trials == () and timer.calls == 2


def test_other_sizes_are_another_choice() -> None:
    names = {
        tune._name(examples.row_sum, {"R": r, "C": 256}, d, (), Policy.PRACTICAL)
        for r in (1, 2) for d in ("H100", "H200")
    }  # fmt: skip
    assert len(names) == 4


def test_what_the_caller_fixes_is_not_varied() -> None:
    found = tune.candidates(examples.row_sum, SIZES, ("source=bulk", "warps=1"))
    assert all("source=bulk" in c and "warps=1" in c for c in found)
    assert not any("direct" in c or "warps=8" in c for c in found)


def test_tiles_are_tried_with_and_without_a_ring() -> None:
    tried = tune.candidates(fusions.mul, SIZES)
    sources = {plan_of(fusions.mul, with_settings(fusions.mul, c.split())).schedule.source for c in tried}
    assert sources == {"bulk", "direct"}
    assert all("direct" in c for c in tune.candidates(fusions.mul, SIZES, ("source=direct",)))


def test_nothing_proved_is_an_input_error(few: None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no schedule could be proved"):
        tune.tune(
            examples.row_sum, SIZES, Timer(), settings=("stages=60", "source=bulk"), cache=Cache(tmp_path)
        )
