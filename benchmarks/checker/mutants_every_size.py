"""Mutants of persistent matrix products, judged for every size beside the exact check: none that is wrong at
some size may be proved for all.

    python benchmarks/checker/mutants_every_size.py [--jobs 2] [--of 2] [--schedule NAME ...] [--out FILE]

Rings of many slots and blocks that share tiles behind whole ones, whose states stand for many places. A check
may take ``SECONDS`` of wall time ("limit").
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.checker.matmul_mutants import SCHEDULES as FEW_SLOTS  # noqa: E402
from benchmarks.checker.matmul_mutants import judge, mutants  # noqa: E402
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict  # noqa: E402
from syncverify.driver.ir import check_kernel  # noqa: E402
from syncverify.ir.text.parser import parse  # noqa: E402
from syncverify.ir.text.printer import print_kernel  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402
from syncverify.matmul.choose import TWO  # noqa: E402
from syncverify.matmul.pipeline import build  # noqa: E402

SECONDS = 90
FOR_ALL = "proved for every size"
SCHEDULES = {
    name: FEW_SLOTS[name]
    for name in ("persistent", "persistent tma", "cluster", "pairs, persistent", "one, persistent")
} | {
    "8 slots": Schedule(128, 64, stages=8, persistent=True, store="tma"),
    "8 slots, pending": Schedule(128, 64, stages=8, persistent=True, store="tma", pending=1),
    "8 slots, three neighbours": Schedule(
        128, 64, stages=8, persistent=True, store="tma", split_k=3, shares="pairs"
    ),
    "3 slots, four neighbours": Schedule(
        256, 128, registers=TWO, stages=3, persistent=True, store="tma", split_k=4, shares="pairs"
    ),
    "9 slots, five at one": Schedule(
        64, 32, consumers=1, stages=9, persistent=True, split_k=5, shares="one"
    ),
}  # fmt: skip


class Late(Exception):  # noqa: N818 -- control flow
    """A check took too long."""


def _late(*_: Any) -> None:
    raise Late


def judged(task: tuple[str, int]) -> dict[str, Any]:
    """One mutant by the exact check and for every size."""
    name, number = task
    (kernel,) = parse(print_kernel(build(product(), SCHEDULES[name])), f"{name}.syncir")
    m = list(mutants(kernel))[number]
    exact, rule = judge(m.kernel)
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        report = check_kernel(m.kernel, {}, Policy.PRACTICAL, scope=ScopeKind.ALL)
        every = report.verdict is Verdict.PROVED and report.scope.kind is ScopeKind.ALL
        found = FOR_ALL if every else report.verdict.value
    except Late:
        found = "limit"
    finally:
        signal.alarm(0)
    row = {"schedule": name, "line": m.line, "what": m.what}
    return row | {"exact": exact.value, "rule": rule, "every size": found}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--schedule", nargs="+", default=[])
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--of", type=int, default=1, help="one of so many mutants")
    options.add_argument("--out", type=Path)
    args = options.parse_args()
    tasks = []
    for name in args.schedule or SCHEDULES:
        (kernel,) = parse(print_kernel(build(product(), SCHEDULES[name])), f"{name}.syncir")
        tasks += [(name, i) for i, _ in enumerate(mutants(kernel))]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for row in pool.map(judged, tasks[:: args.of]):
            rows.append(row)
            print(*row.values(), sep=" | ", flush=True)
            if args.out is not None:
                args.out.write_text(json.dumps(rows, indent=1) + "\n")
    for (exact, every), times in sorted(Counter((r["exact"], r["every size"]) for r in rows).items()):
        print(f"{times:5} {exact} / {every}")
    wrong = [r for r in rows if r["exact"] == "refuted" and r["every size"] == FOR_ALL]
    for r in wrong:
        print("wrong:", r)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
