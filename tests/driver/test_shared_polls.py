"""Waits in shared memory: what ends is proved, with an assumption; refuted is what does harm."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from tests.system.small_ptx import Small, read

KERNELS = list(read(Path(__file__).with_name("shared_polls.kernels")))


def name(k: Small) -> str:
    return f"{k.group}: {k.name}"


def report(k: Small) -> KernelReport:
    (found,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, timeout=60, advice=False)
    return found


@pytest.mark.parametrize("k", [k for k in KERNELS if k.right], ids=name)
def test_that_a_wait_ends_is_assumed(k: Small) -> None:
    found = report(k)
    assert found.verdict is Verdict.PROVED
    assert any("other threads of the block go on" in x for x in found.assumptions)


@pytest.mark.parametrize("k", [k for k in KERNELS if not k.right], ids=name)
def test_an_execution_does_harm(k: Small) -> None:
    assert report(k).verdict is Verdict.REFUTED
