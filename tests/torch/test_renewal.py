"""A program that is called often has its graph compiled again, in the process that calls it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from syncverify.torch import late, renewal  # noqa: E402


class Compiles:
    """Counts programs, which are eager torch's; ``asked``: the calls at which one asked what is left."""

    def __init__(self, left: Callable[[int], float]) -> None:
        self.asked: list[int] = []
        self.programs = 0
        self.renewed = 0
        self._left = left

    def calls_left(self, graph: str, calls: int) -> float:
        assert graph == "g"
        self.asked.append(calls)
        return self._left(calls)

    def renew(self, graph: str) -> None:
        self.renewed += 1

    def __call__(self, module: Any, inputs: Any) -> Any:
        self.programs += 1
        return renewal.counted(module.forward, "g")


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Compiles]:
    torch._dynamo.reset()
    monkeypatch.setattr(renewal, "_FIRST", 2)

    def made(left: Callable[[int], float]) -> Compiles:
        own = Compiles(left)
        monkeypatch.setattr(late, "calls_left", own.calls_left)
        monkeypatch.setattr(late, "renew", own.renew)
        return own

    return made


class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Two graphs, as something between them is not compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        y = self.first(x).relu()
        torch._dynamo.graph_break()
        return self.second(y).sum()


def test_each_function_is_traced_again_once_it_pays(make: Callable[..., Compiles]) -> None:
    compiles = make(lambda calls: max(0, 4 - calls))
    model, x = Model(), torch.randn(3, 4)
    f = torch.compile(model, backend=compiles)
    programs = []
    for _ in range(6):
        loss = f(x)
        loss.backward()  # by the program that made it
        programs.append(compiles.programs)
        gradient = model.first.weight.grad.clone()
        model.zero_grad()
        model(x).backward()
        torch.testing.assert_close(gradient, model.first.weight.grad)
        model.zero_grad()
    assert programs == [2, 2, 2, 2, 4, 4] and compiles.renewed == 2
    assert compiles.asked == [2, 2, 4, 4, 2, 2]


def test_other_functions_keep_their_programs(make: Callable[..., Compiles]) -> None:
    compiles, programs = make(lambda calls: 0), []

    def other(module: Any, inputs: Any) -> Any:
        programs.append(module)
        return module.forward

    f, g = torch.compile(lambda x: x.sin() + 1, backend=compiles), torch.compile(torch.cos, backend=other)
    for _ in range(3):
        f(torch.ones(3)), g(torch.ones(3))
    assert compiles.programs == 2 and len(programs) == 1


@pytest.mark.parametrize("what", ["error_on_recompile", "stance"])
def test_nothing_is_traced_again_where_the_caller_forbids_it(
    make: Callable[..., Compiles], what: str
) -> None:
    compiles = make(lambda calls: 0)
    f = torch.compile(lambda x: x.exp() * 2, backend=compiles)
    f(torch.ones(3))
    if what == "stance":
        with torch.compiler.set_stance("fail_on_recompile"):
            for _ in range(3):
                f(torch.ones(3))
    else:
        with torch._dynamo.config.patch(error_on_recompile=True):
            for _ in range(3):
                f(torch.ones(3))
    f(torch.ones(3))
    assert compiles.programs == 1 and compiles.renewed == 0


def test_whatever_fails_the_program_runs(
    make: Callable[..., Compiles], caplog: pytest.LogCaptureFixture
) -> None:
    def left(calls: int) -> float:
        raise OSError("no such disk")

    compiles = make(left)
    f = torch.compile(lambda x: x + 3, backend=compiles)
    with caplog.at_level(logging.WARNING, "syncverify.torch"):
        for _ in range(4):
            torch.testing.assert_close(f(torch.ones(3)), torch.full((3,), 4.0))
    assert "not compiled again: OSError: no such disk" in caplog.text and compiles.asked == [2]


def test_a_program_that_no_compiled_function_calls_is_left(make: Callable[..., Compiles]) -> None:
    compiles = make(lambda calls: 0)
    program = renewal.counted(lambda x: x, "g")
    assert [program(k) for k in range(4)] == [0, 1, 2, 3] and compiles.renewed == 0
