"""Where blocks store to one word of global memory, or count at words that others write, a line says so."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
.reg .pred %p<8>;
.reg .b32 %r<24>;
.reg .f32 %f<4>;
.reg .b64 %rd<12>;
ld.param.u64 %rd1, [p0];
ld.param.u64 %rd2, [p1];
mov.u32 %r0, %tid.x;
setp.eq.u32 %p1, %r0, 0;
"""
_RANK = "mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %p2, %r2, 0; and.pred %p1, %p1, %p2; "
_CLUSTER = "mov.u32 %r3, %clusterid.x; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd3, %rd1, %rd3; "
_BLOCK = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd3, %rd1, %rd3; "
_OTHER = "xor.b32 %r4, %r1, 2; mul.wide.u32 %rd4, %r4, 4; add.u64 %rd4, %rd1, %rd4; "
_SLICES = ("mov.u32 %r1, %ctaid.x; mad.lo.u32 %r4, %r1, {}, %r0; mul.wide.u32 %rd3, %r4, 4;"
           " add.u64 %rd3, %rd1, %rd3; ")  # fmt: skip
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
        (_SLICES.format(16) + "st.global.u32 [%rd3], %r1;", _COMMON),
        (_SLICES.format(16) + "st.global.u32 [%rd3], %r0;", _COMMON),
        (_SLICES.format(16) + "st.global.u32 [%rd3], 0;", ""),
        (_SLICES.format(16) + "setp.lt.u32 %p2, %r0, 16; @%p2 st.global.u32 [%rd3], %r1;", ""),
        (_SLICES.format(16) + "setp.lt.u32 %p2, %r0, 17; @%p2 st.global.u32 [%rd3], %r1;", _COMMON),
        (_SLICES.format(32) + "st.global.u32 [%rd3], %r1;", ""),
        (_SLICES.format(31) + "st.global.u32 [%rd3], %r1;", _COMMON),
        (_SLICES.format(31) + "setp.ge.u32 %p2, %r0, 31; @%p2 bra E; st.global.u32 [%rd3], %r1; E:", ""),
    ],
)  # fmt: skip
def test_an_assumption_says_what_is_taken_for_granted(body: str, line: str) -> None:
    facts = {"block": [32], "grid": [8], "cluster": [2], "params": {"0": "ptr", "1": "ptr"}}
    (report,) = syncverify.check(_HEAD + body + " ret; }", facts={"kernel": {"k": facts}}, advice=False)
    if report.verdict is Verdict.PROVED:
        assert [line in x for x in report.assumptions] == ([True] if line else [])
    elif report.verdict is Verdict.UNKNOWN:  # numbers that differ
        assert line == _COMMON and "different values to one place" in str(report.reason)
    else:  # an execution shows that race
        assert (report.verdict, line) == (Verdict.REFUTED, _READ)


_LOOP = ("mov.u32 %r1, %ctaid.x; mad.lo.u32 %r4, %r1, 32, %r0; mov.u32 %r6, %nctaid.x; mov.u64 %rd3, %rd1;"
         " mul.lo.u32 %r6, %r6, 32; L: setp.ge.u32 %p3, %r4, 1000; @%p3 bra E; mul.wide.u32 %rd3, %r4, 4;"
         " add.u64 %rd3, %rd1, %rd3; {} add.u32 %r4, %r4, {}; bra L; E: {}")  # fmt: skip
#: Blocks that store in turn, each behind the one before it.
_CHAIN = ("mov.u32 %r1, %ctaid.x; @!%p1 bra E; setp.eq.u32 %p2, %r1, 0; mul.wide.u32 %rd3, %r1, 4;"
          " add.u64 %rd3, %rd1, %rd3; @%p2 bra G; L: ld.acquire.gpu.global.u32 %r6, [%rd3+64];"
          " setp.eq.u32 %p3, %r6, 0; @%p3 bra L; G: st.global.u32 [%rd1], %r1;"
          " st.release.gpu.global.u32 [%rd3+68], 1; E:")  # fmt: skip
_BYTES = "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r4, %r1, (1 << {}), 7; @%p1 st.global.{} [%rd1], %r4;"
#: Two blocks, each of which stores a value by an instruction of its own.
_TWO = ("mov.u32 %r1, %ctaid.x; setp.eq.and.u32 %p2, %r1, 0, %p1; setp.eq.and.u32 %p3, %r1, 1, %p1;"
        " @%p2 st.global.u32 [%rd1], {}; @%p3 st.global.u32 [%rd1], {};")  # fmt: skip
#: A place that data says.
_SCATTERED = "ld.global.u32 %r6, [%rd2]; mul.wide.u32 %rd5, %r6, 4; add.u64 %rd5, %rd1, %rd5; "
#: A number whose bytes differ.
_NUMBER = "mov.u32 %r9, 513; "
#: The thread that counts first.
_FIRST = "mov.u32 %r1, %ctaid.x; atom.global.add.u32 %r5, [%rd1], 1; setp.eq.u32 %p2, %r5, 0; "
_OPEN = "no two threads store different values to one place of p0"
_THREADS = "threads of a block store values of their own to one place of p0"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (_LOOP.format("st.global.u32 [%rd3], %r1;", "%r6", ""), ""),
        (_LOOP.format("st.global.u32 [%rd3], %r1;", "32", ""), _COMMON),
        (_LOOP.format("st.global.u32 [%rd3], %r4;", "32", ""), ""),
        (_LOOP.format("", "%r6", "st.global.u32 [%rd3], %r1;"), _OPEN),
        (_LOOP.format("", "%r6", "st.global.u32 [%rd3], 1;"), ""),
        ("atom.global.add.u32 %r4, [%rd1], 1; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd3, %rd1, %rd3;"
         " st.global.u32 [%rd3+64], %r0;", _OPEN),
        ("mov.u32 %r1, %ctaid.x; @%p1 st.global.u32 [%rd1], %r1;", "unknown"),
        ("mov.u32 %r1, %ctaid.x; st.global.u32 [%rd1], %r1;", _COMMON),
        ("mov.u32 %r1, %ctaid.x; st.relaxed.gpu.global.u32 [%rd1], %r1;", _COMMON),
        ("mov.u32 %r1, %ctaid.x; st.volatile.global.u32 [%rd1], %r1;", _COMMON),
        (_CHAIN, ""),
        ("mov.u32 %r1, %nctaid.x; st.global.u32 [%rd1], %r1;", ""),
        (_BLOCK + "shr.u32 %r4, %r1, 1; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd3, %rd1, %rd3;"
         " @%p1 st.global.u32 [%rd3], %r1;", "unknown"),
        (_BLOCK + "shr.u32 %r4, %r1, 1; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd3, %rd1, %rd3;"
         " @%p1 st.global.u32 [%rd3], %r4;", ""),
        (_BYTES.format(8, "u8"), _COMMON),
        (_BYTES.format(7, "u8"), "unknown"),
        (_BYTES.format(8, "u16"), "unknown"),
        (_BYTES.format(16, "u16"), _COMMON),
        # by two instructions
        (_TWO.format("7", "9"), "unknown"),
        (_TWO.format("7", "7"), ""),
        (_TWO.format("7", "%r0"), "unknown"),
        (_TWO.replace("st.", "st.relaxed.gpu.").format("7", "9"), _COMMON),
        ("@%p1 st.global.u32 [%rd1], 7; setp.eq.u32 %p2, %r0, 1; @%p2 st.global.u32 [%rd1], 9;", "unknown"),
        (_BLOCK + "@%p1 st.global.u32 [%rd3], 7; bar.sync 0; setp.eq.u32 %p2, %r0, 1; "
         "@%p2 st.global.u32 [%rd3], 9;", ""),
        (_BLOCK + "@%p1 st.global.u32 [%rd3], 7; bar.warp.sync -1; setp.eq.u32 %p2, %r0, 1; "
         "@%p2 st.global.u32 [%rd3], 9;", _THREADS),
        (_BLOCK + "@%p1 st.global.u32 [%rd3], 7; @%p1 st.global.u32 [%rd3], 9;", ""),
        (_BLOCK + "@%p1 st.global.f32 [%rd3], 0f3F800000; mov.f32 %f1, 0f3F800000; setp.eq.u32 %p2, %r0, 1;"
         " @%p2 st.global.f32 [%rd3], %f1;", ""),
        (_BLOCK + "@%p1 st.global.f32 [%rd3], 0f3F800000; mov.f32 %f1, 0f3F000000; setp.eq.u32 %p2, %r0, 1;"
         " @%p2 st.global.f32 [%rd3], %f1;", "unknown"),
        ("mov.u32 %r1, %ctaid.x; cvt.rn.f32.u32 %f1, %r1; @%p1 st.global.f32 [%rd1], %f1;", "unknown"),
        # where data says
        (_BLOCK + _SCATTERED + "@%p1 st.global.u32 [%rd5], 7; @!%p1 st.global.u32 [%rd5], 9;", _THREADS),
        (_BLOCK + _SCATTERED + "@%p1 st.global.u32 [%rd5], 7; @!%p1 st.global.u32 [%rd5], 7;", ""),
        (_BLOCK + _SCATTERED + _NUMBER + "@%p1 st.global.u32 [%rd5], %r9; @!%p1 st.global.u32 [%rd1], %r9;",
         ""),
        (_BLOCK + _SCATTERED + _NUMBER + "@%p1 st.global.u32 [%rd5], %r9; @!%p1 st.global.u8 [%rd1+1], %r9;",
         _OPEN),
        ("ld.global.u64 %rd5, [%rd2]; @%p1 st.global.u32 [%rd5], 7; @!%p1 st.global.u32 [%rd5], 9;",
         "store values of their own to one place of a pointer ("),
        # by whom an atomic elects
        (_FIRST + "@%p2 st.global.u32 [%rd1+64], %r1;", _OPEN),
        (_FIRST + "@%p2 st.global.u32 [%rd1+64], 7;", ""),
        (_BLOCK + _FIRST + "@%p2 st.global.u32 [%rd3+64], %r1;", ""),
        (_FIRST + "@%p2 st.global.u32 [%rd1+64], 7; @!%p2 st.global.u32 [%rd1+64], 9;", _OPEN),
        # by threads of one block
        (_BLOCK + "st.global.u32 [%rd3], %r0;", _THREADS),
        (_BLOCK + "shr.u32 %r4, %r0, 1; st.global.u32 [%rd3], %r4;", _THREADS),
        (_BLOCK + "st.global.u32 [%rd3], %r1;", ""),
    ],
)  # fmt: skip
def test_stores_beside_stores(body: str, line: str) -> None:
    """Places in turns of a loop; places without a number; numbers that differ in the bytes that are
    stored."""
    facts = {"block": [32], "grid": [8], "params": {"0": "ptr", "1": "ptr"}}
    text = _HEAD + body + " ret; }"
    (report,) = syncverify.check(text, facts={"kernel": {"k": facts}}, advice=False, replay=False)
    assert (report.verdict is Verdict.UNKNOWN) == (line == "unknown")
    said = [x for x in report.assumptions if "to one place of" in x]
    assert line == "unknown" or [line in x for x in said] == ([True] if line else [])
