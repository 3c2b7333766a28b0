"""What releases leave at a place in memory: a later one takes the place of those that it covers."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx.ordering import SCOPES, Release


def left(*epochs: int, by: int = 0, scope: str = "gpu") -> Release:
    """A release by a thread that knows of these epochs."""
    return Release(np.array([epochs], np.int32), by, SCOPES[scope])


@pytest.mark.parametrize(
    ("later", "covered"),
    [
        (left(2, 3), True),
        (left(2, 2), True),
        (left(2, 3, 1), True),  # an operation has begun since
        (left(2, 3, scope="sys"), True),
        (left(2, 3, scope="cta"), False),  # other blocks learn from the earlier one alone
        (left(2, 3, by=1), True),  # who shares a scope with one thread does with all of its block
        (left(2, 3, by=2), False),  # and need not with one of another block
        (left(3, 1), False),  # a fence released this before
        (left(2), False),
    ],
)
def test_a_release_covers_what_its_block_released_before(later: Release, covered: bool) -> None:
    assert later.covers(left(2, 2), threads=2) == covered
