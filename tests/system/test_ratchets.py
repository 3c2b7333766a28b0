"""Complexity, arguments, private access, docstrings: each file has a number that only falls.

``ratchets.toml`` says how many findings of a ruff rule a file has at most; a file not listed has none.
``python -m tests.system.test_ratchets`` writes lower numbers down, and never raises one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASELINE = Path(__file__).with_name("ratchets.toml")
#: Rule of ruff -> what it asks for.
RULES = {
    "C901": "functions that decide at most 15 things",
    "PLR0913": "at most five arguments",
    "FBT001": "no boolean argument by position",
    "FBT002": "no boolean default of an argument by position",
    "FBT003": "no boolean value by position in a call",
    "SLF001": "no access to what another class keeps private",
    "D101": "public classes have a docstring",
    "D103": "public functions have a docstring",
}

#: Test modules whose errors of types mypy does not report (pyproject.toml), at most.
UNTYPED = 72

Counts = dict[str, dict[str, int]]


def findings() -> Counts:
    """Rule -> file -> findings of it."""
    ruff = Path(sys.executable).with_name("ruff")
    select = ["check", "--isolated", "--select", ",".join(RULES), "--config", "lint.mccabe.max-complexity=15"]
    done = subprocess.run(
        [ruff, *select, "--target-version", "py311", "--output-format", "json", "--exit-zero", "syncverify"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return counted(json.loads(done.stdout))


def counted(found: list[dict[str, str]]) -> Counts:
    """Findings of ruff by rule and file."""
    out: dict[str, Counter[str]] = {rule: Counter() for rule in RULES}
    for x in found:
        out[x["code"]][Path(x["filename"]).relative_to(ROOT / "syncverify").as_posix()] += 1
    return {rule: dict(files) for rule, files in out.items()}


def grown(now: Counts, most: Counts) -> list[str]:
    """Where a file has more findings than its number says."""
    return [
        f"{rule} ({RULES[rule]}): {file} has {n}, not {most.get(rule, {}).get(file, 0)}"
        for rule, files in now.items()
        for file, n in sorted(files.items())
        if n > most.get(rule, {}).get(file, 0)
    ]


def shrunk(now: Counts, most: Counts) -> Counts:
    """The numbers to write down: none is larger than before, and none is listed that has become 0."""
    return {
        rule: {f: min(n, most[rule].get(f, 0)) for f, n in now[rule].items() if most[rule].get(f, 0)}
        for rule in now
    }


def test_a_number_that_grows_is_found_and_never_written() -> None:
    most: Counts = {"C901": {"a.py": 2, "b.py": 1}}
    now: Counts = {"C901": {"a.py": 3, "c.py": 1}}
    assert [x.split(": ")[1] for x in grown(now, most)] == ["a.py has 3, not 2", "c.py has 1, not 0"]
    assert shrunk(now, most) == {"C901": {"a.py": 2}}
    assert grown({"C901": {"a.py": 2}}, most) == []


def test_the_list_of_untyped_tests_only_shrinks() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    assert "tests" in mypy["packages"]
    silent = [m for x in mypy["overrides"] if x.get("ignore_errors") for m in x["module"]]
    silent = [m for m in silent if not m.endswith(".*")]
    assert len(silent) <= UNTYPED
    gone = [m for m in silent if not (ROOT / m.replace(".", "/")).with_suffix(".py").is_file()]
    assert gone == []


@pytest.fixture(scope="module")
def found() -> Counts:
    return findings()


@pytest.mark.parametrize("rule", RULES)
def test_no_file_has_more_findings_than_before(found: Counts, rule: str) -> None:
    most: Counts = tomllib.loads(BASELINE.read_text("utf-8"))
    assert grown({rule: found[rule]}, most) == []


def _write(numbers: Counts) -> None:
    lines = ["# Findings of ruff by rule and file: see test_ratchets.py. The numbers may only fall."]
    for rule, files in numbers.items():
        lines += ["", f"# {RULES[rule]}: {sum(files.values())}", f"[{rule}]"]
        lines += [f'"{file}" = {n}' for file, n in sorted(files.items())]
    BASELINE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    before: Counts = tomllib.loads(BASELINE.read_text("utf-8")) if BASELINE.exists() else findings()
    _write(shrunk(findings(), before))
