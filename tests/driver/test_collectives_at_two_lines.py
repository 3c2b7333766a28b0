"""Lanes of one warp that meet at two lines (PTX ISA, shfl.sync: by the same qualifiers and the same mask)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import syncverify
from tests.system.small_ptx import Small, read

KERNELS = list(read(Path(__file__).with_name("collectives_at_two_lines.kernels")))
#: What lanes bring each other from two lines is not followed, and no execution of a few inputs does harm that
#: counts: the first three are right, as far as what is loaded allows it.
UNKNOWN = {
    "one side adds",
    "the other side's number is loaded, and places a store",
    "data chooses the other side's number, which places a store",
    "the other side's word, out of shared memory, places a store",
    "the other side's word plus one, out of shared memory, places a store",
}
#: Refuted in strict mode by a rule that no execution bears out.
IN_PRACTICAL_MODE = {"a butterfly on both sides, of which the other side's end differs by lane"}


@pytest.mark.parametrize("policy", ["practical", "strict"])
@pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.name)
def test_verdicts(k: Small, policy: Literal["practical", "strict"]) -> None:
    (report,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, policy=policy, advice=False)
    unknown = k.name in UNKNOWN or (policy == "practical" and k.name in IN_PRACTICAL_MODE)
    assert str(report.verdict) == ("unknown" if unknown else "proved" if k.right else "refuted")


@pytest.mark.parametrize("k", [k for k in KERNELS if not k.right], ids=lambda k: k.name)
def test_the_trusted_kernel_accepts_no_proof_of_a_wrong_one(k: Small) -> None:
    facts = {name: value for name, value in k.facts.items() if name != "grid"}
    (report,) = syncverify.check(
        k.text, facts={"kernel": {"k": facts}}, scope="all", replay=False, advice=False
    )
    assert str(report.verdict) != "proved"
