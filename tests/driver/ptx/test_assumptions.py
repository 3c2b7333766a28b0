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


COPIES = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 where)
{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 128 .b8 s[256];
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [where];
mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0; @%p1 bra END;
mov.u32 %r1, s; st.shared.u32 [%r1], 1; fence.proxy.async.shared::cta; mov.u32 %r2, 0;
L: PLACE
cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r1], 256;
cp.async.bulk.commit_group;
add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 4; @%p2 bra L;
cp.async.bulk.wait_group 0;
END: ret;
}
"""
BY_DATA = (
    "mul.wide.u32 %rd4, %r2, 4; add.s64 %rd4, %rd2, %rd4; ld.global.u32 %r3, [%rd4]; shl.b32 %r3, %r3, 8; "
    "mul.wide.u32 %rd3, %r3, 1; add.s64 %rd3, %rd1, %rd3;"
)
BY_TURN = "mul.wide.u32 %rd4, %r2, 256; add.s64 %rd3, %rd1, %rd4;"


@pytest.mark.parametrize("place, said", [(BY_DATA, True), (BY_TURN, False)])
def test_copies_in_flight_whose_places_are_data(place: str, said: bool) -> None:
    pointers = {"0": "ptr", "1": "ptr"}
    facts = {"kernel": {"k": {"block": [32], "grid": [1], "params": pointers}}}
    (report,) = syncverify.check(COPIES.replace("PLACE", place), facts=facts, replay=False, advice=False)
    assert str(report.verdict) == "proved"
    assert any("in flight together write different places" in x for x in report.assumptions) is said


def test_copies_in_flight_to_one_place() -> None:
    facts = {"kernel": {"k": {"block": [32], "grid": [1], "params": {"0": "ptr", "1": "ptr"}}}}
    text = COPIES.replace("PLACE", "mov.u64 %rd3, %rd1;")
    (report,) = syncverify.check(text, facts=facts, replay=False, advice=False)
    assert str(report.verdict) == "refuted"
