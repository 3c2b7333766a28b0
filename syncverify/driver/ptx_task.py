"""One kernel under check: its facts, its code, boxes of tensor maps, and what decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Severity, Verdict
from syncverify.base.source import Span
from syncverify.checker.outcome import Outcome
from syncverify.driver.ptx_assumptions import alignments, holds, numbers, pointers_apart, unwritten
from syncverify.frontends.ptx.analysis.block_groups import BlockGroups
from syncverify.frontends.ptx.analysis.group_loads import with_loads_of_lanes
from syncverify.frontends.ptx.analysis.if_convert_atomics import predicated
from syncverify.frontends.ptx.analysis.spin_bounds import bounds_first
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.effects import MapFacts
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.exec.system import PtxSystem, elected_lanes
from syncverify.frontends.ptx.flow.forward_stores import with_forwarded_stores
from syncverify.frontends.ptx.flow.warp_syncs import without_warp_order
from syncverify.frontends.ptx.launch.block_group_detection import detect_block_groups
from syncverify.frontends.ptx.launch.concretize import launch_from
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.launch_constants import specialise
from syncverify.frontends.ptx.launch.tensormap_boxes import Boxes
from syncverify.frontends.ptx.syntax.nodes import Function, Module
from syncverify.ir.expr import Expr
from syncverify.model.events import System

_ELECTION = "elect.sync elects the lowest lane, as sm_90 does"

Judge = Callable[[System, Policy], Outcome]
Merge = Callable[[Iterable[Outcome]], Outcome]
#: The verdict for all values of some sizes: their ranges, facts, makers of systems, exact check, policy.
#: And how many clusters a system has that share global memory as a block group, and makers of systems of one
#: each. Gives what ``sizes.prove`` gives.
Prove = Callable[
    [Mapping[str, tuple[int, int | None]], tuple[Expr, ...], Any, Callable[..., Verdict], Policy, int, Any],
    Any,
]


class NotShownError(Exception):
    """There is no proof for every size, for the reason given, and nothing else is to be looked for."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason or ""


@dataclass(frozen=True, slots=True)
class Checker:
    """What turns systems into verdicts: a floor above this one."""

    judge: Judge
    merge: Merge
    prove: Prove | None = None  # for every size
    briefly: Prove | None = None  # the same by one look, where data is any word
    early: Judge | None = None  # of a few small launches, which come before the search for every size
    again: bool = True  # what a proof takes for granted is looked at where it can be wrong


@dataclass(slots=True)
class CheckTask:
    """One entry under check."""

    module: Module
    function: Function
    facts: PtxFacts
    policy: Policy
    checker: Checker
    hash: str
    assumptions: list[str] = field(default_factory=list)
    program: list[Program] = field(default_factory=list)  # the kernel compiled, once it is
    loads_as_symbols: bool = False  # what is loaded and has no number is a size
    shared_contents: bool = True  # what lies in shared memory may steer; else it is data
    warp_order: bool = True  # bar.warp.sync orders memory; else lanes only meet there
    data_as_words: bool = (
        False  # what shared memory holds, and what decides, is any word that threads agree on
    )
    sizes_as_data: bool = False  # open sizes too
    stored_values: bool = True  # what is only stored in shared memory may be a number; else it is data
    terms: frozenset[str] | None = None  # the open sizes that are terms, the others being data; None: all
    tracks_plain_global: bool = False  # plain accesses to global memory are, though nobody waits there
    #: of some sizes, reports that hold if an execution does the harm
    suspects: list[KernelReport] = field(default_factory=list)
    boxes: Boxes | None = None  # of tensor maps, inferred; None: none may be

    @property
    def span(self) -> Span:
        """Where the kernel begins."""
        return place_of(self.module, self.function)


def place_of(module: Module, entry: Function) -> Span:
    """Where an entry begins."""
    return module.entry_place(entry)


def compiled(k: CheckTask) -> tuple[Launch, Program]:
    """The launch as far as it is known, and the kernel's code."""
    assert k.facts.block is not None
    launch = launch_from(k.facts, k.facts.block, k.facts.cluster or (1, 1, 1), k.function)
    launch = replace(launch, stays=k.policy is Policy.PRACTICAL)
    if not k.program:
        k.program.append(_program(k, k.function))
    return (launch if k.boxes is None else with_boxes(launch, k.boxes.facts())), k.program[0]


def with_lanes_that_meet(k: CheckTask, function: Function) -> Function:
    """The function with barriers of warps that order nothing, and accesses that need no order for it; itself
    where there is nothing of the kind."""
    assert k.facts.block is not None
    return without_warp_order(with_loads_of_lanes(with_forwarded_stores(function), k.facts.block))


def _program(k: CheckTask, function: Function, block_groups: BlockGroups | None = None) -> Program:
    function = function if k.warp_order else with_lanes_that_meet(k, function)
    apart, ints = pointers_apart(k.facts), numbers(k.facts, k.function)
    more = (
        apart,
        ints,
        holds(k.facts),
        k.loads_as_symbols,
        block_groups,
        k.shared_contents,
        k.tracks_plain_global,
        k.facts.dependent,
    )
    inputs = unwritten(k.facts, k.function)
    data, multiples = k.data_as_words, alignments(k.facts)
    found = Program(k.module, function, *more, inputs, any_data=data, aligned=multiples)
    plain = predicated(function, found.takes)
    spins = {**(found.handing.spins if found.handing is not None else {}), **found.flags.spins}
    if spins:
        plain = bounds_first(function, found.flow, spins.values())
    if plain is function:
        return found
    return Program(k.module, plain, *more, inputs, any_data=data, aligned=multiples)


def narrowed(k: CheckTask, launch: Launch, whole: Program) -> Program:
    """The code without branches that the launch facts decide."""
    function = specialise(whole, launch)
    return whole if function.body == whole.function.body else _program(k, function)


def in_block_groups(k: CheckTask, program: Program) -> Program:
    """The code of blocks that share global memory in block groups. Raises NotConcrete where they do not."""
    return _program(
        k, program.function, detect_block_groups(program, k.facts.cluster or (1, 1, 1), k.facts.grid)
    )


def with_boxes(launch: Launch, boxes: Mapping[str, MapFacts]) -> Launch:
    """A launch with inferred boxes; those that are given win."""
    return replace(launch, maps={**boxes, **{n: m for n, m in launch.maps.items() if m.bytes is not None}})


def inferred(k: CheckTask, launch: Launch, program: Program, cluster: int = 0) -> Launch:
    """The launch with the boxes that it implies itself; ``cluster``: the one to run."""
    assert k.boxes is not None

    def launch_of(facts: PtxFacts) -> Launch:
        assert facts.block is not None
        return replace(
            launch_from(facts, facts.block, facts.cluster or (1, 1, 1), k.function), answers=launch.answers
        )

    k.boxes.learn(k.facts, program, launch_of, cluster)
    return with_boxes(launch, k.boxes.facts())


def elected(k: CheckTask, program: Program, launch: Launch, cluster: int | None,
             like: PtxSystem | None = None) -> list[int]:  # fmt: skip
    """The lanes to elect. PTX leaves the choice open; CUTLASS and others rely on what the hardware does."""
    if k.policy is Policy.STRICT:
        return elected_lanes(program, launch, cluster, like)
    if program.elections.named and _ELECTION not in k.assumptions:
        k.assumptions.append(_ELECTION)
    return [0]


def unknown(reason: str, span: Span, rule: str = "SV902") -> Outcome:
    """An outcome that only gives a reason."""
    note = Diagnostic(rule, Severity.WARNING, reason, span)
    return Outcome(Verdict.UNKNOWN, (note,), None, reason, {})
