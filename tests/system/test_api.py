"""The API gives what the command gives: the same reports for the same input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Policy, Verdict
from syncverify.cli.main import run
from syncverify.report import json as json_report
from syncverify.report.base import Report

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "syncverify" / "examples" / "rules"
FILES = [RULES / "SV210.bad.syncir", RULES / "SV101.good.syncir", RULES / "SV602.bad.syncir"]
FILES += sorted((ROOT / "corpus" / "ptx").glob("*.ptx"))[:2]


def _told(reports: list[KernelReport], policy: Policy) -> list[object]:
    kernels = tuple(replace(r, seconds=0.0) for r in reports)
    return list(json_report.to_dict(Report(policy, kernels))["kernels"])


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_check_is_the_command(path: Path, policy: Policy, capsys: pytest.CaptureFixture[str]) -> None:
    """With the launch file beside the input, at every size, with advice."""
    run(["check", str(path), "--policy", str(policy), "--format", "json"])
    said = json.loads(capsys.readouterr().out)["kernels"]
    for kernel in said:
        kernel["seconds"] = 0.0
    assert _told(syncverify.check(path, policy=policy), policy) == said


def test_a_text_and_a_kernel_are_checked_as_their_file() -> None:
    path = FILES[0]
    text = path.read_text("utf-8")
    (kernel,) = syncverify.parse(text, str(path))
    found = [syncverify.check(x)[0] for x in (path, text, kernel)]
    assert len({(r.verdict, r.scope.kind, tuple(r.scope.values.items())) for r in found}) == 1
    assert [[d.rule for d in r.diagnostics] for r in found] == [[d.rule for d in found[0].diagnostics]] * 3


def test_scope_and_values() -> None:
    text = "kernel k {\n  param N : i32 = 2\n  bar.sync 0\n}\n"
    assert syncverify.check(text)[0].scope.kind == "all"
    assert syncverify.check(text, scope="exact")[0].scope.values == {"N": 2}
    assert syncverify.check(text, values={"N": 5})[0].scope.values == {"N": 5}


@pytest.mark.parametrize(
    "wrong", [{"policy": "loose"}, {"scope": "partial"}, {"kernel": "none"}, {"facts": {"gird": [1]}}]
)
def test_misuse_is_an_input_error(wrong: dict[str, object]) -> None:
    with pytest.raises(syncverify.InputError):
        syncverify.check("kernel k {\n  bar.sync 0\n}\n", **wrong)  # type: ignore[arg-type]


def test_a_guard_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    (report,) = syncverify.check(RULES / "SV210.good.syncir", timeout=1e-9)
    assert report.verdict is Verdict.UNKNOWN
    assert json_report.to_dict(Report(Policy.PRACTICAL, (report,)))["kernels"][0]["reason_kind"] == "timeout"


def test_certificates_and_witnesses_go_round(tmp_path: Path) -> None:
    good, bad = RULES / "SV210.good.syncir", FILES[0]
    written = tmp_path / "proof.json"
    written.write_text(syncverify.certify(good, values={"N": 3}))
    (done,) = syncverify.recheck(written, good)
    assert done.values == {"N": 3}
    with pytest.raises(syncverify.RejectedError):
        syncverify.recheck(written.read_text().replace('"N": 3', '"N": 4').replace('"N":3', '"N":4'), good)
    with pytest.raises(syncverify.InputError, match="nothing to certify"):
        syncverify.certify(bad)
    witness = syncverify.check(bad)[0].witness
    assert witness is not None
    assert syncverify.replay(witness).reproduced
    with pytest.raises(syncverify.InputError, match="has changed"):
        syncverify.replay(witness, bad.read_text("utf-8") + "\n")
