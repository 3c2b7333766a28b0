"""Which strong accesses matter, and which hand words from thread to thread."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from syncverify.frontends.ptx.analysis.strong_words import strong_words
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.model.events import StrongWord

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
{{
.reg .b32 %r<9>; .reg .pred %p<2>;
.shared .b32 s[32];
mov.u32 %r1, %tid.x; mov.u32 %r2, s;
{body}
st.shared.u32 [%r2+64], %r3;
ret;
}}
"""
VOLATILE, PLAIN = StrongWord.VOLATILE, StrongWord(0)
EACH = StrongWord.OF_EACH_THREAD | StrongWord.OF_EACH_LANE
WARP = 32


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("ld.volatile.shared.u32 %r3, [%r1];", [VOLATILE | EACH]),
        ("ld.volatile.u32 %r3, [%r2];", [VOLATILE]),
        ("ld.acquire.cta.shared.u32 %r3, [%r2];", [PLAIN]),
        ("st.relaxed.cta.shared.u32 [%r1], %r2;", [EACH]),
        ("ld.volatile.shared.u32 %r4, [%r2];", []),  # nobody uses it
        ("ld.volatile.global.u32 %r3, [%r2];", []),
        ("L: ld.volatile.shared.u32 %r4, [%r2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;", []),  # a poll
        ("st.volatile.shared.u32 [%r5], %r2;", [VOLATILE | StrongWord.OF_EACH_THREAD]),
        ("atom.shared.add.u32 %r3, [%r2], 1;", []),
    ],
)
def test_words(body: str, words: list[StrongWord]) -> None:
    (function,) = parse(KERNEL.format(body=body)).functions

    def varies(_: int, names: Iterable[str]) -> int:
        names = set(names)
        return int("%r1" in names) | WARP * ("%r5" in names)

    assert list(strong_words(Flow(function), varies).values()) == words
