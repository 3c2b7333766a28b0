"""The record of the real kernels: every refutation of a shipped kernel was looked into and is in the docs."""

from __future__ import annotations

import json
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RECORD: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / "real.json").read_text())
CONFIRMED = tomllib.loads((ROOT / "tests" / "system" / "real" / "confirmed.toml").read_text())["finding"]
REFUTED = {
    (label, next(f["rule"] for f in entry[scope]["findings"] if f["severity"] == "error"))
    for label, entry in RECORD.items()
    for scope in ("exact", "all", "block")
    if entry.get(scope, {}).get("verdict") == "refuted"
}


def _confirms(finding: dict[str, Any], label: str, rule: str) -> bool:
    return finding["rule"] == rule and any(fnmatchcase(label, p) for p in finding["kernels"])


@pytest.mark.parametrize(("label", "rule"), sorted(REFUTED))
def test_a_refutation_on_record_is_confirmed(label: str, rule: str) -> None:
    assert any(_confirms(finding, label, rule) for finding in CONFIRMED)


@pytest.mark.parametrize("finding", CONFIRMED, ids=lambda f: f["rule"])
def test_a_confirmed_finding_stands_on_record_and_in_the_docs(finding: dict[str, Any]) -> None:
    assert any(_confirms(finding, label, rule) for label, rule in REFUTED)
    assert f"({finding['rule']})" in (ROOT / "docs" / "real_findings.md").read_text()
