"""The tuner of matrix products times proved schedules only, and its choice is taken from then on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.gate.matmul import CompiledMatmul, Matmul
from syncverify.matmul import Schedule, product
from syncverify.matmul import pipeline as passes
from syncverify.tune.matmul import AtFirstUse, tune

SIZES = {"M": 200, "N": 128, "K": 200}
SMALL = Schedule(128, 64, stages=2)
TRIED = (SMALL, Schedule(128, 128, stages=2, store="tma", dependent=True))
SECONDS = {128: 1e-3, 64: 2e-3}


def _timer(calls: list[Schedule]) -> Any:
    def seconds(compiled: CompiledMatmul, _: Mapping[str, int]) -> float:
        calls.append(compiled.schedule)
        return SECONDS[compiled.schedule.tile_n]

    return seconds


def test_the_fastest_is_remembered(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    cache = Cache(tmp_path)
    calls: list[Schedule] = []
    found = tune(product(), SIZES, _timer(calls), device="x", schedules=TRIED, cache=cache)
    assert found.schedule == TRIED[1] and calls == list(TRIED)
    again = tune(product(), SIZES, _timer(calls), device="x", schedules=TRIED, cache=cache)
    assert again.schedule == TRIED[1] and again.trials == () and len(calls) == 2
    assert Matmul(product(), cache=cache, device="x").compiled(SIZES).schedule == TRIED[1]
    # for another device, other sizes, another layout nothing is known
    assert Matmul(product(), cache=cache, device="y").schedule(SIZES) != TRIED[1]
    assert Matmul(product(), cache=cache, device="x").schedule({**SIZES, "M": 128}) != TRIED[1]
    assert Matmul(product(layout="KN"), cache=cache, device="x").schedule(SIZES) != TRIED[1]


def test_what_is_not_proved_is_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    whole = passes.build

    def broken(problem: Any, schedule: Any, policy: Any, vector: Any) -> Any:
        return whole(problem, schedule, policy, vector, without=frozenset({"empty-barriers"}))

    monkeypatch.setattr("syncverify.matmul.pipeline.build", broken)
    calls: list[Schedule] = []
    with pytest.raises(InputError, match="no schedule could be proved"):
        tune(product(), SIZES, _timer(calls), schedules=(SMALL,), cache=Cache(tmp_path))
    assert calls == []


def test_a_product_is_tuned_where_it_is_first_used(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    calls: list[Schedule] = []

    def made() -> AtFirstUse:
        return AtFirstUse(product(), _timer(calls), "x", cache=Cache(tmp_path), schedules=TRIED)

    one = made()
    assert one.tuned(SIZES).compiled(SIZES).schedule == TRIED[1] and calls == list(TRIED)
    assert one.tuned(SIZES) is one.tuned(SIZES) and len(calls) == 2
    # another process finds it on disk; other sizes are timed again
    assert made().tuned(SIZES).compiled(SIZES).schedule == TRIED[1] and len(calls) == 2
    made().tuned({**SIZES, "M": 72})
    assert len(calls) == 4


def test_only_matrices_are_tuned(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two matrices"):
        AtFirstUse(product(), _timer([]), cache=Cache(tmp_path))(3, 4)
