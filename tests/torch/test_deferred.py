"""Programs for trials: kernels are waited for late, modules of nodes are made when they are called."""

from __future__ import annotations

import logging
import pickle
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch._inductor import config  # noqa: E402
from torch._inductor.async_compile import AsyncCompile  # noqa: E402

from syncverify.torch import choice  # noqa: E402
from syncverify.torch.deferred import deferred  # noqa: E402
from syncverify.torch.torch_nodes import TorchNodes  # noqa: E402


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was waited for."""
    found: list[Any] = []
    monkeypatch.setattr(AsyncCompile, "wait", lambda self, scope: found.append(scope["kernel"]))
    return found


def wait(kernel: str) -> None:
    AsyncCompile.wait(None, {"kernel": kernel})


def test_the_first_call_waits_and_no_later_one(waited: list[Any]) -> None:
    with deferred() as pending:
        wait("a")
        wait("b")
        assert waited == []
    pending()
    pending()
    assert sorted(waited) == ["a", "b"]
    wait("c")
    assert waited[2:] == ["c"]  # outside nothing is deferred


def test_other_threads_wait_as_ever(waited: list[Any]) -> None:
    with deferred():
        other = threading.Thread(target=wait, args=("other",))
        other.start()
        other.join()
        assert waited == ["other"]


def test_one_at_a_time_defers(waited: list[Any]) -> None:
    """Whatever order they end in, what waits in the end is Inductor's own function."""
    plain = AsyncCompile.wait
    first, second = deferred(), deferred()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    wait("a")
    second.__exit__(None, None, None)
    assert waited == ["a"] and AsyncCompile.wait is plain


def test_where_kernels_run_in_compilation_nothing_is_deferred(waited: list[Any]) -> None:
    with config.patch(max_autotune_gemm=True), deferred():
        wait("a")
    assert waited == ["a"]


def test_what_a_compilation_raises_comes_with_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Any, scope: Any) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(AsyncCompile, "wait", fails)
    with deferred() as pending:
        wait("a")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no compiler"):
            pending()


def test_what_goes_wrong_in_timing_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "_WARNED", set())
    for reason in ("out of memory: 12 bytes", "out of memory: 99 bytes", "no such kernel"):
        with (
            caplog.at_level(logging.WARNING, "syncverify.torch"),
            pytest.raises(choice.SlowerError, match=reason),
            choice.real(torch.device("cpu")),
        ):
            raise RuntimeError(reason)
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 2 and "out of memory: 12 bytes" in said[0] and "no such kernel" in said[1]


def test_nodes_are_a_copy_that_is_made_late_and_written_down() -> None:
    module = torch.fx.symbolic_trace(lambda x, y: torch.add(x, y).exp())
    x, y, total, power, _ = module.graph.nodes
    nodes = TorchNodes.of([total, power], [x, y], [power])
    total.replace_input_with(y, x)  # what becomes of the graph later does not matter
    assert nodes.takes == 2 and "module" not in vars(nodes)
    given = torch.ones(3), torch.zeros(3)
    for one in (nodes, pickle.loads(pickle.dumps(nodes))):
        (found,) = one(*given)
        torch.testing.assert_close(found, torch.ones(3).exp())
