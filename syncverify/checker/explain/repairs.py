"""Repairs: small edits of a refuted kernel with which it is proved.

A finding says what breaks; the mistake may be elsewhere. So the likely edits are tried out: at one place of
the source the events of all agents are changed, and the changed system is checked. An edit that makes the
check succeed is a repair: a fix that was applied, and the place where the author has to change something.

Worked example. A producer waits for parity ``(i // 2) % 2`` of ``empty[i % 2]`` and hangs. The other parity
at that place lets the kernel be proved, so the report says: wait for the other parity here.

Edits only choose words: no verdict depends on them. A repair holds for the launch values of the witness.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Diagnostic, Label, Mistake, Repair, Severity, Verdict
from syncverify.base.reason import Cause, has
from syncverify.base.source import Span
from syncverify.checker.explain.another_mistake import remaining
from syncverify.checker.explain.attempt import Attempt
from syncverify.checker.explain.attempts import attempts
from syncverify.checker.explain.edit_hints import hint
from syncverify.checker.explain.neighbours import other_end
from syncverify.checker.explain.redundancy import Changed
from syncverify.checker.explain.survey import Survey
from syncverify.checker.outcome import Outcome
from syncverify.model.events import System

#: Events that all tries together may take, and how many tries there may be; counts, so that runs agree.
MAX_EVENTS = 100_000
MAX_TRIES = 120
#: A mended kernel may run on for so many events more than twice what the refuted one did.
LONGER = 10_000
#: No try begins later than this, in seconds of processor time: a guard, which counts mostly spare.
MAX_SECONDS = 30.0
#: Classes that the rule says more exactly than an edit does.
_SAID_BY_RULE = (Mistake.MISPLACED_FENCE, Mistake.MISPLACED_WAIT, Mistake.DIVERGENCE)
#: Repairs that are handed on to be tried in the text; the tries that further ones may take, and their events.
MOST_UNTOLD, FURTHER_TRIES, FURTHER_EVENTS = 4, 30, 30_000


@dataclass(frozen=True, slots=True)
class Mended:
    """What the search for a repair came to.

    ``untold``: further repairs, which count once their text was checked: what mends one launch may not mend
    others. Where there is no first one, the events alone cannot confirm them: the kernel comes to a tensor
    map whose box is not known yet.
    """

    repair: Repair | None = None
    untold: tuple[Repair, ...] = ()


def repair(
    system: System,
    findings: Sequence[Diagnostic],
    judge: Callable[[System, int, bool], Outcome],
    *,
    further: bool = False,
) -> Mended:
    """The first edit with which ``system`` is proved, if there is one.

    ``findings``: those of the system; the first error is to be mended. Of a system with several mistakes it
    is the first edit that mends this one. ``judge`` checks a system within a number of events: an edit may
    make a kernel that loops for ever. Its last argument: whether a hang is followed on, past who is blocked.
    ``further``: a few more than the first one.
    """
    found = next(d for d in findings if d.severity is Severity.ERROR)
    until = time.thread_time() + MAX_SECONDS
    survey = Survey()
    judge(Changed(system, (survey,)), MAX_EVENTS, True)
    most, left, tries = 2 * survey.events + LONGER, MAX_EVENTS, MAX_TRIES
    named = {found.span, *(label.span for label in found.related)}
    mended: list[Repair] = []
    untold: list[Repair] = []
    of_first: list[Repair] = []
    for n, attempt in enumerate(attempts(system.info, survey, named, found.rule)):
        if left <= 0 or n >= tries or time.thread_time() > until or len(mended) > MOST_UNTOLD:
            break
        outcome = judge(Changed(system, (attempt.change,)), most, False)
        left -= outcome.stats.get("events", most if outcome.verdict is Verdict.UNKNOWN else survey.events)
        mistake = found.cause if found.cause in _SAID_BY_RULE else attempt.mistake
        proposed = Repair(
            mistake,
            attempt.place,
            attempt.text,
            hint(attempt.change, system.info, survey, attempt.place),
            neighbour=_neighbour(attempt, survey, found.span),
        )
        if outcome.verdict is Verdict.PROVED:
            if not further:
                return Mended(proposed)
            if not mended:
                tries, left = min(tries, n + FURTHER_TRIES), min(left, FURTHER_EVENTS)
            mended.append(proposed)
        elif has(outcome.reason, Cause.MISSING_BOX) and proposed.hint is not None:
            untold.append(proposed)
        elif (rest := remaining(findings, outcome.diagnostics)) is not None:
            of_first.append(replace(proposed, left=rest))
    if mended:
        return Mended(mended[0], tuple(r for r in mended[1:] if r.hint is not None))
    # without a proof, what changes the very place of the finding is the likeliest to be meant
    best = min(of_first, key=lambda r: r.span != found.span, default=None)
    return Mended(best, tuple(untold[:MOST_UNTOLD]))


def _neighbour(attempt: Attempt, survey: Survey, broken: Span) -> Label | None:
    """The other neighbour of what is added, for the reader; none if what breaks stands between."""
    end = other_end(attempt.change, attempt.place, survey.around)
    if end is None or _between(attempt.place, broken, end[0]):
        return None
    return Label(*end, detail=True)


def _between(one: Span, middle: Span, other: Span) -> bool:
    """Whether a place of a file stands between two others."""
    first, last = sorted((one.line, other.line))
    return one.file == middle.file == other.file and first < middle.line < last
