"""Blocks with equal events that differ in what they do behind the events that were seen."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.driver.ptx.same_blocks import Behaviour
from syncverify.frontends.ptx.exec import system

#: Each lane stores into its word, many times; a block may then store into the first word alone.
LATE = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k() {{
.reg .pred %p<3>;
.reg .b32 %r<6>;
.shared .align 16 .b8 s[512];
mov.u32 %r0, %ctaid.x;
mov.u32 %r2, %tid.x;
shl.b32 %r5, %r2, 2;
mov.u32 %r3, s;
add.u32 %r5, %r5, %r3;
mov.u32 %r4, 0;
L:
st.shared.u32 [%r5], %r4;
add.u32 %r4, %r4, 1;
setp.lt.u32 %p1, %r4, 60;
@%p1 bra L;
setp.ne.u32 %p2, %r0, {0};
@%p2 bra E;
st.shared.u32 [%r3], %r2;
E:
ret;
}}
"""


@pytest.mark.parametrize(("block", "verdict"), [(1, "refuted"), (2, "proved")])
def test_events_behind_those_that_were_seen(
    monkeypatch: pytest.MonkeyPatch, block: int, verdict: str
) -> None:
    monkeypatch.setattr(system, "_DISCOVERY", 50)
    facts = {"kernel": {"k": {"block": [64], "grid": [2]}}}
    (report,) = syncverify.check(LATE.format(block), facts=facts, timeout=60, advice=False)
    assert str(report.verdict) == verdict


def test_what_is_not_whole_proves_nothing() -> None:
    others = {1: Verdict.PROVED, 2: Verdict.UNKNOWN}
    assert Behaviour(1, whole=True).judged_by(others)
    assert not Behaviour(1, whole=False).judged_by(others)
    assert Behaviour(2, whole=False).judged_by(others)
    assert not Behaviour(3, whole=True).judged_by(others)


#: One block waits for the other in global memory, and then elects a lane.
ELECTS = """.version 8.3
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 flag;
.visible .entry k() {{
.reg .pred %p<5>;
.reg .b32 %r<6>;
.shared .align 16 .b8 s[512];
mov.u32 %r0, %ctaid.x;
mov.u32 %r2, %tid.x;
mov.u32 %r3, s;
setp.eq.u32 %p0, %r0, {block};
setp.eq.u32 %p1, %r2, 0;
@%p0 bra B;
@%p1 st.release.gpu.global.u32 [flag], 1;
bra E;
B:
elect.sync _|%p2, 0xffffffff;
W:
ld.acquire.gpu.global.u32 %r5, [flag];
setp.ne.u32 %p3, %r5, 1;
@%p3 bra W;
@%p2 st.shared.u32 [%r3], %r2;
{sync}
@%p1 st.shared.u32 [%r3], %r0;
E:
ret;
}}
"""


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.parametrize(("sync", "verdict"), [("", "refuted"), ("bar.warp.sync 0xffffffff;", "proved")])
def test_any_block_may_elect_any_lane(block: int, sync: str, verdict: str) -> None:
    facts = {"kernel": {"k": {"block": [32], "grid": [2]}}}
    text = ELECTS.format(block=block, sync=sync)
    (report,) = syncverify.check(text, facts=facts, policy="strict", timeout=60, advice=False)
    assert str(report.verdict) == verdict
