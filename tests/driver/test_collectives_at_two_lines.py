"""Lanes of one warp that meet at two lines (PTX ISA, shfl.sync: by the same qualifiers and the same mask)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import syncverify
from tests.system.small_ptx import Small, read

KERNELS = list(read(Path(__file__).with_name("collectives_at_two_lines.kernels")))
#: What lanes bring each other from two lines is not followed, and no execution of a few inputs does harm.
UNKNOWN = "a butterfly on both sides, of which the other side's end differs by lane"


@pytest.mark.parametrize("policy", ["practical", "strict"])
@pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.name)
def test_verdicts(k: Small, policy: Literal["practical", "strict"]) -> None:
    (report,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, policy=policy, advice=False)
    unknown = k.name == UNKNOWN and policy == "practical"
    assert str(report.verdict) == ("proved" if k.right else "unknown" if unknown else "refuted")


@pytest.mark.parametrize("k", [k for k in KERNELS if not k.right], ids=lambda k: k.name)
def test_the_trusted_kernel_accepts_no_proof_of_a_wrong_one(k: Small) -> None:
    facts = {name: value for name, value in k.facts.items() if name != "grid"}
    (report,) = syncverify.check(
        k.text, facts={"kernel": {"k": facts}}, scope="all", replay=False, advice=False
    )
    assert str(report.verdict) != "proved"
