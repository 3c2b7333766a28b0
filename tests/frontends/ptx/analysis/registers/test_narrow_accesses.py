"""Narrow stores keep the lower bits of a wider register, narrow loads extend by their type, in every space.

PTX ISA, operand size exceeding instruction-type size. A wrong value would take a warp past a barrier.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text

FACTS = "[kernel.k]\ngrid = [1]\nblock = [64]\ncluster = [1]\n"
PARAMS = FACTS + "[kernel.k.params]\n"

#: Warp 1 comes to the barrier if a register holds the number that is meant.
BODY = """
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    {body}
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra MEET;
    setp.eq.{type} %p2, {register}, {number};
    @!%p2 bra END;
MEET:
    barrier.sync 1, 64;
END:
    ret;
"""
SHARED = (
    ".shared .align 16 .b8 cell[64];\n"
    " setp.eq.u32 %p3, %r1, 0;\n @!%p3 bra FILLED;\n {store}\nFILLED: bar.sync 0;\n"
)
LOCAL = ".local .align 16 .b8 own[64];\n {store}\n"
GENERIC = (
    ".shared .align 16 .b8 cell[64];\n mov.u64 %rd30, cell; cvta.shared.u64 %rd31, %rd30;\n"
    " setp.eq.u32 %p3, %r1, 0;\n @!%p3 bra FILLED;\n {store}\nFILLED: bar.sync 0;\n"
)


def through(memory: str, store: str, load: str) -> str:
    return memory.format(store=store) + load


#: What stores and loads, the register to look at and its type, the number meant, and what others take it for.
CASES = {
    "shared-u8": (
        through(SHARED, "mov.u32 %r5, 511; st.shared.u8 [cell], %r5;", "ld.shared.u8 %r6, [cell];"),
        "u32",
        "%r6",
        255,
        511,
    ),
    "shared-u8-add": (
        through(SHARED, "add.u32 %r5, %r1, 256; st.shared.b8 [cell], %r5;", "ld.shared.u8 %rs6, [cell];"),
        "s16",
        "%rs6",
        0,
        256,
    ),
    "shared-u16": (
        through(SHARED, "mov.u32 %r5, 0x10002; st.shared.u16 [cell], %r5;", "ld.shared.u16 %r6, [cell];"),
        "u32",
        "%r6",
        2,
        0x10002,
    ),
    "shared-u32": (
        through(
            SHARED, "mov.u64 %rd5, 0x100000002; st.shared.u32 [cell], %rd5;", "ld.shared.u32 %rd6, [cell];"
        ),
        "u64",
        "%rd6",
        2,
        0x100000002,
    ),
    "shared-s8": (
        through(SHARED, "mov.u32 %r5, 0xff; st.shared.u8 [cell], %r5;", "ld.shared.s8 %r6, [cell];"),
        "s32",
        "%r6",
        -1,
        255,
    ),
    "shared-s16": (
        through(SHARED, "mov.u16 %rs5, 0xfffe; st.shared.u16 [cell], %rs5;", "ld.shared.s16 %r6, [cell];"),
        "s32",
        "%r6",
        -2,
        0xFFFE,
    ),
    "shared-s16-64": (
        through(SHARED, "mov.u16 %rs5, -3; st.shared.u16 [cell], %rs5;", "ld.shared.s16 %rd6, [cell];"),
        "s64",
        "%rd6",
        -3,
        0xFFFD,
    ),
    "shared-s32-64": (
        through(SHARED, "mov.u32 %r5, -3; st.shared.u32 [cell], %r5;", "ld.shared.s32 %rd6, [cell];"),
        "s64",
        "%rd6",
        -3,
        0xFFFFFFFD,
    ),
    "shared-v2": (
        through(
            SHARED,
            "mov.u32 %r5, 0x181; mov.u32 %r7, 0x205; st.shared.v2.u8 [cell], {%r5, %r7};",
            "ld.shared.v2.u8 {%r8, %r6}, [cell];",
        ),
        "u32",
        "%r6",
        5,
        0x205,
    ),
    "shared-v4-s8": (
        through(
            SHARED,
            "mov.u32 %r5, 0x80030201; st.shared.u32 [cell], %r5;",
            "ld.shared.v4.s8 {%r8, %r9, %r10, %r6}, [cell];",
        ),
        "s32",
        "%r6",
        -128,
        128,
    ),
    "shared-neighbour": (
        through(
            SHARED,
            "mov.u32 %r5, 0x1ff; st.shared.u8 [cell], %r5; st.shared.u8 [cell+1], 0;",
            "ld.shared.u16 %r6, [cell];",
        ),
        "u32",
        "%r6",
        255,
        511,
    ),
    "generic-u8": (
        through(GENERIC, "mov.u32 %r5, 0x300; st.u8 [%rd31], %r5;", "ld.u8 %r6, [%rd31];"),
        "u32",
        "%r6",
        0,
        0x300,
    ),
    "generic-s8": (
        through(GENERIC, "mov.u32 %r5, 0x80; st.u8 [%rd31], %r5;", "ld.s8 %r6, [%rd31];"),
        "s32",
        "%r6",
        -128,
        128,
    ),
    "local-u8": (
        through(LOCAL, "mov.u32 %r5, 0x102; st.local.u8 [own], %r5;", "ld.local.u8 %r6, [own];"),
        "u32",
        "%r6",
        2,
        0x102,
    ),
    "local-s8": (
        through(LOCAL, "mov.u32 %r5, 0xfe; st.local.u8 [own], %r5;", "ld.local.s8 %rs6, [own];"),
        "s16",
        "%rs6",
        -2,
        254,
    ),
    "local-lanes": (
        through(
            LOCAL,
            "mov.u32 %r5, %laneid; add.u32 %r5, %r5, 0x100; st.local.u8 [own], %r5;",
            "ld.local.u8 %r6, [own]; shr.u32 %r6, %r6, 5;",
        ),
        "u32",
        "%r6",
        0,
        8,
    ),
    "local-v2": (
        through(
            LOCAL,
            "mov.u32 %r5, %laneid; st.local.v2.u16 [own], {%r5, %r2};",
            "ld.local.u32 %r6, [own]; shr.u32 %r6, %r6, 16;",
        ),
        "u32",
        "%r6",
        1,
        2,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_stored_and_loaded(check: Any, case: str) -> None:
    body, type_, register, meant, naive = CASES[case]
    text = {n: BODY.format(body=body, type=type_, register=register, number=n) for n in (meant, naive)}
    assert check(module_text(text[meant]), facts=FACTS)["verdict"] == "proved"
    assert check(module_text(text[naive]), facts=FACTS)["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("parameter", "load", "type_", "register", "given", "meant", "naive"),
    [
        (".u8", "ld.param.s8 %r6, [k_n];", "s32", "%r6", "{u8 = 200}", -56, 200),
        (".s8", "ld.param.s8 %rs6, [k_n];", "s16", "%rs6", "{i8 = -3}", -3, 253),
        (".u16", "ld.param.s16 %r6, [k_n];", "s32", "%r6", "{i16 = -3}", -3, 65533),
        (".u32", "ld.param.s32 %rd6, [k_n];", "s64", "%rd6", "{i32 = -3}", -3, 0xFFFFFFFD),
        (".u32", "ld.param.u32 %rd6, [k_n];", "s64", "%rd6", "{i32 = -3}", 0xFFFFFFFD, -3),
        (
            ".align 4 .b8",
            "ld.param.v2.s8 {%r7, %r6}, [k_n];",
            "s32",
            "%r6",
            "[{u16 = 0xff00}, {u16 = 0}]",
            -1,
            255,
        ),
    ],
)
def test_what_parameters_hold(
    check: Any, parameter: str, load: str, type_: str, register: str, given: str, meant: int, naive: int
) -> None:
    of = f".param {parameter} k_n" + ("[4]" if "b8" in parameter else "")
    facts = f"{PARAMS}0 = {given}\n"
    for number, verdict in ((meant, "proved"), (naive, "refuted")):
        text = BODY.format(body=load, type=type_, register=register, number=number)
        found = check(module_text(text, of), facts=facts.replace("{", "{{").replace("}", "}}"))
        assert found["verdict"] == verdict


#: Of a signed byte some threads ask whether it is 128 or more.
SIGN = """
    mov.u32 %r1, %tid.x;
    ld.param.s8 %r6, [k_n];
    setp.lt.s32 %p1, %r6, 0;
    @%p1 bra END;
    barrier.sync 1, 64;
    setp.lt.u32 %p2, %r1, 32;
    setp.ge.s32 %p3, %r6, 128;
    and.pred %p2, %p2, %p3;
    @%p2 bra END;
    barrier.sync 1, 64;
END:
    ret;
"""


def test_a_signed_byte_without_a_number_is_below_128(check: Any) -> None:
    facts = (PARAMS + '0 = {i8 = "n"}\n').replace("{", "{{").replace("}", "}}")
    good = module_text(SIGN, ".param .s8 k_n")
    assert check(good, facts=facts)["verdict"] == "proved"
    zero_extended = good.replace("ld.param.s8", "ld.param.u8")
    assert check(zero_extended, facts=facts)["verdict"] == "refuted"


def test_lanes_that_store_one_byte_alike_store_the_same(check: Any) -> None:
    """The lower bytes agree, the registers do not."""
    body = """
    .shared .align 16 .b8 cell[16];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, BITS;
    st.shared.u8 [cell], %r2;
    bar.sync 0;
    ld.shared.u8 %r3, [cell];
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bar.sync 0;
    ret;
    """
    one_warp = FACTS.replace("64", "32")
    assert check(module_text(body.replace("BITS", "8")), facts=one_warp)["verdict"] == "proved"
    assert check(module_text(body.replace("BITS", "7")), facts=one_warp)["verdict"] != "proved"
