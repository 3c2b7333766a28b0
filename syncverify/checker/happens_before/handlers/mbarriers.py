"""mbarriers in a run: their state, their lifetime (O5), and who knows which phase is complete."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.handlers.accesses import access
from syncverify.checker.happens_before.run import DONE, LaneClass, Run, before
from syncverify.checker.happens_before.shadow import Record
from syncverify.checker.happens_before.vector_clocks import Columns, E, H, Matrix, matrix
from syncverify.model.automata.mbarrier import LIMIT, Mbarrier
from syncverify.model.events import BarrierInfo, Event, Footprint
from syncverify.model.proxies import Access

#: ``AsyncOperation.number`` of cp.async arrivals, unnumbered in witnesses: the form that counts; the net-zero
#: one.
NOINC, NET_ZERO = -1, -2


@dataclass(slots=True, eq=False)
class Expect:
    """An announcement of bytes (or of a pending arrival) and who made it when."""

    cls: int
    time: int
    bytes: int
    site: int
    past: Matrix


class Phase:
    """What one phase has gathered: released knowledge, enablement, and its bookkeeping."""

    __slots__ = (
        "again",
        "arrived",
        "asynchronous",
        "completions",
        "con",
        "drained",
        "expects",
        "far",
        "m",
        "quiet",
        "remote",
        "sites",
        "sum_complete",
        "sum_expect",
        "tx",
        "waited",
    )

    def __init__(self, columns: Columns) -> None:
        self.m = matrix(columns)  # E: of arrivals only until the phase closes, then of every contribution
        self.tx = np.zeros(columns.capacity, dtype=np.int32)  # E of expects and completions
        self.far: Matrix | None = None  # what only cluster-scope waits receive
        self.con: dict[int, int] = {}
        self.asynchronous = False
        self.expects: list[Expect] = []
        self.completions: list[tuple[int, Matrix, int, int]] = []  # bytes, E at issue, site, lanes
        self.sum_expect = 0
        self.sum_complete = 0
        self.arrived: dict[int, int] = {}  # class -> arrivals
        self.sites: dict[int, int] = {}  # site -> arrivals
        self.drained = False
        self.waited = False
        self.remote = False
        self.quiet: list[
            list[int]
        ] = []  # arrive.noComplete: class, time, site, whether an arrival follows it
        self.again: tuple[int, int, int] | None = (
            None  # a class that arrived a second time: class, time, site
        )


@dataclass(slots=True, eq=False)
class Barrier:
    """An mbarrier of a run. ``phases`` holds the open phase and the three before it, newest first."""

    index: int
    column: int
    auto: Mbarrier
    phases: list[Phase]
    init_cls: int = -1
    init_time: int = 0
    init_site: int = -1
    untouched: bool = False  # nobody had read or written its bytes before
    # class, time of the same init by other lanes of the warp
    duplicate_inits: tuple[tuple[int, int], ...] = ()
    inits: int = 0
    inval_site: int = -1
    ready: set[int] = field(default_factory=set)
    waits: dict[int, tuple[int, int, Matrix]] = field(default_factory=dict)  # class -> time, site, E
    blocked: list[LaneClass] = field(default_factory=list)
    last_use: dict[int, tuple[int, int]] = field(default_factory=dict)
    async_phase: int = -1  # last phase with a completion
    touched: list[tuple[int, int, int, int]] = field(default_factory=list)  # class, time, site, position
    last_position: int = 0  # in the trace, of its newest use
    bytes_expected: int = 0
    bytes_completed: int = 0
    copies: int = 0
    uneven: bool = False  # some arrival counts for several, drops, or must not complete a phase
    net_zero: int = 0  # cp.async arrivals of the default form
    arrivals: dict[int, int] = field(default_factory=dict)  # site -> arrivals over the whole run
    expect_sites: dict[int, int] = field(default_factory=dict)
    waiters: set[int] = field(default_factory=set)  # sites of waits
    last_waited: int = -2  # newest phase that a passed wait means
    final_waits: dict[int, int] = field(default_factory=dict)  # who waited for it, when
    last_tx: int = -1  # newest phase with bytes
    lanes: dict[int, int] = field(default_factory=dict)  # class -> arrivals per event
    flip: int = 0  # 1: agents name the parities of its phases the other way round; see ``prover.reach.ring``


def barrier(run: Run, b: int) -> Barrier:
    """The state of a barrier, dead until its init."""
    state = run.barriers.get(b)
    if state is None:
        column = run.columns.of("bar", b)
        state = run.barriers[b] = Barrier(b, column, Mbarrier(), [Phase(run.columns)])
    assert isinstance(state, Barrier)
    return state


def name(run: Run, b: int) -> str:
    """The barrier's name in reports."""
    info = run.info.barriers[b]
    return info.name if run.info.ctas == 1 else f"{info.name} of cta{info.cta}"


def _name_by_source(run: Run, b: int, site: int) -> None:
    """Gives a barrier whose name only says where it lies the one that the source has at its init."""
    info, called = run.info.barriers[b], run.info.sites[site].operand
    variable = re.sub(r"\[\d+\]$", "", info.name)
    if not called or not (info.placed or called.startswith((f"{variable}.", f"{variable}->"))):
        return
    base = re.sub(r"\[[^\[\]]*\]$", "", called)
    named = [o for o in run.info.barriers if o.cta == info.cta and not o.placed]
    index = sum(o.name == called or re.sub(r"\[\d+\]$", "", o.name) == base for o in named)
    one = base == called and not index
    run.info.barriers[b] = BarrierInfo(info.cta, info.offset, called if one else f"{base}[{index}]")


def use(run: Run, t: LaneClass, s: Barrier, site: int) -> bool:
    """O5: the barrier is alive and its init is known here; false if it is dead."""
    s.last_use[t.cls] = (t.time, site)
    s.last_position = len(run.trace)
    if not s.auto.live:
        if s.inits:
            run.report(
                Obligation.O5,
                "SV205",
                f"{name(run, s.index)} is used after its invalidation",
                t,
                site,
                barrier=s.index,
                labels=[(s.inval_site, "invalidated here")],
            )
        else:
            run.report(
                Obligation.O5,
                "SV204",
                f"{name(run, s.index)} is used before any init",
                t,
                site,
                barrier=s.index,
                fix="initialize it, and let its users meet at a barrier behind that; or mend its index",
                labels=_other_inits(run, s),
            )
        return False
    if t.cls not in s.ready:
        s.ready.add(t.cls)
        if not init_known(run, t, s):
            run.report(
                Obligation.O5,
                "SV204",
                f"the init of {name(run, s.index)} is not ordered before this use",
                t,
                site,
                barrier=s.index,
                past=t.clock.past(),
                labels=[(s.init_site, "initialized here")],
            )
    remote = run.info.barriers[s.index].cta != t.info.cta
    if remote:
        run.remote_uses[t.cls, run.info.barriers[s.index].cta] = (t.time, site, before(t))
    return True


def init_known(run: Run, t: LaneClass, s: Barrier) -> bool:
    """Init is a generic write by one thread; fence.mbarrier_init lets a relaxed cluster barrier carry it."""
    return all(_known(run, t, cls, time) for cls, time in ((s.init_cls, s.init_time), *s.duplicate_inits))


def _known(run: Run, t: LaneClass, cls: int, time: int) -> bool:
    if t.clock.knows(H, cls, cls == t.cls and t.n == 1) >= time:
        return True
    fenced = run.columns.known("init", cls)
    return fenced is not None and t.clock.knows(H, fenced, cls == t.cls and t.n == 1) >= time


def duplicate_init(run: Run, t: LaneClass, s: Barrier, site: int, count: int) -> bool:
    """Whether an init stores what other lanes of the warp have stored by the same instruction.

    As long as nobody has used the barrier, and a use must know of all inits, none of them changes anything.
    """
    return (
        s.auto.live and s.untouched and (site, count) == (s.init_site, s.auto.count) and _same_warp(run, t, s)
    )


def _same_warp(run: Run, t: LaneClass, s: Barrier) -> bool:
    """Whether the lanes are of the warp that initialized a barrier, and may do so at the same time."""
    first = run.threads[s.init_cls].info
    return (
        (first.cta, first.warp) == (t.info.cta, t.info.warp)
        and all(cls != t.cls for cls, _ in ((s.init_cls, 0), *s.duplicate_inits))
        and not _known(run, t, s.init_cls, s.init_time)
    )


def awaits_duplicate_inits(run: Run, s: Barrier) -> bool:
    """Whether other lanes may still initialize a barrier alike: from its first use on they must not."""
    return (
        s.auto.live
        and s.untouched
        and not s.last_use
        and any(not t.done and _same_warp(run, t, s) for t in run.threads)
    )


def on_init(run: Run, t: LaneClass, event: Event) -> int:
    _, site, b, count = event
    s = barrier(run, b)
    again = duplicate_init(run, t, s, site, count)
    if again and s.last_use:
        run.report(
            Obligation.O5,
            "SV205",
            f"{name(run, b)} is used while other lanes of the warp may still initialize it",
            t,
            next(iter(s.last_use.values()))[1],
            barrier=b,
            labels=[(site, "initialized here, by several lanes")],
            fix="let one lane initialize it, or put a barrier between init and use",
        )
        return DONE
    if s.auto.live and not again:
        run.report(
            Obligation.O5,
            "SV205",
            f"{name(run, b)} is initialized again while it is alive",
            t,
            site,
            barrier=b,
            labels=[(s.init_site, "initialized here")],
            fix="mbarrier.inval before it",
        )
    if not 1 <= count <= LIMIT:
        run.report(
            Obligation.UB,
            "SV202",
            f"count {count} of {name(run, b)} is outside 1..{LIMIT}",
            t,
            site,
            barrier=b,
        )
    if t.n > 1 or again:
        run.report(
            Obligation.UB,
            "SV205",
            f"several lanes of a warp initialize {name(run, b)}: right only as all store the same",
            t,
            site,
            severity=Severity.WARNING,
            strict_only=True,
            barrier=b,
            fix="let one lane initialize it",
        )
    if again:
        s.duplicate_inits = (*s.duplicate_inits, (t.cls, t.time))
        return DONE
    s.untouched = untouched(run, b)
    claim_bytes(run, t, b, site)
    s.auto.init(count)
    if s.inits:
        # A new life counts its phases from 0 again: nothing known of the old one may pass for it.
        s.column = run.columns.of("bar", b, s.inits)
        for o in run.threads:
            o.seen.pop(b, None)
            o.polled.pop(b, None)
        s.last_waited, s.last_tx, s.final_waits = -2, -1, {}
    s.phases = [Phase(run.columns)]
    s.init_cls, s.init_time, s.init_site, s.duplicate_inits = t.cls, t.time, site, ()
    _name_by_source(run, b, site)
    s.inits += 1
    s.ready = set()
    s.last_use = {}
    s.waits = {}
    s.async_phase = -1
    return DONE


def _other_inits(run: Run, s: Barrier) -> list[tuple[int, str]]:
    """Where the barriers beside one are initialized: the next ones below it and above it in shared memory."""
    place = run.info.barriers[s.index]
    known = {
        run.info.barriers[o.index].offset: o.init_site
        for o in run.barriers.values()
        if o.init_site >= 0 and run.info.barriers[o.index].cta == place.cta
    }
    below = max((at for at in known if at < place.offset), default=None)
    above = min((at for at in known if at > place.offset), default=None)
    sites = dict.fromkeys(known[at] for at in (below, above) if at is not None)
    return [(site, "others are initialized here, this one nowhere") for site in sites]


def on_inval(run: Run, t: LaneClass, event: Event) -> int:
    """Every use must be over, in every execution, before the bytes are reused (PTX ISA: mbarrier.inval)."""
    _, site, b = event
    s = barrier(run, b)
    if not s.auto.live:
        why = "is invalidated twice" if s.inits else "is invalidated before any init"
        run.report(
            Obligation.O5, "SV205" if s.inits else "SV204", f"{name(run, b)} {why}", t, site, barrier=b
        )
        return DONE
    late = [(c, u) for c, u in s.last_use.items() if t.clock.knows(E, c, c == t.cls and t.n == 1) < u[0]]
    if s.duplicate_inits and not init_known(run, t, s):
        late = [*late, (s.init_cls, (s.init_time, s.init_site))]
    if late or (s.async_phase >= 0 and t.clock.m[E, s.column] <= s.async_phase):
        where = late[0][1][1] if late else s.init_site
        run.report(
            Obligation.O5,
            "SV205",
            f"{name(run, b)} is invalidated while other threads may still use it",
            t,
            site,
            barrier=b,
            past=t.clock.past(),
            labels=[(where, "not ordered before the invalidation")],
            fix="put a barrier of all its users before the invalidation",
        )
    claim_bytes(run, t, b, site)
    s.auto.inval()
    s.inval_site = site
    return DONE


def untouched(run: Run, b: int) -> bool:
    """Whether no access to the bytes of a barrier is on record."""
    info = run.info.barriers[b]
    pieces = run.shadow(info.cta).overlapping(info.offset, info.offset + 8)
    return all(s.write is None and not s.reads for s in pieces)


def claim_bytes(run: Run, t: LaneClass, b: int, site: int) -> None:
    """Init and inval write the object's bytes: data there must be ordered with them (B10, B12)."""
    info = run.info.barriers[b]
    fp = run.object_footprints.get(b)
    if fp is None:
        fp = run.object_footprints[b] = len(run.info.footprints)
        run.info.footprints.append(Footprint(info.cta, ((info.offset, info.offset + 8),)))
    access(run, t, Record(Access.GENERIC_WRITE, t.cls, t.time, fp, site, barrier=b))


def on_init_fence(run: Run, t: LaneClass, event: Event) -> int:
    """fence.mbarrier_init releases this thread's own earlier inits (PTX ISA: fence; B24)."""
    column = run.columns.of("init", t.cls)
    t.clock.advance(column, t.time)
    return DONE


def knows_phase(run: Run, row: Matrix, s: Barrier, k: int) -> bool:
    """Whether the completion of phase ``k`` is in every past with these E clocks.

    ``row`` is what one lane knows: its sibling lanes' contributions only as far as they were joined.
    """
    if k < 0 or row[s.column] > k:
        return True
    back = s.auto.phase - k
    if run.options.weak_completion_knowledge or back >= len(s.phases) or s.phases[back].asynchronous:
        return False
    return all(row[c] >= time for c, time in s.phases[back].con.items())
