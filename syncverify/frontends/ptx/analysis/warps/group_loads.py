"""Loads by a group of lanes of what one of them holds in shared memory, as a load by that lane and a shuffle.

A group is the lanes of a mask that all come to an instruction with that mask. Between two of its barriers it
may read what stands at the place of its lowest lane, or its highest:

    bar.warp.sync %m;
    brev.b32 %b, %m;  clz.b32 %l, %b;  shl.b32 %o, %l, 3;  add.u32 %a, %o, %base;
    ld.shared.u32 %v, [%a];
    bar.warp.sync %m;

becomes a load by each lane at ``8 * %laneid + %base``, and ``shfl.sync.idx.b32 %v, ..., %l, 31, %m``. The
place may also be made of a value that a ``shfl`` takes from the lane; each lane then takes its own.

**Why that changes nothing.** The lane ``%l`` is of the group, and loads what all of it load. Between the two
barriers no lane of the group stores or synchronizes. So what an access by any thread is ordered with, through
either barrier, it is ordered with whichever lane of the group loads; and what the lane ``%l`` does itself
before or after comes before or after all of these loads. The loads by the other lanes are more accesses than
there were, which may only add a race. Registers of the address, but for ``%l``, hold one value in the warp.

What is gained: each lane then accesses its own place, whichever lanes make up the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from syncverify.frontends.ptx.analysis.registers.uniformity import LANES, MOST_BLOCKS, Uniformity
from syncverify.frontends.ptx.analysis.warps.collectives import Collectives
from syncverify.frontends.ptx.analysis.warps.mask_values import ChosenLane
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.flow.forward_stores import orders_nothing
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Operand, Reg, Special, Vector
from syncverify.frontends.ptx.syntax.operands import sources
from syncverify.frontends.ptx.syntax.pure_operations import PURE

_WORDS = frozenset({"u32", "s32", "b32", "f32"})
_PLAIN = frozenset({"shared", "shared::cta", "weak", "v2", "v4"})
#: Instructions between a lane's number and an address.
_DEEPEST = 8


def with_loads_of_lanes(function: Function, block: Sequence[int]) -> Function:
    """The function with such loads as loads by each lane; itself where there are none. ``block``: its
    shape."""
    if not any(map(_is_barrier, function.body)):
        return function
    groups = _Groups(function, block)
    by: dict[int, list[Instr]] = {}
    types: dict[str, str] = {}
    for load, barrier in groups.bracketed():
        own = _OwnLoad(groups, load, barrier)
        if own.made():
            by[load] = own.body
            types |= own.types
    return expanded(function, by, types) if by else function


def _is_barrier(i: Instr) -> bool:
    """Whether lanes of a mask in a register meet and order their memory."""
    return i.op == "bar" and i.mods == ("warp", "sync") and i.guard is None and isinstance(i.operands[0], Reg)


class _Groups:
    def __init__(self, function: Function, block: Sequence[int]) -> None:
        self.body = function.body
        self.flow = Flow(function)
        self.masks = Collectives(self.flow, (), ()).masks
        self.values = self.masks.values
        self.uniformity = Uniformity(self.flow, block, MOST_BLOCKS)

    def bracketed(self) -> Iterator[tuple[int, int]]:
        """Loads of words between two barriers of one group, with the first of these; nothing is stored or
        ordered between."""
        for n in sorted(self.flow.reached):
            b = self.flow.blocks[n]
            first, loads = -1, list[int]()
            for k in range(b.lo, b.hi):
                i = self.body[k]
                if _is_barrier(i):
                    if first >= 0 and self._same_group(first, k):
                        yield from ((load, first) for load in loads)
                    first, loads = k, []
                elif not orders_nothing(i):
                    first = -1
                elif first >= 0 and _loads_words(i):
                    loads.append(k)

    def _same_group(self, first: int, second: int) -> bool:
        one, other = (self.body[k].operands[0] for k in (first, second))
        return self.values.alike(one, other, first, second) and self._all_come(first)

    def _all_come(self, k: int) -> bool:
        """Whether all lanes of its mask, and no others, come to a barrier."""
        mask = self.body[k].operands[0]
        deciding: Iterable[str] | None = self.masks.made_of_those_that_come(k, mask)
        if self.values.all_lanes(mask):
            deciding = self._deciding(self.masks.above(self.flow.block_of[k]))
        since = self.masks.met(k, mask)
        return deciding is not None and not self.uniformity.since(since, deciding) & LANES

    def _deciding(self, blocks: Iterable[int]) -> set[str]:
        return {name for b in blocks for name in sources(self.body[self.flow.blocks[b].hi - 1])}

    def alike(self, name: str, at: int) -> bool:
        """Whether a register holds one value in a warp where an instruction reads it."""
        return not self.uniformity.read_at(at, [name]) & LANES


@dataclass
class _OwnLoad:
    """A load by each lane, and the shuffle of what one of them loads.

    ``barrier``: the one before it, of the group. ``lane``: the register with the number of the lane that the
    group reads from; ``from_last``: by how much that is less than 31. ``body``: what comes in the place of
    the load; ``types``: of its new registers.
    """

    groups: _Groups
    load: int
    barrier: int
    lane: Reg | None = None
    from_last: bool = False
    body: list[Instr] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)

    def made(self) -> bool:
        """Makes it; False where the load's place is not that of a lane of the group."""
        load = self.groups.body[self.load]
        into, place = load.operands
        assert isinstance(place, Mem)
        base = self._of_own_lane(place.base, self.load, _DEEPEST)
        if base is None or self.lane is None:
            return False
        mask, lane = self.groups.body[self.barrier].operands[0], self._counted(load, self.lane)
        items = into.items if isinstance(into, Vector) else (into,)
        loaded: tuple[Operand, ...] = tuple(self._fresh("b32") for _ in items)
        taken = [self._fresh("b32") for _ in items]
        self._add(load, load.op, load.mods, Vector(loaded) if isinstance(into, Vector) else loaded[0],
                  replace(place, base=base))  # fmt: skip
        for x, y in zip(loaded, taken, strict=True):
            self._add(load, "shfl", ("sync", "idx", "b32"), y, x, lane, Imm(31), mask)
        for to, y in zip(items, taken, strict=True):
            self._add(load, "mov", ("b32",), to, y)
        return True

    def _add(self, like: Instr, op: str, mods: tuple[str, ...], *operands: Operand) -> None:
        self.body.append(replace(like, op=op, mods=mods, operands=operands))

    def _fresh(self, type_: str) -> Reg:
        new = Reg(f"%@group{self.load}.{len(self.types)}")
        self.types[new.name] = type_
        return new

    def _of_own_lane(self, op: Operand, at: int, depth: int) -> Operand | None:
        """What an operand of an instruction is, with the own lane for the one that the group reads from; None
        where that is not known."""
        if not isinstance(op, Reg):
            return None if isinstance(op, Special) else op
        lane = self._lane(op, at)
        if lane is not None:
            new, load = self._fresh("b32"), self.groups.body[self.load]
            self._add(load, "mov", ("u32",), new, Special("%laneid"))
            self.lane, self.from_last = op, lane.from_last
            return self._counted(load, new)
        names_it = self._is_made_of_the_lane(op, at, depth)
        if not names_it and self._kept(op.name, at) and self.groups.alike(op.name, at):
            return op
        k = self._writer(op, at)
        if k < 0 or not depth:
            return None
        shuffled = self._shuffled(k)
        if shuffled is None:
            return self._again(k, depth)
        self.lane, value = shuffled  # the own lane hands itself its own value
        return value if not isinstance(value, Reg) or self._kept(value.name, k) else None

    def _shuffled(self, k: int) -> tuple[Reg, Operand] | None:
        """The lane of the group that a ``shfl`` takes from, and what it takes."""
        i, values, mask = self.groups.body[k], self.groups.values, self.groups.body[self.barrier].operands[0]
        if i.op != "shfl" or i.mods != ("sync", "idx", "b32") or i.guard is not None:
            return None
        value, source, clamp, named = i.operands[1:]
        whole = values.constant(clamp) == 31 and values.alike(named, mask, k, self.barrier)
        lane = self._lane(source, k)
        fits = whole and lane is not None and not lane.from_last
        return (source, value) if fits and isinstance(source, Reg) else None

    def _writer(self, op: Reg, at: int) -> int:
        """The instruction that makes what another one reads of a register; -1: there is not one alone."""
        versions = self.groups.flow.versions
        return versions.writer[versions.read(op.name, at)]

    def _is_made_of_the_lane(self, op: Operand, at: int, depth: int) -> bool:
        """Whether the number of the lane that the group reads from goes into an operand."""
        if not isinstance(op, Reg):
            return False
        if self._lane(op, at) is not None:
            return True
        k = self._writer(op, at)
        if k < 0 or not depth:
            return False
        i = self.groups.body[k]
        computes = i.op in PURE and any(self._is_made_of_the_lane(x, k, depth - 1) for x in i.operands[1:])
        return computes or self._shuffled(k) is not None

    def _counted(self, like: Instr, lane: Reg) -> Reg:
        """The number of a lane as the address counts it: from the first or from the last one."""
        if not self.from_last:
            return lane
        new = self._fresh("b32")
        self._add(like, "sub", ("u32",), new, Imm(31), lane)
        return new

    def _lane(self, op: Operand, at: int) -> ChosenLane | None:
        """The lane of the group whose number an operand is."""
        values, mask = self.groups.values, self.groups.body[self.barrier].operands[0]
        found = values.chosen_lane(op, at)
        if found is None or not values.alike(found.mask, mask, found.at, self.barrier):
            return None
        named = isinstance(op, Reg) and self.lane in (None, op) and self._kept(op.name, at)
        return found if named else None

    def _kept(self, name: str, at: int) -> bool:
        """Whether the load would read of a register what an instruction before it reads."""
        versions = self.groups.flow.versions
        return versions.read(name, at) == versions.read(name, self.load)

    def _again(self, k: int, depth: int) -> Reg | None:
        """The result of an instruction that only computes, made again for the own lane."""
        i = self.groups.body[k]
        into = i.operands[0]
        if i.op not in PURE or i.guard is not None or "cc" in i.mods or not isinstance(into, Reg):
            return None
        made = [self._of_own_lane(x, k, depth - 1) for x in i.operands[1:]]
        new = self._fresh(self.groups.flow.function.registers[into.name])
        self._add(i, i.op, i.mods, new, *(x for x in made if x is not None))
        return new if None not in made else None


def _loads_words(i: Instr) -> bool:
    """Whether an instruction is a plain load of words of 32 bits from shared memory."""
    plain = i.op == "ld" and i.guard is None and i.mods[-1] in _WORDS and _PLAIN.issuperset(i.mods[:-1])
    return plain and bool({"shared", "shared::cta"} & set(i.mods)) and isinstance(i.operands[1], Mem)


__all__ = ["with_loads_of_lanes"]
