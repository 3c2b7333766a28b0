"""Asynchronous copies (PTX ISA, 9.7.9.25): cp.async, bulk and tensor copies, st.async and red.async.

A copy is checked when it is issued: its accesses are marked with a component of their own, which becomes
known where completion is observed. Its data moves later, in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx.addressing import (
    SPACES,
    Part,
    address,
    barrier_free,
    granules,
    grid_before,
    note_read,
    owner,
    parts,
    shared_byte,
    space_of,
    without_memory,
)
from syncverify.simulate.ptx.atomic_operations import combine
from syncverify.simulate.ptx.clocks import Slot, Stamp, merged
from syncverify.simulate.ptx.engines import Operation, chunks, nothing, only
from syncverify.simulate.ptx.harm import CannotExecute, Kind
from syncverify.simulate.ptx.mbarriers import (
    MBarrier,
    arrive,
    complete_bytes,
    find,
    locate,
    of_operand,
)
from syncverify.simulate.ptx.memory import GLOBAL_WINDOW, SHARED_WINDOW, Arena
from syncverify.simulate.ptx.program import Context, builder, vector_items
from syncverify.simulate.ptx.shadow import REDUCTION
from syncverify.simulate.ptx.syntax import Imm, Instr, Mem, Operand, Reg, Vector
from syncverify.simulate.ptx.tensormaps import SIZE, Fields, box_bytes, box_of, decode, swizzled, wrong
from syncverify.simulate.ptx.types import BITS, UNSIGNED, Lanes, type_of

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Block, Fragment, Next, Step, Warp

_SECTION = "cp.async.bulk"
#: Granules of an asynchronous access that count as a step of the execution.
PER_STEP = 32
_HINTS = frozenset({"L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"})


@builder("cp")
def _cp(c: Context, i: Instr) -> Step:
    words = set(i.mods)
    if "reduce" not in words and i.mods[0] != "async":
        raise c.fail()
    if "bulk" not in words:
        if "commit_group" in words:
            return _commit(c)
        if "wait_group" in words or "wait_all" in words:
            return _wait(c, i, 0 if "wait_all" in words else _number(c, i.operands[0]))
        if "mbarrier" in words:
            return _copy_arrive(c, i)
        return _copy(c, i)
    if "commit_group" in words:
        return _bulk_commit(c)
    if "wait_group" in words:
        return _bulk_wait(c, _number(c, i.operands[0]), "read" in words)
    if "prefetch" in words:
        return lambda f: None
    if "tensor" in words:
        return _tensor(c, i)
    return _bulk(c, i)


def _number(c: Context, operand: Operand) -> int:
    if not isinstance(operand, Imm):
        raise c.fail("the number of groups is no constant")
    return operand.value


# -- cp.async ---------------------------------------------------------------------------------------------


def _copy(c: Context, i: Instr) -> Step:
    for w in i.mods:
        if w not in ("async", "ca", "cg") and w not in _HINTS and w not in SPACES:
            raise c.fail(f"the modifier .{w}")
    to, source = address(c, i.operands[0]), address(c, i.operands[1])
    size = _number(c, i.operands[2])
    if size not in (4, 8, 16) or ("cg" in i.mods and size != 16):
        raise c.fail(f"cp.async of {size} bytes")
    rest = list(i.operands[3:])
    if "L2::cache_hint" in i.mods:
        rest.pop()
    length = ignore = None
    if rest:
        if isinstance(rest[0], Reg) and c.bits_of(rest[0]) == 1:
            ignore = c.predicate(rest[0])
        else:
            length = c.source(rest[0], 32)
    return c.masked(_CpAsync(size, to, source, length, ignore).run)


@dataclass(frozen=True, slots=True)
class _Reads:
    """What the lanes of a cp.async read: the bytes, their place, and whether that is in no buffer."""

    amount: Lanes
    where: Lanes
    lost: Lanes


@dataclass(frozen=True, slots=True)
class _CpAsync:
    """``cp.async``: each lane copies some bytes, of which it may read fewer; zeros fill the rest."""

    size: int
    to: Callable[..., Any]
    source: Callable[..., Any]
    length: Any  # the bytes that are read, if the instruction says so
    ignore: Callable[..., Any] | None  # the lanes that read nothing

    def run(self, f: Fragment, on: Lanes) -> Next:
        """Checks the accesses, and starts the copies of the lanes."""
        m = f.warp.machine
        size = self.size
        lanes = np.flatnonzero(on)
        ignored = None if self.ignore is None else self.ignore(f.R)
        amount = self._amount(m, f, on, ignored)
        (target,) = parts(m, f, "shared::cta", self.to(f.R), on, size, size)
        barrier_free(m, f, target, size)
        given = on if ignored is None else on & ~ignored
        reads = self._read(m, f, on, given, amount)
        self._mark_writes(m, f, lanes, target)
        self._differ(m, f, target, reads)
        self._start(m, f, lanes, target, reads)
        return None

    def _amount(self, m: Machine, f: Fragment, on: Lanes, ignored: Lanes | None) -> Lanes:
        """How many bytes each lane reads."""
        size, length = self.size, self.length
        amount = np.full(32, size, np.int64) if length is None else f.R[length].astype(np.int64)
        if ignored is not None:
            amount = np.where(ignored, 0, amount)
        if (amount[on] > size).any():
            raise m.undefined(f, f"cp.async of {size} bytes reads more than these", "cp.async")
        return amount

    def _read(self, m: Machine, f: Fragment, on: Lanes, given: Lanes, amount: Lanes) -> _Reads:
        """Marks the bytes that are read."""
        size = self.size
        lanes = np.flatnonzero(on)
        found = _Reads(amount[lanes], np.full(len(lanes), -1, np.int64), np.zeros(len(lanes), bool))
        a = self.source(f.R)
        if not given.any():
            return found
        if (a[given] & np.uint64(size - 1)).any():  # also where no byte is read
            raise m.undefined(f, f"the source of cp.async is not aligned to {size} bytes", "cp.async")
        reads = on & (amount > 0)
        for n in np.unique(amount[reads]):
            some = reads & (amount == n)
            for part in parts(m, f, "global", a, some, int(n), 1):
                whole = part.arena.shadow
                if whole is not None and n >= whole.granule and n % whole.granule == 0:
                    note_read(m, f, part, int(n))
                own = np.searchsorted(lanes, part.lanes)
                found.where[own] = part.at
                if part.arena is m.nowhere:
                    found.lost[own] = True
        return found

    def _mark_writes(self, m: Machine, f: Fragment, lanes: Lanes, target: Part) -> None:
        """Marks the bytes that are written with the components of the lanes' open groups."""
        shadow = m.shared.arena.shadow
        assert shadow is not None
        agents = _open(m, f, lanes) + lanes
        packed = (agents << 32) | m.clocks.epoch[agents]
        threads = f.warp.threads[lanes]
        index = granules(target.at, self.size, shadow.granule)
        found = shadow.writes(index, packed[:, None], m.line(f), threads[:, None])
        if found is not None:
            raise m.conflict(f, found, "a copy by cp.async", "shared")

    def _differ(self, m: Machine, f: Fragment, target: Part, reads: _Reads) -> None:
        """Lanes of one copy that bring different bytes to one place: a race."""
        order = np.argsort(target.at, kind="stable")
        for n in np.flatnonzero(np.diff(target.at[order]) == 0):  # all are multiples of their size
            one, other = int(order[n]), int(order[n + 1])
            if self._brought(m, reads, one) != self._brought(m, reads, other):
                detail = "lanes of one cp.async bring different bytes to one place in shared memory"
                where = m.here(f, int(target.lanes[other]))
                raise m.harm(Kind.RACE, where, detail, "memory consistency model: data races", space="shared")

    def _brought(self, m: Machine, reads: _Reads, k: int) -> bytes:
        """What a lane copies, as memory is now."""
        n, at = int(reads.amount[k]), int(reads.where[k])
        arena = m.nowhere if reads.lost[k] and m.nowhere is not None else m.memory
        return bytes(arena.bytes[at : at + n] if n else ()) + bytes(self.size - n)

    def _start(self, m: Machine, f: Fragment, lanes: Lanes, target: Part, reads: _Reads) -> None:
        """Begins the copies, which move their bytes later and in pieces."""
        size = self.size
        data = np.zeros((len(lanes), size), np.uint8)

        def move(k: int) -> None:
            n = int(reads.amount[k])
            if n:
                arena = m.nowhere if reads.lost[k] and m.nowhere is not None else m.memory
                data[k, :n] = arena.bytes[reads.where[k] : reads.where[k] + n]
            at = int(target.at[k])
            m.shared.arena.bytes[at : at + size] = data[k]

        def piece(which: slice) -> Callable[[], None]:
            def run_piece() -> None:
                for k in range(which.start, which.stop):
                    move(k)

            return run_piece

        op = Operation(
            m,
            f"cp.async line {m.line(f)}",
            m.here(f),
            [[piece(x) for x in chunks(len(lanes), m)]],
            [nothing],
        )
        for lane in lanes:
            f.warp.copies.setdefault(int(lane), []).append(op)
        op.start()


def _open(m: Machine, f: Fragment, lanes: Lanes) -> Lanes:
    """The components of the lanes' open groups, new ones where there are none."""
    known = f.warp.open_groups
    fresh = [int(x) for x in lanes if int(x) not in known]
    if fresh:
        rows = f.warp.threads
        fence = m.loaded.copies_need_fence
        info = Slot(m.line(f), f.warp.block.number, f.warp.number, -1, "a cp.async's", fence)
        first = m.clocks.block(f.warp.block.number * 64 + f.warp.number, rows, info)
        for lane in fresh:
            known[lane] = first
    return np.array([known[int(x)] for x in lanes], np.int64)


def _commit(c: Context) -> Step:
    def run(f: Fragment, on: Lanes) -> Next:
        warp = f.warp
        for lane in np.flatnonzero(on):
            _close_group(warp, int(lane))
        return None

    return c.masked(run)


def _close_group(warp: Warp, lane: int) -> None:
    stamps = warp.closed.pop(lane, [])
    if lane in warp.open_groups:
        stamps.append(warp.machine.clocks.stamp(warp.open_groups.pop(lane) + lane))
    warp.lane_groups.setdefault(lane, []).append((stamps, warp.copies.pop(lane, [])))


def _wait(c: Context, i: Instr, left: int) -> Step:
    commits = "wait_all" in i.mods

    def run(f: Fragment, on: Lanes) -> Next:
        m, warp = f.warp.machine, f.warp
        for lane in np.flatnonzero(on):
            key = int(lane)
            groups = warp.lane_groups.setdefault(key, [])
            if commits and key in warp.copies:
                _close_group(warp, key)
            done = groups[: len(groups) - left] if left else groups[:]
            del groups[: len(done)]
            for stamps, ops in done:
                for op in ops:
                    op.run_all()
                for stamp in stamps:
                    _known(m, int(warp.threads[key]), stamp)
        m.version += 1
        return None

    return c.masked(run)


def _known(m: Machine, thread: int, stamp: Stamp) -> None:
    m.clocks.learn(slice(thread, thread + 1), *stamp)
    _over(m, stamp)


def _over(m: Machine, stamp: Stamp) -> None:
    """The operation is complete: its component may be used again, if it was not already."""
    agent, epoch = stamp
    if m.clocks.epoch[agent] == epoch:
        m.clocks.done[agent] = True


def _copy_arrive(c: Context, i: Instr) -> Step:
    where, space = address(c, i.operands[0]), space_of(i.mods)
    budgeted = "noinc" in i.mods

    def run(f: Fragment, on: Lanes) -> Next:
        m, warp = f.warp.machine, f.warp
        for lane, at in locate(m, f, space, where(f.R), on):
            thread = int(warp.threads[lane])
            barrier = find(m, f, at, thread, lane)
            if not budgeted:
                barrier.pending += 1
            ops = list(warp.copies.get(lane, []))
            if lane in warp.open_groups:
                stamp = m.clocks.stamp(warp.open_groups.pop(lane) + lane)
                warp.closed.setdefault(lane, []).append(stamp)
            stamps = list(warp.closed.get(lane, []))
            for more, older in warp.lane_groups.get(lane, []):
                ops += older
                stamps += more
            clock = m.release(slice(thread, thread + 1))
            for stamp in stamps:
                clock = merged(clock, only(stamp))
            place = m.here(f, lane)

            def land(
                ops: list[Operation] = ops, barrier: MBarrier = barrier, clock: Any = clock, lane: int = lane,
                stamps: list[Stamp] = stamps,
            ) -> None:  # fmt: skip
                for op in ops:
                    op.run_all()
                for stamp in stamps:
                    _over(m, stamp)
                arrive(m, f, barrier, 1, clock, lane)

            Operation(m, f"cp.async.mbarrier.arrive line {place.line}", place, [[land]], [nothing]).start()
        return None

    return c.masked(run)


# -- bulk copies ------------------------------------------------------------------------------------------

#: Copies to the blocks of a mask of 16 bits, by either spelling.
_MULTICASTS = frozenset({"multicast::cluster", "multicast::cluster::16b"})
_BULK = frozenset(
    {"reduce", "async", "bulk", "mbarrier::complete_tx::bytes", "bulk_group", *_MULTICASTS,
        "noftz", "add",
     "min", "max", "inc", "dec", "and", "or", "xor", "tensor", "1d", "2d", "3d", "4d",
        "5d", "tile", "weak", "im2col", "im2col_no_offs"}
)  # fmt: skip
#: Copies by maps of im2col mode. Which elements these name is left out: the bytes of a box have to be given.
_IM2COL = frozenset({"im2col", "im2col_no_offs"})


def _check_words(c: Context, i: Instr) -> None:
    for w in i.mods:
        if w not in _BULK and w not in _HINTS and w not in SPACES and w not in BITS:
            raise c.fail(f"the modifier .{w}")


def _sides(c: Context, i: Instr) -> tuple[str, str]:
    spaces = [{"shared": "shared::cta"}.get(w, w) for w in i.mods if w in SPACES]
    if len(spaces) != 2:
        raise c.fail("expected two state spaces")
    return spaces[0], spaces[1]


def _reduction(c: Context, i: Instr) -> tuple[Callable[[Lanes, Lanes], Lanes] | None, int]:
    """The operation of cp.reduce and the bits of its elements."""
    if i.mods[0] != "reduce":
        return None, 8
    op = next((w for w in i.mods if w in ("add", "min", "max", "inc", "dec", "and", "or", "xor")), "")
    kind = type_of(i.mods)
    of = combine(op, kind) if kind else None
    if of is None:
        raise c.fail()
    return of, BITS[kind]


def _bulk(c: Context, i: Instr) -> Step:
    _check_words(c, i)
    to, source = _sides(c, i)
    of, element = _reduction(c, i)
    counted = "mbarrier::complete_tx::bytes" in i.mods
    if counted == ("bulk_group" in i.mods):
        raise c.fail("expected one way of completion")
    d, s = address(c, i.operands[0]), address(c, i.operands[1])
    size = c.source(i.operands[2], 32)
    barrier, mask = _completion(c, i, i.operands[3:], counted=counted)

    def run(f: Fragment, on: Lanes) -> Next:
        m, R = f.warp.machine, f.R
        for lane in np.flatnonzero(on):
            n = int(R[size][lane])
            a, b = int(d(R)[lane]), int(s(R)[lane])
            if a % 16 or b % 16 or n % 16:
                raise m.undefined(
                    f,
                    f"a bulk copy of {n} bytes from {b:#x} to {a:#x}: not multiples of 16",
                    _SECTION,
                    int(lane),
                )
            if n == 0:
                continue
            name = int(barrier(R)[lane]) if barrier is not None else None
            many = int(mask(R)[lane]) if mask is not None else None
            _issue(m, f, int(lane), to, source, a, b, n, name, many, of, element)
        return None

    return c.masked(run)


def _global(m: Machine, f: Fragment, a: int, n: int, lane: int, writes: bool = False) -> tuple[Arena, int]:
    """The bytes of a copy in global memory: the arena, and where they begin in it."""
    if m.launch.dependent == "all" or (writes and m.launch.dependent):
        grid_before(m, f, np.array([a], np.uint64), np.array([lane]))
    at = a - GLOBAL_WINDOW
    assert m.memory.valid is not None
    if a >> 40 == SHARED_WINDOW >> 40:
        raise m.undefined(f, f"{n} bytes at {a:#x}: an address of shared memory, as global", _SECTION, lane)
    if at < 0 or at + n > m.memory.size or not m.memory.valid[at : at + n].all():
        if m.nowhere is not None and n <= m.nowhere.size // 2:
            return m.nowhere, a % (m.nowhere.size // 32 * 16)
        raise m.undefined(f, f"{n} bytes at {a:#x}: no global memory lies there", _SECTION, lane, "global")
    return m.memory, at


def _shared(m: Machine, f: Fragment, a: int, n: int, lane: int) -> int:
    at = shared_byte(m, f, a, n, lane)
    if m.shared.barrier[at >> 3 : (at + n + 7) >> 3].any():
        raise m.undefined(f, "a copy touches the bytes of a live mbarrier object", "mbarrier", lane)
    return at


def _slice(at: int, n: int, arena: Arena) -> slice:
    g = arena.shadow.granule if arena.shadow is not None else 1
    return slice(at // g, -(-(at + n) // g))


def new_agent(m: Machine, f: Fragment, lane: int, what: str, generic: bool = False) -> int:
    info = Slot(m.line(f), f.warp.block.number, f.warp.number, lane, what, generic)
    return m.clocks.slot(int(f.warp.threads[lane]), info)


def mark(
    m: Machine, f: Fragment, arena: Arena, index: Any, agent: int, writes: bool, space: str,
        know: Any, strong: int = 0,
    asynchronous: bool = True,
) -> None:  # fmt: skip
    """Notes an access of an asynchronous operation; a race is harm."""
    shadow = arena.shadow
    if shadow is None:
        return
    packed = np.int64((agent << 32) | int(m.clocks.epoch[agent]))
    m.steps += (index.stop - index.start if isinstance(index, slice) else len(index)) // PER_STEP
    access = shadow.writes if writes else shadow.reads
    found = access(index, packed, m.line(f), None, know, asynchronous, strong)
    if found is not None and m.judges(space, m.line(f), found.line):
        what = "an asynchronous write" if writes else "an asynchronous read"
        raise m.conflict(f, found, what, space)


def _issue(
    m: Machine, f: Fragment, lane: int, to: str, source: str, a: int, b: int, n: int, barrier: int | None,
    many: int | None, of: Callable[[Lanes, Lanes], Lanes] | None, element: int,
) -> None:  # fmt: skip
    """One bulk copy of one lane."""
    from_shared = source.startswith("shared")
    origin, start = (m.shared.arena, _shared(m, f, b, n, lane)) if from_shared else _global(m, f, b, n, lane)
    own = f.warp.block
    if from_shared and m.blocks[m.shared.block_of(start)] is not own:
        raise m.undefined(f, "the source of a bulk copy lies in another block", _SECTION, lane)
    thread = int(f.warp.threads[lane])
    reader = new_agent(m, f, lane, "a bulk copy's")
    mark(
        m,
        f,
        origin,
        _slice(start, n, origin),
        reader,
        False,
        source.partition("::")[0],
        m.clocks.know[:, thread],
    )
    if to == "global":
        target_ = _global(m, f, a, n, lane, True)
        _store(m, f, lane, reader, start, target_, n, of, element, m.clocks.know[:, thread])
        return
    if to == "shared::cluster" and from_shared and owner(m, f, a & 0xFFFFFFFF, lane) is own:
        raise m.undefined(
            f, "a bulk copy to shared::cluster names its own block as destination", _SECTION, lane
        )
    assert barrier is not None
    if to == "shared::cta" and not from_shared and owner(m, f, a & 0xFFFFFFFF, lane) is not own:
        raise m.undefined(f, "the form shared::cta names another block's memory", _SECTION, lane)
    if from_shared:
        own.pushes.append((m.clocks.stamp(reader), m.line(f)))
    held = np.zeros(n, np.uint8)
    ends = destinations(m, f, lane, a, n, barrier, many)
    reads = [len(ends)]
    for target, object_ in ends:
        writer = new_agent(m, f, lane, "a bulk copy's")
        mark(
            m, f, m.shared.arena, _slice(target, n, m.shared.arena), writer, True, "shared",
        m.clocks.know[:, thread],
            REDUCTION if of is not None else 0,
        )  # fmt: skip

        def piece(part: slice, target: int = target, object_: MBarrier = object_) -> Callable[[], None]:
            def move() -> None:
                held[part] = origin.bytes[start + part.start : start + part.stop]
                place = slice(target + part.start, target + part.stop)
                if of is None:
                    m.shared.arena.bytes[place] = held[part]
                else:
                    kind = UNSIGNED[element]
                    old = m.shared.arena.bytes[place].view(kind)
                    m.shared.arena.bytes[place] = of(old, held[part].view(kind)).view(np.uint8)

            return move

        pieces = [(piece(x), x.stop - x.start) for x in _aligned_chunks(n, m)]
        _land(m, f, object_, writer, reader, pieces, reads)


def _aligned_chunks(n: int, m: Machine) -> list[slice]:
    return [slice(x.start * 16, x.stop * 16) for x in chunks(n // 16, m)]


def destinations(
    m: Machine, f: Fragment, lane: int, a: int, n: int, barrier: int, many: int | None
) -> list[tuple[int, MBarrier]]:
    """Where a copy to shared memory goes, and which object counts its bytes: one for each block."""
    thread = int(f.warp.threads[lane])
    if many is None:
        at = _shared(m, f, a, n, lane)
        home = m.blocks[m.shared.block_of(at)]
        object_ = of_operand(m, f, barrier, thread, lane, home)
        return [(at, object_)]
    blocks = f.warp.block.cluster.blocks
    if many >> len(blocks) or not many:
        raise m.undefined(f, f"a multicast to {many:#x} in a cluster of {len(blocks)}", _SECTION, lane)
    out = []
    low_a, low_b = a & 0xFFFFFF, barrier & 0xFFFFFF
    for block in blocks:
        if many >> block.rank & 1:
            base = block.rank << 24
            at = _shared(m, f, base | low_a, n, lane)
            out.append((at, of_operand(m, f, base | low_b, thread, lane, block)))
    return out


def _land(
    m: Machine,
    f: Fragment,
    object_: MBarrier,
    writer: int,
    reader: int,
    pieces: list[tuple[Callable[[], None], int]],
    reads: list[int],
) -> None:
    """A copy whose pieces count their bytes at an mbarrier; the last one makes it known there.

    ``reads``: how many destinations the source is still to be read for.
    """
    place = m.here(f)
    wrote, read = m.clocks.stamp(writer), m.clocks.stamp(reader)
    left = [len(pieces)]
    shown = f"copy line {place.line}"

    def with_bytes(move: Callable[[], None], count: int) -> Callable[[], None]:
        def run() -> None:
            move()
            left[0] -= 1
            if object_.block.gone or object_.block.mbarriers.get(object_.at) is not object_:
                raise m.harm(
                    Kind.UNDEFINED,
                    place,
                    "bytes of a copy come to an mbarrier or a block that is gone",
                    _SECTION,
                )
            if not left[0]:
                object_.acquire(only(wrote))
                object_.acquire(only(read))
                _over(m, wrote)
                reads[0] -= 1
                if not reads[0]:
                    _over(m, read)
            complete_bytes(m, f, object_, count)

        return run

    op = Operation(m, shown, place, [[with_bytes(move, count) for move, count in pieces]], [nothing])
    op.home = object_.block
    op.start()


def _store(
    m: Machine, f: Fragment, lane: int, reader: int, start: int, target: tuple[Arena, int], n: int,
    of: Callable[[Lanes, Lanes], Lanes] | None, element: int, know: Any,
) -> None:  # fmt: skip
    """A copy from shared to global memory, of the issuing thread's bulk group: reads, then writes."""
    writer = new_agent(m, f, lane, "a bulk copy's")
    strong = REDUCTION if of is not None else 0
    memory, to = target
    mark(m, f, memory, _slice(to, n, memory), writer, True, "global", know, strong)
    data = np.zeros(n, np.uint8)
    place = m.here(f, lane)

    def take(part: slice) -> Callable[[], None]:
        def move() -> None:
            data[part] = m.shared.arena.bytes[start + part.start : start + part.stop]

        return move

    def give() -> None:
        place = memory.bytes[to : to + n]
        if of is None:
            place[:] = data
        else:
            kind = UNSIGNED[element]
            place[:] = of(place.view(kind), data.view(kind)).view(np.uint8)

    stamps = [m.clocks.stamp(reader), m.clocks.stamp(writer)]
    op = Operation(
        m,
        f"bulk store line {place.line}",
        place,
        [[take(x) for x in _aligned_chunks(n, m)], [give]],
        [lambda: _over(m, stamps[0]), lambda: _over(m, stamps[1])],
    )
    op.stamps = stamps
    op.start()
    f.warp.bulk.setdefault(lane, []).append(op)


def _bulk_commit(c: Context) -> Step:
    def run(f: Fragment, on: Lanes) -> Next:
        for lane in np.flatnonzero(on):
            ops = f.warp.bulk.pop(int(lane), [])
            f.warp.bulk_groups.setdefault(int(lane), []).append(ops)
        return None

    return c.masked(run)


def _bulk_wait(c: Context, left: int, reads: bool) -> Step:
    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        for lane in np.flatnonzero(on):
            groups = f.warp.bulk_groups.get(int(lane), [])
            done = groups[: max(len(groups) - left, 0)]
            thread = int(f.warp.threads[lane])
            for ops in done:
                for op in ops:
                    op.run_stage(0 if reads else 1)
                    for stamp in op.stamps[: 1 if reads else 2]:
                        m.clocks.learn(slice(thread, thread + 1), *stamp)
            if not reads:
                del groups[: len(done)]
        m.version += 1
        return None

    return c.masked(run)


# -- tensor copies ----------------------------------------------------------------------------------------


def read_map(m: Machine, f: Fragment, a: int, lane: int) -> tuple[Fields, tuple[str, int]]:
    """The map at an address; a stale one is harm."""
    on = np.zeros(32, bool)
    on[lane] = True
    (part,) = parts(m, f, "generic", np.full(32, a, np.uint64), on, SIZE, 64)
    at = int(part.at[0])
    if part.space not in ("global", "param", "const"):
        raise m.undefined(f, f"a tensor map lies in the {part.space} space", "cp.async.bulk.tensor", lane)
    shadow = part.arena.shadow
    if shadow is not None:
        index = _slice(at, SIZE, part.arena)
        wrote = shadow.wrote[index]
        if wrote.any():
            known = m.tensormap_known.get((f.warp.block.number, at))
            agent, epoch = wrote >> 32, wrote & 0xFFFFFFFF
            fresh = np.zeros(len(wrote), bool)
            if known is not None:
                inside = agent < known.shape[1]
                fresh = inside & (known[0][np.where(inside, agent, 0)] >= epoch)
            if not (fresh | (wrote == 0)).all():
                k = int(np.flatnonzero(~fresh & (wrote != 0))[0])
                raise m.harm(
                    Kind.STALE,
                    m.here(f, lane),
                    "the tensor map was changed, and no fence of the tensormap proxy makes it known here",
                    "membar/fence: fence.proxy.tensormap",
                    m.agent_place(int(agent[k]), int(shadow.write_line[index][k])),
                )
    fields = decode(part.arena.bytes[at : at + SIZE].tobytes())
    if fields is None:
        raise m.undefined(f, "no tensor map lies at this address", "cp.async.bulk.tensor", lane, "global")
    if (why := wrong(fields)) is not None:
        raise m.undefined(f, why, "tensor maps", lane, "global")
    return fields, (part.space, at)


def _reads_map(m: Machine, f: Fragment, place: tuple[str, int], reader: int) -> None:
    """Notes that a copy reads its map until its source is read (see ``map_edits``)."""
    space, at = place
    if space == "global":
        m.map_reads.setdefault(at, []).append((*m.clocks.stamp(reader), m.line(f)))


#: What an operand holds, by lane.
_Values = Callable[[list[Lanes]], Lanes]


def _completion(
    c: Context, i: Instr, operands: Sequence[Operand], *, counted: bool
) -> tuple[_Values | None, _Values | None]:
    """The last operands of a bulk copy: the mbarrier that counts it, and the mask of a multicast.

    A cache hint stands behind them, and says nothing here.
    """
    rest = list(operands)
    barrier = address(c, rest.pop(0)) if counted else None
    if "L2::cache_hint" in i.mods:
        rest.pop()
    mask = c.reader(rest.pop(0), 16) if _MULTICASTS & {*i.mods} else None
    if rest:
        raise c.fail("an operand too many")
    return barrier, mask


def _tensor(c: Context, i: Instr) -> Step:
    _check_words(c, i)
    columns = not _IM2COL.isdisjoint(i.mods)
    loads = _sides(c, i)[1] == "global"
    reduces = i.mods[0] == "reduce"
    op = next((w for w in i.mods if w in ("add", "min", "max", "inc", "dec", "and", "or", "xor")), "")
    rank = int(next(w for w in i.mods if w[-1] == "d" and w[0].isdigit())[0])
    where = i.operands[1] if loads else i.operands[0]
    other = i.operands[0] if loads else i.operands[1]
    if not isinstance(where, Mem) or len(where.coords) != rank:
        raise c.fail(f"expected [map, {{{rank} coordinates}}]")
    coords = [c.source(x, 32) for x in where.coords]
    map_at = address(c, Mem(where.base, where.offset))
    smem = address(c, other)
    rest = [x for x in i.operands[2:] if not (columns and isinstance(x, Vector))]  # without the offsets
    barrier, mask = _completion(c, i, rest, counted=loads)

    def run(f: Fragment, on: Lanes) -> Next:
        m, R = f.warp.machine, f.R
        for lane in np.flatnonzero(on).tolist():
            fields, map_place = read_map(m, f, int(map_at(R)[lane]), lane)
            if columns and fields.rank:
                raise CannotExecute(m.line(f), i.name, "the elements that a map of im2col mode names")
            if fields.rank not in (rank, 0):
                raise m.undefined(
                    f, f"a map of rank {fields.rank} in a copy of {rank} dimensions", _SECTION, lane
                )
            start = [int(R[s].view(np.int32)[lane]) for s in coords]
            a = int(smem(R)[lane])
            if a % 128:
                raise m.undefined(
                    f, f"shared memory at {a:#x} is no multiple of 128", "cp.async.bulk.tensor", lane
                )
            if loads:
                assert barrier is not None
                many = int(mask(R)[lane]) if mask is not None else None
                _tensor_load(m, f, lane, fields, map_place, start, a, int(barrier(R)[lane]), many)
            else:
                _tensor_store(m, f, lane, fields, map_place, start, a, op if reduces else "")
        return None

    return c.masked(run)


def _tensor_load(
    m: Machine,
    f: Fragment,
    lane: int,
    fields: Fields,
    map_place: tuple[str, int],
    start: list[int],
    a: int,
    barrier: int,
    many: int | None,
) -> None:
    n = box_bytes(fields)
    offsets, addresses, inside = box_of(fields, start)
    thread = int(f.warp.threads[lane])
    reader = new_agent(m, f, lane, "a tensor copy's")
    _reads_map(m, f, map_place, reader)
    places = addresses - GLOBAL_WINDOW
    inside = _in_tensor(m, f, places, inside, fields.element, lane)
    shadow = m.memory.shadow
    if shadow is not None and inside.any():
        index = np.unique(granules(places[inside], fields.element, shadow.granule))
        mark(m, f, m.memory, index, reader, False, "global", m.clocks.know[:, thread])
    bits = fields.element * 8
    fill = _fill(fields)
    ends = destinations(m, f, lane, a, n, barrier, many)
    reads = [len(ends)]
    for target, object_ in ends:
        writer = new_agent(m, f, lane, "a tensor copy's")
        mark(
            m,
            f,
            m.shared.arena,
            _slice(target, n, m.shared.arena),
            writer,
            True,
            "shared",
            m.clocks.know[:, thread],
        )
        to = swizzled(target + offsets, fields.swizzle)

        def piece(part: slice, to: Lanes = to) -> Callable[[], None]:
            def move() -> None:
                held = np.full(part.stop - part.start, fill, UNSIGNED[bits])
                if not fields.rank:
                    held = m.draw.integers(0, 256, held.size, np.uint8)
                some = inside[part]
                held[some] = m.memory.load(places[part][some], bits)
                m.shared.arena.store(to[part], bits, held)

            return move

        runs = chunks(len(offsets), m)
        pieces = [(piece(x), (x.stop - x.start) * fields.element) for x in runs]
        _land(m, f, object_, writer, reader, pieces, reads)


def _fill(fields: Fields) -> int:
    if not fields.nan_fill:
        return 0
    return {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}.get(
        fields.type.partition(".")[0], 0x7FFFFFFF
    )


def _in_tensor(
    m: Machine, f: Fragment, at: Lanes, inside: Lanes, size: int, lane: int, writes: bool = False
) -> Lanes:
    """The elements inside of a tensor that have memory; in a launch with bounds that is all of them."""
    if m.launch.dependent == "all" or (writes and m.launch.dependent):
        first = at[inside][:1] if inside.any() else at[:1]
        grid_before(m, f, first.view(np.uint64) + np.uint64(GLOBAL_WINDOW), np.array([lane]))
    lost = np.zeros(at.shape, bool)
    lost[inside] = without_memory(m, at[inside].view(np.uint64) + np.uint64(GLOBAL_WINDOW), size)
    if lost.any() and m.nowhere is None:
        raise m.undefined(f, "the tensor reaches beyond its memory", "tensor maps", lane, "global")
    return inside & ~lost


def _tensor_store(
    m: Machine,
    f: Fragment,
    lane: int,
    fields: Fields,
    map_place: tuple[str, int],
    start: list[int],
    a: int,
    op: str,
) -> None:
    n = box_bytes(fields)
    offsets, addresses, inside = box_of(fields, start)
    thread = int(f.warp.threads[lane])
    know = m.clocks.know[:, thread]
    at = _shared(m, f, a, n, lane)
    if m.blocks[m.shared.block_of(at)] is not f.warp.block:
        raise m.undefined(f, "the source of a bulk copy lies in another block", _SECTION, lane)
    reader = new_agent(m, f, lane, "a tensor copy's")
    mark(m, f, m.shared.arena, _slice(at, n, m.shared.arena), reader, False, "shared", know)
    _reads_map(m, f, map_place, reader)
    places = addresses - GLOBAL_WINDOW
    inside = _in_tensor(m, f, places, inside, fields.element, lane, True)
    source = swizzled(at + offsets, fields.swizzle)
    writer = new_agent(m, f, lane, "a tensor copy's")
    shadow = m.memory.shadow
    of = combine(op, {"u8": "u8", "s32": "s32"}.get(fields.type, fields.type)) if op else None
    if op and of is None:
        raise m.undefined(f, f"a reduction {op} of {fields.type}", "cp.reduce.async.bulk.tensor", lane)
    if shadow is not None and inside.any():
        index = np.unique(granules(places[inside], fields.element, shadow.granule))
        mark(m, f, m.memory, index, writer, True, "global", know, REDUCTION if op else 0)
    bits = fields.element * 8
    held = np.zeros(len(offsets), UNSIGNED[bits])

    def take(part: slice) -> Callable[[], None]:
        def move() -> None:
            held[part] = m.shared.arena.load(source[part], bits)

        return move

    def give(part: slice) -> Callable[[], None]:
        def move() -> None:
            some = inside[part]
            to, value = places[part][some], held[part][some]
            m.memory.store(to, bits, value if of is None else of(m.memory.load(to, bits), value))

        return move

    place = m.here(f, lane)
    runs = chunks(len(offsets), m)
    stamps = [m.clocks.stamp(reader), m.clocks.stamp(writer)]
    operation = Operation(
        m,
        f"tensor store line {place.line}",
        place,
        [[take(x) for x in runs], [give(x) for x in runs]],
        [lambda: _over(m, stamps[0]), lambda: _over(m, stamps[1])],
    )
    operation.stamps = stamps
    operation.start()
    f.warp.bulk.setdefault(lane, []).append(operation)


# -- st.async, red.async ----------------------------------------------------------------------------------

_ASYNC = frozenset(
    {"async", "weak", "relaxed", "cluster", "shared::cluster", "mbarrier::complete_tx::bytes",
        "v2", "v4", "add",
     "min", "max", "inc", "dec", "and", "or", "xor"}
)  # fmt: skip


def store_async(c: Context, i: Instr) -> Step:
    """A store or reduction into another block's memory, counted by an mbarrier there."""
    for w in i.mods:
        if w not in _ASYNC and w not in BITS:
            raise c.fail(f"the modifier .{w}")
    kind = type_of(i.mods)
    bits = BITS[kind]
    sources = [c.reader(x, bits) for x in vector_items(c, i, i.operands[1], "sources")]
    to, barrier = address(c, i.operands[0]), address(c, i.operands[2])
    op = next((w for w in i.mods if w in ("add", "min", "max", "inc", "dec", "and", "or", "xor")), "")
    of = combine(op, kind) if i.op == "red" else None
    step = bits // 8
    size = step * len(sources)

    def run(f: Fragment, on: Lanes) -> Next:
        m, R = f.warp.machine, f.R
        if len(f.warp.block.cluster.blocks) < 2:
            raise m.undefined(f, f"{i.op}.async in a cluster of one block", f"{i.op}.async")
        values = [read(R) for read in sources]
        for lane in np.flatnonzero(on).tolist():
            thread = int(f.warp.threads[lane])
            a = int(to(R)[lane])
            if a % size:
                raise m.undefined(f, f"the address {a:#x} is no multiple of {size}", f"{i.op}.async", lane)
            at = _shared(m, f, a, size, lane)
            home: Block = m.blocks[m.shared.block_of(at)]
            if i.op == "red" and home is f.warp.block:
                raise m.undefined(f, "red.async into the block's own memory", "red.async", lane)
            object_ = of_operand(m, f, int(barrier(R)[lane]), thread, lane, home)
            agent = new_agent(m, f, lane, f"a {i.op}.async's", True)
            strong = 2 | (size.bit_length() - 1) << 4 if of is not None else 0
            mark(
                m, f, m.shared.arena, _slice(at, size, m.shared.arena), agent, True, "shared",
                m.clocks.know[:, thread], REDUCTION if strong else 0, False,
            )  # fmt: skip
            data = [v[lane : lane + 1].copy() for v in values]

            def move(at: int = at, data: list[Lanes] = data) -> None:
                for k, v in enumerate(data):
                    here = np.array([at + k * step])
                    old = m.shared.arena.load(here, bits)
                    m.shared.arena.store(here, bits, v if of is None else of(old, v))

            _land(m, f, object_, agent, agent, [(move, size)], [1])
        return None

    return c.masked(run)
