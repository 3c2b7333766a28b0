"""From problem and schedule to the synchronized kernel: which passes run, in which order."""

from __future__ import annotations

from collections.abc import Callable

from syncverify.base.diagnostics import Policy
from syncverify.ir.nodes import DTYPE_BYTES, Kernel
from syncverify.matmul import split, stream
from syncverify.matmul.lower import lower, stages_of
from syncverify.matmul.pingpong import TakeTurns
from syncverify.matmul.problem import Problem
from syncverify.matmul.schedule import Schedule
from syncverify.passes.base import Pass, run
from syncverify.passes.grid import DependentLaunch
from syncverify.passes.partial_sum_semaphores import HandOver
from syncverify.passes.partial_sums import PartialSums
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
    "partial-sums", "elect", "mbarrier-init", "take-turns",
    "dependent-launch", "setmaxnreg",
)  # fmt: skip


def passes(problem: Problem, schedule: Schedule, policy: Policy) -> tuple[Pass, ...]:
    """The passes of one compilation, in order."""
    # every warp has read for itself what goes through a prologue
    each = "warp" if policy is Policy.STRICT or problem.prologue else schedule.arrive
    stages = stages_of(problem, schedule)
    result: list[Pass] = [
        LoadAndMultiply(schedule.sharing),
        RunningRings(stages),
        TensorFullBarriers(),
        WgmmaGroups(schedule.pending),
        TensorEmptyBarriers(each, policy is Policy.STRICT),
        StagedStores(schedule.store_slots(max(problem.output_sizes)), policy is Policy.STRICT),
        *_sums(problem, schedule, policy),
        ElectLoader(),
        InitRings(),
        *([TakeTurns(stages, schedule.laps)] if schedule.pingpong else []),
        *([DependentLaunch("start")] if schedule.dependent else []),
    ]
    if schedule.registers is not None:
        result.append(SetRegisters(*schedule.registers, schedule.resident))
    return tuple(result)


def _sums(problem: Problem, schedule: Schedule, policy: Policy) -> list[Pass]:
    """What orders partial sums, if there are any."""
    if schedule.split_k == 1:
        return []
    if not schedule.streams:
        staged = schedule.store == "tma" and schedule.persistent
        return [HandOver(split.SUMS, *split.cells(schedule), staged, policy is Policy.STRICT)]
    return [_partial_sums(problem, schedule, policy)]


def _partial_sums(problem: Problem, schedule: Schedule, policy: Policy) -> PartialSums:
    """With staged results the buffer of the widest output serves for partial sums, too: it has their size."""
    staged = schedule.store == "tma"
    widest = max(problem.epilogue.outputs, key=lambda o: DTYPE_BYTES[o.dtype]).name
    return PartialSums(
        stream.cell(schedule),
        stream.BEHIND,
        schedule.sums == "ordered" and schedule.split_k > 2,
        schedule.store_slots(max(problem.output_sizes)) if staged else 2,
        f"{widest}_tile" if staged else None,
        policy is Policy.STRICT,
    )


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
