"""What one event is to a protocol: its operations, or a refusal. TRUSTED.

A class executes a *piece* in many turns of its loops, each time as an event of one kind whose operands may
change. ``BY_EVENT`` says by the kind what makes the operations of a piece. What a protocol cannot express
is a NotReadError: a kind that is in no row, an operand that changes where it must not.

An example: an arrival at slot ``i % 3`` becomes one operation ARRIVE. ``Made.ring`` says by residue of ``i``
which barrier it names, and ``assemble`` makes a ring of these barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.checker.induction.flags import Flags
from syncverify.checker.induction.read import Piece, Residue
from syncverify.checker.induction.slots import Access, Bytes
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel import protocol as k
from syncverify.checker.kernel.linear import ZERO, Term, num
from syncverify.model.automata.named_barrier import exists
from syncverify.model.automata.register_pool import legal
from syncverify.model.events import (
    GLOBAL_MEMORY,
    NO_ARRIVAL_NEEDED,
    Ev,
    Event,
    Flag,
    SystemInfo,
    ThreadClass,
)
from syncverify.model.proxies import Access as Kind
from syncverify.model.proxies import Space

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

    @property
    def around(self) -> str:
        """The same in one word for all agents: turns of one loop are tiles to those with a loop inside."""
        return "turn" if self.where == "tile" or (self.where == "loop" and not self.tiled) else self.where

    @property
    def shown(self) -> str:
        return "_".join(str(x) for x in self.key)

    @property
    def turn(self) -> Term:
        """Which meeting, or which phase of a barrier of one slot, it is."""
        if self.where == "loop":
            return self.steps if self.tiled else self.steps - self.low
        return self.tile if self.where == "tile" else ZERO


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
class Meetings:
    """What all pieces of a system have in common, and the rings of the named barriers that they meet at."""

    info: SystemInfo
    policy: Policy
    flags: Flags
    rings: dict[str, k.Ring]
    whole: Mapping[tuple[int, int], int]  # lanes of a warp, by block and warp
    met: dict[str, int] = field(default_factory=dict)  # how often a class has met at a barrier outside loops
    registers: int = 0  # that a thread of the class has

    def place(self, barrier: str, spot: Spot) -> str:
        """Which meeting at a barrier it is. Outside loops roles of other code count alike."""
        if spot.where != "straight":
            return spot.shown
        self.met[barrier] = self.met.get(barrier, 0) + 1
        return f"meeting {self.met[barrier]}"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A piece of a class. ``number``: which class it is."""

    system: Meetings
    number: int
    cls: ThreadClass
    piece: Piece
    spot: Spot

    @property
    def first(self) -> Event:
        return next(iter(self.piece.events.values()))

    @property
    def ev(self) -> Ev:
        return Ev(self.first[0])

    @property
    def info(self) -> SystemInfo:
        return self.system.info

    @property
    def lanes(self) -> int:
        """The lanes of its warp that exist."""
        return self.system.whole[self.cls.cta, self.cls.warp]

    def each(self, i: int) -> dict[Residue, Any]:
        """An operand, by turn."""
        return {r: e[i] for r, e in self.piece.events.items()}

    def same(self, i: int) -> Any:
        """An operand that no turn changes."""
        found = set(self.each(i).values())
        if len(found) != 1:
            raise NotReadError(f"{self.ev.name} whose operands change from turn to turn")
        return found.pop()

    def op(self, kind: k.Kind, **more: Any) -> k.Op:
        return k.Op(kind, guard=self.piece.guards, span=self.info.sites[self.piece.site].span, **more)

    def made(self, op: k.Op) -> Made:
        return Made(op, self.spot, self.number, self.piece)

    def accessed(self, op: k.Op, *accesses: tuple[Kind, Access]) -> Made:
        return replace(self.made(op), accesses=list(accesses))

    def access(self, fps: Mapping[Residue, int], block: int | None = None) -> Access:
        return replace(access(self.info, self.cls, fps, block), site=self.spot.key)

    def meeting(self, kind: k.Kind, name: str, ring: k.Ring, **more: Any) -> Made:
        """All threads of a named barrier come together, of which it must always be the same ones."""
        if self.system.rings.setdefault(name, ring) != ring:
            raise NotReadError(f"{name} is met in different ways")
        return self.made(self.op(kind, ring=name, index=self.spot.turn, count=ring.count, **more))

    def warp(self, barrier: str, *, visible: bool) -> Made:
        """All lanes of a warp come together."""
        if self.lanes.bit_count() != 32:
            raise NotReadError("a warp with fewer than 32 threads")
        ring = k.Ring(num(1), 32, named=True, level=k.Level.WARP, visible=visible, barrier=barrier)
        return self.meeting(k.Kind.SYNC, f"{barrier} at {self.spot.shown}", ring)


def operations(x: Occurrence) -> Iterator[Made]:
    """The operations of a piece."""
    if x.ev in _TO_GLOBAL and x.same(_TO_GLOBAL[x.ev]) >= 0:
        raise NotReadError("a place in global memory")
    if x.ev not in BY_EVENT:
        raise NotReadError(f"{x.ev.name} is no operation of a protocol")
    return BY_EVENT[x.ev](x)


# ---------------------------------------------------------------- mbarriers


def _init(x: Occurrence) -> Iterator[Made]:
    yield replace(x.made(x.op(k.Kind.INIT, count=x.same(3))), ring=x.each(2))


def _inval(x: Occurrence) -> Iterator[Made]:
    yield replace(x.made(x.op(k.Kind.INVAL)), ring=x.each(2))


def _arrive(x: Occurrence) -> Iterator[Made]:
    flags, ring = x.same(5), x.each(2)
    if flags & _STRANGE:
        raise NotReadError("an arrival that keeps its token, drops or does not complete")
    op = x.op(k.Kind.ARRIVE, count=x.same(3), bytes=max(x.same(4), 0), synchronizes=not flags & Flag.RELAXED)
    remote = any(x.info.barriers[b].cta != x.cls.cta for b in ring.values())
    yield replace(x.made(op), ring=ring, remote=remote, wide=bool(flags & Flag.CLUSTER))


def _expect(x: Occurrence) -> Iterator[Made]:
    yield replace(x.made(x.op(k.Kind.EXPECT, bytes=x.same(3))), ring=x.each(2))


def _wait(x: Occurrence) -> Iterator[Made]:
    flags = x.same(4)
    made = x.made(x.op(k.Kind.WAIT, synchronizes=not flags & Flag.RELAXED))
    yield replace(made, ring=x.each(2), parities=x.each(3), wide=bool(flags & Flag.CLUSTER))


# ---------------------------------------------------------------- copies and groups


def _bulk_load(x: Occurrence) -> Iterator[Made]:
    """One copy for each of the blocks that it writes, each at a barrier there."""
    copies = x.each(2)
    for i in range(len(x.first[2])):
        if len({len(some) for some in copies.values()}) != 1:
            raise NotReadError("copies of different sizes from turn to turn")
        targets = {r: some[i] for r, some in copies.items()}
        sizes = {size for _, _, size in targets.values()}
        if len(sizes) != 1:
            raise NotReadError("copies of different sizes from turn to turn")
        # the bytes are where the barrier is, which somebody there has initialized
        (block, *more) = {x.info.barriers[barrier].cta for _, barrier, _ in targets.values()}
        if more:
            raise NotReadError("copies to different blocks from turn to turn")
        written = x.access({r: fp for r, (fp, _, _) in targets.items()}, block)
        made = x.accessed(x.op(k.Kind.COPY, bytes=sizes.pop()), (Kind.ASYNC_WRITE, written))
        yield replace(made, ring={r: barrier for r, (_, barrier, _) in targets.items()})


def _bulk_store(x: Occurrence) -> Iterator[Made]:
    op = x.op(k.Kind.ASYNC, group=k.Group.BULK)
    yield x.accessed(op, (Kind.ASYNC_READ, x.access(x.each(2))))


def _cp_async(x: Occurrence) -> Iterator[Made]:
    if x.info.strict_copies and x.system.policy is Policy.PRACTICAL:
        raise NotReadError("cp.async, whose readers need a fence here in either mode (K6)")
    op = x.op(k.Kind.ASYNC, group=k.Group.CP_ASYNC)
    yield x.accessed(op, (Kind.CPASYNC_WRITE, x.access(x.each(2))))


def _commit(group: k.Group) -> Callable[[Occurrence], Iterator[Made]]:
    def made(x: Occurrence) -> Iterator[Made]:
        yield x.made(x.op(k.Kind.COMMIT, group=group))

    return made


def _drain(group: k.Group) -> Callable[[Occurrence], Iterator[Made]]:
    def made(x: Occurrence) -> Iterator[Made]:
        if x.same(2) < 0:
            raise NotReadError("cp.async.wait_all")
        yield x.made(x.op(k.Kind.DRAIN, group=group, count=x.same(2)))

    return made


# ---------------------------------------------------------------- wgmma


def _converged(x: Occurrence) -> Iterator[Made]:
    """A wgmma instruction of a class that is no whole warp: the lanes of the warp come together."""
    if x.lanes != x.cls.lanes:
        yield x.warp("wgmma", visible=False)


def _wgmma(x: Occurrence) -> Iterator[Made]:
    yield from _converged(x)
    made = x.made(x.op(k.Kind.ASYNC, group=k.Group.WGMMA, label=f"wgmma {x.spot.key}"))
    # strictly, a warp reads the rows of A of the other warps too (K8)
    for i in (2, 3) if x.system.policy is Policy.PRACTICAL else (2, 3, 4):
        operand = x.each(i)
        if len({fp < 0 for fp in operand.values()}) != 1:
            raise NotReadError("a wgmma whose operands change their kind")
        if x.first[i] >= 0:
            made.accesses.append((Kind.MMA_READ, _from_first_to_last(x.access(operand))))
    yield made


def _from_first_to_last(a: Access) -> Access:
    """An operand with the bytes between its rows: more than is read, and one range for each lane."""
    known: dict[int, Bytes] = {}
    for b in a.distinct():
        lanes = {t for _, _, t in b.pieces}
        end = max(hi for _, hi, _ in b.pieces)
        known[id(b)] = Bytes(tuple((b.low, end, t) for t in sorted(lanes)))
    return replace(a, by={r: known[id(b)] for r, b in a.by.items()})


def _wgmma_commit(x: Occurrence) -> Iterator[Made]:
    yield from _converged(x)
    yield x.made(x.op(k.Kind.COMMIT, group=k.Group.WGMMA))


def _wgmma_wait(x: Occurrence) -> Iterator[Made]:
    yield from _converged(x)
    yield x.made(x.op(k.Kind.DRAIN, group=k.Group.WGMMA, count=x.same(2)))


# ---------------------------------------------------------------- accesses to shared memory


def _read(x: Occurrence) -> Iterator[Made]:
    """A read, and its use where it has arrived as soon as it is executed."""
    made = x.accessed(x.op(k.Kind.ACCESS, label=""), (Kind.GENERIC_READ, x.access(x.each(2))))
    arrived = set(x.each(3).values()) == {NO_ARRIVAL_NEEDED}
    if arrived:
        made.op = replace(made.op, label=f"read {x.spot.key}")
    yield made
    if arrived:
        yield x.made(x.op(k.Kind.USE, label=made.op.label))


def _use(x: Occurrence) -> Iterator[Made]:
    yield x.made(x.op(k.Kind.USE))


def _write(x: Occurrence) -> Iterator[Made]:
    yield x.accessed(x.op(k.Kind.ACCESS), (Kind.GENERIC_WRITE, x.access(x.each(2))))


def access(info: SystemInfo, c: ThreadClass, fps: Mapping[Residue, int], block: int | None = None) -> Access:
    """The bytes of an access, of each thread. ``block``: whose they are, its own unless said."""
    by: dict[Residue, Bytes] = {}
    memory: set[int] = set()
    base = first_thread(info, c)
    known: dict[int, Bytes] = {}
    for r, fp in fps.items():
        if fp not in known:
            f = info.footprints[fp]
            memory.add(f.memory)
            if f.overlap:
                raise NotReadError("lanes of one store write one byte")
            if f.lanes:
                pieces = tuple((lo, hi, base + lane) for lo, hi, lane in f.lanes)
            else:
                lanes = [lane for lane in range(32) if c.lanes >> lane & 1]
                pieces = tuple((lo, hi, base + lane) for lo, hi in f.intervals for lane in lanes)
            if not pieces:
                raise NotReadError("an access of no bytes")
            known[fp] = Bytes(tuple(sorted(pieces)))
        by[r] = known[fp]
    if memory != {c.cta if block is None else block}:
        raise NotReadError("an access to the memory of another block")
    return Access(memory.pop(), by)


def first_thread(info: SystemInfo, c: ThreadClass) -> int:
    """The number of a warp's first lane: blocks begin at whole warpgroups."""
    return c.cta * -(-info.threads // 128) * 128 + 32 * c.warp


# ---------------------------------------------------------------- fences and barriers of threads


def _proxy_fence(x: Occurrence) -> Iterator[Made]:
    spaces = x.same(2)
    if spaces & Space.SHARED_CTA and not x.same(3):
        yield x.made(x.op(k.Kind.FENCE, narrow=x.info.ctas > 1 and not spaces & Space.SHARED_CLUSTER))


def _init_fence(x: Occurrence) -> Iterator[Made]:
    if x.info.ctas > 1:  # in one block it orders nothing that barriers do not
        yield x.made(x.op(k.Kind.INIT_FENCE))


def _barrier(kind: k.Kind) -> Callable[[Occurrence], Iterator[Made]]:
    def made(x: Occurrence) -> Iterator[Made]:
        number, flags, most = x.same(2), x.same(4), -(-x.info.threads // 32) * 32
        count, strict = x.same(3) or most, x.system.policy is Policy.STRICT
        if not exists(number) or count % 32 or flags & (Flag.RED | Flag.RELAXED) or (strict and count > most):
            raise NotReadError(f"barrier {number} of {count} threads")
        if flags & Flag.ALIGNED and x.cls.lanes != x.lanes:  # its lanes execute one instruction together
            yield x.warp("aligned", visible=False)
        barrier = f"barrier {number} of block {x.cls.cta}"
        ring = k.Ring(num(1), count, named=True, barrier=barrier)
        yield x.meeting(kind, f"{barrier} at {x.system.place(barrier, x.spot)}", ring)

    return made


def _cluster_arrive(x: Occurrence) -> Iterator[Made]:
    info, own = x.info, x.cls.cta // x.info.ctas
    name = f"cluster at {x.spot.shown}" + (f" of cluster {own}" if info.clusters > 1 else "")
    count = sum(lanes.bit_count() for (cta, _), lanes in x.system.whole.items() if cta // info.ctas == own)
    ring = k.Ring(num(1), count, named=True, barrier=f"cluster {own}")
    yield x.meeting(k.Kind.SYNC, name, ring, synchronizes=not x.same(2) & Flag.RELAXED)


def _warp_sync(x: Occurrence) -> Iterator[Made]:
    if x.same(2) & _WHOLE != x.lanes:
        raise NotReadError("a part of a warp meets")
    yield x.warp("warp", visible=True)


def _collective(x: Occurrence) -> Iterator[Made]:
    members = x.same(2)
    if x.cls.lanes & ~members:
        raise NotReadError("a lane outside the mask of a collective instruction")
    if members & _WHOLE & ~x.cls.lanes:
        if members & _WHOLE != x.lanes:
            raise NotReadError("a collective instruction of a part of a warp")
        yield x.warp("collective", visible=False)


# ---------------------------------------------------------------- words of global memory, registers


def _known_word(x: Occurrence) -> Event:
    if len(set(x.piece.events.values())) != 1 or x.first[2] < 0:
        raise NotReadError("an access that synchronizes at a place of global memory that is not known")
    return x.first


def _flag(x: Occurrence, word: tuple[int, int]) -> str:
    """The ring of a word of global memory."""
    name = f"word {word[0]} of global memory"
    x.system.rings[name] = k.Ring(num(1), x.system.flags.counts[word])
    return name


def _atomic(x: Occurrence) -> Iterator[Made]:
    word, count, releases = x.system.flags.adds(x.cls, _known_word(x), x.spot.where)
    yield x.made(x.op(k.Kind.ARRIVE, ring=_flag(x, word), count=count, synchronizes=releases))


def _spin(x: Occurrence) -> Iterator[Made]:
    e = _known_word(x)
    word = x.system.flags.passes(x.cls, e)
    yield x.made(x.op(k.Kind.WAIT, ring=_flag(x, word), synchronizes=bool(e[3] & Flag.ACQUIRE)))


def _global_read(x: Occurrence) -> Iterator[Made]:
    if x.system.flags.word(_known_word(x)[2]) is not None:
        raise NotReadError("a word that blocks wait for is read")
    yield x.accessed(x.op(k.Kind.ACCESS), (Kind.GENERIC_READ, x.access(x.each(2), GLOBAL_MEMORY)))


def _global_write(x: Occurrence) -> Iterator[Made]:
    e = _known_word(x)
    if x.system.flags.word(e[2]) is not None:
        x.system.flags.ends(x.cls, e, x.piece.guards)
    else:
        yield x.accessed(x.op(k.Kind.ACCESS), (Kind.GENERIC_WRITE, x.access(x.each(2), GLOBAL_MEMORY)))


def _setmaxnreg(x: Occurrence) -> Iterator[Made]:
    increases, wanted = x.same(2), x.same(3)
    if not legal_request(x.system.registers, wanted, increases):
        raise NotReadError(f"setmaxnreg {wanted} by a warpgroup that holds {x.system.registers}")
    x.system.registers = wanted
    yield x.made(x.op(k.Kind.REGISTERS, count=wanted))


def legal_request(held: int, wanted: int, increases: int) -> bool:
    """Whether setmaxnreg may ask for so many registers by a thread that has so many (PTX ISA: setmaxnreg)."""
    return legal(wanted) and (wanted >= held if increases else wanted <= held)


#: By kind of event, what makes its operations.
BY_EVENT: dict[Ev, Callable[[Occurrence], Iterator[Made]]] = {
    Ev.INIT: _init,
    Ev.INVAL: _inval,
    Ev.ARRIVE: _arrive,
    Ev.EXPECT_TX: _expect,
    Ev.WAIT: _wait,
    Ev.BULK_LOAD: _bulk_load,
    Ev.BULK_STORE: _bulk_store,
    Ev.BULK_COMMIT: _commit(k.Group.BULK),
    Ev.BULK_WAIT: _drain(k.Group.BULK),
    Ev.CP_ASYNC: _cp_async,
    Ev.CP_COMMIT: _commit(k.Group.CP_ASYNC),
    Ev.CP_WAIT: _drain(k.Group.CP_ASYNC),
    Ev.WGMMA_FENCE: _converged,
    Ev.WGMMA: _wgmma,
    Ev.WGMMA_COMMIT: _wgmma_commit,
    Ev.WGMMA_WAIT: _wgmma_wait,
    Ev.READ: _read,
    Ev.USE: _use,
    Ev.WRITE: _write,
    Ev.PROXY_FENCE: _proxy_fence,
    Ev.INIT_FENCE: _init_fence,
    Ev.BARRIER_SYNC: _barrier(k.Kind.SYNC),
    Ev.BARRIER_ARRIVE: _barrier(k.Kind.JOIN),
    Ev.CLUSTER_ARRIVE: _cluster_arrive,
    Ev.WARP_SYNC: _warp_sync,
    Ev.ELECT: _collective,
    Ev.COLLECTIVE: _collective,
    Ev.GLOBAL_ATOMIC: _atomic,
    Ev.SPIN: _spin,
    Ev.GLOBAL_READ: _global_read,
    Ev.GLOBAL_WRITE: _global_write,
    Ev.SETMAXNREG: _setmaxnreg,
}


__all__ = ["BY_EVENT", "Made", "Meetings", "Occurrence", "Spot", "access", "first_thread", "operations"]
