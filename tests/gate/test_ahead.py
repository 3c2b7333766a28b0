"""Proofs in processes of their own: the caller finds what they stored."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.fusion import Tensor, trace
from syncverify.gate import ahead
from syncverify.gate.ahead import Ahead, compile_fusion, prove, prove_ahead


def scaled(x: Any, y: Any) -> Any:
    return {"z": x * 2.0 + y}


def one(name: str = "scaled_ahead") -> Ahead:
    scaled.__name__ = name
    fusion = trace(scaled, {"x": Tensor("f32", ("c",)), "y": Tensor("f32", ("c",))})
    return Ahead(fusion, {"c": 4096}, Policy.PRACTICAL, 132, 60.0)


def test_what_was_proved_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    kernel = pickle.loads(pickle.dumps(one()))
    prove(kernel)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    assert before
    compiled = compile_fusion(kernel.kernel, kernel.sizes, kernel.policy, proof_seconds=1e-9)
    compiled.program(kernel.sizes).require_proof(dict(compiled.launch_values(kernel.sizes, 132)))


def test_each_kernel_has_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def run(command: list[str], *, input: bytes, **_: Any) -> None:
        assert command[1:] == ["-m", "syncverify.gate.ahead"]
        seen.append(pickle.loads(input).kernel.name)
        if seen[-1] == "second":
            raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(ahead.subprocess, "run", run)
    kernels = [one("first"), one("second"), one("third")]
    prove_ahead(kernels, jobs=2)
    assert sorted(seen) == ["first", "second", "third"]
    prove_ahead(kernels[:1], jobs=2)  # one is proved where it is needed
    assert len(seen) == 3
