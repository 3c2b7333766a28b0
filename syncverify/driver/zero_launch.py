"""Harm of kernels whose blocks hand something over in global memory: they are executed with zeros in it.

Flags, counters and locks are zero at launch, so what blocks wait for, or decide by, is no input. All blocks
of the grid run, and all memory is zero. A hang counts, and so does a race, if nothing else that the host
leaves in memory steers the kernel (``Inputs.host_steers``): what is seen does not depend on the input.

Where a kernel decides by words behind a pointer that it writes too, the host may have set them: a semaphore
that is 1 while it is free, a token, a mode beside a flag. Harm counts there if it comes with other words too.

Example: a lock that a block takes by ``atomicCAS(&lock, 0, 1)`` and never lets go hangs with two blocks. One
that ``atomicCAS(lock, 1, 0)`` takes, and a store of 1 lets go, hangs with zeros alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from math import prod

from syncverify.base.source import InputError
from syncverify.checker.prover.strategy import ReplayEffort
from syncverify.driver.drawn_launch import DRAWS, NoLaunchError, drawn_launch, set_by_the_host
from syncverify.driver.input_harm import Inputs
from syncverify.driver.ptx_task import CheckTask, compiled
from syncverify.frontends.ptx.analysis.fenced_signals import with_fenced_signals
from syncverify.frontends.ptx.analysis.shared_polls import global_polls
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.small_sizes import some_sizes
from syncverify.frontends.ptx.syntax.nodes import Function, Module
from syncverify.simulate.ptx import Harm, Launch
from syncverify.simulate.ptx.confirm import Confirmed, Limits, confirm
from syncverify.simulate.ptx.harm import OF_CONTENTS, Kind

#: Clusters of an open grid, beside the fewest.
_MORE = 5
#: Clusters of a launch, at most: all of them run.
_MOST = 64
#: Contents of the host's memory that are tried beside zeros.
_CONTENTS = 16


def waits_for_blocks(program: Program) -> bool:
    """Whether blocks wait in global memory for what others write there."""
    return bool(global_polls(program.flow)) or (program.handing is not None and program.handing.waited)


def of_zeros(
    k: CheckTask, module: Module, function: Function, inputs: Inputs, effort: ReplayEffort
) -> Confirmed | None:
    """What executions with zeros in all memory show; None where they say nothing. Of an open grid a few small
    ones are executed."""
    if inputs.program.handing is None or inputs.host_steers:
        return None
    found: Confirmed | None = None
    for facts in _launches(k.facts):
        found = _of_one(k.at(facts), module, function, inputs, effort)
        if found is not None and found.harm is not None:
            break
    return found


def _launches(facts: PtxFacts) -> Iterator[PtxFacts]:
    """The launch; of an open grid a few, with all blocks in one row: nothing says that others are meant."""
    if all(isinstance(x, int) for x in facts.grid):
        yield facts
        return
    row = {name: 1 for name in ("grid.y", "grid.z") if name in facts.symbols()}
    in_row = facts.bind(row) if row else facts
    yield from islice(some_sizes(in_row), 1)
    yield from _of_more_blocks(in_row)
    yield from islice(some_sizes(in_row), 1, None)


def _of_more_blocks(facts: PtxFacts) -> Iterator[PtxFacts]:
    """A launch of some clusters more, if the facts allow it: two blocks may be as many as the text happens to
    say. Example: ``if (atomicAdd(&done, 1) == 1) sum the parts;``."""
    if "grid.x" not in facts.symbols():
        return
    try:
        more = facts.bind({"grid.x": _MORE * (facts.cluster or (1, 1, 1))[0]})
    except InputError:
        return
    yield from islice(some_sizes(more), 1) if more.symbols() else (more,)


def _of_one(
    k: CheckTask, module: Module, function: Function, inputs: Inputs, effort: ReplayEffort
) -> Confirmed | None:
    """The same of one launch."""
    of, program = compiled(k)
    clusters = 0 if of.grid is None else prod(of.grid) // of.ctas
    if program.handing is None or not 0 < clusters <= _MOST:
        return None
    system = PtxSystem.fresh(program, of, 0, 0, k.hash, clusters=clusters)
    limits = Limits(effort.steps, effort.each, effort.executions)
    function, signals = with_fenced_signals(function)  # in practical mode they release (K26)
    if signals:
        functions = tuple(function if f.name == function.name else f for f in module.functions)
        module = replace(module, functions=functions)

    def search(draw: Callable[[int], Launch], launches: int) -> Confirmed:
        return confirm(module, function.name, (), "hang", draw, launches, limits, counts=_counts)

    try:
        found = search(partial(drawn_launch, module, function, k.facts, system), DRAWS)
        if found.harm is None or not inputs.pointers_steer:
            return found
        others = (set_by_the_host(module, function, k.facts, system, n) for n in range(_CONTENTS))
        return found if all(search([x].__getitem__, 1).harm for x in others) else None
    except NoLaunchError:
        return None


def _counts(harm: Harm) -> bool:
    return harm.kind in (Kind.HANG, Kind.RACE) or harm.section in OF_CONTENTS


__all__ = ["of_zeros", "waits_for_blocks"]
