"""The check of a PTX file's kernels: launch facts into systems, their outcomes into reports.

What decides (``judge``) and how outcomes are merged comes from the caller, one floor up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.base.kernel_names import base_name, matches
from syncverify.base.reason import Cause, Reason, caused, causes_of, has, made_of
from syncverify.base.source import InputError
from syncverify.checker.outcome import Outcome
from syncverify.checker.prover.strategy import CAUSES, MAX_CHOICES, MOST_EXACT, Step
from syncverify.driver.endless import with_loops_that_end
from syncverify.driver.ptx_assumptions import (
    of_block_groups,
    of_common,
    of_dynamic,
    of_fenced_signals,
    of_overlaps,
    of_stops,
    of_stores,
    of_tiles,
    of_warnings,
    of_words,
)
from syncverify.driver.ptx_block import of_bound, with_fewer_threads
from syncverify.driver.ptx_early import refuted_early
from syncverify.driver.ptx_systems import outcomes, question_of
from syncverify.driver.ptx_task import (
    Checker,
    CheckTask,
    NotShownError,
    Prove,
    compiled,
    elected,
    in_block_groups,
    inferred,
    narrowed,
    unknown,
    with_lanes_that_meet,
)
from syncverify.driver.size_proposals import Bounds, proposed
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.analysis.counted_blocks import steering_counts, unfenced_count, used_counts
from syncverify.frontends.ptx.analysis.fenced_signals import with_fenced_signals
from syncverify.frontends.ptx.analysis.shared_polls import shared_polls
from syncverify.frontends.ptx.analysis.tile_barriers import with_tile_barriers
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.flow.address_spaces import with_spaces
from syncverify.frontends.ptx.flow.data_guards import with_data_guards_as_branches
from syncverify.frontends.ptx.flow.inline_calls import inlined
from syncverify.frontends.ptx.flow.promote_locals import promoted
from syncverify.frontends.ptx.flow.warp_counts import counted_by_lane
from syncverify.frontends.ptx.isa.validate import checked
from syncverify.frontends.ptx.launch.concretize import covered, numbers_of, sizes_at
from syncverify.frontends.ptx.launch.facts import VARIABLE, PtxFacts, demand_launch, ptx_facts, text
from syncverify.frontends.ptx.launch.small_sizes import edge_sizes, small_sizes, some_sizes
from syncverify.frontends.ptx.launch.steering_sizes import lane_conditions, steering_sizes
from syncverify.frontends.ptx.launch.symbolic_launch import open_sizes, open_systems
from syncverify.frontends.ptx.launch.tensormap_boxes import Boxes, copies_tensors
from syncverify.frontends.ptx.syntax.nodes import Function, Module
from syncverify.frontends.ptx.syntax.parameter_names import place_names
from syncverify.frontends.ptx.values.symbolic_words import NO_WRAP
from syncverify.ir.expr import Var, names
from syncverify.symbolic.context import NotConcrete

#: Variables that are set together, where some numbers may refute.
MOST_VARIABLES = 4


def check_module(
    module: Module,
    facts: LaunchFacts,
    policy: Policy,
    checker: Checker,
    *,
    kernel: str | None = None,
    values: Mapping[str, int] | None = None,
    source_hash: str = "",
    on_error: Callable[[InputError], None] | None = None,
    scope: ScopeKind = ScopeKind.EXACT,
    infer: bool = True,
) -> list[KernelReport]:
    """A report for each entry whose name (or its part before the template arguments) matches ``kernel``.

    ``values``: numbers for sizes that the facts leave open. ``infer``: boxes of tensor maps that the facts
    leave out may be taken from the bytes that the kernel expects, as assumptions. Raises InputError for facts
    that do not fit a kernel; with ``on_error`` it is handed there and the others are still checked.
    """
    valid = checked(module)
    module = valid.module
    reports = []
    if kernel is None and (uncalled := valid.uncalled()) is not None:
        if on_error is None:
            raise uncalled
        on_error(uncalled)
    for f in module.entries:
        if kernel is not None and not matches(f.name, kernel):
            continue
        try:
            task = kernel_task(module, f, facts, policy, checker, values or {}, source_hash, infer)
            *_, report = reports_of(task, scope)
            reports.append(report)
        except InputError as e:
            if on_error is None:
                raise
            on_error(e)
    return reports


@dataclass(frozen=True, slots=True)
class Task:
    """An entry with its facts, ready to be checked. ``granted``: what is assumed of the facts."""

    kernel: CheckTask
    granted: tuple[str, ...]


def kernel_task(
    module: Module,
    f: Function,
    facts: LaunchFacts,
    policy: Policy,
    checker: Checker,
    values: Mapping[str, int],
    source_hash: str,
    infer: bool,
) -> Task:
    """What ``check_module`` does with one entry, as a task. Raises InputError for facts that do not fit."""
    valid = checked(module)
    wrong = valid.fault(f.name)
    if wrong is not None:
        raise wrong
    module = _plain(inlined(valid.module, f.name), f.name, policy)
    f = next(x for x in module.functions if x.name == f.name)
    known = ptx_facts(facts, f, module)
    module, f, met = _with_tiles(module, f, known, policy)
    if policy is Policy.PRACTICAL:
        module, f, signals = _with_fenced_signals(module, f)
        met += signals
    symbols = known.symbols()
    values = known.spelled(values)
    wanted = {n: v for n, v in values.items() if n in symbols or n.startswith(VARIABLE)}
    if values and len(module.entries) == 1:
        wanted = dict(values)
    bound = known.bind(wanted) if wanted else known
    granted = demand_launch(facts, f, known, {n: v for n, v in wanted.items() if n in symbols})
    boxes = Boxes() if infer else None
    k = CheckTask(module, f, bound, policy, checker, source_hash, boxes=boxes)
    return Task(k, (*granted, *of_bound(known), *met))


def _with_tiles(
    module: Module, f: Function, facts: PtxFacts, policy: Policy
) -> tuple[Module, Function, list[str]]:
    """The module and the entry with meetings of tiles of several warps as barriers; what that relies on."""
    changed, meetings = with_tile_barriers(f, facts.block, by_lane_0=policy is Policy.PRACTICAL)
    if changed is f:
        return module, f, []
    functions = tuple(changed if x is f else x for x in module.functions)
    return replace(module, functions=functions), changed, of_tiles(module, f, meetings)


def _with_fenced_signals(module: Module, f: Function) -> tuple[Module, Function, list[str]]:
    """The module and the entry with signals behind fences and a barrier as releases; what that relies on."""
    changed, signals = with_fenced_signals(f)
    if changed is f:
        return module, f, []
    functions = tuple(changed if x is f else x for x in module.functions)
    return replace(module, functions=functions), changed, of_fenced_signals(module, f, signals)


def with_whole_block(task: Task) -> Task:
    """The task for the block that is assumed, where the text gives a bound: a witness is of that one."""
    facts = replace(task.kernel.facts, bounded=False, _cache={})
    return replace(task, kernel=replace(task.kernel, facts=facts))


def _plain(module: Module, entry: str, policy: Policy) -> Module:
    """The module with local memory as registers, with the state space at every access, where known, with
    branches for guards on data, and in practical mode with counts of groups of lanes as counts of lanes."""

    def plain(f: Function) -> Function:
        found = with_data_guards_as_branches(with_spaces(promoted(f)))
        return counted_by_lane(found) if policy is Policy.PRACTICAL else found

    functions = (plain(f) if f.name == entry else f for f in module.functions)
    return replace(module, functions=tuple(functions))


def reports_of(task: Task, scope: ScopeKind) -> Iterator[KernelReport]:
    """The report after each step of the ladder; the last one counts. A proof comes last only, for what it
    takes for granted is looked at after it."""
    start = time.perf_counter()

    def finished(report: KernelReport) -> KernelReport:
        seconds = time.perf_counter() - start
        return replace(report, assumptions=(*task.granted, *report.assumptions), seconds=seconds)

    why = checked(task.kernel.module).without_rules
    if why is not None:
        yield finished(_report(task.kernel, unknown(why, task.kernel.span), 0.0))
        return
    k, report = _checked(task.kernel)
    polls = _shared_polls(k)
    if polls:
        yield finished(_waiting(k, report, polls[0]))
        return
    if report.verdict is not Verdict.PROVED:
        yield finished(report)
    if scope is ScopeKind.ALL:
        report = _every_size(k, report)
    else:
        report = _some_variables(k, report)
    if scope is ScopeKind.ALL and report.verdict is not Verdict.PROVED:
        yield finished(report)
    report = with_fewer_threads(k, _published(k, _with_plain_global(k, report)), _check)
    yield finished(with_loops_that_end(k, report))


def proposed_sizes(task: Task, report: KernelReport) -> KernelReport:
    """A refutation for every size, with a note where larger sizes than its own are proved."""
    k = task.kernel
    if report.verdict is not Verdict.REFUTED or not k.facts.symbols():
        return report

    def again(bounds: Bounds) -> tuple[KernelReport, Mapping[str, int]]:
        within = replace(k.facts, assume=(*k.facts.assume, bounds.condition), _cache={})
        boxes = None if k.boxes is None else Boxes()
        fresh = replace(k, facts=within, program=[], assumptions=[], boxes=boxes)
        *_, found = reports_of(Task(fresh, task.granted), ScopeKind.ALL)
        return found, sizes_at(within, found.scope.values)

    sizes = {n: v for n, v in sizes_at(k.facts, report.scope.values).items() if not n.startswith("grid.")}
    file = k.facts.file or f"{k.module.path}.launch.toml"
    where = f'write assume = ["{{}}"] under [kernel.{base_name(k.function.name)}] in {file}'
    return proposed(report, sizes, again, k.span, where)


def _checked(k: CheckTask) -> tuple[CheckTask, KernelReport]:
    """The kernel and its report for the launch, if need be with what lies in shared memory as data."""
    report = _check(k)
    causes = causes_of(report.reason)
    contents = causes & CAUSES[Step.CONTENTS_AS_DATA]
    # where they steer, no access counts as made that something else decides about
    kept = causes & CAUSES[Step.CONTENTS_ASIDE] and k.program and k.program[0].steers
    if report.verdict is Verdict.UNKNOWN and (contents or kept) and not _shared_polls(k):
        as_data = replace(k, shared_contents=False, program=[], assumptions=[])
        again = _check(as_data)
        if again.verdict is Verdict.PROVED or (contents and again.verdict is Verdict.REFUTED):
            return as_data, again
    for meeting in _lanes_only_meet(k, report):
        again = _check(meeting)
        if again.verdict is Verdict.PROVED:
            return meeting, again
    return k, report


def _lanes_only_meet(k: CheckTask, report: KernelReport) -> Iterator[CheckTask]:
    """The kernel with barriers of warps that order nothing, where data keeps it from a verdict; if need be
    first with what lies in shared memory as data."""
    if report.verdict is not Verdict.UNKNOWN or not causes_of(report.reason) & CAUSES[Step.LANES_MEET]:
        return
    if not k.warp_order or k.facts.block is None or _shared_polls(k):
        return
    if with_lanes_that_meet(k, k.function) is k.function:
        return
    if k.program and k.program[0].steers:
        yield replace(k, warp_order=False, shared_contents=False, program=[], assumptions=[])
    yield replace(k, warp_order=False, program=[], assumptions=[])


def _shared_polls(k: CheckTask) -> list[int]:
    """Waits in shared memory, which are no events."""
    if not k.program:
        return []
    p = k.program[0]
    return [at for at in shared_polls(p.flow) if at not in p.flags.waits]


def _waiting(k: CheckTask, report: KernelReport, poll: int) -> KernelReport:
    """The report of a kernel with a wait in shared memory: nothing is proved, for that it ends is not known.
    What is wrong with it if all waits end is wrong if an execution does the harm."""
    at = k.module.span(k.program[0].body[poll])
    text = (
        f"{at}: waits in shared memory for what another thread writes, which is not followed (that the other "
        "thread goes on, and writes it, would have to be assumed); a barrier or an mbarrier would say it"
    )
    found = report
    if report.verdict is not Verdict.REFUTED:
        found = _check(replace(k, shared_contents=False, program=[], assumptions=[]))
    suspect = found if found.verdict is Verdict.REFUTED else found.suspect
    why = Reason(text, Cause.SHARED_CONTENTS)
    note = Diagnostic("SV902", Severity.WARNING, why, at)
    return replace(
        report,
        verdict=Verdict.UNKNOWN,
        reason=why,
        witness=None,
        diagnostics=(note,),
        refuted_system=None,
        refuted_facts=None,
        suspect=suspect or report.suspect,
        undecided=k,
    )


def _every_size(k: CheckTask, report: KernelReport) -> KernelReport:
    """A proof for every size that is left open, where the report cannot do without a number; or the smallest
    sizes that refute the kernel; or the report, with a note."""
    if report.verdict is not Verdict.UNKNOWN or k.checker.prove is None or k.facts.block is None:
        return _smallest(k, report)
    start = time.perf_counter()
    early = refuted_early(k, _at)
    if early is not None and (wrong := _at(k, early)).verdict is Verdict.REFUTED:
        return replace(wrong, seconds=time.perf_counter() - start)
    if Cause.UNWRITTEN in causes_of(report.reason):
        return _smallest(k, report)  # no size writes the address
    k, found = _with_words(k, report)
    if found is None:
        undecided = bool(causes_of(report.reason) & CAUSES[Step.ANY_GRID])
    else:
        undecided = found.verdict is Verdict.UNKNOWN
    if undecided and (wider := _any_grid(k)) is not None:
        wider, again = _with_words(wider, report)
        if again is not None and again.verdict is Verdict.PROVED and not _stops_for_some(k, wider, again):
            k, found = wider, again
    if found is None:
        return _smallest(k, report)
    if found.verdict is Verdict.REFUTED:
        return replace(_at(k, found.values), seconds=time.perf_counter() - start)
    if found.verdict is Verdict.PROVED:
        short = _outside_dynamic(k)
        if short is not None:
            return replace(short, seconds=time.perf_counter() - start)
        return replace(
            report,
            verdict=Verdict.PROVED,
            reason=None,
            seconds=report.seconds + time.perf_counter() - start,
            assumptions=(*_assumptions(k, found.diagnostics), *of_dynamic(k.facts), NO_WRAP),
            diagnostics=tuple(d if d.span.line else replace(d, span=k.span) for d in found.diagnostics),
            stats=found.stats,
        )
    why = caused(found.reason or "", Cause.NO_PROOF)
    reason = Reason(f"this is not shown for every size: {why}", parts=(why,))
    note = Diagnostic("SV902", Severity.NOTE, reason, k.span)
    first = report.reason
    if found.reason != report.reason:
        first = Reason(f"{reason}; {report.reason}", parts=(reason, report.reason or ""))
    suspect = report.suspect if report.suspect is not None else next(iter(k.suspects), None)
    noted = replace(report, reason=first, diagnostics=(note, *report.diagnostics), suspect=suspect)
    return _smallest(k, noted)


def _outside_dynamic(k: CheckTask) -> KernelReport | None:
    """A refutation by numbers where dynamic shared memory has as many bytes as sizes say: for every size an
    access is held against the most that a block can have, for a few against what it has."""
    found = (_at(k, sizes) for sizes in edge_sizes(k.facts))
    return next((report for report in found if report.verdict is Verdict.REFUTED), None)


def _at(k: CheckTask, values: Mapping[str, int]) -> KernelReport:
    """The report for numbers."""
    return _check(replace(k, facts=_bound(k, values), assumptions=[]))


def _with_words(k: CheckTask, report: KernelReport) -> tuple[CheckTask, Any]:
    """What is found for every size, if need be with what is loaded and has no number as sizes too, or with
    what lies in shared memory as data."""
    for fewer in (_with_fewer_terms(k), _without_stored_values(k)):
        again = None if fewer is None else _tried(fewer)
        if fewer is not None and again is not None and again.verdict is Verdict.PROVED:
            return fewer, again
    found = _tried(k)
    if causes_of(report.reason if found is None else found.reason) & CAUSES[Step.LOADS_AS_SIZES]:
        words = replace(k, loads_as_symbols=True, program=[], assumptions=[])
        again = _tried(words)
        if again is not None and again.verdict is Verdict.PROVED:
            return words, again
    causes = causes_of(report.reason if found is None else found.reason)
    if k.shared_contents and causes & CAUSES[Step.CONTENTS_AS_DATA]:
        as_data = replace(k, shared_contents=False, program=[], assumptions=[])
        again = _tried(as_data)
        if again is not None and again.verdict is not Verdict.UNKNOWN:
            return as_data, again
    for meeting in _lanes_only_meet(k, report if found is None else found):
        again = _tried(meeting)
        if again is not None and again.verdict is Verdict.PROVED:
            return meeting, again
    for both in (True, False) if causes & CAUSES[Step.DATA_AS_WORDS] else ():
        words = replace(
            k, loads_as_symbols=True, data_as_words=True, sizes_as_data=both, program=[], assumptions=[]
        )
        if both and not k.facts.symbols():
            continue
        again = _tried(words)
        if again is not None and again.verdict is Verdict.PROVED and _counts_are_fenced(words):
            return words, again
    return k, found


def _counts_are_fenced(k: CheckTask) -> bool:
    """Whether blocks that count themselves publish what they wrote before; what is read there is assumed to
    be theirs."""
    p = k.program[0]
    k.assumptions += of_overlaps(k.facts, p)
    counts = steering_counts(p.flow, p.slice.registers)
    return unfenced_count(p.flow, counts, p.origins) is None


def _published(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report, if not what blocks wrote before they counted themselves may be read without a fence: that
    no one waits, so that accesses to global memory have no events, proves nothing of it."""
    p = k.program[0] if k.program else None
    if (
        report.verdict is not Verdict.PROVED
        or p is None
        or p.handing is not None
        or k.facts.grid == (1, 1, 1)
    ):
        return report
    at = unfenced_count(p.flow, used_counts(p.flow), p.origins, certain=True)
    if at is None:
        return report
    span = k.module.span(p.body[at])
    text = (
        f"{span}: the block that counts last may read what is written here, and no __threadfence() of every "
        "writer, followed by a barrier, stands between the write and the count"
    )
    why = Reason(text, Cause.GLOBAL_DATA)
    note = Diagnostic("SV902", Severity.WARNING, why, span)
    return replace(report, verdict=Verdict.UNKNOWN, reason=why, diagnostics=(note, *report.diagnostics))


def _stops_for_some(k: CheckTask, wider: CheckTask, found: Any) -> bool:
    """Whether an assertion may fail for the grid that the facts give, and for another one does not."""
    trusted = [{p.sites[s].span for p in x.program for s in p.trusted} for x in (k, wider)]
    return bool(found.stopped) or not trusted[1] <= trusted[0]


def _any_grid(k: CheckTask) -> CheckTask | None:
    """The same launched with any number of CTAs, where the facts give it: what holds for every grid holds for
    that one, and of blocks that are known by number each is another state. None if they do not give it."""
    any_ = (Var("grid.x"), Var("grid.y"), Var("grid.z"))
    x, y, z = (e if e == 1 or not isinstance(e, int) else v for e, v in zip(k.facts.grid, any_, strict=True))
    if (x, y, z) == k.facts.grid:
        return None
    return replace(k, facts=replace(k.facts, grid=(x, y, z), _cache={}), program=[], assumptions=[])


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
    return replace(k, terms=terms, program=[], assumptions=[])


def _without_stored_values(k: CheckTask) -> CheckTask | None:
    """The same with what is only stored in shared memory as data, for numbers that each lane counts up make
    ever new states; None if there are no such numbers."""
    launch, whole = compiled(k)
    program = narrowed(k, launch, whole)
    if program.handing is not None or program.without_stored_values is None:
        return None
    return replace(k, stored_values=False, program=[], assumptions=[])


def _for_sizes(k: CheckTask, program: Program) -> Program:
    """The code for sizes without a number, less what this attempt takes for data."""
    if k.terms is not None and (by_lane := lane_conditions(program.for_sizes)):
        return program.without_conditions(by_lane)
    if not k.stored_values and program.without_stored_values is not None:
        return program.without_stored_values
    return program.for_sizes


def _terms(k: CheckTask, program: Program) -> dict[str, tuple[int, int | None]]:
    """The open sizes that are terms in a proof for every size, with their ranges."""
    sizes = {} if k.sizes_as_data else open_sizes(k.facts, program)
    return sizes if k.terms is None else {n: x for n, x in sizes.items() if n in k.terms}


def _tried(k: CheckTask) -> Any:
    """What is found for every size; None if nothing can be."""
    assert k.checker.prove is not None
    brief = k.data_as_words or k.terms is not None or not k.stored_values
    briefly = k.checker.briefly if brief else None
    try:
        return _proof(k, briefly or k.checker.prove)
    except NotConcrete:
        return None


def _bound(k: CheckTask, values: Mapping[str, int]) -> PtxFacts:
    """The facts for numbers; extents of the grid that nothing depends on are as small as can be."""
    least = dict(zip(("grid.x", "grid.y", "grid.z"), k.facts.cluster or (1, 1, 1), strict=True))
    known = k.facts.symbols()
    return k.facts.bind({n: v for n, v in least.items() if n in known} | dict(values))


def _proof(k: CheckTask, prove: Prove) -> Any:
    """What is found for every size, with every answer to questions that have one for all agents; None if no
    size is open."""
    launch, whole = compiled(k)
    program = narrowed(k, launch, whole)
    clusters = 1
    if program.handing is not None:
        program = in_block_groups(k, program)
        assert program.block_groups is not None
        clusters = program.block_groups.size // launch.ctas
    program = _for_sizes(k, program)
    sizes = _terms(k, program)
    if not (sizes or program.words or program.any_data):
        return None
    k.assumptions += of_words(k.facts, program)
    if k.boxes is not None and copies_tensors(program):
        launch = inferred(k, launch, whole)
    facts = tuple(c for c in k.facts.constraints() if names(c) <= sizes.keys())
    left = [MOST_EXACT]

    def exact(values: Mapping[str, int]) -> Verdict:
        left[0] -= 1
        if left[0] < 0:
            return Verdict.UNKNOWN
        with whole.stores_kept():
            found = _check(replace(k, facts=_bound(k, values), assumptions=[]))
        if found.suspect is not None:
            k.suspects.append(found.suspect)
        return found.verdict

    answers: list[dict[Any, int]] = [{}]
    steered: set[Any] = set()
    stopped: dict[int, str] = {}
    last: Any = None
    while answers:
        taken = answers.pop()
        asked: dict[Any, str] = {}
        opened = replace(launch, answers=taken)
        lanes = elected(k, program, launch, None)
        systems = open_systems(program, opened, k.facts, lanes, k.hash, asked, apart=True)
        alone = None
        if clusters > 1:
            alone = open_systems(program, opened, k.facts, lanes, k.hash, asked, apart=True, alone=True)
        more = asked if len(taken) < MAX_CHOICES else {}
        try:
            last = prove(sizes, facts, systems, exact, k.policy, clusters, alone)
            unknown, reason = last.verdict is Verdict.UNKNOWN, last.reason or ""
        except NotShownError as e:
            if not any(made_of(e.reason, why) for why in more.values()):
                raise
            unknown, reason = True, e.reason
        if unknown and more:
            question = question_of([reason], more)
            answers += [{**taken, question: 1}, {**taken, question: 0}]
            steered.add(question)
        elif last.verdict is not Verdict.PROVED:
            return last
        else:
            stopped |= last.stopped
    k.assumptions += [*of_stores(program), *of_common(k.facts, program, steered)]
    k.assumptions += of_stops(program, stopped)
    if last is not None:
        k.assumptions += of_block_groups(k.facts, program, last.restores)
    return last


def _smallest(k: CheckTask, report: KernelReport) -> KernelReport:
    """Where open sizes leave a kernel undecided: the smallest of the first few that refute it, if any do."""
    if report.verdict is not Verdict.UNKNOWN:
        return report
    for sizes in small_sizes(k.facts):
        found = _check(replace(k, facts=k.facts.bind(sizes), assumptions=[]))
        if found.verdict is Verdict.REFUTED:
            return found
        if found.verdict is Verdict.UNKNOWN and report.suspect is None:
            report = replace(report, suspect=found.suspect)
        if found.verdict is Verdict.UNKNOWN and not has(found.reason, Cause.NO_PROOF):
            break  # larger ones will not do better
    return _some_variables(k, report)


def _some_variables(k: CheckTask, report: KernelReport) -> KernelReport:
    """Where variables that the host sets leave a kernel undecided: a few numbers for them that refute it."""
    p = k.program[0] if k.program else None
    if p is None or report.verdict is not Verdict.UNKNOWN:
        return report
    names = {x for n in p.variables & p.slice.pure for x in p.origins.of(p.body[n].operands[1])}
    known = {v.name: v for v in (*k.module.variables, *k.function.variables) if v.name in names}
    wanted = [v for v in known.values() if v.name not in k.facts.images and 0 < v.size <= 8]
    if not wanted or len(wanted) > MOST_VARIABLES:
        return report
    starts = {int.from_bytes((v.init or b"")[:8], "little") for v in wanted}
    for value in sorted({0, 1} | starts):
        bound = {f"{VARIABLE}{v.name}": value for v in wanted}
        found = _check(replace(k, facts=k.facts.bind(bound), assumptions=[]))
        if found.verdict is Verdict.REFUTED:
            return found
    return report


def _with_plain_global(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report; or a refutation where blocks read what others write, with nothing to wait for."""
    if report.verdict is Verdict.REFUTED or not k.checker.again or not k.program:
        return report
    if k.program[0].exchanges is None:
        return report
    start = time.perf_counter()
    followed = replace(k, tracks_plain_global=True, program=[], assumptions=[])
    for facts in [k.facts] if not k.facts.symbols() else some_sizes(k.facts):
        found = _check(replace(followed, facts=facts, assumptions=[]))
        if found.verdict is Verdict.REFUTED and found.stats.get("exchange"):
            return replace(found, seconds=report.seconds + time.perf_counter() - start)
    return report


def _check(k: CheckTask) -> KernelReport:
    start = time.perf_counter()
    for program in k.program:
        program.forget_stores()
    outcome = k.checker.merge(outcomes(k))
    report = _with_witness(k, outcome, time.perf_counter() - start)
    if outcome.suspect is None:
        return report
    return replace(report, suspect=_with_witness(k, outcome.suspect, report.seconds))


def _with_witness(k: CheckTask, outcome: Outcome, seconds: float) -> KernelReport:
    witness = outcome.witness
    values = numbers_of(k.facts)
    if witness is not None:
        witness = replace(
            witness,
            kernel=k.function.name,
            file=k.module.path,
            source_hash=k.hash,
            policy=k.policy,
            values=values,
        )
    return _report(k, replace(outcome, witness=witness), seconds)


def _report(k: CheckTask, outcome: Outcome, seconds: float) -> KernelReport:
    """What is said of a kernel whose systems have that outcome."""
    return KernelReport(
        name=k.function.name,
        file=k.module.path,
        verdict=outcome.verdict,
        policy=k.policy,
        scope=_scope(k),
        arch=k.module.target,
        reason=outcome.reason,
        seconds=seconds,
        witness=outcome.witness,
        assumptions=_assumptions(k, outcome.diagnostics),
        diagnostics=tuple(d if d.span.line else replace(d, span=k.span) for d in outcome.diagnostics),
        stats=outcome.stats,
        refuted_system=outcome.system,
        refuted_facts=k.facts if outcome.verdict is Verdict.REFUTED else None,
        undecided=k if outcome.verdict is Verdict.UNKNOWN else None,
    )


def _scope(k: CheckTask) -> Scope:
    values = numbers_of(k.facts)
    names = place_names(k.function.params, list(values))
    return Scope(covered(k.facts), values, tuple(map(text, k.facts.assume)), names)


def _assumptions(k: CheckTask, diagnostics: Iterable[Diagnostic]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*k.assumptions, *_boxes_taken(k), *of_warnings(diagnostics))))


def _boxes_taken(k: CheckTask) -> list[str]:
    return [] if k.boxes is None else k.boxes.assumptions(k.module.path)


__all__ = ["Checker", "Task", "check_module", "kernel_task", "proposed_sizes", "reports_of"]
