"""Each error says what kind of mistake is behind it: for the bad example of each rule, that class."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Severity
from syncverify.driver.files import check_source, read_source
from syncverify.examples import __file__ as examples

RULES = Path(examples).parent / "rules"
CAUSES = {
    "SV101": "missing fence",
    "SV102": "misplaced fence",
    "SV103": "misplaced fence",
    "SV104": "missing wait",
    "SV105": "missing fence",
    "SV110": "missing wait",
    "SV111": "missing barrier",
    "SV112": "missing barrier",
    "SV114": "wrong place or size",
    "SV115": "scope too narrow",
    "SV201": "wrong parity",
    "SV202": "count against arrivers",
    "SV203": "bytes against copies",
    "SV204": "missing barrier",
    "SV205": "use outside of a barrier's life",
    "SV206": "early release",
    "SV208": "use outside of a barrier's life",
    "SV209": "missing wait",
    "SV210": "wrong initial parity",
    "SV211": "missing wait",
    "SV212": "bytes against copies",
    "SV301": "count against arrivers",
    "SV302": "divergence",
    "SV303": "divergence",
    "SV304": "registers against the pool",
    "SV401": "missing wait",
    "SV402": "missing fence",
    "SV403": "misplaced wait",
    "SV501": "missing wait",
    "SV502": "missing fence",
    "SV503": "missing wait",
    "SV504": "missing barrier",
    "SV701": "wrong place or size",
}


@pytest.mark.parametrize("rule", CAUSES)
def test_an_error_has_the_class_of_its_mistake(rule: str) -> None:
    reports = check_source(read_source(RULES / f"{rule}.bad.syncir"))
    errors = [d for r in reports for d in r.diagnostics if d.severity is Severity.ERROR]
    assert all(d.cause is not None for d in errors)
    assert [str(d.cause) for d in errors if d.rule == rule][:1] == [CAUSES[rule]]
    assert all(d.cause is d.repair.mistake for d in errors if d.repair is not None)


NO_ARRIVE = """kernel k {
  launch grid [2] block [32] cluster [2]
  mbarrier done
  if lane == 0 {
    mbarrier.init done, 1
    fence.mbarrier_init
  }
  cluster.wait
}
"""


def test_a_wait_for_a_cluster_without_arrival_shows_the_inits_that_it_belongs_behind(tmp_path: Path) -> None:
    path = tmp_path / "k.syncir"
    path.write_text(NO_ARRIVE, "utf-8")
    (report,) = check_source(read_source(path))
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert (first.rule, first.span.line) == ("SV302", 8)
    assert (6, "an arrival at the cluster's barrier belongs behind this") in [
        (label.span.line, label.text) for label in first.related
    ]


ARRIVED_IN_VAIN = """kernel k {
  launch grid [1] block [64]
  shared t : f32[32] align 128
  mbarrier turn
  if tid == 0 {
    mbarrier.init turn, 32
  }
  bar.sync 0
  if warp == 0 {
    st.shared t[][tid:1], 1.0
    mbarrier.arrive turn
  } else {
    WAIT
    ld.shared x, t[][lane:1]
  }
}
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (ARRIVED_IN_VAIN.replace("    WAIT\n", ""), "missing wait"),
        (ARRIVED_IN_VAIN.replace("WAIT", "mbarrier.wait turn, 0"), None),
    ],
)
def test_who_ignores_arrivals_lacks_a_wait(text: str, cause: str | None, tmp_path: Path) -> None:
    path = tmp_path / "k.syncir"
    path.write_text(text, "utf-8")
    (report,) = check_source(read_source(path))
    first = next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)
    assert (None if first is None else str(first.cause)) == cause


def test_a_block_that_may_not_run_yet_lacks_a_barrier() -> None:
    red = Path(__file__).parents[1] / "red"
    (report,) = check_source(read_source(red / "remote_write_before_start.bad.syncir"))
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert (first.rule, str(first.cause)) == ("SV114", "missing barrier")


TOKENS = """kernel k {
  launch grid [1] block [64]
  shared t : f32[64] align 128
  mbarrier b[2]
  compute one = 1.0
  if tid == 0 {
    mbarrier.init b[0], 64
    mbarrier.init b[1], 64
  }
  bar.sync 0
  let first = mbarrier.arrive b[0]
  mbarrier.wait.token b[0], first
  st.shared t[][tid:1], one
  let other = mbarrier.arrive b[1]
  let next = mbarrier.arrive b[0]
  mbarrier.wait.token b[0], TOKEN
  ld.shared x, t[][63 - tid:1]
}
"""


@pytest.mark.parametrize(("token", "wrong"), [("next", False), ("first", True), ("other", True)])
def test_what_a_wait_by_a_token_needs_is_no_parity(token: str, wrong: bool, tmp_path: Path) -> None:
    path = tmp_path / "k.syncir"
    path.write_text(TOKENS.replace("TOKEN", token), "utf-8")
    (report,) = check_source(read_source(path), repairs=False)
    first = next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)
    assert (first is not None) is wrong
    if first is not None:
        assert (first.rule, first.span.line, str(first.cause)) == ("SV201", 16, "wait by another token")
        assert "token" in first.message and "parity" not in first.message + str(first.fix)


def test_a_token_of_the_phase_before_the_last_is_one_of_another_arrival() -> None:
    red = Path(__file__).parents[1] / "red"
    (report,) = check_source(read_source(red / "stale_token.bad.syncir"), repairs=False)
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert (str(first.cause), "parity" in str(first.fix)) == ("wait by another token", False)
