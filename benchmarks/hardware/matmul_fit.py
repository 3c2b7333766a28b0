"""Fits a card's coefficients of the model of products (``matmul.cost``) to measured launches.

    python benchmarks/hardware/matmul_fit.py FILE [FILE ...] [--folds 3] [--start H200] [--out cards.txt]
    python benchmarks/hardware/matmul_fit.py FILE [FILE ...] --trees syncverify/matmul/h200.trees
    python benchmarks/hardware/matmul_fit.py FILE [FILE ...] --more H100 --trees syncverify/matmul/h100.trees

FILEs are what ``matmul_random.py`` wrote. Residuals are logarithms of predicted by measured time; launches
near the fastest of their shape count most, for only these are ever chosen. With ``--folds`` shapes are held
out in turn first, and it is told how far off held-out launches are, and how much slower the launch that the
model prefers is than the fastest measured one (regret). With ``--more CARD`` the trees of all cards stay, and
others are fitted to what these leave on that card. Needs SciPy.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.hardware.boosting import Boosting  # noqa: E402
from syncverify.base.boosted_trees import BoostedTrees  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402
from syncverify.matmul.cards import Card, card_of  # noqa: E402
from syncverify.matmul.choose import forms  # noqa: E402
from syncverify.matmul.cost import Coefficients, Facts, Processors, microseconds, tile_name  # noqa: E402
from syncverify.matmul.estimate import COLUMNS, Launch, columns, formula, table  # noqa: E402
from syncverify.matmul.lower import computed, stages_of  # noqa: E402

SMS = 132
NAMES = [f.name for f in fields(Coefficients) if f.name != "tiles"]
#: Least and largest values; 0 and four times the start elsewhere. Factors stay near 1.
BOUNDS = {
    "clock": (1200.0, 2000.0), "products": (0.95, 1.6), "operands": (0.5, 2.0), "row": (0.1, 4.0),
    "crossing": (0.0, 2.5), "filled": (0.0, 6.0), "latency": (100.0, 4000.0), "idle": (0.0, 1.0),
    "end": (100.0, 4000.0), "stored": (0.01, 0.2), "ragged": (0.0, 2.0), "turned": (0.0, 3.0),
    "beside": (0.05, 1.0),
    "memory": (0.18, 0.5), "launch": (1.2, 4.0), "cluster_launch": (0.0, 2.0), "dependent": (0.0, 1.0),
    "long": (1.0, 1.1), "cluster": (0.95, 1.15), "one": (0.9, 1.3), "three": (0.9, 1.1),
    "pending": (0.85, 1.1), "split": (0.95, 1.2), "pace": (2.0, 8.0), "whole": (2.0, 8.0),
}  # fmt: skip
#: How much less slower launches count, and the least weight; how hard tiles are held at 1, and how far.
SLOWER, LEAST, HELD, SPAN = 2.5, 0.05, 0.6, 0.4

Row = dict[str, Any]
Array = np.ndarray[Any, Any]


class Table:
    """Launches as columns of counts, their times, and the number of each one's shape."""

    def __init__(self, rows: Sequence[Row]) -> None:
        known = {x: _titles(x) for x in ("KK", "KN", "MK", "MN")}
        times, shape, self.launches, self.titles = [], [], list[Launch](), list[str]()
        for number, row in enumerate(rows):
            m, n, k, layout = row["shape"]
            both = [
                p and (p, Facts.of(p)) for p in (product(layout=layout), product(layout=layout).transposed)
            ]
            given = row.get("schedules", {})
            own = {s.title: s for s in (_read(given[t]) for t in row["us"] if t in given)}
            for title, us in row["us"].items():
                schedule = own.get(title) or known[layout].get(title)
                if schedule is None:
                    continue
                problem, facts = both[schedule.by_columns] or (None, None)
                assert problem is not None and facts is not None
                schedule = replace(schedule, dependent=False)  # as schedules are ranked
                sizes = computed(schedule, {"M": m, "N": n, "K": k})
                self.launches.append(Launch(facts, schedule, stages_of(problem, schedule), sizes))
                times.append(us)
                shape.append(number)
                self.titles.append(title)
        self.tiles = [tile_name(x.schedule) for x in self.launches]
        self.counts, self.times, self.shape = (
            table(self.launches, Processors(SMS)),
            np.array(times),
            np.array(shape),
        )
        names = [r.get("card", "H200") for r in rows]
        self.cards = np.array([card_of(names[n]).name for n in shape])

    def predicted(self, values: Sequence[float] | Array, tiles: Array) -> Array:
        c = Coefficients(**dict(zip(NAMES, values, strict=True)), tiles={})
        found: Array = microseconds(c, self.counts, tiles)  # type: ignore[arg-type, assignment]
        return found

    def weight(self) -> Array:
        """What is near the fastest of its shape counts most."""
        found: Array = np.exp(-SLOWER * (self.times / self.best() - 1)) + LEAST
        return found

    def best(self) -> Array:
        """The fastest time of each launch's shape."""
        found = np.full(self.shape.max() + 1, np.inf)
        np.minimum.at(found, self.shape, self.times)
        result: Array = found[self.shape]
        return result


def _rows(record: Row) -> list[Row]:
    """The shapes of a file, each with its card and the schedules that its launches name: its own, or those of
    the file."""
    of_file = {"schedules": record.get("schedules", {}), "card": record.get("card", "H200")}
    return [{**of_file, **r} for r in record["rows"]]


def _read(given: dict[str, Any]) -> Schedule:
    """A schedule from its fields."""
    registers = given.get("registers")
    return Schedule(**{**given, "registers": tuple(registers) if registers else None})


def _titles(layout: str) -> dict[str, Schedule]:
    plain = forms(product(layout=layout))
    return {s.title: s for x in plain for s in (x, replace(x, dependent=True))}


def fitted(rows: Sequence[Row], start: Coefficients) -> Coefficients:
    """The coefficients that suit the rows best."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped, import-not-found, unused-ignore]

    table = Table(rows)
    weight = np.sqrt(table.weight())
    tiles = sorted(set(table.tiles))
    at = np.array([tiles.index(t) for t in table.tiles])
    scale = np.array([max(getattr(start, n), 1e-3) for n in NAMES])
    low = np.array([BOUNDS.get(n, (0.0, 0.0))[0] for n in NAMES]) / scale
    high = (
        np.array([BOUNDS[n][1] if n in BOUNDS else 4 * s for n, s in zip(NAMES, scale, strict=True)]) / scale
    )
    count = len(NAMES)

    def residuals(x: Array) -> Array:
        off = np.log(table.predicted(x[:count] * scale, np.exp(x[count:])[at]) / table.times)
        return np.concatenate([weight * off, HELD * x[count:]])

    inside = np.clip(1.0, low + 1e-6 * (high - low), high - 1e-6 * (high - low))
    first = np.concatenate([inside, np.log([start.tiles.get(t, 1.0) for t in tiles])])
    span = np.full(len(tiles), SPAN)
    limits = (np.concatenate([low, -span]), np.concatenate([high, span]))
    first = np.clip(first, limits[0] + 1e-9, limits[1] - 1e-9)
    found = least_squares(residuals, first, loss="soft_l1", f_scale=0.1, bounds=limits, max_nfev=150).x
    values = {n: float(v) for n, v in zip(NAMES, found[:count] * scale, strict=True)}
    shares = {t: float(np.exp(x)) for t, x in zip(tiles, found[count:], strict=True)}
    return Coefficients(**values, tiles={**start.tiles, **shares})


#: The most that a launch may seem off, and how trees of one card are fitted.
MOST_OFF, OF_ONE_CARD = 0.7, Boosting(trees=600, rate=0.04)


def boosted(
    rows: Sequence[Row], known: BoostedTrees | None = None, way: Boosting | None = None
) -> BoostedTrees:
    """What the formula is off by, or the formula with ``known`` trees, launch against launch of one shape:
    what all of them share is left out."""
    x = Table(rows)
    asked, time = _asked(x, None)
    off, weight, count = np.log(x.times / time), x.weight(), x.shape.max() + 1
    if known is not None:
        off = off - known(asked)
    shared = np.bincount(x.shape, off * weight, count) / np.maximum(np.bincount(x.shape, weight, count), 1e-9)
    inside = np.clip(off - shared[x.shape], -MOST_OFF, MOST_OFF)
    return (way or Boosting()).fit(COLUMNS, asked, inside, weight)


def _asked(x: Table, c: Coefficients | None) -> tuple[Array, Array]:
    """The columns of launches, and the formula's times: by ``c``, or by the card that each ran on."""
    asked, time = np.empty((len(x.times), len(COLUMNS))), np.empty(len(x.times))
    for card in np.unique(x.cards):
        of_card = np.flatnonzero(x.cards == card)
        own, some = c or card_of(str(card)).coefficients, [x.launches[n] for n in of_card]
        counts = table(some, Processors(SMS))
        time[of_card] = formula(own, some, counts)
        asked[of_card] = columns(own, some, counts, time[of_card])
    return asked, time


def told(
    c: Coefficients | None,
    rows: Sequence[Row],
    name: str,
    kinds: bool = False,
    trees: Sequence[BoostedTrees] = (),
) -> None:
    """How far off the model is, and how well it chooses."""
    table = Table(rows)
    asked, predicted = _asked(table, c)
    for correction in trees:
        predicted = predicted * np.exp(correction(asked))
    off = np.abs(np.log(predicted / table.times))
    near = off[table.times < 1.25 * table.best()]
    regret, ratio, best = [], [], []
    for number in np.unique(table.shape):
        mine = np.flatnonzero(table.shape == number)
        pick = mine[np.argmin(predicted[mine])]
        fastest = table.times[mine].min()
        regret.append(table.times[pick] / fastest)
        ratio.append(rows[number]["cublas"] / table.times[pick])
        best.append(rows[number]["cublas"] / fastest)
    print(
        f"{name}: {len(regret)} shapes, {len(off)} launches, worst {min(ratio):.3f}, "
        f"off by {np.median(off):.3f}, near the fastest {np.median(near):.3f} (medians); "
        f"regret {mean(regret):.3f}, p90 {np.quantile(regret, 0.9):.3f}; "
        f"cuBLAS / preferred {mean(ratio):.3f}, / fastest {mean(best):.3f}",
        flush=True,
    )
    if not kinds:
        return
    for kind, which in KINDS.items():
        some = [r for r in rows if which(*r["shape"][:3])]
        if some:
            told(c, some, f"  {kind}", trees=trees)


KINDS = {
    "M <= 128": lambda m, n, k: m <= 128, "K <= 512": lambda m, n, k: k <= 512,
    "ragged": lambda m, n, k: bool(m % 128 or n % 128 or k % 64),
    "large": lambda m, n, k: 2 * m * n * k > 1e11,
}  # fmt: skip


def mean(x: Sequence[float]) -> float:
    return math.exp(float(np.mean(np.log(x))))


def text(c: Coefficients) -> str:
    """As ``matmul/cards.py`` has it."""

    def lines(items: Mapping[str, float], sign: str, indent: int) -> str:
        found, line = [], " " * indent
        for k, v in items.items():
            item = f"{sign[0]}{k}{sign[1:]}{v if v > 1e-6 else 0:.4g}, "
            if len(line) + len(item) > 108:
                found.append(line.rstrip())
                line = " " * indent
            line += item
        return "\n".join([*found, line.rstrip()])

    named = lines({n: getattr(c, n) for n in NAMES}, "\0=", 8).replace("\0", "")
    return f"{named}\n        tiles={{\n{lines(c.tiles, chr(34) + chr(34) + ': ', 12)}\n        }},\n"


def boost(rows: Sequence[Row], folds: int, out: Path, card: Card | None) -> None:
    """Trees into a file, for all rows or for a card's beside those that it has; first with shapes held out in
    turn. What was fitted with the trees of all cards is not held out: of those its own error is told too."""
    known, way = None, None
    if card is not None and card.trees is not None:
        known, way = BoostedTrees.parse(card.trees.read_text(), COLUMNS), OF_ONE_CARD
        rows = [r for r in rows if card_of(r["card"]) == card]
    before = () if known is None else (known,)
    told(None, rows, "the trees of all cards" if before else "the formula alone", bool(before), before)
    turn = np.random.default_rng(0).permutation(len(rows)) % max(folds, 1)
    for fold in range(folds):
        kept = [r for r, f in zip(rows, turn, strict=True) if f != fold]
        held = [r for r, f in zip(rows, turn, strict=True) if f == fold]
        found = boosted(kept, known, way)
        told(None, held, f"held out {fold + 1} of {folds}", kinds=True, trees=(*before, found))
    found = boosted(rows, known, way)
    out.write_text(found.text(), encoding="utf-8")
    told(None, rows, "all", trees=(*before, found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--start", default="H200", help="the card whose coefficients are started from")
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--trees", type=Path, help="the coefficients stay, and trees are fitted to their errors"
    )
    parser.add_argument("--more", default="", help="the card that trees are fitted for beside those of all")
    o = parser.parse_args()
    rows = [r for f in o.files for r in _rows(json.loads(f.read_text())) if r["us"]]
    start = card_of(o.start).coefficients
    if o.trees:
        boost(rows, o.folds, o.trees, card_of(o.more) if o.more else None)
        return
    for fold in range(o.folds):
        kept = [r for i, r in enumerate(rows) if i % o.folds != fold]
        held = [r for i, r in enumerate(rows) if i % o.folds == fold]
        told(fitted(kept, start), held, f"held out {fold + 1} of {o.folds}")
    found = fitted(rows, start)
    told(found, rows, "all", kinds=True)
    if o.out:
        o.out.write_text(text(found))


if __name__ == "__main__":
    main()
