"""Ring protocols of the families that occur in practice, each right at every size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from syncverify.checker.kernel.linear import ZERO, Term, apply, num, var
from syncverify.checker.kernel.protocol import (
    Block,
    Group,
    Kind,
    Level,
    Loop,
    N,
    Op,
    Protocol,
    Registers,
    Ring,
    Role,
    Tiles,
    Touch,
    U,
)
from syncverify.model.proxies import Access
from tests.checker.kernel.programs import FEWER

S, T, D, STEPS = var("S"), var("T"), var("D"), var("N")


def P(at: Term) -> Term:
    return apply("P", at)


def wait(ring: str, index: Term, parity: int = 0, guard: tuple[Term, ...] = ()) -> Op:
    return Op(Kind.WAIT, ring, index, parity=parity, guard=guard)


def arrive(ring: str, index: Term, guard: tuple[Term, ...] = (), bytes: int = 0) -> Op:
    return Op(Kind.ARRIVE, ring, index, bytes=bytes, guard=guard)


def copy(ring: str, index: Term, buffer: str, guard: tuple[Term, ...] = ()) -> Op:
    touch = Touch(Access.ASYNC_WRITE, buffer, index)
    return Op(Kind.COPY, ring, index, bytes=2, touches=(touch,), guard=guard)


def load(buffer: str, at: Term) -> Op:
    return Op(Kind.ACCESS, touches=(Touch(Access.GENERIC_READ, buffer, at),))


def store(buffer: str, at: Term) -> Op:
    return Op(Kind.ACCESS, touches=(Touch(Access.GENERIC_WRITE, buffer, at),))


def send(buffer: str, at: Term) -> tuple[Op, Op]:
    """A bulk store that is a group of its own."""
    touch = Touch(Access.ASYNC_READ, buffer, at)
    return Op(Kind.ASYNC, group=Group.BULK, touches=(touch,)), Op(Kind.COMMIT, group=Group.BULK)


def drain(pending: int) -> Op:
    return Op(Kind.DRAIN, group=Group.BULK, count=pending)


FENCE = Op(Kind.FENCE)


def producer(
    index: Term = N, parity: int = 1, rings: tuple[str, str] = ("full", "empty"), buffer: str = "buf",
    guard: tuple[Term, ...] = (),
) -> Block:  # fmt: skip
    full, empty = rings
    return (wait(empty, index, parity, guard), arrive(full, index, bytes=2), copy(full, index, buffer))


def consumer(
    index: Term = N, rings: tuple[str, str] = ("full", "empty"), buffer: str = "buf", fence: bool = True
) -> Block:
    full, empty = rings
    fences = (FENCE,) if fence else ()
    return (wait(full, index), load(buffer, index), *fences, arrive(empty, index))


def made(roles: list[tuple[str, tuple[object, ...], int]], rings: dict[str, Ring], buffers: dict[str, Term],
         parameters: str, facts: tuple[Term, ...], prefix: bool = False) -> Protocol:  # fmt: skip
    """A protocol of warps of one lane each."""
    number = count()
    found = tuple(Role(name, tuple(next(number) for _ in range(lanes)), body) for name, body, lanes in roles)  # type: ignore[arg-type]
    return Protocol(
        found, rings, buffers, frozenset(parameters.split()), facts, ("P",) if prefix else (), warp=1
    )


def plain(consumers: int = 1, lanes: int = 1, guard: bool = False, deferred: bool = False) -> Protocol:
    """One loop of N steps."""
    load_ = producer(guard=(N - S,) if guard else ())
    if deferred:
        step = (wait("full", N), load("buf", N), FENCE, arrive("empty", N - 1, (N - 1,)))
        body: tuple[object, ...] = (Loop(ZERO, STEPS, step), (arrive("empty", STEPS - 1, (STEPS - 1,)),))
    else:
        body = (Loop(ZERO, STEPS, consumer()),)
    roles = [("load", (Loop(ZERO, STEPS, load_),), 1)]
    roles += [(f"math{k}", body, lanes) for k in range(consumers)]
    facts = (S - (2 if deferred else 1), STEPS)
    return made(roles, {"full": Ring(S, 1), "empty": Ring(S, consumers * lanes)}, {"buf": S}, "S N", facts)


def persistent(consumers: int = 1, guard: bool = False, deferred: bool = False) -> Protocol:
    """Tiles with any trip counts, each of which may be 0."""
    lo, hi = P(U), P(U + 1)
    load_ = Tiles(0, 1, T, (Loop(lo, hi, producer(guard=(N - S,) if guard else ())),))
    if deferred:
        step = (wait("full", N), load("buf", N), FENCE, arrive("empty", N - 1, (N - lo - 1,)))
        math = Tiles(0, 1, T, (Loop(lo, hi, step), (arrive("empty", hi - 1, (hi - lo - 1,)),)))
    else:
        math = Tiles(0, 1, T, (Loop(lo, hi, consumer()),))
    roles = [("load", (load_,), 1), *((f"math{k}", (math,), 1) for k in range(consumers))]
    facts = (S - (2 if deferred else 1), T)
    return made(roles, {"full": Ring(S, 1), "empty": Ring(S, consumers)}, {"buf": S}, "S T", facts, True)


def two_rings() -> Protocol:
    """A buffer for each step in a ring of S, and one for each tile in a ring of D."""
    lo, hi = P(U), P(U + 1)
    per_tile = ("qfull", "qempty")
    load_ = Tiles(0, 1, T, (producer(U, rings=per_tile, buffer="q"), Loop(lo, hi, producer())))
    first, last = (wait("qfull", U), load("q", U)), (FENCE, arrive("qempty", U))
    math = Tiles(0, 1, T, (first, Loop(lo, hi, consumer()), last))
    rings = {"full": Ring(S, 1), "empty": Ring(S, 1), "qfull": Ring(D, 1), "qempty": Ring(D, 1)}
    roles = [("load", (load_,), 1), ("math", (math,), 1)]
    return made(roles, rings, {"buf": S, "q": D}, "S D T", (S - 1, D - 1, T), True)


def epilogue(pending: int = 0, depth: int = 1) -> Protocol:
    """A generic store, a fence and a bulk store behind each tile; ``pending`` groups stay open."""
    lo, hi = P(U), P(U + 1)
    out = (drain(pending), store("out", U), FENCE, *send("out", U))
    math = Tiles(0, 1, T, (Loop(lo, hi, consumer()), out))
    load_ = Tiles(0, 1, T, (Loop(lo, hi, producer()),))
    rings = {"full": Ring(S, 1), "empty": Ring(S, 1)}
    roles = [("load", (load_,), 1), ("math", (math, (drain(0),)), 1)]
    return made(roles, rings, {"buf": S, "out": num(depth)}, "S T", (S - 1, T), True)


def store_warp() -> Protocol:
    """An epilogue ring: one role writes, another sends."""
    lo, hi = P(U), P(U + 1)
    load_ = Tiles(0, 1, T, (Loop(lo, hi, producer()),))
    hand_on = (wait("cempty", U, 1), store("out", U), FENCE, arrive("cfull", U))
    math = Tiles(0, 1, T, (Loop(lo, hi, consumer()), hand_on))
    sender = Tiles(0, 1, T, ((wait("cfull", U), *send("out", U), drain(0), arrive("cempty", U)),))
    rings = {"full": Ring(S, 1), "empty": Ring(S, 1), "cfull": Ring(D, 1), "cempty": Ring(D, 1)}
    roles = [("load", (load_,), 1), ("math", (math,), 1), ("store", (sender,), 1)]
    return made(roles, rings, {"buf": S, "out": D}, "S D T", (S - 1, D - 1, T), True)


def ping_pong(named: bool, groups: int = 2) -> Protocol:
    """Groups take tiles in turn; their loops are ordered by barriers."""
    roles: list[tuple[str, tuple[object, ...], int]] = [
        ("load", (Tiles(0, 1, T, (Loop(P(U), P(U + 1), producer()),)),), 1)
    ]
    rings = {"full": Ring(S, 1), "empty": Ring(S, 1)}
    for w in range(groups):
        tile = U * groups + w
        main = Loop(P(tile), P(tile + 1), consumer())
        if not named:
            rings["order"] = Ring(num(1), 1)
            body: tuple[object, ...] = ((wait("order", tile, 1),), main, (arrive("order", tile),))
            roles.append((f"math{w}", (Tiles(w, groups, T, body),), 1))  # type: ignore[arg-type]
            continue
        # generation u of barrier w lets group w into its tile u; the last group lets group 0 go on
        rings[f"o{w}"] = Ring(num(1), 2, named=True)
        enter = (Op(Kind.SYNC, f"o{w}", U, count=2),)
        nxt = U if w + 1 < groups else U + 1
        leave = (Op(Kind.JOIN, f"o{(w + 1) % groups}", nxt, count=2, guard=(T - tile - 2,)),)
        first = ((Op(Kind.JOIN, "o0", ZERO, count=2, guard=(T - 1,)),),) if w == groups - 1 else ()
        roles.append((f"math{w}", (*first, Tiles(w, groups, T, (enter, main, leave))), 1))
    h = var("H")
    half = (T - h * groups, h * groups + (groups - 1) - T) if named else ()
    names = "S T H" if named else "S T"
    return made(roles, rings, {"buf": S}, names, (S - 1, T, *half), True)


def in_two_phases(epilogue: tuple[int, ...] = (0, 1), onward: int = 1) -> Protocol:
    """Ping-pong whose groups hand on twice in each tile: behind the steps, and behind what they store. A
    step is released in the next one, the last one behind the loop. ``epilogue``: which groups wait before
    they store; ``onward``: how far on is the group that steps are handed on to.
    """
    roles: list[tuple[str, tuple[object, ...], int]] = [
        ("load", (Tiles(0, 1, T, (Loop(P(U), P(U + 1), producer()),)),), 1)
    ]
    rings = {"full": Ring(S, 1), "empty": Ring(S, 1)}
    for w, parity in ((0, 1), (1, 0)):  # the first group does not wait in its first tile
        rings |= {f"steps{w}": Ring(num(1), 1), f"store{w}": Ring(num(1), 1)}
        lo, hi = P(U * 2 + w), P(U * 2 + w + 1)
        step = (wait("full", N), load("buf", N), FENCE, arrive("empty", N - 1, (N - lo - 1,)))
        begun = (wait(f"steps{w}", U, parity),)
        behind = (arrive("empty", hi - 1), arrive(f"steps{(w + onward) % 2}", U))
        allowed = (wait(f"store{w}", U, parity),) if w in epilogue else ()
        stored = (*allowed, store("out", ZERO), arrive(f"store{1 - w}", U))
        roles.append((f"math{w}", (Tiles(w, 2, T, (begun, Loop(lo, hi, step), (*behind, *stored))),), 1))
    h = var("H")
    facts = (S - 2, T, T - h * 2, h * 2 + 1 - T)
    return nonempty(made(roles, rings, {"buf": S, "out": num(1)}, "S T H", facts, True))


def prefilled() -> Protocol:
    """The consumer hands out S empty slots first."""
    pre = Loop(ZERO, S, (arrive("empty", N),))
    roles = [
        ("load", (Loop(ZERO, STEPS, producer(parity=0)),), 1),
        ("math", (pre, Loop(ZERO, STEPS, consumer())), 1),
    ]
    rings = {"full": Ring(S, 1), "empty": Ring(S, 1)}
    return made(roles, rings, {"buf": S}, "S N", (S - 1, STEPS))  # type: ignore[arg-type]


def multistage() -> Protocol:
    """One role: S - 1 loads in front, then the load of step n + S - 1 after the read of step n."""
    ahead = S - 1
    there, more = (STEPS - N - 1,), (STEPS - N - ahead - 1,)
    pre = Loop(ZERO, ahead, (arrive("full", N, there, 2), copy("full", N, "buf", there)))
    step = (
        arrive("full", N + ahead, more, 2), copy("full", N + ahead, "buf", more),
        wait("full", N), load("buf", N), FENCE,
    )  # fmt: skip
    roles = [("all", (pre, Loop(ZERO, STEPS, step)), 1)]
    return made(roles, {"full": Ring(S, 1)}, {"buf": S}, "S N", (S - 2, STEPS))  # type: ignore[arg-type]


def initialized() -> Protocol:
    """Barriers that one thread initializes and invalidates; one block-wide barrier before and one after."""
    rings = {x: Ring(S, 1, initialized=True) for x in ("full", "empty")}
    rings |= {x: Ring(num(1), 2, named=True, barrier="0") for x in ("begin", "end")}
    init = Loop(ZERO, S, tuple(Op(Kind.INIT, x, N) for x in ("full", "empty")))
    inval = Loop(ZERO, S, tuple(Op(Kind.INVAL, x, N) for x in ("full", "empty")))
    begin, end = ((Op(Kind.SYNC, x, count=2),) for x in ("begin", "end"))
    roles = [
        ("load", (init, begin, Loop(ZERO, STEPS, producer()), end, inval), 1),
        ("math", (begin, Loop(ZERO, STEPS, consumer()), end), 1),
    ]
    return made(roles, rings, {"buf": S}, "S N", (S - 1, STEPS))  # type: ignore[arg-type]


def tensor_core(pending: int = 1) -> Protocol:
    """Groups of wgmmas, of which one stays pending: step n - 1 is released in step n. No fence is needed."""
    touch = Touch(Access.MMA_READ, "buf", N)
    wgmma = {"group": Group.WGMMA}
    last = STEPS - 1
    step = (
        wait("full", N), Op(Kind.ASYNC, touches=(touch,), **wgmma), Op(Kind.COMMIT, **wgmma),  # type: ignore[arg-type]
        Op(Kind.DRAIN, count=pending, **wgmma), arrive("empty", N - pending, (N - pending,)),  # type: ignore[arg-type]
    )  # fmt: skip
    out = (Op(Kind.DRAIN, count=0, **wgmma), arrive("empty", last, (last,)))  # type: ignore[arg-type]
    body = (Loop(ZERO, STEPS, step), out if pending else out[:1])
    roles = [("load", (Loop(ZERO, STEPS, producer()),), 1), ("math", body, 2)]
    facts = (S - pending - 1, STEPS)
    return made(roles, {"full": Ring(S, 1), "empty": Ring(S, 2)}, {"buf": S}, "S N", facts)  # type: ignore[arg-type]


def elected() -> Protocol:
    """A warp of two lanes waits and reads, meets, and one lane releases for both."""
    step = (wait("full", N), load("buf", N), FENCE, Op(Kind.SYNC, "warp", N, count=2))
    other, leader = Loop(ZERO, STEPS, step), Loop(ZERO, STEPS, (*step, arrive("empty", N)))
    rings = {"full": Ring(S, 1), "empty": Ring(S, 1), "warp": Ring(num(1), 2, named=True, level=Level.WARP)}
    roles = (
        Role("load", (0,), (Loop(ZERO, STEPS, producer()),)),
        Role("leader", (2,), (leader,)),
        Role("other", (3,), (other,)),
    )
    return Protocol(roles, rings, {"buf": S}, frozenset({"S", "N"}), (S - 1, STEPS), warp=2)


def cluster() -> Protocol:
    """Two blocks; block 0 copies each slot to both, which both announce; both release to block 0."""
    ranks = (0, 1)
    rings = {f"full{r}": Ring(S, 1) for r in ranks} | {"empty": Ring(S, 2)}
    copies = tuple(copy(f"full{r}", N, f"buf{r}") for r in ranks)
    load0 = (wait("empty", N, 1), arrive("full0", N, bytes=2), *copies)
    roles: list[tuple[str, tuple[object, ...], int]] = [("load0", (Loop(ZERO, STEPS, load0),), 1)]
    for r in ranks:
        step = (wait(f"full{r}", N), load(f"buf{r}", N), FENCE, arrive("empty", N))
        if r:
            step = (arrive("full1", N, bytes=2), *step)
        roles.append((f"math{r}", (Loop(ZERO, STEPS, step),), 1))
    return made(roles, rings, {f"buf{r}": S for r in ranks}, "S N", (S - 1, STEPS))


def one_shot() -> Protocol:
    """A barrier that is used once, beside a ring."""
    first = (arrive("once", ZERO, bytes=2), copy("once", ZERO, "q"))
    step = (wait("full", N), load("buf", N), load("q", ZERO), FENCE, arrive("empty", N))
    roles = [
        ("load", (first, Loop(ZERO, STEPS, producer())), 1),
        ("math", ((wait("once", ZERO),), Loop(ZERO, STEPS, step)), 1),
    ]
    rings = {"full": Ring(S, 1), "empty": Ring(S, 1), "once": Ring(num(1), 1)}
    return made(roles, rings, {"buf": S, "q": num(1)}, "S N", (S - 1, STEPS))  # type: ignore[arg-type]


def copies_by_threads() -> Protocol:
    """cp.async: one role copies S - 1 steps ahead, waits for its groups, meets the reader."""
    touch = Touch(Access.CPASYNC_WRITE, "buf", N + 1)
    group = {"group": Group.CP_ASYNC}
    there = (STEPS - N - 2,)
    lead = Touch(Access.CPASYNC_WRITE, "buf", ZERO)
    first = (Op(Kind.ASYNC, touches=(lead,), guard=(STEPS - 1,), **group), Op(Kind.COMMIT, **group))  # type: ignore[arg-type]
    step = (
        Op(Kind.ASYNC, touches=(touch,), guard=there, **group), Op(Kind.COMMIT, **group),  # type: ignore[arg-type]
        Op(Kind.DRAIN, count=1, **group), load("buf", N),  # type: ignore[arg-type]
    )  # fmt: skip
    roles = [("all", (first, Loop(ZERO, STEPS, step), (Op(Kind.DRAIN, count=0, **group),)), 1)]  # type: ignore[arg-type]
    return made(roles, {}, {"buf": num(2)}, "N", (STEPS,))  # type: ignore[arg-type]


def register_pool() -> Protocol:
    """The loader gives registers back, and the others ask for them."""
    p = plain()
    few, many = ((Op(Kind.REGISTERS, count=n),) for n in (24, 240))
    load_, math = p.roles
    roles = (replace(load_, body=(few, *load_.body)), replace(math, body=(many, *math.body)))
    return replace(p, roles=roles, registers=Registers(132, 264))


def registers_twice() -> Protocol:
    """The first has many registers before and behind a meeting, the other in between; both meet twice."""
    rings = {x: Ring(num(1), 2, named=True) for x in ("begin", "end")}
    meets = {x: Op(Kind.SYNC, x, count=2) for x in rings}
    few, many, some = (Op(Kind.REGISTERS, count=n) for n in (24, 240, 132))
    first = (some, many, meets["begin"], few, meets["end"], many)
    second = (few, meets["begin"], many, few, meets["end"])
    p = made([("x", (first,), 1), ("y", (second,), 1)], rings, {}, "", ())
    x, y = p.roles
    return replace(p, registers=Registers(132, 264), roles=(x, replace(y, threads=(4,))), warp=1)


def told(first: int = 2, between: int = 3) -> Protocol:
    """A word that is stored twice, and read between the two and at the end."""
    rings = {x: Ring(num(1), 2, named=True) for x in ("a", "b", "c")}
    a, b, c = (Op(Kind.SYNC, x, count=2) for x in rings)

    def access(kind: Access, version: int) -> Op:
        return Op(Kind.ACCESS, touches=(Touch(kind, "word", ZERO, None, version),))

    def write(version: int) -> Op:
        return access(Access.GENERIC_WRITE, version)

    roles = [
        ("x", ((write(first), a, b, write(4), c),), 1),
        ("y", ((a, access(Access.GENERIC_READ, between), b, c, access(Access.GENERIC_READ, 5)),), 1),
    ]
    return made(roles, rings, {"word": num(1)}, "", ())


def unguarded_drain() -> Protocol:
    """The deferred release is drained even behind an empty tile."""
    p = persistent(deferred=True)
    (tiles,) = p.roles[1].body
    assert isinstance(tiles, Tiles)
    loop, (last,) = tiles.body  # type: ignore[misc]
    body = (loop, (replace(last, guard=()),))
    return replace(p, roles=(p.roles[0], replace(p.roles[1], body=(replace(tiles, body=body),))))


def nonempty(p: Protocol) -> Protocol:
    """With the schema that no tile is empty."""
    x = var("x")
    return replace(p, schemas=(P(x + 1) - P(x) - 1,))


def later_meetings(first: tuple[int | None, ...] = (1, 1)) -> Protocol:
    """Consumers meet in each step of a tile but its first. ``first``: the step from which on each of them
    comes; None: it never does.
    """
    p, lo, x = nonempty(persistent(consumers=len(first))), P(U), var("x")
    rings = {**p.rings, "meet": Ring(num(1), len(first), named=True)}

    def meeting(role: Role, since: int | None) -> Role:
        index = N - lo - 1 + apply(FEWER, U)
        meet = Op(Kind.SYNC, "meet", index, count=len(first), guard=(N - lo - (since or 0),))
        (tiles,) = role.body
        assert isinstance(tiles, Tiles)
        (loop,) = tiles.body
        assert isinstance(loop, Loop)
        loop = replace(loop, body=(*loop.body, *(() if since is None else (meet,))))
        return replace(role, body=(replace(tiles, body=(loop,)),))

    roles = (p.roles[0], *map(meeting, p.roles[1:], first))
    step = apply(FEWER, x + 1) - apply(FEWER, x) - P(x + 1) + P(x) + 1
    return replace(p, roles=roles, rings=rings, prefix=(*p.prefix, FEWER), schemas=(*p.schemas, step, -step))


FAMILIES: dict[str, Callable[[], Protocol]] = {
    "plain": plain,
    "plain, two consumers": lambda: plain(consumers=2),
    "plain, two lanes": lambda: plain(lanes=2),
    "plain, waits from step S on": lambda: plain(guard=True),
    "plain, deferred release": lambda: plain(deferred=True),
    "prefilled": prefilled,
    "multistage": multistage,
    "persistent": persistent,
    "persistent, two consumers": lambda: persistent(consumers=2),
    "persistent, waits from step S on": lambda: persistent(guard=True),
    "persistent, deferred release": lambda: persistent(deferred=True),
    "two rings": two_rings,
    "epilogue": epilogue,
    "epilogue, one group pending": lambda: epilogue(1, 2),
    "store warp": store_warp,
    "ping-pong, mbarrier": lambda: ping_pong(False),
    "ping-pong, named barriers": lambda: ping_pong(True),
    "ping-pong, in two phases": in_two_phases,
    "init and inval": initialized,
    "wgmma, one group pending": tensor_core,
    "wgmma, none pending": lambda: tensor_core(0),
    "elected lane": elected,
    "cluster of two": cluster,
    "one-shot barrier": one_shot,
    "cp.async groups": copies_by_threads,
    "register pool": register_pool,
    "registers that change twice": registers_twice,
    "a word that steers": told,
    "persistent, meetings of later steps": later_meetings,
    "nonempty tiles, unguarded drain": lambda: nonempty(unguarded_drain()),
}
