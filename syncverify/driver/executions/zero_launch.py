"""Harm of kernels whose blocks hand something over in global memory: they are executed with zeros in it.

Flags, counters and locks are zero at launch, so what blocks wait for, or decide by, is no input. All blocks
of the grid run, and all memory is zero. What the kernel reads alone holds other words in every second draw,
for blocks that share a place write the same value of zeros. A hang counts, and so does a race, if nothing
else that the host leaves in memory steers the kernel (``Inputs.host_steers``): what is seen does not depend
on the input.

Where a kernel decides by words behind a pointer that it writes too, the host may have set them: a semaphore
that is 1 while it is free, a token, a mode beside a flag. Harm counts there if it comes with other words too.

What executions say is one of three: there is harm, some have ended without any, or none says anything.
A proof that rests on zeros is none in the third case. Nor is it where the host steers the kernel and
they show harm: that may be of a host that means something else.

So are kernels that count their blocks with nothing that orders memory by the count. Of these a race counts
whose write or read is the one that nothing orders.

Example: a lock that a block takes by ``atomicCAS(&lock, 0, 1)`` and never lets go hangs with two blocks. One
that ``atomicCAS(lock, 1, 0)`` takes, and a store of 1 lets go, hangs with zeros alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import prod

from syncverify.checker.prover.strategy import ReplayEffort
from syncverify.driver.executions.drawn_launch import DRAWS, NoLaunchError, launch_with_data, set_by_the_host
from syncverify.driver.executions.input_harm import Inputs
from syncverify.driver.ptx.task import CheckTask, compiled
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import (
    unacquired_read,
    unfenced_count,
    used_counts,
)
from syncverify.frontends.ptx.analysis.polls.fenced_signals import with_fenced_signals
from syncverify.frontends.ptx.analysis.polls.shared_polls import global_polls
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.launch.facts import Grid, PtxFacts
from syncverify.frontends.ptx.launch.meant_launches import asked_launches, asks_extents
from syncverify.frontends.ptx.syntax.nodes import Function, Module
from syncverify.simulate.ptx import Harm, Launch
from syncverify.simulate.ptx.confirm import Confirmed, Limits, confirm
from syncverify.simulate.ptx.harm import OF_CONTENTS, Kind
from syncverify.simulate.ptx.parameter_uses import pointers

#: Clusters of a launch, at most: all of them run. More than ``_SOME`` take more warp instructions.
_MOST, _SOME = 256, 64
_LARGE = Limits(600_000, 300_000, 6)
#: Contents of the host's memory that are tried beside zeros.
_CONTENTS = 16


def waits_for_blocks(program: Program) -> bool:
    """Whether blocks wait in global memory for what others write there."""
    return bool(global_polls(program.flow)) or (program.handing is not None and program.handing.waited)


@dataclass(frozen=True, slots=True)
class OfZeros:
    """Harm of an execution with zeros in memory. ``refutes``: it is harm of what the kernel is meant for;
    else it only contradicts a proof. ``grid``: that of the launch, where nothing gives it."""

    found: Confirmed
    refutes: bool
    grid: Grid | None


@dataclass(frozen=True, slots=True)
class NotExecuted:
    """No execution with zeros in memory was made, or none came to its end: ``why``."""

    why: str


def of_zeros(
    k: CheckTask, module: Module, inputs: Inputs, effort: ReplayEffort, *, proved: bool
) -> OfZeros | NotExecuted | None:
    """Harm that executions with zeros in all memory show; None where some end, and show none. Of an open grid
    launches are executed that the kernel may be meant for (``meant_launches``). ``proved``: any harm is asked
    for."""
    if inputs.program.handing is None and not _unpublished(inputs.program):
        return NotExecuted("nothing that blocks hand over is known")
    steered = NotExecuted("what the host leaves in memory steers the kernel")
    if inputs.host_steers and not proved:
        return steered
    function = next(f for f in module.functions if f.name == k.function.name and f.entry)
    given = all(isinstance(e, int) for e in k.facts.grid)
    any_refutes = given or asks_extents(function)
    index = {p.name: n for n, p in enumerate(function.params)}
    leads = {k.facts.leaf(index[p], at, 8).name for p, at in pointers(function)} - {""}
    first: OfZeros | None = None
    right, ended, why = False, False, "the facts allow no launch that can be made"
    for facts in asked_launches(k.facts, function, leads):
        made = _of_one(k.at(facts), module, function, inputs, effort)
        if isinstance(made, NotExecuted):
            why = made.why
            continue
        found, with_others = made
        if found.harm is None:
            right, ended, why = right or found.ran, ended or found.ended > 0, found.why or why
        elif inputs.host_steers:
            return steered
        elif first is None or (with_others and not first.refutes):
            first = OfZeros(found, with_others, None if given else facts.grid)
        if first is not None and any_refutes and (first.refutes or proved):
            return first
        if right and not any_refutes and (not proved or first is not None):
            break
    if first is None:
        return None if right or ended else NotExecuted(why)
    return first if not right or any_refutes else replace(first, refutes=False)


def _of_one(
    k: CheckTask, module: Module, function: Function, inputs: Inputs, effort: ReplayEffort
) -> tuple[Confirmed, bool] | NotExecuted:
    """The same of one launch, and whether harm comes with other words behind pointers that steer, too."""
    of, program = compiled(k)
    clusters = 0 if of.grid is None else prod(of.grid) // of.ctas
    lines = _unpublished(program) if program.handing is None else frozenset[int]()
    if (program.handing is None and not lines) or not clusters:
        return NotExecuted("the launch has no number of blocks")
    if clusters > _MOST:
        return NotExecuted(f"the launch has more than {_MOST} clusters")
    system = PtxSystem.fresh(program, of, 0, source_hash=k.hash, clusters=clusters)
    limits = _LARGE if clusters > _SOME else Limits(effort.steps, effort.each, effort.executions)
    function, signals = with_fenced_signals(function)  # in practical mode they release (K26)
    if signals:
        functions = tuple(function if f.name == function.name else f for f in module.functions)
        module = replace(module, functions=functions)

    held = frozenset(program.body[k].line for k in used_counts(program.flow))

    def counts(harm: Harm) -> bool:
        return _is_race_at(harm, lines) if lines else _counts(harm)

    def search(draw: Callable[[int], Launch], launches: int) -> Confirmed:
        return confirm(module, function.name, (), "hang", draw, launches, limits, counts=counts, held=held)

    try:
        data = inputs.read_alone(_memory_names(function, k.facts))
        found = search(launch_with_data(module, function, k.facts, system, data), DRAWS)
        if found.harm is None or not inputs.pointers_steer:
            return found, True
        others = (set_by_the_host(module, function, k.facts, system, n) for n in range(_CONTENTS))
        return found, all(search([x].__getitem__, 1).harm for x in others)
    except NoLaunchError:
        return NotExecuted("no launch meets the facts")


def _memory_names(function: Function, facts: PtxFacts) -> dict[str, str]:
    """The names of what parameters lead to, where the launch file gives some."""
    leaves = ((p.name, leaf) for p, some in zip(function.params, facts.params, strict=False) for leaf in some)
    return {f"{name}+{leaf.offset}": leaf.name for name, leaf in leaves if leaf.name}


def _unpublished(program: Program) -> frozenset[int]:
    """The lines of what blocks that count themselves write, or read, and the count does not order.
    No part of such a kernel releases or acquires, so that it hands nothing over; the last block reads it."""
    flow, origins, counts = program.flow, program.origins, used_counts(program.flow)
    found = (ask(flow, counts, origins, certain=True) for ask in (unfenced_count, unacquired_read))
    return frozenset(program.body[k].line for k in found if k is not None)


def _is_race_at(harm: Harm, lines: Collection[int]) -> bool:
    other = () if harm.other is None else (harm.other.line,)
    return harm.kind is Kind.RACE and any(line in lines for line in (harm.where.line, *other))


def _counts(harm: Harm) -> bool:
    return harm.kind in (Kind.HANG, Kind.RACE) or harm.section in OF_CONTENTS


__all__ = ["NotExecuted", "OfZeros", "of_zeros", "waits_for_blocks"]
