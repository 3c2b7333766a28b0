"""Special registers that the hardware fills: no number of a block's warps or bytes may rest on them."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.simulate.ptx import Launch, run
from tests.frontends.ptx.execute_helpers import module_text

FACTS = "[kernel.k]\ngrid = [1]\nblock = [64]\ndynamic_smem = 64\n"
HEAD = """
    .shared .align 16 .b8 s[256]; .shared .align 8 .b8 bar[8]; .local .align 4 .b8 own[8];
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, s; mov.u32 %r3, bar; mov.u64 %rd3, own;
    {number}
"""
#: What each number of a warp is taken for.
USES = {
    "place": "shl.b32 %r6, %r5, 7; mad.lo.u32 %r6, %r1, 4, %r6; and.b32 %r7, %r1, 32; shl.b32 %r7, %r7, 2; "
    "sub.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r2; st.shared.u32 [%r6], %r1; ret;",
    "role": "setp.ne.u32 %p2, %r5, 0; @%p2 bra OTHER; st.shared.u32 [%r2], 1; bar.arrive 1, 64; ret; "
    "OTHER: bar.sync 1, 64; ld.shared.u32 %r6, [%r2]; ret;",
    "local": "mad.wide.u32 %rd4, %r5, 4, %rd3; st.local.u32 [%rd4], %r1; ret;",
}
COUNT = """
    @%p1 bra READY; mbarrier.init.shared.b64 [%r3], %r5;
READY: bar.sync 0; mbarrier.arrive.shared.b64 %state, [%r3];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra WAIT; ret;
"""
BY_THREADS = "shr.u32 %r5, %r1, 5;"
CASES = [(name, "mov.u32 %r5, %warpid;", use) for name, use in USES.items()]
CASES += [("count", "mov.u32 %r5, %nwarpid; shl.b32 %r5, %r5, 5;", COUNT)]
CASES += [
    ("bytes", "mov.u32 %r5, %total_smem_size; add.u32 %r5, %r5, %r2;", "st.shared.u32 [%r5+-4], 0; ret;")
]


@pytest.mark.parametrize(("name", "number", "use"), CASES, ids=lambda x: x if " " not in x else "")
def test_a_number_of_the_hardware_proves_nothing(check: Any, name: str, number: str, use: str) -> None:
    """The second reader puts the warps of a block on any of the places of an SM."""
    text = module_text(HEAD.format(number=number) + use, "")
    assert check(text, facts=FACTS)["verdict"] != "proved"
    if name in ("place", "local", "count"):
        assert any(run(text, "k", Launch(block=(64, 1, 1)), seed).harm is not None for seed in range(4))


@pytest.mark.parametrize("name", USES)
def test_numbers_of_threads_do(check: Any, name: str) -> None:
    text = module_text(HEAD.format(number=BY_THREADS) + USES[name], "")
    assert check(text, facts=FACTS)["verdict"] == "proved"
    assert run(text, "k", Launch(block=(64, 1, 1)), 0).harm is None
