"""Local memory at known addresses becomes registers; where an address is not followed, it stays memory."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.flow.promote_locals import promoted
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
KERNEL = """.visible .entry k(.param .u64 p)
{ .local .align 8 .b8 depot[32]; .shared .align 4 .b8 row[1024];
  .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .b64 %SP; .reg .b64 %SPL; .reg .pred %p<4>;
  mov.u64 %SPL, depot;
  cvta.local.u64 %SP, %SPL;
  mov.u32 %r1, %tid.x;
"""


def function(body: str) -> Function:
    return parse(HEAD + KERNEL + body + "ret; }").entries[0]


def left(body: str) -> list[str]:
    """The loads and stores that stay."""
    return [i.name for i in promoted(function(body)).body if i.op in ("ld", "st") and "param" not in i.mods]


def test_a_variable_becomes_a_register() -> None:
    assert left("st.u32 [%SP+4], %r1; ld.u32 %r2, [%SP+4];") == []
    assert left("st.local.u32 [depot+4], %r1; ld.local.u32 %r2, [%SPL+4];") == []


def test_a_pointer_that_is_kept_in_a_variable_is_followed() -> None:
    kept = "add.u64 %rd1, %SP, 8; st.u64 [%SP+16], %rd1; ld.u64 %rd2, [%SP+16]; st.u32 [%rd2], %r1;"
    assert left(kept + "ld.u32 %r2, [%SP+8];") == []


@pytest.mark.parametrize(
    "escape",
    [
        "ld.param.u64 %rd9, [p]; st.global.u64 [%rd9], %rd1;",
        "mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %SP, %rd3; st.u32 [%rd4], 0;",
        "mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %SP, %rd3; ld.u64 %rd4, [%rd4];",
        "setp.eq.u32 %p1, %r1, 0; selp.b64 %rd4, %SP, %rd1, %p1; st.u32 [%rd4], 0;",
        "atom.add.u32 %r5, [%rd1], 1;",
        "mov.b64 {%r5, %r6}, %rd1; mov.b64 %rd4, {%r5, %r6}; st.u32 [%rd4], 0;",
        "mov.u64 %rd4, 8; st.local.u32 [%rd4], 0;",
        "st.u64 [%SP+12], %rd1; st.u32 [%SP+16], 0;",
    ],
)
def test_where_an_address_is_not_followed_all_of_the_depot_stays(escape: str) -> None:
    stays = left(f"add.u64 %rd1, %SP, 8; st.u32 [%SP+8], %r1; {escape} ld.u32 %r2, [%SP+8];")
    assert {"st.u32", "ld.u32"} <= set(stays)


def test_cells_that_overlap_stay_and_others_do_not() -> None:
    body = "st.u64 [%SP], 0; st.u32 [%SP+4], %r1; st.u32 [%SP+8], %r1; ld.u32 %r2, [%SP+8];"
    assert left(body) == ["st.u64", "st.u32"]


def test_what_an_access_touches_that_stays_is_memory_for_all() -> None:
    """The pair is no two registers, as its second word overlaps others: nor is its first word one."""
    body = "st.u32 [%SP+8], %r1; ld.v2.u32 {%r2, %r3}, [%SP+8]; st.u16 [%SP+14], 0; st.u32 [%SP], 1;"
    assert left(body) == ["st.u32", "ld.v2.u32", "st.u16"]


def test_a_word_overlaps_each_of_its_bytes() -> None:
    words = "".join(f"st.u8 [%SP+{n}], %h1; st.u16 [%SP+{n}], %h1; " for n in range(8))
    assert len(left(f"st.u64 [%SP], 0; {words}")) == 17


def test_narrow_values_are_cut_and_extended() -> None:
    """300 is 44 in a byte, and 200 is -56."""
    body = "mov.u16 %h1, 300; st.u8 [%SP], %h1; ld.s8 %r2, [%SP]; ld.u8 %h2, [%SP]; st.u32 [%SP+4], %rd1;"
    names = [i.name for i in promoted(function(body)).body]
    assert names[-5:-1] == ["cvt.u16.u8", "cvt.s32.s8", "cvt.u16.u8", "cvt.u32.u32"]


def verdict(body: str) -> Verdict:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "block": [64, 1, 1], "params": {"p": "ptr"}}}}
    (report,) = syncverify.check(HEAD + KERNEL + body + "ret; }", facts=facts, advice=False)
    return report.verdict


def test_a_loop_that_counts_in_local_memory() -> None:
    """Each turn stores a word of its own, or, wrong, one that the next thread stores in the turn before."""
    loop = """mov.u32 %r9, row; st.u32 [%SP], 0;
      L: ld.u32 %r2, [%SP]; shl.b32 %r3, %r1, 2; shl.b32 %r5, %r2, SHIFT; add.u32 %r4, %r9, %r3;
      add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r1; add.u32 %r2, %r2, 1; st.u32 [%SP], %r2;
      ld.u32 %r6, [%SP]; setp.lt.u32 %p1, %r6, 3; @%p1 bra L;"""
    assert verdict(loop.replace("SHIFT", "8")) is Verdict.PROVED
    assert verdict(loop.replace("SHIFT", "2")) is Verdict.REFUTED
