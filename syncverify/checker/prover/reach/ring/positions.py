"""States at different places of a ring: whether they go together, and which registers differ by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from syncverify.checker.prover.reach.ring.product import Offsets, SymmetryBroken
from syncverify.symbolic.inequalities import Sum

#: Registers that were another number at a place so many times less often than some may cycle.
RARELY = 8


@dataclass(frozen=True, slots=True)
class RingPositions:
    """The places of a state, and what is known of the registers there."""

    main: int = 0
    all: tuple[int, ...] = (0,)
    offsets: Offsets = field(default_factory=dict)

    def by(self, where: tuple[Any, ...], place: int) -> int:
        """How much more a register is at a place than at the main one."""
        found = self.offsets.get(where)
        return 0 if found is None else found[place]


@dataclass(frozen=True, slots=True)
class Alignment:
    """An earlier state seen from the main place of a later one: its rows, and the places of both."""

    rows: dict[Any, Sum]
    places: RingPositions
    covers: bool  # the earlier one is at all places of the later one
    overlap: bool  # there are places of both


@dataclass(slots=True)
class RegisterRoles:
    """What registers (class and slot) were seen to do: ``monotone_registers`` grow, others cycle through the
    ring.

    ``ring_index_registers``: those that were seen to, and their least and greatest number.
    ``phase_dependent``: those that are other numbers where other phases of barriers beside the ring are over.
    ``last_visit``: where all agents stand -> place -> the newest rows there, and those phases; ``alike``: the
    same by form and place."""

    monotone_registers: set[tuple[int, Any]] = field(default_factory=set)
    last_visit: dict[Any, dict[int, tuple[dict[Any, Sum], Any]]] = field(default_factory=dict)
    alike: dict[tuple[Any, int], dict[Any, Sum]] = field(default_factory=dict)
    ring_index_registers: dict[tuple[int, Any], tuple[int, int]] = field(default_factory=dict)
    phase_dependent: set[tuple[int, Any]] = field(default_factory=set)
    rotation_invariant: set[tuple[int, Any]] = field(default_factory=set)  # never differ by place
    # how often others than at one place
    varying_counts: Counter[tuple[int, Any]] = field(default_factory=Counter)
    size: int = 0  # slots of the ring

    def apart(self, where: tuple[Any, ...], old: Sum, new: Sum) -> int:
        """How much of the way from one value to another is due to the place."""
        if where[0] != "register" or old == new or (where[1], where[2]) in self.rotation_invariant:
            return 0
        if old[1] and new[1]:
            # remainders stay those of the places
            round_ = gcd(*(k for _, parts in (old, new) for _, k in parts))
            return new[0] % round_ - old[0] % round_ if round_ > 1 else 0
        return 0 if old[1] or new[1] or (where[1], where[2]) in self.monotone_registers else new[0] - old[0]

    def observe(self, rows: dict[Any, Sum], at: RingPositions) -> None:
        """Takes note of registers that differ from place to place."""
        for where, by in at.offsets.items():
            value, parts = rows[where]
            if parts or where[0] != "register":
                continue
            values = [value + n for n in by.values()]
            low, high = self.ring_index_registers.get((where[1], where[2]), (value, value))
            self.ring_index_registers[where[1], where[2]] = min(low, *values), max(high, *values)

    def closed_orbit(self, before: dict[Any, Sum], rows: dict[Any, Sum], last: dict[Any, Sum]) -> bool:
        """Takes note of registers that have gone on by a lap or more where agents are at a place again;
        whether others have come back to what they were. ``last``: what they were at the place before."""
        back = False
        for where, (c, parts) in rows.items():
            old = before[where]
            if where[0] != "register" or parts or old[1]:
                continue
            if abs(c - old[0]) >= 2 * self.size:
                self.monotone_registers.add((where[1], where[2]))
            back = back or c == old[0] != last[where][0]
        return back

    def refutes_alignment(self, where: tuple[Any, ...], old: int, new: int, moved: int | None) -> bool:
        """Whether a register that cycles through the ring shows that two states do not represent each other:
        it
        is another number at the same place (``moved`` is None), or did not move on as far as the place."""
        found = self.ring_index_registers.get((where[1], where[2])) if where[0] == "register" else None
        if found is None:
            return False
        register = where[1], where[2]
        if register in self.monotone_registers or register in self.rotation_invariant:
            return False
        if moved is None:
            return old != new
        return found == (0, self.size - 1) and self.size > 2 and (new - old - moved) % self.size != 0

    def refuting_registers(
        self, rows: dict[Any, Sum], at: RingPositions, later: dict[Any, Sum], here: RingPositions
    ) -> frozenset[tuple[int, Any]]:
        """Registers that were taken to cycle through the ring, and are other numbers at one place of an
        earlier
        state (its ``rows``, ``at``) and a later one."""
        both, found = set(at.all) & set(here.all), set[tuple[int, Any]]()
        for cls, slot in self.ring_index_registers:
            where = "register", cls, slot
            (old, parts), (new, more) = rows.get(where, (0, ())), later.get(where, (0, ()))
            if not parts and not more and any(old + at.by(where, p) != new + here.by(where, p) for p in both):
                found.add((cls, slot))
        return frozenset(found)

    def refine(self, e: SymmetryBroken) -> bool:
        """Whether there is a reason to try again: registers that count; or those that were other numbers at
        one place, first those that were it often: one that takes turns may begin with another."""
        most = max(self.varying_counts.values(), default=0)
        often = {register for register, times in self.varying_counts.items() if RARELY * times >= most}
        for found in (e.counters, often, self.varying_counts.keys()):
            if not found <= self.monotone_registers:
                slots = {slot for _, slot in found}
                classes = {cls for cls, _ in self.ring_index_registers.keys() | found}
                self.monotone_registers |= found | {(cls, slot) for cls in classes for slot in slots}
                return True
        return False

    def visit(self, points: Any, phases: Any, key: Any, place: int, rows: dict[Any, Sum]) -> None:
        """Takes note of the registers at a place; ``key``: of states that may represent each other;
        ``phases``: of barriers that do not cycle."""
        earlier, before = self.last_visit.setdefault(points, {}).get(place, (rows, phases))
        if before != phases and earlier.keys() == rows.keys():
            self.phase_dependent |= {
                (where[1], where[2])
                for where, (c, parts) in rows.items()
                if where[0] == "register" and not parts and not earlier[where][1] and earlier[where][0] != c
            }
        for where, (c, parts) in self.alike.get((key, place), {}).items():
            new = rows.get(where)
            if where[0] == "register" and new is not None and not parts and not new[1] and new[0] != c:
                self.varying_counts[where[1], where[2]] += 1
        self.alike[key, place] = rows
        self.last_visit[points][place] = rows, phases

    def generalise(self, both: Alignment, later: dict[Any, Sum], points: Any) -> Alignment:
        """The same at all places that were seen, with registers as they were: a guess, for more only."""
        at = both.places
        new = {
            place: rows
            for place, (rows, _) in self.last_visit.get(points, {}).items()
            if place not in at.all and rows.keys() == later.keys()
        }
        offsets = {where: dict(by) for where, by in at.offsets.items()}
        for where, row in later.items():
            follows = where[0] == "register" and (where[1], where[2]) in self.phase_dependent
            found = {
                place: 0 if follows else -self.apart(where, rows[where], row) for place, rows in new.items()
            }
            if where in offsets or any(found.values()):
                by = offsets.setdefault(where, dict.fromkeys(at.all, 0))
                by.update(found)
        return replace(both, places=RingPositions(at.main, tuple(sorted({*at.all, *new})), offsets))


def monotone_registers_of(seen: Iterable[Iterable[Any]], places: int) -> set[tuple[int, Any]]:
    """Registers with more values than there are places: they do not cycle."""
    values: dict[tuple[int, Any], set[int]] = {}
    for some in seen:
        for x in some:
            for where, (c, parts) in x.view.rows.items():
                if where[0] == "register" and not parts:
                    values.setdefault((where[1], where[2]), set()).add(c)
    return {register for register, found in values.items() if len(found) > places}


def together(
    rows: dict[Any, Sum], at: RingPositions, later: dict[Any, Sum], here: RingPositions, kinds: RegisterRoles
) -> Alignment | None:
    """An earlier state (its ``rows``, ``at``) beside a later one; None if registers contradict."""
    both = sorted(set(at.all) & set(here.all))
    covers = len(both) == len(here.all)
    union = tuple(sorted({*at.all, *here.all}))
    ref = here.main if here.main in both else both[0] if both else -1
    if ref >= 0 and not (here.offsets or at.offsets or kinds.ring_index_registers):
        return Alignment(
            rows, RingPositions(here.main, union), covers, True
        )  # rows of one key are in one order
    if ref >= 0:
        found = _at_one(rows, at, later, here, kinds, (ref, both, union))
        return None if found is None else Alignment(*found, covers, True)
    new_rows: dict[Any, Sum] = {}
    offsets: Offsets = {}
    for where, row in later.items():
        old = rows[where]
        moved = here.main - at.main
        if not (old[1] or row[1]) and kinds.refutes_alignment(where, old[0], row[0], moved):
            return None
        shift = kinds.apart(where, old, row)
        # the earlier one's value, seen from the later one's main place
        new_rows[where] = (old[0] + shift, old[1])
        every = {p: here.by(where, p) if p in here.all else at.by(where, p) - shift for p in union}
        if len(set(every.values())) > 1:
            offsets[where] = every
    return Alignment(new_rows, RingPositions(here.main, union, offsets), covers, bool(both))


def _at_one(
    rows: dict[Any, Sum],
    at: RingPositions,
    later: dict[Any, Sum],
    here: RingPositions,
    kinds: RegisterRoles,
    where_both: tuple[int, list[int], tuple[int, ...]],
) -> tuple[dict[Any, Sum], RingPositions] | None:
    """The same of states that share places, one of them given. Most registers are alike at all places."""
    ref, both, union = where_both
    moves = {where: 0 for some in (here.offsets, at.offsets) for where in some}
    new_rows = dict(rows)  # in the order of the later ones: rows of one key are in one order
    offsets: Offsets = {}
    for where in dict.fromkeys(
        [*moves, *(("register", *register) for register in kinds.ring_index_registers)]
    ):
        row = later.get(where)
        if row is None:
            continue
        old, shift = rows[where], 0
        if where in moves:
            shift = at.by(where, ref) - here.by(where, ref)
            if any(at.by(where, p) - here.by(where, p) != shift for p in both):
                return None
        if not (old[1] or row[1]) and kinds.refutes_alignment(where, old[0] + shift, row[0], None):
            return None
        if where in moves:
            # the earlier one's value, seen from the later one's main place
            new_rows[where] = (old[0] + shift, old[1])
            every = {p: here.by(where, p) if p in here.all else at.by(where, p) - shift for p in union}
            if len(set(every.values())) > 1:
                offsets[where] = every
    return new_rows, RingPositions(here.main, union, offsets)


__all__ = ["Alignment", "RegisterRoles", "RingPositions", "together"]
