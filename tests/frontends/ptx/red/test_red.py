"""Kernels that are wrong in ways a front end can miss, and their right twins: each says what is expected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from syncverify.base.diagnostics import ScopeKind, Severity
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts

FILES = sorted(Path(__file__).parent.glob("*.ptx"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_verdict(path: Path, tmp_path: Path) -> None:
    said = dict(re.findall(r"^// (\w+): (.+)$", path.read_text(), re.MULTILINE))
    facts = tmp_path / "k.ptx.launch.toml"
    facts.write_text(
        f"[kernel.k]\ngrid = [{said.get('grid', 1)}, 1, 1]\nblock = [{said['block']}, 1, 1]\n"
        f"dynamic_smem = {said.get('dynamic_smem', 0)}\n[kernel.k.params]\n1 = 5\n"
    )
    verdict, *rules = said["expect"].split()
    (report,) = check_source(read_source(path), facts=read_facts(facts), scope=ScopeKind.ALL, repairs=False)
    errors = {d.rule for d in report.diagnostics if d.severity is Severity.ERROR}
    assert report.verdict.value == verdict, report.reason
    assert errors.issuperset(rules)
