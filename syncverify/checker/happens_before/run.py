"""One run of a system: agents step under a scheduler while clocks, shadow memory and obligations are kept.

The canonical run is fair and completes asynchronous operations at once; by the theorem of the checker its
verdict is that of all runs if the obligations hold. Directed and random runs use the same machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from syncverify.base.deadline import check as check_time
from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before import access_merging as groups
from syncverify.checker.happens_before.failure import HARM, IMMEDIATE, Failure, Obligation
from syncverify.checker.happens_before.shadow import IN_FLIGHT, Record, Shadow
from syncverify.checker.happens_before.vector_clocks import Clock, Columns, Matrix
from syncverify.model.automata.async_groups import Groups
from syncverify.model.automata.register_pool import RegisterPool, most_registers
from syncverify.model.events import EACH_TIME, Agent, Ev, Event, System, ThreadClass
from syncverify.model.proxies import Scope

#: What a handler says of its event: done; not yet, try again when woken; arrived and parked until released
#: (the releaser finishes it); done, but let others run first.
DONE, RETRY, PARKED, YIELD = range(4)
#: Numbers of executions that may be equal differ by less.
APART = 1 << 40
#: Events that a run goes on for after harm was found: all of a kernel that ends, little of one that does not.
AFTER_HARM = 100_000
#: What the lanes of a block wait for that is not running yet, where blocks hand on flags.
LATER = ("later cluster",)
#: Events of one class in a row after which it is looked at whether it does the same for ever.
MANY_IN_A_ROW = 4096
#: A class looks at the time after so many of its events and one.
_SELDOM = 15


class TooManyEvents(Exception):  # noqa: N818 -- ends a run, caught by the caller
    """The event budget is spent; ``run``: as far as it went."""

    run: Run | None = None


class Livelock(TooManyEvents):
    """A class repeats a loop in which nothing changes, and nobody else runs."""

    def __init__(self, site: int) -> None:
        super().__init__("a loop never ends: nothing changes from one iteration to the next")
        self.site = site


class Unmodelled(Exception):  # noqa: N818 -- ends a run, caught by the caller
    """An event this checker cannot decide about."""

    def __init__(self, reason: str, site: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.site = site


class BranchingPoll(Unmodelled):
    """A poll whose two answers lead to different things."""


class ProxyFence(NamedTuple):
    """A proxy fence that a class has executed; ``half``: RELEASE or ACQUIRE, 0 of one for both directions."""

    time: int
    spaces: int
    site: int
    half: int


@dataclass(slots=True, eq=False)
class LaneClass:
    """A class of lanes under execution."""

    cls: int
    info: ThreadClass
    agent: Agent
    clock: Clock
    n: int
    time: int = 0
    answer: int = 0
    event: Event | None = None  # fetched and not finished
    emitted: Event | None = None  # as its agent names it, where that is another place: ``Run.rotation``
    meant: str = ""  # what the result of its poll is for, where that was just looked at
    parked: bool = False
    blocked: bool = False
    done: bool = False
    waits_on: tuple[Any, ...] = ()
    asyncs: int = 0  # copies and wgmmas issued, as witnesses number them
    launched: int = 0  # the same, cp.async arrivals included
    bulk: Groups = field(default_factory=Groups)
    cp: Groups = field(default_factory=Groups)
    mma: Groups = field(default_factory=Groups)
    columns: dict[str, int] = field(default_factory=dict)
    registers: dict[int, Record] = field(default_factory=dict)  # reads whose value has yet to arrive
    unsure: dict[int, Record] = field(default_factory=dict)  # by footprint: reads since the last fence
    fences: list[int] = field(default_factory=list)  # times of acq_rel fences
    proxy_fences: list[ProxyFence] = field(default_factory=list)
    syncs: list[int] = field(default_factory=list)  # times of waits, barriers and arrivals
    group_waits: dict[str, set[int]] = field(default_factory=dict)  # kind -> sites of its group waits
    idle_waits: dict[str, int] = field(default_factory=dict)  # group waits with nothing issued: kind -> site
    collectives: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # site, code, position of warp-wide events
    fragments: dict[int, list[int]] = field(
        default_factory=dict
    )  # frag -> [last mma on it, touched since fence]
    fenced: bool = False
    release_fence: Matrix | None = None  # what the last release fence covers
    release_scope: int = 0
    release_site: int = -1
    acquirable: Matrix | None = None  # what relaxed waits have seen, until an acquire fence
    acquirable_far: Matrix | None = None  # the same of other blocks' arrivals: for a fence of the cluster
    polled: dict[int, tuple[Matrix, int]] = field(
        default_factory=dict
    )  # barrier -> E and flags of a guarding poll
    seen: dict[int, int] = field(default_factory=dict)  # barrier -> completed phases at its last wait
    suspect: tuple[int, int, int, int] | None = (
        None  # time, position, site, barrier of a wait that told nothing
    )
    setmaxnregs: int = 0
    cluster_owed: int = 0  # cluster arrivals without their wait
    exit_site: int = -1  # at which it left
    met: int = 0  # time of the event at which this class joined a warp-wide meeting
    meeting: bool = False
    issues: list[Matrix] = field(default_factory=list)  # E at each wgmma's issue
    operands: list[tuple[int, ...]] = field(default_factory=list)  # what each names, where that may differ
    products: list[Record] = field(default_factory=list)  # reads of wgmmas before their commit,
    stores: list[Record] = field(default_factory=list)  # and stores in a row, that will be joined
    last_bulk: int = -1  # site of the newest bulk store
    last_mma: int = -1


@dataclass(slots=True, eq=False)
class AsyncOperation:
    """An asynchronous operation in flight: what its completion contributes where."""

    index: int
    thread: LaneClass
    number: int  # among the class's asynchronous operations
    site: int
    past: Matrix  # E at its issue, the issue included
    known: Matrix  # E at its issue as one lane alone has it: without what its sibling lanes did
    targets: list[tuple[int, int, Record | None]]  # barrier, bytes, its write
    arrivals: int = 0  # of a cp.async.mbarrier.arrive
    covers: tuple[int, int] = (-1, 0)  # column and value that its completion makes known
    records: tuple[Record, ...] = ()
    key: tuple[int, int] = (-1, -1)  # the same operation in another run
    landed: list[tuple[int, int]] = field(default_factory=list)  # column and value that show its completion
    done: bool = False


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run goes on, and what it knows; the rest of ``Run`` is its state.

    Of the run itself:

    - ``completes_at_once``: an asynchronous operation completes right after the event that issues it; else
      the scheduler says when.
    - ``skips_unmodelled``: a class that nobody can follow stands still, and the others go on. Polls are
      answered as the barrier stands.
    - ``ignores_pool``: setmaxnreg never blocks. Set after the register pool itself was found broken.
    - ``waits_for_previous_phase``: a contribution waits for the phase before it, though nothing makes it.

    Of a symbolic exploration, whose states are compared:

    - ``weak_completion_knowledge``: that a phase is over is known of barriers which say so, not of those who
      contributed. Fewer states differ, and a check fails more often.
    - ``records_observers``: who has looked at which phase is kept, for it is asked.
    - ``refined_comparison``: states are compared further: see ``knowledge_order``.
    - ``merges_equivalent_accesses``: accesses that nothing can distinguish become one: see
      ``access_merging``.
    """

    completes_at_once: bool = True
    skips_unmodelled: bool = False
    ignores_pool: bool = False
    waits_for_previous_phase: bool = False
    weak_completion_knowledge: bool = False
    records_observers: bool = True
    refined_comparison: bool = False
    merges_equivalent_accesses: bool = False


class Run:
    """The state of one run. Handlers of the events live in the modules beside this one."""

    def __init__(
        self,
        system: System,
        handlers: Handlers,
        land: Callable[[Run, AsyncOperation], None],
        columns: Columns,
        max_events: int,
        options: RunOptions = RunOptions(),
    ) -> None:
        self.system = system
        self.info = system.info
        self.handlers = handlers
        self.on_completion = land
        self.options = options
        self.forks: dict[int, set[int]] = {}  # barriers whose polls steer their classes
        self.saw: dict[int, int] = {}  # position of a wait or poll that passed -> the phase it saw complete
        self.after_hang = False  # after a hang: blocked agents are let through to find independent mistakes
        self.max_events = max_events
        self.walker: LaneClass | None = None  # who has made the last events, and how many in a row
        self.in_a_row = 0
        self.standing: tuple[Any, ...] = ()  # how things stood at one of them
        self.columns = columns
        self.threads = [
            LaneClass(i, c, a, Clock(self.columns, i, c.count), c.count)
            for i, (c, a) in enumerate(zip(self.info.classes, system.agents(), strict=True))
        ]
        groups: dict[tuple[int, int], list[int]] = {}
        for t in self.threads:
            groups.setdefault((t.info.cta, t.info.warp // 4), []).append(t.cls)
        #: by class: those of its warpgroup
        self.warpgroups = [groups[t.info.cta, t.info.warp // 4] for t in self.threads]
        self.ctas = self.info.ctas * self.info.clusters
        self.memory: dict[int, Shadow] = {}
        self.late: dict[int, int] = {}  # by class: the first of its wgmmas' reads that is not entered yet
        self.barriers: dict[int, Any] = {}
        self.named: dict[tuple[int, int], Any] = {}
        self.clusters: dict[int, Any] = {}
        self.suspects: list[tuple[int, int, int, int, int]] = []  # position, class, time, site, barrier
        self.narrow: dict[
            tuple[int, int], int
        ] = {}  # (class, CTA reached) -> site of a release of too small scope
        self.locations: dict[int, Any] = {}  # flags and counters in global memory
        self.spun: dict[int, int] = {}  # after a relaxed spin: class -> scope that the fence needs
        self.signals: list[tuple[int, int, int]] = []  # class, time, site of synchronizing global writes
        self.maps: dict[int, Any] = {}  # tensor maps
        self.grid_waits: list[tuple[int, int]] = []  # by class and time, until all have waited
        self.all_waited = False
        # class -> first global access before a grid wait: time, site, place, whether only a warning
        self.early: dict[int, tuple[int, int, int, bool]] = {}
        self.skipped_polls: set[int] = set()  # sites of polls that are no step of their own
        self.met: list[LaneClass] = []  # classes that a meeting just let through
        self.met_alone: set[int] = set()  # classes that a hang left waiting for lanes of their warp
        self.contributors: dict[tuple[object, ...], set[int]] = {}  # who ever arrives where
        self.object_footprints: dict[int, int] = {}  # barrier -> footprint of its object
        self.barrier_bytes: dict[int, tuple[int, ...]] = {}  # footprint -> barriers it overlaps
        self.pools: dict[int, RegisterPool] = {}
        self.requests: list[Any] = []
        self.asyncs: list[AsyncOperation] = []
        #: by column of a barrier's life and CTA: the newest phase in which a copy to that CTA completed
        self.landed: dict[tuple[int, int], int] = {}
        self.pending: dict[int, AsyncOperation] = {}
        self.judged: set[tuple[int, int, bool]] = set()  # racing pairs of sites met before
        self.failures: dict[tuple[object, ...], Failure] = {}
        self.trace: list[tuple[int, Event]] = []
        #: where blocks hand on flags, what each has done with one, by address and CTA
        self.flag_chains: dict[tuple[int, int], Any] = {}
        #: of one cluster of a block group alone, what it does with flags, and its accesses to tracked memory
        self.ledger: list[Any] = []
        self.reached: dict[Any, Record] = {}
        #: by site of a store whose value is one for all, but may be another each time, and by class: how
        #: often it was executed
        self.executions: dict[tuple[int, int], int] = {}
        self.running_cluster = 0  # the cluster that runs, where they run one after the other
        #: a ring, and how many places agents stand further on in it than what is on record (``reach.ring``)
        self.rotation: tuple[Any, int] | None = None
        self.ready: deque[LaneClass] = deque(self.threads)
        self.live: dict[tuple[int, int], int] = {}
        self.exits: dict[int, Matrix] = {}
        self.remote_uses: dict[
            tuple[int, int], tuple[int, int, Matrix]
        ] = {}  # class, CTA -> time, site, past
        for t in self.threads:
            key = (t.info.cta, t.info.warp)
            self.live[key] = self.live.get(key, 0) | t.info.lanes
        self.lanes = dict(self.live)

    # -------------------------------------------------------------- stepping

    def step(self, t: LaneClass) -> int:
        """Runs one event of a class, or tries its blocked one again."""
        event = t.event
        if event is None:
            event = t.agent.step(t.answer)
            t.event, t.answer = event, 0
            t.time += 1
            t.clock.advance(t.cls, t.time)
            if len(self.trace) >= self.max_events:
                raise TooManyEvents
            if not t.time & _SELDOM:
                check_time(_SELDOM + 1)
            self.watch(t, event)
        if (
            self.info.clusters_run_sequentially
            and t.info.cta // self.info.ctas > self.running_cluster
            and event[0] != Ev.ELECT
        ):
            t.blocked, t.waits_on = True, LATER
            return RETRY
        handler = self.handlers.get(event[0])
        if handler is None:
            raise Unmodelled(f"the checker does not analyse {Ev(event[0]).name.lower()}", event[1])
        if t.stores and event[0] not in groups.SILENT:
            groups.merge_stores(self.info, self.memory, t.stores)
            t.stores = []
        result = handler(self, t, event)
        if result == DONE or result == YIELD:
            t.event = None
            t.blocked = False
            self.trace.append((t.cls, event))
            if self.options.completes_at_once and self.pending:
                for op in list(self.pending.values()):
                    self.complete(op)
            while self.met:
                # Lanes that met for one instruction execute it together, before any of them goes on.
                other = self.met.pop(0)
                if other.event is not None and not other.blocked:
                    self.step(other)
        elif result == PARKED:
            self.trace.append((t.cls, event))
            t.blocked = t.parked = True
        else:
            t.blocked = True
        return result

    def watch(self, t: LaneClass, event: Event) -> None:
        """Ends a run that repeats a loop without end; ``event`` is the next one of ``t``."""
        if t is not self.walker:
            self.walker, self.in_a_row, self.standing = t, 0, ()
        self.in_a_row += 1
        if self.in_a_row >= MANY_IN_A_ROW:
            self._look_for_rounds(t, event)

    def _look_for_rounds(self, t: LaneClass, event: Event) -> None:
        """Raises Livelock where the class is again in the state of an earlier event, and so are all barriers.

        The state that is compared is renewed at powers of two: a round of any length is found at last.
        """
        renewed = self.in_a_row & (self.in_a_row - 1) == 0
        if not renewed and event != self.standing[0]:
            return
        barriers = tuple(repr(b.auto) for b in self.barriers.values())
        now = (event, t.agent.snapshot(), barriers, len(self.asyncs))
        if now == self.standing:
            raise Livelock(event[1])
        if renewed:
            self.standing = now

    def wake(self, t: LaneClass) -> None:
        """Lets a blocked class try again, or goes on after a barrier that has released it."""
        if t.parked:
            t.parked = False
            t.event = None
        t.blocked = False
        t.waits_on = ()
        self.ready.append(t)

    def run(self) -> None:
        """Runs every class until it blocks, in turn, until nobody can go on."""
        ready = self.ready
        while ready:
            t = ready.popleft()
            while not t.done and not t.blocked:
                if self.step(t) == YIELD:
                    ready.append(t)
                    break

    def execution_of(self, t: LaneClass, site: int) -> int:
        """How often a class has executed a store before, if what it stores may depend on it."""
        varies = self.info.varies
        if varies is None or not varies(site) & EACH_TIME:
            return 0
        found = self.executions.get((site, t.cls), 0)
        self.executions[site, t.cls] = found + 1
        return found

    def count_apart(self) -> None:
        """Stores that a class has yet to execute, and another one has executed several times: by how much it
        is behind is distinguished no more. What it executes has numbers of its own from there on."""
        for site in {site for site, _ in self.executions}:
            first, numbers = 0, self._numbers(site, 0)
            while numbers:
                late = [c for c, n in numbers.items() if n == first and not self.threads[c].done]
                if max(numbers.values()) > first + 1:
                    self.executions.update({(site, c): first - APART for c in late})
                first -= APART
                numbers = self._numbers(site, first)

    def _numbers(self, site: int, first: int) -> dict[int, int]:
        """By class, how often it has executed a store, of those that count from one number."""
        found = {t.cls: self.executions.get((site, t.cls), 0) for t in self.threads}
        return {c: n for c, n in found.items() if n // APART * APART == first}

    def gone(self, t: LaneClass) -> bool:
        """Whether a class belongs to a cluster that has left before the one that runs."""
        return t.info.cta // self.info.ctas < self.running_cluster

    def enabled(self) -> list[LaneClass]:
        """Classes that can take a step."""
        return [t for t in self.threads if not t.done and not t.blocked]

    @property
    def hung(self) -> bool:
        return any(not t.done for t in self.threads)

    def blocked(self) -> list[LaneClass]:
        return [t for t in self.threads if not t.done]

    # -------------------------------------------------------------- asynchronous operations

    def launch(self, op: AsyncOperation) -> None:
        """An operation is in flight; an eager run completes it right after this event."""
        op.index = len(self.asyncs)
        op.key = (op.thread.cls, op.thread.launched)
        op.thread.launched += 1
        for r in op.records:
            r.issue = op.index
        self.asyncs.append(op)
        self.pending[op.index] = op

    def complete(self, op: AsyncOperation) -> None:
        """The operation's data and its completion land."""
        op.done = True
        self.pending.pop(op.index, None)
        self.trace.append((-1 - op.index, ()))
        self.on_completion(self, op)

    # -------------------------------------------------------------- findings

    def fail(self, failure: Failure) -> None:
        """Keeps the first failure of each kind."""
        if self.after_hang and failure.obligation not in (Obligation.O5, Obligation.O8):
            return
        self.failures.setdefault(failure.key, failure)
        if (
            failure.obligation in IMMEDIATE
            and failure.severity == Severity.ERROR
            and not failure.undetermined
        ):
            self.max_events = min(self.max_events, len(self.trace) + AFTER_HARM)

    def report(
        self, obligation: Obligation, rule: str, message: str, t: LaneClass, site: int, **more: Any
    ) -> Failure:
        """Builds and keeps a failure of the event that ``t`` executes now."""
        f = Failure(obligation, rule, message, site, t.cls, t.time, len(self.trace), **more)
        self.fail(f)
        return f

    def errors(self) -> list[Failure]:
        return [f for f in self.failures.values() if f.severity == Severity.ERROR]

    def harms(self) -> list[Failure]:
        if not self.failures:
            return []
        return [f for f in self.errors() if f.obligation in HARM]

    def pool(self, cta: int) -> RegisterPool:
        """The register pool of a CTA, full at entry (PTX ISA: setmaxnreg)."""
        p = self.pools.get(cta)
        if p is None:
            held = self.info.registers or most_registers(self.info.threads)
            groups = range(-(-self.info.warps // 4))
            p = self.pools[cta] = RegisterPool(0, dict.fromkeys(groups, held), dict.fromkeys(groups, 0))
        return p

    def shadow(self, memory: int) -> Shadow:
        if self.late:
            groups.commit_pending_reads(self)
        s = self.memory.get(memory)
        if s is None:
            s = self.memory[memory] = Shadow()
        return s


def scope_between(run: Run, a: int, b: int) -> Scope:
    """The narrowest scope that includes the threads of two CTAs (PTX ISA: Scope)."""
    if a == b:
        return Scope.CTA
    return Scope.CLUSTER if a // run.info.ctas == b // run.info.ctas else Scope.GPU


def before(t: LaneClass) -> Matrix:
    """E just before the event that ``t`` executes now."""
    v = t.clock.past()
    v[t.cls] = t.time - 1
    return v


Handler = Callable[[Run, LaneClass, Event], int]
Handlers = dict[Any, Handler]
__all__ = [
    "DONE",
    "IN_FLIGHT",
    "PARKED",
    "RETRY",
    "YIELD",
    "AsyncOperation",
    "Handler",
    "Handlers",
    "LaneClass",
    "Run",
    "scope_between",
]
