"""mbarrier objects (PTX ISA, 9.7.13.15): phases, arrivals, transactions, tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.addressing import (
    Part,
    address,
    note_write,
    owner,
    parts,
    shared_byte,
    space_of,
)
from syncverify.simulate.ptx.clocks import Clock, Slot, merged, too_narrow
from syncverify.simulate.ptx.harm import HarmFound, Kind
from syncverify.simulate.ptx.ordering import SCOPES, Release, fenced, scope_of
from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Instr, Mem, Sink
from syncverify.simulate.ptx.types import LANES, Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Block, Fragment, Next, Step

MOST_COUNT = (1 << 20) - 1
_SECTION = "mbarrier"


@dataclass(eq=False, slots=True)
class MBarrier:
    """A live object. ``pending`` arrivals of the current phase, ``tx`` bytes that are still to come."""

    block: Block
    at: int
    expected: int
    pending: int
    init: int  # the agent that represents its initialization
    tx: int = 0
    phase: int = 0
    number: int = 0
    clock: Clock | None = None  # what the arrivals of this phase know, for waits of scope cluster
    near: Clock | None = None  # the same for waits of scope cta
    complete: Clock | None = None  # of the phase before
    complete_near: Clock | None = None
    used: Lanes = field(default_factory=lambda: np.zeros(0, np.int32))  # by thread: epoch of its last use

    def acquire(self, clock: Clock, near: Clock | None = None) -> None:
        """Something arrives with what it knows; ``near``: what waits of scope cta learn of it, if less."""
        self.clock = merged(self.clock, clock)
        self.near = merged(self.near, clock if near is None else near)


@dataclass(slots=True)
class Users:
    """The lanes of one instruction that name one object."""

    barrier: MBarrier
    lanes: Lanes
    threads: Lanes


def users(m: Machine, f: Fragment, space: str, a: Lanes, on: Lanes) -> list[Users]:
    """The objects that lanes name. A use conflicts with initialization and invalidation only."""
    out = []
    for part in parts(m, f, space, a, on, 8, 8):
        if part.space != "shared":
            raise m.undefined(f, "an mbarrier lies in shared memory", _SECTION)
        first = int(part.at[0])
        each = [first] if (part.at == first).all() else np.unique(part.at).tolist()
        for at in each:
            lanes = part.lanes if len(each) == 1 else part.lanes[part.at == at]
            threads = f.warp.threads[lanes]
            barrier = m.blocks[m.shared.block_of(at)].mbarriers.get(at)
            if barrier is None:
                raise m.undefined(f, "no live mbarrier object lies there", _SECTION, int(lanes[0]))
            bad = m.clocks.know[0, threads, barrier.init] < m.clocks.epoch[barrier.init]
            if np.count_nonzero(bad):
                raise _unordered(m, f, barrier, int(lanes[int(np.argmax(bad))]))
            barrier.used[threads] = m.clocks.epoch[threads]
            out.append(Users(barrier, lanes, threads))
    return out


def _unordered(m: Machine, f: Fragment, barrier: MBarrier, lane: int) -> HarmFound:
    return m.harm(
        Kind.RACE,
        m.here(f, lane),
        "the mbarrier's initialization is in no order with this use",
        "mbarrier.init",
        m.agent_place(barrier.init, m.clocks.slots[barrier.init].line),
    )


def find(m: Machine, f: Fragment, at: int, thread: int, lane: int = -1, uses: bool = True) -> MBarrier:
    """The object at a byte of shared memory, whose initialization the thread has to know of."""
    block = m.blocks[m.shared.block_of(at)]
    barrier = block.mbarriers.get(at)
    if barrier is None:
        raise m.undefined(f, "no live mbarrier object lies there", _SECTION, lane)
    if m.clocks.know[0, thread, barrier.init] < m.clocks.epoch[barrier.init]:
        raise _unordered(m, f, barrier, lane)
    if uses:
        barrier.used[thread] = m.clocks.epoch[thread]
    return barrier


def settle_phase(m: Machine, barrier: MBarrier) -> None:
    """Completes the phase if nothing is pending."""
    if barrier.pending or barrier.tx:
        return
    barrier.complete, barrier.clock = barrier.clock, None
    barrier.complete_near, barrier.near = barrier.near, None
    barrier.phase += 1
    barrier.pending = barrier.expected
    m.version += 1


def expect(m: Machine, f: Fragment, barrier: MBarrier, count: int, lane: int = -1) -> None:
    barrier.tx += count
    if not -MOST_COUNT <= barrier.tx <= MOST_COUNT or count > MOST_COUNT:
        raise m.undefined(f, f"the mbarrier's tx-count leaves its range: {barrier.tx}", _SECTION, lane)


def complete_bytes(m: Machine, f: Fragment, barrier: MBarrier, count: int) -> None:
    """Bytes of an asynchronous operation have come; where phases end early, tx falls below zero."""
    barrier.tx -= count
    if barrier.tx < -MOST_COUNT:
        raise m.undefined(f, f"the mbarrier's tx-count leaves its range: {barrier.tx}", _SECTION)
    m.version += 1
    settle_phase(m, barrier)


def arrive(
    m: Machine,
    f: Fragment,
    barrier: MBarrier,
    count: int,
    clock: Clock | None,
    lane: int = -1,
    drop: bool = False,
    scope: int = SCOPES["cta"],
) -> None:
    """``clock``: what who arrives knows; it comes to threads of other blocks if ``scope`` holds them."""
    if count < 1 or count > barrier.pending:
        raise m.undefined(
            f,
            f"{count} arrivals at an mbarrier whose phase {barrier.phase} waits for {barrier.pending}",
            _SECTION,
            lane,
        )
    if drop:
        barrier.expected -= count
        if barrier.expected < 1:
            raise m.undefined(f, "arrive_drop leaves an mbarrier that expects nobody", _SECTION, lane)
    barrier.pending -= count
    if clock is not None:
        if f.warp.block is barrier.block:
            barrier.acquire(clock)
        else:
            narrow = too_narrow(clock)
            barrier.acquire(clock if scope >= SCOPES["cluster"] else narrow, narrow)
    m.version += 1
    settle_phase(m, barrier)


def token(barrier: MBarrier) -> int:
    """The state as a number: which object, which phase, how many are pending."""
    return (barrier.number << 48) | ((barrier.phase & 0xFFFFFFF) << 20) | barrier.pending


def locate(m: Machine, f: Fragment, space: str, a: Lanes, on: Lanes) -> list[tuple[int, int]]:
    """Lanes and bytes of the objects that they name."""
    out: list[tuple[int, int]] = []
    for part in parts(m, f, space, a, on, 8, 8):
        if part.space != "shared":
            raise m.undefined(f, "an mbarrier lies in shared memory", _SECTION)
        out += zip(part.lanes.tolist(), part.at.tolist(), strict=True)
    return out


_WORDS = frozenset(
    {"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait",
        "try_wait", "parity",
     "pending_count", "noComplete", "release", "acquire", "relaxed", "cta", "cluster",
        "shared", "shared::cta",
     "shared::cluster", "b64", "layout::v0", "phase_type::primary"}
)  # fmt: skip


@builder("mbarrier")
def _mbarrier(c: Context, i: Instr) -> Step:
    for w in i.mods:
        if w not in _WORDS:
            raise c.fail(f"the modifier .{w}")
    words = set(i.mods)
    match i.mods[0]:
        case "init":
            return _init(c, i)
        case "inval":
            return _inval(c, i)
        case "arrive" | "arrive_drop":
            return _arrive(c, i, words)
        case "expect_tx" | "complete_tx":
            return _transactions(c, i, i.mods[0] == "complete_tx")
        case "test_wait" | "try_wait":
            return _wait(c, i, words)
        case "pending_count":
            slot = c.source(i.operands[1], 64)
            return c.pure(i.operands[0], lambda R: (R[slot] & np.uint64(0xFFFFF)).astype(np.uint32), 32)
    raise c.fail()


def _init(c: Context, i: Instr) -> Step:
    where, count = address(c, i.operands[0]), c.source(i.operands[1], 32)
    space = space_of(i.mods)

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        made: dict[int, int] = {}
        for lane, at in locate(m, f, space, where(f.R), on):
            thread = int(f.warp.threads[lane])
            if made.get(at) == int(f.R[count][lane]):
                # Lanes of one instruction that say the same: one of them does it.
                m.warn(f, "several lanes initialize one mbarrier")
                m.clocks.learn(slice(thread, thread + 1), *m.clocks.stamp(m.barrier_at(at).init))
                m.own_inits.setdefault(thread, set()).add(m.barrier_at(at).init)
                continue
            made[at] = int(f.R[count][lane])
            block = m.blocks[m.shared.block_of(at)]
            if block is not f.warp.block:
                raise m.undefined(f, "mbarrier.init of another block's object", "mbarrier.init", lane)
            n = int(f.R[count][lane])
            if not 1 <= n <= MOST_COUNT:
                raise m.undefined(f, f"mbarrier.init with a count of {n}", "mbarrier.init", lane)
            if m.shared.barrier[at >> 3]:
                raise m.undefined(f, "mbarrier.init of a live object", "mbarrier.init", lane)
            agent = m.clocks.slot(
                thread,
                Slot(m.line(f), block.number, f.warp.number, lane, "an mbarrier's initialization", True),
            )
            shadow = m.shared.arena.shadow
            assert shadow is not None
            index = np.array([at]) // shadow.granule + np.arange(8 // shadow.granule)
            mark = np.int64((agent << 32) | int(m.clocks.epoch[agent]))
            conflict = shadow.writes(index, mark, m.line(f), None, m.clocks.know[:, thread])
            if conflict is not None:
                raise m.conflict(f, conflict, "an mbarrier's initialization", "shared")
            m.clocks.learn(slice(thread, thread + 1), *m.clocks.stamp(agent))
            m.own_inits.setdefault(thread, set()).add(agent)
            m.barriers_made += 1
            block.mbarriers[at] = MBarrier(
                block, at, n, n, agent, number=m.barriers_made, used=np.zeros(m.clocks.threads, np.int32)
            )
            m.shared.barrier[at >> 3] = True
            m.version += 1
        return None

    return c.masked(run)


def _inval(c: Context, i: Instr) -> Step:
    where, space = address(c, i.operands[0]), space_of(i.mods)

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        for lane, at in locate(m, f, space, where(f.R), on):
            thread = int(f.warp.threads[lane])
            barrier = find(m, f, at, thread, lane)
            late = m.clocks.know[0, thread, : m.clocks.threads] < barrier.used
            late[thread] = False
            if late.any():
                raise m.harm(
                    Kind.RACE,
                    m.here(f, lane),
                    "the mbarrier is invalidated in no order with a use of it",
                    "mbarrier.inval",
                    m.agent_place(int(np.argmax(late)), 0),
                )
            note_write(m, f, Part("shared", m.shared.arena, np.array([at]), np.array([lane])), 8)
            m.clocks.done[barrier.init] = True
            del barrier.block.mbarriers[at]
            m.shared.barrier[at >> 3] = False
            m.version += 1
            # PTX ISA, mbarrier: the object is opaque, and nothing says what its bytes hold afterwards
            left = np.random.default_rng((m.seed, at, m.version))
            m.shared.arena.bytes[at : at + 8] = left.integers(0, 256, 8, dtype=np.uint8)
        return None

    return c.masked(run)


def _clock_of(m: Machine, thread: int, relaxed: bool, reach: int) -> Clock | None:
    """What an arrival releases; a relaxed one what fences have of at least a scope."""
    if relaxed:
        return fenced(m, thread, reach)
    return m.release(slice(thread, thread + 1))


def _arrive(c: Context, i: Instr, words: set[str]) -> Step:
    operands = list(i.operands)
    first = operands[0]
    write = None
    if not isinstance(first, Mem):
        operands.pop(0)
        write = None if isinstance(first, Sink) else c.writer(first, 64)
    where = address(c, operands[0])
    space = space_of(i.mods)
    number = c.source(operands[1], 32) if len(operands) > 1 else None
    expects, drop = "expect_tx" in words, i.mods[0] == "arrive_drop"
    stays = "noComplete" in words
    relaxed = "relaxed" in words
    scope = scope_of(i.mods) or SCOPES["cta"]

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        tokens = np.zeros(LANES, np.uint64)
        named = users(m, f, space, where(f.R), on)
        for user in named:
            barrier = user.barrier
            if write is not None and barrier.block is not f.warp.block:
                raise m.undefined(
                    f,
                    "mbarrier.arrive at another block's object gives no token",
                    "mbarrier.arrive",
                    int(user.lanes[0]),
                )
            total = len(user.lanes)
            if (
                not expects
                and not relaxed
                and not drop
                and not stays
                and number is None
                and total < barrier.pending
            ):
                # None of them completes the phase: they may as well come at once.
                tokens[user.lanes] = token(barrier) - np.arange(total, dtype=np.uint64)
                arrive(m, f, barrier, total, m.release(user.threads), int(user.lanes[0]), scope=scope)
                continue
            order = user.lanes
            if total > 1 and not m.schedule.in_lane_order:
                order = order[m.draw.permutation(total)]
            for lane in order.tolist():
                n = 1
                if expects:
                    assert number is not None
                    expect(m, f, barrier, int(f.R[number][lane]), lane)
                elif number is not None:
                    n = int(f.R[number][lane])
                tokens[lane] = token(barrier)
                if stays and n >= barrier.pending:
                    raise m.undefined(
                        f, "an arrival with .noComplete completes the phase", "mbarrier.arrive", lane
                    )
                reach = SCOPES["cta" if barrier.block is f.warp.block else "cluster"]
                known = _clock_of(m, int(f.warp.threads[lane]), relaxed, reach)
                arrive(m, f, barrier, n, known, lane, drop, scope)
        if write is not None:
            write(f, tokens, on)
        return None

    return c.masked(run)


def _transactions(c: Context, i: Instr, completes: bool) -> Step:
    where, space = address(c, i.operands[0]), space_of(i.mods)
    number = c.source(i.operands[1], 32)

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        for lane, at in locate(m, f, space, where(f.R), on):
            barrier = find(m, f, at, int(f.warp.threads[lane]), lane)
            count = int(f.R[number][lane])
            if completes:
                complete_bytes(m, f, barrier, count)
            else:
                expect(m, f, barrier, count, lane)
                m.version += 1
        return None

    return c.masked(run)


def _wait(c: Context, i: Instr, words: set[str]) -> Step:
    write = c.writer(i.operands[0], 1)
    where, space = address(c, i.operands[1]), space_of(i.mods)
    parity = "parity" in words
    state = c.source(i.operands[2], 32 if parity else 64)
    relaxed = "relaxed" in words
    suspends = i.mods[0] == "try_wait"
    wide = scope_of(i.mods) >= SCOPES["cluster"]

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        named = users(m, f, space, where(f.R), on)
        done = np.zeros(LANES, bool)
        values = f.R[state]
        for user in named:
            barrier = user.barrier
            if barrier.block is not f.warp.block:
                raise m.undefined(
                    f, "a wait on another block's mbarrier", "mbarrier.test_wait", int(user.lanes[0])
                )
            if parity:
                done[user.lanes] = (values[user.lanes] & 1) != (barrier.phase & 1)
            else:
                for lane in user.lanes.tolist():
                    done[lane] = _is_over(m, f, barrier, int(values[lane]), lane)
        if suspends and not done.any() and not m.giving_up and not m.schedule.answers_early(m):
            phases = [(u.barrier, u.barrier.phase) for u in named]
            return f.block(lambda: any(b.phase != p for b, p in phases), lambda: again(f), polls=True)
        for user in named:
            near, far = user.barrier.complete_near, user.barrier.complete if wide else None
            threads = user.threads[done[user.lanes]]
            clock = far if wide else near
            if relaxed:
                _seen(m, threads, near, far)
            elif clock is not None and len(threads):
                m.acquire(threads, clock)
        write(f, done, on)
        return None

    masked = c.masked(run)

    def again(f: Fragment) -> Next:
        after = masked(f)
        return f.pc + 1 if after is None else after

    return masked


def _seen(m: Machine, threads: Lanes, near: Clock | None, far: Clock | None) -> None:
    """What relaxed waits leave to a fence: of other blocks' arrivals only to one of the cluster's scope."""
    for t in threads.tolist():
        home = m.blocks[t // m.launch.threads]
        peer = next((b for b in m.blocks if b.cluster is home.cluster and b is not home), home)
        for clock, by in ((near, t), (far, peer.first_thread)):
            if clock is not None:
                m.fence_acquire.setdefault(t, []).append(Release(clock, by, SCOPES["sys"]))


def _is_over(m: Machine, f: Fragment, barrier: MBarrier, value: int, lane: int) -> bool:
    """Whether the phase of a token is over."""
    if value >> 48 != barrier.number & 0xFFFF:
        raise m.undefined(f, "the token is of another mbarrier", "mbarrier.test_wait", lane)
    phase = (value >> 20) & 0xFFFFFFF
    if phase not in (barrier.phase & 0xFFFFFFF, (barrier.phase - 1) & 0xFFFFFFF):
        raise m.undefined(f, "the token is of an older phase than the one before", "mbarrier.test_wait", lane)
    return phase != barrier.phase & 0xFFFFFFF


def of_operand(
    m: Machine, f: Fragment, address_: int, thread: int, lane: int, home: Block | None = None
) -> MBarrier:
    """The object that a copy names; ``home``: the block that it has to lie in.

    The thread that issues the copy does not use the object by this: the copy does when it completes.
    """
    if address_ & 7:
        raise m.undefined(f, "the mbarrier's address is no multiple of 8", _SECTION, lane)
    at = shared_byte(m, f, address_, 8, lane)
    if home is not None and owner(m, f, address_, lane) is not home:
        raise m.undefined(f, "the mbarrier lies in another block than the destination", "cp.async.bulk", lane)
    return find(m, f, at, thread, lane, uses=False)
