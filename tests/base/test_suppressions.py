"""Comments in the source silence warnings and notes, never errors."""

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.base.source import InputError, Span
from syncverify.base.suppressions import apply, find
from syncverify.driver.files import check_source, read_source


def report(*diagnostics: Diagnostic) -> KernelReport:
    return KernelReport(
        "k", "k.cu", Verdict.PROVED, Policy.PRACTICAL, Scope(ScopeKind.ALL), diagnostics=diagnostics
    )


def at(line: int, rule: str, severity: Severity) -> Diagnostic:
    return Diagnostic(rule, severity, "text", Span("k.cu", line))


def test_a_comment_beside_the_finding_silences_it() -> None:
    marks = find("a\nfence(); // syncverify: ignore SV603 -- cheap here\n", "k.cu")
    (kept,) = apply([report(at(2, "SV603", Severity.NOTE))], marks, "k.cu", True)
    assert kept.diagnostics == ()


def test_a_comment_on_its_own_line_speaks_of_the_next() -> None:
    marks = find("// syncverify: ignore SV601, SV603\nfence();\n", "k.cu")
    notes = [at(2, "SV603", Severity.NOTE), at(2, "SV601", Severity.NOTE), at(2, "SV604", Severity.NOTE)]
    (kept,) = apply([report(*notes)], marks, "k.cu", True)
    assert [d.rule for d in kept.diagnostics] == ["SV604"]


def test_an_error_stays() -> None:
    marks = find("x; // syncverify: ignore SV101\n", "k.cu")
    (kept,) = apply([report(at(1, "SV101", Severity.ERROR))], marks, "k.cu", True)
    assert [(d.rule, d.severity) for d in kept.diagnostics] == [
        ("SV101", Severity.ERROR),
        ("SV903", Severity.NOTE),
    ]


def test_a_comment_that_silences_nothing_is_reported_where_it_stands() -> None:
    marks = find("\n// syncverify: ignore SV603\nx;\n", "k.cu")
    (kept,) = apply([report()], marks, "k.cu", True)
    assert [(d.rule, d.span.line) for d in kept.diagnostics] == [("SV903", 2)]
    (other,) = apply([report()], marks, "k.cu", False)
    assert other.diagnostics == ()


@pytest.mark.parametrize("text", ["SV999", "SV60", "", "-- because", "fences"])
def test_a_comment_must_name_rules_that_exist(text: str) -> None:
    with pytest.raises(InputError) as e:
        find(f"\nx; // syncverify: ignore {text}\n", "k.cu")
    assert e.value.span.line == 2


def test_a_file_is_read_with_its_comments(tmp_path: Path) -> None:
    path = tmp_path / "a.syncir"
    good = Path(__file__).parents[2] / "syncverify" / "examples" / "rules"
    source = next(p for p in sorted(good.glob("*.syncir")) if "good" in p.name).read_text()
    path.write_text("// syncverify: ignore SV603\n" + source)
    (found,) = check_source(read_source(path), repairs=False)
    assert "SV903" in [d.rule for d in found.diagnostics]
