"""Fits a card's coefficients of the model of rows (``fusion.row_cost``) to measured launches.

    python benchmarks/hardware/rows_fit.py FILE [FILE ...] [--folds 3]
    python benchmarks/hardware/rows_fit.py FILE [FILE ...] --trees syncverify/fusion/h200_rows.trees

FILEs are what ``rows_random.py --explore N`` or ``rows_gather.py`` wrote. Residuals are logarithms of
predicted by measured time; launches near the fastest of their point count most, for only these are ever
chosen. With ``--trees`` the coefficients stay as they are, and trees are fitted to their errors. With
``--folds`` points are held out in turn first, and it is told how far off the model is there, and how much
slower the schedule that it prefers is than the fastest measured one (regret). Needs SciPy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.compiler.fusion_cases import fusion_of  # noqa: E402
from benchmarks.hardware.boosting import Boosting  # noqa: E402
from syncverify.base.boosted_trees import BoostedTrees  # noqa: E402
from syncverify.fusion.row_cards import coefficients_of  # noqa: E402
from syncverify.fusion.row_cost import H200, Coefficients, cycles, share  # noqa: E402
from syncverify.fusion.row_estimate import COLUMNS, Estimate, RowLaunch, columns, formula  # noqa: E402
from syncverify.fusion.row_schedule import RowSchedule  # noqa: E402

NAMES = [f.name for f in fields(Coefficients)]
SCHEDULE = {f.name for f in fields(RowSchedule)}
#: Cycles of a microsecond, and multiprocessors.
CLOCK, SMS = 1750.0, 132
BOUNDS = {
    "bandwidth": (17.0, 22.0), "pace": (1.5, 10.0), "spill": (0.0, 200.0),
    "beside": (12.0, 40.0), "tensor": (2.0, 5.0), "repeat": (100.0, 3000.0), "shuffle": (10.0, 60.0),
    "cached": (0.0, 1.0), "level2": (1e5, 1e6), "latency": (300.0, 4000.0), "start": (0.0, 200.0),
    "edges": (0.0, 200.0), "convert": (0.0, 4.0), "barrier": (0.0, 400.0),
}  # fmt: skip
#: How much less slower launches count, and the least weight; microseconds that a launch takes beside rows.
SLOWER, LEAST, LAUNCH = 2.0, 0.1, 2.0
#: How often launches are weighed again by what the model says of them.
ROUNDS = 5

Array = np.ndarray[Any, Any]


class Table:
    """Launches as columns of counts, and their times."""

    def __init__(self, points: Sequence[dict[str, Any]]) -> None:
        more, times, point, self.names = [], [], [], list[str]()
        self.launches: list[RowLaunch] = []
        for number, p in enumerate(points):
            model = Estimate(fusion_of(p["case"], p["dtype"]))
            for name, given in p["schedules"].items():
                if f"ours {name}" not in p["arms"]:
                    continue
                schedule = RowSchedule(**{k: v for k, v in given.items() if k in SCHEDULE})
                x = model.launch(schedule, p["width"])
                self.launches.append(x)
                more.append((x.facts.steps, share(x.facts), p["rows"] / SMS / CLOCK))
                times.append(p["arms"][f"ours {name}"]["us"])
                point.append(number)
                self.names.append(name)
        self.counts, _ = formula(H200, self.launches)
        self.more = np.array(more).T
        self.times, self.point = np.array(times), np.array(point)
        self.cards = np.array([points[n].get("card", "") for n in point])

    def predicted(self, values: Sequence[float] | Array) -> Array:
        c = Coefficients(*values)
        found: Array = cycles(c, self.counts, self.more[0], self.more[1])  # type: ignore[arg-type, assignment]
        return found * self.more[2] + LAUNCH

    def best(self) -> Array:
        found = np.full(self.point.max() + 1, np.inf)
        np.minimum.at(found, self.point, self.times)
        result: Array = found[self.point]
        return result


def fitted(points: Sequence[dict[str, Any]], start: Coefficients) -> Coefficients:
    """The coefficients that suit the points best."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped, import-not-found, unused-ignore]

    table, best = Table(points), Table(points).best()
    scale = np.array([max(getattr(start, n), 1e-3) for n in NAMES])
    low = np.array([BOUNDS.get(n, (0.0, 0.0))[0] for n in NAMES]) / scale
    high = (
        np.array([BOUNDS[n][1] if n in BOUNDS else 8 * s for n, s in zip(NAMES, scale, strict=True)]) / scale
    )

    def weighed(x: Array) -> Array:
        """What is near the fastest, or seems to be."""
        seems = np.minimum(table.times, table.predicted(x * scale))
        found: Array = np.sqrt(np.exp(-SLOWER * np.maximum(seems / best - 1, 0)) + LEAST)
        return found

    def residuals(x: Array) -> Array:
        off: Array = weight * np.log(table.predicted(x * scale) / table.times)
        return np.concatenate([off, 0.02 * (x - 1)])

    found = np.clip(1.0, low + 1e-6, high - 1e-6)
    for _ in range(ROUNDS):
        weight = weighed(found)
        found = least_squares(
            residuals, found, loss="soft_l1", f_scale=0.5, bounds=(low, high), max_nfev=100
        ).x
        found = np.clip(found, low + 1e-9, high - 1e-9)
    return Coefficients(*(float(v) for v in found * scale))


#: Trees for rows: what a launch may seem off at most, and how they are made.
MOST_OFF, TREES = 1.0, Boosting()


def boosted(points: Sequence[dict[str, Any]]) -> BoostedTrees:
    """What the formula is off by, launch against launch of one point: what all of them share is left out.
    What seems near the fastest counts like what is."""
    x = Table(points)
    asked, time = _asked(x, None)
    least = np.full(x.point.max() + 1, np.inf)
    np.minimum.at(least, x.point, time)
    slower = np.maximum(np.minimum(x.times / x.best(), time / least[x.point]) - 1, 0)
    near = np.exp(-SLOWER * (x.times / x.best() - 1)) + LEAST
    off = np.log(x.times / time)
    shared = np.bincount(x.point, off * near) / np.maximum(np.bincount(x.point, near), 1e-9)
    inside = np.clip(off - shared[x.point], -MOST_OFF, MOST_OFF)
    return TREES.fit(COLUMNS, asked, inside, np.exp(-SLOWER * slower) + LEAST)


def _asked(x: Table, c: Coefficients | None) -> tuple[Array, Array]:
    """The columns of launches, and the formula's microseconds: by ``c``, or by the card that each ran on."""
    asked, time = np.empty((len(x.times), len(COLUMNS))), np.empty(len(x.times))
    for card in np.unique(x.cards):
        of_card = np.flatnonzero(x.cards == card)
        own, some = c or coefficients_of(str(card)), [x.launches[n] for n in of_card]
        counts, time[of_card] = formula(own, some)
        asked[of_card] = columns(own, some, counts, time[of_card])
    return asked, time * x.more[2] + LAUNCH


def boost(points: Sequence[dict[str, Any]], folds: int, out: Path) -> None:
    """Trees for all points into a file; first with points held out in turn."""
    told(None, points, "the formula alone")
    turn = np.random.default_rng(0).permutation(len(points)) % max(folds, 1)
    for fold in range(folds):
        kept = [p for p, f in zip(points, turn, strict=True) if f != fold]
        held = [p for p, f in zip(points, turn, strict=True) if f == fold]
        told(None, held, f"held out {fold + 1} of {folds}", 3, boosted(kept))
    found = boosted(points)
    out.write_text(found.text(), encoding="utf-8")
    told(None, points, "all", trees=found)


def told(
    c: Coefficients | None, points: Sequence[dict[str, Any]], name: str, worst: int = 0,
    trees: BoostedTrees | None = None,
) -> None:  # fmt: skip
    """How far off the model is, and how well it chooses."""
    table = Table(points)
    asked, guess = _asked(table, c)
    if trees is not None:
        guess = guess * np.exp(trees(asked))
    off = np.abs(np.log(guess / table.times))
    near = off[table.times < 1.25 * table.best()]
    regret, ratio, best, rows = [], [], [], []
    for number in np.unique(table.point):
        mine = np.flatnonzero(table.point == number)
        pick = mine[np.argmin(guess[mine])]
        p = points[number]
        peers = [p["arms"][n]["us"] for n in ("compile", "max-autotune") if n in p["arms"]]
        regret.append(table.times[pick] / table.times[mine].min())
        rows.append(
            (
                regret[-1],
                p["case"],
                p["dtype"],
                p["width"],
                table.names[pick],
                table.names[mine[np.argmin(table.times[mine])]],
            )
        )
        if peers:
            ratio.append(min(peers) / table.times[pick])
            best.append(min(peers) / table.times[mine].min())
    mean = statistics.geometric_mean
    print(
        f"{name}: {len(regret)} points, {len(off)} launches, off by {np.median(off):.3f}, near the fastest "
        f"{np.median(near):.3f} (medians); regret {mean(regret):.3f}, p90 {np.quantile(regret, 0.9):.3f}; "
        f"peer / preferred {mean(ratio or [1]):.3f}, / fastest {mean(best or [1]):.3f}, "
        f"worst {min(ratio or [1]):.3f}"
    )
    for row in sorted(rows, reverse=True)[:worst]:
        regretted, case, dtype, width, preferred, fastest = row
        print(f"   {regretted:.2f} {case} {dtype} {width} preferred {preferred} fastest {fastest}")


def _points(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The points of a file that have launches, each with its card. No tree gives the time of clusters."""
    card, found = record.get("card", "H200"), list[dict[str, Any]]()
    for p in record["points"]:
        alone = {n: s for n, s in p.get("schedules", {}).items() if not s.get("cluster")}
        found += [{"card": card, **p, "schedules": alone}] if alone else []
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--worst", type=int, default=12)
    parser.add_argument("--trees", type=Path)
    o = parser.parse_args()
    points = [p for f in o.files for p in _points(json.loads(f.read_text()))]
    if o.trees:
        boost(points, o.folds, o.trees)
        return
    for fold in range(o.folds):
        kept = [p for i, p in enumerate(points) if i % o.folds != fold]
        held = [p for i, p in enumerate(points) if i % o.folds == fold]
        told(fitted(kept, H200), held, f"held out {fold + 1} of {o.folds}")
    found = fitted(points, H200)
    told(found, points, "all", o.worst)
    print(", ".join(f"{n}={getattr(found, n):.4g}" for n in NAMES))


if __name__ == "__main__":
    main()
