"""Reads that may find what ``discard`` destroyed."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.global_memory.discards import read_after_discard
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import Origins
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q];
"""

DISCARD = "discard.global.L2 [%rd1], 128;"
FRAGMENT = "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}"
MATRIX = f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {FRAGMENT}, [%rd1];"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"ld.global.u32 %r1, [%rd1]; {DISCARD}", False),
        (f"{DISCARD} ld.global.u32 %r1, [%rd1];", True),
        (f"{DISCARD} ld.global.u32 %r1, [%rd2];", False),
        (f"ld.global.u32 %r1, [%rd1]; {DISCARD} bar.sync 0;", True),
        (f"ld.global.u32 %r1, [%rd1]; {DISCARD} fence.acq_rel.gpu;", True),
        (f"ld.global.u32 %r1, [%rd1]; {DISCARD} st.release.gpu.global.u32 [%rd2], 1;", True),
        (f"ld.global.u32 %r1, [%rd1]; {DISCARD} st.global.u32 [%rd2], 1;", False),
        (f"{DISCARD} {MATRIX}", True),
        (f"{MATRIX} {DISCARD}", False),
        (f"{DISCARD} multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];", True),
        (f"{DISCARD} multimem.st.relaxed.sys.global.u32 [%rd1], %r1;", False),
        (f"{DISCARD} cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r2], 16;", True),
        (f"ld.global.u32 %r1, [%rd1]; {DISCARD} multimem.red.release.sys.global.add.u32 [%rd2], 1;", True),
        (f"L: ld.global.u32 %r1, [%rd1]; {DISCARD} setp.eq.u32 %p1, %r1, 0; @%p1 bra L;", True),
    ],
)
def test_reads_after_a_discard(body: str, found: bool) -> None:
    flow = Flow(parse(HEAD + body + "ret; }").entries[0])
    assert (read_after_discard(flow, Origins(flow, True)) is not None) == found
