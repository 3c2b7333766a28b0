"""Which strong accesses matter, and which hand words from thread to thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.ptx.analysis.polls.strong_words import strong_words
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Mem
from syncverify.frontends.ptx.syntax.operands import registers
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.model.events import StrongWord
from tests.frontends.ptx.execute_helpers import module_text

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
{{
.reg .b32 %r<9>; .reg .pred %p<2>;
.shared .b32 s[32];
mov.u32 %r1, %tid.x; mov.u32 %r2, s;
{body}
st.shared.u32 [%r2+64], %r3;
ret;
}}
"""
VOLATILE, PLAIN = StrongWord.VOLATILE, StrongWord(0)
EACH = StrongWord.OF_EACH_THREAD | StrongWord.OF_EACH_LANE
WARP = 32


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("ld.volatile.shared.u32 %r3, [%r1];", [VOLATILE | EACH]),
        ("ld.volatile.u32 %r3, [%r2];", [VOLATILE]),
        ("ld.acquire.cta.shared.u32 %r3, [%r2];", [PLAIN]),
        ("st.relaxed.cta.shared.u32 [%r1], %r2;", [EACH]),
        ("ld.volatile.shared.u32 %r4, [%r2];", []),  # nobody uses it
        ("ld.volatile.global.u32 %r3, [%r2];", []),
        ("L: ld.volatile.shared.u32 %r4, [%r2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;", []),  # a poll
        ("st.volatile.shared.u32 [%r5], %r2;", [VOLATILE | StrongWord.OF_EACH_THREAD]),
        ("atom.shared.add.u32 %r3, [%r2], 1;", []),
    ],
)
def test_words(body: str, words: list[StrongWord]) -> None:
    (function,) = parse(KERNEL.format(body=body)).functions

    def placed(k: int) -> int:
        names = {name for op in function.body[k].operands if isinstance(op, Mem) for name in registers(op)}
        return int("%r1" in names) | WARP * ("%r5" in names)

    assert list(strong_words(Flow(function), placed).values()) == words


#: Each warp stores and loads volatile words in an iteration of its own: its word, and the next warp's.
EXCHANGE = """mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; add.u32 %r5, %r2, 1; and.b32 %r5, %r5, 3;
ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; mov.u32 %r6, 0; mov.u32 %r3, 0;
A: shl.b32 %r8, %r3, 2; mov.u32 %r9, s; add.u32 %r8, %r8, %r9; setp.eq.u32 %p1, %r3, %r2;
@%p1 st.volatile.shared.u32 [%r8], %r3;
add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra A;
{between} mov.u32 %r3, 0;
B: shl.b32 %r8, %r3, 2; mov.u32 %r9, s; add.u32 %r8, %r8, %r9; setp.eq.u32 %p1, %r3, %r5;
@%p1 ld.volatile.shared.u32 %r6, [%r8];
add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra B;
st.global.u32 [%rd1], %r6;
ret;"""


@pytest.mark.parametrize(("between", "verdict"), [("", Verdict.UNKNOWN), ("bar.sync 0;", Verdict.PROVED)])
def test_a_guard_that_says_in_which_iteration_places_an_access(
    tmp_path: Path, between: str, verdict: Verdict
) -> None:
    body = ".shared .align 4 .b8 s[16]; " + EXCHANGE.format(between=between)
    path = tmp_path / "k.ptx"
    path.write_text(module_text(body, ".param .u64 p", bounds=".reqntid 128, 1, 1"))
    (found,) = check_source(read_source(path), repairs=False)
    assert found.verdict is verdict, found.reason
