"""Lanes of one warp that part at every length: all of them are distinguished at once."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.checker.prover.parametric import attempt
from syncverify.checker.prover.parametric.lane_splits import MOST_PARTS, refined
from syncverify.driver.certificates import certify, dumps, recheck
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.model.events import LaneSplit
from tests.checker.prover.parametric.brute import brute, fallback

_REVERSED = """kernel reversed {{
  launch grid [1] block [64]
  param LEN : i32 = 64
  assume LEN % 2 == 0
  tensor a : f32[LEN] in
  tensor out : f32[LEN] out
  shared tile : f32[128]

  if tid * 2 < LEN {{
    ld.global x, a[tid * 2 : 2]
    st.shared tile[][tid * 2 : 2], x
  }}
  {between}
  if tid * 2 < LEN {{
    let last = min(128, LEN)
    ld.shared y, tile[][last - 2 - tid * 2 : 2]
    st.global out[tid * 2 : 2], y
  }}
}}
"""


def kernel(between: str) -> Kernel:
    (found,) = parse(_REVERSED.format(between=between), "reversed.syncir")
    return found


@pytest.fixture
def splits(monkeypatch: pytest.MonkeyPatch) -> list[LaneSplit]:
    """All splits that explorations come to."""
    found: list[LaneSplit] = []
    monkeypatch.setattr(attempt, "refined", lambda system, s: found.append(s) or refined(system, s))
    return found


def test_every_length_is_proved_after_few_splits(splits: list[LaneSplit]) -> None:
    good = kernel("bar.sync 0")
    report = check_kernel(good, scope=ScopeKind.ALL)
    assert (report.verdict, fallback(report)) == (Verdict.PROVED, None)
    assert len(splits) == 2 * MOST_PARTS  # of two warps
    assert brute(good, most=70).refuted == []
    (done,) = recheck(dumps([certify(good, report)]), "c.json", {good.name: good})
    assert done.met.counts["systems"] == 1


@pytest.mark.parametrize(
    ("between", "smallest"),
    [("warp.sync", 66), ("if LEN != 46 { bar.sync 0 }", 46), ("if LEN != 128 { bar.sync 0 }", 128)],
)
def test_one_length_that_fails_is_found(between: str, smallest: int) -> None:
    report = check_kernel(kernel(between), scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.values) == (Verdict.REFUTED, {"LEN": smallest})
