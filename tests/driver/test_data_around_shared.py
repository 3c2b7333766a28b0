"""Branches on data around accesses to shared memory: loops up to the kernel's end, places that a size or a
selection bounds, collectives inside. Each right kernel has wrong ones beside it."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

#: Seconds for a proof, and for what is wrong, of which no more is asked than that no proof comes.
SECONDS, BRIEFLY = 20.0, 2.0
HEAD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)
{
  .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %d<9>;
  .shared .align 4 .b8 a[512]; .shared .align 4 .b8 bins[16];
  ld.param.u64 %d1, [p];
  ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d3, %r1, 4;
  add.s64 %d2, %d1, %d3;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, a;
  add.u32 %r3, %r3, %r2;
  ld.global.u32 %r4, [%d2];
  ld.param.u64 %d4, [q];
  add.s64 %d4, %d4, %d3;
  setp.lt.s32 %p1, %r4, 7;
"""


def verdict(body: str, grid: int | str = "G", seconds: float = SECONDS) -> Verdict:
    facts = {"kernel": {"k": {"grid": [grid, 1, 1], "block": [64, 1, 1]}}}
    (report,) = syncverify.check(
        f"{HEAD}{body}\n  ret;\n}}\n", facts=facts, timeout=seconds, replay=False, advice=False
    )
    return report.verdict


#: for (i = place; i < n; i += blocks * 64) out[i] = a[i % 128];
STRIDE = """
  st.shared.u32 [%r3], %r4;
  {meets}
  mov.u32 %r10, %ctaid.x;
  shl.b32 %r11, %r10, 6;
  add.s32 %r12, %r11, %r1;
  setp.ge.s32 %p2, %r12, %r9;
  @%p2 bra END;
  mov.u32 %r13, %nctaid.x;
  shl.b32 %r14, %r13, 6;
LOOP:
  shl.b32 %r15, %r12, 2;
  and.b32 %r15, %r15, {mask};
  mov.u32 %r16, a;
  add.s32 %r16, %r16, %r15;
  {access}
  add.s32 %r12, %r12, {step};
  setp.lt.s32 %p3, %r12, %r9;
  @%p3 bra LOOP;
END:"""
READS = "ld.shared.u32 %r17, [%r16]; st.global.u32 [%d4], %r17;"


@pytest.mark.parametrize(
    ("meets", "mask", "step", "access", "right"),
    [
        ("bar.sync 0;", 252, "%r14", READS, True),
        ("", 252, "%r14", READS, False),
        ("bar.sync 0;", 1020, "%r14", READS, False),  # it may leave the variables
        ("bar.sync 0;", 252, "0", READS, False),  # no turn goes on
    ],
)
def test_a_loop_over_a_size_that_ends_the_kernel(
    meets: str, mask: int, step: str, access: str, right: bool
) -> None:
    body = STRIDE.format(meets=meets, mask=mask, step=step, access=access)
    found = verdict(body, seconds=SECONDS if right else BRIEFLY)
    assert (found is Verdict.PROVED) is right


def test_a_search_by_what_lies_in_shared_memory() -> None:
    """Contents decide about the inner loop, and the place in the grid about the outer one."""
    search = """
  mov.u32 %r20, 0;
IN:
  and.b32 %r22, %r20, 63;
  shl.b32 %r22, %r22, 2;
  mov.u32 %r23, a;
  add.u32 %r23, %r23, %r22;
  ld.shared.u32 %r21, [%r23];
  setp.lt.u32 %p4, %r21, %r4;
  add.s32 %r20, %r20, 1;
  @%p4 bra IN;"""
    right = STRIDE.format(meets="bar.sync 0;", mask=252, step="%r14", access=search)
    assert verdict(right) is Verdict.PROVED


#: One of four bins, chosen by comparisons; the threads read the array beside the bins meanwhile.
BINS = """
  setp.lt.u32 %p2, %r1, 4;
  mov.u32 %r11, bins;
  add.u32 %r12, %r11, %r2;
  @%p2 st.shared.u32 [%r12], 0;
  st.shared.u32 [%r3], %r4;
  bar.sync 0;
  ld.shared.u32 %r13, [{reads}];
  setp.lt.u32 %p3, %r4, %r13;
  selp.u32 %r14, 1, 0, %p3;
  setp.lt.u32 %p4, %r4, 99;
  selp.b32 %r14, {largest}, %r14, %p4;
  shl.b32 %r14, %r14, 2;
  add.u32 %r14, %r11, %r14;
  atom.shared.add.u32 %r15, [%r14], 1;
  bar.sync 0;
  @%p2 ld.shared.u32 %r16, [%r12];
  @%p2 st.global.u32 [%d4], %r16;"""


@pytest.mark.parametrize(
    ("reads", "largest", "right"), [("a+8", 3, True), ("bins+12", 3, False), ("a+8", 4, False)]
)
def test_bins_are_beside_what_is_read(reads: str, largest: int, right: bool) -> None:
    assert (verdict(BINS.format(reads=reads, largest=largest)) is Verdict.PROVED) is right


#: Lanes for which data holds exchange values, and store.
LANES = """
  vote.sync.ballot.b32 %r10, %p1, -1;
  {before}
  @!%p1 bra OVER;
  {inside}
OVER:
  bar.sync 0;
  ld.shared.u32 %r19, [a+20];
  st.global.u32 [%d4], %r19;"""
OWN = "redux.sync.add.u32 %r11, %r4, %r10; st.shared.u32 [%r3], %r11;"
COUNTED = "mov.u32 %r12, 1; redux.sync.add.u32 %r11, %r12, {}; shl.b32 %r11, %r11, 2; mov.u32 %r13, a;"
COUNTED += "add.u32 %r13, %r13, %r11; st.shared.u32 [%r13], %r1;"
HANDED = (
    "mov.u32 %r12, 77; shfl.sync.idx.b32 %r11, %r12, 0, 31, %r10; shl.b32 %r11, %r11, 2; mov.u32 %r13, a;"
)
HANDED += "add.u32 %r13, %r13, %r11; st.shared.u32 [%r13], %r1;"


@pytest.mark.parametrize(
    ("before", "inside", "right"),
    [
        ("", OWN, True),
        ("", "activemask.b32 %r8;" + OWN.replace("%r10", "%r8"), True),
        ("", OWN + "bar.warp.sync %r10;", True),
        ("", OWN.replace("%r10", "-1"), False),  # the mask names lanes that do not come
        ("not.b32 %r10, %r10;", OWN, False),
        ("ld.shared.u32 %r18, [a+20];", OWN, False),
        # how many lanes there are is not known: word 32 is as good as any other
        ("ld.shared.u32 %r18, [a+12];", COUNTED.format("%r10"), False),
        ("ld.shared.u32 %r18, [a+12];", "activemask.b32 %r8;" + COUNTED.format("%r8"), False),
        ("", HANDED, False),
    ],
)
def test_collectives_of_the_lanes_that_data_chooses(before: str, inside: str, right: bool) -> None:
    assert (verdict(LANES.format(before=before, inside=inside), 1) is Verdict.PROVED) is right


def test_sums_in_global_memory_are_no_counters() -> None:
    """A branch on data around ``atomicAdd(&sum, s[t])``, whose result nobody uses."""
    body = """
  st.shared.u32 [%r3], %r4;
  bar.sync 0;
  @!%p1 bra END;
  ld.shared.u32 %r11, [a+8];
  ld.param.u64 %d3, [q];
  atom.global.add.u32 %r12, [%d3], %r11;
END:"""
    assert verdict(body) is Verdict.PROVED
    assert verdict(body.replace("bar.sync 0;", "")) is not Verdict.PROVED
