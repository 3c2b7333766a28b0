"""What is tried for a kernel, in which order, and what each step may cost: the one table of all entries.

A check climbs the ladder from the top. Each step is another way of looking at the kernel; a later one is
taken only where an earlier one left the verdict undecided for one of its ``causes``.

    step              looks at                                          taken where undecided because
    ----------------  ------------------------------------------------  ------------------------------
    exact             the launch, every size a number                   always first
    contents-as-data  the same; what shared memory holds is data        its contents decided
    every-size        sizes as terms, all trip counts at once           a size is open
    sizes-as-data     sizes that decide about accesses alone are data   a short look at them ended
    loads-as-sizes    the same; loaded numbers are sizes too            loaded data decided
    data-as-words     the same; what memory holds is any word           contents or data decided
    any-grid          the same for a grid of any extents                blocks differ, or loads decided
    small-sizes       the smallest sizes, to refute                     nothing was decided
    followed          plain accesses to global memory followed          blocks read what others write

Nothing chosen here can be unsound: each step's verdict is one of the checker. Costs are counts of events and
decisions, so that two runs agree; time and memory are guards above all steps (``base.deadline``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from syncverify.base.reason import Cause
from syncverify.checker.outcome import Budget
from syncverify.checker.prover.budget import ExplorationBudget


class Step(StrEnum):
    """The steps of the ladder, in their order."""

    EXACT = "exact"
    CONTENTS_AS_DATA = "contents-as-data"
    CONTENTS_ASIDE = "contents-aside"
    LANES_MEET = "lanes-meet"
    EVERY_SIZE = "every-size"
    SIZES_AS_DATA = "sizes-as-data"
    LOADS_AS_SIZES = "loads-as-sizes"
    DATA_AS_WORDS = "data-as-words"
    ANY_GRID = "any-grid"
    SMALL_SIZES = "small-sizes"
    FOLLOWED = "followed"


#: Causes that another way of looking may remove, by the step that does; steps without a row need none.
CAUSES: dict[Step, frozenset[Cause]] = {
    Step.CONTENTS_AS_DATA: frozenset({Cause.SHARED_CONTENTS}),
    Step.CONTENTS_ASIDE: frozenset({Cause.MISSING_FACT, Cause.BLOCK_PLACE, Cause.GLOBAL_DATA, Cause.DATA}),
    # unsupported: a mask that may not name the lanes that come
    Step.LANES_MEET: frozenset({Cause.GLOBAL_DATA, Cause.SHARED_CONTENTS, Cause.DATA, Cause.UNSUPPORTED}),
    Step.LOADS_AS_SIZES: frozenset({Cause.GLOBAL_DATA}),
    Step.DATA_AS_WORDS: frozenset({Cause.SHARED_CONTENTS, Cause.GLOBAL_DATA, Cause.DATA}),
    Step.ANY_GRID: frozenset({Cause.GRID_CASES, Cause.GLOBAL_DATA, Cause.SHARED_CONTENTS}),
}
#: Exact checks that a proof for every size may ask for.
MOST_EXACT = 8
#: Questions about data and parameters of which both answers are tried together.
MAX_CHOICES = 5


@dataclass(frozen=True, slots=True)
class Effort:
    """What the proofs of one entry may cost.

    launch       one launch, by its events
    first        the look before all others, of which only a proof or a refutation counts
    rest         each of the others; None: there are none
    for_barrier  decisions more of the first attempt for each mbarrier
    each         each cluster by itself, of clusters that share global memory as a block group
    two, three   then the only attempt at block groups of so many clusters; None: there is none
    more         and at larger ones
    small        small sizes are tried where nothing was decided
    refutes      a failing run is taken to numbers by exact checks
    """

    launch: Budget = Budget()
    first: ExplorationBudget | None = None
    rest: ExplorationBudget | None = ExplorationBudget()
    for_barrier: int = 0
    each: ExplorationBudget | None = None
    two: ExplorationBudget | None = None
    three: ExplorationBudget | None = None
    more: ExplorationBudget | None = None
    small: bool = True
    refutes: bool = True

    def block_group(self, clusters: int) -> ExplorationBudget | None:
        """What the look at block groups of so many clusters may cost."""
        return {2: self.two, 3: self.three}.get(clusters, self.more)


@dataclass(frozen=True, slots=True)
class ReplayEffort:
    """What the replay of one witness may cost, in warp instructions of the second reader.

    ``steps``: of all executions, ``each``: of one, ``executions``: how many; ``witness``: of the first one,
    where the witness is long.
    """

    steps: int
    each: int
    executions: int
    witness: int = 0


#: The replay of a refutation of PTX: some five seconds of processor time where none of it shows harm; some
#: twenty where the witness has tens of thousands of steps.
REPLAY = ReplayEffort(steps=150_000, each=100_000, executions=40, witness=2_000_000)


#: The search for an input that does harm, where data leaves a kernel undecided: some two seconds.
SEARCH = ReplayEffort(steps=60_000, each=20_000, executions=24)


class Entry(StrEnum):
    """Who asks for a verdict."""

    IR = "ir"  # a kernel of the IR: check, the API, certificates, the gate's first stage
    IR_GROUP_LAUNCH = "ir-group-launch"  # one launch of blocks that share global memory in block groups
    PTX = "ptx"  # PTX or CUDA: check, the API, certificates
    PTX_DATA = "ptx-data"  # the same where what decides is taken for any word: one look
    PTX_AHEAD = "ptx-ahead"  # the same before an attempt that proves less: a short look
    GATE_FIRST = "gate-first"  # the gate's second stage: a right kernel needs no more than this
    GATE = "gate"  # and what is looked at once the usual sizes are proved


_GROUPS = ExplorationBudget(
    events=600_000, max_nodes=3_000, max_unconfirmed_failures=0, branch_when_nobody_else_can_run=True
)
_THREE = replace(_GROUPS, events=1_500_000, max_nodes=8_000)
_MORE = replace(_GROUPS, events=100_000, max_nodes=500)
#: What questions of one look at PTX may compare, some fifteen seconds of processor time.
MOST_COMPARED = 300_000
#: The first attempt asks only when no agent can go on: states mostly repeat soonest then.
_FIRST = ExplorationBudget(
    events=200_000,
    max_nodes=400,
    first_cover_within_events=30_000,
    max_unconfirmed_failures=0,
    branch_when_nobody_else_can_run=True,
)
_PTX = ExplorationBudget(
    events=200_000,
    max_events_per_run=30_000,
    max_nodes=1_200,
    max_inequalities=MOST_COMPARED,
    max_unconfirmed_failures=1,
    short_attempt_divisor=4,
)
_PTX_FIRST = replace(
    _PTX,
    events=40_000,
    max_nodes=300,
    first_cover_within_events=20_000,
    max_unconfirmed_failures=0,
    branch_when_nobody_else_can_run=True,
    extension_factor=16,
)
_PTX_AHEAD = replace(
    _PTX_FIRST, events=20_000, max_nodes=200, extension_factor=4, max_inequalities=MOST_COMPARED // 20
)
#: A proof of the gate is made once and kept, so it may cost more.
_GATE = ExplorationBudget(
    events=800_000,
    try_small_sizes_after_events=60_000,
    max_events_per_run=60_000,
    max_nodes=3_000,
    max_unconfirmed_failures=1,
    extension_factor=2,
)
_GATE_FIRST = replace(
    _GATE,
    events=200_000,
    max_nodes=500,
    first_cover_within_events=40_000,
    branch_when_nobody_else_can_run=True,
    extension_factor=4,
)
_GATE_GROUPS = ExplorationBudget(
    events=2_000_000, max_nodes=6_000, max_unconfirmed_failures=0, branch_when_nobody_else_can_run=True
)
_GATE_LAUNCH = Budget(max_events=4_000_000)
#: One run, of any length.
_GROUP_LAUNCH = replace(_GROUPS, events=3_000_000, max_events_per_run=3_000_000, max_nodes=500)

EFFORTS: dict[Entry, Effort] = {
    Entry.IR: Effort(first=_FIRST, for_barrier=40, each=_GROUPS, two=_GROUPS, three=_THREE, more=_MORE),
    Entry.IR_GROUP_LAUNCH: Effort(first=_GROUP_LAUNCH, rest=None, small=False),
    Entry.PTX: Effort(
        first=_PTX_FIRST, rest=_PTX, each=_GROUPS, two=_GROUPS, three=_THREE, more=_MORE, small=False
    ),
    Entry.PTX_DATA: Effort(first=_PTX_FIRST, rest=None, small=False, refutes=False),
    Entry.PTX_AHEAD: Effort(first=_PTX_AHEAD, rest=None, small=False),
    Entry.GATE_FIRST: Effort(
        _GATE_LAUNCH,
        _GATE_FIRST,
        None,
        each=_GROUPS,
        two=_GATE_GROUPS,
        three=_THREE,
        more=_MORE,
        small=False,
        refutes=False,
    ),
    Entry.GATE: Effort(_GATE_LAUNCH, None, _GATE),
}

__all__ = [
    "CAUSES",
    "EFFORTS",
    "MAX_CHOICES",
    "MOST_EXACT",
    "REPLAY",
    "SEARCH",
    "Effort",
    "Entry",
    "ReplayEffort",
    "Step",
]
