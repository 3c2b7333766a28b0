"""Calls of an author's function that a finding stands in: of methods that call others, too."""

from __future__ import annotations

from syncverify.base.diagnostics import (
    Diagnostic,
    KernelReport,
    Label,
    Policy,
    Scope,
    ScopeKind,
    Severity,
    Verdict,
)
from syncverify.base.source import Span
from syncverify.driver.repairs.author_statements import Lines
from syncverify.driver.repairs.helper_calls import with_calls

TEXT = """\
class Ring {
  __device__ void acquire(const Where& w) { block(&empty[w.slot], w.lap ^ 1); }
  __device__ void await(const Where& w) { block(&full[w.slot], w.lap); }
  __device__ static void block(uint64_t* b, uint32_t parity) {
    poll(b, parity);
  }
};
__global__ void k(int n) {
  for (int p = 0; p < n; ++p) {
    ring.await(w);
  }
  ring.await(w);
  ring.acquire(w);
}"""


def _labels(line: int, *calls: int) -> list[tuple[int, str]]:
    told = tuple(Label(Span("k.cu", n), "called from here") for n in calls)
    found = Diagnostic("SV201", Severity.ERROR, "", Span("k.cu", line), related=told)
    scope = Scope(ScopeKind.ALL)
    report = KernelReport("k", "k.cu", Verdict.REFUTED, Policy.PRACTICAL, scope, diagnostics=(found,))
    (first,) = with_calls(report, "k.cu", Lines(TEXT.split("\n"), "cu")).diagnostics
    return [(x.span.line, x.text) for x in first.related[len(told) :]]


def test_calls_of_the_last_function_that_is_known() -> None:
    assert _labels(5, 3) == [(10, "await is called here"), (12, "await is called here")]
    assert _labels(2) == [(13, "acquire is called here")]


def test_calls_through_others() -> None:
    assert [n for n, _ in _labels(5)] == [10, 12, 13]


def test_a_finding_in_a_kernel_has_its_place() -> None:
    assert _labels(10) == []
    assert _labels(5, 3, 10) == []  # the call is known
