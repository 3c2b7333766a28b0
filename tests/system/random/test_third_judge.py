"""The smallest random kernels also go to brute force over their events, lane by lane."""

from collections import Counter

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir.systems import systems
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.model.events import Ev, LaneSplit, System, Unanalysable
from tests.system.oracle.brute import Result, explore
from tests.system.oracle.machine import UnknownEventError
from tests.system.random.generate import policy, program

MAX_LANES = 5
MAX_STATES = 3_000


def settled(system: System) -> System:
    """The system with every class split that its agents ask to split."""
    while True:
        try:
            for agent in system.agents():
                while agent.step()[0] != Ev.EXIT:
                    pass
        except LaneSplit as split:
            system = system.refined(split)
        else:
            return system


def truth(kernel: Kernel, policy: Policy) -> Result | None:
    """What all executions show; None where a kernel is too large, or brute force does not know an event."""
    if kernel.launch.ctas > 1 or kernel.launch.threads > MAX_LANES:
        return None
    found = list(systems(kernel, {}))
    if len(found) != 1 or isinstance(found[0], Unanalysable):
        return None
    assert sum(c.count for c in found[0].info.classes) <= MAX_LANES
    try:
        result = explore(settled(found[0]), policy, MAX_STATES)
    except UnknownEventError:
        return None
    return result if result.complete else None


@pytest.mark.parametrize("block", [0, *(pytest.param(b, marks=pytest.mark.slow) for b in (1, 2, 3))])
def test_brute_force_agrees(block: int) -> None:
    tally: Counter[Verdict] = Counter()
    for seed in range(2_000_000 + 300 * block, 2_000_000 + 300 * block + 300):
        text = program(seed).text()
        (kernel,) = parse(text, "random.syncir")
        result = truth(kernel, policy(seed))
        if result is None:
            continue
        found = check_kernel(kernel, {}, policy(seed))
        harm = bool(result.harms) or (result.mixed and policy(seed) is Policy.STRICT)
        proved_or_warned = {Verdict.PROVED, Verdict.UNKNOWN} if result.mixed else {Verdict.PROVED}
        expected = {Verdict.REFUTED} if harm else proved_or_warned
        assert found.verdict in expected, f"seed {seed}: {found.verdict}, {result}\n{text}"
        tally[found.verdict] += 1
    assert tally[Verdict.PROVED] >= 10 and tally[Verdict.REFUTED] >= 10
