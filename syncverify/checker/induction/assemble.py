"""From what the agents of a system do to its protocol. Every event becomes an operation, or a refusal.

TRUSTED.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.checker.induction.alone import Alone, waits_for_grid
from syncverify.checker.induction.flags import Flags, collected
from syncverify.checker.induction.read import LoopText, Piece, Residue, StraightText, Text, TilesText, Trip
from syncverify.checker.induction.slots import (
    FIXED,
    STEPS,
    TILES,
    Access,
    Bytes,
    Moves,
    Region,
    laid_out,
    moves,
    offset,
)
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel import protocol as k
from syncverify.checker.kernel.linear import ZERO, Term, apply, equal, num, var
from syncverify.model.automata.register_pool import legal
from syncverify.model.events import (
    GLOBAL_MEMORY,
    NEVER,
    NO_ARRIVAL_NEEDED,
    Ev,
    Event,
    Flag,
    SystemInfo,
    ThreadClass,
)
from syncverify.model.proxies import Access as Kind
from syncverify.model.proxies import Space

_MBARRIER = {
    Ev.INIT: k.Kind.INIT, Ev.INVAL: k.Kind.INVAL, Ev.ARRIVE: k.Kind.ARRIVE, Ev.EXPECT_TX: k.Kind.EXPECT,
    Ev.WAIT: k.Kind.WAIT,
}  # fmt: skip
#: Which argument is the place in global memory; -1: nobody else looks at it.
_TO_GLOBAL = {Ev.BULK_LOAD: 3, Ev.BULK_STORE: 3, Ev.CP_ASYNC: 3}
_STRANGE = Flag.DROP | Flag.NO_COMPLETE | Flag.TOKEN
_WHOLE = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a piece stands: what counts there, and its key among all agents."""

    where: str  # "straight", "loop", "tile"
    steps: Term
    tile: Term
    low: Term  # of the loop
    tiled: bool
    key: tuple[Any, ...]


@dataclass(slots=True)
class Made:
    """One operation in the making. ``ring``: what barrier it names, by residue."""

    op: k.Op
    spot: Spot
    cls: int
    piece: Piece
    ring: Mapping[Residue, int] | None = None
    parities: Mapping[Residue, int] | None = None
    accesses: list[tuple[Kind, Access]] = field(default_factory=list)
    remote: bool = False  # at another block's barrier
    wide: bool = False  # of cluster scope


@dataclass(slots=True)
class Part:
    """What one class does, with operations in the place of pieces."""

    cls: ThreadClass
    text: Text
    moduli: tuple[int, int]
    made: dict[int, list[Made]] = field(default_factory=dict)  # by id of the region


@dataclass(slots=True)
class Assembly:
    info: SystemInfo
    parameters: frozenset[str]
    facts: tuple[Term, ...]
    parts: list[Part]
    policy: Policy = Policy.PRACTICAL
    rings: dict[str, k.Ring] = field(default_factory=dict)
    orders: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    whole: dict[tuple[int, int], int] = field(default_factory=dict)  # lanes of a warp
    depths: dict[str, int] = field(default_factory=dict)  # names of numbers of slots
    flags: Flags = field(init=False)

    def protocol(self) -> k.Protocol:
        if self.info.flag_chain or self.info.modular_cluster is not None:
            raise NotReadError("blocks of a grid that hand on to the next")
        self.flags = collected(self.info, self.met())
        for c in (p.cls for p in self.parts):
            self.whole[c.cta, c.warp] = self.whole.get((c.cta, c.warp), 0) | c.lanes
        self.alone()
        warpgroups(self.info, self.parts)
        for number, part in enumerate(self.parts):
            self.operations(number, part)
            if self.info.ctas > 1 and not _leaves_together(part):
                raise NotReadError("a block of a cluster may leave while others still reach its memory")
        self.flags.in_order()
        every = [m for p in self.parts for some in p.made.values() for m in some]
        self.barriers(every)
        accesses = [a for m in every for _, a in m.accesses]
        moduli = [self.parts[m.cls].moduli for m in every for _ in m.accesses]
        self.no_barriers(accesses)
        regions = laid_out(accesses, dict(enumerate(moduli)))
        for m in every:
            self.place(m)
        buffers = {r.name: self.depth(r.depth) for r in regions}
        roles = self.merged([(p.cls, self.body(p)) for p in self.parts])
        facts = (*self.facts, *(c for x, d in self.depths.items() for c in equal(var(x), num(d))))
        functions = sorted({t.function for p in self.parts for t in p.text if isinstance(t, TilesText)})
        return k.Protocol(
            roles, self.rings, buffers, self.parameters | set(self.depths), facts,
            tuple(functions), schemas=self.schemas(), registers=self.pool(),
        )  # fmt: skip

    @property
    def blocks(self) -> int:
        return self.info.ctas * self.info.clusters

    def met(self) -> Iterator[tuple[ThreadClass, Event, Any, str]]:
        """Every event, with its class, guards and what it stands in."""
        for part in self.parts:
            for region, spot in spots(part.text):
                for p in region.pieces:
                    yield from ((part.cls, e, p.guards, spot.where) for e in dict.fromkeys(p.events.values()))

    def alone(self) -> None:
        """What each thread owes by itself."""
        texts = [p.text for p in self.parts]
        walk = Alone(self.policy, self.info.has_to_wait or waits_for_grid(texts))
        for text in texts:
            walk.text(text)

    def depth(self, slots: int) -> Term:
        """A number of slots has a name, so that proofs need not count them."""
        if slots == 1:
            return num(1)
        name = f"slots_{slots}"
        self.depths[name] = slots
        return var(name)

    def ahead(self, c: int, slots: int, back: bool = False) -> Term:
        """An offset of slots: from where the counter is, or up to the next lap."""
        return num(c) if 2 * c <= slots else num(c - slots) + (ZERO if back else self.depth(slots))

    def schemas(self) -> tuple[Term, ...]:
        out: dict[Term, None] = {}
        x = k.X
        by: dict[str, list[TilesText]] = {}
        for p in self.parts:
            for t in p.text:
                if isinstance(t, TilesText):
                    by.setdefault(t.function, []).append(t)
        for f, some in by.items():
            if len({t.trips for t in some}) != 1:
                raise NotReadError("agents whose tiles have different numbers of steps")
            if all(t.full for t in some):
                out[apply(f, x + 1) - apply(f, x) - 1] = None
            (one, *more) = some[0].trips
            if not more and not one.guards and not one.steps.names() & {"u"} and all(t.full for t in some):
                step = apply(f, x + 1) - apply(f, x) - one.steps
                out |= {step: None, -step: None}
        return tuple(out)

    def pool(self) -> k.Registers | None:
        if self.info.registers is None:
            return None
        if len({self.asked_by(cta) for cta in range(self.blocks)}) > 1:
            raise NotReadError("blocks that move different numbers of registers")
        return k.Registers(self.info.registers, self.info.registers * self.info.threads * self.blocks)

    def asked_by(self, cta: int) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """What the threads of a block do to their numbers of registers: of all blocks the same."""
        return tuple(
            (
                p.cls.warp,
                p.cls.lanes,
                tuple(m.op.count for some in p.made.values() for m in some if m.op.kind is k.Kind.REGISTERS),
            )
            for p in self.parts
            if p.cls.cta == cta
        )

    # ---------------------------------------------------------------- operations

    def operations(self, number: int, part: Part) -> None:
        times: dict[tuple[str, int], int] = {}
        for region, spot in spots(part.text):
            made: list[Made] = []
            for p in _met(region.pieces):
                kth = times[spot.where, p.site] = times.get((spot.where, p.site), 0) + 1
                here = replace(spot, key=(spot.where, p.site, kth))
                made += self.made(number, part, p, here)
            part.made[id(region)] = _with_uses(made)

    def made(self, number: int, part: Part, p: Piece, spot: Spot) -> Iterator[Made]:
        """The operations of one piece."""
        first = next(iter(p.events.values()))
        ev, info, c = first[0], self.info, part.cls
        events = p.events

        def same(i: int) -> Any:
            found = {e[i] for e in events.values()}
            if len(found) != 1:
                raise NotReadError(f"{Ev(ev).name} whose operands change from turn to turn")
            return found.pop()

        span = info.sites[p.site].span
        blank = k.Op(k.Kind.NOTHING, guard=p.guards, span=span)
        mine = Made(blank, spot, number, p)
        if ev in _TO_GLOBAL and same(_TO_GLOBAL[ev]) >= 0:
            raise NotReadError("a place in global memory")
        if ev in _MBARRIER:
            mine.ring = {r: e[2] for r, e in events.items()}
            op = replace(blank, kind=_MBARRIER[ev])
            if ev == Ev.INIT:
                op = replace(op, count=same(3))
            if ev == Ev.ARRIVE:
                flags = same(5)
                if flags & _STRANGE:
                    raise NotReadError("an arrival that keeps its token, drops or does not complete")
                mine.remote = any(info.barriers[b].cta != c.cta for b in mine.ring.values())
                mine.wide = bool(flags & Flag.CLUSTER)
                op = replace(op, count=same(3), bytes=max(same(4), 0), synchronizes=not flags & Flag.RELAXED)
            if ev == Ev.EXPECT_TX:
                op = replace(op, bytes=same(3))
            if ev == Ev.WAIT:
                mine.parities = {r: e[3] for r, e in events.items()}
                mine.wide = bool(same(4) & Flag.CLUSTER)
                op = replace(op, synchronizes=not same(4) & Flag.RELAXED)
            mine.op = op
            yield mine
        elif ev == Ev.BULK_LOAD:
            for i in range(len(first[2])):
                copy = Made(replace(blank, kind=k.Kind.COPY), spot, number, p)
                targets = {r: e[2][i] for r, e in events.items()}
                copy.ring = {r: t[1] for r, t in targets.items()}
                sizes = {t[2] for t in targets.values()}
                if len(sizes) != 1 or len({len(e[2]) for e in events.values()}) != 1:
                    raise NotReadError("copies of different sizes from turn to turn")
                copy.op = replace(copy.op, bytes=sizes.pop())
                # the bytes are where the barrier is, which somebody there has initialized
                (block, *more) = {info.barriers[t[1]].cta for t in targets.values()}
                if more:
                    raise NotReadError("copies to different blocks from turn to turn")
                written = self.access(c, {r: t[0] for r, t in targets.items()}, block)
                copy.accesses = [(Kind.ASYNC_WRITE, written)]
                yield copy
        elif ev == Ev.BULK_STORE:
            mine.op = replace(blank, kind=k.Kind.ASYNC, group=k.Group.BULK)
            mine.accesses = [(Kind.ASYNC_READ, self.access(c, {r: e[2] for r, e in events.items()}))]
            yield mine
        elif ev in (Ev.BULK_COMMIT, Ev.CP_COMMIT):
            group = k.Group.BULK if ev == Ev.BULK_COMMIT else k.Group.CP_ASYNC
            mine.op = replace(blank, kind=k.Kind.COMMIT, group=group)
            yield mine
        elif ev in (Ev.BULK_WAIT, Ev.CP_WAIT):
            group = k.Group.BULK if ev == Ev.BULK_WAIT else k.Group.CP_ASYNC
            if same(2) < 0:
                raise NotReadError("cp.async.wait_all")
            mine.op = replace(blank, kind=k.Kind.DRAIN, group=group, count=same(2))
            yield mine
        elif ev == Ev.CP_ASYNC:
            mine.op = replace(blank, kind=k.Kind.ASYNC, group=k.Group.CP_ASYNC)
            mine.accesses = [(Kind.CPASYNC_WRITE, self.access(c, {r: e[2] for r, e in events.items()}))]
            yield mine
        elif ev in (Ev.WGMMA_FENCE, Ev.WGMMA, Ev.WGMMA_COMMIT, Ev.WGMMA_WAIT):
            if self.whole[c.cta, c.warp] != c.lanes:
                yield self.warp(number, p, spot, blank, "wgmma", False)
            if ev == Ev.WGMMA_FENCE:
                return
            kind = {Ev.WGMMA: k.Kind.ASYNC, Ev.WGMMA_COMMIT: k.Kind.COMMIT, Ev.WGMMA_WAIT: k.Kind.DRAIN}[
                Ev(ev)
            ]
            mine.op = replace(blank, kind=kind, group=k.Group.WGMMA)
            if ev == Ev.WGMMA_WAIT:
                mine.op = replace(mine.op, count=same(2))
            if ev == Ev.WGMMA:
                mine.op = replace(mine.op, label=f"wgmma {spot.key}")
                # strictly, a warp reads the rows of A of the other warps too (K8)
                for i in (2, 3) if self.policy is Policy.PRACTICAL else (2, 3, 4):
                    if any((e[i] < 0) != (first[i] < 0) for e in events.values()):
                        raise NotReadError("a wgmma whose operands change their kind")
                    if first[i] >= 0:
                        mine.accesses.append(
                            (Kind.MMA_READ, self.access(c, {r: e[i] for r, e in events.items()}))
                        )
            yield mine
        elif ev == Ev.READ:
            mine.op = replace(blank, kind=k.Kind.ACCESS, label="")
            mine.accesses = [(Kind.GENERIC_READ, self.access(c, {r: e[2] for r, e in events.items()}))]
            yield mine
            if {e[3] for e in events.values()} == {NO_ARRIVAL_NEEDED}:
                use = Made(replace(blank, kind=k.Kind.USE), spot, number, p)
                mine.op = replace(mine.op, label=f"read {spot.key}")
                use.op = replace(use.op, label=mine.op.label)
                yield use
        elif ev == Ev.USE:
            mine.op = replace(blank, kind=k.Kind.USE)
            yield mine
        elif ev == Ev.WRITE:
            mine.op = replace(blank, kind=k.Kind.ACCESS)
            mine.accesses = [(Kind.GENERIC_WRITE, self.access(c, {r: e[2] for r, e in events.items()}))]
            yield mine
        elif ev == Ev.PROXY_FENCE:
            if same(2) & Space.SHARED_CTA and not same(3):
                short = info.ctas > 1 and not same(2) & Space.SHARED_CLUSTER
                mine.op = replace(blank, kind=k.Kind.FENCE, narrow=short)
                yield mine
        elif ev == Ev.BARRIER_SYNC or ev == Ev.BARRIER_ARRIVE:
            ids, flags = same(2), same(4)
            count = same(3) or -(-info.threads // 32) * 32
            if not 0 <= ids <= 15 or count % 32 or flags & (Flag.RED | Flag.RELAXED):
                raise NotReadError(f"barrier {ids} of {count} threads")
            name = f"barrier {ids} of block {c.cta} at {_shown(spot)}"
            ring = k.Ring(num(1), count, named=True, barrier=f"barrier {ids} of block {c.cta}")
            if self.rings.setdefault(name, ring) != ring:
                raise NotReadError(f"{name} is met in different ways")
            kind = k.Kind.SYNC if ev == Ev.BARRIER_SYNC else k.Kind.JOIN
            mine.op = replace(blank, kind=kind, ring=name, index=_turn(spot), count=count)
            yield mine
        elif ev == Ev.CLUSTER_ARRIVE:
            own = c.cta // info.ctas
            name = f"cluster at {_shown(spot)}" + (f" of cluster {own}" if info.clusters > 1 else "")
            count = sum(x.bit_count() for (cta, _), x in self.whole.items() if cta // info.ctas == own)
            self.rings[name] = k.Ring(num(1), count, named=True, barrier=f"cluster {own}")
            relaxed = bool(same(2) & Flag.RELAXED)
            mine.op = replace(
                blank, kind=k.Kind.SYNC, ring=name, index=_turn(spot), count=count, synchronizes=not relaxed
            )
            yield mine
        elif ev == Ev.INIT_FENCE:
            if info.ctas > 1:  # in one block it orders nothing that barriers do not
                yield replace(mine, op=replace(blank, kind=k.Kind.INIT_FENCE))
        elif ev == Ev.WARP_SYNC:
            if same(2) & _WHOLE != self.whole[c.cta, c.warp]:
                raise NotReadError("a part of a warp meets")
            yield self.warp(number, p, spot, blank, "warp", True)
        elif ev in (Ev.ELECT, Ev.COLLECTIVE):
            if c.lanes & ~same(2):
                raise NotReadError("a lane outside the mask of a collective instruction")
            if same(2) & _WHOLE & ~c.lanes:
                if same(2) & _WHOLE != self.whole[c.cta, c.warp]:
                    raise NotReadError("a collective instruction of a part of a warp")
                yield self.warp(number, p, spot, blank, "collective", False)
        elif ev in (Ev.SPIN, Ev.GLOBAL_ATOMIC, Ev.GLOBAL_WRITE, Ev.GLOBAL_READ):
            if len(set(events.values())) != 1 or first[2] < 0:
                raise NotReadError(
                    "an access that synchronizes at a place of global memory that is not known"
                )
            mine.op = self.handed_on(c, first, spot, blank)
            if mine.op.kind is k.Kind.ACCESS:
                does = Kind.GENERIC_READ if ev == Ev.GLOBAL_READ else Kind.GENERIC_WRITE
                mine.accesses = [(does, self.access(c, {r: e[2] for r, e in events.items()}, GLOBAL_MEMORY))]
            if mine.op.kind is not k.Kind.NOTHING:
                yield mine
        elif ev == Ev.SETMAXNREG:
            if not legal_request(info.registers or 0, same(3), same(2)):
                raise NotReadError(f"setmaxnreg {same(3)} by a warpgroup that holds {info.registers}")
            mine.op = replace(blank, kind=k.Kind.REGISTERS, count=same(3))
            yield mine
        else:
            raise NotReadError(f"{Ev(ev).name} is no operation of a protocol")

    def handed_on(self, c: ThreadClass, e: Event, spot: Spot, blank: k.Op) -> k.Op:
        """What an access to global memory that other blocks reach is to a protocol."""
        flags = self.flags
        if e[0] == Ev.GLOBAL_ATOMIC:
            word, count, releases = flags.adds(c, e, spot.where)
            return replace(
                blank, kind=k.Kind.ARRIVE, ring=self.flag(word), count=count, synchronizes=releases
            )
        if e[0] == Ev.SPIN:
            word = flags.passes(c, e)
            return replace(
                blank, kind=k.Kind.WAIT, ring=self.flag(word), synchronizes=bool(e[3] & Flag.ACQUIRE)
            )
        if flags.word(e[2]) is None:
            return replace(blank, kind=k.Kind.ACCESS)
        if e[0] != Ev.GLOBAL_WRITE:
            raise NotReadError("a word that blocks wait for is read")
        flags.ends(c, e, blank.guard)
        return blank

    def flag(self, word: tuple[int, int]) -> str:
        """The ring of a word of global memory."""
        name = f"word {word[0]} of global memory"
        self.rings[name] = k.Ring(num(1), self.flags.counts[word])
        return name

    def warp(self, number: int, p: Piece, spot: Spot, blank: k.Op, barrier: str, visible: bool) -> Made:
        """All lanes of a warp come together."""
        name = f"{barrier} at {_shown(spot)}"
        size = self.whole[self.parts[number].cls.cta, self.parts[number].cls.warp].bit_count()
        if size != 32:
            raise NotReadError("a warp with fewer than 32 threads")
        self.rings[name] = k.Ring(
            num(1), 32, named=True, level=k.Level.WARP, visible=visible, barrier=barrier
        )
        op = replace(blank, kind=k.Kind.SYNC, ring=name, index=_turn(spot), count=32)
        return Made(op, spot, number, p)

    def first_thread(self, c: ThreadClass) -> int:
        """The number of a warp's first lane: blocks begin at whole warpgroups."""
        return c.cta * -(-self.info.threads // 128) * 128 + 32 * c.warp

    def access(self, c: ThreadClass, fps: Mapping[Residue, int], block: int | None = None) -> Access:
        """The bytes of an access, of each thread. ``block``: whose they are, its own unless said."""
        by: dict[Residue, Bytes] = {}
        memory: set[int] = set()
        base = self.first_thread(c)
        known: dict[int, Bytes] = {}
        for r, fp in fps.items():
            if fp not in known:
                f = self.info.footprints[fp]
                memory.add(f.memory)
                if f.overlap:
                    raise NotReadError("lanes of one store write one byte")
                if f.lanes:
                    pieces = tuple((lo, hi, base + lane) for lo, hi, lane in f.lanes)
                else:
                    lanes = [x for x in range(32) if c.lanes >> x & 1]
                    pieces = tuple((lo, hi, base + x) for lo, hi in f.intervals for x in lanes)
                if not pieces:
                    raise NotReadError("an access of no bytes")
                known[fp] = Bytes(tuple(sorted(pieces)))
            by[r] = known[fp]
        if memory != {c.cta if block is None else block}:
            raise NotReadError("an access to the memory of another block")
        return Access(memory.pop(), by)

    # ---------------------------------------------------------------- rings

    def barriers(self, every: Sequence[Made]) -> None:
        """Which barriers are rings; the index of each operation on one."""
        found: list[tuple[Made, Moves]] = []
        for m in every:
            if m.ring is not None:
                found.append((m, moves(m.ring, *self.parts[m.cls].moduli)))
        sets: dict[frozenset[Hashable], tuple[int, ...]] = {}
        for _, x in found:
            if x.by != FIXED:
                key = frozenset(x.cycle)
                first = min(x.cycle)  # type: ignore[type-var]
                at = x.cycle.index(first)
                sets.setdefault(key, (*x.cycle[at:], *x.cycle[:at]))  # type: ignore[arg-type]
        taken: dict[int, tuple[int, ...]] = {}
        for order in sets.values():
            for b in order:
                if b in taken:
                    raise NotReadError("rings that share some of their barriers")
                taken[b] = order
        for _, x in found:
            if x.by == FIXED:
                (one,) = x.cycle
                assert isinstance(one, int)
                taken.setdefault(one, (one,))
        counts: dict[tuple[int, ...], set[int]] = {order: set() for order in taken.values()}
        for m, x in found:
            if m.op.kind is k.Kind.INIT:
                counts[taken[x.cycle[0]]].add(m.op.count)  # type: ignore[index]
        names: dict[tuple[int, ...], str] = {}
        for order, some in counts.items():
            if len(some) != 1:
                raise NotReadError(f"{self.info.barriers[order[0]].name} is not initialized with one number")
            name = (
                self.info.barriers[order[0]].name.removesuffix("[0]")
                if len(order) > 1
                else self.info.barriers[order[0]].name
            )
            if self.blocks > 1:
                name += f" of block {self.info.barriers[order[0]].cta}"
            while name in self.rings:
                name += "+"
            names[order] = name
            self.rings[name] = k.Ring(self.depth(len(order)), some.pop(), initialized=True)
        for m, x in found:
            order = taken[x.cycle[0]]  # type: ignore[index]
            m.op = replace(m.op, ring=names[order], index=self.index(m, x, order))
            if m.parities is not None:
                m.op = self.waited(m, len(order))

        for m, _ in found:
            near = m.op.ring and any(w.parities and not w.wide and w.op.ring == m.op.ring for w, _ in found)
            if m.remote and (near or not m.wide):
                m.op = replace(m.op, narrow=True)

    def index(self, m: Made, x: Moves, order: tuple[int, ...]) -> Term:
        spot, depth = m.spot, len(order)
        if x.by == FIXED:
            if depth > 1 or spot.where == "straight":
                return num(order.index(x.cycle[0]))
            if m.parities is not None and len(set(m.parities.values())) == 1:
                return ZERO
            return _turn(spot)
        c = offset(order, x.cycle)
        late = m.op.kind is k.Kind.ARRIVE and not m.op.bytes
        return (spot.steps if x.by == STEPS else spot.tile) + self.ahead(c, depth, late)

    def waited(self, m: Made, depth: int) -> k.Op:
        """A wait with its parity against that of its turn."""
        assert m.parities is not None and m.ring is not None
        op, spot = m.op, m.spot
        steps, tiles = self.parts[m.cls].moduli
        found: set[int] = set()
        for r, parity in m.parities.items():
            at = op.index.put({x: num(d) for x, d in self.depths.items()})
            for counter, which, modulus in ((spot.steps, 0, steps), (spot.tile, 1, tiles)):
                rest = at - counter
                if counter.parts and not rest.parts:
                    if modulus % (2 * depth):
                        raise NotReadError("a parity that does not change from lap to lap")
                    found.add((parity - (r[which] + rest.const) // depth) % 2)
                    break
            else:
                rest = at - (spot.steps - spot.low)
                if at.parts and spot.where == "loop" and not rest.parts and spot.low != ZERO:
                    raise NotReadError("a barrier of one slot in a second loop")
                if at.parts:
                    raise NotReadError("a wait of no known turn")
                found.add((parity - at.const // depth) % 2)
        if len(found) != 1:
            raise NotReadError("the parity of a wait does not follow its turns")
        return replace(op, parity=found.pop())

    # ---------------------------------------------------------------- places

    def no_barriers(self, accesses: Sequence[Access]) -> None:
        """No access touches the bytes of an mbarrier."""
        for a in accesses:
            for b in self.info.barriers:
                if b.cta == a.memory and any(lo < b.offset + 8 and b.offset < hi for lo, hi in a.coverage()):
                    raise NotReadError(f"an access to the bytes of {b.name}")

    def place(self, m: Made) -> None:
        """The touches of an operation."""
        touches = []
        for kind, a in m.accesses:
            for part in a.parts:
                slot = num(part.shift)
                if a.moves.by != FIXED:
                    shift, depth = part.shift, part.region.depth
                    counter = m.spot.steps if a.moves.by == STEPS else m.spot.tile
                    slot = counter + self.ahead(shift, depth)
                    if m.op.ring:
                        rest = (m.op.index - counter).put({x: num(d) for x, d in self.depths.items()})
                        if not rest.parts and (rest.const - shift) % depth == 0:
                            slot = m.op.index
                touches.append(k.Touch(kind, part.region.name, slot, part.pieces))
        m.op = replace(m.op, touches=tuple(touches))

    # ---------------------------------------------------------------- roles

    def body(self, part: Part) -> tuple[k.Block | k.Loop | k.Tiles, ...]:
        def block(r: StraightText) -> k.Block:
            return tuple(m.op for m in part.made[id(r)])

        def inner(x: StraightText | LoopText) -> k.Block | k.Loop:
            return block(x) if isinstance(x, StraightText) else k.Loop(x.lo, x.hi, block(x.body))

        out: list[k.Block | k.Loop | k.Tiles] = []
        for x in part.text:
            if isinstance(x, TilesText):
                out.append(k.Tiles(0, 1, x.count, tuple(y for y in map(inner, x.body) if y)))
            else:
                y = inner(x)
                if y:
                    out.append(y)
        return tuple(out)

    def merged(
        self, bodies: Sequence[tuple[ThreadClass, tuple[k.Block | k.Loop | k.Tiles, ...]]]
    ) -> tuple[k.Role, ...]:
        """Warps whose classes do the same, bytes aside, are taken together, class by class."""
        warps: dict[tuple[int, int], list[tuple[ThreadClass, Any]]] = {}
        for c, body in bodies:
            warps.setdefault((c.cta, c.warp), []).append((c, body))
        kinds: dict[Hashable, list[list[tuple[ThreadClass, Any]]]] = {}
        for some in warps.values():
            kinds.setdefault(tuple(_without_bytes(body) for _, body in some), []).append(some)
        roles: list[k.Role] = []
        meetings = {x for x, r in self.rings.items() if r.named and r.level is not k.Level.ALL}
        for number, same in enumerate(kinds.values()):
            for members in zip(*same, strict=True):
                body = _renamed(_joined([b for _, b in members]), meetings, f" of kind {number}", self.rings)
                if any(body):
                    roles.append(self.role([c for c, _ in members], body))
        for x in meetings:
            del self.rings[x]
        return tuple(roles)

    def role(self, some: Sequence[ThreadClass], body: Any) -> k.Role:
        threads = sorted(self.first_thread(c) + x for c in some for x in range(32) if c.lanes >> x & 1)
        block = "" if self.blocks == 1 else f"block {some[0].cta} "
        shown = ", ".join(str(c.warp) for c in some)
        count = some[0].lanes.bit_count()
        name = f"{block}warp{'s' if len(some) > 1 else ''} {shown}" + (
            "" if count == 32 else f", {count} lanes"
        )
        return k.Role(name, tuple(threads), body)


def _renamed(x: Any, old: set[str], suffix: str, rings: dict[str, k.Ring]) -> Any:
    """The same with meetings of warps distinguished by the kind of warps that meet."""
    if isinstance(x, tuple):
        return tuple(_renamed(y, old, suffix, rings) for y in x)
    if isinstance(x, k.Loop | k.Tiles):
        return replace(x, body=_renamed(x.body, old, suffix, rings))
    if x.ring in old:
        ring = rings[x.ring]
        rings[x.ring + suffix] = replace(ring, barrier=ring.barrier + suffix)
        return replace(x, ring=x.ring + suffix)
    return x


def _without_bytes(x: Any) -> Hashable:
    if isinstance(x, tuple):
        return tuple(map(_without_bytes, x))
    if isinstance(x, k.Loop):
        return ("loop", x.lo, x.hi, _without_bytes(x.body))
    if isinstance(x, k.Tiles):
        return ("tiles", x.first, x.stride, x.count, _without_bytes(x.body))
    if isinstance(x, k.Op):
        return replace(x, touches=tuple(replace(t, pieces=None) for t in x.touches))
    raise TypeError(x)


def _joined(some: Sequence[Any]) -> Any:
    first = some[0]
    if isinstance(first, tuple):
        return tuple(_joined([x[i] for x in some]) for i in range(len(first)))
    if isinstance(first, k.Loop | k.Tiles):
        return replace(first, body=_joined([x.body for x in some]))
    touches = []
    for i, t in enumerate(first.touches):
        pieces = tuple(sorted({p for op in some for p in op.touches[i].pieces or ()}))
        touches.append(replace(t, pieces=pieces))
    return replace(first, touches=tuple(touches))


def warpgroups(info: SystemInfo, parts: Sequence[Part]) -> None:
    """Accepts that what the warps of a warpgroup execute as one, all four execute alike: every wgmma and
    setmaxnreg (PTX ISA).
    """
    groups: dict[tuple[int, int], list[Part]] = {}
    for p in parts:
        groups.setdefault((p.cls.cta, p.cls.warp // 4), []).append(p)
    for some in groups.values():
        shapes = [(_collective(p.text), p.moduli if _collective(p.text) else None) for p in some]
        if any(x for x, _ in shapes) and len({p.cls.warp for p in some}) != 4:
            raise NotReadError("an instruction of a warpgroup that has fewer than four warps")
        if any(x != shapes[0] for x in shapes):
            raise NotReadError("warps of a warpgroup execute different wgmmas or setmaxnregs")


def legal_request(held: int, wanted: int, increases: int) -> bool:
    """Whether setmaxnreg may ask for so many registers by a thread that has so many (PTX ISA: setmaxnreg)."""
    return legal(wanted) and (wanted >= held if increases else wanted <= held)


_OF_WARPGROUPS = frozenset({Ev.WGMMA_FENCE, Ev.WGMMA, Ev.WGMMA_COMMIT, Ev.WGMMA_WAIT, Ev.SETMAXNREG})


def _collective(text: Text) -> tuple[Any, ...]:
    """What a class does that its warpgroup executes as one, and in which loops."""

    def region(r: StraightText) -> tuple[Any, ...]:
        found = []
        for p in r.pieces:
            events = sorted((r, e[0], e[3] if e[0] == Ev.WGMMA else e[2:]) for r, e in p.events.items())
            if events[0][1] in _OF_WARPGROUPS:
                found.append((p.site, p.guards, tuple(events)))
        return (r.steps, r.tile, r.products, *found) if found else ()

    def inner(x: StraightText | LoopText) -> tuple[Any, ...]:
        if isinstance(x, StraightText):
            return region(x)
        body = region(x.body)
        return (x.lo, x.hi, body) if body else ()

    out: list[Any] = []
    for x in text:
        if isinstance(x, TilesText):
            body = tuple(y for y in map(inner, x.body) if y)
            out += [(x.count, x.trips, x.function, body)] if body else []
        else:
            out += [y for y in (inner(x),) if y]
    return tuple(out)


def _leaves_together(part: Part) -> bool:
    """Whether the last thing that a class does, under no condition, is to meet all of the cluster."""
    last = part.text[-1] if part.text else None
    if not isinstance(last, StraightText):
        return False
    made = part.made[id(last)]
    return bool(made) and made[-1].op.ring.startswith("cluster at") and not made[-1].op.guard


def _met(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The pieces without waits at the cluster's barrier, each of which has to follow its arrival at once."""
    waits: Piece | None = None
    for p in pieces:
        (kind, *more) = {e[0] for e in p.events.values()}
        if more:
            raise NotReadError("an operation that is another one in some turns")
        if (kind == Ev.CLUSTER_WAIT) != (waits is not None):
            raise NotReadError("the cluster's barrier is not waited for where it is arrived at")
        if kind == Ev.CLUSTER_WAIT:
            assert waits is not None
            if waits.guards != p.guards or any(e[2] & Flag.RELAXED for e in p.events.values()):
                raise NotReadError("a wait at the cluster's barrier of another kind than its arrival")
            waits = None
            continue
        waits = p if kind == Ev.CLUSTER_ARRIVE else None
        yield p
    if waits is not None:
        raise NotReadError("the cluster's barrier is not waited for where it is arrived at")


def _with_uses(made: list[Made]) -> list[Made]:
    """Pairs each read with the first use of its value; later ones say no more."""
    last: dict[int, Made] = {}
    out: list[Made] = []
    for m in made:
        event = next(iter(m.piece.events.values()))
        if m.op.kind is k.Kind.ACCESS and event[0] == Ev.READ and not m.op.label:
            handles = {e[3] for e in m.piece.events.values()}
            if len(handles) == 1 and min(handles) not in (NO_ARRIVAL_NEEDED, NEVER):
                last[handles.pop()] = m
        if m.op.kind is k.Kind.USE and not m.op.label:
            read = last.pop(event[2], None)
            if (
                read is None
                or read.op.guard != m.op.guard
                or len({e[2] for e in m.piece.events.values()}) != 1
            ):
                continue
            read.op = replace(read.op, label=f"read {read.spot.key}")
            m.op = replace(m.op, label=read.op.label)
        out.append(m)
    return out


def _shown(spot: Spot) -> str:
    return "_".join(str(x) for x in spot.key)


def _turn(spot: Spot) -> Term:
    """Which meeting, or which phase of a barrier of one slot, it is."""
    if spot.where == "loop":
        return spot.steps if spot.tiled else spot.steps - spot.low
    return spot.tile if spot.where == "tile" else ZERO


def spots(text: Text) -> Iterator[tuple[StraightText, Spot]]:
    """Every region of a text with what counts there."""
    for x in text:
        if isinstance(x, StraightText):
            yield x, Spot("straight", x.steps, ZERO, ZERO, False, ())
        elif isinstance(x, LoopText):
            yield x.body, Spot("loop", x.body.steps, ZERO, x.lo, False, ())
        else:
            for y in x.body:
                if isinstance(y, StraightText):
                    yield y, Spot("tile", y.steps, k.U, ZERO, True, ())
                else:
                    yield y.body, Spot("loop", y.body.steps, k.U, y.lo, True, ())


__all__ = ["TILES", "Assembly", "Event", "Part", "Region", "Trip"]
