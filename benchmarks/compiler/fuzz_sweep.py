"""What random programs share: a sweep over seeds, in processes, that says what became of each."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any


def parser(about: str | None) -> argparse.ArgumentParser:
    """The options of every sweep."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--seeds", default="0:200")
    found.add_argument("--jobs", type=int, default=1)
    found.add_argument("--out", type=Path)
    return found


def sweep(tried: Callable[[int], dict[str, Any]], args: argparse.Namespace, name: str) -> None:
    """Tries all seeds; prints those that went wrong as they are met, then how often what was met. Ends the
    program, with status 1 where something went wrong. ``name``: of the file under ``--out``."""
    first, last = map(int, args.seeds.split(":"))
    rows = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for row in pool.map(tried, range(first, last)):
            rows.append(row)
            if row["what"] not in ("right", "refused"):
                print(json.dumps(row), flush=True)
    counts = Counter(r["what"] for r in rows)
    print(dict(counts))
    for why, n in Counter(r["why"] for r in rows if r["what"] == "refused").most_common(20):
        print(f"  {n} x {why}")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{name}.json").write_text(json.dumps(rows, indent=1))
    sys.exit(any(counts[w] for w in ("wrong", "not proved", "error")))
