"""Accesses to shared memory about which data or an open size decides: whether, how often, where."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Replayed, ScopeKind, Verdict
from syncverify.driver.files import check_source, read_source

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .u32 m, .param .u32 turns)
.reqntid {threads}, 1, 1
{{
.reg .pred %p<9>;
.reg .f32 %f<30>;
.reg .b32 %r<40>;
.reg .b64 %rd<20>;
.shared .align 16 .b8 s[4096];
ld.param.u64 %rd1, [p];
ld.param.u32 %r9, [n];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, s;
add.u32 %r4, %r3, %r2;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
{body}
ret;
}}
"""
#: Stores the thread's word; loads the next one; one that data names.
STORE = "st.shared.u32 [%r4], %r1;"
NEXT = "xor.b32 %r20, %r2, 4; add.u32 %r20, %r20, %r3; ld.shared.u32 %r8, [%r20];"
NAMED = "ld.global.u32 %r5, [%rd3]; and.b32 %r5, %r5, 1020; add.u32 %r5, %r5, %r3; "
GUARD = "setp.ge.u32 %p1, %r1, %r9; @%p1 bra Z; {0} Z: "
LOOP = "mov.u32 %r7, %r1; setp.ge.u32 %p1, %r7, %r9; @%p1 bra Z; A: {0} add.u32 %r7, %r7, 256; " \
       "setp.lt.u32 %p2, %r7, %r9; @%p2 bra A; Z: "  # fmt: skip
BAR = "bar.sync 0; "


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        # below a size only
        (GUARD.format(STORE) + BAR + NEXT, Verdict.PROVED),
        (GUARD.format(STORE) + NEXT, Verdict.REFUTED),
        # as often as a size says
        (LOOP.format(STORE) + BAR + NEXT, Verdict.PROVED),
        (LOOP.format(STORE) + NEXT, Verdict.REFUTED),
        (LOOP.format(STORE + NEXT) + BAR, Verdict.REFUTED),
        # where data says
        (STORE + BAR + NAMED + "ld.shared.u32 %r6, [%r5];", Verdict.PROVED),
        (STORE + NAMED + "ld.shared.u32 %r6, [%r5];", Verdict.REFUTED),
        (LOOP.format(NAMED + "red.shared.add.u32 [%r5], 1;") + BAR + NEXT, Verdict.PROVED),
        (LOOP.format(NAMED + "red.shared.add.u32 [%r5], 1;") + NEXT, Verdict.REFUTED),
        # a scatter: right if the numbers are unique, and nobody knows
        (NAMED + "st.shared.u32 [%r5], %r1;" + BAR, Verdict.UNKNOWN),
        # one word: a constant by all, and a value of the iteration, which need not be the same for all
        (LOOP.format("mov.u32 %r10, 7; st.shared.u32 [s], %r10;") + BAR, Verdict.PROVED),
        ("mov.u32 %r7, 0; A: ld.param.u64 %rd4, [p]; mul.wide.u32 %rd5, %r7, 4; add.s64 %rd4, %rd4, %rd5; "
         "ld.global.nc.f32 %f1, [%rd4]; st.shared.f32 [s], %f1; add.u32 %r7, %r7, 1; "
         "setp.lt.u32 %p2, %r7, %r9; @%p2 bra A; " + BAR, Verdict.REFUTED),
    ],
)  # fmt: skip
def test_verdicts(tmp_path: Path, body: str, verdict: Verdict) -> None:
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=256, body=body.replace("; ", ";\n")))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is verdict, (found.reason, found.diagnostics)


def test_what_data_decides_is_refuted_by_an_execution_alone(tmp_path: Path) -> None:
    body = STORE + NAMED + "ld.shared.u32 %r6, [%r5];"
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=256, body=body.replace("; ", ";\n")))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is Verdict.REFUTED and found.replay is not None
    assert found.replay.outcome is Replayed.REPRODUCED


def test_a_guard_by_a_size_costs_no_case_for_each_thread(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=1024, body=GUARD.format(STORE) + BAR + NEXT))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is Verdict.PROVED
    assert found.stats["events"] < 1000  # 32 warps, a few events each


LEAVE_2D = (
    "ld.param.u32 %r10, [m]; ld.param.u32 %r11, [turns]; "
    "shr.u32 %r20, %r1, 4; and.b32 %r21, %r1, 15; setp.ge.u32 %p3, %r20, %r9; setp.ge.u32 %p4, %r21, %r10; "
    "or.pred %p3, %p3, %p4; @%p3 bra Y; {0} Y:"
)
TURNS = "mov.u32 %r22, 0;\nL: {0} add.u32 %r22, %r22, 1; setp.lt.u32 %p5, %r22, %r11; @%p5 bra L;"
LEAVE = "setp.ge.u32 %p3, %r1, %r9; @%p3 bra Y; {0} Y:"


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        # who leaves ahead of all accesses takes accesses away, and no order
        (LEAVE.format(STORE + BAR + NEXT), Verdict.PROVED),
        (LEAVE.format(STORE + NEXT), Verdict.REFUTED),
        # data decides
        ("ld.global.u32 %r6, [%rd3]; setp.gt.s32 %p3, %r6, 9; @%p3 bra Y; " + STORE + BAR + NEXT + " Y:",
         Verdict.PROVED),
    ],
)  # fmt: skip
def test_early_returns(tmp_path: Path, body: str, verdict: Verdict) -> None:
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=256, body=body.replace("; ", ";\n")))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is verdict, (found.reason, found.diagnostics)
    said = [x for x in found.assumptions if "barriers do not wait for threads that leave there" in x]
    assert verdict is Verdict.REFUTED or said


@pytest.mark.parametrize(("last", "verdict"), [(BAR, Verdict.PROVED), ("", Verdict.REFUTED)])
def test_who_leaves_by_two_sizes_costs_no_case(tmp_path: Path, last: str, verdict: Verdict) -> None:
    """Two sizes decide who leaves, a third one counts turns."""
    body = LEAVE_2D.format(TURNS.format(STORE + BAR + NEXT + last))
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=256, body=body.replace("; ", ";\n")))
    source = read_source(str(tmp_path / "k.ptx"))
    (found,) = check_source(source, scope=ScopeKind.ALL, repairs=False)
    assert found.verdict is verdict, (found.reason, found.diagnostics)
    assert verdict is Verdict.REFUTED or found.stats["events"] < 1000


#: Tiles of the block's threads; beside a tail that a size decides, one thread stores behind them.
TILES = (
    "mov.u32 %r22, 0;\nL: add.u32 %r23, %r22, %r1; st.shared.u32 [%r4], %r1; setp.ne.u32 %p3, %r1, 255; "
    "@%p3 bra Y; setp.ge.u32 %p4, %r23, %r9; mov.u32 %r24, 0; @%p4 bra X; ld.global.u32 %r24, [%rd3];\nX: "
    "st.shared.u32 [%r3+1024], %r24;\nY: bar.sync 0; setp.ge.u32 %p5, %r23, %r9; @%p5 bra Z; "
    "ld.shared.u32 %r25, [%r4+4];\nZ: {0} add.u32 %r22, %r22, 256; setp.lt.u32 %p6, %r22, %r9; @%p6 bra L;"
)


@pytest.mark.parametrize(("last", "verdict"), [(BAR, Verdict.PROVED), ("", Verdict.REFUTED)])
def test_guards_by_numbers_say_who_stores(tmp_path: Path, last: str, verdict: Verdict) -> None:
    """Without the last barrier a thread's word is read while the next turn stores it."""
    body = TILES.format(last)
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=256, body=body.replace("; ", ";\n")))
    source = read_source(str(tmp_path / "k.ptx"))
    (found,) = check_source(source, scope=ScopeKind.ALL, repairs=False)
    assert found.verdict is verdict, (found.reason, found.diagnostics)


def test_a_shuffle_takes_nothing_from_lanes_that_have_left(tmp_path: Path) -> None:
    """Where an open size decides who leaves, what the mask names is assumed."""
    body = LEAVE.format("shfl.sync.bfly.b32 %r6, %r1, 1, 31, -1; " + STORE)
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=256, body=body.replace("; ", ";\n")))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is Verdict.PROVED
    assert any("no lane that the mask names has left the kernel" in x for x in found.assumptions)


@pytest.mark.parametrize(
    "inside",
    [
        "bar.sync 1, 256; ",  # a count waits for those that left
        "bar.sync 0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r3]; bar.sync 0; ",  # a whole warp
    ],
)
def test_who_needs_all_threads_asks_who_leaves(tmp_path: Path, inside: str) -> None:
    body = LEAVE.format(STORE + " " + inside)
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=256, body=body.replace("; ", ";\n")))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is not Verdict.PROVED


def test_who_has_stored_before_leaving_counts(tmp_path: Path) -> None:
    body = STORE + " " + LEAVE.format(BAR + NEXT)
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=256, body=body.replace("; ", ";\n")))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is not Verdict.PROVED


#: What lanes or threads hand on, and what it decides; ``%p5``: nothing more happens.
HANDED_ON = {
    "a place": "shfl.sync.bfly.b32 %r20, %r1, 1, 31, -1; shl.b32 %r20, %r20, 2; add.u32 %r20, %r3, %r20; "
    "st.shared.u32 [%r20], %r1;",
    "a vote": "setp.ge.u32 %p4, %r1, 0; vote.sync.ballot.b32 %r20, %p4, -1; setp.eq.u32 %p5, %r20, -1; "
    "@%p5 bra Y; st.shared.u32 [%r3], %r1;",
    "a sum": "redux.sync.add.u32 %r20, 1, -1; setp.eq.u32 %p5, %r20, 32; @%p5 bra Y; "
    "st.shared.u32 [%r3], %r1;",
    "a word in shared memory": "setp.ne.u32 %p4, %r1, 40; mov.u32 %r20, 1; @%p4 bra X; "
    "st.shared.u32 [%r3+1024], %r20;\nX: bar.sync 0; ld.shared.u32 %r20, [%r3+1024]; "
    "setp.eq.u32 %p5, %r20, 1; @%p5 bra Y; st.shared.u32 [%r3], %r1;",
}


@pytest.mark.parametrize("body", HANDED_ON.values(), ids=HANDED_ON)
@pytest.mark.parametrize("leaves", ["{0} Y:", LEAVE, LEAVE.replace("%r1, %r9", "%r2, %r9")])
def test_what_threads_that_leave_would_hand_on_is_missing(tmp_path: Path, leaves: str, body: str) -> None:
    """Where all of a block stay or leave, nothing is missing."""
    alike = "%r2" in leaves
    text = ("mov.u32 %r2, %ctaid.x; " if alike else "") + leaves.format(body)
    (tmp_path / "k.ptx").write_text(KERNEL.format(threads=256, body=text.replace("; ", ";\n")))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False, replay=False)
    right = alike or leaves.startswith("{0}")
    assert (found.verdict is Verdict.PROVED) == right, (found.reason, found.diagnostics)
