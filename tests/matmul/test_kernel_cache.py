"""Kernels of products that were made before: the same as the passes make, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.codegen.cache import Cache
from syncverify.gate import matmul as gate_matmul
from syncverify.gate.matmul import Matmul
from syncverify.matmul import Schedule, kernel_cache, pipeline, product
from syncverify.matmul.pipeline import build

SIZES = {"M": 512, "N": 256, "K": 1024}


def counted(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> list[object]:
    """Calls of a module's function from now on."""
    seen: list[object] = []
    plain = getattr(module, name)

    def called(*given: object) -> object:
        seen.append(given)
        return plain(*given)

    monkeypatch.setattr(module, name, called)
    return seen


@pytest.mark.parametrize(
    ("layout", "schedule"),
    [
        ("KK", Schedule(64, 64, consumers=1)),
        ("MN", Schedule(64, 64, consumers=1, persistent=True, split_k=2)),
    ],
)
def test_another_process_finds_what_passes_made(
    layout: str, schedule: Schedule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counted(monkeypatch, pipeline, "build")
    cache, problem = Cache(tmp_path), product("bf16", layout)
    wanted = build(problem, schedule, Policy.PRACTICAL, 2)
    for _ in range(2):
        assert kernel_cache.built(problem, schedule, Policy.PRACTICAL, 2, cache) == wanted
    assert len(made) == 1
    for other in (1, 2):
        kernel_cache.built(problem, Schedule(128, 64), Policy.PRACTICAL, other, cache)
    kernel_cache.built(product("f16", layout), schedule, Policy.PRACTICAL, 2, cache)
    assert len(made) == 4


def test_another_process_finds_what_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = counted(monkeypatch, gate_matmul, "choose")
    problem, cache = product("bf16", "KK"), Cache(tmp_path)
    found = [Matmul(problem, cache=cache).schedule(SIZES, 132) for _ in range(2)]
    assert found[0] == found[1] and len(chosen) == 1
    for file in tmp_path.glob("*.matmul.json"):
        file.write_bytes(b"{}")
    assert Matmul(problem, cache=cache).schedule(SIZES, 132) == found[0] and len(chosen) == 2
    Matmul(problem, cache=cache).schedule(SIZES, 64)
    Matmul(problem, cache=cache).schedule({**SIZES, "N": 264}, 132)
    Matmul(product("f16", "KK"), cache=cache).schedule(SIZES, 132)
    assert len(chosen) == 5
