"""Kernels checked in the process that compiles them: at once, each once, with a report or an exception."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from syncverify.api import check
from syncverify.base.diagnostics import KernelReport, Policy, Verdict
from syncverify.base.source import InputError
from syncverify.report.base import Report
from syncverify.report.text import render
from syncverify.watch.caught import Caught

#: What to do with a kernel that is not proved: write a report on stderr, raise, or only keep the report.
Action = Literal["report", "raise", "collect"]
#: Seconds that one check may take.
SECONDS = 60.0


class UnverifiedKernelError(Exception):
    """A kernel that a compiler made is refuted, or undecided where that counts. The text is its report."""

    def __init__(self, reports: list[KernelReport], text: str) -> None:
        super().__init__(text)
        self.reports = reports


@dataclass(slots=True)
class Session:
    """A sink that checks. ``reports``: of all kernels so far, each once; ``met``: in the order in which they
    came, as often as they came; ``faults``: what could not be checked.

    ``unknown``: whether an undecided kernel passes, or fails as a refuted one does.
    """

    action: Action = "report"
    policy: Policy = Policy.PRACTICAL
    unknown: Literal["pass", "fail"] = "pass"
    seconds: float = SECONDS
    write: Callable[[str], Any] = field(default=lambda text: sys.stderr.write(text))
    paused: bool = False  # kernels are not looked at
    reports: list[KernelReport] = field(default_factory=list)
    met: list[KernelReport] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    _known: dict[str, list[KernelReport]] = field(default_factory=dict)
    _folder: TemporaryDirectory[str] | None = None  # where findings can be looked up while the process runs
    _busy: threading.local = field(default_factory=threading.local)

    def __call__(self, caught: Caught) -> None:
        """Checks a kernel. Raises UnverifiedKernelError where the action is ``raise``."""
        if self.paused or getattr(self._busy, "here", False):
            return  # a check of a CUDA source compiles it: that is no kernel of the program
        key = f"{caught.key} {self.policy}"
        found = self._known.get(key)
        if found is None:
            self._busy.here = True
            try:
                found = self._checked(caught)
            except InputError as e:
                self.faults.append(f"{caught.compiler} kernel {caught.name or '(unnamed)'}: {e}")
                self.write(f"syncverify: not checked: {self.faults[-1]}\n")
                found = []
            finally:
                self._busy.here = False
            self._known[key] = found
            self.reports += found
            self._tell([r for r in found if r.verdict is not Verdict.PROVED])
        self.met += found
        bad = [r for r in found if self.fails(r)]
        if bad and self.action == "raise":
            raise UnverifiedKernelError(bad, self.text(bad))

    def fails(self, report: KernelReport) -> bool:
        """Whether a verdict is one that the session does not let pass."""
        undecided = report.verdict is Verdict.UNKNOWN and self.unknown == "fail"
        return report.verdict is Verdict.REFUTED or undecided

    def summary(self) -> str:
        """One line: how many kernels were checked, with which verdicts."""
        counts = Report(self.policy, tuple(self.reports)).counts
        said = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n) or "none checked"
        more = f", {len(self.faults)} not checked" if self.faults else ""
        return f"syncverify: {len(self.reports)} kernels compiled: {said}{more}"

    def _checked(self, caught: Caught) -> list[KernelReport]:
        self._folder = self._folder or TemporaryDirectory(prefix="syncverify-")
        file = Path(self._folder.name) / f"{caught.stem}.{caught.kind}"
        file.write_text(caught.text, "utf-8")
        reports = self._check(file, caught, dict(caught.facts))
        undecided = any(r.verdict is Verdict.UNKNOWN for r in reports)
        if undecided and caught.grid is not None and len(reports) == 1:
            again = self._check(file, caught, {**caught.facts, "grid": list(caught.grid)})
            reports = again if again[0].verdict is not Verdict.UNKNOWN else reports
        return reports

    def _check(self, file: Path, caught: Caught, facts: dict[str, Any]) -> list[KernelReport]:
        from syncverify.watch.options import cuda_options

        cuda = cuda_options(caught.options)
        tables = {"kernel": {caught.name or "*": facts}}
        return check(file, facts=tables, policy=self.policy, timeout=self.seconds, cuda=cuda)

    def _tell(self, reports: list[KernelReport]) -> None:
        if reports and self.action == "report":
            self.write(self.text(reports))

    def text(self, reports: list[KernelReport]) -> str:
        """Reports for people."""
        return render(Report(self.policy, tuple(reports)))
