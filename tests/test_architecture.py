"""The floors of docs/architecture.md hold (import-linter), and no module imports z3 or CUDA too early."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_floors_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", ["syncverify.cli.main", "syncverify.cli.check", "syncverify.cli.explain"])
def test_command_line_starts_without_heavy_imports(module: str) -> None:
    heavy = ("z3", "cuda", "torch")
    code = f"import sys, {module}; print(*(m for m in {heavy} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_one_module_talks_to_z3() -> None:
    users = {
        str(p.relative_to(ROOT))
        for p in (ROOT / "syncverify").rglob("*.py")
        if re.search(r"^\s*(import z3|from z3)\b", p.read_text("utf-8"), re.M)
    }
    assert users == {"syncverify/ir/solver.py"}
