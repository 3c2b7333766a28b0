"""The kernels of ``explain``: each bad one is refuted for its rule, each good one is proved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, Severity, Verdict
from syncverify.base.rules import RULES
from syncverify.driver.files import check_file, check_source, read_source

EXAMPLES = Path(__file__).parents[2] / "syncverify" / "examples" / "rules"
#: SV9xx are the tool's own.
WITHOUT_EXAMPLE = {r for r in RULES if r.startswith("SV9")}
#: Rules about cost are notes and change no verdict.
ADVICE = sorted(r for r in RULES if r.startswith("SV6"))
POLICIES = {"expect": Policy.PRACTICAL, "strict": Policy.STRICT}


def test_every_other_rule_has_a_pair() -> None:
    found = {p.name for p in EXAMPLES.iterdir()}
    assert found == {f"{r}.{k}.syncir" for r in RULES.keys() - WITHOUT_EXAMPLE for k in ("bad", "good")}


BROKEN = [p for p in sorted(EXAMPLES.glob("*.bad.syncir")) if p.name[:5] not in ADVICE]


@pytest.mark.parametrize("path", BROKEN, ids=lambda p: p.name)
def test_bad_example_is_refuted_for_its_rule(path: Path) -> None:
    rule = path.name.split(".")[0]
    expected = dict(re.findall(r"^// (expect|strict): (.*)$", path.read_text("utf-8"), re.M))
    assert f"refuted {rule}" in expected.values()
    for key, outcome in expected.items():
        (report,) = check_file(path, policy=POLICIES[key])
        errors = [d.rule for d in report.diagnostics if d.severity is Severity.ERROR]
        assert " ".join([str(report.verdict), *errors]) == outcome
        assert (report.witness is not None) == bool(errors)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.good.syncir")), ids=lambda p: p.name)
def test_good_example_is_proved(path: Path) -> None:
    (report,) = check_file(path)
    assert report.verdict is Verdict.PROVED, report.reason


@pytest.mark.parametrize("rule", ADVICE)
def test_advice_is_given_for_the_bad_kernel_and_not_for_the_good_one(rule: str) -> None:
    rules = {}
    for kind in ("bad", "good"):
        (report,) = check_source(read_source(EXAMPLES / f"{rule}.{kind}.syncir"), advice=True)
        assert report.verdict is Verdict.PROVED
        assert all(d.severity is Severity.NOTE for d in report.diagnostics)
        rules[kind] = [d.rule for d in report.diagnostics]
    assert rules == {"bad": [rule], "good": []}
