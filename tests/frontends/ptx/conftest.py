"""Fixtures of several files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from syncverify.cli.main import run as command
from tests.frontends.ptx.global_helpers import FACTS


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The report of one kernel."""

    def run(text: str, grid: int | str = 2, facts: str = FACTS, *options: str) -> dict[str, Any]:
        (tmp_path / "k.ptx").write_text(text)
        (tmp_path / "k.ptx.launch.toml").write_text(facts.format(grid=grid))
        command(["check", str(tmp_path / "k.ptx"), "--format", "json", "--no-advice", *options])
        (report,) = json.loads(capsys.readouterr().out)["kernels"]
        return dict(report)

    return run
