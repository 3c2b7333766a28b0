"""The check of a PTX file's kernels: launch facts into systems, their outcomes into reports.

What decides (``judge``) and how outcomes are merged comes from the caller, one floor up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from syncverify.checker.outcome import Outcome
from syncverify.diagnostics import Diagnostic, KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.frontends.names import matches
from syncverify.frontends.ptx.assumptions import (
    holds,
    numbers,
    of_hand_over,
    of_memory,
    of_stores,
    of_warnings,
    pointers_apart,
)
from syncverify.frontends.ptx.compile import Program
from syncverify.frontends.ptx.effects import MapFacts
from syncverify.frontends.ptx.facts import PtxFacts, ptx_facts, text
from syncverify.frontends.ptx.global_check import together
from syncverify.frontends.ptx.infer import Boxes, copies_tensors, lacks_box
from syncverify.frontends.ptx.nodes import Function, Imm, Module
from syncverify.frontends.ptx.open_sizes import open_sizes, open_systems
from syncverify.frontends.ptx.parameters import Parameters
from syncverify.frontends.ptx.sized import NO_WRAP
from syncverify.frontends.ptx.small import small_sizes
from syncverify.frontends.ptx.system import Launch, PtxSystem, elected_lanes
from syncverify.ir.expr import Expr, names
from syncverify.launch import LaunchFacts
from syncverify.model.automata.register_pool import most_registers
from syncverify.model.events import System
from syncverify.model.terms import Symbolic
from syncverify.source import InputError, Span

#: Clusters of a grid that are run one by one.
MAX_CLUSTERS = 16
#: Clusters whose events are compared, so that those alike are run once.
MAX_COMPARED = 512
#: Questions about data and parameters of which both answers are tried together.
MAX_CHOICES = 5
#: Exact checks that a proof for every size may ask for.
MOST_EXACT = 8
_ELECTION = "elect.sync elects the lowest lane, as sm_90 does"
_CLUSTER_OPS = ("mapa", "getctarank")

Judge = Callable[[System, Policy], Outcome]
Merge = Callable[[Iterable[Outcome]], Outcome]
#: The verdict for all values of some sizes: their ranges, facts, makers of systems, exact check, policy.
#: Gives what ``sizes.prove`` gives.
Prove = Callable[[Mapping[str, tuple[int, int]], tuple[Expr, ...], Any, Callable[..., Verdict], Policy], Any]


@dataclass(frozen=True, slots=True)
class Checker:
    """What turns systems into verdicts: a floor above this one."""

    judge: Judge
    merge: Merge
    prove: Prove | None = None  # for every size


@dataclass(slots=True)
class _Kernel:
    """One entry under check."""

    module: Module
    function: Function
    facts: PtxFacts
    policy: Policy
    checker: Checker
    hash: str
    assumptions: list[str] = field(default_factory=list)
    program: list[Program] = field(default_factory=list)  # the kernel compiled, once it is
    boxes: Boxes | None = None  # of tensor maps, inferred; None: none may be

    @property
    def span(self) -> Span:
        return Span(self.module.path, self.function.line)


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
    reports = []
    for f in module.entries:
        if kernel is not None and not matches(f.name, kernel):
            continue
        try:
            known = ptx_facts(facts, f)
            wanted = {n: v for n, v in (values or {}).items() if n in known.symbols()}
            if values and len(module.entries) == 1:
                wanted = dict(values)
            bound = known.bind(wanted) if wanted else known
            k = _Kernel(module, f, bound, policy, checker, source_hash, boxes=Boxes() if infer else None)
            reports.append(_every_size(k, _check(k)) if scope is ScopeKind.ALL else _check(k))
        except InputError as e:
            if on_error is None:
                raise
            on_error(e)
    return reports


def _every_size(k: _Kernel, report: KernelReport) -> KernelReport:
    """A proof for every size that is left open, where the report cannot do without a number; or the smallest
    sizes that refute the kernel; or the report, with a note."""
    if report.verdict is not Verdict.UNKNOWN or k.checker.prove is None or k.facts.block is None:
        return _smallest(k, report)
    start = time.perf_counter()
    try:
        found = _proof(k, k.checker.prove)
    except Symbolic:
        found = None
    if found is None:
        return _smallest(k, report)
    if found.verdict is Verdict.REFUTED:
        bound = replace(k, facts=_bound(k, found.values), assumptions=[])
        return replace(_check(bound), seconds=time.perf_counter() - start)
    if found.verdict is Verdict.PROVED:
        return replace(
            report,
            verdict=Verdict.PROVED,
            reason=None,
            seconds=report.seconds + time.perf_counter() - start,
            assumptions=(*_assumptions(k, found.diagnostics), NO_WRAP),
            diagnostics=tuple(d if d.span.line else replace(d, span=k.span) for d in found.diagnostics),
            stats=found.stats,
        )
    reason = f"this is not shown for every size: {found.reason}"
    note = Diagnostic("SV902", Severity.NOTE, reason, k.span)
    return _smallest(k, replace(report, diagnostics=(*report.diagnostics, note)))


def _bound(k: _Kernel, values: Mapping[str, int]) -> PtxFacts:
    """The facts for numbers; extents of the grid that nothing depends on are as small as can be."""
    least = dict(zip(("grid.x", "grid.y", "grid.z"), k.facts.cluster or (1, 1, 1), strict=True))
    known = k.facts.symbols()
    return k.facts.bind({n: v for n, v in least.items() if n in known} | dict(values))


def _proof(k: _Kernel, prove: Prove) -> Any:
    """What is found for every size, with every answer to questions that have one for all agents; None if no
    size is open."""
    launch, whole = _compiled(k)
    program = whole.for_sizes
    sizes = open_sizes(k.facts, program)
    if not sizes:
        return None
    if k.boxes is not None and copies_tensors(program):
        launch = _inferred(k, launch, whole)
    facts = tuple(c for c in k.facts.constraints() if names(c) <= sizes.keys())
    left = [MOST_EXACT]

    def exact(values: Mapping[str, int]) -> Verdict:
        left[0] -= 1
        if left[0] < 0:
            return Verdict.UNKNOWN
        return _check(replace(k, facts=_bound(k, values), assumptions=[])).verdict

    answers: list[dict[Any, int]] = [{}]
    last = None
    while answers:
        taken = answers.pop()
        asked: dict[Any, str] = {}
        opened = replace(launch, answers=taken)
        lanes = _elected(k, program, launch, None)
        systems = open_systems(program, opened, k.facts, lanes, k.hash, asked)
        last = prove(sizes, facts, systems, exact, k.policy)
        if last.verdict is Verdict.UNKNOWN and asked and len(taken) < MAX_CHOICES:
            question = next(iter(asked))
            answers += [{**taken, question: 1}, {**taken, question: 0}]
        elif last.verdict is not Verdict.PROVED:
            return last
    k.assumptions += of_stores(program)
    return last


def _smallest(k: _Kernel, report: KernelReport) -> KernelReport:
    """Where open sizes leave a kernel undecided: the smallest of the first few that refute it, if any do."""
    if report.verdict is not Verdict.UNKNOWN:
        return report
    for sizes in small_sizes(k.facts):
        found = _check(replace(k, facts=k.facts.bind(sizes), assumptions=[]))
        if found.verdict is Verdict.REFUTED:
            return found
        if found.verdict is Verdict.UNKNOWN:
            break  # larger ones will not do better
    return report


def _check(k: _Kernel) -> KernelReport:
    start = time.perf_counter()
    outcome = k.checker.merge(_outcomes(k))
    witness = outcome.witness
    values = _numbers(k.facts)
    if witness is not None:
        witness = replace(
            witness,
            kernel=k.function.name,
            file=k.module.path,
            source_hash=k.hash,
            policy=k.policy,
            values=values,
        )
    return KernelReport(
        name=k.function.name,
        file=k.module.path,
        verdict=outcome.verdict,
        policy=k.policy,
        scope=Scope(_covered(k.facts), values, tuple(map(text, k.facts.assume))),
        reason=outcome.reason,
        seconds=time.perf_counter() - start,
        witness=witness,
        assumptions=_assumptions(k, outcome.diagnostics),
        diagnostics=tuple(d if d.span.line else replace(d, span=k.span) for d in outcome.diagnostics),
        stats=outcome.stats,
    )


def _outcomes(k: _Kernel) -> Iterator[Outcome]:
    """The outcomes of all systems that stand for the launch."""
    if k.facts.block is None:
        yield unknown("the number of threads is not known: give block in a launch file", k.span)
        return
    if k.facts.cluster is None and _uses_clusters(k.function):
        yield unknown("the kernel is written for clusters: give cluster in a launch file", k.span)
        return
    launch, program = _compiled(k)
    if k.facts.registers is None and launch.registers is not None:
        k.assumptions.append(f"{launch.registers} registers per thread at entry")
    clusters = None if launch.grid is None else prod(launch.grid) // launch.ctas
    k.assumptions += of_hand_over(program, clusters)
    k.assumptions += of_memory(k.facts, program)
    whole = 0 if clusters == 1 else None
    answers: list[dict[Any, int]] = [{}]
    asked_before: dict[Any, str] = {}
    while answers:
        taken = answers.pop()
        asked: dict[Any, str] = {}
        outcomes = list(_answered(k, program, replace(launch, answers=taken), whole, clusters, asked))
        unknown_ = any(o.verdict is Verdict.UNKNOWN for o in outcomes)
        refuted = any(o.verdict is Verdict.REFUTED for o in outcomes)
        if unknown_ and not refuted and asked and len(taken) < MAX_CHOICES:
            question = next(iter(asked))
            answers += [{**taken, question: 1}, {**taken, question: 0}]
            asked_before |= asked
            continue
        yield from (_under(o, taken, asked_before) for o in outcomes) if taken else outcomes
        asked_before |= asked
    k.assumptions += of_stores(program)


def _under(outcome: Outcome, taken: Mapping[Any, int], why: Mapping[Any, str]) -> Outcome:
    """What a finding under assumed answers is worth: whether they can be so is not known."""
    if outcome.verdict is not Verdict.REFUTED:
        return outcome
    first = next((d for d in outcome.diagnostics if d.severity is Severity.ERROR), None)
    on = "; ".join(dict.fromkeys(why.get(q, "data") for q in taken))
    text = f"whether this goes wrong depends on {on}: {first.message if first is not None else ''}"
    found = tuple(
        replace(d, severity=Severity.WARNING) if d.severity is Severity.ERROR else d
        for d in outcome.diagnostics
    )
    return Outcome(Verdict.UNKNOWN, found, None, text, outcome.stats)


def _compiled(k: _Kernel) -> tuple[Launch, Program]:
    """The launch as far as it is known, and the kernel's code."""
    assert k.facts.block is not None
    launch = _launch(k.facts, k.facts.block, k.facts.cluster or (1, 1, 1), k.function)
    if not k.program:
        apart, ints = pointers_apart(k.facts), numbers(k.facts, k.function)
        k.program.append(Program(k.module, k.function, apart, ints, holds(k.facts)))
    return (launch if k.boxes is None else _with_boxes(launch, k.boxes.facts())), k.program[0]


def _assumptions(k: _Kernel, diagnostics: Iterable[Diagnostic]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*k.assumptions, *_boxes_taken(k), *of_warnings(diagnostics))))


def _boxes_taken(k: _Kernel) -> list[str]:
    return [] if k.boxes is None else k.boxes.assumptions(k.module.path)


def _with_boxes(launch: Launch, boxes: Mapping[str, MapFacts]) -> Launch:
    """A launch with inferred boxes; those that are given win."""
    return replace(launch, maps={**boxes, **{n: m for n, m in launch.maps.items() if m.box is not None}})


def _inferred(k: _Kernel, launch: Launch, program: Program, cluster: int = 0) -> Launch:
    """The launch with the boxes that it implies itself; ``cluster``: the one to run."""
    assert k.boxes is not None

    def launch_of(facts: PtxFacts) -> Launch:
        assert facts.block is not None
        return replace(
            _launch(facts, facts.block, facts.cluster or (1, 1, 1), k.function), answers=launch.answers
        )

    k.boxes.learn(k.facts, program, launch_of, cluster)
    return _with_boxes(launch, k.boxes.facts())


def _answered(k: _Kernel, program: Program, launch: Launch, whole: int | None, clusters: int | None,
              asked: dict[Any, str]) -> Iterator[Outcome]:  # fmt: skip
    """The outcomes under some answers; ``asked``: questions without one that came up."""
    if program.handing is not None and program.handing.together:
        yield from _handing_over(k, program, launch, clusters, asked)
        return
    lanes = _elected(k, program, launch, whole)
    firsts = [PtxSystem.fresh(program, launch, whole, lane, k.hash) for lane in lanes]
    if k.boxes is not None and any(lacks_box(reason) for first in firsts for reason in first.stuck):
        launch = _inferred(k, launch, program)
        firsts = [PtxSystem.fresh(program, launch, whole, lane, k.hash) for lane in lanes]
    try:
        yield from _placed(k, firsts, clusters)
    finally:
        for first in firsts:
            asked.update(first.tables.asked)


def _handing_over(k: _Kernel, program: Program, launch: Launch, clusters: int | None,
                  asked: dict[Any, str]) -> Iterator[Outcome]:  # fmt: skip
    """The outcomes of a kernel whose blocks may wait for each other."""
    if k.boxes is not None and copies_tensors(program):
        for number in sorted({0, (clusters or 1) - 1}):
            alone = PtxSystem.fresh(program, launch, number, 0, k.hash)
            if any(map(lacks_box, alone.stuck)):
                launch = _inferred(k, launch, program, number)
    for lane in _elected(k, program, launch, 0):

        def fresh(n: int, lane: int = lane) -> PtxSystem:
            return PtxSystem.fresh(program, launch, 0, lane, k.hash, asked=asked, clusters=n)

        yield from together(program, clusters, k.span, fresh, lambda s: _judged(k, s))


def _placed(k: _Kernel, firsts: list[PtxSystem], clusters: int | None) -> Iterator[Outcome]:
    """The outcomes for every place in the grid."""
    if not any(_place(reason) for first in firsts for reason in first.stuck):
        outcomes = [_judged(k, first) for first in firsts]
        if not any(o.verdict is Verdict.UNKNOWN and _place(o.reason or "") for o in outcomes):
            yield from outcomes
            return
    if clusters is None or clusters == 1:
        yield unknown(_asked(firsts[0].stuck), k.span)
        return
    if clusters > MAX_COMPARED:
        text = (
            f"what a block does depends on its place in the grid of {clusters} clusters; "
            f"at most {MAX_COMPARED} are compared"
        )
        yield unknown(text, k.span)
        return
    yield from _each_cluster(k, firsts[0], clusters)


def _each_cluster(k: _Kernel, first: PtxSystem, clusters: int) -> Iterator[Outcome]:
    """One run for each cluster, or for each of those whose events differ."""
    seen: set[Any] = set()
    runs = 0
    for number in range(clusters):
        for lane in _elected(k, first.program, first.launch, number, first):
            system = PtxSystem.fresh(first.program, first.launch, number, lane, k.hash, first)
            if k.boxes is not None and any(map(lacks_box, system.stuck)):
                launch = _inferred(k, first.launch, first.program, number)
                if launch.maps != first.launch.maps:
                    again = PtxSystem.fresh(first.program, launch, None, lane, k.hash)
                    yield from _each_cluster(k, again, clusters)
                    return
            if clusters > MAX_CLUSTERS or not system.answered:
                if system.fingerprint in seen:
                    continue
                seen.add(system.fingerprint)
            runs += 1
            if runs > 4 * MAX_CLUSTERS:
                text = f"the blocks of the grid differ in more than {4 * MAX_CLUSTERS} ways"
                yield unknown(text, k.span)
                return
            yield _judged(k, system)


def _judged(k: _Kernel, system: PtxSystem) -> Outcome:
    """The outcome of a system. Boxes that something other than equations gave do not refute by themselves."""
    outcome = k.checker.judge(system, k.policy)
    if outcome.verdict is Verdict.PROVED and system.tables.unplaced:
        return unknown(system.tables.unplaced[0], k.span)
    if outcome.verdict is not Verdict.REFUTED or k.boxes is None:
        return outcome
    unsure = k.boxes.unsure(system.tables.map_names)
    if unsure and all(b.most for b in unsure):  # what is wrong with the smallest boxes is wrong with any
        launch = _with_boxes(system.launch, k.boxes.facts(least=True))
        least = PtxSystem.fresh(
            system.program,
            launch,
            system.cluster,
            system.info.elected_lane,
            k.hash,
            clusters=system.info.clusters,
        )
        if k.checker.judge(least, k.policy).verdict is Verdict.REFUTED:
            unsure = []
    if unsure:
        first = next((d for d in outcome.diagnostics if d.severity is Severity.ERROR), None)
        maps = ", ".join(f"{b.name} (taken as {b.bytes} bytes)" for b in unsure)
        text = f"whether this goes wrong depends on the boxes of {maps}: {first.message if first else ''}"
        return unknown(text, k.span if first is None else first.span)
    torn = k.boxes.contradiction()
    if torn is None:
        return outcome
    others = [d for d in outcome.diagnostics if (d.rule, d.span) != (torn.rule, torn.span)]
    return replace(outcome, diagnostics=(torn, *others))


def _elected(k: _Kernel, program: Program, launch: Launch, cluster: int | None,
             like: PtxSystem | None = None) -> list[int]:  # fmt: skip
    """The lanes to elect. PTX leaves the choice open; CUTLASS and others rely on what the hardware does."""
    if k.policy is Policy.STRICT:
        return elected_lanes(program, launch, cluster, like)
    if program.elections.named and _ELECTION not in k.assumptions:
        k.assumptions.append(_ELECTION)
    return [0]


def _place(reason: str) -> bool:
    """Whether a reason names the block's place in the grid."""
    return "%ctaid." in reason or "%clusterid." in reason


def _asked(reasons: Iterable[str]) -> str:
    return next(iter(reasons), "control depends on the grid: give grid in a launch file")


def unknown(reason: str, span: Span, rule: str = "SV902") -> Outcome:
    """An outcome that only gives a reason."""
    note = Diagnostic(rule, Severity.WARNING, reason, span)
    return Outcome(Verdict.UNKNOWN, (note,), None, reason, {})


def _uses_clusters(f: Function) -> bool:
    return any(
        i.op in _CLUSTER_OPS or (i.op == "barrier" and "cluster" in i.mods) or "multicast::cluster" in i.mods
        for i in f.body
    )


# ---------------------------------------------------------------- facts


def _numbers(facts: PtxFacts) -> dict[str, int]:
    """The numbers that the facts give: parameters by place, and the grid."""
    out: dict[str, int] = {}
    for axis, extent in zip("xyz", facts.grid, strict=True):
        if isinstance(extent, int):
            out[f"grid.{axis}"] = extent
    for i, leaves in enumerate(facts.params):
        for leaf in leaves:
            if leaf.given and isinstance(leaf.value, int) and leaf.kind[0] in "iub" and leaf.kind != "bf16":
                out[f"params.{i}" + (f"+{leaf.offset}" if len(leaves) > 1 else "")] = leaf.value
    return out


def _covered(facts: PtxFacts) -> ScopeKind:
    """Whether the caller fixed no size, some, or all of them."""
    numbers = _numbers(facts)
    if not facts.symbols():
        return ScopeKind.EXACT
    return ScopeKind.PARTIAL if numbers else ScopeKind.ALL


def _launch(
    facts: PtxFacts, block: tuple[int, int, int], cluster: tuple[int, int, int], f: Function
) -> Launch:
    """The launch that the facts describe; what they leave open is a value that nobody knows."""
    x, y, z = facts.grid
    grid = (x, y, z) if isinstance(x, int) and isinstance(y, int) and isinstance(z, int) else None
    dynamic = facts.dynamic_smem
    reader = Parameters(facts, f)
    return Launch(
        block=block,
        cluster=cluster,
        grid=grid,
        dynamic=dynamic if isinstance(dynamic, int) else None,
        registers=facts.registers or entry_registers(f, prod(block)),
        parameter=reader.load,
        maps=reader.maps(),
        bytes_of=reader,
        memory=reader.held,
        values=_numbers(facts),
    )


def entry_registers(f: Function, threads: int) -> int | None:
    """Registers per thread at entry where no launch file gives them: the most that the block and the kernel's
    own directives allow and any ``setmaxnreg.inc`` asks for, as ptxas (13.0, 13.4) decides.

    None for a kernel that never asks for others.
    """
    asked = [(i.mods[0], i.operands[0].value) for i in f.body
             if i.op == "setmaxnreg" and i.operands and isinstance(i.operands[0], Imm)]  # fmt: skip
    if not asked:
        return None
    most = most_registers(threads)
    cap = min(most, *(f.directives.get("maxnreg") or (most,))[:1])
    found = min(cap, max((n for mode, n in asked if mode == "inc"), default=cap))
    return found if all(n <= found for mode, n in asked if mode == "dec") else cap
