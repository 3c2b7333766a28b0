"""Stages that go on by a whole tile's steps at once, for every size: ``stage = (stage + K) % S``.

So do pipelines that copy their stage for the steps of a tile, as CUTLASS's do: in each tile every role goes
on from its copy, and in the end adds the number of steps. Of two consumers that take tiles in turn each adds
the steps of two tiles, and the second one those of a tile before it begins.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.execute_helpers import module_text

PARAMS = ".param .u64 in, .param .u32 k_n, .param .u32 tiles"
FACTS = """
[kernel.k]
block = [THREADS, 1, 1]
assume = ["K >= 1", "T >= 0"]
[kernel.k.params]
1 = {i32 = "K"}
2 = {i32 = "T"}
"""
#: One place further round three slots: %r30 is the slot, %r31 the parity.
NEXT = """
    add.u32 %r30, %r30, 1;
    setp.eq.u32 %p5, %r30, 3;
    selp.u32 %r32, 1, 0, %p5;
    selp.b32 %r30, 0, %r30, %p5;
    xor.b32 %r31, %r31, %r32;
"""
#: %r1 places further: %r4 is the slot at the start of a tile, %r5 the parity.
ADVANCE = """
    add.u32 %r40, %r4, %r1;
    setp.lt.u32 %p6, %r1, 3;
    setp.gt.u32 %p7, %r40, 2;
    and.pred %p7, %p6, %p7;
    selp.u32 %r41, 1, 0, %p7;
    xor.b32 %r5, %r5, %r41;
    @%p6 bra SHORT;
    mul.wide.u32 %rd5, %r40, -1431655765;
    shr.u64 %rd6, %rd5, 33;
    cvt.u32.u64 %r42, %rd6;
    and.b32 %r42, %r42, 1;
    xor.b32 %r5, %r5, %r42;
    SHORT:
    mul.wide.u32 %rd7, %r40, -1431655765;
    shr.u64 %rd8, %rd7, 33;
    cvt.u32.u64 %r43, %rd8;
    mul.lo.s32 %r43, %r43, 3;
    sub.s32 %r4, %r40, %r43;
"""
#: Tiles of K steps through three slots: warp 0 reads what thread 32 loads.
TILES = """
    .shared .align 128 .b8 buf[3072];
    .shared .align 8 .b8 full[24];
    .shared .align 8 .b8 empty[24];
    ld.param.u32 %r1, [k_n];
    ld.param.u32 %r20, [tiles];
    ld.param.u64 %rd1, [in];
    mov.u32 %r2, %tid.x;
    mov.u32 %r21, %ctaid.x;
    mov.u32 %r22, %nctaid.x;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [full+16], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
    mbarrier.init.shared::cta.b64 [empty+8], 32;
    mbarrier.init.shared::cta.b64 [empty+16], 32;
    READY:
    bar.sync 0;
    mov.u32 %r4, 0;
    mov.u32 %r5, 0;
    setp.lt.u32 %p2, %r2, 32;
    @%p2 bra TILE;
    mov.u32 %r5, 1;
    setp.ne.u32 %p3, %r2, 32;
    @%p3 bra END;
    TILE:
    setp.ge.s32 %p3, %r21, %r20;
    @%p3 bra END;
    mov.u32 %r30, %r4;
    mov.u32 %r31, %r5;
    mov.u32 %r23, %r1;
    STEP:
    shl.b32 %r6, %r30, 3;
    mov.u32 %r7, empty;
    add.u32 %r7, %r7, %r6;
    mov.u32 %r8, full;
    add.u32 %r8, %r8, %r6;
    shl.b32 %r10, %r30, 10;
    mov.u32 %r11, buf;
    add.u32 %r11, %r11, %r10;
    @%p2 bra CONSUME;
    W1: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], %r31;
    @!%p4 bra W1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 1024, [%r8];
    bra STEPPED;
    CONSUME:
    W2: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r31;
    @!%p4 bra W2;
    shl.b32 %r12, %r2, 5;
    add.u32 %r11, %r11, %r12;
    ld.shared.f32 %f1, [%r11];
    add.f32 %f2, %f1, %f1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.shared::cta.b64 _, [%r7];
    STEPPED:
    NEXT
    sub.s32 %r23, %r23, 1;
    setp.gt.s32 %p5, %r23, 0;
    @%p5 bra STEP;
    ADVANCE
    add.u32 %r21, %r21, %r22;
    bra TILE;
    END: ret;
"""


def check(folder: Path, body: str, threads: int = 64) -> KernelReport:
    """The report of a body for every K, T and grid."""
    path, facts = folder / "k.ptx", folder / "k.toml"
    path.write_text(module_text(body, params=PARAMS))
    facts.write_text(FACTS.replace("THREADS", str(threads)))
    (report,) = check_source(read_source(path), facts=read_facts(facts), scope=ScopeKind.ALL, repairs=False)
    return report


def tiles(advance: str = ADVANCE) -> str:
    return TILES.replace("NEXT", NEXT).replace("ADVANCE", advance)


def test_a_stage_that_goes_on_by_the_steps_of_a_tile_is_proved(tmp_path: Path) -> None:
    report = check(tmp_path, tiles())
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # wrong in tiles of a lap and more, of less, in those that end in the last slot
        pytest.param("xor.b32 %r5, %r5, %r42;", "", marks=pytest.mark.slow),
        ("xor.b32 %r5, %r5, %r41;", ""),
        pytest.param("setp.gt.u32 %p7, %r40, 2;", "setp.gt.u32 %p7, %r40, 3;", marks=pytest.mark.slow),
        # the consumer's alone
        pytest.param(
            "sub.s32 %r4, %r40, %r43;",
            "sub.s32 %r4, %r40, %r43;\n@%p2 mov.u32 %r4, 0;",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_stage_that_goes_on_wrongly_is_refuted(tmp_path: Path, old: str, new: str) -> None:
    assert old in ADVANCE
    assert check(tmp_path, tiles(ADVANCE.replace(old, new))).verdict is Verdict.REFUTED


def test_a_slot_that_is_given_back_before_it_is_read_is_refuted(tmp_path: Path) -> None:
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r7];"
    load = "ld.shared.f32 %f1, [%r11];"
    early = tiles().replace(arrive, "").replace(load, f"{arrive}\n{load}")
    assert check(tmp_path, early).verdict is Verdict.REFUTED


#: Two consumers, warps 0 and 1, that take tiles in turn through two slots, and thread 64, which loads all.
IN_TURN = """
    .shared .align 128 .b8 buf[2048];
    .shared .align 8 .b8 full[16];
    .shared .align 8 .b8 empty[16];
    .shared .align 8 .b8 order[16];
    ld.param.u32 %r1, [k_n];
    ld.param.u32 %r20, [tiles];
    ld.param.u64 %rd1, [in];
    mov.u32 %r2, %tid.x;
    mov.u32 %r21, %ctaid.x;
    mov.u32 %r22, %nctaid.x;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
    mbarrier.init.shared::cta.b64 [empty+8], 32;
    mbarrier.init.shared::cta.b64 [order], 32;
    mbarrier.init.shared::cta.b64 [order+8], 32;
    READY:
    bar.sync 0;
    mov.u32 %r4, 0;
    mov.u32 %r5, 0;
    setp.ge.u32 %p2, %r2, 64;
    @%p2 bra LOADER;
    shr.u32 %r50, %r2, 5;
    xor.b32 %r51, %r50, 1;
    setp.eq.u32 %p8, %r50, 0;
    @%p8 bra BEGIN;
    add.u32 %r21, %r21, %r22;
    and.b32 %r4, %r1, 1;
    shr.u32 %r52, %r1, 1;
    and.b32 %r5, %r52, 1;
    BEGIN:
    mov.u32 %r53, order;
    shl.b32 %r54, %r50, 3;
    add.u32 %r55, %r53, %r54;
    xor.b32 %r54, %r54, 8;
    add.u32 %r56, %r53, %r54;
    shl.b32 %r57, %r22, 1;
    shl.b32 %r58, %r1, 1;
    TILE:
    setp.ge.s32 %p3, %r21, %r20;
    @%p3 bra END;
    MINE: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r55], %r51;
    @!%p4 bra MINE;
    xor.b32 %r51, %r51, 1;
    mov.u32 %r30, %r4;
    mov.u32 %r31, %r5;
    mov.u32 %r23, %r1;
    STEP:
    ADDRESS
    W2: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r31;
    @!%p4 bra W2;
    and.b32 %r12, %r2, 31;
    shl.b32 %r12, %r12, 5;
    add.u32 %r11, %r11, %r12;
    ld.shared.f32 %f1, [%r11];
    add.f32 %f2, %f1, %f1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.shared::cta.b64 _, [%r7];
    NEXT
    sub.s32 %r23, %r23, 1;
    setp.gt.s32 %p5, %r23, 0;
    @%p5 bra STEP;
    mbarrier.arrive.shared::cta.b64 _, [%r56];
    add.u32 %r40, %r4, %r58;
    and.b32 %r4, %r40, 1;
    shr.u32 %r41, %r40, 1;
    and.b32 %r41, %r41, 1;
    xor.b32 %r5, %r5, %r41;
    add.u32 %r21, %r21, %r57;
    bra TILE;
    LOADER:
    mov.u32 %r5, 1;
    setp.ne.u32 %p3, %r2, 64;
    @%p3 bra END;
    LTILE:
    setp.ge.s32 %p3, %r21, %r20;
    @%p3 bra END;
    mov.u32 %r30, %r4;
    mov.u32 %r31, %r5;
    mov.u32 %r23, %r1;
    LSTEP:
    ADDRESS
    W1: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], %r31;
    @!%p4 bra W1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 1024, [%r8];
    NEXT
    sub.s32 %r23, %r23, 1;
    setp.gt.s32 %p5, %r23, 0;
    @%p5 bra LSTEP;
    add.u32 %r40, %r4, %r1;
    and.b32 %r4, %r40, 1;
    shr.u32 %r41, %r40, 1;
    and.b32 %r41, %r41, 1;
    xor.b32 %r5, %r5, %r41;
    add.u32 %r21, %r21, %r22;
    bra LTILE;
    END: ret;
"""
ADDRESS = """
    shl.b32 %r6, %r30, 3;
    mov.u32 %r7, empty;
    add.u32 %r7, %r7, %r6;
    mov.u32 %r8, full;
    add.u32 %r8, %r8, %r6;
    shl.b32 %r10, %r30, 10;
    mov.u32 %r11, buf;
    add.u32 %r11, %r11, %r10;
"""


def in_turn(old: str = "", new: str = "") -> str:
    assert old in IN_TURN
    text = IN_TURN.replace(old, new) if old else IN_TURN
    return text.replace("ADDRESS", ADDRESS).replace("NEXT", NEXT.replace(", 3;", ", 2;"))


def test_two_roles_that_skip_the_steps_of_each_other_are_proved(tmp_path: Path) -> None:
    report = check(tmp_path, in_turn(), threads=96)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # its own steps alone
        pytest.param("shl.b32 %r58, %r1, 1;", "mov.u32 %r58, %r1;", marks=pytest.mark.slow),
        # the first turn of the other: slots, not laps
        pytest.param("and.b32 %r5, %r52, 1;", "mov.u32 %r5, 0;", marks=pytest.mark.slow),
        # nobody else is let on
        pytest.param("mbarrier.arrive.shared::cta.b64 _, [%r56];", "", marks=pytest.mark.slow),
        ("MINE: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r55], %r51;\n    @!%p4 bra MINE;", ""),
    ],
)
def test_roles_that_skip_too_little_or_do_not_wait_for_their_turn_are_refuted(
    tmp_path: Path, old: str, new: str
) -> None:
    assert check(tmp_path, in_turn(old, new), threads=96).verdict is Verdict.REFUTED


#: The loop over tiles begins with the wait for a turn, and jumps back to it as the wait itself does.
AGAIN = (
    "add.u32 %r21, %r21, %r57;\n    bra TILE;",
    """add.u32 %r21, %r21, %r57;
    setp.lt.s32 %p3, %r21, %r20;
    @%p3 bra MINE;
    bra END;""",
)


def test_a_loop_over_tiles_may_begin_where_a_wait_does(tmp_path: Path) -> None:
    report = check(tmp_path, in_turn(*AGAIN), threads=96)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def test_such_a_loop_with_another_role_that_is_not_let_on_is_refuted(tmp_path: Path) -> None:
    text = in_turn(*AGAIN).replace("mbarrier.arrive.shared::cta.b64 _, [%r56];", "")
    assert check(tmp_path, text, threads=96).verdict is Verdict.REFUTED
