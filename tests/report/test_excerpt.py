"""Long source lines and long names: what the text shows of them fits, with its marks; JSON has them whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.base.kernel_names import LONGEST_NAME
from syncverify.base.source import Span
from syncverify.report import json as json_report
from syncverify.report import text
from syncverify.report.base import Report, kernel_names
from syncverify.report.excerpt import COLUMNS, apart, cut

LONG = ".entry _Z" + "".join(f"{n:04}" for n in range(1000)) + "(.param .u64 p)"


PLACES = (1, 5, 23, 24, 25, 120, 121, 2000, len(LONG) - 130, len(LONG) - 97, len(LONG) - 40, len(LONG))


@pytest.mark.parametrize("start", PLACES)
@pytest.mark.parametrize("width", [1, 8, 300])
def test_what_is_marked_is_shown(start: int, width: int) -> None:
    end = min(start + width, len(LONG) + 1)
    shown, a, b = cut(LONG, start, end)
    assert len(shown) <= COLUMNS and 1 <= a < b <= len(shown) + 1
    marked = shown[a - 1 : b - 1].removesuffix("...")
    assert marked and LONG[start - 1 : end - 1].startswith(marked)
    assert width == 300 or marked == LONG[start - 1 : end - 1]
    body = shown.removeprefix("...").removesuffix("...")
    assert body in LONG
    assert shown.startswith("...") or LONG.startswith(body)
    assert shown.endswith("...") or LONG.endswith(body)


@pytest.mark.parametrize("line", ["", "ret;", "x" * COLUMNS])
def test_lines_that_fit_stay(line: str) -> None:
    assert cut(line, 1, len(line) + 1) == (line, 1, len(line) + 1)


def kernel(name: str, file: str, *found: Diagnostic) -> KernelReport:
    every = Scope(ScopeKind.ALL)
    return KernelReport(name, file, Verdict.UNKNOWN, Policy.PRACTICAL, every, reason="so", diagnostics=found)


def test_only_the_text_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "long.ptx"
    file.write_text(f"{LONG}\n")
    whole = Diagnostic("SV902", Severity.NOTE, "this is not shown", Span(str(file), 1))
    part = replace(whole, span=Span(str(file), 1, 2000, 1, 2009))
    name = LONG.split("(")[0].split()[1]
    report = Report(Policy.PRACTICAL, (kernel(name, "a.ptx", whole, part),))
    lines = text.render(report).splitlines()
    sources = [n for n, line in enumerate(lines) if line.startswith("1 |")]
    assert len(sources) == 2
    for n in sources:
        assert len(lines[n]) <= len("1 | ") + COLUMNS
        assert len(lines[n + 1]) <= len(lines[n])
    marks = lines[sources[1] + 1]
    at = slice(marks.index("^"), len(marks))
    assert marks.count("^") == 9 and lines[sources[1]][at] == LONG[1999:2008]
    assert f'"name": "{name}"' in json_report.render(report)


def test_long_names_that_share_a_base_name_are_told_apart() -> None:
    first = "_ZN7cutlass13device_kernelI" + "4half" * 300
    names = [f"{first}Li{n}E" + "5float" * 100 for n in (3, 4)]
    shown = kernel_names([kernel(name, "a.ptx") for name in names])
    assert len(set(shown)) == 2 and all(len(s) <= LONGEST_NAME for s in shown)
    assert "Li3E" in shown[0] and "Li4E" in shown[1]
    assert kernel_names([kernel(names[0], "a.ptx"), kernel(names[1], "b.ptx")]) == ["device_kernel"] * 2
    (twice, again) = kernel_names([kernel(names[0], "a.ptx")] * 2)
    assert twice == again and twice.startswith("_ZN7cutlass") and len(twice) <= LONGEST_NAME


def test_names_of_which_no_part_tells_all_apart_stay_whole() -> None:
    same = "y" * LONGEST_NAME
    names = [f"{a}{same}{b}" for a, b in ("pq", "pr", "sq")]
    assert apart(names) == names
