"""Where a class does something that cannot be followed, the others go on: what they do wrong is wrong."""

from __future__ import annotations

from syncverify.base.diagnostics import KernelReport, Severity, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse

KERNEL = """\
kernel k {
  launch grid [1] block [96]
  tensor a : i32[4] in
  shared tile : i32[32]
  if warp == 0 {
    let n = load a[0]
    for i in 0..n {
      bar.sync 1, 32
    }
  } else {
    OTHERS
  }
}
"""


def _report(others: str) -> KernelReport:
    (kernel,) = parse(KERNEL.replace("OTHERS", others), "k.syncir")
    return check_kernel(kernel)


def test_a_race_beside_it_refutes() -> None:
    report = _report("st.shared tile[][lane : 1], 1")
    assert report.verdict is Verdict.REFUTED
    assert [d.rule for d in report.diagnostics if d.severity is Severity.ERROR] == ["SV112"]
    assert report.witness is not None
    assert [d.rule for d in report.diagnostics if d.severity is Severity.WARNING] == ["SV901"]


def test_nothing_wrong_beside_it_decides_nothing() -> None:
    report = _report("if warp == 1 {\n st.shared tile[][lane : 1], 1\n }")
    assert report.verdict is Verdict.UNKNOWN


def test_who_waits_for_it_does_not_hang() -> None:
    assert _report("bar.sync 0, 96").verdict is Verdict.UNKNOWN


def test_what_comes_after_a_barrier_with_it_is_not_reached() -> None:
    assert _report("bar.sync 0, 96\n st.shared tile[][lane : 1], 1").verdict is Verdict.UNKNOWN
