"""Blocks that count themselves, the last of which reads what all wrote: the writes have to be published."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text

FACTS = """
[kernel.k]
grid = [4]
block = [32]
cluster = [1]
[kernel.k.params]
0 = "ptr"
1 = "ptr"
"""
OF_ANY_GRID = FACTS.replace("[4]", '["g"]').replace("cluster", 'assume = ["g >= 1"]\ncluster')
#: A block that finds three counts is the last of four, and not of five.
OF_FOUR = OF_ANY_GRID.replace('"g >= 1"', '"g >= 1", "g <= 4"')
PARAMS = ".param .u64 k_parts, .param .u64 k_count"
BODY = """
    .shared .align 4 .b8 last[4];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    ld.param.u64 %rd1, [k_parts];
    ld.param.u64 %rd2, [k_count];
    mad.lo.u32 %r3, %r2, 32, %r1;
    mul.wide.u32 %rd3, %r3, 4;
    add.u64 %rd4, %rd1, %rd3;
    st.global.u32 [%rd4], %r1;
    FENCE
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra COUNTED;
    atom.global.add.u32 %r4, [%rd2], 1;
    st.shared.u32 [last], %r4;
COUNTED:
    bar.sync 0;
    ld.shared.u32 %r5, [last];
    setp.ne.u32 %p2, %r5, 3;
    @%p2 bra END;
    mul.wide.u32 %rd5, %r1, 4;
    add.u64 %rd6, %rd1, %rd5;
    ld.global.u32 %r6, [%rd6];
    ld.global.u32 %r7, [%rd6+128];
END:
    ret;
"""


@pytest.mark.parametrize("fence", ["", "membar.cta;", "fence.acq_rel.cta;"])
def test_what_is_not_published_before_the_count_is_not_proved(check: Any, fence: str) -> None:
    assert check(module_text(BODY.replace("FENCE", fence), PARAMS), facts=FACTS)["verdict"] != "proved"


#: Thread 0 of each block adds to one sum, which the last block reads as a volatile word.
SUM = """
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra END;
    ld.param.u64 %rd1, [k_parts];
    ld.param.u64 %rd2, [k_count];
    ADD
    FENCE
    atom.global.add.u32 %r4, [%rd2], 1;
    setp.ne.u32 %p2, %r4, 3;
    @%p2 bra END;
    FENCE
    ld.volatile.global.u32 %r6, [%rd1];
    st.global.u32 [%rd2+4], %r6;
END:
    ret;
"""


@pytest.mark.parametrize("add", ["red.global.add.u32 [%rd1], 1;", "atom.global.add.u32 %r9, [%rd1], 1;"])
@pytest.mark.parametrize("fence", ["", "fence.acq_rel.cta;", "fence.acq_rel.gpu;"])
def test_a_sum_is_published_before_the_count_as_well(check: Any, add: str, fence: str) -> None:
    text = module_text(SUM.replace("ADD", add).replace("FENCE", fence), PARAMS)
    assert (check(text, facts=FACTS)["verdict"] == "proved") is ("gpu" in fence)


def test_a_block_that_is_alone_may_read_what_it_wrote(check: Any) -> None:
    facts = FACTS.replace("[4]", "[1]")
    assert check(module_text(BODY.replace("FENCE", ""), PARAMS), facts=facts)["verdict"] == "proved"


#: A fence between the count and the reads of the last block.
LATER = ("st.shared.u32 [last], %r4;", "membar.gl;\n    st.shared.u32 [last], %r4;")


@pytest.mark.parametrize("loads", ["ld.global.u32", "ld.volatile.global.u32"])
def test_a_fence_before_the_count_alone_is_a_race(check: Any, loads: str) -> None:
    """The count acquires nothing, and the stores are plain ones."""
    text = BODY.replace("FENCE", "membar.gl;").replace("ld.global.u32", loads)
    assert check(module_text(text, PARAMS), facts=FACTS)["verdict"] == "refuted"
    assert check(module_text(text, PARAMS), facts=OF_ANY_GRID)["verdict"] in ("unknown", "refuted")
    assert check(module_text(text.replace(*LATER), PARAMS), facts=FACTS)["verdict"] == "proved"


@pytest.mark.parametrize("fence, proved", [("membar.gl;", True), ("membar.cta;", False), ("", False)])
def test_any_number_of_blocks_may_count(check: Any, fence: str, proved: bool) -> None:
    """Loads that follow are strong, so the count decides about a hand-over; nobody waits for it."""
    text = BODY.replace("FENCE", fence).replace("ld.global.u32", "ld.volatile.global.u32")
    text = text.replace("st.global.u32", "st.volatile.global.u32")
    assert (check(module_text(text, PARAMS), facts=OF_ANY_GRID)["verdict"] == "proved") == proved


@pytest.mark.parametrize("behind, proved", [("membar.gl;", True), ("membar.cta;", False), ("", False)])
def test_plain_loads_behind_the_count_want_a_fence(check: Any, behind: str, proved: bool) -> None:
    loads = "mul.wide.u32 %rd5, %r1, 4;"
    text = BODY.replace("FENCE", "membar.gl;").replace(loads, f"{behind}\n{loads}")
    assert (check(module_text(text, PARAMS), facts=OF_FOUR)["verdict"] == "proved") == proved


def test_the_fourth_of_five_blocks_is_not_the_last(check: Any) -> None:
    """That the launch file names the number of blocks makes no difference to an open grid."""
    loads = "mul.wide.u32 %rd5, %r1, 4;"
    text = BODY.replace("FENCE", "membar.gl;").replace(loads, f"membar.gl;\n{loads}")
    assert check(module_text(text, PARAMS), facts=OF_ANY_GRID)["verdict"] == "unknown"
