"""Small-step semantics of event-list systems, one lane and one engine at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from syncverify.model.events import Ev, Event, Flag, System

TX_LIMIT = (1 << 20) - 1  # B15

#: Only the thread itself can tell when it executed these: they run as soon as they are reached.
LOCAL = frozenset(
    {
        Ev.READ, Ev.WRITE, Ev.ATOMIC, Ev.USE, Ev.INIT_FENCE, Ev.FENCE, Ev.PROXY_FENCE, Ev.CP_ASYNC,
        Ev.CP_COMMIT, Ev.CP_ARRIVE, Ev.BULK_LOAD, Ev.BULK_STORE, Ev.BULK_COMMIT, Ev.EXIT, Ev.ELECT,
        Ev.GLOBAL_READ, Ev.GLOBAL_WRITE,
    }
)  # fmt: skip
#: Events that brute force does not know; the simulator judges those.
KNOWN = LOCAL | {
    Ev.INIT, Ev.INVAL, Ev.ARRIVE, Ev.EXPECT_TX, Ev.COMPLETE_TX, Ev.WAIT, Ev.WAIT_TOKEN, Ev.BARRIER_SYNC,
    Ev.BARRIER_ARRIVE, Ev.WARP_SYNC, Ev.CP_WAIT, Ev.BULK_WAIT,
}  # fmt: skip


class UnknownEventError(Exception):
    """The system holds an event that brute force does not model."""


@dataclass
class Mbarrier:
    """B10: the state of one live object."""

    count: int
    pending: int
    tx: int = 0
    completed: int = 0


@dataclass
class Async:
    """One asynchronous operation of one lane, with what is still to land of it."""

    kind: str  # load, store, cp, cparrive
    thread: int
    pc: int
    writes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    bar: int = -1
    pieces: tuple[int, ...] = ()  # still to land: bytes, arrivals; a store's read end, write end
    after: tuple[int, ...] = ()  # asynchronous operations that must have landed before


@dataclass
class State:
    """A reachable point: what every lane and engine has done, and where it landed."""

    pcs: list[int]
    asyncs: list[Async]
    bars: dict[int, Mbarrier]
    named: dict[int, tuple[int, frozenset[int], int]]  # id -> (threads, lanes that arrived, generation)
    waiting: dict[int, int]  # lane -> generation of the barrier it has arrived at and not left
    open_groups: dict[tuple[int, str], tuple[int, ...]]
    groups: dict[tuple[int, str], tuple[tuple[int, ...], ...]]
    landing: dict[tuple[Any, ...], int]
    tokens: dict[tuple[int, int], int]
    trace: tuple[tuple[Any, ...], ...] = ()
    ub: str = ""
    seen: frozenset[tuple[int, int]] = frozenset()  # (barrier, phase) that some wait has found complete
    unobserved: bool = False  # an arrival of the next phase came before any such wait (B20)

    def copy(self) -> State:
        return State(
            list(self.pcs),
            [Async(**vars(a)) for a in self.asyncs],
            {b: Mbarrier(**vars(m)) for b, m in self.bars.items()},
            dict(self.named),
            dict(self.waiting),
            dict(self.open_groups),
            dict(self.groups),
            dict(self.landing),
            dict(self.tokens),
            self.trace,
            self.ub,
            self.seen,
            self.unobserved,
        )

    def key(self) -> tuple[Any, ...]:
        return (
            tuple(self.pcs),
            tuple((a.thread, a.pc, a.bar, len(a.pieces)) for a in self.asyncs),
            tuple(sorted(self.landing.items(), key=repr)),
            tuple(sorted(self.waiting.items())),
            tuple((b, m.completed, m.pending, m.tx, m.count) for b, m in sorted(self.bars.items())),
            self.ub,
            self.seen,
            self.unobserved,
        )


class Machine:
    """Small-step semantics of one system, lane by lane."""

    def __init__(self, system: System) -> None:
        self.threads: list[tuple[int, int, list[Event]]] = []  # class, lane, events
        self.info = system.info
        for agent in system.agents():
            events: list[Event] = []
            while not events or events[-1][0] != Ev.EXIT:
                events.append(agent.step())
            for e in events:
                if e[0] not in KNOWN:
                    raise UnknownEventError(Ev(e[0]).name)
            mask = system.info.classes[agent.cls].lanes
            self.threads += [(agent.cls, lane, events) for lane in range(32) if mask >> lane & 1]
        self.warp_of = [self.info.classes[c].warp for c, _, _ in self.threads]

    def start(self) -> State:
        n = len(self.threads)
        state = State([0] * n, [], {}, {}, {}, {}, {}, {}, {})
        self.settle(state)
        return state

    def event(self, state: State, t: int) -> Event | None:
        events = self.threads[t][2]
        return events[state.pcs[t]] if state.pcs[t] < len(events) else None

    def settle(self, state: State) -> None:
        """Runs every local operation that is reached; their order can be told by nobody."""
        for t in range(len(self.threads)):
            while (e := self.event(state, t)) is not None and e[0] in LOCAL and not state.ub:
                self.local(state, t, e)

    def local(self, state: State, t: int, e: Event) -> None:
        pc = state.pcs[t]
        match e[0]:
            case Ev.READ | Ev.WRITE | Ev.ATOMIC if self.overlays(state, e[2]):
                state.ub = "a data access touches the bytes of a live barrier"  # B10
                return
            case Ev.BULK_LOAD:
                for fp, bar, n in e[2]:  # B40: every lane that executes it launches a copy
                    pieces = (n - n // 2, n // 2) if n > 1 else (n,)
                    state.asyncs.append(Async("load", t, pc, writes=(fp,), bar=bar, pieces=pieces))
            case Ev.BULK_STORE:
                self.join_group(state, t, "bulk")
                state.asyncs.append(Async("store", t, pc, reads=(e[2],), pieces=(0, 1)))
            case Ev.CP_ASYNC:
                self.join_group(state, t, "cp")
                state.asyncs.append(Async("cp", t, pc, writes=(e[2],), pieces=(1,)))
            case Ev.CP_ARRIVE:
                earlier = tuple(i for i, a in enumerate(state.asyncs) if a.thread == t and a.kind == "cp")
                bar = state.bars.get(e[2])
                if bar is None:
                    state.ub = "cp.async.mbarrier.arrive on a dead barrier"
                    return
                if not e[3]:
                    bar.pending += 1  # B32: the default form announces its own arrival
                state.asyncs.append(Async("cparrive", t, pc, bar=e[2], pieces=(1,), after=earlier))
            case Ev.BULK_COMMIT | Ev.CP_COMMIT:
                kind = "bulk" if e[0] == Ev.BULK_COMMIT else "cp"
                state.groups[t, kind] = (
                    *state.groups.get((t, kind), ()),
                    state.open_groups.pop((t, kind), ()),
                )
        state.trace += ((t, pc),)
        state.pcs[t] += 1

    def overlays(self, state: State, fp: int) -> bool:
        where = self.info.footprints[fp]
        objects = [self.info.barriers[b] for b in state.bars]
        return any(
            o.cta == where.memory and lo < o.offset + 8 and o.offset < hi
            for o in objects
            for lo, hi in where.intervals
        )

    def join_group(self, state: State, t: int, kind: str) -> None:
        state.open_groups[t, kind] = (*state.open_groups.get((t, kind), ()), len(state.asyncs))

    def moves(self, state: State) -> Iterator[State]:
        """Every state one step further."""
        for t in range(len(self.threads)):
            e = self.event(state, t)
            if e is not None and (nxt := self.step(state, t, e)) is not None:
                if not nxt.ub:
                    self.settle(nxt)
                yield nxt
        for i, a in enumerate(state.asyncs):
            if a.pieces and all(not state.asyncs[j].pieces for j in a.after):
                nxt = state.copy()
                self.land(nxt, i)
                if not nxt.ub:
                    self.settle(nxt)
                yield nxt

    def land(self, state: State, i: int) -> None:
        a = state.asyncs[i]
        piece, a.pieces = a.pieces[0], a.pieces[1:]
        state.trace += (("async", i, len(a.pieces)),)
        if a.bar < 0:
            return
        bar = state.bars.get(a.bar)
        if bar is None:
            state.ub = "a copy completes on a barrier that is not alive"
            return
        state.landing["async", a.thread, a.pc, a.bar, len(a.pieces)] = bar.completed
        if a.kind == "load":
            bar.tx -= piece
        else:
            bar.pending -= 1
        self.evaluate(state, bar)

    def evaluate(self, state: State, bar: Mbarrier) -> None:
        if bar.pending < 0:
            state.ub = "more arrivals than the barrier's count"
        if abs(bar.tx) > TX_LIMIT:
            state.ub = "tx-count out of range"
        if bar.pending == 0 and bar.tx == 0:  # B13
            bar.completed += 1
            bar.pending = bar.count
            if bar.count == 0:
                state.ub = "the expected count drops to 0"  # B18

    def step(self, state: State, t: int, e: Event) -> State | None:
        """Lane t executes e; None if it must wait."""
        pc = state.pcs[t]
        code = e[0]
        if code in (Ev.WAIT, Ev.WAIT_TOKEN):
            live = state.bars.get(e[2])
            if live is not None:
                phase = live.completed - 1
                if code == Ev.WAIT and live.completed % 2 == e[3]:
                    return None
                if code == Ev.WAIT_TOKEN:
                    token = state.tokens.get((t, e[2]), -1)
                    if live.completed % 2 == token % 2:  # B19: a token names its phase's parity
                        return None
                nxt = state.copy()
                nxt.landing[t, pc] = phase
                nxt.seen |= {(e[2], phase)}
            else:
                nxt = state.copy()
                nxt.ub = "wait on a barrier that is not alive"
            return self.advance(nxt, t, pc)
        if code in (Ev.CP_WAIT, Ev.BULK_WAIT):
            return self.group_wait(state, t, e)
        if code in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE, Ev.WARP_SYNC):
            return self.rendezvous(state, t, e)
        nxt = state.copy()
        bar = nxt.bars.get(e[2])
        if code == Ev.INIT:
            if bar is not None:
                nxt.ub = "init of a live barrier"  # B11
            nxt.bars[e[2]] = Mbarrier(e[3], e[3])
            nxt.landing[t, pc] = 0
            return self.advance(nxt, t, pc)
        if bar is None:
            nxt.ub = f"{Ev(code).name} on a barrier that is not alive"
            return self.advance(nxt, t, pc)
        if code == Ev.INVAL:
            del nxt.bars[e[2]]
            return self.advance(nxt, t, pc)
        nxt.landing[t, pc] = bar.completed
        if code == Ev.EXPECT_TX:
            bar.tx += e[3]  # B14: never evaluates completion
            if bar.tx > TX_LIMIT:
                nxt.ub = "tx-count out of range"
        elif code == Ev.COMPLETE_TX:
            bar.tx -= e[3]
            self.evaluate(nxt, bar)
        else:
            _, _, b, count, expect, flags = e
            if expect >= 0:
                bar.tx += expect
            if flags & Flag.DROP:
                bar.count -= count
            nxt.tokens[t, b] = bar.completed
            nxt.unobserved |= bar.completed > 0 and (b, bar.completed - 1) not in nxt.seen
            before = bar.completed
            bar.pending -= count
            self.evaluate(nxt, bar)
            if flags & Flag.NO_COMPLETE and bar.completed != before:
                nxt.ub = "noComplete arrival completes the phase"  # B17
        return self.advance(nxt, t, pc)

    @staticmethod
    def advance(state: State, t: int, pc: int) -> State:
        state.trace += ((t, pc),)
        state.pcs[t] += 1
        return state

    def group_wait(self, state: State, t: int, e: Event) -> State | None:
        kind = "cp" if e[0] == Ev.CP_WAIT else "bulk"
        groups = state.groups.get((t, kind), ())
        if kind == "cp" and e[2] < 0:
            covered = [i for i, a in enumerate(state.asyncs) if a.thread == t and a.kind == "cp"]
        else:
            covered = [i for g in groups[: max(0, len(groups) - e[2])] for i in g]
        left = 1 if kind == "bulk" and e[3] else 0  # B48: .read waits for the read end alone
        if any(len(state.asyncs[i].pieces) > left for i in covered):
            return None
        return self.advance(state.copy(), t, state.pcs[t])

    def rendezvous(self, state: State, t: int, e: Event) -> State | None:
        """Execution barriers and warp syncs: arrive, then leave when all are there (B1, B3)."""
        pc = state.pcs[t]
        if e[0] == Ev.WARP_SYNC:
            ident = -1 - self.warp_of[t]
            need = {u for u in range(len(self.threads)) if self.warp_of[u] == self.warp_of[t]
                    and e[2] >> self.threads[u][1] & 1}  # fmt: skip
            threads, target = e[2], len(need)
        else:
            ident, threads = e[2], e[3]
            target = 0
        if t in state.waiting:
            _, _, generation = state.named[ident]
            if generation <= state.waiting[t]:
                return None
            nxt = state.copy()
            del nxt.waiting[t]
            return self.advance(nxt, t, pc)
        nxt = state.copy()
        known, there, generation = nxt.named.get(ident, (threads, frozenset(), 0))
        if there and known != threads:
            nxt.ub = "participants disagree on the barrier's count"
            return nxt
        if t in there:
            nxt.ub = "a warp arrives twice"
            return nxt
        there |= {t}
        nxt.landing[t, pc] = generation
        nxt.trace += ((t, pc),)
        if e[0] == Ev.WARP_SYNC:
            full = len(there) == target
        else:
            warps = {self.warp_of[u] for u in there}
            lanes = {u for u in range(len(self.threads)) if self.warp_of[u] in warps}
            have = (
                len(warps)
                if lanes == there
                else sum({u for u in lanes if self.warp_of[u] == w} <= there for w in warps)
            )
            want = len(set(self.warp_of)) if threads == 0 else threads // 32
            if have > want:
                nxt.ub = "more warps than the barrier's count"
            full = have == want
        nxt.named[ident] = (threads, frozenset(), generation + 1) if full else (threads, there, generation)
        if e[0] == Ev.BARRIER_ARRIVE:
            nxt.pcs[t] += 1
        else:
            nxt.waiting[t] = generation
        return nxt
