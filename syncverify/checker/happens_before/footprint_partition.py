"""Global memory that two blocks of any grid reach: places that move with a block, and places that do not.

What lies in one window is compared byte by byte, for it moves alike. Accesses to different windows must be
known to touch different bytes, whatever the numbers of the blocks are, or to be in order wherever they meet.
"""

from __future__ import annotations

from collections.abc import Callable

from syncverify.checker.happens_before.run import Run, Unmodelled
from syncverify.checker.happens_before.shadow import Record
from syncverify.model.events import GLOBAL_MEMORY, TENSOR_SHIFT, WINDOW_SHIFT


def check(run: Run, record: Record, follows: Callable[[Record], bool]) -> None:
    """Raises Unmodelled where an access may meet another in another window that it does not follow."""
    windows, intervals = run.info.footprint_partition, run.info.footprints[record.fp].intervals
    if windows is None or not intervals:
        return
    lo, hi = intervals[0][0], max(b for _, b in intervals)
    if lo >> WINDOW_SHIFT != hi - 1 >> WINDOW_SHIFT:
        raise Unmodelled("an access to places in global memory that are far apart", record.site)
    tensor = lo >> TENSOR_SHIFT << TENSOR_SHIFT
    for s in run.shadow(GLOBAL_MEMORY).overlapping(tensor, tensor + (1 << TENSOR_SHIFT)):
        met = [] if s.write is None else [s.write]
        met += [r for r in s.reads.values() if record.kind.writes or r.kind.writes]
        elsewhere = s.lo >> WINDOW_SHIFT != lo >> WINDOW_SHIFT
        if elsewhere and met and not windows.apart((lo, hi), (s.lo, s.hi)) and not all(map(follows, met)):
            raise Unmodelled("two blocks may reach the same places in global memory", record.site)


__all__ = ["check"]
