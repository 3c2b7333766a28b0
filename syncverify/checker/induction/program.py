"""The protocols of a kernel whose sizes have no number: one for each system and each way its facts leave."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from typing import Protocol as Interface

from syncverify.base.diagnostics import Policy
from syncverify.checker.induction.assemble import Assembly, Part
from syncverify.checker.induction.claims import Claim
from syncverify.checker.induction.quotients import content, derived
from syncverify.checker.induction.read import (
    LoopText,
    OtherFormsError,
    Piece,
    Reader,
    StraightText,
    Text,
    TilesText,
    UnfollowedError,
)
from syncverify.checker.induction.stepping import NotReadError, SizeCaseError
from syncverify.checker.induction.strides import Turns
from syncverify.checker.kernel.linear import Apply, Term, apply, num, var
from syncverify.checker.kernel.protocol import Protocol
from syncverify.model.events import LaneSplit, ThreadClass
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.path_condition import PathCondition

#: Numbers that are no fact about a size: the ends of machine words.
_WORD = 2**31 - 1
#: By how much a size may be known to be more than its least value, by what is known of others.
_AHEAD = 12
_TAKEN = frozenset({"u", "n", "j", "x"})
MOST_SPLITS = 64
#: Claims of other classes that are tried for one.
MOST_TRIED = 5
#: Times that one claim is changed to what registers hold.
MOST_ADAPTED = 6


class Claims(Interface):
    """Where claims about agents come from; a class that is split there is split here too.

    ``naming``: quotients of sizes may get names.
    """

    naming: bool

    def ready(
        self, space: SymbolicContext, root: PathCondition, names: Mapping[int, str], seed: int
    ) -> None: ...

    def claim(self, cls: int, of: ThreadClass) -> Claim: ...

    def adapted(self, claim: Claim, place: int, wrong: Mapping[Any, tuple[Any, Any]]) -> Claim | None: ...

    def refine(self, split: LaneSplit) -> None: ...


def cleaned(name: str) -> str:
    """A symbol's name as one of a parameter."""
    plain = re.sub(r"[^A-Za-z0-9_.]", "_", name)
    return plain if re.match(r"[A-Za-z_]", plain) and plain not in _TAKEN else "_" + plain


def parameters(space: SymbolicContext, root: PathCondition) -> dict[int, str]:
    """The atoms that sizes are made of at the start, by name."""
    names: dict[int, str] = {}
    for a in range(len(space.symbols)):
        if a in root.defs:
            continue
        said = content(space, root, a) if derived(space, a) else space.symbols[a].name
        if said is None:
            continue
        plain = cleaned(said)
        while plain in names.values():
            plain += "_"
        names[a] = plain
    return names


def facts(root: PathCondition, names: dict[int, str], used: set[str]) -> tuple[Term, ...]:
    """What the path says of these sizes alone."""
    out: list[Term] = []
    for a, name in names.items():
        if name not in used:
            continue
        low, high = root.interval(a)
        if low is not None and low > -_WORD:
            low = max([low, *(x + 1 for x in range(low, low + _AHEAD) if root.decide(-x - 1, ((a, 1),)))])
            out.append(var(name) - low)
        if high is not None and high < _WORD:
            out.append(num(high) - var(name))
    for parts, c in root.inequalities.items():
        if all(a in names and names[a] in used for a, _ in parts):
            t = num(c)
            for a, k in parts:
                t = t + var(names[a]) * k
            out.append(t)
    return tuple(dict.fromkeys(out))


@dataclass(frozen=True, slots=True)
class _Start:
    """Where all agents of a system start. ``names``: of the sizes there."""

    space: SymbolicContext
    root: PathCondition
    names: dict[int, str]
    policy: Policy
    naming: bool = False
    turns: Turns = field(default_factory=Turns)

    def holds(self, t: Term) -> bool | None:
        """Whether a sum of sizes is at least 0 at the start."""
        back = {name: a for a, name in self.names.items()}
        total: Any = t.const
        for x, k in t.parts.items():
            total = total + self.space.term(0, ((back[str(x)], 1),)) * k
        self.space.path = self.root
        return self.root.decide(*self.root.resolve(*self.space.of(total)))

    def agent(self, system: Any, i: int) -> Any:
        self.space.path = self.root
        return system.agent(i)

    def read(self, system: Any, i: int, claim: Claim) -> Text:
        return self.reader(system, i, claim)[1]

    def reader(self, system: Any, i: int, claim: Claim) -> tuple[Reader, Text]:
        """The reader of an agent, and what it reads. Registers are followed until one cannot be."""
        unfollowed = set[tuple[int, Any]]()
        while True:
            agent = self.agent(system, i)
            reader = Reader(
                self.space, self.root, claim, names=self.names, turns=self.turns, naming=self.naming,
                unfollowed=set(unfollowed),
            )  # fmt: skip
            try:
                return reader, reader.read(agent)
            except UnfollowedError as e:
                unfollowed.add((e.place, e.slot))


@dataclass(frozen=True, slots=True)
class Claimed:
    """What is claimed of each class of lanes of a system. ``splits``: classes that part, in order."""

    claims: tuple[Claim, ...]
    splits: tuple[tuple[int, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A protocol with what was claimed for it."""

    protocol: Protocol
    claimed: Claimed


def protocol_of(
    space: SymbolicContext,
    root: PathCondition,
    system: Any,
    claims: Claims,
    policy: Policy = Policy.PRACTICAL,
) -> Reading:
    """The protocol of one system on one path; NotReadError with the reason where it is none, UnnamedSizeError
    for a quotient of sizes that has no name, if claims may have more of them.
    """
    start = _Start(space, root, parameters(space, root), policy, claims.naming)
    claims.ready(space, root, start.names, 1)
    splits: list[tuple[int, tuple[int, ...]]] = []
    known: dict[ThreadClass, Claim] = {}
    for _ in range(MOST_SPLITS):
        space.path = root
        try:
            found = _claimed(start, system, claims, known)
        except LaneSplit as split:
            space.path = root
            system = system.refined(split)
            claims.refine(split)
            splits.append((split.cls, tuple(split.parts)))
            continue
        claimed = Claimed(tuple(c for c, _ in found), tuple(splits))
        return Reading(_protocol(start, system, found), claimed)
    raise NotReadError("lane classes kept splitting")


def protocol_by(
    space: SymbolicContext, root: PathCondition, system: Any, claimed: Claimed, policy: Policy
) -> Protocol:
    """The protocol of a system by such claims; NotReadError where they do not hold."""
    start = _Start(space, root, parameters(space, root), policy)
    for cls, parts in claimed.splits:
        space.path = root
        system = _parted(system, cls, parts)
    if len(claimed.claims) != len(system.info.classes):
        raise NotReadError(f"claims of {len(claimed.claims)} classes of {len(system.info.classes)}")
    try:
        found = [(c, start.read(system, i, c)) for i, c in enumerate(claimed.claims)]
    except LaneSplit as split:
        raise NotReadError(f"lanes of class {split.cls} part") from None
    return _protocol(start, system, found)


def _parted(system: Any, cls: int, parts: tuple[int, ...]) -> Any:
    """The system with a class in parts, each lane in one of them."""
    classes = system.info.classes
    whole = 0
    for part in parts:
        if part <= 0 or part & whole:
            raise NotReadError("lanes in two parts of a class")
        whole |= part
    if not 0 <= cls < len(classes) or whole != classes[cls].lanes or len(parts) < 2:
        raise NotReadError("parts of no class")
    return system.refined(LaneSplit(cls, parts))


def _claimed(
    start: _Start, system: Any, claims: Claims, known: dict[ThreadClass, Claim]
) -> list[tuple[Claim, Text]]:
    """A claim that holds for each class. Agents of one code mostly do the same: what holds of others is
    tried first, and where the last turn of a loop stands apart for some, it does for all. ``known``: what
    held of classes before others parted.
    """
    found: list[tuple[Claim, Text]] = []
    apart: list[set[int]] = []

    def take(i: int, claim: Claim) -> None:
        reader, text = start.reader(system, i, claim)
        found.append((claim, text))
        apart.append(reader.apart)

    for i, cls in enumerate(system.info.classes):
        for claim in _likely(cls, known):
            try:
                _adapting(partial(take, i), claim, claims)
                break
            except SizeCaseError:
                raise
            except (NotReadError, NotConcrete):
                continue
        else:
            take(i, claims.claim(i, cls))
        known.pop(cls, None)
        known[cls] = found[-1][0]
    everywhere = set[int]().union(*apart)
    for i, (claim, _) in enumerate(found):
        if everywhere & {h.place for h in claim.headers if h.late} - apart[i]:
            headers = tuple(replace(h, apart=h.place in everywhere and h.late) for h in claim.headers)
            claim = replace(claim, headers=headers)
            found[i] = (claim, start.read(system, i, claim))
    return found


def _adapting(take: Callable[[Claim], None], claim: Claim, claims: Claims) -> None:
    """Takes a claim, or what becomes of it as registers are seen to hold something else."""
    for _ in range(MOST_ADAPTED):
        try:
            take(claim)
            return
        except OtherFormsError as e:
            adapted = claims.adapted(claim, e.place, e.wrong)
            if adapted is None:
                raise
            claim = adapted
    take(claim)


def _likely(cls: ThreadClass, known: Mapping[ThreadClass, Claim]) -> list[Claim]:
    """Claims that may hold of a class: its own, or that of a class of its block with the same role and lanes;
    then those of classes with the same lanes, then others; the latest first.
    """
    latest = list(known)[::-1]
    near = sorted(
        latest, key=lambda c: (c != cls, c.cta != cls.cta, c.role != cls.role, c.lanes != cls.lanes)
    )
    order = sorted(latest, key=lambda c: (c != cls, c.lanes != cls.lanes, c.warp != cls.warp))
    distinct = {id(known[c]): known[c] for c in (*near[:1], *order)}
    return list(distinct.values())[:MOST_TRIED]


def _protocol(start: _Start, system: Any, found: Sequence[tuple[Claim, Text]]) -> Protocol:
    parts = [
        Part(cls, text, (claim.steps, claim.tiles), claim.words)
        for cls, (claim, text) in zip(system.info.classes, found, strict=True)
    ]
    parts = [replace(p, text=tuple(_in_turns(x, start.turns) for x in p.text)) for p in parts]
    parts = _by_trips(parts)
    named = {x for p in parts for t in _terms(p.text) for x in t.names()}
    used = named & set(start.names.values())
    known = (*facts(start.root, start.names, used), *start.turns.facts(named, start.holds))
    used |= named & set(start.turns.names.values())
    return Assembly(system.info, frozenset(used), known, parts, start.policy).protocol()


def _by_trips(parts: Sequence[Part]) -> list[Part]:
    """Agents whose tiles have the same numbers of steps have one function of prefix sums, others another."""
    functions: dict[tuple[Any, ...], str] = {}
    out = []
    for p in parts:
        tiles = [x for x in p.text if isinstance(x, TilesText)]
        if len({t.trips for t in tiles}) == 1:
            (old,) = {t.function for t in tiles}
            many = len(functions)
            new = functions.setdefault(tiles[0].trips, f"{old}{many + 1}" if many else old)
            p = replace(p, text=tuple(_of_function(x, old, new) for x in p.text))
        out.append(p)
    return out


def _of_function(x: Any, old: str, new: str) -> Any:
    """The same with another function in all terms."""
    if isinstance(x, TilesText):
        return replace(x, function=new, body=tuple(_of_function(y, old, new) for y in x.body))
    if isinstance(x, LoopText):
        lo, hi = _function_of(x.lo, old, new), _function_of(x.hi, old, new)
        return replace(x, lo=lo, hi=hi, body=_of_function(x.body, old, new))
    pieces = [replace(p, guards=tuple(_function_of(g, old, new) for g in p.guards)) for p in x.pieces]
    steps, tile = (_function_of(t, old, new) for t in (x.steps, x.tile))
    return replace(x, pieces=tuple(pieces), steps=steps, tile=tile)


def _function_of(t: Term, old: str, new: str) -> Term:
    out = num(t.const)
    for atom, k in t.parts.items():
        if isinstance(atom, Apply):
            argument = _function_of(atom.argument, old, new)
            out = out + apply(new if atom.function == old else atom.function, argument) * k
        else:
            out = out + var(atom) * k
    return out


def _in_turns(x: Any, turns: Turns) -> Any:
    """The same with guards on sizes in words of how often loops turn, where loops ask them."""
    if isinstance(x, LoopText):
        return replace(x, body=_in_turns(x.body, turns))
    if isinstance(x, TilesText):
        return replace(x, body=tuple(_in_turns(y, turns) for y in x.body))
    pieces = [replace(p, guards=tuple(map(turns.sized, p.guards))) for p in x.pieces]
    return replace(x, pieces=tuple(pieces))


def _terms(text: Text) -> list[Term]:
    out: list[Term] = []

    def region(r: StraightText) -> None:
        out.extend((r.steps, r.tile, *(g for p in r.pieces for g in p.guards)))

    def visit(x: StraightText | LoopText) -> None:
        if isinstance(x, StraightText):
            region(x)
        else:
            out.extend((x.lo, x.hi))
            region(x.body)

    for x in text:
        if isinstance(x, TilesText):
            out.append(x.count)
            out.extend(t for trip in x.trips for t in (*trip.guards, trip.steps))
            for y in x.body:
                visit(y)
        else:
            visit(x)
    return out


__all__ = ["Piece", "protocol_of"]
