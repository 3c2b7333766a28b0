"""Which sums a carry comes from."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.carry_chains import carried_from
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

FIRST = "add.cc.u32 %r1, %r1, %r2;"
LAST = "addc.u32 %r3, %r4, 0;"


@pytest.mark.parametrize(
    ("body", "chain"),
    [
        (f"{FIRST} mov.u32 %r5, 1; {LAST}", (2, 0)),
        (f"{FIRST} addc.cc.u32 %r5, %r6, 0; {LAST}", (2, 1, 0)),
        (f"{FIRST} sub.cc.u32 %r5, %r6, 1; {LAST}", (2, 1)),
        (f"{FIRST} @%p1 sub.cc.u32 %r5, %r6, 1; {LAST}", None),
        (f"{FIRST} @%p1 bra L; L: {LAST}", None),
        (LAST, None),
    ],
)
def test_a_carry_comes_from_the_last_sum_that_left_one(body: str, chain: tuple[int, ...] | None) -> None:
    function = parse(module_text(body + " ret;")).entries[0]
    flow = Flow(function)
    at = next(k for k, i in enumerate(flow.body) if i.op == "addc" and "cc" not in i.mods)
    assert carried_from(flow, at) == chain
