"""What lanes of a warp do together (PTX ISA, 9.7.9 shfl; 9.7.13 vote, match, redux, elect, activemask)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.state import Meeting
from syncverify.simulate.ptx.syntax import Instr, Operand, Pair, Sink
from syncverify.simulate.ptx.types import BITS, LANES, Lanes, is_signed, signed, types_of, unsigned

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment, Next, Step

_NUMBERS = np.arange(LANES)


def bits_to_lanes(mask: int) -> Lanes:
    return (mask >> _NUMBERS) & 1 == 1


def lanes_to_bits(lanes: Lanes) -> int:
    return sum(1 << int(i) for i in np.flatnonzero(lanes))


def member_mask(f: Fragment, slot: int, what: str) -> int:
    """The member mask of lanes that name one; lanes that name another part. Each names itself."""
    masks = f.R[slot]
    first = masks[int(np.argmax(f.mask))]
    same = f.mask & (masks == first)
    if not np.array_equal(same, f.mask):
        f.split(f.mask & ~same)
    outside = f.mask & ~bits_to_lanes(int(first))
    if outside.any():
        lane = int(np.argmax(outside))
        m = f.warp.machine
        raise m.undefined(f, f"lane {lane} is not in its own member mask {int(first):#x}", what, lane)
    return int(first)


@dataclass(frozen=True, slots=True)
class Collective:
    """What lanes do together that may stand at several instructions. ``bring``: what each lane gives, from
    its registers; ``combine``: what each gets, from the lanes that came and what they gave; ``give``: writes
    it."""

    bring: Callable[[list[Lanes]], list[Lanes]]
    combine: Callable[[Machine, Lanes, list[Lanes]], list[Lanes]]
    give: Callable[[Fragment, list[Lanes]], None]

    def execute(self, m: Machine, fragments: list[Fragment]) -> None:
        """Executes it for fragments that each wait for it with a collective of their own."""
        mask = np.zeros(LANES, bool)
        brought: list[Lanes] = []
        for f in fragments:
            own = (f.party or self).bring(f.R)
            brought = [np.where(f.mask, a, b) for a, b in zip(own, brought or own, strict=True)]
            mask = mask | f.mask
        result = self.combine(m, mask, brought)
        for f in fragments:
            (f.party or self).give(f, result)


def named_together(f: Fragment, slot: int, what: str) -> int:
    """The member mask of lanes that name one. Undefined if lanes that wait here name them by another one."""
    m, mask = f.warp.machine, member_mask(f, slot, what)
    for x in f.warp.fragments:
        other = x.meets
        if other is not None and other[0] == what and other[1] != mask and x.alike(f):
            if (bits_to_lanes(other[1]) & f.mask).any():
                both = f"{mask:#x} and {other[1]:#x}"
                raise m.undefined(f, f"lanes that name each other give the masks {both}", what)
    return mask


def members(c: Context, i: Instr, operand: Operand, of: Collective) -> Step:
    """Executes a collective once all lanes of the member mask have come to one with the same qualifiers and
    the same mask, at whatever line (PTX ISA, shfl.sync); fragments part by their masks."""
    slot, what = c.source(operand, 32), i.name

    def run(f: Fragment) -> Next:
        m, warp = f.warp.machine, f.warp
        mask = named_together(f, slot, what)
        key = (what, mask)
        needed = bits_to_lanes(mask) & warp.live

        def here() -> list[Fragment]:
            return [x for x in warp.fragments if x is f or x.meets == key]

        def ready() -> bool:
            wanted = needed & warp.live
            for x in here():
                wanted = wanted & ~x.mask
            return not wanted.any()

        def resume() -> Next:
            for x in here():
                if x is not f and x.alike(f):
                    f.absorb(x)
            came = here()
            if (needed & ~_union(came) & warp.passed).any():
                raise m.undefined(f, f"{what}: lanes that it needs go round it", what)
            if (bits_to_lanes(mask) & ~warp.live).any():
                m.warn(f, "the member mask names lanes that have left")
            of.execute(m, came)
            for x in came:
                x.meets = x.party = None
                if x is not f:
                    place = x.pc + 1
                    x.ready, x.resume = (lambda: True), (lambda place=place: place)
            return f.pc + 1

        if ready():
            return resume()
        f.meets, f.party = key, of
        return f.block(ready, resume)

    return run


def _union(fragments: list[Fragment]) -> Lanes:
    mask = np.zeros(LANES, bool)
    for f in fragments:
        mask = mask | f.mask
    return mask


@builder("shfl", together=True)
def _shfl(c: Context, i: Instr) -> Step:
    if "sync" not in i.mods:
        raise c.fail("shfl without .sync")
    mode = next(m for m in i.mods if m in ("up", "down", "bfly", "idx"))
    d, a, b, limit, mask = i.operands
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
    value, by, clamp = c.source(a, 32), c.source(b, 32), c.source(limit, 32)
    write, flag = c.writer(first, 32), c.writer(second, 1)

    def bring(R: list[Lanes]) -> list[Lanes]:
        return [R[value], R[by], R[clamp]]

    def exchange(m: Machine, mask: Lanes, brought: list[Lanes]) -> list[Lanes]:
        held, by, limits = brought
        n = by.astype(np.int64) & 31
        segment = (limits.astype(np.int64) >> 8) & 31
        top = limits.astype(np.int64) & 31
        most = (_NUMBERS & segment) | (top & ~segment & 31)
        least = _NUMBERS & segment
        if mode == "up":
            source = _NUMBERS - n
            valid = source >= most
        elif mode == "down":
            source = _NUMBERS + n
            valid = source <= most
        elif mode == "bfly":
            source = _NUMBERS ^ n
            valid = source <= most
        else:
            source = least | (n & ~segment & 31)
            valid = source <= most
        source = np.where(valid, source, _NUMBERS)
        out = held[source]
        here = mask[source]
        if not here[mask].all():
            # A lane that does not take part gives anything.
            out = np.where(here, out, m.draw.integers(0, 2**32, LANES, np.uint32))
        return [out, valid]

    def give(f: Fragment, results: list[Lanes]) -> None:
        write(f, results[0], f.mask)
        flag(f, results[1], f.mask)

    return members(c, i, mask, Collective(bring, exchange, give))


@builder("vote", together=True)
def _vote(c: Context, i: Instr) -> Step:
    if "sync" not in i.mods:
        raise c.fail("vote without .sync")
    mode = next(m for m in i.mods if m in ("all", "any", "uni", "ballot"))
    p = c.predicate(i.operands[1])
    write = c.writer(i.operands[0], 32 if mode == "ballot" else 1)

    def count(m: Machine, mask: Lanes, brought: list[Lanes]) -> list[Lanes]:
        holds = brought[0][mask]
        if mode == "ballot":
            return [np.full(LANES, lanes_to_bits(brought[0] & mask), np.uint32)]
        answers = {"all": holds.all(), "any": holds.any(), "uni": holds.all() or not holds.any()}
        return [np.full(LANES, bool(answers[mode]))]

    def give(f: Fragment, results: list[Lanes]) -> None:
        write(f, results[0], f.mask)

    return members(c, i, i.operands[2], Collective(lambda R: [p(R)], count, give))


@builder("match", together=True)
def _match(c: Context, i: Instr) -> Step:
    mode = next(m for m in i.mods if m in ("any", "all"))
    bits = BITS[types_of(i.mods)[-1]]
    d = i.operands[0]
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
    a = c.source(i.operands[1], bits)
    write, flag = c.writer(first, 32), c.writer(second, 1)

    def compare(m: Machine, mask: Lanes, brought: list[Lanes]) -> list[Lanes]:
        (values,) = brought
        everyone = lanes_to_bits(mask)
        if mode == "all":
            same = len(np.unique(values[mask])) == 1
            return [np.full(LANES, everyone if same else 0, np.uint32), np.full(LANES, same)]
        out = np.zeros(LANES, np.uint32)
        for lane in np.flatnonzero(mask):
            out[lane] = lanes_to_bits(mask & (values == values[lane]))
        return [out]

    def give(f: Fragment, results: list[Lanes]) -> None:
        write(f, results[0], f.mask)
        if mode == "all":
            flag(f, results[1], f.mask)

    return members(c, i, i.operands[2], Collective(lambda R: [R[a]], compare, give))


@builder("redux", together=True)
def _redux(c: Context, i: Instr) -> Step:
    op = next(m for m in i.mods if m in ("add", "min", "max", "and", "or", "xor"))
    kind = types_of(i.mods)[-1]
    if kind not in ("u32", "s32", "b32"):
        raise c.fail()
    a = c.source(i.operands[1], 32)
    write = c.writer(i.operands[0], 32)
    reduce = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}

    def total(m: Machine, mask: Lanes, brought: list[Lanes]) -> list[Lanes]:
        values = brought[0][mask]
        if op == "add":
            out = np.uint32(int(values.astype(np.uint64).sum()) & 0xFFFFFFFF)
        elif op in ("min", "max"):
            x = signed(values) if is_signed(kind) else values
            out = unsigned(np.array([x.min() if op == "min" else x.max()]))[0]
        else:
            out = reduce[op].reduce(values)
        return [np.full(LANES, out, np.uint32)]

    def give(f: Fragment, results: list[Lanes]) -> None:
        write(f, results[0], f.mask)

    return members(c, i, i.operands[2], Collective(lambda R: [R[a]], total, give))


@builder("elect", together=True)
def _elect(c: Context, i: Instr) -> Step:
    d = i.operands[0]
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
    write, flag = c.writer(first, 32), c.writer(second, 1)
    slot = c.source(i.operands[1], 32)

    def choose(f: Fragment) -> Next:
        m = f.warp.machine
        exists = _NUMBERS < f.warp.count
        if (bits_to_lanes(int(f.R[slot][int(np.argmax(f.mask))])) & exists & ~f.mask).any():
            raise m.undefined(f, "elect.sync names a lane that has exited", "elect.sync")
        lanes = np.flatnonzero(f.mask)
        leader = m.schedule.leader(m, f.warp, int(f.R[slot][int(lanes[0])]), lanes)
        write(f, np.full(LANES, leader, np.uint32), f.mask)
        flag(f, np.equal(_NUMBERS, leader), f.mask)
        return None

    def run(f: Fragment) -> Next:
        mask = named_together(f, slot, "elect.sync")
        needed = bits_to_lanes(mask) & f.warp.live
        return f.warp.machine.gather(f, needed, choose, Meeting("elect.sync", mask))

    return run


@builder("activemask")
def _activemask(c: Context, i: Instr) -> Step:
    write = c.writer(i.operands[0], 32)

    def run(f: Fragment, on: Lanes) -> Next:
        write(f, np.full(LANES, lanes_to_bits(on), np.uint32), on)
        return None

    return c.masked(run)
