"""What the reports of the two-async-warps family say beyond verdict, rule and line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from syncverify.base.diagnostics import Claim, Diagnostic, KernelReport, Severity
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse_file
from tests.corpus.entries import CORPUS


def _report(name: str) -> tuple[KernelReport, list[str]]:
    path = CORPUS / "two_async_warps" / f"{name}.syncir"
    (kernel,) = parse_file(path)
    return check_kernel(kernel, file=str(path)), path.read_text(encoding="utf-8").splitlines()


def _said(diagnostics: Iterable[Diagnostic]) -> str:
    return "\n".join([d.message + " " + " ".join(r.text for r in d.related) for d in diagnostics])


def _blames_full_barrier(report: KernelReport) -> bool:
    """Whether an error says that the count of a full barrier (bar[0], bar[1]) is wrong."""
    errors = [d for d in report.diagnostics if d.severity == Severity.ERROR]
    return any(d.rule in ("SV202", "SV203") and re.search(r"bar\[[01]\]", d.message) for d in errors)


def test_the_report_as_generated_names_the_three_mistakes() -> None:
    report, lines = _report("v1_as_generated")
    assert report.witness is not None
    assert report.witness.claim == Claim.HANG
    said = _said(report.diagnostics)
    assert "320 arrivals" in said and "256" in said
    assert re.search(r"warps? ?10", said), "the idle warps, by name"
    pointed = {span.line for d in report.diagnostics for span in (d.span, *(r.span for r in d.related))}
    prefills = [n for n, text in enumerate(lines, 1) if "mbarrier.arrive bar[2 + s]" in text]
    assert len(prefills) == 2 and set(prefills) <= pointed, "both prefill loops"
    dead = next(n for n, text in enumerate(lines, 1) if "bulk.load rb" in text)
    assert dead in pointed, "the load that is never issued"


def test_the_shared_full_barrier_is_blamed_for_count_1_only() -> None:
    for name in ("v1_as_generated", "v2_prefill_once", "v3_second_load_mended", "v4_idle_warps_leave"):
        assert not _blames_full_barrier(_report(name)[0]), name
    assert _blames_full_barrier(_report("v7_shared_barrier_count_1")[0])


def test_a_hang_has_one_root_beside_the_latent_errors() -> None:
    for name in ("v1_as_generated", "v2_prefill_once", "v3_second_load_mended"):
        rules = [d.rule for d in _report(name)[0].diagnostics if d.severity == Severity.ERROR]
        assert sorted(rules[1:]) == ["SV205", "SV304"], name
