"""The checker against brute force over random event lists, in both policies."""

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.exact_check import check
from tests.fixtures.events import system
from tests.system.oracle.brute import explore
from tests.system.oracle.programs import random_program


def disagreement(text: str, policy: Policy) -> str | None:
    """What is wrong with the checker's verdict on one program; None if nothing is."""
    truth = explore(system(text), policy)
    outcome = check(system(text), policy)
    harm, mixed = bool(truth.harms), truth.mixed
    expected = {Verdict.REFUTED} if harm else {Verdict.PROVED}
    if not harm and mixed:  # no execution does harm: proved only where no wait looks at the phases that mix
        expected = {Verdict.REFUTED} if policy is Policy.STRICT else {Verdict.UNKNOWN, Verdict.PROVED}
        if policy is Policy.PRACTICAL and not outcome.diagnostics:
            expected = {Verdict.UNKNOWN}
    if outcome.verdict in expected:
        return None
    rules = [d.rule for d in outcome.diagnostics]
    return f"{text!r} {policy}: {outcome.verdict} {rules} {outcome.reason}, brute force: {truth}"


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize(
    "block", [*range(4), *(pytest.param(b, marks=pytest.mark.slow) for b in range(4, 8))]
)
def test_random_event_lists(block: int, policy: Policy) -> None:
    found = [disagreement(random_program(seed), policy) for seed in range(100 * block, 100 * block + 100)]
    assert not [d for d in found if d is not None]


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("b=9 :: [2]a.nc(b) a(b) | [2]a.nc(b) a(b) | a(b)", True),
        ("b=7 :: [2]a.nc(b) a.nc(b) a(b) | a(b)", True),
        ("b=5 :: [2]a(b) a.nc(b) | a(b)", False),
        ("b=5 :: [2]a.nc(b) a(b) | a.nc(b)", False),
        ("b=4 :: [2]a.nc(b) | a(b) a(b)", False),
        ("b=4 :: [2]a.nc(b) a(b) | a(b)", False),
    ],
)
def test_each_lane_arrives_after_its_own_no_complete(text: str, right: bool, policy: Policy) -> None:
    assert disagreement(text, policy) is None
    assert (check(system(text), policy).verdict is Verdict.PROVED) == right
