"""What ``replay`` prints: one execution, in the words of the source."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from syncverify.cli.main import run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "syncverify" / "examples" / "rules"


def _steps(kernel: Path, directory: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert run(["check", str(kernel), "--witness-dir", str(directory)]) == 1
    said = capsys.readouterr().out
    (witness,) = directory.iterdir()
    assert f"step through it: syncverify replay {witness}" in said
    assert run(["replay", str(witness)]) == 0
    *steps, conclusion = capsys.readouterr().out.splitlines()
    assert "reproduced" in conclusion and "NOT" not in conclusion
    return steps


@pytest.mark.parametrize("rule", ["SV101", "SV110", "SV202", "SV206", "SV209", "SV301"])
def test_without_a_loop_nobody_executes_a_line_twice(
    rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = _steps(EXAMPLES / f"{rule}.bad.syncir", tmp_path, capsys)
    seen = Counter(re.match(r" *(\S+) +line (\d+)", line).groups() for line in steps)  # type: ignore[union-attr]
    assert seen and max(seen.values()) == 1


def test_steps_are_statements_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = EXAMPLES / "SV110.bad.syncir"
    lines = kernel.read_text("utf-8").splitlines()
    steps = _steps(kernel, tmp_path, capsys)
    named = [re.search(r"line (\d+) +(.*)$", line) for line in steps]
    first = [m for m in named if m and m[2] == lines[int(m[1]) - 1].strip()]
    assert len(first) >= len(steps) // 2
    assert sum("completion of bulk.load tile, a[0 : 64], full" in line for line in steps) == 1


def test_a_ptx_witness_is_stepped_through_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = _steps(ROOT / "corpus" / "ptx" / "bulk_ring.bad.ptx", tmp_path, capsys)
    assert any("mbarrier.try_wait" in line for line in steps)
    assert any("async" in line and "completion of cp.async.bulk" in line for line in steps)
