"""Blocks that hand on flags: each waits for the one before it and lets the next go on (docs/block_groups.md).

A system of two blocks, the second after the first, represents any two of a grid: the second acquires what the
first has released, for the blocks between them hand it on. So each block must let the next go on just once,
after it has waited itself, with all that it was handed. Either all use one flag, which counts blocks, or each
has one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from syncverify.checker.happens_before.event_flags import RELEASE, STRONG
from syncverify.checker.happens_before.handlers import global_memory
from syncverify.checker.happens_before.handlers.flag_order import COMPARE
from syncverify.checker.happens_before.run import DONE, LaneClass, Run, Unmodelled
from syncverify.checker.happens_before.vector_clocks import E, H, Matrix
from syncverify.model.events import BlockRelative, Event
from syncverify.model.proxies import Access, Scope

#: What a block may wait for: that all before it have let the next one go on.
AWAITED = {(">=", 0), ("==", 0), (">", -1)}
#: What a flag of its own is left with by a block that adds to it, and what a flag that counts is.
ADDED, COUNTED = BlockRelative(None, 1), BlockRelative(1)


@dataclass(frozen=True, slots=True)
class ChainState:
    """What a block has done with a flag: its newest spins by class, and what these were handed; the write
    that lets the next go on, and what it leaves."""

    spins: tuple[tuple[int, int], ...] = ()
    handed: global_memory.Write | None = None
    write: global_memory.Write | None = None
    left: tuple[BlockRelative, BlockRelative] = ADDED, COUNTED  # a flag of its own, one that counts

    def spun(self, t: LaneClass, handed: global_memory.Write | None) -> ChainState:
        """The same after a spin."""
        spins = tuple(sorted({**dict(self.spins), t.cls: t.time}.items()))
        return replace(self, spins=spins, handed=handed)


def of(run: Run, fp: int) -> tuple[int, ...]:
    """Where a footprint touches memory of flags."""
    if not run.info.flag_chain or fp < 0:
        return ()
    ranges = run.info.flag_chain
    return tuple(
        a for a, b in run.info.footprints[fp].intervals if any(a < hi and lo < b for lo, hi in ranges)
    )


def chain_states(run: Run, cta: int, flag: int) -> Iterator[tuple[int, ChainState]]:
    """What a block has done with the flags of one tensor."""
    (memory,) = (r for r in run.info.flag_chain if r[0] <= flag < r[1])
    for (where, block), leg in run.flag_chains.items():
        if block == cta and memory[0] <= where < memory[1]:
            yield where, leg


def on_spin(run: Run, t: LaneClass, event: Event) -> int:
    """The second block acquires what the first released; the first has nobody before it."""
    if not run.info.flag_chain:
        return global_memory.on_spin(run, t, event)
    _, site, fp, flags, scope, compare, value = event
    global_memory.early(run, t, site, reads=True)
    flag, cta = _single(run, fp, site), t.info.cta
    mine = run.flag_chains.get((flag, cta), ChainState())
    if mine.write is not None:
        raise Unmodelled("a block that waits after it has let the next one go on", site)
    if not isinstance(value, BlockRelative):
        raise Unmodelled("a block that waits for something else than all blocks before it", site)
    if value.number is not None and value.number == value.by and not COMPARE[compare](0, value.number):
        raise Unmodelled("a block that waits for one before the first", site)
    before = _before(run, fp, compare, value, site) if cta else None
    t.syncs.append(t.time)
    if before is not None:
        np.maximum(t.clock.m[E], before.past, out=t.clock.m[E])
        global_memory.acquire(run, t, before, scope, site, flags)
    run.flag_chains[flag, cta] = mine.spun(t, before)
    return DONE


def _before(run: Run, fp: int, compare: str, value: BlockRelative, site: int) -> global_memory.Write:
    """The signal of the first block that represents the one that ends a spin of the second.

    One flag counts blocks; or the block before has let go by a flag of its own, which is the first's, moved.
    """
    counted, flag = (compare, value.by) in AWAITED, _single(run, fp, site)
    gone = {at: (leg.write, leg.left) for at, leg in chain_states(run, 0, flag) if leg.write is not None}
    if counted and flag in gone and gone[flag][1][1].by == 1 and _apart(run, fp, gone):
        return gone[flag][0]
    for at, (write, (left, _)) in gone.items() if len(gone) == 1 else ():
        identifies = (counted and left.by == 1) or _distinguishes(left, compare, value.number)
        if (
            identifies
            and run.info.footprint_partition is not None
            and run.info.footprint_partition.before(at, flag)
        ):
            return write
    raise Unmodelled("a block that waits for something else than all blocks before it", site)


def _apart(run: Run, fp: int, others: Iterable[int]) -> bool:
    """Whether a flag is surely none of some others of its size, wherever the blocks are."""
    windows, ((a, b),) = run.info.footprint_partition, run.info.footprints[fp].intervals
    return windows is not None and all(windows.apart((a, b), (x, x + b - a)) for x in others if x != a)


def _distinguishes(left: BlockRelative, compare: str, number: int | None) -> bool:
    """Whether a comparison is true of what a flag is left with, and not of what it is at launch."""
    if number is None or COMPARE[compare](0, number):
        return False
    if left.by == 1 and (compare, number) in {(">=", 1), (">", 0), ("!=", 0)}:
        return True  # all that is determined by a block in this way is above 0
    return left.number is not None and left.number > 0 and bool(COMPARE[compare](left.number, number))


def on_write(run: Run, t: LaneClass, event: Event) -> int:
    _, site, fp, flags, scope, value = event
    if not of(run, fp):
        return global_memory.on_write(run, t, event)
    global_memory.touch(run, t, Access.GENERIC_WRITE, fp, site, True, scope)
    if not isinstance(value, BlockRelative) or not flags & (STRONG | RELEASE):
        raise Unmodelled("a flag that blocks wait for is given another value", site)
    release_next(run, t, site, fp, flags, scope, (value, value))
    return DONE


def on_atomic(run: Run, t: LaneClass, event: Event) -> int:
    _, site, fp, flags, scope, op, value = event
    if not of(run, fp):
        return global_memory.on_atomic(run, t, event)
    global_memory.touch(run, t, Access.GENERIC_WRITE, fp, site, True, scope)
    if (op, value) != ("add", 1) or not flags & (STRONG | RELEASE):
        raise Unmodelled("a flag that blocks wait for is given another value", site)
    release_next(run, t, site, fp, flags, scope, (ADDED, COUNTED))
    return DONE


def _single(run: Run, fp: int, site: int) -> int:
    found = of(run, fp)
    if len(found) != 1 or len(run.info.footprints[fp].intervals) != 1:
        raise Unmodelled("several flags at once", site)
    return found[0]


def release_next(
    run: Run,
    t: LaneClass,
    site: int,
    fp: int,
    flags: int,
    scope: int,
    left: tuple[BlockRelative, BlockRelative],
) -> None:
    """A block lets the next one go on: once, after its own turn has come, with all that it was handed."""
    flag, cta = _single(run, fp, site), t.info.cta
    mine = run.flag_chains.get((flag, cta), ChainState())
    if mine.write is not None or t.n != 1:
        raise Unmodelled("a block that lets the next one go on more than once", site)
    t.syncs.append(t.time)
    run.signals.append((t.cls, t.time, site))
    full, reach = global_memory.release(run, t, site, flags, scope)
    past, windows = t.clock.past(), run.info.footprint_partition
    assert windows is not None
    others = [
        at for block in (0, 1) for at, _ in chain_states(run, block, flag) if (at, block) != (flag, cta)
    ]
    if not _apart(run, fp, others):
        raise Unmodelled("flags of several blocks at one place", site)
    waited = [
        leg
        for at, leg in chain_states(run, cta, flag)
        if leg.spins and (at == flag or windows.next(at, flag))
    ]
    if any(past[c] < time for leg in waited for c, time in leg.spins):
        raise Unmodelled("a block that may release the next one before it was released itself", site)
    if full is None or reach < Scope.GPU:
        raise Unmodelled("a block that lets the next one go on without a release", site)
    if cta and not (waited and all(_covers(full, leg.handed) for leg in waited)):
        raise Unmodelled(
            "a block that does not release to the next one all that the blocks before it wrote", site
        )
    write = global_memory.Write(t.cls, t.time, None, None, past, site, 1, full, reach)
    run.flag_chains[flag, cta] = replace(mine, write=write, left=left)


def _covers(full: Matrix, handed: global_memory.Write | None) -> bool:
    """Whether what is released has all that was acquired, in every row."""
    released = None if handed is None else handed.released
    return released is not None and bool(np.all(full[H:] >= released[H:]))
