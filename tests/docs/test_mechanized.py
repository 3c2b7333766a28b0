"""The mechanized theorems: nothing is assumed, and Coq accepts them where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("Mbarrier", "Ring", "Trees")


def test_the_page_names_every_file_and_only_theorems_that_are_there() -> None:
    page = (ROOT / "docs" / "mechanized.md").read_text("utf-8")
    text = "".join((ROOT / "proofs" / f"{name}.v").read_text("utf-8") for name in FILES)
    assert sorted(p.stem for p in (ROOT / "proofs").glob("*.v")) == sorted(FILES)
    for name in ("no_hang", "phases", "no_underflow", "path_orders", "once", "bounded", "check_sound"):
        assert f"`{name}`" in page
        assert re.search(rf"^\s*Theorem {name} ", text, re.MULTILINE), name


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_admitted(name: str) -> None:
    text = (ROOT / "proofs" / f"{name}.v").read_text("utf-8")
    assert re.findall(r"\b(Admitted|admit|Axiom|Parameter|Conjecture)\b", text) == []


@pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")
def test_coq_accepts_the_theorems_without_axioms(tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(ROOT / "proofs" / f"{name}.v", tmp_path)
        done = subprocess.run(
            ["coqc", "-q", f"{name}.v"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Axioms" not in done.stdout
