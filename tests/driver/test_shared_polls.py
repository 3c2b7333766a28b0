"""Waits in shared memory: locks are never proved; refuted is what does harm in an execution."""

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
    (found,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, timeout=60)
    return found


def test_that_a_flag_ends_a_wait() -> None:
    (k,) = (k for k in KERNELS if k.right and k.group == "flag")
    found = report(k)
    assert found.verdict is Verdict.PROVED
    assert any("other threads of the block go on" in x for x in found.assumptions)


@pytest.mark.parametrize("k", [k for k in KERNELS if k.right and k.group != "flag"], ids=name)
def test_that_a_wait_ends_is_not_known(k: Small) -> None:
    found = report(k)
    assert found.verdict is Verdict.UNKNOWN
    assert "waits in shared memory" in str(found.reason)


@pytest.mark.parametrize("k", [k for k in KERNELS if not k.right], ids=name)
def test_an_execution_does_harm(k: Small) -> None:
    assert report(k).verdict is Verdict.REFUTED
