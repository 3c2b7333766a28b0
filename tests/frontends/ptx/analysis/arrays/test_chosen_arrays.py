"""How far into which arrays an access leads, beside all places that each choice and index give."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges
from syncverify.frontends.ptx.analysis.arrays.chosen_arrays import ChosenArrays
from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

BEGIN = """
    .shared .align 16 .b8 s[64]; .shared .align 16 .b8 t[64];
    ld.param.u64 %rd1, [k_p]; ld.global.u32 %r1, [%rd1]; setp.lt.u32 %p1, %r1, 7;
    mov.u32 %r2, s; mov.u32 %r3, t; and.b32 %r4, %r1, 15;
"""


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ("selp.b32 %r5, %r2, %r3, %p1; mad.lo.u32 %r6, %r4, 4, %r5; st.shared.u32 [%r6], 0;",
         {"s": 60, "t": 60}),
        ("selp.b32 %r5, %r2, %r3, %p1; add.u32 %r6, %r4, %r5; st.shared.u8 [%r6+8], 0;", {"s": 23, "t": 23}),
        ("@%p1 bra A; mov.u32 %r5, s; bra B; A: add.u32 %r5, %r3, %r4; B: st.shared.u8 [%r5], 0;",
         {"s": 0, "t": 15}),
        ("selp.b32 %r5, %r2, %r3, %p1; sub.u32 %r6, %r5, %r4; st.shared.u8 [%r6+16], 0;", {"s": 16, "t": 16}),
        ("shl.b32 %r4, %r1, 2; selp.b32 %r5, %r2, %r3, %p1; add.u32 %r6, %r4, %r5; st.shared.u32 [%r6], 0;",
         {"s": (1 << 32) - 4, "t": (1 << 32) - 4}),
        ("selp.b32 %r5, %r2, %r3, %p1; mad.lo.u32 %r6, 4, 5, %r5; st.shared.u8 [%r6], 0;",
         {"s": 20, "t": 20}),
        ("selp.b32 %r5, %r2, %r3, %p1; cvt.u16.u32 %rs1, %r5; cvt.u32.u16 %r6, %rs1; st.shared.u8 [%r6], 0;",
         None),
        ("sub.u32 %r5, %r3, %r2; add.u32 %r6, %r2, %r5; st.shared.u32 [%r6], 0;", None),
        ("or.b32 %r6, %r2, %r4; st.shared.u32 [%r6], 0;", None),
        ("mov.u32 %r6, s; A: add.u32 %r6, %r6, %r4; @%p1 bra A; st.shared.u32 [%r6], 0;", None),
    ],
)  # fmt: skip
def test_offsets(body: str, places: dict[str, int] | None) -> None:
    """The last place in each array; what nothing bounds, differences and loops are not known."""
    module = parse(module_text(BEGIN + body + " ret;", ".param .u64 k_p"))
    flow = Flow(module.entries[0])
    at = next(k for k, i in enumerate(flow.body) if i.op == "st")
    shared = {"s": 1024, "t": 1088}
    found = ChosenArrays(NamedArrays(flow, shared), AddressRanges(flow, shared, (32, 1, 1))).of(at)
    assert (None if found is None else {name: x.high for name, x in found.items()}) == places
    assert found is None or all(x.low >= 0 for x in found.values())
