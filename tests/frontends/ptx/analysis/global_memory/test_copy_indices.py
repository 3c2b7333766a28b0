"""A copy's place in global memory is no part of a state where the text shows that it is aligned."""

from __future__ import annotations

from typing import Any

from tests.frontends.ptx.execute_helpers import module_text

FACTS = "[kernel.k]\ngrid = [1]\nblock = [64]\ncluster = [1]\n[kernel.k.params]\n0 = {}\n1 = 'n'\n"
PARAMS = ".param .u64 k_p, .param .u32 k_n"
#: Two slots for any number of tiles; %r30 counts places in global memory beside the number of turns.
BODY = """
    .shared .align 16 .b8 slots[2048];
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [k_p];
    ld.param.u32 %r2, [k_n];
    mov.u32 %r3, slots;
    mad.lo.u32 %r4, %r1, 16, %r3;
    mul.wide.u32 %rd2, %r1, 16;
    add.u64 %rd3, %rd1, %rd2;
    cp.async.cg.shared.global [%r4], [%rd3], 16;
    cp.async.commit_group;
    mov.u32 %r10, 0;
    add.u32 %r30, %r1, 64;
TURN:
    setp.ge.s32 %p1, %r10, %r2;
    @%p1 bra END;
    add.u32 %r11, %r10, 1;
    setp.ge.s32 %p2, %r11, %r2;
    @%p2 bra LAST;
    and.b32 %r12, %r11, 1;
    mad.lo.u32 %r13, %r12, 1024, %r4;
    mul.wide.u32 %rd4, %r30, 16;
    add.u64 %rd5, %rd1, %rd4;
    cp.async.cg.shared.global [%r13], [%rd5], 16;
LAST:
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    and.b32 %r14, %r10, 1;
    xor.b32 %r15, %r1, 63;
    mul.lo.u32 %r16, %r15, 16;
    mad.lo.u32 %r17, %r14, 1024, %r16;
    add.u32 %r18, %r17, %r3;
    ld.shared.f32 %f1, [%r18];
    bar.sync 0;
    mov.u32 %r10, %r11;
    add.u32 %r30, %r30, 64;
    bra TURN;
END:
    ret;
"""


def verdict(check: Any, body: str, pointer: str = "'ptr'") -> str:
    return str(check(module_text(body, PARAMS), facts=FACTS.replace("{}", pointer))["verdict"])


def test_a_loop_that_counts_places_beside_turns_is_proved_for_every_size(check: Any) -> None:
    assert verdict(check, BODY) == "proved"


def test_what_is_wrong_about_it_is_still_refuted(check: Any) -> None:
    assert verdict(check, BODY.replace("wait_group 1", "wait_group 2")) == "refuted"
    assert verdict(check, BODY.replace("%rd4, %r30, 16", "%rd4, %r30, 8")) == "refuted"


def test_a_pointer_that_is_said_to_be_aligned_to_less_is_judged(check: Any) -> None:
    assert verdict(check, BODY, "{{ptr = 'A', align = 8}}") != "proved"


def test_the_rank_in_the_cluster_is_a_number_of_the_launch(check: Any) -> None:
    rank = "mov.u32 %r20, %cluster_ctarank; mul.wide.u32 %rd9, %r20, 16;"
    body = BODY.replace(
        "add.u64 %rd3, %rd1, %rd2;", f"{rank} mad.lo.u64 %rd3, 1, %rd2, %rd1; add.u64 %rd3, %rd3, %rd9; OFF"
    )
    assert verdict(check, body.replace("OFF", "")) == "proved"
    assert verdict(check, body.replace("OFF", "add.u64 %rd3, %rd3, 8;")) == "refuted"


def test_a_place_by_the_number_of_the_block_is_not_taken_for_aligned(check: Any) -> None:
    block = "mov.u32 %r20, %ctaid.x; mul.wide.u32 %rd9, %r20, STEP; add.u64 %rd3, %rd3, %rd9;"
    body = BODY.replace("add.u64 %rd3, %rd1, %rd2;", f"add.u64 %rd8, %rd1, %rd2; {block}").replace(
        "add.u64 %rd3, %rd3, %rd9", "add.u64 %rd3, %rd8, %rd9"
    )
    facts = FACTS.replace("grid = [1]", "grid = [3]").replace("{}", "'ptr'")
    for step, expected in ((16, "proved"), (48, "proved"), (8, "refuted"), (4, "refuted")):
        text = module_text(body.replace("STEP", str(step)), PARAMS)
        assert check(text, facts=facts)["verdict"] == expected


def test_what_the_text_says_of_a_pointer_counts_where_the_launch_file_says_nothing(check: Any) -> None:
    def said(declared: int, pointer: str) -> str:
        params = PARAMS.replace(".u64 k_p", f".u64 .ptr .global .align {declared} k_p")
        return str(check(module_text(BODY, params), facts=FACTS.replace("{}", pointer))["verdict"])

    assert said(16, "'ptr'") == "proved"
    assert said(1, "'ptr'") == "proved"  # what compilers print of every pointer
    assert said(4, "'ptr'") == "refuted"
    assert said(4, "{{ptr = 'A', align = 16}}") == "proved"
