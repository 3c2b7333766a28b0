"""The language of protocols: roles that execute loops, and operations on rings of barriers and slots.

A protocol represents one program at every value of its parameters. An operation at a place of the code is a
*site*; its executions are the *events* ``(site, u, n)``, where ``u`` counts the tiles that the role has begun
and ``n`` is the counter of the loop it is in. See ``docs/kernel.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from syncverify.base.source import UNKNOWN_SPAN, Span
from syncverify.checker.kernel.linear import ZERO, Term, num, var
from syncverify.model.proxies import Access

#: The counters of an event, and of the second event of a pair.
U, N = var("u"), var("n")
U2, N2 = var("u'"), var("n'")
#: A turn that accounting speaks of, and the variable of a schema.
J, X = var("j"), var("x")
_NAME = re.compile(r"[A-Za-z_<][^%']*")
_RESERVED = frozenset({"u", "n", "u'", "n'", "j", "x"})


class Kind(Enum):
    """What an operation does."""

    ARRIVE = "arrive"  # mbarrier arrive, with an expect-tx in front of it where ``bytes`` is not 0
    EXPECT = "expect"  # mbarrier expect-tx
    WAIT = "wait"  # mbarrier wait by parity, until it passes
    COPY = "copy"  # asynchronous writes that complete on an mbarrier
    ASYNC = "async"  # asynchronous accesses that complete with a group
    COMMIT = "commit"  # what was issued so far and not committed becomes a group
    DRAIN = "drain"  # waits until at most ``count`` groups are pending
    SYNC = "sync"  # arrives at an execution barrier and leaves it when all have come
    JOIN = "join"  # arrives at an execution barrier without waiting (bar.arrive)
    ACCESS = "access"  # generic accesses to shared memory
    USE = "use"  # the first use of the values that the accesses of the same ``label`` read
    FENCE = "fence"  # proxy fence between generic and async accesses to shared memory
    INIT = "init"
    INIT_FENCE = "init fence"  # releases its thread's inits to its relaxed arrivals at execution barriers
    INVAL = "inval"
    REGISTERS = "registers"  # setmaxnreg: from here on a thread has ``count`` registers
    NOTHING = "nothing"


class Group(Enum):
    """Whose groups an asynchronous operation completes with."""

    BULK = "bulk"
    WGMMA = "wgmma"
    CP_ASYNC = "cp_async"


class Level(IntEnum):
    """How near two threads are: the smallest unit that holds both."""

    THREAD = 0
    WARP = 1
    WARPGROUP = 2
    ALL = 3


#: Bytes that one thread touches inside a slot: first, end, thread.
Piece = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Touch:
    """An access to slot ``slot mod depth`` of a buffer. No ``pieces``: every thread touches the whole
    slot. ``version``: of two accesses with one that share bytes, that with the lower comes first; writes
    of one version write one value.
    """

    access: Access
    buffer: str
    slot: Term
    pieces: tuple[Piece, ...] | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of each thread of a role.

    ``index``: of the ring; its slot is ``index mod depth``. ``parity``: a wait names the parity
    ``(index div depth + parity) mod 2``. ``count``: arrivals of one thread; threads that an execution barrier
    waits for; groups that a drain leaves pending; registers. ``bytes``: announced or copied by one thread.
    ``guard``: constraints under which it is executed. ``synchronizes``: false for relaxed ends. ``narrow``: a
    release of block scope at another block's barrier, which hands on completed asynchronous accesses at most;
    a fence of a block's own memory, in a cluster.
    ``label``: what a use belongs to, or the warp-collective instruction that several roles execute together.
    """

    kind: Kind
    ring: str = ""
    index: Term = ZERO
    parity: int = 0
    count: int = 1
    bytes: int = 0
    group: Group | None = None
    touches: tuple[Touch, ...] = ()
    guard: tuple[Term, ...] = ()
    synchronizes: bool = True
    narrow: bool = False
    label: str = ""
    span: Span = field(default=UNKNOWN_SPAN, compare=False)


Block = tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """``n`` from ``lo`` to ``hi - 1``."""

    lo: Term
    hi: Term
    body: Block


@dataclass(frozen=True, slots=True)
class Tiles:
    """``u = 0, 1, ...`` while ``first + stride * u < count``: the tiles of one of ``stride`` roles."""

    first: int
    stride: int
    count: Term
    body: tuple[Block | Loop, ...]


@dataclass(frozen=True, slots=True)
class Role:
    """Threads that execute the same operations, each for itself. Numbers of threads are unique."""

    name: str
    threads: tuple[int, ...]
    body: tuple[Block | Loop | Tiles, ...]


@dataclass(frozen=True, slots=True)
class Ring:
    """``depth`` barriers that wait for ``count`` arrivals each.

    ``named``: an execution barrier with generations instead of phases. ``level``: one such barrier for each
    warp or for all. ``visible``: false where meeting makes no access visible. ``barrier``: the hardware
    barrier whose meetings several rings stand for. ``initialized``: INIT sites are owed; else it exists
    from the start.
    """

    depth: Term
    count: int
    named: bool = False
    level: Level = Level.ALL
    visible: bool = True
    barrier: str = ""
    initialized: bool = False


@dataclass(frozen=True, slots=True)
class Registers:
    """At launch each thread has ``each`` registers, and the block has ``pool`` in all."""

    each: int
    pool: int


@dataclass(frozen=True, slots=True)
class Protocol:
    """``facts``: constraints on parameters. ``prefix``: functions with f(0) = 0 that never fall. ``marks``:
    functions of which nothing is known. ``schemas``: constraints in ``x`` that hold for every integer x.
    """

    roles: tuple[Role, ...]
    rings: dict[str, Ring]
    buffers: dict[str, Term]
    parameters: frozenset[str] = frozenset()
    facts: tuple[Term, ...] = ()
    prefix: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    schemas: tuple[Term, ...] = ()
    registers: Registers | None = None
    warp: int = 32


# ---------------------------------------------------------------- sites and places


@dataclass(frozen=True, slots=True)
class Position:
    """Where a site stands in its role: events of one thread follow each other in lexicographic order of
    (segment, u, inner segment, n, place). ``u`` and ``n`` count as 0 where they do not move.
    """

    segment: int
    tiles: bool
    inner: int
    loops: bool
    place: int


@dataclass(frozen=True, slots=True)
class Site:
    """An operation with its place. ``domain``: the constraints in u and n of its events; ``body``: without
    guards.
    """

    role: int
    op: Op
    position: Position
    domain: tuple[Term, ...]
    body: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """Control may pass from one place to another: (site, u, n), under constraints in u and n."""

    start: tuple[int, Term, Term]
    goal: tuple[int, Term, Term]
    given: tuple[Term, ...]


_Exit = tuple[int, Term, Term, tuple[Term, ...]]  # control leaves (site, u, n) under constraints
_EMPTY: Block = (Op(Kind.NOTHING),)
_BEHIND = -(10**6)  # the place behind a loop comes before the block that follows it


@dataclass(slots=True)
class _Walk:
    """The places of all roles in order. Loops get a place before and one behind them."""

    sites: list[Site] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)

    def block(
        self,
        role: int,
        ops: Block,
        at: Position,
        body: tuple[Term, ...],
        u: Term,
        n: Term,
        exits: list[_Exit],
    ) -> list[_Exit]:
        for k, op in enumerate(ops):
            here = Position(at.segment, at.tiles, at.inner, at.loops, at.place + k)
            self.sites.append(Site(role, op, here, (*body, *op.guard), body))
            site = len(self.sites) - 1
            self.flows += [Flow((s, su, sn), (site, u, n), given) for s, su, sn, given in exits]
            exits = [(site, u, n, body)]
        return exits

    def loop(
        self, role: int, loop: Loop, at: Position, body: tuple[Term, ...], u: Term, exits: list[_Exit]
    ) -> list[_Exit]:
        still = (*body, N, -N)
        before = self.block(role, _EMPTY, at, still, u, ZERO, exits)
        inside = (*body, N - loop.lo, loop.hi - N - 1)
        runs = (*body, loop.hi - loop.lo - 1)
        first = len(self.sites)
        within = Position(at.segment, at.tiles, at.inner + 1, True, 0)
        ((last, _, _, _),) = self.block(role, loop.body or _EMPTY, within, inside, u, N, [])
        self.flows += [Flow((s, su, sn), (first, u, loop.lo), runs) for s, su, sn, _ in before]
        self.flows.append(Flow((last, u, N), (first, u, N + 1), (*inside, loop.hi - N - 2)))
        behind = Position(at.segment, at.tiles, at.inner + 2, False, _BEHIND)
        return self.block(role, _EMPTY, behind, still, u, ZERO, [*before, (last, u, loop.hi - 1, runs)])

    def parts(
        self, role: int, parts: tuple[Block | Loop, ...], at: Position, body: tuple[Term, ...], u: Term,
        exits: list[_Exit],
    ) -> list[_Exit]:  # fmt: skip
        for j, part in enumerate(parts):
            here = Position(at.segment, at.tiles, 2 * j, False, 0)
            if isinstance(part, Loop):
                exits = self.loop(role, part, here, body, u, exits)
            else:
                exits = self.block(role, part, here, (*body, N, -N), u, ZERO, exits)
        return exits

    def tiles(self, role: int, tiles: Tiles, segment: int, exits: list[_Exit]) -> list[_Exit]:
        still = (U, -U, N, -N)
        before = self.block(role, _EMPTY, Position(segment, False, 0, False, 0), still, ZERO, ZERO, exits)
        tile = U * tiles.stride + tiles.first
        body = (U, tiles.count - tile - 1)
        first = len(self.sites)
        last = self.parts(role, (_EMPTY, *tiles.body), Position(segment + 1, True, 0, False, 0), body, U, [])
        runs = (tiles.count - tiles.first - 1,)
        self.flows += [Flow((s, su, sn), (first, ZERO, ZERO), runs) for s, su, sn, _ in before]
        more = (*body, tiles.count - tile - tiles.stride - 1)
        self.flows += [Flow((s, su, sn), (first, U + 1, ZERO), more) for s, su, sn, _ in last]
        behind = Position(segment + 2, False, 0, False, _BEHIND)
        out = self.block(role, _EMPTY, behind, still, ZERO, ZERO, before)
        self.flows += [Flow((s, su, sn), (out[0][0], ZERO, ZERO), body) for s, su, sn, _ in last]
        return [(out[0][0], ZERO, ZERO, ())]

    def role(self, number: int, role: Role) -> None:
        exits: list[_Exit] = []
        for i, segment in enumerate(role.body):
            if isinstance(segment, Tiles):
                exits = self.tiles(number, segment, 2 * i, exits)
            else:
                at = Position(2 * i, False, 0, False, 0)
                exits = self.parts(number, (segment,), at, (U, -U), ZERO, exits)


def places(protocol: Protocol) -> tuple[tuple[Site, ...], tuple[Flow, ...]]:
    """All sites of a protocol, and the passages of control between neighbouring places of a role."""
    walk = _Walk()
    for i, role in enumerate(protocol.roles):
        walk.role(i, role)
    return tuple(walk.sites), tuple(walk.flows)


def exists(site: Site, u: Term, n: Term) -> list[Term]:
    """Constraints under which the event (site, u, n) exists."""
    return list(site.domain) if u is U and n is N else [c.put({"u": u, "n": n}) for c in site.domain]


# ---------------------------------------------------------------- what a protocol must be


def malformed(p: Protocol) -> str | None:
    """Why a protocol means nothing; None if it is well formed."""
    threads = [t for r in p.roles for t in r.threads]
    names = p.parameters | set(p.prefix) | set(p.marks)
    if len(set(threads)) != len(threads) or any(not r.threads for r in p.roles) or p.warp < 1:
        return "a thread is in two roles, or a role has none"
    if any(not _NAME.fullmatch(x) or x in _RESERVED for x in names):
        return "a name that cannot stand for a parameter"
    if len(names) != len(p.parameters) + len(p.prefix) + len(p.marks):
        return "one name for two things"
    for term, local in _terms(p):
        strange = (term.names() - p.parameters - local) | (term.functions() - set(p.prefix) - set(p.marks))
        if strange:
            return f"{min(strange)} is not declared"
    for role in p.roles:
        for part in role.body:
            if isinstance(part, Tiles) and not 0 <= part.first < part.stride:
                return f"{role.name}: its tiles are no residue class"
    return next((why for s in places(p)[0] if (why := _op(p, s)) is not None), None)


def _terms(p: Protocol) -> Iterator[tuple[Term, set[str]]]:
    """Every term of a protocol, with the counters that it may name."""
    for ring in p.rings.values():
        yield ring.depth, set()
    for t in (*p.buffers.values(), *p.facts):
        yield t, set()
    for t in p.schemas:
        yield t, {"x"}
    for role in p.roles:
        for part in role.body:
            if isinstance(part, Loop):
                yield from ((t, set()) for t in (part.lo, part.hi))
            if isinstance(part, Tiles):
                yield part.count, set()
                loops = [q for q in part.body if isinstance(q, Loop)]
                yield from ((t, {"u"}) for q in loops for t in (q.lo, q.hi))
    for s in places(p)[0]:
        local = ({"u"} if s.position.tiles else set()) | ({"n"} if s.position.loops else set())
        for t in (s.op.index, *s.op.guard, *(x.slot for x in s.op.touches)):
            yield t, local


_ON_RING = frozenset({Kind.ARRIVE, Kind.EXPECT, Kind.WAIT, Kind.COPY, Kind.INIT, Kind.INVAL})
_MEETS = frozenset({Kind.SYNC, Kind.JOIN})
_GROUPED = frozenset({Kind.ASYNC, Kind.COMMIT, Kind.DRAIN})


#: Which operations a field says something of. Of others nobody compares it, so that it has its default there.
_SAYS: dict[str, frozenset[Kind]] = {
    "index": _ON_RING | _MEETS,
    "parity": frozenset({Kind.WAIT}),
    "count": frozenset({Kind.ARRIVE, Kind.INIT, Kind.DRAIN, Kind.REGISTERS}) | _MEETS,
    "bytes": frozenset({Kind.ARRIVE, Kind.EXPECT, Kind.COPY}),
    "synchronizes": frozenset({Kind.ARRIVE, Kind.WAIT}) | _MEETS,
    "narrow": frozenset({Kind.ARRIVE, Kind.FENCE}) | _MEETS,
    "label": frozenset({Kind.ACCESS, Kind.USE, Kind.ASYNC}),
}
_PLAIN = Op(Kind.NOTHING)


def _op(p: Protocol, s: Site) -> str | None:
    """Why an operation means nothing."""
    op = s.op
    wrong = _surplus(op) or _of_ring(p, op) or _accesses(p, op) or _numbers(p, op)
    if wrong is None and not _own_pieces(p, s):
        wrong = "bytes of threads that are not of the role"
    return wrong and f"{p.roles[s.role].name}, {op.kind.value}: {wrong}"


def _surplus(op: Op) -> str | None:
    """A field that says something of operations of other kinds."""
    for what, kinds in _SAYS.items():
        if op.kind not in kinds and getattr(op, what) != getattr(_PLAIN, what):
            return f"it has no {what}"
    return None


def _of_ring(p: Protocol, op: Op) -> str | None:
    """What is wrong with the ring or the group that an operation names."""
    if (op.kind in _ON_RING or op.kind in _MEETS) != bool(op.ring) or (op.ring and op.ring not in p.rings):
        return "no ring, or one too many"
    if op.ring and p.rings[op.ring].named != (op.kind in _MEETS):
        return f"{op.ring} is of another kind"
    if (op.kind in _GROUPED) != (op.group is not None):
        return "no group, or one too many"
    return None


def _accesses(p: Protocol, op: Op) -> str | None:
    """What is wrong with the accesses of an operation: their buffers, and how they complete."""
    if any(t.buffer not in p.buffers for t in op.touches):
        return "an unknown buffer"
    asynchronous = op.kind in (Kind.COPY, Kind.ASYNC)
    if op.touches and not asynchronous and op.kind is not Kind.ACCESS:
        return "it cannot touch memory"
    if any(t.access.asynchronous != asynchronous for t in op.touches):
        return "accesses of another kind"
    if asynchronous and any(t.version is not None for t in op.touches):
        return "a version of what is written later"
    if op.kind is Kind.ASYNC and any(_GROUP_OF.get(t.access) is not op.group for t in op.touches):
        return "accesses of another group"
    if op.kind is Kind.COPY and any(not t.access.writes or t.access in _GROUP_OF for t in op.touches):
        return "accesses that do not complete on a barrier"
    return None


def _numbers(p: Protocol, op: Op) -> str | None:
    """What is wrong with the threads and bytes that an operation counts."""
    if op.count < 0 or op.bytes < 0 or (op.count < 1 and op.kind in (Kind.ARRIVE, *_MEETS)):
        return "a negative number"
    if op.kind in _MEETS and (op.count != p.rings[op.ring].count or p.rings[op.ring].depth != num(1)):
        return f"another number of threads than {op.ring} has"
    return None


#: Asynchronous accesses that complete with a group of their issuer.
_GROUP_OF = {
    Access.ASYNC_READ: Group.BULK,
    Access.MMA_READ: Group.WGMMA,
    Access.CPASYNC_WRITE: Group.CP_ASYNC,
}


def _own_pieces(p: Protocol, s: Site) -> bool:
    """Bytes are of the role's warps. A lane that others could be elected for counts as any of them."""
    warps = {t // p.warp for t in p.roles[s.role].threads}
    pieces = [piece for t in s.op.touches for piece in t.pieces or ()]
    return all(thread // p.warp in warps and first < end for first, end, thread in pieces)
