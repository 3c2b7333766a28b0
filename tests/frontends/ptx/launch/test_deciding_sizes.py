"""Which parameters decide and place nothing, and with which numbers they are tried."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.launch.deciding_sizes import deciding_sizes
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

_LOAD = "ld.param.u64 %rd1, [k_out]; ld.param.u32 %r1, [k_n];"


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ("setp.gt.u32 %p1, %r1, 64; @%p1 bra END; st.global.u32 [%rd1], 1; END:", (1, 63, 64, 65)),
        ("shr.u32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 5; @%p1 st.global.u32 [%rd1], 1;", (1, 4, 5, 6)),
        ("setp.lt.u32 %p1, %r3, %r1; @%p1 st.global.u32 [%rd1], 1;", (1,)),
        ("setp.gt.u32 %p1, %r1, 64; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;"
         " @%p1 st.global.u32 [%rd2], 1;", None),
        ("setp.gt.u32 %p1, %r1, 64; selp.b32 %r2, %r1, 0, %p1; cvt.u64.u32 %rd2, %r2;"
         " st.global.u32 [%rd2], 1;", None),
        ("st.global.u32 [%rd1], %r1;", (1,)),
    ],
)  # fmt: skip
def test_numbers(body: str, numbers: tuple[int, ...] | None) -> None:
    text = module_text(_LOAD + body + " ret;", ".param .u64 k_out, .param .u32 k_n")
    assert deciding_sizes(parse(text).entries[0]).get(("k_n", 0)) == numbers
