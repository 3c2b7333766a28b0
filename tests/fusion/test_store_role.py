"""Fusions whose results a role of its own stores: two chained async roles, synchronized by general passes."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule
from syncverify.fusion.plan import launch_values, plan_of
from syncverify.ir.nodes import Kernel
from syncverify.minimize import minimize
from syncverify.simulate.ir import run

SMALL = Schedule(tile=256, compute_warps=2, stages=2, store="role")


def built(name: str, policy: Policy = Policy.PRACTICAL, *settings: str) -> Kernel:
    plan = plan_of(getattr(examples, name), SMALL.with_settings(settings))
    return plan.build(plan.main, policy)


@pytest.mark.parametrize("policy", Policy)
def test_it_is_proved_for_every_size(policy: Policy) -> None:
    report = check_kernel(built("mul", policy), policy=policy, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize("settings", [(), ("arrive=thread",), ("async_warps=2", "stages=3")])
def test_nothing_can_go(settings: tuple[str, ...]) -> None:
    m = minimize(built("mul", Policy.PRACTICAL, *settings), scope=ScopeKind.EXACT)
    assert m.report.verdict is Verdict.PROVED and m.removed == () and m.kept == ()


def test_values_are_right() -> None:
    kernel = built("mul")
    rng = np.random.default_rng(0)
    size = 256 * 5
    a, b = (rng.standard_normal((1, size)).astype(np.float32) for _ in range(2))
    values = launch_values(examples.mul, kernel, {"R": 1, "C": size}, 2)
    assert np.array_equal(run(kernel, values, {"a": a, "b": b})["out"], a * b)


def test_other_modes_are_refused() -> None:
    for setting in ("mode=pipelined", "prefetch=1"):
        with pytest.raises(InputError, match="store=role"):
            SMALL.with_settings([setting])
