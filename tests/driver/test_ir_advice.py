"""Advice is tried out on the changed kernel and costs a bounded number of events."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.driver import ir_advice
from syncverify.driver.ir import check_kernel
from syncverify.driver.ir_advice import advise, exchanges_globally
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse

RULES = Path(__file__).parents[2] / "syncverify" / "examples" / "rules"

LOOP = """\
kernel loop {
  launch block [64]
  param N : i32 = 3
  shared tile : f32[64]
  for i in 0..N {
    st.shared tile[][tid : 1], 1.0
    bar.sync 0
    bar.sync 0
    ld.shared x, tile[][63 - tid : 1]
    bar.sync 0
  }
}
"""


def _kernel(text: str) -> Kernel:
    (kernel,) = parse(text, "k.syncir")
    return kernel


def _advise(kernel: Kernel) -> list[tuple[str, int]]:
    return [(d.rule, d.span.line) for d in advise(kernel, check_kernel(kernel), check_kernel)]


def test_one_of_two_equal_barriers_is_redundant_and_not_the_last() -> None:
    kernel = _kernel(LOOP)
    assert _advise(kernel) == [("SV602", 7)]
    (first,) = advise(kernel, check_kernel(kernel), check_kernel)
    assert first.message == "`bar.sync 0` changes nothing: the kernel is proved without it (for N = 3)"


def test_a_refuted_kernel_gets_none() -> None:
    kernel = _kernel((RULES / "SV110.bad.syncir").read_text("utf-8"))
    report = check_kernel(kernel)
    assert report.verdict is Verdict.REFUTED
    assert advise(kernel, report, check_kernel) == ()


def test_the_number_of_checks_follows_from_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _kernel(LOOP)
    report = check_kernel(kernel)
    calls: list[Kernel] = []

    def count(changed: Kernel) -> KernelReport:
        calls.append(changed)
        return check_kernel(changed)

    monkeypatch.setattr(ir_advice, "MAX_EVENTS", 2 * report.stats["events"])
    advise(kernel, report, count)
    assert len(calls) == 2
    monkeypatch.setattr(ir_advice, "MAX_EVENTS", report.stats["events"] - 1)
    assert advise(kernel, report, count) == ()


def test_fences_leave_nested_loops() -> None:
    text = (RULES / "SV603.bad.syncir").read_text("utf-8")
    text = text.replace("for i in 0..4 {", "for j in 0..1 {\nfor i in 0..4 {", 1)
    text = text.replace("fence.proxy.async.shared_cta\n  }", "fence.proxy.async.shared_cta\n  }\n}", 1)
    assert [rule for rule, _ in _advise(_kernel(text))] == ["SV603"]


@pytest.mark.parametrize(
    ("body", "exchanges"),
    [
        ("st.global a[tid], 1.0\n  ld.global x, b[tid]", False),
        ("st.global a[tid], 1.0\n  bar.sync 0\n  ld.global x, a[63 - tid]", True),
        ("atom.global.add b[0], 1.0", True),
        ("griddep.wait", True),
    ],
)
def test_what_passes_through_global_memory_gets_no_advice(body: str, exchanges: bool) -> None:
    header = "launch block [64]\n  tensor a : f32[64] inout\n  tensor b : f32[64] inout"
    kernel = _kernel(f"kernel k {{\n  {header}\n  {body}\n}}\n")
    assert exchanges_globally(kernel) == exchanges
    if exchanges:
        assert _advise(kernel) == []
