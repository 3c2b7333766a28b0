"""The protocols of a kernel whose sizes have no number: one for each system and each way its facts leave."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.checker.induction.assemble import Assembly, Part
from syncverify.checker.induction.claims import Claim
from syncverify.checker.induction.quotients import content, derived
from syncverify.checker.induction.read import (
    OWN,
    FallsError,
    FirstTurnsError,
    LoopText,
    Reader,
    StraightText,
    Text,
    TilesText,
    UnfollowedError,
    valued,
)
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.induction.strides import TURNS, Turns
from syncverify.checker.kernel.linear import Apply, Term, apply, num, var
from syncverify.checker.kernel.protocol import Protocol, U
from syncverify.model.events import LaneSplit
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.path_condition import PathCondition

#: Numbers that are no fact about a size: the ends of machine words.
_WORD = 2**31 - 1
#: By how much a size may be known to be more than its least value, by what is known of others.
_AHEAD = 12
#: Names that the reading gives, and those of counters and functions: no size has such a name.
_GIVEN = re.compile(rf"({TURNS}|slots_|rounds_).*|[unjx]|P\d*(_fewer)?")


def cleaned(name: str) -> str:
    """A symbol's name as one of a parameter."""
    plain = re.sub(r"[^A-Za-z0-9_.]", "_", name)
    return plain if re.match(r"[A-Za-z_]", plain) and not _GIVEN.fullmatch(plain) else "_" + plain


def parameters(space: SymbolicContext, root: PathCondition) -> dict[int, str]:
    """The atoms that sizes are made of at the start, by name; what readers made is none of them."""
    names: dict[int, str] = {}
    for a in range(len(space.symbols)):
        if a in root.defs or space.symbols[a].name.startswith(OWN):
            continue
        whole = space.parents.get(a)  # what it is a part of, perhaps on another path alone
        if whole is not None and all(b != a for b, _ in root.defs.get(whole, (0, ()))[1]):
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
class Start:
    """Where all agents of a system start. ``names``: of the sizes there; ``naming``: of quotients, too."""

    space: SymbolicContext
    root: PathCondition
    names: dict[int, str]
    policy: Policy
    naming: bool = False
    turns: Turns = field(default_factory=Turns)

    def holds(self, t: Term) -> bool | None:
        """Whether a sum of sizes is at least 0 at the start."""
        self.space.path = self.root
        x = self.space.of(valued(self.space, self.names, t))
        return self.root.decide(*self.root.resolve(*x))

    def agent(self, system: Any, i: int) -> Any:
        self.space.path = self.root
        return system.agent(i)

    def read(self, system: Any, i: int, claim: Claim) -> Text:
        reader, text = self.reader(system, i, claim)
        if reader.elsewhere:
            raise NotReadError("a loop ends elsewhere than is claimed")
        return text

    def reader(self, system: Any, i: int, claim: Claim) -> tuple[Reader, Text]:
        """The reader of an agent, and what it reads.

        Registers are followed until one cannot be, and are taken to rise until one is seen to fall. What they
        may hold instead is taken to be there in first turns, then in first tiles, then in any turn.
        """
        unfollowed = set[tuple[int, Any]]()
        falling = set[str]()
        firsts: dict[int, int] = {}
        while True:
            agent = self.agent(system, i)
            reader = Reader(
                self.space, self.root, claim, names=self.names, turns=self.turns, naming=self.naming,
                unfollowed=set(unfollowed), falling=set(falling), firsts=dict(firsts),
            )  # fmt: skip
            try:
                return reader, reader.read(agent)
            except UnfollowedError as e:
                unfollowed.add((e.place, e.slot))
            except FallsError as e:
                falling.add(e.name)
            except FirstTurnsError as e:
                firsts[e.place] = firsts.get(e.place, 0) + 1


@dataclass(frozen=True, slots=True)
class Claimed:
    """What is claimed of each class of lanes of a system. ``splits``: classes that part, in order."""

    claims: tuple[Claim, ...]
    splits: tuple[tuple[int, tuple[int, ...]], ...] = ()


def protocol_by(
    space: SymbolicContext, root: PathCondition, system: Any, claimed: Claimed, policy: Policy
) -> Protocol:
    """The protocol of a system by such claims; NotReadError where they do not hold."""
    start = Start(space, root, parameters(space, root), policy)
    space.counts_turns = all(h.stride == 1 for c in claimed.claims for h in c.headers)
    for cls, parts in claimed.splits:
        space.path = root
        system = _parted(system, cls, parts)
    if len(claimed.claims) != len(system.info.classes):
        raise NotReadError(f"claims of {len(claimed.claims)} classes of {len(system.info.classes)}")
    try:
        found = [(c, start.read(system, i, c)) for i, c in enumerate(claimed.claims)]
    except LaneSplit as split:
        raise NotReadError(f"lanes of class {split.cls} part") from None
    return assembled(start, system, found)


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


def assembled(start: Start, system: Any, found: Sequence[tuple[Claim, Text]]) -> Protocol:
    """The protocol of a system whose agents were read so by these claims."""
    parts = [
        Part(cls, text, (claim.steps, claim.tiles), claim.words)
        for cls, (claim, text) in zip(system.info.classes, found, strict=True)
    ]
    parts = [replace(p, text=tuple(_in_turns(x, start.turns) for x in p.text)) for p in parts]
    parts = _by_trips(_in_step(parts))
    named = {x for p in parts for t in _terms(p.text) for x in t.names()}
    used = named & set(start.names.values())
    known = (*facts(start.root, start.names, used), *start.turns.facts(named, start.holds))
    used |= named & set(start.turns.names.values())
    return Assembly(system.info, frozenset(used), known, parts, start.policy).protocol()


def _in_step(parts: Sequence[Part]) -> list[Part]:
    """Agents whose one loop turns once for each tile of others have tiles, too, in which there is no loop.

    Example: the lanes that are not elected come to each tile's election, and to nothing else.
    """
    tiles = {x.count: x for p in parts for x in p.text if isinstance(x, TilesText) and x.stride == 1}
    out = []
    for p in parts:
        loops = [x for x in p.text if not isinstance(x, StraightText)]
        one = loops[0] if len(loops) == 1 and p.moduli == (1, 1) else None
        if isinstance(one, LoopText) and one.lo == num(0) and one.hi in tiles:
            pieces = [replace(x, guards=tuple(g.put({"n": U}) for g in x.guards)) for x in one.body.pieces]
            like = tiles[one.hi]
            steps = apply(like.function, U) if like.function else U
            body = replace(one.body, pieces=tuple(pieces), steps=steps, tile=U)
            turned = replace(like, body=(body,))
            p = replace(p, text=tuple(turned if x is one else x for x in p.text))
        out.append(p)
    return out


def _by_trips(parts: Sequence[Part]) -> list[Part]:
    """Agents whose tiles have the same numbers of steps have one function of prefix sums, others another."""
    functions: dict[tuple[Any, ...], str] = {}
    out = []
    for p in parts:
        tiles = [x for x in p.text if isinstance(x, TilesText) and x.function]
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
