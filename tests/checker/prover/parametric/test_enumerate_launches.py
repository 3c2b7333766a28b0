"""Kernels that have few launches, each checked by itself: every one of them, and what nothing reads."""

from __future__ import annotations

import json

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.prover.parametric.enumerate_launches import launches, mentioned
from syncverify.driver.certificates import RejectedError, certify, dumps, recheck, resealed
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse, parse_file
from tests.checker.prover.parametric.brute import fallback
from tests.corpus.entries import CORPUS
from tests.driver.certificates.mutate import changed, changes, unordered

_FLAG = """kernel flag {{
  launch grid [{grid}] block [128] cooperative
  param S : i32
  param N : i32
  {assumes}
  tensor ws : f32[N] inout
  tensor count : u32[1] inout
  tensor out : f32[N] out

  elect p
  st.global ws[block * 256 + tid * 2 : 2], 1.0
  bar.sync 0
  if warp == 0 and p {{
    {raises}
      atom.global.add.release.gpu count[0], 1
    }}
  }}
  if block == 0 {{
    if warp == 0 and p {{
      spin.global.acquire.gpu count[0] >= {count}
    }}
    bar.sync 0
    ld.global y, ws[{at} + tid * 2 : 2]
    st.global out[tid * 2 : 2], y
  }}
}}
"""


def _flag(
    grid: str = "S", count: str = "S", at: str = "0", raises: str = "if S >= 1 {", upto: str = "S <= 4"
) -> str:
    facts = f"assume S >= 2\n  assume {upto}"
    return _FLAG.format(grid=grid, count=count, at=at, raises=raises, assumes=facts)


FEW = {
    "every count": _flag(),
    "a range from both sides": _flag(upto="5 > S"),
    "a further fact": _flag(upto="S <= 9 and S % 3 == 0"),
}
WRONG = {
    "at the last": _flag(raises="if S < 4 or block > 1 {"),
    "in the middle": _flag(raises="if S != 3 or block > 0 {"),
    "one more than there are": _flag(count="S + 1"),
}
OTHERS = {
    "no end": _flag(upto="S >= 0"),
    "an end that nothing says by itself": _flag(upto="S * 2 <= 8"),
    "too many": _flag(upto="S <= 40"),
    "an address": _flag(at="N"),
}


@pytest.mark.parametrize("name", [pytest.param("every count", marks=pytest.mark.slow), *list(FEW)[1:]])
def test_all_launches_are_checked(name: str) -> None:
    (kernel,) = parse(FEW[name], name)
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert (report.verdict, fallback(report)) == (Verdict.PROVED, None)
    data = json.loads(dumps([certify(kernel, report)]))
    (done,) = recheck(json.dumps(data), "c.json", {kernel.name: kernel})
    assert (done.kind, done.scope) == ("few", ScopeKind.ALL)
    every = [c for c in changes(data) if not unordered(*c)]
    parts = [c for c in every if len(c[0]) < 8]
    for path, how in [*every[:: len(every) // 8], *parts[:: len(parts) // 8]]:
        with pytest.raises((RejectedError, InputError)):
            recheck(json.dumps(resealed(changed(data, path, how))), "c.json", {kernel.name: kernel})


@pytest.mark.parametrize("name", WRONG)
def test_each_launch_counts(name: str) -> None:
    (kernel,) = parse(WRONG[name], name)
    assert check_kernel(kernel, scope=ScopeKind.ALL).verdict is Verdict.REFUTED


@pytest.mark.parametrize("name", OTHERS)
def test_what_may_differ_more_is_not_proved(name: str) -> None:
    (kernel,) = parse(OTHERS[name], name)
    assert launches(kernel, {}) is None
    assert fallback(check_kernel(kernel, scope=ScopeKind.ALL)) is not None


def test_a_part_for_other_values_proves_nothing() -> None:
    """A launch left out, or checked twice in place of another."""
    (kernel,) = parse(FEW["every count"], "flag")
    data = json.loads(dumps([certify(kernel, check_kernel(kernel, scope=ScopeKind.ALL))]))
    parts = data["kernels"][0]["proof"]["parts"]
    assert [p["values"]["S"] for p in parts] == [2, 3, 4]
    for wrong in (parts[:2], [*parts[:2], parts[1]], [parts[1], parts[0], parts[2]]):
        data["kernels"][0]["proof"]["parts"] = wrong
        with pytest.raises(RejectedError):
            recheck(json.dumps(resealed(data)), "c.json", {kernel.name: kernel})


def test_what_is_read() -> None:
    (flat,) = parse(FEW["every count"], "flag")
    assert "N" not in mentioned(flat)
    assert "S" in mentioned(flat)
    (mapped,) = parse_file(CORPUS / "idioms/D11_descriptor_update.syncir")
    assert {p.name for p in mapped.params} <= mentioned(mapped)


def test_the_end_of_a_tensor_map_is_read() -> None:
    text = """kernel edge {
      launch grid [1] block [32]
      param N : i32
      tensor a : f32[N, 32] in
      tensormap m of a box [1, 32]
      shared tile : f32[1, 32]
    }"""
    (kernel,) = parse(text, "edge")
    assert "N" in mentioned(kernel)
