"""Values that were loaded from shared memory and have perhaps not arrived before a refill.

A load that nothing has waited for may be served after a later release of its thread, when a bulk copy refills
the bytes. It has arrived once an instruction that the assembler cannot move behind the release looks at its
value, or at what was computed of it: a store, an atomic, a branch, a copy, a wgmma with A in registers;
or at a fence. Arithmetic, shuffles and ``mma.sync`` do not count. A value that nobody looks at does no harm.

Example: ``ld.shared r, [tile]; mbarrier.arrive [empty]; st.global [p], r``. The refill that waits for
``empty`` finds the load not arrived: harm. With the store before the arrival it has arrived.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx.clocks import READS
from syncverify.simulate.ptx.syntax import Instr
from syncverify.simulate.ptx.types import LANES, Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment, Next, Step

#: Instructions that look at their operands and stay before a release.
_LOOKS = frozenset(
    {"st", "red", "atom", "bra", "brx", "cp", "wgmma", "call", "ret", "exit", "trap", "stmatrix", "prefetch"}
)
#: Loads of one line by one warp that are remembered; older ones count as arrived.
_MOST = 256


class Load:
    """One load by a warp: epochs of its lanes, and those in which its value was looked at (0: never)."""

    __slots__ = ("__weakref__", "arrived", "epochs", "known", "open")

    def __init__(self, epochs: Lanes, known: Known) -> None:
        self.epochs = epochs
        self.arrived = np.zeros(LANES, np.int64)
        self.open = True  # some lane has not arrived
        self.known = known

    def look(self, mask: Lanes, now: Lanes) -> None:
        """Lanes look at the value; what has been looked at is kept, since that may have been too late."""
        if not self.known.recent or self.known.recent[-1] is not self:
            self.known.recent.append(self)
        self.arrived = np.where(mask & (self.arrived == 0), now, self.arrived)
        self.open = bool(((self.arrived == 0) & (self.epochs != 0)).any())


class Known:
    """The loads of one line by one warp. A load that nobody looks at ends with its last register."""

    __slots__ = ("all", "recent")

    def __init__(self) -> None:
        self.all: deque[weakref.ref[Load]] = deque(maxlen=_MOST)
        self.recent: deque[Load] = deque(maxlen=_MOST)


Pending = dict[int, tuple[Load, ...]]


def is_tracked(instr: Instr) -> bool:
    """Whether an instruction may load from shared memory."""
    if instr.op == "ldmatrix":
        return True
    return instr.op == "ld" and not {"global", "local", "const", "param", "nc"} & set(instr.mods)


def tracked(step: Step, instr: Instr, reads: frozenset[int], writes: frozenset[int], line: int) -> Step:
    """The step of an instruction, with what it means for loads that have not arrived."""
    looks = instr.op in _LOOKS
    loads = is_tracked(instr)
    guarded = instr.guard is not None

    def run(f: Fragment) -> Next:
        pending = f.pending
        if not pending and not loads:
            return step(f)
        found: tuple[Load, ...] = ()
        if pending and not reads.isdisjoint(pending):
            for slot in reads:
                found += tuple(x for x in pending.get(slot, ()) if x.open and x not in found)
            if looks:
                arrive(f, found)
                found = ()
        mask = f.mask
        after = step(f)
        if loads:
            found += (_begin(f, mask, line),)
        for slot in writes:
            if found:
                old = pending.get(slot, ()) if guarded else ()
                pending[slot] = found + tuple(x for x in old if x not in found)
            elif not guarded:
                pending.pop(slot, None)
        return after

    return run


def _begin(f: Fragment, mask: Lanes, line: int) -> Load:
    m, warp = f.warp.machine, f.warp
    epochs = np.zeros(LANES, np.int64)
    epochs[mask] = m.clocks.epoch[warp.threads[mask]]
    key = (warp.first_thread, line)
    known = m.loads.get(key)
    if known is None:
        known = m.loads[key] = Known()
    load = Load(epochs, known)
    known.all.append(weakref.ref(load))
    return load


def arrive(f: Fragment, loads: tuple[Load, ...]) -> None:
    """These lanes look at the values."""
    warp = f.warp
    now = warp.machine.clocks.epoch[warp.threads]
    for load in loads:
        load.look(f.mask, now)


def all_of(m: Machine, f: Fragment, on: Lanes) -> None:
    """A fence of these lanes: what they have loaded has arrived."""
    now = m.clocks.epoch[f.warp.threads]
    for slot, loads in list(f.pending.items()):
        for load in loads:
            if load.open:
                load.look(on, now)
        left = tuple(x for x in loads if x.open)
        if left:
            f.pending[slot] = left
        else:
            del f.pending[slot]


def has_arrived(m: Machine, thread: int, epoch: int, line: int, know: Any) -> bool:
    """Whether a load's value had arrived before what is known of its thread."""
    if not m.loaded.settles:
        return False
    block, inside = divmod(thread, m.launch.threads)
    lane = inside % LANES
    first = block * m.launch.threads + inside - lane
    known = m.loads.get((first, line))
    for ref in known.all if known is not None else ():
        load = ref()
        if load is None or load.epochs[lane] != epoch:
            continue
        arrived = int(load.arrived[lane])
        if not arrived or max(int(know[0][thread]), int(know[READS][thread])) < arrived:
            return False
    return True
