"""The gallery: mistakes in one CUDA ring and in other kernels, and kernels as authors write them.

Each is shown where its author has to change something.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import ScopeKind, Severity, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts

GALLERY = Path(__file__).parents[2] / "corpus" / "gallery"
SOURCE = (GALLERY / "ring.cu").read_text("utf-8")
MISTAKES: list[dict[str, Any]] = tomllib.loads((GALLERY / "mistakes.toml").read_text("utf-8"))["mistake"]


def _check(path: Path) -> Any:
    facts = read_facts(GALLERY / "ring.cu.launch.toml")
    (report,) = check_source(read_source(path), facts=facts)
    return report


def test_the_ring_itself_is_proved() -> None:
    assert _check(GALLERY / "ring.cu").verdict is Verdict.PROVED


#: Of the same rule and class as another mistake here.
SELDOM_MISTAKES = {
    "barrier after read wait missing", "bytes twice", "consumer skips the last row", "count one per warp",
    "full count of two",
}  # fmt: skip


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(m, id=m["name"], marks=pytest.mark.slow if m["name"] in SELDOM_MISTAKES else ())
        for m in MISTAKES
    ],
)
def test_a_mistake_is_shown_at_its_place(mistake: dict[str, Any], tmp_path: Path) -> None:
    text = SOURCE.replace(mistake["old"], mistake["new"])
    assert text != SOURCE
    path = tmp_path / "ring.cu"
    path.write_text(text, "utf-8")
    report = _check(path)
    assert report.verdict is Verdict.REFUTED
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert first.rule == mistake["rule"]
    named = {first.span.line} | ({first.repair.span.line} if first.repair else set())
    shown = [text.splitlines()[n - 1] for n in named]
    assert any(part in line for part in mistake["lines"] for line in shown), (first.message, shown)
    assert (str(first.repair.mistake) if first.repair else "") == mistake["mistake"]
    assert str(first.cause) == (mistake["mistake"] or mistake["cause"])
    if first.repair is None:  # a copy that is not there can be written by its author alone
        return
    edit = first.repair.edit
    assert edit is not None
    lines = text.split("\n")
    assert tuple(lines[edit.line - 1 : edit.line - 1 + len(edit.old)]) == edit.old
    lines[edit.line - 1 : edit.line - 1 + len(edit.old)] = edit.new
    path.write_text("\n".join(lines), "utf-8")
    assert _check(path).verdict is Verdict.PROVED


AUTHORS: dict[str, dict[str, Any]] = tomllib.loads((GALLERY / "authors" / "expected.toml").read_text("utf-8"))


#: Searches for an edit that take seconds; ``rings`` and the mistakes above have the same classes.
SELDOM = ("shared_id", "start_phase")


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow if x in SELDOM else ()) for x in AUTHORS]
)
def test_authors_see_the_lines_that_they_need(name: str) -> None:
    expected = AUTHORS[name]
    source = read_source(GALLERY / "authors" / f"{name}.cu")
    (report,) = check_source(source, scope=ScopeKind.ALL, replay=False)
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert (first.rule, str(first.cause)) == (expected["rule"], expected["cause"])
    assert source.text is not None
    lines = source.text.splitlines()
    places = [first.span, *(label.span for label in first.related)]
    shown = [lines[place.line - 1] for place in places if place.file == source.path]
    assert all(any(part in line for line in shown) for part in expected["lines"]), (first.message, shown)
    told = " ".join([first.message, *(label.text for label in first.related)])
    assert all(part in told for part in expected["says"]), told
    edit = first.repair.edit if first.repair is not None else None
    assert [line.strip() for line in edit.new] == expected["edit"] if edit else "edit" not in expected


RINGS = GALLERY / "rings"
OTHERS: list[dict[str, Any]] = tomllib.loads((RINGS / "mistakes.toml").read_text("utf-8"))["mistake"]


def _everywhere(path: Path) -> Any:
    (report,) = check_source(read_source(path), scope=ScopeKind.ALL, replay=False)
    return report


@pytest.mark.slow
@pytest.mark.parametrize("kernel", sorted({m["kernel"] for m in OTHERS}))
def test_the_other_kernels_themselves_are_proved(kernel: str) -> None:
    assert _everywhere(RINGS / f"{kernel}.cu").verdict is Verdict.PROVED


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(m, id=m["name"], marks=() if m.get("fast") else pytest.mark.slow) for m in OTHERS],
)
def test_the_edit_for_a_mistake_is_proved_at_every_launch(mistake: dict[str, Any], tmp_path: Path) -> None:
    text = (RINGS / f"{mistake['kernel']}.cu").read_text("utf-8")
    for old, new in zip(mistake["old"], mistake["new"], strict=True):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "barrier.cuh").write_text((RINGS / "barrier.cuh").read_text("utf-8"), "utf-8")
    path = tmp_path / "kernel.cu"
    path.write_text(text, "utf-8")
    report = _everywhere(path)
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert (first.rule, str(first.cause)) == (mistake["rule"], mistake["cause"])
    assert first.repair is not None and first.repair.edit is not None
    named = {first.span.line, first.repair.span.line}
    shown = [text.splitlines()[n - 1] for n in named]
    assert any(part in line for part in mistake["lines"] for line in shown), (first.message, shown)
    edit, lines = first.repair.edit, text.split("\n")
    lines[edit.line - 1 : edit.line - 1 + len(edit.old)] = edit.new
    path.write_text("\n".join(lines), "utf-8")
    assert _everywhere(path).verdict is Verdict.PROVED
