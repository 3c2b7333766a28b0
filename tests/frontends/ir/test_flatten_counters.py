"""Flat counts of nested loops: the same events as before, proofs for every size, and wrong relatives."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.checker.explain.counterexample import canonical
from syncverify.checker.outcome import Budget
from syncverify.driver.certificates import certify, dumps, recheck
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir.flatten_counters import with_flat_counters
from syncverify.frontends.ir.systems import IrSystem, systems
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.parametric.brute import bare, brute, disagreement, fallback, ring

_RING = """kernel ring {{
  launch grid [1] block [64]
  param T : i32
  param K : i32
  tensor a : f32[T * K * 64 + 64] in
{ring}  role producer warps 1..2 {{
    elect p
    if p {{
      {loads} {{
        let c = {load}
        mbarrier.wait empty[c % 3], (c // 3 + 1) % 2
        mbarrier.arrive.expect_tx full[c % 3], 256
        bulk.load tile[c % 3], a[(t * K + k) * 64 : 64], full[c % 3]
      }}
      {ends}
    }}
  }}
  role consumer warps 0..1 {{
    {loops} {{
      let c = {use}
      mbarrier.wait full[c % 3], (c // 3) % 2
      ld.shared x, tile[c % 3][tid * 2 : 2]
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[c % 3]
    }}
    {end}
  }}
}}
"""
_LOOPS = "for t in 0..T {\nfor k in 0..K"


def _ring(
    load: str = "(t * K + k) % 12", use: str = "(t * K + k) % 12", loads: str = _LOOPS, loops: str = _LOOPS,
    end: str = "}",
) -> str:  # fmt: skip
    return _RING.format(ring=ring(3), loads=loads, load=load, ends="}", loops=loops, use=use, end=end)


GOOD = {
    "as it is": _ring(),
    "written otherwise": _ring("(k + K * t) % 12", "(12 + t * K + k) % 12"),
    "a name for the tile's first": _ring(
        "(base + k) % 12", loads="for t in 0..T {\nlet base = t * K\nfor k in 0..K"
    ),
    "a lap and more": _ring("(t * K + k + 6) % 6", "(t * K + k) % 18"),
}
#: What is refuted.
BAD = {
    "one more": _ring(use="(t * K + k + 1) % 12"),
    "longer tiles": _ring("(t * (K + 1) + k) % 12", "(t * (K + 1) + k) % 12"),
    "the other way round": _ring("(k * T + t) % 12", "(k * T + t) % 12"),
}
#: Sums that are no counts of iterations: never rewritten.
OTHER = {
    "from one on": _ring(loads=_LOOPS.replace("t in 0", "t in 1"), loops=_LOOPS.replace("t in 0", "t in 1")),
    "every second": _ring(loads=_LOOPS.replace("0..T", "0..T step 2")),
    "inner turns that are left out": _ring(loops="for t in 0..T {\nfor k in 1..K"),
    "tiles that are left out": _ring(
        loops="for t in 0..T {\nif t != 1 {\nfor k in 0..K", end="}\n}"
    ),
    "another product beside it": _ring(end="if t * K > 5 {\nwarp.sync\n}\n}"),
    "a size that a name hides": _ring("(t * K + k) % 12", loads=_LOOPS.replace("t in", "K in")),
    "a variable that a name hides": _ring(
        "(t * K + c) % 12", loads="for t in 0..T {\nfor c in 0..K"
    ),
}  # fmt: skip


def _parsed(text: str) -> Kernel:
    (kernel,) = parse(text, "ring")
    return kernel


def _report(text: str) -> KernelReport:
    return check_kernel(_parsed(text), scope=ScopeKind.ALL)


def _events(kernel: Kernel, values: dict[str, int]) -> list[list[tuple[object, ...]]]:
    """The events of each system, class by class, without their places in the source."""
    out = []
    for system in systems(kernel, values):
        assert isinstance(system, IrSystem)
        run, _ = canonical(system, Budget(), 32)
        out.append([(who, event[0], *event[2:]) for who, event in run.trace if event])
    return out


@pytest.mark.parametrize("text", [*GOOD.values(), *BAD.values()])
def test_the_events_are_the_same(text: str) -> None:
    kernel = _parsed(text)
    for values in ({"T": t, "K": k} for t in (0, 1, 2, 4) for k in (-1, 0, 1, 3, 7)):
        assert _events(kernel, values) == _events(with_flat_counters(kernel), values)


@pytest.mark.parametrize("name", GOOD)
def test_rings_that_count_flat(name: str) -> None:
    kernel = _parsed(GOOD[name])
    assert with_flat_counters(kernel) != kernel
    report = _report(GOOD[name])
    assert (report.verdict, report.scope.kind, fallback(report)) == (Verdict.PROVED, ScopeKind.ALL, None)
    assert disagreement(kernel, report, brute(kernel, laps=1, most=6)) is None


@pytest.mark.parametrize("name", BAD)
def test_rings_that_do_not(name: str) -> None:
    kernel = _parsed(BAD[name])
    report = check_kernel(bare(kernel), scope=ScopeKind.ALL)
    assert report.verdict is Verdict.REFUTED
    assert disagreement(kernel, report, brute(kernel, laps=1, most=6)) is None


@pytest.mark.parametrize("name", OTHER)
def test_other_sums_stay(name: str) -> None:
    kernel = _parsed(OTHER[name])
    assert with_flat_counters(kernel) == kernel


def test_its_certificate() -> None:
    kernel = _parsed(GOOD["as it is"])
    text = dumps([certify(kernel, check_kernel(kernel, scope=ScopeKind.ALL))])
    (done,) = recheck(text, "c.json", {kernel.name: kernel})
    assert (done.kind, done.scope) == ("sizes", ScopeKind.ALL)
