"""Protocols of kernels whose claims have to be found. Not trusted: each claim that is tried is read by
``induction.program``, and what it gives is accepted from the certificate alone (``driver.by_kernel``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from typing import Protocol as Interface

from syncverify.base.diagnostics import Policy
from syncverify.checker.induction.claims import Claim, Form, Header
from syncverify.checker.induction.program import Claimed, Start, assembled, cleaned, parameters
from syncverify.checker.induction.read import OtherFormsError, Text
from syncverify.checker.induction.stepping import NotReadError, SizeCaseError
from syncverify.checker.kernel.protocol import Protocol
from syncverify.model.events import LaneSplit, ThreadClass
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.path_condition import PathCondition

#: Classes of lanes that part, in one system.
MOST_SPLITS = 64
#: Claims of other classes that are tried for one.
MOST_TRIED = 5
#: Warps of a warpgroup.
WARPGROUP = 4
#: Times that one claim is changed to what registers hold.
MOST_ADAPTED = 6


class _InTurnError(Exception):
    """Tiles are claimed to be taken in turn, but questions are asked about numbers of turns."""


class Claims(Interface):
    """Where claims about agents come from; a class that is split there is split here too.

    ``naming``: quotients of sizes may get names. ``before``: what held of classes on other paths.
    """

    naming: bool
    before: dict[ThreadClass, Claim]

    def ready(
        self, space: SymbolicContext, root: PathCondition, names: Mapping[int, str], seed: int
    ) -> None: ...

    def claim(self, cls: int, of: ThreadClass) -> Claim: ...

    def adapted(self, claim: Claim, place: int, wrong: Mapping[Any, tuple[Any, Any]]) -> Claim | None: ...

    def refine(self, split: LaneSplit) -> None: ...


def _no_protocol() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Reading:
    """A protocol with what was claimed for it. ``strict``: gives that of strict mode, if there is one."""

    protocol: Protocol
    claimed: Claimed
    strict: Callable[[], Protocol | None] = field(default=_no_protocol, compare=False, repr=False)


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
    start = Start(space, root, parameters(space, root), policy, claims.naming)
    claims.ready(space, root, start.names, 1)
    splits: list[tuple[int, tuple[int, ...]]] = []
    known: dict[ThreadClass, Claim] = {}
    guessed: dict[ThreadClass, Claim] = {}
    space.counts_turns = True
    for _ in range(MOST_SPLITS):
        space.path = root
        try:
            found = _claimed(start, system, claims, known, guessed)
        except _InTurnError:  # whether a second agent has a tile is no number of turns
            space.counts_turns = False
            continue
        except LaneSplit as split:
            space.path = root
            system = system.refined(split)
            claims.refine(split)
            guessed.clear()
            splits.append((split.cls, tuple(split.parts)))
            continue
        claimed = Claimed(tuple(c for c, _ in found), tuple(splits))
        return Reading(assembled(start, system, found), claimed, partial(_strict, start, system, found))
    raise NotReadError("lane classes kept splitting")


def _strict(start: Start, system: Any, found: Sequence[tuple[Claim, Text]]) -> Protocol | None:
    """The protocol of strict mode; None where it is none, or where what is read may be warned of besides."""
    if system.info.strong_words:  # accesses in no order are no data race in either mode
        return None
    try:
        return assembled(replace(start, policy=Policy.STRICT), system, found)
    except (NotReadError, NotConcrete):
        return None


def _claimed(
    start: Start, system: Any, claims: Claims, known: dict[ThreadClass, Claim],
    guessed: dict[ThreadClass, Claim],
) -> list[tuple[Claim, Text]]:  # fmt: skip
    """A claim that holds for each class. Agents of one code mostly do the same: what holds of others is
    tried first, and where the last turn of a loop stands apart for some, it does for all. ``known``: what
    held of classes before others parted; ``guessed``: what runs of these classes have shown.
    """
    by_class: dict[int, tuple[Claim, Text]] = {}
    apart: dict[int, set[int]] = {}
    elsewhere: dict[int, set[int]] = {}

    def take(i: int, claim: Claim) -> None:
        if start.space.counts_turns and takes_turns(claim):
            raise _InTurnError
        reader, text = start.reader(system, i, claim)
        by_class[i] = (claim, text)
        apart[i], elsewhere[i] = reader.apart, reader.elsewhere

    # what sizes decide is asked by some warp of each group, so that these come first
    for i, cls in sorted(enumerate(system.info.classes), key=lambda x: x[1].warp % WARPGROUP != 0):
        for claim in (*_in_turn(claims.before.get(cls), start), *_likely(cls, known)):
            try:
                _adapting(partial(take, i), claim, claims)
                break
            except SizeCaseError:
                raise
            except (NotReadError, NotConcrete):
                continue
        else:
            try:
                if cls not in guessed:
                    guessed[cls] = claims.claim(i, cls)
                own, before = guessed[cls], claims.before.get(cls)
                in_turn = before is not None and _turns_alone(own, before)
                take(i, with_numbers(before, start) if before and in_turn else own)
            except SizeCaseError:
                raise
            except NotReadError:  # few sizes of this path may come to a second tile, say
                if cls not in claims.before:
                    raise
                take(i, claims.before[cls])
        if cls not in claims.before or takes_turns(by_class[i][0]) or not takes_turns(claims.before[cls]):
            claims.before[cls] = by_class[i][0]
        known.pop(cls, None)
        known[cls] = by_class[i][0]
    found = [(_without_ends(by_class[i][0], elsewhere[i]), by_class[i][1]) for i in sorted(by_class)]
    everywhere = set[int]().union(*apart.values())
    for i, (claim, _) in enumerate(found):
        if everywhere & {h.place for h in claim.headers if h.late} - apart[i]:
            headers = tuple(replace(h, apart=h.place in everywhere and h.late) for h in claim.headers)
            claim = replace(claim, headers=headers)
            found[i] = (claim, start.read(system, i, claim))
    return found


def _without_ends(claim: Claim, places: set[int]) -> Claim:
    """The claim, which says of the loops at these places no more where they end."""
    headers = tuple(replace(h, trip=None) if h.place in places else h for h in claim.headers)
    return replace(claim, headers=headers) if places else claim


def _in_turn(before: Claim | None, start: Start) -> list[Claim]:
    """What held on another path of tiles that are taken in turn, where their number of steps is a number on
    this one: runs whose tiles have one step do not show that there are others between.
    """
    if before is None or not takes_turns(before):
        return []
    here = with_numbers(before, start)
    return [here] if any(h.trip is not None and not h.trip.parts for h in here.headers) else []


def takes_turns(claim: Claim) -> bool:
    """Whether it is claimed that others take tiles between those of the agent."""
    return any(h.stride > 1 for h in claim.headers)


def _turns_alone(claim: Claim, before: Claim) -> bool:
    """Whether a loop is claimed to turn alone of which another path has shown that others take tiles between.
    Runs whose tiles have one step do not show that.
    """
    alone = {h.place for h in claim.headers if not h.tiles}
    return any(h.stride > 1 and h.place in alone for h in before.headers)


def with_numbers(claim: Claim, start: Start) -> Claim:
    """The claim with numbers in the place of sizes that have one on this path."""
    numbers: dict[str, int] = {}
    for a in start.root.defs:
        c, parts = start.root.resolve(0, ((a, 1),))
        if not parts:
            numbers["$" + cleaned(start.space.symbols[a].name)] = c
    numbers = {x: c for x, c in numbers.items() if x[1:] not in start.names.values()}

    def form(f: Form) -> Form:
        parts = tuple((x, k) for x, k in f.parts if x not in numbers)
        return (
            f
            if parts == f.parts
            else replace(f, c=f.c + sum(numbers[x] * k for x, k in f.parts if x in numbers), parts=parts)
        )

    def forms(by: Mapping[Any, Form]) -> dict[Any, Form]:
        return {s: form(f) for s, f in by.items()}

    def header(h: Header) -> Header:
        return replace(
            h,
            forms={r: forms(x) for r, x in h.forms.items()},
            others={r: forms(x) for r, x in h.others.items()},
            begins=tuple((low, high, forms(x)) for low, high, x in h.begins),
            trip=h.trip and form(h.trip),
        )

    return replace(claim, headers=tuple(map(header, claim.headers)))


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
