"""Operators that another process makes again, because Inductor's program asks for them by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import syncverify.torch as sv  # noqa: E402
from syncverify.torch import kept  # noqa: E402
from syncverify.torch.dims import UnfitError  # noqa: E402
from syncverify.torch.runners import shared_runner  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402

#: A runner of a GPU whose kernels NumPy computes; it trains a norm and says what caches found.
PROGRAM = """
import torch
from torch._dynamo.utils import counters
import syncverify.torch
from syncverify.torch import operators
from syncverify.torch.runners import GateRunner, ReferenceRunner

GateRunner.why_not = lambda self, device: ""
GateRunner.fusion = lambda self, fusion: ReferenceRunner().fusion(fusion)
GateRunner.ahead = GateRunner.settled = None
torch.manual_seed(0)
x, w = torch.randn(6, 32, requires_grad=True), torch.randn(32)
function = lambda x, w: torch.nn.functional.rms_norm(x * 2, (32,), w, 1e-6).exp()
got = torch.compile(function, backend="syncverify", options={"use": "always"})(x, w)
got.sum().backward()
found = x.grad.clone()
x.grad = None
want = function(x, w)
want.sum().backward()
assert torch.allclose(got, want, atol=1e-5) and torch.allclose(found, x.grad, atol=1e-4)
seen = counters["aot_autograd"]
print(seen["autograd_cache_hit"], seen["autograd_cache_miss"], len(operators._MADE))
"""


def run(folder: Path) -> tuple[int, ...]:
    """Hits and misses of AOTAutograd's cache, and operators that were made, in a process of its own."""
    import os

    own = {"SYNCVERIFY_CACHE": str(folder / "own"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    return tuple(map(int, found.stdout.split()[-3:]))


@pytest.mark.slow
def test_another_process_compiles_nothing(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert first[:2] == (0, 1) and first[2] > 0
    assert run(tmp_path) == (1, 0, first[2])
    # operators that are gone are compiled again, and never missed
    for file in (tmp_path / "own" / "torch-operators").iterdir():
        file.unlink()
    assert run(tmp_path) == first


def identity(monkeypatch: pytest.MonkeyPatch, folder: Path, settings: str = "a") -> Any:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(folder))
    found = kept.cache_identity(settings)
    return found and found.uuid()


def test_caches_forget_what_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = identity(monkeypatch, tmp_path / "one")
    assert one == identity(monkeypatch, tmp_path / "one") != identity(monkeypatch, tmp_path / "one", "b")
    assert one != identity(monkeypatch, tmp_path / "two")


def test_nothing_is_kept_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    assert identity(monkeypatch, tmp_path / "file" / "below") is None


def test_operators_made_again_are_those_of_the_backends_runner() -> None:
    one = shared_runner(proof_seconds=7.0)
    assert one is shared_runner(one.policy, one.proof_seconds) is not shared_runner(proof_seconds=8.0)


def test_a_graph_is_new_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    own = kept.cache_identity("a")
    assert own is not None
    assert [kept.compiled_before(own, text) for text in ("x", "x", "y", "x")] == [False, True, False, True]


class Unwritten(torch.nn.Module):
    def __reduce__(self) -> Any:
        raise RuntimeError("not written")


def test_what_cannot_be_written_is_inductors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    with pytest.raises(UnfitError, match="cannot be kept"):
        kept.keep("some", Unwritten())  # type: ignore[arg-type]


MODULE = torch.fx.symbolic_trace(lambda x: x + 1)


def test_backends_that_report_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    own = sv.Backend(sv.GateRunner())
    assert own._identity_for_caches(MODULE.code, [draw(2, 3)]) is None
    own.cached = True
    assert own._identity_for_caches(MODULE.code, [draw(2, 3), 4]) is not None


def test_processes_begin_where_something_will_be_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    begun: list[int] = []
    monkeypatch.setattr(sv.GateRunner, "warm", lambda self: begun.append(1))
    backend = sv.Backend(sv.GateRunner(), use="faster", cached=True)
    identity = kept.cache_identity("a")
    backend._warm(identity, MODULE.code, [draw(4, 32)])
    assert begun == []  # tensors of a CPU
    monkeypatch.setattr(sv.GateRunner, "why_not", lambda self, device: "")
    for _ in range(2):
        backend._warm(identity, MODULE.code, [draw(4, 32)])
    assert begun == [1]
