"""From problem and schedule to the synchronized kernel: which passes run, in which order."""

from __future__ import annotations

from collections.abc import Callable

from syncverify.diagnostics import Policy
from syncverify.ir.nodes import Kernel
from syncverify.matmul.lower import lower
from syncverify.matmul.problem import Problem
from syncverify.matmul.schedule import Schedule
from syncverify.passes.base import Pass, run
from syncverify.passes.registers import SetRegisters
from syncverify.passes.running import RunningRings
from syncverify.passes.staging import StagedStores
from syncverify.passes.wgmma import (
    ElectLoader,
    InitRings,
    LoadAndMultiply,
    TensorEmptyBarriers,
    TensorFullBarriers,
    WgmmaGroups,
)

#: The pass names, in order.
PASS_NAMES = (
    "load-and-multiply", "running-rings", "full-barriers", "wgmma-groups", "empty-barriers", "staged-stores",
    "elect", "mbarrier-init", "setmaxnreg",
)  # fmt: skip


def passes(problem: Problem, schedule: Schedule, policy: Policy) -> tuple[Pass, ...]:
    """The passes of one compilation, in order."""
    each = "warp" if policy is Policy.STRICT else schedule.arrive
    result: list[Pass] = [
        LoadAndMultiply(schedule.consumers),
        RunningRings(schedule.fitted_stages(schedule.staging(problem.output_sizes))),
        TensorFullBarriers(),
        WgmmaGroups(schedule.pending),
        TensorEmptyBarriers(each),
        StagedStores(schedule.store_slots(problem.output_sizes[0]), policy is Policy.STRICT),
        ElectLoader(),
        InitRings(),
    ]
    if schedule.registers is not None:
        result.append(SetRegisters(*schedule.registers))
    return tuple(result)


def build(
    problem: Problem,
    schedule: Schedule,
    policy: Policy = Policy.PRACTICAL,
    vector: int = 2,
    observe: Callable[[str, Kernel], None] | None = None,
    without: frozenset[str] = frozenset(),
) -> Kernel:
    """The synchronized kernel. ``without`` leaves passes out, for experiments: such a kernel is broken."""
    kernel = lower(problem, schedule, vector)
    if observe is not None:
        observe("lower", kernel)
    return run(kernel, [p for p in passes(problem, schedule, policy) if p.name not in without], observe)


__all__ = ["PASS_NAMES", "build", "passes"]
