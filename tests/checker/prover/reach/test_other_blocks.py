"""Plain accesses to the shared memory of other blocks of the cluster, in loops over an open size."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

#: for (i = 0; i < n; ++i) { s[t] = t; MEET read s[63 - t] of the other block; END }
READ = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
{ .reg .b32 %r<20>; .reg .pred %p<9>; .shared .align 16 .b8 s[256];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, s;
  mad.lo.u32 %r4, %r2, 4, %r3;
  mov.u32 %r5, %cluster_ctarank;
  xor.b32 %r6, %r5, 1;
  sub.u32 %r7, 63, %r2;
  mad.lo.u32 %r8, %r7, 4, %r3;
  mapa.shared::cluster.u32 %r9, %r8, %r6;
  MEET_ALL
  mov.u32 %r10, 0;
LOOP:
  setp.ge.s32 %p1, %r10, %r1;
  @%p1 bra OUT;
  BODY
  add.u32 %r10, %r10, 1;
  bra LOOP;
OUT: MEET_ALL ret; }
"""
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
LATE = "setp.lt.s32 %p2, %r10, 2; @!%p2 bra {0}; {1} {0}:"
FENCE = "fence.proxy.async;"
#: where the block copies to
OWN = (
    "ld.param.u64 %rd1, [out]; mov.u32 %r12, %cluster_ctarank; mul.wide.u32 %rd2, %r12, 256; "
    "add.u64 %rd1, %rd1, %rd2;"
)
#: s[63 - t] of the other block = t; FENCE MEET one thread copies s to global memory and waits; END
WRITE = (
    "st.shared::cluster.u32 [%r9], %r2; {fence} {meet} setp.ne.u32 %p3, %r2, 0; @%p3 bra B; {again} "
    "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 256; cp.async.bulk.commit_group; "
    "cp.async.bulk.wait_group 0; B: {end}"
)


def verdict(body: str) -> Verdict:
    text = READ.replace("BODY", body).replace("MEET_ALL", MEET)
    if "bulk" in body:
        text = text.replace(".param .u32 n", ".param .u32 n, .param .u64 out")
        text = text.replace("mov.u32 %r2, %tid.x;", f"mov.u32 %r2, %tid.x; {OWN}")
        text = text.replace(".reg .pred", ".reg .b64 %rd<3>; .reg .pred")
    params = {"0": {"i32": "n"}} | ({"1": {"ptr": "out"}} if "bulk" in body else {})
    facts = {"block": [64], "cluster": [2], "grid": [2], "params": params}
    (report,) = syncverify.check(text, facts=facts, advice=False)
    return report.verdict


def read(first: str, second: str) -> Verdict:
    return verdict(f"st.shared.u32 [%r4], %r2; {first} ld.shared::cluster.u32 %r11, [%r9]; {second}")


def test_words_of_the_other_block_are_read() -> None:
    assert read(MEET, MEET) is Verdict.PROVED


@pytest.mark.parametrize(
    "first, second",
    [("", MEET), (MEET, ""), (LATE.format("A", MEET), MEET), (MEET, LATE.format("A", MEET))],
)
def test_a_barrier_of_the_cluster_is_missing_at_once_or_from_the_third_turn_on(
    first: str, second: str
) -> None:
    assert read(first, second) is Verdict.REFUTED


def write(fence: str, again: str) -> Verdict:
    return verdict(WRITE.format(fence=fence, meet=MEET, again=again, end=MEET))


def test_words_of_the_other_block_are_written_for_its_copy() -> None:
    assert write(FENCE, FENCE) is Verdict.PROVED


@pytest.mark.parametrize("late", [False, True])
def test_a_fence_is_missing_at_once_or_from_the_third_turn_on(late: bool) -> None:
    fence = LATE.format("A", FENCE) if late else ""
    again = LATE.format("C", FENCE) if late else ""
    assert write(fence, again) is Verdict.REFUTED
