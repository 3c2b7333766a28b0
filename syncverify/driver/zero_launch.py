"""Harm of kernels whose blocks hand something over in global memory: they are executed with zeros in it.

Flags, counters and locks are zero at launch, so what blocks wait for, or decide by, is no input. All blocks
of the grid run, and all memory is zero. A hang counts, and so does a race, if nothing else that the host
leaves in memory steers the kernel (``Inputs.host_steers``): what is seen does not depend on the input.

Example: a lock that a block takes by ``atomicCAS(&lock, 0, 1)`` and never lets go hangs with two blocks.
"""

from __future__ import annotations

from functools import partial
from math import prod

from syncverify.checker.prover.strategy import ReplayEffort
from syncverify.driver.drawn_launch import DRAWS, NoLaunchError, drawn_launch
from syncverify.driver.input_harm import Inputs
from syncverify.driver.ptx_task import CheckTask, compiled
from syncverify.frontends.ptx.analysis.shared_polls import global_polls
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.syntax.nodes import Function, Module
from syncverify.simulate.ptx import Harm
from syncverify.simulate.ptx.confirm import Confirmed, Limits, confirm
from syncverify.simulate.ptx.harm import Kind

#: Clusters of a launch, at most: all of them run.
_MOST = 64


def waits_for_blocks(program: Program) -> bool:
    """Whether blocks wait in global memory for what others write there."""
    return bool(global_polls(program.flow)) or (program.handing is not None and program.handing.waited)


def of_zeros(
    k: CheckTask, module: Module, function: Function, inputs: Inputs, effort: ReplayEffort
) -> Confirmed | None:
    """What executions with zeros in all memory show; None where they say nothing."""
    launch, program = compiled(k)
    clusters = 0 if launch.grid is None else prod(launch.grid) // launch.ctas
    if program.handing is None or not 0 < clusters <= _MOST or inputs.host_steers:
        return None
    system = PtxSystem.fresh(program, launch, 0, 0, k.hash, clusters=clusters)
    limits = Limits(effort.steps, effort.each, effort.executions)
    draw = partial(drawn_launch, module, function, k.facts, system)
    try:
        return confirm(module, function.name, (), "hang", draw, DRAWS, limits, counts=_counts)
    except NoLaunchError:
        return None


def _counts(harm: Harm) -> bool:
    return harm.kind in (Kind.HANG, Kind.RACE)


__all__ = ["of_zeros", "waits_for_blocks"]
