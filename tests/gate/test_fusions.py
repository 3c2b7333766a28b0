"""The gate: only proved kernels come out or run, proofs are remembered, arrays are checked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syncverify import gate
from syncverify.base import workers
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.codegen.cache import Cache
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule, pipeline
from syncverify.fusion.pipeline import build
from syncverify.gate.reference_run import compared

SMALL = Schedule(tile=1024, compute_warps=4, stages=2)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture(scope="module")
def mul(tmp_path_factory: pytest.TempPathFactory) -> gate.CompiledKernel:
    """A proved kernel, where the cache is no matter."""
    return gate.compile(examples.mul, SMALL, cache=Cache(tmp_path_factory.mktemp("mul")))


def test_compile_gives_source_ir_cubin_and_proof(mul: gate.CompiledKernel) -> None:
    kernel = mul
    assert kernel.report.verdict is Verdict.PROVED
    assert kernel.ir.name == "mul" and 'extern "C"' in kernel.source
    assert kernel.cubin[:4] == b"\x7fELF"
    assert ".entry mul(" in kernel.ptx


def test_unproved_kernels_are_refused(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **named: Any) -> Any:
        return build(examples.mul, SMALL, without=frozenset({"empty-barriers"}))

    monkeypatch.setattr(pipeline, "build", broken)
    with pytest.raises(gate.VerificationError, match="refuted, so it may not run") as caught:
        gate.compile(examples.mul, SMALL, cache=cache)
    assert caught.value.report.witness is not None and caught.value.stage == "ir"
    assert not list(cache.root.glob("*.json")), "a refuted kernel leaves no proof"


def _count_checks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    checks: list[tuple[str, Any]] = []
    real = gate.Program.check

    def check(self: gate.Program, stage: str, values: Any = None) -> Any:
        checks.append((stage, values))
        return real(self, stage, values)

    monkeypatch.setattr(gate.Program, "check", check)
    monkeypatch.setattr(workers, "may_fork", lambda: False)
    return checks


def test_one_proof_for_every_launch(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = _count_checks(monkeypatch)
    kernel = gate.compile(examples.mul, SMALL, cache=cache)
    assert checks == [("ir", None), ("ptx", None)]
    for sizes in ({"R": 64, "C": 64}, {"R": 1, "C": 1}, {"R": 4099, "C": 1000}):
        kernel.program(sizes).require_proof(kernel.launch_values(sizes))
    assert len(checks) == 2
    again = gate.compile(examples.mul, SMALL, cache=cache)
    assert len(checks) == 2
    assert again.report.scope == kernel.report.scope and again.report.scope.kind is ScopeKind.ALL
    assert again.ptx_report.verdict is Verdict.PROVED and again.ptx == kernel.ptx


def test_a_launch_that_the_facts_exclude_is_refused(mul: gate.CompiledKernel) -> None:
    sizes = {"R": 64, "C": 65}
    values = mul.launch_values(sizes)
    with pytest.raises(InputError, match="no launch with rest = 1024: rest < 1024"):
        mul.program(sizes).require_proof({**values, "rest": 1024})


def test_what_is_not_decided_for_every_launch_is_proved_for_each(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = gate.Program.check

    def check(self: gate.Program, stage: str, values: Any = None) -> Any:
        if values is None:
            values = {p.name: p.default for p in self.kernel.params}
        return real(self, stage, values)

    monkeypatch.setattr(gate.Program, "check", check)
    kernel = gate.compile(examples.mul, SMALL, cache=cache)
    checks = _count_checks(monkeypatch)
    for sizes in ({"R": 64, "C": 64}, {"R": 64, "C": 65}, {"R": 64, "C": 64}):
        kernel.program(sizes).require_proof(kernel.launch_values(sizes))
    assert [(stage, v["C"]) for stage, v in checks] == [("ir", 64), ("ptx", 64), ("ir", 65), ("ptx", 65)]


def test_a_damaged_or_foreign_proof_is_no_proof(cache: Cache) -> None:
    program = gate.compile(examples.mul, SMALL, cache=cache).program({"R": 1, "C": 8})
    values = {"R": 89, "C": 1000, "each": 21, "more": 2, "rest": 936, "blocks": 4}
    for stage in gate.STAGES:
        program.proof(stage, values)
        newest = max(cache.root.glob("*.json"), key=lambda p: p.stat().st_mtime_ns)
        good = newest.read_text()
        damaged = (good[:40], "{}", "[]", good.replace('"proved"', '"refuted"'), good.replace("89", "90"))
        for text in (*damaged, good.replace('"exact"', '"all"')):
            newest.write_text(text)
            assert cache.proof(program.key, stage, values) is None
        newest.write_text(good)
        assert cache.proof(program.key, stage, values) is not None
        assert json.loads(good)["scope"]["values"] == values


def test_keys_differ_by_policy_and_kernel(cache: Cache) -> None:
    def key(schedule: Schedule, policy: Policy) -> str:
        return gate.Program(build(examples.mul, schedule, policy), policy, cache=cache).key

    keys = {key(s, p) for s in (SMALL, Schedule(tile=1024, compute_warps=4, stages=3)) for p in Policy}
    assert len(keys) == 4


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    kernel = gate.compile(examples.mul, SMALL, cache=Cache(file / "below"))
    assert kernel.report.verdict is Verdict.PROVED


def _arrays(dtype: Any = np.float32, shape: tuple[int, ...] = (4, 8)) -> list[np.ndarray[Any, Any]]:
    return [np.ones(shape, dtype), np.ones(shape, dtype)]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (_arrays(np.float64), "elements of type float64, expected f32"),
        (_arrays()[:1], "takes a, b"),
        ([np.ones((4, 8), np.float32), np.ones((4, 9), np.float32)], "dimension C of b"),
        ([np.ones((4, 8), np.float32).T, np.ones((8, 4), np.float32)], "not contiguous"),
        ([np.ones((4, 8), np.float32), [[1.0]]], "cannot use an object of type list"),
        ([np.ones(8, np.float32), np.ones(8, np.float32)], "expected dimensions"),
    ],
)
def test_bad_arrays_are_input_errors(mul: gate.CompiledKernel, arrays: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mul(*arrays)


def test_bad_outputs_are_input_errors(mul: gate.CompiledKernel) -> None:
    with pytest.raises(InputError, match="out has shape"):
        mul(*_arrays(), out=np.ones((4, 9), np.float32))
    with pytest.raises(InputError, match="1 outputs; out holds 2"):
        mul(*_arrays(), out=tuple(_arrays()))
    with pytest.raises(InputError, match="in order or by name"):
        mul(_arrays()[0], b=_arrays()[0])


def test_too_many_elements_for_narrow_indices(mul: gate.CompiledKernel, cache: Cache) -> None:
    mul.plan.check_extent({"R": 2**16, "C": 2**14})
    with pytest.raises(InputError, match="index=i64"):
        mul.plan.check_extent({"R": 2**16, "C": 2**15})
    wide = gate.compile(examples.mul, replace(SMALL, index="i64"), cache=cache)
    wide.plan.check_extent({"R": 2**16, "C": 2**16})


def test_no_elements_need_no_launch(mul: gate.CompiledKernel) -> None:
    assert mul(*_arrays(shape=(0, 8))).shape == (0, 8)


@pytest.mark.skipif(driver.available(), reason="there is a GPU")
def test_without_a_driver_the_message_says_what_to_do(mul: gate.CompiledKernel) -> None:
    with pytest.raises(InputError, match="no CUDA driver"):
        mul(*_arrays())


@pytest.mark.skipif(driver.available(), reason="there is a GPU")
def test_unsafe_runs_report_the_childs_failure() -> None:
    result = gate.run_unsafe(examples.mul, build(examples.mul, SMALL), {"R": 1, "C": 8}, timeout=60)
    assert result.ending == "failed" and "no CUDA driver" in result.message
    slow = gate.run_unsafe(examples.mul, build(examples.mul, SMALL), {"R": 1, "C": 8}, timeout=0.01)
    assert slow.ending == "timeout"


#: In the other schedules ``mul`` and ``normalize`` have the same loads and stores.
SELDOM = ("mul_bf16", "bias_gelu", "select4")


@pytest.mark.gpu
@pytest.mark.skipif(not driver.available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["mul", "normalize", "gate_pair"])
def test_gpu_equals_the_reference(cache: Cache, name: str) -> None:
    kernel = gate.compile(getattr(examples, name), SMALL, cache=cache)
    result = gate.run(kernel, {"R": 37, "C": 1000})
    assert result.backend == "gpu" and result.equal


@pytest.mark.skipif(driver.available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param(name, settings, marks=pytest.mark.slow if name in SELDOM and settings else ())
        for settings in ("", "store=tma mode=pipelined", "async_warps=3 prefetch=1")
        for name in ("mul", "mul_bf16", "normalize", "gate_pair", "bias_gelu", "select4")
    ],
)
def test_simulated_result_equals_the_reference(
    cache: Cache, name: str, settings: str, request: pytest.FixtureRequest
) -> None:
    if not settings:
        request.getfixturevalue("unproved")  # as they are, test_gate_ptx.py proves them for every size
    kernel = gate.compile(getattr(examples, name), SMALL.with_settings(settings.split()), cache=cache)
    for sizes in ({"R": 5, "C": 1000}, {"R": 1, "C": 17}, {"R": 3, "C": 1024}):
        result = gate.run(kernel, sizes)
        assert result.backend == "simulator" and result.equal, (sizes, result.largest_error)


def test_a_wrong_result_is_not_equal() -> None:
    reference = (np.ones((2, 2), np.float32),)
    for wrong in (np.nan, 1.001):
        outputs = (np.array([[1, 1], [1, wrong]], np.float32),)
        assert not compared(examples.mul, "gpu", outputs, reference).equal
    assert compared(examples.mul, "gpu", reference, reference).equal
