"""An access through a register that nothing writes is undefined, in whatever space it is."""

from __future__ import annotations

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import Verdict
from tests.frontends.ptx.execute_helpers import module_text

BODY = """
    ld.param.u64 %rd1, [k_out];
    SET
    mov.u32 %r1, %tid.x;
    ACCESS
    ret;
"""


def _verdict(access: str, set_: str) -> Verdict:
    text = module_text(BODY.replace("ACCESS", access).replace("SET", set_), ".param .u64 k_out")
    (report,) = check(text.replace("(.param .u64 k_out)", "(.param .u64 k_out)\n.reqntid 64"))
    return report.verdict


@pytest.mark.parametrize(
    "access",
    [
        "st.u32 [%rd2+32], %r1;",
        "st.global.u32 [%rd2], %r1;",
        "ld.global.u32 %r1, [%rd2];",
        "atom.global.add.u32 %r1, [%rd2], 1;",
        "setp.eq.u32 %p1, %r1, 5; @%p1 red.global.add.u32 [%rd2], 1;",
    ],
)
def test_nobody_computes_the_address(access: str) -> None:
    assert _verdict(access, "") is Verdict.REFUTED
    assert _verdict(access, "mov.u64 %rd2, %rd1;") is not Verdict.REFUTED
