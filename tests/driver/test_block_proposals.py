"""A kernel whose block nothing gives stays unknown; a note says what holds with a usual block."""

from __future__ import annotations

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import KernelReport, Severity, Verdict
from syncverify.driver.block_proposals import RULE
from tests.frontends.ptx.execute_helpers import module_text

#: A thread reads what its neighbour wrote; ``WAIT`` stands between, and ``ROW`` is the thread's row.
BODY = """
    .shared .align 16 .b8 tile[BYTES];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    ROW
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    WAIT
    xor.b32 %r5, %r2, 4;
    add.u32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    st.global.u32 [%rd1], %r7;
    ret;
"""
TWO_DIMENSIONS = "mov.u32 %r8, %tid.y; shl.b32 %r9, %r8, 5; add.u32 %r1, %r1, %r9;"


def _report(wait: str, size: int = 1024, row: str = "") -> KernelReport:
    body = BODY.replace("WAIT", wait).replace("BYTES", str(size)).replace("ROW", row)
    (report,) = check(module_text(body, ".param .u64 k_out"))
    assert report.verdict is Verdict.UNKNOWN
    return report


@pytest.mark.parametrize(
    ("size", "row", "said"),
    [
        (1024, "", "with block = [256] the kernel is proved"),
        (512, "", "with block = [128] the kernel is proved; tried too: [256] (SV114)"),
        (1024, TWO_DIMENSIONS, "with block = [32, 8] the kernel is proved"),
    ],
)
def test_the_first_block_that_is_proved_is_named_with_its_line(size: int, row: str, said: str) -> None:
    note = _report("bar.sync 0;", size, row).diagnostics[-1]
    assert (note.rule, note.severity, note.message) == (RULE, Severity.NOTE, said)
    block = said.split("block = ")[1].split("]")[0] + "]"
    assert note.fix is not None and f"write block = {block} under [kernel.k]" in note.fix


def test_what_is_wrong_with_usual_blocks_is_shown_at_its_line() -> None:
    report = _report("")
    note = report.diagnostics[-1]
    assert (note.rule, note.severity) == (RULE, Severity.WARNING)
    assert note.message.startswith("with block = [256] the check finds SV110: ")
    assert note.span.line > 1 and "[128] (SV110)" in note.message


def test_the_reason_names_a_block_of_as_many_dimensions_as_the_text_reads() -> None:
    assert "block = [32, 8]" in str(_report("bar.sync 0;", 1024, TWO_DIMENSIONS).reason)
