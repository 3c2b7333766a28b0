"""Named, warp and cluster barriers, the register pool, and words of global memory that blocks spin on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from syncverify.simulate.ir.mbarriers import Mbarriers
from syncverify.simulate.ir.program import LANES, NO_MEMORY, Event, Op
from syncverify.simulate.ir.state import END, NO_CLUSTER, Named, State

LEVELS = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 2}
SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, ">": lambda a, b: a > b,
    "!=": lambda a, b: a != b, "<=": lambda a, b: a <= b, "<": lambda a, b: a < b,
}  # fmt: skip
UPDATE: dict[str, Callable[[int, int], int]] = {
    "st": lambda old, v: v, "exch": lambda old, v: v, "add": lambda old, v: old + v,
    "min": min, "max": max, "and": lambda old, v: old & v, "or": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v, "inc": lambda old, v: 0 if old >= v else old + 1,
    "dec": lambda old, v: v if old == 0 or old > v else old - 1,
}  # fmt: skip


class Meetings(Mbarriers):
    """Where groups meet."""

    def is_waiting(self, s: State, g: int, key: tuple[int, int, int, int]) -> bool:
        n = s.named.get(key)
        return n is not None and bool(n.waiting >> g & 1)

    def named_barrier(self, s: State, g: int, e: Event, work: list[int]) -> bool:
        cta = self.p.groups[g].cta
        key = (0, cta, e.key, 0)
        n = s.named.get(key)
        red = "red" in e.flags
        if n is None:
            n = Named(e.n, red)
        elif n.threads != e.n or n.red != red:
            self.harm(
                "ub",
                "SV301",
                f"{e.text}: participants disagree: {n.threads or 'all'} and {e.n or 'all'} threads",
                e,
                g,
                True,
            )
            return True
        elif n.arrived >> g & 1 and e.op is Op.BAR_SYNC and not self.p.strict and self.whole(s, g, n):
            # Hardware counts both (measured); strictly, a warp takes part once in a phase (PTX ISA, bar).
            arrived = n.arrived
            for x in self.p.warp_groups[cta, self.p.groups[g].warp]:
                arrived &= ~(1 << x)
            s.named[key] = replace(n, arrived=arrived, again=n.again + 1)
        elif n.arrived >> g & 1:
            self.harm(
                "ub", "SV301", f"{e.text}: a warp arrives twice before the barrier completes", e, g, True
            )
            return True
        return self.meet(s, g, key, n, work, e.op is Op.BAR_SYNC)

    def whole(self, s: State, g: int, n: Named) -> bool:
        """Whether all live lanes of a group's warp have arrived at a barrier and none waits there."""
        who = self.p.groups[g]
        team = self.p.warp_groups[who.cta, who.warp]
        return all((n.arrived >> x & 1 or s.node[x] == END) and not n.waiting >> x & 1 for x in team)

    def meet(
        self, s: State, g: int, key: tuple[int, int, int, int], fresh: Named, work: list[int], blocks: bool
    ) -> bool:
        """Arrives at a barrier of this CTA; False if the group blocks there."""
        n = s.named.get(key, fresh)
        published = (0, 0) if key[3] & NO_MEMORY else (s.H[g] | s.O[g], s.A[g] | s.AO[g])
        mine = (g, *published, s.node[g])
        waiting = n.waiting | (1 << g if blocks else 0)
        brought = tuple(sorted((*n.brought, mine)))
        s.named[key] = replace(n, arrived=n.arrived | 1 << g, waiting=waiting, brought=brought)
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
        there = self.warp_there(s, key, n) if key[0] == 1 else self.warps_there(s, key, n)
        if there is None:
            return
        h = a = 0
        this = s.rounds.get(key, 0)
        for g, x, y, node in n.brought:
            if there >> g & 1:
                h, a = h | x, a | y
                if key[0] == 0:
                    self.landed((node, -1), this)
        if key[0] == 0 and (key[1], key[2]) not in p.eager_bars:
            s.rounds[key] = this + 1
        del s.named[key]
        if n.arrived & ~there:  # lanes whose warp is not complete count for the next round
            rest = tuple(x for x in n.brought if not there >> x[0] & 1)
            s.named[key] = Named(n.threads, n.red, n.arrived & ~there, n.waiting & ~there, rest)
        for g in range(len(s.node)):
            if n.waiting & there & 1 << g:
                self.join(s, g, h, a)
                self.next(s, g)
                work.append(g)

    def warp_there(self, s: State, key: tuple[int, int, int, int], n: Named) -> int | None:
        """Groups that a warp's barrier lets go; None while it waits.

        All named lanes must execute it, those that left too (PTX ISA, bar.warp.sync): but hardware does not
        wait for these (measured).
        """
        p = self.p
        lanes = [g for g in p.warp_groups[key[1], key[2]] if p.groups[g].lanes & key[3]]
        free = not p.strict and not key[3] & NO_MEMORY
        come = all(n.arrived >> g & 1 or (free and s.node[g] == END) for g in lanes)
        return n.arrived if come else None

    def warps_there(self, s: State, key: tuple[int, int, int, int], n: Named) -> int | None:
        """Groups of complete warps that a named barrier lets go; None while it waits for more warps."""
        p = self.p
        warps = {p.groups[g].warp for g in self.cta_groups[key[1]] if n.arrived >> g & 1}
        full = n.again
        there = 0
        for w in warps:
            if all(n.arrived >> g & 1 or s.node[g] == END for g in p.warp_groups[key[1], w]):
                full += 1
                there |= sum(1 << g for g in p.warp_groups[key[1], w] if n.arrived >> g & 1)
        gone = [w for w in range(p.warps) if all(s.node[g] == END for g in p.warp_groups[key[1], w])]
        # without a count, warps that have left are not waited for (Programming Guide; measured)
        needed = -(-n.threads // LANES) if n.threads else p.warps - len({*gone} - warps)
        return there if full >= needed else None

    def cluster_arrive(self, s: State, g: int, e: Event, work: list[int]) -> None:
        c = self.p.groups[g].cta // self.p.cluster_size
        arrived, free, h, a, ch, ca, near = s.cluster.get(c, NO_CLUSTER)
        if (arrived | free) >> g & 1:
            self.harm("ub", "SV302", f"{e.text}: a second arrive without a wait between", e, g, True)
            return
        rh, ra = s.released[g][1] if "relaxed" in e.flags else (s.H[g] | s.O[g], s.A[g] | s.AO[g])
        rh |= s.H[g] & self.all_marks
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

    def registers(self, s: State, g: int, e: Event, work: list[int]) -> None:
        """The first warp's request is the warpgroup's; the others follow (PTX ISA, setmaxnreg)."""
        p = self.p
        group = p.groups[g]
        wg = (group.cta, group.warp // 4)
        current, done = s.wgs.get(wg, (p.registers, 0))
        if e.own & ~(s.H[g] | s.O[g]):
            self.harm(
                "ub", "SV304", f"{e.text}: no barrier of the warpgroup since the setmaxnreg before it", e, g
            )
        if e.count > done and not p.pool_is_void:
            if (e.n < current) if e.key else (e.n > current):
                self.harm("ub", "SV304", f"{e.text}: the warpgroup has {current} registers", e, g, True)
                return
            s.pool[group.cta] += (current - e.n) * 128
            s.wgs[wg] = (e.n, e.count)
            if not e.key:
                work.extend(x for x in self.cta_groups[group.cta] if x != g and s.node[x] != END)
        if self.single[g]:
            s.H[g] |= e.mask
        else:
            s.O[g] |= e.mask
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
                if k != self.p.distance(writer, cta):
                    continue
                if mine >= k and e.flags & {"acquire", "acq_rel", "sc"}:
                    self.join(s, g, h, a)
                else:
                    self.held(s, g, k, h, a)
        self.wrote(g, s.node[g])
