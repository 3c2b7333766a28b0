"""Fits a card's coefficients of the model of products (``matmul.cost``) to measured launches.

    python benchmarks/hardware/matmul_fit.py FILE [FILE ...] [--folds 3] [--start H200] [--out cards.txt]

FILEs are what ``matmul_random.py`` wrote. Residuals are logarithms of predicted by measured time; launches
near the fastest of their shape count most, for only these are ever chosen. With ``--folds`` shapes are held
out in turn first, and it is told how far off held-out launches are, and how much slower the launch that the
model prefers is than the fastest measured one (regret). Needs SciPy.
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

from syncverify.matmul import Schedule, product  # noqa: E402
from syncverify.matmul.cards import card_of  # noqa: E402
from syncverify.matmul.choose import forms  # noqa: E402
from syncverify.matmul.cost import (  # noqa: E402
    Coefficients,
    Counts,
    Facts,
    counted,
    microseconds,
    tile_name,
)
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
        counts: list[list[float]] = []
        times, shape, self.tiles, self.titles = [], [], list[str](), list[str]()
        for number, row in enumerate(rows):
            m, n, k, layout = row["shape"]
            both = [
                p and (p, Facts.of(p)) for p in (product(layout=layout), product(layout=layout).transposed)
            ]
            own = {s.title: s for s in (_read(x) for x in row.get("schedules", {}).values())}
            for title, us in row["us"].items():
                schedule = own.get(title) or known[layout].get(title)
                if schedule is None:
                    continue
                problem, facts = both[schedule.by_columns] or (None, None)
                assert problem is not None and facts is not None
                sizes = computed(schedule, {"M": m, "N": n, "K": k})
                found = counted(facts, schedule, stages_of(problem, schedule), sizes, SMS)
                counts.append([float(getattr(found, f.name)) for f in fields(Counts)])
                times.append(us)
                shape.append(number)
                self.tiles.append(tile_name(schedule))
                self.titles.append(title)
        self.counts, self.times, self.shape = np.array(counts).T, np.array(times), np.array(shape)

    def predicted(self, values: Sequence[float] | Array, tiles: Array) -> Array:
        c = Coefficients(**dict(zip(NAMES, values, strict=True)), tiles={})
        found: Array = microseconds(c, Counts(*self.counts), tiles)  # type: ignore[arg-type, assignment]
        return found

    def best(self) -> Array:
        """The fastest time of each launch's shape."""
        found = np.full(self.shape.max() + 1, np.inf)
        np.minimum.at(found, self.shape, self.times)
        result: Array = found[self.shape]
        return result


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
    weight = np.sqrt(np.exp(-SLOWER * (table.times / table.best() - 1)) + LEAST)
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


def told(c: Coefficients, rows: Sequence[Row], name: str, kinds: bool = False) -> None:
    """How far off the model is, and how well it chooses."""
    table = Table(rows)
    factors = np.array([c.tiles.get(t, 1.0) for t in table.tiles])
    predicted = table.predicted([getattr(c, n) for n in NAMES], factors)
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
        f"{name}: {len(regret)} shapes, {len(off)} launches, off by {np.median(off):.3f}, near the fastest "
        f"{np.median(near):.3f} (medians); regret {mean(regret):.3f}, p90 {np.quantile(regret, 0.9):.3f}; "
        f"cuBLAS / preferred {mean(ratio):.3f}, / fastest {mean(best):.3f}",
        flush=True,
    )
    if not kinds:
        return
    for kind, which in KINDS.items():
        some = [r for r in rows if which(*r["shape"][:3])]
        if some:
            told(c, some, f"  {kind}")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--start", default="H200", help="the card whose coefficients are started from")
    parser.add_argument("--out", type=Path)
    o = parser.parse_args()
    rows = [r for f in o.files for r in json.loads(f.read_text())["rows"] if r["us"]]
    start = card_of(o.start).coefficients
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
