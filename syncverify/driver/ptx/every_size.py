"""A PTX entry for every size that its facts leave open: attempts at a proof, and small sizes that refute it.

Each attempt poses the problem to the prover under one abstraction. The first that decides counts.

Example: the trip count is loaded, so the attempt with sizes as terms alone ends undecided by global data. The
table of strategies names ``loads-as-sizes`` for that cause, and the attempt under it is proved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.base.reason import Cause, Reason, caused, causes_of, has, made_of
from syncverify.checker.prover.strategy import CAUSES, MAX_CHOICES, MOST_EXACT, Step
from syncverify.driver.ptx.abstractions import (
    lanes_only_meet,
    steers,
    with_barriers_aside,
    with_contents_as_data,
    with_parameters_as_data,
)
from syncverify.driver.ptx.assumptions import of_block_groups, of_dynamic, of_words
from syncverify.driver.ptx.early import refuted_early
from syncverify.driver.ptx.endless import loops_taken_to_end
from syncverify.driver.ptx.launch_report import (
    assumptions_of,
    check_at,
    check_launch,
    placed,
    report_of,
)
from syncverify.driver.ptx.systems import of_launch, of_run, question_of
from syncverify.driver.ptx.task import (
    CheckTask,
    NotShownError,
    Prove,
    compiled,
    elected,
    in_block_groups,
    inferred,
    narrowed,
)
from syncverify.driver.reports.outcomes import undecided
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import (
    steering_counts,
    unacquired_read,
    unfenced_count,
)
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.tables import layout
from syncverify.frontends.ptx.launch.facts import VARIABLE
from syncverify.frontends.ptx.launch.small_sizes import (
    edge_sizes,
    largest_sizes,
    powers_of_two,
    small_sizes,
)
from syncverify.frontends.ptx.launch.steering_sizes import lane_conditions, meeting_sizes, steering_sizes
from syncverify.frontends.ptx.launch.symbolic_launch import open_sizes, open_systems
from syncverify.frontends.ptx.launch.tensormap_boxes import copies_tensors
from syncverify.frontends.ptx.values.symbolic_words import NO_WRAP
from syncverify.ir.expr import Var, names
from syncverify.symbolic.context import NotConcrete

#: Variables that are set together, where some numbers may refute.
MOST_VARIABLES = 4


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the search for a proof came to under one abstraction.

    ``found``: what the prover gives; None where no size is open or the abstraction has no system.
    ``assumptions``: what a proof rests on. ``suspect``: of some sizes, what holds if an execution does it.
    """

    task: CheckTask
    found: Any
    assumptions: tuple[str, ...] = ()
    suspect: KernelReport | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The prover's verdict."""
        return None if self.found is None else self.found.verdict


def for_every_size(
    k: CheckTask,
    report: KernelReport,
    ahead: Callable[[CheckTask, KernelReport], KernelReport] = lambda _, report: report,
) -> KernelReport:
    """A proof for every size that is left open, where the report cannot do without a number; or the smallest
    sizes that refute the kernel; or the report, with a note. ``ahead``: what comes before the long search."""
    if report.verdict is not Verdict.UNKNOWN or k.checker.prove is None or k.facts.block is None:
        return _smallest(k, report)
    start = time.perf_counter()
    unwritten = Cause.UNWRITTEN in causes_of(report.reason)  # no size writes the address
    placed = None if unwritten else _proved_by_places(k)
    early = refuted_early(k, check_at, several=placed is None)
    if early is not None and (wrong := check_at(k, early)).verdict is Verdict.REFUTED:
        return replace(wrong, seconds=time.perf_counter() - start)
    if placed is not None:
        found = _outside(placed.task) or _proved(placed, report, 0.0)
        return replace(found, seconds=report.seconds + time.perf_counter() - start)
    if unwritten:
        return _smallest(k, report)
    soon = ahead(k, report)
    if soon.verdict is not Verdict.UNKNOWN:
        return replace(soon, seconds=time.perf_counter() - start)
    attempt = _searched(k, report)
    if _undecided(attempt, report) and (wider := _any_grid(attempt.task)) is not None:
        again = _searched(wider, report)
        if again.verdict is Verdict.PROVED and not _stops_for_some(attempt.task, again):
            attempt = again
        else:
            attempt = replace(attempt, suspect=attempt.suspect or again.suspect)
    if attempt.found is None:
        return _smallest(k, report)
    if attempt.verdict is Verdict.REFUTED:
        return replace(check_at(attempt.task, attempt.found.values), seconds=time.perf_counter() - start)
    if attempt.verdict is Verdict.PROVED:
        short = _outside(attempt.task)
        if short is not None:
            return replace(short, seconds=time.perf_counter() - start)
        return _proved(attempt, report, report.seconds + time.perf_counter() - start)
    return _undecided_by_sizes(attempt.task, _not_shown(attempt, report))


def _undecided_by_sizes(k: CheckTask, report: KernelReport) -> KernelReport:
    """Where no attempt decides: the smallest sizes that refute the kernel; or a proof with the sizes as data.

    Example: ``for (int i = tid; i < n; i += 128) s[i] = in[i];`` has a path for each number of turns of each
    lane. As data, ``n`` decides access by access, and the report assumes that these stay inside.
    """
    found = _smallest(k, report)
    if found.verdict is not Verdict.UNKNOWN or not open_sizes(k.facts, compiled(k)[1].for_sizes):
        return found
    as_data = check_launch(with_parameters_as_data(k))
    return as_data if as_data.verdict is Verdict.PROVED else found


def sizes_inside_arrays(k: CheckTask, report: KernelReport) -> KernelReport:
    """A proof with sizes as data that takes accesses to stay inside the arrays that they name, or a
    refutation of that by numbers; or the report.

    It comes last: what assumes less was tried before, and the smallest sizes, and did not decide.
    """
    return proved_inside_arrays(k, report, _outside)


def proved_inside_arrays(
    k: CheckTask, report: KernelReport, refuted: Callable[[CheckTask], KernelReport | None]
) -> KernelReport:
    """The same, where ``refuted`` holds what an attempt takes for granted against numbers."""
    if k.checker.prove is None or k.facts.block is None:
        return report
    start = time.perf_counter()
    words = [task for task, _ in _wider(k, report.reason) if task.abstraction.data_as_words]
    for words_too in filter(_counts, words):
        if (made := _tried(words_too)).verdict is Verdict.PROVED:
            found = _proved(made, report, report.seconds + time.perf_counter() - start)
            return refuted(made.task) or found
    if not open_sizes(k.facts, compiled(k)[1].for_sizes):
        return report
    for narrower in (_with_sizes_as_data, _with_fewer_terms):
        task = narrower(k)
        if task is not None and (made := _tried(task)).verdict is Verdict.PROVED:
            found = _proved(made, report, report.seconds + time.perf_counter() - start)
            return refuted(made.task) or found
    as_data = with_parameters_as_data(k)
    found = check_launch(as_data)
    return report if found.verdict is not Verdict.PROVED else refuted(as_data) or found


def some_variables(k: CheckTask, report: KernelReport) -> KernelReport:
    """Where variables that the host sets leave a kernel undecided: a few numbers for them that refute it."""
    p = k.code.compiled
    if p is None or report.verdict is not Verdict.UNKNOWN:
        return report
    names = {x for n in p.variables & p.slice.pure for x in p.origins.of(p.body[n].operands[1])}
    known = {v.name: v for v in (*k.module.variables, *k.function.variables) if v.name in names}
    wanted = [v for v in known.values() if v.name not in k.facts.images and 0 < v.size <= 8]
    if not wanted or len(wanted) > MOST_VARIABLES:
        return report
    starts = {int.from_bytes((v.init or b"")[:8], "little") for v in wanted}
    for value in sorted({0, 1} | starts):
        found = check_launch(k.at(k.facts.bind({f"{VARIABLE}{v.name}": value for v in wanted})))
        if found.verdict is Verdict.REFUTED:
            return found
    return report


# ---------------------------------------------------------------- reports


def _proved(attempt: Attempt, report: KernelReport, seconds: float) -> KernelReport:
    k, found = attempt.task, attempt.found
    rests_on = assumptions_of(k, attempt.assumptions, found.diagnostics)
    return replace(
        report,
        verdict=Verdict.PROVED,
        reason=None,
        seconds=seconds,
        assumptions=(
            *rests_on,
            *of_dynamic(k.facts),
            *([] if k.abstraction.terms == frozenset() else [NO_WRAP]),
        ),
        diagnostics=placed(k, found.diagnostics),
        stats=found.stats,
        undecided=None,
        doubted=report.undecided,  # executions may still contradict what was left open for one launch
    )


def _not_shown(attempt: Attempt, report: KernelReport) -> KernelReport:
    why = caused(attempt.found.reason or "", Cause.NO_PROOF)
    reason = Reason(f"this is not shown for every size: {why}", parts=(why,))
    note = Diagnostic("SV902", Severity.NOTE, reason, attempt.task.span)
    first, found = report.reason, (note, *report.diagnostics)
    if has(why, Cause.MISSING_BOX) and not has(first, Cause.MISSING_BOX):
        first, found = reason, (note,)  # with numbers for the sizes the box lacks, too
    elif attempt.found.reason != report.reason:
        first = Reason(f"{reason}; {report.reason}", parts=(reason, report.reason or ""))
    suspect = report.suspect if report.suspect is not None else attempt.suspect
    return replace(report, reason=first, diagnostics=found, suspect=suspect)


def _outside(k: CheckTask) -> KernelReport | None:
    """A refutation by numbers of what the proof takes for granted: that accesses stay inside.

    Where dynamic shared memory has as many bytes as sizes say, an access is held against the most that a
    block can have, and for a few sizes against what it has. Sizes as data are tried at their largest, and
    those that nothing bounds at small numbers, where the facts give the bytes.
    """
    own = k.abstraction
    plain = k
    if own.parameters_as_data or own.inside_arrays:
        numbers = replace(own, terms=None, parameters_as_data=False, inside_arrays=False, barriers=True)
        plain = k.abstracted(numbers)
    open_ = (own.terms or frozenset()) ^ k.facts.symbols().keys() if own.parameters_as_data else frozenset()
    data = {name for name in open_ if not name.startswith("grid.")}
    p = k.code.compiled
    placed = p is not None and bool(p.seen.placed_by_sizes) and isinstance(k.facts.dynamic_smem, int)
    powers = powers_of_two(k.facts, data) if placed else ()
    tried = chain(edge_sizes(k.facts), largest_sizes(k.facts, data), powers)
    found = (check_at(plain, sizes) for sizes in tried)
    return next((report for report in found if report.verdict is Verdict.REFUTED), None)


def _smallest(k: CheckTask, report: KernelReport) -> KernelReport:
    """Where open sizes leave a kernel undecided: the smallest of the first few that refute it, if any do."""
    if report.verdict is not Verdict.UNKNOWN or not k.checker.again:  # no refutation is part of a certificate
        return report
    for sizes in small_sizes(k.facts):
        found = check_launch(k.at(k.facts.bind(sizes)))
        if found.verdict is Verdict.REFUTED:
            return found
        if found.verdict is Verdict.UNKNOWN and report.suspect is None:
            report = replace(report, suspect=found.suspect)
        if found.verdict is Verdict.UNKNOWN and not has(found.reason, Cause.NO_PROOF):
            break  # larger ones will not do better
    return some_variables(k, report)


# ---------------------------------------------------------------- abstractions

_PROVED = frozenset({Verdict.PROVED})
_DECIDED = frozenset({Verdict.PROVED, Verdict.REFUTED})


def _searched(k: CheckTask, report: KernelReport) -> Attempt:
    """The first attempt that decides; otherwise that of the task itself, with the first suspect of any."""
    suspects: list[KernelReport] = []

    def attempt(task: CheckTask, prove: Prove | None = None) -> Attempt:
        made = _tried(task, prove)
        suspects.extend([made.suspect] if made.suspect is not None else [])
        return made

    for narrower in (_with_fewer_terms, _without_stored_values):
        task = narrower(k)
        if task is not None and (made := attempt(task)).verdict is Verdict.PROVED:
            return made
    if k.checker.ahead is not None and (as_data := _with_sizes_as_data(k)) is not None:
        soon = attempt(k, k.checker.ahead)
        if soon.verdict in _DECIDED:
            return soon
        if (made := _tried(as_data)).verdict is Verdict.PROVED:
            return made
    own = attempt(k)
    for task, decides in _wider(k, report.reason if own.found is None else own.found.reason):
        plain = _without_stored_values(task)
        if plain is not None and _counts(task) and (made := attempt(plain)).verdict is Verdict.PROVED:
            return made
        made = attempt(task)
        if made.verdict in decides and _counts(task):
            return made
    if own.verdict not in _DECIDED and (placed := _proved_without_barriers(k)) is not None:
        return placed
    return replace(own, suspect=next(iter(suspects), None))


def _wider(k: CheckTask, reason: str | None) -> Iterator[tuple[CheckTask, frozenset[Verdict]]]:
    """Other abstractions that the causes of a reason call for, each with the verdicts that count there."""
    causes, own = causes_of(reason), k.abstraction
    if causes & CAUSES[Step.LOADS_AS_SIZES]:
        yield k.abstracted(replace(own, loads_as_sizes=True)), _PROVED
    if own.shared_contents and causes & CAUSES[Step.CONTENTS_AS_DATA]:
        yield with_contents_as_data(k), _DECIDED
    elif own.shared_contents and causes & CAUSES[Step.CONTENTS_ASIDE] and steers(k):
        yield with_contents_as_data(k), _PROVED
    for meeting in lanes_only_meet(k, reason):
        yield meeting, _PROVED
    if causes & CAUSES[Step.DATA_AS_WORDS]:
        words = replace(own, loads_as_sizes=True, data_as_words=True)
        if k.facts.symbols():
            yield k.abstracted(replace(words, sizes_as_data=True)), _PROVED
        yield k.abstracted(replace(words, sizes_as_data=False)), _PROVED


def _with_fewer_terms(k: CheckTask) -> CheckTask | None:
    """The same with sizes as data that only decide whether shared memory is accessed, and all of them as data
    where they decide this lane by lane; None if there is nothing of either, or no other size."""
    launch, whole = compiled(k)
    program = narrowed(k, launch, whole)
    if program.handing is not None:
        return None
    program = program.for_sizes
    sizes = open_sizes(k.facts, program)
    terms = steering_sizes(k.facts, program, sizes)
    if not terms or (terms == sizes.keys() and not lane_conditions(program)):
        return None
    return k.abstracted(replace(k.abstraction, terms=frozenset(terms)))


def _with_sizes_as_data(k: CheckTask) -> CheckTask | None:
    """The same with sizes as data that decide about no meeting of threads, only about accesses and where
    these lie; None if there are no such sizes."""
    launch, whole = compiled(k)
    program = narrowed(k, launch, whole)
    if program.handing is not None:
        return None
    sizes = open_sizes(k.facts, program.for_sizes)
    terms = meeting_sizes(k.facts, program.for_sizes, sizes)
    if terms == sizes.keys():
        return None
    return k.abstracted(replace(k.abstraction, terms=terms, parameters_as_data=True))


def proved_by_places(k: CheckTask) -> KernelReport | None:
    """A proof by places, or a refutation by numbers of what it takes for granted; None if there is none."""
    if k.checker.prove is None or k.facts.block is None:
        return None
    start = time.perf_counter()
    placed = _proved_by_places(k) or _proved_without_barriers(k)
    return None if placed is None else _placed(placed, report_of(k, undecided("", k.span), 0.0), start)


def proved_without_barriers(k: CheckTask, report: KernelReport) -> KernelReport:
    """A proof by places in which barriers order nothing, or a refutation of what it takes for granted; or the
    report."""
    start = time.perf_counter()
    placed = _proved_without_barriers(k)
    return report if placed is None else _placed(placed, report, start)


def _placed(placed: Attempt, report: KernelReport, start: float) -> KernelReport:
    found = _outside(placed.task) or _proved(placed, report, 0.0)
    return replace(found, seconds=report.seconds + time.perf_counter() - start)


def _proved_by_places(k: CheckTask) -> Attempt | None:
    """A proof with all sizes as data, where sizes place accesses to shared memory and no two of these race,
    as their places between barriers show; None if there is none.

    Sizes that decide where threads meet have to be terms, and that search may be long: it is not begun here.
    """
    program = compiled(k)[1]
    assert k.facts.block is not None
    shared = layout(program.module, program.function, None).shared
    if program.handing is not None or not program.placed_by_sizes(k.facts.block, shared):
        return None
    task = _with_sizes_as_data(with_contents_as_data(k) if k.abstraction.shared_contents and steers(k) else k)
    if task is None or task.abstraction.terms or (made := _tried(task)).verdict is not Verdict.PROVED:
        return None
    return made


def _proved_without_barriers(k: CheckTask) -> Attempt | None:
    """A proof with all sizes as data, where all threads come to the same barriers, and places say that no
    accesses race between two of these: then barriers say nothing more. None if there is none.

    Places take it that no number wraps: no number of blocks that the facts give, or bound, may say otherwise.
    """
    program = compiled(k)[1]
    assert k.facts.block is not None
    shared = layout(program.module, program.function, None).shared
    given = any(isinstance(e, int) and e > 1 for e in k.facts.grid)
    bounded = any(name.startswith("grid.") for c in k.facts.assume for name in names(c))
    if given or bounded or program.handing is not None or not program.apart_by_places(k.facts.block, shared):
        return None
    aside = with_barriers_aside(k)
    code = narrowed(aside, *compiled(aside)).for_sizes
    if meeting_sizes(k.facts, code, open_sizes(k.facts, code)):
        return None
    made = _tried(aside.abstracted(replace(aside.abstraction, terms=frozenset(), parameters_as_data=True)))
    if made.verdict is not Verdict.PROVED:
        return None
    return replace(made, assumptions=(*made.assumptions, *loops_taken_to_end(k, frozenset())))


def _without_stored_values(k: CheckTask) -> CheckTask | None:
    """The same with what is only stored in shared memory as data, for numbers that each lane counts up make
    ever new states; None if there are no such numbers."""
    launch, whole = compiled(k)
    program = narrowed(k, launch, whole)
    if program.handing is not None or program.without_stored_values is None:
        return None
    return k.abstracted(replace(k.abstraction, stored_values=False))


def _any_grid(k: CheckTask) -> CheckTask | None:
    """The same launched with any number of CTAs up to that which the facts give: what holds for all of them
    holds for that one, and of blocks that are known by number each is another state. More would let numbers
    of blocks wrap, which is taken not to be. None if they give none."""
    any_ = (Var("grid.x"), Var("grid.y"), Var("grid.z"))
    x, y, z = (e if e == 1 or not isinstance(e, int) else v for e, v in zip(k.facts.grid, any_, strict=True))
    if (x, y, z) == k.facts.grid:
        return None
    most = tuple(v <= e for e, v in zip(k.facts.grid, any_, strict=True) if isinstance(e, int) and e > 1)
    return k.launched(replace(k.facts, grid=(x, y, z), assume=(*k.facts.assume, *most), _cache={}))


def _undecided(attempt: Attempt, report: KernelReport) -> bool:
    """Whether another grid may decide what the attempt does not."""
    if attempt.found is None:
        return bool(causes_of(report.reason) & CAUSES[Step.ANY_GRID])
    return attempt.verdict is Verdict.UNKNOWN


def _stops_for_some(k: CheckTask, wider: Attempt) -> bool:
    """Whether an assertion may fail for the grid that the facts give, and for another one does not."""

    def trusted(task: CheckTask) -> set[Any]:
        p = task.code.compiled
        return set() if p is None else {p.sites[s].span for s in p.seen.trusted}

    return bool(wider.found.stopped) or not trusted(wider.task) <= trusted(k)


def _counts(k: CheckTask) -> bool:
    """Whether a verdict counts: with data as words, where blocks that count themselves publish what they
    wrote before. What is read there is assumed to be theirs."""
    if not k.abstraction.data_as_words:
        return True
    p = k.code.program
    counts = steering_counts(p.flow, p.slice.registers) | p.counted
    published = unfenced_count(p.flow, counts, p.origins) is None
    return published and unacquired_read(p.flow, counts, p.origins) is None


# ---------------------------------------------------------------- one attempt


def _tried(k: CheckTask, prove: Prove | None = None) -> Attempt:
    """What is found for every size under the task's abstraction; ``prove``: for another effort."""
    assert k.checker.prove is not None
    own = k.abstraction
    brief = own.data_as_words or own.terms is not None or not own.stored_values
    briefly = k.checker.briefly if brief else None
    prove = prove or briefly or k.checker.prove
    try:
        first = _attempt(k, prove)
        if first.found is None or not has(first.found.reason, Cause.UNTRIED_LANE):
            return first
        return _attempt(replace(k, each_lane=True), prove)
    except NotConcrete:
        return Attempt(k, None)


@dataclass(slots=True)
class _ExactChecks:
    """Launches by numbers that a search asks for: a few, with what their proofs rest on."""

    task: CheckTask
    whole: Program
    left: int = MOST_EXACT
    suspect: KernelReport | None = None
    rests_on: list[str] = field(default_factory=list)

    def __call__(self, values: Mapping[str, int]) -> Verdict:
        self.left -= 1
        if self.left < 0:
            return Verdict.UNKNOWN
        with self.whole.seen.kept():
            found = check_at(self.task, values)
        if self.suspect is None:
            self.suspect = found.suspect
        if found.verdict is Verdict.PROVED:
            self.rests_on += found.assumptions
        return found.verdict


def _attempt(k: CheckTask, prove: Prove) -> Attempt:
    """What is found for every size, with every answer to questions that have one for all agents."""
    launch, whole = compiled(k)
    program = narrowed(k, launch, whole)
    clusters = 1
    if program.handing is not None:
        program = in_block_groups(k, program)
        assert program.block_groups is not None
        clusters = program.block_groups.size // launch.ctas
    program = _for_sizes(k, program)
    sizes = _terms(k, program)
    if not (sizes or program.words or program.any_data or k.abstraction.parameters_as_data):
        return Attempt(k, None)
    if k.boxes is not None and copies_tensors(program):
        launch = inferred(k, launch, whole)
    exact = _ExactChecks(k, whole)

    def posed(answers: Mapping[Any, int], asked: dict[Any, str]) -> Any:
        facts = tuple(c for c in k.facts.constraints() if names(c) <= sizes.keys())
        opened = replace(launch, answers=answers)
        lanes = elected(k, program, launch, None)

        def systems(**alone: bool) -> Callable[..., Any]:
            return open_systems(program, opened, k.facts, lanes, k.hash, asked, apart=True, **alone)

        each = systems(alone=True) if clusters > 1 else None
        return prove(sizes, facts, systems(), exact, k.policy, clusters, each)

    last, stopped, steered = _under_every_answer(posed)
    if last.verdict is not Verdict.PROVED:
        return Attempt(k, last, suspect=exact.suspect)
    rests_on = (
        *of_launch(k, launch, whole),
        *of_words(k.facts, program),
        *of_run(k.facts, program, stopped, steered),
        *of_block_groups(k.facts, program, last.restores),
        *exact.rests_on,
    )
    return Attempt(k, last, tuple(dict.fromkeys(rests_on)), exact.suspect)


def _under_every_answer(
    posed: Callable[[Mapping[Any, int], dict[Any, str]], Any],
) -> tuple[Any, Mapping[int, str], set[Any]]:
    """What is found under each answer to the questions that come up: the first that is not proved, or the
    last; lines that nobody is taken to stop at; and the questions."""
    answers: list[dict[Any, int]] = [{}]
    steered: set[Any] = set()
    stopped: dict[int, str] = {}
    last: Any = None
    while answers:
        taken = answers.pop()
        asked: dict[Any, str] = {}
        try:
            last = posed(taken, asked)
            unknown, reason = last.verdict is Verdict.UNKNOWN, last.reason or ""
        except NotShownError as e:
            if len(taken) >= MAX_CHOICES or not any(made_of(e.reason, why) for why in asked.values()):
                raise
            unknown, reason = True, e.reason
        if unknown and asked and len(taken) < MAX_CHOICES:
            question = question_of([reason], asked)
            answers += [{**taken, question: 1}, {**taken, question: 0}]
            steered.add(question)
        elif last.verdict is not Verdict.PROVED:
            return last, stopped, steered
        else:
            stopped |= last.stopped
    return last, stopped, steered


def _for_sizes(k: CheckTask, program: Program) -> Program:
    """The code for sizes without a number, less what this attempt takes for data."""
    own = k.abstraction
    if own.parameters_as_data:
        return program.for_sizes.read_once  # their loops are data's, and no turn reads them again
    if own.terms is not None and (by_lane := lane_conditions(program.for_sizes)):
        return program.without_conditions(by_lane)
    if not own.stored_values and program.without_stored_values is not None:
        return program.without_stored_values
    return program.for_sizes


def _terms(k: CheckTask, program: Program) -> dict[str, tuple[int, int | None]]:
    """The open sizes that are terms in a proof for every size, with their ranges."""
    own = k.abstraction
    sizes = {} if own.sizes_as_data else open_sizes(k.facts, program)
    return sizes if own.terms is None else {n: x for n, x in sizes.items() if n in own.terms}


__all__ = ["Attempt", "for_every_size", "proved_inside_arrays", "sizes_inside_arrays", "some_variables"]
