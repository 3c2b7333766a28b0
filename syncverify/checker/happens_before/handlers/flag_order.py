"""Which writes of a flag a wait may have read, and whether these are the same in every execution.

A wait reads no write that another one is known to have replaced. So what a flag held before the newest store
that comes before the wait plays no part: the history of the flag begins there. Example: two warps hand a
buffer to and fro by a flag that is 1 and 0 in turn; each wait looks at two writes only.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from syncverify.base.reason import Cause, Reason
from syncverify.checker.happens_before.run import LaneClass, Run, Unmodelled
from syncverify.checker.happens_before.vector_clocks import H, Matrix
from syncverify.model.events import GLOBAL_MEMORY

if TYPE_CHECKING:
    from syncverify.checker.happens_before.handlers.global_memory import Location, Spin, Write

COMPARE = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
#: Comparisons that hold for all larger numbers too.
_UPWARDS = (">=", ">")
#: Those that hold for all smaller numbers too.
_DOWNWARDS = ("<=", "<")
#: Above all addresses of flags in global memory.
SHARED = 1 << 256


def key_of(memory: int, address: int) -> int:
    """What a flag is remembered by: its address in global memory, or beyond these of what block's shared
    memory it is."""
    return (memory - GLOBAL_MEMORY) * SHARED + address


# ------------------------------------------------------------------ the order of writes (coherence)


def ordered_before(run: Run, t: LaneClass, at: Location) -> int:
    """How many writes of a flag, from the first on, come before one of this thread in every execution."""
    for n in range(len(at.writes)):
        if not _comes_after(run, t, at, n):
            return n
    return len(at.writes)


def covered(at: Location, released: Matrix | None, *, reach: int) -> frozenset[int]:
    """The writes of a flag of which nothing is released that one behind them does not release too."""
    return frozenset(
        n
        for n, w in enumerate(at.writes)
        if w.released is None
        or (released is not None and reach >= w.reach and bool(np.all(released[H:] >= w.released[H:])))
    )


def newest_known(run: Run, t: LaneClass, at: Location) -> int:
    """How many writes of a flag lie before all that a wait of this thread may read, but for the last of
    them: the newest store that comes before the wait, and between all earlier and all later writes."""
    least = len(at.writes)
    for n in range(len(at.writes), 0, -1):
        w = at.writes[n - 1]
        apart = w.after == n - 1 and least >= n
        if apart and w.added is None and w.value is not None and _comes_after(run, t, at, n - 1):
            return n
        least = min(least, w.after)
    return 0


def _comes_after(run: Run, t: LaneClass, at: Location, n: int) -> bool:
    """Whether what a thread does next to a flag comes after a write of it: it knows of the write, or of a
    wait that has read this write or a later one (PTX ISA: Coherence)."""
    w = at.writes[n]
    if t.clock.knows(H, w.cls, own_lane=False) >= w.time:
        return True
    return any(knows_of(t, s) and _has_passed(at, s, n) for s in at.spins)


def knows_of(t: LaneClass, s: Spin) -> bool:
    """Whether a thread is known to have passed a wait: itself, or another that has told of it since."""
    return s.cls == t.cls or t.clock.knows(H, s.cls, own_lane=False) >= s.time


def _has_passed(at: Location, s: Spin, n: int) -> bool:
    """Whether what a wait has read is a write, or comes after it."""
    if n < s.start:
        return True
    last = s.seen - 1
    if n >= last:
        return n == last and s.seen > s.start
    return at.writes[last].after > n or all(w.added is not None for w in at.writes[n + 1 : s.seen])


def forget_settled(run: Run, at: Location) -> None:
    """Takes away what no later wait may read: writes before the newest store that every thread comes after,
    and waits that none of the writes to come can end. Raises Unmodelled for one that is not decided.

    So a loop that hands a buffer to and fro comes back to the state that it began with.
    """
    live = [t for t in run.threads if not t.done]
    n = min((newest_known(run, t, at) for t in live), default=0)
    pasts = [t.clock.past() for t in live]
    over = [s for s in at.spins if all(past[s.cls] >= s.time for past in pasts)]
    _judge(at, over, shared=True)
    at.spins = [s for s in at.spins if s.takes or s not in over]
    gone = min([n - 1, *(s.start - 1 for s in at.spins)])
    if gone > 0:
        at.writes = [w.behind(gone) for w in at.writes[gone:]]
        at.spins = [replace(s, start=s.start - gone, seen=s.seen - gone) for s in at.spins]
        at.launch = None


# ------------------------------------------------------------------ what ends a wait


def held_before(at: Location, start: int) -> int | None:
    """What a flag holds after so many writes."""
    return at.writes[start - 1].value if start else at.launch


def first_true(at: Location, compare: str, value: int, start: int = 0) -> int:
    """How many writes the condition needed in this run, of which a wait may read those from ``start`` on."""
    before = held_before(at, start)
    if before is not None and COMPARE[compare](before, value):
        return start
    for i, w in enumerate(at.writes[start:], start):
        if w.value is not None and COMPARE[compare](w.value, value):
            return i + 1
    return len(at.writes)


def check_spins(run: Run) -> None:
    """The writes a spin was joined with must be the ones it needs in every execution (O1 to O3 for flags)."""
    for key, at in run.locations.items():
        _judge(at, at.spins, shared=key >= SHARED)


def _judge(at: Location, spins: Iterable[Spin], *, shared: bool) -> None:
    for spin in spins:
        if spin.races:
            text = "this wait races with a write of its flag: their scopes must include each other's thread"
            raise undecided(text, spin.site, shared=shared)
        if not decided(at, spin):
            text = "several writes may end this spin: which one comes first is not decided"
            raise undecided(text, spin.site, shared=shared)


def undecided(text: str, site: int, *, shared: bool) -> Unmodelled:
    """Why nothing is known of a wait; of one in shared memory an execution may show that it is wrong."""
    return Unmodelled(Reason(text, Cause.SHARED_CONTENTS) if shared else text, site)


def decided(at: Location, spin: Spin) -> bool:
    """Whether the spin ends by the same writes in every execution."""
    early = [  # those that need not wait for the spin
        w for w in at.writes[spin.start :] if w.past[spin.cls] < spin.time
    ]
    if spin.once and any(w.added is None and (w.value or 0) <= 0 for w in at.writes[spin.start :]):
        return False  # stored to by who has not taken it: others may take it then
    if any(w.weak or (spin.unsigned and (w.value is None or w.value < 0)) for w in early):
        return False
    if spin.seen == spin.start:
        return _stays_true(at, spin, early)
    if all(w.added is not None for w in early):
        return _sum_decided(at, spin, early)
    last = at.writes[spin.seen - 1]
    if last.after < spin.seen - 1:
        return False  # one of those before it may overwrite it before the spin looks
    holds = COMPARE[spin.compare]
    for i, w in enumerate(at.writes[spin.start :], spin.start):
        satisfies = holds(w.value, spin.value) if w.value is not None else w.added is None
        behind = i >= spin.seen and bool(w.past[last.cls] >= last.time) and spin.seen - 1 in w.covers
        later = w.past[spin.cls] >= spin.time or behind
        if w is not last and satisfies and not later:
            return False
        if w.added is not None and w in early:
            return False  # adds and stores mix: the value depends on their order
        if i >= spin.seen and not satisfies and w in early:
            return False  # it may overwrite the value before the spin looks
    return True


def _stays_true(at: Location, spin: Spin, early: list[Write]) -> bool:
    """Whether a condition that holds from the start goes on to hold, whichever writes come first."""
    holds = COMPARE[spin.compare]
    if all(w.added is not None for w in early):
        kept = spin.compare in (_DOWNWARDS if _falls(early) else _UPWARDS)
        return not early or (kept and _one_way(at, spin, early))
    return all(w.added is None and w.value is not None and holds(w.value, spin.value) for w in early)


def _falls(adds: Iterable[Write]) -> bool:
    return any((w.added or 0) < 0 for w in adds)


def _one_way(at: Location, spin: Spin, adds: list[Write]) -> bool:
    """Whether a counter only grows, or only falls, and not below zero: there one without a sign begins
    again."""
    before, amounts = held_before(at, spin.start), [w.added or 0 for w in adds]
    return min(amounts, default=0) >= 0 or (
        max(amounts) <= 0 and before is not None and before + sum(amounts) >= 0
    )


def _sum_decided(at: Location, spin: Spin, early: list[Write]) -> bool:
    """A counter that only grows, or falls: every add the spin was joined with, each lane of it, is needed for
    the value."""
    before = held_before(at, spin.start)
    falls = _falls(early)
    moves = (spin.compare, spin.value) == ("!=", before)  # it held that, and only grows, or falls
    compare = ("<" if falls else ">") if moves else spin.compare
    holds = COMPARE[compare]
    ways = (*(_DOWNWARDS if falls else _UPWARDS), "==")
    if before is None or compare not in ways or not _one_way(at, spin, early):
        return False
    if compare == "==" and before + sum(w.added or 0 for w in early) != spin.value:
        return False  # it may be passed over
    for w in at.writes[spin.start : spin.seen]:
        others = sum(o.added or 0 for o in early if o is not w and o.past[w.cls] < w.time)
        own = w.added or 0
        if holds(before + others + own - own // w.lanes, spin.value):
            return False
    return True


__all__ = [
    "COMPARE",
    "SHARED",
    "check_spins",
    "covered",
    "decided",
    "first_true",
    "forget_settled",
    "held_before",
    "key_of",
    "knows_of",
    "newest_known",
    "ordered_before",
    "undecided",
]
