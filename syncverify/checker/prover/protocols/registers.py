"""Guesses what registers hold at the headers of an agent's loops, from runs at a few sizes. Not trusted.

A register is a *form*: a sum over the counters of loops and the sizes, by residue of the counters. What no
form fits may be any number.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any

from syncverify.checker.induction.claims import ANY, KEPT, MOVES, Claim, Form, Header, Lanes
from syncverify.checker.induction.operations import essence
from syncverify.checker.induction.program import cleaned
from syncverify.checker.induction.quotients import derived
from syncverify.checker.induction.stepping import NO_CODE, NotReadError, registers, resolve
from syncverify.checker.induction.words import Held, Stored
from syncverify.checker.prover.protocols.listening import MOST_ROUNDS, Access, Listener, listed, versions
from syncverify.model.events import Ev, Event, LaneSplit, ThreadClass
from syncverify.symbolic.context import AffineTerm, NotConcrete, SymbolicContext, SymbolSplit, UndecidedBranch
from syncverify.symbolic.inequalities import negated
from syncverify.symbolic.path_condition import PathCondition

#: Moves and visits of one run, runs, and the largest number of iterations after which a loop's events are
#: looked for again.
MOST_MOVES, MOST_VISITS, RUNS, MOST_PERIOD = 60_000, 2_400, 11, 48
#: Runs more at sizes of a smaller span: one of so many parts.
SMALL_RUNS, SMALL_PART = 4, 6
#: Runs that loops are looked for in before registers are looked at.
FEW_RUNS = 3
#: Turns after which a loop is cut, however often others come to it.
MOST_TURNS = 300
#: Sizes are drawn up to this, and factors of a product that has a name.
LARGEST, LARGEST_FACTOR = 60, 8
#: Steps of a tile that are made before its loop.
MOST_AHEAD = 2
#: The first tile that an agent takes, and how far on the next one is.
IN_TURN = ((0, 1), (0, 2), (1, 2))
#: Ranges of residues where tiles begin, which are looked at one by one.
MOST_BEGINS = 4
#: Visits of one residue, and rows, from which forms are guessed.
MOST_SEEN, MOST_ROWS = 60, 48


@dataclass(frozen=True, slots=True)
class Placed:
    """A register that is ``c`` plus multiples of what has no number in a run, such as a block's place."""

    c: int
    parts: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Visit:
    """An arrival at a header: registers, and the events up to the next visit."""

    place: int
    back: bool
    registers: dict[Any, Any]
    events: list[Event] = field(default_factory=list)
    places: set[int] = field(default_factory=set)
    n: int = 0
    u: int = 0
    p: int = 0  # n where the inner loop of this tile began
    trips: int = 0  # of the inner loop of this tile, in all


@dataclass(slots=True)
class Run:
    values: dict[str, int]  # parameters -> numbers
    visits: list[Visit]
    ended: bool


def pinned(
    space: SymbolicContext, root: PathCondition, rnd: random.Random, atoms: Sequence[int],
    spans: Mapping[int, int] | None = None,
) -> tuple[PathCondition, dict[int, int]] | None:  # fmt: skip
    """A path on which the symbols at the root have numbers. ``spans``: by how much they may differ."""
    path = root.fork()
    space.path = path
    order = list(atoms)
    rnd.shuffle(order)
    for a in order:
        c, parts = path.resolve(0, ((a, 1),))
        if not parts:
            continue
        low, high = path.bounds(c, parts)
        if len(parts) > 1 or (low is None and high is None and parts != ((a, 1),)):
            continue
        floor = low if low is not None and low > -LARGEST else -1
        span = (spans or {}).get(a, LARGEST)
        top = floor + span if high is None else min(high, floor + span)
        for _ in range(12):
            v = rnd.randint(floor, max(floor, rnd.choice((floor + 3, top, top))))
            v = min(v, top)
            trial = path.fork()
            space.path = trial
            trial.assume(c - v, parts)
            trial.assume(v - c, negated(parts))
            if not trial.dead and trial.is_feasible():
                path = trial
                break
        else:
            return None
    space.path = path
    values: dict[int, int] = {}
    for a in atoms:
        c, parts = path.resolve(0, ((a, 1),))
        if parts:
            return None
        values[a] = c
    return path, values


@dataclass(frozen=True, slots=True)
class Traced:
    """What was seen of one run. ``counts``: how often each target of a jump back was come to, once for each
    entry; ``places``: all that were come to, in order.
    """

    visits: list[Visit]
    counts: dict[int, list[int]]
    ended: bool
    places: list[int]


def trace(
    space: SymbolicContext,
    path: PathCondition,
    agent: Any,
    cuts: Iterable[int],
    held: Held | Listener | None = None,
) -> Traced:
    """The visits of ``cuts`` in one run. ``held``: what it finds in shared memory, where that steers."""
    if held is not None:
        agent.hear(held)
    memory, accesses = held or Listener(), 0
    space.path = path
    start = Visit(-1, False, {})
    visits, here = [start], start
    counts: dict[int, list[int]] = {}
    inside: dict[int, int] = {}
    last, answer, ended = -1, 0, False
    resolve(space, agent)
    wanted = frozenset(cuts)
    places: list[int] = []
    for _ in range(MOST_MOVES):
        memory.begin(accesses)
        try:
            event = agent.move(answer)
        except SymbolSplit as r:
            path.substitute(r.atom, r.c, r.parts)
            resolve(space, agent)
            continue
        except UndecidedBranch as o:
            path = space.path = _answered(path, o)
            resolve(space, agent)
            continue
        answer = 0
        accesses += _noted(memory, here)
        if event is not None:
            if event[0] == Ev.EXIT:
                ended = True
                break
            if event[0] == Ev.UNKNOWN:
                raise NotReadError(str(event[2]))
            here.events.append(event)
            answer = int(event[0] in (Ev.POLL, Ev.POLL_TOKEN))
        place = agent.place()
        if place <= NO_CODE:
            continue
        back = place <= last
        if back:
            for x in [x for x in inside if x > place]:
                counts.setdefault(x, []).append(inside.pop(x))
            inside[place] = inside.get(place, 0) + 1
        if (place in wanted and place != last) or (place in wanted and event is None):
            if len(visits) > MOST_VISITS:
                break
            here = Visit(place, back, {k: _plain(space, v) for k, v in registers(agent).items()})
            visits.append(here)
        here.places.add(place)
        places.append(place)
        last = place
    for x, k in inside.items():
        if ended or k > MOST_TURNS:
            counts.setdefault(x, []).append(k)
    return Traced(visits, counts, ended, places)


def _noted(memory: Held | Listener, here: Visit) -> int:
    """Takes note of accesses to shared memory in the last stretch of code; 1 if there were any."""
    if not memory.seen:
        return 0
    if isinstance(memory, Listener):
        memory.note()
    else:
        here.events[-1:] = memory.attributed(tuple(here.events[-1:]))
    return 1


def _answered(path: PathCondition, o: UndecidedBranch) -> PathCondition:
    """The path with an answer to a question about a place, one that leaves the place open if there is one."""
    sides = [path.fork() for _ in range(2)]
    for side, asked in zip(sides, ((o.c, o.parts), (-o.c - 1, negated(o.parts))), strict=True):
        side.assume_branch(*asked)
    alive = [side for side in sides if not side.dead]
    if not alive:
        raise NotReadError("a question without an answer")
    return min(alive, key=lambda side: len(side.defs))


def _plain(space: SymbolicContext, value: Any) -> Any:
    if type(value) is int:
        return value
    if isinstance(value, tuple):
        return tuple(space.resolved(x) for x in value)
    found = space.resolved(value)
    if not isinstance(found, AffineTerm) or any(space.symbols[a].factors for a, _ in found.parts):
        return found
    return Placed(found.c, tuple((cleaned(space.symbols[a].name), k) for a, k in found.parts))


@dataclass(slots=True)
class Sampler:
    """Runs of a problem's agents with numbers for its sizes.

    ``space``, ``start``, ``system``: the same system in a space of its own, where sizes get numbers on forks
    of the path that it starts on. So lanes part there as they do at open sizes.
    """

    space: SymbolicContext
    start: PathCondition
    system: Any
    names: AbstractSet[str]  # of the sizes, without the places of blocks
    naming: bool = False  # quotients of sizes may get names
    loops: set[int] = field(default_factory=set)  # of any agent before, which others likely have too
    heads: set[int] = field(default_factory=set)  # those of them that no jump back leads to
    found: list[tuple[dict[str, int], PathCondition]] = field(default_factory=list)
    words: tuple[Stored, ...] | None = None  # that steer, once they are known
    before: dict[ThreadClass, Claim] = field(default_factory=dict)  # what held of classes on other paths

    def ready(self, space: SymbolicContext, root: PathCondition, names: Mapping[int, str], seed: int) -> None:
        rnd = random.Random(seed)
        made_of = sorted({a for x in root.sizes.values() for a, _ in space.of(x)[1]})
        made_of = [a for a in made_of if space.symbols[a].factors is None]
        spans = _spans(space, names)
        # a loop that strides by a size turns twice at small ones alone
        small = {a: max(3, spans.get(a, LARGEST) // SMALL_PART) for a in made_of}
        for _ in range(60 + SMALL_RUNS):
            path = pinned(space, root, rnd, made_of, small if len(self.found) >= RUNS else spans)
            if path is None:
                continue
            values = {}
            for name, x in root.sizes.items():
                c, parts = path[0].resolve(*space.of(x))
                if parts:
                    break
                values[name] = c
            else:
                made = self.numbered(values)
                if made is not None:
                    sizes = {f"${name}": x for name, x in _named(space, names, path[1]).items()}
                    self.found.append((sizes, made))
            if len(self.found) >= RUNS + SMALL_RUNS:
                break
        space.path = root

    def numbered(self, values: Mapping[str, int]) -> PathCondition | None:
        """The path on which sizes have these numbers; None if there is none."""
        path = self.start.fork()
        self.space.path = path
        for name, x in path.sizes.items():
            if name not in self.names:
                continue
            c, parts = self.space.of(x)
            path.assume(c - values[name], parts)
            path.assume(values[name] - c, negated(parts))
        if path.dead or not path.is_feasible():
            return None
        # a place that has a number is told in another way than at other sizes
        return None if any(a in path.defs and a not in self.start.defs for a in self.places()) else path

    def places(self) -> list[int]:
        """What is no number of the launch, such as the place of a block."""
        space, path = self.space, self.start
        sizes = {a for name in self.names & path.sizes.keys() for a, _ in space.of(path.sizes[name])[1]}
        every = range(len(space.symbols))
        return [a for a in every if not (a in sizes or a in space.quotients or space.symbols[a].factors)]

    def agent(self, i: int, of: ThreadClass) -> tuple[SymbolicContext, PathCondition, Any]:
        """The agent of a class of lanes at sizes of this number."""
        keys = [(c.cta, c.warp, c.lanes) for c in self.system.info.classes]
        self.space.path = self.start
        agent = self.system.agent(keys.index((of.cta, of.warp, of.lanes)))
        path = self.found[i][1].fork()
        self.space.path = path
        return self.space, path, agent

    def refine(self, split: LaneSplit) -> None:
        """A class is parted; one part is the whole class, which asks for all of its code."""
        self.space.path = self.start
        self.system = self.system.refined(split)

    def adapted(self, claim: Claim, place: int, wrong: Mapping[Any, tuple[Any, Any]]) -> Claim | None:
        """The claim for lanes whose registers differ at a header by one number each at all residues."""
        by = {slot: value - wanted for slot, (value, wanted) in wrong.items()}
        return shifted(claim, place, by) if all(isinstance(x, int) for x in by.values()) else None

    def claim(self, cls: int, of: ThreadClass) -> Claim:
        """The headers of one agent's loops, with forms for its registers."""
        try:
            self.listen()
        except LaneSplit as split:  # of whatever class, which is numbered alike in both systems
            raise LaneSplit(split.cls, split.parts) from None
        try:
            return self._claim(of)
        except LaneSplit as split:  # of the class of that number at some sizes
            raise LaneSplit(cls, split.parts) from None

    def _claim(self, of: ThreadClass) -> Claim:
        if len(self.found) < 3:
            raise NotReadError("no sizes were found to try")
        every = range(len(self.found))
        held = self.held(of)
        few = [trace(*self.agent(i, of), (), held) for i in every[:FEW_RUNS]]
        self.loops |= _loops(few)
        traces = [trace(*self.agent(i, of), self.loops, held) for i in every]
        cuts = _loops(traces)
        heads = _heads(traces, cuts)
        cuts = {heads.get(c, c) for c in cuts}
        self.heads |= set(heads.values())
        self.loops -= heads.keys()
        words, versions = (held.words, held.versions) if held else ((), ())
        if not cuts:
            return Claim(1, 1, (), words, versions)
        if cuts - self.loops:
            self.loops |= cuts
            traces = [trace(*self.agent(i, of), cuts, held) for i in every]
        runs = []
        for i, t in zip(every, traces, strict=True):
            visits = _come_back(t.visits, self.heads)
            for place in {v.place for v in visits[1:]} - cuts:
                visits = _without(visits, place)
            runs.append(Run(self.found[i][0], visits, t.ended))
        while (twice := _in_turn(runs)) is not None:
            cuts = cuts - {twice}
            runs = [replace(run, visits=_without(run.visits, twice)) for run in runs]
        if not cuts:
            return Claim(1, 1, (), words, versions)
        claim = _filled(_shaped(runs, sorted(cuts), sorted(self.found[0][0])))
        return replace(claim, words=words, versions=versions)

    def held(self, of: ThreadClass) -> Held | None:
        """What an agent is taken to find in shared memory; None where that does not steer."""
        return None if self.words is None else Held(self.words, versions(self.heard(of), self.words))

    def listen(self) -> None:
        """Guesses which words steer, and what is stored there, if any do."""
        classes = self.system.info.classes
        if self.words is not None or not self.found or not self.agent(0, classes[0])[2].shares:
            return
        words: tuple[Stored, ...] = ()
        for _ in range(MOST_ROUNDS):
            new = listed([self.heard(c, words) for c in classes])
            if new == words:
                break
            words = new
        self.words = words

    def heard(self, of: ThreadClass, words: tuple[Stored, ...] | None = None) -> list[Access]:
        """What an agent loads and stores in one run."""
        listener = Listener(self.words or () if words is None else words)
        with suppress(NotReadError, NotConcrete):
            trace(*self.agent(0, of), (), listener)
        return listener.accesses


def shifted(claim: Claim, place: int, by: Mapping[Any, int]) -> Claim:
    """The claim with such numbers added to registers at one header, and at those behind it where they are
    claimed to hold the same.
    """
    (at,) = (h for h in claim.headers if h.place == place)

    def forms(old: Mapping[Any, Form], same: Mapping[Any, Form]) -> dict[Any, Form]:
        return {s: replace(f, c=f.c + by[s]) if s in by and same.get(s) == f else f for s, f in old.items()}

    def header(h: Header) -> Header:
        if h.place < place:
            return h
        every = {r: forms(x, at.forms.get(r, {})) for r, x in h.forms.items()}
        others = {r: forms(x, at.others.get(r, {})) for r, x in h.others.items()}
        return replace(h, forms=every, others=others)

    return replace(claim, headers=tuple(map(header, claim.headers)))


def _spans(space: SymbolicContext, names: Mapping[int, str]) -> dict[int, int]:
    """Sizes of which quotients have a name are drawn so that the quotients differ by as much as others do.
    Those of products are drawn small, so that runs end, and so are the others then: how many blocks share
    the tiles, say.
    """
    few = {f for a in names for f in space.symbols[a].factors or ()}
    spans = dict.fromkeys((a for a in names if few and not derived(space, a)), LARGEST_FACTOR)
    for a in names:
        if a in space.quotients:
            x, m = space.quotients[a]
            most = LARGEST_FACTOR if a in few else LARGEST
            for b, k in space.of(x)[1]:
                spans[b] = max(spans.get(b, 0), most, most * m // abs(k))
    return spans


def _named(space: SymbolicContext, names: Mapping[int, str], numbers: Mapping[int, int]) -> dict[str, int]:
    """Numbers of sizes, and of quotients and products of them that have a name."""
    found = dict(numbers)
    for a in names:
        factors = space.symbols[a].factors
        if factors is not None and found.keys() >= set(factors):
            found[a] = found[factors[0]] * found[factors[1]]
        if a in space.quotients and a not in found:
            x, m = space.quotients[a]
            c, parts = space.of(x)
            if all(b in found for b, _ in parts):
                found[a] = (c + sum(found[b] * k for b, k in parts)) // m
    return {names[a]: x for a, x in found.items() if a in names}


def _filled(claim: Claim) -> Claim:
    """Numbers by residue that some header shows are those of all headers where they are numbers."""
    tables = _numbers_by_residue(claim)
    whole = _whole_tables(claim)
    residues = [(r, q) for r in range(claim.steps) for q in range(claim.tiles)]
    headers: list[Header] = []
    for h in claim.headers:
        every = {r: dict(h.forms.get(r, {})) for r in residues}
        for s in dict.fromkeys(s for forms in h.forms.values() for s in forms):
            table = tables.get(s)
            for r in residues:
                old = every[r].get(s)
                kept = old is not None and old.kept and h.outer is not None
                if (old is None or (old.any and not kept)) and table and r in table:
                    every[r][s] = Form(table[r], ())
            if any(x.stride > 1 for x in claim.headers):
                _by_one_counter(every, s)
            _as_another(every, s, whole)
            _by_halves(every, s, claim)
            _continue_sum(every, s, claim)
        headers.append(replace(h, forms=every))
    filled = replace(claim, headers=tuple(headers))
    return replace(claim, headers=tuple(_with_begins(h, filled) for h in headers))


def _numbers_by_residue(claim: Claim) -> dict[Any, dict[tuple[int, int], int] | None]:
    """The numbers of each register by residue; None: headers differ in them, or it holds something else."""
    tables: dict[Any, dict[tuple[int, int], int] | None] = {}
    known = (
        (r, slot, f)
        for h in claim.headers
        for r, forms in h.forms.items()
        for slot, f in forms.items()
        if not f.any
    )
    for r, slot, f in known:
        table = tables.setdefault(slot, {})
        if table is None:
            continue
        if f.parts or f.shape() != "sum" or table.setdefault(r, f.c) != f.c:
            tables[slot] = None
    return tables


def _with_begins(h: Header, claim: Claim) -> Header:
    """The header with what its registers keep of where a tile begins, if sizes say how many steps it has."""
    if h.outer is None:
        return h
    begins = _begins(h, claim) if h.trip is not None else ()
    in_turn = any(x.place == h.outer and x.stride > 1 for x in claim.headers)
    return replace(h, begins=begins, trip=h.trip if begins or in_turn else None)


def _begins(inner: Header, claim: Claim) -> tuple[tuple[int, int, dict[Any, Form]], ...]:
    """What registers keep in the loop of a tile that have a number for each residue where tiles begin: by
    ranges of residues, in each of which a register stays or moves with the residue.

    Example: a stage ``n % 6`` and a phase ``n / 6 % 2``, of the steps before the tile, have the ranges 0 to 5
    and 6 to 11.
    """
    outer = next((h for h in claim.headers if h.place == inner.outer), None)
    if outer is None:
        return ()
    slots = {s for some in inner.forms.values() for s in some if some[s].kept}
    tables: dict[Any, list[int]] = {}
    for s in sorted(slots, key=str):
        seen = [{outer.forms.get((r, q), {}).get(s) for q in range(claim.tiles)} for r in range(claim.steps)]
        forms = [next(iter(x)) for x in (some - {None} for some in seen) if len(x) == 1]
        known = [f.c for f in forms if f is not None and f.shape() == "sum" and not f.parts]
        if len(known) == claim.steps and len(set(known)) > 1:
            tables[s] = known
    found: list[tuple[int, int, dict[Any, Form]]] = []
    low = 0
    while tables and low < claim.steps:
        high = low + 1
        while high < claim.steps and all(
            t[high] - t[high - 1] == t[min(low + 1, high)] - t[low] and abs(t[low + 1] - t[low]) < 2
            for t in tables.values()
        ):
            high += 1
        rates = {s: t[low + 1] - t[low] if high > low + 1 else 0 for s, t in tables.items()}
        kept = {s: _from(t[low], low, rates[s], claim.steps) for s, t in tables.items()}
        found.append((low, high, kept))
        low = high
    return tuple(found) if len(found) <= MOST_BEGINS else ()


def _from(c: int, low: int, rate: int, steps: int) -> Form:
    """A register that is ``c`` at a residue of the steps before a tile, and moves so with it."""
    return Form(c - rate * low, (("p", rate), ("y", -rate * steps)) if rate else ())


def _whole_tables(claim: Claim) -> list[dict[tuple[int, int], int]]:
    """The numbers by residue of registers that hold several, and of which all are known."""
    out = []
    for h in claim.headers:
        for s in dict.fromkeys(s for forms in h.forms.values() for s in forms):
            table = {r: forms[s] for r, forms in h.forms.items() if s in forms}
            plain = all(f.shape() == "sum" and not f.parts for f in table.values())
            if plain and len(table) == claim.steps * claim.tiles and len(set(table.values())) > 1:
                out.append({r: f.c for r, f in table.items()})
    return out


def _as_another(
    every: dict[tuple[int, int], dict[Any, Form]], slot: Any, whole: Sequence[Mapping[tuple[int, int], int]]
) -> None:
    """Gives the numbers of another register to one that holds the same ones wherever it is known.

    Example: a stage that a tile begins with is the one that its loop moves.
    """
    known = {r: forms[slot] for r, forms in every.items() if slot in forms and not forms[slot].any}
    if len({f.c for f in known.values()}) < 2 or len(known) == len(every):
        return
    if any(f.parts or f.shape() != "sum" for f in known.values()):
        return
    same = next((t for t in whole if all(t[r] == f.c for r, f in known.items())), None)
    if same is not None:
        for r, some in every.items():
            some.setdefault(slot, Form(same[r], ()))


def _by_one_counter(every: dict[tuple[int, int], dict[Any, Form]], slot: Any) -> None:
    """Gives a number that only tiles, or only steps, decide to residues of which the other was not met."""
    known = {r: forms[slot] for r, forms in every.items() if slot in forms and not forms[slot].any}
    if len(known) in (0, len(every)) or any(f.parts or f.shape() != "sum" for f in known.values()):
        return
    for which in (1, 0):
        found: dict[int, Form] = {}
        alone = all(found.setdefault(r[which], f) == f for r, f in known.items())
        if alone and 1 < len(found) < len(known):
            for r, some in every.items():
                if r[which] in found:
                    some.setdefault(slot, found[r[which]])
            return


def _by_halves(every: dict[tuple[int, int], dict[Any, Form]], slot: Any, claim: Claim) -> None:
    """Gives numbers to residues half a period from others, if all that are known differ alike.

    Example: a phase that is 1 in turns 0 to 5 and 0 in turns 6 and 7 is 0 up to turn 11.
    """
    forms = {r: some[slot] for r, some in every.items() if slot in some}
    known = {r: f.c for r, f in forms.items() if f.shape() == "sum" and not f.parts}
    if claim.steps % 2 or len(known) == len(every):
        return
    half = claim.steps // 2
    apart = {known[r + half, q] - c for (r, q), c in known.items() if (r + half, q) in known}
    for (r, q), some in every.items() if len(apart) == 1 else ():
        (by,) = apart
        other = known.get(((r + half) % claim.steps, q))
        if other is not None:
            some.setdefault(slot, Form(other + (by if r >= half else -by), ()))


def _continue_sum(every: dict[tuple[int, int], dict[Any, Form]], slot: Any, claim: Claim) -> None:
    """Gives the sum of all residues that have a form to the others; its number goes on with the residue."""
    known = {r: forms[slot] for r, forms in every.items() if slot in forms}
    if not known or len(known) == len(every) or len({f.parts for f in known.values()}) > 1:
        return
    first, f = next(iter(known.items()))
    for r in every if f.parts or f.kept or f.moves else ():
        every[r].setdefault(slot, _moved(f, first, r, claim))


def _moved(f: Form, at: tuple[int, int], to: tuple[int, int], claim: Claim) -> Form:
    """A sum over whole periods at another residue."""
    c = f.c
    for name, k in f.parts:
        if name == "h" and k % claim.steps == 0:
            c += k // claim.steps * (to[0] - at[0])
        if name == "g" and k % claim.tiles == 0:
            c += k // claim.tiles * (to[1] - at[1])
    return replace(f, c=c)


def _loops(every: list[Traced]) -> set[int]:
    """Targets of jumps back that are come to differently often."""
    counts: dict[int, set[int]] = {}
    for t in every:
        for place, some in t.counts.items():
            counts.setdefault(place, set()).update(some)
        for place in counts if t.ended else ():
            if place not in t.counts:
                counts[place].add(0)
    return {place for place, some in counts.items() if len(some) > 1 or max(some) > MOST_TURNS}


def _heads(traces: list[Traced], cuts: AbstractSet[int]) -> dict[int, int]:
    """Where loops around loops begin, for cuts that are come to after the loop inside: the place of each turn
    that was come to first.

    Example: a compiler puts what is done between two tiles in front of the loop, and begins behind that.
    """
    found: dict[int, set[int]] = {}
    for t in traces:
        first: dict[int, int] = {}
        for i, x in enumerate(t.places):
            first.setdefault(x, i)
        for c in cuts & first.keys():
            turns = _turns(t.places, c)
            if any(first[d] < first[c] for turn in turns for d in turn if d in cuts):
                found.setdefault(c, set()).update(min(turn, key=first.__getitem__) for turn in turns)
    return {c: next(iter(heads)) for c, heads in found.items() if len(heads) == 1 and c not in heads}


def _come_back(visits: list[Visit], heads: AbstractSet[int]) -> list[Visit]:
    """The visits; where a loop begins that no jump back leads to, later ones come back to it."""
    seen: set[int] = set()
    for v in visits:
        v.back = v.back or (v.place in heads and v.place in seen)
        seen.add(v.place)
    return visits


def _turns(places: Sequence[int], c: int) -> list[set[int]]:
    """What is come to from each visit of a place to the next."""
    at = [i for i, x in enumerate(places) if x == c]
    return [set(places[i:k]) for i, k in pairwise(at)]


def _in_turn(runs: list[Run]) -> int | None:
    """A place that is come to once in each turn of another one's loop, or once at all: it needs no header."""
    orders = [[v.place for v in run.visits[1:]] for run in runs]
    places = list(dict.fromkeys(x for order in orders for x in order))
    for a in places:
        if all(order.count(a) < 2 for order in orders):
            return a
    for i, a in enumerate(places):
        for b in places[i + 1 :]:
            both = [[x for x in order if x in (a, b)] for order in orders]
            if all(x == (a, b)[k % 2] for order in both for k, x in enumerate(order)):
                return b
    return None


def _without(visits: list[Visit], place: int) -> list[Visit]:
    """The visits of other places: what happens behind one of this place belongs to the one before."""
    out: list[Visit] = []
    for v in visits:
        if v.place == place:
            out[-1].events += v.events
            out[-1].places |= v.places
        else:
            out.append(v)
    return out


def _shaped(runs: list[Run], cuts: list[int], atoms: list[str]) -> Claim:
    outer = _nesting(runs)
    tiles = set(outer.values())
    kinds = {c: c not in tiles and _late(runs, c) for c in cuts}  # whether a loop asks behind its body
    m, ahead, turn = _counted(runs, outer, kinds)
    mu = _period(runs, tiles, 1, m) or 1
    mu = mu if turn == IN_TURN[0] else _of_registers(runs, tiles, mu)
    headers = []
    for c in cuts:
        some = [(run, v) for run in runs for v in run.visits if v.place == c]
        own = ahead if c in outer else 0
        visited = _visited(some, (m, mu, own), atoms, tiles=c in tiles, inside=c in outer)
        visited = replace(visited, in_turn=turn != IN_TURN[0])
        header = _header(c, outer.get(c), kinds[c], visited)
        headers.append(replace(header, first=turn[0], stride=turn[1]) if c in tiles else header)
    return Claim(m, mu, tuple(headers))


def _counted(
    runs: list[Run], outer: Mapping[int, int], kinds: Mapping[int, bool]
) -> tuple[int, int, tuple[int, int]]:
    """Counts the turns of all runs. Gives after how many steps events repeat, and how many steps of a tile
    are made before its loop, if they repeat so alone; and the first tile that the agent takes with how far on
    the next one is, where it counts those of others, too.
    """
    tiles = set(outer.values())
    found: dict[tuple[tuple[int, int], int], int] = {}

    def count(turn: tuple[int, int], ahead: int) -> None:
        for run in runs:
            _count_turns(run, outer, kinds, ahead)
            _count_trips(run, tiles, kinds)
            _count_others(run, tiles, turn, ahead)

    within = _within(runs, outer)
    for turn in IN_TURN if outer else IN_TURN[:1]:
        for ahead in range(MOST_AHEAD + 1 if outer else 1):
            count(turn, ahead)
            m = _period(runs, tiles, 0, sites=None if turn == IN_TURN[0] else within)
            if m is not None and _agree(runs, m, within):
                return m, ahead, turn
            if m is not None:
                found.setdefault((turn, ahead), m)
    (turn, ahead), m = next(iter(found.items()), ((IN_TURN[0], 0), 1))
    turn, ahead, m = (turn, ahead, m) if turn == IN_TURN[0] else (IN_TURN[0], 0, 1)
    count(turn, ahead)
    return m, ahead, turn


def _count_others(run: Run, tiles: AbstractSet[int], turn: tuple[int, int], ahead: int) -> None:
    """Counts the steps of other agents' tiles, too, if all tiles of a run have as many. Tiles that come to no
    loop have the steps alone that are made before it.
    """
    (many, *more) = {
        v.trips for v in run.visits if v.trips >= 0 and v.place >= 0 and v.place not in tiles
    } or {ahead}
    come_to = any(v.place >= 0 and v.place not in tiles for v in run.visits)
    first, stride = turn
    tile = 0
    for v in run.visits[1:] if not more and turn != IN_TURN[0] else ():
        tile = v.u if v.place in tiles else tile
        by = (first + (stride - (1 if come_to else 0)) * tile) * many
        v.n, v.p = v.n + by, v.p + by


def _within(runs: list[Run], inner: Iterable[int]) -> set[int]:
    """Where the events are that loops in tiles make in turns that are not their last."""
    return {
        e[1]
        for run in runs
        for v, after in pairwise(run.visits)
        if v.place == after.place and v.place in inner
        for e in v.events
    }


def _agree(runs: list[Run], m: int, sites: AbstractSet[int]) -> bool:
    """Whether the waits and looks at these places are the same at equal residues in all runs."""
    found: dict[Any, Any] = {}
    return all(
        found.setdefault((v.n % m, e[1]), essence(e)) == essence(e)
        for run in runs
        for v in run.visits
        for e in v.events
        if e[0] in (Ev.WAIT, Ev.POLL) and e[1] in sites
    )


def _nesting(runs: list[Run]) -> dict[int, int]:
    """The loop around each loop that has one. Raises NotReadError where loops are three deep."""
    outer: dict[int, int] = {}
    for run in runs:
        seen = run.visits
        for i, v in enumerate(seen):
            k = i - 1
            while v.back and k > 0 and seen[k].place != v.place:
                outer[seen[k].place] = v.place
                k -= 1
    if any(x in outer for x in outer.values()):
        raise NotReadError("loops three deep")
    return outer


def _count_turns(run: Run, outer: Mapping[int, int], kinds: Mapping[int, bool], ahead: int) -> None:
    """Numbers the visits of a run: steps ``n``, tiles ``u``, and the steps ``p`` where its loop began.

    ``ahead``: steps of a tile before its loop.
    """
    tiles = set(outer.values())
    n = u = p = 0
    last: Visit | None = None
    for v in run.visits[1:]:
        if last is not None and last.place not in tiles:
            n += 1 if v.place == last.place or kinds[last.place] else 0
        if v.place in tiles:
            u = u + 1 if v.back else 0
        elif last is None or v.place != last.place:
            p = n
            n += ahead if v.place in outer else 0
        inside = v.place in tiles or v.place in outer
        v.n, v.u, v.p = n, u if inside else 0, n if v.place in tiles else p
        last = v


def _count_trips(run: Run, tiles: AbstractSet[int], kinds: Mapping[int, bool]) -> None:
    """How many turns the loop of each visit takes in all; -1: the run does not say it."""
    last = len(run.visits) - 1  # the last visit before control comes to another place
    for i in reversed(range(len(run.visits))):
        v = run.visits[i]
        if run.visits[last].place != v.place:
            last = i
        if v.place in tiles or v.place < 0:
            continue
        open_ = last == len(run.visits) - 1 and not run.ended
        v.trips = -1 if open_ else run.visits[last].n - v.p + (1 if kinds[v.place] else 0)


def _late(runs: list[Run], place: int) -> bool:
    """Whether the last visit of a loop still executes its body."""
    bodies: list[set[int]] = []
    lasts: list[set[int]] = []
    for run in runs:
        for i, v in enumerate(run.visits):
            if v.place != place or (i + 1 == len(run.visits) and not run.ended):
                continue
            more = i + 1 < len(run.visits) and run.visits[i + 1].place == place
            (bodies if more else lasts).append({e[1] for e in v.events if essence(e)})
    always = set.intersection(*bodies) if bodies else set()
    return bool(always) and all(always <= x for x in lasts)


def _period(
    runs: list[Run], tiles: set[int], which: int, steps: int = 1, sites: AbstractSet[int] | None = None
) -> int | None:
    """After how many turns the events of loops repeat: of steps, or of tiles (``which`` is 1), with this
    period of steps; None if they do not. Where no run comes that far, twice the turns after which slots do.
    ``sites``: of the events that are looked at, if not all.
    """
    seen: list[list[_Met]] = []  # by run
    for run in runs:
        here: list[_Met] = []
        for v in run.visits:
            if v.place < 0 or (which == 1) != (v.place in tiles):
                continue
            turn, other = (v.u, v.n % steps) if which else (v.n, 0)
            times: dict[int, int] = {}
            for e in (e for e in v.events if sites is None or e[1] in sites):
                k = times[e[1]] = times.get(e[1], 0) + 1
                here.append((turn, (other, v.place, e[1], k), essence(e)))
        seen.append(here)
    found = _repeats_after(seen)
    most = max((len({turn for turn, _, _ in some}) for some in seen), default=0)
    if found is None or which or most > found:
        return found
    slots = _repeats_after([[(turn, key, _without_parity(e)) for turn, key, e in some] for some in seen])
    return 2 * slots if slots is not None and found < 2 * slots and slots < most else found


def _of_registers(runs: list[Run], tiles: AbstractSet[int], period: int) -> int:
    """The least multiple of a period of tiles after which numbers in registers repeat, too, that no event
    shows. Some run has to come to a turn again: in a long period each is seen once.
    """
    seen = [[v for v in run.visits if v.place in tiles] for run in runs]
    slots = dict.fromkeys((v.place, s) for some in seen for v in some for s in v.registers)

    def repeats(at: tuple[int, Any], m: int) -> bool:
        """Whether a register has a small number for each residue."""
        found: dict[int, Any] = {}
        return all(
            type(x) is int and 0 <= x < m and found.setdefault(v.u % m, x) == x
            for some in seen
            for v in some
            if v.place == at[0]
            for x in (v.registers.get(at[1]),)
        )

    most = max((v.u for some in seen for v in some), default=0)
    longer = [m for m in (2 * period, 4 * period) if most > m]
    some = (next((m for m in longer if repeats(at, m)), period) for at in slots if not repeats(at, period))
    return max(some, default=period)


#: An event that was met: in which turn, which of those of all turns, and its essence.
_Met = tuple[int, tuple[int, int, int, int], Any]


def _without_parity(e: Event | None) -> Event | None:
    return e if e is None or e[0] not in (Ev.WAIT, Ev.POLL) else (*e[:3], *e[4:])


def _repeats_after(seen: Sequence[Sequence[_Met]]) -> int | None:
    """The least number of turns after which the events of each run repeat."""
    return next((m for m in range(1, MOST_PERIOD + 1) if all(_repeats(some, m) for some in seen)), None)


def _repeats(some: Sequence[_Met], m: int) -> bool:
    """Whether events are the same in turns that differ by multiples of ``m``."""
    found: dict[Any, Any] = {}
    return all(found.setdefault((turn % m, which), e) == e for turn, which, e in some)


@dataclass(frozen=True, slots=True)
class _Visited:
    """The visits of one header. ``by``: those that forms are found from, by residue; ``tiles``: it is a loop
    over tiles; ``inside``: it is in such a loop; ``m`` and ``mu``: the periods of steps and tiles.
    """

    some: list[tuple[Run, Visit]]
    by: dict[tuple[int, int], list[tuple[Run, Visit]]]
    tiles: bool
    inside: bool
    m: int
    mu: int
    atoms: list[str]
    ahead: int = 0  # steps of a tile before this loop
    in_turn: bool = False  # other agents take tiles between those of this one

    def forms(self, slot: Any) -> dict[tuple[int, int], Form]:
        """The forms of a register, by residue."""
        of_all = self.of_all(slot)
        found = self.of_each(slot) if of_all is None else of_all
        if self.is_doubtful(found):
            found = dict.fromkeys(found, ANY)
        if len(set(found.values())) == 1 and all(_of_sizes(f) for f in found.values()):
            found = dict.fromkeys(found, KEPT)  # runs say little of which of several cases it comes from
        # tiles of one agent alone are few, so that sums fit by chance
        few = self.in_turn and self.inside
        doubtful = any if few else all
        by_tile = few and of_all is None and any(name == "g" for f in found.values() for name, _ in f.parts)
        if by_tile or doubtful(f is ANY for f in found.values()):
            found = dict.fromkeys(found, self.by_loop(slot))
        return found

    def begins(self, v: Visit) -> bool:
        """Whether it is the first turn of its loop."""
        return v.u == 0 if self.tiles else v.n == v.p + self.ahead

    def trip(self) -> Form | None:
        """The steps of a tile, or of a loop outside of tiles, as a sum of sizes; None where there is none."""
        some = [(run, v) for run, v in self.some if v.trips >= 0]
        if self.tiles or not some:
            return None
        fit = _fit([{a: run.values[a] for a in self.atoms} for run, _ in some], [v.trips for _, v in some])
        return None if fit is None else Form(fit[0], tuple(fit[1]))

    def flag(self, slot: Any) -> tuple[int, int] | None:
        """The number that a register holds in all first turns, and another one that it holds in later ones,
        some loop having three turns at least; in a tile it is the first tile and later ones.
        """
        since = [
            (v.u if self.tiles or self.inside else v.n - v.p, v.registers.get(slot)) for _, v in self.some
        ]
        first, later = {x for t, x in since if t == 0}, {x for t, x in since if t}
        if len(first) != 1 or len(later) != 1 or first == later or max(t for t, _ in since) < 2:
            return None
        (a,), (b,) = first, later
        return (a, b) if isinstance(a, int) and isinstance(b, int) else None

    def by_loop(self, slot: Any) -> Form:
        """What a register does in each run, or in each tile."""
        if not self.inside:
            return _by_run(slot, self.some, tiles=self.tiles)
        found = _by_run(slot, self.some, tiles=False, apart=True)
        return found if found is KEPT else ANY

    def of_all(self, slot: Any) -> dict[tuple[int, int], Form] | None:
        """One sum for all residues, or what a register keeps in each run; None: neither fits."""
        every = [x for some in self.by.values() for x in some]
        found = _together(slot, every, self.by, self.m, self.mu, self.atoms, self.tiles, self.inside)
        if found is None and not self.inside:
            kept = _by_run(slot, self.some, tiles=self.tiles)
            if kept is not ANY and not (kept is MOVES and self.repeats(slot)):
                return dict.fromkeys(self.by, kept)
        return found

    def repeats(self, slot: Any) -> bool:
        """Whether a register may hold a number for each residue, where no run in which it changes has three
        turns: two say little of whether it moves.
        """
        turns: dict[int, set[tuple[int, Any]]] = {}
        for run, v in self.some:
            turns.setdefault(id(run), set()).add((v.u if self.tiles else v.n, v.registers.get(slot)))
        if any(len(some) > 2 and len({x for _, x in some}) > 1 for some in turns.values()):
            return False
        found = [self.values(slot, r) for r in self.by]
        every = set().union(*found)
        return len(every) > 1 and all(len(x) == 1 for x in found) and all(type(x) is int for x in every)

    def of_each(self, slot: Any) -> dict[tuple[int, int], Form]:
        """The form at each residue by itself; one number that was seen, if all others are numbers."""
        found = {
            r: _form(slot, visits, self.m, self.mu, self.atoms, self.tiles, self.inside)
            for r, visits in self.by.items()
        }
        rare = [r for r, f in found.items() if f is ANY and len(self.values(slot, r)) == 1]
        others = [f for r, f in found.items() if r not in rare]
        if rare and all(f.shape() == "sum" and not f.parts for f in others):
            only = {r: x for r in rare for x in self.values(slot, r)}
            found |= {r: Form(int(x), ()) for r, x in only.items() if isinstance(x, int)}
        return found

    def values(self, slot: Any, residue: tuple[int, int]) -> set[Any]:
        """What a register holds in the visits of a residue."""
        return {v.registers.get(slot) for _, v in self.by[residue]}

    def is_doubtful(self, found: Mapping[tuple[int, int], Form]) -> bool:
        """Whether some residues have no form, and those that others have fit by chance.

        They are of several shapes; or one number, or sums of sizes, which few visits fit where others have
        many visits and no form.
        """
        known = {f for f in found.values() if f is not ANY}
        if not any(f is ANY for f in found.values()):
            return False
        one_number = len(known) == 1 and len(found) > 2 and not any(f.parts for f in known)
        many = any(f is ANY and len(self.by[r]) > MOST_SEEN // 4 for r, f in found.items())
        return len({f.shape() for f in known}) > 1 or one_number or (many and any(map(_of_sizes, known)))


def _visited(
    some: list[tuple[Run, Visit]],
    counts: tuple[int, int, int],
    atoms: list[str],
    *,
    tiles: bool,
    inside: bool,
) -> _Visited:
    """The visits of one header, by residue of its steps and tiles. ``counts``: the periods of these, and the
    steps of a tile before the loop.
    """
    m, mu, ahead = counts
    by: dict[tuple[int, int], list[tuple[Run, Visit]]] = {}
    for run, v in some:
        by.setdefault((v.n % m, v.u % mu), []).append((run, v))
    if inside:  # the last tile of a run that did not end says nothing of trip counts
        whole = {r: [x for x in visits if x[1].trips >= 0] for r, visits in by.items()}
        by = {r: visits or by[r] for r, visits in whole.items()}
    by = {r: _spread(visits, MOST_SEEN) for r, visits in by.items()}
    return _Visited(some, by, tiles, inside, m, mu, atoms, ahead)


def _header(place: int, outer: int | None, late: bool, visited: _Visited) -> Header:
    forms: dict[tuple[int, int], dict[Any, Form]] = {}
    flags: dict[Any, Form] = {}  # numbers that tell the first turn, or tile, from all others
    for slot in dict.fromkeys(s for _, v in visited.some for s in v.registers):
        flag = visited.flag(slot)
        if flag is not None:
            flags[slot] = Form(flag[0], ())
        found = visited.forms(slot) if flag is None else dict.fromkeys(visited.by, Form(flag[1], ()))
        for r, f in found.items():
            forms.setdefault(r, {})[slot] = f
    first = _first_turns(forms, visited)
    for r, some in visited.by.items():
        if flags and any(v.u == 0 if visited.inside else visited.begins(v) for _, v in some):
            first[r] = first.get(r, {}) | flags
    return Header(place, visited.tiles, outer, late, forms, first, ahead=visited.ahead, trip=visited.trip())


def _first_turns(
    forms: dict[tuple[int, int], dict[Any, Form]], visited: _Visited
) -> dict[tuple[int, int], dict[Any, Form]]:
    """Registers that hold one number where a loop begins, and another one in all later turns of a residue:
    what they hold where it begins. Their forms become those of later turns.
    """
    out: dict[tuple[int, int], dict[Any, Form]] = {}
    for r, some in visited.by.items():
        first = [v for _, v in some if visited.begins(v)]
        later = [v for _, v in some if not visited.begins(v)]
        for slot, form in forms.get(r, {}).items():
            now = {v.registers.get(slot) for v in first}
            then = {v.registers.get(slot) for v in later}
            if form is not ANY or len(now) != 1 or len(then) != 1:
                continue
            (a,), (b,) = now, then
            if isinstance(a, int) and isinstance(b, int):
                forms[r][slot] = Form(int(b), ())
                out.setdefault(r, {})[slot] = Form(int(a), ())
    return out


def _of_sizes(f: Form) -> bool:
    return bool(f.parts) and all(isinstance(x, str) and x.startswith("$") for x, _ in f.parts)


def _by_run(slot: Any, some: list[tuple[Run, Visit]], *, tiles: bool, apart: bool = False) -> Form:
    """What a register does in each run, where no sum of sizes fits all: it keeps its value, or moves by one
    number. ``apart``: the same of each tile by itself.
    """
    runs: dict[tuple[int, int], list[tuple[int, Any]]] = {}
    for run, v in some:
        here = (id(run), v.u if apart else 0)
        runs.setdefault(here, []).append((v.u if tiles else v.n, v.registers.get(slot)))
    steps: set[int] = set()
    for seen in runs.values():
        found = _numbers([x for _, x in seen])
        if found is None:
            return ANY
        at = [(seen[i][0], x) for i, x in zip(found[0], found[1], strict=True)]
        rates = {(y - x, m - n) for (n, x), (m, y) in pairwise(at)}
        if {d for d, _ in rates} != {0} and (
            len(rates) > 1 or any(m - n != 1 for (n, _), (m, _) in pairwise(at))
        ):
            return ANY
        steps |= {d for d, _ in rates}
    return (MOVES if steps - {0} else KEPT) if steps else ANY


def _spread(some: Sequence[Any], most: int) -> list[Any]:
    """At most so many, from first to last."""
    if len(some) <= most:
        return list(some)
    return [some[i * (len(some) - 1) // (most - 1)] for i in range(most)]


def _row(run: Run, v: Visit, atoms: list[str], tiles: bool, inner: bool) -> dict[Any, int]:
    row: dict[Any, int] = {} if tiles else {"p": v.p}
    row |= {a: run.values[a] for a in atoms}  # first: a trip count that is a size stays one behind the loop
    if not tiles and inner and v.trips >= 0:
        row["K"] = v.trips
    return row


def _together(
    slot: Any, visits: list[tuple[Run, Visit]], by: Any, m: int, mu: int, atoms: list[str], tiles: bool,
    inner: bool,
) -> dict[tuple[int, int], Form] | None:  # fmt: skip
    """One sum over the counters themselves, for all residues."""
    found = _numbers([v.registers.get(slot) for _, v in visits])
    if found is None:
        return None
    which, values, places = found
    some = [visits[i] for i in which]
    rows = [{"n": v.n, "u": v.u, **_row(run, v, atoms, tiles, inner)} for run, v in some]
    fit = _fit(rows, values)
    if fit is None:
        return None
    c, parts = fit
    out = {}
    for r in by:
        given: dict[Any, int] = {}
        const = c
        for name, k in parts:
            if name in ("n", "u"):
                given["h" if name == "n" else "g"] = k * (m if name == "n" else mu)
                const += k * r[0 if name == "n" else 1]
            else:
                given[name] = k
        out[r] = Form(const, (*given.items(), *places))
    return out


def _numbers(values: Sequence[Any]) -> tuple[list[int], list[int], tuple[tuple[str, int], ...]] | None:
    """Which values say something, those without what has no number in runs, and what that is.

    A run whose sizes leave one place alone has a number where others have a name: it is left out.
    """
    placed = any(isinstance(x, Placed) for x in values)  # others may have a number for each lane
    if not all(isinstance(x, int | Placed) or (placed and hasattr(x, "lanes")) for x in values):
        return None
    parts = {x.parts for x in values if isinstance(x, Placed)}
    if len(parts) > 1:
        return None
    which = [i for i, x in enumerate(values) if isinstance(x, Placed) or not parts]
    named = tuple((f"${name}", k) for some in parts for name, k in some)
    return which, [x.c if isinstance(x, Placed) else x for x in (values[i] for i in which)], named


def _fit(rows: list[dict[Any, int]], values: list[Any]) -> tuple[int, list[tuple[Any, int]]] | None:
    if len(set(values)) == 1 and len(values) > 1:
        return int(values[0]), []
    keys = [k for k in dict.fromkeys(k for r in rows for k in r) if all(k in r for r in rows)]
    moving = [k for k in keys if len({r[k] for r in rows}) > 1]
    if len(rows) < 4:
        return None
    counters = [k for k in moving if isinstance(k, str)]
    for size in (1, 2, 3):
        for some in combinations(moving, size):
            if size == 3 and sum(k in counters for k in some) < 2:
                continue
            found = _affine(rows, values, some)
            if found is not None:
                return found
    return None


def _affine(
    rows: list[dict[Any, int]], values: list[Any], some: Sequence[Any]
) -> tuple[int, list[tuple[Any, int]]] | None:
    """The sum over a few names that all rows have, if it is one; from a few rows, tried on all."""
    few = _spread(range(len(rows)), MOST_ROWS)
    spread = sorted({(*(rows[i][k] for k in some), values[i]) for i in few})
    picked = [spread[i * (len(spread) - 1) // (len(some) + 2)] for i in range(len(some) + 3)]
    fit = _solve([list(r[:-1]) for r in picked], [r[-1] for r in picked])
    if fit is None:
        return None
    c, ks = fit
    if all(
        c + sum(k * row[x] for k, x in zip(ks, some, strict=True)) == value
        for row, value in zip(rows, values, strict=True)
    ):
        return c, [(k, x) for k, x in zip(some, ks, strict=True) if x]
    return None


def _form(
    slot: Any, visits: list[tuple[Run, Visit]], m: int, mu: int, atoms: list[str], tiles: bool, inner: bool
) -> Form:
    values: list[Any] = [v.registers.get(slot) for _, v in visits]
    if all(isinstance(x, tuple) for x in values):
        if len(set(values)) == 1 and all(isinstance(x, int) for x in values[0]):
            return Lanes(values[0])
        return ANY
    found = _numbers(values)
    if found is None:
        return ANY
    which, numbers, places = found
    some = [visits[i] for i in which]
    rows = [{"h": v.n // m, "g": v.u // mu, **_row(run, v, atoms, tiles, inner)} for run, v in some]
    fit = _fit(rows, numbers)
    return ANY if fit is None else Form(fit[0], (*fit[1], *places))


def _solve(rows: list[list[int]], values: list[int]) -> tuple[int, list[int]] | None:
    """Integers ``c, k`` with ``c + k . row = value`` for all rows, where they are unique."""
    size = len(rows[0]) + 1
    table = [[1, *r, v] for r, v in zip(rows, values, strict=True)]
    for col in range(size):
        at = next((i for i in range(col, len(table)) if table[i][col]), None)
        if at is None:
            return None
        table[col], table[at] = table[at], table[col]
        lead = table[col]
        for i, row in enumerate(table):
            if i != col and row[col]:
                table[i] = [x * lead[col] - row[col] * y for x, y in zip(row, lead, strict=True)]
    if any(row[-1] for row in table[size:]) or any(table[i][-1] % table[i][i] for i in range(size)):
        return None
    found = [table[i][-1] // table[i][i] for i in range(size)]
    return found[0], found[1:]


__all__ = ["Run", "Sampler", "Visit", "pinned", "shifted", "trace"]
