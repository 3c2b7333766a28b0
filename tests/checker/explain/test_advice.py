"""What to do about a finding."""

from __future__ import annotations

import syncverify

#: Threads 2n and 2n + 1 store to one word.
PAIRS = """
.version 8.6
.target sm_90a
.address_size 64
.shared .align 16 .b8 s[1024];
.visible .entry k()
{
.reg .b32 %r<9>;
mov.u32 %r1, s;
mov.u32 %r0, %tid.x;
shr.u32 %r2, %r0, SHIFT;
mad.lo.u32 %r3, %r2, 4, %r1;
st.shared.u32 [%r3], %r0;
ret;
}
"""


def fix(shift: int, mask: str = "") -> str | None:
    """How a store by 128 threads to words ``tid >> shift`` is to be mended."""
    text = PAIRS.replace("SHIFT;", f"{shift};{mask}")
    facts = {"kernel": {"k": {"grid": [1], "block": [128]}}}
    (report,) = syncverify.check(text, facts=facts, replay=False, advice=False)
    return report.diagnostics[0].fix


def test_lanes_that_store_to_one_word_are_not_mended_by_a_barrier() -> None:
    said = fix(1)
    assert said is not None and "of its own" in said and "barrier" not in said


def test_warps_that_store_to_one_word_need_a_barrier_only_in_turns() -> None:
    said = fix(0, "\nand.b32 %r2, %r2, 31;")
    assert said == "give each thread bytes of its own, or let one store; a barrier orders stores of two turns"
