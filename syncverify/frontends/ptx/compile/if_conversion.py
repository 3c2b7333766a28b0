"""Branches whose sides only write registers: lanes that part there meet again as one class.

Both sides are run, one after the other, each for the lanes that take it, and every lane keeps what its side
wrote. Nobody else sees the difference: there are no events between the branch and the join.

A side that accesses shared memory, and does no more, may be decided by what has no number: data, or a size
that is open. The accesses of both sides are then taken as made (a proof holds for those that are). Of a loop
that ends by such a decision each block is run for any turn: of every register that the loop writes only the
low bits are known, if its steps leave them (``values.residues``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.analysis.arrays.known_addresses import KnownAddress
from syncverify.frontends.ptx.compile.plan import Plan
from syncverify.frontends.ptx.compile.runtime import overwritten
from syncverify.frontends.ptx.compile.state import (
    CLASS,
    CONTEXT,
    ENDED,
    LEAVE,
    MASK,
    PARTED,
    PC,
    QUEUE,
    QUEUED,
    SHARED,
    START,
    Disagreement,
    Registers,
)
from syncverify.frontends.ptx.decode.effects import Opaque
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.progress import can_end
from syncverify.frontends.ptx.syntax.operands import results
from syncverify.frontends.ptx.values.register_values import (
    DECIDING,
    INTS,
    PerLane,
    Unknown,
    lanes_of,
    per_lane,
)
from syncverify.frontends.ptx.values.residues import joined
from syncverify.model.events import Ev, Event

#: Instructions that do more than write registers, or look at other lanes.
_LOUD = frozenset(
    "st atom red call shfl vote redux match elect activemask exit ret trap brx brkpt bar barrier".split()
)
#: Accesses to shared memory; and those at an address of the text, whose event says that it is wrong.
_ACCESSES = (Access, KnownAddress)
#: Blocks that one side may run, and branches that may lie inside each other, turns of loops included.
MOST_BLOCKS, MOST_NESTED = 20_000, 48
#: Passes through a loop's blocks until what registers hold in any turn is found.
MOST_PASSES = 20


@dataclass(frozen=True, slots=True)
class Region:
    """What lies between a branch and its join: where control goes on, the slots written, the joins inside.
    ``sites``: of such accesses; with any, the region is not quiet, but no more happens there.
    ``join``: a label, or None where both sides come to the end of the kernel."""

    join: int | None
    slots: tuple[int, ...]
    blocks: frozenset[int]
    sites: frozenset[int]


class _Turns:
    """What slots hold in any turn of a loop. ``held``: by block, where control comes to it; ``behind``: where
    it has left the loop; ``grown``: these have become more."""

    def __init__(self, flow: Flow, region: Region, v: Unknown, block: int, first: list[Any]) -> None:
        self.flow, self.region, self.otherwise = flow, region, v
        self.held: dict[int, list[Any]] = {}
        self.behind: list[Any] = []
        self.leave(block, first)

    def leave(self, block: int, values: list[Any]) -> None:
        """Control leaves a block, to any of those that follow it."""
        for s in self.flow.blocks[block].succ:
            if s in self.region.blocks:
                self.held[s] = self._joined(self.held.get(s, []), values)
            else:
                self.behind = self._joined(self.behind, values)

    def _joined(self, old: list[Any], values: list[Any]) -> list[Any]:
        pairs = zip(old, values, strict=True) if old else ()
        new = [joined(a, b, self.otherwise) for a, b in pairs] if old else values
        self.grown = not old or not all(map(_same, old, new)) or self.grown
        return new

    grown = False

    def forget(self) -> None:
        """Nothing is known of the slots in any block."""
        nothing = [self.otherwise.derived() for _ in self.region.slots]
        self.held, self.behind = dict.fromkeys(self.region.blocks, nothing), nothing


def _same(a: Any, b: Any) -> bool:
    return a is b or bool(a.__class__ in INTS and b.__class__ in INTS and a == b)


class IfConversion:
    """The quiet branches of a program; ``run``: one of its blocks, by label."""

    def __init__(self, plan: Plan, run: Callable[[int, Registers], Any], target: Callable[[int], int],
                 marked: Callable[[int], bool]) -> None:  # fmt: skip
        self.plan = plan
        self.flow: Flow = plan.flow
        self.run = run
        self.target = target
        self.marked = marked  # blocks that do something when they are come to
        self.regions: dict[int, Region | None] = {}
        self.depth = 0
        #: what decides the branches around, of those whose accesses are taken as made
        self.around: list[Unknown] = []
        #: sites of accesses that were made on sides of branches
        self.inside: set[int] = set()
        #: blocks of loops that are run with unknown registers
        self.havocked: frozenset[int] = frozenset()

    def region(self, k: int) -> Region | None:
        """What the branch at the end of a block leads through, if that is quiet."""
        if k not in self.regions:
            self.regions[k] = self._region(self.flow.block_of[k])
        return self.regions[k]

    def _region(self, block: int) -> Region | None:
        join = self.flow.join(block)
        ends = join >= self.flow.end
        blocks = self.flow.between(block)
        names = set[str]()
        sites: set[int] = set()
        for b in blocks:
            if self.marked(b):
                return None
            for j in range(self.flow.blocks[b].lo, self.flow.blocks[b].hi):
                i = self.plan.body[j]
                if type(self.plan.decoded.get(j)) in _ACCESSES and j not in self.plan.touches:
                    sites.add(self.plan.site(j))
                elif j in self.plan.decoded or j in self.plan.touches or j in self.plan.takes:
                    return None
                elif i.op in _LOUD and not (self._unseen(j) or (ends and i.op == "ret" and i.guard is None)):
                    return None
                names.update(results(i))
        loops = block in blocks
        if (ends and not sites) or (loops and not self._can_end(block, blocks)):
            return None
        slots = sorted(self.plan.slots[x] for x in names if x in self.plan.slots)
        at = None if ends else self.target(join)
        if at is not None and sites and not loops and _is_end(at):
            at = None
        return Region(at, tuple(slots), frozenset(blocks), frozenset(sites))

    def _unseen(self, k: int) -> bool:
        """Whether an instruction without an effect writes global memory alone, which no agent keeps; or lanes
        execute it together, whichever come, and what it brings is not known; or it is left out."""
        i = self.plan.body[k]
        if i.op == "activemask" or k in self.plan.behind_data or self.plan.leaves_out(k):
            return True
        return i.op in ("st", "red", "atom") and "global" in i.mods

    def _can_end(self, block: int, blocks: Collection[int]) -> bool:
        """Whether the loops that a branch is part of can come to an end; what follows them does not count."""
        around = [x for x in self.flow.loops if block in x and x.issubset(blocks)]
        return can_end(self.flow, blocks) and bool(around) and all(can_end(self.flow, x) for x in around)

    def merged(self, r: Registers, v: Any, k: int, sides: tuple[int, int]) -> bool:
        """Goes on at the join of a branch on ``v`` with what each lane's side writes, if that can be told."""
        region = self.region(k)
        if region is None:
            return False
        self.plan.merged |= region.blocks
        if self.flow.block_of[k] in self.havocked:
            r[PC] = ENDED if region.join is None else region.join  # its sides are run one by one
            return True
        if any(join in region.blocks for join, _ in r[PARTED]):
            return False
        if region.sites or region.join is None:
            return self._perhaps(r, v, k, region, sides)
        if isinstance(v, Unknown):
            for s in region.slots:
                r[s] = v.derived()
            r[PC] = region.join
            return True
        if v.__class__ is not PerLane or self.depth >= MOST_NESTED:
            return False
        before = r[:]
        self.depth += 1
        try:
            return self._both(r, v, region, region.join, sides)
        except (Disagreement, Opaque):
            r[:] = before
            return False
        except BaseException:
            r[:] = before
            raise
        finally:
            self.depth -= 1

    def _perhaps(self, r: Registers, v: Any, k: int, region: Region, sides: tuple[int, int]) -> bool:
        """Data or an open size decides whether accesses to shared memory are made: as if all of both sides
        were. Inside of such sides lanes may part by numbers; then each side's are made by its lanes."""
        tables = r[CONTEXT].tables
        lanes = None
        if v.__class__ is PerLane:
            known = all(v.lanes[i].__class__ in INTS for i in r[CONTEXT].lanes)
            lanes = v if known and self.around else None
            v = v.unknown(r[MASK]) if lanes is None else self.around[-1]
        if not isinstance(v, Unknown) or v.source not in DECIDING or tables.certain:
            return False
        if self.depth >= MOST_NESTED:
            return False
        before = r[:]
        if not self.depth:
            self.inside.clear()
        self.depth += 1
        self.around.append(v)
        try:
            if self.flow.block_of[k] in region.blocks:
                after = _end_of_loop(sides) if region.join is None else region.join
                events, left = self._of_a_loop(r, v, region, self.flow.block_of[k])
            else:
                events, left = self._of_sides(r, v, region, _halves(r, lanes, sides))
                after = r[PC] if region.join is None else region.join
        except (Disagreement, Opaque) as caught:
            if isinstance(caught, Opaque) and caught.unwritten:
                # whichever lane makes it: nothing is gained by asking each of them
                why = Reason(caught.reason, Cause.UNWRITTEN, parts=(caught.reason,))
                raise Opaque(why, caught.unwritten) from None
            r[:] = before
            return False
        except BaseException:
            r[:] = before
            raise
        finally:
            self.depth -= 1
            self.around.pop()
        why = Reason(f"whether the access is made depends on {v.why}", parts=(v.why,))
        for e in events:
            tables.doubt(e[1], why)
        events = [e for e in events if not tables.sure or e[1] in tables.granted]
        self._forget(r, events)
        for s, value in zip(region.slots, left, strict=True):
            r[s] = value
        r[PC], r[QUEUE] = (QUEUED, (after, *events)) if events else (after, ())
        return True

    @staticmethod
    def _forget(r: Registers, events: list[Event]) -> None:
        """Nobody knows whether the accesses are made: what they write holds something."""
        if r[SHARED] is not None:
            for e in events:
                overwritten(r, e)

    def _events(self, r: Registers, side: int, join: int | None) -> list[Event]:
        """The events of one side, up to its join or the kernel's end."""
        found: list[Event] = []
        r[PC] = side
        for _ in range(MOST_BLOCKS):
            if r[PC] == join or (join is None and _is_end(r[PC])):
                return found
            event = self.run(r[PC], r)
            if event is None:
                continue
            if event[0] not in (Ev.READ, Ev.WRITE, Ev.ATOMIC):
                break
            self.inside.add(event[1])
            found.append(event)
        raise Opaque("a side of a branch on data does not come to its end")

    def _of_sides(
        self, r: Registers, v: Unknown, region: Region, sides: Sequence[tuple[int, Any]]
    ) -> tuple[list[Event], list[Any]]:
        """The events of both sides, each by the lanes that it is given with, and what the slots hold after
        either."""
        whole = r[CLASS], r[CONTEXT], r[MASK]
        before, contents = [r[s] for s in region.slots], r[SHARED]
        events: list[Event] = []
        ends: list[list[Any]] = []
        for side, context in sides:
            if context is not whole[1]:
                r[CLASS], r[CONTEXT], r[MASK] = (whole[0], context.mask), context, context.mask
            for s, value in zip(region.slots, before, strict=True):
                r[s] = value  # neither side sees what the other has written
            r[SHARED] = contents and contents.copy()
            events += self._events(r, side, region.join)
            ends.append([r[s] for s in region.slots])
            r[CLASS], r[CONTEXT], r[MASK] = whole
        r[SHARED] = contents
        left = ends[0]
        for end in ends[1:]:
            left = [joined(a, b, v) for a, b in zip(left, end, strict=True)]
        return events, left

    def _of_a_loop(
        self, r: Registers, v: Unknown, region: Region, block: int
    ) -> tuple[list[Event], list[Any]]:
        """The events of the blocks of a loop, each run once for any turn, from the end of one of them; and
        what the slots hold behind the loop.

        That is a fixed point: what they hold where control comes to a block, by their low bits. Contents of
        shared memory are put aside: other turns may have written them.
        """
        outer, contents, outside = self.havocked, r[SHARED], dict[int, Event]()
        r[SHARED] = None
        self.havocked = outer | region.blocks
        r[CONTEXT].tables.any_iteration.update(region.sites)
        turns = _Turns(self.flow, region, v, block, [r[s] for s in region.slots])
        try:
            for _ in range(MOST_PASSES):
                found = self._pass(r, region, turns)
                if not turns.grown:
                    return self._inside_memory(found, outside), turns.behind
                outside |= {e[1]: e for e in found if e[0] == Ev.FAULT}
            turns.forget()
            return self._inside_memory(self._pass(r, region, turns), outside), turns.behind
        finally:
            self.havocked, r[SHARED] = outer, contents

    def _inside_memory(self, events: list[Event], outside: dict[int, Event]) -> list[Event]:
        """The events of any turn. ``outside``: accesses outside their memory in turns of which registers hold
        numbers; whether these come is for data to say, if the same access is inside in an earlier turn."""
        wrong = [e for e in (*events, *outside.values()) if e[0] == Ev.FAULT]
        for e in wrong:
            if e in events or e[1] not in self.inside:
                raise Opaque(f"a loop on data: {e[3]}")
        return events

    def _pass(self, r: Registers, region: Region, turns: _Turns) -> list[Event]:
        """The events of a loop's blocks, each run with what the slots hold where control comes to it."""
        found: list[Event] = []
        turns.grown = False
        for b in sorted(region.blocks & turns.held.keys()):
            for s, value in zip(region.slots, turns.held[b], strict=True):
                r[s] = value
            r[PC] = first = self.target(b)
            for _ in range(MOST_BLOCKS):
                if r[PC] != QUEUED and not self._inside(r[PC], b, first):
                    break
                first = -1
                event = self.run(r[PC], r)
                if event is not None:
                    if event[0] not in (Ev.READ, Ev.WRITE, Ev.ATOMIC, Ev.FAULT):
                        raise Opaque("a loop on data does more than access shared memory")
                    found.append(event)
            turns.leave(b, [r[s] for s in region.slots])
        return found

    def _inside(self, label: int, block: int, first: int) -> bool:
        """Whether control is in a block, and not at its start again; ``first``: the label of its start."""
        if label < START:
            return False
        own = self.flow.block_of[(label >> 3) - 1] == block
        return own and (label == first or label & 7 != START & 7)

    def _both(self, r: Registers, v: PerLane, region: Region, join: int, sides: tuple[int, int]) -> bool:
        taken = sum(1 << i for i, x in enumerate(v.lanes) if x.__class__ in INTS and x)
        other = sum(1 << i for i, x in enumerate(v.lanes) if x.__class__ in INTS and not x)
        missing = r[MASK] & ~(taken | other)
        if missing and any(not isinstance(v.lanes[i], Unknown) for i in range(32) if missing >> i & 1):
            return False
        mask, first = r[MASK], [r[s] for s in region.slots]
        found: list[list[Any]] = []
        for side, lanes in zip(sides, (taken, other), strict=True):
            for s, old in zip(region.slots, first, strict=True):
                r[s] = old
            r[PC], r[MASK] = side, lanes
            if lanes:
                self._through(r, join)
            found.append([r[s] for s in region.slots])
        r[PC], r[MASK] = join, mask
        for s, a, b in zip(region.slots, *found, strict=True):
            if a is b and not missing:
                continue
            one, two = lanes_of(a), lanes_of(b)
            r[s] = per_lane([one[i] if taken >> i & 1 else two[i] if other >> i & 1 else _nobody(v.lanes[i])
                        for i in range(32)])  # fmt: skip
        return True

    def _through(self, r: Registers, join: int) -> None:
        for _ in range(MOST_BLOCKS):
            if r[PC] == join:
                return
            if self.run(r[PC], r) is not None:
                break
        raise Opaque("a loop of lanes that parted does not end")


def _halves(r: Registers, lanes: PerLane | None, sides: tuple[int, int]) -> list[tuple[int, Any]]:
    """The sides of a branch, each with those who take it: the whole class where no lane is known to part."""
    if lanes is None:
        return [(side, r[CONTEXT]) for side in sides]
    taken = [int(x.__class__ in INTS and bool(x)) for x in lanes.lanes]
    masks = PerLane(tuple(taken)), PerLane(tuple(1 - x for x in taken))
    found = [(side, r[CONTEXT].part(mask)) for side, mask in zip(sides, masks, strict=True)]
    return [(side, context) for side, context in found if context is not None]


def _end_of_loop(sides: tuple[int, int]) -> int:
    """The kernel's end, to which one side of a branch in a loop leads at once; Opaque if neither does."""
    found = [x for x in sides if _is_end(x)]
    if len(found) != 1:
        raise Opaque("a loop of a branch on data is followed by more, up to the kernel's end")
    return found[0]


def _is_end(label: int) -> bool:
    """Whether the kernel ends at a label: nothing follows but the exit."""
    return label == ENDED or (label >= START and label & 7 == LEAVE & 7)


def _nobody(value: Any) -> Unknown:
    return value.derived() if isinstance(value, Unknown) else Unknown("data of some lanes")
