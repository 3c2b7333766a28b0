"""Which action may be tried alone: one that nothing the others can do before it interferes with.

For an entity's next action on an mbarrier, everybody else is run ahead in the abstract: arrivals always
succeed, a wait passes if its phase could complete from what is reachable. What they reach is more than
they ever can, so an action that commutes with all of it loses no behaviour when it goes first. The
state graph has no cycles, so no action is put off for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from syncverify.simulate.ir.machine import Machine
from syncverify.simulate.ir.program import Async, Event, Group, Op
from syncverify.simulate.ir.state import END, NO_CLUSTER, State

POLLS = (Op.POLL, Op.POLL_TOKEN)
WAITS = (Op.WAIT, Op.WAIT_TOKEN)


@dataclass(slots=True)
class Ahead:
    """What the others can do before the entity (or landing copy) moves, at most."""

    arrivals: dict[int, int] = field(default_factory=dict)
    expects: set[int] = field(default_factory=set)  # barriers that get bytes with an arrival
    lands: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)  # barriers touched in any other way
    late: set[int] = field(default_factory=set)  # barriers with waits that may pass now
    ended: int = 0
    named: set[tuple[int, int]] = field(default_factory=set)
    pools: set[int] = field(default_factory=set)


class Reducer:
    """Finds actions that may be tried alone in a state of ``m``."""

    def __init__(self, m: Machine) -> None:
        self.m, self.p = m, m.p
        self.off = any(e.op is Op.SPIN for e in self.p.events)
        self.first_seen: dict[int, int] = {END: END}
        self.later: dict[int, int] = {}

    def alone(self, s: State, entities: list[int], lands: list[int]) -> tuple[str, int] | None:
        """An action that suffices for this state, or None."""
        if self.off:
            return None
        for op in lands:
            if self.landing(s, op):
                return ("land", op)
        for i in entities:
            if self.entity(s, i):
                return ("step", i)
        return None

    def landing(self, s: State, op: int) -> bool:
        """A copy may land now if nobody touches its barrier, and its CTA stays, until it has landed."""
        a = self.p.asyncs[op]
        b = s.bars[a.bar]
        if not b.alive or a.arrive or s.partial:
            return False
        total, fly = 0, s.fly
        while fly:
            low = fly & -fly
            other = self.p.asyncs[low.bit_length() - 1]
            if other.bar == a.bar:
                if other.arrive:
                    return False
                total += other.bytes
            fly ^= low
        if b.tx != total or b.pending:
            return False
        ahead = self.ahead(s, 0, a.bar)
        bar = a.bar
        return (
            bar not in ahead.arrivals
            and bar not in ahead.others
            and bar not in ahead.late
            and bar not in ahead.lands
            and all(any(not ahead.ended >> g & 1 for g in self.m.cta_groups[c]) for c in self.homes(a))
        )

    def homes(self, a: Async) -> list[int]:
        """CTAs whose memory a copy touches."""
        masks = self.p.memory_mask
        return [c for c in range(self.p.ctas) if c == a.memory or a.mask & masks.get(c, 0)]

    def entity(self, s: State, i: int) -> bool:
        """Whether the next action of an entity commutes with all that can come before it."""
        members = [g for g in self.p.entities[i] if s.node[g] != END]
        if not members:
            return False
        events = [self.p.events[s.node[g]] for g in members]
        e = events[0]
        if any(x.op is not e.op or x.bar != e.bar or x.key != e.key for x in events):
            return False
        ahead = self.ahead(s, sum(1 << g for g in members), -1)
        cta = self.p.groups[members[0]].cta
        if e.op is Op.BAR_SYNC or e.op is Op.BAR_ARRIVE:
            return (cta, e.key) not in ahead.named and len(members) == 1
        if e.op is Op.REGISTERS:
            return cta not in ahead.pools
        return e.bar >= 0 and self.stays_usable(s, e, cta, ahead) and self.commutes(s, events, ahead)

    def stays_usable(self, s: State, e: Event, cta: int, ahead: Ahead) -> bool:
        """Whether others only arrive on the event's mbarrier and wait there, and it stays alive."""
        b = s.bars[e.bar]
        if e.bar in ahead.others or (not b.alive and e.op is not Op.INIT):
            return False
        home = self.p.bars[e.bar].cta
        if home != cta and all(ahead.ended >> g & 1 for g in self.m.cta_groups[home]):
            return False
        first_look = (e.op in WAITS and ahead.arrivals.get(e.bar, 0)) or (
            e.op is Op.ARRIVE and e.bar in ahead.late
        )
        return not (self.p.strict and not b.seen and first_look)

    def commutes(self, s: State, events: list[Event], ahead: Ahead) -> bool:
        """Whether an operation on an mbarrier has one result and effect, whatever others do before it."""
        e, b = events[0], s.bars[events[0].bar]
        more = ahead.arrivals.get(e.bar, 0)
        landing = e.bar in ahead.lands or self.flying(s, e.bar)
        stays_open = more < b.pending or (b.pending == 0 and not landing and not more)
        if e.op in POLLS:
            # The answer must not depend on when it is asked; both answers are tried where it may be true.
            return len(events) == 1 and stays_open
        if e.op in WAITS:
            return stays_open
        if e.op is Op.INIT or e.op is Op.EXPECT:
            return not more and not landing and e.bar not in ahead.late
        return e.op is Op.ARRIVE and not landing and self.arrival_commutes(events, b.pending, more, ahead)

    def arrival_commutes(self, events: list[Event], pending: int, more: int, ahead: Ahead) -> bool:
        """Whether an arrival counts in one phase, and completes it or not, whatever arrives before it."""
        e = events[0]
        mine = sum(x.n * x.count for x in events)
        if e.flags & {"drop", "no_complete"} or more + mine > pending:
            return False
        brings_bytes = e.bar in ahead.expects or any(x.bytes >= 0 for x in events)
        if brings_bytes and more:
            return False
        return more + mine < pending or e.bar not in ahead.late

    def flying(self, s: State, bar: int) -> bool:
        fly = s.fly
        while fly:
            low = fly & -fly
            if self.p.asyncs[low.bit_length() - 1].bar == bar:
                return True
            fly ^= low
        return False

    def ahead(self, s: State, frozen: int, held: int) -> Ahead:
        """Runs all groups but ``frozen`` as far as they could get; ``held`` is a barrier that stays open."""
        p, out = self.p, Ahead()
        at = [self.step(node) for node in s.node]
        for a in (self.p.asyncs[i] for i in range(s.fly.bit_length()) if s.fly >> i & 1):
            if a.arrive:  # it counts like an arrival, at any moment
                out.others.add(a.bar)
        free: set[int] = set()
        todo = [g for g in range(len(at)) if not frozen >> g & 1]
        for g in todo:
            if at[g] == END:
                out.ended |= 1 << g
        moved = True
        while moved:
            moved = False
            for g in todo:
                node = at[g]
                while node != END:
                    if not self.passes(s, g, node, frozen, held, out, free):
                        break
                    moved = True
                    if p.events[node].op in POLLS and not self.one_answer(s, g, node, held, out, free):
                        self.anything(g, node, out)
                        node = END
                        break
                    node = self.step(p.after[node][0])
                    if node != END and p.events[node].op is Op.EXIT:
                        node = END
                        out.ended |= 1 << g
                at[g] = node
        return out

    def passes(self, s: State, g: int, node: int, frozen: int, held: int, out: Ahead, free: set[int]) -> bool:
        e = self.p.events[node]
        op = e.op
        if op is Op.ARRIVE:
            out.arrivals[e.bar] = out.arrivals.get(e.bar, 0) + e.n * e.count
            if e.bytes >= 0:
                out.expects.add(e.bar)
            if e.flags & {"drop", "no_complete"}:
                out.others.add(e.bar)
            return True
        if op in POLLS:
            return True
        if op is Op.WAIT or op is Op.WAIT_TOKEN:
            return self.wait_passes(s, g, node, held, out, free)
        if op is Op.ISSUE:
            for x in e.asyncs:
                a = self.p.asyncs[x]
                out.lands.add(a.bar)
                if a.arrive:
                    out.others.add(a.bar)
            return True
        if op is Op.BAR_SYNC or op is Op.BAR_ARRIVE:
            return self.named_barrier_passes(s, e, self.p.groups[g].cta, frozen, out)
        if op is Op.WARP_SYNC:
            return self.warp_barrier_passes(s, e, self.p.groups[g], frozen)
        if op is Op.CLUSTER_WAIT:
            return self.cluster_barrier_passes(s, g, frozen)
        if op is Op.REGISTERS:
            out.pools.add(self.p.groups[g].cta)
        elif e.bar >= 0:
            out.others.add(e.bar)
        return True

    def named_barrier_passes(self, s: State, e: Event, cta: int, frozen: int, out: Ahead) -> bool:
        """Whether nobody whom a named barrier waits for is frozen."""
        key = (cta, e.key)
        out.named.add(key)
        if e.op is Op.BAR_ARRIVE or not (e.n == 0 or key in self.p.eager_bars):
            return True
        waiting = s.named.get((0, cta, e.key, 0))
        already = waiting.arrived if waiting is not None else 0
        need = self.m.cta_groups[cta] if e.n == 0 else self.users(cta, e.key)
        return not any(frozen >> x & 1 and not already >> x & 1 and s.node[x] != END for x in need)

    def warp_barrier_passes(self, s: State, e: Event, group: Group, frozen: int) -> bool:
        """Whether no lanes that a warp's barrier waits for are frozen."""
        met = s.named.get((1, group.cta, group.warp, e.key))
        arrived = met.arrived if met is not None else 0
        return not any(
            frozen >> x & 1 and not arrived >> x & 1 and self.p.groups[x].lanes & e.key
            for x in self.p.warp_groups[group.cta, group.warp]
        )

    def cluster_barrier_passes(self, s: State, g: int, frozen: int) -> bool:
        """Whether nobody of the cluster is frozen who has not arrived."""
        c = self.p.groups[g].cta // self.p.cluster_size
        state = s.cluster.get(c, NO_CLUSTER)
        if state[1] >> g & 1:
            return True
        return not any(
            frozen >> x & 1 and not state[0] >> x & 1
            for x, y in enumerate(self.p.groups)
            if y.cta // self.p.cluster_size == c
        )

    def step(self, node: int) -> int:
        """The first event from here that others may notice."""
        first = self.first_seen.get(node)
        if first is None:
            first = node
            while first != END:
                e = self.p.events[first]
                if e.op >= Op.EXIT or (e.op is Op.ISSUE and e.asyncs) or e.remote:
                    break
                first = self.p.after[first][0]
            self.first_seen[node] = first
        return first

    def one_answer(self, s: State, g: int, node: int, held: int, out: Ahead, free: set[int]) -> bool:
        """Whether only one continuation of a poll is possible, which is then the first one."""
        no, yes = self.p.after[node]
        e = self.p.events[node]
        if no == yes:
            out.late.add(e.bar)
            return True
        return not self.wait_passes(s, g, node, held, out, free)

    def anything(self, g: int, node: int, out: Ahead) -> None:
        """From a poll on that may go either way: all barriers of the group's future count as touched."""
        mask = self.future(node)
        out.others.update(i for i in range(len(self.p.bars)) if mask >> i & 1)
        group = self.p.groups[g]
        out.named.update(k for k in self.p.bar_users if k[0] == group.cta)
        out.pools.add(group.cta)
        out.ended |= 1 << g

    def future(self, node: int) -> int:
        """Barriers touched from a node on."""
        known = self.later.get(node)
        if known is not None:
            return known
        seen, work, mask = {END}, [node], 0
        while work:
            x = work.pop()
            if x in seen:
                continue
            seen.add(x)
            e = self.p.events[x]
            if e.bar >= 0:
                mask |= 1 << e.bar
            for a in e.asyncs:
                mask |= 1 << self.p.asyncs[a].bar
            work.extend(self.p.after[x])
        self.later[node] = mask
        return mask

    def users(self, cta: int, key: int) -> list[int]:
        """Groups of a CTA that ever use a named barrier."""
        return self.p.bar_users.get((cta, key), [])

    def wait_passes(self, s: State, g: int, node: int, held: int, out: Ahead, free: set[int]) -> bool:
        e = self.p.events[node]
        bar = e.bar
        b = s.bars[bar]
        if not b.alive or bar in free:
            if not b.alive:
                out.others.add(bar)
            return True
        now = (
            b.phase % 2 != e.key
            if e.op in (Op.WAIT, Op.POLL)
            else b.phase > dict(s.tokens[g]).get(e.token, b.phase)
        )
        if now:
            out.late.add(bar)
            return True
        if bar == held:
            return False
        if out.arrivals.get(bar, 0) >= b.pending and (
            b.pending or bar in out.lands or bar in out.others or self.flying(s, bar)
        ):
            free.add(bar)
            return True
        if bar in out.others:
            free.add(bar)
            return True
        return False
