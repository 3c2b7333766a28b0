"""Loops that a warp leaves by an exchange, nearly so that the first lane's poll ends them: never proved."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncverify
from tests.system.small_ptx import Small, read

KERNELS = list(read(Path(__file__).with_name("first_lanes_that_poll.kernels")))


@pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.name)
def test_only_the_first_lanes_own_poll_ends_it(k: Small) -> None:
    (report,) = syncverify.check(
        k.text, facts={"kernel": {"k": k.facts}}, timeout=5, replay=False, advice=False
    )
    assert (str(report.verdict) == "proved") == k.right
