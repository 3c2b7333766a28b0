"""Copies from pointers that are loaded: where the address of one is aligned, that of another may not be."""

import pytest

from syncverify.frontends.ptx.analysis.global_memory.copy_addresses import copy_addresses
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.const .align 8 .u32 t[3] = {0, 8, 24};
.visible .entry k(.param .u64 a, .param .u32 n, .param .u64 b)
{
.reg .pred %p<9>;
.reg .b32 %r<9>;
.reg .f32 %f<3>;
.reg .b64 %rd<9>;
.shared .align 128 .b8 s[4096];
ld.param.u64 %rd1, [a];
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
mov.u32 %r3, 0;
ld.global.u64 %rd2, [%rd1];
"""
COPY = "cp.async.cg.shared.global [%r2], [PLACE], 16;"
SMALL = "cp.async.ca.shared.global [%r2], [PLACE], 4;"
BULK = "cp.async.bulk.global.shared::cta.bulk_group [PLACE], [%r2], 16;"
LOOP = (
    "L: PLACE " + COPY.replace("PLACE", "%rd3") + " add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, 4; @%p1 bra L;"
)
ODD = "and.b64 %rd4, %rd2, 8; setp.ne.s64 %p2, %rd4, 0;"
DOUBLED = "mov.b64 %rd3, %rd2;" + "add.s64 %rd3, %rd3, %rd3;" * 70

CASES = {
    "two places": (f"{COPY.replace('PLACE', '%rd2')} {COPY.replace('PLACE', '%rd2+{0}')}", 8, 16),
    "a place before": (
        f"sub.s64 %rd3, %rd2, {{0}}; {COPY.replace('PLACE', '%rd2')} {COPY.replace('PLACE', '%rd3')}", 8, 32,
    ),
    "one of two sizes": (f"{COPY.replace('PLACE', '%rd2')} {SMALL.replace('PLACE', '%rd2+{0}')}", 2, 4),
    "bulk copies": (f"{BULK.replace('PLACE', '%rd2')} {BULK.replace('PLACE', '%rd2+{0}')}", 40, 48),
    "of each thread": (
        "mul.wide.u32 %rd3, %r1, 16; add.s64 %rd3, %rd2, %rd3; add.s64 %rd4, %rd2, {0}; "
        "mul.wide.u32 %rd5, %r1, 16; add.s64 %rd4, %rd5, %rd4; "
        f"{COPY.replace('PLACE', '%rd3')} {COPY.replace('PLACE', '%rd4')}", 8, 16,
    ),
    "loaded twice": (
        f"{COPY.replace('PLACE', '%rd2')} ld.param.u64 %rd3, [a]; cvta.to.global.u64 %rd3, %rd3; "
        f"ld.global.u64 %rd4, [%rd3]; {COPY.replace('PLACE', '%rd4+{0}')}", 8, 16,
    ),
    "loaded twice from a table": (
        "mul.wide.u32 %rd3, %r1, 8; add.s64 %rd3, %rd1, %rd3; ld.global.nc.u64 %rd4, [%rd3+16]; "
        f"{COPY.replace('PLACE', '%rd4')} mul.wide.u32 %rd5, %r1, 8; add.s64 %rd5, %rd1, %rd5; "
        f"ld.global.nc.u64 %rd6, [%rd5+16]; {COPY.replace('PLACE', '%rd6+{0}')}", 4, 32,
    ),
    "a pointer that moves": (LOOP.replace("PLACE", "add.s64 %rd2, %rd2, {0}; mov.b64 %rd3, %rd2;", 1), 8, 16),
    "a row of each turn": (LOOP.replace("PLACE", "mad.wide.s32 %rd3, %r3, {0}, %rd2;", 1), 24, 48),
    "a shifted turn": (
        LOOP.replace("PLACE", "shl.b32 %r4, %r3, {0}; cvt.s64.s32 %rd3, %r4; add.s64 %rd3, %rd2, %rd3;", 1),
        3, 4,
    ),
    "a pointer and a turn": (
        LOOP.replace("PLACE", "mad.wide.s32 %rd3, %r3, {0}, %rd2; add.s64 %rd2, %rd2, 8;", 1), 16, 8,
    ),
}  # fmt: skip
#: What each thread, or each block, adds to one pointer; and what comes before the copy.
BY_NUMBER = "mul.wide.u32 %rd3, %r4, {0}; add.s64 %rd4, %rd2, %rd3; GUARD " + COPY.replace("PLACE", "%rd4")
BY_NUMBER += " X:"
CASES |= {
    name: (f"{number} {BY_NUMBER.replace('GUARD', guard)}", bad, good)
    for name, number, guard, bad, good in [
        ("threads", "mov.u32 %r4, %tid.x;", "", 8, 16),
        ("lanes", "mov.u32 %r4, %laneid;", "", 4, 32),
        ("warps", "shr.u32 %r4, %r1, 5;", "", 8, 16),
        ("the other bit", "and.b32 %r4, %r1, 2;", "", 4, 8),
        ("blocks", "mov.u32 %r4, %ctaid.x;", "", 8, 16),
        ("a remainder", "rem.u32 %r4, %r1, 3;", "", 8, 16),
        ("a quotient", "div.u32 %r4, %r1, 3;", "", 8, 16),
        ("a field", "bfe.u32 %r4, %r1, 0, 3;", "", 8, 16),
        ("bytes", "prmt.b32 %r4, %r1, 0, 0x4440;", "", 8, 16),
        ("threads of all blocks",
         "mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mad.lo.u32 %r4, %r4, %r5, %r1;", "", 8, 16),
        ("half of the threads", "mov.u32 %r4, %r1;", "setp.ge.u32 %p1, %r1, 32; @%p1 bra X;", 8, 16),
        ("as many as a size", "mov.u32 %r4, %r1;",
         "ld.param.u32 %r5, [n]; setp.ge.u32 %p1, %r1, %r5; @%p1 bra X;", 8, 16),
        ("even threads", "mov.u32 %r4, %r1;",
         "and.b32 %r5, %r1, 1; setp.ne.u32 %p1, %r5, 0; @%p1 bra X;", 4, 8),
        ("each fourth, or by a size", "mov.u32 %r4, %r1;",
         "and.b32 %r5, %r1, 3; setp.ne.u32 %p1, %r5, 0; ld.param.u32 %r6, [n]; setp.eq.u32 %p2, %r6, 0; "
         "or.pred %p3, %p1, %p2; @%p3 bra X;", 2, 4),
        ("two threads", "mov.u32 %r4, %r1;",
         "setp.ne.u32 %p1, %r1, 3; setp.ne.u32 %p2, %r1, 6; and.pred %p3, %p1, %p2; @%p3 bra X;", 8, 16),
    ]
}  # fmt: skip
MOVED = f"setp.ne.u32 %p1, %r4, 0; mov.b64 %rd4, %rd2; @%p1 add.s64 %rd4, %rd4, {{0}}; {COPY}"
MOVED = MOVED.replace("PLACE", "%rd4").replace("{{", "{").replace("}}", "}")
HALVES = "mov.b64 {%r5, %r6}, %rd2;"
WHOLE = "mov.b64 %rd4, {%r5, %r6}; " + COPY.replace("PLACE", "%rd4")
#: What every second thread, or what some thread or block, adds by a selection, a branch, or bit by bit.
BY_CHOICE = {
    "a selection": (
        "setp.ne.u32 %p1, %r4, 0; add.s64 %rd3, %rd2, {0}; selp.b64 %rd4, %rd3, %rd2, %p1;"
        + COPY.replace("PLACE", "%rd4"), 8, 16,
    ),
    "a guard": (MOVED, 8, 16),
    "a warp": ("shr.u32 %r4, %r1, 5; add.s32 %r4, %r4, -3;" + MOVED.replace(".ne", ".eq"), 8, 16),
    "an exchanged number": ("shfl.sync.bfly.b32 %r4, %r4, 2, 31, -1;" + MOVED, 8, 16),
    "a warp's number": ("shr.u32 %r4, %r1, 5; shfl.sync.idx.b32 %r4, %r4, 0, 31, -1;" + MOVED, 8, 16),
    "an elected lane": ("mov.u32 %r4, 0; elect.sync %r5|%p3, -1; @%p3 mov.u32 %r4, 1;" + MOVED, 8, 16),
    "a carry": ("add.cc.u32 %r5, %r4, -1; addc.u32 %r4, 0, 0;" + MOVED, 8, 16),
    "a thread": ("add.s32 %r4, %r1, 0;" + MOVED.replace(".ne", ".eq").replace("%r4, 0", "%r4, 77"), 8, 16),
    "a block": ("mov.u32 %r4, %ctaid.x;" + MOVED, 8, 16),
    "a size": ("ld.param.u32 %r5, [n]; xor.b32 %r4, %r1, %r5; and.b32 %r4, %r4, 1;" + MOVED, 8, 16),
    "a branch": (
        "setp.ne.u32 %p1, %r4, 0; mov.b64 %rd4, %rd2; @!%p1 bra X; add.s64 %rd4, %rd4, {0}; X:"
        + COPY.replace("PLACE", "%rd4"), 8, 16,
    ),
    "a copy of each": (
        f"setp.ne.u32 %p1, %r4, 0; @%p1 bra O; {COPY.replace('PLACE', '%rd2')} bra X; "
        f"O: {COPY.replace('PLACE', '%rd2+{0}')} X:", 8, 16,
    ),
    "turns": (
        "mov.b64 %rd4, %rd2; L: setp.ge.u32 %p1, %r3, %r4; @%p1 bra X; add.s64 %rd4, %rd4, {0}; "
        "add.u32 %r3, %r3, 1; bra L; X:" + COPY.replace("PLACE", "%rd4"), 8, 16,
    ),
    "a number in floating point": (
        "cvt.rn.f32.u32 %f1, %r4; setp.gt.f32 %p1, %f1, 0f00000000; mov.b64 %rd4, %rd2; "
        "@%p1 add.s64 %rd4, %rd4, {0};" + COPY.replace("PLACE", "%rd4"), 8, 16,
    ),
    "a table": (
        "mul.wide.u32 %rd3, %r4, 4; mov.u64 %rd5, t; add.s64 %rd5, %rd5, %rd3; ld.const.u32 %r5, [%rd5+{0}];"
        "cvt.u64.u32 %rd6, %r5; add.s64 %rd4, %rd2, %rd6;" + COPY.replace("PLACE", "%rd4"), 0, 4,
    ),
    "a vector": (
        "ld.global.v2.u64 {%rd5, %rd2}, [%rd1];" + MOVED, 8, 16,
    ),
    "a word by shared memory": (
        "st.shared.u64 [s], %rd2; bar.sync 0; ld.shared.u64 %rd2, [s];" + MOVED, 8, 16,
    ),
    "another lane's": (
        f"{HALVES} shfl.sync.idx.b32 %r5, %r5, 0, 31, -1; mov.b64 %rd2, {{%r5, %r6}}; {MOVED}", 8, 16,
    ),
    "bits": (
        "cvt.u64.u32 %rd3, %r4; bfi.b64 %rd4, %rd3, %rd2, {0}, 1;" + COPY.replace("PLACE", "%rd4"), 3, 5,
    ),
    "a difference": (
        "mul.wide.u32 %rd3, %r4, {0}; xor.b64 %rd4, %rd2, %rd3;" + COPY.replace("PLACE", "%rd4"), 8, 16,
    ),
    "three operands": (
        f"mul.lo.u32 %r4, %r4, {{0}}; {HALVES} lop3.b32 %r5, %r5, %r4, 0, 0x3c; {WHOLE}", 8, 16,
    ),
    "picked bytes": (
        f"mul.lo.u32 %r4, %r4, {{0}}; {HALVES} "
        f"xor.b32 %r7, %r5, %r4; prmt.b32 %r5, %r7, %r5, 0x7650; {WHOLE}",
        8, 16,
    ),
    "shifted words": (
        f"mul.lo.u32 %r4, %r4, {{0}}; {HALVES} shf.l.wrap.b32 %r7, 0, %r4, 0; add.u32 %r5, %r5, %r7; {WHOLE}",
        8, 16,
    ),
    "one of two words": (
        "mul.wide.u32 %rd3, %r4, 8; add.s64 %rd3, %rd1, %rd3; ld.global.u64 %rd5, [%rd3]; "
        "and.b32 %r4, %r1, 2; mul.wide.u32 %rd6, %r4, {0}; add.s64 %rd4, %rd5, %rd6;"
        + COPY.replace("PLACE", "%rd4"), 4, 8,
    ),
}  # fmt: skip
CASES |= {
    f"by {name}": (f"and.b32 %r4, %r1, 1; {body}", bad, good) for name, (body, bad, good) in BY_CHOICE.items()
}
#: What is the caller's to align.
LEFT = {
    "one side or the other": (
        f"{ODD} @%p2 bra O; {COPY.replace('PLACE', '%rd2')} bra X; O: {COPY.replace('PLACE', '%rd2+8')} X:"
    ),
    "moved until it is aligned": (
        f"P: {ODD} @!%p2 bra O; add.s64 %rd2, %rd2, 8; bra P; O: {COPY.replace('PLACE', '%rd2')}"
    ),
    "another word": (
        f"{COPY.replace('PLACE', '%rd2')} ld.global.u64 %rd4, [%rd1+8]; {COPY.replace('PLACE', '%rd4+8')}"
    ),
    "another entry": (
        "mul.wide.u32 %rd3, %r1, 8; add.s64 %rd3, %rd1, %rd3; ld.global.nc.u64 %rd4, [%rd3+16]; "
        f"{COPY.replace('PLACE', '%rd4')} mul.wide.u32 %rd5, %r1, 16; add.s64 %rd5, %rd1, %rd5; "
        f"ld.global.nc.u64 %rd6, [%rd5+65536]; {COPY.replace('PLACE', '%rd6+8')}"
    ),
    "a word that others write": (
        f"ld.volatile.global.u64 %rd3, [%rd1]; {COPY.replace('PLACE', '%rd3')} "
        f"ld.volatile.global.u64 %rd4, [%rd1]; {COPY.replace('PLACE', '%rd4+8')}"
    ),
    "loaded each time": LOOP.replace("PLACE", "ld.global.u64 %rd3, [%rd1]; add.s64 %rd1, %rd1, 8;", 1),
    "one thread": BY_NUMBER.format(8).replace("GUARD", "setp.ne.u32 %p1, %r1, 3; @%p1 bra X;"),
    "a pointer of each thread": (
        "mul.wide.u32 %rd3, %r1, 8; add.s64 %rd4, %rd1, %rd3; ld.global.nc.u64 %rd5, [%rd4]; "
        f"add.s64 %rd6, %rd5, %rd3; {COPY.replace('PLACE', '%rd6')}"
    ),
    "a size for each thread": (
        "ld.param.u32 %r5, [n]; mul.wide.u32 %rd3, %r1, %r5; add.s64 %rd4, %rd2, %rd3; "
        + COPY.replace("PLACE", "%rd4")
    ),
    "a choice by a size": (
        "ld.param.u32 %r5, [n]; setp.lt.u32 %p1, %r5, 7; mov.b64 %rd3, %rd2; @%p1 add.s64 %rd3, %rd3, 8; "
        + COPY.replace("PLACE", "%rd3")
    ),
    "a copy of each of two pointers": (
        "ld.global.u64 %rd4, [%rd1+8]; and.b32 %r4, %r1, 1; setp.ne.u32 %p1, %r4, 0; "
        f"@%p1 bra O; {COPY.replace('PLACE', '%rd2+4')} bra X; O: {COPY.replace('PLACE', '%rd4+8')} X:"
    ),
    "a table of each thread": (
        "mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd1, %rd3; ld.global.u32 %r4, [%rd3+64]; "
        "cvt.u64.u32 %rd4, %r4; add.s64 %rd4, %rd2, %rd4; " + COPY.replace("PLACE", "%rd4")
    ),
    "one warp": (
        "shr.u32 %r4, %r1, 5; shfl.sync.idx.b32 %r4, %r4, 0, 31, -1; setp.ne.u32 %p1, %r4, 3; @%p1 bra X; "
        "mul.wide.u32 %rd3, %r4, 8; add.s64 %rd4, %rd2, %rd3; " + COPY.replace("PLACE", "%rd4") + " X:"
    ),
    "doubled often": f"{DOUBLED} {COPY.replace('PLACE', '%rd3')}",
}


def hidden(body: str) -> bool:
    """Whether the alignment of a copy is unknown."""
    module = parse(f"{HEAD}{body} ret;\n}}\n")
    return bool(copy_addresses(module.functions[0], variables=module.variables).hidden)


@pytest.mark.parametrize("name", CASES)
def test_addresses_that_are_not_all_aligned(name: str) -> None:
    body, bad, good = CASES[name]
    assert hidden(body.replace("{0}", str(bad)))
    assert not hidden(body.replace("{0}", str(good)))


@pytest.mark.parametrize("name", LEFT)
def test_addresses_that_may_be_aligned(name: str) -> None:
    assert not hidden(LEFT[name])


#: Words that go through memory, exchanges and numbers in floating point: no caller aligns the copy of the bad
#: one, and some caller that of the good one.
OWN = "shl.b32 %r8, %r1, 3; mov.u32 %r7, kept; add.u32 %r6, %r7, %r8; mul.wide.u32 %rd3, %r1, {0}; "
MIXED = OWN + "add.s64 %rd3, %rd2, %rd3; "
PUT, GOT = "st.shared.u64 [%r6], %rd3; bar.sync 0; ", "ld.shared.u64 %rd5, [%r6]; "
OF = "add.s64 %rd5, %rd2, %rd5; "
AT = COPY.replace("PLACE", "%rd5")
LOW = "mov.b64 {%r4, %r5}, %rd3; "
THROUGH = {
    "a number": (OWN + PUT + GOT + OF + AT, 8, 16),
    "a number and a size": (
        OWN + "ld.param.u32 %r5, [n]; cvt.u64.u32 %rd6, %r5; add.s64 %rd3, %rd3, %rd6; "
        + PUT + GOT + OF + AT, 8, 16,
    ),
    "a number and a loaded word": (MIXED + PUT + GOT + AT, 8, 16),
    "a number of the block and a loaded word": (
        MIXED.replace("wide.u32 %rd3, %r1", "wide.u32 %rd3, %r4").replace("mul", "mov.u32 %r4, %ctaid.x; mul")
        + PUT + GOT + AT, 8, 16,
    ),
    "a constant": (OWN + COPY.replace("PLACE", "%rd2") + "mov.u64 %rd3, {0}; " + PUT + GOT + OF + AT, 8, 16),
    "a constant by a branch": (
        OWN + "mov.u64 %rd3, 0; and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra E; mov.u64 %rd3, {0}; "
        "E: " + PUT + GOT + OF + AT, 8, 16,
    ),
    "a copied word and a constant": (
        OWN + COPY.replace("PLACE", "%rd2") + "add.s64 %rd3, %rd2, {0}; " + PUT + GOT + AT, 8, 16,
    ),
    "a copied word": (
        OWN + COPY.replace("PLACE", "%rd2") + "mov.b64 %rd3, %rd2; " + PUT + GOT
        + COPY.replace("PLACE", "%rd5+{0}"), 8, 16,
    ),
    "two halves": (
        MIXED + LOW + "st.shared.v2.u32 [%r6], {%r4, %r5}; bar.sync 0; " + GOT + AT, 8, 16,
    ),
    "a generic store": (
        MIXED + "cvt.u64.u32 %rd6, %r6; cvta.shared.u64 %rd6, %rd6; st.u64 [%rd6], %rd3; bar.sync 0; " + GOT
        + AT, 8, 16,
    ),
    "global memory": (
        MIXED + "ld.param.u64 %rd7, [b]; mul.wide.u32 %rd6, %r1, 8; add.s64 %rd7, %rd7, %rd6; "
        "st.global.u64 [%rd7], %rd3; ld.global.u64 %rd5, [%rd7]; " + AT, 8, 16,
    ),
    "a word that is exchanged": (MIXED + "atom.shared.exch.b64 %rd5, [%r6], %rd3; " + AT, 8, 16),
    "a counter": (
        OWN + "ld.param.u64 %rd7, [b]; atom.global.add.u64 %rd5, [%rd7], {0}; " + OF + AT, 8, 16,
    ),
    "a sum": (OWN + "red.shared.add.u64 [%r6], %rd3; bar.sync 0; " + GOT + OF + AT, 8, 16),
    "a sum by a loop of exchanges": (
        "st.shared.u32 [kept], 0; L: ld.volatile.shared.u32 %r3, [kept]; add.u32 %r4, %r3, {0}; "
        "atom.shared.cas.b32 %r5, [kept], %r3, %r4; setp.ne.u32 %p1, %r5, %r3; @%p1 bra L; "
        "cvt.u64.u32 %rd5, %r3; " + OF + AT, 8, 16,
    ),
    "a loop that turns once": (
        MIXED + "L: " + COPY.replace("PLACE", "%rd3") + "setp.ge.u32 %p1, %r1, 512; @%p1 bra L;", 8, 16,
    ),
    "another lane's number and a loaded word": (
        MIXED + LOW + "shfl.sync.bfly.b32 %r4, %r4, 1, 31, -1; mov.b64 %rd5, {%r4, %r5}; " + AT, 8, 16,
    ),
    "zeros of a copy and a constant": (
        OWN + "mov.u32 %r4, 0; cp.async.ca.shared.global [%r6], [%rd1], 8, %r4; cp.async.wait_all; "
        + GOT + "add.s64 %rd5, %rd1, %rd5; add.s64 %rd5, %rd5, {0}; " + AT, 8, 16,
    ),
    "the lane's before": (
        MIXED + LOW + "shfl.sync.up.b32 %r4, %r4, 1, 0, -1; mov.b64 %rd5, {%r4, %r5}; " + AT, 8, 16,
    ),
}  # fmt: skip
#: The caller's to align, too.
BESIDE = {
    "a flag": (
        "st.shared.u32 [kept+8], 8; st.shared.u64 [kept], %rd2; bar.sync 0; ld.shared.u64 %rd5, [kept]; " + AT
    ),
    "a number elsewhere": (
        OWN.format(8) + "st.shared.u64 [other], %rd3; mov.b64 %rd3, %rd2; " + PUT + GOT + AT
    ),
    "a loaded index": (
        OWN.format(8) + "ld.global.u64 %rd3, [%rd1+8]; " + PUT + GOT + OF + AT
    ),
    "a word and a constant": OWN.format(8) + "add.s64 %rd3, %rd2, 8; " + PUT + GOT + AT,
    "results in floating point": (
        OWN.format(8) + "ld.global.f32 %f1, [%rd1+8]; mul.f32 %f1, %f1, %f1; st.shared.f32 [%r6], %f1; "
        "st.shared.f32 [%r6+4], 0f3F800000; bar.sync 0; " + GOT + OF + AT
    ),
}  # fmt: skip
MEMORY = ".shared .align 8 .b8 kept[2048]; .shared .align 8 .b8 other[1024]; "


@pytest.mark.parametrize("name", THROUGH)
def test_what_a_kernel_makes_and_stores_is_not_the_callers(name: str) -> None:
    body, bad, good = THROUGH[name]
    assert hidden(MEMORY + body.replace("{0}", str(bad)))
    assert not hidden(MEMORY + body.replace("{0}", str(good)))


@pytest.mark.parametrize("name", BESIDE)
def test_data_that_is_stored_stays_the_callers(name: str) -> None:
    assert not hidden(MEMORY + BESIDE[name])


def test_a_copy_of_what_is_stored_stores_it() -> None:
    put = "ld.param.u64 %rd7, [b]; mul.wide.u32 %rd6, %r1, 8; add.s64 %rd7, %rd7, %rd6; "
    copied = "cp.async.ca.shared.global [%r6], [%rd7], 8; cp.async.wait_all; bar.sync 0; " + GOT + OF + AT
    own = MEMORY + OWN.format(8) + put
    assert hidden(own + "st.global.u64 [%rd7], %rd3; " + copied)
    assert not hidden(own + copied)


def test_constants_in_floating_point_are_not_the_callers() -> None:
    made = "mov.f32 %f1, 0f41000000; cvt.rzi.u64.f32 %rd5, %f1; " + OF + COPY.replace("PLACE", "%rd2") + AT
    assert hidden(made)
