"""Lanes of one warp that meet at two lines (PTX ISA, shfl.sync: by the same qualifiers and the same mask)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import syncverify
from tests.system.small_ptx import Small, read

KERNELS = list(read(Path(__file__).with_name("collectives_at_two_lines.kernels")))
#: What lanes bring each other from two lines is not followed, and no execution of a few inputs does harm that
#: counts; in strict mode nothing is executed. The first of these is right.
UNKNOWN = {
    "one side adds",
    "an exchange on both sides, that places a store by the other side's number",
    "a sum by redux on both sides, that places a store by the other side's number",
    "the sum places a store outside",
    "the other side's word, out of shared memory, places a store",
    "the other side's word plus one, out of shared memory, places a store",
}
BY_POLICY = {
    "practical": {
        "a butterfly on both sides, of which the other side's end differs by lane",
        "one side's sum is stored to one place by lanes that hold different ones",
        "one side's sum is stored to one place by two lanes that hold different ones",
    },
    "strict": {
        "ballots on both sides, of which one is a mask",
        "matches on both sides, of which one is a mask",
        "a vote on both sides, that lets a lane pass by the other side's predicate",
        "the sum of one side decides who comes to a barrier",
        "the ballot's complement of one side is a mask",
    },
}


@pytest.mark.parametrize("policy", ["practical", "strict"])
@pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.name)
def test_verdicts(k: Small, policy: Literal["practical", "strict"]) -> None:
    (report,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, policy=policy, advice=False)
    unknown = k.name in UNKNOWN | BY_POLICY[policy]
    assert str(report.verdict) == ("unknown" if unknown else "proved" if k.right else "refuted")


@pytest.mark.parametrize("k", [k for k in KERNELS if not k.right], ids=lambda k: k.name)
def test_the_trusted_kernel_accepts_no_proof_of_a_wrong_one(k: Small) -> None:
    facts = {name: value for name, value in k.facts.items() if name != "grid"}
    (report,) = syncverify.check(
        k.text, facts={"kernel": {"k": facts}}, scope="all", replay=False, advice=False
    )
    assert str(report.verdict) != "proved"
