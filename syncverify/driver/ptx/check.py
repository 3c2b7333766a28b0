"""The check of a PTX file's kernels: launch facts into systems, their outcomes into reports.

What decides (``Checker.judge``, ``Checker.prove``) comes from the caller, one floor up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, ScopeKind, Severity, Verdict
from syncverify.base.kernel_names import base_name, matches
from syncverify.base.reason import Cause, Reason, causes_of, has
from syncverify.base.source import InputError
from syncverify.checker.prover.strategy import CAUSES, Step
from syncverify.driver.ptx.abstractions import (
    inside_arrays,
    lanes_only_meet,
    polls_not_followed,
    steers,
    with_contents_as_data,
    with_copies_apart,
    with_turns,
)
from syncverify.driver.ptx.asked_words import read_by_answer
from syncverify.driver.ptx.assumptions import (
    PLACED_BY_DATA,
    ZERO_FLAGS,
    of_copies_apart,
    of_fenced_signals,
    of_first_guesses,
    of_tiles,
)
from syncverify.driver.ptx.block import of_bound, with_fewer_threads
from syncverify.driver.ptx.carved import with_carved_arrays
from syncverify.driver.ptx.common_places import stored_by_several
from syncverify.driver.ptx.crowded_places import crowded_store
from syncverify.driver.ptx.data_places import placed_on_others
from syncverify.driver.ptx.endless import with_loops_that_end
from syncverify.driver.ptx.every_size import (
    for_every_size,
    proved_by_places,
    proved_without_barriers,
    sizes_inside_arrays,
    some_variables,
)
from syncverify.driver.ptx.inferred_pointers import of_pointers, with_pointers
from syncverify.driver.ptx.launch_report import check_launch, report_of
from syncverify.driver.ptx.lost_updates import read_while_written
from syncverify.driver.ptx.made_maps import made_otherwise
from syncverify.driver.ptx.map_places import map_of_several
from syncverify.driver.ptx.task import Checker, CheckTask, EntryCode
from syncverify.driver.ptx.tensor_places import copied_by_several
from syncverify.driver.reports.outcomes import undecided
from syncverify.driver.reports.size_proposals import Bounds, proposed
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges
from syncverify.frontends.ptx.analysis.arrays.meant_alignment import of_alignment, with_meant_alignment
from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.analysis.exclusion.swap_loops import turns_that_decide
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import (
    read_by_the_last,
    unacquired_read,
    unfenced_count,
    used_counts,
)
from syncverify.frontends.ptx.analysis.global_memory.discards import read_after_discard
from syncverify.frontends.ptx.analysis.global_memory.read_only_loads import loads_anywhere, written_load
from syncverify.frontends.ptx.analysis.handover.first_guesses import with_first_guesses
from syncverify.frontends.ptx.analysis.handover.handover_detection import tensor_copies
from syncverify.frontends.ptx.analysis.handover.path_conditions import LaunchValues
from syncverify.frontends.ptx.analysis.handover.unset_paths import unset_decisions, unset_paths
from syncverify.frontends.ptx.analysis.polls.fenced_signals import with_fenced_signals
from syncverify.frontends.ptx.analysis.registers.uniformity import LANES
from syncverify.frontends.ptx.analysis.warps.tile_barriers import with_tile_barriers
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.exec.tables import layout
from syncverify.frontends.ptx.flow.address_spaces import with_spaces
from syncverify.frontends.ptx.flow.data_guards import with_data_guards_as_branches
from syncverify.frontends.ptx.flow.inline_calls import inlined
from syncverify.frontends.ptx.flow.joined_guards import with_joined_guards_apart
from syncverify.frontends.ptx.flow.joined_signs import with_signs_apart
from syncverify.frontends.ptx.flow.lane_waits import with_lane_waits
from syncverify.frontends.ptx.flow.promote_locals import promoted
from syncverify.frontends.ptx.flow.uniform_branches import with_promises
from syncverify.frontends.ptx.flow.values_apart import with_values_apart
from syncverify.frontends.ptx.flow.warp_counts import counted_by_lane
from syncverify.frontends.ptx.isa.validate import checked, without_rules
from syncverify.frontends.ptx.launch.concretize import sizes_at
from syncverify.frontends.ptx.launch.facts import VARIABLE, PtxFacts, demand_launch, ptx_facts
from syncverify.frontends.ptx.launch.meant_launches import (
    asked_launches,
    asks_otherwise,
    asks_places,
    is_of_meant_axes,
    of_meant_axes,
    unasked_counts,
    with_others,
)
from syncverify.frontends.ptx.launch.parameters import INTEGERS
from syncverify.frontends.ptx.launch.tensormap_boxes import InferredBoxes
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Module
from syncverify.frontends.ptx.syntax.types import RANK
from syncverify.frontends.ptx.values.symbolic_words import NO_WRAP

_Found = TypeVar("_Found")


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
    """A report for the entry of the name ``kernel``; else for each whose name (or its part before the
    template arguments) matches it.

    ``values``: numbers for sizes that the facts leave open. ``infer``: boxes of tensor maps that the facts
    leave out may be taken from the bytes that the kernel expects, as assumptions. Raises InputError for facts
    that do not fit a kernel; with ``on_error`` it is handed there and the others are still checked.
    """
    valid = checked(module)
    module = valid.module
    named = {f.name for f in module.entries}
    reports = []
    if kernel is None and (uncalled := valid.uncalled()) is not None:
        if on_error is None:
            raise uncalled
        on_error(uncalled)
    for f in module.entries:
        if kernel is not None and not (f.name == kernel if kernel in named else matches(f.name, kernel)):
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
    """An entry with its facts, ready to be checked. ``granted``: what is assumed of the facts.
    ``usual``: its block is one of those that are usual, so that a proof by places comes ahead of the long
    search; ``places_first``: also ahead of all else, which may assume less; ``places_alone``: nothing else.
    """

    kernel: CheckTask
    granted: tuple[str, ...]
    usual: bool = False
    places_first: bool = False
    places_alone: bool = False


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
    asking = replace(valid.module, functions=tuple(map(with_promises, valid.module.functions)))
    module = _plain(inlined(asking, f.name), f.name, policy)
    f = next(x for x in module.functions if x.name == f.name)
    known = ptx_facts(facts, f, module)
    module, f, _ = _applied(module, f, (with_lane_waits(f, known.block), ()), lambda *_: [])
    tiles = with_tile_barriers(f, known.block, by_lane_0=policy is Policy.PRACTICAL)
    module, f, met = _applied(module, f, tiles, of_tiles)
    if policy is Policy.PRACTICAL:
        module, f, signals = _applied(module, f, with_fenced_signals(f), of_fenced_signals)
        met += signals
        module, f, guesses = _applied(module, f, with_first_guesses(f), of_first_guesses)
        met += guesses
        module, f, meant = with_meant_alignment(module, f)
        met += of_alignment(module, f, meant)
    symbols = known.symbols()
    values = known.spelled(values)
    wanted = {n: v for n, v in values.items() if n in symbols or n.startswith(VARIABLE)}
    if values and len(module.entries) == 1:
        wanted = dict(values)
    bound = known.bind(wanted) if wanted else known
    granted = demand_launch(facts, f, known, {n: v for n, v in wanted.items() if n in symbols})
    boxes = InferredBoxes() if infer else None
    k = CheckTask(EntryCode(module, f, bound), bound, policy, checker, source_hash, boxes)
    return Task(k, (*granted, *of_bound(known), *met))


def _applied(
    module: Module,
    f: Function,
    rewritten: tuple[Function, _Found],
    relied: Callable[[Module, Function, _Found], list[str]],
) -> tuple[Module, Function, list[str]]:
    """The module and the entry as an analysis rewrote it, and what that relies on."""
    changed, found = rewritten
    if changed is f:
        return module, f, []
    functions = tuple(changed if x is f else x for x in module.functions)
    return replace(module, functions=functions), changed, relied(module, f, found)


def with_whole_block(task: Task) -> Task:
    """The task for the block that is assumed, where the text gives a bound: a witness is of that one."""
    facts = replace(task.kernel.facts, bounded=False, _cache={})
    return replace(task, kernel=task.kernel.launched(facts))


def _plain(module: Module, entry: str, policy: Policy) -> Module:
    """The module with local memory as registers, a register for each value, the state space at every access,
    where known, joined signs and guards apart, and branches for guards on data. In practical mode counts of
    groups of lanes are counts of lanes."""

    def plain(f: Function) -> Function:
        apart = with_joined_guards_apart(with_signs_apart(with_spaces(with_values_apart(promoted(f)))))
        found = with_data_guards_as_branches(apart)
        return counted_by_lane(found) if policy is Policy.PRACTICAL else found

    functions = (plain(f) if f.name == entry else f for f in module.functions)
    return replace(module, functions=tuple(functions))


def reports_of(task: Task, scope: ScopeKind) -> Iterator[KernelReport]:
    """The report after each step of the ladder; the last one counts. A proof comes last only, for what it
    takes for granted is looked at after it.

    Where the places of bulk copies leave it open, the ladder begins again: that they differ is an assumption.
    """
    report = None
    for report in _in_both_layouts(task, scope):
        yield report
    apart = with_copies_apart(task.kernel)
    if report is not None and report.verdict is Verdict.UNKNOWN and apart is not None:
        yield from _in_both_layouts(Task(apart, (*task.granted, *of_copies_apart(apart.code.program))), scope)


def _in_both_layouts(task: Task, scope: ScopeKind) -> Iterator[KernelReport]:
    """The report after each step. A proof counts if there is one for the second layout of shared variables,
    too, where some access may leave its variable for another one."""
    for report in _ladder(task, scope):
        if report.verdict is not Verdict.PROVED or not _layouts_matter(task.kernel):
            yield report
            continue
        *_, again = _ladder(replace(task, kernel=replace(task.kernel, second_layout=True)), scope)
        seconds = report.seconds + again.seconds
        if again.verdict is Verdict.PROVED:
            said = dict.fromkeys((*report.assumptions, *again.assumptions))
            again = replace(report, assumptions=tuple(said))
        yield replace(again, seconds=seconds)


def _layouts_matter(k: CheckTask) -> bool:
    """Whether which of several shared variables an access is in is open in the text."""
    p = k.code.compiled
    if p is None or not p.room_for_arrays:
        return False
    return len(layout(p.module, p.function, None).names) > 1


def _ladder(task: Task, scope: ScopeKind) -> Iterator[KernelReport]:
    """The report after each step, from what decides most for little effort."""
    start = time.perf_counter()

    def finished(report: KernelReport) -> KernelReport:
        seconds = time.perf_counter() - start
        granted = (*task.granted, *of_pointers(task.kernel.facts, k.facts))
        if k.boxes is not None and has(report.reason, Cause.MISSING_BOX):
            report = replace(report, diagnostics=(*k.boxes.latest.doubts, *report.diagnostics))
        said = sorted((*granted, *report.assumptions), key=_shown_late)
        return replace(report, assumptions=tuple(said), seconds=seconds)

    k = task.kernel
    why = without_rules(task.kernel.module)
    if why is not None:
        yield finished(report_of(task.kernel, undecided(why, task.kernel.span), 0.0))
        return
    first = (task.places_first or task.places_alone) and scope is ScopeKind.ALL
    soon = proved_by_places(k) if first else None
    if task.places_alone and soon is None:
        yield finished(report_of(k, undecided("no proof by places", k.span), 0.0))
        return
    k, report = _with_pointers(*_checked(k)) if soon is None else (k, soon)
    polls = polls_not_followed(k)
    if polls:
        yield finished(_waiting(k, report, polls[0]))
        return
    if report.verdict is not Verdict.PROVED:
        yield finished(report)
    if soon is not None:
        pass
    elif scope is ScopeKind.ALL:
        report = for_every_size(k, report, _places_soon if task.usual else with_carved_arrays)
    else:
        report = some_variables(k, report)
        report = with_carved_arrays(k, report)
    report = _inside_arrays(k, report, scope)
    if scope is ScopeKind.ALL and report.verdict is not Verdict.PROVED:
        yield finished(report)
    report = _in_arrays(k, report)
    report = _stored_apart(k, _as_written(k, _published(k, _with_plain_global(k, report))))
    report = with_fewer_threads(k, report, check_launch)
    yield finished(with_loops_that_end(k, report))


def _places_soon(k: CheckTask, report: KernelReport) -> KernelReport:
    """What comes ahead of the long search for a usual block, as several are asked for one budget."""
    found = proved_without_barriers(k, report)
    return with_carved_arrays(k, report) if found is report else found


def _shown_late(assumption: str) -> bool:
    """Whether an assumption may stand behind others, where a format shows the first ones alone."""
    return assumption != NO_WRAP and not is_of_meant_axes(assumption)


def _with_pointers(k: CheckTask, report: KernelReport) -> tuple[CheckTask, KernelReport]:
    """The kernel and its report, with inferred pointers where no fact but these is missing."""
    missing = report.verdict is Verdict.UNKNOWN and Cause.MISSING_FACT in causes_of(report.reason)
    if not missing or k.boxes is None or k.code.compiled is None:
        return k, report
    facts = with_pointers(k.facts, k.code.compiled)
    if facts is None:
        return k, report
    again, found = _checked(replace(k.launched(facts), boxes=InferredBoxes()))
    still = found.verdict is Verdict.UNKNOWN and Cause.MISSING_FACT in causes_of(found.reason)
    return (k, report) if still else (again, found)


def proposed_sizes(task: Task, report: KernelReport) -> KernelReport:
    """A refutation for every size, with a note where larger sizes than its own are proved."""
    k = task.kernel
    if report.verdict is not Verdict.REFUTED or not k.facts.symbols():
        return report

    def again(bounds: Bounds) -> tuple[KernelReport, Mapping[str, int]]:
        within = replace(k.facts, assume=(*k.facts.assume, bounds.condition), _cache={})
        boxes = None if k.boxes is None else InferredBoxes()
        fresh = replace(k.launched(within), boxes=boxes)
        *_, found = reports_of(Task(fresh, task.granted), ScopeKind.ALL)
        return found, sizes_at(within, found.scope.values)

    sizes = {n: v for n, v in sizes_at(k.facts, report.scope.values).items() if not n.startswith("grid.")}
    file = k.facts.file or f"{k.module.path}.launch.toml"
    where = f'write assume = ["{{}}"] under [kernel.{base_name(k.function.name)}] in {file}'
    return proposed(report, sizes, again, k.span, where)


def _checked(k: CheckTask) -> tuple[CheckTask, KernelReport]:
    """The kernel and its report for the launch, if need be with what lies in shared memory as data."""
    report = check_launch(k)
    causes = causes_of(report.reason)
    contents = causes & CAUSES[Step.CONTENTS_AS_DATA]
    # where they steer, no access counts as made that something else decides about
    kept = causes & CAUSES[Step.CONTENTS_ASIDE] and steers(k)
    if report.verdict is Verdict.UNKNOWN and (contents or kept) and not polls_not_followed(k):
        as_data = with_contents_as_data(k)
        again = check_launch(as_data)
        if again.verdict is Verdict.PROVED or (contents and again.verdict is Verdict.REFUTED):
            return as_data, again
    for meeting in lanes_only_meet(k, report.reason):
        again = check_launch(meeting)
        if again.verdict is Verdict.PROVED:
            return meeting, again
    for in_turn in with_turns(k) if report.verdict is Verdict.UNKNOWN else ():
        again = check_launch(in_turn)
        if again.verdict is Verdict.PROVED:
            return in_turn, again
        report = replace(report, suspect=report.suspect or again.suspect)
    return k, report


def _inside_arrays(k: CheckTask, report: KernelReport, scope: ScopeKind) -> KernelReport:
    """The report; or a proof that takes accesses which data places to stay inside the arrays that they name,
    where the whole of shared memory for these leaves the kernel undecided."""
    if report.verdict is not Verdict.UNKNOWN or k.facts.block is None or not _places_in_arrays(k):
        return report
    narrower, again = _checked(inside_arrays(k))
    if again.verdict is Verdict.PROVED:
        return again
    found = sizes_inside_arrays(narrower, again) if scope is ScopeKind.ALL else again
    return report if found is again else found


def _places_in_arrays(k: CheckTask) -> bool:
    """Whether data may place an access in one of several shared arrays, which its address names."""
    p = k.code.compiled
    if p is None or k.facts.block is None:
        return False
    laid = layout(p.module, p.function, None)
    if len(laid.names) < 2:
        return False
    named = NamedArrays(p.flow, dict.fromkeys(laid.shared, 1 << RANK))
    ranges = AddressRanges(p.flow, laid.shared, k.facts.block)
    shared = [n for n, e in p.decoded.items() if isinstance(e, Access) and e.space == "shared"]
    return any(ranges.reached(n).places is None and named.of(n) is not None for n in shared)


def _waiting(k: CheckTask, report: KernelReport, poll: int) -> KernelReport:
    """The report of a kernel with a wait in shared memory: nothing is proved, for that it ends is not known.
    What is wrong with it if all waits end is wrong if an execution does the harm."""
    at = k.module.span(k.code.program.body[poll])
    text = (
        f"{at}: waits in shared memory for what another thread writes, which is not followed (that the other "
        "thread goes on, and writes it, would have to be assumed); a barrier or an mbarrier would say it"
    )
    found = report
    if report.verdict is not Verdict.REFUTED:
        found = check_launch(with_contents_as_data(k))
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


def _in_arrays(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report, if not an access may leave its array, or go anywhere, where data decides about it: what
    has no events was not executed; and if no register without a value decides what threads do together. Else
    with what data says of places that nothing bounds."""
    p, block = k.code.compiled, k.facts.block
    if report.verdict is not Verdict.PROVED or p is None or block is None:
        return report
    threads = LaunchValues(p.flow, block, partial(_number, k))
    for path in unset_paths(p.flow, threads):
        text = f"register {path.register.partition('~')[0]} of this address has no value on some path to it"
        return _undecided_at(k, report, p.body[path.k], text)
    for path in unset_decisions(p.flow, threads, partial(_number, k)):
        text = f"register {path.register.partition('~')[0]} of this decision has no value on some path to it"
        return _undecided_at(k, report, p.body[path.k], text)
    said = set[str]()
    for place in p.outside_shared(block):
        if place.beyond is not None:
            return _undecided_at(
                k, report, p.body[place.k], f"data decides about this access: {place.beyond}"
            )
        said.add(f"line {k.module.span(p.body[place.k]).line}: {PLACED_BY_DATA} `{place.name}`")
    return replace(report, assumptions=(*report.assumptions, *sorted(said))) if said else report


def _number(k: CheckTask, name: str, offset: int, size: int) -> int | None:
    """The number that the launch gives for some bytes of a parameter."""
    leaf = k.facts.leaf([p.name for p in k.function.params].index(name), offset, size)
    return leaf.value if leaf.given and leaf.kind in INTEGERS and isinstance(leaf.value, int) else None


def _undecided_for(k: CheckTask, report: KernelReport, text: str) -> KernelReport:
    """A report of a kernel that a fact of its launch would decide."""
    why = Reason(f"{k.span}: {text}", Cause.MISSING_FACT)
    note = Diagnostic("SV902", Severity.WARNING, why, k.span)
    diagnostics = (note, *report.diagnostics)
    return replace(report, verdict=Verdict.UNKNOWN, reason=why, proof=None, diagnostics=diagnostics)


def _undecided_at(k: CheckTask, report: KernelReport, i: Instr, text: str) -> KernelReport:
    """A report of a kernel of which an instruction leaves open whether it is right."""
    span = k.module.span(i)
    why = Reason(f"{span}: {text}", Cause.DATA)
    note = Diagnostic("SV902", Severity.WARNING, why, span)
    diagnostics = (note, *report.diagnostics)
    return replace(report, verdict=Verdict.UNKNOWN, reason=why, diagnostics=diagnostics, undecided=k)


def _published(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report, if not what blocks wrote before they counted themselves may be read without a fence: that
    no one waits, so that accesses to global memory have no events, proves nothing of it. Nor does it where
    blocks decide by such counts: whether an execution does harm there is to be asked of the second reader."""
    p = k.code.compiled
    if report.verdict is not Verdict.PROVED or p is None or k.facts.grid == (1, 1, 1):
        return report
    if p.handing is not None and p.handing.again is None:
        return _of_the_last(k, report) if p.only_counts(p.handing) else report
    counts = used_counts(p.flow)
    written = unfenced_count(p.flow, counts, p.origins, certain=True)
    read = unacquired_read(p.flow, counts, p.origins, certain=True)
    at = read if written is None else written
    if at is None:
        return _of_the_last(k, report) if read_by_the_last(p.flow, counts, p.origins) else report
    span = k.module.span(p.body[at])
    text = f"{span}: " + (
        "the block that counts last may read here what others wrote, and no __threadfence() stands between "
        "the count and the read"
        if written is None
        else "the block that counts last may read what is written here, and no __threadfence() of every "
        "writer, followed by a barrier, stands between the write and the count"
    )
    why = Reason(text, Cause.GLOBAL_DATA)
    note = Diagnostic("SV902", Severity.WARNING, why, span)
    diagnostics = (note, *report.diagnostics)
    return replace(report, verdict=Verdict.UNKNOWN, reason=why, diagnostics=diagnostics, undecided=k)


def _of_the_last(k: CheckTask, report: KernelReport) -> KernelReport:
    """A proof of a kernel in which the block that counts last goes on, with what it rests on: executions are
    asked whether it is the last. No proof, where they are not in a grid that the text may be meant for."""
    given = all(isinstance(e, int) for e in k.facts.grid)
    counts = [] if given else unasked_counts(k.function)
    if counts:
        text = (
            f"the kernel compares a count of blocks with {counts[0]}: whether it is right for as many, and "
            "for others, is not asked: give grid in a launch file"
        )
        return _undecided_for(k, report, text)
    if not given and asks_otherwise(k.function):
        text = (
            "the kernel compares what it makes of a count of blocks: for how many blocks it is meant is not "
            "read there: give grid in a launch file"
        )
        return _undecided_for(k, report, text)
    taken = (ZERO_FLAGS, *of_meant_axes(k.facts, k.function))
    return replace(report, doubted=k, assumptions=tuple(dict.fromkeys((*report.assumptions, *taken))))


def _as_written(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report, if not a load may bring something else than its last write left in global memory: it goes
    past what the kernel writes, or reads what it discarded. Else with what is assumed of such loads."""
    p = k.code.compiled
    if report.verdict is not Verdict.PROVED or p is None:
        return report
    found = written_load(p.flow, p.origins)
    if found is not None:
        load, write = (p.body[at] for at in found)
        text = (
            f"{load.name} reads what has to stay the same while the kernel runs, and the kernel writes "
            f"through the same pointer ({k.module.span(write)})"
        )
        return _undecided_at(k, report, load, text)
    if made_otherwise(k):  # boxes were inferred, and an execution may tell what they are
        report = replace(report, doubted=k)
    twice = _one_tensor_twice(k)
    if twice is not None:
        text = "another map of this tensor is one that copies load through, and their boxes are not compared"
        return _undecided_at(k, report, p.body[twice], text)
    apart = next((at for at, i in enumerate(p.body) if i.op == "ldu" and _by_lane(k, at)), None)
    if apart is not None:
        return _undecided_at(k, report, p.body[apart], "ldu has one address for all lanes of a warp")
    lost = read_after_discard(p.flow, p.origins)
    if lost is not None:
        discard, read = (p.body[at] for at in lost)
        what = "what is destroyed here may be read afterwards, and nobody knows what it is then"
        text = f"{what} ({k.module.span(read)})"
        return _undecided_at(k, report, discard, text)
    lines = sorted({k.module.span(p.body[at]).line for at in loads_anywhere(p.flow, p.origins)})
    said = [f"line {line}: the kernel writes nothing of what is read there as read-only" for line in lines]
    stores, loads = tensor_copies(p.flow)
    if loads and any(at is None for _, at in (*stores, *loads)):
        lines = sorted({k.module.span(p.body[at]).line for at, _ in stores})
        said += [f"line {line}: no copy loads what is stored through the tensor map there" for line in lines]
    return replace(report, assumptions=(*report.assumptions, *said))


def _stored_apart(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report, if not threads store numbers that differ to one place, or an access at a place of data
    meets that of another block: nothing orders these."""
    p = k.code.compiled
    if report.verdict is not Verdict.PROVED or p is None:
        return report
    swap = turns_that_decide(p.flow)
    if swap is not None:
        text = "what the turns of this loop make, beside the word itself, places or decides something"
        return _undecided_at(k, report, p.body[swap], text)
    outside = "in no order: a data race in global memory is outside what is proved"
    at = stored_by_several(k.facts, p)
    at = crowded_store(k.facts, p) if at is None else at
    if at is not None:
        text = f"threads of the launch store different values to one place here, {outside}"
        return _undecided_at(k, report, p.body[at], text)
    copy = copied_by_several(k.facts, p)
    if copy is not None:
        text = f"two blocks of the launch copy different values to one place of a tensor here, {outside}"
        return _undecided_at(k, report, p.body[copy], text)
    written = map_of_several(k.facts, p)
    if written is not None:
        text = f"two blocks of the launch write one tensor map here, {outside}"
        return _undecided_at(k, report, p.body[written], text)
    found = _read_in_no_order(k.facts, p)
    if found is not None:
        return _undecided_at(k, report, p.body[found[0]], f"{found[1]} {outside}")
    pair = placed_on_others(k.facts, p)
    if pair is None:
        return report
    other = p.module.span(p.body[pair.other]).line
    placed, does = (_DOES.get(p.body[j].op, ("atomic", "changes")) for j in (pair.placed, pair.other))
    bare = " without one" if placed[0] == "atomic" else ""
    place = f"what another block {does[1]}{bare} (line {other})"
    seen = f", as seen with {pair.seen}" if pair.seen else ""
    text = f"some input places this {placed[0]} on {place}{seen}, {outside}"
    return _undecided_at(k, report, p.body[pair.placed], text)


def _read_in_no_order(facts: PtxFacts, p: Program) -> tuple[int, str] | None:
    """A load or another access that meets one of another thread, and what is said of it."""
    met = read_while_written(facts, p)
    if met is not None:
        line = p.module.span(p.body[met.store]).line
        how = "each stores what it makes of it without an atomic" if met.update else "others store there"
        return met.load, f"threads of the launch load a word here, and {how} (line {line}),"
    once = read_by_answer(facts, p)
    if once is None:
        return None
    asked, written = (p.module.span(p.body[at]).line for at in (once.asked, once.written))
    does = f"what another block accesses (line {written}) may be accessed here, as a word says (line {asked})"
    mend = "release that word behind the one and acquire it ahead of the other"
    return once.read, f"{does}: {mend}, for they are"


#: What plain accesses are called, and what they do.
_DOES = {"st": ("store", "stores"), "ld": ("load", "loads")}


def _one_tensor_twice(k: CheckTask) -> int | None:
    """A copy that stores through a tensor map, where copies load through another one of the same name in the
    launch file."""
    assert k.code.compiled is not None
    names = {
        (p.name, leaf.offset): leaf.name
        for p, leaves in zip(k.function.params, k.facts.params, strict=False)
        for leaf in leaves
        if leaf.kind == "tensormap" and leaf.name
    }
    stores, loads = tensor_copies(k.code.compiled.flow)
    loaded = {(names[at], at) for _, at in loads if at in names}
    for at, place in stores:
        if place in names and any(name == names[place] and other != place for name, other in loaded):
            return at
    return None


def _by_lane(k: CheckTask, at: int) -> bool:
    """Whether the address of an access may vary with the lane."""
    p, block = k.code.compiled, k.facts.block
    return p is None or block is None or bool(p.uniformity(block).placed(at) & LANES)


def _with_plain_global(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report; or a refutation where threads read what others write, with nothing to wait for.

    Where nothing is released either, the verdict is open until an execution shows the race. So it is where
    threads of one block do: their race stands before what blocks do at the same two lines.
    """
    p = k.code.compiled
    if report.verdict is Verdict.REFUTED or not k.checker.again or p is None or p.exchanges is None:
        return report
    start = time.perf_counter()
    released = p.exchanges.released
    # where no block asks where it is, not even whether it is the first, a text may be meant for one
    several = None if asks_places(k.function) else with_others(k.facts, k.function)
    given = all(isinstance(e, int) for e in k.facts.grid)
    contradicted = given or asks_places(k.function) or several is not None
    followed = k.abstracted(replace(k.abstraction, tracks_plain_global=True))
    known = with_pointers(k.facts, followed.code.program)
    if known is not None:
        followed = followed.launched(known)
    followed = replace(followed, checker=k.checker.doubting)
    meant = with_others(followed.facts, k.function) if several is not None else None
    for facts in asked_launches(followed.facts if meant is None else meant, followed.function):
        found = check_launch(followed.at(facts))
        if found.verdict is not Verdict.REFUTED:
            continue
        if (released or contradicted) and found.stats.get("exchange"):
            found = replace(found, seconds=report.seconds + time.perf_counter() - start)
            return found if released else _in_no_order(report, found)
        # a proof rests on that no other thread reads what is written, whatever else goes wrong there
        if contradicted and found.stats.get("some exchange"):
            return _in_no_order(report, found)
        if found.stats.get("some global race") and not found.stats.get("some exchange"):
            return _in_no_order(report, found, one_block=True)
    return report


def _in_no_order(report: KernelReport, found: KernelReport, *, one_block: bool = False) -> KernelReport:
    """What is said of a kernel whose text contradicts that no other thread reads what is written: nothing is
    proved. ``found``: the race, of which an execution decides. ``one_block``: of threads of one block."""
    if report.verdict is not Verdict.PROVED:
        return replace(report, suspect=report.suspect or found)
    first = next(d for d in found.diagnostics if d.severity is Severity.ERROR)
    whose, orders = (
        ("threads of one block", "a barrier")
        if one_block
        else (
            "different blocks of one launch",
            "a grid barrier, or a release and an acquire of the gpu's scope,",
        )
    )
    text = (
        f"{first.span}: {first.message}: they are of {whose}, and a data race in global memory is outside "
        f"what is proved; {orders} would order them"
    )
    why = Reason(text, Cause.NOT_REPLAYED)
    note = Diagnostic("SV902", Severity.WARNING, why, first.span, related=first.related)
    return replace(
        report,
        verdict=Verdict.UNKNOWN,
        reason=why,
        proof=None,
        diagnostics=(note, *report.diagnostics),
        suspect=found,
    )


__all__ = ["Checker", "Task", "check_module", "kernel_task", "proposed_sizes", "reports_of"]
