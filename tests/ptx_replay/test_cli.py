"""``syncverify replay`` on witnesses of PTX kernels."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from syncverify.cli.main import run
from tests.corpus.entries import CORPUS


def _witness(name: str, folder: Path) -> Path:
    for suffix in ("ptx", "ptx.launch.toml"):
        shutil.copy(CORPUS / "ptx" / f"{name}.bad.{suffix}", folder)
    assert (
        run(["check", str(folder / f"{name}.bad.ptx"), "--witness-dir", str(folder), "-o", str(folder / "r")])
        == 1
    )
    return folder / f"{name}.json"


def test_steps_are_the_source_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(_witness("bulk_ring", tmp_path))]) == 0
    out = capsys.readouterr().out
    assert "hang reproduced" in out
    assert "line 124  cp.async.bulk.shared::cluster.global" in out


def test_a_fault_ends_the_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(_witness("async_store", tmp_path))]) == 2
    assert "cannot be stepped through" in capsys.readouterr().err


def test_the_file_may_move(tmp_path: Path) -> None:
    witness = _witness("one_fence", tmp_path)
    launch = tmp_path / "l.toml"
    (tmp_path / "one_fence.bad.ptx.launch.toml").rename(launch)
    moved = (tmp_path / "one_fence.bad.ptx").rename(tmp_path / "moved.ptx")
    assert run(["replay", str(witness), "--kernel-file", str(moved), "--launch", str(launch), "--quiet"]) == 0


def test_steps_that_the_kernel_has_not(tmp_path: Path) -> None:
    """A hang that is only claimed, in a kernel that does not hang."""
    witness = _witness("one_fence", tmp_path)
    data = json.loads(witness.read_text())
    data["claim"], data["rule"] = "hang", "SV210"
    data["blocked"] = [{"agent": "cta0.warp0.lanes0", "file": "", "line": 43, "waits_on": "barrier 0",
                        "phase": 0, "why": ""}]  # fmt: skip
    witness.write_text(json.dumps(data))
    assert run(["replay", str(witness), "--quiet"]) == 1
