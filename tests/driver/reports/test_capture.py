"""One kernel's check, fenced off: what is left of it when it ends early."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from syncverify.base.deadline import Guard, OutOfTimeError
from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Severity, Verdict
from syncverify.base.reason import Reason, kind_of
from syncverify.base.source import InputError, Span
from syncverify.driver.reports.capture import InterruptedCheck, blank, captured

SPAN = Span("k.ptx", 5)
NOTHING = blank("k", "k.ptx", Policy.PRACTICAL, SPAN)
FOUND = Diagnostic("SV210", Severity.ERROR, "hangs", SPAN)
OPEN = replace(NOTHING, reason=Reason("the branch at line 7 depends on data"), diagnostics=())


def _left(*steps: KernelReport | BaseException) -> KernelReport:
    def run() -> Iterator[KernelReport]:
        for step in steps:
            if isinstance(step, BaseException):
                raise step
            yield step

    return captured(NOTHING, run, Guard(None), SPAN)


def _rules(report: KernelReport) -> list[str]:
    return [d.rule for d in report.diagnostics]


def test_the_last_report_counts() -> None:
    proved = replace(NOTHING, verdict=Verdict.PROVED, reason=None, diagnostics=())
    assert _left(OPEN, proved).verdict is Verdict.PROVED


def test_what_was_found_until_then_is_told() -> None:
    report = _left(OPEN, OutOfTimeError(3, "seconds"))
    assert report.verdict is Verdict.UNKNOWN
    assert report.reason == (
        "the check was ended: it takes more than 3 seconds (--timeout allows more); "
        "until then: the branch at line 7 depends on data"
    )
    assert kind_of(report.reason) == "timeout"
    assert _rules(report) == ["SV907"]


def test_a_refutation_stays_one() -> None:
    refuted = replace(NOTHING, verdict=Verdict.REFUTED, reason=None, diagnostics=(FOUND,))
    report = _left(refuted, OutOfTimeError(3))
    assert (report.verdict, _rules(report)) == (Verdict.REFUTED, ["SV210", "SV907"])


def test_nothing_is_known_before_the_first_step() -> None:
    assert _left(OutOfTimeError(3)).reason == (
        "the check was ended: it takes more than 3 seconds of processor time (--timeout allows more)"
    )


@pytest.mark.parametrize("before", [(), (replace(NOTHING, verdict=Verdict.PROVED, diagnostics=()),)])
def test_a_fault_is_never_a_proof(before: tuple[KernelReport, ...]) -> None:
    report = _left(*before, ZeroDivisionError("oops"))
    assert (report.verdict, kind_of(report.reason)) == (Verdict.UNKNOWN, "internal-fault")
    assert "please report it (ZeroDivisionError: oops" in (report.reason or "")
    assert _rules(report) == ["SV906"]


def test_a_fault_leaves_a_refutation() -> None:
    report = _left(replace(NOTHING, verdict=Verdict.REFUTED, diagnostics=(FOUND,)), ZeroDivisionError("oops"))
    assert (report.verdict, _rules(report)) == (Verdict.REFUTED, ["SV210", "SV906"])


def test_memory_that_is_not_there() -> None:
    assert kind_of(_left(OPEN, MemoryError()).reason) == "memory"


def test_bad_input_is_the_callers() -> None:
    with pytest.raises(InputError):
        _left(InputError("no such size"))


def test_a_refutation_outlives_an_interrupt_while_a_repair_is_looked_for() -> None:
    refuted = replace(NOTHING, verdict=Verdict.REFUTED, reason=None, diagnostics=(FOUND,))
    with pytest.raises(InterruptedCheck) as caught:
        _left(OPEN, refuted, KeyboardInterrupt())
    assert caught.value.report.verdict is Verdict.REFUTED
    assert _rules(caught.value.report) == ["SV210", "SV907"]
    with pytest.raises(KeyboardInterrupt) as plain:
        _left(OPEN, KeyboardInterrupt())
    assert not isinstance(plain.value, InterruptedCheck)
