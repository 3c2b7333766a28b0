"""A pointer to shared memory that goes through global memory, and what is accessed by it."""

from __future__ import annotations

import pytest

import syncverify

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .pred %p<4>;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
.shared .align 16 .b8 s[512];
mov.u32 %r0, %tid.x;
mov.u32 %r1, s;
cvt.u64.u32 %rd0, %r1;
cvta.shared.u64 %rd0, %rd0;
ld.param.u64 %rd1, [p];
cvta.to.global.u64 %rd1, %rd1;
mul.wide.u32 %rd2, %r0, 4;
setp.ne.u32 %p0, %r0, 0;
BODY
ret;
}
"""
BROUGHT = "bar.sync 0;\nld.global.u64 %rd3, [%rd1];\nst.u32 [%rd3], %r0;"
HALVES = "mov.b64 {%r2, %r3}, %rd0;\nst.global.v2.u32 [%rd1], {%r2, %r3};\nbar.sync 0;\n"
WRONG = {
    "stored": "st.global.u64 [%rd1], %rd0;\n" + BROUGHT,
    "by an atomic": "atom.global.exch.b64 %rd4, [%rd1], %rd0;\n" + BROUGHT,
    "by a generic address": "cvta.global.u64 %rd5, %rd1;\nst.u64 [%rd5], %rd0;\n" + BROUGHT,
    "in halves": HALVES + "ld.global.v2.u32 {%r4, %r5}, [%rd1];\nmov.b64 %rd3, {%r4, %r5};\n"
    "st.u32 [%rd3], %r0;",
    "brought by an atomic": "st.global.u64 [%rd1], %rd0;\nbar.sync 0;\n"
    "atom.global.add.u64 %rd3, [%rd1], 0;\nst.u32 [%rd3], %r0;",
    "one register of an atomic": "atom.global.exch.b64 %rd0, [%rd1], %rd0;\nbar.sync 0;\n"
    "atom.global.exch.b64 %rd0, [%rd1], %rd0;\nst.u32 [%rd0], %r0;",
    "copied to shared memory": "st.global.u64 [%rd1], %rd0;\nbar.sync 0;\n"
    "cp.async.ca.shared.global [%r1+256], [%rd1], 8;\ncp.async.wait_all;\n"
    "ld.shared.u64 %rd3, [%r1+256];\nst.u32 [%rd3], %r0;",
    "an atomic of shared memory": "st.shared.u64 [%r1+256], %rd0;\nbar.sync 0;\n"
    "atom.shared.add.u64 %rd3, [%r1+256], 0;\nst.u32 [%rd3], %r0;",
}
RIGHT = {
    "another pointer": "ld.global.u64 %rd3, [%rd1];\nadd.u64 %rd3, %rd3, %rd2;\nst.u32 [%rd3], %r0;",
    "another word is stored": "st.global.u64 [%rd1+8], %rd2;\nld.global.u64 %rd3, [%rd1];\n"
    "add.u64 %rd3, %rd3, %rd2;\nst.u32 [%rd3], %r0;",
}


@pytest.mark.parametrize("body", [*RIGHT.values(), *WRONG.values()], ids=[*RIGHT, *WRONG])
def test_verdicts(body: str) -> None:
    facts = {"kernel": {"k": {"block": [64], "grid": [1], "params": {"0": "ptr"}}}}
    (found,) = syncverify.check(TEXT.replace("BODY", body), facts=facts, advice=False, replay=False)
    assert (str(found.verdict) == "proved") == (body in RIGHT.values()), found.reason
