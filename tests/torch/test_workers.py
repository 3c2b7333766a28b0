"""Inductor's processes: begun for GPUs alone, waited for a while, and of one ptxas with the main process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import TimeoutError as TooLongError

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch._inductor import async_compile  # noqa: E402
from torch._inductor.runtime import compile_tasks  # noqa: E402

from syncverify.torch import workers  # noqa: E402

GPU, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was done, in order."""
    compiler = pytest.importorskip("triton.backends.nvidia.compiler")
    found: list[str] = []

    class Version:
        def cache_clear(self) -> None:
            found.append("version forgotten")

    def late(timeout: float) -> None:
        found.append("waited")
        raise TooLongError

    monkeypatch.setattr(compiler, "get_ptxas_version", Version())
    monkeypatch.setattr(compile_tasks, "_set_triton_ptxas_path", lambda: found.append("ptxas"))
    monkeypatch.setattr(async_compile, "maybe_warm_pool", lambda: found.append("begun"))
    monkeypatch.setattr(async_compile.AsyncCompile, "wait_pool_ready", late)
    for once in (workers.one_assembler, workers._wait):
        once.cache_clear()
    yield found
    for once in (workers.one_assembler, workers._wait):
        once.cache_clear()


def test_the_assembler_is_that_of_the_processes_once(seen: list[str]) -> None:
    for device in (CPU, GPU, GPU):
        workers.begin(device)
    assert seen == ["ptxas", "version forgotten", "begun", "begun"]


def test_processes_that_come_late_are_not_waited_for_for_ever(seen: list[str]) -> None:
    workers.wait(CPU)
    assert not seen
    for _ in range(2):
        workers.wait(GPU)
    assert seen == ["waited"]


def test_what_fails_there_fails_no_compilation(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        seen.append("broken")
        raise OSError("no more processes")

    monkeypatch.setattr(compile_tasks, "_set_triton_ptxas_path", broken)
    monkeypatch.setattr(async_compile, "maybe_warm_pool", broken)
    monkeypatch.setattr(async_compile.AsyncCompile, "wait_pool_ready", broken)
    workers.begin(GPU)
    workers.wait(GPU)
    assert seen == ["broken"] * 3


def test_an_assembler_that_the_user_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton.backends.nvidia.compiler")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/of/the/user")
    workers.one_assembler.cache_clear()
    workers.one_assembler()
    assert os.environ["TRITON_PTXAS_PATH"] == "/of/the/user"
    workers.one_assembler.cache_clear()


def test_whether_the_processes_are_there(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for them a second time, for a CPU, or where one thread compiles everything."""
    ready = [False, True, False]
    monkeypatch.setattr(async_compile, "get_compile_threads", lambda: 4)
    monkeypatch.setattr(async_compile.AsyncCompile, "use_process_pool", lambda: ready.pop(0))
    assert workers.there(CPU) and not workers.there(GPU) and workers.there(GPU)
    monkeypatch.setattr(async_compile, "get_compile_threads", lambda: 1)
    assert workers.there(GPU)
    monkeypatch.setattr(async_compile, "get_compile_threads", lambda: 4)
    workers.wait(GPU)
    assert workers.there(GPU) and ready == [False]
