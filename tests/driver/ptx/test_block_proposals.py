"""A kernel whose block nothing gives: usual blocks that agree give the verdict, and else a note."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import sleep

import pytest

from syncverify.api import check
from syncverify.base import deadline
from syncverify.base.diagnostics import KernelReport, Replayed, ScopeKind, Severity, Verdict
from syncverify.driver.ptx import block_proposals, block_shapes
from syncverify.driver.ptx.block_proposals import RULE
from tests.frontends.ptx.execute_helpers import module_text
from tests.system import small_ptx
from tests.system.small_ptx import read

#: A thread reads what one ``STEP`` bytes from it wrote; ``WAIT`` stands between, ``ROW`` is the thread's row.
BODY = """
    .shared .align 16 .b8 tile[BYTES];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    ROW
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4+OFFSET], VALUE;
    WAIT
    xor.b32 %r5, %r2, STEP;
    add.u32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    st.global.u32 [%rd1], %r7;
    ret;
"""
SMALL = Path(small_ptx.__file__).parent
TWO_DIMENSIONS = "mov.u32 %r8, %tid.y; shl.b32 %r9, %r8, 5; add.u32 %r1, %r1, %r9;"


def _report(
    wait: str, size: int = 4096, row: str = "", *, step: int = 4, offset: int = 0, value: str = "%r1"
) -> KernelReport:
    body = BODY.replace("WAIT", wait).replace("BYTES", str(size)).replace("ROW", row)
    body = body.replace("STEP", str(step)).replace("OFFSET", str(offset)).replace("VALUE", value)
    (report,) = check(module_text(body, ".param .u64 k_out"))
    return report


@pytest.mark.parametrize(
    ("size", "row", "blocks"),
    [
        (4096, "", "256, 128, 512, 1024, 64 or 32"),
        (512, "", "128, 64 or 32"),  # larger ones leave the array
        (4096, TWO_DIMENSIONS, "32 x 8, 16 x 16, 32 x 32, 32 x 4 or 8 x 8"),
    ],
)
def test_what_usual_blocks_agree_in_is_the_verdict(size: int, row: str, blocks: str) -> None:
    # with 16 x 16 and 8 x 8 the rows lie 32 words apart, too
    found = _report("bar.sync 0;", size, row)
    assert found.verdict is Verdict.PROVED
    assert f"block = {blocks}: usual ones, as nothing gives it" in found.assumptions


def test_a_warning_with_one_of_them_is_one_of_the_verdict() -> None:
    # of 64 threads some lanes of a warp leave before the barrier
    leave = "mov.u32 %r10, %ntid.x; setp.eq.u32 %p1, %r10, 64; setp.ge.and.u32 %p2, %r1, 48, %p1; @%p2 ret;"
    found = _report(f"{leave} bar.sync 0;")
    assert found.verdict is Verdict.PROVED
    assert "256, 128, 512, 1024, 64 or 32" in found.assumptions[-1]
    assert [d.severity for d in found.diagnostics if d.rule == "SV303"] == [Severity.WARNING]


def test_a_race_in_each_of_them_refutes() -> None:
    found = _report("")
    assert (found.verdict, found.diagnostics[0].rule) == (Verdict.REFUTED, "SV110")
    assert found.replay is not None and found.replay.outcome is Replayed.REPRODUCED


def test_where_they_do_not_agree_the_first_that_is_proved_is_named_with_its_line() -> None:
    # threads of another warp: one warp alone reads what nobody writes
    found = _report("bar.warp.sync -1;", step=128)
    assert found.verdict is Verdict.UNKNOWN
    note = found.diagnostics[-1]
    stays = "line 28: blocks store values of their own to one place of param0: which stays does not matter"
    said = f"with block = [32] the kernel is proved (assumed then: {stays}); tried too: "
    assert (note.rule, note.severity) == (RULE, Severity.NOTE)
    assert note.message == said + "[256] (SV110), [128] (SV110), [512] (SV110), [1024] (SV110), [64] (SV110)"
    assert note.fix is not None and "write block = [32] under [kernel.k]" in note.fix


def test_an_index_beyond_the_array_is_not_proved_for_half_the_block() -> None:
    # one word too far: 256 threads leave an array of 256 words, and 128 do not
    found = _report("bar.sync 0;", 1024, offset=4)
    assert found.verdict is Verdict.UNKNOWN
    assert found.diagnostics[-1].message.startswith("with block = [128] the kernel is proved")
    # an array with room for it
    assert _report("bar.sync 0;", 1028, offset=4).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("asked", "verdict"), [("", Verdict.PROVED), ("mov.u32 %r9, %ntid.x;", Verdict.UNKNOWN)]
)
def test_a_block_that_fills_the_array_decides_where_no_number_of_threads_is_asked(
    asked: str, verdict: Verdict
) -> None:
    found = _report("bar.sync 0, 256;", 1024, asked)  # 128 threads wait for ever
    assert found.verdict is verdict
    why = "block = 256: it fills an array, and the kernel asks for no number of threads"
    assert (why in found.assumptions) is (verdict is Verdict.PROVED)
    assert _report("bar.sync 0, 256;", 2048, asked).verdict is Verdict.UNKNOWN


def test_part_of_a_warp_at_one_shuffle_refutes() -> None:
    half = "and.b32 %r8, %r1, 31; setp.gt.u32 %p1, %r8, 15; @%p1 bra OUT; "
    found = _report(half + "shfl.sync.bfly.b32 %r9, %r1, 8, 31, -1; OUT: bar.sync 0;")
    assert (found.verdict, found.diagnostics[0].rule) == (Verdict.REFUTED, "SV303")
    assert found.replay is not None and found.replay.outcome is Replayed.REPRODUCED


def test_a_shuffle_with_a_mask_of_fewer_lanes_may_be_meant_for_as_many() -> None:
    body = """
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    shfl.sync.down.b32 %r2, %r1, 8, 31, 65535;
    st.global.u32 [%rd1], %r2;
    ret;
"""
    (found,) = check(module_text(body, ".param .u64 k_out"), advice=False)
    assert found.verdict is Verdict.UNKNOWN
    assert "with block = [16] the kernel is proved" in found.diagnostics[-1].message


def test_more_rows_than_are_meant_are_no_mistake_and_rows_that_are_too_near_are() -> None:
    # eight rows are meant: a ninth has the place of the first
    eight = "mov.u32 %r8, %tid.y; and.b32 %r10, %r8, 7; shl.b32 %r9, %r10, 5; add.u32 %r1, %r1, %r9;"
    found = _report("bar.sync 0;", 4096, eight, value="%r8")
    assert found.verdict is Verdict.PROVED
    assert any(a.startswith("block = 32 x 8, 32 x 4 or 8 x 8: ") for a in found.assumptions)
    # four rows, in an array with room for eight: of one block alone nothing follows for 32 x 8
    four = eight.replace(", 7;", ", 3;")
    assert _report("bar.sync 0;", 1024, four, value="%r8").verdict is Verdict.UNKNOWN
    # the rows lie 16 words apart: those of 32 overlap, and 32 x 32 threads would have room
    near = TWO_DIMENSIONS.replace(", 5;", ", 4;")
    assert _report("bar.sync 0;", 4096, near, value="%r8").verdict is Verdict.UNKNOWN


def test_what_is_no_race_is_shown_and_refutes_nothing() -> None:
    found = _report("bar.sync 1, 96;")
    note = found.diagnostics[-1]
    assert found.verdict is Verdict.UNKNOWN
    assert (note.rule, note.severity) == (RULE, Severity.WARNING)
    assert note.message.startswith("with block = [256] the check finds SV")
    assert note.span.line > 1


def test_the_reason_names_a_block_of_as_many_dimensions_as_the_text_reads() -> None:
    found = _report("bar.sync 1, 96;", 4096, TWO_DIMENSIONS)
    assert "block = [32, 8]" in str(found.reason)


def test_a_block_of_one_row_says_nothing_of_rows() -> None:
    # each row writes the words of the others; with 256 x 1 x 1 there is one
    found = _report("bar.sync 0;", 1024, "mov.u32 %r8, %tid.z;", value="%r8")
    assert found.verdict is Verdict.UNKNOWN


def test_threads_that_nothing_tells_apart_may_be_one() -> None:
    alone = BODY.replace("mov.u32 %r1, %tid.x;", "mov.u32 %r1, 0;").replace("ROW", "")
    alone = alone.replace("WAIT", "add.u32 %r1, %r1, 1; st.shared.u32 [%r4], %r1;").replace("VALUE", "%r1")
    alone = alone.replace("STEP", "0").replace("OFFSET", "0").replace("BYTES", "64")
    (one,) = check(module_text(alone, ".param .u64 k_out"))
    assert one.verdict is not Verdict.REFUTED


#: Sixteen lanes reverse what they wrote; more of them write the same words.
SIXTEEN = """
    .shared .align 16 .b8 tile[64];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 15;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, tile;
    add.u32 %r5, %r4, %r3;
    st.shared.u32 [%r5], %r1;
    WAIT
    sub.u32 %r6, 60, %r3;
    add.u32 %r6, %r4, %r6;
    ld.shared.u32 %r7, [%r6];
    st.global.u32 [%rd1], %r7;
    ret;
"""


@pytest.mark.parametrize(("wait", "verdict"), [("bar.sync 0;", "unknown"), ("", "refuted")])
def test_a_block_of_few_threads_may_be_meant(wait: str, verdict: str) -> None:
    (found,) = check(module_text(SIXTEEN.replace("WAIT", wait), ".param .u64 k_out"), advice=False)
    assert found.verdict == verdict
    note = any("with block = [16] the kernel is proved" in d.message for d in found.diagnostics)
    assert note == (verdict == "unknown")


#: Words at the ranks of threads; each reads a word that a thread ``STEP`` bytes from it wrote in a block of
#: one row. ``ROWS`` asks how many rows there are.
RANKS = """
    .shared .align 16 .b8 s[4096];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    shl.b32 %r5, %r4, 2;
    mov.u32 %r6, s;
    add.u32 %r7, %r6, %r5;
    st.shared.u32 [%r7], %r4;
    WAIT
    shl.b32 %r8, %r1, 2;
    xor.b32 %r8, %r8, STEP;
    ROWS
    add.u32 %r9, %r6, %r8;
    ld.shared.u32 %r10, [%r9];
    st.global.u32 [%rd1], %r10;
    ret;
"""
ROWS = "mov.u32 %r11, %ntid.y; setp.gt.u32 %p1, %r11, 1; selp.b32 %r8, 0, %r8, %p1;"


@pytest.mark.parametrize(
    ("wait", "step", "rows", "said"),
    [
        ("bar.warp.sync -1;", 4, "", Verdict.UNKNOWN),  # right where a block has one row
        ("", 4, "", Verdict.REFUTED),
        ("bar.warp.sync -1;", 128, "", Verdict.REFUTED),  # of another warp, in one row, too
        ("bar.warp.sync -1;", 4, ROWS, Verdict.REFUTED),
    ],
)
def test_a_block_of_one_row_may_be_meant(wait: str, step: int, rows: str, said: Verdict) -> None:
    body = RANKS.replace("WAIT", wait).replace("STEP", str(step)).replace("ROWS", rows)
    (found,) = check(module_text(body, ".param .u64 k_out"), advice=False)
    assert found.verdict is said
    note = any("with block = [256, 1] the kernel is proved" in d.message for d in found.diagnostics)
    assert note == (said is Verdict.UNKNOWN)


def test_blocks_of_one_row_that_are_not_asked_refute_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_shapes, "of_one_row", lambda *_: iter(()))
    body = RANKS.replace("WAIT", "").replace("STEP", "4").replace("ROWS", "")
    (found,) = check(module_text(body, ".param .u64 k_out"), advice=False)
    assert found.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ("mov.u32 %r9, %r1;", "block = 256, 128, 512, 1024, 64 or 32: usual"),
        # threads from 512 on write the places of the first ones
        (
            "mov.u32 %r9, %r1; and.b32 %r1, %r1, 511;",
            "[512] (proved), [1024] (unknown), ",
        ),
    ],
)
def test_blocks_behind_the_end_of_the_budget_are_asked_by_places(
    monkeypatch: pytest.MonkeyPatch, places: str, said: str
) -> None:
    asked = block_proposals.usual
    monkeypatch.setattr(block_shapes, "usual", lambda *of: islice(asked(*of), 2))
    found = _report("bar.sync 0;", row=places, value="%r9")
    assert (found.verdict is Verdict.PROVED) is ("and" not in places)
    assert any(said in x for x in (*found.assumptions, *(d.message for d in found.diagnostics)))


#: A transposition of tiles of 32 x 32 by 32 x 8 threads: stores ``STEP`` bytes apart, and the last ``FAR``.
TILE = """
    .shared .align 4 .b8 tile[4224];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, tile;
    mad.lo.s32 %r4, %r2, 132, %r3;
    shl.b32 %r5, %r1, 2;
    add.s32 %r4, %r4, %r5;
    st.shared.u32 [%r4], %r1;
    st.shared.u32 [%r4+STEP], %r1;
    st.shared.u32 [%r4+TWICE], %r1;
    st.shared.u32 [%r4+FAR], %r1;
    WAIT
    mad.lo.s32 %r6, %r1, 132, %r3;
    shl.b32 %r7, %r2, 2;
    add.s32 %r6, %r6, %r7;
    ld.shared.u32 %r8, [%r6];
    st.global.u32 [%rd1], %r8;
    ret;
"""


@pytest.mark.parametrize(
    ("rows", "wait", "said"),
    [
        ((8, 24), "bar.sync 0;", "block = 32 x 8: it fills an array, and the kernel asks for no number"),
        # the tile has room for twice as many threads
        ((4, 12), "bar.sync 0;", ""),
        # 8 rows race, and 4 leave half of the tile
        ((8, 23), "bar.sync 0;", ""),
        ((8, 24), "", ""),
        ((8, 24), "bar.warp.sync -1;", ""),
    ],
)
def test_stores_that_stride_over_an_array_say_how_many_rows_are_meant(
    rows: tuple[int, int], wait: str, said: str
) -> None:
    step, far = (132 * n for n in rows)
    body = TILE.replace("STEP", str(step)).replace("TWICE", str(2 * step)).replace("FAR", str(far))
    body = body.replace("WAIT", wait)
    (found,) = check(module_text(body, ".param .u64 k_out"), advice=False)
    assert (found.verdict is Verdict.PROVED) is bool(said)
    assert not said or any(said in x for x in found.assumptions)


def test_one_warp_alone_fills_nothing_where_more_race() -> None:
    """The first warp fills the array, and the others read it behind a barrier of a warp."""
    first = "setp.gt.u32 %p1, %r1, 31; and.b32 %r8, %r1, 31; shl.b32 %r9, %r8, 2;"
    body = BODY.replace("BYTES", "128").replace("VALUE", "%r1").replace("WAIT", "bar.warp.sync -1;")
    body = body.replace("st.shared", "@!%p1 st.shared").replace(
        "xor.b32 %r5, %r2, STEP;", "mov.u32 %r5, %r9;"
    )
    body = (
        body.replace("ROW", first)
        .replace("OFFSET", "0")
        .replace("%r5, %r9;", "%r5, %r9; xor.b32 %r5, %r5, 4;")
    )
    (found,) = check(module_text(body, ".param .u64 k_out"), advice=False)
    assert found.verdict is not Verdict.PROVED


def test_the_end_of_the_whole_check_is_not_that_of_the_usual_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(*_: object) -> Iterator[block_proposals.Tried]:
        sleep(0.06)
        deadline.check()
        raise deadline.OutOfStepsError(1)
        yield

    monkeypatch.setattr(block_proposals, "tried", tried)
    monkeypatch.setattr(block_proposals, "asked_blocks", lambda _: ())
    assert list(block_proposals.usual(None, ScopeKind.EXACT)) == []  # type: ignore[arg-type]
    guard = deadline.Guard(0.05, None)
    with pytest.raises(deadline.OutOfTimeError, match="0.05 seconds"), deadline.guarded(guard):
        list(block_proposals.usual(None, ScopeKind.EXACT))  # type: ignore[arg-type]


def test_one_reason_of_all_usual_blocks_is_the_reason() -> None:
    decides = "ld.global.u32 %r8, [%rd1]; and.b32 %r8, %r8, %r1; setp.eq.u32 %p1, %r8, 3;"
    found = _report(f"{decides} @%p1 bra OUT; bar.sync 0; OUT:")
    assert found.verdict is Verdict.UNKNOWN
    assert "depends on data" in str(found.reason) and "number of threads" not in str(found.reason)
    assert "so it is with block = 256, 128, 512, 1024, 64 or 32, and nothing gives the block" in str(
        found.reason
    )
    assert not any("number of threads" in d.message for d in found.diagnostics)


def test_no_wrong_kernel_is_proved_where_its_block_is_not_given() -> None:
    wrong = [k for k in read(SMALL / "blocks_not_given.kernels") if not k.right]
    for k in wrong:
        (found,) = check(k.text, advice=False, replay=False)
        assert found.verdict is not Verdict.PROVED, k.name


@pytest.mark.parametrize(("row", "far", "said"), [(11, 0, Verdict.PROVED), (11, 4, Verdict.UNKNOWN)])
def test_a_block_larger_than_the_rows_of_an_array_is_put_aside(row: int, far: int, said: Verdict) -> None:
    # the second of two rows of 512 words, where the text asks for the number of threads
    rows = f"mov.u32 %r8, %ntid.x; mov.u32 %r9, 1; shl.b32 %r10, %r9, {row}; shr.u32 %r10, %r10, 2;"
    found = _report("bar.sync 0;", row=f"{rows} add.u32 %r1, %r1, %r10;", offset=far)
    assert found.verdict is said
    whole = "block = 256, 128, 512, 64 or 32: usual ones"
    assert any(a.startswith(whole) for a in found.assumptions) is (said is Verdict.PROVED)
