"""Repairs of PTX by its words: what was meant is offered, and with it the kernel is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import ScopeKind, Severity, TextEdit
from tests.system.small_ptx import Small, read

GROUPS = {k.group: k for k in read(Path(__file__).parents[1] / "guessed_ptx.kernels") if k.right}
CASES = [k for k in read(Path(__file__).parents[1] / "guessed_ptx.kernels") if not k.right]
#: What has to be offered: the new text of the line.
WANTED = {
    "wait is relaxed": "acquire",
    "arrive of the block's scope": "arrive.release.cluster",
    "freed relaxed": "atom.acq_rel",
    "after .read": "wait_group 0",
    "asks once": "@!%p1 bra WAIT_",
    "copy before the wait": "griddepcontrol.wait",
    "never waits": "griddepcontrol.wait",
    "not .noinc": "arrive.noinc",
    "counts of ninety-six on one side": "64",
    "invalidated while others may wait": "bar.sync 0;",
    "used before it is made": "bar.sync 0;",
    "the third waits for the first": "[%r8+8], 0",
    "a fence before the count alone": "fence.acq_rel.gpu",
    "no fence at all": "fence.acq_rel.gpu",
}


#: What is proved for every size, and at one launch is not.
WIDE = ("all threads of the last block read",)


def _edit(text: str, k: Small) -> TextEdit | None:
    scope = ScopeKind.ALL if k.group in WIDE else ScopeKind.EXACT
    (report,) = syncverify.check(text, facts={"kernel": {"k": k.facts}}, timeout=60, scope=scope)
    error = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    return None if error.repair is None else error.repair.edit


@pytest.mark.parametrize("k", CASES, ids=lambda k: f"{k.group}: {k.name}")
def test_the_edit_that_is_offered_says_what_was_meant(k: Small) -> None:
    edit = _edit(k.text, k)
    assert edit is not None and any(WANTED[k.name] in line for line in edit.new)
    lines = k.text.split("\n")
    mended = "\n".join((*lines[: edit.line - 1], *edit.new, *lines[edit.line - 1 + len(edit.old) :]))
    (report,) = syncverify.check(mended, facts={"kernel": {"k": k.facts}}, timeout=60, advice=False)
    assert str(report.verdict) == "proved"


def test_all_kinds_are_asked() -> None:
    assert {k.name for k in CASES} == set(WANTED) and {k.group for k in CASES} == set(GROUPS)
