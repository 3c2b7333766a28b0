"""Generic accesses get their state space where every write of the address agrees."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.flow.address_spaces import with_spaces
from syncverify.frontends.ptx.syntax.parser import parse

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{{ .shared .align 4 .b8 row[1024]; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<4>;
  mov.u32 %r0, row; cvt.u64.u32 %rd0, %r0; cvta.shared.u64 %rd1, %rd0;
  ld.param.u64 %rd2, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; setp.eq.u32 %p1, %r1, 0;
  {0}
  ret; }}
"""


def accesses(body: str) -> list[str]:
    """The loads, stores and atomics of memory."""
    (f,) = parse(KERNEL.format(body)).entries
    return [
        i.name for i in with_spaces(f).body if i.op in ("ld", "st", "atom", "red") and "param" not in i.mods
    ]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("st.u32 [%rd1], %r1;", "st.shared.u32"),
        ("add.u64 %rd4, %rd1, %rd3; ld.volatile.u32 %r2, [%rd4+4];", "ld.volatile.shared.u32"),
        (
            "add.u64 %rd4, %rd3, %rd1; atom.acq_rel.cta.add.u32 %r2, [%rd4], 1;",
            "atom.acq_rel.cta.shared.add.u32",
        ),
        (
            "add.u64 %rd4, %rd1, 4; selp.b64 %rd5, %rd4, %rd1, %p1; red.add.u32 [%rd5], 1;",
            "red.shared.add.u32",
        ),
        ("L: add.u64 %rd1, %rd1, 4; st.u32 [%rd1], 0; @%p1 bra L;", "st.shared.u32"),
        ("add.u64 %rd4, %rd2, %rd3; st.u32 [%rd4], %r1;", "st.global.u32"),
    ],
)
def test_an_address_of_one_space(body: str, name: str) -> None:
    assert accesses(body) == [name]


@pytest.mark.parametrize(
    "body",
    [
        "selp.b64 %rd5, %rd2, %rd1, %p1; st.u32 [%rd5], %r1;",
        "mov.b64 %rd5, %rd1; @%p1 mov.b64 %rd5, %rd2; st.u32 [%rd5], %r1;",
        "xor.b64 %rd5, %rd1, 4; st.u32 [%rd5], %r1;",
        "add.u64 %rd5, %rd1, %rd1; st.u32 [%rd5], %r1;",
        "sub.u64 %rd5, %rd3, %rd1; st.u32 [%rd5], %r1;",
        "st.u32 [%rd3], %r1;",
    ],
)
def test_an_address_of_several_spaces_or_of_none_that_is_known(body: str) -> None:
    assert accesses(body) == ["st.u32"]
