"""Of a barrier that not all threads come to: the condition that the author wrote around it."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import (
    Diagnostic,
    KernelReport,
    Label,
    Mistake,
    Policy,
    Scope,
    ScopeKind,
    Severity,
    Verdict,
)
from syncverify.base.source import Span
from syncverify.driver.repairs.author_statements import Lines
from syncverify.driver.repairs.conditions import with_condition

TEXT = """\
__device__ void step(int d) {
  {head} {
    float x = part[threadIdx.x - d];
    __syncthreads();
  }
}"""


def _labels(head: str, cause: Mistake, line: int = 4, calls: tuple[Label, ...] = ()) -> list[tuple[int, str]]:
    found = Diagnostic("SV303", Severity.ERROR, "", Span("k.cu", line), cause=cause, related=calls)
    scope = Scope(ScopeKind.ALL)
    report = KernelReport("k", "k.cu", Verdict.REFUTED, Policy.PRACTICAL, scope, diagnostics=(found,))
    text = Lines(TEXT.replace("{head}", head).split("\n"), "cu")
    (first,) = with_condition(report, "k.cu", text).diagnostics
    return [(x.span.line, x.text) for x in first.related]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("if (threadIdx.x >= d)", "only threads for which this holds come to it"),
        ("} else if (a)", "only threads for which this holds come to it"),
        ("} else", "only threads for which the condition above does not hold come to it"),
        ("while (c < cols)", "threads come to it once for each turn that they make here"),
    ],
)
def test_the_condition_around_it_is_shown(head: str, said: str) -> None:
    assert _labels(head, Mistake.DIVERGENCE) == [(2, said)]


def test_other_mistakes_and_places_without_one_stay_as_they_are() -> None:
    assert _labels("if (a)", Mistake.COUNT) == []
    assert _labels("", Mistake.DIVERGENCE) == []


def test_a_call_in_a_condition_counts_where_the_barrier_is_in_a_header() -> None:
    called = Label(Span("k.cu", 4), "called from here")
    found = _labels("if (a)", Mistake.DIVERGENCE, line=99, calls=(called,))
    assert found[0] == (2, "only threads for which this holds come to it")
