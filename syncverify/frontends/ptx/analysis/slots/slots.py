"""Accesses to shared memory at slots that atomics hand out: of which no two threads share a byte.

    if (t == 0) n = 0;  __syncthreads();
    if (x > 0) { s = atomicAdd(&n, 1); buf[s] = x; }

An access *has a slot* if its address is ``scale * number + rest`` (``slot_forms``), where the number comes
from an atomic of a counter (``slot_counters``). ``rest`` and the bytes accessed lie in a window of
``scale * distance`` bytes. Accesses with slots of one counter, scale and window are one *group*.

**Claim.** Two accesses of a group by different threads touch no common byte, or one is ordered after the
other.

*Proof.* If no reset lies between their atomics, the numbers differ by ``distance`` at least, and the windows
are apart. Else the first atomic is ordered before that reset, and this before the second atomic (they race
otherwise, which the run shows). Between an atomic and its access the thread tells nobody anything, and makes
no reset. So what is ordered after the atomic in another thread is so after the access, and the first access
comes before the reset, which comes before the second access.

*Numbers for a warp.* One lane adds the lanes of a ballot for all, hands the number on by ``shfl``, and each
lane adds its rank. Lanes of one ballot have different ranks below its count, so all numbers differ. The
ballot and ``shfl`` are by all lanes, and threads synchronize by barriers of the block or of the warp alone.
Each lane accesses its slot before its next barrier, so before the one that orders the atomic with a reset.

*Rows for a warp.* One lane may take a number for its whole warp, and each lane access the place of its own
number behind it: ``row = atomicAdd(&n, 1); buf[32 * row + lane] = x``. Lanes of one warp are ``by`` bytes
apart, and windows are no longer; the lanes of a warp together have no more room than numbers are apart.

*Numbers for a group.* The mask may also name a group of lanes (``activemask``, ``match.any``, a ballot of
those who go on), the lowest or the highest of which adds. Then rank, count and ``shfl`` are by one mask, and
lanes of a group have one mask. At the ``shfl`` they have passed the same barriers of the block: the rest is
as for a warp. Each lane is of one group at a time: together the groups add as many as lanes come.

*Masks and remainders.* ``buf[s & 63]`` and ``buf[s % 96]`` are ``buf[s]`` where all numbers are small enough,
which is asked. Else two numbers may have one place, and there is no slot.

Where a counter's numbers are known, or the kernel compares them, an access has bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges, Interval
from syncverify.frontends.ptx.analysis.slots.slot_counters import Counter, SlotCounters, releases_nothing
from syncverify.frontends.ptx.analysis.slots.slot_forms import Paths, SlotForms
from syncverify.frontends.ptx.analysis.slots.slot_sums import MOST_NUMBER, Below, Form
from syncverify.frontends.ptx.analysis.warps.lane_ranks import LaneRanks
from syncverify.frontends.ptx.decode.memory import Access, decode_access
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Reg
from syncverify.model.events import Ev

#: Ranks are less.
_LANES = 32
#: The group of stores at ranks (``distinct_places``); those of atomics have lower numbers.
OF_RANKS = 1 << 16
#: The groups of accesses between barriers (``places_between_barriers``) are higher.
OF_SIZES = 1 << 24


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an access at a slot may begin, and its group; ``bounded``: no comparison limits the numbers;
    ``floats``: the slot is a rank among floats of which none is a NaN; ``all_come``: no data decides who
    takes a number, so that one begins at the last place."""

    group: int
    places: Interval
    bounded: bool
    floats: bool = False
    all_come: bool = False

    @property
    def ranked(self) -> bool:
        """Whether it is a rank and not a number that an atomic brings: its bounds hold whatever data is."""
        return OF_RANKS <= self.group


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An access, its address and the counter; ``window``: what the access adds to its number, with its
    bytes."""

    access: Access
    form: Form
    counter: Counter
    places: Interval
    window: tuple[int, int]
    all_come: bool

    @property
    def room(self) -> int:
        """How long windows of one group are together at most: numbers are that far apart, or lanes are."""
        return abs(self.form.by) if self.form.own else abs(self.form.scale) * self.counter.distance

    @property
    def fits(self) -> bool:
        """Whether the window is no longer, and all lanes of a warp have room beside each other."""
        lanes = self.form.rank.numbers if self.form.rank is not None and self.form.own else None
        of_warp = self.room * (lanes.high - lanes.low + 1) if lanes is not None else 0
        distance = abs(self.form.scale) * self.counter.distance
        return self.window[1] - self.window[0] <= self.room and of_warp <= distance

    @property
    def kind(self) -> tuple[int, ...]:
        """What accesses of a group have alike."""
        rank = self.form.rank
        own = (
            (self.form.by, rank.numbers.low, rank.numbers.high) if rank is not None and self.form.own else ()
        )
        return self.counter.place, self.form.scale, *own


class Slots:
    """The accesses of a function with slots, in a block of one shape."""

    def __init__(self, flow: Flow, ranks: LaneRanks, shared: Mapping[str, int]) -> None:
        self.flow, self.ranks = flow, ranks
        self._ranges = AddressRanges(flow, shared, ranks.uniformity.block)

    def of(self, k: int) -> Slot | None:
        """The slot of an access."""
        return self._found.get(k)

    @cached_property
    def _counters(self) -> SlotCounters:
        return SlotCounters(self.flow, self.ranks, self._ranges, self._forms.paths)

    @cached_property
    def _forms(self) -> SlotForms:
        return SlotForms(self.flow, self.ranks, self._ranges, self._atomics)

    @cached_property
    def _atomics(self) -> frozenset[int]:
        return SlotCounters(self.flow, self.ranks, self._ranges, Paths(self.flow)).atomics

    @cached_property
    def _found(self) -> dict[int, Slot]:
        if not self._atomics:
            return {}
        reached = [k for k in range(len(self.flow.body)) if self.flow.block_of[k] in self.flow.reached]
        accesses = {k: a for k in reached if (a := decode_access(self.flow.body[k])) is not None}
        forms = {k: f for k, a in accesses.items() if not a.strong and a.code != Ev.ATOMIC
                 and (f := self._forms.of(k)) is not None}  # fmt: skip
        return _grouped(self._candidates(accesses, forms))

    def _candidates(self, accesses: Mapping[int, Access], forms: Mapping[int, Form]) -> dict[int, _Candidate]:
        """Those with slots, if all the stores among them leave the counters alone: which is shown by their
        bounds, for until the first one that does not all numbers are as computed."""
        apart: dict[int, Interval | None] = dict.fromkeys(forms)
        while True:
            found = {
                k: x for k in apart if (x := self._candidate(k, accesses[k], forms[k], apart)) is not None
            }
            new = {k: x.places for k, x in found.items()}
            if new == apart:
                return found
            apart = {**new}

    def _candidate(self, k: int, access: Access, form: Form,
                   apart: Mapping[int, Interval | None]) -> _Candidate | None:  # fmt: skip
        counters = {self._counters.of(t, apart) for t in form.takes}
        counter = counters.pop() if len(counters) == 1 else None
        form = form if form.shuffle is not None else form.without_lane()
        if counter is None or (form.negative and access.space != "shared"):
            return None
        if not (
            self._by_warps(k, form, counter) if form.shuffle is not None else self._alone(k, form, counter)
        ):
            return None
        places = _places(form, counter)
        if places is None or not all(_holds(need, form, counter) for need in form.needs):
            return None
        first = _first(form)
        window = (form.rest.low + first, form.rest.high + first + access.bytes)
        own = (
            form.shuffle is None and form.takes == counter.atomics and min(form.most) >= counter.numbers.high
        )
        all_come = own and counter.bounded and self._counters.all_come(counter, k)
        found = _Candidate(access, form, counter, places, window, all_come)
        return found if found.fits else None

    def _alone(self, k: int, form: Form, counter: Counter) -> bool:
        """Whether each thread that comes to an access has a number of its own."""
        if form.rank is not None or not all(self._counters.count(t) for t in form.takes):
            return False
        return all(self._quiet(t, k, form.takes, counter) for t in form.takes)

    def _by_warps(self, k: int, form: Form, counter: Counter) -> bool:
        """Whether each lane that comes to an access has a number of its own, by its rank."""
        (take,), shuffle, counters = form.takes, form.shuffle, self._counters
        if shuffle is None or not counters.barriers_only:
            return False
        paths, ends = self._forms.paths, frozenset({take, shuffle})
        if form.own:
            ranked = form.group is None and bool(counters.count(take))
        else:
            between = paths.between(take, shuffle, ends) | paths.between(shuffle, k, frozenset({shuffle}))
            ranked = self._ranked(form, take, shuffle, between)
        return (
            ranked
            and self._quiet(take, shuffle, ends, counter)
            and self._quiet(shuffle, k, frozenset({shuffle}), counter)
            and paths.after(take, counters.barriers).isdisjoint(counter.resets)
        )

    def _ranked(self, form: Form, take: int, shuffle: int, between: set[int]) -> bool:
        """Whether lanes have their ranks in the mask whose lanes were counted, which is not made again."""
        popc, values = self._counters.counted(take), self.ranks.masks.values
        if form.rank is None or form.by != form.scale or popc is None:
            return False
        if not (form.rank.one if form.group is None else form.group == form.rank.made):
            return False
        mask, made = self.flow.body[popc].operands[1], form.rank.made
        counted = values.origin(mask, popc) if isinstance(mask, Reg) else None
        return counted == made and values.before(made, shuffle) and made not in between

    def _quiet(self, one: int, other: int, stops: frozenset[int], counter: Counter) -> bool:
        """Whether a thread tells nobody anything between two instructions, and makes no reset."""
        between = self._forms.paths.between(one, other, stops)
        return between.isdisjoint(counter.resets) and all(
            releases_nothing(self.flow.body[j]) for j in between
        )


def _first(form: Form) -> int:
    """What the least rank in a mask adds."""
    return 0 if form.rank is None or form.own else form.scale * form.rank.first


def _places(form: Form, counter: Counter) -> Interval | None:
    """What a sum may be, by the numbers of its counter; None where a number may be too large."""
    in_mask = form.shuffle is not None and not form.own
    if form.rank is not None and not form.own and form.by != form.scale:
        return None
    numbers, first = counter.units if in_mask else counter.numbers, _first(form)
    most = min(numbers.high, form.most[0] + in_mask * _LANES, form.most[1] - first)
    ends = [form.scale * n for n in (numbers.low, most)]
    lanes = form.ranks if form.own else Interval(0, 0, 0)
    low, high = form.rest.low + first + lanes.low, form.rest.high + first + lanes.high
    if most < numbers.low or max(map(abs, (*ends, low, high))) > MOST_NUMBER:
        return None
    return Interval(min(ends) + low, max(ends) + high, gcd(form.scale, form.rest.step, lanes.step))


def _holds(need: Below, form: Form, counter: Counter) -> bool:
    """Whether a mask, a remainder or a quotient on the way to a sum is what it was taken for."""
    found = _places(need.form, counter) if need.form.takes <= form.takes else None
    return found is not None and 0 <= found.low and found.high < need.limit


def _grouped(found: Mapping[int, _Candidate]) -> dict[int, Slot]:
    """The slots, by groups from 1 on: each window begins at the least that is added in its group."""
    kinds: dict[tuple[int, ...], list[int]] = {}
    for k, x in found.items():
        kinds.setdefault(x.kind, []).append(k)
    slots: dict[int, Slot] = {}
    group = 0
    for members in kinds.values():
        start: int | None = None
        for k in sorted(members, key=lambda k: found[k].window):
            x = found[k]
            low, high = x.window
            if start is None or high - start > x.room:
                group, start = group + 1, low
            slots[k] = Slot(group, x.places, x.counter.bounded, all_come=x.all_come)
    return slots


__all__ = ["OF_RANKS", "OF_SIZES", "Slot", "Slots"]
