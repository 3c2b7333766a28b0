"""Kernels of every kind have no synchronization that a proof does without."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind
from syncverify.examples import attention, norms
from syncverify.examples import fusions as examples
from syncverify.fusion import RowSchedule, Tensor, softmax, trace
from syncverify.fusion.column_schedule import ColumnSchedule
from syncverify.fusion.plan import ColumnPlan, Plan, plan_of
from syncverify.fusion.segments import cut
from syncverify.gate.sequence import planned
from syncverify.minimize import minimize
from syncverify.minimize.candidates import synchronizing

X = Tensor("f32", ("R", "C"))
SOFTMAX = trace(lambda x: softmax(x), {"x": X})
SUM = trace(lambda x: x.sum("R"), {"x": X})
COLUMNS = [plan for s in cut(norms.channel_norm) for plan, _ in planned(s)]
#: Plans, and how many synchronizing statements their kernels have.
PLANS: dict[str, tuple[Plan, int]] = {
    "transposed": (plan_of(examples.transposed), 17),
    "halves of rows": (plan_of(examples.rotary_halves), 8),
    "long rows": (plan_of(SOFTMAX, RowSchedule(stream="yes")), 1),
    "rows side by side": (plan_of(SOFTMAX, RowSchedule(512, warps=2, rows=3)), 3),
    "rows with random numbers": (
        plan_of(attention.dropped_softmax, RowSchedule(warps=4, source="direct")), 3,
    ),
    "elements behind the kernel before": (plan_of(examples.mul), 1),
    "strips of columns": (COLUMNS[0], 1),
    "sums across blocks": (ColumnPlan(SUM, ColumnSchedule(across="tma"), True), 5),
    "columns in one block": (COLUMNS[1], 3),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_nothing_can_go(name: str) -> None:
    plan, expected = PLANS[name]
    kernel = plan.build(plan.main, Policy.PRACTICAL)
    assert len(synchronizing(kernel.body)) == expected
    found = minimize(kernel, policy=Policy.PRACTICAL, scope=ScopeKind.EXACT)
    assert found.needed == expected and not found.removed and not found.kept
