"""A second checker of proofs of protocols, written from docs/proof_format.md and docs/kernel.md.

    python -m benchmarks.checker.second_kernel PROTOCOL.json PROOF.json [--strict]

It shares no line with ``syncverify/checker/kernel`` and imports nothing of syncverify: both data are JSON. It
ends with 0 if it accepts, 1 if it rejects, and says why. It is compared with the kernel in
``tests/checker/kernel/test_second_kernel.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: A linear term: a frozen mapping from atoms to factors; the atom "" is the number 1. An atom is a name or
#: ("call", function, term).
T = frozenset[tuple[Any, int]]
Event = tuple[int, T, T]  # site, u, n
Step = tuple[int, str, T, T]  # site, "in" | "out" | "done", u, n
#: Segment, whether in tiles, inner segment, whether in a loop, place.
Where = tuple[int, bool, int, bool, int]
BEHIND = -(10**6)
LIMIT = 2**20 - 1


class No(Exception):  # noqa: N818 -- a verdict
    """The proof is not accepted."""


def need(holds: object, why: str) -> None:
    if not holds:
        raise No(why)


# ---------------------------------------------------------------- terms


def made(parts: dict[Any, int]) -> T:
    return frozenset((a, k) for a, k in parts.items() if k)


def lin(*some: tuple[int, T]) -> T:
    out: dict[Any, int] = {}
    for factor, t in some:
        for a, k in t:
            out[a] = out.get(a, 0) + factor * k
    return made(out)


def const(c: int) -> T:
    return made({"": c})


def name(x: str) -> T:
    return made({x: 1})


def plus(a: T, b: T | int) -> T:
    return lin((1, a), (1, b if isinstance(b, frozenset) else const(b)))


def minus(a: T, b: T | int) -> T:
    return lin((1, a), (-1, b if isinstance(b, frozenset) else const(b)))


def call(f: str, t: T) -> T:
    return made({("call", f, t): 1})


def put(t: T, values: dict[str, T]) -> T:
    some = []
    for a, k in t:
        if isinstance(a, tuple):
            some.append((k, call(a[1], put(a[2], values))))
        else:
            some.append((k, values[a] if a in values else made({a: 1})))
    return lin(*some)


def at(t: T, u: T, n: T) -> T:
    return put(t, {"u": u, "n": n})


def number(t: T) -> int | None:
    return next(iter(t))[1] if t and all(a == "" for a, _ in t) else 0 if not t else None


def mentioned(t: T) -> tuple[set[str], set[str]]:
    """Names and functions of a term."""
    names, functions = set(), set()
    for a, _ in t:
        if isinstance(a, tuple):
            functions.add(a[1])
            inside = mentioned(a[2])
            names |= inside[0]
            functions |= inside[1]
        elif a != "":
            names.add(a)
    return names, functions


def same(a: T, b: T) -> list[T]:
    return [minus(a, b), minus(b, a)]


def neg(t: T) -> T:
    return lin((-1, t))


U, N, U2, N2, J = (name(x) for x in ("u", "n", "u'", "n'", "j"))
ZERO: T = frozenset()


def integer(x: Any, least: int | None = None) -> int:
    need(type(x) is int and (least is None or x >= least), f"{x!r} is no number that may stand there")
    return int(x)


def array(x: Any, length: int | None = None) -> list[Any]:
    need(type(x) is list and (length is None or len(x) == length), f"{str(x)[:40]} is no such list")
    return list(x)


def term(x: Any) -> T:
    c, *parts = array(x)
    out: dict[Any, int] = {"": integer(c)}
    for p in parts:
        k, a = array(p, 2)
        if type(a) is not str:
            f, argument = array(a, 2)
            need(type(f) is str, "a function without a name")
            a = ("call", f, term(argument))
        need(a not in out and integer(k) != 0, "an atom twice, or with the factor 0")
        out[a] = k
    return made(out)


# ---------------------------------------------------------------- protocols


class Site:
    """An operation at its place."""

    def __init__(self, role: int, op: dict[str, Any], where: Where, body: list[T]):
        self.role, self.op, self.where, self.body = role, op, where, body
        self.kind, self.ring = op["kind"], op["ring"]
        self.index = term(op["index"])
        self.guard = [term(g) for g in op["guard"]]
        self.touches = [(a, b, term(s), pieces, version) for a, b, s, pieces, version in op["touches"]]

    def exists(self, u: T, n: T) -> list[T]:
        return [at(c, u, n) for c in (*self.body, *self.guard)]


NOTHING = {
    "kind": "nothing",
    "ring": "",
    "index": [0],
    "parity": 0,
    "count": 1,
    "bytes": 0,
    "group": None,
    "touches": [],
    "guard": [],
    "synchronizes": True,
    "narrow": False,
    "label": "",
}
ARRIVALS, MEET = ("arrive", "expect", "copy"), ("sync", "join")
FLYING = ("copy", "async")


class Places:
    """Sites in their order, and the passages of control between neighbours: (from, to, given)."""

    def __init__(self, roles: list[dict[str, Any]]):
        self.sites: list[Site] = []
        self.flows: list[tuple[Event, Event, list[T]]] = []
        for i, role in enumerate(roles):
            exits: list[tuple[Event, list[T]]] = []
            for k, part in enumerate(role["body"]):
                if "tiles" in part:
                    exits = self.tiles(i, part["tiles"], 2 * k, exits)
                else:
                    exits = self.part(i, part, (2 * k, False), 0, [U, neg(U)], ZERO, exits)

    def block(
        self,
        role: int,
        ops: list[Any],
        where: Where,
        body: list[T],
        u: T,
        n: T,
        exits: list[tuple[Event, list[T]]],
    ) -> list[tuple[Event, list[T]]]:
        for k, op in enumerate(ops):
            self.sites.append(Site(role, op, (*where[:4], where[4] + k), body))
            here = (len(self.sites) - 1, u, n)
            self.flows += [(e, here, given) for e, given in exits]
            exits = [(here, body)]
        return exits

    def part(
        self,
        role: int,
        part: dict[str, Any],
        segment: tuple[int, bool],
        inner: int,
        body: list[T],
        u: T,
        exits: list[tuple[Event, list[T]]],
    ) -> list[tuple[Event, list[T]]]:
        still = [*body, N, neg(N)]
        if "block" in part:
            return self.block(role, part["block"], (*segment, inner, False, 0), still, u, ZERO, exits)
        lo, hi, ops = part["loop"]
        lo, hi = term(lo), term(hi)
        before = self.block(role, [NOTHING], (*segment, inner, False, 0), still, u, ZERO, exits)
        inside = [*body, minus(N, lo), minus(minus(hi, N), 1)]
        runs = [*body, minus(minus(hi, lo), 1)]
        first = len(self.sites)
        where = (*segment, inner + 1, True, 0)
        ((last, _),) = self.block(role, ops or [NOTHING], where, inside, u, N, [])
        self.flows += [(e, (first, u, lo), runs) for e, _ in before]
        self.flows.append((last, (first, u, plus(N, 1)), [*inside, minus(minus(hi, N), 2)]))
        leaves = ((last[0], u, minus(hi, 1)), runs)
        return self.block(
            role, [NOTHING], (*segment, inner + 2, False, BEHIND), still, u, ZERO, [*before, leaves]
        )

    def tiles(
        self, role: int, tiles: list[Any], segment: int, exits: list[tuple[Event, list[T]]]
    ) -> list[tuple[Event, list[T]]]:
        first_tile, stride, count, parts = tiles
        count = term(count)
        still = [U, neg(U), N, neg(N)]
        before = self.block(role, [NOTHING], (segment, False, 0, False, 0), still, ZERO, ZERO, exits)
        tile = plus(lin((stride, U)), first_tile)
        body = [U, minus(minus(count, tile), 1)]
        first, last = len(self.sites), []
        for j, part in enumerate([{"block": [NOTHING]}, *parts]):
            last = self.part(role, part, (segment + 1, True), 2 * j, body, U, last)
        self.flows += [(e, (first, ZERO, ZERO), [minus(count, first_tile + 1)]) for e, _ in before]
        more = [*body, minus(minus(count, tile), stride + 1)]
        self.flows += [(e, (first, plus(U, 1), ZERO), more) for e, _ in last]
        ((out, _),) = self.block(
            role, [NOTHING], (segment + 2, False, 0, False, BEHIND), still, ZERO, ZERO, before
        )
        self.flows += [(e, out, body) for e, _ in last]
        return [(out, [])]


#: What a pair of accesses to the same bytes owes, by the first and the second: nothing, an order, an order
#: through a proxy fence (bridge), a completion and an order, or all three. docs/model.md prints the table.
GENERIC = ("generic_read", "generic_write")
WRITES = ("generic_write", "async_write", "cpasync_write", "stasync_write")
BY_THE_ASYNC_PROXY = ("async_read", "async_write", "mma_read")
COMPLETES_BY_GROUP = {"async_read": "bulk", "mma_read": "wgmma", "cpasync_write": "cp_async"}


def conflict(first: str, second: str) -> tuple[bool, str] | None:
    """Whether a fence is due, and the contested point; None where two reads meet."""
    if first not in WRITES and second not in WRITES:
        return None
    crosses = second in BY_THE_ASYNC_PROXY
    if first in GENERIC:
        return crosses, "K1" if first == "generic_read" and crosses else ""
    if first in ("cpasync_write", "stasync_write"):
        return crosses, "K6" if first == "cpasync_write" and crosses else ""
    return False, ""


# ---------------------------------------------------------------- the checker


class Checker:
    def __init__(self, protocol: dict[str, Any], proof: dict[str, Any], strict: bool = False):
        self.p, self.strict = protocol, strict
        self.warp = protocol["warp"]
        self.parameters = set(protocol["parameters"])
        self.prefix, self.marks = protocol["prefix"], protocol["marks"]
        self.schemas = [term(s) for s in protocol["schemas"]]
        self.rings = {x: {**r, "depth": term(r["depth"])} for x, r in protocol["rings"].items()}
        self.buffers = {x: term(d) for x, d in protocol["buffers"].items()}
        self.roles = protocol["roles"]
        self.premises = [term(f) for f in protocol["facts"]]
        for f in self.prefix:
            self.premises += same(call(f, ZERO), ZERO)
        self.proof = proof
        self.seen: set[str] = set()

    # -------------------------------------------------------- reading

    def read(self) -> None:
        fields = {"format", "version", "terms", "shift", "end", "rank", "trees"}
        need(type(self.proof) is dict and set(self.proof) == fields, "other fields")
        need(self.proof["format"] == "syncverify proof" and self.proof["version"] == 2, "another version")
        need(type(self.proof["version"]) is int, "another version")
        self.terms = [term(t) for t in array(self.proof["terms"])]
        shift = [array(x, 2) for x in array(self.proof["shift"])]
        self.shift = {integer(i, 0): integer(k) for i, k in shift}
        need(len(self.shift) == len(shift), "a shift twice")
        need(type(self.proof["end"]) is dict and type(self.proof["trees"]) is dict, "no object")
        self.end = {r: self.t(t) for r, t in self.proof["end"].items()}
        self.rank: dict[tuple[int, bool], list[T]] = {}
        for x in array(self.proof["rank"]):
            i, done, some = array(x, 3)
            need(type(done) is bool and (integer(i, 0), done) not in self.rank, "a rank twice")
            self.rank[i, done] = [self.t(t) for t in array(some)]
        for tree in self.proof["trees"].values():
            self.shaped(tree)

    def shaped(self, x: Any, depth: int = 0) -> None:
        """A tree has the form of the grammar, in branches that nobody looks at too."""
        need(depth <= 120, "nested too deeply")
        match array(x):
            case ["split", t, yes, no]:
                self.t(t)
                kids = [yes, no]
            case ["residues", t, n, some]:
                self.t(t)
                need(type(n) is str, "no name")
                kids = array(some)
            case ["tile", f, t, top, n, sums, kid]:
                need(type(f) is str and type(n) is str, "no name")
                self.t(t), self.t(top)
                [self.sum(s) for s in array(sums, 3)]
                kids = [kid]
            case ["monotone", f, a, b, s, kid]:
                need(type(f) is str, "no name")
                self.t(a), self.t(b), self.sum(s)
                kids = [kid]
            case ["congruent", f, a, b, sums, kid]:
                need(type(f) is str, "no name")
                self.t(a), self.t(b)
                [self.sum(s) for s in array(sums, 2)]
                kids = [kid]
            case ["instance", i, t, kid]:
                integer(i, 0), self.t(t)
                kids = [kid]
            case ["absurd", s]:
                self.sum(s)
                kids = []
            case ["leaf", payload, sums]:
                [self.sum(s) for s in array(sums)]
                self.paid(payload, depth)
                kids = []
            case _:
                raise No("no tree")
        for kid in kids:
            self.shaped(kid, depth + 1)

    def paid(self, payload: Any, depth: int) -> None:
        match payload:
            case ["follows"] | ["same"]:
                return
            case ["grows", level]:
                integer(level, 0)
            case ["along" | "reverse", hops]:
                for hop in array(hops):
                    how, step = array(hop, 2)
                    self.step(step)
                    match how:
                        case ["program", level]:
                            integer(level, 0)
                        case ["same"] | ["turn"]:
                            pass
                        case ["drained", commits, levels, twin]:
                            [self.step(c) for c in array(commits)]
                            [integer(v, 0) for v in array(levels)]
                            need(twin is None or integer(twin, 0) >= 0, "no twin")
                        case _:
                            raise No("no hop")
            case ["events", events, only]:
                for e in array(events):
                    i, u, n = array(e, 3)
                    integer(i, 0), self.t(u), self.t(n)
                numbers = []
                for o in array(only):
                    i, tree = array(o, 2)
                    numbers.append(integer(i, 0))
                    self.shaped(tree, depth + 1)
                need(len(set(numbers)) == len(numbers), "a site twice")
            case _:
                raise No("no payload")

    def t(self, i: Any) -> T:
        need(integer(i, 0) < len(self.terms), "no such term")
        return self.terms[i]

    def sum(self, x: Any) -> tuple[int, list[tuple[int, int]]]:
        d, *pairs = array(x)
        return integer(d, 1), [(integer(array(p, 2)[0], 0), integer(p[1], 0)) for p in pairs]

    def step(self, x: Any) -> Step:
        i, half, u, n = array(x, 4)
        need(half in ("in", "out", "done"), "no point of an event")
        return integer(i, 0), half, self.t(u), self.t(n)

    # -------------------------------------------------------- sums and trees

    def follows(self, known: list[T], goal: T, by: Any) -> None:
        d, pairs = self.sum(by)
        need(all(i < len(known) for i, _ in pairs), "no such premise")
        rest = number(lin((d, goal), *((-m, known[i]) for i, m in pairs)))
        need(rest is not None and rest >= 1 - d, "a sum shows something else")

    def scoped(self, scope: frozenset[str], *some: T) -> None:
        for t in some:
            names, functions = mentioned(t)
            need(names <= scope and functions <= {*self.prefix, *self.marks}, "a name without a value")

    def fresh(self, x: str, scope: frozenset[str]) -> frozenset[str]:
        need(x.startswith("%") and x not in scope, "no new name")
        return scope | {x}

    def tree(
        self,
        known: list[T],
        x: Any,
        scope: frozenset[str],
        leaf: Callable[[Any, list[T], frozenset[str]], list[T]],
    ) -> None:
        kind, *rest = x
        if kind == "split":
            c = self.t(rest[0])
            self.scoped(scope, c)
            self.tree([*known, c], rest[1], scope, leaf)
            self.tree([*known, minus(neg(c), 1)], rest[2], scope, leaf)
        elif kind == "residues":
            c, v, kids = self.t(rest[0]), rest[1], rest[2]
            self.scoped(scope, c)
            inside = self.fresh(v, scope)
            need(kids, "no residue")
            for w, kid in enumerate(kids):
                value = plus(lin((len(kids), name(v))), w)
                self.tree([*known, *same(c, value)], kid, inside, leaf)
        elif kind == "tile":
            f, c, top, v, sums, kid = rest
            c, top = self.t(c), self.t(top)
            self.scoped(scope, c, top)
            inside = self.fresh(v, scope)
            need(f in self.prefix, "no prefix function")
            for goal, by in zip((c, minus(minus(call(f, top), c), 1), top), sums, strict=True):
                self.follows(known, goal, by)
            x_ = name(v)
            more = [
                minus(c, call(f, x_)),
                minus(minus(call(f, plus(x_, 1)), c), 1),
                x_,
                minus(minus(top, x_), 1),
            ]
            self.tree([*known, *more], kid, inside, leaf)
        elif kind == "monotone":
            f, a, b, by, kid = rest
            a, b = self.t(a), self.t(b)
            self.scoped(scope, a, b)
            need(f in self.prefix, "no prefix function")
            self.follows(known, minus(b, a), by)
            self.tree([*known, minus(call(f, b), call(f, a))], kid, scope, leaf)
        elif kind == "congruent":
            f, a, b, (up, down), kid = rest
            a, b = self.t(a), self.t(b)
            self.scoped(scope, a, b)
            need(f in self.prefix or f in self.marks, "no function")
            self.follows(known, minus(b, a), up)
            self.follows(known, minus(a, b), down)
            self.tree([*known, *same(call(f, a), call(f, b))], kid, scope, leaf)
        elif kind == "instance":
            i, c, kid = rest
            c = self.t(c)
            self.scoped(scope, c)
            need(i < len(self.schemas), "no such schema")
            self.tree([*known, put(self.schemas[i], {"x": c})], kid, scope, leaf)
        elif kind == "absurd":
            self.follows(known, const(-1), rest[0])
        else:
            payload, sums = rest
            wanted = leaf(payload, known, scope)
            need(len(wanted) == len(sums), "sums for other needs")
            for goal, by in zip(wanted, sums, strict=True):
                self.follows(known, goal, by)

    def owes(self, key: str, given: list[T], goal: Callable[[Any, frozenset[str]], list[T]]) -> None:
        if any(c is not None and c < 0 for c in map(number, given)):
            return
        self.seen.add(key)
        need(key in self.proof["trees"], f"no tree for {key}")
        scope = frozenset(self.parameters | {"u", "n", "u'", "n'"})
        try:
            self.tree([*self.premises, *given], self.proof["trees"][key], scope, lambda x, _, s: goal(x, s))
        except No as e:
            raise No(f"{key}: {e}") from None

    # -------------------------------------------------------- the graph

    def threads(self, i: int) -> list[int]:
        return list(self.roles[self.sites[i].role]["threads"])

    def warps(self, i: int) -> set[int]:
        return {t // self.warp for t in self.threads(i)}

    def near(self, a: int, b: int) -> int:
        """0: one thread, 1: one warp, 2: one warpgroup, 3: any."""
        if a == b:
            return 0
        return (
            1
            if a // self.warp == b // self.warp
            else 2
            if a // (4 * self.warp) == b // (4 * self.warp)
            else 3
        )

    def between(self, i: int, k: int) -> int:
        every = {*self.threads(i), *self.threads(k)}
        return 0 if len(every) == 1 else max(1, self.near(min(every), max(every)))

    def turn(self, i: int, u: T, n: T) -> T:
        s = self.sites[i]
        k = self.shift.get(i, 0) * (-1 if s.kind == "wait" else 1)
        return lin((1, at(s.index, u, n)), (k, self.rings[s.ring]["depth"]))

    def position(self, s: Step) -> list[T]:
        segment, tiles, inner, loops, place = self.sites[s[0]].where
        half = const(0 if s[1] == "in" else 1)
        return [
            const(segment),
            s[2] if tiles else ZERO,
            const(inner),
            s[3] if loops else ZERO,
            const(place),
            half,
        ]

    def later(self, low: list[T], high: list[T], level: int) -> list[T]:
        need(0 <= level < min(len(low), len(high)), "no such level")
        return [
            *(minus(b, a) for a, b in zip(low[:level], high[:level], strict=True)),
            minus(minus(high[level], low[level]), 1),
        ]

    def program(self, a: Step, b: Step, level: int) -> list[T]:
        need("done" not in (a[1], b[1]), "a completion has no place in a program")
        need(self.sites[a[0]].role == self.sites[b[0]].role, "events of different threads")
        return [*self.later(self.position(a), self.position(b), level), *self.sites[b[0]].exists(b[2], b[3])]

    def equal_turns(self, a: Step, b: Step) -> list[T]:
        turns = same(self.turn(a[0], a[2], a[3]), self.turn(b[0], b[2], b[3]))
        return [*self.sites[b[0]].exists(b[2], b[3]), *turns]

    def path(
        self,
        start: Step,
        hops: Any,
        scope: frozenset[str],
        causal: bool = False,
        level: int = 0,
        bridge: bool = False,
        by_use: bool = False,
    ) -> tuple[list[T], Step]:
        out: list[T] = []
        here, reach, own, released = start, 0, True, False
        bridged = not bridge
        for k, (how, raw) in enumerate(hops):
            step = self.step(raw)
            need(step[0] < len(self.sites), "no such site")
            self.scoped(scope, step[2], step[3])
            a, b = self.sites[here[0]], self.sites[step[0]]
            kind, shows = how[0], causal
            if causal and kind == "turn" and a.op["narrow"]:
                need(
                    not self.strict and start[1] == "done",
                    "a release of block scope at another block's barrier",
                )
            if causal and kind == "turn" and own and released:
                inits = a.kind == b.kind == "sync" and a.ring == b.ring and self.rings[a.ring]["visible"]
                shows = not inits
            if k == 0 and bridge and by_use and not self.strict:
                label = self.sites[start[0]].op["label"]
                uses = (
                    b.kind == "use" and label and label == b.op["label"] and step[1:] == ("out", *start[2:])
                )
                bridged = bridged or bool(
                    kind == "program" and start[1] == "out" and uses and self.sites[start[0]].role == b.role
                )
            if kind == "program":
                out += self.program(here, step, how[1])
            elif kind == "same":
                allowed = [("in", "out")] + ([("out", "done")] if a.kind in FLYING and not shows else [])
                need(here[0] == step[0] and (here[1], step[1]) in allowed, "not one event")
                out += [*same(here[2], step[2]), *same(here[3], step[3])]
            elif kind == "turn" and b.kind == "wait":
                ends = "done" if a.kind == "copy" else "out"
                need(a.kind in ARRIVALS and a.ring == b.ring, "no contribution to this ring")
                need(
                    (here[1], step[1]) == (ends, "out"), "from the end of a contribution to the end of a wait"
                )
                if shows:
                    good = a.kind != "expect" and a.op["synchronizes"] and b.op["synchronizes"]
                    need(good and (a.kind != "copy" or k == 0), "this shows nothing")
                out += self.equal_turns(here, step)
                reach = 3
            elif kind == "turn":
                need(a.kind in MEET and b.kind == "sync" and a.ring == b.ring, "not one barrier")
                need((here[1], step[1]) == ("in", "out"), "from entering to leaving")
                ring = self.rings[a.ring]
                if shows:
                    need(
                        ring["visible"] and a.op["synchronizes"] and b.op["synchronizes"],
                        "this shows nothing",
                    )
                need(ring["level"] == 3 or self.warps(here[0]) == self.warps(step[0]), "other warps")
                out += self.equal_turns(here, step)
                reach = max(reach, ring["level"])
            else:
                out += self.drained(here, step, how, scope)
                need(not shows or k == 0, "a drain shows completions")
                if a.op["group"] == "wgmma":
                    reach = max(reach, 1 if self.strict else 2)
            own = own and kind in ("program", "same")
            inits = self.sites[start[0]].kind == "init" and b.kind == "init fence" and step[1] == "out"
            released = released or (own and inits)
            if b.kind == "fence" and step[1] == "out":
                enough = own if b.op["narrow"] else not self.strict
                bridged = bridged or reach == 0 or enough
            here = step
        need(reach >= level, "the path does not reach every thread")
        need(bridged, "no proxy fence")
        return out, here

    def drained(self, here: Step, step: Step, how: Any, scope: frozenset[str]) -> list[T]:
        a, b = self.sites[here[0]], self.sites[step[0]]
        commits, levels, twin = [self.step(c) for c in how[1]], how[2], how[3]
        group = a.op["group"]
        need(a.kind == "async" and b.kind == "drain" and group == b.op["group"], "no drain of this group")
        need((here[1], step[1]) == ("done", "out"), "from a completion to the end of a drain")
        issued = here[0]
        if twin is not None:
            need(twin < len(self.sites), "no such site")
            other = self.sites[twin]
            label = a.op["label"]
            need(label and other.op["label"] == label and group == "wgmma", "not one instruction")
            need(other.kind == "async" and other.op["group"] == group, "not one instruction")
            need(self.warps(twin) == self.warps(here[0]), "other warps")
            issued = twin
        for i, half, u, n in commits:
            need(i < len(self.sites), "no such site")
            self.scoped(scope, u, n)
            c = self.sites[i]
            need((c.kind, half, c.op["group"]) == ("commit", "out", group), "no commit of this group")
        need(len(commits) == b.op["count"] + 1 and len(levels) == len(commits) + 1, "other groups")
        chain = [(issued, "out", here[2], here[3]), *commits, step]
        return [t for x, y, v in zip(chain, chain[1:], levels, strict=False) for t in self.program(x, y, v)]

    # -------------------------------------------------------- goals

    def plain(self, *some: T) -> Callable[[Any, frozenset[str]], list[T]]:
        def goal(payload: Any, _: frozenset[str]) -> list[T]:
            need(payload == ["follows"], "no path is asked for")
            return list(some)

        return goal

    def reaches(self, start: Step, end: Step, **demand: Any) -> Callable[[Any, frozenset[str]], list[T]]:
        def goal(payload: Any, scope: frozenset[str]) -> list[T]:
            need(payload[0] == "along", "a path is asked for")
            out, last = self.path(start, payload[1], scope, **demand)
            need(last == end, "the path ends elsewhere")
            return out

        return goal

    def reaches_some(
        self, start: Step, sites: list[int], half: str, turn: T | None
    ) -> Callable[[Any, frozenset[str]], list[T]]:
        def goal(payload: Any, scope: frozenset[str]) -> list[T]:
            need(payload[0] == "along", "a path is asked for")
            out, last = self.path(start, payload[1], scope)
            need(last[0] in sites and last[1] == half, "the path ends at no such event")
            return out if turn is None else [*out, *same(self.turn(last[0], last[2], last[3]), turn)]

        return goal

    # -------------------------------------------------------- obligations

    def of(self, ring: str, *kinds: str) -> list[int]:
        return [i for i, s in enumerate(self.sites) if s.ring == ring and s.kind in kinds]

    def one(self, i: int) -> list[T]:
        return self.sites[i].exists(U, N)

    def two(self, i: int, k: int) -> list[T]:
        return [*self.sites[i].exists(U, N), *self.sites[k].exists(U2, N2)]

    def finished(self, i: int) -> str:
        kind = self.sites[i].kind
        return "done" if kind in FLYING else "in" if kind in MEET else "out"

    def turns(self, x: str) -> None:
        r = self.rings[x]
        depth, end, named = r["depth"], self.end[x], r["named"]
        lands, waits = self.of(x, *(MEET if named else ARRIVALS)), self.of(x, "wait")
        self.owes(f"depth {x}", [], self.plain(minus(depth, 1)))
        for i in lands:
            here = self.turn(i, U, N)
            top = end if self.sites[i].kind == "sync" else plus(end, depth)
            self.owes(f"in {i}", self.one(i), self.plain(here, minus(minus(top, here), 1)))
            start = (i, self.finished(i), U, N)
            for rule, others in (("O1", lands), ("O2", waits)):
                for k in others:
                    given = [*self.two(i, k), *same(plus(here, depth), self.turn(k, U2, N2))]
                    level = min(r["level"], self.between(i, k))
                    self.owes(f"{rule} {i} {k}", given, self.reaches(start, (k, "in", U2, N2), level=level))
            if self.sites[i].kind == "expect":
                given = [*self.one(i), minus(minus(end, here), 1)]
                self.owes(
                    f"O4 {i}", given, self.reaches_some((i, "out", U, N), self.of(x, "arrive"), "in", here)
                )
        for i in waits:
            here = self.turn(i, U, N)
            odd = (self.shift.get(i, 0) - self.sites[i].op["parity"]) % 2
            need(not odd, f"a wait on {x} names another parity than that of its turn")
            self.owes(f"means {i}", self.one(i), self.plain(plus(here, depth), minus(minus(end, here), 1)))
            after = plus(here, depth)
            given = [*self.one(i), after, minus(minus(end, after), 1)]
            self.owes(f"O3 {i}", given, self.reaches_some((i, "out", U, N), lands, "in", after))

    def looks(self) -> None:
        """Before an arrival of a later phase someone has waited for the one before: in strict mode."""
        for x, r in self.rings.items() if self.strict else ():
            for i in [] if r["named"] else self.of(x, "arrive"):
                before = minus(self.turn(i, U, N), r["depth"])
                self.owes(f"observed {i}", [*self.one(i), before], self.from_wait(x, before, (i, "in", U, N)))

    def from_wait(self, x: str, turn: T, end: Step) -> Callable[[Any, frozenset[str]], list[T]]:
        def goal(payload: Any, scope: frozenset[str]) -> list[T]:
            need(payload[0] == "along" and payload[1] != [], "a path is asked for")
            (how, first), *hops = payload[1]
            need(how == ["same"], "a path from a wait begins at it")
            k, half, u, n = start = self.step(first)
            need(k in self.of(x, "wait") and half == "out", "no wait for the phase before")
            self.scoped(scope, u, n)
            found, last = self.path(start, hops, scope)
            need(last == end, "the path ends elsewhere")
            return [*self.sites[k].exists(u, n), *same(self.turn(k, u, n), turn), *found]

        return goal

    def lives(self, x: str) -> None:
        r = self.rings[x]
        starts, ends, uses = self.of(x, "init"), self.of(x, "inval"), self.of(x, *ARRIVALS, "wait")
        need(not starts or r["initialized"], f"{x} is there from the start")
        for i in (*starts, *ends):
            s = self.sites[i]
            need(len(self.threads(i)) == 1, "several threads at an init")
            need(s.kind != "init" or s.op["count"] == r["count"], "another count")
            self.owes(f"slot {i}", self.one(i), self.plain(s.index, minus(minus(r["depth"], s.index), 1)))
        for i, k in [(i, k) for i in starts for k in (*uses, *ends)] + [(i, k) for i in uses for k in ends]:
            goal = self.reaches(
                (i, self.finished(i), U, N), (k, "in", U2, N2), causal=True, level=self.between(i, k)
            )
            self.owes(f"O5 {i} {k}", self.two(i, k), goal)
        for a, i in enumerate(ends):
            for k in ends[a:]:
                given = [*self.two(i, k), *same(self.sites[i].index, at(self.sites[k].index, U2, N2))]
                alike = [*same(U, U2), *same(N, N2)] if i == k else [const(-1)]
                self.owes(f"once {i} {k}", given, self.plain(*alike))

    def overlap(self, i: int, x: Any, k: int, y: Any) -> int | None:
        if x is None or y is None:
            return self.between(i, k)
        levels = [self.near(t, v) for lo, hi, t in x for a, b, v in y if lo < b and a < hi]
        return min(max(levels), self.between(i, k)) if levels else None

    def hazards(self) -> None:
        every = [(i, a, t) for i, s in enumerate(self.sites) for a, t in enumerate(s.touches)]
        for number_, (i, a, (kind, buffer, slot, pieces, version)) in enumerate(every):
            for k, b, (kind2, buffer2, slot2, pieces2, version2) in every[number_:]:
                if buffer != buffer2 or conflict(kind, kind2) is None:
                    continue
                level = self.overlap(i, pieces, k, pieces2)
                if level is None:
                    continue
                one = (i, a) == (k, b)
                depth = self.buffers[buffer]
                up = minus(at(slot2, U2, N2), slot)
                goal = self.either((i, kind, U, N), (k, kind2, U2, N2), level, one and level == 0)
                if None not in (version, version2):
                    if version == version2 and kind == kind2 == "generic_write" and not self.strict:
                        continue
                    if version < version2:
                        goal = self.only("along", goal)
                    if version > version2:
                        goal = self.only("reverse", goal)
                for which, more in (
                    ("later", [minus(up, depth)]),
                    ("earlier", [minus(neg(up), depth)]),
                    ("equal", [up, neg(up)]),
                ):
                    if not (one and which == "earlier"):
                        self.owes(f"hazard {which} {i}.{a} {k}.{b}", [*self.two(i, k), *more], goal)

    def only(
        self, way: str, either: Callable[[Any, frozenset[str]], list[T]]
    ) -> Callable[[Any, frozenset[str]], list[T]]:
        """One of two orders: its path is named as one along."""

        def goal(payload: Any, scope: frozenset[str]) -> list[T]:
            need(payload[0] == "along", "a path is asked for")
            return either([way, payload[1]], scope)

        return goal

    def either(
        self, x: Any, y: Any, level: int, may_be_one: bool
    ) -> Callable[[Any, frozenset[str]], list[T]]:
        def goal(payload: Any, scope: frozenset[str]) -> list[T]:
            if payload == ["same"]:
                need(may_be_one, "two events")
                return [*same(U, U2), *same(N, N2)]
            need(payload[0] in ("along", "reverse"), "no order")
            (i, kind, u, n), (k, kind2, v, m) = (y, x) if payload[0] == "reverse" else (x, y)
            found = conflict(kind, kind2)
            assert found is not None
            bridge, contested = found
            bridge = bridge and not (contested == "K6" and not self.strict)
            start = (i, "out" if kind in GENERIC else "done", u, n)
            out, last = self.path(
                start, payload[1], scope, causal=True, level=level, bridge=bridge, by_use=contested == "K1"
            )
            need(last == (k, "in", v, m), "the path ends elsewhere")
            return out

        return goal

    def ranks(self) -> None:
        flying = [i for i, s in enumerate(self.sites) if s.kind in FLYING]
        wanted = {(i, False) for i in range(len(self.sites))} | {(i, True) for i in flying}
        need(set(self.rank) == wanted, "ranks of other sites")
        need(len({len(r) for r in self.rank.values()}) == 1, "ranks of different lengths")
        for some in self.rank.values():
            self.scoped(frozenset({"u", "n"} | self.parameters), *some)

        def rank(s: Step) -> list[T]:
            own = [at(t, s[2], s[3]) for t in self.rank[s[0], s[1] == "done"]]
            return [*own, const(1 if s[1] == "out" else 0)]

        def edge(key: str, given: list[T], a: Step, b: Step) -> None:
            low, high = rank(a), rank(b)

            def goal(payload: Any, _: frozenset[str]) -> list[T]:
                need(payload[0] == "grows", "a level is asked for")
                return self.later(low, high, payload[1])

            self.owes(key, given, goal)

        for k, ((i, u, n), (j, v, m), given) in enumerate(self.flows):
            edge(f"rank flow {k}", given, (i, "out", u, n), (j, "in", v, m))
        for i in flying:
            edge(f"rank issue {i}", self.one(i), (i, "out", U, N), (i, "done", U, N))
        for i, x in enumerate(self.sites):
            for k, y in enumerate(self.sites):
                meets = x.kind in MEET and y.kind == "sync" and i != k
                if x.ring and x.ring == y.ring and (meets or (x.kind in ARRIVALS and y.kind == "wait")):
                    half = "done" if x.kind == "copy" else "in" if x.kind in MEET else "out"
                    given = [*self.two(i, k), *same(self.turn(i, U, N), self.turn(k, U2, N2))]
                    edge(f"rank turn {i} {k}", given, (i, half, U, N), (k, "out", U2, N2))
        for i, t, k, level, given in self.drains():
            edge(f"rank drain {i} {t} {k} {level}", given, (i, "done", U, N), (k, "out", U2, N2))
        for k in self.asking():
            for i, s in enumerate(self.sites):
                key = f"registers {i} {k}"
                if s.kind != "registers" or i == k or key not in self.proof["trees"]:
                    continue
                if self.says(key) == "grows":
                    edge(key, self.two(i, k), (i, "in", U, N), (k, "out", U2, N2))
                else:
                    ends = self.reaches((k, "out", U2, N2), (i, "in", U, N), level=self.between(i, k))
                    self.owes(key, self.two(i, k), ends)

    def drains(self) -> Iterator[tuple[int, int, int, int, list[T]]]:
        for i, x in enumerate(self.sites):
            if x.kind != "async":
                continue
            group, label = x.op["group"], x.op["label"]
            mine = {w // 4 for w in self.warps(i)}
            issues = [
                t
                for t, y in enumerate(self.sites)
                if t == i
                or (
                    group == "wgmma"
                    and label
                    and y.op["label"] == label
                    and mine & {w // 4 for w in self.warps(t)}
                )
            ]
            for t in issues:
                for k, y in enumerate(self.sites):
                    if y.kind != "drain" or y.op["group"] != group or y.role != self.sites[t].role:
                        continue
                    low, high = self.position((t, "out", U, N)), self.position((k, "out", U2, N2))
                    for level in range(len(low)):
                        even = [c for a, b in zip(low[:level], high[:level], strict=True) for c in same(a, b)]
                        more = [*even, minus(minus(high[level], low[level]), 1)]
                        yield i, t, k, level, [*self.two(i, k), *more]

    # -------------------------------------------------------- accounts

    def account(self, x: str) -> None:
        r = self.rings[x]
        need(1 <= r["count"] <= LIMIT, f"{x}: no such count")
        landing = self.of(x, *(MEET if r["named"] else ARRIVALS))
        end, depth = self.end[x], r["depth"]
        self.turn_tree(f"full {x}", [J, minus(minus(end, J), 1)], x, landing, "full")
        tail = [J, minus(J, end), minus(minus(plus(end, depth), J), 1)]
        self.turn_tree(f"open {x}", tail, x, landing, "open")
        if r["initialized"]:
            self.turn_tree(f"init {x}", [J, minus(minus(depth, J), 1)], x, self.of(x, "init"), "init")

    def turn_tree(self, key: str, given: list[T], ring: str, landing: list[int], what: str) -> None:
        self.seen.add(key)
        need(key in self.proof["trees"], f"no tree for {key}")

        def turn(i: int, u: T, n: T) -> T:
            return at(self.sites[i].index, u, n) if what == "init" else self.turn(i, u, n)

        def leaf(payload: Any, known: list[T], scope: frozenset[str]) -> list[T]:
            need(payload[0] == "events", "the events of a turn are asked for")
            events = [(i, self.t(u), self.t(n)) for i, u, n in payload[1]]
            sites = [i for i, _, _ in events]
            need(
                len(set(sites)) == len(sites) and set(sites) <= set(landing),
                "an event twice, or of another ring",
            )
            only = dict(map(tuple, payload[2]))
            need(set(only) == set(landing), "not every site is accounted for")
            self.scoped(scope, *(t for _, u, n in events for t in (u, n)))
            self.add_up(ring, sites, landing, what)
            for i in landing:
                mine = next(((u, n) for k, u, n in events if k == i), None)

                def listed(p: Any, _: list[T], __: frozenset[str], mine: Any = mine) -> list[T]:
                    need(mine is not None and p == ["follows"], "one event more")
                    return [*same(U2, mine[0]), *same(N2, mine[1])]

                more = [*self.sites[i].exists(U2, N2), *same(turn(i, U2, N2), J)]
                self.tree([*known, *more], only[i], scope | {"u'", "n'"}, listed)
            if what == "open":
                return []
            return [c for i, u, n in events for c in (*self.sites[i].exists(u, n), *same(turn(i, u, n), J))]

        scope = frozenset(self.parameters | {"j"})
        try:
            self.tree([*self.premises, *given], self.proof["trees"][key], scope, leaf)
        except No as e:
            raise No(f"{key}: {e}") from None

    def add_up(self, x: str, sites: list[int], landing: list[int], what: str) -> None:
        if what == "init":
            need(len(sites) == 1, "a slot that is not initialized once")
            return
        r = self.rings[x]
        ops = [(len(self.threads(i)), self.sites[i].op) for i in sites]
        arrivals = sum(k * op["count"] for k, op in ops if op["kind"] == "arrive")
        announced = sum(k * op["bytes"] for k, op in ops if op["kind"] != "copy")
        copied = sum(k * op["bytes"] for k, op in ops if op["kind"] == "copy")
        need(max(announced, copied) <= LIMIT, "too many bytes")
        if not r["named"]:
            if what == "open":
                need(arrivals < r["count"], "a turn behind the end completes")
            else:
                need(
                    arrivals == r["count"] and announced == copied,
                    "other arrivals or bytes than the turn needs",
                )
            return
        roles = [self.sites[i].role for i in sites]
        need(len(set(roles)) == len(roles), "a thread comes twice")
        come = {t for i in sites for t in self.threads(i)}
        warps = {w for i in landing for w in self.warps(i)}
        sizes = {w: sum(t // self.warp == w for t in come) for w in warps}
        groups = [*sizes.values()]
        if r["level"] == 3:
            need(all(n in (0, self.warp) for n in groups), "a part of a warp")
            groups = [len(come)]
        need(all(n < r["count"] if what == "open" else n == r["count"] for n in groups), "other threads")

    # -------------------------------------------------------- what is looked at without a tree

    def pool(self) -> None:
        changes = [s for s in self.sites if s.kind == "registers"]
        if not changes:
            return
        need(self.p["registers"] is not None, "no pool")
        each, pool = self.p["registers"]
        need(
            all(not (s.op["guard"] or s.where[1] or s.where[3]) for s in changes),
            "registers under a condition",
        )
        threads = [len(r["threads"]) for r in self.roles]
        need(each * sum(threads) <= pool, "too many registers")
        for k in self.asking():
            most = 0
            for role, many in enumerate(threads):
                mine = [i for i, s in enumerate(self.sites) if s.kind == "registers" and s.role == role]
                said = [self.says(f"registers {i} {k}") for i in mine]
                counts = [each, *(self.sites[i].op["count"] for i in mine)]
                before = [n for n, x in enumerate(said) if x == "grows"]
                behind = [n for n, x in enumerate(said) if x in ("along", "reverse")]
                first = before[-1] + 1 if before else 0
                last = behind[0] if behind else len(mine)
                if self.warpgroups(role) & self.warpgroups(self.sites[k].role):
                    own = [i for i in range(k + 1) if self.sites[i].kind == "registers"]
                    last = max(last, sum(self.sites[i].role == self.sites[k].role for i in own))
                need(first <= last, "no number of registers is left")
                most += many * max(counts[first : last + 1])
            need(most <= pool, "too many registers")

    def asking(self) -> Iterator[int]:
        """Sites that ask for more registers than their threads have had."""
        now = (
            {}
            if self.p["registers"] is None
            else dict.fromkeys(range(len(self.roles)), self.p["registers"][0])
        )
        for i, s in enumerate(self.sites):
            if s.kind == "registers" and now:
                if s.op["count"] > now[s.role]:
                    yield i
                now[s.role] = s.op["count"]

    def warpgroups(self, role: int) -> set[int]:
        return {t // self.warp // 4 for t in self.roles[role]["threads"]}

    def changed(self) -> None:
        """Between two changes of registers the warps of a warpgroup meet."""
        for i, x in enumerate(self.sites):
            for k, y in enumerate(self.sites):
                if x.kind != "registers" or y.kind != "registers":
                    continue
                at = [sum(s.kind == "registers" and s.role == self.sites[q].role for s in self.sites[:q])
                      for q in (i, k)]  # fmt: skip
                near = self.warpgroups(x.role) & self.warpgroups(y.role)
                if not near or at[1] != at[0] + 1 or (x.op["count"] == y.op["count"] and not self.strict):
                    continue
                ends = self.reaches((i, "out", U, N), (k, "in", U2, N2), level=self.between(i, k))
                self.owes(f"apart {i} {k}", self.two(i, k), ends)

    def says(self, key: str) -> str:
        """What a tree that is a leaf shows."""
        tree = self.proof["trees"].get(key)
        return str(tree[1][0]) if tree is not None and tree[0] == "leaf" else ""

    def shared(self) -> None:
        """All who meet at one hardware barrier do so in one order."""
        barriers: dict[str, list[str]] = {}
        for x, r in self.rings.items():
            if r["barrier"]:
                barriers.setdefault(r["barrier"], []).append(x)
        for some in barriers.values():
            need(
                len({(self.rings[x]["level"], self.rings[x]["count"], self.rings[x]["named"]) for x in some})
                == 1,
                "a barrier that is met in different ways",
            )
            if len(some) == 1 and self.rings[some[0]]["level"] == 3:
                continue
            orders = {i: self.order(some, i) for i in range(len(self.roles))}
            together = [set(orders)]
            if self.rings[some[0]]["level"] != 3:
                warps = {t // self.warp for r in self.roles for t in r["threads"]}
                together = [
                    {i for i in orders if w in {t // self.warp for t in self.roles[i]["threads"]}}
                    for w in warps
                ]
            for roles in together:
                need(
                    len({orders[i] for i in roles if orders[i]}) <= 1,
                    "a barrier that is met in different orders",
                )

    def order(self, rings: list[str], role: int) -> tuple[Any, ...]:
        mine = [s for s in self.sites if s.role == role and s.ring in rings]
        moving = [s for s in mine if s.where[1] or s.where[3]]
        segments = sorted({s.where[0] for s in moving})
        inner = {x: sorted({s.where[2] for s in mine if s.where[0] == x}) for x in segments}
        out: list[Any] = []
        for s in mine:
            if s.kind != "sync":
                out.append("joins")
            place: tuple[Any, ...] = ()
            if s in moving:
                place = (
                    segments.index(s.where[0]),
                    s.where[1],
                    inner[s.where[0]].index(s.where[2]),
                    s.where[3],
                )
            part = self.roles[role]["body"][s.where[0] // 2]
            dealt = None
            if s.where[1]:
                first, stride, count, _ = part["tiles"]
                dealt = (first, stride, term(count))
            out.append((s.ring, s.index, place, dealt, (*s.body, *s.guard)))
        return tuple(out)

    def claims(self) -> None:
        for i, k in self.shift.items():
            need(i < len(self.sites) and self.sites[i].ring, "a shift of no site on a ring")
            need(not (k and self.rings[self.sites[i].ring]["named"]), "generations are not shifted")
        need(set(self.end) == set(self.rings), "ends of other rings")
        self.scoped(frozenset(self.parameters), *self.end.values())

    def run(self) -> None:
        self.read()
        places = Places(self.roles)
        self.sites, self.flows = places.sites, places.flows
        self.claims()
        self.pool()
        self.shared()
        for x in self.rings:
            self.account(x)
        for x in self.rings:
            self.turns(x)
            self.lives(x)
        for x, depth in self.buffers.items():
            self.owes(f"depth buffer {x}", [], self.plain(minus(depth, 1)))
        over = [i for i, s in enumerate(self.sites) if s.kind in ("wait", "drain")]
        for i, s in enumerate(self.sites):
            if s.kind in FLYING:
                self.owes(f"O6 {i}", self.one(i), self.reaches_some((i, "done", U, N), over, "out", None))
        self.changed()
        self.hazards()
        self.ranks()
        self.looks()
        need(set(self.proof["trees"]) == self.seen, "a tree that nobody asks for")


def why_not(protocol: dict[str, Any], proof: Any, strict: bool = False) -> str | None:
    """None if the proof is accepted, else a reason. The protocol is taken to be well formed."""
    try:
        Checker(protocol, proof, strict).run()
    except No as e:
        return str(e)
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as e:
        return f"malformed: {e!r}"
    return None


def main() -> int:
    files = [x for x in sys.argv[1:] if x != "--strict"]
    if len(files) != 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    protocol, proof = (json.loads(Path(x).read_text("utf-8")) for x in files)
    why = why_not(protocol, proof, "--strict" in sys.argv)
    sys.stdout.write("accepted\n" if why is None else f"rejected: {why}\n")
    return int(why is not None)


if __name__ == "__main__":
    sys.exit(main())
