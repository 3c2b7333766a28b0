"""One kernel under check: its facts, its code under one abstraction, and what decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.source import Span
from syncverify.checker.outcome import Outcome
from syncverify.driver.ptx.assumptions import (
    alignments,
    holds,
    numbers,
    pointers_apart,
    tries_elections,
    unwritten,
)
from syncverify.frontends.ptx.analysis.blocks.block_groups import BlockGroups
from syncverify.frontends.ptx.analysis.polls.shared_polls import NO_TURNS
from syncverify.frontends.ptx.analysis.polls.spin_bounds import bounds_first
from syncverify.frontends.ptx.analysis.slicing.if_convert_atomics import predicated
from syncverify.frontends.ptx.analysis.warps.group_loads import with_loads_of_lanes
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.effects import MapFacts
from syncverify.frontends.ptx.decode.shared_flags import SharedTurn
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.exec.system import PtxSystem, elected_lanes
from syncverify.frontends.ptx.flow.forward_stores import with_forwarded_stores
from syncverify.frontends.ptx.flow.warp_syncs import without_warp_order
from syncverify.frontends.ptx.launch.block_group_detection import detect_block_groups
from syncverify.frontends.ptx.launch.concretize import launch_from
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.launch_constants import specialise
from syncverify.frontends.ptx.launch.tensormap_boxes import InferredBoxes
from syncverify.frontends.ptx.syntax.nodes import Function, Module
from syncverify.ir.expr import Expr
from syncverify.model.elected_lane import LOWEST, WARP, ElectedLane, each_of
from syncverify.model.events import System

Judge = Callable[[System, Policy], Outcome]
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
    prove: Prove | None = None  # for every size
    briefly: Prove | None = None  # the same by one look, where data is any word
    ahead: Prove | None = None  # the same for little effort, where a weaker proof may do
    early: Judge | None = None  # of a few small launches, which come before the search for every size
    #: what a proof takes for granted is looked at where it can be wrong; by whom, if not by the judge itself
    again: bool | Judge = True

    @property
    def doubting(self) -> Checker:
        """The checker that looks at what a proof takes for granted."""
        return self if isinstance(self.again, bool) else Checker(self.again)


@dataclass(frozen=True, slots=True)
class Abstraction:
    """What one attempt abstracts: what it takes for a number, for a size and for data.

    Example: a trip count that is loaded from global memory has no number. The first attempt ends undecided
    there; another one, with ``loads_as_sizes``, proves the kernel for every trip count.
    """

    loads_as_sizes: bool = False  # what is loaded and has no number is a size
    shared_contents: bool = True  # what lies in shared memory may steer; else it is data
    warp_order: bool = True  # bar.warp.sync orders memory; else lanes only meet there
    data_as_words: bool = False  # what shared memory holds, and what decides, is any word
    sizes_as_data: bool = False  # open sizes too
    stored_values: bool = True  # what is only stored in shared memory may be a number; else it is data
    terms: frozenset[str] | None = None  # the open sizes that are terms, the others being data; None: all
    parameters_as_data: bool = False  # of one launch: sizes without a number are data
    inside_arrays: bool = False  # where data says, an access stays inside the array that it names
    kept_inside: bool = False  # and where numbers say, an access outside of it is a mistake
    tracks_plain_global: bool = False  # plain accesses to global memory are, though nobody waits there
    turns: bool = False  # what atomics in shared memory bring is a number, in each order that there may be
    copies_apart: bool = False  # bulk copies in flight write different places in global memory
    barriers: bool = True  # those of the block are events; else places show that no accesses race between two


@dataclass(frozen=True)
class EntryCode:
    """An entry's code under one abstraction. It is compiled once, when it is first asked for."""

    module: Module
    function: Function
    facts: PtxFacts
    abstraction: Abstraction = Abstraction()

    @cached_property
    def program(self) -> Program:
        """The code of the entry itself."""
        return self.of(self.function)

    @property
    def compiled(self) -> Program | None:
        """The code, if somebody asked for it."""
        return self.__dict__.get("program")

    def of(self, function: Function, block_groups: BlockGroups | None = None) -> Program:
        """The code of a part of the entry, under the abstraction."""
        facts, chosen = self.facts, self.abstraction
        if not chosen.warp_order:
            function = with_lanes_that_meet(facts, function)

        def code_of(text: Function, turns: Mapping[int, SharedTurn] = NO_TURNS) -> Program:
            return Program(
                self.module,
                text,
                pointers_apart(facts),
                numbers(facts, self.function),
                holds(facts),
                chosen.loads_as_sizes,
                block_groups,
                chosen.shared_contents,
                chosen.tracks_plain_global,
                facts.dependent,
                unwritten(facts, self.function),
                any_data=chosen.data_as_words,
                aligned=alignments(facts),
                blocks_in_x=facts.grid[0] if isinstance(facts.grid[0], int) else None,
                alone=facts.grid == (1, 1, 1),
                given=not facts.symbols() and all(isinstance(e, int) for e in facts.grid),
                turns=turns,
                copies_apart=chosen.copies_apart,
                barriers=chosen.barriers,
            )

        found = code_of(function)
        plain = predicated(function, found.takes)
        spins = {**(found.handing.spins if found.handing is not None else {}), **found.flags.spins}
        if spins:
            plain = bounds_first(function, found.flow, spins.values())
        found = found if plain is function else code_of(plain)
        turns = found.deciding_turns if chosen.turns else NO_TURNS
        return code_of(plain, turns) if turns else found


@dataclass(frozen=True, slots=True)
class CheckTask:
    """One entry under check: what is launched, what is abstracted, and what decides.

    ``boxes`` alone changes: what one attempt infers of tensor maps serves the next. None: none is inferred.
    ``each_lane``: where it matters which lane is elected, each is tried. ``second_layout``: shared variables
    lie where they do in the second layout (``frontends/ptx/exec/second_layout.py``).
    """

    code: EntryCode
    facts: PtxFacts
    policy: Policy
    checker: Checker
    hash: str
    boxes: InferredBoxes | None = None
    each_lane: bool = False
    second_layout: bool = False

    @property
    def module(self) -> Module:
        """The module of the entry."""
        return self.code.module

    @property
    def function(self) -> Function:
        """The entry."""
        return self.code.function

    @property
    def abstraction(self) -> Abstraction:
        """What the attempt abstracts."""
        return self.code.abstraction

    @property
    def span(self) -> Span:
        """Where the kernel begins."""
        return place_of(self.module, self.function)

    def at(self, facts: PtxFacts) -> CheckTask:
        """The same code with numbers for sizes."""
        chosen = self.facts.chosen or not self.facts.symbols().keys() <= facts.symbols().keys()
        return replace(self, facts=replace(facts, chosen=chosen))

    def launched(self, facts: PtxFacts) -> CheckTask:
        """The same entry under other facts, its code compiled for them."""
        return replace(self, facts=facts, code=replace(self.code, facts=facts))

    def abstracted(self, abstraction: Abstraction) -> CheckTask:
        """The same launch, its code under another abstraction."""
        return replace(self, code=replace(self.code, facts=self.facts, abstraction=abstraction))


def place_of(module: Module, entry: Function) -> Span:
    """Where an entry begins."""
    return module.entry_place(entry)


def compiled(k: CheckTask) -> tuple[Launch, Program]:
    """The launch as far as it is known, and the kernel's code."""
    assert k.facts.block is not None
    launch = launch_from(
        k.facts,
        k.facts.block,
        k.facts.cluster or (1, 1, 1),
        k.function,
        sizes_as_data=k.abstraction.parameters_as_data,
    )
    inside = k.abstraction.inside_arrays
    kept = k.abstraction.kept_inside
    launch = replace(
        launch,
        stays=k.policy is Policy.PRACTICAL,
        inside_arrays=inside,
        kept_inside=kept,
        sized=k.abstraction.parameters_as_data,
        second_layout=k.second_layout,
    )
    return (launch if k.boxes is None else with_boxes(launch, k.boxes.latest.facts())), k.code.program


def with_lanes_that_meet(facts: PtxFacts, function: Function) -> Function:
    """The function with barriers of warps that order nothing, and accesses that need no order for it; itself
    where there is nothing of the kind."""
    assert facts.block is not None
    return without_warp_order(with_loads_of_lanes(with_forwarded_stores(function), facts.block))


def narrowed(k: CheckTask, launch: Launch, whole: Program) -> Program:
    """The code without branches that the launch facts decide."""
    function = specialise(whole, launch)
    return whole if function.body == whole.function.body else k.code.of(function)


def in_block_groups(k: CheckTask, program: Program) -> Program:
    """The code of blocks that share global memory in block groups. Raises NotConcrete where they do not."""
    groups = detect_block_groups(program, k.facts.cluster or (1, 1, 1), k.facts.grid)
    return k.code.of(program.function, groups)


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
    return with_boxes(launch, k.boxes.latest.facts())


def elected(k: CheckTask, program: Program, launch: Launch, cluster: int | None,
             like: PtxSystem | None = None) -> list[ElectedLane]:  # fmt: skip
    """The lanes to elect. PTX leaves the choice open; CUTLASS and others rely on what the hardware does."""
    if not tries_elections(program, k.policy):
        return [LOWEST]
    if k.each_lane:
        return each_of(range(WARP), all_needed=True)
    return elected_lanes(program, launch, cluster, like)
