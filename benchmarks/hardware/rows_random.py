"""Fusions of rows of any width beside torch.compile and max-autotune on one Hopper GPU.

    python benchmarks/hardware/rows_random.py --seed N --out DIR [--count 60] [--seconds 300] [--explore 0]
        [--without-eager] [--functions compile,max-autotune]

A seed names its points for ever: (operation, type, width), widths from 128 to 131072, spread evenly by their
logarithm; a third of them multiples of 64, a third odd, a third any. ``--explore N`` also times N other
schedules of each point, what ``rows_fit.py`` fits a card's coefficients to. How a point is measured is told
in rows_on_gpu.py; DIR/rows_on_gpu.json has it all. At the end: the geomean of the better of torch.compile and
max-autotune by ours, by kind, and the ten worst. Then the same for what torch.compile makes with this
backend: that is Inductor's code where no kernel is faster. ``--functions``: only these of torch.compile's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.compiler.fusion_cases import fusion_of  # noqa: E402
from benchmarks.hardware import rows_on_gpu  # noqa: E402
from syncverify.fusion import row_menu  # noqa: E402

CASES = (
    "softmax", "log_softmax", "layernorm", "rmsnorm", "row_sum", "row_max", "add+rmsnorm", "add+layernorm",
    "cross_entropy",
)  # fmt: skip
DTYPES = ("bf16", "f16", "f32")
NARROWEST, WIDEST = 128, 131072
Point = dict[str, Any]


def points(seed: int, count: int) -> list[Point]:
    """So many points of a seed."""
    g = random.Random(seed)
    found = []
    for _ in range(count):
        width = int(2 ** g.uniform(math.log2(NARROWEST), math.log2(WIDEST)))
        kind = g.choice(("whole", "odd", "any"))
        if kind == "whole":
            width = -(-width // 64) * 64
        elif kind == "odd":
            width |= 1
        found.append({"case": g.choice(CASES), "dtype": g.choice(DTYPES), "width": width, "settings": []})
    return found


#: How many of what the model ranks first are explored, and from how far down others are drawn.
FIRST, DEPTH = 0.5, 40
#: The fields of a schedule that are explored.
FIELDS = (
    "warps", "lanes", "rows", "blocks_per_sm", "reread", "stream", "peel", "source", "stages",
    "store", "unroll",
)  # fmt: skip


def explored(p: Point, count: int, g: random.Random) -> list[str]:
    """So many other schedules of a point: those that the model ranks first, and some that it does not."""
    order = row_menu.ranked(fusion_of(p["case"], p["dtype"]), p["width"])[1:]
    first = int(count * FIRST)
    some = order[:first] + g.sample(order[first:DEPTH], min(count - first, len(order[first:DEPTH])))
    return [" ".join(f"{n}={getattr(s, n)}" for n in FIELDS) for s in some]


def ratio(p: Point) -> float | None:
    """The better of torch.compile and max-autotune by the schedule that is chosen."""
    arms = p.get("arms", {})
    ours = [n for n in arms if n.startswith("ours ")]
    peers = [arms[n]["us"] for n in ("compile", "max-autotune") if n in arms]
    return min(peers) / arms[ours[0]]["us"] if ours and peers else None


def by_users(p: Point) -> dict[str, float]:
    """What torch.compile gives a user, by what this backend does: with the same mode, and the better mode of
    each."""
    us = {n: a["us"] for n, a in p.get("arms", {}).items()}
    pairs = {m: (us[m], us[n]) for m, n in SAME_MODE.items() if m in us and n in us}
    found = {m: theirs / own for m, (theirs, own) in pairs.items()}
    if len(pairs) == len(SAME_MODE):
        found["the better mode of each"] = min(t for t, _ in pairs.values()) / min(
            o for _, o in pairs.values()
        )
    return found


#: By a function of torch.compile that of this backend with the same mode.
SAME_MODE = {"compile": "backend", "max-autotune": "backend max-autotune"}


KINDS = {
    "all": lambda p: True, "multiples of 64": lambda p: p["width"] % 64 == 0,
    "odd": lambda p: p["width"] % 2 == 1, "up to 1024": lambda p: p["width"] <= 1024,
    "over 32768": lambda p: p["width"] > 32768, "16 bits": lambda p: p["dtype"] != "f32",
    "f32": lambda p: p["dtype"] == "f32",
}  # fmt: skip


def told(found: list[Point]) -> dict[str, Any]:
    """Geomeans by kind, and what is behind."""
    rows = [(r, p) for p in found if (r := ratio(p)) is not None]
    kinds = {}
    for name, which in KINDS.items():
        some = [r for r, p in rows if which(p)]
        if some:
            kinds[name] = {"points": len(some), "geomean": round(statistics.geometric_mean(some), 4)}
    worst = sorted(rows, key=lambda x: x[0])[:10]
    wrong = [shown(p) for p in found if any(not c["ok"] for c in p.get("correct", {}).values())]
    return {
        "kinds": kinds, "worst": [f"{shown(p)}: {r:.3f}" for r, p in worst], "wrong": wrong,
        "not timed": [shown(p) for p in found if ratio(p) is None], "users": _users(found),
    }  # fmt: skip


def _users(found: list[Point]) -> dict[str, Any]:
    """What users get of torch.compile with this backend: by mode the geomean and the ten worst."""
    by_mode: dict[str, list[tuple[float, str]]] = {}
    for p in found:
        for mode, r in by_users(p).items():
            by_mode.setdefault(mode, []).append((r, shown(p)))
    return {
        mode: {
            "points": len(some), "geomean": round(statistics.geometric_mean([r for r, _ in some]), 4),
            "worst": [f"{name}: {r:.3f}" for r, name in sorted(some)[:10]],
        }
        for mode, some in by_mode.items()
    }  # fmt: skip


def shown(p: Point) -> str:
    return f"{p['case']} {p['dtype']} {p['width']}"


def main() -> int:
    start = time.time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--explore", type=int, default=0)
    parser.add_argument("--prepare", action="store_true", help="compiles and proves, without a GPU")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--compile-share", type=float, default=0.55)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--without-eager", action="store_true", help="times compiled functions alone")
    parser.add_argument("--functions", default="", help="of torch.compile's functions these (rows_torch.py)")
    args = parser.parse_args()
    wanted = points(args.seed, args.count)
    g = random.Random(args.seed + 1)
    for p in wanted:
        p["settings"] = explored(p, args.explore, g)
        p["eager"] = not args.without_eager
        if args.functions:
            p["functions"] = args.functions.split(",")
    if args.prepare:
        return 1 if rows_on_gpu.prepare(wanted, args.jobs) else 0
    args.scratch = None
    rows_on_gpu.measure(args, wanted, start)
    found = json.loads((args.out / "rows_on_gpu.json").read_text())
    summary = {"seed": args.seed, **told(found["points"])}
    (args.out / "rows_random.json").write_text(json.dumps({**found, "random": summary}, indent=1))
    print(json.dumps(summary, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
