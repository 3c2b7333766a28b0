"""Where blocks store to one word of global memory, or count at words that others write, a line says so."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0)
{
.reg .pred %p<8>;
.reg .b32 %r<24>;
.reg .b64 %rd<12>;
ld.param.u64 %rd1, [p0];
mov.u32 %r0, %tid.x;
setp.eq.u32 %p1, %r0, 0;
"""
_RANK = "mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %p2, %r2, 0; and.pred %p1, %p1, %p2; "
_CLUSTER = "mov.u32 %r3, %clusterid.x; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd3, %rd1, %rd3; "
_BLOCK = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd3, %rd1, %rd3; "
_OTHER = "xor.b32 %r4, %r1, 2; mul.wide.u32 %rd4, %r4, 4; add.u64 %rd4, %rd1, %rd4; "
_COMMON, _READ = "blocks store values of their own to one place of p0", "no other thread reads"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (_RANK + _CLUSTER + "@%p1 st.global.u32 [%rd1], %r3;", _COMMON),
        (_RANK + _CLUSTER + "@%p1 st.global.u32 [%rd3], %r3;", ""),
        (_CLUSTER + "@%p1 st.global.u32 [%rd1], %r3;", _COMMON),
        (_BLOCK + "setp.eq.and.u32 %p1, %r1, 0, %p1; @%p1 st.global.u32 [%rd1], %r1;", ""),
        (_BLOCK + _OTHER + "@%p1 st.global.u32 [%rd3], 0; @%p1 atom.global.add.u32 %r5, [%rd4], 1;"
         " @%p1 st.global.u32 [%rd3], %r5;", _READ),
        ("@%p1 atom.global.inc.u32 %r5, [%rd1], 3; setp.eq.and.u32 %p1, %r5, 3, %p1;"
         " @%p1 st.global.u32 [%rd1], 0;", ""),
    ],
)  # fmt: skip
def test_an_assumption_says_what_is_taken_for_granted(body: str, line: str) -> None:
    facts = {"block": [32], "grid": [8], "cluster": [2], "params": {"0": "ptr"}}
    (report,) = syncverify.check(_HEAD + body + " ret; }", facts={"kernel": {"k": facts}}, advice=False)
    if report.verdict is Verdict.PROVED:
        assert [line in x for x in report.assumptions] == ([True] if line else [])
    else:  # an execution shows that race
        assert (report.verdict, line) == (Verdict.REFUTED, _READ)
