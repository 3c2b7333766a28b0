"""The index of ``brx.idx`` lies in its table, even where no event depends on where it leads."""

from __future__ import annotations

from pathlib import Path

from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.driver import files

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a)
.reqntid 128, 1, 1
{{
.reg .b32 %r<9>;
.reg .b64 %rd<5>;
mov.u32 %r0, %tid.x;
ld.param.u64 %rd1, [a];
ld.global.u32 %r2, [%rd1];
shr.u32 %r1, %r0, {shift};
TS: .branchtargets A, B, C;
brx.idx {index}, TS;
A: bra D;
B: bra D;
C:
D: bar.sync 0;
ret;
}}
"""


def _report(path: Path, index: str = "%r1", shift: int = 5) -> KernelReport:
    file = path / "k.ptx"
    file.write_text(KERNEL.format(index=index, shift=shift), "utf-8")
    (report,) = files.check_source(files.read_source(file), repairs=False)
    return report


def test_an_index_behind_the_table_is_undefined(tmp_path: Path) -> None:
    report = _report(tmp_path)
    assert report.verdict is Verdict.REFUTED
    assert any("brx.idx" in d.message for d in report.diagnostics)


def test_an_index_inside_is_no_finding(tmp_path: Path) -> None:
    report = _report(tmp_path, shift=6)
    assert report.verdict is Verdict.PROVED
    assert not any("brx" in a for a in report.assumptions)


def test_an_index_that_is_data_is_taken_for_granted_by_name(tmp_path: Path) -> None:
    report = _report(tmp_path, index="%r2")
    assert report.verdict is Verdict.PROVED
    assert "line 14: the index of brx.idx lies in its table" in report.assumptions
