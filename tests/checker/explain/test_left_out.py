"""Barriers of threads in code that not all threads execute: the finding names them, not what they lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Diagnostic, Mistake, Severity, Verdict
from syncverify.driver.files import check_source, read_source

KERNEL = """kernel k {{
  launch grid [1] block [128]
  tensor out : f32[128] out
  shared tile : f32[128]
  compute one = 1.0
  if warp < 2 {{
    st.shared tile[][tid * 2 : 2], one
    {lower}
  }} else {{
    {upper}
  }}
  {all}
  ld.shared x, tile[][tid : 1]
  {behind}
  {last}
  st.global out[tid], x
}}
"""
LOWER, UPPER, ALL, BEHIND, LAST = 8, 10, 12, 14, 15
SYNC = "bar.sync 0"


def _checked(tmp_path: Path, **parts: str) -> tuple[Verdict, Diagnostic | None]:
    names = ("lower", "upper", "all", "behind", "last")
    (path := tmp_path / "k.syncir").write_text(KERNEL.format(**{**dict.fromkeys(names, ""), **parts}))
    (report,) = check_source(read_source(path), repairs=False)
    return report.verdict, next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)


@pytest.mark.parametrize(
    "parts",
    [
        {"all": SYNC, "behind": SYNC},
        {"lower": SYNC, "upper": SYNC, "behind": SYNC},
        {"lower": SYNC, "upper": SYNC},
    ],
)
def test_barriers_that_all_come_to_are_proved(parts: dict[str, str], tmp_path: Path) -> None:
    assert _checked(tmp_path, **parts) == (Verdict.PROVED, None)


@pytest.mark.parametrize("branch", ["lower", "upper"])
def test_the_barrier_in_the_branch_is_named_not_where_threads_lack(branch: str, tmp_path: Path) -> None:
    verdict, found = _checked(tmp_path, behind=SYNC, last=SYNC, **{branch: SYNC})
    assert verdict is Verdict.REFUTED and found is not None
    line = LOWER if branch == "lower" else UPPER
    assert (found.rule, found.span.line, found.cause) == ("SV302", line, Mistake.DIVERGENCE)
    came, others = ("0, 1", "2, 3") if branch == "lower" else ("2, 3", "0, 1")
    assert f"only warps {came} come to this barrier" in found.message
    assert f"warps {others} complete it at line {BEHIND}" in found.message
    assert "move it out of the branch" in (found.fix or "")


def test_a_race_names_it_where_all_come_to_as_many(tmp_path: Path) -> None:
    verdict, found = _checked(tmp_path, lower=SYNC, behind=SYNC, last=f"if warp >= 2 {{\n    {SYNC}\n  }}")
    assert verdict is Verdict.REFUTED and found is not None
    assert (found.rule, found.cause) == ("SV110", Mistake.DIVERGENCE)
    assert (LOWER, True) in [(x.span.line, "only warps 0, 1 come" in x.text) for x in found.related]


@pytest.mark.parametrize(
    ("all_", "verdict"),
    [("bar.sync 1, 128", Verdict.PROVED), ("if warp != 3 {\n bar.sync 1, 96\n}", Verdict.REFUTED)],
)
def test_a_race_names_the_barrier_that_is_for_fewer(all_: str, verdict: Verdict, tmp_path: Path) -> None:
    said, found = _checked(tmp_path, all=all_)
    assert said is verdict
    if found is not None:
        assert (found.rule, found.cause) == ("SV110", Mistake.DIVERGENCE)
        texts = {x.span.line: x.text for x in found.related}
        assert texts[ALL + 1].startswith("barrier 1 is for 96 threads here, and cta0.warp3"), texts


def test_a_barrier_of_one_role_is_not_blamed_where_an_mbarrier_hands_over(tmp_path: Path) -> None:
    text = """kernel k {
  launch grid [1] block [96]
  shared tile : f32[64]
  mbarrier full
  compute one = 1.0
  if tid == 0 {
    mbarrier.init full, 32
  }
  bar.sync 0
  if warp == 0 {
    st.shared tile[][lane * 2 : 2], one
    mbarrier.arrive full
  } else {
    bar.sync 1, 64
    ld.shared x, tile[][tid - 32 : 1]
    mbarrier.wait full, 0
  }
}
"""
    (path := tmp_path / "k.syncir").write_text(text)
    (report,) = check_source(read_source(path), repairs=False)
    found = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert (found.rule, found.cause is Mistake.DIVERGENCE) == ("SV110", False)
