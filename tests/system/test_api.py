"""The API gives what the command gives: the same reports for the same input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import syncverify
from syncverify import api
from syncverify.base.diagnostics import KernelReport, Policy, Verdict
from syncverify.base.source import InputError
from syncverify.cli.main import run
from syncverify.driver import files
from syncverify.driver.files import Options, SourceFile
from syncverify.frontends.cuda.options import DEFAULTS, CudaOptions
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.report import json as json_report
from syncverify.report.base import Report

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "syncverify" / "examples" / "rules"
FILES = [RULES / "SV210.bad.syncir", RULES / "SV101.good.syncir", RULES / "SV602.bad.syncir"]
FILES += sorted((ROOT / "corpus" / "ptx").glob("*.ptx"))[:2]
CORPUS = sorted(p for p in (ROOT / "corpus").rglob("*") if p.suffix in (".syncir", ".ptx", ".cu"))
#: A corpus file with shorter text is checked in less than half a second.
SHORT = 2_500


def _is_quick(path: Path) -> bool:
    """Whether a file's check at every size is short, and needs no CUDA compiler."""
    return path.parent.name == "theory" or (path.suffix == ".ptx" and path.stat().st_size < SHORT)


Answer = Callable[[SourceFile, LaunchFacts, Options, Callable[[InputError], None] | None], Any]


class Questions:
    """What the API and the command ask the checker. A question is answered once, whoever asks it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.known: dict[tuple[str, ...], list[KernelReport]] = {}
        self.answer = answer
        for module in (api, files):
            monkeypatch.setattr(module, "check_each", self.check_each)

    def check_each(
        self,
        source: SourceFile,
        facts: LaunchFacts,
        options: Options,
        on_error: Callable[[InputError], None] | None = None,
    ) -> Iterator[KernelReport]:
        question = (source.path, source.hash, facts.file, repr(facts.tables), repr(options))
        self.asked.append(question)
        if question not in self.known:
            self.known[question] = list(self.answer(source, facts, options, on_error))
        yield from self.known[question]


def test_check_asks_what_the_command_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every file of the corpus: with the launch file beside it, the same options and the same limits."""

    def unread(path: str, cuda: CudaOptions | None = None) -> SourceFile:
        return SourceFile(path, (), repr(cuda or DEFAULTS))

    questions = Questions(monkeypatch, lambda *_: ())
    for module in (api, files):
        monkeypatch.setattr(module, "read_source", unread)
    run(["check", *map(str, CORPUS), "--format", "json", "--no-cache"])
    capsys.readouterr()
    by_command, questions.asked = questions.asked, []
    for path in CORPUS:
        syncverify.check(path)
    assert questions.asked == by_command
    assert len(by_command) == len(CORPUS) > 500
    assert sum(facts_file != "" for _, _, facts_file, *_ in by_command) > 50


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.relative_to(ROOT).as_posix(), marks=() if _is_quick(p) else pytest.mark.slow)
        for p in CORPUS
    ],
)
def test_check_reports_what_the_command_reports(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict, the findings, their lines, all of the report; the checker is asked once for both."""
    questions = Questions(monkeypatch, files.check_each)
    run(["check", str(path), "--format", "json", "--no-cache"])
    said = json.loads(capsys.readouterr().out)["kernels"]
    found = tuple(syncverify.check(path))
    assert said
    assert list(json_report.to_dict(Report(Policy.PRACTICAL, found))["kernels"]) == said
    assert len(questions.asked) == 2
    assert len(questions.known) == 1


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


def _errors(kernel: dict[str, Any]) -> list[tuple[str, int, str]]:
    return [(d["rule"], d["line"], d["message"]) for d in kernel["diagnostics"] if d["severity"] == "error"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_without_advice_the_verdict_is_the_same(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the first finding; others that the repair of the first mends too are told apart."""

    def said(*more: str) -> dict[str, Any]:
        run(["check", str(path), "--format", "json", *more])
        (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
        return dict(kernel, seconds=0.0)

    whole, bare = said(), said("--no-advice")
    assert _told(syncverify.check(path, advice=False), Policy.PRACTICAL) == [bare]
    same = ("verdict", "reason", "scope", "witness", "replay")
    assert [whole[x] for x in same] == [bare[x] for x in same]
    assert _errors(whole)[:1] == _errors(bare)[:1] and set(_errors(whole)) <= set(_errors(bare))


def test_without_advice_nothing_is_tried() -> None:
    """Neither edits of a refuted kernel, nor sizes, a block, or less synchronization."""
    refuted, advised = RULES / "SV210.bad.syncir", RULES / "SV602.bad.syncir"
    assert any(d.repair is not None for d in syncverify.check(refuted)[0].diagnostics)
    assert all(d.repair is None for d in syncverify.check(refuted, advice=False)[0].diagnostics)
    assert [d.rule for d in syncverify.check(advised)[0].diagnostics] == ["SV602"]
    assert syncverify.check(advised, advice=False)[0].diagnostics == ()
    sizes = "kernel k {\n  launch grid [1] block [32]\n  param N : i32\n  assume N >= 0\n"
    sizes += "  if N < 2 {\n    if tid == 0 {\n      bar.sync 0, 64\n    }\n  }\n}\n"
    for advice, note in ((True, ["SV908"]), (False, [])):
        (found,) = syncverify.check(sizes, advice=advice)
        assert [d.rule for d in found.diagnostics if d.rule == "SV908"] == note


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
    "wrong",
    [
        {"policy": "loose"},
        {"scope": "partial"},
        {"kernel": "none"},
        {"facts": {"gird": [1]}},
        {"facts": {"kernel": {"other": {"grid": [1]}}}},
    ],
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
