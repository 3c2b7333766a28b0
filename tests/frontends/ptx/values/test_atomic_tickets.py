"""Counters in global memory that hand out work: a number is the same for all who hear of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Severity
from syncverify.base.reason import Cause, has
from syncverify.cli.main import run
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.execute_helpers import module_text

PARAMS = ".param .u64 k_count, .param .u64 k_out"
#: Warp 0 takes numbers and tells the two other warps, slot by slot, which take a turn for each below 3.
KERNEL = module_text(
    """
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    .shared .align 16 .b8 slot[16];
    .shared .align 16 .b8 work[4];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shr.u32 %r3, %r1, 5;
    ld.param.u64 %rd1, [k_count];
    ld.param.u64 %rd2, [k_out];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [empty], 2;
READY:
    bar.sync 0;
    mov.u32 %r4, 0;
    setp.ne.u32 %p2, %r3, 0;
    @%p2 bra READER;
    setp.ne.u32 %p3, %r2, 0;
    @%p3 bra END;
TAKE:
    atom.global.inc.u32 %r5, [%rd1], 3;
    add.u32 %r5, %r5, 0;
    xor.b32 %r6, %r4, 1;
FREE:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [empty], %r6;
    @!%p4 bra FREE;
    setp.lt.s32 %p5, %r5, 3;
    selp.b32 %r7, 1, 0, %p5;
    st.shared.v2.u32 [slot], {%r5, %r7};
    mbarrier.arrive.shared::cta.b64 _, [full];
    xor.b32 %r4, %r4, 1;
    @%p5 bra TAKE;
    bra END;
READER:
TOLD:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], %r4;
    @!%p4 bra TOLD;
    ld.shared.v2.u32 {%r8, %r9}, [slot];
    bar.warp.sync -1;
    setp.ne.u32 %p3, %r2, 0;
    @%p3 bra NEXT;
    mbarrier.arrive.shared::cta.b64 _, [empty];
NEXT:
    xor.b32 %r4, %r4, 1;
    setp.eq.u32 %p6, %r9, 0;
    @%p6 bra END;
    bar.sync 1, 64;
    bra READER;
END:
    ret;
""",
    params=PARAMS,
)


def _check(
    folder: Path,
    *changes: tuple[str, str],
    holds: str = ", holds = {i32 = [0]}",
    grid: int = 1,
    kernel: str = KERNEL,
) -> KernelReport:
    text = kernel
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (path := folder / "k.ptx").write_text(text)
    (facts := folder / "k.toml").write_text(
        f"[kernel.k]\ngrid = [{grid}]\nblock = [96]\ncluster = [1]\n[kernel.k.params]\n"
        f'0 = {{ptr = "count"{holds}}}\n1 = {{ptr = "out"{holds}}}\n'
    )
    (report,) = check_source(read_source(path), facts=read_facts(facts), repairs=False)
    return report


def _rules(report: KernelReport) -> list[str]:
    return [d.rule for d in report.diagnostics if d.severity is Severity.ERROR]


def test_numbers_of_a_counter_steer(tmp_path: Path) -> None:
    report = _check(tmp_path)
    assert report.verdict.value == "proved", report.reason
    assert "count holds at launch what the launch file says, and only this grid counts there" in (
        report.assumptions
    )


def test_a_counter_that_adds(tmp_path: Path) -> None:
    report = _check(tmp_path, ("atom.global.inc.u32 %r5, [%rd1], 3;", "atom.global.add.u32 %r5, [%rd1], 1;"))
    assert report.verdict.value == "proved", report.reason


def test_the_missing_fact_is_named(tmp_path: Path) -> None:
    report = _check(tmp_path, holds="")
    assert report.verdict.value == "unknown"
    assert report.reason is not None and "give what count holds: holds = [{i32 = N}]" in report.reason


WAIT_FULL = """    mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], %r4;
    @!%p4 bra TOLD;
"""
WAIT_EMPTY = """    mbarrier.try_wait.parity.shared::cta.b64 %p4, [empty], %r6;
    @!%p4 bra FREE;
"""


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([(WAIT_FULL, "")], id="readers not behind the write"),
        pytest.param([(WAIT_EMPTY, "")], id="the next write not behind the readers"),
        pytest.param([("[full], %r4;\n", "[full], 0;\n")], id="the second phase is not waited for"),
        pytest.param(
            [("setp.eq.u32 %p6, %r9, 0;", "setp.eq.u32 %p6, %r9, 1;")],
            id="the answer turned",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            [("setp.eq.u32 %p6, %r9, 0;", "add.u32 %r9, %r8, %r3;\n    setp.ge.u32 %p6, %r9, 4;")],
            id="readers that disagree on one number",
        ),
        pytest.param(
            [
                ("bar.warp.sync -1;", "@%p6 bra SECOND; bar.warp.sync -1;"),
                ("END:", "bra END;\nSECOND:\n    bra NEXT;\nEND:"),
                ("mov.u32 %r4, 0;", "mov.u32 %r4, 0; setp.eq.u32 %p6, %r3, 2;"),
            ],
            id="a reader that never tells",
        ),
        pytest.param([("@%p5 bra TAKE;", "")], id="one take only"),
    ],
)
def test_wrong_hand_over_of_numbers(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    report = _check(tmp_path, *changes)
    assert report.verdict.value == "refuted", report.reason
    assert _rules(report)


def test_readers_of_two_writes_may_part(tmp_path: Path) -> None:
    """Warp 2 goes by a second number, taken right after the one that warp 1 goes by.

    Numbers of two counters may differ as far as the checker knows. Here both count the same turns, so that no
    execution hangs.
    """
    report = _check(
        tmp_path,
        (
            "selp.b32 %r7, 1, 0, %p5;",
            "selp.b32 %r7, 1, 0, %p5; atom.global.inc.u32 %r10, [%rd2], 9; setp.lt.s32 %p7, %r10, 3; "
            "selp.b32 %r10, 1, 0, %p7; st.shared.u32 [slot+8], %r10;",
        ),
        ("bar.warp.sync -1;", "ld.shared.u32 %r10, [slot+8]; setp.eq.u32 %p7, %r3, 2; "
         "@%p7 mov.u32 %r9, %r10; bar.warp.sync -1;"),
    )  # fmt: skip
    assert report.verdict.value == "unknown", report.reason
    assert has(report.reason, Cause.NOT_REPLAYED)


@pytest.mark.parametrize(
    ("changes", "grid"),
    [
        pytest.param([], 2, id="the counter starts anew while blocks take"),
        pytest.param(
            [("    xor.b32 %r6", "    st.global.u32 [%rd1], %r4;\n    xor.b32 %r6")], 1, id="stored besides"
        ),
        pytest.param(
            [("    @%p3 bra END;\nTAKE", "    @%p3 bra TAKE;\nTAKE")], 1, id="every lane of the warp takes"
        ),
        pytest.param(
            [("[%rd1], 3;", "[%rd1], 1;")], 1, id="fewer numbers than turns", marks=pytest.mark.slow
        ),
        pytest.param([("[%rd1], 3;", "[%rd1], %r1;")], 1, id="nothing to count"),
        pytest.param(
            [("ld.param.u64 %rd2, [k_out];", "ld.param.u64 %rd2, [k_out]; ld.global.u64 %rd3, [%rd2];"),
             ("    xor.b32 %r6", "    red.global.add.u32 [%rd3], 1;\n    xor.b32 %r6")],
            1, id="a write that may reach the counter",
        ),
    ],
)  # fmt: skip
def test_counters_that_are_none(tmp_path: Path, changes: list[tuple[str, str]], grid: int) -> None:
    report = _check(tmp_path, *changes, grid=grid)
    assert report.verdict.value == "unknown", report.verdict


def test_its_certificate(tmp_path: Path) -> None:
    """It shows a proof for each sequence of answers: three turns at most, and the end."""
    _check(tmp_path)
    kernel, launch, out = (str(tmp_path / name) for name in ("k.ptx", "k.toml", "c.json"))
    assert run(["check", kernel, "--launch", launch, "--certificate", out]) == 0
    assert run(["recheck", out, kernel, "--launch", launch]) == 0
    assert len(json.loads(Path(out).read_text())["kernels"][0]["proof"]["parts"]) == 4
    Path(launch).write_text(Path(launch).read_text().replace("holds = {i32 = [0]}", "holds = {i32 = [1]}"))
    assert run(["recheck", out, kernel, "--launch", launch]) == 1


#: One thread takes numbers for its whole block, behind barriers.
BLOCK = module_text(
    """
    .shared .align 16 .b8 slot[16];
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [k_count];
    setp.eq.u32 %p1, %r1, 0;
LOOP:
    @%p1 atom.global.add.u32 %r5, [%rd1], 1;
    @%p1 st.shared.u32 [slot], %r5;
    bar.sync 0;
    ld.shared.u32 %r6, [slot];
    bar.sync 0;
    setp.lt.s32 %p2, %r6, 5;
    @%p2 bra LOOP;
    ret;
""",
    params=PARAMS,
)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        pytest.param([], "proved", id="good"),
        pytest.param([("    bar.sync 0;\n    setp", "    setp")], "refuted", id="written while others read"),
        pytest.param([("    bar.sync 0;\n    ld", "    ld")], "refuted", id="read before it is written"),
        # thread 0 leaves, and the others meet for ever at a barrier that does not wait for it
        pytest.param([("%r6, 5;", "%r6, %r1;")], "unknown", id="a limit of its own for each thread"),
    ],
)
def test_a_block_that_takes_numbers(tmp_path: Path, changes: list[tuple[str, str]], verdict: str) -> None:
    report = _check(tmp_path, *changes, kernel=BLOCK, grid=3)
    assert report.verdict.value == verdict, report.reason


#: Lane 0 of warp 0 takes numbers, its warp hears of them by shfl, the the others by shared memory.
#: The first number is taken elsewhere; the counter's place lies in a struct that a register points to.
SHUFFLED = module_text(
    """
    .shared .align 16 .b8 slot[16];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shr.u32 %r3, %r1, 5;
    mov.b64 %rd1, k_struct;
    add.s64 %rd2, %rd1, 8;
    setp.ne.u32 %p1, %r2, 0;
    setp.ne.u32 %p2, %r3, 0;
    @%p2 bra READER;
    ld.param.u64 %rd3, [%rd2+8];
    @%p1 bra FIRST;
    ld.param.u64 %rd4, [%rd2];
    atom.global.add.u32 %r4, [%rd4], 1;
    add.s32 %r5, %r4, 7;
FIRST:
    shfl.sync.idx.b32 %r6, %r5, 0, 31, -1;
LOOP:
    @%p1 bra PUT;
    st.shared.u32 [slot], %r6;
PUT:
    bar.sync 0;
    bar.sync 1;
    setp.ge.s32 %p3, %r6, 10;
    @%p3 bra END;
    st.global.u32 [%rd3], %r6;
    @%p1 bra NEXT;
    ld.param.u64 %rd5, [%rd2];
    atom.global.add.u32 %r4, [%rd5], 1;
    add.s32 %r5, %r4, 7;
NEXT:
    shfl.sync.idx.b32 %r6, %r5, 0, 31, -1;
    bra LOOP;
READER:
    bar.sync 0;
    ld.shared.u32 %r6, [slot];
    bar.sync 1;
    setp.lt.s32 %p3, %r6, 10;
    @%p3 bra READER;
END:
    ret;
""",
    params=".param .align 8 .b8 k_struct[24]",
)


def _shuffled(folder: Path, *changes: tuple[str, str], replay: bool = True) -> KernelReport:
    text = SHUFFLED
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (path := folder / "k.ptx").write_text(text)
    (facts := folder / "k.toml").write_text(
        "[kernel.k]\ngrid = [3]\nblock = [96]\ncluster = [1]\n[kernel.k.params]\n"
        '0 = [{i64 = 1}, {ptr = "count", holds = {i32 = [0]}}, {ptr = "out"}]\n'
    )
    (report,) = check_source(read_source(path), facts=read_facts(facts), replay=replay, repairs=False)
    return report


def test_lanes_hear_of_numbers_that_one_of_them_takes_behind_a_branch(tmp_path: Path) -> None:
    report = _shuffled(tmp_path)
    assert report.verdict.value == "proved", report.reason


MEET = ("    bar.sync 1;\n    setp.ge", "    setp.ge")
MEET_TOO = ("    bar.sync 1;\n    setp.lt", "    setp.lt")
EARLIER = ("%r6, 10;\n    @%p3 bra READER", "%r6, 9;\n    @%p3 bra READER")
OTHER_LANE = ("NEXT:\n    shfl.sync.idx.b32 %r6, %r5, 0,", "NEXT:\n    shfl.sync.idx.b32 %r6, %r5, 1,")
NO_PREDICATE = ("    @%p1 bra FIRST;\n", "    @%p1 bra FIRST;\n    bar.warp.sync 1;\n")


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        pytest.param([MEET, MEET_TOO], "refuted", id="the slot is written while others read"),
        pytest.param([MEET], "refuted", id="one side meets once less"),
        # a barrier without a count does not wait for warps that have left
        pytest.param([EARLIER], "proved", id="others stop earlier"),
        pytest.param([("[%rd5], 1;", "[%rd5], 2;")], "unknown", id="two atomics that add differently"),
        pytest.param([OTHER_LANE], "unknown", id="from a lane that took nothing"),
        pytest.param([NO_PREDICATE], "unknown", id="others do not hear of a number as it is taken"),
    ],
)
def test_lanes_that_hear_of_numbers_wrongly(
    tmp_path: Path, changes: list[tuple[str, str]], verdict: str
) -> None:
    report = _shuffled(tmp_path, *changes, replay=verdict == "refuted")  # no execution proves it
    assert report.verdict.value == verdict, report.reason
