"""The state of a run that is judged: its barriers, its classes, and what was noted of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.certificate_data import RejectedError
from syncverify.checker.kernel.exact.hazards import Memory, NotJudgedError, Touch
from syncverify.checker.kernel.exact.knowledge import Epoch, Knowledge, LaneClass, VectorClock
from syncverify.checker.kernel.exact.polls import Use
from syncverify.checker.kernel.exact.words import Word
from syncverify.model.events import Agent, Event, SystemInfo, ThreadClass

#: What is assumed of memory that is read while the grid before may run.
LEFT_ALONE = "the grid before leaves it alone"


@dataclass(slots=True)
class Phase:
    """The open phase of an mbarrier and what its contributions hand on."""

    knowledge: Knowledge = field(default_factory=Knowledge)
    far: Knowledge = field(default_factory=Knowledge)  # for waits at cluster scope
    by_arrivals: VectorClock = field(default_factory=VectorClock)  # what happened before some arrival
    others: VectorClock = field(default_factory=VectorClock)  # before some other contribution
    threads: dict[int, int] = field(default_factory=dict)  # contributions of threads: class -> time
    copies: bool = False  # something asynchronous contributed
    expects: list[tuple[int, int, int]] = field(default_factory=list)  # class, time, bytes
    landed: list[tuple[int, VectorClock]] = field(
        default_factory=list
    )  # bytes, what happened before the issue
    expected: int = 0
    completed: int = 0

    @property
    def tx(self) -> int:
        return self.expected - self.completed


@dataclass(slots=True)
class Barrier:
    """An mbarrier that is alive."""

    index: int
    life: int
    count: int
    inits: tuple[tuple[int, int], ...]  # class, time: of one lane, or of several of a warp
    pending: int
    site: int
    done: int = 0  # completed phases
    phase: Phase = field(default_factory=Phase)
    last: Phase = field(default_factory=Phase)
    before: Phase = field(default_factory=Phase)  # the one before the last
    waits: dict[int, int] = field(default_factory=dict)  # since the last completion: class -> time
    uses: dict[int, int] = field(default_factory=dict)
    copies: int = -1  # the last phase to which something asynchronous contributed

    @property
    def mark(self) -> Epoch:
        return ("b", self.index, self.life)


@dataclass(slots=True)
class Groups:
    """Asynchronous operations of one kind and one owner."""

    issued: int = 0
    committed: list[int] = field(default_factory=list)

    def covered(self, pending: int) -> int:
        """How many operations are complete once at most ``pending`` groups are not; -1: all issued ones."""
        if pending < 0:
            return self.issued
        return self.committed[-1 - pending] if len(self.committed) > pending else 0


@dataclass(slots=True)
class Meeting:
    """The open generation of an execution barrier."""

    number: int = 0
    arrived: dict[int, int] = field(default_factory=dict)  # class -> time
    previous: dict[int, int] = field(default_factory=dict)
    knowledge: Knowledge = field(default_factory=Knowledge)
    released: Knowledge = field(default_factory=Knowledge)
    threads: int = 0
    counted: bool = False  # an arrival says how many threads
    sites: set[int] = field(default_factory=set)  # of the arrivals
    again: set[int] = field(default_factory=set)  # classes that arrived, now wait, and count twice


@dataclass(slots=True)
class ReplayedAgent:
    """One class while it runs."""

    info: ThreadClass
    agent: Agent | None
    lanes: LaneClass
    event: Event | None = None
    answer: int = 0
    meant: Use | None = None  # what the look is for at which it stands, where no agent can be asked
    entered: bool = False  # it has arrived at the barrier at which it stands
    leaving: int = -1  # the generation that it waits for
    meets: Epoch = ()  # of which barrier
    gone: bool = False
    exit_site: int = -1  # where it left
    registers: dict[int, Touch] = field(default_factory=dict)  # reads that a use may still show to be over
    unsure: dict[int, Touch] = field(default_factory=dict)  # by footprint, the reads since the last fence
    fragments: dict[int, list[int]] = field(default_factory=dict)  # number of the last wgmma, touched since
    fenced: bool = False
    owes_wait: bool = False  # on the cluster barrier
    requests: list[tuple[int, bool, VectorClock, int, int]] = field(
        default_factory=list
    )  # of setmaxnreg: registers, inc, what had happened before, time, time of the last that says the same
    released: Knowledge | None = None  # what a release fence hands to later relaxed arrivals (A5)
    scope: int = 0  # its scope
    received: Knowledge | None = None  # what relaxed waits leave to an acquire fence
    collectives: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)  # aligned operations
    far: dict[int, int] = field(default_factory=dict)  # other CTAs that it reached, and when last
    issues: list[VectorClock] = field(default_factory=list)  # of wgmmas
    copies: list[tuple[tuple[Epoch, int], int]] = field(default_factory=list)  # completion, CTA accessed
    executions: dict[int, int] = field(default_factory=dict)  # of stores whose value depends on it, by site
    polled: dict[int, tuple[VectorClock, int]] = field(
        default_factory=dict
    )  # polls before waits of the same phase, by barrier: what had happened before, flags


class State:
    """Everything that the rules of a run share. ``numbers``: all sizes are numbers."""

    numbers = True

    def __init__(self, info: SystemInfo, agents: Sequence[Agent | None]) -> None:
        """``agents``: None for classes whose events come from elsewhere."""
        self.info = info
        if why := _not_judged(info):
            raise NotJudgedError(why)
        self.words: dict[tuple[int, int], Word] = {}  # of global memory, by their bytes
        self.data: set[tuple[int, int]] = set()  # what else of it is accessed
        self.grid_waits: list[tuple[int, int]] = []  # for the grid before: class, time
        self.early: Exception | None = None  # for the first access to global memory before such a wait
        self.inputs: dict[str, None] = {}  # what is assumed of reads before such a wait, in order
        self.fences: list[list[int]] = [[] for _ in self.info.classes]
        self.memory = Memory(self.info, self.fences)
        self.barriers: dict[int, Barrier] = {}
        self.lives: dict[int, int] = {}
        self.shared_inits: set[int] = set()  # barriers that several lanes initialized alike
        self.under: dict[tuple[int, int], tuple[int, ...]] = {}  # barriers below footprints
        self.maps: dict[int, Any] = {}  # edited tensor maps
        self.overlays: set[int] = set()  # barriers whose bytes have held data
        self.ended: dict[int, tuple[int, int]] = {}  # invalidations: class, time
        self.meetings: dict[Epoch, Meeting] = {}
        self.groups: dict[Epoch, Groups] = {}
        self.exits: dict[int, VectorClock] = {}
        self.events = 0
        #: by class, the classes of its warp and of its warpgroup
        self.warps, self.warpgroups = (_alike(self.info, size) for size in (1, 4))
        self.trace: list[list[Event]] = [[] for _ in self.info.classes]
        #: what agents were asked, in order: class, answer (None: for the use of a look), what they said
        self.asked: list[tuple[int, int | None, Any]] = []
        #: sites of stores that write one value, as was known when the run began
        self.equal_stores: frozenset[int] = frozenset()
        #: (barrier, phase) -> what landed in it, and who waited for it: the run as a certificate has it
        self.phases: dict[tuple[int, int], tuple[list[Any], list[Any]]] = {}
        self.actors = [
            ReplayedAgent(c, a, LaneClass(i, c.count))
            for i, (c, a) in enumerate(zip(self.info.classes, agents, strict=True))
        ]

    def note(self, b: Barrier, phase: int, what: str, a: ReplayedAgent, *more: int) -> None:
        """Enters a contribution to a phase, or a wait for it."""
        gives, takes = self.phases.setdefault((b.index, phase), ([], []))
        if what == "wait":
            takes.append([a.lanes.cls, a.lanes.time])
        else:
            gives.append([what, a.lanes.cls, a.lanes.time, *more])

    def at(self, a: ReplayedAgent) -> str:
        assert a.event is not None
        site = self.info.sites[a.event[1]]
        return f"{site.span} ({site.text})"

    def reject(self, a: ReplayedAgent, what: str) -> RejectedError:
        return RejectedError(self.at(a), f"{a.info.name}: {what}")

    def left(self) -> list[LaneClass]:
        """The classes that have not ended."""
        return [a.lanes for a in self.actors if not a.gone]

    def seen(self, a: ReplayedAgent, event: tuple[int, int]) -> bool:
        """Whether an event of a class is visible to the lanes of another, or of the same lane."""
        cls, time = event
        return a.lanes.visible(("t", cls), cls == a.lanes.cls and a.lanes.alone) >= time

    def group(self, a: ReplayedAgent, kind: str) -> tuple[Epoch, Groups]:
        owner = (a.info.cta, a.info.warp) if kind == "mma" else a.lanes.cls
        found = self.groups.get((kind, a.lanes.cls))
        if found is None:
            found = self.groups[kind, a.lanes.cls] = Groups()
        return ("g", kind, owner), found


def _not_judged(info: SystemInfo) -> str:
    """Which blocks that share global memory are not judged: those that stand for others, or come after them,
    and clusters of several blocks beside each other.
    """
    if info.clusters > 1 and info.ctas > 1:
        return "hand-over through global memory between clusters of several blocks"
    if info.flag_chain or info.modular_cluster or info.footprint_partition or info.clusters_run_sequentially:
        return "hand-over through global memory by blocks that stand for others"
    return ""


def _alike(info: SystemInfo, size: int) -> list[list[int]]:
    """By class, the classes of the same warp, or of the same warps by so many."""
    found: dict[tuple[int, int], list[int]] = {}
    for i, c in enumerate(info.classes):
        found.setdefault((c.cta, c.warp // size), []).append(i)
    return [found[c.cta, c.warp // size] for c in info.classes]
