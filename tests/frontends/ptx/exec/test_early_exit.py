"""Threads that leave before a barrier: those without a count do not wait for them (K22)."""

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, Severity, Verdict
from syncverify.driver.files import check_source, read_source

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 128, 1, 1
{{
.reg .pred %p<9>;
.reg .b32 %r<40>;
.reg .b64 %rd<20>;
.reg .f64 %d<4>;
.shared .align 128 .b8 s[1024];
.shared .align 8 .b8 b[8];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %laneid;
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd2, %rd1, %rd3;
{body}
DONE: ret;
}}
"""
WARPS = "setp.gt.u32 %p1, %r1, 63; @%p1 bra DONE;"
LANES = "setp.gt.u32 %p1, %r2, 19; @%p1 bra DONE;"
LATER = "bar.sync 0; " + LANES
OWN_WORK = "setp.lt.u32 %p1, %r1, 64; @%p1 bra A; st.global.u32 [%rd2], %r1; ret; A: "
SKIP_LANES = "setp.gt.u32 %p1, %r2, 19; @%p1 bra A; {0} A: st.global.u32 [%rd2], %r1;"
BARRIERS = ("bar.sync 0;", "barrier.sync.aligned 3;", "bar.red.popc.u32 %r5, 0, %p2;")


def outcome(folder: Path, body: str, policy: Policy = Policy.PRACTICAL) -> tuple[Verdict, set[str | None]]:
    (folder / "k.ptx").write_text(KERNEL.format(body=body))
    (found,) = check_source(read_source(str(folder / "k.ptx")), policy=policy, repairs=False)
    return found.verdict, {d.contested for d in found.diagnostics if d.severity is not Severity.NOTE}


@pytest.mark.parametrize("barrier", BARRIERS)
@pytest.mark.parametrize("policy", Policy)
def test_whole_warps(tmp_path: Path, barrier: str, policy: Policy) -> None:
    for leave in (WARPS, OWN_WORK, "bar.sync 1, 128; " + WARPS):
        assert outcome(tmp_path, leave + barrier * 3, policy) == (Verdict.PROVED, set())


@pytest.mark.parametrize("barrier", [*BARRIERS, "bar.warp.sync -1;"])
@pytest.mark.parametrize("leave", [LANES, LATER])
def test_lanes_of_a_warp_that_goes_on(tmp_path: Path, barrier: str, leave: str) -> None:
    assert outcome(tmp_path, leave + barrier) == (Verdict.PROVED, {"K22"})
    assert outcome(tmp_path, leave + barrier, Policy.STRICT) == (Verdict.REFUTED, {"K22"})


@pytest.mark.parametrize("leave", [WARPS, LANES])
@pytest.mark.parametrize("policy", Policy)
def test_counts_include_those_that_left(tmp_path: Path, leave: str, policy: Policy) -> None:
    mbarrier = (
        "setp.ne.u32 %p2, %r1, 0; @!%p2 mbarrier.init.shared.b64 [b], 128; bar.sync 0; {0} "
        "mbarrier.arrive.shared.b64 %rd5, [b]; "
        "W: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0; @!%p3 bra W;"
    )
    # A barrier counts a warp as a whole once its last lanes have come: no execution hangs for exited lanes.
    harmless = leave is LANES and policy is Policy.PRACTICAL
    counted = Verdict.UNKNOWN if harmless else Verdict.REFUTED
    assert outcome(tmp_path, leave + "bar.sync 1, 128;", policy)[0] is counted
    assert outcome(tmp_path, mbarrier.format(leave), policy)[0] is Verdict.REFUTED
    assert outcome(tmp_path, mbarrier.replace("128", "64").format(WARPS), policy)[0] is Verdict.PROVED


@pytest.mark.parametrize("policy", Policy)
def test_masks_of_collectives(tmp_path: Path, policy: Policy) -> None:
    """K23: a value of lanes that have left is undefined; lanes that wait elsewhere never come."""
    shuffle = "shfl.sync.idx.b32 %r5, %r1, 0, 31, -1; st.global.u32 [%rd2], %r5;"
    assert outcome(tmp_path, shuffle, policy) == (Verdict.PROVED, set())
    assert outcome(tmp_path, LANES + shuffle, policy) == (Verdict.PROVED, {"K23"})
    waits = "setp.gt.u32 %p1, %r2, 19; @%p1 bra A; " + shuffle + " A: bar.warp.sync -1;"
    assert outcome(tmp_path, waits, policy)[0] is Verdict.REFUTED


def test_lanes_that_go_round_a_barrier_have_not_left(tmp_path: Path) -> None:
    assert outcome(tmp_path, SKIP_LANES.format("bar.sync 0;"))[0] is Verdict.REFUTED


def test_what_those_that_left_have_stored_is_not_ordered(tmp_path: Path) -> None:
    store = "shl.b32 %r3, %r1, 2; mov.u32 %r4, s; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r1; "
    read = "bar.sync 0; ld.shared.u32 %r6, [{0}]; st.global.u32 [%rd2], %r6;"
    assert outcome(tmp_path, store + WARPS + read.format("s+400"))[0] is Verdict.REFUTED
    assert outcome(tmp_path, store + WARPS + read.format("s+100"))[0] is Verdict.PROVED


#: Instructions of the whole warp (``.sync.aligned``) that are no barriers.
OF_A_WARP = {
    "rows": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r8];",
    "map": "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
    "[%rd1], [%r8], 128;",
    "matrix": "wmma.load.b.sync.aligned.col.m8n8k4.shared.f64 {%d1}, [%r8], 4;",
}


@pytest.mark.parametrize("name", OF_A_WARP)
@pytest.mark.parametrize(
    ("leave", "verdict"), [(LANES, Verdict.REFUTED), (WARPS.replace("63", "31"), Verdict.PROVED)]
)
def test_instructions_of_a_warp_need_its_lanes(
    tmp_path: Path, name: str, leave: str, verdict: Verdict
) -> None:
    """K22 is about barriers: what else is executed by the whole warp is undefined without its lanes."""
    assert outcome(tmp_path, leave + "mov.u32 %r8, s;" + OF_A_WARP[name])[0] is verdict
