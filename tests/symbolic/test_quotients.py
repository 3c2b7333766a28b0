"""Quotients of sizes by sizes: loops whose step is a size, and divisors of any sign."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.certificates import certify, dumps, recheck
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.parametric.brute import brute, disagreement, fallback, ring

_KERNEL = """kernel steps {{
  launch grid [1] block [64]
  param N : i32
  param D : i32
  {assumes}
  tensor a : f32[64] in
{ring}  role producer warps 1..2 {{
    elect p
    if p {{
      let n = 0
      {producer} {{
        mbarrier.wait empty[{i} % 2], ({i} / 2 + 1) % 2
        mbarrier.arrive.expect_tx full[{i} % 2], 256
        bulk.load tile[{i} % 2], a[0 : 64], full[{i} % 2]
        n = n + 1
      }}
    }}
  }}
  role consumer warps 0..1 {{
    let n = 0
    {consumer} {{
      mbarrier.wait full[n % 2], (n / 2) % 2
      ld.shared x, tile[n % 2][tid * 2 : 2]
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[n % 2]
      n = n + 1
    }}
  }}
}}
"""


def _text(producer: str, consumer: str, *assumes: str, i: str = "n") -> str:
    facts = "\n  ".join(f"assume {f}" for f in assumes)
    text = _KERNEL.format(ring=ring(2), producer=producer, consumer=consumer, assumes=facts, i=i)
    return text.replace("/", "//")


_STEPS = "for i in 0..N step D"
GOOD = {
    "rounded up": _text(_STEPS, "for j in 0..cdiv(N, D)", "N >= 0", "D >= 1"),
    "rounded up, none below 0": _text(_STEPS, "for j in 0..cdiv(N, D)", "D >= 1"),
    "rounded up by hand": _text(_STEPS, "for j in 0..((N + D - 1) / D)", "N >= 0", "D >= 1"),
    "from one": _text("for i in 1..N step D", "for j in 0..cdiv(N - 1, D)", "N >= 1", "D >= 1"),
    "the first is left out": _text(
        "for i in D..N step D", "for j in 1..cdiv(N, D)", "N >= 0", "D >= 1", i="(i / D - 1)"
    ),
    "indexed by the quotient": _text(_STEPS, "for j in 0..cdiv(N, D)", "N >= 0", "D >= 1", i="(i / D)"),
    "both in steps": _text(_STEPS, "for j in 0..N step D", "D >= 1"),
    "below 0": _text("for i in 0..(-N / D)", "for j in 0..(-N / D)", "D >= 2"),
    "of any sign": _text("for i in 0..((2 * N) / D)", "for j in 0..((2 * N) / D)", "D != 0"),
}
BAD = {
    "rounded down": _text(_STEPS, "for j in 0..(N / D)", "N >= 0", "D >= 1"),
    "one more": _text(_STEPS, "for j in 0..(N / D) + 1", "N >= 0", "D >= 1"),
    "of one more": _text(_STEPS, "for j in 0..cdiv(N + 1, D)", "N >= 0", "D >= 1"),
    "by one less": _text(_STEPS, "for j in 0..cdiv(N, max(D - 1, 1))", "N >= 0", "D >= 1"),
    "the last is left out from the fifth on": _text(
        _STEPS, "for j in 0..cdiv(N, D) - min(N / (4 * D), 1)", "N >= 0", "D >= 1"
    ),
    "negative divisor": _text("for i in 0..1 + min(N / D, 0)", "for j in 0..1", "N >= 1", "D <= -1"),
    "rest of a negative divisor": _text(
        "for i in 0..min(N % D, 0) + 1", "for j in 0..1", "N >= 1", "D <= -1"
    ),
    "divisor of any sign": _text("for i in 0..1 + min(N / D, 0)", "for j in 0..1", "N >= 1", "D != 0"),
}


@pytest.mark.parametrize("name", GOOD)
def test_turns_are_counted(name: str) -> None:
    (kernel,) = parse(GOOD[name], name)
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert (report.verdict, fallback(report)) == (Verdict.PROVED, None)
    assert disagreement(kernel, report, brute(kernel, laps=2, most=40)) is None
    recheck(dumps([certify(kernel, report)]), "c.json", {kernel.name: kernel})


@pytest.mark.parametrize("name", BAD)
def test_wrong_turns_are_refuted(name: str) -> None:
    (kernel,) = parse(BAD[name], name)
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert report.verdict is Verdict.REFUTED
    assert disagreement(kernel, report, brute(kernel, laps=2, most=40)) is None
