"""Blocks that hand on flags: each waits for the one before it, and lets the next go on. See docs/symbolic.md.

A system of two blocks, the second after the first, stands for any two of a grid: the second acquires what the
first has released, for the blocks between them hand it on. So each block must let the next go on just once,
after it has waited itself, with all that it was handed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from syncverify.checker import control, globals
from syncverify.checker.clocks import E, H, Matrix
from syncverify.checker.engine import DONE, LATER, Run, Thread, Unmodelled
from syncverify.checker.flags import RELEASE, STRONG
from syncverify.model.events import Ahead, Event
from syncverify.model.proxies import Access

#: What a block may wait for: that all before it have let the next one go on.
AWAITED = {(">=", 0), ("==", 0), (">", -1)}
#: What it leaves in the flag itself.
LEFT = Ahead(1)


@dataclass(frozen=True, slots=True)
class Leg:
    """What a block has done with a flag: its newest spins by class; the write that lets the next go on."""

    spins: tuple[tuple[int, int], ...] = ()
    write: globals.Write | None = None

    def spun(self, t: Thread) -> Leg:
        """The same after a spin."""
        return replace(self, spins=tuple(sorted({**dict(self.spins), t.cls: t.time}.items())))


def of(run: Run, fp: int) -> tuple[int, ...]:
    """Where a footprint touches memory of flags."""
    if not run.info.relay or fp < 0:
        return ()
    ranges = run.info.relay
    return tuple(
        a for a, b in run.info.footprints[fp].intervals if any(a < hi and lo < b for lo, hi in ranges)
    )


def on_spin(run: Run, t: Thread, event: Event) -> int:
    """The second block acquires what the first released; the first has nobody before it."""
    if not run.info.relay:
        return globals.on_spin(run, t, event)
    _, site, fp, flags, scope, compare, value = event
    globals.early(run, t, site, reads=True)
    if not isinstance(value, Ahead) or (compare, value.by) not in AWAITED:
        raise Unmodelled("a block that waits for something else than all blocks before it", site)
    (flag,) = _single(run, fp, site)
    mine = run.relays.get((flag, t.info.cta), Leg())
    if mine.write is not None:
        raise Unmodelled("a block that waits after it has let the next one go on", site)
    t.syncs.append(t.time)
    if t.info.cta:
        before = run.relays.get((flag, 0), Leg()).write
        if before is None or before.released is None:
            raise Unmodelled("a block that waits for one that does not let it go on", site)
        np.maximum(t.clock.m[E], before.past, out=t.clock.m[E])
        globals.acquire(run, t, before, scope, site, flags)
    run.relays[flag, t.info.cta] = mine.spun(t)
    return DONE


def on_write(run: Run, t: Thread, event: Event) -> int:
    _, site, fp, flags, scope, value = event
    if not of(run, fp):
        return globals.on_write(run, t, event)
    globals.touch(run, t, Access.GENERIC_WRITE, fp, site, True, scope)
    if value != LEFT or not flags & (STRONG | RELEASE):
        raise Unmodelled("a flag that blocks wait for is given another value", site)
    _let_go(run, t, site, fp, flags, scope)
    return DONE


def on_atomic(run: Run, t: Thread, event: Event) -> int:
    _, site, fp, flags, scope, op, value = event
    if not of(run, fp):
        return globals.on_atomic(run, t, event)
    globals.touch(run, t, Access.GENERIC_WRITE, fp, site, True, scope)
    if (op, value) != ("add", 1) or not flags & (STRONG | RELEASE):
        raise Unmodelled("a flag that blocks wait for is given another value", site)
    _let_go(run, t, site, fp, flags, scope)
    return DONE


def _single(run: Run, fp: int, site: int) -> tuple[int, ...]:
    found = of(run, fp)
    if len(found) != 1 or len(run.info.footprints[fp].intervals) != 1:
        raise Unmodelled("several flags at once", site)
    return found


def _let_go(run: Run, t: Thread, site: int, fp: int, flags: int, scope: int) -> None:
    """A block lets the next one go on: once, after its own turn has come, with all that it was handed."""
    (flag,) = _single(run, fp, site)
    mine = run.relays.get((flag, t.info.cta), Leg())
    if mine.write is not None or t.n != 1:
        raise Unmodelled("a block that lets the next one go on more than once", site)
    t.syncs.append(t.time)
    run.signals.append((t.cls, t.time, site))
    full, wide = globals.release(run, t, site, flags, scope)
    past = t.clock.past()
    if any(past[c] < time for c, time in mine.spins):
        raise Unmodelled("a block that may let the next one go on before its own turn", site)
    if full is None or not wide:
        raise Unmodelled("a block that lets the next one go on without a release", site)
    before = run.relays.get((flag, 0), Leg()).write
    if t.info.cta and (not mine.spins or before is None or not _covers(full, before.released)):
        raise Unmodelled("a block that does not hand on all that the blocks before it did", site)
    write = globals.Write(t.cls, t.time, None, None, past, site, 1, full, wide)
    run.relays[flag, t.info.cta] = replace(mine, write=write)


def _covers(full: Matrix, other: Matrix | None) -> bool:
    return other is not None and bool(np.all(full[H:] >= other[H:]))


def on_exit(run: Run, t: Thread, event: Event) -> int:
    """With the last lanes of the first block the second begins; the first's memory is gone."""
    result = control.on_exit(run, t, event)
    if run.info.relay and not t.info.cta and all(o.done or o.info.cta for o in run.threads):
        run.memory.pop(0, None)
        for o in run.threads:
            if o.waits_on == LATER:
                run.wake(o)
    return result
