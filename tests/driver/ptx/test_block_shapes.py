"""Blocks of which `.maxntid` bounds the threads alone: what all shapes that fit agree in is the verdict."""

from __future__ import annotations

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import KernelReport, Replayed
from tests.frontends.ptx.execute_helpers import module_text

#: A tile of 16 x 16 words; a thread reads what the thread in the next row wrote. ``WAIT`` stands between.
TILE = """
    .shared .align 16 .b8 tile[BYTES];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    shl.b32 %r3, %r2, ROW;
    shl.b32 %r4, %r1, 2;
    add.u32 %r5, %r3, %r4;
    mov.u32 %r6, tile;
    add.u32 %r7, %r6, %r5;
    st.shared.u32 [%r7], %r2;
    WAIT
    xor.b32 %r8, %r5, STEP;
    add.u32 %r9, %r6, %r8;
    ld.shared.u32 %r10, [%r9];
    st.global.u32 [%rd1], %r10;
    ret;
"""


def report(
    wait: str, step: int, size: int = 1024, directive: str = ".maxntid 256, 1, 1", row: int = 6
) -> KernelReport:
    body = TILE.replace("WAIT", wait).replace("STEP", str(step)).replace("BYTES", str(size))
    body = body.replace("shl.b32 %r3, %r2, ROW;", f"shl.b32 %r3, %r2, {row};" if row else "mov.u32 %r3, 0;")
    text = module_text(body, ".param .u64 k_out")
    (found,) = check(text.replace("(.param .u64 k_out)", f"(.param .u64 k_out)\n{directive}"))
    return found


def test_the_shape_that_fits_the_arrays_is_assumed() -> None:
    found = report("bar.sync 0;", 256)
    assert found.verdict == "proved"
    assert "block = 16 x 16: of the 256 threads that .maxntid allows, which is a bound" in found.assumptions


def test_a_mistake_is_refuted_in_the_shape_that_fits() -> None:
    found = report("", 256)
    assert found.verdict == "refuted"
    assert found.diagnostics[0].rule == "SV110"
    assert found.replay is not None and found.replay.outcome is Replayed.REPRODUCED


def test_shapes_that_fit_have_to_agree() -> None:
    # rows of 64 words are as long as those of 64 x 4; the next row is of the same warp in 16 x 16 alone
    found = report("bar.warp.sync -1;", 256, size=16384, row=8)
    assert found.verdict == "unknown"
    assert "give block in a launch file" in str(found.reason)
    assert "(proved)" in str(found.reason) and "(SV110)" in str(found.reason)


def test_where_no_shape_fits_all_have_to_agree() -> None:
    # every row writes the same words: a block of one row is right, and any other is wrong
    assert report("bar.sync 0;", 4, row=0).verdict == "unknown"
    assert report("", 128, row=0).verdict == "refuted"


def test_a_row_that_is_proved_may_be_meant() -> None:
    # words of a place in its row: a warp's own where the block has one row, and in no other block
    def of_ranks(wait: str) -> KernelReport:
        body = TILE.replace("shl.b32 %r3, %r2, ROW;", "shl.b32 %r3, %r2, 9;").replace("BYTES", "32768")
        body = body.replace("xor.b32 %r8, %r5, STEP;", "xor.b32 %r8, %r4, 4;").replace("WAIT", wait)
        text = module_text(body, ".param .u64 k_out")
        bound = "(.param .u64 k_out)\n.maxntid 128, 1, 1"
        (found,) = check(text.replace("(.param .u64 k_out)", bound), advice=False)
        return found

    right = of_ranks("bar.warp.sync -1;")
    assert right.verdict == "unknown"
    assert "[128] (proved)" in str(right.reason)
    assert of_ranks("").verdict == "refuted"


@pytest.mark.parametrize("directive", [".reqntid 16, 16, 1", ".maxntid 16, 16, 1"])
def test_a_shape_that_the_text_gives_is_the_only_one(directive: str) -> None:
    found = report("bar.sync 0;", 256, directive=directive)
    assert found.verdict == "proved"
    assert not any("16 x 16: of the" in a for a in found.assumptions)
