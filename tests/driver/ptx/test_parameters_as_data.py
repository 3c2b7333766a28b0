"""Sizes as data, where the search over them ends undecided: loops that share out words of shared memory."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.checker.prover.parametric.result import ParametricResult
from syncverify.driver.ptx import every_size

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m)
.reqntid 64, 1, 1
{{
  .reg .pred %p<6>; .reg .b32 %r<9>, %n, %m, %t, %s, %v;
  .shared .align 4 .b8 words[1024];
  ld.param.u32 %n, [n];
  ld.param.u32 %m, [m];
  mov.u32 %t, %tid.x;
  mov.u32 %s, words;
  mov.u32 %r1, %t;
STORE:
  setp.ge.u32 %p1, %r1, %n;
  @%p1 bra STORED;
  mad.lo.u32 %r2, %r1, 4, %s;
  st.shared.u32 [%r2], %t;
  {stored}
  add.u32 %r1, %r1, {stride};
  bra STORE;
STORED:
  {barrier}
  {before}
LOAD:
  setp.ge.u32 %p2, %r3, %n;
  @%p2 bra LOADED;
  mad.lo.u32 %r4, %r3, 4, %s;
  {access}
  add.u32 %r3, %r3, 64;
  bra LOAD;
LOADED:
  ret;
}}
"""
RIGHT = {
    "stored": "",
    "stride": "64",
    "barrier": "bar.sync 0;",
    "before": "xor.b32 %r3, %t, 1;",
    "access": "ld.shared.u32 %v, [%r4];",
}
WRONG = {
    "no barrier": {"barrier": ""},
    "no barrier for some sizes": {"barrier": "setp.gt.u32 %p3, %n, 100; @%p3 bra LATE; bar.sync 0; LATE:"},
    "no barrier for some threads": {"barrier": "setp.lt.u32 %p3, %t, %m; @%p3 bra LATE; bar.sync 0; LATE:"},
    "a barrier in the loop": {"stored": "bar.sync 0;"},
    "a word at the end of another": {"stride": "63"},
    "a stride that is a size": {"stride": "%m"},
    "stores in another order": {"access": "st.shared.u32 [%r4], 1;", "barrier": ""},
}  # fmt: skip


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search over sizes decides, and no small size is tried."""
    found = ParametricResult(Verdict.UNKNOWN, reason="the search is left out")
    monkeypatch.setattr(every_size, "_searched", lambda k, _: every_size.Attempt(k, found))
    monkeypatch.setattr(every_size, "refuted_early", lambda *_, **__: None)


def _report(**changes: str) -> KernelReport:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": {"0": "n", "1": "m"}}}}
    (report,) = syncverify.check(TEXT.format(**RIGHT | changes), facts=facts, scope="all", advice=False)
    return report


@pytest.mark.usefixtures("undecided")
def test_words_that_are_shared_out_and_read_behind_a_barrier() -> None:
    report = _report()
    assert report.verdict is Verdict.PROVED
    said = [a for a in report.assumptions if "stays inside shared memory" in a]
    assert len(said) == 2  # the store and the load


@pytest.mark.usefixtures("undecided")
@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_not_proved(what: str) -> None:
    assert _report(**WRONG[what]).verdict is not Verdict.PROVED


@pytest.mark.usefixtures("undecided")
def test_small_sizes_refute_first() -> None:
    assert _report(**WRONG["no barrier"]).verdict is Verdict.REFUTED
