"""Words asked once, places of data, turns and pointers from memory: right kernels are proved, of wrong ones
none is, or the report names what it takes for granted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from tests.sweeps import part_of
from tests.system.small_ptx import Small, read

KERNELS = list(read(Path(__file__).parents[1].joinpath("places_in_no_order.kernels")))
LOADED = list(read(Path(__file__).parents[1].joinpath("loaded_pointers.kernels")))


def checked(k: Small) -> KernelReport:
    (found,) = syncverify.check(
        k.text, facts={"kernel": {"k": k.facts}}, timeout=60, replay=False, advice=False
    )
    return found


def name(k: Small) -> str:
    return f"{k.group}: {k.name}"


@pytest.mark.parametrize("k", part_of(KERNELS, 5), ids=name)
def test_verdicts(k: Small) -> None:
    found = checked(k)
    assert (found.verdict is Verdict.PROVED) == k.right, found.reason


def beside_a_known_pointer(k: Small) -> Small:
    """The kernel with a further parameter, of which the launch file says what it leads to."""
    head, body = k.text.split(")\n{", 1)
    n = head.count(".param ")
    facts = {**k.facts, "params": {**k.facts["params"], str(n): {"ptr": "table", "holds": [{"i32": 3}]}}}
    return replace(k, facts=facts, lines=f"{head}, .param .u64 k_param_{n})\n{{{body}".split("\n"), edits=[])


@pytest.mark.parametrize("k", part_of(KERNELS, 12), ids=name)
def test_what_another_pointer_leads_to_decides_nothing(k: Small) -> None:
    test_verdicts(beside_a_known_pointer(k))


@pytest.mark.slow
@pytest.mark.parametrize("k", KERNELS, ids=name)
def test_verdicts_of_all(k: Small) -> None:
    test_verdicts(k)
    test_verdicts(beside_a_known_pointer(k))


@pytest.mark.parametrize("k", LOADED, ids=name)
def test_what_a_loaded_pointer_may_lead_to_is_named(k: Small) -> None:
    found = checked(k)
    assert found.verdict is Verdict.PROVED, found.reason
    if not k.right:
        assert any("through a pointer" in x for x in found.assumptions)
        assert any("place of a pointer" in x for x in found.assumptions)
