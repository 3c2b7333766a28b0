"""A spin that begins a loop parts nobody, if a turn of it only looks."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.flow.spin_blocks import spin_blocks
from tests.frontends.ptx.flow.test_ssa import flow_of

LOOP = """mov.u32 %r1, 0;
L: shl.b32 %r2, %r1, 3; {more}
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
@!%p1 bra L;
add.u32 %r1, %r1, 1; {behind}
setp.lt.u32 %p2, %r1, 4;
@%p2 bra L;"""


def spins(more: str = "", behind: str = "") -> int:
    return len(spin_blocks(flow_of(LOOP.format(more=more, behind=behind))))


def test_the_head_of_a_loop_that_spins() -> None:
    assert spins() == 1


@pytest.mark.parametrize(
    ("more", "behind"),
    [
        ("add.u32 %r3, %r3, 1;", ""),  # counts its turns
        ("mov.u32 %r3, %clock;", ""),  # another value each turn
        ("ld.shared.u32 %r3, [%r2];", ""),
        ("", "selp.u32 %r4, 1, 2, %p1;"),  # the answer is read behind it
        ("@%p3 mov.u32 %r3, 1;", ""),
    ],
)
def test_a_turn_that_changes_something_parts(more: str, behind: str) -> None:
    assert spins(more, behind) == 0


def test_a_spin_of_its_own_is_a_loop() -> None:
    text = LOOP.format(more="M:", behind="").replace("@!%p1 bra L", "@!%p1 bra M")
    assert not spin_blocks(flow_of(text))
