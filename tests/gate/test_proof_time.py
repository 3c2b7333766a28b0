"""Proofs that take too long: an answer comes all the same. The clock here counts how often it is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from syncverify import gate
from syncverify.base import deadline, workers
from syncverify.base.deadline import OutOfTimeError, within
from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.prover.modular import block_groups
from syncverify.codegen.cache import Cache
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule
from syncverify.gate import matmul
from syncverify.matmul import Schedule as Tiles
from syncverify.matmul import product

SMALL = Schedule(tile=1024, compute_warps=4, stages=2)
#: More than the usual sizes take, less than every size.
BETWEEN = 500
AMPLE = 1e9


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, bool]]]:
    """What is checked: the stage, and whether it is for every launch."""
    ticks = itertools.count()

    def tick() -> float:
        return float(next(ticks))

    monkeypatch.setattr(deadline, "time", SimpleNamespace(thread_time=tick, monotonic=tick))
    monkeypatch.setattr(workers, "may_fork", lambda: False)
    real, found = gate.Program.check, list[tuple[str, bool]]()

    def check(self: gate.Program, stage: str, values: Any = None) -> Any:
        found.append((stage, values is None))
        return real(self, stage, values)

    monkeypatch.setattr(gate.Program, "check", check)
    yield found


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def test_work_ends_with_its_time() -> None:
    deadline.check()  # nothing is set
    with within(3):
        deadline.check()
        with pytest.raises(OutOfTimeError, match="more than 3 seconds"):
            for _ in range(10):
                deadline.check()
    for _ in range(10):
        deadline.check()


def test_the_sooner_end_counts() -> None:
    with within(5), within(1000), pytest.raises(OutOfTimeError, match="more than 5 seconds"):
        for _ in range(100):
            deadline.check()
    with within(1000):
        with within(5), pytest.raises(OutOfTimeError, match="more than 5 seconds"):
            for _ in range(100):
                deadline.check()
        deadline.check()


@pytest.mark.parametrize("stage", gate.STAGES)
@pytest.mark.parametrize("every", [True, False])
def test_each_check_looks_at_the_time(stage: str, every: bool, cache: Cache) -> None:
    program = gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=AMPLE)._main  # type: ignore[union-attr]
    values = None if every else {p.name: p.default or 0 for p in program.kernel.params}
    with within(10), pytest.raises(OutOfTimeError):
        program.check(stage, values)


def test_blocks_that_are_compared_look_at_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each block of a large launch does is followed before any run of the checker begins."""

    def over(steps: int = 1) -> None:
        raise OutOfTimeError(7)

    monkeypatch.setattr(block_groups, "check_time", over)
    split = Tiles(64, 64, consumers=1, stages=2, split_k=4)
    shared = matmul.CompiledMatmul(product("bf16", "KK"), split)
    values = shared.launch_values({"M": 512, "N": 512, "K": 8192})
    with pytest.raises(OutOfTimeError, match="more than 7 seconds"):
        shared.program().check("ptx", values)


def test_no_proof_in_time_is_an_error_that_says_so(cache: Cache, checks: list[tuple[str, bool]]) -> None:
    said = "mul is unknown, so it may not run: no proof within 10 seconds of processor time"
    for remembered in (False, True):
        checks.clear()
        with pytest.raises(gate.VerificationError, match=said) as caught:
            gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=10)
        assert caught.value.report.verdict is Verdict.UNKNOWN
        assert checks == ([] if remembered else [("ir", True), ("ir", False)])
    with pytest.raises(gate.VerificationError, match="within 11 seconds"):
        gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=11)
    assert len(checks) == 2, "with more time it is tried again"
    found = gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=AMPLE)
    assert found.report.verdict is Verdict.PROVED
    gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=10)  # a proof is one, however it was found


def test_where_every_size_takes_too_long_each_launch_is_proved(
    cache: Cache, checks: list[tuple[str, bool]]
) -> None:
    kernel = gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=BETWEEN)
    assert isinstance(kernel, gate.CompiledKernel)
    assert checks == [("ir", True), ("ir", False), ("ptx", True), ("ptx", False)]
    notes = [d.message for d in kernel.report.diagnostics if d.rule == "SV902"]
    assert notes == [f"this is not shown for every size: no proof within {BETWEEN} seconds of processor time "
                     "(proof_seconds)"]  # fmt: skip
    program = kernel.program({"R": 5, "C": 1000})
    assert program.undecided == ("ir", "ptx")
    checks.clear()
    program.require_proof(kernel.launch_values({"R": 5, "C": 1000}, 2))
    assert checks == [("ir", False), ("ptx", False)]
    checks.clear()
    again = gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=BETWEEN)
    assert checks == [] and again.report.scope.kind is ScopeKind.EXACT
    longer = gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=AMPLE)
    assert checks == [("ir", True), ("ptx", True)] and longer.report.scope.kind is ScopeKind.ALL


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "10", True])
def test_seconds_that_are_none(seconds: Any, cache: Cache) -> None:
    with pytest.raises(InputError, match="proof_seconds is .*: use a number above 0"):
        gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=seconds)


SIZES = {"M": 2048, "N": 2048, "K": 512}
TURNS = Tiles(
    128, 128, registers=(40, 232), persistent=True, pingpong=True, pending=1, store="tma", laps="any"
)
PLAIN = Tiles(64, 64, consumers=1, stages=2)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model prefers warpgroups that take turns, whose proof takes longest."""
    monkeypatch.setattr(matmul, "choose", lambda *given: TURNS)
    monkeypatch.setattr(matmul, "ranked", lambda *given: [replace(TURNS, stages=2), TURNS, PLAIN])


def test_a_product_takes_the_next_schedule(cache: Cache, turns: None, checks: list[tuple[str, bool]]) -> None:
    ours = matmul.Matmul(product("bf16", "KK"), cache=cache, proof_seconds=4000)
    assert ours.schedule(SIZES, 4) == TURNS
    found = ours.proved(SIZES, 4)
    assert found.schedule == PLAIN
    assert found.proofs["ptx"].scope.kind is ScopeKind.ALL
    assert ours.schedule(SIZES, 4) == PLAIN, "and keeps it"
    checks.clear()
    assert ours.proved(SIZES, 4) is found and checks == []
    ample = matmul.Matmul(product("bf16", "KK"), cache=cache, proof_seconds=AMPLE)
    assert ample.proved({"M": 256, "N": 256, "K": 128}, 4).schedule == TURNS


def test_a_product_without_any_proof(cache: Cache, turns: None) -> None:
    ours = matmul.Matmul(product("bf16", "KK"), cache=cache, proof_seconds=20)
    with pytest.raises(gate.VerificationError, match="no proof within 20 seconds"):
        ours.proved(SIZES, 4)
    assert ours.schedule(SIZES, 4) == TURNS


def test_a_refuted_product_is_not_replaced(
    cache: Cache, turns: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is a mistake of the compiler, which nobody should overlook."""
    tried: list[str] = []

    def refuted(self: matmul.CompiledMatmul, sizes: Any, multiprocessors: int) -> None:
        tried.append(self.schedule.title)
        report = gate.compile(examples.mul, SMALL, cache=cache, proof_seconds=AMPLE).report
        raise gate.VerificationError(replace(report, verdict=Verdict.REFUTED))

    monkeypatch.setattr(matmul.CompiledMatmul, "require_proof", refuted)
    with pytest.raises(gate.VerificationError, match="refuted"):
        matmul.Matmul(product("bf16", "KK"), cache=cache).proved(SIZES, 4)
    assert tried == [TURNS.title]
