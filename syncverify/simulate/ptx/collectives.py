"""What lanes of a warp do together (PTX ISA, 9.7.9 shfl; 9.7.13 vote, match, redux, elect, activemask)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.state import Meeting
from syncverify.simulate.ptx.syntax import Instr, Operand, Pair, Sink
from syncverify.simulate.ptx.types import BITS, LANES, Lanes, is_signed, signed, types_of, unsigned

if TYPE_CHECKING:
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


def members(c: Context, operand: Operand, what: str, then: Callable[[Fragment], Next]) -> Step:
    """Executes ``then`` once all lanes of the member mask are here; fragments part by their masks."""
    slot = c.source(operand, 32)

    def run(f: Fragment) -> Next:
        m = f.warp.machine
        mask = member_mask(f, slot, what)
        for x in f.warp.fragments:
            other = x.meets
            if other is not None and other[0] == what and other[1] != mask and x.alike(f):
                if (bits_to_lanes(other[1]) & f.mask).any():
                    both = f"{mask:#x} and {other[1]:#x}"
                    raise m.undefined(f, f"lanes that name each other give the masks {both}", what)
        return m.gather(f, bits_to_lanes(mask) & f.warp.live, meet, Meeting(what, mask))

    def meet(f: Fragment) -> Next:
        gone = ~f.warp.live
        if gone.any() and (bits_to_lanes(int(f.R[slot][int(np.argmax(f.mask))])) & gone).any():
            f.warp.machine.warn(f, "the member mask names lanes that have left")
        return then(f)

    return run


@builder("shfl", together=True)
def _shfl(c: Context, i: Instr) -> Step:
    if "sync" not in i.mods:
        raise c.fail("shfl without .sync")
    mode = next(m for m in i.mods if m in ("up", "down", "bfly", "idx"))
    d, a, b, limit, mask = i.operands
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
    value, by, clamp = c.source(a, 32), c.source(b, 32), c.source(limit, 32)
    write, flag = c.writer(first, 32), c.writer(second, 1)

    def exchange(f: Fragment) -> Next:
        R = f.R
        n = R[by].astype(np.int64) & 31
        segment = (R[clamp].astype(np.int64) >> 8) & 31
        top = R[clamp].astype(np.int64) & 31
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
        out = R[value][source]
        here = f.mask[source]
        if not here[f.mask].all():
            # A lane that does not take part gives anything.
            out = np.where(here, out, f.warp.machine.draw.integers(0, 2**32, LANES, np.uint32))
        write(f, out, f.mask)
        flag(f, valid, f.mask)
        return None

    return members(c, mask, "shfl.sync", exchange)


@builder("vote", together=True)
def _vote(c: Context, i: Instr) -> Step:
    if "sync" not in i.mods:
        raise c.fail("vote without .sync")
    mode = next(m for m in i.mods if m in ("all", "any", "uni", "ballot"))
    p = c.predicate(i.operands[1])
    write = c.writer(i.operands[0], 32 if mode == "ballot" else 1)

    def count(f: Fragment) -> Next:
        holds = p(f.R)[f.mask]
        if mode == "ballot":
            out = np.full(LANES, lanes_to_bits(p(f.R) & f.mask), np.uint32)
        else:
            answer = (
                holds.all()
                if mode == "all"
                else holds.any()
                if mode == "any"
                else holds.all() or not holds.any()
            )
            out = np.full(LANES, bool(answer))
        write(f, out, f.mask)
        return None

    return members(c, i.operands[2], "vote.sync", count)


@builder("match", together=True)
def _match(c: Context, i: Instr) -> Step:
    mode = next(m for m in i.mods if m in ("any", "all"))
    bits = BITS[types_of(i.mods)[-1]]
    d = i.operands[0]
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
    a = c.source(i.operands[1], bits)
    write, flag = c.writer(first, 32), c.writer(second, 1)

    def compare(f: Fragment) -> Next:
        values = f.R[a]
        out = np.zeros(LANES, np.uint32)
        everyone = lanes_to_bits(f.mask)
        if mode == "all":
            same = len(np.unique(values[f.mask])) == 1
            write(f, np.full(LANES, everyone if same else 0, np.uint32), f.mask)
            flag(f, np.full(LANES, same), f.mask)
            return None
        for lane in np.flatnonzero(f.mask):
            out[lane] = lanes_to_bits(f.mask & (values == values[lane]))
        write(f, out, f.mask)
        return None

    return members(c, i.operands[2], "match.sync", compare)


@builder("redux", together=True)
def _redux(c: Context, i: Instr) -> Step:
    op = next(m for m in i.mods if m in ("add", "min", "max", "and", "or", "xor"))
    kind = types_of(i.mods)[-1]
    if kind not in ("u32", "s32", "b32"):
        raise c.fail()
    a = c.source(i.operands[1], 32)
    write = c.writer(i.operands[0], 32)
    reduce = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}

    def run(f: Fragment) -> Next:
        values = f.R[a][f.mask]
        if op == "add":
            out = np.uint32(int(values.astype(np.uint64).sum()) & 0xFFFFFFFF)
        elif op in ("min", "max"):
            x = signed(values) if is_signed(kind) else values
            out = unsigned(np.array([x.min() if op == "min" else x.max()]))[0]
        else:
            out = reduce[op].reduce(values)
        write(f, np.full(LANES, out, np.uint32), f.mask)
        return None

    return members(c, i.operands[2], "redux.sync", run)


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

    return members(c, i.operands[1], "elect.sync", choose)


@builder("activemask")
def _activemask(c: Context, i: Instr) -> Step:
    write = c.writer(i.operands[0], 32)

    def run(f: Fragment, on: Lanes) -> Next:
        write(f, np.full(LANES, lanes_to_bits(on), np.uint32), on)
        return None

    return c.masked(run)
