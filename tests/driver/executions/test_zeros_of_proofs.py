"""A proof that rests on zeros in memory, beside executions: harm, none, or nothing that says anything."""

from __future__ import annotations

import pytest

import syncverify

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 part, .param .u64 count, .param .u64 out)
{{
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
.shared .align 4 .b32 last;
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [part]; ld.param.u64 %rd3, [count]; ld.param.u64 %rd4, [out];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x;
mul.wide.u32 %rd5, %r2, 4; add.u64 %rd6, %rd1, %rd5; add.u64 %rd7, %rd2, %rd5;
ld.global.u32 %r4, [%rd6];
{steered}
setp.ne.u32 %p1, %r1, 0; @%p1 bra MEET;
st.global.u32 [%rd7], %r4;
fence.acq_rel.gpu;
atom.global.add.u32 %r5, [%rd3], 1;
fence.acq_rel.gpu;
{last}
setp.eq.u32 %p2, %r5, %r6; selp.u32 %r7, 1, 0, %p2; st.shared.u32 [last], %r7;
MEET: bar.sync 0;
ld.shared.u32 %r8, [last]; setp.eq.u32 %p3, %r8, 0; @%p3 bra END;
setp.ge.u32 %p4, %r1, %r3; @%p4 bra END;
mul.wide.u32 %rd8, %r1, 4; add.u64 %rd9, %rd2, %rd8; ld.global.u32 %r9, [%rd9];
add.u64 %rd10, %rd4, %rd8; st.global.u32 [%rd10], %r9;
END:
ret;
}}
"""
LAST, SECOND_LAST = "sub.u32 %r6, %r3, 1;", "sub.u32 %r6, %r3, 2;"
STEERED = "setp.gt.s32 %p5, %r4, 3; @%p5 bra OVER; add.u32 %r4, %r4, 1;\nOVER:"
#: Name, who goes on, what else decides, blocks, the verdicts that are right.
CASES = [
    ("the last of 4", LAST, "", 4, {"proved"}),
    ("the last but one of 4", SECOND_LAST, "", 4, {"refuted"}),
    ("the last of 100", LAST, "", 100, {"proved"}),
    ("the last but one of 100", SECOND_LAST, "", 100, {"refuted", "unknown"}),
    ("the last of 3000", LAST, "", 3000, {"unknown"}),
    ("the last but one of 3000", SECOND_LAST, "", 3000, {"unknown"}),
    ("data decides, the last of 4", LAST, STEERED, 4, {"proved"}),
    ("data decides, the last but one of 4", SECOND_LAST, STEERED, 4, {"unknown", "refuted"}),
]


def verdict(last: str, steered: str, blocks: int, *, replay: bool = True) -> str:
    facts = {"block": [32], "grid": [blocks], "params": {str(n): "ptr" for n in range(4)}}
    text = TEXT.format(last=last, steered=steered)
    (found,) = syncverify.check(text, facts={"kernel": {"k": facts}}, timeout=90, replay=replay, advice=False)
    return str(found.verdict)


@pytest.mark.parametrize(("name", "last", "steered", "blocks", "right"), CASES, ids=[c[0] for c in CASES])
def test_labelled(name: str, last: str, steered: str, blocks: int, right: set[str]) -> None:
    assert verdict(last, steered, blocks) in right, name


def test_no_execution_no_proof() -> None:
    assert verdict(LAST, "", 4, replay=False) == "unknown"
