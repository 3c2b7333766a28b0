"""Progress on a terminal, and completion for shells."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, Scope, ScopeKind, Verdict
from syncverify.cli.progress import Progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _report(name: str, verdict: Verdict) -> KernelReport:
    return KernelReport(name, "k.ptx", verdict, Policy.PRACTICAL, Scope(ScopeKind.ALL))


def test_what_is_not_proved_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal())
    progress = Progress(2)
    progress.input_done("k.ptx", [_report("a", Verdict.PROVED), _report("b", Verdict.REFUTED)])
    progress.over()
    assert sys.stderr.getvalue() == "\r\x1b[Kk.ptx: b: refuted\n[1/2] k.ptx\r\x1b[K"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("terminal", "inputs"), [(io.StringIO(), 2), (_Terminal(), 1)])
def test_nothing_where_nobody_looks(
    terminal: io.StringIO, inputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress(inputs)
    progress.input_done("k.ptx", [_report("b", Verdict.REFUTED)])
    progress.over()
    assert terminal.getvalue() == ""


def test_options_are_completed() -> None:
    variable = "_SYNCVERIFY_COMPLETE"
    done = subprocess.run(
        [sys.executable, "-m", "syncverify"], capture_output=True, text=True,
        env={"COMP_WORDS": "syncverify check --stat", "COMP_CWORD": "2", variable: "bash_complete"},
    )  # fmt: skip
    assert done.stdout.split() == ["plain,--statistics"]
