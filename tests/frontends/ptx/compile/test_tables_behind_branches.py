"""Reads of a table at addresses of the text, behind a branch that a size or data decides lane by lane."""

from __future__ import annotations

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import Verdict
from tests.frontends.ptx.execute_helpers import module_text

#: The weights of a row of three: each lane inside of the picture reads the tile, and the table.
BODY = """
    .shared .align 16 .b8 tile[264];
    .const .align 4 .b8 weights[12];
    ld.param.u64 %rd1, [k_out];
    ld.param.u32 %r9, [k_n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.s32 %r3, %r2, 64, %r1;
    shl.b32 %r4, %r1, 2;
    mov.u32 %r5, tile;
    add.u32 %r6, %r5, %r4;
    st.shared.u32 [%r6], %r3;
    WAIT
    DECIDED
    @%p1 bra OVER;
    ld.const.u32 %r10, [weights];
    ld.shared.u32 %r11, [%r6];
    ld.const.u32 %r12, [weights+AT];
    ld.shared.u32 %r13, [%r6+4];
    mul.lo.s32 %r14, %r10, %r11;
    mad.lo.s32 %r15, %r12, %r13, %r14;
    st.global.u32 [%rd1], %r15;
OVER:
    ret;
"""
SIZE = "setp.ge.s32 %p1, %r3, %r9;"
DATA = "ld.global.u32 %r8, [%rd1]; setp.ge.s32 %p1, %r8, %r1;"


@pytest.mark.parametrize(
    ("decided", "wait", "at", "verdict"),
    [
        (SIZE, "bar.sync 0;", 8, Verdict.PROVED),
        (DATA, "bar.sync 0;", 8, Verdict.PROVED),
        (SIZE, "", 8, Verdict.REFUTED),
        (DATA, "", 8, Verdict.REFUTED),
        (SIZE, "bar.sync 0;", 12, Verdict.REFUTED),  # beyond the table
        (DATA, "bar.sync 0;", 12, Verdict.UNKNOWN),
    ],
)
def test_the_tile_and_the_table_are_judged(decided: str, wait: str, at: int, verdict: Verdict) -> None:
    body = BODY.replace("WAIT", wait).replace("DECIDED", decided).replace("AT", str(at))
    text = module_text(body, ".param .u64 k_out, .param .u32 k_n")
    (found,) = check(text.replace(".param .u32 k_n)", ".param .u32 k_n)\n.reqntid 64"))
    assert found.verdict is verdict
