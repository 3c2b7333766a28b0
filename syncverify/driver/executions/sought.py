"""Harm of kernels that data leaves undecided: the second reader executes them on inputs that are drawn.

A branch on what a kernel loads may part threads that must meet, or let one of them access what another one
writes. So may a register that nothing has written: it holds any bits. Where no proof is found, some input may
show it: memory behind pointers of which nothing is said is an input, and any input counts. Each draw fills
each buffer with zeros, with one constant that the kernel compares with, or with words of which some are such
constants.

Which harm counts says ``driver.executions.input_harm``. Where data places an access, harm has to come under
each contract that such data may keep to (``drawn_launch.Contract``): with all numbers 0, with neighbours that
change places, with ascending ones. A kernel whose blocks hand something over in global memory is executed
with zeros there (``driver.executions.zero_launch``), and one that makes tensor maps with those that are given
(``driver.ptx.made_maps``): of the latter nothing is proved unless an execution ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache, partial

from syncverify.base.deadline import OutOfBudgetError
from syncverify.base.diagnostics import (
    Diagnostic,
    KernelReport,
    Label,
    Replay,
    Replayed,
    Severity,
    Verdict,
)
from syncverify.base.faults import do_without
from syncverify.base.reason import Cause, Reason, causes_of
from syncverify.base.source import Span
from syncverify.checker.prover.strategy import SEARCH, ReplayEffort
from syncverify.driver.executions.drawn_launch import (
    DRAWS,
    Contract,
    Keeping,
    NoLaunchError,
    drawn_launch,
    input_keeping,
)
from syncverify.driver.executions.executed_text import executed
from syncverify.driver.executions.input_harm import Inputs
from syncverify.driver.executions.zero_launch import NotExecuted, OfZeros, of_zeros, waits_for_blocks
from syncverify.driver.ptx.assumptions import ZERO_FLAGS
from syncverify.driver.ptx.made_maps import made_otherwise
from syncverify.driver.ptx.task import CheckTask, compiled
from syncverify.driver.reports.capture import faulted, of_fault
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import (
    UnorderedCount,
    unordered_count,
    used_counts,
)
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.syntax.nodes import Module
from syncverify.simulate.ptx import Harm, Launch
from syncverify.simulate.ptx.confirm import Confirmed, Limits, confirm
from syncverify.simulate.ptx.harm import Kind

#: What decides where a search may help; and where it may for races that data places.
_BY_DATA = frozenset({Cause.DATA, Cause.GLOBAL_DATA, Cause.SHARED_CONTENTS, Cause.UNSET})
_BY_PLACES = frozenset({Cause.NO_PROOF, Cause.MISSING_FACT, Cause.NEEDS_NUMBER})
#: Collectives of a warp: whatever value they exchange, who takes part is what counts.
_COLLECTIVE = frozenset({"shfl", "vote", "match", "redux", "activemask"})
#: Launches that are drawn: of a long kernel fewer, for each is loaded.
_DRAWS, _LONG = 24, 2000
#: Executions of a kernel that makes tensor maps.
_OF_MADE_MAPS = 2
_BARRIERS = frozenset({"bar", "barrier"})
_WRITES = frozenset({"st", "red", "atom", "stmatrix", "cp"})
#: Kinds of harm in a sentence.
_BROUGHT = {
    Kind.RACE: "a race",
    Kind.STALE: "stale bytes",
    Kind.HANG: "a hang",
    Kind.UNDEFINED: "undefined behaviour",
    Kind.OUTSIDE: "an access outside of its variable",
    Kind.TRAP: "a trap",
}


def by_data(report: KernelReport) -> bool:
    """Whether data leaves a kernel undecided, or may: where a size is open, data may place an access too."""
    causes = causes_of(report.reason)
    return bool(causes & _BY_DATA) or (bool(causes & _BY_PLACES) and Cause.MISSING_BOX not in causes)


def placed_by_data(k: CheckTask, lines: Collection[int]) -> bool:
    """Whether data places an access of some lines."""
    launch, program = compiled(k)
    return Inputs(program, launch.block).places_some(lines)


def sought(report: KernelReport, module: Module, effort: ReplayEffort = SEARCH) -> KernelReport:
    """An undecided report, refuted if an execution on a drawn input does harm that the input explains.

    So is a proof that leaves out what blocks count in global memory, if zeros there bring harm. A proof whose
    search fails is none. Harm of an execution is harm in each mode.
    """
    k = report.undecided if report.doubted is None else report.doubted
    proved = report.verdict is Verdict.PROVED
    if report.verdict is Verdict.REFUTED or k is None or k.facts.block is None:
        return report
    start = time.perf_counter()
    module = executed(module, k.function.name, report.policy)
    zeros, made = None, False
    try:
        seen = _of_zeros(k, module, effort, proved=proved)
        if proved and isinstance(seen, NotExecuted) and ZERO_FLAGS in report.assumptions:
            return _no_zeros(replace(report, seconds=report.seconds + time.perf_counter() - start), seen)
        zeros = None if isinstance(seen, NotExecuted) else seen
        if proved and zeros is not None and not zeros.refutes:
            seconds = report.seconds + time.perf_counter() - start
            return _contradicted(replace(report, seconds=seconds), zeros, module, k)
        asked = by_data(report) and not proved
        zeros = zeros if zeros is not None and zeros.refutes else None
        made = proved and zeros is None and made_otherwise(k)
        by_input = _by_input(report, k, module, effort) if asked and zeros is None else None
        found = zeros.found if zeros is not None else _of_made_maps(k, module, effort) if made else by_input
    except (OutOfBudgetError, MemoryError):
        raise
    except Exception as e:  # an undecided report stays what it is, whatever its judge cannot do
        do_without(e)
        if proved:
            seconds = report.seconds + time.perf_counter() - start
            return faulted(replace(report, seconds=seconds), of_fault(e), k.span)
        found = None
    seconds = report.seconds + time.perf_counter() - start
    if made and (found is None or (found.harm is None and not found.ended)):
        return _not_ended(replace(report, seconds=seconds), found)
    if found is None or found.harm is None:
        return replace(report, seconds=seconds)
    harm, how = found.harm, found.how
    what, memory = "some input", "on an input that was drawn"
    if made:
        what, memory = (
            "with the tensor maps that are given, an execution",
            "with the tensor maps that are given",
        )
    elif zeros is not None:
        what, memory = _executed(zeros), f"with zeros in memory{_at_grid(zeros)}"
    first = _finding(harm, module, k, what)
    # What bytes imply of maps that the kernel makes is not what they are.
    implied = k.boxes.latest.assumptions(k.module.path) if made and k.boxes is not None else []
    granted = dict.fromkeys(
        (*(a for a in report.assumptions if a not in implied), *((ZERO_FLAGS,) if zeros else ()))
    )
    return replace(
        report,
        verdict=Verdict.REFUTED,
        reason=None,
        seconds=seconds,
        diagnostics=(first, *(d for d in report.diagnostics if d.rule != "SV902")),
        replay=Replay(Replayed.REPRODUCED, f"{harm.kind.value}, under {how}, {memory}"),
        assumptions=tuple(granted),
    )


def _no_zeros(report: KernelReport, none: NotExecuted) -> KernelReport:
    """A proof that rests on zeros in memory, of which no execution says that they bring no harm."""
    text = f"an execution with zeros in memory may contradict the proof, and none came to its end: {none.why}"
    why = Reason(text, Cause.UNFINISHED)
    return replace(report, verdict=Verdict.UNKNOWN, reason=why, proof=None)


def _of_zeros(
    k: CheckTask, module: Module, effort: ReplayEffort, *, proved: bool
) -> OfZeros | NotExecuted | None:
    """Harm that blocks do which hand something over in memory that is zero at launch."""
    launch, program = compiled(k)
    return of_zeros(k, module, Inputs(program, launch.block), effort, proved=proved)


def _of_made_maps(k: CheckTask, module: Module, effort: ReplayEffort) -> Confirmed | None:
    """A hang of an execution in which the kernel makes its maps of those that are given: a phase for which
    other bytes are announced hangs in each."""
    launch, program = compiled(k)
    system = PtxSystem.fresh(program, launch, None, source_hash=k.hash)
    function = next(f for f in module.functions if f.name == k.function.name and f.entry)
    limits = Limits(effort.steps, effort.each, _OF_MADE_MAPS)
    draw = partial(drawn_launch, module, function, k.facts, system)
    try:
        return confirm(
            module,
            function.name,
            (),
            "hang",
            draw,
            _OF_MADE_MAPS,
            limits,
            counts=lambda h: h.kind is Kind.HANG,
        )
    except NoLaunchError:
        return None


def _not_ended(report: KernelReport, found: Confirmed | None) -> KernelReport:
    """A proof by boxes that were inferred, of which no execution says that they are those of the maps."""
    text = "no execution with the tensor maps that are given came to its end"
    why = "no launch can be made" if found is None else found.why
    reason = Reason(f"{text}: {why}", Cause.UNFINISHED)
    return replace(report, verdict=Verdict.UNKNOWN, reason=reason, proof=None)


def _executed(zeros: OfZeros) -> str:
    return f"with zeros in memory, an execution{_at_grid(zeros)}"


def _at_grid(zeros: OfZeros) -> str:
    """The grid of the launch, where the launch file leaves it open."""
    return "" if zeros.grid is None else f" of grid = [{', '.join(map(str, zeros.grid))}]"


def _contradicted(report: KernelReport, zeros: OfZeros, module: Module, k: CheckTask) -> KernelReport:
    """A proof that an execution contradicts, of a launch for which the kernel need not be meant."""
    assert zeros.found.harm is not None
    found = replace(_finding(zeros.found.harm, module, k, _executed(zeros)), severity=Severity.WARNING)
    text = f"the kernel is right for some launches, and not for all: {found.message}"
    why = Reason(f"{text}: give grid in a launch file", Cause.MISSING_FACT)
    return replace(
        report,
        verdict=Verdict.UNKNOWN,
        reason=why,
        proof=None,
        diagnostics=(found, *(d for d in report.diagnostics if d.rule != "SV902")),
    )


def _by_input(report: KernelReport, k: CheckTask, module: Module, effort: ReplayEffort) -> Confirmed | None:
    """Harm that some input does, which counts; if data only places accesses, races of these alone."""
    placed = not causes_of(report.reason) & _BY_DATA
    launch, program = compiled(k)
    if waits_for_blocks(program):
        return None  # what they wait for is no input
    system = PtxSystem.fresh(program, launch, None, source_hash=k.hash)
    function = next(f for f in module.functions if f.name == k.function.name and f.entry)
    inputs = Inputs(program, launch.block)
    limits = Limits(effort.steps, effort.each, effort.executions)
    draws = _DRAWS if len(function.body) < _LONG else DRAWS

    def search(keeping: Keeping, limits: Limits, counts: Callable[[Harm], bool]) -> Confirmed:
        draw = input_keeping(module, function, k.facts, system, keeping)
        if inputs.leave_arrays:
            draw = partial(_with_gaps, draw)
        return confirm(module, function.name, (), "ub", draw, draws, limits, counts=counts)

    of_the_host = inputs.of_the_host()
    if placed and (of_the_host or not inputs.numbers):
        return None
    try:
        if placed:
            return _under_contracts(inputs, search, placed=placed)
        if of_the_host:  # a launch file may say what they hold, but rows have some length
            long = Keeping(Contract.LONG, inputs.numbers)
            return search(long, _KEEPING, inputs.in_one_row) if inputs.only_bounds(of_the_host) else None
        found = search(Keeping(), limits, lambda harm: inputs.contracts(harm) == frozenset())
        return found if found.harm is not None else _under_contracts(inputs, search, placed=placed)
    except NoLaunchError:
        return None


def _with_gaps(draw: Callable[[int], Launch], number: int) -> Launch:
    """A launch that was drawn, with variables that stand apart."""
    return replace(draw(number), apart=True)


#: Executions under a contract, and the warp instructions that they may take.
_KEEPING = Limits(20_000, 20_000, 8)
_Search = Callable[[Keeping, Limits, Callable[[Harm], bool]], Confirmed]


def _under_contracts(inputs: Inputs, search: _Search, *, placed: bool) -> Confirmed | None:
    """Harm that comes whatever contract the data keeps to that places accesses, or bounds rows. ``placed``:
    only races of such accesses."""

    def counts(harm: Harm) -> bool:
        contracts = inputs.contracts(harm)
        return bool(contracts) and harm.kind is Kind.RACE if placed else contracts is not None

    @cache
    def under(contract: Contract) -> Confirmed:
        keeping = Keeping(contract, inputs.numbers)
        return search(keeping, _KEEPING, counts)

    for first in (Contract.BOUNDED, Contract.SHORT, Contract.PADDED) if inputs.numbers else ():
        found = under(first)
        if found.harm is None:
            continue
        wanted = inputs.contracts(found.harm) or frozenset()
        if all(under(c).harm is not None for c in sorted(wanted, key=lambda c: c.value)):
            return found
    return None


def _finding(harm: Harm, module: Module, k: CheckTask, what: str) -> Diagnostic:
    """Harm as a finding; ``what`` brings it."""
    where = _span(harm.where.line, module)
    related: tuple[Label, ...] = ()
    if harm.other is not None and harm.other.line:
        related = (Label(_span(harm.other.line, module), "the other access"),)
    text = f"{what} brings {_BROUGHT[harm.kind]}: {harm.detail}"
    count = _unordered_count(harm, k)
    if count is None:
        return Diagnostic(_rule(harm, k), Severity.ERROR, text, where, related=related)
    at = module.span(k.code.program.body[count.count])
    lacks = [
        *([] if count.published else ["no release: a fence before it publishes what was written"]),
        *([] if count.acquired else ["no acquire: what is read behind it may be older than the count"]),
    ]
    label = Label(at, f"this count is {', and '.join(lacks)}", unmended=True)
    return Diagnostic(
        _rule(harm, k), Severity.ERROR, text, where, fix=_mend(count), related=(*related, label)
    )


def _unordered_count(harm: Harm, k: CheckTask) -> UnorderedCount | None:
    """The count of blocks that should order the two accesses of a race, and does not."""
    if harm.kind is not Kind.RACE or harm.other is None:
        return None
    p = k.code.program
    return unordered_count(p.flow, used_counts(p.flow), p.origins, {harm.where.line, harm.other.line})


def _mend(count: UnorderedCount) -> str:
    """What puts a count in order with the accesses around it."""
    sides = [
        *([] if count.published else ["between the writes and the count"]),
        *([] if count.acquired else ["between the count and the reads"]),
    ]
    who = "" if count.acquired else ", by the thread that counts, ahead of the barrier"
    return f"put __threadfence() (fence.acq_rel.gpu) {' and '.join(sides)}{who}"


def _rule(harm: Harm, k: CheckTask) -> str:
    ops = [
        {i.op for i in k.function.body if at is not None and i.line == at.line}
        for at in (harm.where, harm.other)
    ]
    here, there = ops
    if harm.before_a_block or harm.behind_a_block:
        return "SV114" if harm.before_a_block else "SV211"
    match harm.kind:
        case Kind.STALE:
            return "SV101"
        case Kind.RACE:
            if here & _WRITES and there & _WRITES:
                return "SV112"
            return "SV111" if here & _WRITES else "SV110"
        case Kind.HANG:
            return "SV302" if here & _BARRIERS else "SV210"
        case Kind.OUTSIDE:
            return "SV114"
    return "SV302" if here & _BARRIERS else "SV303" if here & _COLLECTIVE else "SV701"


def _span(line: int, module: Module) -> Span:
    found = (module.span(i) for f in module.functions for i in f.body if i.line == line)
    return next(found, Span(module.path, line))


__all__ = ["by_data", "placed_by_data", "sought"]
