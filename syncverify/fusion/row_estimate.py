"""Estimates of many schedules of rows at once: the formula of ``row_cost``, and what it is off by on a card.

What the formula leaves out (what the compiler does with registers, how blocks of an SM meet, caches) was
learnt from measured launches by boosted trees: they give the logarithm of measured by predicted time
(``benchmarks/hardware/rows_fit.py --trees``). Their columns are the counts of the formula, facts of the
fusion, and shares of the predicted time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from syncverify.base import boosted_trees
from syncverify.fusion.graph import Fusion
from syncverify.fusion.row_cards import here
from syncverify.fusion.row_cost import (
    Coefficients,
    Counts,
    Facts,
    counted,
    cycles,
    in_pieces,
    share,
    wanted,
)
from syncverify.fusion.row_schedule import RowSchedule, gathers_by_warp, widest_vector
from syncverify.ir.nodes import DTYPE_BYTES

Array = np.ndarray[Any, Any]

#: The time of rows of one input and 16 bits whose results each warp stores from shared memory, by the time if
#: threads store what they computed. Measured with norms of 204, 278 and 330 elements in kernels written by
#: hand: 1.024 to 1.035 times as fast. The trees know launches alone in which the warps of a block meet.
THROUGH_OWN = 0.972

#: Bytes of a row's share of the time in which the blocks of a cluster meet, where they share rows. The trees
#: know no such launches. Fitted so that what is preferred of 6 points of 4 bytes was the faster, but for one
#: by 0.6% (docs/fusion_results.md), on the scale of the trees, which give half of what slow launches lose.
MEETING = 30e3

#: The same of short rows of several inputs and outputs of 16 bits where a block of two warps has one: read
#: again, where two lanes in three have elements at least; and from 561 to 639 elements, read once. The trees
#: take such launches for 2 to 3.4% slower than others near the fastest (docs/choice.md).
AGAIN_BY_TWO, SHORT, FILLED = 0.96, 1024, 2 / 3
ONCE_BY_TWO, BETWEEN = 0.975, range(561, 640)

TREES = Path(__file__).with_name("h200_rows.trees")
_COUNTS, _FACTS = (tuple(f.name for f in fields(c)) for c in (Counts, Facts))
_MADE = (
    "width", "log_cycles", "memory_share", "lacking", "held_by_left", "row_warps", "row_groups", "blocks",
    "width_rest", "bytes_under_way", "full", "operations_share", "dependent", "ahead", "kept", "block_bytes",
    "warps_under_way", "unroll", "ring", "stored_by_copies", "lanes", "through_shared", "bandwidth", "away",
)  # fmt: skip
COLUMNS = (*_COUNTS, *_FACTS, *_MADE)
_counts, _facts = attrgetter(*_COUNTS), attrgetter(*_FACTS)


@dataclass(frozen=True, slots=True)
class RowLaunch:
    """A schedule that leaves nothing open, for rows of a width of a fusion with these facts."""

    facts: Facts
    schedule: RowSchedule
    width: int
    counts: Counts


def formula(c: Coefficients, launches: Sequence[RowLaunch]) -> tuple[Counts, Array]:
    """The counts of launches as arrays, and cycles of a multiprocessor for a row by the formula alone."""
    found = np.array([_counts(x.counts) for x in launches], dtype=float)
    x = Counts(*found.T)
    again = np.array([(y.facts.steps, share(y.facts)) for y in launches], dtype=float)
    time: Array = np.asarray(cycles(c, x, *again.T))
    return x, time


def columns(c: Coefficients, launches: Sequence[RowLaunch], x: Any, time: Array) -> Array:
    """What the trees ask of launches; ``time``: cycles by the formula."""
    facts = np.array([_facts(y.facts) for y in launches], dtype=float)
    own = np.array([_own(y.schedule, y.width) for y in launches], dtype=float).T
    width, warps, rows, blocks, rest, *forms = own[:-3]
    need = wanted(c, x)
    made = [
        width, np.log(time), x.bytes / c.bandwidth / time, np.maximum(need - x.left, 0), need / x.left,
        warps, rows, blocks, rest, x.under_way * x.bytes, width / (x.elements * x.warps * 32),
        x.operations * x.warps / time, *own[-3:], x.under_way / blocks * x.bytes,
        blocks * np.maximum(rows, 1) * warps, *forms, np.full(len(time), c.bandwidth),
        x.under_way * x.bytes / c.level2,
    ]  # fmt: skip
    return np.column_stack([*(getattr(x, n) for n in _COUNTS), facts, *made])


def _own(s: RowSchedule, width: int) -> tuple[float, ...]:
    """What of a schedule, and of a width, no count has."""
    yes = (s.dependent == "yes", s.ahead == "yes", s.operands == "registers")
    forms = (
        max(s.unroll, 1), s.stages if s.source == "bulk" else 0, s.store == "bulk", s.row_lanes,
        s.store == "shared",
    )  # fmt: skip
    return (width, s.warps, s.rows, s.blocks_per_sm, width % 64, *forms, *yes)


@dataclass(frozen=True)
class Estimate:
    """The model of one fusion on a card, or on this machine's; ``trees``: the file of what the formula is off
    by."""

    fusion: Fusion
    coefficients: Coefficients = field(default_factory=here)
    trees: Path | None = TREES

    @cached_property
    def _facts(self) -> tuple[Facts, Facts]:
        return Facts.of(self.fusion), Facts.of(self.fusion, pieces=True)

    def launch(self, schedule: RowSchedule, width: int) -> RowLaunch:
        """A schedule that leaves nothing open."""
        facts = self._facts[in_pieces(schedule)]
        return RowLaunch(facts, schedule, width, counted(self.fusion, facts, schedule, width))

    def cycles(self, launches: Sequence[RowLaunch]) -> Array:
        """Cycles of a multiprocessor for a row, of each launch."""
        if not launches:
            return np.zeros(0)
        launches, shares = zip(*map(self._known, launches), strict=True)
        x, time = formula(self.coefficients, launches)
        if self.trees is None:
            return time
        trees = boosted_trees.read(self.trees, COLUMNS)
        found: Array = time * np.exp(trees(columns(self.coefficients, launches, x, time))) * np.array(shares)
        clusters = np.array([launch.schedule.cluster > 0 for launch in launches])
        return np.where(clusters, (x.bytes + MEETING) / self.coefficients.bandwidth, found)

    def _known(self, launch: RowLaunch) -> tuple[RowLaunch, float]:
        """A launch of a kind that the trees know, and its share of the time."""
        if self._by_two(launch):
            return launch, self._of_two_warps(launch)
        small = max(DTYPE_BYTES[o.dtype] for o in self.fusion.outputs) == 2 and len(self.fusion.streamed) == 1
        if not small or not gathers_by_warp(self.fusion, launch.schedule, launch.width):
            return launch, 1.0
        return self.launch(replace(launch.schedule, store="threads"), launch.width), THROUGH_OWN

    def _by_two(self, launch: RowLaunch) -> bool:
        """Whether a block of two warps has one row, with several inputs and outputs in vectors of 16 bits."""
        facts = launch.facts
        halves = facts.widest == 2 and launch.width % widest_vector(self.fusion) == 0
        several = facts.rows_in > 1 < facts.rows_out and launch.width < SHORT
        return halves and several and launch.schedule.warps == 2 and launch.schedule.rows == 1

    def _of_two_warps(self, launch: RowLaunch) -> float:
        if launch.schedule.reread != "yes":
            return ONCE_BY_TWO if launch.width in BETWEEN else 1.0
        filled = launch.width / (launch.counts.elements * launch.counts.warps * 32)
        return AGAIN_BY_TWO if filled >= FILLED else 1.0


__all__ = ["COLUMNS", "TREES", "Estimate", "RowLaunch", "columns", "formula"]
