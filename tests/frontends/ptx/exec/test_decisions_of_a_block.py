"""Branches on data that all threads of a block decide alike, around barriers: one answer for the block."""

from pathlib import Path

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.analysis.registers.uniformity import Uniformity
from syncverify.frontends.ptx.decode.memory import Bytes
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

#: All threads of two warps bring a word; who goes on knows the greatest of all, by way of ``part``.
KERNEL = """.shared .align 16 .b8 part[16];
.shared .align 256 .b8 s[1024];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
shl.b32 %r3, %r2, 2;
mov.u32 %r4, part;
add.u32 %r5, %r4, %r3;
and.b32 %r6, %r1, 1;
shl.b32 %r6, %r6, 2;
add.u32 %r6, %r4, %r6;
ld.param.u64 %rd1, [p];
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd2, %rd1, %rd2;
mov.u32 %r20, s;
shl.b32 %r21, %r1, 2;
add.u32 %r20, %r20, %r21;
LOOP:
ld.global.u32 %r10, [%rd2];
redux.sync.max.u32 %r11, %r10, -1;
st.shared.u32 [%r5], %r11;
bar.sync 0;
{load}
shfl.sync.bfly.b32 %r13, %r12, 1, 31, -1;
max.u32 %r14, %r12, %r13;
{between}
setp.ne.u32 %p1, %r14, 7;
@%p1 bra NEXT;
bra END;
NEXT:
st.shared.u32 [%r20], %r14;
bar.sync 0;
xor.b32 %r22, %r20, 128;
ld.shared.u32 %r23, [%r22];
st.global.u32 [%rd2], %r23;
{last}
bra LOOP;
END:
ret;
"""
LOAD = "ld.shared.u32 %r12, [%r6];"


def text(load: str, between: str, last: str) -> str:
    body = KERNEL.format(load=load, between=between, last=last)
    return module_text(body, ".param .u64 p", bounds=".reqntid 64, 1, 1")


def verdict(
    tmp_path: Path, load: str = LOAD, between: str = "bar.sync 0;", last: str = "bar.sync 0;"
) -> Verdict:
    """Without executions on drawn inputs: what is asked is whether it is proved."""
    path = tmp_path / "k.ptx"
    path.write_text(text(load, between, last))
    (result,) = check(path, replay=False)
    return result.verdict


def test_a_loop_until_a_word_of_the_whole_block(tmp_path: Path) -> None:
    assert verdict(tmp_path) is Verdict.PROVED


@pytest.mark.parametrize(
    "changes",
    [
        # each warp reads its own part, and goes its own way past barriers of the block
        {"load": "ld.shared.u32 %r12, [%r5];"},
        # the parts are written again while others read them
        {"between": "st.shared.u32 [%r5], %r14;"},
        # a lane's own word
        {"load": "ld.global.u32 %r12, [%rd2];"},
        # a word is written again that the other warp may still load
        {"last": "st.shared.u32 [%r20], %r14;"},
    ],
)
def test_a_loop_whose_threads_may_part_or_race(tmp_path: Path, changes: dict[str, str]) -> None:
    assert verdict(tmp_path, **changes) is not Verdict.PROVED


HANDED_ON = """.shared .align 4 .b32 word;
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
ld.param.u64 %rd1, [p];
ld.global.u32 %r5, [%rd1];
setp.ne.u32 %p2, %r1, 0;
@%p2 bra SET;
st.shared.u32 [word], %r5;
SET:
bar.sync 0;
setp.ne.u32 %p3, %r2, 1;
@%p3 bra READ;
{first}
READ:
ld.shared.u32 %r6, [word];
setp.ne.u32 %p4, %r2, 0;
@%p4 bra NEXT;
{second}
NEXT:
setp.ne.u32 %p5, %r1, 64;
@%p5 bra DECIDE;
{third}
DECIDE:
setp.eq.u32 %p1, %r6, 7;
@%p1 bra END;
bar.sync 0;
END:
ret;
"""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        # warp 0 reads, and lets the other know, which writes; then warp 1 reads another word
        (
            {
                "first": "bar.sync 2, 64;",
                "second": "bar.sync 1, 64;",
                "third": "bar.sync 1, 64; st.shared.u32 [word], %r1; bar.sync 2, 64;",
            },
            False,
        ),
    ],
)
def test_a_word_that_changes_between_the_loads_of_two_warps(
    tmp_path: Path, changes: dict[str, str], expected: bool
) -> None:
    path = tmp_path / "k.ptx"
    body = HANDED_ON.format(**{"first": "", "second": "", "third": ""} | changes)
    path.write_text(module_text(body, ".param .u64 p", bounds=".reqntid 96, 1, 1"))
    (result,) = check(path)
    assert (result.verdict is Verdict.PROVED) is expected


def decided_alike(between: str) -> bool:
    function = parse(text(LOAD, between, "bar.sync 0;"), "k.ptx").entries[0]
    uniformity = Uniformity(Flow(function), (64, 1, 1))
    return uniformity.decided_alike(next(k for k, i in enumerate(function.body) if i.op == "bra"), ())


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("", True),
        ("bar.sync 0;", True),
        ("bar.warp.sync -1;", True),
        ("bar.arrive 1, 96;", False),
        # a word of global memory, which nobody looks for races in
        ("ld.global.u32 %r14, [%rd1];", False),
        # ``nc`` says that nobody writes there, and the kernel may do it all the same
        ("ld.global.nc.u32 %r14, [%rd1];", False),
        ("and.b32 %r14, %r14, %r1;", False),
        ("add.u32 %r14, %r14, %r2;", False),
    ],
)
def test_which_branches_a_block_decides_alike(between: str, expected: bool) -> None:
    assert decided_alike(between) is expected


class TestAnswers:
    """Two warps, the second of 8 lanes."""

    FULL = (1 << 32) - 1

    def test_all_get_the_first_answer_and_then_a_new_one(self) -> None:
        contents, given = Bytes(), iter("abc")

        def ask(warp: int, lanes: int) -> object:
            return contents.answered(3, (warp, lanes), 40, lambda: next(given))

        assert [ask(0, self.FULL), ask(1, 0x0F), ask(1, 0xF0)] == ["a", "a", "a"]
        assert not contents.cells
        assert [ask(1, 0xFF), ask(0, 1), ask(0, self.FULL - 1)] == ["b", "b", "b"]

    def test_who_comes_again_before_the_others_gets_none(self) -> None:
        contents = Bytes()
        assert contents.answered(3, (0, self.FULL), 40, lambda: "a") == "a"
        assert contents.answered(3, (0, self.FULL), 40, lambda: "b") is None
        assert contents.answered(3, (1, 0xFF), 40, lambda: "c") == "a"

    def test_branches_have_answers_of_their_own(self) -> None:
        contents = Bytes()
        assert contents.answered(3, (0, self.FULL), 40, lambda: "a") == "a"
        assert contents.answered(4, (1, 0xFF), 40, lambda: "b") == "b"
        assert contents.answered(3, (1, 0xFF), 40, lambda: "c") == "a"
