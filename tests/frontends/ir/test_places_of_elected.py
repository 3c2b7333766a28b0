"""Where an elected lane may be the only one of its warp at a place."""

from __future__ import annotations

import pytest

from syncverify.frontends.ir.lane_classes import elections
from syncverify.ir.launch_grid import Grid
from syncverify.ir.layout import launch_values
from syncverify.ir.text.parser import parse

HEADER = """launch grid [1] block [64]
 tensor o : f32[4096] out
 shared a : f32[2, 64] align 128
 shared b : f32[32, 4] align 128 AT
"""


def meets(body: str, at: str = "") -> bool:
    header = HEADER.replace("AT", at)
    (kernel,) = parse(f"kernel k {{\n {header}\n elect p\n let s = 0\n{body}\n}}\n", "k.syncir")
    values = launch_values(kernel, {})
    return elections(kernel, values, Grid.of(kernel, values)).meets_lanes


def copies(what: str) -> str:
    return f"if p {{\n bulk.store o[0 : 4], {what}\n bulk.commit\n }}\n"


@pytest.mark.parametrize(
    ("lanes", "copied", "alone"),
    [
        ("st.shared a[s][tid : 1], 1.0", "a[s]", False),  # the whole row: all lanes are there, or none
        ("st.shared a[s][tid : 1], 1.0", "a", False),
        ("st.shared a[s][tid : 1], 1.0", "a[0][0 : 4]", False),  # four lanes
        ("st.shared a[s][2 * tid : 2], 1.0", "a[0][8 : 4]", False),  # two
        ("st.shared a[s][2 * tid : 2], 1.0", "a[0][8 : 2]", True),
        ("st.shared b[lane][0 : 4], 1.0", "b[3]", True),  # rows are lanes' own
        ("st.shared b[lane][0 : 4], 1.0", "b", False),
        ("st.shared a[s][tid + block : 1], 1.0", "a[0][0 : 4]", True),  # not of the thread alone
        ("ld.shared x, a[s][tid : 1]", "a[0][8 : 2]", False),  # both read
        ("st.shared b[lane][0 : 4], 1.0", "a[0][8 : 4]", False),
    ],
)
def test_a_copy_may_lie_at_one_lanes_place(lanes: str, copied: str, alone: bool) -> None:
    assert meets(f"{lanes}\n{copies(copied)}") is alone


def test_arrays_that_may_lie_in_each_other_are_one() -> None:
    body = f"st.shared b[lane][0 : 4], 1.0\n{copies('a[0][8 : 4]')}"
    assert meets(body, "offset 0")


def test_lanes_of_other_warps_are_not_the_elected_one() -> None:
    lanes = "st.shared b[lane][0 : 4], 1.0"
    apart = f"role one warps 0..1 {{\n {lanes}\n }}\n role other warps 1..2 {{\n {copies('b[3]')} }}\n"
    assert not meets(apart)
    assert meets(apart.replace("1..2", "0..2"))
