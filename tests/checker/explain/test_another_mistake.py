"""Edits of kernels with two mistakes: which ones mend the first, and what is left."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Diagnostic, Remaining, Severity
from syncverify.base.source import Span
from syncverify.checker.explain.another_mistake import remaining


def _findings(text: str) -> list[Diagnostic]:
    """``E:SV201@3 n:SV105@4``: an error of SV201 at line 3, a note of SV105 at line 4."""
    severities = {"E": Severity.ERROR, "n": Severity.NOTE, "w": Severity.WARNING}
    out = []
    for word in text.split():
        severity, _, at = word.partition(":")
        rule, _, line = at.partition("@")
        out.append(Diagnostic(rule, severities[severity], "", Span("k.cu", int(line))))
    return out


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        # all that is left lacks a fence
        ("E:SV201@3 n:SV210@9", "E:SV105@4 n:SV105@5", ("SV105", 4)),
        # a warning, or advice on cost, is no mistake
        ("E:SV201@3", "E:SV105@4 w:SV303@7 n:SV601@8", ("SV105", 4)),
        # of two errors the second is left, with what follows from it
        ("E:SV210@3 n:SV203@4 E:SV304@9 n:SV302@10", "E:SV304@9 n:SV302@10", ("SV304", 9)),
        # fences may be missing at two places
        ("E:SV101@3 E:SV101@9", "E:SV101@9", ("SV101", 9)),
        # a race is left: the edit may have made it
        ("E:SV201@3", "E:SV110@4", None),
        ("E:SV201@3", "E:SV105@4 n:SV111@4", None),
        # the same mistake, in this form or as what followed from it
        ("E:SV210@3 E:SV304@9", "E:SV210@3 n:SV304@9", None),
        ("E:SV210@3 n:SV203@4 E:SV304@9", "E:SV203@4", None),
        # one fence more, and another one lacks now
        ("E:SV101@3", "E:SV101@9", None),
        # nothing is left: that is a proof, or no verdict
        ("E:SV201@3", "", None),
        ("E:SV201@3", "w:SV901@3", None),
    ],
)
def test_an_edit_mends_the_first_mistake_if_what_is_left_is_another(
    before: str, after: str, left: tuple[str, int] | None
) -> None:
    wanted = None if left is None else Remaining(left[0], Span("k.cu", left[1]))
    assert remaining(_findings(before), _findings(after)) == wanted
