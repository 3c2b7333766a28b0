"""corpus/ptx: kernels compiled by nvcc, right and wrong, have the verdicts that their headers state."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Severity
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import default_path, read_facts

CORPUS = Path(__file__).parents[2] / "corpus" / "ptx"
FILES = sorted(CORPUS.glob("*.ptx"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_verdict(path: Path) -> None:
    expected = re.search(r"^// expect: (\w+)(?: (SV\d+) line (\d+))?$", path.read_text("utf-8"), re.M)
    assert expected is not None
    (report,) = check_source(read_source(path), facts=read_facts(default_path(path)), repairs=False)
    found = [(d.rule, d.span.line) for d in report.diagnostics if d.severity == Severity.ERROR]
    assert report.verdict.name.lower() == expected[1], report.reason
    if expected[2] is None:
        assert found == []
    else:
        assert (expected[2], int(expected[3])) == found[0]


def test_every_wrong_kernel_stands_beside_a_right_one() -> None:
    names = {p.name for p in FILES}
    assert len(names) > 20
    assert {n.replace(".bad.", ".good.") for n in names} <= names
