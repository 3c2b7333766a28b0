"""Words that a thread asks, and accesses by the answer: which numbers the word may hold."""

from __future__ import annotations

import pytest

import syncverify

#: A block writes a row of ``data``, and its number into a word. Others load the row that the word selects.
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 out, .param .u64 flag)
{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [flag];
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x;
mad.lo.u32 %r2, %r0, 32, %r1; mul.wide.u32 %rd4, %r2, 4; add.u64 %rd4, %rd2, %rd4;
setp.ne.u32 %p1, %r0, WRITER; @%p1 bra ASK;
add.u32 %r3, %r1, ROW; mul.wide.u32 %rd5, %r3, 4; add.u64 %rd5, %rd1, %rd5; st.global.u32 [%rd5], %r2;
setp.ne.u32 %p2, %r1, 0; @%p2 bra END; st.relaxed.gpu.global.u32 [%rd3], 7;
bra END;
ASK:
ld.relaxed.gpu.global.u32 %r4, [%rd3];
mad.lo.u32 %r5, %r4, 32, %r1; mul.wide.u32 %rd6, %r5, 4; add.u64 %rd6, %rd1, %rd6;
ld.global.u32 %r6, [%rd6]; st.global.u32 [%rd4], %r6;
END:
ret;
}
"""


@pytest.mark.parametrize("writer", ["0", "7"])
@pytest.mark.parametrize(("row", "verdict"), [("224", "unknown"), ("512", "proved")])
def test_a_word_holds_what_any_block_stores_there(writer: str, row: str, verdict: str) -> None:
    """The word may be 7, also where that block is none of the first. Nobody loads row 16."""
    text = TEXT.replace("WRITER", writer).replace("ROW", row)
    facts = {"block": [32], "grid": [8], "params": {str(n): "ptr" for n in range(3)}}
    (report,) = syncverify.check(text, facts={"kernel": {"k": facts}}, replay=False, advice=False)
    assert str(report.verdict) == verdict
