"""Places of two blocks that meet, beside places that are computed one by one."""

from __future__ import annotations

from itertools import combinations

import pytest

from syncverify.frontends.ptx.analysis.block_places import BlockPlaces
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
{{
.reg .pred %p<4>;
.reg .b32 %r<9>;
.reg .b64 %rd<4>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
setp.lt.u32 %p1, %r0, {most}; setp.ne.and.u32 %p2, %r1, {but}, %p1;
mad.lo.u32 %r2, %r1, {step}, %r0; mul.wide.u32 %rd1, %r2, {bytes};
@%p2 st.global.u32 [%rd1], %r0;
ret;
}}
"""


@pytest.mark.parametrize("step", [0, 7, 8, 9])
@pytest.mark.parametrize("most", [7, 8])
@pytest.mark.parametrize("but", [1, 9])
@pytest.mark.parametrize("size", [2, 4])
def test_blocks_meet_where_two_of_their_threads_do(step: int, most: int, but: int, size: int) -> None:
    flow = Flow(parse(HEAD.format(step=step, most=most, but=but, bytes=size), "k.ptx").entries[0])
    k = next(n for n, i in enumerate(flow.body) if i.op == "st")
    found = BlockPlaces(flow, (8, 1, 1), (2, 1, 1), (1, 1, 1), {}).meet(k, 4)
    bytes_ = [
        {size * (step * b + t) + n for t in range(most) for n in range(4)} if b != but else set[int]()
        for b in range(2)
    ]
    assert found is any(a & b for a, b in combinations(bytes_, 2))
