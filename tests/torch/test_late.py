"""Proofs that come too late for a graph: who calls it often compiles it again, once, and tries them."""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.base.diagnostics import Policy  # noqa: E402
from syncverify.codegen import driver  # noqa: E402
from syncverify.fusion import Tensor, trace  # noqa: E402
from syncverify.gate.ahead import Ahead  # noqa: E402
from syncverify.torch import choice, kept, late, renewal, trials  # noqa: E402
from syncverify.torch.runners import GateRunner, ReferenceRunner  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402

sv_backend = sys.modules["syncverify.torch.backend"]  # the package has a function of that name


def one(width: int) -> Ahead:
    fusion = trace(lambda x: x * 2.0, {"x": Tensor("f32", ("c",))})
    return Ahead(fusion, {"c": width}, Policy.PRACTICAL, 132, 15.0)


class Answers:
    """What workers have answered by now, by row length, and what they were asked since."""

    def __init__(self) -> None:
        self.found: dict[int, bool] = {}
        self.asked: list[int] = []

    def __call__(self, kernel: Ahead) -> bool | None:
        return self.found.get(kernel.sizes["c"])

    def start(self, kernels: Any) -> None:
        self.asked += [k.sizes["c"] for k in kernels]


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    own = Answers()
    monkeypatch.setattr(late, "answered", own)
    monkeypatch.setattr(late, "_begin_later", own.start)
    return own


def test_a_graph_is_compiled_again_when_its_calls_would_have_saved_as_much(answers: Answers) -> None:
    """A compilation of 2 s, and kernels that save 10 and 30 us of a call."""
    late.add("g", [(one(32), 10.0)], 0.5)
    late.add("g", [(one(64), 30.0)], 1.5)  # of the backward pass
    assert late.generation("g") == 0 and answers.asked == [32, 64]
    # both are still to be proved: asked for when both would pay, and then after twice the calls
    assert late.calls_left("g", 100) == 49_900 and late.calls_left("g", 60_000) == 60_000
    answers.found |= {32: False, 64: True}
    assert late.calls_left("g", 100) == 66_567 and late.calls_left("g", 66_667) == 0
    late.renew("g")
    assert [late.generation(name) for name in ("g", "g", "other")] == [1, 1, 0]
    assert late.calls_left("g", 10**9) == math.inf
    late.add("g", [(one(96), 1.0)], 1.0)  # what is late in the second compilation
    answers.found[96] = True
    assert late.calls_left("g", 10**6) == 0 and answers.asked == [32, 64]


def test_a_process_that_ends_soon_compiles_nothing_again(answers: Answers) -> None:
    late.add("g", [(one(32), 300.0)], 11.0)
    answers.found[32] = True
    assert late.generation("g") == 0 and late.calls_left("g", 100) > 30_000


def test_proofs_begin_when_a_process_has_found_its_program(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(late, "provers", lambda: answers)
    begun: list[float] = []

    def start(timer: Any) -> None:
        assert timer.daemon and not answers.asked
        begun.append(timer.interval)
        timer.function(*timer.args)

    monkeypatch.setattr(threading.Timer, "start", start)
    late._begin_later([one(32)])
    assert begun == [late._PAUSE] and late._PAUSE >= 10 and answers.asked == [32]


def test_kernels_without_proofs_are_no_reason_to_compile(answers: Answers) -> None:
    late.add("g", [(one(32), 1e9)], 1.0)
    answers.found[32] = False
    assert late.calls_left("g", 10**9) == math.inf and late.generation("g") == 0


def test_a_damaged_file_is_written_again(answers: Answers, caplog: pytest.LogCaptureFixture) -> None:
    late.add("g", [(one(32), 1.0)], 1.0)
    kept.store().write(late._file("g"), b"no pickle")
    with caplog.at_level(logging.WARNING, "syncverify.torch"):
        late.add("g", [(one(64), 1.0)], 1.0)
    assert "cannot be read" in caplog.text
    assert [k.sizes["c"] for k, _ in late.read("g").kernels] == [64]


class Here(GateRunner):
    """A runner of a GPU whose kernels NumPy computes."""

    def why_not(self, device: Any) -> str:
        return ""

    def fusion(self, fusion: Any) -> Any:
        return ReferenceRunner().fusion(fusion)

    def settled(self, kernels: Any, device: Any, seconds: float) -> list[bool]:
        return [True] * len(kernels)

    def ahead(self, kernels: Any, device: Any, worth: Any = ()) -> None: ...

    def warm(self) -> None: ...

    def spare(self) -> bool:
        return False


def norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


Compiled = Callable[..., list[tuple[int, int]]]


@pytest.fixture
def compiled(answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiled:
    """Kernels and late ones of each graph that was compiled, and not found in caches; kernels are faster."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setattr(driver, "multiprocessors", lambda device: 132)
    monkeypatch.setattr(choice, "_FOUND", {})
    monkeypatch.setattr(trials, "timed", lambda runs, *_: [10.0, 5.0][: len(runs)])
    monkeypatch.setattr(trials, "bytes_per_us", lambda device: 1e9)
    monkeypatch.setattr(trials, "least_of", lambda group, device: 0.0)
    monkeypatch.setattr(trials, "_LEAST_SECONDS", 60.0)
    drawn = draw(6, 88), draw(88)

    def run(function: Any = norm, *given: Any, calls: int = 1) -> list[tuple[int, int]]:
        torch._dynamo.reset()
        backend = sv.Backend(Here(), use="faster", cached=True)
        given = given or drawn
        found = torch.compile(function, backend=backend)
        for _ in range(calls):
            torch.testing.assert_close(found(*given), function(*given))
        return [(len(g.regions), len(g.late)) for g in backend.report.graphs]

    return run


def unproved(self: Any, kernels: Any, device: Any, seconds: float) -> list[bool]:
    return [False] * len(kernels)


def test_what_was_late_becomes_a_kernel_when_a_process_calls_often(
    answers: Answers, compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as proofs:
        proofs.setattr(Here, "settled", unproved)
        assert compiled() == [(0, 1)]
    assert compiled() == [] and answers.asked == [88]  # of caches, while a worker proves it
    answers.found[88] = True
    assert compiled() == []  # a second process finds its program, whatever is proved by now
    monkeypatch.setattr(renewal, "_FIRST", 2)
    monkeypatch.setattr(late, "calls_left", lambda graph, calls: 0 if late.read(graph).kernels else math.inf)
    assert compiled(calls=2) == []  # the second call asks for it
    assert compiled(calls=1) == [(1, 0)]
    assert compiled(calls=3) == []


def while_inductor_compiles(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Does something when a graph's first program is there, before its late proofs are asked for."""
    plain = sv.Backend._again

    def again(self: Any, *given: Any) -> Any:
        then()
        return plain(self, *given)

    monkeypatch.setattr(sv.Backend, "_again", again)


def test_a_proof_that_comes_while_inductor_compiles_serves_the_same_process(
    answers: Answers, compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caches keep the program with the kernel, and a second process compiles nothing. Inductor compiles the
    context once, and once with the kernel."""
    programs: list[Any] = []

    def counted(*given: Any) -> Any:
        programs.append(given)
        return choice.compiled(*given)

    monkeypatch.setattr(trials, "compiled", counted)
    proved = Here.settled
    monkeypatch.setattr(Here, "settled", unproved)
    while_inductor_compiles(monkeypatch, lambda: monkeypatch.setattr(Here, "settled", proved))
    monkeypatch.setattr(sv_backend, "whole_of", lambda *_: 100.0)
    assert compiled() == [(1, 0)] and len(programs) == 2 and not trials._TIMED_SO_FAR
    assert compiled() == [] and answers.asked == []


def test_what_is_late_even_then_is_left_to_a_later_process(
    answers: Answers, compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two norms, the proof of one comes while Inductor compiles."""

    def both(x: Any, w: Any, y: Any, v: Any) -> Any:
        return norm(x, w), norm(y, v)

    def one_of_two(self: Any, kernels: Any, device: Any, seconds: float) -> list[bool]:
        return [sizes["c"] == 88 for _, sizes in kernels]

    monkeypatch.setattr(Here, "settled", unproved)
    while_inductor_compiles(monkeypatch, lambda: monkeypatch.setattr(Here, "settled", one_of_two))
    monkeypatch.setattr(sv_backend, "whole_of", lambda *_: 100.0)
    assert compiled(both, draw(6, 88), draw(88), draw(6, 120), draw(120)) == [(1, 1)]
    assert compiled(both, draw(6, 88), draw(88), draw(6, 120), draw(120)) == [] and answers.asked == [120]


def test_a_late_proof_that_gains_little_compiles_nothing_again(
    answers: Answers, compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    proved = Here.settled
    monkeypatch.setattr(Here, "settled", unproved)
    while_inductor_compiles(monkeypatch, lambda: monkeypatch.setattr(Here, "settled", proved))
    monkeypatch.setattr(sv_backend, "whole_of", lambda *_: 10000.0)  # of which 5 are gained
    assert compiled() == [(0, 0)]
    assert compiled() == [] and answers.asked == []
