"""Roles that meet at one named barrier, each in code of its own: what a finding shows where one lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Diagnostic, ScopeKind, Severity, Verdict
from syncverify.driver.files import check_source, read_source

KERNEL = """kernel roles {{
  launch grid [1] block [64]
  tensor out : f32[32] out
  shared word : f32[32]
  compute one = 1.0
  if warp == 0 {{
    st.shared word[][lane : 1], one
    {first}
    bar.sync 1, 64
    bar.sync 1, 64
    st.shared word[][lane : 1], one
    bar.sync 1, 64
  }} else {{
    bar.sync 1, 64
    ld.shared x, word[][lane : 1]
    bar.sync 1, 64
    bar.sync 1, 64
    {early}
    bar.sync 1, 64
    {late}
    st.global out[lane], x
  }}
}}
"""
BARRIER, READ = "bar.sync 1, 64", "ld.shared x, word[][lane : 1]"
#: Lines of the kernel: the second store of the one role and its barriers, and those of the other role.
STORE, OWN, OTHERS = 11, (9, 10), (16, 17)


def _first(tmp_path: Path, **parts: str) -> Diagnostic | None:
    (path := tmp_path / "roles.syncir").write_text(KERNEL.format(**parts))
    (report,) = check_source(read_source(path), scope=ScopeKind.EXACT, replay=False)
    found = next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)
    assert (found is None) is (report.verdict is Verdict.PROVED)
    return found


def test_the_roles_in_step_are_proved(tmp_path: Path) -> None:
    assert _first(tmp_path, first=BARRIER, early="", late=READ) is None


def test_a_race_shows_the_barriers_that_each_role_came_from(tmp_path: Path) -> None:
    found = _first(tmp_path, first=BARRIER, early=READ, late="")
    assert found is not None and found.rule == "SV111" and found.repair is None
    texts = {label.span.line: label.text for label in found.related}
    for who, (earlier, last) in (("second", OWN), ("first", OTHERS)):
        assert texts[last].startswith(f"the threads of the {who} access were at barrier 1 last here"), texts
        assert texts[earlier].startswith(f"the threads of the {who} access came from barrier 1"), texts


@pytest.mark.parametrize("lacks", [True, False])
def test_who_is_missing_and_came_once_shows_what_it_came_from(tmp_path: Path, lacks: bool) -> None:
    short = KERNEL.replace("    bar.sync 1, 64\n    bar.sync 1, 64\n", "", 1)
    short = short.replace("    bar.sync 1, 64\n    {early}\n    bar.sync 1, 64\n", "{early}", 1)
    (path := tmp_path / "roles.syncir").write_text(
        short.format(first="" if lacks else BARRIER, early="", late="")
    )
    (report,) = check_source(read_source(path), scope=ScopeKind.EXACT, replay=False)
    texts = {label.span.line: label.text for d in report.diagnostics for label in d.related}
    assert any("without a barrier before it" in text for text in texts.values()) is lacks, (report, texts)
