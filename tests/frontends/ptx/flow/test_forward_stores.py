"""Masks that a lane loads from shared memory where it has just stored them."""

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.files import check_source, read_source
from tests.frontends.ptx.execute_helpers import module_text

KERNEL = """.shared .align 16 .b8 words[1536];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd2, %rd1, %rd3;
ld.global.u32 %r3, [%rd2];
mov.u32 %r2, words;
mad.lo.u32 %r4, %r1, 16, %r2;
setp.lt.u32 %p1, %r3, 16;
vote.sync.ballot.b32 %r5, %p1, -1;
{body}
@!%p1 bra A;
shfl.sync.bfly.b32 %r9, %r3, 1, 31, %r7;
st.global.u32 [%rd2], %r9;
A: ret;
"""
STORE, LOAD = "st.shared.u32 [%r4], %r5;", "ld.shared.u32 %r7, [%r4];"
FORWARDED = {
    "a word": f"{STORE} {LOAD}",
    "a word of two": "st.shared.v2.u32 [%r4], {{%r3, %r5}}; ld.shared.u32 %r7, [%r4+4];",
    "two words": "st.shared.v2.u32 [%r4], {{%r3, %r5}}; ld.shared.v2.u32 {{%r6, %r7}}, [%r4];",
    "two words into their own registers, exchanged":
        "mov.u32 %r7, %r3; st.shared.v2.u32 [%r4], {{%r5, %r7}}; ld.shared.v2.u32 {{%r7, %r5}}, [%r4];",
    "a load between": f"{STORE} ld.shared.u32 %r8, [%r4]; {LOAD}",
    "a vote between": f"{STORE} vote.sync.any.pred %p2, %p1, -1; {LOAD}",
}  # fmt: skip
KEPT = {
    "another word": f"{STORE} ld.shared.u32 %r7, [%r4+4];",
    "the other of two words": "st.shared.v2.u32 [%r4], {{%r3, %r5}}; ld.shared.u32 %r7, [%r4];",
    "a value": "st.shared.u32 [%r4], %r3; ld.shared.u32 %r7, [%r4];",
    "the mask written after the store, and the value before": f"mov.u32 %r5, %r3; {STORE} {LOAD}",
    "another store between": f"{STORE} st.shared.u32 [%r4], %r3; {LOAD}",
    "an atomic between": f"{STORE} atom.shared.add.u32 %r8, [%r4], 1; {LOAD}",
    "a barrier between, behind which another lane stores":
        f"{STORE} bar.sync 0; xor.b32 %r10, %r1, 1; mad.lo.u32 %r10, %r10, 16, %r2; "
        f"st.shared.u32 [%r10], %r3; bar.sync 0; {LOAD}",
    "the place written between": f"{STORE} add.u32 %r4, %r4, 4; {LOAD}",
    "half a word": "st.shared.u16 [%r4], %r5; ld.shared.u32 %r7, [%r4];",
    "a guard": f"@%p1 {STORE} {LOAD}",
    "a volatile load": f"{STORE} ld.volatile.shared.u32 %r7, [%r4];",
    "a place that another lane stores to":
        f"mad.lo.u32 %r10, %r1, 16, %r2; shr.u32 %r11, %r1, 1; mad.lo.u32 %r4, %r11, 32, %r2; {STORE} {LOAD}",
}  # fmt: skip


def verdict(folder: Path, body: str) -> Verdict:
    body = KERNEL.format(body=body.replace("{{", "{").replace("}}", "}"))
    text = module_text(body, ".param .u64 p", bounds=".reqntid 64, 1, 1")
    (folder / "k.ptx").write_text(text)
    (found,) = check_source(read_source(str(folder / "k.ptx")), repairs=False)
    return found.verdict


@pytest.mark.parametrize("name", FORWARDED)
def test_a_mask_that_was_just_stored_is_known(tmp_path: Path, name: str) -> None:
    assert verdict(tmp_path, FORWARDED[name]) is Verdict.PROVED


@pytest.mark.parametrize("name", KEPT)
def test_what_else_lies_there_is_not(tmp_path: Path, name: str) -> None:
    assert verdict(tmp_path, KEPT[name]) is not Verdict.PROVED
