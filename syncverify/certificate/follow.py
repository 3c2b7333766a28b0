"""One run of a system, judged on its own: the obligations of docs/theory.md, section 4, and nothing searched.

Nothing here is shared with the checker but the events, the table of hazards and the arithmetic of register
pools. What it does not judge raises NotJudgedError: the obligations of such a system rest on the checker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from syncverify.certificate.data import RejectedError
from syncverify.certificate.hazards import Memory, Touch
from syncverify.certificate.knowledge import Knowledge, Lanes, Mark, Row, join, raise_to
from syncverify.model.automata.register_pool import legal, most_registers
from syncverify.model.events import Agent, Ev, Event, Flag, Footprint, System, ThreadClass
from syncverify.model.proxies import Access, Scope, Space

#: The largest transaction count and the largest count of arrivals (PTX ISA: mbarrier).
LARGEST = (1 << 20) - 1


class NotJudgedError(Exception):
    """An event that only the checker judges."""


@dataclass(slots=True)
class Phase:
    """The open phase of an mbarrier and what its contributions hand on."""

    knowledge: Knowledge = field(default_factory=Knowledge)
    far: Knowledge = field(default_factory=Knowledge)  # for waits at cluster scope
    by_arrivals: Row = field(default_factory=dict)  # what happened before some arrival
    others: Row = field(default_factory=dict)  # before some other contribution
    threads: dict[int, int] = field(default_factory=dict)  # contributions of threads: class -> time
    copies: bool = False  # something asynchronous contributed
    expects: list[tuple[int, int, int]] = field(default_factory=list)  # class, time, bytes
    landed: list[tuple[int, Row]] = field(default_factory=list)  # bytes, what happened before the issue
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
    init: tuple[int, int]  # class, time
    pending: int
    done: int = 0  # completed phases
    phase: Phase = field(default_factory=Phase)
    last: Phase = field(default_factory=Phase)
    before: Phase = field(default_factory=Phase)  # the one before the last
    waits: dict[int, int] = field(default_factory=dict)  # since the last completion: class -> time
    uses: dict[int, int] = field(default_factory=dict)
    copies: int = -1  # the last phase to which something asynchronous contributed

    @property
    def mark(self) -> Mark:
        return ("b", self.index, self.life)


@dataclass(slots=True)
class Groups:
    """Asynchronous operations of one kind and one owner."""

    issued: int = 0
    committed: list[int] = field(default_factory=list)

    def covered(self, pending: int) -> int:
        """How many are complete when no more than ``pending`` groups are not; -1: none at all is left."""
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


@dataclass(slots=True)
class Actor:
    """One class while it runs."""

    info: ThreadClass
    agent: Agent
    lanes: Lanes
    event: Event | None = None
    answer: int = 0
    entered: bool = False  # it has arrived at the barrier at which it stands
    leaving: int = -1  # the generation that it waits for
    gone: bool = False
    registers: dict[int, list[Touch]] = field(default_factory=dict)
    fragments: dict[int, list[int]] = field(default_factory=dict)  # number of the last wgmma, touched since
    fenced: bool = False
    owes_wait: bool = False  # on the cluster barrier
    requests: list[tuple[int, bool, Row, int]] = field(default_factory=list)  # of setmaxnreg
    released: Knowledge | None = None  # what a release fence hands to later relaxed arrivals (A5)
    scope: int = 0  # its scope
    received: Knowledge | None = None  # what relaxed waits leave to an acquire fence
    far: dict[int, int] = field(default_factory=dict)  # other CTAs that it reached, and when last
    issues: list[Row] = field(default_factory=list)  # of wgmmas
    copies: list[tuple[tuple[Mark, int], int]] = field(default_factory=list)  # completion, CTA written


class Follower:
    """Follows a system to its end; ``judge`` raises RejectedError at the first obligation that is not met."""

    def __init__(self, system: System) -> None:
        self.info = system.info
        if self.info.tracks_global or self.info.clusters > 1:
            raise NotJudgedError("hand-over through global memory")
        self.fences: list[list[int]] = [[] for _ in self.info.classes]
        self.memory = Memory(self.info, self.fences)
        self.barriers: dict[int, Barrier] = {}
        self.lives: dict[int, int] = {}
        self.ended: dict[int, tuple[int, int]] = {}  # invalidations: class, time
        self.meetings: dict[Mark, Meeting] = {}
        self.groups: dict[Mark, Groups] = {}
        self.exits: dict[int, Row] = {}
        self.events = 0
        self.trace: list[list[Event]] = [[] for _ in self.info.classes]
        #: (barrier, phase) -> what landed in it, and who waited for it: the run as a certificate has it
        self.phases: dict[tuple[int, int], tuple[list[Any], list[Any]]] = {}
        self.actors = [
            Actor(c, a, Lanes(i, c.count))
            for i, (c, a) in enumerate(zip(self.info.classes, system.agents(), strict=True))
        ]

    # ------------------------------------------------------------ the run

    def judge(self, most: int) -> None:
        """Runs everything; ``most``: events after which it gives up."""
        moved = True
        while moved:
            moved = False
            for a in self.actors:
                while not a.gone and self.step(a):
                    moved = True
                    self.events += 1
                    if self.events > most:
                        raise RejectedError(self.info.name, "the run does not end")
        for a in self.actors:
            if not a.gone:
                raise RejectedError(self.at(a), f"{a.info.name} waits for ever")
        for b in self.barriers.values():
            self.open_phase(b)
        self.pool()
        for a in self.actors:
            for cta, time in a.far.items():
                if self.exits[cta].get(("t", a.lanes.cls), 0) < time:
                    raise RejectedError(
                        self.info.name, f"cta{cta} may have left when {a.info.name} reaches it"
                    )
            for (mark, value), cta in a.copies:
                if self.exits[cta].get(mark, 0) < value:
                    raise RejectedError(self.info.name, f"a copy of {a.info.name} may outlive its CTA")

    def step(self, a: Actor) -> bool:
        """One event of a class, unless it has to wait."""
        if a.event is None:
            a.event, a.answer = a.agent.step(a.answer), 0
            a.lanes.advance()
        handler = _HANDLERS.get(a.event[0])
        if handler is None:
            raise NotJudgedError(Ev(a.event[0]).name.lower())
        if not handler(self, a, *a.event[2:]):
            return False
        self.trace[a.lanes.cls].append(a.event)
        a.event, a.entered, a.leaving = None, False, -1
        return True

    def note(self, b: Barrier, phase: int, what: str, a: Actor, *more: int) -> None:
        """Enters a contribution to a phase, or a wait for it."""
        gives, takes = self.phases.setdefault((b.index, phase), ([], []))
        if what == "wait":
            takes.append([a.lanes.cls, a.lanes.time])
        else:
            gives.append([what, a.lanes.cls, a.lanes.time, *more])

    def at(self, a: Actor) -> str:
        assert a.event is not None
        site = self.info.sites[a.event[1]]
        return f"{site.span} ({site.text})"

    def reject(self, a: Actor, what: str) -> RejectedError:
        return RejectedError(self.at(a), f"{a.info.name}: {what}")

    def touch(self, a: Actor, kind: Access, number: int, **more: Any) -> Touch:
        """An access by all lanes of a class, judged."""
        fp: Footprint = self.info.footprints[number]
        if fp.memory != a.info.cta:
            raise NotJudgedError("memory of another CTA")
        for b in self.info.barriers:
            if b.cta == fp.memory and any(lo < b.offset + 8 and b.offset < hi for lo, hi in fp.intervals):
                raise NotJudgedError("data in the bytes of a barrier")
        assert a.event is not None
        made = Touch(kind, a.lanes.cls, a.lanes.time, fp, a.event[1], **more)
        self.memory.access(a.lanes, made, self.at(a))
        return made

    # ------------------------------------------------------------ mbarriers

    def use(self, a: Actor, index: int) -> Barrier:
        """A barrier that is alive, in every execution, when the class uses it (O5)."""
        b = self.barriers.get(index)
        if b is None:
            raise self.reject(a, "the barrier is not alive")
        if self.info.barriers[index].cta != a.info.cta:
            a.far[self.info.barriers[index].cta] = a.lanes.time
        cls, time = b.init
        if not self.seen(a, b.init) and a.lanes.visible(("init", cls), cls == a.lanes.cls) < time:
            raise self.reject(a, "the init is not ordered before this use")
        b.uses[a.lanes.cls] = a.lanes.time
        return b

    def complete(self, row: Row, b: Barrier, k: int) -> bool:
        """Whether the completion of phase ``k`` happened before a point."""
        if k < 0 or row.get(b.mark, 0) > k:
            return True
        p = b.last if k == b.done - 1 else b.before if k == b.done - 2 else None
        return p is not None and not p.copies and all(row.get(("t", c), 0) >= t for c, t in p.threads.items())

    def contribute(self, a: Actor, b: Barrier) -> Phase:
        """O1 for a contribution of the class to the open phase."""
        if not self.complete(a.lanes.joined.happened, b, b.done - 1):
            raise self.reject(a, f"phase {b.done - 1} may still be open")
        b.phase.threads[a.lanes.cls] = a.lanes.time
        return b.phase

    def expect(self, a: Actor, b: Barrier, nbytes: int) -> None:
        p = self.contribute(a, b)
        self.note(b, b.done, "expect_tx", a, nbytes)
        join(p.others, a.lanes.handed().happened)
        p.expected += nbytes
        p.expects.append((a.lanes.cls, a.lanes.time, nbytes))
        self.in_range(a, p)

    def in_range(self, a: Actor, p: Phase) -> None:
        if max(p.expected, p.completed) > LARGEST:
            raise self.reject(a, "the transaction count may leave its range")

    def arrive(self, a: Actor, index: int, count: int, nbytes: int, flags: int) -> bool:
        b = self.use(a, index)
        a.answer = b.done
        if flags & Flag.NO_COMPLETE:
            raise NotJudgedError("arrivals that must not complete a phase")
        rounds = a.info.count if nbytes >= 0 else 1
        for _ in range(rounds):
            if nbytes >= 0:
                self.expect(a, b, nbytes)
            self.arrivals(a, b, a.info.count // rounds, count, flags)
        return True

    def arrivals(self, a: Actor, b: Barrier, lanes: int, count: int, flags: int) -> None:
        """Arrivals of some lanes; those beyond the pending count arrive in the next phase (B17)."""
        while lanes > 0:
            fit = min(lanes, b.pending // count) if count > 0 else 0
            if fit == 0:
                raise self.reject(a, "no arrival is pending")
            p = self.contribute(a, b)
            self.note(b, b.done, "arrive", a, fit * count)
            handed = a.lanes.handed()
            join(p.by_arrivals, handed.happened)
            self.release(a, b, p, handed, flags)
            if flags & Flag.DROP:
                b.count -= fit * count
                if b.count <= 0:
                    raise self.reject(a, "no arrival is left to expect")
            lanes -= fit
            b.pending -= fit * count
            self.close(b)

    def release(self, a: Actor, b: Barrier, p: Phase, handed: Knowledge, flags: int) -> None:
        """What an arrival makes visible to the waits of its phase."""
        given, wide = handed, bool(flags & Flag.CLUSTER)
        if flags & Flag.RELAXED:
            if a.released is None:
                return
            given, wide = a.released, a.scope >= Scope.CLUSTER
        if self.info.barriers[b.index].cta == a.info.cta:
            p.knowledge.join(given)
            return
        if wide:
            p.far.join(given)
        # At cta scope completions alone cross the CTAs, in practical mode (K4).
        join(p.knowledge.visible, {m: v for m, v in given.visible.items() if m[0] != "t"})

    def close(self, b: Barrier) -> None:
        """The phase completes if it is full: O4 (a) and O3."""
        p = b.phase
        if b.pending or p.tx:
            return
        where = f"phase {b.done} of {self.info.barriers[b.index].name}"
        self.accounted(p, where)
        join(p.others, p.by_arrivals)
        for cls, time in b.waits.items():
            if p.others.get(("t", cls), 0) < time:
                raise RejectedError(
                    where, f"{self.info.classes[cls].name} may not have looked at the one before"
                )
        join(p.knowledge.happened, p.others)
        b.done += 1
        p.knowledge.mark(b.mark, b.done)
        p.far.mark(b.mark, b.done)
        # Practical mode: what an earlier phase made visible stays so for who waits for a later one (K14).
        heir = Knowledge({}, dict(p.knowledge.visible), dict(p.knowledge.bridged))
        b.before, b.last, b.phase = b.last, p, Phase(knowledge=heir)
        b.pending, b.waits = b.count, {}

    def accounted(self, p: Phase, where: str) -> None:
        """O4 (a): each expect precedes some arrival, or the phase is held open without it."""
        for cls, time, nbytes in p.expects:
            if p.by_arrivals.get(("t", cls), 0) >= time:
                continue
            held = sum(n for c, t, n in p.expects if p.by_arrivals.get(("t", c), 0) >= t)
            spent = sum(n for n, past in p.landed if past.get(("t", cls), 0) < time)
            if held <= spent:
                raise RejectedError(where, f"it may complete before {nbytes} bytes are announced")

    def open_phase(self, b: Barrier) -> None:
        """O4 for a phase that the end leaves open."""
        p = b.phase
        if b.pending == 0:
            where = f"phase {b.done} of {self.info.barriers[b.index].name}"
            self.accounted(p, where)
            if p.tx or p.expects or p.landed:
                raise RejectedError(where, "its bytes never balance")

    def land(self, a: Actor, index: int, nbytes: int) -> tuple[Mark, int]:
        """A copy completes on a barrier; returns what shows it."""
        b = self.barriers.get(index)
        if b is None:
            raise self.reject(a, "the copy meets a barrier that is not alive")
        past = a.lanes.handed().happened
        if not self.complete(a.lanes.joined.happened, b, b.done - 1):
            raise self.reject(a, f"its bytes may land in phase {b.done - 1}")
        p, k = b.phase, b.done
        self.note(b, k, "copy", a, nbytes)
        p.copies, b.copies = True, b.done
        join(p.others, past)
        p.completed += nbytes
        p.landed.append((nbytes, dict(a.lanes.joined.happened)))
        self.in_range(a, p)
        self.close(b)
        return b.mark, k + 1

    def wait(self, a: Actor, index: int, passes: Callable[[Barrier], bool], flags: int) -> bool:
        b = self.use(a, index)
        if not passes(b):
            return False
        if not self.complete(a.lanes.joined.happened, b, b.done - 2):
            raise self.reject(a, f"phase {b.done - 2} may still be open: the wait may pass on the one before")
        b.waits[a.lanes.cls] = a.lanes.time
        self.note(b, b.done - 1, "wait", a)
        if b.done:
            join(a.lanes.joined.happened, b.last.knowledge.happened)
            if flags & Flag.RELAXED:
                a.received = a.received or Knowledge()
                a.received.join(b.last.knowledge)
            else:
                a.lanes.joined.join(b.last.knowledge)
                if flags & Flag.CLUSTER:
                    a.lanes.joined.join(b.last.far)
        return True

    def on_wait(self, a: Actor, index: int, parity: int, flags: int) -> bool:
        return self.wait(a, index, lambda b: b.done % 2 != parity, flags)

    def on_wait_token(self, a: Actor, index: int, phase: int, flags: int) -> bool:
        def passes(b: Barrier) -> bool:
            if b.done > phase + 1:
                raise self.reject(a, f"the token is of phase {phase}, {b.done} are complete")
            return b.done == phase + 1

        return self.wait(a, index, passes, flags)

    def on_init(self, a: Actor, index: int, count: int) -> bool:
        if index in self.barriers or a.info.count > 1 or not 1 <= count <= LARGEST:
            raise self.reject(a, "the barrier is alive, or the init is not one of one lane and a count")
        life = self.lives[index] = self.lives.get(index, 0) + 1
        if index in self.ended and not self.seen(a, self.ended[index]):
            raise self.reject(a, "the barrier's invalidation is not ordered before")
        self.barriers[index] = Barrier(index, life, count, (a.lanes.cls, a.lanes.time), count)
        return True

    def seen(self, a: Actor, event: tuple[int, int]) -> bool:
        """Whether an event of a class is visible to the lanes of another, or of the same lane."""
        cls, time = event
        return a.lanes.visible(("t", cls), cls == a.lanes.cls and a.lanes.alone) >= time

    def on_inval(self, a: Actor, index: int) -> bool:
        """The end of a barrier's life: every use of it, copies included, happened before (O5)."""
        b = self.barriers.pop(index, None)
        if b is None or a.info.count > 1:
            raise self.reject(a, "the barrier is not alive, or several lanes invalidate it")
        for cls, time in b.uses.items():
            if a.lanes.happened(("t", cls), cls == a.lanes.cls and a.lanes.alone) < time:
                raise self.reject(a, f"{self.info.classes[cls].name} may still use the barrier")
        if b.copies >= 0 and a.lanes.joined.happened.get(b.mark, 0) <= b.copies:
            raise self.reject(a, "a copy may still complete on the barrier")
        self.open_phase(b)
        self.ended[index] = (a.lanes.cls, a.lanes.time)
        return True

    def on_expect(self, a: Actor, index: int, nbytes: int) -> bool:
        self.expect(a, self.use(a, index), nbytes * a.info.count)
        return True

    def on_complete_tx(self, a: Actor, index: int, nbytes: int) -> bool:
        b = self.use(a, index)
        p = self.contribute(a, b)
        self.note(b, b.done, "complete_tx", a, nbytes * a.info.count)
        join(p.others, a.lanes.handed().happened)
        p.completed += nbytes * a.info.count
        p.landed.append((nbytes * a.info.count, dict(a.lanes.joined.happened)))
        self.in_range(a, p)
        self.close(b)
        return True

    def on_init_fence(self, a: Actor) -> bool:
        a.lanes.own.mark(("init", a.lanes.cls), a.lanes.time)
        return True

    # ------------------------------------------------------------ execution barriers

    def on_barrier(self, a: Actor, waits: bool, number: int, threads: int, flags: int) -> bool:
        total = -(-self.info.threads // 32) * 32
        want = threads or total
        m = self.meetings.setdefault(("n", a.info.cta, number), Meeting())
        if not a.entered:
            if not 0 <= number <= 15 or want % 32 or want > total:
                raise self.reject(a, "the barrier's number or count is out of range")
            if m.arrived and m.threads != want:
                raise self.reject(a, f"the barrier is active with {m.threads} threads")
            if a.lanes.cls in m.arrived:
                raise NotJudgedError("classes that arrive twice at a named barrier")
            m.threads = want
            self.enter(a, m, ("n", a.info.cta, number))
            warps = {self.info.classes[c].warp for c in m.arrived}
            whole = {w for w in warps if self.whole(a.info.cta, w, m.arrived)}
            if len(whole) * 32 == want:
                if whole != warps:
                    raise NotJudgedError("warps of which some lanes come to a barrier alone")
                self.leave(m, ("n", a.info.cta, number))
        return self.out(a, m, waits)

    def enter(self, a: Actor, m: Meeting, mark: Mark, release: bool = True) -> None:
        """Arrives in the open generation; the one before must be complete (O1)."""
        row = a.lanes.joined.happened
        if row.get(mark, 0) < m.number and any(row.get(("t", c), 0) < t for c, t in m.previous.items()):
            raise self.reject(a, "the generation before may still be open")
        m.arrived[a.lanes.cls] = a.lanes.time
        handed = a.lanes.handed()
        join(m.knowledge.happened, handed.happened)
        if release:
            m.knowledge.join(handed)
        a.entered, a.leaving = True, m.number

    def leave(self, m: Meeting, mark: Mark) -> None:
        """The generation is complete."""
        m.number += 1
        m.knowledge.mark(mark, m.number)
        m.previous, m.released = m.arrived, m.knowledge
        m.arrived, m.knowledge = {}, Knowledge()

    def out(self, a: Actor, m: Meeting, waits: bool) -> bool:
        if not waits:
            return True
        if m.number == a.leaving:
            return False
        if m.number > a.leaving + 1:
            raise NotJudgedError("generations that pass a class by")
        a.lanes.joined.join(m.released)
        return True

    def whole(self, cta: int, warp: int, arrived: dict[int, int]) -> bool:
        """Whether all lanes of a warp that still run have arrived."""
        return all(
            a.gone or a.lanes.cls in arrived for a in self.actors if (a.info.cta, a.info.warp) == (cta, warp)
        )

    def on_sync(self, a: Actor, number: int, threads: int, flags: int) -> bool:
        return self.on_barrier(a, True, number, threads, flags)

    def on_arrive_only(self, a: Actor, number: int, threads: int, flags: int) -> bool:
        return self.on_barrier(a, False, number, threads, flags)

    def on_warp_sync(self, a: Actor, mask: int) -> bool:
        return self.together(a, mask, memory=True)

    def on_elect(self, a: Actor, mask: int = 0) -> bool:
        return self.together(a, 0, memory=False)

    def together(self, a: Actor, mask: int, memory: bool) -> bool:
        """Lanes of a warp that execute something as one; ``memory``: it orders their accesses."""
        mates = [o for o in self.actors if (o.info.cta, o.info.warp) == (a.info.cta, a.info.warp)]
        lanes = sum(o.info.lanes for o in mates)
        mask = mask & lanes if mask else lanes
        if a.info.lanes & ~mask or (not a.entered and any(o.gone for o in mates if o.info.lanes & mask)):
            raise self.reject(a, "not all lanes that it needs come to it")
        if len(mates) == 1:
            if memory:
                a.lanes.gather()
            else:
                raise_to(a.lanes.joined.happened, ("t", a.lanes.cls), a.lanes.time)
            return True
        assert a.event is not None
        mark = ("w", a.info.cta, a.info.warp, mask, memory)
        m = self.meetings.setdefault(mark, Meeting())
        if not a.entered:
            m.arrived[a.lanes.cls] = a.lanes.time
            handed = a.lanes.handed()
            join(m.knowledge.happened, handed.happened)
            if memory:
                m.knowledge.join(handed)
            a.entered, a.leaving = True, m.number
            if m.threads not in (0, a.event[1] + 1) and not memory:
                raise self.reject(a, "lanes of the warp execute another instruction")
            m.threads = a.event[1] + 1
            if sum(self.info.classes[c].lanes for c in m.arrived) & mask == mask:
                self.leave(m, mark)
                m.threads = 0
        return self.out(a, m, True)

    def on_cluster_arrive(self, a: Actor, flags: int) -> bool:
        m = self.meetings.setdefault(("c",), Meeting())
        if a.owes_wait:
            raise self.reject(a, "it arrives twice on the cluster barrier")
        self.enter(a, m, ("c",), release=not flags & Flag.RELAXED)
        if flags & Flag.RELAXED:
            fenced = ("init", a.lanes.cls)
            raise_to(m.knowledge.visible, fenced, a.lanes.visible(fenced, True))
        a.owes_wait, a.entered = True, False
        self.cluster_full(m)
        return True

    def cluster_full(self, m: Meeting) -> None:
        if m.arrived and all(o.gone or o.lanes.cls in m.arrived for o in self.actors):
            self.leave(m, ("c",))

    def on_cluster_wait(self, a: Actor, flags: int) -> bool:
        m = self.meetings.setdefault(("c",), Meeting())
        if not a.owes_wait:
            raise self.reject(a, "it waits on the cluster barrier without an arrival")
        if a.lanes.cls in m.arrived:
            return False
        a.owes_wait = False
        a.lanes.joined.join(m.released)
        return True

    def on_exit(self, a: Actor) -> bool:
        for kind, what in (("bulk.read", "bulk stores"), ("mma", "wgmmas")):
            mark, g = self.group(a, kind)
            if a.lanes.happened(mark, True) < g.issued:
                raise self.reject(a, f"it leaves while {what} are in flight")
        a.gone = True
        join(self.exits.setdefault(a.info.cta, {}), a.lanes.handed().happened)
        for mark, m in self.meetings.items():
            if mark[0] == "n" and any(self.info.classes[c].warp == a.info.warp for c in m.arrived):
                raise NotJudgedError("lanes that leave while others of their warp are at a barrier")
        self.cluster_full(self.meetings.setdefault(("c",), Meeting()))
        return True

    # ------------------------------------------------------------ memory

    def on_read(self, a: Actor, fp: int, register: int) -> bool:
        made = self.touch(a, Access.GENERIC_READ, fp)
        if register < 0:
            made.used = a.lanes.time
        else:
            a.registers.setdefault(register, []).append(made)
        return True

    def on_use(self, a: Actor, register: int) -> bool:
        for made in a.registers.pop(register, ()):
            made.used = a.lanes.time
        return True

    def on_write(self, a: Actor, fp: int) -> bool:
        self.touch(a, Access.GENERIC_WRITE, fp)
        return True

    def on_atomic(self, a: Actor, fp: int, scope: int) -> bool:
        self.touch(a, Access.GENERIC_WRITE, fp, atomic=True)
        return True

    def on_fence(self, a: Actor, flags: int, scope: int) -> bool:
        if flags & (Flag.RELEASE | Flag.SC):
            a.released, a.scope = a.lanes.handed(), scope
        if flags & (Flag.ACQUIRE | Flag.SC) and a.received is not None:
            a.lanes.joined.join(a.received)
            a.received = None
        if flags & Flag.SC or (flags & Flag.ACQUIRE and flags & Flag.RELEASE):
            self.fences[a.lanes.cls].append(a.lanes.time)
        return True

    def on_global(self, a: Actor, fp: int, flags: int, *_: Any) -> bool:
        """Plain accesses to global memory order nothing."""
        if flags:
            raise NotJudgedError("synchronization through global memory")
        return True

    def on_proxy_fence(self, a: Actor, spaces: int, flags: int) -> bool:
        """What is visible is bridged, of the memory that the fence names (C5)."""
        if spaces & (Space.SHARED_CTA | Space.SHARED_CLUSTER):
            for know in {id(k): k for k in (a.lanes.joined, a.lanes.own)}.values():
                for mark, value in know.visible.items():
                    far = mark[0] == "t" and self.info.classes[mark[1]].cta != a.info.cta
                    if not far or spaces & Space.SHARED_CLUSTER:
                        raise_to(know.bridged, mark, value)
        return True

    # ------------------------------------------------------------ copies and groups

    def group(self, a: Actor, kind: str) -> tuple[Mark, Groups]:
        owner = (a.info.cta, a.info.warp) if kind == "mma" else a.lanes.cls
        return ("g", kind, owner), self.groups.setdefault((kind, a.lanes.cls), Groups())

    def issue(self, a: Actor, kind: str) -> tuple[Mark, int]:
        mark, g = self.group(a, kind)
        g.issued += 1
        return mark, g.issued

    def commit(self, a: Actor, kind: str) -> bool:
        _, g = self.group(a, kind)
        g.committed.append(g.issued)
        return True

    def on_bulk_load(
        self, a: Actor, copies: tuple[tuple[int, int, int], ...], source: int, number: int
    ) -> bool:
        made = []
        for fp, index, nbytes in copies:
            self.use(a, index)
            made.append((self.touch(a, Access.ASYNC_WRITE, fp) if fp >= 0 else None, index, nbytes))
        for touch, index, nbytes in made:
            done = self.land(a, index, nbytes * a.info.count)
            if touch is not None:
                touch.done = done
            a.copies.append((done, self.info.barriers[index].cta))
        return True

    def on_bulk_store(self, a: Actor, fp: int, target: int, number: int, reduces: int) -> bool:
        self.touch(a, Access.ASYNC_READ, fp, done=self.issue(a, "bulk.read"))
        return True

    def on_bulk_wait(self, a: Actor, pending: int, read: int) -> bool:
        mark, g = self.group(a, "bulk.read")
        a.lanes.own.mark(mark, g.covered(pending))
        return True

    def on_cp_async(self, a: Actor, fp: int, source: int) -> bool:
        self.touch(a, Access.CPASYNC_WRITE, fp, done=self.issue(a, "cp"))
        return True

    def on_cp_wait(self, a: Actor, pending: int) -> bool:
        mark, g = self.group(a, "cp")
        a.lanes.own.mark(mark, g.covered(pending))
        return True

    def on_cp_arrive(self, a: Actor, index: int, noinc: int) -> bool:
        """An arrival of each lane when its cp.asyncs are done; only the form that adds none is judged."""
        if not noinc:
            raise NotJudgedError("cp.async arrivals that add to the pending count")
        b = self.use(a, index)
        mark, g = self.group(a, "cp")
        left = a.info.count
        while left > 0:
            if not b.pending:
                raise self.reject(a, "no arrival is pending")
            if not self.complete(a.lanes.joined.happened, b, b.done - 1):
                raise self.reject(a, f"it may land in phase {b.done - 1}")
            p = b.phase
            join(p.by_arrivals, a.lanes.handed().happened)
            raise_to(p.knowledge.visible, mark, g.issued)
            p.copies, b.copies = True, b.done
            take = min(left, b.pending)
            self.note(b, b.done, "cp_arrive", a, take)
            b.pending -= take
            left -= take
            self.close(b)
        return True

    # ------------------------------------------------------------ wgmma

    def on_wgmma_fence(self, a: Actor) -> bool:
        if not self.together(a, 0, memory=False):
            return False
        a.fenced = True
        for state in a.fragments.values():
            state[1] = 0
        return True

    def on_wgmma(self, a: Actor, acc: int, fp_a: int, frag_a: int, fp_b: int, adds: int, others: int) -> bool:
        if not self.together(a, 0, memory=False):
            return False
        done = self.issue(a, "mma")
        a.issues.append(a.lanes.handed().happened)
        for fp in (fp_a, fp_b):
            if fp >= 0:
                self.touch(a, Access.MMA_READ, fp, done=done, any_lane=True)
        for frag in (acc, frag_a):
            if frag >= 0:
                state = a.fragments.setdefault(frag, [0, 0])
                if state[1] or not a.fenced:
                    raise self.reject(a, "registers were touched since the last wgmma.fence")
                state[0] = done[1]
        return True

    def on_wgmma_commit(self, a: Actor) -> bool:
        return self.together(a, 0, memory=False) and self.commit(a, "mma")

    def on_wgmma_wait(self, a: Actor, pending: int) -> bool:
        """A wgmma is one operation of four warps: it completes when all have issued and committed it."""
        if a.leaving != -2 and not self.together(a, 0, memory=False):
            return False
        mark, g = self.group(a, "mma")
        need = len(g.committed) - pending
        mates = [
            o
            for o in self.actors
            if o is not a and o.info.cta == a.info.cta and o.info.warp // 4 == a.info.warp // 4
        ]
        if need > 0:
            a.leaving = -2  # the warp has met
            if any(len(self.group(o, "mma")[1].committed) < need and not o.gone for o in mates):
                return False
        covered = g.covered(pending)
        for o in mates:
            if 0 < covered <= len(o.issues):
                join(a.lanes.joined.happened, o.issues[covered - 1])
        a.lanes.own.mark(mark, covered)
        a.lanes.joined.mark(mark, covered)
        return True

    def on_fragment(self, a: Actor, frag: int) -> bool:
        state = a.fragments.setdefault(frag, [0, 0])
        if state[0] > a.lanes.happened(("g", "mma", (a.info.cta, a.info.warp)), True):
            raise self.reject(a, "a wgmma owns these registers")
        state[1] = 1
        return True

    # ------------------------------------------------------------ registers

    def on_setmaxnreg(self, a: Actor, inc: int, registers: int) -> bool:
        a.requests.append((registers, bool(inc), a.lanes.handed().happened, a.lanes.time))
        return True

    def pool(self) -> None:
        """O8 where every warpgroup asks once at most: returns wait for nobody, and all requests fit."""
        held = self.info.registers or most_registers(self.info.threads)
        after: dict[tuple[int, int], int] = {}
        for a in self.actors:
            group = [o for o in self.actors if _group(o.info) == _group(a.info)]
            asked = [o.requests for o in group]
            if not any(asked):
                continue
            if len({o.info.warp for o in group}) != 4 or any(
                len(r) != 1 or r[0][:2] != asked[0][0][:2] for r in asked
            ):
                raise NotJudgedError("setmaxnreg more than once, or by some warps of a warpgroup")
            registers, inc, past, _ = a.requests[0]
            if not legal(registers) or (registers < held if inc else registers > held):
                raise RejectedError(
                    self.info.name, f"setmaxnreg {registers} by a warpgroup that holds {held}"
                )
            after[_group(a.info)] = registers
            for o in self.actors:
                for _, more, _, time in o.requests:
                    if more and not inc and past.get(("t", o.lanes.cls), 0) >= time:
                        raise NotJudgedError("registers that are returned after others were granted")
        for cta in {c for c, _ in after}:
            groups = {o.info.warp // 4 for o in self.actors if o.info.cta == cta}
            if sum(after.get((cta, g), held) for g in groups) > held * len(groups):
                raise RejectedError(self.info.name, "the register pool cannot serve every setmaxnreg")

    def on_fault(self, a: Actor, rule: str, message: str) -> bool:
        raise self.reject(a, message)

    def nothing(self, a: Actor, *_: Any) -> bool:
        return True


def _group(c: ThreadClass) -> tuple[int, int]:
    """The warpgroup of a class."""
    return c.cta, c.warp // 4


_F = Follower
_HANDLERS: dict[int, Callable[..., bool]] = {
    Ev.EXIT: _F.on_exit,
    Ev.FAULT: _F.on_fault,
    Ev.READ: _F.on_read,
    Ev.WRITE: _F.on_write,
    Ev.ATOMIC: _F.on_atomic,
    Ev.USE: _F.on_use,
    Ev.INIT: _F.on_init,
    Ev.INVAL: _F.on_inval,
    Ev.ARRIVE: _F.arrive,
    Ev.EXPECT_TX: _F.on_expect,
    Ev.WAIT: _F.on_wait,
    Ev.WAIT_TOKEN: _F.on_wait_token,
    Ev.INIT_FENCE: _F.on_init_fence,
    Ev.BARRIER_SYNC: _F.on_sync,
    Ev.BARRIER_ARRIVE: _F.on_arrive_only,
    Ev.WARP_SYNC: _F.on_warp_sync,
    Ev.CLUSTER_ARRIVE: _F.on_cluster_arrive,
    Ev.CLUSTER_WAIT: _F.on_cluster_wait,
    Ev.ELECT: _F.on_elect,
    Ev.FENCE: _F.on_fence,
    Ev.PROXY_FENCE: _F.on_proxy_fence,
    Ev.GLOBAL_READ: _F.on_global,
    Ev.GLOBAL_WRITE: _F.on_global,
    Ev.GLOBAL_ATOMIC: _F.on_global,
    Ev.SETMAXNREG: _F.on_setmaxnreg,
    Ev.COMPLETE_TX: _F.on_complete_tx,
    Ev.CP_ASYNC: _F.on_cp_async,
    Ev.CP_COMMIT: lambda f, a: f.commit(a, "cp"),
    Ev.CP_WAIT: _F.on_cp_wait,
    Ev.CP_ARRIVE: _F.on_cp_arrive,
    Ev.BULK_LOAD: _F.on_bulk_load,
    Ev.BULK_STORE: _F.on_bulk_store,
    Ev.BULK_COMMIT: lambda f, a: f.commit(a, "bulk.read"),
    Ev.BULK_WAIT: _F.on_bulk_wait,
    Ev.WGMMA_FENCE: _F.on_wgmma_fence,
    Ev.WGMMA: _F.on_wgmma,
    Ev.WGMMA_COMMIT: _F.on_wgmma_commit,
    Ev.WGMMA_WAIT: _F.on_wgmma_wait,
    Ev.FRAG_READ: _F.on_fragment,
    Ev.FRAG_WRITE: _F.on_fragment,
}
