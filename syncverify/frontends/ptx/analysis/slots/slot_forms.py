"""Addresses as sums of a number that an atomic brought, a rank, and what does not vary with either.

A *slot number* is what an ``atom.add`` brings, or what ``shfl`` hands from the lane that alone executed it to
the others of its warp. A *rank* counts the lanes of a ballot on one side of the own one, or is the number of
the lane. The sums are those of ``slot_sums``. An example:

    atom.shared.add.u32 %n, [%c], 1;  shl.b32 %o, %n, 2;  add.u32 %a, %o, %buf;   // 4 * number + buf
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges, Interval
from syncverify.frontends.ptx.analysis.slots.slot_sums import MOST_NUMBER, OWN, Form, Rank
from syncverify.frontends.ptx.analysis.warps.lane_ranks import LaneRanks
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand, Pair, Reg
from syncverify.frontends.ptx.syntax.operands import results
from syncverify.frontends.ptx.syntax.types import width

_ALL_LANES, _LANES = 0xFFFFFFFF, 32
_WORDS = frozenset({"u32", "s32", "b32", "u64", "s64", "b64"})
_COPIES = frozenset({"to", "shared", "shared::cta", "u32", "s32", "b32", "u64", "s64", "b64"})
#: Instructions between an atomic and an address, at most.
_DEEPEST = 16
#: Products by which compilers divide: the higher word is shifted further.
_PRODUCTS = frozenset({"mul.hi.u32", "mul.hi.s32", "mul.wide.u32", "mul.wide.s32"})
#: Relations by which one operand is at most the other, or that less one.
_LESS = {"lt": 1, "lo": 1, "le": 0, "ls": 0}


@dataclass(frozen=True)
class SlotForms:
    """``atomics``: those that may bring slot numbers; ``ranges``: of registers, for a block's threads."""

    flow: Flow
    ranks: LaneRanks
    ranges: AddressRanges
    atomics: frozenset[int]

    def of(self, k: int) -> Form | None:
        """The address of an access to shared memory; None where it is no such sum, or has no slot number."""
        place = next((x for x in self.flow.body[k].operands if isinstance(x, Mem)), None)
        if place is None:
            return None
        found = self._operand(place.base, k, k, _DEEPEST)
        if found is None or not found.takes:
            return None
        return found.plus(Form(rest=Interval(place.offset, place.offset, 0)))

    def _operand(self, op: Operand, k: int, access: int, depth: int) -> Form | None:
        if isinstance(op, Reg) and depth:
            found = self._register(op, k, access, depth - 1)
            if found is not None:
                return found.within(self._limits(access).get(self.flow.versions.read(op.name, k)))
        known = self.ranges.operand(op, k)
        return None if known is None else Form(rest=known)

    def _register(self, op: Reg, k: int, access: int, depth: int) -> Form | None:
        v = self.flow.versions.read(op.name, k)
        takes = self._brought_by(v, set())
        if takes:
            return Form(takes, 1)
        at = self.flow.versions.writer[v]
        if self.ranks.is_lane(op, k):
            return self._own(op, k)
        if at < 0 or self.flow.body[at].guard is not None:
            return None
        i = self.flow.body[at]
        if i.op == "shfl":
            return self._shuffled(i, at)
        if i.op == "popc":
            rank = self._rank(i, at, access)
            return None if rank is None else Form(rank=rank, by=1)
        if i.operands[0] != op or not set(i.mods) <= _COPIES | {"lo", "wide"}:
            return None
        return self._computed(i, at, access, depth)

    def _own(self, op: Operand, k: int) -> Form:
        """The number of the lane."""
        known = self.ranges.operand(op, k)
        numbers = known.within(0, _LANES - 1) if known is not None else Interval(0, _LANES - 1)
        return Form(rank=Rank(OWN, 0, numbers=numbers), by=1)

    def _computed(self, i: Instr, k: int, access: int, depth: int) -> Form | None:
        if i.op == "shr":
            return self._quotient(i, k, access, depth)
        parts = [self._operand(x, k, access, depth) for x in i.operands[1:]]
        one, other = parts[0], parts[1] if len(parts) > 1 else None
        if one is None or (len(parts) > 1 and other is None):
            return None
        if i.op in ("mov", "cvt", "cvta"):
            return one
        if other is None:
            return None
        if i.op == "add":
            return one.plus(other)
        if i.op in ("and", "or", "rem"):
            return _reduced(i, one, other)
        if i.op == "sub":
            less = other.times(-1)
            return None if less is None else one.plus(less)
        product = _product(i, one, other)
        if i.op != "mad" or product is None:
            return product
        return None if parts[2] is None else product.plus(parts[2])

    def _quotient(self, i: Instr, k: int, access: int, depth: int) -> Form | None:
        """A shift to the right that leaves nothing, also behind the product by which compilers divide."""
        source, bits = i.operands[1], self.ranges.operand(i.operands[2], k)
        if bits is None or bits.low != bits.high or not 0 <= bits.low < 64 or not isinstance(source, Reg):
            return None
        at = self.flow.versions.writer[self.flow.versions.read(source.name, k)]
        product = self.flow.body[at] if at >= 0 and self.flow.body[at].guard is None else None
        if product is None or product.name not in _PRODUCTS or product.operands[0] != source:
            whole = width(i.mods[-1]) == 32 and bits.low < 32
            form = self._operand(source, k, access, depth) if whole else None
            return None if form is None else form.quotient(1 << bits.low)
        factor = self.ranks.uniformity.constant(product.operands[2], at)
        form = self._operand(product.operands[1], at, access, depth - 1) if factor and depth else None
        if form is None or factor is None or (width(i.mods[-1]) == 64) != (product.mods[0] == "wide"):
            return None
        factor = factor & _ALL_LANES if product.mods[-1] == "u32" else factor
        shifted = bits.low + (0 if product.mods[0] == "wide" else 32)
        return form.quotient(-(-(1 << shifted) // factor)) if factor > 0 else None

    def _brought_by(self, v: int, seen: set[int]) -> frozenset[int]:
        """The atomics one of which brought what a version of a register holds; none where it may be anything
        else."""
        if v in seen:
            return frozenset()
        seen.add(v)
        versions = self.flow.versions
        k = versions.writer[v]
        if k < 0:
            merged = [x for _, x in versions.merged(v) if x != v and x not in seen]
            found = [self._brought_by(x, seen) for x in merged]
            return frozenset[int]().union(*found) if merged and all(found) else frozenset()
        i = self.flow.body[k]
        if k in self.atomics:
            return frozenset({k})
        copies = i.op == "mov" and i.guard is None and isinstance(i.operands[1], Reg)
        return self._brought_by(versions.read(i.operands[1].name, k), seen) if copies else frozenset()  # type: ignore[union-attr]

    # ------------------------------------------------------------ numbers that a leader takes for its warp

    def _shuffled(self, i: Instr, k: int) -> Form | None:
        """What ``shfl`` hands to all lanes of a warp, or of a group, from the one that alone executes an
        atomic before."""
        into, source, lane, clamp, mask = i.operands
        constant = self.ranks.uniformity.constant
        if i.mods != ("sync", "idx", "b32") or constant(clamp, k) != 31 or not isinstance(source, Reg):
            return None
        if isinstance(into, Pair) and not isinstance(into.first, Reg):
            return None
        taken = self._taken(source, k)
        whole = (constant(mask, k) or 0) & _ALL_LANES == _ALL_LANES
        takes: dict[int, int | None] = {t: None for t in taken if whole and self._leads(t, lane, k)}
        if not takes:
            led = {t: self._leads_group(t, lane, None if whole else mask, k) for t in taken}
            takes = {t: made for t, made in led.items() if made is not None}
        if len(takes) != 1:
            return None
        ((take, group),) = takes.items()
        return Form(frozenset({take}), 1, k, group)

    def _taken(self, source: Reg, k: int) -> list[int]:
        """The atomics that bring what ``shfl`` reads."""
        takes = [t for t in self.atomics if results(self.flow.body[t]) == (source.name,)]
        return [t for t in takes if self._arrives(t, source.name, k)]

    def _leads_group(self, take: int, lane: Operand, mask: Operand | None, k: int) -> int | None:
        """What makes the mask that ``shfl`` is given, if the lane that it reads from alone of these lanes
        executes an atomic before. All lanes of the mask come to the choice and to the ``shfl``.
        Without a mask the whole warp comes, and each lane reads from the one that leads its own group."""
        ranks = self.ranks
        chosen = ranks.masks.chosen_by(take, k)
        if chosen is None or k in self.paths.after(k, frozenset({chosen[0]})):
            return None
        leader = ranks.led_by(*chosen[1:])
        if leader is None or ranks.chosen(lane, k) != leader:
            return None
        origin = ranks.masks.values.origin(mask, k) if isinstance(mask, Reg) else None
        return leader.made if mask is None or leader.made == origin else None

    def _leads(self, take: int, lane: Operand, k: int) -> bool:
        """Whether the lane that ``shfl`` reads from, and no other one, executes an atomic before it does."""
        ranks = self.ranks
        chosen = ranks.masks.chosen_by(take, k)
        if chosen is None:
            return False
        branch, at, one, other = chosen
        if k in self.paths.after(k, frozenset({branch})):
            return False  # it hands on again what was taken for an earlier turn
        ways = ((one, other), (other, one))
        return any(
            ranks.is_lane(own, at) and ranks.alike(named, at) and self._same(named, at, lane, k)
            for own, named in ways
        )

    def _same(self, one: Operand, at: int, other: Operand, k: int) -> bool:
        """Whether two operands hold one value: a number, or a register written once for both."""
        constant = self.ranks.uniformity.constant
        a, b = constant(one, at), constant(other, k)
        if a is not None or b is not None:
            return a == b
        read = self.flow.versions.read
        return isinstance(one, Reg) and isinstance(other, Reg) and read(one.name, at) == read(other.name, k)

    def _arrives(self, take: int, name: str, k: int) -> bool:
        """Whether a register still holds what an atomic brought where ``shfl`` reads it."""
        between = self.paths.between(take, k, frozenset({take, k}))
        return k in self.paths.after(take) and not any(name in results(self.flow.body[j]) for j in between)

    def _rank(self, i: Instr, k: int, access: int) -> Rank | None:
        of_all = self.ranks.rank(i.operands[1], k, access)
        if of_all is not None:
            return Rank(*of_all)
        found = self.ranks.rank(i.operands[1], k, access, groups=True)
        return None if found is None else Rank(*found, one=False)

    @cached_property
    def paths(self) -> Paths:
        """The paths of the function."""
        return Paths(self.flow)

    # ------------------------------------------------------------ comparisons

    def _limits(self, access: int) -> Mapping[int, int]:
        """By version of a register, what it is at most wherever an access is made: it was compared."""
        if access not in self._known_limits:
            self._known_limits[access] = dict(self._compared(access))
        return self._known_limits[access]

    @cached_property
    def _known_limits(self) -> dict[int, dict[int, int]]:
        return {}

    def _compared(self, access: int) -> Iterator[tuple[int, int]]:
        for at, name, type_, one, other in self.ranks.masks.comparisons(access):
            limit, less = self.ranks.uniformity.constant(other, at), _LESS.get(name)
            if less is not None and type_ in ("u32", "s32") and isinstance(one, Reg) and limit is not None:
                if less <= limit < MOST_NUMBER:
                    yield self.flow.versions.read(one.name, at), limit - less


def _reduced(i: Instr, one: Form, other: Form) -> Form | None:
    """A sum as a mask or a remainder leaves it, or put together with the bits below it."""
    if not one.takes and i.op != "rem":
        one, other = other, one
    if i.op == "or":
        more = other.ranks.plus(other.rest)
        low = 1 << max(more.high, 1).bit_length()
        apart = one.takes and not other.takes and more.low >= 0 and one.divisible(low)
        return one.plus(other) if apart else None
    n = other.rest.low
    if other.takes or other.rank or other.needs or n != other.rest.high:
        return None
    if i.op == "and":
        return one.masked(n & _ALL_LANES)
    return one.below(n) if width(i.mods[-1]) == 32 else None


def _product(i: Instr, one: Form, other: Form) -> Form | None:
    """A product with a number, or a shift by one."""
    if i.op != "shl" and one == Form(rest=one.rest) and one.rest.low == one.rest.high:
        one, other = other, one
    n = other.rest.low
    if other.takes or other.rank or other.needs or n != other.rest.high:
        return None
    if i.op == "shl":
        return one.times(1 << n) if 0 <= n < 32 else None
    wide = i.op in ("mul", "mad") and i.mods[:1] in (("lo",), ("wide",))
    return one.times(n) if wide else None


class Paths:
    """Paths between instructions."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._after: dict[tuple[int, frozenset[int]], frozenset[int]] = {}
        self._before: dict[int, list[int]] = {}

    def after(self, k: int, stops: frozenset[int] = frozenset()) -> frozenset[int]:
        """The instructions that paths from one lead to (-1: from the entry), past none of ``stops``, which
        may be the last."""
        found = self._after.get((k, stops))
        if found is None:
            found = self._after[k, stops] = frozenset(self._reached(k, stops))
        return found

    def _reached(self, k: int, stops: frozenset[int]) -> set[int]:
        flow, seen = self.flow, set[int]()
        work = [flow.blocks[0].lo] if k < 0 else self._next(k)
        while work:
            at = work.pop()
            while at not in seen:
                seen.add(at)
                if at in stops:
                    break
                ways = self._next(at)
                if len(ways) != 1:
                    work += ways
                    break
                at = ways[0]
        return seen

    def _next(self, k: int) -> list[int]:
        block = self.flow.blocks[self.flow.block_of[k]]
        if k + 1 < block.hi:
            return [k + 1]
        return [self.flow.blocks[s].lo for s in block.succ if s < self.flow.end]

    def between(self, one: int, other: int, stops: frozenset[int]) -> set[int]:
        """The instructions on the paths from one to another that pass none of ``stops`` on the way."""
        inside = self.after(one, stops) - stops
        return {j for j in inside if other in self.after(j, stops)}


__all__ = ["Paths", "SlotForms"]
