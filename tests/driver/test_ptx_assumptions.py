"""What a proof takes for granted of memory that blocks share."""

from __future__ import annotations

import pytest

import syncverify

COMMON = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1;
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd2, %rd3;
mov.u32 %r2, 7; setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r0, 0;
@%p1 bra END;
STORE
END: ret;
}
"""


@pytest.mark.parametrize(
    "store, grid, said",
    [
        ("st.global.u32 [%rd2], %r0;", 64, True),
        ("st.global.u32 [%rd2], %r0;", 1, False),  # one block
        ("st.global.u32 [%rd2], %r2;", 64, False),  # one value
        ("st.global.u32 [%rd4], %r0;", 64, False),  # a place for each
        ("@!%p2 st.global.u32 [%rd2], %r0;", 64, False),  # one of the blocks
        ("mov.u32 %r3, %ctaid.y; st.global.u32 [%rd4], %r3;", (4, 3), True),  # all of a column share a place
        ("mov.u32 %r3, %ctaid.y; st.global.u32 [%rd4], %r3;", (4, 1), False),
        (
            "mov.u32 %r3, %ctaid.y; mad.wide.u32 %rd4, %r3, 64, %rd4; st.global.u32 [%rd4], %r3;",
            (4, 3),
            False,
        ),
        ("mov.u32 %r3, %ctaid.y; setp.eq.u32 %p2, %r3, 0; @%p2 st.global.u32 [%rd4], %r3;", (4, 3), False),
        ("mov.u32 %r3, %ctaid.y; st.global.u32 [%rd4], %r2;", (4, 3), False),
    ],
)
def test_values_of_blocks_at_one_place(store: str, grid: int | tuple[int, int], said: bool) -> None:
    facts = {"kernel": {"k": {"block": [32], "grid": [grid] if isinstance(grid, int) else [*grid]}}}
    (report,) = syncverify.check(COMMON.replace("STORE", store), facts=facts, replay=False, advice=False)
    assert str(report.verdict) == "proved"
    assert any("which stays does not matter" in x for x in report.assumptions) is said
