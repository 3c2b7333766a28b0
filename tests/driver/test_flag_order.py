"""Flags, locks, counts and answers of polls that are kept: right kernels are proved, no wrong one is."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from tests.system.small_ptx import Small, read

KERNELS = [
    k
    for name in ("flag_order.kernels", "locks_and_counts.kernels", "answers_and_signs.kernels")
    for k in read(Path(__file__).with_name(name))
]


@pytest.mark.parametrize("k", KERNELS, ids=lambda k: f"{k.group}: {k.name}")
def test_verdicts(k: Small) -> None:
    (found,) = syncverify.check(
        k.text, facts={"kernel": {"k": k.facts}}, timeout=60, replay=False, advice=False
    )
    assert (found.verdict is Verdict.PROVED) == k.right, found.reason
