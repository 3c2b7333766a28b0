"""Small launches before the search for every size: they refute kernels whose states never repeat."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import Replayed, ScopeKind, Severity, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.driver.ptx import every_size

KERNEL = Path(__file__).parents[3] / "corpus" / "gallery" / "authors" / "persistent_phase.cu"


def test_a_parity_that_starts_again_with_each_tile_is_found_at_two_tiles() -> None:
    (report,) = check_source(read_source(KERNEL), scope=ScopeKind.ALL, replay=False, repairs=False)
    assert report.verdict is Verdict.REFUTED
    assert report.scope.named_values["tiles"] == 2 and report.scope.named_values["k_tiles"] == 1
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    line = KERNEL.read_text("utf-8").splitlines()[first.span.line - 1]
    assert first.rule == "SV201" and "mbar_wait(&full[stage], phase)" in line


ALIKE = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64, 1, 1
{
  .reg .b32 %r<6>;
  .shared .align 16 .b8 slot[1024];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, slot;
  and.b32 %r4, %r1, 252;
  add.u32 %r4, %r4, %r3;
  st.shared.u32 [%r4], %r2;
  ret;
}
"""


def test_numbers_that_satisfy_what_is_assumed_are_tried() -> None:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": {"0": "n"}, "assume": ["n >= 7", "n % 2 == 0"]}}}
    (report,) = syncverify.check(ALIKE, facts=facts, scope="all", advice=False)
    assert report.verdict is Verdict.REFUTED and report.scope.values["params.0"] == 8
    assert report.replay is not None and report.replay.outcome is Replayed.REPRODUCED


BY_A_DIFFERENCE = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m)
.reqntid 64, 1, 1
{
  .reg .b32 %r<10>; .reg .pred %p<3>;
  .shared .align 16 .b8 slot[1024];
  ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m]; sub.u32 %r6, %r1, %r2;
  mov.u32 %r3, %tid.x; mov.u32 %r4, slot; mad.lo.u32 %r5, %r3, 4, %r4; mov.u32 %r8, 0;
  xor.b32 %r7, %r3, OTHER; mad.lo.u32 %r7, %r7, 4, %r4;
TURN:
  setp.ge.s32 %p1, %r8, %r6; @%p1 bra END;
  st.shared.u32 [%r5], %r8; bar.sync 0; ld.shared.u32 %r9, [%r7];
  add.u32 %r8, %r8, 1; bra TURN;
END:
  ret;
}
"""


@pytest.mark.parametrize(("other", "verdict"), [("32", Verdict.REFUTED), ("0", Verdict.PROVED)])
def test_sizes_that_differ_are_tried(other: str, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    if verdict is Verdict.REFUTED:
        monkeypatch.setattr(every_size, "_searched", None)  # it comes before
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": {"0": "n", "1": "m"}}}}
    text = BY_A_DIFFERENCE.replace("OTHER", other)
    (report,) = syncverify.check(text, facts=facts, scope="all", advice=False)
    assert report.verdict is verdict, report.reason


THRESHOLD = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64, 1, 1
{
  .reg .b32 %r<10>; .reg .pred %p<3>;
  .shared .align 16 .b8 slot[256];
  ld.param.u32 %r1, [n]; mov.u32 %r3, %tid.x; mov.u32 %r4, slot; mad.lo.u32 %r5, %r3, 4, %r4;
  xor.b32 %r7, %r3, OTHER; mad.lo.u32 %r7, %r7, 4, %r4; mov.u32 %r8, 0;
  st.shared.u32 [%r5], %r3;
  setp.gt.s32 %p1, %r1, 1000; @%p1 bra OVER;
  bar.sync 0;
OVER:
  ld.shared.u32 %r9, [%r7];
TURN:
  add.u32 %r8, %r8, 1; setp.lt.s32 %p2, %r8, %r1; @%p2 bra TURN;
  ret;
}
"""


@pytest.mark.parametrize(("other", "verdict"), [("32", Verdict.REFUTED), ("0", Verdict.PROVED)])
def test_constants_that_sizes_are_compared_with_are_tried(other: str, verdict: Verdict) -> None:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": {"0": "n"}}}}
    (report,) = syncverify.check(THRESHOLD.replace("OTHER", other), facts=facts, scope="all", advice=False)
    assert report.verdict is verdict, report.reason
    assert verdict is Verdict.PROVED or report.scope.values["params.0"] == 1001
