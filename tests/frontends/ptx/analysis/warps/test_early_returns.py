"""Threads that leave ahead of all accesses: nobody may wait for them, by a barrier or by a poll."""

import pytest

from syncverify.frontends.ptx.analysis.warps.early_returns import early_returns
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n)
{{
.reg .pred %p<9>;
.reg .b32 %r<9>;
.shared .align 8 .b8 s[64];
mov.u32 %r1, %tid.x;
ld.param.u32 %r2, [n];
mov.u32 %r3, 0;
setp.ge.u32 %p1, %r1, %r2;
@%p1 bra Y;
st.shared.u32 [s], %r1;
bar.sync 0;
{body}
Y: ret;
}}
"""
TURNS = "L: {0} add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r2; @%p2 bra L;"
POLL = "L: {0} setp.ne.u32 %p2, %r4, 1; @%p2 bra L;"
WAITS = {
    "a flag": POLL.format("ld.volatile.shared.u32 %r4, [s];"),
    "a count": POLL.format("ld.acquire.cta.shared.u32 %r4, [s]; shr.u32 %r4, %r4, 8;"),
    "a swap": POLL.format("atom.shared.exch.b32 %r4, [s], 0;"),
    "a phase": "L: mbarrier.try_wait.parity.shared.b64 %p2, [s], 0; @!%p2 bra L;",
    "a branch in a loop": TURNS.format(
        "ld.relaxed.cta.shared.u32 %r4, [s]; setp.eq.u32 %p3, %r4, 0; @%p3 bra M; mov.u32 %r3, %r2; M:"
    ),
    "a move under a guard": TURNS.format(
        "ld.relaxed.cta.shared.u32 %r4, [s]; setp.ne.u32 %p3, %r4, 0; @%p3 mov.u32 %r3, %r2;"
    ),
}
MEETS = {
    "a barrier": "ld.shared.u32 %r4, [s];",
    "a sum": TURNS.format("atom.shared.add.u32 %r4, [s], 1;"),
    "a load in a loop": TURNS.format("ld.volatile.shared.u32 %r4, [s]; bar.sync 0;"),
}


def left(body: str) -> bool:
    flow = Flow(parse(KERNEL.format(body=body)).functions[0])
    events = {k for k, i in enumerate(flow.body) if "shared" in i.mods or i.op == "bar"}
    return bool(early_returns(flow, events))


@pytest.mark.parametrize("name", WAITS)
def test_who_leaves_may_be_waited_for(name: str) -> None:
    assert not left(WAITS[name])


@pytest.mark.parametrize("name", MEETS)
def test_barriers_do_not_wait_for_who_leaves(name: str) -> None:
    assert left(MEETS[name])
