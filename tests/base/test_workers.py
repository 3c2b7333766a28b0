"""Work beside other work."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from syncverify.base import workers as module
from syncverify.base.diagnostics import Verdict
from syncverify.base.gc_pause import SELDOM, seldom
from syncverify.base.nvrtc import CompileError
from syncverify.base.workers import apart, in_background
from syncverify.codegen.cache import Cache
from syncverify.examples import fusions
from syncverify.fusion import Schedule, pipeline
from syncverify.fusion.pipeline import build
from syncverify.gate import compiler
from syncverify.gate import fusions as gate

RING = Schedule(tile=1024, compute_warps=4, stages=2)


def test_the_work_is_over_when_the_block_is() -> None:
    done: list[int] = []
    with in_background(lambda: done.append(1)):
        pass
    assert done == [1]


def test_what_goes_wrong_is_left_to_whoever_asks() -> None:
    with in_background(lambda: 1 // 0):
        pass
    with pytest.raises(KeyError), in_background(lambda: 1 // 0):
        raise KeyError


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "may_fork", lambda: True)


@pytest.mark.usefixtures("forks")
def test_a_copy_of_the_process_says_what_the_work_gave() -> None:
    before = os.getpid()
    with apart(lambda: (os.getpid(), "done")) as found:
        assert found is not None
        pid, said = found()
    assert (pid != before, said) == (True, "done")
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)  # nothing is left of it


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("work", [lambda: 1 // 0, lambda: os._exit(3), lambda: lambda: 0])
def test_a_copy_that_fails_says_nothing(work: Callable[[], object]) -> None:
    with apart(work) as found:
        assert found is not None and found() is None


@pytest.mark.usefixtures("forks")
def test_a_copy_does_not_outlive_the_block() -> None:
    begun = time.monotonic()
    with apart(lambda: time.sleep(60)):
        pass
    assert time.monotonic() - begun < 30


def test_no_copy_beside_threads_or_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(module.threading, "active_count", lambda: 2)
    assert not module.may_fork()
    monkeypatch.setattr(module.threading, "active_count", lambda: 1)
    for name in module.THREADED:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert module.may_fork()
    monkeypatch.setattr(module, "_holds_gpu", lambda: True)
    assert not module.may_fork()
    monkeypatch.setattr(module, "_holds_gpu", lambda: False)
    monkeypatch.setitem(sys.modules, "torch", module)
    assert not module.may_fork()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_an_open_gpu_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not module._holds_gpu()
    monkeypatch.setattr(os, "readlink", lambda _: "/dev/nvidiactl")
    assert module._holds_gpu()


@pytest.mark.parametrize("copies", [True, False])
def test_both_ways_prove_and_refuse(copies: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "may_fork", lambda: copies)
    good = compiler.compile(fusions.mul, RING, cache=Cache(tmp_path / "good"))
    assert good.report.verdict is good.ptx_report.verdict is Verdict.PROVED
    wrong = build(fusions.mul, RING, without=frozenset({"empty-barriers"}))
    monkeypatch.setattr(pipeline, "build", lambda *_, **__: wrong)
    with pytest.raises(gate.VerificationError) as refused:
        compiler.compile(fusions.mul, RING, cache=Cache(tmp_path / "wrong"))
    assert (refused.value.stage, refused.value.report.verdict) == ("ir", Verdict.REFUTED)


def test_a_copy_that_says_nothing_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "may_fork", lambda: True)
    monkeypatch.setattr(module, "_answer", lambda *_: os._exit(0))
    assert compiler.compile(fusions.scale, cache=Cache(tmp_path)).report.verdict is Verdict.PROVED


def test_a_kernel_that_does_not_compile_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emit = gate.emit
    monkeypatch.setattr(gate, "emit", lambda *given: emit(*given) + "no CUDA")
    with pytest.raises(CompileError, match="no CUDA|expected"):
        compiler.compile(fusions.scale, cache=Cache(tmp_path))


def test_cycles_are_searched_as_before_when_the_last_is_done() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(700)
        with seldom():
            with seldom():
                assert gc.get_threshold()[0] == SELDOM
            assert gc.get_threshold()[0] == SELDOM
        assert gc.get_threshold()[0] == 700
        gc.set_threshold(0)  # off
        with pytest.raises(ValueError, match="x"), seldom():
            assert gc.get_threshold()[0] == 0
            raise ValueError("x")
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
