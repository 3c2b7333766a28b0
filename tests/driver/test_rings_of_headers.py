"""Mistakes in kernels whose rings are objects of a header: names of barriers, and edits that mend them."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts

FOLDER = Path(__file__).parent / "rings_of_headers"
HEADER = (FOLDER / "dev.cuh").read_text("utf-8")
SOURCE = (FOLDER / "attn.cu").read_text("utf-8")
FACTS = """\
[kernel.attn]
grid = [1, 1, 1]
block = [160, 1, 1]
[kernel.attn.params]
heads = 2
blocks = 2
"""


def _checked(folder: Path, source: str, header: str = HEADER) -> KernelReport:
    (folder / "dev.cuh").write_text(header, "utf-8")
    (folder / "attn.cu").write_text(source, "utf-8")
    (folder / "facts.toml").write_text(FACTS, "utf-8")
    read = read_source(folder / "attn.cu")
    (report,) = check_source(read, facts=read_facts(folder / "facts.toml"), replay=False)
    return report


def _error(report: KernelReport) -> Diagnostic:
    return next(d for d in report.diagnostics if d.severity is Severity.ERROR)


def test_the_kernel_is_proved_and_its_barriers_have_the_names_of_their_rings(tmp_path: Path) -> None:
    assert _checked(tmp_path, SOURCE).verdict is Verdict.PROVED
    module = read_source(tmp_path / "attn.cu").module
    assert module is not None
    rings = {f"sm.{ring}.{array}[i]" for ring in ("ks", "vs") for array in ("filled", "freed")}
    assert {*module.barrier_names.values()} == {"sm.q_in", *rings}


def test_a_count_of_a_ring_is_mended_in_its_setup_also_where_its_loop_is_unrolled(tmp_path: Path) -> None:
    wrong = SOURCE.replace("sm.vs.setup(READERS);", "sm.vs.setup(READERS / 2);")
    first = _error(_checked(tmp_path, wrong))
    assert first.rule == "SV202" and "sm.vs.freed[" in first.message
    assert first.repair is not None and first.repair.edit is not None
    assert first.repair.edit.new == ("    sm.vs.setup(128);",)
    (mended,) = first.repair.edit.new
    assert (
        _checked(tmp_path, wrong.replace("    sm.vs.setup(READERS / 2);", mended)).verdict is Verdict.PROVED
    )


def test_a_parity_that_a_helper_asks_for_is_mended_for_all_its_rings(tmp_path: Path) -> None:
    wrong = HEADER.replace("{ filled[c.slot].await(c.lap); }", "{ filled[c.slot].await(c.lap ^ 1); }")
    first = _error(_checked(tmp_path, SOURCE, wrong))
    lines = SOURCE.split("\n")
    waits = [n for n, line in enumerate(lines, 1) if ".consume(" in line]
    assert first.repair is not None and first.span.line == waits[0]
    assert first.repair.text == f"wait for the other parity here and at line {waits[1]}"


@pytest.mark.parametrize(
    ("old", "new", "mended"),
    [
        (
            "    sm.q_in.setup(1);",
            "    for (int i = 0; i < 1; ++i) { sm.q_in.setup(2); }",
            "sm.q_in.setup(1); }",
        ),
        (
            "  sm.q_in.expect(ROW * 4);",
            "  for (int i = 0; i < 1; ++i) sm.q_in.expect(ROW * 2);",
            "expect(1024);",
        ),
    ],
)
def test_a_number_in_a_loop_of_one_line_is_mended(tmp_path: Path, old: str, new: str, mended: str) -> None:
    first = _error(_checked(tmp_path, SOURCE.replace(old, new)))
    assert first.repair is not None and first.repair.edit is not None
    (line,) = first.repair.edit.new
    assert line.endswith(mended)
