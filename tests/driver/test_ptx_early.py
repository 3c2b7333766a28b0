"""Small launches before the search for every size: they refute kernels whose states never repeat."""

from __future__ import annotations

from pathlib import Path

from syncverify.base.diagnostics import ScopeKind, Severity, Verdict
from syncverify.driver.files import check_source, read_source

KERNEL = Path(__file__).parents[2] / "corpus" / "gallery" / "authors" / "persistent_phase.cu"


def test_a_parity_that_starts_again_with_each_tile_is_found_at_two_tiles() -> None:
    (report,) = check_source(read_source(KERNEL), scope=ScopeKind.ALL, replay=False)
    assert report.verdict is Verdict.REFUTED
    assert report.scope.named_values["tiles"] == 2 and report.scope.named_values["k_tiles"] == 1
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    line = KERNEL.read_text("utf-8").splitlines()[first.span.line - 1]
    assert first.rule == "SV201" and "mbar_wait(&full[stage], phase)" in line
