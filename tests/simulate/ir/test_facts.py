"""What a kernel's text says to the simulator."""

from __future__ import annotations

from syncverify.ir.text.parser import parse
from syncverify.simulate.ir.facts import elected_lanes

TEXT = """kernel k {{
 launch grid [1] block [32]
 shared a : f32[32]
 elect p
 if p {{
  st.shared a[5], 1.0
 }}
 {more}
}}
"""


def drawn(more: str, seeds: int = 600) -> set[int]:
    (kernel,) = parse(TEXT.format(more=more), "k.syncir")
    found = [elected_lanes(kernel, seed) for seed in range(seeds)]
    assert found == [elected_lanes(kernel, seed) for seed in range(seeds)]
    assert all(lanes[0] == 0 for lanes in found)
    return {lane for lanes in found for lane in lanes}


def test_each_lane_is_drawn_where_lanes_differ() -> None:
    assert drawn("st.shared a[lane], 1.0") == {*range(32)}


def test_the_lowest_alone_represents_lanes_that_do_the_same() -> None:
    assert drawn("st.shared a[6], 1.0", 3) == {0}
