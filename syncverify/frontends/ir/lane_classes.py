"""Which lanes a kernel distinguishes: the elected lane to try, and the role a class belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from syncverify.frontends.ir.code import Program
from syncverify.frontends.ir.places_of_elected import Places
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import (
    bodies,
    closure,
    expressions,
    fold,
    mentions,
    once_named,
    statements,
    varying_names,
)
from syncverify.ir.expr import LANE_BUILTINS, Binary, Expr, Int, Unary, Var, evaluate, names, walk
from syncverify.ir.launch_grid import Grid
from syncverify.ir.loop_scopes import with_own_loops
from syncverify.model.events import ThreadClass

_THREAD = ("tid", "tid.x", "tid.y", "tid.z", "lane", "warp", "wg")


@dataclass(frozen=True, slots=True)
class Elections:
    """A lane that no guard names, and ``another``; whether some role may both elect and distinguish lanes;
    whether a guard inside the elected lane's own code names lanes; ``by_number``: what that code does, if and
    how often, depends on the lane's number; ``meets_lanes``: it may be the only one at a place that it
    accesses by itself; ``behind``: sets of lanes that guards distinguish behind a branch that more than the
    thread decides, which a run that follows one way may not come to; ``pairs``: what several warps do depends
    on the numbers of the lanes that each of them elects.
    """

    free: int
    with_guards: bool
    nested: bool
    by_number: bool = False
    meets_lanes: bool = False
    another: int = 0
    behind: tuple[int, ...] = ()
    pairs: bool = False


def elections(kernel: n.Kernel, values: Mapping[str, int], grid: Grid) -> Elections:
    """What the source says about the choice of elected lanes."""
    if not any(isinstance(s, n.Elect) for s in statements(kernel.body)):
        return Elections(0, False, False)
    kernel = with_own_loops(kernel)
    known: dict[str, Expr] = {k: Int(v) for k, v in values.items()}
    guards = _Guards(known | _of_threads(kernel.body, known), grid, {})
    guards.follow(kernel.body)
    named: set[int] = set()
    for s in statements(kernel.body):
        named |= guards.named(s)
    free = next((lane for lane in range(1, 32) if lane not in named), 1)
    another = next((lane for lane in range(free + 1, 32) if lane not in named), 0)
    elected = frozenset(s.name for s in statements(kernel.body) if isinstance(s, n.Elect))
    inside = {id(s): s for s in _of_elected(kernel.body, elected)}
    varying = varying_names(kernel.body, LANE_BUILTINS) | guards.by_lane
    places = Places(kernel, grid, varying, guards.known)
    by_number = {
        key
        for key, s in inside.items()
        if guards.decided(s) or any(mentions(e, varying) for e in _placing(s))
    }
    return Elections(
        free,
        _both(kernel.body, guards),
        _nested(kernel.body, guards, elected),
        bool(by_number),
        places.meet_alone(inside),
        another,
        tuple(sorted(_behind(kernel.body, guards, elected))),
        places.agents_of(by_number) > 1,
    )


def _behind(body: tuple[n.Stmt, ...], guards: _Guards, elected: frozenset[str]) -> set[int]:
    """The sets of lanes, as masks, that guards distinguish behind branches that more than the thread decides.

    ``if N < 1000 { ... } else { if lane >= 16 { ... } }`` has the lanes below 16, and those from there on.
    """
    found: set[int] = set()
    for s in statements(body):
        if isinstance(s, n.If) and not names(fold(s.cond, guards.known)) <= {*_THREAD, *elected}:
            for inner in statements((*s.then, *s.orelse)):
                if guards.named(inner) or guards.decided(inner):
                    found |= guards.sides(inner)
    return found


def _of_elected(body: tuple[n.Stmt, ...], elected: frozenset[str]) -> Iterator[n.Stmt]:
    """The statements that elected lanes alone come to, or all others, and who decides that."""
    known = varying_names(body, elected)
    for s in statements(body):
        if isinstance(s, n.If) and mentions(s.cond, known):
            yield from statements((s,))


def _of_threads(body: tuple[n.Stmt, ...], known: Mapping[str, Expr]) -> dict[str, Expr]:
    """What registers hold that are given a value once, by the number of their thread alone."""
    found: dict[str, Expr] = {}
    once = once_named(body)
    for s in statements(body):
        if isinstance(s, n.Let) and s.name in once:
            value = fold(s.value, {**known, **found})
            if names(value) <= set(_THREAD):
                found[s.name] = value
    return found


#: What computes for its own thread, or decides.
_OWN = (n.Let, n.Assign, n.If, n.For, n.Role)


def _placing(s: n.Stmt) -> Iterator[Expr]:
    """What decides where, and how often, a statement does something to others; not what it stores."""
    if not isinstance(s, _OWN):
        for f in fields(s):
            if f.name != "value":
                yield from expressions(getattr(s, f.name))


def _names_memory(s: n.Stmt) -> bool:
    """Whether a statement names a part of an array or of a tensor."""
    return any(isinstance(getattr(s, f.name), n.Region | n.GlobalRegion) for f in fields(s))


def _nested(body: tuple[n.Stmt, ...], guards: _Guards, elected: frozenset[str]) -> bool:
    """Whether a guard under ``if p``, ``p`` elected, names lanes."""
    for s in statements(body):
        if isinstance(s, n.If) and mentions(s.cond, elected):
            if any(guards.named(inner) for inner in statements((*s.then, *s.orelse))):
                return True
    return False


@dataclass(slots=True)
class _Guards:
    """Finds the lanes that a guard singles out of their warp."""

    known: Mapping[str, Expr]
    grid: Grid
    seen: dict[int, set[int]]
    by_lane: frozenset[str] = LANE_BUILTINS

    def follow(self, body: tuple[n.Stmt, ...]) -> None:
        """Finds the names whose value the number of a lane decides: what it is computed from, or whether, or
        how often, it is.
        """
        before: frozenset[str] | None = None
        while before != self.by_lane:
            before = self.by_lane
            self._follow(body, within=False)

    def _follow(self, body: tuple[n.Stmt, ...], *, within: bool) -> None:
        for s in body:
            here = within or self.decided(s)
            if isinstance(s, n.Let | n.Assign) and (here or mentions(s.value, self.by_lane)):
                self.by_lane |= {s.name}
            if isinstance(s, n.For) and here:
                self.by_lane |= {s.var}
            for inner in bodies(s):
                self._follow(inner, within=here)

    def decided(self, s: n.Stmt) -> bool:
        """Whether the number of a lane decides if, or how often, it executes the body of the statement."""
        bounds = (s.lo, s.hi, s.step) if isinstance(s, n.For) else ()
        atoms = (*self._atoms(s), *(fold(e, self.known) for e in bounds))
        return any(mentions(x, self.by_lane) and not self._of_warps(x) for x in atoms)

    def _of_warps(self, e: Expr) -> bool:
        """Whether the lanes of each warp have one value of it, which the thread alone decides."""
        if not names(e) <= set(_THREAD):
            return False
        read = closure(e, {name: i for i, name in enumerate(_THREAD)})
        try:
            return all(len({read(x) for x in self._lanes(w)}) <= 1 for w in range(self.grid.warps))
        except ArithmeticError:
            return False

    def _lanes(self, warp: int) -> Iterator[list[int]]:
        """What each lane of a warp finds in its builtins, in the order of ``_THREAD``."""
        x, y, _ = self.grid.block
        for lane in range(self.grid.warp_mask(warp).bit_length()):
            t = 32 * warp + lane
            yield [t, t % x, t // x % y, t // (x * y), lane, warp, warp // 4]

    def apart(self, s: n.Stmt) -> bool:
        """Whether a statement may distinguish lanes of a warp: by a guard, by how often they come to its
        body, or by the barrier at which they act. Places in memory do not: ``Elections.meets_lanes``.
        """
        if self.named(s) or self.decided(s):
            return True
        return not _names_memory(s) and any(mentions(e, self.by_lane) for e in _placing(s))

    def named(self, s: n.Stmt) -> set[int]:
        """Lanes that the statement's guard singles out in some warp."""
        if id(s) not in self.seen:
            self.seen[id(s)] = {lane for atom in self._atoms(s) for lane in self._singled_out(atom)}
        return self.seen[id(s)]

    def sides(self, s: n.Stmt) -> set[int]:
        """The sets of lanes, as masks, that a guard distinguishes; each lane, if data decides."""
        atoms = [a for a in self._atoms(s) if mentions(a, self.by_lane)]
        if not atoms or any(not names(a) <= set(_THREAD) for a in atoms):
            return {1 << lane for lane in range(32)}
        return {mask for a in atoms for w in range(self.grid.warps) for mask in self._split(a, w)}

    def _split(self, atom: Expr, warp: int) -> list[int]:
        """The lanes of a warp by what an expression of the thread is for them, as masks."""
        read = closure(atom, {name: i for i, name in enumerate(_THREAD)})
        masks: dict[int, int] = {}
        for lane, place in enumerate(self._lanes(warp)):
            try:
                value = read(place)
            except ArithmeticError:
                value = -1
            masks[value] = masks.get(value, 0) | 1 << lane
        return list(masks.values()) if len(masks) > 1 else []

    def _atoms(self, s: n.Stmt) -> Iterator[Expr]:
        if isinstance(s, n.If):
            yield from _conjuncts(fold(s.cond, self.known))
        elif isinstance(s, n.Role) and s.unit == "threads":
            yield fold(Binary("<=", s.lo, Var("tid")), self.known)
            yield fold(Binary("<", Var("tid"), s.hi), self.known)

    def _singled_out(self, atom: Expr) -> Iterator[int]:
        if not mentions(atom, LANE_BUILTINS):
            return
        if names(atom) <= set(_THREAD):
            yield from self._minorities(atom)
            return
        # more than the thread decides: the numbers in the guard, and their neighbours, are its lanes
        for x in walk(atom):
            if isinstance(x, Int):
                yield from ((x.value + d) % 32 for d in (-1, 0, 1))
        yield 0

    def _minorities(self, atom: Expr) -> Iterator[int]:
        """In each warp that the guard splits, the lanes on the smaller side."""
        read = closure(atom, {name: i for i, name in enumerate(_THREAD)})
        for warp in range(self.grid.warps):
            sides: dict[bool, list[int]] = {}
            for lane, place in enumerate(self._lanes(warp)):
                try:
                    sides.setdefault(bool(read(place)), []).append(lane)
                except ArithmeticError:
                    return
            if len(sides) > 1:
                yield from min(sides.values(), key=len)


def _conjuncts(e: Expr) -> Iterator[Expr]:
    match e:
        case Binary("and" | "or", a, b):
            yield from _conjuncts(a)
            yield from _conjuncts(b)
        case Unary("not", a):
            yield from _conjuncts(a)
        case _:
            yield e


def _both(body: tuple[n.Stmt, ...], guards: _Guards) -> bool:
    """Whether some role, or the code outside roles together with a role that uses its election, has both."""
    outside = tuple(_without_roles(body))
    elects = any(isinstance(s, n.Elect) for s in outside)
    named = any(guards.apart(s) for s in outside)
    if elects and named:
        return True
    kept = frozenset(s.name for s in outside if isinstance(s, n.Elect))
    for role in (s for s in statements(body) if isinstance(s, n.Role)):
        inside = [role, *statements(role.body)]
        here = any(isinstance(s, n.Elect) or (isinstance(s, n.If) and mentions(s.cond, kept)) for s in inside)
        if here and (named or any(guards.apart(s) for s in inside)):
            return True
    return False


def _without_roles(body: tuple[n.Stmt, ...]) -> Iterator[n.Stmt]:
    for s in body:
        if isinstance(s, n.Role):
            continue
        yield s
        for inner in bodies(s):
            yield from _without_roles(inner)


def role_of(program: Program, c: ThreadClass) -> str:
    """The first role whose range holds the class's first lane, by its launch-time bounds."""
    first = (c.lanes & -c.lanes).bit_length() - 1
    number = {"threads": 32 * c.warp + first, "warps": c.warp, "warpgroups": c.warp // 4}
    for s in statements(program.kernel.body):
        if isinstance(s, n.Role):
            try:
                lo, hi = (evaluate(fold(e, program.known), {}) for e in (s.lo, s.hi))
            except (KeyError, ArithmeticError, TypeError):
                continue
            if lo <= number[s.unit] < hi:
                return s.name
    return ""
