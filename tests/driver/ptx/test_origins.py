"""The lines that a finding's numbers come from: a wrong constant or comparison above the finding is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import Diagnostic, KernelReport, Label, Severity, Verdict
from syncverify.driver.ptx.origins import Origins
from syncverify.frontends.launch_facts import default_path
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

CORPUS = Path(__file__).parents[3] / "corpus" / "ptx"
#: A word for each thread in a row of 128, and the word of another thread.
ROW = """
    .shared .align 16 .b8 s[512];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, SHIFT;
    mov.u32 %r3, s;
    add.u32 %r4, %r3, %r2;
    mov.b32 %r5, %r4;
    st.shared.u32 [%r5], %r1;
    setp.ge.u32 %p1, %r1, BOUND;
    @%p1 bra PAST;
    bar.sync 0, 128;
PAST:
    ld.shared.u32 %r6, [%r4];
    st.global.u32 [%rd1], %r6;
    ret;
"""


def _first(report: KernelReport) -> Diagnostic:
    return next(d for d in report.diagnostics if d.severity is Severity.ERROR)


def _row(shift: int, bound: int) -> tuple[list[str], Diagnostic]:
    text = module_text(
        ROW.replace("SHIFT", str(shift)).replace("BOUND", str(bound)),
        ".param .u64 k_out",
        bounds=".reqntid 128",
    )
    (report,) = check(text, advice=False)
    assert report.verdict is Verdict.REFUTED
    return text.splitlines(), _first(report)


def _notes(first: Diagnostic) -> list[Label]:
    return [x for x in first.related if "comes from here" in x.text or "is decided here" in x.text]


def test_the_line_that_makes_an_address_is_named() -> None:
    lines, first = _row(3, 128)
    assert first.rule == "SV114"
    (note, *_) = _notes(first)
    assert "shl.b32" in lines[note.span.line - 1]
    assert note.text == f"the address of line {first.span.line} comes from here: shl.b32 %r2, %r1, 3"
    assert note.detail and note.around


def test_the_comparison_that_keeps_warps_away_is_named() -> None:
    lines, first = _row(2, 96)
    assert first.rule in ("SV301", "SV302")
    said = {lines[x.span.line - 1].split()[0] for x in _notes(first)}
    assert {"setp.ge.u32", "@%p1"} <= said


def test_copies_and_sums_of_registers_say_nothing() -> None:
    lines, first = _row(3, 128)
    named = [lines[x.span.line - 1] for x in _notes(first)]
    assert not any("mov.b32 %r5" in x or "add.u32" in x for x in named)


def test_what_decides_between_two_values_is_named() -> None:
    body = """
    .shared .align 16 .b8 s[512];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    setp.gt.u32 %p1, %r1, 99;
    @%p1 bra PAST;
    mov.u32 %r2, 0;
PAST:
    mov.u32 %r3, s;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4+512], %r1;
    ret;
"""
    (report,) = check(module_text(body, ".param .u64 k_out", bounds=".reqntid 128"), advice=False)
    assert any("setp.gt.u32" in x.text for x in _notes(_first(report)))


def test_a_proof_and_a_finding_without_a_place_stay_as_they_are() -> None:
    text = (CORPUS / "guarded_row.good.ptx").read_text()
    (proved,) = check(text, facts=str(default_path(CORPUS / "guarded_row.good.ptx")), advice=False)
    assert Origins(parse(text)).located(proved) is proved


def _edits(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Edits of one line: another constant, or another comparison."""
    constant = re.compile(r"\b(?:and\.b32|shl\.b32|add\.s32|mov\.u32|setp\.\w+\.\w+)\s[^;\[]*, (-?\d+);")
    for n, line in enumerate(lines):
        found = constant.search(line)
        if found is not None and not line.lstrip().startswith(("//", ".")):
            yield n, f"{line[: found.start(1)]}{int(found[1]) * 2 + 1}{line[found.end(1) :]}"
        if "setp.lt" in line:
            yield n, line.replace("setp.lt", "setp.le")


#: Kernels that a check takes a moment for.
QUICK = (
    "guarded_row",
    "host_constant",
    "warp_sum_volatile",
    "fence_of_the_cluster",
    "named_barriers",
    "token",
)


@pytest.mark.parametrize("name", QUICK)
def test_a_drawn_edit_of_one_line_is_named(name: str) -> None:
    path = CORPUS / f"{name}.good.ptx"
    lines = path.read_text().splitlines()
    every = list(_edits(lines))
    named = without = 0
    for n, line in Random(name).sample(every, min(4, len(every))):
        text = "\n".join([*lines[:n], line, *lines[n + 1 :], ""])
        (report,) = check(text, facts=str(default_path(path)), advice=False, timeout=20)
        if report.verdict is Verdict.REFUTED:
            first = _first(report)
            places = {first.span.line, *(x.span.line for x in first.related)}
            named += n + 1 in places
            without += n + 1 not in places
    assert without <= named


@pytest.mark.parametrize(
    ("name", "wait", "rule"),
    [
        ("operand_after_fence", "wgmma.wait_group.sync.aligned {};", "SV401"),
        ("map_edit", "cp.async.bulk.wait_group {};", "SV211"),
    ],
)
def test_a_wait_for_too_few_groups_is_named(name: str, wait: str, rule: str) -> None:
    path = CORPUS / f"{name}.good.ptx"
    text = path.read_text().replace(wait.format(0), wait.format(1))
    (report,) = check(text, facts=str(default_path(path)), advice=False)
    assert report.verdict is Verdict.REFUTED
    first = _first(report)
    assert first.rule == rule
    lines = text.splitlines()
    assert any(wait.format(1) in lines[x.span.line - 1] for x in first.related)
