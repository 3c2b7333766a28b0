"""What a block wrote before it counts is published by a fence, or by the atomic itself."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import (
    steering_counts,
    unacquired_read,
    unfenced_count,
)
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import Origins
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

#: part[b] = x; SYNC; if (t == 0) last = count(COUNTER) == 2; SYNC; if (last) sum of part
KERNEL = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 part, .param .u64 counter)
{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>; .shared .align 4 .b8 last[4];
  ld.param.u64 %rd1, [part];
  ld.param.u64 %rd2, [counter];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  st.global.u32 [%rd4], %r1;
  bar.sync 0;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra A;
  COUNT
  setp.eq.u32 %p2, %r2, 2;
  selp.u32 %r3, 1, 0, %p2;
  st.shared.u32 [last], %r3;
A: bar.sync 0;
  ld.shared.u32 %r4, [last];
  setp.eq.u32 %p3, %r4, 0;
  @%p3 bra OUT;
  ld.global.u32 %r5, [%rd1+128];
  st.global.u32 [%rd2+64], %r5;
OUT: ret; }
"""


@pytest.mark.parametrize(
    "count, published",
    [
        ("fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1;", True),
        ("fence.release.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1;", True),
        ("fence.acquire.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1;", False),
        ("atom.acq_rel.gpu.global.add.u32 %r2, [%rd2], 1;", True),
        ("atom.add.release.sys.u32 %r2, [%rd2], 1;", True),
        ("atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1;", False),
        ("atom.acquire.gpu.global.add.u32 %r2, [%rd2], 1;", False),
        ("atom.acq_rel.cta.global.add.u32 %r2, [%rd2], 1;", False),
        ("atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1; fence.acq_rel.gpu;", False),
    ],
)
def test_a_write_before_the_count(count: str, published: bool) -> None:
    flow = Flow(parse(KERNEL.replace("COUNT", count)).entries[0])
    counts = steering_counts(flow, {"%r2"})
    assert len(counts) == 1
    assert (unfenced_count(flow, counts, Origins(flow, fine=False)) is None) == published


@pytest.mark.parametrize(
    "count, load, acquired",
    [
        ("fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1; fence.acq_rel.gpu;", "", True),
        ("atom.acq_rel.gpu.global.add.u32 %r2, [%rd2], 1;", "", True),
        ("fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1; fence.acquire.gpu;", "", True),
        ("fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1; fence.release.gpu;", "", False),
        ("fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1;", ".volatile", True),
        ("fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1;", "", False),
        ("fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1; fence.acq_rel.cta;", "", False),
        ("fence.acq_rel.gpu; atom.acquire.cta.global.add.u32 %r2, [%rd2], 1;", "", False),
        ("atom.release.gpu.global.add.u32 %r2, [%rd2], 1;", "", False),
    ],
)
def test_a_read_behind_the_count(count: str, load: str, acquired: bool) -> None:
    text = KERNEL.replace("COUNT", count).replace("ld.global.u32 %r5", f"ld{load}.global.u32 %r5")
    flow = Flow(parse(text).entries[0])
    counts = steering_counts(flow, {"%r2"})
    assert (unacquired_read(flow, counts, Origins(flow, fine=False)) is None) == acquired


#: part[b] = t; FIRST; if (t == 0) last = count == 2; SECOND; a barrier tells all whether theirs is the last
TOLD_AT_A_BARRIER = """.version 8.4
.target sm_90a
.address_size 64
.global .align 4 .u32 done;
.visible .entry k(.param .u64 part, .param .u64 out)
{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
  ld.param.u64 %rd1, [part];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r2, 64, %r1;
  mul.wide.u32 %rd3, %r3, 4;
  add.s64 %rd4, %rd1, %rd3;
  st.global.u32 [%rd4], %r1;
  FIRST
  bar.sync 0;
  mov.pred %p2, 0;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra TELL;
  atom.global.add.u32 %r4, [done], 1;
  setp.eq.u32 %p2, %r4, 2;
TELL: SECOND
  bar.red.or.pred %p3, 0, %p2;
  @!%p3 bra OUT;
  membar.gl;
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd1, %rd5;
  ld.global.u32 %r5, [%rd6];
  ld.global.u32 %r6, [%rd6+256];
  add.u32 %r5, %r5, %r6;
  add.s64 %rd7, %rd2, %rd5;
  st.global.u32 [%rd7], %r5;
OUT: ret; }
"""


@pytest.mark.parametrize("first, second, proved", [("membar.gl;", "", True), ("", "membar.gl;", False)])
def test_the_last_block_is_told_at_a_barrier(first: str, second: str, proved: bool) -> None:
    text = TOLD_AT_A_BARRIER.replace("FIRST", first).replace("SECOND", second)
    params = {"0": "ptr", "1": "ptr"}
    facts = {"kernel": {"k": {"block": [64], "grid": [3], "params": params, "variables": {"done": 0}}}}
    (report,) = syncverify.check(text, facts=facts, timeout=60, advice=False)
    assert (str(report.verdict) == "proved") == proved, report.reason


@pytest.mark.parametrize("fence, acquired", [("", False), ("fence.acq_rel.gpu;", True)])
@pytest.mark.parametrize(
    "copy",
    [
        "cp.async.ca.shared.global [last], [%rd1+128], 4;",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [last], [%rd1+128], 16, [last];",
    ],
)
def test_a_copy_behind_the_count(copy: str, fence: str, acquired: bool) -> None:
    """What a copy brings to shared memory wants the fence that a load wants."""
    text = KERNEL.replace("ld.global.u32 %r5, [%rd1+128];", copy)
    count = f"fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1; {fence}"
    flow = Flow(parse(text.replace("COUNT", count)).entries[0])
    counts = steering_counts(flow, {"%r2"})
    assert (unacquired_read(flow, counts, Origins(flow, fine=False)) is None) == acquired


#: What the kernels below begin with.
HEAD = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 part, .param .u64 counter)
{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
  ld.param.u64 %rd1, [part];
  ld.param.u64 %rd2, [counter];
"""
#: if (t == 0): part[b] = x; a = count; part[b + 16] = x; b = count; if (ASKED == 2) sum of part
TWO = (
    HEAD
    + """  mov.u32 %r4, %tid.x;
  setp.ne.u32 %p2, %r4, 0;
  @%p2 bra OUT;
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  st.global.u32 [%rd4], %r1;
  atom.acq_rel.gpu.global.add.u32 %r2, [%rd2], 1;
  st.global.u32 [%rd4+64], %r1;
  atom.acq_rel.gpu.global.add.u32 %r3, [%rd2+4], 1;
  setp.ne.u32 %p1, ASKED, 2;
  @%p1 bra OUT;
  ld.global.u32 %r5, [%rd1+64];
  st.global.u32 [%rd2+64], %r5;
OUT: ret; }
"""
)


@pytest.mark.parametrize("asked, published", [("%r2", False), ("%r3", True)])
def test_a_write_behind_the_count_that_decides(asked: str, published: bool) -> None:
    flow = Flow(parse(TWO.replace("ASKED", asked)).entries[0])
    counts = steering_counts(flow, {"%r2", "%r3"})
    assert (unfenced_count(flow, counts, Origins(flow, fine=False)) is None) == published


#: Some threads store and one counts; MEET is between.
MET = (
    HEAD
    + """  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 48;
  @%p1 bra OUT;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  setp.eq.u32 %p2, %r1, 0;
  shr.u32 %r6, %r1, 5;
  mov.u32 %r2, 0;
  STORE [%rd4], %r1;
  fence.acq_rel.gpu;
  MEET
  @%p2 atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1;
  setp.ne.u32 %p3, %r2, 3;
  @%p3 bra OUT;
  fence.acq_rel.gpu;
  ld.global.u32 %r5, [%rd1+128];
  st.global.u32 [%rd2+64], %r5;
OUT: ret; }
"""
)


@pytest.mark.parametrize(
    "store, meet, published",
    [
        ("@%p2 st.global.u32", "", True),  # the thread that counts stores
        ("st.global.u32", "", False),
        ("@!%p2 st.global.u32", "", False),
        ("st.global.u32", "bar.sync 1, 64;", True),
        ("st.global.u32", "bar.red.popc.u32 %r7, 1, 64, %p2;", True),
        ("st.global.u32", "bar.sync %r6, 32;", False),  # one warp
        ("st.global.u32", "bar.warp.sync -1;", False),
        ("st.global.u32", "bar.arrive 1, 64;", False),  # waits for nobody
    ],
)
def test_threads_that_count_for_others_meet_them(store: str, meet: str, published: bool) -> None:
    flow = Flow(parse(MET.replace("STORE", store).replace("MEET", meet)).entries[0])
    counts = steering_counts(flow, {"%r2"})
    assert (unfenced_count(flow, counts, Origins(flow, fine=False)) is None) == published
