"""Blocks that ask a question leave no register changed: which ones each may write is told from its text."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.compile.code_text import saved_slots


@pytest.mark.parametrize(
    ("line", "slots"),
    [
        (" r[9] = r[8] + 1", {9}),
        (" r[9], r[10] = 1, 2", {9, 10}),
        (" r[9] = L(r, 'shared', r[8] + 4, 4, c3)", {9}),
        # what goes past a turn, and helpers that nobody has said anything of
        (" own = K(r, 3)", None),
        (" Z(r)", None),
    ],
)
def test_slots_that_a_block_writes(line: str, slots: set[int] | None) -> None:
    found = saved_slots(["def b8(r, a):", line, " r[0] = 16"])
    assert found.keys() == (set() if slots is None else {8})
    if slots is not None:
        assert set(found[8][0]) == {0, 1} | slots
