"""Blocks that hand on flags, as later verdicts see them: what a block has done with one.

That it lets the next one go on is compared with its spins, and what it hands on with all that it was handed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.vector_clocks import Matrix

At = Callable[[int, int], Hashable]


def thresholds(run: Run, asking: Sequence[Sequence[int]]) -> Iterator[tuple[int, int, int]]:
    """The times that later comparisons are with: columns, values and what asks (an index of ``asking``)."""
    for leg in run.flag_chains.values():
        yield from ((cls, time, 0) for cls, time in leg.spins)
        if leg.write is None or leg.write.released is None:
            continue
        for kind, rows in enumerate(asking[1:], 1):
            handed = leg.write.released[rows]
            for column in np.flatnonzero(handed.any(axis=0)).tolist():
                yield from ((column, value, kind) for value in {*handed[:, column].tolist()} - {0})


def form(run: Run, at: At, keep: Callable[[Matrix | None], int]) -> Hashable:
    """What all blocks have done with all flags."""
    return tuple(
        (
            where,
            tuple(at(*spin) for spin in leg.spins),
            leg.write is not None and (leg.left, keep(leg.write.past), keep(leg.write.released)),
        )
        for where, leg in sorted(run.flag_chains.items())
    )
