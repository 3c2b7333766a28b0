"""Inputs that are drawn refute no kernel that is right for data which keeps to its contract.

``contracts.kernels`` (in the form of ``tests.system.small_ptx``) holds kernels that the host's data makes
right: rows of sparse matrices, bins below a bound, permutations, offsets of a scan, places in rings, lengths,
pages, experts, sorted keys, slots. Nobody tells the checker, so ``unknown`` is a right answer for them, and
``refuted`` is none. The wrong ones do harm whatever the data keeps to.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import syncverify
from syncverify.driver.executions.drawn_launch import Contract, kept
from tests.system import small_ptx
from tests.system.small_ptx import Small, read

KERNELS = list(read(Path(__file__).parents[1].joinpath("contracts.kernels")))
#: Right ones that take seconds, for an open number of elements is tried in several sizes.
SLOW = {"below 32", "below 8", "below 16", "no longer than a warp"}
RIGHT = [pytest.param(k, marks=[pytest.mark.slow] * (k.name in SLOW)) for k in KERNELS if k.right]
#: What data decides at a barrier, and places that an atomic gives out.
VOTES = list(read(Path(small_ptx.__file__).with_name("votes_and_slots.kernels")))


def name(k: Small) -> str:
    return f"{k.group}: {k.name}"


def verdict(k: Small, policy: Literal["practical", "strict"] = "practical") -> str:
    facts = {"kernel": {"k": k.facts}}
    report, *_ = syncverify.check(k.text, facts=facts, timeout=60, policy=policy, advice=False)
    return str(report.verdict)


@pytest.mark.parametrize("k", RIGHT, ids=name)
def test_data_that_breaks_a_contract_refutes_nobody(k: Small) -> None:
    assert verdict(k) != "refuted"


@pytest.mark.parametrize("k", [k for k in KERNELS if not k.right], ids=name)
def test_harm_under_every_contract_refutes(k: Small) -> None:
    assert verdict(k) == "refuted"


@pytest.mark.parametrize("k", RIGHT, ids=name)
def test_such_data_refutes_nobody_in_strict_mode(k: Small) -> None:
    assert verdict(k, "strict") != "refuted"


@pytest.mark.parametrize("k", VOTES, ids=name)
def test_strict_mode_asks_inputs_too(k: Small) -> None:
    assert verdict(k, "strict") == ("proved" if k.right else "refuted")


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_contents_keep_to_their_contracts(width: int) -> None:
    def values(contract: Contract) -> list[int]:
        raw = kept(contract, 128, width, 64).view(np.uint8)
        return [int(x) for x in raw.view(f"<u{width}")[:64]]

    assert set(values(Contract.BOUNDED)) == {0}
    assert sorted(values(Contract.UNIQUE)) == list(range(64))
    assert values(Contract.SORTED) == sorted(values(Contract.SORTED))
    assert max(values(Contract.SHORT)) == 3
    rows = values(Contract.PADDED)[:4]
    lengths = {b - a for a, b in pairwise(rows)}
    assert len(lengths) > 1 and all(x % 32 == 0 for x in lengths)
