"""The outcomes of all systems that represent a kernel's launch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from syncverify.base.diagnostics import Severity, Verdict
from syncverify.base.reason import Cause, Reason, has, made_of
from syncverify.base.source import Span
from syncverify.checker.outcome import Outcome
from syncverify.checker.prover.strategy import MAX_CHOICES
from syncverify.driver.ptx.assumptions import (
    of_common,
    of_elections,
    of_hand_over,
    of_memory,
    of_overlaps,
    of_shared_flags,
    of_stops,
    of_stores,
    of_the_grid_before,
)
from syncverify.driver.ptx.common_places import of_common_places
from syncverify.driver.ptx.grid import together
from syncverify.driver.ptx.same_blocks import behaviour
from syncverify.driver.ptx.task import CheckTask, compiled, elected, inferred, with_boxes
from syncverify.driver.ptx.tensor_places import of_tensor_places
from syncverify.driver.reports.outcomes import merge, undecided
from syncverify.frontends.launch_facts import default_path
from syncverify.frontends.ptx.analysis.exclusion.locks import Locks, Rows
from syncverify.frontends.ptx.analysis.exclusion.shared_locks import Turns
from syncverify.frontends.ptx.analysis.handover.handover_detection import HandOver
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.launch.concretize import uses_clusters
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.tensormap_boxes import copies_tensors, lacks_box
from syncverify.frontends.ptx.launch.usual_blocks import blocks_of, usual_blocks
from syncverify.frontends.ptx.values.atomic_tickets import Question, Taken, Tickets
from syncverify.model.elected_lane import PAIRS, ElectedLane, of_all

#: Clusters of a grid that are run one by one.
MAX_CLUSTERS = 16
#: Clusters whose events are compared, so that those alike are run once.
MAX_COMPARED = 512
#: Decides where it is not known what does.
_SOME_DATA = Reason("data", Cause.DATA)
#: Ways in which a kernel's atomics hand numbers out.
MAX_SEQUENCES = 256


def outcome_of_launch(k: CheckTask) -> Outcome:
    """The outcome of all systems that represent the launch, with what it rests on."""
    outcome = _outcome_of_launch(k)
    if not has(outcome.reason, Cause.UNTRIED_LANE) or k.each_lane:
        return outcome
    return _outcome_of_launch(replace(k, each_lane=True))


def _outcome_of_launch(k: CheckTask) -> Outcome:
    """The same for the lanes that are chosen at first, or for each."""
    missing = _missing_fact(k)
    if missing is not None:
        return undecided(missing, k.span)
    launch, program = compiled(k)
    clusters = None if launch.grid is None else prod(launch.grid) // launch.ctas
    found, steered = _for_every_answer(k, program, launch, clusters)
    rests_on = (*of_launch(k, launch, program), *of_run(k.facts, program, {}, steered))
    return replace(merge(found), assumptions=rests_on)


def _missing_fact(k: CheckTask) -> Reason | None:
    """What has to be known of a launch before anything can be said of it, and is not."""
    if k.facts.block is None:
        threads = k.facts.threads
        block = list(usual_blocks(k.function)[0] if threads is None else blocks_of(threads)[0])
        example = f'{default_path(k.module.path)}, with the lines [kernel."*"] and block = {block}'
        lacks = "number of threads" if threads is None else "block's shape"
        text = f"the {lacks} is not known: give block in a launch file, say {example}"
        return Reason(text, Cause.MISSING_FACT)
    if k.facts.cluster is None and uses_clusters(k.function):
        example = "give cluster in a launch file, [1, 1, 1] if it is launched without"
        return Reason(f"the kernel is written for clusters: {example}", Cause.MISSING_FACT)
    return None


def of_launch(k: CheckTask, launch: Launch, program: Program) -> tuple[str, ...]:
    """What any verdict on the launch rests on, whatever its runs come to."""
    registers = k.facts.registers is None and launch.registers is not None
    clusters = None if launch.grid is None else prod(launch.grid) // launch.ctas
    return (
        *([f"{launch.registers} registers per thread at entry"] if registers else []),
        *of_hand_over(program, clusters),
        *of_shared_flags(program),
        *of_memory(k.facts, program),
        *of_overlaps(k.facts, program),
        *of_common_places(k.facts, program),
        *of_tensor_places(k.facts, program),
        *of_the_grid_before(program),
        *of_elections(program, k.policy),
    )


def of_run(
    facts: PtxFacts, program: Program, stopped: Mapping[int, str], steered: Iterable[Any]
) -> tuple[str, ...]:
    """What a verdict rests on that the runs came to; see ``of_stops`` and ``of_common``."""
    return (*of_stores(program), *of_stops(program, stopped), *of_common(facts, program, steered))


def _for_every_answer(
    k: CheckTask, program: Program, launch: Launch, clusters: int | None
) -> tuple[list[Outcome], set[Any]]:
    """The outcomes for each answer to the questions that have one for all agents; and these questions."""
    whole = 0 if clusters == 1 else None
    answers: list[dict[Any, int]] = [{}]
    asked_before: dict[Any, str] = {}
    steered: set[Any] = set()
    all_: list[Outcome] = []
    while answers:
        taken = answers.pop()
        asked: dict[Any, str] = {}
        outcomes = list(_by_ticket_order(k, program, replace(launch, answers=taken), whole, clusters, asked))
        unknown = any(o.verdict is Verdict.UNKNOWN for o in outcomes)
        refuted = any(o.verdict is Verdict.REFUTED for o in outcomes)
        if unknown and not refuted and asked and len(taken) < MAX_CHOICES:
            question = question_of([o.reason for o in outcomes], asked)
            answers += [{**taken, question: 1}, {**taken, question: 0}]
            asked_before |= asked
            steered.add(question)
            continue
        all_ += (_under(o, taken, asked_before) for o in outcomes) if taken else outcomes
        asked_before |= asked
    return all_, steered


def question_of(reasons: Iterable[str | None], asked: Mapping[Any, str]) -> Any:
    """The question to answer next: one that the reason of a run without a verdict names."""
    given = list(reasons)
    found = (q for q, why in asked.items() if any(made_of(reason, why) for reason in given))
    return next(found, next(iter(asked)))


def _under(outcome: Outcome, taken: Mapping[Any, int], why: Mapping[Any, str]) -> Outcome:
    """What a finding under assumed answers is worth: whether they can be so is not known."""
    if outcome.verdict is not Verdict.REFUTED:
        return outcome
    return _with_poll_choices(outcome, list(dict.fromkeys(why.get(q, _SOME_DATA) for q in taken)))


def _with_poll_choices(outcome: Outcome, on: Sequence[str]) -> Outcome:
    """A refutation that rests on something unknown."""
    first = next((d for d in outcome.diagnostics if d.severity is Severity.ERROR), None)
    harm = first.message if first is not None else ""
    text = Reason(f"whether this goes wrong depends on {'; '.join(on)}: {harm}", parts=on)
    found = tuple(
        replace(d, severity=Severity.WARNING) if d.severity is Severity.ERROR else d
        for d in outcome.diagnostics
    )
    return Outcome(Verdict.UNKNOWN, found, None, text, outcome.stats)


def _by_ticket_order(k: CheckTask, program: Program, launch: Launch, whole: int | None, clusters: int | None,
             asked: dict[Any, str]) -> Iterator[Outcome]:  # fmt: skip
    """The outcomes for every way in which atomics may hand numbers out, up to one that is not proved."""
    work: list[dict[Question, int]] = [{}]
    all_ = Taken()
    for _ in range(MAX_SEQUENCES):
        if not work:
            break
        tickets = Tickets(work.pop())
        found = list(_answered(k, program, replace(launch, tickets=tickets), whole, clusters, asked))
        if not tickets.counters:
            yield from found
            return
        yield from (_one_cluster(o, tickets) for o in found)
        trouble = tickets.trouble()
        if trouble:
            yield undecided(trouble, k.span)
            return
        if any(o.verdict is not Verdict.PROVED for o in found):
            return
        all_.add(tickets)
        work += tickets.others()
    if work:
        text = f"a counter's numbers lead to more than {MAX_SEQUENCES} ways"
        yield undecided(Reason(text, Cause.BUDGET), k.span)
        return
    again = all_.may_wrap(clusters)
    if again is not None:
        yield undecided(again, k.span)


def _one_cluster(outcome: Outcome, tickets: Tickets) -> Outcome:
    """What a finding is worth where several agents take numbers, or not all is followed: whether they can be
    so is not known."""
    alone = all(len(c.takes) < 2 for c in tickets.counters.values())
    trouble = tickets.trouble()
    if outcome.verdict is not Verdict.REFUTED or (alone and not trouble):
        return outcome
    return _with_poll_choices(outcome, [trouble] if trouble else [c.why for c in tickets.counters.values()])


#: Runs for the orders in which blocks hold locks, at most.
MOST_ORDERS = 128
#: Those tried to refute a kernel that has more.
FEW_ORDERS = 3


def _answered(k: CheckTask, program: Program, launch: Launch, whole: int | None, clusters: int | None,
              asked: dict[Any, str]) -> Iterator[Outcome]:  # fmt: skip
    """The outcomes under some answers; ``asked``: questions without one that came up."""
    if program.handing is not None and program.handing.together:
        yield from _handing_over(k, program, launch, clusters, asked)
        return
    lanes = elected(k, program, launch, whole)
    firsts = [PtxSystem.fresh(program, launch, whole, lane, k.hash) for lane in lanes]
    if k.boxes is not None and any(lacks_box(reason) for first in firsts for reason in first.stuck):
        launch = inferred(k, launch, program)
        firsts = [PtxSystem.fresh(program, launch, whole, lane, k.hash) for lane in lanes]
    try:
        yield from _placed(k, firsts, clusters)
    finally:
        for first in firsts:
            asked.update(first.tables.asked)


def _handing_over(k: CheckTask, program: Program, launch: Launch, clusters: int | None,
                  asked: dict[Any, str]) -> Iterator[Outcome]:  # fmt: skip
    """The outcomes of a kernel whose blocks may wait for each other."""
    if k.boxes is not None and copies_tensors(program):
        for number in sorted({0, (clusters or 1) - 1}):
            alone = PtxSystem.fresh(program, launch, number, source_hash=k.hash)
            if any(map(lacks_box, alone.stuck)):
                launch = inferred(k, launch, program, number)
    each = range(min(clusters or 1, MAX_COMPARED))
    for lane in of_all(elected(k, program, launch, at) for at in each):

        def fresh(n: int, at: int, lane: ElectedLane = lane) -> PtxSystem:
            return PtxSystem.fresh(program, launch, at, lane, k.hash, asked=asked, clusters=n)

        yield from together(program, clusters, k.span, fresh, lambda s: _sequential_clusters(k, s, asked))


def _sequential_clusters(k: CheckTask, system: PtxSystem, asked: dict[Any, str]) -> Outcome:
    """The outcome of a system for the orders in which its blocks may hold locks."""
    locks, handing = system.tables.locks, system.program.handing
    if not locks.taken:
        return _judged(k, system)
    assert handing is not None
    why = _unordered(handing, locks)
    if why is not None:
        return undecided(why, k.span)
    orders = [(rows, pattern) for rows in _orders(handing, locks) for pattern in locks.patterns()]
    if len(orders) > MOST_ORDERS:
        text = f"blocks may hold locks, and go on, in {len(orders)} ways: at most {MOST_ORDERS} are tried"
        return undecided(Reason(text, Cause.BUDGET), k.span)
    found = []
    for rows, pattern in orders:
        launch = replace(system.launch, rows=rows, pattern=pattern)
        lane, clusters = system.elected, system.info.clusters
        again = PtxSystem.fresh(
            system.program, launch, system.cluster, lane, k.hash, asked=asked, clusters=clusters
        )
        found.append(_judged(k, again))
        if found[-1].verdict is not Verdict.PROVED:
            break
        if again.tables.locks.taken != locks.taken or again.tables.locks.asked != locks.asked:
            return undecided("who takes a lock depends on who held it before", k.span)
        if (why := again.tables.locks.problem()) is not None:
            return undecided(why, k.span)
    outcome = merge(found)
    if outcome.verdict is Verdict.REFUTED and locks.asked:
        why = "what goes wrong behind a lock may never be, for data decides which way a block goes there"
        return replace(undecided(Reason(why, Cause.GLOBAL_DATA), k.span), suspect=outcome)
    return outcome


def _orders(handing: HandOver, locks: Locks) -> Sequence[Rows]:
    """The orders in which blocks come to a place; more than ``MOST_ORDERS`` if there are more."""
    if handing.tickets:
        return locks.every(MOST_ORDERS + 1)
    if handing.tries:
        freed = any(free is not None for free in handing.tries.values())
        return locks.successes(MOST_ORDERS + 1, freed=freed)
    return locks.orders()


def _unordered(handing: HandOver, locks: Locks) -> str | None:
    """Why orders in which blocks come to a place do not tell what can happen."""
    if handing.tickets or handing.tries:
        if (handing.tickets and handing.locks) or locks.asked:
            return "data, or a lock, decides in a kernel with tickets or a lock that is tried too"
        several = handing.tries and len(locks.taken) > 1
        return "blocks try several locks" if several else locks.problem()
    return "a kernel with a lock waits for something else too" if handing.spins else locks.problem()


def _placed(k: CheckTask, firsts: list[PtxSystem], clusters: int | None) -> Iterator[Outcome]:
    """The outcomes for every place in the grid."""
    if not any(_place(reason) for first in firsts for reason in first.stuck):
        outcomes = [_judged(k, first) for first in firsts]
        if not any(o.verdict is Verdict.UNKNOWN and _place(o.reason) for o in outcomes):
            yield from outcomes
            return
    if clusters is None or clusters == 1:
        yield undecided(_asked(firsts[0].stuck), k.span)
        return
    if clusters > MAX_COMPARED:
        wrong = _any_cluster_refuted(k, firsts[0], (0, clusters - 1))
        if wrong is not None:
            yield wrong
            return
        text = (
            f"what a block does depends on its place in the {clusters} clusters of the grid: "
            f"at most {MAX_COMPARED} are compared"
        )
        yield undecided(Reason(text, Cause.GRID_CASES), k.span)
        return
    yield from _each_cluster(k, firsts[0], clusters)


def _any_cluster_refuted(k: CheckTask, first: PtxSystem, numbers: Iterable[int]) -> Outcome | None:
    """What one of some clusters does wrong, which is wrong in the whole grid."""
    for number in numbers:
        for lane in elected(k, first.program, first.launch, number, first):
            system = PtxSystem.fresh(first.program, first.launch, number, lane, k.hash, first)
            outcome = _judged(k, system)
            if outcome.verdict is Verdict.REFUTED:
                return outcome
    return None


def _each_cluster(k: CheckTask, first: PtxSystem, clusters: int) -> Iterator[Outcome]:
    """One run for each cluster, or for each of those whose events differ."""
    seen: dict[Hashable, Verdict] = {}
    runs = 0
    for number in range(clusters):
        for lane in elected(k, first.program, first.launch, number, first):
            system = PtxSystem.fresh(first.program, first.launch, number, lane, k.hash, first)
            if k.boxes is not None and any(map(lacks_box, system.stuck)):
                launch = inferred(k, first.launch, first.program, number)
                if launch.maps != first.launch.maps:
                    again = PtxSystem.fresh(first.program, launch, None, lane, k.hash)
                    yield from _each_cluster(k, again, clusters)
                    return
            compared = clusters > MAX_CLUSTERS or not system.answered
            does = behaviour(system) if compared else None
            if does is not None and does.judged_by(seen):
                continue
            runs += 1
            if runs > 4 * MAX_CLUSTERS:
                text = f"the blocks of the grid differ in more than {4 * MAX_CLUSTERS} ways"
                yield undecided(Reason(text, Cause.GRID_CASES), k.span)
                return
            outcome = _judged(k, system)
            if does is not None:
                seen[does.key] = outcome.verdict
            yield outcome
            if outcome.verdict is Verdict.UNKNOWN and has(outcome.reason, Cause.BUDGET):
                return  # the others take as long, most likely


def _judged(k: CheckTask, system: PtxSystem) -> Outcome:
    """The outcome of a system, for all orders in which threads may hold locks in shared memory."""
    if not system.tables.shared_locks.taken:
        return _judged_alone(k, system)
    system = _relaunched(k, system, system.launch)  # else its tables may be those of other blocks, too
    locks = system.tables.shared_locks
    if not locks.taken:
        return _judged_alone(k, system)
    why = locks.problem() or (
        "a kernel has locks in shared and in global memory" if system.tables.locks.taken else None
    )
    if why is not None:
        return undecided(Reason(why, Cause.SHARED_CONTENTS), k.span)
    # where what lies in memory may decide, an order matters as a whole
    program, decides = system.program, system.answered or system.program.steers
    some = None if decides or program.flags.spins or program.handing else locks.some(program.body)
    decides = decides or locks.once
    if some is not None and len(some) <= MOST_ORDERS:
        outcome = _in_orders(k, system, some)
        if not has(outcome.reason, Cause.LOCK_ORDER):
            return outcome
    every = locks.every(MOST_ORDERS + 1)
    if len(every) > MOST_ORDERS:
        outcome = _in_orders(k, system, every[:FEW_ORDERS], leaves_out=True)
        if outcome.verdict is Verdict.REFUTED:
            return outcome
        text = f"threads may hold locks in more than {MOST_ORDERS} orders, which are not tried"
        return undecided(Reason(text, Cause.BUDGET, *([Cause.SHARED_CONTENTS] if decides else [])), k.span)
    return _in_orders(k, system, every, leaves_out=True)


def _in_orders(
    k: CheckTask, system: PtxSystem, orders: Sequence[Turns], *, leaves_out: bool = False
) -> Outcome:
    """The outcome for some orders of turns at locks; ``leaves_out``: those that no execution has count for
    nothing."""
    found: list[Outcome] = []
    first = system.tables.shared_locks
    for turns in orders:
        again = _relaunched(k, system, replace(system.launch, turns=turns, counts=first.at_first()))
        locks = again.tables.shared_locks
        if (why := locks.differs(first)) is not None:
            return undecided(Reason(why, Cause.SHARED_CONTENTS), k.span)
        outcome = _judged_alone(k, again)
        if (why := locks.problem()) is not None and outcome.verdict is Verdict.PROVED:
            return undecided(Reason(why, Cause.SHARED_CONTENTS), k.span)
        if leaves_out and has(outcome.reason, Cause.LOCK_ORDER) and outcome.verdict is Verdict.UNKNOWN:
            continue
        found.append(outcome)
        if outcome.verdict is not Verdict.PROVED:
            break
    none = Reason("no order of turns at the locks ends", Cause.SHARED_CONTENTS)
    outcome = merge(found) if found else undecided(none, k.span)
    if outcome.verdict is Verdict.REFUTED and first.once:
        why = "this goes wrong in an order of atomics in shared memory that perhaps no execution has"
        return replace(undecided(Reason(why, Cause.SHARED_CONTENTS), k.span), suspect=outcome)
    return outcome


def _judged_alone(k: CheckTask, system: PtxSystem) -> Outcome:
    """The outcome of a system. Boxes that something other than equations gave do not refute by themselves."""
    outcome = k.checker.judge(system, k.policy)
    if outcome.verdict is Verdict.PROVED and system.tables.unplaced:
        return undecided(system.tables.unplaced[0], k.span)
    if outcome.verdict is Verdict.PROVED and system.elects_in_pairs:
        return undecided(Reason(PAIRS, Cause.UNSUPPORTED), k.span)
    if outcome.verdict is Verdict.REFUTED and system.tables.perhaps:
        sure = k.checker.judge(_relaunched(k, system, replace(system.launch, sure=True)), k.policy)
        if sure.verdict is Verdict.REFUTED:
            return sure
        by_data = _by_one_access(k, system)
        unsure = undecided(_doubt(system), k.span)
        return by_data or replace(unsure, suspect=outcome if _with_one_made(system, outcome) else None)
    if outcome.verdict is not Verdict.REFUTED or k.boxes is None:
        return outcome
    unsure_boxes = k.boxes.latest.unsure(system.tables.map_names)
    if unsure_boxes and all(
        b.most for b in unsure_boxes
    ):  # what is wrong with the smallest boxes is wrong with any
        given = {name: m for name, m in system.launch.maps.items() if name not in k.boxes.latest.known}
        smallest = with_boxes(replace(system.launch, maps=given), k.boxes.latest.facts(least=True))
        again = k.checker.judge(_relaunched(k, system, smallest), k.policy)
        here = set(_harms(outcome)[:1])
        if again.verdict is Verdict.REFUTED and here <= {*_harms(again)}:
            unsure_boxes = []
    if unsure_boxes:
        first = next((d for d in outcome.diagnostics if d.severity is Severity.ERROR), None)
        maps = ", ".join(f"{b.name} (taken as {b.bytes} bytes)" for b in unsure_boxes)
        text = f"whether this goes wrong depends on the boxes of {maps}: {first.message if first else ''}"
        return undecided(Reason(text, Cause.MISSING_BOX), k.span if first is None else first.span)
    torn = k.boxes.latest.contradiction()
    if torn is None:
        return outcome
    others = [d for d in outcome.diagnostics if (d.rule, d.span) != (torn.rule, torn.span)]
    return replace(outcome, diagnostics=(torn, *others))


def _doubt(system: PtxSystem) -> str:
    """Why an access need not be made. In a run whose blocks have numbers no reason that came before is one
    which asks for them: what is loaded where a block's place guards it is data."""
    said = list(system.tables.perhaps.values())
    others = said if system.cluster is None else [why for why in said if not _place(why)]
    return (others or said)[0]


def _harms(outcome: Outcome) -> list[Span]:
    """Where an outcome's errors stand, the first of which represents all."""
    return [d.span for d in outcome.diagnostics if d.severity is Severity.ERROR]


#: Causes of what is open until the kernel is launched: the second reader's launches have numbers for it.
_OF_THE_LAUNCH = frozenset({Cause.MISSING_FACT, Cause.BLOCK_PLACE})


def _with_one_made(system: PtxSystem, outcome: Outcome) -> bool:
    """Whether what goes wrong involves an access that is made anyway, where its footprint says. Of two that
    data decides on no input need let both be made, or at one place: scatters by unique numbers are right."""
    errors = [d for d in outcome.diagnostics if d.severity is Severity.ERROR]
    if not errors or errors[0].rule not in _RACES:
        return False
    by_data = {s for s, causes in system.tables.doubts.items() if not causes <= _OF_THE_LAUNCH}
    placed = system.tables.placed_by_data
    doubted = {system.info.sites[s].span for s in by_data | placed}
    return not {errors[0].span, *(x.span for x in errors[0].related)} <= doubted


#: Sites of accesses that data decides on, looked at one by one.
_MOST_SITES = 4


def _by_one_access(k: CheckTask, system: PtxSystem) -> Outcome | None:
    """A race of one access that global memory decides on with one that is made anyway: an input that lets a
    lane make it is a counterexample. Two accesses that data decides on may never be made in one run."""
    tables = system.tables
    placed = tables.placed_by_data
    sites = [s for s in tables.perhaps if s not in placed]
    for site in sites[:_MOST_SITES]:
        why = tables.perhaps[site]
        if tables.doubts[site] != {Cause.GLOBAL_DATA}:
            continue
        launch = replace(system.launch, sure=True, granted=frozenset({site}))
        outcome = k.checker.judge(_relaunched(k, system, launch), k.policy)
        errors = [d for d in outcome.diagnostics if d.severity is Severity.ERROR]
        if outcome.verdict is not Verdict.REFUTED or not errors or errors[0].rule not in _RACES:
            continue
        first = errors[0]
        here = system.info.sites[site].span
        others = {label.span for label in first.related} | {first.span}
        if here in others and others - {here}:
            extended = replace(first, message=f"{first.message}; {why}")
            return replace(
                outcome, diagnostics=tuple(extended if d is first else d for d in outcome.diagnostics)
            )
    return None


_RACES = ("SV110", "SV111", "SV112")


def _relaunched(k: CheckTask, system: PtxSystem, launch: Launch) -> PtxSystem:
    """The same clusters of another launch."""
    lane, clusters = system.elected, system.info.clusters
    return PtxSystem.fresh(system.program, launch, system.cluster, lane, k.hash, clusters=clusters)


def _place(reason: str | None) -> bool:
    """Whether a reason names the block's place in the grid."""
    return has(reason, Cause.BLOCK_PLACE)


def _asked(reasons: Iterable[str]) -> str:
    text = "control depends on the grid: give grid in a launch file"
    return next(iter(reasons), Reason(text, Cause.MISSING_FACT))
