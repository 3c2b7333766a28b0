"""A report with every shape that the formats must handle, made by hand, without the checker."""

from __future__ import annotations

from pathlib import Path

from syncverify.base.diagnostics import (
    Blocked,
    Claim,
    Diagnostic,
    KernelReport,
    Label,
    Policy,
    Scope,
    ScopeKind,
    Severity,
    Step,
    Verdict,
    Witness,
)
from syncverify.base.source import Span
from syncverify.report.base import Report

SOURCE = """\
kernel ring {
  launch grid [1] block [64]
  mbarrier full
  mbarrier.wait full, 0   // "never" & <never>
  mbarrier.arrive full
}
"""


def make_report(directory: Path) -> Report:
    """One refuted kernel with a witness, one unknown, one proved with a warning."""
    file = str(directory / "ring.syncir")
    Path(file).write_text(SOURCE)
    wait = Span(file, 4, 3, 4, 24)
    arrive = Span(file, 5, 3, 5, 23)
    hang = Diagnostic(
        "SV210",
        Severity.ERROR,
        "cta0.warp0.lanes0-31 waits for ever on `full` & co",
        wait,
        fix="arrive before the wait,\nor start with parity 1",
        related=(Label(arrive, "comes only after the wait"),),
    )
    contested = Diagnostic("SV105", Severity.WARNING, "100% unfenced: a, b", arrive, contested="K1")
    placeless = Diagnostic("SV304", Severity.NOTE, "no place for this one")
    witness = Witness(
        Claim.HANG,
        "SV210",
        "nobody arrives on full",
        tuple(Step("cta0.warp1.lanes0", arrive, f"step {i}", "full", i) for i in range(8)),
        (Blocked("cta0.warp0.lanes0-31", wait, "full", 0, "0 of 1 arrivals came"),),
        kernel="ring",
        file=file,
        source_hash="ab" * 32,
        values={"N": 8},
        block=(1, 0, 0),
        elected_lane=1,
        grid=(4, 1, 1),
        registers=168,
    )
    exact = Scope(ScopeKind.EXACT, {"N": 8}, ("N >= 1",))
    return Report(
        Policy.PRACTICAL,
        (
            KernelReport(
                "ring", file, Verdict.REFUTED, Policy.PRACTICAL, exact, seconds=0.25, witness=witness,
                diagnostics=(hang, contested, placeless),
            ),
            KernelReport(
                "lost", file, Verdict.UNKNOWN, Policy.PRACTICAL, Scope(ScopeKind.EXACT),
                reason="no value for N",
            ),
            KernelReport(
                "fine", file, Verdict.PROVED, Policy.PRACTICAL, Scope(ScopeKind.ALL),
                diagnostics=(contested,),
            ),
        ),
        {0: "out/ring.json"},
    )  # fmt: skip
