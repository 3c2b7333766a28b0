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

*Numbers for a group.* The mask may also name a group of lanes (``activemask``, ``match.any``, a ballot of
those who go on), the lowest or the highest of which adds. Then rank, count and ``shfl`` are by one mask, and
lanes of a group have one mask. At the ``shfl`` they have passed the same barriers of the block: the rest is
as for a warp. Each lane is of one group at a time: together the groups add as many as lanes come.

Where a counter's numbers are known, or the kernel compares them, an access has bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from syncverify.frontends.ptx.analysis.address_ranges import AddressRanges, Interval
from syncverify.frontends.ptx.analysis.lane_ranks import LaneRanks
from syncverify.frontends.ptx.analysis.slot_counters import Counter, SlotCounters, releases_nothing
from syncverify.frontends.ptx.analysis.slot_forms import MOST_NUMBER, Form, Paths, SlotForms
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
        if counter is None or (form.negative and access.space != "shared"):
            return None
        if not (
            self._by_warps(k, form, counter) if form.shuffle is not None else self._alone(k, form, counter)
        ):
            return None
        first = form.scale * form.rank.first if form.rank is not None else 0
        low, high = form.rest.low + first, form.rest.high + first + access.bytes
        if high - low > abs(form.scale) * counter.distance:
            return None
        numbers = counter.numbers if form.shuffle is None else counter.units
        most = min(numbers.high, form.most[0] + (form.shuffle is not None) * _LANES, form.most[1] - first)
        ends = [form.scale * n for n in (numbers.low, most)]
        places = Interval(min(ends) + low, max(ends) + high - access.bytes, abs(form.scale))
        step = form.rest.step
        if most < numbers.low or max(map(abs, (*ends, low, high))) > MOST_NUMBER:
            return None
        own = form.shuffle is None and form.takes == counter.atomics
        all_come = own and counter.bounded and most == numbers.high and self._counters.all_come(counter, k)
        return _Candidate(access, form, counter, _stepped(places, step), (low, high), all_come)

    def _alone(self, k: int, form: Form, counter: Counter) -> bool:
        """Whether each thread that comes to an access has a number of its own."""
        if form.rank is not None or not all(self._counters.count(t) for t in form.takes):
            return False
        return all(self._quiet(t, k, form.takes, counter) for t in form.takes)

    def _by_warps(self, k: int, form: Form, counter: Counter) -> bool:
        """Whether each lane that comes to an access has a number of its own, by its rank."""
        (take,), shuffle, counters = form.takes, form.shuffle, self._counters
        popc = counters.counted(take)
        if form.rank is None or form.by != form.scale or popc is None or shuffle is None:
            return False
        mask, values = self.flow.body[popc].operands[1], self.ranks.masks.values
        made = values.origin(mask, popc) if isinstance(mask, Reg) else None
        if not (form.rank.one if form.group is None else form.group == form.rank.made):
            return False
        if made != form.rank.made or not counters.barriers_only or not values.before(made, shuffle):
            return False
        paths, ends = self._forms.paths, frozenset({take, shuffle})
        between = paths.between(take, shuffle, ends) | paths.between(shuffle, k, frozenset({shuffle}))
        return (
            made not in between
            and self._quiet(take, shuffle, ends, counter)
            and self._quiet(shuffle, k, frozenset({shuffle}), counter)
            and paths.after(take, counters.barriers).isdisjoint(counter.resets)
        )

    def _quiet(self, one: int, other: int, stops: frozenset[int], counter: Counter) -> bool:
        """Whether a thread tells nobody anything between two instructions, and makes no reset."""
        between = self._forms.paths.between(one, other, stops)
        return between.isdisjoint(counter.resets) and all(
            releases_nothing(self.flow.body[j]) for j in between
        )


def _stepped(places: Interval, step: int) -> Interval:
    """Places by the steps of both numbers and what is added."""
    return Interval(places.low, places.high, gcd(places.step, step))


def _grouped(found: Mapping[int, _Candidate]) -> dict[int, Slot]:
    """The slots, by groups from 1 on: each window begins at the least that is added in its group."""
    kinds: dict[tuple[int, int], list[int]] = {}
    for k, x in found.items():
        kinds.setdefault((x.counter.place, x.form.scale), []).append(k)
    slots: dict[int, Slot] = {}
    group = 0
    for (_, scale), members in kinds.items():
        start: int | None = None
        for k in sorted(members, key=lambda k: found[k].window):
            x = found[k]
            low, high = x.window
            if start is None or high - start > abs(scale) * x.counter.distance:
                group, start = group + 1, low
            slots[k] = Slot(group, x.places, x.counter.bounded, all_come=x.all_come)
    return slots


__all__ = ["OF_RANKS", "OF_SIZES", "Slot", "Slots"]
