"""What each rule of the kernel is for: without it a protocol that goes wrong has a proof, made for it."""

from __future__ import annotations

import random

import pytest

from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from tests.checker.kernel.ablation import RULES
from tests.checker.kernel.exposures import EXPOSURES, exposed
from tests.checker.kernel.sweep import wrong_at

CASES = [(rule, k) for rule, some in EXPOSURES.items() for k in range(len(some))]


def test_every_rule_keeps_something_wrong_out() -> None:
    assert set(RULES) - {"nothing is left out"} == set(EXPOSURES)
    assert all(EXPOSURES.values())


@pytest.mark.parametrize(("rule", "which"), CASES)
def test_a_rule_alone_keeps_a_wrong_protocol_out(rule: str, which: int) -> None:
    x = EXPOSURES[rule][which]
    proof, answer = exposed(RULES[rule], x)
    assert isinstance(answer, Accepted), str(answer)
    assert isinstance(accept(x.protocol, proof), Rejected)
    assert wrong_at(x.protocol, random.Random(1)) is not None
