"""Reads what an agent does as blocks, loops and tiles, by induction over claimed registers.

TRUSTED. A claim says what registers hold at the headers of loops. From each header the agent is run to the
next one, once for each residue of the counters: there the registers must be what the claim says of the next
turn. So the operations that were met on the way are those of every turn (docs/kernel.md, "From code to
protocol").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import pairwise
from math import gcd
from typing import Any

from syncverify.checker.induction.claims import Claim, Form, G, H, Header, K, Lanes, P, Y, Z
from syncverify.checker.induction.operations import essence, operand_key, own
from syncverify.checker.induction.quotients import nameable, unnamed
from syncverify.checker.induction.stepping import (
    Decision,
    Leaf,
    NotReadError,
    SizeCaseError,
    called,
    leaves,
    registers,
    resolve,
)
from syncverify.checker.induction.strides import MOVING, TURNS, Stride, Turns, noted
from syncverify.checker.induction.words import Held
from syncverify.checker.kernel.linear import ZERO, Term, apply, num, var
from syncverify.checker.kernel.protocol import N, U
from syncverify.model.events import LANES_APART, Ev, Event
from syncverify.symbolic.context import AffineTerm as Value
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.inequalities import Parts, negated
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.protocol import SymbolicAgent

#: The counters of steps and of tiles less their whole periods; behind a last turn they may be a period more.
Residue = tuple[int, int]


#: Ends of a counter that are tried.
MOST_ENDS = 4
#: Begins the names of symbols that readers make: they are no sizes.
OWN = "%"
#: Counters behind tiles that agents take in turn: no name of a protocol, so that none of it may use them.
BEHIND = var("%behind")


class OtherFormsError(NotReadError):
    """Registers hold something else at a header than what is claimed. ``wrong``: both, by register."""

    def __init__(self, message: str, place: int, wrong: Mapping[Any, tuple[Any, Any]]) -> None:
        super().__init__(message)
        self.place = place
        self.wrong = wrong


class UnfollowedError(NotReadError):
    """A register that is claimed to keep its value in a tile does not, or begins as one of several sums."""

    def __init__(self, place: int, slot: Any) -> None:
        super().__init__("a register that is not the same in all turns of a tile")
        self.place, self.slot = place, slot


class FallsError(NotReadError):
    """A register that moves may become less than where its loop begins."""

    def __init__(self, name: str) -> None:
        super().__init__("a register that moves by what may be negative")
        self.name = name


class First(IntEnum):
    """In which turns registers hold ``others``: the first of their loop, those of the first tile, or any."""

    TURN = 0
    TILE = 1
    ANY = 2


class FirstTurnsError(NotReadError):
    """Registers hold ``others`` in turns of another kind than was supposed."""

    def __init__(self, place: int) -> None:
        super().__init__("a first turn that is like others, or comes again")
        self.place = place


@dataclass(frozen=True, slots=True)
class Piece:
    """One operation of a region: its event by residue, and under which constraints it is executed."""

    site: int
    events: Mapping[Residue, Event]
    guards: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class StraightText:
    """Straight code. ``steps``, ``tile``: what the counters are there, as terms of a protocol.

    ``ways``: on each way through it, what a thread owes something for by itself; behind a loop that asks
    behind its body also that of its last turn. ``products``: what each wgmma tells, on which ways.
    """

    pieces: tuple[Piece, ...]
    steps: Term
    tile: Term
    ways: tuple[tuple[Event, ...], ...] = ()
    products: frozenset[Any] = frozenset()

    @property
    def matters(self) -> bool:
        return bool(self.pieces) or any(self.ways)


@dataclass(frozen=True, slots=True)
class LoopText:
    """``n`` from ``lo`` to ``hi - 1``."""

    lo: Term
    hi: Term
    body: StraightText


@dataclass(frozen=True, slots=True)
class Trip:
    """How many steps a tile has, where ``guards`` hold."""

    guards: tuple[Term, ...]
    steps: Term


@dataclass(frozen=True, slots=True)
class TilesText:
    """Tiles ``first + stride u`` below ``count``. ``trips``: the steps of each; ``function``: their prefix
    sums, none where each tile is one step.
    """

    count: Term
    trips: tuple[Trip, ...]
    full: bool  # no tile is empty
    function: str
    body: tuple[StraightText | LoopText, ...]
    first: int = 0
    stride: int = 1


Text = tuple[StraightText | LoopText | TilesText, ...]


@dataclass(slots=True)
class Reader:
    """Reads one agent. ``function``: the name of its prefix sums."""

    space: SymbolicContext
    root: PathCondition
    claim: Claim
    function: str = "P"
    names: dict[int, str] = field(default_factory=dict)  # atoms of sizes -> parameters
    atoms: dict[str, Any] = field(default_factory=dict)
    templates: dict[int, Leaf] = field(default_factory=dict)
    headers: dict[int, Header] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)  # headers of loops that are read, or being read
    naming: bool = False  # quotients of sizes are to be named
    turns: Turns = field(default_factory=Turns)  # of loops over registers that move by sizes
    strides: dict[str, Stride] = field(default_factory=dict)
    begins: dict[str, Any] = field(default_factory=dict)  # what such a register is where its loop begins
    unfollowed: set[tuple[int, Any]] = field(default_factory=set)  # registers that begin as no sum of sizes
    moves: set[str] = field(default_factory=set)  # registers that move
    falling: set[str] = field(default_factory=set)  # those of them that may become less
    firsts: dict[int, int] = field(default_factory=dict)  # headers -> when ``others`` are there (``First``)
    visited: set[int] = field(default_factory=set)  # headers that agents were started at
    # guards on numbers of turns, as they were asked; at which residue, if of a counter
    asked: dict[tuple[Term, Residue | None], tuple[int, Parts]] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)  # headers of loops whose last turn stands behind them
    elsewhere: set[int] = field(default_factory=set)  # headers of loops that end elsewhere than is claimed
    each: tuple[int, int] = (0, 1)  # the first tile that the agent takes, and how far on the next one is

    def __post_init__(self) -> None:
        self.headers = {h.place: h for h in self.claim.headers}
        self.space.path = self.root
        for name in (H, G, P, Y):
            self.atoms[name] = self.space.symbol(OWN + name, 0, None)
        for name in (K, Z):
            self.atoms[name] = self.space.symbol(OWN + name, None, None)

    # ---------------------------------------------------------------- terms

    def term(self, c: int, parts: Parts, steps: Term, tile: Term, before: Term) -> Term:
        """A sum as a term of a protocol; ``before``: what the steps before this loop are there."""
        own = {self._atom(x): x for x in self.atoms}
        total = num(c)
        for a, k in parts:
            name = own.get(a)
            if name == H:
                if k % self.claim.steps:
                    raise NotReadError("a part of a counter")
                total = total + steps * (k // self.claim.steps)
            elif name == G:
                if k % self.claim.tiles:
                    raise NotReadError("a part of a counter")
                total = total + tile * (k // self.claim.tiles)
            elif name == P:
                total = total + before * k
            elif name == K:
                total = total + var("%K") * k
            elif name in (Y, Z):
                raise NotReadError("a question about where a tile begins")
            elif name is not None:
                total = total + var(name) * k
            else:
                total = total + var(self.parameter(a)) * k
        return total

    def sizes(self, x: Any) -> Term:
        """A value as a sum of sizes."""
        c, parts = self.space.of(x)
        total = num(c)
        for a, k in parts:
            total = total + var(self.parameter(a)) * k
        return total

    def moving(self, header: Header, slot: Any) -> str:
        """The name of a register that moves by a size. Only loops outside tiles, and tiles, have such."""
        name = f"{MOVING}{header.place}_{slot}"
        if name not in self.atoms:
            self.atoms[name] = self.space.symbol(OWN + name, None, None)
            self.strides[name] = Stride(header.place)
        return name

    def followed(self, header: Header, slot: Any, form: Form, value: Any = None) -> bool:
        """Whether a register keeps or moves from a sum of sizes on, as is decided where its loop is first
        come to.
        """
        if not (form.kept or (form.moves and header.outer is None)):
            return False
        if header.place not in self.visited and (header.place, slot) not in self.unfollowed:
            try:
                self.begun_at(header, value)
            except (NotReadError, TypeError):
                self.unfollowed.add((header.place, slot))
        return (header.place, slot) not in self.unfollowed

    def begun_at(self, header: Header, value: Any) -> Term:
        """What a register is where a loop begins: a sum of sizes, and in a tile of registers that move from
        tile to tile.
        """
        around = {self._atom(x): x for x, s in self.strides.items() if s.place == header.outer}
        c, parts = self.unresolved(*self.space.of(value))
        total = num(c)
        for a, k in parts.items():
            total = total + var(around[a] if a in around else self.parameter(a)) * k
        return total

    def unresolved(self, c: int, parts: Parts) -> tuple[int, dict[int, int]]:
        """The same sum with sizes in it in the place of what the path says that they are.

        Example: where ``N`` is ``8 q + r``, the sum ``16 q + 2 r`` is ``2 N``.
        """
        out = dict(parts)
        path, symbols = self.space.path, self.space.symbols
        for size in (
            a for a in self.names if a in path.defs or symbols[a].factors
        ):  # no others are rewritten
            d, made = path.resolve(0, ((size, 1),))
            other, k = next(((b, k) for b, k in made if b not in self.names), (size, 1))
            times, rest = divmod(out.get(other, 0), k)
            if other != size and times and not rest:
                c -= d * times
                for b, k in (*made, (size, -1)):
                    out[b] = out.get(b, 0) - k * times
        return c, {a: k for a, k in out.items() if k}

    def follow(self, leaf: Leaf, header: Header, slot: Any, value: Any, *, keeps: bool) -> None:
        """Accepts a register that keeps its value, or moves by one sum of sizes, on one way to its header."""
        if header.outer is None:
            self.strides_on(leaf, self.moving(header, slot), header, value, keeps=keeps)
            return
        try:
            self.strides_on(leaf, self.moving(header, slot), header, value, keeps=keeps)
        except NotReadError:  # in a tile it may be any number instead
            raise UnfollowedError(header.place, slot) from None

    def strides_on(self, leaf: Leaf, name: str, header: Header, value: Any, *, keeps: bool) -> None:
        """Takes note of what a register that is followed holds where its loop begins, or in a turn."""
        if not isinstance(value, int | Value):
            raise NotReadError("a register is no number in some turn")
        before = self.strides[name]
        if before.place not in self.visited:
            first = self.begun_at(header, value)
            if before.first not in (None, first):
                self.of_sizes(leaf)
            c, parts = self.unresolved(*self.space.of(value))
            self.begins.setdefault(name, self.space.term(c, tuple(sorted(parts.items()))))
            self.moves |= set() if keeps else {name}
            self.strides[name] = noted(before, first=first)
        elif keeps:
            if not self.zero(leaf.path, value - self.begin(name)):
                raise NotReadError(f"register {name} holds {value}, not {self.begin(name)}")
        else:
            step = self.sizes(value - self.atoms[name])
            self.strides[name] = noted(before, step=step)
            if name not in self.falling and not self.positive(step, 0):
                raise FallsError(name)

    def rising(self) -> list[Any]:
        """What is at least 0 of registers that move: they do not fall below what they are where their loop
        begins. That holds by induction over turns, for ``strides_on`` accepts no step that may be negative.
        """
        return [self.atoms[x] - self.begins[x] for x in self.begins if x in self.moves - self.falling]

    def begin(self, name: str) -> Any:
        """What a register that keeps its value is where its loop begins."""
        if name not in self.begins:
            raise NotReadError("a register that keeps its value in some turns alone")
        return self.begins[name]

    def stride(self, t: Term, names: Iterable[str]) -> tuple[Term, Term]:
        """What the first turn of a loop asks, and by how much that moves, of a term over such a register."""
        (name,) = names
        stride, k = self.strides[name], t.parts[name]
        if stride.first is None or stride.step is None:
            raise NotReadError("a register that moves by no known size")
        return t - var(name) * k + stride.first * k, stride.step * k

    def in_turns(self, t: Term, steps: Term, tile: Term, before: Term) -> Term:
        """A guard over a register that moves, as one over turns of its loop."""
        names = [x for x in t.names() if x.startswith(MOVING)]
        if not names:
            counter, turn = ("u", tile) if tile == U and steps != N else ("n", steps - before)
            k = t.parts.get(counter, 0)
            if abs(k) < 2 or (steps != N and tile != U):
                return t
            asked = t.put({counter: before if counter == "n" else ZERO}), num(k)
            of_tile = turn == U and counter == "u"
            found = self.turns.asked(*(self.of_tiles(*asked) if of_tile else asked))
            if found is None:
                return t
            turn = self.tile() if of_tile else turn
        else:
            of_tile = self.headers[self.strides[names[0]].place].tiles
            turn = tile if of_tile else steps - before
            inside = turn == U or (steps == N and tile == ZERO)
            found = None
            if len(names) == 1 and inside and not (t.names() & {"n", "u", "%K"} or t.functions()):
                asked = self.stride(t, names)
                found = self.turns.asked(*(self.of_tiles(*asked) if of_tile else asked))
            if found is None:
                raise NotReadError("a question about a register that moves by a size")
            turn = self.tile() if of_tile else turn
        ((_, sign),) = found.parts.items()
        return found - turn * sign

    def tile(self) -> Term:
        """The number of the tile, of all tiles, that the agent takes in turn ``u``."""
        return U * self.each[1] + self.each[0]

    def of_tiles(self, first: Term, step: Term) -> tuple[Term, Term]:
        """What tile 0 asks, and by how much that moves from tile to tile, by what the agent's first turn asks
        and by how much that moves from turn to turn.
        """
        at, apart = self.each
        if any(k % apart for k in (step.const, *step.parts.values())):
            raise NotReadError("what is asked of tiles moves by no multiple of how far they are apart")
        each = Term({a: k // apart for a, k in step.parts.items()}, step.const // apart)
        return first - each * at, each

    def note_asked(self, asked: Term, g: Term, raw: tuple[int, Parts], at: Residue) -> None:
        """Takes note of what was asked at a residue, where a guard on numbers of turns was made of it.

        A register is itself at every residue, a counter is another sum at each.
        """
        if g != asked:
            moves = any(x.startswith(MOVING) for x in asked.names())
            self.asked[g, None if moves else at] = raw

    def as_asked(self, g: Term, at: Residue) -> tuple[int, Parts] | None:
        """What was asked at a residue, of which a guard on numbers of turns was made."""
        return self.asked.get((g, at), self.asked.get((g, None)))

    def parameter(self, a: int) -> str:
        if a not in self.names:
            if self.naming:
                unnamed(self.space, self.names, a)
            raise NotReadError(f"{self.space.symbols[a].name} is no number of the launch")
        return self.names[a]

    def _atom(self, name: str) -> int:
        value = self.atoms[name]
        assert isinstance(value, Value)
        return value.parts[0][0]

    # ---------------------------------------------------------------- visits

    def named(self, name: str, own: Mapping[str, Any]) -> Any:
        """What a name in a form represents: a counter, or a size at the start."""
        if name.startswith("$"):
            back = {x: a for a, x in self.names.items()}
            if name[1:] not in back:
                raise NotReadError(f"{name[1:]} is no number of the launch")
            return self.space.term(0, ((back[name[1:]], 1),))
        if own.get(name) is None:
            raise NotReadError("a register of the trip count before it is known")
        return own[name]

    def onward(self, header: Header, residue: Residue, before: Any, given: Sequence[Any]) -> Iterator[Leaf]:
        """All ways from a header to the next, at some turn of this residue."""
        others = header.others.get(residue, {})
        for instead in ({}, others) if others else ({},):
            for begun in range(len(header.begins)) or (None,):
                kept, known = self.where_begun(header, begun, before)
                visit = self.visit(header, residue, before, (*given, *known), {**kept, **instead})
                start = replace(visit, begun=begun)
                if others:
                    start = self.of_turn(start, header, residue, before, first=bool(instead))
                if not start.path.dead:
                    yield from leaves(self.space, start, self.headers.keys())

    def where_begun(
        self, header: Header, begun: int | None, before: Any
    ) -> tuple[Mapping[Any, Form], tuple[Any, ...]]:
        """What registers keep where a tile begins in a range of residues, and what is at least 0 then."""
        if begun is None:
            return {}, ()
        low, high, kept = header.begins[begun]
        at = before - self.atoms[Y] * self.claim.steps  # its residue
        return kept, (at - low, high - 1 - at)

    def whole(self, header: Header) -> None:
        """Accepts that a tile begins in one of the ranges of residues that are claimed, and that registers
        hold sums there, as in first turns.
        """
        if header.ahead < 0:
            raise NotReadError("fewer steps than none before the loop of a tile")
        if not 0 <= header.first < header.stride or (header.stride > 1 and not header.tiles):
            raise NotReadError("tiles of no agent's turn")
        lows, highs = [0, *(b[1] for b in header.begins)], [*(b[0] for b in header.begins), self.claim.steps]
        if header.begins and (lows != highs or any(x >= y for x, y in pairwise(lows))):
            raise NotReadError("ranges of residues that leave some out")
        for some in (*(b[2] for b in header.begins), *header.others.values()):
            if any(_apart(slot) or f.shape() != "sum" for slot, f in some.items()):
                raise NotReadError("registers of a first turn, or where a tile begins, that are no sums")

    def since_first(self, header: Header, steps: Any, tile: Any, before: Any) -> Any:
        """How many turns ago ``others`` were there; None where they may come again in any turn."""
        when = self.firsts.get(header.place, First.TURN)
        if when >= First.ANY or (when == First.TILE and header.outer is None):
            return None
        return tile if header.tiles or when == First.TILE else steps - before - header.ahead

    def of_turn(self, start: Leaf, header: Header, residue: Residue, before: Any, *, first: bool) -> Leaf:
        """The agent in the turn of ``others``, or in a later one, as if it were asked which."""
        n, u = self.step_and_tile(residue)
        since = self.since_first(header, n, u, before)
        if since is None:
            return start
        c, parts = self.space.of(since - 1)
        start.path.assume(*((-c - 1, negated(parts)) if first else (c, parts)))
        return replace(start, decisions=(*start.decisions, Decision(c, parts, not first)))

    def is_first(self, leaf: Leaf, header: Header, since: Any) -> bool:
        """Whether a way comes to the turn of ``others``, ``since`` turns after it."""
        if self.zero(leaf.path, since):
            return True
        if leaf.path.decide(*leaf.path.resolve(*self.space.of(since - 1))) is True:
            return False
        raise FirstTurnsError(header.place)

    def visit(
        self, header: Header, residue: Residue, before: Any, given: Iterable[Any], instead: Mapping[Any, Form]
    ) -> Leaf:
        """The agent at a header, at some turn of this residue. ``before``: the steps before the loop;
        ``instead``: what registers hold if not what is claimed of most turns.
        """
        template = self.templates[header.place]
        self.visited.add(header.place)
        path = self.root.fork()
        self.space.path = path
        for x in (*given, *self.rising()):
            path.assume(*self.space.of(x))
        agent = template.agent.fork()
        for slot, old in agent.live().items():
            if _apart(slot):
                continue  # every arrival has the same
            register = called(agent, slot)
            form = instead.get(register) or header.form(residue, register)
            if form is not None and self.followed(header, register, form):
                name = self.moving(header, register)
                agent.put(slot, self.atoms[name] if form.moves else self.begin(name))
            elif form is None or form.any:
                agent.put(slot, self.unknown(old))
            elif isinstance(form, Lanes):
                agent.put(slot, form.lanes)
            else:
                agent.put(slot, self.space.resolved(self.formed(form, {**self.atoms, P: before})))
        return Leaf(agent, path, held=template.held, accesses=template.accesses)

    def unknown(self, old: Any) -> Any:
        """Any value of the kind that was there."""
        if isinstance(old, tuple):
            return tuple(map(self.unknown, old))
        if isinstance(old, int | Value):
            return self.space.symbol(OWN + "any", None, None)
        return old

    def arrive_behind(self, leaf: Leaf, header: Header, steps: Any, tile: Any, others: int) -> None:
        """Accepts that a leaf is at a loop of tiles, ``others`` tiles of other agents being between: at each
        residue of how many steps a tile has.
        """
        if others == 0:
            self.arrive(leaf, header, steps, tile, steps)
            return
        trips = {h.trip for h in self.claim.headers if h.outer == header.place}
        trip = trips.pop() if len(trips) == 1 else None
        if trip is None:
            raise NotReadError("how many steps the tiles of others have is not claimed")
        many = self.formed(trip, {})
        m = self.claim.steps
        # what the way has divided it in, if that says the residue; any number of periods else
        c, parts = leaf.path.resolve(*self.space.of(many))
        whole: Any = self.space.term(0, tuple((a, k) for a, k in parts if k % m == 0))
        low, high = leaf.path.bounds(c, tuple((a, k) for a, k in parts if k % m))
        if low is None or high is None or low < 0 or high >= m:
            whole, low, high = self.atoms[Z] * m, 0, m - 1
        held = self.come_to(leaf, header)
        for r in range(low, high + 1):
            each = whole + r
            path = leaf.path.fork()
            self.space.path = path
            for x in (many - each, each - many):
                path.assume(*path.resolve(*self.space.of(x)))
            if not path.dead:
                n = steps + each * others
                self.arrive(leaf, header, n, tile, n, case=(path, held))

    def come_to(self, leaf: Leaf, header: Header) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """What registers hold where a leaf is at a header, and what they held where it was first come to."""
        agent, template = leaf.agent, self.templates.setdefault(header.place, leaf).agent
        self.space.path = leaf.path
        resolve(self.space, agent)
        if agent.point() != template.point():
            raise NotReadError("a loop is come to in different ways")
        live, first = registers(agent), registers(template)
        if live.keys() != first.keys():
            raise NotReadError("a loop is come to with other registers")
        return live, first

    def arrive(
        self, leaf: Leaf, header: Header, steps: Any, tile: Any, before: Any, trips: Any = None,
        case: tuple[PathCondition, tuple[dict[Any, Any], dict[Any, Any]]] | None = None,
    ) -> None:  # fmt: skip
        """Accepts that a leaf is at a header as the claim says of turn ``steps`` and ``tile``. ``case``: that
        of the leaf in which it is asked, and what registers hold there.
        """
        path, (live, first) = case or (leaf.path, self.come_to(leaf, header))
        self.space.path = leaf.path
        residue = (self.residue(steps, self.claim.steps), self.residue(tile, self.claim.tiles))
        h = self._exact(steps - residue[0], self.claim.steps)
        g = self._exact(tile - residue[1], self.claim.tiles)
        others = header.others.get(residue, {})

        counters = {H: h, G: g, P: before, K: trips, Y: None}
        kept: Mapping[Any, Form] = {}
        if header.begins:
            # who goes on keeps where its tile began; who enters is where the steps before it end
            begun, counters[Y] = leaf.begun, self.atoms[Y]
            if begun is None:
                at = self.residue(before, self.claim.steps)
                begun = next(i for i, (low, high, _) in enumerate(header.begins) if low <= at < high)
                counters[Y] = self._exact(before - at, self.claim.steps)
            kept = header.begins[begun][2]

        def meets(form: Form, value: Any) -> bool:
            return isinstance(value, int | Value) and self.zero(path, value - self.formed(form, counters))

        since = self.since_first(header, steps, tile, before) if others else None
        if others and (since is None or self.is_first(leaf, header, since)):
            if all(s in live and meets(f, live[s]) for s, f in others.items()):
                live = {s: x for s, x in live.items() if s not in others}
            elif since is not None:
                raise FirstTurnsError(header.place)
        wrong: dict[Any, tuple[Any, Any]] = {}
        for slot, value in live.items():
            form = kept.get(slot) or self.summed(leaf, header, residue, slot, (value, first[slot]))
            if form is not None and not meets(form, value):
                wrong[slot] = (value, self.formed(form, counters))
        if wrong:
            if since is not None and others.keys() & wrong.keys():
                raise FirstTurnsError(header.place)
            slot, (value, wanted) = next(iter(wrong.items()))
            raise OtherFormsError(f"register {slot} holds {value}, not {wanted}", header.place, wrong)

    def summed(
        self, leaf: Leaf, header: Header, residue: Residue, slot: Any, held: tuple[Any, Any]
    ) -> Form | None:
        """The sum that a register is claimed to be; None where what it holds meets another claim.

        ``held``: what it holds, and what it held where the header was first come to.
        """
        value, first = held
        if _apart(slot):
            if value != first:
                raise NotReadError("lanes are apart by other numbers in another turn")
            return None
        form = header.form(residue, slot)
        if form is not None and self.followed(header, slot, form, value):
            self.follow(leaf, header, slot, value, keeps=form.kept)
            return None
        if form is None or form.any:
            if _kind(value) != _kind(first):
                raise NotReadError("a register changes its kind from turn to turn")
            return None
        if isinstance(form, Lanes):
            if _lanes(value) != form.lanes:
                raise NotReadError("lanes hold other numbers in another turn")
            return None
        if not isinstance(value, int | Value):
            raise NotReadError("a register is no number in some turn")
        return form

    def formed(self, form: Form, own: Mapping[str, Any]) -> Any:
        """The sum that a form is, with what its names are."""
        total: Any = form.c
        for name, k in form.parts:
            total = total + self.named(name, own) * k
        return total

    def _exact(self, x: Any, m: int) -> Any:
        c, parts = self.space.of(self.space.resolved(x))
        if c % m or any(k % m for _, k in parts):
            raise NotReadError("a counter of no known residue")
        return self.space.term(c // m, tuple((a, k // m) for a, k in parts))

    def residue(self, x: Any, m: int) -> int:
        c, parts = self.space.of(x)
        if any(k % m for _, k in parts):
            raise NotReadError("a counter of no known residue")
        return c % m

    def zero(self, path: PathCondition, x: Any) -> bool:
        c, parts = path.resolve(*self.space.of(x))
        if not parts:
            return c == 0
        return path.decide(c, parts) is True and path.decide(-c, negated(parts)) is True

    # ---------------------------------------------------------------- the whole

    def read(self, agent: SymbolicAgent) -> Text:
        """What the agent does; NotReadError where the claim does not hold."""
        self.space.path = self.root
        for h in self.claim.headers:
            self.whole(h)
        held = None
        if agent.shares:
            held = Held(self.claim.words, self.claim.versions)
            agent.hear(held)
        start = Leaf(agent, self.root.fork(), held=held)
        out: list[StraightText | LoopText | TilesText] = []
        found = leaves(self.space, start, self.headers.keys())
        here: dict[Residue, list[Leaf]] = {(0, 0): found}
        steps, tile = ZERO, ZERO
        target = self.target(here)
        out.append(self.region(here, steps, tile, ZERO))
        while target is not None:
            header = self.headers[target]
            if header.tiles:
                tiles, here, steps, tile = self.tiles(header, here)
                out.append(tiles)
            else:
                loop, here, steps = self.loop(header, here, steps)
                tile = ZERO
                out.append(loop)
            target = self.target(here)
            out.append(self.region(here, steps, tile, steps))
        return tuple(x for x in out if not isinstance(x, StraightText) or x.matters)

    def target(self, here: Mapping[Residue, list[Leaf]]) -> int | None:
        """Where all ways lead. SizeCaseError where sizes alone decide between several."""
        found = list(dict.fromkeys(x.target for some in here.values() for x in some))
        if len(found) != 1:
            for some in here.values():
                for leaf in some:
                    self.of_sizes(leaf)
            raise NotReadError("ways that lead to different loops")
        return found[0]

    def of_sizes(self, leaf: Leaf) -> None:
        """Raises SizeCaseError for the first decision that is about sizes alone."""
        for d in leaf.decisions:
            if d.parts and all(nameable(self.space, self.names, a) for a, _ in d.parts):
                for a, _ in d.parts:
                    self.parameter(a)
                raise SizeCaseError(d.c, d.parts)

    def residues(self) -> Iterator[Residue]:
        for r in range(self.claim.steps):
            for q in range(self.claim.tiles):
                yield r, q

    # ---------------------------------------------------------------- loops

    def once(self, header: Header) -> None:
        """A loop is read once: control comes back to it in no other way than its own."""
        if header.place in self.begun:
            raise NotReadError("a loop that is come to again from behind it")
        self.asked.clear()
        self.begun.add(header.place)

    def loop(
        self, header: Header, here: Mapping[Residue, list[Leaf]], steps: Term
    ) -> tuple[LoopText, dict[Residue, list[Leaf]], Term]:
        """A loop outside tiles. ``steps``: those before it."""
        self.once(header)
        if header.begins or header.ahead or header.outer is not None:
            raise NotReadError("a loop outside of tiles with what only those in tiles have")
        p = self.atoms[P] if steps != ZERO else 0
        h, m = self.atoms[H], self.claim.steps
        for r, some in here.items():
            for leaf in some:
                first = 0 if steps == ZERO else h * m + r[0]
                self.arrive(leaf, header, first, 0, first)
        bodies, exits, high = self.turned(header, p, steps)
        if "n" in high.names() or "%K" in high.names():
            raise NotReadError("a loop's end depends on its counter")
        if header.late:
            self.entered(here, high - steps - 1)
            body, after = self.parted(header, bodies, exits, (N, ZERO, steps), high)
        else:
            self.entered(here, high - steps)
            body, after = self.region(bodies, N, ZERO, steps), exits
        return LoopText(steps, high, body), after, high

    def turned(
        self, header: Header, p: Any, steps: Term
    ) -> tuple[dict[Residue, list[Leaf]], dict[Residue, list[Leaf]], Term]:
        """The ways from a header back to it and on, and where its counter ends.

        A loop that goes on until its counter *is* a number is bounded by induction. The end is guessed from
        what is asked, the header is looked at in turns below it alone, and whoever goes on has to stay there.
        A claim may say the end, too.
        """
        if header.trip is not None:
            with suppress(NotReadError):
                high = steps + self.sizes(self.formed(header.trip, {}))
                return *self.ways_below(header, p, steps, high), high
            self.elsewhere.add(header.place)
        bodies, exits = self.ways(header, p, ())
        try:
            return bodies, exits, self.bound(bodies, exits, N, ZERO, steps, header.late)
        except NotReadError as e:
            why = e
        for high in self.ends_asked(header, bodies, exits, ZERO, steps):
            with suppress(NotReadError):
                return *self.ways_below(header, p, steps, high), high
        raise why

    def ways_below(
        self, header: Header, p: Any, steps: Term, high: Term
    ) -> tuple[dict[Residue, list[Leaf]], dict[Residue, list[Leaf]]]:
        """The ways of a loop outside tiles, looked at in turns up to its end alone."""
        if not self.sized(high):
            raise NotReadError("a loop that ends at no sum of sizes")
        bodies, exits = self.ways(header, p, (high,))
        if self.bound(bodies, exits, N, ZERO, steps, header.late) != high:
            raise NotReadError("a loop that ends elsewhere")
        return bodies, exits

    def ways(
        self, header: Header, p: Any, ends: Sequence[Term]
    ) -> tuple[dict[Residue, list[Leaf]], dict[Residue, list[Leaf]]]:
        """The ways from a header of a loop outside tiles. ``ends``: the counter is known not to be beyond."""
        bodies: dict[Residue, list[Leaf]] = {}
        exits: dict[Residue, list[Leaf]] = {}
        for at in ((i, 0) for i in range(self.claim.steps)):
            n = self.atoms[H] * self.claim.steps + at[0]
            known = [n - p, *(self.valued(t) - n - (1 if header.late else 0) for t in ends)]
            for leaf in self.onward(header, at, p, known):
                if leaf.target == header.place:
                    self.arrive(leaf, header, n + 1, 0, p)
                    bodies.setdefault(at, []).append(leaf)
                else:
                    exits.setdefault(at, []).append(leaf)
        return bodies, exits

    def ends_asked(
        self, header: Header, bodies: Mapping[Residue, list[Leaf]], exits: Mapping[Residue, list[Leaf]],
        tile: Term, before: Term,
    ) -> list[Term]:  # fmt: skip
        """Where the counter may end, by what is asked of it: so many steps behind those before the loop."""
        found: dict[Term, None] = {}
        for side in (bodies, exits):
            for r, some in side.items():
                for d in (d for leaf in some for d in leaf.decisions):
                    for c, parts in ((d.c, d.parts), (-d.c - 1, negated(d.parts))):
                        try:
                            q = least(self.counted(c, parts, r, N, tile, before))
                        except NotReadError:
                            continue
                        if q.parts.get("n") == -1 and self.sized(q + N - before):
                            found[q + N + (2 if header.late else 1)] = None
        return list(found)[:MOST_ENDS]

    def sized(self, t: Term) -> bool:
        """Whether a term is over sizes alone."""
        return not t.functions() and t.names() <= {*self.names.values()}

    def valued(self, t: Term) -> Any:
        return valued(self.space, self.names, t)

    def entered(self, here: Mapping[Residue, list[Leaf]], wanted: Term) -> None:
        """Accepts that a constraint on sizes holds wherever a loop is entered."""
        if wanted.functions():
            raise NotReadError("how often a loop behind tiles runs is not known")
        named = [x for x in wanted.names() if x.startswith(TURNS)]
        if named:
            m = var(named[0]) - wanted
            if m.parts or m.const < 0:
                raise NotReadError(f"a loop may have fewer steps than none: {wanted}")
            if m.const == 0:
                return
            first, step = self.turns.key(named[0])
            wanted = first + step * (m.const - 1)
        for some in here.values():
            for leaf in some:
                self.space.path = leaf.path
                x = leaf.path.resolve(*self.space.of(self.valued(wanted)))
                if leaf.path.decide(*x) is not True:
                    if all(a in self.names for a, _ in x[1]):
                        raise SizeCaseError(*x)
                    raise NotReadError(f"a loop may have fewer steps than none: {wanted}")

    def bound(
        self, bodies: Mapping[Residue, list[Leaf]], exits: Mapping[Residue, list[Leaf]], steps: Term,
        tile: Term, before: Term, late: bool,
    ) -> Term:  # fmt: skip
        """Where the counter ends: the question that is answered one way by all who go on, the other by all
        who leave."""
        ahead = 2 if late else 1
        ends = {self.end(q, steps, before, ahead) for q in self.deciding(bodies, exits, steps, tile, before)}
        ends = {t for t in ends if t is not None and "n" not in t.names()}
        if len(ends) != 1:
            raise NotReadError("what decides whether a loop goes on is not one comparison")
        return next(t for t in ends if t is not None)

    def end(self, q: Term, steps: Term, before: Term, ahead: int) -> Term | None:
        """Where a counter ends that goes on while a term is at least 0; None where that is not known."""
        names = [x for x in q.names() if x.startswith(MOVING)]
        counter = "u" if steps == U else "n"
        apart = self.each[1] if steps == U else 1
        k = q.parts.get(counter, 0)
        if not names and k < -1:
            first, step = q.put({counter: before}), num(k)
            if first.names() & {"n", "u", "%K"} or first.functions():
                return None
            return before + self.turns_of(first - step * (ahead - 1), step, steps)
        if not names:
            return q + steps + ahead if apart == 1 else None
        if len(names) != 1 or q.names() & {"n", "u", "%K"} or q.functions():
            return None
        first, step = self.stride(q, names)
        if not self.positive(-step):
            raise NotReadError("a register that may stand still")
        # what is asked behind the body of a turn is what the next one would be asked before it
        return before + self.turns_of(first - step * (ahead - 1), step, steps)

    def turns_of(self, first: Term, step: Term, steps: Term) -> Term:
        """How many turns ask what is true, or how many tiles of all agents, by what the agent asks of its."""
        if steps == U and self.each[1] > 1:
            first, step = self.of_tiles(first, step)
            if step == num(-1):  # true of so many tiles as the sum says, if there are so many
                return first + 1
        return self.turns.of(first, step)

    def deciding(
        self, continuing: Mapping[Residue, list[Leaf]], ends: Mapping[Residue, list[Leaf]], steps: Term,
        tile: Term, before: Term,
    ) -> list[Term]:  # fmt: skip
        """Comparisons that are true on all ways that go on, and false on all others."""
        asked: dict[Term, None] = {}
        for side, yes in ((continuing, True), (ends, False)):
            for r, some in side.items():
                for leaf in some:
                    for d in leaf.decisions:
                        c, parts = (d.c, d.parts) if d.yes is yes else (-d.c - 1, negated(d.parts))
                        try:
                            asked[least(self.counted(c, parts, r, steps, tile, before))] = None
                        except NotReadError:
                            continue
        return [
            q
            for q in asked
            if all(
                self.holds(leaf, q, r, steps, tile, before) is yes
                for side, yes in ((continuing, True), (ends, False))
                for r, some in side.items()
                for leaf in some
            )
        ]

    def holds(self, leaf: Leaf, g: Term, r: Residue, steps: Term, tile: Term, before: Term) -> bool | None:
        """As ``known``; None also where a term has no value on this way."""
        try:
            return self.known(leaf, g, r, steps, tile, before)
        except NotReadError:
            return None

    def counted(self, c: int, parts: Parts, r: Residue, steps: Term, tile: Term, before: Term) -> Term:
        """A sum at a residue, with the counters themselves in it: n = m h + r."""
        for a, k in parts:
            if a == self._atom(H):
                if k % self.claim.steps:
                    raise NotReadError("a part of a counter")
                c -= k // self.claim.steps * r[0]
            if a == self._atom(G):
                if k % self.claim.tiles:
                    raise NotReadError("a part of a counter")
                c -= k // self.claim.tiles * r[1]
        return self.term(c, parts, steps, tile, before)

    def parted(
        self, header: Header, bodies: Mapping[Residue, list[Leaf]], exits: Mapping[Residue, list[Leaf]],
        counts: tuple[Term, Term, Term], end: Term,
    ) -> tuple[StraightText, dict[Residue, list[Leaf]]]:  # fmt: skip
        """The body of a loop that asks behind it, and the ways out without the body before them.

        Where the last turn does something else, the body is that of the others, and the ways out are whole.
        ``counts``: steps, tile and steps before there. ``end``: of the counter.
        """
        steps, tile, before = counts
        body = self.region(bodies, steps, tile, before)
        counts_tiles = steps != N
        by = (0, 1) if counts_tiles else (1, 0)
        after: dict[Residue, list[Leaf]] = {}
        whole: dict[Residue, list[Leaf]] = {}
        for r, some in exits.items():
            at = (r[0] + by[0], r[1] + by[1])
            whole[at] = list(some)
        try:
            if header.apart:
                raise NotReadError("the last turn is claimed to stand behind the loop")
            for r, some in exits.items():
                at = (r[0] + by[0], r[1] + by[1])
                after[at] = [leaf.cut(self.without(leaf, body, r, steps, tile, before)) for leaf in some]
        except NotReadError:
            self.apart.add(header.place)
            more = end - (self.tile() + self.each[1] + 1 if counts_tiles else steps + 2)
            pieces = tuple(replace(p, guards=(*p.guards, more)) for p in body.pieces)
            return replace(body, pieces=pieces), whole
        return body, after

    def without(
        self, leaf: Leaf, body: StraightText, r: Residue, steps: Term, tile: Term, before: Term
    ) -> tuple[Event, ...]:
        """The events of a leaf behind those of a body, which must come first."""
        wanted = [e for p in body.pieces for e in self.present(leaf, p, r, steps, tile, before)]
        left = [e for e in leaf.events if essence(e) is not None]
        if [essence(e) for e in left[: len(wanted)]] != wanted:
            raise NotReadError("the last turn of a loop does something else")
        return tuple(left[len(wanted) :])

    def present(self, leaf: Leaf, p: Piece, r: Residue, steps: Term, tile: Term, before: Term) -> list[Event]:
        """The event of an operation on this way, if it is executed there."""
        sure = [self.known(leaf, g, r, steps, tile, before) for g in p.guards]
        if any(x is False for x in sure):
            return []
        if any(x is None for x in sure) or r not in p.events:
            raise NotReadError("whether an operation is executed is not known")
        return [p.events[r]]

    def known(self, leaf: Leaf, g: Term, r: Residue, steps: Term, tile: Term, before: Term) -> bool | None:
        """Whether a guard holds on a way; None where it is not known."""
        raw = self.as_asked(g, r)
        if raw is not None:
            self.space.path = leaf.path
            return leaf.path.decide(*leaf.path.resolve(*raw))
        total: Any = g.const
        back = {name: a for a, name in self.names.items()}
        for a, k in g.parts.items():
            total = total + self._back(Term({a: 1}), r, steps, tile, before, back) * k
        self.space.path = leaf.path
        x = leaf.path.resolve(*self.space.of(total))
        return leaf.path.decide(*x)

    def _back(
        self, t: Term, r: Residue, steps: Term, tile: Term, before: Term, back: Mapping[str, int]
    ) -> Any:
        """A term of one name as a value."""
        if t == steps and steps.parts:
            return self.atoms[H] * self.claim.steps + r[0]
        if t == tile and tile.parts:
            return self.atoms[G] * self.claim.tiles + r[1]
        if t == before and before.parts:
            return self.atoms[P]
        ((a, _),) = t.parts.items()
        if a == "%K":
            return self.atoms[K]
        if isinstance(a, str) and a in self.strides:
            return self.atoms[a]
        if isinstance(a, str) and a in back:
            return self.space.term(0, ((back[a], 1),))
        raise NotReadError(f"a guard on {t}")

    # ---------------------------------------------------------------- tiles

    def step_and_tile(self, at: Residue) -> tuple[Any, Any]:
        """The numbers of a step and a tile of some residue, as values."""
        return self.atoms[H] * self.claim.steps + at[0], self.atoms[G] * self.claim.tiles + at[1]

    def tile_ways(self, header: Header) -> tuple[dict[Residue, list[Leaf]], dict[Residue, list[Leaf]]]:
        """The ways of a turn that enter the inner loop, and those that leave the loop of tiles. Tiles of one
        step enter none: others come back.
        """
        heads: dict[Residue, list[Leaf]] = {}
        ends: dict[Residue, list[Leaf]] = {}
        for at in self.residues():
            n, u = self.step_and_tile(at)
            # no step comes before tile 0
            for leaf in self.onward(header, at, n, () if at[0] == 0 or header.first else (u - 1,)):
                enters = leaf.target is not None and self.headers[leaf.target].outer == header.place
                (heads if enters else ends).setdefault(at, []).append(leaf)
            # before further residues, of which a claim that fits few tiles may say too little to go on
            for leaf in (x for some in ends.values() for x in some if heads and x.target == header.place):
                self.of_sizes(leaf)
                raise NotReadError("a tile without its loop")
        return heads, ends

    def inner_trips(
        self, heads: Mapping[Residue, list[Leaf]], inner: Header, start: Term
    ) -> tuple[dict[tuple[Trip, ...], None], bool]:
        """The trip counts with which the inner loop is entered, and whether each is known to be positive."""
        trips: dict[tuple[Trip, ...], None] = {}
        full = True
        for at, some in heads.items():
            with_trips = []
            for leaf in some:
                n, u = self.step_and_tile(at)
                k = self.trip(leaf, inner, at, n)
                self.arrive(leaf, inner, n + inner.ahead, u, n, k)
                self.space.path = leaf.path
                sure = k is not None and leaf.path.decide(*leaf.path.resolve(*self.space.of(k - 1))) is True
                full &= sure
                if inner.late and k is not None and not sure:
                    raise NotReadError("a tile may be empty")
                with_trips.append((leaf, k))
            trips[self.trips(with_trips, at, start)] = None
        return trips, full

    def tiles_begun(self, header: Header, here: Mapping[Residue, list[Leaf]]) -> None:
        """Accepts that all who come to a loop of tiles are at the first one of theirs."""
        for r, some in here.items():
            if r != (0, 0) or header.begins or header.ahead or header.outer is not None:
                raise NotReadError("steps before the first tile")
            for leaf in some:
                self.arrive_behind(leaf, header, 0, 0, header.first)
        self.each = header.first, header.stride

    def tiles(
        self, header: Header, here: Mapping[Residue, list[Leaf]]
    ) -> tuple[TilesText, dict[Residue, list[Leaf]], Term, Term]:
        """Loops around loops: the steps of all tiles are counted on."""
        self.once(header)
        self.tiles_begun(header, here)
        heads, ends = self.tile_ways(header)
        if not heads:
            return self.tiles_of_a_step(header, here, ends)
        start, stop = (apply(self.function, self.tile() + i) for i in (0, 1))
        target = self.target(heads)
        assert target is not None
        inner = self.headers[target]
        self.once(inner)
        first = self.region(heads, start, U, start)
        trips, full = self.inner_trips(heads, inner, start)
        loop, inner_trips, posts = self.inside(inner, start, trips)
        if len(inner_trips) == 1 and not inner_trips[0].guards and not inner_trips[0].steps.names() & {"u"}:
            # the number is that of a launch without tiles, too, where it may be 0
            full = self.positive(inner_trips[0].steps)
        full |= len(inner_trips) > 1 and all(self.positive(t.steps) for t in inner_trips)
        if header.stride > 1 and not (full and inner.trip is not None):
            raise NotReadError("how many steps the tiles of others have is not known")
        continuing: dict[Residue, list[Leaf]] = {}
        for r, some in posts.items():
            for leaf in some:
                if leaf.target == header.place:
                    n, u = self.step_and_tile(r)
                    self.arrive_behind(leaf, header, n, u + 1, header.stride - 1)
                    continuing.setdefault(r, []).append(leaf)
                else:
                    ends.setdefault(r, []).append(leaf)
        late = bool(posts) and any(x.target != header.place for some in posts.values() for x in some)
        if late:
            behind = {r: [x for x in some if x in posts.get(r, [])] for r, some in ends.items()}
            if behind != ends:
                raise NotReadError("tiles end in two ways")
            once = num(header.first + 1)  # no way leads back
            count = self.bound_of_tiles(continuing, ends, stop, 2) if continuing else once
            last, after = self.parted(header, continuing, ends, (stop, U, stop), count)
            self.entered(here, count - header.first - 1)
        else:
            count = self.bound_of_tiles(heads, ends, start, 1)
            last, after = self.region(continuing, stop, U, stop), ends
            self.entered(here, count)
        if count.names() & {"u", "n", "%K"}:
            raise NotReadError("the number of tiles depends on the tile")
        if inner.ahead == 1:
            first, loop = folded(first, loop)
        body = (first, loop, last)
        text_ = TilesText(
            count,
            inner_trips,
            full,
            self.function,
            tuple(x for x in body if not isinstance(x, StraightText) or x.matters),
            *self.each,
        )
        # how many the agent has taken is no sum, so that nothing behind may count
        if header.stride > 1 and continuing:
            if self.target(after) is not None:
                raise NotReadError("a loop behind tiles that are taken in turn")
            return text_, after, BEHIND, BEHIND
        return text_, after, apply(self.function, count), count - header.first

    def tiles_of_a_step(
        self, header: Header, here: Mapping[Residue, list[Leaf]], ways: Mapping[Residue, list[Leaf]]
    ) -> tuple[TilesText, dict[Residue, list[Leaf]], Term, Term]:
        """Tiles of one step each, without a loop: tile ``t`` is step ``t``."""
        back, ends = (
            {r: [x for x in some if (x.target == header.place) is again] for r, some in ways.items()}
            for again in (True, False)
        )
        if not any(back.values()):
            raise NotReadError("a loop of tiles that has no turns")
        trips = {h.trip for h in self.claim.headers if h.outer == header.place}
        if any(x is None or self.sizes(self.formed(x, {})) != num(1) for x in trips):
            raise NotReadError("tiles without a loop that are claimed to have other steps than one")
        for r, some in back.items():
            for leaf in some:
                n, u = self.step_and_tile(r)
                self.arrive_behind(leaf, header, n + 1, u + 1, header.stride - 1)
        tile = self.tile()
        count = self.bound_of_tiles(back, ends, tile, 2)
        body, after = self.parted(header, back, ends, (tile, U, tile), count)
        self.entered(here, count - header.first - 1)
        trip, (first, stride) = (Trip((), num(1)),), self.each
        text_ = TilesText(count, trip, full=True, function="", body=(body,), first=first, stride=stride)
        if header.stride == 1:
            return text_, {(r + 1, q): some for (r, q), some in after.items()}, count, count
        if self.target(after) is not None:
            raise NotReadError("a loop behind tiles that are taken in turn")
        return text_, after, BEHIND, BEHIND

    def trip(self, leaf: Leaf, inner: Header, r: Residue, n: Any) -> Any:
        """The trip count that a register holds where the inner loop is entered; None where none does."""
        if inner.ahead:
            return None
        forms = inner.forms.get(r, {})
        for slot, value in registers(leaf.agent).items():
            form = forms.get(slot)
            if form is None or form.any or dict(form.parts).get(K) != 1 or not isinstance(value, int | Value):
                continue
            rest: Any = form.c
            for name, k in form.parts:
                if name != K:
                    rest = rest + self.named(name, {**self.atoms, P: n}) * k
            return value - rest
        return None

    def trips(self, with_trips: Sequence[tuple[Leaf, Any]], r: Residue, start: Term) -> tuple[Trip, ...]:
        """How many steps a tile has, by what was asked of it; where all ways have as many, in any case."""
        if any(k is None for _, k in with_trips):
            return ()
        steps = [self.counted(*self.space.of(k), r, start, U, start) for _, k in with_trips]
        if len(set(steps)) == 1:
            return (Trip((), steps[0]),)
        out = []
        for (leaf, _), many in zip(with_trips, steps, strict=True):
            asked = ((d.c, d.parts) if d.yes else (-d.c - 1, negated(d.parts)) for d in leaf.decisions)
            guards = tuple(least(self.counted(*q, r, start, U, start)) for q in asked)
            out.append(Trip(guards, many))
        return tuple(sorted(out, key=str))

    def inside(
        self, inner: Header, start: Term, trips: Mapping[tuple[Trip, ...], None]
    ) -> tuple[LoopText, tuple[Trip, ...], dict[Residue, list[Leaf]]]:
        """The loop inside a tile, and the ways behind it, by the residue of the steps made."""
        known = next(iter(trips)) if len(trips) == 1 else ()
        if inner.trip is not None:
            bodies, exits, found = self.inner_below(inner, self.sizes(self.formed(inner.trip, {})), start)
        else:
            bodies, exits = self.inner_ways(inner, self.atoms[K] if inner.late and known else None)
            try:
                found = self.lasting(inner, bodies, exits, start, known)
            except NotReadError:
                met = self.inner_met(inner, bodies, exits, start)
                if met is None:
                    raise
                bodies, exits, found = met
        stop = apply(self.function, self.tile() + 1)
        if inner.late:
            body, after = self.parted(inner, bodies, exits, (N, U, start), stop)
        else:
            body, after = self.region(bodies, N, U, start), exits
        return LoopText(start + inner.ahead, stop, body), found, after

    def inner_ways(
        self, inner: Header, steps: Any
    ) -> tuple[dict[Residue, list[Leaf]], dict[Residue, list[Leaf]]]:
        """The ways from the header of a loop in a tile. ``steps``: the counter is known not to be beyond."""
        p, k = self.atoms[P], self.atoms[K]
        bodies: dict[Residue, list[Leaf]] = {}
        exits: dict[Residue, list[Leaf]] = {}
        for at in self.residues():
            n, u = self.step_and_tile(at)
            below = [] if steps is None else [p + steps - n - (1 if inner.late else 0)]
            given = [n - p - inner.ahead, *below]
            for leaf in self.onward(inner, at, p, given):
                if leaf.target == inner.place:
                    self.arrive(leaf, inner, n + 1, u, p, k)
                    bodies.setdefault(at, []).append(leaf)
                else:
                    exits.setdefault(at, []).append(leaf)
        return bodies, exits

    def inner_met(
        self, inner: Header, bodies: Mapping[Residue, list[Leaf]], exits: Mapping[Residue, list[Leaf]],
        start: Term,
    ) -> tuple[dict[Residue, list[Leaf]], dict[Residue, list[Leaf]], tuple[Trip, ...]] | None:  # fmt: skip
        """The same for a loop that goes on until its counter *is* a number, as in ``turned``."""
        for high in self.ends_asked(inner, bodies, exits, U, start):
            try:
                return self.inner_below(inner, high - start, start)
            except NotReadError:
                continue
        return None

    def inner_below(
        self, inner: Header, steps: Term, start: Term
    ) -> tuple[dict[Residue, list[Leaf]], dict[Residue, list[Leaf]], tuple[Trip, ...]]:
        """The ways of a loop in a tile that has so many steps, looked at in turns below that alone."""
        if not self.positive(steps, inner.ahead + (1 if inner.late else 0)):
            raise NotReadError("a tile may have fewer steps than none")
        bodies, exits = self.inner_ways(inner, self.valued(steps))
        if self.lasting(inner, bodies, exits, start, ()) != (Trip((), steps),):
            raise NotReadError("a tile has another number of steps")
        return bodies, exits, (Trip((), steps),)

    def lasting(
        self, inner: Header, bodies: Mapping[Residue, list[Leaf]], exits: Mapping[Residue, list[Leaf]],
        start: Term, known: tuple[Trip, ...],
    ) -> tuple[Trip, ...]:  # fmt: skip
        """The steps of a tile. ``known``: what a register says of them where the loop is entered."""
        try:
            trip = self.bound(bodies, exits, N, U, start, inner.late) - start
        except NotReadError:
            found = self.by_tile(inner, bodies, exits, start)
            if not found or known not in ((), found):
                raise
        else:
            if inner.late and known and trip != var("%K") and known != (Trip((), trip),):
                raise NotReadError("a trip count that does not say when the loop ends")
            if trip == var("%K"):
                if not known:
                    raise NotReadError("trip counts of tiles that differ by residue")
                return known
            if trip.names() & {"n", "%K"} or trip.functions():
                raise NotReadError("a trip count that depends on the counter")
            found = (Trip((), trip),)
        needed = inner.ahead + (1 if inner.late else 0)
        if needed and not all(self.positive(t.steps, needed) for t in found):
            raise NotReadError("a tile may be empty")
        return found

    def by_tile(
        self, inner: Header, bodies: Mapping[Residue, list[Leaf]], exits: Mapping[Residue, list[Leaf]],
        start: Term,
    ) -> tuple[Trip, ...]:  # fmt: skip
        """The steps of a tile by the answer to a question about the tile that every way through its loop
        answers; none where there is no such question.
        """
        for q in self.about_tile((*bodies.items(), *exits.items()), start):
            found = []
            for g in (q, -q - 1):
                sides = [
                    {r: [x for x in some if self.holds(x, g, r, N, U, start)] for r, some in side.items()}
                    for side in (bodies, exits)
                ]
                try:
                    trip = self.bound(sides[0], sides[1], N, U, start, inner.late) - start
                except NotReadError:
                    break
                plain = not trip.names() & {"n", "u", "%K"} and not trip.functions()
                if plain and all(any(side.values()) for side in sides):
                    found.append(Trip((g,), trip))
            if len(found) == 2:
                return tuple(sorted(found, key=str))
        return ()

    def about_tile(self, ways: Iterable[tuple[Residue, list[Leaf]]], start: Term) -> list[Term]:
        """What is asked about a tile, whatever its step, and answered on each of these ways."""
        asked: dict[Term, None] = {}
        every = [(r, leaf) for r, some in ways for leaf in some]
        for r, leaf in every:
            for d in leaf.decisions:
                try:
                    q = least(self.counted(d.c, d.parts, r, N, U, start))
                except NotReadError:
                    continue
                if "u" in q.parts and not q.names() & {"n", "%K"} and not q.functions():
                    asked[q] = None
        return [q for q in asked if all(self.holds(x, q, r, N, U, start) is not None for r, x in every)]

    def positive(self, t: Term, least: int = 1) -> bool:
        """Whether sizes make a term at least this, wherever they are."""
        for name in [x for x in t.names() if x.startswith(TURNS)]:
            rest = t - var(name)
            if rest.parts:
                return False
            first, step = self.turns.key(name)
            t, least = first + step * max(least - rest.const - 1, 0), 0
        if not self.sized(t):
            return False
        self.space.path = path = self.root.fork()
        return path.decide(*path.resolve(*self.space.of(self.valued(t) - least))) is True

    def bound_of_tiles(
        self,
        continuing: Mapping[Residue, list[Leaf]],
        ends: Mapping[Residue, list[Leaf]],
        steps: Term,
        ahead: int,
    ) -> Term:
        found = {self.end(q, U, ZERO, ahead) for q in self.deciding(continuing, ends, steps, U, steps)}
        some = {t for t in found if t is not None}
        some = {t for t in some if not t.names() & {"u", "n", "%K"} and not t.functions()}
        if len(some) != 1:
            raise NotReadError("what decides whether there is a further tile is not one comparison")
        return some.pop()

    # ---------------------------------------------------------------- regions

    def region(
        self, here: Mapping[Residue, list[Leaf]], steps: Term, tile: Term, before: Term
    ) -> StraightText:
        """The operations of a stretch of code, from all ways through it at all residues."""
        events: dict[_Key, dict[Residue, Event]] = {}
        where: dict[_Key, list[tuple[Residue, Leaf]]] = {}
        every: list[_Way] = []
        for r, some in sorted(here.items()):
            for leaf in some:
                times: dict[int, int] = {}
                keys: list[_Key] = []
                for e in leaf.events:
                    kept = essence(e)
                    if kept is None:
                        continue
                    times[e[1]] = times.get(e[1], 0) + 1
                    key = (e[1], times[e[1]])
                    keys.append(key)
                    alike(events.setdefault(key, {}).setdefault(r, kept), kept)
                    where.setdefault(key, []).append((r, leaf))
                every.append((r, leaf, keys))
        pieces: dict[_Key, Piece] = {}
        for key in ordered(every):
            inside = where[key]
            guards: tuple[Term, ...] = ()
            if len(inside) != len(every):
                guards = self.guards(inside, every, key, steps, tile, before)
            pieces[key] = Piece(key[0], events[key], guards)
        self.executed(every, pieces, steps, tile, before)
        ways = dict.fromkeys(own(leaf.all) for _, leaf, _ in every)
        products = self.products(every, steps, tile, before)
        return StraightText(tuple(pieces.values()), steps, tile, tuple(ways), products)

    def executed(
        self, every: Sequence[_Way], pieces: Mapping[_Key, Piece], steps: Term, tile: Term, before: Term
    ) -> None:
        """Accepts that each operation is executed on the ways on which its guards hold, and no others."""
        for r, leaf, keys in every:
            for key, piece in pieces.items():
                sure = [self.known(leaf, g, r, steps, tile, before) for g in piece.guards]
                there = key in keys
                if there != all(x is True for x in sure) or (not there and not any(x is False for x in sure)):
                    raise NotReadError("under what conditions an operation is executed is not known")

    def products(self, every: Sequence[_Way], steps: Term, tile: Term, before: Term) -> frozenset[Any]:
        """What each wgmma tells besides its bytes: one number, or by residue and by what was asked before."""
        found: dict[tuple[int, int], dict[Any, int]] = {}
        for number, (r, leaf, _) in enumerate(every):
            times: dict[int, int] = {}
            for e in leaf.all:
                if e[0] == Ev.WGMMA:
                    times[e[1]] = times.get(e[1], 0) + 1
                    found.setdefault((e[1], times[e[1]]), {})[r, number] = operand_key(e)
        out: set[Any] = set()
        for key, some in found.items():
            if len(set(some.values())) == 1:
                out.add((key, next(iter(some.values()))))
                continue
            for (r, number), x in some.items():
                if all(y == x for (other, _), y in some.items() if other == r):
                    out.add((key, r, x))
                    continue
                asked = []
                for d in every[number][1].decisions:
                    c, parts = (d.c, d.parts) if d.yes else (-d.c - 1, negated(d.parts))
                    asked.append(self.counted(c, parts, r, steps, tile, before))
                out.add((key, r, tuple(asked), x))
        return frozenset(out)

    def guards(
        self, inside: Sequence[tuple[Residue, Leaf]], every: Sequence[tuple[Residue, Leaf, Any]],
        key: tuple[int, int], steps: Term, tile: Term, before: Term,
    ) -> tuple[Term, ...]:  # fmt: skip
        """What is answered wherever an operation is executed, and not wherever it is not."""

        def conditions(r: Residue, decisions: Iterable[Decision]) -> dict[Term, None]:
            out: dict[Term, None] = {}
            for d in decisions:
                c, parts = (d.c, d.parts) if d.yes else (-d.c - 1, negated(d.parts))
                try:
                    asked = least(self.counted(c, parts, r, steps, tile, before))
                    g = self.in_turns(asked, steps, tile, before)
                    self.note_asked(asked, g, (c, parts), r)
                    out[g] = None
                except NotReadError:
                    continue
            return out

        found: dict[Term, None] = {}
        for r, leaf in inside:
            found |= conditions(r, leaf.decisions)

        def holds(r: Residue, leaf: Leaf, g: Term) -> bool | None:
            return self.holds(leaf, g, r, steps, tile, before)

        common = [g for g in found if all(holds(r, leaf, g) is True for r, leaf in inside)]
        outside = [(r, leaf) for r, leaf, keys in every if key not in keys]
        needed = [g for g in common if any(holds(r, leaf, g) is False for r, leaf in outside)]
        return tuple(sorted(needed, key=str))


#: An operation of a region: its site, and which of its executions on one way.
_Key = tuple[int, int]
_Way = tuple[Residue, Leaf, list[_Key]]


def valued(space: SymbolicContext, names: Mapping[int, str], t: Term) -> Any:
    """A term over sizes as a value."""
    back: dict[Any, int] = {name: a for a, name in names.items()}
    return sum((space.term(0, ((back[x], 1),)) * k for x, k in t.parts.items()), start=t.const)


def least(t: Term) -> Term:
    """The constraint divided by what divides all its coefficients: the same integers meet it."""
    g = gcd(*t.parts.values())
    return t if g < 2 else Term({a: k // g for a, k in t.parts.items()}, t.const // g)


def folded(first: StraightText, loop: LoopText) -> tuple[StraightText, LoopText]:
    """The same with the one step before a loop as its first turn, of which it is the beginning: what else the
    turns of the loop do, that turn does not.
    """

    def same(x: Piece, y: Piece) -> bool:
        if x.guards or y.guards or x.events.keys() != y.events.keys():
            return False
        return all((e[0], *e[2:]) == (y.events[r][0], *y.events[r][2:]) for r, e in x.events.items())

    some, others = first.pieces, loop.body.pieces
    for k in range(min(len(some), len(others)), 0, -1):
        if all(map(same, some[len(some) - k :], others)):
            more = tuple(replace(p, guards=(*p.guards, N - loop.lo)) for p in others[k:])
            body = replace(loop.body, pieces=(*others[:k], *more))
            return replace(first, pieces=some[: len(some) - k]), LoopText(loop.lo - 1, loop.hi, body)
    return first, loop


def alike(old: Event, new: Event) -> None:
    """Accepts that an operation does the same on all ways at one residue."""
    if old != new:
        raise NotReadError("an operation that differs from way to way")


def ordered(every: Iterable[_Way]) -> list[_Key]:
    """The operations of all ways, in an order that each way has."""
    order: list[_Key] = []
    for _, _, keys in sorted(every, key=lambda x: -len(x[2])):
        at = 0
        for key in keys:
            if key in order:
                if order.index(key) < at:
                    raise NotReadError("operations in different orders")
                at = order.index(key) + 1
            else:
                order.insert(at, key)
                at += 1
    return order


def _kind(value: Any) -> Any:
    if isinstance(value, int | Value):
        return "number"
    if isinstance(value, tuple):
        return ("lanes", *map(_kind, value))
    return value


def _apart(slot: Any) -> bool:
    """Whether it says by how much lanes are apart in a register."""
    return isinstance(slot, tuple) and slot[0] == LANES_APART


def _lanes(value: Any) -> Any:
    return value if isinstance(value, tuple) else getattr(value, "lanes", None)
