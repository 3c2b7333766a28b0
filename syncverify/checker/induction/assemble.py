"""From what the agents of a system do to its protocol. Every event becomes an operation, or a refusal.

TRUSTED.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.checker.induction.alone import Alone, waits_for_grid
from syncverify.checker.induction.event_operations import (
    Made,
    Meetings,
    Occurrence,
    Spot,
    first_thread,
    operations,
)
from syncverify.checker.induction.flags import Flags, collected
from syncverify.checker.induction.read import LoopText, Piece, StraightText, Text, TilesText
from syncverify.checker.induction.slots import (
    FIXED,
    STEPS,
    Access,
    Moves,
    laid_out,
    moves,
    offset,
)
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.induction.words import Steered, Stored, version_of
from syncverify.checker.kernel import protocol as k
from syncverify.checker.kernel.hops import MEETINGS
from syncverify.checker.kernel.linear import ZERO, Term, apply, equal, num, var
from syncverify.model.events import (
    NEVER,
    NO_ARRIVAL_NEEDED,
    Ev,
    Event,
    Flag,
    SystemInfo,
    ThreadClass,
)


@dataclass(slots=True)
class Part:
    """What one class does, with operations in the place of pieces."""

    cls: ThreadClass
    text: Text
    moduli: tuple[int, int]
    words: tuple[Stored, ...] = ()
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
    fewer: dict[str, str] = field(default_factory=dict)  # functions of tiles -> those of all steps but one
    flags: Flags = field(init=False)

    def protocol(self) -> k.Protocol:
        if self.info.flag_chain or self.info.modular_cluster is not None:
            raise NotReadError("blocks of a grid that hand on to the next")
        self.flags = collected(self.info, self.met())
        for c in (p.cls for p in self.parts):
            self.whole[c.cta, c.warp] = self.whole.get((c.cta, c.warp), 0) | c.lanes
        self.alone()
        warpgroups(self.info, self.parts, self.policy)
        for number, part in enumerate(self.parts):
            self.add_operations(number, part)
            self.count_meetings(part)
            if self.info.ctas > 1 and not _leaves_together(part):
                raise NotReadError("a block of a cluster may leave while others still reach its memory")
        self.count_shared_meetings()
        self.flags.in_order()
        every = [m for p in self.parts for some in p.made.values() for m in some]
        self.barriers(every)
        accesses = [a for m in every for _, a in m.accesses]
        moduli = [self.parts[m.cls].moduli for m in every for _ in m.accesses]
        self.no_barriers(accesses)
        self.steering(every)
        regions = laid_out(accesses, dict(enumerate(moduli)))
        for m in every:
            self.place(m)
        buffers = {r.name: self.depth(r.depth) for r in regions}
        roles = self.merged([(p.cls, self.body(p)) for p in self.parts])
        depths = (c for x, d in self.depths.items() for c in equal(var(x), num(d)))
        rounds = self.rounds()
        facts = (*self.facts, *depths, *(c for some in rounds.values() for c in some))
        functions = sorted(f for f in self.tiles() if f)
        return k.Protocol(
            roles, self.rings, buffers, self.parameters | set(self.depths) | set(rounds), facts,
            (*functions, *self.fewer.values()), schemas=self.schemas(), registers=self.pool(),
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
        return num(c) if 2 * c <= slots - back else num(c - slots) + (ZERO if back else self.depth(slots))

    def tiles(self) -> dict[str, list[TilesText]]:
        """By function, the tiles that count with it."""
        by: dict[str, list[TilesText]] = {}
        for t in (t for p in self.parts for t in p.text if isinstance(t, TilesText)):
            by.setdefault(t.function, []).append(t)
        return by

    def rounds(self) -> dict[str, tuple[Term, Term]]:
        """How many rounds of tiles agents make that take them in turn: quotients, with their facts."""
        some = (t for by in self.tiles().values() for t in by if t.stride > 1)
        counts = dict.fromkeys((t.count, t.stride) for t in some)
        names = [f"rounds_{i}" for i in range(len(counts))]
        left = ((count - var(x) * r, r) for x, (count, r) in zip(names, counts, strict=True))
        return {x: (more, -more + (r - 1)) for x, (more, r) in zip(names, left, strict=True)}

    def count_meetings(self, part: Part) -> None:
        """Meetings in all steps of a tile but its first are counted by a function of their own,
        ``Q(x) = P(x) - x``. It never falls, as no tile is empty. The kernel shows that they come in this
        order.
        """
        for tiles in (t for t in part.text if isinstance(t, TilesText)):
            full = all(t.full for t in self.tiles()[tiles.function])
            steps = k.N - apply(tiles.function, k.U)  # of the tile before this one
            for loop in (x for x in tiles.body if full and isinstance(x, LoopText)):
                for m in part.made[id(loop.body)]:
                    if m.op.kind in MEETINGS and {k.N - loop.lo, *m.op.guard} - {steps} == {steps - 1}:
                        f = self.fewer.setdefault(tiles.function, f"{tiles.function}_fewer")
                        m.op = replace(m.op, index=steps - 1 + apply(f, k.U))

    def count_shared_meetings(self) -> None:
        """Where agents that take tiles in turn come to one barrier, one ring counts the meetings of all."""
        found: dict[k.Ring, list[tuple[TilesText, list[Made]]]] = {}
        for part in self.parts:
            for t in (t for t in part.text if isinstance(t, TilesText) and t.stride > 1):
                here: dict[k.Ring, list[Made]] = {}
                for m in (m for x in t.body if isinstance(x, StraightText) for m in part.made[id(x)]):
                    ring = self.rings[m.op.ring] if m.op.kind in MEETINGS else None
                    if ring is not None and ring.barrier and ring.level is k.Level.ALL:
                        here.setdefault(ring, []).append(m)
                for ring, some in here.items():
                    found.setdefault(ring, []).append((t, some))
        for number, (ring, each) in enumerate(found.items()):
            name = f"{ring.barrier} in turn, {number}"
            for t, some in each if len({t.first for t, _ in each}) > 1 else ():
                self.rings[name] = ring
                tile = k.U * t.stride + t.first
                for i, m in enumerate(some):
                    m.op = replace(m.op, ring=name, index=tile * len(some) + i)
        used = {m.op.ring for p in self.parts for some in p.made.values() for m in some}
        self.rings = {x: r for x, r in self.rings.items() if x in used or not r.named}

    def schemas(self) -> tuple[Term, ...]:
        out: dict[Term, None] = {}
        x = k.X
        for f, some in self.tiles().items():
            if not f:
                continue
            if len({t.trips for t in some}) != 1:
                raise NotReadError("agents whose tiles have different numbers of steps")
            if all(t.full for t in some):
                out[apply(f, x + 1) - apply(f, x) - 1] = None
            (one, *more) = some[0].trips
            if not more and not one.guards and not one.steps.names() & {"u"} and all(t.full for t in some):
                step = apply(f, x + 1) - apply(f, x) - one.steps
                out |= {step: None, -step: None}
        for f, q in self.fewer.items():
            step = apply(q, x + 1) - apply(q, x) - apply(f, x + 1) + apply(f, x) + 1
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

    def add_operations(self, number: int, part: Part) -> None:
        system = Meetings(self.info, self.policy, self.flags, self.rings, self.whole)
        system.registers = self.info.registers or 0
        times: dict[tuple[str, int], int] = {}
        for region, spot in spots(part.text):
            made: list[Made] = []
            for p in _met(region.pieces):
                kth = times[spot.around, p.site] = times.get((spot.around, p.site), 0) + 1
                here = replace(spot, key=(spot.around, p.site, kth))
                made += operations(Occurrence(system, number, part.cls, p, here))
            part.made[id(region)] = _with_uses(made)

    # ---------------------------------------------------------------- rings

    def barriers(self, every: Sequence[Made]) -> None:
        """Which barriers are rings; the index of each operation on one."""
        found = [(m, moves(m.ring, *self.parts[m.cls].moduli)) for m in every if m.ring is not None]
        ring_of = _rings([x for _, x in found])
        names = self.named(ring_of, _initial_counts(found, ring_of))
        for m, x in found:
            order = ring_of[_first(x)]
            m.op = replace(m.op, ring=names[order], index=self.index(m, x, order))
            if m.parities is not None:
                m.op = self.waited(m, len(order))
        for m, _ in found:
            near = m.op.ring and any(w.parities and not w.wide and w.op.ring == m.op.ring for w, _ in found)
            if m.remote and (near or not m.wide):
                m.op = replace(m.op, narrow=True)

    def named(self, ring_of: Mapping[int, _Order], counts: Mapping[_Order, set[int]]) -> dict[_Order, str]:
        """Names of rings of mbarriers, which are rings of the protocol from here on."""
        names: dict[_Order, str] = {}
        for order in dict.fromkeys(ring_of.values()):
            first = self.info.barriers[order[0]]
            if len(counts[order]) != 1:
                raise NotReadError(f"{first.name} is not initialized with one number")
            name = first.name.removesuffix("[0]") if len(order) > 1 else first.name
            if self.blocks > 1:
                name += f" of block {first.cta}"
            while name in self.rings:
                name += "+"
            names[order] = name
            self.rings[name] = k.Ring(self.depth(len(order)), counts[order].pop(), initialized=True)
        return names

    def index(self, m: Made, x: Moves, order: tuple[int, ...]) -> Term:
        spot, depth = m.spot, len(order)
        if x.by == FIXED:
            if depth > 1 or spot.where == "straight":
                return num(order.index(x.cycle[0]))
            if m.parities is not None and len(set(m.parities.values())) == 1:
                return ZERO
            return spot.turn
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
                if b.cta == a.memory and a.touches(b.offset, b.offset + 8):
                    raise NotReadError(f"an access to the bytes of {b.name}")

    def steering(self, every: Sequence[Made]) -> None:
        """Accesses to words that steer write and find what is claimed."""
        words, *others = {p.words for p in self.parts}
        if others:
            raise NotReadError("agents of which different words are claimed to steer")
        steered = Steered(words)
        for m in every:
            version = version_of(m.piece.events.values())
            for kind, a in m.accesses:
                near = [w for w in words if w.memory == a.memory and a.touches(w.first, w.first + w.size)]
                some = a.coverage() if near or version is not None else ()
                touched = {(a.memory, at) for lo, hi in some for at in range(lo, hi)}
                if kind.writes:
                    always = m.spot.where == "straight" and not m.op.guard
                    steered.write(touched, version, m.piece.site, always=always)
                else:
                    steered.read(touched, version)
        steered.check()

    def place(self, m: Made) -> None:
        """The touches of an operation."""
        touches = []
        version = version_of(m.piece.events.values())
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
                number = None if version is None else version.number
                touches.append(k.Touch(kind, part.region.name, slot, part.pieces, number))
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
                body = tuple(y for y in map(inner, x.body) if y)
                out.append(k.Tiles(x.first, x.stride, x.count, body))
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
        threads = sorted(first_thread(self.info, c) + x for c in some for x in range(32) if c.lanes >> x & 1)
        block = "" if self.blocks == 1 else f"block {some[0].cta} "
        shown = ", ".join(str(c.warp) for c in some)
        count = some[0].lanes.bit_count()
        name = f"{block}warp{'s' if len(some) > 1 else ''} {shown}" + (
            "" if count == 32 else f", {count} lanes"
        )
        return k.Role(name, tuple(threads), body)


#: The barriers of a ring, in the order in which counters go through them.
_Order = tuple[int, ...]


def _first(x: Moves) -> int:
    first = x.cycle[0]
    assert isinstance(first, int)
    return first


def _rings(found: Sequence[Moves]) -> dict[int, _Order]:
    """By barrier, the ring that it is of: one whose slots some operation takes in turn, or itself alone."""
    orders: dict[frozenset[Hashable], _Order] = {}
    for x in found:
        if x.by != FIXED:
            at = x.cycle.index(min(x.cycle))  # type: ignore[type-var]
            orders.setdefault(frozenset(x.cycle), (*x.cycle[at:], *x.cycle[:at]))  # type: ignore[arg-type]
    ring_of: dict[int, _Order] = {}
    for order in orders.values():
        for b in order:
            if b in ring_of:
                raise NotReadError("rings that share some of their barriers")
            ring_of[b] = order
    for x in found:
        if x.by == FIXED:
            ring_of.setdefault(_first(x), (_first(x),))
    return ring_of


def _initial_counts(
    found: Sequence[tuple[Made, Moves]], ring_of: Mapping[int, _Order]
) -> dict[_Order, set[int]]:
    """With how many expected arrivals the barriers of a ring are initialized."""
    counts: dict[_Order, set[int]] = {order: set() for order in ring_of.values()}
    for m, x in found:
        if m.op.kind is k.Kind.INIT:
            counts[ring_of[_first(x)]].add(m.op.count)
    return counts


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


def warpgroups(info: SystemInfo, parts: Sequence[Part], policy: Policy) -> None:
    """Accepts that what the warps of a warpgroup execute as one, all four execute alike: every wgmma and
    setmaxnreg (PTX ISA). Practically, a setmaxnreg may stand in several places.
    """
    groups: dict[tuple[int, int], list[Part]] = {}
    for p in parts:
        groups.setdefault((p.cls.cta, p.cls.warp // 4), []).append(p)
    for some in groups.values():
        found = [_collective(p, policy) for p in some]
        if any(any(x) for x in found) and len({p.cls.warp for p in some}) != 4:
            raise NotReadError("an instruction of a warpgroup that has fewer than four warps")
        if any(x != found[0] for x in found):
            raise NotReadError("warps of a warpgroup execute different wgmmas or setmaxnregs")


_OF_WARPGROUPS = frozenset({Ev.WGMMA_FENCE, Ev.WGMMA, Ev.WGMMA_COMMIT, Ev.WGMMA_WAIT, Ev.SETMAXNREG})


def _collective(part: Part, policy: Policy) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What a class does that its warpgroup executes as one, and in which loops; how it changes its
    registers, if places of the code do not matter for that. A change outside of loops is made once, whatever
    warps count.
    """
    anywhere: list[Any] = []

    def region(r: StraightText, *, once: bool = False) -> tuple[Any, ...]:
        found = []
        for p in r.pieces:
            events = sorted((r, e[0], e[3] if e[0] == Ev.WGMMA else e[2:]) for r, e in p.events.items())
            if events[0][1] in _OF_WARPGROUPS:
                if events[0][1] == Ev.SETMAXNREG and policy is Policy.PRACTICAL:
                    anywhere.append((p.guards, {e[1:] for e in events}))
                else:
                    found.append((p.site, p.guards, tuple(events)))
        if once and all(e[0][1] == Ev.SETMAXNREG for _, _, e in found):
            return tuple((site, guards, frozenset(e[1:] for e in events)) for site, guards, events in found)
        return (part.moduli, r.steps, r.tile, r.products, *found) if found else ()

    def inner(x: StraightText | LoopText) -> tuple[Any, ...]:
        if isinstance(x, StraightText):
            return region(x)
        body = region(x.body)
        return (x.lo, x.hi, body) if body else ()

    out: list[Any] = []
    for x in part.text:
        if isinstance(x, TilesText):
            body = tuple(y for y in map(inner, x.body) if y)
            out += [(x.first, x.stride, x.count, x.trips, x.function, body)] if body else []
        else:
            out += [y for y in (region(x, once=True) if isinstance(x, StraightText) else inner(x),) if y]
    return tuple(out), tuple(anywhere)


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


__all__ = ["Assembly", "Part"]
