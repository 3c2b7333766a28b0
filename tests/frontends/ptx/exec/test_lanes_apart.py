"""Lanes that do not come to ``shfl``, ``vote``, ``match`` or ``redux``: what they bring is not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syncverify.simulate.ptx import Launch, buffer, run
from tests.frontends.ptx.execute_helpers import module_text

FACTS = "[kernel.k]\ngrid = [1]\nblock = [32]\ncluster = [1]\n[kernel.k.params]\n0 = 'ptr'\n"
#: Lane 0 makes a barrier of ``%r7`` arrivals; so many lanes arrive, and wait.
COUNTED = """
    .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 16; setp.ne.u32 %p2, %r1, 0; setp.eq.u32 %p3, %r1, %r1;
    mov.u32 %r8, 1; mov.u32 %r9, bar;
    {parts}
    {exchange}
    @%p2 bra READY; mbarrier.init.shared.b64 [%r9], %r7;
READY: bar.warp.sync {mask};
    mbarrier.arrive.shared.b64 %state, [%r9];
WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r9], 0; @!%p4 bra WAIT;
    ret;
"""
#: By what is exchanged, a number of lanes from it: that of those who come.
EXCHANGES = {
    "ballot": "vote.sync.ballot.b32 %r7, %p3, -1; popc.b32 %r7, %r7;",
    "any": "vote.sync.any.pred %p5, %p1, -1; selp.u32 %r7, 32, 16, %p5;",
    "match": "match.any.sync.b32 %r7, %r8, -1; popc.b32 %r7, %r7;",
    "redux": "redux.sync.add.u32 %r7, %r8, -1;",
    "shfl": "add.u32 %r6, %r1, 1; shfl.sync.idx.b32 %r7, %r6, 31, 31, -1;",
}


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", EXCHANGES)
def test_lanes_that_have_left_bring_nothing(check: Any, name: str, half: bool) -> None:
    """With half of what all lanes of the warp would make, the count of the lanes that are left is right or
    wrong by the kind of exchange. Whichever it is, it is not known, and an execution refutes
    what is wrong."""
    exchange = EXCHANGES[name] + ("shr.u32 %r7, %r7, 1;" if half else "")
    body = COUNTED.format(parts="@%p1 exit;", exchange=exchange, mask="0xffff")
    right = not half and name != "shfl"
    verdict = check(module_text(body, ".param .u64 k_p"), facts=FACTS)["verdict"]
    assert verdict == ("unknown" if right else "refuted")
    assert (run(module_text(body), "k", Launch(params=(0,)), 0).harm is None) == right


@pytest.mark.parametrize("name", EXCHANGES)
def test_lanes_that_stay_bring_what_they_hold(check: Any, name: str) -> None:
    body = COUNTED.format(parts="", exchange=EXCHANGES[name], mask="-1")
    assert check(module_text(body, ".param .u64 k_p"), facts=FACTS)["verdict"] == "proved"


#: Lanes read a word of ``one`` at the place that another lane gives.
PLACED = """
    .shared .align 16 .b8 one[64]; .shared .align 16 .b8 two[64];
    mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 16; mov.u32 %r2, one;
    ld.param.u64 %rd1, [k_p]; cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
    ld.global.u32 %r3, [%rd2]; and.b32 %r3, %r3, 15;
    {exchange}
    shl.b32 %r6, %r5, 2; add.u32 %r6, %r6, %r2; ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd2], %r7;
DONE: ret;
"""
#: Whether the lane that is asked takes part.
ASKED = {
    "@%p1 exit; xor.b32 %r4, %r1, 16; shfl.sync.idx.b32 %r5, {of}, %r4, 31, -1;": False,
    "@%p1 bra DONE; xor.b32 %r4, %r1, 16; shfl.sync.idx.b32 %r5, {of}, %r4, 31, 0xffff;": False,
    "@%p1 bra DONE; shfl.sync.bfly.b32 %r5, {of}, 16, 31, 0xffff;": False,
    "@%p1 bra DONE; shfl.sync.bfly.b32 %r5, {of}, 8, 31, 0xffff;": True,
    "xor.b32 %r4, %r1, 16; shfl.sync.idx.b32 %r5, {of}, %r4, 31, -1; and.b32 %r5, %r5, 15;": True,
}


@pytest.mark.parametrize("of", ["%r3", "%r1"])
@pytest.mark.parametrize("exchange", ASKED)
def test_a_place_that_another_lane_gives(check: Any, exchange: str, of: str) -> None:
    """The second reader makes up what a lane gives that does not take part."""
    text = module_text(PLACED.format(exchange=exchange.format(of=of)), ".param .u64 k_p")
    verdict = check(text, facts=FACTS)["verdict"]
    assert verdict == "proved" if ASKED[exchange] else verdict in ("unknown", "refuted")
    launch = Launch(params=(buffer(np.zeros(64, np.uint32)),), apart=True)
    assert (run(text, "k", launch, 0).harm is None) == ASKED[exchange]


#: Lane 0 alone comes to a block, of which the others have no code; behind it all ask what lane 0 holds.
MET = """
    .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x; setp.ne.u32 %p2, %r1, 0; mov.u32 %r6, 8; mov.u32 %r9, bar;
    @%p2 bra MEET; mbarrier.init.shared.b64 [%r9], 31; {more}
MEET: bar.warp.sync -1;
    shfl.sync.idx.b32 %r7, %r6, 0, 31, -1; setp.ne.u32 %p5, %r7, 8;
    @!%p2 bra WAIT; @%p5 bra WAIT;
    mbarrier.arrive.shared.b64 %state, [%r9];
WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r9], 0; @!%p4 bra WAIT;
    ret;
"""
MORE = {"": True, "mov.u32 %r6, 9;": False, "@%p2 bra ON; ON: mov.u32 %r6, 9;": False}


@pytest.mark.parametrize("more", MORE)
def test_lanes_that_meet_again_bring_what_they_hold(check: Any, more: str) -> None:
    text = module_text(MET.format(more=more), ".param .u64 k_p")
    verdict = check(text, facts=FACTS)["verdict"]
    assert (verdict == "proved") == MORE[more]
    assert (run(text, "k", Launch(params=(0,)), 0).harm is None) == MORE[more]


OPEN = """[kernel.k]
grid = [1]
block = [64]
cluster = [1]
assume = ["N >= 1"]
[kernel.k.params.0]
i32 = "N"
"""
#: Lane 0 makes barriers; the second warp has code of its own. Later each lane stores at a place of its warp,
#: as lane 0 says it.
CHOSEN = """
    .shared .align 8 .b8 bar[64]; .shared .align 16 .b8 one[256];
    mov.u32 %r1, %tid.x; shr.u32 %r6, %r1, 5; ld.param.u32 %r2, [k_p]; mov.u32 %r9, bar;
    setp.ne.u32 %p1, %r6, 0; @%p1 bra READY;
    setp.eq.u32 %p2, %r1, 0; @!%p2 bra READY;
    mbarrier.init.shared.b64 [%r9], 1; mbarrier.init.shared.b64 [%r9+8], 1;
    mbarrier.init.shared.b64 [%r9+16], 1; mbarrier.init.shared.b64 [%r9+24], 1;
    mbarrier.init.shared.b64 [%r9+32], 1; {elected}
READY: bar.sync 0;
    @%p1 bra ROLE;
BACK: shfl.sync.idx.b32 %r7, %r6, 0, 31, -1;
    and.b32 %r8, %r1, 31; shl.b32 %r8, %r8, 2; shl.b32 %r7, %r7, 7; add.u32 %r8, %r8, %r7;
    mov.u32 %r5, one; add.u32 %r8, %r8, %r5; mov.u32 %r4, 0;
LAP: st.shared.u32 [%r8], %r4;
    bar.sync 0;
    add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r2; @%p3 bra LAP;
    ret;
ROLE: bar.sync 1, 32; setp.lt.u32 %p5, %r2, 5; @%p5 bra BACK;
    bar.sync 1, 32; bra BACK;
"""


@pytest.mark.parametrize(("elected", "proved"), [("", True), ("mov.u32 %r6, 4096;", False)])
def test_lanes_that_were_elsewhere_bring_what_they_did_not_write(
    check: Any, elected: str, proved: bool
) -> None:
    text = module_text(CHOSEN.format(elected=elected), ".param .u32 k_p")
    assert check(text, facts=OPEN)["verdict"] == ("proved" if proved else "refuted")
    assert (run(text, "k", Launch(block=(64, 1, 1), params=(3,)), 0).harm is None) == proved
