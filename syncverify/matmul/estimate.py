"""Estimates of many launches at once: the formula of ``matmul.cost``, and what it is off by on a card.

The formula sees a launch as turns, steps and ends of tiles. What it leaves out (how tiles of one turn meet in
L2, how latency shows where few blocks work, how much of a tile is empty) was learnt from measured launches by
boosted trees: they give the logarithm of measured by predicted time (``benchmarks/hardware/matmul_fit.py
--trees``). Their columns are the counts of the formula, fields of the schedule, and shares of the predicted
time that single resources would take alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import numpy as np

from syncverify.base import boosted_trees
from syncverify.matmul.cards import Card
from syncverify.matmul.cost import (
    Coefficients,
    Counts,
    Facts,
    Processors,
    clusters_of,
    counted,
    matrices,
    microseconds,
    tile_name,
)
from syncverify.matmul.schedule import Schedule

Array = np.ndarray[Any, Any]

#: Bytes of L2 in a microsecond on all SMs together, and of a row of a tile.
L2, ROW = 5.6e6, 128
#: Clusters of four of which one group of SMs has more than others, and the part of its time from which on
#: memory limits a launch.
CROWDED, LIMITED = 16, 0.7
#: Columns of tiles of 256 rows up to which the trees know launches, and the time of wider ones by what they
#: say: the median of 41 launches of an H200 with 200 columns.
KNOWN, WIDER = 192, 1.08
_FIELDS = ("tile_m", "tile_n", "consumers", "resident", "persistent", "split_k", "beside")
_COUNTED = tuple(f.name for f in fields(Counts) if f.name not in ("dependent", "long"))
_SIZES = ("M", "N", "K")
#: Columns that are made of those, in the order of ``_shares`` and ``_made``.
_MADE = (
    "log_time", "l2", "filled_time", "memory_time", "tensor_time", "l2_by_memory", "active", "own_steps",
    "wave", "in_flight", "step_time", "result_bytes", "result_share", "steps_by_stages", "n_rest", "k_rest",
    "aspect", "filled_by_products", "tail", "sum_bytes", "waste_m", "waste_n", "full_m", "full_n", "tiles",
)  # fmt: skip
_OWN = (*_FIELDS, "blocks_of_cluster", "one_tile", "staged", "a_t", "b_t", *_SIZES)
COLUMNS = (*_COUNTED, *_OWN, *_MADE)
_counts, _fields = attrgetter(*(f.name for f in fields(Counts))), attrgetter(*_FIELDS)


@dataclass(frozen=True, slots=True)
class Launch:
    """A schedule for given sizes, as the kernel has them; ``stages``: slots of its ring."""

    facts: Facts
    schedule: Schedule
    stages: int
    sizes: Mapping[str, int]

    def counts(self, sms: Processors) -> Counts:
        return counted(self.facts, self.schedule, self.stages, self.sizes, sms)


def table(launches: Sequence[Launch], sms: Processors) -> Counts:
    """The counts of launches, as arrays."""
    found = np.array([_counts(x.counts(sms)) for x in launches], dtype=float)
    return Counts(*found.T)


def columns(c: Coefficients, launches: Sequence[Launch], x: Counts, time: Array) -> Array:
    """What the trees ask of launches: their counts, and ``time`` by the formula."""
    given = np.array([_own(y) for y in launches], dtype=float)
    own = dict(zip(_OWN, given.T, strict=True))
    counts = [getattr(x, name) for name in _COUNTED]
    return np.column_stack([*counts, *own.values(), *_shares(c, x, own, time), *_made(x, own, time)])


def _own(x: Launch) -> tuple[float, ...]:
    """What of a schedule and its sizes no count has."""
    s = x.schedule
    kinds = (s.cluster, s.shares == "one" and s.split_k > 1, s.store == "tma", x.facts.a_t, x.facts.b_t)
    # many products of few rows are like one of many rows
    rows = x.sizes["M"] * matrices(x.sizes)
    return (*_fields(s), *kinds, rows, *(x.sizes[d] for d in _SIZES[1:]))


def _blocks(own: Mapping[str, Array]) -> tuple[Array, Array]:
    """Tiles, and blocks that work on one."""
    tiles = np.ceil(own["M"] / own["tile_m"]) * np.ceil(own["N"] / own["tile_n"])
    pairs = np.where(own["split_k"] > 1, own["split_k"] / np.maximum(own["split_k"] - 1, 1), 1)
    return tiles, np.where(own["one_tile"] > 0, own["split_k"], pairs)


def _shares(c: Coefficients, x: Any, own: Mapping[str, Array], time: Array) -> list[Array]:
    """The predicted time, and the parts of it that L2, shared memory, memory and tensor cores would take."""
    tiles, _ = _blocks(own)
    steps = tiles * x.steps
    l2 = steps * (x.rows + x.crossing) * ROW / L2
    memory = x.bytes * c.memory / 1e6
    tensor = steps * x.products * c.products / c.clock / 132
    filled = steps * x.filled * ROW / L2
    return [np.log(time), l2 / time, filled / time, memory / time, tensor / time, l2 / memory]


def _made(x: Any, own: Mapping[str, Array], time: Array) -> list[Array]:
    """How full SMs, tiles and rings are."""
    tiles, blocks = _blocks(own)
    per_sm = tiles / 132 / own["resident"]
    active = np.minimum(tiles / 132 * blocks, own["resident"])
    steps = x.steps / own["split_k"]
    results = own["M"] * own["N"] * 2
    rows, across = own["M"] / own["tile_m"], own["N"] / own["tile_n"]
    return [
        active, steps, np.ceil(per_sm) / per_sm, x.stages * x.filled * np.minimum(active, 1),
        time / x.steps, results, results / x.bytes, steps / x.stages, own["N"] % 64, own["K"] % 64,
        np.log(own["tile_m"] / own["tile_n"]), active * x.filled / x.products, x.busy_last * x.last,
        x.sums * active, np.ceil(rows) / rows, np.ceil(across) / across, np.minimum(rows, 1),
        np.minimum(across, 1), tiles,
    ]  # fmt: skip


def formula(c: Coefficients, launches: Sequence[Launch], x: Counts) -> Array:
    """Microseconds by the formula alone."""
    tiles = np.array([c.tiles.get(tile_name(y.schedule), 1.0) for y in launches])
    found: Array = microseconds(c, x, tiles)  # type: ignore[arg-type, assignment]
    return found


def _crowded(card: Card, launches: Sequence[Launch], x: Counts, time: Array) -> Array:
    """The factors of launches whose clusters of four lie unevenly on the card's groups of SMs.

    Example: 15 of them read 3.9 TB/s, 16 of them 2.7 (medians of 9 and 6 launches of an H200 with 128 rows or
    fewer); 48 x 7936 x 9024 takes 1.37 times as long so. The trees know too few of these.
    """
    limited = x.bytes * card.coefficients.memory / 1e6 >= LIMITED * time
    many = [clusters_of(y.schedule, y.sizes) * matrices(y.sizes) for y in launches]
    fours = [y.schedule.cluster == 4 and y.schedule.resident == y.schedule.split_k == 1 for y in launches]
    found: Array = np.where(limited & (np.array(many) == CROWDED) & np.array(fours), card.crowded, 1.0)
    return found


def _wider(launches: Sequence[Launch]) -> Array:
    """The factors of tiles that are wider than those that the trees know."""
    wide = [y.schedule.tile_m == 256 and y.schedule.tile_n > KNOWN for y in launches]
    found: Array = np.where(np.array(wide), WIDER, 1.0)
    return found


def estimated(card: Card, launches: Sequence[Launch], multiprocessors: int) -> Array:
    """Microseconds of launches on a card."""
    if not launches:
        return np.zeros(0)
    x = table(launches, Processors(multiprocessors, card.fours))
    time = formula(card.coefficients, launches, x)
    apart: Array = _crowded(card, launches, x, time) * _wider(launches)
    files = [f for f in (card.trees, card.more) if f is not None]
    if not files:
        alone: Array = time * apart
        return alone
    asked = columns(card.coefficients, launches, x, time)
    found: Array = time * apart * np.exp(sum(boosted_trees.read(f, COLUMNS)(asked) for f in files))
    return found


__all__ = ["COLUMNS", "Launch", "columns", "estimated", "formula", "table"]
