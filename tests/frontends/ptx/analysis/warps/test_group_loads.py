"""Words that a group of lanes reads from the place of one of them, between two of its barriers.

Each wrong kernel is executed by the second reader as well, which must see a race with some input, but for
those that are marked as beyond what is looked at.
"""

from pathlib import Path

import numpy as np
import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.simulate.ptx import Launch, buffer, sample
from syncverify.simulate.ptx.syntax import parse
from tests.frontends.ptx.execute_helpers import module_text

KERNEL = """.shared .align 16 .b8 words[768];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd2, %rd1, %rd3;
ld.global.u32 %r3, [%rd2];
mov.u32 %r2, words;
shl.b32 %r4, %r1, 3;
add.u32 %r4, %r4, %r2;
shr.u32 %r5, %r1, 5;
shl.b32 %r5, %r5, 8;
add.u32 %r5, %r5, %r2;
{body}
st.global.u32 [%rd2], %r9;
A: ret;
"""
VOTE = "setp.lt.u32 %p1, %r3, 16; vote.sync.ballot.b32 %r7, %p1, -1;"
LOWEST = "brev.b32 %r10, %r7; clz.b32 %r11, %r10;"
PLACE = "shl.b32 %r12, %r11, 3; add.u32 %r12, %r12, %r5;"
#: The place of the highest lane, as compilers make it.
HIGHEST = "clz.b32 %r10, %r7; or.b32 %r14, %r1, 31; sub.s32 %r13, %r14, %r10; shl.b32 %r12, %r13, 3; " \
    "add.u32 %r12, %r12, %r2;"  # fmt: skip
STORE, MEET, LOAD = "st.shared.u32 [%r4], %r3;", "bar.warp.sync %r7;", "ld.shared.u32 %r9, [%r12];"
#: One side of a branch, and both of its sides.
ONE = f"{VOTE} @!%p1 bra A; {LOWEST} {PLACE} {{}}"
OTHER = "not.b32 %r17, %r7; brev.b32 %r20, %r17; clz.b32 %r21, %r20; shl.b32 %r22, %r21, 3; " \
    "add.u32 %r22, %r22, %r5; st.shared.u32 [%r4], %r3; bar.warp.sync %r17; ld.shared.u32 %r9, [%r22]; " \
    "bar.warp.sync %r17; "  # fmt: skip
BOTH = f"{VOTE} @!%p1 bra B; {LOWEST} {PLACE} {{}} bra C; B: {OTHER} C:"
TRADE = f"{STORE} {MEET} {LOAD} {MEET}"
RIGHT = {
    "one side": ONE.format(TRADE),
    "both sides": BOTH.format(TRADE),
    "the store before the branch":
        f"{STORE} {VOTE} @!%p1 bra A; {LOWEST} {PLACE} {MEET} {LOAD} {MEET} {STORE}",
    "the highest lane": BOTH.replace(LOWEST, "bfind.u32 %r11, %r7;").format(TRADE),
    "the highest lane, counted from the other end":
        BOTH.replace(LOWEST, "clz.b32 %r10, %r7; sub.u32 %r11, 31, %r10;").format(TRADE),
    "the lowest lane as compilers count it":
        BOTH.replace(LOWEST, "brev.b32 %r10, %r7; bfind.shiftamt.u32 %r11, %r10;").format(TRADE),
    "the place by one instruction":
        BOTH.replace(PLACE, "mad.lo.u32 %r12, %r11, 8, %r5;").format(TRADE),
    "the highest lane, in one number with the warp's":
        BOTH.replace(f"{LOWEST} {PLACE}", HIGHEST).format(TRADE),
    "a place that the lane hands on":
        BOTH.replace(PLACE, "shfl.sync.idx.b32 %r12|%p3, %r4, %r11, 31, %r7;").format(TRADE),
    "lanes part by their numbers inside":
        f"{VOTE} @!%p1 bra A; setp.lt.u32 %p4, %r1, 40; vote.sync.ballot.b32 %r17, %p4, %r7; @!%p4 bra A; "
        + f"{LOWEST} {PLACE} {TRADE}".replace("%r7", "%r17"),
    "one lane stores once more to its own place":
        ONE.format(f"setp.ne.u32 %p4, %r1, 5; @%p4 bra D; {STORE} D: {TRADE}"),
    "two words": BOTH.format(f"st.shared.v2.u32 [%r4], {{{{%r3, %r1}}}}; {MEET} "
                             f"ld.shared.v2.u32 {{{{%r9, %r8}}}}, [%r12]; {MEET}"),
    "twice": BOTH.format(f"{TRADE} {TRADE}"),
    "a vote between the barriers":
        BOTH.format(f"{STORE} {MEET} vote.sync.any.pred %p3, %p1, %r7; {LOAD} {MEET}"),
    "in each turn of a loop":
        f"{VOTE} @!%p1 bra A; and.b32 %r14, %r3, 3; mov.u32 %r13, 0; L: setp.lt.u32 %p3, %r13, %r14; "
        f"vote.sync.ballot.b32 %r7, %p3, %r7; @!%p3 bra A; {LOWEST} {PLACE} {TRADE} add.u32 %r13, %r13, 1; "
        "bra L;",
    "lanes with one value": f"match.any.sync.b32 %r7, %r3, -1; {LOWEST} {PLACE} {TRADE}",
}  # fmt: skip
#: Those of which the second reader sees that they are wrong.
WRONG = {
    "no barrier before the load": ONE.format(f"{STORE} {LOAD} {MEET}"),
    "no barrier after the load": ONE.format(f"{STORE} {MEET} {LOAD} {STORE}"),
    "a store between the barriers": ONE.format(f"{MEET} {STORE} {LOAD} {MEET}"),
    "a store between the barriers, after the load": ONE.format(f"{MEET} {LOAD} {STORE} {MEET}"),
    "the lowest lane of all": BOTH.replace("%r10, %r7", "%r10, -1").format(TRADE),
    "the lane after the lowest": BOTH.replace("%r11, 3", "%r11, 3; add.u32 %r12, %r12, 8").format(TRADE),
    "the lowest of the others":
        BOTH.replace(LOWEST, "not.b32 %r18, %r7; brev.b32 %r10, %r18; clz.b32 %r11, %r10;").format(TRADE),
    "a place that varies with the lane":
        BOTH.replace("add.u32 %r12, %r12, %r5;", "add.u32 %r12, %r12, %r4;").format(TRADE),
    "the place of the other warp's lane": BOTH.replace("%r12, %r5", "%r12, %r2").format(TRADE),
    "a place that the lane after the lowest hands on":
        BOTH.replace(PLACE, "add.u32 %r11, %r11, 1; shfl.sync.idx.b32 %r12|%p3, %r4, %r11, 31, %r7;")
        .format(TRADE),
    "a place that the next lane hands on":
        BOTH.replace(PLACE, "shfl.sync.bfly.b32 %r12|%p3, %r4, 1, 31, -1;").format(TRADE),
    "the lane before the highest, in one number with the warp's":
        BOTH.replace(f"{LOWEST} {PLACE}", f"{HIGHEST} sub.u32 %r12, %r12, 8;").format(TRADE),
    "one lane stores to its neighbour's place":
        ONE.format(f"setp.ne.u32 %p4, %r1, 5; @%p4 bra D; st.shared.u32 [%r4+8], %r3; D: {TRADE}"),
    "the mask of a vote that is older":
        f"{VOTE} @!%p1 bra A; {LOWEST} {PLACE} setp.lt.u32 %p3, %r3, 3; "
        f"vote.sync.ballot.b32 %r7, %p3, %r7; @!%p3 bra B; {TRADE} bra A; B: {STORE} {STORE}",
}  # fmt: skip


def text(body: str) -> str:
    body = KERNEL.format(body=body.replace("{{", "{").replace("}}", "}"))
    return module_text(body, ".param .u64 p", bounds=".reqntid 64, 1, 1")


def verdict(folder: Path, body: str) -> Verdict:
    (folder / "k.ptx").write_text(text(body))
    (found,) = check_source(read_source(folder / "k.ptx"), replay=False, repairs=False)
    return found.verdict


def harmed(body: str) -> bool:
    """Whether an execution of the second reader does harm, for inputs that part the lanes."""
    numbers = np.arange(64, dtype=np.uint32)
    for words in (
        numbers * 7 % 32,
        31 - numbers % 32,
        numbers % 2 * 20,
        numbers * 0 + 1,
        numbers * 11 % 5 * 6,
    ):
        given = Launch(
            block=(64, 1, 1), grid=(1, 1, 1), cluster=(1, 1, 1), params=[buffer(words.astype(np.uint32))],
            watches=frozenset({"shared"}),
        )  # fmt: skip
        if any(r.harm is not None for r in sample(parse(text(body)), "k", given, range(12), limit=20_000)):
            return True
    return False


@pytest.mark.parametrize("name", RIGHT)
def test_what_one_lane_of_a_group_holds_may_be_read(tmp_path: Path, name: str) -> None:
    assert not harmed(RIGHT[name])
    assert verdict(tmp_path, RIGHT[name]) is Verdict.PROVED


@pytest.mark.parametrize("name", WRONG)
def test_what_others_write_meanwhile_may_not(tmp_path: Path, name: str) -> None:
    assert harmed(WRONG[name])
    assert verdict(tmp_path, WRONG[name]) is not Verdict.PROVED
