"""Refutations of PTX and CUDA confirmed by the second reader: the text is executed, and harm has to be seen.

The witness's schedule comes first, then others (``simulate.ptx.confirm``), on launches that the facts of the
refutation allow (``driver.executions.drawn_launch``). What comes of it:

    harm is seen                                    refuted: replayed
    executions end, and none of them does harm      unknown, with the finding as a warning
    the reader cannot execute it                    the same, with what kept it from that
    its budget or the check's time ends before      the same, by another cause (``driver.explained``)
    the strict policy asks for more than harm       refuted, whatever comes of the replay

Strong accesses in no order are no harm: they leave the kernel unknown. Where executions of one launch end
with different memory (``simulate.ptx.outcomes``), the reason says how.

What is undecided because data decides about an access is executed too: if it does harm, that refutes it.
Where data places the access, the harm has to come whatever contract the data keeps to
(``driver.executions.input_harm``).
"""

from __future__ import annotations

import time
from dataclasses import replace

from syncverify.base.deadline import OutOfBudgetError
from syncverify.base.diagnostics import (
    KernelReport,
    Policy,
    Replay,
    Replayed,
    Severity,
    Undetermined,
    Verdict,
)
from syncverify.base.faults import do_without
from syncverify.base.reason import Cause
from syncverify.base.source import Span
from syncverify.checker.prover.strategy import REPLAY, ReplayEffort
from syncverify.driver.executions.drawn_launch import DRAWS, NoLaunchError, drawn_launch
from syncverify.driver.executions.executed_text import executed
from syncverify.driver.executions.sought import placed_by_data, sought
from syncverify.driver.reports.unconfirmed import unconfirmed
from syncverify.frontends.ptx.syntax.nodes import Module
from syncverify.simulate.ptx import Harm, Place
from syncverify.simulate.ptx.confirm import Confirmed, Limits, confirm
from syncverify.simulate.ptx.outcomes import differing_outcome
from syncverify.simulate.ptx.witness import step_of

#: The rule of accesses that leave their variable.
_OUTSIDE = "SV114"


def confirmed(report: KernelReport, module: Module, effort: ReplayEffort = REPLAY) -> KernelReport:
    """A report with what became of its witness on the second reader; other reports as they are."""
    module = executed(module, report.name, report.policy)
    if report.verdict is Verdict.UNKNOWN and report.suspect is not None:
        return _suspected(report, module, effort)
    if report.verdict is not Verdict.REFUTED or report.refuted_system is None or report.refuted_facts is None:
        return report
    if not any(d.severity is Severity.ERROR and d.undetermined is None for d in report.diagnostics):
        return _undetermined(report, module, effort)
    start = time.perf_counter()
    replay = _replayed(report, module, effort)
    if replay.outcome is Replayed.NOT_REPRODUCED and any(d.rule == _OUTSIDE for d in report.diagnostics):
        replay = _replayed(report, module, effort, apart=True)
    report = replace(report, replay=replay, seconds=report.seconds + time.perf_counter() - start)
    if replay.outcome is Replayed.REPRODUCED:
        return report
    if report.policy is Policy.STRICT:
        if replay.outcome is not Replayed.NOT_REPRODUCED:
            return report
        why = f"it decides contested points as the practical policy does, and sees no harm in {replay.detail}"
        return replace(report, replay=Replay(Replayed.IMPOSSIBLE, why))
    return unconfirmed(report, f"{_WITHOUT_HARM[replay.outcome]} ({replay.detail})", _cause(replay))


#: What is said of a finding that no execution shows.
_WITHOUT_HARM = {
    Replayed.NOT_REPRODUCED: "the second reader executes the kernel and sees no harm",
    Replayed.NOT_ENDED: "the replay of a finding on the second reader does not end",
    Replayed.IMPOSSIBLE: "the second reader cannot replay a finding",
}


def _cause(replay: Replay) -> Cause:
    return Cause.UNFINISHED if replay.outcome is Replayed.NOT_ENDED else Cause.NOT_REPLAYED


def _undetermined(report: KernelReport, module: Module, effort: ReplayEffort) -> KernelReport:
    """A report whose errors are strong accesses in no order: unknown, as the author may mean either."""
    start = time.perf_counter()
    how, why = "", "either value may be meant"
    if any(d.undetermined is Undetermined.OUTCOME for d in report.diagnostics):
        how, why = _outcomes(report, module, effort)
    report = replace(report, seconds=report.seconds + time.perf_counter() - start)
    if how:
        text = f"strong accesses in no order, no data race, decide how executions end: {how}"
    else:
        text = f"strong accesses in no order: whether the outcome depends on it is not decided ({why})"
    return unconfirmed(report, text, Cause.NOT_REPLAYED)


def _outcomes(report: KernelReport, module: Module, effort: ReplayEffort) -> tuple[str, str]:
    """How executions of a report's launch end differently, or why none does."""
    system, facts = report.refuted_system, report.refuted_facts
    function = next(f for f in module.functions if f.name == report.name and f.entry)
    limits = Limits(effort.steps, effort.each, effort.executions)
    asked = _lines(report, module, others=True)
    lines = frozenset(i.line for i in function.body if i.line in asked and i.op in ("ld", "st"))
    try:
        return differing_outcome(
            module, function.name, lambda n: drawn_launch(module, function, facts, system, n), limits, lines
        )
    except (OutOfBudgetError, MemoryError):
        raise
    except Exception as e:  # what its judge cannot do refutes nothing
        do_without(e)
        return "", f"{type(e).__name__}: {e}"


def _suspected(report: KernelReport, module: Module, effort: ReplayEffort) -> KernelReport:
    """An undecided report, refuted if an execution does the harm that was found."""
    start = time.perf_counter()
    found: KernelReport = report.suspect
    if found.refuted_system is None or found.refuted_facts is None:
        return report
    replay = _replayed(found, module, effort)
    seconds = report.seconds + time.perf_counter() - start
    if replay.outcome is not Replayed.REPRODUCED:
        return replace(report, seconds=seconds)
    if report.undecided is not None and placed_by_data(report.undecided, _lines(found, module, others=True)):
        # an input that keeps to no contract may be behind it
        return sought(replace(report, seconds=seconds), module)
    return replace(found, replay=replay, seconds=seconds)


def _replayed(report: KernelReport, module: Module, effort: ReplayEffort, *, apart: bool = False) -> Replay:
    """What executions show of a finding; ``apart``: of an access that leaves its variable for another."""
    witness, system, facts = report.witness, report.refuted_system, report.refuted_facts
    if witness is None:
        return Replay(Replayed.IMPOSSIBLE, "the finding has no schedule")
    function = next(f for f in module.functions if f.name == report.name and f.entry)
    steps = [step_of(s.agent, s.code_line or s.span.line) for s in witness.steps]
    limits = Limits(effort.steps, effort.each, effort.executions, effort.witness)
    lines = _lines(report, module) | {s.line for s in steps[-1:]}
    try:
        found = confirm(
            module,
            function.name,
            steps,
            str(witness.claim),
            lambda n: replace(drawn_launch(module, function, facts, system, n), apart=apart),
            DRAWS,
            limits,
            witness.elected_lane,
            frozenset(lines),
        )
    except (OutOfBudgetError, MemoryError):
        raise
    except NoLaunchError as e:
        return Replay(Replayed.IMPOSSIBLE, str(e))
    except Exception as e:  # what its judge cannot do refutes nothing
        do_without(e)
        what = f"{type(e).__name__}: {e}"
        return Replay(Replayed.IMPOSSIBLE, f"a fault of the reader, please report it ({what})")
    if found.harm is not None:
        return Replay(Replayed.REPRODUCED, f"{_described(found.harm, module)}, under {found.how}")
    return _nothing_seen(found)


def _lines(report: KernelReport, module: Module, *, others: bool = False) -> set[int]:
    """The lines of the text where a report's errors are; ``others``: and those that they name beside."""
    functions = [f for f in module.functions if f.name == report.name or not f.entry]
    errors = [d for d in report.diagnostics if d.severity is Severity.ERROR]
    places = {d.span for d in errors} | {x.span for d in errors if others for x in d.related}
    return {i.line for f in functions for i in f.body if module.span(i) in places}


def _nothing_seen(found: Confirmed) -> Replay:
    if found.ran:
        return Replay(Replayed.NOT_REPRODUCED, f"{found.ended} executions, the witness's schedule among them")
    return Replay(Replayed.NOT_ENDED if found.limited else Replayed.IMPOSSIBLE, found.why)


def _described(harm: Harm, module: Module) -> str:
    """Harm in the words of the report: agents as in witnesses, places as the author sees them."""
    other = "" if harm.other is None or not harm.other.line else f", against {_place(harm.other, module)}"
    section = f" (PTX ISA, {harm.section})" if harm.section else ""
    return f"{harm.kind.value} at {_place(harm.where, module)}{other}: {harm.detail}{section}"


def _place(at: Place, module: Module) -> str:
    """A line of PTX, after the line of the source that it comes from."""
    lane = "" if at.lane < 0 else f".lane{at.lane}"
    agent = f"cta{at.block}.warp{at.warp}{lane}"
    code = Span(module.path, at.line)
    found = next((module.span(i) for f in module.functions for i in f.body if i.line == at.line), code)
    return f"{found} ({agent})" if found == code else f"{found} (line {at.line} of its PTX, {agent})"


__all__ = ["confirmed"]
