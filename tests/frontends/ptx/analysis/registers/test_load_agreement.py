"""Loads by one instruction that read memory in two states, and stores of what they have read."""

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.ptx.analysis.registers.load_agreement import releases
from syncverify.frontends.ptx.analysis.registers.uniformity import BLOCK, LANES, THREADS, TIME, Uniformity
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

KERNEL = """.shared .align 16 .b8 s[1024];
.shared .align 4 .b32 w;
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
mov.u32 %r4, s;
ld.param.u64 %rd1, [p];
setp.ne.u32 %p2, %r1, 0;
@%p2 bra SET;
mov.u32 %r3, 7;
st.shared.u32 [s], %r3;
SET:
bar.sync 0;
{body}
bar.sync 0;
ret;
"""
#: Warp 0 reads 7 and lets warp 2 write 9, which lets warp 1 read. ``{load}`` sets ``%r6``.
IN_TURNS = """
setp.eq.u32 %p1, %r2, 2;
@%p1 bra C;
setp.ne.u32 %p3, %r2, 1;
@%p3 bra READ;
bar.sync 2, 64;
READ:
{load}
setp.ne.u32 %p4, %r2, 0;
@%p4 bra STORE;
{release}
STORE:
{store}
bra END;
C:
bar.sync 1, 64;
setp.ne.u32 %p5, %r1, 64;
@%p5 bra WRITTEN;
mov.u32 %r9, 9;
{write}
WRITTEN:
bar.sync 2, 64;
END:
"""
SHARED = {"load": "ld.shared.u32 %r6, [s];", "write": "st.shared.u32 [s], %r9;"}
GLOBAL = {"load": "ld.global.u32 %r6, [%rd1];", "write": "st.global.u32 [%rd1], %r9;"}
STORE = "st.shared.u32 [w], %r6;"
RELEASE = "bar.sync 1, 64;"
#: Each warp reads in a turn of its own, between barriers of the block.
OWN_TURN = """
mov.u32 %r5, 0;
TURN:
setp.ne.u32 %p1, %r5, %r2;
@%p1 bra OTHER;
ld.shared.u32 %r6, [s];
OTHER:
bar.sync 0;
setp.ne.u32 %p3, %r1, 5;
@%p3 bra WRITTEN;
mov.u32 %r9, 9;
st.shared.u32 [s], %r9;
WRITTEN:
bar.sync 0;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p4, %r5, 2;
@%p4 bra TURN;
st.shared.u32 [w], %r6;
"""
ALL = "ld.shared.u32 %r6, [s]; {between} st.shared.u32 [w], %r6;"
#: Warps that differ in bit 6 of their number load the same matrices and multiply them.
MATRICES = """
shl.b32 %r10, %r1, 4;
and.b32 %r10, %r10, 496;
add.u32 %r11, %r4, %r10;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12, %r13, %r14, %r15}, [%r11];
mov.f32 %f1, 0f00000000;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r12, %r13, %r14, %r15},
    {%r12, %r14}, {%f1, %f1, %f1, %f1};
bar.sync 0;
shl.b32 %r16, %r1, 2;
and.b32 %r16, %r16, MASK;
add.u32 %r17, %r4, %r16;
st.shared.f32 [%r17], %f1;
"""


def text(body: str, threads: int) -> str:
    return module_text(KERNEL.format(body=body), ".param .u64 p", bounds=f".maxntid {threads}, 1, 1")


def verdict(tmp_path: Path, body: str, threads: int = 96) -> Verdict:
    path = tmp_path / "k.ptx"
    path.write_text(text(body, threads))
    (result,) = check_source(read_source(path), policy=Policy.PRACTICAL, repairs=False)
    return result.verdict


@pytest.mark.parametrize("memory", [SHARED, GLOBAL])
def test_a_word_that_is_written_between_two_loads_by_one_instruction(
    tmp_path: Path, memory: dict[str, str]
) -> None:
    body = IN_TURNS.format(store=STORE, release=RELEASE, **memory)
    assert verdict(tmp_path, body) is Verdict.REFUTED


def test_a_store_before_the_release_is_in_order_with_the_other(tmp_path: Path) -> None:
    body = IN_TURNS.format(store="", release=RELEASE, **SHARED).replace(
        "setp.ne.u32 %p4", STORE + "\nsetp.ne.u32 %p4"
    )
    assert verdict(tmp_path, body) is Verdict.PROVED


def test_warps_that_read_in_turns_between_barriers_of_the_block(tmp_path: Path) -> None:
    assert verdict(tmp_path, OWN_TURN, threads=64) is Verdict.REFUTED


@pytest.mark.parametrize("between", ["", "bar.warp.sync -1;", "bar.sync 0;"])
def test_all_threads_read_before_they_meet(tmp_path: Path, between: str) -> None:
    assert verdict(tmp_path, ALL.format(between=between)) is Verdict.PROVED


@pytest.mark.parametrize(
    ("mask", "expected"), [(252, Verdict.PROVED), (124, Verdict.PROVED), (120, Verdict.REFUTED)]
)
def test_warps_that_multiply_the_same_matrices_store_one_value(
    tmp_path: Path, mask: int, expected: Verdict
) -> None:
    """With 252 the bytes of warps 0 and 2 are those of bit 6 alike; with 124 all warps share them."""
    assert verdict(tmp_path, MATRICES.replace("MASK", str(mask)), threads=128) is expected


def stored(body: str, threads: int = 128) -> int:
    """What the last store of a kernel stores varies with."""
    function = parse(text(body, threads), "k.ptx").entries[0]
    uniformity = Uniformity(Flow(function), (threads, 1, 1))
    return uniformity.stored(max(k for k, i in enumerate(function.body) if i.op == "st"))


LOAD, OWN = "ld.shared.u32 %r6, [s];", "st.shared.u32 [w], %r6;"
HALF = "setp.ge.u32 %p1, %r1, 64; @%p1 bra OVER; {} OVER:"


@pytest.mark.parametrize(
    ("between", "threads"),
    [
        ("", 0),
        ("bar.sync 0;", 0),
        ("bar.sync 3, 128;", 0),
        ("bar.warp.sync 0xffffffff;", 0),
        ("mbarrier.try_wait.parity.shared.b64 %p3, [s], 0;", 0),
        ("@%p2 mbarrier.init.shared.b64 [s], 1; @%p2 mbarrier.inval.shared.b64 [s];", 0),
        # a barrier of half of the block, and one of fewer threads than come to it
        (HALF.format("bar.sync 1, 64;"), 0x40),
        (HALF.format("bar.sync 1, 32;"), THREADS & ~LANES),
        # the other half comes to the same barrier elsewhere
        ("setp.ge.u32 %p1, %r1, 64; @%p1 bra OVER; bar.sync 1, 64; bra ON; OVER: bar.sync 1, 64; ON:",
         THREADS & ~LANES),
        ("bar.sync 1, 64;", THREADS & ~LANES),
        ("bar.arrive 1, 256;", THREADS & ~LANES),
        ("mbarrier.arrive.shared.b64 _, [s];", THREADS & ~LANES),
        ("@%p2 mbarrier.arrive.shared.b64 _, [s];", THREADS),
        ("st.release.cta.shared.u32 [s], %r2;", THREADS & ~LANES),
        # who has met the other lanes of its warp hands on what they have read
        ("bar.warp.sync -1; @%p2 mbarrier.arrive.shared.b64 _, [s];", THREADS & ~LANES),
        ("bar.warp.sync 1; ", THREADS & ~LANES),
        # after all have met, what one of them releases comes after all loads
        ("bar.sync 0; mbarrier.arrive.shared.b64 _, [s];", 0),
    ],
)  # fmt: skip
def test_what_a_stored_word_varies_with_after_a_release(between: str, threads: int) -> None:
    assert stored(f"{LOAD} {between} {OWN}") & THREADS == threads


def test_a_barrier_of_a_block_says_nothing_of_other_blocks() -> None:
    assert stored(f"ld.global.u32 %r6, [%rd1]; bar.sync 0; {OWN}") & (THREADS | BLOCK) == BLOCK


def test_loads_of_what_nobody_writes_do_not_count() -> None:
    assert stored(f"ld.global.nc.u32 %r6, [%rd1]; bar.sync 1, 64; {OWN}") & (THREADS | TIME) == 0


def test_a_guarded_load_whose_sum_all_lanes_hold() -> None:
    steps = "".join(
        f"shfl.sync.bfly.b32 %r{7 + 2 * n}, %r{6 + 2 * n}, {1 << n}, 31, -1; "
        f"add.u32 %r{8 + 2 * n}, %r{6 + 2 * n}, %r{7 + 2 * n}; "
        for n in range(5)
    )
    body = (
        f"mov.u32 %r6, 0; setp.lt.u32 %p1, %r1, 9; @%p1 {LOAD} bar.sync 0; {steps} st.shared.u32 [w], %r16;"
    )
    assert stored(body) & LANES == 0


def test_which_instructions_may_release() -> None:
    code = text(
        "cp.async.bulk.commit_group; cp.async.mbarrier.arrive.noinc.shared.b64 [s]; fence.acq_rel.cta; "
        "atom.shared.add.u32 %r6, [s], 1; shfl.sync.idx.b32 %r6, %r6, 0, 31, -1; st.shared.u32 [s], %r6;",
        32,
    )
    body = parse(code, "k.ptx").entries[0].body
    assert {i.op for i in body if releases(i)} == {"bar", "cp", "atom"}
    assert sum(releases(i) for i in body if i.op == "cp") == 1
