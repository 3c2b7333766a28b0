"""Every turn gets exactly its arrivals and bytes (rules R6 and R6t), every slot its init, every thread its
registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syncverify.checker.kernel.hops import CONTRIBUTIONS, MEETINGS, Graph, Half, Step
from syncverify.checker.kernel.linear import RejectedError, Term, equal
from syncverify.checker.kernel.proof import Along, Events, Follows, Grows, Payload
from syncverify.checker.kernel.protocol import N2, U2, J, Kind, Level, Tiles
from syncverify.checker.kernel.trees import Leaf, Tree, check, scoped

#: Most bytes that one phase may expect, and most arrivals (PTX ISA, mbarrier: contents of the object).
TX_LIMIT = 2**20 - 1


@dataclass(frozen=True, slots=True)
class Account:
    """What is claimed of turn j: who lands in it. ``open``: the turn stays open, so that not all need
    come.
    """

    graph: Graph
    ring: str
    landing: tuple[int, ...]
    open: bool = False
    init: bool = False

    def needs(self, payload: Payload, premises: list[Term], scope: frozenset[str]) -> Sequence[Term]:
        if not isinstance(payload, Events):
            raise RejectedError("the events of a turn are asked for")
        g, sites = self.graph, [i for i, _, _ in payload.events]
        if len(set(sites)) != len(sites) or not set(sites) <= set(self.landing):
            raise RejectedError("an event twice, or of another ring")
        if set(payload.only) != set(self.landing):
            raise RejectedError("not every site is accounted for")
        scoped(g.p, scope, *(t for _, u, n in payload.events for t in (u, n)))
        self.total(sites)
        events, names = {i: (u, n) for i, u, n in payload.events}, scope | {"u'", "n'"}
        for i in self.landing:
            given = [*g.exists(Step(i, Half.IN, U2, N2)), *equal(self.turn(i, U2, N2), J)]

            def one(
                p: Payload, _: list[Term], __: frozenset[str], mine: tuple[Term, Term] | None = events.get(i)
            ) -> Sequence[Term]:
                if mine is None or not isinstance(p, Follows):
                    raise RejectedError("one event more lands in the turn")
                return [*equal(U2, mine[0]), *equal(N2, mine[1])]

            check(g.p, [*premises, *given], payload.only[i], one, names)
        if self.open:
            return []
        return [
            need
            for i, u, n in payload.events
            for need in (*g.exists(Step(i, Half.IN, u, n)), *equal(self.turn(i, u, n), J))
        ]

    def turn(self, site: int, u: Term, n: Term) -> Term:
        if self.init:
            return self.graph.sites[site].op.index.put({"u": u, "n": n})
        return self.graph.turn(site, u, n)

    def total(self, sites: list[int]) -> None:
        """The sums over the events of a turn."""
        g = self.graph
        ring = g.p.rings[self.ring]
        if self.init:
            if len(sites) != 1:
                raise RejectedError(f"a slot of {self.ring} is not initialized once")
            return
        ops = [(len(g.threads(i)), g.sites[i].op) for i in sites]
        arrivals = sum(
            k * op.count for k, op in ops if op.kind in (Kind.ARRIVE, *MEETINGS) and not ring.named
        )
        announced = sum(k * op.bytes for k, op in ops if op.kind is not Kind.COPY)
        copied = sum(k * op.bytes for k, op in ops if op.kind is Kind.COPY)
        if max(announced, copied) > TX_LIMIT:
            raise RejectedError(f"a turn of {self.ring} announces more bytes than a barrier counts")
        if ring.named:
            self.meeting(sites)
        elif self.open and arrivals >= ring.count:
            raise RejectedError(f"a turn of {self.ring} behind its end completes")
        elif not self.open and (arrivals != ring.count or announced != copied):
            got = f"{arrivals} of {ring.count} arrivals, {copied} of {announced} bytes"
            raise RejectedError(f"a turn of {self.ring} gets {got}")

    def meeting(self, sites: list[int]) -> None:
        """Whole warps come to an execution barrier, each thread once, and as many as it waits for."""
        g, ring = self.graph, self.graph.p.rings[self.ring]
        roles = [g.sites[i].role for i in sites]
        if len(set(roles)) != len(roles):
            raise RejectedError(f"a thread comes twice to a generation of {self.ring}")
        come = {t for i in sites for t in g.threads(i)}
        every = {t for i in self.landing for t in g.threads(i)}
        warps = {t // g.p.warp for t in every}
        size = {w: sum(t // g.p.warp == w for t in come) for w in warps}
        if ring.level is Level.ALL:
            groups = [len(come)]
            if any(n not in (0, g.p.warp) for n in size.values()):
                raise RejectedError(f"a part of a warp comes to {self.ring}")
        else:
            groups = [size[w] for w in warps]
        for n in groups:
            if (n >= ring.count) if self.open else (n != ring.count):
                raise RejectedError(
                    f"{n} threads come to a generation of {self.ring}, which waits for {ring.count}"
                )


def landing(g: Graph, ring: str, what: str) -> tuple[int, ...]:
    """The sites that a tree of a ring's turns lists."""
    if what == "init":
        return tuple(g.of(ring, (Kind.INIT,)))
    return tuple(g.of(ring, MEETINGS if g.p.rings[ring].named else CONTRIBUTIONS))


def account(g: Graph, ring: str, end: Term, trees: dict[str, Tree], premises: list[Term]) -> None:
    """Accepts the trees of a ring's turns, or RejectedError."""
    if not 1 <= g.p.rings[ring].count <= TX_LIMIT:
        raise RejectedError(f"{ring}: a count that no barrier has")
    for what in account_kinds(g, ring):
        account_tree(g, (what, ring), end, trees[f"{what} {ring}"], premises)


def account_tree(g: Graph, key: tuple[str, str], end: Term, tree: Tree, premises: list[Term]) -> None:
    """Accepts one tree of a ring's turns, or RejectedError. ``key``: what turns, and the ring."""
    what, ring = key
    depth = g.p.rings[ring].depth
    tail, start = (J - end, end + depth - J - 1), (depth - J - 1,)
    given = [J, *{"full": (end - J - 1,), "open": tail, "init": start}[what]]
    owed = Account(g, ring, landing(g, ring, what), open=what == "open", init=what == "init")
    check(g.p, [*premises, *given], tree, owed.needs, g.p.parameters | {"j"})


def account_kinds(g: Graph, ring: str) -> tuple[str, ...]:
    """What trees are owed of a ring's turns: of those below the end, of those behind it, of inits."""
    return ("full", "open", *(("init",) if g.p.rings[ring].initialized else ()))


def account_keys(g: Graph) -> list[str]:
    """The names of the trees that ``account`` asks for."""
    return [f"{what} {x}" for x in g.p.rings for what in account_kinds(g, x)]


def changes(g: Graph) -> list[list[int]]:
    """The sites where each role changes its registers, in order."""
    sites = [i for i, s in enumerate(g.sites) if s.op.kind is Kind.REGISTERS]
    return [[i for i in sites if g.sites[i].role == r] for r in range(len(g.p.roles))]


def held(g: Graph) -> list[list[int]]:
    """For each role: the registers of a thread at launch, and after each of its changes."""
    each = 0 if g.p.registers is None else g.p.registers.each
    return [[each, *(g.sites[i].op.count for i in some)] for some in changes(g)]


def increases(g: Graph) -> list[int]:
    """The sites that ask for more registers than their threads have."""
    roles = (zip(some, had, strict=False) for some, had in zip(changes(g), held(g), strict=True))
    return [i for role in roles for i, old in role if g.sites[i].op.count > old]


def registers(g: Graph, trees: dict[str, Tree]) -> None:
    """O8: who asks for registers gets them, whatever changes come before that need not come after.

    The proof says which changes a request waits for (by rank), and which come after it (by a path). In
    between, each role has some of the numbers that it has from the last of those to the first of these.
    """
    every, pool = changes(g), g.p.registers
    if not any(every):
        return
    if pool is None:
        raise RejectedError("registers are moved, but how many there are is not known")
    sites = [g.sites[i] for some in every for i in some]
    if any(s.op.guard or s.position.tiles or s.position.loops for s in sites):
        raise RejectedError("registers change in a loop, or under a condition")
    totals, had = [pool.each * sum(len(r.threads) for r in g.p.roles)], held(g)
    for k in increases(g):
        totals.append(0)
        for role, some in enumerate(every):
            found = [trees.get(f"registers {i} {k}") for i in some]
            how = [t.payload if isinstance(t, Leaf) else None for t in found]
            low = max((n + 1 for n, x in enumerate(how) if isinstance(x, Grows)), default=0)
            high = min((n for n, x in enumerate(how) if isinstance(x, Along)), default=len(some))
            if g.groups[role] & g.groups[g.sites[k].role]:  # a warpgroup asks as one
                high = max(high, every[g.sites[k].role].index(k) + 1)
            totals[-1] += len(g.p.roles[role].threads) * max(had[role][low : high + 1])
    if max(totals) > pool.pool:
        raise RejectedError(f"{max(totals)} registers may be asked for, and the block has {pool.pool}")


def shared_barriers(g: Graph) -> None:
    """Where several rings stand for the meetings of one hardware barrier, all who come do so in one order.

    Then the i-th meeting of each is the same one, and the rings may be judged apart. A barrier of each warp
    is looked at warp by warp.
    """
    barriers: dict[str, list[str]] = {}
    of_warp: dict[int, set[int]] = {}
    for role, warps in enumerate(g.warps):
        for w in warps:
            of_warp.setdefault(w, set()).add(role)
    for name, ring in g.p.rings.items():
        if ring.barrier:
            barriers.setdefault(ring.barrier, []).append(name)
    # one ring of all threads counts all meetings, which O1 orders
    barriers = {b: x for b, x in barriers.items() if len(x) > 1 or g.p.rings[x[0]].level is not Level.ALL}
    for barrier, rings in barriers.items():
        kinds = {(g.p.rings[x].level, g.p.rings[x].count, g.p.rings[x].named) for x in rings}
        if len(kinds) > 1:
            raise RejectedError(f"{barrier} is met in different ways")
        orders = {role: _order(g, rings, role) for role in range(len(g.p.roles))}
        together = [set(orders)]
        if next(iter(kinds))[0] is not Level.ALL:
            together = list(of_warp.values())
        for roles in together:
            if len({orders[role] for role in roles if orders[role]}) > 1:
                raise RejectedError(f"{barrier} is met by different roles, or in different orders")


def _order(g: Graph, rings: list[str], role: int) -> tuple[object, ...]:
    """The sites of a role at some rings: their order, loops and conditions."""
    sites = [g.sites[i] for i in sorted(i for x in rings for i in g.on.get(x, ())) if g.sites[i].role == role]
    # straight code is distinguished by its order alone
    moving = [s for s in sites if s.position.tiles or s.position.loops]
    segments = sorted({s.position.segment for s in moving})
    inner = {x: sorted({s.position.inner for s in sites if s.position.segment == x}) for x in segments}
    found: list[object] = []
    for s in sites:
        at = s.position
        if s.op.kind is not Kind.SYNC:
            found.append("joins")
        place: tuple[object, ...] = ()
        if s in moving:
            place = (segments.index(at.segment), at.tiles, inner[at.segment].index(at.inner), at.loops)
        tiles = g.p.roles[role].body[at.segment // 2]
        round_robin = (tiles.first, tiles.stride, tiles.count) if isinstance(tiles, Tiles) else None
        found.append((s.op.ring, s.op.index, place, round_robin if at.tiles else None, s.domain))
    return tuple(found)
