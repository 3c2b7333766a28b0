"""One state of a launch and its steps: who knows which accesses, what every barrier counts.

A group's knowledge: ``H`` accesses that happened before (all its lanes know them), ``O`` its own
(each lane its own), ``A`` and ``AO`` those among them that a proxy fence bridged to the async proxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from syncverify.simulate.memory import check_access
from syncverify.simulate.program import LANES, Event, Op, Program
from syncverify.source import Span

TX_LIMIT = (1 << 20) - 1  # PTX ISA, mbarrier: valid range of the tx-count
END = -1
NO_CLUSTER: tuple[int, int, int, int, int, int, tuple[tuple[int, int, int, int], ...]] = (0, 0, 0, 0, 0, 0, ())


class Bar(NamedTuple):
    """An mbarrier object (PTX ISA, mbarrier). ``R*``: what release arrivals of the open phase hand on,
    ``C*``: the same of the last completed one; ``X``: what only cluster-scope waits receive (K4)."""

    alive: bool = False
    ever: bool = False
    phase: int = 0  # completed phases
    pending: int = 0
    expected: int = 0
    tx: int = 0
    RH: int = 0
    RA: int = 0
    RX: int = 0
    CH: int = 0
    CA: int = 0
    CX: int = 0
    init: int = 0
    seen: bool = True  # somebody has waited for the last completed phase


@dataclass(frozen=True, slots=True)
class Named:
    """A named barrier, warp barrier or cluster barrier in use."""

    threads: int = 0
    red: bool = False
    arrived: int = 0  # mask of groups
    waiting: int = 0  # those that block
    warps: int = 0
    H: int = 0
    A: int = 0


class Found:
    """A harm as the machine meets it; the explorer adds the schedule."""

    __slots__ = ("claim", "group", "message", "other", "rule", "span", "stops")

    def __init__(self, claim: str, rule: str, message: str, span: Span, group: int, other: Span | None = None,
                 stops: bool = False) -> None:  # fmt: skip
        self.claim, self.rule, self.message, self.span = claim, rule, message, span
        self.group, self.other, self.stops = group, other, stops

    @property
    def key(self) -> tuple[str, str, int, int]:
        return (self.claim, self.rule, self.span.line, self.other.line if self.other else 0)


#: H and A by scope: CTA, cluster, device.
Scoped = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
NOTHING: Scoped = ((0, 0), (0, 0), (0, 0))


class State:
    """Everything that decides what can happen next. Lists hold immutable values, so a copy is shallow."""

    __slots__ = ("A", "AO", "H", "O", "acquired", "bars", "cluster", "commits", "cr", "cw", "flags", "fly",
                 "named", "node", "partial", "pool", "rcount", "released", "tokens", "wgs")  # fmt: skip

    def __init__(self) -> None:
        self.node: list[int] = []
        self.H: list[int] = []
        self.O: list[int] = []  # noqa: E741 -- the theory's name
        self.A: list[int] = []
        self.AO: list[int] = []
        # What a relaxed arrive hands on (a release fence's past), and what an acquire fence would add after
        # relaxed waits: H and A for peers in the CTA, in the cluster, on the device.
        self.released: list[Scoped] = []
        self.acquired: list[Scoped] = []
        self.tokens: list[tuple[tuple[str, int], ...]] = []
        self.commits: list[int] = []
        self.rcount: list[int] = []
        self.bars: list[Bar] = []
        self.cw: list[int] = []  # per cell: the last write (with atomics and equal writes beside it)
        self.cr: list[int] = []  # reads since
        self.fly = 0
        self.partial: tuple[tuple[int, int], ...] = ()
        self.named: dict[tuple[int, int, int, int], Named] = {}
        # Arrived and released groups; H and A of the open round and of the last one; the same per CTA.
        self.cluster: dict[int, tuple[int, int, int, int, int, int, tuple[tuple[int, int, int, int], ...]]] = {}
        self.wgs: dict[tuple[int, int], tuple[int, int]] = {}
        self.pool: list[int] = []
        self.flags: list[tuple[int, tuple[tuple[int, int, int, int], ...]]] = []

    def copy(self) -> State:
        s = State.__new__(State)
        s.node, s.H, s.O, s.A, s.AO = self.node[:], self.H[:], self.O[:], self.A[:], self.AO[:]
        s.released, s.acquired, s.tokens = self.released[:], self.acquired[:], self.tokens[:]
        s.commits, s.rcount, s.bars = self.commits[:], self.rcount[:], self.bars[:]
        s.cw, s.cr, s.fly, s.partial = self.cw[:], self.cr[:], self.fly, self.partial
        s.named, s.cluster, s.wgs = self.named.copy(), self.cluster.copy(), self.wgs.copy()
        s.pool, s.flags = self.pool[:], self.flags[:]
        return s


class Machine:
    """The rules of one program. Harms go to ``found``, executed events to ``log`` if it is a list."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self.single = [g.count == 1 for g in program.groups]
        self.found: list[Found] = []
        self.log: list[tuple[int, int, int, int]] | None = None  # group, node, async, phase
        self.phases: dict[tuple[int, int], int] = {}  # instance -> the phase it landed in
        self.differs: list[tuple[int, int]] = []
        self.stopped = False
        self.cta_groups = [
            [g for g, x in enumerate(program.groups) if x.cta == c] for c in range(program.ctas)
        ]
        self.spaces: dict[tuple[str, int], int] = {}
        for cta in range(program.ctas):
            own = program.memory_mask.get(cta, 0)
            everywhere = 0
            for m in program.memory_mask.values():
                everywhere |= m
            out = program.memory_mask.get(-1, 0)
            self.spaces |= {
                ("all", cta): everywhere, ("global", cta): out,
                ("shared_cta", cta): own, ("shared_cluster", cta): everywhere & ~out,
            }  # fmt: skip

    # -- start and key ----------------------------------------------------------

    def initial(self, settled: bool = True) -> State:
        """Everybody at the kernel's entry; ``settled``: past what comes before the first visible event."""
        p, s = self.p, State()
        count = len(p.groups)
        s.node = list(p.start)
        s.H, s.O, s.A, s.AO = [0] * count, [0] * count, [0] * count, [0] * count
        s.released, s.acquired = [NOTHING] * count, [NOTHING] * count
        s.tokens, s.commits, s.rcount = [()] * count, [0] * count, [0] * count
        s.bars = [Bar()] * len(p.bars)
        s.cw, s.cr = [0] * p.cells, [0] * p.cells
        s.pool = [0] * p.ctas
        s.flags = [(0, ())] * len(p.flags)
        if settled:
            self.settle(s, range(count))
        return s

    def key(self, s: State) -> object:
        """The state without accesses that nothing will be compared with any more."""
        live = self.p.pinned
        for m in s.cw:
            live |= m
        for m in s.cr:
            live |= m
        for xs in (s.H, s.O, s.A, s.AO):
            for i, x in enumerate(xs):
                xs[i] = x & live
        bars = []
        for b in s.bars:
            bars.append((b.alive, b.phase, b.pending, b.expected, b.tx, b.RH & live, b.RA & live, b.RX & live,
                         b.CH & live, b.CA & live, b.CX & live, b.seen or not self.p.strict))  # fmt: skip
        return (
            tuple(s.node), tuple(s.H), tuple(s.O), tuple(s.A), tuple(s.AO), tuple(bars), tuple(s.cw), tuple(s.cr),
            s.fly, s.partial, tuple(sorted(s.named.items(), key=lambda x: x[0])) if s.named else (),
            tuple(s.cluster.items()), tuple(sorted(s.wgs.items())), tuple(s.pool), tuple(s.flags),
            tuple(s.released), tuple(s.acquired),
            tuple(s.tokens), tuple(s.commits), tuple(s.rcount),
        )  # fmt: skip

    # -- helpers ----------------------------------------------------------------

    def harm(self, claim: str, rule: str, message: str, e: Event, g: int, stops: bool = False) -> None:
        self.found.append(Found(claim, rule, message, e.span, g, None, stops))
        self.stopped |= stops

    def wrote(self, g: int, node: int, phase: int = -1, op: int = -1) -> None:
        if self.log is not None:
            self.log.append((g, node, op, phase))

    def landed(self, instance: tuple[int, int], phase: int) -> None:
        old = self.phases.setdefault(instance, phase)
        if old != phase:
            self.differs.append(instance)

    def gone(self, s: State, cta: int) -> bool:
        return all(s.node[g] == END for g in self.cta_groups[cta])

    def next(self, s: State, g: int, answer: int = 0) -> None:
        s.node[g] = self.p.after[s.node[g]][answer]

    def join(self, s: State, g: int, h: int, a: int) -> None:
        s.H[g] |= h
        s.A[g] |= a
        s.O[g] &= ~s.H[g]
        s.AO[g] &= ~s.A[g]

    # -- private events, and those whose moment does not matter -------------------

    def settle(self, s: State, groups: range | list[int]) -> None:
        """Runs groups up to the next event whose moment others can see."""
        work = list(groups)
        while work and not self.stopped:
            g = work.pop()
            while s.node[g] != END:
                e = self.p.events[s.node[g]]
                if e.op <= Op.EXIT:
                    self.private(s, g, e, work)
                elif not self.eager(s, g, e) or not self.can(s, g):
                    break
                elif self.visible(s, g, 0, work) is False:
                    break
                if self.stopped:
                    break

    def eager(self, s: State, g: int, e: Event) -> bool:
        """Others cannot tell when this happens: fixed participants, or only ever enabling."""
        op = e.op
        if op is Op.BAR_SYNC:
            return (self.p.groups[g].cta, e.key) in self.p.eager_bars
        if op is Op.REGISTERS:
            return not e.key
        return op in (Op.WARP_SYNC, Op.CLUSTER_ARRIVE, Op.CLUSTER_WAIT, Op.WGMMA_WAIT)

    def private(self, s: State, g: int, e: Event, work: list[int]) -> None:
        op, p = e.op, self.p
        node = s.node[g]
        if op is Op.ACCESS or op is Op.ISSUE:
            self.accesses(s, g, e)
        elif op is Op.LEARN:
            if self.single[g]:
                s.H[g] |= e.mask
            else:
                s.O[g] |= e.mask & ~s.H[g]
        elif op is Op.SETTLE:
            if not p.strict:
                self.bridge(s, g, e.mask)
        elif op is Op.FENCE:
            self.fence(s, g, e)
        elif op is Op.PROXY_FENCE:
            space = self.spaces[e.token, p.groups[g].cta] & p.generic
            if "own_only" in e.flags:
                self.bridge(s, g, e.own & space & (p.generic_sync | s.H[g] | s.O[g]))
            else:
                s.A[g] |= s.H[g] & space
                s.AO[g] |= s.O[g] & space & ~s.A[g]
        elif op is Op.HARM:
            self.harm(next(iter(e.flags)), e.rule, e.message, e, g)
        elif op is Op.MARK:
            s.H[g] |= e.mask
        elif op is Op.NEED:
            if not (s.H[g] | s.O[g]) & p.grid_marks:
                self.harm("stale-value", e.rule, f"{e.text} before griddepcontrol.wait", e, g)
        elif op is Op.MAP_RELEASE or op is Op.MAP_ACQUIRE:
            for m in e.maps:
                for edit, released in p.map_pairs.get(m, ()):
                    if op is Op.MAP_RELEASE and (s.H[g] | s.O[g]) & edit:
                        s.H[g] |= released
                    elif op is Op.MAP_ACQUIRE and s.H[g] & released:
                        s.A[g] |= edit
        elif op is Op.WGMMA_COMMIT:
            s.commits[g] = e.count
            work.extend(x for x in self.cta_groups[p.groups[g].cta] if x != g and s.node[x] != END)
        elif op is Op.EXIT:
            self.leave(s, g, e, work)
            return
        self.wrote(g, node)
        self.next(s, g)

    def bridge(self, s: State, g: int, mask: int) -> None:
        if self.single[g]:
            s.A[g] |= mask
        else:
            s.AO[g] |= mask & ~s.A[g]

    def fence(self, s: State, g: int, e: Event) -> None:
        if e.mask:
            self.bridge(s, g, e.mask)
        if "acquire" in e.flags:
            old = s.acquired[g]
            for h, a in old[: e.key + 1]:
                self.join(s, g, h, a)
            s.acquired[g] = tuple((0, 0) if i <= e.key else x for i, x in enumerate(old))  # type: ignore[assignment]
        if "release" in e.flags:
            self.publish(s, g, e.key, s.H[g] | s.O[g], s.A[g] | s.AO[g])
        if "init" in e.flags:
            self.publish(s, g, e.key, e.own & self.p.pinned, 0)

    def publish(self, s: State, g: int, level: int, h: int, a: int) -> None:
        """A release fence: a later relaxed operation hands this on, within the fence's scope."""
        s.released[g] = tuple((x | h, y | a) if i <= level else (x, y)  # type: ignore[assignment]
                              for i, (x, y) in enumerate(s.released[g]))  # fmt: skip

    def held(self, s: State, g: int, level: int, h: int, a: int) -> None:
        """A relaxed wait: an acquire fence of this scope or wider would add these."""
        s.acquired[g] = tuple((x | h, y | a) if i == level else (x, y)  # type: ignore[assignment]
                              for i, (x, y) in enumerate(s.acquired[g]))  # fmt: skip

    def accesses(self, s: State, g: int, e: Event) -> None:
        p = self.p
        for i in e.touches:
            if s.bars[i].alive:
                self.harm("ub", "SV208", f"{e.text} touches the live mbarrier {p.bars[i].name}", e, g)
        for bit, mask, kind, cells in e.cells:
            if p.accesses[bit].clash:
                self.harm("stale-value", "SV112", f"lanes of one {e.text} write the same bytes", e, g)
            if cells:
                self.found.extend(check_access(p, s.H[g], s.O[g], s.A[g], s.AO[g], s.cw, s.cr, g, bit, mask,
                                               kind, cells, e))  # fmt: skip
        if e.op is Op.ACCESS:
            for _, mask, _, _ in e.cells:
                if self.single[g]:
                    s.H[g] |= mask
                else:
                    s.O[g] |= mask
            return
        for op in e.asyncs:
            a = p.asyncs[op]
            self.check_bar(s, g, a.bar, e)
            if self.gone(s, p.bars[a.bar].cta):
                self.harm("ub", "SV211", f"{e.text}: the target CTA has left", e, g)
            s.fly |= 1 << op

    def leave(self, s: State, g: int, e: Event, work: list[int]) -> None:
        p = self.p
        group = p.groups[g]
        if e.mask:
            first = (e.mask & -e.mask).bit_length() - 1
            a = p.accesses[first]
            self.found.append(Found("ub", "SV211", f"{a.text} may still read its source when its thread leaves",
                                    a.span, g))  # fmt: skip
        self.wrote(g, s.node[g])
        s.node[g] = END
        if self.gone(s, group.cta):
            self.abandoned(s, group.cta, g)
        for key in [k for k in s.named if k[1] == group.cta]:
            self.complete_named(s, key, work)
        self.complete_cluster(s, group.cta // p.cluster_size, work)

    def abandoned(self, s: State, cta: int, g: int) -> None:
        """Copies into a CTA that has left (PTX ISA, Cluster of CTAs; rulebook E54, K21)."""
        fly = s.fly
        while fly:
            low = fly & -fly
            a = self.p.asyncs[low.bit_length() - 1]
            if a.memory == cta and not a.arrive:
                self.found.append(Found("ub", "SV211", f"{a.text} is still in flight when its CTA leaves", a.span, g))
            fly ^= low

    # -- mbarriers --------------------------------------------------------------

    def check_bar(self, s: State, g: int, bar: int, e: Event) -> bool:
        """Whether the group may use the object: alive, and its initialization visible."""
        b = s.bars[bar]
        name = self.p.bars[bar].name
        if not b.alive:
            rule = "SV205" if b.ever else "SV204"
            self.harm("ub", rule, f"{e.text}: {name} is {'invalidated' if b.ever else 'not initialized'}", e, g, True)
            return False
        if b.init & ~(s.H[g] | s.O[g]):
            self.harm("ub", "SV204", f"{e.text}: the initialization of {name} is not visible", e, g)
        return True

    def close(self, s: State, bar: int, b: Bar) -> Bar:
        keep = not self.p.strict  # rulebook theory: older arrivals are inherited in practical mode only
        return b._replace(phase=b.phase + 1, pending=b.expected, seen=False, CH=b.RH, CA=b.RA, CX=b.RX,
                        RH=b.RH if keep else 0, RA=b.RA if keep else 0, RX=b.RX if keep else 0)  # fmt: skip

    def arrive(self, s: State, g: int, e: Event) -> None:
        p = self.p
        if not self.check_bar(s, g, e.bar, e):
            return
        b = s.bars[e.bar]
        info = p.bars[e.bar]
        remote = info.cta != p.groups[g].cta
        if remote and self.gone(s, info.cta):
            self.harm("ub", "SV211", f"{e.text}: the target CTA has left", e, g, True)
            return
        h, a = s.released[g][int(remote)] if "relaxed" in e.flags else (s.H[g] | s.O[g], s.A[g] | s.AO[g])
        changes: dict[str, int] = {"RH": b.RH | h, "RA": b.RA | a}
        if remote and "cluster" in e.flags:
            changes = {"RX": b.RX | h, "RH": b.RH | self.scoped(h), "RA": b.RA | a}
        elif remote:
            changes = {"RH": b.RH | self.scoped(h)}
        b = b._replace(**changes)
        first = b.phase
        if self.p.strict and not b.seen:  # PTX ISA, mbarrier: phases are observed before they are reused (K14)
            self.harm("order-violation", "SV207", f"{e.text}: nobody has waited for the phase before", e, g)
        for _ in range(e.n):
            if e.bytes >= 0:
                b = b._replace(tx=b.tx + e.bytes)
            if b.pending < e.count:
                self.harm("ub", "SV202", f"{e.text}: more arrivals than the count of {b.expected}", e, g, True)
                return
            expected = b.expected - e.count if "drop" in e.flags else b.expected
            if expected < 1:
                self.harm("ub", "SV202", f"{e.text}: arrive_drop lowers the expected count to 0", e, g, True)
                return
            b = b._replace(pending=b.pending - e.count, expected=expected)
            if abs(b.tx) > TX_LIMIT:
                self.harm("ub", "SV203", f"{e.text}: tx-count {b.tx} out of range", e, g, True)
                return
            if b.pending == 0 and b.tx == 0:
                if "no_complete" in e.flags:
                    self.harm("ub", "SV206", f"{e.text}: completes the phase", e, g, True)
                    return
                b = self.close(s, e.bar, b)
        s.bars[e.bar] = b
        self.landed((s.node[g], -1), first)
        if e.token:
            s.tokens[g] = (*(x for x in s.tokens[g] if x[0] != e.token), (e.token, first))
        self.wrote(g, s.node[g], first)

    def scoped(self, h: int) -> int:
        """What an edge of too narrow a scope still carries (rulebook K4): async accesses, initializations."""
        return 0 if self.p.strict else h & (~self.p.generic | self.p.pinned)

    def transactions(self, s: State, g: int, e: Event) -> None:
        if not self.check_bar(s, g, e.bar, e):
            return
        b = s.bars[e.bar]
        if self.gone(s, self.p.bars[e.bar].cta):
            self.harm("ub", "SV211", f"{e.text}: the target CTA has left", e, g, True)
            return
        self.landed((s.node[g], -1), b.phase)
        self.wrote(g, s.node[g], b.phase)
        if e.op is Op.PEND:
            b = b._replace(pending=b.pending + e.n)
        elif e.op is Op.EXPECT:  # never completes a phase (PTX ISA, mbarrier.expect_tx)
            b = b._replace(tx=b.tx + e.bytes * e.n)
        else:
            b = b._replace(tx=b.tx - e.bytes * e.n)
            if b.pending == 0 and b.tx == 0:
                b = self.close(s, e.bar, b)
        if abs(b.tx) > TX_LIMIT or b.pending > TX_LIMIT:
            self.harm("ub", "SV203", f"{e.text}: count out of range", e, g, True)
            return
        s.bars[e.bar] = b

    def complete(self, s: State, op: int, size: int | None = None) -> None:
        """An asynchronous operation lands, or (``size``) a part of its bytes does."""
        a = self.p.asyncs[op]
        b = s.bars[a.bar]
        info = self.p.bars[a.bar]
        if not b.alive:
            rule = "SV205" if b.ever else "SV204"
            self.found.append(Found("ub", rule, f"{a.text} completes on the dead {info.name}", a.span, a.group, None, True))
            self.stopped = True
            return
        left = dict(s.partial).get(op, a.bytes)
        landing = left if size is None else size
        self.landed((-1, op), b.phase)
        if self.log is not None and size is None:
            self.log.append((a.group, -1, op, b.phase))
        if size is None:
            s.fly &= ~(1 << op)
            s.partial = tuple(x for x in s.partial if x[0] != op)
            b = b._replace(RH=b.RH | a.mask)
        else:
            s.partial = tuple(sorted([*(x for x in s.partial if x[0] != op), (op, left - size)]))
        if a.arrive:
            if b.pending < a.arrive:
                self.found.append(Found("ub", "SV202", f"{a.text}: more arrivals than the count of {b.expected}",
                                        a.span, a.group, None, True))  # fmt: skip
                self.stopped = True
                return
            b = b._replace(pending=b.pending - a.arrive)
        else:
            b = b._replace(tx=b.tx - landing)
        if abs(b.tx) > TX_LIMIT:
            self.found.append(Found("ub", "SV203", f"{a.text}: tx-count out of range", a.span, a.group, None, True))
            self.stopped = True
            return
        if b.pending == 0 and b.tx == 0:
            b = self.close(s, a.bar, b)
        s.bars[a.bar] = b

    def passed(self, s: State, g: int, e: Event, phase: int) -> None:
        """A wait or poll came true: what its phase's release arrivals knew is known here."""
        b = s.bars[e.bar]
        if not b.seen and phase == b.phase - 1:
            b = s.bars[e.bar] = b._replace(seen=True)
        if "relaxed" in e.flags:
            self.held(s, g, 0, b.CH, b.CA)
            self.held(s, g, 1, b.CX, b.CA)
        else:
            self.join(s, g, b.CH | (b.CX if "cluster" in e.flags else self.scoped(b.CX)), b.CA)
        self.landed((s.node[g], -1), phase)
        self.wrote(g, s.node[g], phase)

    # -- enabled, and visible events ----------------------------------------------

    def can(self, s: State, g: int) -> bool:
        """Whether the group's next event can happen now."""
        e = self.p.events[s.node[g]]
        op = e.op
        if op is Op.WAIT:
            b = s.bars[e.bar]
            return not b.alive or b.phase % 2 != e.key
        if op is Op.WAIT_TOKEN:
            b = s.bars[e.bar]
            return not b.alive or b.phase > dict(s.tokens[g]).get(e.token, -1)
        if op is Op.BAR_SYNC:
            return not self.is_waiting(s, g, (0, self.p.groups[g].cta, e.key, 0))
        if op is Op.WARP_SYNC:
            group = self.p.groups[g]
            return not self.is_waiting(s, g, (1, group.cta, group.warp, e.key))
        if op is Op.CLUSTER_WAIT:
            c = self.p.groups[g].cta // self.p.cluster_size
            state = s.cluster.get(c)
            return state is None or bool(state[1] >> g & 1) or not state[0] >> g & 1
        if op is Op.REGISTERS and e.key:
            group = self.p.groups[g]
            current, done = s.wgs.get((group.cta, group.warp // 4), (self.p.registers, 0))
            return e.count <= done or (e.n - current) * 128 <= s.pool[group.cta]
        if op is Op.SPIN:
            return COMPARE[e.token](s.flags[e.key][0], e.count)
        if op is Op.WGMMA_WAIT:
            return all(s.commits[x] >= e.count or s.node[x] == END for x in e.bits)
        return True

    def is_waiting(self, s: State, g: int, key: tuple[int, int, int, int]) -> bool:
        n = s.named.get(key)
        return n is not None and bool(n.waiting >> g & 1)

    def visible(self, s: State, g: int, answer: int, work: list[int]) -> bool:
        """Performs the group's next event; False if the group now blocks."""
        e = self.p.events[s.node[g]]
        op = e.op
        if op is Op.ARRIVE:
            self.arrive(s, g, e)
        elif op in (Op.EXPECT, Op.COMPLETE, Op.PEND):
            self.transactions(s, g, e)
        elif op is Op.WAIT:
            if self.check_bar(s, g, e.bar, e):
                self.passed(s, g, e, s.bars[e.bar].phase - 1)
        elif op is Op.WAIT_TOKEN:
            if self.check_bar(s, g, e.bar, e):
                self.passed(s, g, e, dict(s.tokens[g]).get(e.token, -1))
        elif op in (Op.POLL, Op.POLL_TOKEN):
            if self.check_bar(s, g, e.bar, e) and answer:
                self.passed(s, g, e, s.bars[e.bar].phase - 1)
            self.next(s, g, answer)
            return True
        elif op is Op.INIT or op is Op.INVAL:
            self.lifetime(s, g, e)
        elif op is Op.BAR_SYNC or op is Op.BAR_ARRIVE:
            return self.named_barrier(s, g, e, work)
        elif op is Op.WARP_SYNC:
            group = self.p.groups[g]
            key = (1, group.cta, group.warp, e.key)
            return self.meet(s, g, key, Named(), work, True)
        elif op is Op.CLUSTER_ARRIVE:
            self.cluster_arrive(s, g, e, work)
        elif op is Op.CLUSTER_WAIT:
            self.cluster_wait(s, g, e)
        elif op is Op.REGISTERS:
            self.registers(s, g, e, work)
        elif op is Op.WGMMA_WAIT:
            s.H[g] |= e.mask
            self.wrote(g, s.node[g])
        else:
            self.global_word(s, g, e)
        self.next(s, g)
        return True

    def polled_true(self, s: State, g: int) -> bool:
        """Whether a poll may come back true; it may always come back false (PTX ISA, try_wait)."""
        e = self.p.events[s.node[g]]
        b = s.bars[e.bar]
        if e.op is Op.POLL:
            return b.phase % 2 != e.key
        return b.phase > dict(s.tokens[g]).get(e.token, -1)

    def lifetime(self, s: State, g: int, e: Event) -> None:
        b = s.bars[e.bar]
        name = self.p.bars[e.bar].name
        if e.op is Op.INIT and (b.alive or e.n > 1):
            self.harm("ub", "SV205", f"{e.text}: {name} is alive, and not invalidated first", e, g, True)
            return
        if e.op is Op.INVAL and (not b.alive or e.n > 1):
            self.harm("ub", "SV205", f"{e.text}: {name} is not alive", e, g, True)
            return
        self.accesses_of_object(s, g, e)
        if e.op is Op.INIT:
            s.bars[e.bar] = Bar(True, True, 0, e.count, e.count, 0, 0, 0, 0, 0, 0, 0, e.cells[0][1])
        else:
            s.bars[e.bar] = b._replace(alive=False)
        self.wrote(g, s.node[g])

    def accesses_of_object(self, s: State, g: int, e: Event) -> None:
        for bit, mask, kind, cells in e.cells:
            if cells:
                self.found.extend(check_access(self.p, s.H[g], s.O[g], s.A[g], s.AO[g], s.cw, s.cr, g, bit, mask,
                                               kind, cells, e))  # fmt: skip
            if self.single[g]:
                s.H[g] |= mask
            else:
                s.O[g] |= mask

    # -- execution barriers -------------------------------------------------------

    def named_barrier(self, s: State, g: int, e: Event, work: list[int]) -> bool:
        cta = self.p.groups[g].cta
        key = (0, cta, e.key, 0)
        n = s.named.get(key)
        red = "red" in e.flags
        if n is None:
            n = Named(e.n, red)
        elif n.threads != e.n or n.red != red:
            self.harm("ub", "SV301", f"{e.text}: participants disagree: {n.threads or 'all'} and {e.n or 'all'} threads",
                      e, g, True)  # fmt: skip
            return True
        elif n.arrived >> g & 1:
            self.harm("ub", "SV301", f"{e.text}: a warp arrives twice before the barrier completes", e, g, True)
            return True
        return self.meet(s, g, key, n, work, e.op is Op.BAR_SYNC)

    def meet(self, s: State, g: int, key: tuple[int, int, int, int], fresh: Named, work: list[int], blocks: bool) -> bool:
        """Arrives at a barrier of this CTA; False if the group blocks there."""
        n = s.named.get(key, fresh)
        s.named[key] = Named(n.threads, n.red, n.arrived | 1 << g, n.waiting | (1 << g if blocks else 0), n.warps,
                             n.H | s.H[g] | s.O[g], n.A | s.A[g] | s.AO[g])  # fmt: skip
        self.wrote(g, s.node[g])
        if not blocks:
            self.next(s, g)
        before = s.node[g]
        self.complete_named(s, key, work)
        return not blocks or s.node[g] != before

    def complete_named(self, s: State, key: tuple[int, int, int, int], work: list[int]) -> None:
        """A barrier completes when its last warp's live lanes are there (PTX ISA, bar)."""
        n = s.named.get(key)
        if n is None:
            return
        p = self.p
        if key[0] == 1:
            # All named lanes must execute it, those that left too (PTX ISA, bar.warp.sync).
            missing = [g for g in p.warp_groups[key[1], key[2]]
                       if p.groups[g].lanes & key[3] and not n.arrived >> g & 1]  # fmt: skip
            done = not missing
        else:
            warps = {p.groups[g].warp for g in self.cta_groups[key[1]] if n.arrived >> g & 1}
            full = [w for w in warps
                    if all(n.arrived >> g & 1 or s.node[g] == END for g in p.warp_groups[key[1], w])]  # fmt: skip
            done = len(full) >= (-(-n.threads // LANES) if n.threads else p.warps)
        if not done:
            return
        del s.named[key]
        for g in range(len(s.node)):
            if n.waiting >> g & 1:
                self.join(s, g, n.H, n.A)
                self.next(s, g)
                work.append(g)

    def cluster_arrive(self, s: State, g: int, e: Event, work: list[int]) -> None:
        c = self.p.groups[g].cta // self.p.cluster_size
        arrived, free, h, a, ch, ca, near = s.cluster.get(c, NO_CLUSTER)
        if (arrived | free) >> g & 1:
            self.harm("ub", "SV302", f"{e.text}: a second arrive without a wait between", e, g, True)
            return
        rh, ra = s.released[g][1] if "relaxed" in e.flags else (s.H[g] | s.O[g], s.A[g] | s.AO[g])
        if "relaxed" in e.flags:  # what a fence of CTA scope released reaches the own CTA only
            rank = self.p.groups[g].cta % self.p.cluster_size
            x, y = s.released[g][0]
            near = near or ((0, 0, 0, 0),) * self.p.cluster_size
            i, j, k, m = near[rank]
            near = (*near[:rank], (i | x, j | y, k, m), *near[rank + 1 :])
        s.cluster[c] = (arrived | 1 << g, free, h | rh, a | ra, ch, ca, near)
        self.wrote(g, s.node[g])
        self.complete_cluster(s, c, work)

    def complete_cluster(self, s: State, c: int, work: list[int]) -> None:
        """All live threads of the cluster have arrived (PTX ISA, barrier.cluster)."""
        state = s.cluster.get(c)
        if state is None or not state[0]:
            return
        arrived, free, h, a, _, _, near = state
        members = [g for g, x in enumerate(self.p.groups) if x.cta // self.p.cluster_size == c]
        if all(arrived >> g & 1 or s.node[g] == END for g in members):
            s.cluster[c] = (0, free | arrived, 0, 0, h, a, tuple((0, 0, x, y) for x, y, _, _ in near))
            work.extend(g for g in members if s.node[g] != END)

    def cluster_wait(self, s: State, g: int, e: Event) -> None:
        c = self.p.groups[g].cta // self.p.cluster_size
        arrived, free, h, a, ch, ca, near = s.cluster.get(c, NO_CLUSTER)
        if not free >> g & 1:
            self.harm("ub", "SV302", f"{e.text}: no arrive before the wait", e, g, True)
            return
        s.cluster[c] = (arrived, free & ~(1 << g), h, a, ch, ca, near)
        self.join(s, g, ch, ca)
        if near:
            _, _, x, y = near[self.p.groups[g].cta % self.p.cluster_size]
            self.join(s, g, x, y)
        self.wrote(g, s.node[g])

    # -- registers and global words -------------------------------------------------

    def registers(self, s: State, g: int, e: Event, work: list[int]) -> None:
        """The first warp's request is the warpgroup's; the others follow (PTX ISA, setmaxnreg)."""
        p = self.p
        group = p.groups[g]
        wg = (group.cta, group.warp // 4)
        current, done = s.wgs.get(wg, (p.registers, 0))
        team = p.warpgroup_groups[wg]
        if e.count > done:
            if any(s.rcount[x] < e.count - 1 for x in team):
                self.harm("ub", "SV304", f"{e.text}: no warpgroup barrier since the setmaxnreg before it", e, g, True)
                return
            if (e.n < current) if e.key else (e.n > current):
                self.harm("ub", "SV304", f"{e.text}: the warpgroup has {current} registers", e, g, True)
                return
            s.pool[group.cta] += (current - e.n) * 128
            s.wgs[wg] = (e.n, e.count)
        s.rcount[g] = e.count
        self.wrote(g, s.node[g])

    def global_word(self, s: State, g: int, e: Event) -> None:
        """Words that blocks spin on: values, and release to acquire within both scopes."""
        p = self.p
        value, past = s.flags[e.key]
        cta = p.groups[g].cta
        if e.op is Op.FLAG_WRITE:
            releases = e.flags & {"release", "acq_rel", "sc"}
            level = LEVELS[next(iter(e.flags & SCOPES), "gpu")]
            old = {(k, c): (x, y) for k, c, x, y in past}
            full = (s.H[g] | s.O[g], s.A[g] | s.AO[g])
            for k in range(level + 1):
                h, a = full if releases else s.released[g][k]
                x, y = old.get((k, cta), (0, 0))
                old[k, cta] = (x | h, y | a)
            for _ in range(e.n):
                value = UPDATE[e.token](value, e.count)
            s.flags[e.key] = (value, tuple(sorted((k, c, x, y) for (k, c), (x, y) in old.items())))
        if e.op is not Op.FLAG_WRITE or e.flags & {"acq_rel", "acquire", "sc"}:
            mine = LEVELS[next(iter(e.flags & SCOPES), "gpu")]
            for k, writer, h, a in past:
                if k != self.distance(writer, cta):
                    continue
                if mine >= k and e.flags & {"acquire", "acq_rel", "sc"}:
                    self.join(s, g, h, a)
                else:
                    self.held(s, g, k, h, a)
        self.wrote(g, s.node[g])

    def distance(self, a: int, b: int) -> int:
        """The narrowest scope that includes threads of both CTAs."""
        return 0 if a == b else 1 if a // self.p.cluster_size == b // self.p.cluster_size else 2


LEVELS = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 2}
SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
COMPARE = {
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, ">": lambda a, b: a > b,
    "!=": lambda a, b: a != b, "<=": lambda a, b: a <= b, "<": lambda a, b: a < b,
}  # fmt: skip
UPDATE = {
    "st": lambda old, v: v, "exch": lambda old, v: v, "add": lambda old, v: old + v,
    "min": min, "max": max, "and": lambda old, v: old & v, "or": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v, "inc": lambda old, v: 0 if old >= v else old + 1,
    "dec": lambda old, v: v if old == 0 or old > v else old - 1,
}  # fmt: skip
